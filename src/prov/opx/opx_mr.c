// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: named by keys that the application chooses, addressed by offset. Source: doc/facts/opx.md#regions.

#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"
#include "prov/opx/opx.h"

#define HASH_MIN 64u

static uint32_t slot_of(const struct opx_domain *d, uint64_t key)
{
	return (uint32_t)(key * 0x9E3779B97F4A7C15ULL >> 40) & d->mr_mask;
}

static void table_grow(struct opx_domain *d)
{
	uint32_t cap = d->mr_tab ? (d->mr_mask + 1) * 4 : HASH_MIN, old_cap = d->mr_tab ? d->mr_mask + 1 : 0;
	struct opx_mr **old = d->mr_tab, **tab = mem_alloc(cap * sizeof(*tab));

	if (!tab)
		return; /* longer chains are no error; without any table opx_mr_open() fails */
	d->mr_tab = tab;
	d->mr_mask = cap - 1;
	for (uint32_t i = 0; i < old_cap; i++) {
		for (struct opx_mr *mr = old[i], *next; mr; mr = next) {
			next = mr->hnext;
			mr->hnext = tab[slot_of(d, mr->key)];
			tab[slot_of(d, mr->key)] = mr;
		}
	}
	mem_free(old);
}

static struct opx_mr *by_key(const struct opx_domain *d, uint64_t key)
{
	struct opx_mr *mr = d->mr_tab ? d->mr_tab[slot_of(d, key)] : NULL;

	while (mr && mr->key != key)
		mr = mr->hnext;
	return mr;
}

static __attribute__((cold, noinline)) void refused(struct opx_domain *d, const struct opx_mr *mr, uint64_t key,
						    uint64_t off, uint64_t len, uint64_t access)
{
	const char *what = access == FI_REMOTE_READ ? "read" : access == FI_REMOTE_WRITE ? "write" : "atomic";

	if (mr)
		LOG_FEW(LOG_LVL_WARN, d->refused_told,
			"a peer's %s of %llu bytes at 0x%llx of region 0x%llx refused: it has %llu bytes from 0x%llx, "
			"access 0x%llx",
			what, (unsigned long long)len, (unsigned long long)off, (unsigned long long)key,
			(unsigned long long)mr->len, (unsigned long long)mr->offset, (unsigned long long)mr->access);
	else
		LOG_FEW(LOG_LVL_WARN, d->refused_told,
			"a peer's %s of %llu bytes at 0x%llx of region 0x%llx refused: no region has this key", what,
			(unsigned long long)len, (unsigned long long)off, (unsigned long long)key);
}

void *opx_mr_find(struct opx_domain *d, uint64_t key, uint64_t off, uint64_t len, uint64_t access, enum opx_status *why)
{
	struct opx_mr *mr = by_key(d, key);

	if (!mr)
		*why = OPX_ST_KEY;
	else if ((mr->access & access) != access)
		*why = OPX_ST_ACCESS;
	else if (off < mr->offset || len > mr->len || off - mr->offset > mr->len - len)
		*why = OPX_ST_RANGE;
	else
		return (void *)((uintptr_t)mr->addr + (uintptr_t)(off - mr->offset));
	refused(d, mr, key, off, len, access);
	return NULL;
}

static int mr_close(struct fid *fid)
{
	struct opx_mr *mr = container_of(fid, struct opx_mr, fid.fid), **at;
	struct opx_domain *d = mr->domain;

	if (!(d->kit.forked && d->kit.forked(&d->kit))) {
		lock_acquire(&d->kit.lock);
		for (at = &d->mr_tab[slot_of(d, mr->key)]; *at && *at != mr; at = &(*at)->hnext)
			;
		if (*at)
			*at = mr->hnext;
		d->mr_cnt--;
		opx_mr_gone(mr);
		lock_release(&d->kit.lock);
	}
	d->kit.refs--;
	mem_free(mr);
	return 0;
}

/* Counters may be bound as upstream allows; without FI_RMA_EVENT nothing counts there. */
static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	(void)fid;
	(void)flags;
	return bfid && (bfid->fclass == FI_CLASS_CNTR || bfid->fclass == FI_CLASS_EP) ? 0 : -FI_EINVAL;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	(void)fid;
	(void)arg;
	return command == FI_ENABLE || command == FI_REFRESH ? 0 : -FI_ENOSYS;
}

static struct fi_ops mr_fi_ops = KIT_FI_OPS(mr_close, mr_bind, mr_control);

#define ACCESS_ALL (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static int request_check(const struct opx_domain *d, const struct kit_mr_req *req)
{
	if (req->iov_cnt != 1) {
		LOG_WARN("memory region of %zu pieces refused: opx takes 1", req->iov_cnt);
		return -FI_EINVAL;
	}
	if (req->access & ~(uint64_t)ACCESS_ALL || req->flags) {
		LOG_WARN("memory region refused: access 0x%llx, flags 0x%llx", (unsigned long long)req->access,
			 (unsigned long long)req->flags);
		return -FI_EINVAL;
	}
	if (req->requested_key == UINT64_MAX) {
		LOG_WARN("memory region refused: the key UINT64_MAX is reserved");
		return -FI_EKEYREJECTED;
	}
	if (by_key(d, req->requested_key)) {
		LOG_WARN("memory region refused: the key 0x%llx is in use", (unsigned long long)req->requested_key);
		return -FI_ENOKEY;
	}
	return 0;
}

int opx_mr_open(struct kit_domain *kd, const struct kit_mr_req *req, struct fid_mr **out)
{
	struct opx_domain *d = container_of(kd, struct opx_domain, kit);
	int ret = request_check(d, req);
	struct opx_mr *mr;

	lock_assert_held(&kd->lock);
	if (ret)
		return ret;
	if (!d->mr_tab || d->mr_cnt > d->mr_mask)
		table_grow(d);
	mr = d->mr_tab ? mem_alloc(sizeof(*mr)) : NULL;
	if (!mr)
		return -FI_ENOMEM;
	mr->fid.fid.fclass = FI_CLASS_MR;
	mr->fid.fid.context = req->context;
	mr->fid.fid.ops = &mr_fi_ops;
	mr->fid.mem_desc = mr;
	mr->fid.key = req->requested_key;
	mr->domain = d;
	mr->addr = req->iov[0].iov_base;
	mr->len = req->iov[0].iov_len;
	mr->offset = req->offset;
	mr->access = req->access;
	mr->key = req->requested_key;
	mr->hnext = d->mr_tab[slot_of(d, mr->key)];
	d->mr_tab[slot_of(d, mr->key)] = mr;
	d->mr_cnt++;
	kd->refs++;
	*out = &mr->fid;
	return 0;
}
