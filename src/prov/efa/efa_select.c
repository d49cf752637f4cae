// SPDX-License-Identifier: BSD-2-Clause
// Which protocol a message takes: a pure function, so that its table can be tested alone. Source:
// doc/facts/efa.md#two-sided-transfers.
#include "prov/efa/efa.h"

uint8_t efa_select_msg(const struct efa_select_in *in)
{
	bool dc = (in->flags & FI_DELIVERY_COMPLETE) && !(in->flags & FI_INJECT);
	uint8_t type;

	if (likely(in->len <= in->eager_cap && in->len < in->min_read))
		type = dc ? EFA_PKT_DC_EAGER_MSGRTM : EFA_PKT_EAGER_MSGRTM;
	else if (in->peer_hs && in->can_read && in->len >= in->min_read)
		type = !in->read_in_flight && in->runt_quota && !dc ? EFA_PKT_RUNTREAD_MSGRTM
								    : EFA_PKT_LONGREAD_MSGRTM;
	else if (in->len <= in->eager_cap)
		type = dc ? EFA_PKT_DC_EAGER_MSGRTM : EFA_PKT_EAGER_MSGRTM;
	else if (in->len <= in->max_medium)
		type = dc ? EFA_PKT_DC_MEDIUM_MSGRTM : EFA_PKT_MEDIUM_MSGRTM;
	else
		type = dc ? EFA_PKT_DC_LONGCTS_MSGRTM : EFA_PKT_LONGCTS_MSGRTM;
	return (uint8_t)(type + in->tagged); /* the tagged id is the untagged one plus 1 throughout */
}
