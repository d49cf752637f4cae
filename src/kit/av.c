// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: a dense table of raw addresses indexed by fi_addr_t, and a hash for the way
// back.
//
// The hash holds index + 1 with linear probing, at most half full; removal moves later entries of a
// run back instead of leaving tombstones. Its seed is random, because senders that nobody inserted
// may choose their addresses.
#include "kit/kit_int.h"

#include "base/rng.h"

#define CAP_MIN 64
#define CAP_FIRST                                                                                  \
	4096 /* allocated at once for a program that asks for more: memory follows use             \
	      */
#define CNT_MAX (1u << 30)

static struct kit_av *to_av(struct fid_av *fid)
{
	return container_of(fid, struct kit_av, fid);
}

static const uint8_t *entry(const struct kit_av *av, uint32_t idx)
{
	return av->table + (size_t)idx * av->addr_len;
}

static uint32_t hash_of(const struct kit_av *av, const void *addr)
{
	const uint8_t *p = addr;
	uint64_t h = av->hash_seed, w;
	size_t len = av->addr_len;

	for (; len; len -= MIN(len, sizeof(w))) {
		w = 0;
		memcpy(&w, p, MIN(len, sizeof(w)));
		p += sizeof(w);
		h = (h ^ w) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return (uint32_t)(h ^ (h >> 15));
}

fi_addr_t kit_av_find(const struct kit_av *av, const void *addr)
{
	uint32_t pos = hash_of(av, addr) & av->hash_mask;

	for (; av->hash[pos]; pos = (pos + 1) & av->hash_mask) {
		if (!memcmp(entry(av, av->hash[pos] - 1), addr, av->addr_len))
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
	uint32_t mask = av->hash_mask, hole = hash_of(av, entry(av, idx)) & mask, pos;

	while (av->hash[hole] != idx + 1)
		hole = (hole + 1) & mask;
	for (pos = (hole + 1) & mask; av->hash[pos]; pos = (pos + 1) & mask) {
		uint32_t home = hash_of(av, entry(av, av->hash[pos] - 1)) & mask;

		/* An entry may fill the hole unless that would put it before its home. */
		if (((pos - home) & mask) >= ((pos - hole) & mask)) {
			av->hash[hole] = av->hash[pos];
			hole = pos;
		}
	}
	av->hash[hole] = 0;
}

static int av_grow(struct kit_av *av, uint32_t cap)
{
	uint32_t hash_len = (uint32_t)roundup_pow2(2 * (uint64_t)cap);
	uint8_t *table = mem_alloc((size_t)cap * av->addr_len);
	uint8_t *used = mem_alloc(cap);
	uint32_t *hash = mem_alloc((size_t)hash_len * sizeof(*hash));

	if (!table || !used || !hash) {
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
			hash_put(hash, av->hash_mask, hash_of(av, entry(av, i)), i);
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
	av->cnt++;
	av->high = MAX(av->high, idx + 1);
	av->free_hint = idx + 1;
	hash_put(av->hash, av->hash_mask, hash_of(av, addr), idx);
	*out = idx;
	return 0;
}

int kit_av_add_locked(struct kit_av *av, const void *addr, fi_addr_t *fi_addr)
{
	uint32_t idx;
	int ret;

	lock_assert_held(&av->domain->lock);
	ret = av->ops->check ? av->ops->check(av, addr) : 0;
	if (ret)
		return ret;
	if (av->dedup) {
		fi_addr_t old = kit_av_find(av, addr);

		if (old != FI_ADDR_NOTAVAIL) {
			*fi_addr = old;
			return 0;
		}
	}
	ret = entry_new(av, addr, &idx);
	if (ret)
		return ret;
	if (av->ops->added) {
		ret = av->ops->added(av, idx, addr);
		if (ret) {
			entry_free(av, idx);
			return ret;
		}
	}
	*fi_addr = idx;
	return 0;
}

static int insert_check(const struct kit_av *av, const void *what, size_t count, uint64_t flags,
			const void *context)
{
	if (flags & ~av->allowed_flags) {
		KIT_WARN(av->domain->prov, FI_LOG_AV,
			 "fi_av_insert: flags %#llx are not supported, only %#llx\n",
			 (unsigned long long)flags, (unsigned long long)av->allowed_flags);
		return -FI_ENOSYS;
	}
	/* INT_MAX: the result is an int. */
	if (count > INT32_MAX || (count && !what) || ((flags & FI_SYNC_ERR) && count && !context))
		return -FI_EINVAL;
	return 0;
}

static int insert_one(struct kit_av *av, const void *addr, fi_addr_t *out, int *sync_err)
{
	fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;
	int ret = kit_av_add_locked(av, addr, &fi_addr);

	if (out)
		*out = ret ? FI_ADDR_NOTAVAIL : fi_addr;
	if (sync_err)
		*sync_err = -ret;
	return !ret;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	struct kit_av *av = to_av(fid);
	int *sync_err = flags & FI_SYNC_ERR ? context : NULL;
	const uint8_t *p = addr;
	int ret, n = 0;

	ret = insert_check(av, addr, count, flags, context);
	if (ret)
		return ret;
	if (!kit_enter(av->domain))
		return -FI_EIO;
	for (size_t i = 0; i < count; i++)
		n += insert_one(av, p + i * av->addr_len, fi_addr ? &fi_addr[i] : NULL,
				sync_err ? &sync_err[i] : NULL);
	lock_release(&av->domain->lock);
	return n;
}

/* Resolving may block, so it happens before the lock is taken. */
static int insert_name(struct kit_av *av, const char *node, const char *service, fi_addr_t *fi_addr,
		       int *sync_err)
{
	uint8_t addr[256];
	int ret, n = 0;

	ret = sizeof(addr) < av->addr_len ? -FI_ENOSYS
					  : av->ops->insertsvc(av, node, service, addr);
	if (!ret && !kit_enter(av->domain))
		return -FI_EIO;
	if (!ret) {
		n = insert_one(av, addr, fi_addr, sync_err);
		lock_release(&av->domain->lock);
		return n;
	}
	if (fi_addr)
		*fi_addr = FI_ADDR_NOTAVAIL;
	if (sync_err)
		*sync_err = -ret;
	return 0;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service,
			fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct kit_av *av = to_av(fid);
	int ret;

	if (!av->ops->insertsvc)
		return -FI_ENOSYS;
	ret = insert_check(av, node, 1, flags, context);
	if (ret)
		return ret;
	return insert_name(av, node, service, fi_addr, flags & FI_SYNC_ERR ? context : NULL);
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
	struct kit_av *av = to_av(fid);
	int *sync_err = flags & FI_SYNC_ERR ? context : NULL;
	char host[256], port[32];
	int ret, done = 0;
	size_t i = 0;

	if (!av->ops->insertsvc)
		return -FI_ENOSYS;
	if (!service || nodecnt > INT32_MAX || svccnt > INT32_MAX)
		return -FI_EINVAL;
	ret = insert_check(av, node, nodecnt * svccnt, flags, context);
	if (ret)
		return ret;
	for (size_t h = 0; h < nodecnt; h++) {
		for (size_t s = 0; s < svccnt; s++, i++) {
			if (!name_step(node, h, host, sizeof(host)) ||
			    !name_step(service, s, port, sizeof(port)))
				return -FI_EINVAL;
			ret = insert_name(av, host, port, fi_addr ? &fi_addr[i] : NULL,
					  sync_err ? &sync_err[i] : NULL);
			if (ret < 0)
				return ret;
			done += ret;
		}
	}
	return done;
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
		const void *addr = kit_av_addr(av, fi_addr[i]);

		if (!addr) {
			ret = -FI_EINVAL; /* the others go all the same */
			continue;
		}
		if (av->ops->removed)
			av->ops->removed(av, fi_addr[i], addr);
		entry_free(av, (uint32_t)fi_addr[i]);
	}
	lock_release(&av->domain->lock);
	return ret;
}

static int av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	struct kit_av *av = to_av(fid);
	const void *have;

	if (!addrlen || (*addrlen && !addr))
		return -FI_EINVAL;
	if (!kit_enter(av->domain))
		return -FI_EIO;
	have = kit_av_addr(av, fi_addr);
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
	return av->ops->straddr(av, addr, buf, len);
}

static int av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set,
		  void *context)
{
	return -FI_ENOSYS;
}

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
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

const struct fi_ops kit_av_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = kit_no_bind, /* an EQ is for FI_EVENT, which is refused at open */
	.control = kit_no_control,
	.ops_open = kit_no_ops_open,
	.tostr = kit_no_tostr,
	.ops_set = kit_no_ops_set,
};

static int av_attr_check(struct kit_domain *d, const struct fi_av_attr *attr)
{
	if (!attr || (unsigned)attr->type > FI_AV_TABLE || attr->count > CNT_MAX)
		return -FI_EINVAL;
	if (attr->flags || attr->name) {
		KIT_WARN(d->prov, FI_LOG_AV,
			 "shared or asynchronous AVs are not supported (flags %#llx, name %s)\n",
			 (unsigned long long)attr->flags, attr->name ? attr->name : "none");
		return -FI_ENOSYS;
	}
	return 0;
}

int kit_av_init(struct kit_av *av, struct kit_domain *d, const struct fi_av_attr *attr,
		size_t addr_len, const struct kit_av_ops *ops, void *context)
{
	int ret = av_attr_check(d, attr);

	if (ret)
		return ret;
	if (kit_is_forked(d))
		return -FI_EIO;
	av->domain = d;
	av->ops = ops;
	av->type = FI_AV_TABLE; /* an index also is a legal FI_AV_MAP address */
	av->addr_len = addr_len;
	av->table = av->used = NULL;
	av->hash = NULL;
	av->cnt = av->cap = av->high = av->free_hint = 0;
	av->hash_seed = rng_entropy();
	av->eps = NULL;
	av->ep_cnt = av->ep_cap = 0;
	av->allowed_flags = FI_MORE | FI_SYNC_ERR;
	av->dedup = false;
	atomic_store_explicit(&av->refs, 0, memory_order_relaxed);
	ret = av_grow(av, (uint32_t)roundup_pow2(
				  MIN(MAX(attr->count, (size_t)CAP_MIN), (size_t)CAP_FIRST)));
	if (ret)
		return ret;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = (struct fi_ops *)&kit_av_fi_ops;
	av->fid.ops = &av_ops;
	kit_ref(&d->refs);
	return 0;
}

int kit_av_fini(struct kit_av *av)
{
	if (kit_busy(&av->refs))
		return -FI_EBUSY;
	mem_free(av->table);
	mem_free(av->used);
	mem_free(av->hash);
	mem_free(av->eps);
	kit_unref(&av->domain->refs);
	return 0;
}
