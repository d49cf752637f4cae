// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs: limits at open, the state table, modify, poll, close.
#include "nic/efanic/efanic_int.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

const char *const efanic_qp_state_name[EFANIC_QPS_NUM] = {
	[EFANIC_QPS_RESET] = "RESET", [EFANIC_QPS_INIT] = "INIT", [EFANIC_QPS_RTR] = "RTR",
	[EFANIC_QPS_RTS] = "RTS",     [EFANIC_QPS_SQD] = "SQD",	  [EFANIC_QPS_SQE] = "SQE",
	[EFANIC_QPS_ERR] = "ERR",
};

/* --- the state table --- */

#define QPA(name_)  EFANIC_QPA_##name_
#define FROM(from_) [EFANIC_QPS_##from_]
#define TO(to_)	    [EFANIC_QPS_##to_]

/*
 * SRD and UD differ in one bit, RNR_RETRY at RTR -> RTS, which UD has not. What leads to RESET
 * and ERR is in the function.
 */
static const struct efanic_transition table[EFANIC_QPS_NUM][EFANIC_QPS_NUM] = {
	FROM(RESET) TO(INIT) = {true, QPA(STATE) | QPA(PKEY_INDEX) | QPA(PORT) | QPA(QKEY), 0},
	FROM(INIT) TO(INIT) = {true, 0, QPA(PKEY_INDEX) | QPA(PORT) | QPA(QKEY)},
	FROM(INIT) TO(RTR) = {true, 0, QPA(PKEY_INDEX) | QPA(QKEY)},
	FROM(RTR) TO(RTS) = {true, QPA(SQ_PSN), QPA(CUR_STATE) | QPA(QKEY) | QPA(RNR_RETRY)},
	FROM(RTS) TO(RTS) = {true, 0, QPA(CUR_STATE) | QPA(QKEY)},
	FROM(RTS) TO(SQD) = {true, 0, QPA(EN_SQD_ASYNC_NOTIFY)},
	FROM(SQD) TO(RTS) = {true, 0, QPA(CUR_STATE) | QPA(QKEY)},
	FROM(SQD) TO(SQD) = {true, 0, QPA(PKEY_INDEX) | QPA(QKEY)},
	FROM(SQE) TO(RTS) = {true, 0, QPA(CUR_STATE) | QPA(QKEY)},
};

struct efanic_transition efanic_qp_transition(enum efanic_qp_type type, enum efanic_qp_state from,
					      enum efanic_qp_state to)
{
	struct efanic_transition t;

	if (to == EFANIC_QPS_RESET || (to == EFANIC_QPS_ERR && from != EFANIC_QPS_RESET))
		return (struct efanic_transition){.legal = true};
	t = table[from][to];
	if (type == EFANIC_QP_UD)
		t.optional &= ~(unsigned)EFANIC_QPA_RNR_RETRY;
	return t;
}

/* --- modify --- */

/* How many pieces each opcode takes in state @to. Source: device limits; RDMA takes exactly one. */
static void set_post_ok(struct efanic_qp *qp, enum efanic_qp_state to)
{
	uint32_t caps = qp->nic->attr.device_caps;

	memset(qp->post_ok, 0, sizeof(qp->post_ok));
	if (to != EFANIC_QPS_RTS && to != EFANIC_QPS_SQD)
		return;
	qp->post_ok[EFANIC_OP_SEND] = (uint8_t)GENMASK(EFANIC_SGE_MAX, 0);
	if (!qp->is_ud && caps & EFANIC_CAP_RDMA_READ)
		qp->post_ok[EFANIC_OP_READ] = 1 << 1;
	if (!qp->is_ud && caps & EFANIC_CAP_RDMA_WRITE)
		qp->post_ok[EFANIC_OP_WRITE] = 1 << 1;
}

static void set_state(struct efanic_qp *qp, enum efanic_qp_state to)
{
	assert(efanic_qp_transition(qp->type, qp->state, to).legal);
	qp->state = to;
	set_post_ok(qp, to);
	qp->is_open = to == EFANIC_QPS_RTR || to == EFANIC_QPS_RTS || to == EFANIC_QPS_SQD ||
		      to == EFANIC_QPS_SQE;
	qp->may_skip_sq = to == EFANIC_QPS_RTS && !qp->is_ud;
	efanic_gate_shut(qp);
	efanic_rx_gate(qp);
	efanic_qp_attn(qp);
	if (to == EFANIC_QPS_ERR || to == EFANIC_QPS_RESET) {
		efanic_tx_flush(qp, to == EFANIC_QPS_RESET);
		efanic_rx_flush(qp, to == EFANIC_QPS_RESET);
	}
}

/* The values that go with the bits. Source: doc/facts/efa.md#queue-pairs. */
static int check_values(const struct efanic_qp *qp, const struct efanic_qp_mod *mod, unsigned mask)
{
	if (mask & EFANIC_QPA_PORT && mod->port != 1)
		return -EOPNOTSUPP;
	if (mask & EFANIC_QPA_PKEY_INDEX && mod->pkey_index != 0)
		return -EOPNOTSUPP;
	if (mask & EFANIC_QPA_RNR_RETRY && !(qp->nic->attr.device_caps & EFANIC_CAP_RNR_RETRY))
		return -EOPNOTSUPP;
	if (mask & EFANIC_QPA_RNR_RETRY && mod->rnr_retry > EFANIC_RNR_INFINITE)
		return -EINVAL;
	if (mask & EFANIC_QPA_QKEY && !qp->is_ud && mod->qkey != qp->qkey && !qp->late_qkey) {
		LOG_WARN("QP %u: the Q_Key of an SRD queue pair is part of its address here and "
			 "fixed at open",
			 qp->qpn);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* That of an SRD queue pair is its port's nonce, by which peers know it: no change once there are any. */
static int set_qkey(struct efanic_qp *qp, uint32_t qkey)
{
	int rc = 0;

	if (!qp->is_ud && efanic_qkey_nonce(qkey) != link_port_addr(qp->port)->nonce)
		rc = link_port_set_nonce(qp->port, efanic_qkey_nonce(qkey));
	if (rc)
		LOG_WARN("QP %u: the Q_Key of an SRD queue pair that has had traffic stays as it is", qp->qpn);
	else
		qp->qkey = qkey;
	return rc ? -EOPNOTSUPP : 0;
}

int efanic_qp_modify(struct efanic_qp *qp, const struct efanic_qp_mod *mod, unsigned mask)
{
	enum efanic_qp_state to = mask & EFANIC_QPA_STATE ? mod->state : qp->state;
	struct efanic_transition t;
	bool is_odd;
	int rc;

	lock_assert_held(qp->nic->lock);
	if (to >= EFANIC_QPS_NUM)
		return -EINVAL;
	t = efanic_qp_transition(qp->type, qp->state, to);
	is_odd = mask & ~(EFANIC_QPA_STATE | t.required | t.optional);
	if (!t.legal || is_odd || (mask & t.required) != t.required) {
		LOG_WARN("QP %u: %s to %s with mask 0x%x: %s", qp->qpn, efanic_qp_state_name[qp->state],
			 efanic_qp_state_name[to], mask,
			 !t.legal  ? "no such transition"
			 : is_odd ? "it does not take all of these"
				  : "attributes missing");
		return -EINVAL;
	}
	rc = check_values(qp, mod, mask);
	if (rc)
		return rc;
	if (mask & EFANIC_QPA_QKEY) {
		rc = set_qkey(qp, mod->qkey);
		if (rc)
			return rc;
		qp->rx_first = efanic_hdr_word(EFANIC_PKT_SEND, qp->qkey);
	}
	if (mask & EFANIC_QPA_RNR_RETRY)
		qp->rnr_retry = mod->rnr_retry;
	if (to != qp->state || to == EFANIC_QPS_ERR || to == EFANIC_QPS_RESET)
		set_state(qp, to);
	if (qp->serves != (qp->is_open && !qp->is_ud)) {
		qp->serves = !qp->serves;
		link_port_shut(qp->port, !qp->serves);
	}
	return 0;
}

void efanic_qp_settle(struct efanic_qp *qp)
{
	lock_assert_held(qp->nic->lock);
	link_port_settle(qp->port);
}

int efanic_qp_to_rts(struct efanic_qp *qp, uint8_t rnr_retry)
{
	struct efanic_qp_mod mod = {
		.state = EFANIC_QPS_INIT, .port = 1, .qkey = qp->qkey, .rnr_retry = rnr_retry};
	unsigned mask = EFANIC_QPA_STATE | EFANIC_QPA_SQ_PSN;
	int rc;

	rc = efanic_qp_modify(qp, &mod,
			      EFANIC_QPA_STATE | EFANIC_QPA_PKEY_INDEX | EFANIC_QPA_PORT |
				      EFANIC_QPA_QKEY);
	if (rc)
		return rc;
	mod.state = EFANIC_QPS_RTR;
	rc = efanic_qp_modify(qp, &mod, EFANIC_QPA_STATE);
	if (rc)
		return rc;
	/* Without the capability the adapter retries for ever, as the driver's users know. */
	if (!qp->is_ud && qp->nic->attr.device_caps & EFANIC_CAP_RNR_RETRY)
		mask |= EFANIC_QPA_RNR_RETRY;
	mod.state = EFANIC_QPS_RTS;
	return efanic_qp_modify(qp, &mod, mask);
}

bool efanic_sq_drains(const struct efanic_qp *qp)
{
	lock_assert_held(qp->nic->lock);
	for (uint16_t i = 0; i < qp->sq_fresh; i++)
		if (qp->sq[i].phase == WR_LINK)
			return true;
	return false;
}

/* --- open and close --- */

static const struct link_ops srd_ops = {
	.on_frame = efanic_rx_frame,
	.on_sent = efanic_tx_sent,
	.on_lost = efanic_tx_lost,
	.on_bulk = efanic_tx_bulk,
	.on_gone = efanic_dst_gone,
};

/* Nobody cares where a datagram goes. */
static const struct link_ops ud_ops = {
	.on_frame = efanic_rx_frame,
	.on_sent = efanic_tx_sent,
	.on_lost = efanic_tx_lost,
	.on_bulk = efanic_tx_bulk,
};

static int check_attr(struct efanic *nic, const struct efanic_qp_attr *attr)
{
	const struct efanic_dev_attr *dev = &nic->attr;

	if (attr->type != EFANIC_QP_SRD && attr->type != EFANIC_QP_UD)
		return -EOPNOTSUPP;
	if (attr->sq_depth > dev->max_sq_wr || attr->rq_depth > dev->max_rq_wr) {
		LOG_WARN("%s: queue pair of %u sends and %u receives, limits %u and %u", dev->name,
			 attr->sq_depth, attr->rq_depth, dev->max_sq_wr, dev->max_rq_wr);
		return -EINVAL;
	}
	if (!attr->on_wc || (attr->type == EFANIC_QP_SRD && !attr->qkey)) {
		LOG_WARN("%s: queue pair without %s", dev->name,
			 attr->on_wc ? "Q_Key" : "completion handler");
		return -EINVAL;
	}
	if (attr->unsolicited_write_recv &&
	    (attr->type == EFANIC_QP_UD ||
	     !(dev->device_caps & EFANIC_CAP_UNSOLICITED_WRITE_RECV))) {
		LOG_WARN("%s: unsolicited write receives not supported", dev->name);
		return -EOPNOTSUPP;
	}
	if (nic->qp_cnt >= dev->max_qp) {
		LOG_WARN("%s: all %u queue pairs in use (max_qp)", dev->name, dev->max_qp);
		return -ENOMEM;
	}
	return 0;
}

static int queues_alloc(struct efanic_qp *qp)
{
	uint32_t slots = qp->sq_depth + SQ_SPARE;

	qp->sq_bytes = slots * sizeof(*qp->sq);
	qp->sq = mem_alloc(qp->sq_bytes); /* touched as far as it is used */
	if (!qp->sq)
		return -ENOMEM;
	if (qp->is_posted) {
		qp->rq = mem_alloc(qp->rq_depth * sizeof(*qp->rq));
		if (!qp->rq)
			goto err_sq;
	}
	pq_init(&qp->rnr);
	if (pq_reserve(&qp->rnr, slots))
		goto err_rq;
	return 0;
err_rq:
	mem_free(qp->rq);
err_sq:
	mem_free(qp->sq);
	return -ENOMEM;
}

static void queues_free(struct efanic_qp *qp)
{
	pq_fini(&qp->rnr);
	mem_free(qp->rq);
	mem_free(qp->sq);
}

/* A nonce that nobody knows: with late_qkey until there is a Q_Key, else whoever guesses the first one is a peer, and
 * the Q_Key could not be set any more. */
static int port_open(struct efanic_qp *qp, const struct efanic_qp_attr *attr)
{
	bool is_secret = qp->is_ud || attr->late_qkey;
	struct link_port_attr port = {
		.node = qp->nic->node,
		.nonce = is_secret ? (uint32_t)rng_u64(&qp->nic->rng) | 1 : attr->qkey,
		.cls = qp->is_ud ? LINK_RAW : LINK_RELIABLE,
		.no_shm = attr->no_shm,
		.nonces_repeat = attr->late_qkey,
		.group = attr->pd,
		.is_shut = true,
		.ops = qp->is_ud ? &ud_ops : &srd_ops,
		.ctx = qp,
	};
	int rc;

	must(efanic_ip_of_gid(qp->nic->attr.gid, port.ip));
	rc = link_port_open(&port, &qp->port);
	if (!rc)
		qp->qpn = link_port_addr(qp->port)->port;
	return rc;
}

static void qp_init(struct efanic_qp *qp, struct efanic *nic, const struct efanic_qp_attr *attr)
{
	*qp = (struct efanic_qp){
		.nic = nic,
		.attn = ATTN_WORK,
		.gate = 1,
		.on_send = attr->on_send,
		.on_wc = attr->on_wc,
		.ctx = attr->ctx,
		.sq_free = SQ_NONE,
		.is_ud = attr->type == EFANIC_QP_UD,
		.is_posted = attr->posted_buffers || attr->type == EFANIC_QP_UD,
		.qkey = attr->qkey,
		.pd = attr->pd,
		.late_qkey = attr->late_qkey,
		.mtu = nic->attr.mtu,
		.rx_first = efanic_hdr_word(EFANIC_PKT_SEND, attr->qkey),
		.sq_depth = attr->sq_depth,
		.done = {SQ_NONE, SQ_NONE},
		.rq_depth = attr->rq_depth,
		.type = attr->type,
		.state = EFANIC_QPS_RESET,
		.unsolicited_ok = attr->unsolicited_write_recv,
		.rnr_retry = EFANIC_RNR_INFINITE,
		.sl = attr->sl,
	};
	qp->parked_tail = qp->unpeeked = &qp->parked;
	qp->waiters_tail = &qp->waiters;
}

int efanic_qp_open(struct efanic *nic, const struct efanic_qp_attr *attr, struct efanic_qp **out)
{
	struct efanic_qp *qp;
	int rc;

	lock_assert_held(nic->lock);
	rc = check_attr(nic, attr);
	if (rc)
		return rc;
	qp = mem_alloc_aligned(CACHE_LINE, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp_init(qp, nic, attr);
	rc = queues_alloc(qp);
	if (rc)
		goto err_qp;
	rc = port_open(qp, attr);
	if (rc)
		goto err_queues;
	qp->next = nic->qps;
	nic->qps = qp;
	nic->qp_cnt++;
	*out = qp;
	return 0;
err_queues:
	queues_free(qp);
err_qp:
	mem_free(qp);
	return rc;
}

static void list_remove(struct efanic_qp *qp)
{
	struct efanic_qp **link = &qp->nic->qps;

	while (*link != qp)
		link = &(*link)->next;
	*link = qp->next;
	qp->nic->qp_cnt--;
}

static void report_all(struct efanic_qp *qp)
{
	qp->attn |= ATTN_POLLING;
	qp->deliver = true;
	efanic_rx_report(qp);
	efanic_tx_report(qp);
	qp->deliver = false;
	qp->attn &= (uint8_t)~ATTN_POLLING;
}

void efanic_qp_close(struct efanic_qp *qp)
{
	struct efanic *nic = qp->nic;
	struct efanic_stats stats;
	struct link_stats link;

	lock_assert_held(nic->lock);
	assert(!(qp->attn & ATTN_POLLING));
	/* From here on nothing new comes in or out, and what the link does not hold ends. */
	set_state(qp, qp->state == EFANIC_QPS_RESET ? EFANIC_QPS_RESET : EFANIC_QPS_ERR);
	report_all(qp);
	efanic_dst_orphan_all(qp);
	/* The port drops the lock while it drains: whoever polls us then finds nothing to do. */
	qp->attn |= ATTN_POLLING;
	link_port_close_stats(qp->port, &link);
	report_all(qp);
	assert(qp->sq_used == 0);
	list_remove(qp);
	efanic_stats_derive(qp, &link, &stats);
	stats_add(&nic->closed, &stats, sizeof(stats));
	queues_free(qp);
	mem_free(qp);
}

uint16_t efanic_qp_qpn(const struct efanic_qp *qp)
{
	return qp->qpn;
}

/* --- progress --- */

/* The send queue moves on by itself in hardware: posting alone must not end in a queue that nobody empties. */
void efanic_qp_push(struct efanic_qp *qp)
{
	qp->attn |= ATTN_POLLING;
	link_poll(qp->port);
	efanic_tx_retry(qp);
	qp->attn &= (uint8_t)~ATTN_POLLING;
	if (!qp->waiters)
		qp->backlog = 0; /* the next one that finds no room is tried at once */
}

/* What was kept for the next poll, or is kept by a queue pair that is not open. */
static __attribute__((noinline)) int report_kept(struct efanic_qp *qp)
{
	int n;

	qp->attn |= ATTN_POLLING;
	qp->deliver = true;
	n = efanic_rx_report(qp);
	return n + (qp->done.head != SQ_NONE ? efanic_tx_report(qp) : 0);
}

int efanic_poll(struct efanic_qp *qp)
{
	int n = 0;

	lock_assert_held(qp->nic->lock);
	assert(qp->attn & ATTN_POLLING || !(qp->attn & ATTN_WORK) == !efanic_qp_has_work(qp));
	if (likely(!qp->attn))
		qp->attn = ATTN_POLLING;
	else if (qp->attn & ATTN_POLLING)
		return 0;
	else
		n = report_kept(qp);
	qp->deliver = true;
	n += link_poll(qp->port);
	if (unlikely(qp->attn != ATTN_POLLING))
		n += efanic_tx_retry(qp);
	qp->deliver = false;
	qp->attn &= (uint8_t)~ATTN_POLLING;
	return n;
}

bool efanic_calm(const struct efanic_qp *qp, struct calm *c, uint32_t passed)
{
	return !qp->attn && link_calm(qp->port, c, passed);
}

int efanic_wait_fd(struct efanic_qp *qp)
{
	lock_assert_held(qp->nic->lock);
	return link_wait_fd(qp->port);
}

/* What waits for room or for time is tried again by whoever polls, and tells nobody when it ends. */
int efanic_arm(struct efanic_qp *qp)
{
	lock_assert_held(qp->nic->lock);
	if (qp->parked || qp->done.head != SQ_NONE || qp->waiters || pq_peek(&qp->rnr))
		return -EAGAIN;
	if (qp->state == EFANIC_QPS_ERR && qp->rq_used) /* receives that the next poll ends */
		return -EAGAIN;
	return link_arm(qp->port);
}
