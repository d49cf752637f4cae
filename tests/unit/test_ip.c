// SPDX-License-Identifier: BSD-2-Clause
// Tests of link/core/ip.c.
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/core/ip.h"

static void ip_parse__and_back(void **state)
{
	static const char *const same[] = {"127.0.0.1", "192.0.2.255", "0.0.0.0", "fd00::2", "::1", "::"};
	static const char *const bad[] = {"", "127.0.0", "127.0.0.1.2", "fd00::2::1", "10.0.0.256", "lo", "127.0.0.1 "};
	char text[LINK_IP_TEXT];
	uint8_t ip[16], again[16];
	uint32_t v4;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		assert_true(link_ip_parse(same[i], ip));
		assert_string_equal(link_ip_text(ip, text), same[i]);
		assert_int_equal(link_ip_is_v4(ip), !strchr(same[i], ':'));
		assert_int_equal(link_ip_v4(ip, &v4), link_ip_is_v4(ip));
		if (!link_ip_is_v4(ip))
			continue;
		link_ip_from_v4(v4, again);
		assert_memory_equal(ip, again, 16);
	}
	assert_true(link_ip_parse("10.1.2.3", ip) && link_ip_v4(ip, &v4));
	assert_int_equal(v4, 0x0a010203);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(link_ip_parse(bad[i], ip));
}

static void ip_is_loopback__both_families(void **state)
{
	static const struct {
		const char *text;
		bool want;
	} row[] = {{"127.0.0.1", true}, {"127.9.9.9", true}, {"126.0.0.1", false},
		   {"::1", true},	{"::2", false},	     {"fd00::1", false}};
	uint8_t ip[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		assert_true(link_ip_parse(row[i].text, ip));
		assert_int_equal(link_ip_is_loopback(ip), row[i].want);
	}
}

static void ip_of__what_the_system_gives(void **state)
{
	const struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	const struct sockaddr unix_ = {.sa_family = AF_UNIX};
	uint8_t ip[16], want[16];

	(void)state;
	assert_true(link_ip_parse("10.0.0.1", want));
	assert_true(link_ip_of((const struct sockaddr *)&in4, ip));
	assert_memory_equal(ip, want, 16);
	assert_true(link_ip_of((const struct sockaddr *)&in6, ip));
	assert_true(link_ip_is_loopback(ip));
	assert_false(link_ip_of(&unix_, ip));
	assert_false(link_ip_of(NULL, ip));
}

/* The user of a UDP socket of each family; nobody's where none is. */
static void ip_user__both_families(void **state)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr *const name[] = {(struct sockaddr *)&in4, (struct sockaddr *)&in6};
	socklen_t len[] = {sizeof(in4), sizeof(in6)};

	(void)state;
	for (int i = 0; i < 2; i++) {
		int fd = socket(name[i]->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		uint32_t uid = UINT32_MAX;
		uint16_t port;
		uint8_t ip[16];

		if (fd < 0 || bind(fd, name[i], len[i])) { /* no IPv6 here */
			assert_int_equal(i, 1);
			close(fd);
			continue;
		}
		assert_int_equal(getsockname(fd, name[i], &len[i]), 0);
		port = ntohs(i ? in6.sin6_port : in4.sin_port);
		assert_true(link_ip_of(name[i], ip));
		assert_int_equal(link_ip_user(ip, port, &uid), 0);
		assert_int_equal(uid, geteuid());
		close(fd);
		assert_int_equal(link_ip_user(ip, 0, &uid), -ENOENT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ip_parse__and_back),
		cmocka_unit_test(ip_is_loopback__both_families),
		cmocka_unit_test(ip_of__what_the_system_gives),
		cmocka_unit_test(ip_user__both_families),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
