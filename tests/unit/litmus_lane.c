// SPDX-License-Identifier: BSD-2-Clause
// Memory-order litmus tests of lane and stage: a plain program, to be cross-built and emulated too.
//
// MP (message passing): a message is a number in a lane; what it promises lies in plain memory
// (payload, a staged run, a private log) that must be seen complete, and must not be overwritten
// before the receiver has released it.
//
// SB (store buffering): sender "store message, then look for a sleeper" against receiver "say I
// sleep, then look for a message": at least one must see the other, else the wake-up is lost and
// the receiver sleeps for ever.
//
// An emulator on x86 orders loads and stores as x86 does: there MP shows what the compiler does to
// the code, and that the right instructions are used shows in TSan (each order weakened is found).
//
// usage: litmus_lane [ROUNDS]; SEED= in the environment replays. Exit status 0, 1 on a violation.
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/lane.h"
#include "base/rng.h"
#include "base/stage.h"

#if defined(__SANITIZE_THREAD__) /* gcc: the fences order nothing that TSan has to know of */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

#define SLOTS	    64
#define GRANS	    64
#define LOG_CNT	    256 /* > messages that a lane holds */
#define DEADLINE_NS (20 * NS_PER_SEC)

/* What a message says; the numbers repeat in the places that it speaks of. */
struct msg {
	uint64_t seq;
	uint32_t gran, len;
};

struct bench {
	uint64_t rounds, seed;
	void *lane, *arena;
	uint64_t log[LOG_CNT]; /* plain memory, published by nothing but the lane */
	/* the sleeping receiver */
	_Alignas(CACHE_LINE) _Atomic uint32_t is_asleep;
	_Alignas(CACHE_LINE) _Atomic uint32_t rings;
	uint64_t sleeps;
	uint64_t errors; /* written by the receiver */
};

static void fail(struct bench *b, const char *what, uint64_t seq)
{
	if (!b->errors++)
		fprintf(stderr, "violation: %s at message %llu\n", what, (unsigned long long)seq);
}

static void *reserve(struct lane_tx *tx, uint32_t bytes)
{
	void *to;

	while (!(to = lane_reserve(tx, bytes)))
		sched_yield();
	return to;
}

/* Runs of messages that the receiver has not released, oldest first. */
struct sent {
	uint32_t head, tail;
	struct {
		uint32_t gran, end; /* @end: of the message in the lane */
	} run[SLOTS];
};

static void runs_free(struct sent *s, struct stage *stage, struct lane_tx *tx)
{
	uint32_t acked = lane_acked(tx);

	while (s->head != s->tail && (int32_t)(acked - s->run[s->head % SLOTS].end) >= 0)
		stage_free(stage, s->run[s->head++ % SLOTS].gran);
}

static void *mp_send(void *arg)
{
	struct bench *b = arg;
	struct sent sent = {0};
	struct lane_tx tx;
	struct stage stage;
	struct rng r;

	rng_seed(&r, b->seed);
	lane_tx_init(&tx, b->lane, SLOTS);
	if (stage_init(&stage, b->arena, GRANS))
		abort();
	for (uint64_t seq = 0; seq < b->rounds; seq++) {
		uint32_t fat = sizeof(struct msg) + 8 * (uint32_t)rng_below(&r, 40);
		struct msg m = {.seq = seq, .len = 8 * (1 + (uint32_t)rng_below(&r, 400))};
		uint64_t *run, *to;

		while (!(run = stage_alloc(&stage, m.len, &m.gran))) {
			sched_yield();
			runs_free(&sent, &stage, &tx);
		}
		for (uint32_t i = 0; i < m.len / 8; i++)
			run[i] = seq;
		b->log[seq % LOG_CNT] = seq;
		to = reserve(&tx, fat);
		memcpy(to, &m, sizeof(m));
		for (uint32_t i = sizeof(m) / 8; i < fat / 8; i++)
			to[i] = seq;
		lane_commit(&tx, fat);
		runs_free(&sent, &stage, &tx); /* makes room in @sent: the lane has no more messages than slots */
		sent.run[sent.tail % SLOTS].gran = m.gran;
		sent.run[sent.tail++ % SLOTS].end = lane_tx_pos(&tx);
	}
	stage_fini(&stage);
	return NULL;
}

/* All that message @seq promises. */
static void mp_check(struct bench *b, const struct stage_rx *rx, const uint64_t *from, uint32_t fat,
		     uint64_t seq)
{
	const uint64_t *run;
	struct msg m;

	memcpy(&m, from, sizeof(m));
	if (m.seq != seq)
		fail(b, "header before payload", seq);
	for (uint32_t i = sizeof(m) / 8; i < fat / 8; i++) {
		if (from[i] != seq)
			fail(b, "header before payload", seq);
	}
	if (b->log[seq % LOG_CNT] != seq)
		fail(b, "header before earlier plain store, or slot reused too early", seq);
	run = (const uint64_t *)(const void *)stage_rx_ptr(rx, m.gran, m.len);
	if (!run) {
		fail(b, "descriptor", seq);
		return;
	}
	for (uint32_t i = 0; i < m.len / 8; i++) {
		if (run[i] != seq)
			fail(b, "header before staged data, or run reused too early", seq);
	}
}

static void mp_receive(struct bench *b)
{
	struct lane_rx rx;
	struct stage_rx stage;
	uint64_t user;
	uint32_t cap;

	lane_rx_init(&rx, b->lane, SLOTS, 0);
	stage_rx_init(&stage, b->arena, GRANS);
	for (uint64_t seq = 0; seq < b->rounds && !rx.broken;) {
		uint64_t *from = lane_peek(&rx, &cap, &user);

		if (!from) {
			lane_publish(&rx);
			sched_yield();
			continue;
		}
		if (user > cap)
			fail(b, "header", seq);
		else
			mp_check(b, &stage, from, (uint32_t)user, seq);
		lane_next(&rx);
		seq++;
	}
	if (rx.broken)
		fail(b, "broken lane", 0);
}

static void *sb_send(void *arg)
{
	struct bench *b = arg;
	struct lane_tx tx;
	struct rng r;

	rng_seed(&r, b->seed);
	lane_tx_init(&tx, b->lane, SLOTS);
	for (uint64_t seq = 0; seq < b->rounds; seq++) {
		uint32_t one = 1;

		memcpy(reserve(&tx, 8), &seq, 8);
		lane_commit(&tx, 0);
		/* full: message before the look at is_asleep; pairs with the fence in sb_sleep() */
		atomic_thread_fence(memory_order_seq_cst);
		/* relaxed: ordered by the fence. Whoever takes the 1 back decides about the ring:
		 * the exchange pairs with the one in sb_sleep(). */
		if (atomic_load_explicit(&b->is_asleep, memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&b->is_asleep, &one, 0))
			atomic_fetch_add_explicit(&b->rings, 1, memory_order_release);
		/* Let the receiver run dry now and then, so that it really goes to sleep. */
		if (!rng_below(&r, 2)) {
			while (lane_acked(&tx) != lane_tx_pos(&tx))
				sched_yield();
		}
	}
	return NULL;
}

/* Sleep until rung, unless a message came in the meantime. Return: false if nobody ever rings. */
static bool sb_sleep(struct bench *b, struct lane_rx *rx)
{
	uint64_t user, deadline;
	uint32_t cap, rings = atomic_load_explicit(&b->rings, memory_order_relaxed);

	atomic_store_explicit(&b->is_asleep, 1, memory_order_relaxed);
	/* full: is_asleep before the second look; pairs with the fence in sb_send() */
	atomic_thread_fence(memory_order_seq_cst);
	if (lane_peek(rx, &cap, &user)) {
		/* acq_rel: whoever takes the 1 back decides; a ring that is on its way comes early
		 */
		if (!atomic_exchange_explicit(&b->is_asleep, 0, memory_order_acq_rel)) {
			/* acquire; pairs with the release in sb_send() */
			while (atomic_load_explicit(&b->rings, memory_order_acquire) == rings)
				sched_yield();
		}
		return true;
	}
	b->sleeps++;
	deadline = clk_now_ns(NULL) + DEADLINE_NS;
	/* acquire; pairs with the release in sb_send() */
	while (atomic_load_explicit(&b->rings, memory_order_acquire) == rings) {
		if (clk_now_ns(NULL) > deadline)
			return false;
		sched_yield();
	}
	return true;
}

static void sb_receive(struct bench *b)
{
	struct lane_rx rx;

	lane_rx_init(&rx, b->lane, SLOTS, 0);
	for (uint64_t seq = 0; seq < b->rounds;) {
		uint64_t user, got;
		uint32_t cap;
		void *from = lane_peek(&rx, &cap, &user);

		if (from) {
			memcpy(&got, from, 8);
			if (got != seq)
				fail(b, "header before payload", seq);
			lane_next(&rx);
			seq++;
			continue;
		}
		lane_publish(&rx);
		if (!sb_sleep(b, &rx)) {
			fail(b, "lost wake-up", seq);
			exit(1); /* the sender may wait for us for ever */
		}
	}
	lane_publish(&rx);
}

static uint64_t run(const char *name, void *(*send)(void *), void (*receive)(struct bench *),
		    uint64_t rounds, uint64_t seed)
{
	struct bench *b = aligned_alloc(CACHE_LINE, ALIGN_UP(sizeof(*b), (size_t)CACHE_LINE));
	pthread_t sender;
	uint64_t errors;

	if (!b)
		abort();
	memset(b, 0, sizeof(*b));
	b->rounds = rounds;
	b->seed = seed;
	b->lane = aligned_alloc(CACHE_LINE, lane_shm_size(SLOTS));
	b->arena = aligned_alloc(STAGE_ALIGN, ALIGN_UP(stage_shm_size(GRANS), STAGE_ALIGN));
	if (!b->lane || !b->arena)
		abort();
	lane_shm_init(b->lane, SLOTS);
	if (pthread_create(&sender, NULL, send, b))
		abort();
	receive(b);
	pthread_join(sender, NULL);
	errors = b->errors;
	printf("%s: %llu messages, %llu sleeps, %llu violations\n", name,
	       (unsigned long long)rounds, (unsigned long long)b->sleeps,
	       (unsigned long long)errors);
	free(b->arena);
	free(b->lane);
	free(b);
	return errors;
}

int main(int argc, char **argv)
{
	const char *env = getenv("SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : rng_entropy();
	uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 0) : 300000, errors;

	printf("SEED=%#llx\n", (unsigned long long)seed);
	errors = run("MP", mp_send, mp_receive, rounds, seed);
	errors += run("SB", sb_send, sb_receive, rounds, seed);
	return errors ? 1 : 0;
}
