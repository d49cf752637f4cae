// SPDX-License-Identifier: BSD-2-Clause
// Which addresses this host has.
#include <ifaddrs.h>
#include <string.h>

#include "link/core/link_int.h"

#define HOST_REFRESH_NS NS_PER_SEC

/* The addresses of this host outside 127/8, as of the last look. */
struct host_addrs {
	uint64_t read_ns;
	uint32_t cnt, cap;
	uint8_t (*ip)[16];
};

struct host_addrs *host_addrs_open(void)
{
	return mem_alloc(sizeof(struct host_addrs));
}

void host_addrs_close(struct host_addrs *h)
{
	if (h)
		mem_free(h->ip);
	mem_free(h);
}

static void host_add(struct host_addrs *h, const uint8_t ip[16])
{
	uint8_t(*grown)[16];

	if (h->cnt == h->cap) {
		grown = mem_alloc(sizeof(*grown) * MAX(16u, 2 * h->cap));
		if (!grown)
			return; /* an address less: its peers go by UDP */
		memcpy(grown, h->ip, sizeof(*grown) * h->cnt);
		mem_free(h->ip);
		h->ip = grown;
		h->cap = MAX(16u, 2 * h->cap);
	}
	memcpy(h->ip[h->cnt++], ip, 16);
}

static void host_read(struct host_addrs *h)
{
	struct ifaddrs *all;
	uint8_t ip[16];

	if (getifaddrs(&all))
		return;
	h->cnt = 0;
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (link_ip_of(i->ifa_addr, ip))
			host_add(h, ip);
	freeifaddrs(all);
}

static bool host_find(const struct host_addrs *h, const uint8_t ip[16])
{
	for (uint32_t i = 0; i < h->cnt; i++)
		if (!memcmp(h->ip[i], ip, 16))
			return true;
	return false;
}

bool host_ip_is_local(struct link_node *n, const uint8_t ip[16])
{
	struct host_addrs *h = n->host;
	uint64_t now;

	if (link_ip_is_loopback(ip))
		return true;
	if (!h)
		return false;
	if (host_find(h, ip))
		return true;
	now = clk_now_ns(&n->clk);
	if (h->read_ns && now - h->read_ns < HOST_REFRESH_NS)
		return false;
	h->read_ns = now;
	host_read(h);
	return host_find(h, ip);
}
