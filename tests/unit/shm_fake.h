// SPDX-License-Identifier: BSD-2-Clause
// A port and its owner for tests of the same-host path: what port.c would be, reduced to lists and
// counters.
#ifndef SF_TESTS_SHM_FAKE_H
#define SF_TESTS_SHM_FAKE_H

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "link/shm/shm_int.h"

#define FAKE_PEERS 128

struct fake {
	struct link_node node;
	struct link_room room;
	struct link_port port;
	struct shm_port *s;
	struct link_peer peers[FAKE_PEERS];
	uint32_t peer_cnt, dead_cnt;
	bool is_raw;	  /* class of the port */
	bool is_full;	  /* port_peer_in() finds no room */
	uint64_t virt_ns; /* clock, where the test uses it */
	/* the owner; NULL: take everything, forget everything */
	int (*on_frame)(struct fake *f, struct link_peer *peer, enum link_kind kind,
			const struct view *v);
	void (*on_sent)(struct fake *f, enum link_kind kind, void *cookie, int status);
	void (*on_lost)(struct fake *f, struct link_peer *peer, uint64_t tag, const void *frame, size_t len);
	void (*on_dgram)(struct fake *f, const struct link_addr *src, const void *buf, size_t len);
	void *ctx;
	uint64_t rx_cnt, sent_cnt, sent_bad, lost_cnt;
	int last_status;
};

static inline struct fake *fake_of(struct link_port *p)
{
	return container_of(p, struct fake, port);
}

static inline struct link_peer *fake_peer(struct fake *f, const struct link_addr *addr)
{
	struct link_peer *peer;

	for (uint32_t i = 0; i < f->peer_cnt; i++)
		if (memcmp(&f->peers[i].addr, addr, sizeof(*addr)) == 0)
			return &f->peers[i];
	if (f->peer_cnt == FAKE_PEERS)
		return NULL;
	peer = &f->peers[f->peer_cnt++];
	*peer = (struct link_peer){.port = &f->port, .addr = *addr, .refs = 1};
	return peer;
}

struct link_peer *port_peer_in(struct link_port *p, const struct link_addr *addr)
{
	return fake_of(p)->is_full ? NULL : fake_peer(fake_of(p), addr);
}

static bool fake_is_other(const struct link_peer *peer, uint32_t nonce)
{
	(void)peer, (void)nonce;
	return false;
}

static void fake_renew(struct link_peer *peer)
{
	(void)peer;
}

struct link_peer *port_peer_find(struct link_port *p, const struct link_addr *addr)
{
	return fake_peer(fake_of(p), addr);
}

static int fake_deliver(struct link_port *p, struct link_peer *peer, enum link_kind kind,
			const uint8_t *frame, uint32_t len)
{
	struct fake *f = fake_of(p);
	struct view v = view_of(frame, len);

	f->rx_cnt++;
	return f->on_frame ? f->on_frame(f, peer, kind, &v) : 0;
}

static void fake_sent(struct link_port *p, enum link_kind kind, void *cookie, int status)
{
	struct fake *f = fake_of(p);

	f->sent_cnt++;
	f->sent_bad += status != 0;
	f->last_status = status;
	if (f->on_sent)
		f->on_sent(f, kind, cookie, status);
}

static void fake_lost(struct link_port *p, struct link_peer *peer, uint64_t tag, const void *frame, size_t len,
		      int status)
{
	struct fake *f = fake_of(p);

	f->lost_cnt++;
	f->last_status = status;
	if (f->on_lost)
		f->on_lost(f, peer, tag, frame, len);
}

static void fake_dead(struct link_peer *peer, int status)
{
	struct shm_peer *sp = peer->shm;

	if (peer->dead)
		return;
	peer->dead = (int16_t)status;
	fake_of(peer->port)->dead_cnt++;
	peer->shm = NULL;
	if (sp)
		shm_peer_detach(sp);
}

static int fake_on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx;
	return fake_deliver(peer->port, peer, LINK_K_NIC, frame, len);
}

static void fake_dgram(struct link_port *p, const struct link_addr *src, const void *buf, size_t len)
{
	struct fake *f = fake_of(p);

	if (f->on_dgram)
		f->on_dgram(f, src, buf, len);
}

static const struct port_up fake_up = {
	.other = fake_deliver,
	.dgram = fake_dgram,
	.sent = fake_sent,
	.lost = fake_lost,
	.dead = fake_dead,
	.is_other = fake_is_other,
	.renew = fake_renew,
};

void idle_crowd(struct link_node *n)
{
	(void)n;
}

/* Not an address of anybody: tests that run at the same time do not meet, @salt tells their ports
 * apart. */
static inline struct link_addr fake_addr(uint32_t salt, uint16_t port, uint32_t nonce)
{
	struct link_addr a = {.port = port, .nonce = nonce};

	a.ip[0] = 0xfd;
	memcpy(a.ip + 4, &salt, sizeof(salt));
	return a;
}

static const struct link_ops fake_ops = {.on_frame = fake_on_frame};

/* @f is zeroed but for what the caller has set in room and node. */
static inline int fake_open(struct fake *f, const struct link_addr *self)
{
	int rc;

	f->node.room = &f->room;
	f->node.lossless = !f->room.has_faults;
	f->node.cpu_cnt = UINT32_MAX;
	f->node.bulk_id = 0x1d;
	if (!f->room.dead_after_ns)
		f->room.dead_after_ns = 30 * NS_PER_SEC;
	f->port.node = &f->node;
	f->port.cls = f->is_raw ? LINK_RAW : LINK_RELIABLE;
	f->port.up = &fake_up;
	f->port.ops = &fake_ops;
	f->port.self = *self;
	rc = shm_port_open(&f->port, &f->s);
	f->port.shm = f->s;
	return rc;
}

static inline void fake_close(struct fake *f)
{
	shm_port_close(f->s);
	f->s = f->port.shm = NULL;
}

/* As link_send(): attach at the first frame. */
static inline int fake_send(struct fake *f, const struct link_addr *to, const void *buf, size_t len,
			    void *cookie)
{
	struct link_peer *peer = fake_peer(f, to);
	struct iovec iov = {(void *)(uintptr_t)buf, len};
	int rc = 0;

	if (peer->dead)
		return peer->dead;
	if (!peer->shm) {
		rc = shm_peer_attach(f->s, peer, &peer->shm);
		if (rc)
			return rc;
		peer->shm_tried = true;
	}
	return shm_send(peer->shm, LINK_K_NIC, NULL, 0, &iov, 1, cookie);
}

static inline int fake_poll(struct fake *f)
{
	int n = shm_poll(f->s, 64);

	shm_timer(f->s, clk_now_ns(&f->node.clk));
	return n;
}

#endif
