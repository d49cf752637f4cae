// SPDX-License-Identifier: BSD-2-Clause
// Two soft Cassini adapters end to end: return codes, death, closing, and everything together; on every path.
#include "cassini_pair.h"

#include <sys/mman.h>

#include "base/guard.h"
#include "nic/cassini/cassini_int.h"

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
	struct cassini_le_attr le = {.flags = LE_QUIET & ~CASSINI_LE_OP_GET, .start = g_w.b.mem, .length = 4096,
				     .match_id = CASSINI_MATCH_ID_ANY, .match_bits = 9};
	struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem, 64);

	for (uint32_t len = 64; len < 30000; len += 20000) {
		cmd.request_len = len;
		expect_rc(&g_w.a, cmd, CASSINI_RC_ENTRY_NOT_FOUND);
	}
	assert_int_equal(cassini_append(g_w.b.msg, &le, NULL), 0);
	cmd.opcode = CASSINI_OP_GET;
	cmd.match_bits = 9;
	expect_rc(&g_w.a, cmd, CASSINI_RC_OP_VIOLATION);
	cmd.opcode = CASSINI_OP_PUT;
	cmd.flags = CASSINI_CMD_RESTRICTED; /* to a matching PTE */
	expect_rc(&g_w.a, cmd, CASSINI_RC_RESTRICTED_UNICAST);
	cmd.flags = 0;
	cmd.pid_idx = 77;
	expect_rc(&g_w.a, cmd, CASSINI_RC_PTLTE_NOT_FOUND);
	cmd.opcode = CASSINI_OP_RENDEZVOUS_PUT;
	expect_rc(&g_w.a, cmd, CASSINI_RC_PTLTE_NOT_FOUND);
	cmd.opcode = CASSINI_OP_GET;
	cmd.pid_idx = SRC; /* nothing is offered */
	expect_rc(&g_w.a, cmd, CASSINI_RC_NO_TRANSLATION);
	cmd.opcode = CASSINI_OP_PUT;
	cmd.pid_idx = MSG;
	assert_int_equal(cassini_set_state(g_w.b.msg, CASSINI_PTE_DISABLED, CASSINI_DROP_IGNORE), 0);
	expect_state(&g_w.b);
	expect_rc(&g_w.a, cmd, CASSINI_RC_PT_DISABLED);
	cmd.pid = PID + 1; /* nobody */
	expect_rc(&g_w.a, cmd, CASSINI_RC_UNDELIVERABLE);
	cmd.opcode = CASSINI_OP_GET;
	expect_rc(&g_w.a, cmd, CASSINI_RC_UNDELIVERABLE);
	settle();
	none(g_w.b.teq);
}

static void codes__of_the_target(void **state)
{
	on_all_paths(codes_body);
}

/* The memory of a Get goes while it is under way: what answers it is sent before anybody can know. */
static void gone_body(void)
{
	const size_t len = 40000;
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct cassini_cmd cmd;

	assert_ptr_not_equal(mem, MAP_FAILED);
	cmd = cmd_of(&g_w.b, CASSINI_OP_GET, REGION, mem, (uint32_t)len);
	post(&g_w.b, &cmd);
	assert_int_equal(mprotect(mem, len, PROT_NONE), 0); /* nobody else gets its place */
	expect(g_w.b.eq, CASSINI_EV_REPLY, CASSINI_RC_NO_TRANSLATION);
	settle();
	munmap(mem, len);
}

static void get__into_memory_that_goes(void **state)
{
	guard_init();
	on_all_paths(gone_body);
}

/* VNIs 24 apart share their UDP ports: the Domain there is of another VNI, and says so. */
static void vni_body(void)
{
	struct cassini_dom_attr attr = {.vni = VNI + 24, .pid = PID + 3};
	struct cassini_cmdq_attr cq_attr = {.depth = 4};
	struct cassini_dom *own = g_w.a.dom;
	struct cassini_cmdq *cq = g_w.a.cq;
	struct cassini_cmd cmd;

	assert_int_equal(
		cassini_cp_open(g_w.a.lni, VNI + 24, CASSINI_TC_BEST_EFFORT, CASSINI_TC_TYPE_DEFAULT, &cq_attr.cp), 0);
	assert_int_equal(cassini_cmdq_open(g_w.a.lni, &cq_attr, &g_w.a.cq), 0);
	assert_int_equal(cassini_dom_open(g_w.a.lni, &attr, &g_w.a.dom), 0);
	cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, MSG, g_w.a.mem, 8);
	expect_rc(&g_w.a, cmd, CASSINI_RC_VNI_NOT_FOUND);
	cmd.dom = own;
	assert_int_equal(cassini_post(g_w.a.cq, &cmd), -EACCES);
	cassini_dom_close(g_w.a.dom);
	g_w.a.dom = own;
	cassini_cmdq_close(g_w.a.cq);
	g_w.a.cq = cq;
	cassini_cp_close(cq_attr.cp);
}

static void codes__another_vni(void **state)
{
	on_all_paths(vni_body);
}

static void death_body(void)
{
	struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, 8);
	uint8_t *over = g_w.b.mem + (2u << 20);

	for (int life = 0; life < 3; life++) {
		struct cassini_event ev;

		post(&g_w.a, &cmd);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		/* a rendezvous that nobody will ever fetch */
		msg_append(&g_w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
		rput(30000, 2048, 1);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		dom_close(&g_w.b);
		ev = expect(g_w.a.teq, CASSINI_EV_GET, CASSINI_RC_UNDELIVERABLE);
		assert_true(ev.match_bits == GET_BITS + 1);
		post(&g_w.a, &cmd);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_UNDELIVERABLE);
		/* somebody else at the same address: at once, whatever was known of the old one */
		dom_open(&g_w.b);
	}
	post(&g_w.a, &cmd);
	expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
}

static void death__and_a_new_life(void **state)
{
	on_all_paths(death_body);
}

/*
 * The new one comes before anybody has noticed that the old one went. What is posted before the first poll may still go
 * to the old one's place and end as undeliverable, but only that. Where all goodbyes may be lost so may the first one
 * that is posted later: nothing else would tell.
 */
static void replaced_body(void)
{
	struct cassini_cmd cmd = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, 8);

	for (unsigned life = 0; life < 6; life++) {
		struct cassini_event ev;

		post(&g_w.a, &cmd);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		settle();
		dom_close(&g_w.b);
		dom_open(&g_w.b);
		fill(g_w.a.mem, 8, life);
		memset(g_w.b.mem, 0xdd, 8);
		if ((life & 1) && g_w.path != PATH_LOSSY) {
			uint64_t end_ns = now_ns() + 300 * NS_PER_MS; /* shared memory looks around now and then */

			UNTIL(now_ns() >= end_ns);
		} else {
			post(&g_w.a, &cmd);
			ev = next_of(g_w.a.eq);
			assert_true(ev.rc == CASSINI_RC_OK || ev.rc == CASSINI_RC_UNDELIVERABLE);
		}
		post(&g_w.a, &cmd);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		assert_memory_equal(g_w.b.mem, g_w.a.mem, 8);
	}
}

static void death__replaced_at_once(void **state)
{
	on_all_paths(replaced_body);
}

/*
 * The old one goes while it owes nothing, so that nothing of ours fails and tells; then the new one takes a rendezvous,
 * which nobody fetches for longer than the watch waits. It is owed by the new one, and stays.
 */
static void quiet_body(void)
{
	struct cassini_cmd get = cmd_of(&g_w.a, CASSINI_OP_GET, REGION, g_w.a.mem, 8);
	uint8_t *over = g_w.b.mem + (2u << 20);
	uint64_t end_ns;

	post(&g_w.a, &get); /* from its answer it is known who is there */
	expect(g_w.a.eq, CASSINI_EV_REPLY, CASSINI_RC_OK);
	settle();
	dom_close(&g_w.b);
	end_ns = now_ns() + 300 * NS_PER_MS; /* shared memory looks around now and then */
	UNTIL(now_ns() >= end_ns);
	dom_open(&g_w.b);
	msg_append(&g_w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	rput(30000, 2048, 1);
	expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
	end_ns = now_ns() + 600 * NS_PER_MS;
	UNTIL(now_ns() >= end_ns);
	none(g_w.a.teq);
	/* and when that one goes, it is told */
	dom_close(&g_w.b);
	expect(g_w.a.teq, CASSINI_EV_GET, CASSINI_RC_UNDELIVERABLE);
	dom_open(&g_w.b);
}

static void death__of_one_who_owed_nothing(void **state)
{
	on_all_paths(quiet_body);
}

/* Commands that are under way, held, and waiting when their own side closes. */
static void close_body(void)
{
	struct cassini_cmd put = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, 100000);
	unsigned ended = 0, posted = 0;

	while (posted < 20 && !cassini_post(g_w.a.cq, &put))
		posted++;
	assert_in_range(posted, 1, 20);
	dom_close(&g_w.a);
	for (; cassini_eq_peek(g_w.a.eq); cassini_eq_pop(g_w.a.eq), ended++)
		assert_true(cassini_eq_peek(g_w.a.eq)->rc == CASSINI_RC_OK ||
			    cassini_eq_peek(g_w.a.eq)->rc == CASSINI_RC_CANCELED);
	assert_int_equal(ended, posted);
	assert_true(cassini_cmdq_is_idle(g_w.a.cq));
}

static void close__everything_ends_once(void **state)
{
	on_all_paths(close_body);
}

/* Who sends gives its memory back: to a Get that comes later, and there is one, nothing is there any more. */
static void forgotten(uint32_t eager, unsigned i, bool is_taken)
{
	const uint32_t len = 300000;
	struct cassini_event ev;

	rput(len, eager, i);
	if (is_taken)
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
	cassini_eq_forget(g_w.a.lni, g_w.a.eq);
	assert_true(mt_unexp_find(&g_w.a.dom->rdzv, CASSINI_MATCH_ID(PID, cassini_info(g_w.b.nic)->nic), GET_BITS + i,
				  0) == NULL);
	ev = expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
	assert_true(ev.rendezvous && !ev.get_issued);
	msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, 1u << 20, 8);
	assert_true(expect(g_w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK).get_issued);
	assert_int_equal(expect(g_w.b.teq, CASSINI_EV_REPLY, CASSINI_RC_NO_TRANSLATION).user_ptr, 8);
	settle();
	for (uint32_t k = ev.mlength; k < len; k++)
		assert_int_equal(g_w.b.mem[k], 0);
	none(g_w.a.teq);
	none(g_w.a.eq);
	UNTIL(!slab_used(&g_w.a.dom->ops));
}

static void forgotten_body(void)
{
	uint8_t *over = g_w.b.mem + (2u << 20);

	msg_append(&g_w.b, CASSINI_OVERFLOW, CASSINI_LE_MANAGE_LOCAL, over, 1u << 20, 7);
	for (unsigned i = 0; i < 4; i++) {
		forgotten(i & 1 ? 2048 : 0, i, i & 2);
		/* what that one was called may be the next one's name */
		rput(100000, 2048, i);
		expect(g_w.a.eq, CASSINI_EV_ACK, CASSINI_RC_OK);
		expect(g_w.b.teq, CASSINI_EV_PUT, CASSINI_RC_OK);
		msg_append(&g_w.b, CASSINI_PRIORITY, CASSINI_LE_USE_ONCE, g_w.b.mem, 1u << 20, 9);
		expect(g_w.b.teq, CASSINI_EV_PUT_OVERFLOW, CASSINI_RC_OK);
		expect(g_w.b.teq, CASSINI_EV_REPLY, CASSINI_RC_OK);
		expect(g_w.a.teq, CASSINI_EV_GET, CASSINI_RC_OK);
	}
}

static void forget__a_rendezvous_is_not_fetched(void **state)
{
	on_all_paths(forgotten_body);
}

/* A Put that its target fetches: the region goes with whoever would hear of its end. */
static void forgotten_put_body(void)
{
	struct cassini_cmd put = cmd_of(&g_w.a, CASSINI_OP_PUT, REGION, g_w.a.mem, 1u << 20);
	uint32_t used = slab_used(&g_w.a.dom->ops);

	post(&g_w.a, &put);
	assert_int_equal(slab_used(&g_w.a.dom->ops), used + 1);
	cassini_eq_forget(g_w.a.lni, g_w.a.eq);
	fill(g_w.a.mem, 1u << 20, 77);
	settle();
	UNTIL(!slab_used(&g_w.a.dom->ops));
	none(g_w.a.eq);
	assert_true(memcmp(g_w.b.mem, g_w.a.mem, 1u << 20) != 0);
}

static void forget__a_put_is_not_fetched(void **state)
{
	on_all_paths(forgotten_put_body);
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

/*
 * Each slot of the memory is used by one command at a time: first half of a slot is the source, the peer's second half
 * of the same slot the target.
 */
static bool soak_post(struct soak *s)
{
	uint32_t slot = (uint32_t)rng_below(&g_w.rng, SLOTS);
	uint8_t *near = s->e->mem + slot * SLOT_LEN * 2, kind = (uint8_t)rng_below(&g_w.rng, 2);
	uint32_t len = (uint32_t)rng_below(&g_w.rng, rng_below(&g_w.rng, 2) ? SLOT_LEN : 300);
	struct cassini_cmd cmd = cmd_of(s->e, kind ? CASSINI_OP_GET : CASSINI_OP_PUT, REGION, near, len);

	if (s->is_busy[slot] || s->posted == SOAK_OPS)
		return false;
	if (!kind)
		fill(near, len, s->posted);
	cmd.remote_offset = slot * SLOT_LEN * 2 + SLOT_LEN;
	cmd.flags = rng_below(&g_w.rng, 2) ? CASSINI_CMD_RESTRICTED : 0;
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
	struct soak s[2] = {{.e = &g_w.a}, {.e = &g_w.b}};

	g_until_ns = now_ns() + (g_w.sim ? SIM_NS : REAL_NS);
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
	assert_true(cassini_cmdq_is_idle(g_w.a.cq) && cassini_cmdq_is_idle(g_w.b.cq));
}

static void soak__each_command_ends_once(void **state)
{
	on_all_paths(soak_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes__of_the_target),
		cmocka_unit_test(codes__another_vni),
		cmocka_unit_test(get__into_memory_that_goes),
		cmocka_unit_test(death__and_a_new_life),
		cmocka_unit_test(death__replaced_at_once),
		cmocka_unit_test(death__of_one_who_owed_nothing),
		cmocka_unit_test(close__everything_ends_once),
		cmocka_unit_test(forget__a_rendezvous_is_not_fetched),
		cmocka_unit_test(forget__a_put_is_not_fetched),
		cmocka_unit_test(soak__each_command_ends_once),
	};

	pair_env();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
