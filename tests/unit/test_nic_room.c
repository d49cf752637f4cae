// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of nic/common/nic_room.c: a kind of adapter of two attributes in a room that a test makes.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "fake_link.h"
#include "nic/common/nic_room.h"

/* Each member follows the first one, which is all that nic_room.c knows. */
struct room {
	struct nic_room all;
	uint32_t colour;
};

struct attr {
	int idx;
	uint8_t last_of_ip;
	uint32_t colour;
};

static struct {
	uint64_t cnt;
	int bad_idx; /* an adapter that cannot be; -1: none */
	bool is_refused;
	unsigned reads, fills;
} g_room;

static int room_read(struct nic_room *all, char *err, size_t err_len)
{
	struct room *room = container_of(all, struct room, all);

	g_room.reads++;
	if (g_room.is_refused) {
		snprintf(err, err_len, "the room is refused");
		return -EINVAL;
	}
	*room = (struct room){.all.cnt = g_room.cnt, .colour = 7};
	return 0;
}

static int attr_fill(const struct nic_room *all, int idx, const struct nic_place *at, void *attr, char *err,
		     size_t err_len)
{
	const struct room *room = container_of(all, struct room, all);
	struct attr *out = attr;

	g_room.fills++;
	if (idx == g_room.bad_idx) {
		snprintf(err, err_len, "adapter %d cannot be", idx);
		return -EINVAL;
	}
	assert_non_null(at->net);
	*out = (struct attr){idx, at->ip[15], room->colour};
	return 0;
}

static const struct nic_kind kind = {room_read, attr_fill};

static int setup(void **state)
{
	fake_reset();
	memset(&g_room, 0, sizeof(g_room));
	g_room.cnt = 3;
	g_room.bad_idx = -1;
	return 0;
}

static int cnt(char *err, size_t err_len)
{
	struct room room;
	struct attr attr;

	return nic_cnt(&kind, &room.all, &attr, err, err_len);
}

static void cnt__asks_each(void **state)
{
	char err[64] = "x";

	assert_int_equal(cnt(err, sizeof(err)), 3);
	assert_string_equal(err, "");
	assert_int_equal(g_room.fills, 3);
	assert_int_equal(cnt(NULL, 0), 3);
	g_room.cnt = 0;
	assert_int_equal(cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

static void cnt__refused_with_a_sentence(void **state)
{
	char err[64];

	g_room.bad_idx = 2;
	assert_int_equal(cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "adapter 2 cannot be");
	g_fake.ip_rc = -ENODEV;
	assert_int_equal(cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "no address for adapter 0");
	g_fake.room_rc = -EINVAL;
	assert_int_equal(cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "the net is refused");
	g_room.is_refused = true;
	assert_int_equal(cnt(err, sizeof(err)), 0);
	assert_string_equal(err, "the room is refused");
}

static void query__one(void **state)
{
	struct attr attr = {0};
	struct room room;

	assert_int_equal(nic_query(&kind, 2, &room.all, &attr), 0);
	assert_int_equal(attr.idx, 2);
	assert_int_equal(attr.last_of_ip, 3);
	assert_int_equal(attr.colour, 7);
	assert_int_equal(g_room.fills, 1);
	assert_int_equal(nic_query(&kind, 2, &room.all, &attr), 0);
	assert_int_equal(g_room.reads, 2); /* as the room is now, not as it was */
}

static void query__none(void **state)
{
	static const int none[] = {-1, 3, INT32_MAX, INT32_MIN};
	struct attr attr;
	struct room room;

	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		assert_int_equal(nic_query(&kind, none[i], &room.all, &attr), -ENODEV);
		assert_int_equal(nic_room_of(&kind, none[i], &room.all), -ENODEV);
	}
	assert_int_equal(nic_room_of(&kind, 1, &room.all), 0);
	assert_int_equal(room.colour, 7);
	assert_int_equal(g_room.fills, 0);
	g_room.bad_idx = 1;
	assert_int_equal(nic_query(&kind, 1, &room.all, &attr), -ENODEV);
	assert_int_equal(nic_query(&kind, 0, &room.all, &attr), 0);
	g_fake.ip_rc = -EINVAL;
	assert_int_equal(nic_query(&kind, 0, &room.all, &attr), -ENODEV);
	g_room.is_refused = true;
	assert_int_equal(nic_room_of(&kind, 0, &room.all), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(cnt__asks_each, setup),
		cmocka_unit_test_setup(cnt__refused_with_a_sentence, setup),
		cmocka_unit_test_setup(query__one, setup),
		cmocka_unit_test_setup(query__none, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
