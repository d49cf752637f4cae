// SPDX-License-Identifier: BSD-2-Clause
// Memory of idle endpoints and of known peers: bench_mem PROVIDER ENDPOINTS PEERS. Prints CSV:
// what,count,bytes each.
#include "bench_kit.h"

#include <unistd.h>

/* Names of peers that do not exist: the same adapter format, other numbers (efa: 16 bytes GID, 2
 * QPN, 4 Q_Key from 20; cxi: 9 bits PID, 20 bits NIC address; opx: receive context, LID from 5). */
static void name_of(const char *prov, const struct bench_name *mine, size_t idx, unsigned char out[BENCH_ADDR_MAX])
{
	memcpy(out, mine->addr, mine->addr_len);
	if (!strcmp(prov, "opx")) {
		size_t lid = idx / 160 + 1;

		out[0] = out[2] = out[3] = out[7] = (unsigned char)(idx % 160);
		out[5] = (unsigned char)(lid >> 8);
		out[6] = (unsigned char)lid;
		return;
	}
	if (mine->addr_len == 8) {
		uint32_t at = (uint32_t)(idx % 500 | (idx / 500 + 2) << 9);

		for (int i = 0; i < 4; i++)
			out[i] = (unsigned char)(at >> 8 * i);
	}
	if (mine->addr_len != 32)
		return;
	out[14] = (unsigned char)(idx >> 14);
	out[15] = 1;
	out[16] = (unsigned char)(idx & 0xff);
	out[17] = (unsigned char)(0x40 | (idx >> 8 & 0x3f));
	out[20] = 0x21;
}

int main(int argc, char **argv)
{
	int ep_cnt = argc > 2 ? atoi(argv[2]) : 64;
	size_t peer_cnt = argc > 3 ? strtoull(argv[3], NULL, 0) : 100000, before, mid;
	struct bench_opt opt = {.prov = argc > 1 ? argv[1] : "efa", .buf_len = 4096};
	struct bench_ep *e = calloc((size_t)ep_cnt + 1, sizeof(*e));
	unsigned char(*names)[BENCH_ADDR_MAX];
	struct bench_name mine;
	fi_addr_t addr;
	size_t done = 0;

	bench_ep_open(&e[0], &opt);
	before = bench_memory("Rss");
	for (int i = 1; i <= ep_cnt; i++)
		bench_ep_twin(&e[i], &e[0], &opt);
	mid = bench_memory("Rss");
	printf("idle_endpoint,%d,%.0f\n", ep_cnt, ((double)mid - (double)before) / ep_cnt);
	bench_ep_name(&e[0], &mine);
	names = calloc(1, sizeof(*names));
	before = bench_memory("Rss");
	for (size_t i = 0; i < peer_cnt; i++) {
		name_of(opt.prov, &mine, i, names[0]);
		done += fi_av_insert(e[0].av, names[0], 1, &addr, 0, NULL) == 1;
	}
	mid = bench_memory("Rss");
	if (done != peer_cnt)
		fprintf(stderr, "bench_mem: only %zu of %zu peers were taken\n", done, peer_cnt);
	printf("known_peer,%zu,%.0f\n", done,
	       ((double)mid - (double)before) / (double)(done ? done : 1));
	exit(0); /* no closing of thousands; providers remove their shared memory at exit */
}
