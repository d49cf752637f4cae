// SPDX-License-Identifier: BSD-2-Clause
// Carrier decorator that loses, duplicates, reorders, delays, corrupts, truncates and cuts off, as
// the room says; seeded.
#include <errno.h>
#include <string.h>

#include "base/pqueue.h"
#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * Faults happen to datagrams on their way out, so that each is counted once, at its sender. A
 * partition alone works both ways: the other side may have opened its port at another time, or have
 * none of this in its room.
 *
 * The random numbers are drawn in a fixed order per datagram, whatever happens to it: the n-th
 * datagram of a port is treated alike in every run of one seed.
 */

#define HELD_BYTES_MAX	(64u << 20)
#define REORDER_BEHIND	8		 /* a reordered datagram follows 1..8 later ones, */
#define REORDER_WAIT_NS (2 * NS_PER_MS)	 /* or goes so much later if there are none */
#define DELAY_NTH_NS	(20 * NS_PER_MS) /* of delay_nth, in rooms without delay */

struct held {
	struct pq_node node; /* when it goes; in @delayed */
	struct held *next;   /* in @gone */
	struct link_addr dst;
	uint32_t len;
	uint8_t buf[];
};

struct fault {
	struct carrier c;
	struct carrier *inner;
	const struct link_room *room;
	struct rng rng;
	struct pq delayed;
	struct held *gone;   /* given to the inner carrier, whose flush they must outlive */
	struct held *behind; /* reordered: waits for @behind_cnt more; also in @delayed */
	uint32_t behind_cnt;
	uint64_t behind_ns; /* when the last of those that overtake it goes, where they are delayed */
	uint64_t sent_cnt;
	uint64_t held_bytes;
};

/* What is drawn for one datagram. */
struct fate {
	bool drop, dup, reorder, corrupt, truncate, delay;
	uint64_t delay_ns;
	uint64_t dice; /* where to corrupt or truncate, how far to reorder */
};

static struct fault *to_fault(struct carrier *c)
{
	return container_of(c, struct fault, c);
}

static uint64_t now_of(struct fault *f)
{
	return clk_now_ns(&f->c.port->node->clk);
}

static bool chance(struct fault *f, uint32_t ppm)
{
	return rng_below(&f->rng, 1000000) < ppm;
}

static struct fate fate_draw(struct fault *f)
{
	const struct link_room *r = f->room;
	uint64_t n = f->sent_cnt, spread = r->delay_ns ? rng_below(&f->rng, r->delay_ns + 1) : 0;
	struct fate fate = {
		.drop = chance(f, r->drop_ppm) || n == r->drop_nth,
		.dup = chance(f, r->dup_ppm) || n == r->dup_nth,
		.reorder = chance(f, r->reorder_ppm),
		.corrupt = chance(f, r->corrupt_ppm),
		.truncate = chance(f, r->truncate_ppm),
		.delay = r->delay_ns || n == r->delay_nth,
		.delay_ns = r->delay_ns / 2 + spread,
		.dice = rng_u64(&f->rng),
	};

	if (n == r->delay_nth)
		fate.delay_ns = MAX(4 * r->delay_ns, DELAY_NTH_NS);
	return fate;
}

static bool is_cut(struct fault *f)
{
	const uint64_t *cut = f->room->partition_ns;
	uint64_t age;

	if (cut[0] >= cut[1])
		return false;
	age = now_of(f) - f->c.port->opened_ns;
	return age >= cut[0] && age < cut[1];
}

static struct held *held_new(struct fault *f, const struct link_addr *dst, const struct iovec *iov,
			     int iov_cnt)
{
	struct held *h;
	size_t len = 0, at = 0;

	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	if (f->held_bytes + len > HELD_BYTES_MAX || !(h = mem_alloc(sizeof(*h) + len)))
		return NULL;
	h->dst = *dst;
	h->len = (uint32_t)len;
	for (int i = 0; i < iov_cnt; at += iov[i++].iov_len) {
		if (iov[i].iov_len)
			memcpy(h->buf + at, iov[i].iov_base, iov[i].iov_len);
	}
	f->held_bytes += len;
	return h;
}

static void held_free(struct fault *f, struct held *h)
{
	f->held_bytes -= h->len;
	mem_free(h);
}

/* Give @h to the inner carrier; it is freed after the flush. A full carrier loses it. */
static void held_go(struct fault *f, struct held *h)
{
	struct iovec iov = {h->buf, h->len};

	pq_remove(&f->delayed, &h->node);
	if (f->behind == h)
		f->behind = NULL;
	f->inner->ops->send(f->inner, &h->dst, &iov, 1);
	h->next = f->gone;
	f->gone = h;
}

/* NOLINTBEGIN(clang-analyzer-core.UndefinedBinaryOperatorResult): clang 14 loses fields of structs that are returned */
static void spoil(struct fault *f, struct held *h, const struct fate *fate)
{
	struct link_stats *st = &f->c.port->stats;

	if (fate->corrupt && h->len) {
		uint64_t bits = fate->dice;

		/* one to three bits; two flips of one bit would be none */
		for (uint64_t i = 0, n = 1 + bits % 3; i < n;
		     i++, bits = bits * 6364136223846793005ULL + 1)
			h->buf[(bits >> 8) % h->len] ^= (uint8_t)(1u << ((bits >> 5) + i) % 8);
		st->fault_corrupt++;
	}
	if (fate->truncate && h->len) {
		f->held_bytes -= h->len;
		h->len = (uint32_t)((fate->dice >> 32) % h->len);
		f->held_bytes += h->len;
		st->fault_truncate++;
	}
}
/* NOLINTEND(clang-analyzer-core.UndefinedBinaryOperatorResult) */

/* Count down the reordered datagram, which may have to go after this one, which goes at @due_ns. */
static void behind_step(struct fault *f, uint64_t due_ns)
{
	struct held *h = f->behind;

	if (!h)
		return;
	f->behind_ns = MAX(f->behind_ns, due_ns);
	if (--f->behind_cnt)
		return;
	if (f->behind_ns <= now_of(f)) {
		held_go(f, h);
	} else {
		pq_update(&f->delayed, &h->node, f->behind_ns + 1);
		f->behind = NULL;
	}
}

static bool held_delay(struct fault *f, struct held *h, const struct fate *fate)
{
	struct link_stats *st = &f->c.port->stats;

	h->node.key_ns = now_of(f) + (fate->delay ? fate->delay_ns : 0) +
			 (fate->reorder ? REORDER_WAIT_NS : 0);
	if (pq_push(&f->delayed, &h->node))
		return false;
	st->fault_delay += fate->delay;
	if (fate->reorder) {
		f->behind = h;
		f->behind_cnt = 1 + (uint32_t)(fate->dice >> 16) % REORDER_BEHIND;
		f->behind_ns = 0;
		st->fault_reorder++;
	}
	return true;
}

static int fault_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov,
		      int iov_cnt)
{
	struct fault *f = to_fault(c);
	struct link_stats *st = &c->port->stats;
	struct fate fate;
	struct held *h = NULL;
	uint64_t due = 0;
	int rc = 0;

	f->sent_cnt++;
	fate = fate_draw(f);
	if (is_cut(f)) {
		st->fault_partition++;
		return 0;
	}
	if (fate.drop) {
		st->fault_drop++;
		behind_step(f, 0);
		return 0;
	}
	fate.reorder &= !f->behind;
	if (!fate.reorder && !fate.delay && !fate.corrupt && !fate.truncate) {
		rc = f->inner->ops->send(f->inner, dst, iov, iov_cnt);
		if (rc == -EAGAIN) { /* it will be sent again, and counts as the n-th then */
			f->sent_cnt--;
			return rc;
		}
	} else if ((h = held_new(f, dst, iov, iov_cnt))) {
		spoil(f, h, &fate);
		if ((fate.delay || fate.reorder) && held_delay(f, h, &fate))
			due = h->node.key_ns;
		else
			held_go(f, h);
	} else {
		st->fault_drop++;
	}
	if (fate.dup) {
		st->fault_dup++;
		f->inner->ops->send(f->inner, dst, iov, iov_cnt);
	}
	if (f->behind && f->behind == h)
		return 0;
	behind_step(f, due);
	return rc;
}

static void release_due(struct fault *f)
{
	struct pq_node *first = pq_peek(&f->delayed);
	uint64_t now;

	if (!first)
		return;
	now = now_of(f);
	while ((first = pq_peek(&f->delayed)) && first->key_ns <= now)
		held_go(f, container_of(first, struct held, node));
}

static void fault_flush(struct carrier *c)
{
	struct fault *f = to_fault(c);
	struct held *h;

	release_due(f);
	f->inner->ops->flush(f->inner);
	while ((h = f->gone)) {
		f->gone = h->next;
		held_free(f, h);
	}
}

static int fault_poll(struct carrier *c, int budget)
{
	struct fault *f = to_fault(c);

	release_due(f);
	if (f->gone)
		fault_flush(c);
	return f->inner->ops->poll(f->inner, budget);
}

static void fault_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	struct fault *f = ctx;

	if (is_cut(f))
		f->c.port->stats.fault_partition++;
	else
		f->c.rx(f->c.rx_ctx, src, buf, len);
}

static void fault_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	struct fault *f = ctx;

	if (f->c.error && !is_cut(f))
		f->c.error(f->c.rx_ctx, dst, e);
}

static uint32_t fault_mtu(struct carrier *c, const struct link_addr *dst)
{
	struct carrier *inner = to_fault(c)->inner;

	return inner->ops->mtu(inner, dst);
}

static uint64_t fault_next_deadline(struct carrier *c)
{
	struct fault *f = to_fault(c);
	struct pq_node *first = pq_peek(&f->delayed);

	return MIN(f->inner->ops->next_deadline(f->inner), first ? first->key_ns : CLK_NEVER);
}

static int fault_fd(struct carrier *c)
{
	struct carrier *inner = to_fault(c)->inner;

	return inner->ops->fd(inner);
}

static void fault_close(struct carrier *c)
{
	struct fault *f = to_fault(c);
	struct pq_node *first;

	/* what is still delayed may be a goodbye, which is better sent early than not at all */
	while ((first = pq_peek(&f->delayed)))
		held_go(f, container_of(first, struct held, node));
	fault_flush(c);
	f->inner->ops->close(f->inner);
	pq_fini(&f->delayed);
	mem_free(f);
}

static const struct carrier_ops fault_ops = {
	.send = fault_send,
	.flush = fault_flush,
	.poll = fault_poll,
	.mtu = fault_mtu,
	.next_deadline = fault_next_deadline,
	.fd = fault_fd,
	.close = fault_close,
};

int fault_open(struct link_port *p, struct carrier *inner, struct carrier **out)
{
	uint64_t seed = p->node->room->seed;
	struct fault *f = mem_alloc(sizeof(*f));

	if (!f)
		return -ENOMEM;
	if (!seed) {
		seed = rng_entropy();
		LOG_INFO("faults of port %u: seed=%llu", p->self.port, (unsigned long long)seed);
	}
	/* the ports of a process differ, the runs of a program do not: count ports, since their
	 * numbers may be any */
	for (const struct link_port *i = p->node->ports; i; i = i->next)
		seed += 0x9e3779b97f4a7c15ULL;
	rng_seed(&f->rng, seed);
	pq_init(&f->delayed);
	f->c.ops = &fault_ops;
	f->c.port = p;
	f->inner = inner;
	f->room = p->node->room;
	inner->rx = fault_rx;
	inner->rx_ctx = f;
	inner->error = fault_error;
	*out = &f->c;
	return 0;
}
