// SPDX-License-Identifier: BSD-2-Clause
// Contexts: opening and closing an adapter, its attributes, its port.
#include "verbs/verbs_int.h"

#include <endian.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PKEY	     0xffff
#define COMP_VECTORS 4
#define MAX_CQE	     32768
#define PAGE_SIZES   0xfffff000u

struct vctx *verbs_ctx(struct ibv_context *ibv)
{
	return verbs_obj_get(OBJ_CTX, ibv);
}

/* --- open and close --- */

static void v_fill(struct vctx *ctx, struct vdev *dev, int async_fd)
{
	struct ibv_context *ibv = &ctx->v.context;

	ctx->dev = dev;
	ctx->v.sz = sizeof(ctx->v);
	ibv->device = &dev->ibv;
	ibv->cmd_fd = -1;
	ibv->async_fd = async_fd;
	ibv->num_comp_vectors = COMP_VECTORS;
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&ibv->mutex, NULL);
	verbs_ops_fill(ctx);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct vdev *dev = verbs_dev_find(device);
	struct vctx *ctx;
	int fd;

	if (!dev)
		return NULL;
	ctx = mem_alloc(sizeof(*ctx));
	if (!ctx)
		return verbs_fail(ENOMEM);
	fd = eventfd(0, EFD_CLOEXEC); /* nothing ever happens to a soft adapter */
	if (fd < 0) {
		mem_free(ctx);
		return NULL;
	}
	v_fill(ctx, dev, fd);
	verbs_obj_add(&ctx->obj, OBJ_CTX, ctx, &ctx->v.context);
	return &ctx->v.context;
}

/* --- the adapters of this process --- */

static struct vctx *g_ctx; /* contexts with an adapter, by ctx->next */
static _Atomic uint32_t g_cnt;

int verbs_nic(struct vctx *ctx)
{
	const struct efanic_open_attr attr = {.dev_idx = ctx->dev->idx, .lock = &ctx->lock};
	int rc = 0;

	pthread_mutex_lock(&verbs_ctx_mutex);
	if (!ctx->nic) {
		rc = efanic_open(&attr, &ctx->nic);
		if (!rc) {
			ctx->next = g_ctx;
			g_ctx = ctx;
			g_cnt++;
		}
	}
	pthread_mutex_unlock(&verbs_ctx_mutex);
	errno = -rc;
	return -rc;
}

static void nic_forget(struct vctx *ctx)
{
	struct vctx **at = &g_ctx;

	pthread_mutex_lock(&verbs_ctx_mutex);
	while (*at && *at != ctx)
		at = &(*at)->next;
	if (*at) {
		*at = ctx->next;
		g_cnt--;
	}
	pthread_mutex_unlock(&verbs_ctx_mutex);
}

void verbs_serve_others(const struct vctx *but)
{
	if (likely(g_cnt < 2) || pthread_mutex_trylock(&verbs_ctx_mutex))
		return;
	for (struct vctx *ctx = g_ctx; ctx; ctx = ctx->next) {
		if (ctx == but || efanic_forked(ctx->nic) || !lock_try(&ctx->lock))
			continue;
		efanic_serve(ctx->nic);
		for (struct vqp *qp = ctx->qps; qp; qp = qp->next)
			verbs_chan_tell(qp);
		lock_release(&ctx->lock);
	}
	pthread_mutex_unlock(&verbs_ctx_mutex);
}

/* What the program has left open goes with the context, as the kernel does it. */
static void objects_free(struct vctx *ctx)
{
	void *o;

	while ((o = verbs_obj_any(OBJ_QP, ctx)))
		verbs_qp_free(o);
	while ((o = verbs_obj_any(OBJ_CQ, ctx)))
		verbs_cq_free(o);
	while ((o = verbs_obj_any(OBJ_CHAN, ctx)))
		verbs_chan_free(o);
	while ((o = verbs_obj_any(OBJ_AH, ctx)))
		verbs_ah_free(o);
	while ((o = verbs_obj_any(OBJ_MR, ctx)))
		verbs_mr_free(o);
	while ((o = verbs_obj_any(OBJ_PD, ctx))) {
		verbs_obj_del(o);
		mem_free(o);
	}
}

int ibv_close_device(struct ibv_context *ibv)
{
	struct vctx *ctx = verbs_ctx(ibv);

	if (!ctx)
		return EINVAL;
	objects_free(ctx);
	verbs_obj_del(&ctx->obj);
	nic_forget(ctx);
	if (!verbs_forked(ctx))
		efanic_close(ctx->nic);
	close(ibv->async_fd);
	mem_free(ctx);
	return 0;
}

/* --- attributes --- */

static void attr_fill(const struct efanic_dev_attr *a, struct ibv_device_attr *out)
{
	*out = (struct ibv_device_attr){
		.max_mr_size = a->max_mr_size,
		.page_size_cap = PAGE_SIZES,
		.vendor_id = a->vendor_id,
		.vendor_part_id = a->vendor_part_id,
		.hw_ver = a->vendor_part_id,
		.max_qp = (int)a->max_qp,
		.max_qp_wr = (int)MIN(a->max_sq_wr, a->max_rq_wr),
		.max_sge = MIN(a->max_sq_sge, a->max_rq_sge),
		.max_sge_rd = a->device_caps & (EFANIC_CAP_RDMA_READ | EFANIC_CAP_RDMA_WRITE) ? 1 : 0,
		.max_cq = (int)a->max_cq,
		.max_cqe = MAX_CQE,
		.max_mr = (int)a->max_mr,
		.max_pd = (int)a->max_pd,
		.max_ah = (int)a->max_ah,
		.atomic_cap = IBV_ATOMIC_NONE,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	snprintf(out->fw_ver, sizeof(out->fw_ver), "%s", a->fw_ver);
}

int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
	struct vctx *ctx = verbs_ctx(ibv);

	if (!ctx || !attr)
		return EINVAL;
	attr_fill(&ctx->dev->attr, attr);
	return 0;
}

static int query_device_ex(struct ibv_context *ibv, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct vctx *ctx = verbs_ctx(ibv);

	if (!ctx || !attr || attr_size < sizeof(attr->orig_attr) || (input && input->comp_mask))
		return EINVAL;
	memset(attr, 0, attr_size);
	attr_fill(&ctx->dev->attr, &attr->orig_attr);
	if (attr_size >= offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) + sizeof(attr->phys_port_cnt_ex))
		attr->phys_port_cnt_ex = 1;
	return 0;
}

/* Codes of width and speed by Gb/s, as the kernel's driver gives them. */
static void speed_fill(uint64_t bps, uint8_t *width, uint8_t *speed)
{
	static const struct {
		uint32_t gbps;
		uint8_t width, speed;
	} row[] = {{400, 4, 64}, {200, 2, 64}, {120, 8, 8}, {100, 2, 32}, {60, 8, 2},
		   {50, 1, 64},	 {40, 2, 8},   {30, 8, 1},  {0, 1, 32}};
	size_t i = 0;

	while (bps / 1000000000 < row[i].gbps)
		i++;
	*width = row[i].width;
	*speed = row[i].speed;
}

static void port_fill(const struct efanic_dev_attr *a, struct ibv_port_attr *out)
{
	*out = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.max_msg_sz = a->mtu,
		.pkey_tbl_len = 1,
		.lmc = 1,
		.max_vl_num = 1,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_UNSPECIFIED,
	};
	speed_fill(a->speed_bps, &out->active_width, &out->active_speed);
}

static int query_port(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	struct vctx *ctx = verbs_ctx(ibv);
	struct ibv_port_attr full;

	if (!ctx || !attr || port != 1)
		return EINVAL;
	port_fill(&ctx->dev->attr, &full);
	memset(attr, 0, len);
	memcpy(attr, &full, MIN(len, sizeof(full)));
	return 0;
}

#undef ibv_query_port
/* That of programs that were compiled before there was more: up to link_layer. */
int ibv_query_port(struct ibv_context *ibv, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(ibv, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, flags));
}

int ibv_query_gid(struct ibv_context *ibv, uint8_t port, int index, union ibv_gid *gid)
{
	struct vctx *ctx = verbs_ctx(ibv);

	if (!ctx || !gid || port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	memcpy(gid->raw, ctx->dev->attr.gid, 16);
	return 0;
}

int ibv_query_pkey(struct ibv_context *ibv, uint8_t port, int index, __be16 *pkey)
{
	if (!verbs_ctx(ibv) || !pkey || port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(PKEY);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *ibv, uint8_t port, __be16 pkey)
{
	if (verbs_ctx(ibv) && port == 1 && pkey == htobe16(PKEY))
		return 0;
	errno = EINVAL;
	return -1;
}

static void entry_fill(const struct vctx *ctx, struct ibv_gid_entry *out)
{
	*out = (struct ibv_gid_entry){.port_num = 1, .gid_type = IBV_GID_TYPE_IB};
	memcpy(out->gid.raw, ctx->dev->attr.gid, 16);
}

int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size)
{
	struct vctx *ctx = verbs_ctx(ibv);
	struct ibv_gid_entry full;

	if (!ctx || !entry || port != 1 || flags)
		return EINVAL;
	if (index)
		return ENODATA;
	entry_fill(ctx, &full);
	memset(entry, 0, size);
	memcpy(entry, &full, MIN(size, sizeof(full)));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ibv, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t size)
{
	int err;

	if (!max)
		return -EINVAL;
	err = _ibv_query_gid_ex(ibv, 1, 0, entries, flags, size);
	return err ? -err : 1;
}

/* Private to libibverbs and its own tools: 0 is "IB or RoCE v1". */
int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned index, int *type);

int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned index, int *type)
{
	if (!verbs_ctx(ibv) || !type || port != 1 || index) {
		errno = EINVAL;
		return -1;
	}
	*type = 0;
	return 0;
}

/* --- asynchronous events: there are none, but whoever waits for one waits --- */

int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct vctx *ctx = verbs_ctx(ibv);
	uint64_t none;

	if (!ctx || !event)
		return -1;
	if (read(ctx->v.context.async_fd, &none, sizeof(none)) == sizeof(none))
		errno = EAGAIN;
	return -1;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
}

/* --- fork: nothing is pinned, so the child's pages are no trouble; what it inherits does not work there --- */

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

void verbs_ops_fill(struct vctx *ctx)
{
	struct ibv_context_ops *ops = &ctx->v.context.ops;

	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->poll_cq = verbs_poll_cq;
	ops->req_notify_cq = verbs_req_notify_cq;
	ops->post_send = verbs_post_send;
	ops->post_recv = verbs_post_recv;
	ctx->v.query_port = query_port;
	ctx->v.query_device_ex = query_device_ex;
	ctx->v.create_cq_ex = verbs_create_cq_ex;
	ctx->v.create_qp_ex = verbs_create_qp_ex;
}
