/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/unit/cdi/checked.h"
#include "tests/unit/unit.h"

#define NODES(nodes)                                                                               \
	CHECKED_HEAD("acme.com/nic") "- {name: x, containerEdits: {deviceNodes: [" nodes "]}}\n"

/* Of the real machine: /dev/null is 1:3 everywhere. */
static void check_null(struct checked *checked, const char *node)
{
	char text[512];
	(void)snprintf(text, sizeof(text),
		       CHECKED_HEAD("acme.com/nic") "- {name: x, containerEdits: {deviceNodes: "
						    "[{path: /dev/null%s}]}}\n",
		       node);
	checked_write(checked, "/etc/cdi/a.yaml", text);
	checked->options.root = "";
	checked_run(checked, NULL);
}

static void test_numbers(void **state)
{
	struct checked *checked = *state;
	static const char *const good[] = {"", ", type: c, major: 1, minor: 3", ", type: u",
					   ", major: 0, minor: 0", ", hostPath: /dev/null"};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		check_null(checked, good[i]);
		checked_expect(checked, 0, CHECK_NOTE);
	}
	check_null(checked, ", type: c, major: 510, minor: 0");
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_NODE_NUMBER,
		     "'/dev/null' is device 1:3 now, and the file "
		     "states 510:0");
	check_null(checked, ", major: 1");
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_NODE_NUMBER, "states 1:0");
}

static void test_types(void **state)
{
	struct checked *checked = *state;
	check_null(checked, ", type: b");
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_NODE_TYPE,
		     "is a character device, and the file states type "
		     "'b'");
	check_null(checked, ", type: p");
	checked_expect(checked, 1, CHECK_STALE);
	check_null(checked, ", hostPath: /dev");
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_NODE_TYPE, "is a directory, and not a device node");
	/* A link is not followed, as it is not by runtimes. */
	check_null(checked, ", hostPath: /dev/stdin");
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_NODE_TYPE, "is a symbolic link");
}

static void test_missing_nodes(void **state)
{
	struct checked *checked = *state;
	checked_write(checked, "/etc/cdi/a.yaml",
		      NODES("{path: /dev/nvidia-uvm}, {path: /dev/x, hostPath: /dev/nvidiactl}, "
			    "{path: /dev/nvidia-modeset}, {path: /dev/acme}, {path: /dev/acme}"));
	checked_run(checked, NULL);
	checked_expect(checked, 4, CHECK_STALE);
	const struct check_finding *findings = checked->check.findings;
	assert_string_equal(findings[0].fix, "nvidia-modprobe -u");
	assert_string_equal(findings[1].fix, "nvidia-modprobe");
	assert_string_equal(findings[2].fix, "nvidia-modprobe -m");
	assert_non_null(strstr(findings[3].fix, "/etc/cdi/a.yaml"));
	assert_int_equal(findings[3].count, 2);
	assert_string_equal(findings[3].device, "acme.com/nic=x");
	assert_string_equal(findings[3].path, unit_path(checked->root, "dev/acme"));
}

static int looked;

static int look(void *context, struct err *err)
{
	looked++;
	return context ? err_set(err, -ESTALE, "libraries of 550.54, module 580.82") : 0;
}

static void test_versions(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/nvidia0");
	checked_library(checked, "/lib/a/libcuda.so.580.82", "libcuda.so.1");
	checked_library(checked, "/lib/a/libcuda.so.550.54.1", "libcuda.so.1");
	checked_write(checked, "/lib/a/libnvidia-egl-wayland.so.1.1.13", "");
	checked_write(checked, "/lib/firmware/nvidia/550.54.1/gsp.bin", "");
	checked->options.look = look;
	looked = 0;
#define VERSIONED(path)                                                                            \
	CHECKED_HEAD("nvidia.com/gpu")                                                             \
	CHECKED_DEVICE("0", "/dev/nvidia0")                                                        \
	CHECKED_MOUNT(path, "/x")
	checked_write(checked, "/etc/cdi/a.yaml", VERSIONED("/lib/a/libcuda.so.580.82"));
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
	checked_write(checked, "/etc/cdi/a.yaml",
		      VERSIONED("/lib/a/libnvidia-egl-wayland.so.1.1.13"));
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
	assert_int_equal(looked, 0);
	checked_write(checked, "/etc/cdi/a.yaml", VERSIONED("/lib/a/libcuda.so.550.54.1"));
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_MODULE_VERSION,
		     "is of driver 550.54.1, and the loaded kernel module is 580.82");
	assert_string_equal(checked_find(checked, CHECK_MODULE_VERSION)->key, "550.54.1");
	assert_int_equal(looked, 1);
	checked_write(checked, "/etc/cdi/a.yaml",
		      VERSIONED("/lib/firmware/nvidia/550.54.1/gsp.bin"));
	checked->options.context = checked;
	checked_run(checked, NULL);
	checked_expect(checked, 2, CHECK_STALE);
	checked_says(checked, CHECK_DRIVER_UNFIT, "libraries of 550.54");
}

static void test_mounts_and_hooks(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_write(
	    checked, "/etc/cdi/a.yaml",
	    CHECKED_HEAD("acme.com/nic") CHECKED_DEVICE(
		"x", "/dev/acme") "containerEdits:\n"
				  "  mounts:\n"
				  "  - {hostPath: /lib/libcuda.so.580.82, containerPath: "
				  "/lib/libcuda.so.1}\n"
				  "  - {hostPath: /lib/libcuda.so.580.82, containerPath: "
				  "/lib/libcuda.so}\n"
				  "  - {hostPath: /lib/libml.so.580.82, containerPath: "
				  "/lib/libml.so.1}\n"
				  "  - {hostPath: /lib/other, containerPath: /lib/other}\n"
				  "  - {hostPath: /lib/fs, containerPath: /lib/fs, type: tmpfs}\n"
				  "  hooks: [{hookName: prestart, path: /bin/hook}]\n");
	checked_run(checked, NULL);
	checked_expect(checked, 3, CHECK_STALE);
	const struct check_finding *libraries = checked_find(checked, CHECK_MOUNT_MISSING);
	assert_int_equal(libraries->count, 3); /* of one version */
	assert_non_null(strstr(libraries->text, "a file of driver 580.82"));
	checked_says(checked, CHECK_HOOK_MISSING, "/bin/hook', which is a hook");
	checked_library(checked, "/lib/libcuda.so.580.82", "libcuda.so.1");
	checked_library(checked, "/lib/libml.so.580.82", "libml.so.1");
	checked_write(checked, "/lib/other", "");
	checked_write(checked, "/bin/hook", "");
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
}

static void test_libraries(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_library(checked, "/lib/libcuda.so.580.82", "libcuda.so.1");
	checked_library(checked, "/lib/libcuda.so.580.95", "libcuda.so.1");
	assert_int_equal(symlink("libcuda.so.580.82", unit_path(checked->root, "lib/libcuda.so.1")),
			 0);
	checked_write(checked, "/etc/cdi/a.yaml",
		      CHECKED_HEAD("acme.com/nic") CHECKED_DEVICE("x", "/dev/acme")
			  CHECKED_MOUNT("/lib/libcuda.so.580.82", "/usr/lib64/libcuda.so.1"));
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
	assert_int_equal(unlink(unit_path(checked->root, "lib/libcuda.so.1")), 0);
	assert_int_equal(symlink("libcuda.so.580.95", unit_path(checked->root, "lib/libcuda.so.1")),
			 0);
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_LIBRARY_REPLACED, "/lib/libcuda.so.1' is another file now");
}

static void test_half_a_library(void **state)
{
	struct checked *checked = *state;
	checked_node(checked, "/dev/acme");
	checked_write(checked, "/lib/libcuda.so.580.82", "half of it");
	checked_write(checked, "/etc/cdi/a.yaml",
		      CHECKED_HEAD("acme.com/nic") CHECKED_DEVICE("x", "/dev/acme")
			  CHECKED_MOUNT("/lib/libcuda.so.580.82", "/usr/lib64/libcuda.so.1"));
	checked_run(checked, NULL);
	checked_expect(checked, 1, CHECK_STALE);
	checked_says(checked, CHECK_LIBRARY_REPLACED, "named as a library of the driver");
	checked_library(checked, "/lib/libcuda.so.580.82", "libcuda.so.1");
	checked_run(checked, NULL);
	checked_expect(checked, 0, CHECK_NOTE);
}

static void test_what_may_not_be_seen(void **state)
{
	struct checked *checked = *state;
	if (geteuid() == 0)
		skip(); /* root may look everywhere; the test of the command drops it */
	checked_write(checked, "/closed/lib", "");
	checked_node(checked, "/closed/dev/x");
	checked_write(checked, "/etc/cdi/a.yaml",
		      CHECKED_HEAD("acme.com/nic") CHECKED_DEVICE("x", "/closed/dev/x")
			  CHECKED_MOUNT("/closed/lib", "/lib"));
	assert_int_equal(chmod(unit_path(checked->root, "closed"), 0), 0);
	checked_run(checked, NULL);
	assert_int_equal(chmod(unit_path(checked->root, "closed"), 0700), 0);
	checked_expect(checked, 1, CHECK_UNREADABLE);
	assert_int_equal(checked_find(checked, CHECK_PATH_UNREADABLE)->count, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, checked_setup, checked_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_numbers),		 TEST(test_types),
	    TEST(test_missing_nodes),	 TEST(test_versions),
	    TEST(test_mounts_and_hooks), TEST(test_libraries),
	    TEST(test_half_a_library),	 TEST(test_what_may_not_be_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
