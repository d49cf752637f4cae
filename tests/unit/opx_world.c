// SPDX-License-Identifier: BSD-2-Clause
// The world: opened, closed, and driven by the thread of the test.
#include "opx_world.h"

#include <stdatomic.h>
#include <string.h>

#include <rdma/providers/fi_prov.h>

struct fi_provider *fi_prov_ini(void);

#define MEET_POLLS 1000000

int world_poll(struct world *w, int ep, void **ctx, struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(w->cq[ep], &e, 1);

	*ctx = n == 1 ? e.op_context : NULL;
	if (n != -FI_EAVAIL)
		return n == 1;
	*err = (struct fi_cq_err_entry){0};
	assert_int_equal(fi_cq_readerr(w->cq[ep], err, 0), 1);
	*ctx = err->op_context;
	return -1;
}

void world_run(struct world *w, int rounds)
{
	for (int i = 0; i < rounds * WORLD_EPS; i++)
		fi_cq_read(w->cq[i % WORLD_EPS], NULL, 0);
}

static void ep_open(struct world *w, struct fi_info *info, int i)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};

	assert_int_equal(fi_endpoint(w->domain, info, &w->ep[i], NULL), 0);
	assert_int_equal(fi_cq_open(w->domain, &cq, &w->cq[i], NULL), 0);
	assert_int_equal(fi_av_open(w->domain, &av, &w->av[i], NULL), 0);
	assert_int_equal(fi_ep_bind(w->ep[i], &w->cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_ep_bind(w->ep[i], &w->av[i]->fid, 0), 0);
	assert_int_equal(fi_enable(w->ep[i]), 0);
}

static void mr_open(struct world *w)
{
	w->mem = calloc(1, WORLD_MR_LEN);
	assert_non_null(w->mem);
	assert_int_equal(fi_mr_reg(w->domain, w->mem, WORLD_MR_LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, WORLD_KEY, 0,
				   &w->mr[0], NULL),
			 0);
	assert_int_equal(
		fi_mr_reg(w->domain, w->mem, WORLD_MR_LEN, FI_REMOTE_READ, 0, WORLD_KEY_RO, 0, &w->mr[1], NULL), 0);
}

/* Both directions of every pair. */
static void meet(struct world *w)
{
	for (int i = 0; i < WORLD_EPS * WORLD_EPS; i++) {
		struct fid_ep *ep = w->ep[i / WORLD_EPS];
		ssize_t rc = -FI_EAGAIN;

		for (int n = 0; n < MEET_POLLS && rc == -FI_EAGAIN && i / WORLD_EPS != i % WORLD_EPS; n++) {
			rc = fi_inject_write(ep, "", 0, w->to[i % WORLD_EPS], 0, WORLD_KEY);
			world_run(w, 1);
		}
		assert_true(!rc || i / WORLD_EPS == i % WORLD_EPS);
	}
	for (int n = 0; n < MEET_POLLS && !opx_rel_drained(world_ep(w, 0)->rel); n++)
		world_run(w, 1);
}

static struct fi_info *world_info(unsigned how)
{
	static struct fi_provider *prov;
	struct fi_info *h = fi_allocinfo(), *info;

	setenv("SOFTFABRIC_NET", "linger=1ms", 1); /* read once */
	setenv("FI_OPX_SHM_ENABLE", how & WORLD_UDP ? "0" : "1", 1);
	setenv("FI_OPX_EXPECTED_RECEIVE_ENABLE", how & WORLD_TID ? "1" : "0", 1);
	setenv("FI_OPX_RZV_MIN_PAYLOAD_BYTES", how & WORLD_SMALL_RZV ? "64" : "16385", 1);
	setenv("FI_OPX_SDMA_MIN_PAYLOAD_BYTES", how & WORLD_SMALL_SDMA ? "64" : "16385", 1);
	if (!prov)
		prov = fi_prov_ini();
	assert_non_null(prov);
	h->ep_attr->type = FI_EP_RDM;
	assert_int_equal(prov->getinfo(FI_VERSION(1, 18), NULL, NULL, 0, h, &info), 0);
	fi_freeinfo(h);
	return info;
}

/* The adapter without its thread: all happens in calls of the test, which may look at everything. */
static void unit_open(struct world *w)
{
	struct opx_domain *d = container_of(w->domain, struct opx_domain, kit.fid);
	struct hfi_open_attr attr = {.unit = d->unit, .lock = &d->kit.lock, .no_shm = !d->params.shm_enable,
				     .no_thread = true};

	assert_int_equal(hfi_open(&attr, &d->hfi[d->unit]), 0);
	atomic_store(&d->idle_hfi, d->hfi[d->unit]);
}

void world_open(struct world *w, unsigned how)
{
	struct fi_info *info = world_info(how);
	struct opx_addr addr;
	size_t len;

	memset(w, 0, sizeof(*w));
	assert_int_equal(opx_fabric_open(info->fabric_attr, &w->fabric, NULL), 0);
	assert_int_equal(fi_domain(w->fabric, info, &w->domain, NULL), 0);
	unit_open(w);
	mr_open(w);
	for (int i = 0; i < WORLD_EPS; i++)
		ep_open(w, info, i);
	for (int i = 0; i < WORLD_EPS; i++) {
		len = sizeof(addr);
		assert_int_equal(fi_getname(&w->ep[i]->fid, &addr, &len), 0);
		for (int k = 0; k < WORLD_EPS; k++)
			assert_int_equal(fi_av_insert(w->av[k], &addr, 1, &w->to[i], 0, NULL), 1);
	}
	fi_freeinfo(info);
	meet(w);
}

void world_close(struct world *w)
{
	for (int i = 0; i < WORLD_EPS; i++)
		assert_true(!w->ep[i] || !fi_close(&w->ep[i]->fid));
	for (int i = 0; i < WORLD_EPS; i++) {
		assert_int_equal(fi_close(&w->cq[i]->fid), 0);
		assert_int_equal(fi_close(&w->av[i]->fid), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_true(!w->mr[i] || !fi_close(&w->mr[i]->fid));
	assert_int_equal(fi_close(&w->domain->fid), 0);
	assert_int_equal(fi_close(&w->fabric->fid), 0);
	free(w->mem);
}

/* --- packets ------------------------------------------------------------------------------------- */

struct opx_peer *world_peer(struct world *w, int of)
{
	struct opx_peer *peer = opx_peer_find(world_ep(w, 0), w->to[of]);

	assert_non_null(peer);
	return peer;
}

struct hfi_hdr world_hdr(struct world *w, uint8_t opcode, uint8_t aux, uint32_t imm)
{
	struct lock *lock = &world_ep(w, 0)->domain->kit.lock;
	struct hfi_hdr h;

	lock_acquire(lock);
	opx_flow_hdr(&world_peer(w, 1)->flow, &h, opcode, aux, imm);
	lock_release(lock);
	h.w[0] = h.w[1] = h.tag = le64_put(0);
	if (opx_pkt_desc(opcode)->w1 == OPX_W1_NEVER)
		h.bth1 = HFI_BTH_CUT;
	return h;
}

bool world_take(struct world *w, const struct hfi_hdr *h, const struct view *data, enum hfi_rcv_type type)
{
	struct opx_ep *ep = world_ep(w, 0);
	struct hfi_pkt pkt = {.hdr = h, .data = *data, .type = type};
	struct opx_flow *f;

	if (opx_pkt_check(h, data->len))
		return false;
	lock_acquire(&ep->domain->kit.lock);
	f = &world_peer(w, 1)->flow;
	if (type != HFI_RCV_EXPECTED || opx_peer_rel_ops.place(ep, f, &pkt))
		opx_peer_rel_ops.deliver(f, h, data, type);
	lock_release(&ep->domain->kit.lock);
	return true;
}
