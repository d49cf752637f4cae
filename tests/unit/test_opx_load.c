// SPDX-License-Identifier: BSD-2-Clause
// The built opx module as libfabric loads it; no table of any of its objects has a NULL in it, scalable endpoints
// included. SOFTFABRIC_MODULE names the module.
#include "load.h"

const struct load_prov load_prov = {
	.name = "opx",
	.access = FI_REMOTE_READ,
};

/* What efa does not have. */
struct contexts {
	struct fid_ep *sep, *tx, *rx;
};

static char g_mem[4096];

static void contexts_open(struct contexts *c, const struct load_objs *o)
{
	struct fi_rx_attr rx = *o->info->rx_attr;
	struct fi_tx_attr tx = *o->info->tx_attr;

	assert_int_equal(fi_scalable_ep(o->domain, o->info, &c->sep, NULL), 0);
	assert_int_equal(fi_tx_context(c->sep, 0, &tx, &c->tx, NULL), 0);
	assert_int_equal(fi_rx_context(c->sep, 0, &rx, &c->rx, NULL), 0);
}

static void contexts_close(struct contexts *c)
{
	assert_int_equal(fi_close(&c->rx->fid), 0);
	assert_int_equal(fi_close(&c->tx->fid), 0);
	assert_int_equal(fi_close(&c->sep->fid), 0);
}

static void tables__are_full(void **state)
{
	struct load_objs o;
	struct contexts c;

	(void)state;
	load_open(&o, FI_EP_RDM);
	contexts_open(&c, &o);
	load_full_all(&o);
	load_full_ep(c.sep);
	load_full_ep(c.tx);
	load_full_ep(c.rx);
	contexts_close(&c);
	load_close(&o);
}

static void refused__what_is_not_there(void **state)
{
	struct load_objs o;
	struct contexts c;

	(void)state;
	load_open(&o, FI_EP_RDM);
	contexts_open(&c, &o);
	load_refuses_rest(&o);
	REFUSED(fi_send(c.rx, g_mem, 8, NULL, 0, NULL));
	REFUSED(fi_recv(c.tx, g_mem, 8, NULL, 0, NULL));
	REFUSED(fi_send(c.sep, g_mem, 8, NULL, 0, NULL));
	contexts_close(&c);
	load_close(&o);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables__are_full),
		cmocka_unit_test(refused__what_is_not_there),
		LOAD_TESTS,
	};
	int status;

	return load_begin(argc, argv, &status) ? cmocka_run_group_tests(tests, NULL, NULL) : status;
}
