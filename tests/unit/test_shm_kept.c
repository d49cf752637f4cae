// SPDX-License-Identifier: BSD-2-Clause
// Kept frames: written in place, they lie nowhere but in their slots or their run, and are shown when they are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm_fake.h"

static uint64_t g_seed;

static struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static void open_port(struct fake *f, uint16_t port)
{
	struct link_addr a = addr_of(port);

	*f = (struct fake){0};
	assert_int_equal(fake_open(f, &a), 0);
}

struct msg_hdr {
	uint32_t seq, len, refuse; /* refuse: code that the receiver shall give */
};

static uint8_t byte_at(uint32_t seq, uint32_t i)
{
	return (uint8_t)(seq * 7 + i);
}

/*
 * Refused kept frames come back as they were, however long nobody looked after them and whatever was sent meanwhile.
 */
struct kept_run {
	struct rng rng;
	uint32_t sent, taken, lost, refused[4096]; /* refused: numbers that are still to come back */
};

static int kept_taken(struct fake *f, struct link_peer *peer, enum link_kind kind, const struct view *v)
{
	struct kept_run *d = f->ctx;
	struct msg_hdr h;

	(void)peer, (void)kind;
	view_copy(v, 0, &h, sizeof(h));
	assert_int_equal(h.len, v->len);
	assert_int_equal(h.seq, d->taken);
	d->refused[d->taken++ % 4096] = h.refuse;
	return (int)h.refuse;
}

static void kept_lost(struct fake *f, struct link_peer *peer, uint64_t tag, const void *frame, size_t len)
{
	struct kept_run *d = f->ctx;
	const uint8_t *p = frame;
	struct msg_hdr h;

	(void)peer;
	memcpy(&h, p, sizeof(h));
	assert_int_equal(h.len, len);
	assert_int_equal(tag, h.seq + 0x500000000ULL);
	assert_int_equal(f->last_status, d->refused[h.seq % 4096]);
	assert_int_equal(h.refuse, f->last_status);
	for (uint32_t i = sizeof(h); i < len; i++)
		assert_int_equal(p[i], byte_at(h.seq, i));
	d->lost++;
}

/* @chance_long: of a frame that a lane does not hold. */
static void lost_ones_show_their_bytes(double chance_long)
{
	static struct fake sides[2];
	struct fake *a = &sides[0], *b = &sides[1];
	struct kept_run *d = calloc(1, sizeof(*d));
	struct link_addr to = addr_of(200);
	uint32_t refused = 0, full = 0, x = 0;
	uint8_t *p;

	open_port(a, 100);
	open_port(b, 200);
	rng_seed(&d->rng, g_seed);
	assert_int_equal(fake_send(a, &to, &x, 4, NULL), 0); /* finds the peer and its lane */
	assert_int_equal(fake_poll(b), 1);
	a->ctx = b->ctx = d, b->on_frame = kept_taken, a->on_lost = kept_lost;
	while (d->sent < 20000) {
		size_t max = rng_chance(&d->rng, chance_long) ? LINK_FRAME_MAX : LINK_OWN_MAX;
		struct msg_hdr h = {.seq = d->sent,
				    .len = (uint32_t)(sizeof(h) + rng_below(&d->rng, max - sizeof(h) + 1))};

		p = shm_begin(fake_peer(a, &to)->shm, h.len, false);
		full += !p;
		if (!p || rng_chance(&d->rng, 0.02)) { /* also after a room that is not used */
			fake_poll(rng_chance(&d->rng, 0.3) ? a : b);
		} else {
			h.refuse = rng_chance(&d->rng, 0.3) ? 1 + (uint32_t)rng_below(&d->rng, 200) : 0;
			refused += h.refuse != 0;
			memcpy(p, &h, sizeof(h));
			for (uint32_t i = sizeof(h); i < h.len; i++)
				p[i] = byte_at(h.seq, i);
			shm_commit(fake_peer(a, &to)->shm, p, h.len, false, NULL, h.seq + 0x500000000ULL);
			d->sent++;
		}
	}
	for (int i = 0; i < 1000 && shm_outstanding(a->s); i++)
		fake_poll(i % 2 ? a : b);
	assert_int_equal(d->taken, d->sent);
	assert_int_equal(d->lost, refused);
	assert_true(full > 0);
	shm_stage_unbegin(fake_peer(a, &to)->shm);
	assert_int_equal(a->s->stage.used, 0);
	fake_close(a);
	fake_close(b);
	free(d);
}

static void shm_kept__lost_ones_show_their_bytes(void **state)
{
	(void)state;
	lost_ones_show_their_bytes(0);
}

static void shm_kept__lost_long_ones_show_their_bytes(void **state)
{
	(void)state;
	lost_ones_show_their_bytes(0.5);
}

/* The run of a frame is nobody else's before its owner has been shown it, even if its receiver can touch it no more. */
struct gone_run {
	uint32_t used, shown; /* granules of all frames */
};

static void gone_lost(struct fake *f, struct link_peer *peer, uint64_t tag, const void *frame, size_t len)
{
	struct gone_run *g = f->ctx;

	(void)peer;
	assert_int_equal(tag, g->shown++);
	assert_int_equal(len, 2000);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(((const uint8_t *)frame)[i], byte_at((uint32_t)tag, i));
	assert_int_equal(f->s->stage.used, g->used);
}

static void shm_kept__long_ones_of_the_gone_are_shown_first(void **state)
{
	static struct fake sides[2];
	struct fake *a = &sides[0], *b = &sides[1];
	struct link_addr to = addr_of(200);
	struct gone_run g = {0};
	struct shm_peer *sp;
	uint32_t x = 0;

	open_port(a, 100);
	open_port(b, 200);
	assert_int_equal(fake_send(a, &to, &x, 4, NULL), 0);
	assert_int_equal(fake_poll(b), 1);
	a->ctx = &g, a->on_lost = gone_lost;
	sp = fake_peer(a, &to)->shm;
	for (uint32_t seq = 0; seq < 5; seq++) {
		uint8_t *p = shm_begin(sp, 2000, false);

		assert_non_null(p);
		for (uint32_t i = 0; i < 2000; i++)
			p[i] = byte_at(seq, i);
		shm_commit(sp, p, 2000, false, NULL, seq);
	}
	g.used = a->s->stage.used;
	assert_true(g.used > 0);
	fake_close(b);
	fake_peer(a, &to)->shm = NULL;
	shm_peer_detach(sp);
	assert_int_equal(g.shown, 5);
	assert_int_equal(a->s->stage.used, 0);
	fake_close(a);
	(void)state;
}

/* Of raw ones only their runs are remembered: refused or taken, or unread when their peer goes, they end in silence. */
static void shm_kept__long_raw_ones_are_nobodys_loss(void **state)
{
	static struct fake sides[2];
	struct fake *a = &sides[0], *b = &sides[1];
	struct link_addr to = addr_of(200);
	struct kept_run d = {0};
	uint32_t x = 0, full = 0;
	struct shm_peer *sp;

	open_port(a, 100);
	open_port(b, 200);
	rng_seed(&d.rng, g_seed);
	assert_int_equal(fake_send(a, &to, &x, 4, NULL), 0);
	assert_int_equal(fake_poll(b), 1);
	a->ctx = b->ctx = &d, b->on_frame = kept_taken;
	sp = fake_peer(a, &to)->shm;
	for (bool is_over = false; !is_over;) {
		uint32_t more = (uint32_t)rng_below(&d.rng, LINK_FRAME_MAX - sizeof(struct msg_hdr));
		struct msg_hdr h = {.seq = d.sent, .len = (uint32_t)sizeof(h) + more};
		uint8_t *p = shm_begin(sp, h.len, true);

		if (p) {
			h.refuse = rng_chance(&d.rng, 0.3) ? 1 + (uint32_t)rng_below(&d.rng, 200) : 0;
			memcpy(p, &h, sizeof(h));
			shm_commit(sp, p, h.len, true, NULL, 0);
			d.sent++;
			continue;
		}
		is_over = ++full == 100; /* with what is under way nobody reads */
		for (int i = 0; i < 4 && !is_over; i++)
			fake_poll(i % 2 ? a : b);
	}
	assert_true(d.sent > d.taken && d.taken > 1000);
	assert_false(shm_outstanding(a->s));
	assert_true(a->s->stage.used > 0);
	fake_close(b);
	fake_peer(a, &to)->shm = NULL;
	shm_peer_detach(sp);
	assert_int_equal(a->s->stage.used, 0);
	assert_int_equal(a->lost_cnt, 0);
	assert_int_equal(a->sent_cnt, 0);
	fake_close(a);
	(void)state;
}

/* A datagram that its receiver has not taken is nobody's loss, whatever its length. */
static void shm_kept__unread_datagrams_end_in_silence(void **state)
{
	static struct fake sides[2];
	struct fake *a = &sides[0], *b = &sides[1];
	struct link_addr at_a = addr_of(100), at_b = addr_of(200);
	static uint8_t buf[2000];
	struct iovec small = {buf, 100}, large = {buf, sizeof(buf)};
	struct shm_peer *sp;

	*a = *b = (struct fake){0};
	a->room.has_faults = b->room.has_faults = true;
	assert_int_equal(fake_open(a, &at_a), 0);
	assert_int_equal(fake_open(b, &at_b), 0);
	assert_int_equal(shm_peer_attach(a->s, fake_peer(a, &at_b), &sp), 0);
	assert_int_equal(shm_send_dgram(sp, &small, 1), 0);
	assert_int_equal(shm_send_dgram(sp, &large, 1), 0);
	shm_peer_detach(sp);
	assert_int_equal(a->lost_cnt, 0);
	assert_int_equal(a->sent_cnt, 0);
	fake_close(b);
	fake_close(a);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shm_kept__lost_ones_show_their_bytes),
		cmocka_unit_test(shm_kept__lost_long_ones_show_their_bytes),
		cmocka_unit_test(shm_kept__long_ones_of_the_gone_are_shown_first),
		cmocka_unit_test(shm_kept__long_raw_ones_are_nobodys_loss),
		cmocka_unit_test(shm_kept__unread_datagrams_end_in_silence),
	};
	const char *seed = getenv("SEED");

	g_seed = seed ? strtoull(seed, NULL, 0) : 20261;
	print_message("SEED=%llu\n", (unsigned long long)g_seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
