// SPDX-License-Identifier: BSD-2-Clause
// Layouts of the soft EFA adapter's frames and of EFA's RDM protocol, the latter from its packet table.
#include "nic/efanic/efanic_wire.h"
#include "prov/efa/efa.h"
#include "prov/efa/efa_proto.h"
#include "wire/wire.h"

static const char *op_name(unsigned v)
{
	return efanic_pkt[v].name;
}
static const char *type_name(unsigned v)
{
	return efa_pkt_known(v) ? efa_pkt_tab[v].name : NULL;
}

static const struct wire_names ops = {"efanic_op", op_name, 1, EFANIC_PKT_NUM - 1},
			       types = {"efa_type", type_name, 0, EFA_PKT_NUM - 1};

/* --- frames of the adapter
 * --------------------------------------------------------------------------------------------- */

static const struct wire_field frame_head[] = {
	DEC(efanic_hdr, ver, "efa.frame_version"),
	DEC(efanic_hdr, op, "efa.frame", NAMES(ops)),
	RSVD(efanic_hdr, rsvd),
	HEX(efanic_hdr, qkey, "efa.qkey"),
	END,
};
#define EXT(m_)                                                                                                        \
	.off = offsetof(struct efanic_hdr_all, ext.m_), .size = sizeof(((struct efanic_hdr_ext *)0)->m_), .form = 'l'
static const struct wire_field imm[] = {{.name = "efa.imm", EXT(imm), .show = 'x'}, END};
static const struct wire_field imm_len[] = {
	{.name = "efa.imm", EXT(imm), .show = 'x'}, {.name = "efa.write_len", EXT(len), .show = 'd'}, END};

static void frames(void)
{
	static const struct wire_op write_op[] = {{.op = "fi_write"}, {0}};

	wire_number("efa_frame_version", EFANIC_WIRE_VERSION);
	wire_proto_begin(&(struct wire_proto){"efa_frame", "softfabric EFA adapter", frame_head,
					      sizeof(struct efanic_hdr), "efa.frame", NULL, NULL, false});
	for (unsigned op = 1; op < EFANIC_PKT_NUM; op++) {
		const struct efanic_pkt_desc *d = &efanic_pkt[op];
		struct wire_packet p = {
			.name = d->name,
			.len = d->hdr_len,
			.fields = d->hdr_len == EFANIC_HDR_MAX ? imm_len
				  : d->has_imm		       ? imm
							       : NULL,
			.payload_max = d->payload_max,
			.next = d->payload_max ? "efa" : NULL,
		};

		snprintf(p.key, sizeof(p.key), "%u", op);
		if (op == EFANIC_PKT_WRITE_IMM)
			p.msg[0] = (struct wire_msg){.how = 'w', .total = "efa.write_len", .ops = write_op};
		wire_packet(&p);
	}
	wire_proto_end();
}

/* --- packets of the protocol
 * ------------------------------------------------------------------------------------------- */

#define PKT_BASE 4u /* type, version, flags */

static const struct wire_field pkt_head[] = {
	{"efa.type", 0, 1, 'l', 'd', 0, &types},
	{"efa.version", 1, 1, 'l', 'd', 0, NULL},
	END,
};

/* The names of struct efa_hdr's members, which the rows of the packet table are made of. */
static const struct wire_field member[] = {
	DEC(efa_hdr, msg_id, "efa.msg_id"),
	DEC(efa_hdr, send_id, "efa.send_id"),
	DEC(efa_hdr, recv_id, "efa.recv_id"),
	HEX(efa_hdr, connid, "efa.connid"),
	HEX(efa_hdr, tag, "efa.tag"),
	DEC(efa_hdr, msg_len, "efa.msg_len"),
	DEC(efa_hdr, seg_off, "efa.seg_off"),
	DEC(efa_hdr, seg_len, "efa.seg_len"),
	DEC(efa_hdr, runt_len, "efa.runt_len"),
	DEC(efa_hdr, recv_len, "efa.recv_len"),
	DEC(efa_hdr, recv_len32, "efa.recv_len32"),
	DEC(efa_hdr, credit, "efa.credit"),
	DEC(efa_hdr, rma_iov_cnt, "efa.rma_iov_cnt"),
	DEC(efa_hdr, read_iov_cnt, "efa.read_iov_cnt"),
	DEC(efa_hdr, atomic_dt, "efa.atomic_dt"),
	DEC(efa_hdr, atomic_op, "efa.atomic_op"),
	DEC(efa_hdr, nextra_p3, "efa.nextra_p3"),
	WIRE_AT(efa_hdr, pad, "rsvd", '-'),
	END,
};

#define FLAG(name_, mask_)                                                                                             \
	{                                                                                                              \
		"efa.flag." name_, 2, 2, 'l', 'd', (mask_), NULL                                                       \
	}
#define FLAG_REST(mask_)                                                                                               \
	{                                                                                                              \
		"rsvd", 2, 2, 'l', '-', (mask_), NULL                                                                  \
	}
static const struct wire_field flags_req[] = {
	FLAG("raw_addr", EFA_FLAG_RAW_ADDR),
	FLAG("cq_data", EFA_FLAG_CQ_DATA),
	FLAG("msg", EFA_FLAG_MSG),
	FLAG("tagged", EFA_FLAG_TAGGED),
	FLAG("rma", EFA_FLAG_RMA),
	FLAG("atomic", EFA_FLAG_ATOMIC),
	FLAG_REST(0x1fc0),
	FLAG("read_nack", EFA_FLAG_READ_NACK),
	FLAG_REST(0x4000),
	FLAG("connid", EFA_FLAG_CONNID),
	END,
};
static const struct wire_field flags_handshake[] = {
	FLAG("host_id", EFA_FLAG_HS_HOST_ID),
	FLAG("device_version", EFA_FLAG_HS_DEVICE_VERSION),
	FLAG("user_recv_qp", EFA_FLAG_HS_USER_RECV_QP),
	FLAG_REST(0x7ff8),
	FLAG("connid", EFA_FLAG_CONNID),
	END,
};
static const struct wire_field flags_other[] = {
	FLAG_REST(0x007f),
	FLAG("read_req", EFA_FLAG_CTS_READ_REQ),
	FLAG_REST(0x7f00),
	FLAG("connid", EFA_FLAG_CONNID),
	END,
};

static const struct wire_field rma_iov[] = {
	HEX(efa_rma_iov, addr, "efa.rma_addr"),
	DEC(efa_rma_iov, len, "efa.rma_len"),
	HEX(efa_rma_iov, key, "efa.rma_key"),
	END,
};
static const struct wire_field read_iov[] = {
	HEX(efa_rma_iov, addr, "efa.read_addr"),
	DEC(efa_rma_iov, len, "efa.read_len"),
	HEX(efa_rma_iov, key, "efa.read_key"),
	END,
};
#define RAW(m_) 4 + offsetof(struct efa_addr, m_), sizeof(((struct efa_addr *)0)->m_)
static const struct wire_field raw_addr[] = {
	{"efa.raw_len", 0, 4, 'l', 'd', 0, NULL},
	{"efa.gid", RAW(gid), 'y', 'y', 0, NULL},
	{"efa.qpn", RAW(qpn), 'l', 'd', 0, NULL},
	{"efa.raw_connid", RAW(qkey), 'l', 'x', 0, NULL},
	END,
};
static const struct wire_field cq_data[] = {{"efa.cq_data", 0, 8, 'l', 'x', 0, NULL}, END};
static const struct wire_field connid[] = {{"efa.connid", 0, 4, 'l', 'x', 0, NULL}, END};
static const struct wire_field connid_pad[] = {
	{"efa.connid", 0, 4, 'l', 'x', 0, NULL}, {"rsvd", 4, 4, 'l', '-', 0, NULL}, END};
static const struct wire_field extra[] = {{"efa.extra_info", 0, 8, 'l', 'x', 0, NULL}, END};
static const struct wire_field host_id[] = {{"efa.host_id", 0, 8, 'l', 'x', 0, NULL}, END};
static const struct wire_field device[] = {
	{"efa.device_version", 0, 4, 'l', 'x', 0, NULL}, {"rsvd", 4, 4, 'l', '-', 0, NULL}, END};
static const struct wire_field user_qp[] = {
	{"efa.user_recv_qpn", 0, 4, 'l', 'd', 0, NULL}, {"efa.user_recv_qkey", 4, 4, 'l', 'x', 0, NULL}, END};

#define RAW_ADDR                                                                                                       \
	{                                                                                                              \
		.fields = raw_addr, .size = 4 + EFA_ADDR_LEN, .when = {IS("efa.flag.raw_addr", 1)},                    \
		.len_field = "efa.raw_len", .len_plus = 4                                                              \
	}
#define CQ_DATA                                                                                                        \
	{                                                                                                              \
		.fields = cq_data, .size = 8, .when = { IS("efa.flag.cq_data", 1) }                                    \
	}
#define CONNID                                                                                                         \
	{                                                                                                              \
		.fields = connid, .size = 4, .when = { IS("efa.flag.connid", 1), IS("efa.flag.raw_addr", 0) }          \
	}
#define RMA_IOV                                                                                                        \
	{                                                                                                              \
		.fields = rma_iov, .size = sizeof(struct efa_rma_iov), .times = "efa.rma_iov_cnt"                      \
	}
#define READ_IOV                                                                                                       \
	{                                                                                                              \
		.fields = read_iov, .size = sizeof(struct efa_rma_iov), .times = "efa.read_iov_cnt"                    \
	}

static const struct wire_part *parts_of(unsigned type, unsigned props)
{
	static const struct wire_part none[] = {RAW_ADDR, CQ_DATA, CONNID, {0}},
				      rma[] = {RMA_IOV, RAW_ADDR, CQ_DATA, CONNID, {0}},
				      read[] = {RAW_ADDR, CQ_DATA, CONNID, READ_IOV, {0}},
				      both[] = {RMA_IOV, RAW_ADDR, CQ_DATA, CONNID, READ_IOV, {0}};
	static const struct wire_part ctsdata[] = {
		{.fields = connid_pad, .size = 8, .when = {IS("efa.flag.connid", 1)}}, {0}};
	static const struct wire_part handshake[] = {
		{.fields = extra, .size = 8, .times = "efa.nextra_p3", .less = 3},
		{.fields = connid_pad, .size = 8, .when = {IS("efa.flag.connid", 1)}},
		{.fields = host_id, .size = 8, .when = {IS("efa.flag.host_id", 1)}},
		{.fields = device, .size = 8, .when = {IS("efa.flag.device_version", 1)}},
		{.fields = user_qp, .size = 8, .when = {IS("efa.flag.user_recv_qp", 1)}},
		{0},
	};

	if (!(props & EFA_P_REQ))
		return type == EFA_PKT_CTSDATA ? ctsdata : type == EFA_PKT_HANDSHAKE ? handshake : NULL;
	if (props & EFA_P_RMA_IOV)
		return props & EFA_P_READ_IOV ? both : rma;
	return props & EFA_P_READ_IOV ? read : none;
}

/* --- messages
 * ---------------------------------------------------------------------------------------------------------- */

static const struct wire_op op_send[] = {{.op = "fi_send"}, {0}}, op_tsend[] = {{.op = "fi_tsend"}, {0}},
			    op_read[] = {{.op = "fi_read"}, {0}}, op_atomic[] = {{.op = "fi_atomic"}, {0}},
			    op_fetch[] = {{.op = "fi_fetch_atomic"}, {0}},
			    op_compare[] = {{.op = "fi_compare_atomic"}, {0}};

/* One that writes nowhere asks for a handshake. */
static const struct wire_op op_write[] = {{"handshake", {IS("efa.rma_iov_cnt", 0)}}, {.op = "fi_write"}, {0}};

static const struct wire_op *op_of(unsigned type, unsigned props)
{
	if (props & EFA_P_RTM)
		return props & EFA_P_TAGGED ? op_tsend : op_send;
	if (props & EFA_P_RTA)
		return type == EFA_PKT_FETCH_RTA ? op_fetch : type == EFA_PKT_COMPARE_RTA ? op_compare : op_atomic;
	return props & EFA_P_PAYLOAD ? op_write : op_read;
}

static bool has(const struct efa_pkt_desc *d, size_t off)
{
	for (const struct efa_field *f = d->field; f->width; f++)
		if (f->off == off)
			return true;
	return false;
}

/* Keys are named as the data goes: s, the handle of its sender, r, of its receiver; m, the number of a message. */
static struct wire_msg msg_of_request(unsigned type, const struct efa_pkt_desc *d)
{
	bool has_send = has(d, offsetof(struct efa_hdr, send_id)), has_recv = has(d, offsetof(struct efa_hdr, recv_id));
	struct wire_msg m = {.how = 'w', .ops = op_of(type, d->props)};

	if (has(d, offsetof(struct efa_hdr, msg_len)))
		m.total = "efa.msg_len";
	if (d->props & EFA_P_MULTI) {
		m.how = 'm';
		m.keys = has_send ? "+m:efa.msg_id +s:efa.send_id" : "+m:efa.msg_id";
	} else if (has_send || has_recv) {
		m.how = 'b';
		m.keys = has_send ? "+s:efa.send_id" : "-r:efa.recv_id";
	}
	if (d->props & EFA_P_READ_IOV)
		m.mem = "efa.read_key efa.read_addr efa.read_len";
	if (type == EFA_PKT_FETCH_RTA || type == EFA_PKT_COMPARE_RTA)
		m.total = "";
	return m;
}

static struct wire_msg msg_of(unsigned type, const struct efa_pkt_desc *d)
{
	if (d->props & EFA_P_REQ)
		return msg_of_request(type, d);
	switch ((enum efa_pkt_type)type) {
	case EFA_PKT_CTS:
		return (struct wire_msg){.how = 'j', .keys = "-s:efa.send_id -r:efa.recv_id"};
	case EFA_PKT_CTSDATA:
		return (struct wire_msg){.how = 'j', .keys = "+r:efa.recv_id"};
	case EFA_PKT_READRSP:
		return (struct wire_msg){.how = 'j', .keys = "+r:efa.recv_id +s:efa.send_id"};
	case EFA_PKT_ATOMRSP:
		return (struct wire_msg){.how = 'e', .keys = "+r:efa.recv_id"};
	case EFA_PKT_EOR:
	case EFA_PKT_RECEIPT:
		return (struct wire_msg){.how = 'e', .keys = "-s:efa.send_id"};
	case EFA_PKT_READ_NACK:
		return (struct wire_msg){.how = 'j', .keys = "-s:efa.send_id"};
	case EFA_PKT_REFUSED:
		return (struct wire_msg){.how = 'j', .keys = "-s:efa.send_id +r:efa.recv_id"};
	default:
		return (struct wire_msg){0};
	}
}

/* The fields of a row, with its flags. */
static void fields_of(unsigned type, const struct efa_pkt_desc *d, struct wire_field out[EFA_FIELD_MAX + 12])
{
	const struct wire_field *flags = d->props & EFA_P_REQ	     ? flags_req
					 : type == EFA_PKT_HANDSHAKE ? flags_handshake
								     : flags_other;
	uint16_t at = PKT_BASE;

	while (flags->name)
		*out++ = *flags++;
	for (const struct efa_field *f = d->field; f->width; f++) {
		const struct wire_field *m = member;

		while (m->name && m->off != f->off)
			m++;
		if (!m->name)
			wire_stop(d->name, "a field of its row has no name", "member[] of wire_efa.c");
		*out = *m;
		out->off = at;
		out->size = f->width;
		out++;
		at += f->width;
	}
	out->name = NULL;
}

static void packets(void)
{
	wire_number("efa_version", EFA_PROTO_VERSION);
	wire_proto_begin(&(struct wire_proto){"efa", "EFA RDM protocol", pkt_head, 2, "efa.type", NULL, NULL, false});
	for (unsigned t = 0; t < EFA_PKT_NUM; t++) {
		const struct efa_pkt_desc *d = &efa_pkt_tab[t];
		struct wire_field fields[EFA_FIELD_MAX + 12];
		bool has_len = t == EFA_PKT_CTSDATA || t == EFA_PKT_READRSP || t == EFA_PKT_ATOMRSP;
		struct wire_packet p = {
			.name = d->name,
			.len = d->fixed_len,
			.fields = fields,
			.payload_max = d->props & EFA_P_PAYLOAD ? EFANIC_MTU : 0,
			.payload_len = has_len ? "efa.seg_len" : NULL,
		};

		if (!d->name)
			continue;
		snprintf(p.key, sizeof(p.key), "%u", t);
		fields_of(t, d, fields);
		p.parts = parts_of(t, d->props);
		p.msg[0] = msg_of(t, d);
		wire_packet(&p);
	}
	wire_proto_end();
}

void wire_efa(void)
{
	frames();
	packets();
}
