/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/jobdir.h"
#include "job/workdir.h"
#include "unit/unit.h"

static void of_workers_whose_supervisor_is_gone(void **state)
{
	static const char instance[] = "0f1e2d3c-aaaa-1111-2222-333344445555";
	struct err err = {0};
	char path[FILE_PATH_MAX];
	size_t stays = 0;
	_cleanup_close_ int top = open(unit_top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(top >= 0);
	assert_int_equal(jobdir_create(top, 7, geteuid(), &err), 0);
	assert_int_equal(jobdir_create(top, 8, geteuid(), &err), 0);
	_cleanup_close_ int job = jobdir_open(top, 7, &err);
	_cleanup_close_ int work = workdir_make(job, 7, 1, instance, path, &err);
	if (work < 0)
		fail_msg("%s", err.text);
	assert_int_equal(access(path, F_OK), 0);
	assert_non_null(strstr(path, "/workers/7.1-0f1e2d3c"));
	assert_int_equal(workdir_make(job, 7, 1, instance, path, &err), -EEXIST);
	assert_int_equal(mkdirat(work, "inner", 0700), 0);
	_cleanup_close_ int other = jobdir_open(top, 8, &err);
	_cleanup_close_ int stale = workdir_make(other, 8, 2, instance, path, &err);
	assert_true(stale >= 0);

	/* One that somebody supervises stays; what of a job is left that nobody does, goes. */
	_cleanup_close_ int lock = jobdir_lock(job, &err);
	workdir_sweep(top, &stays, &err);
	assert_int_equal(stays, 0);
	assert_int_equal(access(unit_path(unit_top, "workers/7.1-0f1e2d3c"), F_OK), 0);
	assert_int_not_equal(access(unit_path(unit_top, "workers/8.2-0f1e2d3c"), F_OK), 0);
	(void)close(take_fd(&lock));
	assert_int_equal(workdir_discard(job, 7, 1, instance, &err), 0);
	assert_int_not_equal(access(unit_path(unit_top, "workers/7.1-0f1e2d3c"), F_OK), 0);
	assert_int_equal(workdir_discard(job, 7, 1, instance, &err), 0);

	/* Nor of one that is forgotten. */
	_cleanup_close_ int again = workdir_make(job, 9, 1, instance, path, &err);
	assert_true(again >= 0);
	workdir_sweep(top, &stays, &err);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(stays, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(of_workers_whose_supervisor_is_gone, unit_top_setup,
					    unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
