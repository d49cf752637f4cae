// SPDX-License-Identifier: BSD-2-Clause
// IP addresses in 16 bytes.
#include "link/core/ip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "link/link.h"

static_assert(LINK_IP_TEXT == INET6_ADDRSTRLEN, "any address");

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

bool link_ip_is_v4(const uint8_t ip[16])
{
	return !memcmp(ip, v4_prefix, sizeof(v4_prefix));
}

bool link_ip_is_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = {[15] = 1};

	return link_ip_is_v4(ip) ? ip[12] == 127 : !memcmp(ip, one, sizeof(one));
}

bool link_ip_v4(const uint8_t ip[16], uint32_t *v4)
{
	if (!link_ip_is_v4(ip))
		return false;
	*v4 = (uint32_t)ip[12] << 24 | (uint32_t)ip[13] << 16 | (uint32_t)ip[14] << 8 | ip[15];
	return true;
}

void link_ip_from_v4(uint32_t v4, uint8_t ip[16])
{
	memcpy(ip, v4_prefix, sizeof(v4_prefix));
	for (int i = 0; i < 4; i++)
		ip[12 + i] = (uint8_t)(v4 >> (24 - 8 * i));
}

bool link_ip_parse(const char *text, uint8_t ip[16])
{
	struct in_addr in4;

	if (inet_pton(AF_INET, text, &in4) != 1)
		return inet_pton(AF_INET6, text, ip) == 1;
	link_ip_from_v4(ntohl(in4.s_addr), ip);
	return true;
}

bool link_ip_of(const struct sockaddr *sa, uint8_t ip[16])
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in4;

	if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return false;
	if (sa->sa_family == AF_INET) {
		memcpy(&in4, sa, sizeof(in4));
		link_ip_from_v4(ntohl(in4.sin_addr.s_addr), ip);
	} else {
		memcpy(&in6, sa, sizeof(in6));
		memcpy(ip, &in6.sin6_addr, 16);
	}
	return true;
}

const char *link_ip_text(const uint8_t ip[16], char out[LINK_IP_TEXT])
{
	const bool is_v4 = link_ip_is_v4(ip);

	return inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? ip + 12 : ip, out, LINK_IP_TEXT);
}

/* The kernel writes each word of an address as a number in the host's order. */
int link_ip_user(const uint8_t ip[16], uint16_t port, uint32_t *uid)
{
	const bool is_v4 = link_ip_is_v4(ip);
	unsigned at_port, at_uid;
	char want[33], hex[33], line[512];
	int rc = -ENOENT, n = 0;
	uint32_t word;
	FILE *f = fopen(is_v4 ? "/proc/net/udp" : "/proc/net/udp6", "re");

	if (!f)
		return -errno;
	for (int i = is_v4 ? 12 : 0; i < 16; i += 4) {
		memcpy(&word, ip + i, 4);
		n += snprintf(want + n, sizeof(want) - (size_t)n, "%08X", (unsigned)word);
	}
	while (rc && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u", hex, &at_port, &at_uid) != 3 ||
		    at_port != port || strcmp(hex, want))
			continue;
		*uid = at_uid;
		rc = 0;
	}
	fclose(f);
	return rc;
}

const char *link_addr_text(const struct link_addr *a, char out[LINK_ADDR_TEXT])
{
	char ip[LINK_IP_TEXT];

	snprintf(out, LINK_ADDR_TEXT, link_ip_is_v4(a->ip) ? "%s:%u" : "[%s]:%u",
		 link_ip_text(a->ip, ip), a->port);
	return out;
}
