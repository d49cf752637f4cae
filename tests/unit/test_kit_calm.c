// SPDX-License-Identifier: BSD-2-Clause
// Reads of an empty queue that pass by the device: base/calm.h as kit/cq.c uses it.
#include "unit.h"

#include "base/mem.h"
#include "kit_fix.h"

static struct fix g_fix;
static struct kit_cq *g_cq;

static struct kit_cq *cq_open(void)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE, .size = 4};
	struct kit_cq *cq = mem_alloc(sizeof(*cq));

	assert_int_equal(kit_cq_init(cq, &g_fix.domain, &attr, 0, true, NULL), 0);
	return cq;
}

static int setup(void **state)
{
	static const uint8_t mark = 1; /* without one each call asks whether it is in a child after fork */

	fix_open(&g_fix, FI_VERSION(1, 17));
	kit_domain_mark(&g_fix.domain, &mark);
	g_cq = cq_open();
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(fi_close(&g_cq->fid.fid), 0);
	fix_close(&g_fix);
	return 0;
}

static _Atomic uint64_t g_word, g_polls;
static uint32_t g_passed, g_asked;
static bool g_is_calm;

static bool script_calm(struct kit_ep *ep, struct calm *c, uint32_t passed)
{
	g_passed += passed;
	g_asked++;
	c->polls = &g_polls;
	calm_watch(c, &g_word, g_word);
	return g_is_calm;
}

/* Reads @cnt times what is empty. Return: how often @ep was driven for that. */
static int read_nothing(struct kit_cq *cq, const struct fix_ep *ep, int cnt)
{
	int before = ep->progress_cnt, idle = g_fix.idle_cnt;
	struct fi_cq_tagged_entry e;

	for (int i = 0; i < cnt; i++)
		assert_int_equal(fi_cq_read(&cq->fid, &e, 1), -FI_EAGAIN);
	assert_int_equal(g_fix.idle_cnt, idle + cnt);
	return ep->progress_cnt - before;
}

static void calm_ep_open(struct fix_ep *ep)
{
	fix_ep_open(&g_fix, ep);
	ep->kit.calm = script_calm;
	assert_int_equal(kit_ep_bind(&ep->kit, &g_cq->fid.fid, FI_TRANSMIT | FI_RECV), 0);
	g_is_calm = true;
	g_passed = g_asked = 0;
	g_polls = 0;
}

static void calm__reads_pass_by_until_something_changes(void **state)
{
	struct fi_cq_tagged_entry e;
	struct fix_ep ep;

	calm_ep_open(&ep);
	assert_int_equal(read_nothing(g_cq, &ep, 1), 1);
	assert_int_equal(g_asked, 0); /* who reads once between two calls pays nothing */
	assert_int_equal(read_nothing(g_cq, &ep, 1), 1);
	assert_int_equal(g_asked, 1); /* the second one opens the gate */
	assert_int_equal(read_nothing(g_cq, &ep, CALM_ROW - 1), 0);
	assert_int_equal(g_polls, CALM_ROW - 1);
	assert_int_equal(read_nothing(g_cq, &ep, 1), 1); /* now and then everything is asked for all the same */
	assert_int_equal(g_passed, CALM_ROW - 1);
	assert_int_equal(read_nothing(g_cq, &ep, 3), 0);
	g_word++; /* a peer writes */
	assert_int_equal(read_nothing(g_cq, &ep, 1), 1);
	assert_int_equal(g_passed, CALM_ROW + 2);
	assert_int_equal(read_nothing(g_cq, &ep, 1), 0);
	lock_acquire(&g_fix.domain.lock); /* another thread, or a call that is no read: what has passed is forgotten */
	lock_release(&g_fix.domain.lock);
	assert_int_equal(read_nothing(g_cq, &ep, 2), 2);
	assert_int_equal(g_passed, CALM_ROW + 2);
	assert_int_equal(read_nothing(g_cq, &ep, 1), 0);
	lock_acquire(&g_fix.domain.lock);
	kit_cq_push(g_cq, NULL, 0, 0, NULL, 0, 0, 0);
	lock_release(&g_fix.domain.lock);
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
	assert_int_equal(read_nothing(g_cq, &ep, 2), 2);
	assert_int_equal(g_passed, CALM_ROW + 2);
	lock_acquire(&g_fix.domain.lock);
	kit_cq_strand(g_cq, FI_EIO);
	lock_release(&g_fix.domain.lock);
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EIO);
	kit_ep_fini(&ep.kit);
}

static void calm__not_where_more_has_to_be_asked(void **state)
{
	struct kit_cq *cq = cq_open();
	struct fix_ep ep, other;

	calm_ep_open(&ep);
	g_is_calm = false;
	assert_int_equal(read_nothing(g_cq, &ep, CALM_ROW + 2), CALM_ROW + 2);
	assert_int_equal(g_asked, 1); /* who has said no is not asked again and again */
	g_is_calm = true;
	assert_int_equal(read_nothing(g_cq, &ep, 2), 1);
	/* another queue's gate takes the place of ours, which opens with the second read in a row */
	assert_int_equal(read_nothing(cq, &ep, 1), 0);
	assert_int_equal(read_nothing(g_cq, &ep, 2), 2);
	assert_int_equal(read_nothing(g_cq, &ep, 1), 0);
	/* nor for the endpoints of a queue that has several */
	fix_ep_open(&g_fix, &other);
	assert_int_equal(kit_ep_bind(&other.kit, &g_cq->fid.fid, FI_RECV), 0);
	assert_int_equal(read_nothing(g_cq, &ep, 4), 4);
	kit_ep_fini(&other.kit);
	kit_ep_fini(&ep.kit);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calm__reads_pass_by_until_something_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(calm__not_where_more_has_to_be_asked, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
