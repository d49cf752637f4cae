// SPDX-License-Identifier: BSD-2-Clause
// All heap memory of the project: zeroed, counted, and able to fail on demand.
#ifndef SF_BASE_MEM_H
#define SF_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/**
 * mem_alloc() - Zeroed memory for any object.
 * @size: bytes; 0 gives a valid, unique pointer.
 * Return: memory owned by the caller until mem_free(); NULL when there is none.
 */
void *mem_alloc(size_t size);

/**
 * mem_alloc_aligned() - Zeroed memory at a multiple of @align.
 * @align: bytes, a power of two. @size: bytes; 0 gives a valid, unique pointer.
 * Return: memory owned by the caller until mem_free(); NULL when there is none.
 */
void *mem_alloc_aligned(size_t align, size_t size);

/** mem_free() - Give back what either allocation function returned. @p may be NULL. */
void mem_free(void *p);

/**
 * mem_disown() - @p is handed to somebody who will free(3) it: it no longer counts as live.
 * @p: from mem_alloc(), may be NULL. Return: @p.
 */
void *mem_disown(void *p);

/**
 * mem_fail_nth() - Let one later allocation of this process fail; for tests.
 * @n: 1 = the next one, 2 = the one after it ...; 0 = none (the default). Fires once, then is off.
 */
void mem_fail_nth(uint64_t n);

/** mem_alloc_count() - Successful allocations since the process began; any thread may ask. */
uint64_t mem_alloc_count(void);

/** mem_live_count() - Allocations not yet freed; back at its old value when nothing has leaked. */
int64_t mem_live_count(void);

#endif
