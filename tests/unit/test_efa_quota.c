// SPDX-License-Identifier: BSD-2-Clause
// What one peer can make an endpoint keep: a bound for each kind, others get on, and nothing that was taken is lost.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/providers/fi_prov.h>

#include "base/clock.h"
#include "prov/efa/efa.h"
#include "unit.h"

#define WAIT_NS (20000ull * NS_PER_MS)
#define RQ	64u   /* packets that the adapter may take while nobody polls: these cannot be refused */
#define ROUNDS	20000 /* polls in which the hostile one says what it has to say */

struct fi_provider *fi_prov_ini(void);
static struct fi_provider *g_prov;
static bool g_is_near;

enum { VICTIM, BAD, GOOD, SIDES };

static struct rig {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep[SIDES];
	struct fid_cq *cq[SIDES];
	struct fid_av *av[SIDES];
	fi_addr_t victim[SIDES]; /* as the others know it */
	fi_addr_t name[SIDES];	 /* as it knows the others */
	struct fid_mr *mr;
	uint8_t mem[4096];
} r;

/* Of the domain: its adapter's thread is at work on all that lies below the calls. */
static struct lock *lock_of_all(void)
{
	return &container_of(r.domain, struct efa_domain, kit.fid)->kit.lock;
}

#define LOCKED(expr_)                                                                                                  \
	({                                                                                                             \
		lock_acquire(lock_of_all());                                                                           \
		__typeof__(expr_) val_ = (expr_);                                                                      \
		lock_release(lock_of_all());                                                                           \
		val_;                                                                                                  \
	})

static struct efa_ep *inner(int i)
{
	return container_of(r.ep[i], struct efa_ep, kit.fid);
}

static void drive(void)
{
	for (int i = 0; i < SIDES; i++)
		fi_cq_read(r.cq[i], NULL, 0);
}

static void side_open(int i)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	assert_int_equal(fi_endpoint(r.domain, r.info, &r.ep[i], NULL), 0);
	assert_int_equal(fi_cq_open(r.domain, &cq, &r.cq[i], NULL), 0);
	assert_int_equal(fi_av_open(r.domain, &av, &r.av[i], NULL), 0);
	assert_int_equal(fi_ep_bind(r.ep[i], &r.cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(r.ep[i], &r.av[i]->fid, 0), 0);
	assert_int_equal(fi_enable(r.ep[i]), 0);
}

static void inject(int from, uint64_t tag)
{
	while (fi_tinject(r.ep[from], &tag, sizeof(tag), r.victim[from], tag) == -FI_EAGAIN)
		drive();
}

/* The next message of @from at @at, in @buf. */
static struct fi_cq_tagged_entry next_of(int at, fi_addr_t from, void *buf, size_t size)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry e;
	ssize_t ret;

	assert_int_equal(fi_trecv(r.ep[at], buf, size, NULL, from, 0, UINT64_MAX, NULL), 0);
	while ((ret = fi_cq_read(r.cq[at], &e, 1)) == -FI_EAGAIN) {
		assert_true(clk_now_ns(NULL) < until);
		drive();
	}
	assert_int_equal(ret, 1);
	return e;
}

/* The next message of @from has @tag. */
static void take(int from, uint64_t tag)
{
	uint64_t text = 0;

	next_of(VICTIM, r.name[from], &text, sizeof(text));
	assert_int_equal(text, tag);
}

static void greet(int from)
{
	const struct efa_peer *peer;

	inject(from, 1000);
	take(from, 1000);
	peer = inner(from)->peers[r.victim[from]];
	while (!LOCKED(peer->flags & EFA_PEER_HS_RCVD))
		drive();
}

static int setup(void **state)
{
	struct fi_info *hints = fi_allocinfo();

	(void)state;
	memset(&r, 0, sizeof(r));
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
	hints->rx_attr->size = RQ;
	assert_int_equal(g_prov->getinfo(FI_VERSION(2, 2), NULL, NULL, 0, hints, &r.info), 0);
	fi_freeinfo(hints);
	r.info->rx_attr->size = RQ;
	assert_int_equal(g_prov->fabric(r.info->fabric_attr, &r.fabric, NULL), 0);
	assert_int_equal(fi_domain(r.fabric, r.info, &r.domain, NULL), 0);
	assert_int_equal(
		fi_mr_reg(r.domain, r.mem, sizeof(r.mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &r.mr, NULL), 0);
	for (int i = 0; i < SIDES; i++)
		side_open(i);
	for (int i = BAD; i < SIDES; i++) {
		uint8_t addr[EFA_ADDR_LEN];
		size_t len = sizeof(addr);

		assert_int_equal(fi_getname(&r.ep[VICTIM]->fid, addr, &len), 0);
		assert_int_equal(fi_av_insert(r.av[i], addr, 1, &r.victim[i], 0, NULL), 1);
		assert_int_equal(fi_getname(&r.ep[i]->fid, addr, &len), 0);
		assert_int_equal(fi_av_insert(r.av[VICTIM], addr, 1, &r.name[i], 0, NULL), 1);
	}
	greet(BAD);
	greet(GOOD);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < SIDES; i++) {
		assert_int_equal(fi_close(&r.ep[i]->fid), 0);
		assert_int_equal(fi_close(&r.cq[i]->fid), 0);
		assert_int_equal(fi_close(&r.av[i]->fid), 0);
	}
	assert_int_equal(fi_close(&r.mr->fid), 0);
	assert_int_equal(fi_close(&r.domain->fid), 0);
	assert_int_equal(fi_close(&r.fabric->fid), 0);
	fi_freeinfo(r.info);
	return 0;
}

static void limit(enum efa_quota q, uint64_t own, uint64_t all)
{
	lock_acquire(lock_of_all());
	inner(VICTIM)->quota.limit[q].own = own;
	inner(VICTIM)->quota.limit[q].all = all;
	lock_release(lock_of_all());
}

static const struct efa_peer *bad_peer(void)
{
	return inner(VICTIM)->peers[r.name[BAD]];
}

/* At most half of the pool besides its own, one packet more, and what could not be refused. */
static void assert_bounded(enum efa_quota q, uint64_t each)
{
	const struct quota_limit *l = &inner(VICTIM)->quota.limit[q];

	assert_in_range(LOCKED(bad_peer()->quota.used[q]), 1, l->own + l->all / 2 + (RQ + 1) * each);
}

static void assert_others_get_on(void)
{
	for (uint64_t i = 0; i < 20; i++)
		inject(GOOD, i);
	for (uint64_t i = 0; i < 20; i++)
		take(GOOD, i);
}

/* A packet with header @h and @payload bytes, for @to. */
static struct efa_pkt *pkt_of(struct efa_peer *to, struct efa_hdr *h, size_t payload)
{
	struct efa_pkt *pkt = efa_pkt_get(to->ep, to, true);
	size_t len;

	assert_non_null(pkt);
	efa_hdr_identity(to->ep, to, h);
	len = efa_pkt_encode(h, pkt->buf, EFA_PKT_LARGE);
	memset(pkt->buf + len, 7, payload);
	pkt->type = h->type;
	pkt->sge[0] = (struct efanic_sge){pkt->buf, (uint32_t)(len + payload), EFANIC_LKEY_INTERNAL};
	pkt->sge_cnt = 1;
	return pkt;
}

/* A packet that no efa would send. */
static bool send_made_up(struct efa_hdr *h, size_t payload)
{
	struct efa_ep *ep = inner(BAD);
	struct efa_pkt *pkt;
	int ret;

	lock_acquire(&ep->domain->kit.lock);
	pkt = pkt_of(ep->peers[r.victim[BAD]], h, payload);
	ret = STAILQ_EMPTY(&ep->queued) ? efa_pkt_post(pkt) : -FI_EAGAIN;
	if (ret)
		efa_pkt_put(pkt);
	efanic_doorbell(ep->qp);
	lock_release(&ep->domain->kit.lock);
	return !ret;
}

static void kept__messages_without_a_receive(void **state)
{
	uint64_t sent = 0;

	(void)state;
	limit(EFA_Q_KEPT, 32768, 32768);
	for (int i = 0; i < ROUNDS && sent < 2000; i++) {
		sent += fi_tinject(r.ep[BAD], &sent, sizeof(sent), r.victim[BAD], sent) == 0;
		drive();
	}
	assert_bounded(EFA_Q_KEPT, 2048);
	assert_true(LOCKED(inner(VICTIM)->stats.quota_refused));
	assert_others_get_on();
	for (uint64_t i = 0; i < sent; i++)
		take(BAD, i);
	assert_int_equal(LOCKED(bad_peer()->quota.used[EFA_Q_KEPT]), 0);
	assert_int_equal(LOCKED(inner(VICTIM)->quota.pool[EFA_Q_KEPT]), 0);
}

/* Two of one address have one share together, between hosts; nothing is lost. On one host each has its own. */
static void kept__shares_of_one_source(void **state)
{
	enum { OWN = 1u << 20 };
	const struct efa_peer *good = inner(VICTIM)->peers[r.name[GOOD]];
	uint64_t sent[SIDES] = {0}, both;

	(void)state;
	limit(EFA_Q_KEPT, OWN, 0);
	LOCKED(inner(VICTIM)->quota.limit[EFA_Q_KEPT].owns = 1);
	for (int i = 0; i < ROUNDS / 4; i++) {
		for (int from = BAD; from < SIDES; from++)
			if (i % 2 == from % 2)
				sent[from] += !fi_tinject(r.ep[from], &sent[from], 8, r.victim[from], sent[from]);
		drive();
	}
	both = LOCKED(bad_peer()->quota.used[EFA_Q_KEPT] + good->quota.used[EFA_Q_KEPT]);
	assert_in_range(both, g_is_near ? 2 * OWN : OWN, (g_is_near ? 2 * OWN : OWN) + 2 * (RQ + 1) * 2048);
	for (int from = BAD; from < SIDES; from++)
		for (uint64_t i = 0; i < sent[from]; i++)
			take(from, i);
	assert_int_equal(LOCKED(bad_peer()->quota.used[EFA_Q_KEPT] + good->quota.used[EFA_Q_KEPT]), 0);
}

static void early__behind_a_gap(void **state)
{
	uint64_t sent = 0;

	(void)state;
	limit(EFA_Q_EARLY, 32768, 32768);
	LOCKED(inner(BAD)->peers[r.victim[BAD]]->next_msg_id++);
	for (int i = 0; i < ROUNDS && sent < 2000; i++) {
		sent += fi_tinject(r.ep[BAD], &sent, sizeof(sent), r.victim[BAD], sent) == 0;
		drive();
	}
	assert_bounded(EFA_Q_EARLY, 1024);
	assert_true(LOCKED(inner(VICTIM)->stats.early_refused));
	assert_others_get_on();
}

static void open__messages_that_do_not_end(void **state)
{
	struct efa_peer *peer = inner(BAD)->peers[r.victim[BAD]];
	uint32_t id = LOCKED(peer->next_msg_id);

	(void)state;
	limit(EFA_Q_OPEN, 32, 32);
	for (int i = 0; i < ROUNDS && id < 2000; i++) {
		struct efa_hdr h = {.type = EFA_PKT_MEDIUM_MSGRTM, .flags = EFA_FLAG_MSG, .msg_id = id,
				    .msg_len = 20000};
		bool is_sent = send_made_up(&h, 8);

		id = LOCKED(peer->next_msg_id += is_sent);
		drive();
	}
	assert_bounded(EFA_Q_OPEN, 1);
	assert_others_get_on();
}

/* Of one message more bytes than it has. */
static void open__the_same_bytes_again(void **state)
{
	uint32_t id = LOCKED(inner(BAD)->peers[r.victim[BAD]]->next_msg_id++);

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct efa_hdr h = {.type = EFA_PKT_MEDIUM_MSGRTM, .flags = EFA_FLAG_MSG, .msg_id = id,
				    .msg_len = 20000, .seg_off = 8};

		send_made_up(&h, i ? 1000 : 8);
		drive();
	}
	assert_in_range(LOCKED(bad_peer()->quota.used[EFA_Q_KEPT]), 1, 40 * 10000);
	assert_true(LOCKED(inner(VICTIM)->stats.drop[EFA_DROP_LENGTH]) > 100);
	assert_others_get_on();
}

static void work__writes_that_do_not_end(void **state)
{
	(void)state;
	limit(EFA_Q_WORK, 32, 32);
	for (uint32_t i = 0; i < ROUNDS / 4; i++) {
		struct efa_hdr h = {.type = EFA_PKT_LONGCTS_RTW, .send_id = i, .msg_len = 4096, .credit = 1,
				    .rma_iov_cnt = 1};

		h.rma_iov[0] = (struct efa_rma_iov){(uintptr_t)r.mem, 4096, fi_mr_key(r.mr)};
		send_made_up(&h, 8);
		drive();
	}
	assert_bounded(EFA_Q_WORK, 2);
	assert_true(LOCKED(inner(VICTIM)->stats.quota_refused));
	assert_others_get_on();
}

/* A message of 8 bytes, as the packet in which it leaves. It takes the next number. */
static struct efa_pkt *message_for(struct efa_peer *to, uint64_t tag)
{
	struct efa_hdr h = {.type = EFA_PKT_EAGER_TAGRTM, .flags = EFA_FLAG_MSG | EFA_FLAG_TAGGED, .tag = tag,
			    .msg_id = to->next_msg_id++, .msg_len = 8};

	return pkt_of(to, &h, 8);
}

/* The next message of the victim at @side has @tag and @len bytes. */
static void arrives(int side, uint64_t tag, size_t len)
{
	static uint8_t in[20000];
	struct fi_cq_tagged_entry e = next_of(side, FI_ADDR_UNSPEC, in, sizeof(in));

	assert_int_equal(e.tag, tag);
	assert_int_equal(e.len, len);
}

/* A packet waits for a peer that has no receive: a message of several packets for another one leaves all the same. */
static void queued__others_do_not_wait(void **state)
{
	static uint8_t out[20000];
	struct efa_ep *ep = inner(VICTIM);
	struct efa_peer *bad = ep->peers[r.name[BAD]];
	struct fi_cq_tagged_entry e;
	struct efa_pkt *pkt;
	struct fid_mr *mr;

	(void)state;
	assert_int_equal(fi_mr_reg(r.domain, out, sizeof(out), FI_SEND, 0, 0, 0, &mr, NULL), 0);
	lock_acquire(lock_of_all());
	efa_peer_flag(bad, EFA_PEER_RNR, true);
	bad->rnr_until_ns = UINT64_MAX;
	pkt = message_for(bad, 1);
	STAILQ_INSERT_TAIL(&ep->queued, pkt, link);
	ep->is_busy = true;
	lock_release(lock_of_all());
	assert_int_equal(fi_tsend(r.ep[VICTIM], out, sizeof(out), fi_mr_desc(mr), r.name[GOOD], 2, NULL), 0);
	arrives(GOOD, 2, sizeof(out));
	assert_false(LOCKED(STAILQ_EMPTY(&ep->queued)));
	while (fi_cq_read(r.cq[VICTIM], &e, 1) != 1)
		drive();
	assert_int_equal(fi_close(&mr->fid), 0);
	LOCKED(bad->rnr_until_ns = 0);
	arrives(BAD, 1, 8);
}

/* Who is asked to send by packets what he offered to be read does so later, if his send queue is full. */
static void nack__finds_the_send_queue_full(void **state)
{
	static const struct efa_hdr nack = {.type = EFA_PKT_READ_NACK};
	static uint8_t out[20000];
	struct efa_ep *ep = inner(VICTIM);
	struct efa_peer *good = ep->peers[r.name[GOOD]];
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry e;
	struct efa_pkt *pkt;
	struct efa_tx *tx;

	(void)state;
	lock_acquire(lock_of_all());
	do
		pkt = message_for(good, 4);
	while (!efa_pkt_post(pkt));
	efa_pkt_put(pkt);
	tx = efa_tx_get(ep, good, EFA_TX_SEND);
	tx->flags = 0;
	tx->cq_flags = FI_SEND | FI_TAGGED;
	tx->context = NULL;
	tx->tag = 4;
	tx->iov[0] = (struct iovec){out, sizeof(out)};
	tx->desc[0] = NULL;
	tx->iov_cnt = 1;
	tx->len = sizeof(out);
	tx->msg_id = good->next_msg_id++;
	tx->wait = EFA_WAIT_EOR;
	efa_tx_on_nack(tx, &nack);
	assert_false(tx->reported);
	assert_int_equal(tx->wait, EFA_WAIT_CTS);
	assert_int_equal(tx->wrs, 1);
	pkt = STAILQ_FIRST(&ep->queued);
	assert_ptr_equal(pkt->tx, tx);
	lock_release(lock_of_all());
	assert_int_equal(fi_cq_read(r.cq[VICTIM], &e, 1), -FI_EAGAIN);
	while (LOCKED(tx->wrs)) { /* the other one knows of no such message, and drops it */
		assert_true(clk_now_ns(NULL) < until);
		drive();
	}
	LOCKED((efa_tx_fail(tx, FI_ECANCELED, EFA_ERR_GENERIC), 0));
	assert_int_equal(fi_cq_read(r.cq[VICTIM], &e, 1), -FI_EAVAIL);
}

/* A message whose peer has no receive is kept while that peer is removed and inserted again: it is the new one's. */
static void again__to_who_was_inserted_again(void **state)
{
	struct efa_ep *ep = inner(VICTIM);
	struct efanic_wc wc = {.opcode = EFANIC_OP_SEND, .status = EFANIC_REMOTE_RNR};
	struct efa_peer *good = ep->peers[r.name[GOOD]];
	uint8_t addr[EFA_ADDR_LEN], bytes[EFA_PKT_SMALL];
	size_t len = sizeof(addr);
	struct efa_pkt *pkt;
	struct efa_tx *tx;

	(void)state;
	lock_acquire(lock_of_all());
	pkt = message_for(good, 3);
	view_set(&wc.data, bytes, pkt->sge[0].len);
	memcpy(bytes, pkt->buf, wc.data.len);
	efa_pkt_put(pkt);
	tx = efa_tx_get(ep, good, EFA_TX_SEND);
	tx->cq_flags = FI_SEND | FI_TAGGED;
	tx->len = 8;
	wc.wr_id = efa_tx_owned(tx);
	lock_release(lock_of_all());
	assert_int_equal(fi_getname(&r.ep[GOOD]->fid, addr, &len), 0);
	assert_int_equal(fi_av_remove(r.av[VICTIM], &r.name[GOOD], 1, 0), 0);
	assert_int_equal(fi_av_insert(r.av[VICTIM], addr, 1, &r.name[GOOD], 0, NULL), 1);
	lock_acquire(lock_of_all());
	good = efa_peer_get(ep, r.name[GOOD]);
	wc.src = good->dst;
	efa_on_wc(ep, &wc);
	assert_ptr_equal(tx->peer, good);
	lock_release(lock_of_all());
	arrives(GOOD, 3, 8);
}

/* A process reads its room once: one for each. */
static int run(const char *net, bool is_near)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kept__messages_without_a_receive, setup, teardown),
		cmocka_unit_test_setup_teardown(kept__shares_of_one_source, setup, teardown),
		cmocka_unit_test_setup_teardown(early__behind_a_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(open__messages_that_do_not_end, setup, teardown),
		cmocka_unit_test_setup_teardown(open__the_same_bytes_again, setup, teardown),
		cmocka_unit_test_setup_teardown(work__writes_that_do_not_end, setup, teardown),
		cmocka_unit_test_setup_teardown(queued__others_do_not_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(nack__finds_the_send_queue_full, setup, teardown),
		cmocka_unit_test_setup_teardown(again__to_who_was_inserted_again, setup, teardown),
	};

	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = unit_fork();
	if (!pid) {
		unsetenv("SOFTFABRIC_CONF");
		setenv("SOFTFABRIC_NET", net, 1);
		g_is_near = is_near;
		g_prov = fi_prov_ini();
		exit(!g_prov || cmocka_run_group_tests(tests, NULL, NULL));
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

int main(void)
{
	return run("seed=1", true) | run("paths=udp", false);
}
