// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/cq.c, and of the waiting in kit/wait.c that CQs need.
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kit/compat.h"
#include "kit_fix.h"

static struct fix g_fix;
static struct kit_cq *g_cq;

static struct kit_cq *cq_open(enum fi_cq_format format, enum fi_wait_obj wait, size_t size)
{
	struct fi_cq_attr attr = {.format = format, .wait_obj = wait, .size = size};
	struct kit_cq *cq = mem_alloc(sizeof(*cq));

	assert_int_equal(kit_cq_init(cq, &g_fix.domain, &attr, 0, true, NULL), 0);
	return cq;
}

static int setup(void **state)
{
	fix_open(&g_fix, FI_VERSION(1, 17));
	g_cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, 4);
	return 0;
}

static int teardown(void **state)
{
	mem_fail_nth(0);
	assert_int_equal(fi_close(&g_cq->fid.fid), 0);
	fix_close(&g_fix);
	return 0;
}

static void push(struct kit_cq *cq, uint64_t n)
{
	lock_acquire(&g_fix.domain.lock);
	kit_cq_push(cq, (void *)(uintptr_t)n, FI_RECV, n + 1, (void *)(uintptr_t)(n + 2), n + 3,
		    n + 4, n + 5);
	lock_release(&g_fix.domain.lock);
}

static void push_err(struct kit_cq *cq, uint64_t n, int err, const char *data)
{
	const struct fi_cq_err_entry e = {.op_context = (void *)(uintptr_t)n,
					  .flags = FI_RECV,
					  .len = n + 1,
					  .tag = n + 4,
					  .olen = n + 9,
					  .err = err,
					  .prov_errno = 7};

	lock_acquire(&g_fix.domain.lock);
	kit_cq_push_err(cq, &e, data, data ? strlen(data) + 1 : 0);
	lock_release(&g_fix.domain.lock);
}

static void check_tagged(const struct fi_cq_tagged_entry *e, uint64_t n)
{
	assert_ptr_equal(e->op_context, (void *)(uintptr_t)n);
	assert_int_equal(e->flags, FI_RECV);
	assert_int_equal(e->len, n + 1);
	assert_ptr_equal(e->buf, (void *)(uintptr_t)(n + 2));
	assert_int_equal(e->data, n + 3);
	assert_int_equal(e->tag, n + 4);
}

static void cq_read__hands_out_entries_in_order(void **state)
{
	struct fi_cq_tagged_entry e[8];
	fi_addr_t src[8];

	for (uint64_t n = 0; n < 3; n++)
		push(g_cq, 10 * n);
	assert_int_equal(fi_cq_readfrom(&g_cq->fid, e, 2, src), 2);
	check_tagged(&e[0], 0);
	check_tagged(&e[1], 10);
	assert_int_equal(src[1], 15);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 8), 1);
	check_tagged(&e[0], 20);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 8), -FI_EAGAIN);
}

static void cq_read__fills_exactly_the_format(void **state)
{
	static const struct {
		enum fi_cq_format format;
		size_t len;
	} row[] = {
		{FI_CQ_FORMAT_UNSPEC, 8}, {FI_CQ_FORMAT_CONTEXT, 8}, {FI_CQ_FORMAT_MSG, 24},
		{FI_CQ_FORMAT_DATA, 40},  {FI_CQ_FORMAT_TAGGED, 48},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct kit_cq *cq = cq_open(row[i].format, FI_WAIT_NONE, 0);
		struct fi_cq_tagged_entry want = {(void *)1, FI_RECV, 2, (void *)3, 4, 5};
		uint8_t buf[64];

		memset(buf, 0xa5, sizeof(buf));
		push(cq, 1);
		assert_int_equal(fi_cq_read(&cq->fid, buf, 1), 1);
		assert_memory_equal(buf, &want, row[i].len);
		for (size_t b = row[i].len; b < sizeof(buf); b++)
			assert_int_equal(buf[b], 0xa5);
		assert_int_equal(fi_close(&cq->fid.fid), 0);
	}
}

static void cq_read__count_zero_tells_what_is_next(void **state)
{
	assert_int_equal(fi_cq_read(&g_cq->fid, NULL, 0), -FI_EAGAIN);
	push(g_cq, 1);
	assert_int_equal(fi_cq_read(&g_cq->fid, NULL, 0), 0);
	push_err(g_cq, 2, FI_EIO, NULL);
	assert_int_equal(fi_cq_read(&g_cq->fid, NULL, 0), 0);
	assert_int_equal(fi_cq_read(&g_cq->fid, &(struct fi_cq_tagged_entry){0}, 1), 1);
	assert_int_equal(fi_cq_read(&g_cq->fid, NULL, 0), -FI_EAVAIL);
}

/* What is handed out in short has to tell an error from an entry, wherever it stands, and be as ever after it. */
static void cq_read__takes_one_entry_before_and_behind_an_error(void **state)
{
	struct fi_cq_tagged_entry e = {0};
	struct fi_cq_err_entry err = {0};
	fi_addr_t src = 0;

	for (uint64_t n = 1; n < 30; n += 10) {
		push(g_cq, n);
		assert_int_equal(fi_cq_readfrom(&g_cq->fid, &e, 1, &src), 1);
		check_tagged(&e, n);
		assert_int_equal(src, n + 5);
		push_err(g_cq, n + 1, FI_ETRUNC, NULL);
		assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EAVAIL);
		push(g_cq, n + 2);
		assert_int_equal(fi_cq_read(&g_cq->fid, &e, 2), -FI_EAVAIL);
		assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
		assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
		check_tagged(&e, n + 2);
	}
}

static void cq_read__keeps_errors_in_line(void **state)
{
	struct fi_cq_tagged_entry e[4];
	struct fi_cq_err_entry err = {0};

	push(g_cq, 1);
	push_err(g_cq, 2, FI_ETRUNC, NULL);
	push_err(g_cq, 3, FI_ECANCELED, NULL);
	push(g_cq, 4);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 4), 1);
	check_tagged(e, 1);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 4), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.err, FI_ETRUNC);
	assert_ptr_equal(err.op_context, (void *)2);
	assert_int_equal(err.olen, 11);
	assert_int_equal(err.prov_errno, 7);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 4), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 4), 1);
	check_tagged(e, 4);
}

/* One struct, four lengths: nothing beyond what the caller's version has may be written. */
static void cq_readerr__writes_what_the_version_has(void **state)
{
	static const struct {
		uint32_t version;
		size_t len;
	} row[] = {
		{0, 72},
		{FI_VERSION(1, 4), 72},
		{FI_VERSION(1, 5), 80},
		{FI_VERSION(1, 17), 80},
		{FI_VERSION(1, 20), 88},
		{FI_VERSION(2, 1), 88},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		union {
			struct fi_cq_err_entry e;
			struct kit_cq_err_ext ext;
			uint8_t b[128];
		} out;

		g_fix.domain.api_version = row[i].version;
		memset(&out, 0xa5, sizeof(out));
		out.e.err_data = NULL;
		out.e.err_data_size = 0;
		push_err(g_cq, 2, FI_EIO, "why");
		/* not fi_cq_readerr(): that of newer headers writes src_addr itself */
		assert_int_equal(g_cq->fid.ops->readerr(&g_cq->fid, &out.e, 0), 1);
		assert_int_equal(out.e.err, FI_EIO);
		assert_string_equal(out.e.err_data, "why");
		assert_int_equal(out.e.err_data_size, row[i].len >= 80 ? 4 : 0);
		if (row[i].len >= 88)
			assert_int_equal(out.ext.src_addr, FI_ADDR_NOTAVAIL);
		for (size_t b = MAX(row[i].len, (size_t)80); b < sizeof(out); b++)
			assert_int_equal(out.b[b], 0xa5);
	}
}

static void cq_readerr__fills_the_callers_err_data(void **state)
{
	char buf[8] = "#######";
	struct fi_cq_err_entry e = {.err_data = buf, .err_data_size = 4};

	push_err(g_cq, 1, FI_EIO, "because");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_ptr_equal(e.err_data, buf);
	assert_int_equal(e.err_data_size, 4);
	assert_memory_equal(buf, "bec\0###", 7); /* fi_cq_strerror() takes it for text */
	/* Without err_data in the entry nothing is filled in. */
	push_err(g_cq, 1, FI_EIO, NULL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_int_equal(e.err_data_size, 0);
	memcpy(buf, "#######", sizeof(buf));
	e.err_data_size = sizeof(buf);
	push_err(g_cq, 1, FI_EIO, NULL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_int_equal(e.err_data_size, 0);
	assert_memory_equal(buf, "#######", sizeof(buf)); /* it may be what lay on the caller's stack */
	/* Nor is our own data of the error before, where the caller uses its entry again. */
	e = (struct fi_cq_err_entry){0};
	push_err(g_cq, 1, FI_EIO, "the first");
	push_err(g_cq, 2, FI_EIO, "the second");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_string_equal(e.err_data, "the first");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_int_equal(e.err_data_size, sizeof("the second"));
	assert_string_equal(e.err_data, "the second");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), -FI_EAGAIN);
	assert_int_equal(e.err_data_size, 0);
	/* A caller of 1.4 has uninitialised fields there: no buffer. */
	g_fix.domain.api_version = FI_VERSION(1, 4);
	e.err_data = buf;
	push_err(g_cq, 1, FI_EIO, "ours");
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &e, 0), 1);
	assert_ptr_not_equal(e.err_data, buf);
	assert_string_equal(e.err_data, "ours");
}

static void cq_push__grows_beyond_the_size(void **state)
{
	struct fi_cq_tagged_entry e;

	for (uint64_t n = 0; n < 3; n++) /* the ring wraps when it grows */
		push(g_cq, n);
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
	for (uint64_t n = 3; n < 1000; n++)
		push(g_cq, n);
	for (uint64_t n = 2; n < 1000; n++) {
		assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), 1);
		check_tagged(&e, n);
	}
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EAGAIN);
}

/* Against a plain array, with errors in between. */
static void cq_push__matches_a_model(void **state)
{
	struct rng r = unit_rng();
	static struct {
		uint64_t n;
		bool is_err;
	} model[4096];
	uint32_t in = 0, out = 0;

	while (in < ARRAY_SIZE(model)) {
		uint32_t k = rng_u64(&r) % 8;

		if (rng_u64(&r) % 2) {
			for (; k && in < ARRAY_SIZE(model); k--, in++) {
				model[in].n = rng_u64(&r) % 1000;
				model[in].is_err = rng_u64(&r) % 5 == 0;
				if (model[in].is_err)
					push_err(g_cq, model[in].n, FI_EIO, NULL);
				else
					push(g_cq, model[in].n);
			}
			continue;
		}
		struct fi_cq_tagged_entry e[8];
		ssize_t got = fi_cq_read(&g_cq->fid, e, k);

		if (out == in) {
			assert_int_equal(got, -FI_EAGAIN);
		} else if (model[out].is_err) {
			struct fi_cq_err_entry err = {0};

			assert_int_equal(got, -FI_EAVAIL);
			assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
			assert_ptr_equal(err.op_context, (void *)(uintptr_t)model[out++].n);
		} else {
			assert_true(got >= (k ? 1 : 0));
			for (ssize_t i = 0; i < got; i++) {
				assert_false(model[out].is_err);
				check_tagged(&e[i], model[out++].n);
			}
		}
	}
}

static void cq_push__out_of_memory_is_an_overrun_error(void **state)
{
	struct fi_cq_tagged_entry e[8];
	struct fi_cq_err_entry err = {0};

	for (uint64_t n = 0; n < 4; n++)
		push(g_cq, n);
	mem_fail_nth(1);
	push(g_cq, 4);
	mem_fail_nth(1);
	push_err(g_cq, 5, FI_EIO, "lost too");
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 8), 4);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 8), -FI_EAVAIL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.err, FI_EOVERRUN);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 8), -FI_EAGAIN);
	/* The error's own node may be what fails. */
	mem_fail_nth(1);
	push_err(g_cq, 6, FI_EIO, NULL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.err, FI_EOVERRUN);
	push(g_cq, 7);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 8), 1);
	check_tagged(e, 7);
}

static void script_push_two(struct fix_ep *ep)
{
	kit_cq_push(ep->kit.rx_cq, NULL, 0, 0, NULL, 0, 0, 0);
	kit_cq_push(ep->kit.rx_cq, NULL, 0, 0, NULL, 0, 0, 0);
}

static void cq_read__drives_each_endpoint_once(void **state)
{
	struct fi_cq_tagged_entry e[4];
	struct fix_ep ep[2];

	for (int i = 0; i < 2; i++) {
		fix_ep_open(&g_fix, &ep[i]);
		assert_int_equal(kit_ep_bind(&ep[i].kit, &g_cq->fid.fid, FI_TRANSMIT), 0);
		assert_int_equal(kit_ep_bind(&ep[i].kit, &g_cq->fid.fid, FI_RECV), 0);
	}
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 1), -FI_EAGAIN);
	assert_int_equal(ep[0].progress_cnt, 1);
	assert_int_equal(ep[1].progress_cnt, 1);
	assert_int_equal(g_fix.idle_cnt, 1);
	/* Completions of the same pass are returned by the same call, without idling. */
	ep[1].script = script_push_two;
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 1), 1);
	assert_int_equal(g_fix.idle_cnt, 1);
	/* What is there already is taken without driving, unless the caller asks for more. */
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 1), 1);
	assert_int_equal(ep[0].progress_cnt, 2);
	assert_int_equal(fi_cq_read(&g_cq->fid, NULL, 0), 0);
	assert_int_equal(ep[0].progress_cnt, 3);
	assert_int_equal(fi_close(&g_cq->fid.fid), -FI_EBUSY);
	kit_ep_fini(&ep[0].kit);
	assert_int_equal(fi_close(&g_cq->fid.fid), -FI_EBUSY);
	assert_int_equal(fi_cq_read(&g_cq->fid, e, 4), 2);
	assert_int_equal(ep[0].progress_cnt, 3);
	assert_int_equal(ep[1].progress_cnt, 3);
	/* But not for ever: who always finds something is driven now and then. */
	ep[1].script = NULL;
	lock_acquire(&g_fix.domain.lock);
	for (int i = 0; i < 8; i++)
		script_push_two(&ep[1]);
	lock_release(&g_fix.domain.lock);
	for (int i = 0; i < 16; i++)
		assert_int_equal(fi_cq_read(&g_cq->fid, e, 1), 1);
	assert_int_equal(ep[1].progress_cnt, 5);
	kit_ep_fini(&ep[1].kit);
}

static struct fix_ep *g_closed;

/* What a pass that lets the lock go makes room for. */
static void script_let_another_close(struct fix_ep *ep)
{
	if (!g_closed)
		return;
	lock_release(&g_fix.domain.lock);
	kit_ep_fini(&g_closed->kit);
	lock_acquire(&g_fix.domain.lock);
	g_closed = NULL;
}

static void cq_read__endpoint_closed_during_a_pass(void **state)
{
	struct fi_cq_tagged_entry e;
	struct fix_ep ep[3];

	for (int i = 0; i < 3; i++) {
		fix_ep_open(&g_fix, &ep[i]);
		assert_int_equal(kit_ep_bind(&ep[i].kit, &g_cq->fid.fid, FI_TRANSMIT | FI_RECV), 0);
	}
	ep[0].script = script_let_another_close;
	g_closed = &ep[1];
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EAGAIN);
	assert_int_equal(ep[1].progress_cnt, 0);
	assert_int_equal(ep[2].progress_cnt, 1);
	g_closed = &ep[2];
	assert_int_equal(fi_cq_read(&g_cq->fid, &e, 1), -FI_EAGAIN);
	assert_int_equal(ep[2].progress_cnt, 1);
	kit_ep_fini(&ep[0].kit);
}

static void cq__refuses_after_fork_and_closes_quietly(void **state)
{
	struct kit_cq *cq = cq_open(FI_CQ_FORMAT_MSG, FI_WAIT_FD, 0);
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	struct fix_ep ep;

	fix_ep_open(&g_fix, &ep);
	assert_int_equal(kit_ep_bind(&ep.kit, &cq->fid.fid, FI_RECV), 0);
	g_fix.forked = true;
	lock_acquire(&g_fix.domain.lock); /* by a thread that the child does not have */
	assert_int_equal(fi_cq_read(&cq->fid, &e, 1), -FI_EIO);
	assert_int_equal(fi_cq_readerr(&cq->fid, &err, 0), -FI_EIO);
	assert_int_equal(fi_cq_sread(&cq->fid, &e, 1, NULL, 10), -FI_EIO);
	assert_int_equal(ep.progress_cnt, 0);
	kit_ep_fini(&ep.kit);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	lock_release(&g_fix.domain.lock);
	g_fix.forked = false;
}

static void cq_init__refuses_bad_attributes(void **state)
{
	static const struct {
		struct fi_cq_attr attr;
		bool wait_ok;
		int ret;
	} row[] = {
		{{.format = 99}, true, -FI_EINVAL},
		{{.flags = FI_PEER}, true, -FI_EINVAL},
		{{.wait_obj = 99}, true, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_FD, .wait_cond = 9}, true, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_SET}, true, -FI_EINVAL},
		{{.wait_obj = FI_WAIT_FD}, false, -FI_ENOSYS},
		{{.wait_obj = FI_WAIT_UNSPEC}, false, -FI_ENOSYS},
		{{.size = SIZE_MAX}, true, -FI_EINVAL},
	};
	struct kit_cq cq = {0};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(
			kit_cq_init(&cq, &g_fix.domain, &row[i].attr, 0, row[i].wait_ok, NULL),
			row[i].ret);
	assert_int_equal(kit_cq_init(&cq, &g_fix.domain, NULL, 0, true, NULL), -FI_EINVAL);
}

static void cq_init__survives_every_failed_allocation(void **state)
{
	const struct fi_cq_attr attr = {.wait_obj = FI_WAIT_FD};
	int64_t live = mem_live_count();
	struct kit_cq cq = {0};
	int ret, n = 0;

	do {
		mem_fail_nth(++n);
		ret = kit_cq_init(&cq, &g_fix.domain, &attr, 1, true, NULL);
		if (ret) {
			assert_int_equal(ret, -FI_ENOMEM);
			assert_int_equal(mem_live_count(), live);
		}
	} while (ret);
	mem_fail_nth(0);
	assert_true(n > 2);
	assert_int_equal(kit_cq_fini(&cq), 0);
	assert_int_equal(mem_live_count(), live);
}

static const char *strerror_hook(struct kit_cq *cq, int prov_errno, const void *err_data)
{
	return prov_errno == 7 ? "seven" : NULL;
}

static void cq_strerror__text_and_copy(void **state)
{
	char buf[4];

	g_cq->strerror = strerror_hook;
	assert_string_equal(fi_cq_strerror(&g_cq->fid, 7, NULL, NULL, 0), "seven");
	assert_string_equal(fi_cq_strerror(&g_cq->fid, 7, NULL, buf, sizeof(buf)), "sev");
	assert_string_equal(fi_cq_strerror(&g_cq->fid, -FI_ETRUNC, NULL, NULL, 0),
			    fi_strerror(FI_ETRUNC));
}

static int add_source(struct kit_cq *cq, struct fi_cq_err_entry *e)
{
	e->data = 99;
	return 0;
}

static void cq_readerr__asks_the_provider(void **state)
{
	struct fi_cq_err_entry err = {0};

	g_cq->err_extra = add_source;
	push_err(g_cq, 1, FI_EIO, NULL);
	assert_int_equal(fi_cq_readerr(&g_cq->fid, &err, 0), 1);
	assert_int_equal(err.data, 99);
}

static void cq_sread__enosys_without_wait_object(void **state)
{
	struct fi_cq_tagged_entry e;
	int fd;

	assert_int_equal(fi_cq_sread(&g_cq->fid, &e, 1, NULL, 0), -FI_ENOSYS);
	assert_int_equal(fi_cq_signal(&g_cq->fid), -FI_ENOSYS);
	assert_int_equal(fi_control(&g_cq->fid.fid, FI_GETWAIT, &fd), -FI_ENODATA);
}

static const enum fi_wait_obj g_wait_objs[] = {FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
					       FI_WAIT_YIELD, FI_WAIT_POLLFD};

static void cq_sread__times_out(void **state)
{
	struct fi_cq_tagged_entry e;

	for (size_t i = 0; i < ARRAY_SIZE(g_wait_objs); i++) {
		struct kit_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, g_wait_objs[i], 0);
		uint64_t start = clk_now_ns(NULL);

		assert_int_equal(fi_cq_sread(&cq->fid, &e, 1, NULL, 0), -FI_EAGAIN);
		assert_int_equal(fi_cq_sread(&cq->fid, &e, 1, NULL, 5), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) - start >= 5 * NS_PER_MS);
		assert_int_equal(fi_close(&cq->fid.fid), 0);
	}
}

struct waker {
	struct kit_cq *cq;
	uint64_t cnt;
	bool only_signal;
};

static void *waker_main(void *arg)
{
	struct waker *w = arg;

	if (w->only_signal) {
		fi_cq_signal(&w->cq->fid);
		return NULL;
	}
	for (uint64_t n = 0; n < w->cnt; n++) {
		push(w->cq, n);
		if (n % 16 == 0)
			sched_yield();
	}
	return NULL;
}

static void cq_sread__wakes_for_another_threads_push(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_wait_objs); i++) {
		struct kit_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, g_wait_objs[i], 0);
		struct waker w = {.cq = cq, .cnt = 2000};
		struct fi_cq_tagged_entry e;
		pthread_t t;

		assert_int_equal(pthread_create(&t, NULL, waker_main, &w), 0);
		for (uint64_t n = 0; n < w.cnt; n++) {
			assert_int_equal(fi_cq_sread(&cq->fid, &e, 1, NULL, 20000), 1);
			check_tagged(&e, n);
		}
		pthread_join(t, NULL);
		assert_int_equal(fi_close(&cq->fid.fid), 0);
	}
}

static void cq_signal__ends_a_blocking_read(void **state)
{
	struct kit_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, 0);
	struct waker w = {.cq = cq, .only_signal = true};
	struct fi_cq_tagged_entry e;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, waker_main, &w), 0);
	assert_int_equal(fi_cq_sread(&cq->fid, &e, 1, NULL, -1), -FI_EAGAIN);
	pthread_join(t, NULL);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void cq_trywait__arms_the_fd(void **state)
{
	struct kit_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, 0);
	struct fid *fids[] = {&cq->fid.fid};
	struct fi_cq_tagged_entry e;
	enum fi_wait_obj obj;
	int fd;

	assert_int_equal(fi_control(fids[0], FI_GETWAIT, &fd), 0);
	assert_int_equal(fi_control(fids[0], FI_GETWAITOBJ, &obj), 0);
	assert_int_equal(obj, FI_WAIT_FD);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_false(readable(fd));
	push(cq, 1);
	assert_true(readable(fd));
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_cq_read(&cq->fid, &e, 1), 1);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_false(readable(fd));
	push(cq, 2);
	assert_true(readable(fd));
	assert_int_equal(fi_close(fids[0]), 0);
	fids[0] = &g_cq->fid.fid;
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EINVAL);
	fids[0] = &g_fix.domain.fid.fid;
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EINVAL);
}

static int g_dev_fd[2], g_arm_ret;

static int dev_wait_fd(struct kit_ep *ep, unsigned i)
{
	return i ? -1 : g_dev_fd[0];
}

static int dev_wait_arm(struct kit_ep *ep)
{
	return g_arm_ret;
}

/* An endpoint with an fd of its own makes the CQ's fd readable; one without keeps the application
 * from sleeping. */
static void cq_trywait__includes_device_fds(void **state)
{
	struct kit_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, 0);
	struct fid *fids[] = {&cq->fid.fid};
	struct fix_ep ep, plain;
	int fd;

	assert_int_equal(pipe(g_dev_fd), 0);
	g_arm_ret = 0;
	assert_int_equal(fi_control(fids[0], FI_GETWAIT, &fd), 0);
	fix_ep_open(&g_fix, &ep);
	ep.kit.wait_fd = dev_wait_fd;
	ep.kit.wait_arm = dev_wait_arm;
	assert_int_equal(kit_ep_bind(&ep.kit, fids[0], FI_TRANSMIT), 0);
	assert_int_equal(kit_ep_bind(&ep.kit, fids[0], FI_RECV), 0);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_false(readable(fd));
	assert_int_equal(write(g_dev_fd[1], "x", 1), 1);
	assert_true(readable(fd));
	g_arm_ret = -FI_EAGAIN;
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EAGAIN);
	g_arm_ret = 0;
	fix_ep_open(&g_fix, &plain);
	assert_int_equal(kit_ep_bind(&plain.kit, fids[0], FI_RECV), 0);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EAGAIN);
	assert_true(readable(fd)); /* whoever sleeps looks at the new one, too */
	kit_ep_fini(&plain.kit);
	kit_ep_fini(&ep.kit);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_false(readable(fd));
	assert_int_equal(fi_close(fids[0]), 0);
	close(g_dev_fd[0]);
	close(g_dev_fd[1]);
}

static void cq_getwait__pollfd_and_mutex(void **state)
{
	struct kit_cq *cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_POLLFD, 0);
	struct fi_wait_pollfd set = {0};
	struct fi_mutex_cond mc = {0};
	struct pollfd p;

	assert_int_equal(fi_control(&cq->fid.fid, FI_GETWAIT, &set), -FI_ETOOSMALL);
	assert_int_equal(set.nfds, 1);
	set.fd = &p;
	assert_int_equal(fi_control(&cq->fid.fid, FI_GETWAIT, &set), 0);
	push(cq, 1);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	cq = cq_open(FI_CQ_FORMAT_TAGGED, FI_WAIT_MUTEX_COND, 0);
	assert_int_equal(fi_control(&cq->fid.fid, FI_GETWAIT, &mc), 0);
	/* The application may hold its mutex while somebody pushes: no deadlock. */
	assert_int_equal(pthread_mutex_lock(mc.mutex), 0);
	push(cq, 1);
	assert_int_equal(pthread_mutex_unlock(mc.mutex), 0);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
}

static void waitset__ends_when_a_member_has_news(void **state)
{
	struct fi_wait_attr wattr = {.wait_obj = FI_WAIT_FD};
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
	struct kit_cq *cq = mem_alloc(sizeof(*cq));
	struct fi_cq_tagged_entry e;
	struct fid *fids[1];
	struct fid_wait *set;

	assert_int_equal(fi_wait_open(&g_fix.fabric->fid, &wattr, &set), 0);
	attr.wait_set = set;
	assert_int_equal(kit_cq_init(cq, &g_fix.domain, &attr, 0, true, NULL), 0);
	assert_int_equal(fi_wait(set, 1), -FI_ETIMEDOUT);
	fids[0] = &set->fid;
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	push(cq, 1);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_wait(set, 1000), 0);
	assert_int_equal(fi_cq_read(&cq->fid, &e, 1), 1);
	assert_int_equal(fi_wait(set, 1), -FI_ETIMEDOUT);
	assert_int_equal(fi_close(&set->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	assert_int_equal(fi_close(&set->fid), 0);
}

static void poll__reports_contexts_with_news(void **state)
{
	struct fi_poll_attr pattr = {0};
	struct kit_cntr *c = mem_alloc(sizeof(*c));
	struct fid_poll *set;
	void *ctx[4];

	assert_int_equal(kit_cntr_init(c, &g_fix.domain, NULL, false, &ctx[1]), 0);
	g_cq->fid.fid.context = &ctx[0];
	assert_int_equal(fi_poll_open(&g_fix.domain.fid, &pattr, &set), 0);
	assert_int_equal(fi_poll_add(set, &g_cq->fid.fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &c->fid.fid, 0), 0);
	assert_int_equal(fi_poll_add(set, &g_fix.domain.fid.fid, 0), -FI_EINVAL);
	assert_int_equal(fi_poll(set, ctx, 4), 0);
	push(g_cq, 1);
	assert_int_equal(fi_cntr_add(&c->fid, 3), 0);
	/* A counter's news that did not fit are told next time. */
	assert_int_equal(fi_poll(set, ctx, 1), 1);
	assert_ptr_equal(ctx[0], &ctx[0]);
	assert_int_equal(fi_poll(set, ctx, 4), 2);
	assert_ptr_equal(ctx[1], &ctx[1]);
	assert_int_equal(fi_poll(set, ctx, 4), 1);
	/* A closed counter leaves the set by itself. */
	assert_int_equal(fi_close(&c->fid.fid), 0);
	assert_int_equal(fi_poll_del(set, &g_cq->fid.fid, 0), 0);
	assert_int_equal(fi_poll_del(set, &g_cq->fid.fid, 0), -FI_EINVAL);
	assert_int_equal(fi_poll(set, ctx, 4), 0);
	assert_int_equal(fi_close(&set->fid), 0);
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(cq_read__hands_out_entries_in_order),
		T(cq_read__fills_exactly_the_format),
		T(cq_read__count_zero_tells_what_is_next),
		T(cq_read__takes_one_entry_before_and_behind_an_error),
		T(cq_read__keeps_errors_in_line),
		T(cq_readerr__writes_what_the_version_has),
		T(cq_readerr__fills_the_callers_err_data),
		T(cq_push__grows_beyond_the_size),
		T(cq_push__matches_a_model),
		T(cq_push__out_of_memory_is_an_overrun_error),
		T(cq_read__drives_each_endpoint_once),
		T(cq_read__endpoint_closed_during_a_pass),
		T(cq__refuses_after_fork_and_closes_quietly),
		T(cq_init__refuses_bad_attributes),
		T(cq_init__survives_every_failed_allocation),
		T(cq_strerror__text_and_copy),
		T(cq_readerr__asks_the_provider),
		T(cq_sread__enosys_without_wait_object),
		T(cq_sread__times_out),
		T(cq_sread__wakes_for_another_threads_push),
		T(cq_signal__ends_a_blocking_read),
		T(cq_trywait__arms_the_fd),
		T(cq_trywait__includes_device_fds),
		T(cq_getwait__pollfd_and_mutex),
		T(waitset__ends_when_a_member_has_news),
		T(poll__reports_contexts_with_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
