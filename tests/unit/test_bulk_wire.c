// SPDX-License-Identifier: BSD-2-Clause
// Bulk messages: golden bytes both ways, every way to be refused, random bytes.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "link/bulk/bulk_wire.h"

#define COMMON(type_, status_) type_, status_, 0, 0, 0x44, 0x33, 0x22, 0x11, 0x88, 0x77, 0x66, 0x55
#define KEY		       0xcc, 0xbb, 0xaa, 0x99
#define ADDR		       8, 7, 6, 5, 4, 3, 2, 1
#define LEN		       0, 0, 0, 0, 1, 0, 0, 0 /* 4 GiB */
#define DST		       9, 8, 7, 6, 5, 4, 3, 2
#define DST_KEY		       0xdd, 0xcc, 0xbb, 0xaa, 0, 0, 0, 0
#define OFF		       0xf0, 0xff, 0xff, 0xff, 0, 0, 0, 0

static const uint8_t golden[BULK_T_NUM][BULK_HDR_MAX] = {
	[BULK_T_GET] = {COMMON(1, 0), KEY, ADDR, LEN},
	[BULK_T_DATA] = {COMMON(2, 0), 0, 0, 0, 0, OFF},
	[BULK_T_PUT] = {COMMON(3, 0), KEY, ADDR, LEN, OFF},
	[BULK_T_REPLY] = {COMMON(4, 2), 0, 0, 0, 0, OFF},
	[BULK_T_STOP] = {COMMON(5, 0)},
	[BULK_T_PING] = {COMMON(6, 0)},
	[BULK_T_HELP] = {COMMON(7, 0), KEY, ADDR, LEN, DST, DST_KEY},
	[BULK_T_OFFER] = {COMMON(8, 0), KEY, ADDR, LEN},
	[BULK_T_AHEAD] = {COMMON(9, 0), KEY, OFF},
};

static struct bulk_pkt sample(enum bulk_type type)
{
	struct bulk_pkt pkt = {.type = type, .id = 0x11223344, .tag = 0x55667788};

	if (bulk_desc[type].has_key)
		pkt.key = 0x99aabbcc;
	if (bulk_desc[type].has_key && type != BULK_T_AHEAD) {
		pkt.addr = 0x0102030405060708;
		pkt.len = 1ULL << 32;
	}
	if (bulk_desc[type].payload_max)
		pkt.off = 0xfffffff0;
	if (type == BULK_T_HELP) {
		pkt.dst = 0x0203040506070809;
		pkt.dst_key = 0xaabbccdd;
	}
	if (type == BULK_T_REPLY) {
		pkt.status = BULK_S_BUSY;
		pkt.bytes = 0xfffffff0;
	}
	return pkt;
}

static void desc__every_row_is_filled(void **state)
{
	for (int t = 1; t < BULK_T_NUM; t++) {
		assert_non_null(bulk_desc[t].name);
		assert_in_range(bulk_desc[t].hdr_len, sizeof(struct bulk_hdr), BULK_HDR_MAX);
		assert_true(bulk_desc[t].payload_min <= bulk_desc[t].payload_max);
	}
	assert_true(BULK_CHUNK + BULK_HDR_MAX <= LINK_FRAME_MAX);
}

static void encode__golden(void **state)
{
	for (int t = 1; t < BULK_T_NUM; t++) {
		struct bulk_pkt pkt = sample((enum bulk_type)t);
		uint8_t buf[BULK_HDR_MAX];
		size_t n = bulk_pkt_encode(&pkt, buf);

		assert_int_equal(n, bulk_desc[t].hdr_len);
		assert_memory_equal(buf, golden[t], n);
	}
}

/* A golden header with @payload bytes behind it, checked. */
static int check(const uint8_t *hdr, size_t hdr_len, size_t payload, struct bulk_pkt *out)
{
	static uint8_t buf[BULK_HDR_MAX + LINK_FRAME_MAX + 64];
	struct view v;

	memcpy(buf, hdr, hdr_len);
	v = view_of(buf, (uint32_t)(hdr_len + payload));
	return bulk_pkt_check(&v, out);
}

static void check__golden(void **state)
{
	for (int t = 1; t < BULK_T_NUM; t++) {
		struct bulk_pkt want = sample((enum bulk_type)t), got;
		uint32_t payload = bulk_desc[t].payload_max ? 16 : 0;

		assert_int_equal(check(golden[t], bulk_desc[t].hdr_len, payload, &got), 0);
		assert_int_equal(got.hdr_len, bulk_desc[t].hdr_len);
		assert_int_equal(got.payload_len, payload);
		assert_int_equal(got.type, want.type);
		assert_int_equal(got.status, want.status);
		assert_int_equal(got.id, want.id);
		assert_int_equal(got.tag, want.tag);
		assert_int_equal(got.key, want.key);
		assert_int_equal(got.addr, want.addr);
		assert_int_equal(got.len, want.len);
		assert_int_equal(got.off, want.off);
		assert_int_equal(got.bytes, want.bytes);
	}
}

static void check__header_in_pieces(void **state)
{
	struct view v = {.len = BULK_HDR_MAX, .seg_cnt = 8};
	struct bulk_pkt pkt;

	for (uint32_t i = 0; i < 8; i++)
		v.seg[i] = (struct view_seg){golden[BULK_T_PUT] + 5 * i, 5};
	assert_int_equal(bulk_pkt_check(&v, &pkt), 0);
	assert_int_equal(pkt.off, 0xfffffff0);
}

static void check__wrong_lengths(void **state)
{
	struct bulk_pkt pkt;

	for (int t = 1; t < BULK_T_NUM; t++) {
		const struct bulk_desc *d = &bulk_desc[t];

		for (size_t n = 0; n < d->hdr_len; n++)
			assert_int_equal(check(golden[t], n, 0, &pkt), -EPROTO);
		assert_int_equal(check(golden[t], d->hdr_len, d->payload_max + 1, &pkt), -EPROTO);
	}
	assert_int_equal(check(golden[BULK_T_DATA], bulk_desc[BULK_T_DATA].hdr_len, 0, &pkt),
			 -EPROTO);
}

static void check__wrong_fields(void **state)
{
	static const struct {
		enum bulk_type type;
		size_t at;
		uint8_t value;
	} bad[] = {
		{BULK_T_GET, 0, 0},   {BULK_T_GET, 0, BULK_T_NUM},
		{BULK_T_GET, 0, 255}, {BULK_T_STOP, 12, 1},
		{BULK_T_GET, 1, 1},   {BULK_T_STOP, 1, 1},
		{BULK_T_PING, 2, 1},  {BULK_T_PING, 3, 1},
		{BULK_T_AHEAD, 1, 99}, {BULK_T_REPLY, 15, 1},
	};
	struct bulk_pkt pkt;
	uint8_t buf[BULK_HDR_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(buf, golden[bad[i].type], sizeof(buf));
		buf[bad[i].at] = bad[i].value;
		assert_int_equal(check(buf, bulk_desc[bad[i].type].hdr_len, 0, &pkt), -EPROTO);
	}
}

/* Of a later version, or nonsense: whoever waits for the answer has to learn that it has come. */
static void check__unknown_status(void **state)
{
	uint8_t buf[BULK_HDR_MAX];
	struct bulk_pkt pkt;

	memcpy(buf, golden[BULK_T_REPLY], sizeof(buf));
	for (int status = 0; status <= UINT8_MAX; status++) {
		buf[1] = (uint8_t)status;
		assert_int_equal(check(buf, bulk_desc[BULK_T_REPLY].hdr_len, 0, &pkt), 0);
		assert_int_equal(pkt.status, MIN(status, (int)BULK_S_NUM));
	}
}

static void check__put_outside_its_operation(void **state)
{
	struct bulk_pkt pkt = {.type = BULK_T_PUT, .len = 100, .off = 90}, out;
	uint8_t buf[BULK_HDR_MAX];

	bulk_pkt_encode(&pkt, buf);
	assert_int_equal(check(buf, sizeof(struct bulk_hdr_put), 10, &out), 0);
	assert_int_equal(check(buf, sizeof(struct bulk_hdr_put), 11, &out), -EPROTO);
	pkt.off = UINT64_MAX - 5; /* off + payload wraps */
	bulk_pkt_encode(&pkt, buf);
	assert_int_equal(check(buf, sizeof(struct bulk_hdr_put), 10, &out), -EPROTO);
}

static void check__random_bytes(void **state)
{
	struct rng r = unit_rng();
	uint8_t buf[BULK_HDR_MAX];
	struct bulk_pkt pkt;
	int taken = 0;

	for (int i = 0; i < 200000; i++) {
		for (size_t k = 0; k < sizeof(buf); k++)
			buf[k] = rng_chance(&r, 0.6) ? 0 : (uint8_t)rng_u64(&r);
		buf[0] = (uint8_t)rng_below(&r, BULK_T_NUM + 1);
		if (check(buf, rng_below(&r, sizeof(buf) + 1), rng_below(&r, 2) * 16, &pkt))
			continue;
		taken++;
		assert_in_range(pkt.type, 1, BULK_T_NUM - 1);
		if (pkt.type == BULK_T_PUT)
			assert_true(pkt.off <= pkt.len && pkt.payload_len <= pkt.len - pkt.off);
	}
	assert_true(taken > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(desc__every_row_is_filled),
		cmocka_unit_test(encode__golden),
		cmocka_unit_test(check__golden),
		cmocka_unit_test(check__header_in_pieces),
		cmocka_unit_test(check__wrong_lengths),
		cmocka_unit_test(check__wrong_fields),
		cmocka_unit_test(check__unknown_status),
		cmocka_unit_test(check__put_outside_its_operation),
		cmocka_unit_test(check__random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
