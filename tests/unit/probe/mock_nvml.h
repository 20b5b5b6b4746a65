/* SPDX-License-Identifier: Apache-2.0 */
/* A sampler on a driver that the test makes up: functions are put into `mock_nvml.fn`. */
#ifndef SLUICE_TESTS_UNIT_PROBE_MOCK_NVML_H
#define SLUICE_TESTS_UNIT_PROBE_MOCK_NVML_H

#include <stdio.h>
#include <string.h>

#include "probe/sample_private.h"

#define SECOND_NS UINT64_C(1000000000)

static struct nvml mock_nvml;
static struct call_mark mock_mark;
static struct nvml_caller mock_caller;
static struct snapshot mock_snapshot;
static struct sampler mock_sampler;
static struct sample_memory mock_memory;
static struct sampling mock;

static int mock_setup(void **state)
{
	memset(&mock_nvml, 0, sizeof(mock_nvml));
	memset(&mock_snapshot, 0, sizeof(mock_snapshot));
	memset(&mock_memory, 0, sizeof(mock_memory));
	memset(&mock_sampler, 0, sizeof(mock_sampler));
	(void)snprintf(mock_nvml.driver_version, sizeof(mock_nvml.driver_version), "580.1");
	mock_caller = (struct nvml_caller){.nvml = &mock_nvml, .mark = &mock_mark};
	mock_sampler.caller = &mock_caller;
	mock_sampler.snapshot = &mock_snapshot;
	mock_snapshot.gpu_count = 1;
	mock = (struct sampling){.sampler = &mock_sampler,
				 .caller = &mock_caller,
				 .out = &mock_snapshot.gpu[0],
				 .memory = &mock_memory};
	return 0;
}

static int mock_teardown(void **state)
{
	sample_forget(&mock_caller, &mock_memory);
	sampler_done(&mock_sampler);
	return 0;
}

/* The value, or -1 when it is absent. */
static inline int64_t mock_value(uint32_t value)
{
	int64_t number;
	return snapshot_get(&mock_snapshot.gpu[0], value, &number) ? number : -1;
}

#endif
