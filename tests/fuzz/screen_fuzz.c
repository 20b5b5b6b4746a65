/* SPDX-License-Identifier: Apache-2.0 */
/* Output of a program, whole and in pieces: both show the same, which fits, and of which a terminal
 * obeys nothing but lines, colours and the erasing of a line. */
#include "base/screen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void show(const char *text, size_t size, size_t piece, struct buf *out)
{
	struct screen screen = {.length = 0};
	buf_init(out, size * SCREEN_GROWTH + SCREEN_END_MAX);
	for (size_t at = 0; at < size; at += piece)
		if (screen_show(&screen, text + at, size - at < piece ? size - at : piece, out) < 0)
			abort();
	if (screen_end(&screen, out) < 0 || screen.length > 0)
		abort();
}

/* The length of the sequence. */
static size_t check_sequence(const char *text, size_t size)
{
	size_t at = 2;
	if (size < 3 || text[1] != '[')
		abort();
	while (at < size && strchr("0123456789;:", text[at]) && text[at])
		at++;
	if (at == size || (text[at] != 'm' && text[at] != 'K'))
		abort();
	return at + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf whole;
	_cleanup_buf_ struct buf parts;
	const char *text = (const char *)data;
	size_t step;
	show(text, size, size + 1, &whole);
	show(text, size, size > 0 ? 1 + data[0] % 7 : 1, &parts);
	if (whole.length != parts.length ||
	    (whole.length && memcmp(whole.data, parts.data, whole.length) != 0))
		abort();

	for (size_t at = 0; at < whole.length; at += step) {
		const char *shown = whole.data + at;
		uint32_t c = text_decode(shown, whole.length - at, &step);
		if (c == 0x1b)
			step = check_sequence(shown, whole.length - at);
		else if (c == TEXT_INVALID ||
			 (text_is_unsafe(c) && c != '\n' && c != '\t' && c != '\r'))
			abort();
	}
	return 0;
}
