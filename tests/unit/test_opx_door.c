// SPDX-License-Identifier: BSD-2-Clause
// Packets that no honest peer of opx sends: each is counted, or answered with an error, and touches nothing of others.
#include <string.h>

#include <rdma/fi_atomic.h>

#include "base/clock.h"
#include "kit/atomic.h"
#include "opx_world.h"
#include "prov/opx/flow/opx_flow_int.h"

#define LEN   70000u      /* goes by rendezvous, whose data wait for CTS */
#define LARGE (1u << 20)  /* fills the window of a flow */

static struct world w;

static uint64_t end_ns(void)
{
	return clk_now_ns(NULL) + 20 * NS_PER_SEC * unit_slow();
}

/* What the victim has counted as wrong so far. */
static uint64_t counted(void)
{
	return world_ep(&w, 0)->stats.rx_malformed + world_ep(&w, 0)->stats.rx_stale;
}

static bool take(const struct hfi_hdr *h, const void *data, uint32_t len)
{
	struct view v = view_of(data, len);

	return world_take(&w, h, &v, HFI_RCV_EAGER);
}

static void must_count(const struct hfi_hdr *h, const void *data, uint32_t len)
{
	uint64_t before = counted();

	assert_true(take(h, data, len));
	assert_int_equal(counted(), before + 1);
}

/* It is counted, and its sender is answered, so that it does not wait for nothing. */
static void must_answer(const struct hfi_hdr *h, const void *data, uint32_t len)
{
	uint64_t end = end_ns(), before = world_ep(&w, 1)->stats.done_late;

	must_count(h, data, len);
	while (world_ep(&w, 1)->stats.done_late == before && clk_now_ns(NULL) < end)
		world_run(&w, 1);
	assert_int_equal(world_ep(&w, 1)->stats.done_late, before + 1);
}

/* --- what the victim waits for ------------------------------------------------------------------- */

struct find {
	const void *context;
	struct opx_op *op;
	uint32_t src;
	struct opx_in *in;
};

static void look_op(void *obj, void *arg)
{
	struct find *f = arg;
	struct opx_op *op = obj;

	if (op->context == f->context)
		f->op = op;
}

static struct opx_op *op_of(const void *context)
{
	struct find f = {.context = context};

	slab_foreach(&world_ep(&w, 0)->op_slab, look_op, &f);
	assert_non_null(f.op);
	return f.op;
}

static void look_in(void *obj, void *arg)
{
	struct find *f = arg;
	struct opx_in *in = obj;

	if (in->peer->uid == f->src)
		f->in = in;
}

/* The message that comes from endpoint @from. NULL: none does. */
static struct opx_in *in_of(int from)
{
	struct find f = {.src = world_peer(&w, from)->uid};

	slab_foreach(&world_ep(&w, 0)->in_slab, look_in, &f);
	return f.in;
}

/* A rendezvous from endpoint @from to the victim's @buf: it has asked for the data, which do not come. */
static struct opx_in *await(int from, uint8_t *buf, const uint8_t *src)
{
	uint64_t end = end_ns();

	assert_int_equal(fi_trecv(w.ep[0], buf, LEN, NULL, w.to[from], (uint64_t)from, 0, buf), 0);
	assert_int_equal(fi_tsend(w.ep[from], src, LEN, NULL, w.to[0], (uint64_t)from, (void *)(uintptr_t)src), 0);
	fi_cq_read(w.cq[from], NULL, 0); /* what waits for company leaves; nothing has been answered yet */
	while (!in_of(from) && clk_now_ns(NULL) < end)
		fi_cq_read(w.cq[0], NULL, 0);
	assert_non_null(in_of(from));
	return in_of(from);
}

/* Until the victim reports the end of @context. Return: 1, or -1 with *@err. */
static int finish(const void *context, struct fi_cq_err_entry *err)
{
	uint64_t end = end_ns();

	while (clk_now_ns(NULL) < end) {
		void *ctx;
		int rc = world_poll(&w, 0, &ctx, err);

		if (rc && ctx == context)
			return rc;
		assert_int_equal(rc, 0);
		world_run(&w, 1);
	}
	fail();
	return 0;
}

/* --- rendezvous and expected receive ------------------------------------------------------------- */

static void cts__second_one(void **state)
{
	static uint8_t mem[2][LARGE];
	struct opx_wire_tid tid = {.idx = le16_put(1), .len = le32_put(LARGE)};
	struct hfi_hdr h;
	const struct hfi_tid *tids;

	(void)state;
	world_open(&w, WORLD_UDP);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_send(w.ep[0], mem[i], LARGE, NULL, w.to[1], mem[i]), 0);
	for (int i = 0; i < 2; i++) { /* the first leaves no room for the second */
		h = world_hdr(&w, OPX_RZV_CTS, OPX_SUB_RZV, 1);
		h.w[0] = le64_put(opx_op_handle(op_of(mem[i])));
		h.tag = le64_put(LARGE);
		assert_true(take(&h, &tid, sizeof(tid)));
	}
	assert_true(!op_of(mem[1])->sent && op_of(mem[1])->in_pump);
	tids = op_of(mem[1])->tids;
	must_count(&h, &tid, sizeof(tid));
	assert_ptr_equal(op_of(mem[1])->tids, tids);
	h.tag = le64_put(LARGE + 1);
	must_count(&h, &tid, sizeof(tid));
	world_close(&w);
}

/* A peer that knows one entry can guess the next one. */
static void expected__entry_of_another(void **state)
{
	static uint8_t buf[2][LEN], src[2][LEN];
	struct fi_cq_err_entry err;
	struct opx_in *mine, *other;
	uint8_t evil[64];
	struct view v = view_of(evil, sizeof(evil));
	struct hfi_hdr h;
	(void)state;
	memset(evil, 0xee, sizeof(evil));
	world_open(&w, WORLD_UDP | WORLD_TID);
	memset(buf, 0, sizeof(buf));
	mine = await(1, buf[0], src[0]);
	other = await(2, buf[1], src[1]);
	assert_true(mine->tid_cnt == 1 && other->tid_cnt == 1);
	h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_RZV, 0);
	h.w[1] = le64_put(slab_id(&mine->ep->in_slab, mine) | (uint64_t)other->tids[0].gen << 32);
	h.kdeth = le32_put((uint32_t)other->tids[0].idx << 16 | HFI_KDETH_CTRL | HFI_KVER);
	assert_true(world_take(&w, &h, &v, HFI_RCV_EXPECTED));
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(buf[1][i], 0);
	assert_int_equal(finish(buf[0], &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_RANGE);
	assert_int_equal(finish(buf[1], &err), 1);
	world_close(&w);
}

/* The right entry, but not where the header says. */
static void expected__elsewhere_in_entry(void **state)
{
	static uint8_t buf[LEN], src[LEN];
	struct fi_cq_err_entry err;
	struct opx_in *in;
	uint8_t evil[64];
	struct view v = view_of(evil, sizeof(evil));
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP | WORLD_TID);
	memset(evil, 0xee, sizeof(evil));
	in = await(1, buf, src);
	h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_RZV, 0);
	h.w[1] = le64_put(slab_id(&in->ep->in_slab, in) | (uint64_t)in->tids[0].gen << 32);
	assert_int_equal(hfi_tid_hdr(&h, &in->tids[0], LEN - 32), 0); /* half of it beyond the end */
	assert_true(world_take(&w, &h, &v, HFI_RCV_EXPECTED));
	assert_int_equal(finish(buf, &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_RANGE);
	world_close(&w);
}

/* Data come in order: what leaves a gap, or comes again, is no data. */
static void rzv__gap_and_overlap(void **state)
{
	static uint8_t buf[LEN], src[LEN], bytes[1000];
	static const uint64_t off[] = {0, 1001, 999, LEN, LEN - 10, UINT64_MAX - 1000};
	struct fi_cq_err_entry err;
	struct opx_in *in;
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	in = await(1, buf, src);
	h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_RZV, 0);
	h.w[1] = le64_put(slab_id(&in->ep->in_slab, in));
	assert_true(take(&h, bytes, sizeof(bytes)));
	assert_int_equal(in->got, 1000);
	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		h.w[0] = le64_put(off[i]);
		must_count(&h, bytes, sizeof(bytes));
		assert_int_equal(in->got, 1000);
	}
	h.w[0] = le64_put(1000);
	h.w[1] = le64_put(slab_id(&in->ep->in_slab, in) ^ 0x10000); /* of an earlier message */
	must_count(&h, bytes, sizeof(bytes));
	for (uint64_t at = 1000; at < LEN; at += 1000) {
		h.w[0] = le64_put(at);
		h.w[1] = le64_put(slab_id(&in->ep->in_slab, in));
		assert_true(take(&h, bytes, sizeof(bytes)));
	}
	assert_int_equal(finish(buf, &err), 1);
	world_close(&w);
}

/* Memory of a process is read by those of its host. */
static void rts__pieces_from_far(void **state)
{
	struct opx_piece piece = {.len = le64_put(LEN)};
	static uint8_t buf[LEN];
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	assert_int_equal(fi_recv(w.ep[0], buf, LEN, NULL, FI_ADDR_UNSPEC, buf), 0);
	h = world_hdr(&w, OPX_MSG_RZV_RTS, 0, 0);
	h.w[0] = le64_put(LEN);
	h.w[1] = le64_put((uint64_t)(OPX_RTS_LOCAL | OPX_RTS_DONE) << 32);
	must_answer(&h, &piece, sizeof(piece));
	h = world_hdr(&w, OPX_RZV_CTS, OPX_SUB_GET, 12345);
	h.w[1] = le64_put(WORLD_KEY);
	h.tag = le64_put(64);
	piece.len = le64_put(64);
	must_answer(&h, &piece, sizeof(piece));
	h.opcode = OPX_RMA;
	h.aux = OPX_SUB_PUT_LOCAL;
	must_answer(&h, &piece, sizeof(piece));
	world_close(&w);
}

static void rts__pieces_that_lie(void **state)
{
	static const uint64_t len[][2] = {{LEN - 1, 0}, {LEN, 1}, {UINT64_MAX, LEN + 1}};
	struct opx_piece piece[2] = {{.key = le32_put(1)}, {.key = le32_put(1)}};
	static uint8_t buf[LEN];
	struct hfi_hdr h;

	(void)state;
	world_open(&w, 0);
	assert_int_equal(fi_recv(w.ep[0], buf, LEN, NULL, FI_ADDR_UNSPEC, buf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		h = world_hdr(&w, OPX_MSG_RZV_RTS, 0, 0);
		h.w[0] = le64_put(LEN);
		h.w[1] = le64_put((uint64_t)(OPX_RTS_LOCAL | OPX_RTS_DONE) << 32);
		piece[0].len = le64_put(len[i][0]);
		piece[1].len = le64_put(len[i][1]);
		must_answer(&h, piece, sizeof(piece));
	}
	world_close(&w);
}

/* A receiver without memory says so also where its sender waits for CTS. */
static void rts__refused_instead_of_cts(void **state)
{
	static uint8_t mem[LARGE];
	struct fi_cq_err_entry err;
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	assert_int_equal(fi_send(w.ep[0], mem, LARGE, NULL, w.to[1], mem), 0);
	h = world_hdr(&w, OPX_DONE, 0, 0);
	h.w[0] = le64_put(opx_op_handle(op_of(mem)));
	must_count(&h, NULL, 0); /* success without data there is none */
	h.w[1] = le64_put(OPX_ST_NOMEM);
	assert_true(take(&h, NULL, 0));
	assert_int_equal(finish(mem, &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_NOMEM);
	world_close(&w);
}

/* A receiver without memory for the message itself: the sender's operation ends with that, whatever it waits for. */
static void rts__receiver_without_memory(void **state)
{
	static uint8_t mem[LARGE];
	struct fi_cq_err_entry err;
	struct opx_ep *ep;

	(void)state;
	for (int udp = 0; udp < 2; udp++) {
		world_open(&w, udp ? WORLD_UDP : 0);
		ep = world_ep(&w, 1);
		slab_fini(&ep->in_slab);
		assert_int_equal(slab_init(&ep->in_slab, sizeof(struct opx_in), CACHE_LINE, 1, 1), 0);
		assert_non_null(slab_get(&ep->in_slab)); /* all there is */
		assert_int_equal(fi_send(w.ep[0], mem, LARGE, NULL, w.to[1], mem), 0);
		assert_int_equal(finish(mem, &err), -1);
		assert_int_equal(err.prov_errno, OPX_ST_NOMEM);
		world_close(&w);
	}
}

/* --- multi-packet eager -------------------------------------------------------------------------- */

static void mp__gap_and_overlap(void **state)
{
	static const uint64_t off[] = {0, 49, 51, 90, 100, UINT64_MAX - 60};
	uint8_t bytes[50], buf[100];
	struct fi_cq_err_entry err;
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	memset(bytes, 1, sizeof(bytes));
	h = world_hdr(&w, OPX_MSG_MP_EAGER_FIRST, 0, 0);
	h.w[0] = le64_put(OPX_MP_MAX + 1ull);
	must_count(&h, bytes, sizeof(bytes));
	h.w[0] = le64_put(sizeof(buf));
	h.psn_tx = le32_put(77);
	assert_true(take(&h, bytes, sizeof(bytes)));
	assert_int_equal(world_peer(&w, 1)->flow.waits, 1); /* a sender that stops here is noticed */
	h = world_hdr(&w, OPX_MP_EAGER_NTH, 0, 0);
	h.w[1] = le64_put(77);
	memset(bytes, 2, sizeof(bytes));
	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		h.w[0] = le64_put(off[i]);
		must_count(&h, bytes, sizeof(bytes));
	}
	h.w[0] = le64_put(50), h.w[1] = le64_put(78);
	must_count(&h, bytes, sizeof(bytes));
	h.w[1] = le64_put(77);
	assert_true(take(&h, bytes, sizeof(bytes)) && !world_peer(&w, 1)->flow.waits);
	assert_int_equal(fi_recv(w.ep[0], buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, buf), 0);
	assert_int_equal(finish(buf, &err), 1);
	assert_true(buf[49] == 1 && buf[50] == 2 && buf[99] == 2);
	world_close(&w);
}

/* --- one-sided ----------------------------------------------------------------------------------- */

/* Endpoint 1 has sent the victim something that nobody waits for. */
static void did_send_silently(void)
{
	struct opx_ep *ep = world_ep(&w, 1);

	lock_acquire(&ep->domain->kit.lock);
	opx_peer_find(ep, w.to[0])->silent++;
	lock_release(&ep->domain->kit.lock);
}

/* Every request that is refused is answered: the initiator hears of it. */
static void must_refuse(const struct hfi_hdr *h, const void *data, uint32_t len, enum opx_status why)
{
	const struct kit_ep *ep = &world_ep(&w, 1)->kit;
	uint64_t end = end_ns(), before = world_ep(&w, 1)->stats.rma_refused;
	uint32_t late = ep->late_cnt;
	struct fi_cq_err_entry err;
	void *ctx;

	did_send_silently();
	assert_true(take(h, data, len));
	while (ep->late_cnt == late && clk_now_ns(NULL) < end) {
		assert_int_equal(world_poll(&w, 1, &ctx, &err), 0); /* no completion can name it */
		fi_cq_read(w.cq[0], NULL, 0);
	}
	assert_int_equal(ep->late_cnt, late + 1);
	assert_int_equal(ep->late_errno, why);
	assert_int_equal(world_ep(&w, 1)->stats.rma_refused, before + 1);
	for (size_t i = 0; i < WORLD_MR_LEN; i++)
		assert_int_equal(w.mem[i], 0);
}

struct place {
	uint64_t key, off, len;
	enum opx_status why;
};
static const struct place bad_place[] = {
	{WORLD_KEY + 100, 0, 8, OPX_ST_KEY},
	{UINT64_MAX, 0, 8, OPX_ST_KEY},
	{WORLD_KEY, WORLD_MR_LEN - 7, 8, OPX_ST_RANGE},
	{WORLD_KEY, WORLD_MR_LEN, 8, OPX_ST_RANGE},
	{WORLD_KEY, UINT64_MAX - 8, 8, OPX_ST_RANGE},
	{WORLD_KEY_RO, 0, 8, OPX_ST_ACCESS},
};

static void rma__bad_place(void **state)
{
	uint8_t bytes[8];
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	memset(bytes, 0xee, sizeof(bytes));
	for (size_t i = 0; i < ARRAY_SIZE(bad_place); i++) {
		const struct place *p = &bad_place[i];

		h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_PUT, OPX_NO_HANDLE);
		h.w[0] = le64_put(p->off);
		h.w[1] = le64_put(p->key);
		h.tag = le64_put(p->off + p->len);
		must_refuse(&h, bytes, 8, p->why);
		h.opcode = OPX_ATOMIC;
		h.aux = KIT_ATOMIC_BASE;
		h.tag = le64_put(FI_UINT64 | FI_ATOMIC_WRITE << 8 | 1 << 16);
		must_refuse(&h, bytes, 8, p->why);
		h.opcode = OPX_RMA;
		h.aux = OPX_SUB_PUT_DATA;
		h.tag = le64_put(p->len);
		memset(bytes, 0xff, sizeof(bytes)); /* the handle */
		must_refuse(&h, bytes, 4, p->why);
		if (p->why == OPX_ST_ACCESS)
			continue; /* it may be read */
		h = world_hdr(&w, OPX_RZV_CTS, OPX_SUB_GET, OPX_NO_HANDLE);
		h.w[0] = le64_put(p->off);
		h.w[1] = le64_put(p->key);
		h.tag = le64_put(p->len);
		must_refuse(&h, NULL, 0, p->why);
		h.tag = le64_put(UINT64_MAX); /* all there is */
		must_refuse(&h, NULL, 0, p->why);
	}
	world_close(&w);
}

static void atomic__nonsense(void **state)
{
	static const struct {
		uint64_t dt, op, cnt;
		uint8_t kind;
		uint32_t len;
	} bad[] = {
		{FI_UINT64, FI_SUM, 2, KIT_ATOMIC_BASE, 8},        /* fewer operands than elements */
		{FI_UINT64, FI_SUM, 1, KIT_ATOMIC_BASE, 16},       /* more */
		{FI_UINT64, FI_SUM, 1, KIT_ATOMIC_BASE, 7},
		{FI_UINT64, FI_CSWAP, 1, KIT_ATOMIC_COMPARE, 8},   /* no compare operand */
		{FI_UINT64, FI_CSWAP, 1, KIT_ATOMIC_BASE, 8},
		{FI_UINT64, FI_ATOMIC_READ, 1, KIT_ATOMIC_FETCH, 8}, /* an operand too many */
		{FI_UINT64, FI_ATOMIC_READ, 65535, KIT_ATOMIC_FETCH, 0}, /* a result too long */
		{FI_UINT8, FI_ATOMIC_READ, HFI_MTU + 1, KIT_ATOMIC_FETCH, 0},
		{FI_DOUBLE_COMPLEX, FI_MIN, 1, KIT_ATOMIC_BASE, 16},
		{14, FI_SUM, 1, KIT_ATOMIC_BASE, 16},
		{255, FI_SUM, 1, KIT_ATOMIC_BASE, 8},
		{FI_UINT64, 255, 1, KIT_ATOMIC_BASE, 8},
		{FI_UINT64, FI_SUM, 1, 3, 8},
		{FI_UINT64, FI_SUM, 1, 255, 8},
	};
	uint8_t bytes[16] = {1};
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		h = world_hdr(&w, OPX_ATOMIC, bad[i].kind, OPX_NO_HANDLE);
		h.w[1] = le64_put(WORLD_KEY);
		h.tag = le64_put(bad[i].dt | bad[i].op << 8 | bad[i].cnt << 16);
		must_refuse(&h, bytes, bad[i].len, OPX_ST_ATOMIC);
	}
	world_close(&w);
}

/* Nothing happens where the old values could not be sent back. */
static void atomic__result_beyond_mtu(void **state)
{
	struct hfi_hdr h;

	(void)state;
	setenv("SOFTFABRIC_OPX", "units=1;mtu=2048", 1);
	world_open(&w, WORLD_UDP);
	h = world_hdr(&w, OPX_ATOMIC, KIT_ATOMIC_FETCH, OPX_NO_HANDLE);
	h.w[1] = le64_put(WORLD_KEY);
	h.tag = le64_put(FI_UINT64 | FI_ATOMIC_READ << 8 | (2048 / 8 + 1) << 16);
	must_refuse(&h, NULL, 0, OPX_ST_ATOMIC);
	world_close(&w);
	setenv("SOFTFABRIC_OPX", "units=1", 1);
}

/* --- answers to what was never asked ------------------------------------------------------------- */

/*
 * Operations of the victim with endpoint 2 are none of endpoint 1's business, and those with itself end once and as
 * what they are.
 */
static void answer__not_asked_for(void **state)
{
	static uint8_t mem[2][256], bytes[512];
	struct hfi_hdr h;

	(void)state;
	world_open(&w, WORLD_UDP);
	assert_int_equal(fi_read(w.ep[0], mem[0], 100, NULL, w.to[2], 0, WORLD_KEY, mem[0]), 0);
	assert_int_equal(fi_read(w.ep[0], mem[1], 100, NULL, w.to[1], 0, WORLD_KEY, mem[1]), 0);
	memset(bytes, 0xee, sizeof(bytes));
	for (int i = 0; i < 2; i++) {
		uint64_t handle = opx_op_handle(op_of(mem[i]));

		h = world_hdr(&w, OPX_RZV_CTS, OPX_SUB_RZV, 0); /* not a send */
		h.w[0] = le64_put(handle);
		must_count(&h, NULL, 0);
		h = world_hdr(&w, OPX_RZV_DATA, OPX_SUB_FETCH, 0); /* not an atomic */
		h.w[1] = le64_put(handle);
		must_count(&h, bytes, 100);
		h.aux = OPX_SUB_GET;
		h.tag = le64_put(512);
		must_count(&h, bytes, 101); /* more than was asked for; or of another */
		h.w[0] = le64_put(1);
		must_count(&h, bytes, 50);
		h.w[0] = le64_put(UINT64_MAX - 101);
		must_count(&h, bytes, 50);
		h.w[0] = le64_put(0);
		h.w[1] = le64_put(handle ^ 0x10000);
		must_count(&h, bytes, 100); /* of an earlier one */
	}
	h = world_hdr(&w, OPX_DONE, 0, 0);
	h.w[0] = le64_put(opx_op_handle(op_of(mem[0])));
	must_count(&h, NULL, 0);
	for (size_t i = 0; i < sizeof(mem[0]); i++)
		assert_true(!mem[0][i] && !mem[1][i]);
	world_close(&w);
}

/* The memory of a write that is refused while SDMA packets refer to it is not the caller's before they are gone. */
static void refused__while_packets_refer(void **state)
{
	struct opx_rel *rel;
	struct fi_cq_err_entry err;
	uint8_t *mem = calloc(1, LARGE);
	struct hfi_hdr h;
	struct opx_op *op;

	(void)state;
	world_open(&w, WORLD_UDP);
	rel = world_ep(&w, 0)->rel;
	assert_int_equal(fi_write(w.ep[0], mem, LARGE, NULL, w.to[1], 0, WORLD_KEY, mem), 0);
	op = op_of(mem);
	assert_true(op->is_ref && op->refs);
	h = world_hdr(&w, OPX_DONE, 0, 0);
	h.w[0] = le64_put(opx_op_handle(op));
	h.w[1] = le64_put(OPX_ST_KEY);
	assert_true(take(&h, NULL, 0));
	assert_true(rel->refs);
	assert_null(world_ep(&w, 0)->kit.tx_cq->err_head);
	assert_int_equal(finish(mem, &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_KEY);
	assert_int_equal(rel->refs, 0);
	free(mem);
	world_close(&w);
}

/* --- copies within the host, and ends ------------------------------------------------------------ */

/* A piece of endpoint 1's memory that the victim may read: of a message that is on its way. */
static struct opx_piece exposed(const uint8_t *mem)
{
	struct find f = {.context = mem};

	assert_int_equal(fi_tsend(w.ep[1], mem, LEN, NULL, w.to[0], 9, (void *)(uintptr_t)mem), 0);
	slab_foreach(&world_ep(&w, 1)->op_slab, look_op, &f);
	assert_true(f.op && f.op->key_cnt == 1);
	return (struct opx_piece){le64_put((uintptr_t)mem), le64_put(LEN), le32_put(f.op->keys[0]), le32_put(0)};
}

/* The reliability says that endpoint 1 is gone. */
static void end_of_peer(void)
{
	struct opx_ep *ep = world_ep(&w, 0);

	lock_acquire(&ep->domain->kit.lock);
	opx_peer_rel_ops.dead(ep, &world_peer(&w, 1)->flow, OPX_ST_PEER_SILENT);
	lock_release(&ep->domain->kit.lock);
}

/* The receive buffer is its owner's again when nobody writes to it any more. */
static void dead__while_copy_writes(void **state)
{
	static uint8_t buf[LEN], src[LEN];
	struct fi_cq_err_entry err;
	struct opx_piece piece;
	struct opx_in *in;
	struct hfi_hdr h;
	uint32_t id;

	(void)state;
	world_open(&w, 0);
	piece = exposed(src);
	assert_int_equal(fi_recv(w.ep[0], buf, LEN, NULL, FI_ADDR_UNSPEC, buf), 0);
	h = world_hdr(&w, OPX_MSG_RZV_RTS, 0, 0);
	h.w[0] = le64_put(LEN);
	h.w[1] = le64_put((uint64_t)OPX_RTS_LOCAL << 32);
	assert_true(take(&h, &piece, sizeof(piece)));
	in = in_of(1);
	assert_true(in && in->is_copying && in->cp.inflight);
	id = slab_id(&in->ep->in_slab, in);
	end_of_peer();
	end_of_peer();
	assert_null(world_ep(&w, 0)->kit.rx_cq->err_head);
	assert_ptr_equal(slab_find(&world_ep(&w, 0)->in_slab, id), in);
	assert_int_equal(finish(buf, &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_PEER_SILENT);
	assert_null(slab_find(&world_ep(&w, 0)->in_slab, id));
	world_close(&w);
}

/* The announcement of CQ data does not make a write of one whose bytes could not be fetched. */
static void put_data__of_failed_copy(void **state)
{
	struct opx_piece piece = {.len = le64_put(WORLD_MR_LEN / 2), .key = le32_put(12345)};
	uint64_t end = end_ns();
	uint8_t handle[4];
	struct hfi_hdr h;
	struct opx_op *op;

	(void)state;
	world_open(&w, 0);
	memset(handle, 0xff, sizeof(handle));
	h = world_hdr(&w, OPX_RMA, OPX_SUB_PUT_LOCAL, OPX_DATA_HANDLE);
	h.w[1] = le64_put(WORLD_KEY);
	h.tag = le64_put(WORLD_MR_LEN / 2);
	assert_true(take(&h, &piece, sizeof(piece)));
	op = op_of(NULL);
	while (op->is_copying && clk_now_ns(NULL) < end)
		world_run(&w, 1);
	assert_false(op->is_copying);
	h.aux = OPX_SUB_PUT_DATA;
	must_refuse(&h, handle, sizeof(handle), OPX_ST_GONE);
	assert_int_equal(fi_cq_read(w.cq[0], &(struct fi_cq_tagged_entry){0}, 1), -FI_EAGAIN);
	world_close(&w);
}

static void look_serve(void *obj, void *arg)
{
	*(bool *)arg |= ((struct opx_op *)obj)->kind == OPX_OP_SERVE;
}

static bool serves(void)
{
	bool is_there = false;

	slab_foreach(&world_ep(&w, 0)->op_slab, look_serve, &is_there);
	return is_there;
}

/* A region is its owner's again when it is closed, whoever still wrote to it. */
static void region__closed_while_copy_writes(void **state)
{
	static uint8_t src[LEN], mem[LEN];
	struct opx_piece piece;
	struct fid_mr *mr;
	struct hfi_hdr h;

	(void)state;
	world_open(&w, 0);
	assert_int_equal(fi_mr_reg(w.domain, mem, LEN, FI_REMOTE_WRITE, 0, WORLD_KEY + 9, 0, &mr, NULL), 0);
	piece = exposed(src);
	h = world_hdr(&w, OPX_RMA, OPX_SUB_PUT_LOCAL, OPX_NO_HANDLE);
	h.w[1] = le64_put(WORLD_KEY + 9);
	h.tag = le64_put(LEN);
	assert_true(take(&h, &piece, sizeof(piece)));
	assert_true(serves());
	end_of_peer();
	assert_true(serves()); /* the copy is not over because its initiator is */
	assert_int_equal(fi_close(&mr->fid), 0);
	assert_false(serves());
	world_close(&w);
}

/* --- refusals that nobody waits for -------------------------------------------------------------- */

/* They are errors without a context in the queue: no more of them than what was sent. */
static void refused__nothing_was_asked(void **state)
{
	struct fi_cq_err_entry err;
	struct hfi_hdr h;
	unsigned sent;
	void *ctx;

	(void)state;
	world_open(&w, WORLD_UDP);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fi_inject_write(w.ep[0], "", 1, w.to[1], 0, WORLD_KEY), 0);
	sent = (unsigned)world_peer(&w, 1)->silent;
	assert_true(sent >= 2 && sent < 20);
	h = world_hdr(&w, OPX_DONE, 0, 0);
	h.w[0] = le64_put(OPX_NO_HANDLE);
	must_count(&h, NULL, 0); /* no refusal at all */
	h.w[1] = le64_put(OPX_ST_KEY);
	for (unsigned i = 0; i < sent; i++)
		assert_true(take(&h, NULL, 0));
	must_count(&h, NULL, 0);
	assert_int_equal(world_poll(&w, 0, &ctx, &err), 0); /* no completion can name them */
	assert_int_equal(world_ep(&w, 0)->kit.late_cnt, sent);
	world_close(&w);
}

/* One write, one error, however many packets it has. */
static void refused__silent_write_of_many_packets(void **state)
{
	static uint8_t mem[40000];
	struct iovec iov = {mem, sizeof(mem)};
	struct fi_rma_iov at = {.len = sizeof(mem), .key = WORLD_KEY + 100};
	struct fi_msg_rma m = {.msg_iov = &iov, .iov_count = 1, .rma_iov = &at, .rma_iov_count = 1, .context = mem};
	struct fi_cq_err_entry err;
	void *ctx;

	(void)state;
	world_open(&w, WORLD_UDP);
	world_ep(&w, 0)->kit.tx_selective = true;
	m.addr = w.to[1];
	assert_int_equal(fi_writemsg(w.ep[0], &m, 0), 0);
	assert_int_equal(finish(mem, &err), -1);
	assert_int_equal(err.prov_errno, OPX_ST_KEY);
	for (int i = 0; i < 1000 * (int)unit_slow() || !opx_rel_drained(world_ep(&w, 1)->rel); i++)
		world_run(&w, 1);
	assert_int_equal(world_poll(&w, 0, &ctx, &err), 0);
	world_close(&w);
}

/* --- the door itself ----------------------------------------------------------------------------- */

static void expected__of_another_kind(void **state)
{
	static const uint8_t op[] = {OPX_MSG_INJECT, OPX_MSG_EAGER, OPX_RMA, OPX_ATOMIC, OPX_DONE, OPX_RZV_DATA};
	uint8_t bytes[8] = {0};

	(void)state;
	world_open(&w, 0);
	for (size_t i = 0; i < ARRAY_SIZE(op); i++) {
		uint8_t sub = op[i] == OPX_RMA ? OPX_SUB_PUT_DATA : op[i] == OPX_RZV_DATA ? OPX_SUB_PUT : 0;
		struct hfi_hdr h = world_hdr(&w, op[i], sub, 0);
		uint32_t len = op[i] == OPX_RMA ? 4 : op[i] == OPX_ATOMIC || op[i] == OPX_RZV_DATA ? 8 : 0;
		struct view v = view_of(bytes, len);
		uint64_t before = counted();

		h.w[1] = le64_put(op[i] == OPX_DONE ? 0 : WORLD_KEY);
		h.tag = le64_put(op[i] == OPX_ATOMIC ? FI_UINT64 | 1 << 16 : 8);
		assert_true(world_take(&w, &h, &v, HFI_RCV_EXPECTED));
		assert_int_equal(counted(), before + 1);
	}
	world_close(&w);
}

static int setup(void **state)
{
	(void)state;
	setenv("SOFTFABRIC_OPX", "units=1", 1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cts__second_one),
		cmocka_unit_test(expected__entry_of_another),
		cmocka_unit_test(expected__elsewhere_in_entry),
		cmocka_unit_test(rzv__gap_and_overlap),
		cmocka_unit_test(rts__pieces_from_far),
		cmocka_unit_test(rts__pieces_that_lie),
		cmocka_unit_test(rts__refused_instead_of_cts),
		cmocka_unit_test(rts__receiver_without_memory),
		cmocka_unit_test(mp__gap_and_overlap),
		cmocka_unit_test(rma__bad_place),
		cmocka_unit_test(atomic__nonsense),
		cmocka_unit_test(atomic__result_beyond_mtu),
		cmocka_unit_test(answer__not_asked_for),
		cmocka_unit_test(refused__while_packets_refer),
		cmocka_unit_test(refused__nothing_was_asked),
		cmocka_unit_test(refused__silent_write_of_many_packets),
		cmocka_unit_test(dead__while_copy_writes),
		cmocka_unit_test(put_data__of_failed_copy),
		cmocka_unit_test(region__closed_while_copy_writes),
		cmocka_unit_test(expected__of_another_kind),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
