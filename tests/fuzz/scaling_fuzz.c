/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the table of a scaling series: refused with a reason, or a report of numbers. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "bench/scaling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scaling scaling;
	struct err err = {0};
	struct buf out _cleanup_buf_;
	buf_init(&out, 64 << 20);
	scaling_init(&scaling);
	int result = scaling_add_csv(&scaling, (const char *)data, size, NULL, &err);
	if (result == 0)
		result = scaling_end(&scaling, &err);
	if (result < 0 && err.text[0] == '\0')
		abort();
	for (size_t i = 0; result == 0 && i < scaling.count; i++)
		if (!(scaling.points[i].efficiency > 0) ||
		    !(scaling.points[i].low <= scaling.points[i].high))
			abort();
	if (result == 0 &&
	    (scaling_text(&scaling, &out) < 0 || scaling_html(&scaling, "1", "now", &out) < 0))
		abort();
	scaling_done(&scaling);
	return 0;
}
