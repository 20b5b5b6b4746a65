/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other processes write and the queue reads: a holder's note, and /proc/PID/stat. The same
 * bytes go through both parsers.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "job/note.h"
#include "job/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct note note;
	if (note_parse(text, size, &note, NULL) == 0) {
		/* What was read can be written and reads the same. */
		char again[NOTE_TEXT_MAX];
		struct note second;
		size_t length = note_format(&note, again);
		assert(length < NOTE_TEXT_MAX);
		assert(note_parse(again, length, &second, NULL) == 0);
		assert(second.pid == note.pid && second.uid == note.uid);
		assert(second.since_s == note.since_s && strcmp(second.name, note.name) == 0);
	}

	struct tree_process process;
	if (tree_parse_stat(text, size, &process, NULL) == 0)
		assert(process.pid > 0 && process.parent >= 0);
	return 0;
}
