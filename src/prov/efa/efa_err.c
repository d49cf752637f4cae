// SPDX-License-Identifier: BSD-2-Clause
// Device statuses and provider error codes: one table gives libfabric's errno and the words. Source:
// doc/facts/efa.md#error-codes.
#include "prov/efa/efa.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct err_row {
	unsigned prov_errno;
	int err;
	const char *text;
};

static const struct err_row err_tab[] = {
	{EFANIC_OK, FI_SUCCESS, "success"},
	{EFANIC_FLUSHED, FI_ECANCELED, "work request cancelled because its queue pair went away"},
	{EFANIC_LOCAL_QP_INTERNAL, FI_EINVAL, "internal fault of the local queue pair"},
	{EFANIC_LOCAL_UNSUPPORTED_OP, FI_EINVAL, "operation that this device does not offer"},
	{EFANIC_LOCAL_INVALID_AH, FI_EINVAL, "address handle is closed or unknown"},
	{EFANIC_LOCAL_INVALID_LKEY, FI_EINVAL, "local key unknown or range outside its region"},
	{EFANIC_LOCAL_BAD_LENGTH, FI_EMSGSIZE, "message above the MTU or transfer above the RDMA limit"},
	{EFANIC_REMOTE_BAD_ADDRESS, FI_EINVAL, "remote key unknown, or range or permission wrong at the target"},
	{EFANIC_REMOTE_ABORT, FI_ECONNABORTED, "peer tore its queue pair down"},
	{EFANIC_REMOTE_BAD_DEST_QPN, FI_ENOTCONN, "no such queue pair at the peer"},
	{EFANIC_REMOTE_RNR, FI_ENORX, "receiver not ready"},
	{EFANIC_REMOTE_BAD_LENGTH, FI_EMSGSIZE, "receive posted by the peer is smaller than the message"},
	{EFANIC_REMOTE_BAD_STATUS, FI_EREMOTEIO, "meaningless answer of the peer"},
	{EFANIC_LOCAL_UNRESP_REMOTE, FI_ECONNABORTED, "peer stopped answering"},
	{EFANIC_REMOTE_UNKNOWN_PEER, FI_ENOTCONN, "peer has no address handle for us"},
	{EFANIC_LOCAL_UNREACH_REMOTE, FI_EHOSTUNREACH, "peer never answered"},
	{EFANIC_REMOTE_FEATURE_MISMATCH, FI_EINVAL, "features of the two sides conflict"},
	{EFA_ERR_GENERIC, FI_EOTHER, "provider error"},
	{EFA_ERR_OLD_PROTOCOL, FI_EOTHER, "packet of a protocol that is no longer spoken"},
	{EFA_ERR_PKT_TYPE, FI_EOTHER, "packet of an invalid type"},
	{EFA_ERR_PKT_UNKNOWN, FI_EOTHER, "packet of an unknown type"},
	{EFA_ERR_PKT_POST, FI_EOTHER, "packet could not be posted"},
	{EFA_ERR_PKT_SEND, FI_EOTHER, "packet could not be sent"},
	{EFA_ERR_PKT_MSG, FI_EOTHER, "message packet could not be processed"},
	{EFA_ERR_PKT_TAGGED, FI_EOTHER, "tagged message packet could not be processed"},
	{EFA_ERR_PKT_TWICE, FI_EOTHER, "packet was processed already"},
	{EFA_ERR_NOMEM, FI_ENOMEM, "out of memory"},
	{EFA_ERR_MR_CLOSE, FI_EOTHER, "memory region could not be closed"},
	{EFA_ERR_COPY, FI_EOTHER, "payload could not be copied"},
	{EFA_ERR_NO_RX, FI_EOTHER, "no incoming transfer left"},
	{EFA_ERR_NO_TX, FI_EOTHER, "no outgoing transfer left"},
	{EFA_ERR_AV_INSERT, FI_EOTHER, "address could not be inserted"},
	{EFA_ERR_REMOTE_MEM, FI_EOTHER, "remote memory address, key or permission wrong"},
	{EFA_ERR_RECV_POST, FI_EOTHER, "internal receive could not be posted"},
	{EFA_ERR_HANDSHAKE, FI_EOTHER, "handshake with the peer failed"},
	{EFA_ERR_SEND_POST, FI_EOTHER, "send work request could not be posted"},
	{EFA_ERR_PKT_MISMATCH, FI_EOTHER, "packets of one message disagree"},
	{EFA_ERR_READ_POST, FI_EOTHER, "read could not be posted"},
	{EFA_ERR_RDMA_READ_POST, FI_EOTHER, "RDMA read could not be posted"},
	{EFA_ERR_ATOMIC, FI_EOTHER, "invalid datatype or operation in an atomic"},
	{EFA_ERR_WRITE, FI_EOTHER, "write completion failed"},
	{EFA_ERR_WRITE_RECV, FI_EOTHER, "write-with-immediate reception failed"},
	{EFA_ERR_DGRAM_CQ, FI_EOTHER, "datagram completion queue could not be read"},
	{EFA_ERR_SHM, FI_EOTHER, "shared memory failed"},
	{EFA_ERR_SHM_CQ, FI_EOTHER, "shared memory completion could not be written"},
	{EFA_ERR_UNRESPONSIVE, FI_ECONNABORTED,
	 "unresponsive receiver: its handshake was seen, then it stopped answering"},
	{EFA_ERR_ZCPY_HEADER, FI_EOTHER, "packet with a header reached an endpoint in zero-copy receive mode"},
	{EFA_ERR_UNREACHABLE, FI_ECONNABORTED,
	 "unresponsive receiver: no handshake was ever seen (is traffic between the two hosts allowed?)"},
};

static const struct err_row *find(unsigned prov_errno)
{
	for (size_t i = 0; i < ARRAY_SIZE(err_tab); i++)
		if (err_tab[i].prov_errno == prov_errno)
			return &err_tab[i];
	return NULL;
}

int efa_errno(unsigned prov_errno)
{
	const struct err_row *row = find(prov_errno);

	return row ? row->err : FI_EOTHER;
}

unsigned efa_prov_errno(const struct efa_peer *peer, unsigned status)
{
	if (status == EFANIC_LOCAL_UNRESP_REMOTE)
		return peer->flags & EFA_PEER_HS_RCVD ? EFA_ERR_UNRESPONSIVE : EFA_ERR_UNREACHABLE;
	return status;
}

bool efa_status_is_loss(unsigned status)
{
	switch (status) {
	case EFANIC_REMOTE_ABORT:
	case EFANIC_REMOTE_BAD_DEST_QPN:
	case EFANIC_LOCAL_UNRESP_REMOTE:
	case EFANIC_LOCAL_UNREACH_REMOTE:
	case EFANIC_REMOTE_FEATURE_MISMATCH:
		return true;
	}
	return false;
}

const char *efa_strerror(unsigned prov_errno)
{
	const struct err_row *row = find(prov_errno);

	if (row)
		return row->text;
	/* What libfabric itself defines, as in a truncated receive's entry. */
	return prov_errno > EFANIC_REMOTE_FEATURE_MISMATCH && prov_errno < 512 ? fi_strerror((int)prov_errno)
									       : "unknown error";
}

uint64_t efa_host_id(void)
{
	static const char path[] = "/sys/devices/virtual/dmi/id/board_asset_tag";
	char tag[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, tag, sizeof(tag) - 1);
	close(fd);
	if (n <= 3 || strncmp(tag, "i-0", 3))
		return 0;
	return strtoull(tag + 3, NULL, 16);
}

bool efa_peer_is_far(const struct efa_ep *ep, const struct efa_peer *peer)
{
	if (peer->is_near || peer->flags & EFA_PEER_HS_RCVD || peer->exp_msg_id)
		return false;
	return ep->self.host && peer->addr.host && peer->addr.host != ep->self.host;
}

static const char *hint(const struct efa_ep *ep, const struct efa_peer *peer)
{
	return peer && efa_peer_is_far(ep, peer) ?
		       " (no adapter with this address on this host; between hosts set SOFTFABRIC_NET=\"if=...\")" : "";
}

size_t efa_err_data(const struct efa_ep *ep, const struct efa_peer *peer, unsigned prov_errno, char *buf, size_t cap)
{
	char self[96] = "N/A", other[96] = "N/A";
	size_t len = sizeof(self);
	int n;

	efa_addr_str(&ep->self, self, &len);
	if (peer && !(peer->flags & EFA_PEER_REMOVED)) {
		len = sizeof(other);
		efa_addr_str(&peer->addr, other, &len);
	}
	n = snprintf(buf, cap, "%s%s My EFA addr: %s My host id: i-%017llx Peer EFA addr: %s Peer host id: i-%017llx",
		     efa_strerror(prov_errno), hint(ep, peer), self, (unsigned long long)efa_host_id(), other,
		     peer ? (unsigned long long)peer->host_id : 0ULL);
	return n < 0 ? 0 : MIN((size_t)n + 1, cap);
}
