// SPDX-License-Identifier: BSD-2-Clause
// Capability groups and MR-mode rules that the files behind fi_getinfo share.
#ifndef SF_KIT_INFO_INT_H
#define SF_KIT_INFO_INT_H

#include "kit/kit.h"

/* fi_getinfo(3): primary capabilities must be asked for, secondary ones may be given unasked. */
#define KIT_CAPS_PRIMARY                                                                           \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTICAST | FI_COLLECTIVE | FI_READ |        \
	 FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_NAMED_RX_CTX |       \
	 FI_DIRECTED_RECV | FI_HMEM | FI_AV_USER_ID | FI_PEER)
#define KIT_CAPS_SECONDARY                                                                         \
	(FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT | FI_RMA_PMEM | FI_TRIGGER |     \
	 FI_FENCE | FI_SHARED_AV | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define KIT_CAPS_MSG_DIR (FI_SEND | FI_RECV)
#define KIT_CAPS_RMA_DIR (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
/* Old programs set receive capabilities in tx_attr and the other way round: they mean nothing
 * there. */
#define KIT_CAPS_IGNORED_TX                                                                        \
	(FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RECV | FI_DIRECTED_RECV | FI_MULTI_RECV |           \
	 FI_SOURCE | FI_RMA_EVENT | FI_SOURCE_ERR)
#define KIT_CAPS_IGNORED_RX                                                                        \
	(FI_READ | FI_WRITE | FI_SEND | FI_FENCE | FI_MULTICAST | FI_NAMED_RX_CTX)

/** kit_caps_narrow() - What is left of the capabilities @attr when @hint (0: nothing said, then
 * @info_caps) asks. */
uint64_t kit_caps_narrow(uint64_t info_caps, uint64_t hint, uint64_t attr);
/** kit_mr_caps() - The capabilities of the result: no remote access without the MR mode that it
 * takes. */
uint64_t kit_mr_caps(uint32_t version, const struct fi_info *have, const struct fi_info *hints);
/** kit_mr_alter() - Set the result's mr_mode, and FI_LOCAL_MR in mode where the old style says it
 * so. */
void kit_mr_alter(uint32_t version, struct fi_info *info, const struct fi_info *hints);
/** kit_mr_mode_need() - Mode bits that the caller must offer: the provider's, and FI_LOCAL_MR where
 * it stands for FI_MR_LOCAL. */
uint64_t kit_mr_mode_need(uint32_t version, const struct fi_info *have,
			  const struct fi_info *hints);
/** kit_told_reason() - Tell the file that SOFTFABRIC_WHY names one reason of a refusal; nothing without one. */
void kit_told_reason(const struct fi_provider *prov, const char *text);
/** kit_info_warned() - A warning of this thread: during a fi_getinfo it is a reason, which SOFTFABRIC_WHY is told. */
void kit_info_warned(const struct fi_provider *prov, const char *text);
/**
 * kit_told_end() - Tell it what a call of fi_getinfo asked for, how it ended, and the reason that counts, if there is
 * one.
 */
void kit_told_end(const struct fi_provider *prov, const struct fi_info *hints,
		  const struct kit_why *why, int ret);

#endif
