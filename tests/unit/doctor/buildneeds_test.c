/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/buildneeds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "tests/unit/failmalloc.h"
#include "tests/unit/unit.h"

static void test_compilers(void **state)
{
	static const struct {
		const char *text;
		uint32_t major;
		bool is_gcc;
		const char *version;
	} rows[] = {
	    {"Linux version 5.14.0-427.13.1.el9_4.x86_64 "
	     "(mockbuild@x86-64-03.build.eng.rdu2.redhat.com) "
	     "(gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3), GNU ld version 2.35.2-43.el9) #1 SMP",
	     11, true, "11.4.1"},
	    {"Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian "
	     "12.2.0-14) "
	     "12.2.0, GNU ld (GNU Binutils for Debian) 2.40) #1 SMP",
	     12, true, "12.2.0"},
	    {"Linux version 5.15.0-94-generic (buildd@lcy02-amd64-096) (gcc (Ubuntu "
	     "11.4.0-1ubuntu1~22.04) 11.4.0, GNU ld 2.38) #104-Ubuntu SMP",
	     11, true, "11.4.0"},
	    {"Linux version 6.8.0-31-generic (buildd@x) (x86_64-linux-gnu-gcc-13 (Ubuntu "
	     "13.2.0-23ubuntu4) 13.2.0, GNU ld 2.42) #31-Ubuntu SMP",
	     13, true, "13.2.0"},
	    {"Linux version 4.18.0-305.el8.x86_64 (mockbuild@gcc.1.2) (gcc version 8.4.1 20200928 "
	     "(Red Hat 8.4.1-1) (GCC)) #1 SMP",
	     8, true, "8.4.1"},
	    {"Linux version 6.6.0 (me@host) (clang version 17.0.6, LLD 17.0.6) #1", 17, false,
	     "17.0.6"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct buildneeds_compiler compiler;
		assert_int_equal(
		    buildneeds_compiler_parse(rows[i].text, strlen(rows[i].text), &compiler), 0);
		assert_int_equal(compiler.major, rows[i].major);
		assert_int_equal(compiler.is_gcc, rows[i].is_gcc);
		assert_string_equal(compiler.version, rows[i].version);
	}
	static const char *const none[] = {"", "gcc", "(gcc", "Linux version 5.1 (gcc@host) (tcc)",
					   "(gcc #1 11.4.1"};
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		struct buildneeds_compiler compiler;
		assert_int_equal(buildneeds_compiler_parse(none[i], strlen(none[i]), &compiler),
				 -EINVAL);
	}
}

static void test_lists(void **state)
{
	static const char *const wrong[] = {"",
					    "gcc\t1\tall\n",
					    "end\tfiles\t1",
					    "a\tb\n",
					    "end\tfiles\tx\n",
					    "end\tfiles\t1\nmore\n",
					    "a\tb\tc\td\nend\tfiles\t1\n",
					    "\t\t\n"};
	struct buildneeds_list list;
	struct err err = {0};
	static const char text[] = "gcc\t11.4.1-3.el9\tx86_64\nend\trpm\t5000\n";
	assert_int_equal(buildneeds_list_parse(text, strlen(text), &list, &err), 0);
	assert_int_equal(list.count, 1);
	assert_int_equal(list.total, 5000);
	assert_string_equal(list.kind, "rpm");
	assert_string_equal(list.packages[0].version, "11.4.1-3.el9");
	buildneeds_list_done(&list);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(buildneeds_list_parse(wrong[i], strlen(wrong[i]), &list, &err),
				 -EBADMSG);
		buildneeds_list_done(&list);
	}
	assert_int_equal(buildneeds_list_parse("a\0b", 3, &list, &err), -EBADMSG);
	buildneeds_list_done(&list);
}

/* Judges and joins: "+NAME there" or "-NAME (there instead)". */
static const char *rig_judge(enum buildneeds_system system, const char *release, uint32_t gcc,
			     const char *text)
{
	static char out[4096];
	_cleanup_buildneeds_list_ struct buildneeds_list list;
	struct buildneeds_result results[BUILDNEEDS_MAX];
	struct err err = {0};
	const struct buildneeds_kernel kernel = {.system = system,
						 .release = release,
						 .machine = "x86_64",
						 .compiler = {.major = gcc, .is_gcc = true}};
	assert_int_equal(buildneeds_list_parse(text, strlen(text), &list, &err), 0);
	uint32_t count = buildneeds_judge(&kernel, &list, 1, results);
	size_t length = 0;
	out[0] = '\0';
	for (uint32_t i = 0; i < count; i++)
		length += (size_t)snprintf(out + length, sizeof(out) - length, "%c%s%s (%s)\n",
					   results[i].is_there ? '+' : '-',
					   results[i].is_optional ? "?" : "", results[i].wanted,
					   results[i].there);
	return out;
}

#define EL9(name, version) name "\t" version "\tx86_64\n"
#define END		   "end\trpm\t9\n"

static void test_rhel(void **state)
{
	static const char whole[] = EL9("kernel-headers", "5.14.0-427.el9")
	    EL9("kernel-devel", "5.14.0-427.el9") EL9("kernel-devel", "5.14.0-362.el9")
		EL9("kernel-core", "5.14.0-427.el9") EL9("gcc", "11.4.1-3.el9")
		    EL9("elfutils-libelf", "0.189-3.el9") EL9("elfutils-libelf", "0.190-2.el9")
			EL9("elfutils-libelf-devel", "0.190-2.el9") END;
	assert_string_equal(rig_judge(BUILDNEEDS_RHEL, "5.14.0-427.el9.x86_64", 11, whole),
			    "+kernel-headers-5.14.0-427.el9 (kernel-headers-5.14.0-427.el9)\n"
			    "+kernel-devel-5.14.0-427.el9 (kernel-devel-5.14.0-427.el9)\n"
			    "+kernel-5.14.0-427.el9 (kernel-core-5.14.0-427.el9)\n"
			    "+gcc 11 (gcc-11.4.1-3.el9)\n"
			    "+elfutils-libelf (elfutils-libelf-0.190-2.el9)\n"
			    "+elfutils-libelf-devel (elfutils-libelf-devel-0.190-2.el9)\n");
	static const char poor[] = EL9("kernel-devel", "5.14.0-362.el9") EL9(
	    "kernel-devel", "5.14.0-70.el9") EL9("kernel-devel", "5.14.0-570.el9")
	    EL9("kernel-devel", "5.14.0-503.el9") "kernel-headers\t5.14.0-427.el9\taarch64\n" EL9(
		"gcc", "12.2.1-1.el9") EL9("elfutils-libelf", "0.189-3.el9")
		EL9("elfutils-libelf-devel", "0.190-2.el9") END;
	assert_string_equal(
	    rig_judge(BUILDNEEDS_RHEL, "5.14.0-427.el9.x86_64", 11, poor),
	    "-kernel-headers-5.14.0-427.el9 ()\n"
	    "-kernel-devel-5.14.0-427.el9 (kernel-devel-5.14.0-570.el9, "
	    "kernel-devel-5.14.0-503.el9, kernel-devel-5.14.0-362.el9 and 1 more)\n"
	    "-kernel-5.14.0-427.el9 ()\n"
	    "-gcc 11 (gcc-12.2.1-1.el9)\n"
	    "+elfutils-libelf (elfutils-libelf-0.189-3.el9)\n"
	    "-elfutils-libelf-devel-0.189-3.el9 (elfutils-libelf-devel-0.190-2.el9)\n");
}

static void test_flavours(void **state)
{
	static const char text[] = EL9("kernel-headers", "5.14.0-1.el9")
	    EL9("kernel-devel", "5.14.0-1.el9") EL9("kernel-rt-devel", "5.14.0-1.el9")
		EL9("kernel-rt-core", "5.14.0-1.el9") EL9("gcc", "13.1-1") END;
	assert_string_equal(rig_judge(BUILDNEEDS_RHEL, "5.14.0-1.el9.x86_64+rt", 0, text),
			    "+kernel-headers-5.14.0-1.el9 (kernel-headers-5.14.0-1.el9)\n"
			    "+kernel-rt-devel-5.14.0-1.el9 (kernel-rt-devel-5.14.0-1.el9)\n"
			    "+kernel-rt-5.14.0-1.el9 (kernel-rt-core-5.14.0-1.el9)\n"
			    "+gcc (gcc-13.1-1)\n"
			    "-elfutils-libelf ()\n"
			    "-elfutils-libelf-devel ()\n");
}

#define DEB(name, version) name "\t" version "\tamd64\n"

static void test_ubuntu_and_debian(void **state)
{
	static const char text[] = DEB("linux-headers-5.15.0-91-generic", "5.15.0-91.101")
	    DEB("linux-headers-5.15.0-94-lowlatency", "5.15.0-94.104")
		DEB("linux-headers-5.15.0-95-rt-generic", "1")
		    DEB("linux-headers-generic", "5.15.0.94.1")
			DEB("linux-image-unsigned-5.15.0-94-generic", "5.15.0-94.104")
			    DEB("linux-modules-5.15.0-94-generic", "5.15.0-94.104")
				DEB("gcc-12", "12.3.0-1") DEB("gcc-12-base", "12.3.0-1")
				    DEB("gcc", "4:11.2.0-1ubuntu1") END;
	assert_string_equal(
	    rig_judge(BUILDNEEDS_UBUNTU, "5.15.0-94-generic", 11, text),
	    "-linux-headers-5.15.0-94-generic (linux-headers-5.15.0-91-generic)\n"
	    "+linux-image-5.15.0-94-generic "
	    "(linux-image-unsigned-5.15.0-94-generic-5.15.0-94.104)\n"
	    "+linux-modules-5.15.0-94-generic (linux-modules-5.15.0-94-generic-5.15.0-94.104)\n"
	    "+?gcc-11 (gcc-4:11.2.0-1ubuntu1)\n");
	assert_string_equal(rig_judge(BUILDNEEDS_DEBIAN, "5.15.0-91-generic", 13, text),
			    "+linux-headers-5.15.0-91-generic "
			    "(linux-headers-5.15.0-91-generic-5.15.0-91.101)\n"
			    "-?gcc-13 (gcc-12-12.3.0-1, gcc-4:11.2.0-1ubuntu1)\n");
	assert_string_equal(rig_judge(BUILDNEEDS_OTHER, "6.6.0", 13, text), "");
}

static void test_several_repositories(void **state)
{
	struct buildneeds_list lists[2];
	struct buildneeds_result results[BUILDNEEDS_MAX];
	struct err err = {0};
	static const char first[] = EL9("kernel-headers", "5.14.0-1.el9") END;
	static const char second[] = EL9("kernel-devel", "5.14.0-1.el9")
	    EL9("kernel-devel", "5.14.0-1.el9") EL9("kernel", "5.14.0-2.el9") END;
	const struct buildneeds_kernel kernel = {.system = BUILDNEEDS_RHEL,
						 .release = "5.14.0-1.el9.x86_64",
						 .machine = "x86_64",
						 .compiler = {.major = 17}};
	assert_int_equal(buildneeds_list_parse(first, strlen(first), &lists[0], &err), 0);
	assert_int_equal(buildneeds_list_parse(second, strlen(second), &lists[1], &err), 0);
	/* Built by clang: no gcc is asked for. */
	assert_int_equal(buildneeds_judge(&kernel, lists, 2, results), 5);
	assert_true(results[0].is_there);
	assert_true(results[1].is_there);
	assert_false(results[2].is_there);
	assert_string_equal(results[2].there, "kernel-5.14.0-2.el9");
	buildneeds_list_done(&lists[0]);
	buildneeds_list_done(&lists[1]);
}

static void test_names(void **state)
{
	assert_string_equal(buildneeds_deb_arch("x86_64"), "amd64");
	assert_string_equal(buildneeds_deb_arch("aarch64"), "arm64");
	assert_string_equal(buildneeds_deb_arch("riscv64"), "riscv64");
	for (int system = BUILDNEEDS_OTHER; system <= BUILDNEEDS_DEBIAN; system++)
		assert_string_equal(buildneeds_patterns((enum buildneeds_system)system)[0],
				    system == BUILDNEEDS_RHEL ? "kernel-headers"
							      : "linux-headers-*");
}

static int rig_scenario(void *context)
{
	struct buildneeds_list list;
	struct err err = {0};
	int result = buildneeds_list_parse(context, strlen(context), &list, &err);
	buildneeds_list_done(&list);
	return result;
}

static void test_no_memory(void **state)
{
	static char text[] = EL9("gcc", "1") END;
	assert_true(failmalloc_each(rig_scenario, text) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_compilers),
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_rhel),
	    cmocka_unit_test(test_flavours),
	    cmocka_unit_test(test_ubuntu_and_debian),
	    cmocka_unit_test(test_several_repositories),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
