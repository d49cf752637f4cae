// SPDX-License-Identifier: BSD-2-Clause
// The built module as libfabric loads it: once, twice, from two folders, unloaded in use, left open at exit; and no call that an
// application can make through its objects meets a NULL pointer. SOFTFABRIC_MODULE names the module.
#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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
	struct fid_ep *ep;
};

static const char *g_module;
static const char *g_self;
static void *g_handle;
static struct fi_provider *g_prov;
static char g_mem[4096];

/* --- objects ---------------------------------------------------------------------------------------------------- */

static struct fi_info *info_of(enum fi_ep_type type)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	assert_non_null(hints);
	hints->ep_attr->type = type;
	hints->mode = FI_MSG_PREFIX;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	assert_int_equal(g_prov->getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	assert_non_null(info);
	/* the core would have done this; the provider's own calls read it */
	if (!info->fabric_attr->prov_name)
		info->fabric_attr->prov_name = strdup("efa");
	return info;
}

static void objs_open(struct objs *o, enum fi_ep_type type)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE};

	memset(o, 0, sizeof(*o));
	o->info = info_of(type);
	assert_int_equal(g_prov->fabric(o->info->fabric_attr, &o->fabric, NULL), 0);
	assert_int_equal(fi_eq_open(o->fabric, &eq, &o->eq, NULL), 0);
	assert_int_equal(fi_domain(o->fabric, o->info, &o->domain, NULL), 0);
	assert_int_equal(fi_av_open(o->domain, &av, &o->av, NULL), 0);
	assert_int_equal(fi_cq_open(o->domain, &cq, &o->cq, NULL), 0);
	if (type == FI_EP_RDM)
		assert_int_equal(fi_cntr_open(o->domain, NULL, &o->cntr, NULL), 0);
	assert_int_equal(fi_mr_reg(o->domain, g_mem, sizeof(g_mem), FI_SEND | FI_RECV, 0, 0, 0, &o->mr, NULL), 0);
	assert_int_equal(fi_endpoint(o->domain, o->info, &o->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(o->ep, &o->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(o->ep), 0);
}

static void objs_close(struct objs *o)
{
	assert_int_equal(fi_close(&o->ep->fid), 0);
	assert_int_equal(fi_close(&o->mr->fid), 0);
	if (o->cntr)
		assert_int_equal(fi_close(&o->cntr->fid), 0);
	assert_int_equal(fi_close(&o->cq->fid), 0);
	assert_int_equal(fi_close(&o->av->fid), 0);
	assert_int_equal(fi_close(&o->domain->fid), 0);
	assert_int_equal(fi_close(&o->eq->fid), 0);
	assert_int_equal(fi_close(&o->fabric->fid), 0);
	fi_freeinfo(o->info);
}

/* --- loading ---------------------------------------------------------------------------------------------------- */

static void *entry(void *handle)
{
	void *sym = dlsym(handle, "fi_prov_ini");

	assert_non_null(sym);
	return sym;
}

static struct fi_provider *prov_ini(void *handle)
{
	struct fi_provider *(*ini)(void);
	void *sym = entry(handle);

	memcpy(&ini, &sym, sizeof(ini)); /* POSIX's way around ISO C */
	return ini();
}

static void load__names_stay_private(void **state)
{
	void *again = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);

	assert_ptr_equal(again, g_handle);
	assert_null(dlsym(RTLD_DEFAULT, "fi_prov_ini"));
	dlclose(again);
}

static void prov_ini__second_call_is_refused(void **state)
{
	assert_string_equal(g_prov->name, "efa");
	assert_null(prov_ini(g_handle));
	assert_null(prov_ini(g_handle));
}

static void dlclose__objects_stay_usable(void **state)
{
	struct objs o;
	char entry_buf[256];

	objs_open(&o, FI_EP_RDM);
	assert_int_equal(dlclose(g_handle), 0);
	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	assert_non_null(g_handle); /* -z nodelete: threads may run in it */
	assert_int_equal(fi_cq_read(o.cq, entry_buf, 1), -FI_EAGAIN);
	objs_close(&o);
	assert_null(prov_ini(g_handle));
}

/* --- what needs a process of its own ----------------------------------------------------------------------------- */

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

/* As a process: how many endpoints efa offers through the core, as exit status. */
static int main_list(void)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;
	int cnt = 0;

	hints->fabric_attr->prov_name = strdup("efa");
	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (fi_getinfo(API, NULL, NULL, 0, hints, &list))
		return 90;
	for (struct fi_info *i = list; i; i = i->next)
		cnt += !strcmp(i->fabric_attr->prov_name, "efa");
	fi_freeinfo(list);
	fi_freeinfo(hints);
	return cnt;
}

/* As a process: everything open, progress running, and main() returns. */
static int main_exit(void)
{
	static struct objs o;
	char buf[256];

	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);
	if (!g_handle)
		return 91;
	g_prov = prov_ini(g_handle);
	objs_open(&o, FI_EP_RDM);
	return fi_cq_read(o.cq, buf, 1) == -FI_EAGAIN ? 0 : 92;
}

static void copy_file(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	char buf[65536];
	size_t n;

	assert_non_null(in);
	assert_non_null(out);
	while ((n = fread(buf, 1, sizeof(buf), in)))
		assert_int_equal(fwrite(buf, 1, n, out), n);
	fclose(in);
	assert_int_equal(fclose(out), 0);
}

static void path__one_folder_twice_offers_efa_once(void **state)
{
	char file[4096], path[8300], *dir;
	int once;

	snprintf(file, sizeof(file), "%s", g_module);
	dir = dirname(file);
	once = run_self("list", dir);
	assert_in_range(once, 1, 16);
	snprintf(path, sizeof(path), "%s:%s", dir, dir);
	assert_int_equal(run_self("list", path), once);
}

static void path__two_copies_offer_efa_once(void **state)
{
	char file[4096], copy[64], path[8300], tmp[] = "/tmp/softfabric-load.XXXXXX", *dir;
	int once, both;

	snprintf(file, sizeof(file), "%s", g_module);
	dir = dirname(file);
	once = run_self("list", dir);
	assert_non_null(mkdtemp(tmp));
	snprintf(copy, sizeof(copy), "%s/libefa-fi.so", tmp);
	copy_file(g_module, copy);
	snprintf(path, sizeof(path), "%s:%s", dir, tmp);
	both = run_self("list", path);
	unlink(copy);
	rmdir(tmp);
	assert_int_equal(both, once);
}

static void exit__with_everything_open(void **state)
{
	assert_int_equal(run_self("exit", ""), 0);
}

/* --- no NULL in any table ---------------------------------------------------------------------------------------- */

/* Every table of libfabric is a size_t size, then function pointers. */
static void table_full(const char *name, const void *ops)
{
	size_t size;

	assert_non_null(ops);
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

static void tables_full(const struct objs *o)
{
	FULL(o->fabric->fid.ops);
	FULL(o->fabric->ops);
	FULL(o->eq->fid.ops);
	FULL(o->eq->ops);
	FULL(o->domain->fid.ops);
	FULL(o->domain->ops);
	FULL(o->domain->mr);
	FULL(o->av->fid.ops);
	FULL(o->av->ops);
	FULL(o->cq->fid.ops);
	FULL(o->cq->ops);
	FULL(o->mr->fid.ops);
	FULL(o->ep->fid.ops);
	FULL(o->ep->ops);
	FULL(o->ep->cm);
	FULL(o->ep->msg);
	FULL(o->ep->rma);
	FULL(o->ep->tagged);
	FULL(o->ep->atomic);
	FULL(o->ep->collective);
	if (o->cntr) {
		FULL(o->cntr->fid.ops);
		FULL(o->cntr->ops);
	}
}

static void tables__rdm(void **state)
{
	struct objs o;

	objs_open(&o, FI_EP_RDM);
	tables_full(&o);
	objs_close(&o);
}

static void tables__dgram(void **state)
{
	struct objs o;

	objs_open(&o, FI_EP_DGRAM);
	tables_full(&o);
	objs_close(&o);
}

/* --- what EFA does not have is refused ---------------------------------------------------------------------------- */

static void refused(long ret, const char *call, int line)
{
	if (ret >= 0)
		fail_msg("line %d: %s gave %ld", line, call, ret);
}
#define REFUSED(call_) refused((long)(call_), #call_, __LINE__)

static void refused__connections_and_contexts(void **state)
{
	struct fid_pep *pep;
	struct fid_stx *stx;
	struct fid_ep *ep;
	struct fid_mc *mc;
	size_t len = sizeof(g_mem);
	void *ops;
	struct objs o;

	objs_open(&o, FI_EP_RDM);
	REFUSED(fi_passive_ep(o.fabric, o.info, &pep, NULL));
	REFUSED(fi_scalable_ep(o.domain, o.info, &ep, NULL));
	REFUSED(fi_stx_context(o.domain, NULL, &stx, NULL));
	REFUSED(fi_tx_context(o.ep, 0, NULL, &ep, NULL));
	REFUSED(fi_rx_context(o.ep, 0, NULL, &ep, NULL));
	REFUSED(fi_connect(o.ep, g_mem, NULL, 0));
	REFUSED(o.ep->cm->listen((struct fid_pep *)o.ep));
	REFUSED(o.ep->cm->reject((struct fid_pep *)o.ep, NULL, NULL, 0));
	REFUSED(fi_accept(o.ep, NULL, 0));
	REFUSED(fi_shutdown(o.ep, 0));
	REFUSED(fi_getpeer(o.ep, g_mem, &len));
	REFUSED(fi_join(o.ep, g_mem, 0, &mc, NULL));
	REFUSED(fi_barrier(o.ep, 0, NULL));
	REFUSED(fi_broadcast(o.ep, g_mem, 1, NULL, 0, 0, FI_UINT8, 0, NULL));
	REFUSED(fi_alltoall(o.ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, 0, NULL));
	REFUSED(fi_allreduce(o.ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, FI_SUM, 0, NULL));
	REFUSED(fi_allgather(o.ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, 0, NULL));
	REFUSED(fi_open_ops(&o.fabric->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_open_ops(&o.mr->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_control(&o.mr->fid, 9999, NULL));
	REFUSED(fi_control(&o.ep->fid, 9999, NULL));
	REFUSED(o.fabric->fid.ops->bind(&o.fabric->fid, &o.eq->fid, 0));
	REFUSED(o.cq->fid.ops->bind(&o.cq->fid, &o.eq->fid, 0));
	objs_close(&o);
}

static void refused__tagged_on_dgram(void **state)
{
	struct iovec iov = {g_mem, 8};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1};
	struct objs o;

	objs_open(&o, FI_EP_DGRAM);
	REFUSED(fi_trecv(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_trecvv(o.ep, &iov, NULL, 1, 0, 0, 0, NULL));
	REFUSED(fi_trecvmsg(o.ep, &m, 0));
	REFUSED(fi_tsend(o.ep, g_mem, 8, NULL, 0, 0, NULL));
	REFUSED(fi_tsendv(o.ep, &iov, NULL, 1, 0, 0, NULL));
	REFUSED(fi_tsendmsg(o.ep, &m, 0));
	REFUSED(fi_tinject(o.ep, g_mem, 8, 0, 0));
	REFUSED(fi_tsenddata(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_tinjectdata(o.ep, g_mem, 8, 0, 0, 0));
	objs_close(&o);
}

static void refused__rma_on_dgram(void **state)
{
	struct iovec iov = {g_mem, 8};
	struct fi_rma_iov riov = {(uintptr_t)g_mem, 8, 0};
	struct fi_msg_rma m = {.msg_iov = &iov, .iov_count = 1, .rma_iov = &riov, .rma_iov_count = 1};
	struct objs o;

	objs_open(&o, FI_EP_DGRAM);
	REFUSED(fi_read(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_readv(o.ep, &iov, NULL, 1, 0, 0, 0, NULL));
	REFUSED(fi_readmsg(o.ep, &m, 0));
	REFUSED(fi_write(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_writev(o.ep, &iov, NULL, 1, 0, 0, 0, NULL));
	REFUSED(fi_writemsg(o.ep, &m, 0));
	REFUSED(fi_inject_write(o.ep, g_mem, 8, 0, 0, 0));
	REFUSED(fi_writedata(o.ep, g_mem, 8, NULL, 0, 0, 0, 0, NULL));
	REFUSED(fi_inject_writedata(o.ep, g_mem, 8, 0, 0, 0, 0));
	objs_close(&o);
}

static void refused__atomic_on_dgram(void **state)
{
	struct fi_ioc ioc = {g_mem, 1};
	struct fi_rma_ioc rioc = {(uintptr_t)g_mem, 1, 0};
	struct fi_msg_atomic m = {.msg_iov = &ioc, .iov_count = 1, .rma_iov = &rioc, .rma_iov_count = 1, .datatype = FI_UINT64,
				  .op = FI_SUM};
	size_t cnt;
	struct objs o;

	objs_open(&o, FI_EP_DGRAM);
	REFUSED(fi_atomic(o.ep, g_mem, 1, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomicv(o.ep, &ioc, NULL, 1, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomicmsg(o.ep, &m, 0));
	REFUSED(fi_inject_atomic(o.ep, g_mem, 1, 0, 0, 0, FI_UINT64, FI_SUM));
	REFUSED(fi_fetch_atomic(o.ep, g_mem, 1, NULL, g_mem, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_fetch_atomicv(o.ep, &ioc, NULL, 1, &ioc, NULL, 1, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_fetch_atomicmsg(o.ep, &m, &ioc, NULL, 1, 0));
	REFUSED(fi_compare_atomic(o.ep, g_mem, 1, NULL, g_mem, NULL, g_mem, NULL, 0, 0, 0, FI_UINT64, FI_CSWAP, NULL));
	REFUSED(fi_compare_atomicv(o.ep, &ioc, NULL, 1, &ioc, NULL, 1, &ioc, NULL, 1, 0, 0, 0, FI_UINT64, FI_CSWAP, NULL));
	REFUSED(fi_compare_atomicmsg(o.ep, &m, &ioc, NULL, 1, &ioc, NULL, 1, 0));
	REFUSED(fi_atomicvalid(o.ep, FI_UINT64, FI_SUM, &cnt));
	REFUSED(fi_fetch_atomicvalid(o.ep, FI_UINT64, FI_SUM, &cnt));
	REFUSED(fi_compare_atomicvalid(o.ep, FI_UINT64, FI_CSWAP, &cnt));
	objs_close(&o);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		/* first: later tests open objects and so sweep what this one leaves in shared memory */
		cmocka_unit_test(exit__with_everything_open),
		cmocka_unit_test(path__one_folder_twice_offers_efa_once),
		cmocka_unit_test(path__two_copies_offer_efa_once),
		cmocka_unit_test(load__names_stay_private),
		cmocka_unit_test(prov_ini__second_call_is_refused),
		cmocka_unit_test(tables__rdm),
		cmocka_unit_test(tables__dgram),
		cmocka_unit_test(refused__connections_and_contexts),
		cmocka_unit_test(refused__tagged_on_dgram),
		cmocka_unit_test(refused__rma_on_dgram),
		cmocka_unit_test(refused__atomic_on_dgram),
		cmocka_unit_test(dlclose__objects_stay_usable),
	};

	g_self = argv[0];
	g_module = getenv("SOFTFABRIC_MODULE");
	if (!g_module) {
		print_error("SOFTFABRIC_MODULE is not set\n");
		return 1;
	}
	unsetenv("SOFTFABRIC_NET");
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
