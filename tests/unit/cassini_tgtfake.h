// SPDX-License-Identifier: BSD-2-Clause
// The target of the soft Cassini adapter alone: a Domain, a PTE and an EQ; link, Domain and initiator are records of
// what they were told.
#ifndef SF_TESTS_UNIT_CASSINI_TGTFAKE_H
#define SF_TESTS_UNIT_CASSINI_TGTFAKE_H

#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "nic/cassini/cassini_tgt.h"

#define TF_MAX	   256
#define TF_IDX	   5u /* where the PTE is mapped */
#define TF_NIC	   7u
#define TF_PID	   3u
#define TF_PEER	   CASSINI_MATCH_ID(TF_PID, TF_NIC)
#define TF_REGION  77u /* key of every region of the peer; raddr is an address of ours */
#define TF_BAD_KEY 66u

struct tf_answer {
	struct cassini_pkt_in pkt;
	struct cassini_peer *peer;
	uint8_t data[CASSINI_FRAME_DATA];
};

struct tf_bulk {
	int op;
	void *local;
	size_t len;
	uint64_t raddr;
	uint32_t key;
	struct cassini_work *work;
	bool is_stopped;
};

struct tf {
	struct lock lock;
	struct cassini nic;
	struct cassini_lni lni;
	struct cassini_dom dom;
	struct cassini_peer peer, other;
	struct cassini_eq *eq;
	struct cassini_pte *pte;
	struct cassini_op source; /* a rendezvous of ours to the peer, if in_rdzv */
	struct cassini_ct ct;
	struct tf_answer answer[TF_MAX];
	struct tf_bulk bulk[TF_MAX]; /* in flight: [bulk_done, bulk_cnt) */
	unsigned answer_cnt, bulk_cnt, bulk_done, got_cnt, gone_cnt, poll_cnt, look_cnt;
	uint64_t got_bits;
	int bulk_rc; /* link_bulk() answers this */
	unsigned stop_busy_cnt; /* so many times link_bulk_stop() has to be asked again */
	bool is_stopping;	/* it was: the oldest copy ends whenever the adapter idles */
	bool no_answers; /* there is no memory for them */
	bool bulk_sync;	 /* copies end before link_bulk() returns */
	bool poll_ends;	 /* polling the Domain ends the oldest copy */
	uint64_t now_ns;
	int64_t live;
};
extern struct tf g_tf;
#define TF_BIG 50000u
extern char g_tf_src[TF_BIG], g_tf_dst[TF_BIG + 64], g_tf_over[TF_BIG + 64];

#define TF_MATCHING  ((struct cassini_pte_opts){.is_matching = true})
#define TF_FLOWCTRL  ((struct cassini_pte_opts){.is_matching = true, .en_flowctrl = true})
#define TF_RECV	     (CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_USE_ONCE | CASSINI_LE_EVENT_LINK_DISABLE)
#define TF_BUFFER    (CASSINI_LE_OP_PUT | CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_NO_TRUNCATE | \
		      CASSINI_LE_EVENT_LINK_DISABLE)
#define TF_WINDOW    (CASSINI_LE_OP_PUT | CASSINI_LE_OP_GET | CASSINI_LE_EVENT_LINK_DISABLE)

/** tf_open() - A PTE of @opts, ENABLED, with an EQ of @slots (4 more for flow control) and @les list entries. */
void tf_open(struct cassini_pte_opts opts, uint32_t slots, uint32_t les);
/** tf_close() - Nothing may be left. */
void tf_close(void);
/** tf_attr() - Entry on @list for @bits (exact) of any initiator. */
struct cassini_le_attr tf_attr(enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t bits,
			       uint64_t user_ptr);
struct cassini_le *tf_append(enum cassini_list list, uint32_t flags, void *start, uint64_t len, uint64_t bits,
			     uint64_t user_ptr);
/** tf_pkt() - A packet of the peer with @bits, @len bytes asked for. */
struct cassini_pkt_in tf_pkt(enum cassini_pkt_op op, uint64_t bits, uint32_t len);
/** tf_send() - Show it with the payload at @data. Return: the verdict. */
int tf_send(const struct cassini_pkt_in *pkt, const void *data);
int tf_put(uint64_t bits, const void *data, uint32_t len);
/** tf_bulk_end() - End the oldest copy in flight: 0 copies, else the status. */
void tf_bulk_end(int status);
/** tf_event() - Take the oldest event, which must be of @type and @rc. */
struct cassini_event tf_event(enum cassini_event_type type, enum cassini_rc rc);
void tf_no_event(void);
/** tf_answer() - The latest answer, which must be the @cnt-th and of @op. */
const struct tf_answer *tf_answer(unsigned cnt, enum cassini_pkt_op op);
struct cassini_pte_status tf_status(void);
/** tf_fill() - A pattern in g_tf_src, the others empty. */
void tf_fill(void);
/**
 * tf_put_bulk(), tf_rput() - A Put that is to be fetched from g_tf_src; a rendezvous of which @eager bytes come now.
 * Return: the verdict.
 */
int tf_put_bulk(uint64_t bits, uint32_t len);
int tf_rput(uint64_t bits, uint32_t len, uint32_t eager);
/** tf_state_change() - The oldest event says that the adapter changed the state itself. */
struct cassini_event tf_state_change(enum cassini_pte_state to, enum cassini_sc_reason why);
/** tf_append_any() - A buffer that takes whatever fits. */
struct cassini_le *tf_append_any(enum cassini_list list, void *start, uint64_t len, uint64_t user_ptr);
/** tf_source_open() - A RENDEZVOUS_PUT of ours to the peer, and the entry at 255 that its software posts. */
struct cassini_op *tf_source_open(void);
void tf_source_close(struct cassini_op *op);

#endif
