// SPDX-License-Identifier: BSD-2-Clause
// Sealed datagrams: whole, changed, repeated and misdirected ones of who has the key, and what somebody without it
// makes up.
#include "fuzz.h"

#include <errno.h>
#include <unistd.h>

#include "link/core/link_int.h"
#include "link/net/seal.h"

#define DGRAMS   32u
#define BODY_MAX 300u
#define HONEST   3u /* senders with key and mode of the receiver; the next has another key, the last another mode */

struct dgram {
	unsigned who, src, dst;
	uint64_t count;
	bool is_taken;
	size_t len;
	uint8_t clear[BODY_MAX], buf[SEAL_OVERHEAD + BODY_MAX];
};

static struct {
	struct link_room room;
	struct link_node node;
	struct link_port port; /* the receiver, at addr[0] */
	struct carrier inner, *c;
	struct seal_tx tx[HONEST + 2];
	struct link_addr addr[3];
	struct dgram d[DGRAMS];
	unsigned cnt;
	uint64_t top[HONEST]; /* one more than the highest count taken */
	const uint8_t *due;   /* what may be handed up now */
	size_t due_len;
	unsigned got, errors;
	uint8_t out[SEAL_OVERHEAD + BODY_MAX]; /* last datagram of the receiver's own */
	size_t out_len;
} w;

/* --- the carriers below and above --- */

static int inner_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov, int iov_cnt)
{
	(void)c, (void)dst;
	FUZZ_CHECK(iov_cnt == 1 && iov->iov_len <= sizeof(w.out));
	memcpy(w.out, iov->iov_base, iov->iov_len);
	w.out_len = iov->iov_len;
	return 0;
}

static void inner_nothing(struct carrier *c)
{
	(void)c;
}

static const struct carrier_ops inner_ops = {.send = inner_send, .flush = inner_nothing, .close = inner_nothing};

static void on_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	(void)ctx, (void)src;
	FUZZ_CHECK(w.due && len == w.due_len && !memcmp(buf, w.due, len));
	w.got++;
}

static void on_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	(void)ctx, (void)dst;
	FUZZ_CHECK(!e->quote);
	w.errors++;
}

/* @buf on the heap: no reader may go beyond it. Return: handed up. */
static bool arrive(unsigned src, const uint8_t *buf, size_t len)
{
	uint64_t drops = w.port.stats.drop_seal;
	uint8_t *mem = malloc(len + !len);
	unsigned got = w.got;

	memcpy(mem, buf, len);
	w.inner.rx(w.inner.rx_ctx, &w.addr[src], mem, len);
	free(mem);
	FUZZ_CHECK(w.got - got + (w.port.stats.drop_seal - drops) == 1);
	return w.got != got;
}

/* --- what comes --- */

static void make(struct fuzz *f)
{
	struct dgram *d = &w.d[w.cnt % DGRAMS];

	*d = (struct dgram){.who = fuzz_u8(f) % ARRAY_SIZE(w.tx), .src = fuzz_u8(f) % 3, .dst = fuzz_u8(f) % 8 ? 0 : 1,
			    .len = fuzz_u16(f) % (BODY_MAX + 1)};
	if (fuzz_u8(f) % 4 == 0)
		w.tx[d->who].count += fuzz_u16(f);
	d->count = w.tx[d->who].count;
	memset(d->clear, fuzz_u8(f), d->len);
	memcpy(d->buf + SEAL_OVERHEAD, d->clear, d->len);
	seal_make(&w.tx[d->who], &w.addr[d->src], &w.addr[d->dst], d->buf, d->len);
	w.cnt++;
}

/* As it was made, perhaps not for the first time or from somewhere else. */
static void give(struct fuzz *f, struct dgram *d)
{
	unsigned src = fuzz_u8(f) % 4 ? d->src : fuzz_u8(f) % 3;
	bool is_good = d->who < HONEST && d->dst == 0 && src == d->src && !d->is_taken, is_ok;

	w.due = is_good ? d->clear : NULL;
	w.due_len = d->len;
	is_ok = arrive(src, d->buf, SEAL_OVERHEAD + d->len);
	w.due = NULL;
	FUZZ_CHECK(!is_good || is_ok || d->count + SEQWIN_BITS < w.top[d->who]); /* too late to tell */
	if (!is_ok)
		return;
	d->is_taken = true;
	w.top[d->who] = MAX(w.top[d->who], d->count + 1);
}

static void give_changed(struct fuzz *f, const struct dgram *d)
{
	uint8_t buf[SEAL_OVERHEAD + BODY_MAX + 8], n = fuzz_u8(f);
	size_t len = SEAL_OVERHEAD + d->len, at = fuzz_u16(f) % len;

	memcpy(buf, d->buf, len);
	memset(buf + len, n, 8);
	if (n % 8 == 0)
		len += 1 + at % 8;
	else if (n % 8 == 1)
		len = at;
	else
		buf[at] ^= n;
	arrive(d->src, buf, len);
}

static void give_made_up(struct fuzz *f)
{
	uint8_t buf[SEAL_OVERHEAD + BODY_MAX], how = fuzz_u8(f);
	size_t len = fuzz_u16(f) % sizeof(buf);

	fuzz_get(f, buf, sizeof(buf));
	if (how & 1)
		buf[0] = SEAL_MAGIC;
	if (how & 2)
		buf[1] = how & 4 ? SEAL_CLEAR : SEAL_SECRET;
	if (how & 8)
		memcpy(buf, &w.tx[0].hdr, offsetof(struct seal_hdr, count));
	arrive(how >> 6 & 1, buf, len);
}

/* Our own ones: nothing of them comes back, and what quotes them does. */
static void send_own(struct fuzz *f)
{
	static const uint8_t body[BODY_MAX];
	size_t len = fuzz_u16(f) % (BODY_MAX + 1), cut = fuzz_u8(f) % (len + 1);
	struct iovec iov[2] = {{(void *)(uintptr_t)body, cut}, {(void *)(uintptr_t)(body + cut), len - cut}};

	FUZZ_CHECK(!w.c->ops->send(w.c, &w.addr[1], iov, 2));
	FUZZ_CHECK(w.out_len == SEAL_OVERHEAD + len);
	arrive(fuzz_u8(f) % 2, w.out, w.out_len);
	if (fuzz_u8(f) % 2)
		w.c->ops->flush(w.c);
}

static void quote(struct fuzz *f)
{
	uint8_t buf[CARRIER_QUOTE_MAX], how = fuzz_u8(f);
	struct carrier_error e = {.err = how & 1 ? EMSGSIZE : ECONNREFUSED, .mtu = fuzz_u16(f),
				  .quote = how & 2 ? buf : NULL};
	bool is_ours = !e.quote;
	unsigned was = w.errors;

	e.quote_len = fuzz_u8(f) % (sizeof(buf) + 1);
	fuzz_get(f, buf, sizeof(buf));
	if (how & 4 && w.out_len >= SEAL_OVERHEAD) {
		memcpy(buf, w.out, SEAL_OVERHEAD);
		is_ours |= e.quote_len >= SEAL_OVERHEAD;
	}
	w.inner.error(w.inner.rx_ctx, &w.addr[1], &e);
	FUZZ_CHECK(w.errors - was == is_ours);
}

/* --- */

static void world_open(struct fuzz *f)
{
	uint8_t key[SEAL_KEY_LEN] = {1}, other[SEAL_KEY_LEN] = {2}, id[SEAL_ID_LEN] = {3};

	memset(&w, 0, sizeof(w));
	w.room.secrecy = fuzz_u8(f) & 1;
	memcpy(w.room.seal_key, key, sizeof(key));
	w.node.room = &w.room;
	w.node.owner_pid = getpid();
	for (unsigned i = 0; i < 3; i++) {
		w.addr[i].ip[15] = 1;
		w.addr[i].port = (uint16_t)(1000 + i);
	}
	w.port.node = &w.node;
	w.port.self = w.addr[0];
	w.inner.ops = &inner_ops;
	for (unsigned i = 0; i < ARRAY_SIZE(w.tx); i++) {
		bool is_secret = w.room.secrecy != (i == HONEST + 1);

		id[4] = (uint8_t)i; /* all in one place of the table, which has room for four */
		seal_tx_init(&w.tx[i], i == HONEST ? other : key, is_secret ? SEAL_SECRET : SEAL_CLEAR, id);
	}
	FUZZ_CHECK(!seal_open(&w.port, &w.inner, &w.c));
	w.c->rx = on_rx;
	w.c->error = on_error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};

#ifndef SF_HAS_SODIUM
	return 0; /* no key is taken then */
#endif
	world_open(&f);
	for (int i = 0; i < 200 && f.left; i++) {
		uint8_t what = fuzz_u8(&f), which = fuzz_u8(&f) % DGRAMS;
		struct dgram *d = &w.d[w.cnt ? which % MIN(w.cnt, DGRAMS) : 0];

		if (what % 8 < 3 || !w.cnt)
			make(&f);
		else if (what % 8 == 3)
			give(&f, d);
		else if (what % 8 == 4)
			give_changed(&f, d);
		else if (what % 8 == 5)
			give_made_up(&f);
		else if (what % 8 == 6)
			send_own(&f);
		else
			quote(&f);
	}
	w.c->ops->close(w.c);
	return 0;
}
