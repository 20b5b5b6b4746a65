/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tiny libnvidia-ml.so.1 for tests of the loader and the probe: as many GPUs as wanted (the
 * simulator stops at 16), missing symbols, and answers that go wrong at the Nth call. Its GPUs have
 * the simulator's UUID prefix, so that the loader takes it for a simulated machine.
 *
 * $FAKE_NVML says how it behaves, words separated by blanks:
 *   gpus=N            how many (default 2)
 *   init=CODE         what nvmlInit answers
 *   real              UUIDs without the simulator's prefix
 *   mig=N             N MIG devices on GPU 0
 *   FUNCTION:GPU=CODE that call on that GPU answers CODE ("name:3=15"; "*" for every GPU)
 *   FUNCTION:GPU=hang it never comes back
 *   FUNCTION:GPU=CODE@N from the Nth call on
 * Built with -DFAKE_OLD it exports plain names only, with -DFAKE_BROKEN no nvmlDeviceGetUUID.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { FAKE_MAX = 64, FAKE_MIG = 100 };

/* A handle is the address of one of these bytes: its place is the GPU's index. */
static char handles[FAKE_MAX + FAKE_MIG];
static atomic_uint calls;

static const char *behaviour(void)
{
	const char *text = getenv("FAKE_NVML");
	return text ? text : "";
}

static unsigned number_behind(const char *word, unsigned otherwise)
{
	const char *at = strstr(behaviour(), word);
	if (!at)
		return otherwise;
	unsigned value = 0;
	for (at += strlen(word); *at >= '0' && *at <= '9'; at++)
		value = value * 10 + (unsigned)(*at - '0');
	return value;
}

static unsigned gpu_count(void)
{
	return number_behind("gpus=", 2);
}

static int index_of(const void *handle)
{
	return (int)((const char *)handle - handles);
}

/* What the rule for this call says, or -1. */
static int rule(const char *function, int gpu)
{
	char word[64];
	unsigned so_far = atomic_fetch_add(&calls, 1) + 1;
	for (int pass = 0; pass < 2; pass++) {
		if (pass == 0)
			(void)snprintf(word, sizeof(word), "%s:%d=", function, gpu);
		else
			(void)snprintf(word, sizeof(word), "%s:*=", function);
		const char *at = strstr(behaviour(), word);
		if (!at)
			continue;
		at += strlen(word);
		if (strncmp(at, "hang", 4) == 0) {
			for (;;)
				pause();
		}
		int code = 0;
		for (; *at >= '0' && *at <= '9'; at++)
			code = code * 10 + (*at - '0');
		if (*at == '@' && so_far < number_behind("@", 0))
			return -1;
		return code;
	}
	return -1;
}

#define RULE(function, handle)                                                                     \
	do {                                                                                       \
		int code_ = rule(function, index_of(handle));                                      \
		if (code_ > 0)                                                                     \
			return code_;                                                              \
	} while (0)

static int init(void)
{
	return (int)number_behind("init=", 0);
}

static int by_index(unsigned index, void **out)
{
	if (index >= gpu_count())
		return 2;
	RULE("handle", &handles[index]);
	*out = &handles[index];
	return 0;
}

static int count(unsigned *out)
{
	*out = gpu_count();
	return 0;
}

#ifdef FAKE_OLD
EXPORT int nvmlInit(void);
EXPORT int nvmlInit(void)
{
	return init();
}

EXPORT int nvmlDeviceGetCount(unsigned *out);
EXPORT int nvmlDeviceGetCount(unsigned *out)
{
	return count(out);
}

EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, void **out);
EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, void **out)
{
	return by_index(index, out);
}
#else
EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
	return init();
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *out);
EXPORT int nvmlDeviceGetCount_v2(unsigned *out)
{
	return count(out);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out)
{
	return by_index(index, out);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out)
{
	char own[32];
	for (unsigned i = 0; i < gpu_count(); i++) {
		(void)snprintf(own, sizeof(own), "0000:%02x:00.0", i + 1);
		if (strcmp(own, bus) == 0)
			return by_index(i, out);
	}
	return 6;
}

struct pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char text[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out);
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *out)
{
	RULE("pci", device);
	*out = (struct pci){.bus = (unsigned)index_of(device) + 1, .id = 0x20b010de};
	return 0;
}
#endif

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
	return 0;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
	(void)snprintf(out, size, "570.00.01");
	return 0;
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size);
EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
	(void)snprintf(out, size, "12.570.00.01");
	return 0;
}

#ifndef FAKE_BROKEN
EXPORT int nvmlDeviceGetUUID(void *device, char *out, unsigned size);
EXPORT int nvmlDeviceGetUUID(void *device, char *out, unsigned size)
{
	RULE("uuid", device);
	int index = index_of(device);
	bool mig = index >= FAKE_MAX;
	(void)snprintf(out, size, "%s-%s-0000-0000-0000-%012d", mig ? "MIG" : "GPU",
		       strstr(behaviour(), "real") ? "00000000" : "51ce51ce", index);
	return 0;
}
#endif

EXPORT int nvmlDeviceGetName(void *device, char *out, unsigned size);
EXPORT int nvmlDeviceGetName(void *device, char *out, unsigned size)
{
	RULE("name", device);
	(void)snprintf(out, size, "Fake GPU%s", index_of(device) >= FAKE_MAX ? " MIG 1g.5gb" : "");
	return 0;
}

EXPORT int nvmlDeviceGetIndex(void *device, unsigned *out);
EXPORT int nvmlDeviceGetIndex(void *device, unsigned *out)
{
	*out = (unsigned)index_of(device);
	return 0;
}

EXPORT int nvmlDeviceGetMinorNumber(void *device, unsigned *out);
EXPORT int nvmlDeviceGetMinorNumber(void *device, unsigned *out)
{
	*out = (unsigned)index_of(device);
	return 0;
}

EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *out);
EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *out)
{
	RULE("power", device);
	*out = 1000 * ((unsigned)index_of(device) + 1);
	return 0;
}

EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, uint64_t *out);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *device, uint64_t *out)
{
	RULE("energy", device);
	*out = atomic_load(&calls);
	return 0;
}

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending);
EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
	if (number_behind("mig=", 0) == 0)
		return 3;
	*current = *pending = index_of(device) == 0;
	return 0;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *out);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *out)
{
	*out = 7;
	return 0;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **out);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **out)
{
	if (index_of(device) != 0 || index >= number_behind("mig=", 0))
		return 6;
	*out = &handles[FAKE_MAX + index];
	return 0;
}

EXPORT int nvmlDeviceGetGpuInstanceId(void *device, unsigned *out);
EXPORT int nvmlDeviceGetGpuInstanceId(void *device, unsigned *out)
{
	*out = (unsigned)index_of(device) - FAKE_MAX + 7;
	return 0;
}

EXPORT int nvmlDeviceGetComputeInstanceId(void *device, unsigned *out);
EXPORT int nvmlDeviceGetComputeInstanceId(void *device, unsigned *out)
{
	*out = 0;
	return 0;
}

struct process {
	unsigned pid;
	uint64_t memory;
};

/* The plain form only: entries of 16 bytes. */
EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *size, struct process *out);
EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *size, struct process *out)
{
	RULE("processes", device);
	*size = 2;
	out[0] = (struct process){.pid = 4242, .memory = 1 << 20};
	out[1] = (struct process){.pid = 4243, .memory = UINT64_MAX};
	return 0;
}
