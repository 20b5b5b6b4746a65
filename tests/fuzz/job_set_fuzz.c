/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as an argument that means jobs: refused with a sentence, or a set that is in order. */
#include "cmd/jobs/job_set.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct job_set_item item;
	struct err err = {0};
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';

	if (job_set_read(text, &item, &err) < 0) {
		if (err.text[0] == '\0')
			abort();
	} else if (item.kind == JOB_SET_NAME) {
		Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
		job.name = text;
		(void)job_set_has(&item, &job);
		if (strlen(text) > JOB_SET_NAME_MAX || glob_check(text, &err) < 0)
			abort();
	} else if (item.first > item.last ||
		   (item.kind == JOB_SET_MEMBERS) != (item.array_id > 0)) {
		abort();
	}

	free(text);
	return 0;
}
