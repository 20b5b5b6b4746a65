/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/deviceid.h"

#include <errno.h>
#include <string.h>

#include "unit/unit.h"

#define UUID "3f1c2b4a-0d9e-4c6b-8a57-91e2d3c4b5a6"

static void check(const char *text, enum deviceid_kind kind, const char *uuid, uint32_t minor,
		  uint32_t gi, uint32_t ci, uint32_t slot)
{
	struct deviceid id;
	assert_int_equal(deviceid_parse(text, strlen(text), &id), 0);
	assert_int_equal(id.kind, kind);
	assert_string_equal(id.uuid, uuid);
	assert_int_equal(id.minor, minor);
	assert_int_equal(id.gi, gi);
	assert_int_equal(id.ci, ci);
	assert_int_equal(id.slot, slot);
}

static void test_every_form(void **state)
{
	const uint32_t none = DEVICEID_NONE;
	(void)state;
	check("GPU-" UUID, DEVICEID_UUID, "GPU-" UUID, none, none, none, none);
	check("GPU-" UUID "::11", DEVICEID_UUID, "GPU-" UUID, none, none, none, 11);
	check("MIG-" UUID, DEVICEID_UUID, "MIG-" UUID, none, none, none, none);
	check("MIG-" UUID "::0", DEVICEID_UUID, "MIG-" UUID, none, none, none, 0);
	check("MIG-GPU-" UUID "/7/1", DEVICEID_PLACE, "GPU-" UUID, none, 7, 1, none);
	check("nvidia0", DEVICEID_MINOR, "", 0, none, none, none);
	check("nvidia12/vgpu1", DEVICEID_MINOR, "", 12, none, none, 1);
	check("nvidia0/gi3", DEVICEID_MINOR, "", 0, 3, none, none);
	check("nvidia0/gi3/vgpu2", DEVICEID_MINOR, "", 0, 3, none, 2);
}

static void test_no_gpus(void **state)
{
	static const char *const texts[] = {"",
					    "GPU-",
					    "MIG-",
					    "MIG-GPU-",
					    "GPU-1::",
					    "GPU-1::x",
					    "GPU-1:2",
					    "GPU-1::65536",
					    "GPU-1::1 ",
					    "MIG-GPU-1/2",
					    "MIG-GPU-/1/2",
					    "MIG-GPU-1/2/",
					    "MIG-GPU-1/2/3/4",
					    "nvidia",
					    "nvidia0/",
					    "nvidia0/gi",
					    "nvidia0/vgpu",
					    "nvidiactl",
					    "nvidia0/mig1",
					    "mlx5_0",
					    "gpu-1",
					    "GPU-1/../../x",
					    "nvidia-1",
					    "MIG-GPU-1/-1/0",
					    "nvidia 1"};
	struct deviceid id;
	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(deviceid_parse(texts[i], strlen(texts[i]), &id), -EINVAL);
	char text[DEVICEID_UUID_MAX + 8];
	memset(text, 'a', sizeof(text));
	memcpy(text, "GPU-", 4);
	assert_int_equal(deviceid_parse(text, DEVICEID_UUID_MAX - 1, &id), 0);
	assert_int_equal(deviceid_parse(text, DEVICEID_UUID_MAX, &id), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_form),
					   cmocka_unit_test(test_no_gpus)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
