// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/log.c.
#include "unit.h"

#include <string.h>

#include "base/log.h"

static struct {
	enum log_level lvl;
	char func[64], msg[2048];
	int line, cnt;
} g_last;

static void record(enum log_level lvl, const char *func, int line, const char *msg)
{
	g_last.lvl = lvl;
	g_last.line = line;
	snprintf(g_last.func, sizeof(g_last.func), "%s", func);
	snprintf(g_last.msg, sizeof(g_last.msg), "%s", msg);
	g_last.cnt++;
}

static int reset(void **state)
{
	memset(&g_last, 0, sizeof(g_last));
	log_set_hook(NULL);
	return 0;
}

static void log_line__passes_level_place_and_text(void **state)
{
	log_set_hook(record);
	LOG_INFO("SQ[%u] full, depth %d", 3u, 16);
	assert_int_equal(g_last.line, __LINE__ - 1);
	assert_int_equal(g_last.lvl, LOG_LVL_INFO);
	assert_string_equal(g_last.func, __func__);
	assert_string_equal(g_last.msg, "SQ[3] full, depth 16");
	LOG_WARN("w");
	assert_int_equal(g_last.lvl, LOG_LVL_WARN);
	LOG_DEBUG("d");
	assert_int_equal(g_last.lvl, LOG_LVL_DEBUG);
	assert_int_equal(g_last.cnt, 3);
}

static void log_line__silent_without_hook(void **state)
{
	LOG_WARN("nobody listens");
	log_set_hook(record);
	log_set_hook(NULL);
	LOG_WARN("nobody listens any more");
	assert_int_equal(g_last.cnt, 0);
}

static void log_line__cuts_long_text(void **state)
{
	log_set_hook(record);
	LOG_WARN("%2000d", 7);
	assert_int_equal(strlen(g_last.msg), 1023);
	LOG_WARN("%1023d", 7);
	assert_int_equal(g_last.msg[1022], '7');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(log_line__passes_level_place_and_text, reset,
						reset),
		cmocka_unit_test_setup_teardown(log_line__silent_without_hook, reset, reset),
		cmocka_unit_test_setup_teardown(log_line__cuts_long_text, reset, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
