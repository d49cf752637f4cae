// SPDX-License-Identifier: BSD-2-Clause
// The cxi provider when the room's service has little of something, on two adapters, and with contexts that differ.
#include <rdma/fi_trigger.h>

#include "cxi_fix.h"
#include "fi_cxi_ext.h"
#include "fi_ext_softfabric.h"
#include "prov/cxi/cxi_rxc.h"

static void room(const char *text)
{
	assert_int_equal(setenv("SOFTFABRIC_CXI", text, 1), 0);
}

static struct fi_info *info_of(uint64_t caps, uint64_t mr_mode)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->caps = caps;
	h->domain_attr->mr_mode = mr_mode;
	return cxi_fix_info(FI_VERSION(1, 17), h);
}

#define CLIENT_KEYS (FI_MR_ALLOCATED | FI_MR_ENDPOINT)
#define PROV_KEYS   (CLIENT_KEYS | FI_MR_PROV_KEY)

static uint64_t counter(const struct cxi_fix *f, const char *name)
{
	struct fi_softfabric_ops_stats *ops = NULL;
	uint64_t v = 0;

	assert_int_equal(fi_open_ops(&f->domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->read(f->domain, name, &v), 0);
	return v;
}

/* --- exhaustion: refused with a code, and had again when something was given back ---------------- */

/* An endpoint has 3 command queues, 3 event queues and 2 portal table entries. */
static void caps__second_endpoint(void **state)
{
	static const char *const rooms[] = {"svc=1:txqs=5", "svc=1:eqs=5", "svc=1:ptes=3"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rooms); i++) {
		struct fi_av_attr av = {0};
		struct cxi_fix_ep first, second;
		struct cxi_fix f;

		room(rooms[i]);
		cxi_fix_open(&f);
		cxi_fix_ep_open(&first, &f);
		assert_int_equal(fi_av_open(f.domain, &av, &second.av, NULL), 0);
		assert_int_equal(fi_cq_open(f.domain, &(struct fi_cq_attr){0}, &second.cq, NULL), 0);
		assert_int_equal(fi_endpoint(f.domain, f.info, &second.ep, NULL), 0);
		assert_int_equal(fi_ep_bind(second.ep, &second.av->fid, 0), 0);
		assert_int_equal(fi_ep_bind(second.ep, &second.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		assert_int_equal(fi_enable(second.ep), -FI_ENOSPC);
		assert_int_equal(fi_enable(second.ep), -FI_ENOSPC); /* and nothing of it was kept */
		cxi_fix_ep_close(&first);
		assert_int_equal(fi_enable(second.ep), 0);
		cxi_fix_ep_close(&second);
		cxi_fix_close(&f);
	}
}

static void caps__counters(void **state)
{
	struct fid_cntr *a, *b;
	struct cxi_fix f;

	(void)state;
	room("svc=1:cts=1");
	cxi_fix_open(&f);
	assert_int_equal(fi_cntr_open(f.domain, NULL, &a, NULL), 0);
	assert_int_equal(fi_cntr_open(f.domain, NULL, &b, NULL), -FI_ENOSPC);
	assert_int_equal(fi_close(&a->fid), 0);
	assert_int_equal(fi_cntr_open(f.domain, NULL, &b, NULL), 0);
	assert_int_equal(fi_close(&b->fid), 0);
	cxi_fix_close(&f);
}

/*
 * Of four regions two find a portal table entry of their own. Keys that the program gave name one; keys of the provider
 * name what there is.
 */
static void caps__regions(void **state)
{
	static uint64_t mem[4];

	(void)state;
	for (int prov = 0; prov < 2; prov++) {
		struct fid_mr *mr[4];
		struct cxi_fix_ep e;
		struct cxi_fix f;
		uint64_t v = 5;

		room("svc=1:ptes=4");
		cxi_fix_open_info(&f, info_of(FI_MSG | FI_RMA, prov ? PROV_KEYS : CLIENT_KEYS));
		cxi_fix_ep_open(&e, &f);
		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(fi_mr_reg(f.domain, &mem[i], 8, FI_REMOTE_WRITE, 0, i, 0, &mr[i], NULL), 0);
			assert_int_equal(fi_mr_bind(mr[i], &e.ep->fid, 0), 0);
			assert_int_equal(fi_mr_enable(mr[i]), i < 2 || prov ? 0 : -FI_ENOSPC);
			if (i < 2 || prov) {
				assert_int_equal(fi_write(e.ep, &v, 8, NULL, 0, 0, fi_mr_key(mr[i]), NULL), 0);
				cxi_fix_wait(&e, 1);
				assert_int_equal(mem[i], 5);
				mem[i] = 0;
			}
		}
		assert_int_equal(fi_close(&mr[0]->fid), 0);
		assert_int_equal(fi_mr_enable(mr[2]), 0);
		for (unsigned i = 1; i < 4; i++)
			assert_int_equal(fi_close(&mr[i]->fid), 0);
		cxi_fix_ep_close(&e);
		cxi_fix_close(&f);
	}
}

static void caps__deferred_work(void **state)
{
	struct fi_op_cntr op = {.value = 1};
	struct fi_deferred_work work[20];
	struct fid_cntr *trig, *done;
	struct cxi_fix f;
	int queued = 0, ret = 0;

	(void)state;
	room("svc=1:tles=16");
	cxi_fix_open(&f);
	assert_int_equal(fi_cntr_open(f.domain, NULL, &trig, NULL), 0);
	assert_int_equal(fi_cntr_open(f.domain, NULL, &done, NULL), 0);
	op.cntr = done;
	for (; queued < 20; queued++) {
		work[queued] = (struct fi_deferred_work){.threshold = 1, .triggering_cntr = trig,
							 .op_type = FI_OP_CNTR_ADD, .op.cntr = &op};
		ret = fi_control(&f.domain->fid, FI_QUEUE_WORK, &work[queued]);
		if (ret)
			break;
	}
	assert_int_equal(ret, -FI_ENOSPC);
	assert_in_range(queued, 8, 16);
	assert_int_equal(fi_cntr_add(trig, 1), 0);
	assert_int_equal(fi_cntr_read(done), queued); /* those that were queued run */
	assert_int_equal(fi_control(&f.domain->fid, FI_QUEUE_WORK, &work[0]), 0);
	assert_int_equal(fi_cntr_read(done), queued + 1);
	assert_int_equal(fi_close(&trig->fid) | fi_close(&done->fid), 0);
	cxi_fix_close(&f);
}

/* --- two adapters -------------------------------------------------------------------------------- */

/* PIDs are an adapter's own: one that neither has given to another process, at both. */
static void same_pid(struct cxi_fix_ep *e, const struct cxi_fix *f)
{
	struct cxi_addr *a[2] = {f[0].info->src_addr, f[1].info->src_addr};

	for (uint16_t pid = 300;; pid++) {
		assert_true(pid < 400);
		*a[0] = cxi_addr_make(cxi_addr_nic(a[0]), pid, 0);
		*a[1] = cxi_addr_make(cxi_addr_nic(a[1]), pid, 0);
		if (cxi_fix_ep_try(&e[0], &f[0]))
			continue;
		if (!cxi_fix_ep_try(&e[1], &f[1]))
			return;
		cxi_fix_ep_close(&e[0]);
	}
}

static void two_adapters__speak_to_each_other(void **state)
{
	struct cxi_addr name;
	size_t len = sizeof(name);
	struct cxi_fix_ep e[2];
	struct cxi_fix f[2];
	fi_addr_t to;
	char buf[8] = "";

	(void)state;
	room("nics=2");
	for (int i = 0; i < 2; i++) {
		struct fi_info *h = fi_allocinfo();

		assert_non_null(h);
		h->domain_attr->name = strdup(i ? "cxi1" : "cxi0");
		cxi_fix_open_info(&f[i], cxi_fix_info(FI_VERSION(1, 17), h));
	}
	same_pid(e, f);
	assert_int_not_equal(cxi_fix_domain(&f[0])->info.nic, cxi_fix_domain(&f[1])->info.nic);
	assert_int_equal(cxi_ep_of(e[0].ep)->portal->pid, cxi_ep_of(e[1].ep)->portal->pid);
	assert_int_equal(fi_getname(&e[1].ep->fid, &name, &len), 0);
	assert_int_equal(fi_av_insert(e[0].av, &name, 1, &to, 0, NULL), 1);
	assert_int_equal(fi_recv(e[1].ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL), 0);
	assert_int_equal(fi_send(e[0].ep, "over", 5, NULL, to, NULL), 0);
	cxi_fix_wait(&e[0], 1);
	cxi_fix_wait(&e[1], 1);
	assert_string_equal(buf, "over");
	for (int i = 0; i < 2; i++) {
		cxi_fix_ep_close(&e[i]);
		cxi_fix_close(&f[i]);
	}
}

/* --- contexts that differ ------------------------------------------------------------------------ */

static void ep_open_fc(struct cxi_fix_ep *e, const struct cxi_fix *f, bool on)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {0};
	struct cxi_addr self;
	size_t len = sizeof(self);

	assert_int_equal(fi_av_open(f->domain, &av, &e->av, NULL), 0);
	assert_int_equal(fi_cq_open(f->domain, &cq, &e->cq, NULL), 0);
	assert_int_equal(fi_endpoint(f->domain, f->info, &e->ep, NULL), 0);
	assert_int_equal(fi_setopt(&e->ep->fid, FI_OPT_ENDPOINT, FI_OPT_CXI_SET_RX_FLOW_CONTROL, &on, 1), 0);
	assert_int_equal(fi_ep_bind(e->ep, &e->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(e->ep), 0);
	assert_int_equal(fi_setopt(&e->ep->fid, FI_OPT_ENDPOINT, FI_OPT_CXI_SET_RX_FLOW_CONTROL, &on, 1),
			 -FI_EOPBADSTATE);
	assert_int_equal(fi_getname(&e->ep->fid, &self, &len), 0);
	assert_int_equal(fi_av_insert(e->av, &self, 1, NULL, 0, NULL), 1);
}

/*
 * The seed's second use of contexts: where flow control is off, a message without room ends with an error and nobody
 * waits.
 */
static void flow_control__on_and_off(void **state)
{
	(void)state;
	for (int on = 0; on < 2; on++) {
		uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
		struct fi_cq_err_entry err = {0};
		struct fi_cq_tagged_entry entry;
		unsigned ok = 0, failed = 0, sent = 0;
		struct cxi_fix_ep e;
		struct cxi_fix f;

		room("svc=1:les=24");
		cxi_fix_open(&f);
		ep_open_fc(&e, &f, on);
		while (sent < 50 && fi_send(e.ep, "abc", 3, NULL, 0, NULL) == 0)
			sent++;
		while (ok + failed < sent && !(on && counter(&f, "soft_pte_disabled"))) {
			ssize_t ret = fi_cq_read(e.cq, &entry, 1);

			assert_true(clk_now_ns(NULL) < until);
			ok += ret == 1;
			if (ret != -FI_EAVAIL)
				continue;
			assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
			assert_int_equal(err.err, FI_EIO);
			assert_true(err.prov_errno == CASSINI_RC_NO_SPACE ||
				    err.prov_errno == CASSINI_RC_ENTRY_NOT_FOUND);
			failed++;
		}
		if (on)
			assert_true(!failed && counter(&f, "soft_pte_disabled"));
		else
			assert_true(ok > 0 && failed > 0 && !counter(&f, "soft_pte_disabled"));
		cxi_fix_ep_close(&e);
		cxi_fix_close(&f);
	}
}

/*
 * Without flow control the event that tells of a rendezvous may find no room, and the end of its Get find some: the
 * receive ends with an error then.
 */
static void flow_control__off_and_the_message_was_not_told(void **state)
{
	struct cassini_event reply = {.type = CASSINI_EV_REPLY, .rc = CASSINI_RC_OK, .mlength = 8};
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	struct cxi_ep *ep;
	struct cxi_rx *rx;
	char buf[64];

	(void)state;
	room("");
	cxi_fix_open(&f);
	ep_open_fc(&e, &f, false);
	assert_int_equal(fi_recv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, &err), 0);
	ep = container_of(e.ep, struct cxi_ep, kit.fid);
	rx = TAILQ_FIRST(&ep->rxc->rx_list);
	lock_acquire(&ep->domain->kit.lock);
	rx->req.on_event(&rx->req, &reply);
	lock_release(&ep->domain->kit.lock);
	assert_int_equal(fi_cq_read(e.cq, &entry, 1), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_EIO);
	assert_ptr_equal(err.op_context, &err);
	assert_int_equal(cxi_rxc_posted(ep->rxc), 0);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* A receive that waits to be posted again, as one does whose entry was refused, is not overtaken by a later one. */
static void flow_control__a_later_receive_waits_for_the_refused(void **state)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	char first[8] = "", later[8] = "";
	struct cxi_fix_ep e;
	struct cxi_fix f;
	struct cxi_rxc *r;
	struct cxi_rx *rx;

	(void)state;
	room("");
	cxi_fix_open(&f);
	ep_open_fc(&e, &f, true);
	r = container_of(e.ep, struct cxi_ep, kit.fid)->rxc;
	assert_int_equal(fi_recv(e.ep, first, sizeof(first), NULL, FI_ADDR_UNSPEC, first), 0);
	lock_acquire(&r->domain->kit.lock);
	rx = TAILQ_FIRST(&r->rx_list);
	assert_int_equal(cassini_invalidate(r->pte, rx->le), 0);
	rx->le = NULL;
	cxi_fc_append_failed(rx, CASSINI_RC_PT_DISABLED);
	cxi_rxc_set_state(r, CXI_RXC_ENABLED); /* and a full event queue has stopped those that are posted again */
	lock_release(&r->domain->kit.lock);
	assert_int_equal(fi_recv(e.ep, later, sizeof(later), NULL, FI_ADDR_UNSPEC, later), 0);
	assert_int_equal(fi_inject(e.ep, "abc", 4, 0), 0);
	while (fi_cq_read(e.cq, &entry, 1) != 1)
		assert_true(clk_now_ns(NULL) < until);
	assert_ptr_equal(entry.op_context, first);
	assert_string_equal(first, "abc");
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

/* A deferred receive whose message is cut off has an error entry, and its counter counts an error. */
static void deferred_receive__truncated_is_an_error(void **state)
{
	char buf[4] = "";
	struct iovec iov = {buf, sizeof(buf)};
	struct fi_op_msg op = {.msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC}};
	struct fi_deferred_work work = {.op_type = FI_OP_RECV, .op.msg = &op};
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	struct cxi_fix_ep e;
	struct fid_cntr *done;
	struct cxi_fix f;

	(void)state;
	room("");
	cxi_fix_open(&f);
	ep_open_fc(&e, &f, true);
	op.ep = e.ep;
	assert_int_equal(fi_cntr_open(f.domain, NULL, &done, NULL), 0);
	work.triggering_cntr = work.completion_cntr = done;
	assert_int_equal(fi_control(&f.domain->fid, FI_QUEUE_WORK, &work), 0);
	assert_int_equal(fi_inject(e.ep, "abcdefg", 8, 0), 0);
	while (fi_cq_read(e.cq, &entry, 1) != -FI_EAVAIL)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ETRUNC);
	assert_int_equal(fi_cntr_read(done), 0);
	assert_int_equal(fi_cntr_readerr(done), 1);
	cxi_fix_ep_close(&e);
	assert_int_equal(fi_close(&done->fid), 0);
	cxi_fix_close(&f);
}

/* A scalable endpoint with two receive contexts, flow control being on in the first only. */
struct sep {
	struct fid_ep *ep, *tx, *rx[2];
	struct fid_cq *tx_cq, *rx_cq[2];
	struct fid_av *av; /* entry 0: itself */
};

static void sep_open(struct sep *s, const struct cxi_fix *f)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.rx_ctx_bits = 1};
	struct cxi_addr self;
	size_t len = sizeof(self);

	f->info->ep_attr->tx_ctx_cnt = 1;
	f->info->ep_attr->rx_ctx_cnt = 2;
	assert_int_equal(fi_av_open(f->domain, &av_attr, &s->av, NULL), 0);
	assert_int_equal(fi_scalable_ep(f->domain, f->info, &s->ep, NULL), 0);
	assert_int_equal(fi_scalable_ep_bind(s->ep, &s->av->fid, 0), 0);
	assert_int_equal(fi_cq_open(f->domain, &cq_attr, &s->tx_cq, NULL), 0);
	assert_int_equal(fi_tx_context(s->ep, 0, f->info->tx_attr, &s->tx, NULL), 0);
	assert_int_equal(fi_ep_bind(s->tx, &s->tx_cq->fid, FI_TRANSMIT), 0);
	for (int i = 0; i < 2; i++) {
		bool on = !i;

		assert_int_equal(fi_cq_open(f->domain, &cq_attr, &s->rx_cq[i], NULL), 0);
		assert_int_equal(fi_rx_context(s->ep, i, f->info->rx_attr, &s->rx[i], NULL), 0);
		assert_int_equal(fi_setopt(&s->rx[i]->fid, FI_OPT_ENDPOINT, FI_OPT_CXI_SET_RX_FLOW_CONTROL, &on, 1), 0);
		assert_int_equal(fi_ep_bind(s->rx[i], &s->rx_cq[i]->fid, FI_RECV), 0);
	}
	assert_int_equal(fi_enable(s->ep), 0);
	assert_int_equal(fi_enable(s->tx), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_enable(s->rx[i]), 0);
	assert_int_equal(fi_getname(&s->ep->fid, &self, &len), 0);
	assert_int_equal(fi_av_insert(s->av, &self, 1, NULL, 0, NULL), 1);
}

static void sep_close(struct sep *s)
{
	assert_int_equal(
		fi_close(&s->tx->fid) | fi_close(&s->rx[0]->fid) | fi_close(&s->rx[1]->fid) | fi_close(&s->ep->fid), 0);
	assert_int_equal(fi_close(&s->tx_cq->fid) | fi_close(&s->rx_cq[0]->fid) | fi_close(&s->rx_cq[1]->fid) |
				 fi_close(&s->av->fid),
			 0);
}

/* @cnt sends end, well or not. Return: how many not. */
static unsigned sends_failed(const struct sep *s, unsigned cnt)
{
	uint64_t until = clk_now_ns(NULL) + 20 * NS_PER_SEC;
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	unsigned failed = 0;

	while (cnt) {
		ssize_t ret = fi_cq_read(s->tx_cq, &entry, 1);

		assert_true(clk_now_ns(NULL) < until);
		cnt -= ret != -FI_EAGAIN;
		if (ret != -FI_EAVAIL)
			continue;
		assert_int_equal(fi_cq_readerr(s->tx_cq, &err, 0), 1);
		failed++;
	}
	return failed;
}

/* The next message of context @i. */
static void recv_one(const struct sep *s, int i, char *buf)
{
	uint64_t until = clk_now_ns(NULL) + 20 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;

	while (fi_recv(s->rx[i], buf, 8, NULL, FI_ADDR_UNSPEC, NULL) == -FI_EAGAIN) {
		fi_cq_read(s->rx_cq[i], NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	while (fi_cq_read(s->rx_cq[i], &entry, 1) == -FI_EAGAIN) {
		fi_cq_read(s->tx_cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
}

static void flow_control__of_one_context(void **state)
{
	uint64_t until = clk_now_ns(NULL) + 20 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	unsigned failed;
	struct cxi_fix f;
	struct sep s;
	char buf[8];

	(void)state;
	room("svc=1:les=40");
	cxi_fix_open(&f);
	sep_open(&s, &f);
	/* the second one first: what finds no room there fails, and nothing is disabled */
	for (int i = 0; i < 60; i++)
		assert_int_equal(fi_send(s.tx, "abc", 4, NULL, fi_rx_addr(0, 1, 1), NULL), 0);
	failed = sends_failed(&s, 60);
	assert_true(failed > 0 && failed < 60);
	assert_int_equal(counter(&f, "soft_pte_disabled"), 0);
	/* there is none for the first either, but there a message waits for it */
	assert_int_equal(fi_send(s.tx, "xyz", 4, NULL, fi_rx_addr(0, 0, 1), NULL), 0);
	while (!counter(&f, "soft_pte_disabled")) {
		assert_int_equal(fi_cq_read(s.tx_cq, &entry, 1), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
	for (unsigned i = failed; i < 60; i++)
		recv_one(&s, 1, buf);
	assert_string_equal(buf, "abc");
	recv_one(&s, 0, buf);
	assert_string_equal(buf, "xyz");
	assert_int_equal(sends_failed(&s, 1), 0);
	sep_close(&s);
	cxi_fix_close(&f);
}

/* FI_PROTO_CXI_RNR with FI_CXI_TRUNC_OK: less room than message is no error, and says so. */
static void trunc_ok__is_a_flag(void **state)
{
	(void)state;
	for (int ok = 0; ok < 2; ok++) {
		uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
		struct fi_info *h = fi_allocinfo();
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry err = {0};
		bool seen = false;
		char buf[4] = "";
		struct cxi_fix_ep e;
		struct cxi_fix f;

		room("nics=1");
		setenv("FI_CXI_TRUNC_OK", ok ? "1" : "0", 1);
		assert_non_null(h);
		h->ep_attr->protocol = 29;
		cxi_fix_open_info(&f, cxi_fix_info(FI_VERSION(1, 17), h));
		cxi_fix_ep_open(&e, &f);
		assert_int_equal(fi_recv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL), 0);
		assert_int_equal(fi_send(e.ep, "abcdefgh", 8, NULL, 0, NULL), 0);
		while (!seen) {
			ssize_t ret = fi_cq_read(e.cq, &entry, 1);

			assert_true(clk_now_ns(NULL) < until);
			if (ret == 1 && entry.flags & FI_RECV) {
				assert_true(ok && entry.flags & FI_CXI_TRUNC);
				assert_int_equal(entry.len, 4);
				seen = true;
			} else if (ret == -FI_EAVAIL) {
				assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
				assert_true(!ok && err.err == FI_ETRUNC && err.olen == 4);
				seen = true;
			}
		}
		assert_memory_equal(buf, "abcd", 4);
		unsetenv("FI_CXI_TRUNC_OK");
		cxi_fix_ep_close(&e);
		cxi_fix_close(&f);
	}
}

/* fi_set_val of an endpoint that lives: the retries of RNR end sooner than the parameter says. */
static void set_val__rnr_retry_time(void **state)
{
	uint64_t us = 1000, until = clk_now_ns(NULL) + 20 * NS_PER_SEC;
	struct fi_fid_var var = {.name = (int)FI_OPT_CXI_SET_RNR_MAX_RETRY_TIME, .val = &us};
	struct fi_info *h = fi_allocinfo();
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry entry;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	ssize_t ret;

	(void)state;
	room("nics=1");
	setenv("FI_CXI_RNR_MAX_TIMEOUT_US", "60000000", 1);
	assert_non_null(h);
	h->ep_attr->protocol = 29;
	cxi_fix_open_info(&f, cxi_fix_info(FI_VERSION(1, 17), h));
	unsetenv("FI_CXI_RNR_MAX_TIMEOUT_US");
	cxi_fix_ep_open(&e, &f);
	assert_int_equal(fi_control(&e.ep->fid, FI_SET_VAL, &var), 0);
	assert_int_equal(fi_send(e.ep, "abc", 3, NULL, 0, NULL), 0);
	while ((ret = fi_cq_read(e.cq, &entry, 1)) == -FI_EAGAIN)
		assert_true(clk_now_ns(NULL) < until);
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(e.cq, &err, 0), 1);
	assert_int_equal(err.prov_errno, CASSINI_RC_ENTRY_NOT_FOUND);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caps__second_endpoint),
		cmocka_unit_test(caps__counters),
		cmocka_unit_test(caps__regions),
		cmocka_unit_test(caps__deferred_work),
		cmocka_unit_test(two_adapters__speak_to_each_other),
		cmocka_unit_test(flow_control__on_and_off),
		cmocka_unit_test(flow_control__off_and_the_message_was_not_told),
		cmocka_unit_test(flow_control__a_later_receive_waits_for_the_refused),
		cmocka_unit_test(deferred_receive__truncated_is_an_error),
		cmocka_unit_test(flow_control__of_one_context),
		cmocka_unit_test(trunc_ok__is_a_flag),
		cmocka_unit_test(set_val__rnr_retry_time),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
