/* SPDX-License-Identifier: Apache-2.0 */
#include "base/screen.h"

#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

enum screen_kind {
	SCREEN_PASS,
	SCREEN_ESCAPE,
	SCREEN_MORE, /* it is not whole */
};

#define SCREEN_ESC '\x1b'

/* After ESC and '[': digits and separators, and the letter of what is done with them. */
static enum screen_kind screen_sequence(const char *text, size_t length, size_t *out_size)
{
	size_t at = 2;
	while (at < length && at < SCREEN_HELD_MAX &&
	       ((text[at] >= '0' && text[at] <= '9') || text[at] == ';' || text[at] == ':'))
		at++;

	*out_size = 1;
	if (at >= SCREEN_HELD_MAX)
		return SCREEN_ESCAPE;
	if (at == length)
		return SCREEN_MORE;

	bool is_erasing = text[at] == 'K' && (at == 2 || (at == 3 && text[2] <= '2'));
	if (text[at] != 'm' && !is_erasing)
		return SCREEN_ESCAPE; /* of ESC alone: the rest is text then */

	*out_size = at + 1;
	return SCREEN_PASS;
}

/* What is at the front, and how many bytes of it. */
static enum screen_kind screen_next(const char *text, size_t length, size_t *out_size)
{
	*out_size = text_plain(text, length);
	if (*out_size > 0)
		return SCREEN_PASS;

	*out_size = 1;
	if (text[0] == '\n' || text[0] == '\t' || text[0] == '\r')
		return SCREEN_PASS;
	if (text[0] == SCREEN_ESC && length == 1)
		return SCREEN_MORE;
	if (text[0] == SCREEN_ESC)
		return text[1] == '[' ? screen_sequence(text, length, out_size) : SCREEN_ESCAPE;

	uint32_t c = text_decode(text, length, out_size);
	if (c == TEXT_INVALID && text_is_cut(text, length))
		return SCREEN_MORE;

	return c == TEXT_INVALID || text_is_unsafe(c) ? SCREEN_ESCAPE : SCREEN_PASS;
}

/* Shows what is whole; how many bytes those are. */
static int screen_take(struct screen *screen, const char *text, size_t length, size_t *out_taken,
		       struct buf *out)
{
	size_t at = 0;
	int rc = 0;

	while (at < length && rc == 0) {
		size_t size = 1;
		enum screen_kind kind = screen_next(text + at, length - at, &size);
		if (kind == SCREEN_MORE)
			break;
		if (kind == SCREEN_PASS && text[at] == SCREEN_ESC && text[at + size - 1] == 'm')
			screen->is_coloured = true;
		rc = kind == SCREEN_PASS ? buf_add(out, text + at, size)
					 : text_escape(out, text + at, size);
		at += size;
	}

	*out_taken = at;
	return rc;
}

int screen_show(struct screen *screen, const char *data, size_t length, struct buf *out)
{
	size_t taken = 0;
	int rc = 0;

	/* Byte by byte until nothing is held: it is a few. */
	while (screen->length > 0 && length > 0 && rc == 0) {
		screen->held[screen->length++] = *data++;
		length--;
		rc = screen_take(screen, screen->held, screen->length, &taken, out);
		screen->length -= taken;
		memmove(screen->held, screen->held + taken, screen->length);
	}

	if (rc == 0)
		rc = screen_take(screen, data, length, &taken, out);
	if (rc < 0)
		return rc;

	if (taken < length) { /* shorter than held: screen_next() sees to it */
		screen->length = length - taken;
		memcpy(screen->held, data + taken, screen->length);
	}

	return 0;
}

int screen_end(struct screen *screen, struct buf *out)
{
	int rc = text_escape(out, screen->held, screen->length);
	screen->length = 0;
	if (rc == 0 && screen->is_coloured)
		rc = buf_add(out, "\x1b[0m", 4);
	screen->is_coloured = false;
	return rc;
}
