// SPDX-License-Identifier: BSD-2-Clause
// Memory registration modes: two words until libfabric 1.5, bits since, and programs that speak
// either.
//
// Theory of operation: a provider states bits (FI_MR_LOCAL, VIRT_ADDR ...); a program that accepts
// fewer cannot use it. The old words are FI_MR_BASIC, which is VIRT_ADDR|ALLOCATED|PROV_KEY, and
// FI_MR_SCALABLE, which is none of them; FI_LOCAL_MR, then a mode bit, stands for FI_MR_LOCAL. A
// program of 1.5 or later may use a word too, alone. Bits that concern targets of RMA do not matter
// to a program that is none. Source: fi_mr(3), fi_getinfo(3).
#include "kit/compat.h"
#include "kit/info_int.h"
#include "kit/kit_int.h"

#define WORDS	    (KIT_MR_BASIC | KIT_MR_SCALABLE)
#define BASIC_BITS  (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define TARGET_BITS (FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_RMA_EVENT)
/* LOCAL has its own rule, HMEM depends on FI_HMEM, ENDPOINT and COLLECTIVE came later: no obstacle
 * to a word. */
#define WORD_FREE (FI_MR_LOCAL | FI_MR_HMEM | FI_MR_COLLECTIVE | WORDS)

static int hint_mode(const struct fi_info *hints)
{
	return hints && hints->domain_attr ? hints->domain_attr->mr_mode : KIT_MR_UNSPEC;
}

static bool is_target(uint64_t caps)
{
	if (!(caps & (FI_RMA | FI_ATOMIC)))
		return false;
	return (caps & (FI_REMOTE_READ | FI_REMOTE_WRITE)) || !(caps & (FI_READ | FI_WRITE));
}

/* Which words describe a provider: those it names, else what follows from its bits. */
static int words_of(int have)
{
	int bits = have & ~WORD_FREE;

	if (have & WORDS)
		return have & WORDS;
	if (!bits)
		return KIT_MR_SCALABLE;
	return bits & ~BASIC_BITS ? 0 : KIT_MR_BASIC;
}

/* Bits that matter to a program with @caps. */
static int needed(uint64_t caps, int have)
{
	int bits = have & ~WORDS;

	if (!(caps & FI_HMEM))
		bits &= ~FI_MR_HMEM;
	if (is_target(caps))
		return bits;
	return bits & (FI_MR_LOCAL | FI_MR_HMEM) ? bits & ~TARGET_BITS : 0;
}

static bool word_ok(int have, int word)
{
	return word == KIT_MR_UNSPEC ? words_of(have) != 0 : (words_of(have) & word) != 0;
}

static bool mode_ok(uint32_t version, int have, const struct fi_info *hints)
{
	int want = hint_mode(hints), need;

	if ((have & FI_MR_LOCAL) && !(want & FI_MR_LOCAL) && !(hints->mode & KIT_LOCAL_MR))
		return false;
	if (version < KIT_V(1, 5) || (want & WORDS)) /* a word stands alone */
		return (want == KIT_MR_UNSPEC || want == KIT_MR_BASIC || want == KIT_MR_SCALABLE) &&
		       word_ok(have, want);
	need = needed(hints->caps, have);
	return want == KIT_MR_UNSPEC || (want & need) == need;
}

static int result_of(uint32_t version, int have, uint64_t caps, const struct fi_info *hints)
{
	int want = hint_mode(hints);

	if (want & WORDS)
		return want;
	if (version < KIT_V(1, 5))
		return words_of(have) & KIT_MR_SCALABLE && !(words_of(have) & KIT_MR_BASIC)
			       ? KIT_MR_SCALABLE
			       : KIT_MR_BASIC;
	have &= ~WORDS;
	if (hints && hints->domain_attr && (want & have) != have)
		return needed(caps, have & want);
	return have;
}

bool kit_mr_mode_ok(uint32_t version, const struct fi_info *have, const struct fi_info *hints,
		    int *result_mode)
{
	int mode = have->domain_attr->mr_mode;

	if (hints && hints->domain_attr && !mode_ok(version, mode, hints))
		return false;
	if (result_mode)
		*result_mode = result_of(version, mode, kit_mr_caps(version, have, hints), hints);
	return true;
}

uint64_t kit_mr_mode_need(uint32_t version, const struct fi_info *have, const struct fi_info *hints)
{
	bool old = version < KIT_V(1, 5) ||
		   (hints->domain_attr && !(hints->domain_attr->mr_mode & FI_MR_LOCAL));

	return have->mode | (old && (have->domain_attr->mr_mode & FI_MR_LOCAL) ? KIT_LOCAL_MR : 0);
}

uint64_t kit_mr_caps(uint32_t version, const struct fi_info *have, const struct fi_info *hints)
{
	int mode = have->domain_attr->mr_mode, want = hint_mode(hints), bits;
	uint64_t caps;

	if (!hints)
		return have->caps;
	caps = kit_caps_narrow(have->caps, hints->caps, have->caps);
	if (!is_target(caps) || !(mode & TARGET_BITS))
		return caps;
	/* All that a target must handle, not only what is for targets alone: hints without caps were
	 * accepted as those of none. FI_MR_LOCAL is everybody's and was checked. */
	bits = needed(caps, mode) & ~FI_MR_LOCAL;
	if (hints->domain_attr) {
		if (want == KIT_MR_BASIC || (version < KIT_V(1, 5) && want == KIT_MR_UNSPEC) ||
		    (want & bits) == bits)
			return caps;
	}
	return caps & ~(FI_REMOTE_READ | FI_REMOTE_WRITE);
}

void kit_mr_alter(uint32_t version, struct fi_info *info, const struct fi_info *hints)
{
	int have = info->domain_attr->mr_mode;

	info->domain_attr->mr_mode = result_of(version, have, info->caps, hints);
	/* What is needed must be said one way or the other. */
	if ((have & FI_MR_LOCAL) && !(info->domain_attr->mr_mode & FI_MR_LOCAL))
		info->mode |= KIT_LOCAL_MR;
}
