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

int kit_can_sleep(struct kit_domain *d, struct kit_ep **eps, uint32_t cnt, const struct kit_wait *w)
{
	bool has_fd = !w || w->obj == FI_WAIT_FD;
	int ret = 1;

	for (uint32_t i = 0; i < cnt; i++) {
		if (eps[i]->is_driven && !has_fd)
			ret = 0;
		else if (!eps[i]->wait_fd)
			ret = d->progress == FI_PROGRESS_AUTO ? ret : 0;
		else if (eps[i]->wait_arm && eps[i]->wait_arm(eps[i]))
			return -FI_EAGAIN;
	}
	return ret;
}

void kit_progress(struct kit_domain *d, struct kit_ep **eps, uint32_t cnt)
{
	int events;

	if (!kit_enter(d))
		return;
	events = kit_drive(eps, cnt);
	lock_release(&d->lock);
	if (!events && d->idle)
		d->idle(d);
}
