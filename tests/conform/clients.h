// SPDX-License-Identifier: BSD-2-Clause
// Hints of programs that other people wrote: what clients.c (the table) and t_clients.c (the exchanges) share.
// doc/clients.md has the outcome.
#ifndef SF_TESTS_CONFORM_CLIENTS_H
#define SF_TESTS_CONFORM_CLIENTS_H

#include "conform.h"

enum { CL_EFA = 1, CL_CXI = 2, CL_OPX = 4, CL_ALL = 7 };

/* What a client asks for at one try. The next try is what it does after -FI_ENODATA. */
#define CL_TRIES 4
struct client {
	const char *name;   /* of the test, behind "clients_" */
	const char *source; /* file that the values are from */
	unsigned provs;     /* CL_*: those that it can be told to use */
	/* of the API, of each try; 0: that of the core, so that all are tried; no more tries: NO_TRY */
	uint32_t version[CL_TRIES];
	/* @h as of fi_allocinfo(), with the provider's name; @plain: the provider's first info for no hints */
	void (*hints)(struct fi_info *h, const struct fi_info *plain, int try);
	/* CL_*: those that refuse every try, as the contract says: doc/clients.md has the sentence */
	unsigned refused;
	/* what would have to be different: with it they serve, so that nothing else is in the way */
	void (*amend)(struct fi_info *h);
};
#define NO_TRY UINT32_MAX
#define NEWEST FI_VERSION(2, 6)

extern const struct client client_tab[];
const struct client *client_find(const char *name);

/* A provider, by the core or, for versions of the API that it lacks, past it: one or the other in a process. */
struct fi_provider *client_direct(struct ct *c);
/**
 * client_info() - As the client would: one try after the other, at API version @version where the table says 0. NULL:
 * all refused.
 */
struct fi_info *client_info(struct ct *c, const struct client *k, uint32_t version, bool amend);
bool client_is_refused(struct ct *c, const struct client *k);
unsigned client_bit(const struct ct *c); /* CL_* of the provider */

/* --- t_clients_app.c: what these do with their endpoints, after cl_start() ---------------------------------------- */

void cl_nccl_sendrecv(struct ct *c);
void cl_nccl_rdma(struct ct *c);
void cl_nvshmem(struct ct *c);
void cl_nixl(struct ct *c);
void cl_mercury(struct ct *c);
void cl_adios(struct ct *c);
void cl_charm(struct ct *c);
void cl_lci(struct ct *c);

/* --- clients_use.c ----------------------------------------------------------------------------------------------- */

#define CL_LEN	  1000
#define CL_BIG	  60000
#define CL_REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CL_LOCAL  (FI_SEND | FI_RECV | FI_READ | FI_WRITE)

/* Memory that both ranks write, read and send: out of the first half, into the second. */
struct cl_mem {
	uint8_t *p, *in;
	struct fid_mr *mr;
	void *desc;
	struct fi_rma_iov peer; /* the other rank's second half */
};

/* What client @k gets at @version of the API, 0: at its own, into c->info. */
void cl_start(struct ct *c, const struct client *k, uint32_t version);
void cl_domain(struct ct *c);
/* The first queue opened is c->txcq, the last c->rxcq. */
struct fid_cq *cl_cq(struct ct *c, enum fi_cq_format format, size_t size, enum fi_wait_obj wait);
struct fid_av *cl_av(struct ct *c, enum fi_av_type type, size_t count, int rx_bits);
struct fid_cntr *cl_cntr(struct ct *c, enum fi_wait_obj wait);
/* Names of all ranks into @av, in the same order everywhere. Return: the peer's. */
fi_addr_t cl_meet(struct ct *c, struct fid_ep *ep, struct fid_av *av);
/* Closes fids up to NULL in the client's order, which must work, then domain and fabric. */
void cl_finish(struct ct *c, ...);
void cl_mem_open(struct ct *c, struct cl_mem *m, struct fid_ep *ep, uint64_t access);
void cl_mem_close(struct ct *c, struct cl_mem *m);
void cl_verify(struct ct *c, const void *mem, size_t len, const char *what);
void cl_tagged(struct ct *c, struct fid_ep *tx, struct fid_ep *rx, fi_addr_t to, fi_addr_t from, struct cl_mem *m,
	       bool data);
void cl_post_multi(struct ct *c, struct fid_ep *ep, struct cl_mem *m, uint64_t flags);
void cl_am(struct ct *c, struct fid_ep *tx, fi_addr_t to, struct fid_cq *rxcq, struct cl_mem *m, size_t len);
void cl_wait_cntr(struct ct *c, struct fid_cntr *cntr, uint64_t value);
void cl_wait_put(struct ct *c, const struct cl_mem *m, size_t len);
void cl_write_data(struct ct *c, struct fid_ep *ep, fi_addr_t peer, struct cl_mem *m, struct fid_cq *cq, bool by_msg);
void cl_put_get(struct ct *c, struct fid_ep *ep, fi_addr_t peer, struct cl_mem *m, struct fid_cq *cq, bool atomics);

#endif
