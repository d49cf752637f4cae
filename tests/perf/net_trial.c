// SPDX-License-Identifier: BSD-2-Clause
// What other ways through the system would give to traffic between hosts, without a protocol:
// net_trial IDEA|all SIZE ROUNDS [MTU]. Each idea and the plain way in turns in one run. Prints CSV: idea, size, alone
// (the next message leaves when the one before has come) or stream, place, rounds, us of the plain way, us of the idea,
// and the median of their ratios. Over loopback, or with MTU between two namespaces that it makes itself.
//
// Plain: datagrams of a header of 64 bytes and payload, as long as the path takes them, in trains by UDP_SEGMENT where
// more than one fits; received by recvmmsg() with UDP_GRO into buffers of 64 KiB, from where the payload is copied. A
// window in shared memory keeps anything from being lost, so what the trial does not model is reordering and loss.
#include "place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HDR_LEN	  64u
#define DGRAM_MAX 65472u
#define TRAIN_MAX 65000u
#define IOV_MAX_  128
#define BUFS	  8
#define BUF_LEN	  65536u
#define WINDOW	  (256u << 10)
#define TURN_NS	  4e6
#define MSG_MAX	  (4u << 20)
#define ROUND_MAX 200
#define URING_LEN 64
#define PIECES	  17 /* of memory in one packet of the kernel */

struct shared {
	_Alignas(64) _Atomic uint64_t ping;
	_Alignas(64) _Atomic uint64_t pong;
	_Alignas(64) _Atomic uint64_t arrived[2];
	_Alignas(64) _Atomic uint64_t got; /* payload bytes that the receiver has taken */
	_Atomic uint64_t ops;
	_Atomic int refused; /* errno of whoever cannot do what the idea needs */
	uint16_t port;
	pid_t pid[2];
};

struct uring {
	int fd;
	_Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
	uint32_t sq_mask, cq_mask, *sq_array, todo;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
};

struct side;

struct idea {
	const char *name;
	void (*send)(struct side *s, const struct msghdr *m, size_t at, size_t len); /* one train */
	void (*recv)(struct side *s, uint64_t end);
	uint32_t dgram; /* longest datagram; 0: as the path takes it */
	bool is_zerocopy, is_uring;
};

/* A way through the system that is open: plain or the idea. */
struct way {
	const struct idea *idea;
	int fd;
	uint32_t pay; /* payload of each datagram but the last */
	uint32_t per_train;
	struct uring ring;
};

struct side {
	struct shared *sh;
	struct way *way, ways[2];
	size_t len;
	bool is_alone;
	int me, cpu;
	uint32_t mtu, copied, sent; /* copied: sends without a copy that the kernel has copied all the same */
	uint64_t at, probes, out, in;
	uint8_t *tx, *rx, *staged; /* staged: headers already lie between the payloads */
	/* halves */
	_Atomic uint64_t filled, taken;
	_Atomic bool stop;
	struct mmsghdr msg[BUFS];
	struct iovec iov[BUFS];
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(int))];
	} ctl[BUFS];
	uint8_t buf[BUFS][BUF_LEN];
};

static void die(const char *what)
{
	fprintf(stderr, "net_trial: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void meet(struct side *s)
{
	place_meet(s->sh->arrived, s->me, &s->at);
}

/* --- out ---------------------------------------------------------------------------------------------------------- */

static void send_plain(struct side *s, const struct msghdr *m, size_t at, size_t len)
{
	(void)at, (void)len;
	while (sendmsg(s->way->fd, m, 0) < 0)
		if (errno != ENOBUFS && errno != EINTR)
			die("sendmsg");
}

/* What the kernel says of sends without a copy; who never reads it runs out of option memory. */
static void zerocopy_reap(struct side *s)
{
	uint8_t ctl[256];
	struct msghdr m = {.msg_control = ctl, .msg_controllen = sizeof(ctl)};

	while (recvmsg(s->way->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
		for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
			struct sock_extended_err e;

			memcpy(&e, CMSG_DATA(h), sizeof(e));
			if (e.ee_origin == SO_EE_ORIGIN_ZEROCOPY && (e.ee_code & SO_EE_CODE_ZEROCOPY_COPIED))
				s->copied += e.ee_data - e.ee_info + 1;
		}
		m.msg_controllen = sizeof(ctl);
	}
}

static void send_zerocopy(struct side *s, const struct msghdr *m, size_t at, size_t len)
{
	(void)at, (void)len;
	while (sendmsg(s->way->fd, m, MSG_ZEROCOPY) < 0) {
		if (errno != ENOBUFS && errno != EINTR)
			die("sendmsg(MSG_ZEROCOPY)");
		zerocopy_reap(s);
	}
	if (++s->sent % 8 == 0)
		zerocopy_reap(s);
}

static int uring_open(struct uring *u, void *buf, size_t len)
{
	struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER};
	struct iovec fixed = {buf, len};
	uint8_t *sq, *cq;

	u->fd = (int)syscall(SYS_io_uring_setup, URING_LEN, &p);
	if (u->fd < 0)
		return -errno;
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd,
		  IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*u->cqe), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, u->fd, IORING_OFF_CQ_RING);
	u->sqe = mmap(NULL, p.sq_entries * sizeof(*u->sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd,
		      IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || u->sqe == MAP_FAILED)
		return -errno;
	u->sq_tail = (void *)(sq + p.sq_off.tail);
	u->sq_array = (void *)(sq + p.sq_off.array);
	u->sq_mask = p.sq_entries - 1;
	u->cq_head = (void *)(cq + p.cq_off.head);
	u->cq_tail = (void *)(cq + p.cq_off.tail);
	u->cq_mask = p.cq_entries - 1;
	u->cqe = (void *)(cq + p.cq_off.cqes);
	return syscall(SYS_io_uring_register, u->fd, IORING_REGISTER_BUFFERS, &fixed, 1) ? -errno : 0;
}

static struct io_uring_sqe *uring_next(struct uring *u, uint8_t op, int fd)
{
	uint32_t at = (atomic_load_explicit(u->sq_tail, memory_order_relaxed) + u->todo++) & u->sq_mask;

	u->sq_array[at] = at;
	u->sqe[at] = (struct io_uring_sqe){.opcode = op, .fd = fd};
	return &u->sqe[at];
}

/* Hands in what was made and waits for as many results. */
static void uring_go(struct side *s)
{
	struct uring *u = &s->way->ring;
	uint32_t n = u->todo, head = atomic_load_explicit(u->cq_head, memory_order_relaxed);

	atomic_store_explicit(u->sq_tail, *u->sq_tail + n, memory_order_release);
	if (syscall(SYS_io_uring_enter, u->fd, n, n, IORING_ENTER_GETEVENTS, NULL, 0) != (long)n)
		die("io_uring_enter");
	u->todo = 0;
	while (n) {
		const struct io_uring_cqe *c = &u->cqe[head & u->cq_mask];

		if (head == atomic_load_explicit(u->cq_tail, memory_order_acquire)) {
			syscall(SYS_io_uring_enter, u->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
			continue;
		}
		if (c->flags & IORING_CQE_F_NOTIF) {
			s->copied += (uint32_t)c->res >> 31;
		} else {
			n--;
			errno = -c->res;
			if (c->res < 0)
				die("send by io_uring");
		}
		atomic_store_explicit(u->cq_head, ++head, memory_order_release);
	}
}

static void send_uring(struct side *s, const struct msghdr *m, size_t at, size_t len)
{
	struct io_uring_sqe *q = uring_next(&s->way->ring, IORING_OP_SENDMSG, s->way->fd);

	(void)at, (void)len;
	q->addr = (uintptr_t)m;
	q->len = 1;
	uring_go(s);
}

static void send_uring_zc(struct side *s, const struct msghdr *m, size_t at, size_t len)
{
	struct io_uring_sqe *q = uring_next(&s->way->ring, IORING_OP_SEND_ZC, s->way->fd);
	size_t d = at / s->way->pay, cnt = (len + s->way->pay - 1) / s->way->pay, off = d * (s->way->pay + HDR_LEN);

	for (size_t i = 0; i < cnt; i++)
		memcpy(s->staged + off + i * (s->way->pay + HDR_LEN), m->msg_iov[2 * i].iov_base, HDR_LEN);
	q->addr = (uintptr_t)(s->staged + off);
	q->len = (uint32_t)(len + cnt * HDR_LEN);
	q->ioprio = IORING_RECVSEND_FIXED_BUF | IORING_SEND_ZC_REPORT_USAGE;
	s->sent++;
	uring_go(s);
}

static void send_msg(struct side *s)
{
	static uint64_t hdr[IOV_MAX_ / 2][HDR_LEN / 8];
	struct iovec iov[IOV_MAX_];
	struct way *w = s->way;
	size_t at = 0;

	while (at < s->len) {
		struct msghdr m = {.msg_iov = iov};
		size_t from = at;

		for (uint32_t i = 0; i < w->per_train && at < s->len; i++) {
			size_t n = s->len - at < w->pay ? s->len - at : w->pay;

			hdr[i][0] = at;
			iov[m.msg_iovlen++] = (struct iovec){hdr[i], HDR_LEN};
			iov[m.msg_iovlen++] = (struct iovec){s->tx + at, n};
			at += n;
		}
		while (s->out + (at - from) - atomic_load_explicit(&s->sh->got, memory_order_acquire) > WINDOW)
			;
		w->idea->send(s, &m, from, at - from);
		s->out += at - from;
	}
	while (s->is_alone && atomic_load_explicit(&s->sh->got, memory_order_acquire) != s->out)
		;
}

/* --- in ----------------------------------------------------------------------------------------------------------- */

static uint32_t gro_size(struct msghdr *m, uint32_t len)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		int seg;

		memcpy(&seg, CMSG_DATA(h), sizeof(seg));
		if (h->cmsg_level == SOL_UDP && h->cmsg_type == UDP_GRO && seg > 0 && (uint32_t)seg < len)
			return (uint32_t)seg;
	}
	return len;
}

static void took(struct side *s, size_t bytes)
{
	s->in += bytes;
	atomic_store_explicit(&s->sh->got, s->in, memory_order_release);
}

/* Copies the payloads of what came in buffer @i to where they belong. */
static void unpack(struct side *s, uint32_t i)
{
	uint32_t len = s->msg[i].msg_len, seg = gro_size(&s->msg[i].msg_hdr, len);
	size_t all = 0;

	for (uint32_t off = 0; off < len; off += seg) {
		uint32_t n = (seg < len - off ? seg : len - off) - HDR_LEN;
		uint64_t at;

		memcpy(&at, s->buf[i] + off, sizeof(at));
		memcpy(s->rx + at, s->buf[i] + off + HDR_LEN, n);
		all += n;
	}
	took(s, all);
}

static int fetch(struct side *s, uint32_t at, uint32_t cnt)
{
	for (uint32_t i = at; i < at + cnt; i++) {
		s->iov[i] = (struct iovec){s->buf[i], BUF_LEN};
		s->msg[i].msg_hdr = (struct msghdr){.msg_iov = &s->iov[i],
						    .msg_iovlen = 1,
						    .msg_control = &s->ctl[i],
						    .msg_controllen = sizeof(s->ctl[i])};
	}
	return recvmmsg(s->way->fd, &s->msg[at], cnt, MSG_DONTWAIT, NULL);
}

static void recv_plain(struct side *s, uint64_t end)
{
	while (s->in < end) {
		int n = fetch(s, 0, BUFS);

		for (int i = 0; i < n; i++)
			unpack(s, (uint32_t)i);
	}
}

/* The next datagrams straight to where they belong, the first of which is byte @at of the message. */
static void recv_at(struct side *s, size_t at, uint32_t pay)
{
	uint64_t hdr[IOV_MAX_ / 2][HDR_LEN / 8];
	struct iovec iov[IOV_MAX_];
	struct msghdr m = {.msg_iov = iov};
	size_t from = at;
	ssize_t got;

	for (uint32_t i = 0; i < s->way->per_train && at < s->len; i++) {
		size_t n = s->len - at < pay ? s->len - at : pay;

		iov[m.msg_iovlen++] = (struct iovec){hdr[i], HDR_LEN};
		iov[m.msg_iovlen++] = (struct iovec){s->rx + at, n};
		at += n;
	}
	got = recvmsg(s->way->fd, &m, MSG_DONTWAIT);
	if (got < 0)
		return;
	if (hdr[0][0] != from || (size_t)got != at - from + m.msg_iovlen / 2 * HDR_LEN) {
		errno = EBADMSG;
		die("not the datagrams that were expected");
	}
	took(s, at - from);
}

static void recv_peek(struct side *s, uint64_t end)
{
	while (s->in < end) {
		uint64_t hdr[HDR_LEN / 8];
		struct iovec iov = {hdr, sizeof(hdr)};
		struct msghdr m = {.msg_iov = &iov,
				   .msg_iovlen = 1,
				   .msg_control = &s->ctl[0],
				   .msg_controllen = sizeof(s->ctl[0])};

		if (recvmsg(s->way->fd, &m, MSG_PEEK | MSG_DONTWAIT) > 0)
			recv_at(s, hdr[0], s->way->pay);
	}
}

/* Everything comes in order here, so the guess is always right: more than this is not to be had. */
static void recv_guess(struct side *s, uint64_t end)
{
	while (s->in < end)
		recv_at(s, s->in % s->len, s->way->pay);
}

static void *halves_main(void *arg)
{
	struct side *s = arg;
	cpu_set_t set;

	/* a processor of its own if there is one; otherwise the receiver's, by turns */
	CPU_ZERO(&set);
	CPU_SET((size_t)s->cpu, &set);
	for (int i = 0; i < 64 && sysconf(_SC_NPROCESSORS_ONLN) > 2; i++)
		CPU_SET((size_t)i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (!atomic_load(&s->stop)) {
		uint64_t at = atomic_load(&s->filled);

		if (at - atomic_load(&s->taken) == BUFS || fetch(s, at % BUFS, 1) != 1)
			sched_yield();
		else
			atomic_store(&s->filled, at + 1);
	}
	return NULL;
}

static void recv_halves(struct side *s, uint64_t end)
{
	while (s->in < end) {
		uint64_t at = atomic_load(&s->taken);

		if (atomic_load(&s->filled) == at) {
			sched_yield();
			continue;
		}
		unpack(s, at % BUFS);
		atomic_store(&s->taken, at + 1);
	}
}

static const struct idea ideas[] = {
	{"plain", send_plain, recv_plain, 0, false, false},
	{"peek", send_plain, recv_peek, 0, false, false},
	{"guess", send_plain, recv_guess, 0, false, false},
	{"halves", send_plain, recv_halves, 0, false, false},
	{"zerocopy", send_zerocopy, recv_plain, 57344 + HDR_LEN, true, false}, /* as PIECES permit */
	{"uring", send_uring, recv_plain, 0, false, true},
	{"uring_zc", send_uring_zc, recv_plain, 57344 + HDR_LEN, true, true},
	{"trains_9000", send_plain, recv_plain, 8928, false, false},
	{"trains_9000_guess", send_plain, recv_guess, 8928, false, false},
	{"trains_1500", send_plain, recv_plain, 1472, false, false},
};

/* --- turns -------------------------------------------------------------------------------------------------------- */

static void way_open(struct side *s, struct way *w, const struct idea *idea)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint32_t most = s->mtu && s->mtu - 28 < DGRAM_MAX ? s->mtu - 28 : DGRAM_MAX, cnt;
	int one = 1, seg, room = 8 << 20, rc;
	socklen_t len = sizeof(a);

	if (s->mtu)
		a.sin_addr.s_addr = htonl(0x0a000001u + (unsigned)s->me);
	*w = (struct way){.idea = idea, .fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), .ring.fd = -1};
	most = (idea->dgram && idea->dgram < most ? idea->dgram : most) & ~63u;
	/* messages are cut into even parts */
	cnt = (uint32_t)((s->len + most - HDR_LEN - 1) / (most - HDR_LEN));
	w->pay = (uint32_t)((s->len + cnt - 1) / cnt + 63) & ~63u;
	seg = (int)(w->pay + HDR_LEN);
	w->per_train = TRAIN_MAX / (uint32_t)seg ? TRAIN_MAX / (uint32_t)seg : 1;
	if (idea->is_zerocopy && w->per_train > PIECES / (w->pay / 4096 + 3))
		w->per_train = w->pay / 4096 + 3 < PIECES ? PIECES / (w->pay / 4096 + 3) : 1;
	if (w->fd < 0 || bind(w->fd, (struct sockaddr *)&a, len) || getsockname(w->fd, (struct sockaddr *)&a, &len))
		die("socket");
	if (setsockopt(w->fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(w->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	rc = setsockopt(w->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	rc = rc || (w->per_train > 1 && setsockopt(w->fd, IPPROTO_UDP, UDP_SEGMENT, &seg, sizeof(seg))) ||
			     (idea->is_zerocopy && setsockopt(w->fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		     ? -errno
		     : 0;
	if (!rc && idea->is_uring && !s->me)
		rc = uring_open(&w->ring, s->staged, 2 * MSG_MAX);
	if (s->me)
		s->sh->port = a.sin_port;
	if (rc)
		atomic_store(&s->sh->refused, -rc);
	for (size_t at = 0, out = 0; at < s->len && !s->me && idea->is_uring; at += w->pay, out += (size_t)seg)
		memcpy(s->staged + out + HDR_LEN, s->tx + at, s->len - at < w->pay ? s->len - at : w->pay);
	meet(s);
	a.sin_port = s->sh->port;
	a.sin_addr.s_addr = s->mtu ? htonl(0x0a000002u) : a.sin_addr.s_addr;
	if (!s->me && connect(w->fd, (struct sockaddr *)&a, len))
		die("connect");
	meet(s);
}

static double turn(struct side *s, struct way *w, uint64_t ops)
{
	bool is_halves = s->me && w->idea->recv == recv_halves;
	pthread_t helper;
	uint64_t t, from = s->in;

	s->way = w;
	atomic_store(&s->stop, false);
	memset(s->rx, 0, s->len);
	if (is_halves && pthread_create(&helper, NULL, halves_main, s))
		die("thread");
	meet(s);
	t = place_now_ns();
	for (uint64_t i = 0; i < ops; i++)
		s->me ? w->idea->recv(s, from + (i + 1) * s->len) : send_msg(s);
	meet(s);
	t = place_now_ns() - t;
	atomic_store(&s->stop, true);
	if (is_halves)
		pthread_join(helper, NULL);
	errno = EBADMSG;
	if (s->me && memcmp(s->rx, s->tx, s->len))
		die("other bytes than were sent");
	return (double)t / (double)ops;
}

static enum place probe(struct side *s)
{
	meet(s);
	return place_probe(&s->sh->ping, &s->sh->pong, s->me, &s->probes);
}

static void compare(struct side *s, const char *name, int rounds)
{
	static double value[PLACE_NUM][3][ROUND_MAX];
	int cnt[PLACE_NUM] = {0};

	for (int r = -1; r < rounds; r++) {
		enum place place = probe(s);
		double ns[2];

		for (int i = 0; i < 2; i++) {
			ns[i] = turn(s, &s->ways[i], atomic_load(&s->sh->ops));
			if (!s->me && r < 0 && !i)
				atomic_store(&s->sh->ops, (uint64_t)(TURN_NS / ns[0]) + 1);
			meet(s);
		}
		if (probe(s) != place || r < 0)
			continue;
		value[place][0][cnt[place]] = ns[0] / 1e3;
		value[place][1][cnt[place]] = ns[1] / 1e3;
		value[place][2][cnt[place]++] = ns[1] / ns[0];
	}
	for (int p = 0; !s->me && p < PLACE_NUM; p++) {
		for (int i = 0; i < 3; i++)
			qsort(value[p][i], (size_t)cnt[p], sizeof(double), place_double_cmp);
		if (cnt[p])
			printf("%s,%zu,%s,%s,%d,%.1f,%.1f,%.2f\n", name, s->len, s->is_alone ? "alone" : "stream",
			       place_name[p], cnt[p], value[p][0][cnt[p] / 2], value[p][1][cnt[p] / 2],
			       value[p][2][cnt[p] / 2]);
	}
}

static void idea_run(struct side *s, const struct idea *idea, int rounds)
{
	int err;

	atomic_store(&s->sh->refused, 0);
	meet(s);
	way_open(s, &s->ways[0], &ideas[0]);
	way_open(s, &s->ways[1], idea);
	err = atomic_load(&s->sh->refused);
	if (err && !s->me)
		printf("%s,%zu,refused: %s\n", idea->name, s->len, strerror(err));
	s->copied = s->sent = 0;
	for (int alone = 1; !err && alone >= 0; alone--) {
		s->is_alone = alone;
		atomic_store(&s->sh->ops, 8);
		meet(s);
		compare(s, idea->name, rounds);
	}
	if (!err && !s->me && idea->is_zerocopy)
		printf("# %s: %u sends, %u of them copied by the kernel\n", idea->name, s->sent, s->copied);
	fflush(stdout);
	meet(s);
	for (int i = 0; i < 2; i++) {
		close(s->ways[i].fd);
		if (s->ways[i].ring.fd >= 0)
			close(s->ways[i].ring.fd);
	}
}

/* Each side in a namespace of its own, a pair of virtual interfaces between them. Without the right to it: skipped. */
static void namespaces(struct side *s)
{
	char cmd[256];

	if (unshare(CLONE_NEWNET)) {
		printf("%s", s->me ? "" : "skipped: no right to make network namespaces\n");
		exit(77);
	}
	s->sh->pid[s->me] = getpid();
	meet(s);
	snprintf(cmd, sizeof(cmd), "ip link add v0 mtu %u type veth peer name v1 mtu %u netns %d", s->mtu, s->mtu,
		 (int)s->sh->pid[1]);
	if (!s->me && system(cmd))
		exit(77);
	meet(s);
	/* neighbours are told, since what waits for an answer to ARP is dropped beyond 200 KB */
	snprintf(cmd, sizeof(cmd),
		 "ip link set v%d address 02:00:00:00:00:0%d && ip addr add 10.0.0.%d/24 dev v%d && "
		 "ip link set v%d up && ip neigh add 10.0.0.%d lladdr 02:00:00:00:00:0%d dev v%d",
		 s->me, s->me + 1, s->me + 1, s->me, s->me, 2 - s->me, 2 - s->me, s->me);
	if (system(cmd))
		exit(77);
	meet(s);
}

int main(int argc, char **argv)
{
	int rounds = argc >= 4 ? atoi(argv[3]) : 0;
	struct side *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cpu_set_t set;

	if (s == MAP_FAILED || rounds < 1 || rounds > ROUND_MAX)
		return fprintf(stderr, "usage: net_trial IDEA|all SIZE ROUNDS [MTU]\n"), 2;
	s->len = strtoull(argv[2], NULL, 0);
	s->mtu = argc > 4 ? (uint32_t)atoi(argv[4]) : 0;
	if (!s->len || s->len > MSG_MAX || (s->mtu && s->mtu < 576))
		return 2;
	s->sh = mmap(NULL, sizeof(*s->sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s->tx = mmap(NULL, 4 * MSG_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->sh == MAP_FAILED || s->tx == MAP_FAILED)
		die("mmap");
	alarm(120);
	s->me = s->cpu = !fork();
	if (s->me)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET((size_t)s->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		return 77;
	s->rx = s->tx + MSG_MAX;
	s->staged = s->tx + 2 * MSG_MAX;
	for (size_t i = 0; i < s->len; i++)
		s->tx[i] = (uint8_t)(1 + i * 7 + i / 4096);
	if (s->mtu)
		namespaces(s);
	for (size_t i = 1; i < sizeof(ideas) / sizeof(*ideas); i++)
		if (!strcmp(argv[1], "all") || !strcmp(argv[1], ideas[i].name))
			idea_run(s, &ideas[i], rounds);
	if (!s->me)
		wait(NULL);
	return 0;
}
