/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the devices' health beside what the driver says. */
#include <string.h>

#include "doors/queue/schedule/schedule.h"
#include "unit/unit.h"

static struct schedule_device devices[4];
static struct schedule_machine machine;

/* GPU 0, which the driver calls lost; GPU 1; the MIG devices 0 and 1 of GPU 2. */
static int setup(void **state)
{
	memset(devices, 0, sizeof(devices));
	machine = (struct schedule_machine){.devices = devices, .device_count = 4};
	devices[0].unit = (struct place_unit){.gpu = 0, .mig = PLACE_WHOLE, .reason = "lost"};
	devices[1].unit = (struct place_unit){.gpu = 1, .mig = PLACE_WHOLE, .healthy = true};
	devices[2].unit = (struct place_unit){.gpu = 2, .mig = 0, .healthy = true};
	devices[3].unit = (struct place_unit){.gpu = 2, .mig = 1, .healthy = true};
	return 0;
}

static void expect(const char *healthy, const char *reason0, const char *reason3)
{
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(devices[i].unit.healthy, healthy[i] == 'h');
	assert_string_equal(devices[0].unit.reason, reason0);
	assert_string_equal(devices[3].unit.reason, reason3);
}

static void test_nothing_is_known(void **state)
{
	const struct schedule_health none = {.gpu = NULL};
	schedule_machine_sicken(&machine, &none);
	expect("-hhh", "lost", "");
}

static void test_single_devices(void **state)
{
	const char *const gpu[] = {"XID 79", "XID 62", NULL};
	const char *const mig[] = {NULL, "XID 95"};
	const struct schedule_health some = {.gpu = gpu, .mig = mig};
	schedule_machine_sicken(&machine, &some);
	expect("--h-", "lost", "XID 95");
	assert_string_equal(devices[1].unit.reason, "XID 62");
}

static void test_all(void **state)
{
	const struct schedule_health all = {.all = "released"};
	schedule_machine_sicken(&machine, &all);
	expect("----", "released", "released");
}

/* A reason may be longer than there is room. */
static void test_long_reason(void **state)
{
	char text[2 * GPU_REASON_MAX];
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	const struct schedule_health all = {.all = text};
	schedule_machine_sicken(&machine, &all);
	assert_int_equal(strlen(devices[1].unit.reason), GPU_REASON_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_nothing_is_known, setup),
	    cmocka_unit_test_setup(test_single_devices, setup),
	    cmocka_unit_test_setup(test_all, setup),
	    cmocka_unit_test_setup(test_long_reason, setup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
