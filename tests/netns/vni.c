// SPDX-License-Identifier: BSD-2-Clause
// VNI isolation between hosts: vni recv FILE waits until FILE.done is there; vni send FILE sends to whoever wrote FILE.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "fi_ext_softfabric.h"

#define MSGS    10
#define LEN     3000
#define LIMIT_S 60

struct place {
	uint8_t addr[64];
	size_t addr_len;
	uint64_t key;
};

static struct {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t mem[MSGS][LEN];
} w;

#define OK(call_)                                                                                        \
	do {                                                                                             \
		long ret_ = (long)(call_);                                                               \
		if (ret_) {                                                                              \
			printf("%s: %ld (%s)\n", #call_, ret_, fi_strerror((int)-ret_));                 \
			exit(1);                                                                         \
		}                                                                                        \
	} while (0)

static void world_open(void)
{
	struct fi_info *h = fi_allocinfo();
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG};
	struct fi_av_attr av = {0};

	h->fabric_attr->prov_name = strdup("cxi");
	h->ep_attr->type = FI_EP_RDM;
	h->caps = FI_MSG | FI_RMA;
	h->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, h, &w.info));
	fi_freeinfo(h);
	OK(fi_fabric(w.info->fabric_attr, &w.fabric, NULL));
	OK(fi_domain(w.fabric, w.info, &w.domain, NULL));
	OK(fi_av_open(w.domain, &av, &w.av, NULL));
	OK(fi_cq_open(w.domain, &cq, &w.cq, NULL));
	OK(fi_endpoint(w.domain, w.info, &w.ep, NULL));
	OK(fi_ep_bind(w.ep, &w.av->fid, 0));
	OK(fi_ep_bind(w.ep, &w.cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(w.ep));
	OK(fi_mr_reg(w.domain, w.mem, sizeof(w.mem), FI_REMOTE_WRITE, 0, 0, 0, &w.mr, NULL));
	OK(fi_mr_bind(w.mr, &w.ep->fid, 0));
	OK(fi_mr_enable(w.mr));
}

static void world_close(void)
{
	OK(fi_close(&w.mr->fid));
	OK(fi_close(&w.ep->fid));
	OK(fi_close(&w.cq->fid));
	OK(fi_close(&w.av->fid));
	OK(fi_close(&w.domain->fid));
	OK(fi_close(&w.fabric->fid));
	fi_freeinfo(w.info);
}

/* 1: one operation completed; 0: none now; below: one ended with that error of the provider, negated. */
static int next_done(void)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_msg_entry e;
	ssize_t n = fi_cq_read(w.cq, &e, 1);

	if (n != -FI_EAVAIL)
		return n == 1;
	OK(fi_cq_readerr(w.cq, &err, 0) != 1);
	return -err.prov_errno;
}

static uint64_t counter(const char *name)
{
	struct fi_softfabric_ops_stats *stats;
	uint64_t v;

	OK(fi_open_ops(&w.domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&stats, NULL));
	OK(stats->read(w.domain, name, &v));
	return v;
}

static void receive(const char *path)
{
	char done[256], tmp[256];
	struct place p = {.addr_len = sizeof(p.addr), .key = fi_mr_key(w.mr)};
	time_t end = time(NULL) + LIMIT_S;
	int got = 0, touched = 0;
	FILE *f;

	snprintf(done, sizeof(done), "%s.done", path);
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	OK(fi_getname(&w.ep->fid, p.addr, &p.addr_len));
	for (int i = 0; i < MSGS / 2; i++) /* the others come unexpected */
		OK(fi_recv(w.ep, w.mem[i], 100, NULL, FI_ADDR_UNSPEC, NULL));
	f = fopen(tmp, "we");
	OK(!f || fwrite(&p, sizeof(p), 1, f) != 1 || fclose(f) || rename(tmp, path));
	while (access(done, F_OK) && time(NULL) < end)
		got += next_done() == 1;
	for (int i = 0; i < 100; i++, usleep(2000)) /* the sender was done before we looked */
		while (next_done() == 1)
			got++;
	for (size_t i = 0; i < sizeof(w.mem); i++)
		touched += w.mem[i / LEN][i % LEN] != 0;
	printf("received %d touched %d vni_not_found %llu\n", got, touched,
	       (unsigned long long)counter("rmu_ptl_invld_vni_cntr"));
}

static void send_all(const char *path)
{
	static uint8_t out[LEN];
	time_t end = time(NULL) + LIMIT_S;
	int ok = 0, failed = 0, last = 0;
	struct place p;
	fi_addr_t to;
	FILE *f;

	while (!(f = fopen(path, "re")) && time(NULL) < end)
		usleep(10000);
	OK(!f || fread(&p, sizeof(p), 1, f) != 1);
	fclose(f);
	memset(out, 0x5a, sizeof(out));
	OK(fi_av_insert(w.av, p.addr, 1, &to, 0, NULL) != 1);
	for (int i = 0; i < MSGS; i++) {
		int n = 0;
		ssize_t ret;

		do {
			ret = i % 2 ? fi_write(w.ep, out, LEN, NULL, to, 0, p.key, NULL)
				    : fi_send(w.ep, out, 100, NULL, to, NULL);
			if (ret == -FI_EAGAIN)
				next_done();
		} while (ret == -FI_EAGAIN);
		OK(ret);
		while (!(n = next_done()) && time(NULL) < end)
			;
		ok += n == 1;
		failed += n < 0;
		last = n < 0 ? -n : last;
	}
	printf("sent %d failed %d errno %d\n", ok, failed, last);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	world_open();
	if (!strcmp(argv[1], "recv"))
		receive(argv[2]);
	else
		send_all(argv[2]);
	world_close();
	return 0;
}
