// SPDX-License-Identifier: BSD-2-Clause
// What the targets that go through a provider must know of it: efa, or cxi with FUZZ_CXI, or opx with FUZZ_OPX.
#ifndef SF_TESTS_FUZZ_PROV_H
#define SF_TESTS_FUZZ_PROV_H

#include <rdma/fi_domain.h>
#include <rdma/providers/fi_prov.h>

struct fi_provider *fi_prov_ini(void);

#ifdef FUZZ_CXI
#define FUZZ_NAMES    "cxi", "cxi0", "cxi1", "0x1", "", "efa"
#define FUZZ_MODE     0
#define FUZZ_MR_MODE  (FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define FUZZ_CQ_DATA  8
#define FUZZ_PROTO    1 /* protocol_version */
#elif defined(FUZZ_OPX)
#define FUZZ_NAMES    "opx", "OPX-100", "ib0", "hfi1_0", "", "ib999"
#define FUZZ_MODE     (FI_CONTEXT2 | FI_ASYNC_IOV)
#define FUZZ_MR_MODE  0
#define FUZZ_CQ_DATA  4
#define FUZZ_PROTO    1
#else
#define FUZZ_NAMES    "efa", "efa-direct", "rdmap0s6-rdm", "rdmap0s6-dgrm", "", "shm"
#define FUZZ_MODE     (FI_CONTEXT | FI_CONTEXT2)
#define FUZZ_MR_MODE  (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define FUZZ_CQ_DATA  4
#define FUZZ_PROTO    4
#endif

#endif
