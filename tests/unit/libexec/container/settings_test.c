/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "doors/queue/launch.h"
#include "libexec/container/settings.h"
#include "unit/unit.h"

static void the_group_of_the_job_is_found(void **state)
{
	char out[CGROUP_PATH_MAX];
	static const char *const good[] = {
	    "0::/sluice-1/job-1-ab\n",
	    "5:devices:/x\n0::/sluice-1/job-1-ab/launcher\n",
	    "0::/sluice-1/job-1-ab/launcher",
	};
	for (size_t i = 0; i < array_length(good); i++) {
		assert_true(settings_parent(good[i], "job-1-ab", out));
		assert_string_equal(out, "/sluice-1/job-1-ab");
	}
	/* Joining may have failed: then it is somebody else's. */
	static const char *const bad[] = {
	    "",
	    "0::/\n",
	    "0::/launcher\n",
	    "1:job:/job-1-ab\n",
	    "0::job-1-ab\n",
	    "0::/xjob-1-ab\n",
	    "0::/job-1-ab/other\n",
	    "0::/job-1-abc\n",
	};
	for (size_t i = 0; i < array_length(bad); i++)
		assert_false(settings_parent(bad[i], "job-1-ab", out));
	char *text = malloc(2 * CGROUP_PATH_MAX);
	assert_non_null(text);
	(void)snprintf(text, 2 * CGROUP_PATH_MAX, "0::/%0*d/job-1-ab\n", CGROUP_PATH_MAX, 1);
	assert_false(settings_parent(text, "job-1-ab", out));
	free(text);
}

static void no_more_processes_than_there_can_be(void **state)
{
	char *tmp = unit_tmp_new();
	const char *pid_max = unit_path(tmp, "pid_max"), *self = unit_path(tmp, "self");
	unit_write(pid_max, "7\n");
	unit_write(self, "0::/a/job-3\n");
	const struct settings_places places = {.cgroups = tmp, .self = self, .pid_max = pid_max};
	struct launch launch _cleanup_launch_;
	struct settings settings;
	launch_init(&launch);
	launch.id = 3;
	settings_read(&launch, &places, &settings);
	/* Neither hybrid nor anything. */
	assert_int_equal(settings.podman.runtime != NULL, settings.podman.has_limits);
	if (settings.podman.has_limits) {
		assert_string_equal(settings.podman.runtime, "runc");
		assert_int_equal(settings.podman.processes[1], 7);
		assert_true(settings.podman.files[0] <= settings.podman.files[1]);
	}
	if (geteuid() == 0)
		assert_string_equal(settings.podman.parent, "/a/job-3");
	else
		assert_null(settings.podman.parent);
	tmp = unit_tmp_free(tmp);
}

/* A podman of ours, alone in PATH. */
static void expect_podman(const char *script, int code, const char *text)
{
	char *tmp = unit_tmp_new();
	struct err err = {0};
	if (script) {
		unit_write(unit_path(tmp, "podman"), script);
		assert_int_equal(chmod(unit_path(tmp, "podman"), 0755), 0);
	}
	assert_int_equal(setenv("PATH", tmp, 1), 0);
	assert_int_equal(settings_check_podman(&err), code);
	if (code < 0)
		assert_non_null(strstr(err.text, text));
	tmp = unit_tmp_free(tmp);
}

static void podman_is_looked_at_before_it_is_used(void **state)
{
	expect_podman(NULL, -ENOENT, "there is no podman in PATH");
	expect_podman("#!/bin/sh\necho podman version 4.3.1\n", 0, "");
	expect_podman("#!/bin/sh\necho podman version 3.0.1\n", -ENOTSUP, "too old");
	expect_podman("#!/bin/sh\necho hello\n", -EINVAL, "is that podman?");
	expect_podman("#!/bin/sh\necho podman version 4.3.1; exit 1\n", -EIO, "run it by hand");
	expect_podman("#!/bin/sh\nkill -9 $$\n", -EIO, "run it by hand");
}

static void a_device_that_nobody_provides_is_named(void **state)
{
	struct err err = {0};
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	assert_int_equal(settings_check_devices(&launch, &err), 0); /* without GPUs nothing is */
	launch.grants = calloc(1, sizeof(*launch.grants));
	assert_non_null(launch.grants);
	launch.grant_count = 1;
	(void)snprintf(launch.grants[0].uuid, GPU_UUID_MAX, GPU_SIMULATED_PREFIX "nobody");
	assert_int_equal(settings_check_devices(&launch, &err), -ENODEV);
	assert_non_null(strstr(err.text, "sluice.sim/gpu=" GPU_SIMULATED_PREFIX "nobody"));
	assert_non_null(strstr(err.text, "sluice cdi check"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_group_of_the_job_is_found),
	    cmocka_unit_test(no_more_processes_than_there_can_be),
	    cmocka_unit_test(podman_is_looked_at_before_it_is_used),
	    cmocka_unit_test(a_device_that_nobody_provides_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
