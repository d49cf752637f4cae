// SPDX-License-Identifier: BSD-2-Clause
// Counting and asking adapters of a kind: read the room, find where the adapter is, let the kind say the rest.
#include "nic/common/nic_room.h"

#include <errno.h>

#define ERR_MAX 512 /* a sentence that nobody asked for */

static int attr_fill(const struct nic_kind *kind, const struct nic_room *room, int idx, void *attr, char *err,
		     size_t err_len)
{
	struct nic_place at;

	if (link_room_get(&at.net, err, err_len) || link_room_ip(at.net, (unsigned)idx, at.ip, err, err_len))
		return -ENODEV;
	return kind->fill(room, idx, &at, attr, err, err_len) ? -ENODEV : 0;
}

int nic_cnt(const struct nic_kind *kind, struct nic_room *room, void *attr, char *err, size_t err_len)
{
	if (err_len)
		err[0] = '\0';
	if (kind->read(room, err, err_len))
		return 0;
	for (int i = 0; i < (int)room->cnt; i++)
		if (attr_fill(kind, room, i, attr, err, err_len))
			return 0;
	return (int)room->cnt;
}

int nic_room_of(const struct nic_kind *kind, int idx, struct nic_room *room)
{
	char err[ERR_MAX];

	if (kind->read(room, err, sizeof(err)) || idx < 0 || (uint64_t)idx >= room->cnt)
		return -ENODEV;
	return 0;
}

int nic_query(const struct nic_kind *kind, int idx, struct nic_room *room, void *attr)
{
	char err[ERR_MAX];
	int rc = nic_room_of(kind, idx, room);

	return rc ? rc : attr_fill(kind, room, idx, attr, err, sizeof(err));
}
