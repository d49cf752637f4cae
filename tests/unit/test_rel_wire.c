// SPDX-License-Identifier: BSD-2-Clause
// The reliability module's formats against vectors made by hand, and its door against everything
// else.
#include "unit.h"

#include <string.h>

#include "link/core/link_int.h"
#include "link/net/rel_wire.h"

/* The vectors stand as they were worked out: a field, or some zeros, a line. */
/* clang-format off */
#define BASE(type_, flags_)                                                                        \
	0xb5, 0x05, type_, flags_,                                                                 \
	0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* nonce 0x1122334455667788 */             \
	0x04, 0x03, 0x02, 0x01,                         /* seq 0x01020304 */                       \
	0x08, 0x07, 0x06, 0x05,                         /* ack 0x05060708 */                       \
	0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, /* sack 0x8000000000000001 */              \
	0x10, 0x09, 0x12, 0x11,                         /* tx 0x0910, echo 0x1112 */               \
	0x14, 0x13, 0x16, 0x15,                         /* 0x1314 us, 0x1516 KiB */                \
	0x00, 0x00, 0x00, 0x00

static const uint8_t ack_hex[] = {
	BASE(REL_ACK, 0),
	0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
};

static const uint8_t hello_hex[] = {
	0xb5, 0x05, REL_HELLO_ACK, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* half */
	0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* echo_half */
	0x21, 0x22, 0x23, 0x24,                         /* src_nonce */
	0x31, 0x32, 0x33, 0x34,                         /* dst_nonce */
	0x41, 0x42, 0x43, 0x44,                         /* serial */
	0x02, 0x01, 0x00, 0x00,                         /* ordered, wants crc */
};

/* of a future version: still understood */
static const uint8_t refuse_hex[] = {
	0xb5, 0x07, REL_REFUSE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* half */
	0x02, 0x07, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, /* reason version, version 7, class 1 */
};

static const uint8_t data_hex[] = {
	BASE(REL_DATA, 0),
	0x01, 0x00, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, /* frame 1, 3 bytes, for the NIC */
	'a', 'b', 'c',
	0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, /* frame 2, empty, for bulk */
};

static const uint8_t nak_hex[] = {
	BASE(REL_NAK, 0),
	/* frame 0x0a0b0c0d of DATA 0x11223344: 254 */
	0x44, 0x33, 0x22, 0x11, 0x0d, 0x0c, 0x0b, 0x0a, 0xfe, 0x00, 0x00, 0x00,
	0x45, 0x33, 0x22, 0x11, 0x0e, 0x0c, 0x0b, 0x0a, 0x01, 0x00, 0x00, 0x00,
};
/* clang-format on */

static const struct rel_pkt base_pkt = {
	.nonce = 0x1122334455667788,
	.seq = 0x01020304,
	.ack = 0x05060708,
	.sack = {0x8000000000000001},
	.tx = 0x0910,
	.echo = 0x1112,
	.delay_us = 0x1314,
	.credit_kib = 0x1516,
};

static void check_base(const struct rel_pkt *p, enum rel_type type)
{
	assert_int_equal(p->type, type);
	assert_int_equal(p->version, REL_VERSION);
	assert_int_equal(p->nonce, base_pkt.nonce);
	assert_int_equal(p->seq, base_pkt.seq);
	assert_int_equal(p->ack, base_pkt.ack);
	assert_int_equal(p->sack[0], base_pkt.sack[0]);
	assert_int_equal(p->tx, base_pkt.tx);
	assert_int_equal(p->echo, base_pkt.echo);
	assert_int_equal(p->delay_us, base_pkt.delay_us);
	assert_int_equal(p->credit_kib, base_pkt.credit_kib);
}

static void golden__ack(void **state)
{
	struct rel_pkt p = base_pkt, got;
	struct rel_base b;

	(void)state;
	p.type = REL_ACK;
	rel_base_encode(&p, &b);
	assert_memory_equal(&b, ack_hex, sizeof(b));
	assert_int_equal(rel_pkt_check(ack_hex, sizeof(ack_hex), &got), REL_OK);
	check_base(&got, REL_ACK);
	assert_int_equal(got.sack[1], 0x0123456789abcdef);
	assert_int_equal(got.sack[2], 0);
}

static void golden__hello(void **state)
{
	struct rel_pkt p = {.hello = {.half = 0x0807060504030201,
				      .echo_half = 0x1817161514131211,
				      .src_nonce = 0x24232221,
				      .dst_nonce = 0x34333231,
				      .serial = 0x44434241,
				      .cls = LINK_ORDERED,
				      .settings = REL_SET_CRC}};
	uint8_t buf[sizeof(hello_hex)];
	struct rel_hello h;
	struct rel_pkt got;

	(void)state;
	rel_hello_encode(&p, &h);
	assert_memory_equal(&h, hello_hex + sizeof(struct rel_base), sizeof(h));
	memcpy(buf, hello_hex, sizeof(buf));
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_OK);
	assert_int_equal(got.type, REL_HELLO_ACK);
	assert_int_equal(got.hello.half, p.hello.half);
	assert_int_equal(got.hello.echo_half, p.hello.echo_half);
	assert_int_equal(got.hello.src_nonce, p.hello.src_nonce);
	assert_int_equal(got.hello.dst_nonce, p.hello.dst_nonce);
	assert_int_equal(got.hello.serial, p.hello.serial);
	assert_int_equal(got.hello.cls, LINK_ORDERED);
	assert_int_equal(got.hello.settings, REL_SET_CRC);
	/* each of these is refused: class, settings, reserved, no source nonce, a pair nonce, one
	 * byte more or less */
	for (int i = 0; i < 7; i++) {
		uint8_t bad[sizeof(buf) + 1] = {0};
		static const struct {
			size_t at;
			uint8_t val;
		} edit[] = {{68, 3}, {69, 2}, {70, 1}, {71, 1}, {4, 1}};

		memcpy(bad, buf, sizeof(buf));
		if (i < 5)
			bad[edit[i].at] = edit[i].val;
		if (i == 5)
			memset(bad + 56, 0, 4);
		assert_int_equal(rel_pkt_check(bad, sizeof(buf) + (i == 6), &got), REL_BAD_FORM);
	}
	assert_int_equal(rel_pkt_check(buf, sizeof(buf) - 1, &got), REL_BAD_FORM);
}

static void golden__refuse(void **state)
{
	struct rel_pkt p = {.refuse = {.half = 0x0807060504030201,
				       .reason = REL_R_VERSION,
				       .version = 7,
				       .cls = 1}},
		       got;
	struct rel_refuse h;

	(void)state;
	rel_refuse_encode(&p, &h);
	assert_memory_equal(&h, refuse_hex + 40, sizeof(h));
	assert_int_equal(rel_pkt_check(refuse_hex, sizeof(refuse_hex), &got), REL_OK);
	assert_int_equal(got.refuse.half, p.refuse.half);
	assert_int_equal(got.refuse.reason, REL_R_VERSION);
	assert_int_equal(got.refuse.version, 7);
	assert_int_equal(got.refuse.cls, 1);
}

static void golden__data(void **state)
{
	struct rel_rec_in rec;
	struct rel_pkt got;
	struct wire_rd r;

	(void)state;
	assert_int_equal(rel_pkt_check(data_hex, sizeof(data_hex), &got), REL_OK);
	check_base(&got, REL_DATA);
	assert_int_equal(got.rec_cnt, 2);
	r = wire_rd(got.recs, got.recs_len);
	assert_true(rel_rec_next(&r, &rec));
	assert_int_equal(rec.frame, 1);
	assert_int_equal(rec.kind, LINK_K_NIC);
	assert_int_equal(rec.len, 3);
	assert_int_equal(rec.total, 3);
	assert_memory_equal(rec.p, "abc", 3);
	assert_true(rel_rec_next(&r, &rec));
	assert_int_equal(rec.kind, LINK_K_BULK);
	assert_int_equal(rec.len, 0);
	assert_false(rel_rec_next(&r, &rec));
}

static void golden__nak(void **state)
{
	uint8_t buf[sizeof(nak_hex) + 1] = {0};
	const struct rel_nak *nak;
	struct rel_pkt got;

	memcpy(buf, nak_hex, sizeof(nak_hex));
	assert_int_equal(rel_pkt_check(buf, sizeof(nak_hex), &got), REL_OK);
	check_base(&got, REL_NAK);
	assert_int_equal(got.rec_cnt, 2);
	assert_ptr_equal(got.recs, buf + sizeof(struct rel_base));
	nak = (const struct rel_nak *)(const void *)got.recs;
	assert_int_equal(le32_get(nak->seq), 0x11223344);
	assert_int_equal(le32_get(nak->frame), 0x0a0b0c0d);
	assert_int_equal(nak->code, 254);
	/* whole refusals, at least one, each with a code, nothing in the rest */
	for (size_t len = 40; len <= sizeof(buf); len++)
		assert_int_equal(rel_pkt_check(buf, len, &got) == REL_OK, len == 52 || len == 64);
	for (size_t at = 60; at < 64; at++) {
		buf[at] ^= 1;
		assert_int_equal(rel_pkt_check(buf, sizeof(nak_hex), &got), REL_BAD_FORM);
		buf[at] ^= 1;
	}
}

/* One segment in a DATA; 0..@cut bytes of it are given. */
static enum rel_check seg_check_of(uint8_t idx, uint8_t cnt, uint16_t total, uint16_t len,
				   uint32_t pad, struct rel_rec_in *rec)
{
	static uint8_t buf[40 + 12 + LINK_FRAME_MAX + 64] = {BASE(REL_DATA, 0)};
	struct rel_rec h = {.frame = le32_put(7),
			    .len = le16_put(len),
			    .kind = LINK_K_NIC,
			    .flags = REL_REC_SEG};
	struct rel_seg s = {.idx = idx, .cnt = cnt, .total = le16_put(total)};
	struct rel_pkt got;
	enum rel_check rc;

	memcpy(buf + 40, &h, sizeof(h));
	memcpy(buf + 48, &s, sizeof(s));
	rc = rel_pkt_check(buf, 52u + len + pad, &got);
	if (!rc) {
		struct wire_rd r = wire_rd(got.recs, got.recs_len);

		assert_true(rel_rec_next(&r, rec));
		assert_int_equal(wire_left(&r), 0);
	}
	return rc;
}

static void door__segments(void **state)
{
	struct rel_rec_in rec = {0};

	(void)state;
	/* 10 bytes as 4 + 4 + 2 */
	assert_int_equal(seg_check_of(0, 3, 10, 4, 0, &rec), REL_OK);
	assert_int_equal(rec.off, 0);
	assert_int_equal(seg_check_of(1, 3, 10, 4, 0, &rec), REL_OK);
	assert_int_equal(rec.off, 4);
	assert_int_equal(seg_check_of(2, 3, 10, 2, 0, &rec), REL_OK);
	assert_int_equal(rec.off, 8);
	assert_int_equal(rec.seg_len, 4);
	assert_int_equal(seg_check_of(2, 3, 10, 2, REL_PAD_MAX, &rec), REL_OK);
	assert_int_equal(seg_check_of(2, 3, 10, 2, REL_PAD_MAX + 1, &rec), REL_BAD_FORM);
	assert_int_equal(seg_check_of(2, 3, 10, 4, 0, &rec),
			 REL_BAD_FORM); /* 3 + 3 + 4: the last one is the longest */
	assert_int_equal(seg_check_of(2, 3, 10, 3, 0, &rec),
			 REL_BAD_FORM); /* the others are not equal */
	assert_int_equal(seg_check_of(0, 3, 10, 5, 0, &rec),
			 REL_BAD_FORM); /* nothing left for the last one */
	assert_int_equal(seg_check_of(0, 3, 10, 3, 0, &rec),
			 REL_BAD_FORM); /* too much left for it */
	assert_int_equal(seg_check_of(0, 3, 10, 0, 0, &rec), REL_BAD_FORM);
	assert_int_equal(seg_check_of(3, 3, 10, 4, 0, &rec), REL_BAD_FORM);
	assert_int_equal(seg_check_of(0, 1, 10, 10, 0, &rec), REL_BAD_FORM);
	assert_int_equal(seg_check_of(0, 0, 10, 4, 0, &rec), REL_BAD_FORM);
	assert_int_equal(seg_check_of(0, 2, LINK_FRAME_MAX, LINK_FRAME_MAX / 2, 0, &rec), REL_OK);
	assert_int_equal(seg_check_of(0, 2, LINK_FRAME_MAX + 2, LINK_FRAME_MAX / 2 + 1, 0, &rec),
			 REL_BAD_FORM);
	assert_int_equal(seg_check_of(0, REL_SEG_CNT_MAX, LINK_FRAME_MAX,
				      LINK_FRAME_MAX / REL_SEG_CNT_MAX, 0, &rec),
			 REL_OK);
	assert_int_equal(seg_check_of(0, REL_SEG_CNT_MAX + 1, LINK_FRAME_MAX, 311, 0, &rec),
			 REL_BAD_FORM);
	/* whatever passes lies inside the frame */
	for (uint32_t cnt = 2; cnt < 5; cnt++)
		for (uint32_t idx = 0; idx < cnt; idx++)
			for (uint32_t total = 0; total < 40; total++)
				for (uint32_t len = 0; len < 40; len++)
					if (!seg_check_of((uint8_t)idx, (uint8_t)cnt,
							  (uint16_t)total, (uint16_t)len, 0, &rec))
						assert_true(rec.off + rec.len <= rec.total &&
							    rec.len);
}

static void door__rows(void **state)
{
	uint8_t buf[] = {BASE(0, 0), 1, 0, 0, 0, 0, 0, 1, 0};
	struct rel_pkt got;

	(void)state;
	for (unsigned type = 0; type < 256; type++) {
		bool has_recs = type == REL_DATA || type == REL_RAW,
		     may_be_bare = type == REL_ACK || type == REL_BYE || type == REL_BYE_ACK ||
				   type == REL_DATA || type == REL_REFUSE;

		buf[2] = (uint8_t)type;
		assert_int_equal(rel_pkt_check(buf, 40, &got) == REL_OK, may_be_bare);
		if (type == REL_ACK || type == REL_BYE)
			continue; /* 8 bytes are a word of sack */
		assert_int_equal(rel_pkt_check(buf, 48, &got) == REL_OK, has_recs);
	}
	for (unsigned type = 0; type < REL_TYPE_NUM; type++)
		assert_non_null(rel_desc[type].name);
}

static void door__flipped_fields(void **state)
{
	uint8_t buf[sizeof(data_hex)];
	struct rel_pkt got;

	(void)state;
	for (size_t len = 0; len < sizeof(data_hex); len++) {
		bool is_whole = len == 40 || len == 51;

		assert_int_equal(rel_pkt_check(data_hex, len, &got) == REL_OK, is_whole);
	}
	memcpy(buf, data_hex, sizeof(buf));
	buf[0]++;
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_FORM);
	buf[0]--, buf[1]++;
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_VERSION);
	buf[1]--, buf[3] = 4;
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_FORM);
	buf[3] = 0, buf[36] = 1; /* a CRC that is not announced */
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_FORM);
	buf[36] = 0, buf[40 + 6] = 0; /* no kind */
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_FORM);
	buf[40 + 6] = LINK_K_NUM;
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_FORM);
	buf[40 + 6] = LINK_K_NIC, buf[40 + 7] = 2; /* no such flag */
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_BAD_FORM);
	buf[40 + 7] = 0;
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_OK);
}

static void crc__sees_every_flipped_bit(void **state)
{
	static const struct {
		const char *text;
		uint32_t crc;
	} known[] = {
		{"", 0},
		{"a", 0xc1d04330},
		{"123456789", 0xe3069283},
	};
	uint8_t buf[sizeof(data_hex)];
	struct rel_base b;
	struct rel_pkt got;
	struct iovec iov = {buf, sizeof(buf)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct iovec v[] = {{(void *)(uintptr_t)known[i].text, strlen(known[i].text)}};

		assert_int_equal(rel_crc32c(v, 1), known[i].crc);
	}
	memcpy(buf, data_hex, sizeof(buf));
	buf[3] = REL_F_CRC;
	memcpy(&b, buf, sizeof(b));
	b.crc = le32_put(rel_crc32c(&iov, 1));
	memcpy(buf, &b, sizeof(b));
	assert_int_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_OK);
	for (size_t bit = 0; bit < 8 * sizeof(buf); bit++) {
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
		/* the flag itself is no exception: without it a CRC must be 0 */
		assert_int_not_equal(rel_pkt_check(buf, sizeof(buf), &got), REL_OK);
		buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (size_t len = 0; len < sizeof(buf); len++)
		assert_int_equal(rel_pkt_check(buf, len, &got), REL_BAD_FORM);
}

/* Random bytes, and valid datagrams with random damage, from memory that ends where they end: no
 * read outside. */
static void door__fuzz(void **state)
{
	struct rng rng = unit_rng();

	(void)state;
	for (int i = 0; i < 200000; i++) {
		size_t len = rng_below(&rng, 160);
		uint8_t *buf = malloc(len + 1);
		struct rel_rec_in rec;
		struct rel_pkt got;
		struct wire_rd r;

		for (size_t k = 0; k < len; k++)
			buf[k] = (uint8_t)rng_u64(&rng);
		if (i % 2)
			memcpy(buf, i % 4 == 1 ? data_hex : nak_hex,
			       MIN(len, i % 4 == 1 ? sizeof(data_hex) : sizeof(nak_hex)));
		if (len > 3 && rng_below(&rng, 8)) {
			buf[0] = REL_MAGIC, buf[1] = REL_VERSION, buf[3] = 0;
			buf[2] = (uint8_t)rng_below(&rng, REL_TYPE_NUM);
		}
		for (uint64_t n = rng_below(&rng, 3); n && len; n--)
			buf[rng_below(&rng, len)] = (uint8_t)rng_u64(&rng);
		if (rel_pkt_check(buf, len, &got) == REL_OK && got.recs && got.type == REL_NAK) {
			assert_ptr_equal(got.recs + got.rec_cnt * sizeof(struct rel_nak), buf + len);
		} else if (rel_pkt_check(buf, len, &got) == REL_OK && got.recs) {
			uint32_t cnt = 0;

			r = wire_rd(got.recs, got.recs_len);
			while (rel_rec_next(&r, &rec)) {
				cnt++;
				assert_true(rec.off + rec.len <= rec.total);
				assert_true(rec.total <= LINK_FRAME_MAX);
				assert_true(!rec.len ||
					    (rec.p >= buf && rec.p + rec.len <= buf + len) ||
					    !rec.p);
			}
			assert_int_equal(cnt, got.rec_cnt);
		}
		free(buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden__ack),
		cmocka_unit_test(golden__hello),
		cmocka_unit_test(golden__refuse),
		cmocka_unit_test(golden__data),
		cmocka_unit_test(golden__nak),
		cmocka_unit_test(door__segments),
		cmocka_unit_test(door__rows),
		cmocka_unit_test(door__flipped_fields),
		cmocka_unit_test(crc__sees_every_flipped_bit),
		cmocka_unit_test(door__fuzz),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
