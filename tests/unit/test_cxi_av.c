// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of the cxi provider: cxi_av.c and cxi_av_shm.c.
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cxi_fix.h"
#include "kit/compat.h"
#include "prov/cxi/av/cxi_av_shm.h"

#define NAME "unit av/1"

static struct cxi_addr addr(uint32_t nic, uint16_t pid)
{
	return cxi_addr_make(nic, pid, 0);
}

static const struct kit_ops_av_ext *ext(struct fid_av *av)
{
	assert_true(av->ops->size >= sizeof(struct kit_ops_av_ext));
	return (const struct kit_ops_av_ext *)av->ops;
}

static struct fid_av *av_open(const struct cxi_fix *f, struct fi_av_attr attr)
{
	struct fid_av *av = NULL;

	assert_int_equal(fi_av_open(f->domain, &attr, &av, NULL), 0);
	return av;
}

/* --- insertion ---------------------------------------------------------------------------------------------------- */

static void insert__same_address_same_fi_addr_counted(void **state)
{
	struct cxi_addr a[3] = {addr(5, 1), addr(5, 2), addr(5, 1)}, got;
	fi_addr_t fi[3];
	size_t len = sizeof(got);
	struct fid_av *av;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	av = av_open(&f, (struct fi_av_attr){0});
	assert_int_equal(fi_av_insert(av, a, 3, fi, 0, NULL), 3);
	assert_int_equal(fi[0], 0);
	assert_int_equal(fi[1], 1);
	assert_int_equal(fi[2], 0);
	assert_int_equal(fi_av_remove(av, &fi[0], 1, 0), 0); /* one use of two */
	assert_int_equal(fi_av_lookup(av, 0, &got, &len), 0);
	assert_memory_equal(&got, &a[0], sizeof(got));
	assert_int_equal(fi_av_remove(av, &fi[0], 1, 0), 0);
	assert_int_equal(fi_av_lookup(av, 0, &got, &len), -FI_EINVAL);
	assert_int_equal(fi_av_remove(av, &fi[0], 1, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&f);
}

static void insert__bad_address_is_notavail(void **state)
{
	struct cxi_addr a[3] = {addr(5, 1), addr(5, CASSINI_PID_ANY), addr(6, 1)};
	fi_addr_t fi[3] = {7, 7, 7};
	int err[3] = {-1, -1, -1};
	struct fid_av *av;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	av = av_open(&f, (struct fi_av_attr){.type = FI_AV_MAP});
	assert_int_equal(fi_av_insert(av, a, 3, fi, FI_SYNC_ERR, err), 2);
	assert_true(fi[1] == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi[2], 1);
	assert_int_equal(err[0], 0);
	assert_int_equal(err[1], FI_EINVAL);
	assert_int_equal(err[2], 0);
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&f);
}

static void open__attributes_refused(void **state)
{
	static const struct fi_av_attr bad[] = {
		{.flags = FI_READ}, /* no name */
		{.flags = 1ULL << 5},
		{.rx_ctx_bits = 5},
		{.rx_ctx_bits = -1},
		{.type = 17},
		{.flags = FI_SYMMETRIC | KIT_AV_USER_ID},
		{.name = ""},
	};
	struct fid_av *av;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fi_av_attr a = bad[i];

		assert_int_equal(fi_av_open(f.domain, &a, &av, NULL), -FI_EINVAL);
	}
	av = av_open(&f, (struct fi_av_attr){.flags = FI_SYMMETRIC}); /* a promise that is not needed */
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&f);
}

/* --- asynchronous -------------------------------------------------------------------------------- */

static void event__errors_then_the_count(void **state)
{
	struct cxi_addr a[4] = {addr(5, 1), addr(5, CASSINI_PID_ANY), addr(6, 1), addr(7, CASSINI_PID_ANY)};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD};
	struct fi_eq_err_entry err = {0};
	struct fi_eq_entry e;
	fi_addr_t fi[4];
	struct fid_eq *eq;
	struct fid_av *av;
	struct cxi_fix f;
	uint32_t event;
	int ctx, flags[4];

	(void)state;
	cxi_fix_open(&f);
	av = av_open(&f, (struct fi_av_attr){.flags = FI_EVENT});
	assert_int_equal(fi_eq_open(f.fabric, &eq_attr, &eq, NULL), 0);
	assert_int_equal(fi_av_insert(av, a, 4, fi, 0, &ctx), -FI_ENOEQ);
	assert_int_equal(fi_av_bind(av, &eq->fid, 1), -FI_EINVAL);
	assert_int_equal(fi_av_bind(av, &f.domain->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_av_bind(av, &eq->fid, 0), 0);
	assert_int_equal(fi_av_bind(av, &eq->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&eq->fid), -FI_EBUSY);
	assert_int_equal(fi_av_insert(av, a, 4, fi, FI_SYNC_ERR, flags), -FI_EINVAL);
	assert_int_equal(fi_av_insert(av, a, 4, fi, 0, &ctx), 0);
	for (uint64_t i = 1; i < 4; i += 2) {
		assert_int_equal(fi_eq_read(eq, &event, &e, sizeof(e), 0), -FI_EAVAIL);
		assert_int_equal(fi_eq_readerr(eq, &err, 0), sizeof(err));
		assert_ptr_equal(err.fid, &av->fid);
		assert_ptr_equal(err.context, &ctx);
		assert_int_equal(err.data, i);
		assert_int_equal(err.err, FI_EINVAL);
	}
	assert_int_equal(fi_eq_sread(eq, &event, &e, sizeof(e), 1000, 0), sizeof(e));
	assert_int_equal(event, FI_AV_COMPLETE);
	assert_ptr_equal(e.fid, &av->fid);
	assert_ptr_equal(e.context, &ctx);
	assert_int_equal(e.data, 2);
	assert_int_equal(fi_eq_read(eq, &event, &e, sizeof(e), 0), -FI_EAGAIN);
	assert_int_equal(fi[2], 1);
	assert_true(fi[3] == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_insertsvc(av, "9", "3", fi, 0, &ctx), 0);
	assert_int_equal(fi_av_insertsym(av, "10", 2, "3", 2, fi, 0, NULL), 0);
	for (uint64_t want = 1; want <= 4; want += 3) {
		assert_int_equal(fi_eq_read(eq, &event, &e, sizeof(e), 0), sizeof(e));
		assert_int_equal(e.data, want);
	}
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(fi_close(&eq->fid), 0);
	cxi_fix_close(&f);
}

/* --- user IDs, keys ------------------------------------------------------------------------------ */

static void user_id__replaces_the_source(void **state)
{
	struct cxi_addr a[2] = {addr(5, 1), addr(5, 2)};
	struct cxi_fix f;
	struct fid_av *av;
	struct cxi_av *cav;
	fi_addr_t fi[2];

	(void)state;
	cxi_fix_open(&f);
	av = av_open(&f, (struct fi_av_attr){.flags = KIT_AV_USER_ID});
	cav = container_of(av, struct cxi_av, kit.fid);
	assert_int_equal(fi_av_insert(av, a, 2, fi, KIT_AV_USER_ID, NULL), -FI_ENOSYS); /* not both ways */
	assert_int_equal(fi_av_insert(av, a, 2, fi, 0, NULL), 2);
	assert_true(cxi_av_source(cav, 5, 1, 0) == FI_ADDR_NOTAVAIL); /* until it has one */
	assert_int_equal(ext(av)->set_user_id(av, fi[0], 4711, 0), 0);
	assert_int_equal(ext(av)->set_user_id(av, 99, 4711, 0), -FI_EINVAL);
	assert_int_equal(ext(av)->set_user_id(av, fi[0], 1, 1), -FI_EINVAL);
	assert_int_equal(cxi_av_source(cav, 5, 1, 0), 4711);
	assert_int_equal(fi_close(&av->fid), 0);

	av = av_open(&f, (struct fi_av_attr){0});
	cav = container_of(av, struct cxi_av, kit.fid);
	fi[0] = 100;
	fi[1] = 200;
	assert_int_equal(fi_av_insert(av, a, 2, fi, KIT_AV_USER_ID, NULL), 2);
	assert_int_equal(fi[1], 1);
	assert_int_equal(cxi_av_source(cav, 5, 2, 0), 200);
	assert_int_equal(fi_av_remove(av, &fi[1], 1, 0), 0);
	assert_int_equal(fi_av_insert(av, &a[1], 1, fi, 0, NULL), 1);
	assert_int_equal(cxi_av_source(cav, 5, 2, 0), 1); /* the ID went with the entry */
	assert_int_equal(ext(av)->set_user_id(av, fi[0], 4711, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&f);
}

/* An address that its ID does not go in with does not go in. One that was there stays, as often as it was. */
static void user_id__without_memory(void **state)
{
	struct cxi_addr a = addr(5, 1), b = addr(5, 2), got;
	fi_addr_t fi = 100, again;
	size_t len = sizeof(got);
	struct cxi_fix f;
	struct fid_av *av;
	struct cxi_av *cav;

	(void)state;
	cxi_fix_open(&f);
	av = av_open(&f, (struct fi_av_attr){0});
	cav = container_of(av, struct cxi_av, kit.fid);
	mem_fail_nth(1);
	assert_int_equal(fi_av_insert(av, &a, 1, &fi, KIT_AV_USER_ID, NULL), 0);
	mem_fail_nth(0);
	assert_true(fi == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_lookup(av, 0, &got, &len), -FI_EINVAL);
	assert_true(cxi_av_source(cav, 5, 1, 0) == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_insert(av, &b, 1, &fi, 0, NULL), 1);
	again = 200;
	mem_fail_nth(1);
	assert_int_equal(fi_av_insert(av, &b, 1, &again, KIT_AV_USER_ID, NULL), 0);
	mem_fail_nth(0);
	assert_true(cxi_av_source(cav, 5, 2, 0) == fi);
	assert_int_equal(fi_av_remove(av, &fi, 1, 0), 0);
	assert_true(cxi_av_source(cav, 5, 2, 0) == FI_ADDR_NOTAVAIL);
	fi = 300;
	assert_int_equal(fi_av_insert(av, &a, 1, &fi, KIT_AV_USER_ID, NULL), 1);
	assert_int_equal(cxi_av_source(cav, 5, 1, 0), 300);
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&f);
}

static void auth_key__addresses_under_several_vnis(void **state)
{
	struct cxi_key k[CXI_AUTH_KEY_MAX + 1], got;
	fi_addr_t handle[CXI_AUTH_KEY_MAX], fi, fi2;
	struct cxi_addr a = addr(5, 1);
	struct fi_info *info = cxi_fix_info(FI_VERSION(1, 17), NULL);
	size_t len = sizeof(got);
	struct cxi_dest dest;
	struct cxi_av *cav;
	struct fid_av *av;
	struct cxi_fix f;

	(void)state;
	cxi_fix_av_keys(info);
	cxi_fix_open_info(&f, info);
	av = av_open(&f, (struct fi_av_attr){0});
	cav = container_of(av, struct cxi_av, kit.fid);
	for (int i = 0; i < CXI_AUTH_KEY_MAX + 1; i++) {
		k[i] = (struct cxi_key){.svc_id = 1, .vni = (uint16_t)(10 + i)};
		if (i == CXI_AUTH_KEY_MAX)
			assert_int_equal(ext(av)->insert_auth_key(av, &k[i], sizeof(k[i]), &fi, 0), -FI_ENOSPC);
		else
			assert_int_equal(ext(av)->insert_auth_key(av, &k[i], sizeof(k[i]), &handle[i], 0), 0);
	}
	assert_int_equal(ext(av)->insert_auth_key(av, &k[0], 4, &fi, 0), -FI_EINVAL);
	k[4].svc_id = 77;
	assert_int_equal(ext(av)->insert_auth_key(av, &k[4], sizeof(k[4]), &fi, 0), -FI_EINVAL);
	assert_int_equal(ext(av)->lookup_auth_key(av, handle[2], &got, &len), 0);
	assert_int_equal(got.vni, 12);
	fi = handle[1];
	assert_int_equal(fi_av_insert(av, &a, 1, &fi, KIT_AUTH_KEY, NULL), 1);
	fi2 = handle[2];
	assert_int_equal(fi_av_insert(av, &a, 1, &fi2, KIT_AUTH_KEY, NULL), 1);
	assert_int_not_equal(fi, fi2);
	assert_int_equal(cxi_av_dest(cav, fi2, &dest), 0);
	assert_int_equal(dest.vni, 12);
	assert_int_equal(cxi_av_source(cav, 5, 1, 11), fi);
	assert_true(cxi_av_source(cav, 5, 1, 13) == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_remove(av, &handle[1], 1, KIT_AUTH_KEY), -FI_EBUSY); /* addresses have it */
	assert_int_equal(fi_av_remove(av, &fi, 1, 0), 0);
	assert_int_equal(fi_av_remove(av, &handle[1], 1, KIT_AUTH_KEY), 0);
	assert_int_equal(ext(av)->lookup_auth_key(av, handle[1], &got, &len), -FI_EINVAL);
	fi = 99;
	assert_int_equal(fi_av_insert(av, &a, 1, &fi, KIT_AUTH_KEY, NULL), 0);
	assert_true(fi == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_insert(av, &a, 1, NULL, KIT_AUTH_KEY, NULL), 0);
	assert_int_equal(fi_close(&av->fid), 0);
	cxi_fix_close(&f);
}

/* --- named --------------------------------------------------------------------------------------- */

static int objects(void)
{
	DIR *d = opendir("/dev/shm");
	char stem[64];
	int n = 0;

	snprintf(stem, sizeof(stem), "softfabric-cxi-av-%u-", (unsigned)geteuid());
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += !strncmp(e->d_name, stem, strlen(stem)) && strstr(e->d_name, "unit");
	closedir(d);
	return n;
}

static void named__another_process_reads(void **state)
{
	struct fi_av_attr attr = {.name = NAME}, ro = {.name = NAME, .flags = FI_READ};
	struct cxi_addr a[2] = {addr(5, 1), addr(6, 2)}, got;
	fi_addr_t fi[2];
	struct fid_av *av, *again;
	struct cxi_fix f;
	int status = 0;
	pid_t pid;

	(void)state;
	fflush(NULL);
	int go[2];
	char c;

	assert_int_equal(pipe(go), 0);
	pid = unit_fork();
	assert_true(pid >= 0);
	if (!pid) { /* before anything is open here; the exit status says which step failed */
		struct cxi_fix cf;
		size_t len = sizeof(got);
		const fi_addr_t *shown;

		alarm(60);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		cf.info = NULL;
		if (cxi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &cf.info) ||
		    cxi_fabric_open(cf.info->fabric_attr, &cf.fabric, NULL) ||
		    fi_domain(cf.fabric, cf.info, &cf.domain, NULL))
			_exit(2);
		if (fi_av_open(cf.domain, &ro, &av, NULL))
			_exit(3);
		if (fi_av_lookup(av, 1, &got, &len) || cxi_addr_nic(&got) != 6 || cxi_addr_pid(&got) != 2)
			_exit(4);
		if (cxi_av_source(container_of(av, struct cxi_av, kit.fid), 5, 1, 0) != 0)
			_exit(5);
		shown = ro.map_addr; /* the only way to learn them */
		if (shown[0] != 0 || shown[1] != 1 || shown[2] != FI_ADDR_NOTAVAIL)
			_exit(8);
		if (fi_av_insert(av, a, 1, fi, 0, NULL) != 0 || fi[0] != FI_ADDR_NOTAVAIL ||
		    fi_av_remove(av, &(fi_addr_t){0}, 1, 0) != -FI_EPERM)
			_exit(6);
		_exit(fi_close(&av->fid) ? 7 : 0);
	}
	cxi_fix_open(&f);
	assert_int_equal(fi_av_open(f.domain, &ro, &av, NULL), -FI_ENOENT);
	assert_int_equal(fi_av_open(f.domain, &attr, &av, NULL), 0);
	assert_non_null(attr.map_addr);
	assert_int_equal(fi_av_insert(av, a, 2, fi, 0, NULL), 2);
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(objects(), 1); /* a reader that leaves takes nothing away */
	attr.map_addr = NULL;
	assert_int_equal(fi_av_open(f.domain, &attr, &again, NULL), 0); /* a second writer */
	assert_int_equal(fi_av_insert(again, &a[1], 1, fi, 0, NULL), 1);
	assert_int_equal(fi[0], 1);
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(fi_close(&again->fid), 0);
	assert_int_equal(objects(), 0);
	close(go[0]);
	close(go[1]);
	cxi_fix_close(&f);
}

static void named__map_addr_is_taken(void **state)
{
	void *place = mmap(NULL, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct cxi_av_shared *s, *t;

	(void)state;
	assert_true(place != MAP_FAILED);
	munmap(place, 64 << 20);
	assert_int_equal(cxi_av_shm_open("cxi0", "unit2", false, 1, place, &s), 0);
	assert_ptr_equal(cxi_av_shm_base(s), place);
	assert_int_equal(cxi_av_shm_open("cxi0", "unit2", true, 1, place, &t), 0); /* taken: elsewhere */
	assert_ptr_not_equal(cxi_av_shm_base(t), place);
	cxi_av_shm_close(s, false);
	cxi_av_shm_close(t, false);
	assert_int_equal(objects(), 0);
}

/*
 * One writes random insertions and removals; a reader beside it must agree with a plain table at every step, through
 * all growths.
 */
static void named__readers_agree_while_it_grows(void **state)
{
	enum { STEPS = 20000, NICS = 6000, LEVEL_FIRST = 512 };
	static int32_t idx_of[NICS], uses[NICS];
	static int32_t nic_at[NICS];
	struct rng rng = unit_rng();
	const fi_addr_t *shown;
	struct cxi_av_shared *w, *r;
	struct cxi_addr a, got;
	fi_addr_t fi;
	int ret;

	(void)state;
	memset(uses, 0, sizeof(uses));
	memset(nic_at, -1, sizeof(nic_at));
	assert_int_equal(cxi_av_shm_open("cxi0", "unit3", false, 1, NULL, &w), 0);
	assert_int_equal(cxi_av_shm_open("cxi0", "unit3", true, 1, NULL, &r), 0);
	shown = cxi_av_shm_base(r);
	for (int i = 0; i < STEPS; i++) {
		uint32_t nic = (uint32_t)(rng_u64(&rng) % NICS);
		bool del = rng_u64(&rng) % 4 == 0;

		a = addr(nic, 3);
		if (del && uses[nic]) {
			assert_int_equal(cxi_av_shm_del(w, (fi_addr_t)idx_of[nic]), 0);
			if (!--uses[nic])
				nic_at[idx_of[nic]] = -1;
		} else if (!del) {
			ret = cxi_av_shm_add(w, &a, &fi);
			assert_int_equal(ret, 0);
			assert_true(fi < NICS); /* the lowest free one */
			if (uses[nic]++)
				assert_int_equal(fi, idx_of[nic]);
			else
				assert_int_equal(nic_at[fi], -1);
			idx_of[nic] = (int32_t)fi;
			nic_at[fi] = (int32_t)nic;
		}
		assert_true(cxi_av_shm_find(r, &a) == (uses[nic] ? (fi_addr_t)idx_of[nic] : FI_ADDR_NOTAVAIL));
		if (uses[nic])
			assert_int_equal(shown[idx_of[nic]], idx_of[nic]);
		fi = rng_u64(&rng) % NICS;
		assert_int_equal(cxi_av_shm_get(r, fi, &got), nic_at[fi] >= 0);
		if (cxi_av_shm_get(r, fi, &got) || fi < LEVEL_FIRST) /* farther away there is nothing yet */
			assert_true(shown[fi] == (nic_at[fi] >= 0 ? fi : FI_ADDR_NOTAVAIL));
		if (nic_at[fi] >= 0)
			assert_int_equal(cxi_addr_nic(&got), nic_at[fi]);
	}
	assert_int_equal(cxi_av_shm_add(r, &a, &fi), -FI_EPERM);
	assert_false(cxi_av_shm_get(r, FI_ADDR_NOTAVAIL, &got));
	cxi_av_shm_close(r, false);
	cxi_av_shm_close(w, false);
	assert_int_equal(objects(), 0);
}

/* A process that has the table "unit4" open. */
static pid_t creator_start(void)
{
	struct cxi_addr a = addr(5, 1);
	struct cxi_av_shared *s;
	int ready[2];
	fi_addr_t fi;
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	fflush(NULL);
	pid = unit_fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		if (cxi_av_shm_open("cxi0", "unit4", false, 1, NULL, &s) || cxi_av_shm_add(s, &a, &fi))
			_exit(1);
		if (write(ready[1], "x", 1) != 1)
			_exit(2);
		pause();
		_exit(3);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

/* A creator that was killed leaves an object that nobody holds: the next one takes it over, empty, */
static void named__killed_creator_is_reaped(void **state)
{
	pid_t pid = creator_start();
	struct cxi_av_shared *s;
	struct cxi_addr got;

	(void)state;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(objects() <= 1); /* a domain that somebody else opens just then takes it away */
	assert_int_equal(cxi_av_shm_open("cxi0", "unit4", false, 1, NULL, &s), 0);
	assert_false(cxi_av_shm_get(s, 0, &got));
	cxi_av_shm_close(s, false);
	assert_int_equal(objects(), 0);
}

/*
 * or the next domain that opens takes it away, also if nobody wants a table of that name any more. What is in use
 * stays.
 */
static void named__domain_reaps(void **state)
{
	pid_t pid = creator_start();
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	assert_int_equal(objects(), 1);
	cxi_fix_close(&f);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	cxi_fix_open(&f);
	assert_int_equal(objects(), 0);
	cxi_fix_close(&f);
}

/* Whatever stands in the memory, nothing is read beside it. */
static void named__damaged_memory_is_harmless(void **state)
{
	struct cxi_addr a = addr(5, 1), got;
	struct rng rng = unit_rng();
	struct cxi_av_shared *w, *r;
	uint32_t *word;
	fi_addr_t fi;

	(void)state;
	assert_int_equal(cxi_av_shm_open("cxi0", "unit5", false, 1, NULL, &w), 0);
	assert_int_equal(cxi_av_shm_open("cxi0", "unit5", true, 1, NULL, &r), 0);
	assert_int_equal(cxi_av_shm_add(w, &a, &fi), 0);
	word = cxi_av_shm_base(w);
	for (int i = 0; i < 20000; i++) {
		uint32_t off = (uint32_t)(rng_u64(&rng) % 1024); /* header: level, hint, counts */

		word[off < 8 ? off : 1024 + off] = (uint32_t)rng_u64(&rng) >> rng_u64(&rng) % 32;
		(void)cxi_av_shm_find(r, &a);
		(void)cxi_av_shm_get(r, rng_u64(&rng) % 2048, &got);
		(void)cxi_av_shm_del(w, rng_u64(&rng) % 512);
		if (word[4] != 20) /* the largest level is legal, and takes its time */
			(void)cxi_av_shm_add(w, &a, &fi);
		word[4] = 9;
	}
	cxi_av_shm_close(r, false);
	cxi_av_shm_close(w, false);
	assert_int_equal(objects(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(named__another_process_reads),
		cmocka_unit_test(named__map_addr_is_taken),
		cmocka_unit_test(named__readers_agree_while_it_grows),
		cmocka_unit_test(named__killed_creator_is_reaped),
		cmocka_unit_test(named__domain_reaps),
		cmocka_unit_test(named__damaged_memory_is_harmless),
		cmocka_unit_test(insert__same_address_same_fi_addr_counted),
		cmocka_unit_test(insert__bad_address_is_notavail),
		cmocka_unit_test(open__attributes_refused),
		cmocka_unit_test(event__errors_then_the_count),
		cmocka_unit_test(user_id__replaces_the_source),
		cmocka_unit_test(user_id__without_memory),
		cmocka_unit_test(auth_key__addresses_under_several_vnis),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
