/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller with write access to the machine may change, MIG apart. */
#include <string.h>

#include "call.h"
#include "impl.h"

static struct sim_gpu *settings_gpu(struct call *call)
{
	return &call->change->gpu[call->gpu];
}

unsigned impl_DeviceSetPersistenceMode(struct call *call, unsigned mode)
{
	if (mode > 1)
		return NVML_INVALID_ARGUMENT;
	settings_gpu(call)->persistence = mode != 0;
	return NVML_OK;
}

/* 0 default, 1 exclusive thread (gone since 2016), 2 prohibited, 3 exclusive process. */
unsigned impl_DeviceSetComputeMode(struct call *call, unsigned mode)
{
	if (mode > 3)
		return NVML_INVALID_ARGUMENT;
	if (mode == 1 || call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;
	settings_gpu(call)->compute_mode = mode;
	return NVML_OK;
}

unsigned impl_DeviceSetPowerManagementLimit(struct call *call, unsigned milliwatts)
{
	if (milliwatts < call_model(call)->power_min_mw ||
	    milliwatts > call_model(call)->power_max_mw)
		return NVML_INVALID_ARGUMENT;
	settings_gpu(call)->power_limit_mw = milliwatts;
	return NVML_OK;
}

/* Takes effect with the next reset. */
unsigned impl_DeviceSetEccMode(struct call *call, unsigned mode)
{
	if (mode > 1)
		return NVML_INVALID_ARGUMENT;
	if (!call_model(call)->has_ecc)
		return NVML_NOT_SUPPORTED;
	settings_gpu(call)->ecc_pending = mode != 0;
	return NVML_OK;
}

unsigned impl_DeviceClearEccErrorCounts(struct call *call, unsigned lifetime)
{
	struct sim_ecc *ecc = &settings_gpu(call)->ecc;

	if (lifetime > 1)
		return NVML_INVALID_ARGUMENT;
	if (!call_model(call)->has_ecc || !call_gpu(call)->ecc_current)
		return NVML_NOT_SUPPORTED;
	if (lifetime == 0)
		ecc->corrected_volatile = ecc->uncorrected_volatile = 0;
	else
		ecc->corrected_aggregate = ecc->uncorrected_aggregate = 0;

	return NVML_OK;
}

unsigned impl_DeviceSetAccountingMode(struct call *call, unsigned mode)
{
	if (mode > 1)
		return NVML_INVALID_ARGUMENT;
	if (call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;
	settings_gpu(call)->accounting = mode != 0;
	return NVML_OK;
}

/* Only ended processes are forgotten, and of those the machine keeps none. */
unsigned impl_DeviceClearAccountingPids(struct call *call)
{
	return call_gpu(call)->accounting ? NVML_OK : NVML_NOT_SUPPORTED;
}
