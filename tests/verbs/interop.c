// SPDX-License-Identifier: BSD-2-Clause
// One side of a pair that uses every protocol of efa, each by name: interop ours|theirs SET PORT [SERVER].
//
// One side runs over our provider, the other over the one that libfabric was built with. Each row is done twice, begun
// by either side; every byte of it is checked on the side that it reaches, and the bytes around it. Ours looks at its
// counters as well: the packets of the row's protocol went over the wire, and no other request did. SET is the group of
// rows that fits the environment (FI_EFA_*), which run_verbs.sh makes.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "fi_ext_softfabric.h"

#define MAX_LEN	   (3u << 20)
#define GUARD	   64u /* bytes before and behind, which nothing may touch */
#define GUARD_BYTE 0x5a
#define TAG	   0x1234567890abcdefULL
#define IMM	   0x89abcdefULL
#define PATIENCE_S 40
#define ADDR_LEN   32
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

enum op { SEND, TSEND, WRITE, READ, ATOMIC, FETCH, COMPARE };

struct row {
	const char *set;
	enum op op;
	size_t len;
	uint64_t flags; /* FI_DELIVERY_COMPLETE, FI_REMOTE_CQ_DATA */
	const char *pkt;
	uint32_t since; /* the release of libfabric whose provider has it; 0: the first that we meet */
};

#define DC  FI_DELIVERY_COMPLETE
#define CQD FI_REMOTE_CQ_DATA
#define RW  FI_VERSION(1, 18)

static const struct row rows[] = {
	{"packets", SEND, 0, 0, "EAGER_MSGRTM"},
	{"packets", SEND, 1, 0, "EAGER_MSGRTM"},
	{"packets", SEND, 8000, CQD, "EAGER_MSGRTM"},
	{"packets", TSEND, 100, 0, "EAGER_TAGRTM"},
	{"packets", TSEND, 8000, CQD, "EAGER_TAGRTM"},
	{"packets", SEND, 8000, DC, "DC_EAGER_MSGRTM"},
	{"packets", TSEND, 77, DC | CQD, "DC_EAGER_TAGRTM"},
	{"packets", SEND, 8929, 0, "MEDIUM_MSGRTM"},
	{"packets", SEND, 65536, CQD, "MEDIUM_MSGRTM"},
	{"packets", TSEND, 33333, 0, "MEDIUM_TAGRTM"},
	{"packets", TSEND, 65535, CQD, "MEDIUM_TAGRTM"},
	{"packets", SEND, 40000, DC | CQD, "DC_MEDIUM_MSGRTM"},
	{"packets", TSEND, 65536, DC, "DC_MEDIUM_TAGRTM"},
	{"packets", SEND, 65537, 0, "LONGCTS_MSGRTM"},
	{"packets", SEND, 700001, CQD, "LONGCTS_MSGRTM"},
	{"packets", TSEND, 300000, 0, "LONGCTS_TAGRTM"},
	{"packets", TSEND, 100001, CQD, "LONGCTS_TAGRTM"},
	{"packets", SEND, 300001, DC, "DC_LONGCTS_MSGRTM"},
	{"packets", TSEND, 600003, DC | CQD, "DC_LONGCTS_TAGRTM"},
	{"packets", WRITE, 1, 0, "EAGER_RTW"},
	{"packets", WRITE, 8000, CQD, "EAGER_RTW"},
	{"packets", WRITE, 8000, DC, "DC_EAGER_RTW"},
	{"packets", WRITE, 123, DC | CQD, "DC_EAGER_RTW"},
	{"packets", WRITE, 9001, 0, "LONGCTS_RTW"},
	{"packets", WRITE, 500001, CQD, "LONGCTS_RTW"},
	{"packets", WRITE, 400009, DC, "DC_LONGCTS_RTW"},
	{"packets", WRITE, 20000, DC | CQD, "DC_LONGCTS_RTW"},
	{"packets", READ, 1, 0, "SHORT_RTR"},
	{"packets", READ, 8800, 0, "SHORT_RTR"},
	{"packets", READ, 9001, 0, "LONGCTS_RTR"},
	{"packets", READ, 700001, 0, "LONGCTS_RTR"},
	{"packets", ATOMIC, 8, 0, "WRITE_RTA"},
	{"packets", ATOMIC, 8000, 0, "WRITE_RTA"},
	{"packets", ATOMIC, 80, DC, "DC_WRITE_RTA"},
	{"packets", FETCH, 8, 0, "FETCH_RTA"},
	{"packets", FETCH, 8000, 0, "FETCH_RTA"},
	{"packets", COMPARE, 16, 0, "COMPARE_RTA"},
	{"packets", COMPARE, 4000, 0, "COMPARE_RTA"},
	{"read", SEND, 1048576, 0, "LONGREAD_MSGRTM"},
	{"read", SEND, 3000001, CQD, "LONGREAD_MSGRTM"},
	{"read", SEND, 1500001, DC, "LONGREAD_MSGRTM"},
	{"read", TSEND, 1048577, CQD, "LONGREAD_TAGRTM"},
	{"read", TSEND, 2000001, DC | CQD, "LONGREAD_TAGRTM"},
	{"read", WRITE, 65536, 0, "LONGREAD_RTW"},
	{"read", WRITE, 1000003, CQD, "LONGREAD_RTW"},
	{"read", WRITE, 70001, DC, "LONGREAD_RTW"},
	{"read", READ, 0, 0, "RDMA_READ"},
	{"read", READ, 1, 0, "RDMA_READ"},
	{"read", READ, 9001, 0, "RDMA_READ"},
	{"read", READ, 3000001, 0, "RDMA_READ"},
	{"runt", SEND, 1048576, 0, "RUNTREAD_MSGRTM"},
	{"runt", SEND, 3000001, CQD, "RUNTREAD_MSGRTM"},
	{"runt", TSEND, 1048579, 0, "RUNTREAD_TAGRTM"},
	{"runt", TSEND, 2000001, CQD, "RUNTREAD_TAGRTM"},
	{"runt", SEND, 1048576, DC, "LONGREAD_MSGRTM"},
	{"runt", TSEND, 1200003, DC | CQD, "LONGREAD_TAGRTM"},
	{"runt", WRITE, 100001, CQD, "LONGREAD_RTW"},
	{"runt", READ, 300001, 0, "RDMA_READ"},
	{"write", WRITE, 0, 0, "RDMA_WRITE", RW},
	{"write", WRITE, 1, 0, "RDMA_WRITE", RW},
	{"write", WRITE, 70001, CQD, "RDMA_WRITE", RW},
	{"write", WRITE, 3000001, DC, "RDMA_WRITE", RW},
	{"write", READ, 3000001, 0, "RDMA_READ"},
};

/* --- the objects of this side --- */

struct area {
	uint8_t *mem; /* MAX_LEN bytes, with GUARD around them */
	struct fid_mr *mr;
	uint64_t key;
};

/* What the other side has to know. */
struct card {
	uint8_t addr[ADDR_LEN];
	uint64_t target, key;
};

static struct {
	bool is_ours, is_server;
	uint32_t release; /* of libfabric */
	int ctl; /* a TCP connection, by which both sides know where they are */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fi_softfabric_ops_stats *stats;
	struct area out, in, extra; /* what goes out, what comes in, a second operand */
	fi_addr_t peer;
	struct card theirs;
	const struct row *row;
	int tx_done, rx_done; /* completions of this row */
	struct fi_cq_tagged_entry rx;
} me;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	if (me.row)
		fprintf(stderr, "%s, %zu bytes, flags %#llx: ", me.row->pkt, me.row->len,
			(unsigned long long)me.row->flags);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static void ok(int ret, const char *what)
{
	if (ret)
		die("%s: %s", what, fi_strerror(-ret));
}

/* --- completions and time --- */

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void cq_failed(void)
{
	struct fi_cq_err_entry err = {0};

	if (fi_cq_readerr(me.cq, &err, 0) < 0)
		die("an error that cannot be read");
	die("error completion: %s, provider's %d", fi_strerror(err.err), err.prov_errno);
}

static void progress(void)
{
	struct fi_cq_tagged_entry e;
	ssize_t n;

	while ((n = fi_cq_read(me.cq, &e, 1)) == 1) {
		if (e.flags & (FI_RECV | FI_REMOTE_WRITE)) {
			me.rx_done++;
			me.rx = e;
		} else {
			me.tx_done++;
		}
	}
	if (n == -FI_EAVAIL)
		cq_failed();
	if (n != -FI_EAGAIN)
		die("fi_cq_read: %zd", n);
}

static void await(const int *cnt, const char *what)
{
	double until = now_s() + PATIENCE_S;

	while (!*cnt) {
		progress();
		if (now_s() > until)
			die("no completion of the %s", what);
	}
	if (*cnt != 1)
		die("%d completions of the %s", *cnt, what);
}

/* Repeats a call while the provider has no room, or waits for a handshake. */
#define POST(call)                                                                                                     \
	do {                                                                                                           \
		double until_ = now_s() + PATIENCE_S;                                                                  \
		ssize_t ret_;                                                                                          \
		while ((ret_ = (call)) == -FI_EAGAIN && now_s() < until_)                                              \
			progress();                                                                                    \
		if (ret_)                                                                                              \
			die(#call ": %s", fi_strerror((int)-ret_));                                                    \
	} while (0)

/* --- the control connection --- */

static void ctl_open(const char *port, const char *server)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	double until = now_s() + PATIENCE_S;
	int one = 1, fd;

	if (server && inet_pton(AF_INET, server, &a.sin_addr) != 1)
		die("%s is no address", server);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (server) {
		while (connect(fd, (void *)&a, sizeof(a))) {
			if (now_s() > until)
				die("connect: %s", strerror(errno));
			close(fd);
			usleep(20000);
			fd = socket(AF_INET, SOCK_STREAM, 0);
		}
		me.ctl = fd;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (void *)&a, sizeof(a)) || listen(fd, 1))
			die("port %s: %s", port, strerror(errno));
		me.ctl = accept(fd, NULL, NULL);
		close(fd);
	}
	setsockopt(me.ctl, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Gives @mine, and waits for what the other one gives; the providers work meanwhile. */
static void swap(const void *mine, void *other, size_t len)
{
	struct pollfd p = {.fd = me.ctl, .events = POLLIN};
	double until = now_s() + PATIENCE_S;
	size_t got = 0;

	if (write(me.ctl, mine, len) != (ssize_t)len)
		die("the other side has gone");
	while (got < len) {
		ssize_t n = 0;

		if (me.cq)
			progress();
		if (poll(&p, 1, me.cq ? 0 : 1) > 0) {
			n = read(me.ctl, (uint8_t *)other + got, len - got);
			if (n <= 0)
				die("the other side has ended");
		}
		got += (size_t)n;
		if (now_s() > until)
			die("the other side does not get there");
	}
}

static void meet(void)
{
	char a = 1, b;

	swap(&a, &b, 1);
}

/* --- making and closing --- */

static void area_make(struct area *a, uint64_t key)
{
	const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

	a->mem = calloc(1, MAX_LEN + 2 * GUARD);
	if (!a->mem)
		die("no memory");
	ok(fi_mr_reg(me.domain, a->mem, MAX_LEN + 2 * GUARD, access, 0, key, 0, &a->mr, NULL), "fi_mr_reg");
	a->key = fi_mr_key(a->mr);
}

static void cards_swap(void)
{
	struct card mine = {.target = (uintptr_t)me.in.mem + GUARD, .key = me.in.key};
	size_t len = ADDR_LEN;

	ok(fi_getname(&me.ep->fid, mine.addr, &len), "fi_getname");
	swap(&mine, &me.theirs, sizeof(mine));
	if (fi_av_insert(me.av, me.theirs.addr, 1, &me.peer, 0, NULL) != 1)
		die("fi_av_insert");
}

static void open_all(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 1024};
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->fabric_attr->prov_name = strdup("efa");
	ok(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &me.info), "fi_getinfo");
	fi_freeinfo(hints);
	ok(fi_fabric(me.info->fabric_attr, &me.fabric, NULL), "fi_fabric");
	ok(fi_domain(me.fabric, me.info, &me.domain, NULL), "fi_domain");
	ok(fi_cq_open(me.domain, &cq, &me.cq, NULL), "fi_cq_open");
	ok(fi_av_open(me.domain, &av, &me.av, NULL), "fi_av_open");
	ok(fi_endpoint(me.domain, me.info, &me.ep, NULL), "fi_endpoint");
	ok(fi_ep_bind(me.ep, &me.cq->fid, FI_TRANSMIT | FI_RECV), "bind of the queue");
	ok(fi_ep_bind(me.ep, &me.av->fid, 0), "bind of the addresses");
	ok(fi_enable(me.ep), "fi_enable");
	area_make(&me.out, 1);
	area_make(&me.in, 2);
	area_make(&me.extra, 3);
	if (!fi_open_ops(&me.domain->fid, FI_SOFTFABRIC_STATS_OPS, 0, (void **)&me.stats, NULL) != me.is_ours)
		die("this is %s provider", me.is_ours ? "not our" : "our");
}

static void close_all(void)
{
	struct area *areas[] = {&me.out, &me.in, &me.extra};

	ok(fi_close(&me.ep->fid), "close of the endpoint");
	for (unsigned i = 0; i < ARRAY_SIZE(areas); i++) {
		ok(fi_close(&areas[i]->mr->fid), "close of a region");
		free(areas[i]->mem);
	}
	ok(fi_close(&me.av->fid), "close of the addresses");
	ok(fi_close(&me.cq->fid), "close of the queue");
	ok(fi_close(&me.domain->fid), "close of the domain");
	ok(fi_close(&me.fabric->fid), "close of the fabric");
	fi_freeinfo(me.info);
	close(me.ctl);
}

/* --- bytes --- */

static uint8_t byte_of(unsigned seed, size_t i)
{
	return (uint8_t)((i * 2654435761u + seed * 40503u) >> 7 ^ seed);
}

static void fill(struct area *a, unsigned seed, size_t len)
{
	memset(a->mem, GUARD_BYTE, len + 2 * GUARD);
	for (size_t i = 0; i < len; i++)
		a->mem[GUARD + i] = byte_of(seed, i);
}

/* How many of the first @len are as fill() made them. */
static size_t right(const struct area *a, unsigned seed, size_t len)
{
	size_t i = 0;

	while (i < len && a->mem[GUARD + i] == byte_of(seed, i))
		i++;
	return i;
}

static void guards_check(const struct area *a, size_t len)
{
	for (size_t i = 0; i < GUARD; i++)
		if (a->mem[i] != GUARD_BYTE || a->mem[GUARD + len + i] != GUARD_BYTE)
			die("a byte beside the data was written");
}

static void check(const struct area *a, unsigned seed, size_t len)
{
	size_t i = right(a, seed, len);

	if (i < len)
		die("byte %zu is %#x, not %#x", i, a->mem[GUARD + i], byte_of(seed, i));
	guards_check(a, len);
}

/* --- the counters --- */

#define CNT_MAX 512

struct count {
	char name[CNT_MAX][48];
	uint64_t v[CNT_MAX];
	size_t n;
};

static void counters(struct count *c)
{
	for (c->n = 0; me.is_ours && c->n < CNT_MAX; c->n++) {
		if (me.stats->name(me.domain, c->n, c->name[c->n], sizeof(c->name[0])))
			return;
		ok(me.stats->read(me.domain, c->name[c->n], &c->v[c->n]), c->name[c->n]);
	}
	if (me.is_ours)
		die("more than %d counters", CNT_MAX);
}

static uint64_t grown(const struct count *was, const struct count *is, const char *name)
{
	for (size_t i = 0; i < is->n; i++)
		if (!strcmp(is->name[i], name))
			return is->v[i] - was->v[i];
	die("there is no counter %s", name);
}

/* The first packet of a message, write, read or atomic, by which protocols are told apart. */
static bool is_request(const char *name)
{
	size_t len = strlen(name);

	return len > 3 && name[len - 3] == 'R' && name[len - 2] == 'T' && strchr("MWRA", name[len - 1]);
}

static void moved(const struct count *was, const struct count *is, const char *name)
{
	uint64_t n = grown(was, is, name);

	if (n != me.row->len)
		die("%s grew by %llu", name, (unsigned long long)n);
}

/* Ours: was it the row's protocol, and no other? @begun: by us. */
static void protocol_check(const struct count *was, bool begun)
{
	static struct count is;
	const char *pkt = me.row->pkt;
	bool by_device = !strncmp(pkt, "RDMA_", 5);
	char name[64];

	if (!me.is_ours)
		return;
	counters(&is);
	snprintf(name, sizeof(name), "%cx_pkts.%s", begun ? 't' : 'r', pkt);
	if ((begun || !by_device) && !grown(was, &is, name))
		die("%s did not grow: another protocol was used", name);
	if (!begun && by_device)
		moved(was, &is, me.row->op == READ ? "rdma_read_resp_bytes" : "rdma_write_recv_bytes");
	if (begun && strstr(pkt, "LONGREAD"))
		moved(was, &is, "rdma_read_resp_bytes");
	if (!begun && (strstr(pkt, "LONGREAD") || strstr(pkt, "RUNTREAD")) && !grown(was, &is, "tx_pkts.RDMA_READ"))
		die("no read followed");
	for (size_t i = 0; i < is.n; i++)
		if (is.v[i] != was->v[i] && is_request(is.name[i]) && strcmp(is.name[i], name) &&
		    strcmp(is.name[i], "tx_pkts.EAGER_RTW")) /* an empty one asks a peer that is silent for long */
			die("%s grew by %llu", is.name[i], (unsigned long long)(is.v[i] - was->v[i]));
}

/* Ours: what carried it all. */
static void paths_tell(void)
{
	uint64_t net, shm, lost, late;

	if (!me.is_ours)
		return;
	ok(me.stats->read(me.domain, "net_tx_pkts", &net), "net_tx_pkts");
	ok(me.stats->read(me.domain, "shm_tx_pkts", &shm), "shm_tx_pkts");
	ok(me.stats->read(me.domain, "fault_drop", &lost), "fault_drop");
	ok(me.stats->read(me.domain, "fault_reorder", &late), "fault_reorder");
	printf("sent by network %llu, by memory %llu; datagrams lost %llu, out of order %llu\n",
	       (unsigned long long)net, (unsigned long long)shm, (unsigned long long)lost, (unsigned long long)late);
}

/* --- the rows --- */

static void begin_msg(unsigned seed)
{
	const struct row *r = me.row;
	struct iovec iov = {me.out.mem + GUARD, r->len};
	void *desc = fi_mr_desc(me.out.mr);
	struct fi_msg m = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = me.peer, .data = IMM};
	struct fi_msg_tagged t = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = me.peer, .data = IMM, .tag = TAG};

	fill(&me.out, seed, r->len);
	if (r->op == SEND)
		POST(fi_sendmsg(me.ep, &m, r->flags | FI_COMPLETION));
	else
		POST(fi_tsendmsg(me.ep, &t, r->flags | FI_COMPLETION));
}

static void begin_rma(unsigned seed)
{
	const struct row *r = me.row;
	struct iovec iov = {me.out.mem + GUARD, r->len};
	void *desc = fi_mr_desc(me.out.mr);
	struct fi_rma_iov rma = {me.theirs.target, r->len, me.theirs.key};
	struct fi_msg_rma m = {.msg_iov = &iov,
			       .desc = &desc,
			       .iov_count = 1,
			       .addr = me.peer,
			       .rma_iov = &rma,
			       .rma_iov_count = 1,
			       .data = IMM};

	fill(&me.out, r->op == READ ? seed + 1 : seed, r->len);
	if (r->op == READ)
		POST(fi_readmsg(me.ep, &m, FI_COMPLETION));
	else
		POST(fi_writemsg(me.ep, &m, r->flags | FI_COMPLETION));
}

/* Operands are what fill() makes of seed; the target has that of seed + 2. Results go behind the operands. */
static void begin_atomic(unsigned seed)
{
	const struct row *r = me.row;
	size_t cnt = r->len / 8;
	struct fi_ioc ioc = {me.out.mem + GUARD, cnt}, res = {me.extra.mem + GUARD, cnt};
	struct fi_ioc cmp = {me.extra.mem + GUARD + MAX_LEN / 2, cnt};
	void *desc = fi_mr_desc(me.out.mr), *extra = fi_mr_desc(me.extra.mr);
	struct fi_rma_ioc rma = {me.theirs.target, cnt, me.theirs.key};
	struct fi_msg_atomic m = {.msg_iov = &ioc,
				  .desc = &desc,
				  .iov_count = 1,
				  .addr = me.peer,
				  .rma_iov = &rma,
				  .rma_iov_count = 1,
				  .datatype = FI_UINT64,
				  .op = r->op == COMPARE ? FI_CSWAP : FI_SUM};
	uint8_t *c = cmp.addr;

	fill(&me.out, seed, r->len);
	fill(&me.extra, seed + 1, r->len);
	for (size_t i = 0; i < r->len; i++) /* every other one is equal */
		c[i] = (uint8_t)(byte_of(seed + 2, i) ^ (i / 8 % 2));
	if (r->op == ATOMIC)
		POST(fi_atomicmsg(me.ep, &m, r->flags | FI_COMPLETION));
	else if (r->op == FETCH)
		POST(fi_fetch_atomicmsg(me.ep, &m, &res, &extra, 1, FI_COMPLETION));
	else
		POST(fi_compare_atomicmsg(me.ep, &m, &cmp, &extra, 1, &res, &extra, 1, FI_COMPLETION));
}

static void begin(unsigned seed)
{
	switch (me.row->op) {
	case SEND:
	case TSEND:
		begin_msg(seed);
		break;
	case WRITE:
	case READ:
		begin_rma(seed);
		break;
	case ATOMIC:
	case FETCH:
	case COMPARE:
		begin_atomic(seed);
		break;
	}
	await(&me.tx_done, "call");
	if (me.row->op == READ)
		check(&me.out, seed + 2, me.row->len);
	if (me.row->op == FETCH || me.row->op == COMPARE)
		check(&me.extra, seed + 2, me.row->len);
}

static void target_prepare(unsigned seed)
{
	const struct row *r = me.row;
	void *desc = fi_mr_desc(me.in.mr), *at = me.in.mem + GUARD;

	fill(&me.in, seed + 2, r->len);
	if (r->op == SEND)
		POST(fi_recv(me.ep, at, r->len, desc, FI_ADDR_UNSPEC, NULL));
	if (r->op == TSEND)
		POST(fi_trecv(me.ep, at, r->len, desc, FI_ADDR_UNSPEC, TAG ^ 0xff, 0xff, NULL));
}

/* What word @i is after the atomic. */
static uint64_t word_after(unsigned seed, size_t i)
{
	uint8_t was[8], by[8];
	uint64_t a, b;

	for (size_t k = 0; k < 8; k++) {
		was[k] = byte_of(seed + 2, 8 * i + k);
		by[k] = byte_of(seed, 8 * i + k);
	}
	memcpy(&a, was, 8);
	memcpy(&b, by, 8);
	return me.row->op != COMPARE ? a + b : i % 2 ? a : b;
}

static uint64_t word_is(size_t i)
{
	uint64_t w;

	memcpy(&w, me.in.mem + GUARD + 8 * i, 8);
	return w;
}

static size_t words_right(unsigned seed)
{
	size_t i = 0;

	while (i < me.row->len / 8 && word_is(i) == word_after(seed, i))
		i++;
	return i;
}

/* An atomic without delivery-complete may still be under way when its call is complete. */
static void atomic_check(unsigned seed)
{
	double until = now_s() + PATIENCE_S;
	size_t i;

	while ((i = words_right(seed)) < me.row->len / 8 && now_s() < until)
		progress();
	if (i < me.row->len / 8)
		die("word %zu is %#llx, not %#llx", i, (unsigned long long)word_is(i),
		    (unsigned long long)word_after(seed, i));
	guards_check(&me.in, me.row->len);
}

/* What came with the data. */
static void came_check(void)
{
	const struct row *r = me.row;
	bool is_write = r->op == WRITE;

	if (me.rx.len != r->len)
		die("a completion of %zu bytes", me.rx.len);
	if (!!(me.rx.flags & FI_REMOTE_CQ_DATA) != !!(r->flags & CQD) || (r->flags & CQD && me.rx.data != IMM))
		die("flags %#llx and data %#llx with it", (unsigned long long)me.rx.flags,
		    (unsigned long long)me.rx.data);
	if (!is_write && !!(me.rx.flags & FI_TAGGED) != (r->op == TSEND))
		die("flags %#llx with it", (unsigned long long)me.rx.flags);
	if (r->op == TSEND && me.rx.tag != TAG)
		die("tag %#llx with it", (unsigned long long)me.rx.tag);
}

/* A write that nothing tells of here, and of which only its sender's adapter knows: it will come. */
static void bytes_await(unsigned seed)
{
	double until = now_s() + PATIENCE_S;

	while (right(&me.in, seed, me.row->len) < me.row->len && now_s() < until)
		progress();
}

static void target(unsigned seed)
{
	const struct row *r = me.row;
	char end = 1, other;

	if (r->op == SEND || r->op == TSEND || r->flags & CQD) {
		await(&me.rx_done, "receive");
		came_check();
		check(&me.in, seed, r->len);
	} else if (r->op == WRITE && !(r->flags & DC)) {
		bytes_await(seed);
		check(&me.in, seed, r->len);
	}
	swap(&end, &other, 1);
	if (r->op == WRITE)
		check(&me.in, seed, r->len);
	else if (r->op == READ)
		check(&me.in, seed + 2, r->len);
	else if (r->op >= ATOMIC)
		atomic_check(seed);
}

static void row_do(unsigned seed, bool begun)
{
	static struct count was;

	me.tx_done = me.rx_done = 0;
	counters(&was);
	if (!begun)
		target_prepare(seed);
	meet();
	if (begun) {
		begin(seed);
		meet();
	} else {
		target(seed);
	}
	protocol_check(&was, begun);
	if (begun ? me.rx_done || me.tx_done != 1 : me.tx_done)
		die("%d sent, %d received in the end", me.tx_done, me.rx_done);
	meet();
}

/* Both providers know each other before the rows begin: a delivery-complete message ends only with a handshake. */
static void warm_up(void)
{
	static const struct row r = {"", SEND, 8, DC, "DC_EAGER_MSGRTM"};

	me.row = &r;
	for (unsigned i = 0; i < 2; i++) {
		me.tx_done = me.rx_done = 0;
		if (me.is_server != i)
			target_prepare(1);
		meet();
		if (me.is_server == i)
			begin(1);
		else
			await(&me.rx_done, "receive");
		meet();
	}
	me.row = NULL;
}

static const char *side_name(bool ours)
{
	return ours ? "ours" : "theirs";
}

/* Return: it was done. */
static bool row_both(unsigned i)
{
	if (rows[i].since > me.release) {
		printf("SKIP %s %zu: libfabric %u.%u's provider has none, it came with %u.%u\n", rows[i].pkt,
		       rows[i].len, FI_MAJOR(me.release), FI_MINOR(me.release), FI_MAJOR(rows[i].since),
		       FI_MINOR(rows[i].since));
		return false;
	}
	me.row = &rows[i];
	for (unsigned ours = 0; ours < 2; ours++) {
		row_do(3 * i + 1, ours == me.is_ours);
		printf("ok %s %zu%s%s, begun by %s\n", me.row->pkt, me.row->len, me.row->flags & DC ? " dc" : "",
		       me.row->flags & CQD ? " data" : "", side_name(ours));
		fflush(stdout);
	}
	me.row = NULL;
	return true;
}

int main(int argc, char **argv)
{
	unsigned did = 0, skipped = 0;

	if (argc < 4 || (strcmp(argv[1], "ours") && strcmp(argv[1], "theirs"))) {
		fprintf(stderr, "usage: interop ours|theirs SET PORT [SERVER]\n");
		return 2;
	}
	me.is_ours = !strcmp(argv[1], "ours");
	me.is_server = argc < 5;
	me.release = fi_version();
	ctl_open(argv[3], argv[4]);
	open_all();
	cards_swap();
	warm_up();
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strcmp(rows[i].set, argv[2]))
			*(row_both(i) ? &did : &skipped) += 1;
	paths_tell();
	close_all();
	printf("%u rows done both ways, %u skipped\n", did, skipped);
	return !did;
}
