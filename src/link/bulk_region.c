// SPDX-License-Identifier: BSD-2-Clause
// The node's side of the bulk service: which memory peers may touch, and which tables of other
// nodes we have mapped.
//
// The truth about a region is in private memory; where the node has shared memory it is published
// in its table as well (bulk_tab.c), whose room grows with the regions and is missing where
// /dev/shm is full: such regions are reached by frames.
#include "link/bulk_int.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define IDX_NONE	UINT32_MAX
#define TARGET_RETRY_NS (10 * NS_PER_MS)
#define DEL_SPIN_NS	(200 * NS_PER_US) /* then the lock is lent out while waiting */
#define DEL_NAP_NS	(100 * NS_PER_US)

/* --- regions ---------------------------------------------------------------------------------- */

static struct bulk_region *region_at(const struct bulk_node *b, uint32_t idx)
{
	return &b->chunk[idx / BULK_REGION_STEP][idx % BULK_REGION_STEP];
}

static struct bulk_region *region_find(const struct bulk_node *b, uint32_t key)
{
	uint32_t idx = (uint32_t)FIELD_GET(BULK_KEY_IDX, key);
	struct bulk_region *r;

	if (!key || idx >= b->chunk_cnt * BULK_REGION_STEP)
		return NULL;
	r = region_at(b, idx);
	return r->key == key ? r : NULL;
}

bool bulk_region_check(const struct bulk_node *b, uint32_t key, int op, uint64_t addr, uint64_t len)
{
	const struct bulk_region *r = region_find(b, key);

	return r && (r->rights & (unsigned)op) && addr >= r->addr && len <= r->len &&
	       addr - r->addr <= r->len - len;
}

/* Not a warning: regions of messages that are cancelled go while a peer fetches them. */
__attribute__((cold, noinline)) void bulk_tell_refused(struct bulk_node *b, const char *who,
						       uint32_t key, int op, uint64_t addr,
						       uint64_t len)
{
	LOG_FEW(LOG_LVL_INFO, b->refused_told,
		"%s wants to %s %llu bytes at 0x%llx by key 0x%x: refused, no region has this key, "
		"range and right",
		who, op == LINK_GET ? "read" : "write", (unsigned long long)len,
		(unsigned long long)addr, key);
}

static void free_push(struct bulk_node *b, uint32_t idx)
{
	region_at(b, idx)->next = IDX_NONE;
	if (b->free_head == IDX_NONE)
		b->free_head = idx;
	else
		region_at(b, b->free_tail)->next = idx;
	b->free_tail = idx;
}

static int grow_chunk_array(struct bulk_node *b)
{
	uint32_t cap = b->chunk_cap ? 2 * b->chunk_cap : 8;
	struct bulk_region **chunk = mem_alloc(cap * sizeof(struct bulk_region *));

	if (!chunk)
		return -ENOMEM;
	if (b->chunk)
		memcpy(chunk, b->chunk, b->chunk_cnt * sizeof(struct bulk_region *));
	mem_free(b->chunk);
	b->chunk = chunk;
	b->chunk_cap = cap;
	return 0;
}

static int grow(struct bulk_node *b)
{
	uint32_t first = b->chunk_cnt * BULK_REGION_STEP;

	if (first >= BULK_REGION_MAX)
		return -ENOSPC;
	if (b->chunk_cnt == b->chunk_cap && grow_chunk_array(b))
		return -ENOMEM;
	b->chunk[b->chunk_cnt] = mem_alloc(BULK_REGION_STEP * sizeof(struct bulk_region));
	if (!b->chunk[b->chunk_cnt])
		return -ENOMEM;
	b->chunk_cnt++;
	for (uint32_t i = 0; i < BULK_REGION_STEP; i++)
		free_push(b, first + i);
	return 0;
}

/* The shared table, made when first needed. Without it only frames reach our regions. */
static void share(struct bulk_node *b)
{
	struct link_node *n = b->n;
	int rc;

	if (!b->tab && !b->tab_tried && n->lossless && !n->attr.sim &&
	    (n->room->paths & LINK_PATH_SHM)) {
		b->tab_tried = true;
		rc = bulk_tab_create(b->id, &b->tab);
		if (rc)
			LOG_INFO("no shared region table: %s; peers copy through the owner",
				 strerror(-rc));
	}
	if (b->tab && bulk_tab_entry_cnt(b->tab) < b->chunk_cnt * BULK_REGION_STEP &&
	    bulk_tab_grow(b->tab, b->chunk_cnt * BULK_REGION_STEP))
		LOG_INFO("/dev/shm is full: regions from %u on are not in the shared table",
			 bulk_tab_entry_cnt(b->tab));
}

static bool is_shared(const struct bulk_node *b, uint32_t idx)
{
	return b->tab && idx < bulk_tab_entry_cnt(b->tab);
}

int link_region_add(struct link_node *n, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	struct bulk_node *b = n->bulk;
	struct bulk_region *r;
	uint32_t idx;
	int rc;

	lock_assert_held(n->lock);
	if (b->free_head == IDX_NONE) {
		rc = grow(b);
		if (rc)
			return rc;
		share(b);
	}
	idx = b->free_head;
	r = region_at(b, idx);
	b->free_head = r->next;

	r->gen = r->gen % BULK_GEN_MAX + 1;
	r->key = (uint32_t)(FIELD_PREP(BULK_KEY_GEN, r->gen) | FIELD_PREP(BULK_KEY_IDX, idx));
	r->addr = (uintptr_t)addr;
	r->len = len;
	r->rights = rights;
	if (is_shared(b, idx))
		bulk_tab_publish(b->tab, r->key, r->addr, r->len, rights);
	if (rights)
		agent_start(n);
	*key = r->key;
	return 0;
}

/* In time for the operation that waits for it to end soon after its peer counts as dead. */
#define STOPPED_SHARE 4

static void break_stopped(struct bulk_node *b, uint32_t idx, uint64_t waited_ns)
{
	if (waited_ns > b->n->room->dead_after_ns / STOPPED_SHARE && bulk_tab_break(b->tab, idx))
		LOG_WARN("a stopped process has held region %u for %llu ms: taken away", idx,
			 (unsigned long long)(waited_ns / NS_PER_MS));
}

/*
 * Wait until no initiator touches @idx. A running one lets go within microseconds; a dead one is
 * noticed by its lock; a stopped one (SIGSTOP, debugger) loses its lease after a quarter of the
 * time after which a silent peer counts as dead. A long wait is without the node's lock.
 */
static void wait_leases(struct bulk_node *b, uint32_t idx, bool may_unlock)
{
	struct link_node *n = b->n;
	uint64_t start_ns = clk_now_ns(NULL), waited_ns = 0;
	struct timespec nap = {.tv_nsec = DEL_NAP_NS};

	while (bulk_tab_is_leased(b->tab, idx, waited_ns > DEL_SPIN_NS / 4)) {
		waited_ns = clk_now_ns(NULL) - start_ns;
		if (waited_ns < DEL_SPIN_NS) {
			sched_yield();
			continue;
		}
		break_stopped(b, idx, waited_ns);
		if (may_unlock)
			lock_release(n->lock);
		nanosleep(&nap, NULL);
		if (may_unlock)
			lock_acquire(n->lock);
	}
}

static void region_del(struct bulk_node *b, uint32_t key, bool may_unlock)
{
	struct link_node *n = b->n;
	uint32_t idx = (uint32_t)FIELD_GET(BULK_KEY_IDX, key);

	region_at(b, idx)->key = 0;
	for (struct link_port *p = n->ports; p; p = p->next) {
		if (p->bulk)
			bulk_serve_region_gone(p->bulk, key);
	}
	if (is_shared(b, idx)) {
		bulk_tab_retract(b->tab, idx);
		wait_leases(b, idx, may_unlock);
	}
	free_push(b, idx);
}

void bulk_region_retract(struct bulk_node *b, uint32_t key)
{
	uint32_t idx = (uint32_t)FIELD_GET(BULK_KEY_IDX, key);

	region_at(b, idx)->key = 0;
	if (is_shared(b, idx))
		bulk_tab_retract(b->tab, idx);
}

void bulk_region_break(struct bulk_node *b, uint32_t key, uint64_t waited_ns)
{
	uint32_t idx = (uint32_t)FIELD_GET(BULK_KEY_IDX, key);

	if (is_shared(b, idx))
		break_stopped(b, idx, waited_ns);
}

bool bulk_region_try_free(struct bulk_node *b, uint32_t key, uint64_t *filled)
{
	uint32_t idx = (uint32_t)FIELD_GET(BULK_KEY_IDX, key);

	if (is_shared(b, idx) && bulk_tab_is_leased(b->tab, idx, false) &&
	    bulk_tab_is_leased(b->tab, idx, true))
		return false;
	if (filled)
		*filled = is_shared(b, idx) ? bulk_tab_filled(b->tab, idx) : 0;
	free_push(b, idx);
	return true;
}

void bulk_region_wait_free(struct bulk_node *b, uint32_t key)
{
	uint32_t idx = (uint32_t)FIELD_GET(BULK_KEY_IDX, key);

	if (is_shared(b, idx))
		wait_leases(b, idx, false);
	free_push(b, idx);
}

void link_region_del(struct link_node *n, uint32_t key)
{
	lock_assert_held(n->lock);
	if (region_find(n->bulk, key))
		region_del(n->bulk, key, true);
}

/* --- other nodes on this host ----------------------------------------------------------------- */

static struct bulk_target **target_bucket(struct bulk_node *b, uint64_t node_id)
{
	return &b->target[node_id % BULK_TARGET_BUCKETS]; /* ids are random */
}

static void target_attach(struct bulk_target *t, uint64_t now_ns)
{
	t->retry_ns = now_ns + TARGET_RETRY_NS;
	if (bulk_tab_attach(t->node_id, &t->tab)) {
		t->tab = NULL;
		return;
	}
	t->alive_ns = now_ns;
	t->slot = bulk_tab_slot_claim(t->tab);
	if (t->slot < 0) {
		bulk_tab_put(t->tab);
		t->tab = NULL;
	}
}

static void target_detach(struct bulk_target *t)
{
	if (!t->tab)
		return;
	bulk_tab_slot_release(t->tab, t->slot);
	bulk_tab_put(t->tab);
	t->tab = NULL;
}

/* Forget nodes that are gone; cheap on average since the next time comes only after the number has
 * doubled. */
static void targets_gc(struct bulk_node *b)
{
	for (int i = 0; i < BULK_TARGET_BUCKETS; i++) {
		struct bulk_target **pp = &b->target[i];

		while (*pp) {
			struct bulk_target *t = *pp;

			if (t->op_cnt || (t->tab && bulk_tab_owner_is_alive(t->tab))) {
				pp = &t->next;
				continue;
			}
			*pp = t->next;
			target_detach(t);
			mem_free(t);
			b->target_cnt--;
		}
	}
	b->target_gc_at = 2 * b->target_cnt + BULK_TARGET_BUCKETS;
}

struct bulk_target *bulk_target_get(struct bulk_node *b, struct link_peer *peer, uint64_t now_ns)
{
	uint64_t node_id = peer->shm ? shm_peer_node(peer->shm) : 0;
	struct bulk_target **pp = target_bucket(b, node_id), *t;

	if (!node_id)
		return NULL;
	for (t = *pp; t && t->node_id != node_id; t = t->next)
		;
	if (!t) {
		if (b->target_cnt >= b->target_gc_at)
			targets_gc(b);
		t = mem_alloc(sizeof(*t));
		if (!t)
			return NULL;
		t->node_id = node_id;
		t->next = *pp;
		*pp = t;
		b->target_cnt++;
	}
	if (!t->tab && b->n->lossless && now_ns >= t->retry_ns)
		target_attach(t, now_ns);
	return t;
}

/* --- open and close --------------------------------------------------------------------------- */

int bulk_node_open(struct link_node *n, struct bulk_node **out)
{
	struct bulk_node *b = mem_alloc(sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->n = n;
	b->id = rng_entropy();
	b->id += !b->id;
	b->free_head = b->free_tail = IDX_NONE;
	b->target_gc_at = BULK_TARGET_BUCKETS;
	if (!n->attr.sim)
		bulk_tab_reap();
	*out = b;
	return 0;
}

/* Also of regions that nobody deleted: the memory behind them may be freed as soon as we return. */
static void regions_fini(struct bulk_node *b)
{
	for (uint32_t idx = 0; idx < b->chunk_cnt * BULK_REGION_STEP; idx++) {
		uint32_t key = region_at(b, idx)->key;

		if (key)
			region_del(b, key, false);
	}
	for (uint32_t i = 0; i < b->chunk_cnt; i++)
		mem_free(b->chunk[i]);
	mem_free(b->chunk);
}

void bulk_node_close(struct bulk_node *b)
{
	if (!b)
		return;
	regions_fini(b);
	for (int i = 0; i < BULK_TARGET_BUCKETS; i++) {
		while (b->target[i]) {
			struct bulk_target *t = b->target[i];

			b->target[i] = t->next;
			target_detach(t);
			mem_free(t);
		}
	}
	bulk_tab_put(b->tab);
	mem_free(b);
}

void link_node_served(const struct link_node *n, uint64_t *get_bytes, uint64_t *put_bytes)
{
	const struct bulk_node *b = n->bulk;

	*get_bytes = b->get_served + (b->tab ? bulk_tab_moved(b->tab, LINK_GET) : 0);
	*put_bytes = b->put_served + (b->tab ? bulk_tab_moved(b->tab, LINK_PUT) : 0);
}

uint64_t bulk_node_id(const struct bulk_node *b)
{
	return b->id;
}
