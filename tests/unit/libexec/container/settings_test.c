/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "cdi/scan.h"
#include "job/launch.h"
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
	struct container_settings settings;
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
	struct scan scan;
	launch_init(&launch);
	assert_int_equal(settings_check_devices(&launch, &scan, &err),
			 0); /* without GPUs nothing is */
	launch.grants = calloc(1, sizeof(*launch.grants));
	assert_non_null(launch.grants);
	launch.grant_count = 1;
	(void)snprintf(launch.grants[0].uuid, GPU_UUID_MAX, GPU_SIMULATED_PREFIX "nobody");
	assert_int_equal(settings_check_devices(&launch, &scan, &err), -ENODEV);
	assert_non_null(strstr(err.text, "sluice.sim/gpu=" GPU_SIMULATED_PREFIX "nobody"));
	assert_non_null(strstr(err.text, "sluice cdi check"));
	scan_done(&scan);
}

/* Programs of ours, alone in PATH. */
static void expect_choice(const char *first, const char *second, uint32_t wanted, int code,
			  uint32_t expected)
{
	char *tmp = unit_tmp_new();
	struct err err = {0};
	struct launch launch _cleanup_launch_;
	const char *const names[] = {first, second};
	uint32_t out = SPEC_RUNTIME_ANY;
	launch_init(&launch);
	launch.spec.runtime = wanted;
	for (size_t i = 0; i < array_length(names); i++) {
		if (!names[i])
			continue;
		unit_write(unit_path(tmp, names[i]), "#!/bin/sh\n");
		assert_int_equal(chmod(unit_path(tmp, names[i]), 0755), 0);
	}
	assert_int_equal(setenv("PATH", tmp, 1), 0);
	assert_int_equal(settings_choose(&launch, &out, &err), code);
	assert_int_equal(out, expected);
	if (code < 0)
		assert_non_null(strstr(err.text, "in PATH"));
	tmp = unit_tmp_free(tmp);
}

static void podman_comes_first(void **state)
{
	const uint32_t any = SPEC_RUNTIME_ANY, podman = SPEC_RUNTIME_PODMAN,
		       docker = SPEC_RUNTIME_DOCKER;
	expect_choice("docker", "podman", any, 0, podman);
	expect_choice("docker", NULL, any, 0, docker);
	expect_choice("docker", "podman", docker, 0, docker);
	expect_choice("podman", NULL, docker, -ENOENT, any);
	expect_choice("docker", NULL, podman, -ENOENT, any);
	expect_choice(NULL, NULL, any, -ENOENT, any);
}

static void expect_docker(const char *host, const char *script, int code, const char *text)
{
	char *tmp = unit_tmp_new();
	struct err err = {0};
	struct docker_info info;
	unit_write(unit_path(tmp, "docker"), script);
	assert_int_equal(chmod(unit_path(tmp, "docker"), 0755), 0);
	assert_int_equal(setenv("PATH", tmp, 1), 0);
	assert_int_equal(setenv("DOCKER_HOST", host, 1), 0);
	assert_int_equal(settings_ask_docker(&info, &err), code);
	if (code < 0)
		assert_non_null(strstr(err.text, text));
	assert_int_equal(unsetenv("DOCKER_HOST"), 0);
	tmp = unit_tmp_free(tmp);
}

static void docker_is_asked_before_it_is_used(void **state)
{
	expect_docker("tcp://elsewhere:2375", "#!/bin/sh\n", -EREMOTE,
		      "has to run on this machine");
	expect_docker("unix:///x", "#!/bin/sh\nexit 1\n", -EIO, "run it by hand");
	expect_docker("", "#!/bin/sh\necho '{\"ServerErrors\":[\"no daemon\"]}'; exit 1\n",
		      -ENOTCONN, "docker does not answer: no daemon");
	expect_docker("",
		      "#!/bin/sh\necho '{\"ServerVersion\":\"\",\"ClientInfo\":{}}'; "
		      "echo no daemon at all >&2; exit 1\n",
		      -ENOTCONN, "docker does not answer: no daemon at all");
	expect_docker("",
		      "#!/bin/sh\necho '{\"ServerVersion\":\"\",\"ClientInfo\":{}}'; "
		      "echo permission denied >&2; exit 1\n",
		      -EACCES, "is the user in the group");
	expect_docker("", "#!/bin/sh\necho '{\"ServerVersion\":\"28.2.0\"}'\n", 0, "");
}

static void where_docker_puts_its_containers(void **state)
{
	const struct container_settings with = {.parent = "/a"}, without = {.parent = ""};
	const struct docker_info cgroupfs = {.has_cgroups = true}, systemd = {.has_cgroups = false};
	assert_null(settings_elsewhere(&cgroupfs, &with, 1000, NULL));
	assert_non_null(strstr(settings_elsewhere(&cgroupfs, &without, 0, NULL), "no cgroup"));
	assert_non_null(
	    strstr(settings_elsewhere(&systemd, &with, 0, NULL), "native.cgroupdriver=cgroupfs"));
	/* Who answers elsewhere may be anybody, and says of itself what it likes. */
	const struct docker_info context = {.has_cgroups = true, .has_context = true};
	assert_null(settings_elsewhere(&cgroupfs, &with, 1000, "unix:///var/run/docker.sock"));
	assert_null(settings_elsewhere(&cgroupfs, &with, 0, "unix:///tmp/x.sock"));
	assert_non_null(settings_elsewhere(&cgroupfs, &with, 1000, "unix:///tmp/x.sock"));
	assert_non_null(settings_elsewhere(&context, &with, 1000, NULL));
	assert_null(settings_elsewhere(&context, &with, 0, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_group_of_the_job_is_found),
	    cmocka_unit_test(no_more_processes_than_there_can_be),
	    cmocka_unit_test(podman_is_looked_at_before_it_is_used),
	    cmocka_unit_test(podman_comes_first),
	    cmocka_unit_test(docker_is_asked_before_it_is_used),
	    cmocka_unit_test(where_docker_puts_its_containers),
	    cmocka_unit_test(a_device_that_nobody_provides_is_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
