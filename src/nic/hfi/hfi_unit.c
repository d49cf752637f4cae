// SPDX-License-Identifier: BSD-2-Clause
// The soft room's HFIs: SOFTFABRIC_OPX, what sysfs shows of units and ports, job keys.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "nic/common/nic_room.h"
#include "nic/hfi/hfi.h"
#include "nic/hfi/hfi_addr.h"
#include "nic/hfi/hfi_assign.h"

/*
 * Theory of operation
 *
 * Grammar of SOFTFABRIC_OPX and of section [opx] in the file SOFTFABRIC_CONF, where each may repeat the other:
 *
 *   units=2;state=active,down;numa=0,1;contexts=4;pkeys=0x8001,0x8002;sl2sc=3:5,4:15;sc2vl=5:2;down=1s-2s
 *
 * state=, numa= and down= are lists, one entry per unit: an empty entry is the default, and the last one is for all
 * units that are left. sl2sc= and sc2vl= change single entries of the tables.
 */

#define ROOM_ENV     "SOFTFABRIC_OPX"
#define STATE_WORDS  "down, init, armed or active"
#define CREDITS_MAX  2047u	 /* the counters have 11 bits. Source: doc/facts/opx.md#pio-credits */
#define MTU_MIN	     2048u
#define NUMA_MAX     1023
#define SC_MANAGE    15u
#define DATA_VL_CNT  8u

struct room {
	struct nic_room all;
	uint64_t contexts, credits, rcvhdrq, egr, sdma_ring, mtu, rate;
	bool pkey_check;
	char state[CONF_STR_MAX], numa[CONF_STR_MAX], down[CONF_STR_MAX];
	char pkeys[CONF_STR_MAX], sl2sc[CONF_STR_MAX], sc2vl[CONF_STR_MAX];
};

#define OFF(member_) offsetof(struct room, member_)
/* What they are where nobody sets them is the driver's. Source: doc/facts/opx.md#driver-defaults */
static const struct conf_key room_key[] = {
	{"units", CONF_U64, OFF(all.cnt), "adapters", 0, HFI_UNIT_MAX, NULL, "1"},
	{"contexts", CONF_U64, OFF(contexts), "user contexts of a unit", 0, HFI_CTXT_MAX, NULL, "160"},
	{"credits", CONF_U64, OFF(credits), "PIO blocks of 64 bytes of a context", 0, CREDITS_MAX, NULL, "1024"},
	{"rcvhdrq", CONF_U64, OFF(rcvhdrq), "entries of a receive header queue, a multiple of 32", 32,
	 16384, NULL, "2048"},
	{"egr", CONF_U64, OFF(egr), "bytes of a context's eager buffers", HFI_MTU, 1u << 28, NULL, "8Mi"},
	{"sdma_ring", CONF_U64, OFF(sdma_ring), "entries of an SDMA completion ring", 2, 1024, NULL, "128"},
	{"mtu", CONF_U64, OFF(mtu), "payload bytes of a packet: 2048, 4096, 8192", MTU_MIN, HFI_MTU, NULL, "8192"},
	{"rate", CONF_U64, OFF(rate), "Gbit/s that the port claims", 1, 400, NULL, "100"},
	{"state", CONF_STR, OFF(state), "port states: active,down,init,armed", 0, 0, NULL},
	{"numa", CONF_STR, OFF(numa), "NUMA nodes, -1 unknown: 0,1", 0, 0, NULL},
	{"down", CONF_STR, OFF(down), "FROM-TO after opening: the port is down", 0, 0, NULL},
	{"pci", CONF_BOOL, OFF(all.pci), "yes: tell the PCI address, which is not here", 0, 0, NULL},
	{"pkeys", CONF_STR, OFF(pkeys), "the port's P_Keys: 0x8001,0x8002", 0, 0, NULL, "0x8001,0x7fff"},
	{"pkey_check", CONF_BOOL, OFF(pkey_check), "no: P_Keys cannot be set", 0, 0, NULL, "yes"},
	{"sl2sc", CONF_STR, OFF(sl2sc), "SL:SC,...", 0, 0, NULL},
	{"sc2vl", CONF_STR, OFF(sc2vl), "SC:VL,...", 0, 0, NULL},
};

/* --- the room --- */

/* What the table cannot say. */
static int room_check(const struct room *room, char *err, size_t err_len)
{
	const uint64_t blocks = 1 + room->mtu / HFI_PIO_BLOCK;

	if (!IS_POW2(room->mtu))
		return conf_refuse(-EINVAL, err, err_len, ROOM_ENV ": mtu=%llu is not one of 2048, 4096, 8192",
				   (unsigned long long)room->mtu);
	if (room->credits < blocks)
		return conf_refuse(-EINVAL, err, err_len,
				   ROOM_ENV ": credits=%llu hold no packet of mtu=%llu bytes: at least %llu",
				   (unsigned long long)room->credits, (unsigned long long)room->mtu,
				   (unsigned long long)blocks);
	if (room->rcvhdrq % 32)
		return conf_refuse(-EINVAL, err, err_len, ROOM_ENV ": rcvhdrq=%llu is not a multiple of 32",
				   (unsigned long long)room->rcvhdrq);
	return 0;
}

static const struct conf_src room_src = {ROOM_ENV, "opx", room_key, ARRAY_SIZE(room_key)};

static int room_read(struct nic_room *all, char *err, size_t err_len)
{
	struct room *room = container_of(all, struct room, all);
	int rc;

	conf_unset(room_key, ARRAY_SIZE(room_key), room, sizeof(*room));
	rc = conf_read(&room_src, room, sizeof(*room), err, err_len);
	return rc ? rc : room_check(room, err, err_len);
}

/* --- lists --- */

/* The next entry of a list, without blanks around it; NULL at the end. Cuts up what *@rest points to. */
static char *entry_next(char **rest)
{
	char *item = strsep(rest, ","), *end;

	if (!item)
		return NULL;
	item += strspn(item, " ");
	for (end = item + strlen(item); end > item && end[-1] == ' ';)
		*--end = '\0';
	return item;
}

/* Entry @idx of @list, else the last one. */
static void entry_at(const char *list, int idx, char out[CONF_STR_MAX])
{
	char text[CONF_STR_MAX], *rest = text, *item;

	snprintf(text, sizeof(text), "%s", list);
	do {
		item = entry_next(&rest);
	} while (rest && idx-- > 0);
	snprintf(out, CONF_STR_MAX, "%s", item);
}

static int state_parse(const char *list, int unit, enum hfi_port_state *out, char *err, size_t err_len)
{
	static const char *const word[] = {
		[HFI_PORT_DOWN] = "down",
		[HFI_PORT_INIT] = "init",
		[HFI_PORT_ARMED] = "armed",
		[HFI_PORT_ACTIVE] = "active",
	};
	char item[CONF_STR_MAX];

	entry_at(list, unit, item);
	*out = HFI_PORT_ACTIVE;
	if (!*item)
		return 0;
	for (int s = HFI_PORT_DOWN; s <= HFI_PORT_ACTIVE; s++) {
		if (!strcmp(item, word[s])) {
			*out = (enum hfi_port_state)s;
			return 0;
		}
	}
	return conf_refuse(-EINVAL, err, err_len, ROOM_ENV ": state=%.60s: %.40s is not " STATE_WORDS, list, item);
}

static int numa_parse(const char *list, int unit, int *out, char *err, size_t err_len)
{
	char item[CONF_STR_MAX];
	long node = -1;

	entry_at(list, unit, item);
	if (*item && !conf_long(item, -1, NUMA_MAX, &node))
		return conf_refuse(-EINVAL, err, err_len,
				   ROOM_ENV ": numa=%.60s: %.40s is not a NUMA node from 0 to %d, or -1 for unknown",
				   list, item, NUMA_MAX);
	*out = (int)node;
	return 0;
}

static int pkeys_parse(const char *list, struct hfi_unit_attr *u, char *err, size_t err_len)
{
	char text[CONF_STR_MAX], *rest = text, *item;
	long pkey;

	snprintf(text, sizeof(text), "%s", list);
	while ((item = entry_next(&rest))) {
		if (u->pkey_cnt == HFI_PKEY_MAX || !conf_long(item, 1, UINT16_MAX, &pkey))
			return conf_refuse(
				-EINVAL, err, err_len,
				ROOM_ENV
				": pkeys=%.60s is not one to %u P_Keys from 0x1 to 0xffff, such as 0x8001,0x8002",
				list, HFI_PKEY_MAX);
		u->pkeys[u->pkey_cnt++] = (uint16_t)pkey;
	}
	return 0;
}

/* "3:5,4:15" into @tab. @key, @max: name and largest value of the entries. */
static int pairs_parse(const char *key, const char *list, long max, uint8_t tab[HFI_SL_MAX], char *err, size_t err_len)
{
	char text[CONF_STR_MAX], *rest = text, *item, *to;
	long from, value;

	snprintf(text, sizeof(text), "%s", list);
	while (*list && (item = entry_next(&rest))) {
		to = strchr(item, ':');
		if (to)
			*to++ = '\0';
		if (!to || !conf_long(item, 0, HFI_SL_MAX - 1, &from) || !conf_long(to, 0, max, &value))
			return conf_refuse(
				-EINVAL, err, err_len,
				ROOM_ENV ": %s=%.60s is not FROM:TO,..., such as 3:%s with FROM up to %d, TO up to %ld",
				key, list, max == SC_MANAGE ? "2" : "5", HFI_SL_MAX - 1, max);
		tab[from] = (uint8_t)value;
	}
	return 0;
}

/* --- units --- */

static int tables_fill(const struct room *room, struct hfi_unit_attr *u, char *err, size_t err_len)
{
	for (unsigned i = 0; i < HFI_SL_MAX; i++) {
		u->sl2sc[i] = (uint8_t)i;
		u->sc2vl[i] = i == SC_MANAGE ? SC_MANAGE : (uint8_t)(i % DATA_VL_CNT);
	}
	if (pairs_parse("sl2sc", room->sl2sc, HFI_SL_MAX - 1, u->sl2sc, err, err_len) ||
	    pairs_parse("sc2vl", room->sc2vl, SC_MANAGE, u->sc2vl, err, err_len))
		return -EINVAL;
	for (unsigned i = 0; i < HFI_SL_MAX; i++)
		if (u->sc2vl[i] >= DATA_VL_CNT && u->sc2vl[i] != SC_MANAGE)
			return conf_refuse(-EINVAL, err, err_len,
					   ROOM_ENV ": sc2vl=%.60s: VL %u is none of 0 to %u and 15", room->sc2vl,
					   u->sc2vl[i], DATA_VL_CNT - 1);
	return 0;
}

static int lists_fill(const struct room *room, struct hfi_unit_attr *u, char *err, size_t err_len)
{
	char item[CONF_STR_MAX];
	int rc = state_parse(room->state, u->unit, &u->state, err, err_len);

	if (!rc)
		rc = numa_parse(room->numa, u->unit, &u->numa_node, err, err_len);
	if (!rc)
		rc = pkeys_parse(room->pkeys, u, err, err_len);
	if (!rc)
		rc = tables_fill(room, u, err, err_len);
	if (rc)
		return rc;
	entry_at(room->down, u->unit, item);
	return *item ? conf_span(ROOM_ENV, "down", item, u->down_ns, err, err_len) : 0;
}

/* fe80:: and a GUID that no other LID has. */
static void gid_fill(struct hfi_unit_attr *u)
{
	static const uint8_t head[13] = {0xfe, 0x80, [8] = 0x00, 0x11, 0x75, 0x01, 0x01};

	memcpy(u->gid, head, sizeof(head));
	u->gid[14] = (uint8_t)(u->lid >> 8);
	u->gid[15] = (uint8_t)u->lid;
}

static int unit_fill(const struct nic_room *all, int unit, const struct nic_place *at, void *attr, char *err,
		     size_t err_len)
{
	const struct room *room = container_of(all, struct room, all);
	struct hfi_unit_attr *out = attr;
	struct hostpart map;
	uint32_t lid;
	uint16_t base;
	int rc = hostpart_init(&map, &hfi_lid_kind, at->net, at->ip, err, err_len);

	if (rc)
		return rc;
	*out = (struct hfi_unit_attr){
		.unit = unit,
		.nctxts = (uint32_t)room->contexts,
		.credits = (uint32_t)room->credits,
		.rcvhdrq_cnt = (uint32_t)room->rcvhdrq,
		.rcvegr_bytes = (uint32_t)room->egr,
		.sdma_ring_size = (uint32_t)room->sdma_ring,
		.mtu = (uint32_t)room->mtu,
		.speed_bps = room->rate * 1000000000,
		.pkey_check = room->pkey_check,
		.vendor_id = 0x8086,
		.device_id = 0x24f0,
		.revision = 0x11,
		.pci_always = all->pci,
		.pci_bus = (uint8_t)(0x18 + 8 * unit),
	};
	rc = lists_fill(room, out, err, err_len);
	if (rc)
		return rc;
	must(!hostpart_nr(&map, at->ip, 0, &lid, &base)); /* as hostpart_init() has checked */
	out->lid = (uint16_t)lid;
	gid_fill(out);
	snprintf(out->name, sizeof(out->name), "hfi1_%d", unit);
	memcpy(out->ip, at->ip, 16);
	return 0;
}

static const struct nic_kind kind = {room_read, unit_fill};

int hfi_unit_cnt(char *err, size_t err_len)
{
	struct hfi_unit_attr attr;
	struct room room;

	return nic_cnt(&kind, &room.all, &attr, err, err_len);
}

int hfi_unit_query(int unit, struct hfi_unit_attr *out)
{
	struct room room;

	return nic_query(&kind, unit, &room.all, out);
}

int hfi_unit_free_ctxts(int unit)
{
	const struct link_room *net;
	struct hfi_unit_attr attr;
	struct hostpart map;
	char err[512];

	if (hfi_unit_query(unit, &attr) || link_room_get(&net, err, sizeof(err)) ||
	    hostpart_init(&map, &hfi_lid_kind, net, attr.ip, err, sizeof(err)))
		return -ENODEV;
	return (int)hfi_assign_free(&attr, &map, 0);
}

uint16_t hfi_jkey_of(uint32_t uid, bool is_admin)
{
	uint16_t jkey = (uint16_t)uid;

	if (is_admin)
		return jkey & (HFI_JKEY_ADMIN - 1);
	return jkey < 2 * HFI_JKEY_ADMIN ? jkey | 0x8000u : jkey; /* 32 to 63 are the kernel's */
}
