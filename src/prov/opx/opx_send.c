// SPDX-License-Identifier: BSD-2-Clause
// FI_MSG and FI_TAGGED: the sends, all of them one function in front of opx_send().
#include "prov/opx/opx.h"

#include "base/copy.h"
#include "kit/stubs.h"

/*
 * One packet for a process on this host, written where its receiver finds it. What it calls is inline, too: where all
 * is linked most small messages are one function. @head: opx_inject_head(), known when this is compiled, which is 30
 * instructions less. @s: but for the iov. False: nothing has happened.
 */
static inline __attribute__((always_inline)) bool inject(struct opx_ep *ep, uint32_t head, struct opx_peer *peer,
							 const void *buf, const struct opx_send *s,
							 struct kit_cq *plain_cq, bool is_quiet)
{
	struct hfi_hdr *h = opx_flow_pass_begin(&peer->flow, head, 0);

	if (unlikely(!h))
		return false;
	opx_inject_hdr(&peer->flow, h, head, s);
	copy_tiny((uint8_t *)h->w, buf, s->len);
	ep->stats.tx_inject++;
	opx_flow_pass_commit(&peer->flow, h, head, 0);
	if (plain_cq)
		kit_cq_push(plain_cq, s->context, opx_send_cq_flags(s->flags), 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
	else if (!is_quiet)
		opx_sent(ep, s->context, s->flags);
	return true;
}

/* Flags with which a message of whatever length is more than a packet that leaves. */
#define PACKET_NOT (FI_FENCE | OPX_DONE_FLAGS)

/* All but a small message that has left at once. */
static __attribute__((noinline)) int send_rest(struct opx_ep *ep, const struct opx_send *s, fi_addr_t to)
{
	struct opx_peer *peer = opx_peer_find(ep, to);
	int rc;

	if (unlikely(!peer || (s->flags & FI_INJECT && s->len > ep->kit.inject_size)))
		return -FI_EINVAL;
	if (likely(peer->flow.pass && s->len <= ep->packet_max && !(s->flags & PACKET_NOT)))
		rc = opx_send_packet(peer, s);
	else
		rc = opx_send(peer, s);
	/*
	 * The receiver of a rendezvous asks us: a row of them must not leave the first unanswered, or the kernel does
	 * what we would do faster. Between hosts there is no other way, and the packets of a row share datagrams.
	 */
	if (unlikely(!rc && s->len >= ep->rzv_min && peer->flow.is_local))
		opx_ep_progress(&ep->kit);
	if (likely(rc != -FI_EAGAIN))
		return rc;
	/* one look at the wire where there was no room: a loop of sends makes progress (doc/facts/opx.md#throttle) */
	opx_ep_progress(&ep->kit);
	return opx_send(peer, s);
}

static inline void ring_and_release(struct opx_ep *ep, uint64_t flags)
{
	if (unlikely(ep->need_doorbell) && !(flags & FI_MORE)) {
		ep->need_doorbell = false;
		hfi_doorbell(ep->hw);
	}
	lock_release(&ep->domain->kit.lock);
}

/* FI_INJECT is one of the flags; QUIET: and the call says nothing more, which kit_ep.tx_quiet has told. */
enum form { FORM_SEND, FORM_INJECT, FORM_QUIET };

/*
 * One buffer. @what: the flags that the call means, FI_TAGGED among them, and in the upper half the CQ data; so that of
 * all calls nothing is in memory. @m: length, tag and context. @form: known when this is compiled. @plain_cq:
 * kit_ep.tx_plain of a call that says nothing more, so that the endpoint's flags, its queue and its counter need not be
 * asked for; or NULL.
 */
static inline __attribute__((always_inline)) ssize_t send_one(struct opx_ep *ep, const void *buf, uint64_t what,
							      fi_addr_t to, const struct opx_send *m, enum form form,
							      struct kit_cq *plain_cq)
{
	bool is_quiet = form == FORM_QUIET;
	uint64_t flags = (plain_cq || is_quiet ? 0 : ep->kit.tx_op_flags & ~(uint64_t)FI_TAGGED) | (uint32_t)what;
	int rc = opx_ep_state(ep);
	struct opx_peer *peer;
	bool has_left = false;

	if (unlikely(rc))
		return rc;
	if (form != FORM_SEND) /* it cannot be waited for */
		flags = (flags & ~(uint64_t)FI_DELIVERY_COMPLETE) | OPX_NO_CQE;
	lock_acquire(&ep->domain->kit.lock);
	peer = opx_peer_known(ep, to);
	if (likely(peer && m->len <= ep->kit.inject_size && peer->flow.pass && !(flags & PACKET_NOT))) {
		const struct opx_send s = {.len = m->len, .tag = m->tag, .data = what >> 32, .context = m->context,
					   .flags = flags};

		has_left = likely(opx_inject_head(s.len) == HFI_HDR_CUT)
				   ? inject(ep, HFI_HDR_CUT, peer, buf, &s, plain_cq, is_quiet)
				   : inject(ep, sizeof(struct hfi_hdr), peer, buf, &s, plain_cq, is_quiet);
	}
	if (unlikely(!has_left)) {
		struct iovec one = {(void *)(uintptr_t)buf, m->len};
		struct opx_send s = {.iov = &one, .iov_cnt = 1, .len = m->len, .tag = m->tag, .data = what >> 32,
				     .context = m->context, .flags = flags};

		rc = send_rest(ep, &s, to);
	}
	ring_and_release(ep, flags);
	return rc;
}

/* Most calls jump to one of these two with their arguments where they are. */
static __attribute__((noinline)) ssize_t send_buf(struct opx_ep *ep, const void *buf, size_t len, uint64_t what,
						  fi_addr_t to, uint64_t tag, void *context)
{
	return send_one(ep, buf, what, to, &(struct opx_send){.len = len, .tag = tag, .context = context}, FORM_SEND,
			NULL);
}

static __attribute__((noinline)) ssize_t inject_buf(struct opx_ep *ep, const void *buf, size_t len, uint64_t what,
						    fi_addr_t to, uint64_t tag)
{
	return send_one(ep, buf, what | FI_INJECT, to, &(struct opx_send){.len = len, .tag = tag}, FORM_INJECT, NULL);
}

/* A vector, or with flags of its own. */
static __attribute__((noinline)) ssize_t send_vec(struct opx_ep *ep, const struct kit_send *v, uint64_t flags)
{
	struct opx_send s = {.iov = v->iov, .iov_cnt = v->iov_cnt, .tag = v->tag, .data = v->data,
			     .context = v->context, .flags = flags};
	int rc;

	if (v->iov_cnt > OPX_IOV_MAX || (v->iov_cnt && !v->iov))
		return -FI_EINVAL;
	s.len = kit_iov_len(v->iov, v->iov_cnt);
	if (s.len == SIZE_MAX)
		return -FI_EINVAL; /* the sum of the lengths wraps */
	rc = opx_ep_state(ep);
	if (unlikely(rc))
		return rc;
	lock_acquire(&ep->domain->kit.lock);
	rc = send_rest(ep, &s, v->to);
	ring_and_release(ep, flags);
	return rc;
}

static inline __attribute__((always_inline)) ssize_t do_send(struct fid_ep *fid, const struct kit_send *s)
{
	struct opx_ep *ep = opx_ep_of(fid);
	uint64_t kind = s->tagged ? FI_TAGGED : 0;

	if (s->is_vec)
		return send_vec(ep, s, (kit_tx_flags(&ep->kit, s->form, s->flags) & ~(uint64_t)FI_TAGGED) | kind);
	/* with these no call means more than fits the lower half */
	static_assert((FI_INJECT | FI_REMOTE_CQ_DATA | FI_TAGGED) <= UINT32_MAX, "flags of calls");
	if (s->form == KIT_BY_ARGS && !(s->flags & FI_REMOTE_CQ_DATA)) {
		const struct opx_send m = {.len = s->len, .tag = s->tag, .context = s->context};
		struct kit_cq *cq = ep->kit.tx_plain;

		if (likely(cq != NULL))
			return send_one(ep, s->buf, kind | FI_COMPLETION, s->to, &m, FORM_SEND, cq);
	}
	if (s->form == KIT_BY_INJECT && !(s->flags & FI_REMOTE_CQ_DATA)) {
		const struct opx_send m = {.len = s->len, .tag = s->tag};

		if (likely(ep->kit.tx_quiet))
			return send_one(ep, s->buf, kind | FI_INJECT, s->to, &m, FORM_QUIET, NULL);
	}
	kind |= s->flags | s->data << 32;
	return s->form == KIT_BY_INJECT ? inject_buf(ep, s->buf, s->len, kind, s->to, s->tag)
					: send_buf(ep, s->buf, s->len, kind, s->to, s->tag, s->context);
}

#include "kit/call_send.inc"

/* A context of a scalable endpoint has half of them. */
const struct fi_ops_msg opx_msg_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_MSG_RX(opx)};
const struct fi_ops_msg opx_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), KIT_MSG_TX, KIT_NO_MSG_RX};
const struct fi_ops_msg opx_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), KIT_NO_MSG_TX, KIT_MSG_RX(opx)};
const struct fi_ops_tagged opx_tagged_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_TAG_RX(opx)};
const struct fi_ops_tagged opx_tagged_tx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_TAG_TX, KIT_NO_TAGGED_RX};
const struct fi_ops_tagged opx_tagged_rx_ops = {
	.size = sizeof(struct fi_ops_tagged), KIT_NO_TAGGED_TX, KIT_TAG_RX(opx)};
