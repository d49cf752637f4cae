// SPDX-License-Identifier: BSD-2-Clause
// What the cxi provider puts into match bits and keys, and which command carries a message: bit by bit, by hand.
// Source: doc/facts/cxi.md#match-bits, #commands-of-messages, #keys.
#include "cxi_fix.h"

/* Bits @lo to @hi, worked out the slow way. */
static uint64_t bits(unsigned lo, unsigned hi)
{
	uint64_t m = 0;

	for (unsigned i = lo; i <= hi; i++)
		m |= 1ULL << i;
	return m;
}

static void messages__fields_are_where_they_belong(void **state)
{
	(void)state;
	assert_true(CXI_TAG_MASK == bits(0, 47));
	assert_true(CXI_MB_TX_ID == bits(48, 58));
	assert_true(CXI_MB_RDZV_HI == bits(48, 54));
	assert_true(CXI_MB_CQ_DATA == bits(59, 59));
	assert_true(CXI_MB_TAGGED == bits(60, 60));
	assert_true(CXI_MB_MATCH_COMP == bits(61, 61));
	assert_true(CXI_MB_RDZV_DONE == bits(62, 62));
	assert_true(CXI_MB_LE_TYPE == bits(63, 63));
	assert_true(CXI_RNR_TAG_MASK == bits(0, 39));
	assert_true(CXI_RNR_CQ_DATA == bits(46, 46));
	assert_true(CXI_RNR_TAGGED == bits(47, 47));
	assert_true(CXI_RNR_VNI == bits(48, 63));
	/* a receive looks at the tag and at whether there is one; the rest is the sender's business */
	assert_true((CXI_TAG_MASK ^ CXI_MB_TAGGED ^ CXI_MB_IGNORE) == ~0ULL);
	assert_int_equal((CXI_TAG_MASK | CXI_MB_TAGGED) & CXI_MB_IGNORE, 0);
	assert_int_equal(1u << __builtin_popcountll(CXI_MB_TX_ID), CXI_TX_ID_CNT);
	assert_int_equal(1u << (8 + __builtin_popcountll(CXI_MB_RDZV_HI)), CXI_RDZV_ID_CNT);
	assert_true(CXI_TAG_FORMAT >> 47 == 1 && CXI_RNR_TAG_FORMAT >> 39 == 1);
}

static void granule__is_the_seeds_table(void **state)
{
	(void)state;
	assert_int_equal(CXI_RX_CTX_MAX, 16);               /* 0 to 15 */
	assert_int_equal(CXI_IDX_MR, 16);                   /* key 0 */
	assert_int_equal(CXI_IDX_MR + CXI_MR_OPT_MAX - 1, 254); /* key 238 */
	assert_int_equal(CXI_IDX_SHARED, 255);
}

/* The four kinds of pid_idx 255 never look alike, and what they carry comes back. */
static void shared__kinds_and_ids(void **state)
{
	(void)state;
	for (uint32_t id = 0; id < CXI_RDZV_ID_CNT; id++) {
		assert_int_equal(FIELD_GET(CXI_SH_KIND, cxi_sh_rdzv(id)), CXI_SH_RDZV);
		assert_int_equal(cxi_sh_rdzv_id(cxi_sh_rdzv(id)), id);
		assert_int_equal(cxi_sh_rdzv(id) & 0xff, id & 0xff);
	}
	for (uint32_t id = 0; id < CXI_TX_ID_CNT; id++) {
		assert_int_equal(FIELD_GET(CXI_SH_KIND, cxi_sh_zbp(id)), CXI_SH_ZBP);
		assert_int_equal(FIELD_GET(CXI_SH_TX_ID, cxi_sh_zbp(id)), id);
	}
	for (unsigned type = 0; type < 2; type++) {
		uint64_t b = cxi_sh_ctrl((enum cxi_ctrl)type, 0xab, 0x0f, 0xbeef);

		assert_int_equal(FIELD_GET(CXI_SH_KIND, b), CXI_SH_CTRL);
		assert_int_equal(FIELD_GET(CXI_SH_CTRL_TYPE, b), type);
		assert_int_equal(b & 0xff, 0xab);
		assert_int_equal(b >> 8 & 0xff, 0x0f);
		assert_int_equal(b >> 16 & 0xffff, 0xbeef);
	}
	assert_true(cxi_sh_rdzv(0x1234) == (0x12ULL << 48 | 0x34));
	assert_true(cxi_sh_zbp(5) == (1ULL << 62 | 5));
	assert_true(cxi_sh_ctrl(CXI_CTRL_FC_RESUME, 0, 0, 0) == (2ULL << 62 | 1ULL << 60));
}

static void keys__fields_are_where_they_belong(void **state)
{
	(void)state;
	assert_true(CXI_KEY_ID == bits(0, 15));
	assert_true(CXI_KEY_SEQ == bits(16, 58));
	assert_true(CXI_KEY_SOL == bits(59, 59));
	assert_true(CXI_KEY_EVENTS == bits(60, 60));
	assert_true(CXI_KEY_OPT == bits(61, 61));
	assert_true(CXI_KEY_CACHED == bits(62, 62));
	assert_true(CXI_KEY_PROV == bits(63, 63));
	assert_int_equal(FIELD_GET(CXI_SH_KIND, cxi_sh_key(~0ULL)), CXI_SH_MR);
	assert_true(cxi_sh_key(0x12345678) == (3ULL << 62 | 0x12345678));
	assert_true(cxi_sh_key(1 | CXI_KEY_SOL) == cxi_sh_key(1)); /* it says how to put, not where to */
	assert_true(cxi_sh_key(1 | CXI_KEY_EVENTS) != cxi_sh_key(1));
}

static void keys__decoding(void **state)
{
	struct cxi_domain d = {.params.optimized_mrs = true};
	struct cxi_rkey k;

	(void)state;
	assert_int_equal(cxi_rkey_decode(&d, 0, &k), 0);
	assert_true(k.optimized);
	assert_int_equal(k.pid_idx, 16);
	assert_int_equal(cxi_rkey_decode(&d, 238, &k), 0);
	assert_int_equal(k.pid_idx, 254);
	assert_int_equal(cxi_rkey_decode(&d, 239, &k), 0);
	assert_false(k.optimized);
	assert_int_equal(k.pid_idx, 255);
	assert_int_equal(cxi_rkey_decode(&d, UINT32_MAX, &k), 0);
	assert_int_equal(cxi_rkey_decode(&d, 1ULL << 32, &k), -FI_EKEYREJECTED);
	assert_int_equal(cxi_rkey_decode(&d, CXI_KEY_PROV | CXI_KEY_OPT | 7, &k), 0);
	assert_int_equal(k.pid_idx, 23);
	assert_int_equal(cxi_rkey_decode(&d, CXI_KEY_PROV | CXI_KEY_OPT | 239, &k), -FI_EKEYREJECTED);
	assert_int_equal(cxi_rkey_decode(&d, CXI_KEY_PROV | CXI_KEY_CACHED | 7, &k), -FI_EKEYREJECTED);
	assert_int_equal(cxi_rkey_decode(&d, CXI_KEY_PROV | 0xffff, &k), 0);
	assert_int_equal(k.pid_idx, 255);
	d.params.optimized_mrs = false;
	assert_int_equal(cxi_rkey_decode(&d, 0, &k), 0);
	assert_int_equal(k.pid_idx, 255);
}

static void addresses__are_the_documented_bits(void **state)
{
	struct cxi_addr a = cxi_addr_make(0xabcde, 0x155, 0x1234);
	/* 0xabcde << 9 | 0x155, little endian; VNI */
	static const uint8_t want[8] = {0x55, 0xbd, 0x79, 0x15, 0x34, 0x12, 0, 0};
	char text[64];
	size_t len = sizeof(text);

	(void)state;
	assert_memory_equal(&a, want, sizeof(want));
	assert_int_equal(cxi_addr_nic(&a), 0xabcde);
	assert_int_equal(cxi_addr_pid(&a), 0x155);
	cxi_addr_str(&a, text, &len);
	assert_string_equal(text, "fi_addr_cxi://0x1579bd55");
	assert_int_equal(len, sizeof("fi_addr_cxi://0x1579bd55"));
	len = 5; /* cut, terminated, and told how much it would take */
	cxi_addr_str(&a, text, &len);
	assert_string_equal(text, "fi_a");
	assert_int_equal(len, sizeof("fi_addr_cxi://0x1579bd55"));
}

static void select__first_that_holds(void **state)
{
	const struct {
		size_t len;
		bool inject, trig, rnr;
		enum cxi_proto want;
	} row[] = {
		{0, false, false, false, CXI_P_ZERO}, {0, true, true, true, CXI_P_ZERO},
		{1, false, false, false, CXI_P_IDC},
		{192, false, false, false, CXI_P_IDC}, {193, false, false, false, CXI_P_EAGER},
		{1, false, true, false, CXI_P_EAGER},
		{18433, false, false, false, CXI_P_EAGER}, {18434, false, false, false, CXI_P_RDZV},
		{18434, false, false, true, CXI_P_EAGER},
	};
	struct cxi_params p;

	(void)state;
	cxi_params_default(&p);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(cxi_select_proto(&p, row[i].len, row[i].inject, row[i].trig, row[i].rnr), row[i].want);
	p.disable_non_inject_msg_idc = true;
	assert_int_equal(cxi_select_proto(&p, 8, false, false, false), CXI_P_EAGER);
	assert_int_equal(cxi_select_proto(&p, 8, true, false, false), CXI_P_IDC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages__fields_are_where_they_belong),
		cmocka_unit_test(granule__is_the_seeds_table),
		cmocka_unit_test(shared__kinds_and_ids),
		cmocka_unit_test(keys__fields_are_where_they_belong),
		cmocka_unit_test(keys__decoding),
		cmocka_unit_test(addresses__are_the_documented_bits),
		cmocka_unit_test(select__first_that_holds),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
