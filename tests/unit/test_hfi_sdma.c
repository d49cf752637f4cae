// SPDX-License-Identifier: BSD-2-Clause
// SDMA requests: the packets they become, the completion ring, a path without room, a peer that goes.
#include "hfi_fix.h"

#define FRAG 1024u

static uint8_t buf[HFI_SDMA_PKTS * FRAG];
static struct {
	struct hfi_hdr hdr;
	uint32_t len;
	uint8_t data[FRAG];
} got[2 * HFI_SDMA_PKTS];
static unsigned got_cnt;

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	struct view v = view_of(frame, len);

	view_copy(&v, 0, &got[got_cnt].hdr, sizeof(struct hfi_hdr));
	got[got_cnt].len = len - (uint32_t)sizeof(struct hfi_hdr);
	view_copy(&v, sizeof(struct hfi_hdr), got[got_cnt].data, FRAG);
	got_cnt++;
	return 0;
}

static struct hfi_sdma_req req_of(const struct iovec *iov, int iov_cnt, uint32_t npkts, uint16_t idx)
{
	struct hfi_sdma_req req = {.dst = g_fix.dst, .iov = iov, .iov_cnt = iov_cnt, .npkts = npkts, .fragsize = FRAG,
				   .comp_idx = idx};

	hfi_dst_hdr(g_fix.dst, &req.hdr);
	req.hdr.opcode = 0xc2;
	req.hdr.psn_tx = le32_put(le32_get(req.hdr.psn_tx) | (HFI_PSN_MASK - 1));
	req.hdr.w[0] = le64_put(100000);
	req.hdr.w[1] = le64_put(77);
	return req;
}

static enum hfi_sdma_status status(uint16_t idx)
{
	int err = 99;
	enum hfi_sdma_status st = hfi_sdma_status(g_fix.c, idx, &err);

	assert_true(st == HFI_SDMA_ERROR ? err < 0 : err == 0);
	return st;
}

/* The wire has no room after @n packets. */
static void no_room(unsigned cnt)
{
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = cnt;
}

static void post__headers(void **state)
{
	const struct iovec iov[] = {{buf, 1000}, {buf + 1000, 24}, {buf + 1024, 1500}};
	struct hfi_sdma_req req = req_of(iov, 3, 3, 2);
	struct link_port *port = pair_port(on_frame);
	uint32_t off = 0;

	got_cnt = 0;
	assert_int_equal(status(2), HFI_SDMA_FREE);
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), 0);
	assert_int_equal(status(2), HFI_SDMA_COMPLETE);
	link_poll(port);
	assert_int_equal(got_cnt, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct hfi_hdr *h = &got[i].hdr;

		assert_int_equal(got[i].len, i < 2 ? FRAG : 2524 - 2 * FRAG);
		assert_memory_equal(got[i].data, buf + off, got[i].len);
		assert_int_equal(hfi_hdr_psn(h), (HFI_PSN_MASK - 1 + i) & HFI_PSN_MASK);
		assert_int_equal(hfi_hdr_tx(h), hfi_ctxt_info(g_fix.c)->send_ctxt);
		assert_int_equal(le64_get(h->w[0]), 100000 + off);
		assert_int_equal(le64_get(h->w[1]), 77);
		assert_int_equal(be16_get(h->pktlen), hfi_wire_pktlen(sizeof(*h), got[i].len));
		off += got[i].len;
	}
	assert_int_equal(g_fake.borrowed, 3); /* the adapter reads where the bytes are */
	assert_false(g_fake.is_borrowing);    /* and is done when it says so */
	assert_int_equal(stats_now().sdma_reqs, 1);
	assert_int_equal(stats_now().sdma_pkts, 3);
	assert_int_equal(stats_now().sdma_bytes, 2524);
	hfi_sdma_free(g_fix.c, 2);
	assert_int_equal(status(2), HFI_SDMA_FREE);
	link_port_close(port);
}

static void post__expected(void **state)
{
	const struct iovec iov = {buf, 4 * FRAG};
	const struct hfi_tid tids[] = {{.idx = 5, .len = HFI_TID_BYTES}, {.idx = 9, .len = 2 * FRAG}};
	static const struct {
		uint16_t idx;
		uint32_t off;
	} want[] = {{5, HFI_TID_BYTES - 2 * FRAG}, {5, HFI_TID_BYTES - FRAG}, {9, 0}, {9, FRAG}};
	struct hfi_sdma_req req = req_of(&iov, 1, 4, 0);
	struct link_port *port = pair_port(on_frame);

	got_cnt = 0;
	req.tids = tids;
	req.tid_cnt = 2;
	req.tid_off = HFI_TID_BYTES - 2 * FRAG;
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), 0);
	link_poll(port);
	assert_int_equal(got_cnt, 4);
	for (unsigned i = 0; i < 4; i++) {
		uint32_t k = le32_get(got[i].hdr.kdeth);

		assert_int_equal(HFI_KDETH_TID(k), want[i].idx);
		assert_int_equal((k & HFI_KDETH_OFF) * (k & HFI_KDETH_OM ? 64 : 4), want[i].off);
		assert_int_equal(k & HFI_KDETH_CTRL, HFI_KDETH_CTRL);
	}
	assert_int_equal(stats_now().exp_pkts_tx, 4);
	hfi_sdma_free(g_fix.c, 0);
	req.tid_off += 64; /* a packet would begin in one entry and end in the next */
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), -EINVAL);
	req.tid_off = HFI_TID_BYTES - FRAG; /* beyond the last */
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), -EINVAL);
	link_port_close(port);
}

static void post__limits(void **state)
{
	const struct iovec iov = {buf, 2 * FRAG};
	const struct hfi_sdma_req good = req_of(&iov, 1, 2, 0);
	struct hfi_sdma_req req;

#define BAD(set_)                                                                                                      \
	do {                                                                                                           \
		req = good;                                                                                            \
		set_;                                                                                                  \
		assert_int_equal(hfi_sdma_post(g_fix.c, &req), -EINVAL);                                               \
	} while (0)
	BAD(req.npkts = 0);
	BAD(req.npkts = 1);
	BAD(req.npkts = 3);
	BAD(req.npkts = HFI_SDMA_PKTS + 1);
	BAD(req.fragsize = 0);
	BAD(req.fragsize = FRAG + 4);
	BAD((req.fragsize = 2 * HFI_MTU, req.npkts = 1));
	BAD(req.iov_cnt = HFI_IOV_MAX + 1);
	BAD(req.comp_idx = 4);
	assert_int_equal(g_fake.sends, 0);
	assert_int_equal(hfi_sdma_post(g_fix.c, &good), 0);
	BAD(req.comp_idx = 0); /* its completion has not been read */
	hfi_sdma_free(g_fix.c, 0);
	assert_int_equal(hfi_sdma_post(g_fix.c, &good), 0);
	hfi_sdma_free(g_fix.c, 0);
}

/* Without room requests wait in line, and go on when there is some: by a poll or by the adapter's thread. */
static void queue__no_room(void **state)
{
	const struct iovec iov = {buf, 3 * FRAG};
	struct link_port *port = pair_port(on_frame);
	struct hfi_sdma_req req;

	got_cnt = 0;
	no_room(UINT32_MAX);
	assert_int_equal(fake_deadline(), CLK_NEVER);
	for (uint16_t i = 0; i < 4; i++) {
		req = req_of(&iov, 1, 3, i);
		req.hdr.psn_tx = le32_put(3u * i);
		assert_int_equal(hfi_sdma_post(g_fix.c, &req), 0);
		assert_int_equal(status(i), HFI_SDMA_QUEUED);
	}
	assert_true(fake_deadline() < g_fake.now_ns + NS_PER_SEC);
	req.comp_idx = 0;
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), -EBUSY);
	hfi_sdma_free(g_fix.c, 0); /* it is not done: nothing happens */
	assert_int_equal(hfi_ctxt_poll(g_fix.c), 0);
	assert_int_equal(status(0), HFI_SDMA_QUEUED);
	no_room(0);
	fake_poll_all();
	link_poll(port);
	assert_int_equal(got_cnt, 12);
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(hfi_hdr_psn(&got[i].hdr), i);
	for (uint16_t i = 0; i < 4; i++) {
		assert_int_equal(status(i), HFI_SDMA_COMPLETE);
		hfi_sdma_free(g_fix.c, i);
	}
	link_port_close(port);
}

static void queue__peer_gone(void **state)
{
	const struct iovec iov = {buf, FRAG};
	struct hfi_sdma_req req;
	struct hfi_dst *other;

	assert_int_equal(hfi_dst_get(g_fix.c, hfi_dst_lid(g_fix.dst), PEER_RX + 1, &other), 0);
	no_room(UINT32_MAX);
	for (uint16_t i = 0; i < 4; i++) {
		req = req_of(&iov, 1, 1, i);
		if (i % 2)
			req.dst = other;
		assert_int_equal(hfi_sdma_post(g_fix.c, &req), 0);
	}
	hfi_dst_put(other); /* the requests keep it */
	fake_gone(g_fix.port, &g_fix.from, -ECONNREFUSED);
	assert_int_equal(status(0), HFI_SDMA_ERROR);
	assert_int_equal(status(1), HFI_SDMA_QUEUED);
	assert_int_equal(status(2), HFI_SDMA_ERROR);
	assert_int_equal(status(3), HFI_SDMA_QUEUED);
	no_room(0);
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(status(1), HFI_SDMA_COMPLETE);
	assert_int_equal(status(3), HFI_SDMA_COMPLETE);
	assert_int_equal(slab_used(&g_fix.hfi->dsts), 1);
}

static void post__nobody_there(void **state)
{
	const struct iovec iov = {buf, 2 * FRAG};
	struct hfi_sdma_req req = req_of(&iov, 1, 2, 1);

	g_fake.send_rc = -ECONNREFUSED;
	g_fake.send_rc_cnt = 1;
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), -ECONNREFUSED);
	assert_int_equal(status(1), HFI_SDMA_FREE);
	no_room(1);
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), 0);
	g_fake.send_rc = -EHOSTUNREACH;
	g_fake.send_rc_cnt = 1;
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(status(1), HFI_SDMA_ERROR);
}

/* The context closes with requests in line. */
static void close__in_line(void **state)
{
	const struct iovec iov = {buf, FRAG};
	struct hfi_sdma_req req = req_of(&iov, 1, 1, 1);

	no_room(UINT32_MAX);
	assert_int_equal(hfi_sdma_post(g_fix.c, &req), 0);
	assert_int_equal(status(1), HFI_SDMA_QUEUED); /* fix_close() looks whether it is freed */
}

#define TEST(name_) cmocka_unit_test_setup_teardown(name_, fix_open, fix_close)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(post__headers), TEST(post__expected), TEST(post__limits),
		TEST(queue__no_room), TEST(queue__peer_gone), TEST(post__nobody_there),
		TEST(close__in_line),
	};

	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(i * 5 + (i >> 9));
	fix_env("");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
