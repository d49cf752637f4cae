// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the efa provider: what each adapter offers, and which of it the hints leave. Source:
// doc/facts/efa.md#attributes, #hints.
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

#include "base/log.h"
#include "fi_ext_efa.h"
#include "kit/deprecated.h"
#include "prov/efa/efa_obj.h"

#define RDM_TX_CAPS (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND)
#define RDM_RX_CAPS                                                                                                    \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV |        \
	 FI_SOURCE | FI_DIRECTED_RECV)
#define COMM_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define RDM_ORDER                                                                                                      \
	(FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW)
#define RDM_MSG_PREFIX 176

/* --- what one adapter offers -------------------------------------------------------------------------- */

static void fill_rdm(struct fi_info *i, const struct efanic_dev_attr *dev, const struct efa_params *prm)
{
	i->caps = RDM_TX_CAPS | RDM_RX_CAPS | COMM_CAPS;
	i->tx_attr->caps = RDM_TX_CAPS;
	i->rx_attr->caps = RDM_RX_CAPS;
	i->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
	i->rx_attr->op_flags = FI_MULTI_RECV | FI_COMPLETION;
	i->tx_attr->msg_order = i->rx_attr->msg_order = RDM_ORDER;
	i->tx_attr->inject_size = prm->enable_shm_transfer ? EFA_INJECT_SHM : EFA_INJECT_NET;
	i->tx_attr->size = prm->tx_size ? prm->tx_size : dev->max_sq_wr;
	i->rx_attr->size = prm->rx_size ? prm->rx_size : roundup_pow2(dev->max_rq_wr / dev->max_rq_sge + 1) / 2;
	i->tx_attr->iov_limit = i->rx_attr->iov_limit = 4;
	i->tx_attr->rma_iov_limit = 1;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->protocol_version = 4;
	i->ep_attr->max_msg_size = UINT64_MAX;
	i->ep_attr->max_order_raw_size = EFA_ATOMIC_MAX;
	i->ep_attr->max_order_war_size = EFA_ATOMIC_MAX;
	i->ep_attr->max_order_waw_size = EFA_ATOMIC_MAX;
	i->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaaULL;
	i->domain_attr->threading = FI_THREAD_SAFE;
	i->domain_attr->control_progress = i->domain_attr->data_progress = FI_PROGRESS_AUTO;
	i->domain_attr->resource_mgmt = FI_RM_ENABLED;
	i->domain_attr->av_type = FI_AV_TABLE;
	i->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
}

static void fill_dgram(struct fi_info *i, const struct efanic_dev_attr *dev)
{
	i->caps = FI_MSG | FI_RECV | FI_SEND | FI_SOURCE | COMM_CAPS;
	i->mode = FI_MSG_PREFIX;
	i->tx_attr->caps = FI_MSG | FI_SEND;
	i->rx_attr->caps = FI_MSG | FI_RECV | FI_SOURCE;
	i->tx_attr->mode = i->rx_attr->mode = FI_MSG_PREFIX;
	i->tx_attr->op_flags = FI_TRANSMIT_COMPLETE;
	i->tx_attr->inject_size = 0;
	i->tx_attr->size = dev->max_sq_wr;
	i->rx_attr->size = roundup_pow2(dev->max_rq_wr / dev->max_rq_sge + 1) / 2;
	i->tx_attr->iov_limit = dev->max_sq_sge;
	i->rx_attr->iov_limit = dev->max_rq_sge;
	i->ep_attr->type = FI_EP_DGRAM;
	i->ep_attr->protocol_version = 1;
	i->ep_attr->max_msg_size = dev->mtu;
	i->ep_attr->msg_prefix_size = EFA_MSG_PREFIX;
	i->domain_attr->threading = FI_THREAD_DOMAIN;
	i->domain_attr->control_progress = i->domain_attr->data_progress = FI_PROGRESS_AUTO;
	i->domain_attr->resource_mgmt = FI_RM_DISABLED;
	i->domain_attr->av_type = FI_AV_UNSPEC;
	i->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
}

static void fill_domain(struct fi_info *i, const struct efanic_dev_attr *dev)
{
	struct fi_domain_attr *d = i->domain_attr;

	d->mr_key_size = 4;
	d->cq_data_size = 4;
	d->cq_cnt = dev->max_cq;
	d->ep_cnt = dev->max_qp;
	d->mr_cnt = dev->max_mr;
	d->tx_ctx_cnt = d->rx_ctx_cnt = MIN(dev->max_qp, 1024u);
	d->max_ep_tx_ctx = d->max_ep_rx_ctx = 1;
	d->mr_iov_limit = 1;
	d->caps = COMM_CAPS;
}

/*
 * FI_HMEM for who asks, who then has to offer FI_MR_HMEM. GPUs and adapter reach each other here.
 * Below 1.18 their memory goes by RDMA read only, and there are no atomics on it: who asks for both
 * gets nothing.
 */
static void add_hmem(struct fi_info *i, const struct efanic_dev_attr *dev, uint32_t version,
		     const struct fi_info *hints)
{
	bool is_old = version < KIT_V(1, 18);

	if (!dev->has_hmem || !hints || !(hints->caps & FI_HMEM) ||
	    (is_old && !(dev->device_caps & EFANIC_CAP_RDMA_READ)))
		return;
	i->caps |= FI_HMEM;
	i->tx_attr->caps |= FI_HMEM;
	i->rx_attr->caps |= FI_HMEM;
	i->domain_attr->mr_mode |= FI_MR_HMEM;
	if (!is_old)
		return;
	i->caps &= ~FI_ATOMIC;
	i->tx_attr->caps &= ~FI_ATOMIC;
	i->rx_attr->caps &= ~FI_ATOMIC;
}

static struct fid_nic *make_nic(const struct efanic_dev_attr *dev)
{
	char id[16], gid[INET6_ADDRSTRLEN], link[64];
	struct kit_nic_attr a = {
		.name = dev->name,
		.device_id = id,
		.device_version = dev->hw_abi,
		.vendor_id = "0x1d0f",
		.driver = dev->driver,
		.firmware = dev->fw_ver,
		.pci_always = dev->pci_always,
		.pci_domain = dev->pci_domain,
		.pci_bus = dev->pci_bus,
		.pci_device = dev->pci_device,
		.pci_function = dev->pci_function,
		.link_address = link,
		.network_type = "Ethernet",
		.mtu = dev->mtu,
		.speed = dev->speed_bps,
	};

	snprintf(id, sizeof(id), "0x%x", dev->vendor_part_id);
	inet_ntop(AF_INET6, dev->gid, gid, sizeof(gid));
	snprintf(link, sizeof(link), "EFA-%s", gid);
	return kit_nic_new(&a);
}

static struct fi_info *make_info(const struct efanic_dev_attr *dev, enum efa_kind kind, const struct efa_params *prm,
				 uint32_t version)
{
	struct fi_info *i = kit_info_new();
	struct efa_addr *src;
	char name[48];

	if (!i)
		return NULL;
	if (kind == EFA_RDM)
		fill_rdm(i, dev, prm);
	else
		fill_dgram(i, dev);
	fill_domain(i, dev);
	i->addr_format = FI_ADDR_EFA;
	i->ep_attr->protocol = FI_PROTO_EFA;
	i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
	snprintf(name, sizeof(name), "%s-%s", dev->name, kind == EFA_RDM ? "rdm" : "dgrm");
	i->domain_attr->name = strdup(name);
	i->fabric_attr->name = strdup("efa");
	i->fabric_attr->api_version = version;
	src = calloc(1, sizeof(*src));
	i->src_addr = src;
	i->src_addrlen = EFA_ADDR_LEN;
	i->nic = make_nic(dev);
	if (!i->domain_attr->name || !i->fabric_attr->name || !src || !i->nic) {
		kit_info_free(i);
		return NULL;
	}
	memcpy(src->gid, dev->gid, sizeof(src->gid));
	return i;
}

/* --- addresses in the hints ------------------------------------------------------------------------------ */

/* @node: a GID or another IPv6 literal, an IPv4 literal, or a name that resolves. @ip: IPv4 as IPv4-mapped. */
static int parse_node(const char *node, uint8_t ip[16])
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *res = NULL;
	struct in_addr v4;

	if (inet_pton(AF_INET6, node, ip) == 1)
		return 0;
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	if (inet_pton(AF_INET, node, &v4) == 1) {
		memcpy(ip + 12, &v4, 4);
		return 0;
	}
	if (getaddrinfo(node, NULL, &hints, &res) || !res) {
		LOG_WARN("node \"%s\" is neither a GID nor a host that resolves", node);
		return -FI_EINVAL;
	}
	if (res->ai_family == AF_INET6)
		memcpy(ip, &((struct sockaddr_in6 *)(void *)res->ai_addr)->sin6_addr, 16);
	else
		memcpy(ip + 12, &((struct sockaddr_in *)(void *)res->ai_addr)->sin_addr, 4);
	freeaddrinfo(res);
	return 0;
}

static int parse_addr(const char *node, const char *service, struct efa_addr *a)
{
	char *end;
	unsigned long qpn = 0;
	uint8_t ip[16];
	int ret;

	memset(a, 0, sizeof(*a));
	if (!node) {
		LOG_WARN("service \"%s\" without a node names no queue pair", service);
		return -FI_EINVAL;
	}
	ret = parse_node(node, ip);
	if (ret)
		return ret;
	efanic_gid_of_ip(ip, a->gid);
	if (service) {
		qpn = strtoul(service, &end, 10);
		if (!*service || *end || qpn > UINT16_MAX) {
			LOG_WARN("service \"%s\" is not a queue pair number (0 to 65535)", service);
			return -FI_EINVAL;
		}
	}
	a->qpn = (uint16_t)qpn;
	return 0;
}

struct wanted {
	bool has_src, has_dst, src_gid_only;
	struct efa_addr src, dst;
};

static int addr_refused(const char *which, size_t len)
{
	return kit_info_no(&g_efa_prov,
			   "%s_addr of the hints has %zu bytes, an address of efa has %u", which,
			   len, (unsigned)EFA_ADDR_LEN);
}

static int want_from(struct wanted *w, const char *node, const char *service, uint64_t flags,
		     const struct fi_info *hints)
{
	int ret;

	memset(w, 0, sizeof(*w));
	/* As the real provider: a service alone says nothing about our own side. */
	if (node || (service && !(flags & FI_SOURCE))) {
		ret = parse_addr(node, service, flags & FI_SOURCE ? &w->src : &w->dst);
		if (ret)
			return ret;
		w->has_src = w->src_gid_only = flags & FI_SOURCE;
		w->has_dst = !(flags & FI_SOURCE);
	}
	if (!hints)
		return 0;
	if (hints->src_addr && !(flags & FI_SOURCE)) {
		if (hints->src_addrlen != EFA_ADDR_LEN)
			return addr_refused("src", hints->src_addrlen);
		memcpy(&w->src, hints->src_addr, EFA_ADDR_LEN);
		w->has_src = true;
	}
	if (hints->dest_addr && !w->has_dst) {
		if (hints->dest_addrlen != EFA_ADDR_LEN)
			return addr_refused("dest", hints->dest_addrlen);
		memcpy(&w->dst, hints->dest_addr, EFA_ADDR_LEN);
		w->has_dst = true;
	}
	return 0;
}

static bool src_matches(const struct wanted *w, const struct fi_info *i)
{
	if (!w->has_src)
		return true;
	return !memcmp(&w->src, i->src_addr, w->src_gid_only ? 16 : EFA_ADDR_LEN);
}

/* --- filters -------------------------------------------------------------------------------------------------- */

static bool iface_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	if (!strncmp(list, "all", 3))
		return true;
	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (!strncmp(p, name, len) && (p[len] == ',' || !p[len]))
			return true;
	}
	return false;
}

static bool type_wanted(enum efa_kind kind, const struct fi_info *hints)
{
	enum fi_ep_type type = hints && hints->ep_attr ? hints->ep_attr->type : FI_EP_UNSPEC;

	return type == FI_EP_UNSPEC || type == (kind == EFA_DGRAM ? FI_EP_DGRAM : FI_EP_RDM);
}

/* The provider accepts FI_AV_MAP (and gives a table), and takes a message prefix on RDM endpoints when asked. */
static struct fi_info *lenient_hints(const struct fi_info *hints, enum efa_kind kind)
{
	struct fi_info *h = kit_info_dup(hints);

	if (!h)
		return NULL;
	if (h->domain_attr && h->domain_attr->av_type == FI_AV_MAP)
		h->domain_attr->av_type = FI_AV_UNSPEC;
	if (kind == EFA_RDM && h->domain_attr && h->domain_attr->resource_mgmt == FI_RM_DISABLED)
		h->domain_attr->resource_mgmt = FI_RM_UNSPEC;
	return h;
}

/* What the provider returns that plain narrowing does not give. Source: doc/facts/efa.md#attributes, #hints. */
static void adjust(struct fi_info *i, const struct fi_info *hints, enum efa_kind kind)
{
	if (!hints)
		return;
	if (kind == EFA_RDM && (hints->mode & FI_MSG_PREFIX)) {
		i->mode |= FI_MSG_PREFIX;
		i->tx_attr->mode |= FI_MSG_PREFIX;
		i->rx_attr->mode |= FI_MSG_PREFIX;
		i->ep_attr->msg_prefix_size = RDM_MSG_PREFIX;
	}
	if (kind == EFA_RDM && hints->tx_attr) {
		if (!(hints->tx_attr->msg_order & FI_ORDER_ATOMIC_RAW))
			i->ep_attr->max_order_raw_size = 0;
		if (!(hints->tx_attr->msg_order & FI_ORDER_ATOMIC_WAR))
			i->ep_attr->max_order_war_size = 0;
		if (!(hints->tx_attr->msg_order & FI_ORDER_ATOMIC_WAW))
			i->ep_attr->max_order_waw_size = 0;
	}
	if (kind == EFA_RDM && hints->domain_attr) {
		if (hints->domain_attr->resource_mgmt != FI_RM_UNSPEC)
			i->domain_attr->resource_mgmt = hints->domain_attr->resource_mgmt;
		if ((hints->domain_attr->mr_mode & FI_MR_LOCAL) && i->domain_attr->mr_mode != KIT_MR_BASIC &&
		    i->domain_attr->mr_mode != KIT_MR_SCALABLE)
			i->domain_attr->mr_mode |= FI_MR_LOCAL;
	}
	if ((hints->caps & FI_REMOTE_COMM) && !(hints->caps & FI_LOCAL_COMM))
		i->caps &= ~FI_LOCAL_COMM;
	i->handle = hints->handle;
}

static int set_dest(struct fi_info *i, const struct wanted *w)
{
	if (!w->has_dst)
		return 0;
	i->dest_addr = malloc(EFA_ADDR_LEN);
	if (!i->dest_addr)
		return -FI_ENOMEM;
	memcpy(i->dest_addr, &w->dst, EFA_ADDR_LEN);
	i->dest_addrlen = EFA_ADDR_LEN;
	return 0;
}

/* --- the call ---------------------------------------------------------------------------------------------------- */

struct query {
	uint32_t version;
	const struct fi_info *hints;
	struct wanted want;
	struct efa_params prm;
	struct fi_info *head, **tail;
};

static int try_one(struct query *q, const struct efanic_dev_attr *dev, enum efa_kind kind)
{
	struct fi_info *i, *lenient = NULL;
	int ret = 0;

	if (!type_wanted(kind, q->hints))
		return 0;
	if (!iface_listed(q->prm.iface, dev->name)) {
		kit_info_other(&g_efa_prov, "%s is not in FI_EFA_IFACE=%s", dev->name,
			       q->prm.iface);
		return 0;
	}
	i = make_info(dev, kind, &q->prm, q->version);
	if (!i)
		return -FI_ENOMEM;
	if (kind == EFA_RDM)
		add_hmem(i, dev, q->version, q->hints);
	if (!src_matches(&q->want, i)) {
		kit_info_other(&g_efa_prov, "%s does not have the source address that is asked for",
			       i->domain_attr->name);
		goto drop;
	}
	if (q->hints) {
		lenient = lenient_hints(q->hints, kind);
		if (!lenient) {
			ret = -FI_ENOMEM;
			goto drop;
		}
		if (kit_info_check(&g_efa_prov, q->version, i, lenient))
			goto drop;
	}
	kit_info_alter(i, lenient, q->version);
	adjust(i, q->hints, kind);
	ret = set_dest(i, &q->want);
	if (ret)
		goto drop;
	*q->tail = i;
	q->tail = &i->next;
	if (lenient)
		kit_info_free(lenient);
	return 0;

drop:
	if (lenient)
		kit_info_free(lenient);
	kit_info_free(i);
	return ret;
}

static int try_all(struct query *q)
{
	static const enum efa_kind kinds[] = {EFA_RDM, EFA_DGRAM};
	struct efanic_dev_attr dev;
	char err[512] = "";
	int cnt = efanic_dev_cnt(err, sizeof(err)), ret;

	if (cnt <= 0) {
		LOG_WARN("no EFA device: %s", err[0] ? err : "the soft room has none");
		return -FI_ENODATA;
	}
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
		for (int d = 0; d < cnt; d++) {
			if (efanic_dev_query(d, &dev))
				continue;
			ret = try_one(q, &dev, kinds[k]);
			if (ret)
				return ret;
		}
	return q->head ? 0 : -FI_ENODATA;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct query q = {.version = version, .hints = hints};
	enum fi_ep_type type = hints && hints->ep_attr ? hints->ep_attr->type : FI_EP_UNSPEC;
	int ret;

	*info = NULL;
	if (type != FI_EP_UNSPEC && type != FI_EP_RDM && type != FI_EP_DGRAM)
		return kit_info_no_type(&g_efa_prov, type, "FI_EP_RDM and FI_EP_DGRAM");
	ret = want_from(&q.want, node, service, flags, hints);
	if (ret)
		return ret;
	efa_params_get(&q.prm);
	q.tail = &q.head;
	ret = try_all(&q);
	if (ret) {
		kit_info_free(q.head);
		return ret;
	}
	*info = q.head;
	return 0;
}

int efa_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info)
{
	struct kit_why why;

	kit_info_begin(&why);
	return kit_info_end(&g_efa_prov, hints,
			    getinfo(version, node, service, flags, hints, info));
}
