/* SPDX-License-Identifier: Apache-2.0 */
/* What the store has of an attempt: its GPUs and its observations. What is read can be written and
 * reads the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "job/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_attempt(const char *text, size_t size)
{
	struct record_attempt attempt, again;
	if (record_parse_attempt(text, size, &attempt, NULL) < 0)
		return;
	char *written = NULL;
	if (record_format_attempt(attempt.instance, attempt.grants, attempt.grant_count, &written,
				  NULL) == 0) {
		assert(record_parse_attempt(written, strlen(written), &again, NULL) == 0);
		assert(again.grant_count == attempt.grant_count);
		for (size_t i = 0; i < again.grant_count; i++)
			assert(memcmp(again.grants[i].slots, attempt.grants[i].slots,
				      sizeof(again.grants[i].slots)) == 0);
		record_attempt_done(&again);
	}
	free(written);
	record_attempt_done(&attempt);
}

static void count_grant(const struct launch_grant *grant, void *context)
{
	assert(grant->slot_count > 0 && grant->label[0]);
	*(size_t *)context += 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	size_t grants = 0;
	(void)record_each_grant(text, size, count_grant, &grants);
	assert(grants <= size);
	fuzz_attempt(text, size);
	struct queue_observation *seen = NULL;
	size_t count = 0;
	if (record_parse_observations(text, size, &seen, &count, NULL) == 0) {
		char *written = NULL;
		assert(count <= RECORD_OBSERVATIONS_MAX);
		assert(record_format_observations(seen, count, &written, NULL) == 0);
		assert((written != NULL) == (count > 0));
		free(written);
	}
	free(seen);
	return 0;
}
