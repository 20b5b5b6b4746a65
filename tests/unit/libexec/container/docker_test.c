/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/docker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/launch.h"
#include "libexec/container/words.h"
#include "unit/unit.h"

static void launch_of(struct launch *launch)
{
	launch_init(launch);
	launch->id = 17;
	(void)snprintf(launch->instance, sizeof(launch->instance), "an-instance");
	(void)snprintf(launch->spec.image, sizeof(launch->spec.image), "debian:12");
}

static const char *joined(char **argv)
{
	static char text[4096];
	text[0] = '\0';
	for (char **at = argv; *at; at++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			       at == argv ? "" : " ", *at);
	words_free(argv);
	return text;
}

static void the_least(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct docker_settings settings = {.parent = "/a/job-17"};
	char **argv = NULL;
	launch_of(&launch);
	assert_int_equal(docker_run(&launch, &settings, &argv, NULL), 0);
	assert_string_equal(
	    joined(argv),
	    "docker run --rm --log-driver=none --pull=missing --name=sluice-job-17-an-instance "
	    "--label=sluice.dev/job=17 --label=sluice.dev/instance=an-instance "
	    "--cgroup-parent=/a/job-17 --env=NVIDIA_VISIBLE_DEVICES=void "
	    "--env=CUDA_VISIBLE_DEVICES --env=CUDA_DEVICE_ORDER --env=SLUICE_GPUS "
	    "--env=SLUICE_JOB_ID --env=SLUICE_JOB_NAME --env=SLUICE_ATTEMPT "
	    "--env=SLUICE_JOB_INSTANCE -- debian:12");
	assert_int_equal(docker_find(&launch, &argv, NULL), 0);
	assert_string_equal(joined(argv),
			    "docker ps --all --quiet --filter=name=^/sluice-job-17-an-instance$");
	assert_int_equal(docker_remove(&launch, &argv, NULL), 0);
	assert_string_equal(joined(argv),
			    "docker rm --force --volumes -- sluice-job-17-an-instance");
}

static void more(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct docker_settings settings = {.parent = NULL};
	char **argv = NULL;
	struct err err = {0};
	launch_of(&launch);
	launch.grants = calloc(1, sizeof(*launch.grants));
	assert_non_null(launch.grants);
	launch.grant_count = 1;
	(void)snprintf(launch.grants[0].uuid, GPU_UUID_MAX, "GPU-12");
	launch.spec.memlock = launch.spec.pty = true;
	launch.spec.wants.pids = 5;
	launch.spec.entrypoint = 1;
	assert_int_equal(spec_add_argument(&launch.spec, "a", NULL), 0);
	assert_int_equal(spec_add_argument(&launch.spec, "--privileged", NULL), 0);
	assert_int_equal(docker_run(&launch, &settings, &argv, NULL), 0);
	const char *line = joined(argv);
	assert_non_null(strstr(line, " --device=sluice.dev/gpu=GPU-12 "));
	assert_non_null(strstr(line, " --pids-limit=5 "));
	assert_non_null(strstr(line, " --ulimit=memlock=-1:-1 "));
	assert_non_null(strstr(line, " --tty --detach-keys=ctrl-^,ctrl-_,ctrl-^,ctrl-_ "
				     "--entrypoint=a -- debian:12 --privileged"));
	launch.spec.argv[0][0] = '\0';
	assert_int_equal(docker_run(&launch, &settings, &argv, &err), -EINVAL);
	assert_non_null(strstr(err.text, "entrypoint"));
}

static int parse(const char *text, struct docker_info *out, struct err *err)
{
	return docker_parse_info(text, strlen(text), out, err);
}

static void what_it_says_of_itself(void **state)
{
	struct docker_info info;
	struct err err = {0};
	assert_int_equal(
	    parse("{\"ServerVersion\":\"20.10.24+dfsg1\",\"CgroupDriver\":\"cgroupfs\"}", &info,
		  &err),
	    0);
	assert_string_equal(info.version, "20.10.24+dfsg1");
	assert_true(info.has_cgroups);
	assert_false(info.has_cdi);
	assert_int_equal(parse("{\"ServerVersion\":\"28.2.0\",\"CgroupDriver\":\"systemd\","
			       "\"CDISpecDirs\":[\"/etc/cdi\"]}",
			       &info, &err),
			 0);
	assert_true(info.has_cdi);
	assert_false(info.has_cgroups);
	assert_int_equal(parse("{\"ServerVersion\":\"27.0\",\"CDISpecDirs\":[]}", &info, &err), 0);
	assert_false(info.has_context);
	assert_int_equal(
	    parse("{\"ServerVersion\":\"27.0\",\"ClientInfo\":{\"Context\":\"default\"}}", &info,
		  &err),
	    0);
	assert_false(info.has_context);
	assert_int_equal(parse("{\"ServerVersion\":\"27.0\",\"ClientInfo\":{\"Context\":\"mine\"}}",
			       &info, &err),
			 0);
	assert_true(info.has_context);
	assert_false(info.has_cdi);
	assert_int_equal(
	    parse("{\"ServerErrors\":[\"Cannot connect to the Docker daemon\"]}", &info, &err),
	    -ENOTCONN);
	assert_non_null(strstr(err.text, "docker does not answer: Cannot connect"));
	assert_int_equal(parse("{\"ServerErrors\":[\"Got permission denied\"]}", &info, &err),
			 -EACCES);
	assert_non_null(strstr(err.text, "group"));
	assert_int_equal(parse("{\"ServerVersion\":\"19.03.1\"}", &info, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "too old"));
	static const char *const bad[] = {"",
					  "[]",
					  "{",
					  "{}",
					  "1",
					  "{\"ServerVersion\":7}",
					  "{\"ServerVersion\":\"x.1\"}",
					  "{\"ServerErrors\":7}"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(parse(bad[i], &info, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_least),
	    cmocka_unit_test(more),
	    cmocka_unit_test(what_it_says_of_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
