/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/vgpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/unit/unit.h"

enum { CONFIG_SIZE = 256, CAPABILITY = 0xd0 };

/* Power management at 0x60, then the vendor capability with one record. */
static void fill(uint8_t config[CONFIG_SIZE])
{
	memset(config, 0, CONFIG_SIZE);
	config[0x06] = 0x10;
	config[0x34] = 0x60;
	config[0x60] = 0x01;
	config[0x61] = CAPABILITY;
	config[CAPABILITY] = 0x09;
	config[CAPABILITY + 2] = 27;
	config[CAPABILITY + 3] = 'V';
	config[CAPABILITY + 4] = 'F';
	config[CAPABILITY + 6] = 22;
	memcpy(config + CAPABILITY + 7, "525.60.12", 9);
	memcpy(config + CAPABILITY + 17, "r525_00", 7);
}

static void test_a_vgpu(void **state)
{
	(void)state;
	uint8_t config[CONFIG_SIZE];
	struct vgpu vgpu;
	fill(config);
	assert_int_equal(vgpu_parse(config, sizeof(config), &vgpu), 1);
	assert_string_equal(vgpu.host_version, "525.60.12");
	assert_string_equal(vgpu.host_branch, "r525_00");
	/* Ten bytes without a NUL. */
	memcpy(config + CAPABILITY + 7, "580.105.08", 10);
	assert_int_equal(vgpu_parse(config, sizeof(config), &vgpu), 1);
	assert_string_equal(vgpu.host_version, "580.105.08");
	/* Unprivileged readers get 64 bytes. */
	assert_int_equal(vgpu_parse(config, 64, &vgpu), -EINVAL);
	assert_string_equal(vgpu.host_version, "580.105.08");
}

static int parse_with(size_t at, uint8_t value, struct vgpu *out)
{
	uint8_t config[CONFIG_SIZE];
	fill(config);
	config[at] = value;
	return vgpu_parse(config, sizeof(config), out);
}

static void test_no_vgpu(void **state)
{
	(void)state;
	struct vgpu vgpu;
	assert_int_equal(parse_with(0x06, 0, &vgpu), 0);	     /* no list */
	assert_int_equal(parse_with(0x34, 0, &vgpu), 0);	     /* an empty one */
	assert_int_equal(parse_with(0x61, 0x60, &vgpu), 0);	     /* a loop */
	assert_int_equal(parse_with(0x60, 0xff, &vgpu), 0);	     /* no device behind it */
	assert_int_equal(parse_with(0x61, 0xff, &vgpu), 0);	     /* beyond the end */
	assert_int_equal(parse_with(CAPABILITY, 0x10, &vgpu), 0);    /* another capability */
	assert_int_equal(parse_with(CAPABILITY + 4, 'X', &vgpu), 0); /* another vendor's */
}

static void test_records(void **state)
{
	(void)state;
	uint8_t config[CONFIG_SIZE];
	struct vgpu vgpu;
	/* Length 0 ends the walk; the vGPU is one all the same. */
	assert_int_equal(parse_with(CAPABILITY + 6, 0, &vgpu), 1);
	assert_string_equal(vgpu.host_version, "");
	/* A capability that is too short for the record. */
	assert_int_equal(parse_with(CAPABILITY + 2, 26, &vgpu), 1);
	assert_string_equal(vgpu.host_version, "");
	/* Another record first. */
	fill(config);
	memmove(config + CAPABILITY + 9, config + CAPABILITY + 5, 22);
	config[CAPABILITY + 2] = 31;
	config[CAPABILITY + 5] = 7;
	config[CAPABILITY + 6] = 4;
	assert_int_equal(vgpu_parse(config, sizeof(config), &vgpu), 1);
	assert_string_equal(vgpu.host_branch, "r525_00");
}

static void write_device(const char *root, const char *address, const char *vendor,
			 const uint8_t *config, size_t length)
{
	char dir[FILE_PATH_MAX];
	struct err *none = NULL;
	assert_int_equal(file_path(dir, none, "%s/sys/bus/pci/devices/%s", root, address), 0);
	assert_int_equal(file_mkdirs(dir, 0755, none), 0);
	unit_write(unit_path(dir, "vendor"), vendor);
	if (config)
		assert_int_equal(
		    file_write_atomic(unit_path(dir, "config"), config, length, 0644, none), 0);
}

static void test_devices(void **state)
{
	(void)state;
	char *root = unit_tmp_new();
	uint8_t plain[CONFIG_SIZE] = {0}, guest[CONFIG_SIZE], other[CONFIG_SIZE];
	struct vgpu vgpu;
	fill(guest);
	fill(other);
	memcpy(other + CAPABILITY + 7, "999.99.99", 9);
	assert_int_equal(vgpu_read(root, &vgpu), VGPU_NONE);
	write_device(root, "0000:01:00.0", "0x8086\n", guest, sizeof(guest));
	write_device(root, "0000:02:00.0", "0x10de\n", plain, sizeof(plain));
	assert_int_equal(vgpu_read(root, &vgpu), VGPU_NONE);
	/* One that cannot be read leaves it open, unless another is one. */
	write_device(root, "0000:03:00.0", "0x10de\n", guest, 64);
	assert_int_equal(vgpu_read(root, &vgpu), VGPU_UNKNOWN);
	write_device(root, "0000:05:00.0", "0x10de\n", other, sizeof(other));
	write_device(root, "0000:04:00.0", "0x10de\n", guest, sizeof(guest));
	assert_int_equal(vgpu_read(root, &vgpu), VGPU_PRESENT);
	assert_string_equal(vgpu.host_version, "525.60.12");
	write_device(root, "0000:00:00.0", "0x10de\n", NULL, 0);
	assert_int_equal(vgpu_read(root, &vgpu), VGPU_PRESENT);
	assert_null(unit_tmp_free(root));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_vgpu),
	    cmocka_unit_test(test_no_vgpu),
	    cmocka_unit_test(test_records),
	    cmocka_unit_test(test_devices),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
