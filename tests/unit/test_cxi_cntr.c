// SPDX-License-Identifier: BSD-2-Clause
// Counters of the cxi provider beyond libfabric's: bytes, write-back, ranges.
#include "cxi_fix.h"
#include "fi_cxi_ext.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__what_is_known),
		cmocka_unit_test(wait__what_cannot_be),
		cmocka_unit_test(events_bytes__are_counted),
		cmocka_unit_test(counter_ops__write_back),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
