/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of sluice.jobs: limits of groups, and what the claims of job files are here. */
#include "policy/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "base/parse.h"

enum jobs_limits {
	JOBS_LIMIT_MAX = 1000000, /* as of sluice.jobs.limits */
};

/* Copies a text of the file that has to be there. */
static int read_text(const struct reader *reader, const struct yaml_node *entry, const char *path,
		     const char *key, char *out, size_t size)
{
	const struct yaml_node *value = yaml_get(entry, key);
	if (!value || yaml_is_null(value))
		return reader_error(reader, entry, -EINVAL, path, "no '%s' is given", key);
	if (value->kind != YAML_SCALAR || value->length == 0)
		return reader_wrong_kind(reader, value, path, "a name");
	if (value->length >= size)
		return reader_error(reader, value, -EINVAL, path, "'%s' has at most %zu bytes", key,
				    size - 1);

	memcpy(out, value->text, value->length + 1);
	return 0;
}

/* A limit; left alone where it is not said. */
static int read_limit(const struct reader *reader, const struct yaml_node *entry, const char *path,
		      const char *key, uint32_t *out)
{
	const struct yaml_node *value = yaml_get(entry, key);
	uint64_t number;

	if (!value || yaml_is_null(value))
		return 0;

	if (value->kind != YAML_SCALAR || value->quoted ||
	    parse_u64(value->text, 0, JOBS_LIMIT_MAX, &number) < 0)
		return reader_error(reader, value, -EINVAL, path,
				    "expected a number up to %d as '%s', found '%.64s'",
				    JOBS_LIMIT_MAX, key,
				    value->kind == YAML_SCALAR ? value->text : "no number");

	*out = (uint32_t)number;
	return 0;
}

static int read_group(const struct reader *reader, const struct yaml_node *entry, const char *path,
		      struct config_group *out)
{
	static const char *const known[] = {"group", "pending", "gpus"};
	int rc = reader_entry(reader, entry, path, known, array_length(known));
	if (rc == 0)
		rc = read_text(reader, entry, path, "group", out->name, sizeof(out->name));
	if (rc == 0 && !schema_is_group(out->name))
		rc = reader_error(reader, entry, -EINVAL, path,
				  "expected the name of a group, found '%s'", out->name);

	out->pending = CONFIG_AS_ALL;
	out->gpus = CONFIG_AS_ALL;
	if (rc == 0)
		rc = read_limit(reader, entry, path, "pending", &out->pending);
	if (rc == 0)
		rc = read_limit(reader, entry, path, "gpus", &out->gpus);
	out->line = entry->line;
	out->column = entry->column;

	return rc;
}

int reader_groups(const struct reader *reader, const struct yaml_node *node, const char *path,
		  struct config_jobs *out)
{
	int rc = reader_list(reader, node, path, "a list of {group, pending, gpus}");
	if (rc < 0 || node->entry_count == 0)
		return rc;
	if (node->entry_count > CONFIG_GROUPS_MAX)
		return reader_error(reader, node, -E2BIG, path, "%zu groups are more than %d",
				    node->entry_count, CONFIG_GROUPS_MAX);

	out->groups = calloc(node->entry_count, sizeof(*out->groups));
	if (!out->groups)
		return reader_error(reader, node, -ENOMEM, path, "out of memory");

	for (size_t i = 0; rc == 0 && i < node->entry_count; i++) {
		const struct yaml_node *entry = node->entries[i].value;
		char at[READER_PATH_MAX];

		rc = read_group(reader, entry, reader_index(at, path, i), &out->groups[i]);
		for (size_t k = 0; rc == 0 && k < i; k++) {
			if (strcmp(out->groups[k].name, out->groups[i].name) == 0)
				rc = reader_error(reader, entry, -EINVAL, at,
						  "'%s' is in the list twice (line %u)",
						  out->groups[i].name, out->groups[k].line);
		}

		out->group_count = i + 1;
	}

	return rc;
}

static int read_volume(const struct reader *reader, const struct yaml_node *entry, const char *path,
		       struct config_volume *out)
{
	static const char *const known[] = {"name", "path", "readOnly"};
	char text[CONFIG_TEXT_MAX];
	int rc = reader_entry(reader, entry, path, known, array_length(known));
	if (rc == 0)
		rc = read_text(reader, entry, path, "name", out->name, sizeof(out->name));

	if (rc == 0 && !reader_is_subdomain(out->name))
		rc = reader_error(reader, entry, -EINVAL, path,
				  "'%s' is no name of a claim (lower-case letters, digits, '-' and "
				  "'.')",
				  out->name);

	if (rc == 0)
		rc = read_text(reader, entry, path, "path", text, sizeof(text));
	if (rc == 0 && text[0] != '/')
		rc = reader_error(reader, entry, -EINVAL, path,
				  "expected an absolute path, found '%.200s'", text);
	if (rc < 0)
		return rc;

	const struct yaml_node *only = yaml_get(entry, "readOnly");
	if (only && !yaml_is_null(only) &&
	    (only->kind != YAML_SCALAR || parse_bool(only->text, &out->is_read_only) < 0))
		return reader_wrong_kind(reader, only, path, "true or false");

	out->path = strdup(text);
	return out->path ? 0 : reader_error(reader, entry, -ENOMEM, path, "out of memory");
}

int reader_volumes(const struct reader *reader, const struct yaml_node *node, const char *path,
		   struct config_jobs *out)
{
	int rc = reader_list(reader, node, path, "a list of {name, path, readOnly}");
	if (rc < 0 || node->entry_count == 0)
		return rc;

	out->volumes = calloc(node->entry_count, sizeof(*out->volumes));
	if (!out->volumes)
		return reader_error(reader, node, -ENOMEM, path, "out of memory");

	for (size_t i = 0; rc == 0 && i < node->entry_count; i++) {
		const struct yaml_node *entry = node->entries[i].value;
		char at[READER_PATH_MAX];

		out->volume_count = i + 1;
		rc = read_volume(reader, entry, reader_index(at, path, i), &out->volumes[i]);
		for (size_t k = 0; rc == 0 && k < i; k++) {
			if (strcmp(out->volumes[k].name, out->volumes[i].name) == 0)
				rc =
				    reader_error(reader, entry, -EINVAL, at,
						 "'%s' is in the list twice", out->volumes[i].name);
		}
	}

	return rc;
}

void reader_jobs_done(struct config_jobs *jobs)
{
	for (size_t i = 0; i < jobs->volume_count; i++)
		free(jobs->volumes[i].path);
	free(jobs->volumes);
	free(jobs->groups);
	jobs->volumes = NULL;
	jobs->groups = NULL;
	jobs->volume_count = jobs->group_count = 0;
}
