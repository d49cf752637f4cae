// SPDX-License-Identifier: BSD-2-Clause
// The protocol of a message as a table: sizes around every switch point, features, flags.
#include "prov/efa/efa.h"

#include "unit.h"

#define CAP  8908u
#define MED  65536u
#define READ 1048576u

struct row {
	uint64_t len, flags;
	bool hs, can_read, in_flight;
	uint64_t quota;
	uint8_t type; /* untagged */
};

static const struct row rows[] = {
	{0, 0, false, false, false, 0, EFA_PKT_EAGER_MSGRTM},
	{CAP, 0, true, true, false, 0, EFA_PKT_EAGER_MSGRTM},
	{CAP + 1, 0, true, true, false, 0, EFA_PKT_MEDIUM_MSGRTM},
	{MED, 0, true, true, false, 0, EFA_PKT_MEDIUM_MSGRTM},
	{MED + 1, 0, true, true, false, 0, EFA_PKT_LONGCTS_MSGRTM},
	{READ - 1, 0, true, true, false, 0, EFA_PKT_LONGCTS_MSGRTM},
	{READ, 0, true, true, false, 0, EFA_PKT_LONGREAD_MSGRTM},
	{READ, 0, true, true, false, 4096, EFA_PKT_RUNTREAD_MSGRTM},
	{READ, 0, true, true, true, 4096, EFA_PKT_LONGREAD_MSGRTM},    /* one read message at a time may be a runt */
	{READ, 0, false, true, false, 4096, EFA_PKT_LONGCTS_MSGRTM},   /* features of the peer not known yet */
	{READ, 0, true, false, false, 4096, EFA_PKT_LONGCTS_MSGRTM},   /* no device read between the two */
	{0, FI_DELIVERY_COMPLETE, true, true, false, 0, EFA_PKT_DC_EAGER_MSGRTM},
	{MED, FI_DELIVERY_COMPLETE, true, true, false, 0, EFA_PKT_DC_MEDIUM_MSGRTM},
	{MED + 1, FI_DELIVERY_COMPLETE, true, true, false, 0, EFA_PKT_DC_LONGCTS_MSGRTM},
	/* confirmed anyway, so no runt */
	{READ, FI_DELIVERY_COMPLETE, true, true, false, 4096, EFA_PKT_LONGREAD_MSGRTM},
	{8, FI_DELIVERY_COMPLETE | FI_INJECT, true, true, false, 0, EFA_PKT_EAGER_MSGRTM},
};

static void select__table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (int tagged = 0; tagged < 2; tagged++) {
			const struct row *r = &rows[i];
			struct efa_select_in in = {
				.len = r->len,
				.flags = r->flags,
				.tagged = tagged,
				.peer_hs = r->hs,
				.can_read = r->can_read,
				.read_in_flight = r->in_flight,
				.runt_quota = r->quota,
				.eager_cap = CAP,
				.max_medium = MED,
				.min_read = READ,
			};

			assert_int_equal(efa_select_msg(&in), r->type + tagged);
		}
}

/* FI_EFA_INTER_MIN_READ_MESSAGE_SIZE below the eager limit: the read protocol takes over from there. */
static void select__small_min_read(void **state)
{
	struct efa_select_in in = {.len = 1000, .peer_hs = true, .can_read = true, .eager_cap = CAP, .max_medium = MED,
				   .min_read = 1000};

	(void)state;
	assert_int_equal(efa_select_msg(&in), EFA_PKT_LONGREAD_MSGRTM);
	in.len = 999;
	assert_int_equal(efa_select_msg(&in), EFA_PKT_EAGER_MSGRTM);
	in.len = 1000;
	in.can_read = false;
	assert_int_equal(efa_select_msg(&in), EFA_PKT_EAGER_MSGRTM);
}

/* Device memory has no medium protocol: max_medium 0 goes straight to the next one. */
static void select__no_medium(void **state)
{
	struct efa_select_in in = {.len = CAP + 1, .peer_hs = true, .eager_cap = CAP, .max_medium = 0,
				   .min_read = READ};

	(void)state;
	assert_int_equal(efa_select_msg(&in), EFA_PKT_LONGCTS_MSGRTM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(select__table),
		cmocka_unit_test(select__small_min_read),
		cmocka_unit_test(select__no_medium),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
