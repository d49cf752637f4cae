// SPDX-License-Identifier: BSD-2-Clause
// Stand-ins for the paths below port.c: they carry nothing, but count and answer what a test tells
// them to.
#ifndef TEST_LINK_FAKE_H
#define TEST_LINK_FAKE_H

#include <errno.h>
#include <string.h>

#include "link/core/link_int.h"

struct fake_shm_send {
	struct shm_peer *sp;
	enum link_kind kind;
	void *cookie;
};

static struct {
	int attach_rc; /* of shm_peer_attach() */
	uint32_t attached, detached, shm_sends, shm_polls, shm_passed, shm_timers, shm_nudges, shm_armed, shm_disarms;
	int shm_arm_rc;
	struct fake_shm_send last_shm;
	int nudge_fd; /* of shm_port_set_nudge(), the last one */
	int (*on_shm_poll)(void); /* what shm_poll() returns */
	uint32_t shm_outstanding, shm_untaken;
	bool is_lingering;
	uint32_t rel_sends, rel_inputs, rel_refusals, rel_flushes, rel_lingers, carrier_flushes, rel_drops;
	uint32_t rel_outstanding;
	uint64_t rel_deadline;
	int rel_drop_status;
	void *rel_cookie; /* of a frame that rel holds */
	bool rel_owes;	  /* rel_drain() is not done */
	uint32_t rel_progress;
	const struct link_addr *rel_known; /* a peer that the owner knows, with @rel_known_nonce; NULL: none */
	uint32_t rel_known_nonce;
	uint32_t rel_met; /* the low half of a pair that was made */
	struct link_addr last_src;
	uint32_t bulk_outstanding, bulk_polls, bulk_frames, bulk_offers, bulk_deaths;
	uint32_t bulk_moves; /* polls in which something is moved, until the last copy has ended */
	bool is_bulk_due;
	uint32_t agent_marker;
} fake = {.attach_rc = -ENOENT, .rel_deadline = CLK_NEVER};

struct shm_port {
	struct link_port *p;
	struct shm_peer *peers;
};
struct shm_peer {
	struct shm_port *s;
	struct link_peer *peer;
	struct shm_peer *next;
};
struct rel {
	struct link_port *p;
};
struct bulk_port {
	struct link_port *p;
};
struct bulk_node {
	int unused;
};

static struct bulk_node fake_bulk_node;

int shm_port_open(struct link_port *p, struct shm_port **out)
{
	*out = mem_alloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->p = p;
	return 0;
}

int shm_peer_attach(struct shm_port *s, struct link_peer *peer, struct shm_peer **out)
{
	if (fake.attach_rc)
		return fake.attach_rc;
	*out = mem_alloc(sizeof(**out));
	**out = (struct shm_peer){.s = s, .peer = peer, .next = s->peers};
	s->peers = *out;
	fake.attached++;
	return 0;
}

void shm_peer_detach(struct shm_peer *sp)
{
	struct shm_peer **at = &sp->s->peers;

	while (*at != sp)
		at = &(*at)->next;
	*at = sp->next;
	if (sp->peer->shm == sp) {
		sp->peer->shm = NULL;
		sp->s->p->node->local_cnt--;
	}
	fake.detached++;
	mem_free(sp);
}

void shm_port_set_label(struct shm_port *s, uint64_t label)
{
	(void)s;
	(void)label;
}

void shm_port_set_serves(struct shm_port *s, uint32_t serves)
{
	(void)s;
	(void)serves;
}

void shm_port_set_nonce(struct shm_port *s, uint32_t nonce)
{
	(void)s;
	(void)nonce;
}

void live_open(struct link_node *n)
{
	(void)n;
}

void live_tick(struct link_node *n)
{
	(void)n;
}

void live_port_end(const struct link_port *p)
{
	(void)p;
}

void live_close(struct link_node *n)
{
	(void)n;
}

void shm_port_hide(struct shm_port *s)
{
	(void)s;
}

void shm_port_close(struct shm_port *s)
{
	while (s->peers)
		shm_peer_detach(s->peers);
	mem_free(s);
}

int shm_send(struct shm_peer *sp, enum link_kind kind, const void *hdr, size_t hdr_len,
		  const struct iovec *iov, int iov_cnt, void *cookie)
{
	(void)hdr, (void)hdr_len, (void)iov, (void)iov_cnt;
	fake.shm_sends++;
	fake.last_shm = (struct fake_shm_send){sp, kind, cookie};
	return 0;
}

void shm_limit_look(void)
{
}

void shm_nudge(struct shm_port *s, uint64_t now_ns)
{
	(void)s, (void)now_ns;
	fake.shm_nudges++;
}

void shm_port_set_nudge(struct shm_port *s, int fd)
{
	(void)s;
	fake.nudge_fd = fd;
}

uint8_t *shm_begin(struct shm_peer *sp, size_t len, bool is_raw)
{
	(void)sp, (void)len, (void)is_raw;
	return NULL;
}

bool shm_has_lane(const struct shm_peer *sp)
{
	(void)sp;
	return false;
}

void shm_commit(struct shm_peer *sp, uint8_t *frame, size_t len, bool is_raw, void *cookie, uint64_t tag)
{
	(void)sp, (void)frame, (void)len, (void)is_raw, (void)cookie, (void)tag;
}

int shm_send_dgram(struct shm_peer *sp, const struct iovec *iov, int iov_cnt)
{
	(void)sp, (void)iov, (void)iov_cnt;
	fake.shm_sends++;
	return 0;
}

bool shm_calm(struct shm_port *s, struct calm *c, uint32_t passed)
{
	fake.shm_passed += passed;
	return true;
}

int shm_poll(struct shm_port *s, int budget)
{
	(void)s, (void)budget;
	fake.shm_polls++;
	return fake.on_shm_poll ? fake.on_shm_poll() : 0;
}

uint64_t shm_next_deadline(struct shm_port *s)
{
	(void)s;
	return CLK_NEVER;
}
void shm_timer(struct shm_port *s, uint64_t now_ns)
{
	(void)s, (void)now_ns;
	fake.shm_timers++;
}
int shm_wait_fd(struct shm_port *s)
{
	(void)s;
	return -1;
}
int shm_arm(struct shm_port *s)
{
	(void)s;
	fake.shm_armed += !fake.shm_arm_rc;
	return fake.shm_arm_rc;
}
bool shm_is_armed(const struct shm_port *s)
{
	(void)s;
	return fake.shm_armed;
}
void shm_disarm(struct shm_port *s)
{
	(void)s;
	fake.shm_disarms++;
}
bool shm_peer_expire(struct shm_peer *sp)
{
	(void)sp;
	return false;
}

bool shm_peer_has_closed(const struct shm_peer *sp)
{
	(void)sp;
	return false;
}

bool shm_peer_is_unseen(const struct shm_peer *sp)
{
	(void)sp;
	return false;
}

bool shm_peer_is_void(const struct shm_peer *sp)
{
	(void)sp;
	return false;
}

uint64_t shm_peer_label(const struct shm_peer *sp)
{
	(void)sp;
	return 0;
}

uint32_t shm_peer_serves(const struct shm_peer *sp)
{
	(void)sp;
	return 0;
}

uint32_t shm_peer_nonce(const struct shm_peer *sp)
{
	return sp->peer->addr.nonce;
}

pid_t shm_addr_pid(const struct link_addr *addr)
{
	return 0;
}

pid_t shm_peer_pid(const struct shm_peer *sp)
{
	(void)sp;
	return 0;
}
bool shm_peer_cma_ok(struct shm_peer *sp)
{
	(void)sp;
	return false;
}
bool shm_peer_is_polling(struct shm_peer *sp)
{
	(void)sp;
	return false;
}
uint64_t shm_peer_node(const struct shm_peer *sp)
{
	(void)sp;
	return 0;
}
uint32_t shm_outstanding(const struct shm_port *s)
{
	(void)s;
	return fake.shm_outstanding;
}
uint32_t shm_untaken(struct shm_port *s)
{
	(void)s;
	return fake.shm_untaken;
}

int fault_open(struct link_port *p, struct carrier *inner, struct carrier **out)
{
	(void)p;
	*out = inner;
	return 0;
}

int cap_open(struct link_port *p, struct carrier *inner, struct carrier **out)
{
	(void)p;
	*out = inner;
	return 0;
}

int rel_open(struct link_port *p, struct carrier *net, struct rel **out)
{
	(void)net;
	*out = mem_alloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->p = p;
	return 0;
}

void rel_close(struct rel *r)
{
	mem_free(r);
}

int rel_send(struct rel *r, struct link_peer *peer, enum link_kind kind, const void *hdr,
		  size_t hdr_len, const struct iovec *iov, int iov_cnt, void *cookie,
		  uint64_t now_ns)
{
	struct iovec out[LINK_IOV_MAX + 1] = {{(void *)(uintptr_t)hdr, hdr_len}};

	(void)kind, (void)now_ns;
	if (iov_cnt)
		memcpy(&out[1], iov, (size_t)iov_cnt * sizeof(*iov));
	fake.rel_sends++;
	fake.rel_cookie = cookie;
	return r->p->net->ops->send(r->p->net, &peer->addr, out, iov_cnt + 1);
}

void rel_input(struct rel *r, const struct link_addr *src, const void *buf, size_t len,
		    uint64_t now_ns)
{
	struct link_peer *peer = port_peer_in(r->p, src);

	(void)now_ns;
	fake.rel_inputs++;
	fake.last_src = *src;
	if (peer)
		port_deliver(r->p, peer, LINK_K_NIC, buf, (uint32_t)len);
}

void rel_error(struct rel *r, const struct link_addr *dst, const struct carrier_error *e, uint64_t now_ns)
{
	(void)r, (void)e, (void)now_ns;
	fake.rel_refusals++;
	fake.last_src = *dst;
}

void rel_carrier_flush(struct rel *r)
{
	(void)r;
	fake.carrier_flushes++;
}

void rel_flush(struct rel *r, uint64_t now_ns)
{
	(void)now_ns;
	fake.rel_flushes++;
	r->p->net->ops->flush(r->p->net);
}

bool rel_lingers(const struct rel *r)
{
	(void)r;
	return fake.is_lingering;
}
void rel_linger(struct rel *r, uint64_t now_ns)
{
	(void)r, (void)now_ns;
	fake.rel_lingers++;
}

void rel_repoint(struct rel *r, enum link_kind kind, void (*fn)(void *arg, void *cookie, struct iovec *iov),
		      void *arg)
{
	(void)r, (void)kind, (void)fn, (void)arg;
}

bool rel_may_wait(const struct rel *r, uint64_t now_ns)
{
	(void)r, (void)now_ns;
	return false;
}

uint64_t rel_next_deadline(struct rel *r)
{
	(void)r;
	return fake.rel_deadline;
}

void rel_peer_drop(struct rel *r, struct link_peer *peer, int status)
{
	void *cookie = fake.rel_cookie;

	(void)peer;
	fake.rel_drops++;
	fake.rel_drop_status = status;
	fake.rel_cookie = NULL;
	if (cookie)
		r->p->up->sent(r->p, LINK_K_NIC, cookie, status);
}

bool rel_drain(struct rel *r, uint64_t now_ns)
{
	(void)r, (void)now_ns;
	return !fake.rel_owes;
}
uint32_t rel_progress(struct rel *r, const struct link_addr *addr)
{
	(void)r, (void)addr;
	return fake.rel_progress;
}
uint8_t *rel_begin(struct rel *r, struct link_peer *peer)
{
	(void)r, (void)peer;
	return NULL;
}

void rel_commit(struct rel *r, struct link_peer *peer, size_t len, void *cookie, uint64_t tag, uint64_t now_ns)
{
	(void)r, (void)peer, (void)len, (void)cookie, (void)tag, (void)now_ns;
}

uint32_t rel_peer_own(const struct rel_peer *rp)
{
	(void)rp;
	return 0;
}

uint32_t rel_own(const struct rel *r)
{
	(void)r;
	return 0;
}

bool rel_ack_owed(struct rel *r, uint64_t now_ns)
{
	(void)r, (void)now_ns;
	return false;
}
uint32_t rel_met(struct rel *r)
{
	uint32_t met = fake.rel_met;

	(void)r;
	fake.rel_met = 0;
	return met;
}
void rel_known(struct rel *r, void (*fn)(void *arg, const struct link_addr *addr, uint32_t nonce), void *arg)
{
	(void)r;
	if (fake.rel_known)
		fn(arg, fake.rel_known, fake.rel_known_nonce);
}

uint32_t rel_peer_nonce(const struct rel_peer *rp)
{
	return 0;
}

uint32_t rel_outstanding(const struct rel *r)
{
	(void)r;
	return fake.rel_outstanding;
}

int bulk_node_open(struct link_node *n, struct bulk_node **out)
{
	(void)n;
	*out = &fake_bulk_node;
	return 0;
}

void bulk_node_close(struct bulk_node *b)
{
	(void)b;
}

int bulk_port_open(struct link_port *p, struct bulk_port **out)
{
	*out = mem_alloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	(*out)->p = p;
	return 0;
}

void bulk_port_shut(struct bulk_port *b)
{
	(void)b;
}

void bulk_port_settle(struct bulk_port *b)
{
	(void)b;
}

void bulk_port_close(struct bulk_port *b)
{
	mem_free(b);
}

int bulk_on_frame(struct bulk_port *b, struct link_peer *peer, const struct view *frame)
{
	(void)b, (void)peer, (void)frame;
	fake.bulk_frames++;
	return 0;
}

void bulk_offer_send(struct bulk_port *b)
{
	(void)b;
	fake.bulk_offers++;
}

void bulk_on_sent(struct bulk_port *b, void *cookie, int status)
{
	(void)b, (void)cookie, (void)status;
}

void bulk_peer_dead(struct bulk_port *b, struct link_peer *peer, int status)
{
	(void)b, (void)peer, (void)status;
	fake.bulk_deaths++;
}

int bulk_poll(struct bulk_port *b, uint64_t now_ns)
{
	(void)b, (void)now_ns;
	fake.bulk_polls++;
	if (fake.bulk_moves && !--fake.bulk_moves)
		fake.bulk_outstanding = 0;
	return fake.bulk_moves > 0;
}
uint64_t bulk_next_deadline(const struct bulk_port *b)
{
	(void)b;
	return fake.is_bulk_due ? 0 : CLK_NEVER;
}
uint32_t bulk_outstanding(const struct bulk_port *b)
{
	(void)b;
	return fake.bulk_outstanding;
}

#endif
