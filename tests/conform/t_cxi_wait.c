// SPDX-License-Identifier: BSD-2-Clause
// cxi: sleeping on the descriptors of completion queues and counters.
#include "conform.h"

#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

/* The endpoint anew, with a receive queue that has a descriptor, or a counter of receives that has one. */
static void open_waiting(struct ct *c, bool is_cntr)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};

	c->want.no_enable = true;
	ct_open(c);
	OK(fi_close(&c->ep->fid));
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL));
	if (is_cntr) {
		OK(fi_cntr_open(c->domain, &cntr, &c->cntr, NULL));
		OK(fi_ep_bind(c->ep, &c->cntr->fid, FI_RECV));
	} else {
		OK(fi_close(&c->rxcq->fid));
		OK(fi_cq_open(c->domain, &attr, &c->rxcq, NULL));
	}
	OK(fi_ep_bind(c->ep, &c->txcq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(c->ep, &c->rxcq->fid, FI_RECV));
	OK(fi_ep_bind(c->ep, &c->av->fid, 0));
	OK(fi_enable(c->ep));
	ct_connect(c);
}

/* An epoll set with the descriptor of @fid. */
static int epoll_on(struct ct *c, struct fid *fid)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int fd = -1, ep = epoll_create1(EPOLL_CLOEXEC);

	OK(fi_control(fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), "no descriptor");
	return ep;
}

/* What the manual says: sleep only after fi_trywait has allowed it. */
static void sleep_on(struct ct *c, struct fid *fid, int ep)
{
	struct fid *fids[1] = {fid};
	struct epoll_event ev;
	int try = fi_trywait(c->fabric, fids, 1);

	CHECK(!try || try == -FI_EAGAIN, "%s", ct_err(try));
	CHECK(try || epoll_wait(ep, &ev, 1, 10000) == 1, "a message did not wake");
}

static void send_later(struct ct *c, struct ct_msg *m, unsigned i)
{
	struct timespec nap = {0, 2000000 * (i % 5)};

	ct_barrier_idle(c);
	nanosleep(&nap, NULL);
	ct_fill(m->mem, m->len, i);
	ct_send(c, m);
	ct_tx(c, &c->ctx[i], FI_SEND | FI_MSG);
}

/* The documented way: fi_trywait, then epoll on the queue's descriptor; a message wakes it. */
static void cxi_wait(struct ct *c)
{
	uint8_t mem[100];
	int ep;

	open_waiting(c, false);
	ep = epoll_on(c, &c->rxcq->fid);
	for (unsigned i = 0; i < 20; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[i], .mem = mem,
				   .len = sizeof(mem)};
		struct fi_cq_tagged_entry e;
		ssize_t ret;

		if (!c->rank) {
			send_later(c, &m, i);
			continue;
		}
		ct_recv(c, &m);
		ct_barrier_idle(c);
		while ((ret = fi_cq_read(c->rxcq, &e, 1)) == -FI_EAGAIN)
			sleep_on(c, &c->rxcq->fid, ep);
		RET(1, ret);
		ct_verify(c, mem, sizeof(mem), i, "waited for");
	}
	if (c->rank) { /* fi_cq_sread sleeps as long as it is told */
		uint64_t start = ct_now_ms();
		struct fi_cq_tagged_entry e;

		RET(-FI_EAGAIN, fi_cq_sread(c->rxcq, &e, 1, NULL, 60));
		CHECK(ct_now_ms() - start >= 40, "woke after %llu ms", (unsigned long long)(ct_now_ms() - start));
	}
	close(ep);
	ct_close(c);
}

/*
 * The same with a counter's descriptor: what is slept for is the number, the completion is there with it. Then
 * fi_cntr_wait sleeps as long as it is told, and is woken by the last message. The long ones are fetched before they
 * count.
 */
static void cxi_wait_cntr(struct ct *c)
{
	static uint8_t mem[60000];
	int ep;

	open_waiting(c, true);
	ep = epoll_on(c, &c->cntr->fid);
	for (unsigned i = 0; i <= 20; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[i], .mem = mem,
				   .len = i % 3 ? 100 : sizeof(mem)};

		if (!c->rank) {
			send_later(c, &m, i);
			continue;
		}
		ct_recv(c, &m);
		ct_barrier_idle(c);
		if (i == 20)
			OK(fi_cntr_wait(c->cntr, 21, 10000));
		while (fi_cntr_read(c->cntr) < i + 1)
			sleep_on(c, &c->cntr->fid, ep);
		RET(i + 1, fi_cntr_read(c->cntr));
		ct_rx(c, &c->ctx[i], FI_RECV | FI_MSG, m.len);
		ct_verify(c, mem, m.len, i, "counted");
	}
	if (c->rank) {
		uint64_t start = ct_now_ms();

		RET(-FI_ETIMEDOUT, fi_cntr_wait(c->cntr, 22, 60));
		CHECK(ct_now_ms() - start >= 40, "woke after %llu ms", (unsigned long long)(ct_now_ms() - start));
	}
	close(ep);
	ct_close(c);
}

const struct ct_test cxi_wait_tests[] = {
	{"cxi_wait", cxi_wait, FI_MSG, 0, 0, NULL, NULL, "cxi"},
	{"cxi_wait_cntr", cxi_wait_cntr, FI_MSG, 0, CT_GENS, NULL, NULL, "cxi"},
	{0},
};
