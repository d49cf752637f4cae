// SPDX-License-Identifier: BSD-2-Clause
// Event queues: a list under a lock of its own, since events come from any object of a fabric.
#include <unistd.h>

#include "kit/kit_int.h"

#include <limits.h>

struct event {
	struct event *next;
	uint32_t event;
	bool is_err;
	struct fi_eq_err_entry err; /* is_err; err_data: data, or NULL */
	size_t len;
	uint8_t data[];
};

struct kit_eq {
	struct fid_eq fid;
	struct kit_fabric *fabric;
	struct lock lock; /* the list and @shown */
	struct event *head, **tail;
	size_t cnt; /* of them */
	struct event *shown; /* the last error read: owns the err_data that the caller was given */
	void *place;         /* kit_err_show(); lock */
	struct kit_wait *wait;
	_Atomic int refs;
	pid_t pid; /* who opened it: in a child the lock's holder may not exist */
};

static struct kit_eq *to_eq(struct fid_eq *fid)
{
	return container_of(fid, struct kit_eq, fid);
}

void kit_eq_ref(struct kit_eq *eq)
{
	kit_ref(&eq->refs);
}

void kit_eq_unref(struct kit_eq *eq)
{
	kit_unref(&eq->refs);
}

struct kit_fabric *kit_eq_fabric(const struct kit_eq *eq)
{
	return eq->fabric;
}

/* Not on the data path, so a system call is fine. */
static bool enter(struct kit_eq *eq)
{
	if (eq->pid != getpid())
		return false;
	lock_acquire(&eq->lock);
	return true;
}

static int push(struct kit_eq *eq, struct event *ev)
{
	if (!enter(eq)) {
		mem_free(ev);
		return -FI_EIO;
	}
	*eq->tail = ev;
	eq->tail = &ev->next;
	eq->cnt++;
	lock_release(&eq->lock);
	if (eq->wait)
		kit_wait_signal(eq->wait);
	return 0;
}

int kit_eq_push(struct kit_eq *eq, uint32_t event, const void *buf, size_t len)
{
	struct event *ev = mem_alloc(sizeof(*ev) + len);

	if (!ev)
		return -FI_ENOMEM;
	ev->event = event;
	ev->len = len;
	if (len)
		memcpy(ev->data, buf, len);
	return push(eq, ev);
}

int kit_eq_push_err(struct kit_eq *eq, const struct fi_eq_err_entry *err, const void *err_data,
		    size_t len)
{
	struct event *ev;

	if (!err_data)
		len = 0;
	ev = mem_alloc(sizeof(*ev) + len);
	if (!ev)
		return -FI_ENOMEM;
	ev->is_err = true;
	ev->err = *err;
	ev->err.err_data = len ? ev->data : NULL;
	ev->err.err_data_size = len;
	ev->len = len;
	if (len)
		memcpy(ev->data, err_data, len);
	return push(eq, ev);
}

size_t kit_eq_unread(struct kit_eq *eq)
{
	size_t n;

	if (!enter(eq))
		return 0;
	n = eq->cnt;
	lock_release(&eq->lock);
	return n;
}

static struct event *pop(struct kit_eq *eq)
{
	struct event *ev = eq->head;

	eq->head = ev->next;
	if (!eq->head)
		eq->tail = &eq->head;
	eq->cnt--;
	return ev;
}

/* An event longer than the caller's buffer is cut, as fi_eq(3) promises for connection data. */
static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct kit_eq *eq = to_eq(fid);
	struct event *done = NULL;
	ssize_t ret = -FI_EAGAIN;

	if (flags & ~(uint64_t)FI_PEEK)
		return -FI_EINVAL;
	if (!enter(eq))
		return -FI_EIO;
	if (eq->head && eq->head->is_err) {
		ret = -FI_EAVAIL;
	} else if (eq->head) {
		struct event *ev = eq->head;

		ret = buf ? (ssize_t)MIN(len, ev->len) : 0;
		if (event)
			*event = ev->event;
		if (ret)
			memcpy(buf, ev->data, (size_t)ret);
		if (!(flags & FI_PEEK))
			done = pop(eq);
	}
	lock_release(&eq->lock);
	mem_free(done);
	return ret;
}

static void err_copy(struct kit_eq *eq, const struct event *ev, struct fi_eq_err_entry *out)
{
	void *data = out->err_data;
	size_t len = out->err_data_size;

	/* a caller that uses its struct again still has our data of some error there, which are no buffer */
	if (kit_err_is_shown(data) || (eq->shown && data == eq->shown->err.err_data))
		len = 0;
	*out = ev->err;
	out->err_data = kit_err_show(&eq->place, ev->err.err_data, ev->err.err_data_size);
	/* Before 1.5 the fields were output only: what they hold on input is no buffer. */
	if (eq->fabric->api_version < KIT_V(1, 5) || !data || !len)
		return;
	out->err_data = data;
	out->err_data_size = kit_err_give(data, len, ev->err.err_data, ev->err.err_data_size);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *out, uint64_t flags)
{
	struct kit_eq *eq = to_eq(fid);
	struct event *done = NULL;
	ssize_t ret = -FI_EAGAIN;

	if (!out || (flags & ~(uint64_t)FI_PEEK))
		return -FI_EINVAL;
	if (!enter(eq))
		return -FI_EIO;
	if (eq->head && eq->head->is_err) {
		err_copy(eq, eq->head, out);
		if (!(flags & FI_PEEK)) {
			done = eq->shown;
			eq->shown = pop(eq);
		}
		ret = sizeof(*out);
	}
	lock_release(&eq->lock);
	mem_free(done);
	return ret;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len,
			uint64_t flags)
{
	int ret;

	if (flags || (len && !buf) || len > SSIZE_MAX - sizeof(struct event))
		return -FI_EINVAL;
	ret = kit_eq_push(to_eq(fid), event, buf, len);
	return ret ? ret : (ssize_t)len;
}

bool kit_eq_ready(struct kit_eq *eq)
{
	bool ready;

	if (!enter(eq))
		return false;
	ready = eq->head != NULL;
	lock_release(&eq->lock);
	return ready;
}

static enum kit_look ready_look(void *arg, enum kit_arm arm)
{
	(void)arm; /* whoever makes an event signals */
	return kit_eq_ready(arg) ? KIT_FOUND : KIT_SLEEP;
}

int kit_eq_trywait(struct kit_eq *eq)
{
	if (!eq->wait)
		return -FI_EINVAL;
	if (eq->pid != getpid())
		return -FI_EIO;
	return kit_wait_try(eq->wait, ready_look, eq);
}

/* A blocking read. */
struct sread {
	struct fid_eq *fid;
	uint32_t *event;
	void *buf;
	size_t len;
	uint64_t flags;
	ssize_t ret;
};

static enum kit_look read_look(void *arg, enum kit_arm arm)
{
	struct sread *r = arg;

	(void)arm;
	r->ret = eq_read(r->fid, r->event, r->buf, r->len, r->flags);
	return r->ret == -FI_EAGAIN ? KIT_SLEEP : KIT_FOUND;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout,
			uint64_t flags)
{
	struct sread r = {fid, event, buf, len, flags, -FI_EAGAIN};
	struct kit_eq *eq = to_eq(fid);

	if (!eq->wait)
		return -FI_ENOSYS;
	if (eq->pid != getpid())
		return -FI_EIO;
	kit_wait_for(eq->wait, read_look, &r, timeout);
	return r.ret;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return kit_text(fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno), buf, len);
}

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

static bool event_of(const struct event *ev, const struct fid *fid)
{
	const struct fid *subject;

	if (ev->is_err)
		return ev->err.fid == fid;
	/* All standard events begin with their object; others may hold anything. */
	if (ev->event > FI_JOIN_COMPLETE || ev->len < sizeof(subject))
		return false;
	memcpy(&subject, ev->data, sizeof(subject));
	return subject == fid;
}

void kit_eq_forget(struct kit_eq *eq, const struct fid *fid)
{
	struct event **link;

	if (!enter(eq))
		return;
	for (link = &eq->head; *link;) {
		struct event *ev = *link;

		if (event_of(ev, fid)) {
			*link = ev->next;
			eq->cnt--;
			mem_free(ev);
		} else {
			link = &ev->next;
		}
	}
	eq->tail = link;
	lock_release(&eq->lock);
}

static int eq_close(struct fid *fid)
{
	struct kit_eq *eq = container_of(fid, struct kit_eq, fid.fid);

	if (kit_busy(&eq->refs))
		return -FI_EBUSY;
	kit_wait_put(eq->wait, &eq->fid.fid);
	while (eq->head)
		mem_free(pop(eq));
	mem_free(eq->shown);
	kit_err_unshow(&eq->place);
	kit_unref(&eq->fabric->refs);
	mem_free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct kit_eq *eq = container_of(fid, struct kit_eq, fid.fid);

	return eq->wait ? kit_wait_control(eq->wait, command, arg) : -FI_ENODATA;
}

static struct fi_ops eq_fi_ops = KIT_FI_OPS(eq_close, kit_no_bind, eq_control);

int kit_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out,
		void *context)
{
	static const struct fi_eq_attr plain; /* FI_WAIT_NONE */
	const struct fi_eq_attr *a = attr ? attr : &plain;
	struct kit_fabric *f = container_of(fabric, struct kit_fabric, fid);
	struct kit_eq *eq;
	int ret;

	if (!fabric || fabric->fid.fclass != FI_CLASS_FABRIC || !out)
		return -FI_EINVAL;
	if (a->flags & ~(uint64_t)(FI_WRITE | FI_AFFINITY)) {
		KIT_WARN(f->prov, FI_LOG_EQ, "fi_eq_attr.flags %#llx are not supported\n",
			 (unsigned long long)a->flags);
		return -FI_EINVAL;
	}
	eq = mem_alloc(sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	eq->fabric = f;
	eq->pid = getpid();
	eq->tail = &eq->head;
	eq->fid.fid.fclass = FI_CLASS_EQ;
	eq->fid.fid.context = context;
	eq->fid.fid.ops = &eq_fi_ops;
	eq->fid.ops = &eq_ops;
	/* last: another thread may be waiting for that set, and looks at what is in it */
	ret = kit_wait_get(&eq->wait, a->wait_obj, a->wait_set, &eq->fid.fid);
	if (ret) {
		mem_free(eq);
		return ret;
	}
	kit_ref(&f->refs);
	*out = &eq->fid;
	return 0;
}
