/* SPDX-License-Identifier: Apache-2.0 */
/* What needs no cgroup; with one: tests/e2e/test_run_image.py. */
#include <errno.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "libexec/supervise/image.h"
#include "libexec/supervise/watch.h"
#include "unit/unit.h"

static void what_is_missing_around_it_is_said(void **state)
{
	struct launch launch _cleanup_launch_;
	struct cgroup none = CGROUP_NONE;
	struct image image;
	char text[CONTROL_TEXT_MAX];
	launch_init(&launch);
	image_prepare(&launch, &none, "for a reason", &image);
	assert_true(image.is_trusted); /* root's job */
	image_describe(&image, text);
	if (geteuid() == 0)
		assert_string_equal(text, "container, no device cgroup around it: no cgroup: for a "
					  "reason");
	else
		assert_string_equal(text, "container, no device cgroup around it: the agent is not "
					  "root's");
	image_done(&image);
	image.is_guarded = true;
	image_describe(&image, text);
	assert_string_equal(text, "container");
}

/* Rules that leave a GPU out are no reason to say that there are rules. */
static void what_is_not_known_is_not_guarded(void **state)
{
	static const char *const roots[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	struct launch launch _cleanup_launch_;
	struct cgroup cgroup = CGROUP_NONE;
	struct image image;
	char name[64];
	launch_init(&launch);
	(void)snprintf(name, sizeof(name), "sluice-unit-image-%d", (int)getpid());
	for (size_t i = 0; geteuid() == 0 && cgroup.fd < 0 && i < array_length(roots); i++)
		(void)cgroup_create(roots[i], name, &cgroup, NULL);
	if (cgroup.fd < 0) {
		print_message("skipped: needs root and a cgroup2 file system\n");
		skip();
	}
	image_prepare(&launch, &cgroup, "", &image);
	assert_string_equal(image.why, "");
	assert_true(image.is_guarded);
	image_done(&image);
	(void)snprintf(launch.denied_why, sizeof(launch.denied_why), "the nodes are not known");
	image_prepare(&launch, &cgroup, "", &image);
	assert_false(image.is_guarded);
	assert_string_equal(image.why, "the nodes are not known");
	image_done(&image);
	cgroup_remove_v1(cgroup.path, true);
	assert_int_equal(cgroup_remove(&cgroup, NULL), 0);
	cgroup_close(&cgroup);
}

static void the_helper_must_be_there(void **state)
{
	struct launch launch _cleanup_launch_;
	char *helper[IMAGE_HELPER_WORDS];
	struct err err = {0};
	launch_init(&launch);
	assert_int_equal(image_helper(&launch, "run", helper, &err), -ENOPKG);
	assert_non_null(strstr(err.text, "sluice-container"));
	(void)snprintf(launch.container, sizeof(launch.container), "/x/sluice-container");
	assert_int_equal(image_helper(&launch, "run", helper, &err), 0);
	assert_string_equal(helper[0], "/x/sluice-container");
	assert_string_equal(helper[1], "run");
	assert_null(helper[2]);
}

/* Whether a process of this name is one. `is_find`: it is find(1), which has an option -P. */
static bool is_pause(const char *name, bool is_find)
{
	int ends[2];
	char byte;
	char *tmp = unit_tmp_new();
	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		(void)setpgid(0, 0);
	if (pid == 0 && is_find) {
		const char *link = unit_path(tmp, name);
		(void)dup2(ends[1], STDOUT_FILENO);
		if (symlink("/usr/bin/find", link) == 0)
			(void)execl(link, name, "-P", "/dev/null", "-exec", "sh", "-c",
				    "echo; sleep 1000", ";", (char *)NULL);
		_exit(1);
	}
	if (pid == 0) {
		(void)prctl(PR_SET_NAME, name);
		(void)!write(ends[1], "", 1);
		pause();
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	bool is = image_is_pause(pid);
	assert_int_equal(kill(-pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(ends[0]);
	(void)close(ends[1]);
	tmp = unit_tmp_free(tmp);
	return is;
}

static void the_process_that_only_waits_is_known(void **state)
{
	assert_true(is_pause("podman pause", false));
	assert_false(is_pause("podman", false));
	assert_false(is_pause("catatonit", false));
	assert_true(is_pause("catatonit", true));
	assert_false(is_pause("another", true));
	assert_false(image_is_pause(0));
}

static void what_was_killed_may_have_left_something(void **state)
{
	struct job_watch watch = {.status = 7 << 8};
	assert_false(image_is_left(&watch));
	watch.killed_leftovers = 1;
	assert_true(image_is_left(&watch));
	watch = (struct job_watch){.was_told = true};
	assert_true(image_is_left(&watch));
	watch = (struct job_watch){.status = 9};
	assert_true(image_is_left(&watch));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_missing_around_it_is_said),
	    cmocka_unit_test(what_is_not_known_is_not_guarded),
	    cmocka_unit_test(the_helper_must_be_there),
	    cmocka_unit_test(the_process_that_only_waits_is_known),
	    cmocka_unit_test(what_was_killed_may_have_left_something),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
