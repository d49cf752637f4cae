// SPDX-License-Identifier: BSD-2-Clause
// See load.h. A module as libfabric loads it: once, twice, from two folders, unloaded in use, left open at exit.
#include "load.h"

#include <dlfcn.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define API FI_VERSION(1, 17)

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
	hints->mode = load_prov.mode;
	hints->domain_attr->mr_mode = load_prov.mr_mode;
	assert_int_equal(g_prov->getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	assert_non_null(info);
	/* the core would have done this; the provider's own calls read it */
	if (!info->fabric_attr->prov_name)
		info->fabric_attr->prov_name = strdup(load_prov.name);
	return info;
}

void load_open(struct load_objs *o, enum fi_ep_type type)
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
	assert_int_equal(fi_mr_reg(o->domain, g_mem, sizeof(g_mem), load_prov.access, 0, 0, 0, &o->mr, NULL), 0);
	assert_int_equal(fi_endpoint(o->domain, o->info, &o->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(o->ep, &o->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(o->ep), 0);
}

void load_close(struct load_objs *o)
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

static struct fi_provider *prov_ini(void *handle)
{
	struct fi_provider *(*ini)(void);
	void *sym = dlsym(handle, "fi_prov_ini");

	assert_non_null(sym);
	memcpy(&ini, &sym, sizeof(ini)); /* POSIX's way around ISO C */
	return ini();
}

void load__names_stay_private(void **state)
{
	void *again = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);

	assert_ptr_equal(again, g_handle);
	assert_null(dlsym(RTLD_DEFAULT, "fi_prov_ini"));
	dlclose(again);
}

void prov_ini__second_call_is_refused(void **state)
{
	assert_string_equal(g_prov->name, load_prov.name);
	assert_null(prov_ini(g_handle));
	assert_null(prov_ini(g_handle));
}

void dlclose__objects_stay_usable(void **state)
{
	struct load_objs o;
	char entry_buf[256];

	load_open(&o, FI_EP_RDM);
	assert_int_equal(dlclose(g_handle), 0);
	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	assert_non_null(g_handle); /* -z nodelete: threads may run in it */
	assert_int_equal(fi_cq_read(o.cq, entry_buf, 1), -FI_EAGAIN);
	load_close(&o);
	assert_null(prov_ini(g_handle));
}

/* --- what needs a process of its own ----------------------------------------------------------------------------- */

/* Runs this program as "self @mode" with FI_PROVIDER_PATH=@path. Return: its exit status. */
static int run_self(const char *mode, const char *path)
{
	int status = -1;
	pid_t pid;

	fflush(NULL);
	pid = unit_fork();
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

/* As a process: how many infos the provider offers through the core, as exit status. */
static int main_list(void)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL;
	int cnt = 0;

	hints->fabric_attr->prov_name = strdup(load_prov.name);
	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode = load_prov.mr_mode;
	if (fi_getinfo(API, NULL, NULL, 0, hints, &list))
		return 90;
	for (struct fi_info *i = list; i; i = i->next)
		cnt += !strcmp(i->fabric_attr->prov_name, load_prov.name);
	fi_freeinfo(list);
	fi_freeinfo(hints);
	return cnt;
}

/* As a process: everything open, progress running, and main() returns. */
static int main_exit(void)
{
	static struct load_objs o;
	char buf[256];

	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);
	if (!g_handle)
		return 91;
	g_prov = prov_ini(g_handle);
	load_open(&o, FI_EP_RDM);
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

void path__one_folder_twice_offers_it_once(void **state)
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

void path__two_copies_offer_it_once(void **state)
{
	char file[4096], copy[64], path[8300], tmp[] = "/tmp/softfabric-load.XXXXXX", *dir;
	int once, both;

	snprintf(file, sizeof(file), "%s", g_module);
	dir = dirname(file);
	once = run_self("list", dir);
	assert_non_null(mkdtemp(tmp));
	snprintf(copy, sizeof(copy), "%s/lib%s-fi.so", tmp, load_prov.name);
	copy_file(g_module, copy);
	snprintf(path, sizeof(path), "%s:%s", dir, tmp);
	both = run_self("list", path);
	unlink(copy);
	rmdir(tmp);
	assert_int_equal(both, once);
}

void exit__with_everything_open(void **state)
{
	assert_int_equal(run_self("exit", ""), 0);
}

/* --- no NULL in any table ---------------------------------------------------------------------------------------- */

void load_full(const char *name, const void *ops)
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
void load_full_ep(const struct fid_ep *ep)
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

void load_full_all(const struct load_objs *o)
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
	FULL(o->info->nic->fid.ops);
	load_full_ep(o->ep);
	if (o->cntr) {
		FULL(o->cntr->fid.ops);
		FULL(o->cntr->ops);
	}
}

void load_refused(long ret, const char *call, int line)
{
	if (ret >= 0)
		fail_msg("line %d: %s gave %ld", line, call, ret);
}


void load_refuses_rest(const struct load_objs *o)
{
	struct fid_pep *pep;
	struct fid_mc *mc;
	size_t len = sizeof(g_mem);
	void *ops;

	REFUSED(fi_passive_ep(o->fabric, o->info, &pep, NULL));
	REFUSED(fi_connect(o->ep, g_mem, NULL, 0));
	REFUSED(o->ep->cm->listen((struct fid_pep *)o->ep));
	REFUSED(o->ep->cm->reject((struct fid_pep *)o->ep, NULL, NULL, 0));
	REFUSED(fi_accept(o->ep, NULL, 0));
	REFUSED(fi_shutdown(o->ep, 0));
	REFUSED(fi_getpeer(o->ep, g_mem, &len));
	REFUSED(fi_join(o->ep, g_mem, 0, &mc, NULL));
	REFUSED(fi_barrier(o->ep, 0, NULL));
	REFUSED(fi_broadcast(o->ep, g_mem, 1, NULL, 0, 0, FI_UINT8, 0, NULL));
	REFUSED(fi_alltoall(o->ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, 0, NULL));
	REFUSED(fi_allreduce(o->ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, FI_SUM, 0, NULL));
	REFUSED(fi_allgather(o->ep, g_mem, 1, NULL, g_mem, NULL, 0, FI_UINT8, 0, NULL));
	REFUSED(fi_open_ops(&o->fabric->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_open_ops(&o->domain->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_open_ops(&o->mr->fid, "no such", 0, &ops, NULL));
	REFUSED(fi_control(&o->domain->fid, 9999, g_mem));
	REFUSED(fi_control(&o->mr->fid, 9999, NULL));
	REFUSED(fi_control(&o->ep->fid, 9999, NULL));
	REFUSED(o->fabric->fid.ops->bind(&o->fabric->fid, &o->eq->fid, 0));
	REFUSED(o->cq->fid.ops->bind(&o->cq->fid, &o->eq->fid, 0));
}

bool load_begin(int argc, char **argv, int *status)
{
	*status = 1;
	g_self = argv[0];
	g_module = getenv("SOFTFABRIC_MODULE");
	if (!g_module) {
		print_error("SOFTFABRIC_MODULE is not set\n");
		return false;
	}
	unsetenv("SOFTFABRIC_NET");
	unsetenv("SOFTFABRIC_CXI");
	if (argc == 2) {
		*status = strcmp(argv[1], "list") ? main_exit() : main_list();
		return false;
	}
	g_handle = dlopen(g_module, RTLD_NOW | RTLD_LOCAL);
	if (!g_handle) {
		print_error("%s\n", dlerror());
		return false;
	}
	g_prov = prov_ini(g_handle);
	return g_prov != NULL;
}
