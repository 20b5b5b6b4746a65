/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/pci.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "unit/unit.h"

static int address(const char *text, struct pci_address *out)
{
	return pci_parse_address(text, strlen(text), out);
}

static void test_addresses(void **state)
{
	struct pci_address a;
	assert_int_equal(address("0000:07:1f.7", &a), 0);
	assert_int_equal(a.bus, 7);
	assert_int_equal(a.device, 0x1f);
	assert_int_equal(a.function, 7);
	assert_int_equal(address("000000AB:C7:00.0", &a), 0);
	assert_int_equal(a.domain, 0xab);
	assert_int_equal(a.bus, 0xc7);
	assert_int_equal(address("0001:07:00", &a), 0);
	assert_int_equal(a.domain, 1);
	assert_int_equal(address("07:00.0", &a), 0);
	assert_int_equal(a.domain, 0);
	static const char *const wrong[] = {"",
					    ":",
					    "::",
					    "07",
					    "0000:07:00.",
					    "0000:07:20.0",
					    "0000:07:00.8",
					    "0000:107:00.0",
					    "0000:07:00.00",
					    "123456789:07:00.0",
					    "0x00:07:00.0",
					    "0000:07:00.0 ",
					    " 0000:07:00.0",
					    "0000:-7:00.0",
					    "a:b:c:d",
					    "0000::00.0"};
	for (size_t i = 0; i < array_length(wrong); i++) {
		if (address(wrong[i], &a) != -EINVAL)
			fail_msg("'%s' is taken for an address", wrong[i]);
	}
}

static void test_numbers(void **state)
{
	int32_t node = 7;
	uint32_t number = 7;
	assert_int_equal(pci_parse_numa_node("3\n", 2, &node), 0);
	assert_int_equal(node, 3);
	assert_int_equal(pci_parse_numa_node("-1\n", 3, &node), 0);
	assert_int_equal(node, GPU_NUMA_NONE);
	assert_int_equal(pci_parse_numa_node("-2\n", 3, &node), -EINVAL);
	assert_int_equal(pci_parse_numa_node("", 0, &node), -EINVAL);
	assert_int_equal(pci_parse_numa_node("99999999999", 11, &node), -EINVAL);
	assert_int_equal(pci_parse_hex("0x030200\n", 9, &number), 0);
	assert_int_equal(number, 0x030200);
	assert_int_equal(pci_parse_hex("zz", 2, &number), -EINVAL);
}

static uint32_t speed(const char *text)
{
	return pci_parse_link_speed(text, strlen(text));
}

static void test_links(void **state)
{
	assert_int_equal(speed("16.0 GT/s PCIe\n"), 4);
	assert_int_equal(speed("2.5 GT/s PCIe\n"), 1);
	assert_int_equal(speed("5 GT/s\n"), 2);
	assert_int_equal(speed("8.0 GT/s PCIe\n"), 3);
	assert_int_equal(speed("32.0 GT/s PCIe\n"), 5);
	assert_int_equal(speed("64.0 GT/s PCIe\n"), 6);
	assert_int_equal(speed("Unknown\n"), 0);
	assert_int_equal(speed("17.0 GT/s\n"), 0);
	assert_int_equal(speed("16.0\n"), 0);
	assert_int_equal(speed("16.00 GT/s\n"), 0);
	assert_int_equal(speed(""), 0);
	assert_int_equal(pci_parse_link_width("16\n", 3), 16);
	assert_int_equal(pci_parse_link_width("0\n", 2), 0);
	assert_int_equal(pci_parse_link_width("255\n", 4), 0);
	assert_int_equal(pci_speed_of_gen(4), 160);
	assert_int_equal(pci_speed_of_gen(77), 0);
	assert_int_equal(pci_gen_of_speed(320), 5);
	assert_int_equal(pci_gen_of_speed(1), 0);
}

static void test_cpulist(void **state)
{
	char list[PCI_CPULIST_MAX] = "untouched";
	assert_int_equal(pci_parse_cpulist("0-15,32-47\n", 11, list), 0);
	assert_string_equal(list, "0-15,32-47");
	assert_int_equal(pci_parse_cpulist("\n", 1, list), -EINVAL);
	assert_int_equal(pci_parse_cpulist("0-15;rm", 7, list), -EINVAL);
	char longer[PCI_CPULIST_MAX + 8];
	memset(longer, '1', sizeof(longer));
	assert_int_equal(pci_parse_cpulist(longer, sizeof(longer), list), -ENAMETOOLONG);
	assert_string_equal(list, "0-15,32-47");
}

static struct pci_path path(const char *text)
{
	struct pci_path out;
	assert_int_equal(pci_parse_path(text, strlen(text), &out), 0);
	return out;
}

static void test_paths(void **state)
{
	struct pci_path p = path("../../../devices/pci0000:40/0000:40:01.0/0000:41:00.0");
	assert_int_equal(p.root_bus, 0x40);
	assert_int_equal(p.depth, 2);
	assert_int_equal(p.hop[1].bus, 0x41);
	struct pci_path out;
	static const char *const wrong[] = {"",
					    "../../devices",
					    "pci0000:00",
					    "pci0000:00/garbage",
					    "pci:00/0000:00:00.0",
					    "pci0000:zz/0000:00:00.0"};
	for (size_t i = 0; i < array_length(wrong); i++)
		assert_int_equal(pci_parse_path(wrong[i], strlen(wrong[i]), &out), -EINVAL);
	/* more bridges than any machine has */
	char deep[1024] = "pci0000:00";
	for (uint32_t i = 0; i < PCI_PATH_DEPTH_MAX + 1; i++)
		(void)snprintf(deep + strlen(deep), sizeof(deep) - strlen(deep), "/0000:%02x:00.0",
			       i);
	assert_int_equal(pci_parse_path(deep, strlen(deep), &out), -EINVAL);
}

static void test_levels(void **state)
{
	/* root port 01.0, switch 02 with downstream ports 03:00 and 03:04 */
	struct pci_path a = path("pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:00.0/0000:04:00.0");
	struct pci_path b = path("pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:04.0/0000:05:00.0");
	assert_int_equal(pci_path_level(&a, 0, &a, 0), GPU_LEVEL_INTERNAL);
	assert_int_equal(pci_path_level(&a, 0, &b, 0), GPU_LEVEL_SINGLE);
	/* another switch below the second port */
	struct pci_path c = path("pci0000:00/0000:00:01.0/0000:02:00.0/0000:03:04.0/0000:05:00.0/"
				 "0000:06:00.0/0000:07:00.0");
	assert_int_equal(pci_path_level(&a, 0, &c, 0), GPU_LEVEL_MULTIPLE);
	struct pci_path d = path("pci0000:00/0000:00:02.0/0000:08:00.0");
	assert_int_equal(pci_path_level(&a, 0, &d, 0), GPU_LEVEL_HOSTBRIDGE);
	struct pci_path e = path("pci0000:80/0000:80:02.0/0000:81:00.0");
	assert_int_equal(pci_path_level(&a, 0, &e, 0), GPU_LEVEL_NODE);
	assert_int_equal(pci_path_level(&a, 0, &e, 1), GPU_LEVEL_SYSTEM);
	assert_int_equal(pci_path_level(&a, GPU_NUMA_NONE, &e, GPU_NUMA_NONE), GPU_LEVEL_SYSTEM);
}

static void test_information(void **state)
{
	struct pci_nvidia_information info;
	static const char text[] =
	    "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 100\nGPU UUID: \t GPU-51ce51ce-1\n"
	    "Video BIOS: \t 1\nBus Location: \t 0000:07:00.0\nDevice Minor: \t 3\n"
	    "GPU Excluded:\t No\n";
	pci_parse_nvidia_information(text, sizeof(text) - 1, &info);
	assert_string_equal(info.model, "NVIDIA A100-SXM4-40GB");
	assert_string_equal(info.uuid, "GPU-51ce51ce-1");
	assert_int_equal(info.minor, 3);
	static const char lost[] = "GPU UUID: \t GPU-?\?\?\?\?\?\?\?-?\?\?\?\nDevice Minor: \t x";
	pci_parse_nvidia_information(lost, sizeof(lost) - 1, &info);
	assert_string_equal(info.uuid, "");
	assert_int_equal(info.minor, GPU_U32_UNKNOWN);
	pci_parse_nvidia_information("", 0, &info);
	assert_string_equal(info.model, "");
}

static void test_version(void **state)
{
	char version[GPU_VERSION_MAX] = "";
	static const char closed[] =
	    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed "
	    "Oct 29 23:15:11 UTC 2025\nGCC version:  gcc 12.2.0\n";
	assert_int_equal(pci_parse_nvidia_version(closed, sizeof(closed) - 1, version), 0);
	assert_string_equal(version, "580.105.08");
	static const char open_[] =
	    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1  "
	    "Release Build  (a@b)  Wed\n";
	assert_int_equal(pci_parse_nvidia_version(open_, sizeof(open_) - 1, version), 0);
	assert_string_equal(version, "570.1");
	assert_int_equal(pci_parse_nvidia_version("470.256.02\n", 11, version), 0);
	assert_string_equal(version, "470.256.02");
	assert_int_equal(pci_parse_nvidia_version("no version 12 here\n1.2.3", 24, version),
			 -EINVAL);
	assert_string_equal(version, "470.256.02");
}

/* ---- readers ---- */

static char *directory;

static int setup(void **state)
{
	directory = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	directory = unit_tmp_free(directory);
	return 0;
}

static void make_device(const char *name, const char *class_, const char *target)
{
	char path_[4096];
	(void)snprintf(path_, sizeof(path_), "%s/sys/%s", directory, target);
	assert_int_equal(file_mkdirs(path_, 0755, NULL), 0);
	unit_write(unit_path(path_, "vendor"), "0x10de\n");
	unit_write(unit_path(path_, "class"), class_);
	unit_write(unit_path(path_, "numa_node"), "1\n");
	unit_write(unit_path(path_, "local_cpulist"), "0-3\n");
	unit_write(unit_path(path_, "current_link_width"), "16\n");
	char link_[4096], to[4096];
	(void)snprintf(link_, sizeof(link_), "%s/sys/bus/pci/devices", directory);
	assert_int_equal(file_mkdirs(link_, 0755, NULL), 0);
	(void)snprintf(link_, sizeof(link_), "%s/sys/bus/pci/devices/%s", directory, name);
	(void)snprintf(to, sizeof(to), "../../../%s", target);
	assert_int_equal(symlink(to, link_), 0);
}

static void test_read_device(void **state)
{
	make_device("0000:07:00.0", "0x030200\n", "devices/pci0000:00/0000:00:01.0/0000:07:00.0");
	make_device("0000:08:00.0", "0x020000\n", "devices/pci0000:00/0000:00:02.0/0000:08:00.0");
	struct pci_address at = {.bus = 7};
	struct pci_device device;
	assert_int_equal(pci_read_device(directory, &at, &device, NULL), 0);
	assert_int_equal(device.vendor, PCI_VENDOR_NVIDIA);
	assert_int_equal(device.class_, 0x030200);
	assert_int_equal(device.numa_node, 1);
	assert_string_equal(device.cpulist, "0-3");
	assert_int_equal(device.link_width, 16);
	assert_int_equal(device.link_gen, 0); /* the file is not there */
	assert_true(device.has_path);
	assert_int_equal(device.path.depth, 2);

	uint32_t class_ = 0;
	assert_int_equal(pci_read_class(directory, &at, &class_), 0);
	assert_int_equal(class_, 0x030200);

	struct pci_device found[4];
	assert_int_equal(pci_list_class(directory, PCI_CLASS_NETWORK, found, 4), 1);
	assert_int_equal(found[0].address.bus, 8);
	assert_int_equal(pci_list_class(directory, PCI_CLASS_DISPLAY, found, 4), 1);

	struct err err;
	at.bus = 9;
	assert_int_equal(pci_read_device(directory, &at, &device, &err), -ENOENT);
	assert_non_null(strstr(err.text, "0000:09:00.0"));
	assert_int_equal(pci_read_class(directory, &at, &class_), -ENOENT);
	assert_int_equal(class_, 0x030200);
}

/* Files that are directories, links to nothing, links in circles: their values are unknown. */
static void test_broken_files(void **state)
{
	make_device("0000:07:00.0", "0x030200\n", "devices/pci0000:00/0000:07:00.0");
	const char *dir = unit_path(directory, "sys/devices/pci0000:00/0000:07:00.0");
	assert_int_equal(unlink(unit_path(dir, "numa_node")), 0);
	assert_int_equal(file_mkdirs(unit_path(dir, "numa_node"), 0755, NULL), 0);
	assert_int_equal(unlink(unit_path(dir, "vendor")), 0);
	assert_int_equal(symlink("vendor", unit_path(dir, "vendor")), 0);
	assert_int_equal(unlink(unit_path(dir, "local_cpulist")), 0);
	assert_int_equal(symlink("nowhere", unit_path(dir, "local_cpulist")), 0);
	struct pci_address at = {.bus = 7};
	struct pci_device device;
	assert_int_equal(pci_read_device(directory, &at, &device, NULL), 0);
	assert_int_equal(device.numa_node, GPU_NUMA_NONE);
	assert_int_equal(device.vendor, 0);
	assert_string_equal(device.cpulist, "");
	assert_int_equal(device.class_, 0x030200);
}

static void test_list_nvidia(void **state)
{
	struct pci_address list[2];
	assert_int_equal(pci_list_nvidia(directory, list, 2), 0);
	assert_int_equal(
	    file_mkdirs(unit_path(directory, "proc/driver/nvidia/gpus/0000:b7:00.0"), 0755, NULL),
	    0);
	assert_int_equal(
	    file_mkdirs(unit_path(directory, "proc/driver/nvidia/gpus/0000:07:00.0"), 0755, NULL),
	    0);
	assert_int_equal(
	    file_mkdirs(unit_path(directory, "proc/driver/nvidia/gpus/nonsense"), 0755, NULL), 0);
	assert_int_equal(pci_list_nvidia(directory, list, 2), 2);
	assert_int_equal(list[0].bus, 7);
	assert_int_equal(list[1].bus, 0xb7);
	assert_int_equal(pci_list_nvidia(directory, list, 1), 1);
}

static void test_root(void **state)
{
	unsetenv("SLUICE_ROOT");
	unsetenv("SLUICE_SIM_STATE");
	unsetenv("SLUICE_SIM_PROFILE");
	assert_string_equal(pci_root(), "");
	setenv("SLUICE_SIM_STATE", "/x", 1);
	assert_string_equal(pci_root(), PCI_NO_ROOT);
	struct pci_address at;
	assert_int_equal(pci_list_nvidia(pci_root(), &at, 1), 0);
	setenv("SLUICE_ROOT", "/y", 1);
	assert_string_equal(pci_root(), "/y");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_addresses),
	    cmocka_unit_test(test_numbers),
	    cmocka_unit_test(test_links),
	    cmocka_unit_test(test_cpulist),
	    cmocka_unit_test(test_paths),
	    cmocka_unit_test(test_levels),
	    cmocka_unit_test(test_information),
	    cmocka_unit_test(test_version),
	    TEST(test_read_device),
	    TEST(test_broken_files),
	    TEST(test_list_nvidia),
	    TEST(test_root),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
