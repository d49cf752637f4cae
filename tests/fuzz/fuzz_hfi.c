// SPDX-License-Identifier: BSD-2-Clause
// The soft HFI1's door, and expected packets that got through it: they write into the programmed buffer and nowhere
// else.
#include "fuzz.h"

#include "nic/hfi/hfi_int.h"

#define BUF_LEN 5000u

static struct lock lock;
static struct hfi hfi = {.lock = &lock};

static struct hfi_hdr like(void)
{
	return (struct hfi_hdr){
		.lrh_flags = be16_put(0x1012),
		.dlid = be16_put(3),
		.slid = be16_put(4),
		.pkey = be16_put(HFI_PKEY_DEFAULT),
		.qp = HFI_QP_KDETH,
		.dest_rx = 5,
		.psn_tx = le32_put(6u << 24),
		.kdeth = le32_put(HFI_KVER),
		.jkey = le16_put(100),
		.hcrc = le16_put(200),
	};
}

/* A good header with some bytes changed, or any bytes. */
static struct hfi_hdr header(struct fuzz *f, uint32_t payload)
{
	struct hfi_hdr h = like();
	unsigned changes = fuzz_u8(f);

	if (changes == 255) {
		fuzz_get(f, &h, sizeof(h));
		return h;
	}
	hfi_wire_put_len(&h, changes & 16 ? HFI_HDR_CUT : sizeof(h), payload);
	for (unsigned i = 0; i < changes % 5; i++)
		((uint8_t *)&h)[fuzz_u8(f) % sizeof(h)] = fuzz_u8(f);
	if (changes & 8)
		h.kdeth = le32_put((uint32_t)fuzz_u64(f) | HFI_KDETH_CTRL);
	return h;
}

static void place(struct fuzz *f, struct hfi_pkt *pkt)
{
	struct hfi_ctxt c = {.hfi = &hfi};
	uint8_t *buf = calloc(1, BUF_LEN); /* a sanitizer sees its end */
	struct hfi_tid tid;
	int rc;

	if (buf && !hfi_tid_init(&c) && hfi_tid_update(&c, buf, BUF_LEN, &tid, 1) == 1) {
		rc = hfi_tid_place(&c, pkt, (uint16_t)(tid.gen + fuzz_u8(f) % 2));
		FUZZ_CHECK(rc < 0 || (rc == (int)pkt->data.len && HFI_KDETH_TID(le32_get(pkt->hdr->kdeth)) == tid.idx));
		hfi_tid_free(&c, &tid, 1);
	}
	hfi_tid_fini(&c);
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};
	uint32_t len = fuzz_u16(&f) % (HFI_MTU + 16);
	struct hfi_hdr want = like(), h = header(&f, len);
	struct hfi_pkt pkt = {.hdr = &h, .data = {.len = len, .seg_cnt = 1}};
	uint8_t *payload = calloc(1, len + 1);
	struct hfi_door door;
	enum hfi_drop why;
	bool is_plain;

	lock_acquire(&lock);
	hfi_door_init(&door, &want);
	pkt.data.seg[0] = (struct view_seg){payload, len};
	is_plain = hfi_door_is_eager(&door, &h, hfi_hdr_len(&h), len);
	why = hfi_door_check(&door, &h, len, &pkt.type);
	FUZZ_CHECK(why <= HFI_DOOR_PASS);
	/* the short check is never the looser one */
	FUZZ_CHECK(!is_plain || (why == HFI_DOOR_PASS && pkt.type == HFI_RCV_EAGER));
	if (why == HFI_DOOR_PASS) {
		FUZZ_CHECK(len <= HFI_MTU && h.dest_rx == 5 && hfi_hdr_tx(&h) == 6 && le16_get(h.jkey) == 100 &&
			   le16_get(h.hcrc) == 200);
		FUZZ_CHECK(be16_get(h.slid) == 4 && be16_get(h.dlid) == 3);
		place(&f, &pkt);
	}
	lock_release(&lock);
	free(payload);
	return 0;
}
