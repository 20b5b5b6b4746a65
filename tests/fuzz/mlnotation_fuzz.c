/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a value in Python's notation: what becomes of it stays within its bounds, is the
 * same once more, and what was JSON means the same. */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/mlnotation.h"

enum { MOST = 4096, LEVELS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Recursion of the JSON reader is bounded by what it is given. */
static bool is_shallow(const char *text, size_t length)
{
	size_t depth = 0;
	for (size_t i = 0; i < length; i++)
		depth += text[i] == '{' || text[i] == '[';
	return depth <= LEVELS;
}

static json_t *load(const struct buf *buf)
{
	json_error_t why;
	return json_loadb(buf_text(buf), buf->length, JSON_DECODE_ANY, &why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf raw _cleanup_buf_, once _cleanup_buf_, twice _cleanup_buf_;
	struct err err = {0};
	bool is_python = false, is_again = false;
	if (size > MOST)
		return 0;
	buf_init(&raw, MOST);
	buf_init(&once, 8 * MOST);
	buf_init(&twice, 64 * MOST);
	if (buf_add(&raw, data, size) < 0)
		return 0;
	if (mlnotation_to_json((const char *)data, size, &once, &is_python, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	if (once.length > 8 * size || !is_shallow(buf_text(&once), once.length))
		return 0;

	json_t *before = load(&raw), *after = load(&once);
	if (before && (!after || is_python || !json_equal(before, after)))
		abort();
	if (after &&
	    (mlnotation_to_json(buf_text(&once), once.length, &twice, &is_again, &err) < 0 ||
	     is_again || strcmp(buf_text(&once), buf_text(&twice)) != 0))
		abort();
	json_decref(before);
	json_decref(after);
	return 0;
}
