// SPDX-License-Identifier: BSD-2-Clause
// Two-sided MPI, every payload verified: mpi_verify [longest message in bytes].
#include "mpi_kit.h"

#define W MPI_COMM_WORLD

static const size_t lens[] = {0,      1,       7,	8,	 9,	  63,	   64,	    65,
			      255,    1000,    4096,	8192,	 8862,	  8927,	   8928,    8929,
			      16384,  32767,   65535,	65536,	 65537,	  131072,  262143,  307200,
			      500001, 1048575, 1048576, 1048577, 4194304, 8388609, 16777216};

static bool len_at(size_t i, size_t *len)
{
	*len = i < ARRAY_SIZE(lens) ? lens[i] : 0;
	return i < ARRAY_SIZE(lens) && *len <= g_w.len_max;
}

static size_t min_len(size_t a)
{
	return a < g_w.len_max ? a : g_w.len_max;
}

/* All accounting of payload between ranks passes here. */
static void account(int to, size_t tx_len, int from, size_t rx_len)
{
	if (to != g_w.rank)
		g_w.tx_len += tx_len;
	if (from != g_w.rank)
		g_w.rx_len += rx_len;
}

static void expect_status(const MPI_Status *st, int from, int tag, size_t len)
{
	int cnt;

	MPI_Get_count(st, MPI_BYTE, &cnt);
	CHECK(st->MPI_SOURCE == from && st->MPI_TAG == tag && (size_t)cnt == len,
	      "source %d tag %d count %d, not %d %d %zu", st->MPI_SOURCE, st->MPI_TAG, cnt, from,
	      tag, len);
}

/* Each length around the ring of ranks, buffers at odd alignments. */
static void ring_sendrecv(void)
{
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	MPI_Status st;
	size_t len;

	for (size_t i = 0; len_at(i, &len); i++) {
		size_t skew_tx = i % 3 ? i % 13 : 0, skew_rx = i % 2 ? 0 : i % 9;
		char *tx = buf_get(len, skew_tx), *rx = buf_get(len, skew_rx);

		pattern_fill(tx, len, g_w.rank, to, (int)i);
		MPI_Sendrecv(tx, (int)len, MPI_BYTE, to, (int)i, rx, (int)len, MPI_BYTE, from,
			     (int)i, W, &st);
		expect_status(&st, from, (int)i, len);
		pattern_check(rx, len, from, g_w.rank, (int)i);
		CHECK((unsigned char)rx[len] == 0xa5, "written behind the buffer");
		account(to, len, from, len);
		free(tx - skew_tx);
		free(rx - skew_rx);
	}
}

static void self_messages(void)
{
	size_t len = min_len(100000);
	char *tx = buf_get(len, 0), *rx = buf_get(len, 0);
	MPI_Status st;

	pattern_fill(tx, len, g_w.rank, g_w.rank, 1);
	MPI_Sendrecv(tx, (int)len, MPI_BYTE, g_w.rank, 5, rx, (int)len, MPI_BYTE, g_w.rank, 5, W,
		     &st);
	expect_status(&st, g_w.rank, 5, len);
	pattern_check(rx, len, g_w.rank, g_w.rank, 1);
	free(tx);
	free(rx);
}

/* Everybody sends to rank 0, which takes what comes and learns from the status who it was. */
static void any_source(void)
{
	enum { ROUNDS = 40 };
	size_t len = min_len(20000);
	char *buf = buf_get(len, 0);
	int next[64] = {0};
	MPI_Status st;
	int cnt;

	CHECK(g_w.size <= 64, "at most 64 ranks");
	for (int i = 0; g_w.rank && i < ROUNDS; i++) {
		size_t l = len * (size_t)(i % 5) / 4;

		pattern_fill(buf, l, g_w.rank, 0, i);
		MPI_Send(buf, (int)l, MPI_BYTE, 0, i % 7, W);
		account(0, l, g_w.rank, 0);
	}
	for (int k = 0; !g_w.rank && k < ROUNDS * (g_w.size - 1); k++) {
		MPI_Recv(buf, (int)len, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, W, &st);
		MPI_Get_count(&st, MPI_BYTE, &cnt);
		int i = next[st.MPI_SOURCE]++;

		CHECK(st.MPI_TAG == i % 7, "message %d of %d overtaken", i, st.MPI_SOURCE);
		pattern_check(buf, (size_t)cnt, st.MPI_SOURCE, 0, i);
		account(g_w.rank, 0, st.MPI_SOURCE, (size_t)cnt);
	}
	free(buf);
}

/* One tag, lengths that take different protocols: MPI's order must hold between them. */
static void order_of_mixed_lengths(void)
{
	enum { CNT = 120 };
	static const size_t mix_len[] = {8, 9000, 1, 70000, 64, 1100000, 4000, 300000, 0, 20000};
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	char *tx[CNT], *rx[CNT];
	MPI_Request req[2 * CNT];
	MPI_Status st[2 * CNT];
	size_t len[CNT];

	for (int i = 0; i < CNT; i++) {
		len[i] = min_len(mix_len[(size_t)i % ARRAY_SIZE(mix_len)]);
		tx[i] = buf_get(len[i], 0);
		rx[i] = buf_get(len[i], 0);
		pattern_fill(tx[i], len[i], g_w.rank, to, i);
		MPI_Irecv(rx[i], (int)len[i], MPI_BYTE, from, 3, W, &req[CNT + i]);
	}
	for (int i = 0; i < CNT; i++)
		MPI_Isend(tx[i], (int)len[i], MPI_BYTE, to, 3, W, &req[i]);
	MPI_Waitall(2 * CNT, req, st);
	for (int i = 0; i < CNT; i++) {
		expect_status(&st[CNT + i], from, 3, len[i]);
		pattern_check(rx[i], len[i], from, g_w.rank, i);
		account(to, len[i], from, len[i]);
		free(tx[i]);
		free(rx[i]);
	}
}

/*
 * Far more messages under way than the completion queue that Open MPI asks for (100). All receives
 * come first, so they must fit into the 8192 that the adapter takes.
 */
static void flood(void)
{
	int cnt = 6000 / g_w.size, n = 0;
	size_t all = (size_t)cnt * (size_t)g_w.size;
	MPI_Request *req = malloc(sizeof(*req) * all * 2);
	uint64_t *tx = malloc(8 * all), *rx = malloc(8 * all);

	for (int p = 0; p < g_w.size; p++)
		for (int i = 0; p != g_w.rank && i < cnt; i++)
			MPI_Irecv(&rx[p * cnt + i], 8, MPI_BYTE, p, i, W, &req[n++]);
	for (int i = 0; i < cnt; i++)
		for (int p = 0; p < g_w.size; p++) {
			if (p == g_w.rank)
				continue;
			pattern_fill(&tx[p * cnt + i], 8, g_w.rank, p, i);
			MPI_Isend(&tx[p * cnt + i], 8, MPI_BYTE, p, i, W, &req[n++]);
			account(p, 8, p, 8);
		}
	MPI_Waitall(n, req, MPI_STATUSES_IGNORE);
	for (int p = 0; p < g_w.size; p++)
		for (int i = 0; p != g_w.rank && i < cnt; i++)
			pattern_check(&rx[p * cnt + i], 8, p, g_w.rank, i);
	free(req);
	free(tx);
	free(rx);
}

/* Messages that come before their receives, taken in the opposite order of tags. */
static void unexpected_backwards(void)
{
	enum { CNT = 60 };
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	MPI_Request req[CNT];
	char *tx[CNT];
	size_t len[CNT];
	MPI_Status st;

	for (int i = 0; i < CNT; i++) {
		len[i] = min_len((size_t)i * 37 + (i % 6 == 5 ? 90000 : 0));
		tx[i] = buf_get(len[i], 0);
		pattern_fill(tx[i], len[i], g_w.rank, to, i);
		MPI_Isend(tx[i], (int)len[i], MPI_BYTE, to, i, W, &req[i]);
	}
	MPI_Barrier(W);
	for (int i = CNT - 1; i >= 0; i--) {
		char *rx = buf_get(len[i], 0);

		MPI_Recv(rx, (int)len[i], MPI_BYTE, from, i, W, &st);
		expect_status(&st, from, i, len[i]);
		pattern_check(rx, len[i], from, g_w.rank, i);
		account(to, len[i], from, len[i]);
		free(rx);
	}
	MPI_Waitall(CNT, req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < CNT; i++)
		free(tx[i]);
}

enum how { HOW_PROBE, HOW_IPROBE, HOW_MPROBE, HOW_IMPROBE, HOW_NUM };

static void probe_one(enum how how, int from, int what, size_t len)
{
	char *rx = buf_get(len, 0);
	MPI_Message msg = MPI_MESSAGE_NULL;
	MPI_Status st;
	int flag = 0;

	if (how == HOW_PROBE)
		MPI_Probe(from, MPI_ANY_TAG, W, &st);
	else if (how == HOW_MPROBE)
		MPI_Mprobe(from, MPI_ANY_TAG, W, &msg, &st);
	while (how == HOW_IPROBE && !flag)
		MPI_Iprobe(MPI_ANY_SOURCE, 100 + what, W, &flag, &st);
	while (how == HOW_IMPROBE && !flag)
		MPI_Improbe(MPI_ANY_SOURCE, 100 + what, W, &flag, &msg, &st);
	expect_status(&st, from, 100 + what, len);
	if (msg == MPI_MESSAGE_NULL)
		MPI_Recv(rx, (int)len, MPI_BYTE, st.MPI_SOURCE, st.MPI_TAG, W, &st);
	else
		MPI_Mrecv(rx, (int)len, MPI_BYTE, &msg, &st);
	expect_status(&st, from, 100 + what, len);
	pattern_check(rx, len, from, g_w.rank, what);
	free(rx);
}

static void probes(void)
{
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size, flag;
	MPI_Request req;
	MPI_Status st;
	size_t len;
	int what = 0;

	MPI_Iprobe(MPI_ANY_SOURCE, 77, W, &flag, &st);
	CHECK(!flag, "a message that nobody sent");
	for (size_t i = 0; len_at(i, &len) && len <= 4194304; i++)
		for (enum how how = 0; how < HOW_NUM; how++, what++) {
			char *tx = buf_get(len, 0);

			pattern_fill(tx, len, g_w.rank, to, what);
			MPI_Isend(tx, (int)len, MPI_BYTE, to, 100 + what, W, &req);
			probe_one(how, from, what, len);
			MPI_Wait(&req, MPI_STATUS_IGNORE);
			account(to, len, from, len);
			free(tx);
		}
}

/* A synchronous send must not be complete before its receive is posted; pairs of ranks (0,1), (2,3)
 * ... */
static void synchronous_one(size_t len)
{
	int peer = g_w.rank ^ 1, flag;
	char *buf = buf_get(len, 0), note = 0;
	MPI_Request req;
	MPI_Status st;

	if (g_w.rank & 1) {
		MPI_Recv(&note, 1, MPI_BYTE, peer, 2, W, &st);
		MPI_Send(&note, 1, MPI_BYTE, peer, 3, W);
		MPI_Recv(&note, 1, MPI_BYTE, peer, 4, W, &st);
		MPI_Recv(buf, (int)len, MPI_BYTE, peer, 1, W, &st);
		expect_status(&st, peer, 1, len);
		pattern_check(buf, len, peer, g_w.rank, 9);
		account(g_w.rank, 0, peer, len);
	} else {
		pattern_fill(buf, len, g_w.rank, peer, 9);
		MPI_Issend(buf, (int)len, MPI_BYTE, peer, 1, W, &req);
		MPI_Send(&note, 1, MPI_BYTE, peer, 2, W);
		MPI_Recv(&note, 1, MPI_BYTE, peer, 3, W, &st);
		for (int i = 0; i < 20; i++) {
			MPI_Test(&req, &flag, &st);
			CHECK(!flag, "synchronous send of %zu bytes complete before its receive",
			      len);
		}
		MPI_Send(&note, 1, MPI_BYTE, peer, 4, W);
		MPI_Wait(&req, &st);
		account(peer, len, g_w.rank, 0);
	}
	free(buf);
}

static void synchronous(void)
{
	size_t len;

	for (size_t i = 0; len_at(i, &len); i++)
		if ((g_w.rank ^ 1) < g_w.size)
			synchronous_one(len);
}

static void persistent(void)
{
	enum { REQS = 4, ROUNDS = 12 };
	static const size_t want[REQS] = {8, 5000, 66000, 1200000};
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	MPI_Request req[2 * REQS];
	char *tx[REQS], *rx[REQS];
	size_t len[REQS];

	for (int i = 0; i < REQS; i++) {
		len[i] = min_len(want[i]);
		tx[i] = buf_get(len[i], 0);
		rx[i] = buf_get(len[i], 0);
		MPI_Recv_init(rx[i], (int)len[i], MPI_BYTE, from, i, W, &req[i]);
		if (i % 2)
			MPI_Ssend_init(tx[i], (int)len[i], MPI_BYTE, to, i, W, &req[REQS + i]);
		else
			MPI_Send_init(tx[i], (int)len[i], MPI_BYTE, to, i, W, &req[REQS + i]);
	}
	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < REQS; i++)
			pattern_fill(tx[i], len[i], g_w.rank, to, r * REQS + i);
		MPI_Startall(2 * REQS, req);
		MPI_Waitall(2 * REQS, req, MPI_STATUSES_IGNORE);
		for (int i = 0; i < REQS; i++) {
			pattern_check(rx[i], len[i], from, g_w.rank, r * REQS + i);
			account(to, len[i], from, len[i]);
		}
	}
	for (int i = 0; i < REQS; i++) {
		MPI_Request_free(&req[i]);
		MPI_Request_free(&req[REQS + i]);
		free(tx[i]);
		free(rx[i]);
	}
}

/* A cancelled receive takes no message: the next one with its tag does. */
static void cancel_receive(void)
{
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size, flag;
	uint64_t never = 0, tx, rx = 0;
	MPI_Request req;
	MPI_Status st;

	MPI_Irecv(&never, 8, MPI_BYTE, from, 11, W, &req);
	MPI_Cancel(&req);
	MPI_Wait(&req, &st);
	MPI_Test_cancelled(&st, &flag);
	CHECK(flag, "not cancelled");
	MPI_Barrier(W);
	pattern_fill(&tx, 8, g_w.rank, to, 11);
	MPI_Sendrecv(&tx, 8, MPI_BYTE, to, 11, &rx, 8, MPI_BYTE, from, 11, W, &st);
	pattern_check(&rx, 8, from, g_w.rank, 11);
	CHECK(!never, "the cancelled receive was written");
	account(to, 8, from, 8);
}

/* A message longer than its receive: error class TRUNCATE, nothing written behind the buffer. */
static void truncation(void)
{
	static const size_t sent[] = {100, 20000, 200000, 2000000};
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	MPI_Request req;
	MPI_Status st;

	MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
	for (size_t i = 0; i < ARRAY_SIZE(sent); i++) {
		size_t len = min_len(sent[i]), half = len / 2;
		char *tx = buf_get(len, 0), *rx = buf_get(len, 0);
		int rc, class;

		pattern_fill(tx, len, g_w.rank, to, (int)i);
		MPI_Isend(tx, (int)len, MPI_BYTE, to, 21, W, &req);
		rc = MPI_Recv(rx, (int)half, MPI_BYTE, from, 21, W, &st);
		MPI_Error_class(rc, &class);
		CHECK(rc != MPI_SUCCESS && class == MPI_ERR_TRUNCATE,
		      "error class %d for %zu into %zu", class, len, half);
		CHECK((unsigned char)rx[half] == 0xa5, "written behind the buffer");
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		free(tx);
		free(rx);
	}
	MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
}

/* Columns of a matrix: what is sent lies in pieces. */
static void derived_type(void)
{
	enum { ROWS = 512, COLS = 96 };
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	uint64_t *tx = malloc(8 * ROWS * COLS), *rx = calloc(ROWS * COLS, 8);
	MPI_Datatype column;

	MPI_Type_vector(ROWS, 3, COLS, MPI_UINT64_T, &column);
	MPI_Type_commit(&column);
	for (uint64_t i = 0; i < ROWS * COLS; i++)
		tx[i] = mix(g_w.seed + i + (uint64_t)(unsigned)g_w.rank * 7919);
	MPI_Sendrecv(tx + 5, 1, column, to, 31, rx + 40, 1, column, from, 31, W, MPI_STATUS_IGNORE);
	for (uint64_t r = 0; r < ROWS; r++)
		for (uint64_t c = 0; c < COLS; c++) {
			bool is_in = c >= 40 && c < 43;
			uint64_t want =
				mix(g_w.seed + r * COLS + c - 35 + (uint64_t)(unsigned)from * 7919);

			CHECK(rx[r * COLS + c] == (is_in ? want : 0), "row %d column %d", (int)r,
			      (int)c);
		}
	account(to, ROWS * 24, from, ROWS * 24);
	MPI_Type_free(&column);
	free(tx);
	free(rx);
}

/* --- collectives: what each rank must hold follows from the others' formulas
 * --------------------------------------- */

static uint64_t elem(int rank, size_t i)
{
	return mix(g_w.seed + i * 31 + (uint64_t)(unsigned)rank * 1000003) >>
	       16; /* sums of 65536 ranks fit */
}

static uint64_t elem_sum(size_t i, int ranks)
{
	uint64_t sum = 0;

	for (int r = 0; r < ranks; r++)
		sum += elem(r, i);
	return sum;
}

static void barrier(void)
{
	for (int i = 0; i < 200; i++)
		MPI_Barrier(W);
}

static void bcast(void)
{
	size_t len;

	for (size_t i = 0; len_at(i, &len); i++) {
		int root = (int)i % g_w.size;
		char *buf = buf_get(len, 0);

		if (g_w.rank == root)
			pattern_fill(buf, len, root, 0, (int)i);
		MPI_Bcast(buf, (int)len, MPI_BYTE, root, W);
		pattern_check(buf, len, root, 0, (int)i);
		if (g_w.rank != root)
			account(g_w.rank, 0, root, len);
		free(buf);
	}
}

static void reduce_one(size_t cnt, int root)
{
	uint64_t *in = malloc(cnt * 8), *out = calloc(cnt, 8);

	for (size_t i = 0; i < cnt; i++)
		in[i] = elem(g_w.rank, i);
	MPI_Reduce(in, out, (int)cnt, MPI_UINT64_T, MPI_SUM, root, W);
	for (size_t i = 0; g_w.rank == root && i < cnt; i++)
		CHECK(out[i] == elem_sum(i, g_w.size), "reduce element %zu of %zu", i, cnt);
	MPI_Allreduce(in, out, (int)cnt, MPI_UINT64_T, MPI_SUM, W);
	for (size_t i = 0; i < cnt; i++)
		CHECK(out[i] == elem_sum(i, g_w.size), "allreduce element %zu of %zu", i, cnt);
	MPI_Scan(in, out, (int)cnt, MPI_UINT64_T, MPI_SUM, W);
	for (size_t i = 0; i < cnt; i++)
		CHECK(out[i] == elem_sum(i, g_w.rank + 1), "scan element %zu of %zu", i, cnt);
	free(in);
	free(out);
}

static void reduce(void)
{
	static const size_t cnts[] = {1, 2, 17, 1000, 8192, 100003, 524288};

	for (size_t i = 0; i < ARRAY_SIZE(cnts) && cnts[i] * 8 <= g_w.len_max; i++)
		reduce_one(cnts[i], (int)i % g_w.size);
}

static void alltoall(void)
{
	size_t len, n = (size_t)g_w.size;

	for (size_t i = 0; len_at(i, &len) && len <= 4194304; i++) {
		char *tx = buf_get(len * n, 0), *rx = buf_get(len * n, 0);

		for (int p = 0; p < g_w.size; p++)
			pattern_fill(tx + len * (size_t)p, len, g_w.rank, p, (int)i);
		MPI_Alltoall(tx, (int)len, MPI_BYTE, rx, (int)len, MPI_BYTE, W);
		for (int p = 0; p < g_w.size; p++) {
			pattern_check(rx + len * (size_t)p, len, p, g_w.rank, (int)i);
			account(p, len, p, len);
		}
		free(tx);
		free(rx);
	}
}

static void gather_scatter(void)
{
	size_t len, n = (size_t)g_w.size;

	for (size_t i = 0; len_at(i, &len) && len <= 4194304; i++) {
		int root = (int)(i + 1) % g_w.size, what = (int)i;
		char *one = buf_get(len, 0), *all = buf_get(len * n, 0);

		pattern_fill(one, len, g_w.rank, root, what);
		MPI_Gather(one, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, root, W);
		for (int p = 0; g_w.rank == root && p < g_w.size; p++)
			pattern_check(all + len * (size_t)p, len, p, root, what);
		memset(one, 0, len);
		MPI_Scatter(all, (int)len, MPI_BYTE, one, (int)len, MPI_BYTE, root, W);
		pattern_check(one, len, g_w.rank, root, what);
		MPI_Allgather(one, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, W);
		for (int p = 0; p < g_w.size; p++)
			pattern_check(all + len * (size_t)p, len, p, root, what);
		free(one);
		free(all);
	}
}

/* Messages of one communicator are not seen in another. */
static void communicators(void)
{
	int to = (g_w.rank + 1) % g_w.size, from = (g_w.rank + g_w.size - 1) % g_w.size;
	uint64_t tx[2], rx[2];
	MPI_Comm dup, odd;
	int sum, want = 0;
	MPI_Request req[2];

	MPI_Comm_dup(W, &dup);
	pattern_fill(&tx[0], 8, g_w.rank, to, 1);
	pattern_fill(&tx[1], 8, g_w.rank, to, 2);
	MPI_Isend(&tx[0], 8, MPI_BYTE, to, 5, W, &req[0]);
	MPI_Isend(&tx[1], 8, MPI_BYTE, to, 5, dup, &req[1]);
	MPI_Recv(&rx[1], 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, MPI_STATUS_IGNORE);
	MPI_Recv(&rx[0], 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, W, MPI_STATUS_IGNORE);
	MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
	pattern_check(&rx[0], 8, from, g_w.rank, 1);
	pattern_check(&rx[1], 8, from, g_w.rank, 2);
	account(to, 16, from, 16);
	MPI_Comm_split(W, g_w.rank & 1, g_w.rank, &odd);
	MPI_Allreduce(&g_w.rank, &sum, 1, MPI_INT, MPI_SUM, odd);
	for (int r = g_w.rank & 1; r < g_w.size; r += 2)
		want += r;
	CHECK(sum == want, "sum %d of the half, not %d", sum, want);
	MPI_Comm_free(&odd);
	MPI_Comm_free(&dup);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {
		{"ring_sendrecv", ring_sendrecv},
		{"self_messages", self_messages},
		{"any_source", any_source},
		{"order_of_mixed_lengths", order_of_mixed_lengths},
		{"flood", flood},
		{"unexpected_backwards", unexpected_backwards},
		{"probes", probes},
		{"synchronous", synchronous},
		{"persistent", persistent},
		{"cancel_receive", cancel_receive},
		{"truncation", truncation},
		{"derived_type", derived_type},
		{"barrier", barrier},
		{"bcast", bcast},
		{"reduce", reduce},
		{"alltoall", alltoall},
		{"gather_scatter", gather_scatter},
		{"communicators", communicators},
	};

	mpi_world_open(&argc, &argv, 16777216);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		if (argc < 3 || strstr(tests[i].name, argv[2]))
			mpi_test(tests[i].name, tests[i].fn);
	mpi_world_close();
	return 0;
}
