// SPDX-License-Identifier: BSD-2-Clause
// Seals: libsodium's ciphers around each datagram, who may send what once, and the carrier that does it. Only this file
// knows the library.
#include "link/net/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/guard.h"
#include "base/keyed.h"
#include "link/core/link_int.h"

#ifdef SF_HAS_SODIUM
#include <sodium/core.h>
#include <sodium/crypto_aead_chacha20poly1305.h>
#include <sodium/crypto_core_hchacha20.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/crypto_onetimeauth_poly1305.h>
#include <sodium/crypto_stream_chacha20.h>
#include <sodium/crypto_verify_16.h>
#include <sodium/utils.h>
#endif

#define RING_LEN (256u << 10) /* sealed datagrams that wait for the flush */
#define DGRAM_MAX 65536u
#define SETS_MIN  16u

/* What the tag covers besides the datagram; of one length, so that nothing can be moved between the two. */
struct seal_ends {
	uint8_t src[16], dst[16];
	le16_t src_port, dst_port;
	uint8_t mode, rsvd[11];
};
static_assert(sizeof(struct seal_ends) == 48, "whole blocks");

/* --- the ciphers --------------------------------------------------------------------------------- */

#ifdef SF_HAS_SODIUM
static_assert(SEAL_KEY_LEN == crypto_core_hchacha20_KEYBYTES &&
		      SEAL_KEY_LEN == crypto_aead_chacha20poly1305_ietf_KEYBYTES,
	      "one length");
static_assert(offsetof(struct seal_hdr, count) == crypto_core_hchacha20_INPUTBYTES,
	      "id and what precedes it choose the subkey");
static_assert(sizeof(((struct seal_hdr *)0)->tag) == crypto_onetimeauth_poly1305_BYTES, "tag");

static bool has_ciphers(void)
{
	return sodium_init() >= 0;
}

static void key_of_file(const uint8_t *text, size_t len, uint8_t key[SEAL_KEY_LEN])
{
	static const uint8_t personal[crypto_generichash_blake2b_PERSONALBYTES] = "softfabric key=";

	crypto_generichash_blake2b_salt_personal(key, SEAL_KEY_LEN, text, len, NULL, 0, NULL, personal);
}

/* Of a mode: what is sealed in one is nothing in the other. */
static void key_of_mode(const uint8_t key[SEAL_KEY_LEN], uint8_t mode, uint8_t out[SEAL_KEY_LEN])
{
	static const uint8_t personal[crypto_generichash_blake2b_PERSONALBYTES] = "softfabric seal";

	crypto_generichash_blake2b_salt_personal(out, SEAL_KEY_LEN, &mode, sizeof(mode), key, SEAL_KEY_LEN, NULL,
						 personal);
}

static void key_of_sender(const uint8_t key[SEAL_KEY_LEN], const struct seal_hdr *h, uint8_t subkey[SEAL_KEY_LEN])
{
	crypto_core_hchacha20(subkey, (const uint8_t *)h, key, NULL);
}

/* The rest of XChaCha20's nonce, as its subkey is used. */
static void nonce_of(const struct seal_hdr *h, uint8_t nonce[12])
{
	memset(nonce, 0, 4);
	memcpy(nonce + 4, h->count.b, 8);
}

static void tag_clear(const uint8_t *subkey, const struct seal_hdr *h, const struct seal_ends *ends, const uint8_t *p,
		      size_t len, uint8_t *tag)
{
	uint8_t nonce[12], once[crypto_onetimeauth_poly1305_KEYBYTES];
	crypto_onetimeauth_poly1305_state st;

	nonce_of(h, nonce);
	crypto_stream_chacha20_ietf(once, sizeof(once), nonce, subkey);
	crypto_onetimeauth_poly1305_init(&st, once);
	crypto_onetimeauth_poly1305_update(&st, (const uint8_t *)ends, sizeof(*ends));
	crypto_onetimeauth_poly1305_update(&st, p, len);
	crypto_onetimeauth_poly1305_final(&st, tag);
}

static void encrypt(const uint8_t *subkey, struct seal_hdr *h, const struct seal_ends *ends, uint8_t *p, size_t len)
{
	uint8_t nonce[12];

	nonce_of(h, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt_detached(p, h->tag, NULL, p, len, (const uint8_t *)ends,
							   sizeof(*ends), NULL, nonce, subkey);
}

/* Return: its tag is right; with secrecy, what it says is at @plain. */
static bool verify(const uint8_t *subkey, const struct seal_hdr *h, const struct seal_ends *ends, const uint8_t *p,
		   size_t len, uint8_t *plain)
{
	uint8_t nonce[12], tag[sizeof(h->tag)];

	if (h->mode == SEAL_CLEAR) {
		tag_clear(subkey, h, ends, p, len, tag);
		return !crypto_verify_16(tag, h->tag);
	}
	nonce_of(h, nonce);
	return !crypto_aead_chacha20poly1305_ietf_decrypt_detached(plain, NULL, p, len, h->tag, (const uint8_t *)ends,
								   sizeof(*ends), nonce, subkey);
}

static void wipe(void *p, size_t len)
{
	sodium_memzero(p, len);
}
#else
/* Cross builds, which only run unit tests, have no library: no key is taken there. */
static bool has_ciphers(void)
{
	return false;
}

static void key_of_file(const uint8_t *text, size_t len, uint8_t key[SEAL_KEY_LEN])
{
	(void)text, (void)len, (void)key;
}

static void key_of_mode(const uint8_t key[SEAL_KEY_LEN], uint8_t mode, uint8_t out[SEAL_KEY_LEN])
{
	(void)key, (void)mode, (void)out;
}

static void key_of_sender(const uint8_t key[SEAL_KEY_LEN], const struct seal_hdr *h, uint8_t subkey[SEAL_KEY_LEN])
{
	(void)key, (void)h, (void)subkey;
}

static void tag_clear(const uint8_t *subkey, const struct seal_hdr *h, const struct seal_ends *ends, const uint8_t *p,
		      size_t len, uint8_t *tag)
{
	(void)subkey, (void)h, (void)ends, (void)p, (void)len, (void)tag;
}

static void encrypt(const uint8_t *subkey, struct seal_hdr *h, const struct seal_ends *ends, uint8_t *p, size_t len)
{
	(void)subkey, (void)h, (void)ends, (void)p, (void)len;
}

static bool verify(const uint8_t *subkey, const struct seal_hdr *h, const struct seal_ends *ends, const uint8_t *p,
		   size_t len, uint8_t *plain)
{
	(void)subkey, (void)h, (void)ends, (void)p, (void)len, (void)plain;
	return false;
}

static void wipe(void *p, size_t len)
{
	memset(p, 0, len);
}
#endif

static void ends_fill(struct seal_ends *e, const struct link_addr *src, const struct link_addr *dst, uint8_t mode)
{
	memset(e, 0, sizeof(*e));
	memcpy(e->src, src->ip, 16);
	memcpy(e->dst, dst->ip, 16);
	e->src_port = le16_put(src->port);
	e->dst_port = le16_put(dst->port);
	e->mode = mode;
}

/* --- the key ------------------------------------------------------------------------------------- */

/* Why the file behind @fd is no key; NULL: it may be. */
static const char *file_fault(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return strerror(errno);
	if (!S_ISREG(st.st_mode))
		return "not a regular file";
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return "belongs to another user";
	if (st.st_mode & 077)
		return "others than its owner may read or write it; try chmod 600";
	if (st.st_size < (off_t)SEAL_FILE_MIN || st.st_size > (off_t)SEAL_FILE_MAX)
		return "a key has 16 to 4096 bytes; try head -c 32 /dev/urandom";
	return NULL;
}

/* Return: bytes; -errno. */
static ssize_t file_read(int fd, uint8_t *buf, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = read(fd, buf + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		at += (size_t)n;
	}
	return (ssize_t)at;
}

int seal_key_load(const char *path, uint8_t key[SEAL_KEY_LEN], char *err, size_t err_len)
{
	uint8_t text[SEAL_FILE_MAX];
	const char *why = NULL;
	ssize_t len;
	int fd;

	if (!has_ciphers())
		return conf_refuse(-EINVAL, err, err_len, "SOFTFABRIC_NET: key=%s: this build has no libsodium", path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return conf_refuse(-EINVAL, err, err_len, "SOFTFABRIC_NET: key=%s: %s", path, strerror(errno));
	why = file_fault(fd);
	len = why ? 0 : file_read(fd, text, sizeof(text));
	close(fd);
	if (!why && len < 0)
		why = strerror((int)-len);
	else if (!why && len < (ssize_t)SEAL_FILE_MIN)
		why = "was cut short while it was read";
	if (!why)
		key_of_file(text, (size_t)len, key);
	wipe(text, sizeof(text));
	return why ? conf_refuse(-EINVAL, err, err_len, "SOFTFABRIC_NET: key=%s: %s", path, why) : 0;
}

/* --- one who seals ------------------------------------------------------------------------------- */

void seal_tx_init(struct seal_tx *tx, const uint8_t key[SEAL_KEY_LEN], enum seal_mode mode,
		  const uint8_t id[SEAL_ID_LEN])
{
	uint8_t mode_key[SEAL_KEY_LEN];

	*tx = (struct seal_tx){.hdr = {.magic = SEAL_MAGIC, .mode = (uint8_t)mode}};
	memcpy(tx->hdr.id, id, SEAL_ID_LEN);
	key_of_mode(key, (uint8_t)mode, mode_key);
	key_of_sender(mode_key, &tx->hdr, tx->subkey);
	wipe(mode_key, sizeof(mode_key));
}

void seal_make(struct seal_tx *tx, const struct link_addr *src, const struct link_addr *dst, uint8_t *out, size_t len)
{
	struct seal_hdr h = tx->hdr;
	struct seal_ends ends;

	h.count = le64_put(tx->count++); /* 2^64 never come */
	ends_fill(&ends, src, dst, h.mode);
	if (h.mode == SEAL_SECRET)
		encrypt(tx->subkey, &h, &ends, out + sizeof(h), len);
	else
		tag_clear(tx->subkey, &h, &ends, out + sizeof(h), len, h.tag);
	memcpy(out, &h, sizeof(h));
}

/* --- senders that are known ---------------------------------------------------------------------- */

void seal_rx_init(struct seal_rx *rx, const uint8_t key[SEAL_KEY_LEN], enum seal_mode mode)
{
	*rx = (struct seal_rx){.mode = (uint8_t)mode};
	key_of_mode(key, (uint8_t)mode, rx->key);
}

void seal_rx_fini(struct seal_rx *rx)
{
	if (rx->tab)
		wipe(rx->tab, (size_t)rx->set_cnt * SEAL_WAYS * sizeof(*rx->tab));
	mem_free(rx->tab);
	wipe(rx, sizeof(*rx));
}

/* Ids are random numbers of who has the key: nobody else gets into the table. */
static struct seal_sender *set_of(struct seal_sender *tab, uint32_t set_cnt, const uint8_t *id)
{
	uint32_t h;

	memcpy(&h, id, sizeof(h));
	return tab + (size_t)(h & (set_cnt - 1)) * SEAL_WAYS;
}

static struct seal_sender *sender_find(const struct seal_rx *rx, const uint8_t *id)
{
	struct seal_sender *set = rx->tab ? set_of(rx->tab, rx->set_cnt, id) : NULL;

	for (uint32_t i = 0; set && i < SEAL_WAYS; i++)
		if (set[i].is_used && !memcmp(set[i].id, id, SEAL_ID_LEN))
			return &set[i];
	return NULL;
}

/* A free place for @id, else the one that was used least lately. */
static struct seal_sender *sender_place(struct seal_sender *tab, uint32_t set_cnt, const uint8_t *id)
{
	struct seal_sender *set = set_of(tab, set_cnt, id), *oldest = set;

	for (uint32_t i = 0; i < SEAL_WAYS; i++) {
		if (!set[i].is_used)
			return &set[i];
		if (set[i].used < oldest->used)
			oldest = &set[i];
	}
	return oldest;
}

/* Return: false: no memory, the table is what it was. */
static bool tab_grow(struct seal_rx *rx)
{
	uint32_t set_cnt = rx->tab ? 2 * rx->set_cnt : SETS_MIN;
	struct seal_sender *tab = mem_alloc((size_t)set_cnt * SEAL_WAYS * sizeof(*tab));

	if (!tab)
		return false;
	for (uint32_t i = 0; i < rx->set_cnt * SEAL_WAYS; i++)
		if (rx->tab[i].is_used) /* a set's senders fit in the two that it becomes */
			*sender_place(tab, set_cnt, rx->tab[i].id) = rx->tab[i];
	if (rx->tab)
		wipe(rx->tab, (size_t)rx->set_cnt * SEAL_WAYS * sizeof(*tab));
	mem_free(rx->tab);
	rx->tab = tab;
	rx->set_cnt = set_cnt;
	return true;
}

/* NULL: no memory for a first one. */
static struct seal_sender *sender_add(struct seal_rx *rx, const uint8_t *id, const uint8_t *subkey)
{
	struct seal_sender *s;

	if (!rx->tab && !tab_grow(rx))
		return NULL;
	s = sender_place(rx->tab, rx->set_cnt, id);
	if (s->is_used && rx->set_cnt * SEAL_WAYS < SEAL_SENDERS && tab_grow(rx))
		s = sender_place(rx->tab, rx->set_cnt, id);
	rx->cnt += !s->is_used;
	memcpy(s->id, id, SEAL_ID_LEN);
	memcpy(s->subkey, subkey, SEAL_KEY_LEN);
	s->is_used = true;
	seqwin_init(&s->win, 0);
	return s;
}

enum seal_verdict seal_check(struct seal_rx *rx, const struct link_addr *src, const struct link_addr *dst,
			     const uint8_t *buf, size_t len, uint8_t *plain)
{
	uint8_t subkey[SEAL_KEY_LEN];
	struct seal_sender *s;
	struct seal_ends ends;
	struct seal_hdr h;

	if (len < sizeof(h) || buf[0] != SEAL_MAGIC)
		return SEAL_UNSEALED;
	memcpy(&h, buf, sizeof(h));
	if (h.mode != rx->mode)
		return SEAL_MODE;
	s = sender_find(rx, h.id);
	if (s && seqwin_seen(&s->win, le64_get(h.count)))
		return SEAL_REPLAYED;
	ends_fill(&ends, src, dst, h.mode);
	if (!s)
		key_of_sender(rx->key, &h, subkey);
	if (!verify(s ? s->subkey : subkey, &h, &ends, buf + sizeof(h), len - sizeof(h), plain))
		return SEAL_FORGED;
	if (!s && !(s = sender_add(rx, h.id, subkey)))
		return SEAL_NOMEM;
	seqwin_accept(&s->win, le64_get(h.count));
	s->used = ++rx->serial;
	return SEAL_OK;
}

/* --- the carrier --------------------------------------------------------------------------------- */

struct seal {
	struct carrier c;
	struct carrier *inner;
	struct seal_tx tx;
	struct seal_rx rx;
	bool is_said[SEAL_NOMEM + 1];
	uint32_t used;  /* of @ring */
	uint8_t *ring;  /* NULL until something is sent */
	uint8_t *plain; /* NULL until something has come that is encrypted */
};

static struct seal *to_seal(struct carrier *c)
{
	return container_of(c, struct seal, c);
}

/* As udp.c does: the receiver waits for these bytes. */
static void fill(uint8_t *at, const struct iovec *iov)
{
	LOG_WARN("memory of an operation under way was unmapped: %zu bytes at %p are sent as zeroes", iov->iov_len,
		 iov->iov_base);
	memset(at, 0, iov->iov_len);
}

/*
 * The bytes are copied first: the program may write to memory that its peers read while they read it, and a tag over
 * bytes that have changed since is wrong, each time that they are sent again.
 */
static int seal_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov, int iov_cnt)
{
	struct seal *s = to_seal(c);
	struct iovec out;
	size_t len = 0;
	uint8_t *at;

	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	/* a child of fork() has our numbers, and nothing to say */
	if (unlikely(len > DGRAM_MAX - SEAL_OVERHEAD || link_forked(c->port->node)))
		return 0;
	if (unlikely(!s->ring) && !(s->ring = mem_alloc(RING_LEN)))
		return -EAGAIN;
	if (s->used + SEAL_OVERHEAD + len > RING_LEN) {
		s->inner->ops->flush(s->inner);
		s->used = 0;
	}
	at = s->ring + s->used;
	out = (struct iovec){at, SEAL_OVERHEAD + len};
	at += SEAL_OVERHEAD;
	for (int i = 0; i < iov_cnt; i++) {
		if (unlikely(!guard_read(at, iov[i].iov_base, iov[i].iov_len)))
			fill(at, &iov[i]);
		at += iov[i].iov_len;
	}
	seal_make(&s->tx, &c->port->self, dst, s->ring + s->used, len);
	s->used += (uint32_t)(SEAL_OVERHEAD + len + 7) & ~7u;
	return s->inner->ops->send(s->inner, dst, &out, 1);
}

static void seal_flush(struct carrier *c)
{
	struct seal *s = to_seal(c);

	s->inner->ops->flush(s->inner);
	s->used = 0;
}

static int seal_poll(struct carrier *c, int budget)
{
	return to_seal(c)->inner->ops->poll(to_seal(c)->inner, budget);
}

static uint32_t seal_mtu(struct carrier *c, const struct link_addr *dst)
{
	uint32_t mtu = to_seal(c)->inner->ops->mtu(to_seal(c)->inner, dst);

	return mtu - MIN(mtu, (uint32_t)SEAL_OVERHEAD);
}

static uint64_t seal_next_deadline(struct carrier *c)
{
	return to_seal(c)->inner->ops->next_deadline(to_seal(c)->inner);
}

static int seal_fd(struct carrier *c)
{
	return to_seal(c)->inner->ops->fd(to_seal(c)->inner);
}

static void seal_close(struct carrier *c)
{
	struct seal *s = to_seal(c);

	s->inner->ops->close(s->inner); /* it may send what lies in the ring */
	seal_rx_fini(&s->rx);
	mem_free(s->ring);
	mem_free(s->plain);
	wipe(s, sizeof(*s));
	mem_free(s);
}

static void refuse(struct seal *s, const struct link_addr *src, enum seal_verdict v)
{
	static const char *const why[] = {
		[SEAL_UNSEALED] = "has no seal: its sender's SOFTFABRIC_NET has no key=",
		[SEAL_MODE] = "is sealed with another setting of secrecy=",
		[SEAL_FORGED] = "is sealed with another key, or was changed on its way",
	};
	struct link_stats *st = &s->c.port->stats;
	char text[LINK_ADDR_TEXT];

	if (v == SEAL_NOMEM) {
		st->drop_full++;
		return;
	}
	st->drop_seal++;
	if (v == SEAL_REPLAYED || s->is_said[v]) /* networks do repeat datagrams */
		return;
	s->is_said[v] = true;
	LOG_WARN("a datagram from %s %s; it is dropped, as further ones will be", link_addr_text(src, text), why[v]);
}

static void on_inner_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	struct seal *s = ctx;
	const uint8_t *p = buf;
	bool is_secret = s->rx.mode == SEAL_SECRET;
	enum seal_verdict v = SEAL_NOMEM;

	if (!is_secret || s->plain || (s->plain = mem_alloc(DGRAM_MAX)))
		v = len > DGRAM_MAX ? SEAL_FORGED : seal_check(&s->rx, src, &s->c.port->self, p, len, s->plain);
	if (likely(v == SEAL_OK))
		s->c.rx(s->c.rx_ctx, src, is_secret ? s->plain : p + SEAL_OVERHEAD, len - SEAL_OVERHEAD);
	else
		refuse(s, src, v);
}

/*
 * What is quoted is sealed, and may be secret: that the datagram was one of ours our id shows, which only those with
 * the key have seen.
 */
static void on_inner_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	struct seal *s = ctx;
	struct carrier_error out = {.err = e->err, .mtu = e->mtu - MIN(e->mtu, (uint32_t)SEAL_OVERHEAD)};
	struct seal_hdr h = {0};

	if (e->quote && e->quote_len >= sizeof(h))
		memcpy(&h, e->quote, sizeof(h));
	if (e->quote && memcmp(h.id, s->tx.hdr.id, sizeof(h.id))) {
		s->c.port->stats.drop_quote++;
		return;
	}
	if (s->c.error)
		s->c.error(s->c.rx_ctx, dst, &out);
}

static const struct carrier_ops seal_ops = {
	.send = seal_send,
	.flush = seal_flush,
	.poll = seal_poll,
	.mtu = seal_mtu,
	.next_deadline = seal_next_deadline,
	.fd = seal_fd,
	.close = seal_close,
};

int seal_open(struct link_port *p, struct carrier *inner, struct carrier **out)
{
	const struct link_room *room = p->node->room;
	enum seal_mode mode = room->secrecy ? SEAL_SECRET : SEAL_CLEAR;
	struct seal *s = mem_alloc(sizeof(*s));
	uint8_t id[SEAL_ID_LEN];

	if (!s)
		return -ENOMEM;
	guard_init(); /* payloads are read here, no more by the kernel */
	s->c.ops = &seal_ops;
	s->c.port = p;
	s->inner = inner;
	keyed_secret(id, sizeof(id));
	seal_tx_init(&s->tx, room->seal_key, mode, id);
	seal_rx_init(&s->rx, room->seal_key, mode);
	inner->rx = on_inner_rx;
	inner->error = on_inner_error;
	inner->rx_ctx = s;
	*out = &s->c;
	return 0;
}
