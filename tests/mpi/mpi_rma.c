// SPDX-License-Identifier: BSD-2-Clause
// One-sided MPI, every byte verified: mpi_rma [longest transfer in bytes].
#include "mpi_kit.h"

#define W MPI_COMM_WORLD

static const size_t lens[] = {1, 7, 8, 64, 1000, 4096, 8928, 8929, 65536, 100001, 1048576, 4194304};

struct win {
	MPI_Win win;
	char *mem;
};

/* MPI_Win_create(), since ranks of one host would share the memory of MPI_Win_allocate() behind the
 * adapter's back. */
static struct win win_open(size_t len)
{
	struct win w = {.mem = buf_get(len, 0)};

	memset(w.mem, 0, len);
	MPI_Win_create(w.mem, (MPI_Aint)len, 1, MPI_INFO_NULL, W, &w.win);
	return w;
}

static void win_close(struct win *w)
{
	MPI_Win_free(&w->win);
	free(w->mem);
}

static int right(void)
{
	return (g_w.rank + 1) % g_w.size;
}

static int left(void)
{
	return (g_w.rank + g_w.size - 1) % g_w.size;
}

/* Fence epochs: put to the right, check what the left put, get it back from the right. */
static void fence_put_get(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(lens) && lens[i] <= g_w.len_max; i++) {
		size_t len = lens[i], at = i % 5;
		struct win w = win_open(len + 16);
		char *tx = buf_get(len, 0), *rx = buf_get(len, i % 3);

		pattern_fill(tx, len, g_w.rank, right(), (int)i);
		MPI_Win_fence(0, w.win);
		MPI_Put(tx, (int)len, MPI_BYTE, right(), (MPI_Aint)at, (int)len, MPI_BYTE, w.win);
		MPI_Win_fence(0, w.win);
		pattern_check(w.mem + at, len, left(), g_w.rank, (int)i);
		CHECK(!w.mem[at + len], "written behind the range");
		MPI_Win_fence(0, w.win);
		MPI_Get(rx, (int)len, MPI_BYTE, right(), (MPI_Aint)at, (int)len, MPI_BYTE, w.win);
		MPI_Win_fence(0, w.win);
		pattern_check(rx, len, g_w.rank, right(), (int)i);
		CHECK((unsigned char)rx[len] == 0xa5, "written behind the buffer");
		g_w.tx_len += len;
		g_w.rx_len += len;
		free(tx);
		free(rx - i % 3);
		win_close(&w);
	}
}

/* Passive target: the target is in a barrier, or computes, while its memory is written and read. */
static void lock_put_flush_get(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(lens) && lens[i] <= g_w.len_max; i++) {
		size_t len = lens[i];
		struct win w = win_open(len);
		char *tx = buf_get(len, i % 4), *rx = buf_get(len, 0);

		pattern_fill(tx, len, g_w.rank, right(), (int)i);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right(), 0, w.win);
		MPI_Put(tx, (int)len, MPI_BYTE, right(), 0, (int)len, MPI_BYTE, w.win);
		MPI_Win_flush(right(), w.win);
		MPI_Get(rx, (int)len, MPI_BYTE, right(), 0, (int)len, MPI_BYTE, w.win);
		MPI_Win_flush(right(), w.win);
		pattern_check(rx, len, g_w.rank, right(), (int)i);
		MPI_Win_unlock(right(), w.win);
		MPI_Barrier(W);
		MPI_Win_lock(MPI_LOCK_SHARED, g_w.rank, 0, w.win);
		pattern_check(w.mem, len, left(), g_w.rank, (int)i);
		MPI_Win_unlock(g_w.rank, w.win);
		g_w.tx_len += len;
		g_w.rx_len += len;
		free(tx - i % 4);
		free(rx);
		win_close(&w);
	}
}

/* Everybody adds to every window at once: no update may be lost. */
static void accumulate(void)
{
	enum { CNT = 300, ROUNDS = 5 };
	struct win w = win_open(CNT * 8);
	uint64_t add[CNT];

	for (uint64_t i = 0; i < CNT; i++)
		add[i] = i * 3 + (uint64_t)g_w.rank + 1;
	MPI_Win_fence(0, w.win);
	for (int r = 0; r < ROUNDS; r++)
		for (int p = 0; p < g_w.size; p++)
			MPI_Accumulate(add, CNT, MPI_UINT64_T, (g_w.rank + p) % g_w.size, 0, CNT,
				       MPI_UINT64_T, MPI_SUM, w.win);
	MPI_Win_fence(0, w.win);
	for (uint64_t i = 0; i < CNT; i++) {
		uint64_t n = (uint64_t)g_w.size, want = ROUNDS * (n * i * 3 + n * (n + 1) / 2),
			 have;

		memcpy(&have, w.mem + i * 8, 8);
		CHECK(have == want, "element %d is %llu, not %llu", (int)i,
		      (unsigned long long)have, (unsigned long long)want);
	}
	win_close(&w);
}

/* Each operation of MPI_Accumulate once, rank after rank. */
static void accumulate_ops(void)
{
	static const struct {
		const char *name;
		MPI_Op op;
		int64_t start, operand, want;
	} row[] = {
		{"sum", MPI_SUM, 40, 2, 42},	      {"prod", MPI_PROD, 6, 7, 42},
		{"min", MPI_MIN, 42, 50, 42},	      {"max", MPI_MAX, 41, 42, 42},
		{"band", MPI_BAND, 0x6e, 0x3b, 0x2a}, {"bor", MPI_BOR, 0x22, 0x08, 0x2a},
		{"bxor", MPI_BXOR, 0x55, 0x7f, 0x2a}, {"replace", MPI_REPLACE, 1, 42, 42},
		{"land", MPI_LAND, 5, 3, 1},	      {"lor", MPI_LOR, 0, 9, 1},
		{"no_op", MPI_NO_OP, 42, 1, 42},
	};
	struct win w = win_open(sizeof(row) / sizeof(row[0]) * 8);
	int64_t old[ARRAY_SIZE(row)] = {0};

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, g_w.rank, 0, w.win);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		memcpy(w.mem + i * 8, &row[i].start, 8);
	MPI_Win_unlock(g_w.rank, w.win);
	MPI_Barrier(W);
	MPI_Win_lock(MPI_LOCK_SHARED, right(), 0, w.win);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		/* Open MPI 4.1 hands every 64-bit operation to its BTL ofi, which then ends the job
		 * for all but these. */
		bool is_wide =
			row[i].op == MPI_SUM || row[i].op == MPI_REPLACE || row[i].op == MPI_NO_OP;
		MPI_Datatype type = is_wide ? MPI_INT64_T : MPI_INT8_T;

		MPI_Get_accumulate(&row[i].operand, 1, type, &old[i], 1, type, right(),
				   (MPI_Aint)i * 8, 1, type, row[i].op, w.win);
	}
	MPI_Win_unlock(right(), w.win);
	MPI_Barrier(W);
	MPI_Win_lock(MPI_LOCK_SHARED, g_w.rank, 0, w.win);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		int64_t have;

		memcpy(&have, w.mem + i * 8, 8);
		CHECK(have == row[i].want, "%s: %lld, not %lld", row[i].name, (long long)have,
		      (long long)row[i].want);
		CHECK(old[i] == row[i].start, "%s: fetched %lld, not %lld", row[i].name,
		      (long long)old[i], (long long)row[i].start);
	}
	MPI_Win_unlock(g_w.rank, w.win);
	win_close(&w);
}

/* A ticket counter on rank 0: every number is drawn exactly once. */
static void fetch_and_op(void)
{
	enum { DRAWS = 200 };
	uint64_t one = 1, ticket, last = 0;
	char *taken = calloc((size_t)g_w.size * DRAWS, 1),
	     *all = calloc((size_t)g_w.size * DRAWS, 1);
	struct win w = win_open(8);

	MPI_Win_lock_all(0, w.win);
	for (int i = 0; i < DRAWS; i++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, 0, 0, MPI_SUM, w.win);
		MPI_Win_flush(0, w.win);
		CHECK(ticket < (uint64_t)g_w.size * DRAWS && (!i || ticket > last),
		      "ticket %llu after %llu", (unsigned long long)ticket,
		      (unsigned long long)last);
		last = ticket;
		taken[ticket]++;
	}
	MPI_Win_unlock_all(w.win);
	MPI_Allreduce(taken, all, g_w.size * DRAWS, MPI_BYTE, MPI_BOR, W);
	for (int i = 0; i < g_w.size * DRAWS; i++)
		CHECK(all[i] == 1, "ticket %d was drawn by nobody", i);
	free(taken);
	free(all);
	win_close(&w);
}

/*
 * A lock word and a plain counter beside it on the last rank, under compare-and-swap: mutual
 * exclusion must hold. The last rank itself only lends the memory: Open MPI 4.1's osc rdma crashes
 * in a compare-and-swap of a rank with itself.
 */
static void compare_and_swap(void)
{
	enum { ROUNDS = 50 };
	uint64_t me = (uint64_t)g_w.rank + 1, nobody = 0, seen, value;
	int home = g_w.size - 1;
	struct win w = win_open(16);

	MPI_Win_lock_all(0, w.win);
	for (int i = 0; g_w.rank != home && i < ROUNDS; i++) {
		do {
			MPI_Compare_and_swap(&me, &nobody, &seen, MPI_UINT64_T, home, 0, w.win);
			MPI_Win_flush(home, w.win);
		} while (seen != nobody);
		MPI_Get(&value, 8, MPI_BYTE, home, 8, 8, MPI_BYTE, w.win);
		MPI_Win_flush(home, w.win);
		value++;
		MPI_Put(&value, 8, MPI_BYTE, home, 8, 8, MPI_BYTE, w.win);
		MPI_Win_flush(home, w.win);
		MPI_Compare_and_swap(&nobody, &me, &seen, MPI_UINT64_T, home, 0, w.win);
		MPI_Win_flush(home, w.win);
		CHECK(seen == me, "lock word of %llu, not mine", (unsigned long long)seen);
	}
	MPI_Win_unlock_all(w.win);
	MPI_Barrier(W);
	MPI_Win_lock(MPI_LOCK_SHARED, home, 0, w.win);
	MPI_Get(&value, 8, MPI_BYTE, home, 8, 8, MPI_BYTE, w.win);
	MPI_Win_unlock(home, w.win);
	CHECK(value == (uint64_t)home * ROUNDS, "counter %llu, not %d", (unsigned long long)value,
	      home * ROUNDS);
	win_close(&w);
}

/* Many small puts to scattered places of all ranks in one epoch, then read back with one get each.
 */
static void scattered_puts(void)
{
	enum { SLOTS = 256 };
	size_t n = (size_t)g_w.size;
	struct win w = win_open(SLOTS * 24 * n);
	char *tx = buf_get(SLOTS * 24 * n, 0);

	MPI_Win_lock_all(0, w.win);
	for (int p = 0; p < g_w.size; p++)
		for (int i = 0; i < SLOTS; i++) {
			size_t slot = (size_t)(i * 37 % SLOTS);
			char *from = tx + ((size_t)p * SLOTS + slot) * 24;

			pattern_fill(from, 24, g_w.rank, p, (int)slot);
			MPI_Put(from, 24, MPI_BYTE, p,
				(MPI_Aint)((size_t)g_w.rank * SLOTS + slot) * 24, 24, MPI_BYTE,
				w.win);
		}
	MPI_Win_flush_all(w.win);
	MPI_Barrier(W);
	MPI_Win_sync(w.win);
	for (int p = 0; p < g_w.size; p++)
		for (int i = 0; i < SLOTS; i++)
			pattern_check(w.mem + ((size_t)p * SLOTS + (size_t)i) * 24, 24, p, g_w.rank,
				      i);
	MPI_Win_unlock_all(w.win);
	g_w.tx_len += SLOTS * 24 * (n - 1);
	g_w.rx_len += SLOTS * 24 * (n - 1);
	free(tx);
	win_close(&w);
}

/* Post-start-complete-wait with the two neighbours. */
static void general_active_target(void)
{
	size_t len = g_w.len_max < 50000 ? g_w.len_max : 50000;
	struct win w = win_open(len);
	char *tx = buf_get(len, 0);
	MPI_Group all, to, from;
	int l = left(), r = right();

	pattern_fill(tx, len, g_w.rank, r, 5);
	MPI_Comm_group(W, &all);
	MPI_Group_incl(all, 1, &r, &to);
	MPI_Group_incl(all, 1, &l, &from);
	MPI_Win_post(from, 0, w.win);
	MPI_Win_start(to, 0, w.win);
	MPI_Put(tx, (int)len, MPI_BYTE, r, 0, (int)len, MPI_BYTE, w.win);
	MPI_Win_complete(w.win);
	MPI_Win_wait(w.win);
	pattern_check(w.mem, len, l, g_w.rank, 5);
	g_w.tx_len += len;
	g_w.rx_len += len;
	MPI_Group_free(&all);
	MPI_Group_free(&to);
	MPI_Group_free(&from);
	free(tx);
	win_close(&w);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {
		{"fence_put_get", fence_put_get},
		{"lock_put_flush_get", lock_put_flush_get},
		{"accumulate", accumulate},
		{"accumulate_ops", accumulate_ops},
		{"fetch_and_op", fetch_and_op},
		{"compare_and_swap", compare_and_swap},
		{"scattered_puts", scattered_puts},
		{"general_active_target", general_active_target},
	};

	mpi_world_open(&argc, &argv, 4194304);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		if (argc < 3 || strstr(tests[i].name, argv[2]))
			mpi_test(tests[i].name, tests[i].fn);
	mpi_world_close();
	return 0;
}
