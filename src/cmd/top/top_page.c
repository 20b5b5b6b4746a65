/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum top_page_limits {
	PAGE_CELL_MAX = 4096, /* bytes of one text after escaping; longer ones are cut */
	PAGE_BAR_MAX = 64,
};

static const char cut_mark[] = "\xe2\x80\xa6"; /* "…", one column */

/* SGR; TOP_PLAIN has none. Bright colours are left to the terminal's palette. */
static const char *const style_codes[] = {
    [TOP_PLAIN] = "",	      [TOP_BOLD] = "\x1b[1m",	 [TOP_DIM] = "\x1b[2m",
    [TOP_GREEN] = "\x1b[32m", [TOP_YELLOW] = "\x1b[33m", [TOP_RED] = "\x1b[31m",
};

void top_page_init(struct top_page *page, size_t width, bool colour)
{
	*page = (struct top_page){.width = width, .colour = colour};
	buf_init(&page->text, TOP_BYTES_MAX);
}

void top_page_done(struct top_page *page)
{
	buf_done(&page->text);
}

static void page_raw(struct top_page *page, const char *bytes, size_t length)
{
	if (page->error == 0)
		page->error = buf_add(&page->text, bytes, length);
}

/* Text that is escaped already. */
static void page_put(struct top_page *page, enum top_style style, const char *text, size_t length)
{
	if (page->is_cut || length == 0)
		return;

	size_t room = page->width ? page->width - page->used : SIZE_MAX;
	size_t columns = text_width(text, length);
	bool cut = columns > room;

	if (cut) {
		page->is_cut = true;
		if (room == 0)
			return; /* nothing is lost but what is behind a full line */
		length = text_fit(text, length, room - 1);
		columns = text_width(text, length) + 1;
	}

	bool styled = page->colour && style != TOP_PLAIN;
	if (styled)
		page_raw(page, style_codes[style], strlen(style_codes[style]));
	page_raw(page, text, length);

	if (cut)
		page_raw(page, cut_mark, strlen(cut_mark));
	if (styled)
		page_raw(page, "\x1b[0m", 4);
	page->used += columns;
}

void top_page_add(struct top_page *page, enum top_style style, const char *text)
{
	_cleanup_buf_ struct buf escaped;
	buf_init(&escaped, PAGE_CELL_MAX);
	int rc = text_escape(&escaped, text, strlen(text));
	if (rc == -ENOMEM)
		page->error = rc;
	page_put(page, style, buf_text(&escaped), escaped.length);
}

void top_page_addf(struct top_page *page, enum top_style style, const char *format, ...)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, PAGE_CELL_MAX);

	va_list arguments;
	va_start(arguments, format);

	int rc = buf_vprintf(&text, format, arguments);

	va_end(arguments);
	if (rc == -ENOMEM)
		page->error = rc;
	top_page_add(page, style, rc < 0 ? "..." : buf_text(&text));
}

static void page_blanks(struct top_page *page, size_t count)
{
	static const char blanks[] = "                                ";

	while (count > 0 && !page->is_cut) {
		size_t some = count < sizeof(blanks) - 1 ? count : sizeof(blanks) - 1;
		size_t room = page->width ? page->width - page->used : some;

		/* Blanks at the end of a full line are no loss: no mark. */
		page_put(page, TOP_PLAIN, blanks, some < room ? some : room);
		if (room < some)
			return;

		count -= some;
	}
}

size_t top_width(const char *text)
{
	_cleanup_buf_ struct buf escaped;
	buf_init(&escaped, PAGE_CELL_MAX);
	(void)text_escape(&escaped, text, strlen(text)); /* cut: as top_page_add() does */
	return text_width(buf_text(&escaped), escaped.length);
}

void top_page_cell(struct top_page *page, enum top_style style, const char *text, size_t width,
		   bool right)
{
	size_t columns = top_width(text);
	size_t used = page->used, whole = page->width;

	if (columns < width && right)
		page_blanks(page, width - columns);

	if (columns > width) {
		page->width = whole && used + width > whole ? whole : used + width;
		top_page_add(page, style, text);
		page->width = whole;

		/* The cell was cut, not the line. */
		page->is_cut = whole && page->used >= whole;
	} else {
		top_page_add(page, style, text);
	}

	if (page->used < used + width)
		page_blanks(page, used + width - page->used);
}

void top_page_bar(struct top_page *page, enum top_style style, size_t width, int percent,
		  const char *text)
{
	char bar[PAGE_BAR_MAX];
	size_t inner = width > 2 ? width - 2 : 0;

	inner = inner < sizeof(bar) ? inner : sizeof(bar);
	size_t share = percent < 0 ? 0 : percent > 100 ? 100 : (size_t)percent;
	size_t full = (share * inner + 50) / 100;
	size_t length = strlen(text), fit = length < inner ? length : inner;

	memset(bar, ' ', sizeof(bar));
	memset(bar, '|', full);
	memcpy(bar + inner - fit, text, fit);

	if (inner > fit)
		bar[inner - fit - 1] = ' '; /* "||20/40" is read as 1120 */
	page_put(page, TOP_DIM, "[", 1);
	page_put(page, style, bar, full);
	page_put(page, TOP_PLAIN, bar + full, inner - full);
	page_put(page, TOP_DIM, "]", 1);
}

void top_page_end(struct top_page *page)
{
	/* No blanks at the end of a line: it may be kept in a file. */
	size_t start = page->line[page->line_count];
	while (page->error == 0 && page->text.length > start &&
	       page->text.data[page->text.length - 1] == ' ')
		page->text.length--;

	page_raw(page, "\n", 1);
	if (page->line_count < TOP_LINES_MAX && page->error == 0)
		page->line[++page->line_count] = (uint32_t)page->text.length;
	page->used = 0;
	page->is_cut = false;
}
