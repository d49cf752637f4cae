// SPDX-License-Identifier: BSD-2-Clause
// One endpoint of any provider, opened as MPI would.
#include "bench_kit.h"

#include <inttypes.h>
#include <sched.h>
#include <time.h>

#define API FI_VERSION(1, 15)

static const char *g_prov = "no provider"; /* opened last */

void bench_die(const char *what, long rc)
{
	fprintf(stderr, "bench: %s: %s: %ld %s\n", g_prov, what, rc, fi_strerror((int)-rc));
	exit(2);
}

uint64_t bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool is_ip(const char *prov)
{
	return !strncmp(prov, "tcp", 3) || !strncmp(prov, "udp", 3) || !strncmp(prov, "sockets", 7);
}

static void info_get(struct bench_ep *e, const struct bench_opt *opt)
{
	struct fi_info *hints = fi_allocinfo();
	const char *node = is_ip(opt->prov) ? "127.0.0.1" : NULL;
	int rc;

	g_prov = opt->prov;
	hints->fabric_attr->prov_name = strdup(opt->prov);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_MSG | (opt->rma ? FI_RMA : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode =
		FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ENDPOINT;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = opt->auto_progress ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	if (opt->rma)
		hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	hints->rx_attr->size = opt->rx_depth;
	rc = fi_getinfo(API, node, NULL, node ? FI_SOURCE : 0, hints, &e->info);
	if (rc) {
		/* Some providers take no size above their own. */
		hints->rx_attr->size = 0;
		rc = fi_getinfo(API, node, NULL, node ? FI_SOURCE : 0, hints, &e->info);
	}
	if (rc)
		bench_die("fi_getinfo", rc);
	fi_freeinfo(hints);
}

static void buf_open(struct bench_ep *e, const struct bench_opt *opt)
{
	uint64_t access = FI_SEND | FI_RECV;
	void *p = NULL;

	if (opt->rma)
		access |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	if (posix_memalign(&p, 4096, opt->buf_len))
		bench_die("posix_memalign", -FI_ENOMEM);
	e->buf = p;
	e->buf_len = opt->buf_len;
	memset(e->buf, 1, e->buf_len);
	if (!opt->rma && !(e->info->domain_attr->mr_mode & FI_MR_LOCAL))
		return;
	BENCH_CHECK(fi_mr_reg(e->domain, e->buf, e->buf_len, access, 0, 77, 0, &e->mr, NULL));
	if (e->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		BENCH_CHECK(fi_mr_bind(e->mr, &e->ep->fid, 0));
		BENCH_CHECK(fi_mr_enable(e->mr));
	}
	e->desc = fi_mr_desc(e->mr);
	e->rma_key = fi_mr_key(e->mr);
	e->rma_base = e->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)e->buf : 0;
}

static void ep_open(struct bench_ep *e, const struct bench_opt *opt)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 16};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 4096, .wait_obj = opt->cq_wait};
	int rc, tries = 0;

	BENCH_CHECK(fi_av_open(e->domain, &av, &e->av, NULL));
	BENCH_CHECK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	BENCH_CHECK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	BENCH_CHECK(fi_ep_bind(e->ep, &e->av->fid, 0));
	BENCH_CHECK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	if (opt->cntr) {
		struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};

		BENCH_CHECK(fi_cntr_open(e->domain, &attr, &e->cntr, NULL));
		BENCH_CHECK(fi_ep_bind(e->ep, &e->cntr->fid, FI_RECV));
	}
	/* Stock shm is busy for a moment when another process opens the same. */
	while ((rc = fi_enable(e->ep)) == -FI_EBUSY && tries++ < 1000)
		sched_yield();
	BENCH_CHECK(rc);
	e->rx_depth = e->info->rx_attr->size;
	buf_open(e, opt);
}

void bench_ep_open(struct bench_ep *e, const struct bench_opt *opt)
{
	memset(e, 0, sizeof(*e));
	info_get(e, opt);
	BENCH_CHECK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	BENCH_CHECK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	ep_open(e, opt);
}

void bench_ep_twin(struct bench_ep *e, const struct bench_ep *other, const struct bench_opt *opt)
{
	memset(e, 0, sizeof(*e));
	info_get(e, opt); /* a fresh one: an address that a socket is bound to can be used once */
	e->domain = other->domain;
	ep_open(e, opt);
}

void bench_ep_name(const struct bench_ep *e, struct bench_name *out)
{
	memset(out, 0, sizeof(*out));
	out->addr_len = sizeof(out->addr);
	BENCH_CHECK(fi_getname(&e->ep->fid, out->addr, &out->addr_len));
	out->rma_base = e->rma_base;
	out->rma_key = e->rma_key;
}

void bench_ep_connect(struct bench_ep *e, const struct bench_name *peer)
{
	if (fi_av_insert(e->av, peer->addr, 1, &e->peer, 0, NULL) != 1)
		bench_die("fi_av_insert", -FI_EINVAL);
	e->rma_base = peer->rma_base;
	e->rma_key = peer->rma_key;
}

/* Names of peers that do not exist: the same adapter format, other numbers (efa: 16 bytes GID, 2
 * QPN, 4 Q_Key from 20; cxi: 9 bits PID, 20 bits NIC address; opx: receive context, LID from 5). */
static void name_of(const struct bench_ep *e, const struct bench_name *mine, size_t idx,
		    unsigned char out[BENCH_ADDR_MAX])
{
	memcpy(out, mine->addr, mine->addr_len);
	if (e->info->addr_format == FI_ADDR_OPX) {
		size_t lid = idx / 160 + 1;

		out[0] = out[2] = out[3] = out[7] = (unsigned char)(idx % 160);
		out[5] = (unsigned char)(lid >> 8);
		out[6] = (unsigned char)lid;
		return;
	}
	if (mine->addr_len == 8) {
		uint32_t at = (uint32_t)(idx % 500 | (idx / 500 + 2) << 9);

		for (int i = 0; i < 4; i++)
			out[i] = (unsigned char)(at >> 8 * i);
	}
	if (mine->addr_len != 32)
		return;
	out[14] = (unsigned char)(idx >> 14);
	out[15] = 1;
	out[16] = (unsigned char)(idx & 0xff);
	out[17] = (unsigned char)(0x40 | (idx >> 8 & 0x3f));
	out[20] = 0x21;
}

size_t bench_ep_know(struct bench_ep *e, size_t cnt)
{
	unsigned char name[BENCH_ADDR_MAX];
	struct bench_name mine;
	size_t done = 0;
	fi_addr_t addr;

	bench_ep_name(e, &mine);
	for (size_t i = 0; i < cnt; i++) {
		name_of(e, &mine, i, name);
		done += fi_av_insert(e->av, name, 1, &addr, 0, NULL) == 1;
	}
	return done;
}

void bench_ep_close(struct bench_ep *e)
{
	fi_close(&e->ep->fid);
	if (e->mr)
		fi_close(&e->mr->fid);
	if (e->cntr)
		fi_close(&e->cntr->fid);
	fi_close(&e->cq->fid);
	fi_close(&e->av->fid);
	if (e->fabric) {
		fi_close(&e->domain->fid);
		fi_close(&e->fabric->fid);
	}
	fi_freeinfo(e->info);
	free(e->buf);
}

int bench_poll(struct bench_ep *e)
{
	struct fi_cq_tagged_entry wc[16];
	struct fi_cq_err_entry err = {0};
	ssize_t rc = fi_cq_read(e->cq, wc, 16);

	if (rc > 0)
		return (int)rc;
	if (rc == -FI_EAGAIN)
		return 0;
	fi_cq_readerr(e->cq, &err, 0);
	bench_die("completion", -err.err);
}

uint64_t bench_memory(const char *what)
{
	char line[256];
	uint64_t kb = 0, v;
	size_t len = strlen(what);
	FILE *f = fopen("/proc/self/smaps_rollup", "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, what, len) && sscanf(line + len, ": %" SCNu64 " kB", &v) == 1)
			kb = v;
	if (f)
		fclose(f);
	return kb * 1024;
}
