/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "doors/queue/store/store_before.h"
#include "job/spec.h"
#include "job/wants.h"

/* --- what SQL calls to read what was written before ------------------------------------------- */

/* The bytes of `rc` == 0 (owned, given away), or the error. */
static void upgrade_result(sqlite3_context *context, int rc, char *bytes, size_t length,
			   const struct err *err)
{
	if (rc == 0)
		sqlite3_result_blob64(context, bytes, length, free);
	else if (rc == -ENOMEM)
		sqlite3_result_error_nomem(context);
	else
		sqlite3_result_error(context, err->text, -1);
}

static void upgrade_wants(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *text = (const char *)sqlite3_value_text(values[0]);
	int length = sqlite3_value_bytes(values[0]);
	struct wants wants _cleanup_wants_;
	struct err err = {.code = 0};
	char *bytes = NULL;
	size_t size = 0;

	wants_init(&wants);
	int rc = text ? store_before_wants(text, (size_t)length, &wants, &err) : -ENOMEM;
	if (rc == 0)
		rc = wants_format(&wants, &bytes, &size);
	upgrade_result(context, rc, bytes, size, &err);
}

/* One that cannot be read comes back as it is. */
static void upgrade_spec(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *text = sqlite3_value_blob(values[0]);
	int length = sqlite3_value_bytes(values[0]);
	struct spec spec _cleanup_spec_;
	struct err err = {.code = 0};
	char *bytes = NULL;
	size_t size = 0;

	spec_init(&spec);
	int rc = text ? store_before_spec(text, (size_t)length, &spec, &err) : -EINVAL;
	if (rc == 0)
		rc = spec_format(&spec, &bytes, &size, &err);

	if (rc < 0 && rc != -ENOMEM)
		sqlite3_result_value(context, values[0]);
	else
		upgrade_result(context, rc, bytes, size, &err);
}

static void upgrade_sum(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *bytes = sqlite3_value_blob(values[0]);
	int length = sqlite3_value_bytes(values[0]);
	sqlite3_result_int64(context, store_sum(bytes ? bytes : "", (size_t)length));
}

static int upgrade_add_functions(struct store *store, const char *doing, struct err *err)
{
	static const struct {
		const char *name;
		void (*call)(sqlite3_context *context, int count, sqlite3_value **values);
	} functions[] = {
	    {"before_wants", upgrade_wants},
	    {"before_spec", upgrade_spec},
	    {"before_sum", upgrade_sum},
	};

	for (size_t i = 0; i < array_length(functions); i++)
		if (sqlite3_create_function_v2(store->db, functions[i].name, 1,
					       SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
					       functions[i].call, NULL, NULL, NULL) != SQLITE_OK)
			return store_fail(store, doing, err);
	return 0;
}

/* --- the steps -------------------------------------------------------------------------------- */

int store_upgrade(struct store *store, int version, struct err *err)
{
	static const char doing[] = "bringing the store of an earlier release up to date";

	static const char *const steps[STORE_VERSION] = {
	    [1] = "ALTER TABLE jobs ADD COLUMN resources TEXT",
	    [2] = "ALTER TABLE jobs ADD COLUMN wants TEXT NOT NULL DEFAULT '';"
		  "ALTER TABLE jobs ADD COLUMN array_id INTEGER NOT NULL DEFAULT 0;"
		  "ALTER TABLE jobs ADD COLUMN array_index INTEGER NOT NULL DEFAULT 0;"
		  "ALTER TABLE jobs ADD COLUMN failed_attempts INTEGER NOT NULL DEFAULT 0;"
		  "ALTER TABLE jobs ADD COLUMN not_before_ns INTEGER NOT NULL DEFAULT 0;"
		  "ALTER TABLE jobs ADD COLUMN forget_ns INTEGER;"
		  "CREATE INDEX jobs_by_array ON jobs(array_id) WHERE array_id > 0;"
		  "CREATE INDEX jobs_by_forget ON jobs(forget_ns) WHERE forget_ns IS NOT NULL;"
		  "ALTER TABLE attempts ADD COLUMN reason TEXT NOT NULL DEFAULT '';"
		  "ALTER TABLE attempts ADD COLUMN reason_text TEXT;"
		  "ALTER TABLE attempts ADD COLUMN exit_code INTEGER",
	    /* A text from before may name a command, unless these are what it is about. */
	    [3] = "ALTER TABLE jobs ADD COLUMN reason_detail TEXT;"
		  "UPDATE jobs SET reason_detail = reason_text, reason_text = NULL"
		  " WHERE reason NOT IN ('ExitCode', 'Signal', 'User', 'DependencyFailed')",
	    /* Not every SQLite can drop a column: the old one stays, empty. A specification that
	     * is damaged stays as it is, and says so when it is read. */
	    [4] = "ALTER TABLE jobs ADD COLUMN wanted BLOB NOT NULL DEFAULT x'';"
		  "UPDATE jobs SET wanted = before_wants(wants), wants = '' WHERE wants <> '';"
		  "UPDATE specs SET spec = before_spec(spec), sum = before_sum(before_spec(spec))"
		  " WHERE sum = before_sum(spec)",
	};
	char last[64];

	if (version == STORE_VERSION)
		return 0;

	int rc = upgrade_add_functions(store, doing, err);
	if (rc == 0)
		rc = store_exec(store, "BEGIN IMMEDIATE", doing, err);
	for (int step = version; rc == 0 && step < STORE_VERSION; step++) {
		rc = store_exec(store, steps[step], doing, err);
	}

	(void)snprintf(last, sizeof(last), "PRAGMA user_version = %d; COMMIT", STORE_VERSION);
	if (rc == 0)
		rc = store_exec(store, last, doing, err);
	if (rc < 0)
		(void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);

	return rc;
}
