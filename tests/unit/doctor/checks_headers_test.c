/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "doctor/buildneeds.h"
#include "tests/unit/doctor/ward.h"

#define KERNEL	"5.14.0-427.el9.x86_64"
#define MODULES "/lib/modules/" KERNEL

static void rig_kernel(void)
{
	ward_gpu("0000:07:00.0", "");
	ward_file("/proc/sys/kernel/osrelease", KERNEL "\n");
	ward_file("/proc/version", "Linux version " KERNEL " (mockbuild@x) (gcc (GCC) 11.4.1 "
				   "20231218 (Red Hat 11.4.1-3), GNU ld) #1 SMP\n");
	ward_file("/etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"9.4\"\n");
}

static void test_headers(void **state)
{
	rig_kernel();
	const struct doctor_finding *finding = ward_expect("driver.headers", DOCTOR_FAIL);
	assert_string_equal(finding->object, "headers of kernel " KERNEL);
	assert_string_equal(finding->found, "none");
	assert_string_equal(finding->do_, "dnf install kernel-headers-5.14.0-427.el9 "
					  "kernel-devel-5.14.0-427.el9 kernel-5.14.0-427.el9 gcc "
					  "elfutils-libelf elfutils-libelf-devel");
	ward_file("/usr/src/kernels/" KERNEL "/Makefile", "");
	finding = ward_expect("driver.headers", DOCTOR_FAIL);
	assert_string_equal(finding->do_, "ln -sfn /usr/src/kernels/" KERNEL " " MODULES "/build");
	ward_link(MODULES "/build", "/usr/src/kernels/" KERNEL);
	(void)ward_expect("driver.headers", DOCTOR_OK);
}

static void test_nobody_builds(void **state)
{
	rig_kernel();
	ward_healthy();
	(void)ward_expect("driver.headers", DOCTOR_INFO);
	ward_options.purpose = DOCTOR_FOR_DRIVER_CONTAINER;
	(void)ward_expect("driver.headers", DOCTOR_FAIL);
	/* There they come from an image of their own. */
	ward_file("/etc/os-release", "ID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\n");
	const struct doctor_finding *finding = ward_expect("driver.headers", DOCTOR_INFO);
	assert_non_null(strstr(finding->do_, "driver-toolkit"));
}

static void test_another_system(void **state)
{
	ward_gpu("0000:07:00.0", "");
	ward_file("/proc/sys/kernel/osrelease", "5.15.0-94-generic\n");
	ward_file("/etc/os-release", "ID=ubuntu\nID_LIKE=debian\n");
	const struct doctor_finding *finding = ward_expect("driver.headers", DOCTOR_FAIL);
	assert_string_equal(finding->do_,
			    "apt-get install linux-headers-5.15.0-94-generic "
			    "linux-image-5.15.0-94-generic linux-modules-5.15.0-94-generic gcc");
	ward_file("/etc/os-release", "ID=arch\n");
	assert_string_equal(ward_expect("driver.headers", DOCTOR_FAIL)->do_, "");
	ward_remove("/proc/sys/kernel/osrelease");
	(void)ward_expect("driver.headers", DOCTOR_SKIP);
}

static void test_another_compiler(void **state)
{
	rig_kernel();
	ward_file("/usr/src/kernels/" KERNEL "/Makefile", "");
	ward_link(MODULES "/build", "/usr/src/kernels/" KERNEL);
	ward_file("/var/lib/dpkg/status",
		  "Package: gcc\nStatus: install ok installed\nVersion: 4:12.2.0-3\n\n");
	const struct doctor_finding *finding = ward_expect("driver.headers", DOCTOR_WARN);
	assert_string_equal(finding->found, "gcc 12.2");
	assert_string_equal(finding->need, "gcc 11: the kernel was built by 11.4.1");
}

/* The smallest file that modinfo.h takes for a module of `kernel`. */
static void rig_module(const char *path, const char *kernel)
{
	char text[256];
	unsigned char bytes[512] = "\177ELF\002\001\001";
	/* e_shoff, e_shentsize, e_shnum, e_shstrndx; two sections of 64 bytes from 64 on. */
	bytes[0x28] = 64;
	bytes[0x3a] = 64;
	bytes[0x3c] = 2;
	bytes[0x3e] = 0;
	bytes[64 + 0x18] = 192;	 /* names: sh_offset */
	bytes[128] = 0;		 /* .modinfo: sh_name */
	bytes[128 + 4] = 1;	 /* SHT_PROGBITS */
	bytes[128 + 0x18] = 208; /* sh_offset */
	bytes[128 + 0x20] = 200; /* sh_size */
	memcpy(bytes + 192, ".modinfo", 9);
	(void)snprintf(text, sizeof(text), "vermagic=%s SMP mod_unload ", kernel);
	memcpy(bytes + 208, text, strlen(text));
	char parent[256];
	ward_file(path, "");
	(void)snprintf(parent, sizeof(parent), "%s%s", unit_top, path);
	FILE *file = fopen(parent, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, sizeof(bytes), 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

static void rig_built(void)
{
	rig_kernel();
	ward_file(MODULES "/build/Makefile", "");
	ward_file(MODULES "/modules.dep",
		  "kernel/drivers/x/nvidia-uvm.ko: y.ko\nextra/nvidia.ko: z.ko\n");
}

static void test_modules(void **state)
{
	rig_built();
	rig_module(MODULES "/extra/nvidia.ko", KERNEL);
	(void)ward_expect("driver.headers", DOCTOR_OK);
	rig_module(MODULES "/extra/nvidia.ko", "5.14.0-362.el9.x86_64");
	const struct doctor_finding *finding = ward_expect("driver.headers", DOCTOR_FAIL);
	assert_string_equal(finding->found, "version (not told) for kernel 5.14.0-362.el9.x86_64");
	ward_file(MODULES "/extra/nvidia.ko", "\x28\xb5\x2f\xfd packed");
	finding = ward_expect("driver.headers", DOCTOR_UNKNOWN);
	assert_non_null(strstr(finding->found, "it is compressed"));
	ward_file(MODULES "/extra/nvidia.ko", "junk");
	(void)ward_expect("driver.headers", DOCTOR_UNKNOWN);
	/* Linked from another kernel's, whose symbols have the same versions. */
	ward_file(MODULES "/modules.dep", "weak-updates/nvidia.ko:\n");
	rig_module(MODULES "/weak-updates/nvidia.ko", "5.14.0-362.el9.x86_64");
	(void)ward_expect("driver.headers", DOCTOR_OK);
}

static void test_a_kernel_without_module(void **state)
{
	rig_built();
	ward_file(MODULES "/modules.dep", "");
	ward_file("/lib/modules/5.14.0-362.el9.x86_64/modules.dep", "extra/nvidia.ko.xz:\n");
	const struct doctor_finding *finding = ward_expect("driver.headers", DOCTOR_FAIL);
	assert_string_equal(finding->found, "one for kernel 5.14.0-362.el9.x86_64 only");
	ward_healthy();
	(void)ward_expect("driver.headers", DOCTOR_OK);
}

/* --- repositories ----------------------------------------------------------------------------- */

static const char *rig_listed;

static int rig_list(const char *location, const char *deb_arch, const char *const *patterns,
		    struct buf *out, struct err *err)
{
	assert_string_equal(deb_arch, "amd64");
	assert_true(*patterns != NULL);
	if (strcmp(location, "/missing") == 0)
		return err_set(err, -EIO, "cannot open '/missing'");
	return buf_add_text(out, rig_listed);
}

static void test_repositories(void **state)
{
	static const char *const locations[] = {"/a", "/missing"};
	rig_kernel();
	(void)ward_expect("driver.packages", DOCTOR_SKIP);
	ward_options.repositories = locations;
	ward_options.repository_count = 1;
	ward_options.list_packages = rig_list;
	rig_listed = "kernel-headers\t5.14.0-427.el9\tx86_64\n"
		     "kernel-devel\t5.14.0-362.el9\tx86_64\n"
		     "kernel-core\t5.14.0-427.el9\tx86_64\ngcc\t11.4.1-3.el9\tx86_64\n"
		     "elfutils-libelf\t0.190-2.el9\tx86_64\n"
		     "elfutils-libelf-devel\t0.190-2.el9\tx86_64\nend\trpm\t6\n";
	const struct doctor_finding *finding = ward_expect("driver.packages", DOCTOR_FAIL);
	assert_string_equal(finding->object, "package kernel-devel-5.14.0-427.el9");
	assert_string_equal(finding->found, "kernel-devel-5.14.0-362.el9");
	assert_string_equal(finding->need, "kernel-devel-5.14.0-427.el9 for kernel " KERNEL);
	ward_options.kernel = "5.14.0-362.el9.x86_64";
	finding = ward_expect("driver.packages", DOCTOR_FAIL);
	assert_string_equal(finding->object, "package kernel-headers-5.14.0-362.el9");
	rig_listed = "end\tfiles\t7\n";
	finding = ward_expect("driver.packages", DOCTOR_FAIL);
	assert_string_equal(finding->found, "none among 7 packages");
	/* With half of the repositories nothing is said of packages. */
	ward_options.repository_count = 2;
	finding = ward_expect("driver.packages", DOCTOR_FAIL);
	assert_string_equal(finding->object, "repository /missing");
	assert_non_null(strstr(finding->found, "cannot open '/missing'"));
	ward_options.repository_count = 1;
	rig_listed = "<html>";
	finding = ward_expect("driver.packages", DOCTOR_FAIL);
	assert_string_equal(finding->object, "repository /a");
	ward_file("/etc/os-release", "ID=arch\n");
	(void)ward_expect("driver.packages", DOCTOR_SKIP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(test_headers),	    ward_test(test_nobody_builds),
	    ward_test(test_another_system), ward_test(test_another_compiler),
	    ward_test(test_modules),	    ward_test(test_a_kernel_without_module),
	    ward_test(test_repositories),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
