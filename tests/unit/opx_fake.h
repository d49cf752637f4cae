// SPDX-License-Identifier: BSD-2-Clause
// What the objects of the opx provider stand on, faked: units and contexts without an adapter, a reliability and
// protocols that do nothing.
#ifndef SF_TESTS_UNIT_OPX_FAKE_H
#define SF_TESTS_UNIT_OPX_FAKE_H

#include "prov/opx/opx.h"
#include "unit.h"

#define FAKE_UNITS 4

struct fake_opx {
	struct hfi_unit_attr unit[FAKE_UNITS];
	int unit_cnt;
	bool busy[FAKE_UNITS][HFI_CTXT_MAX]; /* contexts that somebody holds */
	int open_err;                        /* of the next hfi_ctxt_open(); 0: none */
	int peers_err;                       /* of the next opx_peers_init(); 0: none */
	int opened, peers, forgotten;        /* contexts open; with peers; calls of opx_peers_forget() */
	_Atomic int polls;                   /* calls of hfi_ctxt_poll() */
	char thread[16];                     /* name of the thread that polled last */
	uint64_t sigmask_blocked;            /* signals that it blocks, bit per number */
	int cpus;                            /* cores that it may run on */
	bool undrained;                      /* something is unacknowledged */
	uint64_t now_ns;                     /* advances with each look */
	uint64_t next_ns;                    /* opx_rel_next_ns() */
	int wait_fd;                         /* of every context; 0: none */
	bool is_armed;                       /* the last one that was, since the last poll */
	struct hfi_ctxt_attr ctxt;           /* of the last context opened */
	void (*turn)(void);                  /* before a context opens: others may do something first; NULL */
};
extern struct fake_opx g_fake;
extern _Thread_local int g_fake_spent;       /* time that this thread has spent on opening and closing contexts */

/** fake_reset() - @cnt ACTIVE units of 8 contexts, LIDs from 1 on; variables of the environment gone. */
void fake_reset(int cnt);
/** fake_log_cnt() - Lines of the provider, not the kit, of level WARN since the last reset that contain @text. */
int fake_log_cnt(const char *text);

struct fi_provider *fi_prov_ini(void);
int fake_group_setup(void **state);

/* Objects opened without the core, so that they do not depend on the local libfabric. */
struct fake_dom {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};
void fake_open(struct fake_dom *f, struct fi_info *hints);
void fake_close(struct fake_dom *f);
static inline struct opx_domain *fake_domain(const struct fake_dom *f)
{
	return container_of(f->domain, struct opx_domain, kit.fid);
}

#endif
