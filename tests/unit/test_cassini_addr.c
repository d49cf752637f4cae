// SPDX-License-Identifier: BSD-2-Clause
// NIC addresses and PIDs as IP addresses and UDP ports, both ways; the keys net= and map=.
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "nic/cassini/cassini_int.h"

static int addr_init(struct hostpart *a, const char *room, const char *ip4, char *err)
{
	unsigned b[4];
	uint8_t ip[16] = {[10] = 0xff, [11] = 0xff};
	struct link_room net;

	assert_int_equal(link_room_parse(room, &net, err, 512), 0);
	assert_int_equal(sscanf(ip4, "%u.%u.%u.%u", &b[0], &b[1], &b[2], &b[3]), 4);
	for (int i = 0; i < 4; i++)
		ip[12 + i] = (uint8_t)b[i];
	return hostpart_init(a, &cassini_nic_kind, &net, ip, err, 512);
}

static void addr_is(const struct hostpart *a, uint32_t nic, const char *ip4, uint16_t base)
{
	unsigned b[4];
	uint8_t ip[16], want[16] = {[10] = 0xff, [11] = 0xff};
	uint32_t back;
	uint16_t got;

	assert_int_equal(sscanf(ip4, "%u.%u.%u.%u", &b[0], &b[1], &b[2], &b[3]), 4);
	for (int i = 0; i < 4; i++)
		want[12 + i] = (uint8_t)b[i];
	assert_int_equal(hostpart_ip(a, nic, ip, &got), 0);
	assert_memory_equal(ip, want, 16);
	assert_int_equal(got, base);
	assert_int_equal(hostpart_nr(a, want, (uint16_t)(base + 600), &back, &got), 0);
	assert_int_equal(back, nic);
	assert_int_equal(got, base);
}

static void addr__mapping(void **state)
{
	struct hostpart a;
	uint8_t ip[16];
	char err[512];
	uint16_t base;

	(void)state;
	assert_int_equal(addr_init(&a, "if=127.0.0.1", "127.0.0.1", err), 0);
	addr_is(&a, 1, "127.0.0.1", 20480);
	addr_is(&a, 2, "127.0.0.2", 20480);
	addr_is(&a, 0xfffff, "127.15.255.255", 20480);
	assert_int_equal(hostpart_ip(&a, 0x100000, ip, &base), -ENETUNREACH);
	assert_int_equal(addr_init(&a, "net=10.1.0.0/16", "10.1.2.3", err), 0);
	addr_is(&a, 0x203, "10.1.2.3", 20480);
	addr_is(&a, 0xffff, "10.1.255.255", 20480);
	assert_int_equal(hostpart_ip(&a, 0x10000, ip, &base), -ENETUNREACH); /* not in the network */
	assert_int_equal(addr_init(&a, "net=10.0.0.0/8;map=5->192.0.2.5,6 ->10.0.0.7", "10.1.2.3", err), -EINVAL);
	assert_int_equal(
		addr_init(&a, "net=10.1.0.0/16;map=5->192.0.2.5, 0x10->192.0.2.5:40000,7->fd00::7,8->[fd00::8]:20000",
			  "10.1.2.3", err),
		0);
	addr_is(&a, 5, "192.0.2.5", 20480);
	addr_is(&a, 16, "192.0.2.5", 40000);
	addr_is(&a, 0x203, "10.1.2.3", 20480);
	assert_int_equal(hostpart_ip(&a, 8, ip, &base), 0);
	assert_int_equal(base, 20000);
	assert_int_equal(ip[0], 0xfd);
	assert_int_equal(addr_init(&a, "map=9->203.0.113.77", "203.0.113.77", err), 0); /* of no interface here */
	addr_is(&a, 9, "203.0.113.77", 20480);
}

/* Where no key puts adapters anywhere their addresses say which host it is, and those of other hosts are refused. */
static void addr__loopback(void **state)
{
	static const char *const room[] = {"", "if=lo", "udp;loss=1%;seed=1"};
	struct hostpart a, other;
	uint8_t ip[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 9};
	char err[512];
	uint32_t first = 0, nic;
	uint16_t base;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(room); i++) {
		assert_int_equal(addr_init(&a, room[i], "127.0.0.3", err), 0);
		assert_in_range(a.loop, 1, CASSINI_NIC_MAX + 1 - CASSINI_DEV_MAX);
		assert_true(!first || first == a.loop); /* all processes of a host agree */
		first = a.loop;
		for (uint32_t n = 0; n < CASSINI_DEV_MAX; n++) {
			char text[16];

			snprintf(text, sizeof(text), "127.0.0.%u", n + 1);
			addr_is(&a, first + n, text, 20480);
		}
	}
	assert_int_equal(hostpart_ip(&a, first - 1, ip, &base), -ENETUNREACH);
	assert_int_equal(hostpart_ip(&a, first + CASSINI_DEV_MAX, ip, &base), -ENETUNREACH);
	assert_int_equal(hostpart_ip(&a, 0, ip, &base), -ENETUNREACH);
	assert_int_equal(hostpart_nr(&a, ip, 0, &nic, &base), -ERANGE);
	/* the keys mean what they meant */
	assert_int_equal(addr_init(&other, "net=127.0.0.0/8", "127.0.0.3", err), 0);
	addr_is(&other, 3, "127.0.0.3", 20480);
	snprintf(err, sizeof(err), "map=%u->10.0.0.5,7->10.0.0.6", first + 2);
	assert_int_equal(addr_init(&other, err, "127.0.0.3", err), -EINVAL);
	assert_int_equal(addr_init(&other, "map=7->10.0.0.6", "127.0.0.3", err), 0);
	addr_is(&other, 7, "10.0.0.6", 20480);
	addr_is(&other, first, "127.0.0.1", 20480);
}

static void addr__refusals(void **state)
{
	static const struct {
		const char *room, *ip, *say;
	} bad[] = {
		{"", "203.0.113.77", "map="},
		{"net=10.0.0.0/8", "10.200.1.1", "1 to 20 bits"},
		{"net=10.2.0.0/16", "10.1.2.3", "not in net=10.2.0.0/16"},
		{"net=10.2.0.0", "10.2.2.3", "prefix"},
		{"net=10.2.0.0/32", "10.2.0.0", "prefix"},
		{"net=x/16", "10.2.0.0", "prefix"},
		{"map=5:10.0.0.5", "127.0.0.1", "5:10.0.0.5"},
		{"map=5->10.0.0", "127.0.0.1", "5->10.0.0"},
		{"map=0x100000->10.0.0.5", "127.0.0.1", "0x100000"},
		{"map=5->10.0.0.5:60000", "127.0.0.1", "BASE"},
		{"map=5->[fd00::1", "127.0.0.1", "[fd00::1"},
		{"if=127.0.0.1;map=1->10.0.0.5", "127.0.0.1", "NIC address 0x1"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct hostpart a;
		char err[512] = "";

		assert_int_equal(addr_init(&a, bad[i].room, bad[i].ip, err), -EINVAL);
		if (!strstr(err, bad[i].say))
			fail_msg("%s: '%s' is not in: %s", bad[i].room, bad[i].say, err);
	}
}

static void addr__ports(void **state)
{
	struct cassini nic = {0};
	struct link_addr addr;
	uint32_t who;
	uint16_t pid;
	char err[512];

	(void)state;
	assert_int_equal(cassini_port_nr(0, 0), 20480);
	assert_int_equal(cassini_port_nr(1, 5), 20480 + 512 + 5);
	assert_int_equal(cassini_port_nr(23, 510), 32766); /* below what Linux gives away */
	assert_int_equal(cassini_port_nr(25, 5), cassini_port_nr(1, 5));
	assert_int_equal(addr_init(&nic.addr, "if=127.0.0.1;map=9->127.0.0.2:40000", "127.0.0.1", err), 0);
	assert_int_equal(cassini_addr_of(&nic, 2, 10, 77, &addr), 0);
	assert_int_equal(addr.nonce, 0);
	assert_int_equal(addr.port, cassini_port_nr(10, 77));
	assert_int_equal(cassini_addr_who(&nic, &addr, 10, &who, &pid), 0);
	assert_int_equal(who, 2);
	assert_int_equal(pid, 77);
	assert_int_equal(cassini_addr_who(&nic, &addr, 11, &who, &pid), -ERANGE);
	addr.port = cassini_port_nr(10, 511);
	assert_int_equal(cassini_addr_who(&nic, &addr, 10, &who, &pid), -ERANGE);
	assert_int_equal(cassini_addr_of(&nic, 9, 10, 77, &addr), 0); /* the same IP address, other ports */
	assert_int_equal(addr.port, 40000 + 10 * 512 + 77);
	assert_int_equal(cassini_addr_who(&nic, &addr, 10, &who, &pid), 0);
	assert_int_equal(who, 9);
	assert_int_equal(pid, 77);
	assert_int_equal(cassini_addr_of(&nic, 0x100000, 10, 77, &addr), -ENETUNREACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addr__mapping),
		cmocka_unit_test(addr__loopback),
		cmocka_unit_test(addr__refusals),
		cmocka_unit_test(addr__ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
