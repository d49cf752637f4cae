// SPDX-License-Identifier: BSD-2-Clause
// Memory regions of the efa provider: registration with the device, and the key table for packet-emulated RMA.
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/efa/efa.h"

#define HASH_MIN 64u

static uint32_t slot_of(const struct efa_domain *d, uint64_t key)
{
	return (uint32_t)(key * 0x9E3779B97F4A7C15ULL >> 40) & d->mr_mask;
}

static void table_grow(struct efa_domain *d)
{
	uint32_t cap = d->mr_tab ? (d->mr_mask + 1) * 4 : HASH_MIN, old_cap = d->mr_tab ? d->mr_mask + 1 : 0;
	struct efa_mr **old = d->mr_tab, **tab = mem_alloc(cap * sizeof(*tab));

	if (!tab)
		return; /* longer chains are no error; without any table efa_mr_open() fails */
	d->mr_tab = tab;
	d->mr_mask = cap - 1;
	for (uint32_t i = 0; i < old_cap; i++) {
		struct efa_mr *mr, *next;

		for (mr = old[i]; mr; mr = next) {
			next = mr->hnext;
			mr->hnext = tab[slot_of(d, mr->key)];
			tab[slot_of(d, mr->key)] = mr;
		}
	}
	mem_free(old);
}

static __attribute__((cold, noinline)) void refused(struct efa_domain *d, const struct efa_mr *mr, uint64_t key,
						    uint64_t addr, uint64_t len, uint64_t access)
{
	const char *what = access == FI_REMOTE_READ ? "read" : access == FI_REMOTE_WRITE ? "write" : "atomic";

	if (mr)
		LOG_FEW(LOG_LVL_WARN, d->refused_told,
			"a peer's %s of %llu bytes at 0x%llx by key 0x%llx refused: it is for %zu bytes at %p, access "
			"0x%llx",
			what, (unsigned long long)len, (unsigned long long)addr, (unsigned long long)key, mr->len,
			mr->addr, (unsigned long long)mr->access);
	else
		LOG_FEW(LOG_LVL_WARN, d->refused_told,
			"a peer's %s of %llu bytes at 0x%llx by key 0x%llx refused: no region has it", what,
			(unsigned long long)len, (unsigned long long)addr, (unsigned long long)key);
}

struct efa_mr *efa_mr_check(struct efa_domain *d, uint64_t key, uint64_t addr, uint64_t len, uint64_t access)
{
	struct efa_mr *mr = d->mr_tab ? d->mr_tab[slot_of(d, key)] : NULL;

	while (mr && mr->key != key)
		mr = mr->hnext;
	if (mr && (mr->access & access) == access && addr >= (uintptr_t)mr->addr && len <= mr->len &&
	    addr - (uintptr_t)mr->addr <= mr->len - len)
		return mr;
	refused(d, mr, key, addr, len, access);
	return NULL;
}

/* What is parked or posted names regions by their descriptors, also when the program has closed them meanwhile. */
static void mr_put(struct efa_domain *d, struct efa_mr *mr)
{
	mr->hnext = d->mr_closed;
	d->mr_closed = mr;
}

static int mr_close(struct fid *fid)
{
	struct efa_mr *mr = container_of(fid, struct efa_mr, fid.fid), **at;
	struct efa_domain *d = mr->domain;

	if (!(d->kit.forked && d->kit.forked(&d->kit))) {
		lock_acquire(&d->kit.lock);
		for (at = &d->mr_tab[slot_of(d, mr->key)]; *at && *at != mr; at = &(*at)->hnext)
			;
		if (*at)
			*at = mr->hnext;
		d->mr_cnt--;
		efanic_mr_dereg(mr->dev);
		mr->dev = NULL;
		mr_put(d, mr);
		lock_release(&d->kit.lock);
	} else {
		mem_free(mr); /* a child has nothing under way that names it */
	}
	d->kit.refs--;
	return 0;
}

static struct efa_mr *mr_get(struct efa_domain *d)
{
	struct efa_mr *mr = d->mr_closed;

	if (!mr)
		return mem_alloc(sizeof(*mr));
	d->mr_closed = mr->hnext;
	memset(mr, 0, sizeof(*mr));
	return mr;
}

void efa_mrs_fini(struct efa_domain *d)
{
	struct efa_mr *mr;

	while ((mr = d->mr_closed)) {
		d->mr_closed = mr->hnext;
		mem_free(mr);
	}
	mem_free(d->mr_tab);
}

static struct fi_ops mr_fi_ops = KIT_FI_OPS(mr_close, kit_no_bind, kit_no_control);

/* The real provider grants what the device can, whatever was asked: programs rely on it. */
static unsigned device_access(const struct efa_domain *d)
{
	return EFANIC_ACCESS_LOCAL_WRITE |
	       (d->attr.device_caps & EFANIC_CAP_RDMA_READ ? EFANIC_ACCESS_REMOTE_READ : 0) |
	       (d->attr.device_caps & EFANIC_CAP_RDMA_WRITE ? EFANIC_ACCESS_REMOTE_WRITE : 0);
}

int efa_mr_open(struct kit_domain *kd, const struct kit_mr_req *req, struct fid_mr **out)
{
	struct efa_domain *d = container_of(kd, struct efa_domain, kit);
	struct efanic_mr_attr attr;
	struct efa_mr *mr;
	uint32_t key;
	int ret;

	lock_assert_held(&kd->lock);
	if (req->iov_cnt != 1) {
		LOG_WARN("memory region of %zu pieces refused: the device takes 1", req->iov_cnt);
		return -FI_EINVAL;
	}
	if (req->flags & ~(FI_HMEM_DEVICE_ONLY | (1ULL << 49)))
		return -FI_EBADFLAGS;
	/* nothing asked is, to the real provider, what messages need */
	ret = kit_mr_pin(kd, req, !req->access || req->access & KIT_MR_LOCAL_WRITE);
	if (ret)
		return ret;
	if (!d->mr_tab || d->mr_cnt > d->mr_mask)
		table_grow(d);
	mr = d->mr_tab ? mr_get(d) : NULL;
	if (!mr)
		return -FI_ENOMEM;
	attr = (struct efanic_mr_attr){req->iov[0].iov_base, req->iov[0].iov_len, device_access(d)};
	ret = efanic_mr_reg(d->nic, &attr, &mr->dev);
	if (ret) {
		mr->dev = NULL;
		mr_put(d, mr);
		return ret;
	}
	/* Without remote access in the device (efa0) keys still name the region for packet emulation. */
	key = efanic_mr_rkey(mr->dev);
	if (!key)
		key = efanic_mr_lkey(mr->dev);
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = req->context;
	mr->fid.fid.ops = &mr_fi_ops;
	mr->fid.mem_desc = mr;
	mr->fid.key = key;
	mr->domain = d;
	mr->addr = attr.addr;
	mr->len = attr.len;
	mr->access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	mr->key = key;
	mr->hnext = d->mr_tab[slot_of(d, key)];
	d->mr_tab[slot_of(d, key)] = mr;
	d->mr_cnt++;
	kd->refs++;
	*out = &mr->fid;
	return 0;
}
