// SPDX-License-Identifier: BSD-2-Clause
// Senders that nobody has inserted, seen from inside: one address vector for two endpoints, want of memory, what is
// left behind.
#include <string.h>

#include <rdma/providers/fi_prov.h>

#include "base/clock.h"
#include "base/mem.h"
#include "prov/efa/efa.h"
#include "unit.h"

#define WAIT_NS (20000ull * NS_PER_MS)

struct fi_provider *fi_prov_ini(void);
static struct fi_provider *g_prov;

struct side {
	struct fid_ep *ep;
	struct fid_cq *cq;
	uint8_t addr[EFA_ADDR_LEN];
};

struct rig {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av, *sender_av;
	struct side s[2], sender; /* both of s[] use av */
	fi_addr_t to[2];
};

static struct efa_ep *inner(const struct side *s)
{
	return container_of(s->ep, struct efa_ep, kit.fid);
}

/* What the adapter's thread may be changing, read as the provider reads it. */
#define LOCKED(ep_, value_)                                                                                            \
	({                                                                                                             \
		struct lock *lock_ = &(ep_)->domain->kit.lock;                                                         \
		uint32_t seen_;                                                                                        \
		lock_acquire(lock_);                                                                                   \
		seen_ = (uint32_t)(value_);                                                                            \
		lock_release(lock_);                                                                                   \
		seen_;                                                                                                 \
	})

/* Messages with a tag that wait for a receive. */
static uint32_t waiting(struct efa_ep *ep)
{
	return LOCKED(ep, mt_unexp_cnt(&ep->srx.unexp[1]));
}

static void side_open(struct rig *r, struct side *s, struct fid_av *av)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	size_t len = sizeof(s->addr);

	assert_int_equal(fi_endpoint(r->domain, r->info, &s->ep, NULL), 0);
	assert_int_equal(fi_cq_open(r->domain, &cq, &s->cq, NULL), 0);
	assert_int_equal(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(s->ep, &av->fid, 0), 0);
	assert_int_equal(fi_enable(s->ep), 0);
	assert_int_equal(fi_getname(&s->ep->fid, s->addr, &len), 0);
}

static void domain_open(struct rig *r, uint32_t version)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	assert_int_equal(g_prov->getinfo(version, NULL, NULL, 0, hints, &r->info), 0);
	fi_freeinfo(hints);
	assert_int_equal(g_prov->fabric(r->info->fabric_attr, &r->fabric, NULL), 0);
	assert_int_equal(fi_domain(r->fabric, r->info, &r->domain, NULL), 0);
}

static void domain_close(struct rig *r)
{
	assert_int_equal(fi_close(&r->domain->fid), 0);
	assert_int_equal(fi_close(&r->fabric->fid), 0);
	fi_freeinfo(r->info);
}

static void rig_open(struct rig *r)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};

	*r = (struct rig){0};
	domain_open(r, FI_VERSION(2, 2));
	assert_int_equal(fi_av_open(r->domain, &attr, &r->av, NULL), 0);
	assert_int_equal(fi_av_open(r->domain, &attr, &r->sender_av, NULL), 0);
	side_open(r, &r->s[0], r->av);
	side_open(r, &r->s[1], r->av);
	side_open(r, &r->sender, r->sender_av);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_av_insert(r->sender_av, r->s[i].addr, 1, &r->to[i], 0, NULL), 1);
}

static void side_close(struct side *s)
{
	assert_int_equal(fi_close(&s->ep->fid), 0);
	assert_int_equal(fi_close(&s->cq->fid), 0);
}

static void rig_close(struct rig *r)
{
	side_close(&r->s[0]);
	side_close(&r->s[1]);
	side_close(&r->sender);
	assert_int_equal(fi_close(&r->av->fid), 0);
	assert_int_equal(fi_close(&r->sender_av->fid), 0);
	domain_close(r);
}

static void drive(struct rig *r)
{
	fi_cq_read(r->s[0].cq, NULL, 0);
	fi_cq_read(r->s[1].cq, NULL, 0);
	fi_cq_read(r->sender.cq, NULL, 0);
}

/* One message to each, with a tag of its own; they wait there. */
static void send_both(struct rig *r, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS, text = tag;
	uint32_t want = waiting(inner(&r->s[0])) + 1;

	for (int i = 0; i < 2; i++)
		while (fi_tinject(r->sender.ep, &text, sizeof(text), r->to[i], tag) == -FI_EAGAIN)
			drive(r);
	for (int i = 0; i < 2; i++)
		while (waiting(inner(&r->s[i])) < want) {
			assert_true(clk_now_ns(NULL) < until);
			drive(r);
		}
}

static void take(struct rig *r, int i, uint64_t tag, fi_addr_t from, fi_addr_t want)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS, text = 0;
	struct fi_cq_tagged_entry e;
	fi_addr_t src = 4711;
	ssize_t ret;

	assert_int_equal(fi_trecv(r->s[i].ep, &text, sizeof(text), NULL, from, tag, 0, NULL), 0);
	while ((ret = fi_cq_readfrom(r->s[i].cq, &e, 1, &src)) == -FI_EAGAIN)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, 1);
	assert_int_equal(e.tag, tag);
	assert_int_equal(text, tag);
	assert_int_equal(src, want);
}

static void strangers(const struct rig *r, uint32_t cnt)
{
	assert_int_equal(LOCKED(inner(&r->s[0]), inner(&r->s[0])->stranger_cnt), cnt);
	assert_int_equal(LOCKED(inner(&r->s[1]), inner(&r->s[1])->stranger_cnt), cnt);
}

/* What a removed peer says is dropped, and counts. */
static void say_in_vain(struct rig *r)
{
	struct efa_ep *ep = inner(&r->s[0]);
	uint64_t until = clk_now_ns(NULL) + WAIT_NS, before = LOCKED(ep, ep->stats.drop_unknown_peer);

	while (fi_tinject(r->sender.ep, &before, 8, r->to[0], 99) == -FI_EAGAIN)
		drive(r);
	while (LOCKED(ep, ep->stats.drop_unknown_peer) == before) {
		assert_true(clk_now_ns(NULL) < until);
		drive(r);
	}
	strangers(r, 0);
}

static void one_stranger(struct rig *r, fi_addr_t want)
{
	uint8_t other[EFA_ADDR_LEN];
	size_t len = sizeof(other);
	fi_addr_t name;

	send_both(r, 1);
	send_both(r, 2);
	strangers(r, 1);
	assert_int_equal(fi_av_lookup(r->av, want, other, &len), -FI_EINVAL);
	take(r, 0, 1, FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL);
	memcpy(other, r->sender.addr, sizeof(other));
	other[16] ^= 1; /* another queue pair */
	assert_int_equal(fi_av_insert(r->av, other, 1, &name, 0, NULL), 1);
	assert_int_equal(name, want);
	strangers(r, 1);
	assert_int_equal(fi_av_insert(r->av, r->sender.addr, 1, &name, 0, NULL), 1);
	assert_int_equal(name, want + 1);
	strangers(r, 0);
	take(r, 1, 2, name, name);
	take(r, 0, 2, name, name);
	assert_int_equal(fi_av_remove(r->av, &name, 1, 0), 0);
	assert_int_equal(waiting(inner(&r->s[1])), 0); /* its message 1, which nobody has taken */
	say_in_vain(r);
	assert_int_equal(fi_av_insert(r->av, r->sender.addr, 1, &name, 0, NULL), 1);
	assert_int_equal(name, want + 1);
	send_both(r, 3);
	take(r, 0, 3, name, name);
	take(r, 1, 3, FI_ADDR_UNSPEC, name);
}

/* Strangers to two endpoints of one address vector get their names at both, and lose them at both. */
static void stranger__of_a_shared_vector(void **state)
{
	struct rig r;

	rig_open(&r);
	for (fi_addr_t i = 0; i < 3; i++) {
		one_stranger(&r, 2 * i);
		side_close(&r.sender);
		side_open(&r, &r.sender, r.sender_av);
	}
	rig_close(&r);
}

/* Without memory the address is not inserted and the stranger stays one; then it is. */
static void stranger__want_of_memory(void **state)
{
	int64_t live;
	struct rig r;

	rig_open(&r);
	rig_close(&r);
	live = mem_live_count();
	for (uint64_t n = 1, refused = 1; refused; n++) {
		fi_addr_t name = 0;
		int ret;

		rig_open(&r);
		send_both(&r, 1);
		mem_fail_nth(n);
		ret = fi_av_insert(r.av, r.sender.addr, 1, &name, 0, NULL);
		refused = !ret;
		mem_fail_nth(0);
		if (refused) {
			assert_int_equal(name, FI_ADDR_NOTAVAIL);
			strangers(&r, 1);
			assert_int_equal(fi_av_insert(r.av, r.sender.addr, 1, &name, 0, NULL), 1);
		} else {
			assert_true(n > 3); /* the address handles' table and both tables of peers */
		}
		assert_int_equal(name, 0);
		strangers(&r, 0);
		take(&r, 0, 1, name, name);
		take(&r, 1, 1, name, name);
		rig_close(&r);
		assert_int_equal(mem_live_count(), live);
	}
}

static void inject(struct rig *r, struct side *s, uint64_t tag)
{
	while (fi_tinject(s->ep, &tag, sizeof(tag), r->to[0], tag) == -FI_EAGAIN)
		drive(r);
}

/*
 * Where one is remembered and has a message here, the next one is refused, unless the adapter's thread had accepted it.
 * True: it was.
 */
static bool is_refused(struct rig *r, struct side *next)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct efa_ep *ep = inner(&r->s[0]);
	bool was_refused;

	inject(r, &r->sender, 1);
	while (waiting(ep) < 1) {
		assert_true(clk_now_ns(NULL) < until);
		drive(r);
	}
	inject(r, next, 2);
	while (!LOCKED(ep, ep->stats.implicit_refused) && waiting(ep) < 2) {
		assert_true(clk_now_ns(NULL) < until);
		drive(r);
		fi_cq_read(next->cq, NULL, 0);
	}
	was_refused = LOCKED(ep, ep->stats.implicit_refused);
	if (was_refused)
		assert_int_equal(LOCKED(ep, ep->stranger_cnt), 1);
	take(r, 0, 1, FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL);
	while (waiting(ep) < 1) { /* now there is room */
		assert_true(clk_now_ns(NULL) < until);
		drive(r);
		fi_cq_read(next->cq, NULL, 0);
	}
	take(r, 0, 2, FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL);
	return was_refused;
}

static void stranger__waits_where_there_is_no_room(void **state)
{
	bool was_refused = false;

	for (int i = 0; i < 50 && !was_refused; i++) {
		struct side next;
		struct rig r;

		rig_open(&r);
		side_open(&r, &next, r.sender_av);
		inner(&next)->domain->params.implicit_av_size = 1;
		was_refused = is_refused(&r, &next);
		side_close(&next);
		rig_close(&r);
	}
	assert_true(was_refused);
}

/* A peer that differs from the sender in its connection id only. The lock is held. */
static struct efa_peer *double_of_sender(struct rig *r, uint32_t id, fi_addr_t *name)
{
	struct efa_addr a;
	struct efa_peer *peer;

	memcpy(&a, r->sender.addr, sizeof(a));
	a.qkey ^= id;
	assert_int_equal(fi_av_insert(r->av, &a, 1, name, 0, NULL), 1);
	lock_acquire(&inner(&r->s[0])->domain->kit.lock);
	peer = efa_peer_get(inner(&r->s[0]), *name);
	assert_non_null(peer);
	return peer;
}

/*
 * What is kept of many that were removed is found, but for the oldest ones, and where anybody may ask for it no search
 * is long.
 */
static void past__of_many(void **state)
{
	enum { MORE = 100 };
	struct efa_ep *ep;
	uint32_t found = 0;
	struct rig r;

	rig_open(&r);
	ep = inner(&r.s[0]);
	for (uint32_t i = 1; i <= EFA_PAST_MAX + MORE; i++) {
		fi_addr_t name;

		double_of_sender(&r, i, &name)->next_msg_id = i;
		lock_release(&ep->domain->kit.lock);
		assert_int_equal(fi_av_remove(r.av, &name, 1, 0), 0);
	}
	assert_int_equal(ep->past_cnt, EFA_PAST_MAX);
	for (uint32_t i = 0; i < EFA_PAST_BUCKETS; i++) {
		struct efa_past *past;
		uint32_t chain = 0;

		LIST_FOREACH(past, &ep->past_by[i], by)
			chain++;
		assert_true(chain <= 40); /* 4 on the average */
		found += chain;
	}
	assert_int_equal(found, EFA_PAST_MAX);
	for (uint32_t i = MORE - 5; i <= MORE + 5; i++) {
		fi_addr_t name;

		assert_int_equal(double_of_sender(&r, i, &name)->next_msg_id, i > MORE ? i : 0);
		lock_release(&ep->domain->kit.lock);
	}
	assert_int_equal(ep->past_cnt, EFA_PAST_MAX - 5);
	rig_close(&r);
}

/* One endpoint per vector for programs of earlier versions. */
static void shared__from_2_2_on(void **state)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	struct fid_ep *ep;
	struct rig r = {0};

	domain_open(&r, FI_VERSION(2, 1));
	assert_int_equal(fi_av_open(r.domain, &attr, &r.av, NULL), 0);
	side_open(&r, &r.s[0], r.av);
	assert_int_equal(fi_endpoint(r.domain, r.info, &ep, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &r.av->fid, 0), -FI_ENOSYS);
	assert_int_equal(fi_close(&ep->fid), 0);
	side_close(&r.s[0]);
	assert_int_equal(fi_close(&r.av->fid), 0);
	domain_close(&r);
}

static struct efa_peer *peer_of(struct side *s, fi_addr_t name)
{
	struct efa_peer *peer;

	lock_acquire(&inner(s)->domain->kit.lock);
	peer = efa_peer_get(inner(s), name);
	lock_release(&inner(s)->domain->kit.lock);
	assert_non_null(peer);
	return peer;
}

/* Message ids have 32 bits and begin at 0, as on the real adapter: here, a few before they begin again. */
static void ids__begin_again(void **state)
{
	fi_addr_t from;
	struct rig r;

	rig_open(&r);
	assert_int_equal(fi_av_insert(r.av, r.sender.addr, 1, &from, 0, NULL), 1);
	peer_of(&r.sender, r.to[0])->next_msg_id = UINT32_MAX - 2;
	peer_of(&r.s[0], from)->exp_msg_id = UINT32_MAX - 2;
	for (uint64_t tag = 1; tag <= 8; tag++)
		inject(&r, &r.sender, tag);
	for (uint64_t tag = 1; tag <= 8; tag++)
		take(&r, 0, tag, from, from);
	assert_int_equal(peer_of(&r.sender, r.to[0])->next_msg_id, 5);
	rig_close(&r);
	(void)state;
}

/*
 * Of a message in several packets, for which no receive waits, only the first finds memory: the receive that matches it
 * later ends with an error, for the rest does not come again, and so does a send that waits for its delivery.
 */
static void kept_in_part(uint64_t flags)
{
	static char text[32 << 10], got[sizeof(text)];
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct iovec iov = {text, sizeof(text)};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 7};
	union { /* what the version asked for has, and more than an old header knows */
		struct fi_cq_err_entry e;
		char room[128];
	} err = {0};
	struct fi_cq_tagged_entry e;
	ssize_t ret, sent;
	struct slab *held;
	struct rig r;

	rig_open(&r);
	held = &inner(&r.s[0])->held_large;
	lock_acquire(&inner(&r.s[0])->domain->kit.lock);
	assert_int_equal(slab_reserve(held, 1), 0);
	held->max = held->cap;
	while (slab_used(held) + 1 < held->max)
		assert_non_null(slab_get(held));
	lock_release(&inner(&r.s[0])->domain->kit.lock);
	m.addr = r.to[0];
	while (fi_tsendmsg(r.sender.ep, &m, flags | FI_COMPLETION) == -FI_EAGAIN)
		drive(&r);
	while ((sent = fi_cq_read(r.sender.cq, &e, 1)) == -FI_EAGAIN) {
		assert_true(clk_now_ns(NULL) < until);
		fi_cq_read(r.s[0].cq, NULL, 0);
	}
	assert_int_equal(sent, flags ? -FI_EAVAIL : 1);
	while (waiting(inner(&r.s[0])) < 1) {
		assert_true(clk_now_ns(NULL) < until);
		drive(&r);
	}
	fi_cq_read(r.s[0].cq, NULL, 0);
	assert_int_equal(fi_trecv(r.s[0].ep, got, sizeof(got), NULL, FI_ADDR_UNSPEC, 7, 0, NULL), 0);
	while ((ret = fi_cq_read(r.s[0].cq, &e, 1)) == -FI_EAGAIN)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(r.s[0].cq, &err.e, 0), 1);
	assert_int_equal(err.e.err, FI_ECONNABORTED);
	assert_int_equal(err.e.tag, 7);
	rig_close(&r);
}

static void kept__in_part(void **state)
{
	(void)state;
	kept_in_part(0);
	kept_in_part(FI_DELIVERY_COMPLETE);
}

/* Has @ep sent @sent refusals, and do @held of @peer wait? */
static void refusals(struct efa_ep *ep, struct efa_peer *peer, uint64_t sent, uint32_t held)
{
	struct efa_pkt *pkt;
	uint32_t cnt = 0;

	STAILQ_FOREACH(pkt, &peer->untold, link)
		cnt++;
	assert_int_equal(cnt, held);
	assert_int_equal(ep->stats.tx_pkts[EFA_PKT_REFUSED], sent);
}

/*
 * SRD keeps no order, so a request for memory that is not there may come before the handshake of its sender, whose
 * operation then never ended: whether it understands a refusal is only known with that.
 */
static void refusal__waits_for_the_handshake(void **state)
{
	static const uint64_t extras[] = {EFA_X_REFUSED, 0};
	struct efa_hdr request = {.type = EFA_PKT_DC_WRITE_RTA, .send_id = 5};
	struct rig r;

	(void)state;
	rig_open(&r);
	for (unsigned i = 0; i < 3; i++) { /* understands it; does not; is removed before it says anything */
		struct efa_ep *ep = inner(&r.s[0]);
		struct efa_hdr hello = {.type = EFA_PKT_HANDSHAKE, .nextra_p3 = 4};
		struct efa_peer *peer;
		fi_addr_t from;

		assert_int_equal(fi_av_insert(r.av, r.sender.addr, 1, &from, 0, NULL), 1);
		lock_acquire(&ep->domain->kit.lock);
		ep->stats.tx_pkts[EFA_PKT_REFUSED] = 0;
		peer = efa_peer_get(ep, from);
		assert_non_null(peer);
		efa_refuse_send(peer, &request);
		efa_refuse_send(peer, &request);
		refusals(ep, peer, 0, 2);
		if (i < ARRAY_SIZE(extras)) {
			hello.extra_info[0] = extras[i];
			efa_handshake_received(peer, &hello);
			refusals(ep, peer, extras[i] ? 2 : 0, 0);
			efa_refuse_send(peer, &request);
			refusals(ep, peer, extras[i] ? 3 : 0, 0);
		}
		lock_release(&ep->domain->kit.lock);
		assert_int_equal(fi_av_remove(r.av, &from, 1, 0), 0);
	}
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stranger__of_a_shared_vector),
		cmocka_unit_test(stranger__want_of_memory),
		cmocka_unit_test(stranger__waits_where_there_is_no_room),
		cmocka_unit_test(past__of_many),
		cmocka_unit_test(ids__begin_again),
		cmocka_unit_test(shared__from_2_2_on),
		cmocka_unit_test(kept__in_part),
		cmocka_unit_test(refusal__waits_for_the_handshake),
	};

	g_prov = fi_prov_ini();
	return g_prov ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
