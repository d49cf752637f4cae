// SPDX-License-Identifier: BSD-2-Clause
// The GID of an adapter from the IP address that it sends from, and back.
#ifndef SF_NIC_EFANIC_EFANIC_GID_H
#define SF_NIC_EFANIC_EFANIC_GID_H

#include <string.h>

#include "base/base.h"
#include "base/le.h"

/*
 * A real adapter's only GID is link-local: fe80::/64 and the EUI-64 of its MAC address. Ours of
 * IPv4 address a.b.c.d is that of MAC address 02:5f:a:b:c:d, thus fe80::5f:aaff:febb:ccdd. No other
 * adapter can have it, since a room takes no address in fe80::/10 (link/core/room.c). An adapter with an
 * IPv6 address has that as its GID.
 *
 * Addresses are 16 bytes in network order, IPv4 as IPv4-mapped IPv6 (link/core/ip.h). These are halves
 * of them, read as little-endian numbers.
 */
#define EFANIC_GID_HEAD	   0x80feull		 /* fe80:: */
#define EFANIC_GID_TAIL	   0x000000feff005f00ull /* 00 5f a ff fe b c d without a, b, c, d */
#define EFANIC_GID_TAIL_ON 0x000000ffff00ffffull /* the bytes of it that are the same in all */
#define EFANIC_IPV4_TAIL   0xffff0000ull	 /* 00 00 ff ff a b c d without a, b, c, d */
#define EFANIC_IPV4_LAST   0xffffff0000000000ull /* b, c and d lie in the same place in both */

/* Is it ::ffff:a.b.c.d? */
static inline bool efanic_is_ipv4_mapped(uint64_t head, uint64_t tail)
{
	return !head && (uint32_t)tail == EFANIC_IPV4_TAIL;
}

/** efanic_gid_of_ip() - The GID of the adapter that sends from @ip. */
static inline void efanic_gid_of_ip(const uint8_t ip[16], uint8_t gid[16])
{
	le64_t w[2];
	uint64_t tail;

	memcpy(w, ip, 16);
	tail = le64_get(w[1]);
	if (efanic_is_ipv4_mapped(le64_get(w[0]), tail)) {
		w[0] = le64_put(EFANIC_GID_HEAD);
		w[1] = le64_put((tail & EFANIC_IPV4_LAST) | EFANIC_GID_TAIL |
				(tail >> 32 & 0xff) << 16);
	}
	memcpy(gid, w, 16);
}

/**
 * efanic_ip_of_gid() - Where the adapter with @gid is.
 * Return: false: no adapter has such a GID, it is an IPv4-mapped address; @ip is as before.
 */
static inline bool efanic_ip_of_gid(const uint8_t gid[16], uint8_t ip[16])
{
	uint64_t head, tail;
	le64_t w[2];

	memcpy(w, gid, 16);
	head = le64_get(w[0]);
	tail = le64_get(w[1]);
	if (efanic_is_ipv4_mapped(head, tail))
		return false;
	if (head == EFANIC_GID_HEAD && (tail & EFANIC_GID_TAIL_ON) == EFANIC_GID_TAIL) {
		w[0] = le64_put(0);
		w[1] = le64_put((tail & EFANIC_IPV4_LAST) | EFANIC_IPV4_TAIL |
				(tail >> 16 & 0xff) << 32);
	}
	memcpy(ip, w, 16);
	return true;
}

#endif
