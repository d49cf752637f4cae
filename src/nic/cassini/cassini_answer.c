// SPDX-License-Identifier: BSD-2-Clause
// Answers of a target: made, sent, kept while the path is full. What they may come to is in cassini_owe.c.
#include "nic/cassini/cassini_tgt.h"

#include "base/guard.h"
#include "base/lock.h"
#include "base/mem.h"

#define SHORT_MAX 256u /* bytes of a frame that a slab's answer has room for */

int cassini_answers_init(struct cassini_dom *dom)
{
	STAILQ_INIT(&dom->unsent);
	return slab_init(&dom->answers, sizeof(struct cassini_ans) + SHORT_MAX, _Alignof(struct cassini_ans), 64, 0);
}

static void ans_free(struct cassini_ans *ans)
{
	struct cassini_dom *dom = ans->peer->dom;

	if (ans->is_ping)
		ans->peer->ping_out = false;
	dom->answers_out--;
	cassini_owe_less(ans->peer, ans->cost);
	if (ans->is_short)
		slab_put(&dom->answers, ans);
	else
		mem_free(ans);
}

static void ans_sent(struct cassini_work *w, int status)
{
	struct cassini_ans *ans = container_of(w, struct cassini_ans, work);
	struct cassini_peer *peer = ans->peer;
	uint32_t life = ans->life;

	ans_free(ans);
	if (status < 0 && status != -ECANCELED)
		cassini_peer_gone(peer, life);
	else if (status == 0 && life == peer->life)
		cassini_peer_look(peer);
}

/* Return: 0, also when it can be sent no more; -EAGAIN. */
static int ans_send(struct cassini_ans *ans)
{
	struct cassini_peer *peer = ans->peer;
	uint32_t life = ans->life, nonce;
	int rc;

	if (life != peer->life || (!peer->link && cassini_peer_get(peer->dom, peer->nic, peer->pid, &peer))) {
		ans_free(ans);
		return 0;
	}
	nonce = ans->nonce ? link_peer_nonce(peer->link) : 0;
	rc = nonce == ans->nonce ? cassini_send_whole(peer, ans->frame, ans->len, ans) : -ECONNREFUSED;
	if (!rc || rc == -EAGAIN)
		return rc;
	ans_free(ans);
	cassini_peer_gone(peer, life);
	return 0;
}

static struct cassini_ans *ans_new(struct cassini_dom *dom, struct cassini_peer *peer, size_t len)
{
	struct cassini_ans *ans = len <= SHORT_MAX ? slab_get(&dom->answers) : mem_alloc(sizeof(*ans) + len);

	if (!ans)
		return NULL;
	ans->work = (struct cassini_work){ans_sent, NULL};
	ans->is_short = len <= SHORT_MAX;
	ans->is_ping = false;
	ans->peer = peer;
	ans->cost = (uint32_t)(sizeof(*ans) + len);
	cassini_owe(peer, ans->cost);
	dom->answers_out++;
	return ans;
}

int cassini_answer(struct cassini_dom *dom, struct cassini_peer *peer, const struct cassini_pkt_in *pkt,
		   const void *data, size_t len)
{
	struct cassini_ans *ans;

	lock_assert_held(dom->nic->open.lock);
	must(len <= CASSINI_FRAME_DATA);
	if (dom->closing)
		return 0; /* nobody hears it */
	ans = ans_new(dom, peer, CASSINI_ENCODE_MAX + len);
	if (!ans)
		return -ENOMEM;
	ans->life = peer->life;
	ans->nonce = peer->link ? link_peer_nonce(peer->link) : 0;
	ans->len = (uint32_t)cassini_pkt_encode(pkt, ans->frame);
	if (len && !guard_read(ans->frame + ans->len, data, len)) {
		ans_free(ans);
		return -EFAULT;
	}
	ans->len += (uint32_t)len;
	if (pkt->op == CASSINI_PKT_PING)
		ans->is_ping = peer->ping_out = true;
	/* in the order they were made: nothing overtakes what found the path full */
	if (!STAILQ_EMPTY(&dom->unsent) || ans_send(ans))
		STAILQ_INSERT_TAIL(&dom->unsent, ans, link);
	return 0;
}

int cassini_answers_retry(struct cassini_dom *dom)
{
	STAILQ_HEAD(, cassini_ans) line = STAILQ_HEAD_INITIALIZER(line);
	struct cassini_ans *ans;
	int n = 0;

	STAILQ_CONCAT(&line, &dom->unsent);
	while ((ans = STAILQ_FIRST(&line))) {
		STAILQ_REMOVE_HEAD(&line, link);
		if (ans_send(ans))
			STAILQ_INSERT_TAIL(&dom->unsent, ans, link);
		else
			n++;
	}
	return n;
}

void cassini_answers_drop(struct cassini_dom *dom)
{
	struct cassini_ans *ans;

	while ((ans = STAILQ_FIRST(&dom->unsent))) {
		STAILQ_REMOVE_HEAD(&dom->unsent, link);
		ans_free(ans);
	}
}
