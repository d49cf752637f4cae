// SPDX-License-Identifier: BSD-2-Clause
// Life of objects: orders of closing, many endpoints, fork, exit without close, loading and unloading.
#include "conform.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Everything in use says -FI_EBUSY; what nobody uses any more closes, in any order. */
static void life_busy(struct ct *c)
{
	ct_open(c);
	RET(-FI_EBUSY, fi_close(&c->domain->fid));
	RET(-FI_EBUSY, fi_close(&c->fabric->fid));
	RET(-FI_EBUSY, fi_close(&c->txcq->fid));
	RET(-FI_EBUSY, fi_close(&c->rxcq->fid));
	RET(-FI_EBUSY, fi_close(&c->av->fid));
	OK(fi_close(&c->ep->fid));
	RET(-FI_EBUSY, fi_close(&c->domain->fid));
	OK(fi_close(&c->av->fid));
	OK(fi_close(&c->rxcq->fid));
	RET(-FI_EBUSY, fi_close(&c->domain->fid));
	OK(fi_close(&c->txcq->fid));
	OK(fi_close(&c->domain->fid));
	OK(fi_close(&c->fabric->fid));
	fi_freeinfo(c->info);
}

/* Open and close a hundred times in one process, with a message each time. */
static void life_again(struct ct *c)
{
	for (unsigned i = 0; i < 30; i++) {
		uint8_t mem[100];

		ct_open(c);
		struct ct_msg m = {.addr = c->rank ? FI_ADDR_UNSPEC : c->peer, .ctx = &c->ctx[0], .mem = mem,
				   .len = sizeof(mem)};
		if (c->rank) {
			ct_recv(c, &m);
			ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, sizeof(mem));
			ct_verify(c, mem, sizeof(mem), i, "in a new life");
		} else {
			ct_fill(mem, sizeof(mem), i);
			ct_send(c, &m);
			ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		}
		ct_close(c);
	}
}

/* Sends to one who has left end, whether it took them before or not. */
static void sends_end(struct ct *c, unsigned cnt, uint64_t within_ms)
{
	uint64_t until = ct_now_ms() + (uint64_t)((double)within_ms * c->slow);

	for (unsigned ended = 0; ended < cnt;) {
		struct fi_cq_err_entry e = {0};
		struct fi_cq_tagged_entry t;
		ssize_t ret = fi_cq_read(c->txcq, &t, 1);

		CHECK(ct_now_ms() < until, "%u of %u sends ended", ended, cnt);
		if (ret == -FI_EAVAIL)
			RET(1, fi_cq_readerr(c->txcq, &e, 0));
		ended += ret == 1 || ret == -FI_EAVAIL;
	}
}

/* Closing with receives posted and messages unread; and unexpected messages of every protocol. */
static void life_pending(struct ct *c)
{
	static const size_t len[] = {10, 8000, 50000, 300000, 1500000};
	static uint8_t big[2][1500000], in[2][100];

	ct_open(c);
	for (unsigned i = 0; i < 5; i++) {
		struct ct_msg r = {.tagged = true, .tag = 1, .addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i],
				   .mem = in[c->rank], .len = 100};
		struct ct_msg s = {.tagged = true, .tag = 2, .addr = c->peer, .ctx = &c->ctx[10 + i],
				   .mem = big[c->rank], .len = len[i]};

		ct_recv(c, &r);
		if (c->rank == 0)
			ct_send(c, &s);
	}
	ct_barrier(c);
	if (c->rank) { /* the receiver goes first: the sender's long messages end, with or without success */
		OK(fi_close(&c->ep->fid));
		ct_barrier_idle(c);
	} else {
		ct_barrier_idle(c);
		sends_end(c, 5, 20000);
		OK(fi_close(&c->ep->fid));
	}
	c->t = &(struct ct_test){.name = c->t->name, .flags = c->t->flags};
	OK(fi_close(&c->txcq->fid));
	OK(fi_close(&c->rxcq->fid));
	OK(fi_close(&c->av->fid));
	ct_barrier_idle(c);
	if (c->own_domain) {
		OK(fi_close(&c->domain->fid));
		OK(fi_close(&c->fabric->fid));
	}
	fi_freeinfo(c->info);
}

/* Many endpoints on one domain, each with an AV of its own, all talking to the first. */
static void life_many_eps(struct ct *c)
{
	enum { EPS = 60 };
	struct ct_ep2 *e = calloc(EPS, sizeof(*e));
	uint8_t out[EPS][8], in[EPS][8];

	ct_open(c);
	CHECK(c->info->domain_attr->ep_cnt > EPS, "ep_cnt %zu", c->info->domain_attr->ep_cnt);
	for (unsigned i = 0; i < EPS; i++)
		ct_ep2_open(c, &e[i]);
	for (unsigned i = 0; i < EPS; i++) {
		struct ct_msg m = {.addr = FI_ADDR_UNSPEC, .ctx = &c->ctx[i], .mem = in[i], .len = 8};
		fi_addr_t to;

		ct_recv(c, &m);
		ct_fill(out[i], 8, i);
		RET(1, fi_av_insert(e[i].av, c->addr, 1, &to, 0, NULL));
		while (ct_again(c, fi_send(e[i].ep, out[i], 8, NULL, to, &c->ctx[100 + i])))
			;
	}
	for (unsigned i = 0; i < EPS; i++) {
		struct fi_cq_tagged_entry t;
		ssize_t ret;

		while ((ret = fi_cq_read(e[i].cq, &t, 1)) == -FI_EAGAIN)
			ct_progress(c);
		RET(1, ret);
		ct_comp(c, c->rxcq);
	}
	for (unsigned k = 0; k < EPS; k++) {
		unsigned hits = 0;

		for (unsigned i = 0; i < EPS; i++)
			hits += !memcmp(in[i], out[k], 8);
		CHECK(hits == 1, "message %u arrived %u times", k, hits);
	}
	for (unsigned i = EPS; i-- > 0;)
		ct_ep2_close(c, &e[i]);
	free(e);
	ct_close(c);
}

/* --- what is left -------------------------------------------------------------------------------- */

struct files {
	char path[64][256];
	ino_t ino[64];
	unsigned n;
};

/* What this process maps of /dev/shm; other processes of the machine may come and go there at the same time. */
static void files_list(struct files *fs)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	struct stat st;

	fs->n = 0;
	while (f && fs->n < 64 && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "/dev/shm/");

		if (at && !strstr(at, "(deleted)")) {
			at[strcspn(at, "\n")] = '\0';
			snprintf(fs->path[fs->n], 256, "%.255s", at);
			fs->ino[fs->n++] = stat(at, &st) ? 0 : st.st_ino;
		}
	}
	if (f)
		fclose(f);
}

/* By inode: a name of a context or PID is soon taken by the next process that opens it. */
static void files_check(struct ct *c, const struct files *fs, bool is_there)
{
	struct stat st;

	for (unsigned i = 0; i < fs->n; i++)
		CHECK((!stat(fs->path[i], &st) && st.st_ino == fs->ino[i]) == is_there, "%s is %s", fs->path[i],
		      is_there ? "gone" : "still there");
}

/* --- fork ---------------------------------------------------------------------------------------- */

static void wait_child(struct ct *c, pid_t pid)
{
	uint64_t until = ct_now_ms() + 20000;
	int st = 0;
	pid_t got;

	while ((got = waitpid(pid, &st, WNOHANG)) == 0 && ct_now_ms() < until)
		ct_progress(c);
	if (got == 0) {
		kill(pid, SIGKILL);
		waitpid(pid, &st, 0);
		FAIL("the child hangs");
	}
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0, "child status %#x", st);
}

/*
 * Children that exit, exec, close what they inherited, or open anew; the parent's traffic goes on in between and after.
 */
static void life_fork(struct ct *c)
{
	struct fid_ep *late, *many = NULL; /* not enabled */
	struct files fs;

	ct_open(c);
	OK(fi_endpoint(c->domain, c->info, &late, NULL));
	if (!strcmp(c->prov, "cxi"))
		OK(fi_scalable_ep(c->domain, c->info, &many, NULL));
	ct_sweep(c, false, CT_SEND, 0);
	files_list(&fs);
	for (int kind = 0; kind < 4; kind++) {
		pid_t pid = fork();

		if (pid == 0) {
			struct fi_info *info = NULL;
			uint8_t b = 0;

			if (kind == 1)
				execl("/bin/true", "true", (char *)NULL);
			if (kind == 2) { /* calls on inherited objects fail or do nothing; closing is quiet */
				if (fi_send(c->ep, &b, 1, NULL, c->peer, NULL) != -FI_EIO ||
				    fi_inject(c->ep, &b, 1, c->peer) != -FI_EIO ||
				    fi_recv(c->ep, &b, 1, NULL, c->peer, NULL) != -FI_EIO ||
				    fi_tsend(c->ep, &b, 1, NULL, c->peer, 1, NULL) != -FI_EIO ||
				    fi_write(c->ep, &b, 1, NULL, c->peer, 0, 0, NULL) != -FI_EIO ||
				    fi_atomic(c->ep, &b, 1, NULL, c->peer, 0, 0, FI_UINT8, FI_SUM, NULL) != -FI_EIO ||
				    fi_enable(late) != -FI_EIO || (many && fi_enable(many) != -FI_EIO))
					_exit(2);
				fi_cancel(&c->ep->fid, c);
				fi_cq_read(c->txcq, NULL, 0);
				fi_close(&c->ep->fid);
				fi_close(&c->txcq->fid);
			}
			if (kind == 3 && fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info))
				_exit(1);
			if (kind == 0)
				exit(0); /* with all exit handlers */
			_exit(0);
		}
		CHECK(pid > 0, "fork");
		ct_sweep(c, false, CT_SEND, 0);
		wait_child(c, pid);
		files_check(c, &fs, true);
		ct_sweep(c, false, CT_SEND, 0);
	}
	OK(fi_close(&late->fid));
	if (many)
		OK(fi_close(&many->fid));
	ct_close(c);
}

/* A child that uses the fabric itself, with objects of its own, while the parent does too. */
static void life_fork_fresh(struct ct *c)
{
	struct ct_ep2 e;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	ct_skip(c, "the thread sanitizer has no threads in a child of a program with threads");
#endif
	ct_open(c);
	ct_self(c, false);
	pid = fork();
	if (pid == 0) {
		struct ct mine = {.t = c->t, .prov = c->prov, .mode = CT_ONE, .p = c->p, .v = c->v, .seed = c->seed,
				  .peer_fd = -1};

		ct_open(&mine);
		ct_self(&mine, false);
		ct_close(&mine);
		_exit(0);
	}
	ct_ep2_open(c, &e);
	ct_self(c, false);
	wait_child(c, pid);
	ct_ep2_close(c, &e);
	ct_close(c);
}

/* --- exit and unload ----------------------------------------------------------------------------- */

/* What the threads of @pid are at, for who reads that it does not end. */
static void show_threads(pid_t pid)
{
	static const char *const what[] = {"stat", "wchan", "syscall"};
	char path[280], text[400];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		for (unsigned i = 0; e->d_name[0] != '.' && i < sizeof(what) / sizeof(what[0]); i++) {
			FILE *f;

			snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", (int)pid, e->d_name, what[i]);
			f = fopen(path, "r");
			if (f && fgets(text, sizeof(text), f))
				printf("    %s: %s%s", path, text, strchr(text, '\n') ? "" : "\n");
			if (f)
				fclose(f);
		}
	}
	if (dir)
		closedir(dir);
}

static void await_exit(struct ct *c, pid_t pid)
{
	const uint64_t begin = ct_now_ms(), until = begin + (uint64_t)(15000 * c->slow);
	bool is_shown = false;

	while (!kill(pid, 0)) {
		if (!is_shown && ct_now_ms() > begin + (until - begin) / 2) {
			show_threads(pid);
			is_shown = true;
		}
		CHECK(ct_now_ms() < until, "its exit hangs");
	}
}

/* Rank 0 leaves in traffic without closing anything: what is under way with it ends soon, and nothing of it stays. */
static void life_exit(struct ct *c)
{
	/* the smallest may complete at once, and be told lost later */
	static const size_t len[] = {8000, 50000, 300000, 1500000};
	static uint8_t big[1500000];
	struct { struct files files; pid_t pid; } *first = (void *)c->shared;

	ct_open(c);
	ct_sweep(c, false, CT_SEND, 0);
	if (c->rank == 0) {
		files_list(&first->files);
		first->pid = getpid();
	}
	ct_barrier(c);
	if (c->rank == 0) {
		ct_barrier_idle(c);
		exit(0); /* exit handlers and destructors run with everything open */
	}
	for (unsigned i = 0; i < 4; i++) {
		struct ct_msg m = {.addr = c->peer, .ctx = &c->ctx[i], .mem = big, .len = len[i]};

		ct_send(c, &m);
	}
	ct_barrier_idle(c);
	await_exit(c, first->pid);
	sends_end(c, 4, c->mode == CT_UDP ? 20000 : 5000);
	/* what was refused before it ended, and is sent again, finds no segment and goes by the network */
	c->t = &(struct ct_test){.name = c->t->name, .flags = c->t->flags | CT_SOLO | CT_ANY_PATH};
	ct_close(c);
	files_check(c, &first->files, false);
}

static void *load_core(struct ct *c)
{
	void *core = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

	CHECK(core, "%s", dlerror());
	return core;
}

/* The library is loaded and unloaded around traffic, as plug-in loaders do. */
static void life_dlclose(struct ct *c)
{
	for (int i = 0; i < 3; i++) {
		void *core = load_core(c);

		ct_open(c);
		ct_self(c, false);
		ct_close(c);
		dlclose(core);
	}
}

/* Nothing of a closed endpoint stays in /dev/shm. */
static void life_no_files(struct ct *c)
{
	struct files fs;

	for (int i = 0; i < 3; i++) {
		ct_open(c);
		ct_self(c, false);
		files_list(&fs);
		ct_close(c);
		files_check(c, &fs, false);
	}
}

#define LAST 4

/*
 * Who closes his endpoint as soon as his send has completed has sent it: to somebody who makes no call meanwhile, and
 * has not seen him before.
 */
static void life_last_words(struct ct *c)
{
	uint8_t theirs[64], byte[LAST];
	unsigned seen = 0; /* of several senders, in any order */
	struct fi_cq_tagged_entry t;
	struct ct_ep2 e;
	fi_addr_t to;

	ct_open(c);
	for (int i = 0; c->rank && i < LAST; i++)
		OK(fi_recv(c->ep, &byte[i], 1, NULL, FI_ADDR_UNSPEC, &c->ctx[i]));
	ct_swap(c, c->addr, theirs, sizeof(theirs));
	ct_barrier_idle(c);
	for (uint8_t i = 0; !c->rank && i < LAST; i++) {
		ssize_t ret;

		ct_ep2_open(c, &e);
		RET(1, fi_av_insert(e.av, theirs, 1, &to, 0, NULL));
		for (ret = -FI_EAGAIN; ret == -FI_EAGAIN; (void)fi_cq_read(e.cq, NULL, 0))
			ret = fi_send(e.ep, &i, 1, NULL, to, &c->ctx[i]);
		OK((int)ret);
		for (ret = -FI_EAGAIN; ret == -FI_EAGAIN;)
			ret = fi_cq_read(e.cq, &t, 1);
		RET(1, ret);
		ct_ep2_close(c, &e);
	}
	if (c->mode == CT_UDP) /* where a newcomer may have to wait for a handshake */
		ct_barrier(c);
	else
		ct_barrier_idle(c);
	for (int i = 0; c->rank && i < LAST; i++)
		ct_comp(c, c->rxcq);
	for (int i = 0; c->rank && i < LAST; i++)
		seen |= 1u << byte[i];
	CHECK(!c->rank || seen == (1u << LAST) - 1, "messages %#x", seen);
	ct_close(c);
}

/*
 * Rank 1: one that sends, or is sent to, and ends, and then the next one, which gets its place where places are given
 * again.
 */
static void successor_own(struct ct *c, bool is_sender)
{
	struct fi_cq_tagged_entry t;
	uint8_t byte = 1, in = 0;
	struct ct_ep2 e;
	fi_addr_t to;

	ct_ep2_open(c, &e);
	memcpy(c->shared, e.addr, sizeof(e.addr));
	RET(1, fi_av_insert(e.av, c->peer_addr, 1, &to, 0, NULL));
	OK(is_sender ? 0 : (int)fi_recv(e.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	ct_barrier(c);
	for (ssize_t ret = -FI_EAGAIN; is_sender && ret == -FI_EAGAIN; (void)fi_cq_read(e.cq, NULL, 0))
		ret = fi_send(e.ep, &byte, 1, NULL, to, &c->ctx[0]);
	while (fi_cq_read(e.cq, &t, 1) != 1)
		;
	ct_barrier(c);
	ct_ep2_close(c, &e);
	ct_ep2_open(c, &e);
	memcpy(c->shared, e.addr, sizeof(e.addr));
	OK(fi_recv(e.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &c->ctx[0]));
	ct_barrier_idle(c);
	while (fi_cq_read(e.cq, &t, 1) != 1)
		;
	CHECK(t.op_context == &c->ctx[0] && in == 2, "byte %u", in);
	ct_barrier(c);
	ct_ep2_close(c, &e);
}

/*
 * Who has sent something to the one may be told that it has gone, and sends once more: each protocol knows whom it
 * talks to, not only where. Who has not must not hear of it.
 */
static bool successor_has_got(struct ct *c, bool is_sender)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry t;
	ssize_t ret;

	do
		ret = fi_cq_read(c->txcq, &t, 1);
	while (ret == -FI_EAGAIN);
	if (ret == -FI_EAVAIL)
		RET(1, fi_cq_readerr(c->txcq, &err, 0));
	CHECK(ret == 1 || (ret == -FI_EAVAIL && !is_sender), "%zd (%s), error %d", ret, ct_err(ret), err.err);
	CHECK((ret == 1 ? t.op_context : err.op_context) == &c->ctx[0], "of another operation");
	return ret == 1;
}

/* Rank 0: makes no call between the end of the one and its first message to the other. */
static void successor_peer(struct ct *c, bool is_sender)
{
	uint8_t byte = 1, in = 0;
	fi_addr_t to = FI_ADDR_UNSPEC;

	OK(is_sender ? (int)fi_recv(c->ep, &in, 1, NULL, FI_ADDR_UNSPEC, &c->ctx[0]) : 0);
	ct_barrier(c);
	if (is_sender) {
		ct_rx(c, &c->ctx[0], FI_RECV | FI_MSG, 1);
	} else {
		RET(1, fi_av_insert(c->av, c->shared, 1, &to, 0, NULL));
		while (ct_again(c, fi_send(c->ep, &byte, 1, NULL, to, &c->ctx[0])))
			;
		ct_tx(c, &c->ctx[0], FI_SEND | FI_MSG);
		OK(fi_av_remove(c->av, &to, 1, 0));
	}
	ct_barrier(c);
	ct_barrier_idle(c);
	byte = 2;
	RET(1, fi_av_insert(c->av, c->shared, 1, &to, 0, NULL));
	do {
		while (ct_again(c, fi_send(c->ep, &byte, 1, NULL, to, &c->ctx[0])))
			;
	} while (!successor_has_got(c, is_sender));
	ct_barrier(c);
}

/*
 * A message to a place goes to who is there when it is sent, not to who was there before and has sent or got one. Only
 * opx may lose it between hosts, as the real one does: its handshake outlives the peer, and a message is complete once
 * it is copied.
 */
static void life_successor(struct ct *c)
{
	ct_open(c);
	for (int is_sender = 0; is_sender < 2 && !(c->mode == CT_UDP && !strcmp(c->prov, "opx")); is_sender++)
		(c->rank ? successor_own : successor_peer)(c, is_sender);
	ct_close(c);
}

/*
 * A peer that went before anybody here had reached it is no peer on another host: an injected message to it is lost,
 * the queue goes on, and what asks for a completion has its error entry.
 */
static void life_unmet(struct ct *c)
{
	struct fi_cq_tagged_entry t;
	struct fi_cq_err_entry e = {0};
	uint8_t mem[8] = {0};
	struct ct_ep2 gone;
	fi_addr_t to;
	ssize_t ret, sent = -FI_EAGAIN;

	ct_open(c);
	ct_ep2_open(c, &gone);
	RET(1, fi_av_insert(c->av, gone.addr, 1, &to, 0, NULL));
	ct_ep2_close(c, &gone);
	for (unsigned i = 0; i < 2; i++) {
		while ((ret = fi_inject(c->ep, mem, sizeof(mem), to)) == -FI_EAGAIN)
			RET(-FI_EAGAIN, fi_cq_read(c->txcq, &t, 1));
		do {
			if (sent == -FI_EAGAIN)
				sent = fi_send(c->ep, mem, sizeof(mem), NULL, to, &c->ctx[0]);
			ret = fi_cq_read(c->txcq, &t, 1);
		} while (ret == -FI_EAGAIN && (!sent || sent == -FI_EAGAIN));
		RET(sent ? -FI_EAGAIN : -FI_EAVAIL, ret); /* opx may refuse the call */
		if (!sent)
			RET(1, fi_cq_readerr(c->txcq, &e, 0));
		CHECK(sent || e.op_context == &c->ctx[0], "the error entry of another one");
		sent = -FI_EAGAIN;
	}
	for (unsigned i = 0; i < 1000; i++)
		RET(-FI_EAGAIN, fi_cq_read(c->txcq, &t, 1));
	ct_close(c);
}

const struct ct_test life_tests[] = {
	{"life_busy", life_busy, FI_MSG, 0, CT_SOLO, NULL},
	{"life_again", life_again, FI_MSG, 0, CT_GENS, NULL, NULL, NULL, 90},
	{"life_pending", life_pending, FI_TAGGED, 0, CT_GENS | CT_ANY_PATH, NULL},
	{"life_many_eps", life_many_eps, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, "ep_cnt"},
	{"life_last_words", life_last_words, FI_MSG, 0, CT_ANY_PATH, NULL},
	{"life_unmet", life_unmet, FI_MSG, 0, CT_SOLO, NULL},
	{"life_successor", life_successor, FI_MSG, 0, CT_ANY_PATH, NULL},
	{"life_fork", life_fork, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, 0, CT_NO_ONE, NULL, NULL, NULL, 60},
	{"life_fork_fresh", life_fork_fresh, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL},
	{"life_exit", life_exit, FI_MSG, 0, CT_NO_ONE | CT_GENS, NULL, NULL, NULL, 60},
	{"life_dlclose", life_dlclose, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL},
	{"life_no_files", life_no_files, FI_MSG, 0, CT_SOLO | CT_ANY_PATH, NULL},
	{0},
};
