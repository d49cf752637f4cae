// SPDX-License-Identifier: BSD-2-Clause
// Everything that a program opens of a provider, with each single allocation failing in turn: -FI_ENOMEM or none the
// worse, nothing left behind, and the next try succeeds. Built once per provider.
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "base/mem.h"
#include "unit.h"

#define API FI_VERSION(1, 17)

struct fi_provider *fi_prov_ini(void);
static struct fi_provider *g_prov;

static bool is_opx(void)
{
	return !strcmp(g_prov->name, "opx");
}

struct objs {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct fid_ep *ep;
};

static int ep_open(struct objs *o)
{
	uint8_t addr[64];
	size_t len = sizeof(addr);
	fi_addr_t self;
	int ret = fi_endpoint(o->domain, o->info, &o->ep, NULL);

	if (!is_opx()) /* takes none */
		ret = ret ? ret : fi_ep_bind(o->ep, &o->eq->fid, 0);
	ret = ret ? ret : fi_ep_bind(o->ep, &o->av->fid, 0);
	ret = ret ? ret : fi_ep_bind(o->ep, &o->cq->fid, FI_TRANSMIT | FI_RECV);
	ret = ret ? ret : fi_ep_bind(o->ep, &o->cntr->fid, FI_SEND);
	ret = ret ? ret : fi_enable(o->ep);
	ret = ret ? ret : fi_getname(&o->ep->fid, addr, &len);
	if (ret)
		return ret;
	/* the count of those inserted, or why it could not begin */
	ret = fi_av_insert(o->av, addr, 1, &self, 0, NULL);
	return ret == 1 ? 0 : ret ? ret : -FI_ENOMEM;
}

/* Return: the first error. */
static int objs_open(struct objs *o)
{
	bool can_wait = strcmp(g_prov->name, "efa"); /* its queues cannot, as the real one's */
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = can_wait ? FI_WAIT_UNSPEC : FI_WAIT_NONE};
	struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	static char mem[4096];
	int ret = g_prov->getinfo(API, NULL, NULL, 0, NULL, &o->info);

	ret = ret ? ret : g_prov->fabric(o->info->fabric_attr, &o->fabric, NULL);
	ret = ret ? ret : fi_domain(o->fabric, o->info, &o->domain, NULL);
	ret = ret ? ret : fi_eq_open(o->fabric, &eq, &o->eq, NULL);
	ret = ret ? ret : fi_av_open(o->domain, &av, &o->av, NULL);
	ret = ret ? ret : fi_cq_open(o->domain, &cq, &o->cq, NULL);
	ret = ret ? ret : fi_cntr_open(o->domain, &cntr, &o->cntr, NULL);
	ret = ret ? ret : ep_open(o);
	ret = ret ? ret
		  : fi_mr_reg(o->domain, mem, sizeof(mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &o->mr, NULL);
	if (!ret && o->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		ret = fi_mr_bind(o->mr, &o->ep->fid, 0);
		ret = ret ? ret : fi_mr_enable(o->mr);
	}
	return ret;
}

static void fid_close(struct fid *fid)
{
	if (fid)
		assert_int_equal(fi_close(fid), 0);
}

static void objs_close(struct objs *o)
{
	fid_close(o->mr ? &o->mr->fid : NULL);
	fid_close(o->ep ? &o->ep->fid : NULL);
	fid_close(o->cntr ? &o->cntr->fid : NULL);
	fid_close(o->cq ? &o->cq->fid : NULL);
	fid_close(o->av ? &o->av->fid : NULL);
	fid_close(o->eq ? &o->eq->fid : NULL);
	fid_close(o->domain ? &o->domain->fid : NULL);
	fid_close(o->fabric ? &o->fabric->fid : NULL);
	fi_freeinfo(o->info);
}

/* opx has one answer to whatever keeps a context from being opened. */
static bool is_refusal(int ret)
{
	return ret == -FI_ENOMEM || (is_opx() && ret == -FI_EBUSY);
}

static void nomem__every_allocation(void **state)
{
	uint64_t begin, cnt, refused = 0;
	struct objs o = {0};
	int64_t live;

	(void)state;
	/* what is made once per process */
	assert_int_equal(objs_open(&o), 0);
	objs_close(&o);
	live = mem_live_count();
	begin = mem_alloc_count();
	o = (struct objs){0};
	assert_int_equal(objs_open(&o), 0);
	cnt = mem_alloc_count() - begin;
	objs_close(&o);
	assert_int_equal(mem_live_count(), live);
	assert_true(cnt > 30);
	for (uint64_t n = 1; n <= cnt; n++) {
		int ret;

		o = (struct objs){0};
		mem_fail_nth(n);
		ret = objs_open(&o);
		mem_fail_nth(0);
		if (ret && !is_refusal(ret))
			fail_msg("allocation %llu of %llu: %d (%s)", (unsigned long long)n, (unsigned long long)cnt,
				 ret, fi_strerror(-ret));
		refused += ret != 0;
		objs_close(&o);
		if (mem_live_count() != live)
			fail_msg("allocation %llu of %llu, %d: %lld objects are left", (unsigned long long)n,
				 (unsigned long long)cnt, ret, (long long)(mem_live_count() - live));
	}
	print_message("%s: %llu allocations, %llu of them refuse something\n", g_prov->name, (unsigned long long)cnt,
		      (unsigned long long)refused);
	assert_true(refused > cnt / 2);
	o = (struct objs){0};
	assert_int_equal(objs_open(&o), 0);
	objs_close(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nomem__every_allocation),
	};

	g_prov = fi_prov_ini();
	return g_prov ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
