// SPDX-License-Identifier: BSD-2-Clause
// The reserve: made, given up, made again.
#include "base/reserve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/base.h"
#include "base/log.h"

enum part { P_HEAP, P_MAP, P_NUM };

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects all; taken last */
static struct {
	void *at;
	size_t len; /* 0: not wanted */
} g_part[P_NUM];
static unsigned g_users;
static atomic_bool g_is_said; /* relaxed */
static atomic_bool g_has_gap; /* relaxed: only whether a look is worth it */

static void before_fork(void)
{
	pthread_mutex_lock(&g_mutex); /* a child must not find half of a change */
}

static void after_fork(void)
{
	pthread_mutex_unlock(&g_mutex);
}

static void watch_fork(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* Heap counts as data and as address space, so its reserve must, too. */
static bool fill(enum part i)
{
	int prot = i == P_HEAP ? PROT_READ | PROT_WRITE : PROT_NONE;
	void *p;

	if (g_part[i].at || !g_part[i].len)
		return true;
	p = mmap(NULL, g_part[i].len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED)
		g_part[i].at = p;
	else
		atomic_store_explicit(&g_has_gap, true, memory_order_relaxed);
	return g_part[i].at;
}

/* g_mutex held */
static bool give(enum part i)
{
	if (!g_part[i].at)
		return false;
	munmap(g_part[i].at, g_part[i].len);
	g_part[i].at = NULL;
	atomic_store_explicit(&g_has_gap, true, memory_order_relaxed);
	return true;
}

/* Once, without the mutex: a log's sink may allocate. */
static void say(enum part i)
{
	if (!atomic_exchange_explicit(&g_is_said, true, memory_order_relaxed))
		LOG_WARN("this process is out of %s: the fabric goes on with what it has reserved, which is little "
			 "(limits: ulimit -v, ulimit -d)",
			 i == P_HEAP ? "memory" : "address space");
}

/* g_mutex held */
static void drop(void)
{
	for (int i = 0; i < P_NUM; i++) {
		give((enum part)i);
		g_part[i].len = 0;
	}
	atomic_store_explicit(&g_is_said, false, memory_order_relaxed);
}

bool reserve_want(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	bool has_heap;

	pthread_once(&once, watch_fork);
	pthread_mutex_lock(&g_mutex);
	g_part[P_HEAP].len = RESERVE_HEAP;
	has_heap = fill(P_HEAP);
	g_users += has_heap;
	if (!g_users)
		drop();
	pthread_mutex_unlock(&g_mutex);
	return has_heap;
}

void reserve_want_map(size_t len)
{
	pthread_mutex_lock(&g_mutex);
	g_part[P_MAP].len = len;
	fill(P_MAP);
	pthread_mutex_unlock(&g_mutex);
}

void reserve_drop(void)
{
	pthread_mutex_lock(&g_mutex);
	must(g_users);
	if (!--g_users)
		drop();
	pthread_mutex_unlock(&g_mutex);
}

bool reserve_fill(void)
{
	bool has_heap, has_map;

	if (likely(!atomic_load_explicit(&g_has_gap, memory_order_relaxed)))
		return true;
	pthread_mutex_lock(&g_mutex);
	has_heap = fill(P_HEAP);
	has_map = fill(P_MAP);
	atomic_store_explicit(&g_has_gap, !has_heap || !has_map, memory_order_relaxed);
	pthread_mutex_unlock(&g_mutex);
	return has_map;
}

bool reserve_give_heap(size_t len)
{
	bool was_there;

	if (len > RESERVE_HEAP)
		return false;
	pthread_mutex_lock(&g_mutex);
	was_there = give(P_HEAP) || give(P_MAP); /* the network needs no mapping */
	pthread_mutex_unlock(&g_mutex);
	if (was_there)
		say(P_HEAP);
	return was_there;
}

void *reserve_map(int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	bool was_there;

	if (p != MAP_FAILED || errno != ENOMEM)
		return p == MAP_FAILED ? NULL : p;
	pthread_mutex_lock(&g_mutex);
	was_there = give(P_MAP);
	p = was_there ? mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0) : p;
	pthread_mutex_unlock(&g_mutex);
	if (was_there)
		say(P_MAP);
	if (p == MAP_FAILED)
		errno = ENOMEM;
	return p == MAP_FAILED ? NULL : p;
}
