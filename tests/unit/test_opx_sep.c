// SPDX-License-Identifier: BSD-2-Clause
// Scalable endpoints of opx: contexts with consecutive numbers, two fids for each, what is bound where, and the order
// of closing.
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "opx_fake.h"

#define CNT 4

struct rig {
	struct fake_dom dom;
	struct fid_ep *sep, *tx[CNT], *rx[CNT];
	struct fid_cq *txcq, *rxcq;
	struct fid_av *av;
	int64_t live;
};
static struct rig r;

static int setup(void **state)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {.rx_ctx_bits = 2};
	struct fi_info *h = fi_allocinfo();

	(void)state;
	fake_reset(1);
	r = (struct rig){.live = mem_live_count()};
	h->ep_attr->tx_ctx_cnt = h->ep_attr->rx_ctx_cnt = CNT;
	fake_open(&r.dom, h);
	assert_int_equal(fi_scalable_ep(r.dom.domain, r.dom.info, &r.sep, NULL), 0);
	assert_int_equal(fi_av_open(r.dom.domain, &av, &r.av, NULL), 0);
	assert_int_equal(fi_cq_open(r.dom.domain, &cq, &r.txcq, NULL), 0);
	assert_int_equal(fi_cq_open(r.dom.domain, &cq, &r.rxcq, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&r.sep->fid), 0);
	assert_int_equal(fi_close(&r.txcq->fid), 0);
	assert_int_equal(fi_close(&r.rxcq->fid), 0);
	assert_int_equal(fi_close(&r.av->fid), 0);
	fake_close(&r.dom);
	assert_int_equal(g_fake.opened, 0);
	assert_int_equal(g_fake.peers, 0);
	assert_int_equal(mem_live_count(), r.live);
	return 0;
}

static void contexts_open(void)
{
	for (int i = 0; i < CNT; i++) {
		assert_int_equal(fi_tx_context(r.sep, i, r.dom.info->tx_attr, &r.tx[i], NULL), 0);
		assert_int_equal(fi_rx_context(r.sep, i, r.dom.info->rx_attr, &r.rx[i], NULL), 0);
		assert_int_equal(r.tx[i]->fid.fclass, FI_CLASS_TX_CTX);
		assert_int_equal(r.rx[i]->fid.fclass, FI_CLASS_RX_CTX);
		assert_ptr_equal(opx_ep_of(r.tx[i]), opx_ep_of(r.rx[i]));
	}
}

/*
 * In the order of programs that enable contexts before the endpoint; one of them, Chapel, also names both directions to
 * bind a queue to either kind.
 */
static void contexts_enable(void)
{
	assert_int_equal(fi_scalable_ep_bind(r.sep, &r.av->fid, 0), 0);
	for (int i = 0; i < CNT; i++) {
		assert_int_equal(fi_ep_bind(r.tx[i], &r.txcq->fid, i ? FI_TRANSMIT : FI_TRANSMIT | FI_RECV), 0);
		assert_int_equal(fi_enable(r.tx[i]), 0);
	}
	for (int i = 0; i < CNT; i++) {
		assert_int_equal(fi_ep_bind(r.rx[i], &r.rxcq->fid, FI_RECV), 0);
		assert_int_equal(fi_enable(r.rx[i]), 0);
		assert_int_equal(fi_recv(r.rx[i], NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), 0);
	}
	assert_int_equal(fi_enable(r.sep), 0);
}

static void contexts_close(void)
{
	for (int i = 0; i < CNT; i++) {
		assert_int_equal(fi_close(&r.rx[i]->fid), 0);
		assert_int_equal(fi_close(&r.tx[i]->fid), 0);
	}
}

static struct opx_addr name_of(struct fid_ep *ep)
{
	struct opx_addr a;
	size_t len = sizeof(a);

	assert_int_equal(fi_getname(&ep->fid, &a, &len), 0);
	return a;
}

static void sep__life(void **state)
{
	struct opx_addr a, c;
	fi_addr_t f;

	(void)state;
	contexts_open();
	contexts_enable();
	assert_int_equal(g_fake.opened, CNT);
	a = name_of(r.sep);
	assert_int_equal(a.rx_index, 0);
	assert_true(le16_get(a.endpoint_id) & OPX_ADDR_SEP);
	assert_int_equal(fi_av_insert(r.av, &a, 1, &f, 0, NULL), 1);
	for (int i = 0; i < CNT; i++) {
		assert_int_equal(hfi_ctxt_info(opx_ep_of(r.tx[i])->hw)->ctxt, a.hfi1_rx + i);
		assert_true(opx_av_get(opx_ep_of(r.tx[i])->av, fi_rx_addr(f, i, 2), &c));
		assert_int_equal(opx_addr_uid(&c), be16_get(a.lid) << 8 | (a.hfi1_rx + i));
		c = name_of(r.rx[i]);
		assert_int_equal(c.hfi1_rx, a.hfi1_rx);
		assert_int_equal(c.rx_index, i);
	}
	assert_int_equal(fi_av_remove(r.av, &f, 1, 0), 0);
	assert_int_equal(g_fake.forgotten, CNT);
	assert_int_equal(fi_close(&r.sep->fid), -FI_EBUSY);
	contexts_close();
	assert_int_equal(g_fake.opened, 0);
	assert_int_equal(fi_close(&r.txcq->fid), 0); /* nothing of the contexts holds it, though the endpoint is open */
	assert_int_equal(fi_cq_open(r.dom.domain, (struct fi_cq_attr[]){{0}}, &r.txcq, NULL), 0);
}

static void sep__enabled_first(void **state)
{
	(void)state;
	contexts_open();
	assert_int_equal(fi_enable(r.sep), -FI_ENOAV);
	assert_int_equal(fi_scalable_ep_bind(r.sep, &r.av->fid, 0), 0);
	assert_int_equal(fi_enable(r.sep), 0);
	assert_int_equal(g_fake.opened, CNT);
	assert_int_equal(fi_send(r.tx[1], NULL, 0, NULL, 0, NULL), -FI_EOPBADSTATE);
	assert_int_equal(fi_enable(r.tx[1]), -FI_ENOENT); /* no CQ */
	assert_int_equal(fi_ep_bind(r.tx[1], &r.txcq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_enable(r.tx[1]), 0);
	assert_int_equal(fi_send(r.tx[1], NULL, 0, NULL, 0, NULL), 0);
	contexts_close();
	assert_int_equal(g_fake.opened, CNT - 1); /* the others go with the endpoint */
}

/* Numbers follow each other, whatever others hold. */
static void sep__consecutive(void **state)
{
	(void)state;
	contexts_open();
	g_fake.busy[0][1] = g_fake.busy[0][3] = true; /* 0, 2 and 4 to 7 are free */
	contexts_enable();
	assert_int_equal(name_of(r.sep).hfi1_rx, 4);
	assert_int_equal(g_fake.opened, CNT);
	contexts_close();
}

/* Where nothing begins at a multiple of the length any run will do. */
static void sep__between_others(void **state)
{
	(void)state;
	contexts_open();
	g_fake.busy[0][0] = g_fake.busy[0][5] = true;
	contexts_enable();
	assert_int_equal(name_of(r.sep).hfi1_rx, 1);
	contexts_close();
}

/*
 * Two processes look for contexts at the same time, each a thread here: whoever has spent less time on it so far is the
 * next to ask for one.
 */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct fid_ep *sep[2];
	int ret[2], spent[2];
} race;
static _Thread_local int racer;

static void race_wait(void)
{
	const int me = racer, other = !me;

	pthread_mutex_lock(&race.lock);
	race.spent[me] = g_fake_spent;
	pthread_cond_broadcast(&race.cond);
	while (race.spent[other] < race.spent[me] || (me && race.spent[other] == race.spent[me]))
		pthread_cond_wait(&race.cond, &race.lock);
	pthread_mutex_unlock(&race.lock);
}

static void *race_run(void *arg)
{
	racer = arg != race.sep;
	race.ret[racer] = fi_enable(race.sep[racer]);
	pthread_mutex_lock(&race.lock);
	race.spent[racer] = INT_MAX; /* it will ask for no more */
	pthread_cond_broadcast(&race.cond);
	pthread_mutex_unlock(&race.lock);
	return NULL;
}

/* Neither keeps the other from having a run of its own: there is room for forty. */
static void sep__at_the_same_time(void **state)
{
	pthread_t thread[2];

	(void)state;
	memset(&race, 0, sizeof(race));
	pthread_mutex_init(&race.lock, NULL);
	pthread_cond_init(&race.cond, NULL);
	race.sep[0] = r.sep;
	assert_int_equal(fi_scalable_ep(r.dom.domain, r.dom.info, &race.sep[1], NULL), 0);
	g_fake.unit[0].nctxts = HFI_CTXT_MAX;
	g_fake.turn = race_wait;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fi_scalable_ep_bind(race.sep[i], &r.av->fid, 0), 0);
		assert_int_equal(pthread_create(&thread[i], NULL, race_run, &race.sep[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(race.ret[0], 0);
	assert_int_equal(race.ret[1], 0);
	assert_int_equal(g_fake.opened, 2 * CNT);
	assert_int_equal(fi_close(&race.sep[1]->fid), 0);
	pthread_mutex_destroy(&race.lock);
	pthread_cond_destroy(&race.cond);
}

static struct {
	pthread_t thread;
	_Atomic bool is_done, was_done;
	int ret;
} second;

static void *second_run(void *arg)
{
	second.ret = fi_enable(arg);
	atomic_store(&second.is_done, true);
	return NULL;
}

/* Another thread enables the receive context: either waits for the first, or is done before that goes on. */
static void second_begin(void)
{
	if (atomic_exchange(&second.was_done, true))
		return;
	assert_int_equal(pthread_create(&second.thread, NULL, second_run, r.rx[0]), 0);
	for (int i = 0; i < 50 && !atomic_load(&second.is_done); i++)
		usleep(1000);
}

/* Two contexts of one endpoint are enabled by two threads: it gets its HFI contexts once. */
static void ctx__two_threads_enable(void **state)
{
	(void)state;
	memset(&second, 0, sizeof(second));
	g_fake.unit[0].nctxts = HFI_CTXT_MAX;
	contexts_open();
	assert_int_equal(fi_scalable_ep_bind(r.sep, &r.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(r.tx[0], &r.txcq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_ep_bind(r.rx[0], &r.rxcq->fid, FI_RECV), 0);
	g_fake.turn = second_begin;
	assert_int_equal(fi_enable(r.tx[0]), 0);
	assert_int_equal(pthread_join(second.thread, NULL), 0);
	assert_int_equal(second.ret, 0);
	assert_int_equal(g_fake.opened, CNT);
	assert_int_equal(g_fake.peers, CNT);
	contexts_close();
}

static void sep__no_run(void **state)
{
	(void)state;
	contexts_open();
	assert_int_equal(fi_scalable_ep_bind(r.sep, &r.av->fid, 0), 0);
	g_fake.busy[0][3] = g_fake.busy[0][7] = true;
	assert_int_equal(fi_enable(r.sep), -FI_EBUSY);
	assert_int_equal(g_fake.opened, 0);
	assert_int_equal(fake_log_cnt("no 4 free contexts with consecutive numbers"), 1);
	g_fake.busy[0][7] = false;
	assert_int_equal(fi_enable(r.sep), 0);
	assert_int_equal(name_of(r.sep).hfi1_rx, 4);
	contexts_close();
}

static void sep__directions(void **state)
{
	struct fid_cntr *cntr;

	(void)state;
	contexts_open();
	assert_int_equal(fi_cntr_open(r.dom.domain, NULL, &cntr, NULL), 0);
	assert_int_equal(fi_ep_bind(r.tx[0], &r.txcq->fid, FI_RECV), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(r.rx[0], &r.rxcq->fid, FI_TRANSMIT), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(r.tx[0], &cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(r.rx[0], &cntr->fid, FI_SEND), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(r.tx[0], &cntr->fid, FI_SEND | FI_WRITE), 0);
	assert_int_equal(fi_ep_bind(r.rx[0], &cntr->fid, FI_RECV | FI_REMOTE_READ), 0);
	assert_int_equal(fi_ep_bind(r.tx[0], &r.av->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_scalable_ep_bind(r.sep, &r.txcq->fid, FI_TRANSMIT), -FI_EINVAL);
	contexts_enable();
	assert_int_equal(fi_ep_bind(r.rx[0], &cntr->fid, FI_REMOTE_WRITE), -FI_EOPBADSTATE);
	assert_int_equal(fi_recv(r.tx[0], NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPNOTSUPP);
	assert_int_equal(fi_send(r.rx[0], NULL, 0, NULL, 0, NULL), -FI_EOPNOTSUPP);
	contexts_close();
	assert_int_equal(fi_close(&cntr->fid), 0);
}

static void sep__indices(void **state)
{
	struct fi_tx_attr tx = {.caps = FI_MSG | FI_RECV};
	struct fid_ep *ep = NULL;

	(void)state;
	assert_int_equal(fi_tx_context(r.sep, CNT, NULL, &ep, NULL), -FI_EINVAL);
	assert_int_equal(fi_rx_context(r.sep, CNT, NULL, &ep, NULL), -FI_EINVAL);
	assert_int_equal(fi_tx_context(r.sep, -1, NULL, &ep, NULL), -FI_EINVAL);
	assert_int_equal(fi_tx_context(r.sep, 0, &tx, &ep, NULL), -FI_EINVAL);
	assert_null(ep);
	assert_int_equal(fi_tx_context(r.sep, 2, NULL, &r.tx[2], NULL), 0);
	assert_int_equal(fi_tx_context(r.sep, 2, NULL, &ep, NULL), -FI_EINVAL);
	assert_int_equal(fi_close(&r.tx[2]->fid), 0);
}

static void sep__sizes(void **state)
{
	struct fi_info *info = fi_dupinfo(r.dom.info);
	struct fid_ep *sep = NULL;

	(void)state;
	info->ep_attr->tx_ctx_cnt = 5;
	assert_int_equal(fi_scalable_ep(r.dom.domain, info, &sep, NULL), -FI_EINVAL);
	info->ep_attr->tx_ctx_cnt = 1;
	info->ep_attr->rx_ctx_cnt = 3;
	assert_int_equal(fi_scalable_ep(r.dom.domain, info, &sep, NULL), 0);
	assert_int_equal(fi_tx_context(sep, 1, NULL, &r.tx[1], NULL), -FI_EINVAL);
	assert_int_equal(fi_rx_context(sep, 2, NULL, &r.rx[2], NULL), 0);
	assert_int_equal(fi_close(&r.rx[2]->fid), 0);
	assert_int_equal(fi_close(&sep->fid), 0);
	fi_freeinfo(info);
}

/* A receive context that closes takes its receives with it, and no more. */
static void ctx__receive_closes_first(void **state)
{
	struct opx_ep *ep;

	(void)state;
	contexts_open();
	contexts_enable();
	ep = opx_ep_of(r.tx[0]);
	assert_int_equal(ep->srx.posted_cnt, 1);
	assert_int_equal(fi_close(&r.rx[0]->fid), 0);
	assert_int_equal(ep->srx.posted_cnt, 0);
	assert_null(ep->kit.rx_cq);
	assert_int_equal(g_fake.opened, CNT);
	assert_int_equal(fi_send(r.tx[0], NULL, 0, NULL, 0, NULL), 0);
	assert_int_equal(fi_close(&r.tx[0]->fid), 0);
	assert_int_equal(g_fake.opened, CNT - 1);
	for (int i = 1; i < CNT; i++) {
		assert_int_equal(fi_close(&r.tx[i]->fid), 0);
		assert_int_equal(fi_close(&r.rx[i]->fid), 0);
	}
	assert_int_equal(g_fake.opened, 0);
}

static void reopen(int i)
{
	assert_int_equal(fi_tx_context(r.sep, i, NULL, &r.tx[i], NULL), 0);
	assert_int_equal(fi_rx_context(r.sep, i, NULL, &r.rx[i], NULL), 0);
	assert_int_equal(fi_ep_bind(r.tx[i], &r.txcq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_ep_bind(r.rx[i], &r.rxcq->fid, FI_RECV), 0);
}

/* Closed in both directions and opened again, by the same number: its address stays what it was. */
static void ctx__reopens(void **state)
{
	struct opx_addr a;

	(void)state;
	contexts_open();
	contexts_enable();
	a = name_of(r.rx[2]);
	for (int k = 0; k < 3; k++) {
		assert_int_equal(fi_close(&r.rx[2]->fid), 0);
		assert_int_equal(fi_close(&r.tx[2]->fid), 0);
		assert_int_equal(g_fake.opened, CNT - 1);
		reopen(2);
		assert_int_equal(fi_send(r.tx[2], NULL, 0, NULL, 0, NULL), -FI_EOPBADSTATE);
		assert_int_equal(fi_enable(r.tx[2]), 0);
		assert_int_equal(fi_enable(r.rx[2]), 0);
		assert_int_equal(g_fake.opened, CNT);
		assert_memory_equal(&a, (struct opx_addr[]){name_of(r.rx[2])}, sizeof(a));
		assert_int_equal(fi_send(r.tx[2], NULL, 0, NULL, 0, NULL), 0);
		assert_int_equal(fi_recv(r.rx[2], NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), 0);
	}
	contexts_close();
	for (int i = 0; i < CNT; i++)
		reopen(i);
	for (int i = CNT; i-- > 0;)
		assert_int_equal(fi_enable(r.rx[i]), 0);
	assert_int_equal(g_fake.opened, CNT);
	assert_memory_equal(&a, (struct opx_addr[]){name_of(r.rx[2])}, sizeof(a));
	contexts_close();
	assert_int_equal(g_fake.opened, 0);
}

/* Somebody else has taken the number meanwhile: refused, until he gives it back. */
static void ctx__reopen_refused(void **state)
{
	(void)state;
	contexts_open();
	contexts_enable();
	assert_int_equal(fi_close(&r.rx[1]->fid), 0);
	assert_int_equal(fi_close(&r.tx[1]->fid), 0);
	reopen(1);
	g_fake.busy[0][1] = true;
	assert_int_equal(fi_enable(r.tx[1]), -FI_EBUSY);
	g_fake.busy[0][1] = false;
	g_fake.peers_err = -FI_ENOMEM;
	assert_int_equal(fi_enable(r.tx[1]), -FI_EBUSY);
	assert_int_equal(g_fake.opened, CNT - 1);
	g_fake.peers_err = 0;
	assert_int_equal(fi_enable(r.tx[1]), 0);
	assert_int_equal(fi_enable(r.rx[1]), 0);
	contexts_close();
}

static void memory__fails(void **state)
{
	struct fid_ep *sep = NULL;
	int64_t live = mem_live_count();
	int n = 0, ret;

	(void)state;
	do {
		mem_fail_nth((uint64_t)++n);
		ret = fi_scalable_ep(r.dom.domain, r.dom.info, &sep, NULL);
		mem_fail_nth(0);
		assert_true(!ret || ret == -FI_ENOMEM);
		assert_true(!ret || mem_live_count() == live);
	} while (ret);
	assert_true(n > 10);
	assert_int_equal(fi_close(&sep->fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sep__life, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__enabled_first, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__consecutive, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__between_others, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__at_the_same_time, setup, teardown),
		cmocka_unit_test_setup_teardown(ctx__two_threads_enable, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__no_run, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__directions, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__indices, setup, teardown),
		cmocka_unit_test_setup_teardown(sep__sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(ctx__receive_closes_first, setup, teardown),
		cmocka_unit_test_setup_teardown(ctx__reopens, setup, teardown),
		cmocka_unit_test_setup_teardown(ctx__reopen_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(memory__fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
