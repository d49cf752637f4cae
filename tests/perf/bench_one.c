// SPDX-License-Identifier: BSD-2-Clause
// Both endpoints in one process, so that counts repeat exactly: bench_one PROVIDER COUNT SIZE
// inject|send|stream|put|fetch|idle [PEERS]. stream: injected, in windows of 64 whose receives are posted before; idle:
// reads of a completion queue to which nothing comes. Each end knows PEERS others that do not exist, in front of its
// own.
// instr.sh runs it twice with different COUNT under a counter of instructions, of system calls or of
// allocations, and divides the difference.
#include "bench_kit.h"

#include <unistd.h>

#define TAG 1
#define WINDOW 64

static struct bench_ep g_a, g_b;

/* One end polls at a time, as two processes would on their own; the other only when nothing comes
 * without it. */
static void until(int *left_a, int *left_b)
{
	for (int idle = 1; *left_a > 0 || *left_b > 0; idle++) {
		bool is_b = *left_b > 0;

		if (idle % 8 == 0)
			is_b = !is_b;
		*(is_b ? left_b : left_a) -= bench_poll(is_b ? &g_b : &g_a);
	}
}

static void both_poll(void)
{
	bench_poll(&g_a);
	bench_poll(&g_b);
}

static void one_message(size_t len, bool is_inject, struct fi_context2 *ctx)
{
	int left_a = !is_inject, left_b = 1;
	ssize_t rc;

	BENCH_CHECK(fi_trecv(g_b.ep, g_b.buf, len, g_b.desc, FI_ADDR_UNSPEC, TAG, 0, &ctx[0]));
	while ((rc = is_inject ? fi_tinject(g_a.ep, g_a.buf, len, g_a.peer, TAG)
			       : fi_tsend(g_a.ep, g_a.buf, len, g_a.desc, g_a.peer, TAG,
					  &ctx[1])) == -FI_EAGAIN)
		both_poll();
	BENCH_CHECK(rc);
	until(&left_a, &left_b);
}

/* As many messages as receives were posted for, then the next receives: what a benchmark of the message rate does. */
static void one_window(size_t len, struct fi_context2 *ctx)
{
	int left_a = 0, left_b = WINDOW;
	ssize_t rc;

	for (int i = 0; i < WINDOW; i++)
		BENCH_CHECK(fi_trecv(g_b.ep, g_b.buf, len, g_b.desc, FI_ADDR_UNSPEC, TAG, 0, &ctx[i]));
	for (int i = 0; i < WINDOW; i++) {
		while ((rc = fi_tinject(g_a.ep, g_a.buf, len, g_a.peer, TAG)) == -FI_EAGAIN)
			left_b -= bench_poll(&g_b);
		BENCH_CHECK(rc);
	}
	until(&left_a, &left_b);
	bench_poll(&g_a); /* the sender waits for an answer then */
}

static void one_rma(size_t len, bool is_put, struct fi_context2 *ctx)
{
	int left = 1;
	ssize_t rc;

	while ((rc = is_put ? fi_write(g_a.ep, g_a.buf, len, g_a.desc, g_a.peer, g_a.rma_base,
				       g_a.rma_key, ctx)
			    : fi_read(g_a.ep, g_a.buf, len, g_a.desc, g_a.peer, g_a.rma_base,
				      g_a.rma_key, ctx)) == -FI_EAGAIN)
		both_poll();
	BENCH_CHECK(rc);
	while (left > 0) {
		left -= bench_poll(&g_a);
		bench_poll(&g_b);
	}
}

int main(int argc, char **argv)
{
	struct bench_opt opt = {.buf_len = 1 << 20};
	struct fi_context2 ctx[WINDOW];
	struct bench_name a, b;
	bool is_rma, is_inject, is_stream;
	size_t len, others;

	if (argc != 5 && argc != 6) {
		fprintf(stderr, "usage: bench_one PROVIDER COUNT SIZE inject|send|stream|put|fetch|idle [PEERS]\n");
		return 1;
	}
	len = strtoull(argv[3], NULL, 0);
	is_inject = !strcmp(argv[4], "inject");
	is_stream = !strcmp(argv[4], "stream");
	is_rma = !strcmp(argv[4], "put") || !strcmp(argv[4], "fetch");
	opt.prov = argv[1];
	opt.rma = is_rma;
	bench_ep_open(&g_a, &opt);
	bench_ep_twin(&g_b, &g_a, &opt);
	others = argc > 5 ? strtoull(argv[5], NULL, 0) : 0;
	if (bench_ep_know(&g_a, others) != others || bench_ep_know(&g_b, others) != others)
		bench_die("fi_av_insert", -FI_EINVAL);
	bench_ep_name(&g_a, &a);
	bench_ep_name(&g_b, &b);
	bench_ep_connect(&g_a, &b);
	bench_ep_connect(&g_b, &a);
	/* Both ends must have polled: peers of efa shake hands, and the first messages grow pools.
	 */
	for (int i = 0; i < 1000; i++) {
		one_message(8, false, ctx);
		both_poll();
	}
	for (long i = strcmp(argv[4], "idle") ? 0 : atol(argv[2]); i > 0; i--)
		bench_poll(&g_b);
	for (long i = strcmp(argv[4], "idle") ? atol(argv[2]) : 0; i > 0; i -= is_stream ? WINDOW : 1) {
		if (is_stream)
			one_window(len, ctx);
		else if (is_rma)
			one_rma(len, *argv[4] == 'p', ctx);
		else
			one_message(len, is_inject, ctx);
	}
	exit(0); /* no closing: what is counted ends here; providers remove their shared memory at exit */
}
