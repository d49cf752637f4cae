// SPDX-License-Identifier: BSD-2-Clause
// Looking at several queues at once: what a poll set and a wait set watch, fi_poll and fi_trywait.
#include "kit/kit_int.h"

struct kit_poll {
	struct fid_poll fid;
	struct kit_domain *domain;
	struct kit_poll *next;	     /* domain->polls; lock */
	struct kit_watch_list watch; /* domain's lock */
};

int kit_watch_add(struct kit_watch_list *l, struct fid *fid)
{
	for (uint32_t i = 0; i < l->cnt; i++) {
		if (l->v[i].fid == fid)
			return 0;
	}
	if (l->cnt == l->cap) {
		uint32_t cap = l->cap ? l->cap * 2 : 4;
		struct kit_watch *v = mem_alloc(cap * sizeof(*v));

		if (!v)
			return -FI_ENOMEM;
		if (l->cnt)
			memcpy(v, l->v, l->cnt * sizeof(*v));
		mem_free(l->v);
		l->v = v;
		l->cap = cap;
	}
	l->v[l->cnt++] = (struct kit_watch){.fid = fid};
	return 0;
}

bool kit_watch_del(struct kit_watch_list *l, struct fid *fid)
{
	for (uint32_t i = 0; i < l->cnt; i++) {
		if (l->v[i].fid == fid) {
			memmove(&l->v[i], &l->v[i + 1], (--l->cnt - i) * sizeof(l->v[0]));
			return true;
		}
	}
	return false;
}

/* A counter is news when it differs from the last look. */
bool kit_watch_ready(struct kit_watch *w)
{
	uint64_t ok, err;
	struct kit_cntr *c;
	bool ready;

	if (w->fid->fclass == FI_CLASS_CQ)
		return kit_cq_ready(container_of(w->fid, struct kit_cq, fid.fid));
	if (w->fid->fclass == FI_CLASS_EQ)
		return kit_eq_ready((struct kit_eq *)w->fid);
	c = container_of(w->fid, struct kit_cntr, fid.fid);
	ok = atomic_load_explicit(&c->ok, memory_order_relaxed);
	err = atomic_load_explicit(&c->err, memory_order_relaxed);
	ready = ok != w->ok || err != w->err;
	w->ok = ok;
	w->err = err;
	return ready;
}

static struct kit_driven driven_by(struct fid *fid)
{
	if (fid->fclass == FI_CLASS_CQ)
		return kit_cq_driven(container_of(fid, struct kit_cq, fid.fid));
	return kit_cntr_driven(container_of(fid, struct kit_cntr, fid.fid));
}

static bool watch_is_ready(void *arg)
{
	return kit_watch_ready(arg);
}

enum kit_look kit_watch_look(struct kit_watch *w, enum kit_arm arm)
{
	if (w->fid->fclass == FI_CLASS_EQ)
		return kit_watch_ready(w) ? KIT_FOUND : KIT_SLEEP;
	return kit_look(driven_by(w->fid), watch_is_ready, w, arm);
}

void kit_polls_forget(struct kit_domain *d, struct fid *fid)
{
	for (struct kit_poll *p = d->polls; p; p = p->next)
		kit_watch_del(&p->watch, fid);
}

static int poll_check(struct kit_poll *p, struct fid *fid, uint64_t flags)
{
	if (!fid || flags)
		return -FI_EINVAL;
	if (fid->fclass != FI_CLASS_CQ && fid->fclass != FI_CLASS_CNTR) {
		KIT_WARN(p->domain->prov, FI_LOG_DOMAIN,
			 "a poll set takes CQs and counters, not an object of class %zu\n",
			 fid->fclass);
		return -FI_EINVAL;
	}
	return driven_by(fid).domain == p->domain ? 0 : -FI_EINVAL;
}

static int poll_add(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct kit_poll *p = container_of(fid, struct kit_poll, fid);
	int ret = poll_check(p, event_fid, flags);

	if (ret)
		return ret;
	if (!kit_enter(p->domain))
		return -FI_EIO;
	ret = kit_watch_add(&p->watch, event_fid);
	lock_release(&p->domain->lock);
	return ret;
}

static int poll_del(struct fid_poll *fid, struct fid *event_fid, uint64_t flags)
{
	struct kit_poll *p = container_of(fid, struct kit_poll, fid);
	bool found;

	if (!event_fid || flags)
		return -FI_EINVAL;
	if (!kit_enter(p->domain))
		return -FI_EIO;
	found = kit_watch_del(&p->watch, event_fid);
	lock_release(&p->domain->lock);
	return found ? 0 : -FI_EINVAL;
}

static int poll_run(struct fid_poll *fid, void **context, int count)
{
	struct kit_poll *p = container_of(fid, struct kit_poll, fid);
	int n = 0;

	if (count < 0 || (count && !context))
		return -FI_EINVAL;
	if (!kit_enter(p->domain))
		return -FI_EIO;
	/* What does not fit is not looked at: a counter's news must not be lost. */
	for (uint32_t i = 0; i < p->watch.cnt && n < count; i++) {
		struct kit_driven by = driven_by(p->watch.v[i].fid);

		kit_drive(by.eps, by.cnt);
		if (kit_watch_ready(&p->watch.v[i]))
			context[n++] = p->watch.v[i].fid->context;
	}
	lock_release(&p->domain->lock);
	if (!n && p->domain->idle)
		p->domain->idle(p->domain);
	return n;
}

static struct fi_ops_poll poll_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = poll_run,
	.poll_add = poll_add,
	.poll_del = poll_del,
};

static int poll_close(struct fid *fid)
{
	struct kit_poll *p = container_of(fid, struct kit_poll, fid.fid);
	struct kit_domain *d = p->domain;
	bool entered = kit_enter(d);

	for (struct kit_poll **link = &d->polls; *link; link = &(*link)->next) {
		if (*link == p) {
			*link = p->next;
			break;
		}
	}
	kit_leave(d, entered);
	mem_free(p->watch.v);
	mem_free(p);
	kit_unref(&d->refs);
	return 0;
}

static struct fi_ops poll_fi_ops = KIT_FI_OPS(poll_close, kit_no_bind, kit_no_control);

int kit_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset)
{
	struct kit_domain *d = container_of(domain, struct kit_domain, fid);
	struct kit_poll *p;

	if (!domain || domain->fid.fclass != FI_CLASS_DOMAIN || !pollset || (attr && attr->flags))
		return -FI_EINVAL;
	p = mem_alloc(sizeof(*p));
	if (!p)
		return -FI_ENOMEM;
	p->domain = d;
	p->fid.fid.fclass = FI_CLASS_POLL;
	p->fid.fid.ops = &poll_fi_ops;
	p->fid.ops = &poll_ops;
	if (!kit_enter(d)) {
		mem_free(p);
		return -FI_EIO;
	}
	p->next = d->polls;
	d->polls = p;
	lock_release(&d->lock);
	kit_ref(&d->refs);
	*pollset = &p->fid;
	return 0;
}
