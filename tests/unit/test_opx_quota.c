// SPDX-License-Identifier: BSD-2-Clause
// What one peer can make an endpoint of opx keep has a bound, on one host and between hosts; others get on, and nothing
// that was accepted is lost.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/providers/fi_prov.h>

#include "base/clock.h"
#include "prov/opx/opx.h"
#include "unit.h"

#define WAIT_NS (30000ull * NS_PER_MS)
#define LEN	1024u
#define SENDS	6000u /* that the greedy one tries */

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
	fi_addr_t victim[SIDES], name[SIDES]; /* it, as the others know it; they, as it does */
	struct fid_mr *mr;
	uint8_t mem[1u << 16], out[LEN];
} r;

static struct opx_ep *inner(int i)
{
	return opx_ep_of(r.ep[i]);
}

static void drive(void)
{
	for (int i = 0; i < SIDES; i++)
		fi_cq_read(r.cq[i], NULL, 0);
}

static void side_open(int i)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE, .size = 4 * SENDS};
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	assert_int_equal(fi_endpoint(r.domain, r.info, &r.ep[i], NULL), 0);
	assert_int_equal(fi_cq_open(r.domain, &cq, &r.cq[i], NULL), 0);
	assert_int_equal(fi_av_open(r.domain, &av, &r.av[i], NULL), 0);
	assert_int_equal(fi_ep_bind(r.ep[i], &r.cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(r.ep[i], &r.av[i]->fid, 0), 0);
	assert_int_equal(fi_enable(r.ep[i]), 0);
}

static int setup(void **state)
{
	struct fi_info *hints = fi_allocinfo();

	(void)state;
	memset(&r, 0, sizeof(r));
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV;
	hints->ep_attr->type = FI_EP_RDM;
	assert_int_equal(g_prov->getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &r.info), 0);
	fi_freeinfo(hints);
	assert_int_equal(g_prov->fabric(r.info->fabric_attr, &r.fabric, NULL), 0);
	assert_int_equal(fi_domain(r.fabric, r.info, &r.domain, NULL), 0);
	assert_int_equal(
		fi_mr_reg(r.domain, r.mem, sizeof(r.mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 77, 0, &r.mr, NULL), 0);
	for (int i = 0; i < SIDES; i++)
		side_open(i);
	for (int i = BAD; i < SIDES; i++) {
		uint8_t addr[64];
		size_t len = sizeof(addr);

		assert_int_equal(fi_getname(&r.ep[VICTIM]->fid, addr, &len), 0);
		assert_int_equal(fi_av_insert(r.av[i], addr, 1, &r.victim[i], 0, NULL), 1);
		len = sizeof(addr);
		assert_int_equal(fi_getname(&r.ep[i]->fid, addr, &len), 0);
		assert_int_equal(fi_av_insert(r.av[VICTIM], addr, 1, &r.name[i], 0, NULL), 1);
	}
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

static bool say(int from, uint64_t tag)
{
	memcpy(r.out, &tag, sizeof(tag));
	return !fi_tsenddata(r.ep[from], r.out, LEN, NULL, 0, r.victim[from], tag, NULL);
}

/* The same, as often as it is refused: before the handshake, or for want of room. */
static void say_sure(int from, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (!say(from, tag)) {
		assert_true(clk_now_ns(NULL) < until);
		drive();
	}
}

/* The next message of @from has @tag. */
static void take(int from, uint64_t tag)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry e;
	uint8_t in[LEN];
	ssize_t ret;

	assert_int_equal(fi_trecv(r.ep[VICTIM], in, LEN, NULL, r.name[from], 0, UINT64_MAX, NULL), 0);
	while ((ret = fi_cq_read(r.cq[VICTIM], &e, 1)) == -FI_EAGAIN) {
		assert_true(clk_now_ns(NULL) < until);
		drive();
	}
	assert_int_equal(ret, 1);
	assert_int_equal(e.tag, tag);
	assert_memory_equal(in, &tag, sizeof(tag));
}

static const struct opx_peer *bad_peer(void)
{
	return opx_peer_get(inner(VICTIM), r.name[BAD]);
}

static void others_get_on(void)
{
	for (uint64_t i = 0; i < 20; i++) {
		say_sure(GOOD, i);
		take(GOOD, i);
	}
}

static void kept__messages_without_a_receive(void **state)
{
	enum { OWN = 256u << 10, ALL = 64u << 10 };
	uint64_t sent = 0;

	(void)state;
	inner(VICTIM)->quota.limit[OPX_Q_KEPT].own = OWN;
	inner(VICTIM)->quota.limit[OPX_Q_KEPT].all = ALL;
	for (uint32_t i = 0; i < SENDS; i++) {
		sent += say(BAD, sent);
		drive();
	}
	assert_int_equal(hfi_dst_is_local(bad_peer()->flow.dst), g_is_near);
	assert_true(sent < SENDS);
	assert_true(inner(VICTIM)->stats.quota_full);
	/* half of the pool besides its own, and the message that was one too many, or, on one host, a window */
	assert_in_range(bad_peer()->quota.used[OPX_Q_KEPT], OWN,
			OWN + ALL / 2 + (g_is_near ? OPX_WINDOW_LOCAL : 1) * (LEN + sizeof(struct opx_in)));
	others_get_on();
	for (uint64_t i = 0; i < sent; i++)
		take(BAD, i);
	assert_int_equal(bad_peer()->quota.used[OPX_Q_KEPT], 0);
	assert_int_equal(inner(VICTIM)->quota.pool[OPX_Q_KEPT], 0);
	assert_false(bad_peer()->flow.is_full);
	say_sure(BAD, sent);
	take(BAD, sent);
}

/* Two of one address have one share together, between hosts; on one host each has its own. Nothing is lost. */
static void kept__shares_of_one_source(void **state)
{
	enum { OWN = 64u << 10, EACH = LEN + sizeof(struct opx_in) };
	const struct opx_peer *good;
	uint64_t sent[SIDES] = {0}, both, until = clk_now_ns(NULL) + WAIT_NS;

	(void)state;
	inner(VICTIM)->quota.limit[OPX_Q_KEPT] = (struct quota_limit)QUOTA_LIMIT(1, OWN, 1, 0);
	for (int from = BAD; from < SIDES; from++)
		say_sure(from, sent[from]++);
	for (uint32_t i = 0; i < SENDS / 4; i++) {
		for (int from = BAD; from < SIDES; from++)
			sent[from] += say(from, sent[from]);
		drive();
	}
	good = opx_peer_get(inner(VICTIM), r.name[GOOD]);
	both = bad_peer()->quota.used[OPX_Q_KEPT] + good->quota.used[OPX_Q_KEPT];
	if (g_is_near)
		assert_in_range(both, 2 * OWN, UINT64_MAX);
	else
		assert_in_range(both, OWN, OWN + 4 * EACH);
	for (int from = BAD; from < SIDES; from++)
		for (uint64_t i = 0; i < sent[from]; i++)
			take(from, i);
	while (bad_peer()->flow.is_full || good->flow.is_full) {
		assert_true(clk_now_ns(NULL) < until);
		drive();
	}
	assert_int_equal(bad_peer()->quota.used[OPX_Q_KEPT] + good->quota.used[OPX_Q_KEPT], 0);
}

/* Reads that are served, where one at a time is too many: all are, in turn. */
static void served__all_in_the_end(void **state)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	uint32_t done = 0, asked = 0;
	static uint8_t in[1u << 16];

	(void)state;
	inner(VICTIM)->quota.limit[OPX_Q_SERVED].own = 0;
	inner(VICTIM)->quota.limit[OPX_Q_SERVED].all = 2;
	while (done < 500) {
		struct fi_cq_tagged_entry e;

		assert_true(clk_now_ns(NULL) < until);
		if (asked < 500)
			asked += !fi_read(r.ep[BAD], in, sizeof(in), NULL, r.victim[BAD], 0, 77, NULL);
		fi_cq_read(r.cq[VICTIM], NULL, 0);
		done += fi_cq_read(r.cq[BAD], &e, 1) == 1;
	}
	assert_true(inner(VICTIM)->stats.quota_full);
	assert_int_equal(bad_peer()->quota.used[OPX_Q_SERVED], 0);
	assert_int_equal(inner(VICTIM)->quota.pool[OPX_Q_SERVED], 0);
}

/* A process reads its room once: one for each. */
static int run(const char *net, bool is_near)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(kept__messages_without_a_receive, setup, teardown),
		cmocka_unit_test_setup_teardown(kept__shares_of_one_source, setup, teardown),
		cmocka_unit_test_setup_teardown(served__all_in_the_end, setup, teardown),
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
