// SPDX-License-Identifier: BSD-2-Clause
// What opx reads as text: FI_OPX_HFI_SELECT, the job's UUID, cores of threads, names of domains, and the room's units.
#include "fuzz.h"

#include "prov/opx/opx.h"

static void select_unit(struct fuzz *f, const char *text)
{
	struct hfi_unit_attr units[HFI_UNIT_MAX] = {0};
	int cnt = fuzz_u8(f) % (HFI_UNIT_MAX + 1), unit;
	struct opx_where where = {.cpu = fuzz_u8(f) % 8, .numa_node = fuzz_u8(f) % 3 - 1, .cpu_cnt = 8,
				  .numa_max = fuzz_u8(f) % 3 - 1};
	char err[64];

	for (int i = 0; i < cnt; i++)
		units[i] = (struct hfi_unit_attr){.unit = i, .numa_node = fuzz_u8(f) % 3 - 1,
						  .state = fuzz_u8(f) % 2 ? HFI_PORT_ACTIVE : HFI_PORT_DOWN};
	memset(err, 'x', sizeof(err));
	unit = opx_select_unit(text, &where, units, cnt, err, sizeof(err));
	FUZZ_CHECK(unit == OPX_UNIT_DEFAULT || (unit >= 0 && unit < cnt && units[unit].state == HFI_PORT_ACTIVE) ||
		   unit == -FI_EINVAL || unit == -FI_ENODEV);
	FUZZ_CHECK(unit >= 0 || strnlen(err, sizeof(err)) < sizeof(err));
}

/* What is refused is as if it had not been said. */
static void uuid(const char *text)
{
	struct opx_params p, d;
	size_t len = strspn(text, "0123456789abcdefABCDEF");
	bool is_fine = len >= 1 && len <= 32 && !text[len];

	setenv("SLURM_JOB_ID", text, 1);
	opx_params_default(&d);
	FUZZ_CHECK(opx_params_get(&p) == (is_fine ? 0 : -FI_EINVAL));
	FUZZ_CHECK(is_fine || !memcmp(p.job, d.job, sizeof(p.job)));
	FUZZ_CHECK(strnlen(p.uuid, sizeof(p.uuid)) <= 32);
}

static void room(const char *text)
{
	struct hfi_unit_attr attr;
	char err[64];
	int cnt;

	setenv("SOFTFABRIC_OPX", text, 1);
	memset(err, 'x', sizeof(err));
	cnt = hfi_unit_cnt(err, sizeof(err));
	FUZZ_CHECK(cnt <= HFI_UNIT_MAX && strnlen(err, sizeof(err)) < sizeof(err));
	for (int i = 0; i < cnt; i++)
		FUZZ_CHECK(!hfi_unit_query(i, &attr) && attr.unit == i && attr.mtu <= HFI_MTU &&
			   attr.pkey_cnt <= ARRAY_SIZE(attr.pkeys));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};
	uint8_t which = fuzz_u8(&f) % 5;
	char *text = fuzz_text(&f, 200);
	struct opx_cores cores;
	int unit;

	switch (which) {
	case 0:
		select_unit(&f, text);
		break;
	case 1:
		uuid(text);
		break;
	case 2:
		room(text);
		break;
	case 3:
		FUZZ_CHECK(opx_cores_parse(text, &cores) || (cores.stride >= 1 && cores.start >= 0));
		break;
	default:
		unit = opx_unit_of(text);
		FUZZ_CHECK(unit >= -1 && unit < HFI_UNIT_MAX);
		break;
	}
	free(text);
	return 0;
}
