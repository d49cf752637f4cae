// SPDX-License-Identifier: BSD-2-Clause
// NIC addresses and PIDs as IP addresses and UDP ports.
#include "nic/cassini/cassini_int.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"

/*
 * Theory of operation
 *
 * A NIC address is the host part of an IPv4 address: what is left when the network's prefix is taken off. The prefix is that of the key net=, else
 * 127.0.0.0/8 for an address in it that if= names, else the netmask of the interface that has our own address. It must leave at most 20 bits. The
 * key map=NIC->IP[:BASE],... comes before that, entry by entry: it can name any address (IPv6, too, in brackets when a base follows) and another UDP
 * port base, so that several hosts behind one IP address can be told apart.
 *
 * Without if= and net= adapters are on 127.0.0.1 and the next ones, on every host the same. There a NIC address says which host it is: it is a hash
 * of the host's boot id and network namespace, plus the adapter's number. So ranks of two hosts never have equal addresses, and what belongs to
 * another host is refused instead of reaching somebody here. A PID alone would not do: it begins at 0 in every host.
 *
 * A PID becomes a UDP port: base + (VNI mod 24) x 512 + PID. The default base is chosen so that the last port is 32767, directly below
 * the range that Linux gives to sockets that do not ask for a port (EFA's are such).
 */

#define PORT_CLASSES 24u
#define PORT_STRIDE  512u
#define PORT_BASE    (32768u - PORT_CLASSES * PORT_STRIDE)
#define LOOP_NET     0x7f000000u
#define LOOP_MASK    0xff000000u
#define LOOP_FIRST   (LOOP_NET | 1u) /* adapter 0 of a host on loopback */

static const uint8_t v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool ip_v4(const uint8_t ip[16], uint32_t *v4)
{
	if (memcmp(ip, v4_prefix, sizeof(v4_prefix)))
		return false;
	*v4 = (uint32_t)ip[12] << 24 | (uint32_t)ip[13] << 16 | (uint32_t)ip[14] << 8 | ip[15];
	return true;
}

static void v4_ip(uint32_t v4, uint8_t ip[16])
{
	memcpy(ip, v4_prefix, sizeof(v4_prefix));
	for (int i = 0; i < 4; i++)
		ip[12 + i] = (uint8_t)(v4 >> (24 - 8 * i));
}

static const char *ip_text(const uint8_t ip[16], char out[INET6_ADDRSTRLEN])
{
	uint32_t v4;

	return inet_ntop(ip_v4(ip, &v4) ? AF_INET : AF_INET6, ip_v4(ip, &v4) ? ip + 12 : ip, out, INET6_ADDRSTRLEN);
}

static int __printf_like(3, 4) refuse(char *err, size_t err_len, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (err_len)
		vsnprintf(err, err_len, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* --- the keys net= and map= --- */

static bool ip_parse(const char *text, uint8_t ip[16])
{
	struct in_addr in4;

	if (inet_pton(AF_INET, text, &in4) != 1)
		return inet_pton(AF_INET6, text, ip) == 1;
	v4_ip(ntohl(in4.s_addr), ip);
	return true;
}

/* A number that fills @text and is at most @max. */
static bool number_parse(const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoul(text, &end, 0);
	return !*end && !errno && *out <= max;
}

/* "5->10.0.0.5:20000", "5->fd00::5", "5->[fd00::5]:20000". @item is cut up. */
static bool map_item(char *item, struct cassini_addr_row *row)
{
	char *ip = strstr(item, "->"), *base = NULL;
	unsigned long nic, port = PORT_BASE;

	if (!ip)
		return false;
	*ip = '\0';
	ip += 2;
	if (*ip == '[') {
		base = strchr(++ip, ']');
		if (!base)
			return false;
		*base++ = '\0';
		if (*base && *base++ != ':')
			return false;
	} else if ((base = strchr(ip, ':')) && !strchr(base + 1, ':')) {
		*base++ = '\0';
	} else {
		base = NULL;
	}
	if (!number_parse(item, CASSINI_NIC_MAX, &nic) || !ip_parse(ip, row->ip))
		return false;
	if (base && *base && (!number_parse(base, 65536 - PORT_CLASSES * PORT_STRIDE, &port) || !port))
		return false;
	row->nic = (uint32_t)nic;
	row->base = (uint16_t)port;
	return true;
}

static int map_parse(const char *map, struct cassini_addr *a, char *err, size_t err_len)
{
	char text[sizeof(((struct link_room *)0)->map)], *rest = text, *item;

	snprintf(text, sizeof(text), "%s", map);
	while ((item = strsep(&rest, ","))) {
		char show[64];

		while (*item == ' ')
			item++;
		if (!*item)
			continue;
		snprintf(show, sizeof(show), "%s", item);
		if (a->row_cnt == CASSINI_ADDR_ROWS || !map_item(item, &a->row[a->row_cnt]))
			return refuse(err, err_len,
				      "SOFTFABRIC_NET: map item %s is not NIC->IP or NIC->IP:BASE, such as 5->10.0.0.5:20480 (NIC up to 0x%x, "
				      "BASE up to %u)",
				      show, CASSINI_NIC_MAX, 65536 - PORT_CLASSES * PORT_STRIDE);
		a->row_cnt++;
	}
	return 0;
}

static int net_parse(const char *net, struct cassini_addr *a, char *err, size_t err_len)
{
	char text[sizeof(((struct link_room *)0)->net)], *slash;
	unsigned long bits = 0;
	uint8_t ip[16];

	snprintf(text, sizeof(text), "%s", net);
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	if (!slash || !number_parse(slash, 31, &bits) || !bits || !ip_parse(text, ip) || !ip_v4(ip, &a->net))
		return refuse(err, err_len, "SOFTFABRIC_NET: net=%s is not an IPv4 prefix, such as 10.1.0.0/16", net);
	a->mask = UINT32_MAX << (32 - bits);
	a->net &= a->mask;
	return 0;
}

/* --- our network --- */

static uint32_t sockaddr_v4(const struct sockaddr *sa)
{
	struct sockaddr_in in4;

	memcpy(&in4, sa, sizeof(in4));
	return ntohl(in4.sin_addr.s_addr);
}

static bool mask_find(uint32_t own, uint32_t *mask)
{
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (struct ifaddrs *ifa = all; ifa && !found; ifa = ifa->ifa_next) {
		if (!ifa->ifa_addr || !ifa->ifa_netmask || ifa->ifa_addr->sa_family != AF_INET || sockaddr_v4(ifa->ifa_addr) != own)
			continue;
		*mask = sockaddr_v4(ifa->ifa_netmask);
		found = true;
	}
	freeifaddrs(all);
	return found;
}

/* Which host this is, as a NIC address that leaves room for all its adapters; the same in all processes that share its loopback. */
static uint32_t loop_base(void)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a */
	char boot[64] = "";
	ssize_t len = fd < 0 ? 0 : read(fd, boot, sizeof(boot));
	struct stat st;
	struct rng mix;

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)boot[i]) * 0x100000001b3ULL;
	rng_seed(&mix, hash ^ (stat("/proc/self/ns/net", &st) ? 0 : (uint64_t)st.st_ino));
	return 1 + (uint32_t)rng_below(&mix, CASSINI_NIC_MAX + 1 - CASSINI_DEV_MAX);
}

/* Adapters that no key puts anywhere. */
static bool is_loop(const struct cassini_addr *a, const struct link_room *net, uint32_t own)
{
	return !a->mask && (!*net->ifname || !strcmp(net->ifname, "lo")) && own - LOOP_FIRST < CASSINI_DEV_MAX;
}

static const struct cassini_addr_row *row_of_ip(const struct cassini_addr *a, const uint8_t ip[16])
{
	for (unsigned i = 0; i < a->row_cnt; i++)
		if (!memcmp(a->row[i].ip, ip, 16))
			return &a->row[i];
	return NULL;
}

int cassini_addr_init(struct cassini_addr *a, const struct link_room *net, const uint8_t own[16], char *err, size_t err_len)
{
	char text[INET6_ADDRSTRLEN];
	uint32_t v4 = 0, nic;
	uint16_t base;
	uint8_t ip[16];

	*a = (struct cassini_addr){0};
	if (map_parse(net->map, a, err, err_len) || (*net->net && net_parse(net->net, a, err, err_len)))
		return -EINVAL;
	if (ip_v4(own, &v4) && is_loop(a, net, v4)) {
		a->loop = loop_base();
	} else if (!a->mask && ip_v4(own, &v4) && ((v4 & LOOP_MASK) == LOOP_NET || mask_find(v4, &a->mask))) {
		if ((v4 & LOOP_MASK) == LOOP_NET)
			a->mask = LOOP_MASK;
		a->net = v4 & a->mask;
	}
	if (row_of_ip(a, own))
		return 0;
	if (!ip_v4(own, &v4) || (!a->mask && !a->loop))
		return refuse(err, err_len, "%s has no NIC address: it needs an IPv4 address, or an entry in SOFTFABRIC_NET=\"map=NIC->IP,...\"",
			      ip_text(own, text));
	if ((v4 & a->mask) != a->net)
		return refuse(err, err_len, "SOFTFABRIC_NET: our address %s is not in net=%s", ip_text(own, text), net->net);
	if (cassini_addr_nic(a, own, 0, &nic, &base) || a->mask == UINT32_MAX)
		return refuse(err, err_len,
			      "%s has no NIC address: the part behind its network's prefix must have 1 to 20 bits; SOFTFABRIC_NET=\"net=PREFIX\" or "
			      "\"map=NIC->IP,...\" name another",
			      ip_text(own, text));
	if (!cassini_addr_ip(a, nic, ip, &base) && memcmp(ip, own, 16))
		return refuse(err, err_len, "SOFTFABRIC_NET: map= gives our NIC address 0x%x to another IP address than ours, %s", nic,
			      ip_text(own, text));
	return 0;
}

/* --- both ways --- */

int cassini_addr_ip(const struct cassini_addr *a, uint32_t nic, uint8_t ip[16], uint16_t *base)
{
	for (unsigned i = 0; i < a->row_cnt; i++) {
		if (a->row[i].nic != nic)
			continue;
		memcpy(ip, a->row[i].ip, 16);
		*base = a->row[i].base;
		return 0;
	}
	*base = PORT_BASE;
	if (a->loop) {
		if (nic - a->loop >= CASSINI_DEV_MAX)
			return -ENETUNREACH;
		v4_ip(LOOP_FIRST + nic - a->loop, ip);
		return 0;
	}
	if (!a->mask || nic > CASSINI_NIC_MAX || nic & a->mask)
		return -ENETUNREACH;
	v4_ip(a->net | nic, ip);
	return 0;
}

int cassini_addr_nic(const struct cassini_addr *a, const uint8_t ip[16], uint16_t port, uint32_t *nic, uint16_t *base)
{
	uint32_t v4;

	for (unsigned i = 0; i < a->row_cnt; i++) {
		const struct cassini_addr_row *row = &a->row[i];

		if (memcmp(row->ip, ip, 16) || (port && (port < row->base || port - row->base >= (int)(PORT_CLASSES * PORT_STRIDE))))
			continue;
		*nic = row->nic;
		*base = row->base;
		return 0;
	}
	*base = PORT_BASE;
	if (!ip_v4(ip, &v4))
		return -ERANGE;
	if (a->loop) {
		*nic = a->loop + v4 - LOOP_FIRST;
		return v4 - LOOP_FIRST < CASSINI_DEV_MAX ? 0 : -ERANGE;
	}
	if (!a->mask || (v4 & a->mask) != a->net || (v4 & ~a->mask) > CASSINI_NIC_MAX)
		return -ERANGE;
	*nic = v4 & ~a->mask;
	return 0;
}

static uint16_t port_off(uint16_t vni, uint16_t pid)
{
	return (uint16_t)(vni % PORT_CLASSES * PORT_STRIDE + pid);
}

uint16_t cassini_port_nr(uint16_t vni, uint16_t pid)
{
	return (uint16_t)(PORT_BASE + port_off(vni, pid));
}

int cassini_addr_of(const struct cassini *nic, uint32_t nic_addr, uint16_t vni, uint16_t pid, struct link_addr *out)
{
	uint16_t base;
	int rc;

	*out = (struct link_addr){0};
	rc = cassini_addr_ip(&nic->addr, nic_addr, out->ip, &base);
	if (!rc)
		out->port = (uint16_t)(base + port_off(vni, pid));
	return rc;
}

int cassini_addr_who(const struct cassini *nic, const struct link_addr *addr, uint16_t vni, uint32_t *nic_addr, uint16_t *pid)
{
	uint16_t base;
	int rc = cassini_addr_nic(&nic->addr, addr->ip, addr->port, nic_addr, &base);
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

	return cassini_addr_ip(&nic->addr, nic_addr, ip, &base);
}

int cassini_ip_nic(const struct cassini *nic, const uint8_t ip[16], uint32_t *nic_addr)
{
	uint16_t base;

	return cassini_addr_nic(&nic->addr, ip, 0, nic_addr, &base);
}
