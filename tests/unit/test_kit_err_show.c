// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/err_show.c: error entries that are used again, and queues without end.
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
	(void)state;
	fix_open(&g_fix, FI_VERSION(1, 17));
	g_cq = cq_open();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&g_cq->fid.fid), 0);
	fix_close(&g_fix);
	return 0;
}

static void push_err(struct kit_cq *cq, const char *data)
{
	const struct fi_cq_err_entry e = {.flags = FI_RECV, .err = FI_EIO};

	lock_acquire(&g_fix.domain.lock);
	kit_cq_push_err(cq, &e, data, strlen(data) + 1);
	lock_release(&g_fix.domain.lock);
}

/* An entry that is used again, for another queue, or after that has closed, holds no buffer of the caller's either. */
static void cq_readerr__one_entry_for_two_queues(void **state)
{
	struct kit_cq *other = cq_open();
	struct fi_cq_err_entry e = {0}, first;

	push_err(g_cq, "of the first queue");
	push_err(g_cq, "of the first queue, later");
	push_err(other, "another");
	push_err(other, "another, later");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	first = e;
	assert_int_equal(fi_cq_readerr(&other->fid, &e, 0), 1);
	assert_string_equal(e.err_data, "another");
	assert_int_equal(e.err_data_size, sizeof("another"));
	assert_string_equal(first.err_data, "of the first queue");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_string_equal(e.err_data, "of the first queue, later");
	/* two entries in turn: what the other one holds is older than the last error */
	assert_int_equal(fi_cq_readerr(&other->fid, &first, 0), 1);
	assert_string_equal(first.err_data, "another, later");
	assert_string_equal(e.err_data, "of the first queue, later");
	assert_int_equal(fi_close(&other->fid.fid), 0);
	push_err(g_cq, "after that");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &first, 0), 1);
	assert_string_equal(first.err_data, "after that");
	assert_int_equal(first.err_data_size, sizeof("after that"));
}

/* More queues than there are places show their errors all the same. */
static void cq_readerr__many_queues(void **state)
{
	struct kit_cq *cq[300];
	struct fi_cq_err_entry e[300];
	char text[600];

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(cq); i++) {
			cq[i] = cq_open();
			snprintf(text, sizeof(text), "error %zu", i);
			push_err(cq[i], text);
			e[i] = (struct fi_cq_err_entry){0};
			assert_int_equal(fi_cq_readerr(&cq[i]->fid, &e[i], 0), 1);
		}
		for (size_t i = 0; i < ARRAY_SIZE(cq); i++) {
			snprintf(text, sizeof(text), "error %zu", i);
			assert_string_equal(e[i].err_data, text);
			assert_int_equal(fi_close(&cq[i]->fid.fid), 0);
		}
	}
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = 0;
	push_err(g_cq, text);
	e[0] = (struct fi_cq_err_entry){0};
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e[0], 0), 1);
	assert_string_equal(e[0].err_data, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cq_readerr__one_entry_for_two_queues, setup, teardown),
		cmocka_unit_test_setup_teardown(cq_readerr__many_queues, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
