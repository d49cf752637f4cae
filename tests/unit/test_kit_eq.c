// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/eq.c, and of what a domain and an endpoint do with their EQ.
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "kit/deprecated.h"
#include "kit_fix.h"

static struct fix g_fix;
static struct fid_eq *g_eq;

static struct kit_eq *to_kit(struct fid_eq *eq)
{
	return (struct kit_eq *)eq;
}

static int setup(void **state)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};

	fix_open(&g_fix, FI_VERSION(1, 17));
	assert_int_equal(fi_eq_open(&g_fix.fabric->fid, &attr, &g_eq, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	mem_fail_nth(0);
	/* The domain may hold the EQ: it goes first. */
	assert_int_equal(kit_domain_fini(&g_fix.domain), 0);
	assert_int_equal(fi_close(&g_eq->fid), 0);
	assert_int_equal(fi_close(&g_fix.fabric->fid.fid), 0);
	assert_int_equal(mem_live_count(), g_fix.live);
	return 0;
}

static void eq_read__in_order_with_errors_in_line(void **state)
{
	const struct fi_eq_err_entry bad = {.context = (void *)5, .err = FI_EIO, .prov_errno = 6};
	struct fi_eq_err_entry err = {0};
	uint32_t event;
	char buf[8];

	assert_int_equal(fi_eq_read(g_eq, &event, buf, sizeof(buf), 0), -FI_EAGAIN);
	assert_int_equal(fi_eq_write(g_eq, 77, "one", 4, 0), 4);
	assert_int_equal(kit_eq_push_err(to_kit(g_eq), &bad, "why", 4), 0);
	assert_int_equal(fi_eq_write(g_eq, 78, "two", 4, 0), 4);
	assert_int_equal(fi_eq_readerr(g_eq, &err, 0), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(g_eq, &event, buf, sizeof(buf), FI_PEEK), 4);
	event = 0;
	assert_int_equal(fi_eq_read(g_eq, &event, buf, sizeof(buf), 0), 4);
	assert_int_equal(event, 77);
	assert_string_equal(buf, "one");
	assert_int_equal(fi_eq_read(g_eq, &event, buf, sizeof(buf), 0), -FI_EAVAIL);
	assert_int_equal(fi_eq_readerr(g_eq, &err, FI_PEEK), sizeof(err));
	err = (struct fi_eq_err_entry){0};
	assert_int_equal(fi_eq_readerr(g_eq, &err, 0), sizeof(err));
	assert_int_equal(err.err, FI_EIO);
	assert_ptr_equal(err.context, (void *)5);
	assert_string_equal(err.err_data, "why");
	assert_int_equal(fi_eq_read(g_eq, &event, buf, 2, 0), 2); /* cut */
	assert_memory_equal(buf, "tw", 2);
	assert_int_equal(fi_eq_read(g_eq, &event, buf, sizeof(buf), 0), -FI_EAGAIN);
}

static void eq_readerr__fills_the_callers_err_data(void **state)
{
	const struct fi_eq_err_entry bad = {.err = FI_EIO};
	char buf[8] = "#######";
	struct fi_eq_err_entry err = {.err_data = buf, .err_data_size = 2};

	assert_int_equal(kit_eq_push_err(to_kit(g_eq), &bad, "why", 4), 0);
	assert_int_equal(fi_eq_readerr(g_eq, &err, 0), sizeof(err));
	assert_ptr_equal(err.err_data, buf);
	assert_int_equal(err.err_data_size, 2);
	assert_memory_equal(buf, "w\0###", 5);
	g_fix.fabric->api_version = FI_VERSION(1, 4);
	assert_int_equal(kit_eq_push_err(to_kit(g_eq), &bad, "why", 4), 0);
	assert_int_equal(fi_eq_readerr(g_eq, &err, 0), sizeof(err));
	assert_string_equal(err.err_data, "why");
	assert_int_equal(err.err_data_size, 4);
}

/* What an entry holds of an error that has gone since, or that was only looked at, is no buffer of the caller's. */
static void eq_readerr__an_entry_used_again(void **state)
{
	const struct fi_eq_err_entry bad = {.err = FI_EIO};
	static const char *const text[] = {"one", "two", "three"};
	struct fi_eq_err_entry err[2] = {{0}};

	for (size_t i = 0; i < ARRAY_SIZE(text); i++)
		assert_int_equal(kit_eq_push_err(to_kit(g_eq), &bad, text[i], strlen(text[i]) + 1), 0);
	assert_int_equal(fi_eq_readerr(g_eq, &err[0], 0), sizeof(err[0]));
	assert_int_equal(fi_eq_readerr(g_eq, &err[1], FI_PEEK), sizeof(err[1]));
	assert_int_equal(fi_eq_readerr(g_eq, &err[1], 0), sizeof(err[1]));
	assert_string_equal(err[1].err_data, "two");
	assert_int_equal(fi_eq_readerr(g_eq, &err[0], 0), sizeof(err[0]));
	assert_string_equal(err[0].err_data, "three");
	assert_int_equal(err[0].err_data_size, sizeof("three"));
}

static void eq__refuses_bad_arguments(void **state)
{
	struct fi_eq_attr attr = {.flags = FI_PEEK};
	struct fid_eq *eq;
	uint32_t event;
	char buf[4];

	assert_int_equal(fi_eq_read(g_eq, &event, buf, 4, FI_MORE), -FI_EINVAL);
	assert_int_equal(fi_eq_readerr(g_eq, NULL, 0), -FI_EINVAL);
	assert_int_equal(fi_eq_write(g_eq, 1, NULL, 4, 0), -FI_EINVAL);
	assert_int_equal(fi_eq_write(g_eq, 1, buf, SIZE_MAX, 0), -FI_EINVAL);
	assert_int_equal(fi_eq_write(g_eq, 1, buf, 4, FI_MORE), -FI_EINVAL);
	assert_int_equal(fi_eq_open(&g_fix.fabric->fid, &attr, &eq, NULL), -FI_EINVAL);
	attr = (struct fi_eq_attr){.wait_obj = 99};
	assert_int_equal(fi_eq_open(&g_fix.fabric->fid, &attr, &eq, NULL), -FI_EINVAL);
	assert_int_equal(kit_eq_open((struct fid_fabric *)&g_fix.domain.fid, NULL, &eq, NULL),
			 -FI_EINVAL);
	assert_int_equal(fi_eq_open(&g_fix.fabric->fid, NULL, &eq, NULL), 0);
	assert_int_equal(fi_eq_sread(eq, &event, buf, 4, 0, 0), -FI_ENOSYS);
	assert_int_equal(fi_control(&eq->fid, FI_GETWAIT, buf), -FI_ENODATA);
	assert_int_equal(fi_close(&eq->fid), 0);
}

static void *writer(void *arg)
{
	for (uint32_t n = 0; n < 500; n++)
		fi_eq_write(g_eq, n, &n, sizeof(n), 0);
	return NULL;
}

static void eq_sread__waits_for_another_thread(void **state)
{
	uint32_t event, n;
	pthread_t t;

	assert_int_equal(fi_eq_sread(g_eq, &event, &n, sizeof(n), 2, 0), -FI_EAGAIN);
	assert_int_equal(pthread_create(&t, NULL, writer, NULL), 0);
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(fi_eq_sread(g_eq, &event, &n, sizeof(n), 20000, 0), sizeof(n));
		assert_int_equal(n, i);
		assert_int_equal(event, i);
	}
	pthread_join(t, NULL);
}

static void eq_trywait__arms_the_fd(void **state)
{
	struct fid *fids[] = {&g_eq->fid};
	struct pollfd p = {.events = POLLIN};
	uint32_t event;

	assert_int_equal(fi_control(&g_eq->fid, FI_GETWAIT, &p.fd), 0);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(fi_eq_write(g_eq, 1, NULL, 0, 0), 0);
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(g_eq, &event, NULL, 0, 0), 0);
	assert_int_equal(kit_trywait(&g_fix.fabric->fid, fids, 1), 0);
}

static void eq__is_shared_by_domain_and_endpoints(void **state)
{
	struct fid_eq *own;
	struct fix_ep ep;

	assert_int_equal(fi_eq_open(&g_fix.fabric->fid, NULL, &own, NULL), 0);
	assert_int_equal(fi_domain_bind(&g_fix.domain.fid, &g_eq->fid, KIT_REG_MR), -FI_EINVAL);
	assert_int_equal(fi_domain_bind(&g_fix.domain.fid, &g_fix.fabric->fid.fid, 0), -FI_EINVAL);
	assert_int_equal(fi_domain_bind(&g_fix.domain.fid, &g_eq->fid, 0), 0);
	assert_int_equal(fi_domain_bind(&g_fix.domain.fid, &own->fid, 0), -FI_EINVAL);
	fix_ep_open(&g_fix, &ep);
	assert_ptr_equal(ep.kit.eq, g_eq);
	assert_int_equal(kit_ep_bind(&ep.kit, &own->fid, 0), 0);
	assert_ptr_equal(ep.kit.eq, own);
	assert_int_equal(kit_ep_bind(&ep.kit, &g_eq->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&g_eq->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&own->fid), -FI_EBUSY);
	kit_ep_fini(&ep.kit);
	assert_int_equal(fi_close(&own->fid), 0);
}

static void eq__forgets_events_of_a_closed_endpoint(void **state)
{
	struct fi_eq_entry entry = {0};
	struct fi_eq_err_entry err = {.err = FI_EIO};
	struct fix_ep ep;
	uint32_t event;

	fix_ep_open(&g_fix, &ep);
	assert_int_equal(kit_ep_bind(&ep.kit, &g_eq->fid, 0), 0);
	err.fid = entry.fid = &ep.kit.fid.fid;
	assert_int_equal(kit_eq_push_err(ep.kit.eq, &err, NULL, 0), 0);
	assert_int_equal(kit_eq_push(ep.kit.eq, FI_NOTIFY, &entry, sizeof(entry)), 0);
	entry.fid = &g_fix.domain.fid.fid;
	assert_int_equal(kit_eq_push(ep.kit.eq, FI_NOTIFY, &entry, sizeof(entry)), 0);
	assert_int_equal(kit_eq_push(ep.kit.eq, 1000, "x", 1), 0);
	kit_ep_fini(&ep.kit);
	assert_int_equal(fi_eq_read(g_eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	assert_ptr_equal(entry.fid, &g_fix.domain.fid.fid);
	assert_int_equal(fi_eq_read(g_eq, &event, &entry, sizeof(entry), 0), 1);
	assert_int_equal(event, 1000);
	assert_int_equal(kit_eq_push(to_kit(g_eq), 1001, NULL, 0), 0);
	assert_int_equal(fi_eq_read(g_eq, &event, &entry, sizeof(entry), 0), 0);
	assert_int_equal(event, 1001);
}

static void eq__survives_failed_allocations(void **state)
{
	const struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
	const struct fi_eq_err_entry bad = {.err = FI_EIO};
	int64_t live = mem_live_count();
	struct fid_eq *eq;
	uint32_t event;

	for (int n = 1; n <= 2; n++) {
		mem_fail_nth((uint64_t)n);
		assert_int_equal(
			kit_eq_open(&g_fix.fabric->fid, (struct fi_eq_attr *)&attr, &eq, NULL),
			-FI_ENOMEM);
		assert_int_equal(mem_live_count(), live);
	}
	mem_fail_nth(1);
	assert_int_equal(fi_eq_write(g_eq, 1, "x", 1, 0), -FI_ENOMEM);
	mem_fail_nth(1);
	assert_int_equal(kit_eq_push_err(to_kit(g_eq), &bad, "x", 1), -FI_ENOMEM);
	assert_int_equal(fi_eq_read(g_eq, &event, NULL, 0, 0), -FI_EAGAIN);
}

/* Results of calls on an inherited EQ, as bits of the exit status. */
static int child_main(void)
{
	uint32_t event;
	int bad = 0;

	bad |= fi_eq_read(g_eq, &event, NULL, 0, 0) != -FI_EIO;
	bad |= (fi_eq_sread(g_eq, &event, NULL, 0, -1, 0) != -FI_EIO) << 1;
	bad |= (fi_eq_write(g_eq, 1, NULL, 0, 0) != -FI_EIO) << 2;
	bad |= (fi_close(&g_eq->fid) != 0) << 3;
	return bad;
}

static void eq__refuses_after_fork(void **state)
{
	uint32_t event;
	int status;
	pid_t pid;

	assert_int_equal(fi_eq_write(g_eq, 7, NULL, 0, 0), 0);
	pid = unit_fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(child_main());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(fi_eq_read(g_eq, &event, NULL, 0, 0), 0);
	assert_int_equal(event, 7);
}

static void eq_strerror__text_and_copy(void **state)
{
	char buf[64];

	assert_string_equal(fi_eq_strerror(g_eq, FI_ETRUNC, NULL, buf, sizeof(buf)),
			    fi_strerror(FI_ETRUNC));
	assert_string_equal(buf, fi_strerror(FI_ETRUNC));
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(eq_read__in_order_with_errors_in_line),
		T(eq_readerr__fills_the_callers_err_data),
		T(eq_readerr__an_entry_used_again),
		T(eq__refuses_bad_arguments),
		T(eq_sread__waits_for_another_thread),
		T(eq_trywait__arms_the_fd),
		T(eq__is_shared_by_domain_and_endpoints),
		T(eq__forgets_events_of_a_closed_endpoint),
		T(eq__survives_failed_allocations),
		T(eq__refuses_after_fork),
		T(eq_strerror__text_and_copy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
