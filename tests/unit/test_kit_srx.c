// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/srx.[ch]: random operations against a model that is two arrays in order of age, with
// the completions that it foretells; and single cases of what the random walk would not explain.
#include "unit.h"

#include <string.h>

#include "base/mem.h"
#include "kit/srx.h"
#include "kit_fix.h"

#define ALL_MAX	   200 /* receives, messages, transfers at a time */
#define POSTED_MAX 24
#define MIN_MULTI  16
#define MSG_LEN	   300
#define GAP	   3 /* bytes between the pieces of a buffer */
#define LATE	   3 /* who had no name at first */
#define CANARY	   0xee

struct msg {
	struct kit_ux ux;
	uint8_t *bytes;
};

/* A receive; also its own context. */
struct recv {
	bool tagged, posted;
	fi_addr_t src;
	uint64_t tag, ignore, flags;
	uint8_t *buf;
	size_t size, iov_cnt, piece; /* buffer of @iov_cnt pieces of @piece bytes */
	size_t off;		     /* multi: used up to here */
	unsigned slices;
};

struct flight {
	struct kit_rx *rx;
	struct recv *r;
	struct msg *m;
	uint8_t *at;
	size_t len;
};

struct want {
	struct fi_cq_err_entry e; /* err 0: a success */
	fi_addr_t src;
};

static struct fix g_fix;
static struct fix_ep g_ep;
static struct kit_cq *g_cq;
static struct kit_cntr *g_cntr;
static struct kit_srx g_srx;
static struct rng g_rng;

static struct {
	struct recv *recv[ALL_MAX]; /* posted, oldest first */
	struct msg *unexp[ALL_MAX];
	struct flight claimed[ALL_MAX]; /* @r, @m */
	struct flight flight[ALL_MAX];
	struct want want[2 * ALL_MAX];
	size_t recv_cnt, unexp_cnt, claimed_cnt, flight_cnt, want_cnt;
	uint64_t ok, err, discards;
	struct recv *cur;	 /* in kit_srx_recv() */
	struct msg *claiming;	 /* what FI_CLAIM must start */
	struct msg *may_discard; /* what on_discard() must be given; NULL: anything */
} g_m;

/* --- the model: arrays ---------------------------------------------------------------------------
 */

#define TAKE_OUT(name_, i_)                                                                        \
	memmove(&g_m.name_[i_], &g_m.name_[(i_) + 1],                                              \
		(--g_m.name_##_cnt - (i_)) * sizeof(g_m.name_[0]))

static bool agrees(const struct recv *r, const struct kit_ux *ux)
{
	return r->tagged == ux->tagged && !((r->tag ^ ux->mt.tag) & ~r->ignore) &&
	       (!g_srx.directed || r->src == FI_ADDR_UNSPEC || r->src == ux->mt.src);
}

static size_t find_unexp(const struct recv *r)
{
	size_t i = 0;

	while (i < g_m.unexp_cnt && !agrees(r, &g_m.unexp[i]->ux))
		i++;
	return i;
}

static size_t find_recv(const struct msg *m)
{
	size_t i = 0;

	while (i < g_m.recv_cnt && !agrees(g_m.recv[i], &m->ux))
		i++;
	return i;
}

static uint64_t kind_of(const struct recv *r)
{
	return FI_RECV | (r->tagged ? FI_TAGGED : FI_MSG);
}

static bool is_reported(uint64_t flags)
{
	return !g_ep.kit.rx_selective || flags & FI_COMPLETION;
}

static void want(const struct fi_cq_err_entry *e, fi_addr_t src)
{
	assert_in_range(g_m.want_cnt, 0, ARRAY_SIZE(g_m.want) - 1);
	g_m.want[g_m.want_cnt++] = (struct want){*e, src};
}

/* --- memory
 * ---------------------------------------------------------------------------------------- */

static struct recv *recv_new(void)
{
	struct recv *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->iov_cnt = rng_chance(&g_rng, 0.7) ? 1 : rng_below(&g_rng, KIT_RX_IOV_MAX + 1);
	r->piece = rng_below(&g_rng, r->iov_cnt == 1 ? MSG_LEN : MSG_LEN / 3);
	r->size = r->iov_cnt * r->piece;
	r->buf = malloc(r->iov_cnt * (r->piece + GAP) + 1);
	memset(r->buf, CANARY, r->iov_cnt * (r->piece + GAP) + 1);
	return r;
}

static void recv_free(struct recv *r)
{
	free(r->buf);
	free(r);
}

static struct msg *msg_new(void)
{
	struct msg *m = aligned_alloc(CACHE_LINE, ALIGN_UP(sizeof(*m), (size_t)CACHE_LINE));
	size_t len = rng_chance(&g_rng, 0.2) ? 0 : rng_below(&g_rng, MSG_LEN);

	assert_non_null(m);
	memset(m, 0xa5, sizeof(*m));
	m->ux.tagged = rng_chance(&g_rng, 0.6);
	m->ux.mt.src = rng_chance(&g_rng, 0.1) ? FI_ADDR_NOTAVAIL : rng_below(&g_rng, LATE);
	m->ux.mt.tag = m->ux.tagged ? rng_below(&g_rng, 8) : 0;
	m->ux.msg_len = len;
	m->ux.has_data = rng_chance(&g_rng, 0.3);
	m->ux.data = m->ux.has_data ? rng_u64(&g_rng) : 0;
	m->bytes = malloc(len + 1);
	for (size_t i = 0; i < len; i++)
		m->bytes[i] = (uint8_t)rng_below(&g_rng, CANARY);
	return m;
}

static void msg_free(struct msg *m)
{
	free(m->bytes);
	free(m);
}

/* --- transfers
 * --------------------------------------------------------------------------------------- */

static struct kit_rx_result result_of(const struct flight *f)
{
	return (struct kit_rx_result){
		.len = MIN((size_t)f->m->ux.msg_len, f->len),
		.data = f->m->ux.data,
		.tag = f->m->ux.mt.tag,
		.flags = f->m->ux.has_data ? FI_REMOTE_CQ_DATA : 0,
		.src = f->m->ux.mt.src,
	};
}

/* As a provider would: any cut of the message, segments anyhow. */
static void copy_in(const struct flight *f)
{
	size_t len = f->m->ux.msg_len, cut = rng_below(&g_rng, len + 1), done;
	uint32_t seg = (uint32_t)rng_below(&g_rng, len + 1);
	struct view v = {
		.len = (uint32_t)len,
		.seg_cnt = 2,
		.seg = {{f->m->bytes, seg}, {f->m->bytes + seg, (uint32_t)len - seg}},
	};
	struct view head = view_of(f->m->bytes, (uint32_t)cut);

	if (rng_chance(&g_rng, 0.3))
		v = view_of(f->m->bytes, (uint32_t)len);
	if (rng_chance(&g_rng, 0.5))
		cut = 0;
	done = cut ? kit_rx_copy(f->rx, 0, &head, 0) : 0;
	assert_int_equal(done, MIN(cut, f->len));
	assert_int_equal(kit_rx_copy(f->rx, cut, &v, cut),
			 f->len > cut ? MIN(f->len - cut, len - cut) : 0);
}

static void check_bytes(const struct flight *f)
{
	const struct recv *r = f->r;
	size_t len = MIN((size_t)f->m->ux.msg_len, f->len);

	for (size_t i = 0; i < len; i++) {
		const uint8_t *p =
			r->iov_cnt == 1 ? f->at + i
					: r->buf + i / r->piece * (r->piece + GAP) + i % r->piece;

		assert_int_equal(*p, f->m->bytes[i]);
	}
	for (size_t i = 0; i < r->iov_cnt; i++)
		for (size_t k = 0; k < GAP; k++)
			assert_int_equal(r->buf[i * (r->piece + GAP) + r->piece + k], CANARY);
	if (r->flags & FI_MULTI_RECV) /* what is left is untouched */
		for (size_t i = r->off; i < r->size; i++)
			assert_int_equal(r->buf[i], CANARY);
}

static void flight_end(struct flight f)
{
	struct kit_rx_result res = result_of(&f);
	bool is_multi = f.r->flags & FI_MULTI_RECV, is_cut = f.m->ux.msg_len > f.len;
	bool is_last = !is_multi || (!--f.r->slices && !f.r->posted);
	struct fi_cq_err_entry e = {
		.op_context = f.r,
		.flags = kind_of(f.r) | res.flags | (is_multi && is_last ? FI_MULTI_RECV : 0),
		.len = res.len,
		.buf = is_multi ? f.at : NULL,
		.data = res.data,
		.tag = res.tag,
		.err = is_cut ? FI_ETRUNC : 0,
		.prov_errno = is_cut ? 99 : 0,
		.olen = is_cut ? f.m->ux.msg_len - f.len : 0,
	};

	copy_in(&f);
	check_bytes(&f);
	if (is_cut || is_reported(f.r->flags) || (is_multi && is_last))
		want(&e, f.m->ux.mt.src);
	*(is_cut ? &g_m.err : &g_m.ok) += 1;
	if (is_cut)
		kit_rx_fail(f.rx, &res, FI_ETRUNC, 99, e.olen, NULL, 0);
	else
		kit_rx_done(&g_srx, f.rx, f.rx->tagged, &res);
	msg_free(f.m);
	if (is_last)
		recv_free(f.r);
}

/* @r takes @m: the receive that the code has chosen must look like it. */
static void take(struct recv *r, struct msg *m, struct kit_rx *rx)
{
	struct flight f = {rx, r, m, r->buf, r->size};

	assert_non_null(rx);
	assert_ptr_equal(rx->context, r);
	if (r->flags & FI_MULTI_RECV) {
		f.at = r->buf + r->off;
		f.len = MIN(r->size - r->off, (size_t)m->ux.msg_len);
		r->off += f.len;
		r->slices++;
		if (r->size - r->off < MIN_MULTI)
			r->posted = false;
		assert_ptr_equal(rx->iov[0].iov_base, f.at);
	} else {
		r->posted = false;
	}
	for (size_t i = 0; !r->posted && i < g_m.recv_cnt; i++)
		if (g_m.recv[i] == r)
			TAKE_OUT(recv, i);
	assert_int_equal(rx->len, f.len);
	assert_int_equal(rx->tagged, r->tagged);
	if (g_m.flight_cnt == ALL_MAX || rng_chance(&g_rng, 0.5))
		flight_end(f);
	else
		g_m.flight[g_m.flight_cnt++] = f;
}

static void on_start(struct kit_ep *ep, struct kit_rx *rx, struct kit_ux *ux)
{
	struct msg *m = container_of(ux, struct msg, ux);
	size_t i;

	assert_ptr_equal(ep, &g_ep.kit);
	if (g_m.claiming) {
		assert_ptr_equal(m, g_m.claiming);
	} else {
		i = find_unexp(g_m.cur);
		assert_in_range(i, 0, g_m.unexp_cnt - 1);
		assert_ptr_equal(m, g_m.unexp[i]);
		TAKE_OUT(unexp, i);
	}
	take(g_m.cur, m, rx);
}

static void on_discard(struct kit_ep *ep, struct kit_ux *ux)
{
	struct msg *m = container_of(ux, struct msg, ux);

	assert_ptr_equal(ep, &g_ep.kit);
	if (g_m.may_discard)
		assert_ptr_equal(m, g_m.may_discard);
	g_m.discards++;
	msg_free(m);
}

static fi_addr_t source(const struct kit_ux *ux)
{
	return ux->mt.src;
}

static const struct kit_srx_ops srx_ops = {.start = on_start, .discard = on_discard, .source = source};

/* --- what came of it
 * --------------------------------------------------------------------------------- */

static void check_entry(const struct want *w)
{
	struct fi_cq_tagged_entry t;
	struct fi_cq_err_entry e = {0};
	fi_addr_t src = w->src; /* errors have none here */
	ssize_t ret = fi_cq_readfrom(&g_cq->fid, &t, 1, &src);

	assert_int_equal(ret, w->e.err ? -FI_EAVAIL : 1);
	if (ret == 1)
		e = (struct fi_cq_err_entry){t.op_context, t.flags, t.len, t.buf, t.data, t.tag};
	else
		assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_int_equal(e.err, w->e.err);
	assert_int_equal(e.prov_errno, w->e.prov_errno);
	assert_ptr_equal(e.op_context, w->e.op_context);
	assert_int_equal(e.flags, w->e.flags);
	assert_int_equal(e.len, w->e.len);
	assert_int_equal(e.olen, w->e.olen);
	assert_ptr_equal(e.buf, w->e.buf);
	assert_int_equal(e.data, w->e.data);
	assert_int_equal(e.tag, w->e.tag);
	assert_int_equal(src, w->src);
}

static void check_cq(void)
{
	struct fi_cq_tagged_entry e;

	for (size_t i = 0; i < g_m.want_cnt; i++)
		check_entry(&g_m.want[i]);
	g_m.want_cnt = 0;
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EAGAIN);
	assert_int_equal(mt_posted_cnt(&g_srx.posted[0]) + mt_posted_cnt(&g_srx.posted[1]),
			 g_m.recv_cnt);
	assert_int_equal(g_srx.posted_cnt, g_m.recv_cnt);
	assert_int_equal(mt_unexp_cnt(&g_srx.unexp[0]) + mt_unexp_cnt(&g_srx.unexp[1]),
			 g_m.unexp_cnt);
	assert_int_equal(mt_unexp_cnt(&g_srx.claimed), g_m.claimed_cnt);
}

/* --- operations
 * ---------------------------------------------------------------------------------------- */

static void recv_wish(struct recv *r)
{
	static const uint64_t ignore[] = {0, 0, 0, 1, 6, UINT64_MAX};

	r->tagged = rng_chance(&g_rng, 0.6);
	r->src = rng_chance(&g_rng, 0.5) ? FI_ADDR_UNSPEC : rng_below(&g_rng, LATE + 1);
	r->tag = r->tagged ? rng_below(&g_rng, 8) : 0;
	r->ignore = r->tagged ? ignore[rng_below(&g_rng, ARRAY_SIZE(ignore))] : 0;
	r->flags = rng_chance(&g_rng, 0.5) ? FI_COMPLETION : 0;
}

static int call_recv(struct recv *r, void *context, uint64_t more_flags)
{
	struct iovec iov[KIT_RX_IOV_MAX];
	struct kit_recv_args a = {
		.iov = iov,
		.iov_cnt = r->iov_cnt,
		.src = r->src,
		.tag = r->tag,
		.ignore = r->ignore,
		.context = context,
		.flags = r->flags | more_flags,
	};

	for (size_t i = 0; i < r->iov_cnt; i++)
		iov[i] = (struct iovec){r->buf + i * (r->piece + GAP), r->piece};
	if (r->iov_cnt == 1 && rng_chance(&g_rng, 0.7))
		return fix_recv_buf(&g_srx, r->tagged, r->buf, r->piece, NULL, &a);
	return kit_srx_recv(&g_srx, r->tagged, &a);
}

static void do_recv(void)
{
	struct recv *r = recv_new();
	bool is_full = g_m.recv_cnt == POSTED_MAX, is_there;
	int ret;

	recv_wish(r);
	if (r->iov_cnt == 1 && rng_chance(&g_rng, 0.3))
		r->flags |= FI_MULTI_RECV;
	is_there = find_unexp(r) < g_m.unexp_cnt;
	g_m.cur = r;
	r->posted = !is_full && (!is_there || r->flags & FI_MULTI_RECV);
	if (r->posted)
		g_m.recv[g_m.recv_cnt++] = r;
	ret = call_recv(r, r, 0);
	assert_int_equal(ret, is_full ? -FI_EAGAIN : 0);
	if (is_full) {
		recv_free(r);
		return;
	}
	/* a multi-receive still there has taken all that it can (then @r is the youngest) */
	if (g_m.recv_cnt && g_m.recv[g_m.recv_cnt - 1] == r)
		assert_int_equal(find_unexp(r), g_m.unexp_cnt);
}

static void do_arrive(void)
{
	struct msg *m = msg_new();
	size_t i = find_recv(m);
	struct kit_rx *rx;

	rx = kit_srx_match(&g_srx, m->ux.tagged, m->ux.mt.src, m->ux.mt.tag, m->ux.msg_len);
	if (i < g_m.recv_cnt) {
		take(g_m.recv[i], m, rx);
		return;
	}
	assert_null(rx);
	if (g_m.unexp_cnt == ALL_MAX) {
		msg_free(m);
		return;
	}
	assert_int_equal(kit_srx_unexpected(&g_srx, &m->ux), 0);
	g_m.unexp[g_m.unexp_cnt++] = m;
}

static void want_peeked(struct recv *r, const struct msg *m, uint64_t flags)
{
	struct fi_cq_err_entry e = {
		.op_context = r,
		.flags = kind_of(r) | (m->ux.has_data ? FI_REMOTE_CQ_DATA : 0),
		.len = m->ux.msg_len,
		.data = m->ux.data,
		.tag = m->ux.mt.tag,
	};

	if (is_reported(r->flags))
		want(&e, m->ux.mt.src);
	if (!(flags & FI_CLAIM) || flags & FI_DISCARD)
		g_m.ok++;
}

static void do_peek(void)
{
	static const uint64_t how[] = {0, FI_CLAIM, FI_DISCARD};
	uint64_t flags = FI_PEEK | how[rng_below(&g_rng, 3)];
	struct recv *r = recv_new();
	uint64_t discards = g_m.discards;
	struct msg *m;
	size_t i;

	recv_wish(r);
	i = find_unexp(r);
	if (i == g_m.unexp_cnt) {
		struct fi_cq_err_entry e = {
			.op_context = r,
			.flags = kind_of(r),
			.tag = r->tag,
			.err = FI_ENOMSG,
			.prov_errno = FI_ENOMSG,
		};

		want(&e, 0);
		assert_int_equal(call_recv(r, r, flags), 0);
		recv_free(r);
		return;
	}
	m = g_m.may_discard = g_m.unexp[i];
	want_peeked(r, m, flags);
	if (flags & (FI_CLAIM | FI_DISCARD))
		TAKE_OUT(unexp, i);
	assert_int_equal(call_recv(r, r, flags), 0);
	assert_int_equal(g_m.discards - discards, flags & FI_DISCARD ? 1 : 0);
	if (flags & FI_CLAIM) {
		g_m.claimed[g_m.claimed_cnt++] = (struct flight){.r = r, .m = m};
	} else {
		recv_free(r);
	}
}

static void do_claim(void)
{
	uint64_t discards = g_m.discards;
	struct recv *r;
	struct msg *m;
	size_t i;

	if (!g_m.claimed_cnt || rng_chance(&g_rng, 0.1)) {
		r = recv_new();
		assert_int_equal(call_recv(r, r, FI_CLAIM), -FI_EINVAL);
		recv_free(r);
		return;
	}
	i = rng_below(&g_rng, g_m.claimed_cnt);
	r = g_m.claimed[i].r;
	m = g_m.claimed[i].m;
	TAKE_OUT(claimed, i);
	g_m.cur = r;
	if (rng_chance(&g_rng, 0.3)) {
		g_m.may_discard = m;
		want_peeked(r, m, FI_CLAIM | FI_DISCARD);
		assert_int_equal(call_recv(r, r, FI_CLAIM | FI_DISCARD), 0);
		assert_int_equal(g_m.discards - discards, 1);
		recv_free(r);
		return;
	}
	g_m.claiming = m;
	assert_int_equal(call_recv(r, r, FI_CLAIM), 0);
	g_m.claiming = NULL;
}

static void do_cancel(void)
{
	struct fi_cq_err_entry e = {.err = FI_ECANCELED, .prov_errno = FI_ECANCELED};
	struct recv *r;
	size_t i;

	if (!g_m.recv_cnt || rng_chance(&g_rng, 0.1)) {
		assert_int_equal(kit_srx_cancel(&g_srx, &e), -FI_ENOENT);
		return;
	}
	i = rng_below(&g_rng, g_m.recv_cnt);
	r = g_m.recv[i];
	e.op_context = r;
	e.tag = r->tag;
	e.flags = kind_of(r) | (r->slices ? 0 : r->flags & FI_MULTI_RECV);
	want(&e, 0);
	TAKE_OUT(recv, i);
	r->posted = false;
	assert_int_equal(kit_srx_cancel(&g_srx, r), 0);
	if (!r->slices) /* else its last slice ends it */
		recv_free(r);
}

static void do_end(void)
{
	struct flight f;
	size_t i;

	if (!g_m.flight_cnt)
		return;
	i = rng_below(&g_rng, g_m.flight_cnt);
	f = g_m.flight[i];
	TAKE_OUT(flight, i);
	flight_end(f);
}

static void do_forget(void)
{
	fi_addr_t src = rng_below(&g_rng, LATE + 1);
	uint64_t discards = g_m.discards, cnt = 0;

	for (size_t i = g_m.unexp_cnt; i--;)
		if (g_m.unexp[i]->ux.mt.src == src) {
			TAKE_OUT(unexp, i);
			cnt++;
		}
	for (size_t i = g_m.claimed_cnt; i--;)
		if (g_m.claimed[i].m->ux.mt.src == src) {
			recv_free(g_m.claimed[i].r);
			TAKE_OUT(claimed, i);
			cnt++;
		}
	g_m.may_discard = NULL;
	kit_srx_forget_src(&g_srx, src);
	assert_int_equal(g_m.discards - discards, cnt);
}

static bool has_of(fi_addr_t src)
{
	for (size_t i = 0; i < g_m.unexp_cnt; i++)
		if (g_m.unexp[i]->ux.mt.src == src)
			return true;
	for (size_t i = 0; i < g_m.claimed_cnt; i++)
		if (g_m.claimed[i].m->ux.mt.src == src)
			return true;
	return false;
}

/* The sender who had no name is LATE from now on: receives that name it take what waits, the oldest first. */
static void do_know(void)
{
	if (has_of(LATE))
		return; /* of the one before */
	for (size_t i = 0; i < g_m.unexp_cnt;) {
		struct msg *m = g_m.unexp[i];
		size_t at;

		if (m->ux.mt.src != FI_ADDR_NOTAVAIL) {
			i++;
			continue;
		}
		m->ux.mt.src = LATE;
		at = find_recv(m);
		m->ux.mt.src = FI_ADDR_NOTAVAIL;
		if (at < g_m.recv_cnt) {
			g_m.cur = g_m.recv[at];
			g_m.claiming = m;
			TAKE_OUT(unexp, i);
		} else {
			i++;
		}
		kit_srx_know(&g_srx, &m->ux, LATE);
		g_m.claiming = NULL;
	}
	for (size_t i = 0; i < g_m.claimed_cnt; i++)
		if (g_m.claimed[i].m->ux.mt.src == FI_ADDR_NOTAVAIL)
			kit_srx_know(&g_srx, &g_m.claimed[i].m->ux, LATE);
	assert_false(has_of(FI_ADDR_NOTAVAIL));
}

static void step(unsigned bias)
{
	uint64_t pick = rng_below(&g_rng, 100);

	lock_acquire(&g_fix.domain.lock);
	if (pick < 25 + bias)
		do_recv();
	else if (pick < 60)
		do_arrive();
	else if (pick < 72)
		do_peek();
	else if (pick < 78)
		do_claim();
	else if (pick < 83)
		do_cancel();
	else if (pick < 99)
		do_end();
	else if (rng_chance(&g_rng, 0.2))
		do_forget();
	else if (rng_chance(&g_rng, 0.3))
		do_know();
	lock_release(&g_fix.domain.lock);
	check_cq();
}

/* --- life
 * ------------------------------------------------------------------------------------------------
 */

static void rig_open(bool directed, bool selective, bool counted)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 16};
	struct fi_cntr_attr cntr_attr = {0};

	memset(&g_m, 0, sizeof(g_m));
	fix_open(&g_fix, FI_VERSION(1, 17));
	fix_ep_open(&g_fix, &g_ep);
	g_cq = mem_alloc(sizeof(*g_cq));
	g_cntr = mem_alloc(sizeof(*g_cntr));
	assert_int_equal(kit_cq_init(g_cq, &g_fix.domain, &cq_attr, 16, false, NULL), 0);
	assert_int_equal(kit_cntr_init(g_cntr, &g_fix.domain, &cntr_attr, false, NULL), 0);
	assert_int_equal(kit_ep_bind(&g_ep.kit, &g_cq->fid.fid,
				     FI_RECV | (selective ? FI_SELECTIVE_COMPLETION : 0)),
			 0);
	if (counted)
		assert_int_equal(kit_ep_bind(&g_ep.kit, &g_cntr->fid.fid, FI_RECV), 0);
	assert_int_equal(kit_srx_init(&g_srx, &g_ep.kit, &srx_ops, 24, POSTED_MAX, directed), 0);
	g_srx.min_multi_recv = MIN_MULTI;
}

static void rig_close(void)
{
	uint64_t discards = g_m.discards;

	g_m.may_discard = NULL;
	kit_srx_fini(&g_srx);
	assert_int_equal(g_m.discards - discards, g_m.unexp_cnt + g_m.claimed_cnt);
	kit_ep_fini(&g_ep.kit);
	assert_int_equal(fi_close(&g_cq->fid.fid), 0);
	assert_int_equal(fi_close(&g_cntr->fid.fid), 0);
	fix_close(&g_fix);
	for (size_t i = 0; i < g_m.claimed_cnt; i++)
		recv_free(g_m.claimed[i].r);
	for (size_t i = 0; i < g_m.recv_cnt; i++)
		if (!g_m.recv[i]->slices)
			recv_free(g_m.recv[i]);
	for (size_t i = 0; i < g_m.flight_cnt; i++) {
		msg_free(g_m.flight[i].m);
		if (!(g_m.flight[i].r->flags & FI_MULTI_RECV) || !--g_m.flight[i].r->slices)
			recv_free(g_m.flight[i].r);
	}
}

static void srx__as_the_model(void **state)
{
	g_rng = unit_rng();
	for (unsigned mode = 0; mode < 8; mode++) {
		bool counted = mode & 4;

		rig_open(mode & 1, mode & 2, counted);
		for (int i = 0; i < 6000; i++)
			step(i / 500 % 2 ? 12 : 0); /* more messages than receives, and the other
						       way round */
		assert_int_equal(fi_cntr_read(&g_cntr->fid), counted ? g_m.ok : 0);
		assert_int_equal(fi_cntr_readerr(&g_cntr->fid), counted ? g_m.err : 0);
		rig_close();
	}
}

/* --- single cases
 * ------------------------------------------------------------------------------------------ */

static void end_start(struct kit_ep *ep, struct kit_rx *rx, struct kit_ux *ux)
{
	kit_rx_done(rx->srx, rx, rx->tagged, &(struct kit_rx_result){.len = ux->msg_len});
}

static void no_discard(struct kit_ep *ep, struct kit_ux *ux)
{
	fail();
}

static const struct kit_srx_ops end_ops = {.start = end_start, .discard = no_discard};

static void expect_entry(void *context, uint64_t flags, void *buf, size_t len)
{
	struct fi_cq_tagged_entry e;

	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
	assert_ptr_equal(e.op_context, context);
	assert_int_equal(e.flags, flags);
	assert_ptr_equal(e.buf, buf);
	assert_int_equal(e.len, len);
}

/* An entry with FI_MULTI_RECV and FI_RECV is a message: there must be no such entry without one. */
static void srx_multi__last_of_the_waiting_messages_tells_the_end(void **state)
{
	uint8_t buf[40];
	struct kit_ux ux[2] = {{.msg_len = 20}, {.msg_len = 20}};
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = &a, .flags = FI_MULTI_RECV};

	rig_open(false, true, false);
	g_srx.ops = &end_ops;
	lock_acquire(&g_fix.domain.lock);
	kit_srx_unexpected(&g_srx, &ux[0]);
	kit_srx_unexpected(&g_srx, &ux[1]);
	assert_int_equal(fix_recv_buf(&g_srx, false, buf, sizeof(buf), NULL, &a), 0);
	assert_int_equal(g_srx.posted_cnt, 0);
	assert_int_equal(g_srx.slab.used, fix_resting(&g_srx));
	lock_release(&g_fix.domain.lock);
	/* selective: only the end is told, as part of the last message */
	expect_entry(&a, FI_RECV | FI_MSG | FI_MULTI_RECV, buf + 20, 20);
	check_cq();
	rig_close();
}

static void srx_multi__cancelled_buffer_is_free_with_its_last_slice(void **state)
{
	uint8_t buf[100];
	struct kit_recv_args a = {.src = FI_ADDR_UNSPEC, .context = &a, .flags = FI_MULTI_RECV};
	struct fi_cq_err_entry err = {0};
	struct kit_rx *rx[2];

	rig_open(false, false, false);
	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(fix_recv_buf(&g_srx, false, buf, sizeof(buf), NULL, &a), 0);
	rx[0] = kit_srx_match(&g_srx, false, 1, 0, 10);
	rx[1] = kit_srx_match(&g_srx, false, 1, 0, 10);
	assert_int_equal(kit_srx_cancel(&g_srx, &a), 0);
	assert_null(kit_srx_match(&g_srx, false, 1, 0, 10));
	kit_rx_done(rx[1]->srx, rx[1], rx[1]->tagged, &(struct kit_rx_result){.len = 10});
	kit_rx_fail(rx[0], &(struct kit_rx_result){.len = 10}, FI_EIO, 5, 0, "why", 4);
	assert_int_equal(g_srx.slab.used, fix_resting(&g_srx));
	lock_release(&g_fix.domain.lock);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_int_equal(err.flags, FI_RECV | FI_MSG);
	expect_entry(&a, FI_RECV | FI_MSG, buf + 10, 10);
	err = (struct fi_cq_err_entry){0};
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.err, FI_EIO);
	assert_int_equal(err.flags, FI_RECV | FI_MSG | FI_MULTI_RECV);
	assert_ptr_equal(err.buf, buf);
	assert_string_equal(err.err_data, "why");
	check_cq();
	rig_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(srx__as_the_model),
		cmocka_unit_test(srx_multi__last_of_the_waiting_messages_tells_the_end),
		cmocka_unit_test(srx_multi__cancelled_buffer_is_free_with_its_last_slice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
