/* SPDX-License-Identifier: Apache-2.0 */
/* The record of our validation files: what is read is written and read the same. */
#include "doors/validations/ready_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ready_record record = {.count = 0}, again = {.count = 0};
	struct err err = {0};
	_cleanup_buf_ struct buf text;
	buf_init(&text, READY_RECORD_SIZE_MAX);
	int result = ready_record_parse((const char *)data, size, &record, &err);
	if (result < 0) {
		if (result != err.code || err.text[0] == '\0')
			abort();
		return 0;
	}
	if (ready_record_format(&record, &text, NULL) < 0)
		return 0; /* names of characters that JSON writes longer */
	if (ready_record_parse(buf_text(&text), text.length, &again, NULL) < 0 ||
	    memcmp(&record, &again, sizeof(record)) != 0)
		abort();
	return 0;
}
