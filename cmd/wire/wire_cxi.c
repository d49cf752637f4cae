// SPDX-License-Identifier: BSD-2-Clause
// Layouts of the soft Cassini adapter's frames, with what the cxi provider puts into match bits.
#include "nic/cassini/cassini_wire.h"
#include "prov/cxi/cxi_proto.h"
#include "wire/wire.h"

static const char *op_name(unsigned v)
{
	return cassini_pkt[v].name;
}

static const char *list_name(unsigned v)
{
	static const char *const name[CASSINI_LIST_NUM] = {"priority", "overflow", "request", "unexpected"};

	return name[v];
}

static const char *shared_name(unsigned v)
{
	switch ((enum cxi_sh_kind)v) {
	case CXI_SH_RDZV:
		return "rendezvous";
	case CXI_SH_ZBP:
		return "matched";
	case CXI_SH_CTRL:
		return "flow control";
	case CXI_SH_MR:
		return "region";
	}
	return NULL;
}

static const char *ctrl_name(unsigned v)
{
	switch ((enum cxi_ctrl)v) {
	case CXI_CTRL_FC_NOTIFY:
		return "notify";
	case CXI_CTRL_FC_RESUME:
		return "resume";
	case CXI_CTRL_ASK:
		return "ask";
	}
	return NULL;
}

static const struct wire_names ops = {"cxi_op", op_name, 1, CASSINI_PKT_NUM - 1},
			       rcs = {"cxi_rc", cassini_rc_str, 0, CASSINI_RC_NUM - 1},
			       lists = {"cxi_list", list_name, 0, CASSINI_LIST_NUM - 1},
			       shared_kinds = {"cxi_shared", shared_name, 0, CXI_SH_MR},
			       ctrls = {"cxi_ctrl", ctrl_name, 0, CXI_CTRL_ASK};

/* --- the header, whose bytes mean what the op says
 * --------------------------------------------------------------------- */

static const struct wire_field head[] = {
	WIRE_AT(cassini_hdr, ver_op, "cxi.version", 'd', BITS(0xf0)),
	WIRE_AT(cassini_hdr, ver_op, "cxi.op", 'd', BITS(0x0f), NAMES(ops)),
	WIRE_AT(cassini_hdr, flags, "cxi.flag.restricted", 'd', BITS(CASSINI_PKTF_RESTRICTED)),
	WIRE_AT(cassini_hdr, flags, "cxi.flag.flush", 'd', BITS(CASSINI_PKTF_FLUSH)),
	WIRE_AT(cassini_hdr, flags, "cxi.flag.hrp", 'd', BITS(CASSINI_PKTF_HRP)),
	WIRE_AT(cassini_hdr, flags, "cxi.flag.again", 'd', BITS(CASSINI_PKTF_AGAIN)),
	WIRE_AT(cassini_hdr, flags, "rsvd", '-', BITS(0xff & ~CASSINI_PKTF_ALL)),
	DEC(cassini_hdr, vni, "cxi.vni"),
	DEC(cassini_hdr, pid, "cxi.pid"),
	END,
};

#define TO(arg_) DEC(cassini_hdr, pid_idx, "cxi.pid_idx"), DEC(cassini_hdr, arg, arg_)
#define FROM                                                                                                           \
	DEC(cassini_hdr, initiator, "cxi.initiator_nic", BITS(CASSINI_NIC_MAX)),                                       \
		WIRE_AT(cassini_hdr, initiator, "rsvd", '-', BITS(GENMASK(31 - CASSINI_PID_BITS, 20))),                \
		DEC(cassini_hdr, initiator, "cxi.initiator_pid", BITS(GENMASK(31, 32 - CASSINI_PID_BITS)))
#define PLACE                                                                                                          \
	FROM, DEC(cassini_hdr, request_len, "cxi.request_len"), HEX(cassini_hdr, remote_offset, "cxi.remote_offset"),  \
		HEX(cassini_hdr, match_bits, "cxi.match_bits")
/* The end of a header: op handle, region, address; at its end in PUT_BULK and RPUT, behind the match bits in GET. */
#define TAIL_LEN (CASSINI_HDR_MAX - offsetof(struct cassini_hdr, handle))
#define BACK(m_) (offsetof(struct cassini_hdr, m_) - offsetof(struct cassini_hdr, handle))
#define GET_TAIL offsetof(struct cassini_hdr, header_data)

static const struct wire_field put[] = {TO("rsvd"), PLACE, HEX(cassini_hdr, header_data, "cxi.header_data"), END};
static const struct wire_field put_bulk[] = {
	TO("rsvd"),
	PLACE,
	HEX(cassini_hdr, header_data, "cxi.header_data"),
	DEC(cassini_hdr, handle, "cxi.handle"),
	HEX(cassini_hdr, region, "cxi.region"),
	HEX(cassini_hdr, raddr, "cxi.raddr"),
	END,
};
static const struct wire_field rput[] = {
	TO("cxi.rendezvous_id"),
	PLACE,
	HEX(cassini_hdr, header_data, "cxi.header_data"),
	DEC(cassini_hdr, handle, "cxi.handle"),
	HEX(cassini_hdr, region, "cxi.region"),
	HEX(cassini_hdr, raddr, "cxi.get_bits"),
	END,
};
static const struct wire_field get[] = {
	TO("rsvd"),
	PLACE,
	{"cxi.handle", GET_TAIL + BACK(handle), 4, 'l', 'd', 0, NULL},
	{"cxi.region", GET_TAIL + BACK(region), 4, 'l', 'x', 0, NULL},
	{"cxi.raddr", GET_TAIL + BACK(raddr), 8, 'l', 'x', 0, NULL},
	END,
};
static const struct wire_field reply[] = {
	DEC(cassini_hdr, pid_idx, "cxi.rc", NAMES(rcs)),
	DEC(cassini_hdr, arg, "cxi.list", NAMES(lists)),
	DEC(cassini_hdr, initiator, "cxi.handle"),
	DEC(cassini_hdr, request_len, "cxi.mlength"),
	END,
};
static const struct wire_field rget_done[] = {
	DEC(cassini_hdr, pid_idx, "cxi.rc", NAMES(rcs)),
	RSVD(cassini_hdr, arg),
	FROM,
	DEC(cassini_hdr, request_len, "cxi.mlength"),
	RSVD(cassini_hdr, remote_offset),
	HEX(cassini_hdr, match_bits, "cxi.get_bits"),
	{"cxi.handle", GET_TAIL, 4, 'l', 'd', 0, NULL},
	END,
};
static const struct wire_field ping[] = {RSVD(cassini_hdr, pid_idx), RSVD(cassini_hdr, arg), FROM,
					 RSVD(cassini_hdr, request_len), END};

static const struct wire_field amo[] = {
	DEC(cassini_amo_wire, op, "cxi.amo_op"),
	DEC(cassini_amo_wire, type, "cxi.amo_type"),
	DEC(cassini_amo_wire, cswap, "cxi.amo_cswap"),
	RSVD(cassini_amo_wire, rsvd),
	DEC(cassini_amo_wire, handle, "cxi.handle"),
	WIRE_AT(cassini_amo_wire, op1, "cxi.amo_op1", 'y'),
	WIRE_AT(cassini_amo_wire, op2, "cxi.amo_op2", 'y'),
	END,
};

/* --- match bits
 * -------------------------------------------------------------------------------------------------------- */

#define MB(name_, mask_, show_, ...) WIRE_AT(cassini_hdr, match_bits, name_, show_, BITS(mask_), __VA_ARGS__)
static const struct wire_field mb_rnr[] = {MB("cxi.rnr_vni", CXI_RNR_VNI, '-'),
					   MB("cxi.rnr_tagged", CXI_RNR_TAGGED, '-'), END};
static const struct wire_field mb_rnr_msg[] = {
	MB("cxi.tag", CXI_RNR_TAG_MASK, 'x'),
	MB("cxi.mb.cq_data", CXI_RNR_CQ_DATA, 'd'),
	MB("cxi.mb.tagged", CXI_RNR_TAGGED, 'd'),
	END,
};
static const struct wire_field mb_msg[] = {
	MB("cxi.tag", CXI_TAG_MASK, 'x'),
	MB("cxi.mb.tx_id", CXI_MB_TX_ID, 'd'),
	MB("cxi.mb.cq_data", CXI_MB_CQ_DATA, 'd'),
	MB("cxi.mb.tagged", CXI_MB_TAGGED, 'd'),
	MB("cxi.mb.match_comp", CXI_MB_MATCH_COMP, 'd'),
	MB("cxi.mb.rdzv_done", CXI_MB_RDZV_DONE, 'd'),
	END,
};
static const struct wire_field mb_shared[] = {MB("cxi.shared", CXI_SH_KIND, 'd', NAMES(shared_kinds)), END};
static const struct wire_field mb_ctrl[] = {
	MB("cxi.ctrl", CXI_SH_CTRL_TYPE, 'd', NAMES(ctrls)),
	MB("cxi.ctrl.txc", CXI_SH_CTRL_TXC, 'd'),
	MB("cxi.ctrl.rxc", CXI_SH_CTRL_RXC, 'd'),
	MB("cxi.ctrl.drops", CXI_SH_CTRL_DROPS, 'd'),
	END,
};
static const struct wire_field mb_key[] = {MB("cxi.key", CXI_SH_KEY, 'x'), END};

#define IS_RX	  IN("cxi.pid_idx", 0, CXI_RX_CTX_MAX - 1)
#define IS_MR	  IN("cxi.pid_idx", CXI_IDX_MR, CXI_IDX_ALT)
#define IS_SHARED IS("cxi.pid_idx", CXI_IDX_SHARED)
/* FI_PROTO_CXI_RNR has the VNI, which is not 0, in the bits that FI_PROTO_CXI has for flags and ids. */
#define IS_RNR SAME("cxi.rnr_vni", "cxi.vni")
#define MATCH_PARTS                                                                                                    \
	{.fields = mb_rnr, .is_over = true}, {.fields = mb_msg, .is_over = true, .when = {IS_RX}},                     \
		{.fields = mb_rnr_msg, .is_over = true, .when = {IS_RX, IS_RNR}},                                      \
		{.fields = mb_shared, .is_over = true, .when = {IS_SHARED}},                                           \
		{.fields = mb_ctrl, .is_over = true, .when = {IS_SHARED, IS("cxi.shared", CXI_SH_CTRL)}},              \
	{                                                                                                              \
		.fields = mb_key, .is_over = true, .when = { IS_SHARED, IS("cxi.shared", CXI_SH_MR) }                  \
	}
static const struct wire_part match_parts[] = {MATCH_PARTS, {0}};
static const struct wire_part amo_parts[] = {
	MATCH_PARTS, {.fields = amo, .size = sizeof(struct cassini_amo_wire)}, {0}};

/* --- messages
 * ---------------------------------------------------------------------------------------------------------- */

/* A message's last meaning of its bits wins: mb_rnr_msg's after mb_msg's. */
static const struct wire_op put_ops[] = {
	{"fi_tsend", {IS_RX, IS("cxi.mb.tagged", 1)}},
	{"fi_send", {IS_RX}},
	{"fi_write", {IS_MR}},
	{"flow control", {IS_SHARED, IS("cxi.shared", CXI_SH_CTRL)}},
	{"match notice", {IS_SHARED, IS("cxi.shared", CXI_SH_ZBP)}},
	{"fi_write", {IS_SHARED}},
	{0},
};
static const struct wire_op get_ops[] = {
	{"rendezvous", {IS_SHARED, IS("cxi.shared", CXI_SH_RDZV)}},
	{"fi_read", {IN("cxi.pid_idx", 0, UINT8_MAX)}},
	{0},
};
static const struct wire_op atomic_ops[] = {{.op = "fi_atomic"}, {0}};
static const struct wire_op fetch_ops[] = {
	{"fi_compare_atomic", {IS("cxi.amo_op", CASSINI_AMO_CSWAP)}}, {.op = "fi_fetch_atomic"}, {0}};

#define LEN "cxi.request_len"
/* What a message has shown of its memory is found by the region's key; a rendezvous also by its id, which the target's
 * Get repeats. */
static void msg_of(unsigned op, struct wire_msg m[MSG_MAX])
{
	switch ((enum cassini_pkt_op)op) {
	case CASSINI_PKT_PUT:
		m[0] = (struct wire_msg){.how = 'w', .ops = put_ops};
		return;
	case CASSINI_PKT_PUT_BULK:
		m[0] = (struct wire_msg){.how = 'b',
					 .keys = "+h:cxi.handle",
					 .total = LEN,
					 .mem = "cxi.region cxi.raddr " LEN,
					 .ops = put_ops};
		return;
	case CASSINI_PKT_RPUT:
		m[0] = (struct wire_msg){.how = 'b',
					 .keys = "+h:cxi.handle +z:cxi.get_bits",
					 .total = LEN,
					 .mem = "cxi.region cxi.remote_offset " LEN,
					 .ops = put_ops};
		return;
	case CASSINI_PKT_GET:
		m[0] = (struct wire_msg){
			.how = 'm',
			.keys = "-z:cxi.match_bits +h:cxi.handle",
			.mem = "cxi.region cxi.raddr " LEN,
			.total = LEN,
			.ops = get_ops,
			.when = {IN("cxi.pid_idx", CXI_IDX_ALT, CXI_IDX_SHARED), IS("cxi.rdzv_kind", CXI_SH_RDZV)}};
		m[1] = (struct wire_msg){.how = 'b',
					 .keys = "+h:cxi.handle",
					 .mem = "cxi.region cxi.raddr " LEN,
					 .total = LEN,
					 .ops = get_ops};
		return;
	case CASSINI_PKT_ATOMIC:
		m[0] = (struct wire_msg){.how = 'w', .ops = atomic_ops};
		return;
	case CASSINI_PKT_FETCH:
		m[0] = (struct wire_msg){.how = 'b', .keys = "+h:cxi.handle", .total = "", .ops = fetch_ops};
		return;
	case CASSINI_PKT_REPLY:
		m[0] = (struct wire_msg){.how = 'e', .keys = "-h:cxi.handle"};
		return;
	case CASSINI_PKT_RGET_DONE:
		m[0] = (struct wire_msg){.how = 'e', .keys = "-h:cxi.handle -z:cxi.get_bits"};
		return;
	case CASSINI_PKT_PING:
	case CASSINI_PKT_NUM:
		return;
	}
}

static const struct wire_field mb_get[] = {MB("cxi.rdzv_kind", CXI_SH_KIND, '-'), END};
static const struct wire_part get_parts[] = {MATCH_PARTS, {.fields = mb_get, .is_over = true}, {0}};

void wire_cxi(void)
{
	static const struct wire_field *const fields[CASSINI_PKT_NUM] = {
		[CASSINI_PKT_PUT] = put,     [CASSINI_PKT_PUT_BULK] = put_bulk,	  [CASSINI_PKT_RPUT] = rput,
		[CASSINI_PKT_GET] = get,     [CASSINI_PKT_ATOMIC] = put,	  [CASSINI_PKT_FETCH] = put,
		[CASSINI_PKT_REPLY] = reply, [CASSINI_PKT_RGET_DONE] = rget_done, [CASSINI_PKT_PING] = ping,
	};

	wire_number("cxi_version", CASSINI_WIRE_VERSION);
	wire_proto_begin(&(struct wire_proto){"cxi", "Cassini", head, 8, "cxi.op", NULL, NULL, false});
	for (unsigned op = 1; op < CASSINI_PKT_NUM; op++) {
		const struct cassini_pkt_desc *d = &cassini_pkt[op];
		bool is_amo = op == CASSINI_PKT_ATOMIC || op == CASSINI_PKT_FETCH;
		struct wire_packet p = {
			.name = d->name,
			.len = d->hdr_len,
			.fields = fields[op],
			.parts = is_amo			 ? amo_parts
				 : op == CASSINI_PKT_GET ? get_parts
				 : d->to_pte		 ? match_parts
							 : NULL,
			.payload_max = is_amo ? 0 : d->payload_max,
			.payload_len = op == CASSINI_PKT_PUT ? LEN : NULL,
		};

		snprintf(p.key, sizeof(p.key), "%u", op);
		msg_of(op, p.msg);
		wire_packet(&p);
	}
	wire_proto_end();
}
