// SPDX-License-Identifier: BSD-2-Clause
// Tests of link/net/seal.c: one vector, everything that must be refused, key files, and the carrier over UDP.
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "link/core/link_int.h"
#include "link/net/seal.h"
#include "link/net/udp_sock.h"

#define BODY 100u

static uint8_t key[SEAL_KEY_LEN], other_key[SEAL_KEY_LEN];
static struct link_addr a_addr, b_addr;

#ifdef SF_HAS_SODIUM
#define NEEDS_CIPHERS() (void)0
#else
#define NEEDS_CIPHERS() skip()
#endif

static struct link_addr addr_of(const char *text, uint16_t port)
{
	struct link_addr a = {.port = port};

	assert_int_equal(inet_pton(AF_INET6, text, a.ip), 1);
	return a;
}

static int setup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SEAL_KEY_LEN; i++) {
		key[i] = (uint8_t)i;
		other_key[i] = (uint8_t)(i ^ 1);
	}
	a_addr = addr_of("::ffff:192.0.2.1", 1000);
	b_addr = addr_of("::ffff:192.0.2.2", 2000);
	return 0;
}

static void tx_open(struct seal_tx *tx, enum seal_mode mode, uint8_t id_byte)
{
	uint8_t id[SEAL_ID_LEN];

	memset(id, id_byte, sizeof(id));
	seal_tx_init(tx, key, mode, id);
}

static size_t make(struct seal_tx *tx, uint8_t *out, size_t len)
{
	for (size_t i = 0; i < len; i++)
		out[SEAL_OVERHEAD + i] = (uint8_t)(i * 7);
	seal_make(tx, &a_addr, &b_addr, out, len);
	return SEAL_OVERHEAD + len;
}

static const enum seal_mode modes[] = {SEAL_CLEAR, SEAL_SECRET};

/* --- the format ---------------------------------------------------------------------------------- */

/*
 * Key 00 01 .. 1f, id of 14 bytes 5a, count 258, from 192.0.2.1:1000 to 192.0.2.2:2000, datagram "softfabric". Computed
 * by a program of its own, of the algorithms' definitions (RFC 7693, RFC 8439, draft-irtf-cfrg-xchacha).
 */
static const struct {
	enum seal_mode mode;
	const char *hex;
} vector[] = {
	{SEAL_CLEAR,
	 "b7115a5a5a5a5a5a5a5a5a5a5a5a5a5a0201000000000000355dff35605189f7dd7b20df13be4c16736f6674666162726963"},
	{SEAL_SECRET,
	 "b7125a5a5a5a5a5a5a5a5a5a5a5a5a5a0201000000000000a1e0c27c51ed8366104e81a24b86d60427a35ddfbcc7f9dd5a0d"},
};

static void seal_make__vectors(void **state)
{
	(void)state;
	NEEDS_CIPHERS();
	for (size_t v = 0; v < ARRAY_SIZE(vector); v++) {
		uint8_t out[SEAL_OVERHEAD + 10], plain[64];
		char hex[2 * sizeof(out) + 1];
		struct seal_rx rx;
		struct seal_tx tx;

		tx_open(&tx, vector[v].mode, 0x5a);
		tx.count = 258;
		memcpy(out + SEAL_OVERHEAD, "softfabric", 10);
		seal_make(&tx, &a_addr, &b_addr, out, 10);
		for (size_t i = 0; i < sizeof(out); i++)
			snprintf(hex + 2 * i, 3, "%02x", out[i]);
		assert_string_equal(hex, vector[v].hex);
		seal_rx_init(&rx, key, vector[v].mode);
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, out, sizeof(out), plain), SEAL_OK);
		assert_memory_equal(vector[v].mode == SEAL_SECRET ? plain : out + SEAL_OVERHEAD, "softfabric", 10);
		seal_rx_fini(&rx);
	}
}

static void seal_check__every_bit_and_every_length(void **state)
{
	uint8_t buf[SEAL_OVERHEAD + BODY], plain[BODY];

	(void)state;
	NEEDS_CIPHERS();
	for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
		struct seal_rx rx;
		struct seal_tx tx;
		size_t len;

		tx_open(&tx, modes[m], 1);
		seal_rx_init(&rx, key, modes[m]);
		for (int known = 0; known < 2; known++) { /* of a sender that is new, and of one that is known */
			len = make(&tx, buf, BODY);
			for (size_t bit = 0; bit < 8 * len; bit++) {
				buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
				assert_int_not_equal(seal_check(&rx, &a_addr, &b_addr, buf, len, plain), SEAL_OK);
				buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
			}
			for (size_t cut = 0; cut < len; cut++)
				assert_int_not_equal(seal_check(&rx, &a_addr, &b_addr, buf, cut, plain), SEAL_OK);
			assert_int_equal(rx.cnt, known); /* nobody gets into the table by a forgery */
			assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, len, plain), SEAL_OK);
			assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, len, plain), SEAL_REPLAYED);
			assert_memory_equal(modes[m] == SEAL_SECRET ? plain + 1 : buf + SEAL_OVERHEAD + 1, "\7\16\25",
					    3);
		}
		len = make(&tx, buf, 0);
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, len, plain), SEAL_OK);
		seal_rx_fini(&rx);
	}
}

static void seal_check__whose_and_whither(void **state)
{
	uint8_t buf[SEAL_OVERHEAD + BODY], plain[BODY];
	struct link_addr c = b_addr;

	(void)state;
	NEEDS_CIPHERS();
	c.port++;
	for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
		struct seal_rx rx, wrong, mode;
		struct seal_tx tx;
		size_t len;

		tx_open(&tx, modes[m], 2);
		seal_rx_init(&rx, key, modes[m]);
		seal_rx_init(&wrong, other_key, modes[m]);
		seal_rx_init(&mode, key, modes[!m]);
		len = make(&tx, buf, BODY);
		assert_int_equal(seal_check(&wrong, &a_addr, &b_addr, buf, len, plain), SEAL_FORGED);
		assert_int_equal(seal_check(&mode, &a_addr, &b_addr, buf, len, plain), SEAL_MODE);
		buf[1] = (uint8_t)modes[!m];
		assert_int_equal(seal_check(&mode, &a_addr, &b_addr, buf, len, plain), SEAL_FORGED);
		buf[1] = (uint8_t)modes[m];
		assert_int_equal(seal_check(&rx, &b_addr, &a_addr, buf, len, plain), SEAL_FORGED); /* sent back */
		assert_int_equal(seal_check(&rx, &a_addr, &c, buf, len, plain), SEAL_FORGED);
		assert_int_equal(seal_check(&rx, &c, &b_addr, buf, len, plain), SEAL_FORGED);
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf + SEAL_OVERHEAD, BODY, plain), SEAL_UNSEALED);
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, len, plain), SEAL_OK);
		seal_rx_fini(&rx);
		seal_rx_fini(&wrong);
		seal_rx_fini(&mode);
	}
}

/*
 * Two ports, and two lives of one, never use one number: the first bytes of what they send differ, and so does all the
 * rest of it.
 */
static void seal_make__numbers_differ(void **state)
{
	uint8_t one[SEAL_OVERHEAD + 4], two[SEAL_OVERHEAD + 4];
	struct seal_tx tx;

	(void)state;
	NEEDS_CIPHERS();
	tx_open(&tx, SEAL_SECRET, 3);
	make(&tx, one, 4);
	make(&tx, two, 4);
	assert_memory_not_equal(one, two, offsetof(struct seal_hdr, tag));
	assert_memory_not_equal(one + SEAL_OVERHEAD, two + SEAL_OVERHEAD, 4);
}

/* --- each once ----------------------------------------------------------------------------------- */

static void seal_check__late_ones_and_repeats(void **state)
{
	static uint8_t buf[3000][SEAL_OVERHEAD + 1];
	struct rng r = unit_rng();
	uint32_t order[3000];
	uint8_t plain[1];
	struct seal_rx rx;
	struct seal_tx tx;

	(void)state;
	NEEDS_CIPHERS();
	tx_open(&tx, SEAL_CLEAR, 4);
	seal_rx_init(&rx, key, SEAL_CLEAR);
	for (uint32_t i = 0; i < 3000; i++) {
		make(&tx, buf[i], 1);
		order[i] = i;
	}
	for (uint32_t i = 0; i + 500 < 3000; i += 500) { /* within the window any order will do */
		for (uint32_t k = 0; k < 500; k++) {
			uint32_t at = i + rng_below(&r, 500), was = order[i + k];

			order[i + k] = order[at];
			order[at] = was;
		}
	}
	for (uint32_t i = 0; i < 3000; i++) {
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf[order[i]], sizeof(buf[0]), plain), SEAL_OK);
		assert_int_equal(
			seal_check(&rx, &a_addr, &b_addr, buf[order[rng_below(&r, i + 1)]], sizeof(buf[0]), plain),
			SEAL_REPLAYED);
	}
	seal_rx_fini(&rx);
}

/* More senders than are remembered: all are heard, the last ones once, and the table keeps its bound. */
static void seal_check__many_senders(void **state)
{
	uint8_t buf[SEAL_OVERHEAD + 1], plain[1], id[SEAL_ID_LEN];
	struct rng r = unit_rng();
	struct seal_rx rx;
	struct seal_tx tx;

	(void)state;
	NEEDS_CIPHERS();
	seal_rx_init(&rx, key, SEAL_CLEAR);
	for (uint32_t i = 0; i < SEAL_SENDERS + SEAL_SENDERS / 4; i++) {
		for (size_t k = 0; k < sizeof(id); k++)
			id[k] = (uint8_t)rng_u64(&r);
		seal_tx_init(&tx, key, SEAL_CLEAR, id);
		make(&tx, buf, 1);
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, sizeof(buf), plain), SEAL_OK);
		assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, sizeof(buf), plain), SEAL_REPLAYED);
		assert_true(rx.set_cnt * SEAL_WAYS <= SEAL_SENDERS);
	}
	assert_true(rx.cnt > SEAL_SENDERS / 2);
	seal_rx_fini(&rx);
}

static void seal_check__no_memory(void **state)
{
	uint8_t buf[SEAL_OVERHEAD + 1], plain[1];
	struct seal_rx rx;
	struct seal_tx tx;

	(void)state;
	NEEDS_CIPHERS();
	tx_open(&tx, SEAL_CLEAR, 5);
	seal_rx_init(&rx, key, SEAL_CLEAR);
	make(&tx, buf, 1);
	mem_fail_nth(1);
	assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, sizeof(buf), plain), SEAL_NOMEM);
	mem_fail_nth(0);
	assert_int_equal(seal_check(&rx, &a_addr, &b_addr, buf, sizeof(buf), plain), SEAL_OK);
	seal_rx_fini(&rx);
}

/* --- key files ----------------------------------------------------------------------------------- */

static char dir[] = "/tmp/test_seal.XXXXXX";
static char path[sizeof(dir) + 8];

static void file_write(size_t len, mode_t mode)
{
	static const uint8_t zero[SEAL_FILE_MAX + 1];
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, zero, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void must_refuse(const char *name, const char *why)
{
	uint8_t out[SEAL_KEY_LEN];
	char err[256];

	assert_int_equal(seal_key_load(name, out, err, sizeof(err)), -EINVAL);
	if (!strstr(err, why) || !strstr(err, "SOFTFABRIC_NET: key="))
		fail_msg("\"%s\" does not say \"%s\"", err, why);
}

static void seal_key_load__files(void **state)
{
	uint8_t one[SEAL_KEY_LEN], two[SEAL_KEY_LEN];
	char err[256];

	(void)state;
	NEEDS_CIPHERS();
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/key", dir);
	must_refuse(path, "No such file");
	must_refuse(dir, "regular");
	assert_int_equal(mkfifo(path, 0600), 0);
	must_refuse(path, "regular"); /* and does not wait for a writer */
	file_write(SEAL_FILE_MIN - 1, 0600);
	must_refuse(path, "16 to 4096");
	file_write(SEAL_FILE_MAX + 1, 0600);
	must_refuse(path, "16 to 4096");
	for (mode_t bit = 1; bit <= 040; bit <<= 1) {
		file_write(32, 0600 | bit);
		must_refuse(path, "chmod 600");
	}
	file_write(32, 0600);
	if (!chown(path, 65534, (gid_t)-1)) {
		must_refuse(path, "another user");
		assert_int_equal(chown(path, 0, (gid_t)-1), 0);
	}
	assert_int_equal(seal_key_load(path, one, err, sizeof(err)), 0);
	file_write(33, 0400);
	assert_int_equal(seal_key_load(path, two, err, sizeof(err)), 0);
	assert_memory_not_equal(one, two, SEAL_KEY_LEN);
	unlink(path);
	rmdir(dir);
}

/* --- the carrier --------------------------------------------------------------------------------- */

struct end {
	struct link_port p;
	struct carrier *c;
	uint32_t got, bad;
	size_t bytes;
};

static struct link_room sealed, secret, clear;
static struct link_node node[3] = {{.room = &sealed}, {.room = &secret}, {.room = &clear}};

/* Byte i of a datagram that begins with n is n + i. */
static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	struct end *e = ctx;

	(void)src;
	e->got++;
	e->bytes += len;
	for (size_t i = 1; i < len; i++)
		e->bad += p[i] != (uint8_t)(p[0] + i);
}

static void end_open(struct end *e, struct link_node *n)
{
	memset(e, 0, sizeof(*e));
	n->owner_pid = getpid();
	e->p.node = n;
	e->p.self = addr_of("::ffff:127.0.0.1", 0);
	assert_int_equal(udp_open(&e->p, &e->c), 0);
	if (n->room->is_sealed)
		assert_int_equal(seal_open(&e->p, e->c, &e->c), 0);
	e->c->rx = on_rx;
	e->c->rx_ctx = e;
}

static void say(struct end *from, struct end *to, uint8_t n, size_t len)
{
	static uint8_t buf[65536];
	struct iovec iov[2] = {{buf, MIN(len, 10u)}, {buf + MIN(len, 10u), len - MIN(len, 10u)}};

	for (size_t i = 0; i < len; i++)
		buf[i] = (uint8_t)(n + i);
	assert_int_equal(from->c->ops->send(from->c, &to->p.self, iov, 2), 0);
	memset(buf, 0, len); /* it has been copied */
}

static void await(struct end *from, struct end *to, uint32_t got, uint64_t drops)
{
	uint64_t end = clk_now_ns(NULL) + 10 * NS_PER_SEC;

	from->c->ops->flush(from->c);
	while ((to->got < got || to->p.stats.drop_seal < drops) && clk_now_ns(NULL) < end)
		to->c->ops->poll(to->c, 64);
	assert_int_equal(to->got, got);
	assert_int_equal(to->p.stats.drop_seal, drops);
	assert_int_equal(to->bad, 0);
}

static void carrier__carries(void **state)
{
	struct end a, b;

	(void)state;
	NEEDS_CIPHERS();
	for (int m = 0; m < 2; m++) {
		uint32_t n = 0, mtu;

		end_open(&a, &node[m]);
		end_open(&b, &node[m]);
		mtu = a.c->ops->mtu(a.c, &b.p.self);
		assert_int_equal(mtu, UDP_MTU_LOOP - SEAL_OVERHEAD);
		for (int round = 0; round < 20; round++) {
			for (int i = 0; i < 44; i++) /* a train */
				say(&a, &b, (uint8_t)i, 1432);
			await(&a, &b, n += 44, 0);
		}
		for (int i = 0; i < 12; i++) /* more than lies in the ring at once */
			say(&a, &b, (uint8_t)i, mtu);
		await(&a, &b, n += 12, 0);
		say(&b, &a, 3, 0);
		say(&b, &a, 3, 1);
		await(&b, &a, 2, 0);
		a.c->ops->close(a.c);
		b.c->ops->close(b.c);
	}
}

static void carrier__mixed_settings(void **state)
{
	struct end e[3];

	(void)state;
	NEEDS_CIPHERS();
	for (int i = 0; i < 3; i++)
		end_open(&e[i], &node[i]);
	say(&e[2], &e[0], 1, 100); /* no seal */
	await(&e[2], &e[0], 0, 1);
	say(&e[1], &e[0], 1, 100);
	await(&e[1], &e[0], 0, 2);
	say(&e[0], &e[1], 1, 100);
	await(&e[0], &e[1], 0, 1);
	say(&e[0], &e[2], 1, 100);
	e[0].c->ops->flush(e[0].c);
	for (uint64_t end = clk_now_ns(NULL) + 10 * NS_PER_SEC; !e[2].got && clk_now_ns(NULL) < end;)
		e[2].c->ops->poll(e[2].c, 64); /* above, rel_wire.h knows no such magic */
	assert_int_equal(e[2].bytes, 100 + SEAL_OVERHEAD);
	for (int i = 0; i < 3; i++)
		e[i].c->ops->close(e[i].c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seal_make__vectors),
		cmocka_unit_test(seal_check__every_bit_and_every_length),
		cmocka_unit_test(seal_check__whose_and_whither),
		cmocka_unit_test(seal_make__numbers_differ),
		cmocka_unit_test(seal_check__late_ones_and_repeats),
		cmocka_unit_test(seal_check__many_senders),
		cmocka_unit_test(seal_check__no_memory),
		cmocka_unit_test(seal_key_load__files),
		cmocka_unit_test(carrier__carries),
		cmocka_unit_test(carrier__mixed_settings),
	};

	setup(NULL);
	sealed = secret = (struct link_room){.is_sealed = true};
	secret.secrecy = true;
	memcpy(sealed.seal_key, key, SEAL_KEY_LEN);
	memcpy(secret.seal_key, key, SEAL_KEY_LEN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
