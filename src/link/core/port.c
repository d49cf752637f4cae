// SPDX-License-Identifier: BSD-2-Clause
// Ports: what arrives, opening, and closing in order. path.c has the peers, port_out.c sends.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/reserve.h"
#include "link/core/link_int.h"
#include "link/net/seal.h"

/*
 * Theory of operation
 *
 * Looking at an empty socket costs more than a whole shared-memory message. A port whose peers are
 * all local therefore leaves its socket to the adapter thread, which sleeps on it anyway (net_used
 * false); the first datagram from or to anybody changes that for good. Then the socket is looked at
 * in each poll while something is on its way or arrived lately, else in every 16th. The clock is
 * read only if somebody needs it.
 */

#define POLL_SHM_BUDGET 64
#define POLL_NET_BUDGET 64
#define NET_SKIP	15 /* idle polls between two looks at the sockets */
#define NET_BUSY_POLLS	64 /* looks that go on after the last datagram */
#define PAUSE_MIN_NS	(20 * NS_PER_US) /* between two polls with copies under way: the program computes there */
#define PAUSE_WORTH	4u /* times that is what the next poll may take, ... */
#define PAUSE_IDLE	4u /* ... and this part of it without anything coming */
#define MAKE_UP_MAX_NS	(NS_PER_MS / 2) /* the former */
#define MAKE_UP_IDLE_NS (100 * NS_PER_US) /* the latter */
#define MAKE_UP_FRAMES	64 /* of the owner's, which has events to take from them */
#define DRAIN_YIELDS	64 /* then the drain sleeps between polls */
#define DRAIN_NAP_NS	50000

static uint64_t port_now(struct link_port *p)
{
	if (!p->now_ns)
		p->now_ns = clk_now_ns(&p->node->clk);
	return p->now_ns;
}

/* --- in -------------------------------------------------------------------------------------- */

static int other_frame(struct link_port *p, struct link_peer *peer, enum link_kind kind, const uint8_t *frame,
		       uint32_t len)
{
	struct view v;

	view_set(&v, frame, len);
	if (kind == LINK_K_BULK)
		return bulk_on_frame(p->bulk, peer, &v);
	p->stats.drop_malformed++; /* of a kind that only later versions know; taken, so that it is not sent again */
	return 0;
}

static void frame_sent(struct link_port *p, enum link_kind kind, void *cookie, int status)
{
	p->events++;
	if (kind == LINK_K_BULK)
		bulk_on_sent(p->bulk, cookie, status);
	else if (cookie)
		p->ops->on_sent(p->ctx, cookie, status);
}

static void frame_lost(struct link_port *p, struct link_peer *peer, uint64_t tag, const void *frame, size_t len,
		       int status)
{
	p->events++;
	p->ops->on_lost(p->ctx, peer, tag, frame, len, status);
}

/* Top of the carrier stack. */
static void on_net_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	struct link_port *p = ctx;

	port_net_use(p);
	rel_input(p->rel, src, buf, len, port_now(p));
}

static void on_net_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	struct link_port *p = ctx;

	rel_error(p->rel, dst, e, port_now(p));
}

/* Datagrams of a peer whose room has conditions; ours may have none, then the answers take the
 * socket. */
static void shm_dgram(struct link_port *p, const struct link_addr *src, const void *buf, size_t len)
{
	struct link_addr from = *src;

	from.flags = LINK_ADDR_NEAR;
	from.nonce = 0; /* rel believes only what a datagram itself proves, as with UDP */
	p->stats.net_rx_dgrams++;
	p->stats.net_rx_bytes += len;
	if (p->local)
		local_input(p->local, &from, buf, len);
	else
		on_net_rx(p, &from, buf, len);
}

static void frames_repoint(struct link_port *p, void (*fn)(void *arg, void *cookie, struct iovec *iov), void *arg)
{
	rel_repoint(p->rel, LINK_K_BULK, fn, arg);
}

static const struct port_up port_up = {
	.other = other_frame,
	.dgram = shm_dgram,
	.sent = frame_sent,
	.lost = frame_lost,
	.dead = port_peer_dead,
	.is_other = port_peer_is_other,
	.renew = port_peer_renew,
	.out = port_frame_out,
	.repoint = frames_repoint,
};

/* Something of the reliability module's is due. The clock is not asked if nothing ever will be. */
static bool is_due(struct link_port *p)
{
	uint64_t at = rel_next_deadline(p->rel);

	return at != CLK_NEVER && at <= port_now(p);
}

static int poll_net(struct link_port *p)
{
	bool is_busy = p->net_look || p->net_busy || p->is_dirty || rel_outstanding(p->rel);
	int n;

	if (!is_busy && p->idle_skip) {
		p->idle_skip--;
		return 0;
	}
	p->idle_skip = NET_SKIP;
	p->net_look = false;
	if (p->is_dirty) /* the end of a burst, which somebody waits for longer than for what we may find */
		port_flush(p, port_now(p));
	n = p->net->ops->poll(p->net, POLL_NET_BUDGET);
	/* not before what has come is dealt with: meanwhile it is we who are slow, and a queue may stand for that */
	p->looked_ns = p->bulk_due && !p->node->attr.world ? clk_now_ns(&p->node->clk) : 0;
	if (n)
		p->net_busy = NET_BUSY_POLLS;
	else if (p->net_busy)
		p->net_busy--;
	if (p->is_dirty || is_due(p))
		port_flush(p, port_now(p));
	if (n) {
		if (unlikely(p->src_has_net && !(p->armed & PORT_ARM_SERVED)))
			port_src_net(p, false);
		port_soon(p, port_now(p));
		reserve_fill(); /* a port with shared memory has more of it in reserve, and looks at each tick */
	}
	return n;
}

/* What is not for each poll. Return: what the owner was told of. */
static __attribute__((noinline)) int port_tick(struct link_port *p)
{
	uint32_t before = p->events;

	if (unlikely(p->peer_free_cnt))
		peer_sweep(p);
	if (p->shm) {
		shm_timer(p->shm, port_now(p));
		if (idle_is_alone(p->node))
			shm_nudge(p->shm, port_now(p));
	}
	return (int)(p->events - before);
}

static int net_and_copies(struct link_port *p)
{
	int got = p->net_used || p->net_look ? poll_net(p) : 0;

	return got + (p->bulk_due ? bulk_poll(p->bulk, port_now(p)) : 0);
}

/* One more poll within a poll, of all that copies depend on. Return: whether anything came of it. */
static bool poll_again(struct link_port *p)
{
	int got;

	p->now_ns = 0;
	got = p->shm ? shm_poll(p->shm, POLL_SHM_BUDGET) : 0;
	got += net_and_copies(p);
	p->events += (uint32_t)got;
	return got;
}

/*
 * Hardware goes on copying while its program computes; here the next poll makes up for such a pause. It is as many
 * polls as there is time for, until the copies have ended, or nothing more comes because the peer computes, too.
 * What the program has not seen yet is not kept from it for that: where frames have come since the last poll nothing is
 * waited for; nor is it, as long as another thread wants the lock.
 */
static void make_up(struct link_port *p, uint64_t pause_ns)
{
	uint64_t idle_ns = MIN(pause_ns / PAUSE_IDLE, MAKE_UP_IDLE_NS);
	uint64_t now = port_now(p), last = now, until = now + MIN(pause_ns * PAUSE_WORTH, MAKE_UP_MAX_NS);

	p->makes_up = true;
	while (bulk_outstanding(p->bulk) && now < until && now - last <= idle_ns && !lock_is_wanted(p->node->lock) &&
	       p->stats.rx_frames - p->left_frames <= MAKE_UP_FRAMES) {
		bool has_more = poll_again(p);

		now = port_now(p);
		if (has_more)
			last = now;
		if (p->stats.rx_frames != p->left_frames)
			idle_ns = 0;
	}
	p->makes_up = false;
}

/* The end of a poll with copies under way. */
static void copies_leave(struct link_port *p)
{
	struct link_node *n = p->node;
	uint64_t now = port_now(p), pause_ns = n->left_ns ? now - MIN(now, n->left_ns) : 0;

	/* the adapter's thread passes again by itself, and time that a test makes goes on between polls */
	if (unlikely(pause_ns >= PAUSE_MIN_NS) && !(p->armed & PORT_ARM_SERVED) && !n->attr.world)
		make_up(p, pause_ns);
	p->bulk_due = bulk_outstanding(p->bulk);
	/* the node's: what another port or thread has done meanwhile is no pause, nor is what this poll has taken */
	n->left_ns = p->bulk_due ? clk_now_ns(&n->clk) : 0;
	p->left_frames = p->stats.rx_frames;
}

/* What a port without sockets in use and without copies under way leaves out. */
static __attribute__((noinline)) int poll_rest(struct link_port *p)
{
	uint32_t before = p->events;
	int got = net_and_copies(p);

	if (p->bulk_due)
		copies_leave(p);
	return got ? got : (int)(p->events - before); /* what has ended is no datagram, nor a step of a copy */
}

/* Inline where the adapters call it: most of what a poll does is here and in shm_poll(). */
inline __attribute__((always_inline)) int link_poll(struct link_port *p)
{
	struct link_node *n = p->node;
	int got = 0;

	lock_assert_held(n->lock);
	if (likely(!((p->armed & PORT_ARM_POLL) | atomic_load_explicit(&n->armed, memory_order_relaxed))))
		port_count_poll(n);
	else
		port_awake(p);
	p->now_ns = 0;
	p->polls++;
	if (p->shm)
		got = shm_poll(p->shm, POLL_SHM_BUDGET);
	if (unlikely(p->polls % PORT_TICK_POLLS == 0))
		got += port_tick(p);
	assert(p->bulk_due || !bulk_outstanding(p->bulk));
	if (unlikely(p->rest_due))
		got += poll_rest(p);
	if (!got)
		return 0;
	p->events += (uint32_t)got;
	/* a hint to link_idle(); the node is asked for anew, since keeping it meanwhile costs more */
	atomic_store_explicit(&p->node->idle_polls, 0, memory_order_relaxed);
	return got;
}

bool link_calm(struct link_port *p, struct calm *c, uint32_t passed)
{
	struct link_node *n = p->node;

	lock_assert_held(n->lock);
	c->polls = &n->poll_epoch;
	if (p->polls % PORT_TICK_POLLS + passed >= PORT_TICK_POLLS) /* the next poll has the tick that passed */
		p->polls |= PORT_TICK_POLLS - 1;
	else
		p->polls += passed;
	return p->shm && !p->rest_due && !(p->armed & PORT_ARM_POLL) &&
	       !atomic_load_explicit(&n->armed, memory_order_relaxed) && shm_calm(p->shm, c, passed);
}

uint64_t link_next_deadline(struct link_port *p)
{
	uint64_t at = CLK_NEVER;

	lock_assert_held(p->node->lock);
	if (p->is_dirty)
		return 0;
	if (p->shm)
		at = shm_next_deadline(p->shm);
	at = MIN(at, rel_next_deadline(p->rel));
	at = MIN(at, p->net->ops->next_deadline(p->net));
	return MIN(at, bulk_next_deadline(p->bulk));
}

/* --- open and close -------------------------------------------------------------------------- */

/* cap -> fault -> local -> seal -> udp, or a world's carrier at the bottom. On failure what was built is closed. */
static int carrier_build(struct link_port *p)
{
	const struct link_node *n = p->node;
	struct carrier *c = NULL;
	int rc = n->attr.world ? n->attr.world->carrier(n->attr.world, p, &c) : udp_open(p, &c);

	if (rc)
		return rc;
	if (n->room->is_sealed && (rc = seal_open(p, c, &c)))
		goto err_close;
	if (p->shm_wanted && !n->lossless) {
		rc = local_open(p, c, &c);
		if (rc)
			goto err_close;
		p->local = c;
	}
	if (n->room->has_faults) {
		rc = fault_open(p, c, &c);
		if (rc)
			goto err_close;
	}
	if (n->room->pcap[0]) {
		rc = cap_open(p, c, &c);
		if (rc)
			goto err_close;
	}
	c->rx = on_net_rx;
	c->error = on_net_error;
	c->rx_ctx = p;
	p->net = c;
	return 0;

err_close:
	p->local = NULL;
	c->ops->close(c);
	return rc;
}

static struct link_port *port_new(const struct link_port_attr *attr)
{
	struct link_node *n = attr->node;
	struct link_port *p = mem_alloc(sizeof(*p));

	if (!p)
		return NULL;
	p->node = n;
	memcpy(p->self.ip, attr->ip, sizeof(p->self.ip));
	p->self.port = attr->port;
	p->self.nonce = attr->nonce;
	p->cls = attr->cls;
	p->by_place = attr->by_place;
	p->nonces_repeat = attr->nonces_repeat;
	p->group = attr->group;
	p->serves = attr->is_shut ? LINK_SHUT : p->group;
	p->up = &port_up;
	p->ops = attr->ops;
	p->ctx = attr->ctx;
	p->src_fd = p->wait_fd = p->wake_fd = p->agent_fd = -1;
	p->opened_ns = clk_now_ns(&n->clk);
	p->net_off = !n->attr.world && !(n->room->paths & LINK_PATH_UDP);
	p->shm_wanted = !n->attr.world && !attr->no_shm && (n->room->paths & LINK_PATH_SHM);
	return p;
}

/* The segment is named by the port's address, so it comes after the socket. Without one the port still works by UDP. */
static void port_open_shm(struct link_port *p)
{
	int rc = shm_port_open(p, &p->shm);
	char text[LINK_ADDR_TEXT];

	if (!rc)
		return;
	p->shm = NULL;
	LOG_WARN("%s has no shared memory: %s", link_addr_text(&p->self, text), strerror(-rc));
}

int link_port_open(const struct link_port_attr *attr, struct link_port **out)
{
	struct link_node *n = attr->node;
	struct link_port *p = port_new(attr);
	int rc;

	lock_assert_held(n->lock);
	if (!p)
		return -ENOMEM;
	rc = reserve_want() ? 0 : -ENOMEM;
	if (rc)
		goto err_free;
	rc = peer_tab_open(p);
	if (rc)
		goto err_reserve;
	rc = carrier_build(p);
	if (rc)
		goto err_peers;
	rc = rel_open(p, p->net, &p->rel);
	if (rc)
		goto err_net;
	rc = bulk_port_open(p, &p->bulk);
	if (rc)
		goto err_rel;
	if (p->shm_wanted)
		port_open_shm(p);
	p->next = n->ports;
	n->ports = p;
	idle_note(n);
	n->agent_start(n);
	port_watch(p);
	if (!p->in_guard && !(p->net_off && n->lossless))
		p->net_used = true; /* nobody else watches the socket */
	*out = p;
	return 0;

err_rel:
	rel_close(p->rel);
err_net:
	p->net->ops->close(p->net);
err_peers:
	peer_tab_close(p);
err_reserve:
	reserve_drop();
err_free:
	mem_free(p);
	return rc;
}

static bool is_drained(struct link_port *p, uint64_t now)
{
	bool is_quiet = rel_drain(p->rel, now);

	/* untaken: the lane's receiver may have to see our segment first */
	return is_quiet && !(p->shm && (shm_outstanding(p->shm) || shm_untaken(p->shm))) && !bulk_outstanding(p->bulk);
}

static void drain_wait(struct link_port *p, uint32_t round)
{
	const struct timespec nap = {.tv_nsec = DRAIN_NAP_NS};

	lock_release(p->node->lock);
	if (round < DRAIN_YIELDS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
	lock_acquire(p->node->lock);
}

/* Peers get what we still owe them, but nobody waits longer than linger. Virtual time stands still
 * here: one try. */
static void port_drain(struct link_port *p)
{
	uint64_t now = clk_now_ns(&p->node->clk), linger = p->node->room->linger_ns;
	uint64_t end = now > CLK_NEVER - linger ? CLK_NEVER : now + linger;
	char text[LINK_ADDR_TEXT];

	for (uint32_t round = 0; !is_drained(p, now); round++) {
		p->net_look = true;
		if (!link_poll(p)) {
			if (p->node->clk.virt_ns)
				break;
			drain_wait(p, round);
		}
		now = clk_now_ns(&p->node->clk);
		if (now < end)
			continue;
		LOG_INFO("%s closes with %u frames and %u copies unfinished", link_addr_text(&p->self, text),
			 rel_outstanding(p->rel) + (p->shm ? shm_outstanding(p->shm) : 0), bulk_outstanding(p->bulk));
		break;
	}
	port_flush(p, now); /* the goodbyes */
}

static void peer_cancel(struct link_peer *peer, void *arg)
{
	(void)arg;
	if (!peer->dead)
		peer->dead = -ECANCELED;
	rel_peer_drop(peer->port->rel, peer, -ECANCELED);
}

static void port_unlink(struct link_port *p)
{
	struct link_port **at = &p->node->ports;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
}

void link_port_close(struct link_port *p)
{
	if (p)
		link_port_close_stats(p, &(struct link_stats){0});
}

void link_port_close_stats(struct link_port *p, struct link_stats *last)
{
	int fds[3];

	*last = p->stats;
	if (link_forked(p->node))
		return;
	lock_assert_held(p->node->lock);
	fds[0] = p->src_fd, fds[1] = p->wait_fd, fds[2] = p->wake_fd;
	p->closing = true;
	port_drain(p);
	link_port_shut(p, true); /* the regions may stay, and who copies from them by itself does not look often */
	link_port_settle(p);
	agent_port_del(p);
	port_unlink(p);
	p->is_cancelled = true;
	peer_foreach(p, peer_cancel, NULL);
	rel_close(p->rel);
	if (p->shm)
		shm_port_hide(p->shm); /* before the address is free */
	p->net->ops->close(p->net); /* before the segments that its datagrams take */
	if (p->shm)
		shm_port_close(p->shm);
	bulk_port_close(p->bulk); /* last: the paths have reported to it */
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	peer_tab_close(p);
	reserve_drop();
	*last = p->stats;
	live_port_end(p);
	mem_free(p);
}

void link_port_set_label(struct link_port *p, uint64_t label)
{
	lock_assert_held(p->node->lock);
	if (p->shm)
		shm_port_set_label(p->shm, label);
}

void link_port_shut(struct link_port *p, bool is_shut)
{
	lock_assert_held(p->node->lock);
	p->serves = is_shut ? LINK_SHUT : p->group;
	p->opened_cnt += !is_shut;
	if (p->shm)
		shm_port_set_serves(p->shm, p->serves);
	if (is_shut)
		bulk_port_shut(p->bulk);
}

void link_port_settle(struct link_port *p)
{
	lock_assert_held(p->node->lock);
	if (p->serves == LINK_SHUT)
		bulk_port_settle(p->bulk);
}

int link_port_set_nonce(struct link_port *p, uint32_t nonce)
{
	lock_assert_held(p->node->lock);
	if (nonce == p->self.nonce)
		return 0;
	if (p->peer_cnt)
		return -EBUSY;
	p->self.nonce = nonce;
	if (p->shm)
		shm_port_set_nonce(p->shm, nonce);
	return 0;
}

const struct link_addr *link_port_addr(const struct link_port *p)
{
	return &p->self;
}

const struct link_stats *link_port_stats(const struct link_port *p)
{
	return &p->stats;
}
