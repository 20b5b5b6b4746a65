/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/jobfile_kinds.h"

#include <errno.h>
#include <string.h>

#include "base/domain.h"
#include "base/parse.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/yaml.h"
#include "job/file/jobfile_fields.h"
#include "job/file/jobfile_reader.h"

/* --- metadata --------------------------------------------------------------------------------- */

/* A DNS subdomain of at most 63 characters; the queue's names are labels, so '.' becomes '-'. */
static int kinds_name(struct jobreader *reader, const struct yaml_node *node)
{
	size_t length = node->length;
	const char *text = node->text;
	bool is_good = length > 0 && length < JOBFILE_NAME_MAX && text[0] != '-' && text[0] != '.';

	for (size_t i = 0; is_good && i < length; i++)
		is_good = (text[i] >= 'a' && text[i] <= 'z') ||
			  (text[i] >= '0' && text[i] <= '9') || text[i] == '-' || text[i] == '.';

	if (!is_good || text[length - 1] == '.' || text[length - 1] == '-')
		return objschema_fail(
		    &reader->schema, node, NULL,
		    "'%.80s' is no name for a job: 1 to %d of a-z, 0-9, '-' and '.', "
		    "with a letter or digit at both ends",
		    text, JOBFILE_NAME_MAX - 1);

	for (size_t i = 0; i < length; i++)
		reader->job->name[i] = text[i];

	reader->job->name[length] = '\0';
	for (char *dot = strchr(reader->job->name, '.'); dot; dot = strchr(dot, '.'))
		*dot = '-';

	return 0;
}

static int kinds_bool(const struct jobreader *reader, const struct yaml_node *node, bool *out)
{
	if (strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0) {
		*out = node->text[0] == 't';
		return 0;
	}
	return objschema_fail(&reader->schema, node, NULL,
			      "\"true\" or \"false\" is wanted, not '%.64s'", node->text);
}

static int kinds_annotation(struct jobreader *reader, const struct yaml_entry *entry,
			    const struct fields_annotation_row *row)
{
	struct jobfile_job *job = reader->job;
	int64_t priority;

	switch (row->which) {
	case FIELDS_ANNOTATION_PRIORITY:
		if (parse_i64(entry->value->text, -100, 100, &priority) < 0)
			return objschema_fail(&reader->schema, entry->value, NULL,
					      "'%.64s' is no priority: -100 to 100",
					      entry->value->text);

		job->priority = (int32_t)priority;
		return 0;
	case FIELDS_ANNOTATION_ISOLATION:
		job->isolation = entry->value->text;
		return 0;
	case FIELDS_ANNOTATION_PREFER:
		job->prefer = entry->value->text;
		return 0;
	case FIELDS_ANNOTATION_SHARE:
		job->share = entry->value->text;
		return 0;
	case FIELDS_ANNOTATION_RETRY_LOST:
		return kinds_bool(reader, entry->value, &job->retry_lost);
	case FIELDS_ANNOTATION_BEGIN:
		job->begin = entry->value->text;
		return 0;
	case FIELDS_ANNOTATION_SIGNAL:
		job->signal = entry->value->text;
		return 0;
	case FIELDS_ANNOTATION_GANG:
		return kinds_bool(reader, entry->value, &job->is_gang);
	case FIELDS_ANNOTATION_IGNORED:
		break;
	}

	return jobreader_ignored(entry->key->text, entry->key, reader);
}

static int kinds_annotations(struct jobreader *reader, const struct yaml_node *node)
{
	static const char ours[] = SLUICE_DOMAIN "/";
	int rc = 0;

	for (size_t i = 0; rc == 0 && node && i < node->entry_count; i++) {
		const struct yaml_entry *entry = &node->entries[i];
		if (!text_starts_with(entry->key->text, ours))
			continue;

		const char *name = entry->key->text + strlen(ours);
		const struct fields_annotation_row *row = fields_annotations;
		struct suggest suggest;

		suggest_init(&suggest, name);

		for (; row->name && strcmp(row->name, name) != 0; row++)
			suggest_offer(&suggest, row->name);

		const char *best = suggest_best(&suggest);

		jobreader_at(reader, "metadata.annotations");
		if (!row->name)
			return objschema_fail(&reader->schema, entry->key, NULL,
					      "unknown annotation '%.80s'%s%s%s", entry->key->text,
					      best ? "; did you mean '" : "", best ? best : "",
					      best ? "'?" : "");

		rc = kinds_annotation(reader, entry, row);
	}

	return rc;
}

int kinds_metadata(struct jobreader *reader, const struct raw_document *raw)
{
	const struct raw_metadata *metadata = &raw->metadata;
	const struct yaml_node *name = metadata->name ? metadata->name : metadata->generate_name;

	jobreader_at(reader, metadata->name ? "metadata.name" : "metadata");
	if (!name)
		return objschema_fail(&reader->schema, metadata->node ? metadata->node : raw->node,
				      NULL, "the job needs a name");

	struct yaml_node made = *name;
	while (!metadata->name && made.length > 0 && strchr("-.", made.text[made.length - 1]))
		made.length--; /* what generateName has a random end put behind */

	int rc = kinds_name(reader, &made);

	reader->job->namespace = metadata->namespace && metadata->namespace->text[0]
				     ? metadata->namespace->text
				     : "default";
	return rc < 0 ? rc : kinds_annotations(reader, metadata->annotations);
}

/* --- parts that kinds share ------------------------------------------------------------------- */

int kinds_retries(struct jobreader *reader, const struct objschema_int *limit)
{
	int64_t retries = limit->node ? limit->value : JOBFILE_DEFAULT_RETRIES;
	reader->job->retries =
	    (uint32_t)(retries > JOBFILE_RETRIES_MAX ? JOBFILE_RETRIES_MAX : retries);

	if (retries > JOBFILE_RETRIES_MAX)
		return jobreader_note(reader, limit->node->line,
				      "backoffLimit is %d here, which is the most",
				      JOBFILE_RETRIES_MAX);

	return 0;
}

void kinds_times(struct jobreader *reader, const struct objschema_int *deadline,
		 const struct objschema_int *ttl, const struct raw_pod *pod)
{
	struct jobfile_job *job = reader->job;
	job->deadline_s = (uint64_t)deadline->value;
	if (pod->deadline.node &&
	    (job->deadline_s == 0 || (uint64_t)pod->deadline.value < job->deadline_s))
		job->deadline_s = (uint64_t)pod->deadline.value;

	job->has_ttl = ttl && ttl->node;
	job->ttl_s = ttl ? (uint64_t)ttl->value : 0;
	job->has_grace = pod->grace.node != NULL;
	job->grace_s = (uint64_t)pod->grace.value;
}

/* Kubernetes' Job controller takes a deadline of 0 for one that is over at once. */
int kinds_deadline(const struct jobreader *reader, const struct objschema_int *deadline,
		   const char *suffix)
{
	if (deadline->node && deadline->value == 0)
		return objschema_fail(&reader->schema, deadline->node, suffix,
				      "a job that may run for 0 seconds has nothing to do");
	return 0;
}

static int kinds_restart(const struct jobreader *reader, const struct raw_pod *pod,
			 const char *which)
{
	const char *policy = pod->restart_policy ? pod->restart_policy->text : NULL;
	if (policy && (strcmp(policy, "Never") == 0 || strcmp(policy, "OnFailure") == 0))
		return 0;
	if (!policy)
		return objschema_fail(&reader->schema, pod->node, ".restartPolicy",
				      "is missing%s: write Never or OnFailure", which);

	return objschema_fail(&reader->schema, pod->restart_policy, ".restartPolicy",
			      "'%.64s' is not supported here: a job ends; write Never or OnFailure",
			      policy);
}

int kinds_managed(const struct jobreader *reader, const struct yaml_node *by, const char *suffix,
		  const char *controller)
{
	if (!by || strcmp(by->text, controller) == 0)
		return 0;
	return objschema_fail(&reader->schema, by, suffix,
			      "not supported here: '%.64s' would run the job, and not this queue",
			      by->text);
}

/* --- Pod -------------------------------------------------------------------------------------- */

int kinds_pod(struct jobreader *reader, const struct raw_document *raw)
{
	static const struct objschema_int none = {0};

	jobreader_at(reader, "spec");
	if (!raw->pod.node)
		return objschema_fail(&reader->schema, raw->node, NULL, "is missing");

	int rc = kinds_restart(reader, &raw->pod, " (a Pod's default, Always, never ends)");

	kinds_times(reader, &none, NULL, &raw->pod);
	bool again = rc == 0 && strcmp(raw->pod.restart_policy->text, "OnFailure") == 0;
	reader->job->retries = again ? JOBFILE_RETRIES_MAX : 0;

	if (again)
		rc = jobreader_note(reader, raw->pod.restart_policy->line,
				    "restartPolicy OnFailure: it is tried at most %d times more",
				    JOBFILE_RETRIES_MAX);

	return rc < 0 ? rc : jobreader_task(reader, &raw->pod, "spec", &reader->job->task);
}

/* --- Job -------------------------------------------------------------------------------------- */

static int kinds_array(struct jobreader *reader, const struct raw_job *raw)
{
	struct jobfile_job *job = reader->job;
	const char *mode = raw->completion_mode ? raw->completion_mode->text : "NonIndexed";
	bool is_indexed = strcmp(mode, "Indexed") == 0;
	int64_t parallel = raw->parallelism.node ? raw->parallelism.value : 1;
	int64_t members = raw->completions.node ? raw->completions.value : parallel;
	const struct yaml_node *at = raw->completions.node ? raw->completions.node : raw->node;

	if (!is_indexed && strcmp(mode, "NonIndexed") != 0)
		return objschema_fail(&reader->schema, raw->completion_mode, ".completionMode",
				      "'%.64s' is neither Indexed nor NonIndexed", mode);
	if (is_indexed && !raw->completions.node)
		return objschema_fail(&reader->schema, raw->node, ".completions",
				      "is missing: an Indexed Job has to say how many");
	if (raw->completions.node && members == 0)
		return objschema_fail(&reader->schema, at, ".completions",
				      "0 completions: there is nothing to run");
	if (members > JOBFILE_MEMBERS_MAX)
		return objschema_fail(&reader->schema, at, ".completions",
				      "%lld are more than the %d that a job can have",
				      (long long)members, JOBFILE_MEMBERS_MAX);

	if (parallel == 0) { /* Kubernetes' way to halt a job */
		job->is_suspended = true;
		members = members > 0 ? members : 1;
		parallel = 1;
	}

	job->parallel = (uint32_t)(parallel < members ? parallel : members);
	job->members = (uint32_t)members;

	if (is_indexed)
		job->array = JOBFILE_ARRAY_INDEXED;
	else if (raw->completions.node && members > 1)
		job->array = JOBFILE_ARRAY_PLAIN;
	else if (!raw->completions.node && members > 1)
		job->array = JOBFILE_ARRAY_QUEUE;

	reader->is_indexed = is_indexed;
	return 0;
}

static int kinds_gang(const struct jobreader *reader, const struct raw_job *raw)
{
	struct jobfile_job *job = reader->job;
	if (!job->is_gang)
		return 0;
	if (job->array != JOBFILE_ARRAY_INDEXED)
		return objschema_fail(&reader->schema, raw->node, NULL,
				      SLUICE_DOMAIN "/gang is for completionMode: Indexed");

	if (job->parallel != job->members || job->members > JOBFILE_WORKERS_MAX)
		return objschema_fail(&reader->schema, raw->node, ".parallelism",
				      SLUICE_DOMAIN
				      "/gang starts all %u completions (at most %d) at once: "
				      "write as many here",
				      job->members, JOBFILE_WORKERS_MAX);

	return 0;
}

int kinds_job(struct jobreader *reader, const struct raw_document *raw)
{
	static const char path[] = "spec.template.spec";
	const struct raw_job *job = &raw->job;

	jobreader_at(reader, "spec");
	if (!job->node || !job->template.pod.node)
		return objschema_fail(&reader->schema, job->node ? job->node : raw->node,
				      job->node ? ".template.spec" : NULL, "is missing");

	reader->job->is_suspended = job->suspend.value;
	int rc =
	    kinds_managed(reader, job->managed_by, ".managedBy", "kubernetes.io/job-controller");
	if (rc == 0)
		rc = kinds_deadline(reader, &job->deadline, ".activeDeadlineSeconds");
	if (rc == 0)
		rc = kinds_array(reader, job);

	if (rc == 0)
		rc = kinds_gang(reader, job);
	if (rc == 0)
		rc = kinds_retries(reader, &job->backoff_limit);
	kinds_times(reader, &job->deadline, &job->ttl, &job->template.pod);
	jobreader_at(reader, path);

	if (rc == 0)
		rc = kinds_restart(reader, &job->template.pod, "");

	return rc < 0 ? rc : jobreader_task(reader, &job->template.pod, path, &reader->job->task);
}
