// SPDX-License-Identifier: BSD-2-Clause
// One soft adapter in one process: its clock and randomness, opening and closing.
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "link/core/link_int.h"

uint64_t link_now_ns(const struct link_node *n)
{
	return clk_now_ns(&n->clk);
}

static void node_free(struct link_node *n)
{
	fork_mark_close(n->fork_mark);
	host_addrs_close(n->host);
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
	n->agent_start = agent_start;
	node_seed(n);
	n->host = host_addrs_open();
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
