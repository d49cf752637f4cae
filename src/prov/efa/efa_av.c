// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of the efa provider: 32-byte addresses, one address handle per GID. Source:
// doc/facts/efa.md#addresses, #objects.
#include <arpa/inet.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/efa/efa.h"
#include "prov/efa/efa_obj.h"

#define AV_COUNT_MIN 16384u

const char *efa_addr_str(const struct efa_addr *a, char *buf, size_t *len)
{
	char gid[INET6_ADDRSTRLEN];
	int n;

	inet_ntop(AF_INET6, a->gid, gid, sizeof(gid));
	n = snprintf(buf, *len, "fi_addr_efa://[%s]:%u:%u", gid, a->qpn, a->qkey);
	*len = n < 0 ? 0 : (size_t)n + 1;
	return buf;
}

int efa_addr_give(const struct efa_addr *self, void *addr, size_t *len)
{
	size_t cap;

	if (!len)
		return -FI_EINVAL;
	cap = *len;
	*len = EFA_ADDR_LEN;
	if (addr)
		memcpy(addr, self, MIN(cap, (size_t)EFA_ADDR_LEN));
	return addr && cap >= EFA_ADDR_LEN ? 0 : -FI_ETOOSMALL;
}

static const char *av_straddr(struct kit_av *av, const void *addr, char *buf, size_t *len)
{
	struct efa_addr a;

	(void)av;
	memcpy(&a, addr, sizeof(a));
	return efa_addr_str(&a, buf, len);
}

static int av_check(struct kit_av *av, const void *addr)
{
	static const uint8_t zero[16];

	(void)av;
	if (memcmp(addr, zero, sizeof(zero)))
		return 0;
	LOG_WARN("address with an all-zero GID refused");
	return -FI_EINVAL;
}

static struct efa_ep *ep_at(const struct kit_av *kav, uint32_t i)
{
	return container_of(kav->eps[i], struct efa_ep, kit);
}

static int reserve_peers(const struct kit_av *kav, fi_addr_t fi_addr)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && i < kav->ep_cnt; i++)
		ret = efa_peer_reserve(ep_at(kav, i), fi_addr);
	return ret;
}

static int av_added(struct kit_av *kav, fi_addr_t fi_addr, const void *addr)
{
	struct efa_av *av = container_of(kav, struct efa_av, kit);
	struct efa_domain *d = container_of(kav->domain, struct efa_domain, kit);
	int ret = 0;

	if (fi_addr >= av->ahn_cap) {
		uint32_t cap = (uint32_t)roundup_pow2(MAX(fi_addr + 1, (fi_addr_t)64));
		uint16_t *ahn = mem_alloc(cap * sizeof(*ahn));

		if (!ahn)
			return -FI_ENOMEM;
		if (av->ahn_cap)
			memcpy(ahn, av->ahn, av->ahn_cap * sizeof(*ahn));
		mem_free(av->ahn);
		av->ahn = ahn;
		av->ahn_cap = cap;
	}
	if (d->kind == EFA_RDM)
		ret = reserve_peers(kav, fi_addr);
	ret = ret ? ret : efanic_ah_open(d->nic, addr, &av->ahn[fi_addr]);
	for (uint32_t i = 0; !ret && d->kind == EFA_RDM && i < kav->ep_cnt; i++)
		efa_peer_named(ep_at(kav, i), fi_addr, addr);
	return ret;
}

static void av_removed(struct kit_av *kav, fi_addr_t fi_addr, const void *addr)
{
	struct efa_av *av = container_of(kav, struct efa_av, kit);
	struct efa_domain *d = container_of(kav->domain, struct efa_domain, kit);

	(void)addr;
	for (uint32_t i = 0; i < kav->ep_cnt; i++) {
		if (d->kind == EFA_RDM)
			efa_peer_removed(ep_at(kav, i), fi_addr);
		else
			efa_dgram_removed(kav->eps[i], fi_addr);
	}
	efanic_ah_close(d->nic, av->ahn[fi_addr]);
}

static const struct kit_av_ops av_ops = {
	.check = av_check,
	.added = av_added,
	.removed = av_removed,
	.straddr = av_straddr,
};

static int av_close(struct fid *fid)
{
	struct efa_av *av = container_of(fid, struct efa_av, kit.fid.fid);
	struct efa_domain *d = container_of(av->kit.domain, struct efa_domain, kit);
	int ret;

	if (av->kit.refs > 0 || av->kit.ep_cnt)
		return -FI_EBUSY;
	if (!(d->kit.forked && d->kit.forked(&d->kit))) {
		lock_acquire(&d->kit.lock);
		for (fi_addr_t i = 0; i < av->kit.high; i++)
			if (kit_av_addr(&av->kit, i))
				efanic_ah_close(d->nic, av->ahn[i]);
		lock_release(&d->kit.lock);
	}
	ret = kit_av_fini(&av->kit);
	if (ret)
		return ret;
	mem_free(av->ahn);
	mem_free(av);
	return 0;
}

static struct fi_ops av_fi_ops = KIT_FI_OPS(av_close, kit_av_bind, kit_no_control);

int efa_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_out, void *context)
{
	struct kit_domain *d = container_of(domain, struct kit_domain, fid);
	struct fi_av_attr a;
	struct efa_av *av;
	int ret;

	if (!attr || !av_out)
		return -FI_EINVAL;
	if (attr->name) {
		LOG_WARN("named address vector \"%s\" refused: efa shares none between processes", attr->name);
		return -FI_ENOSYS;
	}
	if (attr->flags) {
		LOG_WARN("address vector flags %#llx refused: insertion is synchronous (no FI_EVENT)",
			 (unsigned long long)attr->flags);
		return -FI_ENOSYS;
	}
	if (attr->type > FI_AV_TABLE) {
		LOG_WARN("address vector type %d refused: there is FI_AV_TABLE", (int)attr->type);
		return -FI_EINVAL;
	}
	if (attr->type == FI_AV_MAP)
		LOG_WARN("FI_AV_MAP is deprecated, the address vector is an FI_AV_TABLE");
	a = *attr;
	a.type = FI_AV_TABLE;
	a.count = MAX(a.count, (size_t)AV_COUNT_MIN);
	av = mem_alloc(sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	ret = kit_av_init(&av->kit, d, &a, EFA_ADDR_LEN, &av_ops, context);
	if (ret) {
		mem_free(av);
		return ret;
	}
	av->kit.dedup = av->kit.stops = true;
	/* other libraries, the text form and the real adapter have 0 there: it says how far a peer is, not who */
	av->kit.mute_at = offsetof(struct efa_addr, host);
	av->kit.mute_len = sizeof(((struct efa_addr *)0)->host);
	av->kit.allowed_flags = FI_MORE | FI_SYNC_ERR;
	av->kit.fid.fid.ops = &av_fi_ops;
	attr->type = FI_AV_TABLE;
	*av_out = &av->kit.fid;
	return 0;
}
