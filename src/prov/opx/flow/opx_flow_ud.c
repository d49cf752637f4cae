// SPDX-License-Identifier: BSD-2-Clause
// UD packets: handshake, PING and its answers, RESYNCH, BYE. They are no part of a stream: each may be lost, and come
// at any time.
#include "prov/opx/flow/opx_flow.h"

#include <rdma/fi_errno.h>

#include "prov/opx/flow/opx_flow_int.h"

static void ud_hdr(struct hfi_dst *dst, const struct opx_ud_pkt *u, struct hfi_hdr *h)
{
	hfi_dst_hdr(dst, h);
	h->opcode = OPX_UD;
	h->aux = (uint8_t)u->ud;
	h->ecn = 0;
	h->key = le64_put(u->key);
	h->w[0] = le64_put(u->w0);
	h->w[1] = le64_put(u->w1);
	h->tag = le64_put(u->tag);
	h->imm = le32_put(u->imm);
}

static int ud_send(struct opx_rel *rel, struct hfi_dst *dst, const struct opx_ud_pkt *u)
{
	struct hfi_hdr h;
	int rc;

	ud_hdr(dst, u, &h);
	rc = hfi_pio_send(rel->a.hw, dst, &h, NULL, 0);
	if (!rc)
		rel->is_dirty = true;
	return rc;
}

/* With what is sent next, or a little later. */
static int ud_send_late(struct opx_rel *rel, struct hfi_dst *dst, const struct opx_ud_pkt *u)
{
	struct hfi_hdr h;

	ud_hdr(dst, u, &h);
	return hfi_pio_send_late(rel->a.hw, dst, &h);
}

static uint64_t range_put(uint32_t first, uint32_t cnt)
{
	return first | (uint64_t)cnt << 32;
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

int opx_ud_init(struct opx_flow *f)
{
	int rc = ud_send(f->rel, f->dst,
			 &(struct opx_ud_pkt){.ud = OPX_UD_INIT, .key = f->is_keyed ? f->peer_epoch : f->rx_key_offer,
					      .w0 = opx_flow_epoch(f), .w1 = f->cookie, .tag = f->rel->a.own_addr,
					      .imm = f->is_keyed ? OPX_INIT_KEYED : 0});

	f->rel->st.inits_tx += !rc;
	return rc;
}

static int init_ack_send(struct opx_flow *f, uint64_t cookie, uint64_t key)
{
	return ud_send(f->rel, f->dst,
		       &(struct opx_ud_pkt){.ud = OPX_UD_INIT_ACK, .key = cookie, .w0 = opx_flow_epoch(f), .w1 = key,
					    .tag = f->rel->a.own_addr});
}

void opx_ud_init_ack(struct opx_flow *f)
{
	uint64_t cookie = f->rx_key_next ? f->rx_cookie_next : f->rx_cookie,
		 key = f->rx_key_next ? f->rx_key_next : f->rx_key;

	f->owes_init_ack = key && init_ack_send(f, cookie, key) == -FI_EAGAIN;
	if (f->owes_init_ack)
		opx_flow_attend(f);
}

int opx_ud_ping(struct opx_flow *f)
{
	const struct opx_sdma *sdma = opx_sdma_oldest(f->rel, f);
	/* what SDMA has not sent yet the peer cannot have */
	uint32_t end = sdma ? sdma->psn : flow_sent_psn(f);
	int32_t cnt = f->is_local ? 0 : psn_diff(end, f->tx_una);
	struct opx_ud_pkt u = {.ud = OPX_UD_PING, .key = f->tx_key};
	int rc;

	if (!++f->serial)
		f->serial = 1;
	u.imm = f->serial;
	u.w0 = range_put(f->tx_una, cnt > 0 ? (uint32_t)cnt : 0);
	f->is_answered = false;
	if (!f->is_local)
		opx_flow_asked(f, OPX_PSN_NONE, false);
	rc = ud_send(f->rel, f->dst, &u);
	f->rel->st.pings_tx += !rc;
	return rc;
}

typedef int ud_send_fn(struct opx_rel *rel, struct hfi_dst *dst, const struct opx_ud_pkt *u);

static int ack_send(struct opx_flow *f, ud_send_fn *send, uint64_t key, uint64_t range, uint32_t serial)
{
	int rc = send(f->rel, f->dst, &(struct opx_ud_pkt){.ud = OPX_UD_ACK, .key = key, .w0 = range, .imm = serial});

	f->rel->st.acks_tx += !rc;
	return rc;
}

static void ack(struct opx_flow *f, ud_send_fn *send, uint32_t serial)
{
	/* far enough back that no earlier ACK needs to have arrived, never beyond what has come */
	uint32_t cnt = f->rx_wrapped ? OPX_ACK_BACK : MIN(f->rx_psn, OPX_ACK_BACK);

	f->owes_ack = false;
	if (!f->rx_key)
		return;
	if (f->is_full && hfi_dst_is_local(f->dst)) {
		ack_send(f, send, f->rx_key, 0, serial); /* there is somebody */
		return;
	}
	if (ack_send(f, send, f->rx_key, range_put(psn_add(f->rx_psn, 0u - cnt), cnt), serial) == -FI_EAGAIN) {
		f->owes_ack = true;
		opx_flow_attend(f);
	}
}

void opx_ud_ack(struct opx_flow *f, uint32_t serial)
{
	ack(f, ud_send, serial);
}

void opx_ud_ack_late(struct opx_flow *f)
{
	ack(f, ud_send_late, 0);
}

void opx_ud_ack_range(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial)
{
	ack_send(f, ud_send, f->rx_key, range_put(first, cnt), serial);
}

uint32_t opx_ud_nack(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial, uint32_t max)
{
	uint32_t n = 0;

	for (; cnt && n < max; n++) {
		uint32_t part = MIN(cnt, OPX_NACK_MAX);
		struct opx_ud_pkt u = {.ud = OPX_UD_NACK, .key = f->rx_key, .w0 = range_put(first, part),
				       .imm = serial};

		if (ud_send(f->rel, f->dst, &u))
			break; /* a PING will ask again */
		f->rel->st.nacks_tx++;
		first = psn_add(first, part);
		cnt -= part;
	}
	return n;
}

void opx_ud_resynch(struct opx_rel *rel, struct hfi_dst *dst, uint64_t key)
{
	rel->st.resynchs_tx += !ud_send(rel, dst, &(struct opx_ud_pkt){.ud = OPX_UD_RESYNCH, .key = key});
}

void opx_ud_bye(struct opx_flow *f)
{
	struct opx_ud_pkt u = {.ud = OPX_UD_BYE, .w0 = f->tx_psn};

	u.key = f->state == OPX_FLOW_OPEN ? f->tx_key : f->rx_key ? f->rx_key : f->rx_key_next;
	if (u.key && !f->doom)
		ud_send(f->rel, f->dst, &u);
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

/* An INIT names a stream, and perhaps its key: then what follows it may lie right behind it. Return: the key. */
static uint64_t announce(struct opx_flow *f, const struct hfi_hdr *h, bool is_keyed)
{
	uint64_t epoch = le64_get(h->w[0]), cookie = le64_get(h->w[1]);

	if (f->rx_key && epoch == f->peer_epoch && cookie == f->rx_cookie)
		return f->rx_key;
	if (!f->rx_key_next || epoch != f->epoch_next || cookie != f->rx_cookie_next) {
		f->rx_key_next = is_keyed ? cookie : hfi_random(f->rel->a.hfi) | 1;
		f->tx_key_next = is_keyed ? 0 : le64_get(h->key);
	}
	f->epoch_next = epoch;
	f->rx_cookie_next = cookie;
	f->addr_next = le64_get(h->tag);
	return f->rx_key_next;
}

static void rx_init(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	bool is_keyed = le32_get(pkt->hdr->imm) == OPX_INIT_KEYED;
	uint64_t key, cookie = le64_get(pkt->hdr->w[1]);

	rel->st.inits_rx++;
	if (is_keyed && (!cookie || (!hfi_dst_is_local(pkt->src) && !hfi_dst_is_host(pkt->src)))) {
		rel->st.malformed++;
		return;
	}
	if (!f)
		f = rel->a.ops->stranger(rel->a.ctx, pkt->src);
	if (!f)
		return;
	/*
	 * Who means the flow that there was before this one learns it by the answer, and what it has sent behind is not
	 * let in.
	 */
	if (is_keyed && le64_get(pkt->hdr->key) && le64_get(pkt->hdr->key) != opx_flow_epoch(f)) {
		init_ack_send(f, cookie, cookie);
		return;
	}
	key = announce(f, pkt->hdr, is_keyed);
	if (is_keyed)
		opx_ud_init_ack(f);
	else
		init_ack_send(f, cookie, key);
}

static void rx_init_ack(struct opx_rel *rel, struct opx_flow *f, const struct hfi_hdr *h)
{
	uint64_t key = le64_get(h->w[1]);
	bool is_due = f && (f->is_keyed ? f->state == OPX_FLOW_OPEN && key == f->tx_key : f->state == OPX_FLOW_INIT);

	if (!is_due || le64_get(h->key) != f->cookie || !key || f->doom) {
		rel->st.bad_key++; /* also an answer to an INIT that was sent twice */
		return;
	}
	f->heard = true;
	f->peer_addr = le64_get(h->tag);
	opx_flow_opened(f, key, le64_get(h->w[0]));
}

/* What there is of it beyond what is in order. */
static void answer_ranges(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial, uint32_t max)
{
	int32_t end = MIN(psn_diff(first, f->rx_psn) + (int32_t)cnt, (int32_t)OPX_RX_AHEAD);
	uint32_t acks = 0, nacks = 0, at = 0, run = 0; /* offsets from rx_psn: [run, at) has come */
	struct opx_replay *r;

	if (end <= 0)
		return;
	STAILQ_FOREACH(r, &f->ahead, next)
	{
		uint32_t off = (uint32_t)psn_diff(r->psn, f->rx_psn);

		if (off >= (uint32_t)end)
			break;
		if (off > at) {
			if (at > run && acks++ < max)
				opx_ud_ack_range(f, psn_add(f->rx_psn, run), at - run, serial);
			nacks += opx_ud_nack(f, psn_add(f->rx_psn, at), off - at, serial, max - nacks);
			run = off;
		}
		at = off + 1;
	}
	if (at > run && acks < max)
		opx_ud_ack_range(f, psn_add(f->rx_psn, run), at - run, serial);
	if ((uint32_t)end > at)
		opx_ud_nack(f, psn_add(f->rx_psn, at), (uint32_t)end - at, serial, max - nacks);
}

void opx_ud_answer(struct opx_flow *f, uint32_t first, uint32_t cnt, uint32_t serial, uint32_t max)
{
	opx_ud_ack(f, serial);
	answer_ranges(f, first, cnt, serial, max);
}

static bool range_get(uint64_t w, uint32_t *first, uint32_t *cnt)
{
	*first = (uint32_t)w;
	*cnt = (uint32_t)(w >> 32);
	return *first <= HFI_PSN_MASK && *cnt <= HFI_PSN_MASK / 2;
}

/*
 * Its owner computes: what lies in the header queue has not been seen. Say what is certain, and that there is somebody.
 */
static void service_ping(struct opx_flow *f, uint64_t key, uint32_t cnt, uint32_t serial)
{
	if (key == f->rx_key)
		opx_ud_ack(f, serial);
	else
		ack_send(f, ud_send, key, 0, serial);
	/*
	 * Who only asks for life waits for something of ours, which may have been lost. Who asks for more gets no
	 * question back: two might go on for ever.
	 */
	if (!cnt && f->state == OPX_FLOW_OPEN && !f->doom && !f->is_local && f->tx_una != flow_sent_psn(f))
		opx_flow_refused(f, opx_ud_ping(f));
}

static void rx_ping(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	uint64_t key = le64_get(pkt->hdr->key);
	uint32_t first, cnt, serial = le32_get(pkt->hdr->imm);

	rel->st.pings_rx++;
	if (!range_get(le64_get(pkt->hdr->w[0]), &first, &cnt)) {
		rel->st.malformed++;
		return;
	}
	if (!f || !opx_flow_knows(f, key)) {
		rel->st.bad_key++;
		if (key)
			opx_ud_resynch(rel, pkt->src, key);
		return;
	}
	f->heard = true;
	if (pkt->is_service) {
		service_ping(f, key, cnt, serial);
		return;
	}
	if (key != f->rx_key && !opx_flow_begin_rx(f, key))
		return;
	opx_ud_answer(f, first, cnt, serial, OPX_ANSWERS);
}

static void rx_answer(struct opx_rel *rel, struct opx_flow *f, const struct hfi_hdr *h)
{
	bool is_ack = h->aux == OPX_UD_ACK, is_fine;
	uint32_t first, cnt, out = f ? f->bytes_out : 0;

	if (!f || f->state != OPX_FLOW_OPEN || le64_get(h->key) != f->tx_key) {
		rel->st.bad_key++;
		return;
	}
	f->heard = true;
	if (f->serial && le32_get(h->imm) == f->serial && !f->is_answered) {
		f->is_answered = true;
		opx_flow_answered(f, true);
	}
	if (is_ack)
		rel->st.acks_rx++;
	else
		rel->st.nacks_rx++;
	is_fine = range_get(le64_get(h->w[0]), &first, &cnt) &&
		  (is_ack ? opx_flow_acked(f, first, cnt) : opx_flow_nacked(f, first, cnt, le32_get(h->imm)));
	rel->st.malformed += !is_fine;
	/* the answer was worth something, and there is more to ask for */
	if (is_ack && f->is_answered && f->again && f->bytes_out < out) {
		f->asks = true;
		opx_flow_attend(f);
	}
}

static void rx_resynch(struct opx_rel *rel, struct opx_flow *f, const struct hfi_hdr *h)
{
	rel->st.resynchs_rx++;
	if (f && f->state == OPX_FLOW_OPEN && le64_get(h->key) == f->tx_key)
		opx_flow_doom(f, OPX_ST_PEER_REPLACED);
	else
		rel->st.bad_key++;
}

/* Return: false: packets that it sent before may lie in the header queue; look again when they have been seen. */
static bool rx_bye(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	uint64_t key = le64_get(pkt->hdr->key);

	if (!key || !f || (!opx_flow_knows(f, key) && (f->state != OPX_FLOW_OPEN || key != f->tx_key))) {
		rel->st.bad_key++;
		return true;
	}
	if (pkt->is_service)
		return false;
	if (!STAILQ_EMPTY(&f->held)) { /* what it has sent before comes first */
		opx_flow_hold(f, pkt);
		return true;
	}
	if (key == f->rx_key_next) {
		f->rx_key_next = f->tx_key_next = 0;
		if (!f->rx_key && f->state == OPX_FLOW_NEW && !f->waits)
			return true;
	}
	f->said_bye = true;
	opx_flow_doom(f, OPX_ST_PEER_GONE);
	return true;
}

/* Nobody else will: send what found no room while its owner made progress, and ring. */
static void service_end(struct opx_rel *rel, struct opx_flow *f)
{
	if (f && f->state != OPX_FLOW_NEW && !opx_flow_open(f))
		opx_flow_push(f);
	if (!rel->is_dirty)
		return;
	rel->is_dirty = false;
	hfi_doorbell(rel->a.hw);
}

bool opx_ud_rx(struct opx_rel *rel, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	const struct hfi_hdr *h = pkt->hdr;
	bool is_taken = true;

	switch ((enum opx_ud)h->aux) {
	case OPX_UD_INIT:
		rx_init(rel, f, pkt);
		break;
	case OPX_UD_INIT_ACK:
		rx_init_ack(rel, f, h);
		break;
	case OPX_UD_PING:
		rx_ping(rel, f, pkt);
		break;
	case OPX_UD_ACK:
	case OPX_UD_NACK:
		rx_answer(rel, f, h);
		break;
	case OPX_UD_RESYNCH:
		rx_resynch(rel, f, h);
		break;
	case OPX_UD_BYE:
		is_taken = rx_bye(rel, f, pkt);
		break;
	case OPX_UD_NUM:
		break;
	}
	if (pkt->is_service)
		service_end(rel, hfi_dst_user(pkt->src));
	return is_taken;
}
