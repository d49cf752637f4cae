// SPDX-License-Identifier: BSD-2-Clause
// One soft adapter in one process: its clock, randomness, fork check, and what it knows of this
// host.
#include <errno.h>
#include <ifaddrs.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/core/link_int.h"

#define HOST_REFRESH_NS NS_PER_SEC

/* The addresses of this host outside 127/8, as of the last look. */
struct host_addrs {
	uint64_t read_ns;
	uint32_t cnt, cap;
	uint8_t (*ip)[16];
};

/* --- addresses ------------------------------------------------------------------------------- */

const char *link_addr_text(const struct link_addr *a, char out[LINK_ADDR_TEXT])
{
	char ip[LINK_IP_TEXT];

	snprintf(out, LINK_ADDR_TEXT, link_ip_is_v4(a->ip) ? "%s:%u" : "[%s]:%u",
		 link_ip_text(a->ip, ip), a->port);
	return out;
}

static void host_add(struct host_addrs *h, const uint8_t ip[16])
{
	uint8_t(*grown)[16];

	if (h->cnt == h->cap) {
		grown = mem_alloc(sizeof(*grown) * MAX(16u, 2 * h->cap));
		if (!grown)
			return; /* an address less: its peers go by UDP */
		memcpy(grown, h->ip, sizeof(*grown) * h->cnt);
		mem_free(h->ip);
		h->ip = grown;
		h->cap = MAX(16u, 2 * h->cap);
	}
	memcpy(h->ip[h->cnt++], ip, 16);
}

static void host_read(struct host_addrs *h)
{
	struct ifaddrs *all;
	uint8_t ip[16];

	if (getifaddrs(&all))
		return;
	h->cnt = 0;
	for (struct ifaddrs *i = all; i; i = i->ifa_next)
		if (link_ip_of(i->ifa_addr, ip))
			host_add(h, ip);
	freeifaddrs(all);
}

static bool host_find(const struct host_addrs *h, const uint8_t ip[16])
{
	for (uint32_t i = 0; i < h->cnt; i++)
		if (!memcmp(h->ip[i], ip, 16))
			return true;
	return false;
}

bool host_ip_is_local(struct link_node *n, const uint8_t ip[16])
{
	struct host_addrs *h = n->host;
	uint64_t now;

	if (link_ip_is_loopback(ip))
		return true;
	if (!h)
		return false;
	if (host_find(h, ip))
		return true;
	now = clk_now_ns(&n->clk);
	if (h->read_ns && now - h->read_ns < HOST_REFRESH_NS)
		return false;
	h->read_ns = now;
	host_read(h);
	return host_find(h, ip);
}

/* --- open and close -------------------------------------------------------------------------- */

/* A page that the kernel clears in every child, however it was made; one load tells parent from
 * child. */
static volatile uint8_t *fork_mark_open(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (madvise(p, len, MADV_WIPEONFORK)) {
		munmap(p, len);
		return NULL;
	}
	*(volatile uint8_t *)p = 1;
	return p;
}

bool link_forked(const struct link_node *n)
{
	return n->fork_mark ? !*n->fork_mark : n->owner_pid != getpid();
}

const volatile uint8_t *link_fork_mark(const struct link_node *n)
{
	return n->fork_mark;
}

uint64_t link_now_ns(const struct link_node *n)
{
	return clk_now_ns(&n->clk);
}

static void node_free(struct link_node *n)
{
	if (n->fork_mark)
		munmap((void *)(uintptr_t)n->fork_mark, (size_t)sysconf(_SC_PAGESIZE));
	if (n->host)
		mem_free(n->host->ip);
	mem_free(n->host);
	mem_free(n);
}

static void node_seed(struct link_node *n)
{
	uint64_t seed = n->room->seed;

	if (!seed) {
		seed = rng_entropy();
		if (n->room->has_faults)
			LOG_INFO("faults are drawn with seed=%llu", (unsigned long long)seed);
	}
	rng_seed(&n->rng, seed);
}

int link_node_open(const struct link_node_attr *attr, struct link_node **out)
{
	struct link_node *n = mem_alloc(sizeof(*n));
	cpu_set_t cpus;
	int rc = -ENOMEM;

	if (!n)
		return -ENOMEM;
	n->attr = *attr;
	n->lock = attr->lock;
	n->room = attr->room;
	n->owner_pid = getpid();
	n->fork_mark = fork_mark_open();
	n->lossless = !n->room->has_faults && !n->room->pcap[0];
	n->cpu_cnt = sched_getaffinity(0, sizeof(cpus), &cpus) ? 1 : (uint32_t)CPU_COUNT(&cpus);
	if (attr->world) {
		n->clk.virt_ns = attr->world->now_ns;
		n->attr.no_thread = true;
	}
	node_seed(n);
	n->host = mem_alloc(sizeof(*n->host));
	if (!n->host)
		goto err_free;
	rc = bulk_node_open(n, &n->bulk);
	if (rc)
		goto err_free;
	*out = n;
	return 0;

err_free:
	node_free(n);
	return rc;
}

void link_node_close(struct link_node *n)
{
	if (!n || link_forked(n)) /* what a child inherited belongs to its parent */
		return;
	agent_stop(n);
	lock_acquire(n->lock);
	while (n->ports)
		link_port_close(n->ports);
	bulk_node_close(n->bulk);
	lock_release(n->lock);
	node_free(n);
}

int link_port_holder(const uint8_t ip[16], uint16_t port)
{
	struct link_addr addr = {.port = port};

	memcpy(addr.ip, ip, sizeof(addr.ip));
	return shm_addr_pid(&addr);
}

int link_port_user(const uint8_t ip[16], uint16_t port, uint32_t *uid)
{
	return link_ip_user(ip, port, uid);
}
