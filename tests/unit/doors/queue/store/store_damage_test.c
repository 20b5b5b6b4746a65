/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are not what the store has written: each is refused with an error that names it and
 * says what to do, and is byte for byte what it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "unit/doors/queue/store/store_common.h"
#include "unit/unit.h"

enum { DAMAGE_PAGE = 4096, DAMAGE_FRAME = 4096 + 24, DAMAGE_FILE_MAX = 16 << 20 };

/* -- files --------------------------------------------------------------------------------------*/

static void file_get(const char *path, struct buf *out)
{
	buf_init(out, DAMAGE_FILE_MAX);
	if (file_exists(path))
		assert_int_equal(file_read(path, out, NULL), 0);
}

static void file_put(const char *path, const void *data, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, length), length);
	assert_int_equal(close(fd), 0);
}

/* Overwrites `length` bytes at `offset`. */
static void file_set(const char *path, off_t offset, int byte, size_t length)
{
	struct buf bytes;
	buf_init(&bytes, DAMAGE_FILE_MAX);
	assert_int_equal(buf_reserve(&bytes, length), 0);
	memset(bytes.data, byte, length);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes.data, length, offset), length);
	assert_int_equal(close(fd), 0);
	buf_done(&bytes);
}

static off_t file_size(const char *path)
{
	struct stat about;
	return stat(path, &about) == 0 ? about.st_size : -1;
}

/* -- a database with something in it ------------------------------------------------------------*/

struct scene {
	struct place place;
	const char *wal; /* owned */
};

static void fill(struct store *store, unsigned jobs)
{
	for (uint64_t id = 1; id <= jobs; id++) {
		must_accept(store, id);
		assert_int_equal(store_start(store, id, 1, "GPU-1 0", 1, NULL), 0);
		if (id % 2)
			assert_int_equal(end_job(store, id, JOB_SUCCEEDED, (int64_t)id), 0);
	}
}

/* `with_log`: as after kill -9, the last jobs are in the log alone. */
static struct scene scene_make(unsigned jobs, bool with_log)
{
	struct scene scene = {.place = place_make()};
	scene.wal = strdup(unit_path(scene.place.directory, "queue.db-wal"));
	assert_non_null(scene.wal);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct store *store = must_open(scene.place.path);
		fill(store, jobs);
		if (!with_log)
			store = store_close(store);
		_exit(0);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(file_size(scene.wal) > 0, with_log);
	return scene;
}

static void scene_done(struct scene *scene)
{
	free((char *)scene->wal);
	place_done(&scene->place);
}

/* Refused with `code`, a text that has the file's name and `says`, and nothing is changed. */
static void check_refused(const struct scene *scene, int code, const char *says)
{
	struct buf before, after, wal_before, wal_after;
	file_get(scene->place.path, &before);
	file_get(scene->wal, &wal_before);
	for (int i = 0; i < 2; i++) { /* not the second time either */
		struct store *store = NULL;
		struct err err = {.code = 0};
		assert_int_equal(store_open(scene->place.path, &store, &err), code);
		assert_null(store);
		if (!strstr(err.text, scene->place.path) || !strstr(err.text, says))
			fail_msg("'%s' does not say '%s'", err.text, says);
		file_get(scene->place.path, &after);
		file_get(scene->wal, &wal_after);
		assert_int_equal(after.length, before.length);
		assert_memory_equal(buf_text(&after), buf_text(&before), before.length);
		assert_int_equal(wal_after.length, wal_before.length);
		assert_memory_equal(buf_text(&wal_after), buf_text(&wal_before), wal_before.length);
		buf_done(&after);
		buf_done(&wal_after);
	}
	buf_done(&before);
	buf_done(&wal_before);
}

static size_t count_jobs(const char *path)
{
	struct store *store = must_open(path);
	struct seen seen = {.count = 0};
	assert_int_equal(store_load(store, see_live, &seen, NULL), 0);
	assert_int_equal(store_list_final(store, 0, NULL, 1000, see, &seen, NULL), 0);
	job_done(&seen.last);
	store = store_close(store);
	return seen.count;
}

/* -- the database -------------------------------------------------------------------------------*/

static void test_a_header_that_is_overwritten(void **state)
{
	(void)state;
	struct scene scene = scene_make(5, false);
	file_set(scene.place.path, 0, 'x', 100);
	check_refused(&scene, -EUCLEAN, "damaged");
	file_set(scene.place.path, 0, 0, 4096);
	check_refused(&scene, -EUCLEAN, "move it");
	scene_done(&scene);
}

static void test_a_page_of_zeros_anywhere(void **state)
{
	(void)state;
	struct scene scene = scene_make(200, false);
	struct buf whole;
	file_get(scene.place.path, &whole);
	size_t pages = whole.length / DAMAGE_PAGE, refused = 0;
	assert_true(pages > 8);
	for (size_t page = 0; page < pages; page++) {
		file_put(scene.place.path, whole.data, whole.length);
		file_set(scene.place.path, (off_t)(page * DAMAGE_PAGE), 0, DAMAGE_PAGE);
		struct store *store = NULL;
		struct err err = {.code = 0};
		int rc = store_open(scene.place.path, &store, &err);
		if (rc < 0) {
			check_refused(&scene, -EUCLEAN, "damaged");
			refused++;
			continue;
		}
		/* Then it was a page of specs alone: they are known to be wrong when they are read.
		 */
		size_t wrong = 0;
		for (uint64_t id = 1; id <= 200; id++) {
			char *spec = NULL;
			size_t length = 0;
			int got = store_spec(store, id, &spec, &length, NULL);
			assert_true(got == 0 || got == -EUCLEAN || got == -ENOENT);
			wrong += got != 0;
			free(spec);
		}
		assert_true(wrong > 0);
		store = store_close(store);
	}
	assert_true(refused > pages / 2);
	buf_done(&whole);
	scene_done(&scene);
}

static void test_a_spec_that_has_changed(void **state)
{
	(void)state;
	struct scene scene = scene_make(3, false);
	struct buf whole;
	file_get(scene.place.path, &whole);
	char *spec = memmem(whole.data, whole.length, "spec of 2", 9);
	assert_non_null(spec);
	file_set(scene.place.path, spec - whole.data, 'S', 1);
	buf_done(&whole);
	struct store *store = must_open(scene.place.path);
	char *bytes = NULL;
	size_t length = 0;
	struct err err = {.code = 0};
	assert_int_equal(store_spec(store, 2, &bytes, &length, &err), -EUCLEAN);
	assert_null(bytes);
	assert_non_null(strstr(err.text, "job 2"));
	assert_int_equal(store_spec(store, 3, &bytes, &length, NULL), 0);
	free(bytes);
	store = store_close(store);
	scene_done(&scene);
}

static void change(const char *path, const char *sql)
{
	sqlite3 *db = NULL;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_a_row_that_we_would_not_write(void **state)
{
	(void)state;
	static const char *const changes[] = {
	    "UPDATE jobs SET state = 'Sleeping' WHERE id = 2",
	    "UPDATE jobs SET reason = 'Boredom' WHERE id = 2",
	    "UPDATE jobs SET uid = -1 WHERE id = 2",
	    "UPDATE jobs SET uid = 4294967296 WHERE id = 2",
	    "UPDATE jobs SET key = hex(zeroblob(40)) WHERE id = 2",
	    "UPDATE jobs SET name = hex(zeroblob(40)) WHERE id = 2",
	    "UPDATE jobs SET state = 'Succeeded' WHERE id = 2",
	};
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		struct scene scene = scene_make(3, false);
		change(scene.place.path, changes[i]);
		struct store *store = must_open(scene.place.path);
		struct seen seen = {.count = 0};
		struct err err = {.code = 0};
		assert_int_equal(store_load(store, see_live, &seen, &err), -EUCLEAN);
		assert_non_null(strstr(err.text, "job 2"));
		assert_int_equal(store_get(store, 2, see, &seen, NULL), -EUCLEAN);
		job_done(&seen.last);
		store = store_close(store);
		scene_done(&scene);
	}
}

static void test_a_file_that_is_cut(void **state)
{
	(void)state;
	struct scene scene = scene_make(60, false);
	off_t size = file_size(scene.place.path);
	static const off_t cuts[] = {1, DAMAGE_PAGE - 100, DAMAGE_PAGE, 3 * DAMAGE_PAGE};
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		assert_int_equal(truncate(scene.place.path, size - cuts[i]), 0);
		check_refused(&scene, -EUCLEAN, "damaged");
	}
	assert_int_equal(truncate(scene.place.path, 60), 0);
	check_refused(&scene, -EUCLEAN, "damaged");
	assert_int_equal(truncate(scene.place.path, 0), 0);
	check_refused(&scene, -EUCLEAN, "empty");
	scene_done(&scene);
}

static void test_files_of_others(void **state)
{
	(void)state;
	struct scene scene = scene_make(1, false);
	unit_write(scene.place.path,
		   "These are the notes of somebody else, and no database at all.\n");
	check_refused(&scene, -EUCLEAN, "does not begin as");
	assert_int_equal(unlink(scene.place.path), 0);
	change(scene.place.path, "CREATE TABLE jobs(id); PRAGMA application_id = 4711");
	check_refused(&scene, -EUCLEAN, "another program");
	assert_int_equal(unlink(scene.place.path), 0);
	change(scene.place.path, "CREATE TABLE songs(title)");
	check_refused(&scene, -EUCLEAN, "another program");
	assert_int_equal(unlink(scene.place.path), 0);
	assert_int_equal(mkdir(scene.place.path, 0700), 0);
	struct store *store = NULL;
	struct err err = {.code = 0};
	assert_int_equal(store_open(scene.place.path, &store, &err), -EISDIR);
	assert_non_null(strstr(err.text, "is a directory"));
	assert_int_equal(rmdir(scene.place.path), 0);
	assert_int_equal(symlink("/tmp/elsewhere.db", scene.place.path), 0);
	assert_int_equal(store_open(scene.place.path, &store, &err), -ELOOP);
	assert_int_equal(access("/tmp/elsewhere.db", F_OK), -1);
	assert_int_equal(unlink(scene.place.path), 0);
	assert_int_equal(mkfifo(scene.place.path, 0600), 0);
	assert_int_equal(store_open(scene.place.path, &store, &err), -EUCLEAN);
	assert_null(store);
	scene_done(&scene);
}

static void test_another_version(void **state)
{
	(void)state;
	struct scene scene = scene_make(1, false);
	change(scene.place.path, "PRAGMA user_version = 6");
	check_refused(&scene, -EPROTONOSUPPORT, "version 6");
	change(scene.place.path, "PRAGMA user_version = 0");
	check_refused(&scene, -EUCLEAN, "version 0");
	change(scene.place.path, "PRAGMA user_version = 5; DELETE FROM meta");
	check_refused(&scene, -EUCLEAN, "next id");
	change(scene.place.path, "INSERT INTO meta VALUES('next_id', 2); DROP TABLE specs");
	check_refused(&scene, -EUCLEAN, "specs");
	scene_done(&scene);
}

static void test_a_database_that_may_not_be_written(void **state)
{
	(void)state;
	if (geteuid() == 0) {
		/* As nobody, in a directory that nobody owns. */
		struct scene scene = scene_make(1, false);
		assert_int_equal(chown(scene.place.directory, 65534, 65534), 0);
		assert_int_equal(chmod(scene.place.path, 0644), 0);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			struct store *store = NULL;
			struct err err = {.code = 0};
			if (setgid(65534) < 0 || setuid(65534) < 0)
				_exit(1);
			int rc = store_open(scene.place.path, &store, &err);
			_exit(rc == -EACCES && strstr(err.text, scene.place.path) ? 0 : 2);
		}
		int status = 0;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		scene_done(&scene);
		return;
	}
	struct scene scene = scene_make(1, false);
	assert_int_equal(chmod(scene.place.path, 0400), 0);
	check_refused(&scene, -EACCES, "denied");
	assert_int_equal(chmod(scene.place.path, 0000), 0);
	struct store *store = NULL;
	assert_int_equal(store_open(scene.place.path, &store, NULL), -EACCES);
	scene_done(&scene);
}

/* -- the log ------------------------------------------------------------------------------------*/

static void test_a_log_after_a_kill_is_taken_in(void **state)
{
	(void)state;
	struct scene scene = scene_make(5, true);
	assert_int_equal(count_jobs(scene.place.path), 5);
	assert_int_equal(count_jobs(scene.place.path), 5);
	scene_done(&scene);
}

static void test_a_torn_end_of_the_log_is_normal(void **state)
{
	(void)state;
	struct scene scene = scene_make(5, true);
	struct buf db, wal;
	file_get(scene.place.path, &db);
	file_get(scene.wal, &wal);
	/* Half a page that nobody was told of. */
	file_put(scene.wal, wal.data, wal.length);
	int fd = open(scene.wal, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, wal.data + 32, 2000), 2000);
	assert_int_equal(close(fd), 0);
	assert_int_equal(count_jobs(scene.place.path), 5);
	/* The last transaction is cut: that is one job's last step, at most. */
	for (size_t cut = 1; cut < DAMAGE_FRAME; cut += 500) {
		file_put(scene.place.path, db.data, db.length);
		file_put(scene.wal, wal.data, wal.length - cut);
		assert_int_equal(count_jobs(scene.place.path), 5);
	}
	/* An empty log, and one of zeros: made, and not written. */
	file_put(scene.place.path, db.data, db.length);
	file_put(scene.wal, "", 0);
	assert_int_equal(count_jobs(scene.place.path), 0);
	char zeros[5000] = "";
	file_put(scene.place.path, db.data, db.length);
	file_put(scene.wal, zeros, sizeof(zeros));
	assert_int_equal(count_jobs(scene.place.path), 0);
	buf_done(&db);
	buf_done(&wal);
	scene_done(&scene);
}

static void test_a_log_that_is_damaged_before_its_end(void **state)
{
	(void)state;
	struct scene scene = scene_make(5, true);
	struct buf wal;
	file_get(scene.wal, &wal);
	/* SQLite would go on without a word, with the jobs behind the damage gone. */
	static const size_t places[] = {0, 5, 10, 17, 25, 31};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		file_put(scene.wal, wal.data, wal.length);
		file_set(scene.wal, (off_t)places[i], wal.data[places[i]] ^ 0x55, 1);
		check_refused(&scene, -EUCLEAN, "queue.db-wal");
	}
	file_put(scene.wal, wal.data, wal.length);
	file_set(scene.wal, 0, 0, 32);
	check_refused(&scene, -EUCLEAN, "its header is empty");
	size_t frames = wal.length / DAMAGE_FRAME;
	assert_true(frames > 20);
	for (size_t frame = 0; frame < frames - 15; frame++) {
		file_put(scene.wal, wal.data, wal.length);
		file_set(scene.wal, (off_t)(32 + frame * DAMAGE_FRAME + 24 + 11), 0x7e, 3);
		check_refused(&scene, -EUCLEAN, "whole transactions follow");
	}
	file_put(scene.wal, "garbage, and more of it, for as long as it takes", 48);
	check_refused(&scene, -EUCLEAN, "queue.db-wal");
	buf_done(&wal);
	scene_done(&scene);
}

static void test_a_log_without_its_database(void **state)
{
	(void)state;
	struct scene scene = scene_make(5, true);
	assert_int_equal(unlink(scene.place.path), 0);
	check_refused(&scene, -EUCLEAN, "not its database");
	assert_int_equal(access(scene.place.path, F_OK), -1);
	scene_done(&scene);
}

int main(void)
{
	place_in_memory();
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_header_that_is_overwritten),
	    cmocka_unit_test(test_a_page_of_zeros_anywhere),
	    cmocka_unit_test(test_a_spec_that_has_changed),
	    cmocka_unit_test(test_a_row_that_we_would_not_write),
	    cmocka_unit_test(test_a_file_that_is_cut),
	    cmocka_unit_test(test_files_of_others),
	    cmocka_unit_test(test_another_version),
	    cmocka_unit_test(test_a_database_that_may_not_be_written),
	    cmocka_unit_test(test_a_log_after_a_kill_is_taken_in),
	    cmocka_unit_test(test_a_torn_end_of_the_log_is_normal),
	    cmocka_unit_test(test_a_log_that_is_damaged_before_its_end),
	    cmocka_unit_test(test_a_log_without_its_database),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
