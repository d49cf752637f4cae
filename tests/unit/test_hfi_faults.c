// SPDX-License-Identifier: BSD-2-Clause
// Soft HFI1 in a room with faults: packets of this host take the network's way and its risks; and processes that are
// killed.
#include "hfi_pair.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PKTS 2000

static void body_faults(void)
{
	struct side *a = &g_w.a, *b = &g_w.b;
	uint8_t data[200];
	static bool seen[PKTS];
	uint32_t distinct = 0;

	memset(seen, 0, sizeof(seen));
	for (uint32_t i = 0; i < PKTS; i++) {
		fill(data, sizeof(data), i);
		assert_int_equal(send_pkt(a, i, data, sizeof(data)), 0);
		turn();
	}
	settle();
	assert_false(hfi_dst_is_local(a->dst));
	assert_in_range(b->got_cnt, PKTS / 2, PKTS * 2);
	for (uint32_t i = 0; i < b->got_cnt; i++) {
		uint32_t psn = hfi_hdr_psn(&b->got[i].hdr);

		assert_in_range(psn, 0, PKTS - 1);
		fill(data, sizeof(data), psn);
		assert_memory_equal(b->got[i].data, data, sizeof(data)); /* corrupt datagrams are not shown */
		distinct += !seen[psn];
		seen[psn] = true;
	}
	assert_in_range(distinct, PKTS / 2, PKTS - 1);
	assert_true(stats_of(a).net.fault_drop && stats_of(a).net.fault_corrupt);
}

static void faults__shm_datagrams(void **state)
{
	pair_open(PATH_SHM);
	body_faults();
	pair_close();
}

static void faults__udp(void **state)
{
	pair_open(PATH_UDP);
	body_faults();
	pair_close();
}

/* --- killed -------------------------------------------------------------------------------------- */

static struct {
	_Atomic uint32_t lid, ctxt;
} *board;

/* Opens a context, tells where, and answers what comes until it is killed. */
static void child(enum path path)
{
	struct hfi_open_attr attr = {.unit = 1, .no_thread = true, .no_shm = path == PATH_UDP};
	struct side *s = &g_w.b;
	struct hfi_hdr h;

	memset(s, 0, sizeof(*s));
	attr.lock = &s->lock;
	s->got = calloc(GOT_MAX, sizeof(*s->got));
	if (hfi_open(&attr, &s->hfi))
		_exit(1);
	lock_acquire(&s->lock);
	if (side_ctxt_open(s, -1))
		_exit(2);
	board->ctxt = hfi_ctxt_info(s->c)->ctxt;
	board->lid = hfi_ctxt_info(s->c)->lid;
	for (;;) {
		uint32_t before = s->got_cnt;

		if (!hfi_ctxt_poll(s->c))
			usleep(100);
		if (s->got_cnt == before)
			continue;
		hfi_dst_hdr(s->got[before % GOT_MAX].src, &h);
		hfi_pio_send(s->c, s->got[before % GOT_MAX].src, &h, NULL, 0);
		hfi_doorbell(s->c);
	}
}

static void alone_turn(struct side *a, uint64_t until_ns)
{
	assert_true(hfi_now_ns(a->hfi) < until_ns);
	if (!hfi_ctxt_poll(a->c))
		usleep(100);
}

static void killed(enum path path)
{
	struct side *a = &g_w.a;
	uint64_t until_ns;
	uint32_t sent = 0;
	pid_t pid;

	pair_open(path);
	hfi_dst_put(a->dst);
	a->dst = NULL;
	board->lid = 0;
	pid = unit_fork();
	if (!pid)
		child(path);
	until_ns = hfi_now_ns(a->hfi) + REAL_NS * unit_slow();
	while (!board->lid)
		alone_turn(a, until_ns);
	assert_int_equal(hfi_dst_get(a->c, (uint16_t)board->lid, (uint8_t)board->ctxt, &a->dst), 0);
	while (!a->got_cnt) { /* what is lost is sent again */
		struct hfi_hdr h = hdr_to(a, sent++);

		assert_int_equal(hfi_pio_send(a->c, a->dst, &h, NULL, 0), 0);
		hfi_doorbell(a->c);
		for (int i = 0; i < 100 && !a->got_cnt; i++)
			alone_turn(a, until_ns);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	while (!a->gone_cnt) {
		struct hfi_hdr h = hdr_to(a, sent++);

		hfi_pio_send(a->c, a->dst, &h, NULL, 0);
		hfi_doorbell(a->c);
		alone_turn(a, until_ns);
	}
	assert_int_equal(a->gone_status, -ECONNREFUSED);
	pair_close();
}

static void killed__shm(void **state)
{
	killed(PATH_SHM);
}

static void killed__udp(void **state)
{
	killed(PATH_UDP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults__shm_datagrams),
		cmocka_unit_test(faults__udp),
		cmocka_unit_test(killed__shm),
		cmocka_unit_test(killed__udp),
	};

	pair_env();
	setenv("SOFTFABRIC_NET", "shm,udp;loss=3%;dup=2%;reorder=3%;corrupt=1%;seed=7;linger=200ms", 1);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return 99;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
