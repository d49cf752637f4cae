// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo with all kinds of hints, names of endpoints, endpoint options.
#include "conform.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask(struct ct *c, struct fi_info *hints, struct fi_info **info)
{
	*info = NULL;
	return fi_getinfo(c->want.version ? c->want.version : FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
}

/* The hint is refused with -FI_ENODATA, or honoured in what comes back. */
static void refused(struct ct *c, struct fi_info *hints, const char *what)
{
	struct fi_info *info;
	int ret = ask(c, hints, &info);

	CHECK(ret == -FI_ENODATA, "%s: %s", what, ct_err(ret));
	fi_freeinfo(hints);
}

static struct fi_info *granted(struct ct *c, struct fi_info *hints, const char *what)
{
	struct fi_info *info;
	int ret = ask(c, hints, &info);

	CHECK(!ret && info, "%s: %s", what, ct_err(ret));
	for (struct fi_info *i = info; i; i = i->next)
		CHECK(!strcmp(i->fabric_attr->prov_name, c->prov), "%s: provider %s", what, i->fabric_attr->prov_name);
	fi_freeinfo(hints);
	return info;
}

/* Every API version that software in the field asks for, with and without hints. */
static void info_versions(struct ct *c)
{
	static const uint32_t v[] = {0,
				     FI_VERSION(1, 0),
				     FI_VERSION(1, 1),
				     FI_VERSION(1, 4),
				     FI_VERSION(1, 5),
				     FI_VERSION(1, 6),
				     FI_VERSION(1, 9),
				     FI_VERSION(1, 14),
				     FI_VERSION(1, 17)};

	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct fi_info *info = NULL, *h;

		h = fi_allocinfo();
		if (v[i] < c->p->min_version) {
			h->fabric_attr->prov_name = strdup(c->prov);
			RET(-FI_ENODATA, fi_getinfo(v[i], NULL, NULL, 0, h, &info));
			fi_freeinfo(h);
			continue;
		}
		OK(fi_getinfo(v[i], NULL, NULL, 0, NULL, &info));
		CHECK(info && info->fabric_attr && info->domain_attr && info->tx_attr && info->rx_attr && info->ep_attr,
		      "parts missing");
		CHECK(info->fabric_attr->name && info->domain_attr->name && info->fabric_attr->prov_name,
		      "names missing");
		fi_freeinfo(info);
		h->fabric_attr->prov_name = strdup(c->prov);
		h->mode = ~0ULL;
		OK(fi_getinfo(v[i], NULL, NULL, 0, h, &info));
		for (struct fi_info *p = info; p; p = p->next)
			if (v[i] < FI_VERSION(1, 5))
				CHECK(p->domain_attr->mr_mode == KIT_MR_BASIC ||
					      p->domain_attr->mr_mode == KIT_MR_SCALABLE,
				      "mr_mode %#x for version %#x", p->domain_attr->mr_mode, v[i]);
		fi_freeinfo(info);
		fi_freeinfo(h);
	}
}

/* Hints whose sub-structures are all absent, one at a time and together. */
static void info_null_parts(struct ct *c)
{
	for (unsigned mask = 0; mask < 32; mask++) {
		struct fi_info h = {.caps = FI_MSG, .mode = ~0ULL}, *info = NULL, *full = fi_allocinfo();

		full->fabric_attr->prov_name = strdup(c->prov);
		h.tx_attr = mask & 1 ? full->tx_attr : NULL;
		h.rx_attr = mask & 2 ? full->rx_attr : NULL;
		h.ep_attr = mask & 4 ? full->ep_attr : NULL;
		h.domain_attr = mask & 8 ? full->domain_attr : NULL;
		h.fabric_attr = mask & 16 ? full->fabric_attr : NULL;
		OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, &h, &info));
		fi_freeinfo(info);
		fi_freeinfo(full);
	}
}

static void info_caps(struct ct *c)
{
	struct fi_info *all = granted(c, ct_hints(c), "plain"), *info;
	uint64_t caps = all->caps;

	for (unsigned bit = 0; bit < 58; bit++) {
		struct fi_info *h = ct_hints(c);
		uint64_t one = 1ULL << bit;

		h->caps = one;
		if (caps & one) {
			info = granted(c, h, "an advertised capability");
			CHECK(info->caps & one, "asked for bit %u, got %#llx", bit, (unsigned long long)info->caps);
			fi_freeinfo(info);
		} else if (ask(c, h, &info)) {
			fi_freeinfo(h);
		} else {
			CHECK(info->caps & one, "bit %u silently dropped", bit);
			fi_freeinfo(info);
			fi_freeinfo(h);
		}
	}
	fi_freeinfo(all);
}

static void info_limits(struct ct *c)
{
	struct fi_info *all, *h;

	/* else there is no ordered size */
	c->want.msg_order = FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	all = granted(c, ct_hints(c), "plain");
	if (c->p->tx_max)
		all->tx_attr->size = c->p->tx_max;
	if (c->p->rx_max)
		all->rx_attr->size = c->p->rx_max;
	if (c->p->has & CT_HAS_CONTEXTS) { /* how many there are may be told only to those who ask for more than one */
		h = ct_hints(c), h->ep_attr->tx_ctx_cnt = h->ep_attr->rx_ctx_cnt = 2;
		h = granted(c, h, "two contexts");
		all->domain_attr->max_ep_tx_ctx = h->domain_attr->max_ep_tx_ctx;
		all->domain_attr->max_ep_rx_ctx = h->domain_attr->max_ep_rx_ctx;
		fi_freeinfo(h);
	}
	all->ep_attr->tx_ctx_cnt = all->domain_attr->max_ep_tx_ctx;
	all->ep_attr->rx_ctx_cnt = all->domain_attr->max_ep_rx_ctx;

#define MORE(what_, field_)                                                                        \
	do {                                                                                       \
		h = ct_hints(c);                                                                   \
		h->field_ = all->field_;                                                           \
		fi_freeinfo(granted(c, h, what_));                                                 \
		if (all->field_ + 1 > all->field_) {                                               \
			h = ct_hints(c);                                                           \
			h->field_ = all->field_ + 1;                                               \
			refused(c, h, what_ " and one more");                                      \
		}                                                                                  \
	} while (0)
	MORE("inject_size", tx_attr->inject_size);
	MORE("tx size", tx_attr->size);
	MORE("rx size", rx_attr->size);
	MORE("tx iov_limit", tx_attr->iov_limit);
	MORE("rx iov_limit", rx_attr->iov_limit);
	MORE("rma_iov_limit", tx_attr->rma_iov_limit);
	MORE("max_msg_size", ep_attr->max_msg_size);
	MORE("cq_data_size", domain_attr->cq_data_size);
	MORE("mr_iov_limit", domain_attr->mr_iov_limit);
	MORE("tx_ctx_cnt", ep_attr->tx_ctx_cnt);
	MORE("rx_ctx_cnt", ep_attr->rx_ctx_cnt);
	MORE("max_order_raw_size", ep_attr->max_order_raw_size);
	MORE("max_order_war_size", ep_attr->max_order_war_size);
	MORE("max_order_waw_size", ep_attr->max_order_waw_size);
#undef MORE
	fi_freeinfo(all);
}

static void info_attrs(struct ct *c)
{
	struct fi_info *h, *info;

	h = ct_hints(c), h->ep_attr->type = FI_EP_MSG;
	refused(c, h, "FI_EP_MSG");
	h = ct_hints(c), h->ep_attr->protocol = FI_PROTO_IWARP;
	refused(c, h, "a foreign protocol");
	h = ct_hints(c), h->addr_format = FI_SOCKADDR_IN6;
	refused(c, h, "a foreign address format");
	h = ct_hints(c), h->domain_attr->name = strdup("no such domain");
	refused(c, h, "a foreign domain");
	h = ct_hints(c), h->fabric_attr->name = strdup("no such fabric");
	refused(c, h, "a foreign fabric");
	h = ct_hints(c), h->tx_attr->msg_order = 1ULL << 60;
	refused(c, h, "an unknown order");
	h = ct_hints(c), h->tx_attr->comp_order = KIT_ORDER_STRICT | KIT_ORDER_DATA;
	refused(c, h, "a completion order");
	for (int t = FI_THREAD_UNSPEC; t <= FI_THREAD_ENDPOINT; t++) {
		h = ct_hints(c), h->domain_attr->threading = (enum fi_threading)t;
		info = granted(c, h, "a threading level");
		CHECK(!t || (int)info->domain_attr->threading == t, "threading %d for %d",
		      (int)info->domain_attr->threading, t);
		fi_freeinfo(info);
	}
	for (int p = FI_PROGRESS_UNSPEC; p <= FI_PROGRESS_MANUAL; p++) {
		h = ct_hints(c), h->domain_attr->data_progress = h->domain_attr->control_progress = (enum fi_progress)p;
		if (p == FI_PROGRESS_AUTO && !(c->p->has & CT_HAS_AUTO)) {
			refused(c, h, "automatic progress");
			continue;
		}
		info = granted(c, h, "a progress model");
		CHECK(!p || (int)info->domain_attr->data_progress == p, "progress %d for %d",
		      (int)info->domain_attr->data_progress, p);
		fi_freeinfo(info);
	}
	for (int r = FI_RM_UNSPEC; r <= FI_RM_ENABLED; r++) {
		h = ct_hints(c), h->domain_attr->resource_mgmt = (enum fi_resource_mgmt)r;
		fi_freeinfo(granted(c, h, "a resource management"));
	}
	for (int a = FI_AV_UNSPEC; a <= FI_AV_TABLE; a++) {
		h = ct_hints(c), h->domain_attr->av_type = (enum fi_av_type)a;
		fi_freeinfo(granted(c, h, "an AV type"));
	}
}

/* What Open MPI (mtl, btl) and MPICH ask for is granted. */
static void info_mpi(struct ct *c)
{
	struct fi_info *h = fi_allocinfo(), *info;

	h->mode = FI_CONTEXT | FI_CONTEXT2;
	h->ep_attr->type = FI_EP_RDM;
	h->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
	h->tx_attr->msg_order = h->rx_attr->msg_order = FI_ORDER_SAS;
	h->tx_attr->op_flags = h->rx_attr->op_flags = FI_COMPLETION;
	h->domain_attr->threading = FI_THREAD_DOMAIN;
	h->domain_attr->av_type = FI_AV_MAP;
	h->domain_attr->resource_mgmt = FI_RM_ENABLED;
	h->domain_attr->cq_data_size = 4;
	h->fabric_attr->prov_name = strdup(c->prov);
	c->want.version = FI_VERSION(1, 5);
	info = granted(c, h, "Open MPI's mtl");
	CHECK(info->domain_attr->threading == FI_THREAD_DOMAIN || info->domain_attr->threading == FI_THREAD_SAFE,
	      "threading %d", (int)info->domain_attr->threading);
	CHECK(info->tx_attr->msg_order & FI_ORDER_SAS, "order");
	fi_freeinfo(info);

	h = fi_allocinfo();
	h->ep_attr->type = FI_EP_RDM;
	h->caps = FI_RMA | FI_ATOMIC;
	h->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | (int)c->p->btl_mr_mode;
	h->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	h->tx_attr->iov_limit = 1;
	h->fabric_attr->prov_name = strdup(c->prov);
	info = granted(c, h, "Open MPI's btl");
	CHECK(!(info->domain_attr->mr_mode &
		~(FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | (int)c->p->btl_mr_mode)),
	      "mr_mode %#x", info->domain_attr->mr_mode);
	CHECK(info->tx_attr->op_flags & FI_DELIVERY_COMPLETE, "op_flags");
	fi_freeinfo(info);
}

/* An info survives fi_dupinfo and is all its own. */
static void info_dup(struct ct *c)
{
	struct fi_info *a = granted(c, ct_hints(c), "plain"), *b = fi_dupinfo(a);

	CHECK(b, "fi_dupinfo");
	CHECK(b->domain_attr->name != a->domain_attr->name && !strcmp(b->domain_attr->name, a->domain_attr->name),
	      "domain name");
	CHECK(!a->nic || (b->nic && b->nic != a->nic), "the nic is shared between copies");
	CHECK(strlen(fi_tostr(a, FI_TYPE_INFO)) > 100, "fi_tostr");
	fi_freeinfo(a);
	if (b->nic)
		CHECK(b->nic->device_attr && b->nic->bus_attr && b->nic->link_attr &&
			      b->nic->link_attr->state == FI_LINK_UP,
		      "nic");
	fi_freeinfo(b);
}

/* --- names --------------------------------------------------------------------------------------- */

static void name_get(struct ct *c)
{
	uint8_t a[256], b[256];
	size_t len, full;

	ct_open(c);
	full = sizeof(a);
	OK(fi_getname(&c->ep->fid, a, &full));
	for (len = 0; len < full; len++) {
		size_t n = len;

		memset(b, 0xcc, sizeof(b));
		RET(-FI_ETOOSMALL, fi_getname(&c->ep->fid, b, &n));
		CHECK(n == full, "needs %zu, said %zu", full, n);
		CHECK(b[len] == 0xcc, "written beyond %zu bytes", len);
	}
	len = full;
	OK(fi_getname(&c->ep->fid, b, &len));
	CHECK(len == full && !memcmp(a, b, full), "another name");
	CHECK(fi_setname(&c->ep->fid, a, full) < 0, "an enabled endpoint is renamed");
	ct_close(c);
}

/* --- options ------------------------------------------------------------------------------------- */

static void opt_min_multi_recv(struct ct *c)
{
	size_t v = 0, len = sizeof(v);

	ct_open(c);
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, &len));
	CHECK(v && len == sizeof(v), "default %zu", v);
	v = 1234;
	OK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, sizeof(v)));
	v = 0;
	OK(fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, &len));
	CHECK(v == 1234, "%zu", v);
	CHECK(fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, 3) == -FI_EINVAL,
	      "3 bytes for a size");
	len = 3;
	RET(-FI_ETOOSMALL, fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &v, &len));
	len = sizeof(v);
	RET(-FI_ENOPROTOOPT, fi_getopt(&c->ep->fid, FI_OPT_ENDPOINT, 4711, &v, &len));
	RET(-FI_ENOPROTOOPT, fi_setopt(&c->ep->fid, FI_OPT_ENDPOINT, 4711, &v, sizeof(v)));
	RET(-FI_ENOPROTOOPT, fi_getopt(&c->ep->fid, 99, FI_OPT_MIN_MULTI_RECV, &v, &len));
	ct_close(c);
}

/* fi_control: an endpoint's default flags are read and changed. */
static void opt_flags(struct ct *c)
{
	uint64_t flags = FI_TRANSMIT;

	ct_open(c);
	OK(fi_control(&c->ep->fid, FI_GETOPSFLAG, &flags));
	flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
	OK(fi_control(&c->ep->fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	OK(fi_control(&c->ep->fid, FI_GETOPSFLAG, &flags));
	CHECK(flags & FI_DELIVERY_COMPLETE, "flags %#llx", (unsigned long long)flags);
	ct_sweep(c, false, CT_SEND, 0);
	ct_close(c);
}

/* Hints that name the provider and offer every mode. */
static struct fi_info *named(struct ct *c)
{
	struct fi_info *hints = fi_allocinfo();

	hints->fabric_attr->prov_name = strdup(c->prov);
	hints->mode = ~0ULL;
	return hints;
}

/* What a library logs during one fi_getinfo with @hints, which are freed. Return: its result. */
static int ask_aloud(struct ct *c, struct fi_info *hints, char *log, size_t size)
{
	struct fi_info *info = NULL;
	FILE *file = tmpfile();
	int saved = dup(STDERR_FILENO), ret;
	size_t got;

	CHECK(file && saved >= 0, "no temporary file");
	dup2(fileno(file), STDERR_FILENO);
	ret = ask(c, hints, &info);
	dup2(saved, STDERR_FILENO);
	close(saved);
	fi_freeinfo(info);
	fi_freeinfo(hints);
	rewind(file);
	got = fread(log, 1, size - 1, file);
	log[got] = '\0';
	fclose(file);
	return ret;
}

/* Settings are read once per process, so each has one of its own. */
static void bad_setting(struct ct *c, const char *name, const char *value)
{
	char log[65536];
	pid_t pid = fork();
	int st;

	if (!pid) {
		setenv(name, value, 1);
		CHECK(ask_aloud(c, named(c), log, sizeof(log)) == -FI_ENODATA, "%s=%s is taken",
		      name, value);
		CHECK(strstr(log, name), "of %s=%s the log says nothing: %s", name, value, log);
		exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &st, 0) == pid && WIFEXITED(st) && !WEXITSTATUS(st), "%s=%s: see above", name,
	      value);
}

/* Settings that mean nothing: no adapter is offered with half of them in force, and a line says so. */
static void info_bad_room(struct ct *c)
{
	static const char *const bad[] = {"loss=banana",	 "nosuchkey=1",	  "loss=1%;;=",
					  "loss=\x01\xff",	 "delay=-5us",	  "dead_after=99999999999999999999s",
					  "partition=5ms",	 "%s%s%n=1",	  "seed",
					  "key=/nowhere/at/all", "key=/dev/zero", "key=/proc/self/exe",
					  "secrecy=yes"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		bad_setting(c, "SOFTFABRIC_NET", bad[i]);
	if (!strcmp(c->prov, "opx"))
		bad_setting(c, "SOFTFABRIC_OPX", "state=steam");
	else
		bad_setting(c, !strcmp(c->prov, "efa") ? "SOFTFABRIC_EFA" : "SOFTFABRIC_CXI", "gen=steam");
}

/* A parameter that cannot be read is left at its default, and a line says so. */
static void info_bad_param(struct ct *c)
{
	char log[65536];

	RET(0, ask_aloud(c, named(c), log, sizeof(log)));
	CHECK(strstr(log, "_SIZE=\"banana\"") || strstr(log, "_BYTES=\"banana\""), "the log says: %s", log);
	CHECK(strstr(log, "ignored"), "the log says: %s", log);
}

/* @hints are refused, and the log says what @want says, once, if they name the provider. */
static void reason(struct ct *c, struct fi_info *hints, const char *want)
{
	struct fi_info *again = fi_dupinfo(hints), *stranger = fi_dupinfo(hints);
	char log[65536], sign[64];

	snprintf(sign, sizeof(sign), "nothing of %s fits", c->prov);
	free(stranger->fabric_attr->prov_name);
	stranger->fabric_attr->prov_name = NULL;
	ask_aloud(c, stranger, log, sizeof(log)); /* other providers may have something */
	CHECK(!strstr(log, sign), "%s: hints that name nobody: %s", want, log);
	RET(-FI_ENODATA, ask_aloud(c, hints, log, sizeof(log)));
	CHECK(strstr(log, sign) && strstr(strstr(log, sign), want), "%s: the log says: %s", want,
	      log);
	RET(-FI_ENODATA, ask_aloud(c, again, log, sizeof(log)));
	CHECK(!strstr(log, sign), "%s: said twice: %s", want, log);
}

/* A program that names its provider and gets nothing is told why. */
static void info_reasons(struct ct *c)
{
	struct fi_info *h = named(c);
	const uint8_t addr[3] = {1};

	h->caps = FI_MSG | 1ULL << 60;
	reason(c, h, "caps");
	h = named(c);
	h->ep_attr->type = FI_EP_MSG;
	reason(c, h, "ep_attr->type");
	h = named(c);
	h->domain_attr->name = strdup("nowhere");
	reason(c, h, "\"nowhere\" in the hints");
	h = named(c);
	h->fabric_attr->name = strdup("nothing");
	reason(c, h, "\"nothing\" in the hints");
	h = named(c);
	h->ep_attr->protocol = 4711;
	reason(c, h, "ep_attr->protocol");
	h = named(c);
	h->tx_attr->inject_size = 1 << 20;
	reason(c, h, "inject_size is 1048576 in the hints");
	h = named(c);
	h->src_addr = malloc(sizeof(addr));
	memcpy(h->src_addr, addr, sizeof(addr));
	h->src_addrlen = sizeof(addr);
	reason(c, h, "of the hints");
}

#define INFO (CT_SOLO | CT_COLD)

const struct ct_test info_tests[] = {
	{"info_versions", info_versions, 0, 0, INFO, NULL},
	{"info_null_parts", info_null_parts, 0, 0, INFO, NULL},
	{"info_caps", info_caps, 0, 0, INFO, NULL},
	{"info_limits", info_limits, FI_MSG | FI_RMA | FI_ATOMIC, 0, INFO,
	 "inject_size tx.size rx.size tx.iov_limit rx.iov_limit tx.rma_iov_limit cq_data_size "
	 "mr_iov_limit tx_ctx_cnt rx_ctx_cnt "
	 "max_ep_tx_ctx max_ep_rx_ctx max_order_raw_size max_order_war_size max_order_waw_size "
	 "mr_key_size"},
	{"info_attrs", info_attrs, FI_MSG, 0, INFO, "rm:FI_RM_ENABLED"},
	{"info_mpi", info_mpi, FI_TAGGED | FI_RMA | FI_ATOMIC, 0, INFO,
	 "FI_LOCAL_COMM FI_REMOTE_COMM"},
	{"info_dup", info_dup, FI_MSG, 0, INFO, NULL},
	{"info_bad_room", info_bad_room, 0, 0, INFO, NULL, "FI_LOG_LEVEL=warn"},
	{"info_reasons", info_reasons, 0, 0, INFO, NULL, "FI_LOG_LEVEL=warn"},
	{"info_bad_param", info_bad_param, 0, 0, INFO, NULL,
	 "FI_LOG_LEVEL=warn FI_EFA_TX_SIZE=banana FI_CXI_DEFAULT_TX_SIZE=banana "
	 "FI_OPX_SDMA_MIN_PAYLOAD_BYTES=banana"},
	{"name_get", name_get, FI_MSG, 0, CT_SOLO, NULL},
	{"opt_min_multi_recv", opt_min_multi_recv, FI_MSG | FI_MULTI_RECV, 0, CT_SOLO,
	 "FI_MULTI_RECV"},
	{"opt_flags", opt_flags, FI_MSG, 0, 0, NULL},
	{0},
};
