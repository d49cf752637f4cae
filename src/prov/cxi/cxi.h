// SPDX-License-Identifier: BSD-2-Clause
// Objects of the cxi provider that its files share: domain, portal, AV, endpoints and contexts, operations, regions,
// counters.
#ifndef SF_PROV_CXI_CXI_H
#define SF_PROV_CXI_CXI_H

#include <bsd/sys/queue.h>

#include "base/le.h"
#include "base/matchtab.h"
#include "base/pqueue.h"
#include "base/slab.h"
#include "kit/atomic_call.h"
#include "kit/call.h"
#include "kit/kit.h"
#include "kit/stats.h"
#include "nic/cassini/cassini.h"
#include "prov/cxi/cxi_param.h"
#include "prov/cxi/cxi_proto.h"

/*
 * Theory of operation
 *
 * The seed's object map: fabric > domain (an opened adapter and an LNI) > endpoint. An endpoint owns a *portal*: a
 * libcxi Domain (NIC, VNI, PID) with the PTE at pid_idx 255. A standard endpoint has one TX context (a command queue
 * and its EQ) and one RX context (a PTE at pid_idx 0 and its EQ); a scalable endpoint has several of each as child
 * endpoints, RX n at pid_idx n; shared contexts are contexts that several endpoints use: a shared RX context is one PTE
 * mapped into several portals, a shared TX context one command queue whose commands name the portal they leave from.
 *
 * Every event carries in user_ptr the struct cxi_req that waits for it; cxi_drain() hands it over. Everything runs
 * under the domain's lock.
 *
 * An fi_tsend's life: do_send() and send_common() in cxi_send.c, cxi_select_proto(); then cassini_put(), and nobody
 * remembers it; or an operation is kept, by send_kept() and cxi_post(): its ACK event comes to cxi_drain(), then to
 * send_on_ack() in cxi_send.c, cxi_tx_done(), kit_cq_push(). A receive's: do_recv() in cxi_recv.c and
 * cassini_append(); its PUT is shown to cxi_rx_show(), or becomes an event that comes to cxi_drain() and
 * cxi_rx_on_event(); then complete() in cxi_recv.c, kit_cq_push().
 */

#define CXI_ADDR_LEN     8u
#define CXI_MSG_MAX      UINT32_MAX /* max_msg_size */
#define CXI_INJECT_MAX   CASSINI_IDC_MAX
/* Flags that say when an operation is complete. */
#define CXI_LEVELS (FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)
#define CXI_TX_OP_FLAGS                                                                            \
	(FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |                   \
	 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_REMOTE_CQ_DATA | FI_MORE | FI_FENCE)
#define CXI_RX_OP_FLAGS	   (FI_COMPLETION | FI_MULTI_RECV | FI_MORE)
#define CXI_TX_MAX       16384u
#define CXI_RX_MAX       15360u
#define CXI_TX_MIN       16u
#define CXI_CTX_MAX      16         /* TX or RX contexts of a scalable endpoint */
#define CXI_AUTH_KEY_MAX 4          /* VNIs of one endpoint */
#define CXI_MIN_MULTI_RECV 64u
#define CXI_MIN_FREE_MAX ((1u << 24) - 1)

extern struct fi_provider g_cxi_prov; /* cxi_prov.c */

/* --- address: 8 bytes, doc/facts/cxi.md#identity ------------------------------------------------- */
struct cxi_addr {
	le32_t pid_nic;  /* pid 9, nic 20, 0 */
	le16_t vni;      /* 0 unless the AV holds several VNIs */
	uint8_t rsvd[2]; /* 0 */
};
static_assert(sizeof(struct cxi_addr) == CXI_ADDR_LEN, "cxi address");
static inline struct cxi_addr cxi_addr_make(uint32_t nic, uint16_t pid, uint16_t vni)
{
	return (struct cxi_addr){.pid_nic = le32_put((uint32_t)(pid & 0x1ff) | (nic & 0xfffff) << 9),
				 .vni = le16_put(vni)};
}
static inline uint16_t cxi_addr_pid(const struct cxi_addr *a) { return (uint16_t)(le32_get(a->pid_nic) & 0x1ff); }
static inline uint32_t cxi_addr_nic(const struct cxi_addr *a) { return le32_get(a->pid_nic) >> 9 & 0xfffff; }
const char *cxi_addr_str(const struct cxi_addr *a, char *buf, size_t *len); /* fi_addr_cxi://0x%08x */

/* The authorisation key: doc/facts/cxi.md#authorisation-keys. */
struct cxi_key { uint32_t svc_id; uint16_t vni; uint16_t pad; };
static_assert(sizeof(struct cxi_key) == 8, "cxi_auth_key");
/** cxi_key_default() - SLINGSHOT_*, then services, then FI_CXI_DEFAULT_VNI. 0; -FI_EACCES with one sentence in @why. */
int cxi_key_default(int dev_idx, const struct cassini_devinfo *info, const struct cxi_params *p, struct cxi_key *out,
		    char *why, size_t why_len);
/** cxi_key_check() - 0; -FI_EINVAL size or service; -FI_EACCES (logged why). @key: as in auth_key attributes. */
int cxi_key_check(int dev_idx, const void *key, size_t len, struct cxi_key *out);
/**
 * cxi_key_of_domain() - The same for an object of @d, which works through one service: -FI_EINVAL (logged) for a key of
 * another.
 */
struct cxi_domain;
int cxi_key_of_domain(const struct cxi_domain *d, const void *key, size_t len, struct cxi_key *out);

/* --- domain -------------------------------------------------------------------------------------- */
enum cxi_match_mode { CXI_MATCH_HARDWARE, CXI_MATCH_HYBRID, CXI_MATCH_SOFTWARE };
struct cxi_mr;
struct cxi_dwq;
/* What happened to the receive contexts of a domain, closed ones included: cxi_fc.c counts, cxi_ext.c shows. */
struct cxi_fc_stats { uint64_t fc_eq_full, fc_no_match, fc_unexp, fc_req_full, sw_transitions; };
struct cxi_domain {
	struct kit_domain kit;
	struct cassini *nic;
	struct cassini_devinfo info;
	struct cassini_lni *lni;
	int dev_idx;
	struct cxi_params params;       /* as at fi_domain, with the overrides of fi_control */
	struct cxi_key key;             /* default of endpoints */
	uint32_t tclass;                /* FI_TC_* */
	bool prov_key;                  /* FI_MR_PROV_KEY negotiated */
	bool auto_progress;
	/* FI_AV_AUTH_KEY: keys come with the address vectors, so many for an endpoint; 0: not so */
	size_t max_ep_auth_key;
	LIST_HEAD(, cxi_portal) portals; /* for the adapter thread */
	LIST_HEAD(, cxi_cntr) cntrs;
	LIST_HEAD(, cxi_txc) txcs;       /* all that are open, and receive contexts: what counts on a counter */
	LIST_HEAD(, cxi_rxc) rxcs;
	struct cxi_mr **mr_tab;         /* cxi_mr.c: client keys in use, or provider keys by address; hash */
	uint32_t mr_cnt, mr_mask;
	uint64_t *prov_ids;             /* cxi_mr.c: bitmap of provider key ids */
	LIST_HEAD(, cxi_dwq) dwqs;      /* cxi_trig.c: deferred work, by VNI and class; none until used */
	struct cxi_fc_stats stats;
	uint32_t data_untold;           /* for LOG_FEW(): writes with data that no receive queue tells of */
	bool alt_read;                  /* FI_CXI_RDZV_PROTO */
	bool has_eps, has_mrs;          /* since when some options cannot be set any more */
	bool hybrid_mr_desc;            /* asked for; descriptors are optional here in any case */
	struct cassini_stats telemetry; /* at open: cxi_ext.c prints differences */
};
/**
 * cxi_domain_waits() - Something is waited for by descriptor: whoever takes a message off the network must say so. Not
 * under the lock.
 */
void cxi_domain_waits(struct cxi_domain *d);
enum cxi_match_mode cxi_match_mode(const struct cxi_domain *d);
/** cxi_tc() - Traffic class of the adapter for FI_TC_*. */
enum cassini_tc cxi_tc(uint32_t tclass);
/** cxi_cp_open() - A profile of @tclass, or best effort where the service has none. 0; -FI_EACCES; -FI_ENOSPC. */
int cxi_cp_open(struct cxi_domain *d, uint16_t vni, uint32_t tclass, struct cassini_cp **out);

/* --- address vector (cxi_av.c) ------------------------------------------------------------------- */
struct cxi_av {
	struct kit_av kit;
	bool is_table;                  /* an fi_addr is a place in our own table: neither of the next two */
	int rx_ctx_bits;
	struct cxi_av_shared *shared;   /* a named AV's memory, NULL */
	bool has_keys;                  /* the domain was opened with FI_AV_AUTH_KEY */
	struct cxi_key key[CXI_AUTH_KEY_MAX]; /* by handle */
	bool key_used[CXI_AUTH_KEY_MAX];
	uint32_t key_uses[CXI_AUTH_KEY_MAX];
	bool has_user_id;               /* opened with FI_AV_USER_ID */
	fi_addr_t *user_id;             /* by fi_addr, FI_ADDR_NOTAVAIL: none; NULL until there is one */
	size_t user_cap;
};
/** cxi_av_keys() - The keys inserted, at most CXI_AUTH_KEY_MAX. Return: how many. */
int cxi_av_keys(const struct cxi_av *av, struct cxi_key *out);
/* Where a message goes. */
struct cxi_dest { uint32_t nic; uint16_t pid, vni; uint8_t rx_idx; };
static inline struct cxi_dest cxi_dest_of(const struct cxi_addr *a, uint8_t rx_idx)
{
	return (struct cxi_dest){
		.nic = cxi_addr_nic(a), .pid = cxi_addr_pid(a), .vni = le16_get(a->vni), .rx_idx = rx_idx};
}
/** cxi_av_dest_any() - cxi_av_dest() of any address vector. */
int cxi_av_dest_any(const struct cxi_av *av, fi_addr_t addr, struct cxi_dest *out);
/** cxi_av_dest_table() - cxi_av_dest() of an address vector that is_table. */
static inline int cxi_av_dest_table(const struct cxi_av *av, fi_addr_t addr, struct cxi_dest *out)
{
	if (unlikely(!kit_av_has(&av->kit, addr)))
		return -FI_EINVAL;
	/* as kit_av_addr(), with a length that the compiler knows */
	*out = cxi_dest_of((const struct cxi_addr *)(const void *)av->kit.table + addr, 0);
	return 0;
}
/** cxi_av_dest() - @addr with its rx context bits. 0; -FI_EINVAL not in the AV. vni 0: the endpoint's. */
static inline int cxi_av_dest(const struct cxi_av *av, fi_addr_t addr, struct cxi_dest *out)
{
	if (unlikely(!av->is_table)) {
		struct cxi_dest dest = {0}; /* so that @out need not be in memory */
		int ret = cxi_av_dest_any(av, addr, &dest);

		*out = dest;
		return ret;
	}
	return cxi_av_dest_table(av, addr, out);
}
/** cxi_av_source() - fi_addr of (nic, pid, vni) for FI_SOURCE; FI_ADDR_NOTAVAIL. */
fi_addr_t cxi_av_source(const struct cxi_av *av, uint32_t nic, uint16_t pid, uint16_t vni);

/* --- what waits for an event --------------------------------------------------------------------- */
struct cxi_req { void (*on_event)(struct cxi_req *req, const struct cassini_event *ev); };
/**
 * cxi_drain() - Hand all events of @eq to their requests. A request may let go of the lock (link_region_del() does, for
 * as long as a stopped process reads what is to end): whoever comes then leaves the events to who has the oldest in
 * hand. What events name goes by cxi_portal_settle() first. Return: how many.
 */
static inline int cxi_drain(struct cassini_eq *eq)
{
	int n = 0;

	if (eq->rd == eq->wr || unlikely(eq->is_taken))
		return 0;
	eq->is_taken = true;
	do {
		const struct cassini_event *ev = cassini_eq_peek(eq);
		struct cxi_req *req = (struct cxi_req *)(uintptr_t)ev->user_ptr;

		req->on_event(req, ev);
		cassini_eq_pop(eq);
		n++;
	} while (eq->rd != eq->wr);
	eq->is_taken = false;
	return n;
}

/* --- portal: a libcxi Domain per VNI, and pid_idx 255 (cxi_portal.c) ----------------------------- */
struct cxi_txc;
struct cxi_rxc;
struct cxi_ep;
struct cxi_tx;
/*
 * The profiles that a command queue changes between: a command is sent under the profile of its Domain's VNI. There is
 * more than one VNI when endpoints share a context, or take their keys from the address vector.
 */
struct cxi_cps {
	struct cassini_cp *cp[CASSINI_LCID_MAX];
	uint16_t vni[CASSINI_LCID_MAX];
	int cnt;
	const struct cassini_dom *dom;   /* whose profile the queue has; NULL: not known */
};
/**
 * cxi_cps_add() - Have profiles of @tclass, or best effort where the service has no such class, for all VNIs of @p. 0;
 * -FI_EACCES; -FI_ENOSPC.
 */
int cxi_cps_add(struct cxi_cps *c, const struct cxi_portal *p, uint32_t tclass);
void cxi_cps_close(struct cxi_cps *c);
void cxi_cps_switch(struct cxi_cps *c, struct cassini_cmdq *q, const struct cassini_dom *dom);
/** cxi_cps_use() - What is posted next is of @dom. */
static inline void cxi_cps_use(struct cxi_cps *c, struct cassini_cmdq *q, const struct cassini_dom *dom)
{
	if (unlikely(dom != c->dom))
		cxi_cps_switch(c, q, dom);
}
/** cxi_cps_post() - cassini_post() under the right profile. */
static inline int cxi_cps_post(struct cxi_cps *c, struct cassini_cmdq *q, const struct cassini_cmd *cmd)
{
	cxi_cps_use(c, q, cmd->dom);
	return cassini_post(q, cmd);
}
#define CXI_ID_KINDS 3
struct cxi_portal {
	struct cxi_domain *domain;
	LIST_ENTRY(cxi_portal) link;     /* domain->portals */
	struct cassini_dom *dom[CXI_AUTH_KEY_MAX];
	int dom_cnt;
	uint16_t pid;
	struct cassini_eq *eq;           /* of the PTE at 255 and of control commands */
	struct cassini_pte *pte;         /* at 255 */
	struct cassini_pte *alt_pte;     /* at 254, once a rendezvous by alt_read was sent; else NULL */
	struct cassini_cmdq *cmdq;       /* control messages, match-complete notices */
	struct cassini_cp *cp;
	struct cxi_cps cps;
	struct cxi_req pte_req, rdzv_req, zbp_req, ctrl_req; /* of PTE 255 and its three persistent entries */
	struct cxi_tx *tx_id[CXI_TX_ID_CNT];        /* match-complete sends */
	struct cxi_tx **rdzv_id;         /* [CXI_RDZV_ID_CNT], pages appear as used */
	uint32_t id_hint[CXI_ID_KINDS];  /* cxi_ids.c, as the next two: where to look for a free one */
	uint32_t left_cnt[CXI_ID_KINDS];
	TAILQ_HEAD(, cxi_left) left;     /* ids that nobody gets before a peer has named them; oldest first */
	uint32_t timer_skip;
	/* whose events a poll of this portal drains; shared ones stand in several portals */
	struct cxi_txc *txc[CXI_CTX_MAX];
	int txc_cnt;
	struct cxi_rxc *rxc[CXI_CTX_MAX]; /* by pid_idx */
	int rxc_top;                     /* highest used + 1 */
	struct cassini_eq *eqs[1 + 2 * CXI_CTX_MAX]; /* of the portal and of all these: cxi_portal_eqs() */
	int eq_cnt;
	uint32_t holds;                  /* threads that are at something here; all but one have let go of the lock */
	LIST_HEAD(, cxi_mr) mrs;
	uint8_t opt_used[CXI_MR_OPT_MAX]; /* pid_idx 16.. taken */
	uint8_t opt_next;                /* provider keys: where to look for a free one */
	struct cxi_ep *ep;               /* owner: EP or SEP */
	uint32_t tx_id_cnt;              /* in use */
	uint64_t ask_ns;                 /* cxi_alive.c: when to ask next */
	LIST_HEAD(, cxi_ask) asks;
	struct cxi_ctrls *ctrls;         /* cxi_fc_tx.c: control messages that have not ended; NULL: none yet */
	bool is_miscounted;              /* cxi_fc_miscounted() */
};
/**
 * cxi_portal_open() - @pid: CASSINI_PID_ANY or one. 0; -FI_EADDRINUSE; -FI_EACCES; -FI_ENOSPC; -FI_ENOMEM. Lock held.
 */
int cxi_portal_open(struct cxi_domain *d, const struct cxi_key *keys, int key_cnt, uint16_t pid, struct cxi_ep *ep,
		    struct cxi_portal **out);
void cxi_portal_close(struct cxi_portal *p); /* contexts and regions are gone; drains; NULL is fine. Lock held. */
/** cxi_portal_progress() - Poll its Domains, drain its EQs, run timers. Return: events. */
int cxi_portal_progress(struct cxi_portal *p);
/**
 * cxi_portal_settle() - On return no other thread is in a poll of @p or at anything else here; lets go of the lock
 * while one is. cxi_eq_settle(): nobody has one of @eq.
 */
void cxi_portal_settle(const struct cxi_portal *p);
void cxi_eq_settle(struct cxi_domain *d, const struct cassini_eq *eq);
/** cxi_portal_timers() - Retries that are due, now and not at one of some polls. Return: events. */
int cxi_portal_timers(struct cxi_portal *p);
/** cxi_portal_calm() - kit_ep.calm() of an endpoint with @p. */
bool cxi_portal_calm(struct cxi_portal *p, struct calm *c, uint32_t passed);
/** cxi_portal_serve() - The same for a caller who comes seldom. */
int cxi_portal_serve(struct cxi_portal *p);
/** cxi_portal_eqs() - Contexts have come or gone. */
void cxi_portal_eqs(struct cxi_portal *p);
int cxi_portal_add_txc(struct cxi_portal *p, struct cxi_txc *t); /* 0; -FI_ENOSPC */
void cxi_portal_del_txc(struct cxi_portal *p, struct cxi_txc *t);
/** cxi_entry_append() - cassini_append() of an entry that has to be there. -FI_ENOSPC: none is left; -FI_ENOMEM. */
int cxi_entry_append(const struct cxi_domain *d, struct cassini_pte *pte, const struct cassini_le_attr *attr,
		     struct cassini_le **le);
/**
 * cxi_portal_alt() - Can a rendezvous of @p be fetched by restricted Gets? Not while a region has the index (said
 * once).
 */
bool cxi_portal_alt(struct cxi_portal *p);
/** cxi_portal_dom() - The Domain for @vni; 0: the first. NULL: none. */
struct cassini_dom *cxi_portal_dom(const struct cxi_portal *p, uint16_t vni);
/** cxi_alive_watch() - The peer took @tx and has not matched it: from now on it is asked whether it lives. */
void cxi_alive_watch(struct cxi_tx *tx);
int cxi_alive_timers(struct cxi_portal *p, uint64_t now_ns); /* while p->tx_id_cnt. Return: sends ended */
/** cxi_alive_forget() - @t is about to leave @p: nothing of it stands in @p's tables any more. */
void cxi_alive_forget(struct cxi_portal *p, const struct cxi_txc *t);
void cxi_alive_fini(struct cxi_portal *p);
/** cxi_ids_init(), cxi_ids_fini() - No id is given out; none will be any more. */
void cxi_ids_init(struct cxi_portal *p);
void cxi_ids_fini(struct cxi_portal *p);
/** cxi_tx_id_get(), cxi_rdzv_id_get() - An id for @tx, -FI_EAGAIN none is free; put frees it. */
int cxi_tx_id_get(struct cxi_portal *p, struct cxi_tx *tx);
void cxi_tx_id_put(struct cxi_portal *p, unsigned id);
int cxi_rdzv_id_get(struct cxi_portal *p, struct cxi_tx *tx, bool tagged);
void cxi_rdzv_id_put(struct cxi_portal *p, unsigned id);
/** cxi_ids_leave() - @tx gives up its ids; those that its peer may name yet are no other's before it has. */
void cxi_ids_leave(struct cxi_tx *tx);
/** cxi_id_named() - @peer (CASSINI_MATCH_ID) by @dom has named the id of @at, where nothing waits for that. */
void cxi_id_named(struct cxi_portal *p, struct cxi_tx *const *at, const struct cassini_dom *dom, uint32_t peer);

/* --- endpoints and contexts (cxi_ep.c) ----------------------------------------------------------- */
enum cxi_ep_kind { CXI_EP, CXI_SEP, CXI_TX_CTX, CXI_RX_CTX, CXI_SRX, CXI_ALIAS };
struct cxi_ep {
	struct kit_ep kit;
	enum cxi_ep_kind kind;
	struct cxi_domain *domain;
	struct cxi_portal *portal;       /* own (EP, SEP) or the parent's; set at enable */
	struct cxi_ep *parent;           /* TX_CTX, RX_CTX, ALIAS */
	uint32_t children;               /* contexts and aliases open */
	struct cxi_ep *tx[CXI_CTX_MAX], *rx[CXI_CTX_MAX]; /* SEP: children */
	uint8_t tx_cnt, rx_cnt;
	uint8_t idx;                     /* TX_CTX, RX_CTX */
	struct cxi_txc *txc;             /* EP, TX_CTX, ALIAS */
	struct cxi_rxc *rxc;             /* EP, RX_CTX, SRX */
	struct cxi_txc *stx;             /* bound shared TX context, or NULL */
	struct cxi_ep *srx;              /* bound shared RX context, or NULL */
	struct cxi_key keys[CXI_AUTH_KEY_MAX];
	int key_cnt;
	uint16_t pid;                    /* asked for; then granted */
	bool is_rnr;                     /* FI_PROTO_CXI_RNR */
	uint64_t tag_not;		 /* bits that tags may not have */
	bool directed, source, source_err;
	bool wants_stx, wants_srx;       /* FI_SHARED_CONTEXT in the attributes */
	bool no_flow_control;            /* FI_OPT_CXI_SET_RX_FLOW_CONTROL */
	uint32_t tclass;
	uint64_t msg_order;
	size_t min_multi_recv;
	uint64_t rnr_max_us;
	/* bytes that are not 0 while the endpoint may send, receive: cxi_ep_gate() */
	const uint8_t *tx_mark, *rx_mark;
};
/** cxi_ep_gate() - @ep is enabled, or is no more; its contexts have come or gone. */
void cxi_ep_gate(struct cxi_ep *ep);
static inline struct cxi_ep *cxi_ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct cxi_ep, kit.fid);
}
/** cxi_ep_base() - Of an alias the endpoint that it is one of: what outlives a call keeps that, an alias may close. */
static inline struct cxi_ep *cxi_ep_base(struct cxi_ep *ep)
{
	return ep->kind == CXI_ALIAS ? ep->parent : ep;
}
int cxi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int cxi_sep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context);
int cxi_stx_open(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context);
int cxi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx, void *context);
int cxi_ep_progress(struct kit_ep *ep);
extern struct fi_ops_msg cxi_msg_ops;
extern struct fi_ops_tagged cxi_tagged_ops;
extern struct fi_ops_rma cxi_rma_ops;
extern const struct kit_atomic_ops cxi_atomic_ops;

/* --- TX context (cxi_txc.c) ---------------------------------------------------------------------- */
struct cxi_txc {
	struct cxi_domain *domain;
	struct cxi_ep *ep;               /* whose it is; NULL: shared */
	struct cassini_cmdq *cmdq;
	/* whose sends the context has no reason to remember: cxi_txc_gate(); NULL: all are */
	const struct cxi_ep *forgets_of;
	uint64_t send_seq;               /* of the latest send */
	uint32_t used, max;              /* operations outstanding, tx_attr.size */
	struct fid_stx stx;              /* a shared context's fid */
	uint32_t refs;                   /* endpoints using it */
	uint8_t idx;
	uint32_t tclass;
	struct cassini_cp *cp;
	struct cxi_cps cps;
	struct cassini_eq *eq;
	uint32_t eq_low;                 /* free event slots below which posts return -FI_EAGAIN */
	struct slab txs;                 /* struct cxi_tx */
	void *fc;                        /* cxi_fc.c: peers in flow control, sends held for them */
	void *rnr;                       /* cxi_rnr.c: retries by time */
	LIST_ENTRY(cxi_txc) all;         /* domain->txcs */
};
/** cxi_txc_gate() - The owner of @t, or its flow control, has come or gone. */
void cxi_txc_gate(struct cxi_txc *t);
int cxi_txc_open(struct cxi_domain *d, const struct cxi_key *key, uint32_t tclass, size_t size, struct cxi_txc **out);
void cxi_txc_close(struct cxi_txc *t);
/** cxi_txc_timers() - Retries that are due (flow control, RNR). Return: how many. */
int cxi_txc_timers(struct cxi_txc *t);
/** cxi_txc_has_timers() - Would it look at anything? */
bool cxi_txc_has_timers(const struct cxi_txc *t);

/* One operation of the initiator: send, RMA, atomic. From the call to its completion. */
enum cxi_tx_kind { CXI_TX_SEND, CXI_TX_READ, CXI_TX_WRITE, CXI_TX_ATOMIC, CXI_TX_FETCH, CXI_TX_KIND_NUM };
enum { CXI_WAIT_ACK = 1, CXI_WAIT_GET = 2, CXI_WAIT_MATCH = 4 };
struct cxi_tx {
	struct cxi_req req;              /* first */
	struct cxi_ep *ep;
	struct cxi_txc *txc;
	struct cxi_portal *portal;
	void *context;
	uint64_t flags;                  /* operation flags as resolved: FI_COMPLETION, levels, FI_REMOTE_CQ_DATA ... */
	uint64_t cqe_flags;              /* what the completion will say: FI_SEND | FI_TAGGED ... */
	uint8_t kind;                    /* enum cxi_tx_kind */
	bool tagged, wants_cqe, has_cntr, internal;
	bool is_held;                    /* refused by flow control, waits to be sent again */
	bool is_silent;                  /* no completion may name it: an inject call's, or it has had it */
	uint8_t wait;                    /* sends: CXI_WAIT_*, what still has to come */
	uint8_t rc;                      /* rendezvous: how the Get went */
	int16_t tx_id;                   /* match-complete id, -1 */
	int32_t rdzv_id;                 /* -1 */
	uint32_t len;
	const void *buf;
	uint64_t tag, data;
	struct cxi_dest dest;
	struct cassini_cmd cmd;          /* kept for retries */
	TAILQ_ENTRY(cxi_tx) link;        /* flow control, RNR queues */
	uint64_t seq;                    /* sends: order of the calls */
	struct cassini_ct *done;         /* deferred work: counted here when it ends */
	uint64_t due_ns, first_ns;       /* RNR */
	uint8_t tries;
	bool canceled;
	bool is_asked;                   /* cxi_alive.c */
	uint32_t life;
	uint8_t inject[CASSINI_IDC_MAX]; /* payload of an injected send that may be sent again */
	void *own;                       /* in place of @inject: of one that came back, and is longer */
};
/**
 * cxi_tx_get() - A fresh operation of @ep; not zeroed beyond the bookkeeping. NULL: tx_attr.size are outstanding or
 * memory is short: -FI_EAGAIN.
 */
struct cxi_tx *cxi_tx_get(struct cxi_ep *ep, enum cxi_tx_kind kind, uint64_t flags, void *context);
/* also beyond tx_attr.size */
struct cxi_tx *cxi_tx_more(struct cxi_ep *ep, enum cxi_tx_kind kind, uint64_t flags, void *context);
/** cxi_tx_done() - It has ended with @rc: completion or error entry and counter as its flags say; freed. */
void cxi_tx_done(struct cxi_tx *tx, uint8_t rc);
void cxi_tx_fail(struct cxi_tx *tx, int err, int prov_errno); /* the same with a given error */
void cxi_tx_put(struct cxi_tx *tx);                            /* never started */
/**
 * cxi_post() - cassini_post() of tx->cmd on its queue with FI_FENCE, FI_MORE and the EQ's fill limit observed. 0;
 * -FI_EAGAIN ...
 */
int cxi_post(struct cxi_tx *tx);

/* When a command is to run: at once (trig NULL), or when a counter says so, as deferred work. */
struct cxi_work {
	struct cassini_ct *trig;
	uint64_t threshold;
	struct cassini_ct *done;         /* counts its end, or NULL */
};
/**
 * cxi_tx_start() - cxi_post(), or queue it as @work says. @done is counted by the adapter unless tx->wait is set, else
 * by cxi_tx_done().
 */
int cxi_tx_start(struct cxi_tx *tx, const struct cxi_work *work);

/* What every entry point checks first: enabled, not forked, and the domain's lock. */
int cxi_ep_state(struct cxi_ep *ep); /* 0; -FI_EOPBADSTATE; -FI_EIO in a child after fork */
/* an alias takes over what its base has. 0; -FI_EOPBADSTATE: that is not enabled */
int cxi_alias_sync(struct cxi_ep *ep);
/* The same for the calls of one direction: a context that lacks it says -FI_ENOSYS. */
int cxi_tx_state_any(struct cxi_ep *ep);
int cxi_rx_state_any(struct cxi_ep *ep);
static inline int cxi_tx_state(struct cxi_ep *ep)
{
	return likely(*ep->tx_mark) ? 0 : cxi_tx_state_any(ep);
}
static inline int cxi_rx_state(struct cxi_ep *ep)
{
	return likely(*ep->rx_mark) ? 0 : cxi_rx_state_any(ep);
}

/* --- sends (cxi_send.c, cxi_rnr.c) ---------------------------------------------------------------- */
enum cxi_proto { CXI_P_ZERO, CXI_P_IDC, CXI_P_EAGER, CXI_P_RDZV };
/** cxi_select_proto() - Which command carries a message of @len bytes. Pure. */
enum cxi_proto cxi_select_proto(const struct cxi_params *p, size_t len, bool inject, bool triggered, bool rnr);
struct cxi_send_args {
	const void *buf; size_t len; fi_addr_t dest; uint64_t tag, data; void *context; uint64_t flags;
	const struct cxi_work *work;     /* NULL: at once */
	bool tagged, inject, no_cqe;
};
/** cxi_send_common() - All sends. Lock held. 0 or the documented error. */
ssize_t cxi_send_common(struct cxi_ep *ep, const struct cxi_send_args *a);
void cxi_rdzv_on_event(struct cxi_req *req, const struct cassini_event *ev); /* GET at 255: a source was fetched */
void cxi_zbp_on_event(struct cxi_req *req, const struct cassini_event *ev);  /* PUT at 255: a send was matched */
void cxi_send_lost(void *txc, const struct cassini_cmd *lost, uint8_t rc);     /* cassini_cmdq_attr.on_lost */
/** cxi_rnr_retry() - ENTRY_NOT_FOUND: try again later or fail. */
void cxi_rnr_retry(struct cxi_tx *tx);
/** cxi_rnr_cancel() - fi_cancel() of a send of @ep that waits for its next try. */
int cxi_rnr_cancel(const struct cxi_ep *ep, void *context);
int cxi_rnr_timers(struct cxi_txc *t, uint64_t now_ns); /* retries that are due. Return: how many */
bool cxi_rnr_is_idle(const struct cxi_txc *t);
/** cxi_rnr_forget() - @portal is about to go: what was sent from it and waits for its next try vanishes. */
void cxi_rnr_forget(struct cxi_txc *t, const struct cxi_portal *portal);
void cxi_rnr_fini(struct cxi_txc *t);                   /* those that wait vanish; t->rnr may be NULL */

/* --- RX context (cxi_rxc.c, cxi_recv.c, cxi_ux.c, cxi_fc.c) -------------------------------------- */
enum cxi_rxc_state {
	CXI_RXC_DISABLED, CXI_RXC_ENABLED, CXI_RXC_ENABLED_SOFTWARE, CXI_RXC_PENDING_DISABLE, CXI_RXC_PENDING_SOFTWARE,
	CXI_RXC_ONLOAD, CXI_RXC_ONLOAD_REENABLE, CXI_RXC_FLOW_CONTROL, CXI_RXC_STATE_NUM
};
struct cxi_buf;
struct cxi_rx;
struct cxi_ux;
struct cxi_portal;
/* What is the same of all tagged messages of a context, or of all others. */
struct cxi_form {
	uint64_t bits, ignore; /* match bits that say so, and those that its receives never look at */
	uint64_t tag_mask;     /* which of them are the tag */
	uint64_t cqe_flags;
};
struct cxi_rxc {
	struct cxi_req pte_req;          /* events of the PTE itself: STATE_CHANGE, SEARCH of onloading */
	struct cxi_domain *domain;
	struct cxi_ep *ep;               /* whose context: EP, RX_CTX or SRX */
	uint8_t idx;                     /* pid_idx */
	bool is_rnr;
	enum cxi_match_mode mode;
	enum cxi_rxc_state state;        /* cxi_rxc_set_state() is the only writer */
	struct cassini_eq *eq;
	struct cassini_pte *pte;
	struct cxi_portal *portal[8];    /* where it is mapped; more than one when shared */
	int portal_cnt;
	struct cassini_cmdq *cmdq;       /* Gets that software issues, match-complete notices */
	uint32_t tclass;                 /* of these: FI_CXI_RGET_TC or the endpoint's */
	struct cassini_cp *cp;
	struct cxi_cps cps;
	struct slab rxs, uxs;            /* struct cxi_rx, struct cxi_ux */
	SLIST_HEAD(, cxi_rx) resting;     /* of @rxs: those that have ended, as new */
	/* receives so far, and those of them that have ended: their difference is posted; and what else went on */
	uint32_t accepted, ended, moved;
	uint32_t max;                    /* rx_attr.size, which bounds the event queue, not receives: list entries do */
	TAILQ_HEAD(, cxi_rx) rx_list;    /* all of them, in order of posting */
	struct mt_posted sw_posted;      /* of those, the ones that software matches, and appends to be replayed */
	struct mt_unexp sw_unexp;        /* unexpected messages that software holds: struct cxi_ux */
	TAILQ_HEAD(cxi_rx_wait, cxi_rx) stalled;    /* messages whose Get or notice found the queue full */
	struct cxi_rx_wait untold;       /* receives of which an event was dropped: cxi_multi.c */
	TAILQ_HEAD(, cxi_ux) claimed;    /* taken out by FI_PEEK | FI_CLAIM */
	LIST_HEAD(, cxi_buf) bufs;       /* overflow and request buffers, posted or still holding messages */
	LIST_HEAD(, cxi_buf) spare[2];   /* [0] overflow, [1] request: kept for reuse */
	uint32_t buf_posted[2], buf_cnt[2];
	bool buf_short[2];               /* a buffer could not be posted: try again */
	bool closing;
	/* receives may end in cxi_rx_show(): not closing, of one endpoint, no counter, none told of unknown senders */
	bool ends_shown;
	bool is_soft;                    /* went to software matching, for good */
	bool preempts;                   /* hybrid: posting a receive may be the reason to */
	/* the adapter matches, and nothing is to be looked at before a receive is appended: cxi_rxc_gate() */
	bool is_clear;
	bool has_replay;                 /* receives that were refused wait to be posted again, in order: cxi_fc.c */
	struct cxi_form form[2]; /* [tagged] */
	uint64_t data_bit;	 /* of match bits: there is FI_REMOTE_CQ_DATA */
	size_t min_multi_recv;
	void *fc;                        /* cxi_fc.c */
	/* messages lost for want of memory whose senders wait to be told, which the queue had no room for */
	struct cassini_event lost[16];
	uint32_t lost_cnt;
	uint64_t append_retries;         /* RNR: receives whose entry did not fit at first */
	LIST_ENTRY(cxi_rxc) all;         /* domain->rxcs */
};
static inline uint32_t cxi_rxc_posted(const struct cxi_rxc *r)
{
	return r->accepted - r->ended;
}
/** cxi_rxc_steps() - Changes whenever a receive comes or goes, a message is taken, or a buffer for them is posted. */
static inline uint32_t cxi_rxc_steps(const struct cxi_rxc *r)
{
	return r->accepted + r->ended + r->moved;
}
int cxi_rxc_open(struct cxi_domain *d, struct cxi_ep *ep, unsigned idx, size_t size, struct cxi_rxc **out);
/* and enables the PTE the first time. 0; -FI_ENOSPC ... */
int cxi_rxc_map(struct cxi_rxc *r, struct cxi_portal *p, unsigned pid_idx);
void cxi_rxc_unmap(struct cxi_rxc *r, struct cxi_portal *p, unsigned pid_idx);
void cxi_rxc_close(struct cxi_rxc *r); /* posted receives vanish without completions */
int cxi_rxc_timers(struct cxi_rxc *r);
/** cxi_rxc_has_timers() - Would it look at anything? */
bool cxi_rxc_has_timers(const struct cxi_rxc *r);
struct cxi_recv_args {
	void *buf; size_t len; fi_addr_t src; uint64_t tag, ignore; void *context; uint64_t flags;
	bool tagged;
	struct cassini_ct *done;         /* deferred work: counts its end; NULL */
};
KIT_RECV_CALLS(cxi);
/** cxi_recv_common() - All receives, FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV. Lock held. */
ssize_t cxi_recv_common(struct cxi_ep *ep, const struct cxi_recv_args *a);
/** cxi_recv_cancel() - fi_cancel of a receive. 0; -FI_ENOENT. */
int cxi_recv_cancel(struct cxi_rxc *r, void *context);
/* Flow control: cxi_fc.c */
void cxi_fc_on_ctrl(struct cxi_req *req, const struct cassini_event *ev);   /* control message at 255 */
bool cxi_fc_holds(struct cxi_txc *t, const struct cxi_dest *dest);           /* sends to there wait */
/* ACK PT_DISABLED: queue it, notify the peer */
void cxi_fc_refused(struct cxi_tx *tx);
/**
 * cxi_fc_miscounted() - A peer has refused, or will refuse, something of @portal that no context knows. From now on its
 * notices name as many as they can when nothing is under way there, of which the peer takes what is true; else that
 * peer would take the rest for refusals that are to be told of yet, and refuse us for ever.
 */
void cxi_fc_miscounted(struct cxi_portal *portal);
void cxi_fc_notified(struct cxi_rxc *r, struct cxi_portal *p, const struct cassini_event *ev); /* a sender's notice */
/**
 * cxi_ctrl_send() - Control message @bits to @to (vni 0: the first), tried again while the path is full. 0; -FI_ENOMEM
 * ...
 */
int cxi_ctrl_send(struct cxi_portal *p, const struct cxi_dest *to, uint64_t bits);
int cxi_ctrl_timers(struct cxi_portal *p);
void cxi_ctrl_fini(struct cxi_portal *p);
int cxi_fc_timers(struct cxi_txc *t, uint64_t now_ns);
/** cxi_fc_forget() - @portal is about to go: what was sent from it and refused vanishes. */
void cxi_fc_forget(struct cxi_txc *t, const struct cxi_portal *portal);
void cxi_fc_fini(struct cxi_txc *t);                                         /* held sends vanish; t->fc may be NULL */

/* --- regions (cxi_mr.c) -------------------------------------------------------------------------- */
struct cxi_mr {
	struct cxi_req req;              /* events of its entry */
	struct fid_mr fid;
	struct cxi_domain *domain;
	struct cxi_portal *portal;       /* bound endpoint's; NULL before fi_mr_bind */
	struct cxi_ep *ep;
	LIST_ENTRY(cxi_mr) link;         /* portal->mrs */
	struct cxi_mr *hnext;
	/* FI_CXI_PROV_KEY_CACHE: ring of the regions that have one entry and key, or NULL */
	struct cxi_mr *shared_by;
	bool is_cached;                  /* stands in domain->mr_tab under its address */
	void *addr; size_t len;
	uint64_t access, key;
	bool enabled, optimized, rma_events;
	bool counts_events;              /* FI_CXI_MR_MATCH_EVENTS: @matched and @ended count operations of peers */
	uint32_t matched, ended;
	struct cassini_pte *pte;         /* optimized: its own; else the portal's */
	struct cassini_le *le, *le_sol;
	unsigned pid_idx;
	struct cxi_cntr *cntr;           /* FI_REMOTE_WRITE */
};
int cxi_mr_open(struct kit_domain *d, const struct kit_mr_req *req, struct fid_mr **out);
/* How to reach a region by its key alone. */
struct cxi_rkey { uint8_t pid_idx; bool optimized; uint64_t match_bits; uint64_t offset; };
/** cxi_rkey_decode() - 0; -FI_EKEYREJECTED malformed. */
int cxi_rkey_decode(const struct cxi_domain *d, uint64_t key, struct cxi_rkey *out);

/* --- RMA, atomics, counters, deferred work (cxi_rma.c, cxi_atomic.c, cxi_cntr.c, cxi_trig.c) -------- */
struct cxi_cntr {
	struct kit_cntr kit;
	LIST_ENTRY(cxi_cntr) link;       /* domain->cntrs */
	struct cassini_ct *ct;
	uint64_t wb;                     /* written by the adapter until the application names another place */
	bool bytes, cached;
};
/**
 * cxi_cntr_cancel() - Deferred work that waits for @c is forgotten. cxi_cntr_forget() - The same, and what is under way
 * does not count there any more: it closes. cxi_dwq_forget() - What @ep would do is forgotten. Lock held.
 */
void cxi_cntr_cancel(struct cxi_cntr *c);
void cxi_cntr_forget(struct cxi_domain *d, struct cxi_cntr *c);
void cxi_dwq_forget(const struct cxi_ep *ep);
/* What reads, writes and atomics have in common: where in whose memory, and how they end. */
struct cxi_far {
	enum cxi_tx_kind kind; /* all but CXI_TX_SEND */
	fi_addr_t dest;
	uint64_t addr, key;
	void *context;
	uint64_t flags;
	bool inject, no_cqe;
	struct cxi_work work;
};
struct cxi_rkey;
/** cxi_far_find() - Whom @f means, and which region. 0; -FI_EINVAL; -FI_EKEYREJECTED. */
int cxi_far_find(const struct cxi_ep *ep, const struct cxi_far *f, struct cxi_dest *dest, struct cxi_rkey *rkey);
/** cxi_far_get() - An operation whose command lacks what to do, and flags besides CASSINI_CMD_FLUSH. NULL: -FI_EAGAIN.
 */
struct cxi_tx *cxi_far_get(struct cxi_ep *ep, const struct cxi_far *f, const struct cxi_dest *dest,
			   const struct cxi_rkey *rkey);
/** cxi_far_start() - Off with it. 0; what cxi_tx_start() says, and @tx is gone. */
int cxi_far_start(struct cxi_tx *tx, const struct cxi_far *f);
struct cxi_rma_args {
	struct cxi_far far; /* CXI_TX_READ, CXI_TX_WRITE */
	const void *buf;
	size_t len;
	uint64_t data;
};
/** cxi_rma_common() - All reads and writes. Lock held. 0 or the documented error. */
ssize_t cxi_rma_common(struct cxi_ep *ep, const struct cxi_rma_args *a);
int cxi_rma_msg_check(const struct fi_msg_rma *msg, uint64_t flags, bool is_write);
struct cxi_rma_args cxi_rma_from_msg(const struct fi_msg_rma *msg, uint64_t flags, bool is_write);
struct cxi_amo_args {
	struct cxi_far far; /* CXI_TX_ATOMIC, CXI_TX_FETCH */
	enum fi_datatype type;
	enum fi_op op;
	const void *buf, *compare;
	void *result;
};
/** cxi_amo_common() - All atomics. Lock held. 0 or the documented error. */
ssize_t cxi_amo_common(struct cxi_ep *ep, const struct cxi_amo_args *a);
/**
 * cxi_amo_from_msg() - The arguments of the message forms; @fetch and @compare may be NULL. 0; -FI_EINVAL;
 * -FI_EBADFLAGS.
 */
int cxi_amo_from_msg(const struct fi_msg_atomic *msg, const struct fi_msg_fetch *fetch,
		     const struct fi_msg_compare *compare, uint64_t flags, struct cxi_amo_args *out);
/** cxi_cntr_count() - @ok operations of @bytes in all, or @err failures. NULL is fine. Lock held. */
void cxi_cntr_count(struct kit_cntr *c, uint64_t bytes, uint64_t ok, uint64_t err);
int cxi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
int cxi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags);
/** cxi_queue_work() - fi_control(FI_QUEUE_WORK). cxi_flush_work(): FI_FLUSH_WORK. Lock held. */
struct fi_deferred_work;
int cxi_queue_work(struct cxi_domain *d, struct fi_deferred_work *work);
int cxi_flush_work(struct cxi_domain *d);
/** cxi_dwq_get() - The queue whose triggered commands leave in @vni and @tclass. 0; -FI_EACCES; -FI_ENOSPC ... */
int cxi_dwq_get(struct cxi_domain *d, uint16_t vni, uint32_t tclass, struct cassini_cmdq **out);
void cxi_dwq_close(struct cxi_domain *d);

/* --- errors (cxi_err.c), extensions (cxi_ext.c) -------------------------------------------------- */
int cxi_errno(unsigned rc);              /* doc/facts/cxi.md#errors; 0 for OK */
const char *cxi_strerror(unsigned prov_errno);
/**
 * cxi_unexp_list() - Messages that came to @ep and no receive has taken: up to @max entries and their senders. Return:
 * how many there are; -FI_E...
 */
ssize_t cxi_unexp_list(struct cxi_ep *ep, struct fi_cq_tagged_entry *entry, fi_addr_t *src, size_t max);
extern const struct kit_stats_group cxi_stats_groups[];
int cxi_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int cxi_domain_control(struct fid *fid, int command, void *arg);
void cxi_telemetry_start(struct cxi_domain *d);
void cxi_telemetry_print(struct cxi_domain *d);

int cxi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		struct fi_info **info);
int cxi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int cxi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
int cxi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);

#endif
