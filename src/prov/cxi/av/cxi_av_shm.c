// SPDX-License-Identifier: BSD-2-Clause
// Named address vectors: a table of addresses in memory that the processes of one user on one host share.
#include "prov/cxi/av/cxi_av_shm.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

/*
 * Theory of operation
 *
 * A POSIX shared memory object, named after user, network namespace, adapter and AV. An address is one 64-bit word of a
 * table, so that a reader never sees half of one and needs no lock; fi_addr is its index, the same in all processes. A
 * hash of indices gives the way back. Whoever may write takes a lock first.
 *
 * Everybody maps the largest table there can be, once: growing moves nothing. Pages get memory when a size (a level,
 * 2^level addresses) is reached, before it is published, so that no access can fail for want of it. Each level has a
 * hash of its own; the one before stays for those who look at it right now.
 *
 *   0                 for each address its fi_addr, or FI_ADDR_NOTAVAIL: what fi_av_attr.map_addr shows
 *   HEAD              header
 *   TABLE             a word for each address
 *   HASH + 8 * 2^k    2 * 2^k slots of level k: index + 1, 0 free, TOMB removed
 *
 * fi_av(3) does not say what lies at map_addr. All who ever had named address vectors, this provider's own first
 * releases among them, had an array of fi_addr_t there, and programs read it (fabtests' rdm_shared_av): a process that
 * opens the vector with FI_READ has no other way to learn them. It is the program's; nothing here reads it.
 *
 * Locks are byte range locks of the open file, which the kernel drops with the process. Byte USED is held, shared, by
 * everyone who has the object open: who gets it exclusively is alone, and an object without any is what a crash has
 * left. GATE is held while opening and closing, WRITE while changing. What is read from the memory is masked or bounded
 * before it is used: a damaged table gives wrong addresses, nothing worse.
 */

#define LEVEL_MIN 9u  /* the first sizes that fill pages */
#define LEVEL_MAX 20u
#define HEAD      (8u << LEVEL_MAX)
#define HEAD_LEN  4096u
#define TABLE     (HEAD + HEAD_LEN)
#define HASH      (TABLE + (8u << LEVEL_MAX))
#define SIZE      (HASH + (16u << LEVEL_MAX))
#define MAGIC     0x5346435841560002ULL /* also the version of this layout */
#define TOMB      UINT32_MAX

#define WORD_ADDR GENMASK(47, 0) /* pid_nic, vni */
#define WORD_USES GENMASK(62, 48)
#define WORD_USED BIT(63)

#define BYTE_USED  0
#define BYTE_GATE  1
#define BYTE_WRITE 2
#define LOCK_WAIT_NS NS_PER_SEC
#define REAP_MAX  64    /* objects looked at per domain that opens */
#define NAMES_MAX 65536 /* names in the directory, which others may make */

struct header {
	_Atomic uint64_t magic; /* written last */
	uint64_t seed;          /* of the hash: who may insert may not choose collisions */
	_Atomic uint32_t level; /* release when a level is ready; pairs with the acquire of readers */
	uint32_t hint;          /* no free index is lower; under WRITE, as all below */
	uint32_t cnt, tombs;
};
static_assert(sizeof(struct header) <= HEAD_LEN, "the header is a page at most");

struct cxi_av_shared {
	uint8_t *base;
	int fd;
	bool read_only;
	char path[NAME_MAX + 1];
};

/* --- locks --------------------------------------------------------------------------------------- */

static int flock_try(int fd, int byte, short type)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &fl) ? -errno : 0;
}

/* A holder that was stopped must not stop us. */
static int flock_wait(int fd, int byte)
{
	uint64_t until = clk_now_ns(NULL) + LOCK_WAIT_NS;
	int ret;

	while ((ret = flock_try(fd, byte, F_WRLCK)) && clk_now_ns(NULL) < until)
		sched_yield();
	return ret == -EAGAIN || ret == -EACCES ? -FI_EBUSY : ret;
}

static void flock_drop(int fd, int byte)
{
	flock_try(fd, byte, F_UNLCK);
}

/* --- the memory ---------------------------------------------------------------------------------- */

static struct header *head_of(const struct cxi_av_shared *s)
{
	return (struct header *)(s->base + HEAD);
}

static void shown_set(const struct cxi_av_shared *s, uint32_t idx, fi_addr_t value)
{
	/* relaxed: who may look at it has been told so by other means */
	atomic_store_explicit(&((_Atomic fi_addr_t *)s->base)[idx], value, memory_order_relaxed);
}

static _Atomic uint64_t *table_of(const struct cxi_av_shared *s)
{
	return (_Atomic uint64_t *)(s->base + TABLE);
}

static _Atomic uint32_t *hash_of(const struct cxi_av_shared *s, uint32_t level)
{
	return (_Atomic uint32_t *)(s->base + HASH + (8u << level));
}

/* The level as it is now, or 0 if what stands there cannot be one. */
static uint32_t level_of(const struct cxi_av_shared *s)
{
	/* pairs with the release in level_ready() */
	uint32_t level = atomic_load_explicit(&head_of(s)->level, memory_order_acquire);

	return level >= LEVEL_MIN && level <= LEVEL_MAX ? level : 0;
}

static uint64_t word_of(const struct cxi_addr *a)
{
	return le32_get(a->pid_nic) | (uint64_t)le16_get(a->vni) << 32;
}

static struct cxi_addr addr_of(uint64_t word)
{
	return (struct cxi_addr){.pid_nic = le32_put((uint32_t)word & 0x1fffffff),
				 .vni = le16_put((uint16_t)(word >> 32))};
}

static uint32_t hash_word(const struct cxi_av_shared *s, uint64_t word)
{
	uint64_t h = (word ^ head_of(s)->seed) * 0x9e3779b97f4a7c15ULL;

	return (uint32_t)(h >> 32);
}

static uint64_t word_at(const struct cxi_av_shared *s, uint32_t idx)
{
	return atomic_load_explicit(&table_of(s)[idx], memory_order_relaxed); /* the word is all there is */
}

/*
 * Where @word stands in the hash of @level, as @pos, and its index; FI_ADDR_NOTAVAIL, and then @pos is where it may go.
 */
static fi_addr_t probe(const struct cxi_av_shared *s, uint32_t level, uint64_t word, uint32_t *pos_out)
{
	uint32_t mask = (2u << level) - 1, pos = hash_word(s, word) & mask, idx;
	bool has_place = false;

	for (uint32_t n = 0; n <= mask; n++, pos = (pos + 1) & mask) {
		/* acquire: the table's word was written before; pairs with the release in hash_set() */
		idx = atomic_load_explicit(&hash_of(s, level)[pos], memory_order_acquire);
		if ((!idx || idx == TOMB) && !has_place) {
			*pos_out = pos;
			has_place = true;
		}
		if (!idx)
			break;
		if (idx <= 1u << level && (word_at(s, idx - 1) & (WORD_ADDR | WORD_USED)) == (word | WORD_USED)) {
			*pos_out = pos;
			return idx - 1;
		}
	}
	return FI_ADDR_NOTAVAIL;
}

static void hash_set(const struct cxi_av_shared *s, uint32_t level, uint32_t pos, uint32_t value)
{
	/* pairs with the acquire in probe() */
	atomic_store_explicit(&hash_of(s, level)[pos], value, memory_order_release);
}

fi_addr_t cxi_av_shm_find(const struct cxi_av_shared *s, const struct cxi_addr *addr)
{
	uint32_t level, pos = 0;
	fi_addr_t found;

	/* A miss while the table grew may be none: there are few levels, so this ends. */
	do {
		level = level_of(s);
		found = level ? probe(s, level, word_of(addr), &pos) : FI_ADDR_NOTAVAIL;
	} while (found == FI_ADDR_NOTAVAIL && level_of(s) > level);
	return found;
}

bool cxi_av_shm_get(const struct cxi_av_shared *s, fi_addr_t fi_addr, struct cxi_addr *out)
{
	uint32_t level = level_of(s);
	uint64_t word;

	if (!level || fi_addr >= 1ULL << level)
		return false;
	word = word_at(s, (uint32_t)fi_addr);
	if (!(word & WORD_USED))
		return false;
	*out = addr_of(word);
	return true;
}

/* --- changing it --------------------------------------------------------------------------------- */

static int backed(const struct cxi_av_shared *s, uint64_t off, uint64_t len)
{
	int rc = limits_allocate(s->fd, off, len);

	if (rc)
		LOG_WARN("named address vector: %llu bytes of shared memory are not to be had (%s)",
			 (unsigned long long)len, strerror(-rc));
	return rc;
}

/* Give @level memory and a hash of what the table holds, then publish it. */
static int level_ready(struct cxi_av_shared *s, uint32_t level)
{
	struct header *h = head_of(s);
	uint32_t old = level_of(s), pos = 0;
	int ret = backed(s, TABLE, 8u << level);

	ret = ret ? ret : backed(s, HASH + (8u << level), 8u << level);
	ret = ret ? ret : backed(s, 0, 8u << level);
	if (ret)
		return ret;
	for (uint32_t i = old ? 1u << old : 0; i < 1u << level; i++)
		shown_set(s, i, FI_ADDR_NOTAVAIL);
	for (uint32_t i = 0; old && i < 1u << old; i++) {
		uint64_t word = word_at(s, i);

		if (!(word & WORD_USED))
			continue;
		probe(s, level, word & WORD_ADDR, &pos);
		hash_set(s, level, pos, i + 1);
	}
	h->tombs = 0;
	atomic_store_explicit(&h->level, level, memory_order_release); /* pairs with the acquire in level_of() */
	return 0;
}

static int write_begin(struct cxi_av_shared *s, uint32_t *level)
{
	int ret;

	if (s->read_only) {
		LOG_WARN("%s was opened with FI_READ: it cannot be changed", s->path);
		return -FI_EPERM;
	}
	ret = flock_wait(s->fd, BYTE_WRITE);
	if (ret) {
		LOG_WARN("%s: another process holds the table's lock", s->path);
		return ret;
	}
	*level = level_of(s);
	if (*level && head_of(s)->cnt <= 1u << *level && head_of(s)->hint <= 1u << *level)
		return 0;
	flock_drop(s->fd, BYTE_WRITE);
	LOG_WARN("%s is damaged", s->path);
	return -FI_EIO;
}

/* A new entry at the lowest free index; the hash is kept half free of entries and of those removed. */
static int add_new(struct cxi_av_shared *s, uint32_t level, uint64_t word, fi_addr_t *out)
{
	struct header *h = head_of(s);
	uint32_t idx = h->hint, pos = 0;
	int ret;

	while (idx < 1u << level && (word_at(s, idx) & WORD_USED))
		idx++;
	if (idx == 1u << level || (h->tombs > 1u << level && level < LEVEL_MAX)) {
		ret = level < LEVEL_MAX ? level_ready(s, level + 1) : -FI_ENOSPC;
		if (ret)
			return ret;
		level++;
	}
	probe(s, level, word, &pos);
	if (atomic_load_explicit(&hash_of(s, level)[pos], memory_order_relaxed) == TOMB && h->tombs)
		h->tombs--;
	/*
	 * relaxed: hash_set() releases it to those who come by the hash; who has the index has it from us by other
	 * means
	 */
	atomic_store_explicit(&table_of(s)[idx], word | WORD_USED | FIELD_PREP(WORD_USES, 1), memory_order_relaxed);
	hash_set(s, level, pos, idx + 1);
	shown_set(s, idx, idx);
	h->hint = idx + 1;
	h->cnt++;
	*out = idx;
	return 0;
}

int cxi_av_shm_add(struct cxi_av_shared *s, const struct cxi_addr *addr, fi_addr_t *out)
{
	uint64_t word = word_of(addr), old;
	uint32_t level, pos;
	fi_addr_t found;
	int ret = write_begin(s, &level);

	if (ret)
		return ret;
	found = probe(s, level, word, &pos);
	if (found == FI_ADDR_NOTAVAIL) {
		ret = add_new(s, level, word, out);
	} else {
		old = word_at(s, (uint32_t)found);
		if (FIELD_GET(WORD_USES, old) == FIELD_GET(WORD_USES, WORD_USES)) {
			ret = -FI_ENOSPC;
		} else {
			atomic_store_explicit(&table_of(s)[found], old + FIELD_PREP(WORD_USES, 1),
					      memory_order_relaxed);
			*out = found;
		}
	}
	flock_drop(s->fd, BYTE_WRITE);
	return ret;
}

int cxi_av_shm_del(struct cxi_av_shared *s, fi_addr_t fi_addr)
{
	struct header *h = head_of(s);
	uint32_t level, pos = 0;
	uint64_t word;
	int ret = write_begin(s, &level);

	if (ret)
		return ret;
	word = fi_addr < 1ULL << level ? word_at(s, (uint32_t)fi_addr) : 0;
	if (!(word & WORD_USED)) {
		ret = -FI_EINVAL;
	} else if (FIELD_GET(WORD_USES, word) > 1) {
		atomic_store_explicit(&table_of(s)[fi_addr], word - FIELD_PREP(WORD_USES, 1), memory_order_relaxed);
	} else {
		if (probe(s, level, word & WORD_ADDR, &pos) == fi_addr) {
			hash_set(s, level, pos, TOMB);
			h->tombs++;
		}
		atomic_store_explicit(&table_of(s)[fi_addr], 0, memory_order_relaxed);
		shown_set(s, (uint32_t)fi_addr, FI_ADDR_NOTAVAIL);
		h->hint = MIN(h->hint, (uint32_t)fi_addr);
		h->cnt -= h->cnt > 0;
	}
	flock_drop(s->fd, BYTE_WRITE);
	return ret;
}

/* --- open, close --------------------------------------------------------------------------------- */

/* "/softfabric-cxi-av-UID-NETNS-cxi0-NAME", with everything unusual in NAME as %XX. */
static int path_make(struct cxi_av_shared *s, const char *domain, const char *name)
{
	struct stat ns = {0};
	int n;

	if (stat("/proc/self/ns/net", &ns))
		ns.st_ino = 0;
	n = snprintf(s->path, sizeof(s->path), "/softfabric-cxi-av-%u-%llu-%s-", (unsigned)geteuid(),
		     (unsigned long long)ns.st_ino, domain);
	for (const char *c = name; *c && n + 3 < (int)sizeof(s->path); c++)
		n += snprintf(s->path + n, sizeof(s->path) - (size_t)n,
			      isalnum((unsigned char)*c) || strchr("._-", *c) ? "%c" : "%%%02X", (unsigned char)*c);
	if (*name && n + 3 < (int)sizeof(s->path))
		return 0;
	LOG_WARN("an address vector's name has 1 to about 150 characters: \"%.40s\" refused", name);
	return -FI_EINVAL;
}

/* Removes @name ("/softfabric-...") if it is of our user and nobody has it open. Return: whether it is of our user. */
static bool name_reap(const char *name)
{
	int fd = shm_open(name, O_RDWR | O_NONBLOCK, 0);
	struct stat st;
	bool is_ours = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid();

	/* who opens it takes the gate, and then looks whether it still has its name */
	if (is_ours && !flock_try(fd, BYTE_GATE, F_WRLCK) && !flock_try(fd, BYTE_USED, F_WRLCK) && !fstat(fd, &st) &&
	    st.st_nlink) {
		shm_unlink(name);
		LOG_INFO("removed %s: nobody has it open", name);
	}
	if (fd >= 0)
		close(fd); /* the locks, too */
	return is_ours;
}

void cxi_av_shm_reap(void)
{
	char prefix[64], name[NAME_MAX + 2];
	DIR *dir = opendir("/dev/shm");
	int looks = 0, names = 0;
	struct dirent *e;

	snprintf(prefix, sizeof(prefix), "softfabric-cxi-av-%u-", (unsigned)geteuid());
	while (dir && looks < REAP_MAX && names++ < NAMES_MAX && (e = readdir(dir))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		snprintf(name, sizeof(name), "/%s", e->d_name);
		looks += name_reap(name);
	}
	if (dir)
		closedir(dir);
}

/* 1: it is ours alone; 0: others use it; -errno. On return >= 0 the gate is held. -FI_EAGAIN: it vanished meanwhile. */
static int object_enter(const struct cxi_av_shared *s)
{
	struct stat st;
	int ret;

	if (fstat(s->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077)) {
		LOG_WARN("shared memory %s is not this user's alone (owner %u, mode %o)", s->path, (unsigned)st.st_uid,
			 (unsigned)st.st_mode & 0777);
		return -FI_EACCES;
	}
	ret = flock_wait(s->fd, BYTE_GATE);
	if (ret)
		return ret;
	if (fstat(s->fd, &st) || !st.st_nlink) {
		flock_drop(s->fd, BYTE_GATE);
		return -FI_EAGAIN;
	}
	return flock_try(s->fd, BYTE_USED, F_WRLCK) == 0;
}

/* As object_enter(). An object that nobody uses was left by a crash: it is taken over, or, for readers, taken away. */
static int object_open(struct cxi_av_shared *s)
{
	int ret;

	do {
		s->fd = shm_open(s->path, O_RDWR | (s->read_only ? 0 : O_CREAT), 0600);
		if (s->fd < 0) {
			ret = -errno;
			LOG_WARN("named address vector %s: %s", s->path, strerror(errno));
			return ret;
		}
		ret = object_enter(s);
		if (ret < 0)
			close(s->fd);
	} while (ret == -FI_EAGAIN);
	if (ret == 1 && s->read_only) {
		LOG_WARN("named address vector %s: nobody has it open", s->path);
		shm_unlink(s->path);
		close(s->fd);
		return -FI_ENOENT;
	}
	return ret;
}

static int object_map(struct cxi_av_shared *s, void *map_addr)
{
	int prot = s->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
	struct stat st;
	void *p = MAP_FAILED;

	if (fstat(s->fd, &st) || st.st_size < (off_t)SIZE)
		return -FI_EIO;
	if (map_addr)
		p = mmap(map_addr, SIZE, prot, MAP_SHARED | MAP_FIXED_NOREPLACE, s->fd, 0);
	if (p == MAP_FAILED)
		p = mmap(NULL, SIZE, prot, MAP_SHARED, s->fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	if (map_addr && p != map_addr)
		LOG_INFO("%s is mapped at %p, as %p is not free: its addresses are the same", s->path, p, map_addr);
	s->base = p;
	return 0;
}

static int object_init(struct cxi_av_shared *s, size_t count, void *map_addr)
{
	uint32_t level = LEVEL_MIN;
	struct header *h;
	int ret;

	ret = limits_truncate(s->fd, 0);
	ret = ret ? ret : limits_truncate(s->fd, SIZE);
	if (ret) {
		LOG_WARN("named address vector %s cannot have %u bytes: %s%s", s->path, SIZE, strerror(-ret),
			 ret == -EFBIG ? " (ulimit -f)" : "");
		return ret;
	}
	ret = backed(s, HEAD, HEAD_LEN);
	ret = ret ? ret : object_map(s, map_addr);
	if (ret)
		return ret;
	while (level < LEVEL_MAX && 1ULL << level < count)
		level++;
	h = head_of(s);
	h->seed = rng_entropy();
	ret = level_ready(s, level);
	if (!ret)
		/* pairs with the acquire in object_check() */
		atomic_store_explicit(&h->magic, MAGIC, memory_order_release);
	return ret;
}

static int object_check(struct cxi_av_shared *s, void *map_addr)
{
	int ret = object_map(s, map_addr);

	if (ret)
		return ret;
	/* acquire; pairs with the release in object_init() */
	if (atomic_load_explicit(&head_of(s)->magic, memory_order_acquire) == MAGIC && level_of(s))
		return 0;
	LOG_WARN("%s is not a table of this version", s->path);
	return -FI_EIO;
}

int cxi_av_shm_open(const char *domain, const char *name, bool read_only, size_t count, void *map_addr,
		    struct cxi_av_shared **out)
{
	struct cxi_av_shared *s = mem_alloc(sizeof(*s));
	int ret, first;

	if (!s)
		return -FI_ENOMEM;
	s->read_only = read_only;
	ret = path_make(s, domain, name);
	if (ret)
		goto err_free;
	ret = first = object_open(s);
	if (ret < 0)
		goto err_free;
	ret = first ? object_init(s, count, map_addr) : object_check(s, map_addr);
	if (ret)
		goto err_object;
	/* from exclusive to shared, or shared with the others: cannot fail while we hold the gate */
	flock_try(s->fd, BYTE_USED, F_RDLCK);
	flock_drop(s->fd, BYTE_GATE);
	*out = s;
	return 0;

err_object:
	if (first)
		shm_unlink(s->path);
	if (s->base)
		munmap(s->base, SIZE);
	close(s->fd);
err_free:
	mem_free(s);
	return ret;
}

void cxi_av_shm_close(struct cxi_av_shared *s, bool forked)
{
	if (!s)
		return;
	/* A child shares the open file, and the locks with it: they are the parent's. */
	if (!forked && !flock_wait(s->fd, BYTE_GATE) && !flock_try(s->fd, BYTE_USED, F_WRLCK))
		shm_unlink(s->path);
	munmap(s->base, SIZE);
	close(s->fd);
	mem_free(s);
}

void *cxi_av_shm_base(const struct cxi_av_shared *s)
{
	return s->base;
}
