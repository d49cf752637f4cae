// SPDX-License-Identifier: BSD-2-Clause
// Soft HFI1 end to end: packets, order, loss, what waits, copies, and processes that go, on all paths.
#include "hfi_pair.h"

#include <poll.h>
#include <time.h>

/* --- packets --- */

static void body_one(void)
{
	static const size_t size[] = {0, 1, 3, 4, 60, 64, 500, 2048, HFI_MTU};
	static uint8_t buf[HFI_MTU];
	struct side *a = &g_w.a, *b = &g_w.b;

	for (unsigned i = 0; i < ARRAY_SIZE(size); i++) {
		uint32_t before = b->got_cnt;
		const struct got *g;

		fill(buf, size[i], i);
		do { /* until it is not lost */
			assert_int_equal(send_pkt(a, i, buf, size[i]), 0);
			settle();
		} while (b->got_cnt == before && g_w.path == PATH_LOSSY);
		assert_true(g_w.path == PATH_LOSSY || b->got_cnt == before + 1);
		g = &b->got[before % GOT_MAX];
		assert_int_equal(g->len, size[i]);
		assert_int_equal(g->type, HFI_RCV_EAGER);
		assert_memory_equal(g->data, buf, size[i]);
		assert_int_equal(hfi_hdr_psn(&g->hdr), i);
		assert_int_equal(hfi_hdr_tx(&g->hdr), hfi_ctxt_info(a->c)->send_ctxt);
		assert_ptr_equal(g->src, b->dst); /* found without a look-up */
		assert_false(g->is_service);
	}
	assert_int_equal(hfi_dst_is_local(a->dst), g_w.path == PATH_SHM);
	assert_true(hfi_dst_is_host(a->dst));
}

static void send__any_size(void **state)
{
	on_all_paths(body_one);
}

#define BURST 2000

/* Each PSN at most once and in order where nothing is lost. */
static void body_burst(void)
{
	struct side *a = &g_w.a, *b = &g_w.b;
	uint8_t data[100];

	for (uint32_t i = 0; i < BURST; i++) {
		fill(data, sizeof(data), i);
		assert_int_equal(send_pkt(a, i, data, i % 3 ? sizeof(data) : 0), 0);
		if (i % 16 == 0)
			turn();
	}
	settle();
	if (g_w.path == PATH_LOSSY) {
		assert_in_range(b->got_cnt, BURST / 2, BURST * 2);
		return;
	}
	assert_int_equal(b->got_cnt, BURST);
	for (uint32_t i = 0; i < BURST && g_w.path == PATH_SHM; i++)
		assert_int_equal(hfi_hdr_psn(&b->got[i].hdr), i);
}

static void send__burst(void **state)
{
	on_all_paths(body_burst);
}

/*
 * Packets of all lengths, written where @to reads them, until there is no room, which is no room for those from
 * elsewhere either. Return: packets.
 */
static uint32_t fill_in_place(struct side *s)
{
	static uint8_t elsewhere[HFI_MTU];
	struct hfi_hdr *h, like = hdr_to(s, 0);
	uint32_t n = 0, len = HFI_MTU;
	struct iovec iov;

	while ((h = hfi_pio_begin(s->c, s->dst, sizeof(*h), len))) {
		*h = hdr_to(s, n);
		fill((uint8_t *)(h + 1), len, n);
		hfi_pio_commit(s->c, s->dst, h, sizeof(*h), len);
		len = ++n % 2 ? (uint32_t)rng_below(&g_w.rng, HFI_MTU + 1) : HFI_MTU;
	}
	assert_true(hfi_pio_full(s->c, s->dst));
	assert_int_equal(stats_of(s).credit_waits, 1);
	iov = (struct iovec){elsewhere, len};
	assert_int_equal(hfi_pio_send(s->c, s->dst, &like, &iov, len != 0), -EAGAIN);
	assert_int_equal(stats_of(s).pio_pkts, n);
	return n;
}

static void send__in_place_of_any_length(void **state)
{
	static uint8_t want[HFI_MTU];
	struct side *a = &g_w.a, *b = &g_w.b;
	uint32_t n;

	pair_open(PATH_SHM);
	assert_null(hfi_pio_begin(a->c, a->dst, sizeof(struct hfi_hdr), HFI_MTU)); /* no lane yet */
	assert_false(hfi_pio_full(a->c, a->dst));
	assert_int_equal(send_pkt(a, 0, NULL, 0), 0);
	UNTIL(b->got_cnt == 1);
	b->got_cnt = 0;
	memset(&a->c->stats, 0, sizeof(a->c->stats));
	n = fill_in_place(a);
	assert_true(n > 50);
	UNTIL(b->got_cnt == n);
	for (uint32_t i = 0; i < n; i++) {
		fill(want, b->got[i].len, i);
		assert_int_equal(hfi_hdr_psn(&b->got[i].hdr), i);
		assert_memory_equal(b->got[i].data, want, b->got[i].len);
	}
	UNTIL(hfi_pio_begin(a->c, a->dst, sizeof(struct hfi_hdr), HFI_MTU)); /* and is never given off */
	pair_close();
}

/* Long ones that nobody has read, or will: they end with who should have, and their memory is there for the next. */
static void gone__with_long_ones_unread(void **state)
{
	struct side *a = &g_w.a, *b = &g_w.b;

	pair_threads(false);
	pair_open(PATH_SHM);
	for (int round = 0; round < 3; round++) {
		uint32_t gone = a->gone_cnt, was = b->got_cnt;

		assert_int_equal(send_pkt(a, 0, NULL, 0), 0);
		UNTIL(b->got_cnt > was);
		memset(&a->c->stats, 0, sizeof(a->c->stats));
		assert_true(fill_in_place(a) > 50);
		side_ctxt_close(b);
		UNTIL(a->gone_cnt > gone);
		assert_int_equal(side_ctxt_open(b, -1), 0);
		side_meet(b, a);
		hfi_dst_put(a->dst);
		side_meet(a, b);
	}
	pair_close();
}

/* Small packets of a burst share datagrams. */
static void send__few_datagrams(void **state)
{
	struct side *a = &g_w.a;

	pair_open(PATH_UDP);
	assert_int_equal(send_pkt(a, 0, NULL, 0), 0);
	UNTIL(g_w.b.got_cnt == 1);
	for (uint32_t i = 1; i <= 64; i++) {
		struct hfi_hdr h = hdr_to(a, i);

		assert_int_equal(hfi_pio_send(a->c, a->dst, &h, NULL, 0), 0);
	}
	hfi_doorbell(a->c);
	UNTIL(g_w.b.got_cnt == 65);
	assert_in_range(stats_of(a).net.net_tx_dgrams, 2, 8);
	for (uint32_t i = 0; i <= 64; i++)
		assert_int_equal(hfi_hdr_psn(&g_w.b.got[i].hdr), i);
	pair_close();
}

/* An application that sleeps is woken by a packet. */
static void wait__woken_by_a_packet(void **state)
{
	struct side *b = &g_w.b;
	struct pollfd fd = {.events = POLLIN};

	pair_open(PATH_SHM);
	settle();
	fd.fd = hfi_ctxt_wait_fd(b->c);
	assert_true(fd.fd >= 0);
	UNTIL(hfi_ctxt_arm(b->c) == 0);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(send_pkt(&g_w.a, 1, NULL, 0), 0);
	assert_int_equal(poll(&fd, 1, 10000), 1);
	UNTIL(b->got_cnt == 1);
	pair_close();
}

/* The application of @s computes. */
static void compute(struct side *s)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	lock_release(&s->lock);
	nanosleep(&nap, NULL);
	lock_acquire(&s->lock);
	assert_true(now_ns() < g_until_ns);
}

/*
 * While the application computes the adapter's thread takes what comes: from this host all of it, from others what the
 * queue holds.
 */
static void computing(enum path path, uint32_t cnt)
{
	struct side *a = &g_w.a, *b = &g_w.b;
	struct hfi_stats st;

	pair_threads(true);
	pair_open(path);
	assert_int_equal(send_pkt(a, 0, NULL, 0), 0);
	UNTIL(b->got_cnt == 1);
	b->refuses = true;
	g_until_ns = now_ns() + REAL_NS * unit_slow();
	for (uint32_t i = 1; i <= cnt; i++) {
		struct hfi_hdr h = hdr_to(a, i);

		while (hfi_pio_send(a->c, a->dst, &h, NULL, 0) == -EAGAIN)
			compute(b);
	}
	hfi_doorbell(a->c);
	do {
		compute(b);
		st = stats_of(b);
	} while (st.rcv_parked + st.drop[HFI_DROP_RCVHDRQ_FULL] + b->got_cnt <= cnt);
	UNTIL(b->got_cnt == 1 + cnt - st.drop[HFI_DROP_RCVHDRQ_FULL]);
	for (uint32_t i = 0; i < b->got_cnt; i++)
		assert_int_equal(hfi_hdr_psn(&b->got[i].hdr), i);
	if (path == PATH_SHM)
		assert_int_equal(b->got_cnt, 1 + cnt);
	else
		assert_true(b->got_cnt < 1 + cnt);
	pair_close();
	pair_threads(false);
}

static void computing__nothing_local_is_lost(void **state)
{
	computing(PATH_SHM, 200);
}

static void computing__natural_loss(void **state)
{
	computing(PATH_UDP, 200);
}

static void connect__chooses_path(void **state)
{
	pair_open(PATH_SHM);
	assert_false(hfi_dst_is_local(g_w.a.dst));
	assert_int_equal(hfi_dst_connect(g_w.a.dst), 0);
	assert_true(hfi_dst_is_local(g_w.a.dst));
	settle();
	assert_int_equal(g_w.b.got_cnt, 0);
	pair_close();
	pair_open(PATH_UDP);
	assert_int_equal(hfi_dst_connect(g_w.a.dst), 0);
	assert_false(hfi_dst_is_local(g_w.a.dst));
	pair_close();
}

/* A context of this host tells who may come in, before anything is sent: its own job, in its own partition. */
static void connect__knows_who_admits_us(void **state)
{
	struct hfi_ctxt_attr attr = {.uuid = {1, 2, 3}, .pkey = HFI_PKEY_DEFAULT, .ctx = &g_w.b};
	struct side *a = &g_w.a, *b = &g_w.b;

	for (enum path path = PATH_SHM; path <= PATH_UDP; path++) {
		pair_open(path);
		assert_false(hfi_dst_admits(a->dst)); /* not before it is connected */
		assert_int_equal(hfi_dst_connect(a->dst), 0);
		assert_int_equal(hfi_dst_admits(a->dst), path == PATH_SHM);
		pair_close();
	}
	for (int i = 0; i < 3; i++) { /* the same as before; of another job; in another partition */
		pair_open(PATH_SHM);
		attr.ctxt = hfi_ctxt_info(b->c)->ctxt;
		attr.uuid[0] = i == 1 ? 9 : 1;
		attr.pkey = i == 2 ? 0x8002 : HFI_PKEY_DEFAULT;
		attr.on_pkt = b->c->on_pkt;
		attr.on_service = b->c->attr.on_service;
		side_ctxt_close(b);
		lock_release(&b->lock);
		assert_int_equal(hfi_ctxt_open(b->hfi, &attr, &b->c), 0);
		lock_acquire(&b->lock);
		assert_int_equal(hfi_dst_connect(a->dst), 0);
		assert_true(hfi_dst_is_local(a->dst));
		assert_int_equal(hfi_dst_admits(a->dst), i == 0);
		pair_close();
	}
}

/* A destination outlives its context, and a stranger his packet. */
static void dst__lives_as_long_as_it_is_held(void **state)
{
	struct hfi_dst *dst;

	pair_open(PATH_SHM);
	hfi_dst_put(g_w.b.dst);
	g_w.b.dst = NULL;
	assert_int_equal(slab_used(&g_w.b.hfi->dsts), 0);
	assert_int_equal(send_pkt(&g_w.a, 1, NULL, 0), 0);
	UNTIL(g_w.b.got_cnt == 1);
	assert_int_equal(slab_used(&g_w.b.hfi->dsts), 0);
	dst = g_w.a.dst;
	hfi_dst_hold(dst);
	side_ctxt_close(&g_w.a);
	assert_false(hfi_dst_is_local(dst));
	assert_int_equal(hfi_dst_connect(dst), -ECONNREFUSED);
	hfi_dst_put(dst);
	assert_int_equal(slab_used(&g_w.a.hfi->dsts), 0);
	pair_close();
}

static void put_own(struct side *s, const struct hfi_pkt *pkt)
{
	(void)pkt;
	if (s->dst)
		hfi_dst_put(s->dst);
	s->dst = NULL;
	s->got_cnt++;
}

/* The last reference may go while a packet of it is shown. */
static void dst__goes_inside_of_on_pkt(void **state)
{
	(void)state;
	pair_open(PATH_SHM);
	g_w.b.on_pkt = put_own;
	for (uint32_t i = 1; i <= 2; i++) {
		assert_int_equal(send_pkt(&g_w.a, i, NULL, 0), 0);
		UNTIL(g_w.b.got_cnt == i);
		assert_int_equal(slab_used(&g_w.b.hfi->dsts), 0);
	}
	pair_close();
}

static void send__to_itself(void **state)
{
	struct side *a = &g_w.a;

	pair_open(PATH_SHM);
	hfi_dst_put(a->dst);
	side_meet(a, a);
	assert_int_equal(send_pkt(a, 5, "self", 4), 0);
	UNTIL(a->got_cnt == 1);
	assert_memory_equal(a->got[0].data, "self", 4);
	assert_ptr_equal(a->got[0].src, a->dst);
	pair_close();
}

/* --- who goes --- */

/* What it sent before comes first; whoever opens there next is another one. */
static void body_gone(void)
{
	struct side *a = &g_w.a, *b = &g_w.b;
	int ctxt = hfi_ctxt_info(b->c)->ctxt;

	if (g_w.path == PATH_LOSSY)
		return;
	assert_int_equal(send_pkt(a, 1, NULL, 0), 0);
	assert_int_equal(send_pkt(b, 1, NULL, 0), 0);
	UNTIL(b->got_cnt == 1 && a->got_cnt == 1);
	assert_int_equal(send_pkt(b, 2, "last", 4), 0);
	side_ctxt_close(b);
	UNTIL(a->got_cnt == 2);
	if (g_w.path != PATH_SHM) /* nothing tells but the answer to a packet */
		send_pkt(a, 2, NULL, 0);
	UNTIL(a->gone_cnt == 1);
	assert_int_equal(a->gone_status, -ECONNREFUSED);
	assert_int_equal(side_ctxt_open(b, ctxt), 0);
	side_meet(b, a);
	assert_int_equal(send_pkt(b, 3, NULL, 0), 0);
	UNTIL(a->got_cnt == 3);
	assert_int_equal(send_pkt(a, 3, NULL, 0), 0);
	UNTIL(b->got_cnt == 2);
	assert_int_equal(a->gone_cnt, 1);
}

static void gone__told_once(void **state)
{
	on_all_paths(body_gone);
}

static uint32_t gone_before[2];

static void note_order(struct side *s, const struct hfi_pkt *pkt)
{
	gone_before[hfi_hdr_psn(pkt->hdr) == 2] = s->gone_cnt;
	s->got_cnt++;
}

/* The successor speaks before we have noticed that its predecessor is gone. */
static void gone__before_its_successor(void **state)
{
	struct side *a = &g_w.a, *b = &g_w.b;
	int ctxt;

	pair_open(PATH_SHM);
	a->on_pkt = note_order;
	ctxt = hfi_ctxt_info(b->c)->ctxt;
	assert_int_equal(send_pkt(a, 0, NULL, 0), 0);
	UNTIL(b->got_cnt == 1);
	assert_int_equal(send_pkt(b, 1, NULL, 0), 0);
	side_ctxt_close(b);
	assert_int_equal(side_ctxt_open(b, ctxt), 0);
	side_meet(b, a);
	assert_int_equal(send_pkt(b, 2, NULL, 0), 0);
	UNTIL(a->got_cnt == 2);
	assert_int_equal(gone_before[0], 0);
	assert_int_equal(gone_before[1], 1);
	pair_close();
}

/* --- copies --- */

#define COPY_LEN (3u << 20)

static void copy__get_and_put(void **state)
{
	static uint8_t theirs[COPY_LEN], ours[COPY_LEN];
	struct side *a = &g_w.a, *b = &g_w.b;
	uint32_t key, ro;
	int cookie;

	pair_open(PATH_SHM);
	fill(theirs, COPY_LEN, 1);
	assert_int_equal(hfi_expose(b->c, theirs, COPY_LEN, HFI_COPY_GET | HFI_COPY_PUT, &key), 0);
	assert_int_equal(hfi_expose(b->c, theirs, COPY_LEN, HFI_COPY_GET, &ro), 0);
	assert_int_equal(hfi_copy(a->dst, HFI_COPY_GET, ours, COPY_LEN, (uintptr_t)theirs, key, &cookie), 0);
	UNTIL(a->copy_cnt == 1);
	assert_int_equal(a->copy_status, 0);
	assert_ptr_equal(a->copy_cookie, &cookie);
	assert_memory_equal(ours, theirs, COPY_LEN);
	fill(ours, COPY_LEN, 2);
	assert_int_equal(hfi_copy(a->dst, HFI_COPY_PUT, ours, COPY_LEN, (uintptr_t)theirs, key, &cookie), 0);
	UNTIL(a->copy_cnt == 2);
	assert_int_equal(a->copy_status, 0);
	assert_memory_equal(ours, theirs, COPY_LEN);
	assert_int_equal(stats_of(a).copy_get_bytes, COPY_LEN);
	assert_int_equal(stats_of(a).copy_put_bytes, COPY_LEN);
	assert_int_equal(hfi_copy(a->dst, HFI_COPY_PUT, ours, 10, (uintptr_t)theirs, ro, &cookie), 0);
	UNTIL(a->copy_cnt == 3);
	assert_int_equal(a->copy_status, -EACCES);
	hfi_conceal(b->c, key);
	assert_int_equal(hfi_copy(a->dst, HFI_COPY_GET, ours, 10, (uintptr_t)theirs, key, &cookie), 0);
	UNTIL(a->copy_cnt == 4);
	assert_int_equal(a->copy_status, -EACCES);
	hfi_conceal(b->c, ro);
	pair_close();
}

static void copy__only_through_shared_memory(void **state)
{
	uint8_t byte;

	pair_open(PATH_UDP);
	assert_int_equal(hfi_copy(g_w.a.dst, HFI_COPY_GET, &byte, 1, 0, 1, NULL), -EOPNOTSUPP);
	pair_close();
}

/* Our side of it goes: without a look at the peer nothing of it is touched any more. */
static void copy__stopped(void **state)
{
	static uint8_t theirs[COPY_LEN], ours[COPY_LEN], was[COPY_LEN];
	struct side *a = &g_w.a, *b = &g_w.b;
	uint32_t key;
	int cookie;

	pair_open(PATH_SHM);
	assert_int_equal(hfi_expose(b->c, theirs, COPY_LEN, HFI_COPY_GET | HFI_COPY_PUT, &key), 0);
	for (int op = HFI_COPY_GET; op <= HFI_COPY_PUT; op++) {
		uint8_t *to = op == HFI_COPY_GET ? ours : theirs, *from = op == HFI_COPY_GET ? theirs : ours;

		fill(from, COPY_LEN, 1);
		assert_int_equal(hfi_copy(a->dst, op, ours, COPY_LEN, (uintptr_t)theirs, key, &cookie), 0);
		assert_true(hfi_copy_stop(a->c, &cookie));
		fill(from, COPY_LEN, 3); /* nobody reads that */
		memcpy(was, to, COPY_LEN);
		UNTIL(a->copy_cnt == (unsigned)op);
		assert_int_equal(a->copy_status, -EFAULT);
		/* the first frame of a write has left before */
		for (size_t i = 0; i < COPY_LEN; i++)
			assert_true(to[i] == was[i] || (op == HFI_COPY_PUT && to[i] != from[i]));
	}
	hfi_conceal(b->c, key);
	pair_close();
}

/* Its owner leaves while a copy is under way, or we do. */
static void copy__ends_with_its_ends(void **state)
{
	static uint8_t theirs[COPY_LEN], ours[COPY_LEN];
	struct side *a = &g_w.a, *b = &g_w.b;
	uint32_t key;

	pair_open(PATH_SHM);
	assert_int_equal(send_pkt(a, 0, NULL, 0), 0);
	UNTIL(b->got_cnt == 1);
	assert_int_equal(hfi_expose(b->c, theirs, COPY_LEN, HFI_COPY_GET, &key), 0);
	hfi_conceal(b->c, key);
	side_ctxt_close(b);
	if (!hfi_copy(a->dst, HFI_COPY_GET, ours, COPY_LEN, (uintptr_t)theirs, key, NULL)) {
		UNTIL(a->copy_cnt == 1);
		assert_true(a->copy_status == -EACCES || a->copy_status == -ECONNREFUSED);
	}
	pair_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send__any_size),
		cmocka_unit_test(send__burst),
		cmocka_unit_test(send__in_place_of_any_length),
		cmocka_unit_test(gone__with_long_ones_unread),
		cmocka_unit_test(send__to_itself),
		cmocka_unit_test(send__few_datagrams),
		cmocka_unit_test(wait__woken_by_a_packet),
		cmocka_unit_test(computing__nothing_local_is_lost),
		cmocka_unit_test(computing__natural_loss),
		cmocka_unit_test(connect__chooses_path),
		cmocka_unit_test(connect__knows_who_admits_us),
		cmocka_unit_test(dst__lives_as_long_as_it_is_held),
		cmocka_unit_test(dst__goes_inside_of_on_pkt),
		cmocka_unit_test(gone__told_once),
		cmocka_unit_test(gone__before_its_successor),
		cmocka_unit_test(copy__get_and_put),
		cmocka_unit_test(copy__only_through_shared_memory),
		cmocka_unit_test(copy__stopped),
		cmocka_unit_test(copy__ends_with_its_ends),
	};

	pair_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
