// SPDX-License-Identifier: BSD-2-Clause
// Layouts of the link: datagrams, records, bulk copies, seals.
#include "link/bulk/bulk_wire.h"
#include "link/core/link_int.h"
#include "link/net/rel_wire.h"
#include "link/net/seal.h"
#include "wire/wire.h"

static const char *type_name(unsigned v)
{
	return rel_desc[v].name;
}
static const char *bulk_name(unsigned v)
{
	return bulk_desc[v].name;
}

static const char *reason_name(unsigned v)
{
	switch ((enum rel_reason)v) {
	case REL_R_GONE:
		return "gone";
	case REL_R_VERSION:
		return "version";
	case REL_R_CLASS:
		return "class";
	case REL_R_NUM:
		break;
	}
	return NULL;
}

static const char *class_name(unsigned v)
{
	switch ((enum link_class)v) {
	case LINK_RAW:
		return "raw";
	case LINK_RELIABLE:
		return "reliable";
	case LINK_ORDERED:
		return "ordered";
	case LINK_CLASS_NUM:
		break;
	}
	return NULL;
}

static const char *kind_name(unsigned v)
{
	switch ((enum link_kind)v) {
	case LINK_K_NIC:
		return "adapter";
	case LINK_K_BULK:
		return "bulk";
	case LINK_K_NUM:
		break;
	}
	return NULL;
}

static const char *status_name(unsigned v)
{
	switch ((enum bulk_status)v) {
	case BULK_S_OK:
		return "ok";
	case BULK_S_ACCESS:
		return "access";
	case BULK_S_BUSY:
		return "busy";
	case BULK_S_WITHDRAWN:
		return "withdrawn";
	case BULK_S_SHUT:
		return "shut";
	case BULK_S_NUM:
		break;
	}
	return NULL;
}

static const char *mode_name(unsigned v)
{
	return v == SEAL_CLEAR ? "clear" : v == SEAL_SECRET ? "secret" : NULL;
}

static const struct wire_names types = {"rel_type", type_name, 1, REL_TYPE_NUM - 1},
			       reasons = {"rel_reason", reason_name, 1, REL_R_NUM - 1},
			       classes = {"class", class_name, 0, LINK_CLASS_NUM - 1},
			       kinds = {"kind", kind_name, 1, LINK_K_NUM - 1},
			       bulk_types = {"bulk_type", bulk_name, 1, BULK_T_NUM - 1},
			       statuses = {"bulk_status", status_name, 0, BULK_S_NUM - 1},
			       modes = {"seal_mode", mode_name, SEAL_CLEAR, SEAL_SECRET};

static const struct wire_field base[] = {
	RSVD(rel_base, magic),
	DEC(rel_base, version, "softfabric.version"),
	DEC(rel_base, type, "softfabric.type", NAMES(types)),
	DEC(rel_base, flags, "softfabric.flag.crc", BITS(REL_F_CRC)),
	DEC(rel_base, flags, "softfabric.flag.new", BITS(REL_F_NEW)),
	WIRE_AT(rel_base, flags, "rsvd", '-', BITS(0xff & ~REL_F_ALL)),
	HEX(rel_base, nonce, "softfabric.nonce"),
	DEC(rel_base, seq, "softfabric.seq"),
	DEC(rel_base, ack, "softfabric.ack"),
	HEX(rel_base, sack, "softfabric.sack"),
	DEC(rel_base, tx, "softfabric.tx"),
	DEC(rel_base, echo, "softfabric.echo"),
	DEC(rel_base, delay_us, "softfabric.delay_us"),
	DEC(rel_base, credit_kib, "softfabric.credit_kib"),
	HEX(rel_base, crc, "softfabric.crc"),
	END,
};

static const struct wire_field hello[] = {
	HEX(rel_hello, half, "softfabric.half"),
	HEX(rel_hello, echo_half, "softfabric.echo_half"),
	HEX(rel_hello, src_nonce, "softfabric.src_nonce"),
	HEX(rel_hello, dst_nonce, "softfabric.dst_nonce"),
	DEC(rel_hello, serial, "softfabric.serial"),
	DEC(rel_hello, cls, "softfabric.class", NAMES(classes)),
	HEX(rel_hello, settings, "softfabric.settings"),
	RSVD(rel_hello, rsvd),
	END,
};

static const struct wire_field refuse[] = {
	HEX(rel_refuse, half, "softfabric.half"),
	DEC(rel_refuse, reason, "softfabric.reason", NAMES(reasons)),
	DEC(rel_refuse, version, "softfabric.refuse_version"),
	DEC(rel_refuse, cls, "softfabric.class", NAMES(classes)),
	RSVD(rel_refuse, rsvd),
	RSVD(rel_refuse, rsvd2),
	END,
};

static const struct wire_field sack_word[] = {{"softfabric.sack", 0, sizeof(le64_t), 'l', 'x', 0, NULL}, END};

static const struct wire_field nak[] = {
	DEC(rel_nak, seq, "softfabric.nak.seq"),
	DEC(rel_nak, frame, "softfabric.nak.frame"),
	DEC(rel_nak, code, "softfabric.nak.code"),
	RSVD(rel_nak, rsvd),
	END,
};

static const struct wire_field rec[] = {
	DEC(rel_rec, frame, "softfabric.frame"),
	DEC(rel_rec, len, "softfabric.len"),
	DEC(rel_rec, kind, "softfabric.kind", NAMES(kinds)),
	DEC(rel_rec, flags, "softfabric.segmented", BITS(REL_REC_SEG)),
	WIRE_AT(rel_rec, flags, "rsvd", '-', BITS(0xff & ~REL_REC_SEG)),
	END,
};

static const struct wire_field seg[] = {
	DEC(rel_seg, idx, "softfabric.seg"),
	DEC(rel_seg, cnt, "softfabric.seg_cnt"),
	DEC(rel_seg, total, "softfabric.seg_total"),
	END,
};

static const struct wire_field seal[] = {
	RSVD(seal_hdr, magic),
	HEX(seal_hdr, mode, "softfabric.seal.mode", NAMES(modes)),
	WIRE_AT(seal_hdr, id, "softfabric.seal.id", 'y'),
	DEC(seal_hdr, count, "softfabric.seal.count"),
	WIRE_AT(seal_hdr, tag, "softfabric.seal.tag", 'y'),
	END,
};

/* The parts behind the base header, by the flags of the type's row. */
static const struct wire_part *datagram_parts(unsigned type)
{
	static const struct wire_part naks[] = {{.fields = nak, .size = sizeof(struct rel_nak), .to_end = true}, {0}};
	static const struct wire_part sacks[] = {{.fields = sack_word, .size = sizeof(le64_t), .to_end = true}, {0}};
	static const struct wire_part hellos[] = {{.fields = hello, .size = sizeof(struct rel_hello)}, {0}};
	static const struct wire_part refuses[] = {
		{.fields = refuse, .size = sizeof(struct rel_refuse), .when = {IS("softfabric.nonce", 0)}},
		{0},
	};

	if (type == REL_REFUSE)
		return refuses;
	if (rel_desc[type].part_len == sizeof(struct rel_hello))
		return hellos;
	return rel_desc[type].flags & REL_D_NAKS ? naks : rel_desc[type].flags & REL_D_SACK ? sacks : NULL;
}

static void datagrams(void)
{
	wire_proto_begin(&(struct wire_proto){"link", "softfabric", base, sizeof(struct rel_base), "softfabric.type",
					      NULL, NULL, false});
	for (unsigned t = 1; t < REL_TYPE_NUM; t++) {
		bool has_recs = rel_desc[t].flags & REL_D_RECS;
		struct wire_packet p = {
			.name = rel_desc[t].name,
			.len = sizeof(struct rel_base),
			.parts = datagram_parts(t),
			.payload_max = has_recs ? REL_DGRAM_MAX : 0,
			.next = has_recs ? "records" : NULL,
		};

		snprintf(p.key, sizeof(p.key), "%u", t);
		wire_packet(&p);
	}
	wire_proto_end();
}

/* --- bulk copies
 * ------------------------------------------------------------------------------------------------------- */

static const struct wire_field bulk_head[] = {
	DEC(bulk_hdr, type, "softfabric.bulk.type", NAMES(bulk_types)),
	DEC(bulk_hdr, status, "softfabric.bulk.status", NAMES(statuses)),
	RSVD(bulk_hdr, rsvd),
	DEC(bulk_hdr, id, "softfabric.bulk.id"),
	DEC(bulk_hdr, tag, "softfabric.bulk.tag"),
	HEX(bulk_hdr, key, "softfabric.bulk.key"),
	END,
};

static const struct wire_field bulk_get[] = {HEX(bulk_hdr_get, addr, "softfabric.bulk.addr"),
					     DEC(bulk_hdr_get, len, "softfabric.bulk.len"), END};
static const struct wire_field bulk_data[] = {DEC(bulk_hdr_data, off, "softfabric.bulk.off"), END};
static const struct wire_field bulk_put[] = {
	HEX(bulk_hdr_put, addr, "softfabric.bulk.addr"),
	DEC(bulk_hdr_put, len, "softfabric.bulk.len"),
	DEC(bulk_hdr_put, off, "softfabric.bulk.off"),
	END,
};
static const struct wire_field bulk_reply[] = {DEC(bulk_hdr_reply, bytes, "softfabric.bulk.bytes"), END};
static const struct wire_field bulk_help[] = {
	HEX(bulk_hdr_help, addr, "softfabric.bulk.addr"),
	DEC(bulk_hdr_help, len, "softfabric.bulk.len"),
	HEX(bulk_hdr_help, dst, "softfabric.bulk.dst"),
	HEX(bulk_hdr_help, dst_key, "softfabric.bulk.dst_key"),
	END,
};

static const struct wire_op read_op[] = {{.op = "fi_read"}, {0}}, write_op[] = {{.op = "fi_write"}, {0}};
#define OURS   "+b:softfabric.bulk.id,softfabric.bulk.tag"
#define THEIRS "-b:softfabric.bulk.id,softfabric.bulk.tag"
#define MEMORY "softfabric.bulk.key softfabric.bulk.addr"

/* Fields and message of each type; the rest is in its row. What no message has shown is the efa adapter's own RDMA. */
static void bulk_rest(unsigned type, struct wire_packet *p)
{
	switch ((enum bulk_type)type) {
	case BULK_T_GET:
		p->fields = bulk_get;
		p->msg[0] = (struct wire_msg){
			.how = 'm', .keys = OURS, .total = "softfabric.bulk.len", .find = MEMORY, .ops = read_op};
		return;
	case BULK_T_DATA:
		p->fields = bulk_data;
		p->msg[0] = (struct wire_msg){.how = 'j', .keys = THEIRS};
		return;
	case BULK_T_OFFER:
		p->fields = bulk_get;
		return;
	case BULK_T_AHEAD:
		p->fields = bulk_data;
		p->msg[0] = (struct wire_msg){.how = 'j', .find = "softfabric.bulk.key softfabric.bulk.off"};
		return;
	case BULK_T_PUT:
		p->fields = bulk_put;
		p->msg[0] = (struct wire_msg){
			.how = 'm', .keys = OURS, .total = "softfabric.bulk.len", .find = MEMORY, .ops = write_op};
		return;
	case BULK_T_REPLY:
		p->fields = bulk_reply;
		p->msg[0] = (struct wire_msg){.how = 'j', .keys = THEIRS};
		return;
	case BULK_T_STOP:
		p->msg[0] = (struct wire_msg){.how = 'j', .keys = OURS};
		return;
	case BULK_T_HELP:
		p->fields = bulk_help;
		return;
	case BULK_T_PING:
	case BULK_T_NUM:
		return;
	}
}

static void bulk(void)
{
	wire_proto_begin(&(struct wire_proto){"bulk", "softfabric bulk copy", bulk_head, sizeof(struct bulk_hdr),
					      "softfabric.bulk.type", NULL, NULL, false});
	for (unsigned t = 1; t < BULK_T_NUM; t++) {
		struct wire_packet p = {
			.name = bulk_desc[t].name,
			.len = bulk_desc[t].hdr_len,
			.payload_min = bulk_desc[t].payload_min,
			.payload_max = bulk_desc[t].payload_max,
		};

		snprintf(p.key, sizeof(p.key), "%u", t);
		bulk_rest(t, &p);
		wire_packet(&p);
	}
	wire_proto_end();
}

void wire_link(void)
{
	wire_number("magic", REL_MAGIC);
	wire_number("version", REL_VERSION);
	wire_number("seal_magic", SEAL_MAGIC);
	wire_number("pad_max", REL_PAD_MAX);
	wire_layout("rec", rec, sizeof(struct rel_rec));
	wire_layout("seg", seg, sizeof(struct rel_seg));
	wire_layout("seal", seal, sizeof(struct seal_hdr));
	datagrams();
	bulk();
}
