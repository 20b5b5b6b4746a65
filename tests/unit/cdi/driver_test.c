/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "tests/unit/cdi/made.h"
#include "tests/unit/cdi/tree.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define DEBIAN "/usr/lib/x86_64-linux-gnu"
#define V      "580.82.07"

static void put(const char *path, const void *bytes, size_t length)
{
	tree_put(unit_top, path, bytes, length);
}

static void library(const char *path, const char *soname)
{
	tree_library(unit_top, path, soname);
}

static void debian(void)
{
	library(DEBIAN "/libcuda.so." V, "libcuda.so.1");
	library(DEBIAN "/libnvidia-ml.so." V, "libnvidia-ml.so.1");
	library(DEBIAN "/libnvidia-glcore.so." V, "libnvidia-glcore.so." V);
	library(DEBIAN "/libnvidia-new.so." V, "libnvidia-new.so.1");
	library(DEBIAN "/vdpau/libvdpau_nvidia.so." V, "libvdpau_nvidia.so.1");
	library(DEBIAN "/libssl.so.3.1", "libssl.so.3");
	put("/usr/bin/nvidia-smi", "x", 1);
	put("/lib/firmware/nvidia/" V "/gsp_ga10x.bin", "x", 1);
	put("/lib/firmware/nvidia/" V "/other.bin", "x", 1);
}

static int find(const char *version, struct cdi_driver *out, struct err *err)
{
	const struct driver_options options = {.root = unit_top,
					       .version = version,
					       .release = "6.1.0",
					       .firmware = "",
					       .triplet = "x86_64-linux-gnu"};
	return driver_find(&options, out, err);
}

static const char *kind_name(enum driver_kind kind)
{
	static const char *const names[] = {"library",	 "program", "firmware", "socket",
					    "directory", "data",    "X module"};
	assert_in_range(kind, 0, sizeof(names) / sizeof(names[0]) - 1);
	return names[kind];
}

static const char *capability_name(uint32_t bits)
{
	static const char *const names[] = {"utility", "compute", "video", "graphics",
					    "ngx",     "display", "other", "all"};
	uint32_t found;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (driver_capabilities_parse(names[i], &found, NULL) == 0 && found == bits)
			return names[i];
	return "other";
}

/* "kind capabilities path name", one a line. */
static void expect_files(const struct cdi_driver *driver, const char *expected)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, 1 << 16);
	for (uint32_t i = 0; i < driver->file_count; i++) {
		const struct driver_file *file = &driver->files[i];
		assert_int_equal(buf_printf(&text, "%s %s %s %s\n", kind_name(file->kind),
					    capability_name(file->capabilities), file->path,
					    file->name),
				 0);
	}
	assert_string_equal(buf_text(&text), expected);
}

static void expect_problem(const struct cdi_driver *driver, bool is_severe, bool is_mismatch,
			   const char *text)
{
	assert_int_equal(driver->problem_count, 1);
	const struct driver_problem *problem = &driver->problems[0];
	if (!strstr(problem->text, text))
		fail_msg("'%s' is not in: %s", text, problem->text);
	assert_int_equal(problem->is_severe, is_severe);
	assert_int_equal(problem->is_mismatch, is_mismatch);
	assert_ptr_equal(driver_severe(driver), is_severe ? problem : NULL);
}

static void test_debian(void **state)
{
	(void)state;
	debian();
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find(V, &driver, NULL), 0);
	assert_string_equal(driver.root, unit_top);
	assert_string_equal(driver.version, V);
	assert_int_equal(driver.problem_count, 0);
	expect_files(&driver, "library compute " DEBIAN "/libcuda.so." V " libcuda.so.1\n"
			      "library graphics " DEBIAN "/libnvidia-glcore.so." V
			      " libnvidia-glcore.so." V "\n"
			      "library utility " DEBIAN "/libnvidia-ml.so." V " libnvidia-ml.so.1\n"
			      "library other " DEBIAN "/libnvidia-new.so." V " libnvidia-new.so.1\n"
			      "library video " DEBIAN "/vdpau/libvdpau_nvidia.so." V
			      " vdpau/libvdpau_nvidia.so.1\n"
			      "program utility /usr/bin/nvidia-smi /usr/bin/nvidia-smi\n"
			      "firmware other /lib/firmware/nvidia/" V
			      "/gsp_ga10x.bin /lib/firmware/nvidia/" V "/gsp_ga10x.bin\n");
}

/* RHEL's layout, libraries in a second directory that only the loader knows, links all over. */
static void test_spread(void **state)
{
	(void)state;
	library("/usr/lib64/libcuda.so." V, "libcuda.so.1");
	library("/opt/nvidia/lib/libnvidia-ml.so." V, "libnvidia-ml.so.1");
	assert_int_equal(symlink("usr/lib64", unit_path(unit_top, "lib64")), 0);
	assert_int_equal(symlink("libcuda.so." V, unit_path(unit_top, "usr/lib64/libcuda.so.1")),
			 0);
	put("/usr/lib64/nvidia/smi", "x", 1);
	assert_int_equal(mkdir(unit_path(unit_top, "usr/bin"), 0755), 0);
	assert_int_equal(
	    symlink("/usr/lib64/nvidia/smi", unit_path(unit_top, "usr/bin/nvidia-smi")), 0);
	unsigned char cache[256] = "glibc-ld.so.cache1.1";
	const uint32_t entry[] = {0x0303, 72, 90, 0, 0, 0};
	cache[20] = 1;
	memcpy(cache + 48, entry, sizeof(entry));
	(void)snprintf((char *)cache + 72, 18, "libnvidia-ml.so.1");
	(void)snprintf((char *)cache + 90, 64, "/opt/nvidia/lib/libnvidia-ml.so.1");
	put("/etc/ld.so.cache", cache, sizeof(cache));
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find("", &driver, NULL), 0);
	assert_int_equal(driver.problem_count, 0);
	expect_files(&driver,
		     "library compute /usr/lib64/libcuda.so." V " libcuda.so.1\n"
		     "library utility /opt/nvidia/lib/libnvidia-ml.so." V " libnvidia-ml.so.1\n"
		     "program utility /usr/lib64/nvidia/smi /usr/bin/nvidia-smi\n");
}

/* Sockets need not be open for this. */
static void socket_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *full = unit_path(unit_top, path);
	assert_true(strlen(full) < sizeof(address.sun_path));
	memcpy(address.sun_path, full, strlen(full) + 1);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

/* What draws, and what listens: persistenced runs as a user of its own. */
static void test_graphics_and_daemons(void **state)
{
	(void)state;
	library("/usr/lib64/libcuda.so." V, "libcuda.so.1");
	library("/usr/lib64/libnvidia-ml.so." V, "libnvidia-ml.so.1");
	library("/usr/lib64/libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-gbm.so.1");
	assert_int_equal(symlink("libnvidia-egl-gbm.so.1.1.2",
				 unit_path(unit_top, "usr/lib64/libnvidia-egl-gbm.so.1")),
			 0);
	library("/usr/lib64/libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4");
	put("/usr/lib64/xorg/modules/drivers/nvidia_drv.so", "x", 1);
	put("/usr/lib/x86_64-linux-gnu/nvidia/xorg/libglxserver_nvidia.so." V, "x", 1);
	put("/etc/vulkan/icd.d/nvidia_icd.json", "{}", 2);
	put("/usr/share/vulkan/icd.d/nvidia_icd.json", "{}", 2);
	put("/usr/share/vulkan/icd.d/radeon_icd.json", "{}", 2);
	put("/usr/share/glvnd/egl_vendor.d/10_nvidia.json", "{}", 2);
	put("/etc/OpenCL/vendors/nvidia.icd", "x", 1);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "run/nvidia-persistenced"), 0755, NULL),
			 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "var"), 0755, NULL), 0);
	assert_int_equal(file_mkdirs(unit_path(unit_top, "tmp/nvidia-mps"), 0755, NULL), 0);
	assert_int_equal(symlink("/run", unit_path(unit_top, "var/run")), 0);
	socket_at("run/nvidia-persistenced/socket");
	if (geteuid() == 0)
		assert_int_equal(
		    chown(unit_path(unit_top, "run/nvidia-persistenced"), 65534, 65534), 0);
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find(V, &driver, NULL), 0);
	expect_files(
	    &driver,
	    "library compute /usr/lib64/libcuda.so." V " libcuda.so.1\n"
	    "library graphics /usr/lib64/libnvidia-egl-gbm.so.1.1.2 libnvidia-egl-gbm.so.1\n"
	    "library utility /usr/lib64/libnvidia-ml.so." V " libnvidia-ml.so.1\n"
	    "library compute /usr/lib64/libnvidia-nvvm70.so.4 libnvidia-nvvm70.so.4\n"
	    "socket other /run/nvidia-persistenced/socket /run/nvidia-persistenced/socket\n"
	    "data compute /etc/OpenCL/vendors/nvidia.icd /etc/OpenCL/vendors/nvidia.icd\n"
	    "data graphics /etc/vulkan/icd.d/nvidia_icd.json "
	    "/etc/vulkan/icd.d/nvidia_icd.json\n"
	    "data graphics /usr/share/glvnd/egl_vendor.d/10_nvidia.json "
	    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json\n"
	    "X module display /usr/lib64/xorg/modules/drivers/nvidia_drv.so "
	    "drivers/nvidia_drv.so\n"
	    "X module display /usr/lib/x86_64-linux-gnu/nvidia/xorg/libglxserver_nvidia.so." V
	    " extensions/libglxserver_nvidia.so\n");
	expect_problem(&driver, false, false, "tmp/nvidia-mps' is not given to containers");
}

/* The pipes of MPS are taken from where only root can put them. */
static void test_mps(void **state)
{
	(void)state;
	debian();
	struct driver_options options = {.root = unit_top,
					 .version = V,
					 .triplet = "x86_64-linux-gnu",
					 .mps = "/run/nvidia-mps"};
	assert_int_equal(file_mkdirs(unit_path(unit_top, "run/nvidia-mps"), 0755, NULL), 0);
	_cleanup_driver_ struct cdi_driver good = {0}, bad = {0};
	assert_int_equal(driver_find(&options, &good, NULL), 0);
	assert_int_equal(good.problem_count, 0);
	const struct driver_file *last = &good.files[good.file_count - 1];
	assert_int_equal(last->kind, DRIVER_DIRECTORY);
	assert_string_equal(last->path, "/run/nvidia-mps");
	assert_string_equal(last->name, "/tmp/nvidia-mps");
	assert_int_equal(chmod(unit_path(unit_top, "run"), 01777), 0);
	assert_int_equal(driver_find(&options, &bad, NULL), 0);
	assert_int_equal(bad.file_count, good.file_count - 1);
	expect_problem(&bad, false, false, "may be written by others");
}

static void test_half_a_driver(void **state)
{
	(void)state;
	debian();
	assert_int_equal(unlink(unit_path(unit_top, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so." V)),
			 0);
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find(V, &driver, NULL), 0);
	expect_problem(&driver, true, false, "libnvidia-ml.so." V " is missing");
}

static void test_kernel_is_of_another_version(void **state)
{
	(void)state;
	library("/usr/lib64/libcuda.so." V, "libcuda.so.1");
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find("570.10", &driver, NULL), 0);
	assert_int_equal(driver.file_count, 0);
	assert_int_equal(driver.problem_count, 2);
	assert_non_null(strstr(driver.problems[0].text, "/usr/lib64/libcuda.so." V));
	assert_false(driver.problems[0].is_severe);
	const struct driver_problem *severe = driver_severe(&driver);
	assert_non_null(severe);
	assert_true(severe->is_mismatch);
	assert_non_null(strstr(severe->text, "the loaded kernel module is 570.10"));
}

static void test_two_drivers(void **state)
{
	(void)state;
	debian();
	library("/usr/lib64/libcuda.so.570.10", "libcuda.so.1");
	_cleanup_driver_ struct cdi_driver known = {0}, unknown = {0};
	assert_int_equal(find(V, &known, NULL), 0);
	expect_problem(&known, false, true, "/usr/lib64/libcuda.so.570.10");
	assert_int_equal(known.file_count, 7);
	/* No kernel module says which one it is. */
	assert_int_equal(find("", &unknown, NULL), 0);
	assert_true(driver_severe(&unknown) && driver_severe(&unknown)->is_mismatch);
}

static void test_refuses_what_others_could_have_written(void **state)
{
	(void)state;
	debian();
	assert_int_equal(
	    chmod(unit_path(unit_top, "usr/lib/x86_64-linux-gnu/libnvidia-glcore.so." V), 0666), 0);
	_cleanup_driver_ struct cdi_driver mild = {0}, severe = {0};
	assert_int_equal(find(V, &mild, NULL), 0);
	expect_problem(&mild, false, false, "libnvidia-glcore.so." V "' may be written");
	assert_int_equal(mild.file_count, 6);
	assert_int_equal(chmod(unit_path(unit_top, "usr/bin/nvidia-smi"), 0757), 0);
	assert_int_equal(find(V, &severe, NULL), 0);
	assert_int_equal(severe.problem_count, 2);
	assert_non_null(driver_severe(&severe));
	assert_non_null(strstr(driver_severe(&severe)->text, "/usr/bin/nvidia-smi"));
	/* All of them refused is not the same as none there. */
	_cleanup_driver_ struct cdi_driver none = {0};
	assert_int_equal(chmod(unit_path(unit_top, "usr/bin/nvidia-smi"), 0755), 0);
	assert_int_equal(chmod(unit_path(unit_top, "usr/lib"), 0777), 0);
	assert_int_equal(find(V, &none, NULL), 0);
	assert_non_null(driver_severe(&none));
	assert_non_null(strstr(driver_severe(&none)->text, "no driver library could be taken"));
	assert_non_null(strstr(driver_severe(&none)->text, "/usr/lib' may be written"));
}

static void test_hostile_files(void **state)
{
	(void)state;
	debian();
	/* Would replace the C library of the image. */
	library(DEBIAN "/libnvidia-tls.so." V, "libc.so.6");
	put(DEBIAN "/libnvoptix.so." V, "garbage", 7);
	assert_int_equal(
	    symlink("/etc/shadow",
		    unit_path(unit_top, "usr/lib/x86_64-linux-gnu/libnvidia-fbc.so." V)),
	    0);
	assert_int_equal(
	    mkdir(unit_path(unit_top, "usr/lib/x86_64-linux-gnu/libnvidia-cfg.so." V), 0755), 0);
	put("/etc/ld.so.cache", "garbage", 7);
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find(V, &driver, NULL), 0);
	assert_int_equal(driver.file_count, 7);
	static const char *const expected[] = {"not a cache of glibc", "libnvidia-cfg.so",
					       "libnvidia-fbc.so", "has the SONAME 'libc.so.6'",
					       "libnvoptix.so"};
	assert_int_equal(driver.problem_count, 5);
	for (size_t i = 0; i < 5; i++)
		if (!strstr(driver.problems[i].text, expected[i]))
			fail_msg("'%s' is not in: %s", expected[i], driver.problems[i].text);
	assert_ptr_equal(driver_severe(&driver), &driver.problems[1]);
}

/* A library of another machine lies beside ours where a distribution mixes them. */
static void test_other_machines(void **state)
{
	(void)state;
	debian();
	struct made_library made;
	made_library(&made, "libnvidia-fbc.so.1");
	made.header.e_machine = made.header.e_machine == EM_S390 ? EM_PPC64 : EM_S390;
	put(DEBIAN "/libnvidia-fbc.so." V, &made, sizeof(made));
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find(V, &driver, NULL), 0);
	assert_int_equal(driver.problem_count, 0);
	for (uint32_t i = 0; i < driver.file_count; i++)
		assert_null(strstr(driver.files[i].path, "libnvidia-fbc"));
}

/* Nobody is sent to a file of his own machine for one below another root. */
static void test_problems_name_the_root(void **state)
{
	(void)state;
	debian();
	put("/etc/ld.so.cache", "garbage", 7);
	put(DEBIAN "/libnvoptix.so." V, "garbage", 7);
	_cleanup_driver_ struct cdi_driver driver = {0};
	assert_int_equal(find(V, &driver, NULL), 0);
	assert_int_equal(driver.problem_count, 2);
	for (uint32_t i = 0; i < driver.problem_count; i++)
		assert_non_null(strstr(driver.problems[i].text, unit_top));
}

static void test_nothing_there(void **state)
{
	(void)state;
	struct cdi_driver driver = {0};
	struct err err = {0};
	assert_int_equal(find(V, &driver, &err), -ENOENT);
	assert_non_null(strstr(err.text, "is the NVIDIA driver installed?"));
	assert_int_equal(find("", &driver, &err), -ENOENT);
	assert_int_equal(find("../../etc", &driver, &err), -EINVAL);
	assert_int_equal(find("1/2.3", &driver, &err), -EINVAL);
}

static void test_capabilities(void **state)
{
	(void)state;
	uint32_t bits = 0;
	struct err err = {0};
	assert_int_equal(driver_capabilities_parse("utility,compute", &bits, &err), 0);
	assert_int_equal(bits, DRIVER_UTILITY | DRIVER_COMPUTE);
	assert_int_equal(driver_capabilities_parse("all", &bits, &err), 0);
	assert_int_equal(bits, DRIVER_ALL);
	static const char *const bad[] = {"", "compute,", "Compute", "compute video", "gfx"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(driver_capabilities_parse(bad[i], &bits, &err), -EINVAL);
		assert_non_null(strstr(err.text, "is no driver capability"));
	}
	assert_int_equal(bits, DRIVER_ALL);
}

static void test_what_a_path_is_for(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		uint32_t capabilities;
	} rows[] = {
	    {"/usr/lib64/libcuda.so.1", DRIVER_COMPUTE},
	    {"/usr/lib/x86_64-linux-gnu/libcuda.so.580.82", DRIVER_COMPUTE},
	    {"/usr/lib64/libnvidia-ml.so.1", DRIVER_UTILITY},
	    {"/usr/lib64/libGLX_indirect.so.0", DRIVER_GRAPHICS},
	    {"/usr/lib64/vdpau/libvdpau_nvidia.so.1", DRIVER_VIDEO},
	    {"/usr/lib64/libnvidia-new.so.1", DRIVER_OTHER},
	    {"/usr/bin/nvidia-smi", DRIVER_UTILITY},
	    {"/usr/sbin/nvidia-cuda-mps-server", DRIVER_COMPUTE},
	    {"/bin/nvidia-imex", DRIVER_OTHER},
	    {"/dev/nvidia-uvm", DRIVER_COMPUTE},
	    {"/dev/nvidia-modeset", DRIVER_GRAPHICS | DRIVER_DISPLAY},
	    {"/dev/nvidiactl", 0},
	    {"/dev/nvidia0", 0},
	    {"/lib/firmware/nvidia/580.82/gsp_ga10x.bin", 0},
	    {"/run/nvidia-persistenced/socket", 0},
	    {"/", 0},
	    {"", 0},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (driver_capabilities_at(rows[i].path) != rows[i].capabilities)
			fail_msg("%s", rows[i].path);
}

static int find_again(void *context)
{
	(void)context;
	_cleanup_driver_ struct cdi_driver driver = {0};
	return find(V, &driver, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	debian();
	put("/etc/ld.so.cache", "garbage", 7);
	assert_true(failmalloc_each(find_again, NULL) > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_what_a_path_is_for),
	    cmocka_unit_test_setup_teardown(test_debian, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_spread, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_graphics_and_daemons, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_mps, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_half_a_driver, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_kernel_is_of_another_version, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_two_drivers, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_refuses_what_others_could_have_written,
					    unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_hostile_files, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_other_machines, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_problems_name_the_root, unit_top_setup,
					    unit_top_teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_there, unit_top_setup, unit_top_teardown),
	    cmocka_unit_test(test_capabilities),
	    cmocka_unit_test_setup_teardown(test_without_memory, unit_top_setup, unit_top_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
