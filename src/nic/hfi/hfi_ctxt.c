// SPDX-License-Identifier: BSD-2-Clause
// Contexts: opening one as the driver does, closing it, polling it, sleeping on it.
#include "nic/hfi/hfi_int.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

static const struct link_ops port_ops = {
	.on_frame = hfi_rx_frame,
	.on_bulk = hfi_copy_end,
	.on_gone = hfi_rx_gone,
};

/* --- open ---------------------------------------------------------------------------------------- */

/* As the driver asks: may this process administer the system? */
static uint16_t own_jkey(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
	bool is_admin = !syscall(SYS_capget, &head, data) && data[0].effective & 1u << CAP_SYS_ADMIN;

	return hfi_jkey_of((uint32_t)getuid(), is_admin);
}

static void ctxt_init(struct hfi_ctxt *c, struct hfi *hfi, const struct hfi_ctxt_attr *attr)
{
	c->hfi = hfi;
	c->attr = *attr;
	c->on_pkt = attr->on_pkt;
	c->ctx = attr->ctx;
	c->parked_end = &c->parked;
	c->may_be_down = hfi->attr.state != HFI_PORT_ACTIVE || hfi->attr.down_ns[1];
}

/* What the application may know of the context that was assigned. */
static void info_fill(struct hfi_ctxt *c, uint16_t jkey)
{
	const struct hfi_unit_attr *unit = &c->hfi->attr;

	c->info = (struct hfi_ctxt_info){
		.unit = (uint16_t)unit->unit,
		.ctxt = c->claim.ctxt,
		.subctxt = c->claim.subctxt,
		.send_ctxt = c->claim.ctxt,
		.lid = unit->lid,
		.jkey = jkey,
		.pkey = c->attr.pkey,
		.sl = c->attr.sl,
		.credits = unit->credits,
		.rcvhdrq_cnt = unit->rcvhdrq_cnt,
		.rcvegr_bytes = unit->rcvegr_bytes,
		.sdma_ring_size = unit->sdma_ring_size,
		.mtu = MIN(unit->mtu, HFI_MTU),
		.tid_cnt = HFI_TID_CNT,
		.numa_node = unit->numa_node,
		.rec_cpu = sched_getcpu(),
	};
	hfi_sl_path(unit, c->attr.sl, &c->info.sc, &c->info.vl);
}

/* What all our packets say. */
static void like_fill(struct hfi_ctxt *c)
{
	const struct hfi_ctxt_info *info = &c->info;

	c->like = (struct hfi_hdr){
		.lrh_flags = be16_put((uint16_t)(info->sc << 12 | (info->sl & 0xf) << 4 | HFI_LNH_BTH)),
		.slid = be16_put(info->lid),
		.pkey = be16_put(info->pkey),
		.qp = HFI_QP_KDETH,
		.psn_tx = le32_put((uint32_t)info->send_ctxt << 24),
		.kdeth = le32_put(HFI_KVER),
		.jkey = le16_put(info->jkey),
		.hcrc = le16_put(hfi_wire_hcrc(c->attr.uuid)),
	};
}

static int assign(struct hfi_ctxt *c, uint16_t jkey)
{
	struct hfi *hfi = c->hfi;
	const struct hfi_assign_attr attr = {
		.unit = &hfi->attr,
		.map = &hfi->map,
		.want = &c->attr,
		.lock = hfi->lock,
		.port = {.node = hfi->node, .no_shm = hfi->open.no_shm, .ops = &port_ops, .ctx = c},
		.jkey = jkey,
		.port_is_up = hfi_port_is_up(hfi),
		.scope = hfi->open.world ? (uint32_t)((uintptr_t)hfi->open.world >> 4) | 1 : 0,
	};

	return hfi_assign_open(&attr, &c->claim);
}

static void ctxt_free(struct hfi_ctxt *c)
{
	hfi_tid_fini(c);
	hfi_sdma_fini(c);
	mem_free(c);
}

int hfi_ctxt_open(struct hfi *hfi, const struct hfi_ctxt_attr *attr, struct hfi_ctxt **out)
{
	struct hfi_ctxt *c = mem_alloc_aligned(CACHE_LINE, sizeof(*c));
	uint16_t jkey = own_jkey();
	int rc;

	if (!c)
		return -ENOMEM;
	ctxt_init(c, hfi, attr);
	rc = hfi_tid_init(c);
	if (!rc)
		rc = hfi_sdma_init(c, hfi->attr.sdma_ring_size);
	if (!rc)
		rc = assign(c, jkey);
	if (rc) {
		ctxt_free(c);
		return rc;
	}
	if (attr->selinux)
		jkey = own_jkey(); /* what the driver is allowed to see may have changed with the P_Key */
	lock_acquire(hfi->lock);
	info_fill(c, jkey);
	like_fill(c);
	link_port_set_label(c->claim.port, hfi_door_label(&c->like));
	c->next = hfi->ctxts;
	hfi->ctxts = c;
	lock_release(hfi->lock);
	*out = c;
	return 0;
}

/* --- close --------------------------------------------------------------------------------------- */

static void list_remove(struct hfi_ctxt *c)
{
	struct hfi_ctxt **at = &c->hfi->ctxts;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
}

void hfi_ctxt_close(struct hfi_ctxt *c)
{
	struct hfi *hfi = c->hfi;
	struct hfi_stats stats;
	struct link_stats link;

	lock_assert_held(hfi->lock);
	assert(!c->is_polling);
	/* The port drops the lock while it drains: from here on nothing comes in or goes out. */
	c->is_closing = true;
	hfi_sdma_gone(c, NULL, -ECANCELED);
	hfi_rx_drop(c);
	hfi_dst_orphan_all(c);
	hfi_assign_close(&c->claim, &link);
	list_remove(c);
	hfi_stats_derive(c, &link, &stats);
	stats_add(&hfi->closed, &stats, sizeof(stats));
	ctxt_free(c);
}

/* --- polling and sleeping ------------------------------------------------------------------------ */

const struct hfi_ctxt_info *hfi_ctxt_info(const struct hfi_ctxt *c)
{
	return &c->info;
}

bool hfi_ctxt_is_polled(const struct hfi_ctxt *c)
{
	return c->is_polling;
}

int hfi_ctxt_poll(struct hfi_ctxt *c)
{
	int n = 0;

	lock_assert_held(c->hfi->lock);
	if (unlikely(c->is_polling || c->is_closing))
		return 0;
	c->is_polling = true;
	if (unlikely(c->parked))
		n = hfi_rx_show(c);
	if (unlikely(c->sdma.head != SDMA_NONE))
		n += hfi_sdma_step(c);
	n += link_poll(c->claim.port);
	c->is_polling = false;
	return n;
}

bool hfi_ctxt_calm(struct hfi_ctxt *c, struct calm *calm, uint32_t passed)
{
	return !c->is_polling && !c->is_closing && !c->parked && c->sdma.head == SDMA_NONE &&
	       link_calm(c->claim.port, calm, passed);
}

int hfi_ctxt_wait_fd(struct hfi_ctxt *c)
{
	lock_assert_held(c->hfi->lock);
	return link_wait_fd(c->claim.port);
}

int hfi_ctxt_arm(struct hfi_ctxt *c)
{
	lock_assert_held(c->hfi->lock);
	return c->parked ? -EAGAIN : link_arm(c->claim.port);
}

bool hfi_ctxt_is_armed(const struct hfi_ctxt *c)
{
	return !c->parked && link_is_armed(c->claim.port);
}
