// SPDX-License-Identifier: BSD-2-Clause
// The built efa module as libfabric loads it; no call that an application can make through its objects meets a NULL
// pointer. SOFTFABRIC_MODULE names the module.
#include "load.h"

const struct load_prov load_prov = {
	.name = "efa",
	.mode = FI_MSG_PREFIX,
	.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	.access = FI_SEND | FI_RECV,
};

static char g_mem[4096];

static void tables__rdm(void **state)
{
	struct load_objs o;

	load_open(&o, FI_EP_RDM);
	load_full_all(&o);
	load_close(&o);
}

static void tables__dgram(void **state)
{
	struct load_objs o;

	load_open(&o, FI_EP_DGRAM);
	load_full_all(&o);
	load_close(&o);
}

/* --- what EFA does not have is refused ---------------------------------------------------------------------------- */

static void refused__connections_and_contexts(void **state)
{
	struct fid_stx *stx;
	struct fid_ep *ep;
	struct load_objs o;

	load_open(&o, FI_EP_RDM);
	load_refuses_rest(&o);
	REFUSED(fi_scalable_ep(o.domain, o.info, &ep, NULL));
	REFUSED(fi_stx_context(o.domain, NULL, &stx, NULL));
	REFUSED(fi_tx_context(o.ep, 0, NULL, &ep, NULL));
	REFUSED(fi_rx_context(o.ep, 0, NULL, &ep, NULL));
	load_close(&o);
}

static void refused__tagged_on_dgram(void **state)
{
	struct iovec iov = {g_mem, 8};
	struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1};
	struct load_objs o;

	load_open(&o, FI_EP_DGRAM);
	REFUSED(fi_trecv(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_trecvv(o.ep, &iov, NULL, 1, 0, 0, 0, NULL));
	REFUSED(fi_trecvmsg(o.ep, &m, 0));
	REFUSED(fi_tsend(o.ep, g_mem, 8, NULL, 0, 0, NULL));
	REFUSED(fi_tsendv(o.ep, &iov, NULL, 1, 0, 0, NULL));
	REFUSED(fi_tsendmsg(o.ep, &m, 0));
	REFUSED(fi_tinject(o.ep, g_mem, 8, 0, 0));
	REFUSED(fi_tsenddata(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_tinjectdata(o.ep, g_mem, 8, 0, 0, 0));
	load_close(&o);
}

static void refused__rma_on_dgram(void **state)
{
	struct iovec iov = {g_mem, 8};
	struct fi_rma_iov riov = {(uintptr_t)g_mem, 8, 0};
	struct fi_msg_rma m = {.msg_iov = &iov, .iov_count = 1, .rma_iov = &riov, .rma_iov_count = 1};
	struct load_objs o;

	load_open(&o, FI_EP_DGRAM);
	REFUSED(fi_read(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_readv(o.ep, &iov, NULL, 1, 0, 0, 0, NULL));
	REFUSED(fi_readmsg(o.ep, &m, 0));
	REFUSED(fi_write(o.ep, g_mem, 8, NULL, 0, 0, 0, NULL));
	REFUSED(fi_writev(o.ep, &iov, NULL, 1, 0, 0, 0, NULL));
	REFUSED(fi_writemsg(o.ep, &m, 0));
	REFUSED(fi_inject_write(o.ep, g_mem, 8, 0, 0, 0));
	REFUSED(fi_writedata(o.ep, g_mem, 8, NULL, 0, 0, 0, 0, NULL));
	REFUSED(fi_inject_writedata(o.ep, g_mem, 8, 0, 0, 0, 0));
	load_close(&o);
}

static void refused__atomic_on_dgram(void **state)
{
	struct fi_ioc ioc = {g_mem, 1};
	struct fi_rma_ioc rioc = {(uintptr_t)g_mem, 1, 0};
	struct fi_msg_atomic m = {.msg_iov = &ioc, .iov_count = 1, .rma_iov = &rioc, .rma_iov_count = 1,
				  .datatype = FI_UINT64, .op = FI_SUM};
	size_t cnt;
	struct load_objs o;

	load_open(&o, FI_EP_DGRAM);
	REFUSED(fi_atomic(o.ep, g_mem, 1, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomicv(o.ep, &ioc, NULL, 1, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_atomicmsg(o.ep, &m, 0));
	REFUSED(fi_inject_atomic(o.ep, g_mem, 1, 0, 0, 0, FI_UINT64, FI_SUM));
	REFUSED(fi_fetch_atomic(o.ep, g_mem, 1, NULL, g_mem, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_fetch_atomicv(o.ep, &ioc, NULL, 1, &ioc, NULL, 1, 0, 0, 0, FI_UINT64, FI_SUM, NULL));
	REFUSED(fi_fetch_atomicmsg(o.ep, &m, &ioc, NULL, 1, 0));
	REFUSED(fi_compare_atomic(o.ep, g_mem, 1, NULL, g_mem, NULL, g_mem, NULL, 0, 0, 0, FI_UINT64, FI_CSWAP, NULL));
	REFUSED(fi_compare_atomicv(o.ep, &ioc, NULL, 1, &ioc, NULL, 1, &ioc, NULL, 1, 0, 0, 0, FI_UINT64, FI_CSWAP,
				   NULL));
	REFUSED(fi_compare_atomicmsg(o.ep, &m, &ioc, NULL, 1, &ioc, NULL, 1, 0));
	REFUSED(fi_atomicvalid(o.ep, FI_UINT64, FI_SUM, &cnt));
	REFUSED(fi_fetch_atomicvalid(o.ep, FI_UINT64, FI_SUM, &cnt));
	REFUSED(fi_compare_atomicvalid(o.ep, FI_UINT64, FI_CSWAP, &cnt));
	load_close(&o);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables__rdm),
		cmocka_unit_test(tables__dgram),
		cmocka_unit_test(refused__connections_and_contexts),
		cmocka_unit_test(refused__tagged_on_dgram),
		cmocka_unit_test(refused__rma_on_dgram),
		cmocka_unit_test(refused__atomic_on_dgram),
		LOAD_TESTS,
	};
	int status;

	return load_begin(argc, argv, &status) ? cmocka_run_group_tests(tests, NULL, NULL) : status;
}
