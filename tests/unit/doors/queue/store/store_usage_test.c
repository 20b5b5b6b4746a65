/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store_usage.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "doors/queue/store/store.h"
#include "store_common.h"
#include "unit/unit.h"

#define MINUTE (60 * SECOND)

struct past {
	uid_t uid;
	uint32_t gpus, numerator, denominator;
	const char *project; /* NULL: none */
	uint32_t cpu_milli;
	int64_t begin, end; /* end 0: it runs */
	enum job_state state;
};

static void enter(struct store *store, uint64_t id, const struct past *past)
{
	struct job job = make_job(id);
	char project[WANTS_NAME_MAX];
	job.uid = past->uid;
	job.gpus = past->gpus;
	job.share_numerator = past->numerator;
	job.share_denominator = past->denominator;
	(void)snprintf(project, sizeof(project), "%s", past->project ? past->project : "");
	job.wants.project = past->project ? project : NULL;
	job.wants.cpu_milli = past->cpu_milli;
	struct store_accept accept = {.job = &job, .spec = "a", .spec_length = 1};
	assert_int_equal(store_accept(store, &accept, 1, NULL), 0);
	assert_int_equal(store_start(store, id, 1, "", past->begin, NULL), 0);
	if (past->end == 0)
		return;
	job.attempt = 1;
	job.state = past->state;
	job.started_unix_ns = past->begin;
	job.ended_unix_ns = past->end;
	assert_int_equal(store_end(store, &job, NULL, NULL), 0);
}

static const struct store_use *find(const struct store_usage *usage, uid_t uid, const char *project)
{
	for (size_t i = 0; i < usage->count; i++) {
		if (usage->items[i].uid == uid && strcmp(usage->items[i].project, project) == 0)
			return &usage->items[i];
	}
	return NULL;
}

static void test_what_is_counted(void **state)
{
	(void)state;
	static const struct past pasts[] = {
	    {1, 2, 0, 0, "a", 4000, 100 * MINUTE, 110 * MINUTE, JOB_SUCCEEDED},
	    {1, 1, 1, 4, "a", 0, 100 * MINUTE, 104 * MINUTE, JOB_FAILED},
	    {1, 1, 0, 0, NULL, 0, 50 * MINUTE, 105 * MINUTE, JOB_SUCCEEDED},  /* half in it */
	    {2, 3, 0, 0, "a", 0, 110 * MINUTE, 0, JOB_RUNNING},		      /* until the end */
	    {2, 8, 0, 0, "b", 0, 10 * MINUTE, 20 * MINUTE, JOB_SUCCEEDED},    /* before it */
	    {2, 8, 0, 0, "b", 0, 500 * MINUTE, 600 * MINUTE, JOB_SUCCEEDED},  /* after it */
	    {3, 8, 0, 0, "ab", 0, 115 * MINUTE, 101 * MINUTE, JOB_SUCCEEDED}, /* set back */
	};
	struct place place = place_make();
	struct store *store = must_open(place.path);
	for (size_t i = 0; i < sizeof(pasts) / sizeof(*pasts); i++)
		enter(store, i + 1, &pasts[i]);
	struct store_usage usage;
	struct store_usage_window window = {
	    .since_unix_ns = 100 * MINUTE, .until_unix_ns = 120 * MINUTE, .uid = -1};
	assert_int_equal(store_usage(store, &window, &usage, NULL), 0);
	assert_int_equal(usage.count, 4);
	const struct store_use *use = find(&usage, 1, "a");
	assert_int_equal(use->jobs, 2);
	assert_int_equal(use->failed, 1);
	assert_int_equal(use->wall_ms, 14 * 60000);
	assert_int_equal(use->gpu_ms, (20 + 1) * 60000);
	assert_int_equal(use->cpu_ms, 40 * 60000);
	assert_int_equal(use->cpu_jobs, 1);
	assert_int_equal(find(&usage, 1, "")->gpu_ms, 5 * 60000);
	assert_int_equal(find(&usage, 2, "a")->gpu_ms, 30 * 60000);
	assert_int_equal(find(&usage, 2, "a")->failed, 0);
	assert_int_equal(find(&usage, 3, "ab")->gpu_ms, 0);
	assert_null(find(&usage, 2, "b"));
	store_usage_done(&usage);
	window.uid = 1;
	assert_int_equal(store_usage(store, &window, &usage, NULL), 0);
	assert_int_equal(usage.count, 2);
	store_usage_done(&usage);
	(void)store_close(store);
	place_done(&place);
}

static void test_more_than_there_is_room_for(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	struct store_usage usage;
	struct store_usage_window window = {.until_unix_ns = 100 * MINUTE, .uid = -1};
	struct err err = {0};
	store = store_close(store);
	/* By the store itself each would wait for the disk. */
	sqlite3 *db = NULL;
	char sql[1024];
	(void)snprintf(
	    sql, sizeof(sql),
	    "BEGIN; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= %d)"
	    " INSERT INTO jobs(id, key, uid, name, state, gpus, share_numerator, share_denominator,"
	    " ignore_outsiders, simulated, attempt, submitted_ns, ended_ns)"
	    " SELECT i, 'k', i, 'x', 'Succeeded', 1, 0, 0, 0, 0, 1, 1, 2 FROM n;"
	    "INSERT INTO attempts(job, attempt, started_ns, ended_ns) SELECT id, 1, 1, 2 FROM jobs;"
	    "UPDATE meta SET value = 100000 WHERE name = 'next_id'; COMMIT",
	    STORE_USAGE_MAX);
	assert_int_equal(sqlite3_open(place.path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
	store = must_open(place.path);
	assert_int_equal(store_usage(store, &window, &usage, &err), -E2BIG);
	assert_non_null(strstr(err.text, "ask for one user"));
	window.uid = 7;
	assert_int_equal(store_usage(store, &window, &usage, NULL), 0);
	assert_int_equal(usage.count, 1);
	store_usage_done(&usage);
	(void)store_close(store);
	place_done(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_is_counted),
	    cmocka_unit_test(test_more_than_there_is_room_for),
	};
	return cmocka_run_group_tests_name("doors/queue/store/store_usage", tests, NULL, NULL);
}
