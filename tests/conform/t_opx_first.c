// SPDX-License-Identifier: BSD-2-Clause
// The first operation to a peer of opx: on this host it is taken by the call itself, whatever the peer does; between
// hosts it waits for a handshake.
#include "conform.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN    4096
#define LONG   300000 /* a rendezvous */
#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)

enum first { SEND, TSEND, INJECT, SEND_LONG, SENDDATA, WRITE, READ, ATOMIC, FETCH, FIRST_NUM };

static ssize_t first_call(struct ct *c, enum first kind, fi_addr_t to, uint8_t *mem, const struct fi_rma_iov *at)
{
	static uint64_t result;
	void *ctx = &c->ctx[kind];

	switch (kind) {
	case SEND:
		return fi_send(c->ep, mem, LEN, NULL, to, ctx);
	case TSEND:
		return fi_tsend(c->ep, mem, LEN, NULL, to, 7, ctx);
	case INJECT:
		return fi_inject(c->ep, mem, 8, to);
	case SEND_LONG:
		return fi_send(c->ep, mem, LONG, NULL, to, ctx);
	case SENDDATA:
		return fi_tsenddata(c->ep, mem, LEN, NULL, 5, to, 7, ctx);
	case WRITE:
		return fi_write(c->ep, mem, LEN, NULL, to, at->addr, at->key, ctx);
	case READ:
		return fi_read(c->ep, mem + LONG, LEN, NULL, to, at->addr + LEN, at->key, ctx);
	case ATOMIC:
		return fi_atomic(c->ep, mem, 1, NULL, to, at->addr + 2 * LEN, at->key, FI_UINT64, FI_SUM, ctx);
	case FETCH:
		return fi_fetch_atomic(c->ep, mem, 1, NULL, &result, NULL, to, at->addr + 3 * LEN, at->key, FI_UINT64,
				       FI_SUM, ctx);
	case FIRST_NUM:
		break;
	}
	return -FI_EINVAL;
}

static size_t first_len(enum first kind)
{
	return kind == INJECT ? 8 : kind == SEND_LONG ? LONG : kind < WRITE ? LEN : 0;
}

/* One more endpoint per kind of call, of rank 1, each with a receive; rank 0 learns @to. */
static void targets_open(struct ct *c, struct ct_ep2 *e, uint8_t **in, fi_addr_t *to)
{
	for (int k = 0; k < FIRST_NUM; k++) {
		uint8_t theirs[64];

		if (c->rank) {
			ct_ep2_open(c, &e[k]);
			in[k] = malloc(LONG);
			if (k == TSEND || k == SENDDATA)
				OK(fi_trecv(e[k].ep, in[k], LONG, NULL, FI_ADDR_UNSPEC, 7, 0, &c->ctx[k]));
			else if (k < WRITE)
				OK(fi_recv(e[k].ep, in[k], LONG, NULL, FI_ADDR_UNSPEC, &c->ctx[k]));
		}
		ct_swap(c, c->rank ? e[k].addr : c->addr, theirs, sizeof(theirs));
		if (!c->rank)
			RET(1, fi_av_insert(c->av, theirs, 1, &to[k], 0, NULL));
	}
}

/* Rank 1: until its messages have come and rank 0 has its completions. */
static void targets_serve(struct ct *c, struct ct_ep2 *e, uint8_t **in, _Atomic uint8_t *is_done)
{
	int got = 0;

	while (got < WRITE || !*is_done)
		for (int k = 0; k < FIRST_NUM; k++) {
			struct fi_cq_tagged_entry t;
			ssize_t ret = fi_cq_read(e[k].cq, &t, 1);

			if (ret == -FI_EAGAIN)
				continue;
			RET(1, ret);
			CHECK(t.op_context == &c->ctx[k] && t.len == first_len((enum first)k), "kind %d: %zu bytes", k,
			      t.len);
			ct_verify(c, in[k], t.len, 3, "the first message");
			got++;
		}
	for (int k = 0; k < FIRST_NUM; k++) {
		ct_ep2_close(c, &e[k]);
		free(in[k]);
	}
}

/*
 * Each kind of call, to an endpoint that nobody has sent anything to, and whose owner makes no call meanwhile. Between
 * hosts it is refused until the peer has answered, as in 1.22.
 */
static void opx_first(struct ct *c)
{
	_Atomic uint8_t *is_done = (_Atomic uint8_t *)c->shared;
	struct ct_ep2 e[FIRST_NUM];
	fi_addr_t to[FIRST_NUM];
	uint8_t *in[FIRST_NUM];
	struct ct_window w;
	int refused = 0;

	ct_open(c);
	ct_window(c, &w, LONG + LEN, ACCESS);
	ct_fill(w.mine.mem, LONG, 3);
	targets_open(c, e, in, to);
	ct_barrier_idle(c);
	for (int k = 0; k < FIRST_NUM && !c->rank; k++) {
		ssize_t ret = first_call(c, (enum first)k, to[k], w.mine.mem, &w.at);

		CHECK(!ret || c->mode == CT_UDP, "kind %d: the first call returned %zd (%s)", k, ret, ct_err(ret));
		refused += ret != 0;
		while (ct_again(c, ret))
			ret = first_call(c, (enum first)k, to[k], w.mine.mem, &w.at);
	}
	CHECK(c->rank || c->mode != CT_UDP || refused, "nobody waited for a handshake");
	ct_barrier_idle(c);
	if (c->rank) {
		targets_serve(c, e, in, is_done);
	} else {
		for (int k = 1; k < FIRST_NUM; k++) /* fi_inject() has none */
			ct_comp(c, c->txcq);
		*is_done = 1;
	}
	ct_barrier(c);
	ct_window_free(c, &w);
	ct_close(c);
}

static void opx_first_auto(struct ct *c)
{
	c->want.progress = FI_PROGRESS_AUTO;
	opx_first(c);
}

/* Both send their first at the same time, again and again. */
static void opx_first_crossing(struct ct *c)
{
	uint8_t out[LEN], in[LEN], theirs[64];

	ct_open(c);
	for (unsigned i = 0; i < 20; i++) {
		struct fi_cq_tagged_entry t;
		struct ct_ep2 e;
		fi_addr_t to;
		ssize_t ret;

		ct_ep2_open(c, &e);
		ct_swap(c, e.addr, theirs, sizeof(theirs));
		RET(1, fi_av_insert(e.av, theirs, 1, &to, 0, NULL));
		OK(fi_recv(e.ep, in, LEN, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
		ct_fill(out, LEN, i + (unsigned)c->rank);
		ct_barrier_idle(c);
		ret = fi_send(e.ep, out, LEN, NULL, to, &c->ctx[1]);
		CHECK(!ret || c->mode == CT_UDP, "the first call returned %zd (%s)", ret, ct_err(ret));
		while (ct_again(c, ret))
			ret = fi_send(e.ep, out, LEN, NULL, to, &c->ctx[1]);
		for (int left = 2; left; left -= ret == 1) {
			ret = fi_cq_read(e.cq, &t, 1);
			CHECK(ret == 1 || ret == -FI_EAGAIN, "%s", ct_err(ret));
		}
		ct_verify(c, in, LEN, i + !c->rank, "crossing");
		ct_barrier(c);
		ct_ep2_close(c, &e);
	}
	ct_close(c);
}

static bool is_stopped(pid_t pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'T';
}

/*
 * The peer's process is stopped: on one host it need not run to be sent to; on another nothing is known of it. In
 * neither case does the call wait.
 */
static void opx_first_stopped(struct ct *c)
{
	int32_t pid = (int32_t)getpid(), theirs;
	uint64_t start, end = ct_now_ms() + 10000;
	uint8_t mem[64] = {0};
	ssize_t ret;

	ct_open(c);
	ct_swap(c, &pid, &theirs, sizeof(pid));
	if (c->rank) {
		OK(fi_recv(c->ep, mem, sizeof(mem), NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
		ct_barrier_idle(c);
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, sizeof(mem));
	} else {
		ct_barrier_idle(c);
		kill(theirs, SIGSTOP);
		while (!is_stopped(theirs))
			CHECK(ct_now_ms() < end, "the peer does not stop");
		start = ct_now_ms();
		ret = fi_send(c->ep, mem, sizeof(mem), NULL, c->peer, &c->ctx[0]);
		end = ct_now_ms();
		kill(theirs, SIGCONT);
		CHECK(ret == (c->mode == CT_UDP ? -FI_EAGAIN : 0), "%s", ct_err(ret));
		CHECK(end - start < 2000, "the call took %llu ms", (unsigned long long)(end - start));
		while (ret && ct_again(c, fi_send(c->ep, mem, sizeof(mem), NULL, c->peer, &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	}
	ct_barrier(c);
	ct_close(c);
}

#define ALL (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)

const struct ct_test opx_first_tests[] = {
	{"opx_first", opx_first, ALL, 0, 0, NULL, NULL, "opx"},
	{"opx_first_auto", opx_first_auto, ALL, 0, 0, NULL, NULL, "opx"},
	{"opx_first_crossing", opx_first_crossing, FI_MSG, 0, CT_ANY_PATH, NULL, NULL, "opx"},
	{"opx_first_stopped", opx_first_stopped, FI_MSG, 0, CT_NO_ONE, NULL, NULL, "opx"},
	{0},
};
