// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: local keys are handles into the adapter's table, remote keys are the link's.
#include "nic/efanic/efanic_int.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

/* A handle is never SLAB_ID_NONE, so handle + 1 is never EFANIC_LKEY_INTERNAL. */
static uint32_t lkey_of_id(uint32_t id)
{
	return id + 1;
}

bool efanic_mr_check(struct efanic *nic, uint32_t pd, uint32_t lkey, const void *addr, uint64_t len,
		     unsigned access)
{
	const struct efanic_mr *mr = slab_find(&nic->mrs, lkey - 1);
	uint64_t off = (uint64_t)(uintptr_t)addr - (mr ? mr->addr : 0);

	/* An address below the region wraps to an offset beyond any length. */
	return mr && off <= mr->len && len <= mr->len - off && !(access & ~mr->access) && mr->pd == pd;
}

static unsigned access_allowed(const struct efanic_dev_attr *attr)
{
	unsigned access = EFANIC_ACCESS_LOCAL_WRITE;

	if (attr->device_caps & EFANIC_CAP_RDMA_READ)
		access |= EFANIC_ACCESS_REMOTE_READ;
	if (attr->device_caps & EFANIC_CAP_RDMA_WRITE)
		access |= EFANIC_ACCESS_REMOTE_WRITE;
	return access;
}

static int region_add(struct efanic *nic, const struct efanic_mr_attr *attr, uint32_t *rkey)
{
	unsigned rights = 0;
	int rc;

	*rkey = 0;
	if (attr->access & EFANIC_ACCESS_REMOTE_READ)
		rights |= LINK_GET;
	if (attr->access & EFANIC_ACCESS_REMOTE_WRITE)
		rights |= LINK_PUT;
	if (!rights)
		return 0;
	rc = link_group_region_add(nic->node, attr->pd, attr->addr, attr->len, rights, rkey);
	if (rc == -ENOSPC) {
		LOG_WARN("%s: no room for another remotely accessible region", nic->attr.name);
		rc = -ENOMEM;
	}
	return rc;
}

int efanic_mr_reg(struct efanic *nic, const struct efanic_mr_attr *attr, struct efanic_mr **out)
{
	struct efanic_mr *mr;
	uint32_t rkey;
	int rc;

	lock_assert_held(nic->lock);
	if (attr->access & ~access_allowed(&nic->attr)) {
		LOG_WARN("%s: access 0x%x asked, this adapter allows 0x%x", nic->attr.name,
			 attr->access, access_allowed(&nic->attr));
		return -EOPNOTSUPP;
	}
	if (attr->len > nic->attr.max_mr_size || attr->len > UINT64_MAX - (uintptr_t)attr->addr) {
		LOG_WARN("%s: region of %zu bytes, limit %llu (max_mr_size)", nic->attr.name,
			 attr->len, (unsigned long long)nic->attr.max_mr_size);
		return -ENOMEM;
	}
	if (slab_used(&nic->mrs) >= nic->attr.max_mr) {
		LOG_WARN("%s: all %u memory regions in use (max_mr)", nic->attr.name,
			 nic->attr.max_mr);
		return -ENOMEM;
	}
	mr = slab_get(&nic->mrs);
	if (!mr)
		return -ENOMEM;
	rc = region_add(nic, attr, &rkey);
	if (rc) {
		slab_put(&nic->mrs, mr);
		return rc;
	}
	*mr = (struct efanic_mr){
		.nic = nic,
		.addr = (uintptr_t)attr->addr,
		.len = attr->len,
		.access = attr->access,
		.pd = attr->pd,
		.rkey = rkey,
	};
	*out = mr;
	return 0;
}

void efanic_mr_dereg(struct efanic_mr *mr)
{
	struct efanic *nic = mr->nic;

	lock_assert_held(nic->lock);
	if (mr->rkey)
		link_region_del(nic->node, mr->rkey);
	/* only now: the lock may have been dropped, and another read have begun; and while a peer does a part of one */
	while (mr->read_cnt && !efanic_tx_stop_reads(mr)) {
		lock_release(nic->lock);
		efanic_idle(nic);
		lock_acquire(nic->lock);
	}
	slab_put(&nic->mrs, mr);
}

uint32_t efanic_mr_lkey(const struct efanic_mr *mr)
{
	return lkey_of_id(slab_id(&mr->nic->mrs, mr));
}

uint32_t efanic_mr_rkey(const struct efanic_mr *mr)
{
	return mr->rkey;
}
