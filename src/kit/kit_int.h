// SPDX-License-Identifier: BSD-2-Clause
// What the files of kit/ share and nobody else sees: waiting, lists of endpoints, entering a
// domain.
#ifndef SF_KIT_KIT_INT_H
#define SF_KIT_KIT_INT_H

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kit/kit.h"
#include "kit/stubs.h"

/**
 * kit_enter() - Take the domain's lock, except in a child after fork, where its holder may not
 * exist. Return: taken; else the caller must touch nothing that the parent also uses.
 */
static inline bool kit_enter(struct kit_domain *d)
{
	if (kit_is_forked(d))
		return false;
	lock_acquire(&d->lock);
	return true;
}

static inline void kit_leave(struct kit_domain *d, bool entered)
{
	if (entered)
		lock_release(&d->lock);
}

/* Reference counts: release on the way down so that the closer sees what the last user did. */
static inline void kit_ref(_Atomic int *refs)
{
	atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

static inline void kit_unref(_Atomic int *refs)
{
	/* release; pairs with the acquire in kit_busy() */
	int old = atomic_fetch_sub_explicit(refs, 1, memory_order_release);

	assert(old > 0);
	(void)old;
}

static inline bool kit_busy(_Atomic int *refs)
{
	/* acquire; pairs with the release in kit_unref() */
	return atomic_load_explicit(refs, memory_order_acquire) != 0;
}

/* err_show.c */
#define KIT_ERR_SHOWN_MAX 512 /* bytes; no provider has more to say */
/**
 * kit_err_show() - Copy @data (@len bytes) to *@place, where the queue that has it shows its err_data; NULL at first.
 * Return: where it lies now: @data itself if there is no place for it. Under the queue's lock.
 */
void *kit_err_show(void **place, void *data, size_t len);
/**
 * kit_err_give() - The same into a caller's buffer of @room bytes. Text that is cut has an end, since fi_cq_strerror()
 * may be given it. Without data nothing is written: programs leave their entry as they find it on the stack. Return:
 * bytes.
 */
size_t kit_err_give(void *buf, size_t room, const void *data, size_t len);
/** kit_err_is_shown() - Is @data such a place, of whichever queue? Then it is no caller's buffer. */
bool kit_err_is_shown(const void *data);
/** kit_err_unshow() - The queue closes. */
void kit_err_unshow(void **place);

/** kit_eps_add() - 0 (also if it is there already); -FI_ENOMEM. */
int kit_eps_add(struct kit_ep ***eps, uint32_t *cnt, uint32_t *cap, struct kit_ep *ep);
void kit_eps_del(struct kit_ep **eps, uint32_t *cnt, struct kit_ep *ep);

int kit_drive_all(struct kit_ep **const *eps, const uint32_t *cnt);
/**
 * kit_drive() - One progress pass; kit_drive_all() of any number. Lock held, but an endpoint may let it go, and others
 * be bound or closed meanwhile: hence pointers. Return: events, 0 = idle.
 */
static inline int kit_drive(struct kit_ep **const *eps, const uint32_t *cnt)
{
	return likely(*cnt == 1) ? (*eps)[0]->progress((*eps)[0]) : kit_drive_all(eps, cnt);
}

/*
 * What a look at an object finds, whoever looks: a blocking read, a counter's wait, a wait set, fi_trywait. In this
 * order: of several objects the least counts.
 */
enum kit_look {
	KIT_FOUND, /* what is waited for */
	KIT_WORK,  /* not yet, and a device has work: look again at once */
	KIT_NAP,   /* nothing wakes us: look again after a while */
	KIT_SLEEP, /* whatever comes ends a sleep: only if everything was armed */
};

/* What a look does where it finds nothing. */
enum kit_arm {
	KIT_ARM_NONE, /* no more */
	KIT_ARM_FD,   /* arms the devices, for one who sleeps on their descriptors */
	KIT_ARM_COND, /* the same, for one who is woken by our threads' signals alone */
};

/* The endpoints that drive a CQ or a counter: pointers, since they are bound and unbound under the domain's lock. */
struct kit_driven {
	struct kit_domain *domain;
	struct kit_ep **const *eps;
	const uint32_t *cnt;
};

/**
 * kit_look() - One look at what the endpoints of @by drive: a progress pass, then @is_ready(@arg), and only if that
 * finds nothing the devices are armed, all of it in one hold of the domain's lock. The one place where this order is
 * made. KIT_FOUND in a child after fork, too: nobody sleeps there.
 */
typedef bool kit_ready_fn(void *arg);
enum kit_look kit_look(struct kit_driven by, kit_ready_fn *is_ready, void *arg, enum kit_arm arm);
static inline struct kit_driven kit_cq_driven(const struct kit_cq *cq)
{
	return (struct kit_driven){cq->domain, &cq->eps, &cq->ep_cnt};
}
static inline struct kit_driven kit_cntr_driven(const struct kit_cntr *c)
{
	return (struct kit_driven){c->domain, &c->eps, &c->ep_cnt};
}

/* Something that a poll set or wait set looks at: a CQ, counter or (wait sets) EQ. */
struct kit_watch {
	struct fid *fid;
	uint64_t ok, err; /* counters: values at the last look */
};

struct kit_watch_list {
	struct kit_watch *v;
	uint32_t cnt, cap;
};
int kit_watch_add(struct kit_watch_list *l, struct fid *fid); /* -FI_ENOMEM */
bool kit_watch_del(struct kit_watch_list *l, struct fid *fid);
/** kit_watch_ready() - Anything new? The domain's lock held for CQs and counters. */
bool kit_watch_ready(struct kit_watch *w);
/** kit_watch_look() - The same as a look, taking what locks it needs. */
enum kit_look kit_watch_look(struct kit_watch *w, enum kit_arm arm);
/** kit_polls_forget() - @fid is being closed: no poll set of its domain looks at it any more. Lock
 * held (or forked). */
void kit_polls_forget(struct kit_domain *d, struct fid *fid);

/* An eventfd that is written once until it is armed again, and an epoll descriptor of it and of the devices' fds. */
struct kit_bell {
	int epfd, evfd;
	_Atomic bool signaled; /* also where there is no evfd */
	/* writes of rings that somebody has armed after already: by ringers who have not come to it yet */
	_Atomic int32_t owed;
};

/*
 * A descriptor that a wait object watches because @ep has work when it is readable, and @ep makes what is new at @who,
 * a CQ or counter.
 */
struct kit_source {
	const void *who;
	const struct kit_ep *ep;
	int fd;
};

/*
 * A wait object, private to one CQ, counter or EQ, or shared as a wait set.
 */
struct kit_wait {
	struct fid_wait fid;
	struct kit_fabric *fabric; /* of a wait set; NULL: private */
	enum fi_wait_obj obj;	   /* FI_WAIT_FD, FI_WAIT_MUTEX_COND or FI_WAIT_YIELD */
	bool is_pollfd;		   /* an FD shown as FI_WAIT_POLLFD */
	/* FD: what the application sleeps on by itself, after fi_trywait; its number never changes */
	struct kit_bell app;
	struct kit_bell call;	   /* not YIELD: what our blocking calls sleep on */
	uint32_t calls;		   /* blocking calls that have armed @call and not disarmed it; calls_lock */
	struct kit_source *src;	   /* no two the same, but several may have one descriptor; calls_lock */
	uint32_t src_cnt, src_cap;
	struct lock calls_lock;	   /* the last of all locks */
	pthread_mutex_t mutex;	   /* MUTEX_COND: the application's */
	pthread_cond_t cond;
	struct lock lock; /* members; taken before a domain's lock */
	struct kit_watch_list members;
	_Atomic int refs;
};

int kit_wait_new(struct kit_wait **out, enum fi_wait_obj obj); /* errors as kit_wait_get() */
void kit_wait_free(struct kit_wait *w);
/**
 * kit_wait_get() - The wait object an attribute struct asks for.
 * @obj: FI_WAIT_*; @set: for FI_WAIT_SET. @member: CQ, counter or EQ that will signal it.
 * Return: 0, *@out NULL for FI_WAIT_NONE; -FI_EINVAL unknown kind or no set; -FI_ENOMEM; -errno of
 * making fds.
 */
int kit_wait_get(struct kit_wait **out, enum fi_wait_obj obj, struct fid_wait *set,
		 struct fid *member);
void kit_wait_put(struct kit_wait *w, struct fid *member); /* NULL is fine */
void kit_wait_signal(struct kit_wait *w);
int kit_wait_control(struct kit_wait *w, int command, void *arg);
/**
 * kit_wait_watch_ep() - @w (may be NULL) of @who, a CQ or counter, watches the descriptors that @ep has now (@on), or
 * no longer what it watched for these two. A descriptor that others need as well stays. Any number of times, in any
 * order.
 * Return: 0; -FI_ENOMEM or -errno: then it watches nothing for these two.
 */
int kit_wait_watch_ep(struct kit_wait *w, const void *who, struct kit_ep *ep, bool on);

/* A look at something, perhaps kit_look(), that arms as told. */
typedef enum kit_look kit_look_fn(void *arg, enum kit_arm arm);
/**
 * kit_wait_for() - Sleep on @w until @look finds something: all blocking calls are this. @w NULL: yields between the
 * looks.
 * @timeout_ms: < 0 no end; 0 looks once.   Return: 0 found; -FI_ETIMEDOUT.
 */
int kit_wait_for(struct kit_wait *w, kit_look_fn *look, void *arg, int timeout_ms);
/** kit_wait_try() - fi_trywait: may the application sleep on what FI_GETWAIT gave it? 0; -FI_EAGAIN. */
int kit_wait_try(struct kit_wait *w, kit_look_fn *look, void *arg);

bool kit_cq_ready(const struct kit_cq *cq); /* lock held */
bool kit_eq_ready(struct kit_eq *eq);
/* fi_trywait of each class. 0; -FI_EAGAIN; -FI_EINVAL no wait object; -FI_EIO after fork. */
int kit_eq_trywait(struct kit_eq *eq);
int kit_cq_trywait(struct kit_cq *cq);
int kit_cntr_trywait(struct kit_cntr *c);
int kit_waitset_trywait(struct kit_wait *w);
/** kit_eq_forget() - @fid is being closed: its unread events go. */
void kit_eq_forget(struct kit_eq *eq, const struct fid *fid);
struct kit_fabric *kit_eq_fabric(const struct kit_eq *eq);

/** kit_text() - @text into the caller's buffer, if there is one, cut and terminated. Return: what
 * to hand to the caller. */
const char *kit_text(const char *text, char *buf, size_t len);

#endif
