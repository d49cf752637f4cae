// SPDX-License-Identifier: BSD-2-Clause
// Arithmetic of atomic operations.
#include "nic/cassini/cassini_tgt.h"

#include <string.h>

#include "base/bits.h"
#include "base/guard.h"

/*
 * Theory of operation
 *
 * Types of 1, 2, 4 and 8 bytes are read, computed and written by a compare-and-swap loop with the CPU's own
 * instructions, so that the application's atomics on the same word are respected. Types of 16 bytes have no portable
 * instruction; they are atomic among the users of the adapter's lock only, as on the adapter, whose atomics are not
 * atomic to the CPU's either.
 *
 * Values travel as raw bits in two words. An operation looks at them as integers of their size and sign, or as one or
 * two floating-point numbers; float is computed in double, which rounds the same for one addition (53 >= 2 x 24 + 2).
 * What is only moved keeps its bits, NaN payloads included.
 *
 * The six comparisons have the operand on the left, as FI_CSWAP_* have: LE swaps if compare <= target. MIN and MAX
 * write the operand if it is less (greater) than the target, so a NaN on either side writes nothing.
 */

enum amo_kind { KIND_NONE, KIND_INT, KIND_FP, KIND_CPLX, KIND_RAW };

struct amo_type_desc {
	uint8_t size;  /* bytes */
	uint8_t align;
	uint8_t kind;
	bool is_signed;
};

static const struct amo_type_desc amo_type[CASSINI_T_NUM] = {
	[CASSINI_T_I8] = {1, 1, KIND_INT, true},
	[CASSINI_T_U8] = {1, 1, KIND_INT, false},
	[CASSINI_T_I16] = {2, 2, KIND_INT, true},
	[CASSINI_T_U16] = {2, 2, KIND_INT, false},
	[CASSINI_T_I32] = {4, 4, KIND_INT, true},
	[CASSINI_T_U32] = {4, 4, KIND_INT, false},
	[CASSINI_T_I64] = {8, 8, KIND_INT, true},
	[CASSINI_T_U64] = {8, 8, KIND_INT, false},
	[CASSINI_T_F32] = {4, 4, KIND_FP, true},
	[CASSINI_T_CF32] = {8, 8, KIND_CPLX, true}, /* 8 although C asks for 4: it is moved as one word */
	[CASSINI_T_F64] = {8, 8, KIND_FP, true},
	[CASSINI_T_CF64] = {16, 8, KIND_CPLX, true}, /* what C guarantees of a double complex */
	[CASSINI_T_U128] = {16, 16, KIND_RAW, false},
};

#define OF_INT  BIT(KIND_INT)
#define OF_REAL (OF_INT | BIT(KIND_FP))
#define OF_NUM  (OF_REAL | BIT(KIND_CPLX))
#define OF_ALL  (OF_NUM | BIT(KIND_RAW))

/* Kinds of types that an operation takes; the hole is a number that the device does not use. */
static const uint8_t amo_kinds[CASSINI_AMO_OP_NUM] = {
	[CASSINI_AMO_MIN] = OF_REAL, [CASSINI_AMO_MAX] = OF_REAL, [CASSINI_AMO_SUM] = OF_NUM,
	[CASSINI_AMO_LOR] = OF_INT, [CASSINI_AMO_LAND] = OF_INT, [CASSINI_AMO_BOR] = OF_INT,
	[CASSINI_AMO_BAND] = OF_INT, [CASSINI_AMO_LXOR] = OF_INT, [CASSINI_AMO_BXOR] = OF_INT,
	[CASSINI_AMO_SWAP] = OF_NUM, [CASSINI_AMO_CSWAP] = OF_ALL, [CASSINI_AMO_AXOR] = OF_INT,
};

static const uint8_t cswap_kinds[CASSINI_CSWAP_NUM] = {
	[CASSINI_CSWAP_EQ] = OF_ALL,  [CASSINI_CSWAP_NE] = OF_NUM,  [CASSINI_CSWAP_LE] = OF_REAL,
	[CASSINI_CSWAP_LT] = OF_REAL, [CASSINI_CSWAP_GE] = OF_REAL, [CASSINI_CSWAP_GT] = OF_REAL,
};

/* The value in target memory, and what to do about it. */
struct amo_step {
	uint64_t cur[2];
	uint64_t next[2]; /* written if @write */
	bool write;
};

size_t cassini_amo_type_size(unsigned type)
{
	return type < CASSINI_T_NUM ? amo_type[type].size : 0;
}

uint8_t cassini_amo_check(const struct cassini_amo_in *amo)
{
	uint8_t kinds;

	if (amo->op >= CASSINI_AMO_OP_NUM || amo->type >= CASSINI_T_NUM)
		return CASSINI_RC_AMO_INVAL_OP_ERROR;
	kinds = amo_kinds[amo->op];
	if (amo->op == CASSINI_AMO_CSWAP)
		kinds = amo->cswap < CASSINI_CSWAP_NUM ? cswap_kinds[amo->cswap] : 0;
	return kinds & BIT(amo_type[amo->type].kind) ? CASSINI_RC_OK : CASSINI_RC_AMO_INVAL_OP_ERROR;
}

/* --- integers --- */

/* @v as a 64-bit number of the type: the bits above it are the sign's. */
static uint64_t widen(const struct amo_type_desc *t, uint64_t v)
{
	unsigned shift = 64 - 8u * t->size;

	v <<= shift;
	return t->is_signed ? (uint64_t)((int64_t)v >> shift) : v >> shift;
}

static bool int_less(const struct amo_type_desc *t, uint64_t a, uint64_t b)
{
	return t->is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static bool compare(enum cassini_cswap how, bool less, bool equal, bool greater)
{
	switch (how) {
	case CASSINI_CSWAP_EQ:
		return equal;
	case CASSINI_CSWAP_NE:
		return !equal;
	case CASSINI_CSWAP_LE:
		return less || equal;
	case CASSINI_CSWAP_LT:
		return less;
	case CASSINI_CSWAP_GE:
		return greater || equal;
	case CASSINI_CSWAP_GT:
		return greater;
	case CASSINI_CSWAP_NUM:
		break;
	}
	return false;
}

static void step_int(const struct cassini_amo_in *amo, const struct amo_type_desc *t, struct amo_step *s)
{
	uint64_t v = widen(t, s->cur[0]), a = widen(t, amo->op1[0]), b = widen(t, amo->op2[0]);

	s->write = true;
	s->next[0] = a;
	switch ((enum cassini_amo_op)amo->op) {
	case CASSINI_AMO_MIN:
		s->write = int_less(t, a, v);
		break;
	case CASSINI_AMO_MAX:
		s->write = int_less(t, v, a);
		break;
	case CASSINI_AMO_SUM:
		s->next[0] = v + a;
		break;
	case CASSINI_AMO_LOR:
		s->next[0] = v || a;
		break;
	case CASSINI_AMO_LAND:
		s->next[0] = v && a;
		break;
	case CASSINI_AMO_LXOR:
		s->next[0] = !v != !a;
		break;
	case CASSINI_AMO_BOR:
		s->next[0] = v | a;
		break;
	case CASSINI_AMO_BAND:
		s->next[0] = v & a;
		break;
	case CASSINI_AMO_BXOR:
		s->next[0] = v ^ a;
		break;
	case CASSINI_AMO_SWAP:
		break;
	case CASSINI_AMO_CSWAP:
		s->write = compare((enum cassini_cswap)amo->cswap, int_less(t, b, v), b == v, int_less(t, v, b));
		break;
	case CASSINI_AMO_AXOR:
		s->next[0] = (v & ~b) ^ a;
		break;
	case CASSINI_AMO_OP_NUM:
		must(0);
	}
}

/* --- floating point --- */

static void fp_load(unsigned type, const uint64_t raw[2], double v[2])
{
	float f[2];

	v[1] = 0;
	switch (type) {
	case CASSINI_T_F32: {
		uint32_t bits = (uint32_t)raw[0];

		memcpy(f, &bits, sizeof(bits));
		v[0] = f[0];
		break;
	}
	case CASSINI_T_CF32:
		memcpy(f, raw, sizeof(f));
		v[0] = f[0];
		v[1] = f[1];
		break;
	case CASSINI_T_F64:
		memcpy(v, raw, sizeof(*v));
		break;
	default:
		memcpy(v, raw, 2 * sizeof(*v));
	}
}

static void fp_store(unsigned type, const double v[2], uint64_t raw[2])
{
	float f[2] = {(float)v[0], (float)v[1]};

	switch (type) {
	case CASSINI_T_F32: {
		uint32_t bits;

		memcpy(&bits, f, sizeof(bits));
		raw[0] = bits;
		break;
	}
	case CASSINI_T_CF32:
		memcpy(raw, f, sizeof(f));
		break;
	default:
		memcpy(raw, v, 2 * sizeof(*v));
	}
}

static void step_fp(const struct cassini_amo_in *amo, struct amo_step *s)
{
	double v[2], a[2], b[2], sum[2];

	fp_load(amo->type, s->cur, v);
	fp_load(amo->type, amo->op1, a);
	s->write = true;
	memcpy(s->next, amo->op1, sizeof(s->next));
	if (amo->op == CASSINI_AMO_MIN) {
		s->write = a[0] < v[0];
	} else if (amo->op == CASSINI_AMO_MAX) {
		s->write = a[0] > v[0];
	} else if (amo->op == CASSINI_AMO_SUM) {
		sum[0] = v[0] + a[0];
		sum[1] = v[1] + a[1];
		fp_store(amo->type, sum, s->next);
	} else if (amo->op == CASSINI_AMO_CSWAP) {
		/* complex numbers have no order: there it is EQ or NE */
		fp_load(amo->type, amo->op2, b);
		s->write =
			compare((enum cassini_cswap)amo->cswap, b[0] < v[0], b[0] == v[0] && b[1] == v[1], b[0] > v[0]);
	}
}

/* 128 bits without arithmetic: compare and swap for equality only. */
static void step_raw(const struct cassini_amo_in *amo, struct amo_step *s)
{
	s->write = s->cur[0] == amo->op2[0] && s->cur[1] == amo->op2[1];
	memcpy(s->next, amo->op1, sizeof(s->next));
}

static void amo_step(const struct cassini_amo_in *amo, struct amo_step *s)
{
	const struct amo_type_desc *t = &amo_type[amo->type];

	if (t->kind == KIND_INT)
		step_int(amo, t, s);
	else if (t->kind == KIND_RAW)
		step_raw(amo, s);
	else
		step_fp(amo, s);
}

/* --- memory --- */

/*
 * Acquire and release: what another process wrote before an atomic of its own is seen after ours, whichever of adapter
 * and CPU instructions each side uses; pairs with the application's atomics on the word.
 */
static GUARD_ATOMIC uint64_t word_load(const void *p, size_t size)
{
	switch (size) {
	case 1:
		return __atomic_load_n((const uint8_t *)p, __ATOMIC_ACQUIRE);
	case 2:
		return __atomic_load_n((const uint16_t *)p, __ATOMIC_ACQUIRE);
	case 4:
		return __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE);
	default:
		return __atomic_load_n((const uint64_t *)p, __ATOMIC_ACQUIRE);
	}
}

static GUARD_ATOMIC bool word_cas(void *p, size_t size, uint64_t cur, uint64_t next)
{
	uint8_t c1 = (uint8_t)cur;
	uint16_t c2 = (uint16_t)cur;
	uint32_t c4 = (uint32_t)cur;

	switch (size) {
	case 1:
		return __atomic_compare_exchange_n((uint8_t *)p, &c1, (uint8_t)next, false, __ATOMIC_ACQ_REL,
						   __ATOMIC_ACQUIRE);
	case 2:
		return __atomic_compare_exchange_n((uint16_t *)p, &c2, (uint16_t)next, false, __ATOMIC_ACQ_REL,
						   __ATOMIC_ACQUIRE);
	case 4:
		return __atomic_compare_exchange_n((uint32_t *)p, &c4, (uint32_t)next, false, __ATOMIC_ACQ_REL,
						   __ATOMIC_ACQUIRE);
	default:
		return __atomic_compare_exchange_n((uint64_t *)p, &cur, next, false, __ATOMIC_ACQ_REL,
						   __ATOMIC_ACQUIRE);
	}
}

/* @v as the type lies in memory. */
static void word_copy(void *dst, size_t size, uint64_t v)
{
	uint8_t v1 = (uint8_t)v;
	uint16_t v2 = (uint16_t)v;
	uint32_t v4 = (uint32_t)v;

	switch (size) {
	case 1:
		memcpy(dst, &v1, 1);
		break;
	case 2:
		memcpy(dst, &v2, 2);
		break;
	case 4:
		memcpy(dst, &v4, 4);
		break;
	default:
		memcpy(dst, &v, 8);
	}
}

uint8_t cassini_amo_exec(const struct cassini_amo_in *amo, void *target, void *old)
{
	struct amo_step s = {.write = false};
	const struct amo_type_desc *t;
	uint8_t rc = cassini_amo_check(amo);

	if (rc != CASSINI_RC_OK)
		return rc;
	t = &amo_type[amo->type];
	if ((uintptr_t)target % t->align)
		return CASSINI_RC_AMO_ALIGN_ERROR;
	if (t->size > 8) {
		memcpy(s.cur, target, 16);
		amo_step(amo, &s);
		if (s.write)
			memcpy(target, s.next, 16);
		if (old)
			memcpy(old, s.cur, 16);
		return CASSINI_RC_OK;
	}
	do {
		s.cur[0] = word_load(target, t->size);
		amo_step(amo, &s);
	} while (s.write && !word_cas(target, t->size, s.cur[0], s.next[0]));
	if (old)
		word_copy(old, t->size, s.cur[0]);
	return CASSINI_RC_OK;
}
