/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/cdi/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "doors/cdi/keep_internal.h"
#include "doors/cdi/state.h"
#include "hardware/gpu.h"
#include "tests/unit/cdi/made.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define LIB   "usr/lib/x86_64-linux-gnu/"
#define V     "580.82.07"
#define CDI   "var/run/cdi/"
#define OURS  CDI "sluice.dev-gpu.json"
#define THEIR CDI "sluice-nvidia.com-gpu.json"

/* A machine of one GPU in a directory of the test's own. */
static struct {
	char *top;
	struct gpu gpu;
	struct inventory inventory;
	struct keep_wish wish;
	struct keep_report report;
	struct keep *keep;
	struct err err;
} scene;

static const char *path(const char *name)
{
	return unit_path(scene.top, name);
}

static void put(const char *name, const char *text)
{
	char directory[FILE_PATH_MAX];
	(void)snprintf(directory, sizeof(directory), "%s", path(name));
	*strrchr(directory, '/') = '\0';
	assert_int_equal(file_mkdirs(directory, 0755, NULL), 0);
	unit_write(path(name), text);
}

static void put_library(const char *name, const char *soname)
{
	struct made_library made;
	made_library(&made, soname);
	put(name, "");
	assert_int_equal(file_write_atomic(path(name), &made, sizeof(made), 0644, NULL), 0);
}

static void put_driver(const char *version)
{
	char name[128];
	(void)snprintf(name, sizeof(name), LIB "libcuda.so.%s", version);
	put_library(name, "libcuda.so.1");
	(void)snprintf(name, sizeof(name), LIB "libnvidia-ml.so.%s", version);
	put_library(name, "libnvidia-ml.so.1");
}

/* Every file below /dev is a device. */
static int look(void *context, const char *name, struct stat *out)
{
	(void)context;
	if (lstat(name, out) < 0)
		return -errno;
	out->st_mode = S_IFCHR | 0666;
	return 0;
}

static int open_keep(struct keep **out)
{
	char state_path[FILE_PATH_MAX];
	(void)snprintf(state_path, sizeof(state_path), "%s", path("cdi.state"));
	const struct keep_options options = {
	    .root = scene.top, .state_path = state_path, .look = look};
	return keep_new(&options, out, NULL);
}

static int setup(void **state)
{
	(void)state;
	memset(&scene, 0, sizeof(scene));
	(void)umask(022);
	scene.top = unit_tmp_new();
	put("sys/module/nvidia/version", V "\n");
	put("dev/nvidia0", "");
	put("dev/nvidiactl", "");
	put_driver(V);
	memcpy(scene.gpu.uuid, "GPU-1", 6);
	scene.inventory =
	    (struct inventory){.gpu_count = 1, .gpus = &scene.gpu, .driver_version = V};
	scene.wish = (struct keep_wish){.inventory = &scene.inventory,
					.kind_count = 2,
					.kinds = {"sluice.dev/gpu", "nvidia.com/gpu"}};
	return open_keep(&scene.keep);
}

static int teardown(void **state)
{
	(void)state;
	keep_report_done(&scene.report);
	scene.keep = keep_free(scene.keep);
	scene.top = unit_tmp_free(scene.top);
	return 0;
}

static int run(void)
{
	keep_report_done(&scene.report);
	memset(&scene.report, 0, sizeof(scene.report));
	scene.err = (struct err){0};
	return keep_run(scene.keep, &scene.wish, &scene.report, &scene.err);
}

static void expect(int code, uint32_t written, uint32_t removed)
{
	int rc = run();
	if (rc != code || scene.report.written != written || scene.report.removed != removed)
		fail_msg("%d (%s), %u written, %u removed", rc, scene.err.text,
			 scene.report.written, scene.report.removed);
}

static void expect_kinds(enum keep_state own, enum keep_state shared)
{
	assert_int_equal(scene.report.kind_count, 2);
	assert_int_equal(scene.report.kinds[0].state, own);
	assert_int_equal(scene.report.kinds[1].state, shared);
	assert_int_equal(file_exists(path(OURS)), own == KEEP_WRITTEN || own == KEEP_STAYS);
	assert_int_equal(file_exists(path(THEIR)), shared == KEEP_WRITTEN || shared == KEEP_STAYS);
}

static bool has(const char *name, const char *text)
{
	_cleanup_buf_ struct buf content;
	buf_init(&content, 1 << 16);
	assert_int_equal(file_read(path(name), &content, NULL), 0);
	return strstr(buf_text(&content), text) != NULL;
}

static void test_names(void **state)
{
	(void)state;
	char name[KEEP_NAME_MAX];
	keep_name("sluice.sim/gpu", name);
	assert_string_equal(name, "sluice.sim-gpu.json");
	keep_name("k8s.device-plugin.nvidia.com/gpu", name);
	assert_string_equal(name, "sluice-k8s.device-plugin.nvidia.com-gpu.json");
	keep_name("sluicegate.com/gpu", name); /* somebody else */
	assert_string_equal(name, "sluice-sluicegate.com-gpu.json");
}

static void test_written_once(void **state)
{
	(void)state;
	struct stat before, after;
	expect(0, 2, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
	assert_true(has(THEIR, "\"kind\": \"nvidia.com/gpu\""));
	assert_true(has(THEIR, "\"GPU-1\""));
	assert_true(has(THEIR, "libcuda.so.1"));
	assert_int_equal(stat(path(OURS), &before), 0);
	assert_int_equal(before.st_mode, S_IFREG | 0644);
	assert_int_equal(stat(path(CDI), &after), 0);
	assert_int_equal(after.st_mode, S_IFDIR | 0755);
	expect(0, 0, 0);
	assert_int_equal(stat(path(OURS), &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	/* Somebody has made it unreadable for rootless runtimes, or has edited it. */
	assert_int_equal(chmod(path(OURS), 0600), 0);
	unit_write(path(THEIR), "{}");
	expect(0, 2, 0);
	assert_int_equal(stat(path(OURS), &after), 0);
	assert_int_equal(after.st_mode, S_IFREG | 0644);
	/* Another machine. */
	memcpy(scene.gpu.uuid, "GPU-2", 6);
	expect(0, 2, 0);
	assert_true(has(OURS, "\"GPU-2\""));
	assert_false(has(OURS, "\"GPU-1\""));
}

static void test_the_side_file(void **state)
{
	(void)state;
	_cleanup_state_ struct state read = {.uuid_count = 0};
	struct stat info;
	put("proc/sys/kernel/random/boot_id", "7f6c3a7e-8f5b\n");
	expect(0, 2, 0);
	assert_int_equal(state_read(path("cdi.state"), &read, NULL), 0);
	assert_string_equal(read.driver, V);
	assert_string_equal(read.boot_id, "7f6c3a7e-8f5b");
	assert_int_equal(read.uuid_count, 1);
	assert_string_equal(read.uuids[0], "GPU-1");
	assert_int_equal(read.file_count, 2);
	assert_string_equal(read.files[1].path, path(THEIR));
	assert_string_equal(read.files[1].kind, "nvidia.com/gpu");
	assert_int_equal(read.source_count, 2);
	assert_string_equal(read.sources[0].path, path(LIB "libcuda.so." V));
	assert_int_equal(stat(path(LIB "libcuda.so." V), &info), 0);
	assert_int_equal(read.sources[0].mtime_ns,
			 (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec);
}

static const char foreign_good[] =
    "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: all\n"
    "  containerEdits:\n    env: [A=b]\n";
static const char foreign_broken[] = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\nhooks: 3\n";

/* Whether the other's file is as it was: content, time and inode. */
static void expect_untouched(const char *name, const char *text, const struct stat *before)
{
	struct stat after;
	assert_int_equal(lstat(path(name), &after), 0);
	assert_true(has(name, text));
	assert_int_equal(after.st_ino, before->st_ino);
	assert_memory_equal(&after.st_mtim, &before->st_mtim, sizeof(after.st_mtim));
	assert_int_equal(after.st_mode, before->st_mode);
}

static void foreign(const char *name, const char *text)
{
	struct stat before;
	/* After ours. */
	(void)run();
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
	put(name, text);
	assert_int_equal(lstat(path(name), &before), 0);
	expect(0, 0, 1);
	expect_kinds(KEEP_WRITTEN, KEEP_FOREIGN);
	assert_string_equal(scene.report.kinds[1].foreign, path(name));
	expect(0, 0, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_FOREIGN);
	expect_untouched(name, text, &before);
	/* Before ours: another agent, nothing of ours there. */
	scene.keep = keep_free(scene.keep);
	assert_int_equal(unlink(path(OURS)), 0);
	assert_int_equal(open_keep(&scene.keep), 0);
	expect(0, 1, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_FOREIGN);
	expect_untouched(name, text, &before);
	/* Gone. */
	assert_int_equal(unlink(path(name)), 0);
	expect(0, 1, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
}

static void test_a_file_of_our_name_that_is_anothers(void **state)
{
	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: needs root\n");
		skip();
	}
	put(CDI "sluice-old.com-gpu.json", "{}");
	assert_int_equal(chown(path(CDI "sluice-old.com-gpu.json"), 4242, 4242), 0);
	(void)run();
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
	assert_true(file_exists(path(CDI "sluice-old.com-gpu.json")));
	assert_int_equal(chown(path(CDI "sluice-old.com-gpu.json"), 0, 0), 0);
	(void)run();
	assert_false(file_exists(path(CDI "sluice-old.com-gpu.json")));
}

static void test_foreign_files(void **state)
{
	(void)state;
	foreign("etc/cdi/nvidia.yaml", foreign_good);
	foreign(CDI "nvidia.yaml", foreign_good);
	foreign("etc/cdi/nvidia.yaml", foreign_broken);
	foreign(CDI "nvidia.json", foreign_broken);
	foreign("etc/cdi/sluice.json", foreign_good); /* not where ours are */
}

/* It is being written again, or is a link to ours, which was removed because of it: not ours and
 * theirs in turn for ever. */
static void test_a_foreign_file_that_cannot_be_read_for_a_moment(void **state)
{
	(void)state;
	put("etc/cdi/nvidia.yaml", foreign_good);
	expect(0, 1, 0);
	unit_write(path("etc/cdi/nvidia.yaml"), "");
	expect(0, 0, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_FOREIGN);
	unit_write(path("etc/cdi/nvidia.yaml"), "cdiVersion: 0.5.0\nkind: acme.com/x\n");
	expect(0, 1, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
	assert_int_equal(unlink(path("etc/cdi/nvidia.yaml")), 0);
	assert_int_equal(symlink(path(THEIR), path("etc/cdi/nvidia.yaml")), 0);
	expect(0, 0, 1);
	for (int i = 0; i < 3; i++) {
		expect(0, 0, 0);
		expect_kinds(KEEP_WRITTEN, KEEP_FOREIGN);
	}
	/* One that could never be read loses only its own devices. */
	assert_int_equal(unlink(path("etc/cdi/nvidia.yaml")), 0);
	expect(0, 1, 0);
	put("etc/cdi/garbage.yaml", "{");
	expect(0, 0, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
}

static void test_an_unreadable_directory(void **state)
{
	(void)state;
	put("etc/cdi/acme.yaml", "{}");
	assert_int_equal(chmod(path("etc/cdi"), 0), 0);
	if (access(path("etc/cdi"), R_OK) == 0) {
		print_message("skipped: root can read every directory\n");
		skip();
	}
	/* Nobody knows whose nvidia.com/gpu is. */
	expect(0, 1, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_FOREIGN);
	assert_string_equal(scene.report.kinds[1].foreign, path("etc/cdi"));
	assert_int_equal(chmod(path("etc/cdi"), 0755), 0);
	expect(0, 1, 0);
}

static void age(const char *name)
{
	const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	assert_int_equal(utimensat(AT_FDCWD, path(name), times, 0), 0);
}

static void test_what_is_left_of_others_of_us(void **state)
{
	(void)state;
	static const char *const stays[] = {CDI "sluice-link.json", CDI "sluice-directory.json",
					    CDI "nvidia.json",	    CDI "sluice.yaml",
					    CDI "notsluice-a.json", CDI ".sluice-2.tmp",
					    CDI "other.tmp"};
	put(CDI "sluice-old.com-gpu.json", "{}");
	put(CDI "sluice.sim-gpu.json", "half a fi");
	put(CDI "nvidia.json", "{}");
	put(CDI "sluice.yaml", "{}");
	put(CDI "notsluice-a.json", "{}");
	put(CDI ".sluice-1.tmp", "");
	put(CDI ".sluice-2.tmp", "");
	put(CDI "other.tmp", "");
	age(CDI ".sluice-1.tmp");
	age(CDI "other.tmp");
	assert_int_equal(mkdir(path(CDI "sluice-directory.json"), 0755), 0);
	assert_int_equal(symlink("nvidia.json", path(CDI "sluice-link.json")), 0);
	/* Without a driver nobody knows whose GPUs there will be. */
	scene.wish.inventory = NULL;
	expect(0, 0, 0);
	assert_true(file_exists(path(CDI "sluice-old.com-gpu.json")));
	scene.wish.inventory = &scene.inventory;
	expect(0, 2, 2);
	assert_false(file_exists(path(CDI "sluice-old.com-gpu.json")));
	assert_false(file_exists(path(CDI "sluice.sim-gpu.json")));
	assert_false(file_exists(path(CDI ".sluice-1.tmp")));
	for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++) {
		struct stat info;
		if (lstat(path(stays[i]), &info) < 0)
			fail_msg("%s is gone", stays[i]);
	}
}

static void test_without_a_driver(void **state)
{
	(void)state;
	scene.wish.inventory = NULL;
	expect(0, 0, 0);
	assert_false(file_exists(path(CDI))); /* nothing is made for nothing */
	scene.wish.inventory = &scene.inventory;
	expect(0, 2, 0);
	/* NVML does not answer. */
	scene.wish.inventory = NULL;
	expect(0, 0, 0);
	expect_kinds(KEEP_STAYS, KEEP_STAYS);
	/* The module is unloaded. */
	assert_int_equal(unlink(path("sys/module/nvidia/version")), 0);
	expect(-ENXIO, 0, 0);
	expect_kinds(KEEP_STAYS, KEEP_STAYS);
	scene.wish.inventory = &scene.inventory;
	expect(-ENXIO, 0, 0); /* not told yet */
	expect_kinds(KEEP_STAYS, KEEP_STAYS);
	assert_true(file_exists(path("cdi.state")));
	/* Another's file comes meanwhile, and goes. */
	scene.wish.inventory = NULL;
	put("etc/cdi/nvidia.yaml", foreign_good);
	expect(-ENXIO, 0, 1);
	expect_kinds(KEEP_STAYS, KEEP_FOREIGN);
	assert_int_equal(unlink(path("etc/cdi/nvidia.yaml")), 0);
	expect(-ENXIO, 0, 0);
	expect_kinds(KEEP_STAYS, KEEP_ABSENT);
	put("sys/module/nvidia/version", V "\n");
	scene.wish.inventory = &scene.inventory;
	expect(0, 1, 0);
	expect_kinds(KEEP_WRITTEN, KEEP_WRITTEN);
}

static void test_what_would_not_work_is_removed(void **state)
{
	(void)state;
	expect(0, 2, 0);
	put("sys/module/nvidia/version", "590.11\n");
	expect(-ESTALE, 0, 2);
	expect_kinds(KEEP_ABSENT, KEEP_ABSENT);
	assert_non_null(strstr(scene.err.text, "590.11"));
	assert_false(file_exists(path("cdi.state")));
	expect(-ESTALE, 0, 0);
	put_driver("590.11");
	expect(0, 2, 0);
	assert_true(has(OURS, "libcuda.so.590.11"));
	/* The same while NVML does not start because of it. */
	scene.wish.inventory = NULL;
	put("sys/module/nvidia/version", "600.1\n");
	expect(-ESTALE, 0, 2);
	scene.wish.inventory = &scene.inventory;
	put("sys/module/nvidia/version", "590.11\n");
	expect(0, 2, 0);
	/* No GPU with a node. */
	assert_int_equal(unlink(path("dev/nvidia0")), 0);
	expect(-ENODEV, 0, 2);
	assert_non_null(strstr(buf_text(&scene.report.notes), "GPU 0 (GPU-1) is left out"));
	put("dev/nvidia0", "");
	expect(0, 2, 0);
	/* Not one library. */
	assert_int_equal(rename(path("usr"), path("gone")), 0);
	expect(-ENOENT, 0, 2);
}

static void test_what_is_in_the_place_of_the_directory(void **state)
{
	(void)state;
	assert_int_equal(file_mkdirs(path("var/run"), 0755, NULL), 0);
	unit_write(path("var/run/cdi"), "");
	expect(-ENOTDIR, 0, 0);
	assert_int_equal(unlink(path("var/run/cdi")), 0);
	assert_int_equal(mkdir(path("elsewhere"), 0755), 0);
	assert_int_equal(symlink(path("elsewhere"), path("var/run/cdi")), 0);
	expect(-ELOOP, 0, 0);
	assert_non_null(strstr(scene.err.text, "var/run/cdi': it is a link"));
	assert_false(file_exists(path("elsewhere/sluice.dev-gpu.json")));
	assert_int_equal(unlink(path("var/run/cdi")), 0);
	expect(0, 2, 0);
	/* A directory in the place of a file. */
	assert_int_equal(unlink(path(OURS)), 0);
	assert_int_equal(mkdir(path(OURS), 0755), 0);
	assert_true(run() < 0);
	assert_non_null(strstr(scene.err.text, OURS));
	assert_true(file_exists(path(THEIR)));
}

/* As on a full file system. */
static void test_no_room(void **state)
{
	(void)state;
	struct rlimit before, tight;
	expect(0, 2, 0);
	memcpy(scene.gpu.uuid, "GPU-2", 6);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	tight = before;
	tight.rlim_cur = 100;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	int rc = run();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(rc, -EFBIG);
	assert_non_null(strstr(scene.err.text, "sluice.dev-gpu.json"));
	/* What was there is of another machine. */
	expect_kinds(KEEP_ABSENT, KEEP_ABSENT);
	expect(0, 2, 0);
}

static void test_two_agents(void **state)
{
	(void)state;
	struct keep *second = NULL;
	expect(0, 2, 0);
	assert_int_equal(open_keep(&second), 0);
	struct keep *first = scene.keep;
	scene.keep = second;
	scene.wish.kinds[1] = "acme.com/gpu";
	expect(-EBUSY, 0, 0);
	assert_true(file_exists(path(THEIR)));
	(void)keep_free(first);
	expect(0, 1, 1);
	assert_false(file_exists(path(THEIR)));
	/* Somebody cleans up: it is the same agent's still. */
	assert_int_equal(unlink(path(CDI KEEP_LOCK)), 0);
	expect(0, 0, 0);
	assert_true(file_exists(path(CDI KEEP_LOCK)));
}

static void test_not_wanted_any_more(void **state)
{
	(void)state;
	expect(0, 2, 0);
	put(CDI "sluice-mine.json", "{}"); /* that somebody has put there himself */
	scene.wish.kind_count = 0;
	put("keep", "");
	expect(0, 0, 2);
	assert_false(file_exists(path(OURS)));
	assert_false(file_exists(path(THEIR)));
	assert_true(file_exists(path(CDI "sluice-mine.json")));
	assert_false(file_exists(path("cdi.state")));
	expect(0, 0, 0);
	/* Names in it that are not ours. */
	char text[2 * FILE_PATH_MAX];
	put(CDI "nvidia.json", "{}");
	(void)snprintf(text, sizeof(text),
		       "{\"version\": 1, \"driver\": \"\", \"boot_id\": \"\", \"files\": ["
		       "{\"path\": \"%s/nvidia.json\", \"kind\": \"a\"},"
		       "{\"path\": \"%s/sluice/../../../../keep\", \"kind\": \"a\"},"
		       "{\"path\": \"%s\", \"kind\": \"a\"}]}",
		       path("var/run/cdi"), path("var/run/cdi"), path("keep"));
	put("cdi.state", text);
	expect(0, 0, 0);
	assert_true(file_exists(path(CDI "nvidia.json")));
	assert_true(file_exists(path("keep")));
	/* A pod that is not to write any has not got the directory either. */
	assert_int_equal(rename(path("var/run/cdi"), path("var/run/elsewhere")), 0);
	expect(0, 0, 0);
	assert_false(file_exists(path("var/run/cdi")));
}

static void test_names_to_look_for(void **state)
{
	(void)state;
	scene.wish.name_count = 2;
	scene.wish.names[0] = "nvidia.com/gdrcopy=all";
	scene.wish.names[1] = "nvidia.com/gds=all";
	expect(0, 2, 0);
	assert_int_equal(scene.report.names, 0);
	put("etc/cdi/gds.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gds\ndevices:\n- name: all\n"
				"  containerEdits:\n    env: [A=b]\n");
	expect(0, 0, 0);
	assert_int_equal(scene.report.names, 2);
}

static void expect_roots(struct keep *keep, const char *driver, const char *dev,
			 const char *host_driver, const char *host_dev)
{
	struct keep_roots roots;
	assert_int_equal(keep_find_roots(keep, &scene.wish, &roots, NULL), 0);
	assert_string_equal(roots.driver, driver);
	assert_string_equal(roots.dev, dev);
	assert_int_equal(roots.is_translated, host_driver != NULL);
	if (!host_driver)
		return;
	assert_string_equal(roots.host_driver, host_driver);
	assert_string_equal(roots.host_dev, host_dev);
}

static void test_roots(void **state)
{
	(void)state;
	struct keep keep = {.lock_fd = -1};
	struct keep_roots roots;
	char top[FILE_PATH_MAX];
	(void)snprintf(top, sizeof(top), "%s/", scene.top);
	scene.wish.driver_root = "/";
	scene.wish.container_root = "/driver-root";
	expect_roots(&keep, "", "", NULL, NULL);
	scene.wish.driver_root = top; /* what a driver container has made */
	expect_roots(&keep, scene.top, scene.top, NULL, NULL);
	scene.wish.dev_root = "/";
	scene.wish.driver_root = "/run/nvidia/driver/";
	expect_roots(&keep, "/run/nvidia/driver", "", NULL, NULL);
	keep.is_pod = true;
	scene.wish.container_root = "/nowhere/driver-root";
	assert_int_equal(keep_find_roots(&keep, &scene.wish, &roots, &scene.err), -ENOENT);
	assert_non_null(strstr(scene.err.text, "'/nowhere/driver-root'"));
	scene.wish.container_root = top;
	scene.wish.dev_root = "";
	scene.wish.driver_root = "/";
	expect_roots(&keep, scene.top, scene.top, "", "");
	scene.wish.driver_root = "/run/nvidia/driver";
	expect_roots(&keep, scene.top, scene.top, "/run/nvidia/driver", "/run/nvidia/driver");
	assert_int_equal(unlink(path("dev/nvidiactl")), 0);
	expect_roots(&keep, scene.top, "", "/run/nvidia/driver", "");
	/* A simulated machine has one root. */
	memcpy(keep.root, scene.top, strlen(scene.top) + 1);
	expect_roots(&keep, "", scene.top, NULL, NULL);
}

static int scenario(void *context)
{
	(void)context;
	struct keep *keep = NULL;
	struct keep_report report = {.written = 0};
	int rc = open_keep(&keep);
	if (rc == 0)
		rc = keep_run(keep, &scene.wish, &report, NULL);
	keep_report_done(&report);
	(void)keep_free(keep);
	/* A version that there is no memory for is not known; then nothing is changed. */
	return rc == -ENXIO ? -ENOMEM : rc;
}

static void test_out_of_memory(void **state)
{
	(void)state;
	scene.keep = keep_free(scene.keep);
	assert_true(failmalloc_each(scenario, NULL) > 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(test_names),
	    CASE(test_written_once),
	    CASE(test_the_side_file),
	    CASE(test_a_file_of_our_name_that_is_anothers),
	    CASE(test_foreign_files),
	    CASE(test_a_foreign_file_that_cannot_be_read_for_a_moment),
	    CASE(test_an_unreadable_directory),
	    CASE(test_what_is_left_of_others_of_us),
	    CASE(test_without_a_driver),
	    CASE(test_what_would_not_work_is_removed),
	    CASE(test_what_is_in_the_place_of_the_directory),
	    CASE(test_no_room),
	    CASE(test_two_agents),
	    CASE(test_not_wanted_any_more),
	    CASE(test_names_to_look_for),
	    CASE(test_roots),
	    CASE(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
