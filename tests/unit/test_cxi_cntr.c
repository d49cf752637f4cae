// SPDX-License-Identifier: BSD-2-Clause
// Counters of the cxi provider beyond libfabric's: bytes, write-back, ranges.
#include "cxi_fix.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi_ep_int.h"

static struct fid_cntr *cntr_open(const struct cxi_fix *f, uint32_t events, uint64_t flags)
{
	struct fi_cntr_attr attr = {.events = (enum fi_cntr_events)events, .flags = flags, .wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *c;

	assert_int_equal(fi_cntr_open(f->domain, &attr, &c, NULL), 0);
	return c;
}

static void open__what_is_known(void **state)
{
	static const struct fi_cntr_attr bad[] = {
		{.events = (enum fi_cntr_events)2}, {.flags = 1}, {.flags = FI_CXI_CNTR_CACHED << 1}};
	struct fid_cntr *c;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fi_cntr_attr attr = bad[i];

		assert_int_equal(fi_cntr_open(f.domain, &attr, &c, NULL), -FI_ENOSYS);
	}
	c = cntr_open(&f, FI_CXI_CNTR_EVENTS_BYTES, FI_CXI_CNTR_CACHED);
	assert_int_equal(fi_close(&c->fid), 0);
	cxi_fix_close(&f);
}

/* Upstream's answer, which is not that of other providers. */
static void wait__what_cannot_be(void **state)
{
	struct fi_cntr_attr none = {.wait_obj = FI_WAIT_NONE};
	struct fid_cntr *c;
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	assert_int_equal(fi_cntr_open(f.domain, &none, &c, NULL), 0);
	assert_int_equal(fi_cntr_wait(c, 0, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&c->fid), 0);
	c = cntr_open(&f, FI_CNTR_EVENTS_COMP, 0);
	assert_int_equal(fi_cntr_wait(c, FI_CXI_CNTR_SUCCESS_MAX + 1, 0), -FI_EINVAL);
	assert_int_equal(fi_cntr_wait(c, FI_CXI_CNTR_SUCCESS_MAX, 0), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_wait(c, 0, 0), 0);
	assert_int_equal(fi_close(&c->fid), 0);
	cxi_fix_close(&f);
}

/* Messages of all protocols, and writes: what is counted is bytes, in both directions. */
static void events_bytes__are_counted(void **state)
{
	static const size_t len[] = {100, 5000, 100000};
	static uint8_t out[100000], in[100000];
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG};
	struct fid_cntr *sent, *got, *ops;
	struct fi_av_attr av = {0};
	struct cxi_fix_ep e;
	struct cxi_addr self;
	size_t self_len = sizeof(self);
	struct cxi_fix f;

	(void)state;
	cxi_fix_open(&f);
	sent = cntr_open(&f, FI_CXI_CNTR_EVENTS_BYTES, 0);
	got = cntr_open(&f, FI_CXI_CNTR_EVENTS_BYTES, 0);
	ops = cntr_open(&f, FI_CNTR_EVENTS_COMP, 0);
	assert_int_equal(fi_av_open(f.domain, &av, &e.av, NULL), 0);
	assert_int_equal(fi_cq_open(f.domain, &cq, &e.cq, NULL), 0);
	assert_int_equal(fi_endpoint(f.domain, f.info, &e.ep, NULL), 0);
	assert_int_equal(fi_ep_bind(e.ep, &e.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(e.ep, &e.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(e.ep, &sent->fid, FI_SEND), 0);
	assert_int_equal(fi_ep_bind(e.ep, &got->fid, FI_RECV), 0);
	assert_int_equal(fi_ep_bind(e.ep, &ops->fid, FI_WRITE), 0);
	assert_int_equal(fi_ep_bind(e.ep, &ops->fid, FI_SEND), -FI_EINVAL); /* has one */
	assert_int_equal(fi_enable(e.ep), 0);
	assert_int_equal(fi_getname(&e.ep->fid, &self, &self_len), 0);
	assert_int_equal(fi_av_insert(e.av, &self, 1, NULL, 0, NULL), 1);
	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		assert_int_equal(fi_recv(e.ep, in, len[i], NULL, FI_ADDR_UNSPEC, NULL), 0);
		assert_int_equal(fi_send(e.ep, out, len[i], NULL, 0, NULL), 0);
		cxi_fix_wait(&e, 2);
	}
	assert_int_equal(fi_cntr_wait(sent, 105100, 10000), 0);
	assert_int_equal(fi_cntr_wait(got, 105100, 10000), 0);
	assert_int_equal(fi_cntr_read(sent), 105100);
	assert_int_equal(fi_cntr_read(got), 105100);
	assert_int_equal(fi_cntr_read(ops), 0);
	cxi_fix_ep_close(&e);
	assert_int_equal(fi_close(&sent->fid) | fi_close(&got->fid) | fi_close(&ops->fid), 0);
	cxi_fix_close(&f);
}

/* The value lies in memory that the program names, as the adapter would write it. */
static void counter_ops__write_back(void **state)
{
	struct fi_cxi_cntr_ops *ops;
	uint64_t wb[2] = {0};
	struct fid_cntr *c;
	struct cxi_fix f;
	size_t len;
	void *addr;

	(void)state;
	cxi_fix_open(&f);
	c = cntr_open(&f, FI_CNTR_EVENTS_COMP, 0);
	assert_int_equal(fi_open_ops(&c->fid, "cxi_counter", 0, (void **)&ops, NULL), -FI_EINVAL);
	assert_int_equal(fi_open_ops(&c->fid, FI_CXI_COUNTER_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->set_wb_buffer(&c->fid, NULL, 8), -FI_EINVAL);
	assert_int_equal(ops->set_wb_buffer(&c->fid, wb, 7), -FI_EINVAL);
	assert_int_equal(ops->set_wb_buffer(&c->fid, (uint8_t *)wb + 1, 8), -FI_EINVAL);
	assert_int_equal(ops->set_wb_buffer(&f.domain->fid, wb, 8), -FI_EINVAL);
	assert_int_equal(ops->set_wb_buffer(&c->fid, wb, sizeof(wb)), 0);
	assert_int_equal(fi_cntr_add(c, 5), 0);
	assert_int_equal(fi_cxi_cntr_wb_read(wb), 5);
	assert_int_equal(fi_cxi_cntr_wb_readerr(wb), 0);
	assert_int_equal(fi_cntr_adderr(c, 3), 0);
	assert_int_equal(fi_cntr_set(c, FI_CXI_CNTR_SUCCESS_MAX), 0);
	assert_true(fi_cxi_cntr_wb_read(wb) == FI_CXI_CNTR_SUCCESS_MAX);
	assert_int_equal(fi_cxi_cntr_wb_readerr(wb), 3);
	assert_true(wb[0] >> 63); /* it was written */
	assert_int_equal(wb[1], 0);
	/* what the adapter can count */
	assert_int_equal(fi_cntr_add(c, FI_CXI_CNTR_SUCCESS_MAX + 1), -FI_EINVAL);
	assert_int_equal(fi_cntr_seterr(c, FI_CXI_CNTR_FAILURE_MAX + 1), -FI_EINVAL);
	assert_int_equal(fi_cntr_seterr(c, FI_CXI_CNTR_FAILURE_MAX), 0);
	assert_int_equal(fi_cxi_cntr_wb_readerr(wb), FI_CXI_CNTR_FAILURE_MAX);
	assert_int_equal(ops->get_mmio_addr(&c->fid, &addr, &len), -FI_EOPNOTSUPP); /* nobody would see the stores */
	assert_int_equal(fi_close(&c->fid), 0);
	cxi_fix_close(&f);
}

/* --- a look at what has come ---------------------------------------------------------------------- */

struct look {
	struct cxi_fix f;
	struct cxi_fix_ep e;
	struct fid_cntr *got;
};

static void look_open(struct look *l, uint32_t protocol, const char *mode)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->ep_attr->protocol = protocol;
	h->caps = FI_MSG | FI_TAGGED;
	cxi_fix_open_info(&l->f, cxi_fix_info(FI_VERSION(1, 17), h));
	strcpy(cxi_fix_domain(&l->f)->params.rx_match_mode, mode);
	l->got = cntr_open(&l->f, FI_CNTR_EVENTS_COMP, 0);
	cxi_fix_ep_make(&l->e, &l->f);
	assert_int_equal(fi_ep_bind(l->e.ep, &l->got->fid, FI_RECV), 0);
	assert_int_equal(cxi_fix_ep_enable(&l->e), 0);
}

static void look_close(struct look *l)
{
	cxi_fix_ep_close(&l->e);
	assert_int_equal(fi_close(&l->got->fid), 0);
	cxi_fix_close(&l->f);
}

/* For a message with tag 7. Return: it is there. */
static bool looks(struct look *l, uint64_t flags)
{
	static struct fi_context2 ctx;
	const struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = 7, .context = &ctx};
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry = {0};
	struct fi_cq_err_entry err = {0};
	ssize_t ret;

	assert_int_equal(fi_trecvmsg(l->e.ep, &m, flags | FI_PEEK), 0);
	while ((ret = fi_cq_read(l->e.cq, &entry, 1)) == -FI_EAGAIN)
		assert_true(clk_now_ns(NULL) < until);
	if (ret == 1) {
		assert_ptr_equal(entry.op_context, &ctx);
		return true;
	}
	assert_int_equal(ret, -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(l->e.cq, &err, 0), 1);
	assert_ptr_equal(err.op_context, &ctx);
	assert_int_equal(err.err, FI_ENOMSG);
	assert_int_equal(err.prov_errno, CASSINI_RC_NO_MATCH);
	return false;
}

static void counts_are(const struct look *l, uint64_t ok, uint64_t err)
{
	assert_int_equal(fi_cntr_read(l->got), ok);
	assert_int_equal(fi_cntr_readerr(l->got), err);
}

/* Whoever matches: each look counts like a receive, a vain one like a failed one. */
static void peek__counts_as_a_receive(void **state)
{
	static const char *const mode[] = {"hardware", "software"};
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct look l;
	char in[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(mode); i++) {
		look_open(&l, 0, mode[i]);
		assert_false(looks(&l, 0));
		assert_false(looks(&l, FI_CLAIM));
		counts_are(&l, 0, 2);
		assert_int_equal(fi_tinject(l.e.ep, "abc", 4, 0, 7), 0);
		while (!looks(&l, 0))
			assert_true(clk_now_ns(NULL) < until);
		assert_int_equal(fi_cntr_read(l.got), 1);
		assert_int_equal(fi_trecv(l.e.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 7, 0, NULL), 0);
		cxi_fix_wait(&l.e, 1);
		assert_int_equal(fi_cntr_read(l.got), 2);
		look_close(&l);
	}
}

/* Where nothing is ever kept: a look finds nothing, and the adapter has counted no receive. */
static void peek__of_rnr_counts_nothing(void **state)
{
	struct look l;

	(void)state;
	look_open(&l, CXI_PROTO_RNR, "hardware");
	assert_false(looks(&l, 0));
	counts_are(&l, 0, 0);
	look_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__what_is_known),
		cmocka_unit_test(wait__what_cannot_be),
		cmocka_unit_test(events_bytes__are_counted),
		cmocka_unit_test(counter_ops__write_back),
		cmocka_unit_test(peek__counts_as_a_receive),
		cmocka_unit_test(peek__of_rnr_counts_nothing),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
