/* SPDX-License-Identifier: Apache-2.0 */
/* Memory errors and what the GPU did about them. */
#include "call.h"
#include "impl.h"

enum { ECC_CORRECTED, ECC_UNCORRECTED, ECC_VOLATILE = 0, ECC_AGGREGATE = 1 };
enum { ECC_LOCATION_DRAM = 2, ECC_LOCATION_SRAM = 7, ECC_LOCATION_END = 8 };
enum { ECC_BANKS = 640, ECC_AMPERE = 7 };

unsigned impl_DeviceGetEccMode(struct call *call, unsigned *current, unsigned *pending)
{
	if (!call_model(call)->has_ecc)
		return NVML_NOT_SUPPORTED;
	*current = call_gpu(call)->ecc_current;
	*pending = call_gpu(call)->ecc_pending;
	return NVML_OK;
}

unsigned impl_DeviceGetDefaultEccMode(struct call *call, unsigned *out)
{
	if (!call_model(call)->has_ecc)
		return NVML_NOT_SUPPORTED;
	*out = 1;
	return NVML_OK;
}

static unsigned ecc_count(const struct call *call, unsigned type, unsigned lifetime, uint64_t *out)
{
	const struct sim_ecc *ecc = &call_gpu(call)->ecc;

	if (type > ECC_UNCORRECTED || lifetime > ECC_AGGREGATE)
		return NVML_INVALID_ARGUMENT;
	if (!call_model(call)->has_ecc || !call_gpu(call)->ecc_current)
		return NVML_NOT_SUPPORTED;

	if (lifetime == ECC_VOLATILE)
		*out = type == ECC_CORRECTED ? ecc->corrected_volatile : ecc->uncorrected_volatile;
	else
		*out =
		    type == ECC_CORRECTED ? ecc->corrected_aggregate : ecc->uncorrected_aggregate;

	return NVML_OK;
}

unsigned impl_DeviceGetTotalEccErrors(struct call *call, unsigned type, unsigned lifetime,
				      uint64_t *out)
{
	return ecc_count(call, type, lifetime, out);
}

/* All simulated errors are in device memory. Since Ampere only that and SRAM are told apart. */
unsigned impl_DeviceGetMemoryErrorCounter(struct call *call, unsigned type, unsigned lifetime,
					  unsigned location, uint64_t *out)
{
	if (location >= ECC_LOCATION_END)
		return NVML_INVALID_ARGUMENT;
	if (location == ECC_LOCATION_DRAM)
		return ecc_count(call, type, lifetime, out);
	if (call_model(call)->architecture >= ECC_AMPERE && location != ECC_LOCATION_SRAM)
		return NVML_NOT_SUPPORTED;

	unsigned result = ecc_count(call, type, lifetime, out);
	if (result == NVML_OK)
		*out = 0;

	return result;
}

unsigned impl_DeviceGetDetailedEccErrors(struct call *call, unsigned type, unsigned lifetime,
					 struct nvml_ecc_error_counts *out)
{
	uint64_t count = 0;
	unsigned result = ecc_count(call, type, lifetime, &count);
	if (result == NVML_OK)
		*out = (struct nvml_ecc_error_counts){.device_memory = count};
	return result;
}

/* Pages are retired before Ampere, rows remapped since. */
static bool ecc_retires_pages(const struct call *call)
{
	return call_model(call)->has_ecc && !call_model(call)->has_row_remapper;
}

unsigned impl_DeviceGetRetiredPages_v2(struct call *call, unsigned cause, unsigned *count,
				       uint64_t *addresses, uint64_t *times)
{
	if (cause > 1)
		return NVML_INVALID_ARGUMENT;
	if (!ecc_retires_pages(call))
		return NVML_NOT_SUPPORTED;

	unsigned have = cause == 0 ? call_gpu(call)->retired_sbe : call_gpu(call)->retired_dbe;
	unsigned room = addresses ? *count : 0;

	*count = have;
	if (room < have)
		return NVML_INSUFFICIENT_SIZE;

	for (unsigned i = 0; i < have; i++) {
		addresses[i] = UINT64_C(0x51ce0000) + cause * UINT64_C(0x10000000) + i * 0x1000;
		if (times)
			times[i] = 0;
	}

	return NVML_OK;
}

unsigned impl_DeviceGetRetiredPages(struct call *call, unsigned cause, unsigned *count,
				    uint64_t *addresses)
{
	return impl_DeviceGetRetiredPages_v2(call, cause, count, addresses, NULL);
}

unsigned impl_DeviceGetRetiredPagesPendingStatus(struct call *call, unsigned *out)
{
	if (!ecc_retires_pages(call))
		return NVML_NOT_SUPPORTED;
	*out = call_gpu(call)->retired_pending;
	return NVML_OK;
}

static bool ecc_is_divided(const struct sim_gpu *gpu)
{
	for (uint32_t i = 0; i < SIM_GI_MAX; i++) {
		if (gpu->gi[i].used)
			return true;
	}
	return false;
}

/* Not while the GPU has MIG instances; the fields 142 to 145 answer then. */
unsigned impl_DeviceGetRemappedRows(struct call *call, unsigned *correctable,
				    unsigned *uncorrectable, unsigned *pending, unsigned *failure)
{
	const struct sim_gpu *gpu = call_gpu(call);
	if (!call_model(call)->has_row_remapper || ecc_is_divided(gpu))
		return NVML_NOT_SUPPORTED;

	*correctable = gpu->remap_correctable;
	*uncorrectable = gpu->remap_uncorrectable;
	*pending = gpu->remap_pending;
	*failure = gpu->remap_failure;

	return NVML_OK;
}

unsigned impl_DeviceGetRowRemapperHistogram(struct call *call,
					    struct nvml_row_remapper_histogram_values *out)
{
	const struct sim_gpu *gpu = call_gpu(call);

	if (!call_model(call)->has_row_remapper)
		return NVML_NOT_SUPPORTED;

	uint32_t touched = gpu->remap_correctable + gpu->remap_uncorrectable;
	uint32_t none = gpu->remap_failure ? 1 : 0;

	if (touched > ECC_BANKS - none)
		touched = ECC_BANKS - none;
	*out = (struct nvml_row_remapper_histogram_values){
	    .max = ECC_BANKS - touched - none, .high = touched, .none = none};
	return NVML_OK;
}

unsigned impl_DeviceGetSramEccErrorStatus(struct call *call, struct nvml_ecc_sram_error_status *out)
{
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (!call_model(call)->has_ecc || call_model(call)->architecture < ECC_AMPERE)
		return NVML_NOT_SUPPORTED;

	*out = (struct nvml_ecc_sram_error_status){
	    .version = out->version,
	    .threshold_exceeded = call_gpu(call)->sram_threshold_exceeded,
	};
	return NVML_OK;
}
