/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions: of one operation, or of several that are made durable together. */
#include <errno.h>

#include "base/crash.h"
#include "doors/queue/store/store_internal.h"

static void store_rollback(struct store *store)
{
	if (!sqlite3_get_autocommit(store->db)) /* else SQLite has done it already */
		(void)store_run(store, store_statement(store, STORE_SQL_ROLLBACK), "rolling back",
				NULL);
}

/* The log goes into the database once it is long enough. What was committed is durable without:
 * only what a failure says about the disk matters. */
static void store_checkpoint(struct store *store)
{
	if (store->log_pages < store->checkpoint_at)
		return;

	int rc = sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
	if (rc == SQLITE_OK) {
		store->checkpoint_at = STORE_WAL_PAGES;
		return;
	}

	store->checkpoint_at = store->log_pages + STORE_WAL_PAGES;
	(void)store_fail(store, "writing the log into the database", NULL);
}

static int store_commit(struct store *store, int rc, const char *doing, struct err *err)
{
	if (rc == 0)
		rc = store_run(store, store_statement(store, STORE_SQL_COMMIT), doing, err);
	if (rc < 0)
		store_rollback(store);
	else
		store_checkpoint(store);
	return rc;
}

/* Whether what the group has written is still there. */
static void store_group_check(struct store *store)
{
	if (store->group_lost.code == 0 && store->grouped > store->grouped_before &&
	    sqlite3_get_autocommit(store->db))
		(void)err_set(&store->group_lost, -EIO, "'%s': SQLite has undone what was written",
			      store->path);
}

int store_begin(struct store *store, const char *doing, struct err *err)
{
	if (store->is_broken)
		return err_set(err, -EIO,
			       "%s: nothing more is written to '%s' since an earlier failure (%s); "
			       "look after the disk, then start the agent again",
			       doing, store->path, store->why_broken);
	if (!store->is_grouping)
		return store_run(store, store_statement(store, STORE_SQL_BEGIN), doing, err);

	store_group_check(store);
	if (store->group_lost.code < 0)
		return err_set(err, store->group_lost.code, "%s", store->group_lost.text);

	int rc = 0;
	if (sqlite3_get_autocommit(store->db))
		rc = store_run(store, store_statement(store, STORE_SQL_BEGIN), doing, err);
	if (rc == 0)
		rc = store_run(store, store_statement(store, STORE_SQL_SAVEPOINT), doing, err);

	return rc;
}

/* Takes this operation back and leaves the others. Where that cannot be done, or SQLite has undone
 * all of them (https://www.sqlite.org/lang_transaction.html, "Response To Errors"), none holds. */
static void store_undo_one(struct store *store, const char *doing, const struct err *why)
{
	int rc = sqlite3_get_autocommit(store->db) || store->is_broken ? why->code : 0;
	if (rc == 0)
		rc = store_run(store, store_statement(store, STORE_SQL_ROLLBACK_TO), doing, NULL);
	if (rc == 0)
		rc = store_run(store, store_statement(store, STORE_SQL_RELEASE), doing, NULL);
	if (rc == 0)
		return;

	store->group_lost = *why;
	store_rollback(store);
}

int store_finish(struct store *store, int rc, const char *doing, struct err *err)
{
	if (!store->is_grouping)
		return store_commit(store, rc, doing, err);

	if (rc == 0)
		rc = store_run(store, store_statement(store, STORE_SQL_RELEASE), doing, err);

	if (rc == 0) {
		store->grouped++;
		crash_point("store.operation_grouped");
		return 0;
	}

	/* The caller may not want to know why. */
	struct err why = {.code = 0};
	(void)err_set(&why, rc, "%s", err ? err->text : doing);
	store_undo_one(store, doing, &why);
	crash_point("store.operation_undone");

	return rc;
}

void store_group_begin(struct store *store)
{
	if (store->is_grouping)
		return;
	store->is_grouping = true;
	store->grouped_before = store->grouped;
}

int store_group_end(struct store *store, struct err *err)
{
	static const char doing[] = "entering what has happened to jobs";
	if (!store->is_grouping)
		return 0;

	store_group_check(store);
	const struct err lost = store->group_lost;
	store->is_grouping = false;
	store->group_lost = (struct err){.code = 0};
	if (lost.code < 0)
		return err_set(err, lost.code, "%s", lost.text);

	/* Nobody has written. */
	if (sqlite3_get_autocommit(store->db))
		return 0;

	crash_point("store.group_written");
	int rc = store_commit(store, 0, doing, err);
	crash_point("store.group_durable");

	return rc;
}

uint64_t store_grouped(const struct store *store)
{
	return store->grouped;
}
