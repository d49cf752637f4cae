// SPDX-License-Identifier: BSD-2-Clause
// Wait sets: one wait object that several CQs, counters and EQs signal.
#include "kit/kit_int.h"

/* -FI_EAGAIN: a member has news, or a device has work; 1: the caller may sleep; 0: it must drive.
 */
static int set_look(struct kit_wait *w)
{
	int ret = 1;

	lock_acquire(&w->lock);
	for (uint32_t i = 0; i < w->members.cnt && ret >= 0; i++) {
		int can_sleep;

		if (kit_watch_ready_locking(&w->members.v[i], w, &can_sleep))
			ret = -FI_EAGAIN;
		else
			ret = MIN(ret, can_sleep);
	}
	lock_release(&w->lock);
	return ret;
}

int kit_waitset_trywait(struct kit_wait *w)
{
	kit_wait_arm(w);
	return set_look(w) == 1 ? 0 : -FI_EAGAIN;
}

static int set_wait(struct fid_wait *fid, int timeout)
{
	struct kit_wait *w = container_of(fid, struct kit_wait, fid);
	struct kit_nap nap = kit_nap_start(timeout);
	uint32_t token;
	int ret;

	do {
		token = kit_wait_arm(w);
		ret = set_look(w);
		if (ret < 0)
			return 0;
	} while (kit_nap(&nap, w, token, ret));
	return -FI_ETIMEDOUT;
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
