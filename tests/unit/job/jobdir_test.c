/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/jobdir.h"
#include "unit/unit.h"

struct place {
	char *path; /* owned */
	int fd;
};

static int place_open(void **state)
{
	struct place *place = calloc(1, sizeof(*place));
	assert_non_null(place);
	place->path = unit_tmp_new();
	place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(place->fd >= 0);
	*state = place;
	return 0;
}

static int place_close(void **state)
{
	struct place *place = *state;
	(void)close(place->fd);
	(void)unit_tmp_free(place->path);
	free(place);
	return 0;
}

static int job_open(const struct place *place, uint64_t id)
{
	struct err err = {0};
	if (jobdir_create(place->fd, id, geteuid(), &err) < 0)
		fail_msg("%s", err.text);
	int fd = jobdir_open(place->fd, id, &err);
	assert_true(fd >= 0);
	return fd;
}

static void a_directory_is_there_whole_or_not_at_all(void **state)
{
	struct place *place = *state;
	struct err err = {0};
	assert_int_equal(jobdir_open(place->fd, 7, &err), -ENOENT);
	_cleanup_close_ int job = job_open(place, 7);
	assert_int_equal(jobdir_sync(place->fd, &err), 0);
	struct stat status;
	assert_int_equal(fstat(job, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0700);
	assert_int_equal(fstatat(job, "room", &status, 0), 0);
	assert_int_equal(status.st_size, JOBDIR_FILE_MAX);
	assert_true(status.st_blocks * 512 >= JOBDIR_FILE_MAX);
	assert_int_equal(jobdir_create(place->fd, 7, geteuid(), &err), -EEXIST);
	assert_false(access(unit_path(place->path, "j/tmp.7"), F_OK) == 0);

	/* What a killed process left behind does not hinder. */
	assert_int_equal(mkdir(unit_path(place->path, "j/tmp.8"), 0700), 0);
	unit_write(unit_path(place->path, "j/tmp.8/lock"), "");
	assert_int_equal(jobdir_create(place->fd, 8, geteuid(), &err), 0);
}

static void the_list_is_in_order_and_cleans_up(void **state)
{
	struct place *place = *state;
	uint64_t *ids = NULL;
	size_t count = 1;
	assert_int_equal(jobdir_list(place->fd, &ids, &count, NULL, NULL), 0);
	assert_int_equal(count, 0);
	for (uint64_t id = 120; id > 20; id--)
		assert_int_equal(jobdir_create(place->fd, id, geteuid(), NULL), 0);
	assert_int_equal(mkdir(unit_path(place->path, "j/tmp.9"), 0700), 0);
	assert_int_equal(mkdir(unit_path(place->path, "j/tmp.9/deep"), 0700), 0);
	assert_int_equal(mkdir(unit_path(place->path, "j/007"), 0700), 0);
	assert_int_equal(mkdir(unit_path(place->path, "j/x"), 0700), 0);
	assert_int_equal(jobdir_list(place->fd, &ids, &count, NULL, NULL), 0);
	assert_int_equal(count, 100);
	assert_int_equal(ids[0], 21);
	assert_int_equal(ids[99], 120);
	free(ids);
	assert_int_not_equal(access(unit_path(place->path, "j/tmp.9"), F_OK), 0);
}

static void removing_never_leaves_the_directory(void **state)
{
	struct place *place = *state;
	_cleanup_close_ int job = job_open(place, 3);
	assert_int_equal(mkdir(unit_path(place->path, "other"), 0700), 0);
	unit_write(unit_path(place->path, "other/file"), "x");
	assert_int_equal(symlinkat("../../other", job, "link"), 0);
	assert_int_equal(mkdirat(job, "inner", 0700), 0);
	unit_write(unit_path(place->path, "j/3/inner/file"), "x");
	assert_int_equal(jobdir_remove(place->fd, 3, NULL), 0);
	assert_int_not_equal(access(unit_path(place->path, "j/3"), F_OK), 0);
	assert_int_equal(access(unit_path(place->path, "other/file"), F_OK), 0);
	assert_int_equal(jobdir_remove(place->fd, 3, NULL), 0);

	/* Nor does a link in place of the directory. */
	assert_int_equal(symlink("../other", unit_path(place->path, "j/4")), 0);
	(void)jobdir_remove(place->fd, 4, NULL);
	assert_int_equal(access(unit_path(place->path, "other/file"), F_OK), 0);
}

static void a_tree_of_any_depth_is_out_of_the_way(void **state)
{
	struct place *place = *state;
	struct err err = {0};
	uint64_t *ids = NULL;
	size_t count = 0;
	_cleanup_close_ int job = job_open(place, 5);
	assert_int_equal(mkdir(unit_path(place->path, "j/tmp.6"), 0700), 0);
	int at[] = {dup(job),
		    open(unit_path(place->path, "j/tmp.6"), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	for (size_t tree = 0; tree < 2; tree++) {
		for (int i = 0; i < 40; i++) {
			assert_int_equal(mkdirat(at[tree], "deeper", 0700), 0);
			int next = openat(at[tree], "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			(void)close(at[tree]);
			at[tree] = next;
		}
		(void)close(at[tree]);
	}
	if (jobdir_remove(place->fd, 5, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_not_equal(access(unit_path(place->path, "j/5"), F_OK), 0);
	if (jobdir_list(place->fd, &ids, &count, NULL, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(count, 0);
	free(ids);
	assert_int_not_equal(access(unit_path(place->path, "j/tmp.6"), F_OK), 0);
}

static void one_has_the_lock(void **state)
{
	struct place *place = *state;
	_cleanup_close_ int job = job_open(place, 1);
	_cleanup_close_ int lock = jobdir_lock(job, NULL);
	assert_true(lock >= 0);
	assert_int_equal(jobdir_lock(job, NULL), -EBUSY);
	int copy = dup(lock); /* as one that a child has */
	(void)close(take_fd(&lock));
	assert_int_equal(jobdir_lock(job, NULL), -EBUSY);
	(void)close(copy);
	lock = jobdir_lock(job, NULL);
	assert_true(lock >= 0);

	/* A power loss may have swallowed it. */
	(void)close(take_fd(&lock));
	assert_int_equal(unlinkat(job, "lock", 0), 0);
	lock = jobdir_lock(job, NULL);
	assert_true(lock >= 0);
}

static void an_attempt_is_claimed_once(void **state)
{
	struct place *place = *state;
	_cleanup_close_ int job = job_open(place, 1);
	struct jobdir_claim again, claim = {.pid = 77,
					    .start_ticks = UINT64_MAX,
					    .boot_id = "0f1e2d3c-0000-1111-2222-333344445555",
					    .instance = "0f1e2d3c-aaaa-1111-2222-333344445555",
					    .cgroup = "/sys/fs/cgroup/a\nb",
					    .unix_ns = INT64_MAX};
	struct err err = {0};
	assert_int_equal(jobdir_read_claim(job, 1, &again, &err), -ENOENT);
	assert_int_equal(jobdir_claim(job, 1, &claim, &err), 0);
	assert_int_equal(jobdir_claim(job, 1, &claim, &err), -EEXIST);
	assert_int_equal(jobdir_claim(job, 2, &claim, &err), 0);
	assert_int_equal(jobdir_read_claim(job, 1, &again, &err), 0);
	(void)snprintf(claim.cgroup, sizeof(claim.cgroup), "/sys/fs/cgroup/a b");
	assert_int_equal(again.pid, claim.pid);
	assert_true(again.start_ticks == claim.start_ticks && again.unix_ns == claim.unix_ns);
	assert_string_equal(again.boot_id, claim.boot_id);
	assert_string_equal(again.instance, claim.instance);
	assert_string_equal(again.cgroup, claim.cgroup);

	/* Made, and its maker killed before it wrote: a claim that cannot be read. */
	unit_write(unit_path(place->path, "j/1/claim.3"), "");
	assert_int_equal(jobdir_read_claim(job, 3, &again, &err), -EBADMSG);
	assert_int_equal(jobdir_claim(job, 3, &claim, &err), -EEXIST);
}

static void a_result_is_read_as_written(void **state)
{
	struct place *place = *state;
	_cleanup_close_ int job = job_open(place, 1);
	struct jobdir_result again, result = {.end = JOBDIR_LAUNCH_ERROR,
					      .value = -ENOENT,
					      .exit_code = 127,
					      .was_cancelled = true,
					      .killed_leftovers = UINT32_MAX,
					      .started_unix_ns = -1,
					      .ended_unix_ns = INT64_MAX};
	memset(result.text, 'x', sizeof(result.text)); /* longer than it may be */
	struct err err = {0};
	assert_int_equal(jobdir_read_result(job, 1, &again, &err), -ENOENT);
	assert_int_equal(jobdir_write_result(job, 1, &result, &err), 0);
	assert_int_equal(jobdir_read_result(job, 1, &again, &err), 0);
	assert_int_equal(again.end, JOBDIR_LAUNCH_ERROR);
	assert_int_equal(again.value, -ENOENT);
	assert_int_equal(again.exit_code, 127);
	assert_true(again.was_cancelled);
	assert_true(again.killed_leftovers == UINT32_MAX && again.started_unix_ns == -1);
	assert_int_equal(strlen(again.text), JOBDIR_TEXT_MAX - 1);
	struct stat status;
	assert_int_not_equal(fstatat(job, "room", &status, 0), 0);
	/* A second attempt has no room that was reserved, and works. */
	result = (struct jobdir_result){.end = JOBDIR_EXITED, .value = 3, .exit_code = 3};
	assert_int_equal(jobdir_write_result(job, 2, &result, &err), 0);
	assert_int_equal(jobdir_read_result(job, 2, &again, &err), 0);
	assert_int_equal(again.value, 3);
	assert_string_equal(again.text, "");
	assert_false(again.was_terminated);
	result.was_terminated = true;
	result.lost = JOBDIR_LOST_CUT;
	assert_int_equal(jobdir_write_result(job, 3, &result, &err), 0);
	assert_int_equal(jobdir_read_result(job, 3, &again, &err), 0);
	assert_true(again.was_terminated);
	assert_int_equal(again.lost, JOBDIR_LOST_CUT);
}

static void texts_that_are_cut_are_refused(void **state)
{
	static const char good[] = "result 1\nend deadline\nvalue 15\ncode 124\ncancelled 0\n"
				   "leftovers 0\nstarted 1\nended 2\ntext \n";
	struct jobdir_result result;
	assert_int_equal(jobdir_parse_result(good, sizeof(good) - 1, &result, NULL), 0);
	assert_int_equal(result.end, JOBDIR_DEADLINE);
	for (size_t length = 0; length < sizeof(good) - 1; length++)
		assert_int_equal(jobdir_parse_result(good, length, &result, NULL), -EBADMSG);
	assert_int_equal(jobdir_parse_result(good, sizeof(good), &result, NULL), -EBADMSG);
	static const char odd[] = "result 1\nend deadline\nvalue 99999999999\n";
	assert_int_equal(jobdir_parse_result(odd, sizeof(odd) - 1, &result, NULL), -EBADMSG);
}

static void a_cancel_is_seen(void **state)
{
	struct place *place = *state;
	_cleanup_close_ int job = job_open(place, 1);
	assert_false(jobdir_is_cancelled(job));
	assert_int_equal(jobdir_request_cancel(job, NULL), 0);
	assert_true(jobdir_is_cancelled(job));
	assert_int_equal(jobdir_request_cancel(job, NULL), 0);
}

static void ends_have_names(void **state)
{
	assert_string_equal(jobdir_end_to_string(JOBDIR_EXITED), "exited");
	assert_string_equal(jobdir_end_to_string(JOBDIR_DEADLINE), "deadline");
	assert_string_equal(jobdir_end_to_string(JOBDIR_WORKER), "worker-failed");
	assert_string_equal(jobdir_end_to_string((enum jobdir_end)99), "unknown");
}

/* Fills what is left of the file system. */
static void fill(const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	char block[4096] = "";
	while (write(fd, block, sizeof(block)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
}

static void a_full_disk_takes_the_result_and_nothing_else(void **state)
{
	struct place *place = *state;
	const char *disk = unit_path(place->path, "disk");
	assert_int_equal(mkdir(disk, 0700), 0);
	if (mount("none", disk, "tmpfs", 0, "size=64k") < 0) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		skip();
	}
	int fd = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct place small = {.path = place->path, .fd = fd};
	int job = job_open(&small, 1);
	fill(unit_path(place->path, "disk/ballast"));

	struct jobdir_result again, result = {.end = JOBDIR_EXITED, .value = 3};
	struct jobdir_claim claim = {.pid = 1};
	struct err err = {0};
	int created = jobdir_create(fd, 2, geteuid(), &err);
	int claimed = jobdir_claim(job, 1, &claim, NULL);
	int read_claim = jobdir_read_claim(job, 1, &claim, NULL);
	int written = jobdir_write_result(job, 1, &result, NULL);
	int read = jobdir_read_result(job, 1, &again, NULL);
	int without_room = jobdir_write_result(job, 2, &result, NULL);
	(void)close(job);
	(void)close(fd);
	assert_int_equal(umount2(disk, MNT_DETACH), 0);
	assert_int_equal(created, -ENOSPC);
	assert_int_equal(claimed, -ENOSPC);
	assert_int_equal(read_claim, -ENOENT);
	assert_int_equal(written, 0);
	assert_int_equal(read, 0);
	assert_int_equal(again.value, 3);
	assert_int_equal(without_room, -ENOSPC);
}

/* What is over has to go above all then. */
static void a_full_disk_keeps_nothing_that_is_over(void **state)
{
	struct place *place = *state;
	struct err err = {0};
	const char *disk = unit_path(place->path, "disk");
	assert_int_equal(mkdir(disk, 0700), 0);
	if (mount("none", disk, "tmpfs", 0, "nr_inodes=8,size=64k") < 0) {
		print_message("skipped: mounting a small disk: %s\n", strerror(errno));
		skip();
	}
	int fd = open(disk, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int created = jobdir_create(fd, 1, geteuid(), &err), files = 0;
	int job = jobdir_open(fd, 1, &err);
	for (char name[] = "out.0"; files < 8; files++) { /* until not even a directory fits */
		name[4] = (char)('0' + files);
		if (mknodat(job, name, S_IFREG | 0600, 0) < 0)
			break;
	}
	(void)close(job);
	int is_full = mkdirat(fd, "other", 0700) < 0 && errno == ENOSPC;
	int removed = jobdir_remove(fd, 1, &err);
	int again = jobdir_open(fd, 1, NULL), created_again = jobdir_create(fd, 2, geteuid(), &err);
	(void)close(fd);
	assert_int_equal(umount2(disk, MNT_DETACH), 0);
	assert_int_equal(created, 0);
	assert_true(is_full);
	assert_int_equal(removed, 0);
	assert_int_equal(again, -ENOENT);
	assert_int_equal(created_again, 0);
}

/* Whoever gave the jobs a disk of their own. */
static void the_jobs_may_have_a_disk_of_their_own(void **state)
{
	struct place *place = *state;
	struct err err = {0};
	uint64_t *ids = NULL;
	size_t count = 9, stays = 9;
	const char *jobs = unit_path(place->path, "j");
	assert_int_equal(mkdir(jobs, 0711), 0);
	if (mount("none", jobs, "tmpfs", 0, "size=1m") < 0) {
		print_message("skipped: mounting a disk: %s\n", strerror(errno));
		skip();
	}
	int created = jobdir_create(place->fd, 1, geteuid(), &err);
	int other = jobdir_create(place->fd, 2, geteuid(), &err);
	int tree = mkdir(unit_path(place->path, "j/2/inner"), 0700);
	int removed = jobdir_remove(place->fd, 1, &err);
	int removed_other = jobdir_remove(place->fd, 2, &err);
	int listed = jobdir_list(place->fd, &ids, &count, &stays, &err);
	free(ids);
	assert_int_equal(umount2(jobs, MNT_DETACH), 0);
	assert_int_equal(created, 0);
	assert_int_equal(other, 0);
	assert_int_equal(tree, 0);
	assert_int_equal(removed, 0);
	assert_int_equal(removed_other, 0); /* out of sight, */
	assert_int_equal(listed, 0);
	assert_int_equal(count, 0);
	assert_int_equal(stays, 1); /* and told of */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, place_open, place_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(a_directory_is_there_whole_or_not_at_all),
	    CASE(the_list_is_in_order_and_cleans_up),
	    CASE(removing_never_leaves_the_directory),
	    CASE(a_tree_of_any_depth_is_out_of_the_way),
	    CASE(one_has_the_lock),
	    CASE(an_attempt_is_claimed_once),
	    CASE(a_result_is_read_as_written),
	    CASE(texts_that_are_cut_are_refused),
	    CASE(a_cancel_is_seen),
	    CASE(ends_have_names),
	    CASE(a_full_disk_takes_the_result_and_nothing_else),
	    CASE(a_full_disk_keeps_nothing_that_is_over),
	    CASE(the_jobs_may_have_a_disk_of_their_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
