// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: table and map, receive context bits, node and service.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "prov/cxi/cxi.h"

#define AV_COUNT_MIN 64

const char *cxi_addr_str(const struct cxi_addr *a, char *buf, size_t *len)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "fi_addr_cxi://0x%08x", le32_get(a->pid_nic)) + 1;

	if (buf && *len)
		snprintf(buf, *len, "%s", text);
	*len = (size_t)n;
	return buf;
}


static int av_check(struct kit_av *kav, const void *addr)
{
	struct cxi_addr a;

	(void)kav;
	memcpy(&a, addr, sizeof(a));
	if (cxi_addr_pid(&a) == CASSINI_PID_ANY || le32_get(a.pid_nic) >> 29) {
		LOG_WARN("address %#x refused: PID %u is not one of 0 to %u, or reserved bits are set", le32_get(a.pid_nic), cxi_addr_pid(&a),
			 CASSINI_PID_CNT - 1);
		return -FI_EINVAL;
	}
	return 0;
}

static const char *av_straddr(struct kit_av *kav, const void *addr, char *buf, size_t *len)
{
	struct cxi_addr a;

	(void)kav;
	memcpy(&a, addr, sizeof(a));
	return cxi_addr_str(&a, buf, len);
}

/* @node: a NIC address; @service: a PID. */
static int av_insertsvc(struct kit_av *kav, const char *node, const char *service, void *addr)
{
	char *end_node, *end_svc;
	unsigned long nic = strtoul(node, &end_node, 0), pid = service ? strtoul(service, &end_svc, 0) : 0;
	struct cxi_addr a;

	(void)kav;
	if (!*node || *end_node || nic > CASSINI_NIC_MAX || (service && (!*service || *end_svc)) || pid >= CASSINI_PID_CNT) {
		LOG_WARN("node \"%s\" service \"%s\" refused: a NIC address of 20 bits and a PID below %u are wanted", node, service ? service : "",
			 CASSINI_PID_CNT);
		return -FI_EINVAL;
	}
	a = cxi_addr_make((uint32_t)nic, (uint16_t)pid, 0);
	memcpy(addr, &a, sizeof(a));
	return 0;
}

static const struct kit_av_ops av_ops = {
	.check = av_check,
	.straddr = av_straddr,
	.insertsvc = av_insertsvc,
};

int cxi_av_dest(const struct cxi_av *av, fi_addr_t addr, struct cxi_dest *out)
{
	int bits = av->rx_ctx_bits;
	const struct cxi_addr *a;
	uint64_t rx = 0;

	if (unlikely(bits)) {
		rx = addr >> (64 - bits);
		addr &= ~0ULL >> bits;
	}
	a = kit_av_addr(&av->kit, addr);
	if (unlikely(!a || rx >= CXI_RX_CTX_MAX))
		return -FI_EINVAL;
	*out = (struct cxi_dest){.nic = cxi_addr_nic(a), .pid = cxi_addr_pid(a), .vni = le16_get(a->vni), .rx_idx = (uint8_t)rx};
	return 0;
}

fi_addr_t cxi_av_source(const struct cxi_av *av, uint32_t nic, uint16_t pid, uint16_t vni)
{
	struct cxi_addr a = cxi_addr_make(nic, pid, 0);

	(void)vni;
	return kit_av_find(&av->kit, &a);
}

static int av_close(struct fid *fid)
{
	struct cxi_av *av = container_of(fid, struct cxi_av, kit.fid.fid);
	int ret = kit_av_fini(&av->kit);

	if (!ret)
		mem_free(av);
	return ret;
}

static struct fi_ops av_fi_ops;

/* Tables are filled once: other threads use them from then on. */
static pthread_once_t ops_once = PTHREAD_ONCE_INIT;

static void fill_ops(void)
{
	av_fi_ops = kit_av_fi_ops;
	av_fi_ops.close = av_close;
}

int cxi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_out, void *context)
{
	struct kit_domain *d = container_of(domain, struct kit_domain, fid);
	struct fi_av_attr a;
	struct cxi_av *av;
	int ret;

	if (!attr || !av_out || attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 4)
		return -FI_EINVAL;
	if (attr->name || attr->flags) {
		LOG_WARN("address vector with a name or flags %#llx refused", (unsigned long long)attr->flags);
		return -FI_ENOSYS;
	}
	a = *attr;
	a.type = a.type == FI_AV_UNSPEC ? FI_AV_TABLE : a.type;
	a.count = MAX(a.count, (size_t)AV_COUNT_MIN);
	av = mem_alloc(sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	ret = kit_av_init(&av->kit, d, &a, CXI_ADDR_LEN, &av_ops, context);
	if (ret) {
		mem_free(av);
		return ret;
	}
	av->rx_ctx_bits = attr->rx_ctx_bits;
	av->kit.dedup = true;
	av->kit.allowed_flags = FI_MORE | FI_SYNC_ERR;
	pthread_once(&ops_once, fill_ops);
	av->kit.fid.fid.ops = &av_fi_ops;
	attr->type = a.type;
	*av_out = &av->kit.fid;
	return 0;
}
