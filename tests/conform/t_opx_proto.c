// SPDX-License-Identifier: BSD-2-Clause
// Which protocol of opx carries what, by the documented thresholds at exactly their edges; acknowledgements as asked
// for.
#include "conform.h"

#define TXF (FI_SEND | FI_TAGGED)
#define RXF (FI_RECV | FI_TAGGED)

/* --- protocols ----------------------------------------------------------------------------------- */

/* One tagged message of @len bytes from rank 0 to rank 1. */
static void one_message(struct ct *c, size_t len)
{
	struct ct_buf b;

	ct_buf(c, &b, len, 0, 0);
	struct ct_msg m = {.tagged = true, .tag = len, .addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0],
			   .mem = b.mem, .len = len, .buf = &b};

	if (c->rank) {
		ct_recv(c, &m);
		ct_barrier(c);
		ct_rx(c, &c->ctx[0], RXF, len);
		ct_verify(c, b.mem, len, len, "received");
	} else {
		ct_fill(b.mem, len, len);
		ct_barrier(c);
		ct_send(c, &m);
		ct_tx(c, &c->ctx[0], TXF);
	}
	ct_buf_free(c, &b);
}

/*
 * What carries messages of one length: on one host, and between hosts, there also whether by SDMA and whether out of
 * the bounce buffer.
 */
struct edge {
	size_t len;
	const char *local, *net;
	bool sdma, bounce;
};

#define INJECT_TO_EAGER {0, "tx_inject", "tx_inject"}, {16, "tx_inject", "tx_inject"}, {17, "tx_eager", "tx_eager"}

/* The protocol is chosen by length, at exactly the documented edges; which one carried a message is counted. */
static void edges(struct ct *c, const struct edge *e)
{
	ct_open(c);
	for (; e->net; e++) {
		const char *name = c->mode == CT_UDP ? e->net : e->local;
		uint64_t before = ct_stat(c, name), sdma = ct_stat(c, "tx_sdma_data"), bounce = ct_stat(c, "tx_bounce"),
			 all;

		one_message(c, e->len);
		if (c->rank == 0) {
			all = ct_stat(c, name) - before;
			CHECK(all == 1, "%zu bytes: %s grew by %llu", e->len, name, (unsigned long long)all);
			CHECK((e->sdma && c->mode == CT_UDP) == (ct_stat(c, "tx_sdma_data") > sdma), "%zu bytes: SDMA",
			      e->len);
			CHECK((e->bounce && c->mode == CT_UDP) == (ct_stat(c, "tx_bounce") > bounce),
			      "%zu bytes: bounce buffer", e->len);
		}
		ct_barrier(c);
	}
	ct_close(c);
}

static void opx_edges(struct ct *c)
{
	edges(c, (const struct edge[]){INJECT_TO_EAGER,
				       {8192, "tx_eager", "tx_eager"},
				       {8193, "tx_mp", "tx_mp"},
				       {16384, "tx_mp", "tx_mp"},
				       {16385, "tx_rzv_local", "tx_rzv", true, true},
				       {16386, "tx_rzv_local", "tx_rzv", true},
				       {300000, "tx_rzv_local", "tx_rzv", true},
				       {0}});
}

/* FI_OPX_RZV_MIN_PAYLOAD_BYTES: its ends and something between. Below SDMA's own edge data go by PIO. */
static void opx_rzv_least(struct ct *c)
{
	edges(c, (const struct edge[]){INJECT_TO_EAGER,
				       {63, "tx_eager", "tx_eager"},
				       {64, "tx_rzv_local", "tx_rzv"},
				       {65, "tx_rzv_local", "tx_rzv"},
				       {16384, "tx_rzv_local", "tx_rzv"},
				       {16385, "tx_rzv_local", "tx_rzv", true, true},
				       {0}});
}

static void opx_rzv_some(struct ct *c)
{
	edges(c, (const struct edge[]){{8192, "tx_eager", "tx_eager"},
				       {8193, "tx_mp", "tx_mp"},
				       {16385, "tx_mp", "tx_mp"},
				       {19999, "tx_mp", "tx_mp"},
				       {20000, "tx_rzv_local", "tx_rzv", true},
				       {0}});
}

static void opx_rzv_most(struct ct *c)
{
	edges(c, (const struct edge[]){{16385, "tx_mp", "tx_mp"},
				       {65535, "tx_mp", "tx_mp"},
				       {65536, "tx_rzv_local", "tx_rzv", true},
				       {0}});
}

static void opx_no_mp(struct ct *c)
{
	edges(c, (const struct edge[]){INJECT_TO_EAGER,
				       {8192, "tx_eager", "tx_eager"},
				       {8193, "tx_rzv_local", "tx_rzv"},
				       {16385, "tx_rzv_local", "tx_rzv", true, true},
				       {0}});
}

static void opx_sdma_min(struct ct *c)
{
	edges(c, (const struct edge[]){{16385, "tx_rzv_local", "tx_rzv"},
				       {29999, "tx_rzv_local", "tx_rzv"},
				       {30000, "tx_rzv_local", "tx_rzv", true},
				       {30001, "tx_rzv_local", "tx_rzv", true},
				       {0}});
}

static void opx_no_sdma(struct ct *c)
{
	edges(c, (const struct edge[]){{16384, "tx_mp", "tx_mp"},
				       {16385, "tx_rzv_local", "tx_rzv"},
				       {300000, "tx_rzv_local", "tx_rzv"},
				       {0}});
}

static void opx_bounce(struct ct *c)
{
	edges(c, (const struct edge[]){{16385, "tx_rzv_local", "tx_rzv", true, true},
				       {39999, "tx_rzv_local", "tx_rzv", true, true},
				       {40000, "tx_rzv_local", "tx_rzv", true, true},
				       {40001, "tx_rzv_local", "tx_rzv", true},
				       {0}});
}

/* A port with small packets: what one holds is eager, and what is said of atomics is what an endpoint does. */
static void opx_mtu(struct ct *c)
{
	edges(c, (const struct edge[]){{2048, "tx_eager", "tx_eager"},
				       {2049, "tx_mp", "tx_mp"},
				       {16384, "tx_mp", "tx_mp"},
				       {16385, "tx_rzv_local", "tx_rzv", true, true},
				       {0}});
}

static void opx_mtu_atomics(struct ct *c)
{
	struct fi_atomic_attr attr = {0};
	size_t cnt = 0;

	ct_open(c);
	OK(fi_atomicvalid(c->ep, FI_UINT64, FI_SUM, &cnt));
	OK(fi_query_atomic(c->domain, FI_UINT64, FI_SUM, &attr, 0));
	CHECK(cnt == 2048 / 8 && attr.count == cnt, "%zu for the endpoint, %zu for the domain", cnt, attr.count);
	ct_close(c);
}

/* --- reliability --------------------------------------------------------------------------------- */

#define ACK_MSGS 256

/* So many messages of one packet to rank 1. Return: acknowledgements that it has sent by then. */
static uint64_t acks_of(struct ct *c)
{
	uint8_t mem[64] = {0};
	uint64_t acks;

	ct_open(c);
	for (unsigned i = 0; i < ACK_MSGS; i++) {
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[i], .mem = mem,
				   .len = sizeof(mem)};

		if (c->rank) {
			ct_recv(c, &m);
		} else {
			ct_send(c, &m);
			ct_tx(c, m.ctx, FI_SEND | FI_MSG);
		}
	}
	for (unsigned i = 0; i < ACK_MSGS && c->rank; i++)
		ct_rx(c, &c->ctx[i], FI_RECV | FI_MSG, sizeof(mem));
	acks = c->rank ? ct_stat(c, "rel_acks_tx") : 0;
	ct_barrier(c);
	CHECK(!ct_stat(c, "rel_pings_tx"), "a PING within 2000 s");
	ct_close(c);
	return acks;
}

/*
 * Nobody pings here, so that each acknowledgement is one that FI_OPX_RELIABILITY_SERVICE_PRE_ACK_RATE asks for. What
 * stays on this host needs none but for its first packets.
 */
static void opx_ack_each(struct ct *c)
{
	uint64_t acks = acks_of(c);

	CHECK(!c->rank || (c->mode == CT_UDP ? acks >= ACK_MSGS : acks <= 1), "%llu", (unsigned long long)acks);
}

static void opx_ack_some(struct ct *c)
{
	uint64_t acks = acks_of(c);

	CHECK(!c->rank || (c->mode == CT_UDP ? acks >= ACK_MSGS / 32 - 1 && acks <= ACK_MSGS / 32 + 1 : acks <= 1),
	      "%llu", (unsigned long long)acks);
}

static void opx_ack_none(struct ct *c)
{
	uint64_t acks = acks_of(c);

	CHECK(acks <= (c->mode != CT_UDP), "%llu", (unsigned long long)acks);
}

#define SOLO (CT_SOLO | CT_ANY_PATH)
#define ACKS "FI_OPX_RELIABILITY_SERVICE_USEC_MAX=2000000000 FI_OPX_RELIABILITY_SERVICE_PRE_ACK_RATE="
const struct ct_test opx_proto_tests[] = {
	{"opx_edges", opx_edges, FI_TAGGED, 0, 0, NULL, NULL, "opx"},
	{"opx_rzv_least", opx_rzv_least, FI_TAGGED, 0, 0, NULL, "FI_OPX_RZV_MIN_PAYLOAD_BYTES=64", "opx"},
	{"opx_rzv_some", opx_rzv_some, FI_TAGGED, 0, 0, NULL, "FI_OPX_RZV_MIN_PAYLOAD_BYTES=20000", "opx"},
	{"opx_rzv_most", opx_rzv_most, FI_TAGGED, 0, 0, NULL, "FI_OPX_RZV_MIN_PAYLOAD_BYTES=65536", "opx"},
	{"opx_no_mp", opx_no_mp, FI_TAGGED, 0, 0, NULL, "FI_OPX_MP_EAGER_DISABLE=1", "opx"},
	{"opx_sdma_min", opx_sdma_min, FI_TAGGED, 0, 0, NULL, "FI_OPX_SDMA_MIN_PAYLOAD_BYTES=30000", "opx"},
	{"opx_no_sdma", opx_no_sdma, FI_TAGGED, 0, 0, NULL, "FI_OPX_SDMA_DISABLE=1", "opx"},
	{"opx_bounce", opx_bounce, FI_TAGGED, 0, 0, NULL, "FI_OPX_SDMA_BOUNCE_BUF_THRESHOLD=40000", "opx"},
	{"opx_bounce_old", opx_bounce, FI_TAGGED, 0, 0, NULL, "FI_OPX_DELIVERY_COMPLETION_THRESHOLD=40000", "opx"},
	{"opx_mtu", opx_mtu, FI_TAGGED, 0, 0, NULL, "SOFTFABRIC_OPX=mtu=2048", "opx"},
	{"opx_mtu_atomics", opx_mtu_atomics, FI_ATOMIC, 0, SOLO, NULL, "SOFTFABRIC_OPX=mtu=2048", "opx"},
	{"opx_ack_each", opx_ack_each, FI_MSG, 0, 0, NULL, ACKS "1", "opx"},
	{"opx_ack_some", opx_ack_some, FI_MSG, 0, 0, NULL, ACKS "32", "opx"},
	{"opx_ack_none", opx_ack_none, FI_MSG, 0, 0, NULL, ACKS "0", "opx"},
	{0},
};
