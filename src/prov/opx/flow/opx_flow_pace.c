// SPDX-License-Identifier: BSD-2-Clause
// What round trips and losses teach: how long an answer is waited for, and how much may be on its way.
#include "prov/opx/flow/opx_flow.h"

#include "prov/opx/flow/opx_flow_int.h"

#define PATIENCE_MIN_NS (20 * NS_PER_US)

/* --- questions ---------------------------------------------------------------------------------------------------- */

#define LATE_NS (20 * NS_PER_US) /* more for an answer that may wait for company, and for the poll that lets it out */

/*
 * @psn: of the packet that asks; OPX_PSN_NONE: a PING. @late_ns: how much later than usual the answer may be.
 */
static void ask_begin(struct opx_flow *f, uint32_t psn, bool is_timed, uint64_t late_ns)
{
	struct opx_rel *rel = f->rel;

	f->ask_psn = psn;
	f->ask_is_timed = is_timed;
	f->ask_ns = hfi_now_ns(rel->a.hfi) + late_ns;
	rel->next_ns = MIN(rel->next_ns, opx_flow_due_ns(f));
	rel->is_coarse = false;
}

void opx_flow_asked(struct opx_flow *f, uint32_t psn, bool is_late)
{
	if (psn == OPX_PSN_NONE) {
		ask_begin(f, psn, true, 0);
		return;
	}
	f->ask_last = psn;
	if (!f->ask_ns) /* how long somebody waits for company is no round trip */
		ask_begin(f, psn, !is_late, is_late ? LATE_NS : 0);
}

static void rtt_learn(struct opx_flow *f, uint64_t ns)
{
	uint32_t rtt = (uint32_t)MIN(ns, (uint64_t)UINT32_MAX / 8), off;

	if (!f->srtt_ns) {
		f->srtt_ns = MAX(rtt, 1u);
		f->rttvar_ns = rtt / 2;
		return;
	}
	off = rtt > f->srtt_ns ? rtt - f->srtt_ns : f->srtt_ns - rtt;
	f->rttvar_ns = f->rttvar_ns - f->rttvar_ns / 4 + off / 4;
	f->srtt_ns = MAX(f->srtt_ns - f->srtt_ns / 8 + rtt / 8, 1u);
}

void opx_flow_answered(struct opx_flow *f, bool is_ping)
{
	if (!f->ask_ns || is_ping != (f->ask_psn == OPX_PSN_NONE) || (!is_ping && psn_diff(f->tx_una, f->ask_psn) <= 0))
		return;
	if (f->ask_is_timed)
		rtt_learn(f, hfi_now_ns(f->rel->a.hfi) - f->ask_ns);
	f->ask_ns = 0;
	/* others have asked since; when is not known */
	if (f->ask_last != OPX_PSN_NONE && f->bytes_out && psn_diff(f->ask_last, f->tx_una) >= 0)
		ask_begin(f, f->ask_last, false, 0);
}

uint64_t opx_flow_due_ns(const struct opx_flow *f)
{
	uint64_t ns;

	if (!f->ask_ns || !f->srtt_ns || !f->bytes_out || f->hurries >= OPX_HURRY_MAX)
		return CLK_NEVER;
	ns = MAX((uint64_t)f->srtt_ns + 4 * f->rttvar_ns, (uint64_t)PATIENCE_MIN_NS) << f->hurries;
	return ns < f->rel->ping_ns ? f->ask_ns + ns : CLK_NEVER; /* else the timer does */
}

/* --- the window --------------------------------------------------------------------------------------------------- */

/*
 * A lost packet does not mean that packets come too fast: paths lose some at any speed, and a window that every loss
 * halves is at its floor from one in a hundred on. What a full socket or header queue refuses is another matter, a
 * large part of all. So losses shrink the window when a third of the last packets were lost; a queue that overflows all
 * the time costs less than that, in packets that go twice.
 */

static void loss_learn(struct opx_flow *f, uint32_t seen, uint32_t lost)
{
	f->seen_cnt += seen;
	f->lost_cnt += lost;
	for (; f->seen_cnt > OPX_LOSS_MEMORY; f->seen_cnt /= 2)
		f->lost_cnt /= 2;
}

void opx_flow_grow(struct opx_flow *f, uint32_t pkts, uint32_t bytes)
{
	loss_learn(f, pkts, 0);
	if (psn_diff(f->tx_una, f->recover) > 0)
		f->recover = f->tx_una;
	if (f->bytes_out + bytes < f->cwnd / 2) /* not what holds it back */
		return;
	f->cwnd += f->cwnd < f->ssthresh ? bytes : MAX((uint32_t)((uint64_t)HFI_MTU * bytes / f->cwnd), bytes / 16);
	f->cwnd = MIN(f->cwnd, OPX_WINDOW_BYTES);
}

void opx_flow_shrink(struct opx_flow *f, uint32_t psn, uint32_t pkts)
{
	loss_learn(f, 0, pkts);
	if (2 * f->lost_cnt <= f->seen_cnt || psn_diff(psn, f->recover) < 0)
		return;
	f->cwnd = MAX(f->cwnd / 2, OPX_CWND_MIN);
	f->ssthresh = f->cwnd;
	f->recover = flow_sent_psn(f);
}
