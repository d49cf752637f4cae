// SPDX-License-Identifier: BSD-2-Clause
// Messages that nobody remembers, when their peer does not take them: longer than a command holds, between two
// endpoints of this process.
#include "cxi_fix.h"

#include <pthread.h>

#include "base/mem.h"
#include "prov/cxi/cxi_rxc.h"

#define LEN_MAX 18000

struct world {
	struct cxi_fix f;
	struct cxi_fix_ep a, b;
	fi_addr_t to; /* b, as a knows it */
	uint8_t out[LEN_MAX], in[LEN_MAX];
};

static struct cxi_ep *ep_of(const struct cxi_fix_ep *e)
{
	return cxi_ep_of(e->ep);
}

/* Both have their turns until @sent and @received completions have come. */
static void turn(struct world *w, int sent, int received)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;

	do {
		sent -= fi_cq_read(w->a.cq, &entry, sent > 0) == 1;
		received -= fi_cq_read(w->b.cq, &entry, received > 0) == 1;
		assert_true(clk_now_ns(NULL) < until);
	} while (sent || received);
}

static struct lock *world_lock(const struct world *w)
{
	return &cxi_fix_domain(&w->f)->kit.lock;
}

/* Failures that were told at a. The lock here and below: the adapter's thread changes that, too. */
static int told(struct world *w)
{
	int cnt;

	lock_acquire(world_lock(w));
	cnt = (int)ep_of(&w->a)->kit.late_cnt;
	lock_release(world_lock(w));
	return cnt;
}

static bool is_keeping(struct world *w, bool also_fc)
{
	const struct cxi_txc *txc = ep_of(&w->a)->txc;
	bool is_so;

	lock_acquire(world_lock(w));
	is_so = txc->used || (also_fc && txc->fc);
	lock_release(world_lock(w));
	return is_so;
}

/* Both have their turns until nothing of a's is kept any more. */
static void settle(struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;

	while (is_keeping(w, true)) {
		turn(w, 0, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
}

static void fill(uint8_t *to, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (uint8_t)(i * 7 + i / 256 + seed);
}

/* It completes at once, and its memory is the caller's again. @is_kept: perhaps not, the peer may have refused some. */
static void send_one(struct world *w, size_t len, unsigned seed, bool is_kept)
{
	ssize_t ret;

	fill(w->out, len, seed);
	while ((ret = fi_tsend(w->a.ep, w->out, len, NULL, w->to, seed, NULL)) == -FI_EAGAIN)
		turn(w, 0, 0);
	assert_int_equal(ret, 0);
	assert_true(is_kept || !is_keeping(w, false));
	turn(w, 1, 0);
	memset(w->out, 0, len);
}

static void world_open(struct world *w)
{
	struct cxi_addr name;
	size_t len = sizeof(name);

	cxi_fix_open(&w->f);
	cxi_fix_ep_open(&w->a, &w->f);
	cxi_fix_ep_open(&w->b, &w->f);
	assert_int_equal(fi_getname(&w->b.ep->fid, &name, &len), 0);
	assert_int_equal(fi_av_insert(w->a.av, &name, 1, &w->to, 0, NULL), 1);
	/* the first one waits for its answer; then b is known to be there */
	assert_int_equal(fi_trecv(w->b.ep, w->in, 1, NULL, FI_ADDR_UNSPEC, 0, 0, NULL), 0);
	assert_int_equal(fi_tsend(w->a.ep, w->out, 1, NULL, w->to, 0, NULL), 0);
	turn(w, 1, 1);
}

static void world_close(struct world *w)
{
	cxi_fix_ep_close(&w->a);
	if (w->b.ep)
		cxi_fix_ep_close(&w->b);
	cxi_fix_close(&w->f);
}

/* From here on b refuses what comes, until it polls and opens its entry again. */
static void refuse(struct world *w)
{
	struct lock *lock = world_lock(w);

	lock_acquire(lock);
	assert_int_equal(cassini_set_state(ep_of(&w->b)->rxc->pte, CASSINI_PTE_DISABLED, 0), 0);
	lock_release(lock);
}

static const size_t lens[] = {8, 1024, 192, 193, 4096, LEN_MAX, 0, 300};
#define CNT ((int)ARRAY_SIZE(lens))

static uint8_t g_got[CNT][LEN_MAX];

/* Of any tag: in the order of their arrival. */
static void receives_post(struct world *w)
{
	memset(g_got, 0, sizeof(g_got));
	for (int i = 0; i < CNT; i++)
		assert_int_equal(fi_trecv(w->b.ep, g_got[i], LEN_MAX, NULL, FI_ADDR_UNSPEC, 0, ~0ULL >> 16, NULL), 0);
}

static void all_came(struct world *w)
{
	for (int i = 0; i < CNT; i++) {
		fill(w->out, lens[i], (unsigned)i);
		assert_memory_equal(g_got[i], w->out, lens[i]);
	}
}

static void flood(struct world *w, bool is_refused)
{
	if (is_refused)
		refuse(w);
	receives_post(w);
	for (int i = 0; i < CNT; i++)
		send_one(w, lens[i], (unsigned)i, is_refused);
	turn(w, 0, CNT);
	all_came(w);
	assert_int_equal(told(w), 0);
	settle(w);
}

/* Of no length is anything kept, or a place in the queue taken. */
static void taken__nothing_is_kept(void **state)
{
	struct world w;

	(void)state;
	world_open(&w);
	flood(&w, false);
	world_close(&w);
}

/* More than is made when it is first needed, and stays: seven objects of queues, tables and flow control. */
#define STAYS 8

/*
 * They come back, are kept, and go again in their order; what kept them is freed. The adapter's thread may have opened
 * the entry before a message came, so one round tells little of what a round leaves; what each of 16 leaves is more
 * than stays.
 */
static void refused__sent_again_in_order(void **state)
{
	uint64_t until;
	struct world w;
	int64_t live;

	(void)state;
	world_open(&w);
	live = mem_live_count() + STAYS;
	for (int i = 0; i < 2 * STAYS; i++)
		flood(&w, true);
	until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	while (mem_live_count() > live && clk_now_ns(NULL) < until) /* answers may be on their way */
		turn(&w, 0, 0);
	assert_in_range(mem_live_count(), 0, live);
	world_close(&w);
}

/* b's program, while a's is in fi_close(). */
static void *late_reader(void *arg)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	struct world *w = arg;
	int left = CNT;

	while (left && clk_now_ns(NULL) < until)
		left -= fi_cq_read(w->b.cq, &entry, 1) == 1;
	return (void *)(intptr_t)left;
}

/*
 * They had completed, so they arrive, though their endpoint closes before it has heard that they were refused, or just
 * after that: the adapter's thread may be fast.
 */
static void refused__and_closed(void **state)
{
	pthread_t reader;
	struct world w;
	void *left;

	(void)state;
	world_open(&w);
	refuse(&w);
	receives_post(&w);
	for (int i = 0; i < CNT; i++) {
		ssize_t ret;

		fill(w.out, lens[i], (unsigned)i);
		while ((ret = fi_tsend(w.a.ep, w.out, lens[i], NULL, w.to, (uint64_t)i, NULL)) == -FI_EAGAIN)
			turn(&w, 0, 0);
		assert_int_equal(ret, 0);
	}
	assert_int_equal(pthread_create(&reader, NULL, late_reader, &w), 0);
	cxi_fix_ep_close(&w.a);
	assert_int_equal(pthread_join(reader, &left), 0);
	assert_int_equal((intptr_t)left, 0);
	all_came(&w);
	cxi_fix_ep_close(&w.b);
	cxi_fix_close(&w.f);
}

/* A message of @len bytes of w->out, as the adapter gives it back. */
static void come_back(struct world *w, uint32_t len, uint8_t rc)
{
	const struct cxi_ep *b = ep_of(&w->b);
	struct cassini_cmd cmd = {
		.opcode = CASSINI_OP_PUT,
		.nic = b->domain->info.nic,
		.pid = b->portal->pid,
		.request_len = len,
		.dom = ep_of(&w->a)->portal->dom[0],
		.local_addr = w->out,
		.match_bits = CXI_MB_TAGGED | 5,
		.user_ptr = 1,
	};

	cxi_send_lost(ep_of(&w->a)->txc, &cmd, rc);
}

/*
 * There is no memory to keep a refused one: it has failed, which is told. Its peer hears of it all the same, and takes
 * the next one.
 */
static void refused__without_memory(void **state)
{
	struct lock *lock;
	struct cxi_ep *a;
	struct world w;

	(void)state;
	world_open(&w);
	a = ep_of(&w.a);
	lock = world_lock(&w);
	lock_acquire(lock);
	mem_fail_nth(1);
	come_back(&w, 4096, CASSINI_RC_PT_DISABLED);
	mem_fail_nth(0);
	assert_int_equal(a->kit.late_cnt, 1);
	assert_int_equal(a->kit.late_errno, CASSINI_RC_PT_DISABLED);
	assert_int_equal(a->txc->used, 0);
	assert_non_null(a->txc->fc);
	a->kit.late_cnt = 0;
	lock_release(lock);
	settle(&w);
	flood(&w, false);
	world_close(&w);
}

/*
 * One of each length that can be seen where it arrives, and b closes at once: its adapter takes some of them or none.
 * @came: how many b has got. Return: how many were sent.
 */
static int sent_and_closed(struct world *w, int *came)
{
	int sent = 0;
	ssize_t ret;

	receives_post(w);
	for (int i = 0; i < CNT; i++) {
		if (!lens[i])
			continue;
		fill(w->out, lens[i], (unsigned)i);
		while ((ret = fi_tsend(w->a.ep, w->out, lens[i], NULL, w->to, 0, NULL)) == -FI_EAGAIN)
			fi_cq_read(w->a.cq, NULL, 0);
		assert_int_equal(ret, 0);
		sent++;
	}
	cxi_fix_ep_close(&w->b);
	w->b.ep = NULL;
	for (int i = 0, at = 0; i < CNT; i++) {
		if (!lens[i])
			continue;
		fill(w->out, lens[i], (unsigned)i);
		*came += !memcmp(g_got[at++], w->out, lens[i]);
	}
	return sent;
}

/* The peer has ended: nothing is kept, and each message has arrived or its failure is told. */
static void peer_gone__told(void **state)
{
	struct lock *lock;
	struct cxi_ep *a;
	int sent, came = 0;
	uint64_t until;
	struct world w;
	int64_t live;

	(void)state;
	world_open(&w);
	a = ep_of(&w.a);
	lock = world_lock(&w);
	lock_acquire(lock);
	live = mem_live_count();
	for (uint32_t i = 1; i <= 3; i++) {
		come_back(&w, LEN_MAX, CASSINI_RC_UNDELIVERABLE);
		assert_int_equal(a->kit.late_cnt, i);
	}
	assert_int_equal(a->kit.late_errno, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(a->txc->used, 0);
	assert_int_equal(mem_live_count(), live);
	a->kit.late_cnt = 0;
	lock_release(lock);
	sent = sent_and_closed(&w, &came);
	until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	while (came + told(&w) < sent && clk_now_ns(NULL) < until)
		fi_cq_read(w.a.cq, NULL, 0);
	assert_int_equal(came + told(&w), sent);
	lock_acquire(lock);
	/* its port had closed, or only its portal */
	if (a->kit.late_cnt && a->kit.late_errno != CASSINI_RC_UNDELIVERABLE)
		assert_int_equal(a->kit.late_errno, CASSINI_RC_PTLTE_NOT_FOUND);
	assert_int_equal(a->txc->used, 0);
	lock_release(lock);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(taken__nothing_is_kept),
		cmocka_unit_test(refused__sent_again_in_order),
		cmocka_unit_test(refused__and_closed),
		cmocka_unit_test(refused__without_memory),
		cmocka_unit_test(peer_gone__told),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
