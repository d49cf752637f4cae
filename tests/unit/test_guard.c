// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/guard.[ch]: memory that is not there, and whose fault is whose. Each case that
// installs handlers runs in a child.
#include "unit.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/guard.h"

#define PAGE 4096u

static uint8_t *map_pages(unsigned cnt, int prot)
{
	uint8_t *p = mmap(NULL, cnt * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* @cnt pages over a file of @len bytes. */
static uint8_t *map_file(unsigned cnt, off_t len, int *fd)
{
	uint8_t *p;

	*fd = memfd_create("guard", MFD_CLOEXEC);
	assert_true(*fd >= 0);
	assert_int_equal(ftruncate(*fd, len), 0);
	p = mmap(NULL, cnt * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* How @fn, in a process of its own, ends: what it returns, or 128 and its signal. */
static int in_child(int (*fn)(void))
{
	const char *preload = getenv("LD_PRELOAD");
	int status;
	pid_t pid;

	if (preload && strstr(preload, "vgpreload")) {
		print_message("what is meant to be an invalid access is an error to valgrind\n");
		skip();
	}
	pid = unit_fork();
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		alarm(20 * unit_slow());
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* In a child: no cmocka. */
#define MUST(cond_)                                                                                \
	do {                                                                                       \
		if (!(cond_)) {                                                                    \
			print_error("%s:%d: %s\n", __FILE__, __LINE__, #cond_);                    \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* --- guarded accesses --- */

static void store_one(void *arg)
{
	*(volatile uint8_t *)arg = 1;
}

static int holes(void)
{
	static const size_t lens[] = {1, 8, 13, 64, 200, 256, 1000, PAGE, 2 * PAGE};
	uint8_t src[3 * PAGE], *m = map_pages(4, PROT_READ | PROT_WRITE);
	struct view v = {.len = 300, .seg_cnt = 2, .seg = {{src, 100}, {src + 100, 200}}};

	guard_init();
	memset(src, 7, sizeof(src));
	MUST(!munmap(m + 2 * PAGE, PAGE));
	MUST(!mprotect(m + 3 * PAGE, PAGE, PROT_READ));
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		MUST(guard_write(m + 2 * PAGE - lens[i], src, lens[i]));
		MUST(guard_read(src, m + 2 * PAGE - lens[i], lens[i]));
		MUST(!guard_write(m + 2 * PAGE, src, lens[i]));
		MUST(!guard_read(src, m + 2 * PAGE, lens[i]));
		MUST(!guard_write(m + 2 * PAGE - lens[i] + 1, src, lens[i]));
		MUST(!guard_read(src, m + 2 * PAGE - lens[i] + 1, lens[i]));
	}
	MUST(!guard_write(m + 3 * PAGE, src, 8));
	MUST(guard_read(src, m + 3 * PAGE, 8));
	MUST(guard_view(&v, 0, m, 300));
	MUST(!guard_view(&v, 0, m + 2 * PAGE - 150, 300)); /* in its second piece */
	MUST(guard_call(m, 1, store_one, m) && *m == 1);
	MUST(!guard_call(m + 3 * PAGE, 1, store_one, m + 3 * PAGE));
	MUST(guard_copy(m, m + 2 * PAGE, 0, m)); /* nothing of nothing */
	return 0;
}

static void guard__unmapped_and_protected(void **state)
{
	assert_int_equal(in_child(holes), 0);
}

static int truncated(void)
{
	uint64_t word = 5;
	uint8_t *m;
	int fd;

	guard_init();
	m = map_file(2, 2 * PAGE, &fd);
	MUST(guard_write(m + PAGE, &word, 8));
	MUST(!ftruncate(fd, PAGE));
	MUST(!guard_write(m + PAGE, &word, 8));
	MUST(!guard_read(&word, m + PAGE, 8));
	MUST(guard_write(m, &word, 8));
	return 0;
}

static void guard__truncated_file(void **state)
{
	assert_int_equal(in_child(truncated), 0);
}

/* The mask is as it was: a second fault is not a blocked one. */
static int mask(void)
{
	uint8_t byte = 0, *m = map_pages(1, PROT_NONE);
	sigset_t before, after;

	guard_init();
	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (int i = 0; i < 100; i++)
		MUST(!guard_write(m, &byte, 1));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	MUST(sigismember(&after, SIGUSR2) == 1 && !sigismember(&after, SIGSEGV) &&
	     !sigismember(&after, SIGUSR1));
	return 0;
}

static void guard__keeps_the_mask(void **state)
{
	assert_int_equal(in_child(mask), 0);
}

/* So are the modes of floating-point arithmetic: who rounds upwards goes on so. */
static int float_modes(void)
{
	uint8_t byte = 0, *m = map_pages(1, PROT_NONE);
	fenv_t before, after;

	guard_init();
	MUST(!fesetround(FE_UPWARD));
	fegetenv(&before);
#ifdef __x86_64__
	before.__mxcsr |= 0x8040; /* denormal numbers are zero, as -ffast-math has it */
	fesetenv(&before);
#endif
	MUST(!guard_write(m, &byte, 1));
	MUST(fegetround() == FE_UPWARD);
	fegetenv(&after);
#ifdef __x86_64__
	MUST(after.__mxcsr == before.__mxcsr && after.__control_word == before.__control_word);
#endif
	return 0;
}

static void guard__keeps_the_float_modes(void **state)
{
	assert_int_equal(in_child(float_modes), 0);
}

static void *thread_main(void *arg)
{
	uint8_t buf[100], *m = arg;
	uintptr_t bad = 0;
	sigset_t set;

	guard_thread_signals(&set);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	for (int i = 0; i < 1000; i++)
		bad += guard_write(m + PAGE - 50, buf, 100) || !guard_read(buf, m, 100);
	return (void *)bad;
}

static int threads(void)
{
	pthread_t t[4];
	void *bad;

	guard_init();
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		uint8_t *m = map_pages(2, PROT_READ | PROT_WRITE);

		MUST(!mprotect(m + PAGE, PAGE, PROT_NONE)); /* unmapped, another thread's could come there */
		MUST(!pthread_create(&t[i], NULL, thread_main, m));
	}
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		MUST(!pthread_join(t[i], &bad) && !bad);
	return 0;
}

static void guard__threads(void **state)
{
	assert_int_equal(in_child(threads), 0);
}

/* --- faults of others --- */

static int own_fault(void)
{
	guard_init();
	*(volatile uint8_t *)map_pages(1, PROT_NONE) = 1;
	return 0;
}

static int own_signal(void)
{
	guard_init();
	kill(getpid(), SIGSEGV);
	return 0;
}

static int ignored_signal(void)
{
	signal(SIGSEGV, SIG_IGN);
	guard_init();
	kill(getpid(), SIGSEGV);
	return 33; /* as if there were no handler */
}

static int ignored_fault(void)
{
	signal(SIGSEGV, SIG_IGN);
	return own_fault();
}

static int forbidden(void)
{
	uint8_t byte = 0;

	guard_allow(false);
	guard_init();
	guard_write(map_pages(1, PROT_NONE), &byte, 1);
	return 0;
}

static void guard__faults_of_others_kill(void **state)
{
	assert_int_equal(in_child(own_fault), 128 + SIGSEGV);
	assert_int_equal(in_child(own_signal), 128 + SIGSEGV);
	assert_int_equal(in_child(ignored_signal), 33);
	assert_int_equal(in_child(ignored_fault), 128 + SIGSEGV);
	assert_int_equal(in_child(forbidden), 128 + SIGSEGV);
}

static uint8_t *g_page;
static volatile int g_calls;

/* As a garbage collector does: look at the address, make the page accessible, go on. */
static void collector(int sig, siginfo_t *info, void *uc)
{
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	if (sig != SIGSEGV || info->si_addr != g_page || info->si_code != SEGV_ACCERR || !uc ||
	    !sigismember(&now, SIGUSR1))
		_exit(2);
	g_calls++;
	mprotect(g_page, PAGE, PROT_READ | PROT_WRITE);
}

static int chained(void)
{
	struct sigaction sa = {.sa_sigaction = collector, .sa_flags = SA_SIGINFO};
	uint8_t byte = 3, *gone = map_pages(1, PROT_NONE);

	g_page = map_pages(1, PROT_NONE);
	sigaddset(&sa.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &sa, NULL);
	guard_init();
	guard_init();
	*(volatile uint8_t *)g_page = 9;
	MUST(g_calls == 1 && *g_page == 9);
	MUST(!guard_write(gone, &byte, 1));
	MUST(g_calls == 1);
	return 0;
}

static void guard__calls_who_was_before(void **state)
{
	assert_int_equal(in_child(chained), 0);
}

static bool g_is_other_next; /* another module takes SIGSEGV between the two looks of ours at it */

/* The linker gives all calls of sigaction() in this program to __wrap_. */
int __real_sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int __wrap_sigaction(int sig, const struct sigaction *act, struct sigaction *old);

int __wrap_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	int rc = __real_sigaction(sig, act, old);

	if (g_is_other_next && sig == SIGSEGV && !act) {
		struct sigaction sa = {.sa_sigaction = collector, .sa_flags = SA_SIGINFO};

		g_is_other_next = false;
		sigaddset(&sa.sa_mask, SIGUSR1);
		rc |= __real_sigaction(sig, &sa, NULL);
	}
	return rc;
}

static int at_once(void)
{
	uint8_t byte = 3, *gone = map_pages(1, PROT_NONE);
	sigset_t set;

	g_page = map_pages(1, PROT_NONE);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1); /* the collector looks for it */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	g_is_other_next = true;
	guard_init();
	MUST(!g_is_other_next);
	*(volatile uint8_t *)g_page = 9;
	MUST(g_calls == 1 && *g_page == 9);
	MUST(!guard_write(gone, &byte, 1));
	MUST(g_calls == 1);
	return 0;
}

/* Two modules, each with a copy of this, take the signals at the same time: none is lost. */
static void guard__two_at_once(void **state)
{
	assert_int_equal(in_child(at_once), 0);
}

/* A signal handler of the program that interrupts a guarded access and faults elsewhere is not
 * taken for it. */
static void in_handler(int sig)
{
	*(volatile uint8_t *)g_page = 1;
}

static void raise_one(void *arg)
{
	raise(SIGUSR1);
}

static int interrupted(void)
{
	uint8_t *m = map_pages(1, PROT_READ | PROT_WRITE);

	g_page = map_pages(1, PROT_NONE);
	signal(SIGUSR1, in_handler);
	guard_init();
	guard_call(m, PAGE, raise_one, NULL);
	return 0;
}

static void guard__interrupted(void **state)
{
	assert_int_equal(in_child(interrupted), 128 + SIGSEGV);
}

/* --- before anything happens --- */

static void check__small_and_large(void **state)
{
	static const unsigned cnts[] = {4, 64};

	for (size_t i = 0; i < ARRAY_SIZE(cnts); i++) {
		unsigned n = cnts[i];
		uint8_t *m = map_pages(n, PROT_READ | PROT_WRITE);
		size_t len = n * PAGE;

		assert_int_equal(guard_mapped(m, len, true), 0);
		assert_int_equal(guard_mapped(m + 100, len - 200, true), 0);
		assert_int_equal(guard_mapped(m, 0, true), 0);
		assert_int_equal(mprotect(m, len, PROT_READ), 0);
		assert_int_equal(guard_mapped(m, len, false), 0);
		assert_int_equal(guard_mapped(m, len, true), -EFAULT);
		assert_int_equal(mprotect(m + len - PAGE, PAGE, PROT_NONE), 0);
		assert_int_equal(guard_mapped(m, len, false), -EFAULT);
		assert_int_equal(guard_mapped(m, len - PAGE, false), 0);
		assert_int_equal(munmap(m + PAGE, PAGE), 0);
		assert_int_equal(guard_mapped(m, len - PAGE, false), -EFAULT);
		assert_int_equal(guard_mapped(m + PAGE, 1, false), -EFAULT);
		munmap(m, len);
	}
	assert_int_equal(guard_mapped(NULL, 1, false), -EFAULT);
	assert_int_equal(guard_mapped((void *)-8L, 4, false), -EFAULT);
	assert_int_equal(guard_mapped((void *)-8L, SIZE_MAX, false), -EFAULT);
	assert_int_equal(guard_mapped((void *)(1UL << 48), SIZE_MAX / 2, false), -EFAULT);
	assert_int_equal(guard_mapped(NULL, 0, true), 0);
}

static void check__short_file(void **state)
{
	int fd;
	uint8_t *m = map_file(64, PAGE, &fd);

	assert_int_equal(guard_mapped(m, PAGE, true), 0);
	assert_int_equal(guard_mapped(m, 2 * PAGE, false), -EFAULT);
	assert_int_equal(guard_mapped(m, 64 * PAGE, false), -EFAULT);
	munmap(m, 64 * PAGE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guard__unmapped_and_protected),
		cmocka_unit_test(guard__truncated_file),
		cmocka_unit_test(guard__keeps_the_mask),
		cmocka_unit_test(guard__keeps_the_float_modes),
		cmocka_unit_test(guard__threads),
		cmocka_unit_test(guard__faults_of_others_kill),
		cmocka_unit_test(guard__calls_who_was_before),
		cmocka_unit_test(guard__two_at_once),
		cmocka_unit_test(guard__interrupted),
		cmocka_unit_test(check__small_and_large),
		cmocka_unit_test(check__short_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
