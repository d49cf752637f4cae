// SPDX-License-Identifier: BSD-2-Clause
// What the receiving side says to a sender: software's Get of a rendezvous, and notices that a message was matched or
// fetched.
#include <string.h>

#include "base/log.h"
#include "prov/cxi/cxi_rxc.h"

static uint32_t rdzv_id(const struct cassini_event *msg)
{
	return (uint32_t)(msg->rendezvous_id | FIELD_GET(CXI_MB_RDZV_HI, msg->match_bits) << 8);
}

/* A command to the sender of @msg, by the Domain that it arrived at: not to who has its place when that one is gone. */
static struct cassini_cmd to_sender(const struct cassini_event *msg, enum cassini_opcode opcode)
{
	return (struct cassini_cmd){
		.opcode = (uint8_t)opcode,
		.flags = CASSINI_CMD_SAME_LIFE,
		.pid_idx = CXI_IDX_SHARED,
		.pid = (uint16_t)CASSINI_MATCH_ID_PID(msg->initiator),
		.nic = CASSINI_MATCH_ID_NIC(msg->initiator),
		.dom = msg->dom,
		.life = msg->life,
	};
}

int cxi_rx_fetch(struct cxi_rx *rx)
{
	struct cassini_cmd cmd = to_sender(&rx->msg, CASSINI_OP_GET);

	if (cxi_is_alt_read(&rx->msg)) {
		cmd.flags |= CASSINI_CMD_RESTRICTED;
		cmd.pid_idx = CXI_IDX_ALT;
	}
	cmd.request_len = rx->get_len;
	cmd.eq = rx->rxc->eq;
	cmd.local_addr = rx->buf + rx->got;
	cmd.remote_offset = rx->get_from;
	cmd.match_bits = cxi_sh_rdzv(rdzv_id(&rx->msg));
	cmd.user_ptr = (uintptr_t)&rx->req;
	return cxi_cps_post(&rx->rxc->cps, rx->rxc->cmdq, &cmd);
}

/* @is_done: of a rendezvous by alt_read all has been fetched that will be; else the message was matched. */
static int notice(struct cxi_rxc *r, const struct cassini_event *msg, bool is_done)
{
	struct cassini_cmd cmd = to_sender(msg, CASSINI_OP_PUT);

	cmd.match_bits = is_done ? cxi_sh_done(rdzv_id(msg))
				 : cxi_sh_zbp((uint32_t)FIELD_GET(CXI_MB_TX_ID, msg->match_bits));
	return cxi_cps_post(&r->cps, r->cmdq, &cmd);
}

int cxi_rx_tell(const struct cxi_rx *rx)
{
	return notice(rx->rxc, &rx->msg, rx->needs_done);
}

/* Of a rendezvous nothing is fetched: that ends it at its source, as it ends one that is thrown away. */
static int fetch_nothing(struct cxi_rxc *r, const struct cassini_event *msg)
{
	struct cassini_cmd cmd = to_sender(msg, CASSINI_OP_GET);

	if (cxi_is_alt_read(msg))
		return notice(r, msg, true);
	cmd.remote_offset = msg->remote_offset;
	cmd.match_bits = cxi_sh_rdzv(rdzv_id(msg));
	return cxi_cps_post(&r->cps, r->cmdq, &cmd);
}

static int tell_lost(struct cxi_rxc *r, const struct cassini_event *msg)
{
	return msg->rendezvous ? fetch_nothing(r, msg) : notice(r, msg, false);
}

/*
 * No receive can say it. The event of the endpoint needs memory itself, so the next read of the queue fails in any
 * case: a program that waits for a message that is lost should rather end than wait for ever.
 */
static void tell_receiver(const struct cxi_rxc *r, const struct cassini_event *msg, const char *what)
{
	struct cxi_ep *ep = cxi_rx_ep(r, msg);
	char text[96];

	if (r->closing)
		return;
	snprintf(text, sizeof(text), "out of memory: a message of %u bytes %s", msg->rlength, what);
	kit_ep_late_error(&ep->kit, FI_ENOMEM, CASSINI_RC_NO_SPACE, text, false);
	if (ep->kit.rx_cq)
		kit_cq_strand(ep->kit.rx_cq, FI_ENOMEM);
}

void cxi_rx_lose(struct cxi_rxc *r, const struct cassini_event *msg, bool is_late)
{
	tell_receiver(r, msg, "is lost");
	cxi_rx_pass(r, msg, is_late);
}

void cxi_rx_pass(struct cxi_rxc *r, const struct cassini_event *msg, bool is_late)
{
	if (is_late)
		cxi_buf_release(r, msg->start, msg->mlength);
	if (r->closing || !cxi_rx_portal(r, msg->dom))
		return;
	if (msg->rendezvous ? msg->get_issued : !cxi_wants_notice(r, msg, is_late))
		return;
	if (r->lost_cnt == ARRAY_SIZE(r->lost))
		cxi_rx_tell_lost(r);
	if (r->lost_cnt == ARRAY_SIZE(r->lost)) {
		tell_receiver(r, msg, "has gone, and its sender may wait for ever");
		return;
	}
	r->lost[r->lost_cnt++] = *msg;
	cxi_rx_tell_lost(r);
}

int cxi_rx_tell_lost(struct cxi_rxc *r)
{
	uint32_t n = 0;
	int ret = 0;

	for (; n < r->lost_cnt; n++) {
		ret = tell_lost(r, &r->lost[n]);
		if (ret == -FI_EAGAIN || ret == -FI_ENOMEM)
			break;
		if (ret)
			LOG_WARN("the sender of a lost message is not told: %s", strerror(-ret));
	}
	r->lost_cnt -= n;
	memmove(r->lost, r->lost + n, r->lost_cnt * sizeof(*r->lost));
	return (int)n;
}

void cxi_rx_lost_forget(struct cxi_rxc *r)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->lost_cnt; i++)
		if (cxi_rx_portal(r, r->lost[i].dom))
			r->lost[kept++] = r->lost[i];
	r->lost_cnt = kept;
}
