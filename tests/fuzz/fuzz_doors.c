// SPDX-License-Identifier: BSD-2-Clause
// The doors of the packet formats: efa protocol v4, the soft EFA and Cassini frames, bulk, and the reliability
// datagram.
#include "fuzz.h"

#include "link/bulk/bulk_int.h"
#include "link/core/link_int.h"
#include "link/net/rel_int.h"
#include "nic/cassini/cassini_int.h"
#include "nic/efanic/efanic_wire.h"
#include "prov/efa/efa_proto.h"

/* The input as a frame in up to eight pieces, each on the heap: no reader may rely on what follows. */
static void cut(struct fuzz *f, struct view *v, void *mem[VIEW_SEG_MAX])
{
	unsigned pieces = 1 + fuzz_u8(f) % VIEW_SEG_MAX;

	*v = (struct view){0};
	for (unsigned i = 0; i < pieces && f->left; i++) {
		size_t len = i + 1 == pieces ? f->left : MIN((size_t)fuzz_u8(f) + 1, f->left);

		len = MIN(len, f->left);
		if (!len)
			break;
		mem[i] = malloc(len);
		fuzz_get(f, mem[i], len);
		v->seg[v->seg_cnt++] = (struct view_seg){mem[i], (uint32_t)len};
		v->len += (uint32_t)len;
	}
}

/* What passes means the same when it is written and read again. */
static void efa_again(const struct efa_hdr *h)
{
	uint8_t buf[EFA_HDR_MAX];
	size_t len = efa_pkt_hdr_len(h), off;
	struct efa_hdr again;
	struct view v;

	if (h->type == EFA_PKT_HANDSHAKE && h->nextra_p3 > EFA_EXTRA_MAX + 3)
		return; /* words that we do not know, and never send */
	FUZZ_CHECK(len <= sizeof(buf) && efa_pkt_encode(h, buf, sizeof(buf)) == len);
	v = view_of(buf, len);
	memset(&again, 0, sizeof(again));
	/* announced payload is missing here, so the lengths may not agree any more */
	FUZZ_CHECK(efa_pkt_decode(&v, &again, &off) == EFA_DROP_LENGTH || off == len);
	FUZZ_CHECK(again.type == h->type);
}

static void door_efa(const struct view *v)
{
	struct efa_hdr h = {0};
	size_t off = 0;

	if (efa_pkt_decode(v, &h, &off))
		return;
	FUZZ_CHECK(off <= v->seg[0].len && off <= v->len);
	FUZZ_CHECK(h.rma_iov_cnt <= EFA_IOV_MAX || !(efa_pkt_tab[h.type].props & EFA_P_RMA_IOV));
	FUZZ_CHECK(h.read_iov_cnt <= EFA_IOV_MAX || !(efa_pkt_tab[h.type].props & EFA_P_READ_IOV));
	efa_again(&h);
}

/*
 * The first row, of the Domain that the frame is for and the peer that it says it is from, lets nothing in that the
 * others would not, and says the same of it.
 */
static void door_cassini_first(const struct view *v)
{
	struct cassini_pkt_in pkt, all;
	struct cassini_hdr h;
	uint32_t match_id;
	uint16_t vni, pid;

	if (v->seg_cnt != 1 || view_copy(v, 0, &h, CASSINI_PUT_HDR) < CASSINI_PUT_HDR) /* frames come in one piece */
		return;
	vni = le16_get(h.vni);
	pid = le16_get(h.pid);
	match_id = le32_get(h.initiator);
	if (!vni || pid >= CASSINI_PID_CNT ||
	    match_id != CASSINI_MATCH_ID(CASSINI_MATCH_ID_PID(match_id), CASSINI_MATCH_ID_NIC(match_id)) ||
	    CASSINI_MATCH_ID_PID(match_id) >= CASSINI_PID_CNT) /* there is none */
		return;
	if (!cassini_put_check(v->seg[0].p, (uint32_t)v->len, cassini_put_word(vni, pid), match_id, &pkt))
		return;
	FUZZ_CHECK(!cassini_pkt_check(v, &all) && pkt.op == CASSINI_PKT_PUT && !pkt.flags);
	FUZZ_CHECK(!memcmp(&pkt, &all, offsetof(struct cassini_pkt_in, amo)));
}

static void door_cassini(const struct view *v)
{
	uint8_t buf[CASSINI_ENCODE_MAX];
	struct cassini_pkt_in pkt;

	door_cassini_first(v);
	if (cassini_pkt_check(v, &pkt))
		return;
	FUZZ_CHECK(pkt.op && pkt.op < CASSINI_PKT_NUM && pkt.vni && pkt.pid < CASSINI_PID_CNT);
	FUZZ_CHECK(pkt.hdr_len + pkt.payload_len == v->len);
	FUZZ_CHECK(pkt.payload_len <= CASSINI_FRAME_DATA && pkt.payload_len <= pkt.request_len);
	FUZZ_CHECK(cassini_pkt_encode(&pkt, buf) == pkt.hdr_len);
	for (unsigned i = 0; i < pkt.hdr_len; i++) { /* a good frame has one form */
		uint8_t byte;

		FUZZ_CHECK(view_copy(v, i, &byte, 1) == 1 && byte == buf[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *mem[VIEW_SEG_MAX] = {NULL};
	struct fuzz f = {data, size};
	struct efanic_pkt_in nic;
	struct bulk_pkt bulk;
	struct rel_pkt rel;
	struct view v;
	unsigned which = fuzz_u8(&f) % 5;

	if (which == 3) { /* datagrams come in one piece */
		mem[0] = malloc(f.left + 1);
		size = f.left;
		fuzz_get(&f, mem[0], size);
		rel_pkt_check(mem[0], size, &rel);
	} else {
		cut(&f, &v, mem);
		if (which == 0)
			door_efa(&v);
		else if (which == 4)
			door_cassini(&v);
		else if (which == 1 && efanic_pkt_check(&v, &nic) == EFANIC_DROP_NONE)
			FUZZ_CHECK(nic.hdr_len + nic.payload_len == v.len);
		else if (which == 2 && !bulk_pkt_check(&v, &bulk))
			FUZZ_CHECK(bulk.hdr_len + bulk.payload_len == v.len);
	}
	for (unsigned i = 0; i < VIEW_SEG_MAX; i++)
		free(mem[i]);
	return 0;
}
