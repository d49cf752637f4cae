// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: formats, reading in batches, more completions than entries, error entries and their texts, wait
// objects.
#include "conform.h"

#include <stdlib.h>

#define N 8

/* N messages from rank 0, one byte each, with CQ data; all completed but unread on return at rank 1. */
static void send_n(struct ct *c, unsigned n, bool tagged)
{
	static uint8_t mem[2][4096];

	for (unsigned i = 0; i < n; i++) {
		struct ct_msg m = {.call = c->rank ? CT_SEND : CT_SENDDATA, .tagged = tagged, .tag = 100 + i,
				   .data = 7 + i, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[i],
				   .mem = mem[c->rank] + i % 4000, .len = 1};

		if (c->rank)
			ct_recv(c, &m);
	}
	ct_barrier(c);
	for (unsigned i = 0; i < n && !c->rank; i++) {
		struct ct_msg m = {.call = CT_SENDDATA, .tagged = tagged, .tag = 100 + i, .data = 7 + i,
				   .addr = c->peer, .ctx = &c->ctx[i], .mem = mem[0], .len = 1};

		ct_send(c, &m);
	}
}

/* Reads one at a time into a buffer with a sentinel behind the entry: the format's size and no more is written. */
static void read_format(struct ct *c, struct fid_cq *cq, size_t size, unsigned n, bool rx, bool tagged)
{
	uint8_t raw[sizeof(struct fi_cq_tagged_entry) + 8];
	struct fi_cq_tagged_entry e;

	for (unsigned i = 0; i < n; i++) {
		ssize_t ret;

		memset(raw, 0xcc, sizeof(raw));
		while ((ret = fi_cq_read(cq, raw, 1)) == -FI_EAGAIN)
			ct_progress(c);
		RET(1, ret);
		for (size_t k = size; k < sizeof(raw); k++)
			CHECK(raw[k] == 0xcc, "byte %zu written by an entry of %zu bytes", k, size);
		memcpy(&e, raw, sizeof(e));
		CHECK(e.op_context == &c->ctx[i], "context of entry %u", i);
		if (size >= sizeof(struct fi_cq_msg_entry)) {
			uint64_t want = (rx ? FI_RECV | FI_REMOTE_CQ_DATA : FI_SEND) | (tagged ? FI_TAGGED : FI_MSG);

			CHECK((e.flags & ~FI_COMPLETION) == want, "flags %#llx", (unsigned long long)e.flags);
			CHECK(!rx || e.len == 1, "length %zu", e.len);
		}
		if (size >= sizeof(struct fi_cq_data_entry) && rx)
			CHECK(e.data == 7 + i, "data %llu", (unsigned long long)e.data);
		if (size >= sizeof(struct fi_cq_tagged_entry) && rx && tagged)
			CHECK(e.tag == 100 + i, "tag %llu", (unsigned long long)e.tag);
	}
	RET(-FI_EAGAIN, fi_cq_read(cq, raw, 1));
}

static void cq_format(struct ct *c, enum fi_cq_format format, size_t size, bool tagged)
{
	c->want.format = format;
	ct_open(c);
	send_n(c, N, tagged);
	read_format(c, c->rank ? c->rxcq : c->txcq, size, N, c->rank, tagged);
	ct_close(c);
}

static void cq_context(struct ct *c)
{
	cq_format(c, FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry), false);
}

static void cq_msg(struct ct *c)
{
	cq_format(c, FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry), false);
}

static void cq_data(struct ct *c)
{
	cq_format(c, FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry), false);
}

static void cq_tagged(struct ct *c)
{
	cq_format(c, FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry), true);
}

/* One CQ for both directions. */
static void cq_shared(struct ct *c)
{
	c->want.one_cq = true;
	ct_open(c);
	send_n(c, N, false);
	read_format(c, c->txcq, sizeof(struct fi_cq_tagged_entry), N, c->rank, false);
	ct_close(c);
}

/*
 * A CQ opened for 16 entries takes 2000 completions: Open MPI opens one of 100 and lets it fill. None is lost, order
 * within it kept.
 */
static void cq_overflow(struct ct *c)
{
	struct fi_cq_tagged_entry e[37];
	unsigned got = 0;

	c->want.cq_size = 16;
	ct_open(c);
	send_n(c, 2000, false);
	if (c->rank == 0) {
		for (unsigned i = 0; i < 2000; i++)
			ct_comp(c, c->txcq);
		ct_barrier(c);
		ct_close(c);
		return;
	}
	ct_barrier(c); /* drives: all have arrived now, none was read */
	while (got < 2000) {
		ssize_t n = fi_cq_read(c->rxcq, e, 37);

		if (n == -FI_EAGAIN)
			continue;
		CHECK(n > 0 && n <= 37, "%zd (%s)", n, ct_err(n));
		for (ssize_t i = 0; i < n; i++, got++)
			CHECK(e[i].op_context == &c->ctx[got], "completion %u is another's", got);
	}
	ct_close(c);
}

static void cq_batch(struct ct *c)
{
	struct fi_cq_tagged_entry e[N];
	fi_addr_t src[N];

	ct_open(c);
	send_n(c, N, false);
	ct_barrier(c);
	for (int i = 0; i < 1000; i++)
		ct_progress(c);
	ct_barrier(c);
	if (c->rank) {
		ssize_t n, sum = 0;

		while (sum < N) {
			n = fi_cq_readfrom(c->rxcq, e, 3, src);
			if (n == -FI_EAGAIN)
				continue;
			CHECK(n >= 1 && n <= 3, "%zd of at most 3", n);
			for (ssize_t i = 0; i < n; i++) {
				CHECK(e[i].op_context == &c->ctx[sum + i], "entry %zd", sum + i);
				CHECK(src[i] == c->peer || !(c->info->caps & FI_SOURCE), "source %llu",
				      (unsigned long long)src[i]);
			}
			sum += n;
		}
	} else {
		for (int i = 0; i < N; i++)
			ct_comp(c, c->txcq);
	}
	ct_close(c);
}

/* --- errors -------------------------------------------------------------------------------------- */

/* The peer's address is valid but nobody is there: an error completion, with a text that names both addresses. */
static void cq_error(struct ct *c)
{
	struct fi_cq_err_entry e = {0};
	struct fi_cq_tagged_entry t;
	struct ct_ep2 gone;
	fi_addr_t to;
	char buf[2048] = "", data[4096];
	uint8_t mem[64] = {0};
	const char *text;
	ssize_t ret;

	ct_open(c);
	ct_ep2_open(c, &gone);
	RET(1, fi_av_insert(c->av, gone.addr, 1, &to, 0, NULL));
	ct_ep2_close(c, &gone);
	struct ct_msg m = {.addr = to, .ctx = &c->ctx[5], .mem = mem, .len = sizeof(mem)};
	if (!ct_send_gone(c, &m)) {
		ct_close(c);
		return;
	}
	while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
		;
	RET(-FI_EAVAIL, ret);
	RET(-FI_EAVAIL, fi_cq_read(c->txcq, &t, 1)); /* until the error is read */
	e.err_data = data;
	e.err_data_size = sizeof(data);
	RET(1, fi_cq_readerr(c->txcq, &e, 0));
	CHECK(e.op_context == &c->ctx[5], "context of another operation");
	CHECK(e.err == FI_ENOTCONN || e.err == FI_ECONNABORTED || e.err == FI_EHOSTUNREACH ||
		      e.err == FI_ECONNREFUSED || e.err == FI_EIO,
	      "error %d (%s)", e.err, fi_strerror(e.err));
	CHECK((e.flags & ~FI_COMPLETION) == (FI_SEND | FI_MSG), "flags %#llx", (unsigned long long)e.flags);
	text = fi_cq_strerror(c->txcq, e.prov_errno, e.err_data, buf, sizeof(buf));
	CHECK(text && *text, "no text");
	CHECK(!c->p->gone.err || (e.err == c->p->gone.err && e.prov_errno == c->p->gone.prov_errno &&
				  !strcmp(text, c->p->gone.text)),
	      "error %d, %d: %s", e.err, e.prov_errno, text);
	CHECK(e.err_data_size <= sizeof(data) && !e.err_data_size == !(c->p->has & CT_HAS_ERR_DATA),
	      "err_data_size %zu", e.err_data_size);
	for (unsigned i = 0; i < 2 && c->p->err_text[i]; i++)
		CHECK(strstr(e.err_data, c->p->err_text[i]), "err_data: %s", (char *)e.err_data);
	RET(-FI_EAGAIN, fi_cq_readerr(c->txcq, &e, 0));
	RET(-FI_EAGAIN, fi_cq_read(c->txcq, &t, 1));
	ct_close(c);
}

/*
 * err_data without a buffer of the caller's is the provider's, valid until the next read; a small buffer is filled as
 * far as it goes.
 */
static void cq_err_data(struct ct *c)
{
	struct fi_cq_err_entry e;
	struct fi_cq_tagged_entry t;
	struct ct_ep2 gone;
	fi_addr_t to;
	uint8_t mem[8] = {0};
	char small[16];

	ct_open(c);
	ct_ep2_open(c, &gone);
	RET(1, fi_av_insert(c->av, gone.addr, 1, &to, 0, NULL));
	ct_ep2_close(c, &gone);
	for (int round = 0; round < 2; round++) {
		struct ct_msg m = {.addr = to, .ctx = &c->ctx[5], .mem = mem, .len = sizeof(mem)};
		ssize_t ret;

		if (!ct_send_gone(c, &m))
			continue;
		while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
			;
		RET(-FI_EAVAIL, ret);
		memset(&e, 0, sizeof(e));
		memset(small, 'x', sizeof(small));
		if (round) {
			e.err_data = small;
			e.err_data_size = 8;
		}
		RET(1, fi_cq_readerr(c->txcq, &e, 0));
		CHECK(!round || small[8] == 'x', "written beyond err_data_size");
		CHECK(!round || e.err_data_size <= 8, "err_data_size %zu", e.err_data_size);
		CHECK(round || !e.err_data_size || e.err_data, "err_data_size without err_data");
		if (!round && e.err_data_size)
			CHECK(memchr(e.err_data, 0, e.err_data_size), "text without end");
	}
	ct_close(c);
}

static void cq_strerror(struct ct *c)
{
	char buf[8];
	const char *s;

	ct_open(c);
	for (int code = -3; code < 5000; code++) {
		s = fi_cq_strerror(c->txcq, code, NULL, NULL, 0);
		CHECK(s && *s, "no text for %d", code);
	}
	memset(buf, 'x', sizeof(buf));
	s = fi_cq_strerror(c->txcq, 4124, NULL, buf, 4);
	CHECK(s, "no text");
	CHECK(buf[4] == 'x', "written beyond the buffer");
	ct_close(c);
}

/* --- wait objects -------------------------------------------------------------------------------- */

static void cq_wait_objects(struct ct *c)
{
	static const enum fi_wait_obj obj[] = {FI_WAIT_NONE,  FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_MUTEX_COND,
					       FI_WAIT_YIELD, FI_WAIT_POLLFD, FI_WAIT_SET};
	struct fi_cq_tagged_entry e;
	int ret;

	ct_open(c);
	for (unsigned i = 0; i < sizeof(obj) / sizeof(obj[0]); i++) {
		struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = obj[i]};
		struct fid_cq *cq = NULL;

		ret = fi_cq_open(c->domain, &attr, &cq, NULL);
		/* efa's manual: wait objects are not supported; elsewhere all are, and a wait set must be named */
		if (!i || (c->p->has & CT_HAS_WAIT_FD))
			CHECK(ret == (obj[i] == FI_WAIT_SET ? -FI_EINVAL : 0), "wait object %d: %s", (int)obj[i],
			      ct_err(ret));
		else
			RET(-FI_ENOSYS, ret);
		if (!ret)
			OK(fi_close(&cq->fid));
	}
	RET(-FI_ENOSYS, fi_cq_sread(c->rxcq, &e, 1, NULL, 0)); /* it was opened without */
	RET(-FI_ENOSYS, fi_cq_signal(c->rxcq));
	ct_close(c);
}

/* As many CQs as advertised, then all closed. */
static void cq_many(struct ct *c)
{
	size_t cnt;
	struct fid_cq **cq;

	ct_open(c);
	cnt = c->info->domain_attr->cq_cnt < 500 ? c->info->domain_attr->cq_cnt : 500;
	cq = calloc(cnt, sizeof(*cq));
	for (size_t i = 0; i + 2 < cnt; i++)
		cq[i] = ct_cq(c, 64, FI_CQ_FORMAT_CONTEXT);
	for (size_t i = 0; i + 2 < cnt; i++)
		OK(fi_close(&cq[i]->fid));
	free(cq);
	ct_close(c);
}

const struct ct_test cq_tests[] = {
	{"cq_context", cq_context, FI_MSG, 0, 0, NULL},
	{"cq_msg", cq_msg, FI_MSG, 0, 0, NULL},
	{"cq_data", cq_data, FI_MSG, 0, 0, "cq_data_size"},
	{"cq_tagged", cq_tagged, FI_TAGGED, 0, 0, "FI_TAGGED"},
	{"cq_shared", cq_shared, FI_MSG, 0, 0, NULL},
	{"cq_overflow", cq_overflow, FI_MSG, 0, 0, NULL},
	{"cq_batch", cq_batch, FI_MSG, 0, 0, NULL},
	{"cq_error", cq_error, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, "max_err_data"},
	{"cq_err_data", cq_err_data, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, "max_err_data"},
	{"cq_strerror", cq_strerror, FI_MSG, 0, CT_SOLO, NULL},
	{"cq_wait_objects", cq_wait_objects, FI_MSG, 0, CT_SOLO, NULL},
	{"cq_many", cq_many, FI_MSG, 0, CT_SOLO, "cq_cnt"},
	{0},
};
