// SPDX-License-Identifier: BSD-2-Clause
// What the programs that load a built module share (load.c): one of each object, tests that hold for every provider,
// and main().
#ifndef SF_TESTS_UNIT_LOAD_H
#define SF_TESTS_UNIT_LOAD_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include "base/base.h"
#include "unit.h"

/* What differs; each program defines it. */
struct load_prov {
	const char *name;
	uint64_t mode;
	int mr_mode;
	uint64_t access; /* of the region that is registered */
};
extern const struct load_prov load_prov;

/* One of each object. */
struct load_objs {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct fid_ep *ep;
};


/** load_open() - All objects for an endpoint of @type; @o->cntr stays NULL for FI_EP_DGRAM. */
void load_open(struct load_objs *o, enum fi_ep_type type);
void load_close(struct load_objs *o);

/* Every table of libfabric is a size_t size, then function pointers: none of them is NULL. */
void load_full(const char *name, const void *ops);
#define FULL(ops_) load_full(#ops_, ops_)
void load_full_ep(const struct fid_ep *ep);
void load_full_all(const struct load_objs *o);

void load_refused(long ret, const char *call, int line);
#define REFUSED(call_) load_refused((long)(call_), #call_, __LINE__)
/** load_refuses_rest() - What no provider here has: connections, collectives, unknown operations and commands. */
void load_refuses_rest(const struct load_objs *o);

/* Tests for every module: the first and the last of each program. */
void exit__with_everything_open(void **state);
void path__one_folder_twice_offers_it_once(void **state);
void path__two_copies_offer_it_once(void **state);
void load__names_stay_private(void **state);
void prov_ini__second_call_is_refused(void **state);
void dlclose__objects_stay_usable(void **state);
#define LOAD_TESTS                                                                                                     \
	cmocka_unit_test(exit__with_everything_open), cmocka_unit_test(path__one_folder_twice_offers_it_once),         \
		cmocka_unit_test(path__two_copies_offer_it_once), cmocka_unit_test(load__names_stay_private),          \
		cmocka_unit_test(prov_ini__second_call_is_refused), cmocka_unit_test(dlclose__objects_stay_usable)

/**
 * load_begin() - First in main(): loads the module. Return: go on; false: leave with *@status, this was a process of a
 * test, or failed.
 */
bool load_begin(int argc, char **argv, int *status);

#endif
