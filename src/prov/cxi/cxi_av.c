// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: table and map, receive context bits, node and service, named ones, authorisation keys, user IDs.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit/compat.h"
#include "kit/stubs.h"
#include "prov/cxi/av/cxi_av_shm.h"

#define AV_COUNT_MIN 64

const char *cxi_addr_str(const struct cxi_addr *a, char *buf, size_t *len)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "fi_addr_cxi://0x%08x", le32_get(a->pid_nic)) + 1;

	if (buf && *len)
		snprintf(buf, *len, "%s", text);
	*len = (size_t)n;
	return buf;
}

static struct cxi_av *to_av(const struct kit_av *kav)
{
	return container_of((struct kit_av *)kav, struct cxi_av, kit);
}

static struct cxi_domain *domain_of(const struct cxi_av *av)
{
	return container_of(av->kit.domain, struct cxi_domain, kit);
}

/* --- addresses ----------------------------------------------------------------------------------- */

static int av_check(struct kit_av *kav, const void *addr)
{
	struct cxi_addr a;

	(void)kav;
	memcpy(&a, addr, sizeof(a));
	if (cxi_addr_pid(&a) == CASSINI_PID_ANY || le32_get(a.pid_nic) >> 29) {
		LOG_WARN("address %#x refused: PID %u is not one of 0 to %u, or reserved bits are set",
			 le32_get(a.pid_nic), cxi_addr_pid(&a), CASSINI_PID_CNT - 1);
		return -FI_EINVAL;
	}
	return 0;
}

/* The address of @fi_addr, without context bits. Return: false: there is none. */
static bool av_get(const struct cxi_av *av, fi_addr_t fi_addr, struct cxi_addr *out)
{
	const struct cxi_addr *a;

	if (av->shared)
		return cxi_av_shm_get(av->shared, fi_addr, out);
	a = kit_av_addr(&av->kit, fi_addr);
	if (a)
		*out = *a;
	return a != NULL;
}

static const char *av_straddr(struct kit_av *kav, const void *addr, char *buf, size_t *len)
{
	struct cxi_addr a;

	(void)kav;
	memcpy(&a, addr, sizeof(a));
	return cxi_addr_str(&a, buf, len);
}

/* @node: a NIC address; @service: a PID. */
static int av_insertsvc(struct kit_av *kav, const char *node, const char *service, void *addr)
{
	char *end_node, *end_svc;
	unsigned long nic = strtoul(node, &end_node, 0), pid = service ? strtoul(service, &end_svc, 0) : 0;
	struct cxi_addr a;

	(void)kav;
	if (!*node || *end_node || nic > CASSINI_NIC_MAX || (service && (!*service || *end_svc)) ||
	    pid >= CASSINI_PID_CNT) {
		LOG_WARN("node \"%s\" service \"%s\" refused: a NIC address of 20 bits and a PID below %u are wanted",
			 node, service ? service : "", CASSINI_PID_CNT);
		return -FI_EINVAL;
	}
	a = cxi_addr_make((uint32_t)nic, (uint16_t)pid, 0);
	memcpy(addr, &a, sizeof(a));
	return 0;
}

/* --- user IDs: what a completion says in place of fi_addr ---------------------------------------- */

/* Room for an ID of @fi_addr. 0; -FI_ENOMEM. */
static int user_room(struct cxi_av *av, fi_addr_t fi_addr)
{
	size_t cap = MAX((size_t)roundup_pow2(fi_addr + 1), (size_t)AV_COUNT_MIN);
	fi_addr_t *ids;

	if (fi_addr < av->user_cap)
		return 0;
	ids = mem_alloc(cap * sizeof(*ids));
	if (!ids)
		return -FI_ENOMEM;
	if (av->user_cap)
		memcpy(ids, av->user_id, av->user_cap * sizeof(*ids));
	for (size_t i = av->user_cap; i < cap; i++)
		ids[i] = FI_ADDR_NOTAVAIL;
	mem_free(av->user_id);
	av->user_id = ids;
	av->user_cap = cap;
	return 0;
}

static int av_set_user_id(struct fid_av *fid, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
	struct cxi_av *av = container_of(fid, struct cxi_av, kit.fid);
	struct cxi_addr a;
	int ret;

	if (flags || !av->has_user_id)
		return -FI_EINVAL;
	if (av->kit.domain->forked(av->kit.domain))
		return -FI_EIO;
	lock_acquire(&av->kit.domain->lock);
	ret = av_get(av, fi_addr, &a) ? user_room(av, fi_addr) : -FI_EINVAL;
	if (!ret)
		av->user_id[fi_addr] = user_id;
	lock_release(&av->kit.domain->lock);
	return ret;
}

/* --- insertion with flags ------------------------------------------------------------------------ */

/* FI_AUTH_KEY: @in is the handle of a key. FI_AV_USER_ID: @in is the ID. */
static int av_insert_flags(struct kit_av *kav, const void *addr, fi_addr_t in, uint64_t flags, fi_addr_t *out)
{
	struct cxi_av *av = to_av(kav);
	struct cxi_addr a;
	int ret;

	memcpy(&a, addr, sizeof(a));
	if (flags & KIT_AUTH_KEY) {
		if (in >= CXI_AUTH_KEY_MAX || !av->key_used[in])
			return -FI_EINVAL;
		a.vni = le16_put(av->key[in].vni);
	}
	ret = kit_av_add_locked(kav, &a, out);
	if (ret || !(flags & KIT_AV_USER_ID))
		return ret;
	ret = user_room(av, *out);
	if (ret) /* as if it had never been there: no completion may name it by an index that nobody was told */
		kit_av_del_locked(kav, *out);
	else
		av->user_id[*out] = in;
	return ret;
}

/* An index may be used again: its ID goes with the entry. */
static void av_removed(struct kit_av *kav, fi_addr_t fi_addr, const void *addr)
{
	struct cxi_av *av = to_av(kav);

	if (fi_addr < av->user_cap)
		av->user_id[fi_addr] = FI_ADDR_NOTAVAIL;
}

static const struct kit_av_ops av_ops = {
	.check = av_check,
	.removed = av_removed,
	.straddr = av_straddr,
	.insertsvc = av_insertsvc,
	.insert = av_insert_flags,
	.open_flags = FI_EVENT,
};

/* --- named ones ---------------------------------------------------------------------------------- */

static int shared_add(struct kit_av *kav, const void *addr, fi_addr_t *out)
{
	struct cxi_addr a;

	memcpy(&a, addr, sizeof(a));
	return cxi_av_shm_add(to_av(kav)->shared, &a, out);
}

static int shared_del(struct kit_av *kav, fi_addr_t fi_addr)
{
	av_removed(kav, fi_addr, NULL);
	return cxi_av_shm_del(to_av(kav)->shared, fi_addr);
}

static bool shared_get(const struct kit_av *kav, fi_addr_t fi_addr, void *addr)
{
	struct cxi_addr a;

	if (!cxi_av_shm_get(to_av(kav)->shared, fi_addr, &a))
		return false;
	memcpy(addr, &a, sizeof(a));
	return true;
}

static const struct kit_av_ops av_shared_ops = {
	.check = av_check,
	.straddr = av_straddr,
	.insertsvc = av_insertsvc,
	.insert = av_insert_flags,
	.store_add = shared_add,
	.store_del = shared_del,
	.store_get = shared_get,
	.open_flags = FI_EVENT,
};

/* --- what the data path asks --------------------------------------------------------------------- */

int cxi_av_dest_any(const struct cxi_av *av, fi_addr_t addr, struct cxi_dest *out)
{
	unsigned bits = (unsigned)av->rx_ctx_bits;
	uint64_t rx = bits ? addr >> (64 - bits) : 0;
	struct cxi_addr a;

	if (rx >= CXI_RX_CTX_MAX || !av_get(av, addr & ~0ULL >> bits, &a))
		return -FI_EINVAL;
	*out = cxi_dest_of(&a, (uint8_t)rx);
	return 0;
}

fi_addr_t cxi_av_source(const struct cxi_av *av, uint32_t nic, uint16_t pid, uint16_t vni)
{
	struct cxi_addr a = cxi_addr_make(nic, pid, av->has_keys ? vni : 0);
	fi_addr_t found = av->shared ? cxi_av_shm_find(av->shared, &a) : kit_av_find(&av->kit, &a);

	if (unlikely(av->has_keys && found == FI_ADDR_NOTAVAIL)) { /* inserted without a key */
		a.vni = le16_put(0);
		found = kit_av_find(&av->kit, &a);
	}
	if (likely(!av->user_id && !av->has_user_id) || found == FI_ADDR_NOTAVAIL)
		return found;
	/*
	 * with FI_AV_USER_ID at open, what has no ID yet is not available; with the flag on insertions the others are
	 * as ever
	 */
	if (found < av->user_cap && av->user_id[found] != FI_ADDR_NOTAVAIL)
		return av->user_id[found];
	return av->has_user_id ? FI_ADDR_NOTAVAIL : found;
}

/* --- authorisation keys -------------------------------------------------------------------------- */

int cxi_av_keys(const struct cxi_av *av, struct cxi_key *out)
{
	int cnt = 0;

	for (int i = 0; i < CXI_AUTH_KEY_MAX; i++)
		if (av->key_used[i])
			out[cnt++] = av->key[i];
	return cnt;
}

static int key_insert(struct cxi_av *av, const struct cxi_key *key, fi_addr_t *out)
{
	int place = -1;

	for (int i = CXI_AUTH_KEY_MAX - 1; i >= 0; i--) {
		if (av->key_used[i] && av->key[i].svc_id == key->svc_id && av->key[i].vni == key->vni) {
			*out = (fi_addr_t)i;
			av->key_uses[i]++;
			return 0;
		}
		if (!av->key_used[i])
			place = i;
	}
	if (place < 0 ||
	    (size_t)cxi_av_keys(av, (struct cxi_key[CXI_AUTH_KEY_MAX]){0}) >= domain_of(av)->max_ep_auth_key) {
		LOG_WARN(
			"authorisation key refused: the address vector has %zu already, as many as the domain's "
			"max_ep_auth_key allows",
			domain_of(av)->max_ep_auth_key);
		return -FI_ENOSPC;
	}
	av->key[place] = *key;
	av->key_used[place] = true;
	av->key_uses[place] = 1;
	*out = (fi_addr_t)place;
	return 0;
}

static int av_insert_auth_key(struct fid_av *fid, const void *auth_key, size_t auth_key_size, fi_addr_t *fi_addr,
			      uint64_t flags)
{
	struct cxi_av *av = container_of(fid, struct cxi_av, kit.fid);
	struct cxi_key key;
	int ret;

	if (!av->has_keys || flags || !fi_addr)
		return -FI_EINVAL;
	if (av->kit.domain->forked(av->kit.domain))
		return -FI_EIO;
	ret = cxi_key_of_domain(domain_of(av), auth_key, auth_key_size, &key);
	if (ret)
		return ret;
	lock_acquire(&av->kit.domain->lock);
	ret = key_insert(av, &key, fi_addr);
	lock_release(&av->kit.domain->lock);
	return ret;
}

/* Of an address that was inserted with a key, too. */
static int av_lookup_auth_key(struct fid_av *fid, fi_addr_t fi_addr, void *auth_key, size_t *auth_key_size)
{
	struct cxi_av *av = container_of(fid, struct cxi_av, kit.fid);
	struct cxi_key key;
	size_t room;
	int ret;

	if (!av->has_keys || !auth_key_size || (*auth_key_size && !auth_key))
		return -FI_EINVAL;
	if (av->kit.domain->forked(av->kit.domain))
		return -FI_EIO;
	lock_acquire(&av->kit.domain->lock);
	ret = fi_addr < CXI_AUTH_KEY_MAX && av->key_used[fi_addr] ? 0 : -FI_EINVAL;
	if (!ret)
		key = av->key[fi_addr];
	lock_release(&av->kit.domain->lock);
	if (ret)
		return ret;
	room = *auth_key_size;
	*auth_key_size = sizeof(key);
	if (room)
		memcpy(auth_key, &key, MIN(room, sizeof(key)));
	return room < sizeof(key) ? -FI_ETOOSMALL : 0;
}

/* Endpoints that were enabled with a key keep it until they close, and addresses as long as they stay. */
static int key_remove(struct cxi_av *av, fi_addr_t handle)
{
	if (handle >= CXI_AUTH_KEY_MAX || !av->key_used[handle])
		return -FI_EINVAL;
	if (av->key_uses[handle] > 1) {
		av->key_uses[handle]--;
		return 0;
	}
	if (av->kit.refs)
		return -FI_EBUSY;
	for (fi_addr_t i = 0; i < av->kit.high; i++) {
		const struct cxi_addr *a = kit_av_addr(&av->kit, i);

		if (a && le16_get(a->vni) == av->key[handle].vni)
			return -FI_EBUSY;
	}
	av->key_used[handle] = false;
	return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct cxi_av *av = container_of(fid, struct cxi_av, kit.fid);
	int ret = 0;

	if (flags != KIT_AUTH_KEY || !av->has_keys)
		return kit_av_fid_ops.remove(fid, fi_addr, count, flags);
	if (count && !fi_addr)
		return -FI_EINVAL;
	if (av->kit.domain->forked(av->kit.domain))
		return -FI_EIO;
	lock_acquire(&av->kit.domain->lock);
	for (size_t i = 0; i < count; i++) {
		int one = key_remove(av, fi_addr[i]);

		ret = ret ? ret : one;
	}
	lock_release(&av->kit.domain->lock);
	return ret;
}

/* --- open, close --------------------------------------------------------------------------------- */

static int av_close(struct fid *fid)
{
	struct cxi_av *av = container_of(fid, struct cxi_av, kit.fid.fid);
	bool forked = av->kit.domain->forked(av->kit.domain);
	int ret = kit_av_fini(&av->kit);

	if (ret)
		return ret;
	cxi_av_shm_close(av->shared, forked);
	mem_free(av->user_id);
	mem_free(av);
	return 0;
}

static struct fi_ops av_fi_ops = KIT_FI_OPS(av_close, kit_av_bind, kit_no_control);
static struct kit_ops_av_ext av_fid_ops;

/* The table is filled once: other threads use it from then on. */
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;

/* Behind the kit's table go the calls of newer cores, which look at its size. */
static void fill_ops(void)
{
	struct fi_ops_av old = kit_av_fid_ops;

	old.size = sizeof(av_fid_ops);
	old.remove = av_remove;
	memcpy(&av_fid_ops, &old, sizeof(av_fid_ops.base));
	av_fid_ops.insert_auth_key = av_insert_auth_key;
	av_fid_ops.lookup_auth_key = av_lookup_auth_key;
	av_fid_ops.set_user_id = av_set_user_id;
}

/* What is wanted, checked; what goes together with what. */
static int attr_check(const struct cxi_domain *d, const struct fi_av_attr *attr)
{
	const char *why = NULL;

	if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 4)
		why = "rx_ctx_bits goes to 4, for the 16 receive contexts of a scalable endpoint";
	else if (attr->flags & ~(FI_EVENT | FI_READ | FI_SYMMETRIC | KIT_AV_USER_ID))
		why = "only FI_EVENT, FI_READ, FI_SYMMETRIC and FI_AV_USER_ID are known";
	else if ((attr->flags & FI_READ) && !attr->name)
		why = "FI_READ opens an address vector that has a name";
	else if (attr->name && d->max_ep_auth_key)
		why = "a named address vector cannot hold authorisation keys";
	else if ((attr->flags & FI_SYMMETRIC) && (d->max_ep_auth_key || (attr->flags & KIT_AV_USER_ID)))
		why = "FI_SYMMETRIC excludes authorisation keys and user IDs";
	if (!why)
		return 0;
	LOG_WARN("address vector refused (flags %#llx, rx_ctx_bits %d): %s", (unsigned long long)attr->flags,
		 attr->rx_ctx_bits, why);
	return -FI_EINVAL;
}

static int av_init(struct cxi_av *av, struct cxi_domain *d, struct fi_av_attr *attr, void *context)
{
	struct fi_av_attr a = *attr;
	int ret = 0;

	if (attr->name) {
		ret = cxi_av_shm_open(d->info.name, attr->name, attr->flags & FI_READ, attr->count, attr->map_addr,
				      &av->shared);
		if (ret)
			return ret;
		a.count = 0;
	}
	a.type = FI_AV_TABLE; /* an index also is a legal FI_AV_MAP address */
	a.name = NULL;
	a.flags &= FI_EVENT;
	a.count = MAX(a.count, (size_t)AV_COUNT_MIN);
	ret = kit_av_init(&av->kit, &d->kit, &a, CXI_ADDR_LEN, av->shared ? &av_shared_ops : &av_ops, context);
	if (ret) {
		cxi_av_shm_close(av->shared, false);
		return ret;
	}
	ret = av->shared ? 0 : kit_av_count_uses(&av->kit);
	if (ret) {
		kit_av_fini(&av->kit);
		return ret;
	}
	if (av->shared && !attr->map_addr)
		attr->map_addr = cxi_av_shm_base(av->shared);
	return 0;
}

int cxi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_out, void *context)
{
	struct cxi_domain *d = container_of(domain, struct cxi_domain, kit.fid);
	struct cxi_av *av;
	int ret;

	if (!attr || !av_out || (unsigned)attr->type > FI_AV_TABLE)
		return -FI_EINVAL;
	ret = attr_check(d, attr);
	if (ret)
		return ret;
	av = mem_alloc(sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	ret = av_init(av, d, attr, context);
	if (ret) {
		mem_free(av);
		return ret;
	}
	av->rx_ctx_bits = attr->rx_ctx_bits;
	av->is_table = !av->rx_ctx_bits && !av->shared;
	av->has_keys = d->max_ep_auth_key;
	av->has_user_id = attr->flags & KIT_AV_USER_ID;
	if (attr->flags & FI_SYMMETRIC) /* a promise that lets the adapter match by rank */
		LOG_INFO("FI_SYMMETRIC is accepted and has no effect: the soft adapter matches by address");
	av->kit.allowed_flags = FI_MORE | FI_SYNC_ERR | (av->has_keys ? KIT_AUTH_KEY : 0) |
				(av->has_keys || av->has_user_id ? 0 : KIT_AV_USER_ID);
	pthread_once(&ops_once, fill_ops);
	av->kit.fid.fid.ops = &av_fi_ops;
	av->kit.fid.ops = (struct fi_ops_av *)&av_fid_ops;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	*av_out = &av->kit.fid;
	return 0;
}
