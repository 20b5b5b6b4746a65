/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_past.h"

#include "doors/queue/store/store_internal.h"

/* As STORE_SQL_PAST names them. */
enum past_column {
	PAST_UID,
	PAST_NAME,
	PAST_STARTED,
	PAST_ENDED,
	PAST_GRANTS,
	PAST_SUCCEEDED,
};

int store_past(struct store *store, size_t max,
	       int (*each)(const struct store_past *past, void *context), void *context,
	       struct err *err)
{
	sqlite3_stmt *query = store_statement(store, STORE_SQL_PAST);
	int rc = 0, step = SQLITE_DONE;

	(void)sqlite3_bind_int64(query, 1, (sqlite3_int64)max);

	while (rc == 0 && (step = sqlite3_step(query)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(query, PAST_NAME);
		const char *grants = (const char *)sqlite3_column_text(query, PAST_GRANTS);
		const struct store_past past = {
		    .uid = (uid_t)sqlite3_column_int64(query, PAST_UID),
		    .name = name ? name : "",
		    .grants = grants ? grants : "",
		    .started_unix_ns = sqlite3_column_int64(query, PAST_STARTED),
		    .ended_unix_ns = sqlite3_column_int64(query, PAST_ENDED),
		    .has_succeeded = sqlite3_column_int(query, PAST_SUCCEEDED) != 0,
		};

		rc = each(&past, context);
	}

	if (rc == 0 && step != SQLITE_DONE)
		rc = store_fail(store, "reading attempts that are over", err);

	(void)sqlite3_reset(query);
	return rc;
}
