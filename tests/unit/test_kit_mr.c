// SPDX-License-Identifier: BSD-2-Clause
// Tests of kit/mr.c.
#include "unit.h"

#include "kit/compat.h"
#include "kit_fix.h"

static struct fix g_fix;
static struct kit_mr_req g_req;
static struct iovec g_iov;
static int g_calls;
static struct fid_mr g_mr;

static int mr_open(struct kit_domain *d, const struct kit_mr_req *req, struct fid_mr **out)
{
	lock_assert_held(&d->lock);
	g_req = *req;
	g_iov = req->iov[0];
	g_calls++;
	*out = &g_mr;
	return 0;
}

static int setup(void **state)
{
	fix_open(&g_fix, FI_VERSION(1, 17));
	g_fix.domain.mr_open = mr_open;
	g_calls = 0;
	return 0;
}

static int teardown(void **state)
{
	fix_close(&g_fix);
	return 0;
}

static int reg(const void *buf, size_t len, uint64_t access, uint64_t flags)
{
	struct fid_mr *mr;

	return fi_mr_reg(&g_fix.domain.fid, buf, len, access, 3, 4, flags, &mr, &g_fix);
}

static void mr_reg__becomes_a_request(void **state)
{
	char buf[16] = "";

	assert_int_equal(reg(buf, sizeof(buf), FI_SEND | FI_REMOTE_WRITE, FI_RMA_EVENT), 0);
	assert_ptr_equal(g_iov.iov_base, buf);
	assert_int_equal(g_iov.iov_len, sizeof(buf));
	assert_int_equal(g_req.iov_cnt, 1);
	assert_int_equal(g_req.access, FI_SEND | FI_REMOTE_WRITE);
	assert_int_equal(g_req.offset, 3);
	assert_int_equal(g_req.requested_key, 4);
	assert_int_equal(g_req.flags, FI_RMA_EVENT);
	assert_ptr_equal(g_req.context, &g_fix);
	/* Bits that name no access are the provider's to judge. */
	assert_int_equal(reg(buf, 1, FI_RMA | FI_SEND, 0), 0);
	assert_int_equal(g_req.access, FI_RMA | FI_SEND);
	/* All of memory, as programs with user keys register it. */
	assert_int_equal(reg(NULL, SIZE_MAX, FI_REMOTE_WRITE, 0), 0);
	assert_int_equal(reg(NULL, 0, 0, 0), 0);
}

static void mr_reg__refuses_bad_arguments(void **state)
{
	struct iovec iov[2] = {{(void *)0x1000, SIZE_MAX / 2 + 1}, {NULL, SIZE_MAX / 2 + 1}};
	struct fid_mr *mr;
	char buf[16] = "";

	assert_int_equal(reg((void *)(uintptr_t)-16, 17, 0, 0), -FI_EINVAL);
	assert_int_equal(fi_mr_regv(&g_fix.domain.fid, iov, 0, 0, 0, 0, 0, &mr, NULL), -FI_EINVAL);
	assert_int_equal(fi_mr_regv(&g_fix.domain.fid, NULL, 1, 0, 0, 0, 0, &mr, NULL), -FI_EINVAL);
	assert_int_equal(fi_mr_regv(&g_fix.domain.fid, iov, 2, 0, 0, 0, 0, &mr, NULL), -FI_EINVAL);
	assert_int_equal(fi_mr_regattr(&g_fix.domain.fid, NULL, 0, &mr), -FI_EINVAL);
	assert_int_equal(reg(buf, 1, 0, KIT_MR_DMABUF), -FI_EBADFLAGS);
	g_fix.domain.api_version = FI_VERSION(1, 20);
	assert_int_equal(reg(buf, 1, 0, KIT_MR_DMABUF), -FI_EOPNOTSUPP);
	assert_int_equal(kit_mr_ops.reg(&g_fix.fabric->fid.fid, buf, 1, 0, 0, 0, 0, &mr, NULL),
			 -FI_EINVAL);
	assert_int_equal(g_calls, 0);
	g_fix.forked = true;
	assert_int_equal(reg(buf, 1, 0, 0), -FI_EIO);
	g_fix.forked = false;
	g_fix.domain.mr_open = NULL;
	assert_int_equal(reg(buf, 1, 0, 0), -FI_ENOSYS);
}

static int reg_iface(uint32_t version, uint64_t caps, int iface)
{
	struct iovec iov = {(void *)0x1000, 16};
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .iface = (enum fi_hmem_iface)iface};
	struct fid_mr *mr;
	int before = g_calls, ret;

	g_fix.domain.api_version = version;
	g_fix.domain.caps = caps;
	ret = fi_mr_regattr(&g_fix.domain.fid, &attr, 0, &mr);
	assert_int_equal(g_calls - before, !ret);
	return ret;
}

/* Callers that did not negotiate FI_HMEM have no defined value there, and older ones no such field.
 * NVSHMEM negotiates it with API version 1.5. */
static void mr_regattr__device_memory_only_if_negotiated(void **state)
{
	static const int iface[] = {FI_HMEM_CUDA, FI_HMEM_ROCR, FI_HMEM_SYNAPSEAI, 6, -1};
	static const uint32_t version[] = {FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 17), FI_VERSION(2, 6)};

	for (size_t i = 0; i < ARRAY_SIZE(iface); i++) {
		for (size_t v = 0; v < ARRAY_SIZE(version); v++) {
			assert_int_equal(reg_iface(version[v], FI_MSG, iface[i]), 0);
			assert_int_equal(reg_iface(version[v], FI_MSG | FI_HMEM, FI_HMEM_SYSTEM),
					 0);
			assert_int_equal(reg_iface(version[v], FI_MSG | FI_HMEM, iface[i]),
					 i < 3 ? -FI_ENOSYS : -FI_EINVAL);
			assert_non_null(strstr(g_fix_log.last, "iface"));
		}
	}
}

#define T(f_) cmocka_unit_test_setup_teardown(f_, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(mr_reg__becomes_a_request),
		T(mr_reg__refuses_bad_arguments),
		T(mr_regattr__device_memory_only_if_negotiated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
