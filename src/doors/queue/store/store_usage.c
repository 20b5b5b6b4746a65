/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doors/queue/store/store_internal.h"

enum {
	USAGE_PLACES = 2 * STORE_USAGE_MAX, /* of the hash table: it is never full */
	USAGE_NS_PER_MS = 1000000,
};

/* As STORE_SQL_USAGE names them. */
enum usage_column {
	USAGE_JOB,
	USAGE_UID,
	USAGE_GPUS,
	USAGE_NUMERATOR,
	USAGE_DENOMINATOR,
	USAGE_WANTS,
	USAGE_STARTED,
	USAGE_ENDED,
	USAGE_FAILED,
};

struct usage_table {
	struct store_usage *usage;    /* borrowed */
	uint16_t place[USAGE_PLACES]; /* of an item, plus 1; 0: free */
	uint64_t last_job;
	bool last_failed;
};

static uint32_t usage_hash(uid_t uid, const char *project)
{
	uint32_t hash = UINT32_C(2166136261) ^ (uint32_t)uid;
	for (; *project; project++)
		hash = (hash ^ (unsigned char)*project) * UINT32_C(16777619);
	return hash * UINT32_C(2654435761) >> 8;
}

static int usage_find(struct usage_table *table, uid_t uid, const char *project,
		      struct store_use **out, struct err *err)
{
	struct store_usage *usage = table->usage;
	uint32_t at = usage_hash(uid, project) % USAGE_PLACES;

	for (; table->place[at] > 0; at = (at + 1) % USAGE_PLACES) {
		struct store_use *use = &usage->items[table->place[at] - 1];
		if (use->uid == uid && strcmp(use->project, project) == 0) {
			*out = use;
			return 0;
		}
	}

	if (usage->count == STORE_USAGE_MAX)
		return err_set(err, -E2BIG,
			       "more than %d pairs of user and project: ask for one user",
			       STORE_USAGE_MAX);

	struct store_use *use = &usage->items[usage->count++];
	*use = (struct store_use){.uid = uid};
	(void)snprintf(use->project, sizeof(use->project), "%s", project); /* fits */
	table->place[at] = (uint16_t)usage->count;
	*out = use;

	return 0;
}

/* An attempt's time within the window. */
static uint64_t usage_ms(sqlite3_stmt *query, const struct store_usage_window *window)
{
	int64_t from = sqlite3_column_int64(query, USAGE_STARTED);
	int64_t to = sqlite3_column_int64(query, USAGE_ENDED);
	if (from < window->since_unix_ns)
		from = window->since_unix_ns;
	if (to > window->until_unix_ns)
		to = window->until_unix_ns;
	return to > from ? (uint64_t)(to - from) / USAGE_NS_PER_MS : 0;
}

static int usage_row(struct usage_table *table, sqlite3_stmt *query,
		     const struct store_usage_window *window, struct err *err)
{
	const void *bytes = sqlite3_column_blob(query, USAGE_WANTS);
	int length = sqlite3_column_bytes(query, USAGE_WANTS);
	struct wants wants _cleanup_wants_;
	struct store_use *use = NULL;

	wants_init(&wants);
	int rc = bytes || length == 0 ? wants_parse(bytes, (size_t)length, &wants, err) : -ENOMEM;
	if (rc == 0)
		rc = usage_find(table, (uid_t)sqlite3_column_int64(query, USAGE_UID),
				wants.project ? wants.project : "", &use, err);
	if (rc < 0)
		return rc;

	uint64_t job = (uint64_t)sqlite3_column_int64(query, USAGE_JOB);
	uint64_t gpus = (uint64_t)sqlite3_column_int64(query, USAGE_GPUS);
	uint64_t numerator = (uint64_t)sqlite3_column_int64(query, USAGE_NUMERATOR);
	uint64_t denominator = (uint64_t)sqlite3_column_int64(query, USAGE_DENOMINATOR);
	uint64_t wall_ms = usage_ms(query, window);
	uint64_t cpu_milli = wants.cpu_milli;
	bool is_new = job != table->last_job;

	use->jobs += is_new;
	use->cpu_jobs += is_new && cpu_milli > 0;
	use->failed += sqlite3_column_int(query, USAGE_FAILED) != 0;
	use->wall_ms += wall_ms;
	use->gpu_ms += numerator > 0 && denominator > 0 ? wall_ms * gpus * numerator / denominator
							: wall_ms * gpus;
	use->cpu_ms += wall_ms * cpu_milli / 1000;
	table->last_job = job;

	return 0;
}

void store_usage_done(struct store_usage *usage)
{
	free(usage->items);
	*usage = (struct store_usage){.items = NULL};
}

int store_usage(struct store *store, const struct store_usage_window *window,
		struct store_usage *out, struct err *err)
{
	*out = (struct store_usage){.items = calloc(STORE_USAGE_MAX, sizeof(*out->items))};
	struct usage_table *table = calloc(1, sizeof(*table));
	sqlite3_stmt *query = store_statement(store, STORE_SQL_USAGE);
	int rc = out->items && table ? 0 : err_set(err, -ENOMEM, "out of memory for the usage");

	(void)sqlite3_bind_int64(query, 1, window->since_unix_ns);
	(void)sqlite3_bind_int64(query, 2, window->until_unix_ns);
	(void)sqlite3_bind_int64(query, 3, window->uid);

	if (table)
		table->usage = out;

	int step = SQLITE_DONE;
	while (rc == 0 && (step = sqlite3_step(query)) == SQLITE_ROW)
		rc = usage_row(table, query, window, err);

	if (rc == 0 && step != SQLITE_DONE)
		rc = store_fail(store, "reading attempts", err);
	(void)sqlite3_reset(query);
	free(table);

	if (rc < 0)
		store_usage_done(out);

	return rc;
}
