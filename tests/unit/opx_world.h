// SPDX-License-Identifier: BSD-2-Clause
// Endpoints of the whole opx provider in one process, of which the first is given packets that no honest peer sends.
#ifndef SF_TESTS_UNIT_OPX_WORLD_H
#define SF_TESTS_UNIT_OPX_WORLD_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "nic/hfi/hfi_wire.h"
#include "prov/opx/opx.h"
#include "unit.h"

#define WORLD_EPS    3 /* the victim, the one in whose name packets are forged, an honest one */
#define WORLD_KEY    7 /* everything is allowed */
#define WORLD_KEY_RO 8 /* only reads */
#define WORLD_MR_LEN 5000u

struct world {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_mr *mr[2];     /* both of @mem */
	struct fid_ep *ep[WORLD_EPS];
	struct fid_cq *cq[WORLD_EPS];
	struct fid_av *av[WORLD_EPS];
	fi_addr_t to[WORLD_EPS];  /* at each of them */
	uint8_t *mem;             /* of its own on the heap: a sanitizer sees its end */
};

enum { WORLD_UDP = 1, WORLD_TID = 2, WORLD_SMALL_RZV = 4, WORLD_SMALL_SDMA = 8 };
/** world_open() - Every two of them have met. @how: WORLD_*; without WORLD_UDP they are of one host. */
void world_open(struct world *w, unsigned how);
void world_close(struct world *w);
/**
 * world_poll() - One read of a queue. Return: 1 a completion, *@ctx is its context; -1 an error, also in *@err; 0
 * nothing.
 */
int world_poll(struct world *w, int ep, void **ctx, struct fi_cq_err_entry *err);
/** world_run() - Everybody makes progress, @rounds times, and completes nothing that a test waits for. */
void world_run(struct world *w, int rounds);

static inline struct opx_ep *world_ep(const struct world *w, int ep)
{
	return opx_ep_of(w->ep[ep]);
}
/** world_peer() - What the victim knows of endpoint @of. Lock held. */
struct opx_peer *world_peer(struct world *w, int of);
/** world_hdr() - The beginning of a packet to the victim. */
struct hfi_hdr world_hdr(struct world *w, uint8_t opcode, uint8_t aux, uint32_t imm);
/**
 * world_take() - The victim's reliability has passed this packet of endpoint 1. Return: false: opx_pkt_check() has not.
 * Not under the lock.
 */
bool world_take(struct world *w, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type);

#endif
