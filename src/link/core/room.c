// SPDX-License-Identifier: BSD-2-Clause
// The room: what SOFTFABRIC_NET and SOFTFABRIC_CONF say about paths and conditions, and which
// address an adapter takes.
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/guard.h"
#include "base/log.h"
#include "link/core/ip.h"
#include "link/link.h"
#include "link/net/seal.h"

#define ROOM_ENV       "SOFTFABRIC_NET"
#define ROOM_ERR_MAX   512
#define ROOM_MTU_MIN   512u
#define ROOM_MTU_MAX   61440u
#define ROOM_LOOP_BASE 0x7f000001u /* 127.0.0.1 */
#define ROOM_LOOP_NUM  0xfffffeu   /* addresses from it to the end of 127/8, broadcast left out */
#define ROOM_ADDR_MAX  64	   /* usable addresses of one interface that we look at */

/* What conf_parse() fills: text values have one fixed size there, those of struct link_room differ. */
struct room_conf {
	struct link_room r;
	char ifname[CONF_STR_MAX], net[CONF_STR_MAX], map[CONF_STR_MAX], pcap[CONF_STR_MAX];
	char key[CONF_STR_MAX];
	char partition[CONF_STR_MAX];
};

#define R_(member_) offsetof(struct room_conf, r.member_)
#define T_(member_) offsetof(struct room_conf, member_)

static const char room_words[] = "shm,udp";

static const struct conf_key room_keys[] = {
	{"", CONF_WORDS, R_(paths), "Paths that peers may be reached by.", 0, 0, room_words, "shm,udp"},
	{"paths", CONF_WORDS, R_(paths), "Paths that peers may be reached by.", 0, 0, room_words, "shm,udp"},
	{"loss", CONF_PPM, R_(drop_ppm), "Share of datagrams that are lost.", 0, 0, NULL},
	{"drop", CONF_PPM, R_(drop_ppm), "Another name for loss.", 0, 0, NULL},
	{"dup", CONF_PPM, R_(dup_ppm), "Share of datagrams that arrive twice.", 0, 0, NULL},
	{"reorder", CONF_PPM, R_(reorder_ppm), "Share of datagrams overtaken by others.", 0, 0, NULL},
	{"corrupt", CONF_PPM, R_(corrupt_ppm), "Share of datagrams with a wrong bit.", 0, 0, NULL},
	{"truncate", CONF_PPM, R_(truncate_ppm), "Share of datagrams cut short.", 0, 0, NULL},
	{"delay", CONF_NS, R_(delay_ns), "Added to each datagram, half more or less.", 0, 6e10, NULL},
	{"seed", CONF_U64, R_(seed), "Replays the same faults; 0 draws one and logs it.", 0, 0, NULL},
	{"dead_after", CONF_NS, R_(dead_after_ns), "Silence after which a peer is dead.", 0, 0, NULL, "30s"},
	{"linger", CONF_NS, R_(linger_ns), "Longest wait of a close for peers.", 0, 3.6e12, NULL, "1s"},
	{"partition", CONF_STR, T_(partition), "FROM-TO after opening: nothing passes, as 2s-3s.", 0, 0, NULL},
	{"drop_nth", CONF_U64, R_(drop_nth), "Lose just the n-th datagram of a port.", 0, 0, NULL},
	{"dup_nth", CONF_U64, R_(dup_nth), "Duplicate just the n-th datagram.", 0, 0, NULL},
	{"delay_nth", CONF_U64, R_(delay_nth), "Delay just the n-th datagram.", 0, 0, NULL},
	{"shm_budget", CONF_U64, R_(shm_budget), "Bytes of /dev/shm per user; 0: a quarter of what is free.", 0, 0,
	 NULL},
	{"mtu", CONF_U64, R_(mtu), "Largest UDP payload; if unset, what the system says for the path.", ROOM_MTU_MIN,
	 ROOM_MTU_MAX, NULL},
	{"if", CONF_STR, T_(ifname), "Interface name, address, or auto; lo if unset.", 0, 0, NULL},
	{"net", CONF_STR, T_(net), "Prefix of the hosts' addresses.", 0, 0, NULL},
	{"map", CONF_STR, T_(map), "Address table: NIC or LID -> IP[:base],...", 0, 0, NULL},
	{"pcap", CONF_STR, T_(pcap), "Capture file.", 0, 0, NULL},
	{"key", CONF_STR, T_(key), "File with the key that datagrams are sealed with.", 0, 0, NULL},
	{"secrecy", CONF_BOOL, R_(secrecy), "Sealed datagrams are encrypted, too.", 0, 0, NULL},
	{"guard", CONF_BOOL, R_(has_guard), "Survive accesses to memory that has gone.", 0, 0, NULL, "yes"},
};

static struct {
	pthread_mutex_t mutex; /* protects all of it until @is_parsed, then it is constant */
	bool is_parsed;
	int rc;
	char err[ROOM_ERR_MAX];
	struct link_room room;
} g_room = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* @key: for the sentence. Copies a text value into a member that is smaller than the parser's. */
static int take_text(const char *key, const char *v, char *dst, size_t dst_len, char *err,
		     size_t err_len)
{
	if (strlen(v) >= dst_len)
		return conf_refuse(-EINVAL, err, err_len,
				   ROOM_ENV ": %s= takes at most %zu characters", key, dst_len - 1);
	strcpy(dst, v);
	return 0;
}

/* What the table cannot check, and what follows from the settings. */
static int conf_finish(struct room_conf *c, struct link_room *out, char *err, size_t err_len)
{
	struct link_room *r = &c->r;
	int rc;

	if (*c->partition) {
		rc = conf_span(ROOM_ENV, "partition", c->partition, r->partition_ns, err,
			       err_len);
		if (rc)
			return rc;
	}
	rc = take_text("if", c->ifname, r->ifname, sizeof(r->ifname), err, err_len);
	if (!rc)
		rc = take_text("net", c->net, r->net, sizeof(r->net), err, err_len);
	if (!rc)
		rc = take_text("map", c->map, r->map, sizeof(r->map), err, err_len);
	if (!rc)
		rc = take_text("pcap", c->pcap, r->pcap, sizeof(r->pcap), err, err_len);
	if (!rc && *c->key)
		rc = seal_key_load(c->key, r->seal_key, err, err_len);
	else if (!rc && r->secrecy)
		rc = conf_refuse(-EINVAL, err, err_len, ROOM_ENV ": secrecy=yes needs key=FILE");
	if (rc)
		return rc;
	r->is_sealed = *c->key;
	r->has_faults = r->drop_ppm || r->dup_ppm || r->reorder_ppm || r->corrupt_ppm ||
			r->truncate_ppm || r->delay_ns || r->partition_ns[1] || r->drop_nth ||
			r->dup_nth || r->delay_nth;
	*out = *r;
	return 0;
}

static const struct conf_src room_src = {ROOM_ENV, "net", room_keys, ARRAY_SIZE(room_keys)};

int link_room_parse(const char *text, struct link_room *out, char *err, size_t err_len)
{
	struct room_conf c;
	int rc;

	if (!err)
		err_len = 0;
	conf_unset(room_keys, ARRAY_SIZE(room_keys), &c, sizeof(c));
	rc = conf_parse(ROOM_ENV, text, room_keys, ARRAY_SIZE(room_keys), &c, sizeof(c), err,
			err_len);
	return rc ? rc : conf_finish(&c, out, err, err_len);
}

static int room_load(struct link_room *out, char *err, size_t err_len)
{
	struct room_conf c;
	int rc;

	conf_unset(room_keys, ARRAY_SIZE(room_keys), &c, sizeof(c));
	rc = conf_read(&room_src, &c, sizeof(c), err, err_len);
	return rc ? rc : conf_finish(&c, out, err, err_len);
}

/* A forked child has one thread as yet; another one may have had the mutex at that moment. */
static void room_in_child(void)
{
	pthread_mutex_init(&g_room.mutex, NULL);
}

static void room_watch_fork(void)
{
	pthread_atfork(NULL, NULL, room_in_child);
}

int link_room_get(const struct link_room **out, char *err, size_t err_len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, room_watch_fork);
	pthread_mutex_lock(&g_room.mutex);
	if (!g_room.is_parsed) {
		g_room.rc = room_load(&g_room.room, g_room.err, sizeof(g_room.err));
		g_room.is_parsed = true;
		if (g_room.rc)
			LOG_WARN("%s", g_room.err);
		guard_allow(g_room.room.has_guard);
	}
	pthread_mutex_unlock(&g_room.mutex);
	if (g_room.rc)
		return conf_refuse(g_room.rc, err, err ? err_len : 0, "%s", g_room.err);
	*out = &g_room.room;
	return 0;
}

/* --- the address of an adapter --------------------------------------------------------------- */

/* False for families and scopes that peers cannot be given: anything but IP, and fe80::/10. */
static bool ip_usable(const struct sockaddr *sa, uint8_t ip[16])
{
	return link_ip_of(sa, ip) && !(ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80);
}

static int loop_ip(uint32_t base, unsigned n, uint8_t ip[16], char *err, size_t err_len)
{
	if (n >= ROOM_LOOP_NUM - (base - ROOM_LOOP_BASE))
		return conf_refuse(-ENODEV, err, err_len, "lo has no address for adapter %u", n);
	link_ip_from_v4(base + n, ip);
	return 0;
}

/* The interface of the IPv4 default route with the lowest metric. */
static int default_ifname(char *out, char *err, size_t err_len)
{
	char line[256], name[IF_NAMESIZE];
	unsigned long dst, gw, flags, metric, mask, best = ~0UL;
	FILE *f = fopen("/proc/net/route", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%15s %lx %lx %lx %*s %*s %lu %lx", name, &dst, &gw, &flags,
			   &metric, &mask) != 6)
			continue; /* the headline */
		if (dst || mask || !(flags & 1) || metric >= best)
			continue;
		best = metric;
		strcpy(out, name);
	}
	if (f)
		fclose(f);
	if (best == ~0UL)
		return conf_refuse(-ENODEV, err, err_len,
				   ROOM_ENV ": if=auto found no default route; name an interface, such as if=eth0");
	return 0;
}

/* The usable addresses of @ifname in the system's order; IPv4 only if there is any, since adapters
 * must understand each other. */
static unsigned if_addrs(const struct ifaddrs *ifa, const char *ifname, uint8_t out[][16])
{
	unsigned n4 = 0, n = 0;
	uint8_t ip[16];

	for (; ifa; ifa = ifa->ifa_next) {
		if (strcmp(ifa->ifa_name, ifname) || !ip_usable(ifa->ifa_addr, ip) ||
		    n >= ROOM_ADDR_MAX)
			continue;
		if (link_ip_is_v4(ip) && !n4)
			n = 0;
		if (link_ip_is_v4(ip) || !n4)
			memcpy(out[n++], ip, 16);
		n4 += link_ip_is_v4(ip);
	}
	return n;
}

static const char *if_of_addr(const struct ifaddrs *ifa, const uint8_t want[16])
{
	uint8_t ip[16];

	for (; ifa; ifa = ifa->ifa_next)
		if (ip_usable(ifa->ifa_addr, ip) && !memcmp(ip, want, 16))
			return ifa->ifa_name;
	return NULL;
}

/* "eth0, lo": the interfaces that would have worked. */
static void if_list(const struct ifaddrs *ifa, char *out, size_t len)
{
	uint8_t ip[16];
	size_t at = 0;

	*out = '\0';
	for (; ifa; ifa = ifa->ifa_next) {
		size_t l = strlen(ifa->ifa_name);
		const char *hit = strstr(out, ifa->ifa_name);

		if (!ip_usable(ifa->ifa_addr, ip) || (hit && (!hit[l] || hit[l] == ',')) ||
		    at + l + 3 > len)
			continue;
		at += (size_t)snprintf(out + at, len - at, "%s%s", at ? ", " : "", ifa->ifa_name);
	}
}

/* Moves @want to the front, the others keep their order. Return: the new count. */
static unsigned addr_first(uint8_t addr[][16], unsigned cnt, const uint8_t want[16])
{
	unsigned at = 0;

	while (at < cnt && memcmp(addr[at], want, 16))
		at++;
	if (at == ROOM_ADDR_MAX)
		at--;
	memmove(addr[1], addr[0], (size_t)at * 16);
	memcpy(addr[0], want, 16);
	return at == cnt ? cnt + 1 : cnt;
}

static int if_ip(const struct ifaddrs *all, const char *spec, unsigned n, uint8_t ip[16], char *err,
		 size_t err_len)
{
	uint8_t want[16], addr[ROOM_ADDR_MAX][16];
	const char *ifname = spec;
	char names[256];
	unsigned cnt;

	if (link_ip_parse(spec, want)) {
		ifname = if_of_addr(all, want);
		if (!ifname)
			return conf_refuse(-ENODEV, err, err_len,
					   ROOM_ENV ": if=%s is not an address of this host", spec);
	}
	cnt = if_addrs(all, ifname, addr);
	if (ifname != spec)
		cnt = addr_first(addr, cnt, want);
	if (n < cnt) {
		memcpy(ip, addr[n], 16);
		return 0;
	}
	if (cnt)
		return conf_refuse(-ENODEV, err, err_len,
				   "interface %s has %u usable address%s: none is left for adapter %u",
				   ifname, cnt, cnt == 1 ? "" : "es", n);
	if_list(all, names, sizeof(names));
	return conf_refuse(-ENODEV, err, err_len,
			   ROOM_ENV ": if=%s is no interface with an IP address; there are: %s",
			   ifname, names);
}

int link_room_ip(const struct link_room *room, unsigned n, uint8_t ip[16], char *err,
		 size_t err_len)
{
	char route[IF_NAMESIZE];
	const char *spec = room->ifname;
	struct ifaddrs *all;
	uint8_t want[16];
	int rc;

	if (!err)
		err_len = 0;
	if (!*spec || !strcmp(spec, "lo"))
		return loop_ip(ROOM_LOOP_BASE, n, ip, err, err_len);
	if (link_ip_parse(spec, want) && link_ip_is_v4(want) && want[12] == 127)
		return loop_ip((uint32_t)want[12] << 24 | want[13] << 16 | want[14] << 8 | want[15],
			       n, ip, err, err_len);
	if (!strcmp(spec, "auto")) {
		rc = default_ifname(route, err, err_len);
		if (rc)
			return rc;
		spec = route;
	}
	if (getifaddrs(&all))
		return conf_refuse(-ENODEV, err, err_len, "cannot list this host's addresses: %s",
				   strerror(errno));
	rc = if_ip(all, spec, n, ip, err, err_len);
	freeifaddrs(all);
	return rc;
}
