// SPDX-License-Identifier: BSD-2-Clause
// A provider without a device for the tests of kit/: fabric, domain and endpoints whose progress
// the test scripts.
#ifndef SF_TESTS_UNIT_KIT_FIX_H
#define SF_TESTS_UNIT_KIT_FIX_H

#include "kit/srx.h"

struct fix_ep {
	struct kit_ep kit;
	int progress_cnt;
	void (*script)(struct fix_ep *ep); /* run by each progress pass, lock held; NULL: idle */
};

struct fix {
	struct kit_fabric *fabric;
	struct kit_domain domain;
	int idle_cnt;
	bool forked;
	int64_t live; /* mem_live_count() at the start */
};

extern struct fi_provider g_fix_prov;

/** fix_open() - Fabric and domain for callers of API @version. */
void fix_open(struct fix *f, uint32_t version);
/** fix_close() - Both must close, and no memory may be left. */
void fix_close(struct fix *f);
/** fix_info() - An RDM info with everything; freed by fi_freeinfo(). */
struct fi_info *fix_info(void);
void fix_ep_open(struct fix *f, struct fix_ep *ep);

/** fix_resting() - Receives that have ended and wait to be posted again: all objects of @s that are left then. */
static inline uint32_t fix_resting(const struct kit_srx *s)
{
	uint32_t cnt = 0;

	for (const struct kit_rx *rx = s->rest; rx; rx = rx->rest)
		cnt++;
	return cnt;
}

/** fix_recv_buf() - A receive of one buffer, as fi_recv() makes it. */
static inline int fix_recv_buf(struct kit_srx *s, bool tagged, void *buf, size_t len, void *desc,
			       const struct kit_recv_args *a)
{
	struct iovec iov = {buf, len};
	struct kit_recv_args all = *a;

	all.iov = &iov;
	all.desc = &desc;
	all.iov_cnt = 1;
	return kit_srx_post(s, tagged, buf, len, desc, kit_wanted_src(s, a), a) ? 0 : kit_srx_recv(s, tagged, &all);
}

struct fix_log {
	char last[1024]; /* the last line logged by kit/ */
	int cnt, warnings;
};
extern struct fix_log g_fix_log;

#endif
