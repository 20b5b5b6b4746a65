/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/labels/facts.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_facts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
