// SPDX-License-Identifier: BSD-2-Clause
// Frame formats: golden bytes both ways, every reason of the door, random bytes.
#include "unit.h"

#include <string.h>

#include "nic/efanic/efanic_wire.h"

static const uint8_t golden[EFANIC_PKT_NUM][16] = {
	[EFANIC_PKT_SEND] = {1, 1, 0, 0, 0x78, 0x56, 0x34, 0x12},
	[EFANIC_PKT_SEND_IMM] = {1, 2, 0, 0, 0x78, 0x56, 0x34, 0x12, 0xef, 0xbe, 0xad, 0xde},
	[EFANIC_PKT_WRITE_IMM] = {1, 3, 0, 0, 0x78, 0x56, 0x34, 0x12, 0xef, 0xbe, 0xad, 0xde, 0, 0,
				  1, 0},
};

static void pkt__every_row_is_filled(void **state)
{
	for (unsigned op = 1; op < EFANIC_PKT_NUM; op++) {
		assert_non_null(efanic_pkt[op].name);
		assert_in_range(efanic_pkt[op].hdr_len, sizeof(struct efanic_hdr), EFANIC_HDR_MAX);
	}
	for (unsigned d = 0; d < EFANIC_DROP_NUM; d++)
		assert_non_null(efanic_drop_name[d]);
}

static void encode__golden(void **state)
{
	uint8_t buf[EFANIC_HDR_MAX];

	for (unsigned op = 1; op < EFANIC_PKT_NUM; op++) {
		size_t n = efanic_pkt_encode(op, 0x12345678, 0xdeadbeef, 65536, buf);

		assert_int_equal(n, efanic_pkt[op].hdr_len);
		assert_memory_equal(buf, golden[op], n);
	}
}

static void check__golden(void **state)
{
	for (unsigned op = 1; op < EFANIC_PKT_NUM; op++) {
		struct view v = view_of(golden[op], efanic_pkt[op].hdr_len);
		struct efanic_pkt_in in;

		assert_int_equal(efanic_pkt_check(&v, &in), EFANIC_DROP_NONE);
		assert_int_equal(in.op, op);
		assert_int_equal(in.qkey, 0x12345678);
		assert_int_equal(in.has_imm, op != EFANIC_PKT_SEND);
		assert_int_equal(in.imm, op == EFANIC_PKT_SEND ? 0 : 0xdeadbeef);
		assert_int_equal(in.len, op == EFANIC_PKT_WRITE_IMM ? 65536 : 0);
		assert_int_equal(in.payload_len, 0);
	}
}

static void check__header_in_pieces(void **state)
{
	struct view v = {.len = 16, .seg_cnt = 8};
	struct efanic_pkt_in in;

	for (unsigned i = 0; i < 8; i++)
		v.seg[i] = (struct view_seg){golden[EFANIC_PKT_WRITE_IMM] + 2 * i, 2};
	assert_int_equal(efanic_pkt_check(&v, &in), EFANIC_DROP_NONE);
	assert_int_equal(in.imm, 0xdeadbeef);
	assert_int_equal(in.len, 65536);
}

static enum efanic_drop check_changed(unsigned op, size_t at, uint8_t val, uint32_t len)
{
	static uint8_t buf[EFANIC_MTU + 64];
	struct efanic_pkt_in in;
	struct view v = view_of(buf, len);

	memset(buf, 0, sizeof(buf));
	memcpy(buf, golden[op], 16);
	if (at < sizeof(buf))
		buf[at] = val;
	return efanic_pkt_check(&v, &in);
}

static void check__every_reason(void **state)
{
	const size_t none = SIZE_MAX;

	for (unsigned op = 1; op < EFANIC_PKT_NUM; op++) {
		uint32_t hdr_len = efanic_pkt[op].hdr_len,
			 max = hdr_len + efanic_pkt[op].payload_max;

		for (uint32_t len = 0; len < hdr_len; len++)
			assert_int_equal(check_changed(op, none, 0, len), EFANIC_DROP_SHORT);
		assert_int_equal(check_changed(op, none, 0, max), EFANIC_DROP_NONE);
		assert_int_equal(check_changed(op, none, 0, max + 1), EFANIC_DROP_LENGTH);
		assert_int_equal(check_changed(op, 0, 2, max), EFANIC_DROP_VERSION);
		assert_int_equal(check_changed(op, 1, 0, max), EFANIC_DROP_OP);
		assert_int_equal(check_changed(op, 1, EFANIC_PKT_NUM, max), EFANIC_DROP_OP);
		assert_int_equal(check_changed(op, 1, 255, max), EFANIC_DROP_OP);
		assert_int_equal(check_changed(op, 2, 1, max), EFANIC_DROP_RESERVED);
		assert_int_equal(check_changed(op, 3, 1, max), EFANIC_DROP_RESERVED);
	}
}

/* Whatever passes must be inside of its own bounds. */
static void check__random(void **state)
{
	struct rng rng = unit_rng();

	for (int i = 0; i < 200000; i++) {
		uint32_t len = (uint32_t)rng_below(&rng, 24);
		uint8_t *buf = malloc(len ? len : 1);
		struct view v = view_of(buf, len);
		struct efanic_pkt_in in;

		for (uint32_t k = 0; k < len; k++)
			buf[k] = (uint8_t)rng_below(&rng, k < 4 ? 5 : 256);
		if (efanic_pkt_check(&v, &in) == EFANIC_DROP_NONE) {
			assert_in_range(in.op, 1, EFANIC_PKT_NUM - 1);
			assert_int_equal(in.hdr_len + in.payload_len, len);
		}
		free(buf);
	}
}

static void drop_status__is_remote(void **state)
{
	assert_int_equal(efanic_drop_status(EFANIC_DROP_NONE), EFANIC_OK);
	for (unsigned d = 1; d < EFANIC_DROP_NUM; d++) {
		uint8_t status = efanic_drop_status(d);

		assert_int_equal(efanic_refusal_status(status), status);
	}
}

static void refusal_status__any_byte(void **state)
{
	for (int code = 1; code < 256; code++) {
		uint8_t status = efanic_refusal_status(code);

		assert_in_range(status, EFANIC_REMOTE_BAD_ADDRESS, EFANIC_REMOTE_FEATURE_MISMATCH);
		assert_true(status == code || status == EFANIC_REMOTE_BAD_STATUS);
	}
	assert_int_equal(efanic_refusal_status(EFANIC_LOCAL_UNRESP_REMOTE),
			 EFANIC_REMOTE_BAD_STATUS);
	assert_int_equal(efanic_refusal_status(EFANIC_FLUSHED), EFANIC_REMOTE_BAD_STATUS);
}

static void grh_encode__ipv6_header(void **state)
{
	const uint8_t sgid[16] = {1}, dgid[16] = {2};
	struct efanic_grh grh;

	efanic_grh_encode(&grh, sgid, dgid, 300);
	assert_int_equal(be32_get(grh.ver_class_flow) >> 28, 6);
	assert_int_equal(be16_get(grh.payload_len), 300);
	assert_memory_equal(grh.sgid, sgid, 16);
	assert_memory_equal(grh.dgid, dgid, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pkt__every_row_is_filled),
		cmocka_unit_test(encode__golden),
		cmocka_unit_test(check__golden),
		cmocka_unit_test(check__header_in_pieces),
		cmocka_unit_test(check__every_reason),
		cmocka_unit_test(check__random),
		cmocka_unit_test(drop_status__is_remote),
		cmocka_unit_test(refusal_status__any_byte),
		cmocka_unit_test(grh_encode__ipv6_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
