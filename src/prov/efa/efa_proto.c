// SPDX-License-Identifier: BSD-2-Clause
// The packet table of EFA RDM protocol v4, its encoder and its decoder.
#include "prov/efa/efa_proto.h"

#include <endian.h>
#include <string.h>

#define F4(member_)                                                                                \
	{                                                                                          \
		offsetof(struct efa_hdr, member_), 4                                               \
	}
#define F8(member_)                                                                                \
	{                                                                                          \
		offsetof(struct efa_hdr, member_), 8                                               \
	}

#define MSG_PROPS  (EFA_P_REQ | EFA_P_RTM | EFA_P_PAYLOAD)
#define TAG_PROPS  (MSG_PROPS | EFA_P_TAGGED)
#define RTW_PROPS  (EFA_P_REQ | EFA_P_RMA_IOV | EFA_P_PAYLOAD)
#define RTA_PROPS  (EFA_P_REQ | EFA_P_RTA | EFA_P_RMA_IOV | EFA_P_PAYLOAD)

const struct efa_pkt_desc efa_pkt_tab[EFA_PKT_NUM] = {
	[EFA_PKT_CTS] = {"CTS", 0, 24, 0, {F4(connid), F4(send_id), F4(recv_id), F8(recv_len)}},
	[EFA_PKT_CTSDATA] = {"CTSDATA", EFA_P_PAYLOAD, 24, 0, {F4(recv_id), F8(seg_len), F8(seg_off)}},
	[EFA_PKT_READRSP] = {"READRSP", EFA_P_PAYLOAD, 24, 0,
			     {F4(connid), F4(recv_id), F4(send_id), F8(seg_len)}},
	[EFA_PKT_EOR] = {"EOR", 0, 16, EFA_X_RDMA_READ, {F4(send_id), F4(recv_id), F4(connid)}},
	[EFA_PKT_ATOMRSP] = {"ATOMRSP", EFA_P_PAYLOAD, 24, 0,
			     {F4(connid), F4(pad), F4(recv_id), F8(seg_len)}},
	[EFA_PKT_HANDSHAKE] = {"HANDSHAKE", 0, 8, 0, {F4(nextra_p3)}},
	[EFA_PKT_RECEIPT] = {"RECEIPT", 0, 16, EFA_X_DELIVERY_COMPLETE,
			     {F4(send_id), F4(msg_id), F4(connid)}},
	[EFA_PKT_READ_NACK] = {"READ_NACK", 0, 16, EFA_X_READ_NACK,
			       {F4(send_id), F4(recv_id), F4(connid)}},
	[EFA_PKT_REFUSED] = {"REFUSED", 0, 16, EFA_X_REFUSED, {F4(send_id), F4(recv_id), F4(connid)}},

	[EFA_PKT_EAGER_MSGRTM] = {"EAGER_MSGRTM", MSG_PROPS, 8, 0, {F4(msg_id)}},
	[EFA_PKT_EAGER_TAGRTM] = {"EAGER_TAGRTM", TAG_PROPS, 16, 0, {F4(msg_id), F8(tag)}},
	[EFA_PKT_MEDIUM_MSGRTM] = {"MEDIUM_MSGRTM", MSG_PROPS | EFA_P_MULTI, 24, 0,
				   {F4(msg_id), F8(msg_len), F8(seg_off)}},
	[EFA_PKT_MEDIUM_TAGRTM] = {"MEDIUM_TAGRTM", TAG_PROPS | EFA_P_MULTI, 32, 0,
				   {F4(msg_id), F8(msg_len), F8(seg_off), F8(tag)}},
	[EFA_PKT_LONGCTS_MSGRTM] = {"LONGCTS_MSGRTM", MSG_PROPS | EFA_P_LONGCTS, 24, 0,
				    {F4(msg_id), F8(msg_len), F4(send_id), F4(credit)}},
	[EFA_PKT_LONGCTS_TAGRTM] = {"LONGCTS_TAGRTM", TAG_PROPS | EFA_P_LONGCTS, 32, 0,
				    {F4(msg_id), F8(msg_len), F4(send_id), F4(credit), F8(tag)}},
	[EFA_PKT_EAGER_RTW] = {"EAGER_RTW", RTW_PROPS, 8, 0, {F4(rma_iov_cnt)}},
	[EFA_PKT_LONGCTS_RTW] = {"LONGCTS_RTW", RTW_PROPS | EFA_P_LONGCTS, 24, 0,
				 {F4(rma_iov_cnt), F8(msg_len), F4(send_id), F4(credit)}},
	[EFA_PKT_SHORT_RTR] = {"SHORT_RTR", EFA_P_REQ | EFA_P_RMA_IOV, 24, 0,
			       {F4(rma_iov_cnt), F8(msg_len), F4(recv_id), F4(recv_len32)}},
	[EFA_PKT_LONGCTS_RTR] = {"LONGCTS_RTR", EFA_P_REQ | EFA_P_RMA_IOV, 24, 0,
				 {F4(rma_iov_cnt), F8(msg_len), F4(recv_id), F4(recv_len32)}},
	[EFA_PKT_WRITE_RTA] = {"WRITE_RTA", RTA_PROPS, 24, 0,
			       {F4(msg_id), F4(rma_iov_cnt), F4(atomic_dt), F4(atomic_op), F4(pad)}},
	[EFA_PKT_FETCH_RTA] = {"FETCH_RTA", RTA_PROPS, 24, 0,
			       {F4(msg_id), F4(rma_iov_cnt), F4(atomic_dt), F4(atomic_op), F4(recv_id)}},
	[EFA_PKT_COMPARE_RTA] = {"COMPARE_RTA", RTA_PROPS, 24, 0,
				 {F4(msg_id), F4(rma_iov_cnt), F4(atomic_dt), F4(atomic_op), F4(recv_id)}},

	[EFA_PKT_LONGREAD_MSGRTM] = {"LONGREAD_MSGRTM", MSG_PROPS | EFA_P_READ_IOV, 24, EFA_X_RDMA_READ,
				     {F4(msg_id), F8(msg_len), F4(send_id), F4(read_iov_cnt)}},
	[EFA_PKT_LONGREAD_TAGRTM] = {"LONGREAD_TAGRTM", TAG_PROPS | EFA_P_READ_IOV, 32, EFA_X_RDMA_READ,
				     {F4(msg_id), F8(msg_len), F4(send_id), F4(read_iov_cnt), F8(tag)}},
	[EFA_PKT_LONGREAD_RTW] = {"LONGREAD_RTW", RTW_PROPS | EFA_P_READ_IOV, 24, EFA_X_RDMA_READ,
				  {F4(rma_iov_cnt), F8(msg_len), F4(send_id), F4(read_iov_cnt)}},

	[EFA_PKT_DC_EAGER_MSGRTM] = {"DC_EAGER_MSGRTM", MSG_PROPS | EFA_P_DC, 16, EFA_X_DELIVERY_COMPLETE,
				     {F4(msg_id), F4(send_id), F4(pad)}},
	[EFA_PKT_DC_EAGER_TAGRTM] = {"DC_EAGER_TAGRTM", TAG_PROPS | EFA_P_DC, 24, EFA_X_DELIVERY_COMPLETE,
				     {F4(msg_id), F4(send_id), F4(pad), F8(tag)}},
	[EFA_PKT_DC_MEDIUM_MSGRTM] = {"DC_MEDIUM_MSGRTM", MSG_PROPS | EFA_P_DC | EFA_P_MULTI, 32,
				      EFA_X_DELIVERY_COMPLETE,
				      {F4(msg_id), F4(send_id), F4(pad), F8(msg_len), F8(seg_off)}},
	[EFA_PKT_DC_MEDIUM_TAGRTM] = {"DC_MEDIUM_TAGRTM", TAG_PROPS | EFA_P_DC | EFA_P_MULTI, 40,
				      EFA_X_DELIVERY_COMPLETE,
				      {F4(msg_id), F4(send_id), F4(pad), F8(msg_len), F8(seg_off), F8(tag)}},
	[EFA_PKT_DC_LONGCTS_MSGRTM] = {"DC_LONGCTS_MSGRTM", MSG_PROPS | EFA_P_DC | EFA_P_LONGCTS, 24,
				       EFA_X_DELIVERY_COMPLETE,
				       {F4(msg_id), F8(msg_len), F4(send_id), F4(credit)}},
	[EFA_PKT_DC_LONGCTS_TAGRTM] = {"DC_LONGCTS_TAGRTM", TAG_PROPS | EFA_P_DC | EFA_P_LONGCTS, 32,
				       EFA_X_DELIVERY_COMPLETE,
				       {F4(msg_id), F8(msg_len), F4(send_id), F4(credit), F8(tag)}},
	[EFA_PKT_DC_EAGER_RTW] = {"DC_EAGER_RTW", RTW_PROPS | EFA_P_DC, 16, EFA_X_DELIVERY_COMPLETE,
				  {F4(rma_iov_cnt), F4(send_id), F4(pad)}},
	[EFA_PKT_DC_LONGCTS_RTW] = {"DC_LONGCTS_RTW", RTW_PROPS | EFA_P_DC | EFA_P_LONGCTS, 24,
				    EFA_X_DELIVERY_COMPLETE,
				    {F4(rma_iov_cnt), F8(msg_len), F4(send_id), F4(credit)}},
	[EFA_PKT_DC_WRITE_RTA] = {"DC_WRITE_RTA", RTA_PROPS | EFA_P_DC, 24, EFA_X_DELIVERY_COMPLETE,
				  {F4(msg_id), F4(rma_iov_cnt), F4(atomic_dt), F4(atomic_op), F4(send_id)}},

	[EFA_PKT_RUNTREAD_MSGRTM] = {"RUNTREAD_MSGRTM", MSG_PROPS | EFA_P_MULTI | EFA_P_READ_IOV, 40,
				     EFA_X_RUNT | EFA_X_RDMA_READ,
				     {F4(msg_id), F8(msg_len), F4(send_id), F4(read_iov_cnt), F8(seg_off),
				      F8(runt_len)}},
	[EFA_PKT_RUNTREAD_TAGRTM] = {"RUNTREAD_TAGRTM", TAG_PROPS | EFA_P_MULTI | EFA_P_READ_IOV, 48,
				     EFA_X_RUNT | EFA_X_RDMA_READ,
				     {F4(msg_id), F8(msg_len), F4(send_id), F4(read_iov_cnt), F8(seg_off),
				      F8(runt_len), F8(tag)}},
};

const char *efa_pkt_name(unsigned type)
{
	return efa_pkt_known(type) ? efa_pkt_tab[type].name : "invalid";
}

static const char *const drop_name[] = {
	[EFA_DROP_NONE] = "none",
	[EFA_DROP_SHORT] = "shorter than its header",
	[EFA_DROP_TYPE] = "unknown packet type",
	[EFA_DROP_DEPRECATED] = "packet type of protocol 3",
	[EFA_DROP_VERSION] = "protocol version too old",
	[EFA_DROP_COUNT] = "count out of range",
	[EFA_DROP_ADDR_LEN] = "raw address length out of range",
	[EFA_DROP_LENGTH] = "payload length disagrees with header",
};
static_assert(ARRAY_SIZE(drop_name) == EFA_DROP_NUM, "every drop reason has a name");

const char *efa_drop_name(enum efa_drop why)
{
	return (unsigned)why < EFA_DROP_NUM ? drop_name[why] : "?";
}

/* --- encode ------------------------------------------------------------------------------------- */

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, 4);
	return p + 4;
}

static uint8_t *put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, 8);
	return p + 8;
}

static uint8_t *put_iov(uint8_t *p, const struct efa_rma_iov *iov, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		p = put64(p, iov[i].addr);
		p = put64(p, iov[i].len);
		p = put64(p, iov[i].key);
	}
	return p;
}

static size_t handshake_extra_len(const struct efa_hdr *h)
{
	return (h->nextra_p3 - 3) * 8 + (h->flags & EFA_FLAG_CONNID ? 8 : 0) +
	       (h->flags & EFA_FLAG_HS_HOST_ID ? 8 : 0) +
	       (h->flags & EFA_FLAG_HS_DEVICE_VERSION ? 8 : 0) +
	       (h->flags & EFA_FLAG_HS_USER_RECV_QP ? 8 : 0);
}

size_t efa_pkt_hdr_len(const struct efa_hdr *h)
{
	const struct efa_pkt_desc *d = &efa_pkt_tab[h->type];
	size_t len = d->fixed_len;

	if (!(d->props & EFA_P_REQ)) {
		if (h->type == EFA_PKT_CTSDATA && (h->flags & EFA_FLAG_CONNID))
			len += 8;
		if (h->type == EFA_PKT_HANDSHAKE)
			len += handshake_extra_len(h);
		return len;
	}
	if (d->props & EFA_P_RMA_IOV)
		len += h->rma_iov_cnt * sizeof(struct efa_rma_iov);
	if (h->flags & EFA_FLAG_RAW_ADDR)
		len += 4 + EFA_RAW_ADDR_LEN;
	else if (h->flags & EFA_FLAG_CONNID)
		len += 4;
	if (h->flags & EFA_FLAG_CQ_DATA)
		len += 8;
	if (d->props & EFA_P_READ_IOV)
		len += h->read_iov_cnt * sizeof(struct efa_rma_iov);
	return len;
}

static uint8_t *put_handshake(uint8_t *p, const struct efa_hdr *h)
{
	for (uint32_t i = 0; i < h->nextra_p3 - 3; i++)
		p = put64(p, h->extra_info[i]);
	if (h->flags & EFA_FLAG_CONNID)
		p = put32(put32(p, h->connid), 0);
	if (h->flags & EFA_FLAG_HS_HOST_ID)
		p = put64(p, h->host_id);
	if (h->flags & EFA_FLAG_HS_DEVICE_VERSION)
		p = put32(put32(p, h->device_version), 0);
	if (h->flags & EFA_FLAG_HS_USER_RECV_QP)
		p = put32(put32(p, h->user_recv_qpn), h->user_recv_qkey);
	return p;
}

static uint8_t *put_optional(uint8_t *p, const struct efa_hdr *h, unsigned props)
{
	if (props & EFA_P_RMA_IOV)
		p = put_iov(p, h->rma_iov, h->rma_iov_cnt);
	if (h->flags & EFA_FLAG_RAW_ADDR) {
		p = put32(p, EFA_RAW_ADDR_LEN);
		memcpy(p, h->raw_addr, EFA_ADDR_LEN);
		memset(p + EFA_ADDR_LEN, 0, EFA_RAW_ADDR_LEN - EFA_ADDR_LEN);
		p += EFA_RAW_ADDR_LEN;
	}
	if (h->flags & EFA_FLAG_CQ_DATA)
		p = put64(p, h->data);
	if ((h->flags & (EFA_FLAG_RAW_ADDR | EFA_FLAG_CONNID)) == EFA_FLAG_CONNID)
		p = put32(p, h->connid);
	if (props & EFA_P_READ_IOV)
		p = put_iov(p, h->read_iov, h->read_iov_cnt);
	return p;
}

size_t efa_pkt_encode(const struct efa_hdr *h, void *buf, size_t cap)
{
	const struct efa_pkt_desc *d = &efa_pkt_tab[h->type];
	uint8_t *p = buf;

	must(cap >= efa_pkt_hdr_len(h));
	p[0] = h->type;
	p[1] = EFA_PROTO_VERSION;
	p[2] = (uint8_t)h->flags;
	p[3] = (uint8_t)(h->flags >> 8);
	p += 4;
	for (const struct efa_field *f = d->field; f->width; f++) {
		const char *at = (const char *)h + f->off;

		p = f->width == 4 ? put32(p, *(const uint32_t *)at) : put64(p, *(const uint64_t *)at);
	}
	if (d->props & EFA_P_REQ) {
		if (h->flags & (EFA_FLAG_RAW_ADDR | EFA_FLAG_CQ_DATA | EFA_FLAG_CONNID) ||
		    d->props & (EFA_P_RMA_IOV | EFA_P_READ_IOV))
			p = put_optional(p, h, d->props);
	} else if (h->type == EFA_PKT_HANDSHAKE) {
		p = put_handshake(p, h);
	} else if (h->type == EFA_PKT_CTSDATA && (h->flags & EFA_FLAG_CONNID)) {
		p = put32(put32(p, h->connid), 0);
	}
	return (size_t)(p - (uint8_t *)buf);
}

/* --- decode ------------------------------------------------------------------------------------- */

/*
 * A cursor over the contiguous start of the packet; headers never cross into the second segment unless they are
 * hostile.
 */
struct rd {
	const uint8_t *p;
	size_t left, used;
};

static bool get32(struct rd *r, uint32_t *v)
{
	if (r->left < 4)
		return false;
	memcpy(v, r->p, 4);
	*v = le32toh(*v);
	r->p += 4;
	r->left -= 4;
	return true;
}

static bool get64(struct rd *r, uint64_t *v)
{
	if (r->left < 8)
		return false;
	memcpy(v, r->p, 8);
	*v = le64toh(*v);
	r->p += 8;
	r->left -= 8;
	return true;
}

static bool skip(struct rd *r, size_t n)
{
	if (r->left < n)
		return false;
	r->p += n;
	r->left -= n;
	return true;
}

static enum efa_drop get_iov(struct rd *r, struct efa_rma_iov *iov, uint32_t cnt)
{
	if (cnt > EFA_IOV_MAX)
		return EFA_DROP_COUNT;
	for (uint32_t i = 0; i < cnt; i++)
		if (!get64(r, &iov[i].addr) || !get64(r, &iov[i].len) || !get64(r, &iov[i].key))
			return EFA_DROP_SHORT;
	return EFA_DROP_NONE;
}

static enum efa_drop get_raw_addr(struct rd *r, struct efa_hdr *h)
{
	uint32_t len;

	if (!get32(r, &len))
		return EFA_DROP_SHORT;
	if (len < EFA_ADDR_LEN || len > 256)
		return EFA_DROP_ADDR_LEN;
	if (r->left < len)
		return EFA_DROP_SHORT;
	memcpy(h->raw_addr, r->p, EFA_ADDR_LEN);
	skip(r, len);
	return EFA_DROP_NONE;
}

static enum efa_drop get_optional(struct rd *r, struct efa_hdr *h, unsigned props)
{
	enum efa_drop why = EFA_DROP_NONE;

	if (props & EFA_P_RMA_IOV)
		why = get_iov(r, h->rma_iov, h->rma_iov_cnt);
	if (!why && (h->flags & EFA_FLAG_RAW_ADDR))
		why = get_raw_addr(r, h);
	if (!why && (h->flags & EFA_FLAG_CQ_DATA) && !get64(r, &h->data))
		why = EFA_DROP_SHORT;
	if (!why && (h->flags & (EFA_FLAG_RAW_ADDR | EFA_FLAG_CONNID)) == EFA_FLAG_CONNID &&
	    !get32(r, &h->connid))
		why = EFA_DROP_SHORT;
	if (!why && (props & EFA_P_READ_IOV))
		why = get_iov(r, h->read_iov, h->read_iov_cnt);
	return why;
}

static enum efa_drop get_handshake(struct rd *r, struct efa_hdr *h)
{
	uint32_t pad;
	uint64_t ignored;

	if (h->nextra_p3 < 4 || h->nextra_p3 - 3 > 4 * EFA_EXTRA_MAX)
		return EFA_DROP_COUNT;
	memset(h->extra_info, 0, sizeof(h->extra_info));
	for (uint32_t i = 0; i < h->nextra_p3 - 3; i++)
		if (!get64(r, i < EFA_EXTRA_MAX ? &h->extra_info[i] : &ignored))
			return EFA_DROP_SHORT;
	if ((h->flags & EFA_FLAG_CONNID) && (!get32(r, &h->connid) || !get32(r, &pad)))
		return EFA_DROP_SHORT;
	if ((h->flags & EFA_FLAG_HS_HOST_ID) && !get64(r, &h->host_id))
		return EFA_DROP_SHORT;
	if ((h->flags & EFA_FLAG_HS_DEVICE_VERSION) &&
	    (!get32(r, &h->device_version) || !get32(r, &pad)))
		return EFA_DROP_SHORT;
	if ((h->flags & EFA_FLAG_HS_USER_RECV_QP) &&
	    (!get32(r, &h->user_recv_qpn) || !get32(r, &h->user_recv_qkey)))
		return EFA_DROP_SHORT;
	return EFA_DROP_NONE;
}

/* Lengths that the header announces and the payload must honour, so that nothing downstream re-checks. */
static enum efa_drop check_lengths(const struct efa_hdr *h, unsigned props, uint64_t payload)
{
	if (!(props & EFA_P_PAYLOAD))
		return payload ? EFA_DROP_LENGTH : EFA_DROP_NONE;
	switch (h->type) {
	case EFA_PKT_CTSDATA:
	case EFA_PKT_READRSP:
	case EFA_PKT_ATOMRSP:
		return h->seg_len == payload ? EFA_DROP_NONE : EFA_DROP_LENGTH;
	}
	if (props & EFA_P_MULTI && (h->seg_off > h->msg_len || payload > h->msg_len - h->seg_off))
		return EFA_DROP_LENGTH;
	if (props & EFA_P_LONGCTS && payload > h->msg_len)
		return EFA_DROP_LENGTH;
	if (h->type == EFA_PKT_RUNTREAD_MSGRTM || h->type == EFA_PKT_RUNTREAD_TAGRTM) {
		if (h->runt_len > h->msg_len || h->seg_off + payload > h->runt_len)
			return EFA_DROP_LENGTH;
	}
	return EFA_DROP_NONE;
}

enum efa_drop efa_pkt_decode(const struct view *pkt, struct efa_hdr *h, size_t *payload_off)
{
	const struct efa_pkt_desc *d;
	enum efa_drop why;
	uint8_t base[4];
	struct rd r;

	if (!pkt->seg_cnt || pkt->seg[0].len < 4)
		return EFA_DROP_SHORT;
	memcpy(base, pkt->seg[0].p, 4);
	h->type = base[0];
	h->flags = (uint16_t)(base[2] | base[3] << 8);
	if (unlikely(!efa_pkt_known(h->type)))
		return h->type == 1 || h->type == 2 ? EFA_DROP_DEPRECATED : EFA_DROP_TYPE;
	if (unlikely(base[1] < EFA_PROTO_VERSION))
		return EFA_DROP_VERSION;
	d = &efa_pkt_tab[h->type];
	if (unlikely(pkt->seg[0].len < d->fixed_len))
		return EFA_DROP_SHORT;
	r = (struct rd){.p = pkt->seg[0].p + 4, .left = pkt->seg[0].len - 4};
	for (const struct efa_field *f = d->field; f->width; f++) {
		char *at = (char *)h + f->off;

		if (f->width == 4)
			get32(&r, (uint32_t *)at);
		else
			get64(&r, (uint64_t *)at);
	}
	if (d->props & EFA_P_REQ)
		why = get_optional(&r, h, d->props);
	else if (h->type == EFA_PKT_HANDSHAKE)
		why = get_handshake(&r, h);
	else if (h->type == EFA_PKT_CTSDATA && (h->flags & EFA_FLAG_CONNID))
		why = get32(&r, &h->connid) && skip(&r, 4) ? EFA_DROP_NONE : EFA_DROP_SHORT;
	else
		why = EFA_DROP_NONE;
	if (unlikely(why))
		return why;
	*payload_off = (size_t)(r.p - pkt->seg[0].p);
	return check_lengths(h, d->props, pkt->len - *payload_off);
}
