// SPDX-License-Identifier: BSD-2-Clause
// Outgoing operations of opx that cannot go on: each ends once, with the error that its reason has.
#include <string.h>
#include <sys/mman.h>

#include "base/guard.h"
#include "base/mem.h"
#include "opx_fake.h"

/* --- the flow, as the test likes it -------------------------------------------------------------- */

static struct {
	int rc;              /* of every post */
	enum opx_status why; /* and it is the end of the flow */
	int posts;
} g_flow;

static int flow_post(struct opx_flow *f)
{
	g_flow.posts++;
	f->doom = (uint8_t)g_flow.why;
	return g_flow.rc;
}

int opx_flow_post(struct opx_flow *f, struct hfi_hdr *h, const struct iovec *iov, int iov_cnt, unsigned flags,
		  struct opx_op *op, uint32_t *refs)
{
	(void)h, (void)iov, (void)iov_cnt, (void)flags, (void)op, (void)refs;
	return flow_post(f);
}

int opx_flow_post_sdma(struct opx_flow *f, struct hfi_sdma_req *req, unsigned flags, struct opx_op *op, uint32_t *refs)
{
	(void)req, (void)flags, (void)op, (void)refs;
	return flow_post(f);
}

uint32_t opx_flow_room(struct opx_flow *f)
{
	(void)f;
	return 1;
}

void opx_flow_doom(struct opx_flow *f, enum opx_status why)
{
	f->doom = (uint8_t)why;
}

void opx_quota_put(struct opx_peer *peer, enum opx_quota q, uint64_t n)
{
	(void)peer, (void)q, (void)n;
}

void opx_flow_wait(struct opx_flow *f, int delta)
{
	f->waits += (uint32_t)delta;
}

int opx_rma_pump(struct opx_op *op)
{
	return flow_post(&op->peer->flow);
}

/* What the peer was told. */
static struct {
	int cnt;
	uint32_t handle;
	enum opx_status st;
} g_done;

void opx_done_send(struct opx_peer *peer, uint32_t handle, enum opx_status st)
{
	(void)peer;
	g_done.cnt++;
	g_done.handle = handle;
	g_done.st = st;
}

int opx_copies_retry(struct opx_ep *ep)
{
	(void)ep;
	return 0;
}

bool opx_copy_cancel(struct opx_copy *c)
{
	(void)c;
	return true;
}

int hfi_expose(struct hfi_ctxt *c, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	(void)c, (void)addr, (void)len, (void)rights, (void)key;
	return -ENOSPC;
}

void hfi_conceal(struct hfi_ctxt *c, uint32_t key)
{
	(void)c, (void)key;
}

int hfi_tid_hdr(struct hfi_hdr *hdr, const struct hfi_tid *tid, uint32_t off)
{
	(void)hdr, (void)tid, (void)off;
	return 0;
}

/* --- an endpoint with a peer --------------------------------------------------------------------- */

static struct {
	struct fake_dom dom;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *fid;
	struct opx_ep *ep;
	struct opx_peer peer;
} r;

static int setup(void **state)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {0};

	(void)state;
	fake_reset(1);
	memset(&g_flow, 0, sizeof(g_flow));
	memset(&r, 0, sizeof(r));
	fake_open(&r.dom, NULL);
	assert_int_equal(fi_av_open(r.dom.domain, &av, &r.av, NULL), 0);
	assert_int_equal(fi_cq_open(r.dom.domain, &cq, &r.cq, NULL), 0);
	assert_int_equal(fi_endpoint(r.dom.domain, r.dom.info, &r.fid, NULL), 0);
	assert_int_equal(fi_ep_bind(r.fid, &r.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(r.fid, &r.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(r.fid), 0);
	r.ep = opx_ep_of(r.fid);
	assert_int_equal(slab_init(&r.ep->op_slab, sizeof(struct opx_op), CACHE_LINE, 4, 0), 0);
	r.peer.ep = r.ep;
	LIST_INIT(&r.peer.ops);
	lock_acquire(&fake_domain(&r.dom)->kit.lock);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_true(TAILQ_EMPTY(&r.ep->pump));
	assert_true(LIST_EMPTY(&r.peer.ops));
	assert_int_equal(r.peer.flow.waits, 0);
	slab_fini(&r.ep->op_slab);
	lock_release(&fake_domain(&r.dom)->kit.lock);
	assert_int_equal(fi_close(&r.fid->fid), 0);
	assert_int_equal(fi_close(&r.cq->fid), 0);
	assert_int_equal(fi_close(&r.av->fid), 0);
	fake_close(&r.dom);
	return 0;
}

static struct opx_op *op_new(enum opx_op_kind kind, bool is_sdma)
{
	static uint8_t mem[100];
	struct opx_op *op = opx_op_get(&r.peer, kind);

	op->iov[0] = (struct iovec){mem, sizeof(mem)};
	op->iov_cnt = 1;
	op->len = sizeof(mem);
	op->is_sdma = is_sdma;
	op->wants_cqe = true;
	op->context = op;
	opx_op_wait(op);
	return op;
}

/* The next entry of the queue; err -1: there is none. */
static struct fi_cq_err_entry next_entry(void)
{
	struct fi_cq_err_entry e = {.err = -1};
	struct fi_cq_tagged_entry ok;
	ssize_t n;

	lock_release(&fake_domain(&r.dom)->kit.lock);
	n = fi_cq_read(r.cq, &ok, 1);
	if (n == 1)
		e.err = 0;
	else if (n == -FI_EAVAIL)
		assert_int_equal(fi_cq_readerr(r.cq, &e, 0), 1);
	lock_acquire(&fake_domain(&r.dom)->kit.lock);
	return e;
}

static const struct {
	enum opx_op_kind kind;
	bool is_sdma;
} kinds[] = {{OPX_OP_SEND, false}, {OPX_OP_SEND, true}, {OPX_OP_WRITE, false}, {OPX_OP_READ, false}};

/* Number and reason of a failed post belong together. */
static void op__error_of_a_post(void **state)
{
	static const struct {
		int rc, err;
		enum opx_status why;
	} row[] = {
		{-FI_ENETDOWN, FI_ENETDOWN, OPX_ST_NET_DOWN},
		{-FI_ECONNREFUSED, FI_ECONNREFUSED, OPX_ST_PEER_GONE},
		{-FI_EHOSTUNREACH, FI_EHOSTUNREACH, OPX_ST_UNREACH},
		{-FI_ENETUNREACH, FI_EHOSTUNREACH, OPX_ST_UNREACH},
		{-FI_ENOMEM, FI_ENOMEM, OPX_ST_NOMEM},
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(kinds) * ARRAY_SIZE(row); k++) {
		struct opx_op *op = op_new(kinds[k % ARRAY_SIZE(kinds)].kind, kinds[k % ARRAY_SIZE(kinds)].is_sdma);
		size_t i = k / ARRAY_SIZE(kinds);
		struct fi_cq_err_entry e;

		g_flow.rc = row[i].rc;
		opx_op_pump(op);
		e = next_entry();
		assert_int_equal(e.err, row[i].err);
		assert_int_equal(e.prov_errno, row[i].why);
		assert_ptr_equal(e.op_context, op);
		assert_int_equal(next_entry().err, -1);
		/* the receiver of a message waits for the rest of it, and must hear of an end */
		assert_int_equal(r.peer.flow.doom,
				 kinds[k % ARRAY_SIZE(kinds)].kind == OPX_OP_SEND ? row[i].why : OPX_OK);
		r.peer.flow.doom = OPX_OK;
	}
}

/* A copy between processes that ends with one of them is no failure of the copy. */
static void op__error_of_a_copy(void **state)
{
	static const struct {
		int rc;
		enum opx_status why;
	} row[] = {{-ECONNREFUSED, OPX_ST_PEER_GONE},
		   {-EOPNOTSUPP, OPX_ST_PEER_GONE},
		   {-ETIMEDOUT, OPX_ST_PEER_SILENT},
		   {-ECANCELED, OPX_ST_CANCELED},
		   {-EACCES, OPX_ST_GONE},
		   {-EFAULT, OPX_ST_GONE},
		   {-EIO, OPX_ST_COPY}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		assert_int_equal(opx_status_of(row[i].rc, OPX_ST_COPY), row[i].why);
}

/* The flow is about to end, or ends by this very post: its end says why. */
static void op__doomed_flow_tells_itself(void **state)
{
	(void)state;
	for (size_t k = 0; k < 2 * ARRAY_SIZE(kinds); k++) {
		struct opx_op *op = op_new(kinds[k / 2].kind, kinds[k / 2].is_sdma);
		struct fi_cq_err_entry e;

		g_flow.rc = -FI_ECONNREFUSED;
		g_flow.why = OPX_ST_PEER_SILENT;
		g_flow.posts = 0;
		r.peer.flow.doom = k & 1 ? OPX_ST_PEER_SILENT : OPX_OK;
		opx_op_pump(op);
		assert_int_equal(opx_pump(r.ep), 0);
		assert_int_equal(g_flow.posts, !(k & 1));
		assert_int_equal(next_entry().err, -1);
		opx_op_fail(op, opx_err_of(OPX_ST_PEER_SILENT), OPX_ST_PEER_SILENT); /* as on_dead() does */
		e = next_entry();
		assert_int_equal(e.err, FI_ETIMEDOUT);
		assert_int_equal(e.prov_errno, OPX_ST_PEER_SILENT);
		assert_int_equal(next_entry().err, -1);
	}
	r.peer.flow.doom = OPX_OK;
}

/* What a peer reads has been unmapped: nothing is posted, and it is told why. */
static void op__served_memory_gone(void **state)
{
	uint8_t *m = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct opx_op *op = op_new(OPX_OP_SERVE, false);

	(void)state;
	assert_ptr_not_equal(m, MAP_FAILED);
	guard_init();
	memset(&g_done, 0, sizeof(g_done));
	op->iov[0].iov_base = m;
	op->peer_handle = 77;
	opx_op_wait(op);
	opx_op_pump(op);
	assert_int_equal(g_flow.posts, 0);
	assert_int_equal(g_done.cnt, 1);
	assert_int_equal(g_done.handle, 77);
	assert_int_equal(g_done.st, OPX_ST_GONE);
	munmap(m, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(op__error_of_a_post, setup, teardown),
		cmocka_unit_test(op__error_of_a_copy),
		cmocka_unit_test_setup_teardown(op__served_memory_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(op__doomed_flow_tells_itself, setup, teardown),
	};

	return cmocka_run_group_tests(tests, fake_group_setup, NULL);
}
