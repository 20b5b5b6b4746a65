/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the result of a benchmark, and as what the kernel says of processors: refused, or a
 * result that is written and read back as the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "bench/result.h"
#include "bench/runner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_all(const struct result *result, struct buf *out)
{
	struct jsonw json;
	jsonw_init(&json, out);
	jsonw_object(&json, NULL);
	jsonw_text(&json, "schema", RESULT_SCHEMA);
	result_write_runs(&json, result);
	jsonw_end_object(&json);
	if (json.rc < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result result, again;
	struct err err = {0};
	uint64_t number;
	(void)runner_parse_steal((const char *)data, size, &number);
	(void)runner_parse_throttled((const char *)data, size, &number);
	if (result_parse((const char *)data, size, &result, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
		return 0;
	}
	struct buf first, second;
	buf_init(&first, RESULT_BYTES_MAX);
	buf_init(&second, RESULT_BYTES_MAX);
	write_all(&result, &first);
	if (result_parse(buf_text(&first), first.length, &again, &err) < 0)
		abort();
	write_all(&again, &second);
	if (strcmp(buf_text(&first), buf_text(&second)) != 0)
		abort();
	buf_done(&first);
	buf_done(&second);
	result_done(&result);
	result_done(&again);
	return 0;
}
