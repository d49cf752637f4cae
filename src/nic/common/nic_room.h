// SPDX-License-Identifier: BSD-2-Clause
// The adapters of the soft room, of one kind: how many there are, and what each of them is.
#ifndef SF_NIC_COMMON_NIC_ROOM_H
#define SF_NIC_COMMON_NIC_ROOM_H

#include "link/link.h"

/*
 * Theory of operation
 *
 * A kind of adapter (EFA, Cassini, HFI1) has its own variable and section of settings, for instance SOFTFABRIC_EFA and
 * [efa], and a struct that holds the values of its keys and begins with struct nic_room. The room is read again at
 * every question, as a driver would be asked; it is small. The caller gives the memory: one struct of the kind's
 * values, one of its attributes.
 */

/* The values that every kind has, whatever it calls the keys. */
struct nic_room {
	uint64_t cnt; /* adapters */
	bool pci;     /* tell the PCI address, which is not here */
};

/* Where an adapter is. */
struct nic_place {
	const struct link_room *net;
	uint8_t ip[16];
};

struct nic_kind {
	/* Defaults, then what the user gives. 0; -EINVAL with one sentence in @err. */
	int (*read)(struct nic_room *room, char *err, size_t err_len);
	/* The attributes of adapter @idx of @room, which is at @at. 0; -errno with one sentence in @err. */
	int (*fill)(const struct nic_room *room, int idx, const struct nic_place *at, void *attr, char *err,
		    size_t err_len);
};

/**
 * nic_cnt() - Adapters of @kind. Not under a lock.
 * @room: memory of the kind's values. @attr: memory of one adapter's attributes.
 * Return: 0 with one sentence in @err (NULL if @err_len is 0) if the room is refused or one of them cannot be, and with
 * an empty one if there are none.
 */
int nic_cnt(const struct nic_kind *kind, struct nic_room *room, void *attr, char *err, size_t err_len);
/** nic_query() - The attributes of adapter @idx. Not under a lock. Return: 0; -ENODEV there is none. */
int nic_query(const struct nic_kind *kind, int idx, struct nic_room *room, void *attr);
/** nic_room_of() - The values of the room in which @kind has an adapter @idx. Return: 0; -ENODEV. */
int nic_room_of(const struct nic_kind *kind, int idx, struct nic_room *room);

#endif
