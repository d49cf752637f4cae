// SPDX-License-Identifier: BSD-2-Clause
// Copies between our memory and the exposed memory of a process on this host: cut where pieces of either side end,
// retried when there is no room.
#include "prov/opx/opx.h"

bool opx_pieces_take(struct opx_copy *c, const struct view *data, uint64_t len)
{
	size_t cnt = data->len / sizeof(struct opx_piece);
	uint64_t sum = 0;

	if (!cnt || cnt > OPX_PIECES || data->len % sizeof(struct opx_piece))
		return false;
	c->piece_cnt = (uint8_t)cnt;
	for (size_t i = 0; i < cnt; i++) {
		view_copy(data, i * sizeof(c->pieces[i]), &c->pieces[i], sizeof(c->pieces[i]));
		if (__builtin_add_overflow(sum, le64_get(c->pieces[i].len), &sum))
			return false;
	}
	return sum == len;
}

/* Where byte @off is in the peer's pieces. Return: bytes from there to the end of its piece; 0: in none. */
static uint64_t piece_at(const struct opx_copy *c, uint64_t off, uint64_t *addr, uint32_t *key)
{
	for (int i = 0; i < c->piece_cnt; i++) {
		uint64_t len = le64_get(c->pieces[i].len);

		if (off < len) {
			*addr = le64_get(c->pieces[i].addr) + off;
			*key = le32_get(c->pieces[i].key);
			return len - off;
		}
		off -= len;
	}
	return 0;
}

static int post_one(struct opx_copy *c)
{
	struct iovec iov[OPX_IOV_MAX];
	uint64_t addr = 0, n;
	uint32_t key = 0;
	int rc;

	n = MIN(piece_at(c, c->asked, &addr, &key), c->want - c->asked);
	if (!n || !kit_iov_slice(c->iov, c->iov_cnt, c->asked, c->want - c->asked, iov, OPX_IOV_MAX))
		return -FI_EINVAL;
	n = MIN(n, (uint64_t)iov[0].iov_len);
	c->inflight++;
	rc = hfi_copy(c->peer->flow.dst, c->op, iov[0].iov_base, n, addr, key, c);
	if (rc)
		c->inflight--;
	else
		c->asked += n;
	return rc;
}

static void wait_set(struct opx_copy *c, bool wait)
{
	struct opx_ep *ep = c->peer->ep;

	if (wait == c->is_waiting)
		return;
	c->is_waiting = wait;
	if (wait)
		TAILQ_INSERT_TAIL(&ep->copies, c, link);
	else
		TAILQ_REMOVE(&ep->copies, c, link);
}

/* May end, and free, it. */
static void unpin(struct opx_copy *c)
{
	if (--c->inflight || c->is_waiting)
		return;
	if (c->status || c->asked == c->want)
		c->end(c, c->status);
}

static void copy_go(struct opx_copy *c)
{
	int rc = 0;

	c->inflight++; /* completions inside hfi_copy() must not end it */
	while (!rc && c->asked < c->want && !c->status)
		rc = post_one(c);
	if (rc && rc != -EAGAIN && !c->status)
		c->status = rc;
	wait_set(c, rc == -EAGAIN && !c->status);
	unpin(c);
}

void opx_copy_start(struct opx_copy *c)
{
	c->asked = 0;
	c->inflight = 0;
	c->status = 0;
	c->is_waiting = false;
	copy_go(c);
}

bool opx_copy_cancel(struct opx_copy *c)
{
	wait_set(c, false);
	if (!c->status)
		c->status = -ECANCELED;
	return !c->inflight;
}

bool opx_copy_stop(struct opx_copy *c)
{
	return hfi_copy_stop(c->peer->ep->hw, c);
}

int opx_copies_retry(struct opx_ep *ep)
{
	struct opx_copy *c, *next;
	int events = 0;

	for (c = TAILQ_FIRST(&ep->copies); c; c = next) {
		next = TAILQ_NEXT(c, link);
		copy_go(c); /* ends this one only */
		events++;
	}
	return events;
}

void opx_on_copy(void *ctx, void *cookie, int status)
{
	struct opx_ep *ep = ctx;
	struct opx_copy *c = cookie;

	if (!ep->kit.enabled)
		/* the endpoint is closing, which may drop the lock: nobody is left to be told, the receives are gone */
		return;
	if (status && !c->status)
		c->status = status;
	unpin(c);
}
