// SPDX-License-Identifier: BSD-2-Clause
// What the two halves of softfabric-probe share: JSON on standard output, one object per line.
#ifndef SF_CMD_PROBE_H
#define SF_CMD_PROBE_H

#include <stdbool.h>
#include <stdio.h>

/** json_text() - @text (NULL: null) as a JSON string. */
void json_text(FILE *out, const char *text);
/** json_pair() - "name": "text", with a comma before it unless @is_first. */
void json_pair(FILE *out, bool is_first, const char *name, const char *text);

/** probe_room() - What SOFTFABRIC_* describe, as the adapters themselves read it. Return: the exit status. */
int probe_room(void);
/**
 * probe_offer() - What the providers answer to hints, which come on standard input, one set per line, its fields
 * separated by tabs: name=number for numbers, name=text for names, api=MAJOR.MINOR, why=FILE (SOFTFABRIC_WHY of this
 * call). The first line of the output has the fields and the words of each kind. @lib: libfabric's file, or "-" for the
 * one that the loader finds. Return: the exit status.
 */
int probe_offer(const char *lib);

#endif
