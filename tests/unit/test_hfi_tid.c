// SPDX-License-Identifier: BSD-2-Clause
// Expected receive: entries, what a header can say, and packets that find their place or do not.
#include "hfi_fix.h"

#define LEN (5u * HFI_TID_BYTES / 2)

static uint8_t buf[LEN];
static struct hfi_tid list[HFI_TID_CNT];

/* A packet for byte @off of @tid. */
static int place(const struct hfi_tid *tid, uint32_t off, uint16_t gen, const void *data, uint32_t len)
{
	struct hfi_hdr h = pkt_from(0, len);
	struct hfi_pkt pkt = {.src = g_fix.dst, .hdr = &h, .data = view_of(data, len), .type = HFI_RCV_EXPECTED};

	assert_int_equal(hfi_tid_hdr(&h, tid, off), 0);
	return hfi_tid_place(g_fix.c, &pkt, gen);
}

static void update__cuts(void **state)
{
	assert_int_equal(hfi_ctxt_info(g_fix.c)->tid_cnt, HFI_TID_CNT);
	assert_int_equal(hfi_tid_update(g_fix.c, buf, LEN, list, 3), 3);
	assert_int_equal(list[0].len, HFI_TID_BYTES);
	assert_int_equal(list[1].len, HFI_TID_BYTES);
	assert_int_equal(list[2].len, HFI_TID_BYTES / 2);
	assert_int_equal(list[0].gen, list[2].gen);
	assert_int_equal(place(&list[2], 64, list[0].gen, "there", 5), 5);
	assert_memory_equal(buf + 2 * HFI_TID_BYTES + 64, "there", 5);
	assert_int_equal(stats_now().tid_updates, 1);
	hfi_tid_free(g_fix.c, list, 3);
}

static void update__runs_out(void **state)
{
	struct hfi_tid one[2];

	assert_int_equal(hfi_tid_update(g_fix.c, buf, LEN, list, 2), -ENOSPC);
	for (int i = 0; i < HFI_TID_CNT; i++)
		assert_int_equal(hfi_tid_update(g_fix.c, buf, 4096, &list[i], 1), 1);
	assert_int_equal(hfi_tid_update(g_fix.c, buf, 1, one, 2), -ENOSPC);
	hfi_tid_free(g_fix.c, &list[5], 1);
	assert_int_equal(hfi_tid_update(g_fix.c, buf, HFI_TID_BYTES + 1, one, 2), -ENOSPC);
	assert_int_equal(hfi_tid_update(g_fix.c, buf, 1, one, 2), 1);
	assert_int_equal(one[0].idx, list[5].idx);
	assert_int_not_equal(one[0].gen, list[5].gen);
	list[5] = one[0];
	hfi_tid_free(g_fix.c, list, HFI_TID_CNT);
}

static void hdr__offsets(void **state)
{
	static const struct {
		uint32_t off;
		int rc;
	} row[] = {
		{0, 0}, {4, 0}, {2, -EINVAL}, {131068, 0},
		{131072, 0}, {131076, -EINVAL}, {131072 + 64, 0}, {HFI_TID_BYTES - 64, 0},
		{HFI_TID_BYTES, -EINVAL},
	};
	struct hfi_tid tid = {.idx = 1023};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct hfi_hdr h = pkt_from(0, 0);
		uint32_t k;

		assert_int_equal(hfi_tid_hdr(&h, &tid, row[i].off), row[i].rc);
		k = le32_get(h.kdeth);
		if (row[i].rc)
			continue;
		assert_int_equal(k >> 30, 1);
		assert_int_equal(k >> 16 & 0x3ff, 1023);
		assert_int_equal((k & 0x7fff) * (k & 0x8000 ? 64 : 4), row[i].off);
	}
}

static void place__bounds(void **state)
{
	uint8_t data[16];

	memset(buf, 0, 256);
	memset(data, 9, sizeof(data));
	assert_int_equal(hfi_tid_update(g_fix.c, buf, 128, list, 1), 1);
	assert_int_equal(place(&list[0], 112, list[0].gen, data, 16), 16);
	assert_int_equal(place(&list[0], 116, list[0].gen, data, 16), -ERANGE);
	assert_int_equal(place(&list[0], 128, list[0].gen, data, 0), 0);
	assert_int_equal(place(&list[0], 132, list[0].gen, data, 0), -ERANGE);
	assert_int_equal(place(&list[0], HFI_TID_BYTES - 64, list[0].gen, data, 16), -ERANGE);
	assert_int_equal(buf[111], 0);
	assert_int_equal(buf[127], 9);
	assert_int_equal(buf[128], 0);
	hfi_tid_free(g_fix.c, list, 1);
}

/* A late packet finds nothing, even where the entry has been given out again. */
static void place__stale(void **state)
{
	struct hfi_hdr h = pkt_from(0, 0);
	struct hfi_pkt eager = {.src = g_fix.dst, .hdr = &h, .data = view_of(NULL, 0), .type = HFI_RCV_EAGER};
	struct hfi_tid again;

	assert_int_equal(hfi_tid_update(g_fix.c, buf, 128, list, 1), 1);
	hfi_tid_free(g_fix.c, list, 1);
	assert_int_equal(place(&list[0], 0, list[0].gen, "x", 1), -ENOENT);
	assert_int_equal(hfi_tid_update(g_fix.c, buf, 128, &again, 1), 1);
	assert_int_equal(again.idx, list[0].idx);
	assert_int_equal(place(&list[0], 0, list[0].gen, "x", 1), -ENOENT);
	assert_int_equal(place(&again, 0, again.gen, "x", 1), 1);
	assert_int_equal(hfi_tid_place(g_fix.c, &eager, again.gen), -ENOENT);
	assert_int_equal(stats_now().tid_stale, 3);
	hfi_tid_free(g_fix.c, &again, 1);
}

/* Whatever a packet says, nothing is written beside what was programmed. */
static void place__any_header(void **state)
{
	struct rng rng = unit_rng();
	uint8_t data[64];

	memset(buf, 0, 1024);
	memset(data, 1, sizeof(data));
	assert_int_equal(hfi_tid_update(g_fix.c, buf + 256, 256, list, 1), 1);
	for (int i = 0; i < 100000; i++) {
		struct hfi_hdr h = pkt_from(0, 0);
		struct hfi_pkt pkt = {.src = g_fix.dst, .hdr = &h, .type = HFI_RCV_EXPECTED};

		pkt.data = view_of(data, (uint32_t)rng_below(&rng, sizeof(data)));
		h.kdeth = le32_put((uint32_t)rng_u64(&rng) & (i % 2 ? UINT32_MAX : 0x8000003f));
		hfi_tid_place(g_fix.c, &pkt, (uint16_t)(list[0].gen + i % 3 / 2));
	}
	for (unsigned i = 0; i < 256; i++)
		assert_true(!buf[i] && !buf[512 + i]);
	hfi_tid_free(g_fix.c, list, 1);
}

#define TEST(name_) cmocka_unit_test_setup_teardown(name_, fix_open, fix_close)
int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(update__cuts), TEST(update__runs_out), TEST(hdr__offsets),
		TEST(place__bounds), TEST(place__stale), TEST(place__any_header),
	};

	fix_env("");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
