// SPDX-License-Identifier: BSD-2-Clause
// Frames of the soft Cassini adapter: golden bytes, every drop reason, round trips, mutations.
#include "unit.h"

#include <string.h>

#include "nic/cassini/cassini_int.h"

#define ID 0x02800003u /* PID 5, NIC 3 */


struct golden {
	const char *name;
	struct cassini_pkt_in pkt;
	uint32_t payload_len;
	uint8_t bytes[96];
	uint32_t len; /* of the header, operands included */
};

/* VNI 10, PID 300 */
#define WHERE .vni = 10, .pid = 300
#define WHERE_B 0x0a, 0x00, 0x2c, 0x01
#define ID_B 0x03, 0x00, 0x80, 0x02
#define OFF_B 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01
#define BITS_B 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11
#define DATA_B 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21
#define ADDR_B 0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31
#define OFFS .remote_offset = 0x0102030405060708, .match_bits = 0x1112131415161718
#define DATA .header_data = 0x2122232425262728

static const struct golden golden[] = {
	{"PUT", {.op = CASSINI_PKT_PUT, .flags = 3, .pid_idx = 9, WHERE, .initiator = ID, .request_len = 5, OFFS, DATA},
	 5,
	 {0x11, 3, 9, 0, WHERE_B, ID_B, 5, 0, 0, 0, OFF_B, BITS_B, DATA_B}, 40},
	{"PUT_BULK",
	 {.op = CASSINI_PKT_PUT_BULK, .pid_idx = 9, WHERE, .initiator = ID, .request_len = 0x100000, OFFS, DATA,
	  .handle = 0x41, .region = 0x51,
	  .raddr = 0x3132333435363738},
	 0,
	 {0x12, 0, 9, 0, WHERE_B, ID_B, 0, 0, 0x10, 0, OFF_B, BITS_B, DATA_B, 0x41, 0, 0, 0, 0x51, 0, 0, 0, ADDR_B},
	 56},
	{"RPUT",
	 {.op = CASSINI_PKT_RPUT, .pid_idx = 9, .rendezvous_id = 0xab, WHERE, .initiator = ID, .request_len = 0x200,
	  OFFS, DATA, .handle = 0x41,
	  .region = 0x51, .get_bits = 0x3132333435363738},
	 100,
	 {0x13, 0, 9, 0xab, WHERE_B, ID_B, 0, 2, 0, 0, OFF_B, BITS_B, DATA_B, 0x41, 0, 0, 0, 0x51, 0, 0, 0, ADDR_B},
	 56},
	{"GET",
	 {.op = CASSINI_PKT_GET, .flags = 1, .pid_idx = 9, WHERE, .initiator = ID, .request_len = 0x10000, OFFS,
	  .handle = 0x41, .region = 0x51,
	  .raddr = 0x3132333435363738},
	 0,
	 {0x14, 1, 9, 0, WHERE_B, ID_B, 0, 0, 1, 0, OFF_B, BITS_B, 0x41, 0, 0, 0, 0x51, 0, 0, 0, ADDR_B}, 48},
	{"ATOMIC",
	 {.op = CASSINI_PKT_ATOMIC, .flags = 5, .pid_idx = 9, WHERE, .initiator = ID, .request_len = 8, OFFS, DATA,
	  .amo = {CASSINI_AMO_SUM, CASSINI_T_U64, 0, {0x3132333435363738, 0}, {0, 1}}},
	 0,
	 {0x15, 5, 9, 0, WHERE_B, ID_B, 8, 0, 0, 0, OFF_B, BITS_B, DATA_B, 2, 7, 0, 0, 0, 0, 0, 0, ADDR_B, 0, 0, 0, 0,
	  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	  0, 1, 0, 0, 0, 0, 0, 0, 0},
	 80},
	{"FETCH",
	 {.op = CASSINI_PKT_FETCH, .pid_idx = 9, WHERE, .initiator = ID, .request_len = 16, OFFS, DATA, .handle = 0x41,
	  .amo = {CASSINI_AMO_CSWAP, CASSINI_T_U128, CASSINI_CSWAP_GT, {0x3132333435363738, 0}, {0, 1}}},
	 0,
	 {0x16, 0, 9, 0, WHERE_B, ID_B, 16, 0, 0, 0, OFF_B, BITS_B, DATA_B, 11, 12, 5, 0, 0x41, 0, 0, 0, ADDR_B, 0, 0,
	  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	  0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
	 80},
	{"REPLY", {.op = CASSINI_PKT_REPLY, .rc = CASSINI_RC_OK, .ptl_list = CASSINI_REQUEST, WHERE, .request_len = 7,
		   .handle = 0x41}, 7,
	 {0x17, 0, 1, 2, WHERE_B, 0x41, 0, 0, 0, 7, 0, 0, 0}, 16},
	{"RGET_DONE",
	 {.op = CASSINI_PKT_RGET_DONE, .rc = CASSINI_RC_NO_TRANSLATION, WHERE, .initiator = ID, .request_len = 0x300,
	  .match_bits = 0x1112131415161718, .get_bits = 0x1112131415161718,
	  .handle = 0x41},
	 0,
	 {0x18, 0, 36, 0, WHERE_B, ID_B, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, BITS_B, 0x41, 0, 0, 0}, 36},
	{"PING", {.op = CASSINI_PKT_PING, WHERE, .initiator = ID}, 0, {0x19, 0, 0, 0, WHERE_B, ID_B, 0, 0, 0, 0}, 16},
};

static void pkt_equal(const struct cassini_pkt_in *a, const struct cassini_pkt_in *b)
{
	assert_int_equal(a->op, b->op);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->pid_idx, b->pid_idx);
	assert_int_equal(a->rendezvous_id, b->rendezvous_id);
	assert_int_equal(a->rc, b->rc);
	assert_int_equal(a->ptl_list, b->ptl_list);
	assert_int_equal(a->vni, b->vni);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->initiator, b->initiator);
	assert_int_equal(a->request_len, b->request_len);
	assert_int_equal(a->handle, b->handle);
	assert_int_equal(a->region, b->region);
	assert_int_equal(a->remote_offset, b->remote_offset);
	assert_int_equal(a->match_bits, b->match_bits);
	assert_int_equal(a->header_data, b->header_data);
	assert_int_equal(a->raddr, b->raddr);
	assert_int_equal(a->get_bits, b->get_bits);
	assert_int_equal(a->amo.op, b->amo.op);
	assert_int_equal(a->amo.type, b->amo.type);
	assert_int_equal(a->amo.cswap, b->amo.cswap);
	assert_memory_equal(a->amo.op1, b->amo.op1, sizeof(a->amo.op1));
	assert_memory_equal(a->amo.op2, b->amo.op2, sizeof(a->amo.op2));
}

/* @len bytes at @bytes in pieces of @step, each on the heap so that a sanitizer sees its end. */
static enum cassini_drop check_cut(const uint8_t *bytes, size_t len, size_t step, struct cassini_pkt_in *out)
{
	struct view v = {.len = (uint32_t)len};
	uint8_t *mem[VIEW_SEG_MAX];
	enum cassini_drop drop;

	step = MAX(step, DIV_ROUND_UP(len, VIEW_SEG_MAX));
	for (size_t off = 0; off < len; off += step) {
		size_t n = MIN(step, len - off);

		mem[v.seg_cnt] = malloc(n);
		assert_non_null(mem[v.seg_cnt]);
		memcpy(mem[v.seg_cnt], bytes + off, n);
		v.seg[v.seg_cnt] = (struct view_seg){mem[v.seg_cnt], (uint32_t)n};
		v.seg_cnt++;
	}
	drop = cassini_pkt_check(&v, out);
	for (unsigned i = 0; i < v.seg_cnt; i++)
		free(mem[i]);
	return drop;
}

static enum cassini_drop check(const uint8_t *bytes, size_t len)
{
	struct cassini_pkt_in out;

	return check_cut(bytes, len, len, &out);
}

/* The golden frame of @op with its payload at @buf. */
static size_t frame_of(unsigned op, uint8_t *buf)
{
	const struct golden *g = &golden[op - 1];

	memset(buf, 0xee, g->len + g->payload_len);
	memcpy(buf, g->bytes, g->len);
	return g->len + g->payload_len;
}

static void encode__golden_bytes(void **state)
{
	uint8_t buf[CASSINI_ENCODE_MAX];

	(void)state;
	assert_int_equal(ARRAY_SIZE(golden), CASSINI_PKT_NUM - 1);
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		const struct golden *g = &golden[i];

		assert_int_equal(g->pkt.op, i + 1);
		assert_string_equal(g->name, cassini_pkt[g->pkt.op].name);
		memset(buf, 0xcc, sizeof(buf));
		assert_int_equal(cassini_pkt_encode(&g->pkt, buf), g->len);
		assert_memory_equal(buf, g->bytes, g->len);
		assert_int_equal(buf[g->len], 0xcc);
	}
}

static void check__golden_bytes(void **state)
{
	uint8_t buf[1024];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(golden); i++) {
		const struct golden *g = &golden[i];
		size_t len = frame_of(g->pkt.op, buf);

		for (size_t step = 1; step <= len; step++) {
			struct cassini_pkt_in out;

			memset(&out, 0xaa, sizeof(out));
			assert_int_equal(check_cut(buf, len, step, &out), CASSINI_DROP_NONE);
			pkt_equal(&out, &g->pkt);
			assert_int_equal(out.hdr_len, g->len);
			assert_int_equal(out.payload_len, g->payload_len);
		}
	}
}

static void check__short(void **state)
{
	uint8_t buf[1024];

	(void)state;
	for (unsigned op = 1; op < CASSINI_PKT_NUM; op++) {
		size_t hdr_len = cassini_pkt[op].hdr_len;

		frame_of(op, buf);
		for (size_t len = 0; len < hdr_len; len++)
			assert_int_equal(check(buf, len), CASSINI_DROP_SHORT);
		assert_int_not_equal(check(buf, hdr_len), CASSINI_DROP_SHORT);
	}
}

static void check__version_and_op(void **state)
{
	uint8_t buf[1024];
	size_t len = frame_of(CASSINI_PKT_PUT, buf);

	(void)state;
	for (unsigned v = 0; v < 16; v++) {
		buf[0] = (uint8_t)(v << 4 | CASSINI_PKT_PUT);
		assert_int_equal(check(buf, len), v == CASSINI_WIRE_VERSION ? CASSINI_DROP_NONE : CASSINI_DROP_VERSION);
	}
	buf[0] = CASSINI_WIRE_VERSION << 4;
	assert_int_equal(check(buf, len), CASSINI_DROP_OP);
	for (unsigned op = CASSINI_PKT_NUM; op < 16; op++) {
		buf[0] = (uint8_t)(CASSINI_WIRE_VERSION << 4 | op);
		assert_int_equal(check(buf, len), CASSINI_DROP_OP);
	}
}

struct poke {
	unsigned op, off;
	uint8_t value;
	enum cassini_drop drop;
};

static void pokes(const struct poke *p, size_t cnt)
{
	uint8_t buf[1024];

	for (size_t i = 0; i < cnt; i++) {
		size_t len = frame_of(p[i].op, buf);

		buf[p[i].off] = p[i].value;
		if (check(buf, len) != p[i].drop)
			fail_msg("%s: byte %u = 0x%02x gave %s, not %s", cassini_pkt[p[i].op].name, p[i].off,
				 p[i].value,
				 cassini_drop_name[check(buf, len)], cassini_drop_name[p[i].drop]);
	}
}

static void check__reserved(void **state)
{
	static const struct poke p[] = {
		{CASSINI_PKT_PUT, 1, 16, CASSINI_DROP_RESERVED},	      /* unknown flag */
		{CASSINI_PKT_PUT, 1, 4, CASSINI_DROP_RESERVED},	      /* HRP, but not restricted */
		{CASSINI_PKT_PUT, 1, 7, CASSINI_DROP_NONE},
		{CASSINI_PKT_REPLY, 1, 1, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_RGET_DONE, 1, 1, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_PING, 1, 1, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_PING, 2, 1, CASSINI_DROP_RESERVED},      /* index of what has none */
		{CASSINI_PKT_RGET_DONE, 2, 62, CASSINI_DROP_NONE},
		{CASSINI_PKT_RGET_DONE, 2, 63, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_PUT, 2, 255, CASSINI_DROP_NONE},
		{CASSINI_PKT_PUT, 3, 1, CASSINI_DROP_RESERVED},	      /* arg */
		{CASSINI_PKT_GET, 3, 1, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_RPUT, 3, 255, CASSINI_DROP_NONE},
		{CASSINI_PKT_REPLY, 3, 3, CASSINI_DROP_NONE},
		{CASSINI_PKT_REPLY, 3, 4, CASSINI_DROP_RESERVED},     /* list */
		{CASSINI_PKT_REPLY, 2, 62, CASSINI_DROP_NONE},
		{CASSINI_PKT_REPLY, 2, 63, CASSINI_DROP_RESERVED},    /* return code */
		{CASSINI_PKT_PUT, 4, 0, CASSINI_DROP_RESERVED},	      /* VNI 0 */
		{CASSINI_PKT_PUT, 6, 0xff, CASSINI_DROP_RESERVED},    /* PID 511 */
		{CASSINI_PKT_PUT, 6, 0xfe, CASSINI_DROP_NONE},
		{CASSINI_PKT_PUT, 7, 2, CASSINI_DROP_RESERVED},	      /* PID 512 and more */
		{CASSINI_PKT_PUT, 10, 0x90, CASSINI_DROP_RESERVED},   /* between NIC and PID of the initiator */
		{CASSINI_PKT_PUT, 10, 0x8f, CASSINI_DROP_NONE},
		{CASSINI_PKT_PUT, 11, 0xff, CASSINI_DROP_RESERVED},   /* its PID: 511 */
		{CASSINI_PKT_PUT_BULK, 44, 0, CASSINI_DROP_RESERVED}, /* no region */
		{CASSINI_PKT_RPUT, 44, 0, CASSINI_DROP_RESERVED},     /* no region, but a rest */
		{CASSINI_PKT_ATOMIC, 40, 3, CASSINI_DROP_RESERVED},   /* no such operation */
		{CASSINI_PKT_ATOMIC, 40, 13, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_ATOMIC, 40, 8, CASSINI_DROP_NONE},
		{CASSINI_PKT_ATOMIC, 41, 13, CASSINI_DROP_RESERVED},  /* no such type */
		{CASSINI_PKT_ATOMIC, 42, 1, CASSINI_DROP_RESERVED},   /* comparison of what does not compare */
		{CASSINI_PKT_FETCH, 42, 6, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_FETCH, 42, 0, CASSINI_DROP_NONE},
		{CASSINI_PKT_FETCH, 43, 1, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_ATOMIC, 44, 1, CASSINI_DROP_RESERVED},   /* a handle, but no answer */
		{CASSINI_PKT_RGET_DONE, 16, 1, CASSINI_DROP_RESERVED},
		{CASSINI_PKT_PING, 12, 1, CASSINI_DROP_RESERVED},
	};

	(void)state;
	pokes(p, ARRAY_SIZE(p));
}

static void check__length(void **state)
{
	static const struct poke p[] = {
		{CASSINI_PKT_PUT, 12, 4, CASSINI_DROP_LENGTH},	 /* payload is not the request */
		{CASSINI_PKT_PUT, 12, 6, CASSINI_DROP_LENGTH},
		{CASSINI_PKT_RPUT, 13, 0, CASSINI_DROP_LENGTH}, /* more eager bytes than bytes */
		{CASSINI_PKT_REPLY, 12, 6, CASSINI_DROP_LENGTH},
		{CASSINI_PKT_REPLY, 12, 8, CASSINI_DROP_NONE},
		{CASSINI_PKT_GET, 36, 0, CASSINI_DROP_LENGTH},	 /* no region, more than a frame */
		{CASSINI_PKT_ATOMIC, 12, 4, CASSINI_DROP_LENGTH}, /* not the size of the type */
		{CASSINI_PKT_FETCH, 12, 8, CASSINI_DROP_LENGTH},
	};
	static uint8_t buf[CASSINI_FRAME_DATA + 128];
	size_t len;

	(void)state;
	pokes(p, ARRAY_SIZE(p));
	for (unsigned op = 1; op < CASSINI_PKT_NUM; op++) { /* one byte more than its row allows */
		size_t most = (size_t)cassini_pkt[op].hdr_len + cassini_pkt[op].payload_max;

		frame_of(op, buf);
		assert_int_equal(check(buf, most + 1), CASSINI_DROP_LENGTH);
		if (cassini_pkt[op].payload_min)
			assert_int_equal(check(buf, most - 1), CASSINI_DROP_LENGTH);
	}
	len = frame_of(CASSINI_PKT_PUT, buf); /* and the most that it allows */
	buf[12] = (uint8_t)CASSINI_FRAME_DATA;
	buf[13] = (uint8_t)(CASSINI_FRAME_DATA >> 8);
	assert_int_equal(check(buf, len - 5 + CASSINI_FRAME_DATA), CASSINI_DROP_NONE);
}

static void check__drop_leaves_out_alone(void **state)
{
	struct cassini_pkt_in out, before;
	uint8_t buf[1024];
	size_t len = frame_of(CASSINI_PKT_FETCH, buf);

	(void)state;
	memset(&before, 0x5a, sizeof(before));
	out = before;
	buf[43] = 1;
	assert_int_equal(check_cut(buf, len, len, &out), CASSINI_DROP_RESERVED);
	assert_memory_equal(&out, &before, sizeof(out));
}

/* Whatever comes: no crash, and what passes says the same when it is encoded and checked again. */
static void check__mutations(void **state)
{
	struct rng r = unit_rng();
	uint8_t buf[1024], again[CASSINI_ENCODE_MAX + 1024];
	unsigned seen[CASSINI_DROP_NUM] = {0};

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		size_t len = frame_of(1 + (unsigned)rng_below(&r, CASSINI_PKT_NUM - 1), buf), hdr_len;
		struct cassini_pkt_in out, out2;
		enum cassini_drop drop;

		for (uint64_t n = rng_below(&r, 4); n; n--)
			buf[rng_below(&r, len)] = (uint8_t)rng_u64(&r);
		if (rng_below(&r, 4) == 0)
			len = rng_below(&r, len + 1);
		drop = check_cut(buf, len, 1 + rng_below(&r, 64), &out);
		assert_in_range(drop, 0, CASSINI_DROP_NUM - 1);
		seen[drop]++;
		if (drop)
			continue;
		assert_int_equal(out.hdr_len + out.payload_len, len);
		hdr_len = cassini_pkt_encode(&out, again);
		assert_int_equal(hdr_len, out.hdr_len);
		memset(again + hdr_len, 0xee, out.payload_len);
		assert_int_equal(check_cut(again, hdr_len + out.payload_len, len, &out2), CASSINI_DROP_NONE);
		pkt_equal(&out, &out2);
	}
	for (unsigned d = 0; d < CASSINI_DROP_NUM; d++)
		assert_true(seen[d] > 0);
}

static void tables__complete(void **state)
{
	(void)state;
	for (unsigned op = 1; op < CASSINI_PKT_NUM; op++) {
		assert_non_null(cassini_pkt[op].name);
		assert_true(cassini_pkt[op].hdr_len + cassini_pkt[op].payload_max <= 18688);
	}
	for (unsigned d = 0; d < CASSINI_DROP_NUM; d++)
		assert_non_null(cassini_drop_name[d]);
}

/* The first row of a Domain that closes: no frame passes, also not what begins with nothing. */
static void put_check__none(void **state)
{
	uint8_t frame[CASSINI_PUT_HDR] = {0};
	struct cassini_pkt_in pkt;

	(void)state;
	for (unsigned byte = 0; byte < 8; byte++) {
		assert_false(cassini_put_check(frame, sizeof(frame), CASSINI_PUT_NONE, 0, &pkt));
		frame[byte] = 0xff;
		assert_false(cassini_put_check(frame, sizeof(frame), CASSINI_PUT_NONE, 0, &pkt));
		frame[byte] = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encode__golden_bytes),	 cmocka_unit_test(check__golden_bytes),
		cmocka_unit_test(check__short),		 cmocka_unit_test(check__version_and_op),
		cmocka_unit_test(check__reserved),	 cmocka_unit_test(check__length),
		cmocka_unit_test(check__drop_leaves_out_alone), cmocka_unit_test(check__mutations),
		cmocka_unit_test(tables__complete),	 cmocka_unit_test(put_check__none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
