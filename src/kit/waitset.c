// SPDX-License-Identifier: BSD-2-Clause
// Wait sets: one wait object that several CQs, counters and EQs signal.
#include "kit/kit_int.h"

static enum kit_look set_look(void *arg, enum kit_arm arm)
{
	struct kit_wait *w = arg;
	enum kit_look ret = KIT_SLEEP;

	lock_acquire(&w->lock);
	for (uint32_t i = 0; i < w->members.cnt && ret != KIT_FOUND; i++) {
		enum kit_look l = kit_watch_look(&w->members.v[i], arm);

		ret = MIN(ret, l);
	}
	lock_release(&w->lock);
	return ret;
}

int kit_waitset_trywait(struct kit_wait *w)
{
	return kit_wait_try(w, set_look, w);
}

static int set_wait(struct fid_wait *fid, int timeout)
{
	struct kit_wait *w = container_of(fid, struct kit_wait, fid);

	return kit_wait_for(w, set_look, w, timeout);
}

static struct fi_ops_wait set_ops = {
	.size = sizeof(struct fi_ops_wait),
	.wait = set_wait,
};

static int set_close(struct fid *fid)
{
	struct kit_wait *w = container_of(fid, struct kit_wait, fid.fid);
	struct kit_fabric *f = w->fabric;

	if (kit_busy(&w->refs))
		return -FI_EBUSY;
	kit_wait_free(w);
	kit_unref(&f->refs);
	return 0;
}

static int set_control(struct fid *fid, int command, void *arg)
{
	return kit_wait_control(container_of(fid, struct kit_wait, fid.fid), command, arg);
}

static struct fi_ops set_fi_ops = KIT_FI_OPS(set_close, kit_no_bind, set_control);

int kit_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
	struct kit_fabric *f = container_of(fabric, struct kit_fabric, fid);
	struct kit_wait *w;
	int ret;

	if (!fabric || fabric->fid.fclass != FI_CLASS_FABRIC || !attr || attr->flags || !out)
		return -FI_EINVAL;
	ret = kit_wait_new(&w, attr->wait_obj);
	if (ret)
		return ret;
	w->fabric = f;
	w->fid.fid.fclass = FI_CLASS_WAIT;
	w->fid.fid.ops = &set_fi_ops;
	w->fid.ops = &set_ops;
	kit_ref(&f->refs);
	*out = &w->fid;
	return 0;
}
