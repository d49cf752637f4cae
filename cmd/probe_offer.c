// SPDX-License-Identifier: BSD-2-Clause
// Questions to libfabric, whichever file it is: hints by the names of their fields, answers in libfabric's own words.
// It is loaded at run time, so that a machine without it gets a sentence, and so that one program asks each libfabric
// that is installed.
#include <dlfcn.h>
#include <inttypes.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#include "probe.h"

#define LINE_LEN 16384
#define TEXT_LEN 8192

static struct {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	void (*freeinfo)(struct fi_info *info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	uint32_t (*version)(void);
	const char *(*strerror)(int err);
	char *(*tostr)(char *buf, size_t len, const void *data, enum fi_type type);
} g_fi;

/* Where a field lies. */
enum part { PART_INFO, PART_TX, PART_RX, PART_EP, PART_DOMAIN, PART_FABRIC };

/* What a field holds: words that libfabric knows, as bits or as one number; else a plain number or a text. */
enum kind {
	KIND_CAPS,
	KIND_MODE,
	KIND_OP_FLAGS,
	KIND_MSG_ORDER,
	KIND_MR_MODE,
	KIND_EP_TYPE,
	KIND_PROTOCOL,
	KIND_THREADING,
	KIND_PROGRESS,
	KIND_AV_TYPE,
	KIND_ADDR_FORMAT,
	KIND_RM,
	KIND_NUMBER,
	KIND_TEXT,
	KIND_NUM
};

static const struct {
	const char *name;
	enum fi_type type;
	unsigned cnt; /* values to ask names of; 0: it has none */
	bool is_bits;
	size_t size;
} kind_tab[KIND_NUM] = {
	[KIND_CAPS] = {"caps", FI_TYPE_CAPS, 64, true, 8},
	[KIND_MODE] = {"mode", FI_TYPE_MODE, 64, true, 8},
	[KIND_OP_FLAGS] = {"op_flags", FI_TYPE_OP_FLAGS, 64, true, 8},
	[KIND_MSG_ORDER] = {"msg_order", FI_TYPE_MSG_ORDER, 64, true, 8},
	[KIND_MR_MODE] = {"mr_mode", FI_TYPE_MR_MODE, 31, true, 4},
	[KIND_EP_TYPE] = {"ep_type", FI_TYPE_EP_TYPE, 16, false, 4},
	[KIND_PROTOCOL] = {"protocol", FI_TYPE_PROTOCOL, 64, false, 4},
	[KIND_THREADING] = {"threading", FI_TYPE_THREADING, 16, false, 4},
	[KIND_PROGRESS] = {"progress", FI_TYPE_PROGRESS, 16, false, 4},
	[KIND_AV_TYPE] = {"av_type", FI_TYPE_AV_TYPE, 16, false, 4},
	[KIND_ADDR_FORMAT] = {"addr_format", FI_TYPE_ADDR_FORMAT, 32, false, 4},
	[KIND_RM] = {"resource_mgmt", FI_TYPE_INFO, 0, false, 4},
	[KIND_NUMBER] = {"number", FI_TYPE_INFO, 0, false, 0},
	[KIND_TEXT] = {"text", FI_TYPE_INFO, 0, false, 0},
};

static const struct field {
	const char *name;
	enum part part;
	enum kind kind;
	size_t off, size;
} field_tab[] = {
#define F(part_, struct_, prefix_, member_, kind_)                                                                     \
	{                                                                                                              \
		prefix_ #member_, PART_##part_, KIND_##kind_, offsetof(struct struct_, member_),                       \
			sizeof(((struct struct_ *)0)->member_)                                                         \
	}
	F(INFO, fi_info, "", caps, CAPS),
	F(INFO, fi_info, "", mode, MODE),
	F(INFO, fi_info, "", addr_format, ADDR_FORMAT),
	F(TX, fi_tx_attr, "tx_attr.", caps, CAPS),
	F(TX, fi_tx_attr, "tx_attr.", mode, MODE),
	F(TX, fi_tx_attr, "tx_attr.", op_flags, OP_FLAGS),
	F(TX, fi_tx_attr, "tx_attr.", msg_order, MSG_ORDER),
	F(TX, fi_tx_attr, "tx_attr.", inject_size, NUMBER),
	F(TX, fi_tx_attr, "tx_attr.", size, NUMBER),
	F(TX, fi_tx_attr, "tx_attr.", iov_limit, NUMBER),
	F(TX, fi_tx_attr, "tx_attr.", rma_iov_limit, NUMBER),
	F(TX, fi_tx_attr, "tx_attr.", tclass, NUMBER),
	F(RX, fi_rx_attr, "rx_attr.", caps, CAPS),
	F(RX, fi_rx_attr, "rx_attr.", mode, MODE),
	F(RX, fi_rx_attr, "rx_attr.", op_flags, OP_FLAGS),
	F(RX, fi_rx_attr, "rx_attr.", msg_order, MSG_ORDER),
	F(RX, fi_rx_attr, "rx_attr.", total_buffered_recv, NUMBER),
	F(RX, fi_rx_attr, "rx_attr.", size, NUMBER),
	F(RX, fi_rx_attr, "rx_attr.", iov_limit, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", type, EP_TYPE),
	F(EP, fi_ep_attr, "ep_attr.", protocol, PROTOCOL),
	F(EP, fi_ep_attr, "ep_attr.", protocol_version, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", max_msg_size, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", max_order_raw_size, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", max_order_war_size, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", max_order_waw_size, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", mem_tag_format, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", tx_ctx_cnt, NUMBER),
	F(EP, fi_ep_attr, "ep_attr.", rx_ctx_cnt, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", name, TEXT),
	F(DOMAIN, fi_domain_attr, "domain_attr.", threading, THREADING),
	F(DOMAIN, fi_domain_attr, "domain_attr.", control_progress, PROGRESS),
	F(DOMAIN, fi_domain_attr, "domain_attr.", data_progress, PROGRESS),
	F(DOMAIN, fi_domain_attr, "domain_attr.", resource_mgmt, RM),
	F(DOMAIN, fi_domain_attr, "domain_attr.", av_type, AV_TYPE),
	F(DOMAIN, fi_domain_attr, "domain_attr.", mr_mode, MR_MODE),
	F(DOMAIN, fi_domain_attr, "domain_attr.", mr_key_size, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", cq_data_size, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", cntr_cnt, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", mr_iov_limit, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", caps, CAPS),
	F(DOMAIN, fi_domain_attr, "domain_attr.", mode, MODE),
	F(DOMAIN, fi_domain_attr, "domain_attr.", max_err_data, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", mr_cnt, NUMBER),
	F(DOMAIN, fi_domain_attr, "domain_attr.", tclass, NUMBER),
	F(FABRIC, fi_fabric_attr, "fabric_attr.", name, TEXT),
	F(FABRIC, fi_fabric_attr, "fabric_attr.", prov_name, TEXT),
};

/* --- libfabric --- */

static bool lib_open(const char *lib)
{
	void *h = dlopen(strcmp(lib, "-") ? lib : "libfabric.so.1", RTLD_NOW | RTLD_GLOBAL);
	const struct {
		const char *name;
		void *to;
	} sym[] = {
		{"fi_getinfo", &g_fi.getinfo}, {"fi_freeinfo", &g_fi.freeinfo}, {"fi_dupinfo", &g_fi.dupinfo},
		{"fi_version", &g_fi.version}, {"fi_strerror", &g_fi.strerror}, {"fi_tostr_r", &g_fi.tostr},
	};

	for (size_t i = 0; h && i < ARRAY_SIZE(sym); i++) {
		void *p = dlsym(h, sym[i].name);

		if (!p)
			h = NULL;
		memcpy(sym[i].to, &p, sizeof(p));
	}
	if (h)
		return true;
	printf("{");
	json_pair(stdout, true, "error", dlerror());
	printf("}\n");
	return false;
}

static void words_print(enum kind k)
{
	char buf[TEXT_LEN];
	bool is_first = true;

	printf("{");
	for (unsigned i = 0; i < kind_tab[k].cnt; i++) {
		uint64_t bit = kind_tab[k].is_bits ? 1ULL << i : i;
		uint32_t small = (uint32_t)bit;

		buf[0] = '\0';
		g_fi.tostr(buf, sizeof(buf), kind_tab[k].size == 8 ? (void *)&bit : (void *)&small, kind_tab[k].type);
		if (strncmp(buf, "FI_", 3) || strpbrk(buf, ", "))
			continue;
		printf("%s\"%s\": %" PRIu64, is_first ? "" : ", ", buf, bit);
		is_first = false;
	}
	if (k == KIND_RM)
		printf("\"FI_RM_UNSPEC\": %d, \"FI_RM_DISABLED\": %d, \"FI_RM_ENABLED\": %d", FI_RM_UNSPEC,
		       FI_RM_DISABLED, FI_RM_ENABLED);
	printf("}");
}

static void fields_print(void)
{
	uint32_t v = g_fi.version();

	printf("{\"version\": \"%u.%u\", \"kinds\": {", v >> 16, v & 0xffff);
	for (enum kind k = 0; k < KIND_NUMBER; k++) {
		printf("%s\"%s\": {\"bits\": %s, \"words\": ", k ? ", " : "", kind_tab[k].name,
		       kind_tab[k].is_bits ? "true" : "false");
		words_print(k);
		printf("}");
	}
	printf("}, \"fields\": {");
	for (size_t i = 0; i < ARRAY_SIZE(field_tab); i++)
		json_pair(stdout, !i, field_tab[i].name, kind_tab[field_tab[i].kind].name);
	printf("}}\n");
}

/* --- hints --- */

static void *part_of(struct fi_info *info, enum part part)
{
	switch (part) {
	case PART_INFO:
		return info;
	case PART_TX:
		return info->tx_attr;
	case PART_RX:
		return info->rx_attr;
	case PART_EP:
		return info->ep_attr;
	case PART_DOMAIN:
		return info->domain_attr;
	case PART_FABRIC:
		return info->fabric_attr;
	}
	return NULL;
}

static bool number_set(const struct field *f, void *to, const char *value)
{
	char *end;
	uint64_t v = strtoull(value, &end, 0);
	uint32_t small = (uint32_t)v;

	if (end == value || *end || (f->size == 4 && v > UINT32_MAX))
		return false;
	memcpy(to, f->size == 4 ? (void *)&small : (void *)&v, f->size);
	return true;
}

/* @pair is cut up. */
static bool hint_set(struct fi_info *hints, char *pair, uint32_t *api)
{
	char *value = strchr(pair, '=');
	unsigned major, minor;

	if (!value)
		return false;
	*value++ = '\0';
	if (!strcmp(pair, "api")) {
		if (sscanf(value, "%u.%u", &major, &minor) != 2)
			return false;
		*api = FI_VERSION(major, minor);
		return true;
	}
	if (!strcmp(pair, "why"))
		return !setenv("SOFTFABRIC_WHY", value, 1);
	for (size_t i = 0; i < ARRAY_SIZE(field_tab); i++) {
		const struct field *f = &field_tab[i];
		uint8_t *to = (uint8_t *)part_of(hints, f->part) + f->off;
		char *copy;

		if (strcmp(pair, f->name))
			continue;
		if (f->kind != KIND_TEXT)
			return number_set(f, to, value);
		copy = strdup(value);
		memcpy(to, &copy, sizeof(copy));
		return copy != NULL;
	}
	return false;
}

static void answer(struct fi_info *hints, uint32_t api)
{
	static char text[TEXT_LEN];
	struct fi_info *list = NULL;
	int ret = g_fi.getinfo(api, NULL, NULL, 0, hints, &list);

	printf("{\"ret\": %d, ", ret);
	json_pair(stdout, true, "text", ret ? g_fi.strerror(-ret) : NULL);
	printf(", \"infos\": [");
	for (struct fi_info *i = ret ? NULL : list; i; i = i->next) {
		text[0] = '\0';
		g_fi.tostr(text, sizeof(text), i, FI_TYPE_INFO);
		printf("%s", i == list ? "" : ", ");
		json_text(stdout, text);
	}
	printf("]}\n");
	fflush(stdout);
	if (!ret)
		g_fi.freeinfo(list);
}

static void ask(char *line)
{
	struct fi_info *hints = g_fi.dupinfo(NULL); /* as large as this libfabric's */
	uint32_t api = g_fi.version();
	char *pair;

	if (!hints)
		return;
	while ((pair = strsep(&line, "\t"))) {
		if (*pair && !hint_set(hints, pair, &api)) {
			printf("{\"ret\": -22, ");
			json_pair(stdout, true, "text", pair);
			printf(", \"infos\": []}\n");
			fflush(stdout);
			g_fi.freeinfo(hints);
			return;
		}
	}
	answer(hints, api);
	g_fi.freeinfo(hints);
}

int probe_offer(const char *lib)
{
	static char line[LINE_LEN];

	if (!lib_open(lib))
		return 1;
	fields_print();
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		ask(line);
	}
	return 0;
}
