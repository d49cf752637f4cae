// SPDX-License-Identifier: BSD-2-Clause
// The keyed hash is libsodium's; this file is the only one of layer base that knows that library.
#include "base/keyed.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/rng.h"

void keyed_secret(void *out, size_t len)
{
	uint8_t *p = out;

	while (len) {
		ssize_t got = getrandom(p, len, 0);

		if (got < 0 && errno == EINTR)
			continue;
		/* a kernel or a filter without the call: weaker than the kernel's numbers, still not constant */
		if (got <= 0) {
			uint64_t seed = rng_entropy();

			got = (ssize_t)(len < sizeof(seed) ? len : sizeof(seed));
			memcpy(p, &seed, (size_t)got);
		}
		p += got;
		len -= (size_t)got;
	}
}

void keyed_fresh(struct keyed *k)
{
	keyed_secret(k->key, sizeof(k->key));
}

#ifdef SF_HAS_SODIUM
#include <sodium/crypto_shorthash_siphash24.h>

_Static_assert(crypto_shorthash_siphash24_KEYBYTES == KEYED_LEN, "SipHash takes a key of 128 bits");

uint64_t keyed_hash(const struct keyed *k, const void *p, size_t len)
{
	uint8_t out[crypto_shorthash_siphash24_BYTES];
	uint64_t hash;

	crypto_shorthash_siphash24(out, p, len, k->key);
	memcpy(&hash, out, sizeof(hash));
	return hash;
}
#else
/*
 * Cross builds run unit tests under an emulator and have no libsodium for their target: a hash that depends on the key,
 * for those tests alone. Nothing that is installed is built like this (meson.build requires the library everywhere
 * else).
 */
uint64_t keyed_hash(const struct keyed *k, const void *p, size_t len)
{
	const uint8_t *b = p;
	uint64_t hash;

	memcpy(&hash, k->key, sizeof(hash));
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ b[i]) * 0x100000001b3ULL;
	return hash ^ hash >> 29;
}
#endif
