// SPDX-License-Identifier: BSD-2-Clause
// Where the err_data lies that a queue shows of the error that was read last.
#include <stdatomic.h>
#include <string.h>

#include "kit/kit_int.h"

/*
 * Theory of operation
 *
 * What a caller's error entry holds in err_data when he reads an error is a buffer of his, says fi_cq(3) from 1.5 on.
 * Many use an entry again as it is, and then it still holds ours, of this queue or of another one, or of one that is
 * closed: to write there would change what a queue shows, or memory that is somebody else's by now. So a queue shows
 * its errors in a place of its own among these, which are never anything else: an address says by itself whether it is
 * one of them. Each provider, a module of its own, has its own places and knows no other's. Queues in excess of the
 * places, and longer data, are shown as they are kept, and are known to their own queue alone.
 */
#define SLOTS 256u

static _Atomic uint64_t g_used[SLOTS / 64];
static uint8_t g_slot[SLOTS][KIT_ERR_SHOWN_MAX];

static void *slot_take(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(g_used); i++) {
		uint64_t used = atomic_load_explicit(&g_used[i], memory_order_relaxed);

		while (~used) {
			unsigned bit = (unsigned)__builtin_ctzll(~used);

			/* acquire; pairs with the release in kit_err_unshow(): who had it has written its last there */
			if (atomic_compare_exchange_weak_explicit(&g_used[i], &used, used | 1ULL << bit,
								  memory_order_acquire, memory_order_relaxed))
				return g_slot[64 * i + bit];
		}
	}
	return NULL;
}

void *kit_err_show(void **place, void *data, size_t len)
{
	if (!len || len > KIT_ERR_SHOWN_MAX)
		return data;
	if (!*place)
		*place = slot_take();
	return *place ? memcpy(*place, data, len) : data;
}

size_t kit_err_give(void *buf, size_t room, const void *data, size_t len)
{
	size_t n = MIN(room, len);

	if (!n)
		return 0;
	memcpy(buf, data, n);
	if (n < len && !((const char *)data)[len - 1])
		((char *)buf)[n - 1] = '\0';
	return n;
}

bool kit_err_is_shown(const void *data)
{
	return (uintptr_t)data - (uintptr_t)g_slot < sizeof(g_slot);
}

void kit_err_unshow(void **place)
{
	size_t n;

	if (!*place)
		return;
	n = (size_t)((uint8_t *)*place - g_slot[0]) / KIT_ERR_SHOWN_MAX;
	atomic_fetch_and_explicit(&g_used[n / 64], ~(1ULL << n % 64), memory_order_release);
	*place = NULL;
}
