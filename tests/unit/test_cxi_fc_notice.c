// SPDX-License-Identifier: BSD-2-Clause
// Flow control whose senders say what is not true, do not tell, or have gone.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cxi_fc_world.h"

/* b alone is at work until it has refused a message. */
static void await_disabled(const struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (state_of(w) != CXI_RXC_FLOW_CONTROL) {
		look(&w->b);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* A notice of @cnt refusals of who has @pid on this host. */
static void notice(const struct world *w, uint16_t pid, unsigned cnt)
{
	struct cxi_portal *p = w->r->portal[0];
	uint32_t nic = domain_of(&w->b)->info.nic;
	struct cassini_event ev = {
		.type = CASSINI_EV_PUT,
		.rc = CASSINI_RC_OK,
		.initiator = CASSINI_MATCH_ID(pid, nic),
		.vni = cassini_dom_vni(p->dom[0]),
		.match_bits = cxi_sh_ctrl(CXI_CTRL_FC_NOTIFY, 3, 0, cnt),
		.dom = p->dom[0],
	};

	lock_acquire(w->lock);
	ev.life = cassini_peer_life(p->dom[0], nic, pid);
	cxi_fc_notified(w->r, p, &ev);
	lock_release(w->lock);
}

/* A receiver counts what it has refused, not what anybody says. */
static void notice__of_more_than_is_true(void **state)
{
	struct world w;
	uint16_t pid;
	char in[8];

	(void)state;
	world_open(&w, "hardware", false);
	pid = cxi_ep_of(w.a.e.ep)->portal->pid;
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	notice(&w, (uint16_t)(pid ^ 1), 1000);
	notice(&w, (uint16_t)(pid ^ 2), 1);
	assert_int_equal(state_of(&w), CXI_RXC_FLOW_CONTROL);
	notice(&w, pid, 0xffff);
	entries_allow(&w, 1);
	trecv(&w, in, sizeof(in), TAG);
	await_message(&w, TAG);
	world_close(&w);
}

/* As if b had refused @cnt more of what a has sent. Lock of b held. */
static void refuse_more(const struct world *w, int cnt)
{
	struct cassini_dom *dom = w->r->portal[0]->dom[0];

	assert_int_equal(dom->peer_cnt, 1);
	for (uint32_t i = 0; i <= dom->peer_mask; i++)
		for (int k = 0; k < cnt && dom->peer_tab[i]; k++)
			cassini_drops_add(w->r->pte, dom->peer_tab[i]);
	w->r->pte->drop_count = (w->r->pte->drop_count + (uint32_t)cnt) & 0xffffff;
}

static void await_enabled(const struct world *w)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;

	while (state_of(w) != CXI_RXC_ENABLED) {
		look(&w->a);
		look(&w->b);
		assert_true(clk_now_ns(NULL) < until);
	}
}

/* More than there is room for in one notice: all are told of. */
static void notice__of_very_many(void **state)
{
	enum { CNT = 70000 };
	struct cassini_cmd cmd;
	struct world w;

	(void)state;
	world_open(&w, "hardware", false);
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	cmd = (struct cassini_cmd){.opcode = CASSINI_OP_PUT, .nic = domain_of(&w.b)->info.nic,
				   .pid = w.r->portal[0]->pid, .dom = cxi_ep_of(w.a.e.ep)->portal->dom[0]};
	lock_acquire(w.lock);
	refuse_more(&w, CNT);
	lock_release(w.lock);
	lock_acquire(&domain_of(&w.a)->kit.lock);
	for (int k = 0; k < CNT; k++)
		cxi_send_lost(cxi_ep_of(w.a.e.ep)->txc, &cmd, CASSINI_RC_PT_DISABLED);
	lock_release(&domain_of(&w.a)->kit.lock);
	await_enabled(&w);
	side_close(&w.b); /* else the other one waits until all have been taken */
	side_close(&w.a);
}

/* Some were refused of which the sender knows no more than that there are such: it is not left apart for ever. */
static void notice__of_more_than_is_known(void **state)
{
	struct world w;
	char in[8];

	(void)state;
	world_open(&w, "hardware", false);
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	lock_acquire(w.lock);
	refuse_more(&w, 3);
	lock_release(w.lock);
	lock_acquire(&domain_of(&w.a)->kit.lock);
	cxi_fc_miscounted(cxi_ep_of(w.a.e.ep)->portal);
	lock_release(&domain_of(&w.a)->kit.lock);
	await_enabled(&w);
	assert_int_equal(apart(&w), 0);
	entries_allow(&w, 8);
	trecv(&w, in, sizeof(in), TAG);
	await_message(&w, TAG);
	world_close(&w);
}

/* @c sends as well, and is heard although the other sender has gone. */
static void another_is_heard(struct world *w, struct side *c)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	bool is_posted = false;
	char in[8] = "";
	ssize_t ret;

	assert_int_equal(fi_tsend(c->e.ep, "xyz", 3, NULL, 1, TAG, NULL), 0);
	entries_allow(w, 8);
	while ((ret = fi_cq_read(w->b.e.cq, &entry, 1)) == -FI_EAGAIN) {
		look(c);
		if (!is_posted)
			is_posted = !fi_trecv(w->b.e.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_int_equal(ret, 1);
	assert_memory_equal(in, "xyz", 3);
}

static void side_open(const struct world *w, struct side *c)
{
	struct cxi_addr to;
	size_t len = sizeof(to);

	cxi_fix_open(&c->f);
	cxi_fix_ep_open(&c->e, &c->f);
	assert_int_equal(fi_getname(&w->b.e.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(c->e.av, &to, 1, NULL, 0, NULL), 1);
}

/* What was refused of one context is told of by nobody; the other one of the same process is heard all the same. */
static void gone__a_context_before_it_tells(void **state)
{
	uint64_t until = clk_now_ns(NULL) + WAIT_NS;
	struct fi_cq_tagged_entry entry;
	struct fid_ep *tx[2];
	struct cxi_addr to;
	size_t len = sizeof(to);
	struct world w;
	struct side c;
	char in[8] = "";

	(void)state;
	world_open(&w, "hardware", false);
	cxi_fix_sep_open(&c.f, &c.e, tx);
	assert_int_equal(fi_getname(&w.b.e.ep->fid, &to, &len), 0);
	assert_int_equal(fi_av_insert(c.e.av, &to, 1, NULL, 0, NULL), 1);
	assert_int_equal(fi_tsend(tx[0], "abc", 3, NULL, 0, TAG, NULL), 0);
	await_disabled(&w);
	assert_int_equal(fi_close(&tx[0]->fid), 0);
	assert_int_equal(fi_tsend(tx[1], "xyz", 3, NULL, 0, TAG, NULL), 0);
	entries_allow(&w, 8);
	while (fi_trecv(w.b.e.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, TAG, 0, NULL) == -FI_EAGAIN) {
		look(&c);
		look(&w.b);
		assert_true(clk_now_ns(NULL) < until);
	}
	while (fi_cq_read(w.b.e.cq, &entry, 1) != 1) {
		look(&c);
		assert_true(clk_now_ns(NULL) < until);
	}
	assert_memory_equal(in, "xyz", 3);
	assert_int_equal(apart(&w), 0);
	assert_int_equal(fi_close(&tx[1]->fid), 0);
	side_close(&c);
	world_close(&w);
}

static void gone__closed_before_it_tells(void **state)
{
	struct world w;
	struct side c;

	(void)state;
	world_open(&w, "hardware", false);
	side_open(&w, &c);
	tsend(&w, "abc", TAG);
	await_disabled(&w);
	side_close(&w.a);
	another_is_heard(&w, &c);
	side_close(&c);
	side_close(&w.b);
}

/* It lives and computes. The others do not wait for it, and what it has sent comes when it looks at its endpoint. */
static void quiet__lives_and_does_not_tell(void **state)
{
	struct world w;
	struct side c;
	char in[8];

	(void)state;
	world_open(&w, "hardware", false);
	side_open(&w, &c);
	tsend(&w, "abc", TAG + 1);
	await_disabled(&w);
	another_is_heard(&w, &c);
	assert_int_equal(apart(&w), 1);
	trecv(&w, in, sizeof(in), TAG + 1);
	await_message(&w, TAG + 1);
	assert_memory_equal(in, "abc", 3);
	assert_int_equal(apart(&w), 0);
	side_close(&c);
	world_close(&w);
}

/* A process that sends to who says through @fd where it is, and lives until it is killed. */
static void child_run(int fd)
{
	struct cxi_addr to;
	struct side c;

	cxi_fix_open(&c.f);
	cxi_fix_ep_open(&c.e, &c.f);
	if (read(fd, &to, sizeof(to)) != sizeof(to) || fi_av_insert(c.e.av, &to, 1, NULL, 0, NULL) != 1 ||
	    fi_tsend(c.e.ep, "abc", 3, NULL, 1, TAG, NULL))
		_exit(1);
	for (;;)
		pause();
}

/* Nothing of ours is under way to it that would tell us. */
static void gone__killed_before_it_tells(void **state)
{
	struct cxi_addr to;
	size_t len = sizeof(to);
	struct world w;
	struct side c;
	int fd[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fd), 0);
	pid = unit_fork();
	assert_true(pid >= 0);
	if (!pid) {
		child_run(fd[0]);
		_exit(1);
	}
	world_open(&w, "hardware", false);
	assert_int_equal(fi_getname(&w.b.e.ep->fid, &to, &len), 0);
	assert_int_equal(write(fd[1], &to, sizeof(to)), sizeof(to));
	await_disabled(&w);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	side_open(&w, &c); /* which removes the files that the other one has left */
	another_is_heard(&w, &c);
	side_close(&c);
	world_close(&w);
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notice__of_more_than_is_true),
		cmocka_unit_test(notice__of_very_many),
		cmocka_unit_test(notice__of_more_than_is_known),
		cmocka_unit_test(quiet__lives_and_does_not_tell),
		cmocka_unit_test(gone__a_context_before_it_tells),
		cmocka_unit_test(gone__closed_before_it_tells),
		cmocka_unit_test(gone__killed_before_it_tells),
	};

	return cmocka_run_group_tests(tests, cxi_fix_init, NULL);
}
