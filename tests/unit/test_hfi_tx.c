// SPDX-License-Identifier: BSD-2-Clause
// Packets out by programmed I/O: headers, limits, every answer of the link; destinations; the port's state.
#include "hfi_fix.h"

#include <unistd.h>

static struct {
	struct hfi_hdr hdr;
	uint8_t data[HFI_MTU];
	uint32_t len;
	unsigned cnt;
} got;

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	struct view v = view_of(frame, len);

	view_copy(&v, 0, &got.hdr, sizeof(got.hdr));
	got.len = len - hfi_hdr_len(&got.hdr);
	view_copy(&v, hfi_hdr_len(&got.hdr), got.data, sizeof(got.data));
	got.cnt++;
	return 0;
}

/* In place where there is memory, else out of @iov. @head: bytes of the header. */
static int send_head(size_t head, const struct iovec *iov, int iov_cnt)
{
	struct hfi_hdr h, *in_place;
	size_t len = 0;
	uint8_t *at;

	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	hfi_dst_hdr(g_fix.dst, &h);
	h.opcode = 0xfc;
	h.bth1 = head < sizeof(h) ? HFI_BTH_CUT : 0;
	in_place = len <= hfi_ctxt_info(g_fix.c)->mtu ? hfi_pio_begin(g_fix.c, g_fix.dst, head, len) : NULL;
	if (!in_place)
		return hfi_pio_send(g_fix.c, g_fix.dst, &h, iov, iov_cnt);
	memcpy(in_place, &h, head);
	at = (uint8_t *)in_place + head;
	for (int i = 0; i < iov_cnt; i++) {
		memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	hfi_pio_commit(g_fix.c, g_fix.dst, in_place, head, len);
	return 0;
}

static int send(const struct iovec *iov, int iov_cnt)
{
	return send_head(sizeof(struct hfi_hdr), iov, iov_cnt);
}

/* What a peer's door would say of it. */
static void check_hdr(const struct hfi_hdr *h, uint32_t len)
{
	const struct hfi_ctxt_info *info = hfi_ctxt_info(g_fix.c);

	assert_int_equal(be16_get(h->lrh_flags), info->sc << 12 | info->sl << 4 | 2);
	assert_int_equal(be16_get(h->dlid), hfi_dst_lid(g_fix.dst));
	assert_int_equal(be16_get(h->slid), info->lid);
	assert_int_equal(be16_get(h->pktlen), (56 - (h->bth1 & HFI_BTH_CUT) + len + 3) / 4 + 1);
	assert_int_equal(h->bth1 & ~HFI_BTH_CUT, (4 - len % 4) % 4);
	assert_int_equal(be16_get(h->pkey), HFI_PKEY_DEFAULT);
	assert_int_equal(h->qp, 0x80);
	assert_int_equal(h->dest_rx, PEER_RX);
	assert_int_equal(hfi_hdr_tx(h), info->send_ctxt);
	assert_int_equal(le32_get(h->kdeth), 1u << 30);
	assert_int_equal(le16_get(h->jkey), info->jkey);
	assert_int_equal(h->opcode, 0xfc);
}

static void header_and_bytes(size_t head)
{
	static uint8_t buf[HFI_MTU];
	struct link_port *port = pair_port(on_frame);

	for (uint32_t len = 0; len <= HFI_MTU; len = len < 70 ? len + 1 : len * 2 - 1) {
		const struct iovec iov[] = {{buf, len / 3}, {buf + len / 3, 0}, {buf + len / 3, len - len / 3}};

		memset(buf, (int)len, sizeof(buf));
		got.cnt = 0;
		assert_int_equal(send_head(head, iov, 3), 0);
		link_poll(port);
		assert_int_equal(got.cnt, 1);
		assert_int_equal(hfi_hdr_len(&got.hdr), head);
		assert_int_equal(got.len, len);
		assert_memory_equal(got.data, buf, len);
		check_hdr(&got.hdr, len);
	}
	assert_int_equal(stats_now().net.shm_tx_pkts, stats_now().pio_pkts);
	link_port_close(port);
}

static void pio__header_and_bytes(void **state)
{
	unsigned sends;

	header_and_bytes(sizeof(struct hfi_hdr));
	header_and_bytes(HFI_HDR_CUT);
	assert_int_equal(g_fake.directs, 0);
	sends = g_fake.sends;
	g_fake.has_direct = true;
	header_and_bytes(sizeof(struct hfi_hdr)); /* all of them, of whatever length */
	header_and_bytes(HFI_HDR_CUT);
	assert_int_equal(g_fake.directs, sends);
	assert_int_equal(g_fake.sends, sends);
}

/* Where there is no memory: is it for want of credits, or not the way of this packet? */
static void pio__full(void **state)
{
	assert_null(hfi_pio_begin(g_fix.c, g_fix.dst, sizeof(struct hfi_hdr), HFI_MTU));
	assert_false(hfi_pio_full(g_fix.c, g_fix.dst));
	assert_int_equal(stats_now().credit_waits, 0);
	g_fake.is_full = true;
	assert_true(hfi_pio_full(g_fix.c, g_fix.dst));
	assert_int_equal(stats_now().credit_waits, 1);
	assert_int_equal(stats_now().pio_pkts, 0);
}

/* A packet like any other, but for when it leaves. */
static void pio__late(void **state)
{
	struct link_port *port = pair_port(on_frame);
	struct hfi_hdr h;

	hfi_dst_hdr(g_fix.dst, &h);
	h.opcode = 0xfc;
	got.cnt = 0;
	assert_int_equal(hfi_pio_send_late(g_fix.c, g_fix.dst, &h), 0);
	assert_int_equal(g_fake.lates, 1);
	link_poll(port);
	assert_int_equal(got.cnt, 1);
	assert_int_equal(got.len, 0);
	check_hdr(&got.hdr, 0);
	assert_int_equal(stats_now().pio_pkts, 1);
	g_fake.send_rc = -EAGAIN;
	g_fake.send_rc_cnt = 1;
	assert_int_equal(hfi_pio_send_late(g_fix.c, g_fix.dst, &h), -EAGAIN);
	assert_int_equal(stats_now().credit_waits, 1);
	assert_int_equal(stats_now().pio_pkts, 1);
	link_port_close(port);
}

static void pio__counts(void **state)
{
	const struct iovec iov = {got.data, 100};

	assert_int_equal(send(&iov, 1), 0);
	assert_int_equal(send(NULL, 0), 0);
	assert_int_equal(stats_now().pio_pkts, 2);
	assert_int_equal(stats_now().pio_bytes, 100);
	hfi_doorbell(g_fix.c);
	assert_int_equal(g_fake.doorbells, 1);
}

static void pio__limits(void **state)
{
	static uint8_t buf[HFI_MTU];
	const struct iovec iov[] = {{buf, HFI_MTU}, {buf, 1}};

	assert_int_equal(hfi_ctxt_info(g_fix.c)->mtu, HFI_MTU);
	assert_int_equal(send(iov, 2), -EMSGSIZE);
	assert_int_equal(g_fake.sends, 0);
	assert_int_equal(send(iov, 1), 0);
}

static void pio__answers_of_the_link(void **state)
{
	static const int rc[] = {-EAGAIN, -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH};

	for (size_t i = 0; i < ARRAY_SIZE(rc); i++) {
		g_fake.send_rc = rc[i];
		g_fake.send_rc_cnt = 1;
		assert_int_equal(send(NULL, 0), rc[i]);
	}
	assert_int_equal(stats_now().credit_waits, 1);
	assert_int_equal(stats_now().pio_pkts, 0);
}

/* The port is down from 1 s to 2 s after opening: to and from this host packets go on. */
static void port__down_window(void **state)
{
	const struct hfi_hdr h = pkt_from(0, 0);
	const uint64_t opened = g_fake.now_ns;

	for (unsigned s = 0; s < 3; s++) {
		bool is_up = s != 1;

		g_fake.now_ns = opened + s * NS_PER_SEC;
		assert_int_equal(hfi_port_is_up(g_fix.hfi), is_up);
		g_fake.is_remote = true;
		assert_int_equal(send(NULL, 0), is_up ? 0 : -ENETDOWN);
		g_fix.cnt = 0;
		put(&h, NULL, 0, true);
		assert_int_equal(g_fix.cnt, is_up);
		g_fake.is_remote = false;
		assert_int_equal(send(NULL, 0), 0);
		put(&h, NULL, 0, true);
		assert_int_equal(g_fix.cnt, is_up + 1);
	}
	assert_int_equal(stats_now().drop[HFI_DROP_PORT_DOWN], 1);
}

static void port__no_context_while_down(void **state)
{
	struct hfi_ctxt_attr attr = {.ctxt = -1, .pkey = HFI_PKEY_DEFAULT};
	struct hfi_ctxt *c;

	g_fake.now_ns += NS_PER_SEC;
	lock_release(&g_fix.lock);
	assert_int_equal(hfi_ctxt_open(g_fix.hfi, &attr, &c), -ENETDOWN);
	lock_acquire(&g_fix.lock);
}

static void dst__same_for_same_place(void **state)
{
	struct hfi_dst *again, *other;
	uint16_t lid = hfi_dst_lid(g_fix.dst);
	int mark;

	assert_int_equal(hfi_dst_get(g_fix.c, lid, PEER_RX, &again), 0);
	assert_ptr_equal(again, g_fix.dst);
	assert_null(hfi_dst_user(again));
	hfi_dst_set_user(again, &mark);
	assert_ptr_equal(hfi_dst_user(g_fix.dst), &mark);
	hfi_dst_put(again);
	assert_int_equal(hfi_dst_get(g_fix.c, lid, PEER_RX + 1, &other), 0);
	assert_ptr_not_equal(other, g_fix.dst);
	assert_int_equal(hfi_dst_rx(other), PEER_RX + 1);
	hfi_dst_put(other);
	assert_int_equal(g_fake.peers, 1);
}

static void dst__bad_addresses(void **state)
{
	struct hfi_dst *dst;

	assert_int_equal(hfi_dst_get(g_fix.c, 0, 0, &dst), -EINVAL);
	assert_int_equal(hfi_dst_get(g_fix.c, HFI_LID_MAX + 1, 0, &dst), -EINVAL);
	assert_int_equal(hfi_dst_get(g_fix.c, hfi_dst_lid(g_fix.dst), HFI_CTXT_MAX, &dst), -EINVAL);
	assert_int_equal(hfi_dst_get(g_fix.c, (hfi_dst_lid(g_fix.dst) + 1000) % HFI_LID_MAX + 1, 0, &dst),
			 -ENETUNREACH);
	g_fake.peer_rc = -ENETUNREACH;
	assert_int_equal(hfi_dst_get(g_fix.c, hfi_dst_lid(g_fix.dst), 0, &dst), -ENETUNREACH);
}

static void dst__connect(void **state)
{
	assert_int_equal(hfi_dst_connect(g_fix.dst), 0);
	g_fake.connect_rc = -ECONNREFUSED;
	assert_int_equal(hfi_dst_connect(g_fix.dst), -ECONNREFUSED);
	assert_true(hfi_dst_is_host(g_fix.dst));
}

static void copy__ends(void **state)
{
	static uint8_t theirs[100], ours[100];
	struct link_port *port = pair_port(on_frame);
	uint32_t key;

	memset(theirs, 5, sizeof(theirs));
	assert_int_equal(hfi_expose(g_fix.c, theirs, sizeof(theirs), HFI_COPY_GET, &key), 0);
	assert_int_equal(hfi_copy(g_fix.dst, HFI_COPY_GET, ours, 100, (uintptr_t)theirs, key, NULL), 0);
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(g_fix.copies, 1);
	assert_int_equal(g_fix.copy_status, 0);
	assert_memory_equal(ours, theirs, 100);
	assert_int_equal(hfi_copy(g_fix.dst, HFI_COPY_PUT, ours, 100, (uintptr_t)theirs, key, NULL), 0);
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(g_fix.copy_status, -EACCES);
	g_fake.bulk_verdict = 3; /* a refusal of the frames is one of the copy */
	g_fake.bulk_verdict_cnt = 1;
	assert_int_equal(hfi_copy(g_fix.dst, HFI_COPY_GET, ours, 100, (uintptr_t)theirs, key, NULL), 0);
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(g_fix.copies, 3);
	assert_int_equal(g_fix.copy_status, -EACCES);
	g_fake.bulk_verdict = -ENOTCONN; /* its owner closes */
	g_fake.bulk_verdict_cnt = 1;
	assert_int_equal(hfi_copy(g_fix.dst, HFI_COPY_GET, ours, 100, (uintptr_t)theirs, key, NULL), 0);
	hfi_ctxt_poll(g_fix.c);
	assert_int_equal(g_fix.copies, 4);
	assert_int_equal(g_fix.copy_status, -EACCES);
	hfi_conceal(g_fix.c, key);
	link_port_close(port);
}

/* Nothing leaks and nothing is left half open, whichever allocation fails. */
static void open__no_memory(void **state)
{
	struct hfi_ctxt_attr attr = {.ctxt = -1, .pkey = HFI_PKEY_DEFAULT};
	struct hfi_ctxt *c;
	int rc = -ENOMEM;

	lock_release(&g_fix.lock);
	for (uint64_t n = 1; rc; n++) {
		int64_t live = mem_live_count();

		mem_fail_nth(n);
		rc = hfi_ctxt_open(g_fix.hfi, &attr, &c);
		mem_fail_nth(0);
		assert_true(rc == 0 || (rc == -ENOMEM && mem_live_count() == live));
	}
	lock_acquire(&g_fix.lock);
	hfi_ctxt_close(c);
}

static void stats__sum(void **state)
{
	struct hfi_ctxt_attr attr = {.ctxt = -1, .pkey = HFI_PKEY_DEFAULT};
	struct hfi_stats sum;
	struct hfi_ctxt *c;

	lock_release(&g_fix.lock);
	assert_int_equal(hfi_ctxt_open(g_fix.hfi, &attr, &c), 0);
	lock_acquire(&g_fix.lock);
	assert_int_equal(send(NULL, 0), 0);
	fake_stats(c->claim.port)->fault_drop = 7;
	c->stats.tid_stale = 2;
	hfi_query_stats(g_fix.hfi, &sum);
	assert_int_equal(sum.pio_pkts, 1);
	assert_int_equal(sum.net.fault_drop, 7);
	hfi_ctxt_close(c);
	hfi_query_stats(g_fix.hfi, &sum);
	assert_int_equal(sum.net.fault_drop, 7);
	assert_int_equal(sum.tid_stale, 2);
	assert_int_equal(sum.net.net_tx_dgrams, 1); /* what closing itself has sent */
}

static void stats__line(void **state)
{
	char path[64], text[4096];
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "/tmp/sf_hfi_stats_%ld", (long)getpid());
	setenv("SOFTFABRIC_STATS", path, 1);
	assert_int_equal(send(NULL, 0), 0);
	lock_release(&g_fix.lock);
	nic_stats_end(g_fix.hfi->node, &g_fix.lock, hfi_stats_tell, g_fix.hfi);
	lock_acquire(&g_fix.lock);
	unsetenv("SOFTFABRIC_STATS");
	snprintf(text, sizeof(text), "%s.%ld", path, (long)getpid());
	f = fopen(text, "r");
	unlink(text);
	assert_non_null(f);
	len = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[len] = '\0';
	assert_non_null(strstr(text, "adapter=hfi1_0 pid="));
	assert_non_null(strstr(text, " pio_pkts=1 "));
	assert_non_null(strstr(text, " drop_kver=0 "));
}

#define TEST(name_) cmocka_unit_test_setup_teardown(name_, fix_open, fix_close)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pio__header_and_bytes),
		TEST(pio__full),
		TEST(pio__late),
		TEST(pio__counts),
		TEST(pio__limits),
		TEST(pio__answers_of_the_link),
		TEST(port__down_window),
		TEST(port__no_context_while_down),
		TEST(dst__same_for_same_place),
		TEST(dst__bad_addresses),
		TEST(dst__connect),
		TEST(copy__ends),
		TEST(open__no_memory),
		TEST(stats__sum),
		TEST(stats__line),
	};

	fix_env("down=1s-2s");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
