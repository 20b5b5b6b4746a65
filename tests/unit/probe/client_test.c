/* SPDX-License-Identifier: Apache-2.0 */
/* The client with real probes on a small library of our own, and with programs that are none. */
#include "probe/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "hardware/snapshot.h"
#include "unit/unit.h"

#define SECOND UINT64_C(1000000000)

static char *directory;
static struct inventory inventory;
static struct snapshot *snapshot;
static struct err err;

static int setup(void **state)
{
	char path[4096];
	directory = unit_tmp_new();
	inventory_init(&inventory);
	snapshot = NULL;
	memset(&err, 0, sizeof(err));
	(void)snprintf(path, sizeof(path), "%s/whole", getenv("FAKE_NVML_DIR"));
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("SLUICE_SIM_STATE", "/nonexistent/state", 1);
	unsetenv("SLUICE_ROOT");
	return 0;
}

static int teardown(void **state)
{
	inventory_done(&inventory);
	free(snapshot);
	directory = unit_tmp_free(directory);
	return 0;
}

static int collect(const char *behaviour, uint64_t call_ns, uint64_t deadline_ns)
{
	setenv("FAKE_NVML", behaviour, 1);
	const struct probe_options options = {.program = getenv("SLUICE_BIN"),
					      .call_timeout_ns = call_ns};
	return probe_collect(&options, deadline_ns, &inventory, &snapshot, &err);
}

static void test_collect(void **state)
{
	assert_int_equal(collect("gpus=64", 0, 30 * SECOND), 0);
	assert_int_equal(inventory.gpu_count, 64);
	assert_int_equal(snapshot->gpu_count, 64);
	int64_t power;
	assert_true(snapshot_get(&snapshot->gpu[63], SNAPSHOT_POWER, &power));
	assert_int_equal(power, 64000);
}

static void test_errors_and_exit_codes(void **state)
{
	static const struct {
		const char *behaviour;
		int error, exit_code;
	} cases[] = {
	    {"init=9", -ENODEV, 69}, {"init=18", -ELIBBAD, 69},	  {"init=4", -EACCES, 77},
	    {"init=999", -EIO, 69},  {"gpus=1 real", -EPERM, 77},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(collect(cases[i].behaviour, 0, 30 * SECOND), cases[i].error);
		assert_int_equal(probe_exit_code(cases[i].error), cases[i].exit_code);
		assert_int_not_equal(strlen(err.text), 0);
	}
	assert_int_equal(probe_exit_code(0), 0);
	assert_int_equal(probe_exit_code(-ETIMEDOUT), 124);
	assert_int_equal(probe_exit_code(-ENOMEM), 1);
}

static void test_hung_gpu(void **state)
{
	assert_int_equal(collect("gpus=4 uuid:2=hang", SECOND, 30 * SECOND), 0);
	assert_int_equal(inventory.gpu_count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		bool hung = inventory.gpus[i].state == GPU_STATE_HUNG;
		assert_int_equal(hung, inventory.gpus[i].index == 2);
		assert_int_equal(hung, snapshot->gpu[i].state == GPU_STATE_HUNG);
	}
}

static const char *script(const char *text)
{
	static char path[4096];
	(void)snprintf(path, sizeof(path), "%s/program", directory);
	unit_write(path, text);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static int kill_nothing(pid_t pid, int signal_number)
{
	return 0;
}

/* Probes that cannot be killed are left behind, up to a number: then no more are started. */
static void test_too_many_unkillable(void **state)
{
	const struct probe_options options = {
	    .program = script("#!/bin/sh\nexec sleep 30 >/dev/null 2>&1\n"),
	    .call_timeout_ns = SECOND / 20,
	    .period_ns = SECOND / 20,
	    .kill_fn = kill_nothing};
	struct probe_client *client = NULL;
	assert_int_equal(probe_client_start(&options, &client, &err), 0);
	uint64_t end = unit_now_ns() + 60 * SECOND;
	int rc = 0;
	while (rc >= 0) {
		struct probe_event event;
		assert_true(unit_now_ns() < end);
		rc = probe_client_wait(client, SECOND, &event, &err);
	}
	assert_int_equal(rc, -EBUSY);
	uint32_t alive;
	assert_int_equal(probe_client_abandoned(client, &alive), PROBE_ABANDONED_MAX);
	assert_int_equal(alive, PROBE_ABANDONED_MAX);
	assert_non_null(strstr(err.text, "cannot be ended"));
	assert_null(probe_client_stop(client));
}

static int collect_with(const char *program, uint64_t deadline_ns)
{
	const struct probe_options options = {.program = program};
	return probe_collect(&options, deadline_ns, &inventory, &snapshot, &err);
}

static void test_no_program(void **state)
{
	assert_int_equal(collect_with("/nonexistent/sluice", SECOND), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/sluice"));
}

static void test_program_that_dies(void **state)
{
	assert_int_equal(collect_with(script("#!/bin/sh\nkill -SEGV $$\n"), 30 * SECOND), -ELIBBAD);
	assert_non_null(strstr(err.text, "half installed"));
}

static void test_program_that_says_nothing(void **state)
{
	uint64_t begin = unit_now_ns();
	assert_int_equal(
	    collect_with(script("#!/bin/sh\nexec sleep 1000 >/dev/null 2>&1\n"), SECOND),
	    -ETIMEDOUT);
	assert_true(unit_now_ns() - begin < 20 * SECOND);
}

static void test_program_that_talks_nonsense(void **state)
{
	const struct probe_options options = {
	    .program = script("#!/bin/sh\necho nonsense nonsense nonsense >&3\nexec sleep 1000 "
			      ">/dev/null 2>&1\n")};
	struct probe_client *client = NULL;
	assert_int_equal(probe_client_start(&options, &client, &err), 0);
	struct probe_event event;
	assert_int_equal(probe_client_wait(client, 30 * SECOND, &event, &err), 1);
	assert_int_equal(event.kind, PROBE_EVENT_REPLACED);
	assert_string_equal(event.text, "the probe sent nonsense");
	assert_int_equal(probe_client_abandoned(client, NULL), 1);
	assert_null(probe_client_inventory(client));
	assert_null(probe_client_snapshot(client));
	assert_null(probe_client_stop(client));
	assert_null(probe_client_stop(NULL));
}

static void test_words(void **state)
{
	for (uint32_t i = 0; i < PROBE_EVENT_KIND_COUNT; i++)
		assert_non_null(probe_event_kind_to_string(i));
	assert_string_equal(probe_event_kind_to_string(PROBE_EVENT_KIND_COUNT), "unknown");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(test_collect),
	    TEST(test_errors_and_exit_codes),
	    TEST(test_hung_gpu),
	    TEST(test_too_many_unkillable),
	    TEST(test_no_program),
	    TEST(test_program_that_dies),
	    TEST(test_program_that_says_nothing),
	    TEST(test_program_that_talks_nonsense),
	    TEST(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
