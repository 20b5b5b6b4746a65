/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/readings.h"

#include "unit/unit.h"

static unsigned next_clock;

static int fake_clock(void *device, int type, unsigned *mhz)
{
	(void)device;
	(void)type;
	*mhz = next_clock++;
	return 0;
}

static int fake_power(void *device, unsigned *milliwatts)
{
	(void)device;
	*milliwatts = next_clock % 2 ? 60000 : 70000;
	return 0;
}

static int fake_throttle(void *device, unsigned long long *reasons)
{
	(void)device;
	*reasons = next_clock % 2 ? 1 : 4; /* idle; sw_power_cap */
	return 0;
}

static void what_is_read_is_summed_up(void **state)
{
	static struct readings readings;
	double clock[3];
	readings_open(&readings, "GPU-none");
	readings_close(&readings); /* of whatever is on this machine */
	readings = (struct readings){.device = &readings,
				     .stride = 1,
				     .clock = fake_clock,
				     .power = fake_power,
				     .throttle = fake_throttle};
	assert_false(readings_clock(&readings, clock));
	next_clock = 1000;
	for (int i = 0; i < 5; i++)
		readings_take(&readings);
	assert_true(readings_clock(&readings, clock));
	assert_true(clock[0] == 1000 && clock[1] == 1002 && clock[2] == 1004);
	assert_true(readings.power_max == 70);
	assert_int_equal(readings.throttle_seen, 4);
	assert_string_equal(readings_throttle_name(2), "sw_power_cap");
	assert_null(readings_throttle_name(60));
}

static void a_long_run_keeps_every_second_one(void **state)
{
	static struct readings readings;
	double clock[3];
	readings = (struct readings){.device = &readings, .stride = 1, .clock = fake_clock};
	next_clock = 0;
	for (int i = 0; i < 4 * READINGS_MAX; i++)
		readings_take(&readings);
	assert_true(readings.count <= READINGS_MAX);
	assert_true(readings_clock(&readings, clock));
	assert_true(clock[0] == 0);
	assert_true(clock[1] > 1.9 * READINGS_MAX && clock[1] < 2.1 * READINGS_MAX);
	assert_true(clock[2] > 3.9 * READINGS_MAX);
}

static void without_nvml_nothing_is_read(void **state)
{
	static struct readings readings;
	double clock[3];
	readings = (struct readings){.stride = 1};
	readings_take(&readings);
	assert_false(readings_clock(&readings, clock));
	readings_close(&readings);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_read_is_summed_up),
	    cmocka_unit_test(a_long_run_keeps_every_second_one),
	    cmocka_unit_test(without_nvml_nothing_is_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
