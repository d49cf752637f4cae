// SPDX-License-Identifier: BSD-2-Clause
// Two soft Cassini adapters in one process, over shared memory, a simulated network, and one that loses, doubles and reorders.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "link/sim.h"
#include "nic/cassini/cassini.h"

#define VNI	    10
#define PID	    40
#define MEM_LEN	    (3u << 20)
#define REAL_NS	    (30 * NS_PER_SEC)
#define SIM_NS	    (300 * NS_PER_SEC)
#define REGION	    20u  /* pid_idx of a PTE without matching over all of mem */
#define MSG	    0u   /* matching */
#define SRC	    255u /* where a rendezvous is fetched */
#define LE_QUIET    (CASSINI_LE_EVENT_LINK_DISABLE | CASSINI_LE_EVENT_UNLINK_DISABLE | CASSINI_LE_OP_PUT | CASSINI_LE_OP_GET)
#define GET_BITS    0x5500000000ULL

enum path { PATH_SHM, PATH_SIM, PATH_LOSSY, PATH_NUM };
static const char *const path_name[PATH_NUM] = {"shm", "sim", "lossy"};

struct end {
	struct lock lock;
	struct cassini *nic;
	struct cassini_lni *lni;
	struct cassini_cp *cp;
	struct cassini_dom *dom;
	struct cassini_cmdq *cq;
	struct cassini_eq *eq;  /* of commands */
	struct cassini_eq *teq; /* of PTEs */
	struct cassini_pte *region, *msg, *src;
	uint8_t *mem;
};

static struct world {
	enum path path;
	struct sim *sim;
	struct end a, b;
	struct rng rng;
} w;

/* --- time --- */

static uint64_t g_until_ns;

static uint64_t now_ns(void)
{
	return cassini_now_ns(w.a.nic);
}

static int poll_end(struct end *e)
{
	return e->dom ? cassini_dom_poll(e->dom) : 0;
}

/* One turn of both adapters; time goes on when they are idle. */
static void turn(void)
{
	int n = poll_end(&w.a) + poll_end(&w.b);

	assert_true(now_ns() < g_until_ns);
	if (!n && w.sim)
		sim_step(w.sim, now_ns() + 10 * NS_PER_MS);
}

#define UNTIL(cond_)                                                                                                                                   \
	for (g_until_ns = now_ns() + (w.sim ? SIM_NS : REAL_NS); !(cond_);)                                                                            \
	turn()

/* Nothing more is to come: a while of turns. */
static void settle(void)
{
	uint64_t end_ns = now_ns() + (w.sim ? 2 * NS_PER_SEC : 5 * NS_PER_MS);

	UNTIL(now_ns() >= end_ns);
}

/* --- the world --- */

static struct cassini_pte *pte_new(struct end *e, unsigned idx, bool is_matching, bool has_events)
{
	struct cassini_pte_opts opts = {.is_matching = is_matching};
	struct cassini_pte *pte;

	assert_int_equal(cassini_pte_open(e->lni, has_events ? e->teq : NULL, &opts, NULL, &pte), 0);
	assert_int_equal(cassini_pte_map(pte, e->dom, idx), 0);
	assert_int_equal(cassini_set_state(pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE), 0);
	return pte;
}

static void expect_state(struct end *e)
{
	const struct cassini_event *ev = cassini_eq_peek(e->teq);

	assert_non_null(ev);
	assert_int_equal(ev->type, CASSINI_EV_STATE_CHANGE);
	cassini_eq_pop(e->teq);
}

static void dom_open(struct end *e)
{
	struct cassini_dom_attr dom = {.vni = VNI, .pid = PID};
	struct cassini_le_attr le = {.list = CASSINI_PRIORITY, .flags = LE_QUIET | CASSINI_LE_EVENT_COMM_DISABLE, .start = e->mem, .length = MEM_LEN,
				     .match_id = CASSINI_MATCH_ID_ANY, .ignore_bits = UINT64_MAX};

	assert_int_equal(cassini_dom_open(e->lni, &dom, &e->dom), 0);
	e->region = pte_new(e, REGION, false, false);
	assert_int_equal(cassini_append(e->region, &le, NULL), 0);
	e->msg = pte_new(e, MSG, true, true);
	expect_state(e);
	e->src = pte_new(e, SRC, true, true);
	expect_state(e);
	le.flags = LE_QUIET;
	le.start = NULL;
	le.length = UINT64_MAX;
	le.user_ptr = SRC;
	assert_int_equal(cassini_append(e->src, &le, NULL), 0);
}

static void dom_close(struct end *e)
{
	cassini_pte_unmap(e->region, e->dom, REGION);
	cassini_pte_unmap(e->msg, e->dom, MSG);
	cassini_pte_unmap(e->src, e->dom, SRC);
	cassini_pte_close(e->region);
	cassini_pte_close(e->msg);
	cassini_pte_close(e->src);
	cassini_dom_close(e->dom);
	e->dom = NULL;
}

static void end_open(struct end *e, int idx)
{
	struct cassini_open_attr attr = {.dev_idx = idx, .lock = &e->lock, .no_thread = true, .sim = w.sim};
	struct cassini_cmdq_attr cq = {.depth = 64, .has_trig = true};

	e->mem = mem_alloc(MEM_LEN);
	assert_non_null(e->mem);
	assert_int_equal(cassini_open(&attr, &e->nic), 0);
	lock_acquire(&e->lock);
	assert_int_equal(cassini_lni_open(e->nic, 1, &e->lni), 0);
	assert_int_equal(cassini_cp_open(e->lni, VNI, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &e->cp), 0);
	assert_int_equal(cassini_eq_open(e->lni, 256, 0, &e->eq), 0);
	assert_int_equal(cassini_eq_open(e->lni, 256, 0, &e->teq), 0);
	cq.cp = e->cp;
	assert_int_equal(cassini_cmdq_open(e->lni, &cq, &e->cq), 0);
	dom_open(e);
}

static void rsrc_check(const struct end *e)
{
	for (enum cassini_rsrc r = 0; r < CASSINI_RSRC_NUM; r++) {
		uint32_t used, max;

		cassini_rsrc(e->lni, r, &used, &max);
		assert_int_equal(used, 0);
	}
}

static void end_close(struct end *e)
{
	assert_null(cassini_eq_peek(e->eq));
	assert_null(cassini_eq_peek(e->teq));
	assert_int_equal(cassini_eq_dropped(e->teq), 0);
	if (e->dom)
		dom_close(e);
	cassini_cmdq_close(e->cq);
	assert_int_equal(cassini_eq_free(e->eq), 256); /* no claim was forgotten */
	assert_int_equal(cassini_eq_free(e->teq), 256);
	cassini_eq_close(e->eq);
	cassini_eq_close(e->teq);
	cassini_cp_close(e->cp);
	rsrc_check(e);
	cassini_lni_close(e->lni);
	lock_release(&e->lock);
	cassini_close(e->nic);
	mem_free(e->mem);
}

static void on_all_paths(void (*body)(void))
{
	struct rng rng = unit_rng();
	int64_t live;

	for (enum path path = 0; path < PATH_NUM; path++) {
		struct sim_attr attr = {.seed = rng_u64(&rng), .jitter_ns = 2000};

		print_message("path %s\n", path_name[path]);
		live = mem_live_count();
		memset(&w, 0, sizeof(w));
		w.path = path;
		w.rng = rng;
		if (path == PATH_LOSSY) {
			attr.drop_ppm = 50000;
			attr.dup_ppm = 20000;
			attr.reorder_ppm = 50000;
		}
		if (path != PATH_SHM)
			assert_int_equal(sim_world_open(&attr, &w.sim), 0);
		end_open(&w.a, 0);
		end_open(&w.b, 1);
		body();
		end_close(&w.a);
		end_close(&w.b);
		sim_world_close(w.sim);
		assert_int_equal(mem_live_count(), live);
	}
}

/* --- commands and events --- */

static struct end *other(const struct end *e)
{
	return e == &w.a ? &w.b : &w.a;
}

static struct cassini_cmd cmd_of(struct end *e, enum cassini_opcode opcode, unsigned idx, void *local, uint32_t len)
{
	return (struct cassini_cmd){
		.opcode = (uint8_t)opcode,
		.pid_idx = (uint8_t)idx,
		.pid = PID,
		.nic = cassini_info(other(e)->nic)->nic,
		.request_len = len,
		.dom = e->dom,
		.eq = e->eq,
		.local_addr = local,
		.user_ptr = len,
	};
}

static void post(struct end *e, const struct cassini_cmd *cmd)
{
	int rc;

	UNTIL((rc = cassini_post(e->cq, cmd)) != -EAGAIN);
	assert_int_equal(rc, 0);
}

static struct cassini_event next_of(struct cassini_eq *eq)
{
	const struct cassini_event *peek;
	struct cassini_event ev;

	UNTIL((peek = cassini_eq_peek(eq)));
	ev = *peek;
	cassini_eq_pop(eq);
	return ev;
}

static struct cassini_event expect(struct cassini_eq *eq, enum cassini_event_type type, enum cassini_rc rc)
{
	struct cassini_event ev = next_of(eq);

	if (ev.type != type || ev.rc != rc)
		print_message("event %u %s in place of %u %s\n", ev.type, cassini_rc_str(ev.rc), type, cassini_rc_str(rc));
	assert_int_equal(ev.type, type);
	assert_int_equal(ev.rc, rc);
	return ev;
}

static void none(struct cassini_eq *eq)
{
	assert_null(cassini_eq_peek(eq));
}

static void fill(uint8_t *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + salt);
}

static void msg_append(struct end *e, enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t user_ptr)
{
	struct cassini_le_attr le = {.list = list, .flags = LE_QUIET | flags, .start = start, .length = len, .match_id = CASSINI_MATCH_ID_ANY,
				     .ignore_bits = UINT64_MAX, .user_ptr = user_ptr};

	assert_int_equal(cassini_append(e->msg, &le, NULL), 0);
}

/* --- Puts and Gets --- */

static const uint32_t g_lens[] = {0, 1, 8, 192, 193, 224, 225, 4096, 10112, 10113, 65537, 1u << 20};

static void put_body(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(g_lens); i++) {
		uint32_t len = g_lens[i];
		struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_PUT, REGION, w.a.mem, len);

		fill(w.a.mem, len, i);
		memset(w.b.mem, 0xcc, len + 200);
		cmd.remote_offset = 100;
		cmd.flags = (i & 1 ? CASSINI_CMD_RESTRICTED : 0) | (len <= CASSINI_IDC_MAX && i & 2 ? CASSINI_CMD_INLINE : 0);
		post(&w.a, &cmd);
		if (cmd.flags & CASSINI_CMD_INLINE)
			memset(w.a.mem, 0xee, len); /* ours again */
		assert_int_equal(expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).user_ptr, len);
		if (cmd.flags & CASSINI_CMD_INLINE)
			fill(w.a.mem, len, i);
		assert_memory_equal(w.b.mem + 100, w.a.mem, len);
		assert_int_equal(w.b.mem[99], 0xcc);
		assert_int_equal(w.b.mem[100 + len], 0xcc);
	}
}

static void put__all_lengths(void **state)
{
	on_all_paths(put_body);
}

static void get_body(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(g_lens); i++) {
		uint32_t len = g_lens[i];
		struct cassini_cmd cmd = cmd_of(&w.b, CASSINI_OP_GET, REGION, w.b.mem + 100, len);

		fill(w.a.mem, len + 7, i);
		memset(w.b.mem, 0xcc, len + 200);
		cmd.remote_offset = 7;
		cmd.flags = i & 1 ? CASSINI_CMD_RESTRICTED : 0;
		post(&w.b, &cmd);
		assert_int_equal(expect(w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_OK).user_ptr, len);
		assert_memory_equal(w.b.mem + 100, w.a.mem + 7, len);
		assert_int_equal(w.b.mem[99], 0xcc);
		assert_int_equal(w.b.mem[100 + len], 0xcc);
	}
}

static void get__all_lengths(void **state)
{
	on_all_paths(get_body);
}

static void message_body(void)
{
	struct cassini_cmd cmd;
	struct cassini_event ev;

	for (unsigned i = 0; i < ARRAY_SIZE(g_lens); i++) {
		uint32_t len = g_lens[i];

		fill(w.a.mem, len, i);
		memset(w.b.mem, 0, len);
		msg_append(&w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, w.b.mem, len, 1000 + i);
		cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem, len);
		cmd.match_bits = 0x1234567890 + i;
		cmd.header_data = 0xabcdef;
		post(&w.a, &cmd);
		ev = expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		assert_int_equal(ev.ptl_list, CASSINI_PRIORITY);
		ev = expect(w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(ev.ptl_list, CASSINI_PRIORITY);
		assert_int_equal(ev.user_ptr, 1000 + i);
		assert_int_equal(ev.mlength, len);
		assert_int_equal(ev.rlength, len);
		assert_int_equal(ev.initiator, CASSINI_MATCH_ID(PID, cassini_info(w.a.nic)->nic));
		assert_true(ev.match_bits == cmd.match_bits && ev.header_data == 0xabcdef);
		assert_true(ev.auto_unlinked);
		assert_ptr_equal(ev.start, w.b.mem);
		assert_memory_equal(w.b.mem, w.a.mem, len);
	}
}

static void message__expected(void **state)
{
	on_all_paths(message_body);
}

static void unexpected_body(void)
{
	uint8_t *over = w.b.mem + (2u << 20);
	struct cassini_cmd cmd;
	struct cassini_event ev;

	msg_append(&w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t len = (const uint32_t[]){100, 5000, 20000, 10113}[i];

		fill(w.a.mem, len, i);
		cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem, len);
		cmd.header_data = i;
		post(&w.a, &cmd);
		assert_int_equal(expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).ptl_list, CASSINI_OVERFLOW);
		ev = expect(w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(ev.ptl_list, CASSINI_OVERFLOW);
		assert_memory_equal(ev.start, w.a.mem, len);
		msg_append(&w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, w.b.mem, 1u << 20, 8);
		ev = expect(w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		assert_int_equal(ev.user_ptr, 8);
		assert_int_equal(ev.header_data, i);
		assert_int_equal(ev.mlength, len);
		assert_memory_equal(ev.start, w.a.mem, len);
	}
}

static void message__unexpected(void **state)
{
	on_all_paths(unexpected_body);
}

/* --- rendezvous --- */

static void rput(uint32_t len, uint32_t eager, unsigned i)
{
	struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_RENDEZVOUS_PUT, MSG, w.a.mem, len);

	fill(w.a.mem, len, i);
	memset(w.b.mem, 0, len);
	cmd.eager_length = eager;
	cmd.rendezvous_id = (uint8_t)i;
	cmd.get_bits = GET_BITS + i;
	post(&w.a, &cmd);
}

/* At the source: the Get that fetched the rest. */
static void expect_get(unsigned i)
{
	struct cassini_event ev = expect(w.a.teq, CASSINI_EV_GET, CASSINI_RC_OK);

	assert_true(ev.match_bits == GET_BITS + i);
	assert_int_equal(ev.user_ptr, SRC);
	assert_int_equal(ev.initiator, CASSINI_MATCH_ID(PID, cassini_info(w.b.nic)->nic));
}

static const struct { uint32_t len, eager; } g_rdzv[] = {{20000, 2048}, {1u << 20, 2048}, {1u << 20, 0}, {1u << 20, 10112}, {3000, 3000}, {0, 0}, {500, 1}};

static void rdzv_expected_body(void)
{
	struct cassini_event ev;

	for (unsigned i = 0; i < ARRAY_SIZE(g_rdzv); i++) {
		msg_append(&w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, w.b.mem, 1u << 20, 5);
		rput(g_rdzv[i].len, g_rdzv[i].eager, i);
		assert_int_equal(expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).ptl_list, CASSINI_PRIORITY);
		ev = expect(w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_true(ev.rendezvous && ev.get_issued);
		assert_int_equal(ev.rendezvous_id, i);
		assert_int_equal(ev.rlength, g_rdzv[i].len);
		ev = expect(w.b.teq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		assert_int_equal(ev.user_ptr, 5);
		assert_true(ev.rendezvous);
		expect_get(i);
		assert_memory_equal(w.b.mem, w.a.mem, g_rdzv[i].len);
	}
}

static void rdzv__expected(void **state)
{
	on_all_paths(rdzv_expected_body);
}

static void rdzv_unexpected_body(void)
{
	uint8_t *over = w.b.mem + (2u << 20);
	struct cassini_event ev;

	msg_append(&w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < ARRAY_SIZE(g_rdzv); i++) {
		rput(g_rdzv[i].len, g_rdzv[i].eager, i);
		assert_int_equal(expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK).ptl_list, CASSINI_OVERFLOW);
		ev = expect(w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_true(ev.rendezvous && !ev.get_issued);
		assert_memory_equal(ev.start, w.a.mem, g_rdzv[i].eager);
		settle();
		none(w.a.teq);
		msg_append(&w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, w.b.mem, 1u << 20, 8);
		ev = expect(w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		assert_true(ev.rendezvous && ev.get_issued);
		assert_int_equal(ev.user_ptr, 8);
		expect(w.b.teq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		expect_get(i);
		assert_memory_equal(w.b.mem + g_rdzv[i].eager, w.a.mem + g_rdzv[i].eager, g_rdzv[i].len - g_rdzv[i].eager);
	}
}

static void rdzv__unexpected(void **state)
{
	on_all_paths(rdzv_unexpected_body);
}

/* Software takes the header and issues the Get itself. */
static void rdzv_software_body(void)
{
	uint8_t *over = w.b.mem + (2u << 20);
	struct cassini_cmd cmd;

	msg_append(&w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t len = i ? 9000 : 300000, eager = 2048;
		struct cassini_search s = {.ignore_bits = UINT64_MAX, .match_id = CASSINI_MATCH_ID_ANY, .use_once = true, .delete = true};
		struct cassini_event ev;

		rput(len, eager, i);
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		expect(w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		assert_int_equal(cassini_search(w.b.msg, &s), 0);
		ev = expect(w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		cmd = cmd_of(&w.b, CASSINI_OP_GET, SRC, w.b.mem + eager, len - eager);
		cmd.match_bits = GET_BITS + i;
		cmd.remote_offset = ev.remote_offset + eager;
		post(&w.b, &cmd);
		expect(w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		expect_get(i);
		assert_memory_equal(w.b.mem + eager, w.a.mem + eager, len - eager);
		/* it is not offered any more */
		post(&w.b, &cmd);
		expect(w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_NO_TRANSLATION);
	}
}

static void rdzv__by_software(void **state)
{
	on_all_paths(rdzv_software_body);
}

/* --- atomics --- */

static struct cassini_cmd amo_of(enum cassini_opcode opcode, enum cassini_amo_op op, uint64_t v, uint64_t *fetch)
{
	struct cassini_cmd cmd = cmd_of(&w.a, opcode, REGION, NULL, 8);

	cmd.atomic_op = (uint8_t)op;
	cmd.atomic_type = CASSINI_T_U64;
	cmd.op1[0] = v;
	cmd.fetch_addr = fetch;
	cmd.remote_offset = 64;
	return cmd;
}

static uint64_t word(const struct end *e)
{
	uint64_t v;

	memcpy(&v, e->mem + 64, 8);
	return v;
}

static void atomic_body(void)
{
	uint64_t old = 0;
	struct cassini_cmd cmd;

	memset(w.b.mem, 0, 128);
	cmd = amo_of(CASSINI_OP_ATOMIC, CASSINI_AMO_SUM, 5, NULL);
	for (int i = 0; i < 10; i++) {
		cmd.flags = i & 1 ? CASSINI_CMD_RESTRICTED : 0;
		post(&w.a, &cmd);
	}
	for (int i = 0; i < 10; i++)
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	assert_int_equal(word(&w.b), 50);
	cmd = amo_of(CASSINI_OP_FETCHING_ATOMIC, CASSINI_AMO_SWAP, 77, &old);
	post(&w.a, &cmd);
	expect(w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(old, 50);
	cmd = amo_of(CASSINI_OP_FETCHING_ATOMIC, CASSINI_AMO_CSWAP, 99, &old);
	cmd.op2[0] = 1; /* not what is there */
	post(&w.a, &cmd);
	expect(w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(old, 77);
	assert_int_equal(word(&w.b), 77);
	cmd.op2[0] = 77;
	post(&w.a, &cmd);
	expect(w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_int_equal(word(&w.b), 99);
	cmd.remote_offset = 65;
	post(&w.a, &cmd);
	expect(w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_AMO_ALIGN_ERROR);
	cmd = amo_of(CASSINI_OP_ATOMIC, CASSINI_AMO_BOR, 1, NULL);
	cmd.atomic_type = CASSINI_T_F64;
	post(&w.a, &cmd);
	expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_AMO_INVAL_OP_ERROR);
	assert_int_equal(word(&w.b), 99);
}

static void atomic__and_fetch(void **state)
{
	on_all_paths(atomic_body);
}

/* --- order, fences, triggers --- */

/* What is posted later lands later, however long the earlier one takes: the classic data and flag, and overlapping writes. */
static void order_body(void)
{
	const uint32_t big = 300000;
	uint8_t one = 1;

	for (unsigned i = 1; i < 6; i++) {
		struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_PUT, REGION, w.a.mem, big);

		memset(w.a.mem, (int)i, big);
		w.b.mem[big] = 0;
		post(&w.a, &cmd);
		cmd = cmd_of(&w.a, CASSINI_OP_PUT, REGION, &one, 1);
		cmd.flags = CASSINI_CMD_INLINE;
		cmd.remote_offset = big / 2;
		post(&w.a, &cmd);
		cmd.remote_offset = big;
		post(&w.a, &cmd);
		UNTIL(w.b.mem[big]);
		w.a.mem[big / 2] = 1;
		assert_memory_equal(w.b.mem, w.a.mem, big);
		for (int k = 0; k < 3; k++)
			expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	}
}

static void order__later_lands_later(void **state)
{
	on_all_paths(order_body);
}

#define STREAM 200

/* Messages of all sizes, expected and unexpected, match in the order posted. */
static void stream_body(void)
{
	static const uint32_t lens[] = {0, 8, 192, 1000, 10112, 10113, 40000};
	unsigned acked = 0, posted = 0, seen = 0;

	for (unsigned i = 0; i < STREAM; i++)
		msg_append(&w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, w.b.mem, 1u << 20, i);
	g_until_ns = now_ns() + (w.sim ? SIM_NS : REAL_NS);
	while (acked < STREAM || seen < STREAM) {
		struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem, lens[rng_below(&w.rng, ARRAY_SIZE(lens))]);
		const struct cassini_event *ev;

		cmd.header_data = posted;
		if (posted < STREAM && !cassini_post(w.a.cq, &cmd))
			posted++;
		else
			turn();
		for (; (ev = cassini_eq_peek(w.a.eq)); cassini_eq_pop(w.a.eq), acked++)
			assert_true(ev->type == CASSINI_EV_ACK && ev->rc == CASSINI_RC_OK);
		for (; (ev = cassini_eq_peek(w.b.teq)); cassini_eq_pop(w.b.teq), seen++) {
			assert_true(ev->type == CASSINI_EV_PUT && ev->rc == CASSINI_RC_OK);
			assert_int_equal(ev->user_ptr, ev->header_data); /* the n-th message takes the n-th entry */
		}
	}
	assert_true(cassini_cmdq_is_idle(w.a.cq));
}

static void order__messages_match_in_order(void **state)
{
	on_all_paths(stream_body);
}

static void fence_body(void)
{
	struct cassini_cmd put = cmd_of(&w.a, CASSINI_OP_PUT, REGION, w.a.mem, 200000), get;

	put.flags = CASSINI_CMD_RESTRICTED;
	fill(w.a.mem, 200000, 3);
	memset(w.b.mem, 0, 200000);
	post(&w.a, &put);
	assert_int_equal(cassini_fence(w.a.cq), 0);
	get = cmd_of(&w.a, CASSINI_OP_GET, REGION, w.a.mem + (1u << 20), 200000);
	get.flags = CASSINI_CMD_RESTRICTED;
	post(&w.a, &get);
	expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	expect(w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	assert_memory_equal(w.a.mem + (1u << 20), w.a.mem, 200000);
}

static void fence__get_sees_the_put(void **state)
{
	on_all_paths(fence_body);
}

/* A ring of triggers over both adapters: a's ACK fires a's next Put; b counts arrivals and answers the third. */
static void trigger_body(void)
{
	struct cassini_ct *acks, *arrived;
	struct cassini_cmd cmd;
	struct cassini_le_attr le = {.flags = LE_QUIET | CASSINI_LE_EVENT_COMM_DISABLE | CASSINI_LE_EVENT_CT_COMM, .start = w.b.mem, .length = MEM_LEN,
				     .match_id = CASSINI_MATCH_ID_ANY, .ignore_bits = UINT64_MAX};
	uint64_t wb = 0;

	assert_int_equal(cassini_ct_open(w.a.lni, &wb, &acks), 0);
	assert_int_equal(cassini_ct_open(w.b.lni, NULL, &arrived), 0);
	le.ct = arrived;
	assert_int_equal(cassini_append(w.b.msg, &le, NULL), 0);
	cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem, 30000);
	cmd.flags = CASSINI_CMD_CT_ACK | CASSINI_CMD_NO_EVENT;
	cmd.ct = acks;
	assert_int_equal(cassini_post_trig(w.a.cq, acks, 1, &cmd), 0);
	assert_int_equal(cassini_post_trig(w.a.cq, acks, 2, &cmd), 0);
	assert_int_equal(cassini_trig_ct(w.a.cq, acks, 3, CASSINI_CT_EVENT, NULL, 0, w.a.eq, 42), 0);
	cmd = cmd_of(&w.b, CASSINI_OP_PUT, REGION, w.b.mem, 8);
	cmd.flags = CASSINI_CMD_INLINE;
	memcpy(w.b.mem, "answered", 8);
	assert_int_equal(cassini_post_trig(w.b.cq, arrived, 3, &cmd), 0);
	memset(w.a.mem, 0, 30000);
	cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem + 8, 30000);
	cmd.flags = CASSINI_CMD_CT_ACK | CASSINI_CMD_NO_EVENT;
	cmd.ct = acks;
	post(&w.a, &cmd);
	assert_int_equal(expect(w.a.eq, CASSINI_EV_TRIGGERED_OP, CASSINI_RC_OK).user_ptr, 42);
	expect(w.b.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	assert_memory_equal(w.a.mem, "answered", 8);
	assert_int_equal(wb, 1ULL << 63 | 3);
	none(w.a.eq);
	dom_close(&w.b); /* whose entry counts */
	cassini_ct_close(acks);
	cassini_ct_close(arrived);
}

static void trigger__over_two_adapters(void **state)
{
	on_all_paths(trigger_body);
}

/* --- what goes wrong --- */

static void expect_rc(struct end *e, struct cassini_cmd cmd, enum cassini_rc rc)
{
	bool is_reply = cmd.opcode == CASSINI_OP_GET || cmd.opcode == CASSINI_OP_FETCHING_ATOMIC;

	cmd.flags |= CASSINI_CMD_NO_EVENT; /* an error makes one nevertheless */
	post(e, &cmd);
	expect(e->eq, is_reply ? CASSINI_EV_REPLY : CASSINI_EV_ACK, rc);
}

static void codes_body(void)
{
	struct cassini_le_attr le = {.flags = LE_QUIET & ~CASSINI_LE_OP_GET, .start = w.b.mem, .length = 4096, .match_id = CASSINI_MATCH_ID_ANY,
				     .match_bits = 9};
	struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem, 64);

	for (uint32_t len = 64; len < 30000; len += 20000) {
		cmd.request_len = len;
		expect_rc(&w.a, cmd, CASSINI_RC_ENTRY_NOT_FOUND);
	}
	assert_int_equal(cassini_append(w.b.msg, &le, NULL), 0);
	cmd.opcode = CASSINI_OP_GET;
	cmd.match_bits = 9;
	expect_rc(&w.a, cmd, CASSINI_RC_OP_VIOLATION);
	cmd.opcode = CASSINI_OP_PUT;
	cmd.flags = CASSINI_CMD_RESTRICTED; /* to a matching PTE */
	expect_rc(&w.a, cmd, CASSINI_RC_RESTRICTED_UNICAST);
	cmd.flags = 0;
	cmd.pid_idx = 77;
	expect_rc(&w.a, cmd, CASSINI_RC_PTLTE_NOT_FOUND);
	cmd.opcode = CASSINI_OP_RENDEZVOUS_PUT;
	expect_rc(&w.a, cmd, CASSINI_RC_PTLTE_NOT_FOUND);
	cmd.opcode = CASSINI_OP_GET;
	cmd.pid_idx = SRC; /* nothing is offered */
	expect_rc(&w.a, cmd, CASSINI_RC_NO_TRANSLATION);
	cmd.opcode = CASSINI_OP_PUT;
	cmd.pid_idx = MSG;
	assert_int_equal(cassini_set_state(w.b.msg, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	expect_state(&w.b);
	expect_rc(&w.a, cmd, CASSINI_RC_PT_DISABLED);
	cmd.pid = PID + 1; /* nobody */
	expect_rc(&w.a, cmd, CASSINI_RC_UNDELIVERABLE);
	cmd.opcode = CASSINI_OP_GET;
	expect_rc(&w.a, cmd, CASSINI_RC_UNDELIVERABLE);
	settle();
	none(w.b.teq);
}

static void codes__of_the_target(void **state)
{
	on_all_paths(codes_body);
}

/* VNIs 24 apart share their UDP ports: the Domain there is of another VNI, and says so. */
static void vni_body(void)
{
	struct cassini_dom_attr attr = {.vni = VNI + 24, .pid = PID + 3};
	struct cassini_cmdq_attr cq_attr = {.depth = 4};
	struct cassini_dom *own = w.a.dom;
	struct cassini_cmdq *cq = w.a.cq;
	struct cassini_cmd cmd;

	assert_int_equal(cassini_cp_open(w.a.lni, VNI + 24, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &cq_attr.cp), 0);
	assert_int_equal(cassini_cmdq_open(w.a.lni, &cq_attr, &w.a.cq), 0);
	assert_int_equal(cassini_dom_open(w.a.lni, &attr, &w.a.dom), 0);
	cmd = cmd_of(&w.a, CASSINI_OP_PUT, MSG, w.a.mem, 8);
	expect_rc(&w.a, cmd, CASSINI_RC_VNI_NOT_FOUND);
	cmd.dom = own;
	assert_int_equal(cassini_post(w.a.cq, &cmd), -EACCES);
	cassini_dom_close(w.a.dom);
	w.a.dom = own;
	cassini_cmdq_close(w.a.cq);
	w.a.cq = cq;
	cassini_cp_close(cq_attr.cp);
}

static void codes__another_vni(void **state)
{
	on_all_paths(vni_body);
}

static void death_body(void)
{
	struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_PUT, REGION, w.a.mem, 8);
	uint8_t *over = w.b.mem + (2u << 20);

	for (int life = 0; life < 3; life++) {
		struct cassini_event ev;

		post(&w.a, &cmd);
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		/* a rendezvous that nobody will ever fetch */
		msg_append(&w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
		rput(30000, 2048, 1);
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		expect(w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		dom_close(&w.b);
		ev = expect(w.a.teq, CASSINI_EV_GET, CASSINI_RC_UNDELIVERABLE);
		assert_true(ev.match_bits == GET_BITS + 1);
		post(&w.a, &cmd);
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE);
		/* somebody else at the same address: at once, whatever was known of the old one */
		dom_open(&w.b);
	}
	post(&w.a, &cmd);
	expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
}

static void death__and_a_new_life(void **state)
{
	on_all_paths(death_body);
}

/*
 * The new one comes before anybody has noticed that the old one went. What is posted before the first poll may still go to the old one's place and end
 * as undeliverable, but only that.
 */
static void replaced_body(void)
{
	struct cassini_cmd cmd = cmd_of(&w.a, CASSINI_OP_PUT, REGION, w.a.mem, 8);

	for (unsigned life = 0; life < 6; life++) {
		struct cassini_event ev;

		post(&w.a, &cmd);
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		settle();
		dom_close(&w.b);
		dom_open(&w.b);
		fill(w.a.mem, 8, life);
		memset(w.b.mem, 0xdd, 8);
		if (life & 1) {
			uint64_t end_ns = now_ns() + 300 * NS_PER_MS; /* shared memory looks around now and then */

			UNTIL(now_ns() >= end_ns);
		} else {
			post(&w.a, &cmd);
			ev = next_of(w.a.eq);
			assert_true(ev.rc == CASSINI_RC_OK || ev.rc == CASSINI_RC_UNDELIVERABLE);
		}
		post(&w.a, &cmd);
		expect(w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		assert_memory_equal(w.b.mem, w.a.mem, 8);
	}
}

static void death__replaced_at_once(void **state)
{
	on_all_paths(replaced_body);
}

/* Commands that are under way, held, and waiting when their own side closes. */
static void close_body(void)
{
	struct cassini_cmd put = cmd_of(&w.a, CASSINI_OP_PUT, REGION, w.a.mem, 100000);
	unsigned ended = 0, posted = 0;

	while (posted < 20 && !cassini_post(w.a.cq, &put))
		posted++;
	assert_in_range(posted, 1, 20);
	dom_close(&w.a);
	for (; cassini_eq_peek(w.a.eq); cassini_eq_pop(w.a.eq), ended++)
		assert_true(cassini_eq_peek(w.a.eq)->rc == CASSINI_RC_OK || cassini_eq_peek(w.a.eq)->rc == CASSINI_RC_CANCELED);
	assert_int_equal(ended, posted);
	assert_true(cassini_cmdq_is_idle(w.a.cq));
}

static void close__everything_ends_once(void **state)
{
	on_all_paths(close_body);
}

/* --- all together --- */

#define SOAK_OPS  400
#define SLOT_LEN  32768u
#define SLOTS	  16u

struct soak {
	struct end *e;
	uint64_t ct_want;
	unsigned posted, ended;
	bool is_busy[SLOTS];
	uint8_t kind[SLOTS];
	uint32_t len[SLOTS];
};

/* Each slot of the memory is used by one command at a time: first half of a slot is the source, the peer's second half of the same slot the target. */
static bool soak_post(struct soak *s)
{
	uint32_t slot = (uint32_t)rng_below(&w.rng, SLOTS);
	uint8_t *near = s->e->mem + slot * SLOT_LEN * 2, kind = (uint8_t)rng_below(&w.rng, 2);
	uint32_t len = (uint32_t)rng_below(&w.rng, rng_below(&w.rng, 2) ? SLOT_LEN : 300);
	struct cassini_cmd cmd = cmd_of(s->e, kind ? CASSINI_OP_GET : CASSINI_OP_PUT, REGION, near, len);

	if (s->is_busy[slot] || s->posted == SOAK_OPS)
		return false;
	if (!kind)
		fill(near, len, s->posted);
	cmd.remote_offset = slot * SLOT_LEN * 2 + SLOT_LEN;
	cmd.flags = rng_below(&w.rng, 2) ? CASSINI_CMD_RESTRICTED : 0;
	cmd.user_ptr = slot;
	if (cassini_post(s->e->cq, &cmd))
		return false;
	s->is_busy[slot] = true;
	s->kind[slot] = kind;
	s->len[slot] = len;
	s->posted++;
	return true;
}

static void soak_reap(struct soak *s)
{
	const struct cassini_event *ev;

	for (; (ev = cassini_eq_peek(s->e->eq)); cassini_eq_pop(s->e->eq), s->ended++) {
		size_t slot = ev->user_ptr, off = slot * SLOT_LEN * 2;

		assert_in_range(slot, 0, SLOTS - 1);
		assert_true(s->is_busy[slot]);
		assert_int_equal(ev->rc, CASSINI_RC_OK);
		assert_int_equal(ev->type, s->kind[slot] ? CASSINI_EV_REPLY : CASSINI_EV_ACK);
		assert_memory_equal(s->e->mem + off, other(s->e)->mem + off + SLOT_LEN, s->len[slot]);
		s->is_busy[slot] = false;
	}
}

static void soak_body(void)
{
	struct soak s[2] = {{.e = &w.a}, {.e = &w.b}};

	g_until_ns = now_ns() + (w.sim ? SIM_NS : REAL_NS);
	for (int i = 0; i < 2; i++)
		fill(s[i].e->mem, MEM_LEN, 100 + (unsigned)i);
	while (s[0].ended < SOAK_OPS || s[1].ended < SOAK_OPS) {
		for (int i = 0; i < 2; i++) {
			while (soak_post(&s[i]))
				;
			soak_reap(&s[i]);
		}
		turn();
	}
	assert_true(cassini_cmdq_is_idle(w.a.cq) && cassini_cmdq_is_idle(w.b.cq));
}

static void soak__each_command_ends_once(void **state)
{
	on_all_paths(soak_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__all_lengths),
		cmocka_unit_test(get__all_lengths),
		cmocka_unit_test(message__expected),
		cmocka_unit_test(message__unexpected),
		cmocka_unit_test(rdzv__expected),
		cmocka_unit_test(rdzv__unexpected),
		cmocka_unit_test(rdzv__by_software),
		cmocka_unit_test(atomic__and_fetch),
		cmocka_unit_test(order__later_lands_later),
		cmocka_unit_test(order__messages_match_in_order),
		cmocka_unit_test(fence__get_sees_the_put),
		cmocka_unit_test(trigger__over_two_adapters),
		cmocka_unit_test(codes__of_the_target),
		cmocka_unit_test(codes__another_vni),
		cmocka_unit_test(death__and_a_new_life),
		cmocka_unit_test(death__replaced_at_once),
		cmocka_unit_test(close__everything_ends_once),
		cmocka_unit_test(soak__each_command_ends_once),
	};

	unsetenv("SOFTFABRIC_CONF");
	unsetenv("SOFTFABRIC_NET");
	setenv("SOFTFABRIC_CXI", "nics=2", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
