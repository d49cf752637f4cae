// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of cxi: asynchronous, shared between processes by name, with IDs of the user's.
#include "conform.h"

#include <stdlib.h>
#include <unistd.h>

/* Rank 0 makes it and says by events what went in; rank 1 reads it, and both send by the same fi_addr. */
static void cxi_named_av(struct ct *c)
{
	struct fi_av_attr attr = {.flags = c->rank ? FI_READ : FI_EVENT};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
	struct fi_eq_entry e;
	uint8_t all[128], got[64];
	struct fid_eq *eq = NULL;
	struct fid_av *av;
	size_t len = c->addr_len;
	uint32_t event;
	const fi_addr_t *shown;
	fi_addr_t fi[2];
	char name[64];

	ct_open(c);
	len = c->addr_len;
	snprintf(name, sizeof(name), "conform-%llx", (unsigned long long)c->seed);
	attr.name = name;
	if (!c->rank) {
		memcpy(all, c->addr, len);
		memcpy(all + len, c->peer_addr, len);
		OK(fi_av_open(c->domain, &attr, &av, NULL));
		RET(-FI_ENOEQ, fi_av_insert(av, all, 2, fi, 0, NULL));
		OK(fi_eq_open(c->fabric, &eq_attr, &eq, NULL));
		OK(fi_av_bind(av, &eq->fid, 0));
		OK(fi_av_insert(av, all, 2, fi, 0, c));
		RET((long)sizeof(e), fi_eq_read(eq, &event, &e, sizeof(e), 0));
		CHECK(event == FI_AV_COMPLETE && e.data == 2 && e.context == c && e.fid == &av->fid,
		      "event %u, %llu addresses", event, (unsigned long long)e.data);
		CHECK(fi[0] == 0 && fi[1] == 1, "fi_addr %llu and %llu", (unsigned long long)fi[0],
		      (unsigned long long)fi[1]);
	}
	ct_barrier(c);
	if (c->rank) {
		OK(fi_av_open(c->domain, &attr, &av, NULL));
		OK(fi_av_lookup(av, 0, got, &len));
		CHECK(!memcmp(got, c->peer_addr, len), "address 0 is not rank 0's");
		shown = attr.map_addr; /* how who reads learns them */
		CHECK(shown && shown[0] == 0 && shown[1] == 1 && shown[2] == FI_ADDR_NOTAVAIL,
		      "map_addr does not show fi_addr 0 and 1");
		RET(0, fi_av_insert(av, c->addr, 1, fi, 0, NULL)); /* it may only look */
	}
	len = c->addr_len;
	OK(fi_av_lookup(av, 1, got, &len));
	CHECK(!memcmp(got, c->rank ? c->addr : c->peer_addr, len), "address 1 is not rank 1's");
	ct_barrier(c);
	OK(fi_close(&av->fid));
	if (eq)
		OK(fi_close(&eq->fid));
	ct_barrier(c);
	attr.flags = FI_READ; /* the last one took it away */
	RET(-FI_ENOENT, fi_av_open(c->domain, &attr, &av, NULL));
	ct_close(c);
}

/* What a completion says of the sender is the ID that the user gave it. */
static void cxi_user_id(struct ct *c)
{
	struct fi_cq_tagged_entry t;
	fi_addr_t src = FI_ADDR_NOTAVAIL, id = 4711;
	uint8_t out[8] = {1}, in[8];
	ssize_t ret;

	ct_open(c);
	/* once more, now with an ID: the same fi_addr */
	RET(1, fi_av_insert(c->av, c->addr, 1, &id, FI_AV_USER_ID, NULL));
	CHECK(id == c->self, "fi_addr %llu", (unsigned long long)id);
	OK(fi_recv(c->ep, in, 8, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	OK(fi_send(c->ep, out, 8, NULL, c->self, &c->ctx[1]));
	while ((ret = fi_cq_readfrom(c->rxcq, &t, 1, &src)) == -FI_EAGAIN)
		;
	RET(1, ret);
	while ((ret = fi_cq_read(c->txcq, &t, 1)) == -FI_EAGAIN)
		;
	RET(1, ret);
	CHECK(src == 4711, "source %llu", (unsigned long long)src);
	ct_close(c);
}

const struct ct_test cxi_av_tests[] = {
	{"cxi_named_av", cxi_named_av, FI_MSG | FI_SHARED_AV, 0, CT_ANY_PATH, "FI_SHARED_AV", NULL, "cxi"},
	{"cxi_user_id", cxi_user_id, FI_MSG | FI_SOURCE | FI_AV_USER_ID, 0, CT_SOLO | CT_ANY_PATH, "FI_AV_USER_ID",
	 NULL, "cxi"},
	{0},
};
