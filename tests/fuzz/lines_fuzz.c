/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as lines, in pieces: the same commands however they are cut. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/lines.h"
#include "job/file/cmdlines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int joined(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct lines lines;
	int rc = 0;
	lines_init(&lines, CMDLINES_LINE_MAX);
	for (size_t at = 0; rc == 0 && at <= size; at += piece) {
		const char *line;
		size_t now = size - at < piece ? size - at : piece;
		rc = lines_feed(&lines, (const char *)data + at, now);
		while (rc >= 0 && (rc = cmdlines_next(&lines, at + piece > size, &line, NULL)) > 0)
			if (buf_add(out, line, strlen(line) + 1) < 0)
				abort();
	}
	lines_done(&lines);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, cut;
	if (size > LINES_PIECE_MAX - 1)
		return 0;
	buf_init(&whole, 1 << 20);
	buf_init(&cut, 1 << 20);
	int rc = joined(data, size, LINES_PIECE_MAX, &whole);
	if (joined(data, size, 3, &cut) != rc || whole.length != cut.length ||
	    (whole.length && memcmp(whole.data, cut.data, cut.length) != 0))
		abort();
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}
