/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/yaml.h"
#include "job/file/convert.h"
#include "job/file/jobfile_fields.h"
#include "job/file/jobfile_kinds.h"
#include "job/file/jobfile_reader.h"

enum { JOBFILE_IGNORED_MAX = 400 }; /* bytes of the list of what is ignored */

struct jobfile {
	struct yaml *yaml; /* owned */
	struct jobfile_arena arena;
	struct jobfile_job *jobs[YAML_DOCUMENTS_MAX]; /* in the arena */
	size_t count;
};

static const struct {
	const char *version, *kind;
	enum jobfile_kind is;
	const struct objschema_table *table;
	int (*make)(struct jobreader *reader, const struct raw_document *raw);
} jobfile_kinds[] = {
    {"v1", "Pod", JOBFILE_POD, &fields_of_pod, kinds_pod},
    {"batch/v1", "Job", JOBFILE_JOB, &fields_of_job, kinds_job},
    {"kubeflow.org/v2beta1", "MPIJob", JOBFILE_MPIJOB, &fields_of_mpijob, kinds_mpijob},
};

static int jobfile_text(const struct jobreader *reader, const struct yaml_node *document,
			const char *key, const struct yaml_node **out)
{
	const struct yaml_node *node = yaml_get(document, key);
	if (!node || !objschema_is_text(node) || !node->text[0])
		return objschema_fail(&reader->schema, node ? node : document, NULL,
				      "%s is missing, or no text: this is no object of Kubernetes",
				      key);
	*out = node;
	return 0;
}

static int jobfile_other_kind(const struct jobreader *reader, const struct yaml_node *version,
			      const struct yaml_node *kind)
{
	for (size_t i = 0; i < array_length(jobfile_kinds); i++)
		if (strcmp(kind->text, jobfile_kinds[i].kind) == 0)
			return objschema_fail(&reader->schema, version, NULL,
					      "apiVersion '%.64s' of %s is not supported; write %s",
					      version->text, jobfile_kinds[i].kind,
					      jobfile_kinds[i].version);

	if (strcmp(kind->text, "CronJob") == 0)
		return objschema_fail(
		    &reader->schema, kind, NULL,
		    "kind CronJob: nothing is repeated here; make a batch/v1 Job of its "
		    "jobTemplate");

	return objschema_fail(&reader->schema, kind, NULL,
			      "kind '%.64s' is no job: a job file holds v1 Pod, batch/v1 Job and "
			      "kubeflow.org MPIJob",
			      kind->text);
}

static int jobfile_converted(uint32_t line, const char *text, bool is_unknown, void *context)
{
	(void)is_unknown; /* the reader refuses it with its path */
	return jobreader_note(context, line, "%s", text);
}

static int jobfile_ignored_note(struct jobreader *reader)
{
	if (reader->ignored->length == 0)
		return 0;

	if (reader->ignored_more > 0)
		return jobreader_note(
		    reader, reader->ignored_line,
		    "ignored here, for it only places or names things on a cluster: %s "
		    "and %zu more",
		    buf_text(reader->ignored), reader->ignored_more);

	return jobreader_note(reader, reader->ignored_line,
			      "ignored here, for it only places or names things on a cluster: %s",
			      buf_text(reader->ignored));
}

static int jobfile_fill(struct jobreader *reader, const struct yaml_node *document)
{
	const struct yaml_node *version, *kind;
	int rc = jobfile_text(reader, document, "apiVersion", &version);
	if (rc == 0)
		rc = jobfile_text(reader, document, "kind", &kind);

	if (rc == 0 && convert_is_needed(document)) {
		rc = convert_document(document, reader->schema.file, reader->arena,
				      jobfile_converted, reader, &document, reader->schema.err);
		version = rc == 0 ? yaml_get(document, "apiVersion") : version;
	}

	if (rc < 0)
		return rc;

	size_t at = 0;
	while (at < array_length(jobfile_kinds) &&
	       (strcmp(version->text, jobfile_kinds[at].version) != 0 ||
		strcmp(kind->text, jobfile_kinds[at].kind) != 0))
		at++;

	if (at == array_length(jobfile_kinds))
		return jobfile_other_kind(reader, version, kind);

	struct raw_document *raw = jobfile_arena_take(reader->arena, sizeof(*raw));
	if (!raw)
		return jobreader_no_memory(reader);

	reader->job->kind = jobfile_kinds[at].is;
	rc = objschema_read(&reader->schema, jobfile_kinds[at].table, document, raw);
	if (rc == 0)
		rc = kinds_metadata(reader, raw);
	if (rc == 0)
		rc = jobfile_kinds[at].make(reader, raw);

	return rc < 0 ? rc : jobfile_ignored_note(reader);
}

static int jobfile_document(struct jobfile *file, const struct yaml_node *document,
			    const char *name, const struct jobfile_options *options,
			    struct err *err)
{
	_cleanup_buf_ struct buf ignored;
	buf_init(&ignored, JOBFILE_IGNORED_MAX);

	struct jobfile_job *job = jobfile_arena_take(&file->arena, sizeof(*job));
	if (!job)
		return err_set(err, -ENOMEM, "%s: out of memory", name);

	struct jobreader reader = {
	    .arena = &file->arena,
	    .options = options,
	    .job = job,
	    .ignored = &ignored,
	    .schema = {
		.file = name, .arena = &file->arena, .err = err, .ignored = jobreader_ignored}};
	reader.schema.context = &reader;
	job->line = document->line;

	if (document->kind != YAML_MAP)
		return objschema_fail(&reader.schema, document, NULL,
				      "an object of Kubernetes is wanted: apiVersion, kind, ...");

	int rc = jobfile_fill(&reader, document);
	if (rc == 0)
		file->jobs[file->count++] = job;

	return rc;
}

int jobfile_parse(const char *text, size_t length, const char *name,
		  const struct jobfile_options *options, struct jobfile **out, struct err *err)
{
	struct jobfile *file = calloc(1, sizeof(*file));
	if (!file)
		return err_set(err, -ENOMEM, "%s: out of memory", name);

	int rc = yaml_parse_stream(text, length, name, &file->yaml, err);
	for (size_t i = 0; rc == 0 && i < yaml_document_count(file->yaml); i++) {
		const struct yaml_node *document = yaml_document(file->yaml, i);
		if (document->kind != YAML_SCALAR || !yaml_is_null(document))
			rc = jobfile_document(file, document, name, options, err);
	}

	if (rc == 0 && file->count == 0)
		rc = err_set(err, -EINVAL, "%s: there is no job in it", name);
	if (rc == 0)
		*out = take_ptr(file);
	(void)jobfile_free(file);

	return rc;
}

struct jobfile *jobfile_free(struct jobfile *file)
{
	if (!file)
		return NULL;
	jobfile_arena_done(&file->arena);
	(void)yaml_free(file->yaml);
	free(file);
	return NULL;
}

size_t jobfile_count(const struct jobfile *file)
{
	return file->count;
}

const struct jobfile_job *jobfile_at(const struct jobfile *file, size_t index)
{
	return file->jobs[index];
}
