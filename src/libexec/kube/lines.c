/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/lines.h"

#include <errno.h>
#include <string.h>

void lines_init(struct lines *lines)
{
	buf_init(&lines->part, LINES_MAX);
}

void lines_done(struct lines *lines)
{
	buf_done(&lines->part);
}

void lines_clear(struct lines *lines)
{
	if (lines->part.capacity <= LINES_KEEP) {
		buf_clear(&lines->part);
		return;
	}
	buf_done(&lines->part);
	lines_init(lines);
}

static int lines_give(const char *text, size_t length,
		      int (*line)(const char *text, size_t length, void *context), void *context)
{
	if (length > 0 && text[length - 1] == '\r')
		length--;
	return length > 0 ? line(text, length, context) : 0;
}

int lines_feed(struct lines *lines, const char *data, size_t length,
	       int (*line)(const char *text, size_t length, void *context), void *context)
{
	while (length > 0) {
		const char *end = memchr(data, '\n', length);
		size_t size = end ? (size_t)(end - data) : length;
		int rc = 0;

		if (!end || lines->part.length > 0)
			rc = buf_add(&lines->part, data, size);
		if (rc < 0)
			return rc == -ENOSPC ? -EMSGSIZE : rc;
		if (!end)
			return 0;

		if (lines->part.length > 0) {
			rc = lines_give(lines->part.data, lines->part.length, line, context);
			lines_clear(lines);
		} else if (size <= LINES_MAX) {
			rc = lines_give(data, size, line, context);
		} else {
			return -EMSGSIZE;
		}

		if (rc != 0)
			return rc;

		data += size + 1;
		length -= size + 1;
	}

	return 0;
}
