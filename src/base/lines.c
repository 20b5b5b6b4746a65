/* SPDX-License-Identifier: Apache-2.0 */
#include "base/lines.h"

#include <errno.h>
#include <string.h>

void lines_init(struct lines *lines, size_t line_max)
{
	*lines = (struct lines){.line_max = line_max};
	buf_init(&lines->bytes, line_max + 1 + LINES_PIECE_MAX);
}

void lines_done(struct lines *lines)
{
	buf_done(&lines->bytes);
}

void lines_clear(struct lines *lines)
{
	lines_done(lines);
	lines_init(lines, lines->line_max);
}

int lines_feed(struct lines *lines, const char *bytes, size_t length)
{
	buf_consume(&lines->bytes, lines->taken);
	lines->taken = 0;
	if (lines->bytes.length == 0 && lines->bytes.capacity > LINES_KEEP) {
		uint64_t number = lines->number;
		lines_clear(lines);
		lines->number = number;
	}

	int rc = buf_add(&lines->bytes, bytes, length);
	return rc == -ENOSPC ? -E2BIG : rc;
}

int lines_next(struct lines *lines, bool is_end, char **out, size_t *out_length)
{
	size_t left = lines->bytes.length - lines->taken;
	if (left == 0)
		return 0;

	char *line = lines->bytes.data + lines->taken;
	char *end = memchr(line, '\n', left);
	size_t length = end ? (size_t)(end - line) : left;
	if (length > lines->line_max)
		return -E2BIG;
	if (!end && !is_end)
		return 0;

	lines->number++;
	lines->taken += end ? length + 1 : length;
	if (length > 0 && line[length - 1] == '\r')
		length--;
	line[length] = '\0'; /* there is one behind the last byte of the buffer anyway */

	*out = line;
	*out_length = length;
	return 1;
}
