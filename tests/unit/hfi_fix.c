// SPDX-License-Identifier: BSD-2-Clause
// See hfi_fix.h.
#include "hfi_fix.h"

struct fix g_fix;
static int64_t live;

void fix_env(const char *opx)
{
	char text[256];

	snprintf(text, sizeof(text), "units=2;rcvhdrq=32;egr=8192;sdma_ring=4;pkeys=0x8001,0x0001,0x8002;%s", opx);
	setenv("SOFTFABRIC_OPX", text, 1);
}

static struct seen *seen_new(void)
{
	assert_in_range(g_fix.cnt, 0, SEEN_MAX - 1);
	return &g_fix.seen[g_fix.cnt++];
}

static void on_pkt(void *ctx, const struct hfi_pkt *pkt)
{
	struct seen *s = seen_new();

	*s = (struct seen){
		.is_service = pkt->is_service,
		.type = pkt->type,
		.psn = hfi_hdr_psn(pkt->hdr),
		.len = pkt->data.len,
		.src = pkt->src,
		.w = {pkt->hdr->w[0], pkt->hdr->w[1]},
	};
	view_copy(&pkt->data, 0, s->data, sizeof(s->data));
}

static bool on_service(void *ctx, const struct hfi_pkt *pkt)
{
	if (g_fix.refuses)
		return false;
	on_pkt(ctx, pkt);
	return true;
}

static void on_gone(void *ctx, struct hfi_dst *dst, int status)
{
	*seen_new() = (struct seen){.is_gone = true, .status = status, .src = dst};
}

static void on_copy(void *ctx, void *cookie, int status)
{
	g_fix.copies++;
	g_fix.copy_status = status;
}

int fix_open(void **state)
{
	static struct link_world world; /* its address alone matters: contexts of our own */
	struct hfi_open_attr attr = {.lock = &g_fix.lock, .no_thread = true};
	struct hfi_ctxt_attr ctxt = {
		.uuid = {5},
		.ctxt = -1,
		.pkey = HFI_PKEY_DEFAULT,
		.on_pkt = on_pkt,
		.on_service = on_service,
		.on_gone = on_gone,
		.on_copy = on_copy,
	};
	struct hfi_unit_attr peer;

	attr.world = &world;
	fake_reset();
	live = mem_live_count();
	memset(&g_fix, 0, sizeof(g_fix));
	if (hfi_open(&attr, &g_fix.hfi) || hfi_ctxt_open(g_fix.hfi, &ctxt, &g_fix.c) || hfi_unit_query(1, &peer))
		return -1;
	lock_acquire(&g_fix.lock);
	g_fix.port = g_fix.c->claim.port;
	return hfi_addr_of(&g_fix.hfi->map, peer.lid, PEER_RX, 0, &g_fix.from) ||
	       hfi_dst_get(g_fix.c, peer.lid, PEER_RX, &g_fix.dst);
}

int fix_close(void **state)
{
	hfi_dst_put(g_fix.dst);
	hfi_ctxt_close(g_fix.c);
	lock_release(&g_fix.lock);
	hfi_close(g_fix.hfi);
	return g_fake.peers || g_fake.ports || g_fake.nodes || mem_live_count() != live;
}

struct hfi_hdr pkt_from(uint32_t psn, size_t len)
{
	struct hfi_hdr h;

	memcpy(&h, g_fix.dst->door.want, sizeof(g_fix.dst->door.want));
	h.key = le64_put(0);
	h.w[0] = h.w[1] = h.tag = le64_put(0);
	h.psn_tx = le32_put(le32_get(h.psn_tx) | psn);
	hfi_wire_put_len(&h, sizeof(h), (uint32_t)len);
	return h;
}

void put(const struct hfi_hdr *h, const void *data, size_t len, bool is_polled)
{
	static uint8_t frame[LINK_FRAME_MAX + 1];

	memcpy(frame, h, hfi_hdr_len(h));
	if (len)
		memcpy(frame + hfi_hdr_len(h), data, len);
	g_fix.c->is_polling = is_polled;
	assert_int_equal(fake_inject(g_fix.port, &g_fix.from, frame, hfi_hdr_len(h) + len), 0);
	g_fix.c->is_polling = false;
}

struct hfi_stats stats_now(void)
{
	struct hfi_stats st;

	hfi_ctxt_query_stats(g_fix.c, &st);
	return st;
}

struct link_port *pair_port(int (*on_frame)(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len))
{
	static struct link_ops ops;
	struct link_port_attr attr = {.node = g_fix.hfi->node, .port = g_fix.from.port, .nonce = 1, .cls = LINK_RAW,
				      .by_place = true, .ops = &ops};
	struct link_port *port;

	ops.on_frame = on_frame;
	memcpy(attr.ip, g_fix.from.ip, sizeof(attr.ip));
	assert_int_equal(link_port_open(&attr, &port), 0);
	return port;
}
