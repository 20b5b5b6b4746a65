/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/store/store.h"

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
#include "unit/doors/queue/store/store_common.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

/* -- what is told is there ----------------------------------------------------------------------*/

static void test_a_job_comes_back_as_it_was(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	struct job job = make_job(1);
	char ids[] = "0,3:1";
	char resources[] = "rdma/a=1";
	job.ids = ids;
	job.resources = resources;
	job.simulated = true;
	struct store_accept accept = {.job = &job, .spec = "a\0b", .spec_length = 3};
	assert_int_equal(store_accept(store, &accept, 1, NULL), 0);
	store = store_close(store);

	store = must_open(place.path);
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.last.id, 1);
	assert_string_equal(seen.last.key, "key-1");
	assert_string_equal(seen.last.name, "job-1");
	assert_string_equal(seen.last.ids, "0,3:1");
	assert_string_equal(seen.last.resources, "rdma/a=1");
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
	assert_int_equal(store_start(store, 1, 1, "GPU-1 0", 7 * SECOND, NULL), 0);
	store = store_close(store);
	store = must_open(place.path);
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(seen.last.state, JOB_STARTING);
	assert_int_equal(seen.last.attempt, 1);
	assert_int_equal(seen.last.started_unix_ns, 7 * SECOND);
	assert_string_equal(seen.grants, "GPU-1 0");

	struct job end = make_job(1);
	char text[] = "(9)", detail[] = "of /bin/secret";
	end.state = JOB_FAILED;
	end.reason = JOB_REASON_SIGNAL;
	end.reason_text = text;
	end.reason_detail = detail;
	end.attempt = 1;
	end.started_unix_ns = 8 * SECOND;
	end.ended_unix_ns = 9 * SECOND;
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
	assert_string_equal(seen.last.reason_detail, "of /bin/secret");
	assert_int_equal(seen.last.attempt, 1);
	assert_int_equal(seen.last.started_unix_ns, 8 * SECOND);
	assert_int_equal(seen.last.ended_unix_ns, 9 * SECOND);
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
	assert_int_equal(store_start(store, 1, 2, "GPU-2 1", 2 * SECOND, NULL), 0);
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
	assert_int_equal(store_accept(store, batch, STORE_ROWS_MAX + 1, NULL), -E2BIG);
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
	assert_int_equal(store_list_final(store, 0, NULL, 100, see, &seen, NULL), 0);
	static const uint64_t all[] = {5, 1, 4, 3, 2};
	assert_int_equal(seen.count, 5);
	assert_memory_equal(seen.ids, all, sizeof(all));
	seen.count = 0;
	assert_int_equal(store_list_final(store, 20, NULL, 3, see, &seen, NULL), 0);
	assert_int_equal(seen.count, 3);
	seen.count = 0;
	assert_int_equal(store_list_final(store, 21, NULL, SIZE_MAX, see, &seen, NULL), 0);
	assert_int_equal(seen.count, 2);
	const struct store_place fourth = {.ended_unix_ns = 20, .id = 4};
	static const uint64_t rest[] = {3, 2};
	seen.count = 0;
	assert_int_equal(store_list_final(store, 0, &fourth, 100, see, &seen, NULL), 0);
	assert_int_equal(seen.count, 2);
	assert_memory_equal(seen.ids, rest, sizeof(rest));
	seen.count = 0;
	seen.answer = 7;
	assert_int_equal(store_list_final(store, 0, NULL, 100, see, &seen, NULL), 7);
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
	assert_int_equal(store_forget(store, 3, 0, 2, &ids, &count, NULL), 0);
	static const uint64_t old[] = {2, 3}; /* 2 is too old, 2 and 3 are beyond the two newest */
	assert_int_equal(count, 2);
	assert_memory_equal(ids, old, sizeof(old));
	free(ids);
	assert_int_equal(store_forget(store, 0, 0, 2, &ids, &count, NULL), 0);
	assert_int_equal(count, 0);
	free(ids);
	assert_int_equal(store_forget(store, INT64_MAX, 0, 0, &ids, &count, NULL), 0);
	assert_int_equal(count, 2);
	free(ids);
	struct seen seen = {.count = 0};
	assert_int_equal(store_list_final(store, 0, NULL, 100, see, &seen, NULL), 0);
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
	struct stat about;
	for (uint64_t id = 1; id <= 300; id++) {
		assert_int_equal(end_job(store, id, JOB_SUCCEEDED, 5), 0);
		assert_int_equal(stat(unit_path(place.directory, "queue.db-wal"), &about), 0);
		assert_in_range(about.st_size, 0, 3 << 20); /* the log does not grow without end */
	}
	uint64_t *ids = NULL;
	size_t count = 0;
	assert_int_equal(store_forget(store, 0, 0, 10, &ids, &count, NULL), 0);
	assert_int_equal(count, STORE_FORGET_MAX);
	assert_int_equal(ids[0], 1);
	free(ids);
	assert_int_equal(store_forget(store, 0, 0, 10, &ids, &count, NULL), 0);
	assert_int_equal(count, 300 - 10 - STORE_FORGET_MAX);
	free(ids);
	store = store_close(store);
	assert_int_equal(access(unit_path(place.directory, "queue.db-wal"), F_OK), -1);
	place_done(&place);
}

/* -- one at a time ------------------------------------------------------------------------------*/

/* In a process of its own, as the file's locks are of processes. Returns what store_open() says. */
static int open_elsewhere(const char *path)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct store *store = NULL;
		struct err err = {.code = 0};
		int rc = store_open(path, &store, &err);
		if (rc == -EBUSY && !strstr(err.text, path))
			rc = -EBADMSG;
		(void)store_close(store);
		_exit(-rc);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return -WEXITSTATUS(status);
}

static void test_two_processes_never_share_it(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	assert_int_equal(open_elsewhere(place.path), -EBUSY);
	must_accept(store, 1);
	assert_int_equal(open_elsewhere(place.path), -EBUSY);
	struct store *second = NULL;
	assert_int_equal(store_open(place.path, &second, NULL), -EBUSY);
	assert_int_equal(open_elsewhere(place.path), -EBUSY); /* that did not drop the lock */
	must_accept(store, 2);
	store = store_close(store);
	assert_int_equal(open_elsewhere(place.path), 0);
	place_done(&place);
}

static void test_a_reader_from_outside_is_told_that_it_is_busy(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		sqlite3 *db = NULL;
		(void)sqlite3_open(place.path, &db);
		int rc = sqlite3_exec(db, "SELECT * FROM jobs", NULL, NULL, NULL);
		(void)sqlite3_close(db);
		_exit(rc);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), SQLITE_BUSY);
	store = store_close(store);
	place_done(&place);
}

/* -- where it may lie ---------------------------------------------------------------------------*/

static void test_network_file_systems_are_refused(void **state)
{
	(void)state;
	static const struct {
		uint32_t type;
		const char *name;
	} refused[] = {{0x6969, "NFS"},	      {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
		       {0x65735546, "FUSE"},  {0x01021997, "9p"},   {0x00c36400, "Ceph"},
		       {0x0bd00bd0, "Lustre"}};
	struct err err = {.code = 0};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(store_check_place("/srv/state", refused[i].type, &err),
				 -EMEDIUMTYPE);
		assert_non_null(strstr(err.text, refused[i].name));
		assert_non_null(strstr(err.text, "/srv/state"));
		assert_non_null(strstr(err.text, "--state-dir"));
	}
	static const uint32_t taken[] = {0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630};
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		assert_int_equal(store_check_place("/srv/state", taken[i], NULL), 0);
	assert_int_equal(store_check_place("/", 0, NULL), 0);
	assert_int_equal(store_check_place("/nowhere/at/all", 0, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nowhere/at/all"));
	struct store *store = NULL;
	assert_int_equal(store_open("/nowhere/at/all/queue.db", &store, &err), -ENOENT);
	assert_null(store);
}

/* -- out of memory ------------------------------------------------------------------------------*/

/* SQLite's own allocations as well: they are asked for here, where failmalloc counts them. */
static void *sqlite_malloc(int size)
{
	return malloc((size_t)size);
}

static void *sqlite_realloc(void *old, int size)
{
	return realloc(old, (size_t)size);
}

static int sqlite_size(void *memory)
{
	return (int)malloc_usable_size(memory);
}

static int sqlite_roundup(int size)
{
	return (size + 7) & ~7;
}

static int sqlite_init(void *context)
{
	(void)context;
	return SQLITE_OK;
}

static void sqlite_shutdown(void *context)
{
	(void)context;
}

static void sqlite_use_our_malloc(void)
{
	static const sqlite3_mem_methods methods = {
	    .xMalloc = sqlite_malloc,
	    .xFree = free,
	    .xRealloc = sqlite_realloc,
	    .xSize = sqlite_size,
	    .xRoundup = sqlite_roundup,
	    .xInit = sqlite_init,
	    .xShutdown = sqlite_shutdown,
	};
	(void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
	(void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
}

/* All that the store does, once; each failure is the last word of this run. */
static int work(struct store *store, struct seen *seen, struct err *err)
{
	struct job job = make_job(1);
	uint64_t id = 0;
	int rc = accept_job(store, &job, "spec", err);
	if (rc == 0)
		rc = store_start(store, 1, 1, "grants", 1, err);
	if (rc == 0)
		rc = store_unstart(store, 1, 1, err);
	if (rc == 0)
		rc = store_load(store, see_live, seen, err);
	if (rc == 0)
		rc = store_find_key(store, job.uid, job.key, &id, err);
	if (rc == 0)
		rc = end_job(store, 1, JOB_SUCCEEDED, 1);
	if (rc == 0)
		rc = store_list_final(store, 0, NULL, 10, see, seen, err);
	if (rc == 0)
		rc = store_get(store, 1, see, seen, err);
	char *spec = NULL;
	size_t length = 0;
	if (rc == 0)
		rc = store_spec(store, 1, &spec, &length, err);
	free(spec);
	job = make_job(2);
	if (rc == 0)
		rc = accept_job(store, &job, "spec", err);
	uint64_t *ids = NULL;
	size_t count = 0;
	if (rc == 0)
		rc = store_forget(store, 2, 0, 10, &ids, &count, err);
	free(ids);
	return rc;
}

/* A database as it is when it is new; each run begins with a copy. */
struct fresh {
	const char *path, *wal;
	char bytes[128 << 10];
	size_t length;
};

static int open_without_memory(void *context)
{
	const struct fresh *fresh = context;
	(void)unlink(fresh->path);
	(void)unlink(fresh->wal); /* stays when closing finds no memory */
	struct store *store = NULL;
	struct err err = {.code = 0};
	int rc = store_open(fresh->path, &store, &err);
	if (rc < 0 && rc != -ENOMEM)
		print_error("%s\n", err.text);
	store = store_close(store);
	return rc;
}

/* Twice nobody has used it, and what its statements take is free: the next use makes them again. */
static int rest_and_work(struct store *store, struct seen *seen, struct err *err)
{
	(void)store_give_back(store);
	(void)store_give_back(store);
	return work(store, seen, err);
}

static int fresh_without_memory(const struct fresh *fresh,
				int (*run)(struct store *store, struct seen *seen, struct err *err))
{
	(void)unlink(fresh->wal);
	int fd = open(fresh->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, fresh->bytes, fresh->length), fresh->length);
	assert_int_equal(close(fd), 0);

	struct store *store = NULL;
	struct seen seen = {.count = 0};
	struct err err = {.code = 0};
	int rc = store_open(fresh->path, &store, &err);
	if (rc == 0)
		rc = run(store, &seen, &err);
	if (rc < 0 && rc != -ENOMEM)
		print_error("%s\n", err.text);

	store = store_close(store);
	job_done(&seen.last);
	return rc;
}

static int work_without_memory(void *context)
{
	return fresh_without_memory(context, work);
}

static int rest_without_memory(void *context)
{
	return fresh_without_memory(context, rest_and_work);
}

static void test_what_nobody_uses_is_given_back(void **state)
{
	(void)state;
	struct place place = place_make();
	struct store *store = must_open(place.path);
	struct seen seen = {.count = 0};
	assert_int_equal(work(store, &seen, NULL), 0);
	job_done(&seen.last);

	int64_t used = sqlite3_memory_used();
	assert_false(store_give_back(store)); /* it was in use a moment ago */
	assert_true(store_give_back(store));
	assert_true(sqlite3_memory_used() < used / 2);
	for (int i = 0; i < 3; i++)
		assert_false(store_give_back(store)); /* once */

	bool is_draining = true;
	assert_int_equal(store_is_draining(store, &is_draining, NULL), 0);
	assert_false(is_draining);
	assert_false(store_give_back(store));
	assert_true(store_give_back(store));
	store = store_close(store);
	place_done(&place);
}

static void test_no_allocation_may_fail_badly(void **state)
{
	(void)state;
	struct place place = place_make();
	char wal[4096];
	(void)snprintf(wal, sizeof(wal), "%s-wal", place.path);
	struct fresh *fresh = calloc(1, sizeof(*fresh));
	assert_non_null(fresh);
	fresh->path = place.path;
	fresh->wal = wal;
	assert_int_equal(open_without_memory(fresh), 0); /* what SQLite keeps for good */
	int fd = open(place.path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t length = read(fd, fresh->bytes, sizeof(fresh->bytes));
	assert_in_range(length, 4096, sizeof(fresh->bytes) - 1);
	fresh->length = (size_t)length;
	assert_int_equal(close(fd), 0);
	assert_true(failmalloc_each(open_without_memory, fresh) > 100);
	assert_true(failmalloc_each(work_without_memory, fresh) > 100);
	assert_true(failmalloc_each(rest_without_memory, fresh) > 100);
	free(fresh);
	place_done(&place);
}

int main(void)
{
	place_in_memory();
	sqlite_use_our_malloc();
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
	    cmocka_unit_test(test_two_processes_never_share_it),
	    cmocka_unit_test(test_a_reader_from_outside_is_told_that_it_is_busy),
	    cmocka_unit_test(test_network_file_systems_are_refused),
	    cmocka_unit_test(test_what_nobody_uses_is_given_back),
	    cmocka_unit_test(test_no_allocation_may_fail_badly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
