// SPDX-License-Identifier: BSD-2-Clause
// How many lines of shared memory a message of efa takes: each costs its way from one core to another.
#include <rdma/providers/fi_prov.h>

#include "lines.h"
#include "nic/efanic/efanic_int.h"
#include "prov/efa/efa.h"

struct fi_provider *fi_prov_ini(void);
static struct fi_provider *g_prov;

struct rig {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct lines_pair p;
};

static void ep_open(struct rig *r, int i)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	uint8_t name[EFA_ADDR_LEN];
	size_t len = sizeof(name);

	assert_int_equal(fi_endpoint(r->domain, r->info, &r->p.ep[i], NULL), 0);
	assert_int_equal(fi_cq_open(r->domain, &cq, &r->p.cq[i], NULL), 0);
	assert_int_equal(fi_ep_bind(r->p.ep[i], &r->p.cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(r->p.ep[i], &r->av->fid, 0), 0);
	assert_int_equal(fi_enable(r->p.ep[i]), 0);
	assert_int_equal(fi_getname(&r->p.ep[i]->fid, name, &len), 0);
	assert_int_equal(fi_av_insert(r->av, name, 1, &r->p.to[!i], 0, NULL), 1);
	lines_open(&r->p.seg[i], container_of(r->p.ep[i], struct efa_ep, kit.fid)->qp->port);
}

static void rig_open(struct rig *r)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	*r = (struct rig){0};
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	assert_int_equal(g_prov->getinfo(FI_VERSION(2, 2), NULL, NULL, 0, hints, &r->info), 0);
	fi_freeinfo(hints);
	assert_int_equal(g_prov->fabric(r->info->fabric_attr, &r->fabric, NULL), 0);
	assert_int_equal(fi_domain(r->fabric, r->info, &r->domain, NULL), 0);
	assert_int_equal(fi_av_open(r->domain, &av, &r->av, NULL), 0);
	for (int i = 0; i < 2; i++)
		ep_open(r, i);
}

static void rig_close(struct rig *r)
{
	for (int i = 0; i < 2; i++) {
		lines_close(&r->p.seg[i]);
		assert_int_equal(fi_close(&r->p.ep[i]->fid), 0);
		assert_int_equal(fi_close(&r->p.cq[i]->fid), 0);
	}
	assert_int_equal(fi_close(&r->av->fid), 0);
	assert_int_equal(fi_close(&r->domain->fid), 0);
	assert_int_equal(fi_close(&r->fabric->fid), 0);
	fi_freeinfo(r->info);
}

static void message__lines(void **state)
{
	static const struct lines_row row[] = {{0, 1, 0}, {8, 1, 0}, {16, 1, 0}, {64, 2, 0}, {1024, 1, 17}};
	struct rig r;

	(void)state;
	rig_open(&r);
	lines_check(&r.p, row, ARRAY_SIZE(row));
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message__lines),
	};

	g_prov = fi_prov_ini();
	return cmocka_run_group_tests_name("efa_lines", tests, NULL, NULL);
}
