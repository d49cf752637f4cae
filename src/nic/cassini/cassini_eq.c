// SPDX-License-Identifier: BSD-2-Clause
// Event queues.
#include "nic/cassini/cassini_int.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"

/*
 * Theory of operation
 *
 * A ring with free-running indices, which begin anew when it is empty: a reader who keeps up has all events in a few
 * slots that stay in the cache, of a ring of megabytes. Of its slots some are always spoken for: commands that have not
 * ended hold one claim each, so the event of a command never fails, and fc_slots are left to STATE_CHANGE, so a PTE can
 * always say why it stopped. What other events may use is the rest:
 *
 *   slots = used (wr - rd) + claimed + fc_slots + free
 *
 * Claims and fc_slots are kept as what they leave, struct cassini_eq_int.open, since room is asked for more often.
 *
 * The consumer moves rd by cassini_eq_pop(), under the same lock; nothing is to be told to anybody. Those that have
 * events are in a list of the LNI: most polls find that it is empty, or has one.
 */

#define EQ_SLOTS_MAX (1u << 24)

static struct cassini_eq_int *eq_int(const struct cassini_eq *eq)
{
	return container_of((struct cassini_eq *)(uintptr_t)eq, struct cassini_eq_int, pub);
}

/*
 * Slots in use or promised. At most @slots: a claim leaves room for the flow control events, which check for
 * themselves.
 */
static inline uint32_t taken(const struct cassini_eq_int *e)
{
	return e->pub.wr - e->pub.rd + (e->slots - e->fc_slots - e->open);
}

int cassini_eq_open(struct cassini_lni *lni, uint32_t slots, uint32_t fc_slots, struct cassini_eq **out)
{
	uint32_t ring_cnt = (uint32_t)roundup_pow2(slots);
	struct cassini_eq_int *e;
	int rc;

	lock_assert_held(lni->nic->open.lock);
	if (!slots || slots > EQ_SLOTS_MAX || fc_slots >= slots) {
		LOG_WARN("EQ of %u slots, %u of them for flow control: needs 1 to %u and less for flow control", slots,
			 fc_slots, EQ_SLOTS_MAX);
		return -EINVAL;
	}
	rc = cassini_rsrc_get(lni, CASSINI_RSRC_EQ);
	if (rc)
		return rc;
	e = mem_alloc(sizeof(*e));
	if (!e)
		goto err_rsrc;
	e->pub.ring = mem_alloc((size_t)ring_cnt * sizeof(*e->pub.ring)); /* pages appear as they are used */
	if (!e->pub.ring)
		goto err_free;
	e->pub.mask = ring_cnt - 1;
	e->lni = lni;
	e->slots = slots;
	e->fc_slots = fc_slots;
	e->open = slots - fc_slots;
	*out = &e->pub;
	return 0;
err_free:
	mem_free(e);
err_rsrc:
	cassini_rsrc_put(lni, CASSINI_RSRC_EQ);
	return -ENOMEM;
}

void cassini_eq_close(struct cassini_eq *eq)
{
	struct cassini_eq_int *e;

	if (!eq)
		return;
	e = eq_int(eq);
	lock_assert_held(e->lni->nic->open.lock);
	assert(e->open == e->slots - e->fc_slots);
	cassini_rsrc_put(e->lni, CASSINI_RSRC_EQ);
	if (eq->rd != eq->wr)
		LIST_REMOVE(eq, ready);
	mem_free(eq->ring);
	mem_free(e);
}

struct cassini_eq *cassini_eq_ready(const struct cassini_lni *lni)
{
	return LIST_FIRST(&lni->ready);
}

uint32_t cassini_eq_free(const struct cassini_eq *eq)
{
	const struct cassini_eq_int *e = eq_int(eq);
	uint64_t full = (uint64_t)taken(e) + e->fc_slots;

	return full < e->slots ? (uint32_t)(e->slots - full) : 0;
}

uint64_t cassini_eq_dropped(const struct cassini_eq *eq)
{
	return eq_int(eq)->dropped;
}

void cassini_eq_unclaim(struct cassini_eq *eq)
{
	if (!eq)
		return;
	assert(eq_int(eq)->open < eq_int(eq)->slots - eq_int(eq)->fc_slots);
	eq_int(eq)->open++;
}

static __attribute__((cold, noinline)) bool drop(struct cassini_eq_int *e)
{
	if (!e->dropped++)
		LOG_WARN("EQ of %u slots dropped an event: it is full", e->slots);
	e->lni->nic->stats.events_dropped++;
	return false;
}

bool cassini_eq_push(struct cassini_eq *eq, const struct cassini_event *ev, bool claimed)
{
	struct cassini_eq_int *e;

	if (!eq)
		return true;
	e = eq_int(eq);
	if (claimed) {
		assert(e->open < e->slots - e->fc_slots);
		e->open++;
	} else if (unlikely(!cassini_eq_room(eq, 1))) {
		return drop(e);
	}
	*cassini_eq_next(eq) = *ev;
	cassini_eq_publish(eq);
	return true;
}

bool cassini_eq_push_fc(struct cassini_eq *eq, const struct cassini_event *ev)
{
	struct cassini_eq_int *e;

	if (!eq)
		return true;
	e = eq_int(eq);
	if (unlikely(taken(e) >= e->slots))
		return drop(e);
	*cassini_eq_next(eq) = *ev;
	cassini_eq_publish(eq);
	return true;
}

bool cassini_eq_has_room(const struct cassini_eq *eq, uint32_t n)
{
	return !eq || cassini_eq_room(eq, n);
}
