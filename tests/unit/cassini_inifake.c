// SPDX-License-Identifier: BSD-2-Clause
// See cassini_inifake.h.
#include "cassini_inifake.h"
#include "nic/cassini/cassini_tgt.h"

struct inifake g_inifake;

/* --- the link --- */

static int frame_take(struct link_peer *peer, const struct iovec *iov, int iov_cnt, bool is_one, void *cookie)
{
	struct inifake *f = &g_inifake;
	struct fake_sent *s;

	assert_non_null(peer);
	if (f->send_rc_cnt) {
		f->send_rc_cnt--;
		return f->send_rc;
	}
	assert_in_range(f->sents, 0, FAKE_SENT_MAX - 1);
	s = &f->sent[f->sents++];
	s->work = cookie;
	s->peer = peer;
	s->len = 0;
	s->is_one = is_one;
	for (int i = 0; i < iov_cnt; i++) {
		assert_in_range(s->len + iov[i].iov_len, 0, LINK_FRAME_MAX);
		if (iov[i].iov_len)
			memcpy(s->buf + s->len, iov[i].iov_base, iov[i].iov_len);
		s->len += (uint32_t)iov[i].iov_len;
	}
	if (f->is_sync)
		s->work->on_sent(s->work, f->sync_status);
	return 0;
}

int link_send(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len, const struct iovec *iov,
	      int iov_cnt, void *cookie)
{
	struct iovec all[1 + LINK_IOV_MAX] = {{(void *)(uintptr_t)hdr, hdr_len}};

	(void)p;
	assert_in_range(hdr_len, 1, LINK_HDR_MAX);
	memcpy(all + 1, iov, (size_t)iov_cnt * sizeof(*iov));
	return frame_take(peer, all, iov_cnt + 1, false, cookie);
}

uint64_t link_now_ns(const struct link_node *n)
{
	(void)n;
	return g_inifake.now_ns;
}

bool link_peer_is_local(const struct link_peer *peer)
{
	assert_non_null(peer);
	return !g_inifake.is_far;
}

uint8_t *link_begin(struct link_port *p, struct link_peer *peer, enum link_class cls, size_t len)
{
	(void)p;
	assert_int_equal(cls, LINK_ORDERED);
	assert_non_null(peer);
	assert_in_range(len, 1, LINK_FRAME_MAX);
	if (len > LINK_OWN_MAX && g_inifake.is_far)
		return NULL;
	return g_inifake.has_direct ? g_inifake.direct : NULL;
}

void link_commit(struct link_port *p, struct link_peer *peer, enum link_class cls, uint8_t *frame, size_t len,
		 void *cookie, uint64_t tag)
{
	struct inifake *f = &g_inifake;
	struct iovec all = {frame, len};

	(void)p, (void)peer;
	assert_int_equal(cls, LINK_ORDERED);
	assert_ptr_equal(frame, f->direct);
	if (cookie) {
		assert_in_range(len, 1, LINK_OWN_MAX);
		assert_int_equal(frame_take(peer, &all, 1, true, cookie), 0);
		return;
	}
	f->directs++;
	f->directs_out++;
	f->direct_len = len;
	f->direct_tag = tag;
}

bool link_peer_is_idle(const struct link_peer *peer)
{
	(void)peer;
	return !g_inifake.directs_out;
}

bool link_is_idle(const struct link_port *p)
{
	return p ? p != g_inifake.busy_port : !g_inifake.directs_out;
}

bool link_bulk_is_direct(const struct link_peer *peer)
{
	assert_non_null(peer);
	return g_inifake.is_local;
}

void link_offer_missed(struct link_port *p, struct link_peer *peer, uint32_t key)
{
	g_inifake.offers_missed++;
}

void link_offer(struct link_port *p, struct link_peer *peer, uint32_t key, uint64_t addr, size_t len)
{
	g_inifake.offered = len;
}

void *link_peer_user(const struct link_peer *peer)
{
	return (void *)(uintptr_t)peer; /* as cassini_peer_get() makes them */
}

void link_doorbell(struct link_port *p)
{
	(void)p;
	g_inifake.doorbells++;
}

int link_port_region_add(struct link_port *p, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	struct inifake *f = &g_inifake;

	(void)p;
	if (f->region_rc)
		return f->region_rc;
	assert_in_range(f->regions, 0, FAKE_SENT_MAX - 1);
	f->region[f->regions] = (struct fake_region){addr, len, rights, true};
	f->regions_live++;
	*key = ++f->regions;
	return 0;
}

bool link_region_is_spoilt(const struct link_node *n, uint32_t key)
{
	(void)n;
	(void)key;
	return false;
}

void link_region_del(struct link_node *n, uint32_t key)
{
	(void)n;
	assert_in_range(key, 1, g_inifake.regions);
	assert_true(g_inifake.region[key - 1].is_live);
	g_inifake.region[key - 1].is_live = false;
	g_inifake.regions_live--;
}

/* --- what other files of the adapter do --- */

int cassini_rsrc_get(struct cassini_lni *lni, enum cassini_rsrc r)
{
	if (lni->used[r] >= lni->svc.max[r])
		return -ENOSPC;
	lni->used[r]++;
	return 0;
}

void cassini_rsrc_put(struct cassini_lni *lni, enum cassini_rsrc r)
{
	assert_in_range(lni->used[r], 1, UINT32_MAX);
	lni->used[r]--;
}

int cassini_peer_get(struct cassini_dom *dom, uint32_t nic, uint16_t pid, struct cassini_peer **out)
{
	struct world *w = container_of(dom, struct world, dom);
	struct cassini_peer *peer;

	if (g_inifake.peer_rc)
		return g_inifake.peer_rc;
	assert_int_equal(nic, FAKE_NIC);
	assert_in_range(pid, 0, FAKE_PEERS - 1);
	peer = &w->peer[pid];
	peer->dom = dom;
	peer->nic = nic;
	peer->pid = pid;
	peer->match_id = CASSINI_MATCH_ID(pid, nic);
	peer->put_word = cassini_put_word(FAKE_VNI, pid);
	peer->link = (void *)peer; /* only its value matters */
	g_inifake.peer_gets++;
	*out = peer;
	return 0;
}

void cassini_peer_gone(struct cassini_peer *peer, uint32_t life)
{
	struct cassini_op *op;

	if (life != peer->life)
		return;
	peer->life++;
	peer->link = NULL;
	g_inifake.gone++;
	while ((op = LIST_FIRST(&peer->waiting)))
		cassini_ini_lost(op, CASSINI_RC_UNDELIVERABLE);
}

void cassini_peer_await(struct cassini_peer *peer, struct cassini_op *op)
{
	if (!peer->owed++)
		LIST_INSERT_HEAD(&peer->dom->awaited, peer, await);
	LIST_INSERT_HEAD(&peer->waiting, op, await);
}

void cassini_peer_unawait(struct cassini_peer *peer, struct cassini_op *op)
{
	LIST_REMOVE(op, await);
	if (!--peer->owed)
		LIST_REMOVE(peer, await);
}

void cassini_tgt_get_event(struct cassini_dom *dom, uint32_t initiator, uint64_t get_bits, uint32_t mlength, uint8_t rc)
{
	(void)dom;
	assert_int_equal(mlength, 0);
	g_inifake.get_events++;
	g_inifake.get_initiator = initiator;
	g_inifake.get_bits = get_bits;
	g_inifake.get_rc = rc;
}

/* --- the world --- */

void world_open(struct world *w, uint32_t slots, uint32_t depth)
{
	struct cassini_cmdq_attr attr = {.depth = depth, .has_trig = true};

	memset(w, 0, sizeof(*w));
	memset(&g_inifake, 0, sizeof(g_inifake));
	w->live = mem_live_count();
	w->nic.open.lock = &w->lock;
	w->lni.nic = &w->nic;
	for (int r = 0; r < CASSINI_RSRC_NUM; r++)
		w->lni.svc.max[r] = 8;
	LIST_INSERT_HEAD(&w->nic.lnis, &w->lni, link);
	w->cp = attr.cp = &w->lni.cp[0];
	*w->cp = (struct cassini_cp){.lni = &w->lni, .refs = 1, .vni = FAKE_VNI};
	w->dom.nic = &w->nic;
	w->dom.lni = &w->lni;
	w->dom.vni = FAKE_VNI;
	w->dom.pid = 7;
	w->dom.match_id = CASSINI_MATCH_ID(7, 0x54321);
	assert_int_equal(slab_init(&w->dom.ops, sizeof(struct cassini_op), CACHE_LINE, 16, 0), 0);
	mt_unexp_init(&w->dom.rdzv);
	LIST_INSERT_HEAD(&w->nic.doms, &w->dom, link);
	for (size_t i = 0; i < sizeof(w->mem); i++)
		w->mem[i] = (uint8_t)(i * 7 + i / 256);
	lock_acquire(&w->lock);
	assert_int_equal(cassini_eq_open(&w->lni, slots, 0, &w->eq), 0);
	assert_int_equal(cassini_cmdq_open(&w->lni, &attr, &w->cq), 0);
}

void world_close(struct world *w)
{
	cassini_cmdq_close(w->cq);
	if (w->eq) {
		expect_none(w);
		assert_int_equal(cassini_eq_free(w->eq), container_of(w->eq, struct cassini_eq_int, pub)->slots);
	}
	cassini_eq_close(w->eq);
	assert_int_equal(slab_used(&w->dom.ops), 0);
	assert_int_equal(mt_unexp_cnt(&w->dom.rdzv), 0);
	assert_true(LIST_EMPTY(&w->dom.awaited));
	assert_true(LIST_EMPTY(&w->dom.cmdqs));
	for (int i = 0; i < FAKE_PEERS; i++)
		assert_int_equal(w->peer[i].ordered, 0);
	for (int r = 0; r < CASSINI_RSRC_NUM; r++)
		assert_int_equal(w->lni.used[r], 0);
	assert_int_equal(g_inifake.regions_live, 0);
	slab_fini(&w->dom.ops);
	mt_unexp_fini(&w->dom.rdzv);
	lock_release(&w->lock);
	assert_int_equal(mem_live_count(), w->live);
}

struct cassini_cmd cmd_of(struct world *w, enum cassini_opcode opcode, unsigned pid_idx, uint32_t len, uint32_t flags)
{
	return (struct cassini_cmd){
		.opcode = (uint8_t)opcode,
		.pid_idx = (uint8_t)pid_idx,
		.pid = 1,
		.nic = FAKE_NIC,
		.flags = flags,
		.request_len = len,
		.dom = &w->dom,
		.eq = w->eq,
		.local_addr = w->mem,
		.remote_offset = 0x1122334455667788,
		.match_bits = 0x99aabbccddeeff00,
		.header_data = 0x0123456789abcdef,
		.user_ptr = len,
		.rendezvous_id = 3,
		.get_bits = 0x77000000 + len,
		.atomic_op = CASSINI_AMO_SUM,
		.atomic_type = CASSINI_T_U64,
		.op1 = {5, 6},
		.op2 = {7, 8},
		.fetch_addr = w->mem + 60000,
	};
}

int post(struct world *w, enum cassini_opcode opcode, unsigned pid_idx, uint32_t len, uint32_t flags)
{
	struct cassini_cmd cmd = cmd_of(w, opcode, pid_idx, len, flags);

	return cassini_post(w->cq, &cmd);
}

void sent_end(unsigned i, int status)
{
	struct cassini_work *work;

	assert_in_range(i + 1, 1, g_inifake.sents);
	work = g_inifake.sent[i].work;
	assert_non_null(work);
	g_inifake.sent[i].work = NULL;
	work->on_sent(work, status);
}

struct cassini_pkt_in sent_pkt(unsigned i)
{
	struct cassini_pkt_in pkt;
	struct view v;

	assert_in_range(i + 1, 1, g_inifake.sents);
	v = view_of(g_inifake.sent[i].buf, g_inifake.sent[i].len);
	assert_int_equal(cassini_pkt_check(&v, &pkt), CASSINI_DROP_NONE);
	return pkt;
}

void answer(struct world *w, unsigned i, uint8_t rc, uint8_t list, const void *data, uint32_t len)
{
	struct cassini_pkt_in pkt = {.op = CASSINI_PKT_REPLY,
				     .rc = rc,
				     .ptl_list = list,
				     .handle = sent_pkt(i).handle,
				     .request_len = len,
				     .vni = FAKE_VNI,
				     .pid = 7};
	struct view v = view_of(data, data ? len : 0);

	cassini_ini_reply(&w->dom, &w->peer[1], &pkt, &v);
}

void expect_event(struct world *w, enum cassini_event_type type, enum cassini_rc rc, uint64_t user_ptr)
{
	const struct cassini_event *ev = cassini_eq_peek(w->eq);

	assert_non_null(ev);
	assert_int_equal(ev->type, type);
	assert_int_equal(ev->rc, rc);
	assert_int_equal(ev->user_ptr, user_ptr);
	cassini_eq_pop(w->eq);
}

void expect_none(struct world *w)
{
	assert_null(cassini_eq_peek(w->eq));
}
