// SPDX-License-Identifier: BSD-2-Clause
// One of two processes between which softfabric bench measures: softfabric-bench PROVIDER ADDRESS|- BYTES.
//
// It talks with the command by lines. It says "name HEX VERSION", the version being that of the libfabric that it has
// loaded, is told "peer HEX", says "ready", and is then told what to do: "lat SIZE OPS ME" or "stream SIZE OPS ME", ME
// being 0 for who sends first, and says "ns NUMBER", or "error SENTENCE" and ends. An end of file ends it.
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define API	 FI_VERSION(1, 15)
#define NAME_MAX_ 512
#define WINDOW	 64 /* messages of a stream between two answers */
#define CTX_CNT	 (2 * WINDOW)
#define BYTES_MAX (1u << 30)
#define TAG	 7

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	void *desc;
	char *tx, *rx;
	size_t bytes;
	fi_addr_t peer;
	uint64_t got, sent, posted, given; /* completions of receives and sends; receives posted, sends that complete */
	struct fi_context2 ctx[CTX_CNT];
};

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("error ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	exit(2);
}

static void check(long rc, const char *what)
{
	if (rc < 0)
		die("%s: %s", what, fi_strerror((int)-rc));
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- an endpoint, as MPI would open it --- */

static void info_get(struct side *s, const char *prov, const char *node)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		die("out of memory");
	hints->fabric_attr->prov_name = strdup(prov);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ENDPOINT;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	check(fi_getinfo(API, node, NULL, node ? FI_SOURCE : 0, hints, &s->info), "fi_getinfo");
	fi_freeinfo(hints);
}

static void buf_open(struct side *s)
{
	size_t len = 2 * s->bytes;
	void *p;

	if (posix_memalign(&p, 4096, len))
		die("no memory for %zu bytes", len);
	memset(p, 1, len);
	s->tx = p;
	s->rx = s->tx + s->bytes;
	if (!(s->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return;
	check(fi_mr_reg(s->domain, p, len, FI_SEND | FI_RECV, 0, 77, 0, &s->mr, NULL), "fi_mr_reg");
	if (s->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		check(fi_mr_bind(s->mr, &s->ep->fid, 0), "fi_mr_bind");
		check(fi_mr_enable(s->mr), "fi_mr_enable");
	}
	s->desc = fi_mr_desc(s->mr);
}

static void side_open(struct side *s, const char *prov, const char *node)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 16};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 4096, .wait_obj = FI_WAIT_NONE};
	uint64_t until = now_ns() + 5000000000u;
	int rc;

	info_get(s, prov, node);
	check(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), "fi_fabric");
	check(fi_domain(s->fabric, s->info, &s->domain, NULL), "fi_domain");
	check(fi_av_open(s->domain, &av, &s->av, NULL), "fi_av_open");
	check(fi_cq_open(s->domain, &cq, &s->cq, NULL), "fi_cq_open");
	check(fi_endpoint(s->domain, s->info, &s->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(s->ep, &s->av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	do { /* stock shm is busy for a moment when another process opens the same */
		rc = fi_enable(s->ep);
	} while (rc == -FI_EBUSY && now_ns() < until);
	check(rc, "fi_enable");
	buf_open(s);
}

static void side_close(struct side *s)
{
	fi_close(&s->ep->fid);
	if (s->mr)
		fi_close(&s->mr->fid);
	fi_close(&s->cq->fid);
	fi_close(&s->av->fid);
	fi_close(&s->domain->fid);
	fi_close(&s->fabric->fid);
	fi_freeinfo(s->info);
	free(s->tx);
}

/* --- messages --- */

static void poll_once(struct side *s)
{
	struct fi_cq_tagged_entry wc[16];
	struct fi_cq_err_entry err = {0};
	ssize_t rc = fi_cq_read(s->cq, wc, 16);

	for (ssize_t i = 0; i < rc; i++) {
		if (wc[i].flags & FI_RECV)
			s->got++;
		else
			s->sent++;
	}
	if (rc >= 0 || rc == -FI_EAGAIN)
		return;
	fi_cq_readerr(s->cq, &err, 0);
	die("a completion says: %s", fi_strerror(err.err));
}

static void post(struct side *s, size_t len)
{
	struct fi_context2 *ctx = &s->ctx[s->posted % WINDOW];
	ssize_t rc;

	while ((rc = fi_trecv(s->ep, s->rx, len, s->desc, FI_ADDR_UNSPEC, TAG, 0, ctx)) == -FI_EAGAIN)
		poll_once(s);
	check(rc, "fi_trecv");
	s->posted++;
}

static void give(struct side *s, size_t len)
{
	bool is_inject = len <= s->info->tx_attr->inject_size;
	struct fi_context2 *ctx = &s->ctx[WINDOW + s->given % WINDOW];
	ssize_t rc;

	for (;;) {
		rc = is_inject ? fi_tinject(s->ep, s->tx, len, s->peer, TAG)
			       : fi_tsend(s->ep, s->tx, len, s->desc, s->peer, TAG, ctx);
		if (rc != -FI_EAGAIN)
			break;
		poll_once(s);
	}
	check(rc, "fi_tsend");
	s->given += !is_inject;
	while (s->given - s->sent >= WINDOW) /* its context is used again */
		poll_once(s);
}

/* Until all that was posted has come, but @left. */
static void await(struct side *s, uint64_t left)
{
	while (s->posted - s->got > left)
		poll_once(s);
}

static void run_lat(struct side *s, size_t len, uint64_t ops, int me)
{
	for (uint64_t i = 0; i < ops; i++) {
		post(s, len);
		if (!me)
			give(s, len);
		await(s, 0);
		if (me)
			give(s, len);
	}
}

static void run_stream(struct side *s, size_t len, uint64_t ops, int me)
{
	for (uint64_t w = 0; w < ops / WINDOW; w++) {
		for (int i = 0; me && i < WINDOW; i++)
			post(s, len);
		if (!me)
			post(s, 1);
		for (int i = 0; !me && i < WINDOW; i++)
			give(s, len);
		await(s, 0);
		if (me)
			give(s, 1);
	}
}

/* Who sends first measures; the other ends with the last message, and both once all sends have completed. */
static void measure(struct side *s, const char *what, size_t len, uint64_t ops, int me)
{
	bool is_lat = !strcmp(what, "lat");
	uint64_t t;

	if (len > s->bytes || !len || (!is_lat && strcmp(what, "stream")))
		die("%s of %zu bytes cannot be measured", what, len);
	run_lat(s, 1, 2, me); /* both are here */
	t = now_ns();
	if (is_lat)
		run_lat(s, len, ops, me);
	else
		run_stream(s, len, ops, me);
	t = now_ns() - t;
	while (s->sent < s->given)
		poll_once(s);
	printf("ns %" PRIu64 "\n", t);
}

/* --- lines --- */

static void name_say(struct side *s)
{
	uint8_t name[NAME_MAX_];
	size_t len = sizeof(name);
	uint32_t v = fi_version();

	check(fi_getname(&s->ep->fid, name, &len), "fi_getname");
	printf("name ");
	for (size_t i = 0; i < len; i++)
		printf("%02x", name[i]);
	printf(" %u.%u\n", FI_MAJOR(v), FI_MINOR(v));
}

static void peer_take(struct side *s, const char *line)
{
	uint8_t name[NAME_MAX_] = {0};
	unsigned byte;
	size_t len = 0;

	if (strncmp(line, "peer ", 5))
		die("there is no peer in: %s", line);
	for (line += 5; len < sizeof(name) && sscanf(line, "%2x", &byte) == 1; line += 2)
		name[len++] = (uint8_t)byte;
	if (fi_av_insert(s->av, name, 1, &s->peer, 0, NULL) != 1)
		die("fi_av_insert takes no such address");
	printf("ready\n");
}

int main(int argc, char **argv)
{
	static struct side s;
	char line[4 * NAME_MAX_], what[16];
	uint64_t ops;
	size_t len;
	int me;

	s.bytes = argc == 4 ? strtoull(argv[3], NULL, 0) : 0;
	if (!s.bytes || s.bytes > BYTES_MAX) {
		fprintf(stderr, "usage: softfabric-bench PROVIDER ADDRESS|- BYTES; softfabric bench runs it\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	side_open(&s, argv[1], strcmp(argv[2], "-") ? argv[2] : NULL);
	name_say(&s);
	if (fgets(line, sizeof(line), stdin))
		peer_take(&s, line);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%15s %zu %" SCNu64 " %d", what, &len, &ops, &me) != 4)
			die("not understood: %s", line);
		measure(&s, what, len, ops, me);
	}
	side_close(&s);
	return 0;
}
