// SPDX-License-Identifier: BSD-2-Clause
// One-sided by four processes at once, over shared memory, UDP, and UDP in bad weather: every byte and every update is
// accounted for.
#include "rig.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>

#define RANKS	 4
#define SLOT_LEN 100000u
#define CNT	 50u  /* elements that everybody adds to */
#define DRAWS	 100u
#define ROUNDS	 20u  /* of the critical section, for each rank */
#define TIMES	 8u   /* that each adds to each */

/* A rank's region: what others access, then its own buffers. */
enum { TICKET, LOCK, GUARDED, SUM, WORDS = SUM + CNT };
#define SLOT_OFF(rank_) (4096 + (uint64_t)(rank_) * SLOT_LEN)
#define OWN_OFF(i_)	(4096 + (uint64_t)(RANKS + (i_)) * SLOT_LEN) /* one per rank that it is for */
#define OPERAND_OFF	(4096 + 2ull * RANKS * SLOT_LEN)
#define RESULT_OFF	(OPERAND_OFF + 1024)
#define COMPARE_OFF	(OPERAND_OFF + 2048)
#define REGION_LEN	(OPERAND_OFF + 4096)
_Static_assert(WORDS * 8 <= 1024 && CNT * 8 <= 1024, "the words fit");

struct place {
	fi_addr_t to;
	uint64_t at, key;
};

static struct place place_of(const struct rig *r, uint32_t rank, uint64_t off)
{
	const struct rig_peer *p = &r->w->peer[rank];

	return (struct place){r->to[rank], p->mem + off, p->key};
}

/* A post that has to wait waits. */
#define POST(r_, call_)                                                                                                \
	do {                                                                                                           \
		ssize_t posted_;                                                                                       \
		while ((posted_ = (call_)) == -FI_EAGAIN)                                                              \
			rig_progress(r_);                                                                              \
		CHECK(!posted_, "%s: %s", #call_, fi_strerror((int)-posted_));                                         \
	} while (0)

static void await(struct rig *r, unsigned cnt)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e[8];

	while (cnt) {
		ssize_t n = fi_cq_read(r->cq, e, MIN(cnt, 8u));

		if (n == -FI_EAVAIL && fi_cq_readerr(r->cq, &err, 0) == 1)
			FAIL("an access ended with %d/%d (%s)", err.err, err.prov_errno, fi_strerror(err.err));
		CHECK(n > 0 || n == -FI_EAGAIN, "fi_cq_read: %zd", n);
		cnt -= n > 0 ? (unsigned)n : 0;
	}
}

/* Complete when it is there. */
static void put(struct rig *r, void *buf, size_t len, struct place at, struct fi_context2 *ctx)
{
	struct iovec iov = {buf, len};
	struct fi_rma_iov rma = {at.at, len, at.key};
	void *desc = fi_mr_desc(r->mr);
	struct fi_msg_rma m = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = at.to, .rma_iov = &rma,
			       .rma_iov_count = 1, .context = ctx};

	POST(r, fi_writemsg(r->ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
}

static void add_to(struct rig *r, uint64_t *operands, size_t cnt, struct place at, struct fi_context2 *ctx)
{
	struct fi_ioc iov = {operands, cnt};
	struct fi_rma_ioc rma = {at.at, cnt, at.key};
	void *desc = fi_mr_desc(r->mr);
	struct fi_msg_atomic m = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = at.to, .rma_iov = &rma,
				  .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = ctx};

	POST(r, fi_atomicmsg(r->ep, &m, FI_COMPLETION | FI_DELIVERY_COMPLETE));
}

static uint64_t *word_at(const struct rig *r, uint64_t off)
{
	return (uint64_t *)(void *)(r->region + off);
}

static uint64_t seed_of(const struct rig *r, uint32_t from, uint32_t to, size_t len)
{
	return r->w->seed + from * 1000003ull + to * 10007 + len;
}

/* Everybody to everybody, itself included, at once; then everybody reads what it wrote back from where it is. */
static void puts_and_gets(struct rig *r)
{
	static const size_t lens[] = {1, 16, 17, 4096, 8193, 30000, SLOT_LEN};
	struct fi_context2 ctx[RANKS];
	void *desc = fi_mr_desc(r->mr);

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t len = lens[i];

		for (uint32_t p = 0; p < RANKS; p++) {
			rig_fill(r->region + OWN_OFF(p), len, seed_of(r, r->rank, p, len));
			put(r, r->region + OWN_OFF(p), len, place_of(r, p, SLOT_OFF(r->rank)), &ctx[p]);
		}
		await(r, RANKS);
		for (uint32_t p = 0; p < RANKS; p++) {
			struct place at = place_of(r, p, SLOT_OFF(r->rank));

			memset(r->region + OWN_OFF(p), 0, len);
			POST(r, fi_read(r->ep, r->region + OWN_OFF(p), len, desc, at.to, at.at, at.key, &ctx[p]));
		}
		await(r, RANKS);
		rig_sync(r); /* all is where it belongs */
		for (uint32_t p = 0; p < RANKS; p++) {
			CHECK(rig_is_filled(r->region + OWN_OFF(p), len, seed_of(r, r->rank, p, len)) < 0,
			      "%zu bytes back from rank %u", len, p);
			CHECK(rig_is_filled(r->region + SLOT_OFF(p), len, seed_of(r, p, r->rank, len)) < 0,
			      "%zu bytes of rank %u", len, p);
		}
		rig_sync(r);
	}
}

/* Everybody adds to the same elements of everybody, as many at once as the provider takes. */
static void sums(struct rig *r)
{
	uint64_t *add = word_at(r, OPERAND_OFF);
	struct fi_context2 ctx[CNT];
	size_t max;

	OK(fi_atomicvalid(r->ep, FI_UINT64, FI_SUM, &max));
	max = MIN(max, CNT);
	for (uint32_t i = 0; i < CNT; i++)
		add[i] = (r->rank + 1) * (i + 1);
	for (uint32_t n = 0; n < RANKS * TIMES; n++) {
		unsigned posts = 0;

		for (size_t i = 0; i < CNT; i += max)
			add_to(r, add + i, MIN(max, CNT - i), place_of(r, (r->rank + n) % RANKS, (SUM + i) * 8),
			       &ctx[posts++]);
		await(r, posts);
	}
	rig_sync(r);
	for (uint32_t i = 0; i < CNT; i++)
		CHECK(word_at(r, SUM * 8)[i] == TIMES * (RANKS * (RANKS + 1) / 2) * (i + 1), "element %u is %llu", i,
		      (unsigned long long)word_at(r, SUM * 8)[i]);
}

/* Numbers that rank 0 deals: each is drawn once. */
static void tickets(struct rig *r)
{
	struct place at = place_of(r, 0, TICKET * 8);
	void *desc = fi_mr_desc(r->mr);
	struct fi_context2 ctx;
	uint64_t last = 0;

	*word_at(r, OPERAND_OFF) = 1;
	for (uint32_t i = 0; i < DRAWS; i++) {
		volatile uint64_t *got = word_at(r, RESULT_OFF);

		POST(r, fi_fetch_atomic(r->ep, word_at(r, OPERAND_OFF), 1, desc, word_at(r, RESULT_OFF), desc, at.to,
					at.at, at.key, FI_UINT64, FI_SUM, &ctx));
		await(r, 1);
		CHECK(*got < RANKS * DRAWS && (!i || *got > last), "ticket %llu after %llu", (unsigned long long)*got,
		      (unsigned long long)last);
		last = *got;
		CHECK(!atomic_fetch_add(&r->w->word[last], 1), "ticket %llu was drawn twice", (unsigned long long)last);
	}
	rig_sync(r);
	for (uint32_t i = 0; i < RANKS * DRAWS; i++)
		CHECK(atomic_load(&r->w->word[i]) == 1, "ticket %u was drawn by nobody", i);
}

/* Return: what was there. */
static uint64_t swap_if(struct rig *r, struct place at, uint64_t is, uint64_t to)
{
	void *desc = fi_mr_desc(r->mr);
	struct fi_context2 ctx;

	*word_at(r, OPERAND_OFF) = to;
	*word_at(r, COMPARE_OFF) = is;
	POST(r, fi_compare_atomic(r->ep, word_at(r, OPERAND_OFF), 1, desc, word_at(r, COMPARE_OFF), desc,
				  word_at(r, RESULT_OFF), desc, at.to, at.at, at.key, FI_UINT64, FI_CSWAP, &ctx));
	await(r, 1);
	return *word_at(r, RESULT_OFF);
}

/* A counter on the last rank that one at a time may read and write. */
static void critical_section(struct rig *r)
{
	struct place lock = place_of(r, RANKS - 1, LOCK * 8), at = place_of(r, RANKS - 1, GUARDED * 8);
	uint64_t me = r->rank + 1, *value = word_at(r, OWN_OFF(0));
	void *desc = fi_mr_desc(r->mr);
	struct fi_context2 ctx;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		while (swap_if(r, lock, 0, me))
			;
		POST(r, fi_read(r->ep, value, 8, desc, at.to, at.at, at.key, &ctx));
		await(r, 1);
		++*value;
		put(r, value, 8, at, &ctx);
		await(r, 1);
		CHECK(swap_if(r, lock, me, 0) == me, "the lock is not mine");
	}
	rig_sync(r);
	CHECK(r->rank != RANKS - 1 || word_at(r, 0)[GUARDED] == RANKS * ROUNDS, "%llu rounds",
	      (unsigned long long)word_at(r, 0)[GUARDED]);
}

static int rank_main(struct rig *r, const void *arg)
{
	(void)arg;
	rig_open(r, REGION_LEN);
	puts_and_gets(r);
	sums(r);
	tickets(r);
	critical_section(r);
	rig_sync(r);
	rig_close(r);
	return 0;
}

static int run(const char *name, bool udp, const char *weather)
{
	const char *env[RIG_ENV] = {"SOFTFABRIC_NET", NULL};
	struct rig_world *w = rig_world_new(RANKS, rig_seed());
	uint64_t start = rig_now_ns();
	char room[128];
	pid_t pid[RANKS];
	int ret;

	snprintf(room, sizeof(room), "%s%s", udp ? rig_prov()->udp_room : "", weather);
	env[1] = room;
	rig_env_path(env, udp);
	for (uint32_t i = 0; i < RANKS; i++)
		pid[i] = rig_spawn(w, i, rank_main, NULL, env);
	ret = rig_await(pid, RANKS, 60000);
	rig_world_free(w);
	if (rig_shm_files())
		ret = 1;
	printf("%s onesided-%s %llu ms\n", ret ? "FAIL" : "pass", name,
	       (unsigned long long)((rig_now_ns() - start) / RIG_NS_PER_MS));
	fflush(stdout);
	return ret != 0;
}

int main(void)
{
	char why[128] = "";
	int failed = 0;

	printf("SEED=%#llx\n", (unsigned long long)rig_seed());
	if (!rig_private(64, why, sizeof(why))) {
		printf("SKIP: needs a /dev/shm of its own: %s\n", why);
		return RIG_SKIP;
	}
	failed += run("shm", false, "");
	failed += run("udp", true, "");
	failed += run("weather", true, "loss=2%;reorder=5%;dup=1%;seed=23");
	return failed != 0;
}
