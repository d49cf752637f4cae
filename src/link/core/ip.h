// SPDX-License-Identifier: BSD-2-Clause
// IP addresses in 16 bytes, IPv4 as IPv4-mapped IPv6: what they are, from text and from the system, and as text.
#ifndef SF_LINK_IP_H
#define SF_LINK_IP_H

#include "base/base.h"

struct sockaddr;
struct link_addr;

#define LINK_IP_TEXT 46 /* bytes that link_ip_text() writes at most */

/** link_ip_is_v4() - Whether @ip is an IPv4-mapped address. */
bool link_ip_is_v4(const uint8_t ip[16]);
/** link_ip_is_loopback() - 127/8 or ::1. */
bool link_ip_is_loopback(const uint8_t ip[16]);
/** link_ip_v4() - @ip as a number in host order, if it is an IPv4 address. link_ip_from_v4() - The reverse. */
bool link_ip_v4(const uint8_t ip[16], uint32_t *v4);
void link_ip_from_v4(uint32_t v4, uint8_t ip[16]);
/** link_ip_parse() - An IPv4 or IPv6 literal. */
bool link_ip_parse(const char *text, uint8_t ip[16]);
/** link_ip_of() - Of an address that the system gave; false for NULL and families other than IPv4 and IPv6. */
bool link_ip_of(const struct sockaddr *sa, uint8_t ip[16]);
/** link_ip_text() - "192.0.2.1" or "fd00::2" in @out, which is returned. */
const char *link_ip_text(const uint8_t ip[16], char out[LINK_IP_TEXT]);
/**
 * link_ip_user() - The user whose UDP socket is bound to @ip and @port on this host. 0; -ENOENT nobody; -errno cannot
 * be told. System calls.
 */
int link_ip_user(const uint8_t ip[16], uint16_t port, uint32_t *uid);

#define LINK_ADDR_TEXT 64 /* bytes that link_addr_text() writes at most */
/** link_addr_text() - "192.0.2.1:5000" or "[fd00::2]:5000" in @out, which is returned. */
const char *link_addr_text(const struct link_addr *a, char out[LINK_ADDR_TEXT]);

#endif
