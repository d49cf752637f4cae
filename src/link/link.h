// SPDX-License-Identifier: BSD-2-Clause
// The interface between the soft adapters and what moves their bytes: frames, bulk, wake-up, time.
#ifndef SF_LINK_LINK_H
#define SF_LINK_LINK_H

#include <string.h>
#include <sys/uio.h>

#include "base/base.h"
#include "base/calm.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/quota.h"
#include "base/view.h"

/*
 * Theory of operation
 *
 * A *node* is one soft adapter opened by one process (one per libfabric domain). It owns the lock under which
 * everything of it runs, the table of memory regions that peers may read and write, and the adapter thread. A *port* is
 * one address of a node (an EFA queue pair, a Cassini PID, an HFI context). A *peer* is one remote port as one local
 * port sees it.
 *
 * Unless a comment says otherwise every function here is called with the node's lock held, and every callback runs with
 * it held: from link_poll() in the application's thread, or from the adapter thread while the application computes.
 *
 * A peer on this host is reached through shared memory when its segment opens, is ours and carries the nonce of its
 * address; else, and whenever faults or capture are on, frames go through the reliability module (classes RELIABLE and
 * ORDERED) and a datagram carrier. Neither the caller nor the peer's caller can tell which.
 */

struct link_node;
struct link_port;
struct link_stats;
struct link_peer;
struct carrier;

/* Where a port is: an IPv6 or IPv4-mapped address (network order) and a UDP port (host order). 24 bytes, no padding. */
struct link_addr {
	uint8_t ip[16];
	uint16_t port;
	uint16_t flags; /* 0; beside a datagram LINK_ADDR_* */
	uint32_t nonce; /* tells incarnations of one port number apart; 0 = not known */
};

/** link_same_place() - Whether @a and @b are one address and port, whoever lives there. */
static inline bool link_same_place(const struct link_addr *a, const struct link_addr *b)
{
	return a->port == b->port && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

#define LINK_ADDR_CUT  1 /* on its way out: it may be cut up, since its length was chosen before the path's was known */
#define LINK_ADDR_NEAR 2 /* on its way in: it came through shared memory, where nobody forges addresses */

enum link_class {
	LINK_RAW,      /* may lose, duplicate, reorder (hfi, EFA UD) */
	LINK_RELIABLE, /* each frame once, in any order (EFA SRD) */
	LINK_ORDERED,  /* each frame once, in order per peer (cassini) */
	LINK_CLASS_NUM
};

#define LINK_HDR_MAX 64 /* bytes of header that link_send() copies */
#define LINK_IOV_MAX 6  /* payload pieces of one frame */
#define LINK_NAK_MAX 254

/* What a port tells its owner. All called with the node's lock held; none may close the port. */
struct link_ops {
	/*
	 * A frame of @peer arrived: @len bytes at @frame, borrowed for this call; a peer of this host may write them
	 * meanwhile. Return 0 when taken; 1..LINK_NAK_MAX refuses it and becomes the status of the sender's on_sent
	 * (RAW: only counted).
	 */
	int (*on_frame)(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len);
	/*
	 * A frame given to link_send() with a cookie has ended. @status: 0 the peer's owner took it; > 0 the peer's
	 * refusal code; -ECONNREFUSED nobody listens there (closed port, or its owner exited); -EHOSTUNREACH never
	 * answered; -ETIMEDOUT silent for dead_after; -EPROTO peers disagree on wire version or settings; -ECANCELED we
	 * closed.
	 */
	void (*on_sent)(void *ctx, void *cookie, int status);
	/*
	 * A link_bulk() has ended: 0; -EACCES key, range or right wrong at the target, or of a group that is not the
	 * target port's; -ENOTCONN that port is shut (link_port_shut()); -EPROTO the target refuses it, and says why in
	 * a way that we do not know; else as on_sent.
	 */
	void (*on_bulk)(void *ctx, void *cookie, int status);
	/*
	 * ORDERED: the last byte of a LINK_PUT is on its way to another host: what is sent now comes behind it. on_bulk
	 * comes later, and says whether the bytes could be placed there. May be NULL where nobody cares.
	 */
	void (*on_bulk_left)(void *ctx, void *cookie);
	/*
	 * A frame of link_commit() without cookie has failed with @status (as on_sent, never 0): its @tag, and its @len
	 * bytes, which only this call shows, and which peers of this host may write while they are looked at. May be
	 * NULL where nobody calls link_begin().
	 */
	void (*on_lost)(void *ctx, struct link_peer *peer, uint64_t tag, const void *frame, size_t len, int status);
	/*
	 * The process at @peer was seen to go (@status as on_sent, never 0), and all that came from it has been shown.
	 * What was on its way has failed (RAW: is lost); whoever opens there next is another one, whose frames through
	 * shared memory come after this. Not told where a call says it in its place; RAW: by link_poll() only. May be
	 * NULL where nobody cares: of a RAW port, what is sent to a peer that has gone is then lost without notice.
	 */
	void (*on_gone)(void *ctx, struct link_peer *peer, int status);
};

/* --- the node ---------------------------------------------------------------------------------------------------- */

/*
 * Another network than this host's, at its own time. A node in it has no shared memory, no sockets, nothing to wait on
 * and no adapter thread, and its keys come from the room's seed, so that runs repeat.
 */
struct link_world {
	const uint64_t *now_ns; /* its clock */
	/* What @p sends and receives by (link/core/link_int.h). Return: 0; -EADDRINUSE; -errno. */
	int (*carrier)(const struct link_world *w, struct link_port *p, struct carrier **out);
};

struct link_node_attr {
	struct lock *lock;          /* the one lock of this adapter; owned by the caller, outlives the node */
	const struct link_room *room; /* network conditions and paths, from link_room_get(); outlives the node */
	/*
	 * Runs in the adapter thread, lock held, when the application has not polled for a while: must poll every port
	 * (link_poll). NULL: the node does just that itself.
	 */
	void (*service)(void *ctx);
	/* When the owner's own timers want service() to run, ns on the node's clock; lock held. NULL: it has none. */
	uint64_t (*next_deadline)(void *ctx);
	/* One line of the owner's counters into @buf, as stats_line(); lock held. NULL: it has none (live.c). */
	size_t (*tell)(void *ctx, char *buf, size_t len);
	void *ctx;
	bool no_thread;             /* tests only: nobody works while the caller does not poll */
	const struct link_world *world; /* tests only: instead of shm and udp; outlives the node */
};

/** link_node_open() - Not under the lock. Return: 0; -ENOMEM; -errno of the system call that failed (logged). */
int link_node_open(const struct link_node_attr *attr, struct link_node **out);
/** link_node_close() - Stops the adapter thread. All ports and regions are closed. Not under the lock. NULL is fine. */
void link_node_close(struct link_node *n);

/** link_now_ns() - The node's clock: monotonic time, or its world's. Any thread. */
uint64_t link_now_ns(const struct link_node *n);
/**
 * link_idle() - The caller's poll found nothing: spins, or yields the CPU once the wait is long. Not under the lock.
 */
void link_idle(struct link_node *n);
/** link_forked() - True in a child of the process that opened @n: nothing of it may be used there. */
bool link_forked(const struct link_node *n);
/**
 * link_fork_mark() - A byte that is 0 where link_forked() is true, for those who ask often. NULL: ask link_forked().
 */
const uint8_t *link_fork_mark(const struct link_node *n);

/* --- ports ------------------------------------------------------------------------------------------------------- */

struct link_port_attr {
	struct link_node *node;
	uint8_t ip[16];         /* bind here: an address of this host */
	uint16_t port;          /* 0: any free UDP port */
	uint32_t nonce;         /* part of our address; != 0 */
	enum link_class cls;
	/*
	 * Addresses of our peers carry no nonce (Cassini, HFI): a peer is a place, and whoever opens there next is the
	 * same peer. When its process goes, what is outstanding ends with an error, and the next link_send() looks who
	 * is there now.
	 */
	bool by_place;
	/* A peer's next incarnation may have its nonce: when one has gone, the next link_send() looks who is there. */
	bool nonces_repeat;
	bool no_shm;            /* treat peers on this host as remote (FI_EFA_ENABLE_SHM_TRANSFER=0) */
	/* Its peers may use the node's regions of this group beside those that are open to all. */
	uint32_t group;
	bool is_shut;           /* link_port_shut() from the beginning */
	const struct link_ops *ops;
	void *ctx;
};

/**
 * link_port_open() - Return: 0; -EADDRINUSE (quietly: the caller may be looking for a free one); -EADDRNOTAVAIL;
 * -ENOMEM; -errno (logged with the reason).
 */
int link_port_open(const struct link_port_attr *attr, struct link_port **out);
/**
 * link_port_close() - Ends everything outstanding (on_sent -ECANCELED) after draining what peers still owe
 * acknowledgements for, bounded by the room's linger; says goodbye. Drops and retakes the lock while it waits. NULL is
 * fine.
 */
void link_port_close(struct link_port *p);
/**
 * link_port_close_stats() - The same; *@last: what its counters came to, with all that draining and goodbye have sent.
 */
void link_port_close_stats(struct link_port *p, struct link_stats *last);
/**
 * link_port_holder() - Who has @ip and @port on this host: process id as that process sees it; 0 = nobody of ours, or
 * not known. System calls.
 */
int link_port_holder(const uint8_t ip[16], uint16_t port);
/**
 * link_port_user() - The user whose UDP socket is bound there, ours or not. 0; -ENOENT nobody; -errno cannot be told.
 * System calls.
 */
int link_port_user(const uint8_t ip[16], uint16_t port, uint32_t *uid);
/**
 * link_port_set_label() - What peers on this host may know of us before they send anything: the owner's own matter, not
 * 0.
 */
void link_port_set_label(struct link_port *p, uint64_t label);
/**
 * link_port_set_nonce() - Another one from now on.
 * Return: 0; -EBUSY: the port has met peers, which know it by the old one.
 */
int link_port_set_nonce(struct link_port *p, uint32_t nonce);
/**
 * link_port_shut() - From now on, and until it is called with false: peers of @p read and write no region, whichever it
 * is of (-ENOTCONN there). Who copies by itself may be at it still: link_port_settle().
 */
void link_port_shut(struct link_port *p, bool is_shut);
/**
 * link_port_settle() - Waits, as link_region_del() does, until no peer of @p, which is shut, reads or writes any more,
 * or another thread has opened @p again. At once if @p is open. The lock is free at times, so this comes last.
 */
void link_port_settle(struct link_port *p);
/** link_port_addr() - Our own address as peers must use it. */
const struct link_addr *link_port_addr(const struct link_port *p);
/** link_poll() - Receive, acknowledge, retransmit, complete. Return: number of events handled, 0 = idle. */
int link_poll(struct link_port *p);
/**
 * link_calm() - After a link_poll() that found nothing, in the same hold of the lock: tells @c which words will change
 * when there is something for the next one. @passed: polls that have passed by @c since it was told last.
 * Return: false: the next one has more to ask.
 */
bool link_calm(struct link_port *p, struct calm *c, uint32_t passed);
/** link_next_deadline() - ns (node's clock) at which link_poll() must run again even if nothing arrives; CLK_NEVER. */
uint64_t link_next_deadline(struct link_port *p);

/* --- peers ------------------------------------------------------------------------------------------------------- */

/**
 * link_peer_get() - The peer at @addr, made on first use; one reference. Sends nothing.
 * Return: 0; -ENOMEM; -ENETUNREACH: another host, but this port is bound to loopback (logged, names the key `if=`).
 */
int link_peer_get(struct link_port *p, const struct link_addr *addr, struct link_peer **out);
/** link_peer_find() - The peer at @addr if there is one, without a reference; NULL. */
struct link_peer *link_peer_find(struct link_port *p, const struct link_addr *addr);
/** link_peer_put() - Drop a reference; outstanding frames still complete. */
void link_peer_put(struct link_peer *peer);
const struct link_addr *link_peer_addr(const struct link_peer *peer);
/**
 * link_peer_connect() - Choose the path of @peer's frames now, which the first one would do; sends nothing. RAW: looks
 * again whether shared memory reaches it, since the process there may be another one by now; for who begins anew with
 * it. The end of one that was there before, and has left, is told first (on_gone).
 * Return: 0; -EAGAIN that end has to wait for a poll; the peer's terminal status (as on_sent).
 */
int link_peer_connect(struct link_peer *peer);
/** link_peer_is_local() - True when shared memory carries its frames now. */
bool link_peer_is_local(const struct link_peer *peer);
/**
 * link_peer_nonce() - Nonce of the port that @peer's frames reach now: of its address, else as the path learned it; 0 =
 * not known (yet).
 */
uint32_t link_peer_nonce(const struct link_peer *peer);
/**
 * link_peer_label() - link_port_set_label() of a peer that shared memory reaches; 0: of no other, or it has none yet.
 */
uint64_t link_peer_label(const struct link_peer *peer);
/** link_peer_is_host() - Is its address one of this host's? May ask the system, at most once a second. */
bool link_peer_is_host(const struct link_peer *peer);
/**
 * link_peer_source() - Those of a port behind the network address of @peer: what it makes us keep is counted for them
 * together (book QUOTA_OWNER). NULL: it has not come by the network, or comes through shared memory, which only our own
 * user's processes do (doc/security.md has the reason). It may change when the process at a place does.
 */
struct quota_source *link_peer_source(const struct link_peer *peer);
/* One pointer for the port's owner, NULL at first. */
void *link_peer_user(const struct link_peer *peer);
void link_peer_set_user(struct link_peer *peer, void *user);

/* --- frames ------------------------------------------------------------------------------------------------------ */

/**
 * link_send() - Send one frame: @hdr (copied, <= LINK_HDR_MAX bytes) then @iov (<= LINK_IOV_MAX pieces).
 * @cookie: returned by on_sent exactly once if and only if 0 is returned; for RELIABLE and ORDERED the bytes behind
 * @iov stay
 *          unchanged until then. RAW: the bytes may be reused at once and on_sent is never called.
 * Frames may be held back until link_doorbell() or link_poll().
 * Return:  0; -EAGAIN no room now, nothing happened; -EMSGSIZE above LINK_FRAME_MAX; else the peer's terminal status
 *          (as on_sent) when it is already known dead; a peer without nonce is asked anew.
 */
int link_send(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len, const struct iovec *iov,
	      int iov_cnt, void *cookie);
/**
 * link_begin() - Where to write a small frame, so that it is copied only once: into the peer's memory, or into what the
 * network sends. Without a cookie, as on a RAW port always, nobody hears of it again unless it fails (on_lost; not
 * RAW). At most LINK_OWN_CNT are on their way through memory, and as many by the network (RAW: any number).
 * @cls: of @p, which its owner knows when this is compiled.
 * @len: header included, <= LINK_FRAME_MAX. Above LINK_OWN_MAX there is this way on one host only, and not with a
 * cookie.
 * Return: @len bytes, to be written and given off by link_commit() before anything else is done with @p;
 *         NULL: not this way, or not now, link_send() knows more. A RAW port has this way on one host only.
 */
uint8_t *link_begin(struct link_port *p, struct link_peer *peer, enum link_class cls, size_t len);
/** link_is_full() - link_begin() has given no memory for a frame to @peer: would link_send() find none, either? */
bool link_is_full(const struct link_peer *peer);
/**
 * link_commit() - The bytes are in place. @cookie: as link_send(); or NULL: then @tag is the caller's, shown by
 * on_lost.
 */
void link_commit(struct link_port *p, struct link_peer *peer, enum link_class cls, uint8_t *frame, size_t len,
		 void *cookie, uint64_t tag);
#define LINK_OWN_MAX 248u
#define LINK_OWN_CNT 1024u
/** link_is_idle() - No frame of link_commit() can fail any more (nor any other through shared memory). */
bool link_is_idle(const struct link_port *p);
/** link_peer_is_idle() - No frame of link_commit() to @peer can fail any more (nor any through shared memory). */
bool link_peer_is_idle(const struct link_peer *peer);
/**
 * link_send_late() - RAW: @hdr alone, which nobody waits for: it leaves with whatever follows, or by a poll some
 * microseconds later, and needs no doorbell. Return: as link_send().
 */
int link_send_late(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len);
/** link_doorbell() - Push out what link_send() held back. */
void link_doorbell(struct link_port *p);
/**
 * link_borrow() - RAW: from here to link_borrow_end(), which pushes everything out, the payload of link_send() stays
 * unchanged: frames to other hosts need not be copied. Nothing else is done with @p meanwhile.
 */
void link_borrow(struct link_port *p);
void link_borrow_end(struct link_port *p);
#define LINK_FRAME_MAX 18688u /* bytes, header included; every path takes this much */

/* --- bulk: one-sided copies -------------------------------------------------------------------------------------- */

enum { LINK_GET = 1, LINK_PUT = 2 }; /* rights of a region, and the two operations */

#define LINK_GROUP_MAX ((1u << 29) - 1)

/**
 * link_group_region_add() - Let peers of those ports of @n whose group is @group, up to LINK_GROUP_MAX, read (LINK_GET)
 * and/or write (LINK_PUT) [@addr, +@len). Group 0: peers of all its ports, whatever their group.
 * @key: out; 32 bits from the kernel's generator, not 0: who knows one key knows nothing of another.
 * Return: 0; -ENOMEM; -ENOSPC table full.
 */
int link_group_region_add(struct link_node *n, uint32_t group, void *addr, size_t len, unsigned rights, uint32_t *key);
static inline int link_region_add(struct link_node *n, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	return link_group_region_add(n, 0, addr, len, rights, key);
}
/**
 * link_port_region_add() - The same for peers of @p alone: to those of the node's other ports the key is unknown.
 * link_region_del() ends it.
 */
int link_port_region_add(struct link_port *p, void *addr, size_t len, unsigned rights, uint32_t *key);
/**
 * link_region_del() - On return no peer touches the memory any more (waits, bounded, for copies in flight).
 * Drops and retakes the lock if that takes long, which only a stopped process on this host can cause.
 */
void link_region_del(struct link_node *n, uint32_t key);
/**
 * link_bulk() - Copy @len bytes between @local and [@raddr, +@len) of the peer's region @key. @op: LINK_GET reads,
 * LINK_PUT writes.
 * @raddr: virtual address in the target. @len may be 0 (the key is still checked). on_bulk ends it exactly once if 0 is
 * returned.
 * Return: 0; -EAGAIN; -EOPNOTSUPP a RAW port and a peer on another host; the peer's terminal status.
 */
int link_bulk(struct link_port *p, struct link_peer *peer, int op, void *local, size_t len, uint64_t raddr,
	      uint32_t key, void *cookie);

/**
 * link_bulk_stop() - All reads of @cookie, and its writes to peers on this host, end with -EFAULT unless they have
 * ended. on_bulk comes. Return: nobody touches our memory for them any more; false: a peer is in the middle of a copy:
 * ask again, without the lock in between, until it is (a quarter of dead_after if that peer is stopped).
 */
bool link_bulk_stop(struct link_port *p, const void *cookie);

/**
 * link_offer() - The next frame will have @peer get just [@addr, +@len) of our region @key by link_bulk(): where that
 * saves time (bulk_offer.c), these bytes go with the next link_doorbell() or link_poll() without being asked for.
 */
void link_offer(struct link_port *p, struct link_peer *peer, uint32_t key, uint64_t addr, size_t len);
/** link_offer_missed() - @peer has not taken what was offered of @key, which exists, if that was: so fewer are made. */
void link_offer_missed(struct link_port *p, struct link_peer *peer, uint32_t key);

/**
 * link_peer_wrote() - Has @peer written so many bytes to our regions of which link_peer_told() has not told?
 * Always so of one that comes through shared memory: it may copy by itself.
 */
bool link_peer_wrote(const struct link_peer *peer, uint64_t len);
/** link_peer_told() - Our owner was told of @len of them. */
void link_peer_told(struct link_peer *peer, uint64_t len);

/** link_bulk_is_direct() - Can the kernel copy between our memory and this peer's, i.e. is link_bulk() the fast way? */
bool link_bulk_is_direct(const struct link_peer *peer);

/** link_region_is_spoilt() - Was there no memory any more for some bytes that a peer on another host wrote to @key? */
bool link_region_is_spoilt(const struct link_node *n, uint32_t key);

/** link_node_served() - Bytes that peers have read from and written to the regions of @n so far, whoever moved them. */
void link_node_served(const struct link_node *n, uint64_t *get_bytes, uint64_t *put_bytes);

/* --- wake-up ----------------------------------------------------------------------------------------------------- */

/*
 * Who wakes whom. An application that wants to sleep polls, looks at its own queues, calls link_arm() under the same
 * hold of the lock, and after 0 sleeps on link_wait_fd(). It is woken by
 *  - its peers: a frame, a completion or a datagram makes the descriptor readable;
 *  - the adapter thread: it works for ports whose application sleeps, too, and may take what woke both before the
 *    application looks. If a service round has made any callback of the port since link_arm(), the descriptor becomes
 *    readable, whether or not there is anything left to poll;
 *  - whoever calls link_wake(): the owner, when its service() has made something that no callback of the link told of.
 * The descriptor stays readable until the next link_arm(). Any number of threads may sleep on one port, each after a
 * link_arm() of its own, while others poll it: neither takes another's arming back (wait.c says why none is forgotten).
 * What one of them takes for another its callbacks learn, and the owner wakes those whom they concern. Being woken for
 * nothing is possible.
 */

/** link_wait_fd() - Readable when link_poll() may have work, after link_arm(). One per port. -ENOTSUP: in a world. */
int link_wait_fd(struct link_port *p);
/**
 * link_arm() - About to sleep on link_wait_fd(). A poll does not take it back.
 * Return: 0 sleep; -EAGAIN poll and look again: there is work, or the application has been woken (link_wake(), the
 * adapter thread) and nobody has polled since.
 */
int link_arm(struct link_port *p);
/**
 * link_is_armed() - Since link_arm() no bell has been rung, the application has not been woken by the adapter thread,
 * and nothing was left to link_send_late(): it need not be called again.
 */
bool link_is_armed(const struct link_port *p);
/** link_wake() - Make link_wait_fd() readable until the next link_arm() if the application sleeps on @p. */
void link_wake(struct link_port *p);

/* --- statistics -------------------------------------------------------------------------------------------------- */

/* Monotonic counts of one port; sizes in bytes. */
struct link_stats {
	uint64_t tx_frames, tx_bytes, rx_frames, rx_bytes;         /* frames of the owner, headers included */
	uint64_t net_tx_frames, net_rx_frames;                     /* of which not through shared memory */
	uint64_t net_tx_dgrams, net_rx_dgrams, net_tx_bytes, net_rx_bytes; /* datagrams, reliability's own included */
	uint64_t retrans, dup_rx, naks_tx, naks_rx, acks_tx;
	/* a peer was silent: asked; and it had lost something */
	uint64_t probes, timeouts;
	uint64_t drop_malformed, drop_nonce, drop_source, drop_version, drop_full, drop_seal;
	uint64_t drop_hello;                                       /* of another pair than the one that is open */
	uint64_t drop_quote;                                       /* ICMP errors about nothing that we sent */
	uint64_t half_expired;                                     /* strangers that said HELLO and nothing more */
	uint64_t drop_foreign;                                     /* requests for no region of ours */
	uint64_t floods, drop_gate;                                /* opened gates; lost there (link/net/gate.h) */
	uint64_t fault_drop, fault_dup, fault_reorder, fault_delay, fault_corrupt, fault_truncate, fault_partition;
	uint64_t bulk_get_bytes, bulk_put_bytes, bulk_cma_bytes, bulk_ring_bytes, bulk_frame_bytes;
	uint64_t late_byes;                /* goodbyes, and answers to them, of pairs that have ended already */
	uint64_t peers_dead, peers_closed; /* lost; and those that said goodbye, as at the end of each job */
	uint64_t wakeups_tx;
};
const struct link_stats *link_port_stats(const struct link_port *p);

/* --- the room: SOFTFABRIC_NET ------------------------------------------------------------------------------------- */

/* Fault rates are parts per million of datagrams. */
struct link_room {
	uint32_t paths;                      /* LINK_PATH_* */
	uint32_t drop_ppm, dup_ppm, reorder_ppm, corrupt_ppm, truncate_ppm;
	uint64_t delay_ns;                   /* added to every datagram, +-50 % */
	uint64_t seed;                       /* 0: from the system, and logged */
	uint64_t dead_after_ns;              /* silence after which a peer counts as dead; CLK_NEVER */
	uint64_t linger_ns;                  /* longest drain in link_port_close() */
	uint64_t partition_ns[2];            /* [from, to) after the port opened: nothing passes; 0,0 = never */
	uint64_t drop_nth, dup_nth, delay_nth; /* exactly the n-th datagram sent by a port (1-based); 0 = none */
	uint64_t shm_budget;                 /* bytes in /dev/shm per uid; 0 = 25 % of what is free */
	uint64_t mtu;                        /* path MTU for udp, bytes of UDP payload; 0 = ask the system */
	char ifname[64];                     /* if=: interface name, address, or auto; "" = lo */
	char net[64];                        /* net=: prefix of the hosts (for 20-bit and 16-bit addresses) */
	char map[256];                       /* map=: NIC or LID -> IP[:base],... */
	char pcap[256];                      /* capture file, "" = none */
	bool has_guard;                      /* guard=: accesses to memory that has gone fail, see base/guard.h */
	bool secrecy;                        /* secrecy=: sealed datagrams are encrypted, too */
	bool is_sealed;                      /* derived: there is a key= */
	uint8_t seal_key[32];                /* derived: from the file of key=, see link/net/seal.h */
	bool has_faults;                     /* derived: any fault key set */
};
enum { LINK_PATH_SHM = 1, LINK_PATH_UDP = 2 };

/**
 * link_room_get() - The room of this process, parsed once from SOFTFABRIC_NET or section [net] of the file
 * SOFTFABRIC_CONF.
 * Return: 0; -EINVAL with one sentence that names the mistake and the known keys (@err, may be NULL).
 */
int link_room_get(const struct link_room **out, char *err, size_t err_len);
/** link_room_parse() - The same for a given text, for tests. */
int link_room_parse(const char *text, struct link_room *out, char *err, size_t err_len);
/**
 * link_room_ip() - Address of adapter @n (0-based) of this host in @room: n-th address of `if=`, or 127.0.0.(1+n) on
 * lo. -ENODEV, why in @err.
 */
int link_room_ip(const struct link_room *room, unsigned n, uint8_t ip[16], char *err, size_t err_len);

#endif
