/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/nodriver.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "policy/config.h"
#include "unit/unit.h"

static int setup(void **state)
{
	*state = unit_tmp_new();
	return 0;
}

static int teardown(void **state)
{
	*state = unit_tmp_free(*state);
	return 0;
}

static bool is_fatal(const char *text, bool has_kubelet, bool has_jobs)
{
	struct config *config = NULL;
	assert_int_equal(config_parse(text, strlen(text), "c", NULL, true, &config, NULL), 0);
	bool fatal = nodriver_is_fatal(config, has_kubelet, has_jobs);
	assert_null(config_free(config));
	return fatal;
}

static void test_who_wants_it(void **state)
{
	(void)state;
	assert_true(is_fatal("", true, false));
	assert_false(is_fatal("", false, false)); /* a workstation */
	assert_false(is_fatal("", true, true));
	assert_false(is_fatal("flags: {failOnInitError: false}", true, false));
	assert_false(is_fatal("sluice: {doors: {kubelet: {devices: none}}}", true, false));
	assert_false(is_fatal("sluice: {doors: {queue: {devices: all}}}", true, false));
	assert_true(is_fatal("sluice: {doors: {queue: {devices: [0]}}}", true, false));
	assert_true(is_fatal("sluice: {doors: {kubelet: {devices: [0]}}}", true, false));
}

static void add_device(const char *root, const char *address, const char *vendor,
		       const char *class_)
{
	static const char *const directories[] = {"sys", "sys/bus", "sys/bus/pci",
						  "sys/bus/pci/devices"};
	char path[256];
	for (size_t i = 0; i < array_length(directories); i++)
		(void)mkdir(unit_path(root, directories[i]), 0755);
	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", address);
	assert_int_equal(mkdir(unit_path(root, path), 0755), 0);
	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/vendor", address);
	unit_write(unit_path(root, path), vendor);
	(void)snprintf(path, sizeof(path), "sys/bus/pci/devices/%s/class", address);
	unit_write(unit_path(root, path), class_);
}

static void test_what_is_on_the_bus(void **state)
{
	struct pci_address address = {.bus = 99};
	assert_false(nodriver_find_gpu(*state, &address));	      /* no bus at all */
	add_device(*state, "0000:01:00.0", "0x8086\n", "0x030000\n"); /* another's */
	add_device(*state, "0000:02:00.0", "0x10de\n", "0x068000\n"); /* an NVSwitch */
	add_device(*state, "0000:03:00.0", "0x10de\n", "0x040300\n"); /* the sound of a GPU */
	assert_false(nodriver_find_gpu(*state, &address));
	assert_int_equal(address.bus, 99);
	add_device(*state, "0000:07:00.0", "0x10de\n", "0x030200\n");
	assert_true(nodriver_find_gpu(*state, &address));
	assert_int_equal(address.bus, 7);
	add_device(*state, "0000:05:00.0", "0x10de\n", "0x030000\n");
	assert_true(nodriver_find_gpu(*state, &address));
	assert_int_equal(address.bus, 5); /* the first */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_who_wants_it),
	    cmocka_unit_test_setup_teardown(test_what_is_on_the_bus, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
