// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/atomic_call.c: what a provider is told of each call.
#include "unit.h"

#include <string.h>

#include "kit/atomic_call.h"

#define CTX ((void *)0x77)
static struct {
	unsigned calls;
	struct kit_atomic_req req;
	struct fi_msg_atomic msg;
	struct fi_rma_ioc rma;
	struct fi_ioc iov[2], cmp[2], res[2];
	struct fid_ep *fid;
} g_got;

static ssize_t got_op(struct fid_ep *fid, const struct kit_atomic_req *req)
{
	g_got.calls++;
	g_got.fid = fid;
	g_got.req = *req;
	g_got.msg = *req->msg;
	if (req->msg->rma_iov)
		g_got.rma = *req->msg->rma_iov;
	if (req->msg->iov_count)
		memcpy(g_got.iov, req->msg->msg_iov, req->msg->iov_count * sizeof(struct fi_ioc));
	if (req->cmp.iov_count)
		memcpy(g_got.cmp, req->cmp.msg_iov, req->cmp.iov_count * sizeof(struct fi_ioc));
	if (req->res.iov_count)
		memcpy(g_got.res, req->res.msg_iov, req->res.iov_count * sizeof(struct fi_ioc));
	return -FI_ENODATA;
}

static int got_valid(struct fid_ep *fid, enum kit_atomic_kind kind, enum fi_datatype dt, enum fi_op op, size_t *count)
{
	g_got.fid = fid;
	*count = (size_t)kind * 10000 + dt * 100u + op;
	return -FI_EDOMAIN;
}

static const struct kit_atomic_ops g_ops = KIT_ATOMIC_OPS(got_op, got_valid);
static struct fid_ep g_ep = {.atomic = (struct fi_ops_atomic *)&g_ops.ops};
static uint64_t g_a[2], g_b[2], g_c[2], g_d[2];
static struct fi_ioc g_iov[] = {{g_a, 2}, {g_b, 1}}, g_cmp[] = {{g_c, 3}}, g_res[] = {{g_d, 1}, {g_b, 2}};

/* The last call: a @kind made in @form, of @iov_cnt, @cmp_cnt and @res_cnt vectors. */
static void check(ssize_t ret, enum kit_atomic_kind kind, enum kit_atomic_form form, size_t iov_cnt, size_t cmp_cnt,
		  size_t res_cnt)
{
	assert_int_equal(ret, -FI_ENODATA);
	assert_int_equal(g_got.calls, 1);
	assert_ptr_equal(g_got.fid, &g_ep);
	assert_int_equal(g_got.req.kind, kind);
	assert_int_equal(g_got.req.form, form);
	assert_int_equal(g_got.req.flags, form == KIT_ATOMIC_BY_MSG ? FI_MORE : 0);
	assert_int_equal(g_got.msg.iov_count, iov_cnt);
	assert_int_equal(g_got.req.cmp.iov_count, cmp_cnt);
	assert_int_equal(g_got.req.res.iov_count, res_cnt);
	assert_ptr_equal(g_got.msg.context, form == KIT_ATOMIC_BY_INJECT ? NULL : CTX);
	if (form != KIT_ATOMIC_BY_MSG) {
		assert_int_equal(g_got.msg.addr, 5);
		assert_int_equal(g_got.msg.datatype, FI_UINT64);
		assert_int_equal(g_got.msg.rma_iov_count, 1);
		assert_int_equal(g_got.rma.addr, 0x1000);
		assert_int_equal(g_got.rma.key, 9);
	}
}

static int reset(void **state)
{
	(void)state;
	memset(&g_got, 0, sizeof(g_got));
	return 0;
}

static void check_buf(const struct fi_ioc *ioc, const void *buf, size_t count)
{
	assert_ptr_equal(ioc->addr, buf);
	assert_int_equal(ioc->count, count);
}

static void buffer__is_one_vector(void **state)
{
	const struct fi_ops_atomic *o = g_ep.atomic;

	check(o->write(&g_ep, g_a, 2, NULL, 5, 0x1000, 9, FI_UINT64, FI_SUM, CTX), KIT_ATOMIC_BASE, KIT_ATOMIC_BY_ARGS,
	      1, 0, 0);
	check_buf(g_got.iov, g_a, 2);
	assert_int_equal(g_got.rma.count, 2);
	assert_int_equal(g_got.msg.op, FI_SUM);
	reset(state);
	check(o->inject(&g_ep, g_b, 2, 5, 0x1000, 9, FI_UINT64, FI_MIN), KIT_ATOMIC_BASE, KIT_ATOMIC_BY_INJECT, 1, 0,
	      0);
	check_buf(g_got.iov, g_b, 2);
	assert_int_equal(g_got.rma.count, 2);
	assert_int_equal(g_got.msg.op, FI_MIN);
	reset(state);
	check(o->readwrite(&g_ep, g_a, 2, NULL, g_d, NULL, 5, 0x1000, 9, FI_UINT64, FI_SUM, CTX), KIT_ATOMIC_FETCH,
	      KIT_ATOMIC_BY_ARGS, 1, 0, 1);
	check_buf(g_got.iov, g_a, 2);
	check_buf(g_got.res, g_d, 2);
	assert_int_equal(g_got.rma.count, 2);
	reset(state);
	check(o->compwrite(&g_ep, g_a, 2, NULL, g_c, NULL, g_d, NULL, 5, 0x1000, 9, FI_UINT64, FI_CSWAP, CTX),
	      KIT_ATOMIC_COMPARE, KIT_ATOMIC_BY_ARGS, 1, 1, 1);
	check_buf(g_got.iov, g_a, 2);
	check_buf(g_got.cmp, g_c, 2);
	check_buf(g_got.res, g_d, 2);
	assert_int_equal(g_got.rma.count, 2);
}

static void vectors__as_many_elements_there(void **state)
{
	const struct fi_ops_atomic *o = g_ep.atomic;

	check(o->writev(&g_ep, g_iov, NULL, 2, 5, 0x1000, 9, FI_UINT64, FI_SUM, CTX), KIT_ATOMIC_BASE,
	      KIT_ATOMIC_BY_ARGS, 2, 0, 0);
	assert_int_equal(g_got.rma.count, 3);
	check_buf(&g_got.iov[1], g_b, 1);
	reset(state);
	check(o->readwritev(&g_ep, g_iov, NULL, 2, g_res, NULL, 2, 5, 0x1000, 9, FI_UINT64, FI_SUM, CTX),
	      KIT_ATOMIC_FETCH, KIT_ATOMIC_BY_ARGS, 2, 0, 2);
	assert_int_equal(g_got.rma.count, 3);
	check_buf(&g_got.res[1], g_b, 2);
	reset(state);
	check(o->compwritev(&g_ep, g_iov, NULL, 2, g_cmp, NULL, 1, g_res, NULL, 2, 5, 0x1000, 9, FI_UINT64, FI_CSWAP,
			    CTX),
	      KIT_ATOMIC_COMPARE, KIT_ATOMIC_BY_ARGS, 2, 1, 2);
	assert_int_equal(g_got.rma.count, 3);
	check_buf(g_got.cmp, g_c, 3);
}

static void read__has_no_operand(void **state)
{
	(void)state;
	check(g_ep.atomic->readwritev(&g_ep, NULL, NULL, 1, g_res, NULL, 2, 5, 0x1000, 9, FI_UINT64, FI_ATOMIC_READ,
				      CTX),
	      KIT_ATOMIC_FETCH, KIT_ATOMIC_BY_ARGS, 0, 0, 2);
	assert_int_equal(g_got.rma.count, 3);
}

static void message__is_the_callers(void **state)
{
	const struct fi_ops_atomic *o = g_ep.atomic;
	struct fi_msg_atomic m = {.msg_iov = g_iov, .iov_count = 2, .context = CTX};

	check(o->writemsg(&g_ep, &m, FI_MORE), KIT_ATOMIC_BASE, KIT_ATOMIC_BY_MSG, 2, 0, 0);
	assert_ptr_equal(g_got.req.msg, &m);
	reset(state);
	check(o->readwritemsg(&g_ep, &m, g_res, NULL, 2, FI_MORE), KIT_ATOMIC_FETCH, KIT_ATOMIC_BY_MSG, 2, 0, 2);
	assert_ptr_equal(g_got.req.res.msg_iov, g_res);
	reset(state);
	check(o->compwritemsg(&g_ep, &m, g_cmp, NULL, 1, g_res, NULL, 2, FI_MORE), KIT_ATOMIC_COMPARE,
	      KIT_ATOMIC_BY_MSG, 2, 1, 2);
	assert_ptr_equal(g_got.req.cmp.msg_iov, g_cmp);
	assert_ptr_equal(g_got.req.res.msg_iov, g_res);
}

static void valid__asks_of_its_kind(void **state)
{
	const struct fi_ops_atomic *o = g_ep.atomic;
	size_t n;

	(void)state;
	assert_int_equal(o->writevalid(&g_ep, FI_INT16, FI_SUM, &n), -FI_EDOMAIN);
	assert_int_equal(n, KIT_ATOMIC_BASE * 10000 + FI_INT16 * 100 + FI_SUM);
	assert_int_equal(o->readwritevalid(&g_ep, FI_INT32, FI_MIN, &n), -FI_EDOMAIN);
	assert_int_equal(n, KIT_ATOMIC_FETCH * 10000 + FI_INT32 * 100 + FI_MIN);
	assert_int_equal(o->compwritevalid(&g_ep, FI_UINT8, FI_CSWAP, &n), -FI_EDOMAIN);
	assert_int_equal(n, KIT_ATOMIC_COMPARE * 10000 + FI_UINT8 * 100 + FI_CSWAP);
	assert_ptr_equal(g_got.fid, &g_ep);
}

static void flags__of_call_or_endpoint(void **state)
{
	struct kit_ep ep = {.tx_op_flags = FI_DELIVERY_COMPLETE};
	struct kit_atomic_req r = {.flags = FI_MORE, .form = KIT_ATOMIC_BY_MSG};

	(void)state;
	assert_int_equal(kit_atomic_flags(&ep, &r), FI_MORE | FI_COMPLETION);
	ep.tx_selective = true;
	assert_int_equal(kit_atomic_flags(&ep, &r), FI_MORE);
	r = (struct kit_atomic_req){.form = KIT_ATOMIC_BY_ARGS};
	assert_int_equal(kit_atomic_flags(&ep, &r), FI_DELIVERY_COMPLETE);
	r.form = KIT_ATOMIC_BY_INJECT;
	assert_int_equal(kit_atomic_flags(&ep, &r), FI_DELIVERY_COMPLETE | FI_INJECT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(buffer__is_one_vector, reset),
		cmocka_unit_test_setup(vectors__as_many_elements_there, reset),
		cmocka_unit_test_setup(read__has_no_operand, reset),
		cmocka_unit_test_setup(message__is_the_callers, reset),
		cmocka_unit_test_setup(valid__asks_of_its_kind, reset),
		cmocka_unit_test(flags__of_call_or_endpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
