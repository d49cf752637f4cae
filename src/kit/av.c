// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: a dense table of raw addresses indexed by fi_addr_t, and a hash for the way
// back.
//
// The hash holds index + 1 with linear probing, at most half full; removal moves later entries of a
// run back instead of leaving tombstones. Its seed is random, because senders that nobody inserted
// may choose their addresses.
#include "kit/compat.h"
#include "kit/kit_int.h"

#include "base/rng.h"

#define CAP_MIN 64
#define CAP_FIRST                                                                                  \
	4096 /* allocated at once for a program that asks for more: memory follows use             \
	      */
#define CNT_MAX (1u << 30)
#define ADDR_MAX 256 /* bytes of an address that we hold for a moment */

static struct kit_av *to_av(struct fid_av *fid)
{
	return container_of(fid, struct kit_av, fid);
}

static const uint8_t *entry(const struct kit_av *av, uint32_t idx)
{
	return av->table + (size_t)idx * av->addr_len;
}

/* What entry @idx is called outside, and the way back: FI_ADDR_NOTAVAIL if there is none. */
static fi_addr_t av_name(const struct kit_av *av, uint32_t idx)
{
	return av->type == FI_AV_MAP ? av->ops->name(entry(av, idx)) : idx;
}

static fi_addr_t av_place(const struct kit_av *av, fi_addr_t fi_addr)
{
	uint8_t addr[ADDR_MAX];

	if (av->type != FI_AV_MAP)
		return fi_addr;
	av->ops->unname(fi_addr, addr);
	return kit_av_find(av, addr);
}

uint32_t kit_av_hash(const struct kit_av *av, const void *addr)
{
	uint64_t h = av->hash_seed, w;
	size_t len = av->addr_len;
	uint8_t who[KIT_ADDR_MAX];
	const uint8_t *p = who;

	memcpy(who, addr, len);
	memset(who + av->mute_at, 0, av->mute_len);
	for (; len; len -= MIN(len, sizeof(w))) {
		w = 0;
		memcpy(&w, p, MIN(len, sizeof(w)));
		p += sizeof(w);
		h = (h ^ w) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return (uint32_t)(h ^ (h >> 15));
}

bool kit_av_is_same(const struct kit_av *av, const void *a, const void *b)
{
	size_t next = (size_t)av->mute_at + av->mute_len;

	return !memcmp(a, b, av->mute_at) &&
	       !memcmp((const uint8_t *)a + next, (const uint8_t *)b + next, av->addr_len - next);
}

fi_addr_t kit_av_find(const struct kit_av *av, const void *addr)
{
	uint32_t pos = kit_av_hash(av, addr) & av->hash_mask;

	for (; av->hash[pos]; pos = (pos + 1) & av->hash_mask) {
		if (kit_av_is_same(av, entry(av, av->hash[pos] - 1), addr))
			return av->hash[pos] - 1;
	}
	return FI_ADDR_NOTAVAIL;
}

static void hash_put(uint32_t *hash, uint32_t mask, uint32_t pos, uint32_t idx)
{
	pos &= mask;
	while (hash[pos])
		pos = (pos + 1) & mask;
	hash[pos] = idx + 1;
}

static void hash_del(struct kit_av *av, uint32_t idx)
{
	uint32_t mask = av->hash_mask, hole = kit_av_hash(av, entry(av, idx)) & mask, pos;

	while (av->hash[hole] != idx + 1)
		hole = (hole + 1) & mask;
	for (pos = (hole + 1) & mask; av->hash[pos]; pos = (pos + 1) & mask) {
		uint32_t home = kit_av_hash(av, entry(av, av->hash[pos] - 1)) & mask;

		/* An entry may fill the hole unless that would put it before its home. */
		if (((pos - home) & mask) >= ((pos - hole) & mask)) {
			av->hash[hole] = av->hash[pos];
			hole = pos;
		}
	}
	av->hash[hole] = 0;
}

static int uses_grow(struct kit_av *av, uint32_t cap)
{
	uint32_t *uses = mem_alloc((size_t)cap * sizeof(*uses));

	if (!uses)
		return -FI_ENOMEM;
	if (av->high)
		memcpy(uses, av->uses, (size_t)av->high * sizeof(*uses));
	mem_free(av->uses);
	av->uses = uses;
	return 0;
}

static int av_grow(struct kit_av *av, uint32_t cap)
{
	uint32_t hash_len = (uint32_t)roundup_pow2(2 * (uint64_t)cap);
	uint8_t *table = mem_alloc((size_t)cap * av->addr_len);
	uint8_t *used = mem_alloc(cap);
	uint32_t *hash = mem_alloc((size_t)hash_len * sizeof(*hash));

	if (!table || !used || !hash || (av->uses && uses_grow(av, cap))) {
		mem_free(table);
		mem_free(used);
		mem_free(hash);
		return -FI_ENOMEM;
	}
	if (av->high) {
		memcpy(table, av->table, (size_t)av->high * av->addr_len);
		memcpy(used, av->used, av->high);
	}
	mem_free(av->table);
	mem_free(av->used);
	mem_free(av->hash);
	av->table = table;
	av->used = used;
	av->hash = hash;
	av->hash_mask = hash_len - 1;
	av->cap = cap;
	for (uint32_t i = 0; i < av->high; i++) {
		if (used[i])
			hash_put(hash, av->hash_mask, kit_av_hash(av, entry(av, i)), i);
	}
	return 0;
}

static void entry_free(struct kit_av *av, uint32_t idx)
{
	hash_del(av, idx);
	av->used[idx] = 0;
	av->cnt--;
	av->free_hint = MIN(av->free_hint, idx);
	while (av->high && !av->used[av->high - 1])
		av->high--;
}

/* The lowest free index: tables stay dense, and a program that inserts in rank order gets its
 * ranks. */
static int entry_new(struct kit_av *av, const void *addr, uint32_t *out)
{
	uint32_t idx = av->free_hint;
	int ret;

	while (idx < av->high && av->used[idx])
		idx++;
	if (idx == av->cap) {
		ret = av->cap >= CNT_MAX ? -FI_ENOMEM : av_grow(av, 2 * av->cap);
		if (ret)
			return ret;
	}
	memcpy(av->table + (size_t)idx * av->addr_len, addr, av->addr_len);
	av->used[idx] = 1;
	if (av->uses)
		av->uses[idx] = 1;
	av->cnt++;
	av->high = MAX(av->high, idx + 1);
	av->free_hint = idx + 1;
	hash_put(av->hash, av->hash_mask, kit_av_hash(av, addr), idx);
	*out = idx;
	return 0;
}

/* @addr is in the table already: one more use of it. */
static bool entry_again(struct kit_av *av, const void *addr, fi_addr_t *fi_addr)
{
	fi_addr_t old = av->dedup ? kit_av_find(av, addr) : FI_ADDR_NOTAVAIL;

	if (old == FI_ADDR_NOTAVAIL)
		return false;
	if (av->uses) {
		KIT_INFO(av->domain->prov, FI_LOG_AV, "address inserted multiple times: fi_addr %llu again\n",
			 (unsigned long long)old);
		av->uses[old]++;
	}
	*fi_addr = av_name(av, (uint32_t)old);
	return true;
}

int kit_av_add_locked(struct kit_av *av, const void *addr, fi_addr_t *fi_addr)
{
	uint32_t idx;
	int ret;

	lock_assert_held(&av->domain->lock);
	ret = av->ops->check ? av->ops->check(av, addr) : 0;
	if (ret)
		return ret;
	if (av->ops->store_add)
		return av->ops->store_add(av, addr, fi_addr);
	if (entry_again(av, addr, fi_addr))
		return 0;
	ret = entry_new(av, addr, &idx);
	if (ret)
		return ret;
	if (av->ops->added) {
		ret = av->ops->added(av, av_name(av, idx), addr);
		if (ret) {
			entry_free(av, idx);
			return ret;
		}
	}
	*fi_addr = av_name(av, idx);
	return 0;
}

/* One call of fi_av_insert or its like: what it wants, and what it has done so far. */
struct insert {
	struct kit_av *av;
	uint64_t flags;
	fi_addr_t *fi_addr; /* NULL: the caller does not want them */
	void *context;	    /* with FI_SYNC_ERR an int for each address */
	size_t i;	    /* of the next address */
	int done;
	int ret; /* first event that could not be written */
};

static int insert_check(const struct insert *in, const void *what, size_t count)
{
	const struct kit_av *av = in->av;

	if (in->flags & ~av->allowed_flags) {
		KIT_WARN(av->domain->prov, FI_LOG_AV,
			 "fi_av_insert: flags %#llx are not supported, only %#llx\n",
			 (unsigned long long)in->flags, (unsigned long long)av->allowed_flags);
		return -FI_ENOSYS;
	}
	/* INT_MAX: the result is an int. */
	if (count > INT32_MAX || (count && !what) ||
	    ((in->flags & FI_SYNC_ERR) && ((count && !in->context) || av->is_async)))
		return -FI_EINVAL;
	if (av->is_async && !av->eq) {
		KIT_WARN(av->domain->prov, FI_LOG_AV,
			 "fi_av_insert: the AV was opened with FI_EVENT and no EQ is bound\n");
		return -FI_ENOEQ;
	}
	return 0;
}

/* The next address has got @fi_addr, or failed with @err. */
static void insert_result(struct insert *in, int err, fi_addr_t fi_addr)
{
	struct fi_eq_err_entry e = {
		.fid = &in->av->fid.fid,
		.context = in->context,
		.data = in->i,
		.err = -err,
		.prov_errno = -err,
	};

	if (in->fi_addr)
		in->fi_addr[in->i] = err ? FI_ADDR_NOTAVAIL : fi_addr;
	if (in->flags & FI_SYNC_ERR)
		((int *)in->context)[in->i] = -err;
	if (err && in->av->is_async && !in->ret)
		in->ret = kit_eq_push_err(in->av->eq, &e, NULL, 0);
	in->done += !err;
	in->i++;
}

static void insert_one(struct insert *in, const void *addr)
{
	fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;
	struct kit_av *av = in->av;
	int ret;

	if (av->ops->insert && (in->flags & ~(FI_MORE | FI_SYNC_ERR)))
		ret = !in->fi_addr ? -FI_EINVAL
				   : av->ops->insert(av, addr, in->fi_addr[in->i], in->flags, &fi_addr);
	else
		ret = kit_av_add_locked(av, addr, &fi_addr);
	insert_result(in, ret, fi_addr);
}

/* What the call returns: how many went in, or, when that is told by an event, whether it was. */
static int insert_end(const struct insert *in)
{
	struct fi_eq_entry e = {
		.fid = &in->av->fid.fid,
		.context = in->context,
		.data = (uint64_t)in->done,
	};
	int ret;

	if (!in->av->is_async)
		return in->done;
	ret = kit_eq_push(in->av->eq, FI_AV_COMPLETE, &e, sizeof(e));
	return in->ret ? in->ret : ret;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	struct insert in = {
		.av = to_av(fid), .flags = flags, .fi_addr = fi_addr, .context = context};
	const uint8_t *p = addr;
	int ret = insert_check(&in, addr, count);

	if (ret)
		return ret;
	if (!kit_enter(in.av->domain))
		return -FI_EIO;
	for (size_t i = 0; i < count; i++) {
		if (in.av->stops && (size_t)in.done < in.i)
			insert_result(&in, -FI_ECANCELED, FI_ADDR_NOTAVAIL);
		else
			insert_one(&in, p + i * in.av->addr_len);
	}
	lock_release(&in.av->domain->lock);
	return insert_end(&in);
}

/* Resolving may block, so it happens before the lock is taken. */
static int insert_name(struct insert *in, const char *node, const char *service)
{
	struct kit_av *av = in->av;
	uint8_t addr[ADDR_MAX];
	int ret;

	ret = sizeof(addr) < av->addr_len ? -FI_ENOSYS
					  : av->ops->insertsvc(av, node, service, addr);
	if (ret) {
		insert_result(in, ret, FI_ADDR_NOTAVAIL);
		return 0;
	}
	if (!kit_enter(av->domain))
		return -FI_EIO;
	insert_one(in, addr);
	lock_release(&av->domain->lock);
	return 0;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct insert in = {
		.av = to_av(fid), .flags = flags, .fi_addr = fi_addr, .context = context};
	int ret;

	if (!in.av->ops->insertsvc)
		return -FI_ENOSYS;
	ret = insert_check(&in, node, 1);
	ret = ret ? ret : insert_name(&in, node, service);
	return ret ? ret : insert_end(&in);
}

/* "node7" + 2 = "node9"; zeros in front are kept as far as they fit. */
static bool name_step(const char *base, size_t step, char *out, size_t len)
{
	size_t stem = strlen(base), digits;
	unsigned long long num;
	int n;

	while (stem && base[stem - 1] >= '0' && base[stem - 1] <= '9')
		stem--;
	digits = strlen(base + stem);
	if (!digits || digits > 18) {
		n = snprintf(out, len, "%s", base);
		return !step && n >= 0 && (size_t)n < len;
	}
	num = strtoull(base + stem, NULL, 10) + step;
	n = snprintf(out, len, "%.*s%0*llu", (int)stem, base, (int)digits, num);
	return n >= 0 && (size_t)n < len;
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodecnt, const char *service,
			size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct insert in = {
		.av = to_av(fid), .flags = flags, .fi_addr = fi_addr, .context = context};
	char host[256], port[32];
	int ret;

	if (!in.av->ops->insertsvc)
		return -FI_ENOSYS;
	if (!service || nodecnt > INT32_MAX || svccnt > INT32_MAX)
		return -FI_EINVAL;
	ret = insert_check(&in, node, nodecnt * svccnt);
	if (ret)
		return ret;
	/* Names that cannot be made are found before any is inserted: the last ones are longest. */
	if (nodecnt && svccnt &&
	    (!name_step(node, nodecnt - 1, host, sizeof(host)) ||
	     !name_step(service, svccnt - 1, port, sizeof(port))))
		return -FI_EINVAL;
	for (size_t h = 0; h < nodecnt; h++) {
		for (size_t s = 0; s < svccnt; s++) {
			name_step(node, h, host, sizeof(host));
			name_step(service, s, port, sizeof(port));
			ret = insert_name(&in, host, port);
			if (ret < 0)
				return ret;
		}
	}
	return insert_end(&in);
}

int kit_av_del_locked(struct kit_av *av, fi_addr_t fi_addr)
{
	const void *addr;
	fi_addr_t idx;

	if (av->ops->store_del)
		return av->ops->store_del(av, fi_addr);
	idx = av_place(av, fi_addr);
	addr = kit_av_addr(av, idx);
	if (!addr)
		return -FI_EINVAL;
	if (av->uses && --av->uses[idx])
		return 0;
	if (av->ops->removed)
		av->ops->removed(av, fi_addr, addr);
	entry_free(av, (uint32_t)idx);
	return 0;
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct kit_av *av = to_av(fid);
	int ret = 0;

	if (flags || (count && !fi_addr))
		return -FI_EINVAL;
	if (!kit_enter(av->domain))
		return -FI_EIO;
	for (size_t i = 0; i < count; i++) {
		int one = kit_av_del_locked(av, fi_addr[i]);

		ret = ret ? ret : one; /* the others go all the same */
	}
	lock_release(&av->domain->lock);
	return ret;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct kit_av *av = to_av(fid);
	uint8_t copy[ADDR_MAX];
	const void *have;

	if (!addrlen || (*addrlen && !addr))
		return -FI_EINVAL;
	if (!kit_enter(av->domain))
		return -FI_EIO;
	if (av->ops->store_get)
		have = av->ops->store_get(av, fi_addr, copy) ? copy : NULL;
	else
		have = kit_av_addr(av, av_place(av, fi_addr));
	if (have) {
		if (*addrlen)
			memcpy(addr, have, MIN(*addrlen, av->addr_len));
		*addrlen = av->addr_len;
	}
	lock_release(&av->domain->lock);
	return have ? 0 : -FI_EINVAL;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	struct kit_av *av = to_av(fid);

	if (!av->ops->straddr || !addr || !len)
		return NULL;
	if (!buf)
		*len = 0; /* only the length is asked for */
	return av->ops->straddr(av, addr, buf, len);
}

static int av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set,
		  void *context)
{
	return -FI_ENOSYS;
}

const struct fi_ops_av kit_av_fid_ops = {
	.size = sizeof(((struct kit_ops_av_ext *)0)->base), /* what is behind it in newer headers is NULL */
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
	.av_set = av_set,
};

static int av_close(struct fid *fid)
{
	struct kit_av *av = container_of(fid, struct kit_av, fid.fid);
	int ret = kit_av_fini(av);

	if (!ret)
		mem_free(av);
	return ret;
}

/* An EQ, once: with FI_EVENT that is where the results of insertions go. */
int kit_av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct kit_av *av = container_of(fid, struct kit_av, fid.fid);
	struct kit_eq *eq = (struct kit_eq *)bfid;

	if (!(av->ops->open_flags & FI_EVENT))
		return -FI_ENOSYS; /* nothing would ever be told */
	if (!bfid || bfid->fclass != FI_CLASS_EQ || flags || av->eq ||
	    kit_eq_fabric(eq) != av->domain->fabric) {
		KIT_WARN(av->domain->prov, FI_LOG_AV,
			 "fi_av_bind: one event queue of the same fabric, without flags, is wanted\n");
		return -FI_EINVAL;
	}
	kit_eq_ref(eq);
	av->eq = eq;
	return 0;
}

static struct fi_ops av_fi_ops = KIT_FI_OPS(av_close, kit_av_bind, kit_no_control);

static int av_attr_check(struct kit_domain *d, const struct fi_av_attr *attr,
			 const struct kit_av_ops *ops)
{
	if (!attr || (unsigned)attr->type > FI_AV_TABLE || attr->count > CNT_MAX)
		return -FI_EINVAL;
	if ((attr->flags & ~ops->open_flags) || attr->name) {
		KIT_WARN(d->prov, FI_LOG_AV,
			 "such AVs are not supported (flags %#llx, name %s)\n",
			 (unsigned long long)attr->flags, attr->name ? attr->name : "none");
		return -FI_ENOSYS;
	}
	return 0;
}

int kit_av_init(struct kit_av *av, struct kit_domain *d, const struct fi_av_attr *attr,
		size_t addr_len, const struct kit_av_ops *ops, void *context)
{
	int ret = av_attr_check(d, attr, ops);

	if (ret)
		return ret;
	if (kit_is_forked(d))
		return -FI_EIO;
	av->domain = d;
	av->ops = ops;
	/* an index also is a legal FI_AV_MAP address */
	av->type = attr->type == FI_AV_MAP && ops->name ? FI_AV_MAP : FI_AV_TABLE;
	must(addr_len <= KIT_ADDR_MAX);
	av->addr_len = addr_len;
	av->mute_at = av->mute_len = 0;
	av->table = av->used = NULL;
	av->hash = NULL;
	av->cnt = av->cap = av->high = av->free_hint = 0;
	av->hash_seed = rng_entropy();
	av->eps = NULL;
	av->ep_cnt = av->ep_cap = 0;
	av->allowed_flags = FI_MORE | FI_SYNC_ERR;
	av->dedup = false;
	av->uses = NULL;
	av->is_async = attr->flags & FI_EVENT;
	av->eq = NULL;
	atomic_store_explicit(&av->refs, 0, memory_order_relaxed);
	ret = av_grow(av, (uint32_t)roundup_pow2(
				  MIN(MAX(attr->count, (size_t)CAP_MIN), (size_t)CAP_FIRST)));
	if (ret)
		return ret;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fi_ops;
	av->fid.ops = (struct fi_ops_av *)&kit_av_fid_ops;
	kit_ref(&d->refs);
	return 0;
}

int kit_av_count_uses(struct kit_av *av)
{
	av->dedup = true;
	return uses_grow(av, av->cap);
}

/* Events of insertions stay in the EQ, as fi_av(3) says. */
int kit_av_fini(struct kit_av *av)
{
	if (kit_busy(&av->refs))
		return -FI_EBUSY;
	if (av->eq)
		kit_eq_unref(av->eq);
	mem_free(av->uses);
	mem_free(av->table);
	mem_free(av->used);
	mem_free(av->hash);
	mem_free(av->eps);
	kit_unref(&av->domain->refs);
	return 0;
}
