// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the cxi provider: what each adapter offers, and which of it the hints leave. Source:
// doc/facts/cxi.md#identity, #offers, #attributes.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fi_cxi_ext.h"
#include "kit/compat.h"
#include "prov/cxi/cxi_ep_int.h"

#define PRIMARY_TX (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE | FI_NAMED_RX_CTX)
#define PRIMARY_RX                                                                                 \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE |    \
	 FI_DIRECTED_RECV)
#define COMM_CAPS   (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define DOMAIN_CAPS (COMM_CAPS | FI_SHARED_AV | FI_AV_USER_ID)
#define SEC_TX     (FI_FENCE | FI_TRIGGER)
#define SEC_RX	    (FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT | FI_MULTI_RECV | FI_TRIGGER)
#define ORDER                                                                                                          \
	(FI_ORDER_SAS | FI_ORDER_WAW | FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAR | FI_ORDER_ATOMIC_WAW |                     \
	 FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_RAR)

/* One way to offer an adapter. Source: doc/facts/cxi.md#offers. */
struct form {
	bool rnr, multi_key, odp, prov_key;
};
#define FORM_CNT 16

/* The @i-th in order of preference. */
static struct form form_at(int i)
{
	return (struct form){.rnr = i & 8, .multi_key = i & 4, .odp = i & 2, .prov_key = !(i & 1)};
}

/* What node, service and FI_SOURCE ask for. */
struct wanted {
	bool has_nic, is_source, has_pid;
	uint32_t nic;
	uint16_t pid;
};

/* One call of fi_getinfo. */
struct query {
	uint32_t version;
	const struct fi_info *hints;
	struct wanted want;
	struct cxi_params prm;
	struct fi_info *head, **tail;
};

/* --- what one adapter offers -------------------------------------------------------------------------------------- */

static void fill_caps(struct fi_info *i, const struct form *f, uint32_t version, bool asks_hmem)
{
	uint64_t order = f->rnr ? ORDER & ~FI_ORDER_SAS : ORDER;

	i->caps = PRIMARY_TX | PRIMARY_RX | DOMAIN_CAPS | SEC_TX | SEC_RX;
	i->tx_attr->caps = PRIMARY_TX | SEC_TX | COMM_CAPS;
	i->rx_attr->caps = PRIMARY_RX | SEC_RX | COMM_CAPS;
	/* Not told to callers who may not know the bit: they have no fi_mr_attr->iface. A caller that asks for it
	 * knows it, whatever version it names (NVSHMEM: 1.5). No MR mode goes with it. */
	if (version >= KIT_V(1, 9) || asks_hmem) {
		i->caps |= FI_HMEM;
		i->tx_attr->caps |= FI_HMEM;
		i->rx_attr->caps |= FI_HMEM;
	}
	if (f->multi_key) { /* the VNI is what a receive can be restricted to */
		i->caps &= ~FI_DIRECTED_RECV;
		i->rx_attr->caps &= ~FI_DIRECTED_RECV;
	}
	i->tx_attr->op_flags = CXI_TX_OP_FLAGS;
	i->rx_attr->op_flags = CXI_RX_OP_FLAGS;
	i->tx_attr->msg_order = i->rx_attr->msg_order = order;
}

static void fill_sizes(struct fi_info *i, const struct form *f)
{
	i->tx_attr->inject_size = f->rnr ? 0 : CXI_INJECT_MAX;
	i->tx_attr->size = CXI_TX_MAX;
	i->rx_attr->size = CXI_RX_MAX;
	i->tx_attr->iov_limit = i->rx_attr->iov_limit = i->tx_attr->rma_iov_limit = 1;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->protocol = f->rnr ? CXI_PROTO_RNR : (uint32_t)FI_PROTO_CXI;
	i->ep_attr->protocol_version = 1;
	i->ep_attr->max_msg_size = CXI_MSG_MAX;
	i->ep_attr->mem_tag_format = f->rnr ? CXI_RNR_TAG_FORMAT : CXI_TAG_FORMAT;
	i->ep_attr->max_order_waw_size = SIZE_MAX;
	i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
	i->ep_attr->auth_key_size = sizeof(struct cxi_key);
}

static void fill_domain(struct fi_info *i, const struct form *f)
{
	struct fi_domain_attr *d = i->domain_attr;
	size_t keys = f->multi_key ? CXI_AUTH_KEY_MAX : 1;

	d->threading = FI_THREAD_SAFE;
	d->control_progress = d->data_progress = FI_PROGRESS_MANUAL;
	d->resource_mgmt = FI_RM_ENABLED;
	d->av_type = FI_AV_UNSPEC;
	d->mr_mode = FI_MR_ENDPOINT | (f->odp ? 0 : FI_MR_ALLOCATED) | (f->prov_key ? FI_MR_PROV_KEY : 0);
	d->mr_key_size = f->prov_key ? 8 : 4;
	d->cq_data_size = 8;
	d->cq_cnt = 32;
	d->ep_cnt = 128;
	d->tx_ctx_cnt = d->rx_ctx_cnt = CXI_CTX_MAX;
	d->max_ep_tx_ctx = d->max_ep_rx_ctx = CXI_CTX_MAX;
	d->max_ep_stx_ctx = d->max_ep_srx_ctx = 1;
	d->cntr_cnt = 16;
	d->mr_iov_limit = 1;
	d->mr_cnt = 100;
	d->caps = DOMAIN_CAPS;
	d->auth_key_size = sizeof(struct cxi_key);
	/* newer cores' part; an older one never looks there */
	memcpy((uint8_t *)d + offsetof(struct kit_domain_attr_ext, max_ep_auth_key), &keys, sizeof(keys));
}

/* What tools print of the adapter, with the key that endpoints would get. */
static struct cxip_nic_attr nic_attr(int idx, const struct cassini_devinfo *dev, const struct cxi_params *prm)
{
	struct cxi_key key = {0};
	char why[256];

	if (cxi_key_default(idx, dev, prm, &key, why, sizeof(why)))
		LOG_WARN("%s: Failed to find valid default rgroup and vni: %s", dev->name, why);
	return (struct cxip_nic_attr){.version = 1, .addr = dev->nic, .default_rgroup_id = key.svc_id,
				      .default_vni = key.vni};
}

/* FI_OPT_CXI_NIC_REFRESH_ATTR: as they are now. */
static int nic_control(struct fid_nic *nic, int command, void *arg)
{
	struct cassini_devinfo dev;
	struct cxi_params prm;
	char err[256];
	int cnt;

	(void)arg;
	if (command != FI_OPT_CXI_NIC_REFRESH_ATTR)
		return -FI_ENOSYS;
	cxi_params_get(&prm);
	cnt = cassini_dev_cnt(err, sizeof(err));
	for (int i = 0; i < cnt; i++) {
		if (cassini_dev_query(i, &dev) || strcmp(dev.name, nic->device_attr->name))
			continue;
		*(struct cxip_nic_attr *)nic->prov_attr = nic_attr(i, &dev, &prm);
		nic->link_attr->state = dev.link_up ? FI_LINK_UP : FI_LINK_DOWN;
		return 0;
	}
	return -FI_ENODEV;
}

static struct fid_nic *make_nic(int idx, const struct cassini_devinfo *dev, const struct cxi_params *prm)
{
	struct cxip_nic_attr prov_attr = nic_attr(idx, dev, prm);
	char id[16], vendor[16], rev[8], link[16];
	struct kit_nic_attr a = {
		.name = dev->name,
		.device_id = id,
		.device_version = rev,
		.vendor_id = vendor,
		.driver = "cxi_ss1",
		.firmware = "",
		.pci_always = dev->pci_always,
		.pci_domain = dev->pci_domain,
		.pci_bus = dev->pci_bus,
		.pci_device = dev->pci_device,
		.pci_function = dev->pci_function,
		.link_address = link,
		.network_type = "HPC Ethernet",
		.mtu = dev->mtu,
		.speed = dev->speed_bps,
		.link_down = !dev->link_up,
		.prov_attr = &prov_attr,
		.prov_attr_len = sizeof(prov_attr),
		.control = nic_control,
	};

	snprintf(id, sizeof(id), "0x%x", dev->device_id);
	snprintf(vendor, sizeof(vendor), "0x%x", dev->vendor_id);
	snprintf(rev, sizeof(rev), "%u", dev->device_rev);
	snprintf(link, sizeof(link), "0x%x", dev->nic);
	return kit_nic_new(&a);
}

static struct fi_info *make_info(const struct query *q, int idx, const struct cassini_devinfo *dev,
				 const struct form *f)
{
	struct fi_info *i = kit_info_new();
	struct cxi_addr *src;

	if (!i)
		return NULL;
	fill_caps(i, f, q->version, q->hints && (q->hints->caps & FI_HMEM));
	fill_sizes(i, f);
	fill_domain(i, f);
	i->addr_format = FI_ADDR_CXI;
	i->domain_attr->name = strdup(dev->name);
	i->fabric_attr->name = strdup("cxi");
	i->fabric_attr->api_version = q->version;
	src = calloc(1, sizeof(*src));
	i->src_addr = src;
	i->src_addrlen = sizeof(*src);
	i->nic = make_nic(idx, dev, &q->prm);
	if (!i->domain_attr->name || !i->fabric_attr->name || !src || !i->nic) {
		kit_info_free(i);
		return NULL;
	}
	*src = cxi_addr_make(dev->nic, CASSINI_PID_ANY, 0);
	return i;
}

/* --- node and service ---------------------------------------------------------------------------- */

static int parse_int(const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	*out = strtoul(text, &end, 0);
	return !*text || *end || *text == '-' || *out > max ? -FI_EINVAL : 0;
}

/* @node: an adapter of this host by name, a MAC address (its low 20 bits), or a number. */
static int parse_node(const char *node, int cnt, uint32_t *nic)
{
	struct cassini_devinfo dev;
	unsigned mac[6];
	unsigned long n;
	char junk;

	for (int i = 0; i < cnt; i++) {
		if (!cassini_dev_query(i, &dev) && !strcmp(dev.name, node)) {
			*nic = dev.nic;
			return 0;
		}
	}
	if (sscanf(node, "%2x:%2x:%2x:%2x:%2x:%2x%c", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4], &mac[5], &junk) ==
	    6) {
		*nic = (mac[3] << 16 | mac[4] << 8 | mac[5]) & CASSINI_NIC_MAX;
		return 0;
	}
	if (parse_int(node, CASSINI_NIC_MAX, &n)) {
		LOG_WARN(
			"node \"%s\" is neither an adapter of this host, nor a MAC address, nor a NIC address of 20 "
			"bits",
			node);
		return -FI_EINVAL;
	}
	*nic = (uint32_t)n;
	return 0;
}

static int want_from(struct wanted *w, const char *node, const char *service, uint64_t flags, int cnt)
{
	unsigned long pid;
	int ret;

	memset(w, 0, sizeof(*w));
	w->is_source = flags & FI_SOURCE;
	if (w->is_source && !node && !service)
		return -FI_EINVAL;
	if (node) {
		ret = parse_node(node, cnt, &w->nic);
		if (ret)
			return ret;
		w->has_nic = true;
	}
	if (service) {
		if (parse_int(service, CASSINI_PID_CNT - 1, &pid)) {
			LOG_WARN("service \"%s\" is not a PID (0 to %u)", service, CASSINI_PID_CNT - 1);
			return -FI_EINVAL;
		}
		w->pid = (uint16_t)pid;
		w->has_pid = node || w->is_source; /* alone it says nothing */
	}
	return 0;
}

static int addr_refused(const char *which, size_t len)
{
	return kit_info_no(&g_cxi_prov,
			   "%s_addr of the hints has %zu bytes, an address of cxi has %zu", which,
			   len, sizeof(struct cxi_addr));
}

static int addrs_set(struct fi_info *i, const struct wanted *w, const struct fi_info *hints)
{
	struct cxi_addr a;
	struct cxi_addr *dst;

	if (w->is_source && w->has_pid) {
		memcpy(&a, i->src_addr, sizeof(a));
		a = cxi_addr_make(cxi_addr_nic(&a), w->pid, 0);
		memcpy(i->src_addr, &a, sizeof(a));
	} else if (hints && hints->src_addr && !w->is_source) {
		if (hints->src_addrlen != sizeof(a))
			return addr_refused("src", hints->src_addrlen);
		memcpy(i->src_addr, hints->src_addr, sizeof(a));
	}
	if ((w->has_nic && !w->is_source) || (hints && hints->dest_addr)) {
		if (!(w->has_nic && !w->is_source) && hints->dest_addrlen != sizeof(a))
			return addr_refused("dest", hints->dest_addrlen);
		dst = calloc(1, sizeof(*dst));
		if (!dst)
			return -FI_ENOMEM;
		if (w->has_nic && !w->is_source)
			*dst = cxi_addr_make(w->nic, w->pid, 0);
		else
			memcpy(dst, hints->dest_addr, sizeof(*dst));
		i->dest_addr = dst;
		i->dest_addrlen = sizeof(*dst);
	}
	return 0;
}

/* --- filters ------------------------------------------------------------------------------------- */

static bool name_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	if (!*list)
		return true;
	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (!strncmp(p, name, len) && (p[len] == ',' || !p[len]))
			return true;
	}
	return false;
}

static bool form_wanted(const struct form *f, const struct cxi_params *prm, const struct fi_info *hints)
{
	uint32_t proto = hints && hints->ep_attr ? hints->ep_attr->protocol : 0;
	bool av_keys = hints && hints->domain_attr && hints->domain_attr->auth_key_size == KIT_AV_AUTH_KEY;

	if (f->odp ? !prm->odp : prm->force_odp)
		return false;
	if (f->multi_key && kit_core_version() < KIT_V(1, 20))
		return false; /* nobody could insert the keys */
	if (!hints)
		return true;
	if (av_keys && !f->multi_key)
		return false;
	return f->rnr ? proto == CXI_PROTO_RNR : proto == FI_PROTO_UNSPEC || proto == (uint32_t)FI_PROTO_CXI;
}

/*
 * Kindness of the real provider: FI_MR_ENDPOINT alone, as old programs ask, gets ALLOCATED too. What is not asked of
 * sizes is the parameter's, not the limit.
 */
static struct fi_info *lenient_hints(const struct fi_info *hints, const struct cxi_params *prm)
{
	struct fi_info *h = kit_info_dup(hints);

	if (h && h->domain_attr && h->domain_attr->mr_mode == FI_MR_ENDPOINT && !prm->odp)
		h->domain_attr->mr_mode |= FI_MR_ALLOCATED;
	return h;
}

static bool is_plural(size_t cnt)
{
	return cnt > 1 && cnt != FI_SHARED_CONTEXT;
}

/*
 * Contexts beyond the endpoint's own are told to those who ask for them. Programs use them wherever they see them:
 * OpenSHMEM libraries bind a shared one to every endpoint, enabled ones too, Open MPI's btl/ofi and Chapel open a
 * scalable endpoint; and the provider of today has neither.
 */
static void ctx_adjust(struct fi_domain_attr *d, const struct fi_info *hints)
{
	static const struct fi_domain_attr no_domain;
	static const struct fi_ep_attr no_ep;
	const struct fi_domain_attr *hd = hints->domain_attr ? hints->domain_attr : &no_domain;
	const struct fi_ep_attr *he = hints->ep_attr ? hints->ep_attr : &no_ep;

	if (!(hints->caps & FI_NAMED_RX_CTX) && !is_plural(he->tx_ctx_cnt) && !is_plural(he->rx_ctx_cnt) &&
	    !is_plural(hd->max_ep_tx_ctx) && !is_plural(hd->max_ep_rx_ctx))
		d->max_ep_tx_ctx = d->max_ep_rx_ctx = 1;
	if (!hd->max_ep_stx_ctx && he->tx_ctx_cnt != FI_SHARED_CONTEXT)
		d->max_ep_stx_ctx = 0;
	if (!hd->max_ep_srx_ctx && he->rx_ctx_cnt != FI_SHARED_CONTEXT)
		d->max_ep_srx_ctx = 0;
}

/* What the provider returns that plain narrowing does not give. Source: doc/facts/cxi.md#hints. */
static void adjust(struct fi_info *i, const struct fi_info *hints, const struct cxi_params *prm)
{
	uint64_t asked = hints ? hints->caps : 0;

	if (!hints || !hints->tx_attr || !hints->tx_attr->size)
		i->tx_attr->size = prm->default_tx_size;
	if (!hints || !hints->rx_attr || !hints->rx_attr->size)
		i->rx_attr->size = prm->default_rx_size;
	if (!hints || !hints->caps)
		i->caps &= ~(FI_SOURCE | FI_SOURCE_ERR);
	else
		i->caps &= ~((FI_RMA_EVENT | FI_FENCE | FI_HMEM | FI_SOURCE | FI_SOURCE_ERR) &
			     ~hints->caps);
	/* fi_endpoint(3) has no FI_LOCAL_COMM and FI_REMOTE_COMM for these, and fabtests looks; the
	 * adapter's provider has. So who asks is told. */
	i->tx_attr->caps &= i->caps & ~(COMM_CAPS & ~asked);
	i->rx_attr->caps &= i->caps & ~(COMM_CAPS & ~asked);
	if (!hints)
		return;
	ctx_adjust(i->domain_attr, hints);
	if (hints->tx_attr) {
		i->tx_attr->msg_order = hints->tx_attr->msg_order;
		if (hints->tx_attr->inject_size)
			i->tx_attr->inject_size = hints->tx_attr->inject_size;
	}
	i->handle = hints->handle;
}

/* Keys of the hints, checked. Before 1.5 there were none: the fields are anything. */
static bool keys_ok(int idx, const struct fi_info *hints, uint32_t version)
{
	const struct fi_domain_attr *d = hints->domain_attr;
	const struct fi_ep_attr *ep = hints->ep_attr;
	struct cxi_key ep_key, domain_key;

	if (version < KIT_V(1, 5))
		return true;
	if (ep && ep->auth_key && cxi_key_check(idx, ep->auth_key, ep->auth_key_size, &ep_key))
		return false;
	if (!d || !d->auth_key || d->auth_key_size == KIT_AV_AUTH_KEY)
		return true;
	if (cxi_key_check(idx, d->auth_key, d->auth_key_size, &domain_key))
		return false;
	if (!ep || !ep->auth_key || ep_key.svc_id == domain_key.svc_id)
		return true;
	kit_info_no(&g_cxi_prov,
		    "authorisation keys of endpoint and domain name services %u and %u: a domain "
		    "works through one",
		    ep_key.svc_id, domain_key.svc_id);
	return false;
}

/* @from into @key; no key has no size. 0; -FI_ENOMEM. */
static int key_put(uint8_t **key, size_t *size, const uint8_t *from)
{
	*size = from ? sizeof(struct cxi_key) : 0;
	if (!from)
		return 0;
	*key = malloc(sizeof(struct cxi_key)); /* fi_freeinfo() frees it */
	if (!*key)
		return -FI_ENOMEM;
	memcpy(*key, from, sizeof(struct cxi_key));
	return 0;
}

/* An endpoint's key is its domain's too, unless that has its own. */
static int keys_set(struct fi_info *i, const struct fi_info *hints, uint32_t version)
{
	const struct fi_domain_attr *hd = hints && version >= KIT_V(1, 5) ? hints->domain_attr : NULL;
	const struct fi_ep_attr *he = hints && version >= KIT_V(1, 5) ? hints->ep_attr : NULL;
	const uint8_t *ep = he ? he->auth_key : NULL, *domain = hd && hd->auth_key ? hd->auth_key : ep;
	int ret = key_put(&i->ep_attr->auth_key, &i->ep_attr->auth_key_size, ep);

	if (ret || (hd && hd->auth_key_size == KIT_AV_AUTH_KEY))
		return ret;
	return key_put(&i->domain_attr->auth_key, &i->domain_attr->auth_key_size, domain);
}

/* --- the call ------------------------------------------------------------------------------------ */

/* 1 added; 0 not wanted; -errno. */
static int try_form(struct query *q, int idx, const struct cassini_devinfo *dev, const struct form *f)
{
	struct fi_info *i, *lenient = NULL;
	int ret = 0;

	i = make_info(q, idx, dev, f);
	if (!i)
		return -FI_ENOMEM;
	if (q->hints) {
		lenient = lenient_hints(q->hints, &q->prm);
		if (!lenient) {
			ret = -FI_ENOMEM;
			goto drop;
		}
		if (!keys_ok(idx, q->hints, q->version) || kit_info_check(&g_cxi_prov, q->version, i, lenient))
			goto drop;
	}
	kit_info_alter(i, lenient, q->version);
	adjust(i, q->hints, &q->prm);
	if (q->hints && (q->hints->caps & (FI_RMA | FI_ATOMIC)) && !i->domain_attr->mr_mode) {
		kit_info_no(&g_cxi_prov,
			    "%s: FI_RMA and FI_ATOMIC need memory registration modes, of which the "
			    "hints allow none",
			    dev->name);
		goto drop;
	}
	ret = addrs_set(i, &q->want, q->hints);
	ret = ret ? ret : keys_set(i, q->hints, q->version);
	if (ret)
		goto drop;
	*q->tail = i;
	q->tail = &i->next;
	kit_info_free(lenient);
	return 1;

drop:
	kit_info_free(lenient);
	kit_info_free(i);
	return ret == -FI_ENODATA ? 0 : ret;
}

/* With hints only the best form of each adapter is kept. */
static int try_device(struct query *q, int idx, const struct cassini_devinfo *dev)
{
	bool is_any = false;

	for (int k = 0; k < FORM_CNT; k++) {
		struct form f = form_at(k);
		int ret;

		if (!form_wanted(&f, &q->prm, q->hints))
			continue;
		is_any = true;
		ret = try_form(q, idx, dev, &f);
		if (ret < 0)
			return ret;
		if (ret && q->hints)
			break;
	}
	if (!is_any)
		kit_info_no(&g_cxi_prov,
			    "%s has no such ep_attr->protocol as the hints ask for, or it does not "
			    "go with FI_AV_AUTH_KEY in this libfabric",
			    dev->name);
	return 0;
}

static int try_all(struct query *q, int cnt)
{
	bool wants_nic = q->want.is_source && q->want.has_nic, found = !wants_nic;
	struct cassini_devinfo dev;

	for (int i = 0; i < cnt; i++) {
		int ret;

		if (cassini_dev_query(i, &dev) || (wants_nic && dev.nic != q->want.nic))
			continue;
		found = true;
		if (!name_listed(q->prm.device_name, dev.name)) {
			kit_info_other(&g_cxi_prov, "%s is not in FI_CXI_DEVICE_NAME=%s", dev.name,
				       q->prm.device_name);
			continue;
		}
		if (!dev.link_up) {
			LOG_WARN("Interface %s link down", dev.name);
			continue;
		}
		ret = try_device(q, i, &dev);
		if (ret)
			return ret;
	}
	if (!found) {
		LOG_WARN("no adapter of this host has NIC address %#x", q->want.nic);
		return -FI_EINVAL;
	}
	return q->head ? 0 : -FI_ENODATA;
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct query q = {.version = version, .hints = hints};
	enum fi_ep_type type = hints && hints->ep_attr ? hints->ep_attr->type : FI_EP_UNSPEC;
	char err[512] = "";
	int cnt, ret;

	*info = NULL;
	if (type != FI_EP_UNSPEC && type != FI_EP_RDM)
		return kit_info_no_type(&g_cxi_prov, type, "FI_EP_RDM");
	if (hints && (hints->caps & FI_SOURCE_ERR) && !(hints->caps & FI_SOURCE))
		return kit_info_no(&g_cxi_prov,
				   "caps of the hints has FI_SOURCE_ERR without FI_SOURCE");
	cnt = cassini_dev_cnt(err, sizeof(err));
	if (cnt <= 0) {
		LOG_WARN("no Cassini adapter: %s", err[0] ? err : "the soft room has none");
		return -FI_ENODATA;
	}
	ret = want_from(&q.want, node, service, flags, cnt);
	if (ret)
		return ret;
	cxi_params_get(&q.prm);
	q.tail = &q.head;
	ret = try_all(&q, cnt);
	if (ret) {
		kit_info_free(q.head);
		return ret;
	}
	*info = q.head;
	return 0;
}

int cxi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info)
{
	struct kit_why why;

	kit_info_begin(&why);
	return kit_info_end(&g_cxi_prov, hints,
			    getinfo(version, node, service, flags, hints, info));
}
