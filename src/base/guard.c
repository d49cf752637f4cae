// SPDX-License-Identifier: BSD-2-Clause
// Guarded accesses, the handler that ends them, and the look at memory before it is registered.
#include "base/guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/log.h"

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define WHOLE_MAX  65536u /* bytes that guard_mapped() looks at page by page */
#define TOUCH_STEP 4096u  /* no page is smaller */

/* --- a running access --- */

/* The built-in saves no more than where to go on: a third of what setjmp() takes. Clang has it for
 * few processors. */
#if defined(__clang__) && !defined(__x86_64__)
typedef jmp_buf resume_t;
#define mark_resume(r_) _setjmp(r_)
#define resume_at(r_)   _longjmp(r_, 1)
#else
typedef void *resume_t[5];
#define mark_resume(r_) __builtin_setjmp(r_)
#define resume_at(r_)   __builtin_longjmp(r_, 1)
#endif

struct guard {
	resume_t resume;
	uintptr_t addr;
	size_t len;
};

/* Read by the handler: static, so that this takes no call which could allocate. */
static _Thread_local struct guard *t_guard __attribute__((tls_model("initial-exec")));

static inline void enter(struct guard *g, const void *user, size_t len)
{
	g->addr = (uintptr_t)user;
	g->len = len;
	t_guard = g;
	atomic_signal_fence(
		memory_order_seq_cst); /* the handler sees all of it before the first access */
}

static inline void leave(void)
{
	atomic_signal_fence(memory_order_seq_cst); /* and until after the last one */
	t_guard = NULL;
}

static __attribute__((cold, noinline)) bool has_gone(const void *user, size_t len)
{
	static atomic_bool told;

	if (!atomic_exchange(&told, true))
		LOG_WARN("a peer's access to %zu bytes at %p fails: they are not mapped, "
			 "protected, or beyond the end of a file (now and later; said once)",
			 len, user);
	return false;
}

/* Alone in a function that is never inlined: what its caller had in registers is on the stack while
 * @fn runs. */
__attribute__((noinline)) bool guard_call(const void *user, size_t len, void (*fn)(void *arg),
					  void *arg)
{
	struct guard g;

	if (unlikely(mark_resume(g.resume)))
		return has_gone(user, len);
	enter(&g, user, len);
	fn(arg);
	leave();
	return true;
}

struct copy {
	void *dst;
	const void *src;
	size_t off, len;
};

static void copy_run(void *arg)
{
	const struct copy *c = arg;

	copy_bytes(c->dst, c->src, c->len);
}

bool guard_copy(void *dst, const void *src, size_t len, const void *user)
{
	struct copy c = {dst, src, 0, len};

	return guard_call(user, len, copy_run, &c);
}

static void read_run(void *arg)
{
	const struct copy *c = arg;

	copy_private(c->dst, c->src, c->len);
}

bool guard_read(void *dst, const void *src, size_t len)
{
	struct copy c = {dst, src, 0, len};

	return guard_call(src, len, read_run, &c);
}

static void touch_run(void *arg)
{
	const struct copy *c = arg;
	const volatile uint8_t *p = c->src;

	for (size_t i = 0; i < c->len; i += TOUCH_STEP)
		(void)p[i];
	(void)p[c->len - 1];
}

bool guard_touch(const void *user, size_t len)
{
	struct copy c = {NULL, user, 0, len};

	return !len || guard_call(user, len, touch_run, &c);
}

static void view_run(void *arg)
{
	const struct copy *c = arg;

	view_copy(c->src, c->off, c->dst, c->len);
}

bool guard_view(const struct view *v, size_t off, void *dst, size_t len)
{
	struct copy c = {dst, v, off, len};

	if (likely(v->seg_cnt == 1))
		return guard_copy(dst, v->seg[0].p + off, len, dst);
	return guard_call(dst, len, view_run, &c);
}

/* --- the signals --- */

static const int sig_of[2] = {SIGSEGV, SIGBUS};
static struct sigaction g_before[2]; /* who had them */

/* As if there were no handler of ours. */
static void pass_on(int sig, siginfo_t *info, void *uc)
{
	struct sigaction *before = &g_before[sig == SIGBUS], old = *before;
	bool is_sent = info->si_code <= 0; /* by kill(2) or its kin: nothing is executed again */

	if (old.sa_flags & (int)SA_RESETHAND)
		before->sa_handler = SIG_DFL, before->sa_flags = 0;
	if (old.sa_flags & SA_SIGINFO) {
		old.sa_sigaction(sig, info, uc);
	} else if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) {
		old.sa_handler(sig);
	} else if (old.sa_handler == SIG_DFL || !is_sent) { /* faults cannot be ignored */
		old.sa_handler = SIG_DFL;
		sigaction(sig, &old, NULL);
		if (is_sent)
			raise(sig);
	}
}

/* The system begins a handler on x86 with the default rounding, exceptions and handling of denormal
 * numbers. A return from it would bring back the program's; a jump has to do that itself. */
static void restore_float_modes(const ucontext_t *uc)
{
#ifdef __x86_64__
	if (uc->uc_mcontext.fpregs)
		__asm__ volatile("ldmxcsr %0\n\tfldcw %1"
				 :
				 : "m"(uc->uc_mcontext.fpregs->mxcsr),
				   "m"(uc->uc_mcontext.fpregs->cwd));
#endif
}

static void on_fault(int sig, siginfo_t *info, void *uc)
{
	struct guard *g = t_guard;

	if (!g || info->si_code <= 0 || (uintptr_t)info->si_addr - g->addr >= g->len) {
		pass_on(sig, info, uc);
		return;
	}
	t_guard = NULL;
	pthread_sigmask(SIG_SETMASK, &((ucontext_t *)uc)->uc_sigmask, NULL);
	restore_float_modes(uc);
	resume_at(g->resume);
}

static atomic_bool g_is_forbidden;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

/* With the mask and the flags of those before us, who may rely on them, and on the alternate stack
 * if there is one: theirs may have overflowed. Only the second call knows for sure whom it replaces:
 * another module, which has a copy of this file, may take the signals at the same time. Faults of
 * the moment between go to whom the first call found. */
static void take_signals(void)
{
	for (int i = 0; i < 2; i++) {
		struct sigaction sa, replaced;

		if (sigaction(sig_of[i], NULL, &g_before[i]))
			continue;
		sa = g_before[i];
		sa.sa_sigaction = on_fault;
		sa.sa_flags = (sa.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
		if (!sigaction(sig_of[i], &sa, &replaced) &&
		    replaced.sa_sigaction != g_before[i].sa_sigaction)
			g_before[i] = replaced;
	}
}

void guard_allow(bool may)
{
	atomic_store(&g_is_forbidden, !may);
}

void guard_init(void)
{
	if (!atomic_load(&g_is_forbidden))
		pthread_once(&g_once, take_signals);
}

void guard_thread_signals(sigset_t *set)
{
	sigfillset(set);
	for (int i = 0; i < 2; i++)
		sigdelset(set, sig_of[i]);
}

/* --- the look at memory before it is registered --- */

/* msync() with this flag does nothing but find the mappings. */
static bool is_mapped(uintptr_t addr, size_t len)
{
	return !msync((void *)addr, len, MS_ASYNC) || errno != ENOMEM;
}

/* Does this kernel know MADV_POPULATE_READ? It says EINVAL for what it does not know and for what
 * is not permitted. */
static bool can_populate(size_t page)
{
	static atomic_int known; /* 0: not asked yet; 1, -1 */
	uintptr_t here = (uintptr_t)&known;
	int k = atomic_load(&known);

	if (!k) {
		k = madvise((void *)(here & -(uintptr_t)page), page, MADV_POPULATE_READ) ? -1 : 1;
		atomic_store(&known, k);
	}
	return k > 0;
}

static int populate(uintptr_t addr, size_t len, bool is_write, size_t page)
{
	if (!madvise((void *)addr, len, is_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	switch (errno) {
	case ENOMEM:
		return is_mapped(addr, len) ? -ENOMEM : -EFAULT;
	case EINVAL:
		return can_populate(page) || !is_mapped(addr, len) ? -EFAULT : 0;
	case EFAULT:
	case EHWPOISON:
		return -EFAULT;
	}
	return 0;
}

int guard_mapped(const void *addr, size_t len, bool is_write)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)addr & -(uintptr_t)page, to;
	int rc;

	if (!len)
		return 0;
	if (__builtin_add_overflow((uintptr_t)addr, len + page - 1, &to) || len + page - 1 < len)
		return -EFAULT;
	to &= -(uintptr_t)page;
	if (to - from <= WHOLE_MAX)
		return populate(from, to - from, is_write, page);
	if (!is_mapped(from, to - from))
		return -EFAULT;
	rc = populate(from, page, is_write, page);
	return rc ? rc : populate(to - page, page, is_write, page);
}
