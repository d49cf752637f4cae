// SPDX-License-Identifier: BSD-2-Clause
// Atomics: libfabric's operations as the adapter's. One element per operation. Source: doc/facts/cxi.md#atomics.
#include <string.h>

#include "base/log.h"
#include "fi_cxi_ext.h"
#include "prov/cxi/cxi.h"

#define MSG_FLAGS                                                                                                      \
	(FI_INJECT | FI_COMPLETION | FI_MORE | FI_FENCE | CXI_LEVELS | FI_CXI_HRP | FI_CXI_UNRELIABLE |                \
	 FI_CXI_WEAK_FENCE)

#define TYPES (FI_UINT128 + 1)
static const uint8_t type_of[TYPES] = {
	[FI_INT8] = CASSINI_T_I8, [FI_UINT8] = CASSINI_T_U8, [FI_INT16] = CASSINI_T_I16, [FI_UINT16] = CASSINI_T_U16,
	[FI_INT32] = CASSINI_T_I32, [FI_UINT32] = CASSINI_T_U32, [FI_INT64] = CASSINI_T_I64,
	[FI_UINT64] = CASSINI_T_U64, [FI_FLOAT] = CASSINI_T_F32, [FI_DOUBLE] = CASSINI_T_F64,
	[FI_FLOAT_COMPLEX] = CASSINI_T_CF32, [FI_DOUBLE_COMPLEX] = CASSINI_T_CF64, [FI_LONG_DOUBLE] = CASSINI_T_NUM,
	[FI_LONG_DOUBLE_COMPLEX] = CASSINI_T_NUM, [FI_INT128] = CASSINI_T_U128, [FI_UINT128] = CASSINI_T_U128,
};

/* Which datatypes (bit per enum fi_datatype) an operation takes, and in which of the three call families. */
enum { PLAIN = BIT(KIT_ATOMIC_BASE), FETCH = BIT(KIT_ATOMIC_FETCH), COMPARE = BIT(KIT_ATOMIC_COMPARE) };
#define INTS	0x00ffu
#define REALS	0x03ffu
#define NUMBERS 0x0fffu
#define ALL	0xcfffu
static const struct op_row {
	uint16_t types;
	uint8_t families;
	uint8_t amo, cswap;
} op_tab[FI_ATOMIC_OP_LAST] = {
	[FI_MIN] = {REALS, PLAIN | FETCH, CASSINI_AMO_MIN, 0},
	[FI_MAX] = {REALS, PLAIN | FETCH, CASSINI_AMO_MAX, 0},
	[FI_SUM] = {NUMBERS, PLAIN | FETCH, CASSINI_AMO_SUM, 0},
	[FI_LOR] = {INTS, PLAIN | FETCH, CASSINI_AMO_LOR, 0},
	[FI_LAND] = {INTS, PLAIN | FETCH, CASSINI_AMO_LAND, 0},
	[FI_LXOR] = {INTS, PLAIN | FETCH, CASSINI_AMO_LXOR, 0},
	[FI_BOR] = {INTS, PLAIN | FETCH, CASSINI_AMO_BOR, 0},
	[FI_BAND] = {INTS, PLAIN | FETCH, CASSINI_AMO_BAND, 0},
	[FI_BXOR] = {INTS, PLAIN | FETCH, CASSINI_AMO_BXOR, 0},
	[FI_ATOMIC_WRITE] = {NUMBERS, PLAIN | FETCH, CASSINI_AMO_SWAP, 0},
	[FI_ATOMIC_READ] = {NUMBERS, FETCH, CASSINI_AMO_BOR, 0},
	[FI_CSWAP] = {ALL, COMPARE, CASSINI_AMO_CSWAP, CASSINI_CSWAP_EQ},
	[FI_CSWAP_NE] = {NUMBERS, COMPARE, CASSINI_AMO_CSWAP, CASSINI_CSWAP_NE},
	[FI_CSWAP_LE] = {REALS, COMPARE, CASSINI_AMO_CSWAP, CASSINI_CSWAP_LE},
	[FI_CSWAP_LT] = {REALS, COMPARE, CASSINI_AMO_CSWAP, CASSINI_CSWAP_LT},
	[FI_CSWAP_GE] = {REALS, COMPARE, CASSINI_AMO_CSWAP, CASSINI_CSWAP_GE},
	[FI_CSWAP_GT] = {REALS, COMPARE, CASSINI_AMO_CSWAP, CASSINI_CSWAP_GT},
	[FI_MSWAP] = {INTS, COMPARE, CASSINI_AMO_AXOR, 0},
};

/* 0; -FI_EINVAL out of the enums; -FI_EOPNOTSUPP this pair, or not in this family. */
static int valid(enum fi_datatype type, enum fi_op op, uint8_t family)
{
	if ((unsigned)type >= TYPES || (unsigned)op >= FI_ATOMIC_OP_LAST)
		return -FI_EINVAL;
	return op_tab[op].types & BIT(type) && op_tab[op].families & family ? 0 : -FI_EOPNOTSUPP;
}

int cxi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags)
{
	uint8_t family = flags & FI_FETCH_ATOMIC ? FETCH : flags & FI_COMPARE_ATOMIC ? COMPARE : PLAIN;
	int ret;

	(void)domain;
	if (!attr || (flags & (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return -FI_EINVAL;
	ret = valid(type, op, family);
	if (ret)
		return ret;
	attr->count = 1;
	attr->size = cassini_amo_type_size(type_of[type]);
	return 0;
}

/* --- one operation ------------------------------------------------------------------------------- */

static int args_check(const struct cxi_amo_args *a)
{
	uint8_t family = a->compare ? COMPARE : a->far.kind == CXI_TX_FETCH ? FETCH : PLAIN;
	int ret = valid(a->type, a->op, family);

	if (ret)
		return ret;
	if ((!a->buf && a->op != FI_ATOMIC_READ) || (a->far.kind == CXI_TX_FETCH && !a->result))
		return -FI_EINVAL;
	return (a->far.flags & FI_CXI_HRP) && !(a->far.flags & FI_CXI_UNRELIABLE) ? -FI_EINVAL : 0;
}

/*
 * A read changes nothing whatever the bits mean: as an integer of the same size OR 0. Two doubles, whose alignment is
 * 8, are swapped if they equal NaN, which nothing does.
 */
static void read_as_integer(struct cassini_cmd *cmd)
{
	static const uint8_t same_size[9] = {
		[1] = CASSINI_T_U8, [2] = CASSINI_T_U16, [4] = CASSINI_T_U32, [8] = CASSINI_T_U64};

	if (cmd->request_len <= 8) {
		cmd->atomic_type = same_size[cmd->request_len];
		return;
	}
	cmd->atomic_op = CASSINI_AMO_CSWAP;
	cmd->cswap_op = CASSINI_CSWAP_EQ;
	memset(cmd->op2, 0xff, sizeof(cmd->op2));
}

static void build(struct cxi_tx *tx, const struct cxi_amo_args *a, const struct cxi_rkey *rkey)
{
	const struct op_row *row = &op_tab[a->op];
	struct cassini_cmd *cmd = &tx->cmd;

	cmd->opcode = a->far.kind == CXI_TX_FETCH ? CASSINI_OP_FETCHING_ATOMIC : CASSINI_OP_ATOMIC;
	if (rkey->optimized && (a->far.flags & FI_CXI_UNRELIABLE) && a->far.kind == CXI_TX_ATOMIC)
		cmd->flags |= CASSINI_CMD_RESTRICTED;
	if (a->far.inject || (!a->far.work.trig && !tx->ep->domain->params.disable_non_inject_amo_idc))
		cmd->flags |= CASSINI_CMD_INLINE;
	cmd->atomic_op = row->amo;
	cmd->atomic_type = type_of[a->type];
	cmd->cswap_op = row->cswap;
	cmd->request_len = (uint32_t)cassini_amo_type_size(cmd->atomic_type);
	cmd->fetch_addr = a->result;
	memset(cmd->op1, 0, sizeof(cmd->op1));
	memset(cmd->op2, 0, sizeof(cmd->op2));
	if (a->op == FI_ATOMIC_READ)
		read_as_integer(cmd);
	else
		memcpy(cmd->op1, a->buf, cmd->request_len);
	if (a->compare)
		memcpy(cmd->op2, a->compare, cmd->request_len);
	if (a->op == FI_MSWAP) {
		cmd->op1[0] &= cmd->op2[0];
		cmd->op1[1] &= cmd->op2[1];
	}
}

ssize_t cxi_amo_common(struct cxi_ep *ep, const struct cxi_amo_args *a)
{
	struct cxi_dest dest;
	struct cxi_rkey rkey;
	struct cxi_tx *tx;
	int ret = args_check(a);

	ret = ret ? ret : cxi_far_find(ep, &a->far, &dest, &rkey);
	if (unlikely(ret))
		return ret;
	tx = cxi_far_get(ep, &a->far, &dest, &rkey);
	if (unlikely(!tx))
		return -FI_EAGAIN;
	build(tx, a, &rkey);
	tx->len = tx->cmd.request_len;
	return cxi_far_start(tx, &a->far);
}

/* --- the calls ----------------------------------------------------------------------------------- */

int cxi_amo_from_msg(const struct fi_msg_atomic *msg, const struct fi_msg_fetch *fetch,
		     const struct fi_msg_compare *compare, uint64_t flags, struct cxi_amo_args *out)
{
	bool reads = msg && msg->op == FI_ATOMIC_READ;

	if (!msg || msg->rma_iov_count != 1 || !msg->rma_iov || msg->rma_iov->count != 1)
		return -FI_EINVAL;
	if (!reads && (msg->iov_count != 1 || !msg->msg_iov || msg->msg_iov->count != 1))
		return -FI_EINVAL;
	if (fetch && (fetch->iov_count != 1 || !fetch->msg_iov || fetch->msg_iov->count != 1))
		return -FI_EINVAL;
	if (compare &&
	    (compare->iov_count != 1 || !compare->msg_iov || compare->msg_iov->count != 1 || !compare->msg_iov->addr))
		return -FI_EINVAL;
	if (flags & FI_CXI_PCIE_AMO)
		return -FI_EOPNOTSUPP; /* needs an adapter whose PCIe operations were remapped */
	if (flags & ~MSG_FLAGS)
		return -FI_EBADFLAGS;
	*out = (struct cxi_amo_args){
		.far = {.kind = fetch ? CXI_TX_FETCH : CXI_TX_ATOMIC,
			.dest = msg->addr,
			.addr = msg->rma_iov->addr,
			.key = msg->rma_iov->key,
			.context = msg->context,
			.flags = flags,
			.inject = flags & FI_INJECT},
		.type = msg->datatype,
		.op = msg->op,
		.buf = reads || !msg->msg_iov ? NULL : msg->msg_iov->addr,
		.compare = compare ? compare->msg_iov->addr : NULL,
		.result = fetch ? fetch->msg_iov->addr : NULL,
	};
	return 0;
}

static ssize_t call(struct fid_ep *fid, const struct kit_atomic_req *req)
{
	struct cxi_ep *ep = cxi_ep_of(fid);
	struct cxi_amo_args a;
	ssize_t ret = cxi_amo_from_msg(req->msg, req->kind == KIT_ATOMIC_BASE ? NULL : &req->res,
				       req->kind == KIT_ATOMIC_COMPARE ? &req->cmp : NULL, req->flags, &a);

	ret = ret ? ret : cxi_tx_state(ep);
	if (unlikely(ret))
		return ret;
	if (req->form == KIT_ATOMIC_BY_INJECT)
		a.far.inject = a.far.no_cqe = true;
	if (req->form != KIT_ATOMIC_BY_MSG)
		a.far.flags = a.far.inject ? FI_INJECT : ep->kit.tx_op_flags;
	lock_acquire(&ep->domain->kit.lock);
	ret = cxi_amo_common(ep, &a);
	lock_release(&ep->domain->kit.lock);
	return ret;
}

static int ask(struct fid_ep *fid, enum kit_atomic_kind kind, enum fi_datatype type, enum fi_op op, size_t *count)
{
	int ret = valid(type, op, (uint8_t)BIT(kind));

	(void)fid;
	if (!count)
		return -FI_EINVAL;
	if (!ret)
		*count = 1;
	return ret;
}

const struct kit_atomic_ops cxi_atomic_ops = KIT_ATOMIC_OPS(call, ask);
