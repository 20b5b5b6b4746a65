/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "doors/queue/store/store_internal.h"

/*
 * A job is final when ended_ns is set, and then has its place in jobs_by_end; the others are in
 * jobs_live. The spec lies apart, so that listing jobs does not read their environments.
 */
static const char *const store_sql_texts[STORE_SQL_COUNT] = {
    [STORE_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_SQL_COMMIT] = "COMMIT",
    [STORE_SQL_SAVEPOINT] = "SAVEPOINT operation",
    [STORE_SQL_RELEASE] = "RELEASE operation",
    [STORE_SQL_ROLLBACK_TO] = "ROLLBACK TO operation",
    [STORE_SQL_ROLLBACK] = "ROLLBACK",
    [STORE_SQL_SET_NEXT_ID] = "UPDATE meta SET value = ?1 WHERE name = 'next_id'",
    [STORE_SQL_SET_DRAINING] = "INSERT OR REPLACE INTO meta(name, value) VALUES('draining', ?1)",
    [STORE_SQL_IS_DRAINING] = "SELECT value FROM meta WHERE name = 'draining'",
    [STORE_SQL_ACCEPT_JOB] =
	"INSERT INTO jobs(id, key, uid, name, state, gpus, share_numerator, share_denominator, ids,"
	" ignore_outsiders, simulated, submitted_ns, resources, wanted, array_id, array_index, "
	"reason,"
	" reason_text, reason_detail) VALUES(?1, ?2, ?3, ?4, ?13, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
	"?12, ?14, ?15, ?16, ?17, ?18, ?19)",
    [STORE_SQL_ACCEPT_SPEC] = "INSERT INTO specs(job, sum, spec) VALUES(?1, ?2, ?3)",
    [STORE_SQL_START_JOB] =
	"UPDATE jobs SET state = 'Starting', attempt = ?2, started_ns = ?3 WHERE id = ?1",
    [STORE_SQL_START_ATTEMPT] =
	"INSERT OR REPLACE INTO attempts(job, attempt, started_ns, grants) VALUES(?1, ?2, ?3, ?4)",
    [STORE_SQL_UNSTART_JOB] = "UPDATE jobs SET state = 'Pending', started_ns = 0"
			      " WHERE id = ?1 AND attempt = ?2 AND ended_ns IS NULL",
    [STORE_SQL_UNSTART_ATTEMPT] = "DELETE FROM attempts WHERE job = ?1 AND attempt = ?2",
    [STORE_SQL_END_JOB] =
	"UPDATE jobs SET state = ?2, reason = ?3, reason_text = ?4, started_ns = ?5, ended_ns = ?6,"
	" exit_code = ?7, signal = ?8, killed_leftovers = ?9, launch_failed = ?10, simulated = ?11,"
	" attempt = ?12, failed_attempts = ?13, forget_ns = ?14, reason_detail = ?15"
	" WHERE id = ?1",
    [STORE_SQL_END_ATTEMPT] =
	"UPDATE attempts SET ended_ns = ?3, observations = ?4,"
	" grants = iif(?5 IS NULL, grants, grants || ?5), started_ns = iif(?6 > 0, ?6, started_ns),"
	" reason = ?7, reason_text = ?8, exit_code = ?9"
	" WHERE job = ?1 AND attempt = ?2 AND ended_ns IS NULL",
    [STORE_SQL_RETRY_JOB] =
	"UPDATE jobs SET state = 'Pending', reason = 'Backoff', reason_text = ?2, attempt = ?3,"
	" failed_attempts = ?4, not_before_ns = ?5, started_ns = 0, reason_detail = ?6"
	" WHERE id = ?1",
    [STORE_SQL_REOPEN_JOB] =
	"UPDATE jobs SET state = 'Pending', reason = '', reason_text = NULL,"
	" reason_detail = NULL, started_ns = 0,"
	" ended_ns = NULL, exit_code = NULL, signal = 0, killed_leftovers = 0, launch_failed = 0,"
	" failed_attempts = 0, not_before_ns = 0, forget_ns = NULL"
	" WHERE id = ?1 AND ended_ns IS NOT NULL",
    [STORE_SQL_CHANGE_JOB] =
	"UPDATE jobs SET state = ?2, reason = ?3, reason_text = ?4, wanted = ?5,"
	" reason_detail = ?6 WHERE id = ?1",
    [STORE_SQL_CHANGE_WANTS] = "UPDATE jobs SET wanted = ?2 WHERE id = ?1",
    [STORE_SQL_CHANGE_SPEC] = "INSERT OR REPLACE INTO specs(job, sum, spec) VALUES(?1, ?2, ?3)",
    [STORE_SQL_FORGET_LIST] =
	"SELECT id FROM (SELECT id, ended_ns, array_id FROM jobs WHERE forget_ns IS NOT NULL AND "
	"forget_ns "
	"<= ?4"
	" UNION ALL SELECT id, ended_ns, array_id FROM jobs WHERE ended_ns IS NOT NULL AND "
	"forget_ns IS NULL"
	" AND (ended_ns < ?1 OR (ended_ns, id) <="
	" (SELECT ended_ns, id FROM jobs WHERE ended_ns IS NOT NULL"
	" ORDER BY ended_ns DESC, id DESC LIMIT 1 OFFSET ?2))) WHERE array_id NOT IN"
	" (SELECT array_id FROM jobs WHERE ended_ns IS NULL AND array_id > 0)"
	" ORDER BY ended_ns, id LIMIT ?3",
    [STORE_SQL_FORGET_JOB] = "DELETE FROM jobs WHERE id = ?1",
    [STORE_SQL_FORGET_ATTEMPTS] = "DELETE FROM attempts WHERE job = ?1",
    /* The first member of an array has the specification of all. */
    [STORE_SQL_FORGET_SPEC] = "DELETE FROM specs WHERE job = ?1"
			      " AND NOT EXISTS(SELECT 1 FROM jobs WHERE array_id = ?1)",
    [STORE_SQL_FORGET_ARRAYS] =
	"DELETE FROM specs WHERE job > 0 AND job NOT IN (SELECT id FROM jobs)"
	" AND job NOT IN (SELECT array_id FROM jobs WHERE array_id > 0)",
    [STORE_SQL_NEXT_FORGET] = "SELECT min(forget_ns) FROM jobs WHERE forget_ns IS NOT NULL"
			      " AND array_id NOT IN (SELECT array_id FROM jobs"
			      " WHERE ended_ns IS NULL AND array_id > 0)",
    [STORE_SQL_ARRAY] =
	"SELECT count(*), total(ended_ns IS NULL), total(state = 'Succeeded'),"
	" total(state = 'Failed'), total(state = 'Cancelled'), total(failed_attempts)"
	" FROM jobs WHERE array_id > 0 AND array_id = ?1",
    [STORE_SQL_USED] =
	"SELECT coalesce(sum(max(0, ended_ns - started_ns)), 0) FROM (SELECT started_ns, ended_ns"
	" FROM attempts WHERE job = ?1 AND ended_ns IS NOT NULL ORDER BY attempt DESC LIMIT ?2)",
    [STORE_SQL_USAGE] =
	"SELECT j.id, j.uid, j.gpus, j.share_numerator, j.share_denominator, j.wanted, "
	"a.started_ns,"
	" coalesce(a.ended_ns, j.ended_ns, ?2), j.state = 'Failed' AND a.attempt = j.attempt"
	" FROM attempts a JOIN jobs j ON j.id = a.job WHERE a.started_ns < ?2"
	" AND coalesce(a.ended_ns, j.ended_ns, ?2) >= ?1 AND (?3 < 0 OR j.uid = ?3)"
	" ORDER BY a.job, a.attempt",
    [STORE_SQL_PAST] =
	"SELECT j.uid, j.name, a.started_ns, coalesce(a.ended_ns, j.ended_ns) AS ended, a.grants,"
	" j.state = 'Succeeded' AND a.attempt = j.attempt"
	" FROM attempts a JOIN jobs j ON j.id = a.job"
	" WHERE a.started_ns > 0 AND ended >= a.started_ns ORDER BY ended DESC, j.id DESC LIMIT ?1",
    [STORE_SQL_ATTEMPTS] =
	"SELECT attempt, started_ns, ended_ns, grants, observations, reason, reason_text, exit_code"
	" FROM attempts WHERE job = ?1 ORDER BY attempt",
    [STORE_SQL_IS_FINAL] = "SELECT ended_ns IS NOT NULL FROM jobs WHERE id = ?1",
    [STORE_SQL_NEXT_ID] = "SELECT max(value, (SELECT coalesce(max(id), 0) + 1 FROM jobs)) FROM meta"
			  " WHERE name = 'next_id'",
    [STORE_SQL_FIND_KEY] = "SELECT id FROM jobs WHERE uid = ?1 AND key = ?2",
#define STORE_COLUMNS                                                                              \
	"SELECT id, key, uid, name, state, jobs.reason, jobs.reason_text, gpus, share_numerator,"  \
	" share_denominator, ids, ignore_outsiders, simulated, jobs.attempt, submitted_ns,"        \
	" jobs.started_ns, jobs.ended_ns, jobs.exit_code, signal, killed_leftovers, "              \
	"launch_failed,"                                                                           \
	" iif(state IN ('Pending', 'Held'), NULL, grants), observations, resources, wanted,"       \
	" array_id, array_index, failed_attempts, not_before_ns, jobs.reason_detail"               \
	" FROM jobs LEFT JOIN attempts"                                                            \
	" ON attempts.job = jobs.id AND attempts.attempt = jobs.attempt"
    [STORE_SQL_LOAD] = STORE_COLUMNS " WHERE jobs.ended_ns IS NULL ORDER BY id",
    [STORE_SQL_LIST_FINAL] =
	STORE_COLUMNS " WHERE jobs.ended_ns >= ?1 AND (jobs.ended_ns, id) < (?3, ?4)"
		      " ORDER BY jobs.ended_ns DESC, id DESC LIMIT ?2",
    [STORE_SQL_GET] = STORE_COLUMNS " WHERE id = ?1",
    [STORE_SQL_LIST_ARRAY] = STORE_COLUMNS " WHERE array_id > 0 AND array_id = ?1 ORDER BY id",
    [STORE_SQL_SPEC] = "SELECT sum, spec FROM specs, jobs WHERE id = ?1"
		       " AND job = iif(EXISTS(SELECT 1 FROM specs WHERE job = ?1), ?1, array_id)",
    /* Job 0 is none: there lies what is drained and reserved. */
    [STORE_SQL_CLAIMS] = "SELECT sum, spec FROM specs WHERE job = 0",
    [STORE_SQL_SPEC_BYTES] = "SELECT length(spec) FROM specs WHERE job = ?1",
    [STORE_SQL_LIVE_BYTES] = "SELECT id, length(spec) FROM jobs JOIN specs ON job = id"
			     " WHERE ended_ns IS NULL ORDER BY id",
    [STORE_SQL_SHARES] = "SELECT uid, count(*), total(length(spec)) FROM jobs"
			 " LEFT JOIN specs ON job = id WHERE ended_ns IS NOT NULL"
			 " GROUP BY uid ORDER BY uid",
    [STORE_SQL_SHARE_LIST] = "SELECT id, uid, coalesce(length(spec), 0) FROM jobs"
			     " LEFT JOIN specs ON job = id WHERE ended_ns IS NOT NULL"
			     " AND array_id NOT IN (SELECT array_id FROM jobs"
			     " WHERE ended_ns IS NULL AND array_id > 0)"
			     " ORDER BY forget_ns IS NOT NULL, ended_ns, id",
};

/* FNV-1a: https://datatracker.ietf.org/doc/html/draft-eastlake-fnv */
int64_t store_sum(const char *bytes, size_t length)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < length; i++)
		sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
	int64_t out;
	memcpy(&out, &sum, sizeof(out));
	return out;
}

/* What an extended result code of SQLite is as -errno; `os` is the errno behind it, if any. */
static int store_errno(int code, int os)
{
	switch (code) {
	case SQLITE_IOERR_NOMEM:
		return -ENOMEM;
	case SQLITE_CONSTRAINT_UNIQUE:
	case SQLITE_CONSTRAINT_PRIMARYKEY:
	case SQLITE_CONSTRAINT_ROWID:
		return -EEXIST;
	default:
		break;
	}

	switch (code & 0xff) {
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return -EACCES;
	case SQLITE_CANTOPEN:
		return os > 0 ? -os : -EACCES;
	case SQLITE_ERROR: /* our statements are right: tables are not there, or are others */
		return -EUCLEAN;
	case SQLITE_TOOBIG:
		return -E2BIG;
	case SQLITE_IOERR: /* SQLite knows ENOSPC only as a disk that is full */
		return os == EDQUOT || os == ENOSPC ? -ENOSPC : os == EROFS ? -EROFS : -EIO;
	default:
		return -EIO;
	}
}

/*
 * After a failed fsync the kernel may have dropped the pages and marked them clean: a second fsync
 * would succeed and mean nothing (https://wiki.postgresql.org/wiki/Fsync_Errors). So whatever is
 * not on the disk by now is not relied upon, and nothing is added.
 */
static bool store_code_breaks(int code)
{
	return code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC ||
	       (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

int store_fail(struct store *store, const char *doing, struct err *err)
{
	int code = store->db ? sqlite3_extended_errcode(store->db) : SQLITE_NOMEM;
	/* The last call went well: what failed is a call on a statement that could not be made. */
	bool lacks_statement = code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE;

	if (lacks_statement)
		code = SQLITE_NOMEM;

	int os = store->db && !lacks_statement ? sqlite3_system_errno(store->db) : 0;
	int rc = store_errno(code, os);
	const char *what =
	    store->db && !lacks_statement ? sqlite3_errmsg(store->db) : "out of memory";

	if (store_code_breaks(code) && !store->is_broken) {
		store->is_broken = true;
		(void)snprintf(store->why_broken, sizeof(store->why_broken), "%s: %s%s%s", doing,
			       what, os ? ": " : "", os ? err_describe(-os) : "");
	}

	if (rc == -ENOSPC)
		return err_set(err, rc, "%s: no space left for '%s'", doing, store->path);

	if (rc == -EUCLEAN)
		return err_set(
		    err, rc,
		    "'%s' is damaged (%s: %s); it is kept as it is: restore a copy, or move it "
		    "and '%s-wal' away to begin with an empty queue",
		    store->path, doing, what, store->path);

	return err_set(err, rc, "%s: '%s': %s%s%s", doing, store->path, what,
		       os && rc != -EBUSY ? ": " : "", os && rc != -EBUSY ? err_describe(-os) : "");
}

int store_damaged(struct store *store, struct err *err, const char *format, ...)
{
	char what[160];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);

	return err_set(err, -EUCLEAN,
		       "'%s' is damaged (%s); it is kept as it is: restore a copy, or move it and "
		       "'%s-wal' away to begin with an empty queue",
		       store->path, what, store->path);
}

static int store_prepare_one(struct store *store, size_t which)
{
	return sqlite3_prepare_v3(store->db, store_sql_texts[which], -1, SQLITE_PREPARE_PERSISTENT,
				  &store->statements[which], NULL);
}

int store_prepare(struct store *store, struct err *err)
{
	for (size_t i = 0; i < STORE_SQL_COUNT; i++)
		if (store_prepare_one(store, i) != SQLITE_OK)
			return store_fail(store, "preparing its statements", err);

	return 0;
}

void store_forget_statements(struct store *store, enum store_sql from)
{
	for (size_t i = from; i < STORE_SQL_COUNT; i++) {
		(void)sqlite3_finalize(store->statements[i]);
		store->statements[i] = NULL;
	}
}

bool store_give_back(struct store *store)
{
	if (store->looks_unused < STORE_UNUSED_LOOKS)
		store->looks_unused++;
	else
		return false; /* it has been given back */

	if (store->looks_unused < STORE_UNUSED_LOOKS)
		return false;

	/* A transaction that has begun must be ended without memory, too. */
	store_forget_statements(store, STORE_SQL_ROLLBACK + 1);
	(void)sqlite3_db_release_memory(store->db);
	return true;
}

void store_reset(sqlite3_stmt *statement)
{
	if (!statement)
		return;

	(void)sqlite3_reset(statement); /* says again what its last step said */
	(void)sqlite3_clear_bindings(statement);
}

sqlite3_stmt *store_statement(struct store *store, enum store_sql which)
{
	store->looks_unused = 0;
	if (!store->statements[which])
		(void)store_prepare_one(store, which);

	store_reset(store->statements[which]);
	return store->statements[which];
}

int store_run(struct store *store, sqlite3_stmt *statement, const char *doing, struct err *err)
{
	int step = sqlite3_step(statement);
	int rc = step == SQLITE_DONE ? 0 : store_fail(store, doing, err);
	store_reset(statement);
	return rc;
}

static int store_bind_text(sqlite3_stmt *statement, int index, const char *text)
{
	return text ? sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC)
		    : sqlite3_bind_null(statement, index);
}

static int store_bind_id(sqlite3_stmt *statement, int index, uint64_t id)
{
	return sqlite3_bind_int64(statement, index, (sqlite3_int64)id);
}

/* -- accept -------------------------------------------------------------------------------------*/

static int store_accept_check(const struct store *store, const struct store_accept *accept,
			      struct err *err)
{
	const struct job *job = accept->job;
	if (job->id == 0 || job->id > INT64_MAX || job->key[0] == '\0')
		return err_set(err, -EINVAL, "accepting job %" PRIu64 ": it has no id or no key",
			       job->id);
	if (job->state != JOB_PENDING && job->state != JOB_HELD)
		return err_set(err, -EINVAL, "accepting job %" PRIu64 ": it is %s", job->id,
			       job_state_to_string(job->state));
	if (job->id < store->next_id)
		return err_set(err, -EEXIST,
			       "accepting job %" PRIu64 ": ids below %" PRIu64 " are given already",
			       job->id, store->next_id);

	if (accept->spec_length > SPEC_BYTES_MAX)
		return err_set(err, -E2BIG,
			       "accepting job %" PRIu64 ": its specification is too large",
			       job->id);

	return 0;
}

/* What the job wants, as value `index`. */
static int store_bind_wants(sqlite3_stmt *statement, int index, const struct job *job,
			    struct err *err)
{
	char *bytes = NULL;
	size_t length = 0;
	int rc = wants_format(&job->wants, &bytes, &length);
	if (rc < 0)
		return err_set(err, rc, "what job %" PRIu64 " wants: %s", job->id,
			       err_describe(rc));

	(void)sqlite3_bind_blob64(statement, index, bytes, length, free);
	return 0;
}

static int store_write_spec(struct store *store, enum store_sql which, uint64_t id,
			    const char *bytes, size_t length, struct err *err)
{
	sqlite3_stmt *spec = store_statement(store, which);
	(void)store_bind_id(spec, 1, id);
	(void)sqlite3_bind_int64(spec, 2, store_sum(bytes, length));
	(void)sqlite3_bind_blob64(spec, 3, bytes, length, SQLITE_STATIC);
	return store_run(store, spec, "writing a job's specification", err);
}

static int store_accept_one(struct store *store, const struct store_accept *accept, struct err *err)
{
	const struct job *job = accept->job;
	sqlite3_stmt *row = store_statement(store, STORE_SQL_ACCEPT_JOB);
	int rc = store_bind_wants(row, 14, job, err);
	if (rc < 0)
		return rc;

	(void)store_bind_id(row, 1, job->id);
	(void)store_bind_text(row, 2, job->key);
	(void)sqlite3_bind_int64(row, 3, job->uid);
	(void)store_bind_text(row, 4, job->name);
	(void)sqlite3_bind_int64(row, 5, job->gpus);
	(void)sqlite3_bind_int64(row, 6, job->share_numerator);
	(void)sqlite3_bind_int64(row, 7, job->share_denominator);
	(void)store_bind_text(row, 8, job->ids);
	(void)sqlite3_bind_int(row, 9, job->ignore_outsiders);

	(void)sqlite3_bind_int(row, 10, job->simulated);
	(void)sqlite3_bind_int64(row, 11, job->submitted_unix_ns);
	(void)store_bind_text(row, 12, job->resources);
	(void)store_bind_text(row, 13, job_state_to_string(job->state));
	(void)store_bind_id(row, 15, job->array_id);
	(void)sqlite3_bind_int64(row, 16, job->array_index);
	(void)store_bind_text(row, 17, job_reason_to_string(job->reason));
	(void)store_bind_text(row, 18, job->reason_text);
	(void)store_bind_text(row, 19, job->reason_detail);

	rc = store_run(store, row, "accepting a job", err);
	if (rc == -EEXIST)
		return err_set(err, rc,
			       "accepting job %" PRIu64
			       ": its id is there already, or its key is that of "
			       "another job of uid %u",
			       job->id, job->uid);

	if (rc < 0)
		return rc;

	/* A member of an array has that of the first, which is there already. */
	if (!accept->spec && job->array_id > 0 && job->array_id < job->id)
		return 0;

	return store_write_spec(store, STORE_SQL_ACCEPT_SPEC, job->id,
				accept->spec ? accept->spec : "", accept->spec_length, err);
}

int store_accept(struct store *store, const struct store_accept *jobs, size_t count,
		 struct err *err)
{
	if (count > STORE_ROWS_MAX)
		return err_set(err, -E2BIG, "accepting %zu jobs at once: at most %d", count,
			       STORE_ROWS_MAX);

	uint64_t next_id = store->next_id;

	for (size_t i = 0; i < count; i++) {
		int rc = store_accept_check(store, &jobs[i], err);
		if (rc < 0)
			return rc;
		if (jobs[i].job->id >= next_id)
			next_id = jobs[i].job->id + 1;
	}

	if (count == 0)
		return 0;

	int rc = store_begin(store, "accepting a job", err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < count && rc == 0; i++)
		rc = store_accept_one(store, &jobs[i], err);

	if (rc == 0) {
		sqlite3_stmt *meta = store_statement(store, STORE_SQL_SET_NEXT_ID);
		(void)store_bind_id(meta, 1, next_id);
		rc = store_run(store, meta, "accepting a job", err);
	}

	rc = store_finish(store, rc, "accepting a job", err);
	if (rc == 0)
		store->next_id = next_id;

	return rc;
}

/* -- start and end ------------------------------------------------------------------------------*/

/* 0: the job is there and not final. -ENOENT, -EALREADY. */
static int store_expect_live(struct store *store, uint64_t id, const char *doing, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_IS_FINAL);
	(void)store_bind_id(query, 1, id);

	int step = sqlite3_step(query);
	bool is_final = step == SQLITE_ROW && sqlite3_column_int(query, 0) != 0;
	int rc = step == SQLITE_ROW || step == SQLITE_DONE ? 0 : store_fail(store, doing, err);

	(void)sqlite3_reset(query);
	if (rc < 0)
		return rc;
	if (step == SQLITE_DONE)
		return err_set(err, -ENOENT, "%s: '%s' has no job %" PRIu64, doing, store->path,
			       id);

	return is_final
		   ? err_set(err, -EALREADY, "%s: job %" PRIu64 " has ended already", doing, id)
		   : 0;
}

static int store_start_rows(struct store *store, uint64_t id, uint32_t attempt, const char *grants,
			    int64_t unix_ns, struct err *err)
{
	static const char doing[] = "entering a start";
	int rc = store_expect_live(store, id, doing, err);
	if (rc < 0)
		return rc;

	sqlite3_stmt *job = store_statement(store, STORE_SQL_START_JOB);
	sqlite3_stmt *row = store_statement(store, STORE_SQL_START_ATTEMPT);

	(void)store_bind_id(job, 1, id);
	(void)sqlite3_bind_int64(job, 2, attempt);
	(void)sqlite3_bind_int64(job, 3, unix_ns);

	rc = store_run(store, job, doing, err);
	if (rc < 0)
		return rc;

	(void)store_bind_id(row, 1, id);
	(void)sqlite3_bind_int64(row, 2, attempt);
	(void)sqlite3_bind_int64(row, 3, unix_ns);
	(void)store_bind_text(row, 4, grants);

	return store_run(store, row, doing, err);
}

int store_start(struct store *store, uint64_t id, uint32_t attempt, const char *grants,
		int64_t unix_ns, struct err *err)
{
	if (grants && strlen(grants) > STORE_GRANTS_TEXT_MAX)
		return err_set(err, -E2BIG,
			       "entering the start of job %" PRIu64 ": too many grants", id);

	int rc = store_begin(store, "entering a start", err);
	if (rc < 0)
		return rc;

	rc = store_start_rows(store, id, attempt, grants, unix_ns, err);
	return store_finish(store, rc, "entering a start", err);
}

int store_unstart(struct store *store, uint64_t id, uint32_t attempt, struct err *err)
{
	static const char doing[] = "taking back a start";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;

	rc = store_expect_live(store, id, doing, err);
	for (enum store_sql which = STORE_SQL_UNSTART_JOB;
	     which <= STORE_SQL_UNSTART_ATTEMPT && rc == 0; which++) {
		sqlite3_stmt *statement = store_statement(store, which);
		(void)store_bind_id(statement, 1, id);
		(void)sqlite3_bind_int64(statement, 2, attempt);
		rc = store_run(store, statement, doing, err);
	}

	return store_finish(store, rc, doing, err);
}

/* The end of a job's last attempt; one that has ended before stays as it is. */
static int store_end_attempt(struct store *store, const struct job *job, const char *observations,
			     const char *doing, struct err *err)
{
	sqlite3_stmt *attempt = store_statement(store, STORE_SQL_END_ATTEMPT);
	(void)store_bind_id(attempt, 1, job->id);
	(void)sqlite3_bind_int64(attempt, 2, job->attempt);
	(void)sqlite3_bind_int64(attempt, 3, job->ended_unix_ns);
	(void)store_bind_text(attempt, 4, observations);

	/* A line of the record of the attempt: record.h. */
	char isolation[STORE_ISOLATION_MAX], why[JOB_WHY_MAX];
	(void)snprintf(isolation, sizeof(isolation), "isolation %s\n",
		       isolation_level_to_string(job->isolation)); /* fits */
	/* What a record says nothing of is the lowest. */
	if (job->isolation != ISOLATION_ENV && job->isolation != ISOLATION_BEST)
		(void)store_bind_text(attempt, 5, isolation);
	(void)sqlite3_bind_int64(attempt, 6, job->started_unix_ns);
	(void)store_bind_text(attempt, 7, job_reason_to_string(job->reason));
	job_why(job, why); /* an attempt is shown to those alone who may see all */
	(void)store_bind_text(attempt, 8, why[0] ? why : NULL);

	if (job->has_exit)
		(void)sqlite3_bind_int(attempt, 9, job->exit_code);

	return store_run(store, attempt, doing, err);
}

/* When a job that has ended may be forgotten, if it says so itself. */
static int store_bind_forget(sqlite3_stmt *statement, int index, const struct job *job)
{
	int64_t at;
	if (!job->wants.has_ttl)
		return sqlite3_bind_null(statement, index);
	if (job->wants.ttl_ns > INT64_MAX ||
	    __builtin_add_overflow(job->ended_unix_ns, (int64_t)job->wants.ttl_ns, &at))
		at = INT64_MAX;
	return sqlite3_bind_int64(statement, index, at);
}

static int store_end_job(struct store *store, const struct job *job, const char *doing,
			 struct err *err)
{
	sqlite3_stmt *row = store_statement(store, STORE_SQL_END_JOB);
	(void)store_bind_id(row, 1, job->id);
	(void)store_bind_text(row, 2, job_state_to_string(job->state));
	(void)store_bind_text(row, 3, job_reason_to_string(job->reason));
	(void)store_bind_text(row, 4, job->reason_text);
	(void)sqlite3_bind_int64(row, 5, job->started_unix_ns);
	(void)sqlite3_bind_int64(row, 6, job->ended_unix_ns);

	if (job->has_exit)
		(void)sqlite3_bind_int(row, 7, job->exit_code);
	(void)sqlite3_bind_int64(row, 8, job->signal);
	(void)sqlite3_bind_int64(row, 9, job->killed_leftovers);
	(void)sqlite3_bind_int(row, 10, job->launch_failed);
	(void)sqlite3_bind_int(row, 11, job->simulated);
	(void)sqlite3_bind_int64(row, 12, job->attempt);
	(void)sqlite3_bind_int64(row, 13, job->failed_attempts);
	(void)store_bind_forget(row, 14, job);
	(void)store_bind_text(row, 15, job->reason_detail);

	return store_run(store, row, doing, err);
}

static int store_end_rows(struct store *store, const struct job *job, const char *observations,
			  struct err *err)
{
	static const char doing[] = "entering an end";
	int rc = store_expect_live(store, job->id, doing, err);
	if (rc == 0)
		rc = store_end_job(store, job, doing, err);
	if (rc == 0)
		rc = store_end_attempt(store, job, observations, doing, err);
	return rc;
}

int store_end(struct store *store, const struct job *job, const char *observations, struct err *err)
{
	if (!job_state_is_final(job->state))
		return err_set(err, -EINVAL, "entering the end of job %" PRIu64 ": it is %s",
			       job->id, job_state_to_string(job->state));

	int rc = store_begin(store, "entering an end", err);
	if (rc < 0)
		return rc;

	rc = store_end_rows(store, job, observations, err);
	return store_finish(store, rc, "entering an end", err);
}

int store_retry(struct store *store, const struct job *ended, const char *reason_text,
		const char *observations, struct err *err)
{
	static const char doing[] = "entering another attempt";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;

	rc = store_expect_live(store, ended->id, doing, err);
	if (rc == 0) {
		sqlite3_stmt *row = store_statement(store, STORE_SQL_RETRY_JOB);
		(void)store_bind_id(row, 1, ended->id);
		(void)store_bind_text(row, 2, reason_text);
		(void)sqlite3_bind_int64(row, 3, ended->attempt);
		(void)sqlite3_bind_int64(row, 4, ended->failed_attempts);
		(void)sqlite3_bind_int64(row, 5, ended->not_before_unix_ns);
		(void)store_bind_text(row, 6, ended->reason_detail);
		rc = store_run(store, row, doing, err);
	}

	if (rc == 0)
		rc = store_end_attempt(store, ended, observations, doing, err);

	return store_finish(store, rc, doing, err);
}

static int store_reopen_one(struct store *store, uint64_t id, const char *doing, struct err *err)
{
	int rc = store_expect_live(store, id, doing, err);
	if (rc == 0)
		return err_set(err, -EALREADY, "job %" PRIu64 " has not ended", id);
	if (rc != -EALREADY)
		return rc;

	sqlite3_stmt *row = store_statement(store, STORE_SQL_REOPEN_JOB);
	(void)store_bind_id(row, 1, id);
	return store_run(store, row, doing, err);
}

int store_reopen(struct store *store, const uint64_t *ids, size_t count, struct err *err)
{
	static const char doing[] = "entering another attempt";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = store_reopen_one(store, ids[i], doing, err);
	return store_finish(store, rc, doing, err);
}

/* -- change -------------------------------------------------------------------------------------*/

static int store_change_one(struct store *store, const struct store_change *change,
			    const char *doing, struct err *err)
{
	const struct job *job = change->job;
	bool is_end = job_state_is_final(job->state);
	int rc = store_expect_live(store, job->id, doing, err);
	if (rc == -EALREADY && is_end)
		return 0; /* entered by an operation that was thought to have failed */

	if (rc < 0)
		return rc;
	if (is_end)
		return store_end_job(store, job, doing, err);

	sqlite3_stmt *row = store_statement(store, change->wants_alone ? STORE_SQL_CHANGE_WANTS
								       : STORE_SQL_CHANGE_JOB);
	if (change->wants_alone) {
		rc = store_bind_wants(row, 2, job, err);
		(void)store_bind_id(row, 1, job->id);
		return rc < 0 ? rc : store_run(store, row, doing, err);
	}

	rc = store_bind_wants(row, 5, job, err);
	if (rc < 0)
		return rc;

	(void)store_bind_id(row, 1, job->id);
	(void)store_bind_text(row, 2, job_state_to_string(job->state));
	(void)store_bind_text(row, 3, job_reason_to_string(job->reason));
	(void)store_bind_text(row, 4, job->reason_text);
	(void)store_bind_text(row, 6, job->reason_detail);

	rc = store_run(store, row, doing, err);
	if (rc == 0 && change->spec)
		rc = store_write_spec(store, STORE_SQL_CHANGE_SPEC, job->id, change->spec,
				      change->spec_length, err);

	return rc;
}

int store_change(struct store *store, const struct store_change *changes, size_t count,
		 struct err *err)
{
	static const char doing[] = "changing a job";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = store_change_one(store, &changes[i], doing, err);
	return store_finish(store, rc, doing, err);
}

/* -- forget -------------------------------------------------------------------------------------*/

/* The ids to forget into `ids`, which has room for STORE_FORGET_MAX. */
static int store_forget_list(struct store *store, int64_t unix_ns, int64_t now_unix_ns, size_t keep,
			     uint64_t *ids, size_t *out_count, struct err *err)
{
	sqlite3_stmt *list = store_statement(store, STORE_SQL_FORGET_LIST);
	(void)sqlite3_bind_int64(list, 1, unix_ns);
	(void)store_bind_id(list, 2, keep > INT64_MAX ? INT64_MAX : keep);
	(void)sqlite3_bind_int(list, 3, STORE_FORGET_MAX);
	(void)sqlite3_bind_int64(list, 4, now_unix_ns);

	size_t count = 0;
	int step;
	while ((step = sqlite3_step(list)) == SQLITE_ROW && count < STORE_FORGET_MAX)
		ids[count++] = (uint64_t)sqlite3_column_int64(list, 0);

	int rc = step == SQLITE_ROW || step == SQLITE_DONE
		     ? 0
		     : store_fail(store, "forgetting old jobs", err);

	(void)sqlite3_reset(list);
	*out_count = count;
	return rc;
}

int store_forget(struct store *store, int64_t unix_ns, int64_t now_unix_ns, size_t keep,
		 uint64_t **out_ids, size_t *out_count, struct err *err)
{
	static const char doing[] = "forgetting old jobs";
	_cleanup_free_ uint64_t *ids = calloc(STORE_FORGET_MAX, sizeof(*ids));
	if (!ids)
		return err_set(err, -ENOMEM, "%s: out of memory", doing);

	size_t count = 0;
	int rc = store_forget_list(store, unix_ns, now_unix_ns, keep, ids, &count, err);
	if (rc == 0)
		rc = store_forget_these(store, ids, count, err);
	if (rc < 0)
		return rc;

	*out_ids = take_ptr(ids);
	*out_count = count;
	return 0;
}

int store_forget_these(struct store *store, const uint64_t *ids, size_t count, struct err *err)
{
	static const char doing[] = "forgetting old jobs";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < count && rc == 0; i++) {
		for (enum store_sql which = STORE_SQL_FORGET_JOB;
		     which <= STORE_SQL_FORGET_SPEC && rc == 0; which++) {
			sqlite3_stmt *statement = store_statement(store, which);
			(void)store_bind_id(statement, 1, ids[i]);
			rc = store_run(store, statement, doing, err);
		}
	}

	if (rc == 0 && count > 0)
		rc = store_run(store, store_statement(store, STORE_SQL_FORGET_ARRAYS), doing, err);

	return store_finish(store, rc, doing, err);
}

/* -- settings -----------------------------------------------------------------------------------*/

int store_set_claims(struct store *store, const char *bytes, size_t length, struct err *err)
{
	static const char doing[] = "entering what is drained and reserved";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;
	rc = store_write_spec(store, STORE_SQL_CHANGE_SPEC, 0, bytes, length, err);
	return store_finish(store, rc, doing, err);
}

int store_set_draining(struct store *store, bool is_draining, struct err *err)
{
	static const char doing[] = "entering whether jobs are started";
	int rc = store_begin(store, doing, err);
	if (rc < 0)
		return rc;

	sqlite3_stmt *statement = store_statement(store, STORE_SQL_SET_DRAINING);
	(void)sqlite3_bind_int(statement, 1, is_draining);
	rc = store_run(store, statement, doing, err);

	return store_finish(store, rc, doing, err);
}
