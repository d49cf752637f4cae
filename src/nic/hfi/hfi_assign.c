// SPDX-License-Identifier: BSD-2-Clause
// Assignment of contexts to processes: who holds what is told by names of sockets, which vanish with their process.
#include "nic/hfi/hfi_assign.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "nic/hfi/hfi_addr.h"

/*
 * Theory of operation
 *
 * A context has HFI_SUBCTXT_MAX slots, each with a UDP port of its own; a context that is not shared uses slot 0.
 * Whoever holds a slot has its port open and a datagram socket bound to the abstract name
 *
 *     sf-hfi-IP-PORT-SCOPE                            and, of a shared context, another one bound to
 *     sf-hfi-IP-PORT-SCOPE-UUID-JKEY-ID-CNT
 *
 * Nothing is ever sent to them. To ask whether a name is taken is to connect to it, which disturbs nobody. Abstract
 * names belong to the network namespace, as UDP ports do, and go with the last process that has the socket: there is no
 * file, and nothing to clean up after a crash. (A child that was forked without exec keeps its parent's names, as it
 * keeps its ports.)
 *
 * Races. Who takes a slot binds its name first, which only one can, and looks afterwards whether somebody has come to
 * another slot of the context meanwhile: of two that do this one sees the other at least, and lets go. That needs no
 * lock. Only members of one group that open at the same time would found it twice; they take turns (group_lock()).
 * Slots are given back without the lock, the port first; an opener may then find a slot still taken, never free too
 * early.
 *
 * Other users. Every user who may open a socket can take names, as well as the contexts themselves, of which all users
 * have one set. Nobody is waited for but a process of the same user: the lock's name is passed over where somebody else
 * has it, and a group's name counts only where the UDP port of that slot is one of our user.
 *
 * A context is free if all its slots are. So members of a group whose founder has died keep their context: nobody else
 * is put into it, the founder's slot is the next one to be given to a joiner, and the group is over when its last
 * member is gone.
 */

#define NAME_PREFIX    "sf-hfi-"
#define LOCK_NAMES     8                   /* so many may be in the hands of other users */
#define LOCK_WAIT_NS   (2 * NS_PER_SEC)    /* for a process of our user, which may have been stopped */
#define LOCK_BIRTH_NS  (200 * NS_PER_MS)   /* for all that do not say whose they are */
#define LOCK_NAP_NS    200000u
#define CLASH_TRIES    8
#define HOLDERS_SHOWN  8
#define PKEY_LIM_MGMT  0x7fffu
#define PKEY_FULL_MGMT 0xffffu
#define SC_VL_MANAGE   15u

struct search {
	const struct hfi_assign_attr *attr;
	int probe;           /* socket that asks for names */
	uint32_t first, end; /* contexts that may be taken */
	int group;           /* context of the group that is full; -1 */
};

/* --- names --- */

static size_t hex(const uint8_t *bytes, size_t cnt, char *out)
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < cnt; i++) {
		out[2 * i] = digit[bytes[i] >> 4];
		out[2 * i + 1] = digit[bytes[i] & 15];
	}
	return 2 * cnt;
}

/* Of the slot with address @slot; with @want that of a member of its group. */
static socklen_t name_of(const struct link_addr *slot, uint32_t scope, const struct hfi_ctxt_attr *want, uint16_t jkey,
			 struct sockaddr_un *out)
{
	static const char prefix[] = NAME_PREFIX;
	const size_t max = sizeof(out->sun_path);
	char *text = out->sun_path;
	size_t at = 1; /* abstract: begins with a 0 */

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(text + at, prefix, sizeof(prefix) - 1);
	at += sizeof(prefix) - 1;
	at += hex(slot->ip, sizeof(slot->ip), text + at);
	if (scope)
		scope ^= (uint32_t)getpid() << 8; /* a simulated world is one process's */
	at += (size_t)snprintf(text + at, max - at, "-%u-%x", slot->port, scope);
	if (want) {
		text[at++] = '-';
		at += hex(want->uuid, sizeof(want->uuid), text + at);
		at += (size_t)snprintf(text + at, max - at, "-%x-%x-%x", jkey, want->subctxt_id, want->subctxt_cnt);
	}
	must(at < max); /* 1 + 7 + 32 + 1 + 5 + 1 + 8 + 1 + 32 + 1 + 4 + 1 + 4 + 1 + 1 = 100 at most */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at);
}

static int name_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

/* Return: the socket; -EADDRINUSE; -errno. */
static int name_take(const struct sockaddr_un *name, socklen_t len)
{
	int fd = name_socket(), rc;

	if (fd < 0 || !bind(fd, (const struct sockaddr *)name, len))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static bool name_is_taken(int probe, const struct sockaddr_un *name, socklen_t len)
{
	return !connect(probe, (const struct sockaddr *)name, len) || errno == EPERM || errno == EPROTOTYPE;
}

static bool slot_is_taken(int probe, const struct hfi_unit_attr *unit, const struct hostpart *map, uint32_t scope,
			  uint32_t ctxt, uint32_t sub)
{
	struct sockaddr_un name;
	struct link_addr slot;

	if (hfi_addr_of(map, unit->lid, (uint16_t)ctxt, (uint16_t)sub, &slot))
		return true;
	return name_is_taken(probe, &name, name_of(&slot, scope, NULL, 0, &name));
}

/* The first slot of @ctxt that somebody has; -1: it is free. */
static int ctxt_holder(int probe, const struct hfi_unit_attr *unit, const struct hostpart *map, uint32_t scope,
		       uint32_t ctxt)
{
	for (int sub = 0; sub < HFI_SUBCTXT_MAX; sub++)
		if (slot_is_taken(probe, unit, map, scope, ctxt, (uint32_t)sub))
			return sub;
	return -1;
}

unsigned hfi_assign_free(const struct hfi_unit_attr *unit, const struct hostpart *map, uint32_t scope)
{
	int probe = name_socket();
	unsigned cnt = 0;

	if (probe < 0) {
		LOG_WARN("%s: cannot look for free contexts: %s", unit->name, strerror(-probe));
		return 0;
	}
	for (uint32_t ctxt = 0; ctxt < unit->nctxts; ctxt++)
		cnt += ctxt_holder(probe, unit, map, scope, ctxt) < 0;
	close(probe);
	return cnt;
}

/* --- the lock of the groups of our user --- */

/*
 * A listening socket with an abstract name is the lock. The kernel tells who connects which user listens there, and
 * ends the connection when the holder lets go or dies. Where another user has taken the name the next one is the lock.
 * If such a one comes and goes just then two of us may hold different names; all that this costs is a group with two
 * contexts.
 */
static socklen_t lock_name(int nr, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, NAME_PREFIX "lock-%u-%d",
					    (unsigned)geteuid(), nr));
}

/*
 * Who has @name. Return: 0 nobody any more, or the holder let go by @until_ns; -ETIMEDOUT it has not; -EACCES another
 * user; -EAGAIN not told (yet).
 */
static int lock_wait(const char *unit, const struct sockaddr_un *name, socklen_t len, uint64_t until_ns)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc = -EAGAIN;
	struct pollfd pfd = {.fd = fd};
	struct ucred who = {0};
	socklen_t who_len = sizeof(who);
	uint64_t now;

	if (fd < 0)
		return -EACCES; /* without a descriptor there is nothing to wait with */
	if (!connect(fd, (const struct sockaddr *)name, len)) {
		rc = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_len) || who.uid != geteuid() ? -EACCES
												     : -ETIMEDOUT;
		if (rc == -EACCES)
			LOG_INFO("%s: user %u has our user's name for a lock: another one is taken", unit,
				 (unsigned)who.uid);
		while (rc == -ETIMEDOUT && (now = clk_now_ns(NULL)) < until_ns)
			if (poll(&pfd, 1, (int)((until_ns - now) / NS_PER_MS) + 1) > 0) /* the holder has hung up */
				rc = 0;
		if (rc == -ETIMEDOUT)
			LOG_WARN(
				"%s: process %d has been opening a shared context for long and may have been stopped: "
				"not waiting for it",
				unit, (int)who.pid);
	} else if (errno == EAGAIN) { /* the holder's queue of those who wait is full */
		rc = -EACCES;
	}
	close(fd);
	return rc;
}

/* Return: the socket that is the lock; -1: there is none to be had, and nobody is kept out. */
static int group_lock(const char *unit)
{
	const uint64_t until_ns = clk_now_ns(NULL) + LOCK_WAIT_NS;
	uint64_t birth_ns = clk_now_ns(NULL) + LOCK_BIRTH_NS;
	struct sockaddr_un name;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), nr = 0;

	while (fd >= 0 && nr < LOCK_NAMES) {
		socklen_t len = lock_name(nr, &name);
		int rc;

		if (!bind(fd, (const struct sockaddr *)&name, len) && !listen(fd, SOMAXCONN))
			return fd;
		rc = errno == EADDRINUSE ? lock_wait(unit, &name, len, until_ns) : -ETIMEDOUT;
		if (rc == -ETIMEDOUT)
			break;
		if (!rc) /* it was one of ours; the next one has just come, too */
			birth_ns = clk_now_ns(NULL) + LOCK_BIRTH_NS;
		if (rc == -EACCES || (rc == -EAGAIN && clk_now_ns(NULL) > birth_ns))
			nr++;
		else if (rc == -EAGAIN)
			nanosleep(&(struct timespec){.tv_nsec = LOCK_NAP_NS}, NULL);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Not by close() alone: a child that another thread forks meanwhile has the descriptor, too. */
static void group_unlock(int fd)
{
	if (fd < 0)
		return;
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

/* --- checks --- */

static const char *state_name(enum hfi_port_state state)
{
	static const char *const name[] = {
		[HFI_PORT_DOWN] = "DOWN",
		[HFI_PORT_INIT] = "INIT",
		[HFI_PORT_ARMED] = "ARMED",
		[HFI_PORT_ACTIVE] = "ACTIVE",
	};

	return name[state];
}

static int want_check(const struct hfi_assign_attr *attr)
{
	const struct hfi_unit_attr *u = attr->unit;
	const struct hfi_ctxt_attr *w = attr->want;

	if (u->state != HFI_PORT_ACTIVE) {
		LOG_WARN("%s: the port is %s, not ACTIVE; SOFTFABRIC_OPX=\"state=active\" would change it", u->name,
			 state_name(u->state));
		return -ENETDOWN;
	}
	if (!attr->port_is_up) {
		LOG_WARN("%s: the port is down now, as SOFTFABRIC_OPX=\"down=...\" wants it", u->name);
		return -ENETDOWN;
	}
	if (w->subctxt_cnt > HFI_SUBCTXT_MAX) {
		LOG_WARN("%s: a context cannot be shared by %u: at most %u", u->name, w->subctxt_cnt, HFI_SUBCTXT_MAX);
		return -EINVAL;
	}
	if (w->ctxt >= 0 && (uint32_t)w->ctxt >= u->nctxts) {
		LOG_WARN("%s: there is no context %d: %u in all (SOFTFABRIC_OPX=\"contexts=...\")", u->name, w->ctxt,
			 u->nctxts);
		return -EINVAL;
	}
	if (w->sl >= HFI_SL_MAX) {
		LOG_WARN("%s: there is no service level %u: they end at %u", u->name, w->sl, HFI_SL_MAX - 1);
		return -EINVAL;
	}
	return 0;
}

/* SET_PKEY. Source: doc/facts/opx.md#opening-a-context */
static int pkey_check(const struct hfi_unit_attr *u, uint16_t pkey)
{
	char list[HFI_PKEY_MAX * 8] = "";
	size_t at = 0;

	if (!u->pkey_check) {
		LOG_WARN("%s: no P_Key can be set: SOFTFABRIC_OPX has pkey_check=no", u->name);
		return -EPERM;
	}
	if (pkey == PKEY_LIM_MGMT || pkey == PKEY_FULL_MGMT) {
		LOG_WARN("%s: P_Key 0x%04x is for management only", u->name, pkey);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < u->pkey_cnt; i++) {
		if (u->pkeys[i] == pkey)
			return 0;
		at += (size_t)snprintf(list + at, sizeof(list) - at, "%s0x%04x", i ? "," : "", u->pkeys[i]);
	}
	LOG_WARN(
		"%s: P_Key 0x%04x is not in the port's table, which has %s; SOFTFABRIC_OPX=\"pkeys=%s,0x%04x\" would "
		"add it",
		u->name, pkey, list, list, pkey);
	return -ENOENT;
}

void hfi_sl_path(const struct hfi_unit_attr *unit, uint8_t sl, uint8_t *sc, uint8_t *vl)
{
	*sc = unit->sl2sc[sl % HFI_SL_MAX];
	*vl = unit->sc2vl[*sc % HFI_SL_MAX];
	if (*sc != SC_VL_MANAGE && *vl != SC_VL_MANAGE)
		return;
	LOG_WARN(
		"%s: service level %u leads to SC %u and VL %u, but 15 is for management only: SC %u and VL %u are "
		"used",
		unit->name, sl, *sc, *vl, *sc == SC_VL_MANAGE ? 0 : *sc, 0);
	if (*sc == SC_VL_MANAGE)
		*sc = 0;
	*vl = 0;
}

/* --- taking a slot --- */

static int port_open(const struct hfi_assign_attr *attr, const struct link_addr *slot, struct hfi_claim *claim)
{
	struct link_port_attr port = attr->port;
	int rc;

	memcpy(port.ip, slot->ip, sizeof(port.ip));
	port.port = slot->port;
	port.nonce = (uint32_t)rng_entropy() | 1;
	port.cls = LINK_RAW;
	port.by_place = true;
	lock_acquire(attr->lock);
	rc = link_port_open(&port, &claim->port);
	lock_release(attr->lock);
	return rc;
}

static void names_drop(struct hfi_claim *claim)
{
	for (size_t i = 0; i < ARRAY_SIZE(claim->fd); i++)
		if (claim->fd[i] >= 0)
			close(claim->fd[i]);
	*claim = (struct hfi_claim){.fd = {-1, -1}};
}

/* Whether @ctxt, of which slot @sub is ours, has somebody else in it who is not of our group. */
static bool is_clash(const struct search *s, uint32_t ctxt, uint32_t sub)
{
	const struct hfi_assign_attr *a = s->attr;
	struct sockaddr_un name;
	struct link_addr slot;

	for (uint32_t i = 0; i < HFI_SUBCTXT_MAX; i++) {
		if (i == sub || !slot_is_taken(s->probe, a->unit, a->map, a->scope, ctxt, i))
			continue;
		if (!a->want->subctxt_cnt || hfi_addr_of(a->map, a->unit->lid, (uint16_t)ctxt, (uint16_t)i, &slot) ||
		    !name_is_taken(s->probe, &name, name_of(&slot, a->scope, a->want, a->jkey, &name)))
			return true;
	}
	return false;
}

/* Return: 0; -EADDRINUSE somebody has it, quietly; -EAGAIN somebody else came at the same time; -errno. */
static int slot_take(const struct search *s, uint32_t ctxt, uint32_t sub, struct hfi_claim *claim)
{
	const struct hfi_assign_attr *a = s->attr;
	struct sockaddr_un name;
	struct link_addr slot;
	int rc = hfi_addr_of(a->map, a->unit->lid, (uint16_t)ctxt, (uint16_t)sub, &slot);

	if (rc)
		return rc;
	*claim = (struct hfi_claim){.ctxt = (uint16_t)ctxt, .subctxt = (uint16_t)sub, .fd = {-1, -1}};
	for (int i = 0; i <= (a->want->subctxt_cnt > 0); i++) {
		claim->fd[i] = name_take(&name, name_of(&slot, a->scope, i ? a->want : NULL, a->jkey, &name));
		rc = claim->fd[i];
		if (rc >= 0)
			continue;
		if (rc != -EADDRINUSE)
			LOG_WARN("%s: context %u cannot be marked as held: %s", a->unit->name, ctxt, strerror(-rc));
		goto err_names;
	}
	rc = is_clash(s, ctxt, sub) ? -EAGAIN : port_open(a, &slot, claim); /* logs */
	if (rc)
		goto err_names;
	return 0;

err_names:
	names_drop(claim);
	return rc;
}

/* A context that nobody has. Return: 0; -EBUSY; -errno. */
static int free_take(const struct search *s, struct hfi_claim *claim)
{
	const struct hfi_assign_attr *a = s->attr;

	const uint32_t cnt = s->end - s->first;

	for (uint32_t i = 0; i < cnt; i++) {
		uint32_t ctxt = s->first + (a->want->first % cnt + i) % cnt;
		int rc;

		if (ctxt_holder(s->probe, a->unit, a->map, a->scope, ctxt) >= 0)
			continue;
		rc = slot_take(s, ctxt, 0, claim);
		if (rc != -EADDRINUSE && rc != -EAGAIN)
			return rc;
	}
	return -EBUSY;
}

/* Whether the slot, whose names somebody has, is held by our user: who may bind names need not be one of the group. */
static bool is_ours(const struct search *s, const struct link_addr *slot)
{
	uint32_t uid = geteuid();
	int rc = s->attr->scope ? -ENOSYS : link_port_user(slot->ip, slot->port, &uid);

	return rc != -ENOENT && uid == (uint32_t)geteuid();
}

static bool is_group(const struct search *s, uint32_t ctxt)
{
	const struct hfi_assign_attr *a = s->attr;
	struct sockaddr_un name;
	struct link_addr slot;

	for (uint16_t sub = 0; sub < a->want->subctxt_cnt; sub++)
		if (!hfi_addr_of(a->map, a->unit->lid, (uint16_t)ctxt, sub, &slot) &&
		    name_is_taken(s->probe, &name, name_of(&slot, a->scope, a->want, a->jkey, &name)) &&
		    is_ours(s, &slot))
			return true;
	return false;
}

/* Join the group of the attributes, else found one. */
static int shared_take(struct search *s, struct hfi_claim *claim)
{
	uint32_t ctxt = s->first;

	while (ctxt < s->end && !is_group(s, ctxt))
		ctxt++;
	if (ctxt == s->end)
		return free_take(s, claim);
	for (uint16_t sub = 0; sub < s->attr->want->subctxt_cnt; sub++) {
		int rc = slot_take(s, ctxt, sub, claim);

		if (rc != -EADDRINUSE)
			return rc;
	}
	s->group = (int)ctxt;
	return -EBUSY;
}

/* --- nothing is free --- */

struct holders {
	unsigned cnt, unknown;
	unsigned strange;    /* of the unknown: those of other users ... */
	uint32_t uid;        /* ... such as this one */
	struct {
		int pid;
		unsigned ctxts;
	} list[HOLDERS_SHOWN];
};

static void holder_add(const struct hfi_assign_attr *a, struct holders *h, uint32_t ctxt, uint32_t sub)
{
	struct link_addr slot;
	uint32_t uid = geteuid();
	int pid = 0;

	if (!a->scope && !hfi_addr_of(a->map, a->unit->lid, (uint16_t)ctxt, (uint16_t)sub, &slot)) {
		pid = link_port_holder(slot.ip, slot.port);
		if (!link_port_user(slot.ip, slot.port, &uid) && uid != (uint32_t)geteuid())
			h->uid = uid, h->strange++;
	}
	for (unsigned i = 0; pid && i < h->cnt; i++) {
		if (h->list[i].pid == pid) {
			h->list[i].ctxts++;
			return;
		}
	}
	if (!pid || h->cnt == HOLDERS_SHOWN) {
		h->unknown++;
		return;
	}
	h->list[h->cnt].pid = pid;
	h->list[h->cnt++].ctxts = 1;
}

#define HOLDERS_TEXT (HOLDERS_SHOWN * 40 + 80)

/* "process 12 has 3, process 14 has 1, others have 2" */
static const char *holders_text(const struct holders *h, char out[HOLDERS_TEXT])
{
	size_t at = 0, len = HOLDERS_TEXT;

	*out = '\0';
	for (unsigned i = 0; i < h->cnt; i++)
		at += (size_t)snprintf(out + at, len - at, "%sprocess %d has %u", i ? ", " : "", h->list[i].pid,
				       h->list[i].ctxts);
	if (h->unknown)
		at += (size_t)snprintf(out + at, len - at, "%sothers have %u", at ? ", " : "", h->unknown);
	if (h->strange)
		snprintf(out + at, len - at, " (%u are of user %u or others)", h->strange, h->uid);
	return out;
}

static void busy_log(const struct search *s)
{
	const struct hfi_assign_attr *a = s->attr;
	const struct hfi_unit_attr *u = a->unit;
	char text[HOLDERS_TEXT];
	struct holders h = {0};

	if (s->group >= 0) {
		for (uint16_t sub = 0; sub < a->want->subctxt_cnt; sub++)
			holder_add(a, &h, (uint32_t)s->group, sub);
		LOG_WARN(
			"%s: all %u sub-contexts of context %d, which is shared by this job, are held: %s; another "
			"subctxt_id begins another context",
			u->name, a->want->subctxt_cnt, s->group, holders_text(&h, text));
		return;
	}
	for (uint32_t ctxt = s->first; ctxt < s->end; ctxt++)
		holder_add(a, &h, ctxt, (uint32_t)MAX(ctxt_holder(s->probe, u, a->map, a->scope, ctxt), 0));
	if (a->want->ctxt >= 0)
		LOG_INFO("%s: context %d is held: %s; -1 takes any that is free", u->name, a->want->ctxt,
			 holders_text(&h, text));
	else if (u->nctxts < HFI_CTXT_MAX)
		LOG_WARN(
			"%s: no free context: all %u are held: %s; SOFTFABRIC_OPX=\"contexts=%u\" gives more, "
			"\"units=...\" another adapter",
			u->name, u->nctxts, holders_text(&h, text), HFI_CTXT_MAX);
	else
		LOG_WARN("%s: no free context: all %u are held: %s; SOFTFABRIC_OPX=\"units=...\" gives another adapter",
			 u->name, u->nctxts, holders_text(&h, text));
}

int hfi_assign_open(const struct hfi_assign_attr *attr, struct hfi_claim *claim)
{
	const struct hfi_ctxt_attr *want = attr->want;
	struct search s = {
		.attr = attr,
		.first = want->ctxt < 0 ? 0 : (uint32_t)want->ctxt,
		.end = want->ctxt < 0 ? attr->unit->nctxts : (uint32_t)want->ctxt + 1,
		.group = -1,
	};
	int rc = want_check(attr), lock;
	unsigned tries = 0;

	*claim = (struct hfi_claim){.fd = {-1, -1}};
	if (!rc)
		rc = pkey_check(attr->unit, want->pkey);
	if (rc)
		return rc;
	s.probe = name_socket();
	if (s.probe < 0) {
		LOG_WARN("%s: cannot look for a free context: %s", attr->unit->name, strerror(-s.probe));
		return s.probe;
	}
	do {
		lock = want->subctxt_cnt ? group_lock(attr->unit->name) : -1;
		rc = want->subctxt_cnt ? shared_take(&s, claim) : free_take(&s, claim);
		group_unlock(lock);
	} while (rc == -EAGAIN && ++tries < CLASH_TRIES);
	rc = rc == -EAGAIN ? -EBUSY : rc;
	if (rc == -EBUSY)
		busy_log(&s);
	close(s.probe);
	return rc;
}

void hfi_assign_close(struct hfi_claim *claim, struct link_stats *last)
{
	*last = (struct link_stats){0};
	if (!claim->port)
		return;
	link_port_close_stats(claim->port, last); /* first: whoever finds the name free must find the port free */
	names_drop(claim);
}
