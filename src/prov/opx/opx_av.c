// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of the opx provider: 8-byte addresses, which with FI_AV_MAP are the fi_addr_t themselves. Source:
// doc/facts/opx.md#addresses, #objects.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/opx/opx.h"

#define RX_BITS_MAX 8

static struct opx_av *to_av(const struct kit_av *kav)
{
	return container_of((struct kit_av *)(uintptr_t)kav, struct opx_av, kit);
}

/* --- addresses ----------------------------------------------------------------------------------- */

struct opx_addr opx_addr_unbound(void)
{
	return (struct opx_addr){.hfi1_unit = 0xff, .endpoint_id = le16_put(0xffff), .lid = be16_put(0xffff)};
}

bool opx_addr_ok(const struct opx_addr *a)
{
	uint16_t lid = be16_get(a->lid);

	return lid && lid <= HFI_LID_MAX && a->hfi1_rx < HFI_CTXT_MAX;
}

const char *opx_straddr(struct kit_av *av, const void *addr, char *buf, size_t *len)
{
	struct opx_addr a;
	uint16_t lid;
	int n;

	(void)av;
	memcpy(&a, addr, sizeof(a));
	/*
	 * as it lies in the address, where it is big-endian: programs that read the text back put the number there as
	 * it is
	 */
	memcpy(&lid, &a.lid, sizeof(lid));
	n = snprintf(buf, *len, "%04x.%04x.%02x.%02x.%02x.%02x", lid, le16_get(a.endpoint_id), a.rx_index, a.hfi1_rx,
		     a.hfi1_unit, a.reliability_rx);
	*len = n < 0 ? 0 : (size_t)n + 1;
	return buf;
}

static bool is_sep(const struct opx_addr *a)
{
	return le16_get(a->endpoint_id) & OPX_ADDR_SEP;
}

bool opx_av_get(const struct opx_av *av, fi_addr_t fi_addr, struct opx_addr *out)
{
	unsigned bits = av->rx_ctx_bits;
	uint64_t index = bits ? fi_addr >> (64 - bits) : 0;
	const void *raw;

	if (av->is_map) {
		*out = opx_addr_of(fi_addr);
		if (is_sep(out))
			out->rx_index = (uint8_t)index;
	} else {
		raw = kit_av_addr(&av->kit, bits ? fi_addr << bits >> bits : fi_addr);
		if (unlikely(!raw))
			return false;
		memcpy(out, raw, sizeof(*out));
		if (is_sep(out))
			out->rx_index = (uint8_t)index;
		else if (unlikely(index))
			return false;
	}
	return opx_addr_ok(out) && (!is_sep(out) || out->rx_index < OPX_SEP_MAX);
}

fi_addr_t opx_av_name(const struct opx_av *av, const struct opx_addr *addr)
{
	struct opx_addr base = *addr;
	uint64_t index = 0;
	fi_addr_t place;

	if (is_sep(addr)) {
		base.rx_index = 0;
		index = av->rx_ctx_bits ? (uint64_t)addr->rx_index << (64 - av->rx_ctx_bits) : 0;
	}
	place = kit_av_find(&av->kit, &base);
	if (place == FI_ADDR_NOTAVAIL)
		return place;
	return index | (av->is_map ? opx_addr_u64(&base) : place);
}

/* --- the table ----------------------------------------------------------------------------------- */

static int av_check(struct kit_av *kav, const void *addr)
{
	struct opx_addr a;
	char text[48];
	size_t len = sizeof(text);

	memcpy(&a, addr, sizeof(a));
	if (opx_addr_ok(&a))
		return 0;
	LOG_WARN(
		"address %s refused: its LID is %#x and must be 1 to %#x, its receive context is %u and must be 0 to "
		"%u",
		opx_straddr(kav, addr, text, &len), be16_get(a.lid), HFI_LID_MAX, a.hfi1_rx, HFI_CTXT_MAX - 1);
	return -FI_EINVAL;
}

static int av_added(struct kit_av *kav, fi_addr_t fi_addr, const void *addr)
{
	(void)fi_addr, (void)addr;
	to_av(kav)->gen++;
	return 0;
}

static void av_removed(struct kit_av *kav, fi_addr_t fi_addr, const void *addr)
{
	(void)addr;
	to_av(kav)->gen++;
	for (uint32_t i = 0; i < kav->ep_cnt; i++) {
		struct opx_ep *ep = container_of(kav->eps[i], struct opx_ep, kit);

		if (kav->eps[i]->fid.fid.fclass != FI_CLASS_SEP && ep->hw)
			opx_peers_forget(ep, fi_addr);
	}
}

static fi_addr_t map_name(const void *addr)
{
	struct opx_addr a;

	memcpy(&a, addr, sizeof(a));
	return opx_addr_u64(&a);
}

static void map_unname(fi_addr_t fi_addr, void *addr)
{
	struct opx_addr a = opx_addr_of(fi_addr);

	memcpy(addr, &a, sizeof(a));
}

static const struct kit_av_ops av_ops = {
	.check = av_check,
	.added = av_added,
	.removed = av_removed,
	.straddr = opx_straddr,
	.open_flags = FI_SYMMETRIC, /* a promise of the program that we do not need */
	.name = map_name,
	.unname = map_unname,
};

/* --- open, close --------------------------------------------------------------------------------- */

int opx_av_type(enum fi_av_type only, enum fi_av_type asked, enum fi_av_type *out)
{
	if ((unsigned)asked > FI_AV_TABLE || (only && asked && asked != only)) {
		LOG_WARN("address vector type %d refused%s", (int)asked,
			 only ? ": this build has the other one only (OPX_AV)" : "");
		return -FI_EINVAL;
	}
	*out = asked ? asked : only ? only : FI_AV_MAP;
	return 0;
}

static int attr_check(const struct fi_av_attr *attr)
{
	if (attr->name) {
		LOG_WARN("named address vector \"%s\" refused: opx shares none between processes", attr->name);
		return -FI_EOPNOTSUPP;
	}
	if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > RX_BITS_MAX) {
		LOG_WARN("address vector with rx_ctx_bits %d refused: the limit is %d", attr->rx_ctx_bits, RX_BITS_MAX);
		return -FI_EINVAL;
	}
	return 0;
}

int opx_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_out, void *context)
{
	struct kit_domain *d = container_of(domain, struct kit_domain, fid);
	struct fi_av_attr a;
	struct opx_av *av;
	int ret;

	if (!attr || !av_out)
		return -FI_EINVAL;
	a = *attr;
	ret = attr_check(attr);
	ret = ret ? ret : opx_av_type(OPX_AV_ONLY, attr->type, &a.type);
	if (ret)
		return ret;
	av = mem_alloc(sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	ret = kit_av_init(&av->kit, d, &a, sizeof(struct opx_addr), &av_ops, context);
	if (ret)
		goto err_free;
	av->is_map = a.type == FI_AV_MAP;
	av->rx_ctx_bits = (unsigned)attr->rx_ctx_bits;
	/* one address is one fi_addr_t, however often it is inserted */
	ret = av->is_map ? kit_av_count_uses(&av->kit) : 0;
	if (ret)
		goto err_av;
	attr->type = a.type;
	*av_out = &av->kit.fid;
	return 0;

err_av:
	kit_av_fini(&av->kit);
err_free:
	mem_free(av);
	return ret;
}
