/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { SECOND = 1000000000 };

/* -- a directory and a store in it --------------------------------------------------------------*/

struct place {
	char *directory;
	const char *path;
};

static struct place place_make(void)
{
	struct place place = {.directory = unit_tmp_new()};
	place.path = strdup(unit_path(place.directory, "queue.db"));
	assert_non_null(place.path);
	return place;
}

static void place_done(struct place *place)
{
	free((char *)place->path);
	place->directory = unit_tmp_free(place->directory);
}

static struct store *must_open(const char *path)
{
	struct store *store = NULL;
	struct err err = {.code = 0};
	if (store_open(path, &store, &err) != 0)
		fail_msg("%s", err.text);
	assert_non_null(store);
	return store;
}

static struct job make_job(uint64_t id)
{
	struct job job = {.id = id,
			  .uid = 1000 + (uid_t)(id % 3),
			  .gpus = (uint32_t)(id % 9),
			  .share_denominator = 4,
			  .share_numerator = 1,
			  .ignore_outsiders = id % 2,
			  .submitted_unix_ns = (int64_t)id * SECOND};
	(void)snprintf(job.key, sizeof(job.key), "key-%" PRIu64, id);
	(void)snprintf(job.name, sizeof(job.name), "job-%" PRIu64, id);
	return job;
}

static int accept_job(struct store *store, const struct job *job, const char *spec, struct err *err)
{
	struct store_accept accept = {.job = job, .spec = spec, .spec_length = strlen(spec)};
	return store_accept(store, &accept, 1, err);
}

static void must_accept(struct store *store, uint64_t id)
{
	struct job job = make_job(id);
	char spec[64];
	(void)snprintf(spec, sizeof(spec), "spec of %" PRIu64, id);
	struct err err = {.code = 0};
	if (accept_job(store, &job, spec, &err) != 0)
		fail_msg("%s", err.text);
}

static int end_job(struct store *store, uint64_t id, enum job_state state, int64_t ended_ns)
{
	struct job job = make_job(id);
	char text[] = "(3)";
	job.state = state;
	job.reason = JOB_REASON_EXIT_CODE;
	job.reason_text = text;
	job.ended_unix_ns = ended_ns;
	job.has_exit = true;
	job.exit_code = 3;
	return store_end(store, &job, "4711 GPU-1", NULL);
}

/* What was read: ids in their order, and the last row with its texts. */
struct seen {
	size_t count;
	uint64_t ids[64];
	struct job last;
	char grants[64], observations[64];
	int answer; /* what each() returns */
};

static int see(const struct job *job, const char *grants, const char *observations, void *context)
{
	struct seen *seen = context;
	if (seen->count < 64)
		seen->ids[seen->count] = job->id;
	seen->count++;
	job_done(&seen->last);
	if (job_copy(job, &seen->last) < 0)
		return -ENOMEM;
	(void)snprintf(seen->grants, sizeof(seen->grants), "%s", grants ? grants : "NULL");
	(void)snprintf(seen->observations, sizeof(seen->observations), "%s",
		       observations ? observations : "NULL");
	return seen->answer;
}

static int see_live(const struct job *job, const char *grants, void *context)
{
	return see(job, grants, NULL, context);
}

/* -- what is told is there ----------------------------------------------------------------------*/

static void test_a_job_comes_back_as_it_was(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	assert_true(store_is_new(store));
	struct job job = make_job(1);
	char ids[] = "0,3:1";
	job.ids = ids;
	job.simulated = true;
	struct store_accept accept = {.job = &job, .spec = "a\0b", .spec_length = 3};
	assert_int_equal(store_accept(store, &accept, 1, NULL), 0);
	store = store_close(store);

	store = must_open(place.path);
	assert_false(store_is_new(store));
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last.id, 1);
	assert_string_equal(seen.last.key, "key-1");
	assert_string_equal(seen.last.name, "job-1");
	assert_string_equal(seen.last.ids, "0,3:1");
	assert_int_equal(seen.last.uid, 1001);
	assert_int_equal(seen.last.gpus, 1);
	assert_int_equal(seen.last.share_numerator, 1);
	assert_int_equal(seen.last.share_denominator, 4);
	assert_true(seen.last.ignore_outsiders);
	assert_true(seen.last.simulated);
	assert_int_equal(seen.last.state, JOB_PENDING);
	assert_int_equal(seen.last.attempt, 0);
	assert_int_equal(seen.last.submitted_unix_ns, SECOND);
	assert_int_equal(seen.last.started_unix_ns, 0);
	assert_null(seen.last.reason_text);
	assert_false(seen.last.has_exit);
	assert_string_equal(seen.grants, "NULL");
	char *spec = NULL;
	size_t length = 0;
	assert_int_equal(store_spec(store, 1, &spec, &length, NULL), 0);
	assert_int_equal(length, 3);
	assert_memory_equal(spec, "a\0b", 4);
	free(spec);
	job_done(&seen.last);
	store = store_close(store);
	struct stat about;
	assert_int_equal(stat(place.path, &about), 0);
	assert_int_equal(about.st_mode & 07777, 0600);
	place_done(&place);
}

static void test_a_start_and_an_end_are_kept(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	must_accept(store, 1);
	assert_int_equal(store_start(store, 1, 1, "GPU-1 0", 7 * (int64_t)SECOND, NULL), 0);
	store = store_close(store);
	store = must_open(place.path);
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.last.state, JOB_STARTING);
	assert_int_equal(seen.last.attempt, 1);
	assert_int_equal(seen.last.started_unix_ns, 7 * (int64_t)SECOND);
	assert_string_equal(seen.grants, "GPU-1 0");

	struct job end = make_job(1);
	char text[] = "(9)";
	end.state = JOB_FAILED;
	end.reason = JOB_REASON_SIGNAL;
	end.reason_text = text;
	end.attempt = 1;
	end.started_unix_ns = 8 * (int64_t)SECOND;
	end.ended_unix_ns = 9 * (int64_t)SECOND;
	end.has_exit = true;
	end.exit_code = 137;
	end.signal = 9;
	end.killed_leftovers = 2;
	end.launch_failed = true;
	assert_int_equal(store_end(store, &end, "4711 GPU-1", NULL), 0);
	assert_int_equal(store_end(store, &end, "again", NULL), -EALREADY);
	store = store_close(store);
	store = must_open(place.path);
	seen.count = 0;
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 0);
	assert_int_equal(store_get(store, 1, see, &seen, NULL), 0);
	assert_int_equal(seen.last.state, JOB_FAILED);
	assert_int_equal(seen.last.reason, JOB_REASON_SIGNAL);
	assert_string_equal(seen.last.reason_text, "(9)");
	assert_int_equal(seen.last.attempt, 1);
	assert_int_equal(seen.last.started_unix_ns, 8 * (int64_t)SECOND);
	assert_int_equal(seen.last.ended_unix_ns, 9 * (int64_t)SECOND);
	assert_true(seen.last.has_exit);
	assert_int_equal(seen.last.exit_code, 137);
	assert_int_equal(seen.last.signal, 9);
	assert_int_equal(seen.last.killed_leftovers, 2);
	assert_true(seen.last.launch_failed);
	assert_string_equal(seen.grants, "GPU-1 0");
	assert_string_equal(seen.observations, "4711 GPU-1");
	assert_int_equal(store_start(store, 1, 2, "", 1, NULL), -EALREADY);
	assert_int_equal(store_unstart(store, 1, 1, NULL), -EALREADY);
	job_done(&seen.last);
	store = store_close(store);
	place_done(&place);
}

static void test_a_void_start_leaves_a_pending_job(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	must_accept(store, 1);
	assert_int_equal(store_start(store, 1, 1, "GPU-1 0", SECOND, NULL), 0);
	assert_int_equal(store_unstart(store, 1, 7, NULL), 0); /* of another attempt: nothing */
	struct seen seen = {.count = 0};
	assert_int_equal(store_get(store, 1, see, &seen, NULL), 0);
	assert_int_equal(seen.last.state, JOB_STARTING);
	assert_int_equal(store_unstart(store, 1, 1, NULL), 0);
	assert_int_equal(store_get(store, 1, see, &seen, NULL), 0);
	assert_int_equal(seen.last.state, JOB_PENDING);
	assert_int_equal(seen.last.attempt, 1);
	assert_int_equal(seen.last.started_unix_ns, 0);
	assert_string_equal(seen.grants, "NULL");
	assert_int_equal(store_start(store, 1, 2, "GPU-2 1", 2 * (int64_t)SECOND, NULL), 0);
	assert_int_equal(store_get(store, 1, see, &seen, NULL), 0);
	assert_int_equal(seen.last.attempt, 2);
	assert_string_equal(seen.grants, "GPU-2 1");
	job_done(&seen.last);
	store = store_close(store);
	place_done(&place);
}

static void test_a_batch_is_entered_whole_or_not_at_all(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	struct job jobs[3] = {make_job(1), make_job(2), make_job(3)};
	struct store_accept batch[3];
	for (size_t i = 0; i < 3; i++)
		batch[i] = (struct store_accept){.job = &jobs[i], .spec = "x", .spec_length = 1};
	jobs[2].uid = jobs[0].uid;
	memcpy(jobs[2].key, jobs[0].key, sizeof(jobs[2].key));
	struct err err = {.code = 0};
	assert_int_equal(store_accept(store, batch, 3, &err), -EEXIST);
	assert_non_null(strstr(err.text, "job 3"));
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 0);
	uint64_t next = 0;
	assert_int_equal(store_next_id(store, &next, NULL), 0);
	assert_int_equal(next, 1);
	jobs[2].uid++;
	assert_int_equal(store_accept(store, batch, 3, NULL), 0);
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 3);
	assert_int_equal(store_accept(store, batch, STORE_BATCH_MAX + 1, NULL), -E2BIG);
	assert_int_equal(store_accept(store, batch, 0, NULL), 0);
	job_done(&seen.last);
	store = store_close(store);
	place_done(&place);
}

static void test_what_cannot_be_entered_is_refused(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	struct job job = make_job(1);
	struct store_accept accept = {.job = &job, .spec = "x", .spec_length = SPEC_BYTES_MAX + 1};
	assert_int_equal(store_accept(store, &accept, 1, NULL), -E2BIG);
	job.key[0] = '\0';
	assert_int_equal(accept_job(store, &job, "x", NULL), -EINVAL);
	job = make_job(0);
	assert_int_equal(accept_job(store, &job, "x", NULL), -EINVAL);
	struct err err = {.code = 0};
	assert_int_equal(store_start(store, 5, 1, "", 1, &err), -ENOENT);
	assert_non_null(strstr(err.text, "no job 5"));
	assert_int_equal(store_unstart(store, 5, 1, NULL), -ENOENT);
	assert_int_equal(end_job(store, 5, JOB_FAILED, 1), -ENOENT);
	assert_int_equal(end_job(store, 5, JOB_RUNNING, 1), -EINVAL);
	assert_int_equal(store_get(store, 5, see, NULL, NULL), -ENOENT);
	char *spec = NULL;
	size_t length = 0;
	assert_int_equal(store_spec(store, 5, &spec, &length, NULL), -ENOENT);
	char *grants = calloc(1, STORE_GRANTS_TEXT_MAX + 2);
	assert_non_null(grants);
	memset(grants, 'x', STORE_GRANTS_TEXT_MAX + 1);
	must_accept(store, 1);
	assert_int_equal(store_start(store, 1, 1, grants, 1, NULL), -E2BIG);
	free(grants);
	store = store_close(store);
	place_done(&place);
}

static void test_a_key_is_one_user_s(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	must_accept(store, 1);
	uint64_t id = 0;
	assert_int_equal(store_find_key(store, 1001, "key-1", &id, NULL), 0);
	assert_int_equal(id, 1);
	assert_int_equal(store_find_key(store, 1002, "key-1", &id, NULL), -ENOENT);
	struct err err = {.code = 0};
	assert_int_equal(store_find_key(store, 1001, "key-2", &id, &err), -ENOENT);
	assert_non_null(strstr(err.text, "key-2"));
	struct job job = make_job(2);
	job.uid = 1001;
	(void)snprintf(job.key, sizeof(job.key), "key-1");
	assert_int_equal(accept_job(store, &job, "x", NULL), -EEXIST);
	assert_int_equal(end_job(store, 1, JOB_SUCCEEDED, 5), 0);
	assert_int_equal(store_find_key(store, 1001, "key-1", &id, NULL), 0);
	assert_int_equal(id, 1);
	store = store_close(store);
	place_done(&place);
}

static void test_final_jobs_are_listed_newest_first(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	for (uint64_t id = 1; id <= 6; id++)
		must_accept(store, id);
	static const int64_t ends[] = {0, 30, 10, 20, 20, 40}; /* job 6 stays pending */
	for (uint64_t id = 1; id <= 5; id++)
		assert_int_equal(end_job(store, id, JOB_SUCCEEDED, ends[id]), 0);
	struct seen seen = {.count = 0};
	assert_int_equal(store_list_final(store, 0, 100, see, &seen, NULL), 0);
	static const uint64_t all[] = {5, 1, 4, 3, 2};
	assert_int_equal(seen.count, 5);
	assert_memory_equal(seen.ids, all, sizeof(all));
	seen.count = 0;
	assert_int_equal(store_list_final(store, 20, 3, see, &seen, NULL), 0);
	assert_int_equal(seen.count, 3);
	seen.count = 0;
	assert_int_equal(store_list_final(store, 21, SIZE_MAX, see, &seen, NULL), 0);
	assert_int_equal(seen.count, 2);
	seen.count = 0;
	seen.answer = 7;
	assert_int_equal(store_list_final(store, 0, 100, see, &seen, NULL), 7);
	assert_int_equal(seen.count, 1);
	assert_int_equal(store_load(store, see_live, &seen, NULL), 7);
	job_done(&seen.last);
	store = store_close(store);
	place_done(&place);
}

static void test_an_id_is_never_given_twice(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	for (uint64_t id = 1; id <= 5; id++)
		must_accept(store, id);
	for (uint64_t id = 2; id <= 5; id++)
		assert_int_equal(end_job(store, id, JOB_SUCCEEDED, (int64_t)id), 0);
	uint64_t *ids = NULL;
	size_t count = 0;
	assert_int_equal(store_forget(store, 3, 2, &ids, &count, NULL), 0);
	static const uint64_t old[] = {2, 3}; /* 2 is too old, 2 and 3 are beyond the two newest */
	assert_int_equal(count, 2);
	assert_memory_equal(ids, old, sizeof(old));
	free(ids);
	assert_int_equal(store_forget(store, 0, 2, &ids, &count, NULL), 0);
	assert_int_equal(count, 0);
	free(ids);
	assert_int_equal(store_forget(store, INT64_MAX, 0, &ids, &count, NULL), 0);
	assert_int_equal(count, 2);
	free(ids);
	struct seen seen = {.count = 0};
	assert_int_equal(store_list_final(store, 0, 100, see, &seen, NULL), 0);
	assert_int_equal(seen.count, 0);
	char *spec = NULL;
	size_t length = 0;
	assert_int_equal(store_spec(store, 5, &spec, &length, NULL), -ENOENT);
	store = store_close(store);
	store = must_open(place.path);
	uint64_t next = 0;
	assert_int_equal(store_next_id(store, &next, NULL), 0);
	assert_int_equal(next, 6);
	struct job job = make_job(5);
	assert_int_equal(accept_job(store, &job, "x", NULL), -EEXIST);
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 1);
	job_done(&seen.last);
	store = store_close(store);
	place_done(&place);
}

static void test_forgetting_goes_in_steps(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	struct job jobs[STORE_BATCH_MAX];
	struct store_accept batch[STORE_BATCH_MAX];
	for (uint64_t first = 1; first <= 2 * STORE_BATCH_MAX; first += STORE_BATCH_MAX) {
		for (size_t i = 0; i < STORE_BATCH_MAX; i++) {
			jobs[i] = make_job(first + i);
			batch[i] =
			    (struct store_accept){.job = &jobs[i], .spec = "x", .spec_length = 1};
		}
		assert_int_equal(store_accept(store, batch, STORE_BATCH_MAX, NULL), 0);
	}
	for (uint64_t id = 1; id <= 300; id++)
		assert_int_equal(end_job(store, id, JOB_SUCCEEDED, 5), 0);
	uint64_t *ids = NULL;
	size_t count = 0;
	assert_int_equal(store_forget(store, 0, 10, &ids, &count, NULL), 0);
	assert_int_equal(count, STORE_FORGET_MAX);
	assert_int_equal(ids[0], 1);
	free(ids);
	assert_int_equal(store_forget(store, 0, 10, &ids, &count, NULL), 0);
	assert_int_equal(count, 300 - 10 - STORE_FORGET_MAX);
	free(ids);
	struct stat about;
	assert_int_equal(stat(unit_path(place.directory, "queue.db-wal"), &about), 0);
	assert_true(about.st_size < 8 << 20); /* 512 + 300 commits and two large ones */
	store = store_close(store);
	assert_int_equal(access(unit_path(place.directory, "queue.db-wal"), F_OK), -1);
	place_done(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_job_comes_back_as_it_was),
	    cmocka_unit_test(test_a_start_and_an_end_are_kept),
	    cmocka_unit_test(test_a_void_start_leaves_a_pending_job),
	    cmocka_unit_test(test_a_batch_is_entered_whole_or_not_at_all),
	    cmocka_unit_test(test_what_cannot_be_entered_is_refused),
	    cmocka_unit_test(test_a_key_is_one_user_s),
	    cmocka_unit_test(test_final_jobs_are_listed_newest_first),
	    cmocka_unit_test(test_an_id_is_never_given_twice),
	    cmocka_unit_test(test_forgetting_goes_in_steps),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
