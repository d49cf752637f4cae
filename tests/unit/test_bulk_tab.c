// SPDX-License-Identifier: BSD-2-Clause
// Leases on regions between processes: what deregistration waits for, and what it does not wait
// for.
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "fake_path.h"

#define PORT 7000 /* of the owner's, whose peers the holders are */
#define LEN (4u << 20)

/* What both processes see of each other. */
static struct shared {
	_Atomic int step; /* of the child */
	_Atomic int go;	  /* of the parent */
	_Atomic int rc;
} * g_sh;

static uint64_t real_ns(void)
{
	return clk_now_ns(NULL);
}

static void wait_step(int step)
{
	uint64_t end = real_ns() + 20 * NS_PER_SEC;

	while (atomic_load(&g_sh->step) < step) {
		assert_true(real_ns() < end);
		usleep(100);
	}
}

static bool has_cma(void)
{
	int a = 1, b = 0;

	return bulk_cma_copy(getpid(), LINK_GET, NULL, &b, (uintptr_t)&a, sizeof(a)) == sizeof(a);
}

/* A child that is attached to node 1's table. The child never returns. */
static pid_t child(void (*fn)(struct bulk_tab *tab, int slot, uint32_t key, void *addr),
		   uint32_t key, void *addr)
{
	uint64_t id = fp.node[1].bulk_id;
	struct bulk_tab *tab;
	pid_t pid;
	int slot;

	atomic_store(&g_sh->step, 0);
	atomic_store(&g_sh->go, 0);
	atomic_store(&g_sh->rc, 1);
	fflush(stdout);
	pid = unit_fork();
	if (pid)
		return pid;
	alarm(60); /* whatever happens to the parent */
	if (bulk_tab_attach(id, &tab))
		_exit(10);
	slot = bulk_tab_slot_claim(tab);
	if (slot < 0)
		_exit(11);
	fn(tab, slot, key, addr);
	_exit(0);
}

static int reap(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static uint32_t add(void *mem, size_t len)
{
	uint32_t key;

	assert_int_equal(link_region_add(&fp.node[1], mem, len, LINK_GET | LINK_PUT, &key), 0);
	assert_non_null(fp.node[1].bulk->tab);
	return key;
}

static void *g_mem;

static int setup(void **state)
{
	g_sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	g_mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fp_open(LINK_RELIABLE, true);
	return 0;
}

static int teardown(void **state)
{
	fp_close();
	munmap(g_sh, 4096);
	munmap(g_mem, LEN);
	return 0;
}

static uint64_t timed_del(uint32_t key)
{
	uint64_t t = real_ns();

	link_region_del(&fp.node[1], key);
	return real_ns() - t;
}

/* --- one lease -------------------------------------------------------------------------------- */

static void take_and_hold(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	if (bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN))
		_exit(12);
	atomic_store(&g_sh->step, 1);
	while (!atomic_load(&g_sh->go))
		usleep(100);
	usleep(30000);
	atomic_store(&g_sh->step, 2); /* the owner is still waiting */
	_exit(bulk_lease_drop(tab, slot) ? 13 : 0);
}

static void del__waits_for_a_live_lease(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_hold, key, g_mem);

	wait_step(1);
	atomic_store(&g_sh->go, 1);
	timed_del(key);
	assert_int_equal(atomic_load(&g_sh->step), 2);
	assert_int_equal(reap(pid), 0);
}

static void del__ignores_leases_on_others(void **state)
{
	uint32_t key = add(g_mem, LEN), other = add(g_mem, LEN);
	pid_t pid = child(take_and_hold, key, g_mem);

	wait_step(1);
	assert_true(timed_del(other) < NS_PER_SEC * unit_slow());
	assert_int_equal(atomic_load(&g_sh->step), 1);
	kill(pid, SIGKILL);
	reap(pid);
}

static void del__killed_holder(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_hold, key, g_mem);

	wait_step(1);
	kill(pid, SIGKILL);
	assert_true(timed_del(key) < fp.room.dead_after_ns / 2);
	reap(pid);
}

/* A fork of the holder lives on with a copy of everything it had, but no lock. */
static void take_fork_and_die(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	if (bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN))
		_exit(12);
	if (!unit_fork()) {
		alarm(30);
		atomic_store(&g_sh->step, 1);
		while (!atomic_load(&g_sh->go))
			usleep(100);
		atomic_store(&g_sh->step, 2);
		_exit(0);
	}
	kill(getpid(), SIGKILL);
}

static void del__killed_holder_with_living_child(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_fork_and_die, key, g_mem);

	reap(pid);
	wait_step(1);
	assert_true(timed_del(key) < fp.room.dead_after_ns / 2);
	assert_int_equal(atomic_load(&g_sh->step), 1); /* it lives */
	atomic_store(&g_sh->go, 1);
	wait_step(2);
}

static void take_and_stop(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	if (bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN))
		_exit(12);
	atomic_store(&g_sh->step, 1);
	raise(SIGSTOP);
	_exit(bulk_lease_drop(tab, slot) == -EACCES ? 0 : 13);
}

/* It lets others have the node's lock meanwhile, gives up long before a peer counts as dead, and tells the
 * holder when it wakes up. */
static void del__stopped_holder(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_stop, key, g_mem);
	uint64_t ns;

	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	fp.room.dead_after_ns = 800 * NS_PER_MS; /* a quarter of it */
	ns = timed_del(key);
	assert_in_range(ns, 200 * NS_PER_MS, 2 * NS_PER_SEC * unit_slow());
	kill(pid, SIGCONT);
	assert_int_equal(reap(pid), 0);
}

static void take_and_sleep(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	if (bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN))
		_exit(12);
	atomic_store(&g_sh->step, 1);
	while (!atomic_load(&g_sh->go))
		pause();
	_exit(0);
}

/* A frozen cgroup shows as one that sleeps, or waits for a disk. */
static void del__sleeping_holder(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_sleep, key, g_mem);

	wait_step(1);
	fp.room.dead_after_ns = 800 * NS_PER_MS;
	assert_in_range(timed_del(key), 200 * NS_PER_MS, 20 * NS_PER_SEC);
	kill(pid, SIGKILL);
	reap(pid);
}

static void take_and_spin(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	if (bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN))
		_exit(12);
	atomic_store(&g_sh->step, 1);
	while (!atomic_load(&g_sh->go))
		;
	_exit(0);
}

/* One that runs but does not let go: another thread of it may be what runs. */
static void del__busy_holder(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_spin, key, g_mem);

	wait_step(1);
	fp.room.dead_after_ns = 600 * NS_PER_MS;
	assert_in_range(timed_del(key), 150 * NS_PER_MS, 20 * NS_PER_SEC);
	kill(pid, SIGKILL);
	reap(pid);
}

static uint64_t timed_shut(uint16_t port)
{
	uint64_t t = real_ns();

	fp.port[1].self.port = port;
	fp.port[1].serves = LINK_SHUT;
	bulk_port_shut(fp.port[1].bulk);
	bulk_port_settle(fp.port[1].bulk);
	return real_ns() - t;
}

/* A port that is shut waits for the copies of its own peers only; the region stays. */
static void shut__waits_for_its_own_leases(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_hold, key, g_mem);

	wait_step(1);
	assert_true(timed_shut(PORT + 1) < NS_PER_SEC * unit_slow());
	assert_int_equal(atomic_load(&g_sh->step), 1);
	atomic_store(&g_sh->go, 1);
	timed_shut(PORT);
	assert_int_equal(atomic_load(&g_sh->step), 2);
	assert_int_equal(reap(pid), 0);
}

static void shut__stopped_holder(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_and_stop, key, g_mem);
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	fp.room.dead_after_ns = 800 * NS_PER_MS;
	assert_in_range(timed_shut(PORT), 200 * NS_PER_MS, 2 * NS_PER_SEC * unit_slow());
	kill(pid, SIGCONT);
	assert_int_equal(reap(pid), 0);
}

/* Stops where no look helps: between its look at the key and its copy. */
static void take_stop_and_put(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	static uint8_t src[4096];
	struct bulk_guard g;
	ssize_t n;

	memset(src, 0xee, sizeof(src));
	g = bulk_tab_guard(tab);
	if (bulk_lease_take(tab, slot, PORT, key, LINK_PUT, (uintptr_t)addr, LEN))
		_exit(12);
	raise(SIGSTOP);
	n = bulk_cma_copy(getppid(), LINK_PUT, &g, src, (uintptr_t)addr, sizeof(src));
	_exit(n == -ESTALE && bulk_lease_drop(tab, slot) == -EACCES ? 0 : 13);
}

static void del__stopped_before_its_copy(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid;
	int status;

	if (!has_cma())
		skip();
	pid = child(take_stop_and_put, key, g_mem);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	fp.room.dead_after_ns = 400 * NS_PER_MS;
	timed_del(key);
	memset(g_mem, 0x11, 4096);
	kill(pid, SIGCONT);
	assert_int_equal(reap(pid), 0);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(((uint8_t *)g_mem)[i], 0x11);
}

/* --- an owner that replaces its image --- */

#ifdef __SANITIZE_THREAD__
#define IMAGE_AT 0x3f55000000ULL /* its map of memory has no room for a program where the other one is */
#else
#define IMAGE_AT 0x3f5500000000ULL
#endif
#define IMAGE_KEY 0x77770001u /* in place 1 of the table */

/* The page at the same address, of the old image and of the new one, whose program is this, too. */
static uint8_t *image_page(void)
{
	void *at = (void *)(uintptr_t)IMAGE_AT;
	uint8_t *p = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return p == at ? p : NULL;
}

static void image_new(int out, int in)
{
	uint8_t *p = image_page();
	char c = p ? 'n' : 'x';

	alarm(60);
	if (p)
		memset(p, 0x11, 4096);
	if (write(out, &c, 1) != 1 || read(in, &c, 1) != 1 || !p)
		_exit(2);
	for (int i = 0; i < 4096; i++)
		if (p[i] != 0x11)
			_exit(1);
	_exit(0);
}

static void image_old(uint64_t id, int out, int in)
{
	char a[16], b[16], c = 'o',
			   *argv[] = {(char *)(uintptr_t) "test_bulk_tab", (char *)(uintptr_t) "image", a, b, NULL};
	struct bulk_tab *tab;

	alarm(60);
	snprintf(a, sizeof(a), "%d", out);
	snprintf(b, sizeof(b), "%d", in);
	if (!image_page() || bulk_tab_create(id, &tab) || bulk_tab_grow(tab, BULK_ENTRY_MIN))
		c = 'x';
	else
		bulk_tab_publish(tab, 1, IMAGE_KEY, IMAGE_AT, 4096, LINK_GET | LINK_PUT, 0);
	if (write(out, &c, 1) == 1 && read(in, &c, 1) == 1)
		execv("/proc/self/exe", argv);
	_exit(3);
}

/*
 * The owner's exec() between an initiator's checks and its copy. Return: what the new image says of its memory: 0, or
 * 1: changed.
 */
static int exec_between(uint64_t id, bool is_guarded, ssize_t *n)
{
	static uint8_t src[4096];
	int to[2], from[2], slot, status;
	struct bulk_guard g;
	struct bulk_tab *tab;
	pid_t pid;
	char c = 0;

	memset(src, 0xee, sizeof(src));
	assert_int_equal(pipe(to) | pipe(from), 0);
	fflush(stdout);
	pid = unit_fork();
	if (!pid)
		image_old(id, from[1], to[0]);
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(c, 'o');
	assert_int_equal(bulk_tab_attach(id, &tab), 0);
	slot = bulk_tab_slot_claim(tab);
	g = bulk_tab_guard(tab);
	assert_int_equal(bulk_lease_take(tab, slot, PORT, IMAGE_KEY, LINK_PUT, IMAGE_AT, sizeof(src)), 0);
	assert_true(bulk_tab_owner_is_alive(tab));
	assert_int_equal(write(to[1], "e", 1), 1);
	assert_int_equal(read(from[0], &c, 1), 1);
	assert_int_equal(c, 'n');
	*n = bulk_cma_copy(pid, LINK_PUT, is_guarded ? &g : NULL, src, IMAGE_AT, sizeof(src));
	if (is_guarded)
		assert_int_equal(bulk_cma_copy(pid, LINK_GET, &g, src, IMAGE_AT, sizeof(src)), -ESTALE);
	/* another process that removes tables may hold its lock for a moment, to see whether somebody does */
	for (uint64_t end = clk_now_ns(NULL) + 20 * NS_PER_SEC * unit_slow(); bulk_tab_owner_is_alive(tab); usleep(100))
		assert_true(clk_now_ns(NULL) < end);
	assert_int_equal(write(to[1], "l", 1), 1);
	status = reap(pid);
	assert_true(WIFEXITED(status));
	bulk_tab_slot_release(tab, slot);
	bulk_tab_put(tab);
	for (int i = 0; i < 2; i++)
		close(to[i]), close(from[i]);
	return WEXITSTATUS(status);
}

static void exec__new_image_is_not_touched(void **state)
{
	const uint64_t id = (uint64_t)getpid() << 32 | 0xabcdef07u;
	ssize_t n;

	if (!has_cma())
		skip();
	for (int i = 0; i < 5; i++) {
		assert_int_equal(exec_between(id + (uint64_t)i, true, &n), 0);
		assert_int_equal(n, -ESTALE);
	}
	assert_int_equal(exec_between(id + 8, false, &n), 1); /* as it would be without the guard */
	assert_int_equal(n, 4096);
}

static void take_twice(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	if (bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN))
		_exit(12);
	bulk_lease_drop(tab, slot);
	atomic_store(&g_sh->step, 1);
	while (!atomic_load(&g_sh->go))
		usleep(100);
	_exit(bulk_lease_take(tab, slot, PORT, key, LINK_GET, (uintptr_t)addr, LEN) == -EACCES ? 0 : 14);
}

static void take__after_del(void **state)
{
	uint32_t key = add(g_mem, LEN);
	pid_t pid = child(take_twice, key, g_mem);

	wait_step(1);
	timed_del(key);
	atomic_store(&g_sh->go, 1);
	assert_int_equal(reap(pid), 0);
}

/* --- slots ------------------------------------------------------------------------------------ */

static void slot__each_once_and_again_after_death(void **state)
{
	uint32_t key = add(g_mem, LEN);
	struct bulk_tab *tab = fp.node[1].bulk->tab;
	pid_t pid = child(take_and_hold, key, g_mem);
	int seen[BULK_SLOT_NUM] = {0}, n = 0, slot;

	wait_step(1);
	while ((slot = bulk_tab_slot_claim(tab)) >= 0) {
		assert_in_range(slot, 0, BULK_SLOT_NUM - 1);
		assert_int_equal(seen[slot]++, 0);
		n++;
	}
	assert_int_equal(slot, -ENOSPC);
	assert_int_equal(n, BULK_SLOT_NUM - 1); /* the child has one */
	kill(pid, SIGKILL);
	reap(pid);
	slot = bulk_tab_slot_claim(tab);
	assert_true(slot >= 0);
	assert_int_equal(seen[slot], 0);
	for (int i = 0; i < (int)BULK_SLOT_NUM; i++)
		bulk_tab_slot_release(tab, i);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* PUTs of one value all over the region, slice by slice, until it is refused. */
static void put_forever(struct bulk_tab *tab, int slot, uint32_t key, void *addr)
{
	static uint8_t src[BULK_SLICE_MAX];

	memset(src, 0xee, sizeof(src));
	for (uint64_t at = 0;; at = at + sizeof(src) < LEN ? at + sizeof(src) : 0) {
		int rc = bulk_lease_take(tab, slot, PORT, key, LINK_PUT, (uintptr_t)addr, LEN);
		size_t len = MIN(sizeof(src), LEN - at);

		if (rc) {
			atomic_store(&g_sh->rc, rc);
			atomic_store(&g_sh->step, 1000000);
			while (!atomic_load(&g_sh->go))
				usleep(100);
			_exit(0);
		}
		if (bulk_cma_copy(getppid(), LINK_PUT, NULL, src, (uintptr_t)addr + at, len) < 0)
			_exit(15);
		bulk_lease_drop(tab, slot);
		atomic_fetch_add(&g_sh->step, 1);
	}
}

/* Stop @pid inside a copy, not between two. Return: false if the kernel does not tell. */
static bool stop_inside_copy(pid_t pid)
{
	char path[64], text[32] = "";
	uint64_t end = real_ns() + 20 * NS_PER_SEC;
	int status;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	do {
		int fd;

		assert_true(real_ns() < end);
		kill(pid, SIGCONT);
		usleep(100);
		kill(pid, SIGSTOP);
		assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
		assert_true(WIFSTOPPED(status));
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
			return false;
		close(fd);
	} while (atoi(text) != SYS_process_vm_writev);
	return true;
}

/* After link_region_del() nothing may change in the memory any more, however the initiator fares.
 */
static void del__in_the_middle_of_copies(void **state)
{
	struct rng r = unit_rng();

	if (!has_cma())
		skip();
	for (int i = 0; i < 60; i++) {
		uint32_t key = add(g_mem, LEN);
		int sig = (int[]){0, SIGKILL, SIGSTOP}[i % 3];
		pid_t pid = child(put_forever, key, g_mem);

		wait_step(20);
		usleep((useconds_t)rng_below(&r, 300));
		if (sig == SIGSTOP && !stop_inside_copy(pid))
			print_message("cannot see where a stopped process is\n");
		else if (sig == SIGKILL)
			kill(pid, SIGKILL);
		if (sig == SIGSTOP)
			fp.room.dead_after_ns = 20 * NS_PER_MS;
		timed_del(key);
		memset(g_mem, 0x11, LEN);
		if (sig == SIGSTOP)
			kill(pid, SIGCONT);
		fp.room.dead_after_ns = 2 * NS_PER_SEC;
		if (sig != SIGKILL) {
			wait_step(1000000);
			assert_int_equal(atomic_load(&g_sh->rc), -EACCES);
		}
		for (size_t k = 0; k < LEN; k += 512) {
			if (((uint8_t *)g_mem)[k] != 0x11)
				fail_msg(
					"signal %d: byte %zu was written after the region had gone",
					sig, k);
		}
		atomic_store(&g_sh->go, 1);
		kill(pid, SIGKILL);
		reap(pid);
	}
}

/* --- the file --------------------------------------------------------------------------------- */

static void tab__attach_checks(void **state)
{
	char path[128];
	struct bulk_tab *tab;
	int fd;

	assert_int_equal(bulk_tab_attach(0x1234567, &tab), -ENOENT);
	/* a file by that name that is none of ours */
	snprintf(path, sizeof(path), "/dev/shm/softfabric-mr-%u-%llu-%016llx", (unsigned)geteuid(),
		 ({
			 struct stat st;
			 stat("/proc/self/ns/net", &st);
			 (unsigned long long)st.st_ino;
		 }),
		 0x1234567ULL);
	fd = open(path, O_CREAT | O_RDWR | O_EXCL, 0600);
	assert_true(fd >= 0);
	/* other programs that are tested meanwhile remove what nobody has locked */
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &(struct flock){.l_type = F_WRLCK, .l_len = 1}), 0);
	assert_int_equal(bulk_tab_attach(0x1234567, &tab), -EACCES); /* too short */
	assert_int_equal(ftruncate(fd, 100 << 20), 0);
	assert_int_equal(bulk_tab_attach(0x1234567, &tab), -EACCES); /* too long */
	close(fd);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(bulk_tab_attach(0x1234567, &tab), -ELOOP);
	unlink(path);
}

static int files_named(const char *text)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "exit $(ls /dev/shm | grep -c -- %s)", text);
	return WEXITSTATUS(system(cmd));
}

static int files_of_node(int node)
{
	char id[32];

	snprintf(id, sizeof(id), "%016llx", (unsigned long long)fp.node[node].bulk_id);
	return files_named(id);
}

static void tab__file_lives_as_long_as_the_node(void **state)
{
	uint32_t key;

	assert_int_equal(files_of_node(1), 0);
	key = add(g_mem, LEN);
	assert_int_equal(files_of_node(1), 1);
	fflush(stdout);
	/* a forked child that lets go of it touches nothing */
	if (!unit_fork()) {
		bulk_tab_put(fp.node[1].bulk->tab);
		_exit(0);
	}
	wait(NULL);
	assert_int_equal(files_of_node(1), 1);
	link_region_del(&fp.node[1], key);
	assert_int_equal(files_of_node(1), 1);
}

/* The node of a process that died: initiators see it, and the file is removed by them or by whoever
 * makes a table later. */
static void tab__owner_dies(void **state)
{
	const uint64_t id = (uint64_t)getpid() << 32 | 0xabcdef01u; /* two of this program may run at once */
	uint64_t end = real_ns() + 20 * NS_PER_SEC * unit_slow();
	struct bulk_tab *tab;
	char name[32];
	int fd[2];
	char c;

	snprintf(name, sizeof(name), "%016llx", (unsigned long long)id);
	assert_int_equal(pipe(fd), 0);
	for (int attach = 0; attach < 2; attach++) {
		pid_t pid = unit_fork();

		if (!pid) {
			if (bulk_tab_create(id, &tab))
				_exit(1);
			if (write(fd[1], "x", 1) != 1)
				_exit(2);
			pause();
		}
		assert_int_equal(read(fd[0], &c, 1), 1);
		if (attach) {
			assert_int_equal(bulk_tab_attach(id, &tab), 0);
			assert_true(bulk_tab_owner_is_alive(tab));
		}
		kill(pid, SIGKILL);
		reap(pid);
		/* whoever makes a table somewhere on this host looks at the file as well, and may have removed it */
		assert_in_range(files_named(name), 0, 1);
		if (attach) {
			while (bulk_tab_owner_is_alive(tab))
				assert_true(real_ns() < end);
			bulk_tab_put(tab);
		} else {
			int rc;

			for (; !(rc = bulk_tab_attach(id, &tab)); bulk_tab_put(tab)) /* such a look is a lock, too */
				assert_true(real_ns() < end);
			assert_int_equal(rc, -ENOENT);
			assert_int_equal(bulk_tab_create(id + 1, &tab), 0);
			bulk_tab_put(tab);
		}
		while (files_named(name)) /* who looks at it may hold its lock for a moment: then that one removes it */
			assert_true(real_ns() < end);
	}
	close(fd[0]);
	close(fd[1]);
}

/* exit() without close removes what this process made, and nothing that its parent made. */
static void tab__exit(void **state)
{
	const uint64_t id = (uint64_t)getpid() << 32 | 0xabcdef03u;
	char name[32];
	pid_t pid;

	snprintf(name, sizeof(name), "%016llx", (unsigned long long)id);
	add(g_mem, LEN);
	fflush(stdout);
	pid = unit_fork();
	if (!pid) {
		static struct bulk_tab *own, *parents;

		alarm(60);
		if (bulk_tab_create(id, &own) || bulk_tab_attach(fp.node[1].bulk_id, &parents) ||
		    files_named(name) != 1)
			_exit(1);
		exit(0);
	}
	assert_int_equal(reap(pid), 0);
	assert_int_equal(files_named(name), 0);
	assert_int_equal(files_of_node(1), 1);
}

/* One whose lease was taken away in the middle of bulk_lease_fill(), and whose place another region has by then. */
static void fill__is_of_one_region(void **state)
{
	uint32_t key = add(g_mem, LEN), next = key ^ 1u << 31, idx = 0;
	struct bulk_tab *tab = fp.node[1].bulk->tab;
	int slot = bulk_tab_slot_claim(tab);

	assert_true(slot >= 0);
	assert_int_equal(bulk_lease_take(tab, slot, PORT, key, LINK_PUT, (uintptr_t)g_mem, LEN), 0);
	bulk_lease_fill(tab, slot, key, 100);
	while (bulk_tab_filled(tab, idx) != 100)
		assert_true(++idx < bulk_tab_entry_cnt(tab));
	bulk_tab_publish(tab, idx, next, (uintptr_t)g_mem, LEN, LINK_PUT, 0);
	bulk_lease_fill(tab, slot, key, 200);
	assert_int_equal(bulk_tab_filled(tab, idx), 0);
	bulk_lease_fill(tab, slot, next, 300);
	assert_int_equal(bulk_tab_filled(tab, idx), 300);
	assert_int_equal(bulk_lease_drop(tab, slot), 0);
	bulk_tab_slot_release(tab, slot);
	link_region_del(&fp.node[1], key);
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		T(del__waits_for_a_live_lease),
		T(del__ignores_leases_on_others),
		T(del__killed_holder),
		T(del__killed_holder_with_living_child),
		T(del__stopped_holder),
		T(del__sleeping_holder),
		T(del__busy_holder),
		T(shut__waits_for_its_own_leases),
		T(shut__stopped_holder),
		T(del__stopped_before_its_copy),
		T(exec__new_image_is_not_touched),
		T(take__after_del),
		T(fill__is_of_one_region),
		T(slot__each_once_and_again_after_death),
		T(del__in_the_middle_of_copies),
		T(tab__attach_checks),
		T(tab__file_lives_as_long_as_the_node),
		T(tab__owner_dies),
		T(tab__exit),
	};

	if (argc == 4 && !strcmp(argv[1], "image"))
		image_new(atoi(argv[2]), atoi(argv[3]));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
