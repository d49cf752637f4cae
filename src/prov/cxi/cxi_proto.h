// SPDX-License-Identifier: BSD-2-Clause
// The cxi provider's wire protocol: what it puts into match bits, which pid_idx is what, and which command carries a
// message. Pure functions.
#ifndef SF_PROV_CXI_CXI_PROTO_H
#define SF_PROV_CXI_CXI_PROTO_H

#include "base/base.h"
#include "base/bits.h"

/*
 * The granule (seed: "Portals Tables"):
 *
 *   0 - 15    RX contexts 0 - 15; a standard endpoint receives on 0, both protocols
 *   16 - 254  memory regions with key 0 - 238, one PTE each ("optimized"); the same index serves Put and Get
 *   255       one matching PTE shared by, told apart by the two top match bits: sources of rendezvous Gets,
 *             match-complete notices, control messages, and regions with other keys ("standard")
 */
#define CXI_RX_CTX_MAX   16u
#define CXI_IDX_MR       16u
#define CXI_MR_OPT_MAX   239u /* keys 0..238 */
#define CXI_IDX_SHARED   255u
/* FI_CXI_RDZV_PROTO=alt_read: sources of rendezvous by restricted Get, in place of the region with key 238 */
#define CXI_IDX_ALT      254u

#define CXI_TAG_BITS     48
#define CXI_TAG_MASK     GENMASK(47, 0)
#define CXI_TAG_FORMAT   0xAAAAAAAAAAAAULL
#define CXI_RNR_TAG_BITS 40
#define CXI_RNR_TAG_MASK GENMASK(39, 0)
#define CXI_RNR_TAG_FORMAT 0xAAAAAAAAAAULL

/* Match bits of a message, FI_PROTO_CXI. Source: doc/facts/cxi.md#match-bits. */
#define CXI_MB_TX_ID     GENMASK(58, 48) /* match-complete id ... */
#define CXI_MB_RDZV_HI   GENMASK(54, 48) /* ... or, of a rendezvous, the high part of its id */
#define CXI_MB_CQ_DATA   BIT(59)         /* header_data is FI_REMOTE_CQ_DATA */
#define CXI_MB_TAGGED    BIT(60)
#define CXI_MB_MATCH_COMP BIT(61)        /* the sender wants to know when it is matched ... */
/* ... which every rendezvous tells: there it says that the rest is at CXI_IDX_ALT */
#define CXI_MB_ALT_READ  BIT(61)
#define CXI_MB_RDZV_DONE BIT(62)
#define CXI_MB_LE_TYPE   BIT(63)         /* 0: a receive */
/* What a receive never looks at. */
#define CXI_MB_IGNORE    (CXI_MB_TX_ID | CXI_MB_CQ_DATA | CXI_MB_MATCH_COMP | CXI_MB_RDZV_DONE | CXI_MB_LE_TYPE)
#define CXI_TX_ID_CNT    2048u
/* 15 bits; the low 8 travel in the command's rendezvous_id, the high 7 in the match bits */
#define CXI_RDZV_ID_CNT  32768u
#define CXI_RDZV_UNTAGGED_CNT 256u       /* untagged rendezvous have only the low part */

/* FI_PROTO_CXI_RNR */
#define CXI_RNR_CQ_DATA  BIT(46)
#define CXI_RNR_TAGGED   BIT(47)
#define CXI_RNR_VNI      GENMASK(63, 48)

/* Match bits at pid_idx 255. */
#define CXI_SH_KIND      GENMASK(63, 62)
enum cxi_sh_kind { CXI_SH_RDZV, CXI_SH_ZBP, CXI_SH_CTRL, CXI_SH_MR };
#define CXI_SH_RDZV_LO   GENMASK(7, 0)
#define CXI_SH_RDZV_HI   GENMASK(54, 48)
#define CXI_SH_TX_ID     GENMASK(10, 0)
/* of a notice: a rendezvous was fetched by restricted Get; its id as CXI_SH_RDZV has it */
#define CXI_SH_DONE      BIT(61)
#define CXI_SH_CTRL_TYPE GENMASK(61, 60)
/* ASK: is anybody there? Answered by the adapter */
enum cxi_ctrl { CXI_CTRL_FC_NOTIFY, CXI_CTRL_FC_RESUME, CXI_CTRL_ASK };
#define CXI_SH_CTRL_TXC  GENMASK(7, 0)   /* sender's TX context */
#define CXI_SH_CTRL_RXC  GENMASK(15, 8)  /* receiver's RX context */
#define CXI_SH_CTRL_DROPS GENMASK(31, 16)
#define CXI_SH_KEY       GENMASK(61, 0)

static inline uint64_t cxi_sh_rdzv(uint32_t id)
{
	return FIELD_PREP(CXI_SH_KIND, CXI_SH_RDZV) | FIELD_PREP(CXI_SH_RDZV_LO, id & 0xff) |
	       FIELD_PREP(CXI_SH_RDZV_HI, id >> 8);
}
static inline uint32_t cxi_sh_rdzv_id(uint64_t bits)
{
	return (uint32_t)(FIELD_GET(CXI_SH_RDZV_LO, bits) | FIELD_GET(CXI_SH_RDZV_HI, bits) << 8);
}
static inline uint64_t cxi_sh_done(uint32_t rdzv_id)
{
	return cxi_sh_rdzv(rdzv_id) | FIELD_PREP(CXI_SH_KIND, CXI_SH_ZBP) | CXI_SH_DONE;
}
static inline uint64_t cxi_sh_zbp(uint32_t tx_id)
{
	return FIELD_PREP(CXI_SH_KIND, CXI_SH_ZBP) | FIELD_PREP(CXI_SH_TX_ID, tx_id);
}
static inline uint64_t cxi_sh_ctrl(enum cxi_ctrl type, unsigned txc, unsigned rxc, unsigned drops)
{
	return FIELD_PREP(CXI_SH_KIND, CXI_SH_CTRL) | FIELD_PREP(CXI_SH_CTRL_TYPE, type) |
	       FIELD_PREP(CXI_SH_CTRL_TXC, txc) | FIELD_PREP(CXI_SH_CTRL_RXC, rxc) |
	       FIELD_PREP(CXI_SH_CTRL_DROPS, drops);
}

/* Keys. Source: doc/facts/cxi.md#keys. A client key is 32 bits; a provider key says all about itself. */
#define CXI_KEY_ID       GENMASK(15, 0)
#define CXI_KEY_SEQ      GENMASK(58, 16)
#define CXI_KEY_SOL      BIT(59)
#define CXI_KEY_EVENTS   BIT(60)
#define CXI_KEY_OPT      BIT(61)
#define CXI_KEY_CACHED   BIT(62)
#define CXI_KEY_PROV     BIT(63)
static inline uint64_t cxi_sh_key(uint64_t key)
{
	return FIELD_PREP(CXI_SH_KIND, CXI_SH_MR) | (key & CXI_SH_KEY & ~CXI_KEY_SOL);
}

#endif
