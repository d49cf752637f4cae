// SPDX-License-Identifier: BSD-2-Clause
// Same-host frames: contents, order, completions, refusals, and every way around a lane of one's
// own.
#include <sys/wait.h>

#include "shm_fake.h"
#include "unit.h"

#define DEADLINE_NS (20 * NS_PER_SEC * unit_slow())

static uint64_t g_seed;

static struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static struct fake *open_port(uint16_t port, uint64_t budget)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct link_addr a = addr_of(port);

	assert_non_null(f);
	f->room.shm_budget = budget;
	assert_int_equal(fake_open(f, &a), 0);
	return f;
}

static void close_port(struct fake *f)
{
	fake_close(f);
	free(f);
}

/* --- a sender that numbers its messages, and a receiver that checks them
 * ------------------------------------------ */

#define FLOWS 16

struct msg_hdr {
	uint32_t flow, seq, len, refuse; /* refuse: code that the receiver shall give */
};

struct flow_rx {
	uint32_t next[FLOWS];
	uint64_t bytes;
};

struct flow_tx {
	struct fake *f;
	struct link_addr to;
	uint32_t flow, seq, done, total;
	size_t len_min, len_max;
	struct rng rng;
	uint8_t want[4096]; /* status expected of message seq % 4096 */
};

static uint8_t byte_at(uint32_t flow, uint32_t seq, uint32_t i)
{
	return (uint8_t)(flow * 31 + seq * 7 + i);
}

static int check_frame(struct fake *f, struct link_peer *peer, enum link_kind kind,
		       const struct view *v)
{
	struct flow_rx *r = f->ctx;
	static uint8_t buf[LINK_FRAME_MAX];
	struct msg_hdr h;

	assert_int_equal(kind, LINK_K_NIC);
	assert_true(v->len >= sizeof(h));
	assert_int_equal(view_copy(v, 0, buf, sizeof(buf)), v->len);
	memcpy(&h, buf, sizeof(h));
	assert_true(h.flow < FLOWS);
	assert_int_equal(peer->addr.port, 100 + h.flow);
	assert_int_equal(h.seq, r->next[h.flow]);
	assert_int_equal(h.len, v->len);
	for (uint32_t i = sizeof(h); i < h.len; i++)
		if (buf[i] != byte_at(h.flow, h.seq, i))
			fail_msg("flow %u message %u byte %u", h.flow, h.seq, i);
	r->next[h.flow]++;
	r->bytes += h.len;
	return (int)h.refuse;
}

static void check_sent(struct fake *f, enum link_kind kind, void *cookie, int status)
{
	struct flow_tx *t = f->ctx;

	assert_int_equal(kind, LINK_K_NIC);
	assert_int_equal((uintptr_t)cookie, t->done + 1); /* in order, each once */
	assert_int_equal(status, t->want[t->done % 4096]);
	t->done++;
}

/* Return: whether something was sent. */
static bool flow_step(struct flow_tx *t, double refuse)
{
	static uint8_t buf[LINK_FRAME_MAX];
	struct rng before = t->rng;
	struct msg_hdr h = {.flow = t->flow, .seq = t->seq};
	int rc;

	if (t->seq == t->total)
		return false;
	h.len = (uint32_t)(t->len_min + rng_below(&t->rng, t->len_max - t->len_min + 1));
	h.refuse = rng_chance(&t->rng, refuse) ? 1 + (uint32_t)rng_below(&t->rng, LINK_NAK_MAX) : 0;
	memcpy(buf, &h, sizeof(h));
	for (uint32_t i = sizeof(h); i < h.len; i++)
		buf[i] = byte_at(h.flow, h.seq, i);
	rc = fake_send(t->f, &t->to, buf, h.len, (void *)(uintptr_t)(t->seq + 1));
	if (rc) {
		assert_int_equal(rc, -EAGAIN);
		t->rng = before;
		return false;
	}
	t->want[t->seq++ % 4096] = (uint8_t)h.refuse;
	return true;
}

static void flow_init(struct flow_tx *t, struct fake *f, uint16_t to, uint32_t total,
		      size_t len_min, size_t len_max)
{
	*t = (struct flow_tx){
		.f = f, .to = addr_of(to), .total = total, .len_min = len_min, .len_max = len_max};
	t->flow = f->port.self.port - 100;
	rng_seed(&t->rng, g_seed + t->flow);
	f->ctx = t;
	f->on_sent = check_sent;
}

/* Random interleaving of @cnt senders and one receiver until all is done. */
static void run_flows(struct flow_tx *tx, uint32_t cnt, struct fake *rx, double refuse)
{
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;
	struct rng rng;
	uint32_t busy;

	rng_seed(&rng, g_seed ^ 0xabc);
	do {
		busy = 0;
		for (uint32_t i = 0; i < cnt; i++) {
			for (uint64_t k = rng_below(&rng, 40); k && flow_step(&tx[i], refuse); k--)
				;
			if (rng_chance(&rng, 0.5))
				fake_poll(tx[i].f);
			busy += tx[i].done < tx[i].total;
		}
		if (rng_chance(&rng, 0.7))
			fake_poll(rx);
		assert_true(clk_now_ns(NULL) < end);
	} while (busy);
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(shm_outstanding(tx[i].f->s), 0);
}

static void run_one(uint32_t total, size_t len_min, size_t len_max, double refuse, uint64_t budget)
{
	struct fake *a = open_port(100, budget), *b = open_port(200, budget);
	struct flow_tx *t = calloc(1, sizeof(*t));
	struct flow_rx r = {0};

	b->ctx = &r;
	b->on_frame = check_frame;
	flow_init(t, a, 200, total, len_min, len_max);
	run_flows(t, 1, b, refuse);
	assert_int_equal(r.next[0], total);
	assert_int_equal(b->port.stats.drop_malformed, 0);
	close_port(a);
	close_port(b);
	free(t);
}

static void shm_send__inline(void **state)
{
	run_one(20000, sizeof(struct msg_hdr), SHM_INLINE_MAX, 0, 0);
	(void)state;
}

static void shm_send__staged(void **state)
{
	run_one(10000, SHM_INLINE_MAX - 8, LINK_FRAME_MAX, 0, 0);
	(void)state;
}

static void shm_send__refusals(void **state)
{
	run_one(20000, sizeof(struct msg_hdr), 3000, 0.3, 0);
	(void)state;
}

/* Every frame refused: nothing may get stuck however full the lanes are. */
static void shm_send__all_refused(void **state)
{
	run_one(5000, sizeof(struct msg_hdr), 3000, 1, 0);
	(void)state;
}

/* A budget that has no room for lanes or a big arena (the budget is that of all tests, so set it
 * when the ports are open). */
static void shm_send__shared_lane(void **state)
{
	struct fake *b = open_port(200, 0), *a[4];
	struct flow_tx *t = calloc(4, sizeof(*t));
	struct flow_rx r = {0};

	b->ctx = &r;
	b->on_frame = check_frame;
	for (uint16_t i = 0; i < 4; i++) {
		a[i] = open_port(100 + i, 0);
		flow_init(&t[i], a[i], 200, 1500, sizeof(struct msg_hdr), LINK_FRAME_MAX);
		a[i]->room.shm_budget = 1; /* from now on nothing more */
	}
	run_flows(t, 4, b, 0.2);
	for (uint16_t i = 0; i < 4; i++) {
		assert_int_equal(r.next[i], 1500);
		assert_int_equal(a[i]->peers[0].shm->tx_mode, SHM_TX_SHARED);
		close_port(a[i]);
	}
	close_port(b);
	free(t);
	(void)state;
}

/* From the shared lane to an own one in mid-traffic: run_flows() checks the order. */
static void shm_send__shared_to_own(void **state)
{
	struct fake *a = open_port(100, 0), *b = open_port(200, 0);
	struct flow_tx *t = calloc(1, sizeof(*t));
	struct flow_rx r = {0};

	b->ctx = &r;
	b->on_frame = check_frame;
	flow_init(t, a, 200, 5000, sizeof(struct msg_hdr), 180);
	a->room.shm_budget = 1;
	for (int i = 0; i < 50; i++)
		assert_true(flow_step(t, 0.1));
	assert_int_equal(a->peers[0].shm->tx_mode, SHM_TX_SHARED);
	a->room.shm_budget =
		0; /* there is room again, and the next try is due, with frames on their way */
	a->peers[0].shm->lane_retry_ns = 0;
	run_flows(t, 1, b, 0.1);
	assert_int_equal(a->peers[0].shm->tx_mode, SHM_TX_OWN);
	assert_int_equal(r.next[0], 5000);
	close_port(a);
	close_port(b);
	free(t);
	(void)state;
}

/* More lanes than every poll looks at: marks and sweeps find all. */
static void shm_poll__many_lanes(void **state)
{
	struct fake *b = open_port(200, 0), *a[FLOWS];
	struct flow_tx *t = calloc(FLOWS, sizeof(*t));
	struct flow_rx r = {0};

	b->ctx = &r;
	b->on_frame = check_frame;
	for (uint16_t i = 0; i < FLOWS; i++) {
		a[i] = open_port(100 + i, 0);
		flow_init(&t[i], a[i], 200, 2000, sizeof(struct msg_hdr), 2000);
	}
	run_flows(t, FLOWS, b, 0.05);
	assert_true(atomic_load(&b->s->seg->hdr->state) & SHM_ST_BITMAP);
	for (uint16_t i = 0; i < FLOWS; i++) {
		assert_int_equal(r.next[i], 2000);
		close_port(a[i]);
	}
	close_port(b);
	free(t);
	(void)state;
}

struct echo {
	uint64_t got;
	struct link_addr to;
};

static int on_echo(struct fake *f, struct link_peer *peer, enum link_kind kind,
		   const struct view *v)
{
	struct echo *e = f->ctx;

	e->got++;
	e->to = peer->addr;
	(void)kind;
	(void)v;
	return 0;
}

/* A reply carries the acknowledgement: no look at the head is needed, ever. */
static void shm_complete__piggyback(void **state)
{
	struct fake *a = open_port(100, 0), *b = open_port(200, 0);
	struct link_addr to_a = addr_of(100), to_b = addr_of(200);
	struct echo ea = {0}, eb = {0};
	uint64_t x = 1, allocs = 0;

	a->ctx = &ea;
	b->ctx = &eb;
	a->on_frame = b->on_frame = on_echo;
	for (uint64_t i = 1; i <= 2000; i++) {
		assert_int_equal(fake_send(a, &to_b, &x, 8, &x), 0);
		assert_int_equal(shm_poll(b->s, 64), 1);
		assert_int_equal(eb.got, i);
		assert_int_equal(fake_send(b, &to_a, &x, 8, NULL), 0);
		assert_int_equal(a->sent_cnt, i - 1);
		assert_int_equal(shm_poll(a->s, 64), 2);
		assert_int_equal(a->sent_cnt, i);
		assert_int_equal(ea.got, i);
		if (i == 2)
			allocs = mem_alloc_count();
	}
	assert_int_equal(mem_alloc_count(), allocs); /* none per message */
	assert_int_equal(a->sent_bad, 0);
	close_port(a);
	close_port(b);
	(void)state;
}

static void shm_send__to_itself(void **state)
{
	struct fake *a = open_port(100, 0);
	struct flow_tx *t = calloc(1, sizeof(*t));
	struct link_addr self = addr_of(100);
	uint8_t big[LINK_FRAME_MAX] = {7};
	uint64_t end = clk_now_ns(NULL) + DEADLINE_NS;

	for (int i = 0; i < 1000; i++) {
		while (fake_send(a, &self, big, i % 2 ? 8 : sizeof(big), big))
			fake_poll(a);
		fake_poll(a);
	}
	while (a->sent_cnt < 1000 && clk_now_ns(NULL) < end)
		fake_poll(a);
	assert_int_equal(a->sent_cnt, 1000);
	assert_int_equal(a->rx_cnt, 1000);
	assert_int_equal(a->sent_bad, 0);
	close_port(a);
	free(t);
	(void)state;
}

/* Two ports of one peer, named once with and once without nonce, are two peers to us: both work,
 * neither steals. */
static void shm_peer__second_name(void **state)
{
	struct fake *a = open_port(100, 0), *b = open_port(200, 0);
	struct link_addr named = addr_of(200), any = named, to_a = addr_of(100);
	uint64_t x = 5, end = clk_now_ns(NULL) + DEADLINE_NS;

	any.nonce = 0;
	for (int i = 0; i < 500; i++) {
		assert_int_equal(fake_send(a, &named, &x, 8, &x), 0);
		assert_int_equal(fake_send(a, &any, &x, 8, &x), 0);
		fake_poll(b);
		assert_int_equal(fake_send(b, &to_a, &x, 8, &x), 0);
		fake_poll(a);
	}
	while ((a->sent_cnt < 1000 || b->sent_cnt < 500) && clk_now_ns(NULL) < end) {
		fake_poll(a);
		fake_poll(b);
	}
	assert_int_equal(a->sent_cnt, 1000);
	assert_int_equal(b->sent_cnt, 500);
	assert_int_equal(b->rx_cnt, 1000);
	assert_int_equal(a->rx_cnt, 500);
	assert_int_equal(a->sent_bad + b->sent_bad, 0);
	close_port(a);
	close_port(b);
	(void)state;
}

/* No room for a new peer: its frames wait in the lane and are not acknowledged. */
static void shm_poll__waits_for_room(void **state)
{
	struct fake *a = open_port(100, 0), *b = open_port(200, 0);
	struct link_addr to = addr_of(200);
	uint64_t x = 1, end = clk_now_ns(NULL) + DEADLINE_NS;

	b->is_full = true;
	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(fake_poll(b), 0);
		fake_poll(a);
	}
	assert_int_equal(a->sent_cnt, 0);
	b->is_full = false;
	while (!a->sent_cnt && clk_now_ns(NULL) < end) {
		fake_poll(b);
		fake_poll(a);
	}
	assert_int_equal(b->rx_cnt, 1);
	assert_int_equal(a->sent_cnt, 1);
	close_port(a);
	close_port(b);
	(void)state;
}

struct dgrams {
	uint32_t cnt;
	size_t len;
};

static void on_dgram(struct fake *f, const struct link_addr *src, const void *buf, size_t len)
{
	struct dgrams *d = f->ctx;
	struct link_addr want = addr_of(100);

	assert_memory_equal(src, &want, sizeof(want));
	assert_int_equal(((const uint8_t *)buf)[len - 1], 9);
	d->cnt++;
	d->len = len;
}

static void shm_send_dgram__arrives(void **state)
{
	struct fake *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct link_addr at_a = addr_of(100), at_b = addr_of(200);
	const size_t lens[] = {1, 63, 1000, 1025, 9000, LINK_FRAME_MAX};
	static uint8_t buf[LINK_FRAME_MAX];
	struct dgrams d = {0};
	struct shm_peer *sp;

	a->room.has_faults = b->room.has_faults = true;
	b->on_dgram = on_dgram;
	b->ctx = &d;
	assert_int_equal(fake_open(a, &at_a), 0);
	assert_int_equal(fake_open(b, &at_b), 0);
	assert_int_equal(shm_peer_attach(a->s, fake_peer(a, &at_b), &sp), 0);
	for (uint32_t i = 0; i < 600; i++) {
		struct iovec iov = {buf, lens[i % ARRAY_SIZE(lens)]};

		memset(buf, 0, sizeof(buf));
		buf[iov.iov_len - 1] = 9;
		assert_int_equal(shm_send_dgram(sp, &iov, 1), 0);
		assert_int_equal(shm_poll(b->s, 64), 1);
		assert_int_equal(d.cnt, i + 1);
		assert_int_equal(d.len, iov.iov_len);
		for (int k = 0; k < 200; k++)
			shm_poll(a->s, 64);
	}
	assert_int_equal(sp->staged_grans, 0);
	assert_int_equal(b->peer_cnt, 0); /* nobody was made a peer by a datagram */
	shm_peer_detach(sp);
	close_port(a);
	close_port(b);
	(void)state;
}

/* Somebody wants a lane: an idle, fully acknowledged one is given back, and the memory is free. */
static void shm_timer__idle_lane_given_back(void **state)
{
	struct fake *a = open_port(100, 0), *b = open_port(200, 0);
	struct link_addr to = addr_of(200);
	uint32_t color;
	uint64_t x = 1;

	a->node.clk.virt_ns = b->node.clk.virt_ns = &a->virt_ns;
	a->virt_ns = NS_PER_SEC;
	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	for (int i = 0; i < 100; i++, a->virt_ns += NS_PER_MS) {
		fake_poll(b);
		fake_poll(a);
	}
	assert_int_equal(a->sent_cnt, 1);
	for (int i = 0; i < 50; i++, a->virt_ns += 60 * NS_PER_MS) {
		fake_poll(b);
		fake_poll(a);
	}
	assert_int_equal(b->s->rx_cnt, 1); /* nobody wants it */
	atomic_store(&b->s->seg->hdr->lanes_wanted, 1);
	for (int i = 0; i < 50; i++, a->virt_ns += 60 * NS_PER_MS) {
		fake_poll(b);
		fake_poll(a);
	}
	assert_int_equal(b->s->rx_cnt, 0);
	assert_int_equal(atomic_load(&shm_desc_at(b->s->seg, 0)->state), SHM_D_FREE);
	assert_int_equal(a->peers[0].shm->tx_mode, SHM_TX_NONE);
	/* and it comes back, in another color, though it is the old one's turn */
	color = a->peers[0].shm->color;
	a->s->color_next = color - 1;
	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	assert_int_not_equal(a->peers[0].shm->color, color);
	for (int i = 0; i < 200; i++) {
		fake_poll(b);
		fake_poll(a);
	}
	assert_int_equal(a->sent_cnt, 2);
	assert_int_equal(b->rx_cnt, 2);
	close_port(a);
	close_port(b);
	(void)state;
}

/* --- hostile peers --- */

static void set_up_pair(struct fake **a, struct fake **b)
{
	struct link_addr to = addr_of(200);
	uint64_t x = 1;

	*a = open_port(100, 0);
	*b = open_port(200, 0);
	assert_int_equal(fake_send(*a, &to, &x, 8, &x), 0);
	for (int i = 0; i < 200; i++) {
		fake_poll(*b);
		fake_poll(*a);
	}
	assert_int_equal((*a)->sent_cnt, 1);
}

static void hostile__lane_header(void **state)
{
	struct fake *a, *b;
	struct shm_peer *sp;

	set_up_pair(&a, &b);
	sp = a->peers[0].shm;
	/* a record that runs out of the ring */
	atomic_store(lane_word0(sp->tx.slots, sp->tx.pos & sp->tx.mask),
		     (uint64_t)lane_lap_tag(sp->tx.pos, sp->tx.lap_shift) << LANE_LAP_SHIFT |
			     FIELD_PREP(LANE_W_NSLOTS, 127));
	for (int i = 0; i < 10; i++)
		fake_poll(b);
	assert_int_equal(b->port.stats.drop_malformed, 1);
	assert_int_equal(b->dead_cnt, 1);
	assert_int_equal(b->peers[0].dead, -EPROTO);
	assert_int_equal(b->s->rx_cnt, 0);
	close_port(a);
	close_port(b);
	(void)state;
}

static void hostile__user_words(void **state)
{
	struct fake *a, *b;
	struct shm_peer *sp;
	struct rng rng;
	uint64_t sent;

	set_up_pair(&a, &b);
	sp = a->peers[0].shm;
	rng_seed(&rng, g_seed);
	for (sent = 0; sent < 100000; sent++) {
		uint32_t len = 8 + (uint32_t)rng_below(&rng, 200);
		uint64_t *p = lane_reserve(&sp->tx, len);

		if (p) { /* any format, length, acknowledgement, granule and length of a run */
			p[0] = rng_chance(&rng, 0.5)
				       ? rng_u64(&rng)
				       : rng_below(&rng, 4096) | rng_below(&rng, 20000) << 32;
			lane_commit(&sp->tx, rng_u64(&rng));
		}
		fake_poll(b);
	}
	assert_true(b->port.stats.drop_malformed > 1000);
	assert_true(b->rx_cnt > 100);
	assert_int_equal(b->sent_cnt, 0);
	assert_int_equal(b->dead_cnt, 0);
	close_port(a);
	close_port(b);
	(void)state;
}

static void hostile__acknowledgement(void **state)
{
	struct fake *a, *b;
	struct shm_peer *sp;
	struct link_addr to = addr_of(200);
	uint64_t x = 1;

	set_up_pair(&a, &b);
	sp = a->peers[0].shm;
	assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
	atomic_store(sp->tx.head, sp->tx.pos + 77); /* ahead of what we sent */
	for (int i = 0; i < 500; i++)
		shm_poll(a->s, 64);
	assert_int_equal(a->sent_cnt, 1);
	atomic_store(sp->tx.head, sp->tx.pos - 1000); /* behind what was acknowledged */
	for (int i = 0; i < 500; i++)
		shm_poll(a->s, 64);
	assert_int_equal(a->sent_cnt, 1);
	atomic_store(sp->tx.head, sp->tx.pos);
	for (int i = 0; i < 500; i++)
		shm_poll(a->s, 64);
	assert_int_equal(a->sent_cnt, 2);
	close_port(a);
	close_port(b);
	(void)state;
}

static void hostile__descriptors(void **state)
{
	struct fake *b = open_port(200, 0);
	struct rng rng;

	rng_seed(&rng, g_seed);
	atomic_store(&b->s->seg->hdr->lane_hwm, UINT32_MAX);
	atomic_fetch_add(&b->s->seg->hdr->lane_gen, 1);
	fake_poll(b);
	assert_int_equal(b->s->desc_ready, SHM_LANE_CNT);
	for (int i = 0; i < 2000; i++) {
		struct shm_desc *d =
			shm_desc_at(b->s->seg, (uint32_t)rng_below(&rng, SHM_LANE_CNT));

		d->slot_cnt = rng_chance(&rng, 0.5) ? 256 : (uint32_t)rng_u64(&rng);
		d->color = (uint32_t)rng_below(&rng, 10);
		d->src = rng_chance(&rng, 0.2) ? addr_of(200)
					       : fake_addr(1, (uint16_t)rng_u64(&rng), 5);
		atomic_store(&d->state, (uint32_t)rng_below(&rng, 7));
		atomic_fetch_add(&b->s->seg->hdr->lane_gen, 1);
		fake_poll(b);
	}
	assert_true(b->port.stats.drop_malformed + b->port.stats.drop_source > 100);
	close_port(b);
	(void)state;
}

static void hostile__shared_lane(void **state)
{
	struct fake *a = open_port(100, 0), *b = open_port(200, 0);
	struct link_addr to = addr_of(200);
	uint64_t x = 1, end = clk_now_ns(NULL) + DEADLINE_NS;
	int rc;

	a->room.shm_budget = 1;
	atomic_store(&b->s->seg->hdr->shared[0].pos, 12345678); /* far from the head */
	rc = fake_send(a, &to, &x, 8, &x);
	assert_int_equal(rc, -EAGAIN);
	while (!a->dead_cnt && clk_now_ns(NULL) < end)
		fake_poll(a);
	assert_int_equal(a->peers[0].dead, -EPROTO);
	/* garbage in it: the owner says so, and those who use it learn it, also if who finds it is about to sleep */
	fake_poll(b);
	atomic_store(lane_word0(b->s->shared[0].slots, 0),
		     (uint64_t)b->s->shared[0].lap << LANE_LAP_SHIFT);
	assert_int_equal(shm_arm(b->s), -EAGAIN);
	fake_poll(b);
	assert_true(b->s->is_shared_broken);
	assert_true(atomic_load(&b->s->seg->hdr->state) & SHM_ST_BROKEN);
	close_port(a);
	close_port(b);
	(void)state;
}

/* A holder of the lock who died at any moment costs nothing that was published and nothing after
 * it. */
static void shm_shared__dead_holder(void **state)
{
	for (int when = 0; when < 4; when++) {
		struct fake *a = open_port(100, 0), *b = open_port(200, 0);
		struct link_addr to = addr_of(200);
		uint64_t x = 1, end = clk_now_ns(NULL) + DEADLINE_NS;
		int status;
		pid_t pid;

		a->room.shm_budget = 1;
		assert_int_equal(fake_send(a, &to, &x, 8, &x), 0);
		pid = unit_fork();
		if (!pid) {
			struct fake *c = calloc(1, sizeof(*c));
			struct link_addr at = addr_of(300);
			struct shm_peer *sp;
			uint8_t *slot;

			if (fake_open(c, &at) || shm_peer_attach(c->s, fake_peer(c, &to), &sp) ||
			    shm_shared_lock(sp))
				_exit(1);
			slot = when ? lane_reserve(&sp->tx, 400) : NULL;
			if (slot) {
				shm_shared_note(sp);
				memset(slot, 0x80, 400); /* looks like headers of lap 0 */
				memcpy(slot, &(struct shm_from){.src = at, .life = c->s->seg->wake},
				       sizeof(struct shm_from));
			}
			if (when >= 2)
				lane_commit(&sp->tx, FIELD_PREP(SHM_U_FMT, SHM_FMT_NIC) |
							     FIELD_PREP(SHM_U_LEN, 8));
			if (when == 3)
				atomic_store(&sp->seg->hdr->shared[0].pos, sp->tx.pos);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		while (fake_send(a, &to, &x, 8, &x) == -EAGAIN) {
			fake_poll(a);
			fake_poll(b);
			assert_true(clk_now_ns(NULL) < end);
		}
		for (int i = 0; i < 300; i++) {
			while (fake_send(a, &to, &x, 8, &x))
				fake_poll(a);
			fake_poll(b);
			fake_poll(a);
		}
		while (a->sent_cnt < 302 && clk_now_ns(NULL) < end) {
			fake_poll(b);
			fake_poll(a);
		}
		assert_int_equal(a->sent_cnt, 302);
		assert_int_equal(b->rx_cnt,
				 302); /* the dead one's message: nobody is there to have sent it */
		assert_int_equal(b->port.stats.drop_source, when >= 2);
		close_port(a);
		close_port(b);
	}
	close_port(open_port(100, 0)); /* takes the last dead one's file with it */
	(void)state;
}

static int no_files_left(void **state)
{
	char cmd[128];

	(void)state;
	snprintf(cmd, sizeof(cmd), "ls /dev/shm | grep -q 'softfabric-.*-fd000000%02x%02x%02x%02x'",
		 getpid() & 0xff, getpid() >> 8 & 0xff, getpid() >> 16 & 0xff,
		 getpid() >> 24 & 0xff);
	return system(cmd) == 0 || mem_live_count() != 0;
}

static void space__budget_counts_all_ports(void **state)
{
	struct fake *f = open_port(1, 0);
	struct shm_space before, after;
	bool is_counted = false;

	(void)state;
	for (int i = 0; i < 50 && !is_counted; i++) { /* ports of other processes come and go */
		before = shm_space_get(1 << 20);
		struct fake *g = open_port(2, 0);

		after = shm_space_get(1 << 20);
		is_counted = after.used >= before.used + SHM_STAGE_GRANS_MIN * STAGE_GRAN;
		close_port(g);
	}
	assert_true(is_counted);
	assert_int_equal(before.total, 1 << 20);
	after = (struct shm_space){.total = 1000, .used = 2000};
	assert_int_equal(shm_space_lane_slots(&after), 0);
	assert_int_equal(shm_space_stage_grans(&after), SHM_STAGE_GRANS_MIN);
	after = (struct shm_space){.total = 1ull << 32};
	assert_int_equal(shm_space_lane_slots(&after), SHM_SLOTS_BIG);
	assert_int_equal(shm_space_stage_grans(&after), SHM_STAGE_GRANS_MAX);
	close_port(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(shm_send__inline, no_files_left),
		cmocka_unit_test_teardown(shm_send__staged, no_files_left),
		cmocka_unit_test_teardown(shm_send__refusals, no_files_left),
		cmocka_unit_test_teardown(shm_send__all_refused, no_files_left),
		cmocka_unit_test_teardown(shm_send__shared_lane, no_files_left),
		cmocka_unit_test_teardown(shm_send__shared_to_own, no_files_left),
		cmocka_unit_test_teardown(shm_poll__many_lanes, no_files_left),
		cmocka_unit_test_teardown(shm_complete__piggyback, no_files_left),
		cmocka_unit_test_teardown(shm_send__to_itself, no_files_left),
		cmocka_unit_test_teardown(shm_peer__second_name, no_files_left),
		cmocka_unit_test_teardown(shm_poll__waits_for_room, no_files_left),
		cmocka_unit_test_teardown(shm_send_dgram__arrives, no_files_left),
		cmocka_unit_test_teardown(shm_timer__idle_lane_given_back, no_files_left),
		cmocka_unit_test_teardown(hostile__lane_header, no_files_left),
		cmocka_unit_test_teardown(hostile__user_words, no_files_left),
		cmocka_unit_test_teardown(hostile__acknowledgement, no_files_left),
		cmocka_unit_test_teardown(hostile__descriptors, no_files_left),
		cmocka_unit_test_teardown(hostile__shared_lane, no_files_left),
		cmocka_unit_test_teardown(shm_shared__dead_holder, no_files_left),
		cmocka_unit_test(space__budget_counts_all_ports),
	};
	const char *seed = getenv("SEED");

	g_seed = seed ? strtoull(seed, NULL, 0) : 20261;
	print_message("SEED=%llu\n", (unsigned long long)g_seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
