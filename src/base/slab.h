// SPDX-License-Identifier: BSD-2-Clause
// Fixed-size object pool with handles (index + generation) that name objects to peers.
//
// Theory of operation: memory comes in chunks of a power of two of slots, never moves and is never
// returned before slab_fini(). A slot is a struct slab_hdr directly before its object. Free slots
// form a LIFO list, so the object reused next is the one most likely in cache. A handle names a
// slot and how often it was freed: a stale or invented one finds nothing. The generation wraps, so
// a stale handle becomes good again when its slot has been freed 4096 times more.
//
// Handles are for validation, not for secrecy: a hostile peer can guess one.
#ifndef SF_BASE_SLAB_H
#define SF_BASE_SLAB_H

#include "base/base.h"
#include "base/bits.h"

#define SLAB_ID_IDX    GENMASK(19, 0)
#define SLAB_ID_GEN    GENMASK(31, 20)
#define SLAB_GEN_NUM   4096
#define SLAB_ID_NONE   UINT32_MAX
#define SLAB_MAX_CNT   ((1u << 20) - 1) /* the last index is never used, hence no handle is SLAB_ID_NONE */
#define SLAB_ALIGN_MAX 65536

/* Directly before each object. */
struct slab_hdr {
	struct slab_hdr *next; /* free list; meaningless while live */
	uint32_t id;	       /* the handle of the current (or, if free, of the next) user */
	bool is_live;
};

/* Locking: none, the owner serialises all calls. */
struct slab {
	struct slab_hdr *free; /* most recently freed first */
	uint8_t **chunk;       /* [chunk_cap]; the first @cap >> @chunk_shift are allocated */
	size_t stride;	       /* bytes from slot to slot */
	size_t obj_off;	       /* bytes from slot to object */
	size_t align;	       /* of slots and of chunks, bytes */
	uint32_t chunk_shift;  /* log2 of slots per chunk */
	uint32_t chunk_cap;
	uint32_t cap;  /* slots in all chunks; the last chunk may be short */
	uint32_t max;  /* @cap never exceeds it */
	uint32_t used; /* live objects */
};

/**
 * slab_init() - Describe a pool; allocates nothing before slab_get() or slab_reserve().
 * @obj_size:  bytes of one object, > 0.
 * @obj_align: bytes, a power of two <= SLAB_ALIGN_MAX.
 * @chunk_cnt: objects by which the pool grows, > 0; rounded up to a power of two.
 * @max_cnt:   most objects that may exist, <= SLAB_MAX_CNT; 0 means that.
 * Return:     0; -EINVAL for a value outside these.
 */
int slab_init(struct slab *s, size_t obj_size, size_t obj_align, uint32_t chunk_cnt,
	      uint32_t max_cnt);

/** slab_fini() - Free all memory, live objects included; the pool must not be used afterwards. */
void slab_fini(struct slab *s);

/**
 * slab_reserve() - Make sure that the pool owns at least @n objects, live ones included.
 * Return: 0, then slab_get() allocates nothing and succeeds up to @n live objects; -ENOMEM.
 */
int slab_reserve(struct slab *s, uint32_t n);

/**
 * slab_find() - The object that a handle names.
 * @id:    any value, also a hostile one.
 * Return: the live object; NULL if @id is out of range, its object is free, or was freed since.
 */
void *slab_find(struct slab *s, uint32_t id);

/**
 * slab_foreach() - Call @fn for every live object, in order of index.
 * @fn may put the object it is given and get others; a new one may or may not be visited.
 */
void slab_foreach(struct slab *s, void (*fn)(void *obj, void *arg), void *arg);

static inline struct slab_hdr *slab_hdr(const void *obj)
{
	return (struct slab_hdr *)((uintptr_t)obj - sizeof(struct slab_hdr));
}

/** slab_is_ready() - Is there a free object? slab_get_ready() - slab_get() where there is. */
static inline bool slab_is_ready(const struct slab *s)
{
	return s->free;
}

static inline void *slab_get_ready(struct slab *s)
{
	struct slab_hdr *h = s->free;

	s->free = h->next;
	h->is_live = true;
	s->used++;
	return h + 1;
}

/** slab_get() - Take an object, contents undefined. Return: NULL if at max or out of memory. */
static inline void *slab_get(struct slab *s)
{
	return likely(slab_is_ready(s)) || !slab_reserve(s, s->cap + 1) ? slab_get_ready(s) : NULL;
}

/** slab_put() - Give back @obj, a live object of this pool; its handle now finds nothing. */
static inline void slab_put(struct slab *s, void *obj)
{
	struct slab_hdr *h = slab_hdr(obj);

	must(h->is_live);
	h->is_live = false;
	h->id += (uint32_t)SLAB_ID_IDX + 1; /* the next generation; they wrap */
	h->next = s->free;
	s->free = h;
	s->used--;
}

/** slab_id() - The handle of a live object: valid until slab_put(), never SLAB_ID_NONE. */
static inline uint32_t slab_id(struct slab *s, const void *obj)
{
	assert(slab_hdr(obj)->is_live);
	(void)s;
	return slab_hdr(obj)->id;
}

/** slab_used() - Number of live objects. */
static inline uint32_t slab_used(const struct slab *s)
{
	return s->used;
}

#endif
