/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/diff.h"

#include <string.h>

#include "base/buf.h"

enum { CONTEXT_LINES = 3 };

struct text {
	const char *text;
	size_t length;
	size_t lines;
};

/* Behind the line that begins at `at`. */
static size_t line_end(const struct text *text, size_t at)
{
	const char *end = memchr(text->text + at, '\n', text->length - at);
	return end ? (size_t)(end - text->text) + 1 : text->length;
}

static struct text text_of(const struct buf *buf)
{
	struct text text = {buf->length ? buf->data : "", buf->length, 0};
	for (size_t at = 0; at < text.length; at = line_end(&text, at))
		text.lines++;
	return text;
}

/* Where line number `line`, from 0, begins. */
static size_t line_start(const struct text *text, size_t line)
{
	size_t at = 0;
	while (line-- > 0)
		at = line_end(text, at);
	return at;
}

static bool same_line(const struct text *a, size_t line_a, const struct text *b, size_t line_b)
{
	size_t start_a = line_start(a, line_a), start_b = line_start(b, line_b);
	size_t length = line_end(a, start_a) - start_a;
	return length == line_end(b, start_b) - start_b &&
	       memcmp(a->text + start_a, b->text + start_b, length) == 0;
}

/* Lines [from, to), each behind `mark`. A carriage return at the end is not shown. */
static int add_lines(const struct text *text, size_t from, size_t to, char mark, struct buf *out)
{
	int rc = 0;
	size_t at = line_start(text, from);

	for (size_t line = from; line < to && rc == 0; line++) {
		size_t next = line_end(text, at), end = next;
		bool is_cut = text->text[end - 1] != '\n';

		if (!is_cut && --end > at && text->text[end - 1] == '\r')
			end--;
		rc = buf_printf(out, "%c%.*s\n%s", mark, (int)(end - at), text->text + at,
				is_cut ? "\\ No newline at end of file\n" : "");
		at = next;
	}

	return rc;
}

int diff_add(const char *path, bool is_new, const struct buf *before, const struct buf *after,
	     struct buf *out)
{
	struct text a = text_of(before), b = text_of(after);
	size_t fewer = a.lines < b.lines ? a.lines : b.lines, head = 0, tail = 0;
	while (head < fewer && same_line(&a, head, &b, head))
		head++;

	while (tail < fewer - head && same_line(&a, a.lines - 1 - tail, &b, b.lines - 1 - tail))
		tail++;

	if (head == a.lines && head == b.lines)
		return 0;

	size_t from = head > CONTEXT_LINES ? head - CONTEXT_LINES : 0;
	size_t rest = tail > CONTEXT_LINES ? tail - CONTEXT_LINES : 0;
	size_t count_a = a.lines - rest - from, count_b = b.lines - rest - from;
	int rc = buf_printf(out, "--- %s\n+++ %s\n@@ -%zu,%zu +%zu,%zu @@\n",
			    is_new ? "/dev/null" : path, path, count_a ? from + 1 : from, count_a,
			    count_b ? from + 1 : from, count_b);
	if (rc == 0)
		rc = add_lines(&a, from, head, ' ', out);

	if (rc == 0)
		rc = add_lines(&a, head, a.lines - tail, '-', out);
	if (rc == 0)
		rc = add_lines(&b, head, b.lines - tail, '+', out);
	if (rc == 0)
		rc = add_lines(&a, a.lines - tail, a.lines - rest, ' ', out);

	return rc;
}
