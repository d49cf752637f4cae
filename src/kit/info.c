// SPDX-License-Identifier: BSD-2-Clause
// fi_info objects: made with room for newer cores, copied, and narrowed to what the hints asked
// for.
//
// Infos end in the caller's fi_freeinfo(), that is free(3), hence mem_disown(). The core copies them
// with its own, possibly larger, struct sizes, hence the slack behind each block.
#include "kit/compat.h"
#include "kit/kit_int.h"
#include "kit/info_int.h"

static void *block_dup(const void *src, size_t len, size_t room)
{
	void *p = mem_disown(mem_alloc(room + KIT_INFO_SLACK));

	if (p && src)
		memcpy(p, src, len);
	return p;
}

/* @src NULL or empty is no error: then there is nothing to copy. */
static bool bytes_dup(void *out, const void *src, size_t len)
{
	void *p;

	if (!src || !len || len == KIT_AV_AUTH_KEY)
		return true;
	p = block_dup(src, len, len);
	memcpy(out, &p, sizeof(p));
	return p != NULL;
}

static bool str_dup(char **out, const char *src)
{
	return !src || bytes_dup(out, src, strlen(src) + 1);
}

void kit_info_free(struct fi_info *info)
{
	struct fi_info *next;

	for (; info; info = next) {
		next = info->next;
		if (info->ep_attr)
			free(info->ep_attr->auth_key);
		if (info->domain_attr) {
			free(info->domain_attr->auth_key);
			free(info->domain_attr->name);
		}
		if (info->fabric_attr) {
			free(info->fabric_attr->name);
			free(info->fabric_attr->prov_name);
		}
		if (info->nic)
			fi_close(&info->nic->fid);
		free(info->src_addr);
		free(info->dest_addr);
		free(info->tx_attr);
		free(info->rx_attr);
		free(info->ep_attr);
		free(info->domain_attr);
		free(info->fabric_attr);
		free(info);
	}
}

struct fi_info *kit_info_new(void)
{
	struct fi_info *i = block_dup(NULL, 0, sizeof(*i));

	if (!i)
		return NULL;
	i->tx_attr = block_dup(NULL, 0, sizeof(*i->tx_attr));
	i->rx_attr = block_dup(NULL, 0, sizeof(*i->rx_attr));
	i->ep_attr = block_dup(NULL, 0, sizeof(*i->ep_attr));
	i->domain_attr = block_dup(NULL, 0, sizeof(struct kit_domain_attr_ext));
	i->fabric_attr = block_dup(NULL, 0, sizeof(*i->fabric_attr));
	if (i->tx_attr && i->rx_attr && i->ep_attr && i->domain_attr && i->fabric_attr)
		return i;
	kit_info_free(i);
	return NULL;
}

/* Pointers inside a copied block still are the original's: forget them before anything can fail. */
static bool ep_attr_dup(struct fi_info *d, const struct fi_ep_attr *src)
{
	if (!src)
		return true;
	d->ep_attr = block_dup(src, sizeof(*src), sizeof(*src));
	if (!d->ep_attr)
		return false;
	d->ep_attr->auth_key = NULL;
	return bytes_dup(&d->ep_attr->auth_key, src->auth_key, src->auth_key_size);
}

static bool domain_attr_dup(struct fi_info *d, const struct fi_domain_attr *src)
{
	if (!src)
		return true;
	d->domain_attr = block_dup(src, kit_domain_attr_len(), sizeof(struct kit_domain_attr_ext));
	if (!d->domain_attr)
		return false;
	d->domain_attr->name = NULL;
	d->domain_attr->auth_key = NULL;
	return str_dup(&d->domain_attr->name, src->name) &&
	       bytes_dup(&d->domain_attr->auth_key, src->auth_key, src->auth_key_size);
}

static bool fabric_attr_dup(struct fi_info *d, const struct fi_fabric_attr *src)
{
	if (!src)
		return true;
	d->fabric_attr = block_dup(src, sizeof(*src), sizeof(*src));
	if (!d->fabric_attr)
		return false;
	d->fabric_attr->name = d->fabric_attr->prov_name = NULL;
	return str_dup(&d->fabric_attr->name, src->name) &&
	       str_dup(&d->fabric_attr->prov_name, src->prov_name);
}

/* An object that cannot copy itself is left out: two infos must not close the same one. */
static bool nic_dup(struct fi_info *d, struct fid_nic *src)
{
	int ret;

	if (!src || !FI_CHECK_OP(src->fid.ops, struct fi_ops, control))
		return true;
	ret = src->fid.ops->control(&src->fid, FI_DUP, &d->nic);
	if (ret)
		d->nic = NULL;
	return !ret || ret == -FI_ENOSYS;
}

struct fi_info *kit_info_dup(const struct fi_info *src)
{
	struct fi_info *d = block_dup(NULL, 0, sizeof(*d));

	if (!d)
		return NULL;
	d->caps = src->caps;
	d->mode = src->mode;
	d->addr_format = src->addr_format;
	d->src_addrlen = src->src_addrlen;
	d->dest_addrlen = src->dest_addrlen;
	d->handle = src->handle;
	if (src->tx_attr)
		d->tx_attr = block_dup(src->tx_attr, sizeof(*d->tx_attr), sizeof(*d->tx_attr));
	if (src->rx_attr)
		d->rx_attr = block_dup(src->rx_attr, sizeof(*d->rx_attr), sizeof(*d->rx_attr));
	if ((src->tx_attr && !d->tx_attr) || (src->rx_attr && !d->rx_attr) ||
	    !bytes_dup(&d->src_addr, src->src_addr, src->src_addrlen) ||
	    !bytes_dup(&d->dest_addr, src->dest_addr, src->dest_addrlen) ||
	    !ep_attr_dup(d, src->ep_attr) || !domain_attr_dup(d, src->domain_attr) ||
	    !fabric_attr_dup(d, src->fabric_attr) || !nic_dup(d, src->nic)) {
		kit_info_free(d);
		return NULL;
	}
	return d;
}

uint64_t kit_caps_narrow(uint64_t info_caps, uint64_t hint, uint64_t attr)
{
	uint64_t caps =
		(attr & KIT_CAPS_SECONDARY) | (attr & KIT_CAPS_PRIMARY & (hint ? hint : info_caps));

	/* Secondary capabilities come free, except this one: it costs on every receive. */
	if (!((hint ? hint : info_caps) & FI_SOURCE))
		caps &= ~FI_SOURCE;
	if ((caps & (FI_MSG | FI_TAGGED)) && !(caps & KIT_CAPS_MSG_DIR))
		caps |= attr & KIT_CAPS_MSG_DIR;
	if ((caps & (FI_RMA | FI_ATOMIC)) && !(caps & KIT_CAPS_RMA_DIR))
		caps |= attr & KIT_CAPS_RMA_DIR;
	return caps;
}

static void if_set(size_t *attr, size_t hint)
{
	if (hint)
		*attr = hint;
}

/* Fields beyond 1.17's struct, where both the core's and the caller's have them. */
static void domain_ext_alter(struct fi_domain_attr *attr, const struct fi_domain_attr *hints,
			     uint32_t version)
{
	struct kit_domain_attr_ext ext = {0}, want = {0};
	size_t len = kit_domain_attr_len();

	memcpy(&ext, attr, len);
	if (hints)
		memcpy(&want, hints, len);
	if (version >= KIT_V(1, 20) && kit_core_version() >= KIT_V(1, 20))
		if_set(&ext.max_ep_auth_key, want.max_ep_auth_key);
	if (kit_core_version() >= KIT_V(2, 5)) {
		/* 0 would say that counters cannot count. */
		if (!ext.max_cntr_value)
			ext.max_cntr_value = UINT64_MAX;
		if (!ext.max_err_cntr_value)
			ext.max_err_cntr_value = UINT64_MAX;
	}
	memcpy((uint8_t *)attr + sizeof(ext.base), (uint8_t *)&ext + sizeof(ext.base),
	       len - sizeof(ext.base));
}

static void domain_alter(struct fi_info *info, const struct fi_domain_attr *hints, uint32_t version)
{
	struct fi_domain_attr *a = info->domain_attr;

	a->caps = kit_caps_narrow(info->caps, hints ? hints->caps : 0, a->caps);
	domain_ext_alter(a, hints, version);
	if (!hints)
		return;
	if (hints->threading)
		a->threading = hints->threading;
	if (hints->control_progress)
		a->control_progress = hints->control_progress;
	if (hints->data_progress)
		a->data_progress = hints->data_progress;
	/* A table's index is a good FI_AV_MAP address: who asked for a map is told what it gets. */
	if (a->av_type == FI_AV_UNSPEC)
		a->av_type = hints->av_type;
	if (hints->auth_key_size == KIT_AV_AUTH_KEY)
		a->auth_key_size = KIT_AV_AUTH_KEY;
}

static void ep_alter(struct fi_info *info, const struct fi_ep_attr *hints)
{
	struct fi_ep_attr *a = info->ep_attr;

	if (!hints)
		return;
	if (info->caps & (FI_RMA | FI_ATOMIC)) {
		if_set(&a->max_order_raw_size, hints->max_order_raw_size);
		if_set(&a->max_order_war_size, hints->max_order_war_size);
		if_set(&a->max_order_waw_size, hints->max_order_waw_size);
	}
	if_set(&a->tx_ctx_cnt, hints->tx_ctx_cnt);
	if_set(&a->rx_ctx_cnt, hints->rx_ctx_cnt);
}

/* Attributes given at all give the default flags of operations and the orders too, even if these
 * are none. */
static void rx_alter(struct fi_info *info, const struct fi_rx_attr *hints)
{
	struct fi_rx_attr *a = info->rx_attr;

	a->caps = kit_caps_narrow(info->caps, hints ? hints->caps & ~KIT_CAPS_IGNORED_RX : 0,
				  a->caps);
	if (!hints)
		return;
	a->op_flags = hints->op_flags;
	a->msg_order &= hints->msg_order;
	a->comp_order &= hints->comp_order;
	if_set(&a->size, hints->size);
	if_set(&a->iov_limit, hints->iov_limit);
}

static void tx_alter(struct fi_info *info, const struct fi_tx_attr *hints)
{
	struct fi_tx_attr *a = info->tx_attr;

	a->caps = kit_caps_narrow(info->caps, hints ? hints->caps & ~KIT_CAPS_IGNORED_TX : 0,
				  a->caps);
	if (!hints)
		return;
	a->op_flags = hints->op_flags;
	a->msg_order &= hints->msg_order;
	a->comp_order &= hints->comp_order;
	if_set(&a->inject_size, hints->inject_size);
	if_set(&a->size, hints->size);
	if_set(&a->iov_limit, hints->iov_limit);
	if_set(&a->rma_iov_limit, hints->rma_iov_limit);
}

void kit_info_alter(struct fi_info *info, const struct fi_info *hints, uint32_t version)
{
	/* Before the MR mode changes: both follow from what the provider needs. */
	info->caps = kit_mr_caps(version, info, hints);
	kit_mr_alter(version, info, hints);
	if (hints)
		info->handle = hints->handle;
	domain_alter(info, hints ? hints->domain_attr : NULL, version);
	ep_alter(info, hints ? hints->ep_attr : NULL);
	rx_alter(info, hints ? hints->rx_attr : NULL);
	tx_alter(info, hints ? hints->tx_attr : NULL);
}
