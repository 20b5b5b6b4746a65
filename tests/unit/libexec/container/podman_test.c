/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/launch.h"
#include "libexec/container/podman.h"
#include "libexec/container/words.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static int launch_of(struct launch *launch)
{
	launch_init(launch);
	launch->id = 17;
	(void)snprintf(launch->instance, sizeof(launch->instance), "an-instance");
	(void)snprintf(launch->spec.image, sizeof(launch->spec.image), "debian:12");
	launch->grants = calloc(2, sizeof(*launch->grants));
	if (!launch->grants)
		return -ENOMEM;
	launch->grant_count = 2;
	launch->grants[0] = (struct launch_grant){.uuid = "GPU-12", .slot_count = 1};
	launch->grants[1] = (struct launch_grant){.uuid = "MIG-51ce51ce-1", .slot_count = 1};
	return 0;
}

/* The words with a blank between. */
static char *joined(char **argv)
{
	static char text[4096];
	text[0] = '\0';
	for (char **at = argv; *at; at++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			       at == argv ? "" : " ", *at);
	return text;
}

#define VARIABLES                                                                                  \
	"--env=CUDA_VISIBLE_DEVICES --env=CUDA_DEVICE_ORDER --env=SLUICE_GPUS "                    \
	"--env=SLUICE_JOB_ID --env=SLUICE_JOB_NAME --env=SLUICE_ATTEMPT --env=SLUICE_JOB_INSTANCE"
#define WITHOUT_GPU "--env=NVIDIA_VISIBLE_DEVICES=void " VARIABLES
#define WITH_GPU    "--env=NVIDIA_VISIBLE_DEVICES=void --env=TRITON_LIBCUDA_PATH=/usr/lib64 " VARIABLES

static void the_least(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct podman_settings settings = {.has_limits = false};
	char **argv = NULL;
	assert_int_equal(launch_of(&launch), 0);
	assert_int_equal(podman_run(&launch, &settings, &argv, NULL), 0);
	assert_string_equal(
	    joined(argv),
	    "podman --cgroup-manager=cgroupfs run --rm --log-driver=none --pull=missing "
	    "--name=sluice-job-17-an-instance --label=sluice.dev/job=17 "
	    "--label=sluice.dev/instance=an-instance --device=sluice.dev/gpu=GPU-12 "
	    "--device=sluice.sim/gpu=MIG-51ce51ce-1 " WITH_GPU " -- debian:12");
	argv = words_free(argv);
}

static void adapters_are_devices_as_well(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct podman_settings settings = {.has_limits = false};
	char **argv = NULL;
	assert_int_equal(launch_of(&launch), 0);
	launch.grant_count = 0;
	(void)snprintf(launch.adapters, sizeof(launch.adapters), "mlx5_1,mlx5_10");
	for (int i = 0; i < 2; i++) {
		launch.adapters_simulated = i;
		assert_int_equal(podman_run(&launch, &settings, &argv, NULL), 0);
		const char *line = joined(argv);
		assert_non_null(strstr(line, i ? " --device=sluice.sim/rdma=mlx5_1 "
						 "--device=sluice.sim/rdma=mlx5_10 "
					       : " --device=sluice.dev/rdma=mlx5_1 "
						 "--device=sluice.dev/rdma=mlx5_10 "));
		assert_non_null(strstr(line, " --env=SLUICE_RDMA "
					     "--env=NCCL_IB_HCA==mlx5_1,mlx5_10 "));
		argv = words_free(argv);
	}
}

static void everything(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct podman_settings settings = {.runtime = "runc",
						 .parent = "/a/job-17-an-insta",
						 .has_limits = true,
						 .files = {1, 2},
						 .processes = {3, 4}};
	char **argv = NULL;
	assert_int_equal(launch_of(&launch), 0);
	launch.grant_count = 0;
	launch.spec.pull = SPEC_PULL_NEVER;
	(void)snprintf(launch.spec.workdir, sizeof(launch.spec.workdir), "/w");
	assert_int_equal(spec_add_volume(&launch.spec, "/a:/b:ro", NULL), 0);
	assert_int_equal(spec_add_image_variable(&launch.spec, "A=b c", NULL), 0);
	assert_int_equal(spec_add_argument(&launch.spec, "--privileged", NULL), 0);
	assert_int_equal(spec_add_argument(&launch.spec, "; rm \n%s", NULL), 0);
	assert_int_equal(podman_run(&launch, &settings, &argv, NULL), 0);
	assert_string_equal(
	    joined(argv),
	    "podman --cgroup-manager=cgroupfs --runtime=runc run --rm --log-driver=none "
	    "--pull=never --cgroup-parent=/a/job-17-an-insta --ulimit=nofile=1:2 "
	    "--ulimit=nproc=3:4 --name=sluice-job-17-an-instance --label=sluice.dev/job=17 "
	    "--label=sluice.dev/instance=an-instance " WITHOUT_GPU
	    " --env=A=b c --volume=/a:/b:ro --workdir=/w -- debian:12 --privileged ; rm \n%s");
	argv = words_free(argv);
	assert_int_equal(podman_remove(&launch, &settings, &argv, NULL), 0);
	assert_string_equal(joined(argv),
			    "podman --cgroup-manager=cgroupfs --runtime=runc rm --force --ignore "
			    "--time=0 --volumes -- sluice-job-17-an-instance");
	argv = words_free(argv);
}

static void an_entrypoint_is_one_word(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct podman_settings settings = {.locked = {5, 6}};
	char **argv = NULL;
	assert_int_equal(launch_of(&launch), 0);
	assert_int_equal(spec_add_argument(&launch.spec, "[\"a\", \"b\"]", NULL), 0);
	assert_int_equal(spec_add_argument(&launch.spec, "c", NULL), 0);
	launch.spec.entrypoint = 1;
	launch.spec.memlock = true;
	assert_int_equal(podman_run(&launch, &settings, &argv, NULL), 0);
	assert_non_null(strstr(joined(argv), " --entrypoint=[\"[\\\"a\\\", \\\"b\\\"]\"] -- "
					     "debian:12 c"));
	assert_non_null(strstr(joined(argv), " --ulimit=memlock=5:6 "));
	argv = words_free(argv);
	/* Of a command's words only the first can be it. */
	launch.spec.entrypoint = 2;
	launch.spec.argv[0][0] = '\xff';
	const struct podman_settings more = {.locked = {UINT64_MAX, UINT64_MAX}};
	assert_int_equal(podman_run(&launch, &more, &argv, NULL), 0);
	assert_non_null(strstr(joined(argv), " --entrypoint=\xff\"a\", \"b\"] -- debian:12 c"));
	assert_non_null(strstr(joined(argv), " --ulimit=memlock=-1:-1 "));
	argv = words_free(argv);
}

static void what_only_podman_knows(void **state)
{
	struct launch launch _cleanup_launch_;
	const struct podman_settings settings = {.sets_group = true};
	char **argv = NULL;
	assert_int_equal(launch_of(&launch), 0);
	launch.spec.wants.pids = 9;
	launch.spec.pty = true;
	assert_int_equal(spec_add_tmpfs(&launch.spec, "/t:5", NULL), 0);
	assert_int_equal(podman_run(&launch, &settings, &argv, NULL), 0);
	assert_non_null(strstr(joined(argv), " --pids-limit=9 "));
	assert_non_null(strstr(joined(argv), "mode=777,size=5,notmpcopyup "));
	assert_non_null(strstr(joined(argv), " --tty --detach-keys= -- "));
	argv = words_free(argv);
}

static void versions(void **state)
{
	struct err err = {0};
	assert_int_equal(podman_check_version("podman version 4.1.0", &err), 0);
	assert_int_equal(podman_check_version("podman version 4.3.1", &err), 0);
	assert_int_equal(podman_check_version("podman version 5.0.0-dev", &err), 0);
	assert_int_equal(podman_check_version("podman version 10.0", &err), 0);
	assert_int_equal(podman_check_version("podman version 4.0.3", &err), -ENOTSUP);
	assert_string_equal(err.text, "podman 4.0 is too old: it knows CDI from 4.1 on");
	assert_int_equal(podman_check_version("podman version 3.4.4", &err), -ENOTSUP);
	static const char *const bad[] = {"",
					  "podman",
					  "podman version ",
					  "podman version 4",
					  "podman version .1",
					  "Docker version 28.2",
					  "podman version 99999999999999999999.1",
					  "podman version 4x1"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(podman_check_version(bad[i], &err), -EINVAL);
}

static int once(void *context)
{
	struct launch launch _cleanup_launch_;
	const struct podman_settings settings = {.parent = "/a"};
	char **argv = NULL;
	int result = launch_of(&launch);
	if (result == 0)
		result = podman_run(&launch, &settings, &argv, NULL);
	argv = words_free(argv);
	return result;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(once, NULL) > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_least),
	    cmocka_unit_test(everything),
	    cmocka_unit_test(adapters_are_devices_as_well),
	    cmocka_unit_test(an_entrypoint_is_one_word),
	    cmocka_unit_test(what_only_podman_knows),
	    cmocka_unit_test(versions),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
