/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* As the statements of store.c name them. */
enum store_column {
	COLUMN_ID,
	COLUMN_KEY,
	COLUMN_UID,
	COLUMN_NAME,
	COLUMN_STATE,
	COLUMN_REASON,
	COLUMN_REASON_TEXT,
	COLUMN_GPUS,
	COLUMN_SHARE_NUMERATOR,
	COLUMN_SHARE_DENOMINATOR,
	COLUMN_IDS,
	COLUMN_IGNORE_OUTSIDERS,
	COLUMN_SIMULATED,
	COLUMN_ATTEMPT,
	COLUMN_SUBMITTED,
	COLUMN_STARTED,
	COLUMN_ENDED,
	COLUMN_EXIT_CODE,
	COLUMN_SIGNAL,
	COLUMN_LEFTOVERS,
	COLUMN_LAUNCH_FAILED,
	COLUMN_GRANTS,
	COLUMN_OBSERVATIONS,
	COLUMN_RESOURCES,
	COLUMN_WANTS,
	COLUMN_ARRAY_ID,
	COLUMN_ARRAY_INDEX,
	COLUMN_FAILED_ATTEMPTS,
	COLUMN_NOT_BEFORE,
	COLUMN_REASON_DETAIL,
};

/* A row that is being read; the first value that cannot be is remembered. */
struct store_row {
	sqlite3_stmt *statement;
	bool is_bad;	    /* a value out of range */
	bool out_of_memory; /* SQLite could not hand out a text */
};

/* NULL for NULL. Borrowed until the next step. */
static const char *row_text(struct store_row *row, enum store_column column)
{
	const char *text = (const char *)sqlite3_column_text(row->statement, (int)column);
	if (!text && sqlite3_column_type(row->statement, (int)column) != SQLITE_NULL)
		row->out_of_memory = true;
	return text;
}

static void row_copy(struct store_row *row, enum store_column column, char *out, size_t size)
{
	const char *text = row_text(row, column);
	size_t length = text ? strlen(text) : 0;
	if (!text || length >= size)
		row->is_bad = true;
	else
		memcpy(out, text, length + 1);
}

static uint32_t row_u32(struct store_row *row, enum store_column column)
{
	int64_t value = sqlite3_column_int64(row->statement, (int)column);
	if (value < 0 || value > UINT32_MAX)
		row->is_bad = true;
	return (uint32_t)value;
}

/* What it wants, owned by `out`: to be given back by wants_done(). */
static void store_row_wants(struct store_row *row, struct wants *out)
{
	struct err err = {.code = 0};
	const void *bytes = sqlite3_column_blob(row->statement, COLUMN_WANTS);
	int length = sqlite3_column_bytes(row->statement, COLUMN_WANTS);
	int rc = bytes || length == 0 ? wants_parse(bytes, (size_t)length, out, &err) : -ENOMEM;
	row->out_of_memory = row->out_of_memory || rc == -ENOMEM;
	row->is_bad = row->is_bad || rc < 0;
}

/* The job of a row; its strings are borrowed until the next step, and what it wants is owned. */
static int store_row_job(struct store *store, sqlite3_stmt *statement, struct job *out,
			 struct err *err)
{
	struct store_row row = {.statement = statement};
	struct job job = {.id = (uint64_t)sqlite3_column_int64(statement, COLUMN_ID)};

	row_copy(&row, COLUMN_KEY, job.key, sizeof(job.key));
	row_copy(&row, COLUMN_NAME, job.name, sizeof(job.name));
	job.uid = row_u32(&row, COLUMN_UID);

	const char *state = row_text(&row, COLUMN_STATE);
	const char *reason = row_text(&row, COLUMN_REASON);
	if (!state || job_state_from_string(state, &job.state) < 0 || !reason ||
	    job_reason_from_string(reason, &job.reason) < 0)
		row.is_bad = true;

	job.reason_text = (char *)row_text(&row, COLUMN_REASON_TEXT);
	job.reason_detail = (char *)row_text(&row, COLUMN_REASON_DETAIL);
	job.gpus = row_u32(&row, COLUMN_GPUS);
	job.share_numerator = row_u32(&row, COLUMN_SHARE_NUMERATOR);
	job.share_denominator = row_u32(&row, COLUMN_SHARE_DENOMINATOR);
	job.ids = (char *)row_text(&row, COLUMN_IDS);
	job.resources = (char *)row_text(&row, COLUMN_RESOURCES);
	job.ignore_outsiders = sqlite3_column_int(statement, COLUMN_IGNORE_OUTSIDERS) != 0;
	job.simulated = sqlite3_column_int(statement, COLUMN_SIMULATED) != 0;
	job.attempt = row_u32(&row, COLUMN_ATTEMPT);
	job.submitted_unix_ns = sqlite3_column_int64(statement, COLUMN_SUBMITTED);

	job.started_unix_ns = sqlite3_column_int64(statement, COLUMN_STARTED);
	job.ended_unix_ns = sqlite3_column_int64(statement, COLUMN_ENDED);
	job.has_exit = sqlite3_column_type(statement, COLUMN_EXIT_CODE) != SQLITE_NULL;
	job.exit_code = sqlite3_column_int(statement, COLUMN_EXIT_CODE);
	job.signal = row_u32(&row, COLUMN_SIGNAL);
	job.killed_leftovers = row_u32(&row, COLUMN_LEFTOVERS);
	job.launch_failed = sqlite3_column_int(statement, COLUMN_LAUNCH_FAILED) != 0;
	job.array_id = (uint64_t)sqlite3_column_int64(statement, COLUMN_ARRAY_ID);
	job.array_index = row_u32(&row, COLUMN_ARRAY_INDEX);
	job.failed_attempts = row_u32(&row, COLUMN_FAILED_ATTEMPTS);
	job.not_before_unix_ns = sqlite3_column_int64(statement, COLUMN_NOT_BEFORE);
	store_row_wants(&row, &job.wants);

	bool has_end = sqlite3_column_type(statement, COLUMN_ENDED) != SQLITE_NULL;
	if (job_state_is_final(job.state) != has_end)
		row.is_bad = true;

	int rc = 0;

	if (row.out_of_memory)
		rc = err_set(err, -ENOMEM, "reading job %" PRIu64 ": out of memory", job.id);
	else if (row.is_bad)
		rc = store_damaged(store, err, "the row of job %" PRIu64, job.id);

	if (rc < 0) {
		wants_done(&job.wants);
		return rc;
	}

	*out = job;
	return 0;
}

typedef int store_each_fn(const struct job *job, const char *grants, const char *observations,
			  void *context);
typedef int store_load_fn(const struct job *job, const char *grants, void *context);

/* Who is told of the rows. */
struct store_visit {
	store_each_fn *each; /* or */
	store_load_fn *load;
	void *context;
	uint64_t rows; /* so far */
};

static int store_visit_row(struct store *store, sqlite3_stmt *query, struct store_visit *visit,
			   struct err *err)
{
	struct store_row row = {.statement = query};
	struct job job;
	int rc = store_row_job(store, query, &job, err);
	if (rc < 0)
		return rc;

	const char *grants = row_text(&row, COLUMN_GRANTS);
	const char *observations = row_text(&row, COLUMN_OBSERVATIONS);

	if (row.out_of_memory)
		rc = err_set(err, -ENOMEM, "reading job %" PRIu64 ": out of memory", job.id);
	visit->rows++;

	if (rc == 0)
		rc = visit->each ? visit->each(&job, grants, observations, visit->context)
				 : visit->load(&job, grants, visit->context);

	wants_done(&job.wants);
	return rc;
}

/* Steps through `query`, whose values are bound. */
static int store_visit(struct store *store, sqlite3_stmt *query, struct store_visit *visit,
		       struct err *err)
{
	int rc = 0, step;
	while (rc == 0 && (step = sqlite3_step(query)) != SQLITE_DONE)
		rc = step == SQLITE_ROW ? store_visit_row(store, query, visit, err)
					: store_fail(store, "reading jobs", err);
	store_reset(query);
	return rc;
}

int store_load(struct store *store,
	       int (*each)(const struct job *job, const char *grants, void *context), void *context,
	       struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_LOAD);
	struct store_visit visit = {.load = each, .context = context};
	return store_visit(store, query, &visit, err);
}

int store_list_final(struct store *store, int64_t since_unix_ns, const struct store_place *after,
		     size_t max,
		     int (*each)(const struct job *job, const char *grants,
				 const char *observations, void *context),
		     void *context, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_LIST_FINAL);
	(void)sqlite3_bind_int64(query, 1, since_unix_ns);
	(void)sqlite3_bind_int64(query, 2, max > INT64_MAX ? INT64_MAX : (int64_t)max);
	(void)sqlite3_bind_int64(query, 3, after ? after->ended_unix_ns : INT64_MAX);
	(void)sqlite3_bind_int64(query, 4, after ? (int64_t)after->id : INT64_MAX);
	struct store_visit visit = {.each = each, .context = context};
	return store_visit(store, query, &visit, err);
}

int store_get(struct store *store, uint64_t id,
	      int (*each)(const struct job *job, const char *grants, const char *observations,
			  void *context),
	      void *context, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_GET);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)id);
	struct store_visit visit = {.each = each, .context = context};
	int rc = store_visit(store, query, &visit, err);
	if (rc == 0 && visit.rows == 0)
		return err_set(err, -ENOENT, "there is no job %" PRIu64, id);
	return rc;
}

int store_list_array(struct store *store, uint64_t array_id,
		     int (*each)(const struct job *job, const char *grants,
				 const char *observations, void *context),
		     void *context, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_LIST_ARRAY);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)array_id);
	struct store_visit visit = {.each = each, .context = context};
	return store_visit(store, query, &visit, err);
}

int store_next_id(struct store *store, uint64_t *out, struct err *err)
{
	(void)err;
	*out = store->next_id;
	return 0;
}

int store_is_draining(struct store *store, bool *out, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_IS_DRAINING);
	int step = sqlite3_step(query);
	int rc = 0;

	if (step == SQLITE_ROW || step == SQLITE_DONE)
		*out = step == SQLITE_ROW && sqlite3_column_int(query, 0) != 0;
	else
		rc = store_fail(store, "reading whether jobs are started", err);

	(void)sqlite3_reset(query);
	return rc;
}

int store_find_key(struct store *store, uid_t uid, const char *key, uint64_t *out_id,
		   struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_FIND_KEY);
	(void)sqlite3_bind_int64(query, 1, uid);
	(void)sqlite3_bind_text(query, 2, key, -1, SQLITE_STATIC);

	int rc = 0, step = sqlite3_step(query);
	if (step == SQLITE_ROW)
		*out_id = (uint64_t)sqlite3_column_int64(query, 0);
	else if (step == SQLITE_DONE)
		rc = err_set(err, -ENOENT, "no job of uid %u has the key '%s'", uid, key);
	else
		rc = store_fail(store, "looking for a job's key", err);

	store_reset(query);
	return rc;
}

/* The spec of the row that `query` stands at. */
static int store_take_spec(struct store *store, sqlite3_stmt *query, uint64_t id, char **out_bytes,
			   size_t *out_length, struct err *err)
{
	const char *bytes = sqlite3_column_blob(query, 1);
	int length = sqlite3_column_bytes(query, 1);
	if (!bytes && length > 0)
		return err_set(err, -ENOMEM, "reading job %" PRIu64 ": out of memory", id);
	if (length > SPEC_BYTES_MAX ||
	    store_sum(bytes ? bytes : "", (size_t)length) != sqlite3_column_int64(query, 0))
		return store_damaged(store, err, "the specification of job %" PRIu64, id);

	char *copy = malloc((size_t)length + 1);
	if (!copy)
		return err_set(err, -ENOMEM, "reading job %" PRIu64 ": out of memory", id);
	if (length > 0)
		memcpy(copy, bytes, (size_t)length);
	copy[length] = '\0';
	*out_bytes = copy;
	*out_length = (size_t)length;

	return 0;
}

int store_spec(struct store *store, uint64_t id, char **out_bytes, size_t *out_length,
	       struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_SPEC);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)id);

	int rc, step = sqlite3_step(query);
	if (step == SQLITE_ROW)
		rc = store_take_spec(store, query, id, out_bytes, out_length, err);
	else if (step == SQLITE_DONE)
		rc = err_set(err, -ENOENT, "there is no job %" PRIu64, id);
	else
		rc = store_fail(store, "reading a job's specification", err);

	(void)sqlite3_reset(query);
	return rc;
}

int store_claims(struct store *store, char **out_bytes, size_t *out_length, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_CLAIMS);
	int rc, step = sqlite3_step(query);
	if (step == SQLITE_ROW)
		rc = store_take_spec(store, query, 0, out_bytes, out_length, err);
	else if (step == SQLITE_DONE)
		rc = -ENOENT;
	else
		rc = store_fail(store, "reading what is drained and reserved", err);

	(void)sqlite3_reset(query);
	return rc;
}

/* -- arrays and attempts ------------------------------------------------------------------------*/

int store_array(struct store *store, uint64_t array_id, struct store_array *out, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_ARRAY);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)array_id);

	int rc = 0;

	if (sqlite3_step(query) == SQLITE_ROW)
		*out = (struct store_array){
		    .count = (uint64_t)sqlite3_column_int64(query, 0),
		    .live = (uint64_t)sqlite3_column_int64(query, 1),
		    .succeeded = (uint64_t)sqlite3_column_int64(query, 2),
		    .failed = (uint64_t)sqlite3_column_int64(query, 3),
		    .cancelled = (uint64_t)sqlite3_column_int64(query, 4),
		    .failed_attempts = (uint64_t)sqlite3_column_int64(query, 5),
		};
	else
		rc = store_fail(store, "reading an array of jobs", err);

	(void)sqlite3_reset(query);
	return rc;
}

/* One number of one row; `none` where it is NULL. */
static int store_number(struct store *store, sqlite3_stmt *query, int64_t none, int64_t *out,
			const char *doing, struct err *err)
{
	int rc = 0;

	if (sqlite3_step(query) == SQLITE_ROW)
		*out = sqlite3_column_type(query, 0) == SQLITE_NULL
			   ? none
			   : sqlite3_column_int64(query, 0);
	else
		rc = store_fail(store, doing, err);

	(void)sqlite3_reset(query);
	return rc;
}

int store_used(struct store *store, uint64_t id, uint32_t count, int64_t *out_ns, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_USED);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)id);
	(void)sqlite3_bind_int64(query, 2, count);
	return store_number(store, query, 0, out_ns, "reading a job's attempts", err);
}

int store_next_forget(struct store *store, int64_t *out_unix_ns, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_NEXT_FORGET);
	return store_number(store, query, INT64_MAX, out_unix_ns, "reading jobs", err);
}

/* Columns as STORE_SQL_ATTEMPTS names them. */
static int store_row_attempt(struct store *store, sqlite3_stmt *query, uint64_t id,
			     struct store_attempt *out, struct err *err)
{
	const char *reason = (const char *)sqlite3_column_text(query, 5);

	*out = (struct store_attempt){
	    .number = (uint32_t)sqlite3_column_int64(query, 0),
	    .started_unix_ns = sqlite3_column_int64(query, 1),
	    .ended_unix_ns = sqlite3_column_int64(query, 2),
	    .grants = (const char *)sqlite3_column_text(query, 3),
	    .observations = (const char *)sqlite3_column_text(query, 4),
	    .reason_text = (const char *)sqlite3_column_text(query, 6),
	    .has_exit = sqlite3_column_type(query, 7) != SQLITE_NULL,
	    .exit_code = sqlite3_column_int(query, 7),
	};
	if (!reason)
		return err_set(err, -ENOMEM, "reading job %" PRIu64 ": out of memory", id);

	return job_reason_from_string(reason, &out->reason) < 0
		   ? store_damaged(store, err, "an attempt of job %" PRIu64, id)
		   : 0;
}

int store_attempts(struct store *store, uint64_t id,
		   int (*each)(const struct store_attempt *attempt, void *context), void *context,
		   struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_ATTEMPTS);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)id);

	int rc = 0, step;

	while (rc == 0 && (step = sqlite3_step(query)) != SQLITE_DONE) {
		struct store_attempt attempt;
		rc = step == SQLITE_ROW ? store_row_attempt(store, query, id, &attempt, err)
					: store_fail(store, "reading a job's attempts", err);
		if (rc == 0)
			rc = each(&attempt, context);
	}

	(void)sqlite3_reset(query);
	return rc;
}
