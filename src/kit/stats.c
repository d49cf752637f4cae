// SPDX-License-Identifier: BSD-2-Clause
// Counters of a domain by their names.
#include "kit/stats.h"

#include "kit/kit_int.h"

static struct kit_domain *to_domain(struct fid_domain *fid)
{
	return fid && fid->fid.fclass == FI_CLASS_DOMAIN ? container_of(fid, struct kit_domain, fid) : NULL;
}

/* The name of the n-th counter of @g and its place. */
static const char *name_of(const struct kit_stats_group *g, size_t n, char buf[KIT_STAT_NAME], size_t *off)
{
	if (g->row) {
		*off = g->row[n].off;
		return g->row[n].name;
	}
	buf[0] = '\0';
	g->name(n, buf);
	*off = n * sizeof(uint64_t);
	return buf;
}

static int stats_read(struct fid_domain *fid, const char *name, uint64_t *value)
{
	struct kit_domain *d = to_domain(fid);
	char buf[KIT_STAT_NAME];
	size_t off;

	if (!d || !name || !*name || !value)
		return -FI_EINVAL;
	if (kit_is_forked(d))
		return -FI_EIO;
	for (const struct kit_stats_group *g = d->stats; g->cnt; g++) {
		for (size_t n = 0; n < g->cnt; n++) {
			if (strcmp(name_of(g, n, buf, &off), name))
				continue;
			lock_acquire(&d->lock);
			*value = g->read(d, off);
			lock_release(&d->lock);
			return 0;
		}
	}
	return -FI_ENOENT;
}

static int stats_name(struct fid_domain *fid, size_t index, char *out, size_t len)
{
	struct kit_domain *d = to_domain(fid);
	char buf[KIT_STAT_NAME];
	const char *name;
	size_t off;

	if (!d || !out)
		return -FI_EINVAL;
	for (const struct kit_stats_group *g = d->stats; g->cnt; g++) {
		for (size_t n = 0; n < g->cnt; n++) {
			name = name_of(g, n, buf, &off);
			if (!*name || index--)
				continue;
			if (strlen(name) >= len)
				return -FI_ETOOSMALL;
			strcpy(out, name);
			return 0;
		}
	}
	return -FI_ENOENT;
}

struct fi_softfabric_ops_stats kit_stats_ops = {
	.size = sizeof(struct fi_softfabric_ops_stats),
	.read = stats_read,
	.name = stats_name,
};
