// SPDX-License-Identifier: BSD-2-Clause
// From hints to an enabled endpoint that knows its peer, and back.
#include "conform.h"

#include <stdlib.h>

/* Mode one: rank 0's fabric and domain, which rank 1 uses too. The barrier in ct_open_to_domain() orders the two. */
static struct {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
} g_shared;

static enum fi_ep_type type_of(const struct ct *c)
{
	return c->t->type ? c->t->type : FI_EP_RDM;
}

static uint32_t version_of(const struct ct *c)
{
	return c->want.version ? c->want.version : FI_VERSION(1, 17);
}

static uint32_t protocol_of(const struct ct *c)
{
	return c->want.protocol ? c->want.protocol : c->v->protocol;
}

struct fi_info *ct_hints(struct ct *c)
{
	struct fi_info *h = fi_allocinfo();

	CHECK(h, "out of memory");
	h->fabric_attr->prov_name = strdup(c->prov);
	h->ep_attr->type = type_of(c);
	h->caps = c->want.caps ? c->want.caps : c->t->caps;
	h->mode = c->want.mode | FI_CONTEXT | FI_CONTEXT2 | (type_of(c) == FI_EP_DGRAM ? FI_MSG_PREFIX : 0);
	h->domain_attr->mr_mode = (int)c->want.mr_mode;
	if (!c->want.mr_mode)
		h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT |
					  (type_of(c) == FI_EP_DGRAM ? FI_MR_LOCAL : 0);
	h->domain_attr->mr_mode &= ~(int)c->v->without_mr;
	h->ep_attr->protocol = protocol_of(c);
	h->domain_attr->threading = c->want.threading;
	h->domain_attr->data_progress = h->domain_attr->control_progress =
		c->want.progress ? c->want.progress : c->v->progress;
	h->domain_attr->resource_mgmt = c->want.rm;
	h->tx_attr->msg_order = h->rx_attr->msg_order = c->want.msg_order;
	h->tx_attr->op_flags = c->want.op_flags;
	return h;
}

/* An endpoint type may be missing; the whole provider may not. */
static bool is_there(struct ct *c)
{
	struct fi_info *all = NULL, *hints = fi_allocinfo();
	int ret;

	hints->fabric_attr->prov_name = strdup(c->prov);
	hints->mode = ~0ULL;
	ret = fi_getinfo(version_of(c), NULL, NULL, 0, hints, &all);
	fi_freeinfo(hints);
	if (!ret)
		fi_freeinfo(all);
	return !ret;
}

/* Skips only what the provider does not advertise; what it advertises it must give. */
static void get_info(struct ct *c)
{
	struct fi_info *all, *hints = fi_allocinfo();
	uint64_t caps = c->p->on_request;
	int ret;

	hints->fabric_attr->prov_name = strdup(c->prov);
	hints->ep_attr->type = type_of(c);
	hints->ep_attr->protocol = protocol_of(c);
	hints->mode = ~0ULL;
	hints->domain_attr->mr_mode = ~(KIT_MR_BASIC | KIT_MR_SCALABLE);
	ret = fi_getinfo(version_of(c), NULL, NULL, 0, hints, &all);
	CHECK(!ret || ret == -FI_ENODATA, "fi_getinfo: %s", ct_err(ret));
	fi_freeinfo(hints);
	CHECK(!ret || is_there(c), "no provider %s (FI_PROVIDER_PATH=%s)", c->prov, getenv("FI_PROVIDER_PATH"));
	if (ret)
		ct_skip(c, "%s offers no endpoint of this type", c->prov);
	for (struct fi_info *i = all; i; i = i->next)
		caps |= i->caps;
	fi_freeinfo(all);
	if ((caps & c->t->caps) != c->t->caps)
		ct_skip(c, "%s does not advertise caps %#llx", c->prov, (unsigned long long)(c->t->caps & ~caps));
	hints = ct_hints(c);
	ret = fi_getinfo(version_of(c), NULL, NULL, 0, hints, &c->info);
	CHECK(!ret, "fi_getinfo with advertised caps %#llx: %s", (unsigned long long)hints->caps, ct_err(ret));
	fi_freeinfo(hints);
}

static bool shares_domain(const struct ct *c)
{
	return c->mode == CT_ONE && !(c->t->flags & (CT_SOLO | CT_RAW)) &&
	       c->info->domain_attr->threading == FI_THREAD_SAFE;
}

static void stats_open(struct ct *c)
{
	void *ops = NULL;

	if (!fi_open_ops(&c->domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, &ops, NULL))
		c->stats = ops;
}

void ct_open_to_domain(struct ct *c)
{
	get_info(c);
	if (shares_domain(c) && c->rank) {
		ct_barrier_idle(c);
		c->fabric = g_shared.fabric;
		c->domain = g_shared.domain;
		stats_open(c);
		return;
	}
	c->own_domain = true;
	OK(fi_fabric(c->info->fabric_attr, &c->fabric, NULL));
	OK(fi_domain(c->fabric, c->info, &c->domain, NULL));
	stats_open(c);
	if (shares_domain(c)) {
		g_shared.fabric = c->fabric;
		g_shared.domain = c->domain;
		ct_barrier_idle(c);
	}
}

struct fid_cq *ct_cq(struct ct *c, size_t size, enum fi_cq_format format)
{
	struct fi_cq_attr attr = {.size = size, .wait_obj = FI_WAIT_NONE};
	struct fid_cq *cq;

	attr.format = format ? format : type_of(c) == FI_EP_DGRAM ? FI_CQ_FORMAT_DATA : FI_CQ_FORMAT_TAGGED;
	OK(fi_cq_open(c->domain, &attr, &cq, NULL));
	return cq;
}

struct fid_av *ct_av(struct ct *c)
{
	struct fi_av_attr attr = {.type = c->want.av_type ? c->want.av_type
					  : c->v->av_type ? c->v->av_type
							  : FI_AV_TABLE,
				  .count = 16};
	struct fid_av *av;

	OK(fi_av_open(c->domain, &attr, &av, NULL));
	return av;
}

static void open_cntr(struct ct *c)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

	OK(fi_cntr_open(c->domain, &attr, &c->cntr, NULL));
	OK(fi_ep_bind(c->ep, &c->cntr->fid, c->want.cntr_flags));
}

void ct_get_name(struct ct *c, struct fid_ep *ep, uint8_t addr[64], size_t *len)
{
	*len = 64;
	memset(addr, 0, 64);
	OK(fi_getname(&ep->fid, addr, len));
	CHECK(*len && *len <= 64, "address of %zu bytes", *len);
}

void ct_connect(struct ct *c)
{
	ct_get_name(c, c->ep, c->addr, &c->addr_len);
	RET(1, fi_av_insert(c->av, c->addr, 1, &c->self, 0, NULL));
	c->peer = c->self;
	if (c->t->flags & CT_SOLO)
		return;
	ct_swap(c, c->addr, c->peer_addr, sizeof(c->addr));
	RET(1, fi_av_insert(c->av, c->peer_addr, 1, &c->peer, 0, NULL));
	CHECK(c->peer != c->self, "two addresses, one fi_addr");
}

void ct_open(struct ct *c)
{
	struct fi_eq_attr eq_attr = {.size = 16, .wait_obj = FI_WAIT_UNSPEC};

	ct_open_to_domain(c);
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL));
	c->txcq = ct_cq(c, c->want.cq_size, c->want.format);
	c->rxcq = c->want.one_cq ? c->txcq : ct_cq(c, c->want.cq_size, c->want.format);
	c->av = ct_av(c);
	if (c->want.one_cq) {
		OK(fi_ep_bind(c->ep, &c->txcq->fid, FI_TRANSMIT | FI_RECV | c->want.tx_bind));
	} else {
		OK(fi_ep_bind(c->ep, &c->txcq->fid, FI_TRANSMIT | c->want.tx_bind));
		OK(fi_ep_bind(c->ep, &c->rxcq->fid, FI_RECV | c->want.rx_bind));
	}
	OK(fi_ep_bind(c->ep, &c->av->fid, 0));
	if (c->want.cntr_flags)
		open_cntr(c);
	if (c->want.eq) {
		OK(fi_eq_open(c->fabric, &eq_attr, &c->eq, NULL));
		OK(fi_ep_bind(c->ep, &c->eq->fid, 0));
	}
	if (c->want.no_enable)
		return;
	OK(fi_enable(c->ep));
	ct_connect(c);
}

/* The path is what the mode stands for: shared memory on one host, the network path if that was turned off. */
static void check_path(struct ct *c)
{
	uint64_t shm, net;

	const char *room = getenv("SOFTFABRIC_NET");

	if (!c->stats || !c->traffic || (c->t->flags & CT_ANY_PATH) || type_of(c) != FI_EP_RDM)
		return;
	if (room && strstr(room, "pcap=")) /* softfabric capture: all goes as datagrams */
		return;
	shm = ct_stat(c, c->p->stat_shm);
	net = ct_stat(c, c->p->stat_net);
	if (c->mode == CT_UDP)
		CHECK(net && !shm, "%llu frames by the network path, %llu by shared memory", (unsigned long long)net,
		      (unsigned long long)shm);
	else
		CHECK(shm && !net, "%llu frames by shared memory, %llu by the network path", (unsigned long long)shm,
		      (unsigned long long)net);
}

void ct_close(struct ct *c)
{
	ct_barrier(c);
	ct_no_comp(c, c->txcq);
	ct_no_comp(c, c->rxcq);
	check_path(c);
	ct_barrier(c);
	OK(fi_close(&c->ep->fid));
	if (c->eq)
		OK(fi_close(&c->eq->fid));
	if (c->cntr)
		OK(fi_close(&c->cntr->fid));
	OK(fi_close(&c->txcq->fid));
	if (c->rxcq != c->txcq)
		OK(fi_close(&c->rxcq->fid));
	OK(fi_close(&c->av->fid));
	c->txcq = c->rxcq = NULL;
	ct_barrier_idle(c);
	if (c->own_domain) {
		OK(fi_close(&c->domain->fid));
		OK(fi_close(&c->fabric->fid));
	}
	fi_freeinfo(c->info);
	c->info = NULL;
	c->domain = NULL;
}

void ct_ep2_open(struct ct *c, struct ct_ep2 *e)
{
	*e = (struct ct_ep2){0};
	OK(fi_endpoint(c->domain, c->info, &e->ep, NULL));
	e->cq = ct_cq(c, 0, 0);
	e->av = ct_av(c);
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	OK(fi_enable(e->ep));
	ct_get_name(c, e->ep, e->addr, &e->addr_len);
}

void ct_ep2_close(struct ct *c, struct ct_ep2 *e)
{
	OK(fi_close(&e->ep->fid));
	OK(fi_close(&e->cq->fid));
	OK(fi_close(&e->av->fid));
}
