// SPDX-License-Identifier: BSD-2-Clause
// What the files of hfi/ share: unit, context, destination, what waits, expected receive, SDMA.
#ifndef SF_NIC_HFI_HFI_INT_H
#define SF_NIC_HFI_HFI_INT_H

#include "base/rng.h"
#include "base/slab.h"
#include "link/hostpart.h"
#include "link/link.h"
#include "nic/hfi/hfi.h"
#include "nic/hfi/hfi_assign.h"
#include "nic/hfi/hfi_wire.h"

/*
 * Theory of operation
 *
 * A context is one link port of class RAW. A packet is one link frame, header first. A destination is what a link
 * peer's user pointer points to, so that a packet finds it without a look-up; it knows what the headers of its packets
 * must say (struct hfi_door).
 *
 * hfi_ctxt_poll() sets @is_polling, and only while it runs are packets shown as a matter of course. When anybody else
 * polls the port (the adapter thread; the drain of a port that closes), on_service is asked and the packet is parked if
 * it is not taken. Parked packets and the end of their sender form one line in order of arrival.
 */

/* A packet in the receive header queue with its eager bytes, or the end of a destination. */
struct hfi_parked {
	struct hfi_parked *next;
	struct hfi_dst *dst; /* one reference */
	int gone;            /* not 0: no packet, but on_gone's status */
	enum hfi_rcv_type type;
	uint32_t len;
	struct hfi_hdr hdr;
	uint8_t data[];
};

struct hfi_dst {
	/* what every packet touches */
	struct hfi_door door;   /* of packets from it */
	struct link_peer *peer; /* one reference; NULL: an orphan, its context is closed */
	void *user;
	union {
		struct hfi_ctxt *c;
		struct hfi *hfi; /* of an orphan */
	};
	uint32_t refs;
	uint32_t parked_cnt;
	uint16_t lid;
	uint8_t rx, subctxt;
	bool is_host;
	bool is_gone_parked; /* its end waits to be told: what comes now is of its successor */
};

/* An entry of the receive array. */
struct hfi_tid_row {
	uint8_t *addr;
	uint32_t len;
	uint16_t gen;
	uint16_t next; /* free list */
	bool is_used;
};

struct hfi_sdma_slot {
	uint8_t status; /* enum hfi_sdma_status */
	uint16_t next;  /* queue */
	int err;
	uint32_t len, sent; /* payload bytes; packets */
	struct hfi_sdma_req req; /* QUEUED: its dst has one reference; iov and tids point to the copies below */
	struct iovec iov[HFI_IOV_MAX];
	struct hfi_tid tids[HFI_IOV_MAX];
};
#define SDMA_NONE UINT16_MAX

struct hfi_sdma {
	struct hfi_sdma_slot *slot; /* [size] */
	uint32_t size, used;
	uint16_t head, tail; /* queue */
};

struct hfi_ctxt {
	/* what every packet touches */
	struct hfi_claim claim; /* port, context number */
	void (*on_pkt)(void *ctx, const struct hfi_pkt *pkt);
	void *ctx;
	struct hfi *hfi;
	bool is_polling;  /* hfi_ctxt_poll() runs */
	bool is_closing;
	bool may_be_down; /* the port has a down= window */
	struct hfi_parked *parked, **parked_end;
	struct hfi_stats stats; /* own counts; hfi_stats.c derives the rest */
	/* the rest */
	uint32_t parked_cnt, parked_bytes;
	uint32_t drops_said; /* lines about packets of other jobs */
	struct hfi_ctxt *next; /* hfi->ctxts */
	struct hfi_ctxt_attr attr;
	struct hfi_ctxt_info info;
	struct hfi_hdr like; /* template of our packets: what does not depend on where they go */
	struct hfi_sdma sdma;
	struct hfi_tid_row *tid; /* [HFI_TID_CNT] */
	uint16_t tid_free;       /* list */
	uint16_t tid_left;
	uint16_t tid_gen;
};
#define TID_NONE UINT16_MAX

struct hfi {
	struct lock *lock; /* protects everything below */
	struct hfi_unit_attr attr;
	struct hfi_open_attr open;
	struct hostpart map;
	struct link_node *node;
	const struct link_room *room;
	struct hfi_ctxt *ctxts; /* list */
	struct slab dsts;
	struct rng rng;
	uint64_t opened_ns;
	struct hfi_stats closed; /* sums of closed contexts */
};

/* --- hfi_dst.c --- */

/**
 * hfi_dst_of() - The destination that @peer is, made if need be, without a reference for the caller. NULL: no memory,
 * or not an address of a context.
 */
struct hfi_dst *hfi_dst_of(struct hfi_ctxt *c, struct link_peer *peer);
/** hfi_dst_free() - The last reference is gone. */
void hfi_dst_free(struct hfi_dst *dst);
/** hfi_dst_unref() - hfi_dst_put() from inside. */
static inline void hfi_dst_unref(struct hfi_dst *dst)
{
	must(dst->refs);
	if (!--dst->refs)
		hfi_dst_free(dst);
}
/** hfi_dst_orphan_all() - @c closes: its destinations stay handles, but name nothing. */
void hfi_dst_orphan_all(struct hfi_ctxt *c);

/* --- hfi_rx.c --- */

int hfi_rx_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len); /* link_ops.on_frame */
void hfi_rx_gone(void *ctx, struct link_peer *peer, int status);               /* link_ops.on_gone */
/** hfi_rx_show() - Show what is parked. Return: how many. */
int hfi_rx_show(struct hfi_ctxt *c);
/** hfi_rx_drop() - Forget what is parked. */
void hfi_rx_drop(struct hfi_ctxt *c);

/* --- hfi_tx.c --- */

/**
 * hfi_tx_send() - One packet, @hdr complete but for what the packet's length is; @len: of @iov. Return: 0; as
 * link_send(); -ENETDOWN.
 */
int hfi_tx_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt,
		size_t len);

/* --- hfi_sdma.c --- */

int hfi_sdma_init(struct hfi_ctxt *c, uint32_t size);
void hfi_sdma_fini(struct hfi_ctxt *c);
/** hfi_sdma_step() - Send what is queued as far as there is room. Return: packets. */
int hfi_sdma_step(struct hfi_ctxt *c);
/** hfi_sdma_gone() - Requests to @dst, or to anybody if it is NULL, end with @err. */
void hfi_sdma_gone(struct hfi_ctxt *c, const struct hfi_dst *dst, int err);

/* --- hfi_tid.c --- */

int hfi_tid_init(struct hfi_ctxt *c);
void hfi_tid_fini(struct hfi_ctxt *c);

/* --- hfi_copy.c --- */

void hfi_copy_end(void *ctx, void *cookie, int status); /* link_ops.on_bulk */

/* --- hfi_stats.c --- */

/** hfi_stats_derive() - All counters of @c from its own and from @link, those of its port. */
void hfi_stats_derive(const struct hfi_ctxt *c, const struct link_stats *link, struct hfi_stats *out);
/** hfi_stats_tell() - The line of all counters of the adapter @ctx as it is now (link_node_attr.tell). */
size_t hfi_stats_tell(void *ctx, char *buf, size_t len);

#endif
