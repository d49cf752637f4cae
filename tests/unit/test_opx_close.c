// SPDX-License-Identifier: BSD-2-Clause
// Something of opx closes that is in use: an endpoint while another thread has let go of the lock in the middle of a
// pass of it; a region while something that serves a peer refers to it.
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "opx_world.h"
#include "prov/opx/flow/opx_flow_int.h"

static struct world w;

struct closer {
	pthread_t thread;
	_Atomic bool is_done;
};

static void *closer_main(void *arg)
{
	struct closer *c = arg;

	assert_int_equal(fi_close(&w.ep[2]->fid), 0);
	atomic_store(&c->is_done, true);
	return NULL;
}

static struct lock *lock_of(void)
{
	return &world_ep(&w, 0)->domain->kit.lock;
}

/* Somebody closes an endpoint that is in use, as @in_use says in it: it waits until it is not. */
static void close_waits(void (*in_use)(struct opx_ep *ep, bool on))
{
	struct opx_ep *ep = world_ep(&w, 2);
	struct closer c = {0};
	uint64_t until;

	lock_acquire(lock_of());
	in_use(ep, true);
	lock_release(lock_of());
	assert_int_equal(pthread_create(&c.thread, NULL, closer_main, &c), 0);
	for (until = clk_now_ns(NULL) + 50 * NS_PER_MS; clk_now_ns(NULL) < until; usleep(1000))
		assert_false(atomic_load(&c.is_done));
	lock_acquire(lock_of());
	in_use(ep, false); /* in memory that is still its own */
	lock_release(lock_of());
	assert_int_equal(pthread_join(c.thread, NULL), 0);
	w.ep[2] = NULL;
}

static void hold(struct opx_ep *ep, bool on)
{
	ep->holds = on;
}

static void run_timers(struct opx_ep *ep, bool on)
{
	ep->rel->is_running = on;
}

static void close__while_somebody_holds_it(void **state)
{
	world_open(&w, 0);
	close_waits(hold);
	world_close(&w);
}

static void close__while_timers_run(void **state)
{
	world_open(&w, 0);
	close_waits(run_timers);
	world_close(&w);
}

/* The list of flows has one reader: another one would take out what the first is at. */
static void timers__one_thread_at_a_time(void **state)
{
	struct opx_rel *rel;

	world_open(&w, WORLD_UDP);
	lock_acquire(lock_of());
	rel = world_ep(&w, 0)->rel;
	rel->is_running = true;
	rel->next_ns = 0;
	for (int i = 0; i < 1000; i++)
		opx_rel_progress(rel);
	assert_int_equal(rel->next_ns, 0);
	rel->is_running = false;
	for (int i = 0; i < 1000 && !rel->next_ns; i++)
		opx_rel_progress(rel);
	assert_int_not_equal(rel->next_ns, 0);
	assert_false(rel->is_running);
	lock_release(lock_of());
	world_close(&w);
}

static void (*others_turn)(void); /* once, when memory is hidden next */
void __real_hfi_conceal(struct hfi_ctxt *c, uint32_t key);
void __wrap_hfi_conceal(struct hfi_ctxt *c, uint32_t key);

/* As where a stopped process is in the middle of a copy out of that memory: the lock is let go of. */
void __wrap_hfi_conceal(struct hfi_ctxt *c, uint32_t key)
{
	void (*turn)(void) = others_turn;

	others_turn = NULL;
	__real_hfi_conceal(c, key);
	if (turn)
		turn();
}

static void look_any(void *obj, void *arg)
{
	*(struct opx_op **)arg = obj;
}

static void ops_end(void)
{
	for (struct opx_op *op = NULL;; op = NULL) {
		slab_foreach(&world_ep(&w, 1)->op_slab, look_any, &op);
		if (!op)
			break;
		opx_op_fail(op, FI_EIO, OPX_ST_COPY);
	}
}

/* What waits for its end when its endpoint closes ends while its memory is hidden: once. */
static void close__while_operations_end(void **state)
{
	static uint8_t src[8];
	struct iovec iov = {src, sizeof(src)};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1};

	(void)state;
	world_open(&w, 0);
	m.addr = w.to[0];
	for (int i = 0; i < 3; i++) /* each has a copy, which its receiver may fetch and does not */
		assert_int_equal(fi_tsendmsg(w.ep[1], &m, FI_INJECT | FI_DELIVERY_COMPLETE), 0);
	others_turn = ops_end;
	assert_int_equal(fi_close(&w.ep[1]->fid), 0);
	assert_null(others_turn);
	w.ep[1] = NULL;
	world_close(&w);
}

#define LEN 70000u

static void look_op(void *obj, void *arg)
{
	struct opx_op *op = obj, **found = arg;

	if (op->kind == OPX_OP_SERVE || op->key_cnt)
		*found = op;
}

/* What serves a peer in endpoint 0, or has memory of endpoint 1 shown to others. */
static struct opx_op *op_of(int ep)
{
	struct opx_op *op = NULL;

	slab_foreach(&world_ep(&w, ep)->op_slab, look_op, &op);
	return op;
}

/* Memory of endpoint 1 that the victim may read: of a message that is on its way. */
static struct opx_piece exposed(uint8_t *mem)
{
	assert_int_equal(fi_tsend(w.ep[1], mem, LEN, NULL, w.to[0], 9, mem), 0);
	assert_true(op_of(1) && op_of(1)->key_cnt == 1);
	return (struct opx_piece){
		.addr = le64_put((uintptr_t)mem), .len = le64_put(LEN), .key = le32_put(op_of(1)->keys[0])};
}

/*
 * What serves a peer is ended by fi_close() of its region, but somebody refers to it still, as packets do whose
 * receiver does not answer. The call waits for that, but not for ever: after a second, however quick its polls are, it
 * says so.
 */
static void region__served_for_ever(void **state)
{
	static uint8_t src[LEN], mem[LEN];
	struct opx_piece piece;
	struct opx_op *op;
	struct fid_mr *mr;
	struct hfi_hdr h;
	uint64_t begin;
	struct view v;

	(void)state;
	world_open(&w, 0);
	assert_int_equal(fi_mr_reg(w.domain, mem, LEN, FI_REMOTE_WRITE, 0, WORLD_KEY + 9, 0, &mr, NULL), 0);
	piece = exposed(src);
	h = world_hdr(&w, OPX_RMA, OPX_SUB_PUT_LOCAL, OPX_NO_HANDLE);
	h.w[1] = le64_put(WORLD_KEY + 9);
	h.tag = le64_put(LEN);
	v = view_of(&piece, sizeof(piece));
	assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
	op = op_of(0);
	assert_true(op && op->is_copying);
	op->refs++;
	begin = clk_now_ns(NULL);
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_in_range(clk_now_ns(NULL) - begin, NS_PER_SEC, 10 * NS_PER_SEC * unit_slow());
	assert_ptr_equal(op_of(0), op);
	assert_true(op->is_over && !op->is_copying && op->mr_key == UINT64_MAX);
	lock_acquire(lock_of());
	op->refs--;
	opx_op_check(op);
	lock_release(lock_of());
	assert_null(op_of(0));
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__while_somebody_holds_it),
		cmocka_unit_test(close__while_timers_run),
		cmocka_unit_test(close__while_operations_end),
		cmocka_unit_test(timers__one_thread_at_a_time),
		cmocka_unit_test(region__served_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
