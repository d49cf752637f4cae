// SPDX-License-Identifier: BSD-2-Clause
// hw_counters: exact deltas, sums over open and closed queue pairs, status texts.
#include "efanic_fix.h"

#include <string.h>
#include <unistd.h>

static void query__sends(void **state)
{
	static char buf[EFANIC_MTU];
	struct efanic_stats a, b, sum;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 8);
	for (uint32_t len = 1; len <= 3; len++)
		assert_int_equal(send_to(&w.a, w.ab, 1, buf, len * 100), 0);
	settle(&w);
	g_fake.is_remote = true;
	assert_int_equal(send_to(&w.b, w.ba, 1, buf, 50), 0); /* no credit there */
	efanic_qp_query_stats(w.a.qp, &a);
	efanic_qp_query_stats(w.b.qp, &b);
	assert_int_equal(a.send_wrs, 3);
	assert_int_equal(a.send_bytes, 600);
	assert_int_equal(a.tx_pkts, 3);
	assert_int_equal(a.tx_bytes, 600);
	assert_int_equal(a.net.shm_tx_pkts, 3);
	assert_int_equal(a.net.net_tx_pkts, 0);
	assert_int_equal(b.recv_wrs, 3);
	assert_int_equal(b.rx_bytes, 600);
	assert_int_equal(b.rx_pkts, 3);
	assert_int_equal(b.net.shm_tx_pkts, 0);
	assert_int_equal(b.net.net_tx_pkts, 1);
	efanic_query_stats(w.nic, &sum);
	stats_add(&a, &b, sizeof(a));
	assert_memory_equal(&a, &sum, sizeof(sum));
	world_close(&w);
}

static void query__closed_queue_pairs_count(void **state)
{
	struct efanic_stats before, after;
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 8);
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0);
	settle(&w);
	fake_stats(w.a.qp->port)->retrans = 5;
	fake_stats(w.a.qp->port)->timeouts = 3;
	fake_stats(w.a.qp->port)->peers_dead = 2;
	fake_stats(w.a.qp->port)->peers_closed = 7;
	fake_stats(w.a.qp->port)->late_byes = 9;
	efanic_query_stats(w.nic, &before);
	assert_int_equal(before.retrans_pkts, 5);
	assert_int_equal(before.retrans_timeout_events, 3);
	assert_int_equal(before.impaired_remote_conn_events, 2);
	assert_int_equal(before.net.peers_closed, 7);
	assert_int_equal(before.net.net_rx_late_byes, 9);
	assert_int_equal(before.net.net_rx_drops, 0);
	efanic_qp_close(w.a.qp);
	w.a.qp = NULL;
	efanic_query_stats(w.nic, &after);
	before.net.net_tx_dgrams++; /* what closing itself has sent counts */
	assert_memory_equal(&before, &after, sizeof(before));
	world_close(&w);
}

static void query__read_moves_by_exactly_one(void **state)
{
	static char src[200000], dst[200000];
	struct efanic_mr_attr attr = {src, sizeof(src), EFANIC_ACCESS_REMOTE_READ};
	struct efanic_stats stats;
	struct efanic_mr *mr;
	struct world w;
	struct efanic_wr wr = {.opcode = EFANIC_OP_READ, .sge_cnt = 1, .raddr = (uintptr_t)src};

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(efanic_mr_reg(w.nic, &attr, &mr), 0);
	wr.dst = w.ab;
	wr.rkey = efanic_mr_rkey(mr);
	wr.sge[0] = (struct efanic_sge){dst, 196608, EFANIC_LKEY_INTERNAL};
	assert_int_equal(efanic_post_send(w.a.qp, &wr), 0);
	settle(&w);
	efanic_query_stats(w.nic, &stats);
	assert_int_equal(stats.rdma_read_wrs, 1);
	assert_int_equal(stats.rdma_read_bytes, 196608);
	assert_int_equal(stats.rx_bytes, 196608);
	assert_int_equal(stats.rx_pkts, 23);
	assert_int_equal(stats.tx_pkts, 1);
	efanic_mr_dereg(mr);
	world_close(&w);
}

/* The line of a closed adapter: appended to the file that the variable names, every counter in it.
 */
static void report__file(void **state)
{
	char prefix[] = "/tmp/efanic_stats_XXXXXX", path[64], line[2048] = "";
	int fd = mkstemp(prefix);
	struct world w;
	FILE *f;

	assert_true(fd >= 0);
	close(fd);
	snprintf(path, sizeof(path), "%s.%ld", prefix, (long)getpid());
	setenv("SOFTFABRIC_STATS", prefix, 1);
	world_open(&w, NULL);
	pair_open(&w, 8);
	assert_int_equal(send_to(&w.a, w.ab, 1, prefix, 13), 0);
	settle(&w);
	world_close(&w);
	unsetenv("SOFTFABRIC_STATS");
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_null(fgets(line + strlen(line), 2, f));
	fclose(f);
	unlink(path);
	unlink(prefix);
	assert_ptr_equal(strstr(line, "softfabric-stats: adapter="), line);
	assert_non_null(strstr(line, " tx_bytes=13 tx_pkts=1 rx_bytes=13 rx_pkts=1 "));
	assert_non_null(strstr(line, " shm_tx_pkts=1 net_tx_pkts=0 "));
}

static void report__off(void **state)
{
	char path[64];
	struct world w;

	snprintf(path, sizeof(path), ".%ld", (long)getpid());
	setenv("SOFTFABRIC_STATS", "", 1);
	world_open(&w, NULL);
	world_close(&w);
	unsetenv("SOFTFABRIC_STATS");
	assert_int_not_equal(access(path, F_OK), 0);
}

static void status_str__complete(void **state)
{
	for (unsigned s = 0; s < EFANIC_STATUS_NUM; s++) {
		bool gap = s == 16 || s == 17;

		assert_int_equal(!strcmp(efanic_status_str(s), "Unknown status"), gap);
	}
	assert_string_equal(efanic_status_str(EFANIC_STATUS_NUM), "Unknown status");
	assert_string_equal(efanic_status_str(UINT32_MAX), "Unknown status");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(query__sends),
		cmocka_unit_test(query__closed_queue_pairs_count),
		cmocka_unit_test(query__read_moves_by_exactly_one),
		cmocka_unit_test(report__file),
		cmocka_unit_test(report__off),
		cmocka_unit_test(status_str__complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
