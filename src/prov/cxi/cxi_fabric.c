// SPDX-License-Identifier: BSD-2-Clause
// The cxi fabric object.
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "prov/cxi/cxi.h"

static int fabric_close(struct fid *fid)
{
	struct cxi_fabric *f = container_of(fid, struct cxi_fabric, kit.fid.fid);
	int ret = kit_fabric_fini(&f->kit);

	if (!ret)
		mem_free(f);
	return ret;
}

static struct fi_ops fabric_fi_ops;
static struct fi_ops_fabric fabric_ops;

/* Tables are filled once: other threads use them from then on. */
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;

static void fill_ops(void)
{
	fabric_fi_ops = kit_no_fi_ops;
	fabric_fi_ops.close = fabric_close;
	fabric_ops = kit_no_fabric_ops;
	fabric_ops.domain = cxi_domain_open;
	fabric_ops.eq_open = kit_eq_open;
	fabric_ops.wait_open = kit_wait_open;
	fabric_ops.trywait = kit_trywait;
}

int cxi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct cxi_fabric *f;
	int ret;

	if (!attr || !fabric || (attr->name && strncasecmp(attr->name, "cxi", 3)))
		return -FI_EINVAL;
	f = mem_alloc(sizeof(*f));
	if (!f)
		return -FI_ENOMEM;
	pthread_once(&ops_once, fill_ops);
	ret = kit_fabric_init(&f->kit, &g_cxi_prov, attr, &fabric_fi_ops, &fabric_ops, context);
	if (ret) {
		mem_free(f);
		return ret;
	}
	*fabric = &f->kit.fid;
	return 0;
}
