// SPDX-License-Identifier: BSD-2-Clause
// How a blocking call sleeps on an endpoint: what its context's descriptor tells, and when the reliability's next timer
// is due.
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "prov/opx/opx.h"

#define TIMER_NONE   (-1) /* nobody has asked for a descriptor: a sleeper looks again after a while by itself */
#define TIMER_FAILED (-2)

static struct opx_ep *to_ep(struct kit_ep *kep)
{
	return container_of(kep, struct opx_ep, kit);
}

static int timer_fd(struct opx_ep *ep)
{
	if (ep->timer_fd == TIMER_NONE) {
		ep->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		if (ep->timer_fd < 0) {
			LOG_WARN("no timer to wait on, waiting programs poll: %s", strerror(errno));
			ep->timer_fd = TIMER_FAILED;
		}
	}
	return ep->timer_fd;
}

int opx_wait_fd(struct kit_ep *kep, unsigned i)
{
	struct opx_ep *ep = to_ep(kep);

	if (!ep->hw || i > 1)
		return -1;
	return i ? timer_fd(ep) : hfi_ctxt_wait_fd(ep->hw);
}

void opx_wait_init(struct opx_ep *ep)
{
	ep->timer_fd = TIMER_NONE;
	ep->kit.wait_fd = opx_wait_fd;
	ep->kit.wait_arm = opx_wait_arm;
	ep->kit.is_driven = !ep->domain->auto_progress;
}

void opx_wait_fini(struct opx_ep *ep)
{
	if (ep->timer_fd >= 0)
		close(ep->timer_fd);
}

/* Due @ns from now; 0: never, and not readable. */
static bool timer_write(struct opx_ep *ep, uint64_t ns)
{
	struct itimerspec ts = {.it_value = {.tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC)}};

	return !timerfd_settime(ep->timer_fd, 0, &ts, NULL);
}

/* The timer is set for the reliability's next look, or for an earlier one. Return: false: that is now. */
static bool timer_set(struct opx_ep *ep)
{
	uint64_t next = opx_rel_next_ns(ep->rel), now;

	if (next == CLK_NEVER && !ep->timer_ns)
		return true;
	now = hfi_now_ns(ep->hfi);
	if (next <= now || ep->timer_fd == TIMER_FAILED)
		return false;
	if (ep->timer_fd == TIMER_NONE || (ep->timer_ns > now && ep->timer_ns <= next))
		return true;
	ep->timer_ns = next == CLK_NEVER ? 0 : next;
	return timer_write(ep, ep->timer_ns ? next - now : 0);
}

/* Does each operation that waits for room wait for its flow, which has a timer then? Other reasons nobody tells of. */
static bool pump_sleeps(const struct opx_ep *ep)
{
	const struct opx_op *op;

	TAILQ_FOREACH(op, &ep->pump, pump_link) {
		if (!op->peer->flow.wants_room)
			return false;
	}
	return true;
}

int opx_wait_arm(struct kit_ep *kep)
{
	struct opx_ep *ep = to_ep(kep);

	if (!kep->enabled)
		return 0;
	if (!TAILQ_EMPTY(&ep->copies) || !pump_sleeps(ep) || !timer_set(ep))
		return -FI_EAGAIN;
	return hfi_ctxt_arm(ep->hw);
}
