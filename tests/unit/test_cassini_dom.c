// SPDX-License-Identifier: BSD-2-Clause
// Domains over the real link and over the simulated network: PIDs, doors, answers, the watch. The target is a stand-in.
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cassini_notgt.h"
#include "nic/cassini/cassini_tgt.h"
#include "sim.h"

#define DEADLINE_NS (20 * NS_PER_SEC)
#define VNI	    10

static char g_log[2048]; /* the last warning */

/* NIC addresses of the two adapters: this process's own, so that runs beside it do not take its ports. */
static uint32_t g_nic1, g_nic2;

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func;
	(void)line;
	if (lvl == LOG_LVL_WARN)
		snprintf(g_log, sizeof(g_log), "%s", msg);
}

/* --- the world: two adapters, one lock; with or without a simulated network --- */

struct world {
	struct lock lock;
	struct sim *sim;
	struct cassini *nic[2];
	struct cassini_lni *lni[2];
	struct cassini_dom *a, *b, *c;
	struct cassini_cp *cp;
	struct cassini_cmdq *cq;
	struct cassini_eq *eq;
	int64_t live;
	bool no_shm;
};

static void world_open(struct world *w, bool is_sim)
{
	const struct sim_attr sim = {.seed = 1};

	memset(w, 0, sizeof(*w));
	memset(&g_tgt, 0, sizeof(g_tgt));
	g_log[0] = '\0';
	setenv("SOFTFABRIC_CXI", "nics=2", 1);
	w->live = mem_live_count();
	assert_true(!is_sim || !sim_world_open(&sim, &w->sim));
	for (int i = 0; i < 2; i++) {
		struct cassini_open_attr attr = {.dev_idx = i, .lock = &w->lock, .no_thread = true,
						 .world = sim_world(w->sim)};

		assert_int_equal(cassini_open(&attr, &w->nic[i]), 0);
	}
	lock_acquire(&w->lock);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cassini_lni_open(w->nic[i], 1, &w->lni[i]), 0);
}

static int dom_open(struct world *w, int nic, uint16_t vni, uint16_t pid, struct cassini_dom **out)
{
	struct cassini_dom_attr attr = {.vni = vni, .pid = pid, .no_shm = w->no_shm};

	return cassini_dom_open(w->lni[nic], &attr, out);
}

static void pair_open(struct world *w)
{
	assert_int_equal(dom_open(w, 0, VNI, 3, &w->a), 0);
	assert_int_equal(dom_open(w, 1, VNI, 4, &w->b), 0);
}

/* A queue of a's adapter, for real commands. */
static void queue_open(struct world *w)
{
	struct cassini_cmdq_attr attr = {.depth = 64};

	assert_int_equal(cassini_cp_open(w->lni[0], VNI, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &w->cp), 0);
	attr.cp = w->cp;
	assert_int_equal(cassini_cmdq_open(w->lni[0], &attr, &w->cq), 0);
	assert_int_equal(cassini_eq_open(w->lni[0], 64, 0, &w->eq), 0);
}

static void world_close(struct world *w)
{
	cassini_dom_close(w->a);
	cassini_dom_close(w->b);
	cassini_dom_close(w->c);
	cassini_cmdq_close(w->cq);
	cassini_eq_close(w->eq);
	cassini_cp_close(w->cp);
	for (int i = 0; i < 2; i++) {
		cassini_lni_close(w->lni[i]);
		lock_release(&w->lock);
		cassini_close(w->nic[i]);
		lock_acquire(&w->lock);
	}
	lock_release(&w->lock);
	sim_world_close(w->sim);
	assert_int_equal(mem_live_count(), w->live);
}

/* Set-ups of tests: over the simulated network or the real one, with the two Domains, with the queue of the first. */
static int world_setup(void **state, bool is_sim, bool has_pair, bool has_queue)
{
	static struct world w;

	world_open(&w, is_sim);
	if (has_pair)
		pair_open(&w);
	if (has_queue)
		queue_open(&w);
	*state = &w;
	return 0;
}

static int open_sim(void **state) { return world_setup(state, true, false, false); }
static int open_sim_pair(void **state) { return world_setup(state, true, true, false); }
static int open_sim_queue(void **state) { return world_setup(state, true, true, true); }
static int open_real(void **state) { return world_setup(state, false, false, false); }
static int open_real_pair(void **state) { return world_setup(state, false, true, false); }
static int open_real_queue(void **state) { return world_setup(state, false, true, true); }

static int teardown(void **state)
{
	world_close(*state);
	return 0;
}

/* One round of everybody. */
static int turn(struct world *w)
{
	struct cassini_dom *dom[] = {w->a, w->b, w->c};
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(dom); i++)
		n += dom[i] ? cassini_dom_poll(dom[i]) : 0;
	if (w->sim && !n)
		sim_step(w->sim, link_now_ns(w->nic[0]->node) + NS_PER_MS);
	return n;
}

/* Until @cond_; virtual or real time, whichever runs, is bounded. */
#define UNTIL(w_, cond_)                                                                  \
	do {                                                                              \
		uint64_t end_ = link_now_ns((w_)->nic[0]->node) + 4 * DEADLINE_NS;        \
		while (!(cond_)) {                                                        \
			turn(w_);                                                         \
			if (link_now_ns((w_)->nic[0]->node) > end_)                       \
				fail_msg("never became true: %s", #cond_);                \
		}                                                                         \
	} while (0)

/* A frame with a witness of its end. */
struct probe {
	struct cassini_work work;
	bool is_over;
	int status;
	uint8_t frame[CASSINI_ENCODE_MAX + 64];
};

static void probe_end(struct cassini_work *work, int status)
{
	struct probe *p = container_of(work, struct probe, work);

	assert_false(p->is_over);
	p->is_over = true;
	p->status = status;
}

/* @len bytes of p->frame from @dom to (@nic, @pid); their status. */
static int frame_send(struct world *w, struct cassini_dom *dom, uint32_t nic, uint16_t pid, struct probe *p, size_t len)
{
	struct cassini_peer *peer;

	p->work = (struct cassini_work){probe_end, NULL};
	p->is_over = false;
	assert_int_equal(cassini_peer_get(dom, nic, pid, &peer), 0);
	assert_int_equal(cassini_send_whole(peer, p->frame, len, p), 0);
	link_doorbell(dom->port);
	UNTIL(w, p->is_over);
	return p->status;
}

static struct cassini_pkt_in pkt_of(const struct cassini_dom *from, uint16_t pid, unsigned op)
{
	return (struct cassini_pkt_in){.op = (uint8_t)op, .vni = from->vni, .pid = pid, .initiator = from->match_id};
}

static int pkt_send(struct world *w, struct cassini_dom *dom, uint32_t nic, uint16_t pid,
		    const struct cassini_pkt_in *pkt, size_t payload_len)
{
	struct probe p;
	size_t len = cassini_pkt_encode(pkt, p.frame);

	memset(p.frame + len, 0x77, payload_len);
	return frame_send(w, dom, nic, pid, &p, len + payload_len);
}

/* --- PIDs --- */

static void pid__any_and_clash(void **state)
{
	struct world *w = *state;
	struct cassini_dom *dom[4];
	char pid[32];

	assert_int_equal(dom_open(w, 0, VNI, 1, &dom[0]), 0);
	assert_int_equal(dom_open(w, 0, VNI, CASSINI_PID_ANY, &dom[1]), 0);
	assert_int_equal(cassini_dom_pid(dom[1]), 0);
	assert_int_equal(dom_open(w, 0, VNI, CASSINI_PID_ANY, &dom[2]), 0);
	assert_int_equal(cassini_dom_pid(dom[2]), 2);
	assert_int_equal(cassini_dom_vni(dom[2]), VNI);
	assert_string_equal(g_log, ""); /* looking for a free one is nobody's business */
	assert_int_equal(dom_open(w, 1, VNI, 1, &dom[3]), 0); /* another NIC */
	cassini_dom_close(dom[3]);
	assert_int_equal(dom_open(w, 0, VNI, 1, &dom[3]), -EADDRINUSE);
	snprintf(pid, sizeof(pid), "process %d ", (int)getpid());
	assert_non_null(strstr(g_log, pid));
	assert_non_null(strstr(g_log, "PID 1 of VNI 10"));
	cassini_dom_close(dom[1]);
	assert_int_equal(dom_open(w, 0, VNI, CASSINI_PID_ANY, &dom[1]), 0);
	assert_int_equal(cassini_dom_pid(dom[1]), 0); /* the lowest again */
	assert_int_equal(dom_open(w, 0, VNI, 512, &dom[3]), -EINVAL);
	assert_int_equal(dom_open(w, 0, 0, 5, &dom[3]), -EACCES);
	for (int i = 0; i < 3; i++)
		cassini_dom_close(dom[i]);
}

/* The search begins where the opener says and comes round. */
static void pid__any_goes_round(void **state)
{
	static const unsigned pid[3] = {509, 510, 0};
	struct cassini_dom_attr attr = {.vni = VNI, .pid = CASSINI_PID_ANY, .first = CASSINI_PID_CNT * 7 + 509};
	struct world *w = *state;
	struct cassini_dom *dom[3];

	for (int i = 0; i < 3; i++) {
		assert_int_equal(cassini_dom_open(w->lni[0], &attr, &dom[i]), 0);
		assert_int_equal(cassini_dom_pid(dom[i]), pid[i]);
	}
	for (int i = 0; i < 3; i++)
		cassini_dom_close(dom[i]);
}

static void pid__clash_names_the_process(void **state)
{
	int up[2], down[2], rc;
	char byte = 0, pid[32];
	struct world w;
	pid_t child;

	(void)state;
	assert_false(pipe(up) || pipe(down));
	child = unit_fork();
	assert_true(child >= 0);
	if (!child) {
		world_open(&w, false);
		rc = dom_open(&w, 0, VNI, 9, &w.a);
		byte = (char)rc;
		if (write(up[1], &byte, 1) != 1 || read(down[0], &byte, 1) != 1)
			_exit(2);
		cassini_dom_close(w.a);
		_exit(rc != 0);
	}
	assert_true(read(up[0], &byte, 1) == 1 && !byte);
	world_open(&w, false);
	assert_int_equal(dom_open(&w, 0, VNI, 9, &w.a), -EADDRINUSE);
	w.a = NULL;
	snprintf(pid, sizeof(pid), "process %d ", (int)child);
	assert_non_null(strstr(g_log, pid));
	assert_true(write(down[1], &byte, 1) == 1 && waitpid(child, &rc, 0) == child && !rc);
	assert_int_equal(dom_open(&w, 0, VNI, 9, &w.a), 0);
	world_close(&w);
	for (int i = 0; i < 2; i++) {
		close(up[i]);
		close(down[i]);
	}
}

static void pid__none_left(void **state)
{
	struct world *w = *state;
	struct cassini_dom *dom[CASSINI_PID_CNT], *more;

	for (unsigned i = 0; i < CASSINI_PID_CNT; i++) {
		assert_int_equal(dom_open(w, 0, VNI, CASSINI_PID_ANY, &dom[i]), 0);
		assert_int_equal(cassini_dom_pid(dom[i]), i);
	}
	assert_int_equal(dom_open(w, 0, VNI, CASSINI_PID_ANY, &more), -ENOSPC);
	assert_int_equal(dom_open(w, 0, VNI + 24, CASSINI_PID_ANY, &more), -ENOSPC); /* the same ports */
	assert_int_equal(dom_open(w, 0, VNI + 1, CASSINI_PID_ANY, &more), 0);
	cassini_dom_close(more);
	for (unsigned i = 0; i < CASSINI_PID_CNT; i++)
		cassini_dom_close(dom[i]);
}

static void open__every_allocation_fails(void **state)
{
	struct world *w = *state;
	int rc = -ENOMEM;

	for (uint64_t n = 1; rc; n++) {
		mem_fail_nth(n);
		rc = dom_open(w, 0, VNI, 3, &w->a);
		assert_true((rc == 0 || rc == -ENOMEM) && n < 100);
	}
	mem_fail_nth(0);
	cassini_dom_close(NULL);
}

/* --- frames and doors --- */

/* Everything that can come, over one kind of path. */
static void frames_try(struct world *w)
{
	struct cassini_pkt_in pkt;
	struct cassini_stats stats;
	struct cassini_peer *peer;

	pair_open(w);
	pkt = pkt_of(w->a, 4, CASSINI_PKT_PING);
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), 0);
	assert_int_equal(g_tgt.frames, 0);
	pkt = pkt_of(w->a, 4, CASSINI_PKT_PUT);
	pkt.pid_idx = 200;
	pkt.request_len = 33;
	pkt.match_bits = 0x1234567890;
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 33), 0);
	assert_int_equal(g_tgt.frames, 1);
	assert_ptr_equal(g_tgt.dom, w->b);
	assert_int_equal(g_tgt.peer->nic, g_nic1);
	assert_int_equal(g_tgt.peer->pid, 3);
	assert_int_equal(g_tgt.pkt.pid_idx, 200);
	assert_int_equal(g_tgt.pkt.match_bits, 0x1234567890);
	assert_int_equal(g_tgt.payload_len, 33);
	assert_int_equal(g_tgt.payload[32], 0x77);
	g_tgt.verdict = CASSINI_VERDICT_LIST + CASSINI_OVERFLOW;
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 33), CASSINI_VERDICT_LIST + CASSINI_OVERFLOW);
	g_tgt.verdict = CASSINI_RC_PT_DISABLED;
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 33), CASSINI_RC_PT_DISABLED);
	/* back, to a place that has been heard of */
	pkt = pkt_of(w->b, 3, CASSINI_PKT_RGET_DONE);
	assert_int_equal(pkt_send(w, w->b, g_nic1, 3, &pkt, 0), 0);
	assert_int_equal(g_tgt.dones, 1);
	assert_ptr_equal(g_tgt.dom, w->a);
	assert_int_equal(g_tgt.peer->pid, 4);
	/* a reply that nobody waits for */
	assert_int_equal(cassini_peer_get(w->b, g_nic1, 3, &peer), 0);
	pkt = (struct cassini_pkt_in){.op = CASSINI_PKT_REPLY, .vni = VNI, .pid = 3, .handle = 77, .rc = CASSINI_RC_OK};
	assert_int_equal(cassini_answer(w->b, peer, &pkt, NULL, 0), 0);
	UNTIL(w, w->nic[0]->stats.malformed == 1 && !w->b->answers_out);
	cassini_query_stats(w->nic[0], &stats);
	assert_int_equal(stats.net.shm_tx_pkts + stats.net.net_tx_pkts, 4);
	assert_int_equal(stats.bad_initiator + stats.vni_not_found, 0);
	/* our own place is one like others */
	pkt = pkt_of(w->a, 3, CASSINI_PKT_PING);
	assert_int_equal(pkt_send(w, w->a, g_nic1, 3, &pkt, 0), 0);
}

static void frames__shm(void **state)
{
	struct world *w = *state;
	struct cassini_stats stats;

	frames_try(w);
	cassini_query_stats(w->nic[0], &stats);
	assert_int_equal(stats.net.net_tx_pkts, 0);
}

static void frames__udp(void **state)
{
	struct world *w = *state;
	struct cassini_stats stats;

	w->no_shm = true;
	frames_try(w);
	cassini_query_stats(w->nic[0], &stats);
	assert_int_equal(stats.net.shm_tx_pkts, 0);
}

static void frames__sim(void **state)
{
	struct world *w = *state;

	frames_try(w);
}

static void door__another_vni(void **state)
{
	struct world *w = *state;
	struct cassini_pkt_in pkt;

	assert_int_equal(dom_open(w, 0, 1, 3, &w->a), 0);
	assert_int_equal(dom_open(w, 1, 25, 4, &w->b), 0); /* has the UDP port that (VNI 1, PID 4) would have */
	pkt = pkt_of(w->a, 4, CASSINI_PKT_PUT);
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), CASSINI_RC_VNI_NOT_FOUND);
	assert_int_equal(w->nic[1]->stats.vni_not_found, 1);
	assert_int_equal(g_tgt.frames, 0);
	/* a frame that claims the VNI of the other side, from a port that belongs to it */
	pkt.vni = 25;
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), 0);
	/* a port of a VNI that shares nothing */
	assert_int_equal(dom_open(w, 1, 2, 3, &w->c), 0);
	pkt = pkt_of(w->c, 4, CASSINI_PKT_PUT);
	pkt.vni = 25;
	w->c->vni = 25; /* what a hostile adapter would do: speak to ports of another VNI */
	assert_int_equal(pkt_send(w, w->c, g_nic2, 4, &pkt, 0), CASSINI_RC_PERM_VIOLATION);
	assert_int_equal(w->nic[1]->stats.bad_initiator, 1);
}

static void door__bad_initiator(void **state)
{
	struct world *w = *state;
	struct cassini_pkt_in pkt;
	const uint32_t lies[] = {
		CASSINI_MATCH_ID(3, g_nic2), /* another NIC */
		CASSINI_MATCH_ID(4, g_nic1), /* another PID */
		CASSINI_MATCH_ID(0, 0),
	};

	pkt = pkt_of(w->a, 4, CASSINI_PKT_PUT);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		pkt.initiator = lies[i];
		assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), CASSINI_RC_PERM_VIOLATION);
		assert_int_equal(w->nic[1]->stats.bad_initiator, i + 1);
	}
	assert_int_equal(g_tgt.frames, 0);
	pkt.initiator = w->a->match_id;
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), 0);
	assert_int_equal(g_tgt.frames, 1);
}

static void door__malformed(void **state)
{
	struct world *w = *state;
	struct cassini_pkt_in pkt;
	struct probe p;
	size_t len;

	pkt = pkt_of(w->a, 4, CASSINI_PKT_PUT);
	len = cassini_pkt_encode(&pkt, p.frame);
	p.frame[3] = 1;
	assert_int_equal(frame_send(w, w->a, g_nic2, 4, &p, len), CASSINI_RC_ILLEGAL_OP);
	assert_int_equal(frame_send(w, w->a, g_nic2, 4, &p, 3), CASSINI_RC_ILLEGAL_OP);
	assert_int_equal(w->nic[1]->stats.malformed, 2);
	pkt.pid = 5; /* arrived at PID 4 */
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), CASSINI_RC_INVALID_ENDPOINT);
	assert_int_equal(w->nic[1]->stats.malformed, 3);
	assert_int_equal(g_tgt.frames, 0);
}

static void peer__nobody_there(void **state)
{
	struct world *w = *state;
	struct cassini_pkt_in pkt;
	struct cassini_peer *peer;

	assert_int_equal(dom_open(w, 0, VNI, 3, &w->a), 0);
	pkt = pkt_of(w->a, 4, CASSINI_PKT_PING);
	assert_int_equal(pkt_send(w, w->a, g_nic2, 4, &pkt, 0), -ECONNREFUSED);
	assert_int_equal(cassini_peer_get(w->a, 0x200000, 4, &peer), -ENETUNREACH);
}

static void peer__table_grows(void **state)
{
	struct world *w = *state;
	enum { CNT = 3000 };
	static struct cassini_peer *peer[CNT];
	struct cassini_peer *again;

	assert_int_equal(dom_open(w, 0, VNI, 3, &w->a), 0);
	for (unsigned i = 0; i < CNT; i++)
		assert_int_equal(cassini_peer_get(w->a, 1 + i / 500, (uint16_t)(i % 500), &peer[i]), 0);
	for (unsigned i = 0; i < CNT; i++) {
		assert_int_equal(cassini_peer_get(w->a, 1 + i / 500, (uint16_t)(i % 500), &again), 0);
		assert_ptr_equal(again, peer[i]);
		assert_int_equal(again->nic, 1 + i / 500);
		assert_int_equal(again->pid, i % 500);
	}
}

/* --- answers --- */

static void answer__full_path(void **state)
{
	struct world *w = *state;
	enum { CNT = 3000 };
	static uint8_t data[CASSINI_FRAME_DATA];
	struct cassini_pkt_in pkt = {.op = CASSINI_PKT_REPLY, .vni = VNI, .pid = 4, .rc = CASSINI_RC_OK,
				     .request_len = sizeof(data)};
	struct cassini_peer *peer;
	unsigned unsent = 0;

	assert_int_equal(cassini_peer_get(w->a, g_nic2, 4, &peer), 0);
	for (unsigned i = 0; i < CNT; i++) {
		pkt.handle = i;
		assert_int_equal(cassini_answer(w->a, peer, &pkt, data, i % 2 ? sizeof(data) : 8), 0);
		unsent += !STAILQ_EMPTY(&w->a->unsent);
	}
	assert_true(unsent > 0); /* else this tests nothing */
	assert_int_equal(w->nic[1]->stats.malformed, 0);
	UNTIL(w, w->nic[1]->stats.malformed == CNT && !w->a->answers_out); /* nobody asked for them; each came once */
	for (int i = 0; i < 100; i++)
		turn(w);
	assert_int_equal(w->nic[1]->stats.malformed, CNT);
	mem_fail_nth(1);
	assert_int_equal(cassini_answer(w->a, peer, &pkt, data, sizeof(data)), -ENOMEM);
	mem_fail_nth(0);
	/* and what cannot leave before the end goes away with the Domain */
	for (unsigned i = 0; i < CNT; i++)
		assert_int_equal(cassini_answer(w->a, peer, &pkt, data, 8), 0);
}

/* --- the watch --- */

static int get_post(struct world *w, void *to, uint32_t len)
{
	struct cassini_cmd cmd = {
		.opcode = CASSINI_OP_GET,
		.pid_idx = 20,
		.pid = 4,
		.nic = g_nic2,
		.request_len = len,
		.dom = w->a,
		.eq = w->eq,
		.local_addr = to,
		.user_ptr = 4711,
	};

	return cassini_post(w->cq, &cmd);
}

static void reply_expect(struct world *w, uint8_t rc)
{
	const struct cassini_event *ev = cassini_eq_peek(w->eq);

	assert_non_null(ev);
	assert_int_equal(ev->type, CASSINI_EV_REPLY);
	assert_int_equal(ev->rc, rc);
	assert_int_equal(ev->user_ptr, 4711);
	cassini_eq_pop(w->eq);
	assert_true(cassini_cmdq_is_idle(w->cq));
}

/* A GET that its target has taken and not answered. */
static void get_owed(struct world *w, uint8_t *buf, uint32_t len)
{
	unsigned before = g_tgt.frames;

	assert_int_equal(get_post(w, buf, len), 0);
	UNTIL(w, g_tgt.frames == before + 1 && !LIST_EMPTY(&w->a->awaited));
	assert_int_equal(g_tgt.pkt.op, CASSINI_PKT_GET);
}

static void watch__silent_peer_is_asked(void **state)
{
	struct world *w = *state;
	struct cassini_pkt_in pkt = {.op = CASSINI_PKT_REPLY, .vni = VNI, .pid = 3, .rc = CASSINI_RC_OK,
				     .request_len = 16};
	uint64_t begin_ns, frames;
	uint8_t buf[16] = {0};

	get_owed(w, buf, sizeof(buf));
	frames = link_port_stats(w->a->port)->tx_frames;
	begin_ns = link_now_ns(w->nic[0]->node);
	assert_true(cassini_dom_deadline(w->a) <= begin_ns + 250 * NS_PER_MS);
	UNTIL(w, link_port_stats(w->a->port)->tx_frames > frames); /* a PING */
	assert_in_range(link_now_ns(w->nic[0]->node) - begin_ns, 250 * NS_PER_MS, 600 * NS_PER_MS);
	UNTIL(w, link_now_ns(w->nic[0]->node) - begin_ns > 2 * NS_PER_SEC);
	assert_in_range(link_port_stats(w->a->port)->tx_frames - frames, 4, 8); /* again and again, one at a time */
	assert_null(cassini_eq_peek(w->eq));
	pkt.handle = g_tgt.pkt.handle;
	assert_int_equal(cassini_answer(w->b, g_tgt.peer, &pkt, "fifteen letters", 16), 0);
	UNTIL(w, cassini_eq_peek(w->eq));
	reply_expect(w, CASSINI_RC_OK);
	assert_string_equal((char *)buf, "fifteen letters");
	assert_true(LIST_EMPTY(&w->a->awaited));
	assert_true(cassini_dom_deadline(w->a) == CLK_NEVER);
}

static void watch__peer_closed(void **state)
{
	struct world *w = *state;
	uint8_t buf[16];

	get_owed(w, buf, sizeof(buf));
	cassini_dom_close(w->b);
	w->b = NULL;
	UNTIL(w, cassini_eq_peek(w->eq));
	reply_expect(w, CASSINI_RC_UNDELIVERABLE);
	assert_int_equal(w->nic[0]->stats.unreachable, 1);
}

static void watch__peer_cut_off(void **state)
{
	struct world *w = *state;
	uint8_t buf[16];
	uint64_t begin_ns;

	get_owed(w, buf, sizeof(buf));
	get_owed(w, buf, sizeof(buf));
	sim_cut(w->sim, cassini_port_nr(VNI, 4), true);
	begin_ns = link_now_ns(w->nic[0]->node);
	UNTIL(w, w->eq->wr - w->eq->rd == 2); /* silent for the room's dead_after */
	assert_true(link_now_ns(w->nic[0]->node) - begin_ns >= 30 * NS_PER_SEC);
	cassini_eq_pop(w->eq);
	reply_expect(w, CASSINI_RC_UNDELIVERABLE);
	sim_cut(w->sim, cassini_port_nr(VNI, 4), false);
}

/*
 * Over shared memory a place without anything under way changes hands silently: what the old process owed is lost
 * nevertheless.
 */
static void life__place_changes_hands(void **state)
{
	struct world *w = *state;
	struct cassini_pkt_in pkt;
	struct cassini_peer *peer;
	uint8_t buf[16];
	uint32_t life;

	get_owed(w, buf, sizeof(buf));
	assert_int_equal(cassini_peer_get(w->a, g_nic2, 4, &peer), 0);
	life = peer->life;
	assert_int_not_equal(peer->nonce, 0);
	cassini_dom_close(w->b);
	assert_int_equal(dom_open(w, 1, VNI, 4, &w->b), 0);
	pkt = pkt_of(w->b, 3, CASSINI_PKT_PING); /* the new one speaks */
	assert_int_equal(pkt_send(w, w->b, g_nic1, 3, &pkt, 0), 0);
	UNTIL(w, cassini_eq_peek(w->eq));
	reply_expect(w, CASSINI_RC_UNDELIVERABLE);
	assert_int_not_equal(peer->life, life);
	/* and it is reached by the same address */
	get_owed(w, buf, sizeof(buf));
	assert_ptr_equal(g_tgt.dom, w->b);
	assert_null(cassini_eq_peek(w->eq));
}

static void life__answers_are_for_one_life(void **state)
{
	struct world *w = *state;
	static uint8_t data[CASSINI_FRAME_DATA];
	struct cassini_pkt_in pkt = {.op = CASSINI_PKT_REPLY, .vni = VNI, .pid = 4, .rc = CASSINI_RC_OK,
				     .request_len = sizeof(data)};
	struct cassini_peer *peer;
	unsigned cnt = 0;

	assert_int_equal(cassini_peer_get(w->a, g_nic2, 4, &peer), 0);
	for (; STAILQ_EMPTY(&w->a->unsent); cnt++) /* until the path is full */
		assert_int_equal(cassini_answer(w->a, peer, &pkt, data, sizeof(data)), 0);
	cassini_peer_gone(peer, peer->life);
	assert_int_equal(cassini_answer(w->a, peer, &pkt, data, 8), 0);
	UNTIL(w, !w->a->answers_out);
	assert_int_equal(w->nic[1]->stats.malformed, cnt); /* the new one came, the unsent one did not */
}

static void close__with_everything_owed(void **state)
{
	struct world *w = *state;
	uint8_t buf[16];

	get_owed(w, buf, sizeof(buf));
	assert_int_equal(get_post(w, buf, sizeof(buf)), 0); /* not even sent */
	cassini_dom_close(w->a);
	w->a = NULL;
	for (int i = 0; i < 2; i++) {
		const struct cassini_event *ev = cassini_eq_peek(w->eq);

		assert_non_null(ev);
		assert_int_equal(ev->rc, CASSINI_RC_CANCELED);
		cassini_eq_pop(w->eq);
	}
	assert_true(cassini_cmdq_is_idle(w->cq));
}

static void wait__fd_and_arm(void **state)
{
	struct world *w = *state;

	assert_true(cassini_dom_wait_fd(w->a) >= 0);
	for (int i = 0; i < 100 && cassini_dom_arm(w->a); i++)
		turn(w);
	assert_int_equal(cassini_dom_arm(w->a), 0);
}

static void wait__not_in_simulation(void **state)
{
	struct world *w = *state;

	assert_int_equal(cassini_dom_wait_fd(w->a), -ENOTSUP);
}

#define T(f_, setup_) cmocka_unit_test_setup_teardown(f_, setup_, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pid__clash_names_the_process), /* forks: before this process has anything open */
		T(pid__any_and_clash, open_real),
		T(pid__any_goes_round, open_real),
		T(pid__none_left, open_sim),
		T(open__every_allocation_fails, open_sim),
		T(frames__shm, open_real),
		T(frames__udp, open_real),
		T(frames__sim, open_sim),
		T(door__another_vni, open_sim),
		T(door__bad_initiator, open_sim_pair),
		T(door__malformed, open_sim_pair),
		T(peer__nobody_there, open_sim),
		T(peer__table_grows, open_sim),
		T(answer__full_path, open_real_pair),
		T(watch__silent_peer_is_asked, open_sim_queue),
		T(watch__peer_closed, open_sim_queue),
		T(watch__peer_cut_off, open_sim_queue),
		T(life__place_changes_hands, open_real_queue),
		T(life__answers_are_for_one_life, open_real_pair),
		T(close__with_everything_owed, open_sim_queue),
		T(wait__fd_and_arm, open_real_pair),
		T(wait__not_in_simulation, open_sim_pair),
	};
	char net[64];

	unsetenv("SOFTFABRIC_CONF");
	unsetenv("SOFTFABRIC_STATS");
	g_nic1 = ((uint32_t)getpid() & 0xffff) << 4 | 1;
	g_nic2 = g_nic1 + 1;
	snprintf(net, sizeof(net), "if=127.%u.%u.%u", g_nic1 >> 16, g_nic1 >> 8 & 255, g_nic1 & 255);
	setenv("SOFTFABRIC_NET", net, 1);
	log_set_hook(on_log);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
