// SPDX-License-Identifier: BSD-2-Clause
// The target's side of the frames method: answers GETs with a stream of DATA, takes PUTs, and
// replies.
//
// A PUT frame names its whole operation, so nothing is remembered about PUTs but the replies that
// are owed. A GET becomes a stream; streams share each poll's work in turns. Over shared memory a
// chunk is copied into the ring before port_frame_out() returns; any other path keeps pointers
// until the chunk is acknowledged, so there it sends a copy: a region can then be deregistered at
// any moment, whatever the network does.
#include "link/bulk_int.h"

#include <errno.h>
#include <string.h>

#include "base/guard.h"

#define TURN_LEN      (6 * BULK_CHUNK) /* bytes per turn of a stream: what one datagram of the loopback holds */
#define REPLY_CAP_MIN 16u
#define REPLY_CAP_MAX 65536u

int bulk_frame(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
	       const void *data, size_t len, void *cookie)
{
	uint8_t hdr[BULK_HDR_MAX];
	struct iovec iov = {(void *)(uintptr_t)data, len};
	size_t hdr_len = bulk_pkt_encode(pkt, hdr);

	return port_frame_out(b->port, peer, LINK_K_BULK, hdr, hdr_len, &iov, len ? 1 : 0, cookie);
}

/* --- replies ---------------------------------------------------------------------------------- */

static struct bulk_reply *reply_at(struct bulk_port *b, uint32_t i)
{
	return &b->reply[(b->reply_head + i) & (b->reply_cap - 1)];
}

static int replies_grow(struct bulk_port *b)
{
	uint32_t cap = b->reply_cap ? 2 * b->reply_cap : REPLY_CAP_MIN;
	struct bulk_reply *v = cap <= REPLY_CAP_MAX ? mem_alloc(cap * sizeof(*v)) : NULL;

	if (!v)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->reply_cnt; i++)
		v[i] = *reply_at(b, i);
	mem_free(b->reply);
	b->reply = v;
	b->reply_cap = cap;
	b->reply_head = 0;
	return 0;
}

static struct bulk_reply reply_take(struct bulk_port *b)
{
	struct bulk_reply r = *reply_at(b, 0);

	b->reply_head = (b->reply_head + 1) & (b->reply_cap - 1);
	b->reply_cnt--;
	return r;
}

static void reply_append(struct bulk_port *b, struct bulk_reply r)
{
	b->reply_cnt++;
	*reply_at(b, b->reply_cnt - 1) = r;
}

static void reply_push(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
		       enum bulk_status status, uint64_t bytes)
{
	struct bulk_reply *last = b->reply_cnt ? reply_at(b, b->reply_cnt - 1) : NULL;

	if (last && last->peer == peer && last->id == pkt->id && last->tag == pkt->tag &&
	    last->status == status) {
		last->bytes += bytes;
		return;
	}
	if (b->reply_cnt == b->reply_cap && replies_grow(b)) {
		b->port->stats.drop_full++; /* so many only if somebody means it */
		return;
	}
	reply_append(b, (struct bulk_reply){.peer = bulk_peer_ref(peer),
					    .id = pkt->id,
					    .tag = pkt->tag,
					    .status = status,
					    .bytes = bytes});
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

/* A reply that finds no room goes to the end, so that one full peer does not hold up the others. */
static int replies_step(struct bulk_port *b)
{
	int sent = 0, blocked = 0;

	/* sending may find the peer dead, which takes its other replies away */
	for (uint32_t todo = b->reply_cnt; todo && b->reply_cnt && blocked < BULK_VISIT_MAX;
	     todo--) {
		struct bulk_reply r = reply_take(b);
		struct bulk_pkt pkt = {.type = BULK_T_REPLY,
				       .status = r.status,
				       .id = r.id,
				       .tag = r.tag,
				       .bytes = r.bytes};

		if (bulk_frame(b, r.peer, &pkt, NULL, 0, NULL) == -EAGAIN) {
			reply_append(b, r);
			blocked++;
			continue;
		}
		link_peer_put(r.peer);
		sent++;
	}
	return sent;
}

/* --- streams ---------------------------------------------------------------------------------- */

static void stream_free(struct bulk_port *b, struct bulk_stream *s)
{
	struct link_peer *peer = s->peer;

	slab_put(&b->streams, s);
	link_peer_put(peer);
}

static void stream_release(struct bulk_port *b, struct bulk_stream *s)
{
	s->unsent_cnt--;
	if (s->is_stopped && !s->unsent_cnt)
		stream_free(b, s);
}

/* Send no more; the memory goes when the link has given back every chunk. */
static void stream_stop(struct bulk_port *b, struct bulk_stream *s)
{
	if (s->is_stopped)
		return;
	TAILQ_REMOVE(&b->serving, s, entry);
	s->is_stopped = true;
	if (!s->unsent_cnt)
		stream_free(b, s);
}

/* Return: 0; -EAGAIN; -EFAULT the memory has gone; the peer's terminal status. */
static int chunk_send(struct bulk_port *b, struct bulk_stream *s, uint32_t len)
{
	struct bulk_pkt pkt = {.type = BULK_T_DATA, .id = s->id, .tag = s->tag, .off = s->pos};
	const uint8_t *src = (const uint8_t *)(uintptr_t)(s->addr + s->pos);
	struct bulk_buf *buf;
	int rc;

	if (link_peer_is_local(s->peer))
		return bulk_frame(b, s->peer, &pkt, src, len, NULL);
	if (s->unsent_cnt >= BULK_UNSENT_MAX)
		return -EAGAIN;
	buf = slab_get(&b->bufs);
	if (!buf)
		return -EAGAIN;
	buf->ref = BULK_REF_BUF;
	buf->stream = s;
	rc = guard_read(buf->data, src, len)
		     ? bulk_frame(b, s->peer, &pkt, buf->data, len, buf)
		     : -EFAULT;
	if (rc)
		slab_put(&b->bufs, buf);
	else
		s->unsent_cnt++;
	return rc;
}

/* Its reader gets no more. */
static void stream_refuse(struct bulk_port *b, struct bulk_stream *s)
{
	struct bulk_pkt pkt = {.id = s->id, .tag = s->tag};

	reply_push(b, s->peer, &pkt, BULK_S_ACCESS, 0);
}

/* One turn of @s. Return: bytes sent; 0: @s is gone; -EAGAIN: nothing sent, it is still there. */
static int64_t stream_turn(struct bulk_port *b, struct bulk_stream *s)
{
	uint64_t start = s->pos;
	int64_t sent;
	int rc = 0;

	s->unsent_cnt++; /* sending may find the peer dead and stop the stream: keep it */
	while (s->pos < s->len && s->pos - start < TURN_LEN) {
		uint32_t len = (uint32_t)MIN(s->len - s->pos, (uint64_t)BULK_CHUNK);

		rc = chunk_send(b, s, len);
		if (rc)
			break;
		s->pos += len;
		b->node->get_served += len;
	}
	sent = (int64_t)(s->pos - start);
	if (s->pos == s->len || (rc && rc != -EAGAIN)) {
		if (rc == -EFAULT)
			stream_refuse(b, s);
		stream_stop(b, s);
		stream_release(b, s);
		return sent;
	}
	s->unsent_cnt--;
	TAILQ_REMOVE(&b->serving, s, entry);
	TAILQ_INSERT_TAIL(&b->serving, s, entry);
	return sent ? sent : -EAGAIN;
}

int bulk_serve_step(struct bulk_port *b)
{
	struct bulk_stream *s, *first_blocked = NULL;
	int events = replies_step(b), blocked = 0;
	uint64_t work = 0;

	while (work < BULK_WORK_MAX && blocked < BULK_VISIT_MAX) {
		int64_t sent;

		s = TAILQ_FIRST(&b->serving);
		if (!s || s == first_blocked)
			break;
		sent = stream_turn(b, s);
		if (sent == -EAGAIN) {
			if (!blocked++)
				first_blocked = s;
			continue;
		}
		work += (uint64_t)sent;
		events++;
	}
	return events;
}

void bulk_serve_get(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_stream *s;

	if (!bulk_region_check(b->node, pkt->key, b->port->self.port, LINK_GET, pkt->addr, pkt->len)) {
		bulk_tell_refused(b->node, "a peer", pkt->key, LINK_GET, pkt->addr, pkt->len);
		reply_push(b, peer, pkt, BULK_S_ACCESS, 0);
		return;
	}
	if (!pkt->len) {
		reply_push(b, peer, pkt, BULK_S_OK, 0);
		return;
	}
	s = slab_get(&b->streams);
	if (!s) {
		reply_push(b, peer, pkt, BULK_S_BUSY, 0);
		return;
	}
	*s = (struct bulk_stream){
		.peer = bulk_peer_ref(peer),
		.id = pkt->id,
		.tag = pkt->tag,
		.key = pkt->key,
		.addr = pkt->addr,
		.len = pkt->len,
	};
	TAILQ_INSERT_TAIL(&b->serving, s, entry);
}

void bulk_serve_put(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt,
		    const struct view *frame)
{
	if (!bulk_region_check(b->node, pkt->key, b->port->self.port, LINK_PUT, pkt->addr, pkt->len)) {
		bulk_tell_refused(b->node, "a peer", pkt->key, LINK_PUT, pkt->addr, pkt->len);
		reply_push(b, peer, pkt, BULK_S_ACCESS, 0);
		return;
	}
	/* the door has checked that off + payload_len <= len */
	if (!guard_view(frame, pkt->hdr_len, (void *)(uintptr_t)(pkt->addr + pkt->off),
			pkt->payload_len)) {
		reply_push(b, peer, pkt, BULK_S_ACCESS, 0);
		return;
	}
	b->node->put_served += pkt->payload_len;
	reply_push(b, peer, pkt, BULK_S_OK, pkt->payload_len);
}

void bulk_serve_stop(struct bulk_port *b, struct link_peer *peer, const struct bulk_pkt *pkt)
{
	struct bulk_stream *s;

	TAILQ_FOREACH(s, &b->serving, entry)
	{
		if (s->peer == peer && s->id == pkt->id && s->tag == pkt->tag) {
			stream_stop(b, s);
			return;
		}
	}
}

void bulk_serve_on_sent(struct bulk_port *b, struct bulk_buf *buf)
{
	struct bulk_stream *s = buf->stream;

	slab_put(&b->bufs, buf);
	stream_release(b, s);
}

void bulk_serve_peer_dead(struct bulk_port *b, struct link_peer *peer)
{
	struct bulk_stream *s = TAILQ_FIRST(&b->serving), *next;

	for (; s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->peer == peer)
			stream_stop(b, s);
	}
	for (uint32_t todo = b->reply_cnt; todo; todo--) {
		struct bulk_reply r = reply_take(b);

		if (r.peer == peer)
			link_peer_put(peer);
		else
			reply_append(b, r);
	}
}

void bulk_serve_region_gone(struct bulk_port *b, uint32_t key)
{
	struct bulk_stream *s = TAILQ_FIRST(&b->serving), *next;

	bulk_help_region_gone(b, key);
	for (; s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (s->key != key)
			continue;
		stream_refuse(b, s);
		stream_stop(b, s);
	}
}

bool bulk_serve_is_idle(const struct bulk_port *b)
{
	return !b->reply_cnt && TAILQ_EMPTY(&b->serving);
}

static void stream_drop(void *obj, void *arg)
{
	stream_free(arg, obj);
}

void bulk_serve_fini(struct bulk_port *b)
{
	while (b->reply_cnt)
		link_peer_put(reply_take(b).peer);
	mem_free(b->reply);
	b->reply = NULL;
	slab_foreach(&b->streams, stream_drop, b);
	TAILQ_INIT(&b->serving);
}
