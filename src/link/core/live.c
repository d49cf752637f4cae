// SPDX-License-Identifier: BSD-2-Clause
// What a running node tells of itself, for softfabric top: a file that the adapter thread writes anew twice a second.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/stats.h"
#include "link/core/link_int.h"

/*
 * Theory of operation
 *
 * SOFTFABRIC_LIVE names a folder (softfabric run sets it). A node with an adapter thread then has a file
 * softfabric-live.<pid>.<n> there, of mode 0600, locked by fcntl(2) for as long as its process lives: readers and later
 * publishers take one that nobody locks for what a killed process left, and remove it. Its text is a first line with a
 * number, the adapter's counters, a line per port and per peer, and a last line with the same number: a reader that
 * finds two numbers reads again.
 *
 * The data path knows nothing of it. Counters are those that are counted anyway; the adapter thread copies them under
 * the lock, which it holds some microseconds for that, twice a second, and makes text of the copy without the lock.
 * Nobody has to read along.
 */

#define LIVE_ENV    "SOFTFABRIC_LIVE"
#define LIVE_PREFIX "softfabric-live."
#define LIVE_NS	    (500 * NS_PER_MS)
#define LIVE_TRIES  64
#define PORT_MAX    64 /* told of at most; of further ones there is only how many */
#define PEER_MAX    256
#define TEXT_MAX    131072u
#define END_MAX	    128u /* of it, for the last lines */
#define LINE_MAX_   4096u
#define LAST_TRIES  10

struct live_port {
	struct link_addr self;
	uint32_t peer_cnt;
	struct link_stats stats;
};

struct live_peer {
	uint32_t port; /* index of its port */
	struct link_addr addr;
	struct live_path path;
};

struct live {
	struct live *next; /* of g_live */
	char path[512];
	int fd;
	pid_t owner;
	uint64_t seq, due_ns;
	char adapter[LINE_MAX_];
	uint32_t port_cnt, peer_cnt, port_more, peer_more;
	struct live_port port[PORT_MAX];
	struct live_peer peer[PEER_MAX];
	char text[TEXT_MAX];
};

static pthread_mutex_t g_live_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct live *g_live; /* of this process; mutex */

/* A forked child, which has one thread as yet, has published nothing: another thread may have had the mutex then. */
static void live_in_child(void)
{
	pthread_mutex_init(&g_live_mutex, NULL);
	g_live = NULL;
}

static void live_watch_fork(void)
{
	pthread_atfork(NULL, NULL, live_in_child);
}

#define ROW(name_) {#name_, offsetof(struct link_stats, name_)}
static const struct stats_row port_row[] = {
	ROW(tx_frames), ROW(tx_bytes), ROW(rx_frames), ROW(rx_bytes), ROW(net_tx_frames), ROW(net_rx_frames),
	ROW(net_tx_dgrams), ROW(net_rx_dgrams), ROW(net_tx_bytes), ROW(net_rx_bytes),
	ROW(retrans), ROW(dup_rx), ROW(naks_tx), ROW(naks_rx), ROW(acks_tx), ROW(probes), ROW(timeouts),
	ROW(drop_malformed), ROW(drop_nonce), ROW(drop_source), ROW(drop_version), ROW(drop_full), ROW(drop_seal),
	ROW(drop_hello), ROW(drop_quote), ROW(half_expired),
	ROW(drop_foreign), ROW(floods), ROW(drop_gate),
	ROW(fault_drop), ROW(fault_dup), ROW(fault_reorder), ROW(fault_delay), ROW(fault_corrupt), ROW(fault_truncate),
	ROW(fault_partition),
	ROW(bulk_get_bytes), ROW(bulk_put_bytes), ROW(bulk_cma_bytes), ROW(bulk_ring_bytes), ROW(bulk_frame_bytes),
	ROW(late_byes), ROW(peers_dead), ROW(peers_closed), ROW(wakeups_tx),
};
static_assert(ARRAY_SIZE(port_row) * sizeof(uint64_t) == sizeof(struct link_stats), "every counter");

/* --- copying, under the node's lock --- */

static void copy_peer(struct link_peer *peer, void *arg)
{
	struct live *l = arg;
	struct live_peer *to = &l->peer[l->peer_cnt];

	if (l->peer_cnt == PEER_MAX) {
		l->peer_more++;
		return;
	}
	memset(to, 0, sizeof(*to));
	to->port = l->port_cnt;
	to->addr = peer->addr;
	to->path.status = peer->dead;
	if (peer->shm && !peer->dead)
		shm_peer_tell(peer->shm, &to->path);
	else if (peer->rel && !peer->dead)
		rel_peer_tell(peer->rel, &to->path);
	l->peer_cnt++;
}

static void copy_all(struct link_node *n, struct live *l)
{
	size_t len = n->attr.tell ? n->attr.tell(n->attr.ctx, l->adapter, sizeof(l->adapter)) : 0;

	l->adapter[MIN(len, sizeof(l->adapter) - 1)] = '\0';
	l->port_cnt = l->peer_cnt = l->port_more = l->peer_more = 0;
	for (struct link_port *p = n->ports; p; p = p->next) {
		if (l->port_cnt == PORT_MAX) {
			l->port_more++;
			continue;
		}
		l->port[l->port_cnt] = (struct live_port){p->self, p->peer_cnt, p->stats};
		peer_foreach(p, copy_peer, l);
		l->port_cnt++;
	}
}

/* --- text, without the lock --- */

struct text {
	char *to;
	size_t at, len;
};

static void __printf_like(2, 3) put(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	t->at += (size_t)vsnprintf(t->to + t->at, t->len - t->at, fmt, ap);
	va_end(ap);
	t->at = MIN(t->at, t->len - 1);
}

static void put_port(struct text *t, const struct link_stats *stats)
{
	for (size_t r = 0; r < ARRAY_SIZE(port_row); r++)
		put(t, " %s=%" PRIu64, port_row[r].name, stats_value(stats, port_row[r].off));
}

static void put_all(struct live *l, struct text *t)
{
	char host[64] = "", addr[LINK_ADDR_TEXT], name[64];

	gethostname(host, sizeof(host) - 1);
	snprintf(name, sizeof(name), "%s", program_invocation_short_name);
	for (char *c = name; *c; c++) /* words and lines are what readers cut the text by */
		*c = *c > ' ' && *c < 127 ? *c : '?';
	put(t, "softfabric-live 1 %" PRIu64 "\nprocess pid=%ld host=%s program=%s\n%s\n", l->seq, (long)l->owner, host,
	    name, l->adapter);
	for (uint32_t i = 0; i < l->port_cnt; i++) {
		put(t, "port n=%u addr=%s peers=%u", i, link_addr_text(&l->port[i].self, addr), l->port[i].peer_cnt);
		put_port(t, &l->port[i].stats);
		put(t, "\n");
	}
	for (uint32_t i = 0; i < l->peer_cnt; i++) {
		const struct live_peer *p = &l->peer[i];

		put(t, "peer port=%u addr=%s path=%s sent=%u waiting=%u rtt_ns=%u status=%d\n", p->port,
		    link_addr_text(&p->addr, addr), p->path.name ? p->path.name : "none", p->path.sent, p->path.waiting,
		    p->path.rtt_ns, p->path.status);
	}
	t->len = TEXT_MAX; /* without its end nobody believes the rest */
	put(t, "more ports=%u peers=%u\nend %" PRIu64 "\n", l->port_more, l->peer_more, l->seq);
}

void live_tick(struct link_node *n)
{
	struct live *l = n->live;
	struct text t = {l->text, 0, TEXT_MAX - END_MAX};
	uint64_t now = clk_now_ns(&n->clk);

	if (now < l->due_ns || !lock_try(n->lock))
		return;
	copy_all(n, l);
	lock_release(n->lock);
	l->due_ns = now + LIVE_NS;
	l->seq++;
	put_all(l, &t);
	/* Nobody is told when a write fails: the next one is due soon, and readers see that the number stands. */
	if (limits_file(t.at) && pwrite(l->fd, t.to, t.at, 0) == (ssize_t)t.at && ftruncate(l->fd, (off_t)t.at))
		l->due_ns += LIVE_NS;
}

/* The adapter's own line begins with its name, the process, the host: so does that of its port. */
void live_port_end(const struct link_port *p)
{
	const struct link_node *n = p->node;
	char own[LINE_MAX_] = "", line[LINE_MAX_], addr[LINK_ADDR_TEXT];
	struct text t = {line, 0, sizeof(line)};
	const char *from;
	size_t len = 0;

	if (!n->live || !n->attr.tell || !(p->stats.tx_frames + p->stats.rx_frames))
		return;
	n->attr.tell(n->attr.ctx, own, sizeof(own));
	from = strchr(own, ' ');
	for (unsigned word = 0; from && word < 3; word++)
		len += 1 + strcspn(from + len + 1, " ");
	if (!from)
		return;
	put(&t, "softfabric-port:%.*s addr=%s", (int)len, from, link_addr_text(&p->self, addr));
	put_port(&t, &p->stats);
	stats_report(line);
}

/* --- the file --- */

static bool file_lock(int fd)
{
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return !fcntl(fd, F_SETLK, &all);
}

/* What killed processes have left. One of our own is not opened: closing it would drop its lock. */
static void reap(const char *dir)
{
	char own[48];
	struct dirent *e;
	DIR *d = opendir(dir);
	int fd;

	snprintf(own, sizeof(own), LIVE_PREFIX "%ld.", (long)getpid());
	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, LIVE_PREFIX, strlen(LIVE_PREFIX)) || !strncmp(e->d_name, own, strlen(own)))
			continue;
		fd = openat(dirfd(d), e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (file_lock(fd))
			unlinkat(dirfd(d), e->d_name, 0);
		close(fd);
	}
	if (d)
		closedir(d);
}

/* Who reaps may have taken the new file for a left one before it was locked: it has no name then, and is made again. */
static int file_open(struct live *l, const char *dir)
{
	struct stat st;

	for (unsigned i = 0; i < LIVE_TRIES; i++) {
		snprintf(l->path, sizeof(l->path), "%s/" LIVE_PREFIX "%ld.%u", dir, (long)getpid(), i);
		l->fd = open(l->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (l->fd < 0 && errno == EEXIST)
			continue;
		if (l->fd < 0)
			return -errno;
		if (file_lock(l->fd) && !fstat(l->fd, &st) && st.st_nlink)
			return 0;
		close(l->fd);
	}
	return -EEXIST;
}

void live_open(struct link_node *n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *dir = secure_getenv(LIVE_ENV);
	struct live *l;
	int rc = -ENOMEM;

	if (!dir || !*dir)
		return;
	pthread_once(&once, live_watch_fork);
	reap(dir);
	l = mem_alloc(sizeof(*l));
	if (l)
		rc = strlen(dir) < sizeof(l->path) - 64 ? file_open(l, dir) : -ENAMETOOLONG;
	if (rc) {
		LOG_WARN(LIVE_ENV ": no file can be made in %s: %s", dir, strerror(-rc));
		mem_free(l);
		return;
	}
	l->owner = getpid();
	pthread_mutex_lock(&g_live_mutex);
	l->next = g_live;
	g_live = l;
	pthread_mutex_unlock(&g_live_mutex);
	n->live = l;
}

void live_close(struct link_node *n)
{
	struct live **pp = &g_live, *l = n->live;

	if (!l)
		return;
	n->live = NULL;
	pthread_mutex_lock(&g_live_mutex);
	while (*pp && *pp != l)
		pp = &(*pp)->next;
	if (*pp)
		*pp = l->next;
	pthread_mutex_unlock(&g_live_mutex);
	if (l->owner == getpid())
		unlink(l->path);
	close(l->fd);
	mem_free(l);
}

/* The number behind the text in @fd, which is written last, and so has to be read first; 0: there is none. */
static uint64_t number_at_end(int fd)
{
	char text[END_MAX + 1], *end;
	uint64_t number = 0;
	struct stat st;
	ssize_t len;

	if (fstat(fd, &st))
		return 0;
	len = pread(fd, text, END_MAX, st.st_size > (off_t)END_MAX ? st.st_size - (off_t)END_MAX : 0);
	text[MAX(len, 0)] = '\0';
	end = strstr(text, "\nend ");
	return end && sscanf(end, "\nend %" SCNu64, &number) == 1 ? number : 0;
}

/* What the adapter of @l told last: nobody closes it any more. From the file, since its thread may write on. */
static void report_last(const struct live *l)
{
	char text[2 * LINE_MAX_], *line;
	uint64_t begin = 0, end = 1;
	ssize_t len;

	for (int i = 0; i < LAST_TRIES && begin != end; i++) {
		end = number_at_end(l->fd);
		len = pread(l->fd, text, sizeof(text) - 1, 0);
		text[MAX(len, 0)] = '\0';
		if (sscanf(text, "softfabric-live 1 %" SCNu64, &begin) != 1)
			return;
	}
	line = strstr(text, "softfabric-stats: ");
	if (begin != end || !line)
		return;
	line[strcspn(line, "\n")] = '\0';
	stats_report(line);
}

/* exit() with nodes open; a child's exit leaves its parent's files alone. */
static __attribute__((destructor)) void live_at_exit(void)
{
	if (!exit_lock(&g_live_mutex))
		return;
	for (struct live *l = g_live; l; l = l->next) {
		if (l->owner != getpid())
			continue;
		unlink(l->path);
		report_last(l);
	}
	pthread_mutex_unlock(&g_live_mutex);
}
