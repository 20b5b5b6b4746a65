/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/list/job_columns.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/suggest.h"

enum { COLUMN_NAME_MAX = 32, COLUMN_NAMES_MAX = 512 };

/* Fills the next cell. */
typedef void column_add(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table);

static void column_id(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	char label[JOB_TEXT_LABEL_MAX];
	table_add(table, job_text_label(job, label));
}

static void column_name(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	table_add(table, job->name);
}

static void column_user(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	if (job->user[0])
		table_add(table, job->user);
	else
		table_add_u64(table, job->uid);
}

static void column_uid(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	table_add_u64(table, job->uid);
}

static void column_state(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	table_add(table, job_text_state(job->state));
}

static void column_gpus(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	char text[JOB_TEXT_MAX];
	table_add(table, job_text_gpus(job, text));
}

static void column_time(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	char text[JOB_TEXT_TIME_MAX];
	table_add(table, job_text_duration(job_text_elapsed_ns(job, now_unix_ns), text));
}

static void column_start(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	char text[JOB_TEXT_TIME_MAX];
	table_add(table, job_text_start(job, now_unix_ns, text));
}

/* Nothing where there is nothing. */
static void column_number(uint64_t number, struct table *table)
{
	if (number > 0)
		table_add_u64(table, number);
	else
		table_add(table, NULL);
}

static void column_place(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	column_number(job->place, table);
}

static void column_unix(int64_t unix_ns, const char *before, struct table *table)
{
	char text[JOB_TEXT_TIME_MAX];
	if (unix_ns > 0)
		table_addf(table, "%s%s", before, job_text_time(unix_ns, text));
	else
		table_add(table, NULL);
}

static void column_estimate(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	column_unix(job->start_estimate_unix_ns, "~", table);
}

static void column_exit(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	if (job->has_exit)
		table_addf(table, "%" PRId32, job->exit_code);
	else
		table_add(table, NULL);
}

static void column_isolation(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	table_add(table, job->attempt ? job->attempt->isolation : NULL);
}

static void column_submitted(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	column_unix(job->submitted_unix_ns, "", table);
}

static void column_started(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	column_unix(job->attempt ? job->attempt->started_unix_ns : 0, "", table);
}

static void column_ended(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	column_unix(job->ended_unix_ns, "", table);
}

static void column_attempt(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	column_number(job->attempt ? job->attempt->number : 0, table);
}

static void column_priority(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	if (job->wants)
		table_addf(table, "%" PRId32, job->wants->priority);
	else
		table_add(table, NULL);
}

static void column_project(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	table_add(table, job->wants ? job->wants->project : NULL);
}

static void column_resources(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	table_add(table, job->resources);
}

static void column_limit(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	char text[JOB_TEXT_TIME_MAX];
	if (job->wants && job->wants->time_ns > 0)
		table_add(table, job_text_duration(job->wants->time_ns, text));
	else
		table_add(table, NULL);
}

static void column_reason(const Sluice__V1__Job *job, int64_t now_unix_ns, struct table *table)
{
	char text[JOB_TEXT_MAX];
	table_add(table, job_text_reason(job, text));
}

/* In the order of JOB_COLUMNS_WORDS. */
static const struct {
	const char *name;
	column_add *add;
	bool is_usual, is_wide;
	struct table_column column;
	struct table_give give;
} column_rows[] = {
    {"id", column_id, true, true, {"ID", TABLE_RIGHT, false}, {0, 0, false}},
    {"name", column_name, true, true, {"NAME", TABLE_LEFT, true}, {0, 0, false}},
    {"user", column_user, true, true, {"USER", TABLE_LEFT, true}, {6, 3, false}},
    {"uid", column_uid, false, false, {"UID", TABLE_RIGHT, false}, {0, 0, false}},
    {"state", column_state, true, true, {"STATE", TABLE_LEFT, false}, {0, 0, false}},
    {"gpus", column_gpus, true, true, {"GPUS", TABLE_LEFT, true}, {7, 2, false}},
    {"time", column_time, true, true, {"TIME", TABLE_RIGHT, false}, {0, 5, false}},
    {"start", column_start, true, true, {"START", TABLE_LEFT, false}, {0, 1, true}},
    {"place", column_place, false, false, {"PLACE", TABLE_RIGHT, false}, {0, 0, false}},
    {"estimate", column_estimate, false, false, {"ESTIMATE", TABLE_LEFT, false}, {0, 0, false}},
    {"exit", column_exit, true, true, {"EXIT", TABLE_RIGHT, false}, {0, 4, true}},
    {"isolation", column_isolation, false, true, {"ISOLATION", TABLE_LEFT, false}, {0, 0, false}},
    {"submitted", column_submitted, false, true, {"SUBMITTED", TABLE_LEFT, false}, {0, 0, false}},
    {"started", column_started, false, false, {"STARTED", TABLE_LEFT, false}, {0, 0, false}},
    {"ended", column_ended, false, false, {"ENDED", TABLE_LEFT, false}, {0, 0, false}},
    {"attempt", column_attempt, false, false, {"ATTEMPT", TABLE_RIGHT, false}, {0, 0, false}},
    {"priority", column_priority, false, true, {"PRIORITY", TABLE_RIGHT, false}, {0, 0, false}},
    {"project", column_project, false, true, {"PROJECT", TABLE_LEFT, true}, {0, 0, false}},
    {"resources", column_resources, false, false, {"RESOURCES", TABLE_LEFT, true}, {0, 0, false}},
    {"limit", column_limit, false, true, {"LIMIT", TABLE_RIGHT, false}, {0, 0, false}},
    {"reason", column_reason, true, true, {"REASON", TABLE_LEFT, true}, {24, 0, false}},
};

enum { COLUMN_COUNT = sizeof(column_rows) / sizeof(column_rows[0]) };

void job_columns_usual(bool wide, struct job_columns *out)
{
	out->count = 0;
	for (uint32_t i = 0; i < COLUMN_COUNT; i++)
		if (wide ? column_rows[i].is_wide : column_rows[i].is_usual)
			out->at[out->count++] = i;
}

/* "id, name, ...": all there are. */
static const char *column_names(char out[COLUMN_NAMES_MAX])
{
	size_t length = 0;
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		length += (size_t)snprintf(out + length, COLUMN_NAMES_MAX - length, "%s%s",
					   i ? ", " : "", column_rows[i].name); /* fits */
	return out;
}

/* Its place in the table; COLUMN_COUNT: there is none. */
static uint32_t column_find(const char *name, size_t length)
{
	for (uint32_t i = 0; i < COLUMN_COUNT; i++)
		if (strlen(column_rows[i].name) == length &&
		    strncasecmp(column_rows[i].name, name, length) == 0)
			return i;
	return COLUMN_COUNT;
}

static int column_refuse(const char *name, size_t length, struct err *err)
{
	char word[COLUMN_NAME_MAX], names[COLUMN_NAMES_MAX];
	struct suggest suggest;

	(void)snprintf(word, sizeof(word), "%.*s", (int)(length < 31 ? length : 31), name);
	suggest_init(&suggest, word);
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		suggest_offer(&suggest, column_rows[i].name);

	const char *best = suggest_best(&suggest);
	return err_set(err, -EINVAL, "there is no column '%s'%s%s%s; the columns are %s", word,
		       best ? ", did you mean '" : "", best ? best : "", best ? "'?" : "",
		       column_names(names));
}

int job_columns_parse(const char *list, struct job_columns *out, struct err *err)
{
	struct job_columns found = {.count = 0};

	while (*list) {
		size_t length = strcspn(list, ",");
		uint32_t at = column_find(list, length);
		if (at == COLUMN_COUNT)
			return column_refuse(list, length, err);
		if (found.count == JOB_COLUMNS_MAX)
			return err_set(err, -EINVAL, "a list has at most %d columns",
				       JOB_COLUMNS_MAX);

		found.at[found.count++] = at;
		list += length;
		if (*list == ',' && list[1] == '\0')
			return column_refuse("", 0, err);
		list += *list == ',';
	}

	if (found.count == 0)
		return column_refuse("", 0, err);
	*out = found;
	return 0;
}

void job_columns_titles(const struct job_columns *columns, bool named, struct table_column *out,
			struct table_give *out_give)
{
	for (size_t i = 0; i < columns->count; i++) {
		out[i] = column_rows[columns->at[i]].column;
		out_give[i] = column_rows[columns->at[i]].give;
		if (!named)
			continue;

		out_give[i].drop = 0;
		out_give[i].may_vanish = false;
	}
}

void job_columns_add(const struct job_columns *columns, const Sluice__V1__Job *job,
		     int64_t now_unix_ns, struct table *table)
{
	for (size_t i = 0; i < columns->count; i++)
		column_rows[columns->at[i]].add(job, now_unix_ns, table);
}
