/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a list of jobs can show of each: the columns, by the names that `sluice jobs --columns`
 * takes. Pure: a message in, the text of a cell out. Knows nothing of order or width.
 */
#ifndef SLUICE_CMD_JOBS_LIST_JOB_COLUMNS_H
#define SLUICE_CMD_JOBS_LIST_JOB_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/jobs/job_text.h"
#include "cmd/table.h"
#include "sluice.pb-c.h"

struct err;

enum job_columns_limits {
	JOB_COLUMNS_MAX = 24, /* of one list */
};

/* Which, from left to right. Places in a table of job_columns.c. */
struct job_columns {
	uint32_t at[JOB_COLUMNS_MAX];
	size_t count;
};

/* Those of a list that names none: what fits on a terminal, or with `wide` nearly all. */
void job_columns_usual(bool wide, struct job_columns *out);
/* "id,state,reason", in any case. -EINVAL: there is no such column, and which there are. */
int job_columns_parse(const char *list, struct job_columns *out, struct err *err);
/* The titles for table_new(), and what each gives where there is no room: both have room for
 * JOB_COLUMNS_MAX. Of columns that somebody has named (`named`) none is left out. */
void job_columns_titles(const struct job_columns *columns, bool named, struct table_column *out,
			struct table_give *out_give);
/* A row: each cell. */
void job_columns_add(const struct job_columns *columns, const Sluice__V1__Job *job,
		     int64_t now_unix_ns, struct table *table);
/* The names, as completion offers them: "id|name|...". */
#define JOB_COLUMNS_WORDS                                                                          \
	"id|name|user|uid|state|gpus|time|start|place|estimate|exit|isolation|submitted|started|"  \
	"ended|attempt|priority|project|resources|limit|reason"

#endif
