// SPDX-License-Identifier: BSD-2-Clause
// Peers that ask for much and take no answer: what lies for them is bounded, and others are served as if they were not
// there.
#include "bulk_modes.h"

#define DEAF 100

static struct link_peer g_deaf[DEAF];
static uint8_t g_mem[MIB], g_local[MIB];

/* @cnt requests of @peer to port 1. */
static void ask(struct link_peer *peer, uint32_t cnt, uint32_t key, uint64_t len)
{
	for (uint32_t i = 0; i < cnt && !peer->dead; i++) {
		struct bulk_pkt pkt = {.type = BULK_T_GET, .id = i, .tag = i, .key = key, .addr = (uintptr_t)g_mem,
				       .len = len};
		uint8_t buf[BULK_HDR_MAX];
		struct view v = view_of(buf, (uint32_t)bulk_pkt_encode(&pkt, buf));

		assert_int_equal(bulk_on_frame(fp.port[1].bulk, peer, &v), 0);
	}
}

/* Passes that @cnt reads and writes of port 0 take. */
static uint32_t honest(uint32_t cnt, uint32_t key, bool is_beset)
{
	uint32_t passes = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		struct fp_done d;

		assert_int_equal(bulk(0, 1, i % 2 ? LINK_GET : LINK_PUT, g_local, 100000, g_mem, key, &d), 0);
		for (; !d.cnt && passes < 100 * cnt; passes++) {
			fp_pass();
			for (int k = 0; is_beset && k < DEAF; k++)
				ask(&g_deaf[k], 3, 1, 64);
		}
		assert_int_equal(d.cnt, 1);
		assert_int_equal(d.status, 0);
	}
	return passes;
}

static void bulk__deaf_peers_hold_up_nobody(void **state)
{
	static const enum mode modes[] = {RING, NET};

	for (size_t n = 0; n < ARRAY_SIZE(modes); n++) {
		enum mode m = modes[n];
		uint32_t key, alone, beset;
		struct bulk_port *b;

		open_mode(m);
		b = fp.port[1].bulk;
		key = region(1, g_mem, MIB, LINK_GET | LINK_PUT);
		alone = honest(100, key, false);
		for (int i = 0; i < DEAF; i++) {
			g_deaf[i] = (struct link_peer){.port = &fp.port[1], .shm_tried = true};
			ask(&g_deaf[i], 100, key, MIB);	 /* data */
			ask(&g_deaf[i], 400, 1, 64); /* refusals */
		}
		beset = honest(100, key, true);
		print_message("%s: 100 operations in %u polls, beset in %u; %u answers, %u streams, %u chunks\n",
			      mode_name[m], alone, beset, slab_used(&b->replies), slab_used(&b->streams),
			      slab_used(&b->bufs));
		assert_true(beset <= 2 * alone);
		assert_in_range(b->replies.cap, 0, 65536 + 32768 + DEAF * 1024);
		assert_in_range(b->streams.cap, 0, 4096 + DEAF * 8);
		assert_in_range(b->bufs.cap, 0, 1024 + DEAF * 8);
		ask(&g_deaf[0], 200000, 1, 64); /* more than there is room for: the end of this one */
		fp_pass();
		assert_int_equal(g_deaf[0].dead, -ENOBUFS);
		assert_null(g_deaf[0].bulk);
		assert_int_equal(honest(10, key, false) > 0, 1);
		for (int i = 1; i < DEAF; i++)
			fp_gone(&g_deaf[i], -ECONNREFUSED);
		for (int i = 0; i < 5; i++)
			fp_pass();
		assert_int_equal(bulk_outstanding(b), 0);
		fp_close();
	}
}

/*
 * Others hold all room for answers, and one who takes them asks for more at once than the path takes: it is not ended
 * for that.
 */
static void bulk__many_at_once_from_an_honest_peer(void **state)
{
	static const enum mode modes[] = {RING, NET};

	for (size_t n = 0; n < ARRAY_SIZE(modes); n++) {
		struct link_peer *honest_peer;
		uint64_t *pool;

		open_mode(modes[n]);
		pool = &fp.port[1].bulk->quota.pool[BULK_Q_REPLY];
		*pool += 65536;
		honest_peer = &fp.peer[1][0];
		for (int i = 0; i < DEAF; i++) {
			g_deaf[i] = (struct link_peer){.port = &fp.port[1], .shm_tried = true};
			ask(&g_deaf[i], 1024, 1, 64);
		}
		ask(honest_peer, 6000, 1, 64);
		for (int i = 0; honest_peer->bulk && i < 2000; i++)
			fp_pass();
		assert_int_equal(honest_peer->dead, 0);
		assert_null(honest_peer->bulk);
		/* who takes none for long is, as soon as there is no room */
		assert_int_equal(g_deaf[0].dead, 0);
		fp.now_ns += fp.node[1].room->dead_after_ns / 2;
		fp_pass();
		ask(&g_deaf[0], 100, 1, 64);
		fp_pass();
		assert_int_equal(g_deaf[0].dead, -ENOBUFS);
		for (int i = 1; i < DEAF; i++)
			fp_gone(&g_deaf[i], -ECONNREFUSED);
		for (int i = 0; i < 5; i++)
			fp_pass();
		assert_int_equal(*pool, 65536);
		fp_close();
	}
}

#define CROWD 2000

static struct link_peer g_crowd[CROWD];

/*
 * Peers behind one address, each of which would have its own share: together they have a bound, and one of them and
 * others get on.
 */
static void bulk__a_crowd_is_one_source(void **state)
{
	struct quota_source src = {.refs = 1};
	struct link_peer *late;
	struct bulk_port *b;
	uint32_t key;

	open_mode(NET);
	b = fp.port[1].bulk;
	b->quota.limit[BULK_Q_REPLY].owns = 16;
	key = region(1, g_mem, MIB, LINK_GET | LINK_PUT);
	for (int i = 0; i < CROWD; i++) {
		g_crowd[i] = (struct link_peer){.port = &fp.port[1], .shm_tried = true, .user = &src};
		ask(&g_crowd[i], 100, key, MIB);
		ask(&g_crowd[i], 40, 1, 64);
	}
	print_message("%u answers, %u streams of %u peers\n", slab_used(&b->replies), slab_used(&b->streams), CROWD);
	assert_in_range(b->streams.cap, 1, 1024 * 8 + 2048 + CROWD);
	/* what an answer that is owed to everybody comes to, and what there is besides */
	assert_in_range(slab_used(&b->replies), 1, 16 * 1024 + 65536 / 2 + 32768 / 2 + CROWD * 17);
	assert_int_equal(honest(100, key, false) > 0, 1);
	late = &fp.peer[1][0]; /* one of them now, and it listens */
	late->user = &src;
	assert_int_equal(honest(100, key, false) > 0, 1);
	late->user = NULL;
	for (int i = 0; i < CROWD; i++)
		fp_gone(&g_crowd[i], -ECONNREFUSED);
	for (int i = 0; i < 5; i++)
		fp_pass();
	assert_int_equal(bulk_outstanding(b), 0);
	assert_int_equal(src.refs, 1);
	assert_null(src.turns);
	for (int q = 0; q < BULK_Q_NUM; q++)
		assert_int_equal(src.sum[QUOTA_BULK][q].own + src.sum[QUOTA_BULK][q].pool + b->quota.pool[q], 0);
	fp_close();
}

/* They take what they are sent, and ask for more: one peer elsewhere has each other turn. */
static void bulk__turns_are_of_sources(void **state)
{
	uint32_t key, alone, beset, cnt = 200;
	struct quota_source src = {.refs = 1};
	struct bulk_port *b;

	open_mode(RING);
	b = fp.port[1].bulk;
	key = region(1, g_mem, MIB, LINK_GET | LINK_PUT);
	alone = honest(100, key, false);
	for (uint32_t i = 0; i < cnt; i++) {
		g_crowd[i] = (struct link_peer){.port = &fp.port[1], .shm_tried = true, .user = &src};
		g_crowd[i].shm = &fp.shm[1][0];
		ask(&g_crowd[i], 8, key, MIB);
	}
	beset = honest(100, key, false);
	print_message("100 operations in %u polls, beset in %u; %u streams\n", alone, beset, slab_used(&b->streams));
	assert_true(slab_used(&b->streams));
	assert_true(beset <= 2 * alone);
	for (uint32_t i = 0; i < cnt; i++)
		fp_gone(&g_crowd[i], -ECONNREFUSED);
	fp_pass();
	assert_int_equal(src.refs, 1);
	fp_close();
}

/* A peer that asks for help without end: so many copies are kept, all others it is told to make itself. */
static void bulk__help_without_end(void **state)
{
	struct bulk_pkt pkt = {.type = BULK_T_HELP, .addr = (uintptr_t)g_mem, .len = MIB, .dst_key = 4711};
	uint8_t buf[BULK_HDR_MAX];
	struct bulk_port *b;

	if (!has_cma())
		skip();
	open_mode(HELPED);
	b = fp.port[1].bulk;
	pkt.key = region(1, g_mem, MIB, LINK_GET);
	region(0, g_local, MIB, LINK_PUT); /* by which the owner knows port 0's node */
	for (pkt.id = 0; pkt.id < 3 * BULK_HELP_MAX; pkt.id++)
		fp_deliver_view(1, 0, buf, bulk_pkt_encode(&pkt, buf));
	assert_int_equal(b->help_cnt, BULK_HELP_MAX);
	memset(g_mem, 3, MIB);
	assert_int_equal(bulk_run(LINK_GET, g_local, MIB, g_mem, pkt.key), 0);
	assert_memory_equal(g_local, g_mem, MIB);
	for (int i = 0; i < PASSES && b->help_cnt; i++)
		fp_pass();
	assert_int_equal(b->help_cnt, 0);
	fp_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bulk__deaf_peers_hold_up_nobody),
		cmocka_unit_test(bulk__many_at_once_from_an_honest_peer),
		cmocka_unit_test(bulk__a_crowd_is_one_source),
		cmocka_unit_test(bulk__turns_are_of_sources),
		cmocka_unit_test(bulk__help_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
