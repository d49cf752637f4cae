// SPDX-License-Identifier: BSD-2-Clause
// Portal table entries: life, states, and the commands that work on their lists.
#include "nic/cassini/cassini_tgt.h"

#include <errno.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/mem.h"

/*
 * Theory of operation
 *
 * An append on the priority list and a search go through the unexpected headers; both are runs. Each hit is an event,
 * and there may be more hits than the EQ has slots. A run then pauses where it is, goes on when a poll finds room, and
 * until it has ended all other commands find -EAGAIN. Packets go on arriving meanwhile: they are matched by the entries
 * that are linked, or become headers behind the ones that the run has still to see. So a paused run does nothing that a
 * quick one would not have done.
 *
 * An entry that is unlinked while copies are under way leaves its list at once, and its UNLINK event comes when they
 * have ended.
 *
 * A header whose data is still landing (a large Put fetched by bulk copy) is taken by an append at once, and its event
 * follows the data. A search that deletes waits for it.
 */

#define LE_CHUNK     64
#define CLOSE_NS     (2 * NS_PER_SEC) /* longest wait for copies in flight */
#define DROP_MASK    0xffffffu
#define MIN_FREE_MAX 0xffffffu

static struct cassini *nic_of(const struct cassini_pte *pte)
{
	return pte->lni->nic;
}

static uint32_t drop_start(const struct cassini_pte *pte)
{
	return nic_of(pte)->info.version == 1 ? DROP_MASK : 0;
}

/* --- life --- */

static int ptn_get(struct cassini *nic, unsigned *ptn)
{
	for (unsigned i = 0; i < ARRAY_SIZE(nic->ptn_used); i++) {
		if (~nic->ptn_used[i]) {
			*ptn = i * 64 + (unsigned)__builtin_ctzll(~nic->ptn_used[i]);
			nic->ptn_used[i] |= BIT(*ptn % 64);
			return 0;
		}
	}
	return -ENOSPC;
}

static void ptn_put(struct cassini *nic, unsigned ptn)
{
	nic->ptn_used[ptn / 64] &= ~BIT(ptn % 64);
}

static void pte_init(struct cassini_pte *pte)
{
	uint32_t les = MIN(MAX(pte->lni->svc.max[CASSINI_RSRC_LE], 1u), SLAB_MAX_CNT);

	for (unsigned i = 0; i < ARRAY_SIZE(pte->list); i++)
		mt_posted_init(&pte->list[i]);
	mt_unexp_init(&pte->ules);
	STAILQ_INIT(&pte->landing);
	TAILQ_INIT(&pte->drops);
	must(!slab_init(&pte->le_slab, sizeof(struct cassini_le), CACHE_LINE, LE_CHUNK, les));
	must(!slab_init(&pte->ule_slab, sizeof(struct cassini_ule), CACHE_LINE, LE_CHUNK, les));
	must(!slab_init(&pte->copy_slab, sizeof(struct cassini_copy), CACHE_LINE, LE_CHUNK, 0));
	pte->drop_count = drop_start(pte);
}

int cassini_pte_open(struct cassini_lni *lni, struct cassini_eq *eq, const struct cassini_pte_opts *opts, void *user,
		     struct cassini_pte **out)
{
	struct cassini_pte *pte;
	int rc;

	lock_assert_held(lni->nic->open.lock);
	rc = cassini_rsrc_get(lni, CASSINI_RSRC_PTE);
	if (rc)
		return rc;
	pte = mem_alloc_aligned(CACHE_LINE, sizeof(*pte));
	rc = pte ? ptn_get(lni->nic, &pte->ptn) : -ENOMEM;
	if (rc) {
		LOG_WARN("no portal table entry: %s", pte ? "all of the adapter's are in use" : "out of memory");
		mem_free(pte);
		cassini_rsrc_put(lni, CASSINI_RSRC_PTE);
		return rc;
	}
	pte->lni = lni;
	pte->eq = eq;
	pte->opts = *opts;
	pte->user = user;
	pte_init(pte);
	*out = pte;
	return 0;
}

static void pte_free(struct cassini_pte *pte)
{
	for (unsigned i = 0; i < ARRAY_SIZE(pte->list); i++)
		mt_posted_fini(&pte->list[i]);
	mt_unexp_fini(&pte->ules);
	slab_fini(&pte->le_slab);
	slab_fini(&pte->ule_slab);
	slab_fini(&pte->copy_slab);
	mem_free(pte);
}

void cassini_pte_unbusy(struct cassini_pte *pte)
{
	if (!--pte->busy && pte->closing)
		pte_free(pte);
}

static void pte_unmap_all(struct cassini_pte *pte)
{
	struct cassini_dom *dom;

	LIST_FOREACH (dom, &nic_of(pte)->doms, link) {
		for (unsigned i = 0; pte->map_cnt && i < CASSINI_PID_IDX_CNT; i++)
			if (dom->pte[i] == pte)
				cassini_pte_unmap(pte, dom, i);
	}
}

/* Nothing was found to do: others may have the lock meanwhile. */
static void idle_unlocked(struct cassini *nic)
{
	lock_release(nic->open.lock);
	cassini_idle(nic);
	lock_acquire(nic->open.lock);
}

/* Copies in flight write to the user's memory: they must end before it is the user's again. */
static void pte_drain(struct cassini_pte *pte)
{
	struct cassini *nic = nic_of(pte);
	uint64_t end_ns = cassini_now_ns(nic) + CLOSE_NS;
	struct cassini_dom *dom;

	while (pte->busy > 1 && cassini_now_ns(nic) < end_ns) {
		int n = 0;

		LIST_FOREACH (dom, &nic->doms, link)
			n += cassini_dom_poll(dom);
		if (!n && pte->busy > 1)
			idle_unlocked(nic);
	}
	if (pte->busy > 1)
		LOG_WARN("portal table entry %u closed with %u copies in flight: their peers do not answer", pte->ptn,
			 pte->busy - 1);
}

static void run_end(struct cassini_pte *pte)
{
	struct cassini_run *run = &pte->run;

	if (run->has_slot)
		cassini_eq_unclaim(pte->eq);
	run->has_slot = run->is_active = false;
	run->le = NULL;
	LIST_REMOVE(pte, waiting);
	cassini_pte_gate(pte);
}

static void lists_free(struct cassini_pte *pte)
{
	struct mt_node *n, *next;

	for (unsigned i = 0; i < ARRAY_SIZE(pte->list); i++) {
		for (n = mt_posted_first(&pte->list[i]); n; n = next) {
			next = mt_posted_next(n);
			cassini_le_unlink(container_of(n, struct cassini_le, mt));
		}
	}
	for (n = mt_unexp_first(&pte->ules); n; n = next) {
		struct cassini_ule *ule = container_of(n, struct cassini_ule, mt);

		next = mt_unexp_next(n);
		if (!ule->landing) /* else its copy frees it */
			cassini_ule_free(pte, ule);
	}
}

static void le_give_back(void *obj, void *arg)
{
	const struct cassini_le *le = obj;

	(void)arg;
	if (cassini_le_is_used(le))
		cassini_rsrc_put(le->pte->lni, CASSINI_RSRC_LE);
}

void cassini_pte_close(struct cassini_pte *pte)
{
	if (!pte)
		return;
	lock_assert_held(nic_of(pte)->open.lock);
	pte_unmap_all(pte);
	pte->busy++; /* ours: nothing is freed while we look */
	pte_drain(pte);
	if (pte->run.is_active) {
		struct cassini_le *le = pte->run.le;

		run_end(pte);
		if (le)
			cassini_le_unref(le); /* copies may still hold it */
	}
	lists_free(pte);
	cassini_drops_clear(pte, true);
	/* what copies that never end hold is given back now: LNI and EQ may be closed before */
	slab_foreach(&pte->le_slab, le_give_back, NULL);
	for (uint32_t n = slab_used(&pte->ule_slab); n; n--)
		cassini_rsrc_put(pte->lni, CASSINI_RSRC_LE);
	cassini_rsrc_put(pte->lni, CASSINI_RSRC_PTE);
	ptn_put(nic_of(pte), pte->ptn);
	pte->closing = true;
	cassini_tgt_orphan(pte);
	while (!cassini_tgt_stop(pte))
		idle_unlocked(nic_of(pte));
	cassini_pte_unbusy(pte);
}

void cassini_pte_show(struct cassini_pte *pte, bool (*fn)(const struct cassini_event *ev))
{
	pte->show = fn;
}

void *cassini_pte_user(const struct cassini_pte *pte)
{
	return pte->user;
}

unsigned cassini_pte_ptn(const struct cassini_pte *pte)
{
	return pte->ptn;
}

int cassini_pte_map(struct cassini_pte *pte, struct cassini_dom *dom, unsigned pid_idx)
{
	lock_assert_held(nic_of(pte)->open.lock);
	if (pid_idx >= CASSINI_PID_IDX_CNT || dom->nic != nic_of(pte)) {
		LOG_WARN("portal table entry %u cannot be mapped at %u", pte->ptn, pid_idx);
		return -EINVAL;
	}
	if (dom->pte[pid_idx])
		return -EADDRINUSE;
	dom->pte[pid_idx] = pte;
	pte->map_cnt++;
	return 0;
}

void cassini_pte_unmap(struct cassini_pte *pte, struct cassini_dom *dom, unsigned pid_idx)
{
	lock_assert_held(nic_of(pte)->open.lock);
	if (pid_idx >= CASSINI_PID_IDX_CNT || dom->pte[pid_idx] != pte)
		return;
	dom->pte[pid_idx] = NULL;
	pte->map_cnt--;
	cassini_copy_unmap(pte, dom);
	cassini_drops_unmap(pte, dom);
	/* headers may outlive the mapping, but not the Domain with its peers */
	for (struct mt_node *n = mt_unexp_first(&pte->ules), *next; n; n = next) {
		struct cassini_ule *ule = container_of(n, struct cassini_ule, mt);

		next = mt_unexp_next(n);
		if (!ule->peer || ule->peer->dom != dom)
			continue;
		ule->peer = NULL;
		ule->ev.dom = NULL;
		if (pte->opts.on_lost && !ule->landing)
			cassini_ule_lose(pte, ule);
	}
}

/* --- states --- */

static void state_event(struct cassini_pte *pte, enum cassini_sc_reason why, bool nic_auto)
{
	struct cassini_event ev = {
		.type = CASSINI_EV_STATE_CHANGE,
		.rc = CASSINI_RC_OK,
		.state = pte->state,
		.sc_reason = (uint8_t)why,
		.nic_auto = nic_auto,
		.user_ptr = (uintptr_t)pte->user,
	};

	cassini_eq_push_fc(pte->eq, &ev);
}

void cassini_pte_set(struct cassini_pte *pte, enum cassini_pte_state state, enum cassini_sc_reason why, bool nic_auto)
{
	if (state == CASSINI_PTE_DISABLED && pte->state != CASSINI_PTE_DISABLED) {
		pte->drop_count = drop_start(pte);
		cassini_drops_clear(pte, false);
		nic_of(pte)->stats.pte_disabled += nic_auto;
	}
	pte->state = (uint8_t)state;
	cassini_pte_gate(pte);
	state_event(pte, why, nic_auto);
}

static bool drops_agree(const struct cassini_pte *pte, uint32_t drop_count)
{
	return drop_count == CASSINI_DROP_IGNORE || drop_count == pte->drop_count;
}

int cassini_set_state(struct cassini_pte *pte, enum cassini_pte_state state, uint32_t drop_count)
{
	lock_assert_held(nic_of(pte)->open.lock);
	if (state > CASSINI_PTE_SOFTWARE_MANAGED) {
		LOG_WARN("portal table entry %u cannot be put into state %d", pte->ptn, (int)state);
		return -EINVAL;
	}
	if (pte->run.is_active || !cassini_eq_has_room(pte->eq, 1))
		return -EAGAIN;
	if (pte->state == CASSINI_PTE_DISABLED && !drops_agree(pte, drop_count))
		state_event(pte, CASSINI_SC_FC_NO_MATCH, false);
	else
		cassini_pte_set(pte, state, CASSINI_SC_FC_EQ_FULL, false);
	return 0;
}

int cassini_pte_transition_sm(struct cassini_pte *pte, uint32_t drop_count)
{
	lock_assert_held(nic_of(pte)->open.lock);
	if (pte->state != CASSINI_PTE_DISABLED)
		return -EINVAL;
	if (!drops_agree(pte, drop_count) || pte->run.is_active)
		return -EAGAIN;
	cassini_pte_set(pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_FC_EQ_FULL, false);
	return 0;
}

void cassini_pte_status(const struct cassini_pte *pte, struct cassini_pte_status *out, uint64_t *ule_offset,
			uint32_t max)
{
	uint32_t i = 0;

	lock_assert_held(nic_of(pte)->open.lock);
	*out = (struct cassini_pte_status){
		.state = (enum cassini_pte_state)pte->state,
		.drop_count = pte->drop_count,
		.les_used = pte->lni->used[CASSINI_RSRC_LE],
		.les_max = pte->lni->svc.max[CASSINI_RSRC_LE],
		.ule_cnt = mt_unexp_cnt(&pte->ules),
	};
	if (!ule_offset)
		return;
	for (struct mt_node *n = mt_unexp_first(&pte->ules); n && i < max; n = mt_unexp_next(n))
		ule_offset[i++] = container_of(n, struct cassini_ule, mt)->ev.remote_offset;
}

/* --- runs through the unexpected headers --- */

/* An append may make PUT_OVERFLOW and the REPLY of a rendezvous. */
#define APPEND_SLOTS 2

static void link_event(struct cassini_pte *pte, const struct cassini_le_attr *attr, uint8_t rc, bool claimed)
{
	struct cassini_event ev = {
		.type = CASSINI_EV_LINK,
		.rc = rc,
		.ptl_list = (uint8_t)attr->list,
		.user_ptr = attr->user_ptr,
		.match_bits = attr->match_bits,
		.start = attr->start,
	};

	cassini_eq_push(pte->eq, &ev, claimed);
}

/* The entry is used up, or linked because no header is left for it. */
static void append_end(struct cassini_pte *pte, bool is_used_up)
{
	struct cassini_le *le = pte->run.le;

	if (is_used_up) {
		run_end(pte);
		cassini_le_unref(le);
		return;
	}
	if (!(le->flags & CASSINI_LE_EVENT_LINK_DISABLE)) {
		link_event(pte,
			   &(struct cassini_le_attr){.list = (enum cassini_list)le->list,
						     .user_ptr = le->user_ptr,
						     .match_bits = le->mt.tag,
						     .start = le->start},
			   CASSINI_RC_OK, pte->run.has_slot);
		pte->run.has_slot = false;
	}
	run_end(pte);
	cassini_le_link(le);
	cassini_le_unref(le);
}

static void append_step(struct cassini_pte *pte)
{
	struct cassini_le *le = pte->run.le;
	struct cassini_ule *ule;

	while ((ule = cassini_ule_find(le)) != NULL) {
		uint64_t offset = 0;
		uint32_t mlength;
		bool is_used_up;

		/* whoever offers a rendezvous waits to be told of its end, so what fetches it must be there */
		if (!cassini_eq_has_room(pte->eq, APPEND_SLOTS) ||
		    (ule->ev.rendezvous && !pte->opts.no_rget && !cassini_copy_reserve(pte)))
			return;
		is_used_up = cassini_le_take(le, ule->ev.rlength, &offset, &mlength);
		cassini_tgt_append_hit(le, ule, offset, mlength, is_used_up);
		if (is_used_up) {
			append_end(pte, true);
			return;
		}
	}
	append_end(pte, false);
}

static void search_event(struct cassini_pte *pte, const struct cassini_ule *ule, uint8_t rc, bool claimed)
{
	const struct cassini_search *s = &pte->run.search;
	struct cassini_event ev = {.match_bits = s->match_bits, .initiator = s->match_id};

	if (ule)
		ev = ule->ev;
	ev.type = ule && s->delete ? (uint8_t)(ule->ev.type + CASSINI_EV_PUT_OVERFLOW) : CASSINI_EV_SEARCH;
	ev.rc = rc;
	ev.ptl_list = CASSINI_UNEXPECTED;
	ev.user_ptr = s->user_ptr;
	ev.auto_unlinked = false;
	cassini_eq_push(pte->eq, &ev, claimed);
}

static bool search_hits(const struct cassini_search *s, const struct cassini_ule *ule)
{
	return !((s->match_bits ^ ule->mt.tag) & ~s->ignore_bits) &&
	       (s->match_id == CASSINI_MATCH_ID_ANY || s->match_id == ule->mt.src);
}

static struct cassini_ule *ule_after(const struct cassini_ule *ule)
{
	struct mt_node *n = mt_unexp_next(&ule->mt);

	return n ? container_of(n, struct cassini_ule, mt) : NULL;
}

static void search_step(struct cassini_pte *pte)
{
	struct cassini_run *run = &pte->run;
	struct cassini_ule *ule;

	while ((ule = run->next) != NULL) {
		if (!search_hits(&run->search, ule)) {
			run->next = ule_after(ule);
			continue;
		}
		if (!cassini_eq_has_room(pte->eq, 1) || (run->search.delete && ule->landing))
			return;
		run->next = ule_after(ule);
		search_event(pte, ule, CASSINI_RC_OK, false);
		if (run->search.delete)
			cassini_ule_free(pte, ule);
		if (run->search.use_once) {
			run_end(pte);
			return;
		}
	}
	search_event(pte, NULL, CASSINI_RC_NO_MATCH, true);
	run->has_slot = false;
	run_end(pte);
}

void cassini_pte_kick(struct cassini_pte *pte)
{
	if (likely(!pte->run.is_active))
		return;
	if (pte->run.le)
		append_step(pte);
	else
		search_step(pte);
}

/* A slot for the event that ends it, and room to begin with. */
static int run_begin(struct cassini_pte *pte, uint32_t room)
{
	if (pte->run.is_active || !cassini_eq_has_room(pte->eq, room + 1))
		return -EAGAIN;
	must(!cassini_eq_claim(pte->eq));
	pte->run = (struct cassini_run){.is_active = true, .has_slot = true};
	LIST_INSERT_HEAD(&pte->lni->waiting, pte, waiting);
	cassini_pte_gate(pte);
	return 0;
}

/* --- commands --- */

static int attr_check(const struct cassini_pte *pte, const struct cassini_le_attr *a)
{
	const char *why = NULL;

	if (a->list > CASSINI_REQUEST)
		why = "no such list";
	else if (a->min_free > MIN_FREE_MAX)
		why = "min_free has more than 24 bits";
	else if (a->length != UINT64_MAX && a->length > UINTPTR_MAX - (uintptr_t)a->start)
		why = "it wraps around the end of the address space";
	else if (a->length == UINT64_MAX && (a->start || a->flags & CASSINI_LE_MANAGE_LOCAL))
		why = "the whole address space starts at 0 and has no local offset";
	if (why)
		LOG_WARN("list entry for portal table entry %u refused: %s", pte->ptn, why);
	return why ? -EINVAL : 0;
}

/* No LE left: with request buffers at hand software takes over, else the owner is told. */
static void append_fail(struct cassini_pte *pte, const struct cassini_le_attr *attr)
{
	nic_of(pte)->stats.le_exhausted++;
	link_event(pte, attr, CASSINI_RC_NO_SPACE, false);
	if (attr->list == CASSINI_PRIORITY && pte->state == CASSINI_PTE_ENABLED &&
	    mt_posted_cnt(&pte->list[CASSINI_REQUEST]))
		cassini_pte_set(pte, CASSINI_PTE_SOFTWARE_MANAGED, CASSINI_SC_SM_APPEND_FAIL, true);
}

/* By value: cassini_append() has it in registers. */
static __attribute__((noinline)) int append_rest(struct cassini_pte *pte, struct cassini_le_attr args,
						 struct cassini_le **out)
{
	const struct cassini_le_attr *attr = &args;
	struct cassini_le *le, *unsaid;

	out = out ? out : &unsaid;
	if (attr_check(pte, attr))
		return -EINVAL;
	if (pte->run.is_active || !cassini_eq_has_room(pte->eq, 1))
		return -EAGAIN;
	if (attr->list == CASSINI_PRIORITY && mt_unexp_cnt(&pte->ules) &&
	    !cassini_eq_has_room(pte->eq, APPEND_SLOTS + 1))
		return -EAGAIN;
	*out = NULL;
	if (pte->state == CASSINI_PTE_SOFTWARE_MANAGED && attr->list != CASSINI_REQUEST) {
		link_event(pte, attr, CASSINI_RC_PTLTE_SW_MANAGED, false);
		return 0;
	}
	le = cassini_le_new(pte, attr);
	if (!le) {
		append_fail(pte, attr);
		return 0;
	}
	if (likely(attr->list != CASSINI_PRIORITY || !mt_unexp_cnt(&pte->ules))) {
		if (!(attr->flags & CASSINI_LE_EVENT_LINK_DISABLE))
			link_event(pte, attr, CASSINI_RC_OK, false);
		cassini_le_link(le);
		*out = le;
		return 0;
	}
	must(!run_begin(pte, APPEND_SLOTS));
	le->busy++; /* the run's */
	pte->run.le = le;
	append_step(pte);
	if (le->linked || pte->run.le == le)
		*out = le;
	return 0;
}

/*
 * Called for each receive, and folded into that, where most of @attr is constant and need not be in memory: a plain
 * entry that makes no event, and has nothing before it, is asked for nothing else.
 */
inline __attribute__((always_inline)) int cassini_append(struct cassini_pte *pte, const struct cassini_le_attr *attr,
							 struct cassini_le **out)
{
	struct cassini_le *le;

	lock_assert_held(nic_of(pte)->open.lock);
	if (likely(pte->is_clear && cassini_is_once(attr) && attr->flags & CASSINI_LE_EVENT_LINK_DISABLE &&
		   attr->length <= UINTPTR_MAX - (uintptr_t)attr->start && attr->min_free <= MIN_FREE_MAX)) {
		le = cassini_le_once(pte, attr);
		if (likely(le != NULL)) {
			cassini_le_enlist(pte, CASSINI_PRIORITY, le);
			if (out)
				*out = le;
			return 0;
		}
	}
	/* by its parts, since as a whole it would have to be in memory: 11 instructions of each message */
	return append_rest(pte,
			   (struct cassini_le_attr){.list = attr->list,
						    .flags = attr->flags,
						    .start = attr->start,
						    .length = attr->length,
						    .min_free = attr->min_free,
						    .match_id = attr->match_id,
						    .match_bits = attr->match_bits,
						    .ignore_bits = attr->ignore_bits,
						    .user_ptr = attr->user_ptr,
						    .ct = attr->ct},
			   out);
}

/* The entry is named twice, because @le may have been used up, and used again, since its owner learnt of it. */
static bool le_is(struct cassini_pte *pte, const struct cassini_le *le, enum cassini_list list, uint64_t user_ptr)
{
	return le->linked && le->list == list && le->user_ptr == user_ptr;
}

static struct cassini_le *le_by_name(struct cassini_pte *pte, enum cassini_list list, uint64_t user_ptr)
{
	for (struct mt_node *n = mt_posted_first(&pte->list[list]); n; n = mt_posted_next(n)) {
		struct cassini_le *le = container_of(n, struct cassini_le, mt);

		if (le->user_ptr == user_ptr)
			return le;
	}
	return NULL;
}

static void unlink_event(struct cassini_pte *pte, enum cassini_list list, uint64_t user_ptr,
			 const struct cassini_le *le, bool claimed)
{
	struct cassini_event ev = {
		.type = CASSINI_EV_UNLINK,
		.rc = le ? CASSINI_RC_OK : CASSINI_RC_ENTRY_NOT_FOUND,
		.ptl_list = (uint8_t)list,
		.user_ptr = user_ptr,
	};

	if (le) {
		ev.match_bits = le->mt.tag;
		ev.start = cassini_le_place(le, le->offset);
	}
	cassini_eq_push(pte->eq, &ev, claimed);
}

void cassini_le_unlinked(struct cassini_le *le)
{
	le->is_unlinking = false;
	unlink_event(le->pte, (enum cassini_list)le->list, le->user_ptr, le, true);
}

int cassini_unlink(struct cassini_pte *pte, enum cassini_list list, uint64_t user_ptr, struct cassini_le *le)
{
	lock_assert_held(nic_of(pte)->open.lock);
	if (pte->run.is_active || !cassini_eq_has_room(pte->eq, 1))
		return -EAGAIN;
	if (list > CASSINI_REQUEST)
		le = NULL;
	else if (!le)
		le = le_by_name(pte, list, user_ptr);
	else if (!le_is(pte, le, list, user_ptr))
		le = NULL;
	if (!le || !le->busy) {
		unlink_event(pte, list, user_ptr, le, false);
		if (le)
			cassini_le_unlink(le);
		return 0;
	}
	/* UNLINK is the last event of an entry: the copies in flight have theirs first */
	must(!cassini_eq_claim(pte->eq));
	le->is_unlinking = true;
	cassini_le_unlink(le);
	return 0;
}

int cassini_invalidate(struct cassini_pte *pte, struct cassini_le *le)
{
	lock_assert_held(nic_of(pte)->open.lock);
	if (!le || !cassini_le_is_used(le))
		return -ENOENT;
	if (pte->run.is_active && pte->run.le == le) {
		run_end(pte);
		le->busy--;
	} else if (!le->linked && !le->is_held) {
		return -EAGAIN; /* used up: its last copy frees it */
	}
	le->is_held = true;
	if (le->linked)
		cassini_le_unlink(le);
	if (le->busy)
		return -EAGAIN;
	cassini_le_free(le);
	return 0;
}

int cassini_search(struct cassini_pte *pte, const struct cassini_search *s)
{
	struct mt_node *n;
	int rc;

	lock_assert_held(nic_of(pte)->open.lock);
	rc = run_begin(pte, 0);
	if (rc)
		return rc;
	n = mt_unexp_first(&pte->ules);
	pte->run.search = *s;
	pte->run.next = n ? container_of(n, struct cassini_ule, mt) : NULL;
	search_step(pte);
	return 0;
}
