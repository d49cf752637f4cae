// SPDX-License-Identifier: BSD-2-Clause
// Layouts of opx: the header of the soft HFI, and what each opcode's aux, immediate, words and tag mean
// (prov/opx/opx_proto.h).
#include "nic/hfi/hfi_wire.h"
#include "prov/opx/flow/opx_flow.h"
#include "prov/opx/opx_proto.h"
#include "wire/wire.h"

static const char *opcode_name(unsigned v)
{
	const struct opx_pkt_desc *d = opx_pkt_desc((uint8_t)v);

	return d ? d->name : NULL;
}

static const char *ud_name(unsigned v)
{
	switch ((enum opx_ud)v) {
	case OPX_UD_PING:
		return "PING";
	case OPX_UD_ACK:
		return "ACK";
	case OPX_UD_NACK:
		return "NACK";
	case OPX_UD_INIT:
		return "INIT";
	case OPX_UD_INIT_ACK:
		return "INIT_ACK";
	case OPX_UD_RESYNCH:
		return "RESYNCH";
	case OPX_UD_BYE:
		return "BYE";
	case OPX_UD_NUM:
		break;
	}
	return NULL;
}

static const char *status_name(unsigned v)
{
	static const char *const name[OPX_ST_WIRE_NUM] = {"ok",	      "key",   "range", "access", "atomic",
							  "canceled", "nomem", "copy",	"gone"};

	return name[v];
}

static const struct wire_names opcodes = {"opx_opcode", opcode_name, OPX_RZV_CTS, OPX_TAG_RZV_RTS},
			       uds = {"opx_ud", ud_name, 1, OPX_UD_NUM - 1},
			       statuses = {"opx_status", status_name, 0, OPX_ST_WIRE_NUM - 1};

#define PART(m_, name_, mask_, show_, ...) WIRE_AT(hfi_hdr, m_, name_, show_, BITS(mask_), __VA_ARGS__)
static const struct wire_field head[] = {
	HEX(hfi_hdr, key, "opx.key"),
	PART(lrh_flags, "opx.sc", GENMASK(15, 12), 'd'),
	PART(lrh_flags, "rsvd", GENMASK(11, 8), '-'),
	PART(lrh_flags, "opx.sl", GENMASK(7, 4), 'd'),
	PART(lrh_flags, "rsvd", GENMASK(3, 2), '-'),
	PART(lrh_flags, "opx.lnh", HFI_LNH_MASK, 'd'),
	DEC(hfi_hdr, dlid, "opx.dlid"),
	DEC(hfi_hdr, pktlen, "opx.pktlen"),
	DEC(hfi_hdr, slid, "opx.slid"),
	DEC(hfi_hdr, opcode, "opx.opcode", NAMES(opcodes)),
	PART(bth1, "opx.pad", 3, 'd'),
	PART(bth1, "rsvd", 4, '-'),
	PART(bth1, "rsvd", 0xf0, '-'),
	PART(bth1, "opx.cut", HFI_BTH_CUT, 'd'),
	HEX(hfi_hdr, pkey, "opx.pkey"),
	PART(ecn, "opx.ack_req", OPX_ACK_REQ, 'd'),
	PART(ecn, "rsvd", 0xff & ~OPX_ACK_REQ, '-'),
	HEX(hfi_hdr, qp, "opx.qp"),
	DEC(hfi_hdr, aux, "opx.aux"),
	DEC(hfi_hdr, dest_rx, "opx.rx"),
	PART(psn_tx, "opx.psn", HFI_PSN_MASK, 'd'),
	PART(psn_tx, "opx.tx", 0xff000000u, 'd'),
	PART(kdeth, "opx.kdeth.off", HFI_KDETH_OFF, 'd'),
	PART(kdeth, "opx.kdeth.om", HFI_KDETH_OM, 'd'),
	PART(kdeth, "opx.tid", 0x03ff0000u, 'd'),
	PART(kdeth, "opx.expected", HFI_KDETH_CTRL, 'd'),
	PART(kdeth, "rsvd", 0x30000000u, '-'),
	PART(kdeth, "opx.kver", HFI_KVER_MASK, 'd'),
	HEX(hfi_hdr, jkey, "opx.jkey"),
	HEX(hfi_hdr, hcrc, "opx.job"),
	END,
};

/* Bytes 36 to 63: immediate, tag, two words; words as two numbers each where the protocol has it so. */
#define W(i_) (offsetof(struct hfi_hdr, w) + (i_) * sizeof(le64_t))
#define WORD(i_, name_, show_)                                                                                         \
	{                                                                                                              \
		.name = (name_), .off = W(i_), .size = 8, .form = 'l', .show = (show_)                                 \
	}
#define LOW(i_, name_, show_)                                                                                          \
	{                                                                                                              \
		.name = (name_), .off = W(i_), .size = 4, .form = 'l', .show = (show_)                                 \
	}
#define HIGH(i_, name_, show_)                                                                                         \
	{                                                                                                              \
		.name = (name_), .off = W(i_) + 4, .size = 4, .form = 'l', .show = (show_)                             \
	}
#define IMM(name_, show_)      WIRE_AT(hfi_hdr, imm, name_, show_)
#define TAG(name_, show_, ...) WIRE_AT(hfi_hdr, tag, name_, show_, __VA_ARGS__)

static const struct wire_field inject[] = {
	IMM("opx.data", 'x'), {"opx.bytes", W(0), 8, 'y', 'y', 0, NULL}, TAG("opx.tag", 'x'), END};
static const struct wire_field inject_more[] = {{"opx.more_bytes", 0, 8, 'y', 'y', 0, NULL}, END};
static const struct wire_field eager[] = {IMM("opx.data", 'x'), WORD(0, "opx.len", 'd'), TAG("opx.tag", 'x'), END};
static const struct wire_field mp_first[] = {IMM("opx.data", 'x'), WORD(0, "opx.len", 'd'), WORD(1, "rsvd", '-'),
					     TAG("opx.tag", 'x'), END};
static const struct wire_field nth[] = {IMM("rsvd", '-'), WORD(0, "opx.off", 'd'), WORD(1, "opx.first_psn", 'd'),
					TAG("rsvd", '-'), END};
static const struct wire_field rts[] = {
	IMM("opx.data", 'x'),
	WORD(0, "opx.len", 'd'),
	LOW(1, "opx.handle", 'd'),
	{"opx.rts.local", W(1) + 4, 4, 'l', 'd', OPX_RTS_LOCAL, NULL},
	{"opx.rts.done", W(1) + 4, 4, 'l', 'd', OPX_RTS_DONE, NULL},
	{"opx.rts.ahead", W(1) + 4, 4, 'l', 'd', OPX_RTS_AHEAD, NULL},
	{"rsvd", W(1) + 4, 4, 'l', '-', 0xfffffff8u, NULL},
	TAG("opx.tag", 'x'),
	END,
};
static const struct wire_field cts_rzv[] = {
	IMM("opx.tids", 'd'),	 WORD(0, "opx.handle", 'd'), LOW(1, "opx.rx_handle", 'd'),
	HIGH(1, "opx.gen", 'd'), TAG("opx.want", 'd'),	     END,
};
static const struct wire_field cts_get[] = {
	IMM("opx.handle", 'd'), WORD(0, "opx.mr_off", 'x'), WORD(1, "opx.mr_key", 'x'), TAG("opx.len", 'd'), END,
};
static const struct wire_field data_rzv[] = {
	IMM("rsvd", '-'),	 WORD(0, "opx.off", 'd'), LOW(1, "opx.rx_handle", 'd'),
	HIGH(1, "opx.gen", 'd'), TAG("rsvd", '-'),	  END,
};
static const struct wire_field data_ahead[] = {
	IMM("rsvd", '-'), WORD(0, "opx.off", 'd'), WORD(1, "opx.handle", 'd'), TAG("rsvd", '-'), END,
};
static const struct wire_field data_put[] = {
	IMM("opx.handle", 'd'), WORD(0, "opx.mr_off", 'x'), WORD(1, "opx.mr_key", 'x'), TAG("opx.end", 'x'), END,
};
static const struct wire_field data_get[] = {
	IMM("rsvd", '-'), WORD(0, "opx.off", 'd'), WORD(1, "opx.handle", 'd'), TAG("opx.len", 'd'), END,
};
static const struct wire_field data_fetch[] = {IMM("rsvd", '-'), WORD(0, "rsvd", '-'), WORD(1, "opx.handle", 'd'),
					       TAG("rsvd", '-'), END};
static const struct wire_field put_local[] = {
	IMM("opx.handle", 'd'), WORD(0, "opx.mr_off", 'x'), WORD(1, "opx.mr_key", 'x'), TAG("opx.len", 'd'), END,
};
static const struct wire_field put_data[] = {
	IMM("opx.data", 'x'), WORD(0, "opx.mr_off", 'x'), WORD(1, "opx.mr_key", 'x'), TAG("opx.len", 'd'), END,
};
static const struct wire_field atomic[] = {
	IMM("opx.handle", 'd'),
	WORD(0, "opx.mr_off", 'x'),
	WORD(1, "opx.mr_key", 'x'),
	TAG("opx.atomic_dt", 'd', BITS(0xff)),
	TAG("opx.atomic_op", 'd', BITS(0xff00)),
	TAG("opx.atomic_cnt", 'd', BITS(0xffffffffffff0000u)),
	END,
};
static const struct wire_field done[] = {
	IMM("rsvd", '-'),
	WORD(0, "opx.handle", 'd'),
	{"opx.status", W(1), 8, 'l', 'd', 0, &statuses},
	TAG("rsvd", '-'),
	END,
};
static const struct wire_field ud_init[] = {
	IMM("opx.ud.cookie_is_key", 'd'),
	WORD(0, "opx.ud.epoch", 'x'),
	WORD(1, "opx.ud.cookie", 'x'),
	TAG("opx.ud.addr", 'x'),
	END,
};
static const struct wire_field ud_init_ack[] = {
	IMM("rsvd", '-'), WORD(0, "opx.ud.epoch", 'x'), WORD(1, "opx.ud.key", 'x'), TAG("opx.ud.addr", 'x'), END,
};
static const struct wire_field ud_count[] = {
	IMM("opx.ud.ping", 'd'), LOW(0, "opx.ud.psn", 'd'), HIGH(0, "opx.ud.count", 'd'),
	WORD(1, "rsvd", '-'),	 TAG("rsvd", '-'),	    END,
};
static const struct wire_field ud_bye[] = {IMM("rsvd", '-'), WORD(0, "opx.ud.psn", 'd'), WORD(1, "rsvd", '-'),
					   TAG("rsvd", '-'), END};

static const struct wire_field aux_inject[] = {PART(aux, "opx.inject_len", OPX_AUX_LEN, 'd'),
					       PART(aux, "opx.has_data", OPX_AUX_DATA, 'd'), END};
static const struct wire_field aux_data[] = {PART(aux, "opx.has_data", OPX_AUX_DATA, 'd'), END};
static const struct wire_field aux_ud[] = {PART(aux, "opx.ud", 0xff, 'd', NAMES(uds)), END};
static const struct wire_field piece[] = {
	HEX(opx_piece, addr, "opx.piece.addr"),
	DEC(opx_piece, len, "opx.piece.len"),
	HEX(opx_piece, key, "opx.piece.key"),
	RSVD(opx_piece, rsvd),
	END,
};
static const struct wire_field tid[] = {
	DEC(opx_wire_tid, idx, "opx.tid.idx"),
	RSVD(opx_wire_tid, rsvd),
	DEC(opx_wire_tid, len, "opx.tid.len"),
	END,
};
static const struct wire_field handle[] = {{"opx.handle", 0, 4, 'l', 'd', 0, NULL}, END};

#define PIECES                                                                                                         \
	{                                                                                                              \
		.fields = piece, .size = sizeof(struct opx_piece), .to_end = true                                      \
	}
static const struct wire_part inject_parts[] = {{.fields = aux_inject, .is_over = true},
						{.fields = inject_more, .size = 8, .when = {IS("opx.cut", 0)}},
						{0}},
			      eager_parts[] = {{.fields = aux_data, .is_over = true}, {0}},
			      rts_parts[] = {{.fields = aux_data, .is_over = true}, PIECES, {0}},
			      pieces[] = {PIECES, {0}},
			      tids[] = {{.fields = tid, .size = sizeof(struct opx_wire_tid), .times = "opx.tids"}, {0}},
			      handles[] = {{.fields = handle, .size = 4}, {0}},
			      ud_parts[] = {{.fields = aux_ud, .is_over = true}, {0}};

static const struct wire_op op_send[] = {{.op = "fi_send"}, {0}}, op_tsend[] = {{.op = "fi_tsend"}, {0}},
			    op_write[] = {{.op = "fi_write"}, {0}}, op_read[] = {{.op = "fi_read"}, {0}},
			    op_atomic[] = {{.op = "fi_atomic"}, {0}}, op_fetch[] = {{.op = "fi_fetch_atomic"}, {0}},
			    op_compare[] = {{.op = "fi_compare_atomic"}, {0}};

/* What packets with a sub-opcode, or a UD number, in aux are; opx_pkt_check() knows the same ones. */
static const struct sub {
	enum opx_opcode opcode;
	uint8_t aux;
	const char *name;
	const struct wire_field *fields;
	const struct wire_part *parts;
	struct wire_msg msg;
} subs[] = {
	{OPX_RZV_CTS, OPX_SUB_RZV, "RZV_CTS", cts_rzv, tids, {.how = 'j', .keys = "-h:opx.handle -r:opx.rx_handle"}},
	{OPX_RZV_CTS,
	 OPX_SUB_GET,
	 "GET",
	 cts_get,
	 pieces,
	 {.how = 'b', .keys = "-g:opx.handle", .total = "opx.len", .ops = op_read}},
	{OPX_RZV_DATA, OPX_SUB_RZV, "RZV_DATA", data_rzv, NULL, {.how = 'j', .keys = "+r:opx.rx_handle"}},
	{OPX_RZV_DATA, OPX_SUB_AHEAD, "AHEAD", data_ahead, NULL, {.how = 'j', .keys = "+h:opx.handle"}},
	{OPX_RZV_DATA,
	 OPX_SUB_PUT,
	 "PUT",
	 data_put,
	 NULL,
	 {.how = 'm',
	  .keys = "+p:opx.handle,opx.mr_key,opx.end +q:opx.handle",
	  .total = "",
	  .off = "opx.mr_off",
	  .end = "opx.end",
	  .ops = op_write}},
	{OPX_RZV_DATA, OPX_SUB_GET, "GET_DATA", data_get, NULL, {.how = 'j', .keys = "+g:opx.handle"}},
	{OPX_RZV_DATA, OPX_SUB_FETCH, "FETCH_DATA", data_fetch, NULL, {.how = 'e', .keys = "+f:opx.handle"}},
	{OPX_RMA,
	 OPX_SUB_PUT_LOCAL,
	 "PUT_LOCAL",
	 put_local,
	 pieces,
	 {.how = 'b', .keys = "+q:opx.handle", .total = "", .ops = op_write}},
	{OPX_RMA, OPX_SUB_PUT_DATA, "PUT_DATA", put_data, handles, {.how = 'w', .total = "opx.len", .ops = op_write}},
	{OPX_ATOMIC, 0, "ATOMIC", atomic, NULL, {.how = 'w', .ops = op_atomic}},
	{OPX_ATOMIC,
	 1,
	 "FETCH_ATOMIC",
	 atomic,
	 NULL,
	 {.how = 'b', .keys = "-f:opx.handle", .total = "", .ops = op_fetch}},
	{OPX_ATOMIC,
	 2,
	 "COMPARE_ATOMIC",
	 atomic,
	 NULL,
	 {.how = 'b', .keys = "-f:opx.handle", .total = "", .ops = op_compare}},
	{OPX_UD, OPX_UD_PING, "PING", ud_count, ud_parts, {0}},
	{OPX_UD, OPX_UD_ACK, "ACK", ud_count, ud_parts, {0}},
	{OPX_UD, OPX_UD_NACK, "NACK", ud_count, ud_parts, {0}},
	{OPX_UD, OPX_UD_INIT, "INIT", ud_init, ud_parts, {0}},
	{OPX_UD, OPX_UD_INIT_ACK, "INIT_ACK", ud_init_ack, ud_parts, {0}},
	{OPX_UD, OPX_UD_RESYNCH, "RESYNCH", ud_bye, ud_parts, {0}},
	{OPX_UD, OPX_UD_BYE, "BYE", ud_bye, ud_parts, {0}},
};

static void sub_packets(unsigned opcode)
{
	unsigned cnt = 0;

	for (const struct sub *s = subs; s < subs + ARRAY_SIZE(subs); s++) {
		const struct opx_pkt_desc *d = opx_pkt_desc((uint8_t)opcode);
		struct wire_packet p = {
			.name = s->name,
			.len = sizeof(struct hfi_hdr),
			.fields = s->fields,
			.parts = s->parts,
			.payload_min = s->parts ? 0 : d->payload_min,
			.payload_max = s->parts ? 0 : d->payload_max,
			.is_unnumbered = opcode == OPX_UD,
			.msg = {s->msg},
		};

		if (s->opcode != opcode)
			continue;
		snprintf(p.key, sizeof(p.key), "%u.%u", opcode, s->aux);
		wire_packet(&p);
		cnt++;
	}
	if (!cnt)
		wire_stop("wire_opx.c", "an opcode without a layout", opcode_name(opcode));
}

static bool whole_packet(unsigned opcode, struct wire_packet *p)
{
	const struct wire_op *op = opx_pkt_desc((uint8_t)opcode)->tagged ? op_tsend : op_send;

	switch ((enum opx_opcode)opcode) {
	case OPX_MSG_INJECT:
	case OPX_TAG_INJECT:
		p->fields = inject;
		p->parts = inject_parts;
		p->msg[0] = (struct wire_msg){.how = 'w', .total = "opx.inject_len", .ops = op};
		return true;
	case OPX_MSG_EAGER:
	case OPX_TAG_EAGER:
		p->fields = eager;
		p->parts = eager_parts;
		p->payload_len = "opx.len";
		p->msg[0] = (struct wire_msg){.how = 'w', .ops = op};
		return true;
	case OPX_MSG_MP_EAGER_FIRST:
	case OPX_TAG_MP_EAGER_FIRST:
		p->fields = mp_first;
		p->parts = eager_parts;
		p->msg[0] = (struct wire_msg){.how = 'b', .keys = "+m:opx.psn", .total = "opx.len", .ops = op};
		return true;
	case OPX_MP_EAGER_NTH:
		p->fields = nth;
		p->msg[0] = (struct wire_msg){.how = 'j', .keys = "+m:opx.first_psn"};
		return true;
	case OPX_MSG_RZV_RTS:
	case OPX_TAG_RZV_RTS:
		p->fields = rts;
		p->parts = rts_parts;
		p->payload_max = 0;
		p->msg[0] = (struct wire_msg){.how = 'b', .keys = "+h:opx.handle", .total = "opx.len", .ops = op};
		return true;
	case OPX_DONE:
		p->fields = done;
		p->msg[0] = (struct wire_msg){.how = 'e',
					      .keys = "-h:opx.handle -q:opx.handle +g:opx.handle +f:opx.handle"};
		return true;
	default:
		return false;
	}
}

void wire_opx(void)
{
	wire_number("opx_qp", HFI_QP_KDETH);
	wire_number("opx_qp_at", offsetof(struct hfi_hdr, qp));
	wire_proto_begin(&(struct wire_proto){"opx", "Omni-Path Express", head, offsetof(struct hfi_hdr, imm),
					      "opx.opcode", "opx.aux", "opx.key opx.psn", false});
	for (unsigned op = OPX_RZV_CTS; op <= OPX_TAG_RZV_RTS; op++) {
		const struct opx_pkt_desc *d = opx_pkt_desc((uint8_t)op);
		struct wire_packet p = {.len = sizeof(struct hfi_hdr)};

		if (!d)
			continue;
		if (d->w1 != OPX_W1_ALWAYS)
			p.len = HFI_HDR_CUT;
		p.name = d->name;
		p.payload_min = d->payload_min;
		p.payload_max = d->payload_max;
		snprintf(p.key, sizeof(p.key), "%u", op);
		if (whole_packet(op, &p))
			wire_packet(&p);
		else
			sub_packets(op);
	}
	wire_proto_end();
}
