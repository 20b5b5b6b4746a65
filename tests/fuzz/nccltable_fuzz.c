/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the output of nccl-tests. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/nccltable.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nccltable table;
	nccltable_init(&table);
	const char *at = (const char *)data, *end = at + size;
	uint64_t rows = 0, broken = 0;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((newline ? newline : end) - at);
		struct nccltable_row row;
		struct err err = {0};
		int result = nccltable_line(&table, at, length, &row, &err);
		if (result < 0 && err.text[0] == '\0')
			abort();
		if (result == 1 && (memchr(row.type, '\0', sizeof(row.type)) == NULL ||
				    isinf(row.out_of_place.time_us) || row.root < -1))
			abort();
		rows += result == 1;
		broken += result < 0;
		at += length + (newline != NULL);
	}
	if (table.rows != rows || table.broken != broken || isinf(table.peak_busbw))
		abort();
	return 0;
}
