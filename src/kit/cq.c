// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: a ring that grows, errors kept in line, reads that drive the bound endpoints.
//
// Theory of operation: everything is under the domain's lock, which a read takes once, for the
// progress pass and for the copy. An error is a node in a list of its own; an entry of the ring
// marked KIT_CQE_ERR keeps its place in line, so the caller sees what happened before it first.
// Whenever the ring runs empty, head and tail go back to 0: a program that keeps up uses the same
// few cache lines for ever, however long the queue it asked for.
#include "kit/kit_int.h"

#include "kit/compat.h"

#define CQ_SIZE_DEFAULT 128
#define CQ_SIZE_MAX	(1u << 30)

struct kit_cq_err {
	struct kit_cq_err *next;
	struct fi_cq_err_entry e; /* e.err_data: data, or NULL */
	uint8_t data[];
};

static struct kit_cq *to_cq(struct fid_cq *fid)
{
	return container_of(fid, struct kit_cq, fid);
}

/* Not inline: what it needs is not to be fetched by who has nobody to wake. */
__attribute__((noinline)) void kit_cq_wake(struct kit_cq *cq)
{
	kit_wait_signal(cq->wait);
}

static int overrun(struct kit_cq *cq)
{
	if (!cq->overrun)
		KIT_WARN(cq->domain->prov, FI_LOG_CQ,
			 "no memory for completion %u of a CQ: completions are lost\n",
			 cq->tail - cq->head + 1);
	cq->overrun = true;
	if (cq->wait)
		kit_cq_wake(cq);
	return -FI_ENOMEM;
}

int kit_cq_grow(struct kit_cq *cq)
{
	uint32_t cnt = cq->tail - cq->head, size = cq->mask + 1;
	struct kit_cqe *ring;

	lock_assert_held(&cq->domain->lock);
	if (size >= CQ_SIZE_MAX)
		return overrun(cq);
	ring = mem_alloc(2 * (size_t)size * sizeof(*ring));
	if (!ring)
		return overrun(cq);
	for (uint32_t i = 0; i < cnt; i++)
		ring[i] = cq->ring[(cq->head + i) & cq->mask];
	mem_free(cq->ring);
	cq->ring = ring;
	cq->mask = 2 * size - 1;
	cq->head = 0;
	cq->tail = cnt;
	return 0;
}

void kit_cq_push_err(struct kit_cq *cq, const struct fi_cq_err_entry *err, const void *err_data,
		     size_t len)
{
	struct kit_cq_err *node;

	lock_assert_held(&cq->domain->lock);
	if (cq->tail - cq->head > cq->mask && kit_cq_grow(cq))
		return;
	if (!err_data)
		len = 0;
	node = mem_alloc(sizeof(*node) + len);
	if (!node) {
		overrun(cq);
		return;
	}
	memcpy(&node->e, err, KIT_CQ_ERR_LEN_1_5);
	node->e.err_data = len ? node->data : NULL;
	node->e.err_data_size = len;
	if (len)
		memcpy(node->data, err_data, len);
	*cq->err_tail = node;
	cq->err_tail = &node->next;
	cq->plain = KIT_CQ_UNPLAIN;
	kit_cq_push(cq, NULL, KIT_CQE_ERR, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

bool kit_cq_ready(const struct kit_cq *cq)
{
	return cq->tail != cq->head || cq->overrun || cq->stranded;
}

static bool head_is_err(const struct kit_cq *cq)
{
	return cq->ring[cq->head & cq->mask].e.flags & KIT_CQE_ERR;
}

/* The formats are prefixes of each other. Constant lengths: each case is a few moves, the commonest first. */
static inline uint8_t *entry_copy(uint8_t *dst, const struct kit_cqe *c, enum fi_cq_format format)
{
	switch (__builtin_expect(format, FI_CQ_FORMAT_TAGGED)) {
	case FI_CQ_FORMAT_TAGGED:
		memcpy(dst, &c->e, sizeof(struct fi_cq_tagged_entry));
		return dst + sizeof(struct fi_cq_tagged_entry);
	case FI_CQ_FORMAT_DATA:
		memcpy(dst, &c->e, sizeof(struct fi_cq_data_entry));
		return dst + sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_MSG:
		memcpy(dst, &c->e, sizeof(struct fi_cq_msg_entry));
		return dst + sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_CONTEXT:
	case FI_CQ_FORMAT_UNSPEC:
		memcpy(dst, &c->e, sizeof(struct fi_cq_entry));
		return dst + sizeof(struct fi_cq_entry);
	}
	must(0);
}

/* The queue is not empty, @count not 0. */
static inline ssize_t take(struct kit_cq *cq, uint8_t *dst, size_t count, fi_addr_t *src)
{
	uint32_t head = cq->head, end = cq->tail;
	const struct kit_cqe *c = &cq->ring[head & cq->mask];

	if (unlikely(c->e.flags & KIT_CQE_ERR))
		return -FI_EAVAIL;
	if (unlikely(end - head > count))
		end = head + (uint32_t)count;
	for (;;) {
		dst = entry_copy(dst, c, cq->format);
		if (src)
			*src++ = c->src;
		if (likely(++head == end))
			break;
		c = &cq->ring[head & cq->mask];
		if (unlikely(c->e.flags & KIT_CQE_ERR))
			break;
	}
	count = head - cq->head;
	if (likely(head == cq->tail))
		cq->head = cq->tail = 0;
	else
		cq->head = head;
	return (ssize_t)count;
}

/* What a read that took nothing returns; 0: it asked for no entry, and there is one. */
static ssize_t nothing_taken(struct kit_cq *cq)
{
	int err = cq->stranded;

	if (cq->tail != cq->head)
		return head_is_err(cq) ? -FI_EAVAIL : 0;
	if (cq->overrun)
		return -FI_EAVAIL;
	cq->stranded = 0;
	return err ? -err : -FI_EAGAIN;
}

void kit_cq_strand(struct kit_cq *cq, int err)
{
	lock_assert_held(&cq->domain->lock);
	cq->stranded = err;
	if (cq->wait)
		kit_cq_wake(cq);
}

/* Ends a read that had nothing to find. Lock not held any more. */
static inline ssize_t idle(struct kit_domain *d)
{
	if (d->idle)
		d->idle(d);
	return -FI_EAGAIN;
}

/*
 * @cq has found nothing: the gate for its next reads is opened by the second one in a row. The first one is known by
 * how it found the lock, and costs those nothing who read once between two calls.
 */
static void calm_open(struct kit_cq *cq)
{
	struct kit_domain *d = cq->domain;
	struct kit_ep *ep = cq->ep_cnt == 1 ? cq->eps[0] : NULL;
	uint32_t passed;
	bool is_calm;

	if (!d->calm_row || d->calm_cq != cq) {
		d->calm_cq = cq;
		calm_void(&d->calm);
	} else if (d->calm_skip) {
		d->calm_skip--;
	} else {
		passed = calm_begin(&d->calm);
		is_calm = ep && ep->calm && ep->calm(ep, &d->calm, passed);
		calm_end(&d->calm, is_calm);
		d->calm_skip = is_calm ? 0 : CALM_ROW;
	}
}

/* Ends a read that took nothing. @events: of its progress pass. */
static __attribute__((noinline)) ssize_t found_nothing(struct kit_cq *cq, int events)
{
	struct kit_domain *d = cq->domain;
	ssize_t ret = nothing_taken(cq);

	if (events || ret != -FI_EAGAIN) {
		lock_release(&d->lock);
		return ret;
	}
	calm_open(cq);
	lock_release_calm(&d->lock);
	return idle(d);
}

#define UNDRIVEN_MAX 8 /* reads in a row that hand out what is there, without progress */

/* The one entry of a queue that ran empty before it came, in the format that most programs ask for. */
static inline bool is_one(const struct kit_cq *cq)
{
	return likely(cq->span == KIT_CQ_ONE && cq->plain == FI_CQ_FORMAT_TAGGED);
}

static inline ssize_t take_one(struct kit_cq *cq, void *dst, fi_addr_t *src)
{
	const struct kit_cqe *c = cq->ring;

	memcpy(dst, &c->e, sizeof(c->e));
	if (src)
		*src = c->src;
	cq->span = 0;
	lock_release(&cq->domain->lock);
	return 1;
}

/* The queue is not empty, @count not 0. Lock held, and let go. */
static __attribute__((noinline)) ssize_t take_many(struct kit_cq *cq, void *dst, size_t count, fi_addr_t *src)
{
	ssize_t ret = take(cq, dst, count, src);

	lock_release(&cq->domain->lock);
	return ret;
}

/* A progress pass, and what it has brought. Lock held, and let go. */
static inline __attribute__((always_inline)) ssize_t drive_and_take(struct kit_cq *cq, void *buf, size_t count,
								    fi_addr_t *src)
{
	int events = kit_drive(&cq->eps, &cq->ep_cnt);

	cq->undriven = UNDRIVEN_MAX - 1;
	if (is_one(cq) && likely(count != 0))
		return take_one(cq, buf, src);
	return count && cq->span ? take_many(cq, buf, count, src) : found_nothing(cq, events);
}

/* The ways of a read are functions of their own, so that the one that hands out what is there saves no register. */
static __attribute__((noinline)) ssize_t read_driven(struct kit_cq *cq, void *buf, size_t count)
{
	return drive_and_take(cq, buf, count, NULL);
}

static __attribute__((noinline)) ssize_t readfrom_driven(struct kit_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	return drive_and_take(cq, buf, count, src);
}

/*
 * A poll that finds nothing is what a waiting program does all the time; what is there already is handed out first, in
 * the batches in which it came. Who asks for no entry asks for progress. Lock held, and let go.
 */
static inline __attribute__((always_inline)) ssize_t read_locked(struct kit_cq *cq, void *buf, size_t count,
								 fi_addr_t *src)
{
	if (!cq->span || unlikely(--cq->undriven < 0) || unlikely(!count))
		return src ? readfrom_driven(cq, buf, count, src) : read_driven(cq, buf, count);
	return is_one(cq) ? take_one(cq, buf, src) : take_many(cq, buf, count, src);
}

/* Somebody else has the lock, or we are a child after fork. */
static __attribute__((cold, noinline)) ssize_t read_late(struct kit_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	if (!kit_enter(cq->domain))
		return -FI_EIO;
	cq->domain->calm_row = false;
	return read_locked(cq, buf, count, src);
}

static inline __attribute__((always_inline)) ssize_t read_entries(struct fid_cq *fid, void *buf, size_t count,
								  fi_addr_t *src)
{
	struct kit_cq *cq = to_cq(fid);
	struct kit_domain *d = cq->domain;
	uint32_t was = unlikely(!*d->fork_mark) ? LOCK_HELD : lock_take(&d->lock);

	if (unlikely(was != LOCK_FREE)) {
		if (was == LOCK_HELD)
			return read_late(cq, buf, count, src);
		if (d->calm_cq == cq && calm_holds(&d->calm)) {
			lock_release_calm(&d->lock);
			return idle(d);
		}
	}
	d->calm_row = was == LOCK_CALM;
	return read_locked(cq, buf, count, src);
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	return read_entries(fid, buf, count, src);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return read_entries(fid, buf, count, NULL);
}

static void err_pop(struct kit_cq *cq)
{
	struct kit_cq_err *node = cq->err_head;

	cq->err_head = node->next;
	if (!cq->err_head) {
		cq->err_tail = &cq->err_head;
		cq->plain = (int)cq->format;
	}
	cq->err_read = node;
	if (++cq->head == cq->tail)
		cq->head = cq->tail = 0;
}

/*
 * Into the caller's struct, which is as long as its API version says. From 1.5 on the caller may
 * own the buffer for err_data; otherwise ours is shown, valid until the CQ's next error is read.
 */
static void err_copy(const struct kit_cq *cq, const struct fi_cq_err_entry *e,
		     struct fi_cq_err_entry *out)
{
	uint32_t v = cq->domain->api_version;
	union {
		struct fi_cq_err_entry e;
		struct kit_cq_err_ext ext;
	} u = {.ext = {.src_addr = FI_ADDR_NOTAVAIL}};

	memcpy(&u, e, KIT_CQ_ERR_LEN_1_5);
	if (v >= KIT_V(1, 5) && out->err_data && out->err_data_size) {
		u.e.err_data = out->err_data;
		u.e.err_data_size =
			kit_err_give(out->err_data, out->err_data_size, e->err_data, e->err_data_size);
	}
	if (v >= KIT_V(1, 20))
		memcpy(out, &u, KIT_CQ_ERR_LEN_1_20);
	else if (v >= KIT_V(1, 5))
		memcpy(out, &u, KIT_CQ_ERR_LEN_1_5);
	else
		memcpy(out, &u, KIT_CQ_ERR_LEN_1_0);
}

/*
 * The error that was read last goes. A caller that uses its struct again still has our data of it there, or another
 * queue's, which are no buffer of the caller's.
 */
static void err_read_put(struct kit_cq *cq, struct fi_cq_err_entry *out)
{
	if (cq->domain->api_version >= KIT_V(1, 5) &&
	    (kit_err_is_shown(out->err_data) || (cq->err_read && out->err_data == cq->err_read->e.err_data)))
		out->err_data_size = 0;
	mem_free(cq->err_read);
	cq->err_read = NULL;
}

static ssize_t readerr_locked(struct kit_cq *cq, struct fi_cq_err_entry *out)
{
	err_read_put(cq, out);
	if (cq->head == cq->tail && cq->overrun) {
		const struct fi_cq_err_entry lost = {.err = FI_EOVERRUN, .prov_errno = FI_EOVERRUN};

		cq->overrun = false;
		err_copy(cq, &lost, out);
		return 1;
	}
	if (cq->head == cq->tail || !head_is_err(cq))
		return -FI_EAGAIN;
	err_pop(cq);
	if (cq->err_extra)
		cq->err_extra(cq, &cq->err_read->e);
	cq->err_read->e.err_data =
		kit_err_show(&cq->err_place, cq->err_read->e.err_data, cq->err_read->e.err_data_size);
	err_copy(cq, &cq->err_read->e, out);
	return 1;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *out, uint64_t flags)
{
	struct kit_cq *cq = to_cq(fid);
	ssize_t ret;

	if (!out)
		return -FI_EINVAL;
	if (!kit_enter(cq->domain))
		return -FI_EIO;
	ret = readerr_locked(cq, out);
	lock_release(&cq->domain->lock);
	return ret;
}

/* A blocking read. */
struct sread {
	struct kit_cq *cq;
	void *buf;
	size_t count;
	fi_addr_t *src;
	ssize_t ret;
};

static bool sread_ends(void *arg)
{
	struct sread *r = arg;
	struct kit_cq *cq = r->cq;

	r->ret = cq->tail != cq->head && r->count ? take(cq, r->buf, r->count, r->src) : nothing_taken(cq);
	/* sequentially consistent; pairs with cq_signal(): armed before this, it signals; or this sees its store */
	return r->ret != -FI_EAGAIN || (atomic_load(&cq->signaled) && atomic_exchange(&cq->signaled, 0));
}

static enum kit_look sread_look(void *arg, enum kit_arm arm)
{
	struct sread *r = arg;

	return kit_look(kit_cq_driven(r->cq), sread_ends, r, arm);
}

/* @cond is a hint about batching that fi_cq(3) lets a provider ignore. */
static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
			    const void *cond, int timeout)
{
	struct sread r = {to_cq(fid), buf, count, src, -FI_EAGAIN};
	ssize_t ret;

	if (!r.cq->wait)
		return -FI_ENOSYS;
	ret = cq_readfrom(fid, buf, count, src); /* what is there costs no progress */
	if (ret != -FI_EAGAIN)
		return ret;
	kit_wait_for(r.cq->wait, sread_look, &r, timeout);
	return r.ret;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct kit_cq *cq = to_cq(fid);

	if (!cq->wait)
		return -FI_ENOSYS;
	atomic_store(&cq->signaled, 1);
	kit_wait_signal(cq->wait);
	return 0;
}

static bool is_ready(void *arg)
{
	return kit_cq_ready(arg);
}

static enum kit_look ready_look(void *arg, enum kit_arm arm)
{
	struct kit_cq *cq = arg;

	return kit_look(kit_cq_driven(cq), is_ready, cq, arm);
}

int kit_cq_trywait(struct kit_cq *cq)
{
	if (!cq->wait)
		return -FI_EINVAL;
	return kit_is_forked(cq->domain) ? -FI_EIO : kit_wait_try(cq->wait, ready_look, cq);
}

const char *kit_text(const char *text, char *buf, size_t len)
{
	if (!buf || !len)
		return text;
	snprintf(buf, len, "%s", text);
	return buf;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	struct kit_cq *cq = to_cq(fid);
	const char *text = cq->strerror ? cq->strerror(cq, prov_errno, err_data) : NULL;

	if (!text)
		text = fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno);
	return kit_text(text, buf, len);
}

const struct fi_ops_cq kit_cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

int kit_cq_control(struct fid *fid, int command, void *arg)
{
	struct kit_cq *cq = container_of(fid, struct kit_cq, fid.fid);

	return cq->wait ? kit_wait_control(cq->wait, command, arg) : -FI_ENODATA;
}

static int cq_close(struct fid *fid)
{
	struct kit_cq *cq = container_of(fid, struct kit_cq, fid.fid);
	int ret = kit_cq_fini(cq);

	if (!ret)
		mem_free(cq);
	return ret;
}

static struct fi_ops cq_fi_ops = KIT_FI_OPS(cq_close, kit_no_bind, kit_cq_control);

static int cq_attr_check(struct kit_domain *d, const struct fi_cq_attr *attr, bool wait_ok)
{
	const char *why = NULL;

	if (!attr)
		return -FI_EINVAL;
	if ((unsigned)attr->format > FI_CQ_FORMAT_TAGGED)
		why = "format";
	else if (attr->flags & ~(uint64_t)FI_AFFINITY)
		why = "flags";
	else if ((unsigned)attr->wait_obj > FI_WAIT_POLLFD)
		why = "wait_obj";
	else if (attr->wait_obj != FI_WAIT_NONE && (unsigned)attr->wait_cond > FI_CQ_COND_THRESHOLD)
		why = "wait_cond";
	else if (attr->size > CQ_SIZE_MAX)
		why = "size";
	if (why) {
		KIT_WARN(d->prov, FI_LOG_CQ,
			 "fi_cq_attr.%s is not supported (format %d, flags %#llx, wait_obj %d, "
			 "wait_cond %d, size %zu)\n",
			 why, attr->format, (unsigned long long)attr->flags, attr->wait_obj,
			 attr->wait_cond, attr->size);
		return -FI_EINVAL;
	}
	if (attr->wait_obj != FI_WAIT_NONE && !wait_ok) {
		KIT_WARN(d->prov, FI_LOG_CQ,
			 "this provider's CQs support FI_WAIT_NONE only, not wait object %d\n",
			 attr->wait_obj);
		return -FI_ENOSYS;
	}
	return 0;
}

static size_t format_len(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_UNSPEC:
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	}
	must(0);
}

int kit_cq_init(struct kit_cq *cq, struct kit_domain *d, const struct fi_cq_attr *attr,
		size_t size_min, bool wait_ok, void *context)
{
	size_t size;
	int ret;

	ret = cq_attr_check(d, attr, wait_ok);
	if (ret)
		return ret;
	if (kit_is_forked(d))
		return -FI_EIO;
	cq->domain = d;
	cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
	cq->plain = (int)cq->format;
	cq->undriven = UNDRIVEN_MAX - 1;
	cq->entry_size = format_len(cq->format);
	cq->err_head = cq->err_read = NULL;
	cq->err_place = NULL;
	cq->err_tail = &cq->err_head;
	cq->overrun = false;
	cq->eps = NULL;
	cq->ep_cnt = cq->ep_cap = 0;
	cq->err_extra = NULL;
	cq->strerror = NULL;
	atomic_store_explicit(&cq->refs, 0, memory_order_relaxed);
	atomic_store_explicit(&cq->signaled, 0, memory_order_relaxed);
	size = MAX(attr->size ? attr->size : CQ_SIZE_DEFAULT, MIN(size_min, (size_t)CQ_SIZE_MAX));
	size = roundup_pow2(size);
	cq->ring = mem_alloc(size * sizeof(*cq->ring));
	if (!cq->ring)
		return -FI_ENOMEM;
	cq->mask = (uint32_t)size - 1;
	cq->head = cq->tail = 0;
	cq->fid.fid.fclass = FI_CLASS_CQ;
	cq->fid.fid.context = context;
	cq->fid.fid.ops = &cq_fi_ops;
	cq->fid.ops = (struct fi_ops_cq *)&kit_cq_ops;
	/* last: another thread may be waiting for that set, and looks at what is in it */
	ret = kit_wait_get(&cq->wait, attr->wait_obj, attr->wait_set, &cq->fid.fid);
	if (ret) {
		mem_free(cq->ring);
		cq->ring = NULL;
		return ret;
	}
	kit_ref(&d->refs);
	return 0;
}

int kit_cq_open(struct kit_domain *d, const struct fi_cq_attr *attr, size_t size_min, bool wait_ok,
		kit_cq_strerror_fn *strerror, struct fid_cq **cq_out, void *context)
{
	struct kit_cq *cq = cq_out ? mem_alloc(sizeof(*cq)) : NULL;
	int ret;

	if (!cq)
		return cq_out ? -FI_ENOMEM : -FI_EINVAL;
	ret = kit_cq_init(cq, d, attr, size_min, wait_ok, context);
	if (ret) {
		mem_free(cq);
		return ret;
	}
	cq->strerror = strerror;
	*cq_out = &cq->fid;
	return 0;
}

int kit_cq_fini(struct kit_cq *cq)
{
	struct kit_domain *d = cq->domain;
	bool entered;

	if (kit_busy(&cq->refs))
		return -FI_EBUSY;
	entered = kit_enter(d);
	kit_polls_forget(d, &cq->fid.fid);
	kit_leave(d, entered);
	kit_wait_put(cq->wait, &cq->fid.fid);
	while (cq->err_head) {
		struct kit_cq_err *node = cq->err_head;

		cq->err_head = node->next;
		mem_free(node);
	}
	mem_free(cq->err_read);
	kit_err_unshow(&cq->err_place);
	mem_free(cq->ring);
	mem_free(cq->eps);
	kit_unref(&d->refs);
	return 0;
}
