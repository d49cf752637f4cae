// SPDX-License-Identifier: BSD-2-Clause
// Bytes that nobody has asked for: taken by who reads just these, let go by otherwise, and nothing is ever waited for
// that does not come.
#include "unit.h"

#include "bulk_modes.h"

#define LEN 30000u
static uint8_t g_src[4 * LEN], g_dst[4 * LEN];

/* Port 1 owns g_src, whose region it is; port 0 reads. */
static uint32_t g_key;

static void open_net(enum link_class cls)
{
	fp_open(cls, false);
	for (size_t i = 0; i < sizeof(g_src); i++)
		g_src[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(g_dst, 0, sizeof(g_dst));
	g_key = region(1, g_src, sizeof(g_src), LINK_GET);
}

static void offer(size_t at, size_t len)
{
	link_offer(&fp.port[1], &fp.peer[1][0], g_key, (uintptr_t)g_src + at, len);
}

static int read_from(size_t at, size_t len, struct fp_done *d)
{
	return bulk(0, 1, LINK_GET, g_dst + at, len, g_src + at, g_key, d);
}

static int frames_from(int port)
{
	int n = 0;

	for (int i = 0; i < fp.q_cnt; i++)
		n += fp.q[i].from == port && !fp.q[i].is_delivered;
	return n;
}

static void run_to(const struct fp_done *d, int status)
{
	assert_true(fp_run(d, PASSES));
	assert_int_equal(d->cnt, 1);
	assert_int_equal(d->status, status);
}

static void run_quiet(void)
{
	for (int i = 0; i < 200; i++)
		fp_pass();
	assert_int_equal(fp.q_cnt, 0);
}

/* The owner has made the offer and it has come: the message that it precedes would be handled now. */
static void offer_comes(size_t at, size_t len)
{
	offer(at, len);
	assert_int_equal(frames_from(1), 1);
	assert_true(fp_move_one());
}

static void offer__saves_the_request(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	offer_comes(100, LEN);
	assert_int_equal(read_from(100, LEN, &d), 0);
	assert_int_equal(frames_from(0), 0);
	assert_non_null(fp.port[1].bulk->fresh);
	bulk_offer_send(fp.port[1].bulk); /* with the doorbell, not in some later poll */
	assert_int_equal(frames_from(1), (LEN + BULK_CHUNK - 1) / BULK_CHUNK);
	run_to(&d, 0);
	assert_memory_equal(g_dst + 100, g_src + 100, LEN);
	assert_int_equal(g_dst[99] | g_dst[100 + LEN], 0);
	run_quiet();
	/* it was welcome: so is the next one */
	offer_comes(0, 1);
	assert_int_equal(read_from(0, 1, &d), 0);
	run_to(&d, 0);
	fp_close();
}

static void offer__goes_by_and_is_asked_for(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	offer_comes(0, LEN);
	run_quiet();
	assert_int_equal(g_dst[0] | g_dst[1] | g_dst[LEN - 1], 0);
	assert_int_equal(read_from(0, LEN, &d), 0);
	assert_int_equal(frames_from(0), 1);
	run_to(&d, 0);
	assert_memory_equal(g_dst, g_src, LEN);
	run_quiet();
	/* so as many as that are not made, and in vain again it costs twice as many */
	for (uint32_t gap = 2; gap < 100; gap *= 2) {
		uint32_t cnt = 0;

		for (;; cnt++) {
			offer(0, LEN);
			if (fp.q_cnt)
				break;
		}
		assert_int_equal(cnt, gap < 63 ? gap : 63);
		run_quiet();
		assert_int_equal(read_from(0, LEN, &d), 0);
		run_to(&d, 0);
		run_quiet();
	}
	/* what is taken takes off of that */
	for (int i = 0; i < 63; i++)
		offer(0, LEN);
	assert_int_equal(fp.q_cnt, 0);
	for (int i = 0; i < 62; i++) {
		offer_comes(0, LEN);
		assert_int_equal(read_from(0, LEN, &d), 0);
		run_to(&d, 0);
		run_quiet();
		link_region_del(&fp.node[1], g_key); /* as that of a message does */
		g_key = region(1, g_src, sizeof(g_src), LINK_GET);
	}
	assert_int_equal(fp.peer[1][0].offers.gap, 1);
	fp_close();
}

static void offer__of_other_bytes_is_no_answer(void **state)
{
	static const struct {
		size_t at, len;
	} t[] = {{0, LEN - 1}, {1, LEN}, {1, LEN - 1}, {LEN, LEN}};
	struct fp_done d;

	open_net(LINK_ORDERED);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		fp.peer[1][0].offers = (struct ahead){0};
		offer_comes(0, LEN);
		assert_int_equal(read_from(t[i].at, t[i].len, &d), 0);
		assert_int_equal(frames_from(0), 1);
		run_to(&d, 0);
		assert_memory_equal(g_dst + t[i].at, g_src + t[i].at, t[i].len);
		run_quiet();
	}
	fp_close();
}

/* Another peer's read of the same addresses and key, which it cannot have from its own owner. */
static void offer__of_another_peer_is_no_answer(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	offer_comes(0, LEN);
	assert_int_equal(bulk(0, 2, LINK_GET, g_dst, LEN, g_src, g_key, &d), 0);
	run_to(&d, -EACCES);
	assert_int_equal(g_dst[0] | g_dst[1], 0);
	fp_close();
}

/* The region is closed before, or after, some of the bytes are sent: who waits for them asks, and is refused. */
static void offer__is_withdrawn(void **state)
{
	for (int sent = 0; sent < 2; sent++) {
		struct fp_done d;

		open_net(LINK_ORDERED);
		offer_comes(0, LEN);
		assert_int_equal(read_from(0, LEN, &d), 0);
		assert_int_equal(frames_from(0), 0);
		if (sent) {
			fp.q_cap = 1;
			bulk_offer_send(fp.port[1].bulk);
			assert_int_equal(frames_from(1), 1);
		}
		link_region_del(&fp.node[1], g_key);
		fp.q_cap = 512;
		run_to(&d, -EACCES);
		assert_int_equal(g_dst[LEN - 1], 0);
		run_quiet();
		fp_close();
	}
}

/* An offer that was withdrawn before anybody took it is nothing to wait for either. */
static void offer__is_withdrawn_first(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	offer_comes(0, LEN);
	link_region_del(&fp.node[1], g_key);
	run_quiet();
	assert_int_equal(read_from(0, LEN, &d), 0);
	run_to(&d, -EACCES);
	fp_close();
}

static void offer__of_a_dead_peer(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	offer_comes(0, LEN);
	assert_int_equal(read_from(0, LEN, &d), 0);
	fp_peer_dead(0, 1, -EHOSTUNREACH);
	run_to(&d, -EHOSTUNREACH);
	fp_close();
	open_net(LINK_ORDERED);
	offer_comes(0, LEN);
	fp_peer_dead(0, 1, -EHOSTUNREACH); /* nobody has taken it: fp_close() finds no reference left */
	fp_peer_dead(1, 0, -EHOSTUNREACH); /* nor does a stream go on */
	offer(0, LEN);
	run_quiet();
	fp_close();
}

static void offer__to_who_stops_reading(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	offer_comes(0, LEN);
	assert_int_equal(read_from(0, LEN, &d), 0);
	assert_true(link_bulk_stop(&fp.port[0], &d));
	run_to(&d, -EFAULT);
	run_quiet();
	assert_int_equal(g_dst[0] | g_dst[1] | g_dst[LEN - 1], 0);
	fp_close();
}

/* A path that is full when the bytes should go lets them follow; one that is full before has no offer. */
static void offer__where_the_path_is_full(void **state)
{
	struct fp_done d;

	open_net(LINK_ORDERED);
	fp.q_cap = 0;
	offer(0, LEN);
	fp.q_cap = 512;
	run_quiet();
	offer_comes(0, LEN);
	assert_int_equal(read_from(0, LEN, &d), 0);
	fp.q_cap = 1;
	bulk_offer_send(fp.port[1].bulk);
	run_to(&d, 0);
	assert_memory_equal(g_dst, g_src, LEN);
	fp_close();
}

static void offer__only_in_order_between_hosts(void **state)
{
	open_net(LINK_RELIABLE);
	offer(0, LEN);
	assert_int_equal(fp.q_cnt, 0);
	fp_close();
	fp_open(LINK_ORDERED, true);
	g_key = region(1, g_src, sizeof(g_src), LINK_GET);
	offer(0, LEN);
	assert_int_equal(fp.q_cnt, 0);
	fp_close();
	open_net(LINK_ORDERED);
	offer(0, 0);
	offer(0, 65537);
	assert_int_equal(fp.q_cnt, 0);
	fp_close();
}

/* What nobody may have taken yet is bounded, and so is what a peer's bytes have to look through. */
static void offer__not_too_many(void **state)
{
	struct fp_done d[16];
	int asked = 0;

	open_net(LINK_ORDERED);
	fp.q_cap = 100;
	for (int i = 0; i < 16; i++) {
		offer((size_t)i, 1000);
		while (frames_from(1))
			fp_move_one();
		assert_int_equal(read_from((size_t)i, 1000, &d[i]), 0);
		asked += frames_from(0);
		while (frames_from(0))
			fp_move_one();
	}
	assert_int_equal(asked, 16 - 8);
	for (int i = 0; i < 16; i++)
		run_to(&d[i], 0);
	fp_close();
}

/* Frames of a peer that promises and does not keep it, as often as it likes. */
static void bytes_come(uint32_t tag, uint64_t off, size_t len)
{
	struct bulk_pkt pkt = {.type = BULK_T_AHEAD, .key = g_key, .tag = tag, .off = off};
	uint8_t buf[BULK_HDR_MAX + 64];
	size_t n = bulk_pkt_encode(&pkt, buf);

	memset(buf + n, 0xee, len);
	fp_deliver_view(0, 1, buf, n + len);
}

static void offer_says(uint32_t tag)
{
	struct bulk_pkt pkt = {.type = BULK_T_OFFER, .key = g_key, .addr = (uintptr_t)g_src, .len = 100, .tag = tag};
	uint8_t buf[BULK_HDR_MAX];

	fp_deliver_view(0, 1, buf, bulk_pkt_encode(&pkt, buf));
}

static void offer__of_a_hostile_peer(void **state)
{
	struct fp_done d, more[9];
	uint32_t tag;

	open_net(LINK_ORDERED);
	bytes_come(1, 0, 64); /* nobody has heard of these */
	for (uint32_t i = 0; i < 1000; i++)
		offer_says(i);
	assert_int_equal(read_from(0, 100, &d), 0);
	assert_int_equal(frames_from(0), 0);
	tag = 999;
	bytes_come(tag - 1, 0, 64);
	bytes_come(tag, 37, 64);     /* one too far */
	bytes_come(tag, UINT64_MAX, 64);
	assert_int_equal(fp.port[0].stats.drop_malformed, 2);
	assert_int_equal(d.cnt, 0);
	assert_int_equal(g_dst[0] | g_dst[37] | g_dst[100], 0);
	bytes_come(tag, 36, 64);
	bytes_come(tag, 0, 36);
	run_to(&d, 0);
	assert_int_equal(g_dst[99], 0xee);
	assert_int_equal(g_dst[100], 0);
	bytes_come(tag, 0, 36); /* and once more */
	run_quiet();
	for (uint32_t i = 0; i < 9; i++) { /* what bytes of a peer would have to look through has an end */
		offer_says(i);
		assert_int_equal(read_from(0, 100, &more[i]), 0);
		assert_int_equal(frames_from(0), i == 8);
	}
	for (uint32_t i = 0; i < 8; i++)
		bytes_come(i, 0, 64);
	for (uint32_t i = 0; i < 8; i++)
		bytes_come(i, 64, 36);
	for (uint32_t i = 0; i < 9; i++)
		run_to(&more[i], 0);
	fp_close();
}

/* Offers that are taken, late, wrong or never made, beside reads that nobody has offered. */
static void offer__model(void **state)
{
	struct rng r = unit_rng();
	int saved = 0;

	open_net(LINK_ORDERED);
	fp.is_slow = true;
	for (int n = 0; n < 3000; n++) {
		size_t len = 1 + rng_below(&r, LEN), at = rng_below(&r, 3 * LEN);
		bool is_offered = rng_chance(&r, 0.7);
		struct fp_done d;

		memset(g_dst, 0, sizeof(g_dst));
		fp.q_cap = (int)(1 + rng_below(&r, 40));
		if (rng_chance(&r, 0.5))
			fp.peer[1][0].offers = (struct ahead){0};
		if (is_offered)
			offer(at, len);
		if (rng_chance(&r, 0.5))
			bulk_offer_send(fp.port[1].bulk);
		for (uint64_t i = rng_below(&r, 8); i; i--)
			fp_move_one();
		if (rng_chance(&r, 0.1))
			len = 1 + rng_below(&r, len);
		assert_int_equal(read_from(at, len, &d), 0);
		saved += fp.peer[0][1].ahead != 0;
		run_to(&d, 0);
		assert_memory_equal(g_dst + at, g_src + at, len);
		if (rng_chance(&r, 0.5)) {
			fp.is_slow = false;
			run_quiet();
			fp.is_slow = true;
		}
	}
	print_message("%d of 3000 needed no request\n", saved);
	assert_true(saved > 100);
	assert_int_equal(fp.port[0].stats.drop_malformed + fp.port[1].stats.drop_malformed, 0);
	fp_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(offer__saves_the_request),
		cmocka_unit_test(offer__goes_by_and_is_asked_for),
		cmocka_unit_test(offer__of_other_bytes_is_no_answer),
		cmocka_unit_test(offer__of_another_peer_is_no_answer),
		cmocka_unit_test(offer__is_withdrawn),
		cmocka_unit_test(offer__is_withdrawn_first),
		cmocka_unit_test(offer__of_a_dead_peer),
		cmocka_unit_test(offer__to_who_stops_reading),
		cmocka_unit_test(offer__where_the_path_is_full),
		cmocka_unit_test(offer__only_in_order_between_hosts),
		cmocka_unit_test(offer__not_too_many),
		cmocka_unit_test(offer__of_a_hostile_peer),
		cmocka_unit_test(offer__model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
