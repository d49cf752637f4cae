// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/conf.c.
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/conf.h"

/* A table like that of SOFTFABRIC_NET. */
struct net {
	uint32_t paths;
	uint32_t loss_ppm;
	uint64_t delay_ns;
	uint64_t seed;
	uint64_t mtu;
	bool is_quiet;
	char pcap[CONF_STR_MAX];
	uint64_t death_ns;
};

static const struct conf_key net_key[] = {
	{"", CONF_WORDS, offsetof(struct net, paths), "paths to use", .words = "shm,udp,sim"},
	{"loss", CONF_PPM, offsetof(struct net, loss_ppm), "frames lost"},
	{"delay", CONF_NS, offsetof(struct net, delay_ns), "extra delay", .max = 10e9},
	{"seed", CONF_U64, offsetof(struct net, seed), "of all faults"},
	{"mtu", CONF_U64, offsetof(struct net, mtu), "frame bytes", .min = 1500, .max = 65536},
	{"quiet", CONF_BOOL, offsetof(struct net, is_quiet), "no log"},
	{"pcap", CONF_STR, offsetof(struct net, pcap), "capture file"},
	{"death", CONF_NS, offsetof(struct net, death_ns), "peer timeout", .min = 1e6},
};

static char g_err[512];

static int parse(const char *text, struct net *out)
{
	memset(g_err, 0, sizeof(g_err));
	return conf_parse("NET", text, net_key, ARRAY_SIZE(net_key), out, sizeof(*out), g_err,
			  sizeof(g_err));
}

static struct net parse_ok(const char *text)
{
	struct net n = {0};

	if (parse(text, &n))
		fail_msg("'%s': %s", text, g_err);
	return n;
}

static void expect_err(const char *text, const char *err)
{
	struct net n, before;

	memset(&n, 0x5a, sizeof(n));
	before = n;
	assert_int_equal(parse(text, &n), -EINVAL);
	assert_string_equal(g_err, err);
	assert_memory_equal(&n, &before, sizeof(n));
}

static void conf_parse__whole_line(void **state)
{
	struct net n = parse_ok("shm,udp;loss=1%;delay=20us;seed=7;pcap=x.pcapng");

	assert_int_equal(n.paths, 3);
	assert_int_equal(n.loss_ppm, 10000);
	assert_int_equal(n.delay_ns, 20000);
	assert_int_equal(n.seed, 7);
	assert_string_equal(n.pcap, "x.pcapng");
	assert_false(n.is_quiet);
}

static void conf_parse__only_named_members_change(void **state)
{
	struct net n, before;

	memset(&n, 0x5a, sizeof(n));
	before = n;
	assert_int_equal(parse("seed=9", &n), 0);
	before.seed = 9;
	assert_memory_equal(&n, &before, sizeof(n));
	assert_int_equal(parse("", &n), 0);
	assert_int_equal(parse(NULL, &n), 0);
	assert_memory_equal(&n, &before, sizeof(n));
}

static void conf_unset__what_the_rows_say(void **state)
{
	static const struct conf_key key[] = {
		{"paths", CONF_WORDS, offsetof(struct net, paths), "", 0, 0, "shm,udp,sim", "shm,sim"},
		{"loss", CONF_PPM, offsetof(struct net, loss_ppm), "", 0, 0, NULL, "2%"},
		{"delay", CONF_NS, offsetof(struct net, delay_ns), "", 0, 10e9, NULL, "3us"},
		{"seed", CONF_U64, offsetof(struct net, seed), ""},
		{"mtu", CONF_U64, offsetof(struct net, mtu), "", 1500, 65536, NULL, "4Ki"},
		{"quiet", CONF_BOOL, offsetof(struct net, is_quiet), "", 0, 0, NULL, "yes"},
		{"pcap", CONF_STR, offsetof(struct net, pcap), "", 0, 0, NULL, "a b"},
	};
	struct net n;

	memset(&n, 0x5a, sizeof(n));
	conf_unset(key, ARRAY_SIZE(key), &n, sizeof(n));
	assert_int_equal(n.paths, 5);
	assert_int_equal(n.loss_ppm, 20000);
	assert_int_equal(n.delay_ns, 3000);
	assert_int_equal(n.seed, 0);
	assert_int_equal(n.mtu, 4096);
	assert_true(n.is_quiet);
	assert_string_equal(n.pcap, "a b");
	assert_int_equal(n.death_ns, 0);
}

static void conf_parse__blanks_empty_items_and_repeats(void **state)
{
	struct net n = parse_ok(" ;; seed = 1 ;\tshm , udp ; pcap = a b=c ;seed=2;");

	assert_int_equal(n.seed, 2);
	assert_int_equal(n.paths, 3);
	assert_string_equal(n.pcap, "a b=c");
	assert_string_equal(parse_ok("pcap=").pcap, "");
	assert_int_equal(parse_ok("sim").paths, 4);
	assert_int_equal(parse_ok("sim,sim,shm").paths, 5);
}

static void conf_parse__one_word(void **state)
{
	static const struct conf_key key[] = {{"gen", CONF_WORD, 0, "generation", .words = "first,second"}};
	static const char *const bad[] = {"gen=first,second", "gen=third", "gen=", "gen=fir", "gen=,"};
	uint32_t gen = 7;

	assert_int_equal(conf_parse("NIC", "gen = second ", key, 1, &gen, sizeof(gen), g_err, sizeof(g_err)), 0);
	assert_int_equal(gen, 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(conf_parse("NIC", bad[i], key, 1, &gen, sizeof(gen), g_err, sizeof(g_err)), -EINVAL);
		assert_non_null(strstr(g_err, "expected one of first,second"));
		assert_int_equal(gen, 1);
	}
}

static void conf_parse__u64_values(void **state)
{
	static const struct {
		const char *text;
		uint64_t v;
	} row[] = {
		{"seed=0", 0},
		{"seed=007", 7},
		{"seed=0x2A", 42},
		{"seed=0xffffffffffffffff", UINT64_MAX},
		{"seed=18446744073709551615", UINT64_MAX},
		{"seed=3k", 3000},
		{"seed=3M", 3000000},
		{"seed=3G", 3000000000},
		{"seed=3Ki", 3 << 10},
		{"seed=3Mi", 3 << 20},
		{"seed=3Gi", 3ULL << 30},
		{"seed=1.5k", 1500},
		{"seed=1.5Ki", 1536},
		{"seed=2.0", 2},
		{"seed=17.179869183G", 17179869183},
	};
	static const char *const bad[] = {"seed=",
					  "seed=-1",
					  "seed=+1",
					  "seed=1.5",
					  "seed=1K",
					  "seed=1kk",
					  "seed=0x",
					  "seed=0xg",
					  "seed=0x10000000000000000",
					  "seed=18446744073709551616",
					  "seed=18446744073709551615k",
					  "seed=1 k",
					  "seed=.5k",
					  "seed=1e3",
					  "seed=seven"};
	struct net n;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_true(parse_ok(row[i].text).seed == row[i].v);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i], &n), -EINVAL);
}

static void conf_parse__ns_values(void **state)
{
	static const struct {
		const char *text;
		uint64_t v;
	} row[] = {
		{"delay=0", 0},
		{"delay=20ns", 20},
		{"delay=20us", 20000},
		{"delay=20ms", 20000000},
		{"delay=2s", 2000000000},
		{"delay=1.5us", 1500},
		{"delay=0.25s", 250000000},
		{"delay=1.4ns", 1},
		{"delay=1.6ns", 2},
		{"delay=10s", 10000000000},
	};
	static const char *const bad[] = {
		"delay=20",    "delay=20 us",	      "delay=us",	   "delay=1m",
		"delay=never", "delay=10.000000001s", "delay=-1s",	   "delay=",
		"death=0",     "death=999us",	      "death=20000000000s"};
	struct net n;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_true(parse_ok(row[i].text).delay_ns == row[i].v);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i], &n), -EINVAL);
	assert_true(parse_ok("death=never").death_ns == UINT64_MAX);
	assert_true(parse_ok("death=1ms").death_ns == 1000000);
}

static void conf_parse__ppm_values(void **state)
{
	static const struct {
		const char *text;
		uint32_t v;
	} row[] = {
		{"loss=0", 0},	       {"loss=1%", 10000},     {"loss=0.5%", 5000},
		{"loss=0.0001%", 1},   {"loss=100%", 1000000}, {"loss=0.01", 10000},
		{"loss=1.0", 1000000}, {"loss=0.000001", 1},   {"loss=33.333333%", 333333},
		{"loss=0.0000006", 1},
	};
	static const char *const bad[] = {"loss=1",   "loss=5",	  "loss=101%", "loss=100.0001%",
					  "loss=1.1", "loss=%",	  "loss=",     "loss=-1%",
					  "loss=1%%", "loss=1ppm"};
	struct net n;

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(parse_ok(row[i].text).loss_ppm, row[i].v);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(parse(bad[i], &n), -EINVAL);
}

static void conf_parse__bool_values(void **state)
{
	static const char *const yes[] = {"quiet=yes", "quiet=on", "quiet=true", "quiet=1"};
	static const char *const no[] = {"quiet=no", "quiet=off", "quiet=false", "quiet=0"};
	struct net n = {.is_quiet = true};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(parse_ok(yes[i]).is_quiet);
	for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
		n.is_quiet = true;
		assert_int_equal(parse(no[i], &n), 0);
		assert_false(n.is_quiet);
	}
	assert_int_equal(parse("quiet=", &n), -EINVAL);
	assert_int_equal(parse("quiet=2", &n), -EINVAL);
}

static void conf_parse__str_limit(void **state)
{
	char text[400] = "pcap=";
	struct net n;

	memset(text + 5, 'x', CONF_STR_MAX - 1);
	assert_int_equal(strlen(parse_ok(text).pcap), CONF_STR_MAX - 1);
	text[5 + CONF_STR_MAX - 1] = 'x';
	assert_int_equal(parse(text, &n), -EINVAL);
	assert_non_null(strstr(g_err, "...': expected at most 255 characters"));
}

static void conf_parse__error_sentences(void **state)
{
	expect_err("los=1%", "NET: unknown key 'los' (did you mean 'loss'?); "
			     "known keys: loss, delay, seed, mtu, quiet, pcap, death");
	expect_err("seed=1;zzz=1", "NET: unknown key 'zzz'; "
				   "known keys: loss, delay, seed, mtu, quiet, pcap, death");
	expect_err("delay", "NET: 'delay' lacks '=' and a value: expected a time with its unit "
			    "(ns, us, ms or s) like 20us, from 0ns to 10s");
	expect_err("=sim", "NET: unknown key ''; "
			   "known keys: loss, delay, seed, mtu, quiet, pcap, death");
	expect_err("shm,ucp",
		   "NET: 'shm,ucp' (did you mean 'udp'?): expected one or more, comma separated, of shm,udp,sim");
	expect_err("sism", "NET: 'sism' (did you mean 'sim'?): expected one or more, comma separated, of shm,udp,sim");
	expect_err("upd", "NET: 'upd' (did you mean 'udp'?): expected one or more, comma separated, of shm,udp,sim");
	expect_err("dealy=1us", "NET: unknown key 'dealy' (did you mean 'delay'?); "
				"known keys: loss, delay, seed, mtu, quiet, pcap, death");
	expect_err("shm,", "NET: 'shm,': expected one or more, comma separated, of shm,udp,sim");
	expect_err("loss=1",
		   "NET: loss='1': expected a percentage like 1% or a fraction like 0.01, "
		   "from 0% to 100%");
	expect_err("delay=20", "NET: delay='20': expected a time with its unit (ns, us, ms or s) "
			       "like 20us, from 0ns to 10s");
	expect_err("death=0", "NET: death='0': expected a time with its unit (ns, us, ms or s) "
			      "like 20us, or never, at least 1ms");
	expect_err("mtu=100", "NET: mtu='100': expected a whole number, optionally with "
			      "k, M, G, Ki, Mi or Gi, from 1500 to 65536");
	expect_err("seed=x", "NET: seed='x': expected a whole number, optionally with "
			     "k, M, G, Ki, Mi or Gi");
	expect_err("quiet=maybe", "NET: quiet='maybe': expected yes or no");
}

static void conf_parse__no_bare_value_without_its_entry(void **state)
{
	struct net n = {0};

	assert_int_equal(conf_parse("NET", "shm", net_key + 1, ARRAY_SIZE(net_key) - 1, &n,
				    sizeof(n), g_err, sizeof(g_err)),
			 -EINVAL);
	assert_string_equal(g_err, "NET: 'shm' lacks '=' and a value; "
				   "known keys: loss, delay, seed, mtu, quiet, pcap, death");
	assert_int_equal(conf_parse("NET", "=shm", net_key + 1, ARRAY_SIZE(net_key) - 1, &n,
				    sizeof(n), g_err, sizeof(g_err)),
			 -EINVAL);
}

static void conf_parse__short_err_buffer(void **state)
{
	for (size_t len = 0; len < 100; len++) {
		struct net n = {0};
		char *err = len ? malloc(len) : NULL;

		assert_int_equal(conf_parse("NET", "los=1%", net_key, ARRAY_SIZE(net_key), &n,
					    sizeof(n), err, len),
				 -EINVAL);
		if (len) {
			assert_true(strlen(err) < len);
			assert_memory_equal(
				err,
				"NET: unknown key 'los' (did you mean 'loss'?); "
				"known keys: loss, delay, seed, mtu, quiet, pcap, death",
				len - 1 < 93 ? len - 1 : 93);
		}
		free(err);
	}
}

static void conf_parse__garbage(void **state)
{
	static const char *const piece[] = {"shm", "udp",   "loss", "delay", "seed", "mtu", "pcap",
					    "=",   ";",	    ",",    ".",     "%",    "0x",  "1",
					    "99",  "never", "us",   "Ki",    " ",    "\t",  "\x80"};
	struct rng r = unit_rng();

	for (int round = 0; round < 50000; round++) {
		struct net n, before;
		char text[128] = "";
		int ret;

		for (uint64_t i = rng_below(&r, 20); i--;)
			strcat(text, piece[rng_below(&r, ARRAY_SIZE(piece))]);
		memset(&n, 0x5a, sizeof(n));
		before = n;
		ret = parse(text, &n);
		assert_true(ret == 0 || ret == -EINVAL);
		assert_int_equal(!ret, !*g_err);
		if (ret)
			assert_memory_equal(&n, &before, sizeof(n));
	}
}

/* conf_file_section() on a file with @content. */
static int read_file(const char *content, const char *section, char *text, size_t text_len)
{
	char path[] = "/tmp/sf-test-conf-XXXXXX";
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	close(fd);
	ret = conf_file_section(path, section, text, text_len);
	unlink(path);
	return ret;
}

static const char g_ini[] = "# a room\n"
			    "top = 1\n"
			    "[net]\n"
			    "  shm, udp\r\n"
			    "loss = 1%   ; measured\n"
			    "; delay = 5us\n"
			    "\n"
			    "pcap=a#b.pcapng # kept on /tmp\n"
			    "[ efa ]\n"
			    "nics = 2\n"
			    "[net]\n"
			    "seed = 7";

static void conf_file_section__joins_lines(void **state)
{
	char text[200] = "old";

	assert_int_equal(read_file(g_ini, "net", text, sizeof(text)), 0);
	assert_string_equal(text, "shm, udp;loss=1%;pcap=a#b.pcapng;seed=7");
	assert_int_equal(parse_ok(text).paths, 3);
	assert_int_equal(read_file(g_ini, "efa", text, sizeof(text)), 0);
	assert_string_equal(text, "nics=2");
	assert_int_equal(read_file(g_ini, "", text, sizeof(text)), 0);
	assert_string_equal(text, "top=1");
}

static void conf_file_section__absent_section_is_empty(void **state)
{
	char text[200] = "old";

	assert_int_equal(read_file(g_ini, "cxi", text, sizeof(text)), 0);
	assert_string_equal(text, "");
	strcpy(text, "old");
	assert_int_equal(read_file("", "cxi", text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void conf_file_section__every_buffer_size(void **state)
{
	static const char whole[] = "shm, udp;loss=1%;pcap=a#b.pcapng;seed=7";

	for (size_t len = 1; len <= sizeof(whole); len++) {
		char *text = malloc(len);
		int ret = read_file(g_ini, "net", text, len);

		assert_int_equal(ret, len == sizeof(whole) ? 0 : -E2BIG);
		assert_string_equal(text, ret ? "" : whole);
		free(text);
	}
}

static void conf_file_section__line_limit(void **state)
{
	char content[3000] = "[a]\nk=", text[3000];

	memset(content + 6, 'x', 1020);
	strcpy(content + 6 + 1020, "\nm=1\n"); /* a line of 1022 characters, the most */
	assert_int_equal(read_file(content, "a", text, sizeof(text)), 0);
	assert_int_equal(strlen(text), 1022 + 4);
	strcpy(content + 6 + 1020, "xx\nm=1\n");
	assert_int_equal(read_file(content, "a", text, sizeof(text)), -E2BIG);
	assert_string_equal(text, "");
}

static void conf_file_section__errors(void **state)
{
	char text[100] = "old";

	assert_int_equal(conf_file_section("/nonexistent/x", "a", text, sizeof(text)), -ENOENT);
	assert_string_equal(text, "");
	assert_int_equal(conf_file_section("/tmp", "a", text, sizeof(text)), -EISDIR);
	assert_int_equal(read_file("[a]\nk=1\n[b\n", "a", text, sizeof(text)), -EINVAL);
	assert_string_equal(text, "");
	assert_int_equal(read_file("[", "a", text, sizeof(text)), -EINVAL);
}

static void conf_span__both_ways(void **state)
{
	static const struct {
		const char *text, *say;
	} bad[] = {{"1s", "room: down=1s is not FROM-TO"},
		   {"2s-1s", "room: down=2s-1s ends before"},
		   {"1s-1s", "ends before"},
		   {"x-1s", "room: down"},
		   {"1s-2", "to"},
		   {"", "FROM-TO"}};
	uint64_t ns[2] = {7, 8};
	char err[200];

	(void)state;
	assert_int_equal(conf_span("room", "down", "1s-2.5s", ns, err, sizeof(err)), 0);
	assert_int_equal(ns[0], 1000000000);
	assert_int_equal(ns[1], 2500000000);
	assert_int_equal(conf_span("room", "down", "0s-never", ns, err, sizeof(err)), 0);
	assert_int_equal(ns[0], 0);
	assert_true(ns[1] == UINT64_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ns[0] = 7;
		assert_int_equal(conf_span("room", "down", bad[i].text, ns, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, bad[i].say));
		assert_int_equal(ns[0], 7);
		assert_int_equal(conf_span("room", "down", bad[i].text, ns, NULL, 0), -EINVAL);
	}
}

static void conf_long__all_of_the_text(void **state)
{
	static const struct {
		const char *text;
		long min, max, want; /* @want of a refusal: LONG_MIN */
	} row[] = {
		{"5", 0, 9, 5},		{"0x10", 0, 16, 16},	  {"-1", -1, 5, -1},	{"0", 0, 0, 0},
		{"5", 6, 9, LONG_MIN},	{"5", 0, 4, LONG_MIN},	  {"-1", 0, 9, LONG_MIN}, {"", 0, 9, LONG_MIN},
		{"-", 0, 9, LONG_MIN},	{"5x", 0, 9, LONG_MIN},	  {" 5", 0, 9, LONG_MIN}, {"+5", 0, 9, LONG_MIN},
		{"x", 0, 99, LONG_MIN}, {"99999999999999999999", 0, LONG_MAX, LONG_MIN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		long v = LONG_MIN;
		bool ok = conf_long(row[i].text, row[i].min, row[i].max, &v);

		if (ok != (row[i].want != LONG_MIN) || (ok && v != row[i].want))
			fail_msg("\"%s\" from %ld to %ld: %s %ld", row[i].text, row[i].min, row[i].max,
				 ok ? "is" : "refused,", v);
	}
}

static void conf_refuse__fits_the_buffer(void **state)
{
	char err[8] = "";

	(void)state;
	assert_int_equal(conf_refuse(-EPERM, err, sizeof(err), "%s", "a long sentence"), -EPERM);
	assert_string_equal(err, "a long ");
	assert_int_equal(conf_refuse(-EPERM, NULL, 0, "%s", "x"), -EPERM);
}

static const struct conf_src src = {"TEST_NET", "net", net_key, ARRAY_SIZE(net_key)};

static int read_src(struct net *out)
{
	*out = (struct net){.seed = 1, .mtu = 2000};
	memset(g_err, 0, sizeof(g_err));
	return conf_read(&src, out, sizeof(*out), g_err, sizeof(g_err));
}

static void file_set(char path[], const char *text)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	setenv("SOFTFABRIC_CONF", path, 1);
}

/* The section first, then the variable; either may be missing. */
static void conf_read__file_then_env(void **state)
{
	char good[] = "/tmp/sf_conf_XXXXXX", bad[] = "/tmp/sf_conf_XXXXXX", want[64];
	struct net n;

	(void)state;
	unsetenv("SOFTFABRIC_CONF");
	unsetenv("TEST_NET");
	assert_int_equal(read_src(&n), 0);
	assert_int_equal(n.seed, 1);
	setenv("SOFTFABRIC_CONF", "", 1);
	assert_int_equal(read_src(&n), 0);
	file_set(good, "[other]\nnics = 9\n[net]\nseed = 3\nmtu = 3000\n");
	setenv("TEST_NET", "seed=4", 1);
	assert_int_equal(read_src(&n), 0);
	assert_int_equal(n.seed, 4);
	assert_int_equal(n.mtu, 3000);
	setenv("TEST_NET", "sed=4", 1);
	assert_int_equal(read_src(&n), -EINVAL);
	assert_int_equal(strncmp(g_err, "TEST_NET: ", 10), 0);
	unlink(good);
	assert_int_equal(read_src(&n), -EINVAL);
	assert_non_null(strstr(g_err, good));
	assert_non_null(strstr(g_err, "cannot be read"));
	file_set(bad, "[net]\nseed = x\n");
	unsetenv("TEST_NET");
	assert_int_equal(read_src(&n), -EINVAL);
	snprintf(want, sizeof(want), "%s [net]: ", bad);
	assert_int_equal(strncmp(g_err, want, strlen(want)), 0);
	unlink(bad);
	unsetenv("SOFTFABRIC_CONF");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conf_parse__whole_line),
		cmocka_unit_test(conf_parse__only_named_members_change),
		cmocka_unit_test(conf_unset__what_the_rows_say),
		cmocka_unit_test(conf_parse__blanks_empty_items_and_repeats),
		cmocka_unit_test(conf_parse__one_word),
		cmocka_unit_test(conf_parse__u64_values),
		cmocka_unit_test(conf_parse__ns_values),
		cmocka_unit_test(conf_parse__ppm_values),
		cmocka_unit_test(conf_parse__bool_values),
		cmocka_unit_test(conf_parse__str_limit),
		cmocka_unit_test(conf_parse__error_sentences),
		cmocka_unit_test(conf_parse__no_bare_value_without_its_entry),
		cmocka_unit_test(conf_parse__short_err_buffer),
		cmocka_unit_test(conf_parse__garbage),
		cmocka_unit_test(conf_span__both_ways),
		cmocka_unit_test(conf_long__all_of_the_text),
		cmocka_unit_test(conf_refuse__fits_the_buffer),
		cmocka_unit_test(conf_read__file_then_env),
		cmocka_unit_test(conf_file_section__joins_lines),
		cmocka_unit_test(conf_file_section__absent_section_is_empty),
		cmocka_unit_test(conf_file_section__every_buffer_size),
		cmocka_unit_test(conf_file_section__line_limit),
		cmocka_unit_test(conf_file_section__errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
