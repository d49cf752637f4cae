// SPDX-License-Identifier: BSD-2-Clause
// What opx does with the packets of a hostile peer: one endpoint with all that a peer can name (receives, unfinished
// sends, reads, writes, atomics, regions), an honest peer and one whose packets are what the fuzzer likes. Each packet
// has passed the reliability, so it is in order.
#include "../unit/opx_world.h"
#include "fuzz.h"

#include <rdma/fi_atomic.h>

#include "base/mem.h"
#include "prov/opx/flow/opx_flow_int.h"

#define STEPS   64
#define BUF_MAX 70000u

struct play {
	struct world w;
	uint8_t *buf[STEPS];   /* of the calls, freed when their completion has come */
	bool is_open[STEPS];
	unsigned buf_cnt;
	uint32_t handle[8];    /* of what the victim waits for just now */
	unsigned handle_cnt;
	uint64_t at;           /* how much has arrived of one of them */
};

/* A completion belongs to a call that was accepted, and its memory is the caller's again: nobody may touch it. */
static void poll_all(struct play *p, int rounds)
{
	for (int i = 0; i < rounds * WORLD_EPS; i++) {
		struct fi_cq_err_entry err;
		uint8_t **ctx;

		if (!world_poll(&p->w, i % WORLD_EPS, (void **)&ctx, &err) || !ctx)
			continue;
		FUZZ_CHECK(ctx >= p->buf && ctx < p->buf + STEPS && p->is_open[ctx - p->buf]);
		p->is_open[ctx - p->buf] = false;
		free(*ctx);
		*ctx = NULL;
	}
}

/* --- what the victim and the others ask for ------------------------------------------------------------------- */

static ssize_t do_call(struct fuzz *f, struct play *p, int by, fi_addr_t to, size_t len)
{
	struct fid_ep *ep = p->w.ep[by];
	uint8_t what = fuzz_u8(f), *buf = p->buf[p->buf_cnt];
	struct iovec iov[2] = {{buf, len / 2}, {buf + len / 2, len - len / 2}};
	struct fi_msg m = {.msg_iov = iov, .iov_count = 2, .addr = to, .context = &p->buf[p->buf_cnt], .data = 5};
	void *ctx = &p->buf[p->buf_cnt];
	uint64_t at = what & 64 ? 100 : 0;

	switch (what % 12) {
	case 0: return fi_send(ep, buf, len, NULL, to, ctx);
	case 1: return fi_tsend(ep, buf, len, NULL, to, what & 16, ctx);
	case 2: return fi_recv(ep, buf, len, NULL, FI_ADDR_UNSPEC, ctx);
	case 3: return fi_trecv(ep, buf, len, NULL, to, what & 16, what & 32, ctx);
	case 4: return fi_sendmsg(ep, &m, what & 32 ? FI_DELIVERY_COMPLETE : FI_REMOTE_CQ_DATA);
	case 5: return fi_recvmsg(ep, &m, 0);
	case 6: return fi_write(ep, buf, len, NULL, to, at, WORLD_KEY, ctx);
	case 7: return fi_read(ep, buf, len, NULL, to, at, WORLD_KEY, ctx);
	case 8: return fi_writedata(ep, buf, len, NULL, 5, to, at, WORLD_KEY, ctx);
	case 9: return fi_atomic(ep, buf, len / 8 % 100, NULL, to, at, WORLD_KEY, FI_UINT64, FI_SUM, ctx);
	case 10:
		return fi_fetch_atomic(ep, buf, len / 16 % 100, NULL, buf + len / 2, NULL, to, at, WORLD_KEY, FI_INT32,
				       FI_MIN, ctx);
	default: return fi_read(ep, buf, len, NULL, to, at, WORLD_KEY_RO, ctx);
	}
}

static void call(struct fuzz *f, struct play *p)
{
	size_t len = fuzz_u8(f) % 4 ? fuzz_u16(f) % 9000 : 17 * fuzz_u16(f) % BUF_MAX;
	int by = fuzz_u8(f) % 4 ? 0 : fuzz_u8(f) % WORLD_EPS;
	fi_addr_t to = p->w.to[fuzz_u8(f) % 4 ? 1 : 2];
	ssize_t rc;

	p->buf[p->buf_cnt] = calloc(1, len + 1);
	p->is_open[p->buf_cnt] = true;
	rc = do_call(f, p, by, to, len);
	if (!rc) {
		p->buf_cnt++;
		return;
	}
	p->is_open[p->buf_cnt] = false;
	free(p->buf[p->buf_cnt]);
	p->buf[p->buf_cnt] = NULL;
}

/* --- packets ------------------------------------------------------------------------------------------------------ */

static void take_op(void *obj, void *arg)
{
	struct play *p = arg;

	if (p->handle_cnt < ARRAY_SIZE(p->handle))
		p->handle[p->handle_cnt++] = opx_op_handle(obj);
}

static void take_in(void *obj, void *arg)
{
	struct play *p = arg;
	struct opx_in *in = obj;

	if (p->handle_cnt < ARRAY_SIZE(p->handle))
		p->handle[p->handle_cnt++] = slab_id(&in->ep->in_slab, in);
	p->at = in->got;
}

static uint32_t handle(struct fuzz *f, struct play *p)
{
	uint8_t n = fuzz_u8(f);

	if (n < 200 && p->handle_cnt)
		return p->handle[n % p->handle_cnt];
	return n < 220 ? OPX_NO_HANDLE : n < 240 ? OPX_DATA_HANDLE : (uint32_t)fuzz_u64(f);
}

/* A length or an offset: near an end of something, or anything. */
static uint64_t number(struct fuzz *f, struct play *p)
{
	const uint64_t near[] = {0,	1,     64,    2048,	  WORLD_MR_LEN, 8192,
				 16384, 65535, p->at, UINT64_MAX, 1ull << 63,	UINT32_MAX};
	uint8_t n = fuzz_u8(f);

	return n == 255 ? fuzz_u64(f) : n & 128 ? fuzz_u16(f) : near[n % ARRAY_SIZE(near)] + (n >> 4 & 3) - 1;
}

static uint64_t key(struct fuzz *f)
{
	uint8_t n = fuzz_u8(f);

	return n < 200 ? WORLD_KEY : n < 240 ? WORLD_KEY_RO : fuzz_u64(f);
}

/* What a peer's memory looks like on the wire: pieces of @len bytes in all, most of the time. */
static uint32_t pieces(struct fuzz *f, struct play *p, uint8_t *out, uint64_t len)
{
	struct opx_piece piece[OPX_PIECES];
	uint32_t cnt = 1 + fuzz_u8(f) % OPX_PIECES;

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t part = i + 1 == cnt ? len : MIN(len, (uint64_t)fuzz_u16(f));

		len -= part;
		piece[i] = (struct opx_piece){.addr = le64_put((uintptr_t)p->w.mem), .len = le64_put(part),
					      .key = le32_put(fuzz_u8(f))};
	}
	if (fuzz_u8(f) == 0)
		piece[0].len = le64_put(fuzz_u64(f));
	memcpy(out, piece, cnt * sizeof(piece[0]));
	return cnt * (uint32_t)sizeof(piece[0]);
}

static uint32_t tids(struct fuzz *f, uint8_t *out, uint64_t len)
{
	struct opx_wire_tid t[4];
	uint32_t cnt = fuzz_u8(f) % 4 ? 1 : 1 + fuzz_u8(f) % 4;

	for (uint32_t i = 0; i < cnt; i++)
		t[i] = (struct opx_wire_tid){.idx = le16_put(fuzz_u16(f) % 1100), .len = le32_put((uint32_t)len)};
	if (cnt > 1 && fuzz_u8(f) % 2)
		t[0].len = le32_put(HFI_TID_BYTES);
	memcpy(out, t, cnt * sizeof(t[0]));
	return cnt * (uint32_t)sizeof(t[0]);
}

/* The fields as the opcode wants them. Return: bytes of payload, of which the first ones are at @payload. */
static uint32_t shape(struct fuzz *f, struct play *p, struct hfi_hdr *h, uint8_t payload[256])
{
	uint64_t n = number(f, p);
	uint32_t len = fuzz_u8(f) % 2 ? 0 : fuzz_u16(f) % 9000;

	switch (h->opcode & ~(h->opcode >= OPX_MSG_INJECT ? OPX_TAGGED_BIT : 0)) {
	case OPX_MSG_INJECT:
		h->bth1 = opx_inject_head(h->aux & OPX_AUX_LEN) == HFI_HDR_CUT ? HFI_BTH_CUT : 0;
		return 0;
	case OPX_MSG_EAGER:
		h->w[0] = le64_put(len);
		return len;
	case OPX_MSG_MP_EAGER_FIRST:
		h->w[0] = le64_put(n);
		return len;
	case OPX_MP_EAGER_NTH:
		h->w[0] = le64_put(n);
		h->w[1] = le64_put(fuzz_u8(f) % 4);
		return len;
	case OPX_MSG_RZV_RTS:
		h->w[0] = le64_put(n);
		h->w[1] = le64_put(handle(f, p) | (uint64_t)(fuzz_u8(f) & 3) << 32);
		return le64_get(h->w[1]) >> 32 & OPX_RTS_LOCAL ? pieces(f, p, payload, n) : 0;
	case OPX_RZV_CTS:
		h->tag = le64_put(n);
		if (h->aux % 4) {
			h->aux = OPX_SUB_GET;
			h->imm = le32_put(handle(f, p));
			h->w[0] = le64_put(number(f, p));
			h->w[1] = le64_put(key(f));
			return fuzz_u8(f) % 2 ? pieces(f, p, payload, n) : 0;
		}
		h->aux = OPX_SUB_RZV;
		h->w[0] = le64_put(handle(f, p));
		len = fuzz_u8(f) % 2 ? tids(f, payload, n) : 0;
		h->imm = le32_put(len / (uint32_t)sizeof(struct opx_wire_tid));
		return len;
	case OPX_RMA:
		h->aux = h->aux % 2 ? OPX_SUB_PUT_LOCAL : OPX_SUB_PUT_DATA;
		h->imm = le32_put(handle(f, p));
		h->w[0] = le64_put(number(f, p));
		h->w[1] = le64_put(key(f));
		h->tag = le64_put(n);
		memcpy(payload, &h->imm, 4);
		return h->aux == OPX_SUB_PUT_LOCAL ? pieces(f, p, payload, n) : 4;
	case OPX_ATOMIC:
		h->aux %= 4;
		h->imm = le32_put(handle(f, p));
		h->w[0] = le64_put(number(f, p));
		h->w[1] = le64_put(key(f));
		h->tag = le64_put(fuzz_u8(f) % 24 | (fuzz_u8(f) % 24) << 8 | (1 + fuzz_u8(f)) << 16);
		return (uint32_t)((1 + (fuzz_u8(f) & 1)) * (le64_get(h->tag) >> 16) << fuzz_u8(f) % 6) % HFI_MTU;
	case OPX_DONE:
		h->w[0] = le64_put(handle(f, p));
		h->w[1] = le64_put(fuzz_u8(f) % 9);
		return 0;
	default: /* OPX_RZV_DATA */
		h->aux %= 5;
		h->imm = le32_put(handle(f, p));
		h->w[0] = le64_put(n);
		h->tag = le64_put(fuzz_u8(f) % 2 ? n + len : number(f, p));
		h->w[1] = le64_put(h->aux == OPX_SUB_PUT ? key(f) : handle(f, p) | (uint64_t)(fuzz_u8(f) % 4) << 32);
		return len;
	}
}

/* The payload in pieces on the heap, where a sanitizer sees every end. */
static void cut(struct view *v, const uint8_t *first, uint32_t first_len, uint32_t len, uint32_t at, void *mem[2])
{
	const uint32_t part[2] = {MIN(at, len), len - MIN(at, len)};
	uint8_t *whole = calloc(1, len + 1);

	memcpy(whole, first, MIN(first_len, len));
	*v = (struct view){.len = len};
	for (int i = 0; i < 2; i++) {
		if (!part[i])
			continue;
		mem[i] = malloc(part[i]);
		memcpy(mem[i], whole + (i ? part[0] : 0), part[i]);
		v->seg[v->seg_cnt++] = (struct view_seg){mem[i], part[i]};
	}
	free(whole);
}

static void forge(struct fuzz *f, struct play *p)
{
	static const uint8_t ops[] = {OPX_RZV_CTS,	OPX_RZV_DATA,
				      OPX_RZV_DATA,	OPX_RMA,
				      OPX_ATOMIC,	OPX_DONE,
				      OPX_MP_EAGER_NTH, OPX_MSG_INJECT,
				      OPX_MSG_EAGER,	OPX_MSG_MP_EAGER_FIRST,
				      OPX_MSG_RZV_RTS,	OPX_TAG_INJECT,
				      OPX_TAG_EAGER,	OPX_TAG_MP_EAGER_FIRST,
				      OPX_TAG_RZV_RTS};
	struct opx_ep *ep = world_ep(&p->w, 0);
	uint8_t payload[256] = {0}, how = fuzz_u8(f), opcode = ops[fuzz_u8(f) % ARRAY_SIZE(ops)], aux = fuzz_u8(f);
	struct hfi_hdr h = world_hdr(&p->w, opcode, aux, (uint32_t)fuzz_u64(f));
	void *mem[2] = {NULL};
	struct view data;
	uint32_t len;

	p->handle_cnt = 0;
	slab_foreach(&ep->op_slab, take_op, p);
	slab_foreach(&ep->in_slab, take_in, p);
	h.psn_tx = le32_put(fuzz_u8(f) % 4);
	h.tag = le64_put(fuzz_u8(f) & 16);
	fuzz_get(f, h.w, 16);
	len = shape(f, p, &h, payload);
	if (how & 1)
		h.kdeth = le32_put((uint32_t)(fuzz_u8(f) % 4) << 16 | fuzz_u8(f) | HFI_KDETH_CTRL | HFI_KVER);
	if (how > 250)
		((uint8_t *)&h)[fuzz_u8(f) % sizeof(h)] = fuzz_u8(f);
	cut(&data, payload, sizeof(payload), len, how & 2 ? fuzz_u16(f) : UINT32_MAX, mem);
	if (h.opcode != OPX_UD)
		world_take(&p->w, &h, &data, how & 1 ? HFI_RCV_EXPECTED : HFI_RCV_EAGER);
	free(mem[0]);
	free(mem[1]);
}

/*
 * ---------------------------------------------------------------------------------------------------------------------
 */

static void mr_close(struct fuzz *f, struct play *p)
{
	unsigned i = fuzz_u8(f) % 2;

	if (fuzz_u8(f) % 4 || !p->w.mr[i])
		return;
	FUZZ_CHECK(!fi_close(&p->w.mr[i]->fid));
	p->w.mr[i] = NULL;
	if (p->w.mr[!i])
		return;
	free(p->w.mem); /* nothing of ours touches it any more */
	p->w.mem = NULL;
}

/*
 * The reliability says that the flow of the one with the bad packets has ended; its packets may go on with another one.
 */
static void peer_end(struct fuzz *f, struct play *p)
{
	struct opx_ep *ep = world_ep(&p->w, 0);

	if (fuzz_u8(f) % 4)
		return;
	lock_acquire(&ep->domain->kit.lock);
	opx_flow_doom(&world_peer(&p->w, 1)->flow, OPX_ST_PEER_SILENT);
	lock_release(&ep->domain->kit.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct play *p = calloc(1, sizeof(*p));
	struct fuzz f = {data, size};

	world_open(&p->w, fuzz_u8(&f));
	for (int i = 0; i < STEPS && f.left; i++) {
		uint8_t byte = fuzz_u8(&f), what = byte % 16;

		mem_fail_nth(byte >> 4 == 15 ? 1 + i % 3 : 0); /* now and then memory is short */
		if (what < 4)
			call(&f, p);
		else if (what < 6)
			poll_all(p, 1 + fuzz_u8(&f) % 4);
		else if (what == 6)
			mr_close(&f, p);
		else if (what == 7)
			peer_end(&f, p);
		else
			forge(&f, p);
	}
	mem_fail_nth(0);
	poll_all(p, 50);
	world_close(&p->w);
	for (unsigned i = 0; i < p->buf_cnt; i++)
		free(p->buf[i]);
	free(p);
	return 0;
}
