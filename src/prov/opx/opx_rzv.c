// SPDX-License-Identifier: BSD-2-Clause
// Rendezvous, receiver's side: fetch the bytes from a process on this host, or ask for them and place the packets that
// come.
#include "prov/opx/opx.h"

#include "base/log.h"
#include "base/mem.h"

/* --- the end ------------------------------------------------------------------------------------------------- */

/* The sender may let go of its memory. */
static void tell_sender(struct opx_in *in, enum opx_status st)
{
	if (in->rts_flags & OPX_RTS_DONE)
		opx_done_send(in->peer, in->send_handle, st);
}

static void finish(struct opx_in *in)
{
	tell_sender(in, OPX_OK);
	opx_in_done(in);
}

/* --- same host: a copy out of the sender's memory ------------------------------------------------------------- */

static void on_copied(struct opx_copy *c, int status)
{
	struct opx_in *in = container_of(c, struct opx_in, cp);

	in->is_copying = false;
	if (in->why) {
		opx_in_fail(in, (enum opx_status)in->why);
	} else if (status) {
		tell_sender(in, status == -FI_EACCES ? OPX_ST_GONE : OPX_ST_COPY);
		opx_in_fail(in, opx_status_of(status, OPX_ST_COPY));
	} else {
		finish(in);
	}
}

static void fetch(struct opx_in *in)
{
	in->cp.peer = in->peer;
	in->cp.op = HFI_COPY_GET;
	in->cp.iov = in->krx->iov;
	in->cp.iov_cnt = in->krx->iov_cnt;
	in->cp.want = in->want;
	in->cp.end = on_copied;
	in->is_copying = true;
	opx_copy_start(&in->cp);
}

/* --- between hosts: CTS, then data packets ----------------------------------------------------------------------- */

/* Expected receive: program the buffer. Return: entries, 0 = the packets are placed by us. */
static int tids_take(struct opx_in *in, struct opx_wire_tid *out, int max)
{
	struct kit_rx *rx = in->krx;
	int cnt = (int)((in->want + HFI_TID_BYTES - 1) / HFI_TID_BYTES);

	if (!in->ep->use_tid || rx->iov_cnt != 1 || cnt > max)
		return 0;
	in->tids = mem_alloc((size_t)cnt * sizeof(*in->tids));
	if (!in->tids)
		return 0;
	cnt = hfi_tid_update(in->ep->hw, rx->iov[0].iov_base, in->want, in->tids, cnt);
	if (cnt < 0)
		return 0; /* all entries in use: as if there were none */
	in->tid_cnt = (uint16_t)cnt;
	for (int i = 0; i < cnt; i++)
		out[i] = (struct opx_wire_tid){.idx = le16_put(in->tids[i].idx), .len = le32_put(in->tids[i].len)};
	return cnt;
}

#define CTS_TIDS 256 /* 512 MiB; more is placed by us */

static void cts_send(struct opx_in *in, uint64_t want)
{
	struct opx_flow *f = &in->peer->flow;
	struct opx_wire_tid tids[CTS_TIDS];
	int cnt = want && in->krx ? tids_take(in, tids, CTS_TIDS) : 0;
	struct iovec iov = {tids, (size_t)cnt * sizeof(tids[0])};
	struct hfi_hdr h;

	opx_flow_hdr(f, &h, OPX_RZV_CTS, OPX_SUB_RZV, (uint32_t)cnt);
	h.w[0] = le64_put(in->send_handle);
	h.w[1] = le64_put(slab_id(&in->ep->in_slab, in) | (uint64_t)(cnt ? in->tids[0].gen : 0) << 32);
	h.tag = le64_put(want);
	opx_flow_post(f, &h, &iov, cnt != 0, OPX_POST_CONTROL, NULL, NULL);
	in->ep->need_doorbell = true;
}

/* The incoming rendezvous that @handle from @peer's packet names. NULL: none (counted). */
static struct opx_in *in_find(struct opx_peer *peer, uint64_t handle)
{
	struct opx_in *in = slab_find(&peer->ep->in_slab, (uint32_t)handle);

	if (in && in->peer == peer && in->kind == OPX_IN_RZV && in->krx && !(in->rts_flags & OPX_RTS_LOCAL))
		return in;
	peer->ep->stats.rx_stale++;
	return NULL;
}

/* The same of a packet that comes unasked, which names its sender's handle. Nobody need have waited for it. */
static struct opx_in *ahead_find(struct opx_peer *peer, uint64_t handle)
{
	struct opx_in *in = peer->ahead_in;

	return in && in->send_handle == handle ? in : NULL;
}

/* Write it where its header says. False: that is not the place of these bytes of @in. */
static bool place(struct opx_in *in, const struct hfi_pkt *pkt)
{
	uint64_t off = le64_get(pkt->hdr->w[0]), i = off / HFI_TID_BYTES;
	uint16_t gen = (uint16_t)(le64_get(pkt->hdr->w[1]) >> 32);

	return i < in->tid_cnt && hfi_hdr_tid(pkt->hdr) == in->tids[i].idx &&
	       hfi_tid_place(in->ep->hw, pkt, gen) == (int)pkt->data.len;
}

bool opx_place(void *ctx, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	struct opx_peer *peer = container_of(f, struct opx_peer, flow);
	struct opx_in *in;

	(void)ctx;
	if (pkt->hdr->opcode != OPX_RZV_DATA || pkt->hdr->aux != OPX_SUB_RZV)
		return true; /* only data of a rendezvous have a place */
	in = in_find(peer, le64_get(pkt->hdr->w[1]));
	if (in && !place(in, pkt))
		in->is_misplaced = true;
	return true; /* also for a transfer that is gone: its packets count */
}

void opx_rzv_data(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type)
{
	uint64_t off = le64_get(h->w[0]);
	uint64_t handle = le64_get(h->w[1]);
	struct opx_in *in = h->aux == OPX_SUB_AHEAD ? ahead_find(peer, handle) : in_find(peer, handle);

	if (!in)
		return;
	if (off != in->got || data->len > in->want - off) { /* they are sent, and delivered, in order */
		peer->ep->stats.rx_malformed++;
		return;
	}
	if (in->is_misplaced) {
		tell_sender(in, OPX_ST_RANGE);
		opx_in_fail(in, OPX_ST_RANGE);
		return;
	}
	if (type != HFI_RCV_EXPECTED)
		kit_rx_copy(in->krx, off, data, 0);
	in->got += data->len;
	if (in->got >= in->want)
		finish(in);
}

/* --- the beginning ------------------------------------------------------------------------------- */

void opx_rzv_start(struct opx_in *in)
{
	in->want = MIN(in->len, (uint64_t)in->krx->len);
	if (in->rts_flags & OPX_RTS_LOCAL) {
		fetch(in);
		return;
	}
	if (!(in->rts_flags & OPX_RTS_DONE) || in->want)
		cts_send(in, in->want);
	if (!in->want)
		finish(in);
}

/* RTS_AHEAD: its data are on their way, and @in is ready for all of them. */
static bool ahead_take(struct opx_in *in)
{
	if (!(in->rts_flags & OPX_RTS_AHEAD) || !in->len || in->len > in->krx->len || in->ep->use_tid ||
	    in->peer->ahead_in)
		return false;
	in->ep->stats.rx_ahead++;
	in->want = in->len;
	in->peer->ahead_in = in;
	return true;
}

void opx_rzv_discard(struct opx_in *in)
{
	if (in->rts_flags & OPX_RTS_DONE)
		tell_sender(in, OPX_OK);
	else
		cts_send(in, 0);
	opx_in_put(in);
}

/* Whatever its sender waits for, DONE or CTS, a verdict ends it. */
static void refuse(struct opx_peer *peer, uint64_t w1, enum opx_status st)
{
	opx_done_send(peer, (uint32_t)w1, st);
}

void opx_rzv_on_rts(struct opx_peer *peer, const struct hfi_hdr *h, const struct view *data)
{
	uint64_t len = le64_get(h->w[0]), w1 = le64_get(h->w[1]);
	struct opx_in *in = opx_in_get(peer, OPX_IN_RZV, h, len);

	if (!in) {
		LOG_WARN("no memory for a message of %llu bytes: refused", (unsigned long long)len);
		refuse(peer, w1, OPX_ST_NOMEM);
		return;
	}
	opx_flow_wait(&peer->flow, 1);
	peer->ep->stats.rx_rzv++;
	in->send_handle = (uint32_t)w1;
	in->rts_flags = (uint8_t)(w1 >> 32);
	/* by the path that it came; our own flow to its sender may be new */
	if (in->rts_flags & OPX_RTS_LOCAL &&
	    (!hfi_dst_is_local(peer->flow.dst) || !opx_pieces_take(&in->cp, data, len))) {
		peer->ep->stats.rx_malformed++;
		refuse(peer, w1, OPX_ST_COPY);
		opx_in_put(in);
		return;
	}
	in->krx = kit_srx_match(&peer->ep->srx, in->ux.tagged, peer->uid, in->ux.mt.tag, len);
	if (in->krx) {
		if (!ahead_take(in))
			opx_rzv_start(in);
		return;
	}
	if (!opx_in_keep(in)) {
		LOG_WARN("no memory for an unexpected message: it is refused");
		refuse(peer, w1, OPX_ST_NOMEM);
		opx_in_put(in);
	}
}
