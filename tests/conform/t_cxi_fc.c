// SPDX-License-Identifier: BSD-2-Clause
// cxi when something runs out (flow control, the way to software matching, RNR), and deferred work.
#include "conform.h"

#include <rdma/fi_trigger.h>
#include <stdlib.h>
#include <time.h>

#include "fi_cxi_ext.h"

#define TAG 0x77u

/* --- flow control -------------------------------------------------------------------------------- */

#define FLOOD 1500

static size_t flood_len(unsigned i)
{
	static const size_t len[] = {0, 8, 192, 193, 3000, 64, 18000, 100, 5, 30000};

	return len[i * 7 % 10];
}

static void flood_send(struct ct *c, uint8_t *mem)
{
	unsigned told = 0;

	for (unsigned i = 0; i < FLOOD; i++) {
		/* nobody hears of these again: they must come in their place all the same */
		bool quiet = i % 4 < 3, is_short = flood_len(i) <= 192;
		struct ct_msg m = {.call = quiet && is_short ? CT_INJECTDATA : CT_SENDMSG, .tagged = true, .tag = TAG,
				   .data = i, .flags = FI_REMOTE_CQ_DATA | (quiet ? 0 : FI_COMPLETION), .addr = c->peer,
				   .ctx = &c->ctx[i], .mem = mem + i * 30000ul, .len = flood_len(i)};

		ct_fill(m.mem, m.len, i);
		ct_send(c, &m);
		told += !quiet;
	}
	for (unsigned i = 0; i < told; i++)
		ct_comp(c, c->txcq);
}

/* Nothing is posted for a while, so that everything runs out; then all come, in order, by batches. */
static void flood_recv(struct ct *c, uint8_t *mem)
{
	const struct timespec nap = {0, 200 * 1000 * 1000};
	enum { BATCH = 20 };

	nanosleep(&nap, NULL); /* the adapter takes what it has room for; nobody makes more */
	for (uint64_t until = ct_now_ms() + 200; ct_now_ms() < until;)
		ct_progress(c);
	for (unsigned i = 0; i < FLOOD; i += BATCH) {
		for (unsigned k = 0; k < BATCH; k++) {
			struct ct_msg m = {.tagged = true, .tag = TAG, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[k],
					   .mem = mem + k * 30000ul, .len = 30000};

			ct_recv(c, &m);
		}
		for (unsigned k = 0; k < BATCH; k++) {
			struct ct_comp r = ct_comp(c, c->rxcq);
			size_t at = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);

			CHECK(at < BATCH && r.e.data == i + at, "receive %zu got message %llu: order was not kept",
			      i + at, (unsigned long long)r.e.data);
			CHECK(r.e.len == flood_len(i + (unsigned)at), "message %zu has %zu bytes", i + at, r.e.len);
			ct_verify(c, mem + at * 30000, r.e.len, i + at, "flooded");
		}
	}
}

static void cxi_fc_flood(struct ct *c)
{
	uint8_t *mem = malloc(FLOOD * 30000ul);

	c->want.tx_bind = FI_SELECTIVE_COMPLETION;
	ct_open(c);
	if (c->rank)
		flood_recv(c, mem);
	else
		flood_send(c, mem);
	ct_barrier(c);
	if (c->rank && getenv("FI_CXI_MSG_LOSSLESS"))
		CHECK(ct_stat(c, "soft_lossless_pauses") && !ct_stat(c, "soft_pte_disabled"),
		      "no sender waited, or one was refused");
	else if (c->rank)
		CHECK(ct_stat(c, "soft_pte_disabled") + ct_stat(c, "soft_le_exhausted"), "nothing ran out");
	ct_barrier(c);
	free(mem);
	ct_close(c);
}

/*
 * More receives than the adapter has entries. In hardware those that find none end with an error, in hybrid mode
 * software takes all.
 */
#define POSTED 300

static void posted_send(struct ct *c, const bool *alive)
{
	for (unsigned i = POSTED; i-- > 0;) {
		uint32_t v = i * 3;
		struct ct_msg m = {.tagged = true, .tag = i, .addr = c->peer, .ctx = &c->ctx[i], .mem = (uint8_t *)&v,
				   .len = 4};

		if (!alive[i])
			continue;
		ct_send(c, &m);
		ct_tx(c, &c->ctx[i], FI_SEND | FI_TAGGED);
	}
}

static void posted_recv(struct ct *c, const uint32_t *got, unsigned alive_cnt)
{
	for (unsigned k = 0; k < alive_cnt; k++) {
		struct ct_comp r = ct_comp(c, c->rxcq);
		size_t i = (size_t)((struct fi_context2 *)r.e.op_context - c->ctx);

		CHECK(i < POSTED && r.e.tag == i && got[i] == i * 3, "receive %zu got tag %llu", i,
		      (unsigned long long)r.e.tag);
	}
}

static void cxi_fc_posted(struct ct *c)
{
	bool alive[POSTED] = {false}, theirs[POSTED], hybrid = getenv("FI_CXI_RX_MATCH_MODE");
	uint32_t *got = calloc(POSTED, 4);
	unsigned cnt = 0, errors = 0;

	ct_open(c);
	for (unsigned i = 0; i < POSTED && c->rank; i++) {
		struct ct_msg m = {.tagged = true, .tag = i, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i],
				   .mem = (uint8_t *)&got[i], .len = 4};
		ssize_t ret;

		while ((ret = ct_post_recv(c, &m)) == -FI_EAGAIN) {
			struct fi_cq_err_entry e = {0};

			if (fi_cq_readerr(c->rxcq, &e, 0) != 1) {
				ct_progress(c);
				continue;
			}
			CHECK(e.err == FI_ENOSPC && !hybrid, "error %d (%s)", e.err, fi_strerror(e.err));
			alive[(struct fi_context2 *)e.op_context - c->ctx] = false;
			errors++;
		}
		OK(ret);
		alive[i] = true;
	}
	for (uint64_t until = ct_now_ms() + 200; ct_now_ms() < until && c->rank;) {
		struct fi_cq_err_entry e = {0};

		ct_progress(c);
		if (fi_cq_readerr(c->rxcq, &e, 0) != 1)
			continue;
		CHECK(e.err == FI_ENOSPC && !hybrid, "error %d (%s)", e.err, fi_strerror(e.err));
		alive[(struct fi_context2 *)e.op_context - c->ctx] = false;
		errors++;
	}
	for (unsigned i = 0; i < POSTED; i++)
		cnt += alive[i];
	CHECK(!c->rank || (cnt > 0 && cnt + errors == POSTED && (hybrid ? !errors : errors > 0)), "%u live, %u refused",
	      cnt, errors);
	ct_swap(c, alive, theirs, sizeof(alive));
	if (c->rank)
		posted_recv(c, got, cnt);
	else
		posted_send(c, theirs);
	ct_barrier(c);
	free(got);
	ct_close(c);
}

/*
 * The receiver looks at nothing until its event queue is full of unexpected messages. The adapter then takes none any
 * more, and says so when there is room; all of them come, in order.
 */
static void cxi_fc_eq(struct ct *c)
{
	enum { CNT = 5000 };
	const struct timespec nap = {0, 1000 * 1000};
	uint64_t v;

	ct_open(c);
	for (uint64_t until = ct_now_ms() + 20000; c->rank && !ct_stat(c, "lpe_err_pt_disabled_eq_full");
	     nanosleep(&nap, NULL))
		CHECK(ct_now_ms() < until, "the event queue did not fill");
	for (unsigned i = 0; i < CNT; i++) {
		struct ct_msg m = {.tagged = true, .tag = TAG, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer,
				   .ctx = &c->ctx[0], .mem = (uint8_t *)&v, .len = 8};

		v = i;
		if (c->rank) {
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[0], FI_RECV | FI_TAGGED, 8);
			CHECK(v == i, "message %llu in place of %u", (unsigned long long)v, i);
		} else {
			m.call = CT_INJECT;
			ct_send(c, &m);
		}
	}
	ct_barrier(c);
	if (c->rank && getenv("FI_CXI_MSG_LOSSLESS"))
		CHECK(ct_stat(c, "soft_lossless_pauses") && !ct_stat(c, "fc_eq_full"),
		      "no sender waited, or one was refused");
	else if (c->rank)
		CHECK(ct_stat(c, "fc_eq_full") && !ct_stat(c, "ee_events_dropped_ordinary_cntr_0"),
		      "%llu times, %llu events lost", (unsigned long long)ct_stat(c, "fc_eq_full"),
		      (unsigned long long)ct_stat(c, "ee_events_dropped_ordinary_cntr_0"));
	ct_barrier(c);
	ct_close(c);
}

/* --- RNR ----------------------------------------------------------------------------------------- */

#define PROTO_RNR 29

static void cxi_rnr_retry(struct ct *c)
{
	uint8_t mem[5000];

	c->want.protocol = PROTO_RNR;
	ct_open(c);
	CHECK(c->info->ep_attr->protocol == PROTO_RNR && !c->info->tx_attr->inject_size, "protocol %u",
	      c->info->ep_attr->protocol);
	for (unsigned i = 0; i < 10; i++) {
		struct ct_msg m = {.tagged = i & 1, .tag = i, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer,
				   .ctx = &c->ctx[i], .mem = mem, .len = i * 500};

		ct_barrier(c);
		if (c->rank) {
			for (uint64_t until = ct_now_ms() + i * 5; ct_now_ms() < until;)
				ct_progress(c);
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[i], FI_RECV | (i & 1 ? FI_TAGGED : FI_MSG), m.len);
			ct_verify(c, mem, m.len, i, "tried again");
		} else {
			ct_fill(mem, m.len, i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[i], FI_SEND | (i & 1 ? FI_TAGGED : FI_MSG));
		}
	}
	RET(-FI_EINVAL, fi_tsend(c->ep, mem, 8, NULL, c->peer, 1ULL << 40, NULL));
	ct_close(c);
}

static void cxi_rnr_fails(struct ct *c)
{
	uint64_t start = ct_now_ms();
	struct fi_msg_tagged peek = {.addr = FI_ADDR_UNSPEC, .tag = 1, .context = &c->ctx[1]};
	struct fi_cq_err_entry e;
	uint8_t mem[8] = {0};

	c->want.protocol = PROTO_RNR;
	ct_open(c);
	OK(fi_trecvmsg(c->ep, &peek, FI_PEEK)); /* nothing is ever there before its receive */
	e = ct_comp_err(c, c->rxcq, FI_RECV | FI_TAGGED);
	CHECK(e.err == FI_ENOMSG && e.op_context == &c->ctx[1] && e.tag == 1, "error %d", e.err);
	struct ct_msg m = {.addr = c->self, .ctx = &c->ctx[0], .mem = mem, .len = 8};
	ct_send(c, &m);
	e = ct_comp_err(c, c->txcq, FI_SEND | FI_MSG);
	CHECK(e.prov_errno == 18 && e.op_context == &c->ctx[0], "prov_errno %d", e.prov_errno);
	CHECK(!strcmp(fi_cq_strerror(c->txcq, e.prov_errno, NULL, NULL, 0), "ENTRY_NOT_FOUND"), "text");
	CHECK(ct_now_ms() - start >= 20, "gave up after %llu ms", (unsigned long long)(ct_now_ms() - start));
	ct_send(c, &m); /* one that is cancelled while it is tried again */
	for (unsigned i = 0; i < 50; i++)
		ct_progress(c);
	fi_cancel(&c->ep->fid, &c->ctx[0]); /* or it is on its way, and ends as the first */
	CHECK(ct_comp_err(c, c->txcq, FI_SEND | FI_MSG).op_context == &c->ctx[0], "context");
	ct_self(c, false);
	ct_close(c);
}

/* More receives than the adapter has entries: those that find none are appended again when others have been used. */
static void cxi_rnr_append(struct ct *c)
{
	enum { CNT = 150 };
	uint64_t tries = 0, got[CNT], v[CNT];
	size_t len = sizeof(tries);

	c->want.protocol = PROTO_RNR;
	ct_open(c);
	for (unsigned i = 0; i < CNT && c->rank; i++) {
		struct ct_msg m = {.tagged = true, .tag = i, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i],
				   .mem = (uint8_t *)&got[i], .len = 8};

		ct_recv(c, &m);
	}
	ct_barrier(c);
	for (unsigned i = 0; i < CNT && !c->rank; i++) {
		struct ct_msg m = {.tagged = true, .tag = i, .addr = c->peer, .ctx = &c->ctx[i],
				   .mem = (uint8_t *)&v[i], .len = 8};

		v[i] = i * 7;
		ct_send(c, &m);
	}
	for (unsigned i = 0; i < CNT; i++)
		ct_comp(c, c->rank ? c->rxcq : c->txcq);
	for (unsigned i = 0; i < CNT && c->rank; i++)
		CHECK(got[i] == i * 7, "receive %u got %llu", i, (unsigned long long)got[i]);
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_CXI_GET_RNR_APPEND_RETRY_ATTEMPTS, &tries, &len));
	CHECK(!c->rank == !tries && len == sizeof(tries), "%llu times appended again", (unsigned long long)tries);
	ct_barrier(c);
	ct_close(c);
}

/*
 * Nothing is used up: after FI_CXI_RNR_APPEND_RETRY_TIMEOUT_US those beyond end with an error, and the others are still
 * there.
 */
static void cxi_rnr_append_fails(struct ct *c)
{
	enum { CNT = 100 };
	uint64_t start = ct_now_ms(), v = 4711, got[CNT] = {0};
	struct ct_msg m = {.tagged = true, .addr = c->self, .ctx = &c->ctx[0], .mem = (uint8_t *)&v, .len = 8};
	struct fi_cq_err_entry e;
	unsigned failed = 0;

	c->want.protocol = PROTO_RNR;
	ct_open(c);
	m.addr = c->self;
	for (unsigned i = 0; i < CNT; i++) {
		struct ct_msg r = {.tagged = true, .tag = i, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i],
				   .mem = (uint8_t *)&got[i], .len = 8};

		ct_recv(c, &r);
	}
	e = ct_comp_err(c, c->rxcq, FI_RECV | FI_TAGGED);
	CHECK(e.err == FI_ENOSPC && e.prov_errno == 16, "error %d, %d", e.err, e.prov_errno);
	CHECK(ct_now_ms() - start >= 40, "gave up after %llu ms", (unsigned long long)(ct_now_ms() - start));
	/* as many as there are, however late this process has its turns, and then no more */
	for (uint64_t until = ct_now_ms() + 200, end = until + 10000, now = 0;
	     now < until || (failed + 1 < CNT - 64 && now < end); now = ct_now_ms()) {
		failed += fi_cq_readerr(c->rxcq, &e, 0) == 1;
		ct_progress(c);
	}
	CHECK(failed + 1 >= CNT - 64 && failed < CNT - 40, "%u receives failed", failed + 1);
	ct_send(c, &m);
	ct_comp(c, c->txcq);
	CHECK(ct_comp(c, c->rxcq).e.op_context == &c->ctx[0] && got[0] == 4711, "the first receive");
	ct_close(c);
}

/* --- deferred work ------------------------------------------------------------------------------- */

struct trig {
	struct fid_cntr *trig, *done, *other;
	uint64_t k; /* operations so far */
};

static struct fid_cntr *cntr_new(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *n;

	OK(fi_cntr_open(c->domain, &attr, &n, NULL));
	return n;
}

/* Queue @op; nothing happens until the counter gets there, and then its completion counter says that it has. */
static void fire(struct ct *c, struct trig *t, enum fi_op_type type, void *op)
{
	bool is_cntr = type == FI_OP_CNTR_ADD || type == FI_OP_CNTR_SET; /* of which no counter tells */
	struct fi_deferred_work w = {.threshold = t->k + 1, .triggering_cntr = t->trig,
				     .completion_cntr = is_cntr ? NULL : t->done, .op_type = type};

	w.op.msg = op;
	c->traffic = true;
	OK(fi_control(&c->domain->fid, FI_QUEUE_WORK, &w));
	for (unsigned i = 0; i < 100; i++)
		ct_progress(c);
	CHECK(fi_cntr_read(t->done) == t->k, "operation type %d ran before its time", type);
	OK(fi_cntr_add(t->trig, 1));
	if (!is_cntr)
		OK(fi_cntr_wait(t->done, ++t->k, 10000));
	else
		OK(fi_cntr_add(t->done, ++t->k == fi_cntr_read(t->done) ? 0 : 1));
	CHECK(!fi_cntr_readerr(t->done), "operation type %d failed", type);
}

static void trig_messages(struct ct *c, struct trig *t, uint8_t *mem)
{
	for (unsigned i = 0; i < 4; i++) {
		size_t len = i / 2 ? 50000 : 100;
		struct iovec iov = {mem, len};
		struct fi_op_msg m = {c->ep, {&iov, NULL, 1, c->rank ? FI_ADDR_UNSPEC : c->peer, &c->ctx[0], 0}, 0};
		struct fi_op_tagged g = {
			c->ep, {&iov, NULL, 1, c->rank ? FI_ADDR_UNSPEC : c->peer, 5, 0, &c->ctx[0], 0}, 0};
		struct fi_deferred_work w = {.triggering_cntr = t->trig, .completion_cntr = t->done,
					     .op_type = i & 1 ? FI_OP_TRECV : FI_OP_RECV};

		if (c->rank) {
			w.op.msg = i & 1 ? (void *)&g : (void *)&m;
			OK(fi_control(&c->domain->fid, FI_QUEUE_WORK, &w));
			ct_barrier(c);
			OK(fi_cntr_wait(t->done, ++t->k, 10000));
			ct_comp(c, c->rxcq);
			ct_verify(c, mem, len, i, "by deferred work");
		} else {
			ct_fill(mem, len, i);
			ct_barrier(c);
			fire(c, t, i & 1 ? FI_OP_TSEND : FI_OP_SEND, i & 1 ? (void *)&g : (void *)&m);
		}
		ct_barrier(c);
	}
}

static void trig_rma(struct ct *c, struct trig *t, const struct fi_rma_iov *at)
{
	uint64_t v = 77, r = 0, one = 1, cmp = 78, swap = 5;
	struct iovec iov = {&v, 8}, riov = {&r, 8};
	struct fi_rma_iov rma = {0, 8, at->key};
	struct fi_ioc ioc = {&one, 1}, res = {&r, 1}, cioc = {&cmp, 1}, sioc = {&swap, 1};
	struct fi_rma_ioc rioc = {0, 1, at->key};
	struct fi_op_rma w = {c->ep, {&iov, NULL, 1, c->peer, &rma, 1, NULL, 0}, 0},
			 rd = {c->ep, {&riov, NULL, 1, c->peer, &rma, 1, NULL, 0}, 0};
	struct fi_op_atomic a = {c->ep, {&ioc, NULL, 1, c->peer, &rioc, 1, FI_UINT64, FI_SUM, NULL, 0}, 0};
	struct fi_op_fetch_atomic f = {
		c->ep, {&ioc, NULL, 1, c->peer, &rioc, 1, FI_UINT64, FI_SUM, NULL, 0}, {&res, NULL, 1}, 0};
	struct fi_op_compare_atomic x = {c->ep,
					 {&sioc, NULL, 1, c->peer, &rioc, 1, FI_UINT64, FI_CSWAP, NULL, 0},
					 {&res, NULL, 1},
					 {&cioc, NULL, 1},
					 0};

	fire(c, t, FI_OP_WRITE, &w);
	fire(c, t, FI_OP_READ, &rd);
	CHECK(r == 77, "read %llu", (unsigned long long)r);
	fire(c, t, FI_OP_ATOMIC, &a);
	cmp = 79;
	fire(c, t, FI_OP_FETCH_ATOMIC, &f);
	CHECK(r == 78, "fetched %llu", (unsigned long long)r);
	fire(c, t, FI_OP_COMPARE_ATOMIC, &x);
	CHECK(r == 79, "compared with %llu", (unsigned long long)r);
	fire(c, t, FI_OP_READ, &rd);
	CHECK(r == 5, "swapped in %llu", (unsigned long long)r);
}

static void trig_counters(struct ct *c, struct trig *t)
{
	struct fi_op_cntr add = {t->other, 10}, set = {t->other, 3};
	struct fi_deferred_work w = {.threshold = 1000, .triggering_cntr = t->trig, .op_type = FI_OP_CNTR_ADD,
				     .op.cntr = &add};

	w.completion_cntr = t->done;
	CHECK(fi_control(&c->domain->fid, FI_QUEUE_WORK, &w) == -FI_EINVAL, "a counter that tells of a counter");
	w.completion_cntr = NULL;
	fire(c, t, FI_OP_CNTR_ADD, &add);
	OK(fi_cntr_wait(t->other, 10, 5000));
	fire(c, t, FI_OP_CNTR_SET, &set);
	for (uint64_t until = ct_now_ms() + 5000; fi_cntr_read(t->other) != 3 && ct_now_ms() < until;)
		ct_progress(c);
	CHECK(fi_cntr_read(t->other) == 3, "set to %llu", (unsigned long long)fi_cntr_read(t->other));
	/* flushed: it never runs */
	OK(fi_control(&c->domain->fid, FI_QUEUE_WORK, &w));
	OK(fi_control(&c->domain->fid, FI_FLUSH_WORK, NULL));
	OK(fi_cntr_set(t->trig, 2000));
	for (unsigned i = 0; i < 200; i++)
		ct_progress(c);
	CHECK(fi_cntr_read(t->other) == 3, "flushed work ran");
	w.op_type = (enum fi_op_type)99;
	CHECK(fi_control(&c->domain->fid, FI_QUEUE_WORK, &w) == -FI_EINVAL, "unknown work");
	w.triggering_cntr = NULL;
	CHECK(fi_control(&c->domain->fid, FI_QUEUE_WORK, &w) == -FI_EINVAL, "work without trigger");
}

static void cxi_trig(struct ct *c)
{
	static uint8_t mem[2][50000];
	static uint64_t target[2];
	struct fi_rma_iov mine = {0}, at;
	struct trig t = {0};
	struct fid_mr *mr;

	ct_open(c);
	t.trig = cntr_new(c);
	t.done = cntr_new(c);
	t.other = cntr_new(c);
	mr = ct_mr(c, &target[c->rank], 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 20 + (unsigned)c->rank);
	mine.key = fi_mr_key(mr);
	ct_swap(c, &mine, &at, sizeof(at));
	trig_messages(c, &t, mem[c->rank]);
	if (!c->rank) {
		trig_rma(c, &t, &at);
		trig_counters(c, &t);
	}
	ct_barrier(c);
	OK(fi_close(&mr->fid));
	OK(fi_close(&t.trig->fid));
	OK(fi_close(&t.done->fid));
	OK(fi_close(&t.other->fid));
	ct_close(c);
}

/* --- order of writes and reads, on a region with an entry of its own ----------------------------- */

/* Of many writes in flight the last wins; of reads a later one never sees less than an earlier one. */
static void cxi_rma_order(struct ct *c)
{
	enum { CNT = 200 };
	static uint64_t mem[2], v[CNT], got[CNT];
	struct fi_rma_iov mine = {0}, at;
	struct fid_mr *mr;

	c->want.msg_order = FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAR;
	ct_open(c);
	mr = ct_mr(c, &mem[c->rank], 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 30 + (unsigned)c->rank);
	mine.key = fi_mr_key(mr);
	ct_swap(c, &mine, &at, sizeof(at));
	c->traffic = true;
	for (unsigned i = 0; i < CNT && !c->rank; i++) {
		v[i] = i + 1;
		while (ct_again(c, fi_write(c->ep, &v[i], 8, NULL, c->peer, 0, at.key, &c->ctx[0])))
			;
		while (ct_again(c, fi_read(c->ep, &got[i], 8, NULL, c->peer, 0, at.key, &c->ctx[1])))
			;
	}
	for (unsigned i = 0; i < 2 * CNT && !c->rank; i++)
		ct_comp(c, c->txcq);
	ct_barrier(c);
	ct_adapter_sync(c);
	for (unsigned i = 1; i < CNT && !c->rank; i++)
		CHECK(got[i] >= got[i - 1], "read %u saw %llu after %llu", i, (unsigned long long)got[i],
		      (unsigned long long)got[i - 1]);
	CHECK(!c->rank || mem[1] == CNT, "the last write did not win: %llu", (unsigned long long)mem[1]);
	OK(fi_close(&mr->fid));
	ct_close(c);
}

#define HYBRID " FI_CXI_RX_MATCH_MODE=hybrid"
#define OFLOW  "FI_CXI_OFLOW_BUF_SIZE=65536 FI_CXI_OFLOW_BUF_MIN_POSTED=2"
#define REQ    " FI_CXI_REQ_BUF_SIZE=65536 FI_CXI_REQ_BUF_MIN_POSTED=2"
#define LOSSLESS " FI_CXI_MSG_LOSSLESS=1"
const struct ct_test cxi_fc_tests[] = {
	{"cxi_fc_les", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, "SOFTFABRIC_CXI=les=64", "cxi", 60},
	{"cxi_fc_les_hybrid", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, "SOFTFABRIC_CXI=les=64" HYBRID, "cxi", 60},
	{"cxi_fc_oflow", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, OFLOW, "cxi", 60},
	{"cxi_fc_oflow_hybrid", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, OFLOW HYBRID REQ, "cxi", 60},
	{"cxi_fc_software", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, "FI_CXI_RX_MATCH_MODE=software" REQ, "cxi", 60},
	{"cxi_fc_software_max", cxi_fc_flood, FI_TAGGED, 0, 0, NULL,
	 "FI_CXI_RX_MATCH_MODE=software FI_CXI_REQ_BUF_MAX_COUNT=4" REQ, "cxi", 60},
	{"cxi_fc_lossless", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, OFLOW LOSSLESS, "cxi", 60},
	{"cxi_fc_lossless_software", cxi_fc_flood, FI_TAGGED, 0, 0, NULL, "FI_CXI_RX_MATCH_MODE=software" REQ LOSSLESS,
	 "cxi", 60},
	{"cxi_fc_eq", cxi_fc_eq, FI_TAGGED, 0, 0, NULL, NULL, "cxi", 60},
	{"cxi_fc_lossless_eq", cxi_fc_eq, FI_TAGGED, 0, 0, NULL, "FI_CXI_MSG_LOSSLESS=1", "cxi", 60},
	{"cxi_fc_posted", cxi_fc_posted, FI_TAGGED, 0, 0, "rx.size", "SOFTFABRIC_CXI=les=64", "cxi"},
	{"cxi_fc_posted_hybrid", cxi_fc_posted, FI_TAGGED, 0, 0, "rx.size", "SOFTFABRIC_CXI=les=64" HYBRID, "cxi"},
	{"cxi_rnr_retry", cxi_rnr_retry, FI_TAGGED | FI_MSG, 0, 0, NULL, NULL, "cxi"},
	{"cxi_rnr_fails", cxi_rnr_fails, FI_MSG | FI_TAGGED, 0, CT_SOLO | CT_ANY_PATH, NULL,
	 "FI_CXI_RNR_MAX_TIMEOUT_US=30000", "cxi"},
	{"cxi_rnr_append", cxi_rnr_append, FI_TAGGED, 0, 0, NULL,
	 "SOFTFABRIC_CXI=les=64 FI_CXI_RNR_MAX_TIMEOUT_US=20000000", "cxi"},
	{"cxi_rnr_append_fails", cxi_rnr_append_fails, FI_TAGGED, 0, CT_SOLO | CT_ANY_PATH, NULL,
	 "SOFTFABRIC_CXI=les=64 FI_CXI_RNR_APPEND_RETRY_TIMEOUT_US=50000", "cxi"},
	{"cxi_rma_order", cxi_rma_order, FI_RMA, 0, CT_GENS,
	 "order:FI_ORDER_WAW order:FI_ORDER_RMA_WAW order:FI_ORDER_RMA_RAR", NULL, "cxi"},
	{"cxi_trig", cxi_trig, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER, 0, CT_GENS, "FI_TRIGGER", NULL,
	 "cxi"},
	{0},
};
