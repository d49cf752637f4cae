// SPDX-License-Identifier: BSD-2-Clause
// The opx domain: parameters, the units that its endpoints have opened, and the objects made on it.
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/opx/opx.h"

#define PAGE 4096

static void domain_idle(struct kit_domain *kd)
{
	struct opx_domain *d = container_of(kd, struct opx_domain, kit);
	/* acquire; pairs with the release in opx_domain_hfi() */
	struct hfi *hfi = atomic_load_explicit(&d->idle_hfi, memory_order_acquire);

	if (hfi)
		hfi_idle(hfi);
	else
		sched_yield();
}

/* --- fork ---------------------------------------------------------------------------------------- */

/*
 * The domain has its own mark, and not a unit's: units are opened later than programs begin to poll.
 */
static void alive_open(struct opx_domain *d)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	d->owner_pid = getpid();
	if (p == MAP_FAILED)
		return;
	if (madvise(p, PAGE, MADV_WIPEONFORK)) {
		munmap(p, PAGE);
		return;
	}
	d->alive = p;
	*d->alive = 1;
}

static void alive_close(struct opx_domain *d)
{
	if (d->alive)
		munmap((void *)(uintptr_t)d->alive, PAGE);
}

static bool domain_forked(struct kit_domain *kd)
{
	struct opx_domain *d = container_of(kd, struct opx_domain, kit);

	return d->alive ? !*d->alive : getpid() != d->owner_pid;
}

/* --- units --------------------------------------------------------------------------------------- */

int opx_unit_of(const char *name)
{
	static const char *const stem[] = {"ib", "hfi1_"};
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(stem); i++) {
		size_t len = strlen(stem[i]);
		unsigned long v;

		if (strncmp(name, stem[i], len) || name[len] < '0' || name[len] > '9')
			continue;
		v = strtoul(name + len, &end, 10);
		return *end || v >= HFI_UNIT_MAX || (name[len] == '0' && name[len + 1]) ? -1 : (int)v;
	}
	return -1;
}

int opx_domain_hfi(struct opx_domain *d, int unit, struct hfi **out)
{
	struct hfi_open_attr attr = {.unit = unit, .lock = &d->kit.lock, .no_shm = !d->params.shm_enable};
	struct hfi *hfi = NULL;
	int ret = 0;

	pthread_mutex_lock(&d->open_lock);
	if (!d->hfi[unit]) {
		ret = hfi_open(&attr, &hfi);
		if (!ret) {
			lock_acquire(&d->kit.lock); /* for who reads counters */
			d->hfi[unit] = hfi;
			lock_release(&d->kit.lock);
			/* release; pairs with the acquire in domain_idle() */
			if (!atomic_load_explicit(&d->idle_hfi, memory_order_relaxed))
				atomic_store_explicit(&d->idle_hfi, hfi, memory_order_release);
		}
	}
	*out = d->hfi[unit];
	pthread_mutex_unlock(&d->open_lock);
	return ret;
}

/* --- close, open --------------------------------------------------------------------------------- */

static int domain_close(struct fid *fid)
{
	struct opx_domain *d = container_of(fid, struct opx_domain, kit.fid.fid);
	int ret = kit_domain_fini(&d->kit);

	if (ret)
		return ret;
	for (int i = 0; i < HFI_UNIT_MAX; i++)
		hfi_close(d->hfi[i]);
	if (atomic_load_explicit(&d->idle_hfi, memory_order_relaxed)) /* one was opened; nobody else is here any more */
		opx_stats_print(d);
	pthread_mutex_destroy(&d->open_lock);
	alive_close(d);
	mem_free(d->mr_tab);
	mem_free(d);
	return 0;
}


static const struct fi_ops domain_fi_ops = {.close = domain_close, .ops_open = opx_domain_ops_open};
static const struct fi_ops_domain domain_ops = {
	.av_open = opx_av_open,
	.cq_open = opx_cq_open,
	.endpoint = opx_ep_open,
	.scalable_ep = opx_sep_open,
	.cntr_open = opx_cntr_open,
	.query_atomic = opx_query_atomic,
};

/* Everything that can be refused, before anything is made. */
static int domain_choose(struct opx_domain *d, const struct fi_domain_attr *attr)
{
	struct hfi_unit_attr unit;

	d->unit = opx_unit_of(attr->name);
	if (d->unit < 0 || hfi_unit_query(d->unit, &unit)) {
		LOG_WARN("domain \"%s\" refused: this host has no such HFI unit", attr->name);
		return -FI_ENODEV;
	}
	opx_params_get(&d->params); /* what is refused was reported and keeps its default */
	d->auto_progress = attr->data_progress == FI_PROGRESS_AUTO;
	d->cores.start = 1; /* after end: any core */
	return *d->params.prog_affinity ? opx_cores_parse(d->params.prog_affinity, &d->cores) : 0;
}

int opx_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	struct kit_fabric *f = container_of(fabric, struct kit_fabric, fid);
	struct opx_domain *d;
	int ret;

	if (!info || !info->domain_attr || !info->domain_attr->name || !domain)
		return -FI_EINVAL;
	d = mem_alloc(sizeof(*d));
	if (!d)
		return -FI_ENOMEM;
	ret = domain_choose(d, info->domain_attr);
	if (ret)
		goto err_free;
	ret = kit_domain_init(&d->kit, f, info, &domain_fi_ops, &domain_ops, context);
	if (ret)
		goto err_free;
	LIST_INIT(&d->eps);
	pthread_mutex_init(&d->open_lock, NULL);
	alive_open(d);
	d->kit.stats = opx_stats_groups;
	d->kit.mr_open = opx_mr_open;
	d->kit.idle = domain_idle;
	d->kit.forked = domain_forked;
	kit_domain_mark(&d->kit, d->alive);
	*domain = &d->kit.fid;
	return 0;

err_free:
	mem_free(d);
	return ret;
}
