// SPDX-License-Identifier: BSD-2-Clause
// GIDs of IP addresses and back.
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "nic/efanic/efanic_gid.h"

/* An address or GID in 16 bytes; IPv4 as IPv4-mapped. */
static void parse(const char *text, uint8_t out[16])
{
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, out), 1);
}

static void gid__of_known_addresses(void **state)
{
	static const struct {
		const char *ip, *gid;
	} row[] = {
		{"10.18.52.86", "fe80::5f:aff:fe12:3456"},
		{"127.0.0.1", "fe80::5f:7fff:fe00:1"},
		{"0.0.0.0", "fe80::5f:ff:fe00:0"},
		{"255.255.255.255", "fe80::5f:ffff:feff:ffff"},
		{"192.0.2.129", "fe80::5f:c0ff:fe00:281"},
		{"::1", "::1"},
		{"fd00::5f:aff:fe12:3456", "fd00::5f:aff:fe12:3456"},
		{"::fffe:10.0.0.1", "::fffe:10.0.0.1"},
		{"1::ffff:10.0.0.1", "1::ffff:10.0.0.1"},
		{"2001:db8::1", "2001:db8::1"},
	};
	uint8_t ip[16], gid[16], want[16], back[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		parse(row[i].ip, ip);
		parse(row[i].gid, want);
		efanic_gid_of_ip(ip, gid);
		assert_memory_equal(gid, want, 16);
		assert_true(efanic_ip_of_gid(gid, back));
		assert_memory_equal(back, ip, 16);
	}
}

/* Each byte of an IPv4 address by itself, and random ones: another address has another GID. */
static void gid__round_trip(void **state)
{
	struct rng rng = unit_rng();
	uint8_t ip[16] = {[10] = 0xff, 0xff}, gid[16], back[16];

	(void)state;
	for (unsigned i = 0; i < 4 * 256 + 5000; i++) {
		uint32_t v = i < 1024 ? (i & 0xff) << (i >> 8) * 8 : (uint32_t)rng_u64(&rng);

		memcpy(ip + 12, &v, 4);
		efanic_gid_of_ip(ip, gid);
		assert_int_equal(gid[0] << 8 | gid[1], 0xfe80);
		assert_int_equal(gid[11] << 8 | gid[12], 0xfffe);
		assert_true(efanic_ip_of_gid(gid, back));
		assert_memory_equal(back, ip, 16);
	}
	/* both may be the same bytes */
	efanic_gid_of_ip(ip, ip);
	assert_memory_equal(ip, gid, 16);
	assert_true(efanic_ip_of_gid(ip, ip));
	assert_memory_equal(ip, back, 16);
}

/* Link-local GIDs of others stay what they are; one that differs in a single bit is another's. */
static void gid__of_others(void **state)
{
	uint8_t ours[16], gid[16], ip[16];

	(void)state;
	parse("fe80::44d:f8ff:fe9c:f06d", gid);
	assert_true(efanic_ip_of_gid(gid, ip));
	assert_memory_equal(ip, gid, 16);
	parse("fe80::5f:aff:fe12:3456", ours);
	for (unsigned bit = 0; bit < 128; bit++) {
		bool is_host_part = bit / 8 == 10 || bit / 8 >= 13;

		memcpy(gid, ours, 16);
		gid[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_true(efanic_ip_of_gid(gid, ip));
		assert_int_equal(!!memcmp(ip, gid, 16), is_host_part);
	}
}

static void gid__is_never_ipv4_mapped(void **state)
{
	static const char *const text[] = {"0.0.0.0", "127.0.0.1", "255.255.255.255"};
	uint8_t gid[16], ip[16] = {7};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(text); i++) {
		parse(text[i], gid);
		assert_false(efanic_ip_of_gid(gid, ip));
		assert_int_equal(ip[0], 7); /* untouched */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gid__of_known_addresses),
		cmocka_unit_test(gid__round_trip),
		cmocka_unit_test(gid__of_others),
		cmocka_unit_test(gid__is_never_ipv4_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
