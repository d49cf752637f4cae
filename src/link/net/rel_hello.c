// SPDX-License-Identifier: BSD-2-Clause
// Handshake, goodbye and refusals of the reliability module: what a stranger's datagrams can bring about.
#include "link/core/link_int.h"

#include <errno.h>
#include <string.h>

#include "link/net/rel_int.h"

/*
 * Theory of operation
 *
 *	A -> B   HELLO      half a, echo 0     B keeps nothing
 *	B -> A   HELLO_ACK  half b, echo a     A has the pair: its nonce is a + b
 *	A -> B   HELLO      half b named       B has it, too; DATA follows in the same train
 *
 * B's half is a keyed hash of A's address and of what the HELLO says: a cookie. Who names it has received what was sent
 * to that address, hence a sender of forged addresses gets no state, and cannot touch what there is. The key is renewed
 * every REL_COOKIE_NS, and the one before is still taken. A port that has said HELLO itself gives the half that it
 * said: HELLOs that cross make one pair.
 *
 * A is *unsure* until a datagram of the pair comes: the third step may be lost. Until then probes repeat it, and
 * another half of B's takes the place of the one it gave first (it has renewed its key twice, or says HELLO itself by
 * now). Refusals of other nonces from there wait: one of them may be of the half that B means, which is settled once B
 * keeps anything. A's datagrams have flag NEW, by which B does not refuse them. (Tried: B refuses, A repeats the third
 * step. A refusal that comes late, when A is sure, then ends a pair that both have.)
 *
 * A proof may be a late copy, or one that somebody kept, of a process that was there before: as long as nothing else
 * has come from the other side of a pair, another proof takes its place. Nobody has what was sent meanwhile, so it is
 * sent again.
 *
 * While a pair is open and sure, a HELLO of another one from its address changes nothing. Where the old one is gone,
 * whoever is there now refuses its nonce: the HELLO only makes us send an acknowledgement with that nonce, and the next
 * HELLO finds what came of it.
 *
 * No address is sent more bytes than came from it, nor more than one datagram for one, nor more than REL_ANSWER_BURST
 * of a kind in a millisecond.
 */

static uint8_t own_settings(const struct rel *r)
{
	return r->wants_crc ? REL_SET_CRC : 0;
}

/* --- cookies ---------------------------------------------------------------------------------- */

/* What a cookie stands for; no padding. */
struct cookie_of {
	uint8_t ip[16];
	uint64_t half;
	uint32_t src_nonce, serial;
	uint16_t port;
	uint8_t cls, settings;
	uint32_t zero;
};
static_assert(sizeof(struct cookie_of) == 40, "no padding");

static void cookies_renew(struct rel *r, uint64_t now_ns)
{
	uint64_t age = now_ns - r->cookie_ns;

	if (r->cookie_ns && age < REL_COOKIE_NS)
		return;
	r->cookie[1] = r->cookie[0];
	link_secret(r->port->node, &r->cookie[0], sizeof(r->cookie[0]));
	if (!r->cookie_ns || age >= 2 * REL_COOKIE_NS)
		link_secret(r->port->node, &r->cookie[1], sizeof(r->cookie[1]));
	r->cookie_ns = now_ns;
}

static uint64_t cookie_half(const struct keyed *k, const struct link_addr *src, const struct rel_pkt *pkt)
{
	struct cookie_of c = {
		.half = pkt->hello.half,
		.src_nonce = pkt->hello.src_nonce,
		.serial = pkt->hello.serial,
		.port = src->port,
		.cls = pkt->hello.cls,
		.settings = pkt->hello.settings,
	};
	uint64_t half;

	memcpy(c.ip, src->ip, sizeof(c.ip));
	half = keyed_hash(k, &c, sizeof(c));
	return half ? half : 1;
}

/* The other side may not have the pair, or have no use for the one that it has: its next HELLO makes one. */
static bool is_young(const struct rel_peer *rp)
{
	return rp->state == REL_S_NONE || rp->state == REL_S_HELLO || (rp->state == REL_S_OPEN && !rp->is_sure);
}

/* The half that we give whoever sent @pkt from @src, of whom we may know @rp. *proved: it names one that we gave. */
static uint64_t half_for(struct rel *r, const struct rel_peer *rp, const struct link_addr *src,
			 const struct rel_pkt *pkt, bool *proved)
{
	uint64_t said = pkt->hello.echo_half, half;

	if (rp && is_young(rp)) { /* no other one from now on: the two sides could come to different ends */
		*proved = said == rp->half;
		return rp->half;
	}
	half = cookie_half(&r->cookie[0], src, pkt);
	*proved = said == half || (said && said == cookie_half(&r->cookie[1], src, pkt));
	return *proved ? said : half;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* The first step, or the third. */
static void hello_send(struct rel_peer *rp)
{
	struct rel *r = rp->r;
	struct link_addr dst = rel_dst(rp, REL_CTL_MAX);
	struct rel_pkt pkt = {
		.type = REL_HELLO,
		.flags = REL_F_CRC,
		.hello =
			{
				.half = rp->half,
				.echo_half = rp->state == REL_S_OPEN ? rp->peer_half : 0,
				.src_nonce = r->port->self.nonce,
				.dst_nonce = rp->peer_nonce,
				.serial = rp->serial,
				.cls = (uint8_t)r->port->cls,
				.settings = own_settings(r),
			},
	};

	rel_emit(r, &dst, &pkt);
}

void rel_hello_again(struct rel_peer *rp, uint64_t now_ns)
{
	rp->hello_ns = now_ns;
	hello_send(rp);
}

void rel_hello_start(struct rel_peer *rp, uint64_t now_ns)
{
	rel_set_state(rp, REL_S_HELLO);
	rp->probes = 0;
	rel_hello_again(rp, now_ns);
}

void rel_bye_start(struct rel_peer *rp, uint64_t now_ns)
{
	bool is_half = rp->is_half;

	rel_half_end(rp);
	rel_set_state(rp, is_half ? REL_S_CLOSED : REL_S_BYE); /* a peer that has sent nothing is told once */
	rp->probes = 0;
	rp->hello_ns = now_ns;
	rel_control(rp, REL_BYE, now_ns);
}

static uint32_t *answer_cnt(struct rel *r, enum rel_answer kind, uint64_t now_ns)
{
	if (r->answer_ms != now_ns / NS_PER_MS) {
		r->answer_ms = now_ns / NS_PER_MS;
		memset(r->answer_cnt, 0, sizeof(r->answer_cnt));
	}
	return &r->answer_cnt[kind];
}

/* May one more datagram of @kind go to somebody who has proved nothing? Nobody is to use us to flood others. */
static bool answer_may(struct rel *r, enum rel_answer kind, uint64_t now_ns)
{
	return (*answer_cnt(r, kind, now_ns))++ < REL_ANSWER_BURST;
}

/* HELLO_ACK for @pkt with our @half. */
static void hello_answer(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt, uint64_t half,
			 uint64_t now_ns)
{
	struct rel_pkt out = {
		.type = REL_HELLO_ACK,
		.flags = REL_F_CRC,
		.hello =
			{
				.half = half,
				.echo_half = pkt->hello.half,
				.src_nonce = r->port->self.nonce,
				.dst_nonce = pkt->hello.src_nonce,
				.serial = r->serial,
				.cls = (uint8_t)r->port->cls,
				.settings = own_settings(r),
			},
	};

	if (answer_may(r, REL_A_HELLO, now_ns))
		rel_emit(r, src, &out);
}

void rel_refuse(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt,
		enum rel_reason why, uint64_t now_ns)
{
	bool is_hello = pkt->type == REL_HELLO;
	struct rel_pkt out = {
		.type = REL_REFUSE,
		.flags = REL_F_CRC,
		.nonce = is_hello ? 0 : pkt->nonce, /* then the base header has all that is needed */
		.refuse =
			{
				.half = is_hello ? pkt->hello.half : 0,
				.reason = (uint8_t)why,
				.version = REL_VERSION,
				.cls = (uint8_t)r->port->cls,
			},
	};

	if (answer_may(r, REL_A_REFUSE, now_ns))
		rel_emit(r, src, &out);
}

/* --- HELLO ------------------------------------------------------------------------------------ */

/* Both halves are known: the pair exists. */
static void pair_make(struct rel_peer *rp, const struct rel_pkt *pkt, bool is_sure, uint64_t now_ns)
{
	if (rp->state == REL_S_HELLO && !rp->probes)
		rp->srtt_ns = (uint32_t)MIN(MAX(now_ns - rp->hello_ns, NS_PER_US),
					    (uint64_t)REL_PTO_MAX_NS);
	if (rp->state != REL_S_OPEN) {
		rel_set_state(rp, REL_S_OPEN);
		rp->tx_seq = rp->tx_una = rp->rx_next = rp->rx_proc = rp->rx_top = REL_SEQ_FIRST;
		rp->nak_una = rp->nak_tx = rp->nak_end = rp->nak_rx = REL_SEQ_FIRST;
		rp->has_echo_rx = rp->has_echo_tx = rp->owes_ack = rp->ack_now = false;
		rp->rx_dgrams = rp->rx_bytes = 0;
		rp->probes = 0;
		rp->used_ns = now_ns;
	} /* else what was sent under the nonce that nobody had goes again under this one */
	rp->peer_half = pkt->hello.half;
	rp->peer_serial = pkt->hello.serial;
	rp->peer_nonce = pkt->hello.src_nonce;
	rp->pair = rp->half + rp->peer_half;
	if (!rp->pair)
		rp->pair = 1;
	rp->is_sure = rp->is_proved = is_sure;
	rp->has_crc = rp->r->wants_crc || pkt->hello.settings & REL_SET_CRC;
	rp->has_heard = rp->peer->is_met = true;
	port_met_by_net(rp->peer);
	rp->heard_ns = rp->pto_base_ns = now_ns;
	if (rp->q_head)
		rel_ready(rp);
}

/* Why a HELLO cannot lead to a pair; 0 = it can. */
static enum rel_reason hello_refusal(struct rel *r, const struct link_addr *src,
				     const struct rel_pkt *pkt)
{
	char text[LINK_ADDR_TEXT];

	if (pkt->hello.dst_nonce && pkt->hello.dst_nonce != r->port->self.nonce)
		return REL_R_GONE;
	if (pkt->hello.cls == r->port->cls)
		return 0;
	if (!r->class_said)
		LOG_WARN("%s speaks service class %u, this port %u: refused",
			 link_addr_text(src, text), pkt->hello.cls, r->port->cls);
	r->class_said = true;
	return REL_R_CLASS;
}

/*
 * @src has proved that it is there and wants a pair with our half @half. Return: the peer to make it with, which has
 * none of which more came than a proof; NULL: no room.
 */
static struct rel_peer *hello_peer(struct rel *r, struct rel_peer *rp, const struct link_addr *src,
				   const struct rel_pkt *pkt, uint64_t half, uint64_t now_ns)
{
	struct link_addr addr = *src;

	if (!rp) {
		addr.nonce = pkt->hello.src_nonce;
		rp = rel_peer_arrived(r, &addr, now_ns);
	} else if (rp->state == REL_S_CLOSED) {
		rel_peer_pin(rp);
		rel_peer_fail(rp, -ECONNREFUSED);
		if (!rel_peer_unpin(rp))
			return NULL;
		rel_set_state(rp, REL_S_NONE);
	}
	if (rp)
		rp->half = half;
	return rp;
}

static bool is_of_pair(const struct rel_peer *rp, const struct rel_pkt *pkt)
{
	return rp->peer_nonce == pkt->hello.src_nonce && rp->peer_half == pkt->hello.half;
}

/*
 * A pair was made with a proof, and @pkt is of another one, not older as far as can be told: whoever proves more has
 * it.
 */
static bool may_follow(const struct rel_peer *rp, const struct rel_pkt *pkt)
{
	if (!rp->is_proved || is_of_pair(rp, pkt))
		return false;
	return rp->peer_nonce != pkt->hello.src_nonce || rel_seq_before(rp->peer_serial, pkt->hello.serial);
}

/* A HELLO from where a pair is open: of that pair, or of another one, about which only the end of this one decides. */
static void hello_in_pair(struct rel_peer *rp, const struct link_addr *src, const struct rel_pkt *pkt, uint64_t now_ns)
{
	struct rel *r = rp->r;

	if (is_of_pair(rp, pkt)) {
		if (pkt->hello.echo_half != rp->half)
			hello_answer(r, src, pkt, rp->half, now_ns);
		return;
	}
	r->port->stats.drop_hello++;
	if (answer_may(r, REL_A_HELLO, now_ns))
		rel_ask(rp, now_ns);
}

/* Nothing may come of a HELLO for @rp; NULL: of one for nobody that we know. */
static bool is_over(struct rel *r, const struct rel_peer *rp, const struct link_addr *src, const struct rel_pkt *pkt)
{
	struct link_addr addr = *src;

	if (!rp) {
		addr.nonce = pkt->hello.src_nonce;
		return r->draining || port_peer_status(r->port, &addr);
	}
	if (rp->state != REL_S_CLOSED)
		return rp->state == REL_S_BYE;
	/* an older one is a late copy */
	return r->draining ||
	       (rp->peer_nonce == pkt->hello.src_nonce && !rel_seq_before(rp->peer_serial, pkt->hello.serial));
}

/*
 * Is a HELLO to a port whose nonce is a secret looked at? Not after so many wrong ones that trying would lead to the
 * right one.
 */
static bool nonce_may(struct rel *r, const struct rel_pkt *pkt, uint64_t now_ns)
{
	uint32_t *wrong = answer_cnt(r, REL_A_WRONG, now_ns);

	if (!pkt->hello.dst_nonce || *wrong >= REL_ANSWER_BURST)
		return false;
	*wrong += pkt->hello.dst_nonce != r->port->self.nonce;
	return true;
}

struct rel_peer *rel_on_hello(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt,
		  uint64_t now_ns)
{
	struct link_addr addr = *src;
	enum rel_reason why;
	struct rel_peer *rp;
	uint64_t half;
	bool proved;

	/* where the nonce is part of the address, who does not know it is not talked to: our answers would tell it */
	if (!r->port->by_place && !nonce_may(r, pkt, now_ns)) {
		r->port->stats.drop_nonce++;
		return NULL;
	}
	why = hello_refusal(r, src, pkt);
	rp = why ? NULL : rel_peer_find(r, src, pkt->hello.src_nonce);
	if (!why && is_over(r, rp, src, pkt)) {
		if (rp && is_of_pair(rp, pkt)) /* the goodbye says more */
			return NULL;
		why = REL_R_GONE;
	}
	if (why) {
		rel_refuse(r, src, pkt, why, now_ns);
		return NULL;
	}
	if (rp && rp->state == REL_S_OPEN && rp->is_sure && !may_follow(rp, pkt)) {
		hello_in_pair(rp, src, pkt, now_ns);
		return NULL;
	}
	if (!rp && (src->flags & LINK_ADDR_NEAR)) {
		/* no address to prove, and only who is known is answered through shared memory */
		addr.nonce = pkt->hello.src_nonce;
		rp = rel_peer_arrived(r, &addr, now_ns);
		if (!rp)
			return NULL;
	}
	cookies_renew(r, now_ns);
	half = half_for(r, rp, src, pkt, &proved);
	if (!proved) {
		hello_answer(r, rp ? &rp->peer->addr : src, pkt, half, now_ns);
		return NULL;
	}
	rp = hello_peer(r, rp, src, pkt, half, now_ns);
	if (!rp)
		return NULL;
	pair_make(rp, pkt, true, now_ns);
	return rp;
}

struct rel_peer *rel_on_hello_ack(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt,
		      uint64_t now_ns)
{
	struct rel_peer *rp = rel_peer_first(r, src);

	while (rp && rp->half != pkt->hello.echo_half)
		rp = rel_peer_next(rp);
	if (!rp) {
		r->port->stats.drop_nonce++;
		return NULL;
	}
	if (!is_young(rp) || rp->state == REL_S_NONE || pkt->hello.cls != r->port->cls ||
	    (rp->state == REL_S_OPEN && rp->peer_half == pkt->hello.half) ||
	    (rp->peer->addr.nonce && rp->peer_nonce != pkt->hello.src_nonce))
		return NULL;
	pair_make(rp, pkt, false, now_ns);
	rel_hello_again(rp, now_ns);
	return rp;
}

/* --- REFUSE and BYE --------------------------------------------------------------------------- */

static bool refuse_means(const struct rel_peer *rp, const struct rel_pkt *pkt)
{
	bool is_sure = rp->state != REL_S_OPEN || rp->is_sure;

	if (pkt->nonce)
		return rp->state != REL_S_HELLO && is_sure && pkt->nonce == rp->pair;
	return pkt->refuse.half == rp->half && (rp->state == REL_S_HELLO || !is_sure);
}

void rel_on_refuse(struct rel *r, const struct link_addr *src, const struct rel_pkt *pkt)
{
	struct rel_peer *rp = rel_peer_first(r, src);
	char text[LINK_ADDR_TEXT];

	while (rp && !refuse_means(rp, pkt))
		rp = rel_peer_next(rp);
	if (!rp && r->draining && pkt->refuse.reason == REL_R_GONE) { /* of a goodbye that was said twice */
		r->port->stats.late_byes++;
		return;
	}
	if (!rp) {
		r->port->stats.drop_nonce++;
		return;
	}
	if (rp->state == REL_S_BYE || rp->state == REL_S_CLOSED) {
		rel_peer_refused(rp, -ECONNREFUSED); /* why does not matter any more */
		return;
	}
	if (pkt->refuse.reason == REL_R_VERSION)
		LOG_WARN("%s speaks wire version %u, we speak %u: install the same release on both "
			 "hosts",
			 link_addr_text(src, text), pkt->refuse.version, REL_VERSION);
	if (pkt->refuse.reason == REL_R_CLASS)
		LOG_WARN("%s offers service class %u, this port needs %u: another kind of adapter "
			 "listens there",
			 link_addr_text(src, text), pkt->refuse.cls, r->port->cls);
	rel_peer_refused(rp, pkt->refuse.reason == REL_R_GONE ? -ECONNREFUSED : -EPROTO);
}

void rel_on_bye(struct rel_peer *rp, const struct rel_pkt *pkt, uint64_t now_ns)
{
	uint64_t pair = rp->pair;

	if (rp->state == REL_S_OPEN && !rel_on_ack(rp, pkt, now_ns)) {
		rp->r->port->stats.drop_malformed++;
		return;
	}
	if (rp->pair != pair) /* a callback dropped it */
		return;
	rel_control(rp, REL_BYE_ACK, now_ns);
	if (rp->state == REL_S_BYE)
		rel_set_state(rp, REL_S_CLOSED); /* both close: this is answer enough */
	else if (rp->state == REL_S_OPEN) {
		rp->peer->said_bye = true;
		rel_peer_kill(rp, -ECONNREFUSED);
	}
}
