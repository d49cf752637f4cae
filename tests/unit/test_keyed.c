// SPDX-License-Identifier: BSD-2-Clause
// Tests of base/keyed.c.
#include "unit.h"

#include <string.h>

#include "base/keyed.h"

/* Aumasson and Bernstein, appendix A: key 00 01 ... 0f, message 00 01 ... 0e. */
static void keyed_hash__vector_of_the_paper(void **state)
{
	struct keyed k;
	uint8_t in[15];

#ifndef SF_HAS_SODIUM
	print_message("this target has no libsodium\n");
	skip();
#endif
	for (int i = 0; i < KEYED_LEN; i++)
		k.key[i] = (uint8_t)i;
	for (int i = 0; i < 15; i++)
		in[i] = (uint8_t)i;
	assert_true(keyed_hash(&k, in, sizeof(in)) == 0xa129ca6149be45e5ULL);
}

static void keyed_hash__depends_on_key_and_every_byte(void **state)
{
	struct keyed a, b;
	uint8_t in[24] = {0};
	uint64_t was;

	keyed_fresh(&a);
	keyed_fresh(&b);
	was = keyed_hash(&a, in, sizeof(in));
	assert_true(keyed_hash(&a, in, sizeof(in)) == was);
	assert_true(keyed_hash(&b, in, sizeof(in)) != was);
	for (size_t i = 0; i < sizeof(in); i++) {
		in[i] = 1;
		assert_true(keyed_hash(&a, in, sizeof(in)) != was);
		in[i] = 0;
	}
}

static void keyed_secret__every_length(void **state)
{
	uint8_t p[40], q[40];

	for (size_t len = 0; len <= 32; len++) {
		memset(p, 0, sizeof(p));
		memset(q, 0, sizeof(q));
		keyed_secret(p, len);
		keyed_secret(q, len);
		assert_true(len < 8 || memcmp(p, q, len));
		for (size_t i = len; i < sizeof(p); i++)
			assert_int_equal(p[i], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keyed_hash__vector_of_the_paper),
		cmocka_unit_test(keyed_hash__depends_on_key_and_every_byte),
		cmocka_unit_test(keyed_secret__every_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
