// SPDX-License-Identifier: BSD-2-Clause
// Two soft Cassini adapters end to end: Puts, Gets, messages, rendezvous, atomics, order, triggers; on every path.
#include "cassini_pair.h"

/* --- Puts and Gets --- */

static const uint32_t g_lens[] = {0, 1, 8, 192, 193, 224, 225, 4096, 10113, 18560, 18561, 65537, 1u << 20};

static void put_body(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(g_lens); i++) {
		uint32_t len = g_lens[i];
		struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, len);

		fill(g_w.a.mem, len, i);
		memset(g_w.b.mem, 0xcc, len + 200);
		cmd.remote_offset = 100;
		cmd.flags = (i & 1 ? CASSINI_CMD_RESTRICTED : 0) |
			    (len <= CASSINI_IDC_MAX && i & 2 ? CASSINI_CMD_INLINE : 0);
		post(&g_w.a, &cmd);
		if (cmd.flags & CASSINI_CMD_INLINE)
			memset(g_w.a.mem, 0xee, len); /* ours again */
		assert_int_equal(expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).user_ptr, len);
		if (cmd.flags & CASSINI_CMD_INLINE)
			fill(g_w.a.mem, len, i);
		assert_memory_equal(g_w.b.mem + 100, g_w.a.mem, len);
		assert_int_equal(g_w.b.mem[99], 0xcc);
		assert_int_equal(g_w.b.mem[100 + len], 0xcc);
	}
}

static void put__all_lengths(void **state)
{
	on_all_paths(put_body);
}

static enum { FIRST_AT_ONCE, FIRST_IN_HANDSHAKE, FIRST_LATER, FIRST_NUM } g_first;
static bool g_answered;

static enum sim_fate dgram_look(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
				size_t len)
{
	uint8_t ip[16];

	(void)ctx, (void)dst, (void)buf, (void)len;
	memcpy(ip, cassini_info(g_w.b.nic)->ip, sizeof(ip));
	g_answered |= !memcmp(src->ip, ip, sizeof(ip));
	return SIM_PASS;
}

/*
 * Addresses have no nonce. Whoever is spoken to, and then speaks for the first time himself, speaks over the same pair:
 * when nothing has come yet, when the handshake was answered and no frame has come, and when it has. In between b knows
 * the pair by the handshake only, under a's nonce.
 */
static void crossing_body(void)
{
	struct cassini_cmd a = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, 8),
			   b = cmd_of(&g_w.b, CASSINI_OP_PUT, REGION, g_w.b.mem, 8);

	g_answered = false;
	if (g_w.sim)
		sim_set_filter(g_w.sim, dgram_look, NULL);
	post(&g_w.a, &a);
	if (g_w.sim && g_first == FIRST_IN_HANDSHAKE)
		UNTIL(g_answered);
	else if (g_first == FIRST_LATER)
		settle();
	post(&g_w.b, &b);
	expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	expect(g_w.b.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
}

static void crossing__first_words(void **state)
{
	for (g_first = FIRST_AT_ONCE; g_first < FIRST_NUM; g_first++)
		on_all_paths(crossing_body);
}

static void get_body(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(g_lens); i++) {
		uint32_t len = g_lens[i];
		struct cassini_cmd cmd = cmd_of(&g_w.b, CASSINI_OP_GET, REGION, g_w.b.mem + 100, len);

		fill(g_w.a.mem, len + 7, i);
		memset(g_w.b.mem, 0xcc, len + 200);
		cmd.remote_offset = 7;
		cmd.flags = i & 1 ? CASSINI_CMD_RESTRICTED : 0;
		post(&g_w.b, &cmd);
		assert_int_equal(expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_OK).user_ptr, len);
		assert_memory_equal(g_w.b.mem + 100, g_w.a.mem + 7, len);
		assert_int_equal(g_w.b.mem[99], 0xcc);
		assert_int_equal(g_w.b.mem[100 + len], 0xcc);
	}
}

static void get__all_lengths(void **state)
{
	on_all_paths(get_body);
}

/*
 * What answers a Get comes behind its bytes. These leave as two trains, so that it takes four crossings, where to wait
 * until they have come would take six.
 */
static void get_time_body(void)
{
	struct cassini_cmd cmd = cmd_of(&g_w.b, CASSINI_OP_GET, REGION, g_w.b.mem, 60000);
	uint64_t begin_ns = 0;

	for (int i = 0; i < 2; i++) { /* before the first there is the handshake */
		begin_ns = now_ns();
		post(&g_w.b, &cmd);
		expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	}
	if (g_w.path == PATH_SIM) /* 5 to 7 us each */
		assert_true(now_ns() - begin_ns < 6 * 5 * NS_PER_US);
}

static void get__is_answered_behind_its_bytes(void **state)
{
	on_all_paths(get_time_body);
}

static void message_body(void)
{
	struct cassini_cmd cmd;
	struct cassini_event ev;

	for (unsigned i = 0; i < ARRAY_SIZE(g_lens); i++) {
		uint32_t len = g_lens[i];

		fill(g_w.a.mem, len, i);
		memset(g_w.b.mem, 0, len);
		msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, len, 1000 + i);
		cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem, len);
		cmd.match_bits = 0x1234567890 + i;
		cmd.header_data = 0xabcdef;
		post(&g_w.a, &cmd);
		ev = expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		assert_int_equal(ev.ptl_list, CASSINI_PRIORITY);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(ev.ptl_list, CASSINI_PRIORITY);
		assert_int_equal(ev.user_ptr, 1000 + i);
		assert_int_equal(ev.mlength, len);
		assert_int_equal(ev.rlength, len);
		assert_int_equal(ev.initiator, CASSINI_MATCH_ID(PID, cassini_info(g_w.a.nic)->nic));
		assert_true(ev.match_bits == cmd.match_bits && ev.header_data == 0xabcdef);
		assert_true(ev.auto_unlinked);
		assert_ptr_equal(ev.start, g_w.b.mem);
		assert_memory_equal(g_w.b.mem, g_w.a.mem, len);
	}
}

static void message__expected(void **state)
{
	on_all_paths(message_body);
}

static void unexpected_body(void)
{
	uint8_t *over = g_w.b.mem + (2u << 20);
	struct cassini_cmd cmd;
	struct cassini_event ev;

	msg_append(&g_w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t len = (const uint32_t[]){100, 5000, 20000, 10113}[i];

		fill(g_w.a.mem, len, i);
		cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem, len);
		cmd.header_data = i;
		post(&g_w.a, &cmd);
		assert_int_equal(expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).ptl_list, CASSINI_OVERFLOW);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(ev.ptl_list, CASSINI_OVERFLOW);
		assert_memory_equal(ev.start, g_w.a.mem, len);
		msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, 1u << 20, 8);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		assert_int_equal(ev.user_ptr, 8);
		assert_int_equal(ev.header_data, i);
		assert_int_equal(ev.mlength, len);
		assert_memory_equal(ev.start, g_w.a.mem, len);
	}
}

static void message__unexpected(void **state)
{
	on_all_paths(unexpected_body);
}

/*
 * A lossless PTE at index 1 of b that has no buffer: whatever comes waits at its sender, and none of it is lost,
 * doubled or overtakes when there is one. The messages are short, in a frame, and larger than one.
 */
static void lossless_body(void)
{
	struct cassini_pte_opts opts = {.is_matching = true, .en_flowctrl = true, .lossless = true};
	struct cassini_le_attr le = {.list = CASSINI_OVERFLOW,
				     .flags = LE_QUIET | CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_UNEXPECTED_HDR_DISABLE,
				     .start = g_w.b.mem, .length = 1u << 20, .match_id = CASSINI_MATCH_ID_ANY,
				     .ignore_bits = UINT64_MAX};
	uint8_t *place[30] = {0};
	struct cassini_stats stats;
	struct cassini_pte *pte;

	assert_int_equal(cassini_pte_open(g_w.b.lni, g_w.b.teq, &opts, NULL, &pte), 0);
	assert_int_equal(cassini_pte_map(pte, g_w.b.dom, 1), 0);
	assert_int_equal(cassini_set_state(pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE), 0);
	expect_state(&g_w.b);
	for (unsigned i = 0; i < 30; i++) {
		struct cassini_cmd cmd =
			cmd_of(&g_w.a, CASSINI_OP_PUT, 1, g_w.a.mem, (const uint32_t[]){8, 5000, 20000}[i % 3]);

		cmd.header_data = i;
		post(&g_w.a, &cmd);
		if (i % 7 == 0)
			settle();
	}
	settle();
	none(g_w.a.eq);
	none(g_w.b.teq);
	assert_int_equal(cassini_append(pte, &le, NULL), 0);
	for (unsigned i = 0; i < 30; i++) {
		struct cassini_event ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);

		/* large ones are reported when they have landed, but have their places in order */
		place[ev.header_data] = ev.start;
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	}
	for (unsigned i = 1; i < 30; i++)
		assert_true(place[i] > place[i - 1]);
	cassini_query_stats(g_w.b.nic, &stats);
	assert_true(stats.lossless_pauses > 0);
	assert_int_equal(stats.pte_disabled, 0);
	cassini_pte_unmap(pte, g_w.b.dom, 1);
	cassini_pte_close(pte);
}

static void lossless__waits_at_the_sender(void **state)
{
	on_all_paths(lossless_body);
}

/* --- rendezvous --- */

/* At the source: the Get that fetched the rest. */
static void expect_get(unsigned i)
{
	struct cassini_event ev = expect(g_w.a.teq, CASSINI_EV_GET, CASSINI_RC_OK);

	assert_true(ev.match_bits == GET_BITS + i);
	assert_int_equal(ev.user_ptr, SRC);
	assert_int_equal(ev.initiator, CASSINI_MATCH_ID(PID, cassini_info(g_w.b.nic)->nic));
}

static const struct {
	uint32_t len, eager;
} g_rdzv[] = {{20000, 2048}, {1u << 20, 2048}, {1u << 20, 0}, {1u << 20, 10112}, {3000, 3000}, {0, 0}, {500, 1}};

static void rdzv_expected_body(void)
{
	struct cassini_event ev;

	for (unsigned i = 0; i < ARRAY_SIZE(g_rdzv); i++) {
		msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, 1u << 20, 5);
		rput(g_rdzv[i].len, g_rdzv[i].eager, i);
		assert_int_equal(expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).ptl_list, CASSINI_PRIORITY);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_true(ev.rendezvous && ev.get_issued);
		assert_int_equal(ev.rendezvous_id, i);
		assert_int_equal(ev.rlength, g_rdzv[i].len);
		ev = expect(g_w.b.teq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		assert_int_equal(ev.user_ptr, 5);
		assert_true(ev.rendezvous);
		expect_get(i);
		assert_memory_equal(g_w.b.mem, g_w.a.mem, g_rdzv[i].len);
	}
}

static void rdzv__expected(void **state)
{
	on_all_paths(rdzv_expected_body);
}

static void rdzv_unexpected_body(void)
{
	uint8_t *over = g_w.b.mem + (2u << 20);
	struct cassini_event ev;
	uint32_t came;

	msg_append(&g_w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < ARRAY_SIZE(g_rdzv); i++) {
		rput(g_rdzv[i].len, g_rdzv[i].eager, i);
		assert_int_equal(expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).ptl_list, CASSINI_OVERFLOW);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_true(ev.rendezvous && !ev.get_issued);
		came = ev.mlength;
		assert_true(came == g_rdzv[i].eager || !came); /* nothing from this host */
		assert_memory_equal(ev.start, g_w.a.mem, came);
		settle();
		none(g_w.a.teq);
		msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, 1u << 20, 8);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		assert_true(ev.rendezvous && ev.get_issued);
		assert_int_equal(ev.user_ptr, 8);
		expect(g_w.b.teq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		expect_get(i);
		assert_memory_equal(g_w.b.mem + came, g_w.a.mem + came, g_rdzv[i].len - came);
	}
}

static void rdzv__unexpected(void **state)
{
	on_all_paths(rdzv_unexpected_body);
}

/* Software takes the header and issues the Get itself. */
static void rdzv_software_body(void)
{
	uint8_t *over = g_w.b.mem + (2u << 20);
	struct cassini_cmd cmd;

	msg_append(&g_w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t len = i ? 9000 : 300000;
		uint32_t eager;
		struct cassini_search s = {.ignore_bits = UINT64_MAX, .match_id = CASSINI_MATCH_ID_ANY,
					   .use_once = true, .delete = true};
		struct cassini_event ev;

		rput(len, 2048, i);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(cassini_search(g_w.b.msg, &s), 0);
		ev = expect(g_w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		eager = ev.mlength; /* nothing from this host */
		cmd = cmd_of(&g_w.b, CASSINI_OP_GET, SRC, g_w.b.mem + eager, len - eager);
		cmd.match_bits = GET_BITS + i;
		cmd.remote_offset = ev.remote_offset + eager;
		post(&g_w.b, &cmd);
		expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		expect_get(i);
		assert_memory_equal(g_w.b.mem + eager, g_w.a.mem + eager, len - eager);
		/* it is not offered any more */
		post(&g_w.b, &cmd);
		expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_NO_TRANSLATION);
	}
}

static void rdzv__by_software(void **state)
{
	on_all_paths(rdzv_software_body);
}

/*
 * The PTE leaves all Gets to software, which fetches by restricted ones from an entry without matching at the source:
 * they can be repeated, and nothing ends before the receiver says so. What is not offered is not there.
 */
static void rdzv_restricted_body(void)
{
	struct cassini_pte_opts plain = {0}, soft = {.is_matching = true, .no_rget = true};
	struct cassini_le_attr all = {.list = CASSINI_PRIORITY, .flags = LE_QUIET | CASSINI_LE_EVENT_COMM_DISABLE,
				      .length = UINT64_MAX, .match_id = CASSINI_MATCH_ID_ANY};
	struct cassini_le_attr recv = {.list = CASSINI_PRIORITY, .flags = LE_QUIET | CASSINI_LE_USE_ONCE,
				       .start = g_w.b.mem, .length = 1u << 20, .match_id = CASSINI_MATCH_ID_ANY,
				       .ignore_bits = UINT64_MAX, .user_ptr = 5};
	const uint32_t len = 300000, eager = 2048;
	uint32_t b_id = CASSINI_MATCH_ID(PID, cassini_info(g_w.b.nic)->nic);
	struct cassini_pte *alt, *msg;
	struct cassini_cmd put, get;
	struct cassini_event ev;

	assert_int_equal(cassini_pte_open(g_w.a.lni, NULL, &plain, NULL, &alt), 0);
	assert_int_equal(cassini_pte_map(alt, g_w.a.dom, 254), 0);
	assert_int_equal(cassini_append(alt, &all, NULL), 0);
	assert_int_equal(cassini_set_state(alt, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE), 0);
	assert_int_equal(cassini_pte_open(g_w.b.lni, g_w.b.teq, &soft, NULL, &msg), 0);
	assert_int_equal(cassini_pte_map(msg, g_w.b.dom, 1), 0);
	assert_int_equal(cassini_append(msg, &recv, NULL), 0);
	assert_int_equal(cassini_set_state(msg, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE), 0);
	expect_state(&g_w.b);
	fill(g_w.a.mem, len, 9);
	put = cmd_of(&g_w.a, CASSINI_OP_RENDEZVOUS_PUT, 1, g_w.a.mem, len);
	put.eager_length = eager;
	put.get_bits = GET_BITS;
	post(&g_w.a, &put);
	expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(ev.rendezvous && !ev.get_issued && ev.auto_unlinked);
	assert_int_equal(ev.mlength, eager);
	get = cmd_of(&g_w.b, CASSINI_OP_GET, 254, g_w.b.mem + eager, len - eager);
	get.flags = CASSINI_CMD_RESTRICTED;
	get.match_bits = GET_BITS;
	get.remote_offset = ev.remote_offset + eager;
	for (int i = 0; i < 3; i++) {
		memset(g_w.b.mem + eager, 0, len - eager);
		post(&g_w.b, &get);
		expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		assert_memory_equal(g_w.b.mem, g_w.a.mem, len);
	}
	none(g_w.a.teq); /* no Get ended it */
	get.remote_offset += 1;
	post(&g_w.b, &get);
	expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_NO_TRANSLATION); /* beyond its end */
	get.remote_offset -= 1;
	cassini_rdzv_done(g_w.a.dom, b_id, GET_BITS);
	post(&g_w.b, &get);
	expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_NO_TRANSLATION);
	cassini_rdzv_done(g_w.a.dom, b_id, GET_BITS); /* once more is counted, no more */
	none(g_w.a.teq);
	cassini_pte_unmap(alt, g_w.a.dom, 254);
	cassini_pte_unmap(msg, g_w.b.dom, 1);
	cassini_pte_close(alt);
	cassini_pte_close(msg);
}

static void rdzv__by_restricted_gets(void **state)
{
	on_all_paths(rdzv_restricted_body);
}

/* --- atomics --- */

static struct cassini_cmd amo_of(enum cassini_opcode opcode, enum cassini_amo_op op, uint64_t v, uint64_t *fetch)
{
	struct cassini_cmd cmd = cmd_of(&g_w.a, opcode, REGION, NULL, 8);

	cmd.atomic_op = (uint8_t)op;
	cmd.atomic_type = CASSINI_T_U64;
	cmd.op1[0] = v;
	cmd.fetch_addr = fetch;
	cmd.remote_offset = 64;
	return cmd;
}

static uint64_t word(const struct end *e)
{
	uint64_t v;

	memcpy(&v, e->mem + 64, 8);
	return v;
}

static void atomic_body(void)
{
	uint64_t old = 0;
	struct cassini_cmd cmd;

	memset(g_w.b.mem, 0, 128);
	cmd = amo_of(CASSINI_OP_ATOMIC, CASSINI_AMO_SUM, 5, NULL);
	for (int i = 0; i < 10; i++) {
		cmd.flags = i & 1 ? CASSINI_CMD_RESTRICTED : 0;
		post(&g_w.a, &cmd);
	}
	for (int i = 0; i < 10; i++)
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	assert_int_equal(word(&g_w.b), 50);
	cmd = amo_of(CASSINI_OP_FETCHING_ATOMIC, CASSINI_AMO_SWAP, 77, &old);
	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(old, 50);
	cmd = amo_of(CASSINI_OP_FETCHING_ATOMIC, CASSINI_AMO_CSWAP, 99, &old);
	cmd.op2[0] = 1; /* not what is there */
	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(old, 77);
	assert_int_equal(word(&g_w.b), 77);
	cmd.op2[0] = 77;
	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(word(&g_w.b), 99);
	cmd.remote_offset = 65;
	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_AMO_ALIGN_ERROR);
	cmd = amo_of(CASSINI_OP_ATOMIC, CASSINI_AMO_BOR, 1, NULL);
	cmd.atomic_type = CASSINI_T_F64;
	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_AMO_INVAL_OP_ERROR);
	assert_int_equal(word(&g_w.b), 99);
}

static void atomic__and_fetch(void **state)
{
	on_all_paths(atomic_body);
}

/* --- order, fences, triggers --- */

/*
 * What is posted later lands later, however long the earlier one takes: the classic data and flag, and overlapping
 * writes.
 */
static void order_body(void)
{
	const uint32_t big = 300000;
	uint8_t one = 1;

	for (unsigned i = 1; i < 6; i++) {
		struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, big);

		memset(g_w.a.mem, (int)i, big);
		memset(g_w.a.mem + big, (int)(100 + i), big);
		g_w.b.mem[big] = 0;
		post(&g_w.a, &cmd);
		/* another large one over the middle of it */
		cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem + big, big / 2);
		cmd.remote_offset = big / 4;
		post(&g_w.a, &cmd);
		cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, &one, 1);
		cmd.flags = CASSINI_CMD_INLINE;
		cmd.remote_offset = big / 2;
		post(&g_w.a, &cmd);
		cmd.remote_offset = big;
		post(&g_w.a, &cmd);
		UNTIL(g_w.b.mem[big]);
		memset(g_w.a.mem + big / 4, (int)(100 + i), big / 2);
		g_w.a.mem[big / 2] = 1;
		assert_memory_equal(g_w.b.mem, g_w.a.mem, big);
		for (int k = 0; k < 4; k++)
			expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	}
}

static void order__later_lands_later(void **state)
{
	on_all_paths(order_body);
}

#define STREAM 200

/* Messages of all sizes, expected and unexpected, match in the order posted. */
static void stream_body(void)
{
	static const uint32_t lens[] = {0, 8, 192, 1000, 10113, 18560, 18561, 40000};
	unsigned acked = 0, posted = 0, seen = 0;

	for (unsigned i = 0; i < STREAM; i++)
		msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, 1u << 20, i);
	g_until_ns = now_ns() + (g_w.sim ? SIM_NS : REAL_NS);
	while (acked < STREAM || seen < STREAM) {
		struct cassini_cmd cmd =
			cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem, lens[rng_below(&g_w.rng, ARRAY_SIZE(lens))]);
		const struct cassini_event *ev;

		cmd.header_data = posted;
		if (posted < STREAM && !cassini_post(g_w.a.cq, &cmd))
			posted++;
		else
			turn();
		for (; (ev = cassini_eq_peek(g_w.a.eq)); cassini_eq_pop(g_w.a.eq), acked++)
			assert_true(ev->type == CASSINI_EV_ACK && ev->rc == CASSINI_RC_OK);
		for (; (ev = cassini_eq_peek(g_w.b.teq)); cassini_eq_pop(g_w.b.teq), seen++) {
			assert_true(ev->type == CASSINI_EV_PUT && ev->rc == CASSINI_RC_OK);
			assert_int_equal(ev->user_ptr, ev->header_data); /* the n-th message takes the n-th entry */
		}
	}
	assert_true(cassini_cmdq_is_idle(g_w.a.cq));
}

static void order__messages_match_in_order(void **state)
{
	on_all_paths(stream_body);
}

static void fence_body(void)
{
	struct cassini_cmd put = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, 200000), get;

	put.flags = CASSINI_CMD_RESTRICTED;
	fill(g_w.a.mem, 200000, 3);
	memset(g_w.b.mem, 0, 200000);
	post(&g_w.a, &put);
	assert_int_equal(cassini_fence(g_w.a.cq), 0);
	get = cmd_of(&g_w.a, CASSINI_OP_GET, REGION, g_w.a.mem + (1u << 20), 200000);
	get.flags = CASSINI_CMD_RESTRICTED;
	post(&g_w.a, &get);
	expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_memory_equal(g_w.a.mem + (1u << 20), g_w.a.mem, 200000);
}

static void fence__get_sees_the_put(void **state)
{
	on_all_paths(fence_body);
}

/* A ring of triggers over both adapters: a's ACK fires a's next Put; b counts arrivals and answers the third. */
static void trigger_body(void)
{
	struct cassini_ct *acks, *arrived;
	struct cassini_cmd cmd;
	struct cassini_le_attr le = {.flags = LE_QUIET | CASSINI_LE_EVENT_COMM_DISABLE | CASSINI_LE_EVENT_CT_COMM,
				     .start = g_w.b.mem, .length = MEM_LEN, .match_id = CASSINI_MATCH_ID_ANY,
				     .ignore_bits = UINT64_MAX};
	const struct cassini_ct_cmd event = {.op = CASSINI_CT_EVENT, .eq = g_w.a.eq, .user_ptr = 42};
	struct cassini_stats before, after;
	uint64_t wb = 0;

	assert_int_equal(cassini_ct_open(g_w.a.lni, &wb, &acks), 0);
	assert_int_equal(cassini_ct_open(g_w.b.lni, NULL, &arrived), 0);
	le.ct = arrived;
	assert_int_equal(cassini_append(g_w.b.msg, &le, NULL), 0);
	cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem, 30000);
	cmd.flags = CASSINI_CMD_CT_ACK | CASSINI_CMD_NO_EVENT;
	cmd.ct = acks;
	assert_int_equal(cassini_post_trig(g_w.a.cq, acks, 1, &cmd), 0);
	assert_int_equal(cassini_post_trig(g_w.a.cq, acks, 2, &cmd), 0);
	assert_int_equal(cassini_trig_ct(g_w.a.cq, acks, 3, &event), 0);
	cmd = cmd_of(&g_w.b, CASSINI_OP_PUT, REGION, g_w.b.mem, 8);
	cmd.flags = CASSINI_CMD_INLINE;
	memcpy(g_w.b.mem, "answered", 8);
	assert_int_equal(cassini_post_trig(g_w.b.cq, arrived, 3, &cmd), 0);
	memset(g_w.a.mem, 0, 30000);
	cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem + 8, 30000);
	cmd.flags = CASSINI_CMD_CT_ACK | CASSINI_CMD_NO_EVENT;
	cmd.ct = acks;
	post(&g_w.a, &cmd);
	assert_int_equal(expect(g_w.a.eq, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK).user_ptr, 42);
	expect(g_w.b.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	assert_memory_equal(g_w.a.mem, "answered", 8);
	assert_int_equal(wb, 1ULL << 63 | 3);
	none(g_w.a.eq);
	cassini_query_stats(g_w.b.nic, &before);
	dom_close(&g_w.b); /* whose entry counts */
	cassini_query_stats(g_w.b.nic, &after);
	/* and so does the goodbye */
	assert_true(after.net.net_tx_dgrams > before.net.net_tx_dgrams || !before.net.net_tx_dgrams);
	cassini_ct_close(acks);
	cassini_ct_close(arrived);
}

static void trigger__over_two_adapters(void **state)
{
	on_all_paths(trigger_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__all_lengths),
		cmocka_unit_test(crossing__first_words),
		cmocka_unit_test(get__all_lengths),
		cmocka_unit_test(get__is_answered_behind_its_bytes),
		cmocka_unit_test(message__expected),
		cmocka_unit_test(message__unexpected),
		cmocka_unit_test(lossless__waits_at_the_sender),
		cmocka_unit_test(rdzv__expected),
		cmocka_unit_test(rdzv__unexpected),
		cmocka_unit_test(rdzv__by_software),
		cmocka_unit_test(rdzv__by_restricted_gets),
		cmocka_unit_test(atomic__and_fetch),
		cmocka_unit_test(order__later_lands_later),
		cmocka_unit_test(order__messages_match_in_order),
		cmocka_unit_test(fence__get_sees_the_put),
		cmocka_unit_test(trigger__over_two_adapters),
	};

	pair_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
