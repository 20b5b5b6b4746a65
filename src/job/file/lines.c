/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"

void lines_init(struct lines *lines)
{
	*lines = (struct lines){0};
	buf_init(&lines->bytes, LINES_LINE_MAX + 1 + LINES_PIECE_MAX);
}

void lines_done(struct lines *lines)
{
	buf_done(&lines->bytes);
}

static int lines_too_long(const struct lines *lines, struct err *err)
{
	return err_set(err, -E2BIG, "line %" PRIu64 " is longer than %d bytes", lines->number + 1,
		       LINES_LINE_MAX);
}

int lines_feed(struct lines *lines, const char *bytes, size_t length, struct err *err)
{
	buf_consume(&lines->bytes, lines->taken);
	lines->taken = 0;
	int rc = buf_add(&lines->bytes, bytes, length);
	if (rc == -ENOSPC)
		return lines_too_long(lines, err);
	return rc < 0 ? err_set(err, rc, "no memory for the lines") : 0;
}

static bool lines_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One line, which ends before `end`: 1 when it is a command. */
static int lines_take(struct lines *lines, char *line, char *end, const char **out, struct err *err)
{
	lines->number++;
	if (end - line > LINES_LINE_MAX) {
		lines->number--;
		return lines_too_long(lines, err);
	}

	if (memchr(line, '\0', (size_t)(end - line)))
		return err_set(err, -EINVAL, "line %" PRIu64 " has a NUL byte in it",
			       lines->number);

	while (end > line && lines_is_blank(end[-1]))
		end--;

	while (line < end && lines_is_blank(*line))
		line++;

	*end = '\0';
	if (*line == '\0' || *line == '#')
		return 0;

	*out = line;
	return 1;
}

int lines_next(struct lines *lines, bool is_end, const char **out, struct err *err)
{
	int rc = 0;

	while (rc == 0 && lines->taken < lines->bytes.length) {
		char *line = lines->bytes.data + lines->taken;
		size_t left = lines->bytes.length - lines->taken;
		char *end = memchr(line, '\n', left);
		if (!end && !is_end)
			return left > LINES_LINE_MAX ? lines_too_long(lines, err) : 0;

		/* Behind the last byte of the buffer there is a NUL. */
		end = end ? end : line + left;
		lines->taken = (size_t)(end - lines->bytes.data) + 1;
		rc = lines_take(lines, line, end, out, err);
	}

	if (lines->taken > lines->bytes.length)
		lines->taken = lines->bytes.length;

	return rc;
}
