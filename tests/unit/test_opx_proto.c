// SPDX-License-Identifier: BSD-2-Clause
// The door of the opx protocol: golden headers of every opcode pass, and each of their lies does not.
#include "prov/opx/opx_proto.h"

#include <string.h>

#include "prov/opx/flow/opx_flow.h"
#include "unit.h"

/* What the header says from the opcode on, as it is on the wire. */
struct golden {
	const char *name;
	const char *hex; /* opcode, pad and cut, aux, imm, tag, w[0], w[1] if it is there: little endian, so ordered */
	uint32_t len;    /* payload */
	bool is_bad;
};

static const struct golden golden[] = {
	{"MSG_INJECT", "F8 00 90 78563412 0000000000000000 0102030405060708 090A0B0C0D0E0F10", 0},
	{"MSG_INJECT", "F8 08 00 00000000 0000000000000000 0000000000000000", 0},
	{"MSG_INJECT", "F8 00 11 00000000 0000000000000000 0000000000000000 0000000000000000", 0, true},
	{"MSG_INJECT", "F8 08 08 00000000 0000000000000000 0000000000000000", 1, true},
	{"TAG_INJECT", "FC 08 08 00000000 EFBEADDE00000000 0102030405060708", 0},
	{"TAG_INJECT", "FC 08 09 00000000 EFBEADDE00000000 0102030405060708", 0, true},
	{"TAG_INJECT", "FC 00 08 00000000 EFBEADDE00000000 0102030405060708 0000000000000000", 0},
	{"TAG_INJECT", "FC 00 10 00000000 EFBEADDE00000000 0102030405060708 090A0B0C0D0E0F10", 0},
	{"MSG_EAGER", "F9 08 00 00000000 0000000000000000 0020000000000000", 8192},
	{"MSG_EAGER", "F9 08 00 00000000 0000000000000000 0000000000000000", 0},
	{"MSG_EAGER", "F9 08 00 00000000 0000000000000000 0120000000000000", 8193, true},
	{"MSG_EAGER", "F9 08 00 00000000 0000000000000000 0120000000000000", 8192, true},
	{"TAG_EAGER", "FD 08 80 0D000000 0100000000000000 1100000000000000", 17},
	{"TAG_EAGER", "FD 08 80 0D000000 0100000000000000 1100000001000000", 17, true},
	{"TAG_EAGER", "FD 00 80 0D000000 0100000000000000 1100000000000000 0000000000000000", 17, true},
	{"MSG_MP_EAGER_FIRST", "FA 00 00 00000000 0000000000000000 0130000000000000 0000000000000000", 8192},
	{"MSG_MP_EAGER_FIRST", "FA 08 00 00000000 0000000000000000 0130000000000000", 8192, true},
	{"MSG_MP_EAGER_FIRST", "FA 00 00 00000000 0000000000000000 0020000000000000 0000000000000000", 8192, true},
	{"MSG_MP_EAGER_FIRST", "FA 00 00 00000000 0000000000000000 0020000000000000 0000000000000000", 0, true},
	{"TAG_MP_EAGER_FIRST", "FE 00 00 00000000 0700000000000000 0130000000000000 0000000000000000", 8192},
	{"MP_EAGER_NTH", "F7 00 00 00000000 0000000000000000 0020000000000000 FFFFFF0000000000", 1},
	{"MP_EAGER_NTH", "F7 00 00 00000000 0000000000000000 0020000000000000 0000000100000000", 1, true},
	{"MP_EAGER_NTH", "F7 00 00 00000000 0000000000000000 0020000000000000 0000000000000000", 0, true},
	{"MP_EAGER_NTH", "F7 00 00 00000000 0000000000000000 0020000000000000 0000000000000001", 1, true},
	{"MP_EAGER_NTH", "F7 00 00 00000000 0000000000000000 FFFFFFFFFFFFFFFF 0000000000000000", 1, true},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000002000000", 0},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000003000000", 96},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000001000000", 0, true},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000001000000", 25, true},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000001000000", 120, true},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000002000000", 24, true},
	{"MSG_RZV_RTS", "FB 00 00 00000000 0000000000000000 0000100000000000 0100000004000000", 0, true},
	{"TAG_RZV_RTS", "FF 00 80 01000000 0900000000000000 0000100000000000 0100000001000000", 24},
	{"RZV_CTS", "C1 00 00 02000000 0000100000000000 0100000000000000 0200000003000000", 16},
	{"RZV_CTS", "C1 00 00 00000000 0000100000000000 0100000000000000 0200000003000000", 0},
	{"RZV_CTS", "C1 00 00 02000000 0000100000000000 0100000000000000 0200000003000000", 8, true},
	{"RZV_CTS", "C1 00 00 00000020 0000100000000000 0100000000000000 0200000003000000", 0, true},
	{"RZV_CTS", "C1 00 02 09000000 0000100000000000 0010000000000000 0500000000000000", 0},
	{"RZV_CTS", "C1 00 02 09000000 0000100000000000 0010000000000000 0500000000000000", 48},
	{"RZV_CTS", "C1 00 02 09000000 0000100000000000 0010000000000000 0500000000000000", 49, true},
	{"RZV_CTS", "C1 00 01 09000000 0000100000000000 0010000000000000 0500000000000000", 0, true},
	{"RZV_DATA", "C2 00 00 00000000 0000000000000000 0000100000000000 0200000003000000", 8192},
	{"RZV_DATA", "C2 00 00 00000000 0000000000000000 0000100000000000 0200000003000000", 0, true},
	{"RZV_DATA", "C2 00 01 09000000 0810000000000000 0010000000000000 0500000000000000", 8},
	{"RZV_DATA", "C2 00 01 09000000 0010000000000000 0010000000000000 0500000000000000", 0},
	{"RZV_DATA", "C2 00 01 09000000 0710000000000000 0010000000000000 0500000000000000", 8, true},
	{"RZV_DATA", "C2 00 01 09000000 FFFFFFFFFFFFFFFF F9FFFFFFFFFFFFFF 0500000000000000", 8, true},
	{"RZV_DATA", "C2 00 02 00000000 0800000000000000 0000000000000000 0500000000000000", 8},
	{"RZV_DATA", "C2 00 02 00000000 0700000000000000 0000000000000000 0500000000000000", 8, true},
	{"RZV_DATA", "C2 00 04 00000000 0000000000000000 0000000000000000 0500000000000000", 16},
	{"RZV_DATA", "C2 00 04 00000000 0000000000000000 0000000000000000 0500000000000000", 0, true},
	{"RZV_DATA", "C2 00 03 00000000 0000000000000000 0000000000000000 0500000000000000", 8, true},
	{"RMA", "C3 00 10 09000000 0010000000000000 0010000000000000 0500000000000000", 24},
	{"RMA", "C3 00 10 09000000 0010000000000000 0010000000000000 0500000000000000", 0, true},
	{"RMA", "C3 00 10 09000000 0010000000000000 FFFFFFFFFFFFFFFF 0500000000000000", 24, true},
	{"RMA", "C3 00 11 0D000000 0010000000000000 0010000000000000 0900000000000000", 4},
	{"RMA", "C3 00 11 0D000000 0010000000000000 0010000000000000 0900000000000000", 0, true},
	{"RMA", "C3 00 00 0D000000 0000000000000000 0010000000000000 0900000000000000", 0, true},
	{"ATOMIC", "C4 00 00 09000000 0703010000000000 0010000000000000 0500000000000000", 8},
	{"ATOMIC", "C4 00 00 09000000 0703000000000000 0010000000000000 0500000000000000", 8, true},
	{"ATOMIC", "C4 00 00 09000000 0703010000000000 0010000000000000 0500000000000000", 8193, true},
	{"DONE", "C5 00 00 00000000 0000000000000000 0900000000000000 0800000000000000", 0},
	{"DONE", "C5 08 00 00000000 0000000000000000 0900000000000000", 0, true},
	{"DONE", "C5 00 00 00000000 0000000000000000 0900000000000000 0900000000000000", 0, true},
	{"DONE", "C5 00 00 00000000 0000000000000000 0900000000000000 0000000000000000", 1, true},
	{"UD", "C6 00 01 01000000 0000000000000000 0500000003000000 0000000000000000", 0},
	{"UD", "C6 00 06 00000000 0000000000000000 0000000000000000 0000000000000000", 0},
	{"UD", "C6 00 09 00000000 0000000000000000 0500000000000000 0000000000000000", 0},
	{"UD", "C6 00 00 00000000 0000000000000000 0000000000000000 0000000000000000", 0, true},
	{"UD", "C6 00 07 00000000 0000000000000000 0000000000000000 0000000000000000", 0, true},
	{"UD", "C6 00 0A 00000000 0000000000000000 0000000000000000 0000000000000000", 0, true},
	{"UD", "C6 00 01 01000000 0000000000000000 0500000003000000 0000000000000000", 4, true},
};

static size_t hex(const char *text, uint8_t *out)
{
	size_t n = 0;

	for (const char *p = text; *p; p++) {
		char b[3] = {p[0], p[0] == ' ' ? 0 : p[1], 0};

		if (*p == ' ')
			continue;
		out[n++] = (uint8_t)strtoul(b, NULL, 16);
		p++;
	}
	return n;
}

static struct hfi_hdr hdr_of(const struct golden *g)
{
	struct hfi_hdr h = {0};
	uint8_t b[31] = {0};
	size_t len = hex(g->hex, b);

	h.opcode = b[0];
	h.bth1 = b[1];
	h.aux = b[2];
	assert_int_equal(len, sizeof(b) - sizeof(h) + hfi_hdr_len(&h));
	memcpy((uint8_t *)&h + offsetof(struct hfi_hdr, imm), b + 3, len - 3);
	return h;
}

static void opx_pkt_check__golden_headers(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		struct hfi_hdr h = hdr_of(&golden[i]);
		const char *why = opx_pkt_check(&h, golden[i].len);
		uint8_t kind = h.opcode & (uint8_t)~OPX_TAGGED_BIT;

		if (kind == OPX_MSG_INJECT || kind == OPX_MSG_EAGER)
			assert_int_equal(opx_pkt_is_whole(&h, golden[i].len), !why);
		else
			assert_false(opx_pkt_is_whole(&h, golden[i].len));
		if (!why != !golden[i].is_bad)
			fail_msg("row %zu (%s): %s", i, golden[i].name, why ? why : "passed");
		assert_string_equal(opx_pkt_desc(h.opcode)->name, golden[i].name);
	}
}

/* Where each field lies, counted from the start of the header. */
static void hfi_hdr__places_of_fields(void **state)
{
	struct hfi_hdr h = {.opcode = 1, .ecn = 2, .aux = 3, .psn_tx = le32_put(0x5a123456), .imm = le32_put(4),
			    .tag = le64_put(5)};
	const uint8_t *b = (const uint8_t *)&h;

	(void)state;
	h.w[0] = le64_put(6);
	h.w[1] = le64_put(7);
	assert_int_equal(b[16], 1);
	assert_int_equal(b[20], 2);
	assert_int_equal(b[22], 3);
	assert_int_equal(b[24], 0x56);
	assert_int_equal(b[27], 0x5a);
	assert_int_equal(b[36], 4);
	assert_int_equal(b[40], 5);
	assert_int_equal(b[48], 6);
	assert_int_equal(b[56], 7);
	assert_int_equal(hfi_hdr_psn(&h), 0x123456);
	assert_int_equal(hfi_hdr_tx(&h), 0x5a);
}

static void opx_pkt_desc__every_opcode(void **state)
{
	int msgs = 0, rows = 0;

	(void)state;
	for (int op = 0; op < 256; op++) {
		const struct opx_pkt_desc *d = opx_pkt_desc((uint8_t)op);
		struct hfi_hdr h = {.opcode = (uint8_t)op};

		if (!d) {
			assert_non_null(opx_pkt_check(&h, 0));
			continue;
		}
		rows++;
		msgs += d->is_msg;
		assert_true(d->payload_min <= d->payload_max && d->payload_max <= HFI_MTU);
		if (d->tagged)
			assert_true(d->is_msg && (op & OPX_TAGGED_BIT));
		assert_non_null(opx_pkt_check(&h, d->payload_max + 1));
		assert_non_null(opx_pkt_check(&h, UINT32_MAX));
	}
	assert_int_equal(rows, 15);
	assert_int_equal(msgs, 8);
}

/* Whatever passes keeps within its row. */
static void opx_pkt_check__random_headers(void **state)
{
	struct rng r = unit_rng();

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t raw[8];
		struct hfi_hdr h;
		uint32_t len = (uint32_t)rng_below(&r, rng_below(&r, 2) ? 64 : 10000);

		for (size_t k = 0; k < ARRAY_SIZE(raw); k++)
			raw[k] = rng_u64(&r) >> rng_below(&r, 64);
		memcpy(&h, raw, sizeof(h));
		h.opcode |= 0xc0;
		/* the short check is never the looser one */
		assert_true(!opx_pkt_is_whole(&h, len) || !opx_pkt_check(&h, len));
		if (opx_pkt_check(&h, len))
			continue;
		if (h.opcode == OPX_TAG_INJECT)
			assert_true((h.aux & OPX_AUX_LEN) <= hfi_hdr_len(&h) - offsetof(struct hfi_hdr, w));
		assert_non_null(opx_pkt_desc(h.opcode));
		assert_in_range(len, opx_pkt_desc(h.opcode)->payload_min, opx_pkt_desc(h.opcode)->payload_max);
		if (h.opcode == OPX_MSG_EAGER)
			assert_int_equal(le64_get(h.w[0]), len);
		if (h.opcode == OPX_RZV_DATA && h.aux == OPX_SUB_PUT)
			assert_true(le64_get(h.w[0]) + len <= le64_get(h.tag));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opx_pkt_check__golden_headers),
		cmocka_unit_test(hfi_hdr__places_of_fields),
		cmocka_unit_test(opx_pkt_desc__every_opcode),
		cmocka_unit_test(opx_pkt_check__random_headers),
	};

	return cmocka_run_group_tests_name("opx_proto", tests, NULL, NULL);
}
