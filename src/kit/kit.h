// SPDX-License-Identifier: BSD-2-Clause
// The libfabric objects that every provider embeds: fabric, domain, endpoint, AV, CQ, counter, EQ, MR, and what serves
// them.
#ifndef SF_KIT_KIT_H
#define SF_KIT_KIT_H

#include <errno.h> /* fi_log.h wants it and does not include it */
#include <string.h>
#include <sys/types.h>

#include "base/base.h" /* before <rdma/...>, which defines container_of only if nobody has */
#include "base/calm.h"
#include "base/lock.h"
#include "base/slab.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

/*
 * Theory of operation
 *
 * A provider embeds these structs as the first member of its own (struct efa_domain { struct kit_domain kit; ... }) and
 * fills in the ops tables; the kit supplies every libfabric call that does not depend on the device, and error stubs
 * for all the others, so that no operation pointer is ever NULL.
 *
 * Locking: one lock per domain (kit_domain.lock), handed to the device too. fi_* entry points take it; functions named
 * *_locked, the progress function of an endpoint, and everything a device calls back run with it held. EQs and fabrics
 * have their own. Reference counts: an object that others use returns -FI_EBUSY from fi_close.
 */

/*
 * --- what grew between libfabric releases, with the version that introduced it (doc/facts/libfabric.md#what-grew) ---
 */
#define KIT_V(maj_, min_) FI_VERSION(maj_, min_)
/** kit_core_version() - fi_version() of the libfabric that runs us, cached. */
uint32_t kit_core_version(void);

/* --- parameters: one table per provider gives env, fi_info -e and the manual --------------------- */
enum kit_param_type {
	KIT_BOOL, KIT_INT, KIT_SIZE, KIT_STRING,
	/* documented as a number of which only zero or not matters: any number, or a word that KIT_BOOL takes */
	KIT_FLAG
};
struct kit_param {
	const char *name;       /* lower case, without FI_<PROV>_ */
	enum kit_param_type type;
	const char *help;       /* default included */
	/* of the value in the provider's params struct: bool, int64_t, size_t or char[KIT_PARAM_STR]; FLAG: bool */
	size_t off;
	/*
	 * legal range of INT and SIZE; min == max: any. STRING: max, if not 0, is the array's size, <= KIT_PARAM_TEXT
	 */
	int64_t min, max;
};
#define KIT_PARAM_STR  256
#define KIT_PARAM_TEXT 4097
/** kit_params_define() - fi_param_define for each row; once, from fi_prov_ini. */
void kit_params_define(const struct fi_provider *prov, const struct kit_param *tab, size_t cnt);
/**
 * kit_params_load() - Read the environment into @out (defaults already there). A bad value is refused: nothing of that
 * parameter changes, one FI_WARN line says what was expected. Return: 0; -FI_EINVAL if any value was refused.
 */
int kit_params_load(const struct fi_provider *prov, const struct kit_param *tab, size_t cnt, void *out);
bool kit_param_is_set(const struct fi_provider *prov, const char *name);

/* --- log: base/log.h lines go to fi_log of @prov ------------------------------------------------- */
void kit_log_init(const struct fi_provider *prov);
#define KIT_WARN(prov_, subsys_, ...) FI_WARN(prov_, subsys_, __VA_ARGS__)
/**
 * kit_warn_once() - A warning line about the user's settings, which programs make us read again and again: each text
 * once in a process.
 */
void kit_warn_once(const struct fi_provider *prov, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define KIT_INFO(prov_, subsys_, ...) FI_INFO(prov_, subsys_, __VA_ARGS__)

/* --- fi_getinfo ---------------------------------------------------------------------------------- */
/**
 * kit_info_new() - A zeroed fi_info with all attributes, over-allocated so that any core may read its own newer fields.
 * NULL: no memory.
 */
struct fi_info *kit_info_new(void);
/**
 * kit_info_free() - A list of infos goes, as by fi_freeinfo(). That function has a new symbol version with each growth
 * of the structs, so a module that calls it loads only under cores from the release on that it was built with.
 */
void kit_info_free(struct fi_info *info);
/** kit_info_dup() - Deep copy for us to change: names, addresses, nic (through its ops) included. */
struct fi_info *kit_info_dup(const struct fi_info *info);
/**
 * kit_info_check() - Does @have (everything the provider can do on one domain) satisfy @hints under @version? Checks
 * every attribute group (doc/facts/libfabric.md#negotiation-of-registration, upstream's ofi_check_info rules): ep type,
 * caps, mode, addr_format, fabric, domain, ep, rx, tx attributes, MR modes old and new. Return: 0; -FI_ENODATA, with
 * one FI_INFO line that names the attribute, both values and why.
 */
int kit_info_check(const struct fi_provider *prov, uint32_t version, const struct fi_info *have,
		   const struct fi_info *hints);
/**
 * kit_info_no() - One sentence why something does not fit the hints. Every way to -FI_ENODATA has
 * one, here or as a warning. It is an info line. kit_info_other() - The same where the hints or
 * settings name another adapter. Return: -FI_ENODATA.
 */
int kit_info_no(const struct fi_provider *prov, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int kit_info_other(const struct fi_provider *prov, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/** kit_info_no_type() - kit_info_no() of ep_attr->type; @offered: the types that there are. */
int kit_info_no_type(const struct fi_provider *prov, enum fi_ep_type type, const char *offered);
/**
 * kit_info_begin(), kit_info_end() - Around all of a provider's getinfo, which returns @ret. To a
 * program whose hints name @prov its -FI_ENODATA is a surprise: the first reason since
 * kit_info_begin(), other adapters' last, is a warning then, each once in a process. Return: @ret.
 */
#define KIT_WHY_MAX 1280
struct kit_why {
	char text[KIT_WHY_MAX];
	bool is_other;
	uint32_t version; /* of the API that the caller asks for; 0 if it came to no comparison */
};
/* on the caller's stack: little thread-local memory is left to a module that is loaded late */
void kit_info_begin(struct kit_why *why);
int kit_info_end(const struct fi_provider *prov, const struct fi_info *hints, int ret);
/**
 * kit_info_alter() - Narrow a returned info to what the hints asked (caps, orders, sizes, threading, mr_mode by
 * version).
 */
void kit_info_alter(struct fi_info *info, const struct fi_info *hints, uint32_t version);
/** kit_mr_mode_ok() - The MR-mode rule alone (old and new style); exposed for tests. */
bool kit_mr_mode_ok(uint32_t version, const struct fi_info *have, const struct fi_info *hints, int *result_mode);

/* nic: one object per info, with close/control(FI_DUP)/tostr. */
struct kit_nic_attr {
	const char *name, *device_id, *device_version, *vendor_id, *driver, *firmware;
	/* Shown as FI_BUS_PCI if @pci_always, or if sysfs has a device of this vendor and kind
	 * there; otherwise the bus is FI_BUS_UNKNOWN. */
	bool pci_always;
	uint16_t pci_domain; uint8_t pci_bus, pci_device, pci_function;
	const char *link_address, *network_type; size_t mtu, speed;
	bool link_down;
	/*
	 * fid_nic->prov_attr: @prov_attr_len bytes, copied; 0: none. @control: fi_control() commands of the provider;
	 * NULL: none.
	 */
	const void *prov_attr; size_t prov_attr_len;
	int (*control)(struct fid_nic *nic, int command, void *arg);
};
struct fid_nic *kit_nic_new(const struct kit_nic_attr *attr);

/* --- provider and fabric ------------------------------------------------------------------------- */
/*
 * fi_provider.version: above every built-in provider of the same name, and a real version for programs that compare it.
 */
#define KIT_PROV_VERSION FI_VERSION(1000, 0)
/**
 * fi_prov_ini() - What stock libfabric calls when it has loaded us: the one symbol of a module. Each provider's is
 * kit_prov_ini().
 */
struct fi_provider *fi_prov_ini(void) __attribute__((visibility("default")));
/**
 * kit_prov_ini() - Complete @prov, of which version, name, getinfo and fabric are set. Runs in every libfabric process
 * of a user who set FI_PROVIDER_PATH, whatever provider it uses: so it only fills in what is left and names the
 * parameters.
 * Return: @prov; NULL the second time: the library was found twice, which means "not available" then.
 */
struct fi_provider *kit_prov_ini(struct fi_provider *prov, const struct kit_param *params, size_t param_cnt);

struct kit_fabric {
	struct fid_fabric fid;
	struct fi_ops_fabric ops;
	const struct fi_provider *prov;
	uint32_t api_version; /* of the caller: attr->api_version at fi_fabric */
	_Atomic int refs;
};
typedef int kit_domain_open_fn(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
			       void *context);
/** kit_fabric_open() - fi_fabric of @prov, whose domains @domain_open opens. 0; -FI_EINVAL; -FI_ENOMEM. */
int kit_fabric_open(const struct fi_provider *prov, kit_domain_open_fn *domain_open, const struct fi_fabric_attr *attr,
		    struct fid_fabric **fabric, void *context);

/* --- domain -------------------------------------------------------------------------------------- */
struct kit_cq;
struct kit_ep;
struct kit_mr_req;
struct kit_domain {
	struct fid_domain fid;
	struct fi_ops fi_ops;
	struct fi_ops_domain ops;
	struct kit_fabric *fabric;
	const struct fi_provider *prov;
	struct lock lock;
	_Atomic int refs;
	uint32_t api_version;
	struct calm calm;       /* open while @lock is LOCK_CALM: for reads of @calm_cq */
	bool calm_row;          /* the read that has the lock found it LOCK_CALM */
	uint32_t calm_skip;     /* reads for which the layers are not asked, since they have said no */
	struct kit_cq *calm_cq; /* whose read was the last to find nothing */
	uint64_t caps;          /* info->caps at fi_domain */
	uint64_t mr_mode;       /* as negotiated */
	enum fi_threading threading;
	enum fi_progress progress;
	enum fi_av_type av_type;
	enum fi_resource_mgmt resource_mgmt;
	struct kit_eq *eq;      /* bound EQ or NULL */
	struct kit_poll *polls; /* open poll sets; lock */
	/* set by the provider before first use */
	const struct kit_stats_group *stats; /* kit/stats.h */
	/* poll found nothing; not under the lock */
	void (*idle)(struct kit_domain *d);
	/* true in a child after fork: calls return -FI_EIO */
	bool (*forked)(struct kit_domain *d);
	const uint8_t *fork_mark; /* a byte that is 0 where forked() has to be asked: kit_domain_mark() */
	int (*mr_open)(struct kit_domain *d, const struct kit_mr_req *req, struct fid_mr **out); /* under the lock */
};
/**
 * kit_domain_init() - @fi_ops, @ops: what the provider has; what is NULL there is the kit's, or fails cleanly. 0;
 * -FI_EINVAL.
 */
int kit_domain_init(struct kit_domain *d, struct kit_fabric *f, const struct fi_info *info, const struct fi_ops *fi_ops,
		    const struct fi_ops_domain *ops, void *context);
int kit_domain_fini(struct kit_domain *d); /* -FI_EBUSY while objects are open */
/** kit_domain_mark() - @mark is a byte that is 0 in a child after fork alone; NULL: there is none. */
void kit_domain_mark(struct kit_domain *d, const uint8_t *mark);
/** kit_is_forked() - Are we a child after fork, to which nothing of @d belongs? */
static inline bool kit_is_forked(struct kit_domain *d)
{
	return unlikely(!*d->fork_mark) && d->forked && d->forked(d);
}
/** kit_yield() - Lets go of the lock for a moment, for others to end what they are at. */
void kit_yield(struct kit_domain *d);

/* --- completion queue ---------------------------------------------------------------------------- */
struct kit_cqe {
	struct fi_cq_tagged_entry e; /* e.flags has KIT_CQE_ERR: the entry stands for the next error in line */
	fi_addr_t src;
	uint64_t unused; /* to a power of two: indexed by a shift */
};
#define KIT_CQE_ERR (1ULL << 63)
#define KIT_CQ_UNPLAIN (-1)
/* kit_cq.span of a queue whose only entry is the first of the ring, which is where one that ran empty begins anew */
#define KIT_CQ_ONE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 1ULL << 32 : 1ULL)
struct kit_wait;
struct kit_cq {
	struct fid_cq fid;
	struct kit_domain *domain;
	struct kit_cqe *ring;      /* power of two; grows when full, so no completion is ever lost */
	union {
		struct {
			uint32_t head, tail; /* free running, both 0 where the ring is empty; lock */
		};
		uint64_t span; /* both: 0 of an empty queue, KIT_CQ_ONE */
	};
	uint32_t mask;
	int32_t undriven;          /* so many reads may pass before one that makes progress again */
	enum fi_cq_format format;
	int plain;                 /* the same, and KIT_CQ_UNPLAIN while an error is in line */
	size_t entry_size;
	struct kit_cq_err *err_head, **err_tail; /* errors in line */
	struct kit_cq_err *err_read; /* the last one that was read: owns the err_data shown to the caller */
	bool overrun;              /* completions were lost for want of memory; reported when the ring is empty */
	int stranded; /* not 0: the FI_ error that the next read of an empty ring returns, see kit_ep_late_error() */
	struct kit_ep **eps;       /* whom a read progresses */
	uint32_t ep_cnt, ep_cap;
	struct kit_wait *wait;     /* NULL: FI_WAIT_NONE */
	_Atomic int refs;
	_Atomic uint32_t signaled; /* fi_cq_signal */
	int (*err_extra)(struct kit_cq *cq, struct fi_cq_err_entry *e); /* optional provider hook */
	const char *(*strerror)(struct kit_cq *cq, int prov_errno, const void *err_data);
	void *err_place;           /* kit_err_show() */
};
/*
 * @size_min: the provider's lower bound. wait objects other than NONE need @wait_ok. 0; -FI_ENOSYS wait object;
 *            -FI_EINVAL; -FI_ENOMEM.
 */
int kit_cq_init(struct kit_cq *cq, struct kit_domain *d, const struct fi_cq_attr *attr, size_t size_min, bool wait_ok,
		void *context);
/** kit_cq_open() - A CQ of a provider that adds nothing but @strerror to it, allocated, for fi_cq_open(). */
typedef const char *kit_cq_strerror_fn(struct kit_cq *cq, int prov_errno, const void *err_data);
int kit_cq_open(struct kit_domain *d, const struct fi_cq_attr *attr, size_t size_min, bool wait_ok,
		kit_cq_strerror_fn *strerror, struct fid_cq **cq, void *context);
/*
 * fid.fid.ops after kit_cq_init(), kit_cntr_init(), kit_av_init(): a close that is kit_cq_fini() ... and mem_free() of
 * @cq itself. A provider with more to undo sets a table of its own, of these.
 */
int kit_cq_control(struct fid *fid, int command, void *arg);
int kit_cntr_control(struct fid *fid, int command, void *arg);
int kit_av_bind(struct fid *fid, struct fid *bfid, uint64_t flags);
/* Entries of fid_cntr.ops, for a counter whose value a device keeps. */
uint64_t kit_cntr_fid_read(struct fid_cntr *fid);
uint64_t kit_cntr_fid_readerr(struct fid_cntr *fid);
int kit_cntr_fid_wait(struct fid_cntr *fid, uint64_t threshold, int timeout);
extern const struct fi_ops_cq kit_cq_ops; /* fid_cq.ops after kit_cq_init() */
extern const struct fi_ops_av kit_av_fid_ops; /* fid_av.ops after kit_av_init() */
int kit_cq_fini(struct kit_cq *cq); /* -FI_EBUSY while endpoints are bound; the provider frees the memory */
int kit_cq_grow(struct kit_cq *cq);
void kit_cq_wake(struct kit_cq *cq);
/** kit_cq_strand() - The next read that finds nothing returns -@err, once. Lock held. */
void kit_cq_strand(struct kit_cq *cq, int err);
#define KIT_UNREAD_MAX 64u
/** kit_cq_is_behind() - So many entries are unread that what is done without being asked must not add to them. */
static inline bool kit_cq_is_behind(const struct kit_cq *cq)
{
	return cq->tail - cq->head >= KIT_UNREAD_MAX;
}
/** kit_cq_push() - One completion. Lock held. Allocates only when more are unread than the ring holds. */
static inline __attribute__((always_inline)) void kit_cq_push(struct kit_cq *cq, void *context, uint64_t flags,
							      size_t len, void *buf, uint64_t data, uint64_t tag,
							      fi_addr_t src)
{
	struct kit_cqe *c;

	if (likely(!cq->span)) {
		c = cq->ring;
		cq->tail = 1;
	} else {
		if (unlikely(cq->tail - cq->head > cq->mask) && kit_cq_grow(cq))
			return; /* out of memory: kit_cq_grow() recorded an overrun error */
		c = &cq->ring[cq->tail++ & cq->mask];
	}
	c->e.op_context = context;
	c->e.flags = flags;
	c->e.len = len;
	c->e.buf = buf;
	c->e.data = data;
	c->e.tag = tag;
	c->src = src;
	if (unlikely(cq->wait != NULL))
		kit_cq_wake(cq);
}
/** kit_cq_push_err() - One error entry; @err_data (@len bytes, may be NULL) is copied. Lock held. */
void kit_cq_push_err(struct kit_cq *cq, const struct fi_cq_err_entry *err, const void *err_data, size_t len);

/* --- counters ------------------------------------------------------------------------------------ */
enum kit_cntr_kind {
	KIT_CNTR_SEND, KIT_CNTR_RECV, KIT_CNTR_READ, KIT_CNTR_WRITE, KIT_CNTR_REMOTE_READ, KIT_CNTR_REMOTE_WRITE,
	KIT_CNTR_NUM
};
struct kit_cntr {
	struct fid_cntr fid;
	struct kit_domain *domain;
	_Atomic uint64_t ok, err;
	_Atomic uint64_t told_ok, told_err; /* values that the application has seen: fi_trywait */
	struct kit_ep **eps;
	uint32_t ep_cnt, ep_cap;
	struct kit_wait *wait;
	_Atomic int refs;
	/* by the provider: fi_cntr_wait() without a wait object looks again and again, and is no error */
	bool waits_by_poll;
	void (*on_change)(struct kit_cntr *c); /* triggered operations later; NULL */
};
int kit_cntr_init(struct kit_cntr *c, struct kit_domain *d, const struct fi_cntr_attr *attr, bool wait_ok,
		  void *context);
/** kit_cntr_open() - One that needs nothing of the provider, allocated, for fi_cntr_open(). */
int kit_cntr_open(struct kit_domain *d, const struct fi_cntr_attr *attr, bool wait_ok, struct fid_cntr **cntr,
		  void *context);
int kit_cntr_fini(struct kit_cntr *c);
void kit_cntr_add(struct kit_cntr *c, uint64_t ok, uint64_t err); /* NULL is fine. Lock held. */
/**
 * kit_cntr_drive() - @ep makes what @c counts although @c is bound to something else (a region): who reads or waits for
 * @c drives @ep (@on), or does so no longer, unless @c is bound to it as well. Any number of times. Lock held. 0;
 * -FI_ENOMEM; -errno of making it wake.
 */
int kit_cntr_drive(struct kit_cntr *c, struct kit_ep *ep, bool on);
/** kit_cntr_store() - The values of a counter that a device keeps have become these. Lock held. */
void kit_cntr_store(struct kit_cntr *c, uint64_t ok, uint64_t err);

/* --- event queue --------------------------------------------------------------------------------- */
struct kit_eq;
int kit_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
void kit_eq_ref(struct kit_eq *eq);
void kit_eq_unref(struct kit_eq *eq);
int kit_eq_push(struct kit_eq *eq, uint32_t event, const void *buf, size_t len);
int kit_eq_push_err(struct kit_eq *eq, const struct fi_eq_err_entry *err, const void *err_data, size_t len);
/** kit_eq_unread() - How many events wait to be read. */
size_t kit_eq_unread(struct kit_eq *eq);

/* --- address vector ------------------------------------------------------------------------------ */
struct kit_av;
struct kit_av_ops {
	/* Is this a legal address? 0; -FI_EINVAL (logged). */
	int (*check)(struct kit_av *av, const void *addr);
	/* Entry @fi_addr was made; -errno undoes it. May be NULL. Lock held. */
	int (*added)(struct kit_av *av, fi_addr_t fi_addr, const void *addr);
	void (*removed)(struct kit_av *av, fi_addr_t fi_addr, const void *addr); /* may be NULL. Lock held. */
	const char *(*straddr)(struct kit_av *av, const void *addr, char *buf, size_t *len);
	/* node/service -> address; NULL: -FI_ENOSYS */
	int (*insertsvc)(struct kit_av *av, const char *node, const char *service, void *addr);
	uint64_t open_flags;   /* fi_av_attr.flags that the provider takes; FI_EVENT is done here */
	/*
	 * In place of kit_av_add_locked() for fi_av_insert and its like, when @flags say that @in, the fi_addr given,
	 * matters. May be NULL. Lock held.
	 */
	int (*insert)(struct kit_av *av, const void *addr, fi_addr_t in, uint64_t flags, fi_addr_t *out);
	/*
	 * A table kept elsewhere, as memory shared by processes: all of them, or none. Lock held. add: one more use of
	 * the same address.
	 */
	int (*store_add)(struct kit_av *av, const void *addr, fi_addr_t *out);
	int (*store_del)(struct kit_av *av, fi_addr_t fi_addr);
	bool (*store_get)(const struct kit_av *av, fi_addr_t fi_addr, void *addr);
	/*
	 * FI_AV_MAP: fi_addr_t is made from the address alone, and says it back; the table only knows what was
	 * inserted. Both, or none: then, and with FI_AV_TABLE, it is the place in the table.
	 */
	fi_addr_t (*name)(const void *addr);
	void (*unname)(fi_addr_t fi_addr, void *addr);
};
#define KIT_ADDR_MAX 64 /* bytes of a raw address */
struct kit_av {
	struct fid_av fid;
	struct kit_domain *domain;
	const struct kit_av_ops *ops;
	enum fi_av_type type;    /* FI_AV_MAP: only with ops->name */
	size_t addr_len;
	uint8_t mute_at, mute_len; /* bytes of an address that do not tell who it is: none, or the provider's choice */
	uint8_t *table;          /* addr_len bytes per entry */
	uint8_t *used;           /* 0 free, 1 in use */
	uint32_t cnt, cap, high; /* entries in use; allocated; highest index + 1 */
	uint32_t free_hint;
	uint32_t *hash;          /* open addressing: index + 1; reverse lookup by address */
	uint32_t hash_mask;
	uint64_t hash_seed;
	struct kit_ep **eps;
	uint32_t ep_cnt, ep_cap;
	uint64_t allowed_flags;  /* of fi_av_insert */
	/* a second insert of one address gives the same fi_addr, reference counted by nothing ... */
	bool dedup;
	/* ... unless kit_av_count_uses() was called: it goes with the last of as many removals */
	uint32_t *uses;
	bool is_async;           /* FI_EVENT: results of insertions go to @eq */
	bool stops;              /* the first address that fails ends the call */
	struct kit_eq *eq;       /* bound, or NULL */
	_Atomic int refs;
};
int kit_av_init(struct kit_av *av, struct kit_domain *d, const struct fi_av_attr *attr, size_t addr_len,
		const struct kit_av_ops *ops, void *context);
int kit_av_fini(struct kit_av *av);
/** kit_av_count_uses() - After kit_av_init(): turns on dedup with use counts. 0; -FI_ENOMEM. */
int kit_av_count_uses(struct kit_av *av);
/** kit_av_has() - Is there an address at place @fi_addr of the table? Lock held. */
static inline bool kit_av_has(const struct kit_av *av, fi_addr_t fi_addr)
{
	return fi_addr < av->high && av->used[fi_addr];
}
/** kit_av_addr() - The raw address at place @fi_addr of the table, or NULL. Lock held. */
static inline const void *kit_av_addr(const struct kit_av *av, fi_addr_t fi_addr)
{
	return kit_av_has(av, fi_addr) ? av->table + fi_addr * av->addr_len : NULL;
}
/** kit_av_is_same() - Two raw addresses of one endpoint? Bytes that do not tell who it is (mute_at) may differ. */
bool kit_av_is_same(const struct kit_av *av, const void *a, const void *b);
/** kit_av_hash() - Of a raw address, seeded: who chooses addresses cannot choose where they go. */
uint32_t kit_av_hash(const struct kit_av *av, const void *addr);
/**
 * kit_av_find() - Place of a raw address in the table, which mostly is its fi_addr; FI_ADDR_NOTAVAIL if absent. Lock
 * held.
 */
fi_addr_t kit_av_find(const struct kit_av *av, const void *addr);
/**
 * kit_av_add_locked() - Insert one, for the program: nothing else may take an index that it counts on. 0; -FI_ENOMEM;
 * -FI_EINVAL.
 */
int kit_av_add_locked(struct kit_av *av, const void *addr, fi_addr_t *fi_addr);
/** kit_av_del_locked() - One use of @fi_addr less; the last one takes it away. 0; -FI_EINVAL. */
int kit_av_del_locked(struct kit_av *av, fi_addr_t fi_addr);

/* --- endpoint ------------------------------------------------------------------------------------ */
struct kit_ep {
	struct fid_ep fid;
	struct kit_domain *domain;
	struct kit_av *av;
	struct kit_eq *eq;
	struct kit_cq *tx_cq, *rx_cq;
	struct kit_cq *rx_plain; /* rx_cq where a receive that succeeds always is an entry there, and no more; NULL */
	struct kit_cq *tx_plain; /* tx_cq where that holds of a send whose call has no flags; NULL: kit_ep_gate() */
	bool tx_quiet; /* an inject whose call has no flags leaves nothing to be told or counted: kit_ep_gate() */
	struct kit_cntr *cntr[KIT_CNTR_NUM];
	bool tx_selective, rx_selective; /* bound with FI_SELECTIVE_COMPLETION */
	bool enabled, closing;
	/*
	 * by the provider: completions are made in progress() only, so that no thread of ours wakes who cannot sleep on
	 * wait_fd()
	 */
	bool is_driven;
	/* by the provider: bind although enabled; of the contexts of one endpoint, each is enabled on its own */
	bool binds_late;
	uint64_t caps;
	uint64_t tx_op_flags, rx_op_flags;
	size_t inject_size;
	struct fi_info *info; /* own copy */
	/* provider: drive this endpoint; lock held. Return: events, 0 = idle. */
	int (*progress)(struct kit_ep *ep);
	/*
	 * provider, optional (NULL): lets a waiter sleep until the device has work, instead of driving it. Set before
	 * bind.
	 */
	/* the i-th of its fds, readable while there is work for progress(); -errno: there are no more. Its to close */
	int (*wait_fd)(struct kit_ep *ep, unsigned i);
	/*
	 * Before a sleep, after progress() in the same hold of the lock: 0, and from now on work makes an fd readable,
	 * until the next wait_arm(), whoever calls progress() meanwhile; -FI_EAGAIN: there is work already. Set with
	 * wait_fd.
	 */
	int (*wait_arm)(struct kit_ep *ep);
	/*
	 * provider, optional (NULL), after a progress() that found nothing, in the same hold of the lock: tells @c what
	 * will change before there is anything for the next one. @passed: polls that have passed by @c since it was
	 * told last. Return: false: the next one has to ask for more.
	 */
	bool (*calm)(struct kit_ep *ep, struct calm *c, uint32_t passed);
	uint32_t late_told;       /* for LOG_FEW(): operations that failed after their end */
	uint32_t late_cnt;        /* they are counted, and */
	int late_errno;           /* this is the provider's code of the last */
};
int kit_ep_init(struct kit_ep *ep, struct kit_domain *d, const struct fi_info *info, int (*progress)(struct kit_ep *),
		void *context);
void kit_ep_fini(struct kit_ep *ep); /* unbinds everything */
/**
 * kit_ep_watch() - The endpoint's wait_fd() have become valid (@on), or are about to become invalid, after objects with
 * wait objects were bound. Who sleeps on these already looks, and arms it too. Lock held. 0; -errno.
 */
int kit_ep_watch(struct kit_ep *ep, bool on);
/**
 * kit_ep_bind() - fi_ep_bind: CQ, counter, AV, EQ with all their rules. Counters and EQs may come
 * to an enabled endpoint, as with the real providers: OpenSHMEM's default context adds counters to
 * the endpoint of its targets. -FI_EINVAL another domain's, bound twice, bad flags; -FI_EOPBADSTATE
 * enabled.
 */
int kit_ep_bind(struct kit_ep *ep, struct fid *bfid, uint64_t flags);
/**
 * kit_ep_gate() - Computes rx_plain, tx_plain and tx_quiet: after a change of what is bound, or of the default flags,
 * by others than the kit. Lock held, or not enabled yet.
 */
void kit_ep_gate(struct kit_ep *ep);
/** kit_ep_unbind() - Undo what was bound for directions @dirs (FI_TRANSMIT, FI_RECV): CQs and counters. */
void kit_ep_unbind(struct kit_ep *ep, uint64_t dirs);
/** kit_ep_enable_check() - -FI_ENOAV, -FI_ENOCQ as the caps need; -FI_EIO in a child after fork; 0. */
int kit_ep_enable_check(struct kit_ep *ep);
/** kit_tx_wants_cqe() - Does an operation with @flags write a completion? */
static inline bool kit_tx_wants_cqe(const struct kit_ep *ep, uint64_t flags)
{
	return ep->tx_cq && (!ep->tx_selective || (flags & FI_COMPLETION));
}
static inline bool kit_rx_wants_cqe(const struct kit_ep *ep, uint64_t flags)
{
	return ep->rx_cq && (!ep->rx_selective || (flags & FI_COMPLETION));
}
#define KIT_LATE_MAX 1024 /* unread events above which late errors are only logged */
/**
 * kit_ep_late_error() - An operation has failed that no completion can name: it asked for none, or has had it. What the
 * program once gave as its context may be freed or in use again, so this is an event of the endpoint (its event queue's
 * error entry with @what), and a line in the log. @is_far: this operation's peer is on a host that the room does not
 * reach; without an event queue the next read of the endpoint's queue fails then, or a job that is set up wrong would
 * wait for ever. Not so in other cases: that one peer has gone must not end a server. Lock held.
 */
void kit_ep_late_error(struct kit_ep *ep, int err, int prov_errno, const char *what, bool is_far);
/**
 * kit_ep_control() - fi_control(FI_GETOPSFLAG, FI_SETOPSFLAG ...) on endpoints; -FI_ENOSYS others. FI_ENABLE is the
 * provider's.
 */
int kit_ep_control(struct kit_ep *ep, int command, void *arg);

/* --- memory regions ------------------------------------------------------------------------------ */
struct kit_mr_req {
	const struct iovec *iov; size_t iov_cnt;
	uint64_t access, offset, requested_key, flags;
	void *context;
};
#define KIT_MR_LOCAL_WRITE (FI_RECV | FI_READ | FI_REMOTE_WRITE) /* access for which an adapter writes to the region */
/**
 * kit_mr_pin() - What an adapter's driver does before it registers: is all of the memory there, and writable if
 * @is_write?
 * Return: 0; -FI_EFAULT, as from drivers, with a sentence in the log; -FI_ENOMEM.
 */
int kit_mr_pin(const struct kit_domain *d, const struct kit_mr_req *r, bool is_write);
/** kit_mr_ops - fi_mr_reg, regv, regattr: checks by API version, then domain->mr_open. */
extern struct fi_ops_mr kit_mr_ops;

/* --- poll sets, stubs ---------------------------------------------------------------------------- */
int kit_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset);
int kit_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
int kit_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **wait);
/* Full tables whose every entry fails cleanly (-FI_ENOSYS, or -FI_EOPNOTSUPP for data). kit/stubs.h has the entries. */
extern const struct fi_ops kit_no_fi_ops;
extern const struct fi_ops_fabric kit_no_fabric_ops;
extern const struct fi_ops_domain kit_no_domain_ops;
extern const struct fi_ops_ep kit_no_ep_ops;
extern const struct fi_ops_cm kit_no_cm_ops;
extern const struct fi_ops_msg kit_no_msg_ops;
extern const struct fi_ops_tagged kit_no_tagged_ops;
extern const struct fi_ops_rma kit_no_rma_ops;
extern const struct fi_ops_atomic kit_no_atomic_ops;
extern const struct fi_ops_collective kit_no_collective_ops;

#endif
