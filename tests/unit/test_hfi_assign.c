// SPDX-License-Identifier: BSD-2-Clause
// Contexts for many openers: who gets which, limits, sub-contexts, races, dead processes, refusals and their sentences.
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "nic/hfi/hfi_addr.h"
#include "nic/hfi/hfi_assign.h"
#include "sim.h"

/* One opener: a unit as one process has it open. */
struct side {
	struct lock lock;
	struct link_node *node;
	struct link_room room;
	struct hfi_unit_attr unit;
	struct hostpart map;
	struct hfi_ctxt_attr want;
	struct hfi_assign_attr attr;
};

static char g_log[2048];
static unsigned g_warnings;

static void on_log(enum log_level lvl, const char *func, int line, const char *msg)
{
	(void)func;
	(void)line;
	/* that one certain context is held is said quietly: whoever wants it may be looking for one that is free */
	if (lvl != LOG_LVL_WARN && !strstr(msg, " is held: "))
		return;
	g_warnings++;
	snprintf(g_log, sizeof(g_log), "%s", msg);
}

static int on_frame(void *ctx, struct link_peer *peer, const uint8_t *frame, uint32_t len)
{
	(void)ctx;
	(void)peer;
	(void)frame;
	(void)len;
	return 0;
}

static const struct link_ops ops = {.on_frame = on_frame};

/* An address of loopback that no other run of this test uses. */
static void own_ip(uint8_t ip[16])
{
	static pid_t first;
	unsigned nr;

	if (!first)
		first = getpid();
	nr = 1 + (unsigned)first % HFI_LID_MAX;
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	ip[12] = 127;
	ip[13] = 78;
	ip[14] = (uint8_t)(nr >> 8);
	ip[15] = (uint8_t)nr;
}

static void side_open(struct side *s, struct sim *sim)
{
	struct link_node_attr node = {.lock = &s->lock, .room = &s->room, .no_thread = true, .world = sim_world(sim)};
	char err[512];
	uint32_t lid;
	uint16_t base;

	*s = (struct side){.unit = {.name = "hfi1_0",
				    .state = HFI_PORT_ACTIVE,
				    .nctxts = 8,
				    .pkey_cnt = 2,
				    .pkeys = {0x8001, 0x7fff},
				    .pkey_check = true}};
	own_ip(s->unit.ip);
	assert_int_equal(link_room_parse("net=127.78.0.0/16;linger=0ms", &s->room, err, sizeof(err)), 0);
	assert_int_equal(hostpart_init(&s->map, &hfi_lid_kind, &s->room, s->unit.ip, err, sizeof(err)), 0);
	assert_int_equal(hostpart_nr(&s->map, s->unit.ip, 0, &lid, &base), 0);
	s->unit.lid = (uint16_t)lid;
	assert_int_equal(link_node_open(&node, &s->node), 0);
	s->want = (struct hfi_ctxt_attr){.uuid = {1, 2, 3}, .ctxt = -1, .pkey = 0x8001};
	s->attr = (struct hfi_assign_attr){
		.unit = &s->unit,
		.map = &s->map,
		.want = &s->want,
		.lock = &s->lock,
		.port = {.node = s->node, .ops = &ops},
		.jkey = 1000,
		.port_is_up = true,
		.scope = sim ? 7 : 0,
	};
}

static void side_close(struct side *s)
{
	link_node_close(s->node);
}

static void give_back(struct side *s, struct hfi_claim *c)
{
	struct link_stats last;

	lock_acquire(&s->lock);
	hfi_assign_close(c, &last);
	lock_release(&s->lock);
	assert_null(c->port);
}

static unsigned free_cnt(const struct side *s)
{
	return hfi_assign_free(&s->unit, &s->map, s->attr.scope);
}

static void got(struct side *s, struct hfi_claim *c, unsigned ctxt, unsigned subctxt)
{
	struct link_addr addr;

	assert_int_equal(hfi_assign_open(&s->attr, c), 0);
	assert_int_equal(c->ctxt, ctxt);
	assert_int_equal(c->subctxt, subctxt);
	assert_int_equal(hfi_addr_of(&s->map, s->unit.lid, c->ctxt, c->subctxt, &addr), 0);
	assert_memory_equal(link_port_addr(c->port)->ip, addr.ip, 16);
	assert_int_equal(link_port_addr(c->port)->port, addr.port);
}

/* Refused with @rc and one sentence with all of @words in it. */
static void refused(struct side *s, int rc, const char *words)
{
	char list[256], *rest = list, *word;
	struct link_stats last;
	struct hfi_claim c;

	g_warnings = 0;
	assert_int_equal(hfi_assign_open(&s->attr, &c), rc);
	assert_null(c.port);
	assert_int_equal(g_warnings, 1);
	snprintf(list, sizeof(list), "%s", words);
	while ((word = strsep(&rest, "|")))
		if (!strstr(g_log, word))
			fail_msg("'%s' is not in: %s", word, g_log);
	hfi_assign_close(&c, &last); /* nothing */
}

/* --- contexts of one opener --- */

static void any__lowest_first(void **state)
{
	struct hfi_claim c[3];
	struct side s;

	(void)state;
	side_open(&s, NULL);
	assert_int_equal(free_cnt(&s), 8);
	for (unsigned i = 0; i < 3; i++)
		got(&s, &c[i], i, 0);
	assert_int_equal(free_cnt(&s), 5);
	give_back(&s, &c[1]);
	assert_int_equal(free_cnt(&s), 6);
	got(&s, &c[1], 1, 0);
	for (unsigned i = 0; i < 3; i++)
		give_back(&s, &c[i]);
	assert_int_equal(free_cnt(&s), 8);
	side_close(&s);
}

/* The search begins where the opener says and comes round. */
static void any__goes_round(void **state)
{
	struct hfi_claim c[4];
	struct side s;

	(void)state;
	side_open(&s, NULL);
	s.want.first = 8 * 1000 + 6;
	got(&s, &c[0], 6, 0);
	got(&s, &c[1], 7, 0);
	got(&s, &c[2], 0, 0);
	s.want.first = UINT_MAX; /* 7 of 8 */
	got(&s, &c[3], 1, 0);
	for (unsigned i = 0; i < 4; i++)
		give_back(&s, &c[i]);
	side_close(&s);
}

static void any__exhausted(void **state)
{
	struct hfi_claim c[2];
	char words[128];
	struct side s;

	(void)state;
	side_open(&s, NULL);
	s.unit.nctxts = 2;
	got(&s, &c[0], 0, 0);
	got(&s, &c[1], 1, 0);
	snprintf(words, sizeof(words),
		 "hfi1_0|no free context|all 2|process %d has 2|contexts=160|units=", (int)getpid());
	refused(&s, -EBUSY, words);
	give_back(&s, &c[0]);
	got(&s, &c[0], 0, 0);
	give_back(&s, &c[0]);
	give_back(&s, &c[1]);
	s.unit.nctxts = 0;
	refused(&s, -EBUSY, "no free context|all 0");
	side_close(&s);
}

static void wanted__one(void **state)
{
	struct hfi_claim c, other;
	char words[128];
	struct side s;

	(void)state;
	side_open(&s, NULL);
	s.want.ctxt = 5;
	got(&s, &c, 5, 0);
	snprintf(words, sizeof(words), "context 5 is held|process %d", (int)getpid());
	refused(&s, -EBUSY, words);
	s.want.ctxt = -1;
	got(&s, &other, 0, 0);
	give_back(&s, &other);
	give_back(&s, &c);
	side_close(&s);
}

static void check__refusals(void **state)
{
	struct side s;

	(void)state;
	side_open(&s, NULL);
	s.unit.state = HFI_PORT_ARMED;
	refused(&s, -ENETDOWN, "hfi1_0|ARMED|not ACTIVE|state=");
	s.unit.state = HFI_PORT_ACTIVE;
	s.attr.port_is_up = false;
	refused(&s, -ENETDOWN, "down now|down=");
	s.attr.port_is_up = true;
	s.want.subctxt_cnt = 9;
	refused(&s, -EINVAL, "shared by 9|at most 8");
	s.want.subctxt_cnt = 0;
	s.want.ctxt = 8;
	refused(&s, -EINVAL, "no context 8|8 in all|contexts=");
	s.want.ctxt = -1;
	s.want.sl = 32;
	refused(&s, -EINVAL, "service level 32|31");
	s.want.sl = 0;
	s.want.pkey = 0x7fff; /* in the table, and yet */
	refused(&s, -EINVAL, "0x7fff|management");
	s.want.pkey = 0xffff;
	refused(&s, -EINVAL, "0xffff|management");
	s.want.pkey = 0x0001; /* the whole value counts, not only the key's 15 bits */
	refused(&s, -ENOENT, "0x0001|0x8001,0x7fff|pkeys=0x8001,0x7fff,0x0001");
	s.want.pkey = 0x8001;
	s.unit.pkey_check = false;
	refused(&s, -EPERM, "pkey_check=no");
	assert_int_equal(free_cnt(&s), 8);
	side_close(&s);
}

/* A program that is none of ours has the UDP port. */
static void any__foreign_port(void **state)
{
	struct sockaddr_in in4 = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct link_addr addr;
	struct hfi_claim c;
	struct side s;

	(void)state;
	side_open(&s, NULL);
	assert_int_equal(hfi_addr_of(&s.map, s.unit.lid, 0, 0, &addr), 0);
	memcpy(&in4.sin_addr, addr.ip + 12, 4);
	in4.sin_port = htons(addr.port);
	assert_int_equal(bind(fd, (struct sockaddr *)&in4, sizeof(in4)), 0);
	got(&s, &c, 1, 0);
	give_back(&s, &c);
	s.unit.nctxts = 1;
	refused(&s, -EBUSY, "all 1|others have 1");
	close(fd);
	got(&s, &c, 0, 0);
	give_back(&s, &c);
	side_close(&s);
}

/* --- shared ones --- */

static void shared__join(void **state)
{
	struct hfi_claim c[3], alone;
	char words[128];
	struct side s;

	(void)state;
	side_open(&s, NULL);
	got(&s, &alone, 0, 0);
	s.want.subctxt_cnt = 3;
	for (unsigned i = 0; i < 3; i++)
		got(&s, &c[i], 1, i);
	assert_int_equal(free_cnt(&s), 6);
	snprintf(words, sizeof(words), "all 3 sub-contexts of context 1|process %d has 3|subctxt_id", (int)getpid());
	refused(&s, -EBUSY, words);
	give_back(&s, &c[1]);
	got(&s, &c[1], 1, 1);
	give_back(&s, &c[0]); /* the founder goes, the context stays */
	assert_int_equal(free_cnt(&s), 6);
	got(&s, &c[0], 1, 0);
	for (unsigned i = 0; i < 3; i++)
		give_back(&s, &c[i]);
	assert_int_equal(free_cnt(&s), 7);
	give_back(&s, &alone);
	side_close(&s);
}

/* Only equal uuid, job key, id and count share. */
static void shared__groups(void **state)
{
	struct hfi_claim c[7];
	struct side s;

	(void)state;
	side_open(&s, NULL);
	s.want.subctxt_cnt = 2;
	got(&s, &c[0], 0, 0);
	s.want.uuid[15] = 1;
	got(&s, &c[1], 1, 0);
	s.want.uuid[15] = 0;
	s.attr.jkey = 1001;
	got(&s, &c[2], 2, 0);
	s.attr.jkey = 1000;
	s.want.subctxt_id = 1;
	got(&s, &c[3], 3, 0);
	s.want.subctxt_id = 0;
	s.want.subctxt_cnt = 3;
	got(&s, &c[4], 4, 0);
	s.want.subctxt_cnt = 2;
	s.want.ctxt = 3; /* another group's */
	refused(&s, -EBUSY, "context 3 is held");
	s.want.ctxt = 5;
	got(&s, &c[5], 5, 0);
	s.want.ctxt = -1;
	got(&s, &c[6], 0, 1); /* the first one that fits */
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		give_back(&s, &c[i]);
	assert_int_equal(free_cnt(&s), 8);
	side_close(&s);
}

/* --- several processes --- */

/* What children tell their parent. */
struct board {
	_Atomic int ready, go, opened, closing, is_unlocked;
	struct {
		int rc;
		uint16_t ctxt, subctxt;
	} child[32];
};

static struct board *board_new(void)
{
	struct board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(b != MAP_FAILED);
	return b;
}

static void until(_Atomic int *what, int value)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	const uint64_t end_ns = clk_now_ns(NULL) + 60 * unit_slow() * NS_PER_SEC;

	while (atomic_load(what) < value) {
		if (clk_now_ns(NULL) > end_ns)
			_exit(9);
		nanosleep(&nap, NULL);
	}
}

/* Opens, tells, and holds it until it is told or killed. */
static pid_t child_start(struct board *b, int idx, unsigned subctxt_cnt, uint32_t nctxts)
{
	pid_t pid = unit_fork();
	struct hfi_claim c;
	struct side s;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody */
	log_set_hook(NULL);
	side_open(&s, NULL);
	s.unit.nctxts = nctxts;
	s.want.subctxt_cnt = (uint16_t)subctxt_cnt;
	atomic_fetch_add(&b->ready, 1);
	while (!atomic_load(&b->go)) /* no nap: all at once */
		sched_yield();
	b->child[idx].rc = hfi_assign_open(&s.attr, &c);
	b->child[idx].ctxt = c.ctxt;
	b->child[idx].subctxt = c.subctxt;
	atomic_fetch_add(&b->opened, 1);
	until(&b->closing, 1);
	if (c.port)
		give_back(&s, &c);
	side_close(&s);
	_exit(0);
}

static void child_end(pid_t pid, int sig)
{
	int status;

	if (sig)
		assert_int_equal(kill(pid, sig), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (sig)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == sig);
	else
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void procs__holder_is_named(void **state)
{
	struct board *b = board_new();
	struct hfi_claim c;
	char words[64];
	struct side s;
	pid_t pid;

	(void)state;
	b->go = 1;
	pid = child_start(b, 0, 0, 1);
	until(&b->opened, 1);
	assert_int_equal(b->child[0].rc, 0);
	side_open(&s, NULL);
	s.unit.nctxts = 1;
	assert_int_equal(free_cnt(&s), 0);
	snprintf(words, sizeof(words), "all 1|process %d has 1", (int)pid);
	refused(&s, -EBUSY, words);
	child_end(pid, SIGKILL);
	assert_int_equal(free_cnt(&s), 1);
	got(&s, &c, 0, 0);
	give_back(&s, &c);
	side_close(&s);
	munmap(b, sizeof(*b));
}

/*
 * The founder is killed: its group keeps the context, nobody else gets it, and its slot is given to the next one who
 * joins.
 */
static void procs__dead_founder(void **state)
{
	struct board *b = board_new();
	struct hfi_claim member, alone, late;
	struct side s;
	pid_t pid;

	(void)state;
	b->go = 1;
	pid = child_start(b, 0, 3, 8);
	until(&b->opened, 1);
	assert_int_equal(b->child[0].rc, 0);
	assert_int_equal(b->child[0].subctxt, 0);
	side_open(&s, NULL);
	s.want.subctxt_cnt = 3;
	got(&s, &member, b->child[0].ctxt, 1);
	child_end(pid, SIGKILL);
	s.want.subctxt_cnt = 0;
	assert_int_equal(free_cnt(&s), 7);
	got(&s, &alone, 1, 0);
	s.want.ctxt = 0;
	refused(&s, -EBUSY, "context 0 is held");
	s.want.ctxt = -1;
	s.want.subctxt_cnt = 3;
	got(&s, &late, 0, 0);
	give_back(&s, &late);
	give_back(&s, &member);
	give_back(&s, &alone);
	assert_int_equal(free_cnt(&s), 8);
	side_close(&s);
	munmap(b, sizeof(*b));
}

/* Many at once: each gets a slot of its own, and no group is founded twice. */
static void race(unsigned procs, unsigned subctxt_cnt, uint32_t nctxts, unsigned expect)
{
	struct board *b = board_new();
	bool seen[HFI_CTXT_MAX * HFI_SUBCTXT_MAX] = {false};
	unsigned ok = 0;
	pid_t pid[32];

	for (unsigned i = 0; i < procs; i++)
		pid[i] = child_start(b, (int)i, subctxt_cnt, nctxts);
	until(&b->ready, (int)procs);
	atomic_store(&b->go, 1);
	until(&b->opened, (int)procs);
	for (unsigned i = 0; i < procs; i++) {
		unsigned at = b->child[i].ctxt * HFI_SUBCTXT_MAX + b->child[i].subctxt;

		if (b->child[i].rc) {
			assert_int_equal(b->child[i].rc, -EBUSY);
			continue;
		}
		assert_false(seen[at]);
		seen[at] = true;
		ok++;
		if (subctxt_cnt)
			assert_int_equal(b->child[i].ctxt, 0);
		else
			assert_int_equal(b->child[i].subctxt, 0);
	}
	assert_int_equal(ok, expect);
	atomic_store(&b->closing, 1);
	for (unsigned i = 0; i < procs; i++)
		child_end(pid[i], 0);
	munmap(b, sizeof(*b));
}

static void procs__race_any(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		race(16, 0, 12, 12);
}

static void procs__race_shared(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		race(12, 8, 4, 8);
}

/* --- locks, and other users --- */

#define NOBODY 65534

/* A socket that listens at the @nr-th name of the lock of user @uid. */
static int lock_name_take(unsigned uid, int nr)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "sf-hfi-lock-%u-%d", uid, nr);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ||
	    listen(fd, 8))
		_exit(8);
	return fd;
}

/* What somebody else may do to us, until he is told to stop. */
enum trick { TRICK_FLOCK, TRICK_LOCK, TRICK_MUTE, TRICK_GROUP };

static pid_t trickster(struct board *b, enum trick trick, unsigned uid)
{
	const unsigned own = getuid();
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	struct hfi_claim c;
	struct side s;
	pid_t pid = unit_fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	log_set_hook(NULL);
	if (uid != own && (setgid(uid) || setuid(uid)))
		_exit(7);
	if (trick == TRICK_FLOCK) {
		if (flock(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), LOCK_EX))
			_exit(6);
	} else if (trick == TRICK_LOCK) {
		for (int i = 0; i < (uid == own ? 1 : 7); i++)
			lock_name_take(own, i);
	} else if (trick == TRICK_MUTE) { /* has the name, and never says whose it is */
		int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "sf-hfi-lock-%u-0", own);

		if (bind(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), (struct sockaddr *)&name,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)))
			_exit(5);
	} else {
		side_open(&s, NULL);
		s.want.subctxt_cnt = 3;
		if (hfi_assign_open(&s.attr, &c))
			_exit(4);
	}
	atomic_store(&b->opened, 1);
	until(&b->closing, 1);
	if (trick == TRICK_GROUP)
		give_back(&s, &c); /* or a file of another user would stay */
	_exit(0);
}

/* While @trick lasts each kind of opener gets its context, the shared one in context @ctxt. */
static void opens_despite(enum trick trick, unsigned uid, unsigned ctxt)
{
	struct board *b = board_new();
	struct hfi_claim shared, alone;
	struct side s;
	pid_t pid = trickster(b, trick, uid);

	until(&b->opened, 1);
	side_open(&s, NULL);
	s.want.subctxt_cnt = 3;
	got(&s, &shared, ctxt, 0);
	s.want.subctxt_cnt = 0;
	got(&s, &alone, ctxt + 1, 0);
	give_back(&s, &alone);
	give_back(&s, &shared);
	side_close(&s);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* all that while he was at it */
	atomic_store(&b->closing, 1);
	child_end(pid, 0);
	munmap(b, sizeof(*b));
}

/* Anybody may lock the network namespace's file. */
static void others__flock(void **state)
{
	(void)state;
	opens_despite(TRICK_FLOCK, getuid(), 0);
}

/* One of our own user that was stopped while he opened. */
static void others__stopped(void **state)
{
	(void)state;
	opens_despite(TRICK_LOCK, getuid(), 0);
	assert_non_null(strstr(g_log, "may have been stopped"));
}

static void others__mute(void **state)
{
	(void)state;
	opens_despite(TRICK_MUTE, getuid(), 0);
}

static bool may_be_nobody(void)
{
	if (!getuid())
		return true;
	print_message("SKIP: only root can be another user\n");
	return false;
}

static void others__names(void **state)
{
	(void)state;
	if (!may_be_nobody())
		skip();
	g_warnings = 0;
	opens_despite(TRICK_LOCK, NOBODY, 0);
	assert_int_equal(g_warnings, 0); /* nothing was waited for */
}

/*
 * The names of a group say who is in it to those who can read them: another user's context of that name is none of
 * ours.
 */
static void others__group(void **state)
{
	struct board *b = board_new();
	struct hfi_claim c;
	struct side s;
	pid_t pid;

	(void)state;
	if (!may_be_nobody())
		skip();
	opens_despite(TRICK_GROUP, NOBODY, 1);
	pid = trickster(b, TRICK_GROUP, NOBODY);
	until(&b->opened, 1);
	side_open(&s, NULL);
	s.want.ctxt = 0;
	refused(&s, -EBUSY, "context 0 is held|user 65534");
	s.want.ctxt = -1;
	s.unit.nctxts = 1;
	s.want.subctxt_cnt = 3;
	refused(&s, -EBUSY, "all 1|user 65534");
	s.want.subctxt_cnt = 0;
	s.unit.nctxts = 8;
	got(&s, &c, 1, 0);
	give_back(&s, &c);
	side_close(&s);
	atomic_store(&b->closing, 1);
	child_end(pid, 0);
	munmap(b, sizeof(*b));
}

/* Another of our user is opening a shared context: wait for it. */
static void procs__lock_waits(void **state)
{
	const struct timespec nap = {.tv_nsec = 50000000};
	struct board *b = board_new();
	struct hfi_claim c;
	struct side s;
	pid_t pid;

	(void)state;
	side_open(&s, NULL);
	s.want.subctxt_cnt = 3;
	pid = unit_fork();
	assert_true(pid >= 0);
	if (!pid) {
		lock_name_take(getuid(), 0);
		atomic_store(&b->opened, 1);
		nanosleep(&nap, NULL);
		atomic_store(&b->is_unlocked, 1);
		_exit(0); /* not by its own hand: a dead one gives it back, too */
	}
	until(&b->opened, 1);
	got(&s, &c, 0, 0);
	assert_int_equal(atomic_load(&b->is_unlocked), 1);
	child_end(pid, 0);
	give_back(&s, &c);
	side_close(&s);
	munmap(b, sizeof(*b));
}

/* --- the simulator --- */

static void sim__is_apart(void **state)
{
	struct sim_attr world = {.seed = 1};
	struct hfi_claim c, real_c;
	struct side s, real;
	struct sim *sim;

	(void)state;
	assert_int_equal(sim_world_open(&world, &sim), 0);
	side_open(&s, sim);
	side_open(&real, NULL);
	got(&s, &c, 0, 0);
	got(&real, &real_c, 0, 0);
	assert_int_equal(free_cnt(&s), 7);
	s.unit.nctxts = 1;
	refused(&s, -EBUSY, "others have 1");
	give_back(&s, &c);
	give_back(&real, &real_c);
	side_close(&s);
	side_close(&real);
	sim_world_close(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any__lowest_first),  cmocka_unit_test(any__goes_round),
		cmocka_unit_test(any__exhausted),	      cmocka_unit_test(any__foreign_port),
		cmocka_unit_test(wanted__one), cmocka_unit_test(check__refusals), cmocka_unit_test(shared__join),
		cmocka_unit_test(shared__groups), cmocka_unit_test(procs__holder_is_named),
		cmocka_unit_test(procs__dead_founder),
		cmocka_unit_test(procs__race_any), cmocka_unit_test(procs__race_shared),
		cmocka_unit_test(procs__lock_waits),
		cmocka_unit_test(others__flock), cmocka_unit_test(others__stopped), cmocka_unit_test(others__mute),
		cmocka_unit_test(others__names),      cmocka_unit_test(others__group),
		cmocka_unit_test(sim__is_apart),
	};
	uint8_t ip[16];

	own_ip(ip); /* the children's, too */
	log_set_hook(on_log);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
