// SPDX-License-Identifier: BSD-2-Clause
// Three ports for tests of who may write where: one that is stopped, an owner, an innocent one. Frames say what they
// are.
#ifndef SF_TESTS_SHM_MODEL_H
#define SF_TESTS_SHM_MODEL_H

#include "shm_fake.h"
#include "unit.h"

#define DEADLINE_NS (20 * NS_PER_SEC * unit_slow())

enum { W, B, X, PORTS }; /* the one that is stopped; the owner that declares it dead; an innocent one */
enum { DIRECT_LEN = 100, STAGED_LEN = 3000, SEQ_MAX = 64 };

/* What a frame from @port says; all its bytes follow from that. */
struct msg {
	uint32_t port, seq, len;
};

static inline uint8_t byte_at(const struct msg *m, uint32_t i)
{
	return (uint8_t)(m->port * 97 + m->seq * 31 + i * 7);
}

static inline void msg_write(uint8_t *p, uint32_t port, uint32_t seq, uint32_t len)
{
	struct msg m = {port, seq, len};

	memcpy(p, &m, sizeof(m));
	for (uint32_t i = sizeof(m); i < len; i++)
		p[i] = byte_at(&m, i);
}

/* Return: whether it is what it says. */
static inline bool msg_read(const struct view *v, struct msg *m)
{
	static uint8_t buf[LINK_FRAME_MAX];

	if (v->len < sizeof(*m) || view_copy(v, 0, buf, sizeof(buf)) != v->len)
		return false;
	memcpy(m, buf, sizeof(*m));
	for (uint32_t i = sizeof(*m); i < v->len; i++)
		if (buf[i] != byte_at(m, i))
			return false;
	return m->len == v->len;
}

/* --- the model: real ports, each step of each by itself, in every order --- */

static struct fake *g_port[PORTS];
static struct {
	uint32_t next[PORTS];		/* number of its next frame to B */
	uint8_t taken[PORTS][SEQ_MAX];	/* by B */
	uint8_t ended[PORTS][SEQ_MAX];	/* times; with cookie or kept */
	uint8_t good[PORTS][SEQ_MAX];
	uint8_t *slot;			/* of W's push that has begun */
	uint32_t slot_seq;
	const char *name;
} m;

static inline struct link_addr addr_of(uint32_t port)
{
	return fake_addr((uint32_t)getpid(), (uint16_t)(100 + port), 1000 + port);
}

static inline int on_frame(struct fake *f, struct link_peer *peer, enum link_kind kind, const struct view *v)
{
	struct msg got = {0};

	(void)kind;
	if (!msg_read(v, &got))
		fail_msg("%s: a frame of port %d is not what was sent", m.name, peer->addr.port);
	assert_int_equal(got.port, peer->addr.port - 100);
	if (f == g_port[B]) {
		assert_true(got.seq < SEQ_MAX);
		assert_int_equal(m.taken[got.port][got.seq]++, 0);
	}
	return 0;
}

static inline void on_end(uint32_t port, uint32_t seq, int status)
{
	assert_true(seq < SEQ_MAX);
	m.ended[port][seq]++;
	m.good[port][seq] = status == 0;
}

static inline void on_sent(struct fake *f, enum link_kind kind, void *cookie, int status)
{
	(void)kind;
	if (f != g_port[B])
		on_end(f->port.self.port - 100u, (uint32_t)(uintptr_t)cookie - 1, status);
}

static inline void on_lost(struct fake *f, struct link_peer *peer, uint64_t tag, const void *frame, size_t len)
{
	(void)peer, (void)frame, (void)len;
	on_end(f->port.self.port - 100u, (uint32_t)tag, f->last_status);
}

static inline void send_one(uint32_t from, uint32_t to, uint32_t len)
{
	static uint8_t buf[STAGED_LEN];
	struct link_addr a = addr_of(to);
	uint32_t seq = m.next[from];

	msg_write(buf, from, seq, len);
	if (fake_send(g_port[from], &a, buf, len, (void *)(uintptr_t)(seq + 1)) == 0)
		m.next[from]++;
}

static inline struct shm_peer *sp_of(uint32_t at, uint32_t who)
{
	struct link_addr a = addr_of(who);

	for (struct shm_peer *sp = g_port[at]->s->all; sp; sp = sp->all_next)
		if (!sp->is_zombie && memcmp(&sp->addr, &a, sizeof(a)) == 0)
			return sp;
	return NULL;
}

static inline void poll_one(uint32_t i)
{
	g_port[i]->virt_ns += 60 * NS_PER_MS;
	fake_poll(g_port[i]);
}

static inline void ports_open(uint64_t budget, const char *name)
{
	memset(&m, 0, sizeof(m));
	m.name = name;
	for (uint32_t i = 0; i < PORTS; i++) {
		struct link_addr a = addr_of(i);

		g_port[i] = calloc(1, sizeof(**g_port));
		g_port[i]->on_frame = on_frame;
		g_port[i]->on_sent = on_sent;
		g_port[i]->on_lost = on_lost;
		g_port[i]->virt_ns = NS_PER_SEC;
		g_port[i]->node.clk.virt_ns = &g_port[i]->virt_ns;
		assert_int_equal(fake_open(g_port[i], &a), 0);
		g_port[i]->room.shm_budget = budget;
	}
}

static inline void ports_close(void)
{
	for (uint32_t i = 0; i < PORTS; i++) {
		fake_close(g_port[i]);
		free(g_port[i]);
	}
}

struct merged {
	void (*run)(const uint8_t *order, uint32_t n, bool arg);
	bool arg;
	uint32_t cnt;
};

/* All merges of @left[] steps of each. */
static inline void merge(uint8_t *order, uint32_t n, uint8_t *left, struct merged *all)
{
	bool is_end = true;

	for (uint8_t i = 0; i < PORTS; i++) {
		if (!left[i])
			continue;
		is_end = false;
		left[i]--;
		order[n] = i;
		merge(order, n + 1, left, all);
		left[i]++;
	}
	if (is_end) {
		all->run(order, n, all->arg);
		all->cnt++;
	}
}

/* --- real processes --- */

struct owner {
	uint32_t taken[PORTS];
	uint32_t next_x;
};

static inline int b_frame(struct fake *f, struct link_peer *peer, enum link_kind kind, const struct view *v)
{
	struct owner *o = f->ctx;
	struct msg got = {0};

	(void)kind;
	if (!msg_read(v, &got) || (got.port != W && got.port != X))
		fail_msg("a frame of port %d is not what was sent", peer->addr.port);
	if (got.port == X)
		assert_int_equal(got.seq, o->next_x++);
	o->taken[got.port]++;
	return 0;
}

static inline void x_send(struct fake *x, const struct link_addr *to, uint32_t *seq)
{
	static uint8_t buf[STAGED_LEN];
	uint32_t len = *seq % 3 ? DIRECT_LEN : STAGED_LEN;

	msg_write(buf, X, *seq, len);
	*seq += fake_send(x, to, buf, len, buf) == 0;
}

#endif
