// SPDX-License-Identifier: BSD-2-Clause
// The FI_OPX_* parameters: one table gives environment, fi_info -e and the manual; one struct holds the values.
#ifndef SF_PROV_OPX_OPX_PARAM_H
#define SF_PROV_OPX_OPX_PARAM_H

#include "kit/kit.h"

/* Defaults, ranges and meaning: doc/facts/opx.md#parameters. Bytes unless a comment says otherwise. */
struct opx_params {
	char uuid[KIT_PARAM_STR];
	bool force_cpuaffinity, selinux, expected_receive_enable, shm_enable;
	int64_t reliability_service_usec_max;     /* us */
	int64_t reliability_service_pre_ack_rate; /* packets; 0 or a power of two */
	char hfi_select[KIT_PARAM_TEXT];
	int64_t delivery_completion_threshold;    /* old name of the next one */
	int64_t sdma_bounce_buf_threshold;
	bool sdma_disable;
	int64_t sdma_min_payload_bytes;
	int64_t rzv_min_payload_bytes;
	bool mp_eager_disable;
	char prog_affinity[KIT_PARAM_STR];
	int64_t auto_progress_interval_usec;      /* us */
	int64_t pkey, sl;
	int64_t dev_reg_send_threshold, dev_reg_recv_threshold;
	/* derived by opx_params_get() */
	uint8_t job[16];                          /* the UUID, 1 to 32 hex digits, right-aligned */
	/* else the default logic; set and refused: hfi_select is empty, which no context can be opened with */
	bool hfi_select_set;
	/* no default in its place: partitions are there to keep traffic apart */
	bool pkey_refused;
};

/* FI_OPX_PROG_AFFINITY: cores @start, @start + @stride ... up to @end; none if @start > @end. */
struct opx_cores { int start, end, stride; };
/** opx_cores_parse() - @text: start:end:stride. 0, stride at least 1; -FI_EINVAL (logged). */
int opx_cores_parse(const char *text, struct opx_cores *out);

extern const struct kit_param opx_param_tab[];
extern const size_t opx_param_cnt;
void opx_params_default(struct opx_params *p);
/**
 * opx_params_get() - Defaults, environment, rules between them. A refused value keeps its default, with one warning
 * that names variable, text and range. 0; -FI_EINVAL: some value was refused.
 */
int opx_params_get(struct opx_params *p);

#endif
