// SPDX-License-Identifier: BSD-2-Clause
// Everything that is read as text: the settings grammar, INI files, the room.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/conf.h"
#include "link/core/link_int.h"

struct all {
	uint64_t num, ns;
	uint32_t ppm, words, word;
	char text[CONF_STR_MAX];
	bool yes;
};

static const struct conf_key keys[] = {
	{"", CONF_WORDS, offsetof(struct all, words), "W.", 0, 0, "shm,udp,x"},
	{"num", CONF_U64, offsetof(struct all, num), "N.", 1, 1000, NULL},
	{"ns", CONF_NS, offsetof(struct all, ns), "T.", 0, 0, NULL},
	{"ppm", CONF_PPM, offsetof(struct all, ppm), "P.", 0, 0, NULL},
	{"text", CONF_STR, offsetof(struct all, text), "S.", 0, 0, NULL},
	{"word", CONF_WORD, offsetof(struct all, word), "One.", 0, 0, "shm,udp,x"},
	{"yes", CONF_BOOL, offsetof(struct all, yes), "B.", 0, 0, NULL},
};

static void parse_file(struct fuzz *f)
{
	char path[64], text[256], *section = fuzz_text(f, 16);
	int fd = memfd_create("conf", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, f->p, f->left) == (ssize_t)f->left) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(text, 'x', sizeof(text));
		conf_file_section(path, section, text, sizeof(text));
		FUZZ_CHECK(strnlen(text, sizeof(text)) < sizeof(text));
	}
	if (fd >= 0)
		close(fd);
	free(section);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = {data, size};
	struct link_room room;
	uint8_t which = fuzz_u8(&f) % 3, ip[16];
	char err[64], *text;
	struct all out = {0}, before;

	if (which == 2) {
		parse_file(&f);
		return 0;
	}
	text = calloc(1, f.left + 1);
	size = f.left;
	fuzz_get(&f, text, size);
	memset(err, 'x', sizeof(err));
	before = out;
	if (which == 0 && conf_parse("FUZZ", text, keys, ARRAY_SIZE(keys), &out, sizeof(out), err, sizeof(err))) {
		FUZZ_CHECK(!memcmp(&before, &out, sizeof(out)));
		FUZZ_CHECK(strnlen(err, sizeof(err)) < sizeof(err));
	}
	if (which == 1 && !link_room_parse(text, &room, err, sizeof(err)))
		link_room_ip(&room, (unsigned)size, ip, err, sizeof(err));
	free(text);
	return 0;
}
