/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "doors/labels/label.h"
#include "doors/labels/labels.h"
#include "tests/unit/unit.h"

static void test_facts(void **state)
{
	(void)state;
	static struct labels_facts facts;
	char dir[FILE_PATH_MAX];
	char *root = unit_tmp_new();
	struct gpu gpus[2] = {{.has_pci = true, .pci = {.bus = 7}}, {.has_pci = false}};
	const struct inventory inventory = {.gpu_count = 2, .gpus = gpus};
	const char *machine = unit_path(root, "product_name");
	assert_int_equal(file_path(dir, NULL, "%s/sys/bus/pci/devices/0000:07:00.0", root), 0);
	assert_int_equal(file_mkdirs(dir, 0755, NULL), 0);
	unit_write(unit_path(dir, "class"), "0x030200\n");
	unit_write(unit_path(dir, "vendor"), "0x10de\n");
	unit_write(machine, "NVIDIA DGX-2\n");

	facts_read(root, machine, &inventory, &facts);
	assert_true(facts.has_machine);
	assert_int_equal(facts.machine_length, 13);
	assert_memory_equal(facts.machine, "NVIDIA DGX-2\n", 13);
	assert_int_equal(facts.class_[0], 0x030200);
	assert_int_equal(facts.class_[1], LABELS_CLASS_UNKNOWN);
	assert_int_equal(facts.vgpu_presence, VGPU_UNKNOWN); /* there is no file config */

	facts_read(root, "", &inventory, &facts);
	assert_false(facts.has_machine);
	facts_read(root, unit_path(root, "nothing"), &inventory, &facts);
	assert_false(facts.has_machine);
	assert_int_equal(facts.machine_length, 0);
	facts_read("/dev/null", "", &inventory, &facts);
	assert_int_equal(facts.class_[0], LABELS_CLASS_UNKNOWN);
	assert_int_equal(facts.vgpu_presence, VGPU_NONE);
	assert_null(unit_tmp_free(root));
}

static void put_device(const char *root, const char *name, const char *vendor, const char *class_)
{
	char dir[FILE_PATH_MAX];
	assert_int_equal(file_path(dir, NULL, "%s/sys/bus/pci/devices/%s", root, name), 0);
	assert_int_equal(file_mkdirs(dir, 0755, NULL), 0);
	unit_write(unit_path(dir, "vendor"), vendor);
	unit_write(unit_path(dir, "class"), class_);
}

#define FEATURE "feature.node.kubernetes.io/"

static void test_discovery(void **state)
{
	(void)state;
	char *root = unit_tmp_new();
	_cleanup_label_set_ struct label_set set;
	label_set_init(&set);
	facts_read_discovery(root, &set);
	assert_int_equal(set.count, 0);
	put_device(root, "0000:07:00.0", "0x10de\n", "0x030200\n");
	put_device(root, "0000:07:00.1", "0x10de\n", "0x040300\n"); /* its sound */
	put_device(root, "0000:08:00.0", "0x8086\n", "0x030000\n");
	facts_read_discovery(root, &set);
	assert_int_equal(set.count, 2);
	assert_string_equal(label_set_get(&set, FEATURE "pci-10de.present"), "true");
	assert_string_equal(label_set_get(&set, FEATURE "pci-0302_10de.present"), "true");
	put_device(root, "0000:09:00.0", "0x10de\n", "0x030000\n");
	put_device(root, "0000:0a:00.0", "0x15b3\n", "0x020700\n");
	char dir[FILE_PATH_MAX];
	assert_int_equal(file_path(dir, NULL, "%s/sys/module/ib_uverbs", root), 0);
	assert_int_equal(file_mkdirs(dir, 0755, NULL), 0);
	facts_read_discovery(root, &set);
	assert_int_equal(set.count, 5);
	assert_string_equal(label_set_get(&set, FEATURE "pci-0300_10de.present"), "true");
	assert_string_equal(label_set_get(&set, FEATURE "pci-15b3.present"), "true");
	assert_string_equal(label_set_get(&set, FEATURE "rdma.capable"), "true");
	assert_int_equal(file_path(dir, NULL, "%s/sys/module/rdma_ucm", root), 0);
	assert_int_equal(file_mkdirs(dir, 0755, NULL), 0);
	facts_read_discovery(root, &set);
	assert_string_equal(label_set_get(&set, FEATURE "rdma.available"), "true");
	assert_null(unit_tmp_free(root));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_facts),
					   cmocka_unit_test(test_discovery)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
