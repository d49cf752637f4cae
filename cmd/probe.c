// SPDX-License-Identifier: BSD-2-Clause
// softfabric-probe: what the `softfabric` command asks in C, answered as JSON: the room, and what providers offer.
#include <stdbool.h>
#include <string.h>

#include "probe.h"

void json_text(FILE *out, const char *text)
{
	if (!text) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < ' ')
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

void json_pair(FILE *out, bool is_first, const char *name, const char *text)
{
	if (!is_first)
		fputs(", ", out);
	json_text(out, name);
	fputs(": ", out);
	json_text(out, text);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "room"))
		return probe_room();
	if (argc == 3 && !strcmp(argv[1], "offer"))
		return probe_offer(argv[2]);
	fprintf(stderr, "usage: softfabric-probe room | offer LIBFABRIC\n");
	return 2;
}
