// SPDX-License-Identifier: BSD-2-Clause
// What the files of the bulk service share: shared region table (bulk_tab.c), regions (bulk_region.c), the target's
// side (bulk_serve.c), and the initiator's: the port object and the life of an operation (bulk.c), the choice of its
// method (bulk_pick.c) and the methods (bulk_frames.c, bulk_cma.c, bulk_help.c); and bytes that nobody has asked for
// (bulk_offer.c).
#ifndef SF_LINK_BULK_INT_H
#define SF_LINK_BULK_INT_H

#include <errno.h>
#include <sys/queue.h>

#include "base/pqueue.h"
#include "base/quota.h"
#include "link/bulk/bulk_wire.h"
#include "link/core/link_int.h"

/*
 * A key is 32 random bits, never 0. Its low bits say where its region is in a table of a power of two of entries, so
 * that owner and initiator find it without an index: there, or, if the table has doubled since, where it would have
 * been in a smaller one.
 */
#define BULK_ENTRY_MAX	(1u << 20) /* of the table */
#define BULK_ENTRY_MIN	256u
#define BULK_LEVEL_NUM	13u	   /* sizes that the table may have */
#define BULK_REGION_MAX (BULK_ENTRY_MAX / 4 * 3)
static_assert(BULK_ENTRY_MIN << (BULK_LEVEL_NUM - 1) == BULK_ENTRY_MAX, "one level per size");
#define BULK_SLOT_NUM	 512u /* nodes that may copy from one table's regions by themselves */

/* --- bulk_tab.c: the table that initiators on this host read ---------------------------------- */

struct bulk_tab;

/** bulk_tab_reap() - Remove tables whose owners died. A node may never make one of its own, which does that, too. */
void bulk_tab_reap(void);
/**
 * bulk_maps_read() - /proc/self/maps as a string, to find out which tables this process has open; NULL if it cannot be
 * had. mem_free() it.
 */
char *bulk_maps_read(void);
/** bulk_tab_create() - Make the table of node @node_id. Return: 0; -ENOSPC; -errno. */
int bulk_tab_create(uint64_t node_id, struct bulk_tab **out);
/**
 * bulk_tab_attach() - Map the table of another node, or share what this process has of it.
 * Return: 0; -ENOENT; -errno.
 */
int bulk_tab_attach(uint64_t node_id, struct bulk_tab **out);
/** bulk_tab_put() - Drop what create or attach gave; the owner's removes the file. NULL is fine. */
void bulk_tab_put(struct bulk_tab *tab);
/** bulk_tab_grow() - Owner: room for entries below @cnt. Return: 0; -ENOSPC. */
int bulk_tab_grow(struct bulk_tab *tab, uint32_t cnt);
uint32_t bulk_tab_entry_cnt(const struct bulk_tab *tab);
/** bulk_tab_publish() - Owner: show a region; its index is below bulk_tab_entry_cnt(). */
void bulk_tab_publish(struct bulk_tab *tab, uint32_t idx, uint32_t key, uint64_t addr, uint64_t len,
		      unsigned rights, uint32_t scope);
/** bulk_tab_retract() - Owner: no new lease on region @idx can begin after this; full fence. */
void bulk_tab_retract(struct bulk_tab *tab, uint32_t idx);
/*
 * A lease as one word: index + 1 of its region, and for peers of which of the owner's ports it is; 0: none. Here, which
 * of them are meant: those where @mask leaves @is.
 */
struct bulk_leases {
	uint64_t mask, is;
};
#define BULK_LEASE_INDEX GENMASK(31, 0)
#define BULK_LEASE_PORT	 GENMASK(48, 32) /* its top bit is always set: no port is 0 */
static inline uint64_t bulk_lease_of(uint32_t idx, uint16_t port)
{
	return BIT(48) | (uint64_t)port << 32 | (idx + 1);
}
static inline struct bulk_leases bulk_leases_on(uint32_t idx)
{
	return (struct bulk_leases){BULK_LEASE_INDEX, bulk_lease_of(idx, 0) & BULK_LEASE_INDEX};
}
static inline struct bulk_leases bulk_leases_by(uint16_t port)
{
	return (struct bulk_leases){BULK_LEASE_PORT, bulk_lease_of(0, port) & BULK_LEASE_PORT};
}
/**
 * bulk_tab_is_leased() - Owner, after retract, or after the port was shut and a full fence: does an initiator still
 * copy under one of @leases?
 * @reap: also ask the kernel whether the holders live, and break the leases of those that do not.
 */
bool bulk_tab_is_leased(struct bulk_tab *tab, struct bulk_leases leases, bool reap);
/* How long a region is wanted back already. */
struct bulk_wait {
	uint64_t now_ns, waited_ns;
	uint64_t patience_ns; /* for a holder that does not move; BULK_PATIENCES of it for any */
};
#define BULK_PATIENCES 4
/**
 * bulk_tab_break() - Owner, again and again: take those of @leases away whose holders are stuck. They touch nothing
 * under them afterwards.
 * Return: whether there was one.
 */
bool bulk_tab_break(struct bulk_tab *tab, struct bulk_leases leases, const struct bulk_wait *w);
/* What each kernel copy begins with, see bulk_tab.c. */
struct bulk_guard {
	uint64_t at, token;
};
/** bulk_tab_guard() - Initiator, before bulk_lease_take(). */
struct bulk_guard bulk_tab_guard(const struct bulk_tab *tab);
/** bulk_tab_owner_is_alive() - Initiator: one system call. */
bool bulk_tab_owner_is_alive(struct bulk_tab *tab);
/** bulk_tab_slot_claim() - Initiator: a place for leases, one at a time. Return: slot; -ENOSPC. */
int bulk_tab_slot_claim(struct bulk_tab *tab);
void bulk_tab_slot_release(struct bulk_tab *tab, int slot);
/**
 * bulk_lease_take() - Initiator: from 0 until bulk_lease_drop() region @key exists, allows @op
 * (LINK_GET or LINK_PUT) and contains [@addr, +@len).
 * @port: the owner's, a peer of which wants to copy; bulk_lease_admits() says whether it may.
 * Return: 0; -EACCES; -ENOENT the shared table does not know this region (ask the owner).
 */
int bulk_lease_take(struct bulk_tab *tab, int slot, uint16_t port, uint32_t key, int op, uint64_t addr, uint64_t len);
/** bulk_lease_admits() - Initiator, with a lease: bulk_admits() of its region, where the port's word is @serves now. */
int bulk_lease_admits(const struct bulk_tab *tab, int slot, uint16_t port, uint32_t serves);
/** bulk_lease_drop() - Return: 0; -EACCES: the owner has waited too long and has broken the lease. */
int bulk_lease_drop(struct bulk_tab *tab, int slot);
/** bulk_lease_note() - Initiator: @op has moved @len bytes, which the owner cannot see otherwise. */
void bulk_lease_note(struct bulk_tab *tab, int slot, int op, uint64_t len);
/** bulk_lease_fill() - Initiator, with a lease on @key: the first @len bytes of its region are there. */
void bulk_lease_fill(struct bulk_tab *tab, int slot, uint32_t key, uint64_t len);
/** bulk_tab_filled() - Owner, after retract and without leases: what was noted so, unchecked. */
uint64_t bulk_tab_filled(const struct bulk_tab *tab, uint32_t idx);
/** bulk_tab_moved() - Owner: bytes that initiators have noted for @op. */
uint64_t bulk_tab_moved(const struct bulk_tab *tab, int op);

/* --- bulk_cma.c ------------------------------------------------------------------------------- */

/**
 * bulk_cma_copy() - One process_vm_readv/writev. @g: NULL: none.
 * Return: bytes copied, > 0; -ESTALE: the guard is not there, nothing was written; -errno.
 */
ssize_t bulk_cma_copy(pid_t pid, int op, const struct bulk_guard *g, void *local, uint64_t raddr, size_t len);

/* --- the node: bulk_region.c ------------------------------------------------------------------ */

/* Whose peers may use a region, in 30 bits: of all ports (0), of those of a group, or of one port. */
#define BULK_SCOPE_PORT BIT(29)
static_assert(LINK_GROUP_MAX < BULK_SCOPE_PORT, "no group is taken for a port");

/**
 * bulk_admits() - May peers of UDP port @port, whose link_port.serves is @serves, use a region of @scope?
 * Return: 0; -ENOTCONN they may use none; -EACCES.
 */
static inline int bulk_admits(uint32_t scope, uint16_t port, uint32_t serves)
{
	if (unlikely(serves == LINK_SHUT))
		return -ENOTCONN;
	return !scope || scope == serves || scope == (BULK_SCOPE_PORT | port) ? 0 : -EACCES;
}

struct bulk_region {
	uint64_t addr, len;
	uint32_t key;	/* 0 = free */
	uint32_t scope; /* BULK_SCOPE_* */
	uint8_t rights;
	bool is_gone; /* nobody gets in any more; the place is not free yet */
	bool is_offered; /* link_offer(), and nobody has asked since */
	bool is_spoilt;	 /* see link_region_is_spoilt() */
};

/* What there is to choose from, each a struct bulk_method. */
enum bulk_way { BULK_FRAMES, BULK_CMA, BULK_HELPED, BULK_WAY_NUM };

/* What operations of one class have cost. See bulk_pick.c. */
struct bulk_speed {
	uint64_t ps_per_byte[BULK_WAY_NUM]; /* moving average; 0 = never measured */
	uint32_t cnt; /* choices made */
	uint32_t look_at[BULK_WAY_NUM]; /* value of @cnt at which a loser is looked at again ... */
	uint32_t gap[BULK_WAY_NUM]; /* ... so many choices after the last look */
	uint32_t look_left; /* choices for which the look at @look_way goes on */
	enum bulk_way look_way, last_way, best;
	uint64_t best_ps; /* the least that @best has cost */
	int32_t own_more; /* HELPED: how much more than at first we copy ourselves, see bulk_help.c */
};
struct bulk_class {
	struct bulk_speed speed[2]; /* [several operations overlap] */
};
#define BULK_CLASS_NUM 8u

/* From the first operation until none is left, or for so many bytes: what is measured at once. See bulk_pick.c. */
struct bulk_period {
	uint32_t op_cnt, peak;	  /* operations under way, and the most of them in this period */
	uint64_t begin_ns, bytes; /* what has come since then, all of it of this class and by this method: */
	struct bulk_class *class;
	enum bulk_way way;
	bool is_whole; /* nothing was under way when it began, and nothing of it is left out */
	bool is_over;  /* and so is the choice: whoever begins next makes another one ... */
	uint64_t held; /* ... after so many bytes */
};

/* A node on this host as an initiator sees it: its table, our place for leases, what we learnt. */
struct bulk_target {
	struct bulk_target *next;
	uint64_t node_id;
	struct bulk_tab *tab; /* NULL: not there, or no slot; tried again at @retry_ns */
	int slot;
	uint32_t op_cnt; /* operations that use this target */
	bool no_cma;	 /* the kernel forbids it */
	uint64_t retry_ns;
	uint64_t alive_ns; /* the owner was seen alive */
	struct bulk_class class[2][BULK_CLASS_NUM]; /* [is_slow()][class of length] */
	struct bulk_period period;
	bool is_many; /* operations overlap, by the last periods: */
	uint32_t lone_cnt; /* of these, since they did */
	/* HELPED: parts that the owner has been asked for and has not copied */
	uint32_t asked_cnt;
	uint64_t asked_bytes;
	uint32_t left_cnt; /* reads that the kernel copies because their owner was silent */
	uint64_t heard_ns;  /* the last answer to any operation by frames */
	uint64_t silent_ns; /* the owner has not helped: not asked again before */
};

#define BULK_TARGET_BUCKETS 64

struct bulk_node {
	struct link_node *n;
	/* entries below BULK_ENTRY_MIN, then each as many as all before it */
	struct bulk_region *level[BULK_LEVEL_NUM];
	uint32_t entry_cnt, region_cnt;
	uint32_t random[64], random_cnt; /* for the next keys */
	struct bulk_tab *tab;	       /* NULL: none, then only frames reach the regions */
	bool tab_tried;
	uint64_t get_served, put_served; /* bytes that this process has moved for peers */
	uint32_t refused_told;		 /* for LOG_FEW(): accesses refused, peers' and ours */
	struct bulk_target *target[BULK_TARGET_BUCKETS];
	uint32_t target_cnt, target_gc_at;
};

/** bulk_region_retract() - First half of deleting @key: no new lease begins after this. */
void bulk_region_retract(struct bulk_node *b, uint32_t key);
/**
 * bulk_region_try_free() - Second half: true when nobody touches it any more and it is gone. @filled: out, bytes
 * from its beginning that were filled, unchecked; may be NULL.
 */
bool bulk_region_try_free(struct bulk_node *b, uint32_t key, uint64_t *filled);
/** bulk_region_break() - Between them, after @waited_ns: whoever is stopped loses its lease once that is long. */
void bulk_region_break(struct bulk_node *b, uint32_t key, uint64_t waited_ns);
/** bulk_region_wait_free() - The same, waiting. */
void bulk_region_wait_free(struct bulk_node *b, uint32_t key);
/** bulk_tell_refused() - In the log: bulk_region_check() says @rc. @who asked, "a peer" or "this process". */
void bulk_tell_refused(struct bulk_node *b, const char *who, int rc, uint32_t key, int op, uint64_t addr, uint64_t len);
/**
 * bulk_region_check() - May a peer of port @p do @op to [@addr, +@len) by @key? Any values.
 * Return: 0; -EACCES; -ENOTCONN @p is shut.
 */
int bulk_region_check(const struct link_port *p, uint32_t key, int op, uint64_t addr, uint64_t len);
/** bulk_region_offer() - @key, which exists, is offered. */
void bulk_region_offer(struct bulk_node *b, uint32_t key);
/** bulk_region_spoil() - What was written to @key, which exists, could not be placed. */
void bulk_region_spoil(struct bulk_node *b, uint32_t key);
/** bulk_region_asked() - Return: whether @key, which exists, was offered, and had not been asked for. */
bool bulk_region_asked(struct bulk_node *b, uint32_t key);
/** bulk_target_get() - The node of local @peer, attached if possible. NULL: unknown, no memory. */
struct bulk_target *bulk_target_get(struct bulk_node *b, struct link_peer *peer, uint64_t now_ns);

/* --- bulk_pick.c ------------------------------------------------------------------------------ */

struct bulk_port;
struct bulk_op;

/** bulk_can_cma() - Whether the kernel can move what is left of @op. */
bool bulk_can_cma(const struct bulk_port *b, const struct bulk_op *op);
/** bulk_pick() - Choose @op's way. Return: the one that moves it now: another one if the owner is silent. */
enum bulk_way bulk_pick(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns);
/** bulk_speed_of() - What is known of operations like @op, which has a target. */
struct bulk_speed *bulk_speed_of(const struct bulk_op *op);
/** bulk_busy_enter() - @op is under way in its way from now on; more than once is fine. */
void bulk_busy_enter(struct bulk_op *op, uint64_t now_ns);
/** bulk_busy_moved() - More of @op is there than before. */
void bulk_busy_moved(struct bulk_op *op, uint64_t now_ns);
/** bulk_busy_leave() - No longer. @is_done: all of it is there. */
void bulk_busy_leave(struct bulk_op *op, bool is_done, uint64_t now_ns);
/** bulk_learn_silence() - The owner had seemed to poll, but did not help. */
void bulk_learn_silence(const struct bulk_op *op, uint64_t now_ns);

/* --- the port --------------------------------------------------------------------------------- */

/* First member of everything whose address goes to the link as a cookie. */
enum bulk_ref { BULK_REF_OP, BULK_REF_BUF };

enum bulk_state {
	BULK_RUNS,
	BULK_CHANGES, /* goes on by another method once its own has let go of its memory (stop()) */
	BULK_ENDED    /* waits for that and for frames that point into its memory, then for bulk_poll() */
};

/*
 * One link_bulk(). Bytes before @pos have been moved (CMA), sent (PUT by frames) or belong to the
 * GET request in flight. Whatever arrives for another @tag is late and ignored: a GET that
 * changes its method takes a new tag.
 */
struct bulk_op {
	enum bulk_ref ref;
	enum bulk_state state;
	TAILQ_ENTRY(bulk_op) entry; /* as @queue says: */
	enum {
		BULK_Q_NONE,
		BULK_Q_ACTIVE, /* port->active: it can do something by itself */
		BULK_Q_AHEAD,  /* peer->ahead: a GET whose bytes come unasked */
		BULK_Q_ENDED   /* port->ended */
	} queue;
	struct pq_node timer;
	struct link_peer *peer; /* referenced */
	struct bulk_target *target;
	int op; /* LINK_GET, LINK_PUT */
	enum bulk_way way; /* the choice, and what is learnt from it */
	const struct bulk_method *how; /* what moves it now: a copy may take over from frames */
	uint8_t *local;
	uint64_t len, raddr;
	uint32_t key, tag;
	void *cookie;
	int status;	     /* of ENDED */
	uint32_t unsent_cnt; /* cookies that the link has not given back, and @help_key */
	uint64_t pos;
	uint64_t copy_end; /* copies: where our part ends */
	uint64_t ask_len;  /* GET by frames: bytes asked for from @pos on */
	uint64_t got;	   /* GET: of these, arrived in any order; PUT: of @sent, acknowledged */
	uint64_t got_head; /* GET: of these, arrived without a hole from the start */
	uint32_t offer_tag;	/* BULK_Q_AHEAD: which bytes */
	struct bulk_op *ahead_next; /* and the next one of its peer */
	uint64_t sent;	   /* PUT: bytes sent by frames */
	bool is_ring;	  /* frames go through shared memory */
	bool counts_busy; /* in the target's @period */
	uint64_t counted; /* bytes that periods have been told of */
	uint64_t kept_pos; /* @pos when it came to the front */
	uint64_t cma_ns;    /* HELPED: spent in CMA */
	uint64_t copied_ns; /* when the last CMA ended; 0 = none */
	bool is_left;	  /* GET: its owner was given up, and the kernel copies it: in target->left_cnt */
	bool no_cma;	  /* the shared table does not know the region */
	bool has_news;	  /* the peer has shown life since the timer was set */
	bool wants_help;   /* HELPED: the owner is not asked yet */
	bool is_asked; /* the owner has a GET or HELP of it, and has not answered; HELPED: in target->asked_cnt */
	uint32_t help_key; /* HELPED: the region that the owner fills; 0 = not (any more) */
	bool is_helped;	   /* HELPED: the owner's part is done */
	uint64_t ready_ns; /* HELPED: when our part was ready */
	uint64_t recall_ns; /* HELPED: since when the region has been wanted back */
	bool has_rest;	    /* HELPED: the owner has given up; after @copy_end ours goes on at @rest */
	uint64_t rest;
	/* what an owner does for a peer's HELPED */
	bool is_help;
	uint32_t src_key, peer_id, peer_tag;
};
TAILQ_HEAD(bulk_op_list, bulk_op);

/* Target's side of a GET: what is still to be sent. */
struct bulk_stream {
	TAILQ_ENTRY(bulk_stream) entry;
	struct bulk_client *client;
	uint32_t id, tag, key;
	uint64_t addr, len, pos;
	uint32_t unsent_cnt; /* chunks in the hands of the link */
	bool is_stopped;     /* only waits for them, in port->leaving */
	bool is_ahead;	     /* nobody has asked: @tag is ours, and @id 0 */
};
TAILQ_HEAD(bulk_stream_list, bulk_stream);

/* A chunk on a path that keeps pointers. */
struct bulk_buf {
	enum bulk_ref ref;
	struct bulk_stream *stream;
	uint8_t data[BULK_CHUNK]; /* once its region has gone */
};

/* A REPLY that waits for bulk_poll(). Consecutive pieces of one PUT share one. */
struct bulk_reply {
	TAILQ_ENTRY(bulk_reply) entry;
	uint32_t id, tag;
	enum bulk_status status;
	uint64_t bytes;
};

/* What a peer can make us keep to serve it (bulk_serve.c). */
enum bulk_quota {
	BULK_Q_REPLY,  /* answers, */
	BULK_Q_OVER,   /* and those beyond its share of them */
	BULK_Q_STREAM, /* reads */
	BULK_Q_BUF,    /* chunks on their way */
	BULK_Q_NUM
};

/* Those who have their turns together: one source's peers, or one peer that has none. */
TAILQ_HEAD(bulk_client_list, bulk_client);
struct bulk_turns {
	TAILQ_ENTRY(bulk_turns) entry; /* port->turns while there is something to send */
	struct bulk_client_list clients; /* of these, those to whom */
	struct quota_source *source; /* NULL: part of its one client */
	uint32_t refs;
};

/* A peer that is owed something. Sources have turns, and in these their peers. */
struct bulk_client {
	TAILQ_ENTRY(bulk_client) entry; /* turns->clients while there is something to send */
	struct link_peer *peer;		/* referenced */
	struct quota_user quota;	/* enum bulk_quota */
	struct bulk_turns *turns, alone;
	struct bulk_stream_list serving;
	TAILQ_HEAD(bulk_reply_list, bulk_reply) replies;
	uint32_t reply_cnt;  /* BULK_Q_REPLY and BULK_Q_OVER */
	uint64_t blocked_ns; /* since when it has taken no answer; 0 = it does */
	uint32_t stream_cnt; /* also those that only wait for their chunks, and uses on the stack */
	bool is_queued;
	bool is_lost; /* it does not take its answers, and there is no room: it ends */
};
#define BULK_DONE_MAX 8u

/* The last OFFER that came, until its first byte does: who asks for just these bytes meanwhile need not. */
struct bulk_offer {
	struct link_peer *peer; /* referenced; NULL: there is none */
	struct bulk_pkt pkt;
};

struct bulk_method;
struct bulk_port {
	struct link_port *port;
	struct link_node *n;
	struct bulk_node *node;
	struct slab ops, streams, bufs, replies, client_slab, turns_slab;
	struct bulk_op_list active, ended;
	TAILQ_HEAD(, bulk_turns) turns;
	struct bulk_stream_list leaving; /* is_stopped */
	struct quota_book quota;
	struct pq timers;
	struct bulk_offer offer;
	struct bulk_stream *fresh; /* the last one offered, until a doorbell has sent it */
	uint32_t next_tag;
	uint64_t last_ns; /* time of the last bulk_poll() */
	bool is_stalled;  /* that poll could not send anything that it had */
	int force;	  /* tests: -1 choose, else enum bulk_way */
	const struct bulk_method *const *methods; /* [BULK_WAY_NUM] */
	/* Read nothing of region @key, 0: of any, any more, and tell its readers. */
	void (*region_gone)(struct bulk_port *b, uint32_t key);
	uint32_t help_cnt; /* operations with is_help */
	uint32_t done_key[BULK_DONE_MAX], done_cnt; /* regions that owners have filled, to take back */
};

#define BULK_SWITCH_NS (30 * NS_PER_US) /* silence after which a local owner is not waited for */
#define BULK_WORK_MAX 65536u /* bytes after which one bulk_poll() begins nothing more */
#define BULK_MAKE_UP_MAX (1u << 20) /* bytes that it sends where it makes up for a pause: long trains of datagrams */
#define BULK_KEEP_LEN (1u << 20) /* bytes of kernel copies before others have their turn */
#define BULK_SLICE_MAX (640u << 10) /* bytes of one kernel copy, hence of one lease: more than half of 1 MiB */
#define BULK_UNSENT_MAX 64u /* chunks of one stream or operation in the hands of the link */
#define BULK_VISIT_MAX	16  /* blocked operations that one bulk_poll() tries */

/* bulk_op.c */
static inline uint64_t bulk_now(const struct bulk_port *b)
{
	return clk_now_ns(&b->n->clk);
}

/*
 * One way to move an operation, in a file of its own; nobody else knows any other difference between them. An operation
 * in turn moves on by itself (queue), one that waits has a timer. give_up and stop may be NULL: there is nothing to do.
 */
struct bulk_method {
	/* What is left of @op, which is in turn, is moved by this from now on. May end it. */
	void (*start)(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns);
	/* A turn, of about @len bytes. Return: bytes moved; -EAGAIN nothing possible now; else its status. */
	int64_t (*turn)(struct bulk_port *b, struct bulk_op *op, uint64_t len);
	/* A DATA or REPLY of the owner's. Return: false if it contradicts what was asked for. */
	bool (*reply)(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt, const struct view *frame);
	/* The timer has run out. Return: false: there is no better way, the operation only waits. */
	bool (*give_up)(struct bulk_port *b, struct bulk_op *op);
	/* @op has ended or changes its method. Asked again until it returns true: nobody else touches its memory. */
	bool (*stop)(struct bulk_port *b, struct bulk_op *op);
	uint64_t keep_len; /* bytes before others have their turn; 0: one turn, and the first one at once */
};
extern const struct bulk_method bulk_frames_method, bulk_cma_method, bulk_help_method;

/** bulk_pkt_of() - The beginning of each message about @op. */
static inline struct bulk_pkt bulk_pkt_of(struct bulk_port *b, const struct bulk_op *op, enum bulk_type type)
{
	return (struct bulk_pkt){.type = type, .id = slab_id(&b->ops, op), .tag = op->tag};
}

/** bulk_frame() - port_up.out() of one message. */
int bulk_frame(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
	       const void *data, size_t len, void *cookie);
void bulk_queue_leave(struct bulk_port *b, struct bulk_op *op);
/** bulk_queue_active() - To the end of the turns. */
void bulk_queue_active(struct bulk_port *b, struct bulk_op *op);
/** bulk_queue_ahead() - Its bytes come unasked: the first one of its peer's that waits for such. */
void bulk_queue_ahead(struct bulk_port *b, struct bulk_op *op);
/** bulk_ahead_first() - Of @peer's: the others by ahead_next. NULL: none. */
struct bulk_op *bulk_ahead_first(struct bulk_port *b, const struct link_peer *peer);
/** bulk_queue_ended() - It is reported by the next bulk_poll(). */
void bulk_queue_ended(struct bulk_port *b, struct bulk_op *op);
void bulk_timer_set(struct bulk_port *b, struct bulk_op *op, uint64_t at_ns);
/** bulk_ping_ns() - Silence after which the owner is asked: the link can find it dead within its time. */
uint64_t bulk_ping_ns(const struct bulk_port *b);
/** bulk_timer_arm() - Makes sure that silence of the peer is noticed. */
void bulk_timer_arm(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns);
/** bulk_tag_renew() - Whatever still arrives for @op from now on is ignored. */
void bulk_tag_renew(struct bulk_port *b, struct bulk_op *op);
/** bulk_op_new() - An operation with @peer, its target and a tag; the caller says what it moves. NULL: no memory. */
struct bulk_op *bulk_op_new(struct bulk_port *b, struct link_peer *peer, uint64_t now_ns);
/** bulk_op_free() - Of one that has not begun, or has been reported. */
void bulk_op_free(struct bulk_port *b, struct bulk_op *op);
/** bulk_op_begin() - Choose how what is left of @op is moved, and put it in turn. May end it. */
void bulk_op_begin(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns);
/** bulk_op_wait() - Nothing to do for @op but to wait. */
void bulk_op_wait(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns);
/** bulk_op_resume() - It may go on sending, if it has more. */
void bulk_op_resume(struct bulk_port *b, struct bulk_op *op);
/** bulk_op_is_heard() - The owner has shown life lately. */
bool bulk_op_is_heard(const struct bulk_port *b, const struct bulk_op *op);
void bulk_op_end(struct bulk_port *b, struct bulk_op *op, int status);
/** bulk_op_leave() - Its method moves it no more: what follows begins when that has let go of its memory. */
void bulk_op_leave(struct bulk_port *b, struct bulk_op *op);
/** bulk_op_again() - By another method. Return: -EAGAIN, or the status if there is none. */
int bulk_op_again(struct bulk_port *b, struct bulk_op *op);
/** bulk_op_astray() - @op has a turn that it cannot have. Return: its status. */
int bulk_op_astray(struct bulk_port *b, struct bulk_op *op);

/* bulk_frames.c */
/** bulk_frames_answered() - The reply() of any PUT, of which some may have been sent before the kernel took over. */
bool bulk_frames_answered(struct bulk_port *b, struct bulk_op *op, const struct bulk_pkt *pkt,
			  const struct view *frame);

/* bulk_offer.c */
/** bulk_offer_come() - Bytes of @peer's will come that have not been asked for. */
void bulk_offer_come(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt);
/** bulk_offer_take() - If @op, a GET in no queue, is for just these bytes it need not ask. Return: whether it is. */
bool bulk_offer_take(struct bulk_port *b, struct bulk_op *op);
/** bulk_offer_find() - Who waits for the bytes of @pkt, an AHEAD or WITHDRAWN; NULL: nobody, and nobody will. */
struct bulk_op *bulk_offer_find(struct bulk_port *b, const struct link_peer *peer, const struct bulk_pkt *pkt);
/** bulk_offer_forget() - The offer of @peer, NULL: of anybody, is not waited for. */
void bulk_offer_forget(struct bulk_port *b, const struct link_peer *peer);

/* bulk_cma.c */
/** bulk_cma_move() - One copy. Return: bytes; -EAGAIN none; other: the operation's status. */
int64_t bulk_cma_move(struct bulk_port *b, struct bulk_op *op, uint64_t len);

/* bulk_help.c */
/** bulk_help_tidy() - Take back regions that owners have filled. */
void bulk_help_tidy(struct bulk_port *b);
/** bulk_help_take_back() - Wait until the owner has let go of @op, which has ended. */
void bulk_help_take_back(struct bulk_port *b, struct bulk_op *op);
/** bulk_help_fini() - Closing: wait for all that bulk_help_tidy() has not got. */
void bulk_help_fini(struct bulk_port *b);
/* Copies that an owner has in hand for others. An honest peer has three of them; who gets none copies by itself. */
#define BULK_HELP_MAX 1024u
/** bulk_help_on_request() - Owner: help, or answer why not. */
void bulk_help_on_request(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt);
/** bulk_help_answer() - Owner: what was asked for has ended. */
void bulk_help_answer(struct bulk_port *b, const struct bulk_op *op);
/** bulk_help_region_gone() - Owner: read nothing of region @key, 0: of any, any more. */
void bulk_help_region_gone(struct bulk_port *b, uint32_t key);

/* bulk_serve.c */
void bulk_serve_init(struct bulk_port *b);
/** bulk_serve_answer() - A REPLY now, or in a later bulk_poll(). */
void bulk_serve_answer(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
		       enum bulk_status status, uint64_t bytes);
void bulk_serve_get(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt);
/** bulk_stream_new() - [@pkt->addr, +@pkt->len) of ours goes to @peer. NULL: it has enough, or no memory. */
struct bulk_stream *bulk_stream_new(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt);
/** bulk_stream_turn() - Return: bytes sent, after the last of which @s is gone; 0: it is; -EAGAIN: nothing sent. */
int64_t bulk_stream_turn(struct bulk_port *b, struct bulk_stream *s);
/** bulk_stream_stop() - Send no more; the memory goes when the link has given back every chunk. */
void bulk_stream_stop(struct bulk_port *b, struct bulk_stream *s);
void bulk_serve_put(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt, const struct view *frame);
void bulk_serve_stop(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt);
/** bulk_serve_step() - Send replies and up to BULK_WORK_MAX of data, or BULK_MAKE_UP_MAX. Return: frames sent. */
int bulk_serve_step(struct bulk_port *b);
void bulk_serve_on_sent(struct bulk_port *b, struct bulk_buf *buf);
void bulk_serve_peer_dead(struct bulk_port *b, struct link_peer *peer);
/** bulk_begun() - There is more to do: the next poll of the port does it. */
static inline void bulk_begun(struct bulk_port *b)
{
	b->port->bulk_due = true;
}
/** bulk_serve_region_gone() - Send nothing of region @key, 0: of any, any more, and tell its readers. */
void bulk_serve_region_gone(struct bulk_port *b, uint32_t key);
void bulk_serve_fini(struct bulk_port *b);
bool bulk_serve_is_idle(const struct bulk_port *b);

/** bulk_peer_ref() - The link_peer_get() of a peer at hand; undone by link_peer_put(). */
static inline struct link_peer *bulk_peer_ref(struct link_peer *peer)
{
	peer->refs++;
	return peer;
}

#endif
