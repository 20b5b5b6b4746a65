/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/image.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "cdi/check.h"
#include "cdi/soname.h"
#include "tests/unit/cdi/made.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

#define TRIPLET "any-linux-gnu"

struct rig {
	char *top, root[FILE_PATH_MAX];
	struct cdi_image image;
	struct cdi_check check;
};

static struct rig rig;

static const char *loader(void)
{
	return soname_machine_here() == EM_X86_64    ? "/lib64/ld-linux-x86-64.so.2"
	       : soname_machine_here() == EM_AARCH64 ? "/lib/ld-linux-aarch64.so.1"
						     : "/lib64/ld64.so.2";
}

/* The place of a file in the image, with the directories above it. */
static const char *place(const char *path)
{
	char directory[FILE_PATH_MAX];
	assert_int_equal(file_path(directory, NULL, "%s%s", rig.root, path), 0);
	*strrchr(directory, '/') = '\0';
	assert_int_equal(file_mkdirs(directory, 0755, NULL), 0);
	return unit_path(rig.root, path + 1);
}

static void put_at(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static void put(const char *path, const void *bytes, size_t length)
{
	put_at(place(path), bytes, length);
}

static void put_library(const char *path, const char *soname, unsigned machine)
{
	struct made_library library;
	made_library(&library, soname);
	if (machine)
		library.header.e_machine = (Elf64_Half)machine;
	put(path, &library, sizeof(library));
}

/* A cache of one library; `flags` 0: of this machine. */
static void put_cache_of(const char *name, const char *path, uint32_t flags)
{
	char bytes[48 + 24 + 512] = "glibc-ld.so.cache1.1";
	const uint32_t count = 1, key = 48 + 24, value = key + (uint32_t)strlen(name) + 1;
	if (flags == 0)
		flags = soname_machine_here() == EM_X86_64    ? 0x0303
			: soname_machine_here() == EM_AARCH64 ? 0x0a03
							      : 0x0503;
	memcpy(bytes + 20, &count, 4);
	memcpy(bytes + 48, &flags, 4);
	memcpy(bytes + 52, &key, 4);
	memcpy(bytes + 56, &value, 4);
	assert_true(value + strlen(path) < sizeof(bytes));
	memcpy(bytes + key, name, strlen(name));
	memcpy(bytes + value, path, strlen(path));
	put("/etc/ld.so.cache", bytes, sizeof(bytes));
}

static void put_cache(const char *name, const char *path)
{
	put_cache_of(name, path, 0);
}

static int setup(void **state)
{
	(void)state;
	rig = (struct rig){.top = unit_tmp_new()};
	if (soname_machine_here() == 0)
		skip();
	assert_int_equal(file_path(rig.root, NULL, "%s/image", rig.top), 0);
	put(loader(), "", 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	check_done(&rig.check);
	rig.top = unit_tmp_free(rig.top);
	return 0;
}

/* Looks, and expects that much. */
static void expect(uint32_t count, enum check_severity worst)
{
	struct err err = {0};
	check_done(&rig.check);
	if (image_check(rig.root, TRIPLET, &rig.image, &rig.check, &err) < 0)
		fail_msg("%s", err.text);
	if (rig.check.count != count || rig.check.worst != worst)
		fail_msg("%u findings, %s; the first is: %s", rig.check.count,
			 check_severity_to_string(rig.check.worst),
			 rig.check.count ? rig.check.findings[0].text : "none");
}

static void says(enum check_id id, const char *text)
{
	assert_int_equal(rig.check.findings[0].id, id);
	if (!strstr(rig.check.findings[0].text, text))
		fail_msg("'%s' is not in: %s", text, rig.check.findings[0].text);
}

static void test_layouts(void **state)
{
	(void)state;
	put_library("/usr/lib/libc.so.6", "libc.so.6", 0);
	expect(1, CHECK_STALE);
	assert_int_equal(rig.image.layout, IMAGE_FLAT);
	says(CHECK_IMAGE_LAYOUT, "loader looks in '/usr/lib' only");
	/* As Arch has it: what is mounted in /usr/lib64 is in /usr/lib. */
	assert_int_equal(symlink("lib", place("/usr/lib64")), 0);
	expect(0, CHECK_NOTE);
	assert_int_equal(unlink(place("/usr/lib64")), 0);
	put_library("/usr/lib64/libc.so.6", "libc.so.6", 0);
	expect(0, CHECK_NOTE);
	assert_int_equal(rig.image.layout, IMAGE_RHEL);
	put_library("/lib/" TRIPLET "/libc.so.6", "libc.so.6", 0);
	expect(0, CHECK_NOTE);
	assert_int_equal(rig.image.layout, IMAGE_DEBIAN);
	assert_int_equal(rig.image.libc, IMAGE_GLIBC);
	assert_int_equal(unlink(place(loader())), 0);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_LOADER, "has no loader");
}

static void test_no_glibc(void **state)
{
	(void)state;
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_LOADER, "no C library that was found");
	put("/lib/ld-musl-x86_64.so.1", "", 0);
	put("/lib/ld-musl-aarch64.so.1", "", 0);
	put("/lib/ld-musl-powerpc64le.so.1", "", 0);
	/* What makes some programs for glibc start is no glibc. */
	put_library("/lib/libc.so.6", "libc.musl.so.1", 0);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_MUSL, "the image has musl");
	assert_int_equal(rig.image.libc, IMAGE_MUSL);
}

static void test_another_machine(void **state)
{
	(void)state;
	put_library("/usr/lib64/libc.so.6", "libc.so.6", EM_S390);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_ARCH, "for another machine");
}

static void test_own_library_in_the_cache(void **state)
{
	(void)state;
	put_library("/usr/lib64/libc.so.6", "libc.so.6", 0);
	put_cache("libcuda.so.1", "/opt/libcuda.so.1");
	expect(0, CHECK_NOTE); /* the loader finds nothing there, and goes on */
	put_library("/opt/libcuda.so.1", "libcuda.so.1", 0);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_LIBRARY, "'/opt/libcuda.so.1' of its own, named in its /etc/ld.so.cache");
	assert_non_null(strstr(rig.check.findings[0].fix, "rm /opt/libcuda.so.1 && ldconfig"));
	put_cache_of("libcuda.so.1", "/opt/libcuda.so.1", 0x0003); /* for 32-bit programs */
	expect(0, CHECK_NOTE);
	/* Where the driver's are mounted over it, by another name of the same directory. */
	put_library("/usr/lib64/libcuda.so.1", "libcuda.so.1", 0);
	assert_int_equal(symlink("usr/lib64", place("/other")), 0);
	put_cache("libcuda.so.1", "/other/libcuda.so.1");
	expect(0, CHECK_NOTE);
	put_cache("libz.so.1", "/opt/libcuda.so.1");
	expect(0, CHECK_NOTE);
	put("/etc/ld.so.cache", "garbage", 7);
	expect(1, CHECK_NOTE);
	says(CHECK_IMAGE_CACHE, "of no use");
}

static void test_own_library_in_a_directory(void **state)
{
	(void)state;
	put_library("/lib/" TRIPLET "/libc.so.6", "libc.so.6", 0);
	put_library("/usr/lib/" TRIPLET "/libcuda.so.1", "libcuda.so.1", 0);
	expect(0, CHECK_NOTE); /* the driver's is mounted there */
	put_library("/lib/" TRIPLET "/libcuda.so.1", "libcuda.so.1", 0);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_LIBRARY, "looks before the place of the driver's");
	assert_int_equal(unlink(place("/lib/" TRIPLET "/libcuda.so.1")), 0);
	put_library("/usr/local/cuda/compat/libcuda.so.1", "libcuda.so.1", 0);
	expect(1, CHECK_NOTE);
	says(CHECK_IMAGE_LIBRARY, "LD_LIBRARY_PATH");
	if (soname_machine_here() != EM_X86_64)
		return;
	put_library("/usr/lib/" TRIPLET "/glibc-hwcaps/x86-64-v3/libcuda.so.1", "libcuda.so.1", 0);
	expect(2, CHECK_STALE);
	says(CHECK_IMAGE_LIBRARY, "x86-64-v3");
}

static void test_something_in_the_way(void **state)
{
	(void)state;
	put_library("/usr/lib64/libc.so.6", "libc.so.6", 0);
	put("/usr/lib64/libcuda.so.1/x", "", 0);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_BLOCKED, "'/usr/lib64/libcuda.so.1' of the image is no regular file");
}

/* Nothing outside of the image is taken for a part of it, and nobody waits for a FIFO. */
static void test_hostile(void **state)
{
	(void)state;
	char outside[FILE_PATH_MAX];
	assert_int_equal(file_path(outside, NULL, "%s/outside", rig.top), 0);
	assert_int_equal(file_mkdirs(outside, 0755, NULL), 0);
	struct made_library library;
	made_library(&library, "libc.so.6");
	put_at(unit_path(outside, "libc.so.6"), &library, sizeof(library));
	assert_int_equal(symlink(outside, place("/usr/lib64")), 0);
	assert_int_equal(file_mkdirs(place("/usr/lib"), 0755, NULL), 0);
	assert_int_equal(symlink("../../../outside/libc.so.6", place("/usr/lib/libc.so.6")), 0);
	expect(1, CHECK_STALE);
	says(CHECK_IMAGE_LOADER, "no C library that was found");
	assert_int_equal(unlink(place("/usr/lib/libc.so.6")), 0);
	assert_int_equal(symlink("loop", place("/usr/lib/loop")), 0);
	assert_int_equal(symlink("loop", place("/usr/lib/libc.so.6")), 0);
	expect(1, CHECK_STALE);
	assert_int_equal(unlink(place("/usr/lib/libc.so.6")), 0);
	assert_int_equal(mkfifo(place("/usr/lib/libc.so.6"), 0644), 0);
	assert_int_equal(mkfifo(place("/etc/ld.so.cache"), 0644), 0);
	expect(1, CHECK_STALE);
	assert_int_equal(unlink(place("/usr/lib/libc.so.6")), 0);
	put_library("/usr/lib/libc.so.6", "libc.so.6", 0);
	expect(2, CHECK_STALE);
	says(CHECK_IMAGE_CACHE, "Invalid argument"); /* not even opened */
	assert_int_equal(unlink(place("/etc/ld.so.cache")), 0);
	put_cache("libcuda.so.1", "/../../../../../../../../../dev/zero");
	expect(1, CHECK_STALE);
}

static void test_no_image(void **state)
{
	(void)state;
	struct err err = {0};
	assert_int_equal(
	    image_check(unit_path(rig.root, "no"), TRIPLET, &rig.image, &rig.check, &err), -ENOENT);
	assert_int_equal(
	    image_check(unit_path(rig.root, loader() + 1), TRIPLET, &rig.image, &rig.check, &err),
	    -ENOTDIR);
}

static int check_again(void *context)
{
	(void)context;
	_cleanup_check_ struct cdi_check check = {.count = 0};
	struct cdi_image image;
	return image_check(rig.root, TRIPLET, &image, &check, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	put_library("/usr/lib64/libc.so.6", "libc.so.6", 0);
	put_library("/opt/libcuda.so.1", "libcuda.so.1", 0);
	put_cache("libcuda.so.1", "/opt/libcuda.so.1");
	assert_true(failmalloc_each(check_again, NULL) > 3);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_layouts),
	    TEST(test_no_glibc),
	    TEST(test_another_machine),
	    TEST(test_own_library_in_the_cache),
	    TEST(test_own_library_in_a_directory),
	    TEST(test_something_in_the_way),
	    TEST(test_hostile),
	    TEST(test_no_image),
	    TEST(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
