// SPDX-License-Identifier: BSD-2-Clause
// What libibverbs and libefa got after Debian 12's release, not offered: EOPNOTSUPP, and one sentence why.
#include "verbs/verbs_refuse.h"

/*
 * No header of infiniband/ here: older ones do not declare these functions, later ones do, each with its arguments.
 * Nobody reads the arguments, so that only the kind of what is returned matters.
 */

#define NO_DMABUF "a soft adapter reads memory of this process"
#define NO_COUNT  "this adapter has no completion counters"
#define NO_RINGS  "a soft adapter has no rings that a program could fill itself"

#define LATER_INT(name_, why_)                                                                                         \
	int name_(void);                                                                                               \
	int name_(void)                                                                                                \
	{                                                                                                              \
		return verbs_refuse(#name_, why_);                                                                     \
	}
#define LATER_PTR(name_, why_)                                                                                         \
	void *name_(void);                                                                                             \
	void *name_(void)                                                                                              \
	{                                                                                                              \
		return verbs_fail(verbs_refuse(#name_, why_));                                                         \
	}

LATER_INT(efadv_query_mr, "a soft adapter's regions have no interconnects")
LATER_INT(efadv_query_cq, NO_RINGS)
LATER_INT(efadv_query_qp_wqs, NO_RINGS)
LATER_INT(efadv_get_max_sq_depth, NO_RINGS)
LATER_INT(efadv_get_max_rq_depth, NO_RINGS)
LATER_PTR(efadv_create_comp_cntr, NO_COUNT)
LATER_PTR(ibv_create_comp_cntr, NO_COUNT)
LATER_INT(ibv_destroy_comp_cntr, NO_COUNT)
LATER_INT(ibv_qp_attach_comp_cntr, NO_COUNT)
LATER_INT(ibv_set_comp_cntr, NO_COUNT)
LATER_INT(ibv_set_err_comp_cntr, NO_COUNT)
LATER_INT(ibv_inc_comp_cntr, NO_COUNT)
LATER_INT(ibv_inc_err_comp_cntr, NO_COUNT)
LATER_INT(ibv_read_comp_cntr, NO_COUNT)
LATER_INT(ibv_read_err_comp_cntr, NO_COUNT)
LATER_INT(_ibv_query_comp_cntr_caps, NO_COUNT)
LATER_PTR(ibv_alloc_dmah, "this adapter has no DMA handles")
LATER_INT(ibv_dealloc_dmah, "this adapter has no DMA handles")
LATER_PTR(ibv_reg_mr_ex, "this adapter has no DMA handles")
LATER_INT(ibv_dm_export_dmabuf_fd, NO_DMABUF)
LATER_PTR(ibv_alloc_buf, "any memory of this process can be registered")
LATER_INT(ibv_free_buf, "ibv_alloc_buf gave none")
LATER_PTR(ibv_reg_buf_mr, "ibv_alloc_buf gave none")
LATER_INT(ibv_query_port_speed, "ibv_query_port says it")
