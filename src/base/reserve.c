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
static bool g_is_said;
static atomic_bool g_has_gap; /* relaxed: only whether a look is worth it */

static void in_child(void)
{
	pthread_mutex_init(&g_mutex, NULL);
}

static void watch_fork(void)
{
	pthread_atfork(NULL, NULL, in_child);
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
	if (!g_is_said)
		LOG_WARN("this process is out of %s: the fabric goes on with what it has reserved, which is little "
			 "(limits: ulimit -v, ulimit -d)",
			 i == P_HEAP ? "memory" : "address space");
	g_is_said = true;
	return true;
}

/* g_mutex held */
static void drop(void)
{
	for (int i = 0; i < P_NUM; i++) {
		if (g_part[i].at)
			munmap(g_part[i].at, g_part[i].len);
		g_part[i].at = NULL;
		g_part[i].len = 0;
	}
	g_is_said = false;
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
	bool has_map;

	if (likely(!atomic_load_explicit(&g_has_gap, memory_order_relaxed)))
		return true;
	pthread_mutex_lock(&g_mutex);
	atomic_store_explicit(&g_has_gap, false, memory_order_relaxed); /* fill() sets it again */
	fill(P_HEAP);
	has_map = fill(P_MAP);
	pthread_mutex_unlock(&g_mutex);
	return has_map;
}

bool reserve_give_heap(void)
{
	bool was_there;

	pthread_mutex_lock(&g_mutex);
	was_there = give(P_HEAP);
	pthread_mutex_unlock(&g_mutex);
	return was_there;
}

void *reserve_map(int fd, size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED && errno == ENOMEM) {
		pthread_mutex_lock(&g_mutex);
		if (give(P_MAP))
			p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
		pthread_mutex_unlock(&g_mutex);
	}
	return p == MAP_FAILED ? NULL : p;
}
