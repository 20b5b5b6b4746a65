/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "unit/unit.h"

static void test_copy_is_deep(void **state)
{
	struct inventory from, to;
	inventory_init(&from);
	inventory_init(&to);
	from.gpu_count = 2;
	from.gpus = calloc(2, sizeof(struct gpu));
	from.mig_count = 1;
	from.migs = calloc(1, sizeof(struct mig_device));
	assert_non_null(from.gpus);
	assert_non_null(from.migs);
	memcpy(from.gpus[1].uuid, "GPU-1", 6);
	memcpy(from.migs[0].uuid, "MIG-1", 6);
	assert_int_equal(inventory_copy(&from, &to), 0);
	from.gpus[1].uuid[0] = 'X';
	assert_non_null(inventory_find_gpu(&to, "GPU-1"));
	assert_null(inventory_find_gpu(&from, "GPU-1"));
	assert_ptr_equal(inventory_find_mig(&to, "MIG-1"), &to.migs[0]);
	assert_null(inventory_find_mig(&to, "MIG-2"));
	inventory_done(&from);
	inventory_done(&to);
	assert_int_equal(to.gpu_count, 0);
	assert_null(to.gpus);
	inventory_done(&to); /* takes what is done already */
	inventory_done(NULL);
}

static void test_words(void **state)
{
	assert_string_equal(gpu_state_to_string(GPU_STATE_OK), "ok");
	assert_string_equal(gpu_state_to_string(GPU_STATE_RESET_REQUIRED), "reset required");
	assert_string_equal(gpu_state_to_string(99), "unknown");
	assert_string_equal(gpu_architecture_to_string(GPU_ARCH_HOPPER), "Hopper");
	assert_string_equal(gpu_architecture_to_string(1), "unknown");
	assert_string_equal(gpu_architecture_to_string(4000), "unknown");
	assert_string_equal(gpu_mig_mode_to_string(GPU_MIG_ENABLED), "enabled");
	assert_string_equal(gpu_level_to_string(GPU_LEVEL_SINGLE), "PIX");
	assert_string_equal(gpu_level_to_string(GPU_LEVEL_MULTIPLE), "PXB");
	assert_string_equal(gpu_level_to_string(GPU_LEVEL_HOSTBRIDGE), "PHB");
	assert_string_equal(gpu_level_to_string(GPU_LEVEL_NODE), "NODE");
	assert_string_equal(gpu_level_to_string(GPU_LEVEL_SYSTEM), "SYS");
	assert_string_equal(gpu_level_to_string(7), "?");
}

static void test_simulated(void **state)
{
	assert_true(gpu_uuid_is_simulated("GPU-51ce51ce-1-2-3"));
	assert_true(gpu_uuid_is_simulated("MIG-51ce51ce-1-2-3"));
	assert_false(gpu_uuid_is_simulated("GPU-61ce51ce-1-2-3"));
	assert_false(gpu_uuid_is_simulated("51ce51ce-1-2-3"));
	assert_false(gpu_uuid_is_simulated(""));
}

static void test_addresses(void **state)
{
	char text[PCI_TEXT_MAX];
	struct pci_address a = {.domain = 0, .bus = 7, .device = 31, .function = 7};
	assert_string_equal(pci_address_to_string(&a, text), "0000:07:1f.7");
	a.domain = 0xffffffff;
	assert_string_equal(pci_address_to_string(&a, text), "ffffffff:07:1f.");
	struct pci_address b = {.bus = 0x10}, c = {.bus = 0x10, .function = 1}, d = {.domain = 1};
	assert_true(pci_address_compare(&b, &c) < 0);
	assert_true(pci_address_compare(&d, &c) > 0);
	assert_int_equal(pci_address_compare(&c, &c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_copy_is_deep),
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_simulated),
	    cmocka_unit_test(test_addresses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
