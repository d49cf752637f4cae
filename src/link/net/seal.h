// SPDX-License-Identifier: BSD-2-Clause
// Protection on the wire: every datagram is sealed by a key that the hosts of a job share. Off unless the room has
// key=.
#ifndef SF_LINK_SEAL_H
#define SF_LINK_SEAL_H

#include "base/le.h"
#include "base/seqwin.h"
#include "link/link.h"

/*
 * Theory of operation
 *
 * A sealed datagram is this header and the datagram, in clear or encrypted:
 *
 *   magic, mode, id, count   24 bytes: a number that no other datagram under this key has
 *   tag                      16 bytes: Poly1305 over addresses and datagram
 *
 * The file of key= gives, by BLAKE2b, one key for each mode. With its id, 14 random bytes chosen when the port opens, a
 * port derives its own key from that (HChaCha20), and count, which never repeats, is the nonce below it. With secrecy
 * this is XChaCha20-Poly1305 as libsodium has it, the addresses being additional data; without, ChaCha20 gives the
 * one-time key of a Poly1305 over addresses and datagram. The addresses are those of source and destination, as sender
 * and receiver see them: nothing can be sent back, or on to another port.
 *
 * A receiver verifies before anything else reads a byte, and then takes each count once: seqwin.h, by sender, of which
 * it remembers a bounded number. Who is forgotten, or was never known, begins anew; doc/security.md says why that lets
 * no replay do harm.
 */

#define SEAL_MAGIC    0xb7 /* no datagram of rel_wire.h begins with it */
#define SEAL_KEY_LEN  32
#define SEAL_ID_LEN   14
#define SEAL_FILE_MIN 16u /* bytes of a key file */
#define SEAL_FILE_MAX 4096u

enum seal_mode { SEAL_NONE, SEAL_CLEAR = 0x11, SEAL_SECRET = 0x12 }; /* high half: version of this layout */

struct seal_hdr {
	uint8_t magic, mode;
	uint8_t id[SEAL_ID_LEN];
	le64_t count;
	uint8_t tag[16];
};
static_assert(sizeof(struct seal_hdr) == 40, "wire layout");
#define SEAL_OVERHEAD sizeof(struct seal_hdr)

/* One who seals. */
struct seal_tx {
	struct seal_hdr hdr; /* of the next datagram, without its tag */
	uint64_t count;
	uint8_t subkey[SEAL_KEY_LEN];
};

/* One whose datagrams have been verified. */
struct seal_sender {
	uint8_t id[SEAL_ID_LEN];
	bool is_used;
	uint64_t used; /* number of the last one that came from it, of all that came */
	uint8_t subkey[SEAL_KEY_LEN];
	struct seqwin win;
};

struct seal_rx {
	uint8_t mode;
	uint8_t key[SEAL_KEY_LEN];
	struct seal_sender *tab; /* sets of SEAL_WAYS, by id */
	uint32_t set_cnt, cnt;
	uint64_t serial;
};
#define SEAL_WAYS    4u
#define SEAL_SENDERS (1u << 16) /* most that are remembered */

enum seal_verdict {
	SEAL_OK,
	SEAL_UNSEALED, /* no seal at all */
	SEAL_MODE,     /* sealed with another setting of secrecy, or by another version */
	SEAL_FORGED,   /* another key, changed on the way, or for somebody else */
	SEAL_REPLAYED,
	SEAL_NOMEM,
};

/**
 * seal_key_load() - Key of all modes from the file @path: SEAL_FILE_MIN to SEAL_FILE_MAX bytes, ours or root's, for
 * nobody else to read.
 * Return: 0; -EINVAL with one sentence in @err.
 */
int seal_key_load(const char *path, uint8_t key[SEAL_KEY_LEN], char *err, size_t err_len);

/** seal_tx_init() - @key: of seal_key_load(). @id: random, never used with this key before. */
void seal_tx_init(struct seal_tx *tx, const uint8_t key[SEAL_KEY_LEN], enum seal_mode mode,
		  const uint8_t id[SEAL_ID_LEN]);
/** seal_make() - Seal the @len bytes at @out + SEAL_OVERHEAD, in place; the header before them is written. */
void seal_make(struct seal_tx *tx, const struct link_addr *src, const struct link_addr *dst, uint8_t *out, size_t len);

void seal_rx_init(struct seal_rx *rx, const uint8_t key[SEAL_KEY_LEN], enum seal_mode mode);
void seal_rx_fini(struct seal_rx *rx);
/**
 * seal_check() - Is @buf a datagram for @dst, sealed by @src, that has not come before? Its contents are then the @len
 * - SEAL_OVERHEAD bytes behind the header, or with SEAL_SECRET those at @plain.
 */
enum seal_verdict seal_check(struct seal_rx *rx, const struct link_addr *src, const struct link_addr *dst,
			     const uint8_t *buf, size_t len, uint8_t *plain);

struct carrier;
/** seal_open() - A carrier that seals what goes through @inner, which it owns then. Return: 0; -ENOMEM. */
int seal_open(struct link_port *p, struct carrier *inner, struct carrier **out);

#endif
