// SPDX-License-Identifier: BSD-2-Clause
// See hfi_pair.h.
#include "hfi_pair.h"

struct pair g_w;
uint64_t g_until_ns;
static const char *const path_name[PATH_NUM] = {"shm", "udp", "sim", "lossy"};

uint64_t now_ns(void)
{
	return hfi_now_ns(g_w.a.hfi);
}

static int poll_side(struct side *s)
{
	return s->c ? hfi_ctxt_poll(s->c) : 0;
}

void turn(void)
{
	int n = poll_side(&g_w.a) + poll_side(&g_w.b);

	assert_true(now_ns() < g_until_ns);
	if (!n && g_w.sim)
		sim_step(g_w.sim, now_ns() + 10 * NS_PER_MS);
}

#define SETTLE_TURNS 200 /* a busy machine may take away the processor for all of the time */

void settle(void)
{
	uint64_t end_ns = now_ns() + (g_w.sim ? 2 * NS_PER_SEC : 5 * NS_PER_MS);
	int turns = 0;

	UNTIL(++turns > SETTLE_TURNS && now_ns() >= end_ns);
}

/* --- what is heard --- */

static void hear(struct side *s, const struct hfi_pkt *pkt)
{
	struct got *g;

	if (s->on_pkt) {
		s->on_pkt(s, pkt);
		return;
	}
	g = &s->got[s->got_cnt++ % GOT_MAX];
	g->hdr = *pkt->hdr;
	g->type = pkt->type;
	g->is_service = pkt->is_service;
	g->src = pkt->src;
	g->len = pkt->data.len;
	assert_int_equal(view_copy(&pkt->data, 0, g->data, sizeof(g->data)), pkt->data.len);
}

static void on_pkt(void *ctx, const struct hfi_pkt *pkt)
{
	struct side *s = ctx;

	s->shown_cnt++;
	hear(s, pkt);
}

static bool on_service(void *ctx, const struct hfi_pkt *pkt)
{
	struct side *s = ctx;

	s->shown_cnt++;
	if (s->refuses)
		return false;
	hear(s, pkt);
	return true;
}

static void on_gone(void *ctx, struct hfi_dst *dst, int status)
{
	struct side *s = ctx;

	assert_ptr_equal(dst, s->dst);
	s->gone_cnt++;
	s->gone_status = status;
}

static void on_copy(void *ctx, void *cookie, int status)
{
	struct side *s = ctx;

	s->copy_cnt++;
	s->copy_cookie = cookie;
	s->copy_status = status;
}

/* --- the world --- */

void pair_env(void)
{
	setenv("SOFTFABRIC_NET", "shm,udp;linger=200ms", 1);
	setenv("SOFTFABRIC_OPX", "units=2;rcvhdrq=32;egr=65536;sdma_ring=4;pkeys=0x8001,0x7fff,0x8002", 1);
}

int side_ctxt_open(struct side *s, int ctxt)
{
	struct hfi_ctxt_attr attr = {
		.uuid = {1, 2, 3},
		.ctxt = ctxt,
		.pkey = HFI_PKEY_DEFAULT,
		.on_pkt = on_pkt,
		.on_service = on_service,
		.on_gone = on_gone,
		.on_copy = on_copy,
		.ctx = s,
	};
	int rc;

	lock_release(&s->lock);
	rc = hfi_ctxt_open(s->hfi, &attr, &s->c);
	lock_acquire(&s->lock);
	return rc;
}

static bool is_threaded;

void pair_threads(bool has_threads)
{
	is_threaded = has_threads;
}

static void side_open(struct side *s, int unit)
{
	struct hfi_open_attr attr = {.unit = unit, .lock = &s->lock, .no_thread = !is_threaded,
				     .world = sim_world(g_w.sim), .no_shm = g_w.path == PATH_UDP};

	s->got = calloc(GOT_MAX, sizeof(*s->got));
	assert_non_null(s->got);
	assert_int_equal(hfi_open(&attr, &s->hfi), 0);
	lock_acquire(&s->lock);
	assert_int_equal(side_ctxt_open(s, -1), 0);
}

void side_ctxt_close(struct side *s)
{
	if (s->dst)
		hfi_dst_put(s->dst);
	s->dst = NULL;
	hfi_ctxt_close(s->c);
	s->c = NULL;
}

static void side_close(struct side *s)
{
	if (s->c)
		side_ctxt_close(s);
	lock_release(&s->lock);
	hfi_close(s->hfi);
	free(s->got);
}

void side_meet(struct side *s, const struct side *to)
{
	const struct hfi_ctxt_info *info = hfi_ctxt_info(to->c);

	assert_int_equal(hfi_dst_get(s->c, info->lid, (uint8_t)info->ctxt, &s->dst), 0);
	assert_int_equal(hfi_dst_lid(s->dst), info->lid);
	assert_int_equal(hfi_dst_rx(s->dst), info->ctxt);
}

static int64_t live;

void pair_open(enum path path)
{
	struct rng rng = unit_rng();
	struct sim_attr attr = {.seed = rng_u64(&rng), .jitter_ns = 2000};

	live = mem_live_count();
	memset(&g_w, 0, sizeof(g_w));
	g_w.path = path;
	g_w.rng = rng;
	if (path == PATH_LOSSY) {
		attr.drop_ppm = 50000;
		attr.dup_ppm = 20000;
		attr.reorder_ppm = 50000;
	}
	if (path == PATH_SIM || path == PATH_LOSSY)
		assert_int_equal(sim_world_open(&attr, &g_w.sim), 0);
	side_open(&g_w.a, 0);
	side_open(&g_w.b, 1);
	side_meet(&g_w.a, &g_w.b);
	side_meet(&g_w.b, &g_w.a);
}

void pair_close(void)
{
	side_close(&g_w.a);
	side_close(&g_w.b);
	sim_world_close(g_w.sim);
	assert_int_equal(mem_live_count(), live);
}

void on_all_paths(void (*body)(void))
{
	for (enum path path = 0; path < PATH_NUM; path++) {
		print_message("path %s\n", path_name[path]);
		pair_open(path);
		body();
		pair_close();
	}
}

/* --- packets --- */

struct hfi_hdr hdr_to(const struct side *s, uint32_t psn)
{
	struct hfi_hdr h;

	hfi_dst_hdr(s->dst, &h);
	h.opcode = 0xf9;
	h.psn_tx = le32_put(le32_get(h.psn_tx) | psn);
	return h;
}

int send_pkt(struct side *s, uint32_t psn, const void *buf, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	struct hfi_hdr h = hdr_to(s, psn);
	int rc;

	UNTIL((rc = hfi_pio_send(s->c, s->dst, &h, &iov, len != 0)) != -EAGAIN);
	hfi_doorbell(s->c);
	return rc;
}

struct hfi_stats stats_of(const struct side *s)
{
	struct hfi_stats st;

	hfi_ctxt_query_stats(s->c, &st);
	return st;
}

void fill(uint8_t *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + salt);
}
