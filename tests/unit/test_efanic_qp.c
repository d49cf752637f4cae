// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs: the whole state table, limits, modify, flush, close, allocation failures.
#include "efanic_fix.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

enum {
	ST = EFANIC_QPA_STATE,
	PK = EFANIC_QPA_PKEY_INDEX,
	PO = EFANIC_QPA_PORT,
	QK = EFANIC_QPA_QKEY,
	PS = EFANIC_QPA_SQ_PSN,
	RN = EFANIC_QPA_RNR_RETRY,
	CU = EFANIC_QPA_CUR_STATE,
	EN = EFANIC_QPA_EN_SQD_ASYNC_NOTIFY,
	ALL = 255
};

/* Written anew from the kernel driver's rules as doc/facts/efa.md#queue-pairs lists them. */
static struct efanic_transition reference(enum efanic_qp_type type, enum efanic_qp_state from,
					  enum efanic_qp_state to)
{
	const struct row {
		int from, to;
		unsigned req, opt;
	} row[] = {
		{EFANIC_QPS_RESET, EFANIC_QPS_INIT, ST | PK | PO | QK, 0},
		{EFANIC_QPS_INIT, EFANIC_QPS_INIT, 0, PK | PO | QK},
		{EFANIC_QPS_INIT, EFANIC_QPS_RTR, 0, PK | QK},
		{EFANIC_QPS_RTR, EFANIC_QPS_RTS, PS, CU | QK | (type == EFANIC_QP_SRD ? RN : 0)},
		{EFANIC_QPS_RTS, EFANIC_QPS_RTS, 0, CU | QK},
		{EFANIC_QPS_RTS, EFANIC_QPS_SQD, 0, EN},
		{EFANIC_QPS_SQD, EFANIC_QPS_RTS, 0, CU | QK},
		{EFANIC_QPS_SQD, EFANIC_QPS_SQD, 0, PK | QK},
		{EFANIC_QPS_SQE, EFANIC_QPS_RTS, 0, CU | QK},
	};

	if (to == EFANIC_QPS_RESET || (to == EFANIC_QPS_ERR && from != EFANIC_QPS_RESET))
		return (struct efanic_transition){.legal = true};
	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		if (row[i].from == (int)from && row[i].to == (int)to)
			return (struct efanic_transition){true, row[i].req, row[i].opt};
	return (struct efanic_transition){0};
}

static int expected(enum efanic_qp_type type, enum efanic_qp_state from, enum efanic_qp_state to,
		    unsigned mask)
{
	struct efanic_transition t = reference(type, from, to);

	if (!t.legal || (mask & t.required) != t.required)
		return -EINVAL;
	return mask & ~(ST | t.required | t.optional) ? -EINVAL : 0;
}

/* Every state to every state with every mask, for both types. */
static void modify__table(void **state)
{
	struct world w;
	struct efanic_qp_attr attr;

	world_open(&w, NULL);
	for (int type = EFANIC_QP_SRD; type <= EFANIC_QP_UD; type++) {
		pair_attr(&attr, QKEY_A);
		attr.type = type;
		end_open(&w, &w.a, &attr, EFANIC_RNR_INFINITE, 0);
		for (int from = 0; from < EFANIC_QPS_NUM; from++) {
			for (int to = 0; to < EFANIC_QPS_NUM; to++) {
				for (unsigned mask = 0; mask <= ALL; mask++) {
					struct efanic_qp_mod mod = {
						.state = to, .port = 1, .qkey = QKEY_A};
					int want =
						expected(type, from, mask & ST ? to : from, mask);

					w.a.qp->state = from; /* SQE cannot be reached otherwise */
					assert_int_equal(efanic_qp_modify(w.a.qp, &mod, mask),
							 want);
					assert_int_equal(w.a.qp->state,
							 !want && mask & ST ? to : from);
				}
			}
		}
		efanic_qp_close(w.a.qp);
		w.a.qp = NULL;
	}
	world_close(&w);
}

static void modify__values(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_INIT, .port = 2, .qkey = QKEY_A};
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.on_wc = end_record;
	attr.ctx = &w.a;
	assert_int_equal(efanic_qp_open(w.nic, &attr, &w.a.qp), 0);
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST | PK | PO | QK), -EOPNOTSUPP);
	mod.port = 1;
	mod.pkey_index = 1;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST | PK | PO | QK), -EOPNOTSUPP);
	mod.pkey_index = 0;
	mod.qkey++;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST | PK | PO | QK), -EOPNOTSUPP);
	mod.qkey--;
	mod.state = EFANIC_QPS_NUM;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST | PK | PO | QK), -EINVAL);
	assert_int_equal(w.a.qp->state, EFANIC_QPS_RESET);
	assert_int_equal(efanic_qp_to_rts(w.a.qp, 8), -EINVAL);
	mod.state = EFANIC_QPS_RESET;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST), 0);
	assert_int_equal(efanic_qp_to_rts(w.a.qp, 3), 0);
	assert_int_equal(w.a.qp->rnr_retry, 3);
	world_close(&w);
}

/* late_qkey: any Q_Key, until a peer knows one. */
static void modify__late_qkey(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_INIT, .port = 1};
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.on_wc = end_record;
	attr.ctx = &w.a;
	attr.late_qkey = true;
	assert_int_equal(efanic_qp_open(w.nic, &attr, &w.a.qp), 0);
	assert_int_not_equal(link_port_addr(w.a.qp->port)->nonce, QKEY_A); /* a secret until then */
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST | PK | PO | QK), 0);
	assert_int_equal(w.a.qp->qkey, 0);
	assert_int_equal(link_port_addr(w.a.qp->port)->nonce, UINT32_MAX);
	mod.qkey = 77;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, QK), 0);
	assert_int_equal(link_port_addr(w.a.qp->port)->nonce, 77);
	mod.qkey = QKEY_A; /* that of the open is as good as any */
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, QK), 0);
	assert_int_equal(link_port_addr(w.a.qp->port)->nonce, QKEY_A);
	world_close(&w);
}

static void modify__rnr_retry_needs_capability(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_RTS, .rnr_retry = 3};
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, "gen=efa0-none");
	pair_attr(&attr, QKEY_A);
	end_open(&w, &w.a, &attr, 3, 0);
	assert_int_equal(w.a.qp->rnr_retry, EFANIC_RNR_INFINITE);
	w.a.qp->state = EFANIC_QPS_RTR;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST | PS | RN), -EOPNOTSUPP);
	world_close(&w);
}

static void modify__ud_qkey(void **state)
{
	struct efanic_qp_mod mod = {.qkey = 77};
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, NULL);
	pair_attr(&attr, 0);
	attr.type = EFANIC_QP_UD;
	end_open(&w, &w.a, &attr, EFANIC_RNR_INFINITE, 0);
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, QK), 0);
	assert_int_equal(w.a.qp->qkey, 77);
	assert_int_not_equal(link_port_addr(w.a.qp->port)->nonce, 0);
	world_close(&w);
}

static int try_open(struct world *w, const struct efanic_qp_attr *attr)
{
	struct efanic_qp *qp = NULL;
	int rc = efanic_qp_open(w->nic, attr, &qp);

	if (!rc)
		efanic_qp_close(qp);
	else
		assert_null(qp);
	return rc;
}

static void open__limits(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, "sq=32;rq=64");
	pair_attr(&attr, QKEY_A);
	attr.on_wc = end_record;
	attr.sq_depth = 32;
	attr.rq_depth = 64;
	assert_int_equal(try_open(&w, &attr), 0);
	attr.sq_depth = 33;
	assert_int_equal(try_open(&w, &attr), -EINVAL);
	attr.sq_depth = 32;
	attr.rq_depth = 65;
	assert_int_equal(try_open(&w, &attr), -EINVAL);
	attr.rq_depth = attr.sq_depth = 0;
	assert_int_equal(try_open(&w, &attr), 0);
	attr.qkey = 0;
	assert_int_equal(try_open(&w, &attr), -EINVAL);
	attr.type = EFANIC_QP_UD;
	assert_int_equal(try_open(&w, &attr), 0);
	attr.unsolicited_write_recv = true;
	assert_int_equal(try_open(&w, &attr), -EOPNOTSUPP);
	attr.type = EFANIC_QP_SRD;
	attr.qkey = QKEY_A;
	assert_int_equal(try_open(&w, &attr), 0);
	attr.on_wc = NULL;
	assert_int_equal(try_open(&w, &attr), -EINVAL);
	attr.on_wc = end_record;
	attr.type = (enum efanic_qp_type)9;
	assert_int_equal(try_open(&w, &attr), -EOPNOTSUPP);
	world_close(&w);
	world_open(&w, "gen=efa1");
	pair_attr(&attr, QKEY_A);
	attr.on_wc = end_record;
	attr.unsolicited_write_recv = true;
	assert_int_equal(try_open(&w, &attr), -EOPNOTSUPP);
	world_close(&w);
}

static void open__max_qp(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, "max_qp=2");
	pair_open(&w, 0);
	pair_attr(&attr, QKEY_A);
	attr.on_wc = end_record;
	assert_int_equal(try_open(&w, &attr), -ENOMEM);
	efanic_qp_close(w.b.qp);
	w.b.qp = NULL;
	assert_int_equal(try_open(&w, &attr), 0);
	world_close(&w);
}

static void open__port_refused(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.on_wc = end_record;
	g_fake.port_rc = -EADDRINUSE;
	assert_int_equal(try_open(&w, &attr), -EADDRINUSE);
	g_fake.port_rc = 0;
	attr.no_shm = true;
	assert_int_equal(try_open(&w, &attr), 0);
	assert_int_equal(g_fake.last_port_no_shm, 1);
	world_close(&w);
}

static void open__alloc_fail(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;
	int rc = -ENOMEM;
	unsigned fails = 0;

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.posted_buffers = true;
	attr.on_wc = end_record;
	for (uint64_t n = 1; rc; n++) {
		int64_t live = mem_live_count();

		mem_fail_nth(n);
		rc = try_open(&w, &attr);
		mem_fail_nth(0);
		assert_true(rc == 0 || rc == -ENOMEM);
		assert_int_equal(mem_live_count(), live);
		fails += rc != 0;
	}
	assert_in_range(fails, 4, 10); /* queue pair, send queue, receive queue, timers */
	world_close(&w);
}

/* In each place where a request can be, it ends once with FLUSHED. */
static void close__flushes_everything(void **state)
{
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 1);
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0); /* with the link */
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = UINT32_MAX;
	assert_int_equal(send_to(&w.a, w.ab, 2, &byte, 1), 0); /* waits for room */
	g_fake.send_rc_cnt = 0;
	efanic_qp_close(w.a.qp);
	w.a.qp = NULL;
	assert_int_equal(w.a.cnt, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(w.a.seen[i].wc.status, EFANIC_FLUSHED);
	assert_int_equal(w.a.seen[0].wc.wr_id + w.a.seen[1].wc.wr_id, 3);
	/* a destination outlives its queue pair as a handle that names nothing */
	assert_false(efanic_dst_is_local(w.ab));
	assert_int_equal(send_to(&w.b, w.ab, 3, &byte, 1), -EINVAL);
	world_close(&w);
}

static void close__rnr_timer_and_done(void **state)
{
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 0); /* on the timer */
	assert_int_equal(send_to(&w.a, w.ab, 2, &byte, EFANIC_MTU + 1),
			 0); /* ended, not reported */
	efanic_qp_close(w.a.qp);
	w.a.qp = NULL;
	assert_int_equal(w.a.cnt, 2);
	assert_int_equal(w.a.seen[0].wc.status, EFANIC_LOCAL_BAD_LENGTH);
	expect(&w.a, 2, 1, EFANIC_FLUSHED);
	world_close(&w);
}

static void close__posted_buffers(void **state)
{
	struct efanic_qp_attr attr;
	struct world w;
	char buf[8];
	struct efanic_sge sge = {buf, sizeof(buf), EFANIC_LKEY_INTERNAL};

	world_open(&w, NULL);
	pair_attr(&attr, QKEY_A);
	attr.posted_buffers = true;
	end_open(&w, &w.a, &attr, EFANIC_RNR_INFINITE, 0);
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(efanic_post_recv(w.a.qp, i, &sge, 1), 0);
	efanic_qp_close(w.a.qp);
	w.a.qp = NULL;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(w.a.seen[i].wc.wr_id, i + 1);
	expect(&w.a, 3, 3, EFANIC_FLUSHED);
	assert_int_equal(w.a.seen[0].wc.opcode, EFANIC_OP_RECV);
	world_close(&w);
}

static void error__flushes_and_reset_forgets(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_ERR};
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0);
	settle(&w); /* to the timer */
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST), 0);
	assert_int_equal(w.a.cnt, 0); /* only a poll reports */
	assert_int_equal(send_to(&w.a, w.ab, 2, &byte, 1), -EINVAL);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_FLUSHED);
	mod.state = EFANIC_QPS_RESET;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST), 0);
	assert_int_equal(efanic_qp_to_rts(w.a.qp, EFANIC_RNR_INFINITE), 0);
	/* one on the timer, one with the link, one finished: a reset forgets all three */
	assert_int_equal(send_to(&w.a, w.ab, 3, &byte, 1), 0);
	settle(&w);
	assert_int_equal(send_to(&w.a, w.ab, 4, &byte, 1), 0);
	assert_int_equal(send_to(&w.a, w.ab, 5, &byte, EFANIC_MTU + 1), 0);
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST), 0);
	settle(&w);
	assert_int_equal(w.a.cnt, 1);
	assert_int_equal(efanic_sq_free(w.a.qp), 16);
	world_close(&w);
}

static void sqd__holds_work_back(void **state)
{
	struct efanic_qp_mod mod = {.state = EFANIC_QPS_SQD};
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST), 0);
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0);
	settle(&w);
	assert_int_equal(g_fake.sends, 0);
	mod.state = EFANIC_QPS_RTS;
	assert_int_equal(efanic_qp_modify(w.a.qp, &mod, ST), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_OK);
	assert_int_equal(w.b.cnt, 1);
	world_close(&w);
}

static struct efanic_qp *g_polled;
static int g_poll_rc;

static void poll_again(struct end *e, const struct efanic_wc *wc)
{
	g_poll_rc = efanic_poll(g_polled);
}

static void poll__is_not_reentered(void **state)
{
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 4);
	assert_int_equal(efanic_poll(w.a.qp), 0);
	w.b.hook = poll_again;
	g_polled = w.b.qp;
	g_poll_rc = -1;
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0);
	assert_int_equal(send_to(&w.a, w.ab, 2, &byte, 1), 0);
	settle(&w);
	assert_int_equal(w.b.cnt, 2);
	assert_int_equal(g_poll_rc, 0);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modify__table),
		cmocka_unit_test(modify__values),
		cmocka_unit_test(modify__rnr_retry_needs_capability),
		cmocka_unit_test(modify__late_qkey),
		cmocka_unit_test(modify__ud_qkey),
		cmocka_unit_test(open__limits),
		cmocka_unit_test(open__max_qp),
		cmocka_unit_test(open__port_refused),
		cmocka_unit_test(open__alloc_fail),
		cmocka_unit_test(close__flushes_everything),
		cmocka_unit_test(close__rnr_timer_and_done),
		cmocka_unit_test(close__posted_buffers),
		cmocka_unit_test(error__flushes_and_reset_forgets),
		cmocka_unit_test(sqd__holds_work_back),
		cmocka_unit_test(poll__is_not_reentered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
