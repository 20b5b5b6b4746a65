/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/gpu/readings.h"

#include <dlfcn.h>
#include <string.h>

#include "bench/stats.h"

enum { /* of nvml.h */
       READINGS_CLOCK_SM = 1,
       READINGS_SENSOR_GPU = 0,
       READINGS_THROTTLE_IDLE = 1, /* the lowest bit: nothing to do, which slows nothing down */
};

static const char *const throttle_names[] = {
    "gpu_idle",	     "applications_clocks", "sw_power_cap",	   "hw_slowdown",
    "sync_boost",    "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake",
    "display_clock",
};

/* A function's address in a pointer to data: POSIX has dlsym() so. */
static void readings_symbol(void *library, const char *name, const char *older, void *out)
{
	void *found = dlsym(library, name);
	if (!found && older)
		found = dlsym(library, older);
	memcpy(out, &found, sizeof(found));
}

void readings_open(struct readings *readings, const char *uuid)
{
	int (*init)(void);
	int (*find)(const char *text, void **device);

	memset(readings, 0, sizeof(*readings));
	readings->stride = 1;

	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;

	readings_symbol(library, "nvmlInit_v2", NULL, &init);
	readings_symbol(library, "nvmlDeviceGetHandleByUUID", NULL, &find);
	readings_symbol(library, "nvmlDeviceGetClockInfo", NULL, &readings->clock);
	readings_symbol(library, "nvmlDeviceGetPowerUsage", NULL, &readings->power);
	readings_symbol(library, "nvmlDeviceGetTemperature", NULL, &readings->temperature);
	readings_symbol(library, "nvmlDeviceGetCurrentClocksEventReasons",
			"nvmlDeviceGetCurrentClocksThrottleReasons", &readings->throttle);

	if (!init || !find || init() != 0) {
		(void)dlclose(library); /* nothing is left to do with it */
		return;
	}

	if (find(uuid, &readings->device) != 0)
		readings->device = NULL;
	readings->library = library;
}

void readings_take(struct readings *readings)
{
	unsigned value;
	unsigned long long reasons;

	if (!readings->device)
		return;

	if (readings->clock && readings->clock(readings->device, READINGS_CLOCK_SM, &value) == 0 &&
	    readings->skipped++ % readings->stride == 0) {
		if (readings->count == READINGS_MAX) { /* a day: every second one goes */
			for (uint32_t i = 0; i < READINGS_MAX / 2; i++)
				readings->clock_mhz[i] = readings->clock_mhz[2 * i];
			readings->count = READINGS_MAX / 2;
			readings->stride *= 2;
		}

		readings->clock_mhz[readings->count++] = value;
	}

	if (readings->power && readings->power(readings->device, &value) == 0) {
		double watts = value / 1e3;
		readings->power_sum += watts;
		readings->power_count++;
		readings->power_max = watts > readings->power_max ? watts : readings->power_max;
	}

	if (readings->temperature &&
	    readings->temperature(readings->device, READINGS_SENSOR_GPU, &value) == 0 &&
	    value > readings->temperature_max)
		readings->temperature_max = value;

	if (readings->throttle && readings->throttle(readings->device, &reasons) == 0)
		readings->throttle_seen |= reasons & ~(unsigned long long)READINGS_THROTTLE_IDLE;
}

void readings_close(struct readings *readings)
{
	int (*shutdown)(void);

	if (!readings->library)
		return;

	readings_symbol(readings->library, "nvmlShutdown", NULL, &shutdown);
	if (shutdown)
		(void)shutdown(); /* on the way out */
	(void)dlclose(readings->library);
	readings->library = readings->device = NULL;
}

bool readings_clock(struct readings *readings, double out[3])
{
	if (readings->count == 0)
		return false;
	out[1] = stats_median(readings->clock_mhz, readings->count); /* sorts */
	out[0] = readings->clock_mhz[0];
	out[2] = readings->clock_mhz[readings->count - 1];
	return true;
}

const char *readings_throttle_name(unsigned bit)
{
	return bit < sizeof(throttle_names) / sizeof(throttle_names[0]) ? throttle_names[bit]
									: NULL;
}
