// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/atomic.c: every kind x datatype x operation against plain C on the type itself, and
// for the float types that C lacks against a search of their number line.
#include "unit.h"

#include <complex.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kit/atomic.h"

typedef unsigned __int128 u128;
typedef __int128 i128;

enum { DT_INT128 = 14, DT_UINT128, DT_FLOAT16, DT_BFLOAT16, DT_FLOAT8_E4M3, DT_FLOAT8_E5M2 };
enum { OP_DIFF = 19 };
#define ELEM_MAX  5
#define SIZE_MAX_ 32 /* long double complex */

/* --- the reference -----------------------------------------------------------------------------
 */

#define LOAD_DSC(T_)                                                                               \
	T_ d, s, c;                                                                                \
	memcpy(&d, dp, sizeof(d));                                                                 \
	memcpy(&s, sp, sizeof(s));                                                                 \
	memcpy(&c, cp, sizeof(c))
#define TAKE_IF(cond_)                                                                             \
	do {                                                                                       \
		if (cond_)                                                                         \
			memcpy(dp, sp, sizeof(d));                                                 \
	} while (0);                                                                               \
	return
#define CASES_LOGIC(T_)                                                                            \
	case FI_LOR:                                                                               \
		d = (T_)(d || s);                                                                  \
		break;                                                                             \
	case FI_LAND:                                                                              \
		d = (T_)(d && s);                                                                  \
		break;                                                                             \
	case FI_LXOR:                                                                              \
		d = (T_)((d && !s) || (!d && s));                                                  \
		break;                                                                             \
	case FI_ATOMIC_READ:                                                                       \
		return;                                                                            \
	case FI_ATOMIC_WRITE:                                                                      \
		TAKE_IF(true);                                                                     \
	case FI_CSWAP:                                                                             \
		TAKE_IF(c == d);                                                                   \
	case FI_CSWAP_NE:                                                                          \
		TAKE_IF(c != d)
#define CASES_ORDER                                                                                \
	case FI_MIN:                                                                               \
		TAKE_IF(s < d);                                                                    \
	case FI_MAX:                                                                               \
		TAKE_IF(s > d);                                                                    \
	case FI_CSWAP_LE:                                                                          \
		TAKE_IF(c <= d);                                                                   \
	case FI_CSWAP_LT:                                                                          \
		TAKE_IF(c < d);                                                                    \
	case FI_CSWAP_GE:                                                                          \
		TAKE_IF(c >= d);                                                                   \
	case FI_CSWAP_GT:                                                                          \
		TAKE_IF(c > d)
#define CASES_ARITH(T_, WIDE_)                                                                     \
	case FI_SUM:                                                                               \
		d = (T_)((WIDE_)d + (WIDE_)s);                                                     \
		break;                                                                             \
	case FI_PROD:                                                                              \
		d = (T_)((WIDE_)d * (WIDE_)s);                                                     \
		break;                                                                             \
	case OP_DIFF:                                                                              \
		d = (T_)((WIDE_)d - (WIDE_)s);                                                     \
		break
#define REF_FN(name_) static void ref_##name_(unsigned op, void *dp, const void *sp, const void *cp)
/* @WIDE_: unsigned, where arithmetic wraps by definition */
#define REF_INT(name_, T_, WIDE_)                                                                  \
	REF_FN(name_)                                                                              \
	{                                                                                          \
		LOAD_DSC(T_);                                                                      \
		switch (op) {                                                                      \
			CASES_LOGIC(T_);                                                           \
			CASES_ORDER;                                                               \
			CASES_ARITH(T_, WIDE_);                                                    \
		case FI_BOR:                                                                       \
			d = (T_)(d | s);                                                           \
			break;                                                                     \
		case FI_BAND:                                                                      \
			d = (T_)(d & s);                                                           \
			break;                                                                     \
		case FI_BXOR:                                                                      \
			d = (T_)(d ^ s);                                                           \
			break;                                                                     \
		case FI_MSWAP:                                                                     \
			d = (T_)((s & c) | (d & ~c));                                              \
			break;                                                                     \
		}                                                                                  \
		memcpy(dp, &d, sizeof(d));                                                         \
	}
#define REF_REAL(name_, T_)                                                                        \
	REF_FN(name_)                                                                              \
	{                                                                                          \
		LOAD_DSC(T_);                                                                      \
		switch (op) {                                                                      \
			CASES_LOGIC(T_);                                                           \
			CASES_ORDER;                                                               \
			CASES_ARITH(T_, T_);                                                       \
		}                                                                                  \
		memcpy(dp, &d, sizeof(d));                                                         \
	}
#define REF_COMPLEX(name_, T_)                                                                     \
	REF_FN(name_)                                                                              \
	{                                                                                          \
		LOAD_DSC(T_);                                                                      \
		switch (op) {                                                                      \
			CASES_LOGIC(T_);                                                           \
			CASES_ARITH(T_, T_);                                                       \
		}                                                                                  \
		memcpy(dp, &d, sizeof(d));                                                         \
	}

REF_INT(i8, int8_t, uint64_t)
REF_INT(u8, uint8_t, uint64_t)
REF_INT(i16, int16_t, uint64_t)
REF_INT(u16, uint16_t, uint64_t)
REF_INT(i32, int32_t, uint64_t)
REF_INT(u32, uint32_t, uint64_t)
REF_INT(i64, int64_t, uint64_t)
REF_INT(u64, uint64_t, uint64_t)
REF_INT(i128, i128, u128)
REF_INT(u128, u128, u128)
REF_REAL(float, float)
REF_REAL(double, double)
REF_REAL(ldouble, long double)
REF_COMPLEX(fcomplex, float complex)
REF_COMPLEX(dcomplex, double complex)
REF_COMPLEX(lcomplex, long double complex)

/* A float format that C lacks: every code's value, by summing its bits' weights. */
struct line {
	unsigned man_bits, sign_bit, inf; /* @inf: code, 0: none */
	unsigned max, nan;		  /* codes of the greatest number and of a NaN */
	double val[32768];		  /* of the codes without sign, up to @max; nondecreasing */
};

static struct line g_f16 = {10, 0x8000, 0x7c00, 0x7bff, 0x7e00};
static struct line g_bf16 = {7, 0x8000, 0x7f80, 0x7f7f, 0x7fc0};
static struct line g_e4m3 = {3, 0x80, 0, 0x7e, 0x7f};
static struct line g_e5m2 = {2, 0x80, 0x7c, 0x7b, 0x7e};

static void line_fill(struct line *l, int exp_of_smallest)
{
	double step = ldexp(1, exp_of_smallest);

	l->val[0] = 0;
	for (unsigned code = 1; code <= l->max; code++) {
		l->val[code] = l->val[code - 1] + step;
		/* subnormals and the first binade share a step; from there it doubles in each */
		if (code >= 2u << l->man_bits && !(code & ((1u << l->man_bits) - 1)))
			step *= 2;
	}
}

static double line_load(const struct line *l, unsigned code)
{
	unsigned size = code & ~l->sign_bit;
	double v = l->inf && size == l->inf ? INFINITY : size > l->max ? NAN : l->val[size];

	return code & l->sign_bit ? -v : v;
}

static unsigned line_store(const struct line *l, double v)
{
	unsigned sign = signbit(v) ? l->sign_bit : 0, lo = 0, hi = l->max;
	double size = fabs(v), past = 2 * l->val[l->max] - l->val[l->max - 1];

	if (isnan(v))
		return l->nan;
	/* what would round to the number after the greatest; a tie goes to the even one */
	if (size > (l->val[hi] + past) / 2 || (size == (l->val[hi] + past) / 2 && (hi & 1)))
		return sign | (l->inf ? l->inf : l->nan);
	while (hi - lo > 1) {
		unsigned mid = (lo + hi) / 2;

		*(l->val[mid] <= size ? &lo : &hi) = mid;
	}
	if (size - l->val[lo] == l->val[hi] - size)
		return sign | (lo & 1 ? hi : lo);
	return sign | (size - l->val[lo] < l->val[hi] - size ? lo : hi);
}

static void ref_small(const struct line *l, unsigned op, void *dp, const void *sp, const void *cp)
{
	size_t size = l->sign_bit > 0xff ? 2 : 1;
	unsigned code[3] = {0};
	double v[3], out;

	memcpy(&code[0], dp, size);
	memcpy(&code[1], sp, size);
	memcpy(&code[2], cp, size);
	for (int i = 0; i < 3; i++)
		v[i] = line_load(l, code[i]);
	out = v[0];
	ref_double(op, &out, &v[1], &v[2]);
	if ((op >= FI_SUM && op <= FI_LXOR) || op == OP_DIFF)
		code[0] = line_store(l, out);
	else if (op == FI_ATOMIC_WRITE || (op == FI_CSWAP_NE && isnan(v[0])) ||
		 memcmp(&out, &v[0], sizeof(out)))
		code[0] = code[1]; /* NaN for NaN: swapped, though the values look the same */
	memcpy(dp, code, size);
}

REF_FN(f16)
{
	ref_small(&g_f16, op, dp, sp, cp);
}

REF_FN(bf16)
{
	ref_small(&g_bf16, op, dp, sp, cp);
}

REF_FN(e4m3)
{
	ref_small(&g_e4m3, op, dp, sp, cp);
}

REF_FN(e5m2)
{
	ref_small(&g_e5m2, op, dp, sp, cp);
}

/* --- types -------------------------------------------------------------------------------------
 */

enum cls { INT, REAL, COMPLEX };
/* One letter per operation, from fi_atomic(3): b base and fetch, f fetch only, c compare, - never.
 */
static const char *const ops_of[] = {
	[INT] = "bbbbbbbbbbfbcccccccb",
	[REAL] = "bbbbbb--b-fbcccccc-b",
	[COMPLEX] = "--bbbb--b-fbcc-----b",
};
static const struct type {
	enum cls cls;
	size_t size;
	void (*ref)(unsigned op, void *dp, const void *sp, const void *cp);
	const struct line *line;
	double eps; /* of a part of a complex number */
} types[KIT_DT_NUM] = {
	[FI_INT8] = {INT, 1, ref_i8},
	[FI_UINT8] = {INT, 1, ref_u8},
	[FI_INT16] = {INT, 2, ref_i16},
	[FI_UINT16] = {INT, 2, ref_u16},
	[FI_INT32] = {INT, 4, ref_i32},
	[FI_UINT32] = {INT, 4, ref_u32},
	[FI_INT64] = {INT, 8, ref_i64},
	[FI_UINT64] = {INT, 8, ref_u64},
	[FI_FLOAT] = {REAL, 4, ref_float},
	[FI_DOUBLE] = {REAL, 8, ref_double},
	[FI_FLOAT_COMPLEX] = {COMPLEX, 8, ref_fcomplex, NULL, FLT_EPSILON},
	[FI_DOUBLE_COMPLEX] = {COMPLEX, 16, ref_dcomplex, NULL, DBL_EPSILON},
	[FI_LONG_DOUBLE] = {REAL, sizeof(long double), ref_ldouble},
	[FI_LONG_DOUBLE_COMPLEX] = {COMPLEX, 2 * sizeof(long double), ref_lcomplex, NULL,
				    (double)LDBL_EPSILON},
	[DT_INT128] = {INT, 16, ref_i128},
	[DT_UINT128] = {INT, 16, ref_u128},
	[DT_FLOAT16] = {REAL, 2, ref_f16, &g_f16},
	[DT_BFLOAT16] = {REAL, 2, ref_bf16, &g_bf16},
	[DT_FLOAT8_E4M3] = {REAL, 1, ref_e4m3, &g_e4m3},
	[DT_FLOAT8_E5M2] = {REAL, 1, ref_e5m2, &g_e5m2},
};

/* Bytes of one number: a complex one has two. */
static size_t part_size(const struct type *t)
{
	return t->cls == COMPLEX ? t->size / 2 : t->size;
}

static long double part_load(const struct type *t, const uint8_t *p)
{
	long double l;
	double d;
	float f;

	if (t->line) {
		unsigned code = t->size == 2 ? (unsigned)p[1] << 8 | p[0] : p[0];

		return line_load(t->line, code);
	}
	switch (part_size(t)) {
	case sizeof(float):
		memcpy(&f, p, sizeof(f));
		return f;
	case sizeof(double):
		memcpy(&d, p, sizeof(d));
		return d;
	default:
		memcpy(&l, p, sizeof(l));
		return l;
	}
}

static void part_store(const struct type *t, uint8_t *p, long double v)
{
	double d = (double)v;
	float f = (float)v;
	unsigned code;

	if (t->line) {
		code = line_store(t->line, d);
		memcpy(p, &code, t->size);
	} else if (part_size(t) == sizeof(float)) {
		memcpy(p, &f, sizeof(f));
	} else if (part_size(t) == sizeof(double)) {
		memcpy(p, &d, sizeof(d));
	} else {
		memset(p, 0, sizeof(v)); /* it has padding */
		memcpy(p, &v, LDBL_MANT_DIG == 64 ? 10 : sizeof(v));
	}
}

/* Any bits; but of a long double not all bits are a number. */
static void part_random(struct rng *r, const struct type *t, uint8_t *p)
{
	uint64_t bits = rng_u64(r);

	if (part_size(t) == sizeof(long double)) {
		part_store(t, p,
			   ldexpl((long double)(int64_t)bits, (int)rng_below(r, 32700) - 16400));
		return;
	}
	memcpy(p, &bits, part_size(t));
}

static void float_fill(struct rng *r, const struct type *t, uint8_t *p)
{
	static const long double edge[] = {
		0,	 -0.0L,	       INFINITY, -INFINITY, NAN,   1,	-1,   FLT_MAX, FLT_TRUE_MIN,
		DBL_MAX, DBL_TRUE_MIN, LDBL_MAX, LDBL_MIN,  65504, 448, 57344};

	for (size_t at = 0; at < t->size; at += part_size(t)) {
		switch (rng_below(r, 3)) {
		case 0:
			part_store(t, p + at, edge[rng_below(r, ARRAY_SIZE(edge))]);
			break;
		case 1:
			part_store(t, p + at, (long double)(int64_t)rng_below(r, 33) - 16);
			break;
		default:
			part_random(r, t, p + at);
		}
	}
}

static void int_fill(struct rng *r, const struct type *t, uint8_t *p)
{
	uint64_t pick = rng_below(r, 6);

	memset(p, pick == 0 ? 0xff : 0, t->size);
	if (pick == 1) /* the smallest, or half the range */
		p[t->size - 1] = 0x80;
	if (pick == 2) {
		memset(p, 0xff, t->size);
		p[t->size - 1] = 0x7f;
	}
	if (pick == 3)
		p[0] = (uint8_t)rng_below(r, 3);
	for (size_t i = 0; pick > 3 && i < t->size; i++)
		p[i] = (uint8_t)rng_u64(r);
}

static void value_fill(struct rng *r, const struct type *t, uint8_t *p)
{
	if (t->cls == INT)
		int_fill(r, t, p);
	else
		float_fill(r, t, p);
}

static bool part_is(long double a, long double b, long double slack)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	return (a == b && !signbit(a) == !signbit(b)) || fabsl(a - b) <= slack;
}

/* Bits where bits are moved, else numbers: a computed NaN may be any NaN. */
static bool is_same(const struct type *t, unsigned op, const uint8_t *a, const uint8_t *b,
		    long double slack)
{
	bool is_computed = (op >= FI_SUM && op <= FI_LXOR) || op == OP_DIFF;

	if (t->cls == INT || !is_computed)
		return !memcmp(a, b, t->size);
	for (size_t at = 0; at < t->size; at += part_size(t))
		if (!part_is(part_load(t, a + at), part_load(t, b + at), slack))
			return false;
	return true;
}

/* Compilers may fuse the multiplications and additions of a complex product. */
static long double slack_of(const struct type *t, unsigned op, const uint8_t *d, const uint8_t *s)
{
	long double size = 1;

	if (t->cls != COMPLEX || op != FI_PROD)
		return -1;
	size *= hypotl(part_load(t, d), part_load(t, d + part_size(t)));
	size *= hypotl(part_load(t, s), part_load(t, s + part_size(t)));
	return isfinite(size) ? 4 * (long double)t->eps * size : -1;
}

/* --- tests -------------------------------------------------------------------------------------
 */

static int setup(void **state)
{
	line_fill(&g_f16, -24);
	line_fill(&g_bf16, -133);
	line_fill(&g_e4m3, -9);
	line_fill(&g_e5m2, -16);
	assert_true(g_f16.val[g_f16.max] == 65504);
	assert_true(g_bf16.val[g_bf16.max] == 0x1.fep127);
	assert_true(g_e4m3.val[g_e4m3.max] == 448);
	assert_true(g_e5m2.val[g_e5m2.max] == 57344);
	return 0;
}

static void atomic_valid__is_the_manuals_table(void **state)
{
	static const char *const letters[] = {"b", "bf", "c"};

	for (unsigned dt = 0; dt < KIT_DT_NUM; dt++) {
		assert_int_equal(kit_dt_size(dt), types[dt].size);
		assert_int_equal(strlen(ops_of[types[dt].cls]), KIT_OP_NUM);
		for (unsigned op = 0; op < KIT_OP_NUM; op++)
			for (int kind = 0; kind < 3; kind++) {
				bool is_ok =
					strchr(letters[kind], ops_of[types[dt].cls][op]) != NULL;

				assert_int_equal(
					kit_atomic_valid((enum kit_atomic_kind)kind, dt, op),
					is_ok ? 0 : -FI_EOPNOTSUPP);
			}
	}
	assert_int_equal(kit_dt_size(KIT_DT_NUM), 0);
	assert_int_equal(kit_dt_size(UINT_MAX), 0);
	assert_int_equal(kit_atomic_valid(KIT_ATOMIC_BASE, KIT_DT_NUM, FI_SUM), -FI_EINVAL);
	assert_int_equal(kit_atomic_valid(KIT_ATOMIC_BASE, UINT_MAX, FI_SUM), -FI_EINVAL);
	assert_int_equal(kit_atomic_valid(KIT_ATOMIC_BASE, FI_INT8, KIT_OP_NUM), -FI_EINVAL);
	assert_int_equal(kit_atomic_valid(KIT_ATOMIC_FETCH, FI_INT8, UINT_MAX), -FI_EINVAL);
}

struct rig {
	uint8_t d[ELEM_MAX * SIZE_MAX_ + 16], s[ELEM_MAX * SIZE_MAX_ + 16],
		c[ELEM_MAX * SIZE_MAX_ + 16];
	uint8_t res[ELEM_MAX * SIZE_MAX_ + 16];
};

/* For messages. */
static unsigned long long low_bits(const struct type *t, const uint8_t *p)
{
	uint64_t bits = 0;

	memcpy(&bits, p, MIN(t->size, sizeof(bits)));
	return bits;
}

static void check_round(struct rng *r, unsigned kind, unsigned dt, unsigned op)
{
	const struct type *t = &types[dt];
	size_t cnt = rng_below(r, ELEM_MAX + 1), off = 1 + rng_below(r, 7), len = cnt * t->size;
	struct rig was, now;
	bool has_src = op != FI_ATOMIC_READ;

	memset(&was, 0xee, sizeof(was));
	for (size_t at = off; at < off + len; at += t->size) {
		value_fill(r, t, was.d + at);
		value_fill(r, t, was.s + at);
		value_fill(r, t, was.c + at);
		if (rng_chance(r, 0.4))
			memcpy(was.c + at, was.d + at, t->size);
	}
	now = was;
	assert_int_equal(kit_atomic_apply((enum kit_atomic_kind)kind, dt, op, now.d + off,
					  has_src ? now.s + off : NULL,
					  kind == KIT_ATOMIC_COMPARE ? now.c + off : NULL,
					  kind == KIT_ATOMIC_BASE ? NULL : now.res + off, cnt),
			 0);
	assert_memory_equal(now.s, was.s, sizeof(was.s));
	assert_memory_equal(now.c, was.c, sizeof(was.c));
	for (size_t at = off; at < off + len; at += t->size) {
		uint8_t want[SIZE_MAX_];

		memcpy(want, was.d + at, t->size);
		t->ref(op, want, was.s + at, was.c + at);
		if (!is_same(t, op, now.d + at, want, slack_of(t, op, was.d + at, was.s + at)))
			fail_msg("kind %u datatype %u op %u: %#llx op %#llx is %#llx, not %#llx",
				 kind, dt, op, low_bits(t, was.d + at), low_bits(t, was.s + at),
				 low_bits(t, want), low_bits(t, now.d + at));
	}
	if (kind != KIT_ATOMIC_BASE)
		memcpy(was.res + off, was.d + off, len);
	assert_memory_equal(now.res, was.res, sizeof(was.res));
	memcpy(now.d + off, was.d + off, len); /* nothing around it has changed */
	assert_memory_equal(now.d, was.d, sizeof(was.d));
}

static void atomic_apply__as_c_on_the_type(void **state)
{
	struct rng r = unit_rng();

	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned dt = 0; dt < KIT_DT_NUM; dt++)
			for (unsigned op = 0; op < KIT_OP_NUM; op++)
				for (int i = 0; i < 400; i++)
					if (!kit_atomic_valid((enum kit_atomic_kind)kind, dt, op))
						check_round(&r, kind, dt, op);
}

static void atomic_apply__refuses_what_is_not_valid(void **state)
{
	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned dt = 0; dt <= KIT_DT_NUM; dt++)
			for (unsigned op = 0; op <= KIT_OP_NUM; op++) {
				int ret = kit_atomic_valid((enum kit_atomic_kind)kind, dt, op);

				if (ret) /* and touches nothing: NULLs would be felt */
					assert_int_equal(
						kit_atomic_apply((enum kit_atomic_kind)kind, dt, op,
								 NULL, NULL, NULL, NULL, 1),
						ret);
			}
}

static unsigned small_apply(unsigned dt, unsigned op, unsigned d, unsigned s)
{
	assert_int_equal(kit_atomic_apply(KIT_ATOMIC_BASE, dt, op, &d, &s, NULL, NULL, 1), 0);
	return d;
}

static void atomic_apply__small_floats_by_hand(void **state)
{
	assert_int_equal(small_apply(DT_FLOAT16, FI_SUM, 0x3c00, 0x3c00), 0x4000); /* 1 + 1 */
	assert_int_equal(small_apply(DT_FLOAT16, FI_SUM, 0x3c00, 0x1000),
			 0x3c00); /* 1 + half a step: even */
	assert_int_equal(small_apply(DT_FLOAT16, FI_SUM, 0x3c01, 0x1000), 0x3c02);
	assert_int_equal(small_apply(DT_FLOAT16, FI_SUM, 0x7bff, 0x4c00), 0x7c00); /* 65504 + 16 */
	assert_int_equal(small_apply(DT_FLOAT16, FI_SUM, 0x7bff, 0x4b80), 0x7bff); /* 65504 + 15 */
	assert_int_equal(small_apply(DT_FLOAT16, FI_PROD, 0x0001, 0x3800),
			 0); /* half the smallest: even */
	assert_int_equal(small_apply(DT_FLOAT16, FI_PROD, 0x8003, 0x3800), 0x8002);
	assert_int_equal(small_apply(DT_FLOAT16, FI_SUM, 0x03ff, 0x0001),
			 0x0400); /* out of the subnormals */
	assert_int_equal(small_apply(DT_BFLOAT16, FI_PROD, 0x4040, 0xc000), 0xc0c0); /* 3 * -2 */
	assert_int_equal(small_apply(DT_BFLOAT16, FI_SUM, 0x7f7f, 0x7f7f), 0x7f80);
	assert_int_equal(small_apply(DT_FLOAT8_E4M3, FI_SUM, 0x7e, 0x58),
			 0x7e); /* 448 + 16: even */
	assert_int_equal(small_apply(DT_FLOAT8_E4M3, FI_SUM, 0x7e, 0x60),
			 0x7f); /* 448 + 32: NaN, no infinity */
	assert_int_equal(small_apply(DT_FLOAT8_E5M2, FI_PROD, 0x7b, 0x40), 0x7c);
	assert_int_equal(small_apply(DT_FLOAT8_E5M2, OP_DIFF, 0x7c, 0x7c) & 0x7f, 0x7e);
}

static void atomic_apply__moved_nans_keep_their_bits(void **state)
{
	uint16_t d = 0x7c01, s = 0xfe55, c = 0x3c00, res = 0; /* float16: a signalling NaN */

	assert_int_equal(
		kit_atomic_apply(KIT_ATOMIC_COMPARE, DT_FLOAT16, FI_CSWAP, &d, &s, &c, &res, 1), 0);
	assert_int_equal(d, 0x7c01);
	assert_int_equal(
		kit_atomic_apply(KIT_ATOMIC_COMPARE, DT_FLOAT16, FI_CSWAP_NE, &d, &s, &c, &res, 1),
		0);
	assert_int_equal(d, 0xfe55);
	assert_int_equal(res, 0x7c01);
	assert_int_equal(
		kit_atomic_apply(KIT_ATOMIC_BASE, DT_FLOAT16, FI_MIN, &d, &c, NULL, NULL, 1), 0);
	assert_int_equal(d, 0xfe55); /* unordered: stays */
}

/* Bytes of our stack must not come into memory that peers read. */
static void atomic_apply__leaves_padding_alone(void **state)
{
	static const unsigned dts[] = {FI_LONG_DOUBLE, FI_LONG_DOUBLE_COMPLEX};

	if (LDBL_MANT_DIG != 64)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(dts); i++) {
		size_t len = (i + 1) * sizeof(long double);
		uint8_t d[2 * sizeof(long double)] = {0}, s[2 * sizeof(long double)] = {0};

		for (size_t at = 0; at < len; at += sizeof(long double))
			memset(d + at + 10, 0xa5, sizeof(long double) - 10);
		assert_int_equal(kit_atomic_apply(KIT_ATOMIC_BASE, dts[i], FI_SUM, d, s, NULL, NULL, 1), 0);
		for (size_t at = 0; at < len; at++)
			assert_int_equal(d[at], at % sizeof(long double) < 10 ? 0 : 0xa5);
	}
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic_valid__is_the_manuals_table),
		cmocka_unit_test(atomic_apply__as_c_on_the_type),
		cmocka_unit_test(atomic_apply__refuses_what_is_not_valid),
		cmocka_unit_test(atomic_apply__small_floats_by_hand),
		cmocka_unit_test(atomic_apply__moved_nans_keep_their_bits),
		cmocka_unit_test(atomic_apply__leaves_padding_alone),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
