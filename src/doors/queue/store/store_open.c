/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/file.h"

#define STORE_STRICT_VERSION 3037000 /* of SQLite: tables that refuse values of another type */

/* "%s" is STRICT where SQLite knows the word; after a WITHOUT ROWID with its comma. */
static const char store_schema[] =
    "CREATE TABLE meta(name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL)"
    " WITHOUT ROWID%s%s;"
    "CREATE TABLE jobs(id INTEGER PRIMARY KEY, key TEXT NOT NULL, uid INTEGER NOT NULL,"
    " name TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', reason_text TEXT,"
    " reason_detail TEXT, gpus INTEGER NOT NULL, share_numerator INTEGER NOT NULL, "
    "share_denominator INTEGER NOT NULL,"
    " ids TEXT, ignore_outsiders INTEGER NOT NULL, simulated INTEGER NOT NULL,"
    " attempt INTEGER NOT NULL DEFAULT 0, submitted_ns INTEGER NOT NULL,"
    " started_ns INTEGER NOT NULL DEFAULT 0, ended_ns INTEGER, exit_code INTEGER,"
    " signal INTEGER NOT NULL DEFAULT 0, killed_leftovers INTEGER NOT NULL DEFAULT 0,"
    " launch_failed INTEGER NOT NULL DEFAULT 0, resources TEXT, wanted BLOB NOT NULL DEFAULT x'',"
    " array_id INTEGER NOT NULL DEFAULT 0, array_index INTEGER NOT NULL DEFAULT 0,"
    " failed_attempts INTEGER NOT NULL DEFAULT 0, not_before_ns INTEGER NOT NULL DEFAULT 0,"
    " forget_ns INTEGER, UNIQUE(uid, key))%s%s;"
    "CREATE INDEX jobs_by_end ON jobs(ended_ns, id) WHERE ended_ns IS NOT NULL;"
    "CREATE INDEX jobs_live ON jobs(id) WHERE ended_ns IS NULL;"
    "CREATE INDEX jobs_by_array ON jobs(array_id) WHERE array_id > 0;"
    "CREATE INDEX jobs_by_forget ON jobs(forget_ns) WHERE forget_ns IS NOT NULL;"
    "CREATE TABLE attempts(job INTEGER NOT NULL, attempt INTEGER NOT NULL,"
    " started_ns INTEGER NOT NULL, ended_ns INTEGER, grants TEXT, observations TEXT,"
    " reason TEXT NOT NULL DEFAULT '', reason_text TEXT, exit_code INTEGER, PRIMARY KEY(job, "
    "attempt)) WITHOUT ROWID%s%s;"
    "CREATE TABLE specs(job INTEGER PRIMARY KEY, sum INTEGER NOT NULL, spec BLOB NOT NULL)%s%s;"
    "INSERT INTO meta VALUES('next_id', 1);";

/* -- settings of a connection -------------------------------------------------------------------*/

int store_exec(struct store *store, const char *sql, const char *doing, struct err *err)
{
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK
		   ? 0
		   : store_fail(store, doing, err);
}

/*
 * EXCLUSIVE: the file is locked from the first access to the end, and the index of the log lies in
 * our memory instead of in a shared file. The first access is the first of the loop.
 */
static int store_configure(struct store *store, struct err *err)
{
	static const char *const pragmas[] = {
	    "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL",
	    "PRAGMA synchronous = FULL",       "PRAGMA wal_autocheckpoint = 0",
	    "PRAGMA temp_store = MEMORY",      "PRAGMA trusted_schema = OFF",
	    "PRAGMA secure_delete = FAST",     "PRAGMA mmap_size = 0",
	};

	for (size_t i = 0; i < array_length(pragmas); i++) {
		int rc = store_exec(store, pragmas[i], "opening the store", err);
		if (rc < 0)
			return rc;
	}

	char sizes[128];
	(void)snprintf(sizes, sizeof(sizes),
		       "PRAGMA cache_size = -%d; PRAGMA journal_size_limit = %d", STORE_CACHE_KIB,
		       STORE_WAL_BYTES);
	return store_exec(store, sizes, "opening the store", err);
}

static int store_on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
	struct store *store = context;
	store->log_pages = pages;
	return SQLITE_OK;
}

/* Opens the connection; reads nothing. */
static int store_connect(struct store *store, const char *path, struct err *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
	if (sqlite3_open_v2(path, &store->db, flags, NULL) != SQLITE_OK)
		return store_fail(store, "opening the store", err);

	(void)sqlite3_extended_result_codes(store->db, 1);
	/* A file that is refused stays as it is, and so does one whose fsync has failed. */
	(void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	(void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);

	return 0;
}

static void store_disconnect(struct store *store)
{
	store_forget_statements(store, 0);
	if (store->db && !store->is_broken)
		(void)sqlite3_db_config(store->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
	(void)sqlite3_close(store->db);
	store->db = NULL;
}

/* -- a new database -----------------------------------------------------------------------------*/

static int store_fill(struct store *store, struct err *err)
{
	char sql[sizeof(store_schema) + 128], header[160];
	bool strict = sqlite3_libversion_number() >= STORE_STRICT_VERSION;
	const char *word = strict ? "STRICT" : "", *comma = strict ? ", " : "", *blank = " ";

	(void)snprintf(sql, sizeof(sql), store_schema, comma, word, blank, word, comma, word, blank,
		       word);
	(void)snprintf(header, sizeof(header),
		       "PRAGMA page_size = %d; PRAGMA auto_vacuum = NONE;"
		       "PRAGMA application_id = %d; PRAGMA user_version = %d",
		       STORE_PAGE_BYTES, STORE_APPLICATION_ID, STORE_VERSION);

	int rc = store_exec(store, header, "making the store", err);
	if (rc == 0)
		rc = store_configure(store, err);
	if (rc == 0)
		rc = store_exec(store, "BEGIN", "making the store", err);
	if (rc == 0)
		rc = store_exec(store, sql, "making the store", err);

	if (rc == 0)
		rc = store_exec(store, "COMMIT", "making the store", err);

	/* All of it is in the one file that gets the name. Closing would do that too, and keep
	 * quiet when it fails. */
	if (rc == 0 && sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL,
						 NULL) != SQLITE_OK)
		rc = store_fail(store, "making the store", err);

	return rc;
}

/* Gives the finished file its name, unless there is one of that name by now. */
static int store_publish(const char *temporary, const char *path, struct err *err)
{
	int rc = link(temporary, path) == 0 ? 0 : -errno;
	if (rc == -EPERM || rc == -EOPNOTSUPP || rc == -ENOSYS) /* no hard links here, as on FAT */
		rc = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0 ? 0
											   : -errno;
	if (rc < 0 && rc != -EEXIST)
		return err_set(err, rc, "cannot make '%s': %s", path, err_describe(rc));
	return 0;
}

static int store_sync_directory(const char *directory, struct err *err)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return err_set(err, -errno, "cannot write the directory '%s': %s", directory,
			       err_describe(-errno));
	return 0;
}

/*
 * A database appears under its name only when it is complete: then one that is empty or half made
 * was damaged, and is never mistaken for a new one.
 */
static int store_make(const char *path, const char *directory, struct err *err)
{
	char temporary[FILE_PATH_MAX];
	int rc = file_path(temporary, err, "%s.new-XXXXXX", path);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return err_set(err, -errno, "cannot make '%s': %s", path, err_describe(-errno));

	struct store store = {.path = temporary};
	rc = store_connect(&store, temporary, err);
	if (rc == 0)
		rc = store_fill(&store, err);
	store.is_broken = rc < 0; /* no use in writing more */
	store_disconnect(&store);

	if (rc == 0 && fsync(fd) < 0)
		rc = err_set(err, -errno, "cannot write '%s': %s", path, err_describe(-errno));
	if (rc == 0)
		rc = store_publish(temporary, path, err);
	(void)unlink(temporary); /* gone already where it was renamed */

	char wal[FILE_PATH_MAX];
	if (file_path(wal, NULL, "%s-wal", temporary) == 0)
		(void)unlink(wal);

	return rc == 0 ? store_sync_directory(directory, err) : rc;
}

/* -- an old one ---------------------------------------------------------------------------------*/

/* The error for a file that SQLite could open for reading only, or not at all. */
static int store_check_access(const char *path, struct err *err)
{
	if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0)
		return 0;
	return err_set(err, -errno, "cannot write '%s': %s", path, err_describe(-errno));
}

static int store_check_file(const char *path, struct stat *about, struct err *err)
{
	const char *what = NULL;
	int rc = -EUCLEAN;

	if (lstat(path, about) < 0)
		return err_set(err, -errno, "cannot open '%s': %s", path, err_describe(-errno));

	if (S_ISDIR(about->st_mode)) {
		what = "is a directory";
		rc = -EISDIR;
	} else if (S_ISLNK(about->st_mode)) {
		what = "is a symbolic link";
		rc = -ELOOP;
	} else if (!S_ISREG(about->st_mode)) {
		what = "is not a regular file";
	} else if (about->st_size == 0) {
		what = "is empty, which a queue's database never is: it is damaged";
	}

	return what ? err_set(
			  err, rc,
			  "'%s' %s; it is kept as it is: restore a copy, or move it away to begin "
			  "with an empty queue",
			  path, what)
		    : store_check_access(path, err);
}

/* Offsets as in https://www.sqlite.org/fileformat2.html#the_database_header */
static uint32_t store_header_u32(const unsigned char *header, size_t at)
{
	return (uint32_t)header[at] << 24 | (uint32_t)header[at + 1] << 16 |
	       (uint32_t)header[at + 2] << 8 | header[at + 3];
}

/* Reads the header through SQLite's own descriptor: closing another one of this file would drop the
 * locks that this process has on it. */
static int store_check_header(struct store *store, uint32_t *out_pages, struct err *err)
{
	sqlite3_file *file = NULL;
	unsigned char header[100];
	int rc = sqlite3_file_control(store->db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
	if (rc != SQLITE_OK || !file || !file->pMethods)
		return store_fail(store, "opening the store", err);

	rc = file->pMethods->xRead(file, header, sizeof(header), 0);
	if (rc != SQLITE_OK && rc != SQLITE_IOERR_SHORT_READ)
		return err_set(err, -EIO, "cannot read '%s'", store->path);
	if (rc == SQLITE_IOERR_SHORT_READ || memcmp(header, "SQLite format 3", 16) != 0)
		return store_damaged(store, err, "it does not begin as an SQLite database does");

	uint32_t application = store_header_u32(header, 68);
	if (application != STORE_APPLICATION_ID)
		return err_set(
		    err, -EUCLEAN,
		    "'%s' is a database of another program (application id 0x%08x); it is kept "
		    "as it is: move it away to begin with an empty queue",
		    store->path, application);

	if (store_header_u32(header, 16) >> 16 != STORE_PAGE_BYTES)
		return store_damaged(store, err, "its pages have %u bytes",
				     header[16] << 8 | header[17]);

	*out_pages = store_header_u32(header, 28);
	return 0;
}

static int store_check_version(struct store *store, struct err *err)
{
	sqlite3_stmt *query = NULL;
	int version = -1;

	if (sqlite3_prepare_v2(store->db, "PRAGMA user_version", -1, &query, NULL) == SQLITE_OK &&
	    sqlite3_step(query) == SQLITE_ROW)
		version = sqlite3_column_int(query, 0);

	int rc = version < 0 ? store_fail(store, "reading its version", err) : 0;

	(void)sqlite3_finalize(query);
	if (rc == 0 && version > STORE_VERSION)
		return err_set(
		    err, -EPROTONOSUPPORT,
		    "'%s' is of version %d, which a later release of sluice has made; this one "
		    "knows up to %d: install the later one again",
		    store->path, version, STORE_VERSION);

	if (rc == 0 && version < 1)
		return store_damaged(store, err, "version %d", version);

	return rc < 0 ? rc : store_upgrade(store, version, err);
}

/* Structure of what is always read. A spec has a checksum of its own, looked at when it is read:
 * together they can be a hundred times as large. */
static int store_quick_check(struct store *store, struct err *err)
{
	static const char *const checks[] = {
	    "PRAGMA quick_check(meta)",
	    "PRAGMA quick_check(jobs)",
	    "PRAGMA quick_check(attempts)",
	};

	for (size_t i = 0; i < array_length(checks); i++) {
		sqlite3_stmt *query = NULL;
		int rc = 0;

		if (sqlite3_prepare_v2(store->db, checks[i], -1, &query, NULL) != SQLITE_OK ||
		    sqlite3_step(query) != SQLITE_ROW) {
			rc = store_fail(store, "checking it", err);
		} else {
			const char *says = (const char *)sqlite3_column_text(query, 0);
			if (!says)
				rc = err_set(err, -ENOMEM, "checking '%s': out of memory",
					     store->path);
			else if (strcmp(says, "ok") != 0)
				rc = store_damaged(store, err, "%.*s", (int)strcspn(says, "\n"),
						   says);
		}

		(void)sqlite3_finalize(query);
		if (rc < 0)
			return rc;
	}

	return 0;
}

static int store_read_next_id(struct store *store, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_NEXT_ID);
	int step = sqlite3_step(query);
	int64_t next = step == SQLITE_ROW ? sqlite3_column_int64(query, 0) : 0;
	int rc = 0;

	if (step != SQLITE_ROW && step != SQLITE_DONE)
		rc = store_fail(store, "reading the next id", err);
	else if (next < 1)
		rc = store_damaged(store, err, "it has no next id");
	else
		store->next_id = (uint64_t)next;

	(void)sqlite3_reset(query);
	return rc;
}

/* The log of an earlier run goes into the database, so that nothing torn stays behind the whole
 * part of it. A full disk is no reason not to open. */
static int store_empty_log(struct store *store, struct err *err)
{
	if (sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) ==
	    SQLITE_OK)
		return 0;
	int rc = store_fail(store, "writing the log into the database", err);
	return rc == -ENOSPC ? 0 : rc;
}

static int store_open_old(struct store *store, const struct stat *about, struct err *err)
{
	char wal_path[FILE_PATH_MAX];
	struct store_wal wal;
	uint32_t pages = 0;
	int rc = file_path(wal_path, err, "%s-wal", store->path);
	if (rc == 0)
		rc = store_connect(store, store->path, err);

	if (rc < 0)
		return rc;

	rc = store_check_header(store, &pages, err);
	if (rc < 0)
		return rc;

	rc = store_wal_check(wal_path, STORE_PAGE_BYTES, &wal, err);
	if (rc < 0)
		return rc;

	/* While a log is there, the database may be in the middle of taking it in. */
	if (wal.frames == 0 && (uint64_t)about->st_size / STORE_PAGE_BYTES < pages)
		return store_damaged(store, err, "cut off after %llu of %u pages",
				     (unsigned long long)about->st_size / STORE_PAGE_BYTES, pages);

	rc = store_configure(store, err);
	/* After wal_autocheckpoint, which has a hook of its own. */
	(void)sqlite3_wal_hook(store->db, store_on_commit, store);
	if (rc == 0)
		rc = store_check_version(store, err);
	if (rc == 0)
		rc = store_quick_check(store, err);

	if (rc == 0)
		rc = store_prepare(store, err);
	if (rc == 0)
		rc = store_read_next_id(store, err);
	if (rc == 0 && wal.frames > 0)
		rc = store_empty_log(store, err);

	return rc;
}

/* -- open and close -----------------------------------------------------------------------------*/

/* There is no database: makes one, unless what lies there says that there was one. */
static int store_open_new(const char *path, const char *directory, struct err *err)
{
	char wal[FILE_PATH_MAX];
	int rc = file_path(wal, err, "%s-wal", path);
	if (rc < 0)
		return rc;

	if (file_exists(wal))
		return err_set(
		    err, -EUCLEAN,
		    "'%s' is there, but not its database: restore '%s', or move the log away to "
		    "begin with an empty queue",
		    wal, path);

	return store_make(path, directory, err);
}

int store_open(const char *path, struct store **out, struct err *err)
{
	char directory[FILE_PATH_MAX];
	int rc = file_path(directory, err, "%s", path);
	if (rc < 0)
		return rc;

	char *slash = strrchr(directory, '/');
	(void)snprintf(slash ? slash + (slash == directory) : directory, 2, "%s", slash ? "" : ".");

	rc = store_check_place(directory, 0, err);
	if (rc < 0)
		return rc;

	struct stat about;
	bool is_new = lstat(path, &about) < 0 && errno == ENOENT;
	if (is_new)
		rc = store_open_new(path, directory, err);
	if (rc == 0)
		rc = store_check_file(path, &about, err);

	if (rc < 0)
		return rc;

	struct store *store = calloc(1, sizeof(*store));
	if (store)
		store->path = strdup(path);
	if (!store || !store->path) {
		(void)store_close(store);
		return err_set(err, -ENOMEM, "opening '%s': out of memory", path);
	}

	store->checkpoint_at = STORE_WAL_PAGES;

	rc = store_open_old(store, &about, err);
	if (rc < 0) {
		store->is_broken = true; /* as it is */
		(void)store_close(store);
		return rc;
	}

	*out = store;
	return 0;
}

struct store *store_close(struct store *store)
{
	if (!store)
		return NULL;
	store_disconnect(store);
	free(store->path);
	free(store);
	return NULL;
}
