// SPDX-License-Identifier: BSD-2-Clause
// Adapter, reliability and protocols of the opx provider for the tests of its objects.
#include "opx_fake.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kit/stubs.h"

struct fake_opx g_fake;
_Thread_local int g_fake_spent;
static pthread_mutex_t g_ctxts_lock = PTHREAD_MUTEX_INITIALIZER; /* threads may open contexts at the same time */

struct hfi { struct hfi_open_attr attr; struct hfi_unit_attr unit; };
struct hfi_ctxt { struct hfi *hfi; struct hfi_ctxt_info info; };

static char log_text[16384];

static void log_take(enum log_level lvl, const char *func, int line, const char *msg)
{
	size_t len = strlen(log_text);

	(void)func, (void)line;
	if (lvl == LOG_LVL_WARN)
		snprintf(log_text + len, sizeof(log_text) - len, "%s\n", msg);
}

int fake_log_cnt(const char *text)
{
	int n = 0;

	for (const char *p = log_text; (p = strstr(p, text)); p++)
		n++;
	return n;
}

void fake_reset(int cnt)
{
	for (size_t i = 0; i < opx_param_cnt; i++) {
		char name[64] = "FI_OPX_";
		size_t at = strlen(name);

		for (const char *p = opx_param_tab[i].name; *p; p++)
			name[at++] = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
		name[at] = '\0';
		unsetenv(name);
	}
	unsetenv("SLURM_JOB_ID");
	unsetenv("I_MPI_HYDRA_UUID");
	unsetenv("FI_HMEM");
	memset(&g_fake, 0, sizeof(g_fake));
	log_text[0] = '\0';
	log_set_hook(log_take);
	g_fake.next_ns = CLK_NEVER;
	g_fake.unit_cnt = cnt;
	for (int i = 0; i < cnt; i++) {
		struct hfi_unit_attr *u = &g_fake.unit[i];

		*u = (struct hfi_unit_attr){
			.unit = i, .lid = (uint16_t)(i + 1), .state = HFI_PORT_ACTIVE, .numa_node = -1, .nctxts = 8,
			.credits = 160, .mtu = 8192, .speed_bps = 100000000000, .vendor_id = 0x8086,
			.device_id = 0x24f0, .revision = 0x11, .rcvhdrq_cnt = 2048, .pkeys = {HFI_PKEY_DEFAULT},
			.pkey_cnt = 1,
		};
		snprintf(u->name, sizeof(u->name), "hfi1_%d", i);
	}
}

int fake_group_setup(void **state)
{
	(void)state;
	return !fi_prov_ini();
}

void fake_open(struct fake_dom *f, struct fi_info *hints)
{
	assert_int_equal(opx_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &f->info), 0);
	fi_freeinfo(hints);
	assert_int_equal(opx_fabric_open(f->info->fabric_attr, &f->fabric, NULL), 0);
	assert_int_equal(fi_domain(f->fabric, f->info, &f->domain, NULL), 0);
}

void fake_close(struct fake_dom *f)
{
	assert_int_equal(fi_close(&f->domain->fid), 0);
	assert_int_equal(fi_close(&f->fabric->fid), 0);
	fi_freeinfo(f->info);
}

/* --- the adapter --------------------------------------------------------------------------------- */

int hfi_unit_cnt(char *err, size_t err_len)
{
	if (!g_fake.unit_cnt)
		snprintf(err, err_len, "the room has none");
	return g_fake.unit_cnt;
}

int hfi_unit_query(int unit, struct hfi_unit_attr *out)
{
	if (unit < 0 || unit >= g_fake.unit_cnt)
		return -ENODEV;
	*out = g_fake.unit[unit];
	return 0;
}

int hfi_unit_free_ctxts(int unit)
{
	int n = 0;

	pthread_mutex_lock(&g_ctxts_lock);
	for (uint32_t i = 0; i < g_fake.unit[unit].nctxts; i++)
		n += !g_fake.busy[unit][i];
	pthread_mutex_unlock(&g_ctxts_lock);
	return n;
}

int hfi_open(const struct hfi_open_attr *attr, struct hfi **out)
{
	struct hfi *h = mem_alloc(sizeof(*h));

	h->attr = *attr;
	h->unit = g_fake.unit[attr->unit];
	*out = h;
	return 0;
}

void hfi_close(struct hfi *hfi)
{
	mem_free(hfi);
}

const struct hfi_unit_attr *hfi_attr(const struct hfi *hfi)
{
	return &hfi->unit;
}

void hfi_idle(struct hfi *hfi)
{
	(void)hfi;
}

uint64_t hfi_now_ns(const struct hfi *hfi)
{
	(void)hfi;
	return g_fake.now_ns += 1000000;
}

uint64_t hfi_linger_ns(const struct hfi *hfi)
{
	(void)hfi;
	return 50000000;
}

static int ctxt_open(struct hfi *hfi, const struct hfi_ctxt_attr *attr, struct hfi_ctxt **out)
{
	int unit = hfi->unit.unit, at = attr->ctxt, ret = g_fake.open_err;
	struct hfi_ctxt *c;

	g_fake_spent++;
	g_fake.open_err = 0;
	if (ret)
		return ret;
	if (hfi->unit.state != HFI_PORT_ACTIVE)
		return -ENETDOWN;
	for (int i = 0; at < 0 && i < (int)hfi->unit.nctxts; i++)
		if (!g_fake.busy[unit][i])
			at = i;
	if (at < 0 || at >= (int)hfi->unit.nctxts || g_fake.busy[unit][at])
		return -EBUSY;
	g_fake.busy[unit][at] = true;
	g_fake.ctxt = *attr;
	g_fake.opened++;
	g_fake_spent += 9; /* what is refused is refused at once */
	c = mem_alloc(sizeof(*c));
	c->hfi = hfi;
	c->info = (struct hfi_ctxt_info){
		.unit = (uint16_t)unit, .ctxt = (uint16_t)at, .send_ctxt = (uint16_t)(at + 1), .lid = hfi->unit.lid,
		.credits = hfi->unit.credits, .mtu = hfi->unit.mtu,
	};
	*out = c;
	return 0;
}

int hfi_ctxt_open(struct hfi *hfi, const struct hfi_ctxt_attr *attr, struct hfi_ctxt **out)
{
	int rc;

	if (g_fake.turn)
		g_fake.turn();
	pthread_mutex_lock(&g_ctxts_lock);
	rc = ctxt_open(hfi, attr, out);
	pthread_mutex_unlock(&g_ctxts_lock);
	return rc;
}

void hfi_ctxt_close(struct hfi_ctxt *c)
{
	lock_assert_held(c->hfi->attr.lock);
	pthread_mutex_lock(&g_ctxts_lock);
	g_fake.busy[c->info.unit][c->info.ctxt] = false;
	g_fake.opened--;
	pthread_mutex_unlock(&g_ctxts_lock);
	g_fake_spent += 5;
	mem_free(c);
}

const struct hfi_ctxt_info *hfi_ctxt_info(const struct hfi_ctxt *c)
{
	return &c->info;
}

bool hfi_ctxt_is_polled(const struct hfi_ctxt *c)
{
	(void)c;
	return false;
}

bool opx_rel_is_running(const struct opx_rel *rel)
{
	(void)rel;
	return false;
}

int hfi_ctxt_poll(struct hfi_ctxt *c)
{
	cpu_set_t cpus;
	sigset_t mask;

	lock_assert_held(c->hfi->attr.lock);
	prctl(PR_GET_NAME, g_fake.thread);
	sigemptyset(&mask);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	g_fake.sigmask_blocked = 0;
	for (int i = 1; i < 32; i++)
		g_fake.sigmask_blocked |= sigismember(&mask, i) == 1 ? 1ULL << i : 0;
	sched_getaffinity(0, sizeof(cpus), &cpus);
	g_fake.cpus = CPU_COUNT(&cpus);
	atomic_fetch_add(&g_fake.polls, 1);
	g_fake.is_armed = false;
	return 0;
}

int hfi_ctxt_wait_fd(struct hfi_ctxt *c)
{
	(void)c;
	return g_fake.wait_fd ? g_fake.wait_fd : -ENOTSUP;
}

bool hfi_ctxt_calm(struct hfi_ctxt *c, struct calm *calm, uint32_t passed)
{
	(void)c, (void)calm, (void)passed;
	return false;
}

int hfi_ctxt_arm(struct hfi_ctxt *c)
{
	(void)c;
	g_fake.is_armed = true;
	return 0;
}

bool hfi_ctxt_is_armed(const struct hfi_ctxt *c)
{
	(void)c;
	return g_fake.is_armed;
}

void hfi_doorbell(struct hfi_ctxt *c)
{
	(void)c;
}

/* --- reliability, peers, protocols --------------------------------------------------------------- */

struct opx_rel { int x; };

void opx_rel_rx(struct opx_rel *rel, const struct hfi_pkt *pkt)
{
	(void)rel, (void)pkt;
}

bool opx_rel_service(struct opx_rel *rel, const struct hfi_pkt *pkt)
{
	(void)rel, (void)pkt;
	return true;
}

void opx_rel_gone(void *rel, struct hfi_dst *dst, int status)
{
	(void)rel, (void)dst, (void)status;
}

bool opx_rel_drained(const struct opx_rel *rel)
{
	(void)rel;
	return !g_fake.undrained;
}

int opx_rel_progress(struct opx_rel *rel)
{
	(void)rel;
	return 0;
}

uint64_t opx_rel_next_ns(const struct opx_rel *rel)
{
	(void)rel;
	return g_fake.next_ns;
}

int opx_peers_init(struct opx_ep *ep)
{
	int ret = g_fake.peers_err;

	g_fake.peers_err = 0;
	if (ret)
		return ret;
	ep->rel = mem_alloc(sizeof(*ep->rel));
	g_fake.peers++;
	return 0;
}

void opx_peers_fini(struct opx_ep *ep)
{
	mem_free(ep->rel);
	ep->rel = NULL;
	g_fake.peers--;
}

bool opx_peers_leave(struct opx_ep *ep, uint64_t dir)
{
	(void)ep, (void)dir;
	return false;
}

void opx_peers_forget(struct opx_ep *ep, fi_addr_t fi_addr)
{
	(void)ep, (void)fi_addr;
	g_fake.forgotten++;
}

__attribute__((weak)) int opx_pump(struct opx_ep *ep)
{
	(void)ep;
	return 0;
}

void opx_on_copy(void *ctx, void *cookie, int status)
{
	(void)ctx, (void)cookie, (void)status;
}

__attribute__((weak)) const char *opx_strerror(int prov_errno)
{
	(void)prov_errno;
	return "fake";
}

int opx_mr_open(struct kit_domain *d, const struct kit_mr_req *req, struct fid_mr **out)
{
	(void)d, (void)req, (void)out;
	return -FI_ENOSYS;
}

const struct kit_stats_group opx_stats_groups[] = {{0}};

int opx_domain_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	(void)fid, (void)name, (void)flags, (void)ops, (void)context;
	return -FI_EINVAL;
}

void opx_stats_closed(const struct opx_ep *ep)
{
	(void)ep;
}

int opx_query_atomic(struct fid_domain *domain, enum fi_datatype dt, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags)
{
	(void)domain, (void)dt, (void)op, (void)attr, (void)flags;
	return -FI_EOPNOTSUPP;
}

const struct kit_srx_ops opx_srx_ops;

void opx_stats_print(const struct opx_domain *d)
{
	(void)d;
}

static ssize_t some_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	struct opx_ep *ep = opx_ep_of(fid);
	struct iovec iov = {buf, len};
	struct kit_recv_args a = {.iov = &iov, .desc = &desc, .iov_cnt = 1, .src = FI_ADDR_UNSPEC, .context = context,
				  .ignore = UINT64_MAX};
	int ret = opx_ep_state(ep);

	(void)src;
	return ret ? ret : kit_srx_recv(&ep->srx, false, &a);
}

static ssize_t some_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	(void)buf, (void)len, (void)desc, (void)dest, (void)context;
	return opx_ep_state(opx_ep_of(fid));
}

const struct fi_ops_msg opx_msg_ops = {.size = sizeof(struct fi_ops_msg), .send = some_send, .recv = some_recv};
const struct fi_ops_msg opx_msg_tx_ops = {.size = sizeof(struct fi_ops_msg), .send = some_send, KIT_NO_MSG_RX};
const struct fi_ops_msg opx_msg_rx_ops = {.size = sizeof(struct fi_ops_msg), KIT_NO_MSG_TX, .recv = some_recv};
const struct fi_ops_tagged opx_tagged_ops = {.size = sizeof(struct fi_ops_tagged)};
const struct fi_ops_tagged opx_tagged_tx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_NO_TAGGED_RX};
const struct fi_ops_tagged opx_tagged_rx_ops = {.size = sizeof(struct fi_ops_tagged), KIT_NO_TAGGED_TX};
const struct fi_ops_rma opx_rma_ops = {.size = sizeof(struct fi_ops_rma)};
const struct kit_atomic_ops opx_atomic_ops = {.ops = {.size = sizeof(struct fi_ops_atomic)}};
