// SPDX-License-Identifier: BSD-2-Clause
// The UDP carrier: one socket per port, datagrams in trains.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/errqueue.h>

#include "base/guard.h"
#include "link/net/gate.h"
#include "link/core/link_int.h"
#include "link/net/udp_sock.h"

/*
 * Theory of operation
 *
 * A datagram costs the kernel about as much as a train of 44 that leaves by one system call with
 * UDP_SEGMENT, so send() only queues: the header is copied into the batch, the payload stays where
 * it is until flush(). flush() groups consecutive datagrams of one size (the last may be shorter)
 * to one destination into trains and hands all trains to one sendmmsg(). Trains are an offload that
 * can fail at run time (old kernel, odd device): then they are turned off for good.
 *
 * Datagrams never exceed what the path takes whole: one lost fragment would lose all. The system's own
 * notes of path MTUs are not asked (IP_PMTUDISC_PROBE): it believes every ICMP error that names our port.
 * Only where the interface itself is too small the size is lowered for everybody, and tried again after
 * MTU_AGAIN_NS. What a path takes the reliability module learns from error(), which shows it the quoted
 * bytes. A datagram that was made before that keeps its length in every retransmission: LINK_ADDR_CUT, and
 * it alone goes in fragments; so do all where not even UDP_MTU_MIN bytes pass whole.
 *
 * ICMP errors arrive on the socket's error queue. Reading it costs a system call, so it is done
 * only when an ordinary call has reported an error, which the kernel promises to do for each queued
 * one. They are told from poll() only: a caller in the middle of sending must not lose the peer
 * it sends to.
 *
 * Most polls find nothing, most others one datagram, and behind it the system would look for the next one before we
 * see it. Where it is there, though, one call for both is quicker by far more: 64 KiB come in two. So a poll behind an
 * empty one asks for a single datagram only where for some time they have come alone.
 */

#define TX_DGRAMS    64
#define TX_HDR_MAX   128  /* bytes of iov[0] that are copied */
#define TX_IOV_MAX   1024 /* pieces in one batch, and in one call: UIO_MAXIOV */
#define TX_BYTES_MAX (1u << 20)
#define TRAIN_SEGS   64	    /* UDP_MAX_SEGMENTS of older kernels */
#define TRAIN_BYTES  65000u /* IP's length field is 16 bits */
#define RX_MSGS	     8
#define RX_BUF_LEN   65536u
#define MTU_AGAIN_NS (600 * NS_PER_SEC)
#define FULL_POLLS   4 	    /* polls that leave something to read, before we ask whether the socket loses datagrams */
#define ALONE_RUNS   16u	    /* so many datagrams that came alone, and the next is taken to come alone */
#define ERRORS_MAX   16	    /* kept for the next poll */
#define ERR_RETRIES  64	    /* errors reported by one flush or poll before we let go */

/* cmsg areas must be aligned; one integer of payload each. */
union ctl {
	struct cmsghdr align;
	char b[CMSG_SPACE(sizeof(int))];
};

/* One queued datagram; its pieces are iov[iov_at .. +iov_cnt) of the batch. */
struct tx_dgram {
	struct link_addr dst;
	uint32_t len;
	uint16_t iov_at, iov_cnt;
};

struct tx_batch {
	uint32_t cnt, iov_cnt, bytes;
	struct tx_dgram dgram[TX_DGRAMS];
	struct iovec iov[TX_IOV_MAX];
	uint8_t hdr[TX_DGRAMS][TX_HDR_MAX];
	/* built by flush(): trains in order, train t holds dgram[first[t] .. first[t + 1]) */
	uint16_t first[TX_DGRAMS + 1];
	struct mmsghdr msg[TX_DGRAMS];
	struct sockaddr_in6 name[TX_DGRAMS];
	union ctl ctl[TX_DGRAMS];
};

/* Receive side; made at the first poll, since a port whose peers are all local never needs it. */
struct rx_batch {
	struct mmsghdr msg[RX_MSGS];
	struct iovec iov[RX_MSGS];
	struct sockaddr_in6 name[RX_MSGS];
	union ctl ctl[RX_MSGS];
	uint8_t buf[RX_MSGS][RX_BUF_LEN];
};

/* An ICMP error, not yet told. */
struct udp_error {
	struct link_addr dst;
	int err;
	uint32_t mtu, quote_len;
	uint8_t quote[CARRIER_QUOTE_MAX];
};

struct udp {
	struct carrier c;
	int fd;
	bool is_v4;
	bool has_trains;  /* UDP_SEGMENT works here */
	bool is_full;	  /* the socket buffer was full at the last flush */
	bool mtu_is_said; /* "too big" has been logged */
	/* bytes of UDP payload that the interface takes whole; may be less than what others make, UDP_MTU_MIN */
	uint32_t mtu;
	uint32_t mtu_top; /* before it was lowered, at mtu_ns */
	uint64_t mtu_ns;
	struct gate_sock *gate; /* NULL: it has never been flooded */
	uint32_t full_polls, lost_seen; /* for gate_look() */
	uint32_t error_cnt;
	struct udp_error error[ERRORS_MAX]; /* one that finds no room comes again with the next datagram */
	struct rx_batch *rx;
	uint32_t rx_run;   /* datagrams, or trains, that have come since a poll found nothing */
	uint32_t rx_alone; /* runs of one, without a longer one since; up to ALONE_RUNS */
	struct tx_batch tx;
};

static struct udp *to_udp(struct carrier *c)
{
	return container_of(c, struct udp, c);
}

/* --- errors that come back ------------------------------------------------------------------- */

static void mtu_lower(struct udp *u, uint32_t to)
{
	if (to >= u->mtu)
		return;
	if (!u->mtu_is_said)
		LOG_INFO("datagrams of %u bytes are too big for the interface: %u from now on%s", u->mtu, to,
			 to < UDP_MTU_MIN ? ", and longer ones in fragments, which is slow" : "");
	u->mtu_is_said = true;
	u->mtu = to;
	u->mtu_ns = clk_now_ns(NULL);
}

static void error_note(struct udp *u, const struct udp_error *e)
{
	for (uint32_t i = 0; i < u->error_cnt; i++)
		if (!memcmp(&u->error[i], e, sizeof(*e)))
			return;
	if (u->error_cnt < ERRORS_MAX)
		u->error[u->error_cnt++] = *e;
}

static void errors_tell(struct udp *u)
{
	struct udp_error all[ERRORS_MAX];
	uint32_t n = u->error_cnt;

	memcpy(all, u->error, n * sizeof(*all));
	u->error_cnt = 0;
	for (uint32_t i = 0; i < n && u->c.error; i++) {
		struct carrier_error e = {.err = all[i].err, .mtu = all[i].mtu, .quote = all[i].quote,
					  .quote_len = all[i].quote_len};

		u->c.error(u->c.rx_ctx, &all[i].dst, &e);
	}
}

/* @e came with the first @len bytes of a datagram to @name. */
static void on_error(struct udp *u, const struct sock_extended_err *e, const struct sockaddr_in6 *name,
		     const uint8_t *quote, size_t len)
{
	uint32_t head = u->is_v4 ? 28 : 48, mtu = e->ee_info > head ? e->ee_info - head : 0;
	struct udp_error out;

	if (e->ee_origin == SO_EE_ORIGIN_LOCAL) { /* nobody can forge these */
		if (e->ee_errno == EMSGSIZE && mtu)
			mtu_lower(u, mtu);
		return;
	}
	if (e->ee_errno != ECONNREFUSED && (e->ee_errno != EMSGSIZE || !mtu))
		return;
	memset(&out, 0, sizeof(out));
	if (!udp_addr_of(name, &out.dst))
		return;
	out.err = (int)e->ee_errno;
	out.mtu = e->ee_errno == EMSGSIZE ? mtu : 0;
	out.quote_len = (uint32_t)MIN(len, sizeof(out.quote));
	memcpy(out.quote, quote, out.quote_len);
	error_note(u, &out);
}

/*
 * Reads the error queue to its end. Return: whether something came from outside; an ordinary call that has just failed
 * may have told of that.
 */
static bool errqueue_drain(struct udp *u, int fd)
{
	union {
		struct cmsghdr align;
		char b[512];
	} ctl;
	bool is_foreign = false;

	for (int i = 0; i < ERR_RETRIES; i++) {
		struct sockaddr_in6 name = {0};
		uint8_t quoted[CARRIER_QUOTE_MAX];
		struct iovec iov = {quoted, sizeof(quoted)};
		struct msghdr m = {.msg_name = &name,
				   .msg_namelen = sizeof(name),
				   .msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = ctl.b,
				   .msg_controllen = sizeof(ctl.b)};
		struct sock_extended_err e;
		ssize_t got = recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

		if (got < 0)
			break;
		for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
			bool is_err = (h->cmsg_level == SOL_IP && h->cmsg_type == IP_RECVERR) ||
				      (h->cmsg_level == SOL_IPV6 && h->cmsg_type == IPV6_RECVERR);

			if (!is_err || h->cmsg_len < CMSG_LEN(sizeof(e)))
				continue;
			memcpy(&e, CMSG_DATA(h), sizeof(e));
			on_error(u, &e, &name, quoted, (size_t)got);
			is_foreign |= e.ee_origin != SO_EE_ORIGIN_LOCAL;
		}
	}
	return is_foreign;
}

/* --- out ------------------------------------------------------------------------------------- */

/* How many datagrams from @at on leave as one train. */
static uint32_t train_len(const struct udp *u, uint32_t at)
{
	const struct tx_batch *b = &u->tx;
	const struct tx_dgram *d = &b->dgram[at];
	uint32_t n = 1, bytes = d->len;

	if (!u->has_trains || !d->len || d->len > u->mtu || (d->dst.flags & LINK_ADDR_CUT))
		return 1;
	while (at + n < b->cnt && n < TRAIN_SEGS) {
		const struct tx_dgram *e = &b->dgram[at + n];

		if (!e->len || e->len > d->len || bytes + e->len > TRAIN_BYTES ||
		    !link_same_place(&e->dst, &d->dst) || (e->dst.flags & LINK_ADDR_CUT))
			break;
		bytes += e->len;
		n++;
		if (e->len < d->len) /* only the last may be shorter */
			break;
	}
	return n;
}

/* Message @t sends dgram[at .. at + n). Pieces of consecutive datagrams are adjacent, so one range
 * holds them all. */
static void train_build(struct udp *u, uint32_t t, uint32_t at, uint32_t n)
{
	struct tx_batch *b = &u->tx;
	const struct tx_dgram *first = &b->dgram[at], *last = &b->dgram[at + n - 1];
	struct msghdr *m = &b->msg[t].msg_hdr;
	uint16_t seg = (uint16_t)first->len;

	b->first[t] = (uint16_t)at;
	b->first[t + 1] = (uint16_t)(at + n);
	*m = (struct msghdr){
		.msg_name = &b->name[t],
		.msg_namelen = udp_name_of(&first->dst, &b->name[t]),
		.msg_iov = &b->iov[first->iov_at],
		.msg_iovlen = (size_t)(last->iov_at + last->iov_cnt - first->iov_at),
	};
	if (n == 1)
		return;
	b->ctl[t].align = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(seg)), .cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT};
	memcpy(CMSG_DATA(&b->ctl[t].align), &seg, sizeof(seg));
	m->msg_control = &b->ctl[t];
	m->msg_controllen = CMSG_SPACE(sizeof(seg));
}

static uint32_t trains_build(struct udp *u, uint32_t at)
{
	uint32_t t = 0;

	/* one to cut up is a batch of its own */
	while (at < u->tx.cnt && (!t || !(u->tx.dgram[at].dst.flags & LINK_ADDR_CUT))) {
		uint32_t n = train_len(u, at);

		train_build(u, t++, at, n);
		at += n;
	}
	return t;
}

/*
 * The first message, one datagram that is too big for its path. Tried twice, see on_send_error(); then failure is loss.
 */
static void send_fragments(struct udp *u)
{
	udp_sock_pmtu(u->fd, u->is_v4, false);
	for (int i = 0; i < 2 && sendmsg(u->fd, &u->tx.msg[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0; i++)
		errqueue_drain(u, u->fd);
	udp_sock_pmtu(u->fd, u->is_v4, true);
}

/*
 * The system cannot read all of the first message: memory of a caller has been unmapped since the link took it. The
 * receiver waits for these bytes, and repeating would not make them readable: zeroes go in their place. Return: whether
 * there was such a piece.
 */
static bool fill_unreadable(struct udp *u)
{
	static const uint8_t zeroes[RX_BUF_LEN];
	struct tx_batch *b = &u->tx;
	bool found = false;

	for (uint32_t d = b->first[0]; d < b->first[1]; d++) {
		struct iovec *iov = &b->iov[b->dgram[d].iov_at];

		for (uint32_t i = 0; i < b->dgram[d].iov_cnt; i++) {
			if (iov[i].iov_base == zeroes ||
			    guard_mapped(iov[i].iov_base, iov[i].iov_len, false) != -EFAULT)
				continue;
			LOG_WARN("memory of an operation under way was unmapped: %zu bytes at %p are sent as zeroes",
				 iov[i].iov_len, iov[i].iov_base);
			iov[i].iov_base = (void *)(uintptr_t)zeroes;
			found = true;
		}
	}
	return found;
}

/*
 * The first message could not be sent. The error may be what somebody's ICMP says of an earlier datagram, or of none:
 * then the message has not been tried. Such an error stands in the queue; where the queue had no room it does not, so
 * only the second of a message is believed.
 * Return: whether to try it again (it may have been cut up).
 */
static bool on_send_error(struct udp *u, int err, bool is_second)
{
	const struct tx_batch *b = &u->tx;
	uint32_t len = b->dgram[b->first[0]].len;
	bool is_train = b->first[1] - b->first[0] > 1;

	if (err != EAGAIN && err != ENOBUFS && err != EINTR && err != EFAULT &&
	    (errqueue_drain(u, u->fd) || !is_second))
		return true;
	switch (err) {
	case EINVAL:
	case EIO:
	case EOPNOTSUPP:
		if (!is_train)
			return false;
		LOG_INFO("segment trains do not work here (%s): off", strerror(err));
		u->has_trains = false;
		return true;
	case EMSGSIZE: /* the queue usually has said which size would do */
		if (len <= u->mtu)
			mtu_lower(u, len / 2);
		if (!is_train)
			send_fragments(u);
		return is_train; /* now no train any more, see train_len() */
	case ECONNREFUSED: /* never of the datagram at hand */
	case EINTR:
		return true;
	case EFAULT:
		return fill_unreadable(u);
	case EAGAIN:
	case ENOBUFS:
		u->is_full = true;
		return false;
	default:
		return false;
	}
}

/*
 * The first @cnt messages. Return: how many have left; -1 if none could, and errno says why. A lone datagram in one
 * piece, as small messages are, leaves by the call that has the least to copy and to check.
 */
static int trains_send(struct udp *u, uint32_t cnt)
{
	const struct msghdr *m = &u->tx.msg[0].msg_hdr;

	if (cnt > 1 || m->msg_iovlen != 1 || m->msg_controllen)
		return sendmmsg(u->fd, u->tx.msg, cnt, MSG_DONTWAIT | MSG_NOSIGNAL);
	return sendto(u->fd, m->msg_iov->iov_base, m->msg_iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL, m->msg_name,
		      m->msg_namelen) < 0 ? -1 : 1;
}

static void count_sent(struct udp *u, uint32_t from, uint32_t to)
{
	struct link_stats *st = &u->c.port->stats;

	for (uint32_t i = from; i < to; i++) {
		st->net_tx_dgrams++;
		st->net_tx_bytes += u->tx.dgram[i].len;
	}
}

static void udp_flush(struct carrier *c)
{
	struct udp *u = to_udp(c);
	struct tx_batch *b = &u->tx;
	uint32_t at = 0, failed = UINT32_MAX, trains, retries = 0;

	if (!b->cnt)
		return;
	while (at < b->cnt && !u->is_full) {
		int sent;

		trains = trains_build(u, at);
		if (unlikely(b->dgram[at].dst.flags & LINK_ADDR_CUT)) {
			send_fragments(u);
			count_sent(u, at, at + 1);
			at++;
			continue;
		}
		sent = trains_send(u, trains);
		if (sent > 0) {
			count_sent(u, at, b->first[sent]);
			at = b->first[sent];
			/* what stopped it is not reported again, and may have been an error of an
			 * earlier datagram */
			if ((uint32_t)sent < trains)
				errqueue_drain(u, u->fd);
			continue;
		}
		if ((!on_send_error(u, errno, failed == at) || ++retries > ERR_RETRIES) && !u->is_full)
			at = b->first[1];
		else
			failed = at;
	}
	/* what a full socket buffer did not take is lost, as on a wire; send() refuses until there
	 * is room again */
	c->port->stats.drop_full += b->cnt - at;
	if (unlikely(u->gate != NULL))
		u->gate->unsent += b->cnt - at;
	b->cnt = b->iov_cnt = b->bytes = 0;
}

static bool has_room(struct udp *u)
{
	struct pollfd pfd = {.fd = u->fd, .events = POLLOUT};

	if (u->is_full)
		u->is_full = poll(&pfd, 1, 0) <= 0 || !(pfd.revents & POLLOUT);
	return !u->is_full;
}

static int udp_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov,
		    int iov_cnt)
{
	struct udp *u = to_udp(c);
	struct tx_batch *b = &u->tx;
	struct tx_dgram *d;
	size_t len = 0;

	if (unlikely(link_ip_is_v4(dst->ip) != u->is_v4 || !dst->port))
		return -ENETUNREACH;
	if (unlikely(u->is_full && !has_room(u)))
		return -EAGAIN;
	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	if (unlikely(len > RX_BUF_LEN || iov_cnt > TX_IOV_MAX))
		return 0; /* no datagram can be that long: lost */
	if (b->cnt == TX_DGRAMS || b->bytes + len > TX_BYTES_MAX ||
	    b->iov_cnt + (uint32_t)iov_cnt > TX_IOV_MAX)
		udp_flush(c);
	if (unlikely(u->is_full))
		return -EAGAIN;
	d = &b->dgram[b->cnt];
	*d = (struct tx_dgram){.dst = *dst,
			       .len = (uint32_t)len,
			       .iov_at = (uint16_t)b->iov_cnt,
			       .iov_cnt = (uint16_t)iov_cnt};
	if (iov_cnt)
		memcpy(&b->iov[b->iov_cnt], iov, (size_t)iov_cnt * sizeof(*iov));
	if (iov_cnt && iov[0].iov_len <= TX_HDR_MAX) {
		memcpy(b->hdr[b->cnt], iov[0].iov_base, iov[0].iov_len);
		b->iov[b->iov_cnt].iov_base = b->hdr[b->cnt];
	}
	b->iov_cnt += (uint32_t)iov_cnt;
	b->bytes += (uint32_t)len;
	b->cnt++;
	return 0;
}

/* --- in -------------------------------------------------------------------------------------- */

static int rx_open(struct udp *u)
{
	struct rx_batch *r = mem_alloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	for (int i = 0; i < RX_MSGS; i++) {
		r->iov[i] = (struct iovec){r->buf[i], RX_BUF_LEN};
		r->msg[i].msg_hdr = (struct msghdr){
			.msg_name = &r->name[i],
			.msg_namelen = sizeof(r->name[i]),
			.msg_iov = &r->iov[i],
			.msg_iovlen = 1,
			.msg_control = &r->ctl[i],
			.msg_controllen = sizeof(r->ctl[i]),
		};
	}
	u->rx = r;
	return 0;
}

/* The size of the segments that the kernel has joined; @len if it has joined none. */
static uint32_t gro_size(struct msghdr *m, uint32_t len)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		int seg;

		if (h->cmsg_level != SOL_UDP || h->cmsg_type != UDP_GRO ||
		    h->cmsg_len < CMSG_LEN(sizeof(seg)))
			continue;
		memcpy(&seg, CMSG_DATA(h), sizeof(seg));
		if (seg > 0 && (uint32_t)seg < len)
			return (uint32_t)seg;
	}
	return len;
}

/* One datagram while the port is flooded: what the gate is for is not taken from the first socket any more. */
static __attribute__((noinline)) void rx_noted(struct udp *u, int fd, const struct link_addr *src, uint8_t *buf,
					       uint32_t len)
{
	struct gate_mark mark;

	if (!gate_mark(u->gate, fd, src, buf, len, &mark))
		return;
	u->c.rx(u->c.rx_ctx, src, buf, len);
	gate_done(u->gate, src, &mark);
}

static inline __attribute__((always_inline)) int rx_one(struct udp *u, int fd, int i, bool is_noted)
{
	struct rx_batch *r = u->rx;
	struct msghdr *m = &r->msg[i].msg_hdr;
	struct link_stats *st = &u->c.port->stats;
	uint32_t len = r->msg[i].msg_len, seg = gro_size(m, len), off = 0;
	struct link_addr src;
	int n = 0;

	if ((m->msg_flags & MSG_TRUNC) || !udp_addr_of(&r->name[i], &src)) {
		st->drop_malformed++;
		return is_noted;
	}
	do {
		uint32_t part = MIN(seg, len - off);

		st->net_rx_dgrams++;
		st->net_rx_bytes += part;
		if (unlikely(is_noted))
			rx_noted(u, fd, &src, r->buf[i] + off, part);
		else
			u->c.rx(u->c.rx_ctx, &src, r->buf[i] + off, part);
		off += part;
		n++;
	} while (off < len);
	return n;
}

/* @is_noted is a constant where there is no gate: what is polled then is compiled without the test. */
static inline __attribute__((always_inline)) int rx_some(struct udp *u, int fd, uint32_t want, int budget,
							 bool is_noted)
{
	int done = 0, errors = 0, got;

	while (done < budget) {
		got = recvmmsg(fd, u->rx->msg, want, MSG_DONTWAIT, NULL);
		if (got < 0) {
			if (errno == EAGAIN || ++errors > ERR_RETRIES)
				break;
			errqueue_drain(u, fd);
			continue;
		}
		u->rx_run += (uint32_t)got;
		for (int i = 0; i < got; i++) {
			struct msghdr *m = &u->rx->msg[i].msg_hdr;

			done += rx_one(u, fd, i, is_noted);
			m->msg_namelen = sizeof(u->rx->name[i]);
			m->msg_controllen = sizeof(u->rx->ctl[i]);
		}
		if (got < RX_MSGS) /* all there is, or one, and more with the next poll */
			break;
	}
	return done;
}

/* Of a port that is or was flooded: those in good standing, then, if it is time, all others. */
static __attribute__((noinline)) int rx_gated(struct udp *u, int budget)
{
	bool is_on = u->gate->is_on;
	int done = rx_some(u, u->fd, RX_MSGS, budget, is_on), more;
	uint64_t now_ns;

	if (!gate_is_due(u->gate, &now_ns))
		return done;
	more = rx_some(u, u->gate->fd, RX_MSGS, RX_MSGS, is_on);
	if (is_on)
		gate_polled(u->gate, now_ns, more);
	return done + more;
}

/* How many a poll asks for in one call. */
static uint32_t rx_want(const struct udp *u)
{
	return u->rx_run || u->rx_alone < ALONE_RUNS ? RX_MSGS : 1;
}

/* A poll has found nothing. */
static void rx_run_end(struct udp *u)
{
	if (!u->rx_run)
		return;
	u->rx_alone = u->rx_run > 1 ? 0 : MIN(u->rx_alone + 1, ALONE_RUNS);
	u->rx_run = 0;
}

static int udp_poll(struct carrier *c, int budget)
{
	struct udp *u = to_udp(c);
	int done;

	if (unlikely(!u->rx) && rx_open(u))
		return 0;
	done = unlikely(u->gate != NULL) ? rx_gated(u, budget) : rx_some(u, u->fd, rx_want(u), budget, false);
	if (!done)
		rx_run_end(u);
	if (unlikely(done >= budget) && ++u->full_polls % FULL_POLLS == 0)
		gate_look(&u->gate, c->port, u->fd, &u->lost_seen);
	if (unlikely(u->error_cnt))
		errors_tell(u);
	return done;
}

/* --- the carrier ----------------------------------------------------------------------------- */

static uint32_t udp_mtu(struct carrier *c, const struct link_addr *dst)
{
	struct udp *u = to_udp(c);

	(void)dst; /* one size for all: the interface's */
	if (unlikely(u->mtu != u->mtu_top) && clk_now_ns(NULL) - u->mtu_ns > MTU_AGAIN_NS)
		u->mtu = u->mtu_top;
	return MAX(u->mtu, MIN(UDP_MTU_MIN, u->mtu_top));
}

static uint64_t udp_next_deadline(struct carrier *c)
{
	const struct gate_sock *gate = to_udp(c)->gate;

	return gate && gate->is_on ? gate->next_ns : CLK_NEVER;
}

static int udp_fd(struct carrier *c)
{
	return to_udp(c)->fd;
}

static void udp_close(struct carrier *c)
{
	struct udp *u = to_udp(c);

	udp_flush(c);
	gate_close(u->gate);
	close(u->fd);
	mem_free(u->rx);
	mem_free(u);
}

static const struct carrier_ops udp_ops = {
	.send = udp_send,
	.flush = udp_flush,
	.poll = udp_poll,
	.mtu = udp_mtu,
	.next_deadline = udp_next_deadline,
	.fd = udp_fd,
	.close = udp_close,
};

int udp_open(struct link_port *p, struct carrier **out)
{
	struct udp *u = mem_alloc(sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	u->c.ops = &udp_ops;
	u->c.port = p;
	u->is_v4 = link_ip_is_v4(p->self.ip);
	u->fd = socket(u->is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (u->fd < 0) {
		rc = -errno;
		LOG_WARN("no UDP socket: %s", strerror(-rc));
		goto err_free;
	}
	u->has_trains = udp_sock_tune(u->fd, u->is_v4);
	rc = udp_sock_bind(u->fd, &p->self);
	if (rc)
		goto err_socket;
	u->mtu = p->node->room->mtu ? (uint32_t)p->node->room->mtu : udp_sock_mtu(p, u->fd);
	u->mtu_top = u->mtu;
	*out = &u->c;
	return 0;

err_socket:
	close(u->fd);
err_free:
	mem_free(u);
	return rc;
}
