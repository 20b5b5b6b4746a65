/* SPDX-License-Identifier: Apache-2.0 */
/* Stores that earlier releases have written (tests/fixtures/queue, made by their own code): all
 * that was in them is there, whatever happens in the middle of bringing them up to date. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "unit/doors/queue/store/store_common.h"
#include "unit/doors/queue/store/store_shim.h"
#include "unit/unit.h"

enum { UPGRADE_CALLS = 200 };

static const char *const fixtures[] = {"v1.db", "v2.db"};

static void place_fixture(const struct place *place, const char *name)
{
	const char *root = getenv("MESON_SOURCE_ROOT");
	char path[FILE_PATH_MAX];
	struct buf bytes _cleanup_buf_;
	buf_init(&bytes, 1 << 20);
	assert_non_null(root);
	assert_int_equal(file_path(path, NULL, "%s/tests/fixtures/queue/%s", root, name), 0);
	assert_int_equal(file_read(path, &bytes, NULL), 0);
	(void)unlink(unit_path(place->directory, "queue.db-wal"));
	assert_int_equal(file_write_atomic(place->path, bytes.data, bytes.length, 0600, NULL), 0);
}

/* What the old release's code was told: see the names. */
static void check_all(struct store *store)
{
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.ids[0], 2);
	assert_string_equal(seen.last.name, "waits");
	assert_int_equal(seen.last.state, JOB_PENDING);
	assert_int_equal(seen.last.array_id, 0);
	assert_int_equal(seen.last.failed_attempts, 0);
	assert_string_equal(seen.grants, "NULL");
	job_done(&seen.last);
	seen = (struct seen){.count = 0};
	assert_int_equal(store_get(store, 2, see, &seen, NULL), 0);
	assert_string_equal(seen.last.name, "runs"); /* is adopted by whoever opens it */
	assert_int_equal(seen.last.state, JOB_STARTING);
	assert_int_equal(seen.last.attempt, 1);
	assert_non_null(strstr(seen.grants, "instance"));
	job_done(&seen.last);
	seen = (struct seen){.count = 0};
	assert_int_equal(store_get(store, 1, see, &seen, NULL), 0);
	assert_int_equal(seen.last.state, JOB_FAILED);
	assert_int_equal(seen.last.exit_code, 3);
	job_done(&seen.last);
	char *spec = NULL;
	size_t length = 0;
	assert_int_equal(store_spec(store, 3, &spec, &length, NULL), 0);
	struct spec parsed _cleanup_spec_;
	assert_int_equal(spec_parse(spec, length, &parsed, NULL), 0);
	assert_string_equal(parsed.name, "waits");
	free(spec);
}

static void check_works(struct store *store)
{
	assert_int_equal(store_start(store, 3, 1, "g", SECOND, NULL), 0);
	struct job job = make_job(4);
	job.array_id = 4;
	job.wants.priority = 5;
	assert_int_equal(accept_job(store, &job, "spec", NULL), 0);
	struct seen seen = {.count = 0};
	assert_int_equal(store_get(store, 4, see, &seen, NULL), 0);
	assert_int_equal(seen.last.array_id, 4);
	assert_int_equal(seen.last.wants.priority, 5);
	job_done(&seen.last);
}

static void test_the_store_of_an_earlier_release_goes_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct place place = place_make();
		place_fixture(&place, fixtures[i]);
		for (int again = 0; again < 2; again++) { /* and once more, as what it is now */
			struct store *store = must_open(place.path);
			check_all(store);
			store = store_close(store);
		}
		struct store *store = must_open(place.path);
		check_works(store);
		store = store_close(store);
		place_done(&place);
	}
}

/* The disk says `code` from the `at`th call on: false when that many are never made. */
static bool break_at(const char *fixture, enum shim_kind kind, unsigned at, int code, int expected)
{
	struct place place = place_make();
	place_fixture(&place, fixture);
	struct store *store = NULL;
	struct err err = {.code = 0};
	shim_fail(kind, at, code, true);
	int rc = store_open(place.path, &store, &err);
	bool has_failed = shim_has_failed();
	if (rc == 0)
		store = store_close(store);
	else
		assert_true(rc == expected || rc == -EIO);
	shim_fail(kind, 0, SQLITE_OK, false);
	/* It is the old one or the new one, and whole. */
	store = must_open(place.path);
	check_all(store);
	check_works(store);
	store = store_close(store);
	place_done(&place);
	return has_failed;
}

static void break_everywhere(enum shim_kind kind, int code, int expected)
{
	for (size_t i = 0; i < 2; i++) {
		unsigned at = 1;
		while (at < UPGRADE_CALLS && break_at(fixtures[i], kind, at, code, expected))
			at++;
		assert_true(at > 1 && at < UPGRADE_CALLS);
	}
}

static void test_a_disk_that_is_full_loses_nothing(void **state)
{
	(void)state;
	break_everywhere(SHIM_WRITE, SQLITE_FULL, -ENOSPC);
}

/* As for a process that is killed there: nothing of what it does from then on is on the disk. */
static void test_who_dies_in_the_middle_loses_nothing(void **state)
{
	(void)state;
	break_everywhere(SHIM_WRITE, SQLITE_IOERR_WRITE, -EIO);
	break_everywhere(SHIM_SYNC, SQLITE_IOERR_FSYNC, -EIO);
}

static void expect_why(struct store *store, uint64_t id, enum job_reason reason, const char *text,
		       const char *detail)
{
	struct seen seen = {.count = 0};
	assert_int_equal(store_get(store, id, see, &seen, NULL), 0);
	assert_int_equal(seen.last.reason, reason);
	assert_string_equal(seen.last.reason_text ? seen.last.reason_text : "", text);
	assert_non_null(strstr(seen.last.reason_detail ? seen.last.reason_detail : "", detail));
	job_done(&seen.last);
}

/* Until version 4 one text was for all: what may name a command is its owner's from then on. */
static void test_why_a_job_failed_is_its_owners_after_the_upgrade(void **state)
{
	(void)state;
	struct place place = place_make();
	place_fixture(&place, "v3.db");
	struct store *store = must_open(place.path);
	expect_why(store, 1, JOB_REASON_EXIT_CODE, "3", "");
	expect_why(store, 4, JOB_REASON_LAUNCH_ERROR, "", "/nowhere/secret");
	expect_why(store, 5, JOB_REASON_BACKOFF, "", "/nowhere/secret");
	store = store_close(store);
	place_done(&place);
}

int main(void)
{
	place_in_memory();
	shim_install();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_store_of_an_earlier_release_goes_on),
	    cmocka_unit_test(test_a_disk_that_is_full_loses_nothing),
	    cmocka_unit_test(test_who_dies_in_the_middle_loses_nothing),
	    cmocka_unit_test(test_why_a_job_failed_is_its_owners_after_the_upgrade),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
