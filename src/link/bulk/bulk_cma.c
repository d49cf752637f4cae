// SPDX-License-Identifier: BSD-2-Clause
// The method that lets the kernel copy between this process and another one (cross memory attach); the other one need
// not run.
#include <sys/uio.h>

#include "link/bulk/bulk_int.h"

#include <errno.h>
#include <string.h>

#define ALIVE_NS (10 * NS_PER_MS) /* a pid is not reused so soon */

ssize_t bulk_cma_copy(pid_t pid, int op, const struct bulk_guard *g, void *local, uint64_t raddr, size_t len)
{
	uint64_t token = g && op != LINK_GET ? g->token : 0;
	struct iovec l[] = {{&token, sizeof(token)}, {local, len}};
	struct iovec r[] = {{(void *)(uintptr_t)(g ? g->at : 0), sizeof(token)}, {(void *)(uintptr_t)raddr, len}};
	unsigned from = !g;
	ssize_t n, head = g ? sizeof(token) : 0;

	n = op == LINK_GET ? process_vm_readv(pid, l + from, 2 - from, r + from, 2 - from, 0)
			   : process_vm_writev(pid, l + from, 2 - from, r + from, 2 - from, 0);
	if (n < 0)
		return g && errno == EFAULT ? -ESTALE : -errno;
	if (n < head || (g && token != g->token))
		return -ESTALE;
	return n > head ? n - head : -EFAULT;
}

static bool target_is_alive(struct bulk_port *b, struct bulk_target *t)
{
	if (b->last_ns - t->alive_ns < ALIVE_NS)
		return true;
	if (!bulk_tab_owner_is_alive(t->tab))
		return false;
	t->alive_ns = b->last_ns;
	return true;
}

/* The kernel refused a copy; -EAGAIN: go on, by frames or later. */
static int cma_failed(struct bulk_port *b, struct bulk_op *op, int rc, uint64_t guard_at)
{
	switch (rc) {
	case -ESRCH:
		return -ECONNREFUSED;
	case -ESTALE: /* it has moved its guard, or another image runs there: then its locks are gone */
		op->target->alive_ns = 0;
		if (!bulk_tab_owner_is_alive(op->target->tab))
			return -ECONNREFUSED;
		if (bulk_tab_guard(op->target->tab).at != guard_at)
			return -EAGAIN;
		break;
	case -EFAULT: /* the region is registered, but its memory is not there (any more) */
		LOG_WARN("region %#x of the peer, or the local buffer, is not mapped", op->key);
		return -EACCES;
	case -EINTR:
	case -ENOMEM:
		return -EAGAIN;
	}
	LOG_INFO("cross memory attach to a process on this host fails: %s; not used for it", strerror(-rc));
	op->target->no_cma = true;
	return bulk_op_again(b, op);
}

/*
 * A lease on the region of @op, for peers of the port that it names. What that port serves is asked before, too: who
 * waits for our leases shall not meet new ones.
 */
static int lease_get(struct bulk_op *op)
{
	struct bulk_target *t = op->target;
	const struct shm_peer *sp = op->peer->shm;
	uint16_t port = op->peer->addr.port;
	int rc;

	if (shm_peer_serves(sp) == LINK_SHUT)
		return -ENOTCONN;
	rc = bulk_lease_take(t->tab, t->slot, port, op->key, op->op, op->raddr, op->len);
	if (rc)
		return rc;
	rc = bulk_lease_admits(t->tab, t->slot, port, shm_peer_serves(sp));
	if (rc)
		bulk_lease_drop(t->tab, t->slot);
	return rc;
}

int64_t bulk_cma_move(struct bulk_port *b, struct bulk_op *op, uint64_t turn_len)
{
	struct bulk_target *t = op->target;
	uint64_t len = MIN(op->copy_end - op->pos, turn_len);
	struct bulk_guard guard;
	ssize_t n = 0;
	int rc;

	if (!target_is_alive(b, t))
		return -ECONNREFUSED;
	guard = bulk_tab_guard(t->tab); /* first: when a lease is broken the key has gone, and then the guard moves */
	rc = lease_get(op);
	if (rc == -ENOENT) { /* not in the shared table: the owner knows */
		op->no_cma = true;
		return bulk_op_again(b, op);
	}
	if (rc) {
		bulk_tell_refused(b->node, "this process", rc, op->key, op->op, op->raddr, op->len);
		return rc;
	}
	if (len)
		n = bulk_cma_copy(shm_peer_pid(op->peer->shm), op->op, &guard, op->local + op->pos, op->raddr + op->pos,
				  len);
	if (n > 0 && op->is_help)
		bulk_lease_fill(t->tab, t->slot, op->key, op->pos + (uint64_t)n);
	else if (n > 0)
		bulk_lease_note(t->tab, t->slot, op->op, (uint64_t)n);
	rc = bulk_lease_drop(t->tab, t->slot);
	if (n < 0)
		return cma_failed(b, op, (int)n, guard.at);
	if (rc) /* broken, for the region or for the port */
		return shm_peer_serves(op->peer->shm) == LINK_SHUT ? -ENOTCONN : rc;
	op->pos += (uint64_t)n;
	b->port->stats.bulk_cma_bytes += (uint64_t)n;
	op->copied_ns = bulk_now(b);
	bulk_busy_moved(op, op->copied_ns);
	return n;
}

/* --- the method ------------------------------------------------------------------------------- */

static void cma_start(struct bulk_port *b, struct bulk_op *op, uint64_t now_ns)
{
	bulk_busy_enter(op, now_ns);
}

static int64_t cma_turn(struct bulk_port *b, struct bulk_op *op, uint64_t len)
{
	int64_t rc = bulk_cma_move(b, op, len);

	if (rc < 0 || op->pos < op->copy_end)
		return rc;
	if (op->op == LINK_GET || op->got == op->sent)
		bulk_op_end(b, op, 0);
	else /* frames sent before the change of method are still to be answered */
		bulk_op_wait(b, op, bulk_now(b));
	return rc;
}

const struct bulk_method bulk_cma_method = {
	.start = cma_start,
	.turn = cma_turn,
	.reply = bulk_frames_answered,
	.keep_len = BULK_KEEP_LEN,
};
