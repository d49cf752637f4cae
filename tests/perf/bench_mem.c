// SPDX-License-Identifier: BSD-2-Clause
// Memory of idle endpoints and of known peers: bench_mem PROVIDER ENDPOINTS PEERS. Prints CSV:
// what,count,bytes each.
#include "bench_kit.h"

#include <unistd.h>

int main(int argc, char **argv)
{
	int ep_cnt = argc > 2 ? atoi(argv[2]) : 64;
	size_t peer_cnt = argc > 3 ? strtoull(argv[3], NULL, 0) : 100000, before, mid;
	struct bench_opt opt = {.prov = argc > 1 ? argv[1] : "efa", .buf_len = 4096};
	struct bench_ep *e = calloc((size_t)ep_cnt + 1, sizeof(*e));
	size_t done;

	bench_ep_open(&e[0], &opt);
	before = bench_memory("Rss");
	for (int i = 1; i <= ep_cnt; i++)
		bench_ep_twin(&e[i], &e[0], &opt);
	mid = bench_memory("Rss");
	printf("idle_endpoint,%d,%.0f\n", ep_cnt, ((double)mid - (double)before) / ep_cnt);
	before = bench_memory("Rss");
	done = bench_ep_know(&e[0], peer_cnt);
	mid = bench_memory("Rss");
	if (done != peer_cnt)
		fprintf(stderr, "bench_mem: only %zu of %zu peers were taken\n", done, peer_cnt);
	printf("known_peer,%zu,%.0f\n", done,
	       ((double)mid - (double)before) / (double)(done ? done : 1));
	exit(0); /* no closing of thousands; providers remove their shared memory at exit */
}
