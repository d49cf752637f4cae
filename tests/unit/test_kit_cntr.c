// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/cntr.c.
#include "unit.h"

#include <poll.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kit_fix.h"

static struct fix g_fix;
static struct kit_cntr *g_c;

static struct kit_cntr *cntr_open(enum fi_wait_obj wait)
{
	struct fi_cntr_attr attr = {.wait_obj = wait};
	struct kit_cntr *c = mem_alloc(sizeof(*c));

	assert_int_equal(kit_cntr_init(c, &g_fix.domain, &attr, true, NULL), 0);
	return c;
}

static int setup(void **state)
{
	fix_open(&g_fix, FI_VERSION(1, 17));
	g_c = cntr_open(FI_WAIT_UNSPEC);
	return 0;
}

static int teardown(void **state)
{
	mem_fail_nth(0);
	assert_int_equal(fi_close(&g_c->fid.fid), 0);
	fix_close(&g_fix);
	return 0;
}

static void add(struct kit_cntr *c, uint64_t ok, uint64_t err)
{
	lock_acquire(&g_fix.domain.lock);
	kit_cntr_add(c, ok, err);
	lock_release(&g_fix.domain.lock);
}

static void cntr__adds_sets_and_reads(void **state)
{
	add(g_c, 2, 1);
	kit_cntr_add(NULL, 1, 1);
	assert_int_equal(fi_cntr_read(&g_c->fid), 2);
	assert_int_equal(fi_cntr_readerr(&g_c->fid), 1);
	assert_int_equal(fi_cntr_add(&g_c->fid, 5), 0);
	assert_int_equal(fi_cntr_adderr(&g_c->fid, 6), 0);
	assert_int_equal(fi_cntr_read(&g_c->fid), 7);
	assert_int_equal(fi_cntr_readerr(&g_c->fid), 7);
	assert_int_equal(fi_cntr_set(&g_c->fid, 3), 0);
	assert_int_equal(fi_cntr_seterr(&g_c->fid, 0), 0);
	assert_int_equal(fi_cntr_read(&g_c->fid), 3);
	assert_int_equal(fi_cntr_readerr(&g_c->fid), 0);
}

static void script_count_one(struct fix_ep *ep)
{
	kit_cntr_add(ep->kit.cntr[KIT_CNTR_SEND], 1, 0);
}

static void cntr_read__drives_the_endpoints(void **state)
{
	struct fix_ep ep;

	fix_ep_open(&g_fix, &ep);
	assert_int_equal(kit_ep_bind(&ep.kit, &g_c->fid.fid, FI_SEND | FI_READ), 0);
	assert_int_equal(kit_ep_bind(&ep.kit, &g_c->fid.fid, FI_WRITE), 0);
	assert_int_equal(fi_cntr_read(&g_c->fid), 0);
	assert_int_equal(ep.progress_cnt, 1);
	assert_int_equal(g_fix.idle_cnt, 1);
	ep.script = script_count_one;
	assert_int_equal(fi_cntr_read(&g_c->fid), 1);
	assert_int_equal(fi_cntr_wait(&g_c->fid, 5, -1), 0);
	assert_int_equal(ep.progress_cnt, 6);
	assert_int_equal(fi_close(&g_c->fid.fid), -FI_EBUSY);
	kit_ep_fini(&ep.kit);
}

/* Of a region: its endpoint is driven although the counter is not bound to it, and as long as it is bound, if it is. */
static void cntr_drive__by_what_it_is_not_bound_to(void **state)
{
	struct fix_ep ep;

	fix_ep_open(&g_fix, &ep);
	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(kit_cntr_drive(g_c, &ep.kit, true), 0);
	assert_int_equal(kit_cntr_drive(g_c, &ep.kit, true), 0);
	lock_release(&g_fix.domain.lock);
	assert_int_equal(fi_cntr_read(&g_c->fid), 0);
	assert_int_equal(ep.progress_cnt, 1);
	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(kit_cntr_drive(g_c, &ep.kit, false), 0);
	lock_release(&g_fix.domain.lock);
	assert_int_equal(fi_cntr_read(&g_c->fid), 0);
	assert_int_equal(ep.progress_cnt, 1);
	assert_int_equal(kit_ep_bind(&ep.kit, &g_c->fid.fid, FI_SEND), 0);
	lock_acquire(&g_fix.domain.lock);
	assert_int_equal(kit_cntr_drive(g_c, &ep.kit, true), 0);
	assert_int_equal(kit_cntr_drive(g_c, &ep.kit, false), 0);
	lock_release(&g_fix.domain.lock);
	assert_int_equal(fi_cntr_read(&g_c->fid), 0);
	assert_int_equal(ep.progress_cnt, 2);
	kit_ep_fini(&ep.kit);
}

static void script_fail(struct fix_ep *ep)
{
	kit_cntr_add(ep->kit.cntr[KIT_CNTR_RECV], 0, 1);
}

static void cntr_wait__ends_with_threshold_error_or_timeout(void **state)
{
	uint64_t start = clk_now_ns(NULL);
	struct fix_ep ep;

	assert_int_equal(fi_cntr_wait(&g_c->fid, 0, 0), 0);
	assert_int_equal(fi_cntr_wait(&g_c->fid, 1, 0), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_wait(&g_c->fid, 1, 5), -FI_ETIMEDOUT);
	assert_true(clk_now_ns(NULL) - start >= 5 * NS_PER_MS);
	/* Errors of the past do not end it, new ones do. */
	add(g_c, 0, 3);
	assert_int_equal(fi_cntr_wait(&g_c->fid, 1, 1), -FI_ETIMEDOUT);
	fix_ep_open(&g_fix, &ep);
	ep.script = script_fail;
	assert_int_equal(kit_ep_bind(&ep.kit, &g_c->fid.fid, FI_RECV), 0);
	assert_int_equal(fi_cntr_wait(&g_c->fid, 1, -1), -FI_EAVAIL);
	kit_ep_fini(&ep.kit);
}

static void *adder(void *arg)
{
	struct kit_cntr *c = arg;

	for (int i = 0; i < 1000; i++)
		add(c, 1, 0);
	return NULL;
}

static void cntr_wait__wakes_for_another_thread(void **state)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, adder, g_c), 0);
	for (uint64_t n = 1; n <= 1000; n++)
		assert_int_equal(fi_cntr_wait(&g_c->fid, n, 20000), 0);
	pthread_join(t, NULL);
}

static void cntr_trywait__tells_each_change_once(void **state)
{
	struct kit_cntr *c = cntr_open(FI_WAIT_FD);
	struct fid *fids[] = {&c->fid.fid};
	struct pollfd p = {.events = POLLIN};

	assert_int_equal(fi_control(fids[0], FI_GETWAIT, &p.fd), 0);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	add(c, 0, 1);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EAGAIN);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	/* What was read is no news. */
	add(c, 1, 0);
	assert_int_equal(fi_cntr_read(&c->fid), 1);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_int_equal(fi_close(fids[0]), 0);
}

static void cntr__without_wait_object(void **state)
{
	struct kit_cntr *c = mem_alloc(sizeof(*c));
	struct fid *fids[] = {&c->fid.fid};

	assert_int_equal(kit_cntr_init(c, &g_fix.domain, NULL, false, NULL), 0);
	assert_int_equal(fi_cntr_wait(&c->fid, 1, 0), -FI_ENOSYS);
	c->waits_by_poll = true;
	assert_int_equal(fi_cntr_wait(&c->fid, 1, 0), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_wait(&c->fid, 1, 5), -FI_ETIMEDOUT);
	assert_int_equal(fi_cntr_set(&c->fid, 1), 0);
	assert_int_equal(fi_cntr_wait(&c->fid, 1, -1), 0);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EINVAL);
	assert_int_equal(fi_close(&c->fid.fid), 0);
}

static int g_changes;

static void on_change(struct kit_cntr *c)
{
	g_changes++;
}

static void cntr__tells_the_provider_of_changes(void **state)
{
	g_changes = 0;
	g_c->on_change = on_change;
	add(g_c, 1, 0);
	assert_int_equal(fi_cntr_set(&g_c->fid, 9), 0);
	assert_int_equal(g_changes, 2);
}

static void cntr_init__refuses_bad_attributes(void **state)
{
	static const struct {
		struct fi_cntr_attr attr;
		bool wait_ok;
		int ret;
	} row[] = {
		{{.flags = 1}, true, -FI_EINVAL},
		{{.events = 9}, true, -FI_EINVAL},
		{{.wait_obj = 99}, true, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_UNSPEC}, false, -FI_ENOSYS},
	};
	struct kit_cntr c = {0};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(
			kit_cntr_init(&c, &g_fix.domain, &row[i].attr, row[i].wait_ok, NULL),
			row[i].ret);
	mem_fail_nth(1);
	assert_int_equal(kit_cntr_init(&c, &g_fix.domain,
				       &(struct fi_cntr_attr){.wait_obj = FI_WAIT_FD}, true, NULL),
			 -FI_ENOMEM);
}

static void cntr__refuses_after_fork(void **state)
{
	g_fix.forked = true;
	assert_int_equal(fi_cntr_add(&g_c->fid, 1), -FI_EIO);
	assert_int_equal(fi_cntr_wait(&g_c->fid, 1, -1), -FI_EIO);
	assert_int_equal(fi_cntr_read(&g_c->fid), 0);
	g_fix.forked = false;
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(cntr__adds_sets_and_reads),
		T(cntr_read__drives_the_endpoints),
		T(cntr_drive__by_what_it_is_not_bound_to),
		T(cntr_wait__ends_with_threshold_error_or_timeout),
		T(cntr_wait__wakes_for_another_thread),
		T(cntr_trywait__tells_each_change_once),
		T(cntr__without_wait_object),
		T(cntr__tells_the_provider_of_changes),
		T(cntr_init__refuses_bad_attributes),
		T(cntr__refuses_after_fork),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
