/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/nodes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "hardware/gpu.h"
#include "tests/unit/unit.h"

static struct {
	char *top;
	struct gpu gpu;
	struct mig_device mig;
	struct inventory inventory;
	int result;	     /* of make() */
	const char *refused; /* the path for which it is */
	struct buf made;
} scene;

static int make(void *context, const char *path, mode_t mode, uid_t uid, gid_t gid, dev_t device)
{
	assert_ptr_equal(context, &scene);
	assert_memory_equal(path, scene.top, strlen(scene.top));
	path += strlen(scene.top);
	if (scene.result < 0 && strcmp(path, scene.refused) == 0)
		return scene.result;
	assert_int_equal(buf_printf(&scene.made, "%s %04o %u:%u %u:%u\n", path, (unsigned)mode,
				    (unsigned)uid, (unsigned)gid, major(device), minor(device)),
			 0);
	return 0;
}

static void put(const char *path, const char *text)
{
	char directory[FILE_PATH_MAX];
	(void)snprintf(directory, sizeof(directory), "%s", unit_path(scene.top, path));
	*strrchr(directory, '/') = '\0';
	assert_int_equal(file_mkdirs(directory, 0755, NULL), 0);
	unit_write(unit_path(scene.top, path), text);
}

static int setup(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	scene.top = unit_tmp_new();
	buf_init(&scene.made, 4096);
	scene.gpu.minor = 3;
	scene.mig = (struct mig_device){.gi = 1, .ci = 0};
	scene.inventory =
	    (struct inventory){.gpu_count = 1, .gpus = &scene.gpu, .migs = &scene.mig};
	assert_int_equal(mkdir(unit_path(scene.top, "dev"), 0755), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	buf_done(&scene.made);
	scene.top = unit_tmp_free(scene.top);
	return 0;
}

static const char devices[] = "Character devices:\n  1 mem\n195 nvidia\n195 nvidia-modeset\n"
			      "195 nvidiactl\n236 nvidia-caps\n509 nvidia-caps-imex-channels\n"
			      "510 nvidia-uvm\n\nBlock devices:\n259 nvidia-uvm\n";

static int run(struct buf *notes, struct err *err)
{
	const struct nodes_options options = {.root = scene.top, .make = make, .context = &scene};
	return nodes_make(&options, &scene.inventory, notes, err);
}

static void expect(int count, const char *made)
{
	struct err err = {0};
	int rc = run(NULL, &err);
	if (rc != count)
		fail_msg("%d (%s), not %d", rc, err.text, count);
	assert_string_equal(buf_text(&scene.made), made);
	buf_clear(&scene.made);
}

static void test_what_is_missing(void **state)
{
	(void)state;
	expect(0, ""); /* no module */
	put("proc/devices", devices);
	put("dev/nvidiactl", "");
	expect(2, "/dev/nvidia-uvm 0666 0:0 510:0\n/dev/nvidia-uvm-tools 0666 0:0 510:1\n");
	put("dev/nvidia-uvm", "");
	put("sys/module/nvidia_modeset/refcnt", "0\n");
	put("proc/driver/nvidia/params",
	    "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nDeviceFileUID: 7\n"
	    "DeviceFileGID: 44\nDeviceFileMode: 432\nRegistryDwords: \"\"\n");
	expect(2, "/dev/nvidia-modeset 0660 7:44 195:254\n"
		  "/dev/nvidia-uvm-tools 0660 7:44 510:1\n");
	/* A link to nowhere is somebody's, too. */
	assert_int_equal(symlink("nowhere", unit_path(scene.top, "dev/nvidia-uvm-tools")), 0);
	expect(1, "/dev/nvidia-modeset 0660 7:44 195:254\n");
	put("proc/driver/nvidia/params", "ModifyDeviceFiles: 0\n");
	expect(0, ""); /* the administrator does it himself */
}

static void test_before_550(void **state)
{
	(void)state;
	put("proc/devices", "Character devices:\n195 nvidia-frontend\n");
	expect(1, "/dev/nvidiactl 0666 0:0 195:255\n");
	put("proc/devices", "Character devices:\n195 acme\n");
	expect(0, "");
}

static void test_capabilities(void **state)
{
	(void)state;
	put("proc/devices", "Character devices:\n236 nvidia-caps\n");
	put("proc/driver/nvidia/capabilities/gpu3/mig/gi1/access",
	    "DeviceFileMinor: 417\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
	put("proc/driver/nvidia/capabilities/gpu3/mig/gi1/ci0/access",
	    "DeviceFileMinor: 418\nDeviceFileMode: 292\nDeviceFileModify: 0\n");
	expect(0, "");
	scene.inventory.mig_count = 1;
	expect(1, "/dev/nvidia-caps/nvidia-cap417 0444 0:0 236:417\n");
	assert_true(file_exists(unit_path(scene.top, "dev/nvidia-caps")));
	put("proc/driver/nvidia/capabilities/gpu3/mig/gi1/ci0/access", "DeviceFileModify: 1\n");
	put("dev/nvidia-caps/nvidia-cap417", "");
	expect(0, ""); /* which number? */
}

static void test_one_that_cannot_be_made(void **state)
{
	(void)state;
	struct err err = {0};
	_cleanup_buf_ struct buf notes;
	buf_init(&notes, 4096);
	put("proc/devices", devices);
	scene.result = -EPERM;
	scene.refused = "/dev/nvidiactl";
	assert_int_equal(run(&notes, &err), -EPERM);
	assert_non_null(strstr(err.text, "dev/nvidiactl': Operation not permitted"));
	assert_string_equal(buf_text(&scene.made), "/dev/nvidia-uvm 0666 0:0 510:0\n"
						   "/dev/nvidia-uvm-tools 0666 0:0 510:1\n");
	assert_non_null(strstr(buf_text(&notes), "dev/nvidia-uvm (510:0)\n"));
	buf_clear(&scene.made);
	scene.result = -EEXIST; /* another was faster */
	expect(2, "/dev/nvidia-uvm 0666 0:0 510:0\n/dev/nvidia-uvm-tools 0666 0:0 510:1\n");
}

/* As root and where nodes may be made. */
static void test_a_real_node(void **state)
{
	(void)state;
	const struct nodes_options options = {.root = scene.top};
	struct stat info;
	struct err err = {0};
	put("proc/devices", "Character devices:\n510 nvidia-uvm\n");
	put("proc/driver/nvidia/params", "DeviceFileMode: 438\nDeviceFileGID: 44\n");
	mode_t mask = umask(077);
	int rc = nodes_make(&options, &scene.inventory, NULL, &err);
	(void)umask(mask);
	if (rc == -EPERM) {
		print_message("skipped: device nodes cannot be made here: %s\n", err.text);
		skip();
	}
	assert_int_equal(rc, 2);
	assert_int_equal(lstat(unit_path(scene.top, "dev/nvidia-uvm-tools"), &info), 0);
	assert_int_equal(info.st_mode, S_IFCHR | 0666);
	assert_int_equal(info.st_gid, 44);
	assert_int_equal(info.st_rdev, makedev(510, 1));
}

static void test_numbers_out_of_range(void **state)
{
	(void)state;
	struct nodes_majors majors = {.uvm = 9};
	struct nodes_rule rule = {.mode = 0600};
	static const char wrong[] = "99999999999 nvidia-uvm\nnvidia-uvm\n 12\n-1 nvidia-caps\n";
	static const char odd[] = "DeviceFileMode: 4096\nDeviceFileMinor: 4294967295\n"
				  "DeviceFileUID:3\nDeviceFileGID: x\n: 4\nModifyDeviceFiles: ";
	nodes_devices_parse(wrong, sizeof(wrong) - 1, &majors);
	assert_int_equal(majors.uvm, 9);
	assert_int_equal(majors.caps, 0);
	nodes_rule_parse(odd, sizeof(odd) - 1, &rule);
	assert_int_equal(rule.mode, 0600);
	assert_int_equal(rule.uid, 0);
	assert_false(rule.has_minor);
	assert_false(rule.may_make);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_what_is_missing, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_before_550, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_capabilities, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_cannot_be_made, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_real_node, setup, teardown),
	    cmocka_unit_test(test_numbers_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
