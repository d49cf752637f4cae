// SPDX-License-Identifier: BSD-2-Clause
// The UDP carrier's socket: addresses, what it is told to do, and how long its datagrams may be.
#ifndef SF_LINK_UDP_SOCK_H
#define SF_LINK_UDP_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct link_addr;
struct link_port;

#define UDP_MTU_MIN  548u   /* every IPv4 host takes 576 bytes */
#define UDP_MTU_LOOP 65472u /* lo: largest payload we use: whole lines, below IP's limit */

/** udp_name_of() - What the system calls @a. Return: bytes of @out in use. */
socklen_t udp_name_of(const struct link_addr *a, struct sockaddr_in6 *out);
/** udp_addr_of() - The other way round. Return: false: of no family that we know. */
bool udp_addr_of(const struct sockaddr_in6 *name, struct link_addr *out);
/** udp_sock_tune() - Before it is bound; what fails costs speed, nothing else. Return: trains may be sent. */
bool udp_sock_tune(int fd, bool is_v4);
/** udp_sock_bind() - To @self, whose port may be 0: the bound one is written there. Return: 0; -errno, logged. */
int udp_sock_bind(int fd, struct link_addr *self);
/** udp_sock_mtu() - MTU of the interface that owns @p's address, as bytes of UDP payload. */
uint32_t udp_sock_mtu(const struct link_port *p, int fd);
/** udp_sock_pmtu() - @is_on: nothing is cut up, else whatever is too long. */
void udp_sock_pmtu(int fd, bool is_v4, bool is_on);

#endif
