// SPDX-License-Identifier: BSD-2-Clause
// A unit opened by this process: the link node, the adapter thread's turn, the clock, the port's state.
#include "nic/hfi/hfi_int.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "nic/hfi/hfi_addr.h"

#define SDMA_RETRY_NS (50 * NS_PER_US) /* of the adapter thread, when a path was full */

/* The adapter thread's turn. */
static void service(void *ctx)
{
	struct hfi *hfi = ctx;

	for (struct hfi_ctxt *c = hfi->ctxts; c; c = c->next) {
		if (c->is_closing)
			continue;
		hfi_sdma_step(c);
		link_poll(c->claim.port);
	}
}

static uint64_t next_deadline(void *ctx)
{
	const struct hfi *hfi = ctx;

	for (const struct hfi_ctxt *c = hfi->ctxts; c; c = c->next)
		if (c->sdma.head != SDMA_NONE)
			return link_now_ns(hfi->node) + SDMA_RETRY_NS;
	return CLK_NEVER;
}

static int node_open(struct hfi *hfi)
{
	struct link_node_attr attr = {
		.lock = hfi->lock,
		.room = hfi->room,
		.service = service,
		.next_deadline = next_deadline,
		.tell = hfi_stats_tell,
		.ctx = hfi,
		.no_thread = hfi->open.no_thread,
		.world = hfi->open.world,
	};
	int rc = link_node_open(&attr, &hfi->node);

	if (!rc)
		hfi->opened_ns = link_now_ns(hfi->node);
	return rc;
}

/* The unit, the room and the map of LIDs. */
static int unit_read(struct hfi *hfi)
{
	char err[256] = "no such unit";
	int rc = hfi_unit_query(hfi->open.unit, &hfi->attr);

	if (!rc)
		rc = link_room_get(&hfi->room, err, sizeof(err));
	if (!rc)
		rc = hostpart_init(&hfi->map, &hfi_lid_kind, hfi->room, hfi->attr.ip, err, sizeof(err));
	if (rc)
		LOG_WARN("hfi1_%d: %s", hfi->open.unit, err);
	return rc;
}

int hfi_open(const struct hfi_open_attr *attr, struct hfi **out)
{
	struct hfi *hfi = mem_alloc(sizeof(*hfi));
	int rc;

	if (!hfi)
		return -ENOMEM;
	hfi->lock = attr->lock;
	hfi->open = *attr;
	rc = unit_read(hfi);
	if (rc)
		goto err_free;
	rng_seed(&hfi->rng, attr->world ? hfi->room->seed : rng_entropy());
	rc = slab_init(&hfi->dsts, sizeof(struct hfi_dst), CACHE_LINE, 64, 0);
	if (!rc)
		rc = node_open(hfi);
	if (rc)
		goto err_free;
	*out = hfi;
	return 0;
err_free:
	mem_free(hfi);
	return rc;
}

void hfi_close(struct hfi *hfi)
{
	if (!hfi)
		return;
	assert(!hfi->ctxts);
	nic_stats_end(hfi->node, hfi->lock, hfi_stats_tell, hfi);
	link_node_close(hfi->node);
	slab_fini(&hfi->dsts);
	mem_free(hfi);
}

const struct hfi_unit_attr *hfi_attr(const struct hfi *hfi)
{
	return &hfi->attr;
}

void hfi_idle(struct hfi *hfi)
{
	link_idle(hfi->node);
}

bool hfi_forked(const struct hfi *hfi)
{
	return link_forked(hfi->node);
}

const uint8_t *hfi_fork_mark(const struct hfi *hfi)
{
	return link_fork_mark(hfi->node);
}

uint64_t hfi_now_ns(const struct hfi *hfi)
{
	return link_now_ns(hfi->node);
}

uint64_t hfi_random(struct hfi *hfi)
{
	return rng_u64(&hfi->rng);
}

uint64_t hfi_dead_after_ns(const struct hfi *hfi)
{
	return hfi->room->dead_after_ns;
}

uint64_t hfi_linger_ns(const struct hfi *hfi)
{
	return hfi->room->linger_ns;
}

bool hfi_port_is_up(const struct hfi *hfi)
{
	uint64_t age;

	if (hfi->attr.state != HFI_PORT_ACTIVE)
		return false;
	if (likely(!hfi->attr.down_ns[1]))
		return true;
	age = link_now_ns(hfi->node) - hfi->opened_ns;
	return age < hfi->attr.down_ns[0] || age >= hfi->attr.down_ns[1];
}
