// SPDX-License-Identifier: BSD-2-Clause
// The adapters that programs find: the list, their names, the way to their sysfs files.
#include "verbs/verbs_int.h"

#include <fcntl.h>
#include <unistd.h>

#define DEV_MAX 8

static struct vdev g_dev[DEV_MAX];
static int g_cnt = -1; /* not asked yet */
static const char *g_root;

static void dev_fill(struct vdev *dev, int i, const char *root)
{
	struct ibv_device *ibv = &dev->ibv;

	ibv->node_type = IBV_NODE_UNSPECIFIED;
	ibv->transport_type = IBV_TRANSPORT_UNSPECIFIED;
	snprintf(ibv->name, sizeof(ibv->name), "%s", dev->attr.name);
	snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%d", i);
	snprintf(ibv->dev_path, sizeof(ibv->dev_path), "%s/class/infiniband_verbs/uverbs%d", root, i);
	snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "%s/class/infiniband/%s", root, dev->attr.name);
}

/* Once per process: devices do not come and go. */
static void room_look(void)
{
	char err[256];
	int cnt = efanic_dev_cnt(err, sizeof(err));

	if (!cnt && err[0])
		LOG_WARN("%s", err);
	cnt = MIN(cnt, DEV_MAX);
	for (int i = 0; i < cnt; i++) {
		g_dev[i].idx = i;
		if (efanic_dev_query(i, &g_dev[i].attr))
			cnt = i;
	}
	g_root = cnt ? verbs_sysfs_make(g_dev, cnt) : NULL;
	for (int i = 0; i < cnt; i++)
		dev_fill(&g_dev[i], i, g_root ? g_root : "/sys");
	g_cnt = cnt;
}

int verbs_dev_cnt(void)
{
	return MAX(g_cnt, 0);
}

struct vdev *verbs_dev_find(const struct ibv_device *dev)
{
	for (int i = 0; i < g_cnt; i++)
		if (dev == &g_dev[i].ibv)
			return &g_dev[i];
	errno = EINVAL;
	return NULL;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list;

	pthread_mutex_lock(&verbs_dev_mutex);
	if (g_cnt < 0)
		room_look();
	pthread_mutex_unlock(&verbs_dev_mutex);
	if (num_devices)
		*num_devices = 0;
	list = mem_alloc(((size_t)g_cnt + 1) * sizeof(*list));
	if (!list)
		return verbs_fail(ENOMEM);
	for (int i = 0; i < g_cnt; i++)
		list[i] = &g_dev[i].ibv;
	if (num_devices)
		*num_devices = g_cnt;
	errno = 0;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	mem_free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	struct vdev *dev = verbs_dev_find(device);

	return dev ? dev->ibv.name : NULL;
}

/* Older adapters have none, and 0 is what they tell. */
__be64 ibv_get_device_guid(struct ibv_device *device)
{
	(void)device;
	return 0;
}

int ibv_get_device_index(struct ibv_device *device)
{
	struct vdev *dev = verbs_dev_find(device);

	return dev ? dev->idx : -1;
}

/* --- sysfs, as libibverbs reads it --- */

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

const char *ibv_get_sysfs_path(void)
{
	const char *env = secure_getenv("SYSFS_PATH");

	if (g_root)
		return g_root;
	return env && env[0] ? env : "/sys";
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[512];
	ssize_t len;
	int fd;

	if (!dir || !file || !buf || !size || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	len = read(fd, buf, size);
	close(fd);
	if (len > 0) {
		if (buf[len - 1] == '\n')
			buf[--len] = '\0';
		else if ((size_t)len < size)
			buf[len] = '\0';
		else
			return -1;
	}
	return (int)len;
}
