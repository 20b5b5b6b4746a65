/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/surroundings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "hardware/minors.h"
#include "policy/config.h"
#include "tests/unit/doors/kubelet/rig.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

static struct scene {
	char *root;
	struct rig *rig;
	struct surroundings surroundings;
} scene;

static int set_up(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	scene.root = unit_tmp_new();
	scene.rig = rig_new(2);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	surroundings_done(&scene.surroundings);
	scene.rig = rig_free(scene.rig);
	scene.root = unit_tmp_free(scene.root);
	return 0;
}

static void make(const char *name, const char *text)
{
	char path[512];
	(void)snprintf(path, sizeof(path), "%s%s", scene.root, name);
	*strrchr(path, '/') = '\0';
	assert_int_equal(file_mkdirs(path, 0755, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s%s", scene.root, name);
	unit_write(path, text);
}

static int try(const char *text, struct err *err)
{
	struct config *config = NULL;
	int rc = config_parse(text, strlen(text), "test.yaml", NULL, true, &config, err);
	surroundings_done(&scene.surroundings);
	if (rc == 0)
		rc = surroundings_read(scene.root, config, &scene.rig->inventory,
				       &scene.surroundings, err);
	(void)config_free(config);
	return rc;
}

static const struct surroundings *read_them(const char *text)
{
	struct err err = {0};
	if (try(text, &err) < 0)
		fail_msg("%s", err.text);
	return &scene.surroundings;
}

static void test_nothing_is_there(void **state)
{
	(void)state;
	const struct surroundings *out = read_them("");
	assert_int_equal(out->resource.control, 0);
	assert_null(out->resource.minors);
	assert_null(out->resource.imex_host_path);
	assert_string_equal(out->problem, "");
	assert_string_equal(out->warning, "");
}

static void test_control_nodes(void **state)
{
	(void)state;
	make("/dev/nvidiactl", "");
	make("/dev/nvidia-modeset", "");
	assert_int_equal(read_them("")->resource.control, RESOURCE_NVIDIACTL | RESOURCE_MODESET);
	make("/dev/nvidia-uvm", "");
	assert_int_equal(read_them("")->resource.control,
			 RESOURCE_NVIDIACTL | RESOURCE_UVM | RESOURCE_MODESET);
}

static void test_numbers_of_mig_capabilities(void **state)
{
	(void)state;
	uint32_t cap = 0;
	make(MINORS_PATH, "gpu100/gi7/access 40\ngpu100/gi7/ci0/access 41\n");
	assert_null(read_them("")->resource.minors); /* nobody needs it */
	rig_add_mig(scene.rig, 0, "1g.5gb");
	const struct surroundings *out = read_them("");
	assert_int_equal(minors_find(out->resource.minors, 100, 7, 0, &cap), 0);
	assert_int_equal(cap, 41);
	assert_string_equal(out->warning, "");
}

static void test_numbers_that_cannot_be_read(void **state)
{
	(void)state;
	rig_add_mig(scene.rig, 0, "1g.5gb");
	const struct surroundings *out = read_them("");
	assert_null(out->resource.minors);
	assert_non_null(strstr(out->warning, "mig-minors"));
	assert_string_equal(out->problem, "");
}

#define IMEX "imex: {channelIDs: [0], required: %s}\nflags: {nvidiaDriverRoot: /run/driver}\n"

static void test_imex_channel(void **state)
{
	(void)state;
	char wanted[128], required[128];
	(void)snprintf(wanted, sizeof(wanted), IMEX, "false");
	(void)snprintf(required, sizeof(required), IMEX, "true");
	assert_non_null(strstr(read_them(wanted)->warning, "IMEX"));
	assert_null(scene.surroundings.resource.imex_host_path);
	assert_non_null(strstr(read_them(required)->problem, "IMEX"));
	/* A plain file is a device of a simulated machine only. */
	make(SURROUNDINGS_IMEX_PATH, "");
	assert_non_null(strstr(read_them(required)->problem, "IMEX"));
	scene.rig->inventory.simulated = true;
	assert_string_equal(read_them(required)->resource.imex_host_path, SURROUNDINGS_IMEX_PATH);
	assert_string_equal(scene.surroundings.problem, "");
	make("/run/driver" SURROUNDINGS_IMEX_PATH, "");
	assert_string_equal(read_them(required)->resource.imex_host_path,
			    "/run/driver" SURROUNDINGS_IMEX_PATH);
	assert_null(read_them("")->resource.imex_host_path); /* not asked for */
}

static int scenario(void *context)
{
	(void)context;
	int rc = try("", NULL);
	surroundings_done(&scene.surroundings);
	return rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	make(MINORS_PATH, "gpu100/gi7/access 40\ngpu100/gi7/ci0/access 41\n");
	rig_add_mig(scene.rig, 0, "1g.5gb");
	assert_true(failmalloc_each(scenario, NULL) > 3);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    CASE(test_nothing_is_there),
	    CASE(test_control_nodes),
	    CASE(test_numbers_of_mig_capabilities),
	    CASE(test_numbers_that_cannot_be_read),
	    CASE(test_imex_channel),
	    CASE(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
