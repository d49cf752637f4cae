// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of opx: FI_AV_MAP, whose fi_addr_t is the address, FI_AV_TABLE, context bits, what the build allows.
// Source: doc/facts/opx.md#addresses, #objects.
#include <string.h>

#include "base/mem.h"
#include "opx_fake.h"

static struct fake_dom dom;

static int setup(void **state)
{
	(void)state;
	fake_reset(1);
	fake_open(&dom, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_close(&dom);
	return 0;
}

static struct opx_addr addr_make(uint16_t lid, uint8_t rx, uint16_t endpoint_id)
{
	return (struct opx_addr){.hfi1_rx = rx, .hfi1_unit = 0, .reliability_rx = rx,
				 .endpoint_id = le16_put(endpoint_id), .lid = be16_put(lid),
				 .rx_index = endpoint_id & OPX_ADDR_SEP ? 0 : (uint8_t)endpoint_id};
}

static struct fid_av *av_new(enum fi_av_type type, int bits, enum fi_av_type want)
{
	struct fi_av_attr attr = {.type = type, .rx_ctx_bits = bits};
	struct fid_av *av = NULL;

	assert_int_equal(fi_av_open(dom.domain, &attr, &av, NULL), 0);
	assert_int_equal(attr.type, want);
	return av;
}

static struct opx_av *opx(struct fid_av *av)
{
	return container_of(av, struct opx_av, kit.fid);
}

static fi_addr_t insert(struct fid_av *av, struct opx_addr a)
{
	fi_addr_t out = 0;

	assert_int_equal(fi_av_insert(av, &a, 1, &out, 0, NULL), 1);
	return out;
}

/* --- the address --------------------------------------------------------------------------------- */

static void addr__layout(void **state)
{
	struct opx_addr a = addr_make(0x1234, 0x56, 0x789a), b;
	char text[64];
	size_t len = sizeof(text);

	(void)state;
	a.hfi1_unit = 0xbc;
	a.rx_index = 0xde;
	/* doc/facts/opx.md#addresses: rx_index, LID (big-endian), endpoint, reliability, unit, rx */
	assert_true(opx_addr_u64(&a) == 0xde3412789a56bc56ULL);
	b = opx_addr_of(opx_addr_u64(&a));
	assert_memory_equal(&a, &b, sizeof(a));
	opx_straddr(NULL, &a, text, &len);
	assert_string_equal(text, "3412.789a.de.56.bc.56");
	assert_int_equal(len, strlen(text) + 1);
	a = opx_addr_unbound();
	assert_true(opx_addr_u64(&a) == 0x00ffffffff00ff00ULL);
	assert_false(opx_addr_ok(&a));
}

static void straddr__cut(void **state)
{
	struct fid_av *av = av_new(FI_AV_MAP, 0, FI_AV_MAP);
	struct opx_addr a = addr_make(1, 2, 3);
	char text[8];
	size_t len = sizeof(text);

	(void)state;
	assert_ptr_equal(fi_av_straddr(av, &a, text, &len), text);
	assert_string_equal(text, "0100.00");
	assert_int_equal(len, sizeof("0100.0003.03.02.00.02"));
	assert_int_equal(fi_close(&av->fid), 0);
}

/* --- types --------------------------------------------------------------------------------------- */

static void type__of_the_build(void **state)
{
	enum fi_av_type t;

	(void)state;
	assert_int_equal(opx_av_type(FI_AV_UNSPEC, FI_AV_UNSPEC, &t), 0);
	assert_int_equal(t, FI_AV_MAP);
	assert_int_equal(opx_av_type(FI_AV_UNSPEC, FI_AV_TABLE, &t), 0);
	assert_int_equal(t, FI_AV_TABLE);
	assert_int_equal(opx_av_type(FI_AV_UNSPEC, FI_AV_MAP, &t), 0);
	assert_int_equal(t, FI_AV_MAP);
	assert_int_equal(opx_av_type(FI_AV_TABLE, FI_AV_MAP, &t), -FI_EINVAL);
	assert_int_equal(opx_av_type(FI_AV_TABLE, FI_AV_UNSPEC, &t), 0);
	assert_int_equal(t, FI_AV_TABLE);
	assert_int_equal(opx_av_type(FI_AV_MAP, FI_AV_TABLE, &t), -FI_EINVAL);
	assert_int_equal(opx_av_type(FI_AV_MAP, FI_AV_UNSPEC, &t), 0);
	assert_int_equal(t, FI_AV_MAP);
	assert_int_equal(opx_av_type(FI_AV_UNSPEC, FI_AV_TABLE + 1, &t), -FI_EINVAL);
}

static void open__refusals(void **state)
{
	struct fi_av_attr attr = {.rx_ctx_bits = 9};
	struct fid_av *av = NULL;

	(void)state;
	assert_int_equal(fi_av_open(dom.domain, &attr, &av, NULL), -FI_EINVAL);
	attr = (struct fi_av_attr){.rx_ctx_bits = -1};
	assert_int_equal(fi_av_open(dom.domain, &attr, &av, NULL), -FI_EINVAL);
	attr = (struct fi_av_attr){.name = (char[]){"shared"}, .flags = FI_READ};
	assert_int_equal(fi_av_open(dom.domain, &attr, &av, NULL), -FI_EOPNOTSUPP);
	attr = (struct fi_av_attr){.flags = FI_EVENT};
	assert_int_equal(fi_av_open(dom.domain, &attr, &av, NULL), -FI_ENOSYS);
	attr = (struct fi_av_attr){.type = FI_AV_TABLE + 1};
	assert_int_equal(fi_av_open(dom.domain, &attr, &av, NULL), -FI_EINVAL);
	assert_null(av);
}

/* --- FI_AV_MAP ----------------------------------------------------------------------------------- */

static void map__fi_addr_is_the_address(void **state)
{
	struct fid_av *av = av_new(FI_AV_UNSPEC, 0, FI_AV_MAP);
	struct opx_addr a[3] = {addr_make(7, 1, 2), addr_make(7, 2, 3), addr_make(8, 1, 2)}, got;
	fi_addr_t out[3];
	size_t len = sizeof(got);

	(void)state;
	assert_int_equal(fi_av_insert(av, a, 3, out, 0, NULL), 3);
	for (int i = 0; i < 3; i++) {
		assert_true(out[i] == opx_addr_u64(&a[i]));
		assert_true(opx_av_get(opx(av), out[i], &got));
		assert_memory_equal(&got, &a[i], sizeof(got));
		assert_true(opx_av_name(opx(av), &a[i]) == out[i]);
		memset(&got, 0, sizeof(got));
		assert_int_equal(fi_av_lookup(av, out[i], &got, &len), 0);
		assert_memory_equal(&got, &a[i], sizeof(got));
	}
	/* an address nobody inserted can be reached, and is nobody's name */
	a[0] = addr_make(9, 4, 5);
	assert_true(opx_av_get(opx(av), opx_addr_u64(&a[0]), &got));
	assert_true(opx_av_name(opx(av), &a[0]) == FI_ADDR_NOTAVAIL);
	assert_int_equal(fi_av_lookup(av, opx_addr_u64(&a[0]), &got, &len), -FI_EINVAL);
	assert_false(opx_av_get(opx(av), FI_ADDR_NOTAVAIL, &got));
	assert_false(opx_av_get(opx(av), 0, &got));
	assert_int_equal(fi_close(&av->fid), 0);
}

static void map__counts_insertions(void **state)
{
	struct fid_av *av = av_new(FI_AV_MAP, 0, FI_AV_MAP);
	struct opx_addr a = addr_make(7, 1, 2);
	fi_addr_t f = insert(av, a);
	uint32_t gen = opx(av)->gen;

	(void)state;
	assert_true(insert(av, a) == f);
	assert_int_equal(fi_av_remove(av, &f, 1, 0), 0);
	assert_true(opx_av_name(opx(av), &a) == f);
	assert_int_equal(opx(av)->gen, gen);
	assert_int_equal(fi_av_remove(av, &f, 1, 0), 0);
	assert_true(opx_av_name(opx(av), &a) == FI_ADDR_NOTAVAIL);
	assert_true(opx(av)->gen != gen);
	assert_int_equal(fi_av_remove(av, &f, 1, 0), -FI_EINVAL);
	assert_int_equal(fi_close(&av->fid), 0);
}

/* Against a table of what was inserted how often. */
static void map__random(void **state)
{
	enum { N = 300 };
	struct fid_av *av = av_new(FI_AV_MAP, 0, FI_AV_MAP);
	int uses[N] = {0};
	struct rng r = unit_rng();

	(void)state;
	for (int step = 0; step < 20000; step++) {
		int i = (int)rng_below(&r, N);
		struct opx_addr a = addr_make((uint16_t)(1 + i / 16), (uint8_t)(i % 16), (uint16_t)(i % 16));
		fi_addr_t f = opx_addr_u64(&a);

		if (rng_below(&r, 2)) {
			assert_true(insert(av, a) == f);
			uses[i]++;
		} else {
			assert_int_equal(fi_av_remove(av, &f, 1, 0), uses[i] ? 0 : -FI_EINVAL);
			uses[i] -= uses[i] > 0;
		}
		assert_true(opx_av_name(opx(av), &a) == (uses[i] ? f : FI_ADDR_NOTAVAIL));
	}
	assert_int_equal(fi_close(&av->fid), 0);
}

/* --- FI_AV_TABLE --------------------------------------------------------------------------------- */

static void table__places(void **state)
{
	struct fid_av *av = av_new(FI_AV_TABLE, 0, FI_AV_TABLE);
	struct opx_addr a, got;
	fi_addr_t f;

	(void)state;
	for (uint16_t i = 0; i < 200; i++)
		assert_true(insert(av, addr_make((uint16_t)(i + 1), 1, 1)) == i);
	a = addr_make(101, 1, 1);
	assert_true(opx_av_get(opx(av), 100, &got));
	assert_memory_equal(&got, &a, sizeof(a));
	assert_true(opx_av_name(opx(av), &a) == 100);
	assert_false(opx_av_get(opx(av), 200, &got));
	f = 100;
	assert_int_equal(fi_av_remove(av, &f, 1, 0), 0);
	assert_false(opx_av_get(opx(av), 100, &got));
	assert_true(opx_av_name(opx(av), &a) == FI_ADDR_NOTAVAIL);
	assert_true(insert(av, addr_make(999, 1, 1)) == 100); /* the free place */
	assert_int_equal(fi_close(&av->fid), 0);
}

static void insert__refusals(void **state)
{
	struct opx_addr a[4] = {addr_make(0, 1, 1), addr_make(0xc000, 1, 1), addr_make(5, 160, 1),
				addr_make(5, 159, 1)};
	fi_addr_t out[4];

	(void)state;
	for (int table = 0; table < 2; table++) {
		struct fid_av *av = table ? av_new(FI_AV_TABLE, 0, FI_AV_TABLE) : av_new(FI_AV_MAP, 0, FI_AV_MAP);

		assert_int_equal(fi_av_insert(av, a, 4, out, 0, NULL), 1);
		for (int i = 0; i < 3; i++)
			assert_true(out[i] == FI_ADDR_NOTAVAIL);
		assert_true(out[3] == (table ? 0 : opx_addr_u64(&a[3])));
		assert_int_equal(fi_av_insertsvc(av, "node", "1", out, 0, NULL), -FI_ENOSYS);
		assert_int_equal(fi_av_insertsym(av, "node", 1, "1", 1, out, 0, NULL), -FI_ENOSYS);
		assert_int_equal(fi_close(&av->fid), 0);
	}
}

/* --- contexts of scalable endpoints -------------------------------------------------------------- */

static void bits__name_contexts(void **state)
{
	struct opx_addr sep = addr_make(7, 10, OPX_ADDR_SEP | 11), plain = addr_make(7, 20, 21), got, from;

	(void)state;
	for (int table = 0; table < 2; table++) {
		for (int bits = 2; bits <= 8; bits++) {
			struct fid_av *av =
				table ? av_new(FI_AV_TABLE, bits, FI_AV_TABLE) : av_new(FI_AV_MAP, bits, FI_AV_MAP);
			fi_addr_t f = insert(av, sep), p = insert(av, plain);

			for (int i = 0; i < OPX_SEP_MAX; i++) {
				fi_addr_t rx = fi_rx_addr(f, i, bits);

				assert_true(opx_av_get(opx(av), rx, &got));
				assert_int_equal(got.rx_index, i);
				assert_int_equal(opx_addr_uid(&got), 7 << 8 | (10 + i));
				from = sep;
				from.rx_index = (uint8_t)i; /* as context i calls itself */
				assert_true(opx_av_name(opx(av), &from) == rx);
			}
			if (bits > 2)
				assert_false(opx_av_get(opx(av), fi_rx_addr(f, OPX_SEP_MAX, bits), &got));
			assert_true(opx_av_get(opx(av), p, &got));
			assert_int_equal(opx_addr_uid(&got), 7 << 8 | 20);
			assert_true(opx_av_name(opx(av), &plain) == p);
			assert_int_equal(fi_close(&av->fid), 0);
		}
	}
}

static void bits__none(void **state)
{
	struct opx_addr sep = addr_make(7, 10, OPX_ADDR_SEP | 11), got;
	struct fid_av *av = av_new(FI_AV_TABLE, 0, FI_AV_TABLE);
	fi_addr_t f = insert(av, sep);

	(void)state;
	assert_true(opx_av_get(opx(av), f, &got));
	assert_int_equal(got.rx_index, 0);
	sep.rx_index = 2;
	assert_true(opx_av_name(opx(av), &sep) == f);
	assert_int_equal(fi_close(&av->fid), 0);
}

/* A failed allocation changes nothing. */
static void memory__fails(void **state)
{
	int64_t live = mem_live_count();
	struct fi_av_attr attr = {.type = FI_AV_MAP};
	struct fid_av *av = NULL;
	int n = 0, ret;

	(void)state;
	do {
		mem_fail_nth((uint64_t)++n);
		ret = fi_av_open(dom.domain, &attr, &av, NULL);
		mem_fail_nth(0);
		assert_true(!ret || ret == -FI_ENOMEM);
		assert_true(!ret || mem_live_count() == live);
	} while (ret);
	assert_true(n > 3);
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(mem_live_count(), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(addr__layout, setup, teardown),
		cmocka_unit_test_setup_teardown(straddr__cut, setup, teardown),
		cmocka_unit_test_setup_teardown(type__of_the_build, setup, teardown),
		cmocka_unit_test_setup_teardown(open__refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(map__fi_addr_is_the_address, setup, teardown),
		cmocka_unit_test_setup_teardown(map__counts_insertions, setup, teardown),
		cmocka_unit_test_setup_teardown(map__random, setup, teardown),
		cmocka_unit_test_setup_teardown(table__places, setup, teardown),
		cmocka_unit_test_setup_teardown(insert__refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(bits__name_contexts, setup, teardown),
		cmocka_unit_test_setup_teardown(bits__none, setup, teardown),
		cmocka_unit_test_setup_teardown(memory__fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
