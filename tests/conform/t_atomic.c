// SPDX-License-Identifier: BSD-2-Clause
// FI_ATOMIC: every datatype, operation and call against a reference of its own, order, exactly-once counting, limits.
#include "conform.h"

#include <complex.h>
#include <stdlib.h>

#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define DT_NUM 16  /* up to FI_UINT128, by number: older headers lack its name */
#define DT_INT128 14
#define DT_UINT128 15
#define OP_NUM 19
#define CNT_MAX 9

enum kind { BASE, FETCH, COMPARE };

/* --- the reference: one element at a time, by value ---------------------------------------------- */

static size_t dt_size(unsigned dt)
{
	static const size_t size[DT_NUM] = {1, 1, 2, 2, 4, 4, 8, 8, sizeof(float), sizeof(double), 2 * sizeof(float),
					    2 * sizeof(double), sizeof(long double), 2 * sizeof(long double), 16, 16};

	return size[dt];
}

static bool dt_is_int(unsigned dt)
{
	return dt <= FI_UINT64 || dt >= DT_INT128;
}

static bool dt_is_signed(unsigned dt)
{
	return dt == FI_INT8 || dt == FI_INT16 || dt == FI_INT32 || dt == FI_INT64 || dt == DT_INT128;
}

static unsigned __int128 load_int(unsigned dt, const void *p)
{
	unsigned __int128 v = 0;
	unsigned bits = (unsigned)dt_size(dt) * 8;

	memcpy(&v, p, dt_size(dt)); /* little-endian hosts, as everywhere in this fabric */
	if (dt_is_signed(dt) && bits < 128 && v >> (bits - 1))
		v |= ~(unsigned __int128)0 << bits;
	return v;
}

static long double _Complex load_float(unsigned dt, const void *p)
{
	float f[2] = {0};
	double d[2] = {0};
	long double l[2] = {0};

	switch (dt) {
	case FI_FLOAT: memcpy(f, p, sizeof(f[0])); return f[0];
	case FI_DOUBLE: memcpy(d, p, sizeof(d[0])); return d[0];
	case FI_LONG_DOUBLE: memcpy(l, p, sizeof(l[0])); return l[0];
	case FI_FLOAT_COMPLEX: memcpy(f, p, sizeof(f)); return f[0] + f[1] * (long double _Complex)I;
	case FI_DOUBLE_COMPLEX: memcpy(d, p, sizeof(d)); return d[0] + d[1] * (long double _Complex)I;
	default: memcpy(l, p, sizeof(l)); return l[0] + l[1] * (long double _Complex)I;
	}
}

static void store_float(unsigned dt, void *p, long double _Complex v)
{
	float f[2] = {(float)creall(v), (float)cimagl(v)};
	double d[2] = {(double)creall(v), (double)cimagl(v)};
	long double l[2] = {creall(v), cimagl(v)};

	if (dt == FI_FLOAT || dt == FI_FLOAT_COMPLEX)
		memcpy(p, f, dt_size(dt));
	else if (dt == FI_DOUBLE || dt == FI_DOUBLE_COMPLEX)
		memcpy(p, d, dt_size(dt));
	else
		memcpy(p, l, dt_size(dt));
}

static bool int_less(unsigned dt, unsigned __int128 a, unsigned __int128 b)
{
	return dt_is_signed(dt) ? (__int128)a < (__int128)b : a < b;
}

static unsigned __int128 ref_int(unsigned dt, unsigned op, unsigned __int128 a, unsigned __int128 b,
				 unsigned __int128 cmp)
{
	switch (op) {
	case FI_MIN: return int_less(dt, b, a) ? b : a;
	case FI_MAX: return int_less(dt, a, b) ? b : a;
	case FI_SUM: return a + b;
	case FI_PROD: return a * b;
	case FI_LOR: return a || b;
	case FI_LAND: return a && b;
	case FI_BOR: return a | b;
	case FI_BAND: return a & b;
	case FI_LXOR: return !a != !b;
	case FI_BXOR: return a ^ b;
	case FI_ATOMIC_WRITE: return b;
	case FI_CSWAP: return cmp == a ? b : a;
	case FI_CSWAP_NE: return cmp != a ? b : a;
	case FI_CSWAP_LE: return !int_less(dt, a, cmp) ? b : a;
	case FI_CSWAP_LT: return int_less(dt, cmp, a) ? b : a;
	case FI_CSWAP_GE: return !int_less(dt, cmp, a) ? b : a;
	case FI_CSWAP_GT: return int_less(dt, a, cmp) ? b : a;
	case FI_MSWAP: return (b & cmp) | (a & ~cmp);
	default: return a;
	}
}

static long double _Complex ref_float(unsigned op, long double _Complex a, long double _Complex b,
				      long double _Complex cmp)
{
	long double x = creall(a), y = creall(b), z = creall(cmp);

	switch (op) {
	case FI_MIN: return y < x ? b : a;
	case FI_MAX: return y > x ? b : a;
	case FI_SUM: return a + b;
	case FI_PROD: return a * b;
	case FI_LOR: return a != 0 || b != 0;
	case FI_LAND: return a != 0 && b != 0;
	case FI_LXOR: return (a != 0) != (b != 0);
	case FI_ATOMIC_WRITE: return b;
	case FI_CSWAP: return cmp == a ? b : a;
	case FI_CSWAP_NE: return cmp != a ? b : a;
	case FI_CSWAP_LE: return z <= x ? b : a;
	case FI_CSWAP_LT: return z < x ? b : a;
	case FI_CSWAP_GE: return z >= x ? b : a;
	case FI_CSWAP_GT: return z > x ? b : a;
	default: return a;
	}
}

static void ref(unsigned dt, unsigned op, void *dst, const void *src, const void *cmp)
{
	if (dt_is_int(dt)) {
		unsigned __int128 v = ref_int(dt, op, load_int(dt, dst), load_int(dt, src), load_int(dt, cmp));

		memcpy(dst, &v, dt_size(dt));
	} else {
		store_float(dt, dst, ref_float(op, load_float(dt, dst), load_float(dt, src), load_float(dt, cmp)));
	}
}

/* By value: a long double has padding. */
static bool same(unsigned dt, const void *a, const void *b, size_t cnt)
{
	for (size_t i = 0; i < cnt * dt_size(dt); i += dt_size(dt)) {
		const char *x = (const char *)a + i, *y = (const char *)b + i;

		if (dt_is_int(dt) ? memcmp(x, y, dt_size(dt)) != 0 : load_float(dt, x) != load_float(dt, y))
			return false;
	}
	return true;
}

/*
 * Small numbers, so that every operation on floats is exact and comparisons often meet equality; now and then any bits.
 */
static void draw(struct ct *c, unsigned dt, void *p, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		char *at = (char *)p + i * dt_size(dt);
		int v = (int)ct_below(c, 7) - 3, w = (int)ct_below(c, 5) - 2;

		if (!dt_is_int(dt)) {
			store_float(dt, at, v + w * (long double _Complex)I);
		} else if (ct_below(c, 4) == 0) {
			uint64_t bits[2] = {ct_rand(c), ct_rand(c)};

			memcpy(at, bits, dt_size(dt));
		} else {
			__int128 x = v;

			memcpy(at, &x, dt_size(dt));
		}
	}
}

/* --- one operation ------------------------------------------------------------------------------- */

struct atom {
	enum kind kind;
	unsigned form;  /* 0 plain, 1 v, 2 msg, 3 inject (BASE only) */
	enum fi_datatype dt;
	enum fi_op op;
	size_t cnt;
	void *src, *cmp, *res;
	void *desc, *cdesc, *rdesc;
	uint64_t raddr, rkey, flags;
	void *ctx;
};

/* Element counts of a vector call: two pieces. */
static size_t pieces(const struct atom *a, void *mem, struct fi_ioc ioc[2])
{
	size_t first = a->cnt / 2;

	if (!first) {
		ioc[0] = (struct fi_ioc){mem, a->cnt};
		return 1;
	}
	ioc[0] = (struct fi_ioc){mem, first};
	ioc[1] = (struct fi_ioc){(char *)mem + first * dt_size((unsigned)a->dt), a->cnt - first};
	return 2;
}

static ssize_t post_plain(struct ct *c, const struct atom *a)
{
	switch (a->kind) {
	case BASE:
		return fi_atomic(c->ep, a->src, a->cnt, a->desc, c->peer, a->raddr, a->rkey, a->dt, a->op, a->ctx);
	case FETCH:
		return fi_fetch_atomic(c->ep, a->src, a->cnt, a->desc, a->res, a->rdesc, c->peer, a->raddr, a->rkey,
				       a->dt, a->op, a->ctx);
	case COMPARE:
		return fi_compare_atomic(c->ep, a->src, a->cnt, a->desc, a->cmp, a->cdesc, a->res, a->rdesc, c->peer,
					 a->raddr, a->rkey, a->dt, a->op, a->ctx);
	}
	return -FI_EINVAL;
}

static ssize_t post_vector(struct ct *c, const struct atom *a)
{
	struct fi_ioc src[2], cmp[2], res[2];
	size_t n = pieces(a, a->src, src), k = pieces(a, a->cmp, cmp), m = pieces(a, a->res, res);
	void *desc[2] = {a->desc, a->desc}, *cdesc[2] = {a->cdesc, a->cdesc}, *rdesc[2] = {a->rdesc, a->rdesc};
	struct fi_rma_ioc rma = {a->raddr, a->cnt, a->rkey};
	struct fi_msg_atomic msg = {src, desc, n, c->peer, &rma, 1, a->dt, a->op, a->ctx, 0};

	if (a->form == 2)
		return a->kind == BASE	? fi_atomicmsg(c->ep, &msg, a->flags)
		       : a->kind == FETCH ? fi_fetch_atomicmsg(c->ep, &msg, res, rdesc, m, a->flags)
					  : fi_compare_atomicmsg(c->ep, &msg, cmp, cdesc, k, res, rdesc, m, a->flags);
	return a->kind == BASE	  ? fi_atomicv(c->ep, src, desc, n, c->peer, a->raddr, a->rkey, a->dt, a->op, a->ctx)
	       : a->kind == FETCH ? fi_fetch_atomicv(c->ep, src, desc, n, res, rdesc, m, c->peer, a->raddr, a->rkey,
						     a->dt, a->op, a->ctx)
				  : fi_compare_atomicv(c->ep, src, desc, n, cmp, cdesc, k, res, rdesc, m, c->peer,
						       a->raddr, a->rkey, a->dt, a->op, a->ctx);
}

static ssize_t post(struct ct *c, const struct atom *a)
{
	c->traffic = true;
	if (a->form == 3)
		return fi_inject_atomic(c->ep, a->src, a->cnt, c->peer, a->raddr, a->rkey, a->dt, a->op);
	return a->form ? post_vector(c, a) : post_plain(c, a);
}

static uint64_t done_flags(enum kind kind)
{
	return FI_ATOMIC | (kind == BASE ? FI_WRITE : FI_READ);
}

static void act(struct ct *c, const struct atom *a)
{
	ssize_t ret;

	do
		ret = post(c, a);
	while (ct_again(c, ret));
	if (a->form != 3)
		ct_tx(c, a->ctx, done_flags(a->kind));
}

static int valid(struct ct *c, enum kind kind, unsigned dt, unsigned op, size_t *cnt)
{
	enum fi_datatype d = (enum fi_datatype)dt;
	enum fi_op o = (enum fi_op)op;

	return kind == BASE ? fi_atomicvalid(c->ep, d, o, cnt)
	       : kind == FETCH ? fi_fetch_atomicvalid(c->ep, d, o, cnt) : fi_compare_atomicvalid(c->ep, d, o, cnt);
}

/* --- every valid pair, in every form ------------------------------------------------------------- */

/* An inject tells nobody when it is done: a fetch behind it, ordered by ATOMIC_RAW, does. */
static void settle(struct ct *c, const struct atom *inject)
{
	uint64_t none, now;
	struct atom a = {.kind = FETCH, .dt = FI_UINT64, .op = FI_ATOMIC_READ, .cnt = 1, .src = &none, .res = &now,
			 .raddr = inject->raddr, .rkey = inject->rkey, .ctx = inject->ctx};

	act(c, &a);
}

/*
 * The region begins 8 bytes behind a multiple of 64; adapters may want natural alignment, which is 16 for 128-bit
 * integers.
 */
static size_t target_off(unsigned dt)
{
	return dt >= DT_INT128 ? 8 : 0;
}

/* Both ranks draw the same numbers, so rank 1 knows what its memory must become and rank 0 what it must be told. */
static void pair(struct ct *c, struct atom *a, struct ct_buf *b, struct ct_buf mem[3])
{
	char want[CNT_MAX * 32], old[CNT_MAX * 32];
	unsigned dt = (unsigned)a->dt, op = (unsigned)a->op;
	struct ct tmp = {.rng = c->seed ^ (dt * 100 + op * 10 + a->form)};
	uint8_t *at = b->mem + target_off(dt);
	size_t es = dt_size(dt);

	draw(&tmp, dt, old, a->cnt);
	draw(&tmp, dt, mem[0].mem, a->cnt);
	draw(&tmp, dt, mem[1].mem, a->cnt);
	memcpy(want, old, a->cnt * es);
	for (size_t i = 0; i < a->cnt; i++)
		ref(dt, op, want + i * es, mem[0].mem + i * es, mem[1].mem + i * es);
	if (c->rank)
		memcpy(at, old, a->cnt * es);
	ct_adapter_sync(c);
	ct_barrier(c);
	if (c->rank == 0) {
		act(c, a);
		if (a->form == 3)
			settle(c, a);
		if (a->kind != BASE)
			CHECK(same(dt, mem[2].mem, old, a->cnt), "datatype %u op %u form %u: the old value is wrong",
			      dt, op, a->form);
	}
	ct_barrier(c);
	ct_adapter_sync(c);
	CHECK(!c->rank || same(dt, at, want, a->cnt), "datatype %u op %u form %u count %zu: the new value is wrong", dt,
	      op, a->form, a->cnt);
	ct_barrier(c);
}

static void all_pairs(struct ct *c, enum kind kind, unsigned forms)
{
	struct ct_buf b, mem[3];
	struct fi_rma_iov at;
	unsigned tested = 0;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	c->want.msg_order = FI_ORDER_ATOMIC_RAW;
	ct_open(c);
	ct_buf(c, &b, 1024, 8, ACCESS);
	for (unsigned i = 0; i < 3; i++)
		ct_buf(c, &mem[i], 1024, i * 4, 0);
	ct_share(c, &b, &at);
	for (unsigned dt = 0; dt < DT_NUM; dt++)
		for (unsigned op = 0; op < OP_NUM; op++)
			for (unsigned form = 0; form < forms; form++) {
				struct atom a = {.kind = kind, .form = form, .dt = (enum fi_datatype)dt,
						 .op = (enum fi_op)op, .src = mem[0].mem, .cmp = mem[1].mem,
						 .res = mem[2].mem, .desc = mem[0].desc, .cdesc = mem[1].desc,
						 .rdesc = mem[2].desc, .rkey = at.key,
						 .raddr = at.addr + target_off(dt), .flags = FI_DELIVERY_COMPLETE,
						 .ctx = &c->ctx[op]};
				size_t max = 0;

				if (valid(c, kind, dt, op, &max))
					continue;
				CHECK(max >= 1, "a valid pair with count %zu", max);
				if (form == 3) /* as much as fits what may be injected */
					max = c->info->tx_attr->inject_size / dt_size(dt) < max
						      ? c->info->tx_attr->inject_size / dt_size(dt)
						      : max;
				if (!max)
					continue;
				a.cnt = 1 + (dt + op + form) % (max < CNT_MAX ? max : CNT_MAX);
				pair(c, &a, &b, mem);
				tested++;
			}
	CHECK(tested >= 50, "only %u pairs are valid", tested);
	for (unsigned i = 0; i < 3; i++)
		ct_buf_free(c, &mem[i]);
	ct_buf_free(c, &b);
	ct_close(c);
}

static void atomic_base(struct ct *c)
{
	all_pairs(c, BASE, 4);
}

static void atomic_fetch(struct ct *c)
{
	all_pairs(c, FETCH, 3);
}

static void atomic_compare(struct ct *c)
{
	all_pairs(c, COMPARE, 3);
}

/* --- validity: fi_atomic(3)'s table, and that invalid pairs are refused by the calls too --------- */

static bool may_be_valid(enum kind kind, unsigned dt, unsigned op)
{
	bool complex_dt = dt == FI_FLOAT_COMPLEX || dt == FI_DOUBLE_COMPLEX || dt == FI_LONG_DOUBLE_COMPLEX;
	bool bits = op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP;
	bool ordered = op == FI_MIN || op == FI_MAX || (op >= FI_CSWAP_LE && op <= FI_CSWAP_GT);
	bool in_kind = kind == COMPARE ? op >= FI_CSWAP && op <= FI_MSWAP
				       : op <= FI_ATOMIC_WRITE && (kind == FETCH || op != FI_ATOMIC_READ);

	return in_kind && !(bits && !dt_is_int(dt)) && !(ordered && complex_dt);
}

static void atomic_valid(struct ct *c)
{
	uint64_t mem[4] = {0};
	size_t cnt;

	ct_open(c);
	for (int kind = BASE; kind <= COMPARE; kind++)
		for (unsigned dt = 0; dt < 30; dt++)
			for (unsigned op = 0; op < 30; op++) {
				int ret = valid(c, (enum kind)kind, dt, op, &cnt);
				bool may = dt < DT_NUM && op < OP_NUM && may_be_valid((enum kind)kind, dt, op);

				CHECK(dt >= DT_NUM || op >= OP_NUM || ret || may,
				      "kind %d: datatype %u op %u is called valid", kind, dt, op);
				CHECK(!ret || ret == -FI_EOPNOTSUPP || ret == -FI_EINVAL, "%s", ct_err(ret));
				if (c->p->no_atomic_ops >> op & 1 && dt < DT_NUM)
					RET(-FI_EOPNOTSUPP, ret);
				else if (dt <= FI_UINT64 && may)
					CHECK(!ret, "kind %d: integer datatype %u op %u: %s", kind, dt, op,
					      ct_err(ret));
				if (ret && kind == BASE && dt < DT_NUM) {
					ssize_t r = fi_atomic(c->ep, mem, 1, NULL, c->peer, (uintptr_t)mem, 1,
							      (enum fi_datatype)dt, (enum fi_op)op, NULL);

					CHECK(r < 0 && r != -FI_EAGAIN, "datatype %u op %u: %zd", dt, op, r);
				}
			}
	ct_close(c);
}

static void atomic_query(struct ct *c)
{
	static const uint64_t flag[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};

	ct_open(c);
	for (int kind = BASE; kind <= COMPARE; kind++)
		for (unsigned dt = 0; dt < DT_NUM; dt++)
			for (unsigned op = 0; op < OP_NUM; op++) {
				struct fi_atomic_attr attr = {0};
				size_t cnt = 0;
				int ep = valid(c, (enum kind)kind, dt, op, &cnt);
				int ret = fi_query_atomic(c->domain, (enum fi_datatype)dt, (enum fi_op)op, &attr,
							  flag[kind]);

				CHECK(!ret == !ep, "kind %d datatype %u op %u: domain says %d, endpoint %d", kind, dt,
				      op, ret, ep);
				if (!ret)
					CHECK(attr.count == cnt && attr.size == dt_size(dt),
					      "count %zu of %zu, size %zu", attr.count, cnt, attr.size);
			}
	ct_close(c);
}

/* --- the largest count; one more is refused ------------------------------------------------------ */

static void atomic_limits(struct ct *c)
{
	struct ct_buf b, mem[3];
	struct fi_rma_iov at;
	size_t max[3];

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	c->want.msg_order = 0;
	ct_open(c);
	for (int kind = BASE; kind <= COMPARE; kind++)
		OK(valid(c, (enum kind)kind, FI_UINT64, kind == COMPARE ? FI_CSWAP_NE : FI_SUM, &max[kind]));
	ct_buf(c, &b, max[0] * 8 + 8, 0, ACCESS);
	for (unsigned i = 0; i < 3; i++)
		ct_buf(c, &mem[i], max[0] * 8 + 8, 0, 0);
	ct_share(c, &b, &at);
	ct_barrier(c);
	for (int kind = BASE; kind <= COMPARE && !c->rank; kind++) {
		struct atom a = {.kind = (enum kind)kind, .dt = FI_UINT64, .op = kind == COMPARE ? FI_CSWAP_NE : FI_SUM,
				 .cnt = max[kind], .src = mem[0].mem, .cmp = mem[1].mem, .res = mem[2].mem,
				 .desc = mem[0].desc, .cdesc = mem[1].desc, .rdesc = mem[2].desc, .raddr = at.addr,
				 .rkey = at.key, .ctx = &c->ctx[0]};
		uint64_t *src = (uint64_t *)(void *)mem[0].mem, *cmp = (uint64_t *)(void *)mem[1].mem;
		ssize_t ret;

		for (size_t i = 0; i < max[kind]; i++)
			src[i] = i, cmp[i] = ~0ULL;
		act(c, &a);
		a.cnt++;
		ret = post(c, &a);
		CHECK(ret == -FI_EINVAL || ret == -FI_EMSGSIZE, "count %zu, one too many: %zd", a.cnt, ret);
	}
	ct_barrier(c);
	ct_adapter_sync(c);
	for (size_t i = 0; c->rank && i < max[2]; i++)
		CHECK(((uint64_t *)(void *)b.mem)[i] == i, "element %zu after sum, fetching sum and swap is %llu", i,
		      (unsigned long long)((uint64_t *)(void *)b.mem)[i]);
	ct_buf_free(c, &b);
	for (unsigned i = 0; i < 3; i++)
		ct_buf_free(c, &mem[i]);
	ct_close(c);
}

/* --- exactly once, in order ---------------------------------------------------------------------- */

#define ADDS 3000

/*
 * Both ranks add to both counters at once, many operations in flight; the sums are exact and fetched values never
 * repeat.
 */
static void atomic_count(struct ct *c)
{
	uint64_t one = 1, sum, seen = 0;
	struct ct_buf b, res;
	struct fi_rma_iov at;
	unsigned posted = 0, done = 0;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, 64, 0, ACCESS);
	ct_buf(c, &res, 64 * 8, 0, 0);
	ct_share(c, &b, &at);
	ct_barrier(c);
	while (done < ADDS) {
		unsigned s = posted % 64;
		bool fetch = posted % 3 == 0;

		if (posted < ADDS && posted - done < 64) {
			ssize_t ret = fetch ? fi_fetch_atomic(c->ep, &one, 1, NULL, res.mem + s * 8, res.desc, c->peer,
							      at.addr, at.key, FI_UINT64, FI_SUM, &c->ctx[s])
					    : fi_atomic(c->ep, &one, 1, NULL, c->peer, at.addr, at.key, FI_UINT64,
							FI_SUM, &c->ctx[s]);

			c->traffic = true;
			if (ct_again(c, ret))
				continue;
			posted++;
			continue;
		}
		ct_comp(c, c->txcq);
		done++;
	}
	ct_barrier(c);
	ct_adapter_sync(c);
	memcpy(&sum, b.mem, 8);
	CHECK(sum == ADDS, "%llu of %u additions took place", (unsigned long long)sum, ADDS);
	memcpy(&seen, res.mem, 8);
	CHECK(seen < ADDS, "fetched %llu", (unsigned long long)seen);
	ct_buf_free(c, &b);
	ct_buf_free(c, &res);
	ct_close(c);
}

/*
 * ATOMIC_WAW and RAW: of many writes in flight the last wins, and a fetch posted behind a write sees it or a later one.
 */
static void atomic_order(struct ct *c)
{
	uint64_t v[200], got[200];
	struct fi_rma_iov at;
	struct ct_buf b;

	c->want.msg_order = FI_ORDER_ATOMIC_WAW | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_RAR;
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	CHECK(!(c->p->has & CT_HAS_ATOMIC_SIZES) ||
		      (c->info->ep_attr->max_order_waw_size >= 8 && c->info->ep_attr->max_order_raw_size >= 8 &&
		       c->info->ep_attr->max_order_war_size >= 8),
	      "order asked for but none for 8 bytes");
	ct_buf(c, &b, 8, 0, ACCESS);
	ct_share(c, &b, &at);
	ct_barrier(c);
	if (c->rank == 0) {
		c->traffic = true;
		for (unsigned i = 0; i < 200; i++) {
			v[i] = i + 1;
			while (ct_again(c, fi_atomic(c->ep, &v[i], 1, NULL, c->peer, at.addr, at.key, FI_UINT64,
						     FI_ATOMIC_WRITE, NULL)))
				;
			while (ct_again(c, fi_fetch_atomic(c->ep, &v[i], 1, NULL, &got[i], NULL, c->peer, at.addr,
							   at.key, FI_UINT64, FI_ATOMIC_READ, NULL)))
				;
		}
		for (unsigned i = 0; i < 400; i++)
			ct_comp(c, c->txcq);
		for (unsigned i = 0; i < 200; i++)
			CHECK(got[i] == i + 1, "fetch %u behind write %u saw %llu", i, i + 1,
			      (unsigned long long)got[i]);
	}
	ct_barrier(c);
	ct_adapter_sync(c);
	CHECK(!c->rank || *(uint64_t *)(void *)b.mem == 200, "the last write did not win: %llu",
	      (unsigned long long)*(uint64_t *)(void *)b.mem);
	ct_buf_free(c, &b);
	ct_close(c);
}

static void atomic_self(struct ct *c)
{
	uint64_t two = 2, old = 9, cmp = 2;
	struct ct_buf b;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, 8, 0, ACCESS);
	while (ct_again(c, fi_atomic(c->ep, &two, 1, NULL, c->self, b.base, b.key, FI_UINT64, FI_SUM, &c->ctx[0])))
		;
	ct_tx(c, &c->ctx[0], done_flags(BASE));
	while (ct_again(c, fi_compare_atomic(c->ep, &old, 1, NULL, &cmp, NULL, &two, NULL, c->self, b.base, b.key,
					     FI_UINT64, FI_CSWAP, &c->ctx[1])))
		;
	ct_tx(c, &c->ctx[1], done_flags(COMPARE));
	CHECK(two == 2 && *(uint64_t *)(void *)b.mem == 9, "old %llu, new %llu", (unsigned long long)two,
	      (unsigned long long)*(uint64_t *)(void *)b.mem);
	ct_buf_free(c, &b);
	ct_close(c);
}

static void must_fail(struct ct *c, const struct atom *a, const char *why)
{
	struct fi_cq_err_entry e;
	ssize_t ret;

	while ((ret = post(c, a)) == -FI_EAGAIN)
		ct_progress(c);
	if (ret == -FI_EKEYREJECTED) /* no key at all can look so */
		return;
	OK(ret);
	e = ct_comp_err(c, c->txcq, done_flags(a->kind));
	CHECK(e.op_context == a->ctx, "%s: context of another operation", why);
	CHECK(e.err == FI_EINVAL || e.err == FI_EACCES || e.err == FI_EKEYREJECTED || e.err == FI_EIO ||
		      e.err == FI_EREMOTEIO || e.err == FI_EPERM,
	      "%s: kind %d: error %d (%s)", why, a->kind, e.err, fi_strerror(e.err));
}

/* Foreign and stale keys, and elements outside: told to the initiator, and no memory changes. */
static void atomic_refused(struct ct *c)
{
	uint64_t v[4] = {1, 2, 3, 4};
	struct fi_rma_iov at, stale;
	struct ct_buf b, old;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, 64, 0, ACCESS);
	ct_buf(c, &old, 64, 0, ACCESS);
	ct_fill(b.mem, 64, 5);
	ct_fill(old.mem, 64, 6);
	ct_share(c, &b, &at);
	ct_share(c, &old, &stale);
	OK(fi_close(&old.mr->fid));
	old.mr = NULL;
	ct_barrier(c);
	for (int kind = BASE; c->rank == 0 && kind <= COMPARE; kind++) {
		struct atom good = {.kind = (enum kind)kind,
				    .dt = FI_UINT64,
				    .op = kind == COMPARE ? FI_CSWAP : FI_SUM,
				    .cnt = 1,
				    .src = &v[0],
				    .cmp = &v[1],
				    .res = &v[2],
				    .raddr = at.addr,
				    .rkey = at.key,
				    .ctx = &c->ctx[kind]},
			    bad;

		bad = good, bad.rkey = at.key ^ 0x5a5a00;
		must_fail(c, &bad, "foreign key");
		bad = good, bad.rkey = stale.key, bad.raddr = stale.addr;
		must_fail(c, &bad, "stale key");
		bad = good, bad.raddr = at.addr + 64;
		must_fail(c, &bad, "behind the end");
		bad = good, bad.raddr = at.addr - 8;
		must_fail(c, &bad, "before the start");
		bad = good, bad.raddr = UINT64_MAX - 7;
		must_fail(c, &bad, "range that wraps");
		good.op = kind == COMPARE ? FI_CSWAP : FI_ATOMIC_READ;
		if (kind != BASE)
			act(c, &good); /* and the endpoint works on; no element is 2 */
	}
	ct_barrier(c);
	ct_adapter_sync(c);
	ct_verify(c, b.mem, 64, 5, "the region");
	ct_verify(c, old.mem, 64, 6, "what was a region");
	ct_buf_free(c, &b);
	ct_buf_free(c, &old);
	ct_close(c);
}

#define CAPS "FI_ATOMIC FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE"
#define ORDERS                                                                                                         \
	" order:FI_ORDER_ATOMIC_WAW order:FI_ORDER_ATOMIC_RAW order:FI_ORDER_ATOMIC_WAR order:FI_ORDER_ATOMIC_RAR"
const struct ct_test atomic_tests[] = {
	{"atomic_base", atomic_base, FI_ATOMIC, 0, CT_GENS | CT_LOSSY, CAPS},
	{"atomic_fetch", atomic_fetch, FI_ATOMIC, 0, CT_GENS | CT_LOSSY, CAPS},
	{"atomic_compare", atomic_compare, FI_ATOMIC, 0, CT_GENS | CT_LOSSY, CAPS},
	{"atomic_valid", atomic_valid, FI_ATOMIC, 0, CT_SOLO, NULL},
	{"atomic_query", atomic_query, FI_ATOMIC, 0, CT_SOLO, NULL},
	{"atomic_limits", atomic_limits, FI_ATOMIC, 0, CT_GENS,
	 "max_order_raw_size max_order_war_size max_order_waw_size"},
	{"atomic_count", atomic_count, FI_ATOMIC, 0, CT_GENS | CT_LOSSY, CAPS},
	{"atomic_order", atomic_order, FI_ATOMIC, 0, CT_GENS | CT_LOSSY,
	 CAPS ORDERS " max_order_raw_size max_order_war_size max_order_waw_size"},
	{"atomic_refused", atomic_refused, FI_ATOMIC, 0, CT_GENS | CT_LOSSY, CAPS},
	{"atomic_self", atomic_self, FI_ATOMIC, 0, CT_SOLO | CT_ANY_PATH, CAPS},
	{0},
};
