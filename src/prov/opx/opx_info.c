// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo of the opx provider: what each unit offers, and which of it the hints leave. Source:
// doc/facts/opx.md#attributes, #mr-modes.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kit/compat.h"
#include "prov/opx/opx.h"

#define BASE_CAPS                                                                                                      \
	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE | FI_NAMED_RX_CTX)
#define REMOTE_CAPS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define TX_CAPS     (BASE_CAPS | FI_SEND | FI_READ | FI_WRITE | REMOTE_CAPS)
#define RX_CAPS     (BASE_CAPS | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV | REMOTE_CAPS)
/* What fi_endpoint(3) knows of each direction: so much is shown, though more may be asked. */
#define BOTH_SHOWN (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM)
#define TX_SHOWN   (BOTH_SHOWN | FI_NAMED_RX_CTX | FI_SEND | FI_READ | FI_WRITE | FI_FENCE)
#define RX_SHOWN   (BOTH_SHOWN | FI_RECV | REMOTE_CAPS | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE)
#define EXTRA_CAPS  FI_FENCE /* for who asks; not shown to others */
#define MODES       (FI_CONTEXT2 | FI_ASYNC_IOV)
#define TX_OP_FLAGS                                                                                                    \
	(FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |                \
	 FI_REMOTE_CQ_DATA | FI_MORE | FI_FENCE)
#define RX_OP_FLAGS (FI_COMPLETION | FI_MULTI_RECV | FI_MORE)
#define ORDER	       (FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | \
			FI_ORDER_ATOMIC_WAW)
#define TOTAL_BUFFERED 8192
/* Kinds of capabilities that hints put on the side where they mean nothing. */
#define DIR_TX (FI_SEND | FI_READ | FI_WRITE)
#define DIR_RX (FI_RECV | REMOTE_CAPS | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE)

/* One call of fi_getinfo. */
struct query {
	uint32_t version;
	const struct fi_info *hints;       /* names in their usual spelling; NULL: none */
	struct opx_addr node;
	bool has_node, node_is_src;
	int unit, only;                    /* wanted: by an address, by an open domain; -1: any */
	uint64_t extra_caps;
	struct fi_info *head, **tail;
};

/* --- what one unit offers ------------------------------------------------------------------------ */

/* For the check: everything that is served, also where less is shown to those who do not ask. */
static void fill_caps(struct fi_info *i, uint64_t extra)
{
	i->caps = TX_CAPS | RX_CAPS | extra;
	i->tx_attr->caps = TX_CAPS | extra;
	i->rx_attr->caps = RX_CAPS | (extra & FI_HMEM);
	i->tx_attr->op_flags = TX_OP_FLAGS;
	i->rx_attr->op_flags = RX_OP_FLAGS;
	i->tx_attr->msg_order = i->rx_attr->msg_order = ORDER;
}

static void fill_sizes(struct fi_info *i)
{
	i->tx_attr->inject_size = OPX_INJECT_MAX;
	i->tx_attr->size = i->rx_attr->size = SIZE_MAX; /* queues grow */
	i->tx_attr->iov_limit = i->rx_attr->iov_limit = OPX_IOV_MAX;
	i->tx_attr->rma_iov_limit = 1;
	i->rx_attr->total_buffered_recv = TOTAL_BUFFERED;
	i->ep_attr->type = FI_EP_RDM;
	i->ep_attr->protocol = FI_PROTO_OPX;
	i->ep_attr->protocol_version = 1;
	i->ep_attr->max_msg_size = UINT64_MAX;
	i->ep_attr->mem_tag_format = UINT64_MAX;
	i->ep_attr->max_order_raw_size = i->ep_attr->max_order_war_size = i->ep_attr->max_order_waw_size = SIZE_MAX;
	i->ep_attr->tx_ctx_cnt = i->ep_attr->rx_ctx_cnt = 1;
}

static void fill_domain(struct fi_info *i, const struct hfi_unit_attr *u, enum fi_progress data)
{
	struct fi_domain_attr *d = i->domain_attr;

	d->threading = FI_THREAD_SAFE;
	d->control_progress = FI_PROGRESS_AUTO; /* control calls are over when they return */
	d->data_progress = data;
	d->resource_mgmt = FI_RM_ENABLED;
	d->av_type = OPX_AV_ONLY;
	d->mr_mode = 0;
	d->mr_key_size = 8;
	d->cq_data_size = 4;
	d->cq_cnt = SIZE_MAX;
	d->ep_cnt = d->tx_ctx_cnt = d->rx_ctx_cnt = u->nctxts;
	d->max_ep_tx_ctx = d->max_ep_rx_ctx = MIN((size_t)OPX_SEP_MAX, (size_t)u->nctxts);
	d->cntr_cnt = OPX_CNTR_CNT;
	d->mr_iov_limit = 1;
	d->mr_cnt = SIZE_MAX;
	d->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
}

static struct fid_nic *make_nic(const struct hfi_unit_attr *u)
{
	char id[16], vendor[16], rev[16], link[16];
	struct kit_nic_attr a = {
		.name = u->name,
		.device_id = id,
		.device_version = rev,
		.vendor_id = vendor,
		.driver = "hfi1",
		.firmware = "",
		.pci_always = u->pci_always,
		.pci_domain = u->pci_domain,
		.pci_bus = u->pci_bus,
		.pci_device = u->pci_device,
		.pci_function = u->pci_function,
		.link_address = link,
		.network_type = "OmniPath",
		.mtu = u->mtu,
		.speed = u->speed_bps,
		.link_down = u->state != HFI_PORT_ACTIVE,
	};

	snprintf(id, sizeof(id), "0x%04x", u->device_id);
	snprintf(vendor, sizeof(vendor), "0x%04x", u->vendor_id);
	snprintf(rev, sizeof(rev), "0x%x", u->revision);
	snprintf(link, sizeof(link), "0x%x", u->lid);
	return kit_nic_new(&a);
}

static int addr_set(void **addr, size_t *len, const struct opx_addr *from)
{
	*addr = malloc(sizeof(*from)); /* fi_freeinfo() frees it */
	if (!*addr)
		return -FI_ENOMEM;
	memcpy(*addr, from, sizeof(*from));
	*len = sizeof(*from);
	return 0;
}

static struct fi_info *make_info(const struct query *q, const struct hfi_unit_attr *u, enum fi_progress data)
{
	struct fi_info *i = kit_info_new();
	struct opx_addr src = opx_addr_unbound();
	char name[16];

	if (!i)
		return NULL;
	fill_caps(i, q->extra_caps);
	fill_sizes(i);
	fill_domain(i, u, data);
	snprintf(name, sizeof(name), "ib%d", u->unit);
	i->addr_format = FI_ADDR_OPX;
	i->domain_attr->name = strdup(name);
	i->fabric_attr->name = strdup("OPX-100");
	i->fabric_attr->api_version = q->version;
	i->nic = make_nic(u);
	if (addr_set(&i->src_addr, &i->src_addrlen, &src) || !i->domain_attr->name || !i->fabric_attr->name ||
	    !i->nic) {
		kit_info_free(i);
		return NULL;
	}
	return i;
}

/* --- hints: names, addresses --------------------------------------------------------------------- */

static int name_replace(char **name, const char *by)
{
	char *copy = strdup(by);

	if (!copy)
		return -FI_ENOMEM;
	free(*name);
	*name = copy;
	return 0;
}

/* A copy in which other releases' names for fabric and domain are ours. NULL: no memory. */
static struct fi_info *hints_usual(const struct fi_info *hints)
{
	struct fi_info *h = kit_info_dup(hints);
	char name[16];
	int ret = 0, unit;

	if (!h)
		return NULL;
	if (h->fabric_attr && h->fabric_attr->name && !strcmp(h->fabric_attr->name, "OPX"))
		ret = name_replace(&h->fabric_attr->name, "OPX-100");
	if (!ret && h->domain_attr && h->domain_attr->name) {
		unit = opx_unit_of(h->domain_attr->name);
		snprintf(name, sizeof(name), "ib%d", unit);
		if (unit >= 0)
			ret = name_replace(&h->domain_attr->name, name);
	}
	if (!ret)
		return h;
	kit_info_free(h);
	return NULL;
}

/* @node: fi_addr_opx://<16 hexadecimal digits>. A name of another kind is another provider's. */
static int parse_node(struct query *q, const char *node, uint64_t flags)
{
	static const char scheme[] = "fi_addr_opx://";
	const char *digits = node + strlen(scheme);

	if (strncmp(node, scheme, strlen(scheme)))
		return kit_info_no(&g_opx_prov, "node \"%s\" is no opx address", node);
	if (strlen(digits) != 16 || strspn(digits, "0123456789abcdefABCDEF") != 16) {
		LOG_WARN("node \"%s\" refused: expected %s and 16 hexadecimal digits", node, scheme);
		return -FI_EINVAL;
	}
	q->node = opx_addr_of(strtoull(digits, NULL, 16));
	q->has_node = true;
	q->node_is_src = flags & FI_SOURCE;
	return 0;
}

static void want_unit(struct query *q, const struct opx_addr *src)
{
	if (src->hfi1_unit != 0xff)
		q->unit = src->hfi1_unit;
}

static int hint_addrs(struct query *q)
{
	const struct fi_info *h = q->hints;
	struct opx_addr a;

	if ((h->src_addr && h->src_addrlen != sizeof(a)) ||
	    (h->dest_addr && h->dest_addrlen != sizeof(a)))
		return kit_info_no(
			&g_opx_prov,
			"an address of the hints is none of opx: %zu and %zu bytes, not %zu",
			h->src_addrlen, h->dest_addrlen, sizeof(a));
	if (!h->src_addr || q->node_is_src)
		return 0;
	memcpy(&a, h->src_addr, sizeof(a));
	want_unit(q, &a);
	return 0;
}

/* An opened domain among the hints: what it is open on is wanted, and nothing else. */
static int hint_domain(struct query *q)
{
	const struct fid_domain *fid = q->hints->domain_attr ? q->hints->domain_attr->domain : NULL;

	if (!fid)
		return 0;
	if (fid->fid.fclass != FI_CLASS_DOMAIN || fid->ops->av_open != opx_av_open)
		return kit_info_no(&g_opx_prov, "the open domain of the hints is none of opx");
	q->only = container_of(fid, struct opx_domain, kit.fid)->unit;
	return 0;
}

/* Addresses of the result: the node's, else the hints'. */
static int addrs_set(struct fi_info *i, const struct query *q)
{
	const struct fi_info *h = q->hints;
	const void *src = q->node_is_src ? &q->node : h ? h->src_addr : NULL;
	const void *dest = q->has_node && !q->node_is_src ? &q->node : h ? h->dest_addr : NULL;

	if (src)
		memcpy(i->src_addr, src, sizeof(struct opx_addr));
	return dest ? addr_set(&i->dest_addr, &i->dest_addrlen, dest) : 0;
}

/* --- hints: what is refused here, before the kit's comparison ------------------------------------ */

static bool caps_within(const char *what, uint64_t side, uint64_t all)
{
	if ((all & (FI_MSG | FI_TAGGED)) && !(all & (FI_SEND | FI_RECV)))
		all |= FI_SEND | FI_RECV;
	if ((all & (FI_RMA | FI_ATOMIC)) && !(all & (FI_READ | FI_WRITE | REMOTE_CAPS)))
		all |= FI_READ | FI_WRITE | REMOTE_CAPS;
	if (!all || !(side & ~all))
		return true;
	kit_info_no(&g_opx_prov, "%s->caps asks for %#llx, which caps of the hints does not", what,
		    (unsigned long long)(side & ~all));
	return false;
}

/* 2.0 dropped FI_THREAD_FID and FI_THREAD_ENDPOINT, which then print as "Unknown". */
static bool thread_known(enum fi_threading t, uint32_t version)
{
	if (version >= KIT_V(2, 0) && (t == FI_THREAD_FID || t == FI_THREAD_ENDPOINT))
		return false;
	return (unsigned)t <= FI_THREAD_ENDPOINT;
}

static int hints_check(const struct fi_info *h, uint32_t version)
{
	if (h->ep_attr && h->ep_attr->type != FI_EP_UNSPEC && h->ep_attr->type != FI_EP_RDM)
		return kit_info_no_type(&g_opx_prov, h->ep_attr->type, "FI_EP_RDM");
	if ((h->mode & FI_CONTEXT) && !(h->mode & FI_CONTEXT2)) {
		LOG_WARN("hints with mode FI_CONTEXT and without FI_CONTEXT2 refused: opx has FI_CONTEXT2");
		return -FI_ENODATA;
	}
	if (h->domain_attr && !thread_known(h->domain_attr->threading, version)) {
		LOG_WARN("domain_attr->threading %d of the hints is unknown", (int)h->domain_attr->threading);
		return -FI_EINVAL;
	}
	if ((h->tx_attr && !caps_within("tx_attr", h->tx_attr->caps & ~DIR_RX, h->caps)) ||
	    (h->rx_attr && !caps_within("rx_attr", h->rx_attr->caps & ~DIR_TX, h->caps)))
		return -FI_ENODATA;
	return 0;
}

/*
 * Capabilities that only those get who ask. Programs of Intel MPI always ask for FI_HMEM; FI_HMEM=system says that they
 * mean plain memory.
 */
static uint64_t extra_caps(const struct fi_info *h)
{
	const char *hmem = secure_getenv("FI_HMEM");

	return (h->caps & EXTRA_CAPS) | (hmem && !strcmp(hmem, "system") ? h->caps & FI_HMEM : 0);
}

/* --- the call ------------------------------------------------------------------------------------ */

/* What is shown where narrowing by the hints does not say it. */
static void adjust(struct fi_info *i, const struct query *q)
{
	const struct fi_info *h = q->hints;
	struct fi_domain_attr *d = i->domain_attr;

	i->mode = h ? MODES & h->mode : MODES;
	i->tx_attr->caps &= TX_SHOWN;
	i->rx_attr->caps &= RX_SHOWN;
	i->tx_attr->msg_order = i->rx_attr->msg_order = ORDER;
	i->tx_attr->inject_size = OPX_INJECT_MAX;
	d->mr_cnt = 0;
	if (!h || !h->tx_attr)
		i->tx_attr->op_flags = h ? 0 : FI_TRANSMIT_COMPLETE;
	if (!h || !h->rx_attr)
		i->rx_attr->op_flags = h ? 0 : FI_MULTI_RECV;
	if (h && h->rx_attr && h->rx_attr->total_buffered_recv)
		i->rx_attr->total_buffered_recv = h->rx_attr->total_buffered_recv;
	if (h && h->ep_attr && h->ep_attr->max_msg_size)
		i->ep_attr->max_msg_size = h->ep_attr->max_msg_size;
	if (!h || !h->domain_attr || !h->domain_attr->threading)
		d->threading = q->version >= KIT_V(2, 0) ? FI_THREAD_DOMAIN : FI_THREAD_ENDPOINT;
	if (!h || !h->domain_attr || !h->domain_attr->control_progress)
		d->control_progress = FI_PROGRESS_MANUAL;
	if (!h || !h->domain_attr)
		d->mr_mode = KIT_MR_SCALABLE;
}

/* One way to progress on one unit. 1 added; 0 not wanted; -errno. */
static int try_form(struct query *q, const struct hfi_unit_attr *u, enum fi_progress data)
{
	struct fi_info *i = make_info(q, u, data);
	int ret = 0;

	if (!i)
		return -FI_ENOMEM;
	if (kit_info_check(&g_opx_prov, q->version, i, q->hints))
		goto drop;
	kit_info_alter(i, q->hints, q->version);
	adjust(i, q);
	ret = addrs_set(i, q);
	if (ret)
		goto drop;
	*q->tail = i;
	q->tail = &i->next;
	return 0;

drop:
	kit_info_free(i);
	return ret;
}

static int try_unit(struct query *q, const struct hfi_unit_attr *u)
{
	enum fi_progress want =
		q->hints && q->hints->domain_attr ? q->hints->domain_attr->data_progress : FI_PROGRESS_UNSPEC;
	int ret = 0;

	if ((q->unit >= 0 && q->unit != u->unit) || (q->only >= 0 && q->only != u->unit)) {
		kit_info_other(&g_opx_prov,
			       "unit %d is not the one that an address or an open domain of the "
			       "hints names",
			       u->unit);
		return 0;
	}
	if (want != FI_PROGRESS_AUTO)
		ret = try_form(q, u, FI_PROGRESS_MANUAL);
	if (!ret && (want == FI_PROGRESS_AUTO || want == FI_PROGRESS_UNSPEC))
		ret = try_form(q, u, FI_PROGRESS_AUTO);
	return ret;
}

/* Units that can be used come first: most programs take the first info. */
static int try_all(struct query *q, int cnt)
{
	struct hfi_unit_attr u;
	int ret = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < cnt && !ret; i++)
			if (!hfi_unit_query(i, &u) && (u.state == HFI_PORT_ACTIVE) == !pass)
				ret = try_unit(q, &u);
	return ret ? ret : q->head ? 0 : -FI_ENODATA;
}

static int query_run(struct query *q, const char *node, uint64_t flags, int cnt)
{
	int ret = node ? parse_node(q, node, flags) : 0;

	if (ret)
		return ret;
	if (q->hints) {
		ret = hints_check(q->hints, q->version);
		ret = ret ? ret : hint_addrs(q);
		ret = ret ? ret : hint_domain(q);
		if (ret)
			return ret;
		q->extra_caps = extra_caps(q->hints);
	}
	if (q->node_is_src)
		want_unit(q, &q->node);
	return try_all(q, cnt);
}

static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		   const struct fi_info *hints, struct fi_info **info)
{
	struct query q = {.version = version, .unit = -1, .only = -1};
	struct fi_info *usual = NULL;
	struct opx_params prm;
	char err[512] = "";
	int cnt, ret;

	(void)service; /* means nothing here */
	*info = NULL;
	cnt = hfi_unit_cnt(err, sizeof(err));
	if (cnt <= 0 && !err[0])
		return kit_info_no(&g_opx_prov, "no HFI: the soft room has none");
	if (cnt <= 0) {
		LOG_WARN("no HFI: %s", err);
		return -FI_ENODATA;
	}
	opx_params_get(&prm); /* what is refused is said here already */
	if (hints) {
		usual = hints_usual(hints);
		if (!usual)
			return -FI_ENOMEM;
	}
	q.hints = usual;
	q.tail = &q.head;
	ret = query_run(&q, node, flags, cnt);
	kit_info_free(usual);
	if (ret) {
		kit_info_free(q.head);
		return ret;
	}
	*info = q.head;
	return 0;
}

int opx_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info)
{
	struct kit_why why;

	kit_info_begin(&why);
	return kit_info_end(&g_opx_prov, hints,
			    getinfo(version, node, service, flags, hints, info));
}
