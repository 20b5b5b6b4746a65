/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/visible.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "cdi/driver.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define PRIVILEGED "\"capabilities\": {\"bounding\": [\"CAP_CHOWN\", \"CAP_SYS_ADMIN\"]}"
#define ORDINARY                                                                                   \
	"\"capabilities\": {\"bounding\": [\"CAP_CHOWN\"], \"effective\": [\"CAP_SYS_ADMIN\"]}"
#define NVIDIA "NVIDIA_VISIBLE_DEVICES="

static const struct visible_settings nobody = {0};
static const struct visible_settings everybody = {true, true, true, NULL};

static json_t *json(const char *text)
{
	json_t *value = json_loads(text, 0, NULL);
	assert_non_null(value);
	return value;
}

/* A configuration with one variable, or two. */
static json_t *with_env(const char *capabilities, const char *one, const char *two)
{
	char text[2048];
	assert_true((size_t)snprintf(text, sizeof(text),
				     "{\"process\": {%s, \"env\": [\"PATH=/bin\", \"%s\"%s%s%s]}}",
				     capabilities, one, two ? ", \"" : "", two ? two : "",
				     two ? "\"" : "") < sizeof(text));
	return json(text);
}

/* Asks, and compares the names, joined by blanks; "none": files without a GPU; "": nothing. */
static void expect(const json_t *config, const struct visible_settings *settings,
		   const char *wanted, uint32_t capabilities)
{
	_cleanup_visible_ struct visible visible = {0};
	struct err err = {0};
	if (visible_read(config, settings, &visible, &err) < 0)
		fail_msg("%s", err.text);
	char found[1024] = "";
	size_t at = 0;
	for (uint32_t i = 0; i < visible.count; i++)
		at += (size_t)snprintf(found + at, sizeof(found) - at, "%s%s", i ? " " : "",
				       visible.names[i]);
	if (visible.source != VISIBLE_NOBODY && visible.count == 0)
		memcpy(found, "none", 5);
	assert_string_equal(found, wanted);
	assert_int_equal(visible.source == VISIBLE_NOBODY, wanted[0] == '\0');
	assert_int_equal(visible.capabilities, capabilities);
}

static void expect_error(const json_t *config, const struct visible_settings *settings, int code,
			 const char *says)
{
	struct visible visible = {0};
	struct err err = {0};
	int rc = visible_read(config, settings, &visible, &err);
	assert_int_equal(visible.count, 0);
	if (rc != code || !strstr(err.text, says))
		fail_msg("%d: %s", rc, err.text);
}

enum { USUAL = DRIVER_UTILITY | DRIVER_COMPUTE };

static void test_values(void **state)
{
	(void)state;
	static const struct {
		const char *value, *wanted;
	} rows[] = {
	    {"", ""},
	    {" ", ""},
	    {"void", ""},
	    {",, ,", ""},
	    {"none", "none"},
	    {"all", "all"},
	    {"0", "0"},
	    {" 0 ,\\t2,, 1:0 ", "0 2 1:0"},
	    {"GPU-8f1b,MIG-77aa", "GPU-8f1b MIG-77aa"},
	    {"nvidia.com/gpu=0,acme.com/nic=x", "nvidia.com/gpu=0 acme.com/nic=x"},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char variable[256];
		(void)snprintf(variable, sizeof(variable), NVIDIA "%s", rows[i].value);
		json_auto_t *config = with_env(PRIVILEGED, variable, NULL);
		expect(config, &nobody, rows[i].wanted, rows[i].wanted[0] ? USUAL : 0);
	}
	static const char *const bad[] = {
	    "0,none",	       "void,1", "/dev/nvidia0", "0\\n1",	 "gpu=0",
	    "nvidia.com/gpu=", "../0",	 "0 1",		 "MIG-GPU-1/2/3"};
	for (size_t i = 0; i < array_length(bad); i++) {
		char variable[256];
		(void)snprintf(variable, sizeof(variable), NVIDIA "%s", bad[i]);
		json_auto_t *config = with_env(PRIVILEGED, variable, NULL);
		expect_error(config, &nobody, -EINVAL, "NVIDIA_VISIBLE_DEVICES: '");
	}
}

/* An image brings variables along. */
static void test_a_variable_is_no_authority(void **state)
{
	(void)state;
	json_auto_t *ordinary = with_env(ORDINARY, NVIDIA "all", NULL);
	json_auto_t *privileged = with_env(PRIVILEGED, NVIDIA "all", NULL);
	json_auto_t *nothing = json("{\"process\": {\"env\": [\"" NVIDIA "all\"]}}");
	struct visible_settings settings = {.annotations = true, .volume_mounts = true};
	expect(ordinary, &nobody, "", 0);
	expect(ordinary, &settings, "", 0);
	expect(nothing, &settings, "", 0);
	expect(privileged, &settings, "all", USUAL);
	settings.unprivileged_variable = true;
	expect(ordinary, &settings, "all", USUAL);
	assert_true(visible_is_privileged(privileged));
	assert_false(visible_is_privileged(ordinary));
	/* Nor is the version of CUDA in an image. */
	json_auto_t *old = with_env(PRIVILEGED, "CUDA_VERSION=8.0.61", NULL);
	expect(old, &everybody, "", 0);
	/* The last of two counts, whatever begins like it. */
	json_auto_t *two = with_env(PRIVILEGED, NVIDIA "0", NVIDIA "1");
	expect(two, &nobody, "1", USUAL);
	json_auto_t *longer = with_env(PRIVILEGED, NVIDIA "0", "NVIDIA_VISIBLE_DEVICES_X=1");
	expect(longer, &nobody, "0", USUAL);
}

static void test_swarm_variables(void **state)
{
	(void)state;
	struct visible_settings settings = {.variables = "DOCKER_RESOURCE_GPU,OTHER"};
	json_auto_t *one = with_env(PRIVILEGED, NVIDIA "all", "DOCKER_RESOURCE_GPU=0,1");
	expect(one, &settings, "0 1", USUAL);
	json_auto_t *both = with_env(PRIVILEGED, "OTHER=2", "DOCKER_RESOURCE_GPU=0");
	expect(both, &settings, "0 2", USUAL);
	json_auto_t *empty = with_env(PRIVILEGED, NVIDIA "all", "OTHER=");
	expect(empty, &settings, "", 0);
	json_auto_t *plain = with_env(PRIVILEGED, NVIDIA "3", NULL);
	expect(plain, &settings, "3", USUAL);
	json_auto_t *ordinary = with_env(ORDINARY, "OTHER=2", NULL);
	expect(ordinary, &settings, "", 0);
}

static void test_annotations(void **state)
{
	(void)state;
	json_auto_t *config =
	    json("{\"annotations\": {\"cdi.k8s.io/a\": \"nvidia.com/gpu=0, acme.com/x=y\","
		 "\"other\": \"nvidia.com/gpu=1\", \"cdi.k8s.io/b\": \"a.b/c=d\"},"
		 "\"process\": {" PRIVILEGED ", \"env\": [\"" NVIDIA "all\"]}}");
	struct visible_settings settings = {.annotations = true};
	expect(config, &settings, "nvidia.com/gpu=0 acme.com/x=y a.b/c=d", DRIVER_ALL);
	expect(config, &nobody, "all", USUAL);
	json_auto_t *bare = json("{\"annotations\": {\"cdi.k8s.io/a\": \"0\"}}");
	expect_error(bare, &settings, -EINVAL, "cdi.k8s.io/a: '0' is not VENDOR/CLASS=NAME");
	json_auto_t *none = json("{\"annotations\": {\"cdi.k8s.io/a\": \" ,\"}}");
	expect_error(none, &settings, -EINVAL, "cdi.k8s.io/a: it names no device");
	json_auto_t *number = json("{\"annotations\": {\"cdi.k8s.io/a\": 1}}");
	expect_error(number, &settings, -EINVAL, "it names no device");
}

#define MOUNT(name)                                                                                \
	"{\"source\": \"/dev/null\", \"destination\": \"/var/run/nvidia-container-devices/" name   \
	"\"}"

static void test_mounts(void **state)
{
	(void)state;
	struct visible_settings settings = {.volume_mounts = true};
	json_auto_t *config = json("{\"mounts\": [" MOUNT("GPU-1") "," MOUNT(
	    "cdi/nvidia.com/gpu/"
	    "0:1") "," MOUNT("imex/7") ", {\"source\": \"/dev/zero\", \"destination\":"
				       "\"/var/run/nvidia-container-devices/GPU-2\"}, {\"source\": "
				       "\"/dev/null\","
				       "\"destination\": \"/etc/x\"}, 3]}");
	expect(config, &settings, "GPU-1 nvidia.com/gpu=0:1", USUAL);
	_cleanup_visible_ struct visible visible = {0};
	assert_int_equal(visible_read(config, &settings, &visible, NULL), 0);
	assert_int_equal(visible.source, VISIBLE_MOUNT);
	assert_int_equal(visible.channel_count, 1);
	assert_int_equal(visible.channels[0], 7);
	expect(config, &nobody, "", 0);
	json_auto_t *all = json("{\"mounts\": [" MOUNT("all") "]}");
	expect(all, &settings, "all", USUAL);
	json_auto_t *none = json("{\"mounts\": [" MOUNT("none") "]}");
	expect(none, &settings, "none", USUAL);
	static const char *const bad[] = {
	    "{\"mounts\": [" MOUNT("cdi/nvidia.com/gpu") "]}",
	    "{\"mounts\": [" MOUNT("cdi/nvidia.com/gpu/") "]}",
	    "{\"mounts\": [" MOUNT("cdi/nvidia.com/gpu/a/b") "]}",
	    "{\"mounts\": [" MOUNT("imex/x") "]}",
	    "{\"mounts\": [" MOUNT("../etc") "]}",
	};
	for (size_t i = 0; i < array_length(bad); i++) {
		json_auto_t *wrong = json(bad[i]);
		expect_error(wrong, &settings, -EINVAL, "nvidia-container-devices/");
	}
}

static void test_capabilities(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		uint32_t wanted;
	} rows[] = {
	    {"", USUAL},
	    {"all", DRIVER_ALL},
	    {"video, compute", DRIVER_VIDEO | DRIVER_COMPUTE},
	    {"compat32,utility", DRIVER_UTILITY},
	    {"graphics,ngx,display", DRIVER_GRAPHICS | DRIVER_NGX | DRIVER_DISPLAY},
	};
	for (size_t i = 0; i < array_length(rows); i++) {
		char variable[256];
		(void)snprintf(variable, sizeof(variable), "NVIDIA_DRIVER_CAPABILITIES=%s",
			       rows[i].value);
		json_auto_t *config = with_env(PRIVILEGED, NVIDIA "0", variable);
		expect(config, &nobody, "0", rows[i].wanted);
	}
	json_auto_t *bad =
	    with_env(PRIVILEGED, NVIDIA "0", "NVIDIA_DRIVER_CAPABILITIES=compute,sing");
	expect_error(bad, &nobody, -EINVAL, "NVIDIA_DRIVER_CAPABILITIES: 'sing' is no driver");
	/* Nobody asks: nothing is looked at. */
	json_auto_t *unasked =
	    with_env(ORDINARY, NVIDIA "0", "NVIDIA_DRIVER_CAPABILITIES=compute,sing");
	expect(unasked, &nobody, "", 0);
}

static void test_management_of_mig(void **state)
{
	(void)state;
	_cleanup_visible_ struct visible visible = {0};
	json_auto_t *config = with_env(PRIVILEGED, NVIDIA "0", "NVIDIA_MIG_CONFIG_DEVICES=all");
	assert_int_equal(visible_read(config, &nobody, &visible, NULL), 0);
	assert_true(visible.mig_config);
	assert_false(visible.mig_monitor);
	json_auto_t *odd = with_env(PRIVILEGED, NVIDIA "0", "NVIDIA_MIG_MONITOR_DEVICES=0");
	expect_error(odd, &nobody, -EINVAL, "'0' is not 'all'");
	json_auto_t *ordinary = with_env(ORDINARY, NVIDIA "0", "NVIDIA_MIG_MONITOR_DEVICES=all");
	expect_error(ordinary, &everybody, -EPERM, "NVIDIA_MIG_MONITOR_DEVICES: only a privileged");
	json_auto_t *none = with_env(ORDINARY, NVIDIA "0", "NVIDIA_MIG_MONITOR_DEVICES=void");
	expect(none, &everybody, "0", USUAL);
}

static void test_imex_channels(void **state)
{
	(void)state;
	_cleanup_visible_ struct visible visible = {0};
	json_auto_t *config = with_env(PRIVILEGED, NVIDIA "none", "NVIDIA_IMEX_CHANNELS=0, 12");
	assert_int_equal(visible_read(config, &nobody, &visible, NULL), 0);
	assert_int_equal(visible.channel_count, 2);
	assert_int_equal(visible.channels[1], 12);
	/* A mount of a channel alone asks for no GPU, and adds nothing to what the variables say.
	 */
	struct visible_settings mounts = {.volume_mounts = true};
	_cleanup_visible_ struct visible alone = {0};
	json_auto_t *mount = json("{\"mounts\": [" MOUNT(
	    "imex/7") "], \"process\": {" PRIVILEGED ", \"env\": [\"" NVIDIA "0\"]}}");
	assert_int_equal(visible_read(mount, &mounts, &alone, NULL), 0);
	assert_int_equal(alone.source, VISIBLE_VARIABLE);
	assert_int_equal(alone.channel_count, 0);
	json_auto_t *bad = with_env(PRIVILEGED, NVIDIA "none", "NVIDIA_IMEX_CHANNELS=65536");
	expect_error(bad, &nobody, -EINVAL, "NVIDIA_IMEX_CHANNELS: '65536' is no IMEX channel");
	json_auto_t *void_ = with_env(PRIVILEGED, NVIDIA "void", "NVIDIA_IMEX_CHANNELS=x");
	expect(void_, &nobody, "", 0);
}

static void test_odd_configurations(void **state)
{
	(void)state;
	static const char *const texts[] = {
	    "{}",
	    "[]",
	    "{\"process\": 1, \"mounts\": {}, \"annotations\": []}",
	    ("{\"process\": {\"env\": [1, null, \"\", \"=\"], \"capabilities\": "
	     "[\"CAP_SYS_ADMIN\"]}}"),
	    "{\"process\": {\"env\": {\"a\": 1}, \"capabilities\": {\"bounding\": [1]}}}",
	    "{\"mounts\": [{\"source\": 1, \"destination\": 2}, null]}",
	};
	for (size_t i = 0; i < array_length(texts); i++) {
		json_auto_t *config = json(texts[i]);
		expect(config, &everybody, "", 0);
	}
}

static void test_limits(void **state)
{
	(void)state;
	json_auto_t *config = json("{\"process\": {" PRIVILEGED "}}");
	char text[8192] = NVIDIA;
	for (size_t i = strlen(text); i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "0,", 3);
	json_t *env = json_pack("[s]", text);
	assert_non_null(env);
	assert_int_equal(json_object_set_new(json_object_get(config, "process"), "env", env), 0);
	expect_error(config, &nobody, -E2BIG, "more than 1024 devices");
	memset(text + strlen(NVIDIA), 'x', 600);
	text[strlen(NVIDIA) + 600] = '\0';
	env = json_pack("[s]", text);
	assert_non_null(env);
	assert_int_equal(json_object_set_new(json_object_get(config, "process"), "env", env), 0);
	expect_error(config, &nobody, -EINVAL, "is too long");
}

static int visible_again(void *context)
{
	_cleanup_visible_ struct visible visible = {0};
	return visible_read(context, &everybody, &visible, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	json_auto_t *config = with_env(PRIVILEGED, NVIDIA "0,1", NULL);
	assert_true(failmalloc_each(visible_again, config) > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_values),
	    cmocka_unit_test(test_a_variable_is_no_authority),
	    cmocka_unit_test(test_swarm_variables),
	    cmocka_unit_test(test_annotations),
	    cmocka_unit_test(test_mounts),
	    cmocka_unit_test(test_capabilities),
	    cmocka_unit_test(test_management_of_mig),
	    cmocka_unit_test(test_imex_channels),
	    cmocka_unit_test(test_odd_configurations),
	    cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
