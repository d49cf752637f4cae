// SPDX-License-Identifier: BSD-2-Clause
// The built cxi module as libfabric loads it: once, twice, left open at exit; and no table of any of its objects has a NULL in it, scalable
// endpoints and shared contexts included. SOFTFABRIC_MODULE names the module.
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include "base/base.h"
#include "unit.h"

#define API FI_VERSION(1, 17)

/* One of each object. */
struct objs {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct fid_ep *ep, *sep, *tx, *rx, *srx;
	struct fid_stx *stx;
};

static const char *g_module, *g_self;
static void *g_handle;
static struct fi_provider *g_prov;
static char g_mem[4096];

/* --- objects ---------------------------------------------------------------------------------------------------- */

static void objs_open(struct objs *o)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_rx_attr rx;
	struct fi_tx_attr tx;

	memset(o, 0, sizeof(*o));
	assert_int_equal(g_prov->getinfo(API, NULL, NULL, 0, NULL, &o->info), 0);
	tx = *o->info->tx_attr;
	rx = *o->info->rx_attr;
	assert_int_equal(g_prov->fabric(o->info->fabric_attr, &o->fabric, NULL), 0);
	assert_int_equal(fi_eq_open(o->fabric, &eq, &o->eq, NULL), 0);
	assert_int_equal(fi_domain(o->fabric, o->info, &o->domain, NULL), 0);
	assert_int_equal(fi_av_open(o->domain, &av, &o->av, NULL), 0);
	assert_int_equal(fi_cq_open(o->domain, &cq, &o->cq, NULL), 0);
	assert_int_equal(fi_cntr_open(o->domain, NULL, &o->cntr, NULL), 0);
	assert_int_equal(fi_mr_reg(o->domain, g_mem, sizeof(g_mem), FI_REMOTE_READ, 0, 0, 0, &o->mr, NULL), 0);
	assert_int_equal(fi_endpoint(o->domain, o->info, &o->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(o->ep, &o->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(o->ep), 0);
	assert_int_equal(fi_scalable_ep(o->domain, o->info, &o->sep, NULL), 0);
	assert_int_equal(fi_tx_context(o->sep, 0, &tx, &o->tx, NULL), 0);
	assert_int_equal(fi_rx_context(o->sep, 0, &rx, &o->rx, NULL), 0);
	assert_int_equal(fi_stx_context(o->domain, &tx, &o->stx, NULL), 0);
	assert_int_equal(fi_srx_context(o->domain, &rx, &o->srx, NULL), 0);
}

static void objs_close(struct objs *o)
{
	assert_int_equal(fi_close(&o->srx->fid), 0);
	assert_int_equal(fi_close(&o->stx->fid), 0);
	assert_int_equal(fi_close(&o->rx->fid), 0);
	assert_int_equal(fi_close(&o->tx->fid), 0);
	assert_int_equal(fi_close(&o->sep->fid), 0);
	assert_int_equal(fi_close(&o->ep->fid), 0);
	assert_int_equal(fi_close(&o->mr->fid), 0);
	assert_int_equal(fi_close(&o->cntr->fid), 0);
	assert_int_equal(fi_close(&o->cq->fid), 0);
	assert_int_equal(fi_close(&o->av->fid), 0);
	assert_int_equal(fi_close(&o->domain->fid), 0);
	assert_int_equal(fi_close(&o->eq->fid), 0);
	assert_int_equal(fi_close(&o->fabric->fid), 0);
	fi_freeinfo(o->info);
}

/* --- loading ---------------------------------------------------------------------------------------------------- */

static struct fi_provider *prov_ini(void *handle)
{
	struct fi_provider *(*ini)(void);
	void *sym = dlsym(handle, "fi_prov_ini");

	assert_non_null(sym);
	memcpy(&ini, &sym, sizeof(ini)); /* POSIX's way around ISO C */
	return ini();
}

static void prov_ini__once_and_private(void **state)
{
	(void)state;
	assert_string_equal(g_prov->name, "cxi");
	assert_true(g_prov->version >= FI_VERSION(1000, 0)); /* above every built-in one */
	assert_null(prov_ini(g_handle));
	assert_null(dlsym(RTLD_DEFAULT, "fi_prov_ini"));
}

static void dlclose__objects_stay_usable(void **state)
{
	struct objs o;
	char entry[256];

	(void)state;
	objs_open(&o);
	assert_int_equal(dlclose(g_handle), 0);
	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	assert_non_null(g_handle); /* -z nodelete: threads may run in it */
	assert_int_equal(fi_cq_read(o.cq, entry, 1), -FI_EAGAIN);
	objs_close(&o);
}

/* Runs this program as "self @mode" with FI_PROVIDER_PATH=@path. Return: its exit status. */
static int run_self(const char *mode, const char *path)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		setenv("FI_PROVIDER_PATH", path, 1);
		unsetenv("LD_LIBRARY_PATH");
		setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* to leave everything open is the point */
		execl(g_self, g_self, mode, (char *)NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* As a process: how many infos cxi offers through the core, as exit status. */
static int main_list(void)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;
	int cnt = 0;

	hints->fabric_attr->prov_name = strdup("cxi");
	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (fi_getinfo(API, NULL, NULL, 0, hints, &list))
		return 90;
	for (struct fi_info *i = list; i; i = i->next)
		cnt += !strcmp(i->fabric_attr->prov_name, "cxi");
	fi_freeinfo(list);
	fi_freeinfo(hints);
	return cnt;
}

/* As a process: everything open, and main() returns. */
static int main_exit(void)
{
	static struct objs o;
	char buf[256];

	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);
	if (!g_handle)
		return 91;
	g_prov = prov_ini(g_handle);
	objs_open(&o);
	return fi_cq_read(o.cq, buf, 1) == -FI_EAGAIN ? 0 : 92;
}

static void path__one_folder_twice_offers_cxi_once(void **state)
{
	char file[4096], path[8300], *dir;
	int once;

	(void)state;
	snprintf(file, sizeof(file), "%s", g_module);
	dir = dirname(file);
	once = run_self("list", dir);
	assert_in_range(once, 1, 16);
	snprintf(path, sizeof(path), "%s:%s", dir, dir);
	assert_int_equal(run_self("list", path), once);
}

static void exit__with_everything_open(void **state)
{
	(void)state;
	assert_int_equal(run_self("exit", ""), 0);
}

/* --- no NULL in any table ---------------------------------------------------------------------------------------- */

/* Every table of libfabric is a size_t size, then function pointers. */
static void table_full(const char *name, const void *ops)
{
	size_t size;

	if (!ops)
		fail_msg("%s: no table", name);
	memcpy(&size, ops, sizeof(size));
	if (size <= sizeof(size) || size > 64 * sizeof(void *) || size % sizeof(void *))
		fail_msg("%s: size %zu", name, size);
	for (size_t at = sizeof(size); at < size; at += sizeof(void *)) {
		uintptr_t fn;

		memcpy(&fn, (const char *)ops + at, sizeof(fn));
		if (!fn)
			fail_msg("%s: entry %zu is NULL", name, at / sizeof(void *) - 1);
	}
}
#define FULL(ops_) table_full(#ops_, ops_)

static void ep_full(const struct fid_ep *ep)
{
	FULL(ep->fid.ops);
	FULL(ep->ops);
	FULL(ep->cm);
	FULL(ep->msg);
	FULL(ep->rma);
	FULL(ep->tagged);
	FULL(ep->atomic);
	FULL(ep->collective);
}

static void tables__are_full(void **state)
{
	struct fid_ep *alias = NULL;
	struct objs o;

	(void)state;
	objs_open(&o);
	FULL(o.fabric->fid.ops);
	FULL(o.fabric->ops);
	FULL(o.eq->fid.ops);
	FULL(o.eq->ops);
	FULL(o.domain->fid.ops);
	FULL(o.domain->ops);
	FULL(o.domain->mr);
	FULL(o.av->fid.ops);
	FULL(o.av->ops);
	FULL(o.cq->fid.ops);
	FULL(o.cq->ops);
	FULL(o.cntr->fid.ops);
	FULL(o.cntr->ops);
	FULL(o.mr->fid.ops);
	FULL(o.info->nic->fid.ops);
	FULL(o.stx->fid.ops);
	ep_full(o.ep);
	ep_full(o.sep);
	ep_full(o.tx);
	ep_full(o.rx);
	ep_full(o.srx);
	assert_int_equal(fi_ep_alias(o.ep, &alias, FI_TRANSMIT), 0);
	ep_full(alias);
	assert_int_equal(fi_close(&alias->fid), 0);
	objs_close(&o);
}

/* --- what is not there is refused ---------------------------------------------------------------------------------- */

static void refused(long ret, const char *call, int line)
{
	if (ret >= 0)
		fail_msg("line %d: %s gave %ld", line, call, ret);
}
#define REFUSED(call_) refused((long)(call_), #call_, __LINE__)

static void refused__what_is_not_there(void **state)
{
	struct fid_pep *pep;
	struct fid_mc *mc;
	size_t len = sizeof(g_mem);
	void *ops;
	struct objs o;

	(void)state;
	objs_open(&o);
	REFUSED(fi_passive_ep(o.fabric, o.info, &pep, NULL));
	REFUSED(fi_connect(o.ep, g_mem, NULL, 0));
	REFUSED(o.ep->cm->listen((struct fid_pep *)o.ep));
	REFUSED(fi_accept(o.ep, NULL, 0));
	REFUSED(fi_shutdown(o.ep, 0));
	REFUSED(fi_getpeer(o.ep, g_mem, &len));
	REFUSED(fi_join(o.ep, g_mem, 0, &mc, NULL));
	REFUSED(fi_barrier(o.ep, 0, NULL));
	REFUSED(fi_allreduce(o.ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, FI_SUM, 0, NULL));
	REFUSED(fi_open_ops(&o.fabric->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_open_ops(&o.domain->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_open_ops(&o.mr->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_control(&o.domain->fid, 9999, g_mem));
	REFUSED(fi_control(&o.mr->fid, 9999, NULL));
	REFUSED(fi_control(&o.ep->fid, 9999, NULL));
	REFUSED(fi_control(&o.stx->fid, 9999, NULL));
	REFUSED(o.fabric->fid.ops->bind(&o.fabric->fid, &o.eq->fid, 0));
	REFUSED(o.cq->fid.ops->bind(&o.cq->fid, &o.eq->fid, 0));
	REFUSED(fi_send(o.rx, g_mem, 8, NULL, 0, NULL));
	REFUSED(fi_recv(o.tx, g_mem, 8, NULL, 0, NULL));
	REFUSED(fi_send(o.sep, g_mem, 8, NULL, 0, NULL));
	REFUSED(fi_send(o.srx, g_mem, 8, NULL, 0, NULL));
	objs_close(&o);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		/* first: later tests open objects and so sweep what this one leaves in shared memory */
		cmocka_unit_test(exit__with_everything_open),
		cmocka_unit_test(path__one_folder_twice_offers_cxi_once),
		cmocka_unit_test(prov_ini__once_and_private),
		cmocka_unit_test(tables__are_full),
		cmocka_unit_test(refused__what_is_not_there),
		cmocka_unit_test(dlclose__objects_stay_usable),
	};

	g_self = argv[0];
	g_module = getenv("SOFTFABRIC_MODULE");
	if (!g_module) {
		print_error("SOFTFABRIC_MODULE is not set\n");
		return 1;
	}
	unsetenv("SOFTFABRIC_NET");
	unsetenv("SOFTFABRIC_CXI");
	if (argc == 2)
		return strcmp(argv[1], "list") ? main_exit() : main_list();
	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);
	if (!g_handle) {
		print_error("%s\n", dlerror());
		return 1;
	}
	g_prov = prov_ini(g_handle);
	if (!g_prov)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
