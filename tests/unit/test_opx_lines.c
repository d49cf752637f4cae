// SPDX-License-Identifier: BSD-2-Clause
// How many lines of shared memory a message of opx takes: each costs its way from one core to another.
#include <string.h>

#include "base/clock.h"
#include "base/lane.h"
#include "lines.h"
#include "nic/hfi/hfi_int.h"
#include "opx_world.h"

static struct world w;

/* Until the receive @context of the first endpoint is complete. */
static void finish(const void *context)
{
	uint64_t end = clk_now_ns(NULL) + 20 * NS_PER_SEC * unit_slow();
	struct fi_cq_err_entry err;
	void *ctx = NULL;
	int rc;

	do {
		rc = world_poll(&w, 0, &ctx, &err);
	} while (!rc && clk_now_ns(NULL) < end);
	assert_int_equal(rc, 1);
	assert_ptr_equal(ctx, context);
}

/* A message of up to 8 bytes is one line of a lane, one of 64 two; and each is what was sent. */
static void message__lines(void **state)
{
	static const struct {
		uint32_t len, lines;
	} row[] = {{0, 1}, {1, 1}, {7, 1}, {8, 1}, {9, 2}, {16, 2}, {17, 2}, {64, 2}, {65, 3}, {128, 3}};
	uint8_t buf[128], src[128];

	(void)state;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i + 1);
	world_open(&w, 0);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(row); i++) {
		const struct link_stats *st = link_port_stats(world_ep(&w, 1)->hw->claim.port);
		uint64_t frames = st->tx_frames, bytes = st->tx_bytes;
		uint32_t len = row[i / 2].len;

		memset(buf, 0, sizeof(buf));
		if (i % 2) {
			assert_int_equal(fi_trecv(w.ep[0], buf, len, NULL, w.to[1], i, 0, buf), 0);
			assert_int_equal(fi_tsenddata(w.ep[1], src, len, NULL, UINT32_MAX, w.to[0], i, src), 0);
		} else {
			assert_int_equal(fi_recv(w.ep[0], buf, len, NULL, w.to[1], buf), 0);
			assert_int_equal(fi_send(w.ep[1], src, len, NULL, w.to[0], src), 0);
		}
		assert_int_equal(st->tx_frames, frames + 1);
		assert_int_equal(DIV_ROUND_UP(st->tx_bytes - bytes + LANE_WORD0, LANE_SLOT), row[i / 2].lines);
		finish(buf);
		assert_memory_equal(buf, src, len);
		assert_true(len == sizeof(buf) || !buf[len]);
	}
	world_close(&w);
}

/* Header, payload, staging, acknowledgement: what is written for them. */
static void message__which_lines(void **state)
{
	static const struct lines_row row[] = {{0, 1, 0}, {8, 1, 0}, {16, 2, 0}, {64, 2, 0}, {1024, 1, 17}};
	struct lines_pair p;

	(void)state;
	world_open(&w, 0);
	for (int i = 0; i < 2; i++) {
		p.ep[i] = w.ep[i];
		p.cq[i] = w.cq[i];
		p.to[i] = w.to[!i];
		lines_open(&p.seg[i], world_ep(&w, i)->hw->claim.port);
	}
	lines_check(&p, row, ARRAY_SIZE(row));
	for (int i = 0; i < 2; i++)
		lines_close(&p.seg[i]);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message__lines),
		cmocka_unit_test(message__which_lines),
	};

	setenv("SOFTFABRIC_OPX", "units=1", 1);
	return cmocka_run_group_tests_name("opx_lines", tests, NULL, NULL);
}
