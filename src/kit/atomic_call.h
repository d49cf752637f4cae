// SPDX-License-Identifier: BSD-2-Clause
// The thirteen atomic calls of an endpoint as two functions of its provider.
#ifndef SF_KIT_ATOMIC_CALL_H
#define SF_KIT_ATOMIC_CALL_H

#include "kit/atomic.h"

/* Which flags count: the endpoint's; the endpoint's, and no completion; those of the call. */
enum kit_atomic_form { KIT_ATOMIC_BY_ARGS, KIT_ATOMIC_BY_INJECT, KIT_ATOMIC_BY_MSG };
struct kit_atomic_req {
	enum kit_atomic_kind kind;
	enum kit_atomic_form form;
	uint64_t flags;                  /* KIT_ATOMIC_BY_MSG: what the caller gave; else 0 */
	const struct fi_msg_atomic *msg; /* KIT_ATOMIC_BY_MSG: as the caller gave it, unchecked */
	struct fi_msg_fetch res;         /* FETCH and COMPARE: unchecked */
	struct fi_msg_compare cmp;       /* COMPARE: unchecked */
};

/** struct kit_atomic_ops - fid_ep.atomic is &.ops of one: the calls find .op and .valid from there. */
struct kit_atomic_ops {
	struct fi_ops_atomic ops;
	ssize_t (*op)(struct fid_ep *fid, const struct kit_atomic_req *req);
	int (*valid)(struct fid_ep *fid, enum kit_atomic_kind kind, enum fi_datatype dt, enum fi_op op, size_t *count);
};
#define KIT_ATOMIC_OPS(op_, valid_)                                                                                    \
	{                                                                                                              \
		.ops = {.size = sizeof(struct fi_ops_atomic),                                                          \
			.write = kit_atomic_write,                                                                     \
			.writev = kit_atomic_writev,                                                                   \
			.writemsg = kit_atomic_writemsg,                                                               \
			.inject = kit_atomic_inject,                                                                   \
			.readwrite = kit_atomic_readwrite,                                                             \
			.readwritev = kit_atomic_readwritev,                                                           \
			.readwritemsg = kit_atomic_readwritemsg,                                                       \
			.compwrite = kit_atomic_compwrite,                                                             \
			.compwritev = kit_atomic_compwritev,                                                           \
			.compwritemsg = kit_atomic_compwritemsg,                                                       \
			.writevalid = kit_atomic_writevalid,                                                           \
			.readwritevalid = kit_atomic_readwritevalid,                                                   \
			.compwritevalid = kit_atomic_compwritevalid},                                                  \
		.op = op_, .valid = valid_,                                                                            \
	}
#define KIT_ATOMIC_CALL(name) __typeof__(*((struct fi_ops_atomic *)0)->name) kit_atomic_##name
extern KIT_ATOMIC_CALL(write);
extern KIT_ATOMIC_CALL(writev);
extern KIT_ATOMIC_CALL(writemsg);
extern KIT_ATOMIC_CALL(inject);
extern KIT_ATOMIC_CALL(readwrite);
extern KIT_ATOMIC_CALL(readwritev);
extern KIT_ATOMIC_CALL(readwritemsg);
extern KIT_ATOMIC_CALL(compwrite);
extern KIT_ATOMIC_CALL(compwritev);
extern KIT_ATOMIC_CALL(compwritemsg);
extern KIT_ATOMIC_CALL(writevalid);
extern KIT_ATOMIC_CALL(readwritevalid);
extern KIT_ATOMIC_CALL(compwritevalid);

/**
 * kit_atomic_query_kind() - What fi_query_atomic() with @flags asks about. Return: enum kit_atomic_kind; -FI_EINVAL;
 * -FI_EOPNOTSUPP tagged ones.
 */
int kit_atomic_query_kind(const struct fi_atomic_attr *attr, uint64_t flags);

/** kit_atomic_flags() - The flags of @req on @ep; FI_COMPLETION where nothing selects. */
static inline uint64_t kit_atomic_flags(const struct kit_ep *ep, const struct kit_atomic_req *req)
{
	if (req->form == KIT_ATOMIC_BY_MSG)
		return req->flags | (ep->tx_selective ? 0 : FI_COMPLETION);
	return ep->tx_op_flags | (req->form == KIT_ATOMIC_BY_INJECT ? FI_INJECT : 0);
}
/**
 * kit_count_bytes() - @count elements of @dt_size bytes behind @len bytes. Return: bytes in all; SIZE_MAX: no memory is
 * so large.
 */
static inline size_t kit_count_bytes(size_t len, size_t count, size_t dt_size)
{
	size_t more;

	return __builtin_mul_overflow(count, dt_size, &more) || __builtin_add_overflow(len, more, &len) ? SIZE_MAX
													: len;
}

/**
 * kit_ioc_to_iov() - @cnt vectors of elements of @dt_size bytes. Return: bytes in all; SIZE_MAX: no memory is so large.
 */
static inline size_t kit_ioc_to_iov(struct iovec *iov, const struct fi_ioc *ioc, size_t cnt, size_t dt_size)
{
	size_t len = 0;

	for (size_t i = 0; i < cnt; i++) {
		iov[i] = (struct iovec){ioc[i].addr, ioc[i].count * dt_size};
		len = kit_count_bytes(len, ioc[i].count, dt_size);
	}
	return len;
}

#endif
