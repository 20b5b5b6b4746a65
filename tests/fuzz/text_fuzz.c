/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever goes in, what comes out for a terminal is valid UTF-8 without control characters, and
 * escaping it again changes nothing. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf once;
	_cleanup_buf_ struct buf twice;
	buf_init(&once, 8 * size + 8);
	buf_init(&twice, 8 * size + 8);
	if (text_escape(&once, (const char *)data, size) < 0)
		return 0;
	for (size_t at = 0; at < once.length;) {
		size_t step;
		uint32_t c = text_decode(once.data + at, once.length - at, &step);
		if (c == TEXT_INVALID || c < 0x20 || (c >= 0x7f && c < 0xa0) || step == 0)
			abort();
		at += step;
	}
	size_t width = text_width(buf_text(&once), once.length);
	for (size_t columns = 0; columns < 20; columns++) {
		size_t fit = text_fit(buf_text(&once), once.length, columns);
		if (fit > once.length || text_width(buf_text(&once), fit) > columns ||
		    (columns >= width && fit != once.length))
			abort();
	}
	if (text_escape(&twice, buf_text(&once), once.length) == 0 &&
	    (twice.length != once.length ||
	     (once.length && memcmp(once.data, twice.data, once.length) != 0)))
		abort();
	return 0;
}
