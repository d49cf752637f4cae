// SPDX-License-Identifier: BSD-2-Clause
// Assignment of contexts: ASSIGN_CTXT and SET_PKEY of the driver, for all processes of this host, without anything that
// outlives them.
#ifndef SF_NIC_HFI_HFI_ASSIGN_H
#define SF_NIC_HFI_HFI_ASSIGN_H

#include "link/hostpart.h"
#include "link/link.h"
#include "nic/hfi/hfi.h"

/* A context, or sub-context of one, that this process holds. Embedded in the context. */
struct hfi_claim {
	struct link_port *port; /* NULL: none is held */
	uint16_t ctxt, subctxt;
	int fd[2];              /* sockets whose names tell others; -1 */
};

struct hfi_assign_attr {
	const struct hfi_unit_attr *unit;
	const struct hostpart *map;       /* from hostpart_init() with hfi_lid_kind */
	const struct hfi_ctxt_attr *want; /* uuid, ctxt, pkey, sl, subctxt_cnt, subctxt_id count here */
	struct lock *lock;                /* the node's */
	struct link_port_attr port;       /* node, no_shm, ops, ctx; the rest is set here (RAW, by place) */
	uint16_t jkey;
	bool port_is_up;                  /* hfi_port_is_up() */
	uint32_t scope;                   /* 0: the host's contexts; else those of one simulated world */
};

/**
 * hfi_assign_open() - Find a free context of the unit, or the one that is wanted, and open its port. With subctxt_cnt >
 * 0: join the context whose holders gave equal uuid, jkey, subctxt_cnt and subctxt_id, else found one. Not under the
 * lock; takes it for link_port_open().
 * @claim: out; port, ctxt and subctxt are written under the lock, before any callback of the port can come. After an
 *         error port is NULL.
 * Return: 0; -ENETDOWN; -EINVAL subctxt_cnt, ctxt or sl out of range, a management P_Key; -EPERM the room has
 * pkey_check=no; -ENOENT no such P_Key in the port's table; -EBUSY no free context, the wanted one is held, or all
 * sub-contexts are; -errno. Each logged once, with the reason and what helps.
 */
int hfi_assign_open(const struct hfi_assign_attr *attr, struct hfi_claim *claim);
/**
 * hfi_assign_close() - Closes the port as link_port_close_stats(), then gives back the context. Nothing, and zeroes, if
 * claim->port is NULL.
 */
void hfi_assign_close(struct hfi_claim *claim, struct link_stats *last);

/** hfi_assign_free() - Contexts of @unit that nobody on this host holds. System calls. */
unsigned hfi_assign_free(const struct hfi_unit_attr *unit, const struct hostpart *map, uint32_t scope);

/**
 * hfi_sl_path() - SC and VL that @unit's tables give to @sl (< HFI_SL_MAX). SC or VL 15 is for management only: 0 is
 * used instead, with a warning.
 */
void hfi_sl_path(const struct hfi_unit_attr *unit, uint8_t sl, uint8_t *sc, uint8_t *vl);

#endif
