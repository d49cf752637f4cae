// SPDX-License-Identifier: BSD-2-Clause
// The part of cmocka's interface that our unit tests use, for cross builds, where cmocka itself is seldom installed:
// the tests include <cmocka.h> and do not know the difference. Native builds use the real library.
//
// In the environment, UNIT_SKIP="name=reason;name=reason" skips tests that an emulator cannot run; a name may end in
// "*".
#ifndef SF_TESTS_UNIT_MINI_CMOCKA_H
#define SF_TESTS_UNIT_MINI_CMOCKA_H

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*test_func)(void **state);
	int (*setup_func)(void **state);
	int (*teardown_func)(void **state);
	void *initial_state;
};

enum mini_end { MINI_PASSED, MINI_FAILED, MINI_SKIPPED };

/* Weak: every file of a test program that includes this has it, the linker keeps one. */
__attribute__((weak)) struct {
	jmp_buf leave;	    /* out of the running test */
	bool can_leave;	    /* a test is running: @leave is set */
	const char *filter; /* only tests whose name matches */
} g_mini;

#define print_message(...) fprintf(stderr, __VA_ARGS__)
#define print_error(...)   fprintf(stderr, __VA_ARGS__)

/* A forked child inherits g_mini: it leaves into its own copy of the test, as under cmocka. */
static inline _Noreturn void mini_leave(enum mini_end how)
{
	if (!g_mini.can_leave)
		exit(how == MINI_FAILED);
	longjmp(g_mini.leave, how);
}

__attribute__((format(printf, 3, 4))) static inline _Noreturn void mini_fail(const char *file, int line,
									     const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	mini_leave(MINI_FAILED);
}

static inline void mini_expect(bool is_good, const char *what, const char *file, int line)
{
	if (!is_good)
		mini_fail(file, line, "%s", what);
}

static inline void mini_equal(uintmax_t a, uintmax_t b, bool want, const char *file, int line)
{
	if ((a == b) != want)
		mini_fail(file, line, "%#jx %s %#jx", a, want ? "!=" : "==", b);
}

static inline void mini_range(uintmax_t v, uintmax_t min, uintmax_t max, const char *file, int line)
{
	if (v < min || v > max)
		mini_fail(file, line, "%ju is not within %ju-%ju", v, min, max);
}

static inline void mini_text(const char *a, const char *b, bool want, const char *file, int line)
{
	if (!strcmp(a, b) != want)
		mini_fail(file, line, "\"%s\" %s \"%s\"", a, want ? "!=" : "==", b);
}

static inline void mini_bytes(const void *a, const void *b, size_t len, bool want, const char *file, int line)
{
	if (!memcmp(a, b, len) != want)
		mini_fail(file, line, "%zu bytes are %s", len, want ? "different" : "the same");
}

#define fail_msg(...)  mini_fail(__FILE__, __LINE__, __VA_ARGS__)
#define fail()	       mini_fail(__FILE__, __LINE__, "failed")
#define skip()	       mini_leave(MINI_SKIPPED)
#define assert_true(c_)	 mini_expect(c_, "not true: " #c_, __FILE__, __LINE__)
#define assert_false(c_) mini_expect(!(c_), "not false: " #c_, __FILE__, __LINE__)
#define assert_null(p_)	 mini_expect(!(p_), "not NULL: " #p_, __FILE__, __LINE__)
#define assert_non_null(p_)  mini_expect((p_) != NULL, "NULL: " #p_, __FILE__, __LINE__)
#define mini_ptr(p_)	     ((uintmax_t)(uintptr_t)(p_))
/* Through uintmax_t as in cmocka: a negative number equals itself sign extended. */
#define assert_int_equal(a_, b_)     mini_equal((uintmax_t)(a_), (uintmax_t)(b_), true, __FILE__, __LINE__)
#define assert_int_not_equal(a_, b_) mini_equal((uintmax_t)(a_), (uintmax_t)(b_), false, __FILE__, __LINE__)
#define assert_ptr_equal(a_, b_)     mini_equal(mini_ptr(a_), mini_ptr(b_), true, __FILE__, __LINE__)
#define assert_ptr_not_equal(a_, b_) mini_equal(mini_ptr(a_), mini_ptr(b_), false, __FILE__, __LINE__)
#define assert_in_range(v_, min_, max_) \
	mini_range((uintmax_t)(v_), (uintmax_t)(min_), (uintmax_t)(max_), __FILE__, __LINE__)
#define assert_string_equal(a_, b_)	    mini_text(a_, b_, true, __FILE__, __LINE__)
#define assert_string_not_equal(a_, b_)	    mini_text(a_, b_, false, __FILE__, __LINE__)
#define assert_memory_equal(a_, b_, n_)	    mini_bytes(a_, b_, n_, true, __FILE__, __LINE__)
#define assert_memory_not_equal(a_, b_, n_) mini_bytes(a_, b_, n_, false, __FILE__, __LINE__)

#define cmocka_unit_test(f_)				   {#f_, f_, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f_, setup_)		   {#f_, f_, setup_, NULL, NULL}
#define cmocka_unit_test_teardown(f_, teardown_)	   {#f_, f_, NULL, teardown_, NULL}
#define cmocka_unit_test_setup_teardown(f_, setup_, teardown_) {#f_, f_, setup_, teardown_, NULL}
#define cmocka_set_test_filter(pattern_)		   ((void)(g_mini.filter = (pattern_)))
#define cmocka_run_group_tests(tests_, setup_, teardown_) \
	mini_run(tests_, sizeof(tests_) / sizeof((tests_)[0]), setup_, teardown_)

/* True and says why: UNIT_SKIP has @name. */
static inline bool mini_unwanted(const char *name)
{
	const char *env = getenv("UNIT_SKIP");
	char *list = env ? strdup(env) : NULL, *save = NULL;
	bool found = false;

	for (char *e = list ? strtok_r(list, ";", &save) : NULL; e && !found; e = strtok_r(NULL, ";", &save)) {
		char *reason = strchr(e, '=');

		if (reason)
			*reason++ = '\0';
		found = !fnmatch(e, name, 0);
		if (found)
			fprintf(stderr, "[ SKIPPED  ] %s: %s\n", name, reason ? reason : "unwanted");
	}
	free(list);
	return found;
}

static inline enum mini_end mini_one(const struct CMUnitTest *t, void *group_state)
{
	static void *state; /* static: keeps its value over longjmp() */
	enum mini_end how;

	state = group_state;
	if (t->setup_func && t->setup_func(&state))
		return MINI_FAILED;
	how = (enum mini_end)setjmp(g_mini.leave);
	if (how == MINI_PASSED) {
		g_mini.can_leave = true;
		t->test_func(&state);
	}
	g_mini.can_leave = false;
	if (t->teardown_func && t->teardown_func(&state))
		return MINI_FAILED;
	return how;
}

/* Return: how many tests failed; the program's exit status. */
static inline int mini_run(const struct CMUnitTest *tests, size_t cnt, int (*setup)(void **), int (*teardown)(void **))
{
	static const char *const word[] = {"      OK", " FAILED ", " SKIPPED"};
	int sum[3] = {0};
	void *state = NULL;

	if (setup && setup(&state))
		return 1;
	for (size_t i = 0; i < cnt; i++) {
		enum mini_end how;

		if (g_mini.filter && fnmatch(g_mini.filter, tests[i].name, 0))
			continue;
		fprintf(stderr, "[ RUN      ] %s\n", tests[i].name);
		if (mini_unwanted(tests[i].name)) {
			sum[MINI_SKIPPED]++;
			continue;
		}
		how = mini_one(&tests[i], state);
		sum[how]++;
		fprintf(stderr, "[ %s ] %s\n", word[how], tests[i].name);
	}
	if (teardown && teardown(&state))
		sum[MINI_FAILED]++;
	fprintf(stderr, "%d passed, %d failed, %d skipped\n", sum[0], sum[1], sum[2]);
	return sum[MINI_FAILED];
}

#endif
