// SPDX-License-Identifier: BSD-2-Clause
// Numbers of hosts as IP addresses and first UDP ports, both ways; the keys net= and map=.
#include "link/hostpart.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf.h"
#include "base/rng.h"
#include "link/core/ip.h"

#define LOOP_NET   0x7f000000u
#define LOOP_MASK  0xff000000u
#define LOOP_FIRST (LOOP_NET | 1u) /* adapter 0 of a host on loopback */

/* --- the keys net= and map= --- */

/* "5->10.0.0.5:20480", "5->fd00::5", "5->[fd00::5]:20480". @item is cut up. */
static bool map_item(char *item, uint16_t below, struct hostpart_row *row)
{
	char *ip = strstr(item, "->"), *base = NULL;
	long nr, port = HOSTPART_BASE;

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
	if (!conf_long(item, 0, HOSTPART_MAX, &nr) || !link_ip_parse(ip, row->ip))
		return false;
	if (base && *base && !conf_long(base, HOSTPART_BASE_MIN, HOSTPART_BASE_MAX, &port))
		return false;
	row->nr = (uint32_t)nr;
	row->base = (uint16_t)(port - below);
	return true;
}

static int map_parse(const char *map, struct hostpart *h, char *err, size_t err_len)
{
	char text[sizeof(((struct link_room *)0)->map)], *rest = text, *item;

	snprintf(text, sizeof(text), "%s", map);
	while ((item = strsep(&rest, ","))) {
		const char *word = h->kind->word;
		char show[64];

		while (*item == ' ')
			item++;
		if (!*item)
			continue;
		snprintf(show, sizeof(show), "%s", item);
		if (h->row_cnt == HOSTPART_ROWS)
			return conf_refuse(-EINVAL, err, err_len, "SOFTFABRIC_NET: map= has more than %u entries",
					   HOSTPART_ROWS);
		if (!map_item(item, h->kind->below, &h->row[h->row_cnt]))
			return conf_refuse(
				-EINVAL, err, err_len,
				"SOFTFABRIC_NET: map item %s is not %s->IP or %s->IP:BASE, such as 5->10.0.0.5:20480 "
				"(%s up to 0x%x, "
				"BASE from %u to %u)",
				show, word, word, word, h->kind->max, HOSTPART_BASE_MIN, HOSTPART_BASE_MAX);
		h->row_cnt++;
	}
	return 0;
}

static int net_parse(const char *net, struct hostpart *h, char *err, size_t err_len)
{
	char text[sizeof(((struct link_room *)0)->net)], *slash;
	long bits;
	uint8_t ip[16];

	snprintf(text, sizeof(text), "%s", net);
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	if (!slash || !conf_long(slash, 1, 31, &bits) || !link_ip_parse(text, ip) || !link_ip_v4(ip, &h->net))
		return conf_refuse(-EINVAL, err, err_len,
				   "SOFTFABRIC_NET: net=%s is not an IPv4 prefix, such as 10.1.0.0/16", net);
	h->mask = UINT32_MAX << (32 - bits);
	h->net &= h->mask;
	return 0;
}

/* --- our network --- */

/* The address of an interface as a number, if it is an IPv4 address. */
static bool sockaddr_v4(const struct sockaddr *sa, uint32_t *v4)
{
	uint8_t ip[16];

	return link_ip_of(sa, ip) && link_ip_v4(ip, v4);
}

static bool mask_find(uint32_t own, uint32_t *mask)
{
	struct ifaddrs *all;
	bool found = false;
	uint32_t v4;

	if (getifaddrs(&all))
		return false;
	for (struct ifaddrs *ifa = all; ifa && !found; ifa = ifa->ifa_next)
		found = sockaddr_v4(ifa->ifa_addr, &v4) && v4 == own && sockaddr_v4(ifa->ifa_netmask, mask);
	freeifaddrs(all);
	return found;
}

/* Numbers that tell hosts apart: the same sequence in all processes that share a loopback. */
static void host_mix(struct rng *out)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a */
	char boot[64] = "";
	ssize_t len = fd < 0 ? 0 : read(fd, boot, sizeof(boot));
	struct stat st;

	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)boot[i]) * 0x100000001b3ULL;
	rng_seed(out, hash ^ (stat("/proc/self/ns/net", &st) ? 0 : (uint64_t)st.st_ino));
}

/* Which host this is, as a number that leaves room for all its adapters. */
static uint32_t loop_base(const struct hostpart_kind *kind)
{
	struct rng mix;

	host_mix(&mix);
	return 1 + (uint32_t)rng_below(&mix, kind->max + 1 - kind->dev_max);
}

uint16_t hostpart_mark(const uint8_t own[16])
{
	struct rng mix;

	if (!link_ip_is_loopback(own))
		return 0;
	host_mix(&mix);
	return (uint16_t)(1 + rng_below(&mix, UINT16_MAX));
}

/* Adapters that no key puts anywhere. */
static bool is_loop(const struct hostpart *h, const struct link_room *room, uint32_t own)
{
	return !h->mask && (!*room->ifname || !strcmp(room->ifname, "lo")) && own - LOOP_FIRST < h->kind->dev_max;
}

/* @own is an IPv4 address or not; @v4 is it in host order. */
static void net_find(struct hostpart *h, const struct link_room *room, bool is_v4, uint32_t v4)
{
	if (!is_v4)
		return;
	if (is_loop(h, room, v4)) {
		h->loop = loop_base(h->kind);
		return;
	}
	if (h->mask || ((v4 & LOOP_MASK) != LOOP_NET && !mask_find(v4, &h->mask)))
		return;
	if ((v4 & LOOP_MASK) == LOOP_NET)
		h->mask = LOOP_MASK;
	h->net = v4 & h->mask;
}

static bool is_nr(const struct hostpart_kind *kind, uint32_t nr)
{
	return nr >= kind->min && nr <= kind->max;
}

/*
 * The entry for @ip whose ports include @port (0: any) and whose number is one of the kind; the first entry for @ip if
 * there is none. NULL.
 */
static const struct hostpart_row *row_of_ip(const struct hostpart *h, const uint8_t ip[16], uint16_t port)
{
	const struct hostpart_row *first = NULL;

	for (unsigned i = 0; i < h->row_cnt; i++) {
		const struct hostpart_row *row = &h->row[i];

		if (memcmp(row->ip, ip, 16) || (port && (port < row->base || port - row->base >= h->kind->port_cnt)))
			continue;
		if (is_nr(h->kind, row->nr))
			return row;
		if (!first)
			first = row;
	}
	return first;
}

static unsigned bits_of(uint32_t max)
{
	return max ? 32 - (unsigned)__builtin_clz(max) : 0;
}

/* Our own address @own without an entry in the map. */
static int own_check(const struct hostpart *h, const struct link_room *room, const uint8_t own[16], char *err,
		     size_t err_len)
{
	const struct hostpart_kind *k = h->kind;
	char text[LINK_IP_TEXT];
	uint32_t v4 = 0, nr;
	uint16_t base;

	if (!link_ip_v4(own, &v4) || (!h->mask && !h->loop))
		return conf_refuse(
			-EINVAL, err, err_len,
			"%s has no %s: it needs an IPv4 address, or an entry in SOFTFABRIC_NET=\"map=%s->IP,...\"",
			link_ip_text(own, text), k->name, k->word);
	if ((v4 & h->mask) != h->net)
		return conf_refuse(-EINVAL, err, err_len, "SOFTFABRIC_NET: our address %s is not in net=%s",
				   link_ip_text(own, text), room->net);
	if (hostpart_nr(h, own, 0, &nr, &base) || h->mask == UINT32_MAX)
		return conf_refuse(
			-EINVAL, err, err_len,
			"%s has no %s: the part behind its network's prefix must have 1 to %u bits and be from 0x%x to "
			"0x%x, but is 0x%x; "
			"SOFTFABRIC_NET=\"net=PREFIX\" or \"map=%s->IP,...\" name another",
			link_ip_text(own, text), k->name, bits_of(k->max), k->min, k->max, v4 & ~h->mask, k->word);
	return 0;
}

int hostpart_init(struct hostpart *h, const struct hostpart_kind *kind, const struct link_room *room,
		  const uint8_t own[16], char *err, size_t err_len)
{
	const struct hostpart_row *row;
	char text[LINK_IP_TEXT];
	uint32_t v4 = 0, nr;
	uint16_t base;
	uint8_t ip[16];
	bool is_v4 = link_ip_v4(own, &v4);

	*h = (struct hostpart){.kind = kind};
	if (map_parse(room->map, h, err, err_len) || (*room->net && net_parse(room->net, h, err, err_len)))
		return -EINVAL;
	net_find(h, room, is_v4, v4);
	row = row_of_ip(h, own, 0);
	if (!row && own_check(h, room, own, err, err_len))
		return -EINVAL;
	if (row && !is_nr(kind, row->nr))
		return conf_refuse(
			-EINVAL, err, err_len,
			"SOFTFABRIC_NET: map= gives %s the number 0x%x, which is no %s: those go from 0x%x to 0x%x",
			link_ip_text(own, text), row->nr, kind->name, kind->min, kind->max);
	if (!hostpart_nr(h, own, 0, &nr, &base) && !hostpart_ip(h, nr, ip, &base) && memcmp(ip, own, 16))
		return conf_refuse(-EINVAL, err, err_len,
				   "SOFTFABRIC_NET: map= gives our %s 0x%x to another IP address than ours, %s",
				   kind->name, nr, link_ip_text(own, text));
	return 0;
}

/* --- both ways --- */

int hostpart_ip(const struct hostpart *h, uint32_t nr, uint8_t ip[16], uint16_t *base)
{
	if (!is_nr(h->kind, nr))
		return -ENETUNREACH;
	for (unsigned i = 0; i < h->row_cnt; i++) {
		if (h->row[i].nr != nr)
			continue;
		memcpy(ip, h->row[i].ip, 16);
		*base = h->row[i].base;
		return 0;
	}
	*base = (uint16_t)(HOSTPART_BASE - h->kind->below);
	if (h->loop) {
		if (nr - h->loop >= h->kind->dev_max)
			return -ENETUNREACH;
		link_ip_from_v4(LOOP_FIRST + nr - h->loop, ip);
		return 0;
	}
	if (!h->mask || nr & h->mask)
		return -ENETUNREACH;
	link_ip_from_v4(h->net | nr, ip);
	return 0;
}

int hostpart_nr(const struct hostpart *h, const uint8_t ip[16], uint16_t port, uint32_t *nr, uint16_t *base)
{
	const struct hostpart_row *row = row_of_ip(h, ip, port);
	uint32_t v4;

	if (row && is_nr(h->kind, row->nr)) {
		*nr = row->nr;
		*base = row->base;
		return 0;
	}
	*base = (uint16_t)(HOSTPART_BASE - h->kind->below);
	if (!link_ip_v4(ip, &v4))
		return -ERANGE;
	if (h->loop) {
		*nr = h->loop + v4 - LOOP_FIRST;
		return v4 - LOOP_FIRST < h->kind->dev_max ? 0 : -ERANGE;
	}
	if (!h->mask || (v4 & h->mask) != h->net || !is_nr(h->kind, v4 & ~h->mask))
		return -ERANGE;
	*nr = v4 & ~h->mask;
	return 0;
}
