// SPDX-License-Identifier: BSD-2-Clause
// What the MPI test programs share: seeded payloads, a check that ends the job, the bytes that must
// have crossed the adapter.
#ifndef SF_TESTS_MPI_MPI_KIT_H
#define SF_TESTS_MPI_MPI_KIT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a_) (sizeof(a_) / sizeof((a_)[0]))

struct mpi_world {
	int rank, size;
	uint64_t seed;
	size_t len_max;	  /* bytes of the longest message */
	uint64_t tx_len;  /* payload sent to other ranks, bytes */
	uint64_t rx_len;  /* payload received from other ranks, bytes */
	const char *test; /* name of the running test */
};
extern struct mpi_world g_w;

/* Ends the job with a sentence that names test, rank, seed and place. */
#define CHECK(cond_, ...)                                                                          \
	do {                                                                                       \
		if (!(cond_)) {                                                                    \
			fprintf(stderr, "FAIL %s: rank %d seed %llu: %s:%d: %s: ", g_w.test,       \
				g_w.rank, (unsigned long long)g_w.seed, __FILE__, __LINE__,        \
				#cond_);                                                           \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			MPI_Abort(MPI_COMM_WORLD, 1);                                              \
		}                                                                                  \
	} while (0)

/* The 64-bit finaliser of MurmurHash3: every word of a payload follows from seed and place alone.
 */
static inline uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
	return x ^ (x >> 33);
}

/** pattern_fill() - @len bytes that are different for each (@from, @to, @what). */
void pattern_fill(void *buf, size_t len, int from, int to, int what);
/** pattern_check() - Ends the job at the first wrong byte. */
void pattern_check(const void *buf, size_t len, int from, int to, int what);
/** mpi_world_open() - MPI_Init, the seed from SEED, the longest message from argv[1]. */
void mpi_world_open(int *argc, char ***argv, size_t len_max);
/** mpi_test() - Runs one test between barriers; rank 0 prints its name and time. */
void mpi_test(const char *name, void (*fn)(void));
/** mpi_world_close() - Prints the line that the adapters' counters are compared with; MPI_Finalize.
 */
void mpi_world_close(void);
/** buf_get() - @len bytes at an odd distance @skew from a page, for free(buf - skew). */
char *buf_get(size_t len, size_t skew);

#endif
