// SPDX-License-Identifier: BSD-2-Clause
// The UDP carrier's socket: addresses, what it is told to do, and how long its datagrams may be.
#include "link/net/udp_sock.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/ioctl.h>

#include "link/core/link_int.h"

#define SOCK_BUF_LEN (4 << 20)

socklen_t udp_name_of(const struct link_addr *a, struct sockaddr_in6 *out)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(a->port)};

	if (link_ip_is_v4(a->ip)) {
		memcpy(&in4.sin_addr, a->ip + 12, 4);
		memcpy(out, &in4, sizeof(in4));
		return sizeof(in4);
	}
	*out = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(a->port)};
	memcpy(&out->sin6_addr, a->ip, 16);
	return sizeof(*out);
}

bool udp_addr_of(const struct sockaddr_in6 *name, struct link_addr *out)
{
	struct sockaddr_in in4;

	memset(out, 0, sizeof(*out));
	if (name->sin6_family == AF_INET6) {
		memcpy(out->ip, &name->sin6_addr, 16);
		out->port = ntohs(name->sin6_port);
		return true;
	}
	if (name->sin6_family != AF_INET)
		return false;
	memcpy(&in4, name, sizeof(in4));
	memset(out->ip + 10, 0xff, 2);
	memcpy(out->ip + 12, &in4.sin_addr, 4);
	out->port = ntohs(in4.sin_port);
	return true;
}

void udp_sock_pmtu(int fd, bool is_v4, bool is_on)
{
	int v4 = is_on ? IP_PMTUDISC_PROBE : IP_PMTUDISC_DONT;
	int v6 = is_on ? IPV6_PMTUDISC_PROBE : IPV6_PMTUDISC_DONT;

	if (is_v4)
		setsockopt(fd, SOL_IP, IP_MTU_DISCOVER, &v4, sizeof(v4));
	else
		setsockopt(fd, SOL_IPV6, IPV6_MTU_DISCOVER, &v6, sizeof(v6));
}

/* MTU of the interface that owns @p's address, as bytes of UDP payload. */
uint32_t udp_sock_mtu(const struct link_port *p, int fd)
{
	uint32_t head = link_ip_is_v4(p->self.ip) ? 28 : 48;
	struct ifreq req = {0};
	struct ifaddrs *all;
	struct link_addr a;
	int mtu = 0;

	if (link_ip_is_loopback(p->self.ip))
		return UDP_MTU_LOOP;
	if (getifaddrs(&all))
		return 1500 - head;
	for (struct ifaddrs *i = all; i && !mtu; i = i->ifa_next) {
		struct sockaddr_in6 name = {0};
		int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

		if (family != AF_INET && family != AF_INET6)
			continue;
		memcpy(&name, i->ifa_addr,
		       family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(name));
		if (!udp_addr_of(&name, &a) || memcmp(a.ip, p->self.ip, 16))
			continue;
		snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", i->ifa_name);
		if (!ioctl(fd, SIOCGIFMTU, &req))
			mtu = req.ifr_mtu;
	}
	freeifaddrs(all);
	if (mtu <= (int)(UDP_MTU_MIN + head))
		mtu = 1500;
	return MIN((uint32_t)mtu - head, UDP_MTU_LOOP);
}

/* Best effort: smaller buffers and no trains cost speed, nothing else. */
bool udp_sock_tune(int fd, bool is_v4)
{
	int one = 1, len = SOCK_BUF_LEN, off = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &len, sizeof(len)))
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &len, sizeof(len)))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof(len));
	if (is_v4) {
		setsockopt(fd, SOL_IP, IP_RECVERR, &one, sizeof(one));
	} else {
		setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &one, sizeof(one));
		setsockopt(fd, SOL_IPV6, IPV6_RECVERR, &one, sizeof(one));
	}
	udp_sock_pmtu(fd, is_v4, true);
	setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof(one));
	/* a kernel without the option refuses even its off value */
	return !setsockopt(fd, SOL_UDP, UDP_SEGMENT, &off, sizeof(off));
}

int udp_sock_bind(int fd, struct link_addr *self)
{
	struct sockaddr_in6 name;
	socklen_t len = udp_name_of(self, &name);
	struct link_addr bound;
	char text[LINK_ADDR_TEXT];
	int rc;

	if (bind(fd, (struct sockaddr *)&name, len)) {
		rc = -errno;
		/* who asks for a certain port may be looking for one that is free */
		log_line(rc == -EADDRINUSE && self->port ? LOG_LVL_INFO : LOG_LVL_WARN, __func__, __LINE__,
			 "cannot bind %s: %s", link_addr_text(self, text), strerror(-rc));
		return rc;
	}
	len = sizeof(name);
	if (getsockname(fd, (struct sockaddr *)&name, &len) || !udp_addr_of(&name, &bound))
		return -errno;
	self->port = bound.port;
	return 0;
}
