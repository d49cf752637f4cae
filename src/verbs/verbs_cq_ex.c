// SPDX-License-Identifier: BSD-2-Clause
// Completion queues, the extended way to poll: one completion at a time, read field by field.
#include "verbs/verbs_int.h"

static struct vcq *to_cq(struct ibv_cq_ex *ex)
{
	return container_of(ex, struct vcq, ex);
}

static int next(struct vcq *cq)
{
	cq->has_cur = verbs_cq_pop(cq, &cq->cur);
	if (!cq->has_cur)
		return ENOENT;
	cq->ex.wr_id = cq->cur.wr_id;
	cq->ex.status = verbs_wc_status(cq->cur.status);
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct vcq *cq = to_cq(ex);
	int err;

	if (!attr || attr->comp_mask)
		return EINVAL;
	if (verbs_forked(cq->obj.ctx))
		return EIO;
	lock_acquire(&cq->poll_lock);
	err = next(cq);
	if (err)
		lock_release(&cq->poll_lock);
	return err;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct vcq *cq = to_cq(ex);

	return verbs_forked(cq->obj.ctx) ? EIO : next(cq);
}

static void end_poll(struct ibv_cq_ex *ex)
{
	lock_release(&to_cq(ex)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return verbs_wc_opcode(&to_cq(ex)->cur);
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.status;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.src_qpn;
}

static unsigned read_wc_flags(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.has_imm ? IBV_WC_WITH_IMM : 0;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return to_cq(ex)->cur.src_ahn;
}

static uint8_t read_zero(struct ibv_cq_ex *ex)
{
	(void)ex;
	return 0;
}

static struct vcq *of_efa(struct efadv_cq *dv)
{
	return container_of((struct verbs_efa_cq *)dv, struct vcq, efa);
}

/* Only of who has no address handle here. */
static int read_sgid(struct efadv_cq *dv, union ibv_gid *sgid)
{
	struct vcq *cq = of_efa(dv);

	if (cq->cur.src_ahn != EFANIC_AHN_UNKNOWN)
		return -ENOENT;
	memcpy(sgid->raw, cq->cur.gid, 16);
	return 0;
}

static bool is_unsolicited(struct efadv_cq *dv)
{
	return of_efa(dv)->cur.unsolicited;
}

#define EFA_WC_SGID	   1u
#define EFA_WC_UNSOLICITED 2u /* after Debian 12's header */

void verbs_cq_ex_fill(struct vcq *cq, uint64_t wc_flags, uint64_t efa_flags)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_zero;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_zero;
	if (efa_flags & EFA_WC_SGID)
		cq->efa.wc_read_sgid = read_sgid;
	if (efa_flags & EFA_WC_UNSOLICITED)
		cq->efa.wc_is_unsolicited = is_unsolicited;
}
