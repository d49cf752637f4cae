// SPDX-License-Identifier: BSD-2-Clause
// Memory registration: the three calls, checked once, become one request to the provider.
#include "kit/kit_int.h"

#include "base/guard.h"
#include "kit/compat.h"

static int refuse(const struct kit_domain *d, int err, const char *what, uint64_t value)
{
	KIT_WARN(d->prov, FI_LOG_MR, "memory registration: %s (%#llx)\n", what,
		 (unsigned long long)value);
	return err;
}

/* Not of access: the real efa and cxi take any bits, programs give FI_RMA among them, and opx refuses what is none. */
static int req_check(const struct kit_domain *d, const struct kit_mr_req *r)
{
	uint64_t total = 0;

	if (!r->iov || !r->iov_cnt)
		return refuse(d, -FI_EINVAL, "no memory is given", r->iov_cnt);
	for (size_t i = 0; i < r->iov_cnt; i++) {
		uint64_t end, base = (uintptr_t)r->iov[i].iov_base, len = r->iov[i].iov_len;

		if (__builtin_add_overflow(base, len, &end) ||
		    __builtin_add_overflow(total, len, &total))
			return refuse(d, -FI_EINVAL, "a range ends beyond the address space", base);
	}
	return 0;
}

int kit_mr_pin(const struct kit_domain *d, const struct kit_mr_req *r, bool is_write)
{
	for (size_t i = 0; i < r->iov_cnt; i++) {
		int ret = guard_mapped(r->iov[i].iov_base, r->iov[i].iov_len, is_write);

		if (ret == -EFAULT)
			return refuse(d, -FI_EFAULT,
				      is_write ? "not all of it is mapped, writable and in its file"
					       : "not all of it is mapped, readable and in its file",
				      (uintptr_t)r->iov[i].iov_base);
		if (ret)
			return refuse(d, ret, "no pages for it", (uintptr_t)r->iov[i].iov_base);
	}
	return 0;
}

/* Only with FI_HMEM, which nobody has who does not know it: else the field may hold anything, and
 * before 1.9 there was none. Memory that we do not serve is told apart from what is no memory at all,
 * as upstream does. */
static int iface_check(const struct kit_domain *d, unsigned iface)
{
	if (iface == FI_HMEM_SYSTEM)
		return 0;
	if (iface > FI_HMEM_SYNAPSEAI) /* the last one in 2.6, too */
		return refuse(d, -FI_EINVAL, "unknown fi_mr_attr.iface", iface);
	return refuse(d, -FI_ENOSYS, "only memory of FI_HMEM_SYSTEM is served, not of iface",
		      iface);
}

static int mr_open(struct fid *fid, struct kit_mr_req *r, struct fid_mr **mr)
{
	struct kit_domain *d = container_of(fid, struct kit_domain, fid.fid);
	int ret;

	if (!fid || fid->fclass != FI_CLASS_DOMAIN || !mr)
		return -FI_EINVAL;
	/* With that flag mr_iov is something else: look at nothing. */
	if (r->flags & KIT_MR_DMABUF)
		return d->api_version >= KIT_V(1, 20)
			       ? refuse(d, -FI_EOPNOTSUPP, "no DMA buffers here", r->flags)
			       : refuse(d, -FI_EBADFLAGS, "FI_MR_DMABUF came with 1.20", r->flags);
	ret = req_check(d, r);
	if (ret)
		return ret;
	guard_init(); /* before peers may name it */
	if (!d->mr_open)
		return -FI_ENOSYS;
	if (!kit_enter(d))
		return -FI_EIO;
	ret = d->mr_open(d, r, mr);
	lock_release(&d->lock);
	return ret;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
		   void *context)
{
	struct kit_mr_req r = {.iov = iov,
			       .iov_cnt = count,
			       .access = access,
			       .offset = offset,
			       .requested_key = requested_key,
			       .flags = flags,
			       .context = context};

	return mr_open(fid, &r, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	const struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

/* Only fields that 1.17 callers have are read: the newer ones describe device memory and
 * sub-regions. */
static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	const struct kit_domain *d = container_of(fid, struct kit_domain, fid.fid);
	struct kit_mr_req r;
	int ret;

	if (!attr || !fid || fid->fclass != FI_CLASS_DOMAIN)
		return -FI_EINVAL;
	ret = d->caps & FI_HMEM ? iface_check(d, (unsigned)attr->iface) : 0;
	if (ret)
		return ret;
	r = (struct kit_mr_req){.iov = attr->mr_iov,
				.iov_cnt = attr->iov_count,
				.access = attr->access,
				.offset = attr->offset,
				.requested_key = attr->requested_key,
				.flags = flags,
				.context = attr->context};
	return mr_open(fid, &r, mr);
}

struct fi_ops_mr kit_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
