// SPDX-License-Identifier: BSD-2-Clause
// Which lines of shared memory a message changes: the segments of both ports, read before and after it. Each changed
// line has to go from one core to another.
#ifndef SF_TESTS_UNIT_LINES_H
#define SF_TESTS_UNIT_LINES_H

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>

#include "base/clock.h"
#include "link/core/link_int.h"
#include "link/shm/shm_int.h"
#include "unit.h"

/* Changed lines by what they are for. */
struct lines {
	unsigned slots; /* of the lane: header and payload */
	unsigned stage; /* payload beside the lane */
	unsigned heads; /* how far its receiver is in it: the acknowledgement, if no message has brought it before */
	unsigned codes; /* of refusals */
	unsigned other; /* signs of life of polls that did something */
};

/* A segment as it was. Its holes, which nobody has written to, are not touched: they stay holes. */
struct lines_of {
	int fd;
	uint8_t *was, *now; /* SHM_FILE_LEN bytes each */
};

static inline void lines_open(struct lines_of *l, const struct link_port *port)
{
	char path[SHM_NAME_MAX];

	shm_seg_path(link_port_addr(port), path);
	l->fd = open(path, O_RDONLY);
	assert_true(l->fd >= 0);
	for (int i = 0; i < 2; i++) {
		uint8_t *mem = mmap(NULL, SHM_FILE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(mem != MAP_FAILED);
		*(i ? &l->now : &l->was) = mem;
	}
}

static inline void lines_close(struct lines_of *l)
{
	assert_int_equal(munmap(l->was, SHM_FILE_LEN), 0);
	assert_int_equal(munmap(l->now, SHM_FILE_LEN), 0);
	assert_int_equal(close(l->fd), 0);
}

static inline void lines_sort(struct lines *out, size_t at)
{
	size_t in_lane = (at - SHM_LANE_OFF) % SHM_LANE_STRIDE;

	if (at >= SHM_STAGE_OFF)
		out->stage++;
	else if (at < SHM_SHARED_OFF)
		out->other++;
	else if (at < SHM_LANE_OFF)
		out->codes++; /* and shared lanes, which nobody should need */
	else if (!in_lane)
		out->heads++;
	else if (in_lane < sizeof(struct lane_shm) + SHM_SLOTS_BIG * LANE_SLOT)
		out->slots++;
	else
		out->codes++;
}

/* Reads it again; adds what has changed to @out, NULL: nobody wants to know. */
static inline void lines_look(struct lines_of *l, struct lines *out)
{
	off_t at = 0, end;

	while ((at = lseek(l->fd, at, SEEK_DATA)) >= 0 && at < (off_t)SHM_FILE_LEN) {
		end = lseek(l->fd, at, SEEK_HOLE);
		assert_int_equal(pread(l->fd, l->now + at, (size_t)(end - at), at), end - at);
		for (; at < end; at += CACHE_LINE) {
			if (!memcmp(l->was + at, l->now + at, CACHE_LINE))
				continue;
			memcpy(l->was + at, l->now + at, CACHE_LINE);
			if (out)
				lines_sort(out, (size_t)at);
		}
	}
}

/* Two endpoints of this process, which have met: the first one sends, the second one receives. */
struct lines_pair {
	struct fid_ep *ep[2];
	struct fid_cq *cq[2];
	fi_addr_t to[2];
	struct lines_of seg[2];
};

/* Both have their turns until the send and the receive are complete. */
static inline void lines_turn(const struct lines_pair *p)
{
	uint64_t until = clk_now_ns(NULL) + unit_slow() * 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	int left[2] = {1, 1};

	while (left[0] || left[1]) {
		for (int i = 0; i < 2; i++)
			left[i] -= fi_cq_read(p->cq[i], &entry, (size_t)left[i]) == 1;
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* One message of @len bytes from @from to the other one; what it changes is added to @out. */
static inline void lines_message(struct lines_pair *p, int from, size_t len, struct lines *out)
{
	static uint8_t src[4096], dst[4096];
	static uint32_t any = 1;
	ssize_t ret;

	for (size_t i = 0; i < len; i++) {
		any = any * 1664525u + 1013904223u; /* no two lines are the same by chance */
		src[i] = (uint8_t)(any >> 24);
	}
	assert_int_equal(fi_trecv(p->ep[!from], dst, len, NULL, FI_ADDR_UNSPEC, 7, 0, NULL), 0);
	while ((ret = fi_tsend(p->ep[from], src, len, NULL, p->to[from], 7, NULL)) == -FI_EAGAIN)
		fi_cq_read(p->cq[from], NULL, 0);
	assert_int_equal(ret, 0);
	lines_turn(p);
	assert_memory_equal(src, dst, len);
	for (int i = 0; i < 2; i++)
		lines_look(&p->seg[i], out);
}

/* What one message of @len bytes changes. */
struct lines_row {
	size_t len;
	unsigned slots, stage;
};

/* LINES_CNT messages of each row in one direction, and as many in turns. */
#define LINES_CNT 64u
static inline void lines_check(struct lines_pair *p, const struct lines_row *row, size_t cnt)
{
	/* They meet, and each gets a lane of its own with the other. */
	for (int i = 0; i < 100; i++)
		lines_message(p, i % 2, 64, NULL);
	for (size_t i = 0; i < 2 * cnt; i++, row += i % 2 == 0) {
		struct lines l = {0};

		for (unsigned k = 0; k < LINES_CNT; k++)
			lines_message(p, i % 2 ? k % 2 : 0, row->len, &l);
		print_message("%zu bytes%s: slots %u, staging %u, heads %u, codes %u, other %u\n", row->len,
			      i % 2 ? ", in turns" : "", l.slots, l.stage, l.heads, l.codes, l.other);
		/* A provider may send something of its own now and then. */
		assert_in_range(l.slots, row->slots * LINES_CNT, row->slots * LINES_CNT + 4);
		assert_int_equal(l.stage, row->stage * LINES_CNT);
		assert_in_range(l.heads, 1, LINES_CNT + 4); /* each reads its lane to the end, and then says so */
		assert_int_equal(l.codes, 0);
	}
}

#endif
