// SPDX-License-Identifier: BSD-2-Clause
// What only opx has around its units: contexts that run out, ports that go down, partitions and jobs that know nothing
// of each other.
#include "conform.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* --- contexts ------------------------------------------------------------------------------------ */

/* An endpoint that is ready to be enabled. */
static void ep_almost(struct ct *c, struct ct_ep2 *e)
{
	OK(fi_endpoint(c->domain, c->info, &e->ep, NULL));
	e->cq = ct_cq(c, 0, 0);
	e->av = ct_av(c);
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(e->ep, &e->av->fid, 0));
}

/* The unit has three contexts: a fourth endpoint is refused, until one of the others is closed. */
static void opx_contexts(struct ct *c)
{
	struct ct_ep2 e[3];

	ct_open(c);
	ct_ep2_open(c, &e[0]);
	ct_ep2_open(c, &e[1]);
	ep_almost(c, &e[2]);
	RET(-FI_EBUSY, fi_enable(e[2].ep));
	RET(-FI_EBUSY, fi_enable(e[2].ep));
	ct_ep2_close(c, &e[0]);
	OK(fi_enable(e[2].ep));
	ct_ep2_close(c, &e[1]);
	ct_ep2_close(c, &e[2]);
	ct_self(c, false);
	ct_close(c);
}

/* An endpoint that cannot come up, for whatever reason of the adapter's. */
static void opx_refused_enable(struct ct *c)
{
	struct ct_ep2 e;

	ct_open_to_domain(c);
	ep_almost(c, &e);
	RET(-FI_EBUSY, fi_enable(e.ep));
	CHECK(fi_inject(e.ep, "x", 1, 0) < 0, "a send of an endpoint that is not enabled");
	ct_ep2_close(c, &e);
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
}

/* --- partitions and jobs ------------------------------------------------------------------------- */

/* A partition of one's own. */
static void opx_pkey(struct ct *c)
{
	ct_open(c);
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

/*
 * What rank 0 sends to rank 1 never gets through to it, and is counted there as @counter. On a busy machine a round may
 * pass before rank 1 looks at what came.
 */
#define APART_ROUNDS 20

static void apart(struct ct *c, const char *counter)
{
	struct timespec nap = {0, 200000};
	uint64_t dropped = 0, seen = 0;
	uint8_t mem[64];
	int refused = 0;

	ct_open(c);
	if (c->rank)
		OK(fi_recv(c->ep, mem, sizeof(mem), NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	for (int round = 0; !seen && round < APART_ROUNDS; round++) {
		for (uint64_t until = ct_now_ms() + 500; !c->rank && ct_now_ms() < until; refused++) {
			RET(-FI_EAGAIN, fi_send(c->ep, mem, sizeof(mem), NULL, c->peer, &c->ctx[0]));
			ct_progress(c);
			nanosleep(&nap, NULL);
		}
		ct_barrier(c);
		dropped = ct_stat(c, counter);
		ct_swap(c, &dropped, &seen, sizeof(seen));
		seen = c->rank ? dropped : seen;
	}
	if (c->rank) {
		CHECK(dropped > 0, "%s is 0", counter);
		ct_no_comp(c, c->rxcq);
		OK(fi_cancel(&c->ep->fid, &c->ctx[0]));
		CHECK(ct_comp_err(c, c->rxcq, FI_RECV | FI_MSG).err == FI_ECANCELED, "canceled");
	} else {
		CHECK(refused > 0, "not one try");
	}
	ct_close(c);
}

/* The same of two domains of one process. */
static void apart_domains(struct ct *c, const char *name, const char *value, const char *counter)
{
	struct fi_cq_tagged_entry entry;
	struct ct_ep2 e;
	struct ct other;
	uint8_t mem[64];
	fi_addr_t to;

	ct_open(c);
	if (c->rank) {
		ct_barrier(c);
		ct_close(c);
		return;
	}
	other = *c;
	setenv(name, value, 1);
	OK(fi_domain(c->fabric, c->info, &other.domain, NULL));
	ct_ep2_open(&other, &e);
	RET(1, fi_av_insert(c->av, e.addr, 1, &to, 0, NULL));
	OK(fi_recv(e.ep, mem, sizeof(mem), NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	while (ct_stat(&other, counter) < 5) {
		RET(-FI_EAGAIN, fi_send(c->ep, mem, sizeof(mem), NULL, to, &c->ctx[1]));
		RET(-FI_EAGAIN, fi_cq_read(e.cq, &entry, 1));
	}
	OK(fi_cancel(&e.ep->fid, &c->ctx[0]));
	CHECK(ct_comp_err(&other, e.cq, FI_RECV | FI_MSG).err == FI_ECANCELED, "canceled");
	ct_ep2_close(&other, &e);
	OK(fi_close(&other.domain->fid));
	ct_barrier(c);
	ct_close(c);
}

/* Rank 1, or the process's other domain, differs in @name. */
static void apart_by(struct ct *c, const char *name, const char *value, const char *counter)
{
	if (c->mode == CT_ONE) {
		apart_domains(c, name, value, counter);
		return;
	}
	if (c->rank)
		setenv(name, value, 1);
	apart(c, counter);
}

static void opx_uuid(struct ct *c)
{
	apart_by(c, "FI_OPX_UUID", "deadbeef", "drop_uuid");
}

static void opx_pkey_other(struct ct *c)
{
	apart_by(c, "FI_OPX_PKEY", "0x8002", "drop_pkey");
}

/* The job key follows from who one is: rank 1 may not administer the system. */
static void opx_jkey(struct ct *c)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

	OK(syscall(SYS_capget, &head, data));
	if (!(data[0].effective & 1u << CAP_SYS_ADMIN))
		ct_skip(c, "nobody here has more rights than others");
	data[0].effective &= ~(1u << CAP_SYS_ADMIN);
	if (c->rank)
		OK(syscall(SYS_capset, &head, data));
	apart(c, "drop_jkey");
}

/* --- ports --------------------------------------------------------------------------------------- */

/*
 * While the port is down sends to other hosts are refused or wait; what was accepted arrives, and afterwards all goes
 * on.
 */
static void opx_port_down(struct ct *c)
{
	uint64_t until, sent = 0, down = 0, after = 0, v;

	ct_open(c);
	ct_barrier(c);
	until = ct_now_ms() + (c->mode == CT_UDP ? 30000 : 3500);
	if (c->rank == 0) {
		struct timespec nap = {0, 1000000};

		for (; ct_now_ms() < until && after < 100; nanosleep(&nap, NULL)) {
			int ret = (int)fi_inject(c->ep, &sent, sizeof(sent), c->peer);

			CHECK(!ret || ret == -FI_EAGAIN || ret == -FI_ENETDOWN, "%s", ct_err(ret));
			sent += !ret;
			down += ret == -FI_ENETDOWN;
			after += !ret && down;
			ct_progress(c);
		}
		/* what goes by shared memory passes no port */
		CHECK(c->mode == CT_UDP ? down > 0 && after > 0 : !down,
		      "%llu sent, %llu refused, %llu sent after that", (unsigned long long)sent,
		      (unsigned long long)down, (unsigned long long)after);
	}
	v = sent;
	ct_swap(c, &v, &sent, sizeof(sent));
	for (uint64_t i = 0; i < sent && c->rank; i++) {
		while (ct_again(c, fi_recv(c->ep, &v, sizeof(v), NULL, FI_ADDR_UNSPEC, &c->ctx[0])))
			;
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, sizeof(v));
		CHECK(v == i, "message %llu in place of %llu", (unsigned long long)v, (unsigned long long)i);
	}
	ct_close(c);
}

#define NET_DOWN 35 /* prov_errno: the port is down */

/* The next entry of @cq is the end of @context, because of the port. */
static void ended_by_port(struct ct *c, struct fid_cq *cq, const bool *is_mine, size_t cnt)
{
	bool seen[8] = {0};

	for (size_t left = cnt; left; left--) {
		struct fi_cq_err_entry e = ct_comp_err(c, cq, 0);
		size_t i = (size_t)((struct fi_context2 *)e.op_context - c->ctx);

		CHECK(i < 8 && is_mine[i] && !seen[i], "an error of another operation, or twice");
		seen[i] = true;
		CHECK(e.err == FI_ENETDOWN && e.prov_errno == NET_DOWN, "operation %zu ended with %d/%d", i, e.err,
		      e.prov_errno);
	}
}

/*
 * Rank 1 has sent a long message and then makes no call: nothing of what rank 0 begins with it can end before the port
 * goes down.
 */
static void down_target(struct ct *c, const struct ct_msg *m)
{
	static const bool mine[8] = {[5] = true};

	while (ct_again(c, ct_post_send(c, m)))
		;
	ct_barrier_idle(c);
	ct_barrier_idle(c);
	ended_by_port(c, c->txcq, mine, 1);
}

/* A port that stays down: sends, receives, writes, reads and atomics that are under way end with that error. */
static void opx_port_down_pending(struct ct *c)
{
	static const bool tx[8] = {true, true, true, true}, rx[8] = {[4] = true};
	const size_t len = 200000;
	uint64_t one = 1, res;
	struct ct_window w;
	struct ct_buf b;

	ct_open(c);
	ct_window(c, &w, len, FI_REMOTE_READ | FI_REMOTE_WRITE);
	ct_buf(c, &b, len, 0, 0);
	struct ct_msg m = {.addr = c->peer, .ctx = &c->ctx[c->rank ? 5 : 0], .mem = b.mem, .len = len, .buf = &b};

	if (c->rank) {
		down_target(c, &m);
	} else {
		OK(fi_recv(c->ep, w.mine.mem, len, NULL, FI_ADDR_UNSPEC, &c->ctx[4]));
		while (!ct_stat(c, "rx_rzv"))
			ct_progress(c);
		ct_barrier_idle(c);
		while (ct_again(c, ct_post_send(c, &m)))
			;
		while (ct_again(c, fi_write(c->ep, b.mem, len, NULL, c->peer, w.at.addr, w.at.key, &c->ctx[1])))
			;
		while (ct_again(c, fi_read(c->ep, b.mem, len, NULL, c->peer, w.at.addr, w.at.key, &c->ctx[2])))
			;
		while (ct_again(c, fi_fetch_atomic(c->ep, &one, 1, NULL, &res, NULL, c->peer, w.at.addr, w.at.key,
						   FI_UINT64, FI_SUM, &c->ctx[3])))
			;
		ended_by_port(c, c->txcq, tx, 4);
		ended_by_port(c, c->rxcq, rx, 1);
		RET(-FI_ENETDOWN, fi_inject(c->ep, &one, sizeof(one), c->peer));
		RET(-FI_ENETDOWN, fi_inject_write(c->ep, &one, sizeof(one), c->peer, w.at.addr, w.at.key));
		RET(-FI_ENETDOWN, fi_inject_atomic(c->ep, &one, 1, c->peer, w.at.addr, w.at.key, FI_UINT64, FI_SUM));
		RET(-FI_ENETDOWN, fi_read(c->ep, b.mem, len, NULL, c->peer, w.at.addr, w.at.key, &c->ctx[2]));
		ct_barrier_idle(c);
	}
	ct_buf_free(c, &b);
	ct_window_free(c, &w);
	ct_close(c);
}

#define SOLO (CT_SOLO | CT_ANY_PATH)
#define UNIT "FI_OPX_HFI_SELECT=7 SOFTFABRIC_OPX=units=8" /* a unit that no other test uses */

const struct ct_test opx_port_tests[] = {
	{"opx_contexts", opx_contexts, FI_MSG, 0, SOLO, "ep_cnt", UNIT ";contexts=3", "opx"},
	{"opx_port_inactive", opx_refused_enable, FI_MSG, 0, SOLO, NULL,
	 "FI_OPX_HFI_SELECT=1 SOFTFABRIC_OPX=units=2;state=active,init", "opx"},
	{"opx_unit_absent", opx_refused_enable, FI_MSG, 0, SOLO, NULL, "FI_OPX_HFI_SELECT=3 SOFTFABRIC_OPX=units=2",
	 "opx"},
	{"opx_pkey", opx_pkey, FI_MSG, 0, 0, NULL, "FI_OPX_PKEY=0x8002 SOFTFABRIC_OPX=pkeys=0x8001,0x8002", "opx"},
	{"opx_pkey_absent", opx_refused_enable, FI_MSG, 0, SOLO, NULL,
	 "FI_OPX_PKEY=0x8003 SOFTFABRIC_OPX=pkeys=0x8001,0x8002", "opx"},
	{"opx_pkey_other", opx_pkey_other, FI_MSG, 0, CT_ANY_PATH, NULL, "SOFTFABRIC_OPX=pkeys=0x8001,0x8002", "opx"},
	{"opx_uuid", opx_uuid, FI_MSG, 0, CT_ANY_PATH, NULL, NULL, "opx"},
	{"opx_jkey", opx_jkey, FI_MSG, 0, CT_ANY_PATH, NULL, NULL, "opx"},
	{"opx_port_down", opx_port_down, FI_MSG, 0, 0, NULL, "SOFTFABRIC_OPX=down=500ms-3s", "opx"},
	{"opx_port_down_pending", opx_port_down_pending, FI_MSG | FI_RMA | FI_ATOMIC, 0, CT_ANY_PATH, NULL,
	 "SOFTFABRIC_NET=paths=udp;dead_after=8s SOFTFABRIC_OPX=down=6s-600s", "opx"},
	{0},
};
