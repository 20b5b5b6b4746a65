/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/uninstall.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/validations/ready_files.h"
#include "unit/unit.h"

static struct agent_paths paths;
static char told[4096];
static struct err err;

static void tell(const char *text, void *context)
{
	(void)context;
	size_t used = strlen(told);
	(void)snprintf(told + used, sizeof(told) - used, "%s\n", text);
}

static const char *at(const char *name)
{
	return unit_path(unit_top, name);
}

static void put(const char *name, const char *text)
{
	char path[FILE_PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s", at(name));
	*strrchr(path, '/') = '\0';
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	unit_write(at(name), text);
}

static int setup(void **state)
{
	(void)unit_top_setup(state);
	memset(&paths, 0, sizeof(paths));
	(void)snprintf(paths.runtime_dir, sizeof(paths.runtime_dir), "%s", at("run-dir"));
	(void)snprintf(paths.state_dir, sizeof(paths.state_dir), "%s", at("state"));
	(void)snprintf(paths.socket, sizeof(paths.socket), "%s", at("run-dir/agent.sock"));
	told[0] = '\0';
	return 0;
}

static int run(bool purges)
{
	const struct uninstall_options options = {
	    .paths = &paths, .root = unit_top, .purges = purges, .tell = tell};
	err = (struct err){0};
	return uninstall_run(&options, &err);
}

/* What an agent leaves, and what others do. */
static void leave(void)
{
	char line[FILE_PATH_MAX];
	struct ready_files_report report;
	struct ready_files_wish wish = {.root = unit_top};
	put("state/queue.lock", "");
	put("state/j/7/lock", "");
	put("state/j/7/out.1", "its output\n");
	put("features.d/gfd", "a=b\n");
	(void)snprintf(line, sizeof(line), "file %s\n", at("features.d/gfd"));
	put("state/labels", line);
	put("var/run/cdi/sluice.dev-gpu.json", "{}");
	put("var/run/cdi/sluice-nvidia.com-gpu.json", "{}");
	put("var/run/cdi/nvidia.json", "{}");
	put("var/run/cdi/sluice.txt", "");
	put("var/run/cdi/.sluice.lock", "");
	wish.state_path = at("state/validations.json");
	wish.facts[READY_DRIVER].state = wish.facts[READY_PLUGIN].state = READY_YES;
	assert_int_equal(ready_files_run(&wish, &report, NULL), 0);
	put("run/nvidia/validations/cuda-ready", "");
}

static void test_what_goes_and_what_stays(void **state)
{
	(void)state;
	static const char *const gone[] = {"features.d/gfd",
					   "var/run/cdi/sluice.dev-gpu.json",
					   "var/run/cdi/sluice-nvidia.com-gpu.json",
					   "var/run/cdi/.sluice.lock",
					   "run/nvidia/validations/driver-ready",
					   "run/nvidia/validations/plugin-ready",
					   "state/validations.json",
					   "state/labels"};
	static const char *const stays[] = {"var/run/cdi/nvidia.json", "var/run/cdi/sluice.txt",
					    "run/nvidia/validations/cuda-ready", "state/j/7/out.1"};
	leave();
	assert_int_equal(run(false), 0);
	for (size_t i = 0; i < sizeof(gone) / sizeof(*gone); i++)
		assert_false(file_exists(at(gone[i])));
	for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++)
		assert_true(file_exists(at(stays[i])));
	assert_non_null(strstr(told, "removed: 2 validation files"));
	assert_non_null(strstr(told, "features.d/gfd'"));
	assert_non_null(strstr(told, "sluice.dev-gpu.json'"));
	told[0] = '\0';
	assert_int_equal(run(false), 0); /* nothing is left */
	assert_string_equal(told, "");
	assert_int_equal(run(true), 0);
	assert_false(file_exists(at("state/j")));
	assert_true(file_exists(at("state")));
	assert_non_null(strstr(told, "jobs and their output"));
}

static void test_a_link_leads_nowhere(void **state)
{
	(void)state;
	put("state/queue.lock", "");
	put("elsewhere/file", "");
	assert_int_equal(symlink(at("elsewhere"), at("state/link")), 0);
	assert_int_equal(run(true), 0);
	assert_true(file_exists(at("elsewhere/file")));
	assert_false(file_exists(at("state/link")));
}

static void test_labels_of_the_cluster(void **state)
{
	(void)state;
	put("state/labels", "nodefeature\n");
	assert_int_equal(run(false), 0);
	assert_non_null(strstr(told, "not removed: labels that were published through the "
				     "cluster's API (nodefeature)"));
	assert_true(file_exists(at("state/labels"))); /* what is there is known of */
}

static void test_somebody_is_at_work(void **state)
{
	(void)state;
	leave();
	int fd = open(at("state/queue.lock"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
	assert_int_equal(run(false), -EBUSY);
	assert_non_null(strstr(err.text, "an agent runs with the state in"));
	assert_true(file_exists(at("features.d/gfd")));
	assert_int_equal(close(fd), 0);
	fd = open(at("state/j/7/lock"), O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
	assert_int_equal(run(true), -EBUSY);
	assert_non_null(strstr(err.text, "job 7 runs"));
	assert_true(file_exists(at("features.d/gfd")) && file_exists(at("state/j/7/out.1")));
	assert_int_equal(run(false), 0); /* it keeps its files */
	assert_int_equal(close(fd), 0);
}

static void test_nothing_was_ever_there(void **state)
{
	(void)state;
	assert_int_equal(run(true), 0);
	assert_string_equal(told, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_goes_and_what_stays, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_a_link_leads_nowhere, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_labels_of_the_cluster, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_somebody_is_at_work, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_was_ever_there, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
