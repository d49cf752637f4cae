// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of nic/common/nic_stats.c: what follows from the link's counters, and the line at an adapter's end.
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_link.h"
#include "link/link.h"
#include "nic/common/nic_stats.h"

struct counters {
	uint64_t own;
	struct nic_net_stats net;
};

static const struct stats_row row[sizeof(struct counters) / sizeof(uint64_t)] = {
	{"own", offsetof(struct counters, own)},
	NIC_NET_ROWS("soft_", struct counters, net),
};

static struct lock g_lock;
static struct counters g_cnt;
static unsigned g_told;

static size_t tell(void *ctx, char *buf, size_t len)
{
	lock_assert_held(&g_lock);
	g_told++;
	return stats_line(buf, len, "nic0", row, ARRAY_SIZE(row), ctx);
}

/* A row for each counter, each once, and its name is the member's. */
static void rows__complete(void **state)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		seen |= 1ULL << row[i].off / sizeof(uint64_t);
	assert_int_equal(seen, (1ULL << ARRAY_SIZE(row)) - 1);
	assert_string_equal(row[1].name, "soft_shm_tx_pkts");
	assert_string_equal(row[ARRAY_SIZE(row) - 1].name, "soft_fault_partition");
}

/* Each of the link's counters has its own bit, so that sums show what is in them. */
static void net__from_the_link(void **state)
{
	struct link_stats link = {
		.tx_frames = 1000, .net_tx_frames = 700, .net_tx_dgrams = 1, .net_rx_dgrams = 2,
		.drop_malformed = 1, .drop_nonce = 2, .drop_source = 4, .drop_version = 8, .drop_full = 16,
		.drop_seal = 32, .drop_hello = 64, .drop_quote = 128, .drop_foreign = 256, .drop_gate = 512,
		.fault_drop = 11, .fault_dup = 12, .fault_reorder = 13, .fault_delay = 14, .fault_corrupt = 15,
		.fault_truncate = 16, .fault_partition = 17,
	};
	struct nic_net_stats s;

	nic_net_stats(&link, &s);
	assert_int_equal(s.shm_tx_pkts, 300);
	assert_int_equal(s.net_tx_pkts, 700);
	assert_int_equal(s.net_tx_dgrams, 1);
	assert_int_equal(s.net_rx_dgrams, 2);
	assert_int_equal(s.net_rx_drops, 127);
	assert_int_equal(s.fault_drop, 11);
	assert_int_equal(s.fault_dup, 12);
	assert_int_equal(s.fault_reorder, 13);
	assert_int_equal(s.fault_delay, 14);
	assert_int_equal(s.fault_corrupt, 15);
	assert_int_equal(s.fault_truncate, 16);
	assert_int_equal(s.fault_partition, 17);
}

static void end__one_line_where_it_is_wanted(void **state)
{
	char prefix[] = "/tmp/sf_nic_stats_XXXXXX", path[64], line[STATS_LINE_MAX] = "";
	struct link_node_attr attr = {.lock = &g_lock};
	int fd = mkstemp(prefix);
	struct link_node *node;
	FILE *f;

	assert_true(fd >= 0);
	close(fd);
	unlink(prefix);
	snprintf(path, sizeof(path), "%s.%ld", prefix, (long)getpid());
	assert_int_equal(link_node_open(&attr, &node), 0);
	g_cnt.own = 5;
	g_cnt.net.fault_dup = 6;
	unsetenv("SOFTFABRIC_STATS");
	nic_stats_end(node, &g_lock, tell, &g_cnt);
	assert_int_not_equal(access(path, F_OK), 0);
	setenv("SOFTFABRIC_STATS", prefix, 1);
	g_told = 0;
	nic_stats_end(node, &g_lock, tell, &g_cnt);
	unsetenv("SOFTFABRIC_STATS");
	assert_int_equal(g_told, 1);
	f = fopen(path, "r");
	assert_non_null(f);
	unlink(path);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_null(fgets(line + strlen(line), 2, f));
	fclose(f);
	assert_ptr_equal(strstr(line, "softfabric-stats: adapter=nic0 pid="), line);
	assert_non_null(strstr(line, " own=5 soft_shm_tx_pkts=0 "));
	assert_non_null(strstr(line, " soft_fault_dup=6 "));
	link_node_close(node);
}

/* The lock may be held for ever there. */
static void end__not_in_a_child(void **state)
{
	struct link_node_attr attr = {.lock = &g_lock};
	struct link_node *node;

	assert_int_equal(link_node_open(&attr, &node), 0);
	g_told = 0;
	g_fake.is_forked = true;
	nic_stats_end(node, &g_lock, tell, &g_cnt);
	g_fake.is_forked = false;
	assert_int_equal(g_told, 0);
	link_node_close(node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows__complete),
		cmocka_unit_test(net__from_the_link),
		cmocka_unit_test(end__one_line_where_it_is_wanted),
		cmocka_unit_test(end__not_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
