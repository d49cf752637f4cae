// SPDX-License-Identifier: BSD-2-Clause
// The table of FI_OPX_* parameters, and the rules between them. Source: doc/facts/opx.md#parameters.
#include "prov/opx/opx_param.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>

#include "base/log.h"
#include "prov/opx/opx.h"

#define ROW(name_, type_, min_, max_, help_)                                                       \
	{                                                                                          \
		#name_, type_, help_, offsetof(struct opx_params, name_), min_, max_               \
	}
#define BYTES_MAX    2147483646
#define UUID_DEFAULT "00112233445566778899aabbccddeeff"

const struct kit_param opx_param_tab[] = {
	ROW(uuid, KIT_STRING, 0, 0,
	    "Identity of the job, 1 to 32 hexadecimal digits; all processes that communicate need the same. "
	    "(Default: SLURM_JOB_ID, then I_MPI_HYDRA_UUID, then " UUID_DEFAULT ")"),
	ROW(force_cpuaffinity, KIT_BOOL, 0, 0,
	    "Bind the thread that opens a context to the core it is running on. (Default: no)"),
	ROW(reliability_service_usec_max, KIT_INT, INT_MIN, INT_MAX,
	    "Microseconds between PING requests for packets that were not acknowledged; at least 1. (Default: 500)"),
	ROW(reliability_service_pre_ack_rate, KIT_INT, 0, 32768,
	    "Packets after which a receiver sends an ACK unasked: 0 (never) or a power of two up to 32768. (Default: "
	    "64)"),
	ROW(selinux, KIT_BOOL, 0, 0,
	    "Security-enhanced Linux: read the job key again after the partition key was set. (Default: no)"),
	ROW(hfi_select, KIT_STRING, 0, KIT_PARAM_TEXT,
	    "The HFI to open contexts on: a unit number, or a comma-separated list of default, fixed:unit, "
	    "numa:unit:nodes and "
	    "core:unit:cores, of which the first that matches the caller counts. (Default: none)"),
	ROW(delivery_completion_threshold, KIT_INT, 16385, BYTES_MAX,
	    "Older name of SDMA_BOUNCE_BUF_THRESHOLD. (Default: 16385)"),
	ROW(sdma_bounce_buf_threshold, KIT_INT, 16385, BYTES_MAX,
	    "Longest message that is copied before SDMA sends it, so that the send completes at once, bytes. (Default: "
	    "16385)"),
	ROW(sdma_disable, KIT_FLAG, 0, 0, "Do not use SDMA. (Default: 0)"),
	ROW(sdma_min_payload_bytes, KIT_INT, 64, BYTES_MAX,
	    "Least length of a message that SDMA sends, bytes. (Default: 16385)"),
	ROW(rzv_min_payload_bytes, KIT_INT, 64, 65536,
	    "Least length of a message that goes by rendezvous, bytes. (Default: 16385)"),
	ROW(mp_eager_disable, KIT_FLAG, 0, 0, "Do not send messages eagerly in several packets. (Default: 0)"),
	ROW(expected_receive_enable, KIT_BOOL, 0, 0, "Rendezvous by expected receive (TID). (Default: no)"),
	ROW(prog_affinity, KIT_STRING, 0, 0, "Cores of the progress threads, as start:end:stride. (Default: any)"),
	ROW(auto_progress_interval_usec, KIT_INT, INT_MIN, INT_MAX,
	    "Microseconds between two polls of a progress thread. (Default: 1)"),
	ROW(pkey, KIT_INT, 1, 0xffff, "Partition key; it must be in the port's table. (Default: 0x8001)"),
	ROW(sl, KIT_INT, 0, 31, "Service level, which gives service class and virtual lane. (Default: 0)"),
	ROW(dev_reg_send_threshold, KIT_INT, 0, INT_MAX,
	    "Packets up to this are copied from device memory by the CPU, bytes; no effect, device memory is not "
	    "offered. (Default: 4096)"),
	ROW(dev_reg_recv_threshold, KIT_INT, 0, INT_MAX,
	    "Packets up to this are copied to device memory by the CPU, bytes; no effect, device memory is not "
	    "offered. (Default: 8192)"),
	ROW(shm_enable, KIT_BOOL, 0, 0, "Reach processes on this host through shared memory. (Default: yes)"),
};
const size_t opx_param_cnt = ARRAY_SIZE(opx_param_tab);

/* --- the job ------------------------------------------------------------------------------------- */

static bool uuid_ok(const char *text)
{
	size_t len = strspn(text, "0123456789abcdefABCDEF");

	return len >= 1 && len <= 32 && !text[len];
}

/* @hex is legal. Right-aligned: "1" is the job ...01. */
static void job_set(struct opx_params *p, const char *hex)
{
	size_t len = strlen(hex);

	memset(p->job, 0, sizeof(p->job));
	for (size_t i = 0; i < len; i++) {
		unsigned c = (unsigned char)hex[len - 1 - i], v = isdigit((int)c) ? c - '0' : (c | 0x20) - 'a' + 10;

		p->job[15 - i / 2] |= (uint8_t)(v << (i % 2 * 4));
	}
}

void opx_params_default(struct opx_params *p)
{
	*p = (struct opx_params){
		.uuid = UUID_DEFAULT,
		.shm_enable = true,
		.reliability_service_usec_max = 500,
		.reliability_service_pre_ack_rate = 64,
		.delivery_completion_threshold = 16385,
		.sdma_bounce_buf_threshold = 16385,
		.sdma_min_payload_bytes = 16385,
		.rzv_min_payload_bytes = 16385,
		.auto_progress_interval_usec = 1,
		.pkey = HFI_PKEY_DEFAULT,
		.dev_reg_send_threshold = 4096,
		.dev_reg_recv_threshold = 8192,
	};
	job_set(p, p->uuid);
}

/* Intel MPI's launcher writes eight digits, four, four, four and twelve, with dashes between them. */
static const char *no_dashes(const char *text, char out[KIT_PARAM_STR])
{
	size_t n = 0;

	for (; *text && n < KIT_PARAM_STR - 1; text++)
		if (*text != '-')
			out[n++] = *text;
	out[n] = '\0';
	return out;
}

/*
 * Who names the job: our variable, the launcher's, nobody. A name that is none is not replaced by the next one's: ranks
 * would disagree.
 */
static int uuid_choose(struct opx_params *p)
{
	const char *from = kit_param_is_set(&g_opx_prov, "uuid") ? "FI_OPX_UUID"
			   : secure_getenv("SLURM_JOB_ID")	 ? "SLURM_JOB_ID"
								 : "I_MPI_HYDRA_UUID";
	const char *text = !strcmp(from, "FI_OPX_UUID") ? p->uuid : secure_getenv(from);
	char plain[KIT_PARAM_STR];
	int ret = 0;

	if (!text)
		text = UUID_DEFAULT;
	else if (!strcmp(from, "I_MPI_HYDRA_UUID"))
		text = no_dashes(text, plain);
	if (!uuid_ok(text)) {
		kit_warn_once(&g_opx_prov,
			      "%s=\"%s\" is ignored: expected 1 to 32 hexadecimal digits; the job is " UUID_DEFAULT,
			      from, text);
		text = UUID_DEFAULT;
		ret = -FI_EINVAL;
	}
	if (text != p->uuid)
		snprintf(p->uuid, sizeof(p->uuid), "%s", text);
	job_set(p, p->uuid);
	return ret;
}

/* --- rules --------------------------------------------------------------------------------------- */

static int clamp(const char *name, int64_t *v, int64_t min)
{
	if (*v >= min)
		return 0;
	kit_warn_once(&g_opx_prov, "FI_OPX_%s=%lld is too small: %lld is used", name, (long long)*v, (long long)min);
	*v = min;
	return -FI_EINVAL;
}

static int pre_ack_check(struct opx_params *p)
{
	int64_t v = p->reliability_service_pre_ack_rate;

	if (!(v & (v - 1)))
		return 0;
	kit_warn_once(
		&g_opx_prov,
		"FI_OPX_RELIABILITY_SERVICE_PRE_ACK_RATE=%lld is ignored: expected 0 or a power of two from 1 to "
		"32768; 64 is used",
		(long long)v);
	p->reliability_service_pre_ack_rate = 64;
	return -FI_EINVAL;
}

int opx_params_get(struct opx_params *p)
{
	int ret, r;

	opx_params_default(p);
	p->pkey = 0;
	ret = kit_params_load(&g_opx_prov, opx_param_tab, opx_param_cnt, p);
	/*
	 * What was set and is refused must not act as if it had not been: other traffic, or another adapter, would be
	 * the result.
	 */
	p->pkey_refused = !p->pkey && kit_param_is_set(&g_opx_prov, "pkey");
	if (!p->pkey)
		p->pkey = HFI_PKEY_DEFAULT;
	p->hfi_select_set = kit_param_is_set(&g_opx_prov, "hfi_select");
	r = uuid_choose(p);
	ret = ret ? ret : r;
	r = clamp("RELIABILITY_SERVICE_USEC_MAX", &p->reliability_service_usec_max, 1);
	ret = ret ? ret : r;
	r = clamp("AUTO_PROGRESS_INTERVAL_USEC", &p->auto_progress_interval_usec, 0);
	ret = ret ? ret : r;
	r = pre_ack_check(p);
	ret = ret ? ret : r;
	if (kit_param_is_set(&g_opx_prov, "delivery_completion_threshold") &&
	    !kit_param_is_set(&g_opx_prov, "sdma_bounce_buf_threshold")) {
		KIT_INFO(&g_opx_prov, FI_LOG_CORE,
			 "FI_OPX_DELIVERY_COMPLETION_THRESHOLD is the old name of FI_OPX_SDMA_BOUNCE_BUF_THRESHOLD\n");
		p->sdma_bounce_buf_threshold = p->delivery_completion_threshold;
	}
	return ret;
}

/* --- cores of progress threads ------------------------------------------------------------------- */

/* Digits up to @stop, which is taken. */
static bool number(const char **at, char stop, int *out)
{
	long v = 0;
	const char *p = *at;

	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++)
		v = MIN(v * 10 + (*p - '0'), (long)INT_MAX / 2);
	if (*p != stop)
		return false;
	*at = p + 1;
	*out = (int)v;
	return true;
}

int opx_cores_parse(const char *text, struct opx_cores *out)
{
	const char *p = text;
	struct opx_cores c;

	if (!number(&p, ':', &c.start) || !number(&p, ':', &c.end) || !number(&p, '\0', &c.stride)) {
		LOG_WARN("FI_OPX_PROG_AFFINITY=\"%s\" refused: expected start:end:stride, three numbers", text);
		return -FI_EINVAL;
	}
	c.stride = MAX(c.stride, 1);
	*out = c;
	return 0;
}
