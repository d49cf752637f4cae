// SPDX-License-Identifier: BSD-2-Clause
// Segments as files: liveness lock, attaching, and reaping what the dead left behind.
#include "link/shm/shm_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/reserve.h"

/*
 * Theory of operation
 *
 * The owner of a segment holds a POSIX write lock on byte 0 of its file as long as it lives. Others
 * ask with F_GETLK: it crosses pid namespaces, a forked child does not inherit it, and the kernel
 * drops it at any kind of death. Its one trap: a process that closes *any* descriptor of a file
 * loses its locks on it. So a process never opens its own segments: g_own lists them, and attaching
 * to one shares the owner's mapping. A second copy of this code in the process (another provider)
 * has its own list; a file that looks dead but names our pid is therefore looked for in
 * /proc/self/maps, and if it is there the descriptor is kept (shm_fd_keep()), not closed.
 *
 * A process that ends by exit() removes its segments on the way, open ports or not; only who is killed
 * leaves them to a reaper.
 *
 * How a new file is told from one of the dead: a reaper takes the lock itself before it unlinks (a lock that is not the
 * owner's proves nothing, so that then it is asked whether there is such a process), and checks that the
 * name still means the file that it has locked; the owner does the same check after it has locked its new file, and
 * starts again if it lost.
 *
 * Other users may make files in the same directory, of any name and in any number. What is not of our user is none of
 * ours: it is not opened for writing, not counted, and looked at SHM_NAMES_MAX (shm_dir.c) times at most; the name of a
 * segment that somebody else has taken costs that port its shared memory, and who it was is said. The doorbell's name
 * has a random part, so that nobody can have it before us.
 */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define REAP_MAX    64 /* files looked at per port that opens */
#define NEWBORN_SEC 2  /* an unfinished file may be younger than its lock */
#define LOCK_UNKNOWN (-1)
#define REAPER_NAPS 500 /* of 1 ms: a reaper may stand in line for a CPU just while it holds a lock */

static pthread_mutex_t g_own_mutex = PTHREAD_MUTEX_INITIALIZER; /* g_own, and shm_seg.refs of all */
static struct shm_seg *g_own;
/* What all segments say, as shm_hdr.room. Relaxed; it changes under the mutex. */
static _Atomic int32_t g_room;
static bool g_is_exiting; /* no file is made any more: nobody would remove it */

/* A forked child has one thread as yet; the mutex came with it in whatever state another one had it. */
static void own_in_child(void)
{
	pthread_mutex_init(&g_own_mutex, NULL);
}

static void own_watch_fork(void)
{
	pthread_atfork(NULL, NULL, own_in_child);
}

uint32_t shm_tag(const uint8_t ip[16], uint16_t port)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (int i = 0; i < 16; i++)
		h = (h ^ ip[i]) * 0x100000001b3ull;
	h = (h ^ port) * 0x100000001b3ull;
	h ^= h >> 32;
	return (uint32_t)h ? (uint32_t)h : 1;
}

/* --- liveness
 * ---------------------------------------------------------------------------------------- */

static bool lock_get(int fd)
{
	return fcntl(fd, F_SETLK, &(struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1}) == 0;
}

/* Who has it: 0: nobody; LOCK_UNKNOWN: we cannot tell; a pid that may mean something in our namespace. */
static pid_t lock_holder(int fd)
{
	struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	if (fcntl(fd, F_GETLK, &fl))
		return LOCK_UNKNOWN;
	return fl.l_type == F_UNLCK ? 0 : fl.l_pid ? fl.l_pid : LOCK_UNKNOWN;
}

static bool is_same_file(const char *path, dev_t dev, ino_t ino)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

/* g_own_mutex held */
static struct shm_seg *own_find(const char *path)
{
	pid_t pid = getpid();

	for (struct shm_seg *s = g_own; s; s = s->next)
		if (s->owner_pid == pid && strcmp(s->path, path) == 0)
			return s;
	return NULL;
}

/*
 * Open the segment at @path if it is a file of ours with a live owner in another process.
 * Return: descriptor; -ENOENT no such file, or not ours; -ESTALE its owner is dead; -errno. For
 * -ESTALE *@fd_out is open.
 */
static int open_checked(const char *path, int *fd_out, struct stat *st, struct shm_hdr *hdr)
{
	bool is_spare, is_dead;
	pid_t holder;
	ssize_t n;
	int fd;

	if (shm_fd_is_kept(path))
		return -ENOENT;
	fd = shm_fd_open(path, O_RDWR, &is_spare);
	if (fd < 0) {
		int err = errno;

		return err == EMFILE || err == ENFILE || err == ENOMEM ? -err : -ENOENT;
	}
	if (fstat(fd, st) || !S_ISREG(st->st_mode) || st->st_uid != geteuid() || (st->st_mode & 077)) {
		shm_fd_close(fd);
		return -ENOENT;
	}
	*fd_out = fd;
	holder = lock_holder(fd); /* asked first: what the dead have written does not change any more */
	memset(hdr, 0, sizeof(*hdr));
	n = pread(fd, hdr, sizeof(*hdr), 0);
	if (n != (ssize_t)sizeof(*hdr))
		memset(hdr, 0, sizeof(*hdr));
	/* a reaper has the lock for a moment, too */
	is_dead = !holder || (holder != hdr->pid && hdr->magic == SHM_MAGIC && shm_proc_is_gone(&hdr->proc));
	if (!is_dead)
		return 0;
	if (hdr->pid != getpid() || !shm_fd_is_mapped(st->st_ino))
		return -ESTALE;
	shm_fd_keep(fd, st);
	return -ENOENT;
}

static void unlink_both(const char *path, uint32_t wake)
{
	char fifo[SHM_WAKE_MAX];

	shm_wake_path(path, wake, fifo);
	unlink(fifo);
	unlink(path);
}

/*
 * Who still has the segment of the dead mapped sees that it has left, as if it had closed, before another one takes its
 * place.
 */
static void mark_closed(int fd, const struct shm_hdr *hdr)
{
	uint32_t state = atomic_load_explicit(&hdr->state, memory_order_relaxed) | SHM_ST_CLOSED;

	if (hdr->magic == SHM_MAGIC && limits_file(sizeof(*hdr)) &&
	    pwrite(fd, &state, sizeof(state), offsetof(struct shm_hdr, state)) < 0)
		LOG_DEBUG("a dead peer's segment cannot be marked: %s", strerror(errno));
}

/*
 * Remove the file at @path if its owner is dead. @is_mine: nobody else may be making it now. g_own_mutex held. Return:
 * it is gone.
 */
static bool reap_one(const char *path, bool is_mine)
{
	struct shm_hdr hdr;
	struct stat st;
	bool is_newborn, done = false;
	int fd = -1, rc;

	if (own_find(path))
		return false;
	rc = open_checked(path, &fd, &st, &hdr);
	if (rc == 0)
		shm_fd_close(fd);
	if (rc != -ESTALE)
		return false;
	is_newborn = hdr.magic != SHM_MAGIC && time(NULL) - st.st_mtime < NEWBORN_SEC;
	if ((is_mine || !is_newborn) && lock_get(fd) && is_same_file(path, st.st_dev, st.st_ino)) {
		mark_closed(fd, &hdr);
		unlink_both(path, hdr.wake);
		done = true;
	}
	shm_fd_close(fd);
	if (done)
		LOG_INFO("removed %s: its owner (pid %d) is gone", path, (int)hdr.pid);
	return done;
}

static bool reap_cb(const char *path, const char *name, const struct stat *st, void *arg)
{
	(void)name;
	(void)st;
	(void)arg;
	reap_one(path, false);
	return false;
}

/* A doorbell is made after its segment and goes before it: one without is left of an owner whose header the reaper
 * could not read, being of another build. */
static bool reap_bell_cb(const char *path, const char *name, const struct stat *st, void *arg)
{
	char seg[SHM_NAME_MAX];
	int len = (int)(strlen(path) - strlen(".00000000.wake"));

	(void)name;
	(void)st;
	(void)arg;
	snprintf(seg, sizeof(seg), "%.*s", MAX(len, 0), path);
	if (access(seg, F_OK) && errno == ENOENT)
		unlink(path);
	return false;
}

/* What the dead have left, of any network namespace: those that are gone have nobody else to clean up after them.
 * g_own_mutex held. */
static void reap_all(void)
{
	shm_dir_each(S_IFREG, true, REAP_MAX, reap_cb, NULL);
	shm_dir_each(S_IFIFO, true, REAP_MAX, reap_bell_cb, NULL);
}

/* MISSING: its file has another name, or none. */
enum seg_life { SEG_LIVES, SEG_DEAD, SEG_MISSING };

static enum seg_life seg_life(const struct shm_seg *seg)
{
	struct shm_hdr hdr;
	struct stat st;
	int fd = -1, rc = open_checked(seg->path, &fd, &st, &hdr);

	if (rc == 0 || rc == -ESTALE)
		shm_fd_close(fd);
	if (rc && rc != -ESTALE && rc != -ENOENT)
		return SEG_LIVES; /* out of descriptors: cannot tell */
	if (rc == -ENOENT || st.st_dev != seg->dev || st.st_ino != seg->ino)
		return SEG_MISSING;
	return rc ? SEG_DEAD : SEG_LIVES;
}

bool shm_seg_is_alive(const struct shm_seg *seg)
{
	if (seg->owner_pid)
		return !(atomic_load_explicit(&seg->hdr->state, memory_order_relaxed) &
			 SHM_ST_CLOSED);
	return seg_life(seg) == SEG_LIVES;
}

bool shm_seg_is_gone(const struct shm_seg *seg)
{
	enum seg_life life;

	/* acquire: all that it did; pairs with the release in shm_seg_remove() */
	if (atomic_load_explicit(&seg->hdr->state, memory_order_acquire) & SHM_ST_LEFT)
		return true;
	if (seg->owner_pid)
		return false;
	life = seg_life(seg);
	return life == SEG_DEAD || (life == SEG_MISSING && shm_proc_is_gone(&seg->proc));
}

pid_t shm_addr_pid(const struct link_addr *addr)
{
	char path[SHM_NAME_MAX];
	struct shm_hdr hdr;
	struct stat st;
	pid_t pid = 0;
	int fd = -1, rc;

	shm_seg_path(addr, path);
	pthread_mutex_lock(&g_own_mutex);
	if (own_find(path)) { /* opening and closing it would lose its lock */
		pid = getpid();
	} else {
		rc = open_checked(path, &fd, &st, &hdr);
		if (rc == 0 || rc == -ESTALE)
			shm_fd_close(fd);
		if (rc == 0 && hdr.magic == SHM_MAGIC)
			pid = hdr.pid;
	}
	pthread_mutex_unlock(&g_own_mutex);
	return pid;
}

uint64_t shm_holder(const struct shm_seg *seg)
{
	return (uint64_t)shm_tag(seg->addr.ip, seg->addr.port) << 32 | seg->wake;
}

static bool holder_cb(const char *path, const char *name, const struct stat *seen, void *arg)
{
	const uint64_t *holder = arg;
	const struct shm_seg *own;
	struct shm_hdr hdr;
	uint8_t ip[16];
	struct stat st;
	unsigned port;
	int fd = -1, rc;
	char hex[33];

	(void)seen;
	if (sscanf(name, "softfabric-%*u-%*u-%32[0-9a-f]-%u", hex, &port) != 2 || strlen(hex) != 32)
		return false;
	for (int i = 0; i < 16; i++)
		sscanf(hex + 2 * i, "%2hhx", &ip[i]);
	if (shm_tag(ip, (uint16_t)port) != *holder >> 32)
		return false;
	own = own_find(path);
	if (own)
		return own->wake == (uint32_t)*holder;
	rc = open_checked(path, &fd, &st, &hdr);
	if (rc == 0 || rc == -ESTALE)
		shm_fd_close(fd);
	/* another life at its place is not the holder; what cannot be read may be */
	return rc ? rc != -ESTALE : hdr.magic != SHM_MAGIC || hdr.wake == (uint32_t)*holder;
}

bool shm_seg_find_holder(uint64_t holder)
{
	bool found;

	pthread_mutex_lock(&g_own_mutex);
	found = shm_dir_each(S_IFREG, false, UINT32_MAX, holder_cb, &holder) != SHM_DIR_ALL;
	pthread_mutex_unlock(&g_own_mutex);
	return found;
}

/* --- memory of a segment --- */

/*
 * The same without a descriptor, by what is mapped. It costs the mapping its pages at once, hence only where there is
 * none: a frame in memory that cannot be looked at would wait for ever. Linux 5.14.
 */
static int populate(const struct shm_seg *seg, size_t off, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = ALIGN_DOWN(off, page);

	return madvise(seg->base + begin, ALIGN_UP(off + len, page) - begin, MADV_POPULATE_WRITE) ? -errno : 0;
}

int shm_seg_reserve(const struct shm_seg *seg, size_t off, size_t len)
{
	struct shm_hdr hdr;
	struct stat st;
	int fd = -1, rc;

	if (seg->owner_pid)
		return limits_allocate(seg->fd, off, len);
	rc = open_checked(seg->path, &fd, &st, &hdr);
	if (rc == -ESTALE) {
		shm_fd_close(fd);
		return -ENOENT;
	}
	if (rc == -EMFILE || rc == -ENFILE)
		return populate(seg, off, len) ? rc : 0;
	if (rc)
		return rc;
	rc = st.st_dev == seg->dev && st.st_ino == seg->ino ? limits_allocate(fd, off, len) : -ENOENT;
	shm_fd_close(fd);
	return rc;
}

void shm_seg_punch(const struct shm_seg *seg, size_t off, size_t len)
{
	if (fallocate(seg->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len))
		LOG_INFO("cannot give back %zu bytes of %s: %s", len, seg->path, strerror(errno));
}

/* --- our own
 * ------------------------------------------------------------------------------------------ */

/* Is @path locked by the process that made it? A reaper holds the lock of a dead one for a moment, too. */
static bool is_owners_lock(const char *path)
{
	struct shm_hdr hdr;
	struct stat st;
	int fd = -1, rc = open_checked(path, &fd, &st, &hdr);
	bool is_owners;

	if (rc && rc != -ESTALE)
		return true; /* not to be judged, so not to be waited for */
	is_owners = !rc && lock_holder(fd) == (pid_t)hdr.pid;
	shm_fd_close(fd);
	return is_owners;
}

/* Whether another user has made something of the name @path, which stays that user's for any time. */
static bool is_squatted(const char *path)
{
	struct stat st;

	if (lstat(path, &st) || st.st_uid == geteuid())
		return false;
	LOG_WARN("%s belongs to user %u: whoever can write to " SHM_DIR " can take a name there; it has to be removed",
		 path, (unsigned)st.st_uid);
	return true;
}

/* A new, locked, empty file at @path. g_own_mutex held. */
static int file_create(const char *path, struct stat *st)
{
	for (int tries = 0, naps = 0; tries < 8 && naps < REAPER_NAPS; tries++) {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0 && errno == EEXIST) {
			if (own_find(path))
				return -EADDRINUSE;
			if (is_squatted(path))
				return -EACCES;
			if (reap_one(path, true) || access(path, F_OK))
				continue;
			if (is_owners_lock(path)) {
				if (access(path, F_OK))
					continue; /* it was removed before it could be judged */
				return -EADDRINUSE;
			}
			nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
			naps++, tries--;
			continue;
		}
		if (fd < 0)
			return -errno;
		if (lock_get(fd) && fstat(fd, st) == 0 && is_same_file(path, st->st_dev, st->st_ino))
			return fd;
		close(fd);
	}
	return -EADDRINUSE;
}

static void hdr_fill(struct shm_seg *seg, const struct shm_seg_attr *a)
{
	struct shm_hdr *h = seg->hdr;

	h->version = SHM_VERSION;
	h->uid = geteuid();
	h->pid = seg->peer_pid = getpid();
	h->flags = seg->peer_flags = a->flags;
	h->node_id = seg->peer_node = a->node_id;
	atomic_init(&h->serves, a->serves);
	h->netns = shm_netns_id();
	h->self_addr = seg->peer_self_addr = (uintptr_t)h;
	h->file_len = SHM_FILE_LEN;
	h->addr = seg->addr;
	h->shared_slots = seg->shared_slots;
	h->wake = seg->wake = (uint32_t)rng_entropy();
	h->proc = seg->proc = shm_proc_self();
	for (uint32_t k = 0; k < SHM_SHARED_CNT; k++) {
		lane_shm_init(shm_shared_at(seg, k), shm_shared_slots(seg, k));
		atomic_init(&h->shared[k].pos, lane_first(shm_shared_slots(seg, k)));
	}
	/* release; pairs with the check of the magic in shm_seg_attach() */
	atomic_store_explicit(&h->magic, SHM_MAGIC, memory_order_release);
}

/* Length, first pages and mapping of the file behind @seg->fd. */
static int file_map(struct shm_seg *seg, uint64_t budget)
{
	struct shm_space space = shm_space_get(budget);
	uint32_t slots = shm_space_lane_slots(&space);
	int rc;

	seg->shared_slots = slots ? slots : SHM_SLOTS_SMALL;
	rc = limits_truncate(seg->fd, SHM_FILE_LEN);
	if (rc)
		return rc;
	if (shm_space_left(&space) < SHM_STAGE_GRANS_MIN * STAGE_GRAN * 2)
		return -ENOSPC;
	rc = limits_allocate(seg->fd, 0,
			     SHM_SHARED_OFF + SHM_LANE_BYTES(seg->shared_slots) +
				     (SHM_SHARED_CNT - 1) * SHM_LANE_BYTES(SHM_SLOTS_SMALL));
	if (rc == 0)
		rc = limits_allocate(seg->fd, SHM_TOLD_OFF, SHM_TOLD_CNT * sizeof(uint64_t));
	if (rc == 0)
		rc = limits_allocate(seg->fd, SHM_DESC_OFF, 4096);
	if (rc == 0)
		rc = limits_allocate(seg->fd, SHM_CODES_OFF, 4096);
	if (rc == 0)
		rc = limits_allocate(seg->fd, SHM_STAGE_OFF, stage_shm_size(SHM_STAGE_GRANS_MIN));
	if (rc)
		return rc;
	seg->base = reserve_map(seg->fd, SHM_FILE_LEN);
	if (!seg->base)
		return -errno;
	seg->hdr = (struct shm_hdr *)(void *)seg->base;
	return 0;
}

int shm_seg_create(const struct shm_seg_attr *a, struct shm_seg **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct shm_seg *seg = mem_alloc(sizeof(*seg));
	struct stat st;
	int rc;

	if (!seg)
		return -ENOMEM;
	pthread_once(&once, own_watch_fork); /* every user of the mutex has made a segment first */
	seg->addr = a->addr;
	shm_seg_path(&a->addr, seg->path);
	pthread_mutex_lock(&g_own_mutex);
	reap_all();
	rc = g_is_exiting ? -ESHUTDOWN : MIN(shm_spare_fill(true), 0);
	rc = seg->fd = rc ? rc : file_create(seg->path, &st);
	if (rc < 0)
		goto err_free;
	seg->dev = st.st_dev; // NOLINT(clang-analyzer-core.uninitialized.Assign): errno is not 0
	seg->ino = st.st_ino;
	rc = file_map(seg, a->budget);
	if (rc)
		goto err_file;
	seg->owner_pid = getpid();
	seg->refs = 1;
	hdr_fill(seg, a);
	atomic_store_explicit(&seg->hdr->room, atomic_load_explicit(&g_room, memory_order_relaxed),
			      memory_order_relaxed);
	seg->next = g_own;
	g_own = seg;
	pthread_mutex_unlock(&g_own_mutex);
	reserve_want_map(SHM_FILE_LEN);
	shm_seg_tell_room();
	*out = seg;
	return 0;

err_file:
	unlink_both(seg->path, 0);
	close(seg->fd);
err_free:
	if (!g_own)
		shm_spare_drop();
	pthread_mutex_unlock(&g_own_mutex);
	LOG_INFO("no shared memory for this port: %s: %s", seg->path, strerror(-rc));
	mem_free(seg);
	return rc;
}

/* Peers see that it has left; its names go. g_own_mutex held. */
static void own_hide(struct shm_seg *seg)
{
	if (seg->owner_pid != getpid())
		return;
	/* release: all that we published before; pairs with the acquire in shm_ring() */
	atomic_fetch_or_explicit(&seg->hdr->state, SHM_ST_CLOSED, memory_order_release);
	if (is_same_file(seg->path, seg->dev, seg->ino))
		unlink_both(seg->path, seg->wake);
}

int shm_seg_make_fifo(const struct shm_seg *seg, const char *path)
{
	int rc = 0;

	pthread_mutex_lock(&g_own_mutex);
	if (atomic_load_explicit(&seg->hdr->state, memory_order_relaxed) & SHM_ST_CLOSED)
		rc = -ESHUTDOWN; /* its names have gone already */
	/* EEXIST: left by a dead owner whose segment was removed by hand */
	else if (mkfifo(path, 0600) && (errno != EEXIST || unlink(path) || mkfifo(path, 0600)))
		rc = -errno;
	pthread_mutex_unlock(&g_own_mutex);
	return rc;
}

void shm_seg_hide(struct shm_seg *seg)
{
	pthread_mutex_lock(&g_own_mutex);
	own_hide(seg);
	pthread_mutex_unlock(&g_own_mutex);
}

void shm_seg_remove(struct shm_seg *seg)
{
	struct shm_seg **pp = &g_own;

	pthread_mutex_lock(&g_own_mutex);
	while (*pp && *pp != seg)
		pp = &(*pp)->next;
	must(*pp);
	*pp = seg->next;
	own_hide(seg);
	/* release: all that we did with what others lent us; pairs with the acquire in shm_seg_is_gone() */
	if (seg->owner_pid == getpid())
		atomic_fetch_or_explicit(&seg->hdr->state, SHM_ST_LEFT, memory_order_release);
	close(seg->fd);
	seg->fd = -1;
	if (!g_own)
		shm_spare_drop();
	pthread_mutex_unlock(&g_own_mutex);
}

/* exit() with ports open. Other threads may still use them, so that only the names go. */
static __attribute__((destructor)) void own_at_exit(void)
{
	if (!exit_lock(&g_own_mutex))
		return;
	g_is_exiting = true;
	for (struct shm_seg *s = g_own; s; s = s->next)
		own_hide(s);
	pthread_mutex_unlock(&g_own_mutex);
}

/* --- those of others
 * ------------------------------------------------------------------------------------ */

static int hdr_check(const struct shm_hdr *h, const struct link_addr *addr, uint32_t flags, const char *path)
{
	if (h->magic != SHM_MAGIC || h->uid != geteuid() || h->file_len != SHM_FILE_LEN || h->netns != shm_netns_id())
		return -ENOENT;
	if (h->version != SHM_VERSION) {
		LOG_WARN("%s has layout version %u, this process has %u: no shared memory between "
			 "them",
			 path, h->version, SHM_VERSION);
		return -ENOENT;
	}
	if (!link_same_place(&h->addr, addr))
		return -ENOENT;
	if ((addr->nonce && h->addr.nonce != addr->nonce) || (h->state & SHM_ST_CLOSED))
		return -ENOENT;
	if (h->shared_slots != SHM_SLOTS_BIG && h->shared_slots != SHM_SLOTS_SMALL)
		return -ENOENT;
	if ((h->flags ^ flags) & SHM_F_LOSSLESS) {
		LOG_WARN("%s: only one of the two processes has faults or capture on: no shared "
			 "memory between them",
			 path);
		return -ENOENT;
	}
	return 0;
}

static int seg_map_peer(int fd, const struct stat *st, const struct shm_hdr *h, struct shm_seg *seg)
{
	if (st->st_size != (off_t)SHM_FILE_LEN)
		return -ENOENT;
	seg->base = reserve_map(fd, SHM_FILE_LEN);
	if (!seg->base)
		return -errno;
	seg->hdr = (struct shm_hdr *)(void *)seg->base;
	seg->fd = -1;
	seg->dev = st->st_dev;
	seg->ino = st->st_ino;
	seg->addr = h->addr;
	seg->peer_pid = h->pid;
	seg->peer_node = h->node_id;
	seg->peer_self_addr = h->self_addr;
	seg->peer_flags = h->flags;
	seg->proc = h->proc;
	seg->shared_slots = h->shared_slots;
	seg->wake = h->wake;
	seg->refs = 1;
	return 0;
}

static int attach_file(const struct link_addr *addr, uint32_t flags, struct shm_seg *seg)
{
	struct shm_hdr hdr; /* everything is taken from this copy */
	struct stat st;
	int fd = -1, rc = open_checked(seg->path, &fd, &st, &hdr);

	if (rc && rc != -ESTALE)
		return rc;
	if (rc == 0)
		rc = hdr_check(&hdr, addr, flags, seg->path);
	if (rc == 0)
		rc = seg_map_peer(fd, &st, &hdr, seg);
	shm_fd_close(fd);
	return rc == -ESTALE ? -ENOENT : rc;
}

int shm_seg_attach(const struct link_addr *addr, uint32_t flags, struct shm_seg **out)
{
	char path[SHM_NAME_MAX];
	struct shm_seg *seg;
	int rc;

	shm_seg_path(addr, path);
	pthread_mutex_lock(&g_own_mutex);
	seg = own_find(path);
	if (seg) {
		rc = hdr_check(seg->hdr, addr, flags, path);
		seg->refs += rc == 0;
	}
	pthread_mutex_unlock(&g_own_mutex);
	if (!seg) {
		seg = mem_alloc(sizeof(*seg));
		if (!seg)
			return -ENOMEM;
		memcpy(seg->path, path, sizeof(path));
		rc = attach_file(addr, flags, seg);
		if (rc)
			mem_free(seg);
	}
	if (rc == 0)
		*out = seg;
	shm_seg_tell_room();
	return rc;
}

/* No system call while both are there. */
static int32_t room_now(void)
{
	return reserve_fill() ? shm_spare_fill(false) : -ENOMEM;
}

void shm_seg_tell_room(void)
{
	int32_t room = room_now();

	if (likely(room == atomic_load_explicit(&g_room, memory_order_relaxed)))
		return;
	pthread_mutex_lock(&g_own_mutex);
	room = room_now(); /* another thread may have told more than we know */
	atomic_store_explicit(&g_room, room, memory_order_relaxed);
	for (struct shm_seg *s = g_own; s; s = s->next)
		if (s->owner_pid == getpid()) /* relaxed: who reads it too late is told in another way (SHM_D_UNSEEN) */
			atomic_store_explicit(&s->hdr->room, room, memory_order_relaxed);
	pthread_mutex_unlock(&g_own_mutex);
}

void shm_limit_look(void)
{
	shm_spare_look();
	shm_seg_tell_room();
}

struct shm_seg *shm_seg_get(struct shm_seg *seg)
{
	pthread_mutex_lock(&g_own_mutex);
	seg->refs++;
	pthread_mutex_unlock(&g_own_mutex);
	return seg;
}

void shm_seg_put(struct shm_seg *seg)
{
	bool is_last;

	if (!seg)
		return;
	pthread_mutex_lock(&g_own_mutex);
	is_last = --seg->refs == 0;
	pthread_mutex_unlock(&g_own_mutex);
	if (!is_last)
		return;
	munmap(seg->base, SHM_FILE_LEN);
	mem_free(seg);
	shm_seg_tell_room(); /* at once: what was in reserve is free now, and the next allocation may take it */
}
