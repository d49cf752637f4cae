// SPDX-License-Identifier: BSD-2-Clause
// The door of a context: every reason to drop; what waits while nobody polls, and in what order it is shown.
#include "hfi_fix.h"

#include "base/log.h"

static uint8_t bytes[HFI_MTU + 8];

/* --- the door --- */

static unsigned said;

static void count_lines(enum log_level lvl, const char *func, int line, const char *msg)
{
	said += lvl == LOG_LVL_WARN && strstr(msg, "a packet of another ");
}

static void drops(enum hfi_drop why, const struct hfi_hdr *h, size_t len)
{
	uint64_t before = stats_now().drop[why];

	put(h, bytes, len, true);
	assert_int_equal(stats_now().drop[why], before + 1);
	assert_int_equal(g_fix.cnt, 0);
	assert_int_equal(stats_now().rcv_eager + stats_now().rcv_expected, 0);
}

static void door__plain(void **state)
{
	struct hfi_hdr h = pkt_from(9, 5);

	put(&h, "hello", 5, true);
	assert_int_equal(g_fix.cnt, 1);
	assert_int_equal(g_fix.seen[0].psn, 9);
	assert_int_equal(g_fix.seen[0].len, 5);
	assert_memory_equal(g_fix.seen[0].data, "hello", 5);
	assert_int_equal(g_fix.seen[0].type, HFI_RCV_EAGER);
	assert_ptr_equal(g_fix.seen[0].src, g_fix.dst);
	assert_int_equal(stats_now().rcv_eager, 1);
	assert_int_equal(stats_now().rcv_bytes, 5);
}

/* Without its last word: there is nothing in the word, and payload begins in its place. */
static void door__cut_header(void **state)
{
	for (uint32_t i = 0; i < 90; i++) {
		struct hfi_hdr h = pkt_from(i, 20);

		h.w[0] = le64_put(3);
		h.w[1] = le64_put(4);
		put(&h, "abcdefghijklmnopqrst", 20, true);
		assert_int_equal(le64_get(g_fix.seen[g_fix.cnt - 1].w[1]), 4);
		hfi_wire_put_len(&h, HFI_HDR_CUT, 20);
		put(&h, "abcdefghijklmnopqrst", 20, true);
		assert_int_equal(g_fix.cnt, 2 * i + 2);
		assert_int_equal(le64_get(g_fix.seen[g_fix.cnt - 1].w[0]), 3);
		assert_int_equal(le64_get(g_fix.seen[g_fix.cnt - 1].w[1]), 0);
		assert_int_equal(g_fix.seen[g_fix.cnt - 1].len, 20);
		assert_memory_equal(g_fix.seen[g_fix.cnt - 1].data, "abcdefghijklmnopqrst", 20);
	}
	assert_int_equal(stats_now().rcv_bytes, 2 * 90 * 20);
}

static void door__short(void **state)
{
	struct hfi_hdr h = pkt_from(0, 0);

	g_fix.c->is_polling = true;
	for (size_t len = 0; len < sizeof(h); len++)
		fake_inject(g_fix.port, &g_fix.from, &h, len);
	assert_int_equal(stats_now().drop[HFI_DROP_SHORT], sizeof(h));
	hfi_wire_put_len(&h, HFI_HDR_CUT, 0);
	for (size_t len = 0; len < HFI_HDR_CUT; len++)
		fake_inject(g_fix.port, &g_fix.from, &h, len);
	assert_int_equal(stats_now().drop[HFI_DROP_SHORT], sizeof(h) + HFI_HDR_CUT);
	g_fix.c->is_polling = false;
	assert_int_equal(g_fix.cnt, 0);
}

static void door__length(void **state)
{
	struct hfi_hdr h = pkt_from(0, 8);

	drops(HFI_DROP_LENGTH, &h, 4);
	drops(HFI_DROP_LENGTH, &h, 12);
	drops(HFI_DROP_LENGTH, &h, 7); /* padding */
	h.bth1 = 1;
	drops(HFI_DROP_LENGTH, &h, 8);
	h.bth1 = HFI_BTH_CUT; /* as long as it was before */
	drops(HFI_DROP_LENGTH, &h, 8);
	h = pkt_from(0, 0);
	h.bth1 = HFI_BTH_CUT;
	drops(HFI_DROP_LENGTH, &h, 0);
	h = pkt_from(0, HFI_MTU + 4);
	drops(HFI_DROP_LENGTH, &h, HFI_MTU + 4);
}

static void door__every_field(void **state)
{
	const struct hfi_hdr good = pkt_from(0, 4);
	struct hfi_hdr h = good;

	h.lrh_flags = be16_put(be16_get(h.lrh_flags) ^ 1);
	drops(HFI_DROP_LNH, &h, 4);
	h = good;
	h.dlid = be16_put(be16_get(h.dlid) ^ 0x100);
	drops(HFI_DROP_DLID, &h, 4);
	h = good;
	h.slid = be16_put(be16_get(h.slid) ^ 1);
	drops(HFI_DROP_SLID, &h, 4);
	h = good;
	h.pkey = be16_put(0x8002);
	drops(HFI_DROP_PKEY, &h, 4);
	h = good;
	h.qp = 0x81;
	drops(HFI_DROP_KVER, &h, 4);
	h = good;
	h.kdeth = le32_put(2u << 30);
	drops(HFI_DROP_KVER, &h, 4);
	h = good;
	h.kdeth = le32_put(HFI_KVER | 1); /* an offset, and no TID */
	drops(HFI_DROP_KVER, &h, 4);
	h = good;
	h.dest_rx ^= 1;
	drops(HFI_DROP_CTXT, &h, 4);
	h = good;
	h.psn_tx = le32_put(le32_get(h.psn_tx) ^ 1u << 24); /* another context of that host */
	drops(HFI_DROP_CTXT, &h, 4);
	h = good;
	h.jkey = le16_put((uint16_t)(le16_get(h.jkey) + 1));
	drops(HFI_DROP_JKEY, &h, 4);
	h = good;
	h.hcrc = le16_put((uint16_t)(le16_get(h.hcrc) + 1));
	drops(HFI_DROP_UUID, &h, 4);
}

/* Whose sender waits in vain for an answer is said, a few times; what the wire has garbled is not. */
static void drop__of_another_job_is_said(void **state)
{
	const struct hfi_hdr good = pkt_from(0, 4);
	struct hfi_hdr h = good;

	said = 0;
	log_set_hook(count_lines);
	h.lrh_flags = be16_put(be16_get(h.lrh_flags) ^ 1);
	drops(HFI_DROP_LNH, &h, 4);
	assert_int_equal(said, 0);
	h = good;
	h.jkey = le16_put((uint16_t)(le16_get(h.jkey) + 1));
	drops(HFI_DROP_JKEY, &h, 4);
	assert_int_equal(said, 1);
	for (int i = 0; i < 2 * LOG_FEW_MAX; i++)
		drops(HFI_DROP_JKEY, &h, 4);
	assert_int_equal(said, LOG_FEW_MAX);
	log_set_hook(NULL);
}

/* Any one bit of what is checked, and all others do not matter. */
static void every_bit(uint32_t head)
{
	struct hfi_hdr good = pkt_from(0, 0);
	unsigned passed = 0;

	hfi_wire_put_len(&good, head, 0);
	for (unsigned bit = 0; bit < 8 * sizeof(good); bit++) {
		struct hfi_hdr h = good;
		enum hfi_rcv_type type;
		bool plain;

		((uint8_t *)&h)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		plain = hfi_door_is_eager(&g_fix.dst->door, &h, hfi_hdr_len(&h), 0);
		if (plain)
			assert_int_equal(hfi_door_check(&g_fix.dst->door, &h, 0, &type), HFI_DOOR_PASS);
		g_fix.cnt = 0;
		put(&h, NULL, 0, true);
		passed += g_fix.cnt;
		assert_true(plain || !g_fix.cnt || bit / 8 == offsetof(struct hfi_hdr, pkey) ||
			    bit / 8 / 4 == offsetof(struct hfi_hdr, kdeth) / 4);
	}
	/*
	 * key; 14 bits of flags; opcode, ecn, aux; PSN; imm, w and tag; the member bit of the P_Key; two ways to be
	 * expected
	 */
	assert_int_equal(passed, 64 + 14 + 24 + 24 + 32 + 128 + 64 + 1 + 2);
}

static void door__every_bit(void **state)
{
	every_bit(sizeof(struct hfi_hdr));
	every_bit(HFI_HDR_CUT); /* what is not sent of it does not matter, either */
}

static void door__limited_members(void **state)
{
	struct hfi_hdr h = pkt_from(0, 0);

	h.pkey = be16_put(0x0001);
	put(&h, NULL, 0, true);
	assert_int_equal(g_fix.cnt, 1); /* a limited member and a full one */
}

static void door__expected(void **state)
{
	struct hfi_hdr h = pkt_from(0, 4);

	h.kdeth = le32_put(HFI_KVER | HFI_KDETH_CTRL | 3u << 16 | 7);
	put(&h, "data", 4, true);
	assert_int_equal(g_fix.cnt, 1);
	assert_int_equal(g_fix.seen[0].type, HFI_RCV_EXPECTED);
	assert_int_equal(stats_now().rcv_expected, 1);
}

/* From an address that is no context's, or one that nobody has spoken to. */
static void door__strangers(void **state)
{
	struct hfi_hdr h = pkt_from(3, 0);

	g_fix.from.port = 80;
	drops(HFI_DROP_SLID, &h, 0);
	assert_int_equal(hfi_addr_of(&g_fix.hfi->map, hfi_dst_lid(g_fix.dst), PEER_RX + 1, 0, &g_fix.from), 0);
	drops(HFI_DROP_CTXT, &h, 0);
	h.psn_tx = le32_put((PEER_RX + 1u) << 24 | 3);
	put(&h, NULL, 0, true);
	assert_int_equal(g_fix.cnt, 1);
	assert_ptr_not_equal(g_fix.seen[0].src, g_fix.dst);
	assert_int_equal(slab_used(&g_fix.hfi->dsts), 1); /* it was not held */
	assert_int_equal(g_fake.peers, 1);
}

/* --- waiting --- */

static void parked__shown_in_order(void **state)
{
	g_fix.refuses = true;
	for (uint32_t i = 0; i < 20; i++) {
		struct hfi_hdr h = pkt_from(i, i);

		put(&h, bytes, i, false);
	}
	assert_int_equal(g_fix.cnt, 0);
	assert_int_equal(stats_now().rcv_parked, 20);
	assert_int_equal(hfi_ctxt_arm(g_fix.c), -EAGAIN);
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 20);
	assert_int_equal(g_fix.cnt, 20);
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(g_fix.seen[i].psn, i);
		assert_int_equal(g_fix.seen[i].len, i);
		assert_false(g_fix.seen[i].is_service);
		assert_memory_equal(g_fix.seen[i].data, bytes, i);
	}
	assert_int_equal(stats_now().rcv_eager, 20);
	assert_int_equal(hfi_ctxt_arm(g_fix.c), 0);
}

static void parked__not_if_taken(void **state)
{
	struct hfi_hdr h = pkt_from(1, 0);

	put(&h, NULL, 0, false);
	assert_int_equal(g_fix.cnt, 1);
	assert_true(g_fix.seen[0].is_service);
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 0);
}

static void parked__closed_with_the_context(void **state)
{
	struct hfi_hdr h = pkt_from(1, 100);

	g_fix.refuses = true;
	put(&h, bytes, 100, false); /* fix_close() looks whether it is freed */
}

static void overflow__header_queue(void **state)
{
	struct hfi_hdr h = pkt_from(0, 0);

	g_fix.refuses = g_fake.is_remote = true;
	for (uint32_t i = 0; i < 40; i++)
		put(&h, NULL, 0, false);
	assert_int_equal(stats_now().rcv_parked, 32);
	assert_int_equal(stats_now().drop[HFI_DROP_RCVHDRQ_FULL], 8);
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 32);
	put(&h, NULL, 0, false); /* there is room again */
	assert_int_equal(stats_now().rcv_parked, 33);
}

static void overflow__eager_buffer(void **state)
{
	struct hfi_hdr h = pkt_from(0, 3000), empty = pkt_from(1, 0);

	g_fix.refuses = g_fake.is_remote = true;
	for (uint32_t i = 0; i < 4; i++)
		put(&h, bytes, 3000, false);
	assert_int_equal(stats_now().rcv_parked, 2);
	assert_int_equal(stats_now().drop[HFI_DROP_EGR_FULL], 2);
	put(&empty, NULL, 0, false);
	assert_int_equal(stats_now().rcv_parked, 3);
}

static void overflow__never_from_this_host(void **state)
{
	struct hfi_hdr h = pkt_from(0, 3000);

	g_fix.refuses = true;
	for (uint32_t i = 0; i < 100; i++)
		put(&h, bytes, 3000, false);
	assert_int_equal(stats_now().rcv_parked, 100);
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 100);
}

/* The adapter's thread polls the port; what it finds there is shown so. */
static void service__shows_and_parks(void **state)
{
	struct hfi_hdr h = pkt_from(4, 0);
	struct link_port *port = pair_port(NULL);
	struct link_peer *to;

	assert_int_equal(link_peer_get(port, link_port_addr(g_fix.port), &to), 0);
	assert_int_equal(link_send(port, to, &h, sizeof(h), NULL, 0, NULL), 0);
	fake_poll_all();
	assert_int_equal(g_fix.cnt, 1);
	assert_true(g_fix.seen[0].is_service);
	g_fix.refuses = true;
	assert_int_equal(link_send(port, to, &h, sizeof(h), NULL, 0, NULL), 0);
	fake_poll_all();
	assert_int_equal(g_fix.cnt, 1);
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 1);
	assert_int_equal(g_fix.cnt, 2);
	link_peer_put(to);
	link_port_close(port);
}

/* --- who goes --- */

static void gone__told(void **state)
{
	g_fix.c->is_polling = true;
	fake_gone(g_fix.port, &g_fix.from, -ETIMEDOUT);
	g_fix.c->is_polling = false;
	assert_int_equal(g_fix.cnt, 1);
	assert_true(g_fix.seen[0].is_gone);
	assert_int_equal(g_fix.seen[0].status, -ETIMEDOUT);
	assert_ptr_equal(g_fix.seen[0].src, g_fix.dst);
}

/* What waits comes before its sender's end, and what a successor sends after it, though it would be taken at once. */
static void gone__in_its_place(void **state)
{
	struct hfi_hdr h = pkt_from(1, 0);

	g_fix.refuses = true;
	put(&h, NULL, 0, false);
	fake_gone(g_fix.port, &g_fix.from, -ECONNREFUSED);
	g_fix.refuses = false;
	h = pkt_from(2, 0);
	put(&h, NULL, 0, false);
	assert_int_equal(g_fix.cnt, 0);
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(g_fix.cnt, 3);
	assert_int_equal(g_fix.seen[0].psn, 1);
	assert_true(g_fix.seen[1].is_gone);
	assert_int_equal(g_fix.seen[2].psn, 2);
	h = pkt_from(3, 0);
	put(&h, NULL, 0, false);
	assert_int_equal(g_fix.cnt, 4);
	assert_true(g_fix.seen[3].is_service);
}

static void gone__of_a_stranger(void **state)
{
	g_fix.from.port++;
	fake_gone(g_fix.port, &g_fix.from, -ECONNREFUSED);
	assert_int_equal(g_fix.cnt, 0);
}

/* --- no memory --- */

static void nomem__parked(void **state)
{
	struct hfi_hdr h = pkt_from(0, 10);

	g_fix.refuses = true;
	mem_fail_nth(1);
	put(&h, bytes, 10, false);
	mem_fail_nth(0);
	assert_int_equal(stats_now().drop[HFI_DROP_RCVHDRQ_FULL], 1);
	assert_int_equal(stats_now().rcv_eager, 0);
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 0);
}

#define TEST(name_) cmocka_unit_test_setup_teardown(name_, fix_open, fix_close)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(door__plain),
		TEST(door__cut_header),
		TEST(door__short),
		TEST(door__length),
		TEST(door__every_field),
		TEST(drop__of_another_job_is_said),
		TEST(door__every_bit),
		TEST(door__limited_members),
		TEST(door__expected),
		TEST(door__strangers),
		TEST(parked__shown_in_order),
		TEST(parked__not_if_taken),
		TEST(parked__closed_with_the_context),
		TEST(overflow__header_queue),
		TEST(overflow__eager_buffer),
		TEST(overflow__never_from_this_host),
		TEST(service__shows_and_parks),
		TEST(gone__told),
		TEST(gone__in_its_place),
		TEST(gone__of_a_stranger),
		TEST(nomem__parked),
	};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 3 + 1);
	fix_env("");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
