// SPDX-License-Identifier: BSD-2-Clause
// The reliability of opx as a whole: two honest endpoints in virtual time, and one whose packets are what the fuzzer
// likes.
#include "../unit/opx_rig.h"
#include "fuzz.h"

/* Keys and PSNs that get beyond the first check, most of the time. */
static void forge_hdr(struct fuzz *f, const struct opx_flow *flow, struct hfi_hdr *h)
{
	static const uint8_t ops[] = {OPX_UD,	     OPX_UD,	   OPX_UD,   OPX_MSG_EAGER,
				      OPX_TAG_EAGER, OPX_RZV_DATA, OPX_DONE, OPX_MSG_RZV_RTS};
	const uint64_t keys[] = {flow->rx_key, flow->rx_key_offer ? flow->rx_key_offer : flow->rx_key_next,
				 flow->tx_key, flow->cookie};
	uint8_t how = fuzz_u8(f);

	fuzz_get(f, h, sizeof(*h));
	if (how & 1)
		h->opcode = ops[h->opcode % ARRAY_SIZE(ops)];
	if (h->opcode == OPX_UD && how & 2)
		h->aux = 1 + h->aux % 9;
	if (how & 4)
		h->key = le64_put(keys[how >> 6]);
	if (how & 8)
		h->psn_tx = le32_put((flow->rx_psn + (le32_get(h->psn_tx) & 0xf)) & HFI_PSN_MASK);
	if (how & 16)
		h->w[0] = le64_put(((flow->tx_una + (le64_get(h->w[0]) & 0x1f)) & HFI_PSN_MASK) |
				   (uint64_t)(fuzz_u8(f) & 0x3f) << 32);
	if (how & 32)
		h->imm = le32_put(flow->serial - (fuzz_u8(f) & 3));
}

static void forge(struct fuzz *f, struct rig *g)
{
	uint32_t to = fuzz_u8(f) % 2, from = fuzz_u8(f) % 3;
	struct rig_node *n = &g->n[to];
	static const uint8_t zeros[HFI_MTU + 64];
	struct hfi_pkt pkt = {.src = n->dst[from], .is_service = fuzz_u8(f) % 8 == 0};
	uint32_t len = fuzz_u16(f) % 4 ? 0 : fuzz_u16(f) % (uint32_t)sizeof(zeros);
	struct hfi_hdr h;

	forge_hdr(f, rig_meet(g, to, from), &h);
	if (h.opcode == OPX_MSG_EAGER || h.opcode == OPX_TAG_EAGER) {
		h.w[0] = le64_put(len);
		h.bth1 |= HFI_BTH_CUT;
	}
	pkt.hdr = &h;
	pkt.data = view_of(zeros, len);
	n->refuses_place = true; /* the model knows no such transfer */
	pkt.type = fuzz_u8(f) % 8 ? HFI_RCV_EAGER : HFI_RCV_EXPECTED;
	if (pkt.is_service)
		opx_rel_service(n->rel, &pkt);
	else
		opx_rel_rx(n->rel, &pkt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};
	struct rig *g = malloc(sizeof(*g));
	uint8_t how = fuzz_u8(&f);

	rig_open(g, 3, how, (how & 1) + (how & 4 && how & 1));
	g->is_lenient = true;
	g->loss = how & 2 ? 0.1 : 0;
	for (int i = 0; i < 200 && f.left; i++) {
		uint32_t a = fuzz_u8(&f) % 3;

		switch (fuzz_u8(&f) % 8) {
		case 0:
			rig_peer(g, a, fuzz_u8(&f) % 3)->want += fuzz_u8(&f) % 32;
			break;
		case 1:
			rig_run_for(g, (uint64_t)fuzz_u16(&f) * 100);
			break;
		case 2:
			g->n[a].is_computing = fuzz_u8(&f) & 1;
			break;
		case 3:
			if (fuzz_u8(&f) % 8)
				break;
			rig_node_close(g, a, fuzz_u8(&f) & 1);
			rig_node_open(g, a);
			break;
		default:
			forge(&f, g);
			break;
		}
	}
	for (uint32_t i = 0; i < 3; i++)
		g->n[i].is_computing = false;
	rig_run_for(g, 3 * RIG_DEAD);
	rig_close(g);
	free(g);
	return 0;
}
