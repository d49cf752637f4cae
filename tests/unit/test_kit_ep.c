// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/ep.c, kit/fabric.c, kit/domain.c and kit/stubs.c: what binds to what, who is busy,
// no call without an answer.
#include "unit.h"

#include <rdma/fi_collective.h>

#include "base/mem.h"
#include "kit/deprecated.h"
#include "kit/stubs.h"
#include "kit_fix.h"

static struct fix g_fix, g_other;
static struct fix_ep g_ep;

static int setup(void **state)
{
	fix_open(&g_other, FI_VERSION(1, 17));
	fix_open(&g_fix, FI_VERSION(1, 17));
	fix_ep_open(&g_fix, &g_ep);
	return 0;
}

static int teardown(void **state)
{
	kit_ep_fini(&g_ep.kit);
	fix_close(&g_fix);
	fix_close(&g_other);
	return 0;
}

static struct kit_cq *cq_open(struct fix *f)
{
	struct kit_cq *cq = mem_alloc(sizeof(*cq));
	const struct fi_cq_attr attr = {0};

	assert_int_equal(kit_cq_init(cq, &f->domain, &attr, 0, false, NULL), 0);
	return cq;
}

static struct kit_cntr *cntr_open(struct fix *f)
{
	struct kit_cntr *c = mem_alloc(sizeof(*c));

	assert_int_equal(kit_cntr_init(c, &f->domain, NULL, false, NULL), 0);
	return c;
}

static struct kit_av *av_open(struct fix *f)
{
	static const struct kit_av_ops ops;
	struct kit_av *av = mem_alloc(sizeof(*av));
	const struct fi_av_attr attr = {0};

	assert_int_equal(kit_av_init(av, &f->domain, &attr, 8, &ops, NULL), 0);
	return av;
}

static void ep_bind__cq_rules(void **state)
{
	struct kit_cq *tx = cq_open(&g_fix), *rx = cq_open(&g_fix), *far = cq_open(&g_other);
	struct kit_ep *ep = &g_ep.kit;
	struct fid_eq *eq;

	assert_int_equal(kit_ep_bind(ep, NULL, FI_RECV), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &far->fid.fid, FI_RECV), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &tx->fid.fid, 0), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &tx->fid.fid, FI_RECV | FI_PEEK), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &tx->fid.fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION), 0);
	assert_int_equal(kit_ep_bind(ep, &rx->fid.fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	assert_null(ep->rx_cq);
	assert_int_equal(kit_ep_bind(ep, &rx->fid.fid, FI_RECV), 0);
	assert_ptr_equal(ep->tx_cq, tx);
	assert_ptr_equal(ep->rx_cq, rx);
	assert_true(ep->tx_selective);
	assert_false(ep->rx_selective);
	assert_false(kit_tx_wants_cqe(ep, 0));
	assert_true(kit_tx_wants_cqe(ep, FI_COMPLETION));
	assert_true(kit_rx_wants_cqe(ep, 0));
	ep->enabled = true;
	assert_int_equal(kit_ep_bind(ep, &rx->fid.fid, FI_RECV), -FI_EOPBADSTATE);
	assert_int_equal(fi_eq_open(&g_fix.fabric->fid, &(struct fi_eq_attr){0}, &eq, NULL), 0);
	assert_int_equal(kit_ep_bind(ep, &eq->fid, 0), 0);
	assert_int_equal(fi_close(&eq->fid), -FI_EBUSY);
	kit_ep_fini(ep);
	assert_int_equal(fi_close(&eq->fid), 0);
	assert_int_equal(fi_close(&tx->fid.fid), 0);
	assert_int_equal(fi_close(&rx->fid.fid), 0);
	assert_int_equal(fi_close(&far->fid.fid), 0);
	fix_ep_open(&g_fix, &g_ep);
}

static void set_tx_flags(struct kit_ep *ep, uint64_t flags)
{
	flags |= FI_TRANSMIT;
	assert_int_equal(kit_ep_control(ep, FI_SETOPSFLAG, &flags), 0);
}

/* A send that says nothing is no more than an entry of the queue, or the long questions are asked. */
static void ep_gate__follows_what_is_bound_and_the_flags(void **state)
{
	struct kit_cq *cq = cq_open(&g_fix);
	struct kit_cntr *c = cntr_open(&g_fix);
	struct kit_ep *ep = &g_ep.kit;

	assert_null(ep->tx_plain);
	assert_int_equal(kit_ep_bind(ep, &cq->fid.fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION), 0);
	assert_null(ep->tx_plain);
	set_tx_flags(ep, FI_COMPLETION);
	assert_ptr_equal(ep->tx_plain, cq);
	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t flag = 1ULL << bit;

		if (flag & (FI_TRANSMIT | FI_RECV | FI_COMPLETION | FI_INJECT_COMPLETE))
			continue;
		set_tx_flags(ep, FI_COMPLETION | flag);
		assert_null(ep->tx_plain);
	}
	set_tx_flags(ep, FI_COMPLETION | FI_INJECT_COMPLETE);
	assert_ptr_equal(ep->tx_plain, cq);
	assert_int_equal(kit_ep_bind(ep, &c->fid.fid, FI_SEND), 0);
	assert_null(ep->tx_plain);
	kit_ep_unbind(ep, FI_TRANSMIT);
	assert_null(ep->tx_plain);
	set_tx_flags(ep, 0);
	assert_int_equal(kit_ep_bind(ep, &cq->fid.fid, FI_TRANSMIT), 0);
	assert_ptr_equal(ep->tx_plain, cq);
	kit_ep_unbind(ep, FI_TRANSMIT);
	assert_null(ep->tx_plain);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	assert_int_equal(fi_close(&c->fid.fid), 0);
}

static void ep_bind__counter_rules(void **state)
{
	struct kit_cntr *a = cntr_open(&g_fix), *b = cntr_open(&g_fix), *far = cntr_open(&g_other);
	struct kit_ep *ep = &g_ep.kit;

	assert_int_equal(kit_ep_bind(ep, &far->fid.fid, FI_SEND), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &a->fid.fid, 0), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &a->fid.fid, FI_SELECTIVE_COMPLETION), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &a->fid.fid, FI_SEND | FI_REMOTE_WRITE), 0);
	assert_int_equal(kit_ep_bind(ep, &b->fid.fid, FI_SEND | FI_RECV), -FI_EINVAL);
	assert_null(ep->cntr[KIT_CNTR_RECV]);
	assert_int_equal(kit_ep_bind(ep, &b->fid.fid, FI_RECV), 0);
	assert_ptr_equal(ep->cntr[KIT_CNTR_SEND], a);
	assert_ptr_equal(ep->cntr[KIT_CNTR_REMOTE_WRITE], a);
	assert_ptr_equal(ep->cntr[KIT_CNTR_RECV], b);
	assert_int_equal(fi_close(&a->fid.fid), -FI_EBUSY);
	kit_ep_fini(ep);
	assert_int_equal(fi_close(&a->fid.fid), 0);
	assert_int_equal(fi_close(&b->fid.fid), 0);
	assert_int_equal(fi_close(&far->fid.fid), 0);
	fix_ep_open(&g_fix, &g_ep);
}

static void ep_bind__av_eq_and_others(void **state)
{
	struct kit_av *av = av_open(&g_fix), *av2 = av_open(&g_fix), *far = av_open(&g_other);
	struct kit_ep *ep = &g_ep.kit;
	struct fid_eq *eq;

	assert_int_equal(kit_ep_bind(ep, &far->fid.fid, 0), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &av->fid.fid, FI_SEND), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &av->fid.fid, 0), 0);
	assert_int_equal(kit_ep_bind(ep, &av2->fid.fid, 0), -FI_EINVAL);
	assert_int_equal(fi_eq_open(&g_other.fabric->fid, NULL, &eq, NULL), 0);
	assert_int_equal(kit_ep_bind(ep, &eq->fid, 0), -FI_EINVAL);
	assert_int_equal(kit_ep_bind(ep, &g_fix.domain.fid.fid, 0), -FI_EINVAL);
	kit_ep_fini(ep);
	assert_int_equal(fi_close(&eq->fid), 0);
	assert_int_equal(fi_close(&av->fid.fid), 0);
	assert_int_equal(fi_close(&av2->fid.fid), 0);
	assert_int_equal(fi_close(&far->fid.fid), 0);
	fix_ep_open(&g_fix, &g_ep);
}

static void ep_unbind__one_direction(void **state)
{
	struct kit_cq *cq = cq_open(&g_fix), *rx = cq_open(&g_fix);
	struct kit_cntr *c = cntr_open(&g_fix);
	struct kit_ep *ep = &g_ep.kit;

	ep->binds_late = ep->enabled = true;
	assert_int_equal(kit_ep_bind(ep, &cq->fid.fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(kit_ep_bind(ep, &c->fid.fid, FI_SEND | FI_RECV), 0);
	kit_ep_unbind(ep, FI_RECV);
	assert_null(ep->rx_cq);
	assert_null(ep->cntr[KIT_CNTR_RECV]);
	assert_ptr_equal(ep->tx_cq, cq);
	assert_int_equal(cq->ep_cnt, 1); /* sends still complete there */
	assert_int_equal(c->ep_cnt, 1);
	assert_int_equal(fi_close(&cq->fid.fid), -FI_EBUSY);
	assert_int_equal(kit_ep_bind(ep, &rx->fid.fid, FI_RECV), 0);
	kit_ep_unbind(ep, FI_TRANSMIT);
	assert_int_equal(cq->ep_cnt, 0);
	assert_int_equal(c->ep_cnt, 0);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	assert_int_equal(fi_close(&c->fid.fid), 0);
	assert_int_equal(fi_close(&rx->fid.fid), -FI_EBUSY);
	kit_ep_fini(ep);
	assert_int_equal(fi_close(&rx->fid.fid), 0);
	fix_ep_open(&g_fix, &g_ep);
}

static void ep_enable_check__what_the_caps_need(void **state)
{
	struct kit_cq *cq = cq_open(&g_fix);
	struct kit_av *av = av_open(&g_fix);
	struct kit_ep *ep = &g_ep.kit;

	assert_int_equal(kit_ep_enable_check(ep), -FI_ENOAV);
	assert_int_equal(kit_ep_bind(ep, &av->fid.fid, 0), 0);
	assert_int_equal(kit_ep_enable_check(ep), -FI_ENOCQ);
	assert_int_equal(kit_ep_bind(ep, &cq->fid.fid, FI_TRANSMIT), 0);
	assert_int_equal(kit_ep_enable_check(ep), -FI_ENOCQ);
	ep->caps = FI_MSG | FI_SEND;
	assert_int_equal(kit_ep_enable_check(ep), 0);
	ep->caps = FI_RMA | FI_REMOTE_READ;
	assert_int_equal(kit_ep_enable_check(ep), 0);
	ep->caps = FI_TAGGED; /* both directions */
	assert_int_equal(kit_ep_enable_check(ep), -FI_ENOCQ);
	assert_int_equal(kit_ep_bind(ep, &cq->fid.fid, FI_RECV), 0);
	assert_int_equal(kit_ep_enable_check(ep), 0);
	kit_ep_fini(ep);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	assert_int_equal(fi_close(&av->fid.fid), 0);
	fix_ep_open(&g_fix, &g_ep);
}

static void ep_control__operation_flags(void **state)
{
	uint64_t flags = FI_TRANSMIT;

	assert_int_equal(kit_ep_control(&g_ep.kit, FI_GETOPSFLAG, &flags), 0);
	assert_int_equal(flags, FI_DELIVERY_COMPLETE);
	flags = FI_RECV | FI_COMPLETION;
	assert_int_equal(kit_ep_control(&g_ep.kit, FI_SETOPSFLAG, &flags), 0);
	assert_int_equal(g_ep.kit.rx_op_flags, FI_COMPLETION);
	flags = FI_RECV | FI_TRANSMIT;
	assert_int_equal(kit_ep_control(&g_ep.kit, FI_SETOPSFLAG, &flags), -FI_EINVAL);
	flags = 0;
	assert_int_equal(kit_ep_control(&g_ep.kit, FI_GETOPSFLAG, &flags), -FI_EINVAL);
	assert_int_equal(kit_ep_control(&g_ep.kit, FI_GETOPSFLAG, NULL), -FI_EINVAL);
	assert_int_equal(kit_ep_control(&g_ep.kit, FI_ALIAS, &flags), -FI_ENOSYS);
}

static void ep_init__survives_every_failed_allocation(void **state)
{
	struct fi_info *info = fix_info();
	int64_t live = mem_live_count();
	struct fix_ep ep = {0};
	uint64_t n = 0;
	int ret;

	do {
		mem_fail_nth(++n);
		ret = kit_ep_init(&ep.kit, &g_fix.domain, info, g_ep.kit.progress, NULL);
		if (ret) {
			assert_int_equal(ret, -FI_ENOMEM);
			assert_int_equal(mem_live_count(), live);
		}
	} while (ret);
	mem_fail_nth(0);
	assert_true(n > 5);
	kit_ep_fini(&ep.kit);
	free(info->tx_attr);
	info->tx_attr = NULL;
	assert_int_equal(kit_ep_init(&ep.kit, &g_fix.domain, info, g_ep.kit.progress, NULL),
			 -FI_EINVAL);
	fi_freeinfo(info);
}

static void objects__are_busy_while_used(void **state)
{
	assert_int_equal(kit_domain_fini(&g_fix.domain), -FI_EBUSY);
	assert_int_equal(fi_close(&g_fix.fabric->fid.fid), -FI_EBUSY);
}

/* The old words become today's bits, which is what providers look at. */
static void domain_init__translates_mr_mode(void **state)
{
	static const struct {
		int mr_mode;
		uint64_t mode, want;
	} row[] = {
		{KIT_MR_BASIC, 0, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY},
		{KIT_MR_BASIC, KIT_LOCAL_MR,
		 FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY},
		{KIT_MR_SCALABLE, 0, 0},
		{FI_MR_LOCAL | FI_MR_HMEM, 0, FI_MR_LOCAL | FI_MR_HMEM},
	};
	static const struct fi_ops fi_ops;
	static const struct fi_ops_domain ops;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct fi_info *info = fix_info();
		struct kit_domain d = {0};

		info->mode = row[i].mode;
		info->domain_attr->mr_mode = row[i].mr_mode;
		assert_int_equal(kit_domain_init(&d, g_fix.fabric, info, &fi_ops, &ops, NULL), 0);
		assert_int_equal(d.mr_mode, row[i].want);
		assert_int_equal(kit_domain_fini(&d), 0);
		fi_freeinfo(info);
	}
}

/* Every word after .size is a function; a hole would end a program at address 0. */
static void check_table(const void *ops, size_t len)
{
	void *const *fn = ops;

	assert_int_equal(*(const size_t *)ops, len);
	for (size_t i = 1; i < len / sizeof(void *); i++)
		assert_non_null(fn[i]);
}

static void stubs__no_table_has_a_hole(void **state)
{
	check_table(&kit_no_fi_ops, sizeof(kit_no_fi_ops));
	check_table(&kit_no_fabric_ops, sizeof(kit_no_fabric_ops));
	check_table(&kit_no_domain_ops, sizeof(kit_no_domain_ops));
	check_table(&kit_no_ep_ops, sizeof(kit_no_ep_ops));
	check_table(&kit_no_cm_ops, sizeof(kit_no_cm_ops));
	check_table(&kit_no_msg_ops, sizeof(kit_no_msg_ops));
	check_table(&kit_no_tagged_ops, sizeof(kit_no_tagged_ops));
	check_table(&kit_no_rma_ops, sizeof(kit_no_rma_ops));
	check_table(&kit_no_atomic_ops, sizeof(kit_no_atomic_ops));
	check_table(&kit_no_collective_ops, sizeof(kit_no_collective_ops));
	check_table(g_fix.fabric->fid.fid.ops, sizeof(struct fi_ops));
	check_table(g_fix.fabric->fid.ops, sizeof(struct fi_ops_fabric));
	check_table(g_fix.domain.fid.fid.ops, sizeof(struct fi_ops));
	check_table(g_fix.domain.fid.ops, sizeof(struct fi_ops_domain));
	check_table(g_fix.domain.fid.mr, sizeof(struct fi_ops_mr));
}

/* What a provider leaves out is there in the tables that it makes of the macros. */
static void stubs__partial_tables_have_no_hole(void **state)
{
	static struct fi_ops fi_ops = KIT_FI_OPS(kit_no_close, kit_av_bind, kit_no_control);
	static struct fi_ops_ep ep_ops = KIT_EP_OPS(kit_no_cancel, kit_no_getopt, kit_no_setopt);
	static struct fi_ops_ep sep_ops = KIT_SEP_OPS(kit_no_tx_ctx, kit_no_rx_ctx);
	static struct fi_ops_cm cm_ops = KIT_CM_OPS(kit_no_getname);
	static struct fi_ops_msg msg_ops = {.size = sizeof(msg_ops), KIT_NO_MSG_TX, KIT_NO_MSG_RX};
	static struct fi_ops_tagged tagged_ops = {.size = sizeof(tagged_ops), KIT_NO_TAGGED_TX, KIT_NO_TAGGED_RX};

	(void)state;
	check_table(&fi_ops, sizeof(fi_ops));
	assert_ptr_equal(fi_ops.bind, kit_av_bind);
	check_table(&ep_ops, sizeof(ep_ops));
	check_table(&sep_ops, sizeof(sep_ops));
	check_table(&cm_ops, sizeof(cm_ops));
	assert_memory_equal(&ep_ops, &kit_no_ep_ops, sizeof(ep_ops));
	assert_memory_equal(&sep_ops, &kit_no_ep_ops, sizeof(sep_ops));
	assert_memory_equal(&cm_ops, &kit_no_cm_ops, sizeof(cm_ops));
	assert_memory_equal(&msg_ops, &kit_no_msg_ops, sizeof(msg_ops));
	assert_memory_equal(&tagged_ops, &kit_no_tagged_ops, sizeof(tagged_ops));
}

static void stubs__answer_with_an_error(void **state)
{
	struct fid_ep *ep = &g_ep.kit.fid;
	size_t len = 4;

	assert_int_equal(fi_send(ep, NULL, 0, NULL, 0, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_tinject(ep, NULL, 0, 0, 0), -FI_EOPNOTSUPP);
	assert_int_equal(fi_barrier(ep, 0, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_atomicvalid(ep, FI_INT8, FI_SUM, &len), -FI_EOPNOTSUPP);
	assert_int_equal(fi_getname(&ep->fid, &len, &len), -FI_ENOSYS);
	assert_int_equal(fi_setopt(&ep->fid, 0, 0, &len, len), -FI_ENOPROTOOPT);
	assert_int_equal(fi_cancel(&ep->fid, NULL), -FI_ENOSYS);
	assert_int_equal(fi_enable(ep), -FI_ENOSYS);
	assert_int_equal(fi_close(&ep->fid), -FI_ENOSYS);
	assert_int_equal(fi_srx_context(&g_fix.domain.fid, NULL, NULL, NULL), -FI_ENOSYS);
	assert_int_equal(fi_passive_ep(&g_fix.fabric->fid, NULL, NULL, NULL), -FI_ENOSYS);
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(ep_bind__cq_rules),
		T(ep_gate__follows_what_is_bound_and_the_flags),
		T(ep_bind__counter_rules),
		T(ep_bind__av_eq_and_others),
		T(ep_unbind__one_direction),
		T(ep_enable_check__what_the_caps_need),
		T(ep_control__operation_flags),
		T(ep_init__survives_every_failed_allocation),
		T(objects__are_busy_while_used),
		T(domain_init__translates_mr_mode),
		T(stubs__no_table_has_a_hole),
		T(stubs__partial_tables_have_no_hole),
		T(stubs__answer_with_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
