// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/net/gate.c and link/net/gate_sock.c: who stands, what the kernel makes of the program, and a
// socket that is flooded.
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sock_diag.h>

#include "link/net/gate.h"
#include "link/core/link_int.h"
#include "link/net/rel_wire.h"
#include "link/net/seal.h"
#include "link_fake.h"

static struct gate g;

static void note(uint32_t key, bool is_news, uint32_t cnt)
{
	while (cnt--)
		gate_note(&g, key, is_news);
}

static int gate_setup(void **state)
{
	(void)state;
	memset(&g, 0, sizeof(g));
	g.is_v4 = true;
	g.word_at = 4;
	for (uint32_t i = 0; i < ARRAY_SIZE(g.mul); i++)
		g.mul[i] = 0x9e3779b1u * (i + 1) | 1;
	return 0;
}

/* --- who stands ------------------------------------------------------------------------------- */

static void stands__who_brings_news(void **state)
{
	(void)state;
	note(3, true, 1);
	assert_false(gate_stands(&g, 3));
	gate_judge(&g);
	assert_true(gate_stands(&g, 3));
	assert_true(g.is_stale);
	for (int i = 0; i < 1000; i++) { /* one of ten is a copy: honest */
		note(3, i % 10 != 0, 1);
		assert_true(gate_stands(&g, 3));
	}
}

static void stands__not_who_sends_in_vain(void **state)
{
	uint32_t n = 0;

	(void)state;
	note(3, true, 10000);
	gate_judge(&g);
	while (gate_stands(&g, 3) && n++ < GATE_PAST)
		note(3, false, 1);
	assert_false(gate_stands(&g, 3));
	gate_judge(&g);
	assert_false(gate_stands(&g, 3));
	for (int i = 0; i < 1000; i++) /* half in vain: not again */
		note(3, i % 2, 1);
	gate_judge(&g);
	assert_false(gate_stands(&g, 3));
}

static void stands__again(void **state)
{
	(void)state;
	note(3, true, 1);
	note(3, false, 10000);
	gate_judge(&g);
	assert_false(gate_stands(&g, 3));
	for (uint32_t i = 0; i < 4 * GATE_PAST; i++)
		note(3, true, 1);
	gate_judge(&g);
	assert_true(gate_stands(&g, 3));
}

/* Who repeated too much because we were slow to answer is not shut out for good; who goes on is. */
static void stands__again_after_a_while(void **state)
{
	(void)state;
	note(3, true, 4);
	note(3, false, 30);
	gate_judge(&g);
	assert_false(gate_stands(&g, 3));
	for (int i = 0; i < 60; i++)
		gate_judge(&g);
	note(3, true, 1);
	gate_judge(&g);
	assert_true(gate_stands(&g, 3));
	note(3, false, 30);
	for (int i = 0; i < 600; i++) {
		note(3, i % 10 == 0, 2);
		gate_judge(&g);
		assert_false(gate_stands(&g, 3));
	}
}

static void stands__strangers_take_no_place(void **state)
{
	(void)state;
	for (uint32_t key = 1; key < 100000; key += 2)
		note(key, false, 1);
	for (uint32_t i = 0; i < ARRAY_SIZE(g.sender); i++)
		assert_int_equal(g.sender[i].key, 0);
}

/* More than can be named: the first ones stand until they are silent for long, then others. */
static void stands__a_crowd(void **state)
{
	struct sock_filter prog[GATE_PROG_MAX];
	uint32_t cnt = 0;

	(void)state;
	for (uint32_t i = 0; i < 2 * GATE_STAND_MAX; i++)
		note(2 * i + 1, true, 1);
	gate_judge(&g);
	assert_int_equal(g.stand_cnt, GATE_RISE_MAX);
	for (uint32_t n = 0; n < 200; n++) {
		note(2 * (2 * GATE_STAND_MAX - 1) + 1, true, 1);
		gate_judge(&g);
	}
	assert_true(gate_stands(&g, 2 * (2 * GATE_STAND_MAX - 1) + 1));
	for (uint32_t i = 0; i < GATE_STAND_MAX; i++) /* whom the owner knows: there is room, whoever else came */
		gate_known(&g, 2 * (3 * GATE_STAND_MAX + i) + 1);
	assert_int_equal(g.stand_cnt, GATE_STAND_MAX);
	assert_in_range(gate_prog(&g, prog), GATE_STAND_MAX, GATE_PROG_MAX);
	for (uint32_t i = 0; i < ARRAY_SIZE(g.sender); i++)
		cnt += g.sender[i].stands;
	assert_int_equal(cnt, g.stand_cnt);
}

static void stands__known(void **state)
{
	(void)state;
	gate_known(&g, 5);
	assert_true(gate_stands(&g, 5));
	note(5, false, 10000);
	assert_false(gate_stands(&g, 5));
	gate_known(&g, 5); /* but what is known of it counts */
	assert_false(gate_stands(&g, 5));
}

/* --- the program, in the kernel --------------------------------------------------------------- */

/* Two sockets at one address: [GATE_MAIN] and [GATE_GATE]. */
struct group {
	int fd[2], from;
	struct sockaddr_storage at;
	socklen_t len;
};

static bool group_open(struct group *s, int family)
{
	int one = 1, size = 1 << 20;

	memset(s, 0, sizeof(*s));
	s->at.ss_family = (sa_family_t)family;
	s->len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (family == AF_INET)
		((struct sockaddr_in *)&s->at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		((struct sockaddr_in6 *)&s->at)->sin6_addr = in6addr_loopback;
	s->from = socket(family, SOCK_DGRAM, 0);
	for (int i = 0; i < 2; i++) {
		s->fd[i] = socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
		setsockopt(s->fd[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
		setsockopt(s->fd[i], SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
		if (bind(s->fd[i], (struct sockaddr *)&s->at, s->len))
			return false;
		getsockname(s->fd[i], (struct sockaddr *)&s->at, &s->len);
	}
	return true;
}

static void group_close(struct group *s)
{
	close(s->fd[0]);
	close(s->fd[1]);
	close(s->from);
}

/* Which socket a datagram of @len bytes with @word goes into. */
static uint32_t goes(struct group *s, uint32_t word, size_t len)
{
	uint8_t buf[64] = {0};
	be32_t be = be32_put(word);
	uint64_t end = clk_now_ns(NULL) + 2 * NS_PER_SEC;

	memcpy(buf + g.word_at, &be, sizeof(be));
	assert_int_equal(sendto(s->from, buf, len, 0, (struct sockaddr *)&s->at, s->len), len);
	while (clk_now_ns(NULL) < end) {
		for (uint32_t i = 0; i < 2; i++)
			if (recv(s->fd[i], buf, sizeof(buf), 0) >= 0)
				return i;
	}
	fail_msg("lost");
	return 2;
}

static void prog_check(struct group *s, const uint8_t ip[16], uint32_t cnt)
{
	struct sock_filter code[GATE_PROG_MAX];
	struct sock_fprog prog = {.filter = code};

	memset(g.sender, 0, sizeof(g.sender));
	g.stand_cnt = 0;
	for (uint32_t i = 0; i < cnt; i++)
		gate_known(&g, gate_key(&g, ip, 1000 + i));
	cnt = g.stand_cnt; /* a set of places may have been full */
	prog.len = gate_prog(&g, code);
	assert_int_equal(setsockopt(s->fd[0], SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog)), 0);
	for (uint32_t i = 0; i < 600; i++) {
		bool stands = gate_stands(&g, gate_key(&g, ip, 990 + i));

		assert_int_equal(goes(s, 990 + i, 40), stands ? GATE_MAIN : GATE_GATE);
		cnt -= stands;
	}
	assert_int_equal(cnt, 0);
	assert_int_equal(goes(s, 1000, g.word_at + 3), GATE_GATE); /* too short to tell */
	assert_int_equal(goes(s, 1000, 0), GATE_GATE);
}

static const uint32_t crowd[] = {0, 1, 2, 4, 5, 9, 63, GATE_STAND_MAX};

static void prog__v4(void **state)
{
	uint8_t ip[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1}, other[16] = {[10] = 0xff, 0xff, 127, 0, 0, 2};
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + 1)}};
	struct group s;

	(void)state;
	assert_true(group_open(&s, AF_INET));
	for (uint32_t i = 0; i < ARRAY_SIZE(crowd); i++)
		prog_check(&s, ip, crowd[i]);
	/* the same word from another address */
	assert_int_equal(goes(&s, 1000, 40), GATE_MAIN);
	assert_false(gate_stands(&g, gate_key(&g, other, 1000)));
	close(s.from);
	s.from = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(bind(s.from, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(goes(&s, 1000, 40), GATE_GATE);
	group_close(&s);
}

static void prog__v6(void **state)
{
	uint8_t ip[16] = {[15] = 1};
	struct group s;

	(void)state;
	g.is_v4 = false;
	if (!group_open(&s, AF_INET6)) {
		group_close(&s);
		print_message("no IPv6 on this host\n");
		skip();
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(crowd); i++)
		prog_check(&s, ip, crowd[i]);
	group_close(&s);
}

/* --- a socket that is flooded ------------------------------------------------------------------- */

enum { JUNK = 1, HONEST = 2, NEWCOMER = 3, SHAKE = 4, WORDS }; /* SHAKE: the last step of a handshake of HONEST */

static struct link_room room;
static uint64_t virt_ns = NS_PER_SEC; /* the gate's time goes on while a test polls, and not while it has no CPU */
static struct link_node node = {.room = &room, .clk = {.virt_ns = &virt_ns}};
static struct rel fake_rel_of_port;
static struct link_port port;
static struct carrier *net;
static uint32_t got[WORDS], refused;
static uint32_t word_at; /* of the datagrams that are sent */
static int from;

static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	be32_t be;
	uint32_t word;

	(void)ctx, (void)src;
	assert_true(len >= word_at + sizeof(be));
	memcpy(&be, (const uint8_t *)buf + word_at, sizeof(be));
	word = be32_get(be);
	assert_true(word < WORDS);
	got[word]++;
	fake.rel_progress++; /* even of junk: it arrives, but its frame finds no room */
	port.stats.drop_full += word == JUNK;
	fake.rel_met = word == SHAKE ? __builtin_bswap32(HONEST) : 0;
}

static void on_net_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	(void)ctx, (void)dst;
	refused += e->err == ECONNREFUSED;
}

static int flood_setup(void **state)
{
	(void)state;
	memset(&room, 0, sizeof(room));
	memset(&port, 0, sizeof(port));
	memset(got, 0, sizeof(got));
	refused = 0;
	fake.rel_known = NULL;
	word_at = offsetof(struct rel_base, nonce);
	rng_seed(&node.rng, 1);
	port.node = &node;
	port.cls = LINK_ORDERED;
	port.rel = &fake_rel_of_port;
	memcpy(port.self.ip, (uint8_t[16]){[10] = 0xff, 0xff, 127, 0, 0, 1}, 16);
	assert_int_equal(udp_open(&port, &net), 0);
	net->rx = on_rx;
	net->error = on_net_error;
	from = socket(AF_INET, SOCK_DGRAM, 0);
	return 0;
}

static int flood_teardown(void **state)
{
	(void)state;
	close(from);
	net->ops->close(net);
	return 0;
}

static void say(uint32_t word, uint32_t cnt)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port.self.port)};
	uint8_t buf[64] = {0};
	be32_t be = be32_put(word);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memcpy(buf + word_at, &be, sizeof(be));
	while (cnt--)
		assert_int_equal(sendto(from, buf, sizeof(buf), 0, (struct sockaddr *)&at, sizeof(at)), sizeof(buf));
}

/* Until nothing comes for a while, so that it may also be asked of the gate. */
static void poll_all(uint64_t quiet_ns)
{
	uint64_t last = virt_ns;

	while (virt_ns - last < quiet_ns) {
		bool is_some = net->ops->poll(net, 64);

		virt_ns += 100 * NS_PER_US;
		if (is_some)
			last = virt_ns;
		else
			usleep(20); /* the kernel, too, may be late */
	}
}

/* The socket overflows, and the gate opens. */
static void overflow(void)
{
	uint64_t end = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (getsockopt(from, SOL_SOCKET, SO_MEMINFO, info, &len)) {
		print_message("this system does not count losses\n");
		skip();
	}
	say(JUNK, 20000);
	while (!port.stats.floods && clk_now_ns(NULL) < end) {
		if (!net->ops->poll(net, 64))
			say(JUNK, 20000);
	}
	assert_int_equal(port.stats.floods, 1);
}

/* No losses for so long that the gate closes. */
static void calm(void)
{
	poll_all(20 * NS_PER_MS);
	for (uint64_t until = virt_ns + 3 * NS_PER_SEC; net->ops->next_deadline(net) != CLK_NEVER;) {
		virt_ns += NS_PER_MS;
		net->ops->poll(net, 64);
		assert_true(virt_ns < until);
	}
}

/* @word is said amid a flood until it is heard, then until its sender stands: nothing of it is lost any more. */
static void gets_in(uint32_t word)
{
	uint64_t end = clk_now_ns(NULL) + 20 * NS_PER_SEC;
	uint32_t before;

	for (uint32_t run = 0; run < 10 && clk_now_ns(NULL) < end; run++) {
		before = got[word];
		while (got[word] == before && clk_now_ns(NULL) < end) {
			say(JUNK, 50);
			say(word, 1);
			net->ops->poll(net, 64);
			virt_ns += 100 * NS_PER_US;
		}
		poll_all(20 * NS_PER_MS); /* judged */
		before = got[word];
		say(JUNK, 3000); /* more than the gate has room for */
		say(word, 100);
		poll_all(20 * NS_PER_MS);
		if (got[word] == before + 100)
			return;
	}
	fail_msg("%u is not heard in full", word);
}

static void flood__peers_are_heard(void **state)
{
	uint32_t junk;

	(void)state;
	overflow();
	assert_true(net->ops->next_deadline(net) != CLK_NEVER);
	junk = got[JUNK];
	poll_all(20 * NS_PER_MS); /* the rest in the first socket is not looked at */
	assert_in_range(got[JUNK], junk, junk + 2000);
	gets_in(HONEST);
	gets_in(NEWCOMER);
	junk = got[JUNK];
	say(JUNK, 10000);
	say(HONEST, 100);
	say(NEWCOMER, 100);
	poll_all(20 * NS_PER_MS);
	assert_in_range(got[JUNK], junk, junk + 2000); /* what the gate has room for */
	assert_true(port.stats.drop_gate > 1000);
}

/* Who has shaken hands is heard at once: what a newcomer sends next need not find its way through the gate. */
static void flood__handshake_counts(void **state)
{
	uint64_t end = clk_now_ns(NULL) + 20 * NS_PER_SEC;

	(void)state;
	overflow();
	poll_all(20 * NS_PER_MS);
	while (!got[SHAKE] && clk_now_ns(NULL) < end) {
		say(JUNK, 50);
		say(SHAKE, 1);
		net->ops->poll(net, 64);
		virt_ns += 100 * NS_PER_US;
	}
	poll_all(20 * NS_PER_MS); /* judged */
	say(JUNK, 3000);	  /* more than the gate has room for */
	say(HONEST, 100);
	poll_all(20 * NS_PER_MS);
	assert_int_equal(got[HONEST], 100);
}

/* What is sealed has another word. */
static void flood__sealed(void **state)
{
	(void)state;
	room.is_sealed = true;
	word_at = offsetof(struct seal_hdr, id);
	overflow();
	gets_in(HONEST);
	assert_true(port.stats.drop_gate > 1000);
}

/* RAW has no news: there who sends what the link drops is cut, or whom nobody knows. */
static void flood__raw(void **state)
{
	(void)state;
	port.cls = LINK_RAW;
	overflow();
	poll_all(20 * NS_PER_MS);
	gets_in(HONEST);
	assert_true(port.stats.drop_gate > 1000);
}

/* Peers that the owner knows need not prove anything. */
static void flood__the_known_are_not_cut(void **state)
{
	static struct link_addr known;

	(void)state;
	known = port.self;
	fake.rel_known = &known;
	fake.rel_known_nonce = __builtin_bswap32(HONEST);
	overflow();
	poll_all(20 * NS_PER_MS);
	say(JUNK, 3000);
	say(HONEST, 100);
	poll_all(20 * NS_PER_MS);
	assert_int_equal(got[HONEST], 100);
}

static void flood__ends(void **state)
{
	uint32_t junk;

	(void)state;
	overflow();
	say(JUNK, 3000);
	calm();
	junk = got[JUNK];
	for (int i = 0; i < 10; i++) { /* nobody is asked who he is */
		say(JUNK, 100);
		poll_all(NS_PER_MS);
	}
	assert_int_equal(got[JUNK], junk + 1000);
	port.stats.floods = 0;
	overflow(); /* and again */
	gets_in(HONEST);
}

/* The gate stays in its group, and the kernel gives it ICMP errors by a hash of both addresses. */
static void flood__errors_after(void **state)
{
	struct link_addr dst = port.self;
	struct iovec iov = {"x", 1};
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t len = sizeof(at);
	int closed[40];

	(void)state;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	overflow();
	calm();
	for (uint32_t i = 0; i < ARRAY_SIZE(closed); i++) {
		uint64_t end = clk_now_ns(NULL) + 10 * NS_PER_SEC;

		at.sin_port = 0;
		closed[i] = socket(AF_INET, SOCK_DGRAM, 0);
		assert_int_equal(bind(closed[i], (struct sockaddr *)&at, sizeof(at)), 0);
		assert_int_equal(getsockname(closed[i], (struct sockaddr *)&at, &len), 0);
		close(closed[i]);
		dst.port = ntohs(at.sin_port);
		assert_int_equal(net->ops->send(net, &dst, &iov, 1), 0);
		net->ops->flush(net);
		while (refused <= i && clk_now_ns(NULL) < end)
			poll_all(NS_PER_MS);
		assert_int_equal(refused, i + 1);
	}
}

/* Without a second socket all is as it was: what fits is heard. */
static void flood__no_descriptor(void **state)
{
	struct rlimit was, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	say(JUNK, 20000);
	poll_all(20 * NS_PER_MS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(port.stats.floods, 0);
	assert_true(net->ops->next_deadline(net) == CLK_NEVER);
	say(HONEST, 100);
	poll_all(20 * NS_PER_MS);
	assert_int_equal(got[HONEST], 100);
}

#define G_(fn_) cmocka_unit_test_setup(fn_, gate_setup)
#define T_(fn_) cmocka_unit_test_setup_teardown(fn_, flood_setup, flood_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		G_(stands__who_brings_news),
		G_(stands__not_who_sends_in_vain),
		G_(stands__again),
		G_(stands__again_after_a_while),
		G_(stands__strangers_take_no_place),
		G_(stands__a_crowd),
		G_(stands__known),
		G_(prog__v4),
		G_(prog__v6),
		T_(flood__peers_are_heard),
		T_(flood__handshake_counts),
		T_(flood__sealed),
		T_(flood__raw),
		T_(flood__the_known_are_not_cut),
		T_(flood__ends),
		T_(flood__errors_after),
		T_(flood__no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
