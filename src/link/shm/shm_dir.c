// SPDX-License-Identifier: BSD-2-Clause
// The directory of all segments: their names, those of our user, and how much memory a new one may take.
#include "link/shm/shm_int.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SHM_NAMES_MAX 65536 /* names in the directory */

uint64_t shm_netns_id(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
}

static void ip_hex(const uint8_t ip[16], char out[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02x", ip[i]);
}

static void name_prefix(char *out, size_t len, bool any_netns)
{
	int n = snprintf(out, len, "softfabric-%u-", (unsigned)geteuid());

	if (!any_netns)
		snprintf(out + n, len - (size_t)n, "%llu-", (unsigned long long)shm_netns_id());
}

void shm_seg_path(const struct link_addr *addr, char out[SHM_NAME_MAX])
{
	char prefix[64], ip[33];

	name_prefix(prefix, sizeof(prefix), false);
	ip_hex(addr->ip, ip);
	snprintf(out, SHM_NAME_MAX, SHM_DIR "/%s%s-%u", prefix, ip, (unsigned)addr->port);
}

void shm_wake_path(const char *path, uint32_t wake, char out[SHM_WAKE_MAX])
{
	snprintf(out, SHM_WAKE_MAX, "%s.%08x.wake", path, (unsigned)wake);
}

static bool is_wake_name(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".wake") == 0;
}

enum shm_dir shm_dir_each(mode_t type, bool any_netns, unsigned max,
			  bool (*fn)(const char *path, const char *name, const struct stat *st, void *arg), void *arg)
{
	char prefix[64], path[SHM_NAME_MAX];
	DIR *d = opendir(SHM_DIR);
	struct dirent *de;
	uint32_t names = 0;
	bool stop = false;
	struct stat st;

	if (!d)
		return SHM_DIR_UNSEEN;
	name_prefix(prefix, sizeof(prefix), any_netns);
	while (!stop && max && names++ < SHM_NAMES_MAX && (de = readdir(d))) {
		if (strncmp(de->d_name, prefix, strlen(prefix)) || is_wake_name(de->d_name) != (type == S_IFIFO) ||
		    strlen(de->d_name) >= sizeof(path) - sizeof(SHM_DIR))
			continue;
		snprintf(path, sizeof(path), SHM_DIR "/%.*s", SHM_NAME_MAX - (int)sizeof(SHM_DIR) - 1, de->d_name);
		if (lstat(path, &st) || (st.st_mode & S_IFMT) != type || st.st_uid != geteuid())
			continue;
		max--;
		stop = fn(path, de->d_name, &st, arg);
	}
	closedir(d);
	return stop ? SHM_DIR_STOPPED : max && names < SHM_NAMES_MAX ? SHM_DIR_ALL : SHM_DIR_UNSEEN;
}

/* --- budget --- */

static bool space_cb(const char *path, const char *name, const struct stat *st, void *arg)
{
	struct shm_space *sp = arg;

	(void)path;
	(void)name;
	sp->used += (uint64_t)st->st_blocks * 512;
	return false;
}

static struct shm_space space_of(uint64_t budget, uint64_t free, uint64_t used)
{
	return (struct shm_space){.total = budget ? MIN(budget, free + used) : (free + used) / 4, .used = used};
}

/*
 * Each lane asks, and there are as many lanes of a process as files in the directory: so they are looked at only where
 * it matters how large they are. All files together are no smaller, and if there is plenty even if all are ours, there
 * is.
 */
struct shm_space shm_space_get(uint64_t budget)
{
	struct shm_space sp = {0};
	struct statvfs vfs;
	uint64_t free = 0, all = 0;

	if (statvfs(SHM_DIR, &vfs) == 0) {
		free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
		all = (uint64_t)(vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize;
	}
	sp = space_of(budget, free, all);
	if (shm_space_lane_slots(&sp) == SHM_SLOTS_BIG && shm_space_stage_grans(&sp) == SHM_STAGE_GRANS_MAX)
		return sp;
	sp.used = 0;
	shm_dir_each(S_IFREG, true, UINT32_MAX, space_cb, &sp);
	return space_of(budget, free, sp.used);
}

uint64_t shm_space_left(const struct shm_space *sp)
{
	return sp->total > sp->used ? sp->total - sp->used : 0;
}

uint32_t shm_space_lane_slots(const struct shm_space *sp)
{
	uint64_t left = shm_space_left(sp);

	if (left / SHM_LANE_STRIDE >= 512)
		return SHM_SLOTS_BIG;
	return left >= 8 * SHM_LANE_BYTES(SHM_SLOTS_SMALL) ? SHM_SLOTS_SMALL : 0;
}

uint32_t shm_space_stage_grans(const struct shm_space *sp)
{
	uint64_t left = shm_space_left(sp);

	for (uint32_t grans = SHM_STAGE_GRANS_MAX; grans > SHM_STAGE_GRANS_MIN; grans /= 4)
		if (left / 16 >= stage_shm_size(grans))
			return grans;
	return SHM_STAGE_GRANS_MIN;
}
