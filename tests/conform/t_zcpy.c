// SPDX-License-Identifier: BSD-2-Clause
// Zero-copy receive of efa: when it is entered, what messages look like then, what it refuses, and endpoints that are
// not in it.
#include "conform.h"

#define OPT_MAX_MSG_SIZE    12 /* which 1.17 headers do not name */
#define OPT_INJECT_MSG_SIZE 16
#define LIMIT		    8000u
#define CAPS		    (FI_MSG | FI_RMA | FI_SOURCE)
#define MODES		    (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

static void limit_messages(struct ct *c, struct fid_ep *ep)
{
	size_t limit = LIMIT;

	OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, OPT_MAX_MSG_SIZE, &limit, sizeof(limit)));
}

static bool is_entered(struct ct *c, struct fid_ep *ep)
{
	size_t inject = 0, len = sizeof(inject);

	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, OPT_INJECT_MSG_SIZE, &inject, &len));
	CHECK(inject == 32 || inject >= 4096, "inject size %zu", inject);
	return inject == 32;
}

static void open_limited(struct ct *c, bool limited)
{
	c->want.caps = CAPS;
	c->want.mr_mode = MODES;
	c->want.no_enable = c->want.eq = true;
	ct_open(c);
	if (limited)
		limit_messages(c, c->ep);
	OK(fi_enable(c->ep));
	ct_connect(c);
	CHECK(is_entered(c, c->ep) == limited, "zero-copy receive is %s", limited ? "off" : "on");
}

/*
 * Rank 0 sends @len bytes; rank 1's receive was posted before, or only when the sender has tried in vain for a while.
 */
static void one(struct ct *c, size_t len, enum ct_call call, bool late)
{
	struct ct_msg m = {.call = call, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[len % 7],
			   .len = len, .iov_cnt = 2, .data = 0x1234567};
	struct ct_buf b;

	ct_buf(c, &b, len, 3, 0);
	m.mem = b.mem;
	m.buf = &b;
	if (c->rank == 0) {
		ct_fill(b.mem, len, len);
		if (!late)
			ct_barrier(c);
		ct_send(c, &m);
		if (late)
			ct_barrier(c);
		if (ct_completes(&m))
			ct_tx(c, m.ctx, FI_SEND | FI_MSG);
	} else {
		struct ct_comp r;

		if (late)
			ct_barrier(c);
		m.call = call == CT_SENDV ? CT_SENDV : CT_SEND;
		ct_recv(c, &m);
		if (!late)
			ct_barrier(c);
		r = ct_rx(c, m.ctx, FI_RECV | FI_MSG | (call == CT_SENDDATA ? FI_REMOTE_CQ_DATA : 0), len);
		CHECK(r.src == c->peer, "the source is %llu", (unsigned long long)r.src);
		CHECK(call != CT_SENDDATA || r.e.data == 0x1234567, "data %#llx", (unsigned long long)r.e.data);
		ct_verify(c, b.mem, len, len, "zero-copy message");
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
}

static void efa_zcpy_messages(struct ct *c)
{
	static const size_t len[] = {0, 1, 31, 32, 33, 4096, LIMIT - 1, LIMIT};
	static const enum ct_call call[] = {CT_SEND, CT_SENDV, CT_SENDDATA};
	uint8_t mem[64] = {0};

	open_limited(c, true);
	for (unsigned i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (unsigned k = 0; k < 3; k++)
			one(c, len[i], call[k], (i + k) % 4 == 3);
	one(c, 32, CT_INJECT, false);
	if (c->rank == 0) {
		CHECK(ct_stat(c, "tx_pkts.HEADERLESS") >= 25, "%llu packets without a header",
		      (unsigned long long)ct_stat(c, "tx_pkts.HEADERLESS"));
		CHECK(!ct_stat(c, "tx_pkts.EAGER_MSGRTM"), "a message went out with a header");
		RET(-FI_EMSGSIZE, fi_inject(c->ep, mem, 33, c->peer));
		RET(-FI_EMSGSIZE, fi_send(c->ep, mem, LIMIT + 1, NULL, c->peer, NULL));
	}
	ct_close(c);
}

/*
 * A receive that is too short stays, and its sender is told; nothing can be taken back; one-sided operations are as
 * ever.
 */
static void efa_zcpy_limits(struct ct *c)
{
	static uint8_t left[50];
	struct ct_buf b, win;
	struct fi_rma_iov at;

	open_limited(c, true);
	ct_buf(c, &b, 100, 0, 0);
	ct_buf(c, &win, 100, 0, FI_REMOTE_WRITE);
	ct_share(c, &win, &at);
	if (c->rank == 1)
		OK(fi_recv(c->ep, b.mem, 50, b.desc, FI_ADDR_UNSPEC, &c->ctx[1]));
	ct_barrier(c);
	if (c->rank == 0) {
		struct fi_cq_err_entry e;

		ct_fill(b.mem, 100, 5);
		while (ct_again(c, fi_send(c->ep, b.mem, 51, b.desc, c->peer, &c->ctx[2])))
			;
		e = ct_comp_err(c, c->txcq, FI_SEND | FI_MSG);
		CHECK(e.err == FI_EMSGSIZE && e.op_context == &c->ctx[2], "error %d (%s)", e.err, fi_strerror(e.err));
		while (ct_again(c, fi_send(c->ep, b.mem, 50, b.desc, c->peer, &c->ctx[3])))
			;
		ct_tx(c, &c->ctx[3], FI_SEND | FI_MSG);
		while (ct_again(c, fi_write(c->ep, b.mem, 100, b.desc, c->peer, at.addr, at.key, &c->ctx[4])))
			;
		ct_tx(c, &c->ctx[4], FI_WRITE | FI_RMA);
	} else {
		ct_rx(c, &c->ctx[1], FI_RECV | FI_MSG, 50);
		ct_verify(c, b.mem, 50, 5, "after one that did not fit");
	}
	ct_barrier(c);
	if (c->rank == 1) {
		ct_verify(c, win.mem, 100, 5, "written");
		OK(fi_recv(c->ep, left, sizeof(left), NULL, FI_ADDR_UNSPEC, &c->ctx[1]));
		RET(-FI_EOPNOTSUPP, fi_cancel(&c->ep->fid, &c->ctx[1]));
	}
	ct_buf_free(c, &b);
	ct_buf_free(c, &win);
	ct_close(c); /* ends that receive without a word */
}

/* Peers that are not in the mode get headers; what they send with one cannot be matched: the event queue says so. */
static void efa_zcpy_mixed(struct ct *c)
{
	struct ct_buf b;

	open_limited(c, c->rank == 0);
	one(c, 100, CT_SEND, false);
	one(c, 5000, CT_SENDDATA, false);
	if (c->rank == 0)
		CHECK(!ct_stat(c, "tx_pkts.HEADERLESS") && ct_stat(c, "tx_pkts.EAGER_MSGRTM"),
		      "the peer wants headers");
	ct_buf(c, &b, 100, 0, 0);
	if (c->rank == 1) {
		while (ct_again(c, fi_send(c->ep, b.mem, 100, b.desc, c->peer, &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
	} else {
		struct fi_eq_err_entry e = {0};
		struct fi_eq_entry ok;
		uint32_t event;
		ssize_t ret;

		while ((ret = fi_eq_read(c->eq, &event, &ok, sizeof(ok), 0)) == -FI_EAGAIN)
			ct_progress(c);
		RET(-FI_EAVAIL, ret);
		CHECK(fi_eq_readerr(c->eq, &e, 0) > 0, "no entry");
		CHECK(e.prov_errno == 4125, "event %d", e.prov_errno);
	}
	ct_barrier(c);
	ct_buf_free(c, &b);
	ct_close(c);
}

static bool enters(struct ct *c, uint64_t caps, uint64_t order, uint64_t mr_mode, bool limited)
{
	struct fi_info *hints, *info;
	bool is_in;

	c->want.caps = caps;
	c->want.msg_order = order;
	c->want.mr_mode = mr_mode;
	hints = ct_hints(c);
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	OK(fi_fabric(info->fabric_attr, &c->fabric, NULL));
	OK(fi_domain(c->fabric, info, &c->domain, NULL));
	OK(fi_endpoint(c->domain, info, &c->ep, NULL));
	c->txcq = ct_cq(c, 0, 0);
	OK(fi_ep_bind(c->ep, &c->txcq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_av_open(c->domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &c->av, NULL));
	OK(fi_ep_bind(c->ep, &c->av->fid, 0));
	if (limited)
		limit_messages(c, c->ep);
	OK(fi_enable(c->ep));
	is_in = is_entered(c, c->ep);
	OK(fi_close(&c->ep->fid));
	OK(fi_close(&c->txcq->fid));
	OK(fi_close(&c->av->fid));
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return is_in;
}

static void efa_zcpy_when(struct ct *c)
{
	CHECK(enters(c, CAPS, 0, MODES, true), "all conditions hold");
	CHECK(!enters(c, CAPS, 0, MODES, false), "messages may be long");
	CHECK(!enters(c, CAPS, FI_ORDER_SAS, MODES, true), "order was asked for");
	CHECK(!enters(c, CAPS | FI_TAGGED, 0, MODES, true), "there may be tags");
	CHECK(!enters(c, CAPS | FI_ATOMIC, 0, MODES, true), "there may be atomics");
	CHECK(!enters(c, CAPS | FI_DIRECTED_RECV, 0, MODES, true), "receives may be directed");
	CHECK(!enters(c, CAPS, 0, MODES & ~FI_MR_LOCAL, true), "memory need not be registered");
}

static void efa_zcpy_never(struct ct *c)
{
	CHECK(!enters(c, CAPS, 0, MODES, true), "the environment forbids it");
}

#define NET "FI_EFA_ENABLE_SHM_TRANSFER=0 "
const struct ct_test zcpy_tests[] = {
	{"efa_zcpy_messages", efa_zcpy_messages, CAPS, 0, CT_NO_ONE | CT_ANY_PATH,
	 "FI_OPT_MAX_MSG_SIZE FI_EFA_USE_ZCPY_RX", NET, "efa"},
	{"efa_zcpy_lossy", efa_zcpy_messages, CAPS, 0, CT_NO_ONE | CT_ANY_PATH, NULL,
	 NET "SOFTFABRIC_NET=loss=2%;reorder=10%", "efa"},
	{"efa_zcpy_limits", efa_zcpy_limits, CAPS, 0, CT_ANY_PATH, NULL, NET, "efa"},
	{"efa_zcpy_mixed", efa_zcpy_mixed, CAPS, 0, CT_NO_ONE | CT_ANY_PATH, NULL, NET, "efa"},
	{"efa_zcpy_when", efa_zcpy_when, CAPS, 0, CT_SOLO | CT_RAW, NULL, NET, "efa"},
	{"efa_zcpy_never", efa_zcpy_never, CAPS, 0, CT_SOLO | CT_RAW, NULL, NET "FI_EFA_USE_ZCPY_RX=0", "efa"},
	{"efa_zcpy_shm", efa_zcpy_never, CAPS, 0, CT_SOLO | CT_RAW, NULL, NULL, "efa"},
	{0},
};
