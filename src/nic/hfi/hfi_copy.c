// SPDX-License-Identifier: BSD-2-Clause
// Copies between processes of this host, which no adapter does: memory that peers may touch, and touching theirs.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

static_assert((int)HFI_COPY_GET == (int)LINK_GET && (int)HFI_COPY_PUT == (int)LINK_PUT,
	      "rights and operations are the link's");

int hfi_expose(struct hfi_ctxt *c, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	lock_assert_held(c->hfi->lock);
	return link_port_region_add(c->claim.port, addr, len, rights, key);
}

void hfi_conceal(struct hfi_ctxt *c, uint32_t key)
{
	lock_assert_held(c->hfi->lock);
	link_region_del(c->hfi->node, key);
}

int hfi_copy(struct hfi_dst *dst, int op, void *local, size_t len, uint64_t raddr, uint32_t key, void *cookie)
{
	if (!dst->peer)
		return -ECONNREFUSED;
	lock_assert_held(dst->c->hfi->lock);
	return link_bulk(dst->c->claim.port, dst->peer, op, local, len, raddr, key, cookie);
}

bool hfi_copy_stop(struct hfi_ctxt *c, const void *cookie)
{
	lock_assert_held(c->hfi->lock);
	return link_bulk_stop(c->claim.port, cookie);
}

void hfi_copy_end(void *ctx, void *cookie, int status)
{
	struct hfi_ctxt *c = ctx;

	/* a refusal of the frames is one of the copy; a context that closes has no region any more */
	if (status > 0 || status == -ENOTCONN)
		status = -EACCES;
	if (c->attr.on_copy)
		c->attr.on_copy(c->ctx, cookie, status);
}
