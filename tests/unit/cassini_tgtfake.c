// SPDX-License-Identifier: BSD-2-Clause
// See cassini_tgtfake.h.
#include "cassini_tgtfake.h"

struct tf g_tf;
char g_tf_src[TF_BIG], g_tf_dst[TF_BIG + 64], g_tf_over[TF_BIG + 64];

/* --- what other files of the adapter would do --- */

int cassini_rsrc_get(struct cassini_lni *lni, enum cassini_rsrc r)
{
	if (lni->used[r] >= lni->svc.max[r])
		return -ENOSPC;
	lni->used[r]++;
	return 0;
}

void cassini_rsrc_put(struct cassini_lni *lni, enum cassini_rsrc r)
{
	must(lni->used[r]);
	lni->used[r]--;
}

uint64_t cassini_now_ns(const struct cassini *nic)
{
	return g_tf.now_ns;
}

void cassini_idle(struct cassini *nic)
{
	g_tf.now_ns += NS_PER_SEC / 10;
	if (g_tf.is_stopping && g_tf.bulk_done < g_tf.bulk_cnt)
		tf_bulk_end(0); /* by whoever polls while the lock is free */
}

int cassini_dom_poll(struct cassini_dom *dom)
{
	g_tf.poll_cnt++;
	if (!g_tf.poll_ends || g_tf.bulk_done == g_tf.bulk_cnt)
		return 0;
	tf_bulk_end(0);
	return 1;
}

void cassini_ct_add(struct cassini_ct *ct, uint64_t success, uint64_t failure)
{
	ct->success += success;
	ct->failure += failure;
}

int cassini_answer(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		   const void *data, size_t len)
{
	struct tf_answer *a;

	if (g_tf.no_answers)
		return -ENOMEM;
	a = &g_tf.answer[g_tf.answer_cnt++ % TF_MAX];
	must(len <= sizeof(a->data));
	must(len == pkt->payload_len);
	a->pkt = *pkt;
	a->peer = peer;
	if (len)
		memcpy(a->data, data, len);
	return 0;
}

void cassini_ini_got(struct cassini_dom *dom, struct cassini_peer *peer, uint32_t handle, uint64_t get_bits)
{
	must(peer == &g_tf.peer);
	g_tf.got_cnt++;
	g_tf.got_bits = get_bits;
}

void cassini_peer_gone(struct cassini_peer *peer, uint32_t life)
{
	g_tf.gone_cnt++;
}

void cassini_peer_look(struct cassini_peer *peer)
{
	g_tf.look_cnt++;
}

struct quota_source *link_peer_source(const struct link_peer *peer)
{
	return NULL;
}

void link_offer_missed(struct link_port *p, struct link_peer *peer, uint32_t key) {}

int link_bulk(struct link_port *p, struct link_peer *peer, int op, void *local, size_t len, uint64_t raddr,
	      uint32_t key, void *cookie)
{
	if (g_tf.bulk_rc)
		return g_tf.bulk_rc;
	must(g_tf.bulk_cnt < TF_MAX);
	g_tf.bulk[g_tf.bulk_cnt++] = (struct tf_bulk){op, local, len, raddr, key, cookie, false};
	if (g_tf.bulk_sync)
		tf_bulk_end(key == TF_REGION ? 0 : -EACCES);
	return 0;
}

bool link_bulk_stop(struct link_port *p, const void *cookie)
{
	for (unsigned i = g_tf.bulk_done; i < g_tf.bulk_cnt; i++)
		if (g_tf.bulk[i].work == cookie)
			g_tf.bulk[i].is_stopped = true;
	if (!g_tf.stop_busy_cnt)
		return true;
	g_tf.is_stopping = true;
	g_tf.stop_busy_cnt--;
	return false;
}

/* --- fixture --- */

void tf_open(struct cassini_pte_opts opts, uint32_t slots, uint32_t les)
{
	struct tf *t = &g_tf;
	struct cassini_lni *lni = &t->lni;

	memset(t, 0, sizeof(*t));
	t->live = mem_live_count();
	t->nic.open.lock = &t->lock;
	t->nic.info.version = 2;
	lock_acquire(&t->lock);
	lni->nic = &t->nic;
	for (unsigned i = 0; i < CASSINI_RSRC_NUM; i++)
		lni->svc.max[i] = 100;
	lni->svc.max[CASSINI_RSRC_LE] = les;
	t->dom.nic = &t->nic;
	t->dom.lni = lni;
	t->dom.vni = 1;
	t->dom.pid = 9;
	t->dom.match_id = CASSINI_MATCH_ID(9, 1);
	mt_unexp_init(&t->dom.rdzv);
	cassini_owe_init(&t->dom);
	assert_int_equal(slab_init(&t->dom.ops, sizeof(struct cassini_op), 64, 16, 0), 0);
	assert_int_equal(slab_init(&t->dom.answers, sizeof(struct cassini_ans), 64, 16, 0), 0);
	LIST_INSERT_HEAD(&t->nic.doms, &t->dom, link);
	t->peer = (struct cassini_peer){.dom = &t->dom, .link = (void *)&t->peer, .nic = TF_NIC, .pid = TF_PID};
	t->other = (struct cassini_peer){.dom = &t->dom, .link = (void *)&t->other, .nic = TF_NIC, .pid = TF_PID + 1};
	STAILQ_INIT(&t->peer.chain);
	STAILQ_INIT(&t->other.chain);
	assert_int_equal(cassini_eq_open(lni, slots + 4, 4, &t->eq), 0);
	assert_int_equal(cassini_pte_open(lni, t->eq, &opts, t, &t->pte), 0);
	assert_int_equal(cassini_pte_map(t->pte, &t->dom, TF_IDX), 0);
	assert_int_equal(cassini_set_state(t->pte, CASSINI_PTE_ENABLED, CASSINI_DROP_IGNORE), 0);
	assert_int_equal(tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK).state, CASSINI_PTE_ENABLED);
}

void tf_close(void)
{
	struct tf *t = &g_tf;

	cassini_pte_close(t->pte);
	while (t->bulk_done < t->bulk_cnt)
		tf_bulk_end(-ECANCELED);
	cassini_tgt_close(&t->dom);
	cassini_eq_close(t->eq);
	slab_fini(&t->dom.ops);
	slab_fini(&t->dom.answers);
	mt_unexp_fini(&t->dom.rdzv);
	for (unsigned i = 0; i < CASSINI_RSRC_NUM; i++)
		assert_int_equal(t->lni.used[i], 0);
	assert_true(LIST_EMPTY(&t->lni.waiting));
	for (unsigned i = 0; i < ARRAY_SIZE(t->nic.ptn_used); i++)
		assert_int_equal(t->nic.ptn_used[i], 0);
	lock_release(&t->lock);
	assert_int_equal(mem_live_count(), t->live);
}

struct cassini_le_attr tf_attr(enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t bits,
			       uint64_t user_ptr)
{
	return (struct cassini_le_attr){
		.list = list,
		.flags = flags,
		.start = start,
		.length = len,
		.match_id = CASSINI_MATCH_ID_ANY,
		.match_bits = bits,
		.user_ptr = user_ptr,
	};
}

struct cassini_le *tf_append(enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t bits,
			     uint64_t user_ptr)
{
	struct cassini_le_attr attr = tf_attr(list, flags, start, len, bits, user_ptr);
	struct cassini_le *le;

	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	return le;
}

struct cassini_pkt_in tf_pkt(enum cassini_pkt_op op, uint64_t bits, uint32_t len)
{
	struct cassini_pkt_in pkt = {
		.op = (uint8_t)op,
		.pid_idx = TF_IDX,
		.vni = 1,
		.pid = 9,
		.initiator = TF_PEER,
		.request_len = len,
		.match_bits = bits,
		.header_data = 0x4ead + bits,
		.handle = 4711,
	};

	if (op == CASSINI_PKT_PUT)
		pkt.payload_len = len;
	return pkt;
}

int tf_send(const struct cassini_pkt_in *pkt, const void *data)
{
	const uint8_t *frame = pkt->payload_len ? data : ""; /* tf_pkt() has no header */
	struct cassini_peer *from = pkt->initiator == TF_PEER ? &g_tf.peer : &g_tf.other;
	bool is_plain = pkt->op == CASSINI_PKT_PUT && !pkt->flags;
	struct cassini_le *le = is_plain ? cassini_tgt_entry(&g_tf.dom, pkt) : NULL;

	/* by the row of the door that it would come by */
	return le ? cassini_tgt_put(&g_tf.dom, from, le, pkt, frame) : cassini_tgt_frame(&g_tf.dom, from, pkt, frame);
}

int tf_put(uint64_t bits, const void *data, uint32_t len)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT, bits, len);

	return tf_send(&pkt, data);
}

void tf_bulk_end(int status)
{
	struct tf_bulk *b = &g_tf.bulk[g_tf.bulk_done++];

	must(g_tf.bulk_done <= g_tf.bulk_cnt);
	if (b->is_stopped)
		status = -EFAULT;
	if (!status && b->op == LINK_GET)
		memcpy(b->local, (void *)(uintptr_t)b->raddr, b->len);
	if (!status && b->op == LINK_PUT)
		memcpy((void *)(uintptr_t)b->raddr, b->local, b->len);
	b->work->on_bulk(b->work, status);
}

struct cassini_event tf_event(enum cassini_event_type type, enum cassini_rc rc)
{
	const struct cassini_event *ev = cassini_eq_peek(g_tf.eq);
	struct cassini_event out;

	assert_non_null(ev);
	assert_int_equal(ev->type, type);
	assert_int_equal(ev->rc, rc);
	out = *ev;
	cassini_eq_pop(g_tf.eq);
	return out;
}

void tf_no_event(void)
{
	assert_null(cassini_eq_peek(g_tf.eq));
}

const struct tf_answer *tf_answer(unsigned cnt, enum cassini_pkt_op op)
{
	const struct tf_answer *a = &g_tf.answer[(g_tf.answer_cnt - 1) % TF_MAX];

	assert_int_equal(g_tf.answer_cnt, cnt);
	assert_int_equal(a->pkt.op, op);
	return a;
}

struct cassini_pte_status tf_status(void)
{
	struct cassini_pte_status st;

	cassini_pte_status(g_tf.pte, &st, NULL, 0);
	return st;
}

void tf_fill(void)
{
	for (unsigned i = 0; i < TF_BIG; i++)
		g_tf_src[i] = (char)(i * 7 + i / 256);
	memset(g_tf_dst, 0, sizeof(g_tf_dst));
	memset(g_tf_over, 0, sizeof(g_tf_over));
}

int tf_put_bulk(uint64_t bits, uint32_t len)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_PUT_BULK, bits, len);

	pkt.region = TF_REGION;
	pkt.raddr = (uintptr_t)g_tf_src;
	return tf_send(&pkt, NULL);
}

static struct cassini_pkt_in rput_pkt(uint64_t bits, uint32_t len, uint32_t eager)
{
	struct cassini_pkt_in pkt = tf_pkt(CASSINI_PKT_RPUT, bits, len);

	pkt.payload_len = eager;
	pkt.region = TF_REGION;
	pkt.remote_offset = (uintptr_t)g_tf_src;
	pkt.rendezvous_id = 33;
	pkt.get_bits = 0xabcd;
	return pkt;
}

int tf_rput(uint64_t bits, uint32_t len, uint32_t eager)
{
	struct cassini_pkt_in pkt = rput_pkt(bits, len, eager);

	return tf_send(&pkt, g_tf_src);
}

struct cassini_event tf_state_change(enum cassini_pte_state to, enum cassini_sc_reason why)
{
	struct cassini_event ev = tf_event(CASSINI_EV_STATE_CHANGE, CASSINI_RC_OK);

	assert_int_equal(ev.state, to);
	assert_int_equal(ev.sc_reason, why);
	assert_true(ev.nic_auto);
	assert_int_equal(ev.user_ptr, (uintptr_t)&g_tf);
	return ev;
}

struct cassini_le *tf_append_any(enum cassini_list list, void *start, uint64_t len, uint64_t user_ptr)
{
	struct cassini_le_attr attr = tf_attr(list, TF_BUFFER, start, len, 0, user_ptr);
	struct cassini_le *le;

	attr.ignore_bits = UINT64_MAX;
	assert_int_equal(cassini_append(g_tf.pte, &attr, &le), 0);
	return le;
}

struct cassini_op *tf_source_open(void)
{
	struct cassini_op *op = slab_get(&g_tf.dom.ops);

	assert_non_null(op);
	memset(op, 0, sizeof(*op));
	op->peer = &g_tf.peer;
	op->in_rdzv = true;
	op->cmd.local_addr = g_tf_src;
	op->cmd.request_len = TF_BIG;
	op->cmd.get_bits = 0xabcd;
	op->rdzv.tag = 0xabcd;
	op->rdzv.src = TF_PEER;
	mt_unexp_add(&g_tf.dom.rdzv, &op->rdzv);
	assert_int_equal(cassini_pte_map(g_tf.pte, &g_tf.dom, 255), 0);
	tf_append(CASSINI_PRIORITY, CASSINI_LE_OP_GET | CASSINI_LE_EVENT_LINK_DISABLE, NULL, UINT64_MAX, 0xabcd, 9);
	return op;
}

void tf_source_close(struct cassini_op *op)
{
	mt_unexp_del(&g_tf.dom.rdzv, &op->rdzv);
	slab_put(&g_tf.dom.ops, op);
}
