// SPDX-License-Identifier: BSD-2-Clause
// Ends that opx must not invent: of writes with CQ data, and of a message whose packets nobody has acknowledged.
#include <string.h>

#include "base/clock.h"
#include "opx_world.h"
#include "prov/opx/flow/opx_flow_int.h"

#define LEN 200000u /* goes by rendezvous and SDMA, and fits the window */

static struct world w;

static uint64_t end_ns(void)
{
	return clk_now_ns(NULL) + 20 * NS_PER_SEC * unit_slow();
}

static struct lock *lock_of(void)
{
	return &world_ep(&w, 0)->domain->kit.lock;
}

/* Until endpoint @ep reports the end of something. Return: as world_poll(). */
static int finish(int ep, void **ctx, struct fi_cq_err_entry *err)
{
	uint64_t end = end_ns();

	while (clk_now_ns(NULL) < end) {
		int rc = world_poll(&w, ep, ctx, err);

		if (rc)
			return rc;
		world_run(&w, 1);
	}
	fail();
	return 0;
}

/* The target of a write has no memory to serve it: its CQ data announce nothing. */
static void data__target_without_memory(void **state)
{
	static const uint8_t src[WORLD_MR_LEN];
	struct opx_piece piece = {.len = le64_put(sizeof(src))};
	struct opx_ep *ep, *from;
	uint8_t handle[4];
	struct fi_cq_err_entry err;
	struct hfi_hdr h;
	struct view v;
	void *ctx;

	(void)state;
	world_open(&w, 0);
	ep = world_ep(&w, 0);
	from = world_ep(&w, 1);
	lock_acquire(lock_of());
	slab_fini(&ep->op_slab);
	assert_int_equal(slab_init(&ep->op_slab, sizeof(struct opx_op), CACHE_LINE, 1, 1), 0);
	assert_non_null(slab_get(&ep->op_slab)); /* all there is */
	opx_peer_find(from, w.to[0])->silent = 1;
	lock_release(lock_of());

	memset(handle, 0xff, sizeof(handle));
	h = world_hdr(&w, OPX_RMA, OPX_SUB_PUT_LOCAL, OPX_DATA_HANDLE);
	h.w[1] = le64_put(WORLD_KEY);
	h.tag = le64_put(sizeof(src));
	v = view_of(&piece, sizeof(piece));
	assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
	h.aux = OPX_SUB_PUT_DATA;
	v = view_of(handle, sizeof(handle));
	assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
	for (uint64_t end = end_ns(); !from->kit.late_cnt && clk_now_ns(NULL) < end;)
		assert_int_equal(world_poll(&w, 1, &ctx, &err), 0);
	assert_int_equal(from->kit.late_cnt, 1);
	assert_int_equal(from->kit.late_errno, OPX_ST_NOMEM);
	assert_int_equal(world_poll(&w, 0, &ctx, &err), 0);
	world_close(&w);
}

/* As if @cnt more packets than there are had not been acknowledged. */
static void fill(struct opx_flow *f, uint32_t cnt)
{
	lock_acquire(lock_of());
	f->tx_una = psn_add(f->tx_una, 0u - cnt);
	opx_flow_look(f);
	lock_release(lock_of());
}

/* A write of nothing with CQ data is two packets, of which only the first finds room: it has begun, and counts once. */
static void data__of_nothing_counts_once(void **state)
{
	struct fid_cntr *cntr;
	struct fi_cq_err_entry err;
	struct opx_flow *f;
	uint32_t more;
	ssize_t rc;
	void *ctx;

	(void)state;
	world_open(&w, 0);
	assert_int_equal(fi_cntr_open(w.domain, NULL, &cntr, NULL), 0);
	world_ep(&w, 1)->kit.cntr[KIT_CNTR_REMOTE_WRITE] = container_of(cntr, struct kit_cntr, fid);
	f = &world_peer(&w, 1)->flow;
	assert_true(f->is_local && f->pass > 1);
	more = f->pass - 1;
	fill(f, more);
	rc = fi_writedata(w.ep[0], NULL, 0, NULL, 99, w.to[1], 0, WORLD_KEY, &w);
	fill(f, 0u - more);
	if (rc == -FI_EAGAIN) /* nothing has happened */
		rc = fi_writedata(w.ep[0], NULL, 0, NULL, 99, w.to[1], 0, WORLD_KEY, &w);
	assert_int_equal(rc, 0);
	assert_int_equal(finish(1, &ctx, &err), 1);
	assert_int_equal(finish(0, &ctx, &err), 1);
	assert_ptr_equal(ctx, &w);
	assert_int_equal(fi_cntr_read(cntr), 1);
	world_ep(&w, 1)->kit.cntr[KIT_CNTR_REMOTE_WRITE] = NULL;
	assert_int_equal(fi_close(&cntr->fid), 0);
	world_close(&w);
}

static void look_op(void *obj, void *arg)
{
	*(struct opx_op **)arg = obj;
}

/*
 * The target knows by their order which announcement belongs to which copy. One that has found no room, which the
 * adapter's thread may make while nobody calls for progress, must not be overtaken by that of another write.
 */
static void data__announced_in_order(void **state)
{
	static uint8_t src[2][WORLD_MR_LEN];
	const size_t len = WORLD_MR_LEN;
	struct opx_op *first = NULL;
	struct fi_cq_err_entry err;
	struct opx_flow *f;
	uint32_t more;
	void *ctx;

	(void)state;
	world_open(&w, 0);
	world_ep(&w, 0)->mtu = 2048; /* they are more than a packet: copied */
	f = &world_peer(&w, 1)->flow;
	more = f->pass - 1;
	fill(f, more);
	assert_int_equal(fi_writedata(w.ep[0], src[0], len, NULL, 1, w.to[1], 0, WORLD_KEY, src[0]), 0);
	slab_foreach(&world_ep(&w, 0)->op_slab, look_op, &first);
	assert_true(first && first->in_pump && first->sent == len);
	fill(f, 0u - more);
	assert_int_equal(fi_writedata(w.ep[0], src[1], len, NULL, 2, w.to[1], 0, WORLD_KEY, src[1]), 0);
	assert_false(first->in_pump);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(finish(0, &ctx, &err), 1);
		assert_ptr_equal(ctx, src[i]);
	}
	world_close(&w);
}

/* All packets of a message have left, none of them was acknowledged, and its receiver is gone: that is no success. */
static void message__not_acknowledged(void **state)
{
	static uint8_t src[LEN], dst[LEN];
	struct fi_cq_err_entry err;
	struct opx_op *op = NULL;
	uint64_t end = end_ns();
	void *ctx;

	(void)state;
	world_open(&w, WORLD_UDP);
	assert_int_equal(fi_recv(w.ep[1], dst, LEN, NULL, FI_ADDR_UNSPEC, dst), 0);
	assert_int_equal(fi_send(w.ep[0], src, LEN, NULL, w.to[1], src), 0);
	slab_foreach(&world_ep(&w, 0)->op_slab, look_op, &op);
	assert_true(op && !op->is_ahead && !op->needs_done);
	while (!world_ep(&w, 1)->stats.rx_rzv && clk_now_ns(NULL) < end)
		fi_cq_read(w.cq[1], NULL, 0);
	while (!op->is_posted && clk_now_ns(NULL) < end) /* the receiver looks no more */
		fi_cq_read(w.cq[0], NULL, 0);
	assert_true(op->is_posted && op->is_ref && op->refs);
	lock_acquire(lock_of());
	opx_flow_doom(&world_peer(&w, 1)->flow, OPX_ST_PEER_SILENT);
	lock_release(lock_of());
	assert_int_equal(finish(0, &ctx, &err), -1);
	assert_ptr_equal(ctx, src);
	assert_int_equal(err.err, FI_ETIMEDOUT);
	assert_int_equal(err.prov_errno, OPX_ST_PEER_SILENT);
	assert_int_equal(world_ep(&w, 0)->rel->refs, 0);
	world_close(&w);
}

/* A write to a key that nobody has is refused; the same one again, when somebody has it, is not. */
static void data__refused_once(void **state)
{
	static uint8_t src[WORLD_MR_LEN], dst[WORLD_MR_LEN];
	const uint64_t key = 777;
	struct fi_cq_err_entry err;
	struct fid_mr *mr;
	void *ctx;

	(void)state;
	memset(src, 7, sizeof(src));
	world_open(&w, 0);
	world_ep(&w, 0)->mtu = 2048; /* it is more than a packet: copied */
	assert_int_equal(fi_writedata(w.ep[0], src, sizeof(src), NULL, 1, w.to[1], 0, key, src), 0);
	assert_int_equal(finish(0, &ctx, &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_KEY);
	assert_int_equal(fi_mr_reg(w.domain, dst, sizeof(dst), FI_REMOTE_WRITE, 0, key, 0, &mr, NULL), 0);
	assert_int_equal(fi_writedata(w.ep[0], src, sizeof(src), NULL, 2, w.to[1], 0, key, src), 0);
	assert_int_equal(finish(0, &ctx, &err), 1);
	assert_memory_equal(dst, src, sizeof(dst));
	assert_int_equal(fi_close(&mr->fid), 0);
	world_close(&w);
}

/*
 * Of a write in several packets the first one is refused; the region is there when the last one comes. It is not whole:
 * its CQ data announce nothing, and it does not count as a write.
 */
static void data__refused_in_part(void **state)
{
	static uint8_t dst[2][1024];
	static const uint8_t src[1024];
	const uint64_t key = 777;
	struct fi_cq_err_entry err;
	struct opx_peer *from;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	uint8_t handle[4];
	struct hfi_hdr h;
	struct view v;
	void *ctx;

	(void)state;
	memset(handle, 0xff, sizeof(handle));
	world_open(&w, 0);
	assert_int_equal(fi_cntr_open(w.domain, NULL, &cntr, NULL), 0);
	world_ep(&w, 0)->kit.cntr[KIT_CNTR_REMOTE_WRITE] = container_of(cntr, struct kit_cntr, fid);
	for (int has_data = 0; has_data < 2; has_data++) {
		h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_PUT, has_data ? OPX_DATA_HANDLE : 12345);
		h.w[1] = le64_put(key);
		h.tag = le64_put(sizeof(dst));
		v = view_of(src, sizeof(src));
		assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
		assert_int_equal(fi_mr_reg(w.domain, dst, sizeof(dst), FI_REMOTE_WRITE, 0, key, 0, &mr, NULL), 0);
		h.w[0] = le64_put(sizeof(src));
		assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
		assert_int_equal(fi_cntr_read(cntr), 0);
		if (has_data)
			continue;
		/* the next one of the same name is whole */
		h.w[0] = le64_put(0);
		assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
		h.w[0] = le64_put(sizeof(src));
		assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
		assert_int_equal(fi_cntr_read(cntr), 1);
		assert_int_equal(fi_cntr_set(cntr, 0), 0);
		assert_int_equal(fi_close(&mr->fid), 0);
	}
	lock_acquire(lock_of());
	from = opx_peer_find(world_ep(&w, 1), w.to[0]);
	from->silent = 1;
	lock_release(lock_of());
	h = world_hdr(&w, OPX_RMA, OPX_SUB_PUT_DATA, 99);
	h.w[1] = le64_put(key);
	h.tag = le64_put(sizeof(dst));
	v = view_of(handle, sizeof(handle));
	assert_true(world_take(&w, &h, &v, HFI_RCV_EAGER));
	for (uint64_t end = end_ns(); !world_ep(&w, 1)->kit.late_cnt && clk_now_ns(NULL) < end;)
		assert_int_equal(world_poll(&w, 1, &ctx, &err), 0);
	assert_int_equal(world_ep(&w, 1)->kit.late_cnt, 1);
	assert_int_equal(world_ep(&w, 1)->kit.late_errno, OPX_ST_KEY);
	assert_int_equal(world_poll(&w, 0, &ctx, &err), 0);
	world_ep(&w, 0)->kit.cntr[KIT_CNTR_REMOTE_WRITE] = NULL;
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(fi_close(&mr->fid), 0);
	world_close(&w);
}

/* --- messages for which there is no memory --------------------------------------------------------- */

/* The victim can keep one message that has no receive, and keeps it. Return: what to give back for another one. */
static void *ins_take(void)
{
	struct opx_ep *ep = world_ep(&w, 0);
	void *in;

	lock_acquire(lock_of());
	slab_fini(&ep->in_slab);
	assert_int_equal(slab_init(&ep->in_slab, sizeof(struct opx_in), CACHE_LINE, 1, 1), 0);
	in = slab_get(&ep->in_slab);
	lock_release(lock_of());
	assert_non_null(in);
	return in;
}

static void ins_give(void *in)
{
	lock_acquire(lock_of());
	slab_put(&world_ep(&w, 0)->in_slab, in);
	lock_release(lock_of());
}

/* Until that many packets had no memory. */
static void until_unkept(uint64_t cnt)
{
	const struct opx_rel_stats *st = opx_rel_stats(world_ep(&w, 0)->rel);

	for (uint64_t end = end_ns(); st->unkept < cnt && clk_now_ns(NULL) < end;)
		world_run(&w, 1);
	assert_true(st->unkept >= cnt);
}

static const size_t message_len[] = {8, 1000, 12000}; /* in the header, in a packet, in several */

/* Between hosts it comes again until there is some, and what is behind it waits. */
static void unkept__comes_again(void **state)
{
	static uint8_t src[12000], dst[2][12000];
	struct fi_cq_err_entry err;
	void *ctx, *in;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(message_len); i++) {
		size_t len = message_len[i];

		memset(src, 5 + (int)i, sizeof(src));
		world_open(&w, WORLD_UDP);
		in = ins_take();
		assert_int_equal(fi_tsend(w.ep[1], src, len, NULL, w.to[0], 1, src), 0);
		assert_int_equal(fi_tsend(w.ep[1], src, 4, NULL, w.to[0], 2, dst), 0);
		until_unkept(3);
		ins_give(in);
		assert_int_equal(fi_trecv(w.ep[0], dst[0], len, NULL, w.to[1], 1, 0, dst[0]), 0);
		assert_int_equal(finish(0, &ctx, &err), 1);
		assert_ptr_equal(ctx, dst[0]);
		assert_memory_equal(dst[0], src, len);
		assert_int_equal(fi_trecv(w.ep[0], dst[1], len, NULL, w.to[1], 2, 0, dst[1]), 0);
		assert_int_equal(finish(0, &ctx, &err), 1);
		assert_ptr_equal(ctx, dst[1]);
		for (int n = 0; n < 2; n++)
			assert_int_equal(finish(1, &ctx, &err), 1);
		assert_int_equal(world_ep(&w, 1)->kit.late_cnt, 0);
		world_close(&w);
	}
}

/* On one host nobody has a copy: its sender is told, and both go on. */
static void unkept__is_told(void **state)
{
	static uint8_t src[12000], dst[12000];
	struct fi_cq_err_entry err;
	struct opx_ep *from;
	void *ctx, *in;
	ssize_t rc;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(message_len); i++) {
		uint64_t end = end_ns();

		world_open(&w, 0);
		from = world_ep(&w, 1);
		in = ins_take();
		assert_int_equal(fi_tsend(w.ep[1], src, message_len[i], NULL, w.to[0], 1, src), 0);
		until_unkept(1);
		while (!from->kit.late_cnt && clk_now_ns(NULL) < end)
			world_run(&w, 1);
		assert_int_equal(from->kit.late_cnt, 1);
		assert_int_equal(from->kit.late_errno, OPX_ST_UNKEPT);
		ins_give(in);
		assert_int_equal(finish(1, &ctx, &err), 1); /* it had left */
		assert_int_equal(fi_trecv(w.ep[0], dst, sizeof(dst), NULL, w.to[1], 2, 0, dst), 0);
		while ((rc = fi_tsend(w.ep[1], src, 4, NULL, w.to[0], 2, src)) == -FI_EAGAIN && clk_now_ns(NULL) < end)
			world_run(&w, 1);
		assert_int_equal(rc, 0);
		assert_int_equal(finish(0, &ctx, &err), 1);
		assert_ptr_equal(ctx, dst);
		assert_int_equal(from->kit.late_cnt, 1);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data__target_without_memory),
		cmocka_unit_test(data__refused_once),
		cmocka_unit_test(data__refused_in_part),
		cmocka_unit_test(unkept__comes_again),
		cmocka_unit_test(unkept__is_told),
		cmocka_unit_test(data__of_nothing_counts_once),
		cmocka_unit_test(data__announced_in_order),
		cmocka_unit_test(message__not_acknowledged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
