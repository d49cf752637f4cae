// SPDX-License-Identifier: BSD-2-Clause
// Memory that is not there: refused at registration where an adapter could not pin it, and survived when it goes later.
#include "conform.h"

#include <sys/mman.h>
#include <unistd.h>

#define ACCESS (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define PAGE   4096u

static uint8_t *map_anon(struct ct *c, size_t len, int prot)
{
	uint8_t *p = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED, "no memory");
	return p;
}

/* @len bytes over a file of @file_len. */
static uint8_t *map_file(struct ct *c, size_t len, size_t file_len, int *fd)
{
	uint8_t *p;

	*fd = memfd_create("softfabric-test", MFD_CLOEXEC);
	CHECK(*fd >= 0 && !ftruncate(*fd, (off_t)file_len), "no file");
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	CHECK(p != MAP_FAILED, "no memory");
	return p;
}

/* --- registration -------------------------------------------------------------------------------- */

/* What the adapter's driver would answer; opx does not pin, and finds out when the memory is accessed. */
static void registers(struct ct *c, const void *mem, size_t len, uint64_t access, bool is_there, const char *what)
{
	static uint64_t key = 1000;
	struct fid_mr *mr;
	int want = is_there || c->p->has & CT_NO_PIN ? 0 : -FI_EFAULT,
	    got = fi_mr_reg(c->domain, mem, len, access, 0, key++, 0, &mr, NULL);

	CHECK(got == want, "%s, %zu bytes, access %#llx: %s, not %s", what, len, (unsigned long long)access,
	      ct_err(got), ct_err(want));
	if (!got)
		OK(fi_close(&mr->fid));
}

/* A page that nobody has may become another thread's meanwhile, or a race checker's. */
static void has_hole(struct ct *c, uint8_t *m, size_t len)
{
	static uint64_t key = 2000;
	int got, tries = 100;
	struct fid_mr *mr;

	if (c->p->has & CT_NO_PIN) {
		registers(c, m, len, FI_REMOTE_READ, true, "memory with a hole");
		return;
	}
	while (!(got = fi_mr_reg(c->domain, m, len, FI_REMOTE_READ, 0, key++, 0, &mr, NULL))) {
		OK(fi_close(&mr->fid));
		CHECK(--tries && !msync(m + PAGE, PAGE, MS_ASYNC), "memory with a hole was registered");
		munmap(m + PAGE, PAGE);
	}
	RET(-FI_EFAULT, got);
}

static void mr_there(struct ct *c)
{
	static const size_t lens[] = {3 * PAGE, 300 * PAGE};
	int fd;

	ct_open(c);
	for (int i = 0; i < 2; i++) {
		size_t len = lens[i];
		uint8_t *m = map_anon(c, len, PROT_READ | PROT_WRITE), *f = map_file(c, len, len - PAGE, &fd);

		registers(c, m, len, ACCESS, true, "memory");
		registers(c, m + 1, len - 2, ACCESS, true, "memory");
		registers(c, f, len - PAGE, ACCESS, true, "a file");
		registers(c, f, len, FI_REMOTE_READ, false, "a mapping longer than its file");
		registers(c, m, 0, ACCESS, true, "nothing");
		CHECK(!mprotect(m, len, PROT_READ), "mprotect");
		registers(c, m, len, FI_REMOTE_READ, true, "read-only memory for reading");
		registers(c, m, len, FI_SEND, true, "read-only memory for sending");
		registers(c, m, len, FI_REMOTE_WRITE, false, "read-only memory for writing");
		registers(c, m, len, FI_RECV, false, "read-only memory for receiving");
		registers(c, m, len, FI_READ, false, "read-only memory for results");
		CHECK(!mprotect(m, len, PROT_NONE), "mprotect");
		registers(c, m, len, FI_REMOTE_READ, false, "protected memory");
		CHECK(!mprotect(m, len, PROT_READ | PROT_WRITE) && !munmap(m + PAGE, PAGE), "munmap");
		has_hole(c, m, len);
		registers(c, m, PAGE, ACCESS, true, "memory before the hole");
		munmap(m, len);
		munmap(f, len);
		close(fd);
	}
	registers(c, (void *)(PAGE - 8), 8, FI_REMOTE_READ, false, "the first page");
	registers(c, (void *)(1UL << 62), 8, FI_REMOTE_READ, false, "no address");
	ct_close(c);
}

static void mr_overflow(struct ct *c)
{
	static uint8_t mem[64];
	struct fid_mr *mr;

	ct_open(c);
	RET(-FI_EINVAL, fi_mr_reg(c->domain, mem, SIZE_MAX, ACCESS, 0, 1, 0, &mr, NULL));
	RET(-FI_EINVAL, fi_mr_reg(c->domain, mem, SIZE_MAX - (uintptr_t)mem + 1, ACCESS, 0, 1, 0, &mr, NULL));
	ct_close(c);
}

/* --- gone since ---------------------------------------------------------------------------------- */

#define REGION (64 * PAGE)

enum loss { UNMAPPED, READ_ONLY, TRUNCATED, LOSS_NUM };

/*
 * A region that loses its memory and gets it back. An address that nobody has could be given to somebody else: it stays
 * taken, without access.
 */
struct prey {
	uint8_t *mem;
	struct fid_mr *mr;
	struct fi_rma_iov at; /* the peer's */
	int fd;
};

static void prey_open(struct ct *c, struct prey *p)
{
	struct fi_rma_iov mine;

	p->mem = map_file(c, REGION, REGION, &p->fd);
	p->mr = ct_mr(c, p->mem, REGION, ACCESS, 77 + (uint64_t)c->rank);
	mine = (struct fi_rma_iov){ct_base(c, p->mem), REGION, fi_mr_key(p->mr)};
	ct_swap(c, &mine, &p->at, sizeof(mine));
}

static void prey_lose(struct ct *c, struct prey *p, enum loss how)
{
	if (how == TRUNCATED)
		CHECK(!ftruncate(p->fd, 0), "ftruncate");
	else
		CHECK(!mprotect(p->mem, REGION, how == READ_ONLY ? PROT_READ : PROT_NONE), "mprotect");
}

static void prey_back(struct ct *c, struct prey *p)
{
	CHECK(!ftruncate(p->fd, REGION) && !mprotect(p->mem, REGION, PROT_READ | PROT_WRITE), "mprotect");
}

static void prey_close(struct ct *c, struct prey *p)
{
	ct_barrier(c);
	OK(fi_close(&p->mr->fid));
	munmap(p->mem, REGION);
	close(p->fd);
}

enum op { WRITE, READ, WRITEDATA, SUM, FETCH, SWAP, OP_NUM };
static const char *const op_name[OP_NUM] = {"write", "read", "write with data", "atomic", "fetch", "compare and swap"};
/* of its completion, and of its failure */
static const uint64_t op_flags[OP_NUM] = {FI_RMA | FI_WRITE, FI_RMA | FI_READ, FI_RMA | FI_WRITE,
					  FI_ATOMIC | FI_WRITE, FI_ATOMIC | FI_READ, FI_ATOMIC | FI_READ};

static ssize_t post(struct ct *c, enum op op, const struct ct_buf *b, size_t len, const struct fi_rma_iov *at)
{
	struct fid_ep *ep = c->ep;
	uint8_t *mem = b->mem, *res = b->mem + 8;

	c->traffic = true;
	switch (op) {
	case WRITE:
		return fi_write(ep, mem, len, b->desc, c->peer, at->addr, at->key, &c->ctx[0]);
	case READ:
		return fi_read(ep, mem, len, b->desc, c->peer, at->addr, at->key, &c->ctx[0]);
	case WRITEDATA:
		return fi_writedata(ep, mem, len, b->desc, 5, c->peer, at->addr, at->key, &c->ctx[0]);
	case SUM:
		return fi_atomic(ep, mem, 1, b->desc, c->peer, at->addr, at->key, FI_UINT64, FI_SUM, &c->ctx[0]);
	case FETCH:
		return fi_fetch_atomic(ep, mem, 1, b->desc, res, b->desc, c->peer, at->addr, at->key, FI_UINT64, FI_SUM,
				       &c->ctx[0]);
	case SWAP:
		return fi_compare_atomic(ep, mem, 1, b->desc, mem, b->desc, res, b->desc, c->peer, at->addr, at->key,
					 FI_UINT64, FI_CSWAP, &c->ctx[0]);
	case OP_NUM:
		break;
	}
	return -FI_EINVAL;
}

static void begin(struct ct *c, enum op op, const struct ct_buf *b, size_t len, const struct fi_rma_iov *at)
{
	ssize_t ret;

	do
		ret = post(c, op, b, len, at);
	while (ct_again(c, ret));
}

/* It fails with what the provider says of such memory, once. */
static void fails(struct ct *c, enum op op, const struct ct_buf *b, size_t len, const struct fi_rma_iov *at,
		  const char *what)
{
	struct fi_cq_err_entry e;

	begin(c, op, b, len, at);
	e = ct_comp_err(c, c->txcq, op_flags[op]);
	CHECK(e.op_context == &c->ctx[0] && e.err == c->p->lost.err && e.prov_errno == c->p->lost.prov_errno,
	      "%s of %zu bytes, %s: error %d (%s), of the provider %d", op_name[op], len, what, e.err,
	      fi_strerror(e.err), e.prov_errno);
}

static void works(struct ct *c, enum op op, const struct ct_buf *b, size_t len, const struct fi_rma_iov *at)
{
	struct ct_comp r;

	begin(c, op, b, len, at);
	r = ct_comp(c, c->txcq);
	CHECK(r.e.op_context == &c->ctx[0], "%s of %zu bytes: context", op_name[op], len);
	CHECK((r.e.flags & ~FI_COMPLETION) == op_flags[op], "%s: flags %#llx", op_name[op],
	      (unsigned long long)r.e.flags);
}

/* Rank 0 does each of @ops to memory of rank 1 that has gone, and once more when it is back. */
static void gone(struct ct *c, const enum op *ops, const size_t *lens, unsigned cnt)
{
	static const char *const how_name[LOSS_NUM] = {"not accessible", "read-only", "beyond the end of the file"};
	struct ct_buf b;
	struct prey p;

	ct_buf(c, &b, REGION, 0, 0);
	prey_open(c, &p);
	for (enum loss how = 0; how < LOSS_NUM; how++) {
		if (c->rank)
			prey_lose(c, &p, how);
		ct_barrier(c);
		for (unsigned i = 0; !c->rank && i < cnt; i++) {
			if (how == READ_ONLY && ops[i] == READ)
				works(c, READ, &b, lens[i], &p.at);
			else
				fails(c, ops[i], &b, lens[i], &p.at, how_name[how]);
		}
		ct_barrier(c);
		if (c->rank)
			prey_back(c, &p);
		ct_barrier(c);
		for (unsigned i = 0; !c->rank && i < cnt; i++)
			if (ops[i] != WRITEDATA)
				works(c, ops[i], &b, lens[i], &p.at);
		ct_barrier(c);
	}
	prey_close(c, &p);
	ct_buf_free(c, &b);
}

static void rma_gone(struct ct *c)
{
	static const enum op ops[] = {WRITE, READ, WRITE,     READ,	 WRITE,	   READ,
				      WRITE, READ, WRITEDATA, WRITEDATA, WRITEDATA};
	static const size_t lens[] = {8, 8, 300, 300, 5000, 5000, 200000, 200000, 8, 5000, 200000};

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	gone(c, ops, lens, c->p->has & CT_HAS_RMA_DATA ? 11 : 8);
	ct_close(c);
}

static void atomic_gone(struct ct *c)
{
	static const enum op ops[] = {SUM, FETCH, SWAP};
	static const size_t lens[] = {8, 8, 8};

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	gone(c, ops, lens, 3);
	ct_close(c);
}

/* The end of the region has gone, and the beginning of an operation has not. */
static void rma_gone_half(struct ct *c)
{
	static const size_t lens[] = {3 * PAGE, 40 * PAGE};
	struct ct_buf b;
	struct prey p;

	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, REGION, 0, 0);
	prey_open(c, &p);
	if (c->rank)
		CHECK(!ftruncate(p.fd, 2 * PAGE), "ftruncate");
	ct_barrier(c);
	for (unsigned i = 0; !c->rank && i < 2; i++) {
		fails(c, WRITE, &b, lens[i], &p.at, "half of it");
		fails(c, READ, &b, lens[i], &p.at, "half of it");
	}
	if (!c->rank)
		works(c, WRITE, &b, 2 * PAGE, &p.at);
	prey_close(c, &p);
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * A write that met no memory has failed, and that is all: the next one to the same place, whose data are announced, is
 * another one.
 */
static void rma_gone_back(struct ct *c)
{
	static const size_t lens[] = {8, 300, 5000, 200000};
	struct ct_buf b;
	struct prey p;

	if (!(c->p->has & CT_HAS_RMA_DATA))
		ct_skip(c, "writes carry no data");
	c->want.op_flags = FI_DELIVERY_COMPLETE;
	ct_open(c);
	ct_buf(c, &b, REGION, 0, 0);
	prey_open(c, &p);
	for (unsigned i = 0; i < 4; i++) {
		if (c->rank)
			prey_lose(c, &p, UNMAPPED);
		ct_barrier(c);
		if (!c->rank)
			fails(c, WRITE, &b, lens[i], &p.at, "not accessible");
		ct_barrier(c);
		if (c->rank)
			prey_back(c, &p);
		ct_barrier(c);
		if (c->rank)
			CHECK(ct_comp(c, c->rxcq).e.data == 5, "%zu bytes: data", lens[i]);
		else
			works(c, WRITEDATA, &b, lens[i], &p.at);
	}
	prey_close(c, &p);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* Where the initiator's own memory has gone, the operation fails there. */
static void rma_gone_local(struct ct *c)
{
	static const size_t lens[] = {8, 300, 5000, 200000};
	struct ct_buf b;
	struct prey p;

	ct_open(c);
	ct_buf(c, &b, REGION, 0, ACCESS);
	prey_open(c, &p);
	b.desc = b.desc ? fi_mr_desc(p.mr) : NULL;
	ct_share(c, &b, &p.at);
	for (unsigned i = 0; !c->rank && i < 4; i++) {
		struct ct_buf own = {.mem = p.mem, .desc = b.desc};
		struct fi_cq_err_entry e;

		prey_lose(c, &p, UNMAPPED);
		begin(c, READ, &own, lens[i], &p.at);
		e = ct_comp_err(c, c->txcq, op_flags[READ]);
		CHECK(e.op_context == &c->ctx[0] && e.err, "read of %zu bytes: error %d", lens[i], e.err);
		prey_back(c, &p);
	}
	prey_close(c, &p);
	ct_buf_free(c, &b);
	ct_close(c);
}

/* --- regions that are closed ----------------------------------------------------------------------- */

#define CLOSED_LEN   (8u << 20)
#define CLOSED_ROUND 4

/*
 * Some of it has been moved: told from its first byte, which is 0 before. The adapter's thread may be writing it: to a
 * race checker that is one.
 */
static __attribute__((no_sanitize("thread"))) void wait_begun(struct ct *c, const uint8_t *mem)
{
	while (!*(const volatile uint8_t *)mem)
		ct_progress(c);
}

/*
 * Rank 0 reads, or writes, and in the middle of it rank 1 closes the region and uses its memory for something else: the
 * reader gets what was there before, or an error, and nothing is written any more.
 */
static void closed_round(struct ct *c, enum op op, uint64_t key)
{
	struct fi_rma_iov mine, at;
	struct ct_buf b;
	struct fid_mr *mr;
	uint8_t *mem;

	ct_buf(c, &b, CLOSED_LEN, 0, 0);
	mem = map_anon(c, CLOSED_LEN, PROT_READ | PROT_WRITE);
	memset(op == READ ? mem : b.mem, 0xbb, CLOSED_LEN);
	memset(op == READ ? b.mem : mem, 0, CLOSED_LEN);
	if (!c->rank)
		c->shared[0] = 0;
	mr = ct_mr(c, mem, CLOSED_LEN, ACCESS, key);
	mine = (struct fi_rma_iov){ct_base(c, mem), CLOSED_LEN, fi_mr_key(mr)};
	ct_swap(c, &mine, &at, sizeof(mine));
	if (!c->rank) {
		begin(c, op, &b, CLOSED_LEN, &at);
		if (op == READ)
			wait_begun(c, b.mem);
		c->shared[0] = 1;
		if (ct_succeeds(c, c->txcq, 0) && op == READ)
			for (size_t i = 0; i < CLOSED_LEN; i++)
				CHECK(b.mem[i] == 0xbb, "byte %zu of a read: 0x%02x", i, b.mem[i]);
	} else {
		wait_begun(c, op == READ ? c->shared : mem);
		OK(fi_close(&mr->fid));
		memset(mem, 0xdd, CLOSED_LEN);
	}
	ct_barrier(c);
	for (size_t i = 0; c->rank && i < CLOSED_LEN; i++)
		CHECK(mem[i] == 0xdd, "byte %zu is 0x%02x: written after its region was closed", i, mem[i]);
	if (!c->rank)
		OK(fi_close(&mr->fid));
	munmap(mem, CLOSED_LEN);
	ct_buf_free(c, &b);
}

static void rma_closed(struct ct *c)
{
	ct_open(c);
	for (unsigned i = 0; i < 2 * CLOSED_ROUND; i++)
		closed_round(c, i % 2 ? READ : WRITE, 200 + 2 * i + c->rank); /* both may be of one domain */
	ct_close(c);
}

/* --- memory of receives ------------------------------------------------------------------------------ */

/*
 * The adapter writes receives: one whose buffer has gone fails, for both ends. (On efa and opx the program itself
 * copies what came.)
 */
static void cxi_gone(struct ct *c)
{
	static const size_t lens[] = {1000, 8000, 200000};
	struct ct_buf b;
	struct prey p;

	ct_open(c);
	ct_buf(c, &b, REGION, 0, 0);
	prey_open(c, &p);
	for (unsigned i = 0; i < 3; i++) {
		struct ct_msg m = {.tagged = true, .tag = i, .addr = c->peer, .ctx = &c->ctx[1],
				   .mem = c->rank ? p.mem : b.mem, .len = lens[i]};
		struct fi_cq_err_entry e;

		if (c->rank) {
			ct_recv(c, &m);
			prey_lose(c, &p, UNMAPPED);
		}
		ct_barrier(c);
		if (!c->rank)
			ct_send(c, &m);
		e = ct_comp_err(c, c->rank ? c->rxcq : c->txcq, FI_TAGGED | (c->rank ? FI_RECV : FI_SEND));
		CHECK(e.op_context == &c->ctx[1] && e.err == c->p->lost.err && e.prov_errno == c->p->lost.prov_errno,
		      "%zu bytes: error %d, of the provider %d", lens[i], e.err, e.prov_errno);
		ct_barrier(c);
		if (c->rank)
			prey_back(c, &p);
	}
	prey_close(c, &p);
	ct_buf_free(c, &b);
	ct_close(c);
}

/*
 * What fails because the beginning of its memory has gone does not count at its target, though its last packet found
 * the rest.
 */
static void opx_gone_uncounted(struct ct *c)
{
	static const uint64_t flag[] = {FI_REMOTE_WRITE, FI_REMOTE_READ};
	static const enum op ops[] = {WRITE, READ, WRITEDATA};
	struct fi_cntr_attr attr = {0};
	struct fid_cntr *cntr[2];
	struct ct_buf b;
	struct prey p;

	c->want.no_enable = true;
	ct_open(c);
	for (int i = 0; i < 2; i++) {
		OK(fi_cntr_open(c->domain, &attr, &cntr[i], NULL));
		OK(fi_ep_bind(c->ep, &cntr[i]->fid, flag[i]));
	}
	OK(fi_enable(c->ep));
	ct_connect(c);
	ct_buf(c, &b, REGION, 0, 0);
	prey_open(c, &p);
	for (unsigned round = 0; round < 2; round++) {
		if (c->rank && !round)
			CHECK(!mprotect(p.mem, PAGE, PROT_NONE), "mprotect");
		ct_barrier(c);
		for (unsigned i = 0; !c->rank && i < 3; i++) {
			if (!round)
				fails(c, ops[i], &b, REGION, &p.at, "without its beginning");
			else
				works(c, ops[i], &b, REGION, &p.at);
		}
		ct_barrier(c);
		for (int i = 0; c->rank && i < 2; i++)
			CHECK(fi_cntr_read(cntr[i]) == (round ? 2u - (unsigned)i : 0) && !fi_cntr_readerr(cntr[i]),
			      "round %u, counter %d: %llu", round, i, (unsigned long long)fi_cntr_read(cntr[i]));
		if (c->rank)
			prey_back(c, &p);
	}
	if (c->rank)
		ct_comp(c, c->rxcq); /* the write with data */
	prey_close(c, &p);
	ct_buf_free(c, &b);
	OK(fi_close(&c->ep->fid));
	for (int i = 0; i < 2; i++)
		OK(fi_close(&cntr[i]->fid));
	OK(fi_endpoint(c->domain, c->info, &c->ep, NULL)); /* for ct_close() */
	ct_close(c);
}

#define CAPS "FI_RMA FI_READ FI_WRITE FI_REMOTE_READ FI_REMOTE_WRITE"
const struct ct_test gone_tests[] = {
	{"mr_there", mr_there, FI_RMA, 0, CT_SOLO | CT_GENS, CAPS},
	{"mr_overflow", mr_overflow, FI_RMA, 0, CT_SOLO, CAPS},
	{"rma_gone", rma_gone, FI_RMA, 0, CT_GENS, CAPS},
	{"rma_gone_half", rma_gone_half, FI_RMA, 0, CT_GENS, CAPS},
	{"rma_gone_back", rma_gone_back, FI_RMA, 0, 0, CAPS},
	{"rma_gone_local", rma_gone_local, FI_RMA, 0, 0, CAPS},
	{"rma_closed", rma_closed, FI_RMA, 0, CT_GENS | CT_LOSSY, CAPS},
	{"atomic_gone", atomic_gone, FI_ATOMIC, 0, CT_GENS, "FI_ATOMIC"},
	{"cxi_gone", cxi_gone, FI_TAGGED | FI_RMA, 0, 0, "FI_TAGGED FI_RECV", NULL, "cxi"},
	{"opx_gone_uncounted", opx_gone_uncounted, FI_RMA, 0, CT_ANY_PATH, "FI_REMOTE_READ FI_REMOTE_WRITE", NULL,
	 "opx"},
	{0},
};
