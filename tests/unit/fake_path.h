// SPDX-License-Identifier: BSD-2-Clause
// Two or more ports in one process over a fake path, for tests of the bulk service below link.h:
// frames wait in a queue until the test moves them, in any order, and the path is as strict about
// memory as the real ones are.
#ifndef SF_TESTS_UNIT_FAKE_PATH_H
#define SF_TESTS_UNIT_FAKE_PATH_H

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "link/bulk/bulk_int.h"

#define FP_PORTS     3
#define FP_FRAME_MAX 4096

struct shm_peer {
	uint64_t node_id;
	pid_t pid;
	bool is_polling, has_no_cma;
};

struct fp_frame {
	int from, to;
	size_t len;
	uint8_t *bytes;	    /* header and, for a local path, payload: copied at once */
	const uint8_t *src; /* other paths: payload is read at delivery, see fp_is_stable() */
	size_t hdr_len;
	uint64_t sum;
	void *cookie;
	bool is_delivered; /* waits for its acknowledgement */
};

struct fp_done {
	int cnt, status;
};

/* Port i belongs to node i; peer[i][k] is port k as port i sees it. */
static struct {
	struct lock lock;
	struct link_room room;
	uint64_t now_ns;
	struct link_node node[FP_PORTS];
	struct link_port port[FP_PORTS];
	struct link_peer peer[FP_PORTS][FP_PORTS];
	struct shm_peer shm[FP_PORTS][FP_PORTS];
	struct fp_frame q[FP_FRAME_MAX];
	int q_cnt, q_cap; /* a path with q_cap frames is full */
	struct rng rng;
	bool is_reordering;
	bool is_slow; /* a pass moves some of the frames only */
	int dies_at_send; /* port_up.out() number n finds the peer dead; 0 = none */
	int kicks;
} fp;

static void fp_on_bulk(void *ctx, void *cookie, int status)
{
	struct fp_done *d = cookie;

	d->cnt++;
	d->status = status;
}

static const struct link_ops fp_ops = {.on_bulk = fp_on_bulk};

static uint64_t fp_sum(const uint8_t *p, size_t len)
{
	uint64_t h = 1469598103934665603ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 1099511628211ULL;
	return h;
}

/* --- what bulk.c calls ------------------------------------------------------------------------ */

static void fp_agent_start(struct link_node *n) {}

void agent_kick(struct link_node *n)
{
	fp.kicks++;
}

void link_peer_put(struct link_peer *peer)
{
	must(peer->refs);
	peer->refs--;
}

pid_t shm_peer_pid(const struct shm_peer *sp)
{
	return sp->pid;
}

bool shm_peer_cma_ok(struct shm_peer *sp)
{
	return !sp->has_no_cma;
}

bool shm_peer_is_polling(struct shm_peer *sp)
{
	return sp->is_polling;
}

uint64_t shm_peer_node(const struct shm_peer *sp)
{
	return sp->node_id;
}

bool shm_peer_is_over(struct shm_peer *sp)
{
	(void)sp;
	return false;
}

uint32_t shm_peer_serves(const struct shm_peer *sp)
{
	return fp.port[(size_t)(sp - &fp.shm[0][0]) % FP_PORTS].serves;
}

const struct link_stats *link_port_stats(const struct link_port *p)
{
	return &p->stats;
}

/* Tests say by the owner's pointer what is behind one address. */
struct quota_source *link_peer_source(const struct link_peer *peer)
{
	return peer->user;
}

static void fp_peer_dead(int i, int k, int status);

/* A peer that a test made beside those of the ports: it takes nothing, or with shared memory everything at once. */
static bool fp_is_deaf(const struct link_peer *peer)
{
	return peer < &fp.peer[0][0] || peer > &fp.peer[FP_PORTS - 1][FP_PORTS - 1];
}

static int fp_out(struct link_port *p, struct link_peer *peer, enum link_kind kind,
		   const void *hdr, size_t hdr_len, const struct iovec *iov, int iov_cnt,
		   void *cookie)
{
	struct fp_frame *f = &fp.q[fp.q_cnt];
	int from = (int)(p - fp.port), to = (int)(peer - fp.peer[from]);
	size_t len = iov_cnt ? iov->iov_len : 0;

	if (fp_is_deaf(peer))
		return peer->dead ? peer->dead : peer->shm ? 0 : -EAGAIN;
	must(kind == LINK_K_BULK && hdr_len <= LINK_HDR_MAX && hdr_len + len <= LINK_FRAME_MAX);
	peer->shm_tried = true;
	if (fp.dies_at_send && !--fp.dies_at_send)
		fp_peer_dead(from, to, -ECONNREFUSED);
	if (peer->dead)
		return peer->dead;
	if (fp.q_cnt >= fp.q_cap)
		return -EAGAIN;
	*f = (struct fp_frame){
		.from = from, .to = to, .len = hdr_len + len, .hdr_len = hdr_len, .cookie = cookie};
	f->bytes = malloc(hdr_len + len);
	memcpy(f->bytes, hdr, hdr_len);
	if (len && peer->shm) {
		memcpy(f->bytes + hdr_len, iov->iov_base, len);
	} else if (len) {
		must(cookie); /* without one it could never say when it has let go of the memory */
		f->src = iov->iov_base;
		f->sum = fp_sum(f->src, len);
	}
	fp.q_cnt++;
	return 0;
}

static void fp_repoint(struct link_port *p, void (*fn)(void *arg, void *cookie, struct iovec *iov), void *arg)
{
	for (int i = 0; i < fp.q_cnt; i++) {
		struct fp_frame *f = &fp.q[i];
		struct iovec v = {(void *)(uintptr_t)f->src, f->len - f->hdr_len};

		if (&fp.port[f->from] != p || !f->src)
			continue;
		fn(arg, f->cookie, &v);
		f->src = v.iov_base;
	}
}

/* --- moving frames ---------------------------------------------------------------------------- */

static void fp_drop(int at)
{
	free(fp.q[at].bytes);
	fp.q_cnt--;
	memmove(&fp.q[at], &fp.q[at + 1], (size_t)(fp.q_cnt - at) * sizeof(fp.q[0]));
}

static void fp_deliver_view(int to, int from, const uint8_t *bytes, size_t len)
{
	struct view v = {.len = (uint32_t)len};
	size_t cut = rng_below(&fp.rng, len + 1);

	if (cut)
		v.seg[v.seg_cnt++] = (struct view_seg){bytes, (uint32_t)cut};
	if (cut < len)
		v.seg[v.seg_cnt++] = (struct view_seg){bytes + cut, (uint32_t)(len - cut)};
	must(bulk_on_frame(fp.port[to].bulk, &fp.peer[to][from], &v) == 0);
}

/* The memory of a PUT stays as it is until it is acknowledged; that of a region, which a GET reads, may change. */
static bool fp_is_stable(const struct fp_frame *f)
{
	return f->src && *(enum bulk_ref *)f->cookie == BULK_REF_OP;
}

/* Deliver one frame, or acknowledge one that was. Return: false if there is none. */
static bool fp_move_one(void)
{
	int at = fp.is_reordering && fp.q_cnt ? (int)rng_below(&fp.rng, (uint64_t)fp.q_cnt) : 0;
	struct fp_frame f;

	if (!fp.q_cnt)
		return false;
	if (fp_is_stable(&fp.q[at]))
		must(fp_sum(fp.q[at].src, fp.q[at].len - fp.q[at].hdr_len) == fp.q[at].sum);
	if (fp.q[at].src && !fp.q[at].is_delivered)
		memcpy(fp.q[at].bytes + fp.q[at].hdr_len, fp.q[at].src,
		       fp.q[at].len - fp.q[at].hdr_len);
	f = fp.q[at];
	if (!f.is_delivered) {
		uint8_t *copy =
			malloc(f.len); /* exact, so that a sanitizer sees every byte too far */

		memcpy(copy, f.bytes, f.len);
		fp.q[at].is_delivered = true;
		if (f.cookie == NULL)
			fp_drop(at);
		fp_deliver_view(f.to, f.from, copy, f.len);
		free(copy);
		return true;
	}
	fp_drop(at);
	bulk_on_sent(fp.port[f.from].bulk, f.cookie, 0);
	return true;
}

static inline void fp_pass(void)
{
	int n = fp.is_slow ? (int)rng_below(&fp.rng, (uint64_t)fp.q_cnt + 1) : fp.q_cnt;

	for (; n; n--)
		fp_move_one();
	fp.now_ns += 1000;
	for (int i = 0; i < FP_PORTS; i++)
		bulk_poll(fp.port[i].bulk, fp.now_ns);
}

/* The same, but nothing of port @i runs: neither its frames are taken nor its work is done. */
static inline void fp_pass_without(int i)
{
	for (int k = 0; k < FP_PORTS; k++)
		if (k != i)
			bulk_poll(fp.port[k].bulk, fp.now_ns);
	fp.now_ns += 1000;
}

static inline bool fp_run(const struct fp_done *d, int max_passes)
{
	for (int i = 0; i < max_passes && !d->cnt; i++)
		fp_pass();
	return d->cnt;
}

/* Port @i finds that port @k is gone. */
static void fp_peer_dead(int i, int k, int status)
{
	fp.peer[i][k].dead = (int16_t)status;
	fp.peer[i][k].shm = NULL;
	for (int at = 0; at < fp.q_cnt;) {
		struct fp_frame f = fp.q[at];

		if (f.from != i || f.to != k) {
			at++;
			continue;
		}
		fp_drop(at);
		if (f.cookie)
			bulk_on_sent(fp.port[i].bulk, f.cookie, status);
	}
	bulk_peer_dead(fp.port[i].bulk, &fp.peer[i][k], status);
}

static void fp_gone(struct link_peer *peer, int status)
{
	if (fp_is_deaf(peer)) {
		peer->dead = (int16_t)status;
		bulk_peer_dead(peer->port->bulk, peer, status);
	}
	for (int i = 0; i < FP_PORTS; i++) {
		for (int k = 0; k < FP_PORTS; k++) {
			if (peer == &fp.peer[i][k])
				fp_peer_dead(i, k, status);
		}
	}
}

static const struct port_up fp_up = {.dead = fp_gone, .out = fp_out, .repoint = fp_repoint};

/* --- open and close --------------------------------------------------------------------------- */

static void fp_open(enum link_class cls, bool is_local)
{
	memset(&fp, 0, sizeof(fp));
	fp.q_cap = 512;
	fp.now_ns = NS_PER_SEC;
	fp.room = (struct link_room){.paths = LINK_PATH_SHM, .dead_after_ns = 2 * NS_PER_SEC};
	rng_seed(&fp.rng, 1);
	lock_acquire(&fp.lock);
	for (int i = 0; i < FP_PORTS; i++) {
		struct link_node *n = &fp.node[i];

		*n = (struct link_node){.lock = &fp.lock,
					.room = &fp.room,
					.lossless = is_local,
					.clk = {&fp.now_ns},
					.agent_start = fp_agent_start};
		must(!bulk_node_open(n, &n->bulk));
		fp.port[i] = (struct link_port){.node = n, .cls = cls, .up = &fp_up, .ops = &fp_ops};
		n->ports = &fp.port[i];
		must(!bulk_port_open(&fp.port[i], &fp.port[i].bulk));
	}
	for (int i = 0; i < FP_PORTS; i++) {
		for (int k = 0; k < FP_PORTS; k++) {
			fp.peer[i][k] = (struct link_peer){.port = &fp.port[i], .shm_tried = true};
			fp.shm[i][k] = (struct shm_peer){fp.node[k].bulk_id, getpid(),
							 true, false};
			if (is_local)
				fp.peer[i][k].shm = &fp.shm[i][k];
		}
	}
}

static void fp_close(void)
{
	for (int i = 0; i < FP_PORTS; i++) {
		bulk_port_close(fp.port[i].bulk);
		fp.node[i].ports = NULL;
	}
	while (fp.q_cnt)
		fp_drop(0);
	for (int i = 0; i < FP_PORTS; i++)
		bulk_node_close(fp.node[i].bulk);
	for (int i = 0; i < FP_PORTS; i++)
		for (int k = 0; k < FP_PORTS; k++)
			must(!fp.peer[i][k].refs);
	lock_release(&fp.lock);
}

static inline void fp_force(int method)
{
	for (int i = 0; i < FP_PORTS; i++)
		fp.port[i].bulk->force = method;
}

#endif
