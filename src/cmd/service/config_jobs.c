/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/config_jobs.h"

#include <stdio.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/table.h"
#include "policy/config.h"

static json_t *jobs_groups(const struct config_jobs *jobs)
{
	json_t *list = json_array();
	for (size_t i = 0; i < jobs->group_count; i++)
		(void)json_array_append_new(
		    list,
		    json_pack("{s:o, s:I, s:I}", "group", table_json_text(jobs->groups[i].name),
			      "pending", (json_int_t)jobs->groups[i].pending, "gpus",
			      (json_int_t)jobs->groups[i].gpus));

	return list;
}

static json_t *jobs_volumes(const struct config_jobs *jobs)
{
	json_t *list = json_array();
	for (size_t i = 0; i < jobs->volume_count; i++)
		(void)json_array_append_new(
		    list,
		    json_pack("{s:o, s:o, s:b}", "name", table_json_text(jobs->volumes[i].name),
			      "path", table_json_text(jobs->volumes[i].path), "readOnly",
			      (int)jobs->volumes[i].is_read_only));

	return list;
}

json_t *config_jobs_json(const struct config *config)
{
	const struct config_jobs *jobs = &config->jobs;
	if (jobs->group_count + jobs->volume_count == 0)
		return NULL;
	return json_pack("{s:o, s:o}", "groups", jobs_groups(jobs), "volumes", jobs_volumes(jobs));
}

/* JSON is YAML. `list` is given. */
static void jobs_print(const char *key, json_t *list)
{
	char *text = json_dumps(list, JSON_COMPACT);
	if (json_array_size(list) > 0 && text)
		printf("    %s: %s\n", key, text);
	free(text);
	json_decref(list);
}

void config_jobs_print(const struct config *config)
{
	jobs_print("groups", jobs_groups(&config->jobs));
	jobs_print("volumes", jobs_volumes(&config->jobs));
}
