// SPDX-License-Identifier: BSD-2-Clause
// Endpoint options: fi_setopt and fi_getopt of the RDM endpoint. Source: doc/facts/efa.md#endpoint-options.
#include <string.h>

#include "base/log.h"
#include "fi_ext_efa.h"
#include "prov/efa/efa.h"

/* Options that 2.x headers name and 1.17 ones do not; the numbers are libfabric's. */
enum {
	OPT_HMEM_P2P = 8,
	OPT_CUDA_API_PERMITTED = 10,
	OPT_SHARED_MEMORY_PERMITTED = 11,
	OPT_MAX_MSG_SIZE = 12,
	OPT_MAX_TAGGED_SIZE,
	OPT_MAX_RMA_SIZE,
	OPT_MAX_ATOMIC_SIZE,
	OPT_INJECT_MSG_SIZE,
	OPT_INJECT_TAGGED_SIZE,
	OPT_INJECT_RMA_SIZE,
	OPT_INJECT_ATOMIC_SIZE,
};
enum { HMEM_P2P_DISABLED = 3 };

static struct efa_ep *to_ep(struct fid *fid)
{
	return container_of(fid, struct efa_ep, kit.fid.fid);
}

/* The size_t options: where they live, what bounds them; @limit NULL: not settable by this rule. */
static size_t *size_opt(struct efa_ep *ep, int name, size_t *limit)
{
	*limit = ep->kit.info->ep_attr->max_msg_size;
	switch (name) {
	case OPT_MAX_MSG_SIZE:
		return &ep->max_msg_size;
	case OPT_MAX_TAGGED_SIZE:
		return &ep->max_tagged_size;
	case OPT_MAX_RMA_SIZE:
		return &ep->max_rma_size;
	case OPT_MAX_ATOMIC_SIZE:
		return &ep->max_atomic_size;
	}
	*limit = ep->kit.info->tx_attr->inject_size;
	switch (name) {
	case OPT_INJECT_MSG_SIZE:
		return &ep->inject_msg;
	case OPT_INJECT_TAGGED_SIZE:
		return &ep->inject_tagged;
	case OPT_INJECT_RMA_SIZE:
		return &ep->inject_rma;
	case OPT_INJECT_ATOMIC_SIZE:
		return &ep->inject_atomic;
	case FI_OPT_MIN_MULTI_RECV:
		*limit = SIZE_MAX;
		return &ep->srx.min_multi_recv;
	}
	return NULL;
}

static int set_size(struct efa_ep *ep, int name, const void *val, size_t len)
{
	size_t limit, *at = size_opt(ep, name, &limit), v;

	if (len != sizeof(v))
		return -FI_EINVAL;
	memcpy(&v, val, sizeof(v));
	if (v > limit) {
		LOG_WARN("endpoint option %d: %zu is above the limit %zu", name, v, limit);
		return -FI_EINVAL;
	}
	if (unlikely(ep->domain->kit.forked(&ep->domain->kit))) /* whoever held the lock is not here */
		return -FI_EIO;
	lock_acquire(&ep->domain->kit.lock);
	*at = v;
	efa_peers_gates(ep);
	lock_release(&ep->domain->kit.lock);
	return 0;
}

static int set_shm(struct efa_ep *ep, bool on)
{
	if (ep->kit.enabled)
		return -FI_EINVAL;
	if (on && !ep->domain->params.enable_shm_transfer) {
		LOG_WARN("shared memory cannot be permitted: FI_EFA_ENABLE_SHM_TRANSFER=0 forbids it");
		return -FI_EINVAL;
	}
	ep->shm_permitted = on;
	return 0;
}

static int set_rdma(struct efa_ep *ep, bool on)
{
	unsigned caps = ep->domain->attr.device_caps;

	if (ep->domain->kit.api_version < KIT_V(1, 18))
		return -FI_ENOPROTOOPT;
	if (kit_param_is_set(&g_efa_prov, "use_device_rdma") && ep->domain->params.use_device_rdma != on) {
		LOG_WARN("FI_EFA_USE_DEVICE_RDMA=%d contradicts the endpoint option; the environment is respected",
			 !on);
		return -FI_EINVAL;
	}
	if (on && !(caps & EFANIC_CAP_RDMA_READ))
		return -FI_EOPNOTSUPP;
	ep->use_read = on && (caps & EFANIC_CAP_RDMA_READ);
	ep->use_write = on && (caps & EFANIC_CAP_RDMA_WRITE);
	return 0;
}

static int set_homogeneous(struct efa_ep *ep, bool on)
{
	if (unlikely(ep->domain->kit.forked(&ep->domain->kit)))
		return -FI_EIO;
	lock_acquire(&ep->domain->kit.lock);
	ep->homogeneous = on;
	efa_peers_assume(ep);
	lock_release(&ep->domain->kit.lock);
	return 0;
}

static int set_bool(struct efa_ep *ep, int name, const void *val, size_t len)
{
	bool on = *(const unsigned char *)val;

	if (len != sizeof(on)) {
		/* An option that is not ours is unknown, whatever its length. */
		bool known = name == OPT_CUDA_API_PERMITTED || name == OPT_SHARED_MEMORY_PERMITTED ||
			     (name > FI_OPT_EFA_EMULATED_ATOMICS && name <= FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV);

		return known ? -FI_EINVAL : -FI_ENOPROTOOPT;
	}
	switch (name) {
	case OPT_CUDA_API_PERMITTED:
		return -FI_EINVAL; /* no CUDA in this process */
	case OPT_SHARED_MEMORY_PERMITTED:
		return set_shm(ep, on);
	case FI_OPT_EFA_USE_DEVICE_RDMA:
		return set_rdma(ep, on);
	case FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES:
	case FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES:
		return on ? -FI_EOPNOTSUPP : 0; /* the soft adapter does not poll data in 128-byte order */
	case FI_OPT_EFA_HOMOGENEOUS_PEERS: /* at any time: programs enable their endpoint first */
		return set_homogeneous(ep, on);
	case FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV:
		if (ep->kit.enabled)
			return -FI_EINVAL;
		if (on && !(ep->domain->attr.device_caps & EFANIC_CAP_UNSOLICITED_WRITE_RECV))
			return -FI_EOPNOTSUPP;
		ep->unsolicited = on;
		return 0;
	}
	return -FI_ENOPROTOOPT;
}

static int set_rnr(struct efa_ep *ep, const void *val, size_t len)
{
	size_t v;

	if (len != sizeof(v))
		return -FI_EINVAL;
	memcpy(&v, val, sizeof(v));
	if (ep->kit.enabled || v > EFANIC_RNR_INFINITE)
		return -FI_EINVAL;
	if (!(ep->domain->attr.device_caps & EFANIC_CAP_RNR_RETRY))
		return -FI_ENOSYS;
	ep->rnr_retry = (uint8_t)v;
	return 0;
}

int efa_ep_setopt(struct fid *fid, int level, int name, const void *val, size_t len)
{
	struct efa_ep *ep = to_ep(fid);
	size_t limit;
	int v;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (!val || !len)
		return -FI_EINVAL;
	if (size_opt(ep, name, &limit))
		return set_size(ep, name, val, len);
	if (name == FI_OPT_EFA_RNR_RETRY)
		return set_rnr(ep, val, len);
	if (name != OPT_HMEM_P2P)
		return set_bool(ep, name, val, len);
	if (len != sizeof(v))
		return -FI_EINVAL;
	return -FI_EINVAL; /* no device memory was initialised to judge the mode against */
}

static int give(void *val, size_t *len, const void *from, size_t need)
{
	if (*len < need)
		return -FI_ETOOSMALL;
	memcpy(val, from, need);
	*len = need;
	return 0;
}

int efa_ep_getopt(struct fid *fid, int level, int name, void *val, size_t *len)
{
	struct efa_ep *ep = to_ep(fid);
	size_t limit, *size;
	bool b;
	int v = HMEM_P2P_DISABLED;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (!val || !len)
		return -FI_EINVAL;
	size = size_opt(ep, name, &limit);
	if (size)
		return give(val, len, size, sizeof(*size));
	switch (name) {
	case OPT_HMEM_P2P:
		return give(val, len, &v, sizeof(v));
	case FI_OPT_EFA_RNR_RETRY:
		limit = ep->rnr_retry;
		return give(val, len, &limit, sizeof(limit));
	case FI_OPT_EFA_EMULATED_READ:
		b = !ep->use_read;
		break;
	case FI_OPT_EFA_EMULATED_WRITE:
		b = !ep->use_write;
		break;
	case FI_OPT_EFA_EMULATED_ATOMICS:
		b = true;
		break;
	case FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV:
		b = ep->unsolicited;
		break;
	default:
		return -FI_ENOPROTOOPT;
	}
	return give(val, len, &b, sizeof(b));
}
