// SPDX-License-Identifier: BSD-2-Clause
// An initiator that asks and does not listen: what is kept for it has a bound, and whoever is told to ask again does
// so.
#include "cassini_pair.h"

#include "nic/cassini/cassini_tgt.h"

#define LEN  10000u
#define GETS 3000u

static struct cassini_peer *only_peer(struct cassini_dom *dom)
{
	assert_int_equal(dom->peer_cnt, 1);
	for (uint32_t i = 0; i <= dom->peer_mask; i++)
		if (dom->peer_tab[i])
			return dom->peer_tab[i];
	return NULL;
}

static uint64_t owed(struct cassini_dom *dom, enum cassini_owe what)
{
	return only_peer(dom)->owe.used[what];
}

/* A request to b as if a had made it up; a is not polled. Return: the verdict. */
static int ask(enum cassini_pkt_op op, uint32_t handle)
{
	const struct cassini_pkt_in pkt = {.op = (uint8_t)op, .pid_idx = REGION, .vni = VNI, .pid = PID,
					   .initiator = g_w.a.dom->match_id,
					   .request_len = op == CASSINI_PKT_GET ? LEN : 8, .handle = handle,
					   .amo = {CASSINI_AMO_SUM, CASSINI_T_U64, 0, {1, 0}, {0, 0}}};

	return cassini_tgt_frame(g_w.b.dom, only_peer(g_w.b.dom), &pkt, NULL);
}

static void meet(void)
{
	struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_GET, REGION, g_w.a.mem, LEN);

	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	UNTIL(!owed(g_w.b.dom, CASSINI_OWE_CNT));
}

/* So many requests that some are told to ask again. */
static void ask_too_much(void)
{
	uint64_t before = g_w.b.nic->stats.owed_busy;
	unsigned busy = 0;

	for (uint32_t i = 0; i < GETS; i++) {
		int rc = ask(CASSINI_PKT_GET, 0x7000000 + i);

		assert_true(rc == 0 || rc == CASSINI_RC_RESOURCE_BUSY);
		busy += rc != 0;
	}
	/* its own, half of the pool, and one more */
	assert_in_range(owed(g_w.b.dom, CASSINI_OWE_BYTES), 1000000, (256u << 10) + (16u << 20) + 20000);
	assert_true(busy && busy == g_w.b.nic->stats.owed_busy - before);
}

/* Honest ones of the same peer, which listens again. */
static void ask_honestly(void)
{
	struct cassini_cmd cmd;

	fill(g_w.b.mem, LEN, 3);
	memset(g_w.a.mem, 0, 30 * LEN);
	for (unsigned i = 0; i < 30; i++) {
		cmd = cmd_of(&g_w.a, CASSINI_OP_GET, REGION, g_w.a.mem + i * LEN, LEN);
		cmd.flags |= CASSINI_CMD_RESTRICTED;
		post(&g_w.a, &cmd);
	}
	for (unsigned i = 0; i < 30; i++)
		expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	for (unsigned i = 0; i < 30; i++)
		assert_memory_equal(g_w.a.mem + i * LEN, g_w.b.mem, LEN);
}

static void gets_body(void)
{
	struct cassini_dom *b = g_w.b.dom;
	uint64_t busy = 0;

	meet();
	/* a may be quick to take answers */
	for (int round = 0; round < 50 && g_w.b.nic->stats.owed_busy == busy; round++) {
		ask_too_much();
		busy = g_w.b.nic->stats.owed_busy;
		ask_honestly();
	}
	assert_true(g_w.b.nic->stats.owed_busy > busy);
	UNTIL(!owed(b, CASSINI_OWE_CNT));
	assert_int_equal(owed(b, CASSINI_OWE_BYTES), 0);
}

/* What cannot be asked again alone has another end. */
static void atomics_body(void)
{
	int rc = 0;

	meet();
	for (uint32_t i = 0; i < 100000 && !rc; i++)
		rc = ask(CASSINI_PKT_FETCH, 0x7000000 + i);
	assert_int_equal(rc, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(g_w.b.nic->stats.owed_ended, 1);
	assert_in_range(owed(g_w.b.dom, CASSINI_OWE_CNT), 1024, 1024 + 32768);
	UNTIL(!owed(g_w.b.dom, CASSINI_OWE_CNT));
	meet(); /* a is there, and may begin anew */
}

/*
 * Others of its host hold what is kept for that: it gets on with one Get at a time; through shared memory nobody
 * shares.
 */
static void source_body(void)
{
	struct cassini_peer *peer;
	struct quota_source *s;
	uint64_t *own;
	int rc = 0;

	meet();
	peer = only_peer(g_w.b.dom);
	s = link_peer_source(peer->link);
	assert_int_equal(s == NULL, link_peer_is_local(peer->link));
	if (!s)
		return;
	own = &s->sum[QUOTA_OWNER][CASSINI_OWE_BYTES].own;
	*own += 64 * (256u << 10);
	for (uint32_t i = 0; i < 40; i++)
		rc = ask(CASSINI_PKT_GET, 0x7000000 + i);
	assert_int_equal(rc, CASSINI_RC_RESOURCE_BUSY);
	assert_in_range(owed(g_w.b.dom, CASSINI_OWE_CNT), 1, CASSINI_OWE_LEAST);
	UNTIL(!owed(g_w.b.dom, CASSINI_OWE_CNT));
	meet();
	assert_int_equal(*own, 64 * (256u << 10));
	*own = 0;
	meet();
}

static void owe__of_a_crowded_host(void **state)
{
	(void)state;
	on_all_paths(source_body);
}

static void owe__gets_are_asked_again(void **state)
{
	(void)state;
	on_all_paths(gets_body);
}

static void owe__too_many_answers_end_it(void **state)
{
	(void)state;
	on_all_paths(atomics_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owe__gets_are_asked_again),
		cmocka_unit_test(owe__of_a_crowded_host),
		cmocka_unit_test(owe__too_many_answers_end_it),
	};

	pair_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
