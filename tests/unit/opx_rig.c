// SPDX-License-Identifier: BSD-2-Clause
// The opx rig: endpoints that check what they are given, and the loop that lets virtual time pass.
#include "opx_rig.h"

/* --- the endpoint's side ------------------------------------------------------------------------------------------ */

/* Payload of packet @id from @from: RZV_DATA tells its place, everything else checks itself. */
static void rig_deliver(struct opx_flow *f, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type)
{
	struct rig_node *n = f->rel->a.ctx;
	struct rig_peer *p = container_of(f, struct rig_peer, f);
	uint32_t from = f->dst->to, stream = le32_get(h->imm), id = (uint32_t)(le64_get(h->tag) >> 32);
	uint8_t buf[HFI_MTU];

	assert_true(data->len <= HFI_MTU);
	p->delivered++;
	if (n->g->is_lenient) {
		if (type == HFI_RCV_EAGER)
			view_copy(data, 0, buf, data->len);
		return;
	}
	assert_int_equal(f->peer_addr, 100 + from);
	if (h->opcode == OPX_RZV_DATA) { /* an SDMA request: ids count on by packet */
		stream = (uint32_t)(le64_get(h->w[1]) >> 32);
		id = (uint32_t)le64_get(h->w[1]) + (uint32_t)(le64_get(h->w[0]) / le64_get(h->tag));
	}
	assert_true(stream >= p->rx_stream);
	if (stream > p->rx_stream) {
		p->rx_stream = stream;
		p->rx_id = 0;
	}
	assert_int_equal(id, p->rx_id);
	p->rx_id++;
	if (type == HFI_RCV_EAGER) {
		assert_int_equal(view_copy(data, 0, buf, data->len), data->len);
		for (uint32_t i = 0; i < data->len; i++)
			assert_int_equal(buf[i], rig_byte(from, id, i));
	}
	if (n->g->on_deliver)
		n->g->on_deliver(n, from);
}

static bool rig_place(void *ctx, struct opx_flow *f, const struct hfi_pkt *pkt)
{
	struct rig_node *n = ctx;
	uint8_t buf[HFI_MTU];
	uint32_t id;

	assert_int_equal(pkt->type, HFI_RCV_EXPECTED);
	if (n->refuses_place) /* before a look at fields that a fuzzer may have filled */
		return false;
	id = (uint32_t)le64_get(pkt->hdr->w[1]) + (uint32_t)(le64_get(pkt->hdr->w[0]) / le64_get(pkt->hdr->tag));
	view_copy(&pkt->data, 0, buf, pkt->data.len);
	for (uint32_t i = 0; i < pkt->data.len; i++)
		assert_int_equal(buf[i], rig_byte(f->dst->to, id, i));
	return true;
}

static void op_end(struct opx_op *op)
{
	LIST_REMOVE(op, link);
	memset(op->mem, 0xdd, 16);
	free(op->mem);
	free(op);
}

static void rig_retired(void *ctx, struct opx_op *op, uint32_t cnt)
{
	struct rig_node *n = ctx;

	assert_ptr_equal(op->n, n);
	op->retired += cnt;
	n->retired += cnt;
	assert_true(op->retired <= op->refs);
	if (op->retired == op->refs)
		op_end(op);
}

static void rig_room(void *ctx, struct opx_flow *f)
{
	struct rig_peer *p = container_of(f, struct rig_peer, f);

	(void)ctx;
	p->is_blocked = false;
	p->rooms++;
}

static void rig_dead(void *ctx, struct opx_flow *f, enum opx_status why)
{
	struct rig_peer *p = container_of(f, struct rig_peer, f);

	(void)ctx;
	assert_true(STAILQ_EMPTY(&f->queue) && STAILQ_EMPTY(&f->ahead));
	p->is_blocked = false;
	p->tx_stream++;
	p->tx_id = 0;
	p->deads++;
	p->why = why;
}

struct opx_flow *rig_meet(struct rig *g, uint32_t at, uint32_t of)
{
	struct rig_peer *p = rig_peer(g, at, of);

	if (!p->is_used)
		opx_flow_init(&p->f, g->n[at].rel, g->n[at].dst[of]);
	p->is_used = true;
	return &p->f;
}

static struct opx_flow *rig_stranger(void *ctx, struct hfi_dst *dst)
{
	struct rig_node *n = ctx;

	return n->refuses_strangers ? NULL : rig_meet(n->g, n->idx, dst->to);
}

static const struct opx_rel_ops rig_ops = {rig_deliver, rig_place, rig_retired, rig_room, rig_dead, rig_stranger};

/* --- opening, closing --------------------------------------------------------------------------------------------- */

void rig_node_open(struct rig *g, uint32_t i)
{
	struct rig_node *n = &g->n[i];
	struct opx_rel_attr attr = {&n->hfi, &n->hw, &rig_ops, n, 100 + i, g->usec_max, g->pre_ack};
	uint32_t life = n->life;

	memset(n, 0, sizeof(*n));
	n->life = life + 1;
	n->g = g;
	n->idx = i;
	n->hfi.g = g;
	n->hw.n = n;
	n->hw.info = (struct hfi_ctxt_info){.mtu = HFI_MTU, .sdma_ring_size = RIG_RING};
	TAILQ_INIT(&n->parked);
	LIST_INIT(&n->ops);
	n->is_open = true;
	for (uint32_t k = 0; k < g->cnt; k++) {
		n->dst[k] = calloc(1, sizeof(*n->dst[k]));
		*n->dst[k] = (struct hfi_dst){.from = n, .to = k, .refs = 1};
		n->peer[k].tx_stream = n->life << 16;
	}
	assert_int_equal(opx_rel_open(&attr, &n->rel), 0);
}

void rig_node_close(struct rig *g, uint32_t i, bool is_killed)
{
	struct rig_node *n = &g->n[i];
	struct opx_op *op;

	if (is_killed)
		n->hfi.is_down = true;
	opx_rel_close(n->rel);
	n->is_open = false;
	rig_pkts_free(&n->parked);
	while ((op = LIST_FIRST(&n->ops)))
		op_end(op);
	for (uint32_t k = 0; k < g->cnt; k++) {
		assert_int_equal(n->dst[k]->refs, 1);
		free(n->dst[k]);
	}
}

void rig_open(struct rig *g, uint32_t cnt, uint64_t seed, int where)
{
	*g = (struct rig){.cnt = cnt, .is_local = where != RIG_FAR, .is_admitted = where == RIG_NEAR, .nth = -1,
			  .max_len = 600, .usec_max = 500, .pre_ack = 64, .now = NS_PER_SEC, .burst = 1,
			  .latency = RIG_LATENCY};
	rng_seed(&g->rng, seed);
	TAILQ_INIT(&g->wire);
	for (uint32_t i = 0; i < cnt; i++)
		rig_node_open(g, i);
}

void rig_knobs(struct rig *g, uint32_t usec_max, uint32_t pre_ack)
{
	g->usec_max = usec_max;
	g->pre_ack = pre_ack;
	for (uint32_t i = 0; i < g->cnt; i++) {
		rig_node_close(g, i, true);
		rig_node_open(g, i);
	}
}

void rig_close(struct rig *g)
{
	for (uint32_t i = 0; i < g->cnt; i++) {
		if (g->n[i].is_open)
			rig_node_close(g, i, false);
	}
	rig_pkts_free(&g->wire);
}

/* --- posting ------------------------------------------------------------------------------------------------------ */

static struct opx_op *op_new(struct rig_node *n, uint32_t len)
{
	struct opx_op *op = calloc(1, sizeof(*op));

	op->n = n;
	op->mem = malloc(MAX(len, 16u));
	LIST_INSERT_HEAD(&n->ops, op, link);
	return op;
}

/* A message, whose header has no w[1]. */
static int post_in_place(struct opx_flow *f, const struct hfi_hdr *like, const struct iovec *iov, int iov_cnt)
{
	uint32_t len = (uint32_t)le64_get(like->w[0]);
	int rc;
	struct hfi_hdr *h = opx_flow_begin(f, HFI_HDR_CUT, len, 0, &rc);

	if (!h)
		return rc;
	opx_flow_payload(h, HFI_HDR_CUT, iov, (size_t)iov_cnt);
	memcpy(h, like, HFI_HDR_CUT);
	return opx_flow_commit(f, h, HFI_HDR_CUT, len, 0);
}

int rig_post(struct rig *g, uint32_t from, uint32_t to, uint32_t len, unsigned flags)
{
	struct rig_node *n = &g->n[from];
	struct rig_peer *p = &n->peer[to];
	struct opx_op *op = op_new(n, len);
	struct iovec iov[HFI_IOV_MAX];
	struct hfi_hdr h;
	uint32_t at = 0;
	bool is_message;
	int cnt = 0, rc;

	rig_meet(g, from, to);
	for (uint32_t i = 0; i < len; i++)
		op->mem[i] = rig_byte(from, p->tx_id, i);
	while (at < len) {
		uint32_t part = cnt == HFI_IOV_MAX - 1 ? len - at : 1 + (uint32_t)rng_below(&g->rng, len - at);

		iov[cnt++] = (struct iovec){op->mem + at, part};
		at += part;
	}
	is_message = !flags && len <= HFI_MTU && p->tx_id % 2;
	opx_flow_hdr(&p->f, &h, is_message ? OPX_TAG_EAGER : OPX_ATOMIC, 0, p->tx_stream);
	h.w[0] = le64_put(len);
	h.w[1] = le64_put(0);
	h.tag = le64_put((uint64_t)p->tx_id << 32 | 1u << 16); /* an atomic of one element */
	rc = is_message ? post_in_place(&p->f, &h, iov, cnt) : opx_flow_post(&p->f, &h, iov, cnt, flags, op, &op->refs);
	memset(iov, 0xee, sizeof(iov));
	if (!rc)
		p->tx_id++;
	if (rc || !op->refs)
		op_end(op);
	if (rc == -EAGAIN) {
		assert_false(flags & OPX_POST_CONTROL);
		p->is_blocked = true;
	}
	return rc;
}

int rig_sdma(struct rig *g, uint32_t from, uint32_t to, uint32_t npkts, uint32_t frag, bool has_tid)
{
	static struct hfi_tid tid = {.idx = 3, .len = HFI_TID_BYTES};
	struct rig_node *n = &g->n[from];
	struct rig_peer *p = &n->peer[to];
	uint32_t len = npkts * frag - frag / 2;
	struct opx_op *op = op_new(n, len);
	struct iovec iov[2] = {{op->mem, frag / 2 + 3}, {op->mem + frag / 2 + 3, len - frag / 2 - 3}};
	struct hfi_sdma_req req = {.iov = iov, .iov_cnt = 2, .npkts = npkts, .fragsize = frag};
	int rc;

	if (len < frag / 2 + 3)
		req.iov_cnt = 1, iov[0].iov_len = len;
	rig_meet(g, from, to);
	for (uint32_t i = 0; i < len; i++)
		op->mem[i] = rig_byte(from, p->tx_id + i / frag, i % frag);
	opx_flow_hdr(&p->f, &req.hdr, OPX_RZV_DATA, OPX_SUB_RZV, 0);
	req.hdr.w[1] = le64_put(p->tx_id | (uint64_t)p->tx_stream << 32);
	req.hdr.tag = le64_put(frag);
	if (has_tid) {
		req.tids = &tid;
		req.tid_cnt = 1;
		hfi_tid_hdr(&req.hdr, &tid, 0);
	}
	rc = opx_flow_post_sdma(&p->f, &req, OPX_POST_ACK, op, &op->refs);
	memset(iov, 0xee, sizeof(iov));
	if (rc) {
		assert_int_equal(op->refs, 0);
		op_end(op);
		p->is_blocked = rc == -EAGAIN;
		return rc;
	}
	assert_int_equal(op->refs, npkts);
	p->tx_id += npkts;
	return 0;
}

/* Post what is still to be posted, of random kinds, until there is no room. */
static void rig_drive(struct rig *g, uint32_t i)
{
	for (uint32_t k = 0; k < g->cnt; k++) {
		struct rig_peer *p = rig_peer(g, i, k);

		while (p->want && !p->is_blocked) {
			static const unsigned kind[] = {
				0, OPX_POST_REF, OPX_POST_CONTROL, OPX_POST_ACK, OPX_POST_REF | OPX_POST_CONTROL, 0, 0,
				0};
			uint32_t len = rng_below(&g->rng, 20) ? (uint32_t)rng_below(&g->rng, g->max_len + 1) : HFI_MTU;
			uint32_t pkts = 1;
			int rc;

			if (!g->is_local && rng_below(&g->rng, 10) == 0) {
				pkts = MIN(1 + (uint32_t)rng_below(&g->rng, HFI_SDMA_PKTS), p->want);
				rc = rig_sdma(g, i, k, pkts, 64 * (1 + (uint32_t)rng_below(&g->rng, 4)),
					      rng_below(&g->rng, 2));
			} else {
				rc = rig_post(g, i, k, len, kind[rng_below(&g->rng, ARRAY_SIZE(kind))]);
			}
			if (rc && rc != -EAGAIN)
				return;
			if (!rc)
				p->want -= pkts;
		}
	}
}

/* --- time --------------------------------------------------------------------------------------------------------- */

/* Return: taken. */
static bool rig_show(struct rig_node *n, const struct rig_pkt *p, bool is_service)
{
	struct hfi_hdr hdr = p->hdr;
	struct hfi_pkt pkt = {.src = n->dst[p->from], .hdr = &hdr, .data = view_of(p->data, p->len),
			      .is_service = is_service};

	pkt.type = le32_get(hdr.kdeth) >> 26 & 3 ? HFI_RCV_EXPECTED : HFI_RCV_EAGER;
	if (is_service)
		return opx_rel_service(n->rel, &pkt);
	opx_rel_rx(n->rel, &pkt);
	return true;
}

static void rig_arrive(struct rig *g, struct rig_pkt *p)
{
	struct rig_node *n = &g->n[p->to];
	bool is_taken = true;

	if (n->is_open) {
		if (n->is_asleep)
			is_taken = !p->is_local;
		else
			is_taken = rig_show(n, p, n->is_computing);
	} else if (g->n[p->from].is_open) {
		g->n[p->from].gone[p->to] = true;
	}
	if (is_taken || (!p->is_local && n->parked_cnt == RIG_PARKED)) {
		free(p);
		return;
	}
	TAILQ_INSERT_TAIL(&n->parked, p, link);
	n->parked_cnt++;
	if (g->is_local && !g->is_lenient)
		assert_true(n->parked_cnt <= OPX_WINDOW_LOCAL * g->cnt + 64);
}

static void rig_poll(struct rig *g, uint32_t i)
{
	struct rig_node *n = &g->n[i];
	struct rig_pkt *p;

	for (int k = 0; k < 4 && rig_sdma_step(&n->hw); k++)
		;
	if (n->is_computing || n->is_asleep)
		return;
	while ((p = TAILQ_FIRST(&n->parked))) {
		TAILQ_REMOVE(&n->parked, p, link);
		n->parked_cnt--;
		assert_true(rig_show(n, p, false));
		free(p);
	}
	for (uint32_t k = 0; k < g->cnt; k++) {
		if (n->gone[k])
			opx_rel_gone(n->rel, n->dst[k], -ECONNREFUSED);
		n->gone[k] = false;
	}
	if (!g->no_driver)
		rig_drive(g, i);
	opx_rel_progress(n->rel);
}

void rig_step(struct rig *g, uint64_t limit)
{
	uint64_t at = limit;
	struct rig_pkt *p;

	for (uint32_t i = 0; i < g->cnt; i++) {
		if (g->n[i].is_open)
			rig_poll(g, i);
	}
	p = TAILQ_FIRST(&g->wire);
	if (p)
		at = MIN(at, p->at);
	for (uint32_t i = 0; i < g->cnt; i++) {
		struct rig_node *n = &g->n[i];

		if (!n->is_open)
			continue;
		if (n->hw.sdma_cnt && !n->hw.is_stalled)
			at = g->now;
		if (n->is_computing || n->is_asleep)
			continue;
		at = MIN(at, opx_rel_next_ns(n->rel));
		for (uint32_t k = 0; k < g->cnt && !g->no_driver; k++) {
			if (n->peer[k].want && !n->peer[k].is_blocked)
				at = g->now;
		}
	}
	g->now = MIN(limit, MAX(g->now + RIG_POLL, at));
	while ((p = TAILQ_FIRST(&g->wire)) && p->at <= g->now) {
		TAILQ_REMOVE(&g->wire, p, link);
		rig_arrive(g, p);
	}
}

void rig_run_for(struct rig *g, uint64_t ns)
{
	uint64_t end = g->now + ns;

	while (g->now < end)
		rig_step(g, end);
}

bool rig_is_done(struct rig *g)
{
	for (uint32_t i = 0; i < g->cnt; i++) {
		if (!g->n[i].is_open)
			continue;
		if (!opx_rel_drained(g->n[i].rel) || !LIST_EMPTY(&g->n[i].ops))
			return false;
		for (uint32_t k = 0; k < g->cnt; k++) {
			const struct rig_peer *tx = rig_peer(g, i, k), *rx = rig_peer(g, k, i);

			if (tx->want || (tx->tx_id && (rx->rx_stream != tx->tx_stream || rx->rx_id != tx->tx_id)))
				return false;
		}
	}
	return true;
}

/* For whoever looks into a failure. */
static void rig_dump(struct rig *g)
{
	for (uint32_t i = 0; i < g->cnt; i++) {
		for (uint32_t k = 0; k < g->cnt; k++) {
			const struct rig_peer *p = rig_peer(g, i, k);
			const struct opx_flow *f = &p->f;

			if (!p->is_used)
				continue;
			print_message(
				"%u -> %u: state %u doom %u want %u blocked %d tx [%u, %u) sent %u out %u cwnd %u "
				"resends %u serial %u | "
				"rx %u ahead %u | ids tx %u/%u rx %u/%u | listed %d wants %d fruitless %u\n",
				i, k, f->state, f->doom, p->want, p->is_blocked, f->tx_una, f->tx_psn, flow_sent_psn(f),
				f->bytes_out, f->cwnd, f->resends, f->serial, f->rx_psn, f->ahead_cnt, p->tx_stream,
				p->tx_id, p->rx_stream, p->rx_id, f->is_listed, f->wants_room, f->fruitless);
		}
	}
}

/* Return: done within @ns. */
bool rig_run(struct rig *g, uint64_t ns)
{
	uint64_t end = g->now + ns;

	while (!rig_is_done(g) && g->now < end)
		rig_step(g, end);
	if (!rig_is_done(g))
		rig_dump(g);
	return rig_is_done(g);
}

const struct opx_rel_stats *rig_stats(struct rig *g, uint32_t i)
{
	return opx_rel_stats(g->n[i].rel);
}

/* --- what most tests begin with, and forged packets ---------------------------------------------- */

void rig_pair(struct rig *g, uint64_t seed, int where)
{
	rig_open(g, 2, seed, where);
	rig_peer(g, 0, 1)->want = 20;
	rig_peer(g, 1, 0)->want = 20;
	assert_true(rig_run(g, NS_PER_SEC));
}

void rig_more(struct rig *g)
{
	rig_peer(g, 0, 1)->want += 200;
	rig_peer(g, 1, 0)->want += 200;
	assert_true(rig_run(g, 5 * NS_PER_SEC));
}

void rig_forge(struct rig *g, uint32_t from, uint32_t at, struct hfi_hdr h)
{
	struct hfi_pkt pkt = {.src = g->n[at].dst[from], .hdr = &h, .data = view_of("", 0), .type = HFI_RCV_EAGER};

	opx_rel_rx(g->n[at].rel, &pkt);
}

struct hfi_hdr rig_ud(enum opx_ud aux, uint64_t key, uint64_t w0, uint64_t w1, uint32_t imm)
{
	struct hfi_hdr h = {.opcode = OPX_UD, .aux = (uint8_t)aux, .key = le64_put(key), .imm = le32_put(imm)};

	h.w[0] = le64_put(w0);
	h.w[1] = le64_put(w1);
	return h;
}

uint64_t rig_range(uint32_t first, uint32_t cnt)
{
	return first | (uint64_t)cnt << 32;
}
