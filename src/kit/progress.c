// SPDX-License-Identifier: BSD-2-Clause
// Who is driven when: lists of endpoints and one progress pass over them.
#include "kit/kit_int.h"

int kit_eps_add(struct kit_ep ***eps, uint32_t *cnt, uint32_t *cap, struct kit_ep *ep)
{
	for (uint32_t i = 0; i < *cnt; i++) {
		if ((*eps)[i] == ep)
			return 0;
	}
	if (*cnt == *cap) {
		uint32_t more = *cap ? *cap * 2 : 4;
		struct kit_ep **v = mem_alloc(more * sizeof(struct kit_ep *));

		if (!v)
			return -FI_ENOMEM;
		if (*cnt)
			memcpy(v, *eps, *cnt * sizeof(struct kit_ep *));
		mem_free(*eps);
		*eps = v;
		*cap = more;
	}
	(*eps)[(*cnt)++] = ep;
	return 0;
}

void kit_eps_del(struct kit_ep **eps, uint32_t *cnt, struct kit_ep *ep)
{
	for (uint32_t i = 0; i < *cnt; i++) {
		if (eps[i] == ep) {
			eps[i] = eps[--*cnt];
			return;
		}
	}
}

/* Lock held, after a progress pass that brought nothing: will what comes for @eps wake us? */
static enum kit_look devices_arm(const struct kit_domain *d, struct kit_ep **eps, uint32_t cnt, bool has_fd)
{
	enum kit_look ret = KIT_SLEEP;

	for (uint32_t i = 0; i < cnt; i++) {
		if (eps[i]->is_driven && !has_fd)
			ret = KIT_NAP;
		else if (!eps[i]->wait_arm)
			ret = d->progress == FI_PROGRESS_AUTO ? ret : KIT_NAP;
		else if (eps[i]->wait_arm(eps[i]))
			return KIT_WORK;
	}
	return ret;
}

enum kit_look kit_look(struct kit_driven by, kit_ready_fn *is_ready, void *arg, enum kit_arm arm)
{
	struct kit_domain *d = by.domain;
	enum kit_look ret = KIT_NAP;
	int events;

	if (!kit_enter(d))
		return KIT_FOUND;
	events = kit_drive(by.eps, by.cnt);
	if (is_ready(arg))
		ret = KIT_FOUND;
	else if (arm != KIT_ARM_NONE)
		ret = devices_arm(d, *by.eps, *by.cnt, arm == KIT_ARM_FD);
	lock_release(&d->lock);
	if (ret == KIT_NAP && !events && d->idle)
		d->idle(d);
	return ret;
}

__attribute__((noinline)) int kit_drive_all(struct kit_ep **const *eps, const uint32_t *cnt)
{
	int events = 0;

	for (uint32_t i = 0; i < *cnt; i++)
		events += (*eps)[i]->progress((*eps)[i]);
	return events;
}
