/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations that are made durable together. Built, like store_group.c beside it, with
 * -DSLUICE_CRASH_POINTS: who dies between two of them has done none.
 */
#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/doors/queue/store/store_common.h"
#include "unit/doors/queue/store/store_shim.h"
#include "unit/unit.h"

enum { GROUP_JOBS = 5, GROUP_CALLS = 200 };

static struct place group_place;

static int setup(void **state)
{
	group_place = place_make();
	struct store *store = must_open(group_place.path);
	for (uint64_t id = 1; id <= GROUP_JOBS; id++)
		must_accept(store, id);
	store = store_close(store);
	return 0;
}

static int teardown(void **state)
{
	place_done(&group_place);
	return 0;
}

static enum job_state state_of(struct store *store, uint64_t id)
{
	struct seen seen = {.count = 0};
	assert_int_equal(store_get(store, id, see, &seen, NULL), 0);
	enum job_state state = seen.last.state;
	job_done(&seen.last);
	return state;
}

/* Jobs 1 to 4 start, 1 and 2 end. */
static void work(struct store *store)
{
	for (uint64_t id = 1; id < GROUP_JOBS; id++)
		(void)store_start(store, id, 1, "grants", 5, NULL);
	(void)end_job(store, 1, JOB_SUCCEEDED, 7);
	(void)end_job(store, 2, JOB_FAILED, 7);
}

static void check_done(struct store *store)
{
	assert_int_equal(state_of(store, 1), JOB_SUCCEEDED);
	assert_int_equal(state_of(store, 2), JOB_FAILED);
	assert_int_equal(state_of(store, 3), JOB_STARTING);
	assert_int_equal(state_of(store, 4), JOB_STARTING);
	assert_int_equal(state_of(store, 5), JOB_PENDING);
}

static void check_undone(struct store *store)
{
	for (uint64_t id = 1; id <= GROUP_JOBS; id++)
		assert_int_equal(state_of(store, id), JOB_PENDING);
}

static size_t count_syncs(void)
{
	size_t count = 0, syncs = 0;
	const struct shim_op *ops = shim_recorded(&count);
	for (size_t i = 0; i < count; i++)
		syncs += ops[i].kind == SHIM_SYNC;
	return syncs;
}

static void test_a_group_has_one_sync(void **state)
{
	struct store *store = must_open(group_place.path);
	must_accept(store, GROUP_JOBS + 1); /* a new log has a sync of its own */
	shim_record();
	store_group_begin(store);
	work(store);
	assert_int_equal(count_syncs(), 0);
	shim_record();
	assert_int_equal(store_group_end(store, NULL), 0);
	assert_int_equal(count_syncs(), 1);
	assert_int_equal(store_grouped(store), 6);
	check_done(store);

	/* Outside of a group each has its own again. */
	shim_record();
	assert_int_equal(store_start(store, 5, 1, "grants", 5, NULL), 0);
	assert_int_equal(end_job(store, 5, JOB_SUCCEEDED, 8), 0);
	assert_int_equal(count_syncs(), 2);
	assert_int_equal(store_grouped(store), 6);
	store = store_close(store);
}

static void test_a_group_that_wrote_nothing_writes_nothing(void **state)
{
	struct store *store = must_open(group_place.path);
	assert_int_equal(store_group_end(store, NULL), 0); /* none was begun */
	shim_record();
	store_group_begin(store);
	store_group_begin(store); /* the same */
	check_undone(store);
	assert_int_equal(store_group_end(store, NULL), 0);
	assert_int_equal(count_syncs(), 0);
	store = store_close(store);
}

static void test_one_that_fails_leaves_its_neighbours(void **state)
{
	struct store *store = must_open(group_place.path);
	struct err err = {.code = 0};
	char *huge = malloc(STORE_GRANTS_TEXT_MAX + 2);
	assert_non_null(huge);
	memset(huge, 'g', STORE_GRANTS_TEXT_MAX + 1);
	huge[STORE_GRANTS_TEXT_MAX + 1] = '\0';

	store_group_begin(store);
	assert_int_equal(store_start(store, 1, 1, "grants", 5, NULL), 0);
	assert_int_equal(store_start(store, 99, 1, "grants", 5, &err), -ENOENT);
	assert_non_null(strstr(err.text, "99"));
	assert_int_equal(store_start(store, 2, 1, "grants", 5, NULL), 0);
	assert_int_equal(store_start(store, 3, 1, huge, 5, NULL), -E2BIG);
	assert_int_equal(end_job(store, 1, JOB_SUCCEEDED, 7), 0);
	assert_int_equal(end_job(store, 1, JOB_FAILED, 8), -EALREADY); /* it sees the one before */

	/* The first of them is written before the second fails: both are taken back. */
	const uint64_t ids[] = {1, 3};
	assert_int_equal(store_reopen(store, ids, 2, NULL), -EALREADY);
	assert_int_equal(store_start(store, 4, 1, "grants", 5, NULL), 0);
	assert_int_equal(store_group_end(store, &err), 0);
	store = store_close(store);
	free(huge);

	store = must_open(group_place.path);
	assert_int_equal(state_of(store, 1), JOB_SUCCEEDED);
	assert_int_equal(state_of(store, 2), JOB_STARTING);
	assert_int_equal(state_of(store, 3), JOB_PENDING);
	assert_int_equal(state_of(store, 4), JOB_STARTING);
	store = store_close(store);
}

/* Does the group in a process of its own that dies at the `number`th pass of that point; whether it
 * has. Nothing of ours has the store open meanwhile. */
static bool dies_at(const char *point, unsigned number)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char at[64];
		(void)snprintf(at, sizeof(at), "%s#%u", point, number);
		struct store *store = NULL;
		if (store_open(group_place.path, &store, NULL) < 0 ||
		    setenv("SLUICE_CRASH_AT", at, 1) < 0)
			_exit(2);
		store_group_begin(store);
		work(store);
		_exit(store_group_end(store, NULL) < 0 ? 3 : 0);
	}

	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void test_who_dies_between_two_has_done_none(void **state)
{
	for (unsigned number = 1; number <= 6; number++) {
		assert_true(dies_at("store.operation_grouped", number));
		struct store *store = must_open(group_place.path);
		check_undone(store);
		store = store_close(store);
	}

	assert_true(dies_at("store.group_written", 1));
	struct store *store = must_open(group_place.path);
	check_undone(store);
	store = store_close(store);

	assert_true(dies_at("store.group_durable", 1));
	store = must_open(group_place.path);
	check_done(store);
	store = store_close(store);
}

/* A disk that is full, or cannot be written, at each call in turn: all of it or nothing, and that
 * is what is said. */
static void each_fault(enum shim_kind kind, int code, int expected)
{
	unsigned at = 1;

	for (; at < GROUP_CALLS; at++) {
		struct err err = {.code = 0};
		struct store *store = must_open(group_place.path);
		shim_fail(kind, at, code, false);
		store_group_begin(store);
		work(store);
		int rc = store_group_end(store, &err);
		bool has_failed = shim_has_failed();
		shim_fail(kind, 0, 0, false);
		if (!has_failed) {
			assert_int_equal(rc, 0);
			check_done(store);
			store = store_close(store);
			break;
		}
		if (rc == 0) { /* writing the log back, say: what was told holds */
			check_done(store);
			store = store_close(store);
			break;
		}
		assert_int_equal(rc, expected);
		assert_non_null(strstr(err.text, "queue.db"));
		check_undone(store);
		if (kind == SHIM_SYNC) {
			store_group_begin(store);
			assert_int_equal(store_start(store, 1, 1, "grants", 5, NULL), -EIO);
			assert_int_equal(store_group_end(store, NULL), 0);
		}
		store = store_close(store);
		if (kind == SHIM_SYNC)
			return; /* what is there nobody knows */
		store = must_open(group_place.path);
		check_undone(store);
		store = store_close(store);
	}

	assert_in_range(at, 2, GROUP_CALLS - 1);
}

/* Starts jobs 1 to 4 with more than the store keeps in memory, so that the disk is full in the
 * midst of a group. Whether one of them has failed. */
static bool fill_up(unsigned at, const char *huge, int *out_end, bool *out_failed)
{
	struct store *store = must_open(group_place.path);
	int rc[GROUP_JOBS] = {0};
	bool any = false;

	shim_fail(SHIM_WRITE, at, SQLITE_FULL, false);
	store_group_begin(store);
	for (uint64_t id = 1; id < GROUP_JOBS; id++) {
		rc[id] = store_start(store, id, 1, huge, 5, NULL);
		any |= rc[id] < 0;
	}
	*out_end = store_group_end(store, NULL);
	*out_failed = shim_has_failed();
	shim_fail(SHIM_WRITE, 0, 0, false);

	/* What was said is so: in this store, and in what the next one finds. */
	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t id = 1; id < GROUP_JOBS; id++)
			assert_int_equal(state_of(store, id),
					 rc[id] == 0 && *out_end == 0 ? JOB_STARTING : JOB_PENDING);
		store = store_close(store);
		store = must_open(group_place.path);
	}

	for (uint64_t id = 1; id < GROUP_JOBS; id++)
		assert_int_equal(store_unstart(store, id, 1, NULL), 0);
	store = store_close(store);
	return any;
}

static void test_a_disk_that_is_full_midway_is_told_to_all(void **state)
{
	char *huge = malloc(STORE_GRANTS_TEXT_MAX);
	bool has_failed = true;
	unsigned lost = 0, at = 1;

	assert_non_null(huge);
	memset(huge, 'g', STORE_GRANTS_TEXT_MAX - 1);
	huge[STORE_GRANTS_TEXT_MAX - 1] = '\0';
	for (; has_failed && at < 10 * GROUP_CALLS; at += 13) {
		int end = 0;
		bool any = fill_up(at, huge, &end, &has_failed);
		lost += any && end < 0;
	}

	free(huge);
	assert_true(lost > 0);
	assert_false(has_failed); /* each call had its turn */
}

static void test_a_full_disk_undoes_all_and_says_so(void **state)
{
	each_fault(SHIM_WRITE, SQLITE_FULL, -ENOSPC);
}

static void test_a_failed_write_undoes_all_and_says_so(void **state)
{
	each_fault(SHIM_WRITE, SQLITE_IOERR_WRITE, -EIO);
}

static void test_a_failed_sync_is_told(void **state)
{
	each_fault(SHIM_SYNC, SQLITE_IOERR_FSYNC, -EIO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	place_in_memory();
	shim_install();
	const struct CMUnitTest tests[] = {
	    TEST(test_a_group_has_one_sync),
	    TEST(test_a_group_that_wrote_nothing_writes_nothing),
	    TEST(test_one_that_fails_leaves_its_neighbours),
	    TEST(test_who_dies_between_two_has_done_none),
	    TEST(test_a_disk_that_is_full_midway_is_told_to_all),
	    TEST(test_a_full_disk_undoes_all_and_says_so),
	    TEST(test_a_failed_write_undoes_all_and_says_so),
	    TEST(test_a_failed_sync_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
