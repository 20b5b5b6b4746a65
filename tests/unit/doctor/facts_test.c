/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/facts.h"

#include "tests/unit/doctor/ward.h"

static void nothing(void **state)
{
	(void)state;
	const struct doctor_facts *facts = &ward_run("gpu.pci")->facts;
	assert_false(facts->pci_is_known);
	assert_int_equal(facts->gpu_count, 0);
	assert_string_equal(facts->kernel, "");
	assert_string_equal(facts->os_id, "");
	assert_string_equal(facts->module_version, "");
	assert_string_equal(facts->driver_root, "");
}

static void everything(void **state)
{
	(void)state;
	ward_healthy();
	ward_gpu("0000:08:00.0", "");
	/* other classes, and other vendors */
	ward_gpu("0000:09:00.0", "snd_hda_intel");
	ward_file("/sys/bus/pci/devices/0000:09:00.0/class", "0x040300\n");
	ward_gpu("0000:0a:00.0", "ast");
	ward_file("/sys/bus/pci/devices/0000:0a:00.0/vendor", "0x1a03\n");
	ward_file("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
	ward_file("/usr/lib/os-release",
		  "ID=\"rhel\"\nID_LIKE=\"fedora centos\"\nVERSION_ID=9.4\n");
	ward_link("/etc/os-release", "../usr/lib/os-release");
	struct doctor *doctor = ward_run("gpu.pci");
	const struct doctor_facts *facts = &doctor->facts;
	assert_int_equal(facts->gpu_count, 2);
	assert_string_equal(facts->gpus[0].bus, "0000:07:00.0");
	assert_string_equal(facts->gpus[0].driver, "nvidia");
	assert_string_equal(facts->gpus[0].model, "NVIDIA H100 80GB HBM3");
	assert_int_equal(facts->gpus[0].minor, 0);
	assert_int_equal(facts->gpus[0].numa_node, 0);
	assert_string_equal(facts->gpus[1].driver, "");
	assert_int_equal(facts->gpus[1].minor, GPU_U32_UNKNOWN);
	assert_string_equal(facts->kernel, "6.1.0-28-amd64");
	assert_string_equal(facts->module_version, "580.105.08");
	assert_true(doctor_os_is(doctor, "rhel"));
	assert_true(doctor_os_is(doctor, "fedora"));
	assert_false(doctor_os_is(doctor, "cent"));
	assert_false(doctor_os_is_coreos(doctor));
}

static void driver_of_a_container(void **state)
{
	(void)state;
	ward_file(FACTS_DRIVER_ROOT "/usr/lib64/libnvidia-ml.so.1", "");
	assert_string_equal(ward_run("gpu.pci")->facts.driver_root, FACTS_DRIVER_ROOT);
	ward_file("/usr/lib64/libnvidia-ml.so.1", "");
	assert_string_equal(ward_run("gpu.pci")->facts.driver_root, "");
}

static void coreos(void **state)
{
	(void)state;
	ward_file("/etc/os-release", "ID=rhcos\nOSTREE_VERSION='414.92.1'\n");
	struct doctor *doctor = ward_run("gpu.pci");
	assert_true(doctor_os_is_coreos(doctor));
	assert_string_equal(doctor->facts.os_ostree, "414.92.1");
}

/* Of what can be hostile nothing is believed and nothing waits. */
static void hostile(void **state)
{
	(void)state;
	ward_healthy();
	ward_fifo("/sys/bus/pci/devices/0000:07:00.0/vendor");
	ward_link("/etc/os-release", "os-release");
	ward_large("/proc/sys/kernel/osrelease", '\1', 10 << 20);
	ward_directory("/sys/bus/pci/devices/not an address");
	const struct doctor_facts *facts = &ward_run("gpu.pci")->facts;
	assert_int_equal(facts->gpu_count, 0);
	assert_string_equal(facts->kernel, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    ward_test(nothing), ward_test(everything), ward_test(driver_of_a_container),
	    ward_test(coreos),	ward_test(hostile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
