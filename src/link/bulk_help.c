// SPDX-License-Identifier: BSD-2-Clause
// Help with a GET: the owner copies a part of it by the kernel, straight into the initiator's memory.
//
// Theory of operation: one kernel copy is bound by one core, and reading what another core has just
// written is several times slower than writing to where that core will read it. So the initiator
// makes a region of the end of its buffer and asks the owner to fill it (HELP), while it copies the
// beginning itself. Whoever was waited for gets less to do the next time, so the share follows what
// the two cores can do. The owner holds a lease on the region while it copies, as for any PUT by
// the kernel, so the initiator can take the region back at any time and do the rest alone: an owner
// that dies, sleeps or is stopped costs time, not safety. The operation does not end before the
// region is free again.
#include "link/bulk_int.h"

#include <errno.h>

#define SHARE_UNIT 32u /* our share of an operation is a multiple of this part of it ... */
#define SHARE_FIRST 12 /* ... this many at first, and at most so many more */
#define SHARE_MORE  8
#define PART_ALIGN 4096u
#define EARLY_NS   400u /* an answer that comes sooner after our part had been ready before it */

/* --- the initiator ---------------------------------------------------------------------------- */

void bulk_help_ask(struct bulk_port *b, struct bulk_op *op)
{
	const struct bulk_speed *s = bulk_speed_of(op);
	uint64_t left = op->len - op->pos;
	uint64_t own = op->pos + ALIGN_DOWN(left * (uint32_t)(SHARE_FIRST + s->own_more) / SHARE_UNIT, (uint64_t)PART_ALIGN);
	struct bulk_pkt pkt = {.type = BULK_T_HELP,
			       .id = slab_id(&b->ops, op),
			       .tag = op->tag,
			       .key = op->key,
			       .addr = op->raddr + own,
			       .len = op->len - own,
			       .dst = (uintptr_t)op->local + own};

	if (op->help_key || link_region_add(b->n, op->local + own, pkt.len, LINK_PUT, &op->help_key))
		return;
	op->unsent_cnt++;
	op->copy_end = own;
	pkt.dst_key = op->help_key;
	if (bulk_frame(b, op->peer, &pkt, NULL, 0, NULL))
		bulk_help_stop(b, op, false);
}

void bulk_help_check(struct bulk_port *b, struct bulk_op *op)
{
	if (!op->help_key || !bulk_region_try_free(b->node, op->help_key))
		return;
	op->help_key = 0;
	op->unsent_cnt--;
}

void bulk_help_stop(struct bulk_port *b, struct bulk_op *op, bool is_done)
{
	if (!op->help_key)
		return;
	if (!is_done)
		op->copy_end = op->len;
	bulk_region_retract(b->node, op->help_key);
	bulk_help_check(b, op);
}

void bulk_help_balance(struct bulk_op *op, uint64_t now_ns)
{
	struct bulk_speed *s = bulk_speed_of(op);
	bool is_early = !op->ready_ns || now_ns - op->ready_ns < EARLY_NS;

	if (is_early && s->own_more > -SHARE_FIRST)
		s->own_more--;
	else if (!is_early && s->own_more < SHARE_MORE)
		s->own_more++;
}

/* --- the owner -------------------------------------------------------------------------------- */

bool bulk_help_serve(struct bulk_port *b, struct bulk_op *op, struct link_peer *peer,
		     const struct bulk_pkt *pkt, uint64_t now_ns)
{
	*op = (struct bulk_op){
		.ref = BULK_REF_OP,
		.state = BULK_COPY,
		.peer = peer,
		.op = LINK_PUT,
		.method = BULK_CMA,
		.local = (uint8_t *)(uintptr_t)pkt->addr,
		.len = pkt->len,
		.copy_end = pkt->len,
		.raddr = pkt->dst,
		.key = pkt->dst_key,
		.is_help = true,
		.src_key = pkt->key,
		.peer_id = pkt->id,
		.peer_tag = pkt->tag,
		.target = bulk_target_get(b->node, peer, now_ns),
	};
	return op->len && bulk_can_cma(b, op);
}
