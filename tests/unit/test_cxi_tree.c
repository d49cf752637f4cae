// SPDX-License-Identifier: BSD-2-Clause
// The seed's typical set-up, literally, with an event queue at every place of its tree; and endpoints under several
// VNIs.
#include "cxi_fix.h"
#include "kit/compat.h"

/* fabric +-> EQ +-> domain +-> EQ +-> endpoint +-> EQ +-> AV +-> EQ; TX and RX contexts with CQs of their own. */
static void tree__of_the_seed(void **state)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
	struct fi_av_attr av_attr = {.flags = FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_eq *eq[5]; /* of the fabric, domain, endpoint, AV; and another fabric's */
	struct fid_cq *tx_cq, *rx_cq;
	struct fid_fabric *other;
	struct fi_eq_entry e;
	struct cxi_addr self;
	size_t len = sizeof(self);
	struct fid_ep *ep;
	struct fid_av *av;
	struct cxi_fix f;
	uint32_t event;
	fi_addr_t fi;
	char buf[8];

	(void)state;
	cxi_fix_open(&f);
	for (int i = 0; i < 4; i++)
		assert_int_equal(fi_eq_open(f.fabric, &eq_attr, &eq[i], NULL), 0);
	assert_int_equal(cxi_fabric_open(f.info->fabric_attr, &other, NULL), 0);
	assert_int_equal(fi_eq_open(other, &eq_attr, &eq[4], NULL), 0);
	assert_int_equal(fi_domain_bind(f.domain, &eq[4]->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_domain_bind(f.domain, &eq[1]->fid, 0), 0);
	assert_int_equal(fi_domain_bind(f.domain, &eq[1]->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_endpoint(f.domain, f.info, &ep, NULL), 0);
	assert_int_equal(fi_cq_open(f.domain, &cq_attr, &tx_cq, NULL), 0);
	assert_int_equal(fi_cq_open(f.domain, &cq_attr, &rx_cq, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &tx_cq->fid, FI_TRANSMIT), 0);
	assert_int_equal(fi_ep_bind(ep, &rx_cq->fid, FI_RECV), 0);
	assert_int_equal(fi_ep_bind(ep, &eq[4]->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_ep_bind(ep, &eq[2]->fid, 0), 0); /* in place of the domain's */
	assert_int_equal(fi_ep_bind(ep, &eq[0]->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_av_open(f.domain, &av_attr, &av, NULL), 0);
	assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
	assert_int_equal(fi_av_bind(av, &eq[4]->fid, 0), -FI_EINVAL);
	assert_int_equal(fi_av_bind(av, &eq[3]->fid, 0), 0);
	assert_int_equal(fi_enable(ep), 0);
	assert_int_equal(fi_getname(&ep->fid, &self, &len), 0);
	assert_int_equal(fi_av_insert(av, &self, 1, &fi, 0, &f), 0);
	assert_int_equal(fi_eq_read(eq[3], &event, &e, sizeof(e), 0), sizeof(e));
	assert_int_equal(event, FI_AV_COMPLETE);
	assert_int_equal(e.data, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fi_eq_read(eq[i], &event, &e, sizeof(e), 0), -FI_EAGAIN);
	assert_int_equal(fi_recv(ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL), 0);
	assert_int_equal(fi_send(ep, "seed", 5, NULL, fi, NULL), 0);
	cxi_fix_wait(&(struct cxi_fix_ep){.cq = tx_cq}, 1);
	cxi_fix_wait(&(struct cxi_fix_ep){.cq = rx_cq}, 1);
	assert_string_equal(buf, "seed");
	for (int i = 1; i < 4; i++)
		assert_int_equal(fi_close(&eq[i]->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&av->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&av->fid), 0);
	assert_int_equal(fi_close(&tx_cq->fid), 0);
	assert_int_equal(fi_close(&rx_cq->fid), 0);
	assert_int_equal(fi_close(&f.domain->fid), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(fi_close(&eq[i]->fid), 0);
	assert_int_equal(fi_close(&other->fid), 0);
	assert_int_equal(fi_close(&f.fabric->fid), 0);
	fi_freeinfo(f.info);
}

/* --- several VNIs -------------------------------------------------------------------------------- */

#define MULTI_PID 345

static struct fi_info *msg_info(uint32_t proto)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->caps = FI_MSG | FI_TAGGED | FI_SOURCE;
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_PROV_KEY;
	h->ep_attr->protocol = proto;
	return cxi_fix_info(FI_VERSION(1, 17), h);
}

/* An endpoint in a domain of its own with one VNI. */
static void single_open(struct cxi_fix *f, struct cxi_fix_ep *e, uint16_t vni, uint32_t proto)
{
	const struct cxi_key k = {.svc_id = 1, .vni = vni};
	struct fi_info *info = msg_info(proto);

	info->domain_attr->auth_key = malloc(sizeof(k));
	info->domain_attr->auth_key_size = sizeof(k);
	memcpy(info->domain_attr->auth_key, &k, sizeof(k));
	cxi_fix_open_info(f, info);
	cxi_fix_ep_open(e, f);
}

/* An endpoint that takes its VNIs from its address vector; the handles of the keys come back. */
static void multi_open(struct cxi_fix *f, struct cxi_fix_ep *e, const uint16_t *vni, int cnt, uint32_t proto,
		       fi_addr_t *handle)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_info *info = msg_info(proto);
	const struct kit_ops_av_ext *ops;
	struct fi_av_attr av = {0};
	struct cxi_addr self;

	memcpy(&self, info->src_addr, sizeof(self));
	self = cxi_addr_make(cxi_addr_nic(&self), MULTI_PID, 0); /* which nobody has under another VNI */
	memcpy(info->src_addr, &self, sizeof(self));
	cxi_fix_av_keys(info);
	cxi_fix_open_info(f, info);
	assert_int_equal(fi_av_open(f->domain, &av, &e->av, NULL), 0);
	assert_int_equal(fi_cq_open(f->domain, &cq, &e->cq, NULL), 0);
	assert_int_equal(fi_endpoint(f->domain, f->info, &e->ep, NULL), 0);
	assert_int_equal(fi_ep_bind(e->ep, &e->av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(e->ep), -FI_EINVAL); /* no keys yet */
	ops = (const struct kit_ops_av_ext *)e->av->ops;
	for (int i = 0; i < cnt; i++) {
		const struct cxi_key k = {.svc_id = 1, .vni = vni[i]};

		assert_int_equal(ops->insert_auth_key(e->av, &k, sizeof(k), &handle[i], 0), 0);
	}
	assert_int_equal(fi_enable(e->ep), 0);
}

static void peer_insert(struct fid_av *av, const struct cxi_fix_ep *peer, const fi_addr_t *handle, fi_addr_t *out)
{
	struct cxi_addr a;
	size_t len = sizeof(a);

	assert_int_equal(fi_getname(&peer->ep->fid, &a, &len), 0);
	*out = handle ? *handle : 0;
	assert_int_equal(fi_av_insert(av, &a, 1, out, handle ? KIT_AUTH_KEY : 0, NULL), 1);
}

/* @len bytes from @from to @to, both driven; the sender's address as the receiver sees it comes back. */
static fi_addr_t pass(const struct cxi_fix_ep *from, fi_addr_t dest, const struct cxi_fix_ep *to, size_t len)
{
	static uint8_t src_buf[100000], dst_buf[100000];
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	int left = 2;

	memset(src_buf, (int)len, len);
	memset(dst_buf, 0, len);
	assert_int_equal(fi_trecv(to->ep, dst_buf, sizeof(dst_buf), NULL, FI_ADDR_UNSPEC, 9, 0, NULL), 0);
	assert_int_equal(fi_tsend(from->ep, src_buf, len, NULL, dest, 9, NULL), 0);
	while (left) {
		ssize_t ret = fi_cq_read(from->cq, &entry, 1);

		assert_true(ret == 1 || ret == -FI_EAGAIN);
		left -= ret == 1;
		ret = fi_cq_readfrom(to->cq, &entry, 1, &src);
		assert_true(ret == 1 || ret == -FI_EAGAIN);
		left -= ret == 1;
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_memory_equal(src_buf, dst_buf, len);
	return src;
}

/*
 * One endpoint under VNIs 10 and 11 talks with one of each, both ways, by every protocol; a third VNI does not get
 * through.
 */
static void vnis_check(uint32_t proto)
{
	static const size_t lens[] = {0, 100, 5000, 90000};
	const uint16_t vni[2] = {10, 11};
	struct fi_cq_err_entry err = {0};
	fi_addr_t handle[2], to[2], back[2], stray;
	struct cxi_fix fm, fs[3];
	struct cxi_fix_ep m, s[3];
	struct fi_cq_tagged_entry entry;
	uint64_t until;

	multi_open(&fm, &m, vni, 2, proto, handle);
	for (int i = 0; i < 3; i++)
		single_open(&fs[i], &s[i], (uint16_t)(10 + i), proto);
	for (int i = 0; i < 2; i++) {
		peer_insert(m.av, &s[i], &handle[i], &to[i]);
		peer_insert(s[i].av, &m, NULL, &back[i]);
	}
	for (size_t k = 0; k < ARRAY_SIZE(lens); k++) {
		for (int i = 0; i < 2; i++) {
			assert_int_equal(pass(&m, to[i], &s[i], lens[k]), back[i]);
			assert_int_equal(pass(&s[i], back[i], &m, lens[k]), to[i]); /* and it is known by VNI */
		}
	}
	peer_insert(s[2].av, &m, NULL, &stray);
	assert_int_equal(fi_send(s[2].ep, "x", 1, NULL, stray, NULL), 0);
	until = clk_now_ns(NULL) + 40 * NS_PER_SEC;
	while (fi_cq_read(s[2].cq, &entry, 1) != -FI_EAVAIL) {
		assert_int_equal(fi_cq_read(m.cq, &entry, 1), -FI_EAGAIN);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(fi_cq_readerr(s[2].cq, &err, 0), 1);
	assert_true(err.err == FI_EHOSTUNREACH || err.err == FI_ENOTCONN);
	cxi_fix_ep_close(&m);
	cxi_fix_close(&fm);
	for (int i = 0; i < 3; i++) {
		cxi_fix_ep_close(&s[i]);
		cxi_fix_close(&fs[i]);
	}
}

static void vnis__one_endpoint_under_two(void **state)
{
	(void)state;
	vnis_check(FI_PROTO_CXI);
}

static void vnis__rnr_too(void **state)
{
	(void)state;
	vnis_check(29);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree__of_the_seed),
		cmocka_unit_test(vnis__one_endpoint_under_two),
		cmocka_unit_test(vnis__rnr_too),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
