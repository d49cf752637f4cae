// SPDX-License-Identifier: BSD-2-Clause
// A stand-in for cassini_tgt.c: what the door of a Domain lets in, by whichever row, is remembered.
#ifndef SF_TESTS_UNIT_CASSINI_NOTGT_H
#define SF_TESTS_UNIT_CASSINI_NOTGT_H

#include "nic/cassini/cassini_tgt.h"
#include "unit.h"

static struct {
	unsigned frames, dones;
	int verdict;
	struct cassini_dom *dom;
	struct cassini_peer *peer;
	struct cassini_pkt_in pkt;
	uint8_t payload[CASSINI_FRAME_DATA];
	uint32_t payload_len;
	unsigned get_events;
	uint8_t get_rc;
} g_tgt;

/* Whatever row of the door it came by, it is what cassini_pkt_check() says of it. */
int cassini_tgt_frame(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		      const uint8_t *frame)
{
	struct view v = view_of(frame, pkt->hdr_len + pkt->payload_len);
	struct cassini_pkt_in all;

	assert_int_equal(cassini_pkt_check(&v, &all), CASSINI_DROP_NONE);
	assert_memory_equal(&all, pkt, offsetof(struct cassini_pkt_in, amo));
	assert_true(all.amo.op == pkt->amo.op && all.amo.type == pkt->amo.type);
	g_tgt.frames++;
	g_tgt.dom = dom;
	g_tgt.peer = peer;
	g_tgt.pkt = *pkt;
	g_tgt.payload_len = (uint32_t)view_copy(&v, pkt->hdr_len, g_tgt.payload, sizeof(g_tgt.payload));
	assert_int_equal(g_tgt.payload_len, pkt->payload_len);
	return g_tgt.verdict;
}

/* Every other plain Put has an entry that asks for nothing else. */
struct cassini_le *cassini_tgt_entry(const struct cassini_dom *dom, const struct cassini_pkt_in *pkt)
{
	static struct cassini_le le;

	return g_tgt.frames % 2 ? &le : NULL;
}

int cassini_tgt_put(struct cassini_dom *dom, struct cassini_peer *peer, struct cassini_le *le,
		    const struct cassini_pkt_in *pkt, const uint8_t *frame)
{
	assert_true(le && pkt->op == CASSINI_PKT_PUT && !pkt->flags);
	return cassini_tgt_frame(dom, peer, pkt, frame);
}

void cassini_tgt_rget_done(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt)
{
	g_tgt.dones++;
	g_tgt.dom = dom;
	g_tgt.peer = peer;
	g_tgt.pkt = *pkt;
}

void cassini_tgt_get_event(struct cassini_dom *dom, uint32_t initiator, uint64_t get_bits, uint32_t mlength, uint8_t rc)
{
	(void)dom;
	(void)initiator;
	(void)get_bits;
	(void)mlength;
	g_tgt.get_events++;
	g_tgt.get_rc = rc;
}

void cassini_copy_left(void *ctx, void *cookie) { (void)ctx, (void)cookie; }

int cassini_tgt_kick(struct cassini_dom *dom)
{
	(void)dom;
	return 0;
}

void cassini_tgt_close(struct cassini_dom *dom)
{
	(void)dom;
}

#endif
