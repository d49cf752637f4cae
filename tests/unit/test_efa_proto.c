// SPDX-License-Identifier: BSD-2-Clause
// Protocol v4 on the wire: hand-derived byte vectors, sizes (doc/facts/efa.md#packets), and a door that survives
// anything.
#include "prov/efa/efa_proto.h"

#include <string.h>

#include "unit.h"

static const uint8_t addr[32] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x34, 0x12, 0, 0, 0x78, 0x56,
				 0x34, 0x12};

/* "40 04 05 00 ..": hex with blanks to bytes; AA stands for the 32-byte address above. */
static size_t hex(const char *text, uint8_t *out)
{
	size_t n = 0;

	for (const char *p = text; *p; p++) {
		char b[3] = {p[0], p[0] == ' ' ? 0 : p[1], 0};

		if (*p == ' ' || *p == '|')
			continue;
		if (*p == '@') {
			memcpy(out + n, addr, sizeof(addr));
			n += sizeof(addr);
			continue;
		}
		out[n++] = (uint8_t)strtoul(b, NULL, 16);
		p++;
	}
	return n;
}

struct golden {
	const char *hex;
	struct efa_hdr h;
};

static const struct golden golden[] = {
	{"40 04 05 00 | 00000000 | 24000000 @ 00000000", {.type = EFA_PKT_EAGER_MSGRTM, .flags = 0x0005}},
	{"40 04 04 80 | 07000000 | 78563412",
	 {.type = EFA_PKT_EAGER_MSGRTM, .flags = 0x8004, .msg_id = 7, .connid = 0x12345678}},
	{"41 04 0E 80 | 01000000 | 8877665544332211 | EFBEADDE00000000 | 78563412",
	 {.type = EFA_PKT_EAGER_TAGRTM, .flags = 0x800e, .msg_id = 1, .tag = 0x1122334455667788, .data = 0xdeadbeef,
	  .connid = 0x12345678}},
	{"09 04 03 80 | 04000000 | 7B00000000000000 | 78563412 00000000 | 0807060504030201 | A1EF0000 00000000",
	 {.type = EFA_PKT_HANDSHAKE, .flags = 0x8003, .nextra_p3 = 4, .extra_info = {0x7b}, .connid = 0x12345678,
	  .host_id = 0x0102030405060708, .device_version = 0xefa1}},
	{"46 04 01 00 | 00000000 | 24000000 @ 00000000", {.type = EFA_PKT_EAGER_RTW, .flags = 0x0001}},
	{"03 04 00 80 | 78563412 | 01000000 | 02000000 | 00580400 00000000",
	 {.type = EFA_PKT_CTS, .flags = 0x8000, .connid = 0x12345678, .send_id = 1, .recv_id = 2, .recv_len = 0x45800}},
	{"04 04 00 80 | 02000000 | 0000000000000000 | C022000000000000 | 78563412 00000000",
	 {.type = EFA_PKT_CTSDATA, .flags = 0x8000, .recv_id = 2, .seg_len = 0, .seg_off = 8896, .connid = 0x12345678}},
	{"05 04 00 80 | 78563412 | 02000000 | 01000000 | 0000000000000000",
	 {.type = EFA_PKT_READRSP, .flags = 0x8000, .connid = 0x12345678, .recv_id = 2, .send_id = 1}},
	{"07 04 00 80 | 01000000 | 02000000 | 78563412",
	 {.type = EFA_PKT_EOR, .flags = 0x8000, .send_id = 1, .recv_id = 2, .connid = 0x12345678}},
	{"08 04 00 80 | 78563412 | 00000000 | 02000000 | 0000000000000000",
	 {.type = EFA_PKT_ATOMRSP, .flags = 0x8000, .connid = 0x12345678, .recv_id = 2}},
	{"0A 04 00 80 | 01000000 | 09000000 | 78563412",
	 {.type = EFA_PKT_RECEIPT, .flags = 0x8000, .send_id = 1, .msg_id = 9, .connid = 0x12345678}},
	{"0B 04 00 80 | 01000000 | 02000000 | 78563412",
	 {.type = EFA_PKT_READ_NACK, .flags = 0x8000, .send_id = 1, .recv_id = 2, .connid = 0x12345678}},
	{"0C 04 00 80 | 01000000 | FFFFFFFF | 78563412",
	 {.type = EFA_PKT_REFUSED, .flags = 0x8000, .send_id = 1, .recv_id = EFA_ID_NONE, .connid = 0x12345678}},
	{"43 04 0C 80 | 05000000 | 0000010000000000 | 1000000000000000 | 0100000000000000 | 78563412",
	 {.type = EFA_PKT_MEDIUM_TAGRTM, .flags = 0x800c, .msg_id = 5, .msg_len = 0x10000, .seg_off = 16, .tag = 1,
	  .connid = 0x12345678}},
	{"44 04 04 80 | 05000000 | 0000100000000000 | 03000000 | 20000000 | 78563412",
	 {.type = EFA_PKT_LONGCTS_MSGRTM, .flags = 0x8004, .msg_id = 5, .msg_len = 0x100000, .send_id = 3, .credit = 32,
	  .connid = 0x12345678}},
	{"81 04 0C 80 | 05000000 | 0000100000000000 | 03000000 | 01000000 | 0200000000000000 | 78563412 |"
	 "0010000000000000 0000100000000000 0700000000000000",
	 {.type = EFA_PKT_LONGREAD_TAGRTM, .flags = 0x800c, .msg_id = 5, .msg_len = 0x100000, .send_id = 3,
	  .read_iov_cnt = 1,
	  .tag = 2, .connid = 0x12345678, .read_iov = {{0x1000, 0x100000, 7}}}},
	{"4C 04 20 80 | 06000000 | 01000000 | 06000000 | 0C000000 | 04000000 | 0010000000000000 0000000000000000 "
	 "0700000000000000 |"
	 "78563412",
	 {.type = EFA_PKT_COMPARE_RTA, .flags = 0x8020, .msg_id = 6, .rma_iov_cnt = 1, .atomic_dt = 6, .atomic_op = 12,
	  .recv_id = 4, .rma_iov = {{0x1000, 0, 7}}, .connid = 0x12345678}},
	{"48 04 00 80 | 01000000 | 0010000000000000 | 04000000 | 00100000 | 0020000000000000 0010000000000000 "
	 "0700000000000000 |"
	 "78563412",
	 {.type = EFA_PKT_SHORT_RTR, .flags = 0x8000, .rma_iov_cnt = 1, .msg_len = 0x1000, .recv_id = 4,
	  .recv_len32 = 0x1000,
	  .rma_iov = {{0x2000, 0x1000, 7}}, .connid = 0x12345678}},
};

static void encode__golden_vectors(void **state)
{
	uint8_t want[512], got[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		struct efa_hdr h = golden[i].h;
		size_t len = hex(golden[i].hex, want);

		memcpy(h.raw_addr, addr, sizeof(addr));
		assert_int_equal(efa_pkt_hdr_len(&h), len);
		assert_int_equal(efa_pkt_encode(&h, got, sizeof(got)), len);
		assert_memory_equal(got, want, len);
	}
}

static void decode__golden_vectors(void **state)
{
	uint8_t bytes[512], again[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		size_t len = hex(golden[i].hex, bytes), off;
		struct view v = view_of(bytes, (uint32_t)len);
		struct efa_hdr h;

		assert_int_equal(efa_pkt_decode(&v, &h, &off), EFA_DROP_NONE);
		assert_int_equal(off, len);
		assert_int_equal(h.type, golden[i].h.type);
		assert_int_equal(efa_pkt_encode(&h, again, sizeof(again)), len);
		assert_memory_equal(again, bytes, len);
	}
}

static void table__lengths_are_the_sum_of_fields(void **state)
{
	(void)state;
	for (unsigned t = 0; t < EFA_PKT_NUM; t++) {
		const struct efa_pkt_desc *d = &efa_pkt_tab[t];
		size_t len = 4;

		if (!d->name)
			continue;
		for (const struct efa_field *f = d->field; f->width; f++)
			len += f->width;
		assert_int_equal(len, d->fixed_len);
	}
}

/* Payload capacities (MTU 8928, no CQ data). Source: doc/facts/efa.md#packets. */
static void hdr_len__capacities(void **state)
{
	static const struct {
		uint8_t type;
		uint16_t flags;
		uint32_t rma, read;
		size_t cap;
	} rows[] = {
		{EFA_PKT_EAGER_MSGRTM, EFA_FLAG_RAW_ADDR, 0, 0, 8880},
		{EFA_PKT_EAGER_MSGRTM, EFA_FLAG_CONNID, 0, 0, 8916},
		{EFA_PKT_EAGER_TAGRTM, EFA_FLAG_RAW_ADDR, 0, 0, 8872},
		{EFA_PKT_EAGER_TAGRTM, EFA_FLAG_CONNID, 0, 0, 8908},
		{EFA_PKT_DC_EAGER_TAGRTM, EFA_FLAG_CONNID, 0, 0, 8900},
		{EFA_PKT_LONGCTS_MSGRTM, EFA_FLAG_RAW_ADDR, 0, 0, 8864},
		{EFA_PKT_LONGCTS_MSGRTM, EFA_FLAG_CONNID, 0, 0, 8900},
		{EFA_PKT_EAGER_RTW, EFA_FLAG_CONNID, 1, 0, 8892},
		{EFA_PKT_DC_EAGER_RTW, EFA_FLAG_CONNID, 1, 0, 8884},
		{EFA_PKT_READRSP, EFA_FLAG_CONNID, 0, 0, 8904},
		{EFA_PKT_CTSDATA, EFA_FLAG_CONNID, 0, 0, 8896},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct efa_hdr h = {.type = rows[i].type, .flags = rows[i].flags, .rma_iov_cnt = rows[i].rma};

		assert_int_equal(8928 - efa_pkt_hdr_len(&h), rows[i].cap);
	}
}

static enum efa_drop decode(const void *bytes, size_t len)
{
	/* a heap copy of the exact size, so that a sanitizer sees any byte read beyond it */
	uint8_t *copy = calloc(1, len ? len : 1);
	struct view v = view_of(copy, (uint32_t)len);
	struct efa_hdr h;
	size_t off = 0;
	enum efa_drop why;

	assert_non_null(copy);
	memcpy(copy, bytes, len);
	why = efa_pkt_decode(&v, &h, &off);
	if (!why)
		assert_in_range(off, 4, len);
	free(copy);
	return why;
}

static void decode__every_truncation_is_refused(void **state)
{
	uint8_t bytes[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		size_t len = hex(golden[i].hex, bytes);

		for (size_t n = 0; n < len; n++)
			assert_int_not_equal(decode(bytes, n), EFA_DROP_NONE);
	}
}

static void decode__names_the_reason(void **state)
{
	uint8_t b[512];
	size_t len;

	(void)state;
	assert_int_equal(decode("\x01\x04\0\0", 4), EFA_DROP_DEPRECATED);
	assert_int_equal(decode("\x94\x04\0\0", 4), EFA_DROP_TYPE);
	assert_int_equal(decode("\x40\x03\0\0\0\0\0\0", 8), EFA_DROP_VERSION);
	len = hex("46 04 00 00 | 05000000", b); /* five rma_iov */
	assert_int_equal(decode(b, len), EFA_DROP_COUNT);
	len = hex("40 04 05 00 | 00000000 | FFFFFFFF @ 00000000", b);
	assert_int_equal(decode(b, len), EFA_DROP_ADDR_LEN);
	len = hex("42 04 04 00 | 00000000 | 0400000000000000 | 0200000000000000 | 01 02 03", b); /* 3 bytes at 2 of 4 */
	assert_int_equal(decode(b, len), EFA_DROP_LENGTH);
	/* 2 bytes announced as 5 */
	len = hex("04 04 00 00 | 02000000 | 0500000000000000 | 0000000000000000 | 01 02", b);
	assert_int_equal(decode(b, len), EFA_DROP_LENGTH);
	len = hex("09 04 00 00 | FFFFFFFF", b);
	assert_int_equal(decode(b, len), EFA_DROP_COUNT);
}

static void decode__survives_garbage(void **state)
{
	struct rng rng = unit_rng();
	uint8_t b[256];
	unsigned accepted = 0;

	(void)state;
	for (int i = 0; i < 300000; i++) {
		size_t len = rng_below(&rng, sizeof(b));

		for (size_t k = 0; k < len; k++)
			b[k] = (uint8_t)rng_u64(&rng);
		if (len > 1 && rng_chance(&rng, 0.9)) {
			b[0] = (uint8_t)rng_below(&rng, EFA_PKT_NUM);
			b[1] = 4;
		}
		accepted += decode(b, len) == EFA_DROP_NONE;
	}
	assert_true(accepted > 100); /* the loop reaches beyond the first checks */
}

/* The short cut writes and reads what the table does, and leaves everything else alone. */
static void eager__as_the_table(void **state)
{
	struct rng rng = unit_rng();
	struct efa_eager e = {0};

	(void)state;
	for (int i = 0; i < 1000; i++) {
		bool tagged = i & 1;
		struct efa_hdr h = {
			.type = tagged ? EFA_PKT_EAGER_TAGRTM : EFA_PKT_EAGER_MSGRTM,
			.flags = EFA_FLAG_CONNID | EFA_FLAG_MSG | (tagged ? EFA_FLAG_TAGGED : 0),
			.msg_id = (uint32_t)rng_u64(&rng),
			.tag = rng_u64(&rng),
			.connid = (uint32_t)rng_u64(&rng),
		};
		uint8_t a[EFA_HDR_MAX] = {0}, b[EFA_HDR_MAX] = {0};
		size_t len = efa_pkt_encode(&h, a, sizeof(a));
		struct view v = view_of(a, (uint32_t)len);

		assert_int_equal(efa_eager_encode(b, tagged, h.msg_id, h.tag, h.connid), len);
		assert_memory_equal(a, b, sizeof(a));
		assert_true(efa_eager_decode(v.seg[0].p, v.len, &e));
		assert_int_equal(e.tagged, tagged);
		assert_int_equal(e.hdr_len, len);
		assert_int_equal(e.msg_id, h.msg_id);
		assert_true(e.tag == (tagged ? h.tag : 0));
		for (uint32_t n = 0; n < len; n++) {
			v = view_of(a, n);
			assert_false(efa_eager_decode(v.seg[0].p, v.len, &e));
		}
		v = view_of(a, (uint32_t)len);
		a[rng_below(&rng, 4)] ^= (uint8_t)(1u << rng_below(&rng, 8));
		if (!efa_eager_decode(v.seg[0].p, v.len, &e))
			continue;
		/* type 64 and 65 with the flags of the other one do not exist */
		fail_msg("a changed base header passed");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encode__golden_vectors),
		cmocka_unit_test(decode__golden_vectors),
		cmocka_unit_test(table__lengths_are_the_sum_of_fields),
		cmocka_unit_test(hdr_len__capacities),
		cmocka_unit_test(decode__every_truncation_is_refused),
		cmocka_unit_test(decode__names_the_reason),
		cmocka_unit_test(decode__survives_garbage),
		cmocka_unit_test(eager__as_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
