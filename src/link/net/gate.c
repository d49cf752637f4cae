// SPDX-License-Identifier: BSD-2-Clause
// Who is in good standing at a flooded port, and the program that tells the kernel. gate.h has the theory.
#include "link/net/gate.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define FORGET_CNT 10u /* judgements after which what is held against a sender counts half */
#define IDLE_MAX   100u /* judgements without a datagram after which a place is free for others */

/* --- senders ---------------------------------------------------------------------------------- */

static uint32_t word_of(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

uint32_t gate_key(const struct gate *g, const uint8_t ip[16], uint32_t word)
{
	uint32_t key = word * g->mul[4];

	for (uint32_t i = g->is_v4 ? 3 : 0; i < 4; i++)
		key += word_of(ip + 4 * i) * g->mul[i];
	return key | 1;
}

static struct gate_sender *set_of(struct gate *g, uint32_t key)
{
	return &g->sender[(key >> 1) % GATE_SETS * GATE_WAYS];
}

static struct gate_sender *find(struct gate *g, uint32_t key)
{
	struct gate_sender *set = set_of(g, key);

	for (uint32_t i = 0; i < GATE_WAYS; i++)
		if (set[i].key == key)
			return &set[i];
	return NULL;
}

static void fall(struct gate *g, struct gate_sender *s)
{
	g->stand_cnt -= s->stands;
	g->is_stale |= s->stands;
	s->stands = false;
}

static void rise(struct gate *g, struct gate_sender *s, uint32_t max)
{
	if (g->stand_cnt >= max)
		return;
	s->stands = true;
	g->stand_cnt++;
	g->is_stale = true;
}

/* A place for @key: of who has sent nothing for the longest time, but not of one that stands and may be in use. */
static struct gate_sender *place(struct gate *g, uint32_t key)
{
	struct gate_sender *set = set_of(g, key), *at = NULL;

	for (uint32_t i = 0; i < GATE_WAYS; i++) {
		if (set[i].stands && set[i].idle < IDLE_MAX)
			continue;
		if (!at || !set[i].key || (at->key && set[i].idle > at->idle))
			at = &set[i];
	}
	if (!at)
		return NULL;
	fall(g, at);
	*at = (struct gate_sender){.key = key};
	return at;
}

void gate_clear(struct gate *g)
{
	memset(g->sender, 0, sizeof(g->sender));
	g->stand_cnt = 0;
	g->is_stale = true;
}

void gate_known(struct gate *g, uint32_t key)
{
	struct gate_sender *s = find(g, key);

	if (!s && (s = place(g, key)))
		rise(g, s, GATE_STAND_MAX);
}

static bool is_bad(const struct gate_sender *s)
{
	return 2 * s->bad > s->good + 16;
}

void gate_note(struct gate *g, uint32_t key, bool is_news)
{
	struct gate_sender *s = find(g, key);

	if (!s && (!is_news || !(s = place(g, key))))
		return;
	s->idle = 0;
	s->good += is_news;
	s->bad += !is_news;
	if (is_bad(s))
		fall(g, s);
	if (s->good + s->bad > GATE_PAST) {
		s->good /= 2;
		s->bad /= 2;
	}
}

bool gate_stands(struct gate *g, uint32_t key)
{
	const struct gate_sender *s = find(g, key);

	return s && s->stands;
}

void gate_judge(struct gate *g)
{
	bool is_full = g->stand_cnt >= GATE_RISE_MAX, forgets = ++g->judged % FORGET_CNT == 0;

	for (uint32_t i = 0; i < GATE_SETS * GATE_WAYS; i++) {
		struct gate_sender *s = &g->sender[i];

		if (!s->key)
			continue;
		s->idle += s->idle < UINT8_MAX;
		if (forgets && !s->stands) {
			s->good /= 2;
			s->bad /= 2;
		}
		if (s->stands && is_full && s->idle >= IDLE_MAX)
			fall(g, s);
		else if (!s->stands && s->good > 4 * s->bad && s->idle < IDLE_MAX)
			rise(g, s, GATE_RISE_MAX);
	}
}

/* --- the program ------------------------------------------------------------------------------ */

/*
 * A tree of comparisons with keys in order; its leaves ask for LEAF of them. A conditional jump reaches 255
 * instructions, so a far one is a condition that passes over a BPF_JA.
 */
#define LEAF			    4u
#define RUN(code_, k_)		    ((struct sock_filter)BPF_STMT(code_, k_))
#define JUMP(code_, k_, true_, no_) ((struct sock_filter)BPF_JUMP(code_, k_, true_, no_))

/* Leaves have at least half as many keys as they may: one comparison a key, and four more instructions a leaf. */
static_assert(GATE_STAND_MAX + 4 * (2 * GATE_STAND_MAX / LEAF) + 32 <= GATE_PROG_MAX, "room for the largest program");
static_assert(GATE_PROG_MAX <= BPF_MAXINSNS, "the kernel takes no longer one");

struct prog {
	struct sock_filter *at;
	uint32_t len;
};

static void add(struct prog *p, struct sock_filter f)
{
	must(p->len < GATE_PROG_MAX);
	p->at[p->len++] = f;
}

/* A = gate_key(). A load beyond the end would end the program with 0, the first socket. */
static void key_code(const struct gate *g, struct prog *p)
{
	uint32_t ip_at = g->is_v4 ? 0 : 8; /* of where the last word would be, were it the first of four */

	add(p, RUN(BPF_LD | BPF_W | BPF_LEN, 0));
	add(p, JUMP(BPF_JMP | BPF_JGE | BPF_K, g->word_at + 4, 1, 0));
	add(p, RUN(BPF_RET | BPF_K, GATE_GATE));
	add(p, RUN(BPF_LD | BPF_W | BPF_ABS, g->word_at));
	add(p, RUN(BPF_ALU | BPF_MUL | BPF_K, g->mul[4]));
	for (uint32_t i = g->is_v4 ? 3 : 0; i < 4; i++) {
		add(p, RUN(BPF_ST, 0));
		add(p, RUN(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + ip_at + 4 * i));
		add(p, RUN(BPF_ALU | BPF_MUL | BPF_K, g->mul[i]));
		add(p, RUN(BPF_LDX | BPF_MEM, 0));
		add(p, RUN(BPF_ALU | BPF_ADD | BPF_X, 0));
	}
	add(p, RUN(BPF_ALU | BPF_OR | BPF_K, 1));
}

static void tree_code(struct prog *p, const uint32_t *key, uint32_t cnt)
{
	uint32_t half = cnt / 2, far;

	if (cnt <= LEAF) {
		for (uint32_t i = 0; i < cnt; i++)
			add(p, JUMP(BPF_JMP | BPF_JEQ | BPF_K, key[i], (uint8_t)(cnt - i), 0));
		add(p, RUN(BPF_RET | BPF_K, GATE_GATE));
		if (cnt)
			add(p, RUN(BPF_RET | BPF_K, GATE_MAIN));
		return;
	}
	add(p, JUMP(BPF_JMP | BPF_JGE | BPF_K, key[half], 0, 1));
	far = p->len;
	add(p, RUN(BPF_JMP | BPF_JA, 0));
	tree_code(p, key, half);
	p->at[far].k = p->len - far - 1;
	tree_code(p, key + half, cnt - half);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

uint16_t gate_prog(const struct gate *g, struct sock_filter out[GATE_PROG_MAX])
{
	uint32_t key[GATE_STAND_MAX], cnt = 0;
	struct prog p = {.at = out};

	for (uint32_t i = 0; i < GATE_SETS * GATE_WAYS; i++)
		if (g->sender[i].stands)
			key[cnt++] = g->sender[i].key;
	qsort(key, cnt, sizeof(*key), by_value);
	key_code(g, &p);
	tree_code(&p, key, cnt);
	return (uint16_t)p.len;
}
