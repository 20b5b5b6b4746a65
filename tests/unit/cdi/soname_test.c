/* SPDX-License-Identifier: Apache-2.0 */
#include "cdi/soname.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "tests/unit/cdi/made.h"
#include "tests/unit/unit.h"

static void expect_bad(const struct made_library *made, size_t length, int code, const char *text)
{
	struct soname library = {.machine = 77};
	struct err err = {0};
	assert_int_equal(soname_parse(made, length, &library, &err), code);
	assert_non_null(strstr(err.text, text));
	assert_int_equal(library.machine, 77);
}

static void test_finds_the_soname(void **state)
{
	(void)state;
	struct made_library made;
	struct soname library;
	made_library(&made, "libcuda.so.1");
	assert_int_equal(soname_parse(&made, sizeof(made), &library, NULL), 0);
	assert_string_equal(library.soname, "libcuda.so.1");
	assert_int_equal(library.machine, soname_machine_here());
	assert_int_equal(library.bits, SONAME_CLASS_64);

	made.dynamic[0].d_tag = DT_DEBUG;
	assert_int_equal(soname_parse(&made, sizeof(made), &library, NULL), 0);
	assert_string_equal(library.soname, "");

	made.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(soname_parse(&made, sizeof(made), &library, NULL), 0);
	assert_int_equal(library.bits, SONAME_CLASS_32);
}

static void test_believes_nothing(void **state)
{
	(void)state;
	struct made_library made;
	made_library(&made, "libcuda.so.1");
	for (size_t length = 0; length < offsetof(struct made_library, text) + 14; length++) {
		struct soname library;
		int rc = soname_parse(&made, length, &library, NULL);
		if (rc != -EINVAL)
			fail_msg("%zu bytes: %d", length, rc);
	}
	made.header.e_ident[0] = 'x';
	expect_bad(&made, sizeof(made), -EINVAL, "no shared library");
	made_library(&made, "libcuda.so.1");
	made.header.e_ident[EI_DATA] = ELFDATA2MSB;
	expect_bad(&made, sizeof(made), -EINVAL, "no shared library");
	made_library(&made, "libcuda.so.1");
	made.header.e_type = ET_EXEC;
	expect_bad(&made, sizeof(made), -EINVAL, "no shared library");
	made_library(&made, "libcuda.so.1");
	made.header.e_phnum = SONAME_SEGMENTS_MAX + 1;
	expect_bad(&made, sizeof(made), -EFBIG, "segments");
	made_library(&made, "libcuda.so.1");
	made.header.e_phentsize = 1;
	expect_bad(&made, sizeof(made), -EINVAL, "wrong size");
	made_library(&made, "libcuda.so.1");
	made.header.e_phoff = UINT64_MAX - 3;
	expect_bad(&made, sizeof(made), -EINVAL, "table of segments");
	made_library(&made, "libcuda.so.1");
	made.segments[1].p_filesz = UINT64_MAX;
	expect_bad(&made, sizeof(made), -EFBIG, "dynamic entries");
	made_library(&made, "libcuda.so.1");
	made.segments[1].p_offset = UINT64_MAX;
	expect_bad(&made, sizeof(made), -EINVAL, "dynamic section");
	made_library(&made, "libcuda.so.1");
	made.dynamic[0].d_un.d_val = UINT64_MAX; /* the sum overflows */
	expect_bad(&made, sizeof(made), -EINVAL, "outside of the file");
	made_library(&made, "libcuda.so.1");
	made.segments[0].p_offset = UINT64_MAX;
	expect_bad(&made, sizeof(made), -EINVAL, "outside of the file");
	made_library(&made, "libcuda.so.1");
	memset(made.text, 'x', sizeof(made.text));
	expect_bad(&made, sizeof(made), -EINVAL, "does not end");
}

static void test_soname_is_a_file_name(void **state)
{
	(void)state;
	static const char *const names[] = {
	    "../../etc/passwd", "/etc/passwd", "a b", "a\nb", "a\x80", "..", "."};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct made_library made;
		made_library(&made, names[i]);
		expect_bad(&made, sizeof(made), -EINVAL, "no file name");
	}
}

/* A real one: the C library of this program. */
static int is_libc(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	const char **path = data;
	if (info->dlpi_name && strstr(info->dlpi_name, "libc.so"))
		*path = info->dlpi_name;
	return 0;
}

static void test_reads_a_real_library(void **state)
{
	(void)state;
	const char *path = NULL;
	(void)dl_iterate_phdr(is_libc, (void *)&path);
	if (!path)
		skip();
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	struct soname library;
	assert_int_equal(soname_read(fd, path, &library, NULL), 0);
	assert_string_equal(library.soname, "libc.so.6");
	assert_int_equal(library.machine, soname_machine_here());

	_cleanup_close_ int directory = open("/", O_RDONLY | O_CLOEXEC);
	struct err err = {0};
	assert_int_equal(soname_read(directory, "/", &library, &err), -EISDIR);
	assert_non_null(strstr(err.text, "cannot read '/'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_finds_the_soname),
	    cmocka_unit_test(test_believes_nothing),
	    cmocka_unit_test(test_soname_is_a_file_name),
	    cmocka_unit_test(test_reads_a_real_library),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
