// SPDX-License-Identifier: BSD-2-Clause
// The reliability module as a whole: two honest ports and one that sends what the fuzzer likes, in virtual time.
#include "../unit/unit.h"
#include "../unit/rel_rig.h"
#include "fuzz.h"

#include "link/rel_int.h"

static uint64_t said;

/* A datagram that fits the pair of @n with its peer but for what the fuzzer changes: else everything ends at the nonce. */
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

/* HELLO or an ICMP error as the fuzzer likes it, but for what lets it in: our nonce, the half of the last answer, the quoted nonce. */
static void forge_hello(struct fuzz *f, struct rig *g, const struct link_addr *src)
{
	struct link_peer *peer = g->n[0].peers;
	struct rel_pkt pkt = {.type = fuzz_u8(f) & 1 ? REL_HELLO : REL_HELLO_ACK};
	uint8_t how = fuzz_u8(f), buf[sizeof(struct rel_base) + sizeof(struct rel_hello)];
	struct carrier_error e = {.err = how & 8 ? EMSGSIZE : ECONNREFUSED, .mtu = fuzz_u16(f), .quote = buf, .quote_len = sizeof(buf)};

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

/* The half that node 0 gave last: the fuzzer's sender can hear its answers. */
static enum sim_fate hear(void *ctx, const struct link_addr *src, const struct link_addr *dst, const void *buf, size_t len)
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
		switch (fuzz_u8(&f) % 5) {
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
		}
	}
	rig_run_for(g, 10 * NS_PER_SEC);
	rig_close(g);
	free(buf);
	free(g);
	return 0;
}
