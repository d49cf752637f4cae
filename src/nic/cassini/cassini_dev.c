// SPDX-License-Identifier: BSD-2-Clause
// The soft room's Cassini adapters: SOFTFABRIC_CXI, services, LNIs, profiles, resources.
#include "nic/cassini/cassini_int.h"

#include <unistd.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/mem.h"
#include "nic/common/nic_room.h"

/*
 * Theory of operation
 *
 * Grammar of SOFTFABRIC_CXI and of section [cxi] in the file
 * SOFTFABRIC_CONF, where each may repeat the other:
 *
 *   nics=4;gen=cassini2;les=1024;svc=2:vnis=1+10:uid=1000:tcs=best_effort+low_latency:les=64,3:system=yes
 *
 * svc= is a list of services, separated by commas: an id and what it allows, separated by colons. Service 1 exists
 * without being named: everybody, every VNI, the first four traffic classes; naming it changes it. A service without
 * uid= and gid= has every user as a member, one without vnis= allows every VNI. Both are parsed by conf_parse(), a
 * service after its colons have become semicolons, so its mistakes are explained likewise.
 */

#define ROOM_ENV   "SOFTFABRIC_CXI"
#define SVC_MAX    16
#define SVC_ID_MAX 65535
#define TLE_DFLT   512 /* of a service; Source: doc/facts/cxi.md#objects-of-the-adapter */
#define TC_WORDS   "dedicated_access,low_latency,bulk_data,best_effort,eth"
#define TC_DFLT	   ((1u << CASSINI_TC_ETH) - 1)

/* --- the room --- */

enum gen { GEN_CASSINI1, GEN_CASSINI2 };

struct room {
	struct nic_room all;
	uint32_t gen; /* enum gen */
	uint64_t max[CASSINI_RSRC_NUM];
	char svc[CONF_STR_MAX];
	int svc_cnt;
	struct cassini_svc_desc list[SVC_MAX];
};

static const struct rsrc_row {
	const char *name, *what;
} rsrc_row[CASSINI_RSRC_NUM] = {
	[CASSINI_RSRC_PTE] = {"PTE", "portal table entries"},
	[CASSINI_RSRC_TXQ] = {"TXQ", "transmit queues"},
	[CASSINI_RSRC_TGQ] = {"TGQ", "target queues"},
	[CASSINI_RSRC_EQ] = {"EQ", "event queues"},
	[CASSINI_RSRC_CT] = {"CT", "counting events"},
	[CASSINI_RSRC_LE] = {"LE", "list entries"},
	[CASSINI_RSRC_TLE] = {"TLE", "triggered list entries"},
	[CASSINI_RSRC_AC] = {"AC", "addressing contexts"},
};

#define OFF(member_) offsetof(struct room, member_)
/* What they are where nobody sets them is the adapter's. Source: doc/facts/cxi.md#objects-of-the-adapter */
#define MAX_KEY(name_, r_, help_, unset_) \
	{name_, CONF_U64, OFF(max) + CASSINI_RSRC_##r_ * sizeof(uint64_t), help_, 0, 1u << 20, NULL, unset_}
static const struct conf_key room_key[] = {
	{"nics", CONF_U64, OFF(all.cnt), "adapters", 0, CASSINI_DEV_MAX, NULL, "1"},
	{"gen", CONF_WORD, OFF(gen), "hardware generation", 0, 0, "cassini1,cassini2", "cassini2"},
	{"ptes", CONF_U64, OFF(max) + CASSINI_RSRC_PTE * sizeof(uint64_t), "portal table entries", 0,
	 CASSINI_PTN_CNT, NULL, "2048"},
	MAX_KEY("txqs", TXQ, "transmit queues", "1024"),
	MAX_KEY("tgqs", TGQ, "target queues", "512"),
	MAX_KEY("eqs", EQ, "event queues", "2047"),
	MAX_KEY("cts", CT, "counting events", "2047"),
	MAX_KEY("les", LE, "list entries", "16384"),
	MAX_KEY("tles", TLE, "triggered list entries", "2048"),
	MAX_KEY("acs", AC, "addressing contexts", "1022"),
	{"pci", CONF_BOOL, OFF(all.pci), "yes: tell the PCI address, which is not here", 0, 0, NULL},
	{"svc", CONF_STR, OFF(svc), "services: ID:vnis=1+10:uid=1000:tcs=best_effort,...", 0, 0, NULL},
};

/* One service as parsed. */
struct svc_conf {
	uint64_t max[CASSINI_RSRC_NUM];
	uint64_t uid, gid; /* UINT64_MAX: not given */
	uint32_t tcs;
	bool enabled, is_system;
	char vnis[CONF_STR_MAX];
};

#define SOFF(member_) offsetof(struct svc_conf, member_)
#define SVC_KEY(name_, r_, help_)                                                                                      \
	{                                                                                                              \
		name_, CONF_U64, SOFF(max) + CASSINI_RSRC_##r_ * sizeof(uint64_t), help_, 0, 1u << 20, NULL            \
	}
static const struct conf_key svc_key[] = {
	{"vnis", CONF_STR, SOFF(vnis), "at most four VNIs, 1+10", 0, 0, NULL},
	{"uid", CONF_U64, SOFF(uid), "member: user id", 0, INT32_MAX, NULL},
	{"gid", CONF_U64, SOFF(gid), "member: group id", 0, INT32_MAX, NULL},
	{"tcs", CONF_WORDS, SOFF(tcs), "traffic classes", 0, 0, TC_WORDS},
	{"enabled", CONF_BOOL, SOFF(enabled), "no: nobody may use it", 0, 0, NULL},
	{"system", CONF_BOOL, SOFF(is_system), "of the system, not for applications", 0, 0, NULL},
	SVC_KEY("ptes", PTE, "portal table entries"),
	SVC_KEY("txqs", TXQ, "transmit queues"),
	SVC_KEY("tgqs", TGQ, "target queues"),
	SVC_KEY("eqs", EQ, "event queues"),
	SVC_KEY("cts", CT, "counting events"),
	SVC_KEY("les", LE, "list entries"),
	SVC_KEY("tles", TLE, "triggered list entries"),
	SVC_KEY("acs", AC, "addressing contexts"),
};

/* "1+10" */
static int vnis_parse(const char *list, struct cassini_svc_desc *d, char *err, size_t err_len)
{
	char text[CONF_STR_MAX], *rest = text, *item;
	long vni;

	snprintf(text, sizeof(text), "%s", list);
	d->vni_cnt = 0;
	while ((item = strsep(&rest, "+"))) {
		if (d->vni_cnt == CASSINI_SVC_VNI_MAX || !conf_long(item, 1, UINT16_MAX, &vni))
			return conf_refuse(
				-EINVAL, err, err_len,
				ROOM_ENV ": service %u: vnis=%.40s is not one to %u VNIs from 1 to 65535, such as 1+10",
				d->svc_id, list, CASSINI_SVC_VNI_MAX);
		d->vni[d->vni_cnt++] = (uint16_t)vni;
	}
	d->restricted_vnis = true;
	return 0;
}

static void svc_default(const struct room *room, uint32_t id, struct cassini_svc_desc *d)
{
	*d = (struct cassini_svc_desc){.svc_id = id, .enabled = true, .uid = -1, .gid = -1, .vni_cnt = 2,
				       .vni = {1, 10}, .tcs = TC_DFLT};
	for (int r = 0; r < CASSINI_RSRC_NUM; r++)
		d->max[r] = (uint32_t)room->max[r];
	d->max[CASSINI_RSRC_TLE] = MIN(d->max[CASSINI_RSRC_TLE], (uint32_t)TLE_DFLT);
}

static int svc_take(const struct room *room, const struct svc_conf *c, struct cassini_svc_desc *d, char *err,
		    size_t err_len)
{
	d->enabled = c->enabled;
	d->is_system = c->is_system;
	if (c->uid != UINT64_MAX)
		d->uid = (int32_t)c->uid;
	if (c->gid != UINT64_MAX)
		d->gid = (int32_t)c->gid;
	d->restricted_members = d->uid >= 0 || d->gid >= 0;
	d->restricted_tcs = d->restricted_tcs || c->tcs != d->tcs;
	d->tcs = (uint8_t)c->tcs;
	for (int r = 0; r < CASSINI_RSRC_NUM; r++) {
		if (c->max[r] > room->max[r])
			return conf_refuse(-EINVAL, err, err_len,
					   ROOM_ENV ": service %u: %llu %s are more than the %llu of the adapter",
					   d->svc_id, (unsigned long long)c->max[r], rsrc_row[r].what,
					   (unsigned long long)room->max[r]);
		d->max[r] = (uint32_t)c->max[r];
	}
	return *c->vnis ? vnis_parse(c->vnis, d, err, err_len) : 0;
}

/* The entry of service @id, new if need be. NULL: too many. */
static struct cassini_svc_desc *svc_entry(struct room *room, uint32_t id)
{
	for (int i = 0; i < room->svc_cnt; i++)
		if (room->list[i].svc_id == id)
			return &room->list[i];
	if (room->svc_cnt == SVC_MAX)
		return NULL;
	svc_default(room, id, &room->list[room->svc_cnt]);
	return &room->list[room->svc_cnt++];
}

/* "2:vnis=1+10:uid=1000"; @text is cut up. */
static int svc_parse(struct room *room, char *text, char *err, size_t err_len)
{
	char *fields = strchr(text, ':'), what[48];
	struct cassini_svc_desc *d;
	struct svc_conf c = {.uid = UINT64_MAX, .gid = UINT64_MAX};
	long id;
	int rc;

	if (fields)
		*fields++ = '\0';
	if (!conf_long(text, 1, SVC_ID_MAX, &id))
		return conf_refuse(
			-EINVAL, err, err_len,
			ROOM_ENV
			": svc=%.40s does not begin with a service id from 1 to %u, as in svc=2:vnis=1+10:uid=1000",
			text, SVC_ID_MAX);
	d = svc_entry(room, (uint32_t)id);
	if (!d)
		return conf_refuse(-EINVAL, err, err_len, ROOM_ENV ": svc= names more than %u services", SVC_MAX);
	c.enabled = d->enabled;
	c.is_system = d->is_system;
	c.tcs = d->tcs;
	for (int r = 0; r < CASSINI_RSRC_NUM; r++)
		c.max[r] = d->max[r];
	snprintf(what, sizeof(what), ROOM_ENV " service %ld", id);
	for (char *p = fields; p && *p; p++)
		if (*p == ':')
			*p = ';';
	for (char *p = fields ? strstr(fields, "tcs=") : NULL; p && *p && *p != ';'; p++)
		if (*p == '+')
			*p = ',';
	rc = conf_parse(what, fields, svc_key, ARRAY_SIZE(svc_key), &c, sizeof(c), err, err_len);
	return rc ? rc : svc_take(room, &c, d, err, err_len);
}

static const struct conf_src room_src = {ROOM_ENV, "cxi", room_key, ARRAY_SIZE(room_key)};

static int room_read(struct nic_room *all, char *err, size_t err_len)
{
	struct room *room = container_of(all, struct room, all);
	char *rest = room->svc, *item;
	int rc;

	conf_unset(room_key, ARRAY_SIZE(room_key), room, sizeof(*room));
	rc = conf_read(&room_src, room, OFF(svc_cnt), err, err_len);
	if (rc)
		return rc;
	svc_entry(room, 1);
	while (!rc && (item = strsep(&rest, ","))) {
		if (*item)
			rc = svc_parse(room, item, err, err_len);
	}
	return rc;
}

/* --- adapters --- */

/* Where adapters sit. Source: doc/facts/cxi.md#adapters-on-a-node: four of them on a node. */
static const uint8_t slot_bus[CASSINI_DEV_MAX] = {0x21, 0x61, 0xa1, 0xe1, 0x22, 0x62, 0xa2, 0xe2};

static int info_fill(const struct nic_room *all, int idx, const struct nic_place *at, void *attr, char *err,
		     size_t err_len)
{
	const struct room *room = container_of(all, struct room, all);
	const bool is_2 = room->gen == GEN_CASSINI2;
	struct cassini_devinfo *out = attr;
	struct hostpart addr;
	uint16_t base;
	int rc = hostpart_init(&addr, &cassini_nic_kind, at->net, at->ip, err, err_len);

	if (rc)
		return rc;
	*out = (struct cassini_devinfo){
		.vendor_id = is_2 ? 0x1590 : 0x17db,
		.device_id = is_2 ? 0x0371 : 0x0501,
		.device_rev = is_2 ? 1 : 2, /* what drivers know */
		.pci_always = all->pci,
		.pci_bus = slot_bus[idx],
		.link_up = true,
		.mtu = 2112,
		.speed_bps = is_2 ? 400000000000 : 200000000000,
		.version = is_2 ? 2 : 1,
		.num_ptes = (uint32_t)room->max[CASSINI_RSRC_PTE],
		.num_txqs = (uint32_t)room->max[CASSINI_RSRC_TXQ],
		.num_tgqs = (uint32_t)room->max[CASSINI_RSRC_TGQ],
		.num_eqs = (uint32_t)room->max[CASSINI_RSRC_EQ],
		.num_cts = (uint32_t)room->max[CASSINI_RSRC_CT],
		.num_acs = (uint32_t)room->max[CASSINI_RSRC_AC],
		.num_tles = (uint32_t)room->max[CASSINI_RSRC_TLE],
		.num_les = (uint32_t)room->max[CASSINI_RSRC_LE],
	};
	must(!hostpart_nr(&addr, at->ip, 0, &out->nic, &base)); /* as hostpart_init() has checked */
	snprintf(out->name, sizeof(out->name), "cxi%d", idx);
	memcpy(out->ip, at->ip, 16);
	return 0;
}

static const struct nic_kind kind = {room_read, info_fill};

int cassini_dev_cnt(char *err, size_t err_len)
{
	struct cassini_devinfo info;
	struct room room;

	return nic_cnt(&kind, &room.all, &info, err, err_len);
}

int cassini_dev_query(int idx, struct cassini_devinfo *out)
{
	struct room room;

	return nic_query(&kind, idx, &room.all, out);
}

/* --- services --- */

int cassini_svc_list(int idx, struct cassini_svc_desc *out, int max)
{
	struct room room;

	if (nic_room_of(&kind, idx, &room.all))
		return 0;
	for (int i = 0; i < MIN(max, room.svc_cnt); i++)
		out[i] = room.list[i];
	return room.svc_cnt;
}

static const char *tc_name(unsigned tc)
{
	static const char *const name[CASSINI_TC_NUM] = {
		[CASSINI_TC_DEDICATED_ACCESS] = "dedicated_access", [CASSINI_TC_LOW_LATENCY] = "low_latency",
		[CASSINI_TC_BULK_DATA] = "bulk_data", [CASSINI_TC_BEST_EFFORT] = "best_effort",
		[CASSINI_TC_ETH] = "eth",
	};

	return tc < CASSINI_TC_NUM ? name[tc] : "unknown";
}

/* May this process use it at all? */
static int svc_member(const struct cassini_svc_desc *svc, char *why, size_t why_len)
{
	if (!svc->enabled)
		return conf_refuse(-EACCES, why, why_len, "service %u is disabled", svc->svc_id);
	if (!svc->restricted_members || (svc->uid >= 0 && (uid_t)svc->uid == geteuid()) ||
	    (svc->gid >= 0 && (gid_t)svc->gid == getegid()))
		return 0;
	return conf_refuse(-EACCES, why, why_len,
			   "user %u with group %u is not a member of service %u (uid %d, gid %d; -1: any other)",
			   (unsigned)geteuid(), (unsigned)getegid(), svc->svc_id, svc->uid, svc->gid);
}

static bool has_vni(const struct cassini_svc_desc *svc, uint16_t vni)
{
	for (int i = 0; i < svc->vni_cnt; i++)
		if (svc->vni[i] == vni)
			return true;
	return !svc->restricted_vnis;
}

static void vni_list(const struct cassini_svc_desc *svc, char *out, size_t len)
{
	size_t at = 0;

	*out = '\0';
	for (int i = 0; i < svc->vni_cnt && at < len; i++)
		at += (size_t)snprintf(out + at, len - at, "%s%u", i ? ", " : "", svc->vni[i]);
}

int cassini_svc_why(const struct cassini_svc_desc *svc, uint16_t vni, int tc, char *why, size_t why_len)
{
	int rc = svc_member(svc, why, why_len);
	char list[64];

	if (rc)
		return rc;
	if (!vni || !has_vni(svc, vni)) {
		vni_list(svc, list, sizeof(list));
		return conf_refuse(-EACCES, why, why_len, "VNI %u is not in service %u, which has %s", vni, svc->svc_id,
				   svc->restricted_vnis ? list : "all from 1 to 65535");
	}
	if (tc >= 0 && (tc >= CASSINI_TC_NUM || !(svc->tcs & 1u << tc)))
		return conf_refuse(-EACCES, why, why_len, "traffic class %d (%s) is not in service %u", tc,
				   tc_name((unsigned)tc), svc->svc_id);
	return 0;
}

static int svc_find(int idx, uint32_t svc_id, struct cassini_svc_desc *out, char *why, size_t why_len)
{
	struct cassini_svc_desc list[SVC_MAX];
	int cnt = cassini_svc_list(idx, list, SVC_MAX);

	for (int i = 0; i < cnt; i++) {
		if (list[i].svc_id == svc_id) {
			*out = list[i];
			return 0;
		}
	}
	return conf_refuse(-EINVAL, why, why_len,
			   "adapter cxi%d has no service %u; " ROOM_ENV "=\"svc=%u:vnis=...\" would make one", idx,
			   svc_id, svc_id);
}

int cassini_svc_check(int idx, uint32_t svc_id, uint16_t vni, int tc, char *why, size_t why_len)
{
	struct cassini_svc_desc svc;
	int rc = svc_find(idx, svc_id, &svc, why, why_len);

	return rc ? rc : cassini_svc_why(&svc, vni, tc, why, why_len);
}

/* --- an open adapter --- */

/* The adapter thread's turn: what hardware would do while the application computes. */
static void service(void *ctx)
{
	struct cassini *nic = ctx;
	struct cassini_dom *dom;

	nic->wake_ns = CLK_NEVER; /* who goes on waiting says so again */
	if (nic->open.service) {
		nic->open.service(nic->open.ctx);
		return;
	}
	nic->in_service = true;
	LIST_FOREACH(dom, &nic->doms, link)
		cassini_dom_poll(dom);
	nic->in_service = false;
}

void cassini_set_service(struct cassini *nic, void (*fn)(void *ctx), void *ctx)
{
	lock_assert_held(nic->open.lock);
	nic->open.ctx = ctx;
	nic->open.service = fn;
}

void cassini_wake(struct cassini *nic, uint64_t at_ns)
{
	lock_assert_held(nic->open.lock);
	nic->wake_ns = MIN(nic->wake_ns, at_ns);
}

static uint64_t next_deadline(void *ctx)
{
	const struct cassini *nic = ctx;
	const struct cassini_dom *dom;
	uint64_t at_ns = nic->wake_ns;

	LIST_FOREACH(dom, &nic->doms, link)
		at_ns = MIN(at_ns, cassini_dom_deadline(dom));
	return at_ns;
}

static int node_open(struct cassini *nic)
{
	struct link_node_attr attr = {
		.lock = nic->open.lock,
		.room = nic->net,
		.service = service,
		.next_deadline = next_deadline,
		.tell = cassini_stats_tell,
		.ctx = nic,
		.no_thread = nic->open.no_thread,
		.world = nic->open.world,
	};

	return link_node_open(&attr, &nic->node);
}

int cassini_open(const struct cassini_open_attr *attr, struct cassini **out)
{
	struct cassini *nic = mem_alloc(sizeof(*nic));
	char err[512] = "";
	int rc;

	if (!nic)
		return -ENOMEM;
	nic->open = *attr;
	rc = cassini_dev_query(attr->dev_idx, &nic->info);
	if (!rc)
		rc = link_room_get(&nic->net, err, sizeof(err)) ||
				     hostpart_init(&nic->addr, &cassini_nic_kind, nic->net, nic->info.ip, err,
						   sizeof(err))
			     ? -ENODEV
			     : 0;
	if (!rc)
		rc = node_open(nic);
	if (rc) {
		if (*err)
			LOG_WARN("%s", err);
		mem_free(nic);
		return rc;
	}
	LIST_INIT(&nic->lnis);
	LIST_INIT(&nic->doms);
	nic->wake_ns = CLK_NEVER;
	*out = nic;
	return 0;
}

void cassini_close(struct cassini *nic)
{
	if (!nic)
		return;
	assert(LIST_EMPTY(&nic->lnis));
	assert(LIST_EMPTY(&nic->doms));
	nic_stats_end(nic->node, nic->open.lock, cassini_stats_tell, nic);
	link_node_close(nic->node);
	mem_free(nic);
}

const struct cassini_devinfo *cassini_info(const struct cassini *nic)
{
	return &nic->info;
}

void cassini_idle(struct cassini *nic)
{
	link_idle(nic->node);
}

bool cassini_forked(const struct cassini *nic)
{
	return link_forked(nic->node);
}

const uint8_t *cassini_fork_mark(const struct cassini *nic)
{
	return link_fork_mark(nic->node);
}

uint64_t cassini_now_ns(const struct cassini *nic)
{
	return link_now_ns(nic->node);
}

/* --- LNIs, resources, profiles --- */

int cassini_lni_open(struct cassini *nic, uint32_t svc_id, struct cassini_lni **out)
{
	struct cassini_svc_desc svc;
	struct cassini_lni *lni;
	char why[256];
	int rc;

	lock_assert_held(nic->open.lock);
	rc = svc_find(nic->open.dev_idx, svc_id, &svc, why, sizeof(why));
	if (!rc)
		rc = svc_member(&svc, why, sizeof(why));
	if (rc) {
		LOG_WARN("%s: %s", nic->info.name, why);
		return rc;
	}
	lni = mem_alloc(sizeof(*lni));
	if (!lni)
		return -ENOMEM;
	lni->nic = nic;
	lni->svc = svc;
	lni->id = ++nic->next_rgid;
	LIST_INIT(&lni->cmdqs);
	LIST_INIT(&lni->waiting);
	LIST_INSERT_HEAD(&nic->lnis, lni, link);
	*out = lni;
	return 0;
}

void cassini_lni_close(struct cassini_lni *lni)
{
	if (!lni)
		return;
	lock_assert_held(lni->nic->open.lock);
	LIST_REMOVE(lni, link);
	mem_free(lni);
}

uint32_t cassini_lni_id(const struct cassini_lni *lni)
{
	return lni->id;
}

void cassini_rsrc(const struct cassini_lni *lni, enum cassini_rsrc r, uint32_t *used, uint32_t *max)
{
	*used = lni->used[r];
	*max = lni->svc.max[r];
}

int cassini_rsrc_get(struct cassini_lni *lni, enum cassini_rsrc r)
{
	if (likely(lni->used[r] < lni->svc.max[r])) {
		lni->used[r]++;
		return 0;
	}
	if (r != CASSINI_RSRC_LE)
		LOG_WARN("%s: service %u has no %s left: all %u %s are in use", lni->nic->info.name, lni->svc.svc_id,
			 rsrc_row[r].name, lni->svc.max[r], rsrc_row[r].what);
	return -ENOSPC;
}

void cassini_rsrc_put(struct cassini_lni *lni, enum cassini_rsrc r)
{
	must(lni->used[r]);
	lni->used[r]--;
}

int cassini_cp_open(struct cassini_lni *lni, uint16_t vni, enum cassini_tc tc, enum cassini_tc_type type,
		    struct cassini_cp **out)
{
	struct cassini_cp *room = NULL;
	char why[256];
	int rc;

	lock_assert_held(lni->nic->open.lock);
	if ((unsigned)tc >= CASSINI_TC_NUM || (unsigned)type >= CASSINI_TC_TYPE_NUM) {
		LOG_WARN("%s: no traffic class %d of type %d", lni->nic->info.name, (int)tc, (int)type);
		return -EINVAL;
	}
	rc = cassini_svc_why(&lni->svc, vni, (int)tc, why, sizeof(why));
	if (rc) {
		LOG_WARN("%s: %s", lni->nic->info.name, why);
		return rc;
	}
	for (unsigned i = CASSINI_LCID_MAX; i-- > 0;) {
		struct cassini_cp *cp = &lni->cp[i];

		if (!cp->refs) {
			room = cp;
		} else if (cp->vni == vni && cp->tc == tc && cp->type == type) {
			cp->refs++;
			*out = cp;
			return 0;
		}
	}
	if (!room) {
		LOG_WARN("%s: all %u communication profiles of the LNI are in use", lni->nic->info.name,
			 CASSINI_LCID_MAX);
		return -ENOSPC;
	}
	*room = (struct cassini_cp){lni, 1, vni, (uint8_t)tc, (uint8_t)type, (uint8_t)(room - lni->cp)};
	*out = room;
	return 0;
}

void cassini_cp_close(struct cassini_cp *cp)
{
	if (!cp)
		return;
	lock_assert_held(cp->lni->nic->open.lock);
	must(cp->refs);
	cp->refs--;
}
