/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "tests/unit/doctor/ward.h"

#define CONF "/etc/modprobe.d/site.conf"

static void loaded(void **state)
{
	(void)state;
	ward_healthy();
	ward_file(CONF, "blacklist nouveau\n");
	ward_file("/sys/module/nouveau/refcnt", "3\n");
	const struct doctor_finding *finding = ward_expect("driver.nouveau", DOCTOR_FAIL);
	assert_non_null(strstr(finding->found, "in use (3 users)"));
	assert_non_null(strstr(finding->do_, "update-initramfs -u"));
	ward_file("/sys/module/nouveau/refcnt", "0\n");
	finding = ward_expect("driver.nouveau", DOCTOR_FAIL);
	assert_non_null(strstr(finding->found, "nothing uses it"));
	ward_file("/etc/os-release", "ID=rocky\nID_LIKE=\"rhel centos fedora\"\n");
	assert_non_null(strstr(ward_expect("driver.nouveau", DOCTOR_FAIL)->do_, "dracut -f"));
	ward_file("/etc/os-release", "ID=rhcos\n");
	assert_non_null(strstr(ward_expect("driver.nouveau", DOCTOR_FAIL)->do_, "MachineConfig"));
}

struct nouveau_case {
	const char *text;
	enum doctor_status status;
};

static void expect_each(const char *path, const struct nouveau_case *cases, size_t count,
			const char *found)
{
	ward_healthy();
	for (size_t i = 0; i < count; i++) {
		ward_file(path, cases[i].text);
		const struct doctor_finding *finding =
		    ward_expect("driver.nouveau", cases[i].status);
		if (found && cases[i].status == DOCTOR_OK)
			assert_string_equal(finding->found, found);
	}
}

static void blocked_by_a_file(void **state)
{
	(void)state;
	static const struct nouveau_case cases[] = {
	    {"blacklist nouveau\n", DOCTOR_OK},
	    {"blacklist nouveau", DOCTOR_OK},
	    {"  blacklist\tnouveau  \n", DOCTOR_OK},
	    {"options snd x=1\nblacklist nouveau\n", DOCTOR_OK},
	    {"install nouveau /bin/false\n", DOCTOR_OK},
	    {"install nouveau /usr/bin/true\n", DOCTOR_OK},
	    {"blacklist \\\nnouveau\n", DOCTOR_OK},
	    {"# blacklist nouveau\n", DOCTOR_WARN},
	    {"#blacklist nouveau\nblacklist nvidiafb\n", DOCTOR_WARN},
	    {"# text \\\nblacklist nouveau\n", DOCTOR_WARN},
	    {"blacklist nouveau2\n", DOCTOR_WARN},
	    {"blacklist\n", DOCTOR_WARN},
	    {"options nouveau modeset=0\n", DOCTOR_WARN},
	    {"install nouveau /sbin/modprobe --ignore-install nouveau\n", DOCTOR_WARN},
	    {"", DOCTOR_WARN},
	    {"\1\2\377\376 blacklist nouveau\n", DOCTOR_WARN},
	};
	expect_each(CONF, cases, array_length(cases), "it blocked by " CONF);
}

static void directories(void **state)
{
	(void)state;
	ward_healthy();
	(void)ward_expect("driver.nouveau", DOCTOR_WARN);
	ward_file("/usr/lib/modprobe.d/nvidia.conf", "blacklist nouveau\n");
	(void)ward_expect("driver.nouveau", DOCTOR_OK);
	/* a link to nothing in /etc switches the file of the package off */
	ward_link("/etc/modprobe.d/nvidia.conf", "/dev/null");
	(void)ward_expect("driver.nouveau", DOCTOR_WARN);
	ward_file("/run/modprobe.d/other.conf", "blacklist nouveau\n");
	(void)ward_expect("driver.nouveau", DOCTOR_OK);
	ward_remove("/run/modprobe.d/other.conf");
	ward_file("/run/modprobe.d/other.txt", "blacklist nouveau\n");
	(void)ward_expect("driver.nouveau", DOCTOR_WARN);
}

static void blocked_by_the_command_line(void **state)
{
	(void)state;
	static const struct nouveau_case cases[] = {
	    {"quiet modprobe.blacklist=nouveau\n", DOCTOR_OK},
	    {"modprobe.blacklist=a,nouveau,b quiet\n", DOCTOR_OK},
	    {"modprobe.blacklist=\"a,nouveau\"\n", DOCTOR_OK},
	    {"rd.driver.blacklist=nouveau\n", DOCTOR_OK},
	    {"module_blacklist=nouveau", DOCTOR_OK},
	    {"nouveau.modeset=0", DOCTOR_OK},
	    {"nouveau.modeset=1", DOCTOR_WARN},
	    {"modprobe.blacklist=nouveau2,xnouveau", DOCTOR_WARN},
	    {"modprobe.blacklist=", DOCTOR_WARN},
	    {"blacklist=nouveau", DOCTOR_WARN},
	    {"\377\1\2\"modprobe.blacklist=nouveau", DOCTOR_WARN},
	    {"x=\"modprobe.blacklist=nouveau y\"", DOCTOR_WARN},
	};
	expect_each("/proc/cmdline", cases, array_length(cases), NULL);
}

static void kernels_without_it(void **state)
{
	(void)state;
	ward_healthy();
	ward_file("/proc/sys/kernel/osrelease", "6.1.0\n");
	(void)ward_expect("driver.nouveau", DOCTOR_WARN);
	ward_file("/lib/modules/6.1.0/modules.dep", "");
	(void)ward_expect("driver.nouveau", DOCTOR_OK);
	ward_file("/lib/modules/6.1.0/kernel/drivers/gpu/drm/nouveau/nouveau.ko.xz", "");
	(void)ward_expect("driver.nouveau", DOCTOR_WARN);
	ward_file("/etc/os-release", "ID=fedora\nOSTREE_VERSION='40.1'\n");
	(void)ward_expect("driver.nouveau", DOCTOR_OK);
}

static void hostile(void **state)
{
	(void)state;
	ward_healthy();
	ward_large("/etc/modprobe.d/a.conf", 'x', 10 << 20);
	(void)ward_expect("driver.nouveau", DOCTOR_WARN);
	ward_fifo("/etc/modprobe.d/b.conf");
	ward_link("/etc/modprobe.d/c.conf", "/etc/modprobe.d/c.conf");
	ward_link("/etc/modprobe.d/d.conf", "/../../../../../../../etc/passwd");
	const struct doctor_finding *finding = ward_expect("driver.nouveau", DOCTOR_UNKNOWN);
	assert_non_null(strstr(finding->object, ".conf"));
	ward_file("/etc/modprobe.d/e.conf", "blacklist nouveau\n");
	(void)ward_expect("driver.nouveau", DOCTOR_OK);
	ward_fifo("/proc/cmdline");
	(void)ward_expect("driver.nouveau", DOCTOR_OK);
}

static void unprivileged(void **state)
{
	(void)state;
	if (geteuid() == 0)
		skip(); /* root may read everything */
	ward_healthy();
	ward_file(CONF, "blacklist nouveau\n");
	assert_int_equal(chmod(unit_path(unit_top, &CONF[1]), 0), 0);
	assert_non_null(strstr(ward_expect("driver.nouveau", DOCTOR_UNKNOWN)->do_, "sudo"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(loaded),
	    ward_test(blocked_by_a_file),
	    ward_test(directories),
	    ward_test(blocked_by_the_command_line),
	    ward_test(kernels_without_it),
	    ward_test(hostile),
	    ward_test(unprivileged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
