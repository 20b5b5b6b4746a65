/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/package.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

static void test_names_of_files(void **state)
{
	static const struct {
		const char *file, *name, *version, *arch;
	} rows[] = {
	    {"kernel-devel-5.14.0-427.13.1.el9_4.x86_64.rpm", "kernel-devel",
	     "5.14.0-427.13.1.el9_4", "x86_64"},
	    {"elfutils-libelf-devel-0.190-2.el9.x86_64.rpm", "elfutils-libelf-devel", "0.190-2.el9",
	     "x86_64"},
	    {"gcc_12.2.0-3_amd64.deb", "gcc", "12.2.0-3", "amd64"},
	    {"gcc_4%3a12.2.0-3_amd64.deb", "gcc", "4:12.2.0-3", "amd64"},
	    {"linux-headers-6.1.0-18-amd64_6.1.76-1_amd64.deb", "linux-headers-6.1.0-18-amd64",
	     "6.1.76-1", "amd64"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct package package;
		assert_int_equal(package_from_file(rows[i].file, strlen(rows[i].file), &package),
				 0);
		assert_string_equal(package.name, rows[i].name);
		assert_string_equal(package.version, rows[i].version);
		assert_string_equal(package.arch, rows[i].arch);
	}
}

static void test_names_that_are_none(void **state)
{
	static const char *const files[] = {
	    "",
	    ".rpm",
	    ".deb",
	    "kernel.rpm",
	    "kernel-5.14.0.x86_64.rpm",
	    "kernel-5.14.0-427.el9.src.rpm",
	    "gcc_12.deb",
	    "gcc_12_.deb",
	    "_12_amd64.deb",
	    "gcc\t_12_amd64.deb",
	    "a\n-1-1.x86_64.rpm",
	    "Packages.gz",
	};
	struct package package = {.name = "kept"};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		assert_int_equal(package_from_file(files[i], strlen(files[i]), &package), -EINVAL);
	char text[512];
	memset(text, 'a', sizeof(text));
	memcpy(text + 400, "-1-1.x86_64.rpm", 15);
	assert_int_equal(package_from_file(text, 415, &package), -EINVAL);
	assert_string_equal(package.name, "kept");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_names_of_files),
	    cmocka_unit_test(test_names_that_are_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
