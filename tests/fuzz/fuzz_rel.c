// SPDX-License-Identifier: BSD-2-Clause
// The reliability module as a whole: two honest ports and one that sends what the fuzzer likes, in virtual time.
#include "../unit/unit.h"
#include "../unit/rel_rig.h"
#include "fuzz.h"

#include "link/net/rel_int.h"

static uint64_t said;

/*
 * A datagram that fits the pair of @n with its peer but for what the fuzzer changes: else everything ends at the nonce.
 */
static size_t forge(struct fuzz *f, struct rig *g, uint8_t *buf, size_t cap)
{
	size_t len = fuzz_u16(f) % cap;
	struct link_peer *peer = g->n[0].peers;

	fuzz_get(f, buf, len);
	for (; peer && !peer->rel; peer = peer->hnext)
		;
	if (peer && len >= 16 && (buf[0] & 1)) {
		memcpy(buf + 4, &peer->rel->pair, 8);
		buf[0] = REL_MAGIC;
		buf[1] = REL_VERSION;
	}
	return len;
}

/*
 * HELLO or an ICMP error as the fuzzer likes it, but for what lets it in: our nonce, the half of the last answer, the
 * quoted nonce.
 */
static void forge_hello(struct fuzz *f, struct rig *g, const struct link_addr *src)
{
	struct link_peer *peer = g->n[0].peers;
	struct rel_pkt pkt = {.type = fuzz_u8(f) & 1 ? REL_HELLO : REL_HELLO_ACK};
	uint8_t how = fuzz_u8(f), buf[sizeof(struct rel_base) + sizeof(struct rel_hello)];
	struct carrier_error e = {.err = how & 8 ? EMSGSIZE : ECONNREFUSED, .mtu = fuzz_u16(f), .quote = buf,
				  .quote_len = sizeof(buf)};

	pkt.hello.half = fuzz_u8(f);
	pkt.hello.echo_half = how & 1 ? said : fuzz_u8(f);
	pkt.hello.src_nonce = 1 + fuzz_u8(f) % 4;
	pkt.hello.dst_nonce = how & 2 ? g->n[0].port.self.nonce : fuzz_u8(f);
	pkt.hello.serial = fuzz_u8(f);
	pkt.hello.cls = how & 4 ? (uint8_t)g->cls : fuzz_u8(f) % LINK_CLASS_NUM;
	for (; how & 16 && peer && !peer->rel; peer = peer->hnext)
		;
	if (how & 16 && peer)
		pkt.nonce = peer->rel->pair;
	rig_encode(&pkt, NULL, 0, buf);
	if (how & 32)
		rel_error(g->n[0].port.rel, src, &e, rig_now(g));
	else
		rel_input(g->n[0].port.rel, src, buf, sizeof(buf), rig_now(g));
	rel_flush(g->n[0].port.rel, rig_now(g));
}

/* A number near @at, most of the time. */
static uint32_t near_to(struct fuzz *f, uint32_t at)
{
	uint8_t n = fuzz_u8(f);

	return n < 192 ? at + n % 4 : n < 250 ? at + n - 220u : (uint32_t)fuzz_u64(f);
}

/* Records as an honest sender makes them: frames, or one segment of one. Return: bytes. */
static size_t put_recs(struct fuzz *f, uint8_t *p, uint32_t frame)
{
	uint8_t how = fuzz_u8(f), cnt = 2 + fuzz_u8(f) % 62, idx = fuzz_u8(f) % cnt;
	uint16_t len = 1 + fuzz_u8(f), last = 1 + fuzz_u8(f) % len;
	struct rel_seg seg = {.idx = idx, .cnt = cnt, .total = le16_put((uint16_t)(len * (cnt - 1) + last))};
	bool is_seg = how & 1;
	size_t at = 0;

	if (is_seg && idx == cnt - 1)
		len = last;
	for (int i = 0; i < (is_seg ? 1 : 1 + idx % 8); i++) {
		struct rel_rec rec = {.frame = le32_put(frame + (uint32_t)i), .len = le16_put(len),
				      .kind = how & 2 ? LINK_K_BULK : LINK_K_NIC, .flags = is_seg};

		memcpy(p + at, &rec, sizeof(rec));
		at += sizeof(rec);
		if (is_seg)
			memcpy(p + at, &seg, sizeof(seg));
		at += is_seg ? sizeof(seg) : 0;
		memset(p + at, how, len);
		at += len;
	}
	return at;
}

/* Refusals of what node 0 has sent to @rp. Return: bytes. */
static size_t put_naks(struct fuzz *f, uint8_t *p, const struct rel_peer *rp)
{
	uint8_t cnt = 1 + fuzz_u8(f) % 8;

	for (int i = 0; i < cnt; i++) {
		uint32_t seq = near_to(f, rp->tx_una), frame = near_to(f, rp->frame_next - 4);
		struct rel_nak nak;

		if (rp->win && seq - rp->tx_una < rp->tx_seq - rp->tx_una && rel_slot_at(rp->win, seq)->frame)
			frame = near_to(f, rel_slot_at(rp->win, seq)->frame->id);
		nak = (struct rel_nak){.seq = le32_put(seq), .frame = le32_put(frame), .code = fuzz_u8(f) % 4};
		memcpy(p + i * sizeof(nak), &nak, sizeof(nak));
	}
	return cnt * sizeof(struct rel_nak);
}

/*
 * A datagram, or up to 255 that differ in their numbers only, of a pair that node 0 has: it knows what the pair is at.
 */
static void forge_pair(struct fuzz *f, struct rig *g)
{
	static const uint8_t types[] = {REL_DATA, REL_DATA, REL_DATA, REL_NAK, REL_NAK, REL_ACK, REL_ACK, REL_BYE};
	uint8_t how = fuzz_u8(f), skip = fuzz_u8(f) % 4, times = how & 64 ? fuzz_u8(f) : 1, buf[4096] = {0};
	bool is_raw = g->cls == LINK_RAW;
	struct link_peer *peer = g->n[0].peers;
	size_t len = sizeof(struct rel_base);
	struct rel_pkt pkt = {.type = is_raw ? REL_RAW : types[how & 7], .tx = fuzz_u16(f), .credit_kib = fuzz_u8(f)};
	uint32_t frame = fuzz_u8(f);
	struct link_addr src;
	struct rel_base b;

	for (; peer && (!peer->rel || skip--); peer = peer->hnext)
		;
	if (!peer)
		return;
	src = peer->addr;
	pkt.nonce = is_raw ? src.nonce + (how & 8 ? 0 : fuzz_u8(f)) : peer->rel->pair;
	pkt.ack = near_to(f, peer->rel->tx_una);
	pkt.sack[0] = how & 16 ? fuzz_u64(f) : 0;
	pkt.echo = (uint16_t)near_to(f, peer->rel->tx_no - 3u);
	pkt.seq = near_to(f, pkt.type == REL_NAK   ? peer->rel->nak_rx
			     : pkt.type == REL_ACK ? peer->rel->nak_una
						   : peer->rel->rx_next);
	if (pkt.type == REL_NAK)
		len += put_naks(f, buf + len, peer->rel);
	for (; times; times--, pkt.seq++, pkt.tx++, frame++) {
		if (pkt.type == REL_DATA || is_raw) {
			struct fuzz again = *f;

			len = sizeof(b) + put_recs(&again, buf + sizeof(b), frame);
			if (times == 1)
				*f = again;
		}
		rel_base_encode(&pkt, &b);
		memcpy(buf, &b, sizeof(b));
		rel_input(g->n[0].port.rel, &src, buf, len, rig_now(g));
	}
	rel_flush(g->n[0].port.rel, rig_now(g));
}

/* What peers make node 0 keep has its bounds, see rel_quota.c. */
static void check_quotas(const struct rig *g)
{
	for (const struct link_peer *peer = g->n[0].peers; peer; peer = peer->hnext) {
		const struct rel_peer *rp = peer->rel;

		if (rp)
			FUZZ_CHECK(rp->quota.used[REL_Q_ASM] <= REL_ASM_PEER &&
				   rp->quota.used[REL_Q_STASH] <= REL_RCVBUF + REL_DGRAM_MAX &&
				   rp->quota.used[REL_Q_EARLY] <= 16384 && rp->quota.used[REL_Q_NAK] <= 16384);
	}
}

/* The half that node 0 gave last: the fuzzer's sender can hear its answers. */
static enum sim_fate hear(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf,
			  size_t len)
{
	const struct rig *g = ctx;
	struct rel_pkt pkt;

	(void)dst;
	if (src->port == g->n[0].port.self.port && rel_pkt_check(buf, len, &pkt) == REL_OK && pkt.type == REL_HELLO_ACK)
		said = pkt.hello.half;
	return SIM_PASS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sim_attr attr = {.seed = 1};
	struct fuzz f = {data, size};
	struct rig *g = calloc(1, sizeof(*g));
	uint8_t *buf = malloc(2048);

	rig_open(g, 3, (enum link_class)(fuzz_u8(&f) % LINK_CLASS_NUM), &attr, NULL);
	g->is_lenient = true;
	g->n[0].port.by_place = fuzz_u8(&f) & 1;
	said = 0;
	sim_set_filter(g->sim, hear, g);
	for (int i = 0; i < 64 && f.left; i++) {
		switch (fuzz_u8(&f) % 8) {
		case 0:
			rig_send(g, fuzz_u8(&f) % 2, 2, 32 + fuzz_u16(&f) % 4000);
			break;
		case 1:
		case 2:
			size = forge(&f, g, buf, 1500);
			rel_input(g->n[0].port.rel, &g->n[fuzz_u8(&f) % 3].port.self, buf, size, rig_now(g));
			rel_flush(g->n[0].port.rel, rig_now(g));
			break;
		case 3:
			rig_run_for(g, (uint64_t)fuzz_u16(&f) * 100000);
			break;
		case 4:
			forge_hello(&f, g, &g->n[fuzz_u8(&f) % 3].port.self);
			break;
		default:
			forge_pair(&f, g);
			check_quotas(g);
			break;
		}
	}
	rig_run_for(g, 10 * NS_PER_SEC);
	rig_close(g);
	free(buf);
	free(g);
	return 0;
}
