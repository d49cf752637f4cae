// SPDX-License-Identifier: BSD-2-Clause
// A soft HFI1 with one context over the fake link, and a peer that is only an address.
#ifndef SF_TESTS_UNIT_HFI_FIX_H
#define SF_TESTS_UNIT_HFI_FIX_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fake_link.h"
#include "link/link.h"
#include "nic/hfi/hfi_addr.h"
#include "nic/hfi/hfi_int.h"

#define PEER_RX 7

/* What on_pkt and on_gone were called with, in order. */
struct seen {
	bool is_gone, is_service;
	int status;
	enum hfi_rcv_type type;
	uint32_t psn, len;
	struct hfi_dst *src;
	le64_t w[2];
	uint8_t data[64]; /* the first bytes */
};
#define SEEN_MAX 256

struct fix {
	struct lock lock;
	struct hfi *hfi;
	struct hfi_ctxt *c;
	struct hfi_dst *dst;     /* the peer */
	struct link_addr from;   /* the same */
	struct link_port *port;  /* ours */
	struct seen seen[SEEN_MAX];
	unsigned cnt;
	bool refuses;            /* what is shown to on_service */
	unsigned copies;
	int copy_status;
};
extern struct fix g_fix;

/** fix_env() - The room, before the first test. @opx: more keys for SOFTFABRIC_OPX. */
void fix_env(const char *opx);
int fix_open(void **state);  /* setup and teardown of each test */
int fix_close(void **state);
/** pkt_from() - A packet from the peer that passes: its header, for @len bytes of payload. */
struct hfi_hdr pkt_from(uint32_t psn, size_t len);
/** put() - @h and @len bytes of payload come in. @is_polled: while the application polls. */
void put(const struct hfi_hdr *h, const void *data, size_t len, bool is_polled);
struct hfi_stats stats_now(void);
/** pair_port() - A port at the peer's address: what we send goes there. @on_frame: its handler. */
struct link_port *pair_port(int (*on_frame)(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len));

#endif
