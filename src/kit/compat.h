// SPDX-License-Identifier: BSD-2-Clause
// Structures that grew after libfabric 1.17, in their largest known form, for use under run-time
// version checks.
//
// The provider is built with 1.17 headers and runs under any core up to 2.6: what was appended
// later has no name in those headers. Every struct here is the old one as bytes, followed by the
// newer fields. A field may be read from a caller's struct, or written to it, only if the version
// in its comment says that the caller's struct has it.
#ifndef SF_KIT_COMPAT_H
#define SF_KIT_COMPAT_H

#include "kit/deprecated.h"
#include "kit/kit.h"

#define KIT_INFO_SLACK                                                                             \
	128 /* zero bytes behind every attribute: what a newer core than we know may read */

struct kit_domain_attr_ext {
	uint8_t base[192];
	size_t max_ep_auth_key;	     /* 1.20 */
	uint32_t max_group_id;	     /* 2.0 */
	uint64_t max_cntr_value;     /* 2.5 */
	uint64_t max_err_cntr_value; /* 2.5 */
};
static_assert(offsetof(struct kit_domain_attr_ext, max_ep_auth_key) ==
		      offsetof(struct fi_domain_attr, tclass) + 8,
	      "fi_domain_attr ended with tclass in 1.17");
static_assert(sizeof(struct kit_domain_attr_ext) == 224, "fi_domain_attr of 2.6");
static_assert(sizeof(struct fi_domain_attr) <= sizeof(struct kit_domain_attr_ext) + KIT_INFO_SLACK,
	      "the slack covers the headers that we are built with");

struct kit_cq_err_ext {
	uint8_t base[80];
	fi_addr_t src_addr; /* 1.20 */
};
#define KIT_CQ_ERR_LEN_1_0  offsetof(struct fi_cq_err_entry, err_data_size)
#define KIT_CQ_ERR_LEN_1_5  sizeof(((struct kit_cq_err_ext *)0)->base)
#define KIT_CQ_ERR_LEN_1_20 sizeof(struct kit_cq_err_ext)
static_assert(KIT_CQ_ERR_LEN_1_0 + sizeof(size_t) == KIT_CQ_ERR_LEN_1_5, "1.5 added err_data_size");
static_assert(KIT_CQ_ERR_LEN_1_20 == 88, "1.20 added src_addr");

/* What 1.20 appended to fi_ops_av; a core looks at size before it calls. */
struct kit_ops_av_ext {
	uint8_t base[64];
	int (*insert_auth_key)(struct fid_av *av, const void *auth_key, size_t auth_key_size,
			       fi_addr_t *fi_addr, uint64_t flags);
	int (*lookup_auth_key)(struct fid_av *av, fi_addr_t fi_addr, void *auth_key,
			       size_t *auth_key_size);
	int (*set_user_id)(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags);
};
static_assert(offsetof(struct kit_ops_av_ext, insert_auth_key) ==
		      offsetof(struct fi_ops_av, av_set) + sizeof(void *),
	      "fi_ops_av ended with av_set in 1.17");
#define KIT_AV_USER_ID (1ULL << 41) /* FI_AV_USER_ID, 1.20 */
#define KIT_AUTH_KEY   (1ULL << 57) /* FI_AUTH_KEY, 1.20 */

#define KIT_MR_DMABUF	     (1ULL << 40) /* FI_MR_DMABUF, 1.20: mr_iov is not an iovec */
#define KIT_AV_AUTH_KEY	     SIZE_MAX	  /* FI_AV_AUTH_KEY, 1.20: keys come with the addresses */
#define KIT_PROGRESS_UNIFIED 3		  /* FI_PROGRESS_CONTROL_UNIFIED, 2.0 */
#define KIT_OPT_CUDA_API_PERMITTED 10	  /* FI_OPT_CUDA_API_PERMITTED, 1.18 */

/** kit_domain_attr_len() - sizeof(struct fi_domain_attr) as the running core and its callers know
 * it. */
static inline size_t kit_domain_attr_len(void)
{
	uint32_t v = kit_core_version();

	return v >= KIT_V(2, 5) ? 224 : v >= KIT_V(2, 0) ? 208 : v >= KIT_V(1, 20) ? 200 : 192;
}

#endif
