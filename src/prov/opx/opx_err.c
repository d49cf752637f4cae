// SPDX-License-Identifier: BSD-2-Clause
// Why operations fail: one row per status with the libfabric error and our words.
#include <rdma/fi_errno.h>

#include "prov/opx/opx_proto.h"

static const struct {
	int err;
	const char *text;
} row[] = {
	[OPX_OK] = {0, "success"},
	[OPX_ST_KEY] = {FI_EKEYREJECTED, "the target has no memory region with this key"},
	[OPX_ST_RANGE] = {FI_EINVAL, "the range lies outside the target's memory region"},
	[OPX_ST_ACCESS] = {FI_EACCES, "the target's memory region does not permit this access"},
	[OPX_ST_ATOMIC] = {FI_EOPNOTSUPP, "the target does not know this datatype and operation"},
	[OPX_ST_CANCELED] = {FI_ECANCELED, "canceled"},
	[OPX_ST_NOMEM] = {FI_ENOMEM, "the target has no memory left"},
	[OPX_ST_COPY] = {FI_EIO, "the copy between processes failed"},
	[OPX_ST_GONE] =
		{FI_EFAULT,
		 "memory of the operation is not there: unmapped, protected, beyond the end of a file, or no longer "
		 "offered"},
	[OPX_ST_PEER_GONE] = {FI_ECONNREFUSED, "nobody has this context any more: its process closed it or ended"},
	[OPX_ST_PEER_SILENT] = {FI_ETIMEDOUT, "the peer was silent for longer than dead_after"},
	[OPX_ST_PEER_REPLACED] = {FI_ECONNRESET, "another process has taken the peer's context"},
	[OPX_ST_NET_DOWN] = {FI_ENETDOWN, "the HFI's port is down"},
	[OPX_ST_UNREACH] = {FI_EHOSTUNREACH, "the peer never answered"},
	[OPX_ST_TRUNC] = {FI_ETRUNC, "the message is longer than the receive buffer"},
	[OPX_ST_UNKEPT] = {FI_ENOMEM, "the peer had no memory for a message that had left, which is lost"},
};
static_assert(ARRAY_SIZE(row) == OPX_ST_NUM, "the last one has a row");

int opx_err_of(enum opx_status st)
{
	return (unsigned)st < ARRAY_SIZE(row) && row[st].text ? row[st].err : FI_EIO;
}

enum opx_status opx_status_of(int rc, enum opx_status other)
{
	switch (rc) {
	case -FI_ENETDOWN:
		return OPX_ST_NET_DOWN;
	case -FI_ENOMEM:
		return OPX_ST_NOMEM;
	case -FI_ECONNREFUSED:
	case -FI_EOPNOTSUPP: /* of a copy: the path that its request came by has ended */
		return OPX_ST_PEER_GONE;
	case -FI_ETIMEDOUT:
		return OPX_ST_PEER_SILENT;
	case -FI_ECANCELED:
		return OPX_ST_CANCELED;
	case -FI_EFAULT:
	case -FI_EACCES: /* of a copy: its pieces have been checked */
		return OPX_ST_GONE;
	default:
		return other;
	}
}

const char *opx_strerror(int prov_errno)
{
	if (prov_errno >= 0 && (unsigned)prov_errno < ARRAY_SIZE(row) && row[prov_errno].text)
		return row[prov_errno].text;
	/* of the kit: a cancelled receive, a peek that found nothing */
	return fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno);
}
