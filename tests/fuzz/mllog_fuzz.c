/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as lines of a training log, and as a run of them. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "bench/mllog.h"
#include "bench/mlrun.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mlrun run;
	mlrun_init(&run, (enum mlrules_round)(size % MLRULES_ROUNDS));
	const char *at = (const char *)data, *end = at + size;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((newline ? newline : end) - at);
		struct mllog log;
		struct err err = {0};
		int result = mllog_parse(at, length, &log, &err);
		if (result < 0 && err.text[0] == '\0')
			abort();
		if (result == 1 && (memchr(log.key, '\0', sizeof(log.key)) == NULL ||
				    memchr(log.text, '\0', sizeof(log.text)) == NULL))
			abort();
		mlrun_line(&run, at, length);
		at += length + (newline != NULL);
	}
	mlrun_end(&run);
	return 0;
}
