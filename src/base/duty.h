// SPDX-License-Identifier: BSD-2-Clause
// The duty cycle of a thread that polls in an application's place: when to nap, poll, rest, doze. Decisions only, on a
// clock that is handed in.
#ifndef SF_BASE_DUTY_H
#define SF_BASE_DUTY_H

#include "base/base.h"

/*
 * Theory of operation
 *
 * Such a thread would take the core, or the lock, from the program that it is to help, if it polled all the time. What
 * it knows is a count of the application's own polls. From that follow three states:
 *
 * napping: the application has polled since the last look, or holds the lock. It needs no help. Look again after a nap,
 * each longer than the one before; the longest is how long a peer waits when the application turns to something else.
 * Nor is it taken over from while it only waits for a CPU: who works in its place then takes that CPU from it and its
 * like. Such naps are longer yet, whether it has polled meanwhile or not, since many threads nap then and each end of a
 * nap is work for the scheduler; without a poll there is an end to them.
 *
 * working: it has not. Make passes in its place as long as they find something. A few in a row may find nothing and
 * cost nothing; after that, where there is a reason for another pass that does not go away, each is followed by a rest,
 * which doubles.
 *
 * dozing: nothing is there. Whoever sends has been asked to ring, and the thread sleeps until that. A doze ends by
 * itself as well, after a share of the time that the application has been quiet: its next poll may leave the thread
 * alone.
 *
 * How one sleeps, is woken, takes the lock and arms is the thread's own affair.
 */

struct duty_plan {
	uint64_t nap_min_ns, nap_max_ns;
	uint64_t starved_nap_ns; /* the longest nap while the application waits for a CPU, ... */
	uint64_t starved_max_ns; /* ... for so long at most since it last polled or held the lock */
	uint64_t doze_min_ns, doze_max_ns;
	uint64_t rest_min_ns, rest_max_ns;
	uint32_t free_passes; /* in a row, without success and without a rest */
};

/* One thread's, and no other's. */
struct duty {
	const struct duty_plan *plan;
	uint64_t nap_ns;   /* the last nap */
	uint64_t starved_ns; /* the last nap, if the application waited for a CPU in it; else 0 */
	uint64_t quiet_ns; /* since when the application has not polled */
	uint32_t seen;     /* its polls up to the last look */
	uint32_t empty;    /* own passes in a row that found nothing */
};

/** duty_init() - @polls: of the application up to now. */
void duty_init(struct duty *d, const struct duty_plan *plan, uint32_t polls, uint64_t now_ns);
/** duty_look() - Does the application, which has made @polls by now, need help? Return: 0 yes; ns to nap first. */
uint64_t duty_look(struct duty *d, uint32_t polls, uint64_t now_ns);
/**
 * duty_starved() - After duty_look() has said @nap_ns: has all the application waited for been a CPU? Return: what the
 * thread does, as of duty_look().
 */
uint64_t duty_starved(struct duty *d, uint64_t nap_ns, bool is_starved, uint64_t now_ns);
/** duty_locked() - Somebody else holds the lock, probably the application. Return: ns to nap first. */
uint64_t duty_locked(struct duty *d, uint64_t now_ns);
/** duty_pass() - The thread has made a pass. */
void duty_pass(struct duty *d, bool has_found);
/** duty_is_hot() - Another pass costs nothing: success was not long ago. */
bool duty_is_hot(const struct duty *d);
/** duty_rest() - ns to keep off if there is a reason for another pass: 0 while duty_is_hot(). */
uint64_t duty_rest(const struct duty *d);
/** duty_doze() - Nothing is there: ns to sleep if nothing comes. */
uint64_t duty_doze(const struct duty *d, uint64_t now_ns);

#endif
