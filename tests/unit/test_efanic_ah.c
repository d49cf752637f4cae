// SPDX-License-Identifier: BSD-2-Clause
// Address handles and destinations: one number per GID, references, sharing, limits, failures.
#include "efanic_fix.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

static void ip_of(uint32_t n, uint8_t ip[16])
{
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	ip[12] = 10;
	ip[13] = (uint8_t)(n >> 16);
	ip[14] = (uint8_t)(n >> 8);
	ip[15] = (uint8_t)n;
}

static void gid_of(uint32_t n, uint8_t gid[16])
{
	uint8_t ip[16];

	ip_of(n, ip);
	efanic_gid_of_ip(ip, gid);
}

/* What is open for it: an index, max_ah if nothing. */
static uint16_t found(const struct world *w, uint32_t n)
{
	uint8_t ip[16];

	ip_of(n, ip);
	return efanic_ah_find(w->nic, ip);
}

static void ah__one_per_gid(void **state)
{
	uint16_t one, two, other;
	uint8_t gid[16];
	struct world w;

	world_open(&w, NULL);
	gid_of(1, gid);
	assert_int_equal(efanic_ah_open(w.nic, gid, &one), 0);
	assert_int_equal(efanic_ah_open(w.nic, gid, &two), 0);
	assert_int_equal(one, two);
	gid_of(2, gid);
	assert_int_equal(efanic_ah_open(w.nic, gid, &other), 0);
	assert_int_not_equal(one, other);
	efanic_ah_close(w.nic, one);
	assert_int_equal(found(&w, 1), one); /* one reference is left */
	efanic_ah_close(w.nic, one);
	assert_int_equal(found(&w, 1), w.nic->attr.max_ah);
	efanic_ah_close(w.nic, one); /* logged, harmless */
	efanic_ah_close(w.nic, EFANIC_AHN_UNKNOWN);
	world_close(&w);
}

static void ah__limit(void **state)
{
	uint16_t ahn[8];
	uint8_t gid[16];
	struct world w;

	world_open(&w, "max_ah=4");
	for (uint32_t i = 0; i < 3; i++) { /* the fixture has one */
		gid_of(i, gid);
		assert_int_equal(efanic_ah_open(w.nic, gid, &ahn[i]), 0);
		assert_in_range(ahn[i], 0, 3);
	}
	gid_of(3, gid);
	assert_int_equal(efanic_ah_open(w.nic, gid, &ahn[3]), -ENOMEM);
	gid_of(2, gid);
	assert_int_equal(efanic_ah_open(w.nic, gid, &ahn[3]), 0); /* known ones still */
	efanic_ah_close(w.nic, ahn[0]);
	gid_of(3, gid);
	assert_int_equal(efanic_ah_open(w.nic, gid, &ahn[4]), 0);
	assert_int_equal(ahn[4], ahn[0]);
	world_close(&w);
}

static char g_line[512];

static void keep_line(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func;
	(void)line;
	assert_int_equal(lvl, LOG_LVL_WARN);
	snprintf(g_line, sizeof(g_line), "%s", msg);
}

static void ah__unusable(void **state)
{
	const uint8_t zero[16] = {0}, multicast[16] = {0xff, 2},
		      mapped[16] = {[10] = 0xff, 0xff, 10, 0, 0, 9};
	struct world w;
	uint16_t ahn;

	world_open(&w, NULL);
	assert_int_equal(efanic_ah_open(w.nic, zero, &ahn), -ENETUNREACH);
	assert_int_equal(efanic_ah_open(w.nic, multicast, &ahn), -ENETUNREACH);
	log_set_hook(keep_line);
	assert_int_equal(efanic_ah_open(w.nic, mapped, &ahn), -ENETUNREACH);
	log_set_hook(NULL);
	assert_non_null(strstr(g_line, "no address handle for ::ffff:10.0.0.9: no adapter has a "
				       "GID that is an IPv4 address"));
	assert_non_null(strstr(g_line, "fe80::5f:aaff:febb:ccdd"));
	world_close(&w);
}

/* Against a list of (GID, references). */
static void ah__random_against_list(void **state)
{
	struct rng rng = unit_rng();
	unsigned refs[64] = {0};
	uint16_t ahn[64];
	unsigned open = 1;
	uint8_t gid[16];
	struct world w;

	world_open(&w, "max_ah=40");
	for (int i = 0; i < 20000; i++) {
		uint32_t k = (uint32_t)rng_below(&rng, 64);
		uint16_t got;
		int rc;

		gid_of(k, gid);
		assert_int_equal(found(&w, k), refs[k] ? ahn[k] : 40);
		if (rng_below(&rng, 2) && refs[k]) {
			efanic_ah_close(w.nic, ahn[k]);
			open -= !--refs[k];
			continue;
		}
		rc = efanic_ah_open(w.nic, gid, &got);
		assert_int_equal(rc, !refs[k] && open == 40 ? -ENOMEM : 0);
		if (rc)
			continue;
		if (refs[k])
			assert_int_equal(got, ahn[k]);
		open += !refs[k]++;
		ahn[k] = got;
		assert_int_not_equal(got, w.ahn);
	}
	world_close(&w);
}

static void dst__shared_and_counted(void **state)
{
	const uint8_t mapped[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct efanic_dst *one, *two, *other;
	const uint8_t *gid;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 0);
	gid = efanic_attr(w.nic)->gid;
	assert_null(efanic_dst_find(w.a.qp, gid, 50, 1));
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, 1, &one), 0);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, 1, &two), 0);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, 2, &other), 0);
	assert_ptr_equal(one, two);
	assert_ptr_not_equal(one, other);
	assert_ptr_equal(efanic_dst_find(w.a.qp, gid, 50, 1), one);
	assert_null(efanic_dst_find(w.a.qp, mapped, 50, 1)); /* no GID */
	assert_ptr_equal(efanic_dst_find(w.a.qp, gid, 50, 2), other);
	assert_null(efanic_dst_find(w.a.qp, gid, 50, 3));
	assert_null(efanic_dst_find(w.a.qp, gid, 51, 1));
	assert_null(efanic_dst_user(one));
	efanic_dst_set_user(one, &w);
	assert_ptr_equal(efanic_dst_user(two), &w);
	assert_null(efanic_dst_user(other));
	assert_true(efanic_dst_is_local(one));
	g_fake.is_remote = true;
	assert_false(efanic_dst_is_local(one));
	efanic_dst_put(one);
	efanic_dst_put(two);
	efanic_dst_put(other);
	assert_null(efanic_dst_find(w.a.qp, gid, 50, 1));
	/* made anew, it knows nothing */
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, 1, &one), 0);
	assert_null(efanic_dst_user(one));
	efanic_dst_put(one);
	world_close(&w);
}

/* On UD one peer may be known under several Q_Keys; they are put in any order. */
static void dst__ud_chain(void **state)
{
	static const int order[3][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}};

	for (int k = 0; k < 3; k++) {
		struct efanic_dst *dst[3], *again;
		struct efanic_qp_attr attr;
		struct world w;

		world_open(&w, NULL);
		pair_attr(&attr, 0);
		attr.type = EFANIC_QP_UD;
		end_open(&w, &w.a, &attr, 0, 0);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, i, &dst[i]), 0);
		assert_int_equal(g_fake.peers, 1);
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, i, &again), 0);
			assert_ptr_equal(dst[i], again);
			efanic_dst_put(again);
			assert_ptr_equal(efanic_dst_find(w.a.qp, efanic_attr(w.nic)->gid, 50, i),
					 again);
		}
		for (int i = 0; i < 3; i++)
			efanic_dst_put(dst[order[k][i]]);
		assert_int_equal(g_fake.peers, 0);
		world_close(&w);
	}
}

static void dst__errors(void **state)
{
	struct efanic_dst *dst = NULL;
	struct world w;

	world_open(&w, NULL);
	pair_open(&w, 0);
	assert_int_equal(efanic_dst_get(w.a.qp, (uint16_t)(w.ahn + 1), 50, 1, &dst), -EINVAL);
	assert_int_equal(efanic_dst_get(w.a.qp, EFANIC_AHN_UNKNOWN, 50, 1, &dst), -EINVAL);
	assert_int_equal(efanic_dst_get(w.a.qp, (uint16_t)w.nic->attr.max_ah, 50, 1, &dst),
			 -EINVAL);
	g_fake.peer_rc = -ENETUNREACH;
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, 50, 1, &dst), -ENETUNREACH);
	g_fake.peer_rc = 0;
	assert_int_equal(efanic_dst_hold(w.a.qp, w.ba, &dst), -EINVAL);
	assert_null(dst);
	assert_int_equal(efanic_dst_hold(w.a.qp, w.ab, &dst), 0);
	assert_ptr_equal(dst, w.ab);
	efanic_dst_put(dst);
	world_close(&w);
}

/* Slots of the first chunk are used up, so that the next destination allocates. */
static void dst__alloc_fail(void **state)
{
	struct efanic_dst *dst[100];
	struct world w;
	unsigned fails = 0;

	world_open(&w, NULL);
	pair_open(&w, 0);
	for (uint16_t i = 0; i < 100; i++) {
		int rc;

		mem_fail_nth(1);
		rc = efanic_dst_get(w.a.qp, w.ahn, (uint16_t)(100 + i), 1, &dst[i]);
		mem_fail_nth(0);
		if (rc) {
			assert_int_equal(rc, -ENOMEM);
			fails++;
			assert_int_equal(
				efanic_dst_get(w.a.qp, w.ahn, (uint16_t)(100 + i), 1, &dst[i]), 0);
		}
	}
	assert_in_range(fails, 1, 5);
	for (uint16_t i = 0; i < 100; i++)
		efanic_dst_put(dst[i]);
	world_close(&w);
}

static void dst__new_handle_revives(void **state)
{
	struct efanic_dst *dst;
	struct world w;
	char byte = 1;

	world_open(&w, NULL);
	pair_open(&w, 4);
	efanic_ah_close(w.nic, w.ahn);
	assert_int_equal(send_to(&w.a, w.ab, 1, &byte, 1), 0);
	settle(&w);
	expect(&w.a, 1, 1, EFANIC_LOCAL_INVALID_AH);
	assert_int_equal(efanic_ah_open(w.nic, efanic_attr(w.nic)->gid, &w.ahn), 0);
	assert_int_equal(efanic_dst_get(w.a.qp, w.ahn, efanic_qp_qpn(w.b.qp), QKEY_B, &dst), 0);
	assert_ptr_equal(dst, w.ab);
	assert_int_equal(send_to(&w.a, w.ab, 2, &byte, 1), 0);
	settle(&w);
	expect(&w.a, 2, 2, EFANIC_OK);
	efanic_dst_put(dst);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ah__one_per_gid),
		cmocka_unit_test(ah__limit),
		cmocka_unit_test(ah__unusable),
		cmocka_unit_test(ah__random_against_list),
		cmocka_unit_test(dst__shared_and_counted),
		cmocka_unit_test(dst__ud_chain),
		cmocka_unit_test(dst__errors),
		cmocka_unit_test(dst__alloc_fail),
		cmocka_unit_test(dst__new_handle_revives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
