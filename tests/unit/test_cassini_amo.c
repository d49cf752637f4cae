// SPDX-License-Identifier: BSD-2-Clause
// Tests of nic/cassini/cassini_amo.c: every operation on every type against C's own arithmetic, on boundary and random
// values.
#include "cassini_tgtfake.h"

#include <float.h>
#include <math.h>
#include <pthread.h>

#define ROUNDS 20000
#define VAL_CNT 16

union val {
	uint8_t b[16];
	uint64_t w[2];
	float f[4];
	double d[2];
};

/* --- the reference: C types, one line per operation --- */

static bool swaps(unsigned how, bool less, bool equal, bool greater)
{
	const bool table[CASSINI_CSWAP_NUM] = {equal, !equal, less || equal, less, greater || equal, greater};

	return table[how];
}

#define REF_INT(type_, c_)                                                                                             \
	case type_: {                                                                                                  \
		c_ t, a, b;                                                                                            \
		memcpy(&t, target->b, sizeof(t));                                                                      \
		memcpy(&a, op1->b, sizeof(a));                                                                         \
		memcpy(&b, op2->b, sizeof(b));                                                                         \
		const bool is_cswap = amo->op == CASSINI_AMO_CSWAP && swaps(amo->cswap, b<t, b == t, b> t);            \
		const c_ result[CASSINI_AMO_OP_NUM] = {                                                                \
			[CASSINI_AMO_MIN] = a < t ? a : t,                                                             \
			[CASSINI_AMO_MAX] = a > t ? a : t,                                                             \
			[CASSINI_AMO_SUM] = (c_)((uint64_t)a + (uint64_t)t),                                           \
			[CASSINI_AMO_LOR] = t || a,                                                                    \
			[CASSINI_AMO_LAND] = t && a,                                                                   \
			[CASSINI_AMO_LXOR] = (t && !a) || (!t && a),                                                   \
			[CASSINI_AMO_BOR] = (c_)(t | a),                                                               \
			[CASSINI_AMO_BAND] = (c_)(t & a),                                                              \
			[CASSINI_AMO_BXOR] = (c_)(t ^ a),                                                              \
			[CASSINI_AMO_SWAP] = a,                                                                        \
			[CASSINI_AMO_CSWAP] = is_cswap ? a : t,                                                        \
			[CASSINI_AMO_AXOR] = (c_)((t & (c_)~b) ^ a),                                                   \
		};                                                                                                     \
		memcpy(target->b, &result[amo->op], sizeof(t));                                                        \
		break;                                                                                                 \
	}

#define REF_FP(type_, c_, n_)                                                                                          \
	case type_: {                                                                                                  \
		c_ t[2] = {0}, a[2] = {0}, b[2] = {0};                                                                 \
		memcpy(t, target->b, (n_) * sizeof(c_));                                                               \
		memcpy(a, op1->b, (n_) * sizeof(c_));                                                                  \
		memcpy(b, op2->b, (n_) * sizeof(c_));                                                                  \
		const bool eq = b[0] == t[0] && b[1] == t[1];                                                          \
		c_ sum[2] = {t[0] + a[0], t[1] + a[1]};                                                                \
		if (amo->op == CASSINI_AMO_SUM)                                                                        \
			memcpy(target->b, sum, (n_) * sizeof(c_));                                                     \
		else if ((amo->op == CASSINI_AMO_MIN && a[0] < t[0]) || (amo->op == CASSINI_AMO_MAX && a[0] > t[0]) || \
			 amo->op == CASSINI_AMO_SWAP ||                                                                \
			 (amo->op == CASSINI_AMO_CSWAP && swaps(amo->cswap, b[0]<t[0], eq, b[0]> t[0])))               \
			memcpy(target->b, op1->b, (n_) * sizeof(c_));                                                  \
		break;                                                                                                 \
	}

static void reference(const struct cassini_amo_in *amo, union val *target, const union val *op1, const union val *op2)
{
	switch ((enum cassini_amo_type)amo->type) {
		REF_INT(CASSINI_T_I8, int8_t)
		REF_INT(CASSINI_T_U8, uint8_t)
		REF_INT(CASSINI_T_I16, int16_t)
		REF_INT(CASSINI_T_U16, uint16_t)
		REF_INT(CASSINI_T_I32, int32_t)
		REF_INT(CASSINI_T_U32, uint32_t)
		REF_INT(CASSINI_T_I64, int64_t)
		REF_INT(CASSINI_T_U64, uint64_t)
		REF_FP(CASSINI_T_F32, float, 1)
		REF_FP(CASSINI_T_CF32, float, 2)
		REF_FP(CASSINI_T_F64, double, 1)
		REF_FP(CASSINI_T_CF64, double, 2)
	case CASSINI_T_U128:
		if (!memcmp(target->b, op2->b, 16))
			*target = *op1;
		break;
	case CASSINI_T_NUM:
		fail();
	}
}

/* What doc/facts/cxi.md#atomics says, in its words: masks of types, bit = number of the type. */
#define INTS 0x00ffu
#define REALS (INTS | 1u << CASSINI_T_F32 | 1u << CASSINI_T_F64)
#define NUMBERS (REALS | 1u << CASSINI_T_CF32 | 1u << CASSINI_T_CF64)
#define ALL (NUMBERS | 1u << CASSINI_T_U128)

static bool is_valid(const struct cassini_amo_in *amo)
{
	static const unsigned ops[CASSINI_AMO_OP_NUM] = {REALS, REALS, NUMBERS, 0,	 INTS, INTS, INTS,
							 INTS,	INTS,  INTS,	NUMBERS, 0,    INTS};
	static const unsigned cswaps[CASSINI_CSWAP_NUM] = {ALL, NUMBERS, REALS, REALS, REALS, REALS};

	return (amo->op == CASSINI_AMO_CSWAP ? cswaps[amo->cswap] : ops[amo->op]) >> amo->type & 1;
}

/* --- values --- */

static bool is_float32(unsigned type)
{
	return type == CASSINI_T_F32 || type == CASSINI_T_CF32;
}

static double fp_special(unsigned i, bool is_32)
{
	const double v[VAL_CNT] = {0.0,
				   -0.0,
				   1.0,
				   -1.0,
				   NAN,
				   -NAN,
				   INFINITY,
				   -INFINITY,
				   is_32 ? FLT_MAX : DBL_MAX,
				   is_32 ? -FLT_MAX : -DBL_MAX,
				   is_32 ? FLT_MIN : DBL_MIN,
				   is_32 ? FLT_TRUE_MIN : DBL_TRUE_MIN,
				   is_32 ? FLT_EPSILON : DBL_EPSILON,
				   0.1,
				   1e10,
				   -3.75};

	return v[i];
}

static union val value(struct rng *r, unsigned type)
{
	static const uint64_t ints[VAL_CNT] = {0,
					       1,
					       UINT64_MAX,
					       0x7f,
					       0x80,
					       0xff,
					       0x7fff,
					       0x8000,
					       0xffff,
					       0x7fffffff,
					       0x80000000,
					       0xffffffff,
					       INT64_MAX,
					       1ULL << 63,
					       0x5555555555555555,
					       0xaaaaaaaaaaaaaaaa};
	unsigned i = (unsigned)rng_below(r, 2 * VAL_CNT), k = (unsigned)rng_below(r, VAL_CNT);
	union val v = {.w = {rng_u64(r), rng_u64(r)}};

	if (i >= VAL_CNT)
		return v;
	if (is_float32(type)) {
		v.f[0] = (float)fp_special(i, true);
		v.f[1] = (float)fp_special(k, true);
	} else if (type == CASSINI_T_F64 || type == CASSINI_T_CF64) {
		v.d[0] = fp_special(i, false);
		v.d[1] = fp_special(k, false);
	} else {
		v.w[0] = ints[i];
		v.w[1] = ints[k];
	}
	return v;
}

static bool is_nan(unsigned type, const union val *v, unsigned i)
{
	return is_float32(type) ? isnan(v->f[i]) : isnan(v->d[i]);
}

/* Equal bits; the sum of NaNs may be any NaN. */
static void expect_same(const struct cassini_amo_in *amo, const union val *got, const union val *want, size_t size)
{
	bool is_fp = amo->type >= CASSINI_T_F32 && amo->type <= CASSINI_T_CF64;
	size_t part = is_float32(amo->type) ? 4 : 8;

	if (!memcmp(got, want, size))
		return;
	if (is_fp && amo->op == CASSINI_AMO_SUM) {
		for (unsigned i = 0; i < size / part; i++)
			if (memcmp(got->b + i * part, want->b + i * part, part) &&
			    !(is_nan(amo->type, got, i) && is_nan(amo->type, want, i)))
				fail_msg("op %u type %u part %u", amo->op, amo->type, i);
		return;
	}
	fail_msg("op %u type %u cswap %u: %#llx, not %#llx", amo->op, amo->type, amo->cswap,
		 (unsigned long long)got->w[0], (unsigned long long)want->w[0]);
}

static void check_one(struct rng *r, struct cassini_amo_in *amo)
{
	struct {
		uint8_t before[16];
		union val v;
		uint8_t after[16];
	} __attribute__((aligned(16))) mem;
	union val old, was, want, a = value(r, amo->type), b = value(r, amo->type);
	size_t size = cassini_amo_type_size(amo->type);

	memset(&mem, 0xc3, sizeof(mem));
	memset(&old, 0x3c, sizeof(old));
	mem.v = value(r, amo->type);
	if (rng_chance(r, 0.4))
		b = mem.v;
	was = want = mem.v;
	memcpy(amo->op1, &a, 16);
	memcpy(amo->op2, &b, 16);
	reference(amo, &want, &a, &b);
	assert_int_equal(cassini_amo_exec(amo, &mem.v, &old), CASSINI_RC_OK);
	expect_same(amo, &mem.v, &want, size);
	assert_memory_equal(mem.v.b + size, was.b + size, 16 - size);
	assert_memory_equal(&old, &was, size);
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(mem.before[i], 0xc3);
		assert_int_equal(mem.after[i], 0xc3);
	}
}

static void cassini_amo_exec__every_op_on_every_type(void **state)
{
	struct rng r = unit_rng();
	unsigned valid = 0;

	for (unsigned op = 0; op < CASSINI_AMO_OP_NUM; op++) {
		for (unsigned type = 0; type < CASSINI_T_NUM; type++) {
			for (unsigned how = 0; how < (op == CASSINI_AMO_CSWAP ? CASSINI_CSWAP_NUM : 1u); how++) {
				struct cassini_amo_in amo = {.op = (uint8_t)op, .type = (uint8_t)type,
							     .cswap = (uint8_t)how};
				union val mem = {.w = {1, 2}};

				if (is_valid(&amo)) {
					valid++;
					for (unsigned i = 0; i < ROUNDS / 20; i++)
						check_one(&r, &amo);
					continue;
				}
				assert_int_equal(cassini_amo_check(&amo), CASSINI_RC_AMO_INVAL_OP_ERROR);
				assert_int_equal(cassini_amo_exec(&amo, &mem, NULL), CASSINI_RC_AMO_INVAL_OP_ERROR);
				assert_true(mem.w[0] == 1 && mem.w[1] == 2);
			}
		}
	}
	/* MIN MAX 10 each; SUM SWAP 12 each; logical and bitwise and AXOR 8 each; CSWAP 13 + 12 + 4 x 10 */
	assert_int_equal(valid, 20 + 24 + 7 * 8 + 65);
}

static void cassini_amo_check__out_of_range(void **state)
{
	struct cassini_amo_in bad[] = {
		{.op = CASSINI_AMO_OP_NUM},
		{.op = 3},
		{.op = 255},
		{.op = CASSINI_AMO_SUM, .type = CASSINI_T_NUM},
		{.op = CASSINI_AMO_SUM, .type = 255},
		{.op = CASSINI_AMO_CSWAP, .cswap = CASSINI_CSWAP_NUM},
		{.op = CASSINI_AMO_CSWAP, .cswap = 255},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(cassini_amo_check(&bad[i]), CASSINI_RC_AMO_INVAL_OP_ERROR);
	assert_int_equal(cassini_amo_type_size(CASSINI_T_NUM), 0);
	assert_int_equal(cassini_amo_type_size(UINT32_MAX), 0);
}

static void cassini_amo_exec__alignment(void **state)
{
	static const uint8_t align[CASSINI_T_NUM] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 8, 16};
	uint8_t mem[64] __attribute__((aligned(64))) = {0}, was[64] = {0};

	for (unsigned type = 0; type < CASSINI_T_NUM; type++) {
		struct cassini_amo_in amo = {.op = CASSINI_AMO_CSWAP, .type = (uint8_t)type, .op1 = {1, 1}};

		for (unsigned off = 0; off < 32; off++) {
			uint8_t rc = cassini_amo_exec(&amo, mem + off, NULL);

			assert_int_equal(rc, off % align[type] ? CASSINI_RC_AMO_ALIGN_ERROR : CASSINI_RC_OK);
			if (rc != CASSINI_RC_OK)
				assert_memory_equal(mem, was, sizeof(mem));
			memset(mem, 0, sizeof(mem));
		}
	}
}

/* --- atomic with respect to the CPU's own instructions --- */

static void *add_thread(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		__atomic_fetch_add((uint32_t *)arg, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void cassini_amo_exec__beside_cpu_atomics(void **state)
{
	struct cassini_amo_in amo = {.op = CASSINI_AMO_SUM, .type = CASSINI_T_U32, .op1 = {1}};
	uint32_t word = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add_thread, &word), 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		assert_int_equal(cassini_amo_exec(&amo, &word, NULL), CASSINI_RC_OK);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(word, 2 * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cassini_amo_exec__every_op_on_every_type),
		cmocka_unit_test(cassini_amo_check__out_of_range),
		cmocka_unit_test(cassini_amo_exec__alignment),
		cmocka_unit_test(cassini_amo_exec__beside_cpu_atomics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
