// SPDX-License-Identifier: BSD-2-Clause
// What infos of the cxi provider tell of either side: capabilities, default flags of operations,
// threading by version.
#include "cxi_fix.h"
#include "prov/cxi/cxi_ep_int.h"

static struct fi_info *hints_new(uint64_t caps)
{
	struct fi_info *h = fi_allocinfo();

	assert_non_null(h);
	h->caps = caps;
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_ENDPOINT | FI_MR_PROV_KEY;
	return h;
}

#define BOTH_SIDES (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_HMEM | FI_TRIGGER)
#define TX_SIDE	   (BOTH_SIDES | FI_NAMED_RX_CTX | FI_SEND | FI_READ | FI_WRITE | FI_FENCE)
#define RX_SIDE                                                                                    \
	(BOTH_SIDES | FI_DIRECTED_RECV | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_SOURCE |  \
	 FI_SOURCE_ERR | FI_RMA_EVENT | FI_MULTI_RECV)

/* As fabtests' getinfo_test: each side has what fi_endpoint(3) names for it, nothing that
 * info->caps lacks, and what was asked for. */
static void sides_check(const struct fi_info *i, uint64_t asked)
{
	uint64_t comm = asked & (FI_LOCAL_COMM | FI_REMOTE_COMM);

	for (; i; i = i->next) {
		assert_false(i->tx_attr->caps & ~(TX_SIDE | comm));
		assert_false(i->rx_attr->caps & ~(RX_SIDE | comm));
		assert_false(i->tx_attr->caps & ~i->caps);
		assert_false(i->rx_attr->caps & ~i->caps);
		assert_false(asked & ~i->caps);
		assert_false(asked & (BOTH_SIDES | FI_NAMED_RX_CTX) & ~i->tx_attr->caps);
		assert_false(asked & (BOTH_SIDES | FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR) &
			     ~i->rx_attr->caps);
		assert_int_equal(i->tx_attr->caps & comm, comm);
		assert_int_equal(i->rx_attr->caps & comm, comm);
		assert_true(i->tx_attr->caps & i->rx_attr->caps & FI_TRIGGER);
	}
}

static void caps__of_each_side(void **state)
{
	static const uint64_t bits[] = {FI_MSG,	       FI_TAGGED,	FI_RMA,		  FI_ATOMIC,
					FI_HMEM,       FI_NAMED_RX_CTX, FI_DIRECTED_RECV, FI_SOURCE,
					FI_SOURCE_ERR, FI_LOCAL_COMM,	FI_REMOTE_COMM};
	static const uint32_t versions[] = {FI_VERSION(1, 5), FI_VERSION(1, 17), FI_VERSION(2, 6)};
	struct fi_info *i;

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		i = cxi_fix_get(versions[v], NULL, 0);
		sides_check(i, 0);
		fi_freeinfo(i);
	}
	for (unsigned m = 1; m < 1u << ARRAY_SIZE(bits); m++) {
		struct fi_info *h = hints_new(0);

		for (size_t b = 0; b < ARRAY_SIZE(bits); b++)
			h->caps |= m >> b & 1 ? bits[b] : 0;
		if ((h->caps & FI_SOURCE_ERR) && !(h->caps & FI_SOURCE)) {
			cxi_fix_ask(h, -FI_ENODATA);
			continue;
		}
		i = cxi_fix_get(FI_VERSION(1, 17), h, 0);
		sides_check(i, h->caps);
		fi_freeinfo(h);
		fi_freeinfo(i);
	}
}

/* Attributes of either side may ask for what the real provider's have. */
static void caps__of_sides_in_hints(void **state)
{
	struct fi_info *h = hints_new(FI_MSG | FI_LOCAL_COMM), *i;

	(void)state;
	h->tx_attr->caps = h->rx_attr->caps = FI_MSG | FI_LOCAL_COMM | FI_TRIGGER | FI_NAMED_RX_CTX;
	i = cxi_fix_ask(h, 0);
	assert_true(i->tx_attr->caps & FI_LOCAL_COMM);
	assert_false(i->rx_attr->caps & FI_NAMED_RX_CTX);
	fi_freeinfo(i);
}

/* 2.0 dropped two of the threading models. */
static void hints__threading_by_version(void **state)
{
	static const enum fi_threading dropped[] = {FI_THREAD_FID, FI_THREAD_ENDPOINT};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(dropped); k++) {
		struct fi_info *h = hints_new(FI_MSG);

		h->domain_attr->threading = dropped[k];
		fi_freeinfo(cxi_fix_get(FI_VERSION(1, 22), h, 0));
		cxi_fix_get(FI_VERSION(2, 0), h, -FI_ENODATA);
		cxi_fix_get(FI_VERSION(2, 6), h, -FI_ENODATA);
		fi_freeinfo(h);
	}
}

static uint64_t defaults_of(struct fi_info *info, uint64_t side)
{
	struct cxi_fix f;
	uint64_t flags = side;
	struct fid_ep *ep;

	cxi_fix_open_info(&f, info);
	assert_int_equal(fi_endpoint(f.domain, f.info, &ep, NULL), 0);
	assert_int_equal(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	cxi_fix_close(&f);
	return flags;
}

/* What an info lists to who gave no hints is no wish: a send of 1 MiB cannot be injected. */
static void op_flags__listed_are_no_defaults(void **state)
{
	struct fi_info *h = hints_new(FI_MSG);

	(void)state;
	assert_int_equal(defaults_of(cxi_fix_get(FI_VERSION(1, 17), NULL, 0), FI_TRANSMIT), 0);
	assert_int_equal(defaults_of(cxi_fix_get(FI_VERSION(1, 17), NULL, 0), FI_RECV), 0);
	h->tx_attr->op_flags = FI_INJECT | FI_DELIVERY_COMPLETE;
	h->rx_attr->op_flags = FI_MULTI_RECV;
	assert_int_equal(defaults_of(cxi_fix_get(FI_VERSION(1, 17), h, 0), FI_TRANSMIT),
			 h->tx_attr->op_flags);
	assert_int_equal(defaults_of(cxi_fix_get(FI_VERSION(1, 17), h, 0), FI_RECV), FI_MULTI_RECV);
	fi_freeinfo(h);
}

/*
 * Offered to all whose version has the bit, without an MR mode of its own; given to those who ask, of any version: they
 * know it.
 */
static void hmem__always_for_who_knows_it(void **state)
{
	static const uint32_t versions[] = {FI_VERSION(1, 5), FI_VERSION(1, 8), FI_VERSION(1, 9),
					    FI_VERSION(1, 17), FI_VERSION(2, 6)};

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(versions); v++) {
		bool known = versions[v] >= FI_VERSION(1, 9);
		struct fi_info *h = hints_new(FI_MSG | FI_RMA | FI_HMEM), *i;

		i = cxi_fix_get(versions[v], NULL, 0);
		assert_int_equal(!!(i->caps & i->tx_attr->caps & i->rx_attr->caps & FI_HMEM),
				 known);
		assert_false(i->domain_attr->mr_mode & FI_MR_HMEM);
		fi_freeinfo(i);
		i = cxi_fix_get(versions[v], h, 0);
		assert_true(i->caps & i->tx_attr->caps & i->rx_attr->caps & FI_HMEM);
		fi_freeinfo(i);
		h->domain_attr->mr_mode |= FI_MR_HMEM; /* does no harm */
		fi_freeinfo(cxi_fix_get(versions[v], h, 0));
		h->caps = FI_MSG;
		i = cxi_fix_get(versions[v], h, 0);
		assert_false((i->caps | i->tx_attr->caps | i->rx_attr->caps) & FI_HMEM);
		fi_freeinfo(i);
		fi_freeinfo(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caps__of_each_side),
		cmocka_unit_test(caps__of_sides_in_hints),
		cmocka_unit_test(hmem__always_for_who_knows_it),
		cmocka_unit_test(hints__threading_by_version),
		cmocka_unit_test(op_flags__listed_are_no_defaults),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
