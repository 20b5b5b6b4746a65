/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the store share: store.c writes, store_group.c has the transactions,
 * store_read.c reads, store_open.c makes and examines the file, store_upgrade.c brings one of an
 * earlier release up to date, store_wal.c the log beside it. Nobody else includes this. */
#ifndef SLUICE_DOORS_QUEUE_STORE_STORE_INTERNAL_H
#define SLUICE_DOORS_QUEUE_STORE_STORE_INTERNAL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "doors/queue/store/store.h"

enum store_internal_limits {
	STORE_APPLICATION_ID = 0x736c7571, /* "sluq", in the header of the file */
	STORE_PAGE_BYTES = 4096,
	STORE_ISOLATION_MAX = 64, /* a line of the record of an attempt */
	STORE_CACHE_KIB = 256,
	/* A checkpoint copies this many pages at most (and what one transaction adds): about 1 MiB,
	 * so that the log stays small and no submission waits long for one. */
	STORE_WAL_PAGES = 256,
	STORE_UNUSED_LOOKS = 2,
	STORE_WAL_BYTES = 4 << 20, /* a longer log is cut when it starts anew */
};

enum store_sql {
	STORE_SQL_BEGIN,
	STORE_SQL_COMMIT,
	STORE_SQL_SAVEPOINT,
	STORE_SQL_RELEASE,
	STORE_SQL_ROLLBACK_TO,
	STORE_SQL_ROLLBACK, /* and those before it are kept: a transaction ends without memory */
	STORE_SQL_SET_NEXT_ID,
	STORE_SQL_SET_DRAINING,
	STORE_SQL_IS_DRAINING,
	STORE_SQL_ACCEPT_JOB,
	STORE_SQL_ACCEPT_SPEC,
	STORE_SQL_START_JOB,
	STORE_SQL_START_ATTEMPT,
	STORE_SQL_UNSTART_JOB,
	STORE_SQL_UNSTART_ATTEMPT,
	STORE_SQL_END_JOB,
	STORE_SQL_END_ATTEMPT,
	STORE_SQL_RETRY_JOB,
	STORE_SQL_REOPEN_JOB,
	STORE_SQL_CHANGE_JOB,
	STORE_SQL_CHANGE_WANTS,
	STORE_SQL_CHANGE_SPEC,
	STORE_SQL_FORGET_LIST,
	STORE_SQL_FORGET_JOB,
	STORE_SQL_FORGET_ATTEMPTS,
	STORE_SQL_FORGET_SPEC,
	STORE_SQL_FORGET_ARRAYS,
	STORE_SQL_NEXT_FORGET,
	STORE_SQL_ARRAY,
	STORE_SQL_USED,
	STORE_SQL_USAGE,
	STORE_SQL_PAST,
	STORE_SQL_ATTEMPTS,
	STORE_SQL_IS_FINAL,
	STORE_SQL_NEXT_ID,
	STORE_SQL_FIND_KEY,
	STORE_SQL_LOAD,
	STORE_SQL_LIST_FINAL,
	STORE_SQL_GET,
	STORE_SQL_LIST_ARRAY,
	STORE_SQL_SPEC,
	STORE_SQL_CLAIMS,
	STORE_SQL_SPEC_BYTES,
	STORE_SQL_LIVE_BYTES,
	STORE_SQL_SHARES,
	STORE_SQL_SHARE_LIST,
	STORE_SQL_COUNT,
};

struct store {
	sqlite3 *db;				   /* owned; NULL after a failed open */
	char *path;				   /* owned */
	sqlite3_stmt *statements[STORE_SQL_COUNT]; /* owned */
	uint64_t next_id;
	int log_pages;	   /* in the write-ahead log, after the last commit */
	int checkpoint_at; /* pages */
	int looks_unused;  /* of store_give_back(), since it was used last */
	/* Between store_group_begin() and store_group_end(). */
	bool is_grouping;
	uint64_t grouped;	 /* operations in groups that went well, ever */
	uint64_t grouped_before; /* this group */
	struct err group_lost;	 /* why SQLite has undone all of it; code 0: it has not */
	bool is_broken;		 /* a failed fsync, or damage: nothing is written any more */
	char why_broken[256];
};

/* -errno for what SQLite says last about `store`, with a text that begins with `doing`. Damage and
 * a failed fsync make the store broken. */
int store_fail(struct store *store, const char *doing, struct err *err);
int store_exec(struct store *store, const char *sql, const char *doing, struct err *err);
/* Of an earlier release: what is new is added in one transaction, and its own release refuses it
 * from then on. */
int store_upgrade(struct store *store, int version, struct err *err);
/* Makes all statements: what is wrong with the tables shows before anything is done with them. */
int store_prepare(struct store *store, struct err *err);
/* One of them, without values. It is made again if store_give_back() has taken it; without memory
 * for that it is NULL, which each call on it but store_reset() refuses; store_fail() says why. */
sqlite3_stmt *store_statement(struct store *store, enum store_sql which);
/* After its last row: gives up its locks and its values. NULL is ignored. */
void store_reset(sqlite3_stmt *statement);
/* Runs one that returns no rows. */
int store_run(struct store *store, sqlite3_stmt *statement, const char *doing, struct err *err);
/* One operation: a transaction of its own, or a part of the group's that can be undone alone. */
int store_begin(struct store *store, const char *doing, struct err *err);
/* Ends it: keeps what was written when `rc` is 0, else undoes it and returns `rc`. */
int store_finish(struct store *store, int rc, const char *doing, struct err *err);
/* Frees them from this one on. */
void store_forget_statements(struct store *store, enum store_sql from);
/* Removes these final jobs, with what belongs to them alone, in a transaction. */
int store_forget_these(struct store *store, const uint64_t *ids, size_t count, struct err *err);
/* For rows that no version of ours has written. */
int store_damaged(struct store *store, struct err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A checksum of a spec's bytes, as it stands beside them. */
int64_t store_sum(const char *bytes, size_t length);

/* What a look at the write-ahead log says. */
struct store_wal {
	uint64_t frames; /* valid ones, up to the last commit */
};
/*
 * Reads the log beside the database (none: 0 frames). A tail that a crash has torn is normal: it
 * belongs to a transaction that nobody was told of. A log that is damaged before that, so that
 * SQLite would leave out what was acknowledged without a word, is -EUCLEAN.
 * https://www.sqlite.org/fileformat2.html#the_write_ahead_log
 */
int store_wal_check(const char *path, uint32_t page_bytes, struct store_wal *out, struct err *err);

#endif
