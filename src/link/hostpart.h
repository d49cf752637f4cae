// SPDX-License-Identifier: BSD-2-Clause
// Small numbers for hosts (Cassini NIC addresses, HFI LIDs): the host part of their IPv4 addresses, and the keys net=
// and map=.
#ifndef SF_LINK_HOSTPART_H
#define SF_LINK_HOSTPART_H

#include "link/link.h"

/*
 * Theory of operation
 *
 * A number is the host part of an IPv4 address: what is left when the network's prefix is taken off. The prefix is that
 * of the key net=, else 127.0.0.0/8 for an address in it that if= names, else the netmask of the interface that has our
 * own address. What is left must be a number of the kind. The key map=NUMBER->IP[:BASE],... comes before that, entry by
 * entry: it can name any address (IPv6, too, in brackets when a base follows) and other UDP ports, so that several
 * hosts behind one IP address can be told apart.
 *
 * Without if= and net= adapters are on 127.0.0.1 and the next ones, on every host the same. There a number says which
 * host it is: it is a hash of the host's boot id and network namespace, plus the adapter's index. So ranks of two hosts
 * have no equal addresses (but for the chance of one in as many as there are numbers), and what belongs to another host
 * is refused instead of reaching somebody here.
 *
 * One map serves all kinds. BASE is a point in a host's UDP ports around which each kind has its own: the kind's @below
 * tells how far below it they begin. Without BASE it is HOSTPART_BASE:
 *
 *     BASE - 1280 ... BASE - 1      HFI: 160 contexts with 8 sub-contexts      by default 19200 ... 20479
 *     BASE ... BASE + 12287         Cassini: 24 classes of VNIs, 512 PIDs      by default 20480 ... 32767
 *
 * so hosts behind one IP address need BASEs that are 13568 apart. 32767 is directly below the range that Linux gives to
 * sockets that do not ask for a port (EFA's are such). An entry whose number is none of a kind (a NIC address above
 * 0xbfff is no LID) is not there for that kind; but an adapter whose own address has only such entries is refused.
 */

#define HOSTPART_ROWS     32u
#define HOSTPART_BASE     20480u
#define HOSTPART_BASE_MIN (1024u + 1280u) /* no kind begins among the privileged ports */
#define HOSTPART_BASE_MAX (65536u - 12288u)
#define HOSTPART_MAX      0xfffffu        /* of all kinds */

/* What the numbers are. Constant. */
struct hostpart_kind {
	const char *name;     /* "NIC address" */
	const char *word;     /* "NIC": in map=NIC->IP */
	uint32_t min, max;    /* legal numbers; max <= HOSTPART_MAX */
	uint32_t dev_max;     /* adapters of a host */
	uint16_t below;       /* its UDP ports begin at BASE - below */
	uint16_t port_cnt;    /* UDP ports of one number */
};

struct hostpart_row {
	uint32_t nr;
	uint16_t base;        /* its first UDP port */
	uint8_t ip[16];
};
struct hostpart {
	const struct hostpart_kind *kind;
	uint32_t net, mask;   /* IPv4, host order; mask 0: none */
	uint32_t loop;        /* number of adapter 0 of a host on loopback; 0: this one is not */
	unsigned row_cnt;
	struct hostpart_row row[HOSTPART_ROWS]; /* key map= */
};

/** hostpart_init() - What the room and our own address @own say. 0; -EINVAL with one sentence in @err. */
int hostpart_init(struct hostpart *h, const struct hostpart_kind *kind, const struct link_room *room,
		  const uint8_t own[16], char *err, size_t err_len);
/**
 * hostpart_ip() - IP address and first UDP port of number @nr: as map= says, or the host part put into the network; on
 * loopback one of this host's adapters. 0; -ENETUNREACH.
 * hostpart_nr() - The reverse; @port 0: any. 0; -ERANGE: not in the network, or the host part is no number of the kind.
 */
int hostpart_ip(const struct hostpart *h, uint32_t nr, uint8_t ip[16], uint16_t *base);
int hostpart_nr(const struct hostpart *h, const uint8_t ip[16], uint16_t port, uint32_t *nr, uint16_t *base);

/** hostpart_mark() - On loopback, where each host has @own: a hash of which host this is, never 0. Elsewhere 0. */
uint16_t hostpart_mark(const uint8_t own[16]);

#endif
