// SPDX-License-Identifier: BSD-2-Clause
// NIC addresses and PIDs as IP addresses and UDP ports.
#include "nic/cassini/cassini_int.h"

/*
 * Theory of operation
 *
 * Which host has a NIC address is a matter of link/hostpart.h. A PID becomes a UDP port: base + (VNI mod 24) x 512 +
 * PID.
 */

#define PORT_CLASSES 24u
#define PORT_STRIDE  512u

const struct hostpart_kind cassini_nic_kind = {
	.name = "NIC address",
	.word = "NIC",
	.max = CASSINI_NIC_MAX,
	.dev_max = CASSINI_DEV_MAX,
	.port_cnt = PORT_CLASSES * PORT_STRIDE,
};
static_assert(HOSTPART_BASE_MAX + PORT_CLASSES * PORT_STRIDE == 65536, "the last port of the last base");

static uint16_t port_off(uint16_t vni, uint16_t pid)
{
	return (uint16_t)(vni % PORT_CLASSES * PORT_STRIDE + pid);
}

uint16_t cassini_port_nr(uint16_t vni, uint16_t pid)
{
	return (uint16_t)(HOSTPART_BASE + port_off(vni, pid));
}

int cassini_addr_of(const struct cassini *nic, uint32_t nic_addr, uint16_t vni, uint16_t pid, struct link_addr *out)
{
	uint16_t base;
	int rc;

	*out = (struct link_addr){0};
	rc = hostpart_ip(&nic->addr, nic_addr, out->ip, &base);
	if (!rc)
		out->port = (uint16_t)(base + port_off(vni, pid));
	return rc;
}

bool cassini_is_far(const struct cassini *nic, uint32_t nic_addr)
{
	uint8_t ip[16];
	uint16_t base;

	return nic->addr.loop && hostpart_ip(&nic->addr, nic_addr, ip, &base);
}

int cassini_addr_who(const struct cassini *nic, const struct link_addr *addr, uint16_t vni, uint32_t *nic_addr,
		     uint16_t *pid)
{
	uint16_t base;
	int rc = hostpart_nr(&nic->addr, addr->ip, addr->port, nic_addr, &base);
	unsigned first;

	if (rc)
		return rc;
	first = (unsigned)base + port_off(vni, 0);
	if (addr->port < first || addr->port - first >= CASSINI_PID_CNT)
		return -ERANGE; /* not a port of our VNI */
	*pid = (uint16_t)(addr->port - first);
	return 0;
}

int cassini_nic_ip(const struct cassini *nic, uint32_t nic_addr, uint8_t ip[16])
{
	uint16_t base;

	return hostpart_ip(&nic->addr, nic_addr, ip, &base);
}

int cassini_ip_nic(const struct cassini *nic, const uint8_t ip[16], uint32_t *nic_addr)
{
	uint16_t base;

	return hostpart_nr(&nic->addr, ip, 0, nic_addr, &base);
}
