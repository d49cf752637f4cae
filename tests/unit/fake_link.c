// SPDX-License-Identifier: BSD-2-Clause
// link.h in memory; see fake_link.h. Peers are freed at their last reference, so that a sanitizer
// sees who keeps them.
#include "fake_link.h"

#include <errno.h>
#include <string.h>

#define FRAME_MAX (LINK_FRAME_MAX + LINK_HDR_MAX)

struct link_node {
	struct link_node_attr attr;
};

struct link_peer {
	struct link_port *port;
	struct link_addr addr;
	void *user;
	unsigned refs;
	struct link_peer *next;
};

/* A frame under way, then its verdict; or a bulk request. */
struct item {
	struct item *next;
	struct link_port *from;
	struct link_peer *peer; /* one reference */
	void *cookie;
	bool is_bulk, is_done, wants_verdict, is_direct;
	uint64_t tag;
	int verdict;
	int op;
	void *local;
	uint64_t raddr;
	uint32_t key;
	size_t len;
	uint8_t buf[];
};

struct link_port {
	struct link_node *node;
	struct link_addr self;
	enum link_class cls;
	uint32_t group;
	bool is_shut;
	uint64_t written;
	const struct link_ops *ops;
	void *ctx;
	struct link_peer *peers;
	struct link_stats stats;
	struct link_port *next;
};

struct region {
	uint64_t addr, len;
	unsigned rights;
	uint32_t key, group;
	struct region *next;
};

struct fake_ctl g_fake;
static struct link_port *g_ports;
static struct link_node *g_node;
static struct region *g_regions;
static struct item *g_items;
static uint32_t g_key;
static uint16_t g_next_port;

static void *zalloc(size_t size)
{
	void *p = calloc(1, size);

	must(p);
	return p;
}

static struct {
	uint64_t get, put;
} g_served; /* of all nodes */

void fake_reset(void)
{
	must(!g_ports && !g_regions && !g_items);
	g_fake = (struct fake_ctl){.now_ns = NS_PER_SEC};
	memset(&g_served, 0, sizeof(g_served));
	g_key = 100;
	g_next_port = 0;
}

static bool take(unsigned *cnt)
{
	if (!*cnt)
		return false;
	if (*cnt != UINT32_MAX)
		--*cnt;
	return true;
}

/* --- room and node --- */

int link_room_get(const struct link_room **out, char *err, size_t err_len)
{
	static const struct link_room room = {.paths = LINK_PATH_SHM};

	if (g_fake.room_rc) {
		snprintf(err, err_len, "the net is refused");
		return g_fake.room_rc;
	}
	*out = &room;
	return 0;
}

int link_room_ip(const struct link_room *room, unsigned n, uint8_t ip[16], char *err,
		 size_t err_len)
{
	if (g_fake.ip_rc) {
		snprintf(err, err_len, "no address for adapter %u", n);
		return g_fake.ip_rc;
	}
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	ip[12] = 127;
	ip[15] = (uint8_t)(n + 1);
	return 0;
}

int link_node_open(const struct link_node_attr *attr, struct link_node **out)
{
	if (g_fake.node_rc)
		return g_fake.node_rc;
	*out = zalloc(sizeof(**out));
	(*out)->attr = *attr;
	g_node = *out;
	g_fake.nodes++;
	return 0;
}

void link_node_close(struct link_node *n)
{
	g_fake.nodes--;
	g_node = NULL;
	free(n);
}

uint64_t link_now_ns(const struct link_node *n)
{
	return g_fake.now_ns;
}

void link_idle(struct link_node *n) {}

bool link_forked(const struct link_node *n)
{
	return g_fake.is_forked;
}

void fake_poll_all(void)
{
	g_node->attr.service(g_node->attr.ctx);
}

uint64_t fake_deadline(void)
{
	return g_node->attr.next_deadline(g_node->attr.ctx);
}

/* --- peers --- */

struct link_peer *link_peer_find(struct link_port *p, const struct link_addr *addr)
{
	struct link_peer *peer = p->peers;

	while (peer && memcmp(&peer->addr, addr, sizeof(*addr)))
		peer = peer->next;
	return peer;
}

static struct link_peer *peer_of(struct link_port *p, const struct link_addr *addr)
{
	struct link_peer *peer = link_peer_find(p, addr);

	if (peer) {
		peer->refs++;
		return peer;
	}
	peer = zalloc(sizeof(*peer));
	peer->port = p;
	peer->addr = *addr;
	peer->refs = 1;
	peer->next = p->peers;
	p->peers = peer;
	g_fake.peers++;
	return peer;
}

int link_peer_get(struct link_port *p, const struct link_addr *addr, struct link_peer **out)
{
	if (g_fake.peer_rc)
		return g_fake.peer_rc;
	*out = peer_of(p, addr);
	return 0;
}

void link_peer_put(struct link_peer *peer)
{
	struct link_peer **link = &peer->port->peers;

	must(peer->refs);
	if (--peer->refs)
		return;
	must(!peer->user); /* the owner's pointer would dangle */
	while (*link != peer)
		link = &(*link)->next;
	*link = peer->next;
	g_fake.peers--;
	free(peer);
}

uint32_t link_peer_nonce(const struct link_peer *peer)
{
	return peer->addr.nonce;
}

int link_port_user(const uint8_t ip[16], uint16_t port, uint32_t *uid)
{
	(void)ip;
	(void)port;
	(void)uid;
	return -ENOENT;
}

int link_port_holder(const uint8_t ip[16], uint16_t port)
{
	return 0;
}

const struct link_addr *link_peer_addr(const struct link_peer *peer)
{
	return &peer->addr;
}

bool link_peer_is_local(const struct link_peer *peer)
{
	return !g_fake.is_remote;
}

struct quota_source *link_peer_source(const struct link_peer *peer)
{
	return NULL;
}

void link_port_set_label(struct link_port *p, uint64_t label)
{
	(void)p;
	(void)label;
}

uint64_t link_peer_label(const struct link_peer *peer)
{
	(void)peer;
	return 0;
}

bool link_peer_is_host(const struct link_peer *peer)
{
	return peer->addr.ip[12] == 127;
}

int link_peer_connect(struct link_peer *peer)
{
	return g_fake.connect_rc;
}

void *link_peer_user(const struct link_peer *peer)
{
	return peer->user;
}

void link_peer_set_user(struct link_peer *peer, void *user)
{
	peer->user = user;
}

/* --- ports --- */

struct link_port *fake_port(uint16_t number)
{
	struct link_port *p = g_ports;

	while (p && p->self.port != number)
		p = p->next;
	return p;
}

static struct link_port *port_at(const struct link_addr *addr)
{
	struct link_port *p = fake_port(addr->port);

	if (!p || memcmp(p->self.ip, addr->ip, 16) || (addr->nonce && addr->nonce != p->self.nonce))
		return NULL;
	return p;
}

int link_port_open(const struct link_port_attr *attr, struct link_port **out)
{
	struct link_port *p;

	if (g_fake.port_rc)
		return g_fake.port_rc;
	must(attr->nonce);
	p = zalloc(sizeof(*p));
	p->node = attr->node;
	memcpy(p->self.ip, attr->ip, 16);
	p->self.port =
		attr->port ? attr->port : g_next_port++; /* the first is 0, as a real adapter's */
	p->self.nonce = attr->nonce;
	p->cls = attr->cls;
	p->group = attr->group;
	p->is_shut = attr->is_shut;
	p->ops = attr->ops;
	p->ctx = attr->ctx;
	p->next = g_ports;
	g_ports = p;
	g_fake.ports++;
	g_fake.last_port_no_shm = attr->no_shm;
	*out = p;
	return 0;
}

static void item_free(struct item *it)
{
	struct item **link = &g_items;

	while (*link != it)
		link = &(*link)->next;
	*link = it->next;
	link_peer_put(it->peer);
	free(it);
}

static void item_end(struct item *it, int verdict)
{
	struct link_port *p = it->from;
	void *cookie = it->cookie;
	bool is_bulk = it->is_bulk, wants = it->wants_verdict;

	if (it->is_direct && verdict)
		p->ops->on_lost(p->ctx, it->peer, it->tag, it->buf, it->len, verdict);
	wants &= !it->is_direct;
	item_free(it);
	if (!wants)
		return;
	if (is_bulk)
		p->ops->on_bulk(p->ctx, cookie, verdict);
	else
		p->ops->on_sent(p->ctx, cookie, verdict);
}

static struct item *first_of(const struct link_port *p)
{
	struct item *it = g_items;

	while (it && it->from != p)
		it = it->next;
	return it;
}

void link_port_close(struct link_port *p)
{
	struct link_stats last;

	link_port_close_stats(p, &last);
}

void link_port_close_stats(struct link_port *p, struct link_stats *last)
{
	struct link_port **link = &g_ports;
	struct item *it;

	while ((it = first_of(p)) != NULL)
		item_end(it, it->is_done ? it->verdict : -ECANCELED);
	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	must(!p->peers); /* somebody kept a reference */
	g_fake.ports--;
	p->stats.net_tx_dgrams++; /* the goodbye */
	*last = p->stats;
	free(p);
}

int link_port_set_nonce(struct link_port *p, uint32_t nonce)
{
	if (nonce != p->self.nonce && p->peers)
		return -EBUSY;
	p->self.nonce = nonce;
	return 0;
}

const struct link_addr *link_port_addr(const struct link_port *p)
{
	return &p->self;
}

const struct link_stats *link_port_stats(const struct link_port *p)
{
	return &p->stats;
}

struct link_stats *fake_stats(struct link_port *p)
{
	return &p->stats;
}

uint64_t link_next_deadline(struct link_port *p)
{
	return CLK_NEVER;
}

int link_wait_fd(struct link_port *p)
{
	return -ENOTSUP;
}

bool link_calm(struct link_port *p, struct calm *c, uint32_t passed)
{
	(void)p, (void)c, (void)passed;
	return false;
}

int link_arm(struct link_port *p)
{
	return 0;
}

bool link_is_armed(const struct link_port *p)
{
	return false;
}

/* --- frames --- */

static int show(struct link_port *to, const struct link_addr *from, const uint8_t *buf, size_t len)
{
	struct link_peer *peer = peer_of(to, from);
	int rc;

	to->stats.rx_frames++;
	rc = to->ops->on_frame(to->ctx, peer, buf, (uint32_t)len);
	link_peer_put(peer);
	must(rc >= 0 && rc <= LINK_NAK_MAX);
	return rc;
}

void fake_gone(struct link_port *to, const struct link_addr *from, int status)
{
	struct link_peer *peer = peer_of(to, from);

	to->ops->on_gone(to->ctx, peer, status);
	link_peer_put(peer);
}

int fake_inject(struct link_port *to, const struct link_addr *from, const void *buf, size_t len)
{
	uint8_t *exact = zalloc(len ? len : 1); /* so that a sanitizer sees the frame's end */
	int rc;

	memcpy(exact, buf, len);
	rc = show(to, from, exact, len);
	free(exact);
	return rc;
}

static struct item *item_add(struct link_port *p, struct link_peer *peer, size_t buf_len,
			     void *cookie)
{
	struct item *it = zalloc(sizeof(*it) + buf_len), **link = &g_items;

	it->from = p;
	it->peer = peer;
	peer->refs++;
	it->cookie = cookie;
	it->len = buf_len;
	while (*link)
		link = &(*link)->next;
	*link = it;
	return it;
}

int link_send(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len,
	      const struct iovec *iov, int iov_cnt, void *cookie)
{
	struct item *it;
	size_t len = hdr_len;

	must(hdr_len <= LINK_HDR_MAX && iov_cnt <= LINK_IOV_MAX && peer->port == p);
	g_fake.sends++;
	g_fake.borrowed += g_fake.is_borrowing;
	if (take(&g_fake.send_rc_cnt))
		return g_fake.send_rc;
	for (int i = 0; i < iov_cnt; i++)
		len += iov[i].iov_len;
	must(len <= LINK_FRAME_MAX);
	p->stats.tx_frames++;
	p->stats.net_tx_frames += g_fake.is_remote;
	it = item_add(p, peer, len, cookie);
	it->wants_verdict = p->cls != LINK_RAW && cookie;
	memcpy(it->buf, hdr, hdr_len);
	len = hdr_len;
	for (int i = 0; i < iov_cnt; i++) {
		memcpy(it->buf + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	if (take(&g_fake.verdict_cnt)) {
		it->is_done = true;
		it->verdict = g_fake.verdict;
		if (g_fake.is_sync)
			item_end(it, it->verdict);
	}
	return 0;
}

/* Every local frame may be refused and nothing has a lane here: the frame lies in an item from the beginning. */
static struct item *g_direct;

int link_send_late(struct link_port *p, struct link_peer *peer, const void *hdr, size_t hdr_len)
{
	g_fake.lates++;
	return link_send(p, peer, hdr, hdr_len, NULL, 0, NULL);
}

uint8_t *link_begin(struct link_port *p, struct link_peer *peer, enum link_class cls, size_t len)
{
	must(len <= LINK_FRAME_MAX && peer->port == p && cls == p->cls);
	if (!g_fake.has_direct)
		return NULL;
	free(g_direct);
	g_direct = zalloc(sizeof(*g_direct) + len);
	return g_direct->buf;
}

bool link_is_full(const struct link_peer *peer)
{
	(void)peer;
	return g_fake.is_full;
}

void link_commit(struct link_port *p, struct link_peer *peer, enum link_class cls, uint8_t *frame, size_t len,
		 void *cookie, uint64_t tag)
{
	struct item *it = item_add(p, peer, len, cookie);

	must(cls == p->cls);
	g_fake.directs++;
	it->is_direct = !cookie;
	it->wants_verdict = true;
	it->tag = tag;
	p->stats.tx_frames++;
	memcpy(it->buf, frame, len);
	free(g_direct);
	g_direct = NULL;
	if (take(&g_fake.verdict_cnt)) {
		it->is_done = true;
		it->verdict = g_fake.verdict;
	}
}

bool link_is_idle(const struct link_port *p)
{
	for (const struct item *it = g_items; it; it = it->next)
		if (it->from == p && it->is_direct)
			return false;
	return true;
}

const uint8_t *link_fork_mark(const struct link_node *n)
{
	(void)n;
	return NULL;
}

void link_doorbell(struct link_port *p)
{
	g_fake.doorbells++;
}

void link_borrow(struct link_port *p)
{
	must(!g_fake.is_borrowing);
	g_fake.is_borrowing = true;
}

void link_borrow_end(struct link_port *p)
{
	must(g_fake.is_borrowing);
	g_fake.is_borrowing = false;
}

/* --- bulk --- */

void link_port_shut(struct link_port *p, bool is_shut)
{
	p->is_shut = is_shut;
}

void link_port_settle(struct link_port *p)
{
	(void)p;
}

int link_group_region_add(struct link_node *n, uint32_t group, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	struct region *r;

	if (g_fake.region_rc)
		return g_fake.region_rc;
	r = zalloc(sizeof(*r));
	*r = (struct region){(uintptr_t)addr, len, rights, ++g_key, group, g_regions};
	g_regions = r;
	g_fake.regions++;
	*key = r->key;
	return 0;
}

int link_port_region_add(struct link_port *p, void *addr, size_t len, unsigned rights, uint32_t *key)
{
	(void)p;
	return link_region_add(NULL, addr, len, rights, key);
}

bool link_region_is_spoilt(const struct link_node *n, uint32_t key)
{
	(void)n;
	(void)key;
	return false;
}

void link_region_del(struct link_node *n, uint32_t key)
{
	struct region **link = &g_regions, *r;

	while ((*link)->key != key)
		link = &(*link)->next;
	r = *link;
	*link = r->next;
	g_fake.regions--;
	free(r);
}

void link_node_served(const struct link_node *n, uint64_t *get_bytes, uint64_t *put_bytes)
{
	*get_bytes = g_served.get;
	*put_bytes = g_served.put;
}

static int bulk_copy(const struct item *it)
{
	struct link_port *to = port_at(&it->peer->addr);
	struct region *r = g_regions;

	if (!to)
		return -ECONNREFUSED;
	if (to->is_shut)
		return -ENOTCONN;
	while (r && r->key != it->key)
		r = r->next;
	if (!r || !(r->rights & (unsigned)it->op) || it->raddr < r->addr || it->len > r->len ||
	    it->raddr - r->addr > r->len - it->len || (r->group && r->group != to->group))
		return -EACCES;
	*(it->op == LINK_GET ? &g_served.get : &g_served.put) += it->len;
	if (it->op == LINK_GET)
		memcpy(it->local, (void *)(uintptr_t)it->raddr, it->len);
	else
		memcpy((void *)(uintptr_t)it->raddr, it->local, it->len);
	if (it->op == LINK_PUT)
		to->written += it->len;
	return 0;
}

void fake_write(struct link_port *to, uint64_t len)
{
	to->written += len;
}

/* Of all peers together. */
bool link_peer_wrote(const struct link_peer *peer, uint64_t len)
{
	return len <= peer->port->written;
}

void link_peer_told(struct link_peer *peer, uint64_t len)
{
	must(len <= peer->port->written);
	peer->port->written -= len;
}

bool link_bulk_is_direct(const struct link_peer *peer)
{
	return link_peer_is_local(peer);
}

void link_offer_missed(struct link_port *p, struct link_peer *peer, uint32_t key) {}

void link_offer(struct link_port *p, struct link_peer *peer, uint32_t key, uint64_t addr, size_t len) {}

int link_bulk(struct link_port *p, struct link_peer *peer, int op, void *local, size_t len,
	      uint64_t raddr, uint32_t key, void *cookie)
{
	struct item *it;

	g_fake.bulks++;
	if (take(&g_fake.bulk_rc_cnt))
		return g_fake.bulk_rc;
	it = item_add(p, peer, 0, cookie);
	it->is_bulk = true;
	it->wants_verdict = true;
	it->op = op;
	it->local = local;
	it->len = len;
	it->raddr = raddr;
	it->key = key;
	if (take(&g_fake.bulk_verdict_cnt)) {
		it->is_done = true;
		it->verdict = g_fake.bulk_verdict;
	}
	if (g_fake.is_sync)
		item_end(it, it->is_done ? it->verdict : bulk_copy(it));
	return 0;
}

bool link_bulk_stop(struct link_port *p, const void *cookie)
{
	if (take(&g_fake.stop_busy_cnt))
		return false;
	for (struct item *it = g_items; it; it = it->next) {
		if (it->from != p || !it->is_bulk || it->cookie != cookie || it->is_done)
			continue;
		it->is_done = true;
		it->verdict = -EFAULT;
	}
	return true;
}

/* --- progress --- */

/* One frame that is for @p; it stays in the list as a verdict. */
static bool step_in(struct link_port *p)
{
	struct item *it = g_items;

	while (it && (it->is_bulk || it->is_done || port_at(&it->peer->addr) != p))
		it = it->next;
	if (!it)
		return false;
	it->is_done = true; /* before: the callback may poll */
	it->verdict = show(p, &it->from->self, it->buf, it->len);
	return true;
}

/* One end of something that @p began. */
static bool step_out(struct link_port *p)
{
	struct item *it = g_items;

	while (it && !(it->from == p && (it->is_done || it->is_bulk || !port_at(&it->peer->addr))))
		it = it->next;
	if (!it)
		return false;
	if (it->is_done)
		item_end(it, it->verdict);
	else
		item_end(it, it->is_bulk ? bulk_copy(it) : -ECONNREFUSED);
	return true;
}

int link_poll(struct link_port *p)
{
	int n = 0;

	g_fake.polls++;
	if (g_fake.hold)
		return 0;
	while (n < 64 && step_in(p))
		n++;
	while (n < 128 && step_out(p))
		n++;
	return n;
}
