// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and unexpected messages of one endpoint: matching, multi-receive, peek, claim, discard, cancel.
#ifndef SF_KIT_SRX_H
#define SF_KIT_SRX_H

#include "base/matchtab.h"
#include "base/view.h"
#include "kit/kit.h"

#define KIT_RX_IOV_MAX 4

/*
 * A receive: posted, then (matched) in progress, then completed and gone. The provider's own state follows in the same
 * slab object (kit_srx_init @rx_extra bytes, kit_rx_priv()).
 */
struct kit_rx {
	struct mt_node mt;         /* tag, ignore, src while posted */
	struct kit_srx *srx;
	struct kit_rx *owner;      /* multi-receive: this is a slice of that posted buffer */
	struct kit_rx *next, *prev; /* context index for cancel */
	union {
		void *context;
		struct kit_rx *rest; /* of one that has ended and rests: the next one */
	};
	uint64_t flags;            /* FI_COMPLETION, FI_MULTI_RECV, FI_CLAIM ... */
	bool tagged, posted;
	bool is_begun;             /* multi-receive: some of the buffer is used */
	uint8_t iov_cnt;
	uint32_t slices;           /* multi-receive: slices in progress */
	size_t len;                /* bytes the buffer holds */
	struct iovec iov[KIT_RX_IOV_MAX];
	void *desc[KIT_RX_IOV_MAX];
};

/* An unexpected message; embedded in the provider's object, which owns the bytes. */
struct kit_ux {
	struct mt_node mt;   /* tag, src (FI_ADDR_NOTAVAIL: no receive can name it) */
	uint64_t msg_len;    /* of the whole message */
	uint64_t data;       /* CQ data */
	bool has_data, tagged;
	void *claimed;       /* context that peeked it with FI_CLAIM, else NULL */
	bool is_claimed;
};

struct kit_srx_ops {
	/* @rx (off the posted list) has just taken @ux: go on with the transfer. */
	void (*start)(struct kit_ep *ep, struct kit_rx *rx, struct kit_ux *ux);
	/* @ux is thrown away (FI_DISCARD, or close). */
	void (*discard)(struct kit_ep *ep, struct kit_ux *ux);
	/*
	 * Whom a completion names as the sender of @ux; FI_ADDR_NOTAVAIL. Asked late: it may have been inserted since
	 * it sent.
	 */
	fi_addr_t (*source)(const struct kit_ux *ux);
};

struct kit_srx {
	struct kit_ep *ep;
	const struct kit_srx_ops *ops;
	struct slab slab;              /* of struct kit_rx + rx_extra */
	/*
	 * Receives that have ended, the last one first. They rest as kit_srx_post() needs them, live objects of @slab
	 * with all that a receive of one buffer leaves as it was: @srx, and no owner.
	 */
	struct kit_rx *rest;
	size_t rx_extra;
	struct mt_posted posted[2];    /* [0] untagged, [1] tagged */
	struct mt_unexp unexp[2];
	struct mt_unexp claimed;
	uint32_t posted_cnt, posted_max; /* receives beyond posted_max: -FI_EAGAIN */
	size_t min_multi_recv;
	bool directed;                 /* FI_DIRECTED_RECV: honour src_addr of receives */
	/* by the provider: what the rest of a multi-receive buffer is too short for goes to the next one, uncut */
	bool multi_whole;
};
int kit_srx_init(struct kit_srx *s, struct kit_ep *ep, const struct kit_srx_ops *ops, size_t rx_extra,
		 uint32_t posted_max, bool directed);
void kit_srx_fini(struct kit_srx *s); /* discards everything without completions */
/**
 * kit_srx_clear() - As kit_srx_fini() for posted receives and unexpected messages; receives in progress go on, and so
 * may @s.
 */
void kit_srx_clear(struct kit_srx *s);
static inline void *kit_rx_priv(struct kit_rx *rx) { return rx + 1; }

struct kit_recv_args {
	const struct iovec *iov; void **desc; size_t iov_cnt;
	fi_addr_t src; uint64_t tag, ignore; void *context; uint64_t flags;
};
/**
 * kit_srx_recv() - fi_recv*, fi_trecv* of every form: post; or FI_PEEK, FI_PEEK|FI_CLAIM, FI_CLAIM, FI_DISCARD,
 * FI_MULTI_RECV. Lock held. May call ops->start at once when an unexpected message matches.
 * Return: 0; -FI_EAGAIN; -FI_EINVAL iov_cnt or flags; -FI_ENOMEM. A peek without match completes with an FI_ENOMSG
 *         error entry.
 */
int kit_srx_recv(struct kit_srx *s, bool tagged, const struct kit_recv_args *a);

/* Whose messages a receive takes. */
static inline uint64_t kit_wanted_src(const struct kit_srx *s, const struct kit_recv_args *a)
{
	static_assert(FI_ADDR_UNSPEC == MT_ANY_SRC, "who names nobody means anybody");
	return s->directed ? a->src : MT_ANY_SRC;
}

/** kit_rx_get() - A receive that rests, or a new one, for kit_rx_init() or the like. NULL: no memory. */
static inline struct kit_rx *kit_rx_get(struct kit_srx *s)
{
	struct kit_rx *rx = s->rest;

	if (!rx)
		return slab_get(&s->slab);
	s->rest = rx->rest;
	return rx;
}

/** kit_rx_rest() - The reverse, of one that has ended and is no slice. */
static inline void kit_rx_rest(struct kit_srx *s, struct kit_rx *rx)
{
	assert(!rx->posted && !rx->owner);
	rx->rest = s->rest;
	s->rest = rx;
}

/* The fields of a fresh @rx that do not depend on its buffer. @src: kit_wanted_src(), here and in kit_srx_post(). */
static inline void kit_rx_fill(struct kit_rx *rx, bool tagged, uint64_t src, const struct kit_recv_args *a)
{
	rx->mt.src = src;
	rx->mt.tag = a->tag;
	rx->mt.ignore = a->ignore;
	rx->context = a->context;
	rx->flags = a->flags;
	rx->tagged = tagged;
	rx->posted = rx->is_begun = false;
	rx->slices = 0;
}
/* The same of one that is new. */
static inline void kit_rx_init(struct kit_rx *rx, struct kit_srx *s, bool tagged, uint64_t src,
			       const struct kit_recv_args *a)
{
	rx->srx = s;
	rx->owner = NULL;
	kit_rx_fill(rx, tagged, src, a);
}
/**
 * kit_srx_post() - kit_srx_recv() of one buffer where nothing is special, nothing waits for it, and a receive rests:
 * what nearly every receive is. It calls nothing, so that who calls it last has nothing to save.
 * Return: posted; false: nothing has happened, kit_srx_recv() is to be asked.
 */
static inline bool kit_srx_post(struct kit_srx *s, bool tagged, void *buf, size_t len, void *desc, uint64_t src,
				const struct kit_recv_args *a)
{
	struct kit_rx *rx = s->rest;

	if (unlikely(a->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MULTI_RECV) || s->posted_cnt >= s->posted_max ||
		     mt_unexp_cnt(&s->unexp[tagged]) || !rx))
		return false;
	s->rest = rx->rest;
	assert(rx->srx == s && !rx->owner && !rx->posted);
	kit_rx_fill(rx, tagged, src, a);
	rx->iov_cnt = 1;
	rx->iov[0] = (struct iovec){buf, len};
	rx->desc[0] = desc;
	rx->len = len;
	rx->posted = true;
	s->posted_cnt++;
	mt_posted_add(&s->posted[tagged], &rx->mt);
	return true;
}
/* kit_srx_match() where the oldest receive that matches is the multi-receive buffer @rx. */
struct kit_rx *kit_srx_match_multi(struct kit_srx *s, struct kit_rx *rx, fi_addr_t src, uint64_t tag, uint64_t len);
/**
 * kit_srx_match() - A message arrived: take the oldest posted receive that matches off the list (or a slice of a
 * multi-receive buffer).
 * @len: whole message; a slice is cut to min(@len, what is left). NULL: unexpected, call kit_srx_unexpected().
 * Each message asks, so it is inlined however large the rest of a module is (lane_peek() says why).
 */
static inline __attribute__((always_inline)) struct kit_rx *kit_srx_match(struct kit_srx *s, bool tagged, fi_addr_t src,
									 uint64_t tag, uint64_t len)
{
	struct mt_node *n = mt_posted_match(&s->posted[tagged], src, tag);
	struct kit_rx *rx;

	if (unlikely(!n))
		return NULL;
	rx = container_of(n, struct kit_rx, mt);
	if (unlikely(rx->flags & FI_MULTI_RECV))
		return kit_srx_match_multi(s, rx, src, tag, len);
	mt_posted_del(&s->posted[tagged], n);
	rx->posted = false;
	s->posted_cnt--;
	return rx;
}
int kit_srx_unexpected(struct kit_srx *s, struct kit_ux *ux);
/** kit_srx_forget_src() - Address @src was removed: its unexpected messages are discarded. */
void kit_srx_forget_src(struct kit_srx *s, fi_addr_t src);
/**
 * kit_srx_know() - The sender of @ux, which waits here and had FI_ADDR_NOTAVAIL, is @src from now on: address vectors
 * learn of some senders late. A receive that names @src takes it at once. Of several messages of one sender the oldest
 * goes first.
 */
void kit_srx_know(struct kit_srx *s, struct kit_ux *ux, fi_addr_t src);
/** kit_srx_lose() - @ux will never be complete: no receive finds it any more. Its owner frees it. */
void kit_srx_lose(struct kit_srx *s, struct kit_ux *ux);
/**
 * kit_srx_cancel() - fi_cancel: a posted receive with @context ends with an FI_ECANCELED error entry. 0; -FI_ENOENT
 * none.
 */
int kit_srx_cancel(struct kit_srx *s, void *context);

struct kit_rx_result { size_t len; uint64_t data, tag, flags; fi_addr_t src; void *buf; };
void kit_rx_done_rest(struct kit_rx *rx, const struct kit_rx_result *r); /* slices, counters, selective completion */
/**
 * kit_rx_done() - Success: completion and counter as @rx's flags want, FI_MULTI_RECV when its owner is used up; @rx is
 * freed. @s, @tagged: of @rx, known to who calls, who need not look.
 */
static inline void kit_rx_done(struct kit_srx *s, struct kit_rx *rx, bool tagged, const struct kit_rx_result *r)
{
	struct kit_cq *cq = s->ep->rx_plain;

	if (unlikely(rx->owner || !cq)) {
		struct kit_rx_result copy = *r; /* the slow way's own, so that @r need not be in memory */

		kit_rx_done_rest(rx, &copy);
		return;
	}
	kit_cq_push(cq, rx->context, (tagged ? FI_RECV | FI_TAGGED : FI_RECV | FI_MSG) | r->flags, r->len, r->buf,
		    r->data, r->tag, r->src);
	kit_rx_rest(s, rx);
}
/** kit_rx_fail() - Error entry (FI_ETRUNC with olen, ...); @rx is freed. */
void kit_rx_fail(struct kit_rx *rx, const struct kit_rx_result *r, int err, int prov_errno, size_t olen,
		 const void *err_data, size_t err_len);
/**
 * kit_rx_copy() - Copy a view into the receive buffer at @off; bytes that do not fit are dropped. Return: bytes copied.
 */
size_t kit_rx_copy(struct kit_rx *rx, size_t off, const struct view *v, size_t view_off);
/*
 * iov helpers: total length (SIZE_MAX: their sum does not fit), copy out of an iov list at an offset, sub-range as a
 * new list (returns pieces, 0 if it does not fit).
 */
size_t kit_iov_len(const struct iovec *iov, size_t cnt);
size_t kit_iov_copy_from(void *dst, size_t len, const struct iovec *iov, size_t cnt, size_t off);
size_t kit_iov_copy_to(const struct iovec *iov, size_t cnt, size_t off, const void *src, size_t len);
size_t kit_iov_slice(const struct iovec *iov, size_t cnt, size_t off, size_t len, struct iovec *out, size_t out_max);

#endif
