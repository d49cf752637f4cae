// SPDX-License-Identifier: BSD-2-Clause
// Programs that look whether they may use an adapter ask for its device file, which a soft one has not: the answer is
// yes.
#include "verbs/verbs_int.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEV_DIR "/dev/infiniband/uverbs"

bool verbs_path_is_dev(const char *path)
{
	const char *num;

	if (!path || strncmp(path, DEV_DIR, strlen(DEV_DIR)))
		return false;
	num = path + strlen(DEV_DIR);
	return num[0] >= '0' && num[0] <= '9' && !num[1] && num[0] - '0' < verbs_dev_cnt();
}

/* libc's own behind our name. */
static void *libc_fn(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

int access(const char *path, int mode)
{
	static int (*next)(const char *, int);

	if (verbs_path_is_dev(path) && !(mode & X_OK))
		return 0;
	if (!next)
		*(void **)&next = libc_fn("access");
	if (!next) {
		errno = ENOSYS;
		return -1;
	}
	return next(path, mode);
}

/* libc has two names for it, and the headers choose one. */
int verbs_stat(const char *path, struct stat *st) __asm__("stat");
int verbs_stat64(const char *path, struct stat *st) __asm__("stat64");

int verbs_stat64(const char *path, struct stat *st)
{
	static int (*next)(const char *, struct stat *);

	if (st && verbs_path_is_dev(path)) {
		*st = (struct stat){.st_mode = S_IFCHR | 0666, .st_nlink = 1, .st_blksize = 4096};
		return 0;
	}
	if (!next)
		*(void **)&next = libc_fn("stat64");
	if (!next) {
		errno = ENOSYS;
		return -1;
	}
	return next(path, st);
}

int verbs_stat(const char *path, struct stat *st)
{
	return verbs_stat64(path, st);
}
