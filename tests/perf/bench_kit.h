// SPDX-License-Identifier: BSD-2-Clause
// What the benchmarks share: one endpoint of any provider through the public interface, with
// everything it needs.
#ifndef SF_TESTS_PERF_BENCH_KIT_H
#define SF_TESTS_PERF_BENCH_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define BENCH_ADDR_MAX 512

struct bench_ep {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr; /* of receives; NULL without bench_opt.cntr */
	struct fid_ep *ep;
	struct fid_mr *mr;
	char *buf; /* tx_len bytes to send, then rx_len bytes to receive into */
	size_t buf_len;
	void *desc;
	uint64_t rma_base, rma_key;
	fi_addr_t peer;
	size_t rx_depth; /* receives that may be posted */
};

struct bench_opt {
	const char *prov;
	size_t buf_len;
	size_t rx_depth; /* receives that will be posted at once; 0: the provider's default */
	bool rma;
	enum fi_wait_obj cq_wait; /* of the queue; 0: it is polled */
	bool cntr;                /* a counter of receives that can be waited for */
	bool auto_progress;       /* the provider is to serve peers while we call nothing */
};

/* What a peer must know. */
struct bench_name {
	char addr[BENCH_ADDR_MAX];
	size_t addr_len;
	uint64_t rma_base, rma_key;
};

#define BENCH_CHECK(call_)                                                                         \
	do {                                                                                       \
		long rc_ = (long)(call_);                                                          \
		if (rc_ < 0)                                                                       \
			bench_die(#call_, rc_);                                                    \
	} while (0)

/** bench_die() - Says what failed, of which provider if one was opened, and ends the process with status 2. */
void bench_die(const char *what, long rc) __attribute__((noreturn));
/** bench_ep_open() - An enabled endpoint with its own fabric, address vector, queue and registered
 * buffer. */
void bench_ep_open(struct bench_ep *e, const struct bench_opt *opt);
/** bench_ep_twin() - A second endpoint in the domain of @e, with its own queue and buffer. */
void bench_ep_twin(struct bench_ep *e, const struct bench_ep *other, const struct bench_opt *opt);
void bench_ep_name(const struct bench_ep *e, struct bench_name *out);
void bench_ep_connect(struct bench_ep *e, const struct bench_name *peer);
/** bench_ep_know() - Puts @cnt peers that do not exist into the address vector; how many were taken. */
size_t bench_ep_know(struct bench_ep *e, size_t cnt);
void bench_ep_close(struct bench_ep *e);
/** bench_poll() - Completions taken now, 0 if none; ends the process on an error completion. */
int bench_poll(struct bench_ep *e);
uint64_t bench_now_ns(void);
/** bench_memory() - Memory of this process, bytes: "Rss" all, "Pss" what others have as well by its share. */
uint64_t bench_memory(const char *what);

#endif
