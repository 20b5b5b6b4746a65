/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/choices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/launch.h"
#include "libexec/container/words.h"
#include "unit/unit.h"

/* What comes behind the variables that every container gets, with blanks between. */
static const char *said(const struct launch *launch, const char *tmpfs_options)
{
	static char text[4096];
	static const char last[] = "--env=SLUICE_JOB_INSTANCE";
	struct words words = {.count = 0};
	char **argv = NULL;
	choices_add(&words, launch, tmpfs_options);
	assert_int_equal(words_take(&words, &argv, NULL), 0);
	text[0] = '\0';
	for (char **at = argv; *at; at++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			       at == argv ? "" : " ", *at);
	words_free(argv);
	const char *rest = strstr(text, last);
	assert_non_null(rest);
	return rest + strlen(last);
}

static void everything_that_both_know(void **state)
{
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	assert_string_equal(said(&launch, ""), "");
	struct spec *spec = &launch.spec;
	spec->memlock = spec->privileged = spec->selinux_off = spec->pty = true;
	(void)snprintf(spec->run_as, sizeof(spec->run_as), "1000:5");
	(void)snprintf(spec->workdir, sizeof(spec->workdir), "/w");
	(void)snprintf(spec->port, sizeof(spec->port), "8888:80");
	assert_string_equal(said(&launch, ""),
			    " --workdir=/w --user=1000:5 --cap-add=IPC_LOCK --privileged "
			    "--security-opt=label=disable --env=SLUICE_PORT=80 "
			    "--publish=127.0.0.1:8888:80 "
			    "--interactive --tty");
}

static void directories_in_memory(void **state)
{
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	assert_int_equal(spec_add_tmpfs(&launch.spec, "/dev/shm:4096", NULL), 0);
	assert_int_equal(spec_add_tmpfs(&launch.spec, "/dev/shm:0", NULL), 0);
	assert_int_equal(spec_add_tmpfs(&launch.spec, "/dev/shmx:1", NULL), 0);
	assert_string_equal(said(&launch, ",x"),
			    " --shm-size=4096 --tmpfs=/dev/shm:rw,exec,nosuid,nodev,mode=777,x "
			    "--tmpfs=/dev/shmx:rw,exec,nosuid,nodev,mode=777,size=1,x");
}

static void ports_are_of_this_machine_alone(void **state)
{
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	static const char *const rows[][3] = {
	    {"8888", "8888", " --env=SLUICE_PORT=8888 --publish=127.0.0.1:8888:8888"},
	    {"8888:80", "8888", " --env=SLUICE_PORT=80 --publish=127.0.0.1:8888:80"},
	    {"0:80", "7001", " --env=SLUICE_PORT=80 --publish=127.0.0.1:7001:80"},
	    {"0", "7001", " --env=SLUICE_PORT=7001 --publish=127.0.0.1:7001:7001"},
	    {"0:80", NULL, " --env=SLUICE_PORT=80 --publish=127.0.0.1::80"},
	    {"0", NULL, ""},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		(void)snprintf(launch.spec.port, sizeof(launch.spec.port), "%s", rows[i][0]);
		if (rows[i][1])
			assert_int_equal(setenv("SLUICE_PORT", rows[i][1], 1), 0);
		assert_string_equal(said(&launch, ""), rows[i][2]);
		assert_int_equal(unsetenv("SLUICE_PORT"), 0);
	}
}

static void a_member_of_an_array_knows_which(void **state)
{
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	assert_int_equal(setenv("SLUICE_ARRAY_ID", "7", 1), 0);
	assert_int_equal(setenv("SLUICE_ARRAY_INDEX", "3", 1), 0);
	assert_int_equal(setenv("JOB_COMPLETION_INDEX", "3", 1), 0);
	assert_string_equal(
	    said(&launch, ""),
	    " --env=SLUICE_ARRAY_ID --env=SLUICE_ARRAY_INDEX --env=JOB_COMPLETION_INDEX");
	assert_int_equal(unsetenv("SLUICE_ARRAY_ID"), 0);
	assert_int_equal(unsetenv("SLUICE_ARRAY_INDEX"), 0);
	assert_int_equal(unsetenv("JOB_COMPLETION_INDEX"), 0);
	assert_string_equal(said(&launch, ""), "");
}

static void limits_of_its_own(void **state)
{
	struct launch launch _cleanup_launch_;
	launch_init(&launch);
	struct words words = {.count = 0};
	char **argv = NULL;
	choices_add_group(&words, &launch);
	assert_int_equal(words.count, 0);
	launch.spec.wants.mem_bytes = 4096;
	launch.spec.wants.cpu_milli = 1050;
	launch.spec.wants.pids = 7;
	choices_add_group(&words, &launch);
	assert_int_equal(words_take(&words, &argv, NULL), 0);
	assert_string_equal(argv[0], "--memory=4096");
	assert_string_equal(argv[1], "--memory-swap=4096");
	assert_string_equal(argv[2], "--cpus=1.050");
	assert_string_equal(argv[3], "--pids-limit=7");
	assert_null(argv[4]);
	words_free(argv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(everything_that_both_know),
	    cmocka_unit_test(directories_in_memory),
	    cmocka_unit_test(ports_are_of_this_machine_alone),
	    cmocka_unit_test(a_member_of_an_array_knows_which),
	    cmocka_unit_test(limits_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
