/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that is full, that cannot be written, that loses what it was told to sync: at each call in
 * turn. What was acknowledged is there, what was refused can be told again or is told to be over.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit/doors/queue/store/store_common.h"
#include "unit/doors/queue/store/store_shim.h"
#include "unit/unit.h"

enum {
	FAULT_JOBS = 24,
	FAULT_SPEC = 60000, /* so that the log is written back twice in that time */
	FAULT_CALLS = 2000,
};

/* What was acknowledged, and what was answered otherwise. */
struct told {
	uint64_t ids[FAULT_JOBS + 1]; /* a job that was refused is tried again under a new one */
	bool accepted[FAULT_JOBS + 1], ended[FAULT_JOBS + 1];
	int codes[64]; /* other results, in their order */
	size_t code_count;
};

static void told_note(struct told *told, int rc, bool *out_done)
{
	if (rc == 0)
		*out_done = true;
	else if (told->code_count < 64)
		told->codes[told->code_count++] = rc;
}

/* Does what is not done yet, once each. */
static void work(struct store *store, struct told *told)
{
	_cleanup_free_ char *spec = malloc(FAULT_SPEC);
	assert_non_null(spec);
	memset(spec, 's', FAULT_SPEC - 1);
	spec[FAULT_SPEC - 1] = '\0';
	for (size_t i = 1; i <= FAULT_JOBS; i++) {
		if (!told->accepted[i]) {
			assert_int_equal(store_next_id(store, &told->ids[i], NULL), 0);
			struct job job = make_job(told->ids[i]);
			told_note(told, accept_job(store, &job, spec, NULL), &told->accepted[i]);
		}
		if (told->accepted[i] && !told->ended[i])
			told_note(told, end_job(store, told->ids[i], JOB_SUCCEEDED, (int64_t)i),
				  &told->ended[i]);
	}
}

static void check_told(struct store *store, const struct told *told, bool exactly)
{
	for (size_t i = 1; i <= FAULT_JOBS; i++) {
		struct seen seen = {.count = 0};
		bool reused = false; /* an id that was refused may have gone to the next */
		for (size_t k = i + 1; k <= FAULT_JOBS; k++)
			reused |= told->ids[k] == told->ids[i];
		if (reused)
			continue;
		int rc = store_get(store, told->ids[i], see, &seen, NULL);
		if (told->accepted[i])
			assert_int_equal(rc, 0);
		else if (exactly)
			assert_int_equal(rc, -ENOENT);
		if (rc == 0 && told->ended[i])
			assert_int_equal(seen.last.state, JOB_SUCCEEDED);
		else if (rc == 0 && exactly)
			assert_int_equal(seen.last.state, JOB_PENDING);
		job_done(&seen.last);
	}
}

static void check_again(const char *path, const struct told *told)
{
	struct store *store = must_open(path);
	check_told(store, told, false);
	store = store_close(store);
}

/* Each nth call of a kind fails once. Returns how many there were. */
static unsigned each_once(enum shim_kind kind, int code, int expected)
{
	unsigned at = 1, refused = 0;
	for (; at < FAULT_CALLS; at += at < 40 ? 1 : 37) {
		struct place place = place_make();
		struct store *store = must_open(place.path);
		struct told told = {.code_count = 0};
		shim_fail(kind, at, code, false);
		work(store, &told);
		bool failed = shim_has_failed();
		shim_fail(kind, 0, 0, false);
		for (size_t i = 0; i < told.code_count; i++)
			assert_int_equal(told.codes[i], expected);
		refused += told.code_count > 0;
		check_told(store, &told, true);
		if (expected != -EIO || kind != SHIM_SYNC) {
			/* It was not for good: the rest is taken now. */
			assert_in_range(told.code_count, 0, 1);
			told.code_count = 0;
			work(store, &told);
			assert_int_equal(told.code_count, 0);
			check_told(store, &told, true);
		}
		store = store_close(store);
		check_again(place.path, &told);
		place_done(&place);
		if (!failed)
			break;
	}
	assert_in_range(at, 20, FAULT_CALLS - 1);
	assert_true(refused > 20);
	return at;
}

static void test_a_write_without_room_is_refused_and_done_later(void **state)
{
	(void)state;
	(void)each_once(SHIM_WRITE, SQLITE_FULL, -ENOSPC);
}

static void test_a_write_that_fails_is_refused_and_done_later(void **state)
{
	(void)state;
	(void)each_once(SHIM_WRITE, SQLITE_IOERR_WRITE, -EIO);
}

static void test_after_a_failed_sync_nothing_is_taken(void **state)
{
	(void)state;
	for (unsigned at = 1; at < FAULT_CALLS; at++) {
		struct place place = place_make();
		struct store *store = must_open(place.path);
		struct told told = {.code_count = 0};
		shim_fail(SHIM_SYNC, at, SQLITE_IOERR_FSYNC, false);
		work(store, &told);
		bool failed = shim_has_failed();
		shim_fail(SHIM_SYNC, 0, 0, false);
		if (failed) {
			/* The disk is well again, and still: nobody knows what it has. */
			struct job job = make_job(9999);
			struct err err = {.code = 0};
			assert_int_equal(accept_job(store, &job, "x", &err), -EIO);
			assert_non_null(strstr(err.text, "queue.db"));
			assert_non_null(strstr(err.text, "start the agent again"));
			assert_int_equal(store_start(store, 1, 1, "", 1, NULL), -EIO);
			uint64_t *ids = NULL;
			size_t count = 0;
			assert_int_equal(store_forget(store, 9, 0, 0, &ids, &count, NULL), -EIO);
			for (size_t i = 0; i < told.code_count; i++)
				assert_int_equal(told.codes[i], -EIO);
		}
		check_told(store, &told, true); /* it can still be read */
		store = store_close(store);
		check_again(place.path, &told);
		place_done(&place);
		if (!failed) {
			assert_true(at > FAULT_JOBS);
			return;
		}
	}
	fail();
}

static void test_a_disk_that_stays_full_loses_nothing(void **state)
{
	(void)state;
	for (unsigned at = 1; at < 400; at += 23) {
		struct place place = place_make();
		struct store *store = must_open(place.path);
		struct told told = {.code_count = 0};
		shim_fail(SHIM_WRITE, at, SQLITE_FULL, true);
		work(store, &told);
		assert_true(told.code_count > 0);
		for (size_t i = 0; i < told.code_count; i++)
			assert_int_equal(told.codes[i], -ENOSPC);
		check_told(store, &told, true);
		struct err err = {.code = 0};
		struct job job = make_job(9999);
		assert_int_equal(accept_job(store, &job, "x", &err), -ENOSPC);
		assert_non_null(strstr(err.text, "no space left"));
		assert_non_null(strstr(err.text, place.path));
		shim_fail(SHIM_WRITE, 0, 0, false);
		told.code_count = 0;
		work(store, &told);
		assert_int_equal(told.code_count, 0);
		check_told(store, &told, true);
		store = store_close(store);
		check_again(place.path, &told);
		place_done(&place);
	}
}

/* The same with a file system that is really full; where one may be mounted. */
static void full_disk(const char *directory)
{
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/queue.db", directory);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=600k") < 0)
		_exit(77);
	struct store *store = NULL;
	struct told told = {.code_count = 0};
	if (store_open(path, &store, NULL) != 0)
		_exit(1);
	work(store, &told);
	if (told.code_count == 0 || told.codes[0] != -ENOSPC || !told.accepted[1])
		_exit(2);
	if (mount("tmpfs", directory, "tmpfs", MS_REMOUNT, "size=64m") < 0)
		_exit(3);
	told.code_count = 0;
	work(store, &told);
	if (told.code_count != 0)
		_exit(4);
	store = store_close(store);
	if (store_open(path, &store, NULL) != 0)
		_exit(5);
	for (size_t id = 1; id <= FAULT_JOBS; id++) {
		struct seen seen = {.count = 0};
		if (store_get(store, told.ids[id], see, &seen, NULL) != 0 ||
		    seen.last.state != JOB_SUCCEEDED)
			_exit(6);
		job_done(&seen.last);
	}
	store = store_close(store);
	_exit(0);
}

static void test_a_real_disk_that_is_full(void **state)
{
	(void)state;
	char *directory = unit_tmp_new();
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		full_disk(directory);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	directory = unit_tmp_free(directory);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: no file system may be mounted here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_new_store_without_room_leaves_nothing(void **state)
{
	(void)state;
	char *directory = unit_tmp_new();
	char limit[600];
	/* The directory is one that cannot be written. */
	(void)snprintf(limit, sizeof(limit), "%s/none/queue.db", directory);
	struct store *store = NULL;
	struct err err = {.code = 0};
	assert_int_equal(store_open(limit, &store, &err), -ENOENT);
	assert_non_null(strstr(err.text, "none"));
	directory = unit_tmp_free(directory);
}

int main(void)
{
	place_in_memory();
	shim_install();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_write_without_room_is_refused_and_done_later),
	    cmocka_unit_test(test_a_write_that_fails_is_refused_and_done_later),
	    cmocka_unit_test(test_after_a_failed_sync_nothing_is_taken),
	    cmocka_unit_test(test_a_disk_that_stays_full_loses_nothing),
	    cmocka_unit_test(test_a_real_disk_that_is_full),
	    cmocka_unit_test(test_a_new_store_without_room_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
