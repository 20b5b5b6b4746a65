/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/probes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "unit/unit.h"

static void without_a_library_there_is_nothing_to_find(void **state)
{
	struct probes probes;
	struct err err = {0};
	assert_int_equal(probes_run("/nowhere/libcuda.so.1", NULL, &probes, &err), -ENOENT);
	assert_string_equal(probes.device.uuid, "");
	assert_non_null(strstr(err.text, "/nowhere/libcuda.so.1"));
}

/* The simulated driver of this build, on a T4. */
static void a_simulated_driver_is_told_as_such(void **state)
{
	const char *library = LIBCUDA;
	struct stat found;
	struct probes probes;
	struct err err = {0};
	assert_int_equal(stat(library, &found), 0);
	assert_int_equal(setenv("SLUICE_SIM_PROFILE", PROFILES "/t4x1.profile", 1), 0);
	assert_int_equal(setenv("SLUICE_SIM_STATE", "/nonexistent/sim.state", 1), 0);
	assert_int_equal(probes_run(library, "0", &probes, &err), 0);
	assert_true(probes.is_simulated && probes.has_procaddress);
	assert_string_equal(probes.device.name, "Tesla T4");
	assert_true(probes.asked > 400 && probes.given > 400);
	assert_int_equal(probes.odd_count, 0);
	assert_true(probes.event_ns > 0);
	assert_int_equal(probes_run(library, "7", &probes, &err), -ENODEV);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(without_a_library_there_is_nothing_to_find),
	    cmocka_unit_test(a_simulated_driver_is_told_as_such),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
