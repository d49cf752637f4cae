// SPDX-License-Identifier: BSD-2-Clause
// The four lists of a portal table entry and who matches whom: list work only, no events, no frames.
#include "nic/cassini/cassini_tgt.h"

/*
 * Theory of operation
 *
 * The order of appending is the order of matching: of all entries of a list that take a packet, the oldest.
 * base/matchtab does that by hashing, for everything but one rule: an entry with NO_TRUNCATE does not take what is
 * larger than it. As that can be said of single entries only, the search goes on from there along the ordered list;
 * such entries are few (overflow and request buffers).
 *
 * An entry that has matched and lacks the permission ends the search with OP_VIOLATION: it would hide the ones behind
 * it on the adapter as well.
 */

static uint64_t mt_src(uint32_t match_id)
{
	return match_id == CASSINI_MATCH_ID_ANY ? MT_ANY_SRC : match_id;
}

static struct cassini_le *le_of(struct mt_node *n)
{
	return n ? container_of(n, struct cassini_le, mt) : NULL;
}

/* --- entries --- */

/* What a plain entry does not say of itself, and the end of one does not change. */
static void as_once(struct cassini_le *le, struct cassini_pte *pte)
{
	le->pte = pte;
	le->offset = 0;
	le->busy = 0;
	le->list = CASSINI_PRIORITY;
	le->is_once = true;
	le->linked = le->is_unlinking = le->is_held = false;
}

static __attribute__((noinline)) struct cassini_le *le_make(struct cassini_pte *pte)
{
	struct cassini_le *le = slab_get(&pte->le_slab);

	if (le)
		as_once(le, pte);
	return le;
}

/* One that is plain so far. NULL: no LE left. */
static inline struct cassini_le *le_get(struct cassini_pte *pte)
{
	struct cassini_le *le;

	if (unlikely(cassini_rsrc_get(pte->lni, CASSINI_RSRC_LE)))
		return NULL;
	le = SLIST_FIRST(&pte->resting);
	if (likely(le != NULL)) {
		SLIST_REMOVE_HEAD(&pte->resting, rest);
		return le;
	}
	le = le_make(pte);
	if (unlikely(!le))
		cassini_rsrc_put(pte->lni, CASSINI_RSRC_LE);
	return le;
}

/* What each entry says of itself. */
static inline void le_name(struct cassini_le *le, const struct cassini_le_attr *attr)
{
	le->mt.tag = attr->match_bits;
	le->mt.ignore = attr->ignore_bits;
	le->mt.src = mt_src(attr->match_id);
	le->start = attr->start;
	le->length = attr->length;
	le->user_ptr = attr->user_ptr;
	le->flags = attr->flags;
	le->min_free = attr->min_free;
}

struct cassini_le *cassini_le_new(struct cassini_pte *pte, const struct cassini_le_attr *attr)
{
	struct cassini_le *le = le_get(pte);

	if (!le)
		return NULL;
	le_name(le, attr);
	le->ct = attr->ct;
	le->list = (uint8_t)attr->list;
	le->is_once = cassini_is_once(attr);
	return le;
}

/* Part of cassini_append(). */
inline __attribute__((always_inline)) struct cassini_le *cassini_le_once(struct cassini_pte *pte,
									 const struct cassini_le_attr *attr)
{
	struct cassini_le *le = le_get(pte);

	if (likely(le != NULL))
		le_name(le, attr);
	return le;
}

void cassini_le_free(struct cassini_le *le)
{
	struct cassini_pte *pte = le->pte;

	as_once(le, pte);
	SLIST_INSERT_HEAD(&pte->resting, le, rest);
	if (!pte->closing)
		cassini_rsrc_put(pte->lni, CASSINI_RSRC_LE);
}

void cassini_le_link(struct cassini_le *le)
{
	cassini_le_enlist(le->pte, (enum cassini_list)le->list, le);
}

/* Out of its list, but not freed: whoever calls it holds a reference. */
static void le_delist(struct cassini_le *le)
{
	mt_posted_del(&le->pte->list[le->list], &le->mt);
	le->linked = false;
}

void cassini_le_unlink(struct cassini_le *le)
{
	le_delist(le);
	if (!le->busy && !le->is_held)
		cassini_le_free(le);
}

void cassini_le_unref(struct cassini_le *le)
{
	if (likely(--le->busy || le->linked))
		return;
	if (unlikely(le->is_unlinking))
		cassini_le_unlinked(le);
	if (!le->is_held)
		cassini_le_free(le);
}

static uint64_t le_space(const struct cassini_le *le, uint64_t offset)
{
	return offset < le->length ? le->length - offset : 0;
}

bool cassini_le_take(struct cassini_le *le, uint64_t rlen, uint64_t *offset, uint32_t *mlength)
{
	bool is_managed = le->flags & CASSINI_LE_MANAGE_LOCAL;

	if (is_managed)
		*offset = le->offset;
	*mlength = (uint32_t)MIN(rlen, le_space(le, *offset));
	if (is_managed) {
		le->offset += *mlength;
		if (le->length - le->offset < le->min_free)
			return true;
	}
	return le->flags & CASSINI_LE_USE_ONCE;
}

/* --- unexpected headers --- */

static struct cassini_ule *ule_of(struct mt_node *n)
{
	return n ? container_of(n, struct cassini_ule, mt) : NULL;
}

static struct cassini_ule *ule_new(struct cassini_pte *pte, const struct cassini_pkt_in *pkt)
{
	struct cassini_ule *ule;

	if (cassini_rsrc_get(pte->lni, CASSINI_RSRC_LE))
		return NULL;
	ule = slab_get(&pte->ule_slab);
	if (!ule) {
		cassini_rsrc_put(pte->lni, CASSINI_RSRC_LE);
		return NULL;
	}
	*ule = (struct cassini_ule){.mt = {.tag = pkt->match_bits, .src = pkt->initiator}};
	return ule;
}

void cassini_ule_delist(struct cassini_pte *pte, struct cassini_ule *ule)
{
	mt_unexp_del(&pte->ules, &ule->mt);
	cassini_pte_gate(pte);
}

void cassini_ule_free(struct cassini_pte *pte, struct cassini_ule *ule)
{
	if (pte->run.is_active && pte->run.next == ule)
		pte->run.next = ule_of(mt_unexp_next(&ule->mt));
	if (!ule->claimed)
		cassini_ule_delist(pte, ule);
	slab_put(&pte->ule_slab, ule);
	if (!pte->closing)
		cassini_rsrc_put(pte->lni, CASSINI_RSRC_LE);
}

void cassini_ule_lose(struct cassini_pte *pte, struct cassini_ule *ule)
{
	struct cassini_event ev = ule->ev;

	cassini_ule_free(pte, ule);
	if (pte->opts.on_lost)
		pte->opts.on_lost(pte->user, &ev);
}

static bool ule_is_taken(const struct cassini_ule *ule, const struct cassini_le *le)
{
	uint64_t space = le->flags & CASSINI_LE_MANAGE_LOCAL ? le->length - le->offset : le->length;

	if ((ule->mt.tag ^ le->mt.tag) & ~le->mt.ignore)
		return false;
	if (le->mt.src != MT_ANY_SRC && le->mt.src != ule->mt.src)
		return false;
	return !(le->flags & CASSINI_LE_NO_TRUNCATE) || ule->ev.rlength <= space;
}

struct cassini_ule *cassini_ule_find(struct cassini_le *le)
{
	struct mt_node *n = mt_unexp_find(&le->pte->ules, le->mt.src, le->mt.tag, le->mt.ignore);

	/* nearly always the first: only NO_TRUNCATE makes it walk on */
	while (n && !ule_is_taken(ule_of(n), le))
		n = mt_unexp_next(n);
	return ule_of(n);
}

/* --- a packet --- */

static uint32_t ops_of(const struct cassini_pkt_in *pkt)
{
	if (pkt->op == CASSINI_PKT_GET)
		return CASSINI_LE_OP_GET;
	if (pkt->op == CASSINI_PKT_FETCH)
		return CASSINI_LE_OP_GET | CASSINI_LE_OP_PUT;
	return CASSINI_LE_OP_PUT;
}

/* Where in an entry without MANAGE_LOCAL it wants to begin; of a rendezvous the offset names the source. */
static uint64_t offset_of(const struct cassini_pkt_in *pkt)
{
	return pkt->op == CASSINI_PKT_RPUT ? 0 : pkt->remote_offset;
}

/* Bytes that it wants to put into an entry of @list: what comes by rendezvous goes to its final place only. */
static uint32_t len_of(const struct cassini_pkt_in *pkt, enum cassini_list list)
{
	return pkt->op == CASSINI_PKT_RPUT && list != CASSINI_PRIORITY ? pkt->payload_len : pkt->request_len;
}

static bool le_fits(const struct cassini_le *le, const struct cassini_pkt_in *pkt)
{
	uint64_t offset = le->flags & CASSINI_LE_MANAGE_LOCAL ? le->offset : offset_of(pkt);

	return !(le->flags & CASSINI_LE_NO_TRUNCATE) ||
	       len_of(pkt, (enum cassini_list)le->list) <= le_space(le, offset);
}

static struct cassini_le *list_find(struct cassini_pte *pte, enum cassini_list list, const struct cassini_pkt_in *pkt)
{
	struct mt_node *n;

	if (!pte->opts.is_matching)
		return le_of(mt_posted_first(&pte->list[list]));
	n = mt_posted_match(&pte->list[list], pkt->initiator, pkt->match_bits);
	while (unlikely(n && !le_fits(le_of(n), pkt))) {
		do
			n = mt_posted_next(n);
		while (n && !mt_posted_takes(n, pkt->initiator, pkt->match_bits));
	}
	return le_of(n);
}

/* A persistent entry is a window: what reaches beyond it is refused, not cut. */
static bool is_outside(const struct cassini_le *le, const struct cassini_pkt_in *pkt)
{
	uint64_t offset = offset_of(pkt);

	if (le->flags & (CASSINI_LE_MANAGE_LOCAL | CASSINI_LE_USE_ONCE) || !pkt->request_len)
		return false;
	return offset > le->length || pkt->request_len > le->length - offset;
}

static uint8_t le_check(const struct cassini_le *le, const struct cassini_pkt_in *pkt)
{
	uint32_t ops = ops_of(pkt);

	if ((le->flags & ops) != ops)
		return CASSINI_RC_OP_VIOLATION;
	return is_outside(le, pkt) ? CASSINI_RC_ADDR_OUT_OF_RANGE : CASSINI_RC_OK;
}

void cassini_match(struct cassini_pte *pte, const struct cassini_pkt_in *pkt, struct cassini_hit *hit)
{
	enum cassini_list list = pte->state == CASSINI_PTE_SOFTWARE_MANAGED ? CASSINI_REQUEST : CASSINI_PRIORITY;
	struct cassini_le *le = list_find(pte, list, pkt);

	*hit = (struct cassini_hit){.list = list, .rc = CASSINI_RC_ENTRY_NOT_FOUND};
	if (!le && list == CASSINI_PRIORITY && pte->opts.is_matching) {
		hit->list = CASSINI_OVERFLOW;
		le = list_find(pte, CASSINI_OVERFLOW, pkt);
	}
	if (!le)
		return;
	hit->rc = le_check(le, pkt);
	if (hit->rc != CASSINI_RC_OK)
		return;
	if (hit->list == CASSINI_OVERFLOW && !(le->flags & CASSINI_LE_UNEXPECTED_HDR_DISABLE)) {
		hit->ule = ule_new(pte, pkt);
		if (!hit->ule) {
			hit->rc = CASSINI_RC_NO_SPACE;
			return;
		}
		mt_unexp_add(&pte->ules, &hit->ule->mt);
		cassini_pte_gate(pte);
	}
	hit->le = le;
	hit->offset = offset_of(pkt);
	hit->auto_unlinked = cassini_le_take(le, len_of(pkt, hit->list), &hit->offset, &hit->mlength);
	le->busy++;
	if (hit->auto_unlinked)
		le_delist(le);
}
