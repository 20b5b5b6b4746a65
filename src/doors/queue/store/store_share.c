/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_share.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "doors/queue/store/store_internal.h"

int store_spec_bytes(struct store *store, uint64_t id, uint64_t *out, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_SPEC_BYTES);
	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)id);

	int rc = 0, step = sqlite3_step(query);
	if (step == SQLITE_ROW || step == SQLITE_DONE)
		*out = step == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(query, 0) : 0;
	else
		rc = store_fail(store, "reading the size of a job's specification", err);

	(void)sqlite3_reset(query);
	return rc;
}

int store_live_bytes(struct store *store, int (*each)(uint64_t id, uint64_t bytes, void *context),
		     void *context, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_LIVE_BYTES);
	int rc = 0, step;
	while (rc == 0 && (step = sqlite3_step(query)) != SQLITE_DONE)
		rc = step == SQLITE_ROW
			 ? each((uint64_t)sqlite3_column_int64(query, 0),
				(uint64_t)sqlite3_column_int64(query, 1), context)
			 : store_fail(store, "reading the sizes of specifications", err);

	(void)sqlite3_reset(query);
	return rc;
}

int store_shares(struct store *store, struct store_share **out, size_t *out_count, struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_SHARES);
	_cleanup_free_ struct store_share *shares = NULL;
	size_t count = 0, room = 0;
	int rc = 0, step;

	while (rc == 0 && (step = sqlite3_step(query)) != SQLITE_DONE) {
		if (step != SQLITE_ROW) {
			rc = store_fail(store, "reading whose jobs have ended", err);
			break;
		}

		if (array_room(&shares, count, &room, 16) < 0) {
			rc = err_set(err, -ENOMEM, "no memory for %zu users", count + 1);
			break;
		}

		shares[count++] = (struct store_share){
		    .uid = (uid_t)sqlite3_column_int64(query, 0),
		    .jobs = (uint64_t)sqlite3_column_int64(query, 1),
		    .bytes = (uint64_t)sqlite3_column_int64(query, 2),
		};
	}

	(void)sqlite3_reset(query);
	if (rc < 0)
		return rc;

	*out = take_ptr(shares);
	*out_count = count;
	return 0;
}

static int share_compare(const void *left, const void *right)
{
	const struct store_share *a = left, *b = right;
	return a->uid < b->uid ? -1 : a->uid > b->uid;
}

/* Whether a job of so many bytes is to go. */
static bool share_takes(const struct store_share *shares, size_t count, struct store_cut *cuts,
			uid_t uid, uint64_t bytes)
{
	const struct store_share key = {.uid = uid};
	const struct store_share *share =
	    count == 0 ? NULL : bsearch(&key, shares, count, sizeof(*shares), share_compare);
	struct store_cut *cut = share ? &cuts[share->cut] : NULL;

	/* A job without bytes brings nothing where bytes are too many. */
	if (!cut || (cut->jobs == 0 && (cut->bytes == 0 || bytes == 0)))
		return false;

	cut->jobs -= cut->jobs > 0;
	cut->bytes -= bytes < cut->bytes ? bytes : cut->bytes;
	return true;
}

int store_forget_shares(struct store *store, const struct store_share *shares, size_t count,
			struct store_cut *cuts, uint64_t **out_ids, size_t *out_count,
			struct err *err)
{
	_cleanup_free_ uint64_t *ids = calloc(STORE_FORGET_MAX, sizeof(*ids));
	if (!ids)
		return err_set(err, -ENOMEM, "forgetting old jobs: out of memory");

	sqlite3_stmt *query = store_statement(store, STORE_SQL_SHARE_LIST);
	size_t found = 0;
	int step = SQLITE_DONE;

	while (found < STORE_FORGET_MAX && (step = sqlite3_step(query)) == SQLITE_ROW)
		if (share_takes(shares, count, cuts, (uid_t)sqlite3_column_int64(query, 1),
				(uint64_t)sqlite3_column_int64(query, 2)))
			ids[found++] = (uint64_t)sqlite3_column_int64(query, 0);

	int rc = step == SQLITE_ROW || step == SQLITE_DONE
		     ? 0
		     : store_fail(store, "forgetting old jobs", err);

	(void)sqlite3_reset(query);
	if (rc == 0 && found > 0)
		rc = store_forget_these(store, ids, found, err);
	if (rc < 0)
		return rc;

	*out_ids = take_ptr(ids);
	*out_count = found;
	return 0;
}
