/* SPDX-License-Identifier: Apache-2.0 */
/* A job's output through its supervisor, the real program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/libexec/supervise/rig.h"
#include "unit/unit.h"

static const char *errors(struct rig *rig)
{
	static char text[4096];
	int fd = openat(rig->job_fd, "err.1", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	assert_true(length >= 0);
	text[length] = '\0';
	(void)close(fd);
	return text;
}

static void both_are_stored_whole_and_apart(void **state)
{
	struct rig *rig = *state;
	rig->launch.log_bytes = 1 << 20;
	rig_run(rig, "echo out; echo err >&2; echo more > /dev/stdout; exit 3");
	assert_int_equal(rig_finish(rig).value, 3);
	assert_string_equal(rig_output(rig), "out\nmore\n");
	assert_string_equal(errors(rig), "err\n");
}

static void it_is_stored_while_it_runs(void **state)
{
	struct rig *rig = *state;
	char path[64];
	rig->launch.log_bytes = 1 << 20;
	rig_run(rig, "echo here; while ! test -e $1/go; do sleep 0.01; done; echo there");
	(void)rig_expect(rig, CONTROL_STARTED);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/out.1", rig->job_fd);
	struct stat info;
	uint64_t until_ns = unit_now_ns() + UINT64_C(10000000000);
	do {
		assert_true(unit_now_ns() < until_ns);
		assert_int_equal(stat(path, &info), 0);
	} while (info.st_size < 5);
	unit_write(unit_path(rig->tmp, "go"), "");
	assert_int_equal(rig_finish(rig).value, 0);
	assert_string_equal(rig_output(rig), "here\nthere\n");
}

static void beyond_the_limit_the_job_goes_on(void **state)
{
	struct rig *rig = *state;
	rig->launch.log_bytes = 4096;
	rig_run(rig, "head -c 50000000 /dev/zero | tr '\\0' x && echo done >&2");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.lost, JOBDIR_LOST_CUT);
	/* it has written all, and no SIGPIPE; and no word of ours is among its data */
	assert_non_null(strstr(errors(rig), "done\n"));
	assert_non_null(strstr(errors(rig), "sluice: output beyond 4 KiB was dropped\n"));
	const char *text = rig_output(rig);
	assert_int_equal(strspn(text, "x"), 4096);
	assert_int_equal(strlen(text), 4096);
}

static void what_leftovers_write_is_stored_too(void **state)
{
	struct rig *rig = *state;
	rig->launch.log_bytes = 1 << 20;
	rig_run(rig, "setsid -f sh -c 'until test -e $0/go; do sleep 0.01; done; echo late' $1;"
		     "echo early");
	(void)rig_expect(rig, CONTROL_LEFTOVERS);
	unit_write(unit_path(rig->tmp, "go"), "");
	assert_int_equal(rig_finish(rig).killed_leftovers, 0);
	assert_string_equal(rig_output(rig), "early\nlate\n");
}

static void one_that_is_killed_has_said_what_it_said(void **state)
{
	struct rig *rig = *state;
	rig->launch.log_bytes = 1 << 20;
	rig_run(rig, "echo last words; touch $1/said; while :; do sleep 1000; done");
	while (access(unit_path(rig->tmp, "said"), F_OK) != 0)
		;
	rig_send(rig->control_fd, CONTROL_CANCEL, 0, 0);
	assert_int_equal(rig_finish(rig).value, SIGKILL);
	assert_string_equal(rig_output(rig), "last words\n");
}

static void a_copy_is_written_and_leaves_nothing(void **state)
{
	struct rig *rig = *state;
	static char text[8192];
	(void)snprintf(rig->launch.spec.output, sizeof(rig->launch.spec.output), "%s",
		       unit_path(rig->tmp, "copy"));
	rig_run(rig, "seq 1 1000; echo err >&2");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.killed_leftovers, 0);
	assert_int_equal(result.lost, 0);
	int fd = open(rig->launch.spec.output, O_RDONLY | O_CLOEXEC);
	ssize_t length = read(fd, text, sizeof(text) - 1);
	assert_int_equal(length, 3893);
	assert_string_equal(rig_output(rig), text);
	assert_string_equal(errors(rig), "err\n");
	(void)close(fd);
}

static void a_copy_that_cannot_be_harms_nobody(void **state)
{
	struct rig *rig = *state;
	(void)snprintf(rig->launch.spec.output, sizeof(rig->launch.spec.output),
		       "/nonexistent/copy");
	rig_run(rig, "seq 1 100000; exit 4");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 4);
	assert_int_equal(result.lost, JOBDIR_LOST_COPY);
	assert_non_null(
	    strstr(errors(rig), "sluice: no copy of the output in '/nonexistent/copy'"));
	assert_int_equal(strncmp(rig_output(rig), "1\n2\n3\n", 6), 0);
}

/* All of it went into the pipe, and none into the file. */
static void a_copy_that_cannot_be_is_told_of_short_outputs_too(void **state)
{
	struct rig *rig = *state;
	(void)snprintf(rig->launch.spec.output, sizeof(rig->launch.spec.output),
		       "/nonexistent/copy");
	rig_run(rig, "echo short");
	struct jobdir_result result = rig_finish(rig);
	assert_int_equal(result.value, 0);
	assert_int_equal(result.lost, JOBDIR_LOST_COPY);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_new, rig_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(both_are_stored_whole_and_apart),
	    CASE(it_is_stored_while_it_runs),
	    CASE(beyond_the_limit_the_job_goes_on),
	    CASE(what_leftovers_write_is_stored_too),
	    CASE(one_that_is_killed_has_said_what_it_said),
	    CASE(a_copy_is_written_and_leaves_nothing),
	    CASE(a_copy_that_cannot_be_harms_nobody),
	    CASE(a_copy_that_cannot_be_is_told_of_short_outputs_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
