// SPDX-License-Identifier: BSD-2-Clause
// What the files of link/ share: node, port and peer, and the seams between port.c, shm.c, rel.c, the carriers and
// bulk.c.
#ifndef SF_LINK_LINK_INT_H
#define SF_LINK_LINK_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/ahead.h"
#include "base/keyed.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/slab.h"
#include "link/core/ip.h"
#include "link/link.h"

/*
 * Who calls whom on the way out: link_send (port_out.c) -> shm_send (shm.c)                   local peer, no conditions
 *                                link_send (port_out.c) -> rel_send (rel.c) -> carrier_send   everything else
 * and in:                        link_poll (port.c) -> shm_poll -> port_deliver
 *                                                   -> carrier poll -> rel_input -> port_deliver
 * A carrier stack is built by port.c:  cap -> fault -> { seal -> udp | shm datagrams }; the decorators are absent
 * unless asked for.
 */

/* What a frame is for. The kind travels with the frame on every path. */
enum link_kind {
	LINK_K_NIC = 1, /* for the port's owner */
	LINK_K_BULK,    /* for bulk.c */
	LINK_K_NUM
};

struct shm_port;
struct shm_peer;
struct rel;
struct rel_peer;
struct bulk_node;
struct bulk_port;
struct bulk_client;

enum {
	AGENT_SLEEPS = 1, /* and wants doorbells */
	AGENT_GUARDS = 2, /* a guarded socket has something, and the lock was never free */
};

struct link_node {
	struct link_node_attr attr;
	struct lock *lock;
	const struct link_room *room;
	struct clk clk;
	struct rng rng;
	bool lossless;             /* no fault and no capture: local frames may go straight through shared memory */
	struct link_port *ports;   /* list, by port->next; lock */
	struct bulk_node *bulk;    /* region table */
	uint64_t bulk_id;          /* random, names the shared region table for peers; 0: there is none */
	struct live *live;         /* what softfabric top reads (live.c); NULL: nobody wants it */
	struct agent *agent;       /* adapter thread (agent.c); NULL until the first peer or region */
	/* Starts it if it does not run and the node allows one; failure is logged and lived with. */
	void (*agent_start)(struct link_node *n);
	/* +1 for every link_poll() of the application; the agent reads it without the lock */
	_Atomic uint64_t poll_epoch;
	_Atomic uint64_t agent_at_ns; /* the agent wakes then; 0: it is awake or will be at once (agent.c) */
	_Atomic uint32_t hurry;    /* it should not sleep for long (agent_soon()) */
	_Atomic uint32_t armed;    /* AGENT_*: what the next poll takes back */
	pid_t owner_pid;           /* to notice fork */
	uint8_t *fork_mark; /* 1 here, 0 in a child (MADV_WIPEONFORK); NULL where the kernel has no such pages */
	uint32_t cpu_cnt;          /* in the affinity mask when the node was opened */
	uint32_t local_cnt;        /* peers with shared memory: a guess at who else polls here */
	struct host_addrs *host;   /* this host's addresses (host.c) */
	uint64_t left_ns;          /* end of the last poll of a port that left copies under way there; else 0 */
	/* adaptive waiting (idle.c); touched by pollers only, races are harmless */
	_Atomic uint32_t idle_polls, idle_limit;
	_Atomic uint64_t idle_quick_ns; /* what the quickest yield took; 0 = none yet */
	_Atomic int32_t idle_tid; /* the thread that has opened a port or yielded last (idle_note()); for the agent */
};

/** link_secret() - Bytes that nobody can guess; in a world of its own those of its seed, so that runs repeat. */
static inline void link_secret(struct link_node *n, void *out, size_t len)
{
	uint8_t *p = out;

	if (!n->clk.virt_ns)
		keyed_secret(out, len);
	for (size_t i = 0; n->clk.virt_ns && i < len; i++)
		p[i] = (uint8_t)rng_u64(&n->rng);
}

struct link_peer {
	struct link_port *port;
	struct link_addr addr;
	void *user;
	uint32_t refs;
	int16_t dead;              /* 0, or the terminal -errno that every later call returns */
	bool shm_tried;
	bool is_met;               /* it once was there: answered over the network, or could be mapped */
	bool said_bye;             /* it closes its port, which is no loss */
	struct ahead offers;       /* bulk_offer.c */
	bool is_near;              /* its frames have come through shared memory, whichever way ours go */
	uint32_t ahead;            /* first of the reads whose bytes it sends unasked: slab_id() + 1; 0: none */
	struct shm_peer *shm;      /* set: frames go straight through shared memory */
	struct rel_peer *rel;      /* set at the first frame that needs repair */
	struct bulk_client *bulk;  /* while it is owed data or answers */
	uint64_t written;          /* bytes that its PUT frames have brought: link_peer_wrote() */
	struct link_peer *hnext;   /* hash chain of port->peer_tab */
};

/* What the paths and the bulk service tell the port they work for, which stands above them. */
struct port_up {
	/* A whole frame arrived that is not for the port's owner, see port_deliver(). */
	int (*other)(struct link_port *p, struct link_peer *peer, enum link_kind kind, const uint8_t *frame,
		     uint32_t len);
	/* A datagram of the reliability module came through shared memory. */
	void (*dgram)(struct link_port *p, const struct link_addr *src, const void *buf, size_t len);
	/* A frame with a cookie has ended (status as link_ops.on_sent). */
	void (*sent)(struct link_port *p, enum link_kind kind, void *cookie, int status);
	/* A frame of link_commit() has failed. */
	void (*lost)(struct link_port *p, struct link_peer *peer, uint64_t tag, const void *frame, size_t len,
		     int status);
	/*
	 * @peer was found gone (@status -errno): ends everything of it on every path, once. A peer without nonce is as
	 * new afterwards; what its owner sends while this runs is refused with @status.
	 */
	void (*dead)(struct link_peer *peer, int status);
	/*
	 * Frames of incarnation @nonce at the place of @peer have come through shared memory. Is it another one than
	 * whom ours reach over the network, or can that not be told (RAW)? renew(): then the path is chosen anew.
	 */
	bool (*is_other)(const struct link_peer *peer, uint32_t nonce);
	void (*renew)(struct link_peer *peer);
	/* link_send() for any kind; the bulk service uses it with LINK_K_BULK. Same contract. */
	int (*out)(struct link_port *p, struct link_peer *peer, enum link_kind kind, const void *hdr, size_t hdr_len,
		   const struct iovec *iov, int iov_cnt, void *cookie);
	/*
	 * Shows @fn each piece of each frame of the bulk service with a cookie that the network may have to send, again
	 * or at all: it may point it elsewhere, and nothing reads the old place afterwards.
	 */
	void (*repoint)(struct link_port *p, void (*fn)(void *arg, void *cookie, struct iovec *iov), void *arg);
};

#define LINK_SHUT UINT32_MAX /* no group of regions: link_port_shut() */

struct link_port {
	struct link_node *node;
	struct link_port *next;
	struct link_addr self;
	enum link_class cls;
	const struct port_up *up;
	const struct link_ops *ops;
	void *ctx;
	struct shm_port *shm;      /* NULL: no shared memory for this port */
	struct carrier *net;       /* top of the carrier stack */
	struct rel *rel;
	struct bulk_port *bulk;
	struct link_peer **peer_tab; /* hash by address; grows */
	uint32_t peer_cnt, peer_mask;
	struct slab peer_slab;
	struct keyed hash_key;
	uint32_t peer_free_cnt;    /* peers without references that the next sweep may free */
	uint32_t idle_skip;        /* polls until the next look at the sockets */
	uint32_t net_busy;         /* polls for which the sockets are looked at each time: something arrived lately */
	uint32_t polls;            /* wraps */
	uint32_t polls_seen;       /* at the agent's last look: a port that the application neglects */
	uint32_t events;           /* wraps; what polls have found, and ends that were told */
	uint64_t now_ns;           /* read once in a poll, and only if needed; 0 = not yet */
	uint64_t out_ns;           /* when the last frame was given to rel */
	struct carrier *local;     /* the carrier of local_open() in the stack, or NULL */
	int src_fd;                /* epoll of segment and socket, or one of them; -1 = not asked for yet */
	bool src_has_net;          /* the socket is in there: see wait.c */
	int wait_fd, wake_fd;      /* the application's: epoll of src_fd and of this eventfd; -1 = not asked for yet */
	uint8_t armed;             /* PORT_ARM_*: who sleeps */
	uint32_t events_armed;     /* @events when the application went to sleep */
	uint32_t epoch_armed;      /* node->poll_epoch then */
	union {
		struct {
			bool net_used; /* sockets are polled; else the agent watches them and sets this */
			bool net_look; /* look at the sockets in the next poll, used or not */
			bool bulk_due; /* bulk_outstanding() may be more than 0; set by the bulk service */
		};
		uint32_t rest_due; /* not 0: one of these is set, which a poll asks for all at once */
	};
	bool makes_up;             /* this poll takes longer than others, because the program had computed */
	bool net_off;              /* the room has no udp: whom shared memory does not reach nothing does */
	bool shm_wanted;           /* the room and the owner allow shared memory */
	int agent_fd;              /* src_fd, or the bell alone, which the agent watches; -1: it does not */
	bool in_guard;             /* the agent watches the socket */
	bool is_refusal_said;      /* an address that the room does not reach has been logged */
	bool is_seal_said;         /* so has a sealed datagram that cannot be read */
	bool is_dirty;             /* frames were given to rel since its last flush */
	bool is_borrowing;         /* RAW: payloads stay until rel_carrier_flush() */
	bool by_place;             /* link_port_attr: all peers have nonce 0 */
	bool nonces_repeat;        /* link_port_attr */
	uint32_t group;            /* link_port_attr */
	uint32_t serves;           /* @group, or LINK_SHUT */
	uint32_t opened_cnt;       /* how often it was opened again after it was shut */
	bool closing;
	bool is_cancelled;         /* link_port_close() ends what is left: no frame is taken any more */
	uint64_t opened_ns;
	uint64_t left_frames;      /* stats.rx_frames at the end of the last poll with copies under way */
	uint64_t looked_ns;        /* end of the last look at the socket, if copies were under way and nobody sleeps */
	struct link_stats stats;
};

/**
 * port_deliver() - A frame arrived. While the port drains frames still go to its owner, which may refuse them.
 * Return: 0 taken, > 0 refusal code for the sender.
 */
static inline int port_deliver(struct link_port *p, struct link_peer *peer, enum link_kind kind,
			       const uint8_t *frame, uint32_t len)
{
	if (unlikely(kind != LINK_K_NIC))
		return p->up->other(p, peer, kind, frame, len);
	p->stats.rx_frames++;
	p->stats.rx_bytes += len;
	return p->ops->on_frame(p->ctx, peer, frame, len);
}

/* --- port_out.c -------------------------------------------------------------------------------------------------- */

/** port_frame_out() - port_up.out(). */
int port_frame_out(struct link_port *p, struct link_peer *peer, enum link_kind kind, const void *hdr, size_t hdr_len,
		   const struct iovec *iov, int iov_cnt, void *cookie);

/*
 * APP: threads of the application may sleep. WOKEN: they were woken in place of a bell, and nobody has polled since.
 * CALLED: therefore wait_fd is readable, until the next link_arm(). SERVED: by the adapter thread, which is the caller
 * of link_poll() while this is set.
 */
enum { PORT_ARM_APP = 1, PORT_ARM_AGENT = 2, PORT_ARM_WOKEN = 4, PORT_ARM_CALLED = 8, PORT_ARM_SERVED = 16 };
/* with one of these set a poll has more to do: port_awake() */
#define PORT_ARM_POLL (PORT_ARM_AGENT | PORT_ARM_WOKEN | PORT_ARM_SERVED)

/** port_flush() - Hand all that is due to the carrier, and have it sent. */
void port_flush(struct link_port *p, uint64_t now_ns);
/** port_soon() - If the application stops polling now, what we owe and what we wait for must not wait for it. */
void port_soon(struct link_port *p, uint64_t now_ns);

/* --- path.c ------------------------------------------------------------------------------------------------------ */

/**
 * port_choose_path() - For the first frame to @peer: shared memory if it has some for us.
 * Return: 0; the status of a peer that no path reaches.
 */
int port_choose_path(struct link_peer *peer);
/* As port_up says. */
void port_peer_dead(struct link_peer *peer, int status);
bool port_peer_is_other(const struct link_peer *peer, uint32_t nonce);
void port_peer_renew(struct link_peer *peer);

/* --- wait.c ------------------------------------------------------------------------------------------------------- */

/** port_awake() - @p is polled though somebody sleeps on it, or by the agent. In place of port_count_poll(). */
void port_awake(struct link_port *p);
/** port_count_poll() - The application polls. */
static inline void port_count_poll(struct link_node *n)
{
	/* relaxed, no read-modify-write: the lock holder is the only writer, the agent only looks for change */
	uint64_t epoch = atomic_load_explicit(&n->poll_epoch, memory_order_relaxed);

	atomic_store_explicit(&n->poll_epoch, epoch + 1, memory_order_relaxed);
}
#define PORT_TICK_POLLS 64u /* every so many polls port_tick(); in each one of the agent */
/** port_arm() - link_arm() for @who (PORT_ARM_*). */
int port_arm(struct link_port *p, uint8_t who);
/** port_watch() - The agent, if there is one, sleeps on @p as well from now on. */
void port_watch(struct link_port *p);
/** port_src_net() - The socket goes into src_fd, or out of it, if it is not so already. Return: 0; -errno. */
int port_src_net(struct link_port *p, bool is_in);
/** port_served() - The agent has polled: whoever sleeps on @p must learn what it took. */
void port_served(struct link_port *p);

/* --- peer.c: the table of a port's peers -------------------------------------------------------------------------- */

/** port_peer_find() - The peer at @addr, by_place whoever is there; NULL if there is none yet. */
struct link_peer *port_peer_find(struct link_port *p, const struct link_addr *addr);
/** port_peer_in() - The same for something that arrived; made if new. NULL: out of memory or too many strangers. */
struct link_peer *port_peer_in(struct link_port *p, const struct link_addr *addr);
/** port_peer_status() - Terminal status of the peer at @addr; 0: it has none, or is not known. */
int port_peer_status(struct link_port *p, const struct link_addr *addr);
/** port_peer_unused() - A path has given up its state of @peer: it goes with the next sweep if nobody else needs it. */
void port_peer_unused(struct link_peer *peer);
/**
 * port_met_by_net() - @peer has come by the network: unless a path was chosen our answers go that way, since it may be
 * unable to open our segment.
 */
void port_met_by_net(struct link_peer *peer);
int peer_tab_open(struct link_port *p);
void peer_tab_close(struct link_port *p);
/** peer_add() - A new peer; the caller knows that there is none. NULL: out of memory. */
struct link_peer *peer_add(struct link_port *p, const struct link_addr *addr);
/** peer_sweep() - Free peers that nothing refers to, once there are many. Not inside a callback. */
void peer_sweep(struct link_port *p);
/** peer_foreach() - @fn for all peers; it must not add or free any. */
void peer_foreach(struct link_port *p, void (*fn)(struct link_peer *peer, void *arg), void *arg);

/* --- exit() with objects open: destructors remove what others would find in /dev/shm --- */

/**
 * exit_lock() - Take @m in a destructor. Other threads still run and hold it for a moment only; not so the one that a
 * signal handler interrupted which called exit(). Return: false: not to be had, and the files are left to a reaper.
 */
static inline bool exit_lock(pthread_mutex_t *m)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	return pthread_mutex_timedlock(m, &until) == 0;
}

/* --- host.c, fork.c, idle.c --------------------------------------------------------------------------------------- */

/** host_ip_is_local() - Whether @ip is an address of this host; may ask the system again, at most once a second. */
bool host_ip_is_local(struct link_node *n, const uint8_t ip[16]);
struct host_addrs *host_addrs_open(void); /* NULL: no memory */
void host_addrs_close(struct host_addrs *h); /* NULL is fine */
/** fork_mark_open() - For node->fork_mark. */
uint8_t *fork_mark_open(void);
void fork_mark_close(uint8_t *mark); /* NULL is fine */
/** idle_note() - The caller polls for @n, or will. */
void idle_note(struct link_node *n);
/** idle_is_alone() - Have the last yields let nobody else run? */
bool idle_is_alone(const struct link_node *n);
/** idle_crowd() - More local pollers than CPUs are known: yield early from now on. */
void idle_crowd(struct link_node *n);

/* --- live.c: what softfabric top reads --- */

/* How a peer is reached. @sent: shm: slots of 64 bytes of the lane in use; net: segments. Both wrap. */
struct live_path {
	const char *name;  /* "shm", "net"; NULL: no path is chosen yet */
	uint32_t sent, waiting; /* the latter: of them, not yet known to have arrived */
	uint32_t rtt_ns;   /* 0: not measured */
	int status;        /* its terminal -errno */
};

/**
 * live_open() - If SOFTFABRIC_LIVE asks for it. While node->live is set the agent calls live_tick() now and then,
 * without the lock.
 */
void live_open(struct link_node *n);
void live_tick(struct link_node *n);
/** live_close() - The agent has ended. */
void live_close(struct link_node *n);
/** live_port_end() - @p closes: its counters beside those of its adapter, if it moved anything. Lock held. */
void live_port_end(const struct link_port *p);
void shm_peer_tell(const struct shm_peer *sp, struct live_path *out);
void rel_peer_tell(const struct rel_peer *rp, struct live_path *out);

/* --- shm.c: same host --------------------------------------------------------------------------------------------- */

int shm_port_open(struct link_port *p, struct shm_port **out);
/** shm_port_hide() - Nobody attaches from now on, and the address's next owner may have a segment. */
void shm_port_hide(struct shm_port *s);
void shm_port_close(struct shm_port *s);
/** shm_peer_attach() - Return: 0; -ENOENT not on this host, not ours, or another incarnation; -ENOSPC /dev/shm full. */
int shm_peer_attach(struct shm_port *s, struct link_peer *peer, struct shm_peer **out);
void shm_peer_detach(struct shm_peer *sp);
/** shm_send() - One frame; @cookie may be NULL (nobody cares). 0; -EAGAIN. */
int shm_send(struct shm_peer *sp, enum link_kind kind, const void *hdr, size_t hdr_len, const struct iovec *iov,
	     int iov_cnt, void *cookie);
/** shm_begin(), shm_commit() - link_begin() and link_commit() through shared memory. */
uint8_t *shm_begin(struct shm_peer *sp, size_t len, bool is_raw);
void shm_commit(struct shm_peer *sp, uint8_t *frame, size_t len, bool is_raw, void *cookie, uint64_t tag);
/** shm_has_lane() - Has @sp a lane of ours alone, so that where shm_begin() finds no room shm_send() finds none? */
bool shm_has_lane(const struct shm_peer *sp);
/** shm_send_dgram() - A datagram of the reliability module over shared memory (faults or capture on): may be lost. */
int shm_send_dgram(struct shm_peer *sp, const struct iovec *iov, int iov_cnt);
/** shm_poll() - Frames, datagrams, refusals and completions, as port_up says. Return: events. */
int shm_poll(struct shm_port *s, int budget);
/** shm_calm() - link_calm() of what shm_poll() asks for. */
bool shm_calm(struct shm_port *s, struct calm *c, uint32_t passed);
uint64_t shm_next_deadline(struct shm_port *s);
/** shm_timer() - Liveness of peers we wait for; idle lanes given back. Called at least every 100 ms while polled. */
void shm_timer(struct shm_port *s, uint64_t now_ns);
/**
 * shm_nudge() - Peers that have not taken a frame of ours for a while, and may nap. Called from time to time while we
 * poll, and have a CPU of our own. Now and then system calls.
 */
void shm_nudge(struct shm_port *s, uint64_t now_ns);
/** shm_port_set_nudge() - Peers may add SHM_NUDGE to this eventfd; -1: not any more. */
void shm_port_set_nudge(struct shm_port *s, int fd);
#define SHM_NUDGE (1ull << 32)
/** shm_limit_look() - Is the limit on descriptors too low by now to open peers? Who comes is told. Any thread. */
void shm_limit_look(void);
int shm_wait_fd(struct shm_port *s);
int shm_arm(struct shm_port *s); /* 0; -EAGAIN something is there */
void shm_disarm(struct shm_port *s);
bool shm_is_armed(const struct shm_port *s); /* the bell is up and has not been rung since */
/* For bulk.c: can we copy from/to the peer's memory by process_vm_*; is its owner polling right now. */
pid_t shm_peer_pid(const struct shm_peer *sp);
void shm_port_set_label(struct shm_port *s, uint64_t label);
uint64_t shm_peer_label(const struct shm_peer *sp);
/** shm_port_set_serves() - Shows link_port.serves to peers that copy by themselves. */
void shm_port_set_serves(struct shm_port *s, uint32_t serves);
/** shm_peer_serves() - What that is by now at a peer of ours. */
uint32_t shm_peer_serves(const struct shm_peer *sp);
/** shm_port_set_nonce() - link_port_set_nonce(). */
void shm_port_set_nonce(struct shm_port *s, uint32_t nonce);
/** shm_peer_nonce() - Of the incarnation whose segment it is. */
uint32_t shm_peer_nonce(const struct shm_peer *sp);
/** shm_peer_is_unseen() - It has said that it cannot map our segment. */
bool shm_peer_is_unseen(const struct shm_peer *sp);
/** shm_peer_has_closed() - It has said that it closes: its end is no loss. */
bool shm_peer_has_closed(const struct shm_peer *sp);
/** shm_peer_is_over() - The same; if so, the next poll tells its end. */
bool shm_peer_is_over(struct shm_peer *sp);
/** shm_peer_is_void() - It was found dead, and its holder has not been told: what is sent there is swallowed. */
bool shm_peer_is_void(const struct shm_peer *sp);
/** shm_addr_pid() - Process that has the live segment for @addr (nonce ignored); 0: none. System calls. */
pid_t shm_addr_pid(const struct link_addr *addr);
bool shm_peer_cma_ok(struct shm_peer *sp);
bool shm_peer_is_polling(struct shm_peer *sp);
/** shm_peer_node() - Random id of the peer's node, to find its region table; 0 = unknown. */
uint64_t shm_peer_node(const struct shm_peer *sp);
/**
 * shm_peer_expire() - Looks whether the owner of @sp still lives. If not, its end is told now, or, if it has sent
 * something that is still to be read, by a poll behind that. May ask the system. Return: it has left.
 */
bool shm_peer_expire(struct shm_peer *sp);
uint32_t shm_outstanding(const struct shm_port *s);
/** shm_untaken() - Peers that live and have not yet taken all that lies in their lanes. */
uint32_t shm_untaken(struct shm_port *s);

/* --- carriers: unreliable datagrams ------------------------------------------------------------------------------- */

typedef void (*carrier_rx_fn)(void *ctx, const struct link_addr *src, const void *buf, size_t len);

/* Anybody can send an ICMP error: it means something only if it quotes what a stranger cannot know. */
struct carrier_error {
	int err;              /* ECONNREFUSED nobody listens there; EMSGSIZE too long for the path */
	uint32_t mtu;         /* EMSGSIZE: the path takes so many bytes */
	const uint8_t *quote; /* first bytes of the datagram; NULL: this system says so itself */
	size_t quote_len;
};
#define CARRIER_QUOTE_MAX 64u

struct carrier_ops {
	/*
	 * Queue one datagram (gathered, total <= mtu unless @dst says LINK_ADDR_CUT). The bytes must stay until flush.
	 * Loss is silent. 0; -EAGAIN; -ENETUNREACH
	 */
	int (*send)(struct carrier *c, const struct link_addr *dst, const struct iovec *iov, int iov_cnt);
	void (*flush)(struct carrier *c);
	/* Hand up to @budget datagrams to c->rx; @buf is borrowed. Return: how many. */
	int (*poll)(struct carrier *c, int budget);
	uint32_t (*mtu)(struct carrier *c, const struct link_addr *dst); /* largest datagram to @dst, bytes */
	uint64_t (*next_deadline)(struct carrier *c); /* CLK_NEVER if none */
	int (*fd)(struct carrier *c);                 /* -1 if none */
	void (*close)(struct carrier *c);             /* closes the inner carrier too */
};

struct carrier {
	const struct carrier_ops *ops;
	struct link_port *port;
	carrier_rx_fn rx;
	void *rx_ctx;
	/* an error came back about something that was sent to @dst; may be NULL. Told by poll() only. */
	void (*error)(void *ctx, const struct link_addr *dst, const struct carrier_error *e);
};

/**
 * udp_open() - Binds @p->self.ip and port (0 = any; the bound one is written to p->self.port). 0; -EADDRINUSE; -errno.
 */
int udp_open(struct link_port *p, struct carrier **out);
/** local_open() - Over shared-memory datagrams where the peer has a segment, over @inner otherwise. Owns @inner. */
int local_open(struct link_port *p, struct carrier *inner, struct carrier **out);
/** local_input() - A datagram came through shared memory. */
void local_input(struct carrier *c, const struct link_addr *src, const void *buf, size_t len);
/** local_peer_drop() - The peer at @addr is dead: let go of its segment. */
void local_peer_drop(struct carrier *c, const struct link_addr *addr);
/** local_peer_renew() - Another process may be at @addr: look again for a segment, unless there is a live one. */
void local_peer_renew(struct carrier *c, const struct link_addr *addr);
int fault_open(struct link_port *p, struct carrier *inner, struct carrier **out);
int cap_open(struct link_port *p, struct carrier *inner, struct carrier **out);

/* --- rel.c: reliability over a carrier; no I/O and no clock of its own -------------------------------------------- */

int rel_open(struct link_port *p, struct carrier *net, struct rel **out);
void rel_close(struct rel *r);
/** rel_send() - RELIABLE/ORDERED: until acknowledged; RAW: fire and forget. 0; -EAGAIN; terminal status of the peer. */
int rel_send(struct rel *r, struct link_peer *peer, enum link_kind kind, const void *hdr, size_t hdr_len,
	     const struct iovec *iov, int iov_cnt, void *cookie, uint64_t now_ns);
/**
 * rel_begin() - Where to write a frame of at most LINK_OWN_MAX bytes for rel_commit(), before anything else is done
 * with @r. NULL: not now, rel_send() says why. Not RAW.
 */
uint8_t *rel_begin(struct rel *r, struct link_peer *peer);
/** rel_commit() - The @len bytes are in place. @cookie, or if it is NULL @tag: as link_commit(). */
void rel_commit(struct rel *r, struct link_peer *peer, size_t len, void *cookie, uint64_t tag, uint64_t now_ns);
/** rel_input() - A datagram arrived; anything may be in it. */
void rel_input(struct rel *r, const struct link_addr *src, const void *buf, size_t len, uint64_t now_ns);
/** rel_error() - An error came back about a datagram to @dst; anything may be in it. */
void rel_error(struct rel *r, const struct link_addr *dst, const struct carrier_error *e, uint64_t now_ns);
/** rel_linger() - RAW: what has been sent since the last flush may wait for company until rel_next_deadline(). */
void rel_linger(struct rel *r, uint64_t now_ns);
/** rel_lingers() - Does anything? */
bool rel_lingers(const struct rel *r);
/** rel_may_wait() - What was sent since the last flush is the middle of a burst: it may wait for the next poll. */
bool rel_may_wait(const struct rel *r, uint64_t now_ns);
/** rel_flush() - Send what windows allow, owed acknowledgements, and due retransmissions. */
void rel_flush(struct rel *r, uint64_t now_ns);
/**
 * rel_ack_owed() - Nothing of ours follows on which acknowledgements could ride: the next flush sends those that wait
 * for it. Return: there are any.
 */
bool rel_ack_owed(struct rel *r, uint64_t now_ns);
/** rel_repoint() - port_up.repoint(), of frames of @kind. */
void rel_repoint(struct rel *r, enum link_kind kind, void (*fn)(void *arg, void *cookie, struct iovec *iov),
		 void *arg);
/** rel_carrier_flush() - What has been handed to the carrier leaves: nothing refers to its bytes afterwards. */
void rel_carrier_flush(struct rel *r);
uint64_t rel_next_deadline(struct rel *r);
/** rel_peer_drop() - Forget a peer; outstanding frames end with @status. */
void rel_peer_drop(struct rel *r, struct link_peer *peer, int status);
/** rel_drain() - For close: stop taking frames, start goodbyes. Return: true once nothing is owed either way. */
bool rel_drain(struct rel *r, uint64_t now_ns);
uint32_t rel_outstanding(const struct rel *r);
/** rel_own() - Frames of rel_commit() without a cookie that have not ended. */
uint32_t rel_own(const struct rel *r);
uint32_t rel_peer_own(const struct rel_peer *rp); /* to one peer */
/**
 * rel_progress() - Changes whenever a datagram of one at @addr has brought something new. RAW, which cannot tell: is
 * there a peer that our owner knows?
 */
uint32_t rel_progress(struct rel *r, const struct link_addr *addr);
/** rel_met() - Low half of the nonce of the pair that a handshake has made since the last call; 0: none. */
uint32_t rel_met(struct rel *r);
/** rel_known() - @fn for peers that our owner knows; @nonce: of their datagrams, low half; 0: there is none yet. */
void rel_known(struct rel *r, void (*fn)(void *arg, const struct link_addr *addr, uint32_t nonce), void *arg);
/** rel_peer_nonce() - As the handshake told; 0: there was none yet. */
uint32_t rel_peer_nonce(const struct rel_peer *rp);

/* --- bulk.c ------------------------------------------------------------------------------------------------------- */

int bulk_node_open(struct link_node *n, struct bulk_node **out);
void bulk_node_close(struct bulk_node *b);
int bulk_port_open(struct link_port *p, struct bulk_port **out);
void bulk_port_close(struct bulk_port *b); /* outstanding requests end with -ECANCELED */
/** bulk_port_shut() - The port is shut: what it sends to its peers ends. */
void bulk_port_shut(struct bulk_port *b);
/** bulk_port_settle() - Waits until no peer copies that has begun before the port was shut, see link_port_settle(). */
void bulk_port_settle(struct bulk_port *b);
/** bulk_offer_send() - What link_offer() has announced, if anything, in the datagram of its frame. */
void bulk_offer_send(struct bulk_port *b);
int bulk_on_frame(struct bulk_port *b, struct link_peer *peer, const struct view *frame);
void bulk_on_sent(struct bulk_port *b, void *cookie, int status);
void bulk_peer_dead(struct bulk_port *b, struct link_peer *peer, int status);
/** bulk_poll() - Steps running copies until 64 KiB have moved; one kernel copy may be longer. Return: events. */
int bulk_poll(struct bulk_port *b, uint64_t now_ns);
uint64_t bulk_next_deadline(const struct bulk_port *b);
uint32_t bulk_outstanding(const struct bulk_port *b);

/* --- agent.c: the adapter thread ---------------------------------------------------------------------------------- */

void agent_start(struct link_node *n); /* link_node.agent_start() */
void agent_stop(struct link_node *n); /* not under the lock */

/* --- agent_call.c: what the others say to it --------------------------------------------------------------------- */

/** agent_disarm() - The application polls again (port_awake(), when node->armed is set). */
void agent_disarm(struct link_node *n);
/** agent_kick() - Make the agent look again: a port was added or removed, or a deadline moved closer. */
void agent_kick(struct link_node *n);
#define AGENT_SOON_NS (NS_PER_MS / 2)
#define AGENT_NAP_NS  (4 * NS_PER_MS) /* the longest nap of the thread beside an application that polls and has a CPU */
/**
 * agent_soon() - Something of @n is due within AGENT_SOON_NS: the agent looks by then whether the application polls.
 */
void agent_soon(struct link_node *n, uint64_t now_ns);
/** agent_port_add() - There is an agent: it watches @fd for @p, and @p's socket where the port leaves that alone. */
void agent_port_add(struct link_port *p, int fd);
/** agent_port_del() - The port is about to close its descriptors. */
void agent_port_del(struct link_port *p);
/** agent_guard_del() - The port looks at its sockets by itself from now on. */
void agent_guard_del(struct link_port *p);
/** port_disarm() - It does not sleep on @p any more. */
void port_disarm(struct link_port *p);
/** port_net_use() - From now on link_poll() looks at the sockets by itself. */
void port_net_use(struct link_port *p);

#endif
