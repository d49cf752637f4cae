// SPDX-License-Identifier: BSD-2-Clause
// Domains: a link port each, their peers, and where received frames go.
#include "nic/cassini/cassini_tgt.h"

#include <errno.h>
#include <sched.h>

#include "base/guard.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

/*
 * Theory of operation
 *
 * A remote Domain is a place, (NIC, PID) in our VNI: its address has no incarnation. A struct cassini_peer is such a
 * place and lives as long as our Domain; its link_peer and the number @life change with the processes that live there.
 * We learn that a process has gone in four ways: a frame of ours ends with a negative status; the link sees it go
 * (on_gone); a frame comes from that place with another nonce than before; or the watch finds that the link now reaches
 * another one. Each leads to cassini_peer_gone(), which ends what the old one owed us.
 *
 * The watch: whoever owes us a REPLY or a Get and says nothing for 250 ms is sent a PING. The answer does not matter,
 * its status does: a frame that is under way makes the link find out whether the peer lives.
 */

#define WATCH_NS      (250 * NS_PER_MS)
#define RETRY_NS      NS_PER_MS /* of the adapter thread, when a path was full */
#define PEERS_MIN     16u
#define POLLS_A_WATCH 64u

/* --- peers --- */

static uint32_t id_hash(uint32_t id)
{
	id *= 0x9e3779b1u;
	return id ^ id >> 15;
}

static struct cassini_peer *peer_find(const struct cassini_dom *dom, uint32_t nic, uint16_t pid)
{
	struct cassini_peer *peer = dom->peer_tab[id_hash(CASSINI_MATCH_ID(pid, nic)) & dom->peer_mask];

	while (peer && (peer->nic != nic || peer->pid != pid))
		peer = peer->hnext;
	return peer;
}

static void peer_insert(struct cassini_dom *dom, struct cassini_peer *peer)
{
	struct cassini_peer **head = &dom->peer_tab[id_hash(CASSINI_MATCH_ID(peer->pid, peer->nic)) & dom->peer_mask];

	peer->hnext = *head;
	*head = peer;
}

/* Without memory the chains become longer. */
static void peers_grow(struct cassini_dom *dom)
{
	struct cassini_peer **old = dom->peer_tab, **tab = mem_alloc(2 * ((size_t)dom->peer_mask + 1) * sizeof(*tab));
	uint32_t old_mask = dom->peer_mask;

	if (!tab)
		return;
	dom->peer_tab = tab;
	dom->peer_mask = 2 * old_mask + 1;
	for (uint32_t i = 0; i <= old_mask; i++) {
		for (struct cassini_peer *peer = old[i], *next; peer; peer = next) {
			next = peer->hnext;
			peer_insert(dom, peer);
		}
	}
	mem_free(old);
}

/* The place, known from now on; nothing is said to it. NULL: out of memory. */
static struct cassini_peer *peer_at(struct cassini_dom *dom, uint32_t nic, uint16_t pid)
{
	struct cassini_peer *peer = peer_find(dom, nic, pid);

	if (peer)
		return peer;
	peer = slab_get(&dom->peers);
	if (!peer)
		return NULL;
	*peer = (struct cassini_peer){.dom = dom, .nic = nic, .pid = pid, .match_id = CASSINI_MATCH_ID(pid, nic),
				      .put_word = cassini_put_word(dom->vni, pid)};
	LIST_INIT(&peer->waiting);
	STAILQ_INIT(&peer->chain);
	if (dom->peer_cnt++ > dom->peer_mask)
		peers_grow(dom);
	peer_insert(dom, peer);
	return peer;
}

static int peer_link(struct cassini_peer *peer, const struct link_addr *addr)
{
	int rc = link_peer_get(peer->dom->port, addr, &peer->link);

	if (rc) {
		peer->link = NULL;
		return rc;
	}
	link_peer_set_user(peer->link, peer);
	return 0;
}

/* Two hosts that both are on loopback. Once: a job that finds out has many such peers. */
static void lost_on_loopback(struct cassini *nic, uint32_t addr)
{
	if (!cassini_is_far(nic, addr) || nic->is_refusal_said)
		return;
	nic->is_refusal_said = true;
	LOG_WARN("NIC %#x: no adapter with this address on this host; between hosts set SOFTFABRIC_NET=\"if=...\" to "
		 "an interface, an address or auto", addr);
}

int cassini_peer_get(struct cassini_dom *dom, uint32_t nic, uint16_t pid, struct cassini_peer **out)
{
	struct cassini_peer *peer = peer_at(dom, nic, pid);
	struct link_addr addr;
	int rc = 0;

	lock_assert_held(dom->nic->open.lock);
	if (!peer)
		return -ENOMEM;
	if (!peer->link) {
		rc = dom->closing ? -ENETUNREACH : cassini_addr_of(dom->nic, nic, dom->vni, pid, &addr);
		if (rc && !dom->closing)
			lost_on_loopback(dom->nic, nic);
		rc = rc ? rc : peer_link(peer, &addr);
	}
	if (rc)
		return rc;
	*out = peer;
	return 0;
}

/* The first operation that waits and belongs to an earlier life. */
static struct cassini_op *first_lost(struct cassini_peer *peer)
{
	struct cassini_op *op;

	LIST_FOREACH(op, &peer->waiting, await)
		if (op->life != peer->life)
			return op;
	return NULL;
}

void cassini_peer_gone(struct cassini_peer *peer, uint32_t life)
{
	struct cassini_op *op;

	if (life != peer->life)
		return;
	peer->life++;
	peer->nonce = 0;
	peer->paused = peer->held = 0;
	peer->took = 0;
	if (peer->link) {
		struct link_peer *link = peer->link;

		peer->link = NULL;
		link_peer_put(link);
	}
	while ((op = first_lost(peer)))
		cassini_ini_lost(op, CASSINI_RC_UNDELIVERABLE);
}

void cassini_peer_look(struct cassini_peer *peer)
{
	uint32_t nonce = peer->link ? link_peer_nonce(peer->link) : 0;

	if (!nonce || nonce == peer->nonce)
		return;
	if (peer->nonce)
		cassini_peer_gone(peer, peer->life);
	else
		peer->nonce = nonce;
}

uint32_t cassini_peer_life(struct cassini_dom *dom, uint32_t nic, uint16_t pid)
{
	struct cassini_peer *peer = peer_find(dom, nic, pid);

	lock_assert_held(dom->nic->open.lock);
	if (!peer)
		return 0;
	cassini_peer_look(peer);
	return peer->life;
}

bool cassini_peer_is_idle(const struct cassini_dom *dom, uint32_t nic, uint16_t pid)
{
	const struct cassini_peer *peer = peer_find(dom, nic, pid);

	lock_assert_held(dom->nic->open.lock);
	return !peer || !peer->link || link_peer_is_idle(peer->link);
}

void cassini_rdzv_done(struct cassini_dom *dom, uint32_t initiator, uint64_t get_bits)
{
	uint16_t pid = (uint16_t)CASSINI_MATCH_ID_PID(initiator);
	struct cassini_peer *peer = peer_find(dom, CASSINI_MATCH_ID_NIC(initiator), pid);

	lock_assert_held(dom->nic->open.lock);
	if (peer)
		cassini_ini_got(dom, peer, 0, get_bits);
}

void cassini_peer_await(struct cassini_peer *peer, struct cassini_op *op)
{
	struct cassini_dom *dom = peer->dom;

	if (!peer->nonce && peer->link)
		peer->nonce = link_peer_nonce(peer->link);
	LIST_INSERT_HEAD(&peer->waiting, op, await);
	if (peer->owed++)
		return;
	if (LIST_EMPTY(&dom->awaited))
		dom->watch_ns = 0; /* the next look starts the time */
	peer->has_spoken = true;
	LIST_INSERT_HEAD(&dom->awaited, peer, await);
}

void cassini_peer_unawait(struct cassini_peer *peer, struct cassini_op *op)
{
	LIST_REMOVE(op, await);
	must(peer->owed);
	if (!--peer->owed)
		LIST_REMOVE(peer, await);
}

/* --- the watch --- */

static void ping(struct cassini_peer *peer)
{
	struct cassini_dom *dom = peer->dom;
	const struct cassini_pkt_in pkt = {
		.op = CASSINI_PKT_PING,
		.vni = dom->vni,
		.pid = peer->pid,
		.initiator = dom->match_id,
	};

	cassini_answer(dom, peer, &pkt, NULL, 0);
}

static void watch(struct cassini_dom *dom)
{
	uint64_t now_ns = link_now_ns(dom->nic->node);
	struct cassini_peer *peer, *next;

	if (!dom->watch_ns)
		dom->watch_ns = now_ns + WATCH_NS;
	if (now_ns < dom->watch_ns)
		return;
	dom->watch_ns = now_ns + WATCH_NS;
	for (peer = LIST_FIRST(&dom->awaited); peer; peer = next) {
		next = LIST_NEXT(peer, await);
		cassini_peer_look(peer);
		if (!peer->owed)
			continue;
		if (!peer->has_spoken && !peer->ping_out)
			ping(peer);
		peer->has_spoken = false;
	}
}

uint64_t cassini_dom_deadline(const struct cassini_dom *dom)
{
	uint64_t at_ns = CLK_NEVER;

	if (!STAILQ_EMPTY(&dom->unsent) || !LIST_EMPTY(&dom->cmdqs) || !STAILQ_EMPTY(&dom->copies))
		at_ns = link_now_ns(dom->nic->node) + RETRY_NS;
	if (!LIST_EMPTY(&dom->awaited))
		at_ns = MIN(at_ns, dom->watch_ns ? dom->watch_ns : link_now_ns(dom->nic->node) + WATCH_NS);
	return at_ns;
}

/* --- frames in --- */

/*
 * The peer that @from, which is not the peer's usual link_peer, is by its address: its first frame, or one that came
 * under an address with a nonce. NULL: no Domain of our VNI can have such an address, or no memory (counted).
 */
static __attribute__((noinline)) struct cassini_peer *peer_from(struct cassini_dom *dom, struct link_peer *from)
{
	struct cassini_peer *peer = link_peer_user(from);
	uint32_t nic, nonce = link_peer_nonce(from), bound;
	uint16_t pid;

	if (!peer) {
		if (cassini_addr_who(dom->nic, link_peer_addr(from), dom->vni, &nic, &pid))
			return NULL;
		peer = peer_at(dom, nic, pid);
		if (!peer)
			return NULL;
		link_peer_set_user(from, peer);
	}
	bound = peer->link ? link_peer_nonce(peer->link) : 0;
	if (nonce && ((peer->nonce && peer->nonce != nonce) || (bound && bound != nonce)))
		cassini_peer_gone(peer, peer->life);
	if (peer->link && !bound && peer->link != from) {
		/* nothing has gone that way yet: from now on the one that is known to lead there */
		link_peer_put(peer->link);
		peer->link = NULL;
		peer->took = 0;
	}
	if (!peer->link && !dom->closing && peer_link(peer, link_peer_addr(from)))
		return NULL;
	if (nonce)
		peer->nonce = nonce;
	return peer;
}

static inline struct cassini_peer *peer_of(struct cassini_dom *dom, struct link_peer *from)
{
	struct cassini_peer *peer = link_peer_user(from);

	return likely(peer && peer->link == from) ? peer : peer_from(dom, from);
}

static inline bool is_initiator(const struct cassini_peer *peer, const struct cassini_pkt_in *pkt)
{
	return pkt->op == CASSINI_PKT_REPLY || pkt->initiator == peer->match_id;
}

/* Whatever is no plain Put of a peer that we know. Return: 0: @pkt is what @frame says, and *@peer who sent it; else
 * the verdict. */
static int check(struct cassini_dom *dom, struct link_peer *from, const struct view *frame, struct cassini_peer **peer,
		 struct cassini_pkt_in *pkt)
{
	struct cassini_stats *stats = &dom->nic->stats;

	if (cassini_pkt_check(frame, pkt)) {
		stats->malformed++;
		return CASSINI_RC_ILLEGAL_OP;
	}
	if (pkt->vni != dom->vni) {
		stats->vni_not_found++;
		return CASSINI_RC_VNI_NOT_FOUND;
	}
	if (pkt->pid != dom->pid) {
		stats->malformed++;
		return CASSINI_RC_INVALID_ENDPOINT;
	}
	*peer = peer_of(dom, from);
	if (!*peer || !is_initiator(*peer, pkt)) {
		stats->bad_initiator++;
		return CASSINI_RC_PERM_VIOLATION;
	}
	return dom->closing && cassini_pkt[pkt->op].to_pte ? CASSINI_RC_PTLTE_NOT_FOUND : 0;
}

/* A packet that is not for a portal table entry. */
static int on_answer(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		     const struct view *frame)
{
	struct view payload = *frame;

	if (dom->closing)
		return 0;
	view_skip(&payload, pkt->hdr_len);
	if (pkt->op == CASSINI_PKT_REPLY)
		cassini_ini_reply(dom, peer, pkt, &payload);
	else if (pkt->op == CASSINI_PKT_RGET_DONE)
		cassini_tgt_rget_done(dom, peer, pkt);
	return 0;
}

/* The other rows of the door. Apart, so that what the first one has read of the header stays in registers. */
static __attribute__((noinline)) int rest(struct cassini_dom *dom, struct link_peer *from, const uint8_t *bytes,
					  uint32_t len)
{
	struct cassini_peer *peer = NULL;
	struct cassini_pkt_in pkt;
	struct view frame;
	int verdict;

	view_set(&frame, bytes, len);
	verdict = check(dom, from, &frame, &peer, &pkt);
	if (verdict)
		return verdict;
	peer->has_spoken = true;
	return cassini_pkt[pkt.op].to_pte ? cassini_tgt_frame(dom, peer, &pkt, bytes)
					  : on_answer(dom, peer, &pkt, &frame);
}

/*
 * link_ops.on_frame: the door. Its first row is what most frames are, a plain Put of a peer that we know, for an entry
 * that asks for nothing else.
 */
static int on_frame(void *ctx, struct link_peer *from, const uint8_t *frame, uint32_t len)
{
	struct cassini_peer *peer = link_peer_user(from);
	struct cassini_dom *dom = ctx;
	struct cassini_pkt_in pkt;
	struct cassini_le *le;

	if (unlikely(!peer || peer->link != from ||
		     !cassini_put_check(frame, len, dom->put_word, peer->match_id, &pkt) ||
		     !(le = cassini_tgt_entry(dom, &pkt))))
		return rest(dom, from, frame, len);
	peer->has_spoken = true;
	return cassini_tgt_put(dom, peer, le, &pkt, frame);
}

static void on_sent(void *ctx, void *cookie, int status)
{
	struct cassini_work *w = cookie;

	(void)ctx;
	w->on_sent(w, status);
}

static void on_bulk(void *ctx, void *cookie, int status)
{
	struct cassini_work *w = cookie;

	(void)ctx;
	w->on_bulk(w, status);
}

static const struct link_ops dom_link_ops = {
	.on_frame = on_frame, .on_sent = on_sent, .on_bulk = on_bulk, .on_bulk_left = cassini_copy_left,
	.on_lost = cassini_lost, .on_gone = cassini_gone};

/* Is there anything beside the link? One question, for that is nearly never so. */
static inline bool is_wanted(const struct cassini_dom *dom)
{
	return (uintptr_t)STAILQ_FIRST(&dom->unsent) | (uintptr_t)LIST_FIRST(&dom->cmdqs) |
	       (uintptr_t)STAILQ_FIRST(&dom->copies) | (uintptr_t)LIST_FIRST(&dom->lni->waiting) |
	       (uintptr_t)LIST_FIRST(&dom->awaited);
}

/* @got: what the link has had. Return: the same, and what has been done here. */
static __attribute__((noinline)) int attend(struct cassini_dom *dom, int got)
{
	int n = got;

	if (!STAILQ_EMPTY(&dom->unsent))
		n += cassini_answers_retry(dom);
	if (!LIST_EMPTY(&dom->cmdqs))
		n += cassini_cmdq_kick(dom);
	n += cassini_tgt_kick(dom);
	/* the clock is read when there is nothing else to do, and now and then */
	dom->polls++;
	if (!LIST_EMPTY(&dom->awaited) && (!n || dom->polls % POLLS_A_WATCH == 0))
		watch(dom);
	return n;
}

int cassini_dom_poll(struct cassini_dom *dom)
{
	int n;

	lock_assert_held(dom->nic->open.lock);
	if (unlikely(dom->is_polling))
		return 0;
	dom->is_polling = true;
	n = link_poll(dom->port);
	if (unlikely(is_wanted(dom)))
		n = attend(dom, n);
	if (n)
		link_doorbell(dom->port);
	dom->is_polling = false;
	return n;
}

bool cassini_dom_calm(struct cassini_dom *dom, struct calm *c, uint32_t passed)
{
	return !dom->is_polling && !is_wanted(dom) && link_calm(dom->port, c, passed);
}

bool cassini_dom_is_polled(const struct cassini_dom *dom)
{
	return dom->is_polling;
}

int cassini_dom_wait_fd(struct cassini_dom *dom)
{
	lock_assert_held(dom->nic->open.lock);
	return link_wait_fd(dom->port);
}

int cassini_dom_arm(struct cassini_dom *dom)
{
	lock_assert_held(dom->nic->open.lock);
	return link_arm(dom->port);
}

/* --- open and close --- */

static int port_try(struct cassini_dom *dom, const struct cassini_dom_attr *attr, uint16_t pid)
{
	struct cassini *nic = dom->nic;
	struct link_port_attr port = {
		.node = nic->node,
		.nonce = (uint32_t)rng_entropy() | 1,
		.cls = LINK_ORDERED,
		.by_place = true,
		.no_shm = attr->no_shm,
		.ops = &dom_link_ops,
		.ctx = dom,
	};
	struct link_addr addr;
	int rc = cassini_addr_of(nic, nic->info.nic, attr->vni, pid, &addr);

	if (rc)
		return rc;
	memcpy(port.ip, addr.ip, sizeof(port.ip));
	port.port = addr.port;
	rc = link_port_open(&port, &dom->port);
	if (!rc) {
		dom->pid = pid;
		dom->match_id = CASSINI_MATCH_ID(pid, nic->info.nic);
		dom->put_word = cassini_put_word(attr->vni, pid);
	}
	return rc;
}

static void clash_log(const struct cassini *nic, uint16_t vni, uint16_t pid)
{
	struct link_addr addr;
	char who[48] = "another process";
	int holder = 0;

	if (!cassini_addr_of(nic, nic->info.nic, vni, pid, &addr))
		holder = link_port_holder(addr.ip, addr.port);
	if (holder)
		snprintf(who, sizeof(who), "process %d", holder);
	LOG_WARN("%s: PID %u of VNI %u is taken: %s has UDP port %u (VNIs that differ by a multiple of 24 share them)",
		 nic->info.name, pid, vni, who, addr.port);
}

static int port_open(struct cassini_dom *dom, const struct cassini_dom_attr *attr)
{
	int rc = -EADDRINUSE;

	if (attr->pid != CASSINI_PID_ANY) {
		rc = port_try(dom, attr, attr->pid);
		if (rc == -EADDRINUSE)
			clash_log(dom->nic, attr->vni, attr->pid);
		return rc;
	}
	for (unsigned i = 0; i < CASSINI_PID_CNT && rc == -EADDRINUSE; i++)
		rc = port_try(dom, attr, (uint16_t)((attr->first % CASSINI_PID_CNT + i) % CASSINI_PID_CNT));
	if (rc != -EADDRINUSE)
		return rc;
	LOG_WARN("%s: all %u PIDs of VNI %u are taken", dom->nic->info.name, CASSINI_PID_CNT, attr->vni);
	return -ENOSPC;
}

static int attr_check(const struct cassini_lni *lni, const struct cassini_dom_attr *attr)
{
	char why[256];
	int rc = cassini_svc_why(&lni->svc, attr->vni, -1, why, sizeof(why));

	if (rc) {
		LOG_WARN("%s: %s", lni->nic->info.name, why);
		return rc;
	}
	if (attr->pid <= CASSINI_PID_ANY)
		return 0;
	LOG_WARN("%s: no PID %u: they end at %u", lni->nic->info.name, attr->pid, CASSINI_PID_CNT - 1);
	return -EINVAL;
}

static int tabs_init(struct cassini_dom *dom)
{
	int rc = slab_init(&dom->ops, sizeof(struct cassini_op), _Alignof(struct cassini_op), 64, 0);

	if (!rc)
		rc = cassini_answers_init(dom);
	if (!rc)
		rc = slab_init(&dom->peers, sizeof(struct cassini_peer), _Alignof(struct cassini_peer), 64, 0);
	if (!rc)
		rc = slab_reserve(&dom->ops, 64);
	dom->peer_tab = mem_alloc(PEERS_MIN * sizeof(*dom->peer_tab));
	dom->peer_mask = PEERS_MIN - 1;
	return rc ? rc : dom->peer_tab ? 0 : -ENOMEM;
}

static void tabs_fini(struct cassini_dom *dom)
{
	slab_fini(&dom->ops);
	slab_fini(&dom->answers);
	slab_fini(&dom->peers);
	mt_unexp_fini(&dom->rdzv);
	mem_free(dom->peer_tab);
	mem_free(dom);
}

int cassini_dom_open(struct cassini_lni *lni, const struct cassini_dom_attr *attr, struct cassini_dom **out)
{
	struct cassini_dom *dom;
	int rc;

	lock_assert_held(lni->nic->open.lock);
	rc = attr_check(lni, attr);
	if (rc)
		return rc;
	dom = mem_alloc(sizeof(*dom));
	if (!dom)
		return -ENOMEM;
	dom->nic = lni->nic;
	dom->lni = lni;
	dom->vni = attr->vni;
	mt_unexp_init(&dom->rdzv);
	LIST_INIT(&dom->awaited);
	LIST_INIT(&dom->cmdqs);
	cassini_owe_init(dom);
	STAILQ_INIT(&dom->copies);
	rc = tabs_init(dom);
	if (!rc)
		rc = port_open(dom, attr);
	if (rc) {
		tabs_fini(dom);
		return rc;
	}
	LIST_INSERT_HEAD(&lni->nic->doms, dom, link);
	*out = dom;
	return 0;
}

static void lock_yield(struct lock *lock)
{
	lock_release(lock);
	sched_yield();
	lock_acquire(lock);
}

/* What peers wait for gets a chance to leave. In a world of its own time stands still here: one try. */
static void answers_drain(struct cassini_dom *dom)
{
	struct cassini *nic = dom->nic;
	uint64_t begin_ns = link_now_ns(nic->node), now_ns = begin_ns;

	cassini_dom_poll(dom);
	while (!STAILQ_EMPTY(&dom->unsent) && !nic->open.world && now_ns - begin_ns < nic->net->linger_ns) {
		lock_yield(nic->open.lock);
		cassini_dom_poll(dom);
		now_ns = link_now_ns(nic->node);
	}
}

static void peer_unlink(void *obj, void *arg)
{
	struct cassini_peer *peer = obj;

	(void)arg;
	quota_leave(&peer->owe);
	if (!peer->link)
		return;
	link_peer_set_user(peer->link, NULL);
	link_peer_put(peer->link);
	peer->link = NULL;
}

void cassini_dom_close(struct cassini_dom *dom)
{
	struct link_stats last;
	struct cassini *nic;

	if (!dom)
		return;
	nic = dom->nic;
	lock_assert_held(nic->open.lock);
	/* the adapter thread is in the middle of it, and has let go of the lock (see link_region_del()) */
	while (dom->is_polling || nic->in_service)
		lock_yield(nic->open.lock);
	answers_drain(dom);
	cassini_ini_close(dom); /* sets closing */
	cassini_answers_drop(dom);
	dom->is_polling = true; /* not by the adapter thread either, while the port lets go of the lock */
	slab_foreach(&dom->peers, peer_unlink, NULL);
	link_port_close_stats(dom->port, &last);
	LIST_REMOVE(dom, link);
	stats_add(&nic->closed, &last, sizeof(last));
	cassini_tgt_close(dom);
	assert(!dom->answers_out);
	tabs_fini(dom);
}

uint16_t cassini_dom_pid(const struct cassini_dom *dom)
{
	return dom->pid;
}

uint16_t cassini_dom_vni(const struct cassini_dom *dom)
{
	return dom->vni;
}
