// SPDX-License-Identifier: BSD-2-Clause
// A context of a scalable endpoint closes with something under way, while the one of the other direction, with which it
// shares an HFI context, stays open.
#include <string.h>

#include "base/clock.h"
#include "opx_world.h"

#define LEN 200000u /* goes by rendezvous */

static struct world w;
static struct {
	struct fid_ep *sep, *tx, *rx;
	struct fid_cq *txcq, *rxcq;
	struct fid_av *av;
	fi_addr_t to;   /* endpoint 1 of the world, at it */
	fi_addr_t name; /* its own, at endpoint 1 */
} s;

static uint64_t end_ns(void)
{
	return clk_now_ns(NULL) + 20 * NS_PER_SEC * unit_slow();
}

static void sep_open(void)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {.type = FI_AV_TABLE, .rx_ctx_bits = 1};
	struct fi_info *h = fi_allocinfo(), *info;
	struct opx_addr addr;
	size_t len = sizeof(addr);

	h->ep_attr->type = FI_EP_RDM;
	h->ep_attr->tx_ctx_cnt = h->ep_attr->rx_ctx_cnt = 1;
	assert_int_equal(opx_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, h, &info), 0);
	assert_int_equal(fi_scalable_ep(w.domain, info, &s.sep, NULL), 0);
	assert_int_equal(fi_av_open(w.domain, &av, &s.av, NULL), 0);
	assert_int_equal(fi_cq_open(w.domain, &cq, &s.txcq, NULL), 0);
	assert_int_equal(fi_cq_open(w.domain, &cq, &s.rxcq, NULL), 0);
	assert_int_equal(fi_scalable_ep_bind(s.sep, &s.av->fid, 0), 0);
	assert_int_equal(fi_tx_context(s.sep, 0, NULL, &s.tx, NULL), 0);
	assert_int_equal(fi_rx_context(s.sep, 0, NULL, &s.rx, NULL), 0);
	assert_int_equal(fi_ep_bind(s.tx, &s.txcq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_ep_bind(s.rx, &s.rxcq->fid, FI_RECV), 0);
	assert_int_equal(fi_enable(s.tx), 0);
	assert_int_equal(fi_enable(s.rx), 0);
	assert_int_equal(fi_getname(&s.sep->fid, &addr, &len), 0);
	assert_int_equal(fi_av_insert(w.av[1], &addr, 1, &s.name, 0, NULL), 1);
	assert_int_equal(fi_getname(&w.ep[1]->fid, &addr, &len), 0);
	assert_int_equal(fi_av_insert(s.av, &addr, 1, &s.to, 0, NULL), 1);
	fi_freeinfo(h);
	fi_freeinfo(info);
}

static void sep_close(void)
{
	assert_int_equal(fi_close(&s.sep->fid), 0);
	assert_int_equal(fi_close(&s.txcq->fid), 0);
	assert_int_equal(fi_close(&s.rxcq->fid), 0);
	assert_int_equal(fi_close(&s.av->fid), 0);
}

/* What ends at @cq, while all make progress. Return: 1; -1, *@err. */
static int finish(struct fid_cq *cq, struct fi_cq_err_entry *err)
{
	uint64_t end = end_ns();

	while (clk_now_ns(NULL) < end) {
		struct fi_cq_tagged_entry e;
		ssize_t n = fi_cq_read(cq, &e, 1);

		if (n == 1)
			return 1;
		if (n == -FI_EAVAIL) {
			assert_int_equal(fi_cq_readerr(cq, err, 0), 1);
			return -1;
		}
		fi_cq_read(s.txcq, NULL, 0);
		fi_cq_read(s.rxcq, NULL, 0);
		world_run(&w, 1);
	}
	fail();
	return 0;
}

/* A message that is not there to wait for: its operation has ended, in the queue that was the context's. */
static void must_be_canceled(struct fid_cq *cq, const void *context)
{
	struct fi_cq_err_entry err = {0};

	assert_int_equal(finish(cq, &err), -1);
	assert_ptr_equal(err.op_context, context);
	assert_int_equal(err.err, FI_ECANCELED);
	assert_int_equal(fi_cq_read(cq, &(struct fi_cq_tagged_entry){0}, 1), -FI_EAGAIN);
}

/* Its peer hears of an end, and what it says afterwards finds nothing. */
static void transmit__closes_with_a_send(void **state)
{
	static uint8_t src[LEN], dst[LEN];
	struct fi_cq_err_entry err;

	(void)state;
	for (unsigned how = 0; how < 2; how++) {
		ssize_t rc;

		world_open(&w, how ? WORLD_UDP : 0);
		sep_open();
		for (uint64_t end = end_ns(); clk_now_ns(NULL) < end;) {
			rc = fi_send(s.tx, src, LEN, NULL, s.to, src);
			if (rc != -FI_EAGAIN)
				break;
			world_run(&w, 1);
		}
		assert_int_equal(rc, 0);
		for (uint64_t end = end_ns(); !world_ep(&w, 1)->stats.rx_rzv && clk_now_ns(NULL) < end;) {
			fi_cq_read(s.txcq, NULL, 0);
			world_run(&w, 1);
		}
		assert_int_equal(fi_close(&s.tx->fid), 0);
		must_be_canceled(s.txcq, src);
		assert_int_equal(fi_recv(w.ep[1], dst, LEN, NULL, FI_ADDR_UNSPEC, dst), 0);
		assert_int_equal(finish(w.cq[1], &err), -1);
		assert_int_equal(fi_close(&s.rx->fid), 0);
		sep_close();
		world_close(&w);
	}
}

/* Nobody writes to its memory any more. */
static void receive__closes_with_a_message(void **state)
{
	static uint8_t src[LEN], dst[LEN], none[LEN];
	struct fi_cq_err_entry err;
	struct opx_ep *ep;
	ssize_t rc;

	(void)state;
	world_open(&w, WORLD_UDP);
	sep_open();
	ep = opx_ep_of(s.rx);
	memset(src, 7, LEN);
	assert_int_equal(fi_recv(s.rx, dst, LEN, NULL, FI_ADDR_UNSPEC, dst), 0);
	for (uint64_t end = end_ns(); clk_now_ns(NULL) < end;) {
		rc = fi_send(w.ep[1], src, LEN, NULL, s.name, src);
		if (rc != -FI_EAGAIN)
			break;
		fi_cq_read(s.rxcq, NULL, 0);
	}
	assert_int_equal(rc, 0);
	fi_cq_read(w.cq[1], NULL, 0);
	for (uint64_t end = end_ns(); !ep->stats.rx_rzv && clk_now_ns(NULL) < end;)
		fi_cq_read(s.rxcq, NULL, 0); /* it has asked for the bytes, which are not sent yet */
	assert_int_equal(fi_close(&s.rx->fid), 0);
	must_be_canceled(s.rxcq, dst);
	assert_int_equal(finish(w.cq[1], &err), -1);
	assert_int_equal(err.err, FI_ECONNRESET);
	assert_memory_equal(dst, none, LEN);
	assert_int_equal(fi_close(&s.tx->fid), 0);
	sep_close();
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transmit__closes_with_a_send),
		cmocka_unit_test(receive__closes_with_a_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
