// SPDX-License-Identifier: BSD-2-Clause
// Carrier decorator that writes every datagram to a pcapng file, with IP and UDP headers of its own
// making.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/le.h"
#include "base/limits.h"
#include "base/wire.h"
#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * Datagrams over shared memory have no IP header, those over UDP have one that we never see; both
 * look the same here, so that one dissector reads all. What is captured is what the reliability
 * module gave away, before faults, and what it got.
 *
 * The ports of a node share one file (they share its lock), found through the node's other ports. A
 * process never writes to a file that exists: "%p" in the name becomes its pid, and if that (or a
 * name without %p) is taken, ".<pid>" and then
 * ".<pid>-2" ... go before the extension. The file is opened by the first datagram. A block is
 * written by one call, so that a killed process leaves a readable file.
 *
 * Source: draft-ietf-opsawg-pcapng; LINKTYPE_RAW of tcpdump.org.
 */

#define BLOCK_SHB	 0x0a0d0d0au
#define BLOCK_IDB	 1u
#define BLOCK_EPB	 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_RAW	 101
#define OPT_FLAGS	 2 /* of an EPB: bits 0-1 are the direction */
#define OPT_IF_NAME	 2
#define OPT_IF_TSRESOL	 9
#define OPT_SHB_USERAPPL 4
#define NAME_TRIES	 1000
#define OFFSET_TRIES	 8
#define WHO_MAX		 120 /* 32 of the program, 10 of its number, 64 of the host */
#define HDR_MAX		 48 /* IPv6 + UDP */
#define PACKET_IOV	 67 /* pieces of a datagram, and three of our own */

enum cap_dir { CAP_IN = 1, CAP_OUT = 2 };

struct cap_file {
	int fd;		    /* -1: not open yet */
	bool is_broken;	    /* could not be opened or written, which has been logged */
	uint32_t refs;	    /* ports */
	uint64_t offset_ns; /* add to the node's clock for time since 1970 */
};

struct cap {
	struct carrier c;
	struct carrier *inner;
	struct cap_file *file;
};

static const struct carrier_ops cap_ops;

static struct cap *to_cap(struct carrier *c)
{
	return container_of(c, struct cap, c);
}

/* --- the file --------------------------------------------------------------------------------- */

/* The @n-th name to try for @tmpl, see above. Return: false if it does not fit. */
static bool cap_name(const char *tmpl, uint32_t n, char *out, size_t out_len)
{
	const char *pid_at = strstr(tmpl, "%p"), *slash = strrchr(tmpl, '/'),
		   *dot = strrchr(tmpl, '.');
	char tag[32] = "";
	int len;

	if (dot && slash && dot < slash)
		dot = NULL;
	if (!dot)
		dot = tmpl + strlen(tmpl);
	if (n == 1)
		snprintf(tag, sizeof(tag), ".%d", (int)getpid());
	else if (n)
		snprintf(tag, sizeof(tag), ".%d-%u", (int)getpid(), n);
	if (pid_at && pid_at < dot)
		len = snprintf(out, out_len, "%.*s%d%.*s%s%s", (int)(pid_at - tmpl), tmpl,
			       (int)getpid(), (int)(dot - pid_at - 2), pid_at + 2, tag, dot);
	else
		len = snprintf(out, out_len, "%.*s%s%s", (int)(dot - tmpl), tmpl, tag, dot);
	return len >= 0 && (size_t)len < out_len;
}

/* One option: code, length, value, padding. */
static void put_opt(struct wire_wr *w, uint16_t code, const void *val, uint16_t len)
{
	static const uint8_t pad[3];
	le16_t v[2] = {le16_put(code), le16_put(len)};

	wire_put(w, v, sizeof(v));
	wire_put(w, val, len);
	wire_put(w, pad, -len & 3u);
}

/* Put the length of the block that begins at @start to both its ends. */
static void put_len(struct wire_wr *w, uint8_t *start)
{
	le32_t len = le32_put((uint32_t)(w->p - start) + 4);

	memcpy(start + 4, &len, 4);
	WIRE_PUT(w, &len);
}

static void put_u32(struct wire_wr *w, uint32_t v)
{
	le32_t le = le32_put(v);

	WIRE_PUT(w, &le);
}

/* Who captures: "a.out.1234@host". Return: bytes without the zero. */
static uint16_t cap_who(char out[WHO_MAX])
{
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	return (uint16_t)snprintf(out, WHO_MAX, "%.32s.%d@%s", program_invocation_short_name, (int)getpid(), host);
}

/* Section header and the one interface, which is named after the process. Return: bytes. */
static size_t head_encode(uint8_t *buf, size_t cap)
{
	static const char app[] = "softfabric";
	char who[WHO_MAX];
	uint16_t who_len = cap_who(who);
	struct wire_wr w = wire_wr(buf, cap);
	uint8_t resol = 9; /* nanoseconds */
	uint8_t *start = w.p;

	put_u32(&w, BLOCK_SHB);
	put_u32(&w, 0);
	put_u32(&w, BYTE_ORDER_MAGIC);
	put_u32(&w, 1);		 /* version 1.0 */
	put_u32(&w, UINT32_MAX); /* length of the section: not known */
	put_u32(&w, UINT32_MAX);
	put_opt(&w, OPT_SHB_USERAPPL, app, sizeof(app) - 1);
	put_opt(&w, 0, "", 0);
	put_len(&w, start);
	start = w.p;
	put_u32(&w, BLOCK_IDB);
	put_u32(&w, 0);
	put_u32(&w, LINKTYPE_RAW);
	put_u32(&w, 0); /* no limit to what is captured */
	put_opt(&w, OPT_IF_NAME, who, who_len);
	put_opt(&w, OPT_IF_TSRESOL, &resol, 1);
	put_opt(&w, 0, "", 0);
	put_len(&w, start);
	must(w.ok);
	return (size_t)(w.p - buf);
}

static void file_fail(struct cap_file *f, const char *what, const char *name)
{
	LOG_WARN("capture %s: cannot %s: %s; nothing more is captured", name, what,
		 strerror(errno));
	f->is_broken = true;
}

/*
 * What to add to @clk for time since 1970. Captures of several processes are merged by time, so it is read between two
 * looks at the clock, and the closest of a few such pairs counts: a process may be interrupted at any place.
 */
static uint64_t clock_offset(const struct clk *clk)
{
	uint64_t best = UINT64_MAX, offset = 0;

	for (int i = 0; i < OFFSET_TRIES; i++) {
		uint64_t before = clk_now_ns(clk), after;
		struct timespec ts;

		clock_gettime(CLOCK_REALTIME, &ts);
		after = clk_now_ns(clk);
		if (after - before >= best)
			continue;
		best = after - before;
		offset = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec - before - best / 2;
	}
	return offset;
}

static void file_open(struct cap_file *f, const struct link_node *n)
{
	char name[sizeof(n->room->pcap) + 64];
	uint8_t head[120 + WHO_MAX];
	size_t len;

	errno = ENAMETOOLONG;
	for (uint32_t i = 0;
	     f->fd < 0 && i < NAME_TRIES && cap_name(n->room->pcap, i, name, sizeof(name)); i++) {
		f->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
		if (f->fd < 0 && errno != EEXIST)
			break;
	}
	if (f->fd < 0) {
		file_fail(f, "open", n->room->pcap);
		return;
	}
	LOG_INFO("capturing to %s", name);
	len = head_encode(head, sizeof(head));
	errno = EFBIG;
	if (!limits_append(f->fd, len) || write(f->fd, head, len) != (ssize_t)len) {
		file_fail(f, "write", name);
		return;
	}
	if (!n->clk.virt_ns)
		f->offset_ns = clock_offset(&n->clk);
}

/* --- packets ---------------------------------------------------------------------------------- */

/* Sum of big-endian 16-bit words; *odd: a byte waits for its partner in the next piece. */
static void sum_add(uint64_t *sum, bool *odd, const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++, *odd = !*odd)
		*sum += *odd ? b[i] : (uint64_t)b[i] << 8;
}

static uint16_t sum_fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static void put_be16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* IP header in front of a UDP header with its ports and length; checksum of UDP still 0. Return:
 * bytes of IP header. */
static size_t ip_encode(uint8_t *h, const struct link_addr *src, const struct link_addr *dst,
			uint32_t payload_len)
{
	bool is_v4 = link_ip_is_v4(src->ip) && link_ip_is_v4(dst->ip), odd = false;
	size_t ip_len = is_v4 ? 20 : 40;
	uint64_t sum = 0;

	memset(h, 0, HDR_MAX);
	if (is_v4) {
		h[0] = 0x45;
		put_be16(h + 2, (uint32_t)ip_len + 8 + payload_len);
		h[6] = 0x40; /* do not fragment */
		h[8] = 64;
		h[9] = 17;
		memcpy(h + 12, src->ip + 12, 4);
		memcpy(h + 16, dst->ip + 12, 4);
		sum_add(&sum, &odd, h, 20);
		put_be16(h + 10, sum_fold(sum));
	} else {
		h[0] = 0x60;
		put_be16(h + 4, 8 + payload_len);
		h[6] = 17;
		h[7] = 64;
		memcpy(h + 8, src->ip, 16);
		memcpy(h + 24, dst->ip, 16);
	}
	put_be16(h + ip_len, src->port);
	put_be16(h + ip_len + 2, dst->port);
	put_be16(h + ip_len + 4, 8 + payload_len);
	return ip_len;
}

static void udp_sum(uint8_t *h, size_t ip_len, const struct iovec *iov, int iov_cnt,
		    uint32_t payload_len)
{
	uint64_t sum = 17 + 8 + (uint64_t)payload_len;
	bool odd = false;
	uint16_t folded;

	/* the pseudo header: addresses (in both versions the end of the IP header), protocol,
	 * length */
	sum_add(&sum, &odd, h + (ip_len == 20 ? 12 : 8), ip_len == 20 ? 8 : 32);
	sum_add(&sum, &odd, h + ip_len, 8);
	for (int i = 0; i < iov_cnt; i++)
		sum_add(&sum, &odd, iov[i].iov_base, iov[i].iov_len);
	folded = sum_fold(sum);
	put_be16(h + ip_len + 6, folded ? folded : 0xffff);
}

static void packet_write(struct cap *c, uint64_t now_ns, enum cap_dir dir, const struct link_addr *src,
			 const struct link_addr *dst, const struct iovec *iov, int iov_cnt)
{
	struct iovec out[PACKET_IOV];
	const struct link_node *n = c->c.port->node;
	struct cap_file *f = c->file;
	uint8_t head[28], ip[HDR_MAX], tail[3 + 12 + 4] = {0};
	uint32_t len = 0, cap_len, total;
	struct wire_wr w;
	le32_t flags = le32_put(dir);
	size_t ip_len;
	uint64_t at;

	if (f->fd < 0 && !f->is_broken)
		file_open(f, n);
	if (f->is_broken || iov_cnt > PACKET_IOV - 3)
		return;
	for (int i = 0; i < iov_cnt; i++) {
		out[2 + i] = iov[i];
		len += (uint32_t)iov[i].iov_len;
	}
	ip_len = ip_encode(ip, src, dst, len);
	udp_sum(ip, ip_len, iov, iov_cnt, len);
	cap_len = (uint32_t)ip_len + 8 + len;
	total = (uint32_t)sizeof(head) + ALIGN_UP(cap_len, 4u) + 12 + 4;
	at = now_ns + f->offset_ns;
	w = wire_wr(head, sizeof(head));
	put_u32(&w, BLOCK_EPB);
	put_u32(&w, total);
	put_u32(&w, 0); /* interface */
	put_u32(&w, (uint32_t)(at >> 32));
	put_u32(&w, (uint32_t)at);
	put_u32(&w, cap_len);
	put_u32(&w, cap_len);
	out[0] = (struct iovec){head, sizeof(head)};
	out[1] = (struct iovec){ip, ip_len + 8};
	w = wire_wr(tail, sizeof(tail));
	wire_put(&w, tail, -cap_len & 3u);
	put_opt(&w, OPT_FLAGS, &flags, sizeof(flags));
	put_opt(&w, 0, "", 0);
	put_u32(&w, total);
	must(w.ok);
	out[2 + iov_cnt] = (struct iovec){tail, (size_t)(w.p - tail)};
	errno = EFBIG;
	if (!limits_append(f->fd, total) || writev(f->fd, out, iov_cnt + 3) != (ssize_t)total)
		file_fail(f, "write", n->room->pcap);
}

/* --- the carrier ------------------------------------------------------------------------------ */

static int cap_send(struct carrier *c, const struct link_addr *dst, const struct iovec *iov,
		    int iov_cnt)
{
	struct cap *cap = to_cap(c);
	uint64_t now_ns = clk_now_ns(&c->port->node->clk); /* a quick receiver stamps it while we still send */
	int rc = cap->inner->ops->send(cap->inner, dst, iov, iov_cnt);

	if (!rc)
		packet_write(cap, now_ns, CAP_OUT, &c->port->self, dst, iov, iov_cnt);
	return rc;
}

static void cap_rx(void *ctx, const struct link_addr *src, const void *buf, size_t len)
{
	struct cap *cap = ctx;
	struct iovec iov = {(void *)(uintptr_t)buf, len};

	packet_write(cap, clk_now_ns(&cap->c.port->node->clk), CAP_IN, src, &cap->c.port->self, &iov, 1);
	cap->c.rx(cap->c.rx_ctx, src, buf, len);
}

static void cap_error(void *ctx, const struct link_addr *dst, const struct carrier_error *e)
{
	struct cap *cap = ctx;

	if (cap->c.error)
		cap->c.error(cap->c.rx_ctx, dst, e);
}

static void cap_flush(struct carrier *c)
{
	struct carrier *inner = to_cap(c)->inner;

	inner->ops->flush(inner);
}

static int cap_poll(struct carrier *c, int budget)
{
	struct carrier *inner = to_cap(c)->inner;

	return inner->ops->poll(inner, budget);
}

static uint32_t cap_mtu(struct carrier *c, const struct link_addr *dst)
{
	struct carrier *inner = to_cap(c)->inner;

	return inner->ops->mtu(inner, dst);
}

static uint64_t cap_next_deadline(struct carrier *c)
{
	struct carrier *inner = to_cap(c)->inner;

	return inner->ops->next_deadline(inner);
}

static int cap_fd(struct carrier *c)
{
	struct carrier *inner = to_cap(c)->inner;

	return inner->ops->fd(inner);
}

static void cap_close(struct carrier *c)
{
	struct cap *cap = to_cap(c);

	cap->inner->ops->close(cap->inner);
	if (!--cap->file->refs) {
		if (cap->file->fd >= 0)
			close(cap->file->fd);
		mem_free(cap->file);
	}
	mem_free(cap);
}

static const struct carrier_ops cap_ops = {
	.send = cap_send,
	.flush = cap_flush,
	.poll = cap_poll,
	.mtu = cap_mtu,
	.next_deadline = cap_next_deadline,
	.fd = cap_fd,
	.close = cap_close,
};

static struct cap_file *file_get(struct link_node *n)
{
	struct cap_file *f;

	for (struct link_port *p = n->ports; p; p = p->next) {
		if (p->net && p->net->ops == &cap_ops) {
			f = to_cap(p->net)->file;
			f->refs++;
			return f;
		}
	}
	f = mem_alloc(sizeof(*f));
	if (!f)
		return NULL;
	f->fd = -1;
	f->refs = 1;
	return f;
}

int cap_open(struct link_port *p, struct carrier *inner, struct carrier **out)
{
	struct cap *cap = mem_alloc(sizeof(*cap));

	if (!cap)
		return -ENOMEM;
	cap->file = file_get(p->node);
	if (!cap->file) {
		mem_free(cap);
		return -ENOMEM;
	}
	cap->c.ops = &cap_ops;
	cap->c.port = p;
	cap->inner = inner;
	inner->rx = cap_rx;
	inner->rx_ctx = cap;
	inner->error = cap_error;
	*out = &cap->c;
	return 0;
}
