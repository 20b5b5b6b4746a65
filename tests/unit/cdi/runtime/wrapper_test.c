/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/runtime/wrapper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/unit.h"

static struct wrapper_settings settings;
static struct wrapper_call call;
static char bundle[FILE_PATH_MAX];

static int setup(void **state)
{
	assert_int_equal(unit_top_setup(state), 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "var/run/cdi"), 0755, NULL), 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "b"), 0755, NULL), 0);
	assert_int_equal(file_path(bundle, NULL, "%s/b", unit_top), 0);
	settings = (struct wrapper_settings){.root = unit_top};
	call = (struct wrapper_call){.bundle = bundle, .config = "config.json"};
	return 0;
}

/* A file of CDI whose devices 0 and "all" say in a variable where they are from. */
static void put_kind(const char *file, const char *kind)
{
	char text[1024];
	(void)snprintf(
	    text, sizeof(text),
	    "{cdiVersion: 0.5.0, kind: %s, containerEdits: {env: [FROM=%s], mounts: ["
	    "{hostPath: /, containerPath: /usr/lib64/libcuda.so.1},"
	    "{hostPath: /, containerPath: /usr/lib64/libnvidia-encode.so.1}]}, devices: ["
	    "{name: '0', containerEdits: {env: [GPU=0]}},"
	    "{name: all, containerEdits: {env: [GPU=all]}}]}",
	    kind, kind);
	unit_write(unit_path(unit_top, file), text);
}

static void put_config(const char *variables)
{
	char text[1024];
	(void)snprintf(text, sizeof(text),
		       "{\"process\": {\"env\": [%s], \"capabilities\": {\"bounding\": "
		       "[\"CAP_SYS_ADMIN\"]}}}",
		       variables);
	unit_write(unit_path(unit_top, "b/config.json"), text);
}

static void read_config(struct buf *out)
{
	buf_init(out, 65536);
	assert_int_equal(file_read(unit_path(unit_top, "b/config.json"), out, NULL), 0);
}

static void expect(const char *has, const char *has_not)
{
	struct err err = {0};
	if (wrapper_edit(&call, &settings, &err) < 0)
		fail_msg("%s", err.text);
	_cleanup_buf_ struct buf text;
	read_config(&text);
	if (!strstr(buf_text(&text), has) || (has_not && strstr(buf_text(&text), has_not)))
		fail_msg("%s", buf_text(&text));
}

/* Fails, and leaves the file as it is. */
static void expect_error(int code, const char *says)
{
	struct err err = {0};
	_cleanup_buf_ struct buf before, after;
	read_config(&before);
	int rc = wrapper_edit(&call, &settings, &err);
	read_config(&after);
	assert_string_equal(buf_text(&before), buf_text(&after));
	if (rc != code || !strstr(err.text, says))
		fail_msg("%d: %s", rc, err.text);
}

static void test_whose_gpu_a_number_is(void **state)
{
	(void)state;
	put_config("\"NVIDIA_VISIBLE_DEVICES=0\"");
	expect_error(-ENODEV, "no CDI specification has GPUs");
	put_kind("var/run/cdi/n.yaml", "nvidia.com/gpu");
	expect("FROM=nvidia.com/gpu", NULL);
	put_kind("var/run/cdi/s.yaml", "sluice.sim/gpu");
	put_config("\"NVIDIA_VISIBLE_DEVICES=all\"");
	expect("FROM=sluice.sim/gpu\",\"GPU=all\"", NULL);
	put_config("\"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0\"");
	expect("FROM=nvidia.com/gpu\",\"GPU=0\"", NULL);
	put_config("\"NVIDIA_VISIBLE_DEVICES=7\"");
	expect_error(-ENODEV, "'sluice.sim/gpu=7': no such device");
}

static void test_files_without_a_gpu(void **state)
{
	(void)state;
	put_kind("var/run/cdi/s.yaml", "sluice.sim/gpu");
	put_config("\"NVIDIA_VISIBLE_DEVICES=none\"");
	expect("libcuda.so.1", "GPU=");
}

static void test_capabilities_narrow(void **state)
{
	(void)state;
	put_kind("var/run/cdi/s.yaml", "sluice.sim/gpu");
	put_config("\"NVIDIA_VISIBLE_DEVICES=0\"");
	expect("libcuda.so.1", "libnvidia-encode");
	put_config("\"NVIDIA_VISIBLE_DEVICES=0\", \"NVIDIA_DRIVER_CAPABILITIES=video\"");
	expect("libnvidia-encode", "libcuda");
	put_config("\"NVIDIA_VISIBLE_DEVICES=0\", \"NVIDIA_DRIVER_CAPABILITIES=all\"");
	expect("libnvidia-encode", NULL);
	expect("libcuda", NULL);
	/* What is not of GPUs is not ours to narrow. */
	put_kind("var/run/cdi/x.yaml", "acme.com/nic");
	put_config("\"NVIDIA_VISIBLE_DEVICES=acme.com/nic=0\"");
	expect("libnvidia-encode", NULL);
}

static void test_nothing_asked_nothing_written(void **state)
{
	(void)state;
	const char *path = unit_path(unit_top, "b/config.json");
	struct stat before, after;
	put_config("\"NVIDIA_VISIBLE_DEVICES=void\"");
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(wrapper_edit(&call, &settings, NULL), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
}

static void test_mode_is_kept_and_config_may_be_elsewhere(void **state)
{
	(void)state;
	struct stat status;
	put_kind("var/run/cdi/s.yaml", "sluice.sim/gpu");
	put_config("\"NVIDIA_VISIBLE_DEVICES=0\"");
	assert_int_equal(chmod(unit_path(unit_top, "b/config.json"), 0640), 0);
	expect("GPU=0", NULL);
	assert_int_equal(stat(unit_path(unit_top, "b/config.json"), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0640);

	put_config("\"NVIDIA_VISIBLE_DEVICES=0\"");
	char absolute[FILE_PATH_MAX];
	assert_int_equal(file_path(absolute, NULL, "%s/b/config.json", unit_top), 0);
	call.bundle = "/nowhere";
	call.config = absolute;
	expect("GPU=0", NULL);
}

static void test_odd_files(void **state)
{
	(void)state;
	struct err err = {0};
	const char *path = unit_path(unit_top, "b/config.json");
	assert_int_equal(wrapper_edit(&call, &settings, &err), -ENOENT);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(wrapper_edit(&call, &settings, &err), -EINVAL);
	assert_non_null(strstr(err.text, "no regular file"));
	assert_int_equal(unlink(path), 0);
	put_config("");
	assert_int_equal(rename(path, unit_path(unit_top, "b/real")), 0);
	assert_int_equal(symlink("real", path), 0);
	assert_int_equal(wrapper_edit(&call, &settings, &err), -ELOOP);
	assert_non_null(strstr(err.text, "it is a link"));
	assert_int_equal(unlink(path), 0);
	unit_write(path, "{\"process\": ");
	expect_error(-EINVAL, "it is not JSON");
	unit_write(path, "{\"a\": 1, \"a\": 2}");
	expect_error(-EINVAL, "a key is there twice");
	assert_int_equal(truncate(path, (4 << 20) + 1), 0);
	assert_int_equal(wrapper_edit(&call, &settings, &err), -EFBIG);
}

static void test_management_and_channels(void **state)
{
	(void)state;
	put_kind("var/run/cdi/s.yaml", "sluice.sim/gpu");
	put_config("\"NVIDIA_VISIBLE_DEVICES=none\", \"NVIDIA_MIG_CONFIG_DEVICES=all\"");
	expect_error(-ENOENT, "mig-minors");
	assert_int_equal(file_mkdirs(unit_path(unit_top, "proc/driver/nvidia-caps"), 0755, NULL),
			 0);
	unit_write(unit_path(unit_top, "proc/driver/nvidia-caps/mig-minors"), "monitor 2\n");
	expect_error(-ENOENT, "does not have 'config'");
	unit_write(unit_path(unit_top, "proc/driver/nvidia-caps/mig-minors"),
		   "config 1\nmonitor 2\n");
	expect_error(-ENOENT, "/dev/nvidia-caps/nvidia-cap1'");
	assert_int_equal(file_mkdirs(unit_path(unit_top, "dev/nvidia-caps"), 0755, NULL), 0);
	assert_int_equal(
	    file_mkdirs(unit_path(unit_top, "dev/nvidia-caps-imex-channels"), 0755, NULL), 0);
	if (mknod(unit_path(unit_top, "dev/nvidia-caps/nvidia-cap1"), S_IFCHR | 0400,
		  makedev(235, 1)) < 0)
		skip(); /* device nodes are root's to make */
	expect("\"path\":\"/dev/nvidia-caps/nvidia-cap1\",\"type\":\"c\",\"major\":235,\"minor\":1,"
	       "\"fileMode\":256",
	       "nvidia-cap2");
	assert_int_equal(mknod(unit_path(unit_top, "dev/nvidia-caps-imex-channels/channel3"),
			       S_IFCHR | 0600, makedev(236, 3)),
			 0);
	put_config("\"NVIDIA_VISIBLE_DEVICES=none\", \"NVIDIA_IMEX_CHANNELS=3\"");
	expect("\"path\":\"/dev/nvidia-caps-imex-channels/channel3\"", "nvidia-cap1");
	put_config("\"NVIDIA_VISIBLE_DEVICES=none\", \"NVIDIA_IMEX_CHANNELS=4\"");
	expect_error(-ENOENT, "channel4");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_whose_gpu_a_number_is, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_files_without_a_gpu, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_capabilities_narrow, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_asked_nothing_written, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_mode_is_kept_and_config_may_be_elsewhere, setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_odd_files, setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_management_and_channels, setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
