// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/wait.c: what happens between the steps of another thread.
#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "kit_fix.h"

static uint32_t g_late; /* writes that have not been made yet */

/* Stands before write(2): its thread was interrupted. */
static ssize_t write_late(int fd, const void *buf, size_t len)
{
	(void)fd, (void)buf;
	g_late++;
	return (ssize_t)len;
}

static int g_naps; /* sleeps on nothing */

static int ppoll_counted(struct pollfd *p, nfds_t n, const struct timespec *ts,
			 const sigset_t *mask)
{
	g_naps += p->fd < 0;
	return ppoll(p, n, ts, mask);
}

#define write write_late
#define ppoll ppoll_counted
#include "../../src/kit/wait.c"
#undef write
#undef ppoll

static bool is_readable(const struct kit_bell *b)
{
	struct pollfd p = {.fd = b->epfd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void write_now(const struct kit_bell *b)
{
	const uint64_t one = 1;

	assert_int_equal(g_late, 1);
	g_late = 0;
	assert_int_equal(write(b->evfd, &one, sizeof(one)), sizeof(one));
}

/*
 * Somebody arms while a ringer is between the flag and the write. The descriptor is readable for that once, and not for
 * ever.
 */
static void bell__late_write_is_drained(void **state)
{
	struct kit_bell *bell[2];
	struct kit_wait *w;

	(void)state;
	assert_int_equal(kit_wait_new(&w, FI_WAIT_FD), 0);
	bell[0] = &w->app;
	bell[1] = &w->call;
	for (int i = 0; i < 2; i++) {
		bell_arm(bell[i]);
		for (int round = 0; round < 3; round++) {
			assert_false(bell_arm(bell[i]));
			bell_ring(bell[i]);
			assert_true(bell_arm(bell[i]));
			assert_false(is_readable(bell[i]));
			write_now(bell[i]);
			assert_true(is_readable(bell[i]));
			bell_arm(bell[i]);
			assert_false(is_readable(bell[i]));
			bell_ring(bell[i]); /* in time */
			write_now(bell[i]);
			assert_true(is_readable(bell[i]));
			assert_true(bell_arm(bell[i]));
			assert_false(is_readable(bell[i]));
		}
	}
	kit_wait_free(w);
}

/* --- what is watched --- */

static int g_dev[2]; /* a pipe in the place of a device: one that all endpoints share */

static int dev_fd(struct kit_ep *ep, unsigned i)
{
	(void)ep;
	return i ? -1 : g_dev[0];
}

static int dev_arm(struct kit_ep *ep)
{
	(void)ep;
	return 0;
}

static void dev_ep_open(struct fix *f, struct fix_ep *ep)
{
	fix_ep_open(f, ep);
	ep->kit.wait_fd = dev_fd;
	ep->kit.wait_arm = dev_arm;
}

static void unbind(struct kit_ep *ep)
{
	lock_acquire(&ep->domain->lock);
	assert_int_equal(kit_ep_watch(ep, false), 0);
	lock_release(&ep->domain->lock);
	kit_ep_fini(ep);
}

static void drive(struct kit_cntr *c, struct kit_ep *ep, bool on)
{
	lock_acquire(&ep->domain->lock);
	assert_int_equal(kit_cntr_drive(c, ep, on), 0);
	lock_release(&ep->domain->lock);
}

/* Only the device's descriptor can make these readable: whatever rang the bells is drained. */
static bool tells_of_device(struct kit_wait *w)
{
	bool tells;

	g_late = 0;
	bell_arm(&w->app);
	bell_arm(&w->call);
	assert_false(is_readable(&w->app) || is_readable(&w->call));
	assert_int_equal(write(g_dev[1], "x", 1), 1);
	tells = is_readable(&w->app);
	assert_int_equal(tells, is_readable(&w->call));
	assert_int_equal(read(g_dev[0], (char[1]){0}, 1), 1);
	return tells;
}

/* The contexts of a scalable endpoint have one descriptor. It is watched until the last of them is
 * closed. */
static void watch__endpoints_that_share_a_descriptor(void **state)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
	struct fix_ep ep[3];
	struct kit_cq *cq;
	struct fix f;

	(void)state;
	fix_open(&f, FI_VERSION(1, 17));
	cq = mem_alloc(sizeof(*cq));
	assert_int_equal(pipe(g_dev), 0);
	assert_int_equal(kit_cq_init(cq, &f.domain, &attr, 0, true, NULL), 0);
	for (int i = 0; i < 3; i++) {
		dev_ep_open(&f, &ep[i]);
		assert_int_equal(kit_ep_bind(&ep[i].kit, &cq->fid.fid, FI_TRANSMIT), 0);
		assert_int_equal(kit_ep_bind(&ep[i].kit, &cq->fid.fid, FI_RECV), 0);
	}
	for (int i = 0; i < 3; i++) {
		assert_true(tells_of_device(cq->wait));
		unbind(&ep[i].kit);
	}
	assert_false(tells_of_device(cq->wait));
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	close(g_dev[0]);
	close(g_dev[1]);
	fix_close(&f);
}

/* A region's counter and the queue of its endpoint, in one wait set: who leaves takes nothing from
 * the other, nor does who was never there. */
static void watch__objects_of_a_set_that_share_a_descriptor(void **state)
{
	struct fi_cq_attr qa = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
	struct fi_cntr_attr ca = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_SET};
	struct fi_wait_attr wa = {.wait_obj = FI_WAIT_FD};
	struct fid_cntr *cntr;
	struct kit_cntr *c;
	struct kit_wait *w;
	struct fix_ep ep;
	struct kit_cq *cq;
	struct fix f;

	(void)state;
	fix_open(&f, FI_VERSION(1, 17));
	assert_int_equal(pipe(g_dev), 0);
	assert_int_equal(fi_wait_open(&f.fabric->fid, &wa, &qa.wait_set), 0);
	ca.wait_set = qa.wait_set;
	w = container_of(qa.wait_set, struct kit_wait, fid);
	cq = mem_alloc(sizeof(*cq));
	assert_int_equal(kit_cq_init(cq, &f.domain, &qa, 0, true, NULL), 0);
	assert_int_equal(kit_cntr_open(&f.domain, &ca, true, &cntr, NULL), 0);
	c = container_of(cntr, struct kit_cntr, fid);
	dev_ep_open(&f, &ep);
	drive(c, &ep.kit, true);
	assert_true(tells_of_device(w)); /* for the counter alone */
	drive(c, &ep.kit, false);
	assert_false(tells_of_device(w));
	assert_int_equal(kit_ep_bind(&ep.kit, &cq->fid.fid, FI_RECV), 0);
	drive(c, &ep.kit, false); /* a region that was never enabled */
	assert_true(tells_of_device(w));
	drive(c, &ep.kit, true);
	drive(c, &ep.kit, true);
	drive(c, &ep.kit, false);
	assert_true(tells_of_device(w));
	unbind(&ep.kit);
	assert_false(tells_of_device(w));
	assert_int_equal(fi_close(&cntr->fid), 0);
	assert_int_equal(fi_close(&cq->fid.fid), 0);
	assert_int_equal(fi_close(&qa.wait_set->fid), 0);
	close(g_dev[0]);
	close(g_dev[1]);
	fix_close(&f);
}

/* --- who cannot arm, and who is cancelled --- */

struct looker {
	struct kit_wait *w;
	_Atomic bool done, is_asleep;
	int cnt;
	bool can_be_cancelled; /* in a look */
};

/* Finds nothing until it has looked for long. */
static enum kit_look look_for_long(void *arg, enum kit_arm arm)
{
	struct looker *l = arg;

	assert_int_equal(arm, KIT_ARM_NONE); /* nobody arms what is rung */
	return ++l->cnt < NAP_YIELDS + 200 ? KIT_NAP : KIT_FOUND;
}

/* Somebody armed, was woken and has not left. Between their looks the others leave the processor to
 * whoever needs it. */
static void wait_for__naps_although_not_armed(void **state)
{
	struct looker l = {0};
	struct kit_wait *w;

	(void)state;
	assert_int_equal(kit_wait_new(&w, FI_WAIT_FD), 0);
	assert_true(call_arm(w));
	bell_ring(&w->call);
	write_now(&w->call);
	g_naps = 0;
	assert_int_equal(kit_wait_for(w, look_for_long, &l, 60000), 0);
	assert_true(g_naps >= 190);
	call_disarm(w);
	g_late = 0;
	kit_wait_free(w);
}

static enum kit_look look_and_sleep(void *arg, enum kit_arm arm)
{
	struct looker *l = arg;
	int state;

	/* cancelled here, where locks may be held, a thread would keep them */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_setcancelstate(state, NULL);
	l->can_be_cancelled |= state != PTHREAD_CANCEL_DISABLE;
	l->is_asleep = arm == KIT_ARM_FD;
	return l->done ? KIT_FOUND : KIT_SLEEP;
}

static void *sleeper_main(void *arg)
{
	struct looker *l = arg;

	kit_wait_for(l->w, look_and_sleep, l, 60000);
	return NULL;
}

/* The next one on the same object can arm. */
static void wait_for__cancelled_while_it_sleeps(void **state)
{
	struct looker l = {0};
	struct kit_wait *w;
	pthread_t t;
	void *end;
	int old;

	(void)state;
	assert_int_equal(kit_wait_new(&w, FI_WAIT_FD), 0);
	l.w = w;
	for (int i = 0; i < 10; i++) {
		assert_int_equal(pthread_create(&t, NULL, sleeper_main, &l), 0);
		while (!l.is_asleep)
			sched_yield();
		assert_int_equal(pthread_cancel(t), 0);
		assert_int_equal(pthread_join(t, &end), 0);
		assert_true(end == PTHREAD_CANCELED);
		assert_int_equal(w->calls, 0);
		assert_false(l.can_be_cancelled);
		l.is_asleep = false;
	}
	l.done = true;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	assert_int_equal(kit_wait_for(w, look_and_sleep, &l, 60000), 0);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	assert_int_equal(old, PTHREAD_CANCEL_ENABLE); /* as it was */
	kit_wait_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watch__endpoints_that_share_a_descriptor),
		cmocka_unit_test(watch__objects_of_a_set_that_share_a_descriptor),
		cmocka_unit_test(wait_for__naps_although_not_armed),
		cmocka_unit_test(wait_for__cancelled_while_it_sleeps),
		cmocka_unit_test(bell__late_write_is_drained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
