// SPDX-License-Identifier: BSD-2-Clause
// The shared region table: a file in /dev/shm per node, from which initiators on the host learn
// what they may touch.
//
// Theory of operation: the owner keeps what is valid in private memory (bulk_region.c) and publishes a
// copy here; it reads nothing back but leases. An initiator that copies by itself must not do so
// after the owner deregistered the region, so it says first what it is about to touch:
//
//	initiator				owner
//	look where the guard is (see below)
//	slot.lease = index + 1, port		entry.key = 0
//	full fence				full fence
//	entry.key == mine?  else drop, refuse	any slot.lease == index + 1?  then wait
//	copy
//	slot.lease = 0
//
// Either the initiator sees that the key is gone or the owner sees the lease (Dekker). It is the same where the owner
// shuts a port (shm_hdr.serves, beside the key) and waits for the leases for peers of that. A copy is at
// most BULK_SLICE_MAX bytes, so a live initiator lets go soon. Whether it lives is told by a POSIX
// record lock on byte 1 + slot of the file: it is given up by the kernel only after the last thread
// of the process has left its last system call, needs no pid (hence crosses pid namespaces),
// survives SIGSTOP and is not inherited by fork. Byte 0 is the owner's. Record locks belong to the
// process and all of them are lost when *any* descriptor of the file is closed, so a process opens
// each table once and its nodes share that; another copy of this code in the process (another
// provider) is told by what is mapped, and its files are not opened. For the same reason the names
// are none that shm_seg.c's reaper would look into.
//
// A holder may be stopped while the region is wanted back (SIGSTOP, a debugger, a frozen cgroup: only the first two
// show in its state). One that has not moved for a quarter of dead_after, state T or its CPU time unchanged, loses its
// lease, any holder after dead_after (bulk_tab_break()). It could go on, between its look at the key and its system
// call; therefore the guard:
//
// The guard is a page of the owner, at a random address, with a random token. Each kernel copy begins with it: a read
// reads the token in the same call and compares it, a write writes it. The kernel takes the address space once per call
// and goes through the pieces in order, up to the first that is not mapped. So a call touches nothing of an owner that
// has replaced its image by exec(), or of another process with its pid; and before a lease is broken the guard moves,
// so that nothing is written by who had looked before. What remains is a holder that had begun its system call and
// sleeps in it, for a page that its own memory is waiting for: a stop or a freeze takes effect when a process returns
// from the kernel, after the copy.
#include "link/bulk/bulk_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/proc.h"

#define TAB_MAGIC   0x3542617446746653ULL
#define TAB_HDR_LEN 4096u

/* All fields little or big as the host; both sides are this host. */
struct tab_hdr {
	_Atomic uint64_t magic; /* written last */
	uint64_t node_id;
	uint32_t slot_num, entry_len;
	_Atomic uint32_t entry_cnt; /* entries that have memory; only grows */
	_Atomic uint32_t slot_top;  /* slots that were ever claimed lie below; only grows */
	_Atomic uint32_t is_partial; /* some regions are not here: there was no memory */
	uint64_t token;
	_Atomic uint64_t guard; /* where the owner has @token now; 0: nowhere */
};

struct tab_slot {
	_Alignas(CACHE_LINE) _Atomic uint64_t owner; /* token of the process; 0 = free */
	_Atomic uint64_t lease;			     /* bulk_lease_of(); 0 = none */
	_Atomic uint64_t moved[2]; /* bytes read and written here by all holders so far; the holder writes */
};

struct tab_entry {
	_Atomic uint64_t addr, len;
	_Atomic uint32_t key;
	_Atomic uint32_t may; /* rights, and whose peers have them: MAY_* */
	_Atomic uint64_t filled; /* FILL_*: how much from @addr on is there; written by whoever fills it */
};
#define FILL_OF	 GENMASK(63, 40) /* key >> 8, the rest is the place: who is late must not speak of the next one here */
#define FILL_LEN GENMASK(39, 0)	 /* bytes */
#define MAY_OP	 GENMASK(1, 0)
#define MAY_WHO	 GENMASK(31, 2) /* bulk_admits() */
static_assert(sizeof(struct tab_hdr) <= TAB_HDR_LEN, "layout");
static_assert(sizeof(struct tab_slot) == CACHE_LINE, "layout");
static_assert(sizeof(struct tab_entry) == 32, "layout");

#define TAB_ENTRY_OFF (TAB_HDR_LEN + BULK_SLOT_NUM * sizeof(struct tab_slot))
#define TAB_LEN	      (TAB_ENTRY_OFF + BULK_ENTRY_MAX * sizeof(struct tab_entry))
#define TAB_NAME_LEN  80
#define TAB_DIR	      "/dev/shm"
#define TAB_NEW_TRIES 1000
#define TAB_REAP_MAX  64 /* files looked at per table made */
#define TAB_NAMES_MAX 65536 /* names, which others may make */

struct bulk_tab {
	struct bulk_tab *next; /* g_tabs.list */
	uint64_t node_id;
	uint32_t refs; /* g_tabs.mutex */
	bool is_own;   /* this process made it */
	pid_t pid;     /* of the process that opened it */
	uint64_t guard, token; /* owner: what it has told in @hdr, which others can write */
	int fd;
	struct tab_hdr *hdr;
	struct tab_slot *slot;
	struct tab_entry *entry;
	struct bulk_watch *watch; /* owner: [BULK_SLOT_NUM], made when first needed */
};

/* A holder that is waited for. */
struct bulk_watch {
	uint64_t look_ns, since_ns, cpu; /* the last look; since when its CPU time is @cpu */
	uint64_t lease;
};

/* The tables that this process has open. Cold paths only: open, close, claim, release. */
static struct {
	pthread_mutex_t mutex; /* protects all of it */
	pid_t pid;	       /* 0: nobody has asked in this process yet */
	uint64_t token;	       /* names this process in slots */
	struct bulk_tab *list;
	bool is_exiting; /* no file is made any more: nobody would remove it */
} g_tabs = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A forked child, which has one thread as yet, starts with an empty list: fork copied the mutex in
 * whatever state another thread had it. */
static void tabs_in_child(void)
{
	pthread_mutex_init(&g_tabs.mutex, NULL);
	g_tabs.pid = 0;
	g_tabs.list = NULL;
}

static void tabs_watch_fork(void)
{
	pthread_atfork(NULL, NULL, tabs_in_child);
}

static void tabs_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pid_t pid = getpid();

	pthread_once(&once, tabs_watch_fork);
	pthread_mutex_lock(&g_tabs.mutex);
	if (!g_tabs.pid) {
		g_tabs.pid = pid;
		g_tabs.token = rng_entropy() | 1;
	}
}

static void tabs_unlock(void)
{
	pthread_mutex_unlock(&g_tabs.mutex);
}

static int byte_lock(int fd, uint32_t byte, short type)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(fd, F_SETLK, &fl) ? -errno : 0;
}

/* Whether another process holds @byte; one's own locks are never reported. @pid: out, may be NULL;
 * 0 = not known here. */
static bool byte_is_locked_by(int fd, uint32_t byte, pid_t *pid)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	bool is_known = fcntl(fd, F_GETLK, &fl) == 0;

	if (pid)
		*pid = is_known ? fl.l_pid : 0;
	/* an error leaves us not knowing: then nobody is declared dead */
	return !is_known || fl.l_type != F_UNLCK;
}

static bool byte_is_locked(int fd, uint32_t byte)
{
	return byte_is_locked_by(fd, byte, NULL);
}

static void name_prefix(char *buf, size_t len)
{
	struct stat st;
	unsigned long long netns = stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;

	snprintf(buf, len, "softfabric-mr-%u-%llu-", (unsigned)geteuid(), netns);
}

static void tab_name(char *buf, size_t len, uint64_t node_id)
{
	char prefix[TAB_NAME_LEN - 20];

	name_prefix(prefix, sizeof(prefix));
	snprintf(buf, len, "/%s%016llx", prefix, (unsigned long long)node_id);
}

static struct bulk_tab *tabs_find(uint64_t node_id)
{
	struct bulk_tab *t = g_tabs.list;

	while (t && t->node_id != node_id)
		t = t->next;
	return t;
}

static int tab_map(struct bulk_tab *t)
{
	void *p = mmap(NULL, TAB_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	madvise(p, TAB_LEN,
		MADV_DONTFORK); /* a child that uses this table maps it by itself */
	t->hdr = p;
	t->slot = (struct tab_slot *)((char *)p + TAB_HDR_LEN);
	t->entry = (struct tab_entry *)((char *)p + TAB_ENTRY_OFF);
	return 0;
}

/*
 * A page with the token where no other process, nor another image of this one, is likely to have any. NULL: no memory.
 */
static uint64_t *guard_map(uint64_t token)
{
	uint64_t *page = MAP_FAILED;
	uint64_t at = 0;

	/* The last one stays wherever it is: an address in use, or that is none, is only a hint. */
	for (int i = 0; i < 32 && (uintptr_t)page != at; i++) {
		if (page != MAP_FAILED)
			munmap(page, 4096);
		/* 47 bits of address, or 38 where there are no more */
		at = (rng_entropy() >> (i < 16 ? 17 : 26)) & ~4095ULL;
		page = mmap((void *)(uintptr_t)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (page == MAP_FAILED)
		return NULL;
	madvise(page, 4096, MADV_DONTFORK);
	*page = token;
	return page;
}

static void guard_unmap(uint64_t at)
{
	if (at)
		munmap((void *)(uintptr_t)at, 4096);
}

/* Copies that have not begun by now touch nothing. Others look where the guard is now, and try again. */
static void guard_move(struct bulk_tab *tab)
{
	uint64_t was = tab->guard;

	tab->guard = (uintptr_t)guard_map(tab->token);
	atomic_store(&tab->hdr->guard, tab->guard);
	guard_unmap(was);
}

struct bulk_guard bulk_tab_guard(const struct bulk_tab *tab)
{
	return (struct bulk_guard){.at = atomic_load(&tab->hdr->guard), .token = tab->hdr->token};
}

/* Under the mutex: remember a table that is complete. */
static void tabs_insert(struct bulk_tab *t)
{
	t->pid = g_tabs.pid;
	t->refs = 1;
	t->next = g_tabs.list;
	g_tabs.list = t;
}

/*
 * A new file that this process owns. Until it is locked it looks like a file of a process that has died. A reaper that
 * has its lock will unlink it, and nobody else does that, or there would be a successor under the name by then.
 */
static int tab_file_new(struct bulk_tab *t, const char *name)
{
	struct stat st;

	for (int i = 0; i < TAB_NEW_TRIES; i++) {
		t->fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (t->fd < 0 && errno != EEXIST)
			return -errno;
		if (t->fd >= 0) {
			if (!byte_lock(t->fd, 0, F_WRLCK) && !fstat(t->fd, &st) && st.st_nlink)
				return 0;
			close(t->fd);
		}
		sched_yield();
	}
	return -EAGAIN;
}

static int tab_file_create(struct bulk_tab *t, const char *name)
{
	int rc = tab_file_new(t, name);

	if (rc)
		return rc;
	rc = limits_truncate(t->fd, TAB_LEN);
	if (!rc) /* a full /dev/shm must be an error here, not SIGBUS later */
		rc = limits_allocate(t->fd, 0, TAB_ENTRY_OFF);
	if (!rc)
		rc = tab_map(t);
	if (rc) {
		close(t->fd);
		shm_unlink(name);
		return rc;
	}
	t->hdr->node_id = t->node_id;
	t->hdr->slot_num = BULK_SLOT_NUM;
	t->hdr->entry_len = sizeof(struct tab_entry);
	t->hdr->token = t->token = rng_entropy();
	t->guard = (uintptr_t)guard_map(t->token);
	atomic_store(&t->hdr->guard, t->guard);
	/* release: whoever maps or reads it sees the rest, and the lock */
	atomic_store_explicit(&t->hdr->magic, TAB_MAGIC, memory_order_release);
	return 0;
}

/* Whether another copy of this code in this process has @name ("/softfabric-...") open. Unknown
 * counts as yes. */
static bool is_mapped_here(const char *maps, const char *name)
{
	return !maps || strstr(maps, name);
}

/* Remove one file if its owner has died. Never one that this process has open: closing it would
 * drop our locks on it. Return: whether it is of our user. */
static bool tab_reap_one(const char *maps, uint64_t node_id)
{
	char path[sizeof(TAB_DIR) + TAB_NAME_LEN], *name = path + strlen(TAB_DIR);
	struct stat st;
	int fd;

	strcpy(path, TAB_DIR);
	tab_name(name, TAB_NAME_LEN, node_id);
	if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return false;
	if (tabs_find(node_id) || is_mapped_here(maps, name))
		return true;
	fd = shm_open(name, O_RDWR, 0);
	if (fd < 0)
		return true;
	/* without a name it was reaped by another, and the name may mean a new file by now */
	if (!byte_lock(fd, 0, F_WRLCK) && !fstat(fd, &st) && st.st_nlink && st.st_uid == geteuid())
		shm_unlink(name);
	close(fd); /* the lock, too */
	return true;
}

static void tabs_reap(void)
{
	char prefix[TAB_NAME_LEN - 20], *maps = NULL;
	DIR *dir = opendir(TAB_DIR);
	struct dirent *e;
	int looks = 0, names = 0;

	name_prefix(prefix, sizeof(prefix));
	while (dir && looks < TAB_REAP_MAX && names++ < TAB_NAMES_MAX && (e = readdir(dir))) {
		const char *hex = e->d_name + strlen(prefix);
		unsigned long long id;

		if (strncmp(e->d_name, prefix, strlen(prefix)) || strlen(hex) != 16 ||
		    sscanf(hex, "%16llx", &id) != 1)
			continue;
		if (!maps)
			maps = bulk_maps_read();
		looks += tab_reap_one(maps, id);
	}
	if (dir)
		closedir(dir);
	mem_free(maps);
}

void bulk_tab_reap(void)
{
	tabs_lock();
	tabs_reap();
	tabs_unlock();
}

int bulk_tab_create(uint64_t node_id, struct bulk_tab **out)
{
	struct bulk_tab *t = mem_alloc(sizeof(*t));
	char name[TAB_NAME_LEN];
	int rc;

	if (!t)
		return -ENOMEM;
	t->node_id = node_id;
	t->is_own = true;
	tab_name(name, sizeof(name), node_id);
	tabs_lock();
	tabs_reap();
	rc = g_tabs.is_exiting ? -ESHUTDOWN : tab_file_create(t, name);
	if (!rc)
		tabs_insert(t);
	tabs_unlock();
	if (rc) {
		mem_free(t);
		return rc;
	}
	*out = t;
	return 0;
}

/* Everything that would make the mapping unsafe or not what it claims to be. */
static int tab_file_check(const struct bulk_tab *t)
{
	struct stat st;

	if (fstat(t->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0077) ||
	    st.st_size != (off_t)TAB_LEN)
		return -EACCES;
	return byte_is_locked(t->fd, 0) ? 0 : -ENOENT; /* left behind by a dead owner */
}

static int tab_file_attach(struct bulk_tab *t, const char *name)
{
	char *maps = bulk_maps_read();
	bool is_elsewhere = is_mapped_here(maps, name);
	int rc;

	mem_free(maps);
	if (is_elsewhere)
		return -ENOENT;
	t->fd = shm_open(name, O_RDWR, 0);
	if (t->fd < 0)
		return -errno;
	rc = tab_file_check(t);
	if (!rc)
		rc = tab_map(t);
	if (!rc &&
	    (t->hdr->magic != TAB_MAGIC || t->hdr->node_id != t->node_id ||
	     t->hdr->slot_num != BULK_SLOT_NUM || t->hdr->entry_len != sizeof(struct tab_entry))) {
		munmap(t->hdr, TAB_LEN);
		rc = -ENOENT;
	}
	if (rc)
		close(t->fd);
	return rc;
}

int bulk_tab_attach(uint64_t node_id, struct bulk_tab **out)
{
	char name[TAB_NAME_LEN];
	struct bulk_tab *t;
	int rc = 0;

	tabs_lock();
	t = tabs_find(node_id);
	if (t) {
		t->refs++;
		goto out;
	}
	t = mem_alloc(sizeof(*t));
	if (!t) {
		rc = -ENOMEM;
		goto out;
	}
	t->node_id = node_id;
	tab_name(name, sizeof(name), node_id);
	rc = tab_file_attach(t, name);
	if (rc)
		mem_free(t);
	else
		tabs_insert(t);
out:
	tabs_unlock();
	if (!rc)
		*out = t;
	return rc;
}

void bulk_tab_put(struct bulk_tab *tab)
{
	struct bulk_tab **pp = &g_tabs.list;
	char name[TAB_NAME_LEN];

	if (!tab || tab->pid != getpid()) /* a forked child leaves it alone */
		return;
	tabs_lock();
	if (--tab->refs)
		goto out;
	while (*pp != tab)
		pp = &(*pp)->next;
	*pp = tab->next;
	if (tab->is_own || !byte_is_locked(tab->fd, 0)) { /* an owner that has died cannot remove it */
		tab_name(name, sizeof(name), tab->node_id);
		shm_unlink(name);
	}
	if (tab->is_own) {
		atomic_store(&tab->hdr->guard, 0);
		guard_unmap(tab->guard);
	}
	munmap(tab->hdr, TAB_LEN);
	close(tab->fd);
	mem_free(tab->watch);
	mem_free(tab);
out:
	tabs_unlock();
}

/* exit() with tables open. Other threads may still use them, so that only the names go. */
static __attribute__((destructor)) void tabs_at_exit(void)
{
	char name[TAB_NAME_LEN];

	if (!exit_lock(&g_tabs.mutex))
		return;
	g_tabs.is_exiting = true;
	for (struct bulk_tab *t = g_tabs.list; t; t = t->next) {
		if (!t->is_own || t->pid != getpid())
			continue;
		tab_name(name, sizeof(name), t->node_id);
		shm_unlink(name);
	}
	tabs_unlock();
}

uint32_t bulk_tab_entry_cnt(const struct bulk_tab *tab)
{
	/* acquire; pairs with the release in bulk_tab_grow(): the entries below have memory */
	uint32_t cnt = atomic_load_explicit(&tab->hdr->entry_cnt, memory_order_acquire);

	return MIN(cnt, BULK_ENTRY_MAX);
}

int bulk_tab_grow(struct bulk_tab *tab, uint32_t cnt)
{
	uint32_t have = bulk_tab_entry_cnt(tab);

	if (cnt <= have)
		return 0;
	if (limits_allocate(tab->fd, TAB_ENTRY_OFF + have * sizeof(struct tab_entry),
			    (cnt - have) * sizeof(struct tab_entry))) {
		atomic_store_explicit(&tab->hdr->is_partial, 1, memory_order_relaxed);
		return -ENOSPC;
	}
	atomic_store_explicit(&tab->hdr->entry_cnt, cnt, memory_order_release);
	return 0;
}

void bulk_tab_publish(struct bulk_tab *tab, uint32_t idx, uint32_t key, uint64_t addr, uint64_t len,
		      unsigned rights, uint32_t scope)
{
	uint32_t may = (uint32_t)(FIELD_PREP(MAY_OP, rights) | FIELD_PREP(MAY_WHO, scope));
	struct tab_entry *e = &tab->entry[idx];

	atomic_store_explicit(&e->addr, addr, memory_order_relaxed);
	atomic_store_explicit(&e->len, len, memory_order_relaxed);
	atomic_store_explicit(&e->may, may, memory_order_relaxed);
	atomic_store_explicit(&e->filled, FIELD_PREP(FILL_OF, key >> 8), memory_order_relaxed);
	/* release; pairs with the acquire in bulk_lease_take(): who sees the key sees its fields */
	atomic_store_explicit(&e->key, key, memory_order_release);
}

void bulk_tab_retract(struct bulk_tab *tab, uint32_t idx)
{
	atomic_store_explicit(&tab->entry[idx].key, 0, memory_order_relaxed);
	/* full fence; pairs with the one in bulk_lease_take() */
	atomic_thread_fence(memory_order_seq_cst);
}

static uint32_t slot_top(const struct bulk_tab *tab)
{
	uint32_t top = atomic_load_explicit(&tab->hdr->slot_top, memory_order_relaxed);

	return MIN(top, BULK_SLOT_NUM);
}

bool bulk_tab_is_leased(struct bulk_tab *tab, struct bulk_leases leases, bool reap)
{
	bool busy = false;

	for (uint32_t i = 0; i < slot_top(tab); i++) {
		struct tab_slot *s = &tab->slot[i];
		/* acquire; pairs with the release in bulk_lease_drop(): the copy has ended */
		uint64_t lease = atomic_load_explicit(&s->lease, memory_order_acquire);

		if ((lease & leases.mask) != leases.is)
			continue;
		if (reap && atomic_load_explicit(&s->owner, memory_order_relaxed) != g_tabs.token &&
		    !byte_is_locked(tab->fd, 1 + i))
			atomic_compare_exchange_strong(&s->lease, &lease, 0);
		else
			busy = true;
	}
	return busy;
}

/* Has the holder, @pid, of slot @i not moved for @patience_ns? */
static bool is_stuck(struct bulk_tab *tab, uint32_t i, pid_t pid, const struct bulk_wait *w)
{
	struct bulk_watch *watch = &tab->watch[i];
	uint64_t lease = atomic_load_explicit(&tab->slot[i].lease, memory_order_relaxed);
	bool is_new = watch->lease != lease || w->now_ns - watch->look_ns > w->patience_ns;
	struct proc_stat st = {0};

	if (w->waited_ns > BULK_PATIENCES * w->patience_ns)
		return true; /* a copy does not take that long, whatever else its process does */
	if (!is_new && w->now_ns - watch->look_ns < w->patience_ns / 16)
		return false;
	if (pid > 0) /* 0: of another pid namespace */
		proc_look(pid, &st);
	if (!st.state)
		return false; /* not to be seen from here: the bound above is for it */
	watch->look_ns = w->now_ns;
	/* a process that waits for a CPU may be in the middle of its copy */
	if (is_new || st.cpu_ticks != watch->cpu || st.state == 'R') {
		watch->lease = lease;
		watch->cpu = st.cpu_ticks;
		watch->since_ns = w->now_ns;
	}
	if (st.state == 'T' || st.state == 't')
		return w->waited_ns > w->patience_ns;
	return w->now_ns - watch->since_ns >= w->patience_ns;
}

bool bulk_tab_break(struct bulk_tab *tab, struct bulk_leases leases, const struct bulk_wait *w)
{
	bool broken = false;

	if (!tab->watch)
		tab->watch = mem_alloc(BULK_SLOT_NUM * sizeof(*tab->watch));
	for (uint32_t i = 0; tab->watch && i < slot_top(tab); i++) {
		uint64_t lease = atomic_load_explicit(&tab->slot[i].lease, memory_order_acquire);
		pid_t pid;

		if ((lease & leases.mask) != leases.is ||
		    atomic_load_explicit(&tab->slot[i].owner, memory_order_relaxed) == g_tabs.token)
			continue;
		if (!byte_is_locked_by(tab->fd, 1 + i, &pid) || !is_stuck(tab, i, pid, w))
			continue;
		if (!broken)
			guard_move(tab);
		broken = true;
		atomic_compare_exchange_strong(&tab->slot[i].lease, &lease, 0);
	}
	return broken;
}

bool bulk_tab_owner_is_alive(struct bulk_tab *tab)
{
	return tab->is_own || byte_is_locked(tab->fd, 0);
}

/* Under the mutex. Whoever gets the lock may have the slot, unless another node of this process has
 * it. */
static bool slot_try(struct bulk_tab *tab, uint32_t i, bool also_dead)
{
	struct tab_slot *s = &tab->slot[i];
	uint64_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
	uint32_t top = slot_top(tab);

	if (owner == g_tabs.token || (owner && !also_dead) || byte_lock(tab->fd, 1 + i, F_WRLCK))
		return false;
	if (!atomic_compare_exchange_strong(&s->owner, &owner, g_tabs.token)) {
		byte_lock(tab->fd, 1 + i, F_UNLCK);
		return false;
	}
	atomic_store(&s->lease, 0);
	while (top <= i && !atomic_compare_exchange_weak(&tab->hdr->slot_top, &top, i + 1))
		;
	return true;
}

int bulk_tab_slot_claim(struct bulk_tab *tab)
{
	int slot = -ENOSPC;

	tabs_lock();
	for (uint32_t i = 0; i < 2 * BULK_SLOT_NUM && slot < 0; i++) {
		if (slot_try(tab, i % BULK_SLOT_NUM, i >= BULK_SLOT_NUM))
			slot = (int)(i % BULK_SLOT_NUM);
	}
	tabs_unlock();
	return slot;
}

void bulk_tab_slot_release(struct bulk_tab *tab, int slot)
{
	if (tab->pid != getpid())
		return;
	tabs_lock();
	atomic_store(&tab->slot[slot].lease, 0);
	atomic_store(&tab->slot[slot].owner, 0);
	byte_lock(tab->fd, 1 + (uint32_t)slot, F_UNLCK);
	tabs_unlock();
}

/* As the owner's region_find(). A key that is just being published or retracted may be missed. */
static struct tab_entry *entry_find(const struct bulk_tab *tab, uint32_t key)
{
	uint32_t cnt = bulk_tab_entry_cnt(tab);

	for (cnt = cnt ? 1u << (31 - __builtin_clz(cnt)) : 0; key && cnt >= BULK_ENTRY_MIN; cnt /= 2) {
		struct tab_entry *e = &tab->entry[key & (cnt - 1)];

		if (atomic_load_explicit(&e->key, memory_order_relaxed) == key)
			return e;
	}
	return NULL;
}

int bulk_lease_take(struct bulk_tab *tab, int slot, uint16_t port, uint32_t key, int op, uint64_t addr, uint64_t len)
{
	struct tab_entry *e = entry_find(tab, key);
	uint32_t idx = e ? (uint32_t)(e - tab->entry) : 0;
	uint64_t start, size;

	if (!e)
		return atomic_load_explicit(&tab->hdr->is_partial, memory_order_relaxed) ? -ENOENT : -EACCES;
	atomic_store_explicit(&tab->slot[slot].lease, bulk_lease_of(idx, port), memory_order_relaxed);
	/* full fence; pairs with those in bulk_tab_retract() and bulk_port_shut(): the owner sees the lease, or we see
	 * that the key is gone or the port shut */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&e->key, memory_order_acquire) != key)
		goto refuse;
	start = atomic_load_explicit(&e->addr, memory_order_relaxed);
	size = atomic_load_explicit(&e->len, memory_order_relaxed);
	if (!(atomic_load_explicit(&e->may, memory_order_relaxed) & MAY_OP & (unsigned)op) ||
	    addr < start || len > size || addr - start > size - len)
		goto refuse;
	return 0;

refuse:
	atomic_store_explicit(&tab->slot[slot].lease, 0, memory_order_release);
	return -EACCES;
}

/* The region of our lease; NULL: it was taken away, as to drop it will tell. */
static struct tab_entry *entry_leased(const struct bulk_tab *tab, int slot)
{
	uint64_t lease = atomic_load_explicit(&tab->slot[slot].lease, memory_order_relaxed) & BULK_LEASE_INDEX;

	return lease && lease <= bulk_tab_entry_cnt(tab) ? &tab->entry[lease - 1] : NULL;
}

int bulk_lease_admits(const struct bulk_tab *tab, int slot, uint16_t port, uint32_t serves)
{
	const struct tab_entry *e = entry_leased(tab, slot);
	uint32_t may = e ? atomic_load_explicit(&e->may, memory_order_relaxed) : 0;

	return bulk_admits((uint32_t)FIELD_GET(MAY_WHO, may), port, serves);
}

int bulk_lease_drop(struct bulk_tab *tab, int slot)
{
	/* release; pairs with the acquire in bulk_tab_is_leased() */
	return atomic_exchange_explicit(&tab->slot[slot].lease, 0, memory_order_release) ? 0
											 : -EACCES;
}

void bulk_lease_note(struct bulk_tab *tab, int slot, int op, uint64_t len)
{
	_Atomic uint64_t *at = &tab->slot[slot].moved[op - LINK_GET];

	/* relaxed, no read-modify-write: a count, and the slot is ours alone */
	atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + len, memory_order_relaxed);
}

void bulk_lease_fill(struct bulk_tab *tab, int slot, uint32_t key, uint64_t len)
{
	uint64_t was, now = FIELD_PREP(FILL_OF, key >> 8) | MIN(len, FILL_LEN);
	struct tab_entry *e = entry_leased(tab, slot);

	if (!e)
		return;
	/* It may be taken away here, too, and the place given to another region: then @was is of that one.
	 * relaxed: ordered by the lease, which is dropped after this */
	was = atomic_load_explicit(&e->filled, memory_order_relaxed);
	if ((was & FILL_OF) == (now & FILL_OF))
		atomic_compare_exchange_strong_explicit(&e->filled, &was, now, memory_order_relaxed,
							memory_order_relaxed);
}

uint64_t bulk_tab_filled(const struct bulk_tab *tab, uint32_t idx)
{
	return atomic_load_explicit(&tab->entry[idx].filled, memory_order_relaxed) & FILL_LEN;
}

uint64_t bulk_tab_moved(const struct bulk_tab *tab, int op)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < slot_top(tab); i++)
		sum += atomic_load_explicit(&tab->slot[i].moved[op - LINK_GET], memory_order_relaxed);
	return sum;
}
