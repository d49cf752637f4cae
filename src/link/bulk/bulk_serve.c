// SPDX-License-Identifier: BSD-2-Clause
// The target's side of the frames method: answers GETs with a stream of DATA, takes PUTs, and replies.
//
// A PUT frame names its whole operation, so nothing is remembered about PUTs but the replies that are owed. A GET
// becomes a stream; streams share each poll's work in turns. Over shared memory a chunk is copied into the ring before
// port_up.out() returns. Any other path reads it where it lies until it is acknowledged, and has a buffer for it: when
// the region goes, which may be at any moment, whatever the network does, its chunks are copied there and sent from
// there from then on (port_up.repoint).
#include "link/bulk/bulk_int.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"

#define TURN_LEN      64512u /* bytes per turn of a stream: a datagram of the loopback holds them with headers */
#define REPLY_TURN    64u		 /* answers per turn of a peer */
#define REPLY_WORK    256u	 /* bytes that one counts for */
#define VISIT_MAX     64	 /* peers that cannot be sent to which one poll tries */

/*
 * See base/quota.h and doc/security.md, "Network: quotas". More streams: BUSY, ask again. More chunks: later. More
 * answers: for those who take none for a moment there is some room besides, since each request that has been served
 * must be answered; who takes none for long, or more than that, is no peer any more.
 */
static const struct quota_limit limits[BULK_Q_NUM] = {
	[BULK_Q_REPLY] = QUOTA_LIMIT(16, 1024, 1024, 65536),
	[BULK_Q_OVER] = QUOTA_LIMIT(0, 0, 0, 32768),
	[BULK_Q_STREAM] = QUOTA_LIMIT(1, 8, 1024, 4096),
	[BULK_Q_BUF] = QUOTA_LIMIT(1, 8, 256, 1024),
};
static_assert(BULK_Q_NUM <= QUOTA_KINDS, "they have room in a book");

void bulk_serve_init(struct bulk_port *b)
{
	TAILQ_INIT(&b->turns);
	TAILQ_INIT(&b->leaving);
	quota_book_init(&b->quota, QUOTA_BULK, limits, BULK_Q_NUM);
}

/* --- clients ---------------------------------------------------------------------------------- */

/* With whom @c has its turns, for as long as it lives. Return: false: no memory. */
static bool turns_join(struct bulk_port *b, struct bulk_client *c)
{
	struct quota_source *s = link_peer_source(c->peer);
	struct bulk_turns *t = s ? s->turns : &c->alone;

	if (!t || t == &c->alone) {
		if (!t && !(t = slab_get(&b->turns_slab)))
			return false;
		*t = (struct bulk_turns){.source = s};
		TAILQ_INIT(&t->clients);
		if (s)
			s->turns = t;
	}
	t->refs++;
	c->turns = t;
	quota_join(&c->quota, s);
	return true;
}

static void turns_leave(struct bulk_port *b, struct bulk_client *c)
{
	struct bulk_turns *t = c->turns;

	if (!--t->refs && t->source) {
		t->source->turns = NULL;
		slab_put(&b->turns_slab, t);
	}
	quota_leave(&c->quota);
}

static struct bulk_client *client_get(struct bulk_port *b, struct link_peer *peer)
{
	struct bulk_client *c = peer->bulk;

	if (c)
		return c;
	c = slab_get(&b->client_slab);
	if (!c)
		return NULL;
	*c = (struct bulk_client){.peer = peer};
	if (!turns_join(b, c)) {
		slab_put(&b->client_slab, c);
		return NULL;
	}
	bulk_peer_ref(peer);
	TAILQ_INIT(&c->serving);
	TAILQ_INIT(&c->replies);
	peer->bulk = c;
	return c;
}

static void client_enqueue(struct bulk_port *b, struct bulk_client *c)
{
	if (TAILQ_EMPTY(&c->turns->clients))
		TAILQ_INSERT_TAIL(&b->turns, c->turns, entry);
	TAILQ_INSERT_TAIL(&c->turns->clients, c, entry);
}

static void client_dequeue(struct bulk_port *b, struct bulk_client *c)
{
	TAILQ_REMOVE(&c->turns->clients, c, entry);
	if (TAILQ_EMPTY(&c->turns->clients))
		TAILQ_REMOVE(&b->turns, c->turns, entry);
}

/*
 * The one whose turn it is; the next turn is another source's, and the next one of this another peer's. NULL: there is
 * none.
 */
static struct bulk_client *client_next(struct bulk_port *b)
{
	struct bulk_turns *t = TAILQ_FIRST(&b->turns);
	struct bulk_client *c = t ? TAILQ_FIRST(&t->clients) : NULL;

	if (!c)
		return NULL;
	client_dequeue(b, c);
	client_enqueue(b, c);
	TAILQ_REMOVE(&b->turns, t, entry);
	TAILQ_INSERT_TAIL(&b->turns, t, entry);
	return c;
}

/* After any change: @c has turns while there is something to send, and goes when nothing is left of it. */
static void client_settle(struct bulk_port *b, struct bulk_client *c)
{
	struct link_peer *peer = c->peer;
	bool has_work = c->reply_cnt || !TAILQ_EMPTY(&c->serving) || c->is_lost;

	if (has_work && !c->is_queued)
		client_enqueue(b, c);
	else if (!has_work && c->is_queued)
		client_dequeue(b, c);
	c->is_queued = has_work;
	if (has_work || c->stream_cnt)
		return;
	peer->bulk = NULL;
	turns_leave(b, c);
	slab_put(&b->client_slab, c);
	link_peer_put(peer);
}

static void client_unpin(struct bulk_port *b, struct bulk_client *c)
{
	c->stream_cnt--;
	client_settle(b, c);
}

/* --- replies ---------------------------------------------------------------------------------- */

/* *@of: out, what it was counted as. */
static struct bulk_reply *reply_take(struct bulk_port *b, struct bulk_client *c, enum bulk_quota *of)
{
	struct bulk_reply *r = TAILQ_FIRST(&c->replies);

	TAILQ_REMOVE(&c->replies, r, entry);
	c->reply_cnt--;
	*of = c->quota.used[BULK_Q_OVER] ? BULK_Q_OVER : BULK_Q_REPLY;
	quota_put(&b->quota, &c->quota, *of, 1);
	return r;
}

/* NULL: there is no room in @c's share, nor besides if it has been at rest for long; or no memory. */
static struct bulk_reply *reply_new(struct bulk_port *b, struct bulk_client *c)
{
	bool is_long = c->blocked_ns && bulk_now(b) - c->blocked_ns >= b->n->room->dead_after_ns / 4;
	enum bulk_quota of = quota_has(&b->quota, &c->quota, BULK_Q_REPLY, 1) ? BULK_Q_REPLY : BULK_Q_OVER;
	struct bulk_reply *r = NULL;

	if (of == BULK_Q_REPLY || (!is_long && quota_has(&b->quota, &c->quota, of, 1)))
		r = slab_get(&b->replies);
	if (r) {
		quota_add(&b->quota, &c->quota, of, 1);
		bulk_begun(b);
	}
	return r;
}

/* @r, just taken, could not be sent; it was counted as @of. */
static void reply_back(struct bulk_port *b, struct bulk_client *c, struct bulk_reply *r, enum bulk_quota of)
{
	TAILQ_INSERT_HEAD(&c->replies, r, entry);
	c->reply_cnt++;
	quota_add(&b->quota, &c->quota, of, 1);
	if (!c->blocked_ns)
		c->blocked_ns = bulk_now(b);
}

static void reply_push(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
		       enum bulk_status status, uint64_t bytes)
{
	struct bulk_client *c = client_get(b, peer);
	struct bulk_reply *r = c ? TAILQ_LAST(&c->replies, bulk_reply_list) : NULL;

	if (!c) {
		b->port->stats.drop_full++;
		return;
	}
	if (r && r->id == pkt->id && r->tag == pkt->tag && r->status == status) {
		r->bytes += bytes;
		return;
	}
	r = reply_new(b, c);
	if (r) {
		*r = (struct bulk_reply){.id = pkt->id, .tag = pkt->tag, .status = status, .bytes = bytes};
		TAILQ_INSERT_TAIL(&c->replies, r, entry);
		c->reply_cnt++;
	} else {
		b->port->stats.drop_full++;
		c->is_lost = true;
	}
	client_settle(b, c);
}

void bulk_serve_answer(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
		       enum bulk_status status, uint64_t bytes)
{
	struct bulk_pkt reply = {.type = BULK_T_REPLY,
				 .status = status,
				 .id = pkt->id,
				 .tag = pkt->tag,
				 .bytes = bytes};

	if (bulk_frame(b, peer, &reply, NULL, 0, NULL) == -EAGAIN)
		reply_push(b, peer, pkt, status, bytes);
}

/* Up to REPLY_TURN of them. Return: how many were sent; @is_blocked: out, there is no room for more. */
static uint32_t replies_turn(struct bulk_port *b, struct bulk_client *c, bool *is_blocked)
{
	uint32_t sent = 0;

	while (c->reply_cnt && sent < REPLY_TURN && !*is_blocked) {
		enum bulk_quota of;
		/* sending may find the peer dead, which takes its other replies away */
		struct bulk_reply *r = reply_take(b, c, &of);
		struct bulk_pkt pkt = {.type = BULK_T_REPLY,
				       .status = r->status,
				       .id = r->id,
				       .tag = r->tag,
				       .bytes = r->bytes};

		if (bulk_frame(b, c->peer, &pkt, NULL, 0, NULL) == -EAGAIN) {
			reply_back(b, c, r, of);
			*is_blocked = true;
			continue;
		}
		slab_put(&b->replies, r);
		c->blocked_ns = 0;
		sent++;
	}
	return sent;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void stream_free(struct bulk_port *b, struct bulk_stream *s)
{
	struct bulk_client *c = s->client;

	TAILQ_REMOVE(&b->leaving, s, entry);
	slab_put(&b->streams, s);
	quota_put(&b->quota, &c->quota, BULK_Q_STREAM, 1);
	client_unpin(b, c);
}

static void stream_release(struct bulk_port *b, struct bulk_stream *s)
{
	s->unsent_cnt--;
	if (s->is_stopped && !s->unsent_cnt)
		stream_free(b, s);
}

void bulk_stream_stop(struct bulk_port *b, struct bulk_stream *s)
{
	if (s->is_stopped)
		return;
	if (b->fresh == s)
		b->fresh = NULL;
	TAILQ_REMOVE(&s->client->serving, s, entry);
	TAILQ_INSERT_TAIL(&b->leaving, s, entry);
	s->is_stopped = true;
	if (s->unsent_cnt)
		client_settle(b, s->client);
	else
		stream_free(b, s);
}

/* Return: 0; -EAGAIN; -EFAULT the memory has gone; the peer's terminal status. */
static int chunk_send(struct bulk_port *b, struct bulk_stream *s, uint32_t len)
{
	struct bulk_pkt pkt = {.type = BULK_T_DATA, .id = s->id, .tag = s->tag, .off = s->pos};
	const uint8_t *src = (const uint8_t *)(uintptr_t)(s->addr + s->pos);
	struct bulk_buf *buf;
	int rc;

	if (s->is_ahead) {
		pkt.type = BULK_T_AHEAD;
		pkt.key = s->key;
	}
	if (s->client->peer->shm)
		return bulk_frame(b, s->client->peer, &pkt, src, len, NULL);
	if (s->unsent_cnt >= BULK_UNSENT_MAX || !quota_has(&b->quota, &s->client->quota, BULK_Q_BUF, 1))
		return -EAGAIN;
	buf = slab_get(&b->bufs);
	if (!buf)
		return -EAGAIN;
	buf->ref = BULK_REF_BUF;
	buf->stream = s;
	/* what the link has taken must be sent, so that this is the last moment to find out */
	rc = guard_touch(src, len) ? bulk_frame(b, s->client->peer, &pkt, src, len, buf) : -EFAULT;
	if (rc) {
		slab_put(&b->bufs, buf);
		return rc;
	}
	s->unsent_cnt++;
	quota_add(&b->quota, &s->client->quota, BULK_Q_BUF, 1);
	return 0;
}

/* What a peer is told who may not: @rc of bulk_region_check(). */
static enum bulk_status status_of(int rc)
{
	return rc == -ENOTCONN ? BULK_S_SHUT : BULK_S_ACCESS;
}

/* Its reader gets no more: what it reads may not be read (any more), or is not there. */
static void stream_refuse(struct bulk_port *b, struct bulk_stream *s)
{
	struct bulk_pkt pkt = {.id = s->id, .tag = s->tag};
	int rc = bulk_admits(0, b->port->self.port, b->port->serves);

	reply_push(b, s->client->peer, &pkt, s->is_ahead ? BULK_S_WITHDRAWN : status_of(rc), 0);
}

int64_t bulk_stream_turn(struct bulk_port *b, struct bulk_stream *s)
{
	uint64_t start = s->pos;
	int64_t sent;
	int rc = 0;

	s->unsent_cnt++; /* sending may find the peer dead and stop the stream: keep it */
	while (s->pos < s->len) {
		uint32_t len = (uint32_t)MIN(s->len - s->pos, (uint64_t)BULK_CHUNK);

		if (s->pos + len - start > TURN_LEN)
			break;
		rc = chunk_send(b, s, len);
		if (rc)
			break;
		s->pos += len;
		b->node->get_served += len;
	}
	sent = (int64_t)(s->pos - start);
	if (s->is_stopped || s->pos == s->len || (rc && rc != -EAGAIN)) {
		if (rc == -EFAULT)
			stream_refuse(b, s);
		bulk_stream_stop(b, s);
		stream_release(b, s);
		return sent;
	}
	s->unsent_cnt--;
	TAILQ_REMOVE(&s->client->serving, s, entry);
	TAILQ_INSERT_TAIL(&s->client->serving, s, entry);
	return sent ? sent : -EAGAIN;
}

/* What @c, which is pinned, gets before the next has its turn. Return: work done; -EAGAIN: nothing could be sent. */
static int64_t client_turn(struct bulk_port *b, struct bulk_client *c, int *events)
{
	struct bulk_stream *s;
	bool is_blocked = false;
	uint32_t replies;
	int64_t sent = 0;

	if (c->is_lost) {
		LOG_WARN("a peer lets %u answers lie: dropped", c->reply_cnt);
		c->is_lost = false;
		if (!c->peer->dead)
			c->peer->port->up->dead(c->peer, -ENOBUFS);
		return 0;
	}
	replies = replies_turn(b, c, &is_blocked);
	s = TAILQ_FIRST(&c->serving);
	if (s && !is_blocked)
		sent = bulk_stream_turn(b, s);
	*events += (int)replies + (s && !is_blocked && sent != -EAGAIN);
	if (!replies && (is_blocked || sent == -EAGAIN))
		return -EAGAIN;
	return MAX(sent, (int64_t)0) + replies * REPLY_WORK;
}

int bulk_serve_step(struct bulk_port *b)
{
	struct bulk_client *c, *first_blocked = NULL;
	int events = 0, blocked = 0;
	uint64_t work = 0, most = b->port->makes_up ? BULK_MAKE_UP_MAX : BULK_WORK_MAX;

	while (work < most && blocked < VISIT_MAX) {
		int64_t done;

		c = client_next(b);
		if (!c || c == first_blocked)
			break;
		c->stream_cnt++;
		done = client_turn(b, c, &events);
		if (done == -EAGAIN && !blocked++)
			first_blocked = c;
		work += (uint64_t)MAX(done, (int64_t)0);
		client_unpin(b, c);
	}
	return events;
}

/* Tells @peer, unless it may do @op. */
static bool is_refused(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt, int op)
{
	int rc = bulk_region_check(b->port, pkt->key, op, pkt->addr, pkt->len);

	if (!rc)
		return false;
	b->port->stats.drop_foreign++;
	bulk_tell_refused(b->node, "a peer", rc, pkt->key, op, pkt->addr, pkt->len);
	reply_push(b, peer, pkt, status_of(rc), 0);
	return true;
}

struct bulk_stream *bulk_stream_new(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_client *c = client_get(b, peer);
	struct bulk_stream *s = NULL;

	if (c && quota_has(&b->quota, &c->quota, BULK_Q_STREAM, 1))
		s = slab_get(&b->streams);
	if (!s) {
		if (c)
			client_settle(b, c);
		return NULL;
	}
	c->stream_cnt++;
	quota_add(&b->quota, &c->quota, BULK_Q_STREAM, 1);
	bulk_begun(b);
	*s = (struct bulk_stream){
		.client = c,
		.id = pkt->id,
		.tag = pkt->tag,
		.key = pkt->key,
		.addr = pkt->addr,
		.len = pkt->len,
	};
	TAILQ_INSERT_TAIL(&c->serving, s, entry);
	client_settle(b, c);
	return s;
}

void link_offer_missed(struct link_port *p, struct link_peer *peer, uint32_t key)
{
	if (bulk_region_asked(p->bulk->node, key))
		ahead_missed(&peer->offers);
}

void bulk_serve_get(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	if (is_refused(b, peer, pkt, LINK_GET))
		return;
	link_offer_missed(b->port, peer, pkt->key);
	if (!pkt->len)
		reply_push(b, peer, pkt, BULK_S_OK, 0);
	else if (!bulk_stream_new(b, peer, pkt))
		reply_push(b, peer, pkt, BULK_S_BUSY, 0);
}

void bulk_serve_put(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt, const struct view *frame)
{
	if (is_refused(b, peer, pkt, LINK_PUT))
		return;
	/* the door has checked that off + payload_len <= len */
	if (!guard_view(frame, pkt->hdr_len, (void *)(uintptr_t)(pkt->addr + pkt->off),
			pkt->payload_len)) {
		bulk_region_spoil(b->node, pkt->key);
		reply_push(b, peer, pkt, BULK_S_ACCESS, 0);
		return;
	}
	b->node->put_served += pkt->payload_len;
	peer->written += pkt->payload_len;
	if (pkt->payload_len == pkt->len) /* all of it: no other piece's answer could be joined to this one */
		bulk_serve_answer(b, peer, pkt, BULK_S_OK, pkt->payload_len);
	else
		reply_push(b, peer, pkt, BULK_S_OK, pkt->payload_len);
}

bool link_peer_wrote(const struct link_peer *peer, uint64_t len)
{
	return len <= peer->written || peer->shm || peer->is_near;
}

void link_peer_told(struct link_peer *peer, uint64_t len)
{
	peer->written -= MIN(len, peer->written);
}

void bulk_serve_stop(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_stream *s = peer->bulk ? TAILQ_FIRST(&peer->bulk->serving) : NULL;

	while (s && (s->is_ahead || s->id != pkt->id || s->tag != pkt->tag))
		s = TAILQ_NEXT(s, entry);
	if (s)
		bulk_stream_stop(b, s);
}

void bulk_serve_on_sent(struct bulk_port *b, struct bulk_buf *buf)
{
	struct bulk_stream *s = buf->stream;

	slab_put(&b->bufs, buf);
	quota_put(&b->quota, &s->client->quota, BULK_Q_BUF, 1);
	stream_release(b, s);
}

static void client_end(struct bulk_port *b, struct bulk_client *c)
{
	enum bulk_quota of;

	c->stream_cnt++; /* keep it */
	while (!TAILQ_EMPTY(&c->serving))
		bulk_stream_stop(b, TAILQ_FIRST(&c->serving));
	while (c->reply_cnt)
		slab_put(&b->replies, reply_take(b, c, &of));
	c->is_lost = false;
	client_unpin(b, c);
}

void bulk_serve_peer_dead(struct bulk_port *b, struct link_peer *peer)
{
	if (peer->bulk)
		client_end(b, peer->bulk);
}

/* May be the end of @c, and with that of its turns. */
static void client_region_gone(struct bulk_port *b, struct bulk_client *c, uint32_t key)
{
	struct bulk_stream *s, *next;

	c->stream_cnt++;
	for (s = TAILQ_FIRST(&c->serving); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (key && s->key != key)
			continue;
		stream_refuse(b, s);
		bulk_stream_stop(b, s);
	}
	client_unpin(b, c);
}

/* @cookie is sent from @iov. If it is a chunk of region *@arg, 0: of any, it is from its own buffer from now on. */
static void chunk_keep(void *arg, void *cookie, struct iovec *iov)
{
	const uint32_t *key = arg;
	enum bulk_ref *ref = cookie;
	struct bulk_buf *buf = container_of(ref, struct bulk_buf, ref);

	if (*ref != BULK_REF_BUF || (*key && buf->stream->key != *key) || iov->iov_base == buf->data)
		return;
	if (!guard_read(buf->data, iov->iov_base, iov->iov_len))
		memset(buf->data, 0, iov->iov_len); /* unmapped before, see fill_unreadable() of udp.c */
	iov->iov_base = buf->data;
}

/* What the link has of region @key, whose streams are all stopped, must not be read there any more. */
static void chunks_keep(struct bulk_port *b, uint32_t key)
{
	struct bulk_stream *s = TAILQ_FIRST(&b->leaving);

	while (s && key && s->key != key)
		s = TAILQ_NEXT(s, entry);
	if (s)
		b->port->up->repoint(b->port, chunk_keep, &key);
}

void bulk_serve_region_gone(struct bulk_port *b, uint32_t key)
{
	struct bulk_client *c, *next;
	struct bulk_turns *t, *next_t;

	for (t = TAILQ_FIRST(&b->turns); t; t = next_t) {
		next_t = TAILQ_NEXT(t, entry);
		for (c = TAILQ_FIRST(&t->clients); c; c = next) {
			next = TAILQ_NEXT(c, entry);
			client_region_gone(b, c, key);
		}
	}
	chunks_keep(b, key);
}

bool bulk_serve_is_idle(const struct bulk_port *b)
{
	return TAILQ_EMPTY(&b->turns);
}

static void stream_drop(void *obj, void *arg)
{
	stream_free(arg, obj);
}

/* The paths are closed: no chunk comes back. */
void bulk_serve_fini(struct bulk_port *b)
{
	while (!TAILQ_EMPTY(&b->turns))
		client_end(b, TAILQ_FIRST(&TAILQ_FIRST(&b->turns)->clients));
	slab_foreach(&b->streams, stream_drop, b);
}
