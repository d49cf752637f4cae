// SPDX-License-Identifier: BSD-2-Clause
// Seeded payloads and the frame of an MPI test program.
#include "mpi_kit.h"

struct mpi_world g_w;

static uint64_t word_of(int from, int to, int what, size_t idx)
{
	return mix(g_w.seed +
		   mix(((uint64_t)(unsigned)from << 40) ^ ((uint64_t)(unsigned)to << 20) ^
		       (unsigned)what) +
		   idx * 0x9e3779b97f4a7c15ull);
}

/* MPI_KIT_SPOIL in the environment: the first message of rank 0 has one wrong bit, which the checks
 * must find. */
static void spoil(char *p, size_t len)
{
	static bool is_done;

	if (is_done || !len || g_w.rank || !getenv("MPI_KIT_SPOIL"))
		return;
	is_done = true;
	*p ^= 1;
}

void pattern_fill(void *buf, size_t len, int from, int to, int what)
{
	char *p = buf;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_of(from, to, what, i);

		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
	spoil(p, len);
}

void pattern_check(const void *buf, size_t len, int from, int to, int what)
{
	const char *p = buf;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = word_of(from, to, what, i);
		size_t n = len - i < 8 ? len - i : 8;

		CHECK(!memcmp(p + i, &w, n), "byte %zu of %zu, message %d from %d to %d", i, len,
		      what, from, to);
	}
}

char *buf_get(size_t len, size_t skew)
{
	void *p = NULL;

	CHECK(!posix_memalign(&p, 4096, len + skew + 64), "%zu bytes", len);
	memset(p, 0xa5, len + skew + 64);
	return (char *)p + skew;
}

void mpi_world_open(int *argc, char ***argv, size_t len_max)
{
	const char *seed = getenv("SEED");

	MPI_Init(argc, argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &g_w.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &g_w.size);
	g_w.seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	MPI_Bcast(&g_w.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	g_w.len_max = *argc > 1 ? strtoull((*argv)[1], NULL, 0) : len_max;
	g_w.test = "start";
	CHECK(g_w.size >= 2, "needs two ranks or more");
	if (!g_w.rank)
		printf("%s: %d ranks, messages up to %zu bytes, SEED=%llu\n", (*argv)[0], g_w.size,
		       g_w.len_max, (unsigned long long)g_w.seed);
}

void mpi_test(const char *name, void (*fn)(void))
{
	double t;

	g_w.test = name;
	MPI_Barrier(MPI_COMM_WORLD);
	t = MPI_Wtime();
	fn();
	MPI_Barrier(MPI_COMM_WORLD);
	if (!g_w.rank) {
		printf("  ok %-28s %8.1f ms\n", name, (MPI_Wtime() - t) * 1e3);
		fflush(stdout);
	}
}

void mpi_world_close(void)
{
	printf("payload: rank=%d pid=%ld tx=%llu rx=%llu\n", g_w.rank, (long)getpid(),
	       (unsigned long long)g_w.tx_len, (unsigned long long)g_w.rx_len);
	fflush(stdout);
	MPI_Finalize();
}
