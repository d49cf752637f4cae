// SPDX-License-Identifier: BSD-2-Clause
// Authorisation keys: which service and VNI an endpoint uses, given, found in SLINGSHOT_* or by default. Source:
// doc/facts/cxi.md#authorisation-keys.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "prov/cxi/cxi.h"

#define SVC_MAX 64

/* Item @n of the comma-separated list @csv into @out. False: there is none, or it is too long. */
static bool csv_item(const char *csv, int n, char *out, size_t len)
{
	for (; csv && n > 0; n--) {
		csv = strchr(csv, ',');
		csv = csv ? csv + 1 : NULL;
	}
	if (!csv || strcspn(csv, ",") >= len)
		return false;
	snprintf(out, len, "%.*s", (int)strcspn(csv, ","), csv);
	return *out != '\0';
}

static bool csv_number(const char *csv, int n, unsigned long max, unsigned long *out)
{
	char item[32], *end;

	if (!csv_item(csv, n, item, sizeof(item)))
		return false;
	*out = strtoul(item, &end, 0);
	return !*end && *out <= max;
}

/*
 * What the launcher says: this adapter's place in SLINGSHOT_DEVICES names its service; the first VNI is the job step's.
 */
static bool key_slingshot(const struct cassini_devinfo *info, struct cxi_key *out)
{
	const char *devices = secure_getenv("SLINGSHOT_DEVICES"), *vnis = secure_getenv("SLINGSHOT_VNIS"),
		   *svcs = secure_getenv("SLINGSHOT_SVC_IDS");
	char name[32];
	unsigned long vni, svc;

	if (!devices || !vnis || !svcs)
		return false;
	if (!csv_number(vnis, 0, UINT16_MAX, &vni)) {
		LOG_WARN("VNI not found in SLINGSHOT_VNIS: %s", vnis);
		return false;
	}
	for (int i = 0; csv_item(devices, i, name, sizeof(name)); i++) {
		if (strcmp(name, info->name))
			continue;
		if (!csv_number(svcs, i, UINT32_MAX, &svc)) {
			LOG_WARN("no service for %s, device %d of SLINGSHOT_DEVICES, in SLINGSHOT_SVC_IDS: %s", name, i,
				 svcs);
			return false;
		}
		*out = (struct cxi_key){.svc_id = (uint32_t)svc, .vni = (uint16_t)vni};
		return true;
	}
	LOG_WARN("Failed to find %s in SLINGSHOT_DEVICES: %s", info->name, devices);
	return false;
}

/* How well a service fits this process: member by user, by group, anybody. 0: not at all. */
static int svc_rank(const struct cassini_svc_desc *s)
{
	if (!s->enabled || s->is_system)
		return 0;
	if (!s->restricted_members)
		return 1;
	if (s->uid >= 0 && (uid_t)s->uid == geteuid())
		return 3;
	return s->gid >= 0 && (gid_t)s->gid == getegid() ? 2 : 0;
}

int cxi_key_default(int dev_idx, const struct cassini_devinfo *info, const struct cxi_params *p, struct cxi_key *out,
		    char *why, size_t why_len)
{
	struct cassini_svc_desc svc[SVC_MAX];
	const struct cassini_svc_desc *best = NULL;
	int cnt, rank = 0;

	if (key_slingshot(info, out))
		return cassini_svc_check(dev_idx, out->svc_id, out->vni, -1, why, why_len) ? -FI_EACCES : 0;
	cnt = MIN(cassini_svc_list(dev_idx, svc, SVC_MAX), SVC_MAX);
	for (int i = cnt - 1; i >= 0; i--) { /* the last one first, as the real provider walks them */
		if (svc_rank(&svc[i]) > rank) {
			best = &svc[i];
			rank = svc_rank(best);
		}
	}
	if (!best) {
		snprintf(why, why_len, "%s has no enabled service that this user may use (%d services)", info->name,
			 cnt);
		return -FI_EACCES;
	}
	*out = (struct cxi_key){.svc_id = best->svc_id, .vni = (uint16_t)p->default_vni};
	if (best->restricted_vnis)
		out->vni = best->vni[0];
	if (!best->restricted_members)
		LOG_INFO("Security Issue: Using unrestricted service ID %u for %s: any user of this host may",
			 best->svc_id, info->name);
	return 0;
}

int cxi_key_check(int dev_idx, const void *key, size_t len, struct cxi_key *out)
{
	struct cxi_key k;
	char why[256];
	int ret;

	if (!key || len != sizeof(k)) {
		LOG_WARN("authorisation key of %zu bytes refused: it has %zu (service, VNI)", len, sizeof(k));
		return -FI_EINVAL;
	}
	memcpy(&k, key, sizeof(k));
	ret = cassini_svc_check(dev_idx, k.svc_id, k.vni, -1, why, sizeof(why));
	if (ret) {
		LOG_WARN("authorisation key (service %u, VNI %u) refused: %s", k.svc_id, k.vni, why);
		return ret;
	}
	*out = k;
	return 0;
}

int cxi_key_of_domain(const struct cxi_domain *d, const void *key, size_t len, struct cxi_key *out)
{
	struct cxi_key k;
	int ret = cxi_key_check(d->dev_idx, key, len, &k);

	if (ret)
		return ret;
	if (k.svc_id != d->key.svc_id) {
		LOG_WARN(
			"authorisation key refused: it names service %u, and the domain was opened through service %u; "
			"give the key to fi_domain too",
			k.svc_id, d->key.svc_id);
		return -FI_EINVAL;
	}
	*out = k;
	return 0;
}
