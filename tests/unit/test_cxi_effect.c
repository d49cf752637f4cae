// SPDX-License-Identifier: BSD-2-Clause
// Parameters of the cxi provider and what each of them changes in the objects that are made under it.
#include "cxi_fix.h"
#include "fi_ext_softfabric.h"

static void set(const char *name, const char *value)
{
	assert_int_equal(setenv(name, value, 1), 0);
}

/* With keys of clients: the test names them. */
static void open_one(struct cxi_fix *f, struct cxi_fix_ep *e)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT;
	cxi_fix_open_info(f, cxi_fix_info(FI_VERSION(1, 17), h));
	cxi_fix_ep_open(e, f);
}

static void close_one(struct cxi_fix *f, struct cxi_fix_ep *e)
{
	cxi_fix_ep_close(e);
	cxi_fix_close(f);
}

static uint64_t counter(const struct cxi_fix *f, const char *name)
{
	struct fi_softfabric_ops_stats *ops = NULL;
	uint64_t v = 0;

	assert_int_equal(fi_open_ops(&f->domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&ops, NULL), 0);
	assert_int_equal(ops->read(f->domain, name, &v), 0);
	return v;
}

static void rget_tc__class_of_softwares_gets(void **state)
{
	static const struct {
		const char *value;
		uint32_t want;
	} row[] = {{"BULK_DATA", FI_TC_BULK_DATA},
		   {"low_latency", FI_TC_LOW_LATENCY},
		   {"FASTEST", FI_TC_UNSPEC},
		   {NULL, FI_TC_UNSPEC}};
	struct cxi_fix_ep e;
	struct cxi_fix f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		if (row[i].value)
			set("FI_CXI_RGET_TC", row[i].value);
		else
			unsetenv("FI_CXI_RGET_TC");
		open_one(&f, &e);
		assert_int_equal(cxi_ep_of(e.ep)->rxc->tclass, row[i].want ? row[i].want : cxi_ep_of(e.ep)->tclass);
		close_one(&f, &e);
	}
}

static void sw_rx_tx_init_max__gets_of_software(void **state)
{
	struct cxi_fix_ep e;
	struct cxi_fix f;

	(void)state;
	set("FI_CXI_SW_RX_TX_INIT_MAX", "100");
	open_one(&f, &e);
	unsetenv("FI_CXI_SW_RX_TX_INIT_MAX");
	assert_in_range(cassini_cmdq_free(cxi_ep_of(e.ep)->rxc->cmdq), 100, 200);
	close_one(&f, &e);
}

static void ctrl_rx_eq_max_size__bytes_of_the_control_queue(void **state)
{
	struct cxi_fix_ep e;
	struct cxi_fix f;

	(void)state;
	set("FI_CXI_CTRL_RX_EQ_MAX_SIZE", "16384");
	open_one(&f, &e);
	unsetenv("FI_CXI_CTRL_RX_EQ_MAX_SIZE");
	assert_in_range(cassini_eq_free(cxi_ep_of(e.ep)->portal->eq), 128, 256); /* events of 64 bytes */
	close_one(&f, &e);
}

static uint64_t idc_of_one_atomic(void)
{
	uint64_t mem = 0, one = 1, idc;
	struct cxi_fix_ep e;
	struct fid_mr *mr;
	struct cxi_fix f;

	open_one(&f, &e);
	assert_int_equal(fi_mr_reg(f.domain, &mem, sizeof(mem), FI_REMOTE_WRITE, 0, 4711, 0, &mr, NULL), 0);
	assert_int_equal(fi_mr_bind(mr, &e.ep->fid, 0), 0);
	assert_int_equal(fi_mr_enable(mr), 0);
	assert_int_equal(fi_atomic(e.ep, &one, 1, NULL, 0, 0, 4711, FI_UINT64, FI_SUM, NULL), 0);
	cxi_fix_wait(&e, 1);
	assert_int_equal(mem, 1);
	idc = counter(&f, "cq_num_idc_cmds_0");
	assert_int_equal(fi_close(&mr->fid), 0);
	close_one(&f, &e);
	return idc;
}

static void disable_non_inject_amo_idc__operands_in_the_command(void **state)
{
	(void)state;
	assert_int_equal(idc_of_one_atomic(), 1);
	set("FI_CXI_DISABLE_NON_INJECT_AMO_IDC", "1");
	assert_int_equal(idc_of_one_atomic(), 0);
	unsetenv("FI_CXI_DISABLE_NON_INJECT_AMO_IDC");
}

/*
 * Thirty receives, of an adapter with 64 list entries: no message comes, so nothing but the posting can be the reason.
 */
static uint64_t transitions_of_posting(size_t rx_size)
{
	uint64_t until, cnt;
	struct cxi_fix_ep e;
	struct cxi_fix f;
	char buf[8];

	set("SOFTFABRIC_CXI", "svc=1:les=64");
	set("FI_CXI_RX_MATCH_MODE", "hybrid");
	cxi_fix_open(&f);
	f.info->rx_attr->size = rx_size;
	cxi_fix_ep_open(&e, &f);
	for (int i = 0; i < 30; i++) {
		until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
		while (fi_trecv(e.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, 77, 0, NULL) == -FI_EAGAIN) {
			assert_true(clk_now_ns(NULL) < until);
			fi_cq_read(e.cq, NULL, 0);
		}
	}
	fi_cq_read(e.cq, NULL, 0);
	cnt = counter(&f, "sw_transitions");
	for (int i = 0; i < 30; i++) /* all of them are still there */
		assert_int_equal(fi_tsend(e.ep, "abc", 3, NULL, 0, 77, NULL), 0);
	cxi_fix_wait(&e, 60);
	close_one(&f, &e);
	unsetenv("FI_CXI_RX_MATCH_MODE");
	unsetenv("SOFTFABRIC_CXI");
	return cnt;
}

static void hybrid_recv_preemptive__entries_run_low(void **state)
{
	(void)state;
	assert_int_equal(transitions_of_posting(1024), 0);
	set("FI_CXI_HYBRID_RECV_PREEMPTIVE", "1");
	assert_int_equal(transitions_of_posting(1024), 1);
	unsetenv("FI_CXI_HYBRID_RECV_PREEMPTIVE");
}

static void hybrid_posted_recv_preemptive__more_than_the_size(void **state)
{
	(void)state;
	set("FI_CXI_HYBRID_POSTED_RECV_PREEMPTIVE", "1");
	assert_int_equal(transitions_of_posting(1024), 0);
	assert_int_equal(transitions_of_posting(16), 1);
	unsetenv("FI_CXI_HYBRID_POSTED_RECV_PREEMPTIVE");
}

/* alt_read takes index 254 with its first message; whoever had it before keeps it, and then all goes by default. */
static void rdzv_proto__index_of_alt_read(void **state)
{
	static uint8_t out[2][50000], in[2][50000];
	struct fid_mr *mr, *late;
	struct cxi_fix_ep e;
	struct cxi_fix f;

	(void)state;
	set("FI_CXI_RDZV_PROTO", "alt_read");
	for (int region_first = 0; region_first < 2; region_first++) {
		open_one(&f, &e);
		assert_int_equal(fi_mr_reg(f.domain, out, 8, FI_REMOTE_READ, 0, region_first ? 238 : 237, 0, &mr, NULL),
				 0);
		assert_int_equal(fi_mr_bind(mr, &e.ep->fid, 0), 0);
		assert_int_equal(fi_mr_enable(mr), 0);
		for (int i = 0; i < 2; i++) {
			memset(out[i], i + 1, sizeof(out[i]));
			assert_int_equal(fi_recv(e.ep, in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, NULL), 0);
			assert_int_equal(fi_send(e.ep, out[i], sizeof(out[i]), NULL, 0, NULL), 0);
		}
		cxi_fix_wait(&e, 4);
		assert_memory_equal(in, out, sizeof(in));
		assert_int_equal(cxi_fix_domain(&f)->alt_read, !region_first);
		assert_int_equal(counter(&f, "ixe_rx_ptl_restricted_pkt"), region_first ? 0 : 2);
		assert_int_equal(counter(&f, "lpe_rndzv_puts_offloaded_0"), 0); /* software fetches in any case */
		if (!region_first) {
			assert_int_equal(fi_mr_reg(f.domain, out, 8, FI_REMOTE_READ, 0, 238, 0, &late, NULL), 0);
			assert_int_equal(fi_mr_bind(late, &e.ep->fid, 0), 0);
			assert_int_equal(fi_mr_enable(late), -FI_ENOKEY);
			assert_int_equal(fi_close(&late->fid), 0);
		}
		assert_int_equal(fi_close(&mr->fid), 0);
		close_one(&f, &e);
	}
	unsetenv("FI_CXI_RDZV_PROTO");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rget_tc__class_of_softwares_gets),
		cmocka_unit_test(sw_rx_tx_init_max__gets_of_software),
		cmocka_unit_test(ctrl_rx_eq_max_size__bytes_of_the_control_queue),
		cmocka_unit_test(disable_non_inject_amo_idc__operands_in_the_command),
		cmocka_unit_test(hybrid_recv_preemptive__entries_run_low),
		cmocka_unit_test(hybrid_posted_recv_preemptive__more_than_the_size),
		cmocka_unit_test(rdzv_proto__index_of_alt_read),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
