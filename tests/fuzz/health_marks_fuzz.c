/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of the GPUs' health: what can be read is written and read again the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "hardware/health_marks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int write_marks(const struct health_marks *marks, struct buf *out)
{
	int rc = health_marks_begin(out, marks->boot, marks->kmsg_sequence);
	for (uint32_t i = 0; rc == 0 && i < marks->count; i++)
		rc = health_marks_add(out, &marks->marks[i]);
	return rc == 0 ? health_marks_end(out) : rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_health_marks_ struct health_marks marks = {.count = 0}, again = {.count = 0};
	_cleanup_buf_ struct buf first, second;
	buf_init(&first, 2 * HEALTH_MARKS_FILE_MAX);
	buf_init(&second, 2 * HEALTH_MARKS_FILE_MAX);
	if (health_marks_parse((const char *)data, size, &marks, NULL) < 0)
		return 0;
	if (write_marks(&marks, &first) < 0 ||
	    health_marks_parse(buf_text(&first), first.length, &again, NULL) < 0 ||
	    write_marks(&again, &second) < 0 || strcmp(buf_text(&first), buf_text(&second)) != 0)
		abort();
	/* Whatever was read can be judged. */
	for (uint32_t i = 0; i < marks.count; i++) {
		struct health_verdict verdict;
		health_judge(&marks.marks[i].track, NULL, 0, false, &verdict);
	}
	return 0;
}
