// SPDX-License-Identifier: BSD-2-Clause
// The soft room's EFA adapters: SOFTFABRIC_EFA, attributes by generation, opening and closing one.
#include "nic/efanic/efanic_int.h"

#include <errno.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/mem.h"
#include "link/hostpart.h"
#include "nic/common/nic_room.h"

/* --- the room --- */

#define ROOM_ENV "SOFTFABRIC_EFA"
#define DEV_MAX	 8

/* As parsed; every number is settable so that its exhaustion can be tested. */
struct room {
	struct nic_room all;
	uint32_t gen; /* a word of GEN_WORDS */
	uint64_t mtu, max_qp, max_cq, max_ah, max_mr, max_pd, max_mr_size, max_rdma_size, sq, rq;
	bool hmem, lenient;
};

enum gen { GEN_EFA0_NONE, GEN_EFA0_READ, GEN_EFA1_RW, GEN_EFA2_FULL, GEN_NUM };
/* The last two are short for the two before them. */
#define GEN_WORDS "efa0-none,efa0-read,efa1-rw,efa2-full,efa1,efa2"

static const struct gen_row {
	uint16_t part_id;
	uint32_t caps;
} gen_row[GEN_NUM] = {
	[GEN_EFA0_NONE] = {0xefa0, 0},
	[GEN_EFA0_READ] = {0xefa0, EFANIC_CAP_RDMA_READ | EFANIC_CAP_RNR_RETRY},
	[GEN_EFA1_RW] = {0xefa1, EFANIC_CAP_RDMA_READ | EFANIC_CAP_RNR_RETRY |
					 EFANIC_CAP_CQ_WITH_SGID | EFANIC_CAP_RDMA_WRITE},
	[GEN_EFA2_FULL] = {0xefa2, EFANIC_CAP_RDMA_READ | EFANIC_CAP_RNR_RETRY |
					   EFANIC_CAP_CQ_WITH_SGID | EFANIC_CAP_RDMA_WRITE |
					   EFANIC_CAP_UNSOLICITED_WRITE_RECV},
};

#define OFF(member_) offsetof(struct room, member_)
static const struct conf_key room_key[] = {
	{"nics", CONF_U64, OFF(all.cnt), "adapters", 0, DEV_MAX, NULL, "1"},
	{"gen", CONF_WORD, OFF(gen), "hardware generation", 0, 0, GEN_WORDS, "efa2-full"},
	{"mtu", CONF_U64, OFF(mtu), "largest SEND, bytes", 1024, EFANIC_MTU, NULL, "8928"},
	{"max_qp", CONF_U64, OFF(max_qp), "queue pairs", 1, 65535, NULL, "256"},
	{"max_cq", CONF_U64, OFF(max_cq), "completion queues", 1, 65535, NULL, "512"},
	{"max_ah", CONF_U64, OFF(max_ah), "address handles", 1, 65534, NULL, "1024"},
	{"max_mr", CONF_U64, OFF(max_mr), "memory regions", 1, SLAB_MAX_CNT, NULL, "262144"},
	{"max_pd", CONF_U64, OFF(max_pd), "protection domains", 1, 65535, NULL, "256"},
	/* 96 GiB: what the page lists of the real one hold */
	{"max_mr_size", CONF_U64, OFF(max_mr_size), "bytes of one memory region", 1, 0x1p62, NULL, "96Gi"},
	{"max_rdma_size", CONF_U64, OFF(max_rdma_size), "bytes of one RDMA request", 1, 0x1p30, NULL, "1Gi"},
	{"sq", CONF_U64, OFF(sq), "send requests of a queue pair", 1, SQ_MAX, NULL, "4096"},
	{"rq", CONF_U64, OFF(rq), "receive requests of a queue pair", 1, 32768, NULL, "32768"},
	{"hmem", CONF_BOOL, OFF(hmem), "yes: as an instance that has GPUs", 0, 0, NULL},
	{"lenient", CONF_BOOL, OFF(lenient), "yes: verbs takes what UCX 1.13 asks of every adapter", 0, 0, NULL},
	{"pci", CONF_BOOL, OFF(all.pci), "yes: tell the PCI address, which is not here", 0, 0, NULL},
};

/* Where adapters sit, as on the machines that have several. Source: doc/facts/efa.md#adapters. */
static const struct {
	uint8_t bus, device;
} slot[DEV_MAX] = {{0, 6}, {16, 27}, {49, 0}, {70, 0}, {79, 0}, {80, 0}, {81, 0}, {82, 0}};

static const struct conf_src room_src = {ROOM_ENV, "efa", room_key, ARRAY_SIZE(room_key)};

static int room_read(struct nic_room *all, char *err, size_t err_len)
{
	struct room *room = container_of(all, struct room, all);

	conf_unset(room_key, ARRAY_SIZE(room_key), room, sizeof(*room));
	return conf_read(&room_src, room, sizeof(*room), err, err_len);
}

static enum gen room_gen(const struct room *room)
{
	return room->gen < GEN_NUM ? (enum gen)room->gen : (enum gen)(room->gen - 2);
}

static int attr_fill(const struct nic_room *all, int idx, const struct nic_place *at, void *attr, char *err,
		     size_t err_len)
{
	const struct room *room = container_of(all, struct room, all);
	const struct gen_row *gen = &gen_row[room_gen(room)];
	struct efanic_dev_attr *out = attr;

	(void)err, (void)err_len;
	*out = (struct efanic_dev_attr){
		.vendor_id = 0x1d0f,
		.vendor_part_id = gen->part_id,
		.device_caps = gen->caps,
		.max_sq_wr = (uint32_t)room->sq,
		.max_rq_wr = (uint32_t)room->rq,
		.max_sq_sge = 2,
		.max_rq_sge = RQ_SGE_MAX,
		.inline_buf_size = 32,
		.max_rdma_size = (uint32_t)room->max_rdma_size,
		.mtu = (uint32_t)room->mtu,
		.max_qp = (uint32_t)room->max_qp,
		.max_cq = (uint32_t)room->max_cq,
		.max_ah = (uint32_t)room->max_ah,
		.max_mr = (uint32_t)room->max_mr,
		.max_pd = (uint32_t)room->max_pd,
		.max_mr_size = room->max_mr_size,
		.speed_bps = 100000000000,
		.has_hmem = room->hmem,
		.is_lenient = room->lenient,
		.pci_always = room->all.pci,
		.pci_bus = slot[idx].bus,
		.pci_device = slot[idx].device,
		.driver = "efa",
		.fw_ver = "0.0.0.0",
		.hw_abi = "6",
	};
	snprintf(out->name, sizeof(out->name), "rdmap%us%u", slot[idx].bus, slot[idx].device);
	efanic_gid_of_ip(at->ip, out->gid);
	out->host = hostpart_mark(at->ip);
	return 0;
}

static const struct nic_kind kind = {room_read, attr_fill};

int efanic_dev_cnt(char *err, size_t err_len)
{
	struct efanic_dev_attr attr;
	struct room room;

	return nic_cnt(&kind, &room.all, &attr, err, err_len);
}

int efanic_dev_query(int idx, struct efanic_dev_attr *out)
{
	struct room room;

	return nic_query(&kind, idx, &room.all, out);
}

/* --- an open adapter --- */

void efanic_serve(struct efanic *nic)
{
	for (struct efanic_qp *qp = nic->qps; qp; qp = qp->next) {
		if (qp->attn & ATTN_POLLING) /* it is being closed */
			continue;
		link_poll(qp->port);
		efanic_tx_retry(qp);
	}
}

/* The adapter thread's turn. */
static void service(void *ctx)
{
	struct efanic *nic = ctx;

	if (nic->open.service)
		nic->open.service(nic->open.ctx);
	else
		efanic_serve(nic);
}

static uint64_t next_deadline(void *ctx)
{
	const struct efanic *nic = ctx;
	uint64_t at_ns = CLK_NEVER;

	for (const struct efanic_qp *qp = nic->qps; qp; qp = qp->next)
		at_ns = MIN(at_ns, efanic_tx_deadline(qp));
	return at_ns;
}

static int node_open(struct efanic *nic)
{
	struct link_node_attr attr = {
		.lock = nic->lock,
		.service = service,
		.next_deadline = next_deadline,
		.tell = efanic_stats_tell,
		.ctx = nic,
		.no_thread = nic->open.no_thread,
		.world = nic->open.world,
	};
	char err[256];
	int rc;

	rc = link_room_get(&attr.room, err, sizeof(err));
	if (rc) {
		LOG_WARN("%s", err);
		return rc;
	}
	return link_node_open(&attr, &nic->node);
}

int efanic_open(const struct efanic_open_attr *attr, struct efanic **out)
{
	struct efanic *nic = mem_alloc(sizeof(*nic));
	int rc;

	if (!nic)
		return -ENOMEM;
	nic->lock = attr->lock;
	nic->open = *attr;
	rng_seed(&nic->rng, rng_entropy());
	rc = efanic_dev_query(attr->dev_idx, &nic->attr);
	if (rc)
		goto err_nic;
	rc = slab_init(&nic->mrs, sizeof(struct efanic_mr), _Alignof(struct efanic_mr), 64,
		       nic->attr.max_mr);
	if (rc)
		goto err_nic;
	rc = slab_init(&nic->dsts, sizeof(struct efanic_dst), _Alignof(struct efanic_dst), 64, 0);
	if (rc)
		goto err_nic;
	rc = efanic_ah_tab_init(nic);
	if (rc)
		goto err_nic;
	rc = node_open(nic);
	if (rc)
		goto err_ah;
	*out = nic;
	return 0;
err_ah:
	efanic_ah_tab_fini(nic);
err_nic:
	mem_free(nic);
	return rc;
}

void efanic_close(struct efanic *nic)
{
	if (!nic)
		return;
	assert(!nic->qps);
	nic_stats_end(nic->node, nic->lock, efanic_stats_tell, nic);
	link_node_close(nic->node);
	efanic_ah_tab_fini(nic);
	slab_fini(&nic->dsts);
	slab_fini(&nic->mrs);
	mem_free(nic);
}

const struct efanic_dev_attr *efanic_attr(const struct efanic *nic)
{
	return &nic->attr;
}

void efanic_idle(struct efanic *nic)
{
	link_idle(nic->node);
}

bool efanic_forked(const struct efanic *nic)
{
	return link_forked(nic->node);
}

const uint8_t *efanic_fork_mark(const struct efanic *nic)
{
	return link_fork_mark(nic->node);
}
