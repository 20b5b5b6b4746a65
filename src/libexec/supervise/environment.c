/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/jobenv.h"

enum { ENVIRONMENT_NUMBER_MAX = 24 };

int environment_make(const struct launch *launch, size_t first, size_t count, char ***out,
		     struct err *err)
{
	char id[ENVIRONMENT_NUMBER_MAX], attempt[ENVIRONMENT_NUMBER_MAX];
	char array_id[ENVIRONMENT_NUMBER_MAX], array_index[ENVIRONMENT_NUMBER_MAX];

	(void)snprintf(id, sizeof(id), "%" PRIu64, launch->id); /* these fit */
	(void)snprintf(attempt, sizeof(attempt), "%" PRIu32, launch->attempt);
	(void)snprintf(array_id, sizeof(array_id), "%" PRIu64, launch->array_id);
	(void)snprintf(array_index, sizeof(array_index), "%" PRIu32, launch->array_index);

	bool is_member = launch->array_id > 0;
	_cleanup_free_ const char **uuids = calloc(count + 1, sizeof(*uuids));
	if (!uuids)
		return err_set(err, -ENOMEM, "no memory for the job's environment");

	for (size_t i = 0; i < count; i++)
		uuids[i] = launch->grants[first + i].uuid;

	struct jobenv_job job = {.id = id,
				 .name = launch->spec.name,
				 .attempt = attempt,
				 .instance = launch->instance[0] ? launch->instance : NULL,
				 .uuids = uuids,
				 .uuid_count = count,
				 .array_id = is_member ? array_id : NULL,
				 .array_index = is_member ? array_index : NULL,
				 .is_indexed = launch->spec.wants.array == WANTS_ARRAY_INDEXED,
				 .adapters = launch->adapters};
	char *none[] = {NULL};

	return jobenv_make(launch->spec.environment ? launch->spec.environment : none, &job, out,
			   err);
}
