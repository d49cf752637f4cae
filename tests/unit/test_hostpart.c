// SPDX-License-Identifier: BSD-2-Clause
// Numbers of hosts: what a kind of them changes, one map for several kinds. The mapping itself: test_cassini_addr.c.
#include "link/core/ip.h"
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "link/hostpart.h"

static const struct hostpart_kind tall = {
	.name = "NIC address", .word = "NIC", .max = 0xfffff, .dev_max = 8, .port_cnt = 12288};
static const struct hostpart_kind small = {
	.name = "LID", .word = "LID", .min = 1, .max = 0xbfff, .dev_max = 16, .below = 1280, .port_cnt = 1280};

static void ip_of(const char *ip4, uint8_t ip[16])
{
	unsigned b[4];

	assert_int_equal(sscanf(ip4, "%u.%u.%u.%u", &b[0], &b[1], &b[2], &b[3]), 4);
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	for (int i = 0; i < 4; i++)
		ip[12 + i] = (uint8_t)b[i];
}

static int init(struct hostpart *h, const struct hostpart_kind *kind, const char *room, const char *ip4, char *err)
{
	struct link_room net;
	uint8_t ip[16];

	assert_int_equal(link_room_parse(room, &net, err, 512), 0);
	ip_of(ip4, ip);
	return hostpart_init(h, kind, &net, ip, err, 512);
}

static void is_at(const struct hostpart *h, uint32_t nr, const char *ip4, uint16_t base)
{
	uint8_t ip[16], want[16];
	uint16_t got;
	uint32_t back;

	ip_of(ip4, want);
	assert_int_equal(hostpart_ip(h, nr, ip, &got), 0);
	assert_memory_equal(ip, want, 16);
	assert_int_equal(got, base);
	assert_int_equal(hostpart_nr(h, want, base, &back, &got), 0);
	assert_int_equal(back, nr);
	assert_int_equal(got, base);
	assert_int_equal(hostpart_nr(h, want, (uint16_t)(base + h->kind->port_cnt - 1), &back, &got), 0);
	assert_int_equal(back, nr);
}

static void nowhere(const struct hostpart *h, uint32_t nr)
{
	uint8_t ip[16];
	uint16_t base;

	assert_int_equal(hostpart_ip(h, nr, ip, &base), -ENETUNREACH);
}

static void kind__limits(void **state)
{
	struct hostpart h;
	uint8_t ip[16];
	uint32_t nr;
	uint16_t base;
	char err[512];

	(void)state;
	assert_int_equal(init(&h, &small, "net=10.1.0.0/16", "10.1.2.3", err), 0);
	is_at(&h, 1, "10.1.0.1", 19200);
	is_at(&h, 0x203, "10.1.2.3", 19200);
	is_at(&h, 0xbfff, "10.1.191.255", 19200);
	nowhere(&h, 0);
	nowhere(&h, 0xc000);
	ip_of("10.1.192.0", ip);
	assert_int_equal(hostpart_nr(&h, ip, 0, &nr, &base), -ERANGE);
	ip_of("10.1.0.0", ip);
	assert_int_equal(hostpart_nr(&h, ip, 0, &nr, &base), -ERANGE);
	assert_int_equal(init(&h, &tall, "net=10.1.0.0/16", "10.1.192.0", err), 0);
	is_at(&h, 0xc000, "10.1.192.0", 20480);
	is_at(&h, 0, "10.1.0.0", 20480);
}

static void kind__refusals(void **state)
{
	static const struct {
		const char *room, *ip, *say;
	} bad[] = {
		{"net=10.1.0.0/16", "10.1.192.0",
		 "10.1.192.0 has no LID|1 to 16 bits|0x1 to 0xbfff|0xc000|map=LID->IP"},
		{"net=10.1.0.0/16", "10.1.0.0", "10.1.0.0 has no LID|is 0x0"},
		{"net=10.0.0.0/8", "10.1.0.1", "has no LID|0x10001"},
		{"net=10.2.0.0/16", "10.1.0.1", "not in net=10.2.0.0/16"},
		{"", "203.0.113.77", "203.0.113.77 has no LID|map=LID->IP"},
		{"map=0->10.0.0.5", "10.0.0.5", "10.0.0.5|0x0|no LID|0x1 to 0xbfff"},
		{"map=0xc000->10.0.0.5", "10.0.0.5", "10.0.0.5|0xc000|no LID"},
		{"map=5->10.0.0.4,5->10.0.0.5", "10.0.0.5", "LID 0x5|another IP address"},
		{"net=10.1.0.0/16;map=0x203->10.0.0.5", "10.1.2.3", "LID 0x203|another IP address"},
		{"map=5:10.0.0.5", "127.0.0.1", "5:10.0.0.5|LID->IP|0xbfff"},
		{"map=5->10.0.0.5:2303", "127.0.0.1", "BASE from 2304 to 53248"},
		{"map=5->10.0.0.5:53249", "127.0.0.1", "BASE from 2304 to 53248"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char err[512] = "", list[256], *rest = list, *word;
		struct hostpart h;

		assert_int_equal(init(&h, &small, bad[i].room, bad[i].ip, err), -EINVAL);
		snprintf(list, sizeof(list), "%s", bad[i].say);
		while ((word = strsep(&rest, "|")))
			if (!strstr(err, word))
				fail_msg("%s: '%s' is not in: %s", bad[i].room, word, err);
	}
}

/*
 * One map for both: BASE is where the one ends and the other begins; a number that only one has is not there for the
 * other.
 */
static void map__two_kinds(void **state)
{
	static const char room[] =
		"map=5->10.0.0.9,6->10.0.0.9:40000,7->10.0.0.9:53248,0x12345->10.0.0.8:2304,8->10.0.0.8:2304";
	struct hostpart lids, nics;
	uint8_t ip[16];
	uint32_t nr;
	uint16_t base;
	char err[512];

	(void)state;
	assert_int_equal(init(&lids, &small, room, "10.0.0.8", err), 0);
	assert_int_equal(init(&nics, &tall, room, "10.0.0.8", err), 0);
	is_at(&lids, 5, "10.0.0.9", 19200);
	is_at(&nics, 5, "10.0.0.9", 20480);
	is_at(&lids, 6, "10.0.0.9", 40000 - 1280);
	is_at(&nics, 6, "10.0.0.9", 40000);
	is_at(&lids, 7, "10.0.0.9", 53248 - 1280);
	is_at(&nics, 7, "10.0.0.9", 53248);
	is_at(&lids, 8, "10.0.0.8", 1024);
	nowhere(&lids, 0x12345);
	assert_int_equal(hostpart_ip(&nics, 0x12345, ip, &base), 0);
	assert_int_equal(base, 2304);
	ip_of("10.0.0.8", ip);
	assert_int_equal(hostpart_nr(&nics, ip, 0, &nr, &base), 0);
	assert_int_equal(nr, 0x12345); /* the first that fits */
	/* a port of the one is none of the other */
	ip_of("10.0.0.9", ip);
	assert_int_equal(hostpart_nr(&lids, ip, 40000, &nr, &base), -ERANGE);
	assert_int_equal(hostpart_nr(&nics, ip, 39999, &nr, &base), -ERANGE);
}

static void map__too_long(void **state)
{
	char room[512] = "map=", err[512];
	struct hostpart h;

	(void)state;
	for (int i = 0; i < 33; i++)
		snprintf(room + strlen(room), sizeof(room) - strlen(room), "1->::1,");
	assert_int_equal(init(&h, &small, room, "127.0.0.1", err), -EINVAL);
	assert_non_null(strstr(err, "more than 32"));
}

static void loop__is_in_range(void **state)
{
	struct hostpart h, again;
	char err[512], text[16];

	(void)state;
	assert_int_equal(init(&h, &small, "", "127.0.0.1", err), 0);
	assert_int_equal(init(&again, &small, "if=lo", "127.0.0.16", err), 0);
	assert_in_range(h.loop, 1, 0xbfff + 1 - 16);
	assert_int_equal(h.loop, again.loop);
	for (uint32_t i = 0; i < 16; i++) {
		snprintf(text, sizeof(text), "127.0.0.%u", i + 1);
		is_at(&h, h.loop + i, text, 19200);
	}
	nowhere(&h, h.loop - 1);
	nowhere(&h, h.loop + 16);
	nowhere(&h, 0);
	/* an address in if= means the host part */
	assert_int_equal(init(&h, &small, "if=127.0.0.1", "127.0.0.1", err), 0);
	is_at(&h, 1, "127.0.0.1", 19200);
}

/* Hosts on loopback have the same addresses; elsewhere addresses tell them apart. */
static void mark__on_loopback(void **state)
{
	uint8_t ip[16];
	uint16_t mark;

	(void)state;
	assert_true(link_ip_parse("127.0.0.1", ip));
	mark = hostpart_mark(ip);
	assert_int_not_equal(mark, 0);
	assert_true(link_ip_parse("::1", ip));
	assert_int_equal(hostpart_mark(ip), mark);
	assert_true(link_ip_parse("10.0.0.1", ip));
	assert_int_equal(hostpart_mark(ip), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kind__limits),	  cmocka_unit_test(kind__refusals),    cmocka_unit_test(map__two_kinds),
		cmocka_unit_test(map__too_long), cmocka_unit_test(loop__is_in_range),
		cmocka_unit_test(mark__on_loopback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
