// SPDX-License-Identifier: BSD-2-Clause
// The private sysfs tree: what programs read beside libibverbs' calls. Removed at exit; what a killed process left, by
// the next one.
#include "verbs/verbs_int.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * A folder TMPDIR/softfabric-verbs-UID-XXXXXX per process, mode 0700. Its owner holds a lock on the file "owner" in it
 * for as long as it lives, which the kernel takes back from whoever is killed; who finds the file unlocked removes the
 * folder. So the file has another name until it is locked.
 */

#define TREE_NAME    "softfabric-verbs"
#define TREE_DIR_LEN 96u /* a longer TMPDIR leaves too little for the paths in the tree */
#define PATH_LEN     256
#define YOUNG_S	     60 /* a folder without the file may just be under construction */
#define REMOVE_DEPTH 12

static char g_root[160];
static pid_t g_owner;

static int put(const char *text, const char *fmt, ...) __printf_like(2, 3);

/* Makes the folders above @path, which lies in the tree. */
static int parents_make(char *path)
{
	for (char *p = path + strlen(g_root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

static int path_of(char path[PATH_LEN], const char *fmt, va_list ap)
{
	int len = snprintf(path, PATH_LEN, "%s/", g_root);

	if (vsnprintf(path + len, (size_t)(PATH_LEN - len), fmt, ap) >= PATH_LEN - len)
		return -ENAMETOOLONG;
	return parents_make(path);
}

/* A file of @text and a line's end. */
static int put(const char *text, const char *fmt, ...)
{
	char path[PATH_LEN];
	va_list ap;
	int fd, rc;

	va_start(ap, fmt);
	rc = path_of(path, fmt, ap);
	va_end(ap);
	if (rc)
		return rc;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	rc = dprintf(fd, "%s\n", text) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static int put_num(const char *fmt_num, unsigned num, const char *dir, const char *file)
{
	char text[32];

	snprintf(text, sizeof(text), fmt_num, num);
	return put(text, "%s/%s", dir, file);
}

static int put_link(const char *to, const char *dir, const char *file)
{
	char path[PATH_LEN], target[PATH_LEN];
	int rc;

	if (snprintf(path, sizeof(path), "%s/%s/%s", g_root, dir, file) >= PATH_LEN ||
	    snprintf(target, sizeof(target), "%s/%s", g_root, to) >= PATH_LEN)
		return -ENAMETOOLONG;
	rc = parents_make(path);
	if (!rc && symlink(target, path))
		rc = -errno;
	return rc;
}

static void gid_text(const uint8_t gid[16], char text[40])
{
	for (int i = 0; i < 8; i++)
		snprintf(text + 5 * i, 6, "%02x%02x%s", gid[2 * i], gid[2 * i + 1], i < 7 ? ":" : "");
}

/* The PCI device of @dev, into @at its path in the tree. */
static int pci_make(const struct efanic_dev_attr *a, char at[PATH_LEN])
{
	int rc;

	snprintf(at, PATH_LEN, "devices/pci%04x:%02x/%04x:%02x:%02x.%x", a->pci_domain, a->pci_bus, a->pci_domain,
		 a->pci_bus, a->pci_device, a->pci_function);
	rc = put_num("0x%04x", a->vendor_id, at, "vendor");
	rc = rc ? rc : put_num("0x%04x", a->vendor_part_id, at, "device");
	rc = rc ? rc : put("0x020000", "%s/class", at);
	rc = rc ? rc : put("-1", "%s/numa_node", at);
	return rc ? rc : put_link("bus/pci/drivers/efa", at, "driver");
}

static int port_make(const struct efanic_dev_attr *a, const char *dir)
{
	static const char *const file[][2] = {
		{"lid", "0x0"},		{"lid_mask_count", "0"},     {"sm_lid", "0x0"},
		{"sm_sl", "0"},		{"cap_mask", "0x00000000"},  {"rate", "100 Gb/sec (4X EDR)"},
		{"state", "4: ACTIVE"}, {"phys_state", "5: LinkUp"}, {"link_layer", "Unspecified"},
	};
	char gid[40];
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(file) && !rc; i++)
		rc = put(file[i][1], "%s/ports/1/%s", dir, file[i][0]);
	gid_text(a->gid, gid);
	rc = rc ? rc : put(gid, "%s/ports/1/gids/0", dir);
	return rc ? rc : put("0xffff", "%s/ports/1/pkeys/0", dir);
}

static int dev_make(const struct vdev *dev)
{
	const struct efanic_dev_attr *a = &dev->attr;
	char pci[PATH_LEN], dir[PATH_LEN];
	int rc = pci_make(a, pci);

	snprintf(dir, sizeof(dir), "class/infiniband_verbs/uverbs%d", dev->idx);
	rc = rc ? rc : put(a->name, "%s/ibdev", dir);
	rc = rc ? rc : put("1", "%s/abi_version", dir);
	rc = rc ? rc : put_num("231:%u", 192 + (unsigned)dev->idx, dir, "dev");
	rc = rc ? rc : put_link(pci, dir, "device");
	snprintf(dir, sizeof(dir), "class/infiniband/%s", a->name);
	rc = rc ? rc : put("7: <unknown>", "%s/node_type", dir);
	rc = rc ? rc : put("0000:0000:0000:0000", "%s/node_guid", dir);
	rc = rc ? rc : put("0000:0000:0000:0000", "%s/sys_image_guid", dir);
	rc = rc ? rc : put(a->fw_ver, "%s/fw_ver", dir);
	rc = rc ? rc : put(a->name, "%s/node_desc", dir);
	rc = rc ? rc : put_link(pci, dir, "device");
	return rc ? rc : port_make(a, dir);
}

/* --- removal --- */

static void tree_remove(int at, const char *name, int depth)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 || depth <= 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((de = readdir(d))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (unlinkat(fd, de->d_name, 0) && (errno == EISDIR || errno == EPERM))
			tree_remove(fd, de->d_name, depth - 1);
	}
	closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

/* Whose owner is gone? */
static void reap_one(int at, const char *name)
{
	char owner[PATH_LEN];
	struct stat st;
	int fd;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
	    snprintf(owner, sizeof(owner), "%s/owner", name) >= PATH_LEN)
		return;
	fd = openat(at, owner, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 ? st.st_mtime + YOUNG_S < time(NULL) : !flock(fd, LOCK_EX | LOCK_NB))
		tree_remove(at, name, REMOVE_DEPTH);
	if (fd >= 0)
		close(fd);
}

static void reap(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	struct dirent *de;

	if (!d)
		return;
	while ((de = readdir(d)))
		if (!strncmp(de->d_name, prefix, strlen(prefix)))
			reap_one(dirfd(d), de->d_name);
	closedir(d);
}

static __attribute__((destructor)) void tree_end(void)
{
	if (g_owner == getpid())
		tree_remove(AT_FDCWD, g_root, REMOVE_DEPTH);
}

/* Return: the descriptor, which stays open, since the lock is its; -errno. */
static int owner_make(void)
{
	char path[PATH_LEN], young[PATH_LEN];
	int fd, rc;

	snprintf(path, sizeof(path), "%s/owner", g_root);
	snprintf(young, sizeof(young), "%s/owner.new", g_root);
	fd = open(young, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (!flock(fd, LOCK_EX | LOCK_NB) && !rename(young, path))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int tree_make(const struct vdev *dev, int cnt)
{
	int fd = owner_make(), rc;

	if (fd < 0)
		return fd;
	rc = put("6", "class/infiniband_verbs/abi_version");
	rc = rc ? rc : put("", "bus/pci/drivers/efa/module_version");
	for (int i = 0; i < cnt && !rc; i++)
		rc = dev_make(&dev[i]);
	if (rc)
		close(fd);
	return rc;
}

static const char *tree_dir(void)
{
	const char *env = secure_getenv("TMPDIR");

	return env && env[0] == '/' && strlen(env) < TREE_DIR_LEN ? env : "/tmp";
}

const char *verbs_sysfs_make(const struct vdev *dev, int cnt)
{
	const char *dir = tree_dir();
	char prefix[48];
	int rc;

	snprintf(prefix, sizeof(prefix), TREE_NAME "-%u-", (unsigned)geteuid());
	reap(dir, prefix);
	snprintf(g_root, sizeof(g_root), "%s/%sXXXXXX", dir, prefix);
	if (!mkdtemp(g_root)) {
		LOG_WARN("no sysfs tree for programs that read it: %s: %s", dir, strerror(errno));
		return NULL;
	}
	g_owner = getpid();
	rc = tree_make(dev, cnt);
	if (rc) {
		LOG_WARN("no sysfs tree for programs that read it: %s: %s", g_root, strerror(-rc));
		tree_remove(AT_FDCWD, g_root, REMOVE_DEPTH);
		g_owner = 0;
		return NULL;
	}
	setenv("SYSFS_PATH", g_root, 1);
	return g_root;
}
