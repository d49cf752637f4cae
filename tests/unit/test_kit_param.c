// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/param.c and kit/log.c.
#include "unit.h"

#include "base/log.h"
#include "kit_fix.h"

struct vals {
	bool flag;
	int64_t num;
	size_t size;
	size_t any;
	char str[KIT_PARAM_STR];
	bool either;
	char text[KIT_PARAM_TEXT];
};

static const struct kit_param g_tab[] = {
	{"flag", KIT_BOOL, "a flag", offsetof(struct vals, flag), 0, 0},
	{"num", KIT_INT, "a number", offsetof(struct vals, num), -5, 5000},
	{"size", KIT_SIZE, "a size", offsetof(struct vals, size), 1, 4096},
	{"any", KIT_SIZE, "any size", offsetof(struct vals, any), 0, 0},
	{"str", KIT_STRING, "a string", offsetof(struct vals, str), 0, 0},
	{"either", KIT_FLAG, "a number or a word", offsetof(struct vals, either), 0, 0},
	{"text", KIT_STRING, "a long string", offsetof(struct vals, text), 0, KIT_PARAM_TEXT},
};

static const struct vals g_default = {.num = 42, .size = 43, .any = 44, .str = "forty-five"};
static const char *const g_env[] = {"FI_FIX_FLAG", "FI_FIX_NUM", "FI_FIX_SIZE", "FI_FIX_ANY",
				    "FI_FIX_STR", "FI_FIX_EITHER", "FI_FIX_TEXT"};

static int setup(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_env); i++)
		unsetenv(g_env[i]);
	g_fix_log.cnt = 0;
	return 0;
}

static int load(struct vals *v)
{
	*v = g_default;
	return kit_params_load(&g_fix_prov, g_tab, ARRAY_SIZE(g_tab), v);
}

static void params__unset_keeps_defaults(void **state)
{
	struct vals v;

	assert_int_equal(load(&v), 0);
	assert_memory_equal(&v, &g_default, sizeof(v));
	assert_false(kit_param_is_set(&g_fix_prov, "num"));
	assert_int_equal(g_fix_log.cnt, 0);
}

static void params__good_values(void **state)
{
	static const struct {
		const char *env, *text;
		struct vals want;
	} row[] = {
		{"FI_FIX_FLAG", "1", {true, 42, 43, 44, "forty-five"}},
		{"FI_FIX_FLAG", "Yes", {true, 42, 43, 44, "forty-five"}},
		{"FI_FIX_FLAG", "ON", {true, 42, 43, 44, "forty-five"}},
		{"FI_FIX_FLAG", "true", {true, 42, 43, 44, "forty-five"}},
		{"FI_FIX_FLAG", "off", {false, 42, 43, 44, "forty-five"}},
		{"FI_FIX_NUM", "-5", {false, -5, 43, 44, "forty-five"}},
		{"FI_FIX_NUM", "0x10", {false, 16, 43, 44, "forty-five"}},
		{"FI_FIX_SIZE", "4096", {false, 42, 4096, 44, "forty-five"}},
		{"FI_FIX_ANY", "18446744073709551615", {false, 42, 43, SIZE_MAX, "forty-five"}},
		{"FI_FIX_STR", "hello there", {false, 42, 43, 44, "hello there"}},
		{"FI_FIX_STR", "", {false, 42, 43, 44, ""}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct vals v;

		setup(NULL);
		setenv(row[i].env, row[i].text, 1);
		assert_int_equal(load(&v), 0);
		assert_int_equal(v.flag, row[i].want.flag);
		assert_int_equal(v.num, row[i].want.num);
		assert_int_equal(v.size, row[i].want.size);
		assert_int_equal(v.any, row[i].want.any);
		assert_string_equal(v.str, row[i].want.str);
		assert_true(kit_param_is_set(&g_fix_prov, strchr(row[i].env + 3, '_') + 1));
	}
}

static void params__flags_are_numbers_or_words(void **state)
{
	static const struct {
		const char *text;
		int want; /* -1: refused */
	} row[] = {{"0", 0},  {"1", 1},	  {"7", 1},   {"-1", 1},  {"0x0", 0}, {"no", 0},
		   {"ON", 1}, {"yes", 1}, {"", -1},   {"2x", -1}, {"maybe", -1}};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct vals v;

		setup(NULL);
		setenv("FI_FIX_EITHER", row[i].text, 1);
		assert_int_equal(load(&v), row[i].want < 0 ? -FI_EINVAL : 0);
		assert_int_equal(v.either, row[i].want == 1);
		assert_int_equal(g_fix_log.cnt, row[i].want < 0);
	}
}

static void params__strings_are_as_long_as_their_row_says(void **state)
{
	static char text[KIT_PARAM_TEXT + 1];
	struct vals v;

	memset(text, 'x', KIT_PARAM_TEXT - 1);
	setenv("FI_FIX_TEXT", text, 1);
	assert_int_equal(load(&v), 0);
	assert_string_equal(v.text, text);
	text[KIT_PARAM_TEXT - 1] = 'x';
	setenv("FI_FIX_TEXT", text, 1);
	assert_int_equal(load(&v), -FI_EINVAL);
	assert_string_equal(v.text, "");
	assert_non_null(strstr(g_fix_log.last, "at most 4096 bytes"));
	unsetenv("FI_FIX_TEXT");
	text[KIT_PARAM_STR] = '\0';
	setenv("FI_FIX_STR", text, 1);
	assert_int_equal(load(&v), -FI_EINVAL);
	assert_non_null(strstr(g_fix_log.last, "at most 255 bytes"));
}

static void params__bad_values_change_nothing_and_say_why(void **state)
{
	static const struct {
		const char *env, *text, *expect;
	} row[] = {
		{"FI_FIX_FLAG", "maybe", "1, true, yes, on, 0, false, no or off"},
		{"FI_FIX_FLAG", "", "1, true"},
		{"FI_FIX_NUM", "12k", "a whole number from -5 to 5000"},
		{"FI_FIX_NUM", "", "a whole number"},
		{"FI_FIX_NUM", " 1", "a whole number"},
		{"FI_FIX_NUM", "5001", "from -5 to 5000"},
		{"FI_FIX_NUM", "99999999999999999999", "from -5 to 5000"},
		{"FI_FIX_NUM", "-", "a whole number"},
		{"FI_FIX_SIZE", "0", "a whole number from 1 to 4096"},
		{"FI_FIX_SIZE", "-1", "a whole number from 1 to 4096"},
		{"FI_FIX_SIZE", "18446744073709551615", "from 1 to 4096"},
		{"FI_FIX_ANY", "-1", "not negative"},
		{"FI_FIX_ANY", "1.5", "not negative"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct vals v;

		setup(NULL);
		setenv(row[i].env, row[i].text, 1);
		assert_int_equal(load(&v), -FI_EINVAL);
		assert_memory_equal(&v, &g_default, sizeof(v));
		assert_int_equal(g_fix_log.cnt, 1);
		assert_non_null(strstr(g_fix_log.last, row[i].env));
		assert_non_null(strstr(g_fix_log.last, row[i].text));
		assert_non_null(strstr(g_fix_log.last, row[i].expect));
		/* Programs ask for information often. */
		assert_int_equal(load(&v), -FI_EINVAL);
		assert_int_equal(g_fix_log.cnt, 1);
	}
}

static void params__string_has_a_limit(void **state)
{
	char text[KIT_PARAM_STR + 1];
	struct vals v;

	memset(text, 'x', sizeof(text));
	text[KIT_PARAM_STR] = 0;
	setenv("FI_FIX_STR", text, 1);
	assert_int_equal(load(&v), -FI_EINVAL);
	assert_string_equal(v.str, "forty-five");
	text[KIT_PARAM_STR - 1] = 0;
	setenv("FI_FIX_STR", text, 1);
	assert_int_equal(load(&v), 0);
	assert_string_equal(v.str, text);
}

static void params__one_bad_value_does_not_spoil_the_others(void **state)
{
	struct vals v;

	setenv("FI_FIX_NUM", "x", 1);
	setenv("FI_FIX_SIZE", "9", 1);
	assert_int_equal(load(&v), -FI_EINVAL);
	assert_int_equal(v.num, 42);
	assert_int_equal(v.size, 9);
}

static void params__are_listed_by_libfabric(void **state)
{
	struct fi_param *params;
	int cnt, mine = 0;

	/* Initialises libfabric, which forgets what was defined before. */
	assert_int_equal(fi_getparams(&params, &cnt), 0);
	fi_freeparams(params);
	kit_params_define(&g_fix_prov, g_tab, ARRAY_SIZE(g_tab));
	setenv("FI_FIX_SIZE", "77", 1);
	assert_int_equal(fi_getparams(&params, &cnt), 0);
	for (int i = 0; i < cnt; i++) {
		if (strncmp(params[i].name, "FI_FIX_", 7))
			continue;
		mine++;
		if (!strcmp(params[i].name, "FI_FIX_SIZE")) {
			assert_int_equal(params[i].type, FI_PARAM_SIZE_T);
			assert_string_equal(params[i].value, "77");
			assert_non_null(strstr(params[i].help_string, "a size"));
		}
	}
	assert_int_equal(mine, ARRAY_SIZE(g_tab));
	fi_freeparams(params);
}

static void log__lines_of_lower_layers_arrive(void **state)
{
	kit_log_init(&g_fix_prov);
	errno = 5;
	LOG_WARN("ring %d is full", 3);
	assert_string_equal(g_fix_log.last, "ring 3 is full\n");
	assert_int_equal(errno, 5);
	kit_log_init(NULL);
	LOG_WARN("nobody listens");
	assert_string_equal(g_fix_log.last, "ring 3 is full\n");
}

static void core_version__is_the_librarys(void **state)
{
	assert_int_equal(kit_core_version(), fi_version());
}

#define T(f_) cmocka_unit_test_setup(f_, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(params__unset_keeps_defaults),
		T(params__good_values),
		T(params__flags_are_numbers_or_words),
		T(params__strings_are_as_long_as_their_row_says),
		T(params__bad_values_change_nothing_and_say_why),
		T(params__string_has_a_limit),
		T(params__one_bad_value_does_not_spoil_the_others),
		T(params__are_listed_by_libfabric),
		T(log__lines_of_lower_layers_arrive),
		T(core_version__is_the_librarys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
