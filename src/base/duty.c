// SPDX-License-Identifier: BSD-2-Clause
// When a thread that polls in an application's place naps, polls, rests and dozes.
#include "base/duty.h"

#define DOZE_SHARE 16 /* of the quiet time: so much of what the application does not need is spent on looking */

void duty_init(struct duty *d, const struct duty_plan *plan, uint32_t polls, uint64_t now_ns)
{
	*d = (struct duty){.plan = plan, .nap_ns = plan->nap_min_ns / 2, .quiet_ns = now_ns, .seen = polls};
}

uint64_t duty_look(struct duty *d, uint32_t polls, uint64_t now_ns)
{
	if (polls == d->seen) {
		d->nap_ns = d->plan->nap_min_ns / 2;
		return 0;
	}
	d->seen = polls;
	d->quiet_ns = now_ns;
	d->empty = 0;
	d->nap_ns = MIN(d->nap_ns * 2, d->plan->nap_max_ns);
	return d->nap_ns;
}

uint64_t duty_starved(struct duty *d, uint64_t nap_ns, bool is_starved, uint64_t now_ns)
{
	if (!is_starved) {
		d->starved_ns = 0;
		return nap_ns;
	}
	if (now_ns - MIN(now_ns, d->quiet_ns) >= d->plan->starved_max_ns)
		return 0;
	d->starved_ns = MIN(MAX(d->starved_ns * 2, d->plan->nap_max_ns), d->plan->starved_nap_ns);
	return d->starved_ns;
}

uint64_t duty_locked(struct duty *d, uint64_t now_ns)
{
	d->quiet_ns = now_ns;
	d->nap_ns = MAX(d->nap_ns, d->plan->nap_min_ns);
	return d->nap_ns;
}

void duty_pass(struct duty *d, bool has_found)
{
	if (has_found)
		d->empty = 0;
	else if (d->empty < UINT32_MAX)
		d->empty++;
}

bool duty_is_hot(const struct duty *d)
{
	return d->empty <= d->plan->free_passes;
}

uint64_t duty_rest(const struct duty *d)
{
	uint64_t ns = d->plan->rest_min_ns;

	if (duty_is_hot(d))
		return 0;
	for (uint32_t n = d->empty - d->plan->free_passes; n > 1 && ns < d->plan->rest_max_ns; n--)
		ns *= 2;
	return MIN(ns, d->plan->rest_max_ns);
}

uint64_t duty_doze(const struct duty *d, uint64_t now_ns)
{
	uint64_t quiet_ns = now_ns - MIN(now_ns, d->quiet_ns);

	return MIN(MAX(quiet_ns / DOZE_SHARE, d->plan->doze_min_ns), d->plan->doze_max_ns);
}
