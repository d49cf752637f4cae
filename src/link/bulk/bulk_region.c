// SPDX-License-Identifier: BSD-2-Clause
// The node's side of the bulk service: which memory peers may touch, and which tables of other
// nodes we have mapped.
//
// What is valid for a region is in private memory; where the node has shared memory it is published
// in its table as well (bulk_tab.c), whose room grows with the regions and is missing where
// /dev/shm is full: such regions are reached by frames.
#include "link/bulk/bulk_int.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/keyed.h"

#define TARGET_RETRY_NS (10 * NS_PER_MS)
#define DEL_SPIN_NS	(200 * NS_PER_US) /* then the lock is released while waiting */
#define DEL_NAP_NS	(100 * NS_PER_US)

/* --- regions ---------------------------------------------------------------------------------- */

static uint32_t level_of(uint32_t idx)
{
	return idx < BULK_ENTRY_MIN ? 0 : 32 - (uint32_t)__builtin_clz(idx / BULK_ENTRY_MIN);
}

static struct bulk_region *region_at(const struct bulk_node *b, uint32_t idx)
{
	uint32_t level = level_of(idx);

	return &b->level[level][level ? idx - (BULK_ENTRY_MIN << (level - 1)) : idx];
}

/* Where @key's region is; NULL: nowhere. */
static struct bulk_region *region_find(const struct bulk_node *b, uint32_t key, uint32_t *idx)
{
	*idx = 0;
	for (uint32_t cnt = b->entry_cnt; key && cnt >= BULK_ENTRY_MIN; cnt /= 2) {
		struct bulk_region *r = region_at(b, key & (cnt - 1));

		*idx = key & (cnt - 1);
		if (r->key == key)
			return r;
	}
	return NULL;
}

int bulk_region_check(const struct link_port *p, uint32_t key, int op, uint64_t addr, uint64_t len)
{
	uint32_t idx;
	const struct bulk_region *r = region_find(p->node->bulk, key, &idx);
	int rc = bulk_admits(r ? r->scope : 0, p->self.port, p->serves);

	if (rc)
		return rc;
	return r && !r->is_gone && (r->rights & (unsigned)op) && addr >= r->addr && len <= r->len &&
			       addr - r->addr <= r->len - len
		       ? 0
		       : -EACCES;
}

/* Not a warning: regions of messages that are cancelled go while a peer fetches them, and who shuts a port knows. */
__attribute__((cold, noinline)) void bulk_tell_refused(struct bulk_node *b, const char *who, int rc, uint32_t key,
						       int op, uint64_t addr, uint64_t len)
{
	LOG_FEW(LOG_LVL_INFO, b->refused_told, "%s wants to %s %llu bytes at 0x%llx by key 0x%x: refused, %s", who,
		op == LINK_GET ? "read" : "write", (unsigned long long)len, (unsigned long long)addr, key,
		rc == -ENOTCONN ? "the port serves nobody now"
				: "no region has this key, range and right for peers of this port");
}

void bulk_region_offer(struct bulk_node *b, uint32_t key)
{
	uint32_t idx;

	region_find(b, key, &idx)->is_offered = true;
}

void bulk_region_spoil(struct bulk_node *b, uint32_t key)
{
	uint32_t idx;

	region_find(b, key, &idx)->is_spoilt = true;
}

bool link_region_is_spoilt(const struct link_node *n, uint32_t key)
{
	uint32_t idx;
	const struct bulk_region *r = region_find(n->bulk, key, &idx);

	return r && r->is_spoilt;
}

bool bulk_region_asked(struct bulk_node *b, uint32_t key)
{
	uint32_t idx;
	struct bulk_region *r = region_find(b, key, &idx);
	bool is_offered = r->is_offered;

	r->is_offered = false;
	return is_offered;
}

/* The place is free from now on. */
static void region_free(struct bulk_node *b, struct bulk_region *r)
{
	r->key = 0;
	b->region_cnt--;
}

/* Twice as many entries; those that exist keep their places. */
static int grow(struct bulk_node *b)
{
	uint32_t cnt = b->entry_cnt ? b->entry_cnt : BULK_ENTRY_MIN;
	struct bulk_region **level = &b->level[level_of(b->entry_cnt)];

	if (b->entry_cnt >= BULK_ENTRY_MAX)
		return 0;
	*level = mem_alloc(cnt * sizeof(struct bulk_region));
	if (!*level)
		return -ENOMEM;
	b->entry_cnt += cnt;
	return 0;
}

/* Tests that replay a simulation get the same keys again. */
static uint32_t random_bits(struct bulk_node *b)
{
	if (b->n->attr.world)
		return (uint32_t)rng_u64(&b->n->rng);
	if (!b->random_cnt) {
		keyed_secret(b->random, sizeof(b->random));
		b->random_cnt = ARRAY_SIZE(b->random);
	}
	return b->random[--b->random_cnt];
}

/*
 * A key whose place is free, of which there are many: at least a quarter. A region that was added when there were fewer
 * places may have the same key at another one.
 */
static struct bulk_region *key_new(struct bulk_node *b, uint32_t *key, uint32_t *idx)
{
	uint32_t other;

	do {
		*key = random_bits(b);
		*idx = *key & (b->entry_cnt - 1);
	} while (!*key || region_at(b, *idx)->key || region_find(b, *key, &other));
	return region_at(b, *idx);
}

/* The shared table, made when first needed. Without it only frames reach our regions. */
static void share(struct bulk_node *b)
{
	struct link_node *n = b->n;
	int rc;

	if (!b->tab && !b->tab_tried && n->lossless && !n->attr.world &&
	    (n->room->paths & LINK_PATH_SHM)) {
		b->tab_tried = true;
		rc = bulk_tab_create(b->n->bulk_id, &b->tab);
		if (rc)
			LOG_INFO("no shared region table: %s; peers copy through the owner",
				 strerror(-rc));
	}
	if (b->tab && bulk_tab_entry_cnt(b->tab) < b->entry_cnt &&
	    bulk_tab_grow(b->tab, b->entry_cnt))
		LOG_INFO("/dev/shm is full: regions from %u on are not in the shared table",
			 bulk_tab_entry_cnt(b->tab));
}

static bool is_shared(const struct bulk_node *b, uint32_t idx)
{
	return b->tab && idx < bulk_tab_entry_cnt(b->tab);
}

static int region_add(struct link_node *n, uint32_t scope, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	struct bulk_node *b = n->bulk;
	struct bulk_region *r;
	uint32_t idx;

	lock_assert_held(n->lock);
	if (b->region_cnt >= BULK_REGION_MAX)
		return -ENOSPC;
	if (2 * b->region_cnt >= b->entry_cnt) {
		if (grow(b) && 4 * (b->region_cnt + 1) > 3 * b->entry_cnt)
			return -ENOMEM;
		share(b);
	}
	r = key_new(b, key, &idx);
	*r = (struct bulk_region){.addr = (uintptr_t)addr, .len = len, .key = *key, .scope = scope,
				  .rights = (uint8_t)rights};
	b->region_cnt++;
	if (is_shared(b, idx))
		bulk_tab_publish(b->tab, idx, *key, r->addr, len, rights, scope);
	if (rights)
		n->agent_start(n);
	return 0;
}

int link_group_region_add(struct link_node *n, uint32_t group, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	assert(group <= LINK_GROUP_MAX);
	return region_add(n, group, addr, len, rights, key);
}

int link_port_region_add(struct link_port *p, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	return region_add(p->node, BULK_SCOPE_PORT | p->self.port, addr, len, rights, key);
}

/* A quarter of dead_after: in time for the operation that waits for it to end soon after its peer counts as dead. */
static void break_stopped(struct bulk_node *b, struct bulk_leases leases, uint64_t waited_ns)
{
	struct bulk_wait w = {clk_now_ns(NULL), waited_ns, b->n->room->dead_after_ns / BULK_PATIENCES};

	if (bulk_tab_break(b->tab, leases, &w))
		LOG_WARN("a stopped process has held a region for %llu ms: taken away",
			 (unsigned long long)(waited_ns / NS_PER_MS));
}

/*
 * Wait until no initiator copies under one of @leases. A running one lets go within microseconds; a dead one is
 * noticed by its lock; a stopped one (SIGSTOP, debugger, frozen cgroup) loses its lease after a quarter of the
 * time after which a silent peer counts as dead, any other after all of it. A long wait is without the node's lock.
 * @shut: the port that was shut, or NULL: once it is opened again its peers have leases by right.
 */
static void wait_leases(struct bulk_node *b, struct bulk_leases leases, const struct link_port *shut, bool may_unlock)
{
	struct link_node *n = b->n;
	uint32_t opened = shut ? shut->opened_cnt : 0;
	uint64_t start_ns = clk_now_ns(NULL), waited_ns = 0;
	struct timespec nap = {.tv_nsec = DEL_NAP_NS};

	while (!(shut && shut->opened_cnt != opened) &&
	       bulk_tab_is_leased(b->tab, leases, waited_ns > DEL_SPIN_NS / 4)) {
		waited_ns = clk_now_ns(NULL) - start_ns;
		if (waited_ns < DEL_SPIN_NS) {
			sched_yield();
			continue;
		}
		break_stopped(b, leases, waited_ns);
		if (may_unlock)
			lock_release(n->lock);
		nanosleep(&nap, NULL);
		if (may_unlock)
			lock_acquire(n->lock);
	}
}

static void region_del(struct bulk_node *b, struct bulk_region *r, uint32_t idx, bool may_unlock)
{
	struct link_node *n = b->n;

	r->is_gone = true;
	for (struct link_port *p = n->ports; p; p = p->next) {
		if (p->bulk)
			p->bulk->region_gone(p->bulk, r->key);
	}
	if (is_shared(b, idx)) {
		bulk_tab_retract(b->tab, idx);
		wait_leases(b, bulk_leases_on(idx), NULL, may_unlock);
	}
	region_free(b, r);
}

void bulk_port_shut(struct bulk_port *b)
{
	assert(b->port->serves == LINK_SHUT);
	b->region_gone(b, 0);
}

void bulk_port_settle(struct bulk_port *b)
{
	struct bulk_node *node = b->node;

	if (!node->tab)
		return;
	/* full fence; pairs with the one in bulk_lease_take() */
	atomic_thread_fence(memory_order_seq_cst);
	wait_leases(node, bulk_leases_by(b->port->self.port), b->port, true);
}

void bulk_region_retract(struct bulk_node *b, uint32_t key)
{
	uint32_t idx;
	struct bulk_region *r = region_find(b, key, &idx);

	r->is_gone = true;
	if (is_shared(b, idx))
		bulk_tab_retract(b->tab, idx);
}

void bulk_region_break(struct bulk_node *b, uint32_t key, uint64_t waited_ns)
{
	uint32_t idx;

	if (region_find(b, key, &idx) && is_shared(b, idx))
		break_stopped(b, bulk_leases_on(idx), waited_ns);
}

bool bulk_region_try_free(struct bulk_node *b, uint32_t key, uint64_t *filled)
{
	uint32_t idx;
	struct bulk_region *r = region_find(b, key, &idx);

	if (is_shared(b, idx) && bulk_tab_is_leased(b->tab, bulk_leases_on(idx), false) &&
	    bulk_tab_is_leased(b->tab, bulk_leases_on(idx), true))
		return false;
	if (filled)
		*filled = is_shared(b, idx) ? bulk_tab_filled(b->tab, idx) : 0;
	region_free(b, r);
	return true;
}

void bulk_region_wait_free(struct bulk_node *b, uint32_t key)
{
	uint32_t idx;
	struct bulk_region *r = region_find(b, key, &idx);

	if (is_shared(b, idx))
		wait_leases(b, bulk_leases_on(idx), NULL, false);
	region_free(b, r);
}

void link_region_del(struct link_node *n, uint32_t key)
{
	uint32_t idx;
	struct bulk_region *r = region_find(n->bulk, key, &idx);

	lock_assert_held(n->lock);
	if (r && !r->is_gone)
		region_del(n->bulk, r, idx, true);
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
	n->bulk_id = rng_entropy();
	n->bulk_id += !n->bulk_id;
	b->target_gc_at = BULK_TARGET_BUCKETS;
	if (!n->attr.world)
		bulk_tab_reap();
	*out = b;
	return 0;
}

/* Also of regions that nobody deleted: the memory behind them may be freed as soon as we return. */
static void regions_fini(struct bulk_node *b)
{
	for (uint32_t idx = 0; idx < b->entry_cnt; idx++) {
		struct bulk_region *r = region_at(b, idx);

		if (r->key)
			region_del(b, r, idx, false);
	}
	for (uint32_t i = 0; i < BULK_LEVEL_NUM; i++)
		mem_free(b->level[i]);
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
