// SPDX-License-Identifier: BSD-2-Clause
// See cassini_pair.h.
#include "cassini_pair.h"

/* --- time --- */

struct pair g_w;
uint64_t g_until_ns;
static const char *const path_name[PATH_NUM] = {"shm", "sim", "lossy"};

uint64_t now_ns(void)
{
	return cassini_now_ns(g_w.a.nic);
}

static int poll_end(struct end *e)
{
	return e->dom ? cassini_dom_poll(e->dom) : 0;
}

/* One turn of both adapters; time goes on when they are idle. */
void turn(void)
{
	int n = poll_end(&g_w.a) + poll_end(&g_w.b);

	assert_true(now_ns() < g_until_ns);
	if (!n && g_w.sim)
		sim_step(g_w.sim, now_ns() + 10 * NS_PER_MS);
}

/* Nothing more is to come: a while of turns. */
void settle(void)
{
	uint64_t end_ns = now_ns() + (g_w.sim ? 2 * NS_PER_SEC : 5 * NS_PER_MS);

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

void expect_state(struct end *e)
{
	const struct cassini_event *ev = cassini_eq_peek(e->teq);

	assert_non_null(ev);
	assert_int_equal(ev->type, CASSINI_EV_STATE_CHANGE);
	cassini_eq_pop(e->teq);
}

void dom_open(struct end *e)
{
	struct cassini_dom_attr dom = {.vni = VNI, .pid = PID};
	struct cassini_le_attr le = {.list = CASSINI_PRIORITY, .flags = LE_QUIET | CASSINI_LE_EVENT_COMM_DISABLE,
				     .start = e->mem, .length = MEM_LEN, .match_id = CASSINI_MATCH_ID_ANY,
				     .ignore_bits = UINT64_MAX};

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

void dom_close(struct end *e)
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
	struct cassini_open_attr attr = {.dev_idx = idx, .lock = &e->lock, .no_thread = true,
					 .world = sim_world(g_w.sim)};
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

void on_all_paths(void (*body)(void))
{
	struct rng rng = unit_rng();
	int64_t live;

	for (enum path path = 0; path < PATH_NUM; path++) {
		struct sim_attr attr = {.seed = rng_u64(&rng), .jitter_ns = 2000};

		print_message("path %s\n", path_name[path]);
		live = mem_live_count();
		memset(&g_w, 0, sizeof(g_w));
		g_w.path = path;
		g_w.rng = rng;
		if (path == PATH_LOSSY) {
			attr.drop_ppm = 50000;
			attr.dup_ppm = 20000;
			attr.reorder_ppm = 50000;
		}
		if (path != PATH_SHM)
			assert_int_equal(sim_world_open(&attr, &g_w.sim), 0);
		end_open(&g_w.a, 0);
		end_open(&g_w.b, 1);
		body();
		if (g_w.sim) /* a Get has ended before its target knows; time would stand still while that closes */
			settle();
		end_close(&g_w.a);
		end_close(&g_w.b);
		sim_world_close(g_w.sim);
		assert_int_equal(mem_live_count(), live);
	}
}

/* --- commands and events --- */

struct end *other(const struct end *e)
{
	return e == &g_w.a ? &g_w.b : &g_w.a;
}

struct cassini_cmd cmd_of(struct end *e, enum cassini_opcode opcode, unsigned idx, void *local, uint32_t len)
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

void post(struct end *e, const struct cassini_cmd *cmd)
{
	int rc;

	UNTIL((rc = cassini_post(e->cq, cmd)) != -EAGAIN);
	assert_int_equal(rc, 0);
}

struct cassini_event next_of(struct cassini_eq *eq)
{
	const struct cassini_event *peek;
	struct cassini_event ev;

	UNTIL((peek = cassini_eq_peek(eq)));
	ev = *peek;
	cassini_eq_pop(eq);
	return ev;
}

struct cassini_event expect(struct cassini_eq *eq, enum cassini_event_type type, enum cassini_rc rc)
{
	struct cassini_event ev = next_of(eq);

	if (ev.type != type || ev.rc != rc)
		print_message("event %u %s in place of %u %s\n", ev.type, cassini_rc_str(ev.rc), type,
			      cassini_rc_str(rc));
	assert_int_equal(ev.type, type);
	assert_int_equal(ev.rc, rc);
	return ev;
}

void none(struct cassini_eq *eq)
{
	assert_null(cassini_eq_peek(eq));
}

void fill(uint8_t *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + (i >> 8) * 7 + salt);
}

void msg_append(struct end *e, enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t user_ptr)
{
	struct cassini_le_attr le = {.list = list, .flags = LE_QUIET | flags, .start = start, .length = len,
				     .match_id = CASSINI_MATCH_ID_ANY, .ignore_bits = UINT64_MAX, .user_ptr = user_ptr};

	assert_int_equal(cassini_append(e->msg, &le, NULL), 0);
}

void rput(uint32_t len, uint32_t eager, unsigned i)
{
	struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_RENDEZVOUS_PUT, MSG, g_w.a.mem, len);

	fill(g_w.a.mem, len, i);
	memset(g_w.b.mem, 0, len);
	cmd.eager_length = eager;
	cmd.rendezvous_id = (uint8_t)i;
	cmd.get_bits = GET_BITS + i;
	post(&g_w.a, &cmd);
}

void pair_env(void)
{
	unsetenv("SOFTFABRIC_CONF");
	unsetenv("SOFTFABRIC_NET");
	setenv("SOFTFABRIC_CXI", "nics=2", 1);
}
