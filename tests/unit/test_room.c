// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/core/room.c: settings, refusals, and the choice of an address.
#include "unit.h"

#include <arpa/inet.h>
#include <unistd.h>

#include "../../src/link/core/room.c"

static struct link_room parse(const char *text)
{
	struct link_room r;
	char err[512] = "";

	if (link_room_parse(text, &r, err, sizeof(err)))
		fail_msg("%s: %s", text ? text : "(null)", err);
	return r;
}

/* @text must be refused with a sentence that contains @part. */
static void refused(const char *text, const char *part)
{
	struct link_room r;
	char err[512] = "";

	assert_int_equal(link_room_parse(text, &r, err, sizeof(err)), -EINVAL);
	if (!strstr(err, part))
		fail_msg("%s: \"%s\" does not mention \"%s\"", text, err, part);
}

static void room_parse__defaults(void **state)
{
	struct link_room r = parse(NULL);

	(void)state;
	assert_int_equal(r.paths, LINK_PATH_SHM | LINK_PATH_UDP);
	assert_int_equal(r.dead_after_ns, 30 * NS_PER_SEC);
	assert_int_equal(r.linger_ns, NS_PER_SEC);
	assert_int_equal(r.mtu, 0);
	assert_false(r.has_faults);
	assert_true(r.has_guard);
	assert_false(r.is_sealed || r.secrecy);
	assert_string_equal(r.ifname, "");
	assert_string_equal(r.pcap, "");
}

static void room_parse__all_keys(void **state)
{
	struct link_room r = parse(
		"udp; loss=1%; dup=0.5%; reorder=5%; corrupt=0.01%; truncate=2%; delay=20us; "
		"seed=7;"
		"dead_after=3s; linger=10ms; partition=1s-2.5s; drop_nth=3; dup_nth=4; delay_nth=5;"
		"shm_budget=16Mi; mtu=1472; if=eth7; net=10.0.0.0/8; map=1=10.0.0.1; "
		"pcap=x.pcapng; guard=no");

	(void)state;
	assert_false(r.has_guard);
	assert_int_equal(r.paths, LINK_PATH_UDP);
	assert_int_equal(r.drop_ppm, 10000);
	assert_int_equal(r.dup_ppm, 5000);
	assert_int_equal(r.reorder_ppm, 50000);
	assert_int_equal(r.corrupt_ppm, 100);
	assert_int_equal(r.truncate_ppm, 20000);
	assert_int_equal(r.delay_ns, 20000);
	assert_int_equal(r.seed, 7);
	assert_int_equal(r.dead_after_ns, 3 * NS_PER_SEC);
	assert_int_equal(r.linger_ns, 10 * NS_PER_MS);
	assert_int_equal(r.partition_ns[0], NS_PER_SEC);
	assert_int_equal(r.partition_ns[1], 2500 * NS_PER_MS);
	assert_int_equal(r.drop_nth, 3);
	assert_int_equal(r.dup_nth, 4);
	assert_int_equal(r.delay_nth, 5);
	assert_int_equal(r.shm_budget, 16 << 20);
	assert_int_equal(r.mtu, 1472);
	assert_string_equal(r.ifname, "eth7");
	assert_string_equal(r.net, "10.0.0.0/8");
	assert_string_equal(r.map, "1=10.0.0.1");
	assert_string_equal(r.pcap, "x.pcapng");
	assert_true(r.has_faults);
}

static void room_parse__paths(void **state)
{
	(void)state;
	assert_int_equal(parse("shm").paths, LINK_PATH_SHM);
	assert_int_equal(parse("udp,shm").paths, LINK_PATH_SHM | LINK_PATH_UDP);
	assert_int_equal(parse("paths=shm").paths, LINK_PATH_SHM);
}

static void room_parse__what_counts_as_fault(void **state)
{
	static const char *const yes[] = {"loss=1%",	"drop=1%",	   "dup=1%",
					  "reorder=1%", "corrupt=1%",	   "truncate=1%",
					  "delay=1us",	"partition=0s-1s", "drop_nth=1",
					  "dup_nth=1",	"delay_nth=1"};
	static const char *const no[] = {"loss=0",    "seed=7", "mtu=1472",
					 "linger=1s", "pcap=x", "dead_after=never"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		if (!parse(yes[i]).has_faults)
			fail_msg("%s is a fault", yes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		if (parse(no[i]).has_faults)
			fail_msg("%s is no fault", no[i]);
}

static void room_parse__never(void **state)
{
	(void)state;
	assert_true(parse("dead_after=never").dead_after_ns == CLK_NEVER);
	assert_true(parse("partition=1s-never").partition_ns[1] == CLK_NEVER);
}

static void room_parse__refusals(void **state)
{
	(void)state;
	refused("los=1%", "loss");
	refused("bogus=1", "dead_after");
	refused("tcp", "shm");
	refused("loss=150%", "loss");
	refused("loss=2", "loss");
	refused("delay=20", "delay");
	refused("mtu=100", "mtu");
	refused("secrecy=yes", "needs key=");
	refused("key=/nowhere/at/all", "key=/nowhere/at/all");
	refused("key=/dev/null", "key=/dev/null");
	refused("mtu=70000", "mtu");
	refused("partition=1s", "FROM-TO");
	refused("partition=2s-1s", "ends before");
	refused("partition=x-1s", "from");
	refused("partition=1s-2", "to");
	refused("if=an-interface-name-that-is-so-long-that-no-system-could-ever-have-one", "if=");
}

static void room_parse__err_is_optional(void **state)
{
	struct link_room r;

	(void)state;
	assert_int_equal(link_room_parse("bogus=1", &r, NULL, 0), -EINVAL);
	assert_int_equal(link_room_parse("partition=1", &r, NULL, 99), -EINVAL);
}

/* Keys of the file come first, the variable's on top; each @setup sees an unparsed room. */
static int room_get(const struct link_room **out, char *err, size_t len)
{
	g_room.is_parsed = false;
	return link_room_get(out, err, len);
}

static void room_get__file_then_env(void **state)
{
	const char text[] = "[efa]\nnics = 2\n[net]\nloss = 1%\nseed = 5 # comment\npaths = udp\n";
	char path[] = "/tmp/sf_room_XXXXXX", err[512] = "";
	const struct link_room *r, *again;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	close(fd);
	setenv("SOFTFABRIC_CONF", path, 1);
	setenv(ROOM_ENV, "seed=9", 1);
	if (room_get(&r, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(r->drop_ppm, 10000);
	assert_int_equal(r->seed, 9);
	assert_int_equal(r->paths, LINK_PATH_UDP);
	/* parsed once: later changes of the environment do nothing */
	setenv(ROOM_ENV, "seed=10", 1);
	assert_int_equal(link_room_get(&again, err, sizeof(err)), 0);
	assert_ptr_equal(r, again);
	assert_int_equal(again->seed, 9);
	unlink(path);
	assert_int_equal(room_get(&r, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, path));
	/* and the refusal is repeated to each who asks */
	err[0] = '\0';
	assert_int_equal(link_room_get(&r, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, path));
	unsetenv("SOFTFABRIC_CONF");
	unsetenv(ROOM_ENV);
	assert_int_equal(room_get(&r, NULL, 0), 0);
	assert_false(r->has_faults);
}

static void room_get__names_env(void **state)
{
	const struct link_room *r;
	char err[512] = "";

	(void)state;
	setenv(ROOM_ENV, "lose=1%", 1);
	assert_int_equal(room_get(&r, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, ROOM_ENV));
	unsetenv(ROOM_ENV);
	g_room.is_parsed = false;
}

static void ip_is(const struct link_room *r, unsigned n, uint32_t want)
{
	uint8_t ip[16], expect[16];
	char err[256] = "";

	if (link_room_ip(r, n, ip, err, sizeof(err)))
		fail_msg("%s", err);
	link_ip_from_v4(want, expect);
	assert_memory_equal(ip, expect, 16);
}

static void room_ip__loopback(void **state)
{
	struct link_room r = parse(""), lo = parse("if=lo"), addr = parse("if=127.0.1.5");
	uint8_t ip[16];
	char err[256] = "";

	(void)state;
	ip_is(&r, 0, 0x7f000001);
	ip_is(&r, 3, 0x7f000004);
	ip_is(&lo, 254, 0x7f0000ff);
	ip_is(&addr, 2, 0x7f000107);
	assert_int_equal(link_room_ip(&r, 0x1000000, ip, err, sizeof(err)), -ENODEV);
	assert_true(err[0]);
}

static void room_ip__unknown(void **state)
{
	struct link_room r = parse("if=nosuchif0"), addr = parse("if=203.0.113.77");
	uint8_t ip[16];
	char err[256] = "";

	(void)state;
	assert_int_equal(link_room_ip(&r, 0, ip, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "nosuchif0"));
	assert_non_null(strstr(err, "lo"));
	assert_int_equal(link_room_ip(&addr, 0, ip, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "203.0.113.77"));
	assert_int_equal(link_room_ip(&addr, 0, ip, NULL, 0), -ENODEV);
}

/* A made-up host: eth0 has an IPv6, a link-local and two IPv4 addresses; ib0 one IPv6 address. */
static void room_ip__made_up_host(void **state)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET}, b4 = {.sin_family = AF_INET};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6}, ll = {.sin6_family = AF_INET6}, c6 = a6;
	struct ifaddrs i[5] = {
		{&i[1], (char *)"eth0", .ifa_addr = (struct sockaddr *)&a6},
		{&i[2], (char *)"eth0", .ifa_addr = (struct sockaddr *)&a4},
		{&i[3], (char *)"eth0", .ifa_addr = (struct sockaddr *)&ll},
		{&i[4], (char *)"eth0", .ifa_addr = (struct sockaddr *)&b4},
		{NULL, (char *)"ib0", .ifa_addr = (struct sockaddr *)&c6},
	};
	uint8_t ip[16], want[16];
	char err[256];

	(void)state;
	inet_pton(AF_INET, "10.0.0.1", &a4.sin_addr);
	inet_pton(AF_INET, "10.0.0.2", &b4.sin_addr);
	inet_pton(AF_INET6, "fd00::1", &a6.sin6_addr);
	inet_pton(AF_INET6, "fd00::3", &c6.sin6_addr);
	inet_pton(AF_INET6, "fe80::1", &ll.sin6_addr);
	assert_int_equal(if_ip(i, "eth0", 0, ip, err, sizeof(err)), 0);
	link_ip_from_v4(0x0a000001, want);
	assert_memory_equal(ip, want, 16);
	assert_int_equal(if_ip(i, "eth0", 1, ip, err, sizeof(err)), 0);
	assert_int_equal(ip[15], 2);
	assert_int_equal(if_ip(i, "eth0", 2, ip, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "2 usable addresses"));
	/* a named address is adapter 0, the rest follows */
	assert_int_equal(if_ip(i, "10.0.0.2", 0, ip, err, sizeof(err)), 0);
	assert_int_equal(ip[15], 2);
	assert_int_equal(if_ip(i, "10.0.0.2", 1, ip, err, sizeof(err)), 0);
	assert_int_equal(ip[15], 1);
	assert_int_equal(if_ip(i, "10.0.0.2", 2, ip, err, sizeof(err)), -ENODEV);
	assert_int_equal(if_ip(i, "fd00::1", 0, ip, err, sizeof(err)), 0);
	assert_memory_equal(ip, &a6.sin6_addr, 16);
	assert_int_equal(if_ip(i, "ib0", 0, ip, err, sizeof(err)), 0);
	assert_memory_equal(ip, &c6.sin6_addr, 16);
	assert_int_equal(if_ip(i, "ib1", 0, ip, err, sizeof(err)), -ENODEV);
	assert_non_null(strstr(err, "eth0, ib0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_parse__defaults),
		cmocka_unit_test(room_parse__all_keys),
		cmocka_unit_test(room_parse__paths),
		cmocka_unit_test(room_parse__what_counts_as_fault),
		cmocka_unit_test(room_parse__never),
		cmocka_unit_test(room_parse__refusals),
		cmocka_unit_test(room_parse__err_is_optional),
		cmocka_unit_test(room_get__file_then_env),
		cmocka_unit_test(room_get__names_env),
		cmocka_unit_test(room_ip__loopback),
		cmocka_unit_test(room_ip__unknown),
		cmocka_unit_test(room_ip__made_up_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
