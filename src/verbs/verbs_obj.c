// SPDX-License-Identifier: BSD-2-Clause
// The table of live objects, by the handle that the program has; and what is said of what is not offered.
#include "verbs/verbs_int.h"

/* Handles come from programs, which may give one that is foreign or destroyed: nothing is read behind it before it was
 * found here. */

#define BUCKETS	    1024u
#define REFUSED_MAX 64

static struct vobj *g_bucket[BUCKETS];
static const char *g_refused[REFUSED_MAX];

static struct vobj **bucket_of(const void *handle)
{
	uint64_t h = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ULL;

	return &g_bucket[h >> 54];
}

void verbs_obj_add(struct vobj *o, enum obj_type type, struct vctx *ctx, const void *handle)
{
	struct vobj **at = bucket_of(handle);

	o->type = type;
	o->ctx = ctx;
	o->handle = handle;
	pthread_mutex_lock(&verbs_obj_mutex);
	o->hnext = *at;
	*at = o;
	pthread_mutex_unlock(&verbs_obj_mutex);
}

void verbs_obj_del(struct vobj *o)
{
	struct vobj **at = bucket_of(o->handle);

	pthread_mutex_lock(&verbs_obj_mutex);
	while (*at && *at != o)
		at = &(*at)->hnext;
	if (*at)
		*at = o->hnext;
	pthread_mutex_unlock(&verbs_obj_mutex);
}

void *verbs_obj_get(enum obj_type type, const void *handle)
{
	struct vobj *o;

	pthread_mutex_lock(&verbs_obj_mutex);
	o = *bucket_of(handle);
	while (o && (o->handle != handle || o->type != type))
		o = o->hnext;
	pthread_mutex_unlock(&verbs_obj_mutex);
	if (!o)
		errno = EINVAL;
	return o;
}

void *verbs_obj_any(enum obj_type type, const struct vctx *ctx)
{
	struct vobj *o = NULL;

	pthread_mutex_lock(&verbs_obj_mutex);
	for (unsigned i = 0; i < BUCKETS && !o; i++)
		for (o = g_bucket[i]; o && (o->type != type || o->ctx != ctx); o = o->hnext)
			;
	pthread_mutex_unlock(&verbs_obj_mutex);
	return o;
}

void *verbs_fail(int err)
{
	errno = err;
	return NULL;
}

/* Is it the first time that @name is refused? Names are literals. */
static bool is_news(const char *name)
{
	bool news = false;

	pthread_mutex_lock(&verbs_obj_mutex);
	for (unsigned i = 0; i < REFUSED_MAX && g_refused[i] != name; i++) {
		if (g_refused[i])
			continue;
		g_refused[i] = name;
		news = true;
		break;
	}
	pthread_mutex_unlock(&verbs_obj_mutex);
	return news;
}

int verbs_refuse(const char *name, const char *why)
{
	if (is_news(name))
		LOG_WARN("%s is not offered: %s", name, why);
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}
