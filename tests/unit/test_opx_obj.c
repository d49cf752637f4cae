// SPDX-License-Identifier: BSD-2-Clause
// Domain, endpoint, counters of opx: what may be opened, bound, enabled and closed when, and on which unit.
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kit/compat.h"
#include "opx_objrig.h"

/* Opens, enables with result @want, closes. */
static void enable_check(bool bind_av, uint64_t cq_flags, int want)
{
	struct rig r;

	rig_open(&r, bind_av, cq_flags);
	assert_int_equal(fi_enable(r.ep), want);
	assert_int_equal(g_fake.opened, want == 0);
	assert_int_equal(g_fake.peers, want == 0);
	rig_close(&r);
	assert_int_equal(g_fake.opened, 0);
	assert_int_equal(g_fake.peers, 0);
}

/* --- enable -------------------------------------------------------------------------------------- */

static void enable__needs(void **state)
{
	int64_t live = mem_live_count();
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	enable_check(true, FI_TRANSMIT | FI_RECV, 0);
	enable_check(false, FI_TRANSMIT | FI_RECV, -FI_ENOAV);
	enable_check(true, FI_RECV, -FI_ENOENT);
	enable_check(true, 0, -FI_ENOENT);
	rig_open(&r, true, FI_TRANSMIT | FI_SELECTIVE_COMPLETION); /* receives go where sends do */
	assert_int_equal(fi_enable(r.ep), 0);
	assert_ptr_equal(opx(r.ep)->kit.rx_cq, opx(r.ep)->kit.tx_cq);
	assert_true(opx(r.ep)->kit.rx_selective);
	assert_int_equal(fake_log_cnt("receives complete in the transmit"), 1);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_int_equal(fi_ep_bind(r.ep, &r.av->fid, 0), -FI_EOPBADSTATE);
	rig_close(&r);
	fake_close(&dom);
	assert_int_equal(mem_live_count(), live);
}

static void enable__every_failure_is_busy(void **state)
{
	static const int errs[] = {-EBUSY, -ENETDOWN, -EINVAL, -ENOENT, -ENOMEM, -EPERM};

	(void)state;
	g_fake.unit_cnt = 1;
	fake_open(&dom, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(errs); i++) {
		g_fake.open_err = errs[i];
		enable_check(true, FI_TRANSMIT | FI_RECV, -FI_EBUSY);
		/* of the first only: the remedy where contexts ran out */
		assert_int_equal(fake_log_cnt("--mca btl ^ofi"), 1);
	}
	g_fake.peers_err = -FI_ENOMEM;
	enable_check(true, FI_TRANSMIT | FI_RECV, -FI_EBUSY);
	g_fake.unit[0].state = HFI_PORT_INIT;
	enable_check(true, FI_TRANSMIT | FI_RECV, -FI_EBUSY);
	assert_int_equal(fake_log_cnt("none of 1 HFI units of this host is ACTIVE"), 1);
	fake_close(&dom);
	fake_reset(1);
	setenv("FI_OPX_PKEY", "0x12345", 1);
	fake_open(&dom, NULL);
	enable_check(true, FI_TRANSMIT | FI_RECV, -FI_EBUSY);
	fake_close(&dom);
}

static void enable__again_after_failure(void **state)
{
	struct rig r;

	(void)state;
	g_fake.unit_cnt = 1;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	memset(g_fake.busy[0], 1, 8);
	assert_int_equal(fi_enable(r.ep), -FI_EBUSY);
	assert_int_equal(fi_recv(r.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
	g_fake.busy[0][5] = false;
	assert_int_equal(fi_enable(r.ep), 0);
	assert_int_equal(opx(r.ep)->self.hfi1_rx, 5);
	rig_close(&r);
	fake_close(&dom);
}

static struct {
	pthread_t thread;
	_Atomic bool has_begun, is_done;
	int ret;
} second;

static void *second_run(void *arg)
{
	second.ret = fi_enable(arg);
	atomic_store(&second.is_done, true);
	return NULL;
}

static struct fid_ep *second_ep;

/* Another thread enables the same endpoint: either waits for the first, or is done before that goes on. */
static void second_begin(void)
{
	if (atomic_exchange(&second.has_begun, true))
		return;
	assert_int_equal(pthread_create(&second.thread, NULL, second_run, second_ep), 0);
	for (int i = 0; i < 50 && !atomic_load(&second.is_done); i++)
		usleep(1000);
}

/* Two threads enable one endpoint: it gets its context once, and both hear that it is enabled. */
static void enable__by_two_threads(void **state)
{
	struct rig r;

	(void)state;
	memset(&second, 0, sizeof(second));
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	second_ep = r.ep;
	g_fake.turn = second_begin;
	assert_int_equal(fi_enable(r.ep), 0);
	g_fake.turn = NULL;
	assert_int_equal(pthread_join(second.thread, NULL), 0);
	assert_int_equal(second.ret, 0);
	assert_int_equal(g_fake.opened, 1);
	assert_int_equal(g_fake.peers, 1);
	rig_close(&r);
	assert_int_equal(g_fake.opened, 0);
	fake_close(&dom);
}

/* Where the context of a domain on unit 0 is opened under FI_OPX_HFI_SELECT=@select; -1: not at all. */
static void unit_check(const char *select, int want)
{
	struct rig r;

	if (select)
		setenv("FI_OPX_HFI_SELECT", select, 1);
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), want < 0 ? -FI_EBUSY : 0);
	if (want >= 0)
		assert_int_equal(opx(r.ep)->self.hfi1_unit, want);
	rig_close(&r);
	fake_close(&dom);
	unsetenv("FI_OPX_HFI_SELECT");
}

static void unit__selected(void **state)
{
	(void)state;
	unit_check(NULL, 0); /* the domain's */
	unit_check("1", 1);
	unit_check("fixed:1", 1);
	unit_check("numa:1:0-0,fixed:0", 1);
	unit_check("default", 0);
	unit_check("default,fixed:1", 0);
	unit_check("2", -1);
	unit_check("", -1);
	unit_check("fixed", -1);
	memset(g_fake.busy[0], 1, 8);
	unit_check(NULL, 1);      /* its contexts are all taken: the other one */
	unit_check("default", 1);
	unit_check("0", -1);      /* what was selected is not replaced */
	g_fake.unit[1].state = HFI_PORT_DOWN;
	unit_check("1", -1);
	unit_check(NULL, -1);
}

/* --- what the context is asked for, and what follows from it ------------------------------------- */

static void context__gets_parameters(void **state)
{
	static const uint8_t job[16] = {[14] = 0xab, [15] = 0xcd};
	struct rig r;

	(void)state;
	setenv("FI_OPX_UUID", "abcd", 1);
	setenv("FI_OPX_SL", "7", 1);
	setenv("FI_OPX_PKEY", "0x8002", 1);
	setenv("FI_OPX_SELINUX", "yes", 1);
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_memory_equal(g_fake.ctxt.uuid, job, 16);
	assert_int_equal(g_fake.ctxt.sl, 7);
	assert_int_equal(g_fake.ctxt.pkey, 0x8002);
	assert_true(g_fake.ctxt.selinux);
	assert_int_equal(g_fake.ctxt.ctxt, -1);
	assert_int_equal(g_fake.ctxt.subctxt_cnt, 0);
	rig_close(&r);
	fake_close(&dom);
}

static void affinity__of_the_thread_that_opens(void **state)
{
	cpu_set_t before, set;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	for (int force = 0; force < 2; force++) {
		setenv("FI_OPX_FORCE_CPUAFFINITY", force ? "yes" : "no", 1);
		fake_open(&dom, NULL);
		enable_check(true, FI_TRANSMIT | FI_RECV, 0);
		fake_close(&dom);
		assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
		assert_int_equal(CPU_COUNT(&set), force ? 1 : CPU_COUNT(&before));
	}
	assert_true(CPU_ISSET(sched_getcpu(), &set));
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void name__of_a_context(void **state)
{
	struct opx_addr a;
	size_t len = sizeof(a);
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	g_fake.busy[0][0] = g_fake.busy[0][1] = true;
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_getname(&r.ep->fid, &a, &len), -FI_EOPBADSTATE);
	assert_int_equal(fi_enable(r.ep), 0);
	len = 3;
	assert_int_equal(fi_getname(&r.ep->fid, &a, &len), -FI_ETOOSMALL);
	assert_int_equal(len, 8);
	assert_int_equal(fi_getname(&r.ep->fid, &a, &len), 0);
	assert_int_equal(a.hfi1_rx, 2);
	assert_int_equal(a.reliability_rx, 2);
	assert_int_equal(a.hfi1_unit, 0);
	assert_int_equal(le16_get(a.endpoint_id), 3); /* the fake's send context */
	assert_int_equal(be16_get(a.lid), 1);
	assert_int_equal(a.rx_index, 3);
	rig_close(&r);
	fake_close(&dom);
}

struct limits {
	const char *env, *value;
	uint32_t mtu, credits;
	size_t eager_max, mp_max, rzv_min, sdma_min;
};

static void thresholds__follow(void **state)
{
	static const struct limits tab[] = {
		{NULL, NULL, 8192, 160, 8192, 16384, 16385, 16385},
		{NULL, NULL, 8192, 65, 4096, 16384, 16385, 16385},
		{NULL, NULL, 4096, 160, 4096, 16384, 16385, 16385},
		{NULL, NULL, 10240, 200, 8192, 16384, 16385, 16385},
		{"FI_OPX_RZV_MIN_PAYLOAD_BYTES", "65536", 8192, 160, 8192, 65535, 65536, 16385},
		{"FI_OPX_RZV_MIN_PAYLOAD_BYTES", "64", 8192, 160, 8192, 63, 64, 16385},
		{"FI_OPX_MP_EAGER_DISABLE", "1", 8192, 160, 8192, 0, 16385, 16385},
		{"FI_OPX_SDMA_DISABLE", "1", 8192, 160, 8192, 16384, 16385, SIZE_MAX},
		{"FI_OPX_SDMA_MIN_PAYLOAD_BYTES", "64", 8192, 160, 8192, 16384, 16385, 64},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tab); i++) {
		const struct limits *t = &tab[i];
		struct rig r;

		fake_reset(1);
		g_fake.unit[0].mtu = t->mtu;
		g_fake.unit[0].credits = t->credits;
		if (t->env)
			setenv(t->env, t->value, 1);
		fake_open(&dom, NULL);
		rig_open(&r, true, FI_TRANSMIT | FI_RECV);
		assert_int_equal(fi_enable(r.ep), 0);
		assert_int_equal(opx(r.ep)->eager_max, t->eager_max);
		assert_int_equal(opx(r.ep)->mp_max, t->mp_max);
		assert_int_equal(opx(r.ep)->rzv_min, t->rzv_min);
		assert_true(opx(r.ep)->sdma_min == t->sdma_min);
		assert_int_equal(opx(r.ep)->bounce_max, 16385);
		assert_int_equal(opx(r.ep)->mtu, MIN(t->mtu, 8192u));
		assert_false(opx(r.ep)->use_tid);
		rig_close(&r);
		fake_close(&dom);
	}
}

/* --- calls --------------------------------------------------------------------------------------- */

static void options__known_ones(void **state)
{
	size_t v = 0, len = sizeof(v);
	bool b = true;
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_getopt(&r.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, &len), 0);
	assert_int_equal(v, 8192);
	v = 100;
	assert_int_equal(fi_setopt(&r.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, sizeof(v)), 0);
	assert_int_equal(opx(r.ep)->srx.min_multi_recv, 100);
	assert_int_equal(fi_setopt(&r.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, 4), -FI_EINVAL);
	assert_int_equal(fi_getopt(&r.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &v, &len), 0);
	assert_int_equal(v, 0);
	len = 4;
	assert_int_equal(fi_getopt(&r.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &v, &len), -FI_ETOOSMALL);
	assert_int_equal(fi_setopt(&r.ep->fid, FI_OPT_ENDPOINT, KIT_OPT_CUDA_API_PERMITTED, &b, sizeof(b)), 0);
	assert_int_equal(fi_setopt(&r.ep->fid, FI_OPT_ENDPOINT, 77, &v, sizeof(v)), -FI_ENOPROTOOPT);
	assert_int_equal(fi_getopt(&r.ep->fid, FI_OPT_ENDPOINT, 77, &v, &len), -FI_ENOPROTOOPT);
	assert_int_equal(fi_setopt(&r.ep->fid, 77, FI_OPT_MIN_MULTI_RECV, &v, sizeof(v)), -FI_ENOPROTOOPT);
	rig_close(&r);
	fake_close(&dom);
}

static void calls__that_there_are_not(void **state)
{
	struct fid_pep *pep;
	struct fid_stx *stx;
	struct fid_ep *rx;
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_passive_ep(dom.fabric, dom.info, &pep, NULL), -FI_ENOSYS);
	assert_int_equal(fi_stx_context(dom.domain, NULL, &stx, NULL), -FI_ENOSYS);
	assert_int_equal(fi_srx_context(dom.domain, NULL, &rx, NULL), -FI_ENOSYS);
	assert_int_equal(fi_setname(&r.ep->fid, &r, 8), -FI_ENOSYS);
	assert_int_equal(fi_connect(r.ep, &r, NULL, 0), -FI_ENOSYS);
	assert_int_equal(fi_ep_bind(r.ep, (struct fid[]){{.fclass = FI_CLASS_EQ}}, 0), -FI_ENOSYS);
	assert_int_equal(fi_ep_bind(r.ep, (struct fid[]){{.fclass = FI_CLASS_MR}}, 0), 0);
	rig_close(&r);
	fake_close(&dom);
}

static void cancel__is_0_whether_found_or_not(void **state)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	int ctx;
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_cancel(&r.ep->fid, &ctx), -FI_EOPBADSTATE);
	assert_int_equal(fi_enable(r.ep), 0);
	assert_int_equal(fi_cancel(&r.ep->fid, &ctx), 0);
	assert_int_equal(fi_cq_read(r.cq, &e, 1), -FI_EAGAIN);
	assert_int_equal(fi_recv(r.ep, &ctx, sizeof(ctx), NULL, FI_ADDR_UNSPEC, &ctx), 0);
	assert_int_equal(fi_cancel(&r.ep->fid, &ctx), 0);
	assert_int_equal(fi_cq_read(r.cq, &e, 1), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(r.cq, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_ptr_equal(err.op_context, &ctx);
	rig_close(&r);
	fake_close(&dom);
}

static void av__removal_is_told(void **state)
{
	struct opx_addr a = {.hfi1_rx = 1, .lid = be16_put(5)};
	fi_addr_t f;
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_av_insert(r.av, &a, 1, &f, 0, NULL), 1);
	assert_int_equal(fi_av_remove(r.av, &f, 1, 0), 0);
	assert_int_equal(g_fake.forgotten, 0); /* it has no peers before it is enabled */
	assert_int_equal(fi_enable(r.ep), 0);
	assert_int_equal(fi_av_insert(r.av, &a, 1, &f, 0, NULL), 1);
	assert_int_equal(fi_av_remove(r.av, &f, 1, 0), 0);
	assert_int_equal(g_fake.forgotten, 1);
	rig_close(&r);
	fake_close(&dom);
}

/* --- close --------------------------------------------------------------------------------------- */

static void close__drains_within_bounds(void **state)
{
	uint64_t before;
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	before = g_fake.now_ns;
	g_fake.undrained = true;
	g_fake.polls = 0;
	rig_close(&r);
	assert_in_range(g_fake.now_ns - before, 50000000, 60000000); /* the fake's linger */
	assert_true(g_fake.polls > 10);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_enable(r.ep), 0);
	before = g_fake.now_ns;
	g_fake.undrained = false;
	rig_close(&r);
	assert_in_range(g_fake.now_ns - before, 0, 3000000);
	fake_close(&dom);
}

static void close__busy(void **state)
{
	struct rig r;

	(void)state;
	fake_open(&dom, NULL);
	rig_open(&r, true, FI_TRANSMIT | FI_RECV);
	assert_int_equal(fi_close(&dom.domain->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&dom.fabric->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&r.cq->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&r.av->fid), -FI_EBUSY);
	rig_close(&r);
	fake_close(&dom);
}

/* --- limits -------------------------------------------------------------------------------------- */

static void limits__of_objects(void **state)
{
	static struct fid_ep *eps[OPX_AV_EPS + 1];
	static struct fid_cntr *cntrs[OPX_CNTR_CNT + 1];
	struct fi_cq_attr cq_attr = {0};
	struct fi_av_attr av_attr = {0};
	struct fid_cq *cq;
	struct fid_av *av;

	(void)state;
	fake_open(&dom, NULL);
	assert_int_equal(fi_cq_open(dom.domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_av_open(dom.domain, &av_attr, &av, NULL), 0);
	for (int i = 0; i <= OPX_CNTR_CNT; i++)
		assert_int_equal(fi_cntr_open(dom.domain, NULL, &cntrs[i], NULL), i < OPX_CNTR_CNT ? 0 : -FI_EINVAL);
	for (int i = 0; i <= OPX_AV_EPS; i++) {
		assert_int_equal(fi_endpoint(dom.domain, dom.info, &eps[i], NULL), 0);
		assert_int_equal(fi_ep_bind(eps[i], &av->fid, 0), i < OPX_AV_EPS ? 0 : -FI_EINVAL);
		assert_int_equal(fi_ep_bind(eps[i], &cq->fid, FI_TRANSMIT), i < OPX_CQ_EPS ? 0 : -FI_EINVAL);
		assert_int_equal(fi_ep_bind(eps[i], &cq->fid, FI_RECV), i < OPX_CQ_EPS ? 0 : -FI_EINVAL);
		assert_int_equal(fi_ep_bind(eps[i], &cntrs[0]->fid, FI_SEND), i < OPX_CQ_EPS ? 0 : -FI_EINVAL);
	}
	for (int i = 0; i <= OPX_AV_EPS; i++)
		assert_int_equal(fi_close(&eps[i]->fid), 0);
	assert_int_equal(fi_close(&cntrs[0]->fid), 0);
	assert_int_equal(fi_cntr_open(dom.domain, NULL, &cntrs[0], NULL), 0); /* one went, one comes */
	for (int i = 0; i < OPX_CNTR_CNT; i++)
		assert_int_equal(fi_close(&cntrs[i]->fid), 0);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(fi_close(&av->fid), 0);
	fake_close(&dom);
}

static void domain__refusals(void **state)
{
	static const char *const bad[] = {"ib2", "ib", "eth0", "hfi1_7"};
	struct fid_domain *d = NULL;

	(void)state;
	fake_open(&dom, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct fi_info *info = fi_dupinfo(dom.info);

		free(info->domain_attr->name);
		info->domain_attr->name = strdup(bad[i]);
		assert_int_equal(fi_domain(dom.fabric, info, &d, NULL), -FI_ENODEV);
		fi_freeinfo(info);
	}
	setenv("FI_OPX_PROG_AFFINITY", "1:2", 1);
	assert_int_equal(fi_domain(dom.fabric, dom.info, &d, NULL), -FI_EINVAL);
	assert_null(d);
	fake_close(&dom);
	assert_int_equal(opx_fabric_open((struct fi_fabric_attr[]){{.name = (char[]){"OPX"}}}, &dom.fabric, NULL), 0);
	assert_int_equal(fi_close(&dom.fabric->fid), 0);
	assert_int_equal(opx_fabric_open((struct fi_fabric_attr[]){{.name = (char[]){"OP-100"}}}, &dom.fabric, NULL),
			 -FI_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(enable__needs, setup),
		cmocka_unit_test_setup(enable__every_failure_is_busy, setup),
		cmocka_unit_test_setup(enable__again_after_failure, setup),
		cmocka_unit_test_setup(enable__by_two_threads, setup),
		cmocka_unit_test_setup(unit__selected, setup),
		cmocka_unit_test_setup(context__gets_parameters, setup),
		cmocka_unit_test_setup(affinity__of_the_thread_that_opens, setup),
		cmocka_unit_test_setup(name__of_a_context, setup),
		cmocka_unit_test_setup(thresholds__follow, setup),
		cmocka_unit_test_setup(options__known_ones, setup),
		cmocka_unit_test_setup(calls__that_there_are_not, setup),
		cmocka_unit_test_setup(cancel__is_0_whether_found_or_not, setup),
		cmocka_unit_test_setup(av__removal_is_told, setup),
		cmocka_unit_test_setup(close__drains_within_bounds, setup),
		cmocka_unit_test_setup(close__busy, setup),
		cmocka_unit_test_setup(limits__of_objects, setup),
		cmocka_unit_test_setup(domain__refusals, setup),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
