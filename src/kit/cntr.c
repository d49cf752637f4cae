// SPDX-License-Identifier: BSD-2-Clause
// Completion counters: success and error values, reads and waits that drive the bound endpoints.
//
// Writers hold the domain's lock, so the data path pays a load and a store, no atomic addition.
#include "kit/kit_int.h"

static struct kit_cntr *to_cntr(struct fid_cntr *fid)
{
	return container_of(fid, struct kit_cntr, fid);
}

/* All relaxed: a counter says how many, and publishes no other memory; the lock orders the writers.
 */
static uint64_t value(_Atomic uint64_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void value_set(_Atomic uint64_t *v, uint64_t to)
{
	atomic_store_explicit(v, to, memory_order_relaxed);
}

static void changed(struct kit_cntr *c)
{
	if (unlikely(c->wait != NULL))
		kit_wait_signal(c->wait);
	if (unlikely(c->on_change != NULL))
		c->on_change(c);
}

void kit_cntr_add(struct kit_cntr *c, uint64_t ok, uint64_t err)
{
	if (!c)
		return;
	lock_assert_held(&c->domain->lock);
	if (ok)
		value_set(&c->ok, value(&c->ok) + ok);
	if (unlikely(err))
		value_set(&c->err, value(&c->err) + err);
	changed(c);
}

void kit_cntr_store(struct kit_cntr *c, uint64_t ok, uint64_t err)
{
	lock_assert_held(&c->domain->lock);
	value_set(&c->ok, ok);
	value_set(&c->err, err);
	changed(c);
}

static int drive(struct kit_cntr *c)
{
	struct kit_domain *d = c->domain;
	int events;

	if (!kit_enter(d))
		return -FI_EIO;
	events = kit_drive(&c->eps, &c->ep_cnt);
	lock_release(&d->lock);
	if (!events && d->idle)
		d->idle(d);
	return 0;
}

uint64_t kit_cntr_fid_read(struct fid_cntr *fid)
{
	struct kit_cntr *c = to_cntr(fid);

	uint64_t v;

	drive(c);
	v = value(&c->ok);
	value_set(&c->told_ok, v);
	return v;
}

uint64_t kit_cntr_fid_readerr(struct fid_cntr *fid)
{
	struct kit_cntr *c = to_cntr(fid);

	uint64_t v;

	drive(c);
	v = value(&c->err);
	value_set(&c->told_err, v);
	return v;
}

static int cntr_change(struct kit_cntr *c, _Atomic uint64_t *v, uint64_t arg, bool add)
{
	if (!kit_enter(c->domain))
		return -FI_EIO;
	value_set(v, add ? value(v) + arg : arg);
	changed(c);
	lock_release(&c->domain->lock);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t v)
{
	return cntr_change(to_cntr(fid), &to_cntr(fid)->ok, v, true);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t v)
{
	return cntr_change(to_cntr(fid), &to_cntr(fid)->err, v, true);
}

static int cntr_set(struct fid_cntr *fid, uint64_t v)
{
	return cntr_change(to_cntr(fid), &to_cntr(fid)->ok, v, false);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t v)
{
	return cntr_change(to_cntr(fid), &to_cntr(fid)->err, v, false);
}

/* What fi_cntr_wait waits for. */
struct goal {
	struct kit_cntr *c;
	uint64_t ok, err; /* the threshold; the errors when it began */
};

static bool goal_is_reached(void *arg)
{
	const struct goal *g = arg;

	return value(&g->c->ok) >= g->ok || value(&g->c->err) != g->err;
}

static enum kit_look goal_look(void *arg, enum kit_arm arm)
{
	struct goal *g = arg;

	return kit_look(kit_cntr_driven(g->c), goal_is_reached, g, arm);
}

int kit_cntr_fid_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct kit_cntr *c = to_cntr(fid);
	struct goal goal = {c, threshold, value(&c->err)};
	int ret;

	if (!c->wait && !c->waits_by_poll)
		return -FI_ENOSYS;
	if (kit_is_forked(c->domain))
		return -FI_EIO;
	ret = kit_wait_for(c->wait, goal_look, &goal, timeout);
	return ret || value(&c->ok) >= threshold ? ret : -FI_EAVAIL;
}

static bool has_news(void *arg)
{
	struct kit_cntr *c = arg;
	uint64_t ok = value(&c->ok), err = value(&c->err);
	bool is_new = ok != value(&c->told_ok) || err != value(&c->told_err);

	value_set(&c->told_ok, ok);
	value_set(&c->told_err, err);
	return is_new;
}

static enum kit_look news_look(void *arg, enum kit_arm arm)
{
	struct kit_cntr *c = arg;

	return kit_look(kit_cntr_driven(c), has_news, c, arm);
}

int kit_cntr_trywait(struct kit_cntr *c)
{
	if (!c->wait)
		return -FI_EINVAL;
	return kit_is_forked(c->domain) ? -FI_EIO : kit_wait_try(c->wait, news_look, c);
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = kit_cntr_fid_read,
	.readerr = kit_cntr_fid_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = kit_cntr_fid_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int kit_cntr_control(struct fid *fid, int command, void *arg)
{
	struct kit_cntr *c = container_of(fid, struct kit_cntr, fid.fid);

	return c->wait ? kit_wait_control(c->wait, command, arg) : -FI_ENODATA;
}

static int cntr_close(struct fid *fid)
{
	struct kit_cntr *c = container_of(fid, struct kit_cntr, fid.fid);
	int ret = kit_cntr_fini(c);

	if (!ret)
		mem_free(c);
	return ret;
}

static struct fi_ops cntr_fi_ops = KIT_FI_OPS(cntr_close, kit_no_bind, kit_cntr_control);

int kit_cntr_init(struct kit_cntr *c, struct kit_domain *d, const struct fi_cntr_attr *attr,
		  bool wait_ok, void *context)
{
	static const struct fi_cntr_attr plain; /* FI_WAIT_NONE */
	int ret;

	if (!attr)
		attr = &plain;
	if (attr->events != FI_CNTR_EVENTS_COMP || attr->flags) {
		KIT_WARN(d->prov, FI_LOG_CNTR,
			 "fi_cntr_attr: events %d and flags %#llx are not supported, only "
			 "FI_CNTR_EVENTS_COMP and 0\n",
			 attr->events, (unsigned long long)attr->flags);
		return -FI_EINVAL;
	}
	if (attr->wait_obj != FI_WAIT_NONE && !wait_ok) {
		KIT_WARN(d->prov, FI_LOG_CNTR,
			 "this provider's counters support FI_WAIT_NONE only, not wait object %d\n",
			 attr->wait_obj);
		return -FI_ENOSYS;
	}
	if (kit_is_forked(d))
		return -FI_EIO;
	c->domain = d;
	value_set(&c->ok, 0);
	value_set(&c->err, 0);
	value_set(&c->told_ok, 0);
	value_set(&c->told_err, 0);
	c->eps = NULL;
	c->ep_cnt = c->ep_cap = 0;
	c->waits_by_poll = false;
	c->on_change = NULL;
	atomic_store_explicit(&c->refs, 0, memory_order_relaxed);
	c->fid.fid.fclass = FI_CLASS_CNTR;
	c->fid.fid.context = context;
	c->fid.fid.ops = &cntr_fi_ops;
	c->fid.ops = &cntr_ops;
	/* last: another thread may be waiting for that set, and looks at what is in it */
	ret = kit_wait_get(&c->wait, attr->wait_obj, attr->wait_set, &c->fid.fid);
	if (!ret)
		kit_ref(&d->refs);
	return ret;
}

int kit_cntr_open(struct kit_domain *d, const struct fi_cntr_attr *attr, bool wait_ok, struct fid_cntr **cntr,
		  void *context)
{
	struct kit_cntr *c = cntr ? mem_alloc(sizeof(*c)) : NULL;
	int ret;

	if (!c)
		return cntr ? -FI_ENOMEM : -FI_EINVAL;
	ret = kit_cntr_init(c, d, attr, wait_ok, context);
	if (ret) {
		mem_free(c);
		return ret;
	}
	*cntr = &c->fid;
	return 0;
}

int kit_cntr_fini(struct kit_cntr *c)
{
	struct kit_domain *d = c->domain;
	bool entered;

	if (kit_busy(&c->refs))
		return -FI_EBUSY;
	entered = kit_enter(d);
	kit_polls_forget(d, &c->fid.fid);
	kit_leave(d, entered);
	kit_wait_put(c->wait, &c->fid.fid);
	mem_free(c->eps);
	kit_unref(&d->refs);
	return 0;
}
