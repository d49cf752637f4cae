// SPDX-License-Identifier: BSD-2-Clause
// The opx fabric object.
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "prov/opx/opx.h"

static int fabric_close(struct fid *fid)
{
	struct kit_fabric *f = container_of(fid, struct kit_fabric, fid.fid);
	int ret = kit_fabric_fini(f);

	if (!ret)
		mem_free(f);
	return ret;
}

static struct fi_ops fabric_fi_ops;
static struct fi_ops_fabric fabric_ops;

/* Tables are filled once: other threads use them from then on. */
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;

/* No passive endpoints: as in the real provider. */
static void fill_ops(void)
{
	fabric_fi_ops = kit_no_fi_ops;
	fabric_fi_ops.close = fabric_close;
	fabric_ops = kit_no_fabric_ops;
	fabric_ops.eq_open = kit_eq_open; /* stock programs open one unasked; endpoints report nothing there */
	fabric_ops.domain = opx_domain_open;
	fabric_ops.wait_open = kit_wait_open;
	fabric_ops.trywait = kit_trywait;
}

int opx_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct kit_fabric *f;
	int ret;

	if (!attr || !fabric || (attr->name && strcmp(attr->name, "OPX-100") && strcmp(attr->name, "OPX")))
		return -FI_EINVAL;
	f = mem_alloc(sizeof(*f));
	if (!f)
		return -FI_ENOMEM;
	pthread_once(&ops_once, fill_ops);
	ret = kit_fabric_init(f, &g_opx_prov, attr, &fabric_fi_ops, &fabric_ops, context);
	if (ret) {
		mem_free(f);
		return ret;
	}
	*fabric = &f->fid;
	return 0;
}
