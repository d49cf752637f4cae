// SPDX-License-Identifier: BSD-2-Clause
// Unit tests of link/net/udp.c: two carriers on loopback, trains, refusals, and errors that the kernel
// is made to report.
#include "unit.h"

#include <errno.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "link/core/link_int.h"
#include "link_fake.h"

/* Errors for the next calls of sendmmsg() and sendto(), in order; 0 = really send. */
static int inject[8], inject_at;
static int send_calls;
static int forge_cnt; /* so many of these calls meet a forged ICMP error each */

static void forge(uint8_t code);

/* Return: whether the call is to fail; errno says how. */
static bool is_failing(void)
{
	int err = inject_at < (int)ARRAY_SIZE(inject) ? inject[inject_at++] : 0;

	send_calls++;
	if (forge_cnt) {
		forge_cnt--;
		forge(4);
	}
	errno = err;
	return err;
}

static int test_sendmmsg(int fd, struct mmsghdr *msg, unsigned cnt, int flags)
{
	return is_failing() ? -1 : sendmmsg(fd, msg, cnt, flags);
}

static ssize_t test_sendto(int fd, const void *buf, size_t len, int flags, const void *name, socklen_t name_len)
{
	return is_failing() ? -1 : sendto(fd, buf, len, flags, name, name_len);
}

#define sendmmsg test_sendmmsg
#define sendto	 test_sendto
#include "../../src/link/net/udp.c"
#undef sendmmsg
#undef sendto

#define GOT_MAX 4096

/* One end: what it received, and whom it was told to be refused by. */
struct end {
	struct link_port p;
	struct carrier *c;
	uint32_t got, bytes, refused, too_big, path_mtu;
	uint8_t quote[CARRIER_QUOTE_MAX];
	size_t quote_len;
	uint32_t first_word[GOT_MAX], len[GOT_MAX];
	struct link_addr src, refused_dst;
};

static struct link_room room;
static struct link_node node = {.room = &room};
static struct end a, b;

static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	struct end *e = ctx;

	e->src = *src;
	if (e->got < GOT_MAX) {
		memcpy(&e->first_word[e->got], buf, MIN(len, sizeof(uint32_t)));
		e->len[e->got] = (uint32_t)len;
	}
	e->got++;
	e->bytes += (uint32_t)len;
}

static void on_carrier_error(void *ctx, const struct link_addr *dst, const struct carrier_error *err)
{
	struct end *e = ctx;

	if (err->err == EMSGSIZE) {
		e->too_big++;
		e->path_mtu = err->mtu;
	} else {
		assert_int_equal(err->err, ECONNREFUSED);
		e->refused++;
	}
	e->refused_dst = *dst;
	e->quote_len = err->quote_len;
	memcpy(e->quote, err->quote, err->quote_len);
}

static void set_ip(struct link_port *p, const char *text)
{
	memset(&p->self, 0, sizeof(p->self));
	if (inet_pton(AF_INET6, text, p->self.ip) != 1)
		fail_msg("bad address %s", text);
}

static void end_open(struct end *e, const char *ip)
{
	memset(e, 0, sizeof(*e));
	e->p.node = &node;
	set_ip(&e->p, ip);
	assert_int_equal(udp_open(&e->p, &e->c), 0);
	e->c->rx = on_rx;
	e->c->error = on_carrier_error;
	e->c->rx_ctx = e;
}

static int setup(void **state)
{
	(void)state;
	memset(&room, 0, sizeof(room));
	memset(inject, 0, sizeof(inject));
	inject_at = send_calls = forge_cnt = 0;
	end_open(&a, "::ffff:127.0.0.1");
	end_open(&b, "::ffff:127.0.0.1");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	a.c->ops->close(a.c);
	b.c->ops->close(b.c);
	return 0;
}

/* A number, then @len - 4 bytes of payload at @body. */
static int send_num(uint32_t num, const void *body, size_t len)
{
	struct iovec iov[2] = {{&num, sizeof(num)}, {(void *)(uintptr_t)body, len - sizeof(num)}};

	return a.c->ops->send(a.c, &b.p.self, iov, 2);
}

static void flush(void)
{
	a.c->ops->flush(a.c);
}

/* Polls @e until @want have arrived or two seconds have passed. */
static void await(struct end *e, uint32_t want)
{
	uint64_t end = clk_now_ns(NULL) + 2 * NS_PER_SEC * unit_slow();

	while (e->got < want && clk_now_ns(NULL) < end)
		e->c->ops->poll(e->c, 64);
	assert_int_equal(e->got, want);
}

static uint8_t body[65536];

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void udp_send__arrives_with_kernels_source(void **state)
{
	(void)state;
	assert_true(a.p.self.port && b.p.self.port && a.p.self.port != b.p.self.port);
	assert_int_equal(send_num(7, body, 100), 0);
	assert_int_equal(b.c->ops->poll(b.c, 64), 0); /* not before flush */
	flush();
	await(&b, 1);
	assert_int_equal(b.first_word[0], 7);
	assert_int_equal(b.len[0], 100);
	assert_memory_equal(b.src.ip, a.p.self.ip, 16);
	assert_int_equal(b.src.port, a.p.self.port);
	assert_int_equal(b.src.nonce, 0);
	assert_int_equal(a.p.stats.net_tx_dgrams, 1);
	assert_int_equal(a.p.stats.net_tx_bytes, 100);
	assert_int_equal(b.p.stats.net_rx_dgrams, 1);
	assert_int_equal(b.p.stats.net_rx_bytes, 100);
	assert_int_equal(b.c->ops->poll(b.c, 64), 0);
}

static void udp_send__copies_header_not_payload(void **state)
{
	uint8_t hdr[4] = {1, 1, 1, 1}, pay[200] = {0};
	struct iovec iov[2] = {{hdr, sizeof(hdr)}, {pay, sizeof(pay)}};
	uint32_t want;

	(void)state;
	assert_int_equal(a.c->ops->send(a.c, &b.p.self, iov, 2), 0);
	memcpy(&want, hdr, 4);
	memset(hdr, 9, sizeof(hdr));
	flush();
	await(&b, 1);
	assert_int_equal(b.first_word[0], want);
}

static void train_of(uint32_t cnt, uint32_t len, uint32_t last_len)
{
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(send_num(i, body, i == cnt - 1 ? last_len : len), 0);
	flush();
	await(&b, cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(b.first_word[i], i);
		assert_int_equal(b.len[i], i == cnt - 1 ? last_len : len);
	}
	assert_int_equal(a.p.stats.net_tx_dgrams, cnt);
	assert_int_equal(b.p.stats.net_rx_dgrams, cnt);
}

static void udp_flush__train_of_44(void **state)
{
	(void)state;
	if (!to_udp(a.c)->has_trains) {
		print_message("no UDP_SEGMENT in this kernel\n");
		skip();
	}
	train_of(44, 1472, 1472);
	assert_int_equal(send_calls, 1);
	assert_int_equal(to_udp(a.c)->tx.first[1], 44); /* one message held them all */
	assert_true(to_udp(a.c)->has_trains);
}

static void udp_flush__last_is_shorter(void **state)
{
	(void)state;
	train_of(20, 1472, 77);
}

static void udp_flush__without_trains(void **state)
{
	(void)state;
	to_udp(a.c)->has_trains = false;
	train_of(44, 1472, 1472);
	assert_int_equal(send_calls, 1); /* but 44 messages */
}

static void udp_flush__train_fails_at_run_time(void **state)
{
	(void)state;
	to_udp(a.c)->has_trains = true;
	inject[0] = inject[1] = EIO; /* the first may be of something else */
	train_of(30, 1472, 500);
	assert_false(to_udp(a.c)->has_trains);
	assert_int_equal(send_calls, 3);
}

static void udp_flush__mixed_sizes_and_destinations(void **state)
{
	static const uint32_t len[] = {100, 100, 200, 200, 50, 50, 61440, 8, 8};
	uint32_t to_a = 0;

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(len); i++) {
		struct iovec iov = {&i, sizeof(i)};

		assert_int_equal(send_num(i, body, len[i]), 0);
		if (i % 3 == 1) {
			assert_int_equal(a.c->ops->send(a.c, &a.p.self, &iov, 1), 0);
			to_a++;
		}
	}
	flush();
	await(&b, ARRAY_SIZE(len));
	for (uint32_t i = 0; i < ARRAY_SIZE(len); i++) {
		assert_int_equal(b.first_word[i], i);
		assert_int_equal(b.len[i], len[i]);
	}
	await(&a, to_a);
}

static void udp_send__flushes_when_full(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < TX_DGRAMS; i++)
		assert_int_equal(send_num(i, body, 64), 0);
	assert_int_equal(send_calls, 0);
	assert_int_equal(send_num(TX_DGRAMS, body, 64), 0);
	assert_true(send_calls > 0);
	flush();
	await(&b, TX_DGRAMS + 1);
}

static void udp_flush__socket_buffer_full(void **state)
{
	(void)state;
	assert_int_equal(send_num(1, body, 64), 0);
	assert_int_equal(send_num(2, body, 64), 0);
	inject[0] = EAGAIN;
	flush();
	assert_int_equal(a.p.stats.drop_full, 2);
	assert_true(to_udp(a.c)->is_full);
	/* the socket is writable after all, so sending goes on */
	assert_int_equal(send_num(3, body, 64), 0);
	flush();
	await(&b, 1);
	assert_int_equal(b.first_word[0], 3);
}

static void udp_flush__too_big_for_path(void **state)
{
	uint32_t before = a.c->ops->mtu(a.c, &b.p.self);

	(void)state;
	assert_int_equal(before, UDP_MTU_LOOP);
	to_udp(a.c)->has_trains = false;
	assert_int_equal(send_num(1, body, 9000), 0);
	assert_int_equal(send_num(2, body, 100), 0);
	inject[0] = inject[1] = EMSGSIZE; /* the first may be of something else */
	flush();
	assert_int_equal(a.c->ops->mtu(a.c, &b.p.self), 4500);
	await(&b, 2); /* it went in fragments, the one behind it as ever */
	assert_int_equal(b.first_word[0], 1);
	assert_int_equal(b.first_word[1], 2);
}

static void udp_poll__refused_port(void **state)
{
	struct link_addr dst = b.p.self;
	uint64_t end = clk_now_ns(NULL) + 2 * NS_PER_SEC * unit_slow();
	uint32_t num = 1;
	struct iovec iov = {&num, sizeof(num)};
	struct end closed;

	(void)state;
	end_open(&closed, "::ffff:127.0.0.1");
	dst = closed.p.self;
	dst.nonce = 77;
	closed.c->ops->close(closed.c);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(a.c->ops->send(a.c, &dst, &iov, 1), 0);
		assert_int_equal(send_num(100 + (uint32_t)i, body, 50),
				 0); /* others are not hurt */
		flush();
	}
	assert_int_equal(a.refused, 0); /* only from poll */
	while (!a.refused && clk_now_ns(NULL) < end)
		a.c->ops->poll(a.c, 64);
	assert_true(a.refused >= 1 && a.refused <= 20);
	assert_memory_equal(a.refused_dst.ip, dst.ip, 16);
	assert_int_equal(a.refused_dst.port, dst.port);
	assert_int_equal(a.refused_dst.nonce, 0);
	assert_int_equal(a.quote_len, sizeof(num)); /* what was sent, as far as the error quotes it */
	assert_memory_equal(a.quote, &num, sizeof(num));
	await(&b, 20);
}

/*
 * Makes up an ICMP error "unreachable" of @code that says that @a sent @b 9000 bytes, and waits until it has come.
 * Skips the test where it may not.
 */
static void forge(uint8_t code)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	struct pollfd pfd = {.fd = to_udp(a.c)->fd};
	uint8_t icmp[8 + 20 + 8 + 32] = {3, code};
	uint32_t sum = 0;

	if (fd < 0) {
		print_message("no raw sockets: %s\n", strerror(errno));
		skip();
	}
	put16(icmp + 6, 600);
	icmp[8] = 0x45;
	put16(icmp + 8 + 2, 20 + 8 + 9000);
	icmp[8 + 8] = 64, icmp[8 + 9] = IPPROTO_UDP;
	memcpy(icmp + 8 + 12, &to.sin_addr, 4);
	memcpy(icmp + 8 + 16, &to.sin_addr, 4);
	put16(icmp + 28, a.p.self.port);
	put16(icmp + 30, b.p.self.port);
	put16(icmp + 32, 8 + 9000);
	memset(icmp + 36, 0x5a, 32);
	for (size_t i = 0; i < sizeof(icmp); i += 2)
		sum += (uint32_t)icmp[i] << 8 | icmp[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	put16(icmp + 2, ~(sum + (sum >> 16)));
	assert_int_equal(sendto(fd, icmp, sizeof(icmp), 0, (struct sockaddr *)&to, sizeof(to)), sizeof(icmp));
	close(fd);
	assert_int_equal(poll(&pfd, 1, 2000), 1);
	assert_int_equal(pfd.revents & POLLERR, POLLERR);
}

/* Sends @cnt datagrams of different lengths, which are no train, and polls once. Return: how many that poll found. */
static int poll_of(uint32_t cnt)
{
	for (uint32_t k = 0; k < cnt; k++) {
		send_num(k, body, 100 + k);
		flush();
	}
	return b.c->ops->poll(b.c, 64);
}

/*
 * Where datagrams have come alone for some time, the system is not asked for a second one before the first is seen;
 * where they have come together, it is.
 */
static void udp_poll__alone_or_together(void **state)
{
	uint32_t before = b.got;

	(void)state;
	assert_int_equal(poll_of(3), 3);
	assert_int_equal(poll_of(0), 0);
	for (uint32_t i = 0; i < 16; i++) {
		assert_int_equal(poll_of(1), 1);
		assert_int_equal(poll_of(0), 0);
	}
	assert_int_equal(poll_of(3), 1);
	assert_int_equal(poll_of(0), 2); /* behind one that was there it asks for all */
	assert_int_equal(poll_of(0), 0);
	assert_int_equal(poll_of(3), 3);
	assert_int_equal(poll_of(0), 0);
	assert_int_equal(b.got, before + 25);
}

/*
 * Who may make ICMP errors up: "too big" with any bytes quoted lowers nothing here; it is shown with them to those who
 * can judge, and datagrams go on at full length, whatever the system has noted of the path.
 */
static void udp_poll__forged_too_big(void **state)
{
	uint64_t end = clk_now_ns(NULL) + 2 * NS_PER_SEC * unit_slow();

	(void)state;
	forge(4);
	while (!a.too_big && clk_now_ns(NULL) < end)
		a.c->ops->poll(a.c, 64);
	assert_int_equal(a.too_big, 1);
	assert_int_equal(a.path_mtu, 600 - 28);
	assert_int_equal(a.quote_len, 32);
	assert_int_equal(a.quote[31], 0x5a);
	assert_int_equal(a.c->ops->mtu(a.c, &b.p.self), UDP_MTU_LOOP);
	assert_int_equal(send_num(1, body, 9000), 0);
	flush();
	await(&b, 1);
	assert_int_equal(b.len[0], 9000);
}

/* Ten datagrams leave as they ever do although an error stands at the socket that is not about them. */
static void unhurt(bool had_trains)
{
	b.got = 0;
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(send_num(i, body, 1400), 0);
	flush();
	await(&b, 10);
	assert_int_equal(a.c->ops->mtu(a.c, &b.p.self), UDP_MTU_LOOP);
	assert_int_equal(to_udp(a.c)->has_trains, had_trains);
}

/* The forged error meets a flush, not a poll. Every code that the system knows. */
static void udp_flush__forged(void **state)
{
	bool had_trains = to_udp(a.c)->has_trains;
	struct link_addr cut = b.p.self;
	struct iovec iov = {body, 9000};

	(void)state;
	cut.flags = LINK_ADDR_CUT;
	for (uint8_t code = 0; code <= 15; code++) {
		forge(code);
		unhurt(had_trains);
	}
	forge_cnt = 10; /* again and again */
	unhurt(had_trains);
	forge(4);
	b.got = 0;
	assert_int_equal(a.c->ops->send(a.c, &cut, &iov, 1), 0);
	flush();
	await(&b, 1);
}

/* The same while the socket's receive buffer is full: then the system notes no details. */
static void udp_flush__forged_unnoted(void **state)
{
	bool had_trains = to_udp(a.c)->has_trains;
	struct sockaddr_in6 to;
	socklen_t to_len = udp_name_of(&a.p.self, &to);
	int fd = to_udp(a.c)->fd, len = 1;
	uint8_t byte;

	(void)state;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len)), 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(sendto(to_udp(b.c)->fd, body, 64, 0, (struct sockaddr *)&to, to_len), 64);
	for (uint8_t code = 0; code <= 15; code++) {
		forge(code);
		assert_int_equal(recv(fd, &byte, 1, MSG_ERRQUEUE | MSG_DONTWAIT), -1);
		unhurt(had_trains);
	}
}

/* A datagram that may be cut up, between others that may not. */
static void udp_flush__may_be_cut(void **state)
{
	struct link_addr cut = b.p.self;
	uint32_t num = 2;
	struct iovec iov[2] = {{&num, sizeof(num)}, {body, 8996}};

	(void)state;
	cut.flags = LINK_ADDR_CUT;
	assert_int_equal(send_num(1, body, 9000), 0);
	assert_int_equal(a.c->ops->send(a.c, &cut, iov, 2), 0);
	assert_int_equal(send_num(3, body, 9000), 0);
	flush();
	await(&b, 3);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(b.first_word[i], i + 1);
		assert_int_equal(b.len[i], 9000);
	}
	assert_int_equal(a.p.stats.net_tx_dgrams, 3);
}

/* Only the interface speaks for the whole port, and not for ever. */
static void udp_mtu__is_tried_again(void **state)
{
	(void)state;
	mtu_lower(to_udp(a.c), 3000);
	assert_int_equal(a.c->ops->mtu(a.c, &b.p.self), 3000);
	to_udp(a.c)->mtu_ns -= MTU_AGAIN_NS + 1;
	assert_int_equal(a.c->ops->mtu(a.c, &b.p.self), UDP_MTU_LOOP);
}

/*
 * In a network of its own whose interface takes less than the least that we make. Return: 0; 77 not allowed; 1 + how
 * many arrived.
 */
static int narrow_run(uint32_t len)
{
	struct ifreq req = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return 77;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	req.ifr_flags = IFF_UP;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req))
		return 77;
	req.ifr_mtu = 400;
	if (ioctl(fd, SIOCSIFMTU, &req))
		return 77;
	end_open(&a, "::ffff:127.0.0.1");
	end_open(&b, "::ffff:127.0.0.1");
	for (uint32_t round = 0; round < 3; round++) {
		uint64_t end = clk_now_ns(NULL) + 2 * NS_PER_SEC * unit_slow();

		for (uint32_t i = 0; i < 20; i++)
			send_num(i, body, len);
		flush();
		while (b.got < 20 * (round + 1) && clk_now_ns(NULL) < end)
			b.c->ops->poll(b.c, 64);
	}
	return b.got == 60 ? 0 : 1 + (int)b.got;
}

static void udp_flush__narrow_interface(void **state)
{
	for (uint32_t len = 200; len < 600; len += 174) { /* whole, and in two pieces */
		pid_t pid = unit_fork();
		int status;

		if (!pid)
			_exit(narrow_run(len));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77) {
			print_message("needs the right to make a network namespace\n");
			skip();
		}
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void udp_mtu__of_room(void **state)
{
	struct end e;

	(void)state;
	room.mtu = 1000;
	end_open(&e, "::ffff:127.0.0.1");
	assert_int_equal(e.c->ops->mtu(e.c, &b.p.self), 1000);
	e.c->ops->close(e.c);
}

static void udp_send__impossible(void **state)
{
	struct link_addr v6 = {.ip = {[15] = 1}, .port = 9};
	struct iovec iov = {body, sizeof(body)}, small = {body, 8};

	(void)state;
	assert_int_equal(a.c->ops->send(a.c, &v6, &small, 1), -ENETUNREACH);
	assert_int_equal(a.c->ops->send(a.c, &b.p.self, &iov, 1), 0); /* 64 KiB: lost, silently */
	flush();
	assert_int_equal(send_num(5, body, 8), 0);
	flush();
	await(&b, 1);
}

static void udp_open__errors(void **state)
{
	struct link_port p = {.node = &node};
	struct carrier *c;

	(void)state;
	p.self = b.p.self;
	assert_int_equal(udp_open(&p, &c), -EADDRINUSE);
	set_ip(&p, "::ffff:203.0.113.77");
	assert_int_equal(udp_open(&p, &c), -EADDRNOTAVAIL);
	mem_fail_nth(1);
	set_ip(&p, "::ffff:127.0.0.1");
	assert_int_equal(udp_open(&p, &c), -ENOMEM);
}

static void udp_open__close_on_exec(void **state)
{
	(void)state;
	assert_true(fcntl(a.c->ops->fd(a.c), F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(a.c->ops->fd(a.c), F_GETFL) & O_NONBLOCK);
}

static void udp_send__ipv6(void **state)
{
	struct link_port probe = {.node = &node};
	struct end e, f;
	struct carrier *c;
	uint32_t num = 3;
	struct iovec iov[2] = {{&num, sizeof(num)}, {body, 996}};

	(void)state;
	set_ip(&probe, "::1");
	if (udp_open(&probe, &c)) {
		print_message("no IPv6 on this host\n");
		skip();
	}
	c->ops->close(c);
	end_open(&e, "::1");
	end_open(&f, "::1");
	for (int i = 0; i < 10; i++)
		assert_int_equal(e.c->ops->send(e.c, &f.p.self, iov, 2), 0);
	assert_int_equal(e.c->ops->send(e.c, &b.p.self, iov, 2), -ENETUNREACH);
	e.c->ops->flush(e.c);
	await(&f, 10);
	assert_int_equal(f.len[9], 1000);
	assert_memory_equal(f.src.ip, e.p.self.ip, 16);
	assert_int_equal(f.src.port, e.p.self.port);
	f.c->ops->close(f.c);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(e.c->ops->send(e.c, &f.p.self, iov, 2), 0);
		e.c->ops->flush(e.c);
	}
	e.c->ops->poll(e.c, 64);
	assert_true(e.refused >= 1);
	assert_int_equal(e.refused_dst.port, f.p.self.port);
	e.c->ops->close(e.c);
}

#define T_(fn_) cmocka_unit_test_setup_teardown(fn_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T_(udp_send__arrives_with_kernels_source),
		T_(udp_send__copies_header_not_payload),
		T_(udp_flush__train_of_44),
		T_(udp_flush__last_is_shorter),
		T_(udp_flush__without_trains),
		T_(udp_flush__train_fails_at_run_time),
		T_(udp_flush__mixed_sizes_and_destinations),
		T_(udp_send__flushes_when_full),
		T_(udp_flush__socket_buffer_full),
		T_(udp_flush__too_big_for_path),
		T_(udp_poll__refused_port),
		T_(udp_poll__alone_or_together),
		T_(udp_poll__forged_too_big),
		T_(udp_flush__forged),
		T_(udp_flush__forged_unnoted),
		T_(udp_flush__may_be_cut),
		T_(udp_mtu__is_tried_again),
		T_(udp_flush__narrow_interface),
		T_(udp_mtu__of_room),
		T_(udp_send__impossible),
		T_(udp_open__errors),
		T_(udp_open__close_on_exec),
		T_(udp_send__ipv6),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
