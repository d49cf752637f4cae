// SPDX-License-Identifier: BSD-2-Clause
// The cxi provider under a libfabric of 1.20: what older cores do not know, from fi_getinfo to messages. The version is
// a pretence of this program, which the provider asks in the library's place; the structures that grew are as large as
// that version has them.
#include "cxi_fix.h"
#include "kit/compat.h"

uint32_t fi_version(void)
{
	return FI_VERSION(1, 20);
}

/* Hints of a program that was built for 1.20. */
static struct fi_info *hints(uint64_t caps)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	free(h->domain_attr);
	h->domain_attr = calloc(1, sizeof(struct kit_domain_attr_ext));
	assert_non_null(h->domain_attr);
	h->caps = caps;
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT;
	h->domain_attr->auth_key_size = KIT_AV_AUTH_KEY;
	return h;
}

static size_t keys_of(const struct fi_info *info)
{
	size_t max;

	memcpy(&max, (const uint8_t *)info->domain_attr + offsetof(struct kit_domain_attr_ext, max_ep_auth_key),
	       sizeof(max));
	return max;
}

static void getinfo__keys_come_with_the_address_vector(void **state)
{
	struct fi_info *h = hints(FI_MSG), *i = NULL;

	(void)state;
	assert_int_equal(cxi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, h, &i), 0);
	for (struct fi_info *at = i; at; at = at->next) {
		assert_true(at->domain_attr->auth_key_size == KIT_AV_AUTH_KEY);
		assert_int_equal(keys_of(at), 4);
		assert_int_equal(at->caps & FI_DIRECTED_RECV, 0); /* receives are told apart by VNI only */
	}
	fi_freeinfo(i);
	/* a program of 1.17 cannot have meant that: its key is too long */
	i = NULL;
	assert_int_equal(cxi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &i), -FI_ENODATA);
	fi_freeinfo(h);
	h = hints(FI_MSG | FI_DIRECTED_RECV);
	assert_int_equal(cxi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, h, &i), -FI_ENODATA);
	fi_freeinfo(h);
	h = hints(FI_MSG);
	h->domain_attr->auth_key_size = 0;
	assert_int_equal(cxi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, h, &i), 0);
	assert_int_equal(keys_of(i), 1);
	fi_freeinfo(i);
	fi_freeinfo(h);
}

/* --- messages under two VNIs --------------------------------------------------------------------- */

#define VNIS 2

struct peer {
	struct cxi_fix_ep e;
	fi_addr_t to[VNIS]; /* the other one, under each of them */
	struct cxi_addr name;
};

static struct kit_ops_av_ext *ext(struct fid_av *av)
{
	return (struct kit_ops_av_ext *)(void *)av->ops;
}

static void peer_open(struct peer *p, const struct cxi_fix *f, fi_addr_t handle[VNIS])
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {0};
	size_t len = sizeof(p->name);

	assert_int_equal(fi_av_open(f->domain, &av, &p->e.av, NULL), 0);
	for (unsigned i = 0; i < VNIS; i++) {
		struct cxi_key key = {.svc_id = 2, .vni = (uint16_t)(20 + i)};

		assert_int_equal(ext(p->e.av)->insert_auth_key(p->e.av, &key, sizeof(key), &handle[i], 0), 0);
	}
	assert_int_equal(fi_cq_open(f->domain, &cq, &p->e.cq, NULL), 0);
	assert_int_equal(fi_endpoint(f->domain, f->info, &p->e.ep, NULL), 0);
	assert_int_equal(fi_ep_bind(p->e.ep, &p->e.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(p->e.ep, &p->e.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(p->e.ep), 0);
	assert_int_equal(fi_getname(&p->e.ep->fid, &p->name, &len), 0);
}

static void peer_knows(struct peer *p, const struct peer *other, const fi_addr_t handle[VNIS])
{
	for (unsigned i = 0; i < VNIS; i++) {
		p->to[i] = handle[i];
		assert_int_equal(fi_av_insert(p->e.av, &other->name, 1, &p->to[i], KIT_AUTH_KEY, NULL), 1);
	}
	assert_true(p->to[0] != p->to[1]);
}

static fi_addr_t source_of_next(const struct peer *p, const struct peer *other)
{
	uint64_t until = clk_now_ns(NULL) + 10 * NS_PER_SEC;
	struct fi_cq_tagged_entry entry;
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	ssize_t ret;

	while ((ret = fi_cq_readfrom(p->e.cq, &entry, 1, &src)) == -FI_EAGAIN) {
		fi_cq_read(other->e.cq, NULL, 0);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 1);
	return src;
}

static void messages__under_two_vnis(void **state)
{
	static const size_t len[] = {8, 5000, 100000};
	static uint8_t out[100000], in[100000];
	struct fi_info *h = hints(FI_MSG | FI_SOURCE);
	fi_addr_t ha[VNIS], hb[VNIS];
	struct peer a, b;
	struct cxi_fix f;

	(void)state;
	setenv("SOFTFABRIC_CXI", "svc=2:vnis=20+21", 1);
	setenv("SLINGSHOT_DEVICES", "cxi0", 1);
	setenv("SLINGSHOT_SVC_IDS", "2", 1);
	setenv("SLINGSHOT_VNIS", "20", 1);
	cxi_fix_open_info(&f, cxi_fix_info(FI_VERSION(1, 20), h));
	peer_open(&a, &f, ha);
	peer_open(&b, &f, hb);
	peer_knows(&a, &b, ha);
	peer_knows(&b, &a, hb);
	for (unsigned i = 0; i < ARRAY_SIZE(len) * VNIS; i++) {
		size_t n = len[i / VNIS];

		memset(out, (int)i + 1, n);
		memset(in, 0, n);
		assert_int_equal(fi_recv(b.e.ep, in, n, NULL, FI_ADDR_UNSPEC, NULL), 0);
		assert_int_equal(fi_send(a.e.ep, out, n, NULL, a.to[i % VNIS], NULL), 0);
		assert_int_equal(source_of_next(&b, &a), b.to[i % VNIS]); /* the same endpoint, known by its VNI */
		source_of_next(&a, &b);
		assert_memory_equal(in, out, n);
	}
	cxi_fix_ep_close(&a.e);
	cxi_fix_ep_close(&b.e);
	cxi_fix_close(&f);
	cxi_fix_init(NULL);
}

/* Any PID will do: one that somebody has in the second VNI only is not it. */
static void pid__free_under_all_vnis(void **state)
{
	struct cxi_fix f, other;
	struct fi_info *h = hints(FI_MSG);
	struct cxi_key key = {.svc_id = 2, .vni = 21};
	fi_addr_t handle[VNIS];
	struct cxi_fix_ep e;
	struct peer a;
	uint16_t pid;

	(void)state;
	setenv("SOFTFABRIC_CXI", "svc=2:vnis=20+21", 1);
	setenv("SLINGSHOT_DEVICES", "cxi0", 1);
	setenv("SLINGSHOT_SVC_IDS", "2", 1);
	setenv("SLINGSHOT_VNIS", "20", 1);
	cxi_fix_open_info(&f, cxi_fix_info(FI_VERSION(1, 20), hints(FI_MSG)));
	peer_open(&a, &f, handle);
	pid = cxi_addr_pid(&a.name);
	cxi_fix_ep_close(&a.e);
	/* somebody takes just that */
	h->domain_attr->auth_key = memcpy(malloc(sizeof(key)), &key, sizeof(key));
	h->domain_attr->auth_key_size = sizeof(key);
	cxi_fix_open_info(&other, cxi_fix_info(FI_VERSION(1, 17), h));
	assert_int_equal(fi_av_open(other.domain, &(struct fi_av_attr){0}, &e.av, NULL), 0);
	assert_int_equal(fi_cq_open(other.domain, &(struct fi_cq_attr){0}, &e.cq, NULL), 0);
	assert_int_equal(fi_endpoint(other.domain, other.info, &e.ep, NULL), 0);
	cxi_ep_of(e.ep)->pid = pid;
	assert_int_equal(fi_ep_bind(e.ep, &e.av->fid, 0), 0);
	assert_int_equal(fi_ep_bind(e.ep, &e.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	assert_int_equal(fi_enable(e.ep), 0);
	peer_open(&a, &f, handle);
	assert_int_not_equal(cxi_addr_pid(&a.name), pid);
	cxi_fix_ep_close(&a.e);
	cxi_fix_ep_close(&e);
	cxi_fix_close(&other);
	cxi_fix_close(&f);
	cxi_fix_init(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(getinfo__keys_come_with_the_address_vector),
		cmocka_unit_test(messages__under_two_vnis),
		cmocka_unit_test(pid__free_under_all_vnis),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
