// SPDX-License-Identifier: BSD-2-Clause
// Device API of the soft HFI1 adapter: what the hfi1 driver and its mapped registers give a provider, with their names,
// limits and errors.
#ifndef SF_NIC_HFI_HFI_H
#define SF_NIC_HFI_HFI_H

#include <sys/uio.h>

#include "base/base.h"
#include "base/le.h"
#include "base/lock.h"
#include "base/quota.h"
#include "base/view.h"
#include "nic/common/nic_stats.h"

/*
 * Theory of operation
 *
 * A *unit* is one adapter of the soft room; its port has a state, a LID and a GID. A *struct hfi* is one unit opened by
 * one process, everything of which runs under one lock, handed in at open; functions take it as held unless they say
 * "not under the lock". A *context* is one receive header queue with eager buffers and one send context; it is one port
 * of the link, of class RAW: what goes to another host may be lost, duplicated or reordered, and repairing that is the
 * provider's business, as on the real fabric. Peers on this host are reached through shared memory, where nothing is
 * lost until the process at the other end is gone, which on_gone tells.
 *
 * Packets are handed to on_pkt straight from the wire while the application polls. While it computes, the adapter's
 * thread takes them off the wire and shows them to on_service: what that does not take waits in the receive header
 * queue (RcvHdrQ entry and eager buffer), and when that is full a packet from another host is dropped: the natural
 * loss. Packets from this host are never dropped; the provider bounds them by its own window. What on_service takes
 * overtakes what waits.
 *
 * A port that is down forwards nothing to or from other hosts; what shared memory carries does not pass it.
 *
 * Differences from the real adapter, all for speed: the header queue is written only for packets that have to wait; PIO
 * credits come back when the link has taken the packet; the eight bytes of the PBC, which never leave a real adapter,
 * carry the flow key of a pair of contexts.
 */

struct calm; /* base/calm.h */
struct hfi;
struct hfi_ctxt;
struct hfi_dst;

#define HFI_UNIT_MAX     16
#define HFI_CTXT_MAX     160 /* of the chip: receive contexts, send contexts */
#define HFI_SUBCTXT_MAX  8
#define HFI_PKEY_MAX     16
#define HFI_SL_MAX       32
#define HFI_MTU          8192u  /* payload bytes of a packet on data VLs */
#define HFI_PIO_BLOCK    64u    /* bytes of one credit */
#define HFI_IOV_MAX      4      /* payload pieces of a packet or SDMA request */
#define HFI_JKEY_ADMIN   32     /* jkeys below are for administrators */
#define HFI_PKEY_DEFAULT 0x8001u
#define HFI_LID_MAX      0xBFFFu

/* --- units -------------------------------------------------------------------------------------------------------- */

enum hfi_port_state { HFI_PORT_DOWN = 1, HFI_PORT_INIT, HFI_PORT_ARMED, HFI_PORT_ACTIVE };

/* One unit of the soft room, opened or not: what sysfs shows. */
struct hfi_unit_attr {
	char name[16];               /* "hfi1_0" */
	int unit;
	uint8_t ip[16];              /* the address it sends from */
	uint8_t gid[16];             /* fe80:: + guid, network order */
	uint16_t lid;
	enum hfi_port_state state;
	int numa_node;               /* -1: not known */
	uint32_t nctxts;             /* user contexts; <= HFI_CTXT_MAX */
	uint32_t credits;            /* PIO blocks of a send context */
	uint32_t rcvhdrq_cnt;        /* entries */
	uint32_t rcvegr_bytes;       /* eager buffers of a context, bytes */
	uint32_t sdma_ring_size;
	uint32_t mtu;                /* bytes */
	uint64_t speed_bps;
	uint16_t pkeys[HFI_PKEY_MAX]; /* the port's table */
	uint32_t pkey_cnt;
	bool pkey_check;             /* capability PKEY_CHECK; without it no P_Key can be set */
	/* [from, to) after hfi_open(): the port is down whatever @state says; 0,0: never */
	uint64_t down_ns[2];
	uint8_t sl2sc[HFI_SL_MAX], sc2vl[HFI_SL_MAX];
	uint16_t vendor_id, device_id;
	uint8_t revision;
	bool pci_always; /* tell the address also where the machine has no such device */
	uint16_t pci_domain;
	uint8_t pci_bus, pci_device, pci_function;
};

/**
 * hfi_unit_cnt() - Units in the soft room; 0 with one sentence in @err when the room is refused or the host cannot be
 * mapped. Not under a lock.
 */
int hfi_unit_cnt(char *err, size_t err_len);
/** hfi_unit_query() - Return: 0; -ENODEV. Not under a lock. */
int hfi_unit_query(int unit, struct hfi_unit_attr *out);
/** hfi_unit_free_ctxts() - nfreectxts: user contexts of @unit that nobody on this host holds now. System calls. */
int hfi_unit_free_ctxts(int unit);
/** hfi_jkey_of() - The driver's job key. Source: doc/facts/opx.md#job-key. */
uint16_t hfi_jkey_of(uint32_t uid, bool is_admin);

struct hfi_open_attr {
	int unit;
	struct lock *lock;
	bool no_shm;       /* peers on this host as if they were on another */
	bool no_thread;    /* tests */
	const struct link_world *world; /* tests */
};
/** hfi_open() - Not under the lock. Return: 0; -ENODEV no such unit (logged); -ENOMEM; -errno (logged). */
int hfi_open(const struct hfi_open_attr *attr, struct hfi **out);
/** hfi_close() - Its contexts must be closed. Not under the lock. NULL is fine. */
void hfi_close(struct hfi *hfi);
const struct hfi_unit_attr *hfi_attr(const struct hfi *hfi);
/** hfi_idle() - A poll found nothing: spin or yield. Not under the lock. */
void hfi_idle(struct hfi *hfi);
bool hfi_forked(const struct hfi *hfi);
/** hfi_fork_mark() - A byte that is 0 where hfi_forked() is true. NULL: there is none, ask hfi_forked(). */
const uint8_t *hfi_fork_mark(const struct hfi *hfi);
uint64_t hfi_now_ns(const struct hfi *hfi); /* monotonic, or its world's */
uint64_t hfi_random(struct hfi *hfi);       /* seeded by the room's seed in a world of its own, else by the system */
uint64_t hfi_dead_after_ns(const struct hfi *hfi); /* the room's dead_after */
uint64_t hfi_linger_ns(const struct hfi *hfi);     /* the room's linger */
/** hfi_port_is_up() - Does the port forward packets now (state ACTIVE, and not in the room's down= window)? */
bool hfi_port_is_up(const struct hfi *hfi);

/* --- packets ------------------------------------------------------------------------------------------------------ */

/*
 * The header of every packet, 64 bytes, or 56 if it has no w[1]: with the eight bytes that a lane of shared memory puts
 * in front of a frame that is one cache line, and payload begins with the next one. The adapter fills in, and checks on
 * arrival, what is marked A; everything else is the provider's. Source: doc/facts/opx.md#packet-header.
 */
struct hfi_hdr {
	le64_t key;        /* in the PBC's place: flow key of the pair, 0 while it has none */
	be16_t lrh_flags;  /* A: SC[15:12] SL[7:4] LNH 2 */
	be16_t dlid;       /* A */
	be16_t pktlen;     /* A: dwords with ICRC, without PBC: (header - 8 + payload + 3) / 4 + 1 */
	be16_t slid;       /* A */
	uint8_t opcode;    /* BTH */
	uint8_t bth1;      /* A: payload pad, bytes missing to the last dword, 0..3; HFI_BTH_CUT */
	be16_t pkey;       /* A */
	uint8_t ecn;
	uint8_t qp;        /* A: 0x80, the KDETH range */
	uint8_t aux;       /* opcode-specific byte */
	uint8_t dest_rx;   /* A: receive context that the packet is steered to */
	le32_t psn_tx;     /* PSN in bits 23:0; A: origin send context in bits 31:24 */
	/* offset[14:0] OM[15] TID[25:16] TIDCtrl[27:26]; A: KVer[31:30] = 1. No expected packet: 0 but KVer */
	le32_t kdeth;
	le16_t jkey;       /* A: the context's job key */
	le16_t hcrc;       /* A: 16 bits of a hash of the job's UUID */
	le32_t imm;        /* remote CQ data */
	le64_t tag;
	le64_t w[2];       /* protocol data */
};
static_assert(sizeof(struct hfi_hdr) == 64, "PBC and packet header");
#define HFI_WIRE_HDR 56u /* of it without the key: what a real wire carries */
#define HFI_HDR_CUT  56u /* without w[1] */
#define HFI_BTH_CUT  8u  /* bth1: it is; as much as is left out */
static_assert(HFI_HDR_CUT + HFI_BTH_CUT == sizeof(struct hfi_hdr), "hfi_hdr_len()");
#define HFI_PSN_MASK 0xffffffu

static inline uint32_t hfi_hdr_psn(const struct hfi_hdr *h) { return le32_get(h->psn_tx) & HFI_PSN_MASK; }
/** hfi_hdr_len() - Bytes that @h has on the wire; payload follows. */
static inline uint32_t hfi_hdr_len(const struct hfi_hdr *h) { return (uint32_t)sizeof(*h) - (h->bth1 & HFI_BTH_CUT); }
static inline uint8_t hfi_hdr_tx(const struct hfi_hdr *h) { return (uint8_t)(le32_get(h->psn_tx) >> 24); }

enum hfi_rcv_type { HFI_RCV_EXPECTED, HFI_RCV_EAGER };

/*
 * A received packet, checked: length, LIDs against the sender's address, P_Key, J_Key, UUID, context. Borrowed for the
 * call.
 */
struct hfi_pkt {
	/*
	 * Where an answer would go; hfi_dst_get() of it, or hfi_dst_hold(), keeps it. It goes with its last reference
	 * even during the call: hold it before you give back a reference and go on using it.
	 */
	struct hfi_dst *src;
	const struct hfi_hdr *hdr; /* copied out of the wire; of the adapter's a w[1] that is not there is 0 */
	struct view data;       /* payload */
	enum hfi_rcv_type type;
	bool is_service;        /* shown to on_service */
};

/* --- contexts ----------------------------------------------------------------------------------------------------- */

struct hfi_ctxt_attr {
	uint8_t uuid[16];      /* of the job */
	int ctxt;              /* this one; -1: any */
	unsigned first;        /* any: the search for a free one begins here, modulo their number */
	uint16_t pkey;
	uint8_t sl;
	bool selinux;          /* read the job key once more after the P_Key */
	/* 0: not shared; else join or found a context of that many with equal uuid, jkey, id and cnt */
	uint16_t subctxt_cnt;
	uint16_t subctxt_id;
	void (*on_pkt)(void *ctx, const struct hfi_pkt *pkt); /* in hfi_ctxt_poll() */
	/*
	 * The application is not polling: only what must not wait may be done. Return: taken; false: keep it, the
	 * context's next poll shows it to on_pkt.
	 */
	bool (*on_service)(void *ctx, const struct hfi_pkt *pkt);
	/*
	 * The process at @dst is gone (seen: closed, killed, or its port refuses): @status -ECONNREFUSED or -ETIMEDOUT.
	 * What was on its way is lost; whoever opens there next is another one. Comes after all that @dst has sent and,
	 * through shared memory, before anything of its successor: in hfi_ctxt_poll(), or from the adapter's thread if
	 * nothing of @dst waits. May be NULL. @status -ENOMEM, at any time: a packet of @dst that nobody sends again
	 * found no memory.
	 */
	void (*on_gone)(void *ctx, struct hfi_dst *dst, int status);
	/*
	 * A hfi_copy() has ended: 0; -EACCES key or range wrong at its owner; -ECONNREFUSED, -ETIMEDOUT, -ECANCELED.
	 * May be NULL.
	 */
	void (*on_copy)(void *ctx, void *cookie, int status);
	void *ctx;
};
/**
 * hfi_ctxt_open() - ASSIGN_CTXT, CTXT_INFO, USER_INFO, SET_PKEY and the SL -> SC -> VL look-up. Not under the lock.
 * Return: 0; -EBUSY no free context, or all sub-contexts of the group taken (logged: unit, contexts, who holds them,
 * the remedy); -ENETDOWN port not ACTIVE; -EINVAL subctxt_cnt > 8 or a management P_Key (0x7fff, 0xffff); -ENOENT P_Key
 * not in the port's table; -ENOMEM; -errno. Each logged with the reason.
 */
int hfi_ctxt_open(struct hfi *hfi, const struct hfi_ctxt_attr *attr, struct hfi_ctxt **out);
/**
 * hfi_ctxt_close() - nfreectxts goes up by one with the last sub-context. hfi_copy()s end with -ECANCELED. Drops and
 * retakes the lock.
 */
void hfi_ctxt_close(struct hfi_ctxt *c);

struct hfi_ctxt_info {
	uint16_t unit, ctxt, subctxt, send_ctxt;
	uint16_t lid, jkey, pkey;
	uint8_t sl, sc, vl;
	uint32_t credits;      /* PIO blocks */
	uint32_t rcvhdrq_cnt, rcvegr_bytes, sdma_ring_size;
	uint32_t mtu;          /* payload bytes; <= HFI_MTU */
	uint16_t tid_cnt;      /* expected-receive entries */
	int numa_node, rec_cpu;
};
const struct hfi_ctxt_info *hfi_ctxt_info(const struct hfi_ctxt *c);

/**
 * hfi_ctxt_poll() - Take packets off the wire and hand them to on_pkt, in this call only (besides the service thread).
 * Return: events, 0 = idle.
 */
int hfi_ctxt_poll(struct hfi_ctxt *c);
/** hfi_ctxt_calm() - After one that found nothing: as link_calm(). */
bool hfi_ctxt_calm(struct hfi_ctxt *c, struct calm *calm, uint32_t passed);
/** hfi_ctxt_is_polled() - Has somebody let go of the lock in the middle of that? */
bool hfi_ctxt_is_polled(const struct hfi_ctxt *c);
/**
 * hfi_ctxt_wait_fd() - Readable when hfi_ctxt_poll() may have work, after hfi_ctxt_arm(). -ENOTSUP in a world of its
 * own.
 */
int hfi_ctxt_wait_fd(struct hfi_ctxt *c);
/** hfi_ctxt_arm() - About to sleep. Return: 0; -EAGAIN there is work. */
int hfi_ctxt_arm(struct hfi_ctxt *c);
/** hfi_ctxt_is_armed() - As link_is_armed(). */
bool hfi_ctxt_is_armed(const struct hfi_ctxt *c);

/* --- destinations ------------------------------------------------------------------------------------------------- */

/**
 * hfi_dst_get() - Context @rx (of a shared one sub-context 0) of the port with @lid, as seen by @c; one reference.
 * Return: 0; -ENOMEM; -ENETUNREACH (logged); -EINVAL @lid or @rx out of range.
 */
int hfi_dst_get(struct hfi_ctxt *c, uint16_t lid, uint8_t rx, struct hfi_dst **out);
void hfi_dst_hold(struct hfi_dst *dst); /* one more reference, also to pkt->src beyond its call */
void hfi_dst_put(struct hfi_dst *dst);
uint16_t hfi_dst_lid(const struct hfi_dst *dst);
uint8_t hfi_dst_rx(const struct hfi_dst *dst);
/* The provider's pointer; NULL at first. Whoever sets one holds a reference. */
void *hfi_dst_user(const struct hfi_dst *dst);
void hfi_dst_set_user(struct hfi_dst *dst, void *user);
/**
 * hfi_dst_is_local() - Does shared memory carry its packets, i.e. is nothing lost? Chosen when the first packet is sent
 * or has come.
 */
bool hfi_dst_is_local(const struct hfi_dst *dst);
/** hfi_dst_source() - link_peer_source() of its peer. */
struct quota_source *hfi_dst_source(const struct hfi_dst *dst);
/**
 * hfi_dst_admits() - Is it certain that the context admits our packets, being of the same job, job key and P_Key? Only
 * of one on this host can it be, after hfi_dst_connect(); false: it may.
 */
bool hfi_dst_admits(const struct hfi_dst *dst);
/** hfi_dst_is_host() - Is its LID one of this host's? */
bool hfi_dst_is_host(const struct hfi_dst *dst);
/**
 * hfi_dst_connect() - Choose the path now, sending nothing, for whoever is there now. Once hfi_dst_is_local() is true
 * it is final until on_gone; it becomes true, too, when a packet comes through shared memory. on_gone may be called, of
 * who was there before. Return: 0; -EAGAIN its end is still to be told: after the next hfi_ctxt_poll(); -ECONNREFUSED
 * nobody there.
 */
int hfi_dst_connect(struct hfi_dst *dst);
/** hfi_dst_hdr() - A header with everything that the adapter marks A and that does not change from packet to packet. */
void hfi_dst_hdr(const struct hfi_dst *dst, struct hfi_hdr *out);

/* --- sending ------------------------------------------------------------------------------------------------------ */

/**
 * hfi_pio_begin() - Where to write a packet with @len bytes of payload, which follow the @head bytes of its header:
 * where its receiver reads it.
 * @head: sizeof(struct hfi_hdr), or HFI_HDR_CUT. @len: <= mtu.
 * Return: NULL: not to this one, or not now, hfi_pio_full() knows more; else to be filled in, from hfi_dst_hdr() on,
 * and given off by hfi_pio_commit(), which sets pktlen and bth1, before anything else is done with @c.
 */
struct hfi_hdr *hfi_pio_begin(struct hfi_ctxt *c, struct hfi_dst *dst, size_t head, size_t len);
/**
 * hfi_pio_full() - hfi_pio_begin() has given nothing for a packet to @dst. Are there no credits for it, either, as
 * hfi_pio_send() would find out (and count) after its bytes have been copied for it? False: only that can tell.
 */
bool hfi_pio_full(struct hfi_ctxt *c, const struct hfi_dst *dst);
void hfi_pio_commit(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, size_t head, size_t len);
/**
 * hfi_pio_send() - One packet that lies elsewhere: @hdr (from hfi_dst_hdr(); pktlen and bth1 are set here, but for
 * HFI_BTH_CUT, which says how much of it there is), then @iov. The bytes may be reused at once.
 * @iov_cnt: <= HFI_IOV_MAX; payload <= mtu.
 * Return: 0; -EAGAIN no credits, nothing happened; -EMSGSIZE; -ENETDOWN the port is down; -ECONNREFUSED, -EHOSTUNREACH,
 * -ENETUNREACH nobody can be reached there.
 */
int hfi_pio_send(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr, const struct iovec *iov, int iov_cnt);
/**
 * hfi_pio_send_late() - The same of a packet without payload that nobody waits for: it leaves with the next one, or
 * some microseconds later, and needs no doorbell.
 */
int hfi_pio_send_late(struct hfi_ctxt *c, struct hfi_dst *dst, struct hfi_hdr *hdr);
/** hfi_doorbell() - Push out what was held back; once per batch. */
void hfi_doorbell(struct hfi_ctxt *c);

/* A page-range of a receive buffer that the adapter may write: TID_UPDATE. */
struct hfi_tid {
	uint16_t idx;     /* 0 .. tid_cnt - 1: KDETH TID */
	/*
	 * the same for all entries of one update; the provider's packets bring it back, so that a late one finds
	 * nothing
	 */
	uint16_t gen;
	uint32_t len;     /* bytes; <= HFI_TID_BYTES */
};
#define HFI_TID_BYTES (2u << 20) /* 512 pages of 4 KiB */
#define HFI_TID_CNT   1024

/**
 * hfi_tid_update() - Program expected receive for [@addr, +@len).
 * @list: out, in order of address; each covers HFI_TID_BYTES but the last. Return: entries; -ENOSPC not enough free,
 * none taken.
 */
int hfi_tid_update(struct hfi_ctxt *c, void *addr, size_t len, struct hfi_tid *list, int max);
void hfi_tid_free(struct hfi_ctxt *c, const struct hfi_tid *list, int cnt);
/**
 * hfi_tid_hdr() - Make @hdr an expected packet for byte @off of @tid. OM selects units of 4 or 64 bytes.
 * Return: 0; -EINVAL @off not representable: not a multiple of 4, or of 64 beyond 128 KiB.
 */
int hfi_tid_hdr(struct hfi_hdr *hdr, const struct hfi_tid *tid, uint32_t off);
/** hfi_hdr_tid() - The entry that the header of an expected packet names. */
uint16_t hfi_hdr_tid(const struct hfi_hdr *hdr);
/**
 * hfi_tid_place() - Write an expected packet's payload where its TID says; @gen as the provider's packet says. Return:
 * bytes; -ENOENT no such TID now; -ERANGE.
 */
int hfi_tid_place(struct hfi_ctxt *c, const struct hfi_pkt *pkt, uint16_t gen);

/*
 * SDMA: the adapter cuts @iov into packets of @fragsize and sends them as the wire has room; memory unchanged until
 * COMPLETE.
 */
struct hfi_sdma_req {
	struct hfi_dst *dst;
	/* template; automatic header generation: PSN + 1 and w[0] + fragsize for each packet after the first */
	struct hfi_hdr hdr;
	const struct iovec *iov;
	int iov_cnt;               /* <= HFI_IOV_MAX */
	uint32_t npkts;            /* <= HFI_SDMA_PKTS */
	uint32_t fragsize;         /* bytes, a multiple of 64, <= mtu */
	uint8_t last_ecn;          /* bits that only the last packet has in ecn */
	uint16_t comp_idx;         /* slot of the completion ring; must be FREE */
	const struct hfi_tid *tids; /* expected: entries from the one that holds byte tid_off on; NULL: eager */
	int tid_cnt;
	uint32_t tid_off;          /* of the first packet in tids[0] */
};
#define HFI_SDMA_PKTS 32
enum hfi_sdma_status { HFI_SDMA_FREE, HFI_SDMA_QUEUED, HFI_SDMA_COMPLETE, HFI_SDMA_ERROR };
/** hfi_sdma_post() - Return: 0; -EINVAL a limit or a slot in use; -EBUSY the ring is full; else as hfi_pio_send(). */
int hfi_sdma_post(struct hfi_ctxt *c, const struct hfi_sdma_req *req);
/** hfi_sdma_status() - Of completion slot @idx; @err: -errno with ERROR. */
enum hfi_sdma_status hfi_sdma_status(const struct hfi_ctxt *c, uint16_t idx, int *err);
/** hfi_sdma_free() - The slot's completion was read. */
void hfi_sdma_free(struct hfi_ctxt *c, uint16_t idx);

/* --- this host's own: copies between processes (not the adapter's; lossless local peers only) --------------------- */

enum { HFI_COPY_GET = 1, HFI_COPY_PUT = 2 }; /* rights, and the two operations */
/** hfi_expose() - Let local peers read and/or write [@addr, +@len). @key: out, never 0. Return: 0; -ENOMEM; -ENOSPC. */
int hfi_expose(struct hfi_ctxt *c, void *addr, size_t len, unsigned rights, uint32_t *key);
/** hfi_conceal() - On return nobody touches the memory. */
void hfi_conceal(struct hfi_ctxt *c, uint32_t key);
/**
 * hfi_copy() - Copy @len bytes between @local and [@raddr, +@len) of the peer's exposed @key; on_copy ends it exactly
 * once if 0 is returned.
 * Return: 0; -EAGAIN; -EOPNOTSUPP not a local peer.
 */
int hfi_copy(struct hfi_dst *dst, int op, void *local, size_t len, uint64_t raddr, uint32_t key, void *cookie);
/**
 * hfi_copy_stop() - End the hfi_copy()s of @c with @cookie; on_copy comes as ever. Return: they touch nothing any more;
 * false: ask again, without the lock in between.
 */
bool hfi_copy_stop(struct hfi_ctxt *c, const void *cookie);

/* --- statistics --------------------------------------------------------------------------------------------------- */

enum hfi_drop {
	HFI_DROP_SHORT, HFI_DROP_LENGTH, HFI_DROP_LNH, HFI_DROP_DLID, HFI_DROP_SLID, HFI_DROP_PKEY, HFI_DROP_JKEY,
	HFI_DROP_UUID, HFI_DROP_CTXT, HFI_DROP_KVER, HFI_DROP_RCVHDRQ_FULL, HFI_DROP_EGR_FULL, HFI_DROP_PORT_DOWN,
	HFI_DROP_NUM
};
extern const char *const hfi_drop_name[HFI_DROP_NUM];
/* Monotonic; packets unless named bytes. Readable without a debug build. */
struct hfi_stats {
	uint64_t pio_pkts, pio_bytes, sdma_reqs, sdma_pkts, sdma_bytes, exp_pkts_tx; /* bytes: payload */
	uint64_t rcv_eager, rcv_expected, rcv_bytes, rcv_parked;
	uint64_t tid_updates, tid_stale;
	uint64_t credit_waits;          /* PIO found no credits */
	uint64_t copy_get_bytes, copy_put_bytes;
	/* bytes of packets, HFI_WIRE_HDR for each header, as a real wire has them */
	uint64_t port_xmit_data, port_rcv_data;
	uint64_t drop[HFI_DROP_NUM];
	struct nic_net_stats net;
};
void hfi_ctxt_query_stats(const struct hfi_ctxt *c, struct hfi_stats *out);
/** hfi_query_stats() - Sum over the unit's contexts in this process, closed ones included. */
void hfi_query_stats(const struct hfi *hfi, struct hfi_stats *out);
/* Their names, one row for each. */
extern const struct stats_row hfi_stat_row[sizeof(struct hfi_stats) / sizeof(uint64_t)];

#endif
