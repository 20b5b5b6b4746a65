/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "job/launch.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static int launch_of(struct launch *launch)
{
	launch_init(launch);
	launch->id = 12;
	launch->attempt = 3;
	(void)snprintf(launch->instance, sizeof(launch->instance), "an instance");
	(void)snprintf(launch->runtime_dir, sizeof(launch->runtime_dir), "/run/sluice");
	(void)snprintf(launch->cgroup_root, sizeof(launch->cgroup_root), "/sys/fs/cgroup/x");
	(void)snprintf(launch->adapters, sizeof(launch->adapters), "mlx5_0,mlx5_1");
	launch->adapters_simulated = true;
	launch->log_bytes = UINT64_C(1) << 30;
	launch->keeps_order = true;
	(void)snprintf(launch->own_nodes, sizeof(launch->own_nodes), "/");
	launch->grants = calloc(2, sizeof(*launch->grants));
	if (!launch->grants)
		return -ENOMEM;
	launch->grant_count = 2;
	launch->grants[0] =
	    (struct launch_grant){.uuid = "GPU-a", .label = "GPU 0", .slot_count = 1};
	launch->grants[1] = (struct launch_grant){
	    .uuid = "MIG-b", .label = "", .index = 7, .slot_count = LAUNCH_SLOTS_MAX};
	launch_grant_add(&launch->grants[0], 0);
	launch_grant_add(&launch->grants[1], 0);
	launch_grant_add(&launch->grants[1], 64);
	launch_grant_add(&launch->grants[1], 999);
	(void)snprintf(launch->spec.name, sizeof(launch->spec.name), "a");
	(void)snprintf(launch->spec.directory, sizeof(launch->spec.directory), "/");
	return spec_add_argument(&launch->spec, "true", NULL);
}

static void what_is_written_is_read(void **state)
{
	struct launch launch _cleanup_launch_, again _cleanup_launch_;
	launch_init(&again);
	assert_int_equal(launch_of(&launch), 0);
	char *bytes = NULL;
	size_t length = 0;
	assert_int_equal(launch_format(&launch, &bytes, &length, NULL), 0);
	assert_int_equal(launch_parse(bytes, length, &again, NULL), 0);
	free(bytes);
	assert_int_equal(again.id, 12);
	assert_int_equal(again.attempt, 3);
	assert_string_equal(again.instance, "an instance");
	assert_string_equal(again.runtime_dir, "/run/sluice");
	assert_string_equal(again.sim_state, "");
	assert_string_equal(again.adapters, "mlx5_0,mlx5_1");
	assert_true(again.adapters_simulated);
	assert_int_equal(again.log_bytes, UINT64_C(1) << 30);
	assert_true(again.keeps_order);
	assert_string_equal(again.own_nodes, "/");
	assert_int_equal(again.grant_count, 2);
	assert_memory_equal(again.grants, launch.grants, 2 * sizeof(*launch.grants));
	assert_true(launch_grant_has(&again.grants[1], 999));
	assert_false(launch_grant_has(&again.grants[1], 998));
	assert_false(launch_grant_has(&again.grants[1], LAUNCH_SLOTS_MAX));
	assert_true(spec_is_equal(&launch.spec, &again.spec));
}

/* As it is written, it is not read. */
static void check_refused(const struct launch *launch, const char *says)
{
	struct launch none;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	assert_int_equal(launch_format(launch, &bytes, &length, NULL), 0);
	assert_int_equal(launch_parse(bytes, length, &none, &err), -EINVAL);
	if (!strstr(err.text, says))
		fail_msg("'%s' does not say '%s'", err.text, says);
	free(bytes);
}

static void what_keeps_a_job_to_its_devices_comes_along(void **state)
{
	struct launch launch _cleanup_launch_, again _cleanup_launch_;
	launch_init(&again);
	assert_int_equal(launch_of(&launch), 0);
	(void)snprintf(launch.container, sizeof(launch.container), "/x/sluice-container");
	(void)snprintf(launch.denied_why, sizeof(launch.denied_why), "not all");
	launch.denied = calloc(2, sizeof(*launch.denied));
	assert_non_null(launch.denied);
	launch.denied_count = 2;
	launch.denied[0] = (struct devguard_rule){'c', 195, 1, 7, DEVGUARD_ALL};
	launch.denied[1] =
	    (struct devguard_rule){'b', DEVGUARD_MAJOR_MAX, 0, DEVGUARD_MINOR_MAX, DEVGUARD_READ};
	(void)snprintf(launch.device_root, sizeof(launch.device_root), "/sim");
	launch.minimum_isolation = ISOLATION_REQUIRE;
	launch.own_pids = true;
	launch.parts = calloc(2, sizeof(*launch.parts));
	assert_non_null(launch.parts);
	launch.part_count = 2;
	launch.parts[1].denied = calloc(1, sizeof(*launch.denied));
	assert_non_null(launch.parts[1].denied);
	launch.parts[1].denied[0] = (struct devguard_rule){'c', 195, 2, 2, DEVGUARD_ALL};
	launch.parts[1].denied_count = 1;
	char *bytes = NULL;
	size_t length = 0;
	(void)snprintf(launch.spec.image, sizeof(launch.spec.image), "a");
	assert_int_equal(launch_format(&launch, &bytes, &length, NULL), 0);
	assert_int_equal(launch_parse(bytes, length, &again, NULL), 0);
	assert_string_equal(again.container, launch.container);
	assert_string_equal(again.denied_why, "not all");
	assert_int_equal(again.denied_count, 2);
	assert_memory_equal(again.denied, launch.denied, 2 * sizeof(*launch.denied));
	assert_string_equal(again.device_root, "/sim");
	assert_int_equal(again.minimum_isolation, ISOLATION_REQUIRE);
	assert_true(again.own_pids);
	assert_int_equal(again.part_count, 2);
	assert_int_equal(again.parts[0].denied_count, 0);
	assert_int_equal(again.parts[1].denied_count, 1);
	assert_memory_equal(again.parts[1].denied, launch.parts[1].denied, sizeof(*launch.denied));
	free(bytes);

	static const struct devguard_rule bad[] = {
	    {'x', 195, 1, 7, DEVGUARD_ALL},
	    {'c', 195, 1, 7, DEVGUARD_ALL + 1},
	    {'c', 195, 1, 7, 0},
	    {'c', 195, 8, 7, DEVGUARD_ALL},
	    {'c', DEVGUARD_MAJOR_MAX + 1, 1, 7, DEVGUARD_ALL},
	    {'c', 195, 1, DEVGUARD_MINOR_MAX + 1, DEVGUARD_ALL},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		launch.denied[1] = bad[i];
		check_refused(&launch, "rule 1 of devices cannot be meant");
	}
}

static void bytes_that_are_changed_are_refused(void **state)
{
	struct launch launch _cleanup_launch_;
	assert_int_equal(launch_of(&launch), 0);
	launch.grant_count = 1;
	launch.keeps_order = false; /* the last field, and one that may be missing */
	char *bytes = NULL;
	size_t length = 0;
	assert_int_equal(launch_format(&launch, &bytes, &length, NULL), 0);

	struct launch again;
	struct err err = {0};
	for (size_t cut = 0; cut < length; cut++) {
		assert_int_equal(launch_parse(bytes, cut, &again, &err), -EINVAL);
		assert_null(again.grants);
	}
	free(bytes);

	/* Slot 1 of a device that has one; no slot at all; no device; no job. */
	launch.grants[0].slots[0] = 2;
	check_refused(&launch, "grant 0: it has no device, or slots that are none of it");
	launch.grants[0].slots[0] = 0;
	check_refused(&launch, "grant 0");
	launch.grants[0].slots[0] = 1;
	launch.grants[0].uuid[0] = '\0';
	check_refused(&launch, "grant 0");
	launch.grants[0].uuid[0] = 'G';
	launch.attempt = 0;
	check_refused(&launch, "no attempt");
	launch.attempt = 1;
	launch.minimum_isolation = ISOLATION_ASKED_COUNT;
	check_refused(&launch, "minimum_isolation is 7");
}

static int there_and_back(void *context)
{
	struct launch launch _cleanup_launch_, again _cleanup_launch_;
	launch_init(&again);
	char *bytes = NULL;
	size_t length = 0;
	int result = launch_of(&launch);
	if (result == 0)
		result = launch_format(&launch, &bytes, &length, NULL);
	if (result == 0)
		result = launch_parse(bytes, length, &again, NULL);
	free(bytes);
	return result;
}

static void without_memory_it_says_so(void **state)
{
	assert_true(failmalloc_each(there_and_back, NULL) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_written_is_read),
	    cmocka_unit_test(what_keeps_a_job_to_its_devices_comes_along),
	    cmocka_unit_test(bytes_that_are_changed_are_refused),
	    cmocka_unit_test(without_memory_it_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
