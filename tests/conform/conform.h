// SPDX-License-Identifier: BSD-2-Clause
// What the files of the conformance suite share: a test's table row, the run-time view that it gets, and its helpers.
#ifndef SF_TESTS_CONFORM_CONFORM_H
#define SF_TESTS_CONFORM_CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fi_ext_softfabric.h"
#include "kit/deprecated.h"

/*
 * Theory of operation
 *
 * A test is one function with a row in its file's table. It is run by one rank alone, or by two ranks, each of which
 * calls it with its own struct ct and looks at ct->rank. The ranks are two threads of a process with one domain (mode
 * one) or two processes (modes two and udp); they find each other through a socket pair, which also carries barriers.
 * Every run is a fresh process, so that its environment is its own and a crash costs one test. A check that fails
 * prints where and why and ends the process.
 *
 * The device's counters assert that the messages took the path that the mode stands for.
 */

enum ct_mode { CT_ONE, CT_TWO, CT_UDP, CT_MODE_NUM };

/* What must be known of a provider beforehand; all else is learned from fi_getinfo. One row each, in provs.c. */
enum { /* ct_prov.has */
	CT_HAS_RMA_DATA = 1,   /* FI_REMOTE_CQ_DATA with writes */
	CT_HAS_RIGHTS = 2,     /* regions keep FI_REMOTE_READ and FI_REMOTE_WRITE apart */
	CT_HAS_CONTEXTS = 4,   /* scalable endpoints, shared contexts */
	CT_HAS_AV_EVENT = 8,   /* FI_EVENT and named address vectors */
	CT_HAS_WAIT_FD = 16,   /* CQs to wait for, by fd too */
	CT_HAS_ERR_DATA = 32,  /* error entries of sends name both addresses */
	CT_HAS_ATOMIC_SIZES = 64, /* max_order_*_size say that atomics are in order */
	/* delivery complete says more than that an unexpected message has come: it was matched */
	CT_HAS_DC_MATCHED = 128,
	CT_HAS_AUTO = 256,        /* FI_PROGRESS_AUTO */
	CT_HAS_AV_USES = 512,     /* an address inserted twice goes with the second removal */
	CT_NO_EQ_BIND = 1024,     /* endpoints take no EQ */
	CT_AV_TWICE = 2048,       /* an address inserted twice into a table has two names */
	CT_REFUSES = 8192,        /* a send to where nobody is fails at once; gone says how */
	CT_NO_PIN = 16384,        /* registration does not look at the memory */
	/* one-sided operations want the target's program to make progress, or FI_PROGRESS_AUTO */
	CT_NO_SILENT = 4096
};
struct ct_variant {
	const char *name, *env;
	unsigned flag;         /* CT_GENS or CT_LOSSY: tests that run under it */
	uint64_t without_mr;   /* mr_mode bits that are not offered */
	uint32_t protocol;     /* asked for */
	enum fi_av_type av_type; /* 0: FI_AV_TABLE */
	enum fi_progress progress; /* of data, asked for */
	const char *skip;      /* pattern of tests that make no sense under it, for the reason given in provs.c */
};
struct ct_prov {
	const char *name;
	const char *udp_env;   /* turns shared memory off; NULL: no mode udp */
	const char *stat_shm, *stat_net; /* counters of frames by path */
	unsigned has;
	uint64_t on_request;   /* capabilities that an info of FI_EP_RDM has only if hints ask for them */
	uint64_t btl_mr_mode;  /* what Open MPI's btl/ofi must ask besides what it always does */
	size_t tx_max, rx_max; /* largest context sizes; 0: those of the info */
	uint32_t min_version;  /* of the API: below it no memory registration mode of the provider can be named */
	uint32_t no_atomic_ops; /* bit per fi_op that integers lack */
	const char *addr_bytes, *addr_text; /* an address, and its text as the real provider writes it */
	/* as programs read a text back; its scheme is the provider's name */
	bool (*parse_addr)(const char *text, uint8_t *addr);
	const char *err_text[2]; /* what err_data of a failed send contains; NULL: nothing */
	/* of a send to an address that nobody has any more; err 0: one of several */
	struct { int err, prov_errno; const char *text; } gone;
	struct { int err, prov_errno; } lost; /* of one-sided operations whose target's memory has gone */
	void (*make_addr)(uint8_t *addr, uint32_t i); /* one's own address becomes the i-th other one */
	const struct ct_variant *variants;
};
const struct ct_prov *ct_prov_find(const char *name);

enum { /* ct_test.flags */
	CT_SOLO = 1,     /* one rank; run in mode one only */
	CT_NO_ONE = 2,   /* makes sense between processes only */
	CT_GENS = 4,     /* also under every hardware generation of the provider, and its other variants */
	CT_LOSSY = 8,    /* also over a lossy network (mode udp) */
	CT_RAW = 16,     /* opens its objects itself */
	CT_ANY_PATH = 32, /* do not assert the path */
	CT_COLD = 64     /* its process begins libfabric itself; the others inherit it begun */
};

struct ct;
struct ct_test {
	const char *name;     /* group_case */
	void (*run)(struct ct *c);
	uint64_t caps;        /* asked of fi_getinfo; skipped only if the provider does not advertise them */
	enum fi_ep_type type; /* 0: FI_EP_RDM */
	unsigned flags;
	const char *covers;   /* words for the meta-test: "FI_MSG FI_SEND inject_size" */
	const char *env;      /* "NAME=value NAME=value" */
	const char *prov;     /* of this provider only */
	unsigned deadline_s;  /* 0: 30 */
};

#define CT_CTX_NUM 4096
struct ct {
	const struct ct_test *t;
	const char *prov;
	const struct ct_prov *p;
	const struct ct_variant *v;  /* never NULL */
	enum ct_mode mode;
	int rank, peer_fd;
	uint64_t seed, rng;
	double slow;                 /* factor on deadlines */
	uint8_t *shared;             /* CT_SHARED bytes that both ranks see, in every mode */
	/* set before ct_open(), or left 0 */
	struct {
		uint32_t version;        /* API version; 0: 1.17 */
		uint64_t caps, mr_mode, msg_order, op_flags, tx_bind, rx_bind, mode;
		uint32_t protocol;       /* of this test; 0: the variant's */
		uint64_t cntr_flags;     /* bind a counter with these flags */
		enum fi_cq_format format;
		size_t cq_size;
		enum fi_progress progress;
		enum fi_threading threading;
		enum fi_resource_mgmt rm;
		enum fi_av_type av_type;
		bool one_cq, eq, no_enable;
	} want;
	/* objects of ct_open() */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *txcq, *rxcq;
	struct fid_cntr *cntr;
	struct fid_eq *eq;
	struct fid_ep *ep;
	fi_addr_t self, peer;
	uint8_t addr[64], peer_addr[64];
	size_t addr_len;
	struct fi_softfabric_ops_stats *stats;
	bool own_domain, traffic;
	struct fi_context2 ctx[CT_CTX_NUM];
};
#define CT_SHARED (1 << 20)

/* --- checks --- */
void ct_fail(const struct ct *c, const char *file, int line, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
void ct_skip(const struct ct *c, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
#define FAIL(...) ct_fail(c, __FILE__, __LINE__, __VA_ARGS__)
#define CHECK(cond_, fmt_, ...)                                                                    \
	do {                                                                                       \
		if (!(cond_))                                                                      \
			FAIL("%s: " fmt_, #cond_, ##__VA_ARGS__);                                  \
	} while (0)
/* The call returns exactly this. */
#define RET(want_, call_)                                                                          \
	do {                                                                                       \
		long got_ = (long)(call_);                                                         \
		if (got_ != (long)(want_))                                                         \
			FAIL("%s returned %ld (%s), not %ld (%s)", #call_, got_,                   \
			     ct_err(got_), (long)(want_), ct_err((long)(want_)));                  \
	} while (0)
#define OK(call_) RET(0, call_)
const char *ct_err(long ret);

/* --- objects --- */
/** ct_hints() - Hints as the test's row and c->want ask; fi_freeinfo() it. */
struct fi_info *ct_hints(struct ct *c);
/** ct_open() - Everything from fi_getinfo to an enabled endpoint that knows its peer. */
void ct_open(struct ct *c);
/** ct_open_to_domain() - Info, fabric, domain only. */
void ct_open_to_domain(struct ct *c);
/** ct_connect() - Exchange addresses with the other rank and insert them. */
void ct_connect(struct ct *c);
/** ct_close() - No stray completion is left, the path was right; closes all. */
void ct_close(struct ct *c);
struct fid_cq *ct_cq(struct ct *c, size_t size, enum fi_cq_format format);
struct fid_av *ct_av(struct ct *c);
void ct_get_name(struct ct *c, struct fid_ep *ep, uint8_t addr[64], size_t *len);
/** ct_ep2() - One more enabled endpoint with CQ and AV of its own on c->domain. */
struct ct_ep2 {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	uint8_t addr[64];
	size_t addr_len;
};
void ct_ep2_open(struct ct *c, struct ct_ep2 *e);
void ct_ep2_close(struct ct *c, struct ct_ep2 *e);

/* --- between ranks --- */
void ct_barrier(struct ct *c);      /* drives the endpoint while it waits */
void ct_barrier_idle(struct ct *c); /* makes no libfabric call while it waits */
void ct_swap(struct ct *c, const void *out, void *in, size_t len);
uint64_t ct_rand(struct ct *c);
uint64_t ct_below(struct ct *c, uint64_t n);
uint64_t ct_now_ms(void);

/* --- memory --- */
struct ct_buf {
	uint8_t *mem;        /* len bytes, between guards */
	size_t len;
	struct fid_mr *mr;
	void *desc;
	uint64_t key, base;  /* what a peer names it by */
	uint8_t *block;
	size_t block_len;
};
/* @misalign: of mem against 64. @access: FI_REMOTE_READ ..., registered if not 0 or if the provider needs it. */
void ct_buf(struct ct *c, struct ct_buf *b, size_t len, unsigned misalign, uint64_t access);
void ct_buf_free(struct ct *c, struct ct_buf *b); /* also checks the guards */
/** ct_mr() - A region that peers may use, bound to c->ep and enabled where that is asked for. */
struct fid_mr *ct_mr(struct ct *c, void *mem, size_t len, uint64_t access, uint64_t key);
/* the address by which a peer names the begin of a region at @mem */
uint64_t ct_base(const struct ct *c, const void *mem);
void ct_guards(struct ct *c, const struct ct_buf *b);
void ct_fill(void *mem, size_t len, uint64_t seed);
bool ct_matches(const void *mem, size_t len, uint64_t seed);
void ct_adapter_sync(struct ct *c);
void ct_verify(struct ct *c, const void *mem, size_t len, uint64_t seed, const char *what);
void ct_share(struct ct *c, const struct ct_buf *b, struct fi_rma_iov *peer_has); /* swaps {base, len, key} */
/* What most one-sided tests need: memory for the peer, as much of our own, and where the peer's lies. */
struct ct_window {
	struct ct_buf b, mine;
	struct fi_rma_iov at;
};
void ct_window(struct ct *c, struct ct_window *w, size_t len, uint64_t access);
void ct_window_free(struct ct *c, struct ct_window *w);

/* --- progress and completions --- */
void ct_progress(struct ct *c);
/**
 * ct_again() - For loops around calls: true for -FI_EAGAIN after some progress; false for 0; anything else fails the
 * test.
 */
bool ct_again(struct ct *c, ssize_t ret);
struct ct_comp {
	struct fi_cq_tagged_entry e;
	fi_addr_t src;
};
/** ct_comp() - The next completion of @cq, which must be a success. */
struct ct_comp ct_comp(struct ct *c, struct fid_cq *cq);
/**
 * ct_comp_err() - The next entry of @cq, which must be an error with the flags @flags, those that a success would have;
 * 0: the caller looks.
 */
struct fi_cq_err_entry ct_comp_err(struct ct *c, struct fid_cq *cq, uint64_t flags);
/** ct_succeeds() - The next entry of @cq, which may be either: is it a success? An error is one of ct_comp_err(). */
bool ct_succeeds(struct ct *c, struct fid_cq *cq, uint64_t flags);
/** ct_tx() - The next completion of the transmit CQ has this context and these flags. */
void ct_tx(struct ct *c, void *context, uint64_t flags);
struct ct_comp ct_rx(struct ct *c, void *context, uint64_t flags, size_t len);
/** ct_peek() - fi_trecvmsg() with FI_PEEK, FI_CLAIM or FI_DISCARD among @flags. */
void ct_peek(struct ct *c, uint64_t tag, uint64_t flags, void *ctx);
/** ct_peeked() - The message with @tag, which may be on its way still: ct_peek() until it is there. */
struct ct_comp ct_peeked(struct ct *c, uint64_t tag, uint64_t flags);
void ct_no_comp(struct ct *c, struct fid_cq *cq); /* nothing now and nothing after a while */
uint64_t ct_stat(struct ct *c, const char *name);
bool ct_has_stats(const struct ct *c);

/** ct_tag() - @tag with the bits that mem_tag_format offers. */
uint64_t ct_tag(const struct ct *c, uint64_t tag);

/* --- messages: one description for FI_MSG and FI_TAGGED and all their calls --- */
enum ct_call { CT_SEND, CT_SENDV, CT_SENDMSG, CT_INJECT, CT_SENDDATA, CT_INJECTDATA, CT_CALL_NUM };
struct ct_msg {
	enum ct_call call;   /* receives: SEND, SENDV, SENDMSG */
	bool tagged;
	unsigned iov_cnt;    /* SENDV, SENDMSG: pieces; 0: 1 */
	uint64_t tag, ignore, data, flags;
	fi_addr_t addr;
	void *ctx;
	uint8_t *mem;
	size_t len;
	struct ct_buf *buf;  /* whose desc applies; may be NULL */
};
ssize_t ct_post_send(struct ct *c, const struct ct_msg *m);
ssize_t ct_post_recv(struct ct *c, const struct ct_msg *m);
void ct_send(struct ct *c, const struct ct_msg *m); /* retries */
void ct_recv(struct ct *c, const struct ct_msg *m);
/** ct_send_gone() - Post @m to where nobody is. False: it was refused, as this provider does, and completes nowhere. */
bool ct_send_gone(struct ct *c, const struct ct_msg *m);
/** ct_split() - @len bytes at @mem as @n random pieces, some of them empty. */
void ct_split(struct ct *c, uint8_t *mem, size_t len, unsigned n, struct iovec *iov);
bool ct_completes(const struct ct_msg *m); /* does this call write a completion? */
unsigned ct_iov_max(const struct ct *c, unsigned n); /* at most @n and at most what one call takes */
/* sweep.c: whole exchanges, for FI_MSG and FI_TAGGED alike. Both ranks call them. */
void ct_sweep(struct ct *c, bool tagged, enum ct_call call, uint64_t flags); /* every size, both directions at once */
void ct_stream(struct ct *c, bool tagged, unsigned cnt, bool preposted);     /* mixed sizes and calls, order kept */
void ct_unexpected(struct ct *c, bool tagged);  /* all sent before the first receive is posted */
void ct_truncate(struct ct *c, bool tagged);
void ct_selective(struct ct *c, bool tagged);
void ct_cancel(struct ct *c, bool tagged);
void ct_inject_limits(struct ct *c, bool tagged);
void ct_delivery(struct ct *c, bool tagged);    /* delivery complete: the data is there when the sender is told */
void ct_self(struct ct *c, bool tagged);
void ct_flood(struct ct *c, bool tagged);       /* until -FI_EAGAIN, against a receiver that does nothing */
/* Sizes where protocols change, ends with SIZE_MAX. */
extern const size_t ct_sizes[];

/* --- the tables --- */
extern const struct ct_test msg_tests[], tagged_tests[], rma_tests[], atomic_tests[], cq_tests[], cntr_tests[],
	info_tests[], av_tests[], bad_tests[], life_tests[], dgram_tests[], thread_tests[], cxi_tests[], cxi_av_tests[],
	cxi_fc_tests[], cxi_wait_tests[], efa_tests[], opx_tests[], opx_first_tests[], opx_port_tests[],
	opx_proto_tests[], opx_api_tests[], zcpy_tests[], wait_tests[], clients_table_tests[], clients_tests[],
	gone_tests[], meta_tests[];
extern const struct ct_test *const ct_tables[];

#endif
