// SPDX-License-Identifier: BSD-2-Clause
// See efanic_fix.h.
#include "efanic_fix.h"

#include <string.h>

#include "base/mem.h"

void world_open(struct world *w, const char *conf)
{
	struct efanic_open_attr attr = {.lock = &w->lock, .no_thread = true};

	memset(w, 0, sizeof(*w));
	fake_reset();
	w->live = mem_live_count();
	unsetenv("SOFTFABRIC_CONF");
	if (conf)
		setenv("SOFTFABRIC_EFA", conf, 1);
	else
		unsetenv("SOFTFABRIC_EFA");
	assert_int_equal(efanic_open(&attr, &w->nic), 0);
	lock_acquire(&w->lock);
	assert_int_equal(efanic_ah_open(w->nic, efanic_attr(w->nic)->gid, &w->ahn), 0);
}

void world_close(struct world *w)
{
	if (w->ab)
		efanic_dst_put(w->ab);
	if (w->ba)
		efanic_dst_put(w->ba);
	if (w->a.qp)
		efanic_qp_close(w->a.qp);
	if (w->b.qp)
		efanic_qp_close(w->b.qp);
	assert_int_equal(slab_used(&w->nic->dsts), 0);
	assert_int_equal(slab_used(&w->nic->mrs), 0);
	lock_release(&w->lock);
	efanic_close(w->nic);
	assert_int_equal(mem_live_count(), w->live);
	assert_int_equal(g_fake.ports, 0);
	assert_int_equal(g_fake.peers, 0);
	assert_int_equal(g_fake.regions, 0);
	assert_int_equal(g_fake.nodes, 0);
	memset(w, 0, sizeof(*w));
}

void end_record(void *ctx, const struct efanic_wc *wc)
{
	struct end *e = ctx;

	if (e->cnt < WC_MAX) {
		struct seen *s = &e->seen[e->cnt];

		s->wc = *wc;
		if (wc->src_ip)
			efanic_wc_gid(wc, s->gid);
		s->data_len = (uint32_t)view_copy(&wc->data, 0, s->data, sizeof(s->data));
		assert_int_equal(s->data_len, wc->data.len);
	}
	e->cnt++;
	if (e->hook)
		e->hook(e, wc);
}

void pair_attr(struct efanic_qp_attr *attr, uint32_t qkey)
{
	*attr = (struct efanic_qp_attr){
		.type = EFANIC_QP_SRD, .sq_depth = 16, .rq_depth = 16, .qkey = qkey};
}

void end_open(struct world *w, struct end *e, const struct efanic_qp_attr *attr, uint8_t rnr_retry,
	      uint32_t credits)
{
	struct efanic_qp_attr a = *attr;

	a.on_wc = end_record;
	a.ctx = e;
	assert_int_equal(efanic_qp_open(w->nic, &a, &e->qp), 0);
	assert_int_equal(efanic_qp_to_rts(e->qp, rnr_retry), 0);
	if (credits)
		assert_int_equal(efanic_post_recv_credits(e->qp, credits), 0);
}

void pair_open(struct world *w, uint32_t credits)
{
	struct efanic_qp_attr attr;

	pair_attr(&attr, QKEY_A);
	end_open(w, &w->a, &attr, EFANIC_RNR_INFINITE, 0);
	pair_attr(&attr, QKEY_B);
	end_open(w, &w->b, &attr, EFANIC_RNR_INFINITE, credits);
	assert_int_equal(efanic_dst_get(w->a.qp, w->ahn, efanic_qp_qpn(w->b.qp), QKEY_B, &w->ab),
			 0);
	assert_int_equal(efanic_dst_get(w->b.qp, w->ahn, efanic_qp_qpn(w->a.qp), QKEY_A, &w->ba),
			 0);
}

const struct seen *last(const struct end *e)
{
	assert_in_range(e->cnt, 1, WC_MAX);
	return &e->seen[e->cnt - 1];
}

void settle(struct world *w)
{
	int n;

	do {
		n = 0;
		if (w->a.qp)
			n += efanic_poll(w->a.qp);
		if (w->b.qp)
			n += efanic_poll(w->b.qp);
		/* the poll that moves something last may leave a completion for the next */
	} while (n || (w->a.qp && w->a.qp->done.head != SQ_NONE) ||
		 (w->b.qp && w->b.qp->done.head != SQ_NONE));
}

int send_to(struct end *e, struct efanic_dst *dst, uint64_t wr_id, const void *buf, uint32_t len)
{
	struct efanic_wr wr = {
		.wr_id = wr_id,
		.dst = dst,
		.opcode = EFANIC_OP_SEND,
		.sge_cnt = 1,
		.sge = {{buf, len, EFANIC_LKEY_INTERNAL}},
	};

	return efanic_post_send(e->qp, &wr);
}

void expect(const struct end *e, unsigned cnt, uint64_t wr_id, enum efanic_status status)
{
	assert_int_equal(e->cnt, cnt);
	assert_int_equal(last(e)->wc.wr_id, wr_id);
	assert_int_equal(last(e)->wc.status, status);
}
