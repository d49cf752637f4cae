// SPDX-License-Identifier: BSD-2-Clause
// When a sender looks at the head of its lane for what has been taken: soon where somebody waits for that, and not at
// all where the peer's frames say it anyhow.
#include "shm_fake.h"
#include "unit.h"

static uint32_t x;

static struct link_addr addr_of(uint16_t port)
{
	return fake_addr((uint32_t)getpid(), port, 1000u + port);
}

static void open_port(struct fake *f, uint16_t port)
{
	struct link_addr a = addr_of(port);

	memset(f, 0, sizeof(*f));
	assert_int_equal(fake_open(f, &a), 0);
}

static struct fake sides[2], *const a = &sides[0], *const b = &sides[1];
static struct link_addr to_a, to_b;

static int setup(void **state)
{
	(void)state;
	to_a = addr_of(100);
	to_b = addr_of(200);
	open_port(a, 100);
	open_port(b, 200);
	for (int i = 0; i < 100; i++) { /* both find each other, and have lanes of their own */
		assert_int_equal(fake_send(a, &to_b, &x, 4, NULL), 0);
		assert_int_equal(fake_send(b, &to_a, &x, 4, NULL), 0);
		fake_poll(a);
		fake_poll(b);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(a);
	fake_close(b);
	return 0;
}

/* A frame that nobody waits for, as link_commit() sends it. */
static void commit(struct fake *f, const struct link_addr *to)
{
	uint8_t *p = shm_begin(fake_peer(f, to)->shm, 8, false);

	assert_non_null(p);
	memset(p, 0, 8);
	shm_commit(fake_peer(f, to)->shm, p, 8, false, NULL, 1);
}

/* To and fro; the other side polls long before it answers. Return: frames of a whose end it found itself. */
static uint32_t pingpong(uint32_t rounds, uint32_t wait)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < rounds; i++) {
		commit(a, &to_b);
		assert_true(shm_poll(b->s, 64) >= 1);
		for (uint32_t j = 0; j < wait; j++)
			found += (uint32_t)shm_poll(a->s, 64);
		commit(b, &to_a);
		assert_true(shm_poll(a->s, 64) >= 1);
	}
	return found;
}

/* A look would take the line of the head from the peer just when that is about to answer. */
static void look__none_where_nobody_waits(void **state)
{
	(void)state;
	assert_true(pingpong(100, 40) <= 8); /* until that is known */
	assert_int_equal(pingpong(1000, 40), 0);
}

/* Return: polls of a from the moment at which b has taken its frame, after @wait polls, until a knows it. */
static uint32_t seen_after(uint32_t wait)
{
	uint32_t before = a->sent_cnt, polls = 0;

	assert_int_equal(fake_send(a, &to_b, &x, 4, &x), 0);
	for (uint32_t i = 0; i < wait; i++)
		assert_int_equal(shm_poll(a->s, 64), 0);
	assert_true(shm_poll(b->s, 64) >= 1);
	while (a->sent_cnt == before && polls < 1000) {
		shm_poll(a->s, 64);
		polls++;
	}
	return polls;
}

static void look__soon_where_somebody_waits(void **state)
{
	static const uint32_t wait[] = {0, 3, 20, 100, 1000};

	(void)state;
	pingpong(100, 40); /* now it does not look */
	for (uint32_t i = 0; i < ARRAY_SIZE(wait); i++) {
		for (int j = 0; j < 10; j++) /* by and by sooner */
			seen_after(wait[i]);
		for (int j = 0; j < 100; j++)
			assert_in_range(seen_after(wait[i]), 1, MIN(wait[i] / 8, 16U) + 2);
	}
}

/* What came last does not make the next wait long: whoever gets frames and waits for ends looks for these, too. */
static void look__soon_again_after_frames(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++)
		seen_after(50);
	for (int i = 0; i < 100; i++) {
		assert_in_range(seen_after(50), 1, 8);
		commit(b, &to_a);
		assert_true(shm_poll(a->s, 64) >= 1);
	}
}

/* A poll of a that finds nothing. Return: what it tells opens the gate. */
static bool calm(struct calm *c)
{
	assert_int_equal(shm_poll(a->s, 64), 0);
	c->polls = &a->node.poll_epoch;
	calm_begin(c);
	return calm_end(c, shm_calm(a->s, c, 0));
}

/* Does the gate hold, until a peer writes, and does a poll find that? */
static void assert_calm_until(struct fake *f, const struct link_addr *to, size_t len)
{
	static const uint8_t bytes[256];
	struct calm c = {0};

	assert_true(calm(&c));
	assert_true(calm_holds(&c));
	assert_true(calm_holds(&c));
	assert_int_equal(fake_send(f, to, bytes, len, NULL), 0);
	assert_false(calm_holds(&c));
	assert_int_equal(shm_poll(a->s, 64), 1);
}

static void calm__ends_with_what_a_peer_writes(void **state)
{
	struct fake other;
	struct calm c = {0};

	fake_poll(a);
	assert_calm_until(b, &to_a, 4);
	assert_calm_until(b, &to_a, 100);
	assert_false(calm(&c)); /* of such a message each poll fetches the second line ahead */
	assert_int_equal(fake_send(b, &to_a, &x, 4, NULL), 0);
	assert_int_equal(shm_poll(a->s, 64), 1);
	open_port(&other, 300);
	assert_calm_until(&other, &to_a, 4); /* it opens a lane, or comes through the shared one */
	assert_calm_until(&other, &to_a, 4); /* two lanes, of which each counts */
	assert_calm_until(b, &to_a, 4);
	fake_close(&other);
}

/* Whoever waits for a frame's end has the looks at the peer's head come when they are due. */
static void calm__no_longer_than_until_the_next_look(void **state)
{
	struct calm c = {0};
	uint32_t polls = 0, passed;

	fake_poll(a);
	pingpong(100, 40); /* it looks late */
	assert_int_equal(fake_send(a, &to_b, &x, 4, &x), 0);
	assert_true(calm(&c));
	assert_true(shm_poll(b->s, 64) >= 1);
	for (uint32_t before = a->sent_cnt; a->sent_cnt == before && polls < 1000; polls++) {
		if (!calm_holds(&c)) {
			shm_poll(a->s, 64);
			passed = calm_begin(&c);
			calm_end(&c, shm_calm(a->s, &c, passed));
		}
	}
	assert_in_range(polls, 1, 80);
}

static int close_a(void **state)
{
	(void)state;
	fake_close(a);
	return 0;
}

/* A peer takes our last frame and closes before we look: with it goes what was ready, or we would never sleep again. */
static void ready__ends_with_its_peer(void **state)
{
	(void)state;
	pingpong(100, 40); /* now it does not look */
	for (int i = 0; i < 3; i++) {
		fake_poll(a);
		fake_poll(b);
	}
	commit(a, &to_b);
	assert_true(shm_poll(b->s, 64) >= 1);
	assert_int_equal(shm_poll(b->s, 64), 0);
	fake_close(b);
	a->s->tick_ns = 0;
	for (int i = 0; i < 1000; i++)
		fake_poll(a);
	assert_int_equal(a->dead_cnt, 1);
	assert_true(shm_next_deadline(a->s) == CLK_NEVER);
	assert_int_equal(shm_arm(a->s), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ready__ends_with_its_peer, setup, close_a),
		cmocka_unit_test_setup_teardown(look__none_where_nobody_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(look__soon_where_somebody_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(calm__ends_with_what_a_peer_writes, setup, teardown),
		cmocka_unit_test_setup_teardown(calm__no_longer_than_until_the_next_look, setup, teardown),
		cmocka_unit_test_setup_teardown(look__soon_again_after_frames, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
