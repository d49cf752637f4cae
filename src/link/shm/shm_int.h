// SPDX-License-Identifier: BSD-2-Clause
// What the files of the same-host path share: layout of a segment, and the objects of one port.
#ifndef SF_LINK_SHM_INT_H
#define SF_LINK_SHM_INT_H

#include <sys/queue.h>
#include <sys/stat.h>

#include "base/bits.h"
#include "base/lane.h"
#include "base/stage.h"
#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * Every port owns one file in /dev/shm, its *segment*, and is reached by what others write there:
 *
 *   0        header (identity, state, doorbell words), then the shared lanes
 *   32 KiB   who has declared the owner dead, see shm_gone.c
 *   64 KiB   lane descriptors, 64 B each
 *   128 KiB  refusal codes for the owner as a sender through shared lanes
 *   192 KiB  lanes, one stride each
 *   ...      staging: the owner's own payload memory; frames in a peer's lane point into it
 *
 * The file has its full length from the beginning, but only what posix_fallocate() has granted is
 * ever touched, so that a full /dev/shm is an error code and never a SIGBUS.
 *
 * A sender claims a descriptor in the receiver's segment (CAS), makes the lane, names itself and
 * announces it. One producer, one consumer, no lock: see base/lane.h. Where no lane is to be had,
 * frames go through a shared lane of the receiver: the same format, its producers take turns under a
 * lock word, and each frame begins with the sender's address. A sender changes from one lane to
 * another only when all that it sent before has been consumed, so its order is kept.
 *
 * Whoever holds the lock of a shared lane may be stopped there, and nobody else may write where it
 * may go on writing. Hence there are several: one who has waited LOCK_STUCK_NS for a lock whose
 * holder lives goes to the next lane. Only the first is used until that happens, and only that
 * is looked at in each poll. With all of them held by who stands still, a sender waits for
 * dead_after, then its peer counts as dead.
 *
 * A frame of up to SHM_INLINE_MAX bytes lies in the lane; of a longer one the lane carries
 * {granule, length} of a run in the sender's staging arena.
 *
 * Completion: a frame has ended when the receiver's published head has passed it. A refusal is one
 * byte, the code, that the receiver writes before it publishes the head: whoever sees the head
 * (acquire) also sees the code. The sender numbers the frames it waits for 0..255, names that
 * number in the frame, and uses it again only when it has read the code. The codes lie beside the
 * lane, or, for a shared lane, 64 of them in the sender's segment. Nothing travels back, so nothing
 * can be full. (A record in the reverse lane was the first plan: two full lanes of refused frames
 * deadlock there.) The bytes of a kept frame lie nowhere but in its slots, so slots of our
 * own lane are written again only when what was in them has ended; what the receiver may clear in
 * them is remembered. The head itself is read rarely, because reading takes the line away from the
 * receiver: frames of the other direction carry the low bits of it.
 *
 * Memory has one writer, whoever is declared dead: what a living process may still touch is not given
 * to another one. See shm_gone.c.
 *
 * Trust: a segment belongs to a process of our uid, which could ptrace us anyway; it could also
 * truncate its file under us. Against everything else that it may write (positions, lengths,
 * granules, counts) we check before use, once, on a private copy.
 */

#define SHM_MAGIC    0x6d68732d74666f73ull /* "soft-shm" in a little-endian dump */
#define SHM_VERSION  8u
#define SHM_DIR	     "/dev/shm"
#define SHM_NAME_MAX 128
#define SHM_WAKE_MAX (SHM_NAME_MAX + 16) /* the doorbell's */

#define SHM_LANE_CNT	1024u
#define SHM_SLOTS_BIG	256u
#define SHM_SLOTS_SMALL 64u
#define SHM_PEND_CNT	256u /* frames of one peer that are waited for; one refusal code each */
#define SHM_BLOCK_CODES 64u  /* the same through a shared lane */
/* A lane in shared memory: base/lane.h's, then the codes. */
#define SHM_LANE_BYTES(slots_) (sizeof(struct lane_shm) + (size_t)(slots_)*LANE_SLOT + SHM_PEND_CNT)
#define SHM_LANE_STRIDE	       ALIGN_UP(SHM_LANE_BYTES(SHM_SLOTS_BIG), (size_t)4096)

#define SHM_SHARED_OFF	    1024u
#define SHM_SHARED_CNT	    4u /* those after the first are small */
#define SHM_TOLD_OFF	    32768u
#define SHM_TOLD_CNT	    256u /* peers that have declared us dead since we last looked */
#define SHM_DESC_OFF	    65536u
#define SHM_CODES_OFF	    131072u
#define SHM_BLOCK_CNT	    1024u /* of codes: peers that we send to through their shared lanes */
#define SHM_LANE_OFF	    (SHM_CODES_OFF + SHM_BLOCK_CNT * SHM_BLOCK_CODES)
#define SHM_STAGE_OFF	    (SHM_LANE_OFF + SHM_LANE_CNT * SHM_LANE_STRIDE)
#define SHM_STAGE_GRANS_MAX 4096u /* 4 MiB */
#define SHM_STAGE_GRANS_MIN 64u	  /* allocated with the segment: three of the longest frames */
#define SHM_FILE_LEN	    (SHM_STAGE_OFF + SHM_STAGE_GRANS_MAX * STAGE_GRAN)

/*
 * Bytes of a frame that lie in the lane itself: four lines. A short ring is written again while its lines still sit in
 * the reader's cache, the staging arena is not (doc/measurements.md#the-staging-arena).
 */
#define SHM_INLINE_MAX 248u
#define SHM_LEN_MAX  65535u /* bytes; frames and datagrams */
#define SHM_LOOK_STREAM 64u /* outstanding frames of one peer: look for their ends also while busy */
#define SHM_SWEEP_MAX  8u /* lanes that every poll looks at; more: by bitmap */

/* Bits of shm_hdr.state. */
#define SHM_ST_SLEEPING 1u  /* ring the doorbell; whoever clears the bit rings */
#define SHM_ST_CLOSED	2u  /* the owner has left */
#define SHM_ST_BITMAP	4u  /* many lanes: mark yours in @active after writing to it */
#define SHM_ST_BROKEN	8u  /* the shared lane is unusable: a producer wrote nonsense */
#define SHM_ST_ACKS	16u /* with SLEEPING: also ring when frames of ours have been consumed */
#define SHM_ST_LEFT	32u /* with CLOSED: and touches nobody's memory any more */

/* Bits of shm_hdr.told. */
#define SHM_TOLD_SOME 1u
#define SHM_TOLD_ALL  2u /* the list was full */
#define SHM_TOLD_LANES 4u /* a lane of the owner's was revoked */

/* Bits of shm_hdr.flags. */
#define SHM_F_LOSSLESS 1u /* frames may come straight through lanes */
#define SHM_F_FENCE    2u /* owner has no membarrier(2): senders fence before they look at @state */

/* A process as others can find out whether it still exists. */
struct shm_proc {
	int32_t pid;	/* 0: nobody knows */
	uint32_t ns;	/* in which namespaces @pid and @start mean something */
	uint32_t start; /* as /proc/PID/stat has it, its low bits */
	uint32_t image; /* changes with exec(); 0: nobody knows */
};

/* What the producers of a shared lane have in common. */
struct shm_shared {
	_Alignas(CACHE_LINE) _Atomic uint64_t lock; /* 0, or shm_holder() of who writes */
	_Atomic uint32_t pos;			    /* under @lock: next record */
	_Atomic uint32_t resv;			    /* under @lock: as lane_tx.resv */
};

/* Bytes 0..SHM_SHARED_OFF of a segment. Written by the owner only, unless said otherwise. */
struct shm_hdr {
	_Atomic uint64_t magic; /* last: all else is valid */
	uint32_t version;
	uint32_t uid;
	int32_t pid; /* in the owner's pid namespace */
	uint32_t flags;
	uint64_t node_id;
	uint64_t netns;	    /* inode */
	uint64_t self_addr; /* where the owner has mapped this header, for process_vm_readv() */
	uint64_t file_len;
	struct link_addr addr;
	uint32_t shared_slots;
	uint32_t wake; /* random: part of the doorbell's name, and tells it from others at this address */
	_Atomic uint64_t label; /* link_port_set_label(); 0: none yet */
	struct shm_proc proc;
	_Atomic uint32_t serves; /* link_port.serves: which regions its peers may use */
	/*
	 * Limit on descriptors that the owner needs to look at the segment of another peer; 0: not said yet; negative:
	 * it may have no address space or descriptor for one.
	 */
	_Atomic int32_t room;
	_Atomic int32_t nudge; /* number of the eventfd that the owner's adapter thread sleeps on, plus 1; 0: none */

	/* Read by senders at every frame, hence alone on its line and rarely written. */
	_Alignas(CACHE_LINE) _Atomic uint32_t state;
	_Alignas(CACHE_LINE) _Atomic uint32_t epoch; /* moves while the owner polls */
	_Atomic uint32_t stage_grans;		     /* size of the owner's arena; 0 = none yet */
	union {
		struct {
			_Alignas(CACHE_LINE) _Atomic uint32_t lane_gen; /* by senders: a descriptor has changed */
			_Atomic uint32_t lane_hwm;			/* by senders: descriptors ever used */
		};
		_Atomic uint64_t lanes; /* both */
	};
	_Atomic uint32_t lanes_wanted;			/* by senders: one found no lane */
	_Atomic uint32_t shared_top;			/* by senders: shared lanes after the first ever used */
	_Atomic uint32_t told;				/* by peers: SHM_TOLD_*, look at the list */
	struct shm_shared shared[SHM_SHARED_CNT];	/* by senders */
	_Alignas(CACHE_LINE) _Atomic uint64_t active[SHM_LANE_CNT / 64]; /* set by senders */
};
static_assert(sizeof(struct shm_hdr) <= SHM_SHARED_OFF, "header runs into the shared lane");

/*
 * Life: FREE -> CLAIMED -> ACTIVE -> CLOSING by the sender, -> FREE by the segment's owner. An owner that declares the
 * sender dead makes REVOKED of ACTIVE; CLOSING is then the sender's answer that it writes no more. UNSEEN: the same by
 * an owner that has not got the sender's segment mapped, for want of memory or the like, and never read the lane.
 */
enum shm_desc_state { SHM_D_FREE, SHM_D_CLAIMED, SHM_D_ACTIVE, SHM_D_CLOSING, SHM_D_REVOKED, SHM_D_UNSEEN };

struct shm_desc {
	_Atomic uint32_t state;
	uint32_t slot_cnt;
	uint32_t color;	    /* 1..SHM_COLOR_NUM: acknowledgements of this lane carry it */
	uint32_t is_second; /* the sender has an older lane from the same address here */
	struct link_addr src;
	struct shm_proc proc;  /* of the sender */
	_Atomic uint32_t turn; /* by the owner: senders that had the lane and have it no more */
	uint32_t life;	       /* hdr.wake of the sender's segment, in which its frames lie */
};
static_assert(sizeof(struct shm_desc) == CACHE_LINE, "one writer per line");
static_assert(SHM_SHARED_OFF + SHM_LANE_BYTES(SHM_SLOTS_BIG) + (SHM_SHARED_CNT - 1) * SHM_LANE_BYTES(SHM_SLOTS_SMALL) <=
	      SHM_TOLD_OFF, "layout");
static_assert(SHM_TOLD_OFF + SHM_TOLD_CNT * sizeof(uint64_t) <= SHM_DESC_OFF, "layout");
static_assert(SHM_DESC_OFF + SHM_LANE_CNT * sizeof(struct shm_desc) <= SHM_CODES_OFF, "layout");

/* lane_commit()'s user40. */
#define SHM_U_ACK     GENMASK(11, 0)  /* low bits: how far the sender took the reverse lane ... */
#define SHM_U_COLOR   GENMASK(14, 12) /* ... of this color; 0 = no acknowledgement */
#define SHM_U_LEN     GENMASK(27, 15) /* bytes of an inline frame */
#define SHM_U_CODE    GENMASK(35, 28) /* where the sender will look for a refusal code ... */
#define SHM_U_WANT    BIT(36)	      /* ... if it will */
#define SHM_U_FMT     GENMASK(39, 37)
#define SHM_U_LEN_SHIFT  15
#define SHM_U_CODE_SHIFT 28
#define SHM_U_FMT_SHIFT  37
#define SHM_COLOR_NUM 7u
static_assert(SHM_U_ACK >= 2 * SHM_SLOTS_BIG,
	      "positions in flight must be distinct in their low bits");
static_assert(LINK_OWN_MAX + LANE_WORD0 <= (LINK_OWN_MAX / LANE_SLOT + 1) * LANE_SLOT, "struct shm_pend.word");
static_assert(LINK_OWN_MAX <= SHM_INLINE_MAX && LINK_OWN_MAX <= UINT8_MAX, "struct shm_pend");
static_assert(SHM_STAGE_GRANS_MIN * STAGE_GRAN >= LINK_FRAME_MAX, "every frame fits");
static_assert(LANE_MSG_MAX <= SHM_U_LEN >> 15, "a length fits");
static_assert(SHM_PEND_CNT == 256, "SHM_U_CODE");
static_assert(SHM_PEND_CNT >= SHM_SLOTS_BIG, "each slot of a lane may hold a frame to remember");

/* A refusal by who has declared the sender dead and takes none of its frames. Greater than what an owner can say. */
#define SHM_CODE_GONE 255u
static_assert(LINK_NAK_MAX < SHM_CODE_GONE, "codes");

/* What a message in a shared lane begins with. */
struct shm_from {
	struct link_addr src;
	uint32_t block; /* of codes, in the segment of @src */
	uint32_t life;	/* as in shm_desc */
};
static_assert(sizeof(struct shm_from) == 32, "wire");

enum shm_fmt {
	SHM_FMT_NIC = 1,
	SHM_FMT_NIC_STAGED,
	SHM_FMT_BULK,
	SHM_FMT_BULK_STAGED,
	SHM_FMT_DGRAM,
	SHM_FMT_DGRAM_STAGED,
	SHM_FMT_NUM
};

/* What the lane carries of a staged frame. Checked by stage_rx_ptr() after it has been copied. */
struct shm_staged {
	uint32_t gran;
	uint32_t len;
};

/* --- shm_seg.c: files --- */

/* A mapped segment. Locking: the registry's mutex for refs and list, else the user's node lock. */
struct shm_seg {
	uint8_t *base;
	struct shm_hdr *hdr;   /* == base */
	struct link_addr addr; /* of the owner, with the nonce of this incarnation */
	char path[SHM_NAME_MAX];
	dev_t dev;
	ino_t ino;
	int fd;		 /* ours: holds the liveness lock. A peer's: -1 */
	pid_t owner_pid; /* ours: the process that made it. A peer's: 0 */
	pid_t peer_pid;	 /* as the header said when we attached */
	uint64_t peer_node, peer_self_addr;
	uint32_t peer_flags, shared_slots;
	uint32_t wake; /* as in the header */
	struct shm_proc proc; /* as the header said */
	uint32_t refs;
	struct shm_seg *next; /* registry of our own ones */
};

struct shm_seg_attr {
	struct link_addr addr;
	uint64_t node_id;
	uint32_t flags;	 /* SHM_F_* */
	uint32_t serves; /* at first */
	uint64_t budget; /* room->shm_budget */
};

/**
 * shm_seg_create() - Make our segment, after stale ones of this uid have been reaped.
 * Return: 0; -EADDRINUSE a live process has it; -ENOSPC; -ENOMEM; -errno (logged).
 */
int shm_seg_create(const struct shm_seg_attr *a, struct shm_seg **out);
/** shm_seg_attach() - Map the segment of @addr (nonce 0 = any). Return: 0; -ENOENT; -ENOMEM; -errno. */
int shm_seg_attach(const struct link_addr *addr, uint32_t flags, struct shm_seg **out);
/** shm_seg_tell_room() - Fills the reserve (base/reserve.h), and tells peers by our segments whether another one of
 * them may be mapped. */
void shm_seg_tell_room(void);
/** shm_seg_make_fifo() - A FIFO at @path, which goes with @seg's name. Return: 0; -ESHUTDOWN that has gone; -errno. */
int shm_seg_make_fifo(const struct shm_seg *seg, const char *path);
/**
 * shm_seg_hide() - Ours: its name goes, so that who takes the address next can have one of that name; the rest stays
 * until shm_seg_remove().
 */
void shm_seg_hide(struct shm_seg *seg);
/** shm_seg_remove() - Ours: remove the files and release the liveness lock; nothing in a forked child. */
void shm_seg_remove(struct shm_seg *seg);
/** shm_seg_get() - One more reference. */
struct shm_seg *shm_seg_get(struct shm_seg *seg);
/** shm_seg_put() - Drop a reference; the last one unmaps. NULL is fine. */
void shm_seg_put(struct shm_seg *seg);
/** shm_seg_is_alive() - Does the owner of this very incarnation still run? If in doubt: no. System calls. */
bool shm_seg_is_alive(const struct shm_seg *seg);
/** shm_seg_is_gone() - Can its owner touch nothing any more, whatever happens? If in doubt: no. System calls. */
bool shm_seg_is_gone(const struct shm_seg *seg);
/** shm_seg_reserve() - Make [@off, +@len) safe to touch. Return: 0; -ENOSPC; -ENOENT the file is gone; -errno. */
int shm_seg_reserve(const struct shm_seg *seg, size_t off, size_t len);
/** shm_seg_punch() - Give the memory of [@off, +@len) of our own segment back. */
void shm_seg_punch(const struct shm_seg *seg, size_t off, size_t len);
/**
 * shm_spare_fill() - A descriptor in reserve, if @is_wanted from now on until shm_spare_drop(). Return: the
 * limit on descriptors that lets it be opened again once it is closed; -EMFILE there is none.
 */
int shm_spare_fill(bool is_wanted);
void shm_spare_drop(void);
/** shm_spare_look() - Is the limit too low by now for it to be opened again? */
void shm_spare_look(void);
/**
 * shm_fd_open() - open() of a file that is closed soon, by shm_fd_close(): without a free descriptor the one in reserve
 * is taken, *@is_spare then. Never waits, follows no link.
 */
int shm_fd_open(const char *path, int flags, bool *is_spare);
void shm_fd_close(int fd);
/** shm_fd_is_mapped() - Has this process mapped a segment that is file @ino? */
bool shm_fd_is_mapped(ino_t ino);
/** shm_fd_is_kept() - Is the file at @path one of those of shm_fd_keep(), which must not be opened? */
bool shm_fd_is_kept(const char *path);
/** shm_fd_keep() - Do not close @fd, of a file of another copy of this code in our process, before that removes it. */
void shm_fd_keep(int fd, const struct stat *st);
/** shm_holder() - Of a shared lane's lock: this life of a port, which has @seg. Never 0. */
uint64_t shm_holder(const struct shm_seg *seg);
/** shm_seg_find_holder() - May it live? If in doubt: yes. System calls. */
bool shm_seg_find_holder(uint64_t holder);
/** shm_tag() - Short name of a port, never 0; two ports may share one. */
uint32_t shm_tag(const uint8_t ip[16], uint16_t port);

/* --- shm_dir.c: names and files --- */

/** shm_netns_id() - Segments of another network namespace are none of ours. */
uint64_t shm_netns_id(void);
/** shm_seg_path() - Name of the segment of a port. */
void shm_seg_path(const struct link_addr *addr, char out[SHM_NAME_MAX]);
/** shm_wake_path() - Name of the doorbell of the segment at @path. */
void shm_wake_path(const char *path, uint32_t wake, char out[SHM_WAKE_MAX]);
enum shm_dir { SHM_DIR_ALL, SHM_DIR_STOPPED, SHM_DIR_UNSEEN };
/**
 * shm_dir_each() - Calls @fn for up to @max segments (@type S_IFREG) or doorbells (S_IFIFO) of our uid until it returns
 * true. Return: STOPPED: it did; ALL: there are no more; UNSEEN: not all could be looked at.
 */
enum shm_dir shm_dir_each(mode_t type, bool any_netns, unsigned max,
			  bool (*fn)(const char *path, const char *name, const struct stat *st, void *arg), void *arg);

/* What /dev/shm may still give to this uid. */
struct shm_space {
	uint64_t total; /* bytes: budget */
	uint64_t used;	/* bytes: of all softfabric files of this uid; where there is plenty, of all files */
};
struct shm_space shm_space_get(uint64_t budget);
/** shm_space_left() - Shrinks as others take theirs: the first ones get large pieces, and everybody gets some. */
uint64_t shm_space_left(const struct shm_space *sp);
uint32_t shm_space_lane_slots(const struct shm_space *sp);  /* 0: none */
uint32_t shm_space_stage_grans(const struct shm_space *sp); /* >= SHM_STAGE_GRANS_MIN */

/* --- shm_wake.c: doorbell --- */

/** shm_wake_has_membarrier() - Registers this process; false: use fences. */
bool shm_wake_has_membarrier(void);
/** shm_wake_open_rx() - The owner's end of the FIFO. Return: fd; -errno (logged). */
int shm_wake_open_rx(const struct shm_seg *seg);
/** shm_ring() - The peer's state word is not 0: do what it asks for. */
void shm_ring(struct shm_peer *sp, uint32_t state);
/** shm_ring_acked() - Frames of @sp were consumed: wake it if it sleeps until they are. */
void shm_ring_acked(struct shm_peer *sp);
/** shm_ring_shared() - The same for all whose frames came through the shared lane. */
void shm_ring_shared(struct shm_port *s);

/* --- objects of a port --- */

#define SHM_NO_GRAN UINT32_MAX

/* A frame that has not been acknowledged and that we must remember. */
struct shm_pend {
	uint32_t pos;	/* of its first slot in the lane */
	uint32_t gran;	/* staged run; SHM_NO_GRAN: none */
	uint16_t grans; /* length of the run */
	uint8_t kind;	/* enum link_kind, or SHM_K_OWN */
	uint8_t kept;	/* bytes of a frame of shm_commit(), which its slots keep; 0: any other */
	union {
		void *cookie;	/* NULL: nobody waits, only the run or the slots are ours to remember */
		uint64_t owner_tag; /* kept */
	};
	/*
	 * kept: what its second and further slots begin with, which the receiver may have to clear (lane_scrub());
	 * SHM_K_OWN: the frame's length and tag
	 */
	uint64_t word[LINK_OWN_MAX / LANE_SLOT];
};
/*
 * No kind of a frame or datagram: a staged frame of shm_commit(). Nobody has its bytes but its run, for
 * link_ops.on_lost.
 */
#define SHM_K_OWN LINK_K_NUM
#define SHM_NO_BLOCK UINT32_MAX

enum shm_tx_mode { SHM_TX_NONE, SHM_TX_OWN, SHM_TX_SHARED };

/* A lane that a peer writes and we read. */
struct shm_rx {
	struct lane_rx lane;
	_Atomic uint8_t *codes; /* [SHM_PEND_CNT] */
	struct shm_peer *sp;	/* who writes; NULL: in shm_port.limbo */
	uint32_t idx;		/* of its descriptor */
	uint32_t color;		/* of the lane, in place for the header of a frame */
	uint32_t said;		/* SHM_U_COLOR and SHM_U_ACK of its last frame */
	STAILQ_ENTRY(shm_rx) entry; /* limbo: */
	struct shm_seg *seg;	/* of the writer, referenced; NULL: not known */
	struct shm_proc proc;	/* without @seg */
	bool is_closing;  /* the sender gives it back once it is empty */
	bool is_gone;	  /* do not look at it any more; freed at the end of the pass */
	bool is_wake_due; /* consumed frames; tell a sleeping sender at the next idle pass */
};

/* A peer port on this host. Made by shm_peer_attach(), or by a lane that it opened here. */
struct shm_peer {
	struct shm_port *s;
	struct link_peer
		*peer; /* that holds us in peer->shm; NULL: none, or its frames are datagrams */
	struct link_addr link_addr; /* as the one who attached us calls this peer */
	struct shm_seg *seg;
	_Atomic uint32_t *state; /* of @seg: each frame asks */
	struct link_addr addr; /* with the nonce of this incarnation */
	struct shm_peer *hnext, *all_next, *all_prev;
	/* out */
	enum shm_tx_mode tx_mode;
	struct lane_tx
		tx; /* SHARED: valid while we hold the lock; pos is the end of our last frame */
	uint32_t shared_idx;	/* which of the peer's shared lanes */
	uint32_t shared_end;	/* tx.pos before the lock was taken */
	_Atomic uint8_t *codes; /* [code_mask + 1], where refusals of our frames are written */
	uint32_t code_mask;
	uint32_t block; /* of our segment's codes, for the shared lane; SHM_NO_BLOCK: none yet */
	uint32_t lane_idx, color;
	uint32_t lane_turn; /* of the descriptor while it is ours */
	uint32_t acked;		/* slots of the current lane known to be consumed */
	uint32_t look_pos;	/* tx.pos when we last looked at the head */
	bool has_fence;		/* a full fence before looking at the peer's state */
	bool is_second;		/* see shm_desc */
	int doom;		/* -errno: found dead, the next poll says so */
	bool is_switching;	/* sends wait until the shared lane holds none of ours */
	uint64_t lane_retry_ns; /* no lane: ask again then */
	struct shm_pend *pend;	/* [SHM_PEND_CNT] ring */
	uint32_t begun_gran;	/* the run that shm_begin() gave out last, not sent yet; SHM_NO_GRAN: none */
	uint32_t pend_head, pend_tail;
	uint32_t staged_grans; /* in unacknowledged frames */
	struct shm_peer *busy_next;
	bool is_busy;	    /* on s->busy */
	bool is_zombie;	    /* freed at the end of the pass */
	bool is_attached;   /* somebody above holds a pointer until shm_peer_detach() */
	bool was_told;	    /* it has declared us dead */
	bool has_told;	    /* we have told it so */
	bool is_void;	    /* dead, but its holder does not care: takes frames, moves none */
	bool is_detaching;  /* frames end because of us: accept no new ones */
	bool is_unseen;	    /* it cannot have our segment mapped: the network takes over */
	bool is_lock_stuck; /* the last try to get the shared lane's lock failed */
	bool was_shut;	    /* one did since the last tick */
	bool is_moving;	    /* to another shared lane, as soon as the last one has none of our frames */
	bool is_blocked;    /* frames are held back: its process may still touch what we lent it in an earlier life */
	uint32_t doom_wait; /* passes that the doom has waited for its last frames to be taken */
	int wake_fd;
	/* in */
	struct shm_rx *rx; /* its lane that our acknowledgements speak of; NULL: none */
	uint32_t rx_cnt;   /* lanes it has here */
	struct stage_rx stage;
	bool has_stage;
	uint32_t blocks_ready; /* of its codes, whose memory we made sure of */
	bool is_wake_due;      /* consumed frames from the shared lane */
	/* timer */
	uint64_t nudge_ns, nudged_ns; /* when its thread is told that something waits, 0 = nothing does; and was last */
	uint64_t nudge_gap_ns; /* between the last one and the next, while nothing comes of them; else 0 */
	uint32_t nudge_acked;  /* @acked when @nudge_ns was set */
	bool is_deaf;	       /* this process may not nudge it */
	uint64_t stall_ns;  /* since when nothing has been acknowledged; 0 = not stalled */
	uint64_t silent_ns; /* since when the owner gives no sign of life at all */
	uint64_t idle_ns;   /* since when our lane has not been used; 0 = in use */
	uint64_t lock_ns;   /* since when the shared lane's lock has not been ours; 0 = not */
	uint64_t shut_ns;   /* the same of all shared lanes */
	uint32_t tick_acked, tick_pos, tick_epoch;
	uint32_t used_pos; /* how far its lane was read at the last liveness look */
	bool was_used; /* it has sent by the shared lane since */
	/* probes for bulk */
	enum { SHM_CMA_UNKNOWN, SHM_CMA_OK, SHM_CMA_OFF } cma;
	uint32_t look_epoch, look_rx_pos;
	uint64_t look_ns, moved_ns;
	bool was_polling;
};

#define SHM_HASH 256u

/* Memory of ours that a peer declared dead may still touch: it is not used until the peer is really gone, or done. */
struct shm_held {
	STAILQ_ENTRY(shm_held) entry;
	struct shm_seg *seg;  /* of the peer, referenced */
	/* of the lane through which it learnt of the memory; idx from SHM_LANE_CNT on: a shared one */
	uint32_t idx, turn;
	uint32_t pos;	      /* shared lane: where our last frame ends */
	uint32_t block;	      /* SHM_NO_BLOCK: none */
	uint32_t cnt;
	uint32_t gran[];      /* [cnt] first of each staged run */
};

enum shm_due {
	SHM_DUE_WAKE = 1, /* senders that sleep may wait for what was consumed */
	SHM_DUE_MORE = 2, /* more than one is in use */
};

/* What the end of a pass has to look at: shm_peer_ends(). */
enum shm_ends {
	SHM_ENDS_DOOM = 1,   /* some peer was found dead */
	SHM_ENDS_GONE = 2,   /* some rx is_gone */
	SHM_ENDS_ZOMBIE = 4, /* some peer is one */
};

struct shm_port {
	struct link_port *p;
	struct shm_seg *seg;
	struct shm_hdr *hdr; /* of @seg: each poll asks */
	struct lane_rx shared[SHM_SHARED_CNT];
	uint32_t shared_cnt; /* in use */
	unsigned shared_due; /* enum shm_due: look at them in any case */
	bool has_membarrier;
	bool is_armed, is_wake_dirty;
	int wake_fd;
	/* in */
	struct shm_rx *rx[SHM_LANE_CNT]; /* dense */
	struct shm_rx *rx_by_idx[SHM_LANE_CNT];
	uint32_t rx_cnt, rx_last;
	uint32_t gen_seen;
	uint32_t desc_ready; /* descriptors whose memory we made sure of */
	bool has_rescan;     /* a descriptor could not be attached for now: look again */
	uint64_t want_ns;    /* since when one could not for want of something of ours; 0 = not */
	uint64_t shut_ns;    /* the same of a sender through a shared lane */
	uint64_t pending[SHM_LANE_CNT / 64]; /* bitmap mode: not yet empty */
	STAILQ_HEAD(, shm_rx) limbo; /* revoked lanes whose writers have not agreed and are not gone */
	bool is_shared_broken;
	/* out */
	struct stage stage;
	bool has_stage;
	uint32_t color_next;
	STAILQ_HEAD(, shm_held) held;
	uint64_t block_used[SHM_BLOCK_CNT / 64];
	struct shm_peer *busy; /* list by busy_next: have unacknowledged frames to complete */
	struct shm_peer *last; /* whom the last frame without such an entry went to; NULL: nobody */
	uint32_t outstanding;  /* cookies */
	bool has_told;	       /* the owner was told that a frame of its has ended, in this look */
	bool has_ready;	       /* an acknowledgement for a busy peer arrived in this pass */
	unsigned ends;	       /* enum shm_ends */
	uint32_t pass;		   /* polls */
	uint32_t idle;	     /* polls in a row that found nothing */
	uint32_t look_at;    /* look at heads when @idle is that many ... */
	uint32_t look_after; /* ... for the first time in a row of them */
	/* peers */
	struct shm_peer *tab[SHM_HASH];
	struct shm_peer *all;
	uint32_t in_poll;
	/* timer */
	uint64_t tick_ns, ticked_ns; /* the next one, the last one */
	uint32_t live_skip; /* peers to pass over before the next liveness look */
};

/* --- shm_lane.c: lanes that we write --- */

/** shm_lane_claim() - A lane of our own at @sp. Return: 0; -ENOSPC none to be had; -errno. */
int shm_lane_claim(struct shm_peer *sp);
/** shm_lane_give_back() - We write no more there; the receiver frees it when it is empty. */
void shm_lane_give_back(struct shm_peer *sp);
/** shm_block_put() - @sp uses no shared lane any more, or not now. */
void shm_block_put(struct shm_peer *sp);
/** shm_shared_lock() - Become the producer of a shared lane of @sp, @sp->tx ready. Return: 0; -EAGAIN; -EPROTO. */
int shm_shared_lock(struct shm_peer *sp);
/** shm_shared_note() - A reservation was made in @sp->tx, its bytes come now. */
void shm_shared_note(struct shm_peer *sp);
/** shm_shared_unlock() - @is_sent: a frame was committed. */
void shm_shared_unlock(struct shm_peer *sp, bool is_sent);
/**
 * shm_shared_unstick() - The lock has been held for long: free it if its holder is dead, else go to another lane.
 * System calls.
 */
void shm_shared_unstick(struct shm_peer *sp);

/* --- shm_rx.c: lanes that we read --- */

/** shm_lane_is_unseen() - Is there a lane of @sp that shm_lane_refresh() has not attached yet? */
bool shm_lane_is_unseen(struct shm_port *s, const struct shm_peer *sp);
/** shm_lane_refresh() - Our descriptors changed: look for new lanes and for those given back. */
void shm_lane_refresh(struct shm_port *s);
/**
 * shm_lane_free_rx() - Forget @rx, and make its descriptor free as soon as nobody writes there. Not while it is being
 * polled.
 */
void shm_lane_free_rx(struct shm_port *s, struct shm_rx *rx);
/** shm_is_hopeless() - Something of ours that was wanting at *@since_ns, 0 = had not been, has been so for too long. */
bool shm_is_hopeless(struct shm_port *s, uint64_t *since_ns);

/* --- shm_proc.c --- */

/** shm_proc_self() - This process. */
struct shm_proc shm_proc_self(void);
/** shm_proc_is_gone() - It has ended, for sure. */
bool shm_proc_is_gone(const struct shm_proc *proc);
/** shm_proc_may_open() - Is its limit on descriptors @limit at least? If in doubt: yes. */
bool shm_proc_may_open(const struct shm_proc *proc, int32_t limit);

/* --- shm_gone.c: what the dead may still touch --- */

/** shm_revoke_all() - @sp is declared dead: its lanes are not read any more, and it is told. */
void shm_revoke_all(struct shm_peer *sp);
/**
 * shm_revoke() - A lane without a reader, @rx being NULL or out of the port's list. Frees it at once if it can be.
 * Return: 0; -ENOMEM.
 */
int shm_revoke(struct shm_port *s, uint32_t idx, struct shm_rx *rx, struct shm_seg *seg);
/** shm_limbo_free() - The writer of a lane in limbo writes no more: who wants the lane may have it. */
void shm_limbo_free(struct shm_port *s, struct shm_rx *rx);
/** shm_is_revoked() - Has @sp declared us dead? */
bool shm_is_revoked(const struct shm_peer *sp);
/** shm_has_closed() - Has the port of @sp closed? */
static inline bool shm_has_closed(const struct shm_peer *sp)
{
	/* acquire: pairs with the release in own_hide(), which comes before a port that closes gives up its lanes */
	return atomic_load_explicit(sp->state, memory_order_acquire) & SHM_ST_CLOSED;
}
/** shm_revoked_doom() - @sp has revoked our lane: what is under way there ends, and why is said. */
void shm_revoked_doom(struct shm_peer *sp);
/** shm_revoked_look() - Find those that have. shm_told_look(): if one has said so. */
void shm_told_look(struct shm_port *s);
void shm_revoked_look(struct shm_port *s);
/**
 * shm_hold() - The frames of @sp are about to end unread: what it may touch of our memory stays out of use.
 * Return: what is held; NULL: nothing. shm_hold_end() - They have ended, and been shown: what is held is free if the
 * peer is gone.
 */
struct shm_held *shm_hold(struct shm_peer *sp);
void shm_hold_end(struct shm_port *s, struct shm_held *h);
/** shm_is_held() - Does the process of @sp still hold something from an earlier life? */
bool shm_is_held(const struct shm_peer *sp);
/** shm_gone_tick() - Take back what can be. System calls. */
void shm_gone_tick(struct shm_port *s);
/** shm_gone_fini() - Forget it all: the segment goes. */
void shm_gone_fini(struct shm_port *s);

/* --- shm_peer.c: peers --- */

/** shm_peer_of() - Who sends from @addr, its segment being @life; attaches on first sight. NULL: *@err says why,
 * -ENOENT it is gone, -EAGAIN its predecessor has to end first, which the next poll does. */
struct shm_peer *shm_peer_of(struct shm_port *s, const struct link_addr *addr, uint32_t life, int *err);
/** shm_peer_link() - The link_peer of a sender, made if need be. NULL: not now. */
struct link_peer *shm_peer_link(struct shm_peer *sp);

/* --- shm_port.c: ports --- */

static inline uint32_t shm_port_flags(const struct shm_port *s)
{
	return (s->p->node->lossless ? SHM_F_LOSSLESS : 0) | (s->has_membarrier ? 0 : SHM_F_FENCE);
}

/** shm_peer_ends() - The pass that began with s->in_poll++ is over: tell of the dead, free what it left behind. */
void shm_peer_ends(struct shm_port *s);
/** shm_port_stage() - Make the staging arena at the first frame that needs it. Return: 0; -errno. */
int shm_port_stage(struct shm_port *s);
/** shm_peer_doom() - @sp was found dead: its port is told at the next poll, with @status. */
static inline void shm_peer_doom(struct shm_peer *sp, int status)
{
	if (!sp->doom)
		sp->doom = status;
	sp->s->ends |= SHM_ENDS_DOOM;
}

/* --- shm_sent.c: frames that end --- */

/** shm_complete() - End frames of @sp that are acknowledged; unless @status is 0 all others, too. Return: how many. */
int shm_complete(struct shm_peer *sp, int status);
#define SHM_LOOK_MAX 64u /* idle polls before the first look at heads */

/** shm_look_restart() - Something came: when to look at heads counts from now. */
static inline void shm_look_restart(struct shm_port *s)
{
	s->idle = 0;
	s->look_at = s->look_after;
}

/** shm_look_adapt() - Whether the next row of idle polls has its first look sooner or later than this one had. */
static inline void shm_look_adapt(struct shm_port *s, bool is_sooner)
{
	s->look_after = is_sooner ? MAX(s->look_after / 2, 1U) : MIN(s->look_after * 2, SHM_LOOK_MAX);
	shm_look_restart(s);
}

/** shm_poll_acks() - End what has been acknowledged of all; @is_look: look at the heads for that. Return: how many. */
int shm_poll_acks(struct shm_port *s, bool is_look);
/** shm_tx_in_flight() - Frames that the peer has not acknowledged, with or without cookie. */
static inline bool shm_tx_in_flight(const struct shm_peer *sp)
{
	return sp->tx_mode != SHM_TX_NONE && sp->tx.pos != sp->acked;
}

/** shm_read_acked() - Look at the head of the lane we write; a cache miss when the peer has been
 * busy. */
void shm_read_acked(struct shm_peer *sp);

/** shm_set_acked() - Believe an acknowledgement if it lies between the last one and what we sent.
 */
static inline void shm_set_acked(struct shm_peer *sp, uint32_t acked)
{
	if (acked - sp->acked <= sp->tx.pos - sp->acked)
		sp->acked = acked;
}

/* @sp has frames that poll must end. */
static inline void shm_busy_add(struct shm_peer *sp)
{
	sp->is_busy = true;
	sp->busy_next = sp->s->busy;
	sp->s->busy = sp;
}

/** shm_is_acked() - Has the peer taken the frame @e? */
static inline bool shm_is_acked(const struct shm_peer *sp, const struct shm_pend *e)
{
	return (int32_t)(sp->acked - e->pos) > 0;
}

/** shm_stage_unbegin() - The staged frame that shm_begin() gave out, if there is one, is not sent after all. */
static inline void shm_stage_unbegin(struct shm_peer *sp)
{
	if (sp->begun_gran != SHM_NO_GRAN)
		stage_cancel(&sp->s->stage, sp->begun_gran);
	sp->begun_gran = SHM_NO_GRAN;
}

/** shm_has_done() - Is there a frame to complete? */
static inline bool shm_has_done(const struct shm_peer *sp)
{
	return sp->pend_head != sp->pend_tail && shm_is_acked(sp, &sp->pend[sp->pend_head % SHM_PEND_CNT]);
}

/** shm_desc_change() - Of a descriptor in a peer's segment: its owner will look. */
static inline void shm_desc_change(const struct shm_seg *seg, struct shm_desc *d, enum shm_desc_state state)
{
	/* release, both: what we wrote to the lane and the descriptor; pair with shm_lane_refresh() */
	atomic_store_explicit(&d->state, state, memory_order_release);
	atomic_fetch_add_explicit(&seg->hdr->lane_gen, 1, memory_order_release);
}

static inline struct shm_desc *shm_desc_at(const struct shm_seg *seg, uint32_t idx)
{
	return (struct shm_desc *)(void *)(seg->base + SHM_DESC_OFF) + idx;
}

/** shm_desc_hwm() - Descriptors ever used. */
static inline uint32_t shm_desc_hwm(const struct shm_seg *seg)
{
	/* acquire; pairs with the release in raise_hwm(). Clamped: others write it. */
	return MIN(atomic_load_explicit(&seg->hdr->lane_hwm, memory_order_acquire), SHM_LANE_CNT);
}

static inline void *shm_lane_at(const struct shm_seg *seg, uint32_t idx)
{
	return seg->base + SHM_LANE_OFF + (size_t)idx * SHM_LANE_STRIDE;
}

static inline _Atomic uint64_t *shm_told_at(const struct shm_seg *seg)
{
	return (_Atomic uint64_t *)(void *)(seg->base + SHM_TOLD_OFF);
}

static inline uint32_t shm_shared_slots(const struct shm_seg *seg, uint32_t k)
{
	return k ? SHM_SLOTS_SMALL : seg->shared_slots;
}

static inline void *shm_shared_at(const struct shm_seg *seg, uint32_t k)
{
	return seg->base + SHM_SHARED_OFF +
	       (k ? SHM_LANE_BYTES(seg->shared_slots) + (k - 1) * SHM_LANE_BYTES(SHM_SLOTS_SMALL) : 0);
}

static inline _Atomic uint8_t *shm_codes_at(void *lane, uint32_t slot_cnt)
{
	return (_Atomic uint8_t *)lane + sizeof(struct lane_shm) + (size_t)slot_cnt * LANE_SLOT;
}

/** shm_block_free() - Another peer may have the codes @block of our segment; SHM_NO_BLOCK is fine. */
static inline void shm_block_free(struct shm_port *s, uint32_t block)
{
	if (block != SHM_NO_BLOCK)
		s->block_used[block / 64] &= ~BIT(block % 64);
}

static inline _Atomic uint8_t *shm_block_at(const struct shm_seg *seg, uint32_t block)
{
	return (_Atomic uint8_t *)seg->base + SHM_CODES_OFF + (size_t)block * SHM_BLOCK_CODES;
}

#endif
