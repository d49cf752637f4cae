// SPDX-License-Identifier: BSD-2-Clause
// Every datatype x operation that libfabric defines. Source: fi_atomic(3).
#include "kit/atomic.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <string.h>

/*
 * Theory of operation
 *
 * An element is loaded into a wide value of its class, one operation is done there, and the result is stored back in
 * the element's own format. What an operation does is said once for all classes: which operand it chooses, or which
 * result it has. Integers: 128 bits. Reals: double, which holds every narrower float, and the sum or product of two of
 * them exactly enough to round once; long double by itself. Complex likewise, but for products of float complex.
 * Operations on reals that only choose between target and source move the chosen bits as they are: a NaN keeps its
 * payload.
 */

typedef unsigned __int128 u128;
typedef __int128 i128;

enum class { C_NONE, C_SIGNED, C_UNSIGNED, C_REAL, C_LREAL, C_COMPLEX, C_LCOMPLEX };
enum { DT_INT128 = 14, DT_UINT128, DT_FLOAT16, DT_BFLOAT16, DT_FLOAT8_E4M3, DT_FLOAT8_E5M2 };
enum { OP_DIFF = 19 };

static const struct dt {
	enum class cls;
	uint8_t size;
} dts[KIT_DT_NUM] = {
	[FI_INT8] = {C_SIGNED, 1},
	[FI_UINT8] = {C_UNSIGNED, 1},
	[FI_INT16] = {C_SIGNED, 2},
	[FI_UINT16] = {C_UNSIGNED, 2},
	[FI_INT32] = {C_SIGNED, 4},
	[FI_UINT32] = {C_UNSIGNED, 4},
	[FI_INT64] = {C_SIGNED, 8},
	[FI_UINT64] = {C_UNSIGNED, 8},
	[FI_FLOAT] = {C_REAL, sizeof(float)},
	[FI_DOUBLE] = {C_REAL, sizeof(double)},
	[FI_FLOAT_COMPLEX] = {C_COMPLEX, sizeof(float complex)},
	[FI_DOUBLE_COMPLEX] = {C_COMPLEX, sizeof(double complex)},
	[FI_LONG_DOUBLE] = {C_LREAL, sizeof(long double)},
	[FI_LONG_DOUBLE_COMPLEX] = {C_LCOMPLEX, sizeof(long double complex)},
	[DT_INT128] = {C_SIGNED, 16},
	[DT_UINT128] = {C_UNSIGNED, 16},
	[DT_FLOAT16] = {C_REAL, 2},
	[DT_BFLOAT16] = {C_REAL, 2},
	[DT_FLOAT8_E4M3] = {C_REAL, 1},
	[DT_FLOAT8_E5M2] = {C_REAL, 1},
};

size_t kit_dt_size(unsigned dt)
{
	return dt < KIT_DT_NUM ? dts[dt].size : 0;
}

/* Which classes an operation exists for. */
static bool class_has(enum class cls, unsigned op)
{
	bool is_int = cls == C_SIGNED || cls == C_UNSIGNED, is_complex = cls == C_COMPLEX || cls == C_LCOMPLEX;

	switch (op) {
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR:
	case FI_MSWAP:
		return is_int;
	case FI_MIN:
	case FI_MAX:
	case FI_CSWAP_LE:
	case FI_CSWAP_LT:
	case FI_CSWAP_GE:
	case FI_CSWAP_GT:
		return !is_complex;
	default:
		return true;
	}
}

int kit_atomic_valid(enum kit_atomic_kind kind, unsigned dt, unsigned op)
{
	bool is_compare = op >= FI_CSWAP && op <= FI_MSWAP;

	if (dt >= KIT_DT_NUM || op >= KIT_OP_NUM)
		return -FI_EINVAL;
	if (is_compare != (kind == KIT_ATOMIC_COMPARE) || (op == FI_ATOMIC_READ && kind == KIT_ATOMIC_BASE))
		return -FI_EOPNOTSUPP;
	return class_has(dts[dt].cls, op) ? 0 : -FI_EOPNOTSUPP;
}

/* --- what all types have in common ------------------------------------------------------------------------- */

enum result { R_SUM, R_PROD, R_DIFF, R_ZERO, R_ONE };

/* Which result @op has, when target and source are true (not 0) or false. */
static enum result result_of(unsigned op, bool d, bool s)
{
	switch (op) {
	case FI_SUM:
		return R_SUM;
	case FI_PROD:
		return R_PROD;
	case OP_DIFF:
		return R_DIFF;
	case FI_LOR:
		return d || s ? R_ONE : R_ZERO;
	case FI_LAND:
		return d && s ? R_ONE : R_ZERO;
	default: /* FI_LXOR */
		return d != s ? R_ONE : R_ZERO;
	}
}

static bool is_choice(unsigned op)
{
	return op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP && op <= FI_CSWAP_GT);
}

/*
 * Does the source replace the target? The comparisons are of compare (min, max: source) with target; all false:
 * unordered.
 */
static bool is_source_chosen(unsigned op, bool eq, bool less, bool greater)
{
	switch (op) {
	case FI_MIN:
		return less;
	case FI_MAX:
		return greater;
	case FI_CSWAP:
		return eq;
	case FI_CSWAP_NE:
		return !eq;
	case FI_CSWAP_LE:
		return less || eq;
	case FI_CSWAP_LT:
		return less;
	case FI_CSWAP_GE:
		return greater || eq;
	case FI_CSWAP_GT:
		return greater;
	}
	return false;
}

/* --- integers ------------------------------------------------------------------------------------------ */

static u128 int_load(const void *p, size_t size, bool is_signed)
{
	u128 v = 0;

	memcpy(&v, p, size); /* little-endian hosts, as EFA's are */
	if (is_signed && size < sizeof(v) && (v >> (size * 8 - 1)) & 1)
		v |= ~(u128)0 << (size * 8);
	return v;
}

static bool int_less(u128 a, u128 b, bool is_signed)
{
	return is_signed ? (i128)a < (i128)b : a < b;
}

static u128 int_op(unsigned op, u128 d, u128 s, u128 c)
{
	switch (op) {
	case FI_BOR:
		return d | s;
	case FI_BAND:
		return d & s;
	case FI_BXOR:
		return d ^ s;
	case FI_MSWAP:
		return (s & c) | (d & ~c);
	}
	switch (result_of(op, d, s)) {
	case R_SUM:
		return d + s;
	case R_PROD:
		return d * s;
	case R_DIFF:
		return d - s;
	case R_ONE:
		return 1;
	case R_ZERO:
		break;
	}
	return 0;
}

/* --- small floats ---------------------------------------------------------------------------------------- */

struct small_float {
	uint8_t exp_bits, man_bits;
	bool has_inf; /* E4M3 has none: all ones is NaN only */
};

static const struct small_float *small_of(unsigned dt)
{
	static const struct small_float f16 = {5, 10, true}, bf16 = {8, 7, true}, e4m3 = {4, 3, false},
					e5m2 = {5, 2, true};

	return dt == DT_FLOAT16 ? &f16 : dt == DT_BFLOAT16 ? &bf16 : dt == DT_FLOAT8_E4M3 ? &e4m3 : &e5m2;
}

static double small_load(const struct small_float *f, unsigned bits)
{
	int bias = (1 << (f->exp_bits - 1)) - 1, exp_max = (1 << f->exp_bits) - 1;
	unsigned man = bits & ((1u << f->man_bits) - 1);
	int exp = (int)(bits >> f->man_bits) & exp_max;
	double sign = bits >> (f->exp_bits + f->man_bits) & 1 ? -1.0 : 1.0;

	if (f->has_inf && exp == exp_max)
		return man ? NAN : sign * INFINITY;
	if (!f->has_inf && exp == exp_max && man == (1u << f->man_bits) - 1)
		return NAN;
	if (!exp)
		return sign * ldexp(man, 1 - bias - f->man_bits);
	return sign * ldexp(man + (1u << f->man_bits), exp - bias - f->man_bits);
}

/* Rounds to nearest, ties to even; above the range: infinity, or NaN where the format has none. */
static unsigned small_store(const struct small_float *f, double v)
{
	int bias = (1 << (f->exp_bits - 1)) - 1, exp_max = (1 << f->exp_bits) - 1, exp;
	unsigned sign = (unsigned)!!signbit(v) << (f->exp_bits + f->man_bits);
	unsigned all_man = (1u << f->man_bits) - 1;
	unsigned nan = ((unsigned)exp_max << f->man_bits) | (f->has_inf ? 1u << (f->man_bits - 1) : all_man);
	unsigned over = f->has_inf ? (unsigned)exp_max << f->man_bits : nan;
	unsigned limit = f->has_inf ? over : nan;
	double man;
	unsigned bits;

	if (isnan(v))
		return sign | nan;
	if (isinf(v))
		return sign | over;
	if (v == 0)
		return sign;
	frexp(v, &exp); /* |v| = m * 2^exp, m in [0.5, 1) */
	exp = MAX(exp - 1, 1 - bias);
	man = nearbyint(ldexp(fabs(v), f->man_bits - exp));
	/* man counts units of 2^(exp - man_bits); a carry moves into the exponent by itself */
	bits = (unsigned)(exp + bias - 1) * (1u << f->man_bits) + (unsigned)man;
	return sign | (bits >= limit ? over : bits);
}

/* --- reals ------------------------------------------------------------------------------------------------- */

static double real_load(const void *p, unsigned dt)
{
	uint16_t bits = 0;
	double d;
	float f;

	if (dt == FI_DOUBLE) {
		memcpy(&d, p, sizeof(d));
		return d;
	}
	if (dt == FI_FLOAT) {
		memcpy(&f, p, sizeof(f));
		return f;
	}
	memcpy(&bits, p, dts[dt].size);
	return small_load(small_of(dt), bits);
}

static void real_store(void *p, unsigned dt, double v)
{
	float f = (float)v;
	uint16_t bits;

	if (dt == FI_DOUBLE) {
		memcpy(p, &v, sizeof(v));
	} else if (dt == FI_FLOAT) {
		memcpy(p, &f, sizeof(f));
	} else {
		bits = (uint16_t)small_store(small_of(dt), v);
		memcpy(p, &bits, dts[dt].size);
	}
}

/*
 * What an operation makes of target @d and source @s, in the arithmetic of their type. Only the chosen expression is
 * evaluated: an overflow that nobody asked for could trap.
 */
static double real_op(enum result r, double d, double s)
{
	return r == R_SUM ? d + s : r == R_PROD ? d * s : r == R_DIFF ? d - s : r == R_ONE;
}

static long double lreal_op(enum result r, long double d, long double s)
{
	return r == R_SUM ? d + s : r == R_PROD ? d * s : r == R_DIFF ? d - s : r == R_ONE;
}

static double complex complex_op(enum result r, double complex d, double complex s)
{
	return r == R_SUM ? d + s : r == R_PROD ? d * s : r == R_DIFF ? d - s : r == R_ONE;
}

static long double complex lcomplex_op(enum result r, long double complex d, long double complex s)
{
	return r == R_SUM ? d + s : r == R_PROD ? d * s : r == R_DIFF ? d - s : r == R_ONE;
}

static double complex complex_load(const void *p, unsigned dt)
{
	double complex d;
	float complex f;

	if (dt == FI_DOUBLE_COMPLEX) {
		memcpy(&d, p, sizeof(d));
		return d;
	}
	memcpy(&f, p, sizeof(f));
	return f;
}

/* --- one element --------------------------------------------------------------------------------------------- */

static void apply_int(unsigned dt, unsigned op, void *d, const void *s, const void *c)
{
	bool is_signed = dts[dt].cls == C_SIGNED;
	size_t size = dts[dt].size;
	u128 dv = int_load(d, size, is_signed), sv = int_load(s, size, is_signed);
	u128 x = c ? int_load(c, size, is_signed) : sv;

	if (is_choice(op)) {
		if (is_source_chosen(op, x == dv, int_less(x, dv, is_signed), int_less(dv, x, is_signed)))
			memcpy(d, s, size);
		return;
	}
	dv = int_op(op, dv, sv, x);
	memcpy(d, &dv, size);
}

static void apply_real(unsigned dt, unsigned op, void *d, const void *s, const void *c)
{
	double dv = real_load(d, dt), x = real_load(c ? c : s, dt);

	if (!is_choice(op))
		real_store(d, dt, real_op(result_of(op, dv != 0, x != 0), dv, x));
	else if (is_source_chosen(op, x == dv, x < dv, x > dv))
		memcpy(d, s, dts[dt].size);
}

/*
 * Where a long double has padding (x86: 6 of 16 bytes), that is not stored: it would be bytes of our stack, which a
 * fetch shows to a peer.
 */
#define LREAL_LEN (LDBL_MANT_DIG == 64 ? 10 : sizeof(long double))

static void apply_lreal(unsigned op, void *d, const void *s, const void *c)
{
	long double dv, x;

	memcpy(&dv, d, sizeof(dv));
	memcpy(&x, c ? c : s, sizeof(x));
	if (!is_choice(op)) {
		dv = lreal_op(result_of(op, dv != 0, x != 0), dv, x);
		memcpy(d, &dv, LREAL_LEN);
	} else if (is_source_chosen(op, x == dv, x < dv, x > dv)) {
		memcpy(d, s, sizeof(dv));
	}
}

/* As C multiplies it: in double, what overflows in float would not. */
static void apply_float_complex_prod(void *d, const void *s)
{
	float complex dv, sv;

	memcpy(&dv, d, sizeof(dv));
	memcpy(&sv, s, sizeof(sv));
	dv *= sv;
	memcpy(d, &dv, sizeof(dv));
}

static void apply_complex(unsigned dt, unsigned op, void *d, const void *s, const void *c)
{
	double complex v = complex_load(d, dt), x = complex_load(c ? c : s, dt);
	float complex f;

	if (is_choice(op)) {
		if (is_source_chosen(op, x == v, false, false))
			memcpy(d, s, dts[dt].size);
		return;
	}
	v = complex_op(result_of(op, v != 0, x != 0), v, x);
	f = (float complex)v;
	if (dt == FI_DOUBLE_COMPLEX)
		memcpy(d, &v, sizeof(v));
	else
		memcpy(d, &f, sizeof(f));
}

static void apply_lcomplex(unsigned op, void *d, const void *s, const void *c)
{
	long double complex dv, x;

	memcpy(&dv, d, sizeof(dv));
	memcpy(&x, c ? c : s, sizeof(x));
	if (!is_choice(op)) {
		dv = lcomplex_op(result_of(op, dv != 0, x != 0), dv, x);
		memcpy(d, &dv, LREAL_LEN);
		memcpy((char *)d + sizeof(long double), (char *)&dv + sizeof(long double), LREAL_LEN);
	} else if (is_source_chosen(op, x == dv, false, false)) {
		memcpy(d, s, sizeof(dv));
	}
}

static void apply_one(unsigned dt, unsigned op, void *d, const void *s, const void *c)
{
	if (op == FI_ATOMIC_READ)
		return;
	if (op == FI_ATOMIC_WRITE) {
		memcpy(d, s, dts[dt].size); /* bit for bit, NaNs included */
		return;
	}
	switch (dts[dt].cls) {
	case C_SIGNED:
	case C_UNSIGNED:
		apply_int(dt, op, d, s, c);
		return;
	case C_REAL:
		apply_real(dt, op, d, s, c);
		return;
	case C_LREAL:
		apply_lreal(op, d, s, c);
		return;
	case C_COMPLEX:
		if (dt == FI_FLOAT_COMPLEX && op == FI_PROD)
			apply_float_complex_prod(d, s);
		else
			apply_complex(dt, op, d, s, c);
		return;
	case C_LCOMPLEX:
		apply_lcomplex(op, d, s, c);
		return;
	case C_NONE:
		return;
	}
}

int kit_atomic_apply(enum kit_atomic_kind kind, unsigned dt, unsigned op, void *dst, const void *src, const void *cmp,
		     void *result, size_t count)
{
	int ret = kit_atomic_valid(kind, dt, op);
	size_t size = kit_dt_size(dt);

	if (ret)
		return ret;
	if (kind != KIT_ATOMIC_BASE)
		memcpy(result, dst, count * size);
	for (size_t i = 0; i < count; i++)
		apply_one(dt, op, (char *)dst + i * size, op != FI_ATOMIC_READ ? (const char *)src + i * size : NULL,
			  kind == KIT_ATOMIC_COMPARE ? (const char *)cmp + i * size : NULL);
	return 0;
}
