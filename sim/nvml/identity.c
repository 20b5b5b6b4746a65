/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices there are and what each one is. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "handle.h"
#include "impl.h"
#include "mig.h"
#include "session.h"

unsigned impl_DeviceGetCount_v2(struct call *call, unsigned *out)
{
	*out = call->session->visible_count;
	return NVML_OK;
}

/* A handle of a GPU that has fallen off the bus is refused, as nvidia-smi shows it. */
static unsigned identity_open(struct call *call, uint32_t gpu, void **out)
{
	int forced = call_is_about(call, gpu);
	if (forced >= 0)
		return (unsigned)forced;

	uint32_t health = call->machine->gpu[gpu].health;
	if (health == SIM_GPU_LOST || health == SIM_GPU_UNPLUGGED)
		return NVML_GPU_IS_LOST;

	*out = handle_of_gpu(gpu);
	return NVML_OK;
}

unsigned impl_DeviceGetHandleByIndex_v2(struct call *call, unsigned index, void **out)
{
	if (index >= call->session->visible_count)
		return NVML_INVALID_ARGUMENT;
	return identity_open(call, call->session->visible[index], out);
}

unsigned impl_DeviceGetHandleBySerial(struct call *call, const char *serial, void **out)
{
	for (uint32_t i = 0; i < call->session->visible_count; i++) {
		uint32_t gpu = call->session->visible[i];
		if (strcmp(call->machine->gpu[gpu].serial, serial) == 0)
			return identity_open(call, gpu, out);
	}
	return NVML_NOT_FOUND;
}

/* One part of a PCI address: hexadecimal digits, then `end`. */
static const char *identity_hex(const char *text, char end, uint32_t *out)
{
	uint32_t value = 0;
	unsigned digits = 0;
	for (; isxdigit((unsigned char)*text) && digits < 8; text++, digits++) {
		int c = tolower((unsigned char)*text);
		value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}

	if (digits == 0 || (end ? *text != end : (*text != '\0' && *text != '.')))
		return NULL;

	*out = value;
	return end ? text + 1 : text;
}

/* "00000000:07:00.0", "0000:07:00.0" or without function, in any letter case. */
unsigned impl_DeviceGetHandleByPciBusId_v2(struct call *call, const char *bus_id, void **out)
{
	uint32_t domain, bus, device, function = 0;
	const char *rest = identity_hex(bus_id, ':', &domain);

	rest = rest ? identity_hex(rest, ':', &bus) : NULL;
	rest = rest ? identity_hex(rest, '\0', &device) : NULL;
	if (rest && *rest == '.')
		rest = identity_hex(rest + 1, '\0', &function);
	if (!rest || *rest != '\0')
		return NVML_INVALID_ARGUMENT;

	for (uint32_t i = 0; i < call->session->visible_count; i++) {
		const struct sim_gpu *gpu = &call->machine->gpu[call->session->visible[i]];
		if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == device &&
		    function == 0)
			return identity_open(call, call->session->visible[i], out);
	}

	return NVML_NOT_FOUND;
}

/* "MIG-GPU-<uuid>/gi/ci", the form of drivers before 470. */
static bool identity_is_old_mig(const struct sim_gpu *gpu, const struct sim_gi *gi,
				const struct sim_ci *ci, const char *uuid)
{
	char name[SIM_UUID_MAX + 32];
	snprintf(name, sizeof(name), "MIG-%s/%u/%u", gpu->uuid, gi->id, ci->id);
	return strcmp(name, uuid) == 0;
}

static unsigned identity_find_mig(const struct call *call, uint32_t index, const char *uuid,
				  void **out)
{
	const struct sim_gpu *gpu = &call->machine->gpu[index];

	for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
		const struct sim_gi *gi = &gpu->gi[g];

		for (uint32_t c = 0; gi->used && c < SIM_CI_MAX; c++) {
			const struct sim_ci *ci = &gi->ci[c];
			if (!ci->used || (strcmp(ci->uuid, uuid) != 0 &&
					  !identity_is_old_mig(gpu, gi, ci, uuid)))
				continue;

			*out = handle_of_mig(call->machine, index, g, c);
			return *out ? NVML_OK : NVML_INSUFFICIENT_RESOURCES;
		}
	}

	return NVML_NOT_FOUND;
}

unsigned impl_DeviceGetHandleByUUID(struct call *call, const char *uuid, void **out)
{
	for (uint32_t i = 0; i < call->session->visible_count; i++) {
		uint32_t gpu = call->session->visible[i];
		if (strcmp(call->machine->gpu[gpu].uuid, uuid) == 0)
			return identity_open(call, gpu, out);
		if (identity_find_mig(call, gpu, uuid, out) == NVML_OK)
			return NVML_OK;
	}

	return NVML_NOT_FOUND;
}

/* The 16 bytes that the text of a UUID stands for. */
static bool identity_is_bytes(const char *uuid, const unsigned char bytes[16])
{
	unsigned at = 0;
	const char *text = strchr(uuid, '-');

	for (text = text ? text + 1 : ""; *text && at < 32; text++) {
		if (*text == '-')
			continue;

		int c = tolower((unsigned char)*text);
		unsigned value = (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
		unsigned byte = bytes[at / 2];

		if (value != (at % 2 ? byte & 15 : byte >> 4))
			return false;

		at++;
	}

	return at == 32;
}

unsigned impl_DeviceGetHandleByUUIDV(struct call *call, const struct nvml_uuid *uuid, void **out)
{
	char text[sizeof(uuid->value.text) + 1];

	if (uuid->version != NVML_WORD(*uuid, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;

	if (uuid->type == 1) {
		snprintf(text, sizeof(text), "%.*s", (int)sizeof(uuid->value.text),
			 uuid->value.text);
		return impl_DeviceGetHandleByUUID(call, text, out);
	}

	if (uuid->type != 2)
		return NVML_INVALID_ARGUMENT;

	for (uint32_t i = 0; i < call->session->visible_count; i++) {
		const struct sim_gpu *gpu = &call->machine->gpu[call->session->visible[i]];
		if (identity_is_bytes(gpu->uuid, uuid->value.bytes))
			return identity_open(call, call->session->visible[i], out);

		for (uint32_t g = 0; g < SIM_GI_MAX; g++) {
			for (uint32_t c = 0; gpu->gi[g].used && c < SIM_CI_MAX; c++) {
				const struct sim_ci *ci = &gpu->gi[g].ci[c];
				if (ci->used && identity_is_bytes(ci->uuid, uuid->value.bytes))
					return impl_DeviceGetHandleByUUID(call, ci->uuid, out);
			}
		}
	}

	return NVML_NOT_FOUND;
}

unsigned impl_DeviceGetName(struct call *call, char *out, unsigned length)
{
	char name[SIM_NAME_MAX + 48], mig[40];
	if (!call_is_mig(call))
		return text_out(call_model(call)->name, out, length);
	mig_device_name(call_model(call), call_gi(call), call_ci(call), mig, sizeof(mig));
	snprintf(name, sizeof(name), "%s MIG %s", call_model(call)->name, mig);
	return text_out(name, out, length);
}

unsigned impl_DeviceGetUUID(struct call *call, char *out, unsigned length)
{
	return text_out(call_is_mig(call) ? call_ci(call)->uuid : call_gpu(call)->uuid, out,
			length);
}

unsigned impl_DeviceGetIndex(struct call *call, unsigned *out)
{
	*out = session_index_of(call->session, call->gpu);
	if (call_is_mig(call))
		*out = mig_index_of(call_gpu(call), call->gi, call->ci);
	return NVML_OK;
}

unsigned impl_DeviceGetMinorNumber(struct call *call, unsigned *out)
{
	if (call_is_mig(call))
		return NVML_NOT_SUPPORTED;
	*out = call_gpu(call)->minor;
	return NVML_OK;
}

unsigned impl_DeviceGetPciInfo_v3(struct call *call, struct nvml_pci_info *out)
{
	const struct sim_gpu *gpu = call_gpu(call);
	const struct sim_model *model = call_model(call);

	*out = (struct nvml_pci_info){
	    .domain = gpu->pci_domain,
	    .bus = gpu->pci_bus,
	    .device = gpu->pci_device,
	    .pci_device_id = model->pci_device_id,
	    .pci_subsystem_id = model->pci_subsystem_id,
	};
	snprintf(out->bus_id_legacy, sizeof(out->bus_id_legacy), "%04X:%02X:%02X.0",
		 gpu->pci_domain & 0xffff, gpu->pci_bus & 0xff, gpu->pci_device & 0x1f);
	snprintf(out->bus_id, sizeof(out->bus_id), "%08X:%02X:%02X.0", gpu->pci_domain,
		 gpu->pci_bus, gpu->pci_device);

	return NVML_OK;
}

unsigned impl_DeviceGetPciInfoExt(struct call *call, struct nvml_pci_info_ext *out)
{
	struct nvml_pci_info pci;

	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;

	impl_DeviceGetPciInfo_v3(call, &pci);
	out->domain = pci.domain;
	out->bus = pci.bus;
	out->device = pci.device;
	out->pci_device_id = pci.pci_device_id;
	out->pci_subsystem_id = pci.pci_subsystem_id;
	out->base_class = 0x03;
	out->sub_class = call_model(call)->quadro_class ? 0x00 : 0x02;
	memcpy(out->bus_id, pci.bus_id, sizeof(out->bus_id));

	return NVML_OK;
}

unsigned impl_DeviceGetBrand(struct call *call, unsigned *out)
{
	*out = call_model(call)->brand;
	return NVML_OK;
}

unsigned impl_DeviceGetArchitecture(struct call *call, unsigned *out)
{
	*out = call_model(call)->architecture;
	return NVML_OK;
}

unsigned impl_DeviceGetCudaComputeCapability(struct call *call, int *major, int *minor)
{
	*major = (int)call_model(call)->cc_major;
	*minor = (int)call_model(call)->cc_minor;
	return NVML_OK;
}

unsigned impl_DeviceGetSerial(struct call *call, char *out, unsigned length)
{
	/* Consumer boards have none. */
	if (!call_gpu(call)->serial[0])
		return NVML_NOT_SUPPORTED;
	return text_out(call_gpu(call)->serial, out, length);
}

unsigned impl_DeviceGetVbiosVersion(struct call *call, char *out, unsigned length)
{
	return text_out(call_model(call)->vbios, out, length);
}

unsigned impl_DeviceGetBoardPartNumber(struct call *call, char *out, unsigned length)
{
	if (!call_model(call)->part_number[0])
		return NVML_NOT_SUPPORTED;
	return text_out(call_model(call)->part_number, out, length);
}

unsigned impl_DeviceGetBoardId(struct call *call, unsigned *out)
{
	/* The PCI address, as real boards report: bus << 8 with the domain above. */
	*out = call_gpu(call)->pci_domain << 16 | call_gpu(call)->pci_bus << 8;
	return NVML_OK;
}

unsigned impl_DeviceGetMultiGpuBoard(struct call *call, unsigned *out)
{
	(void)call;
	*out = 0;
	return NVML_OK;
}

unsigned impl_DeviceGetModuleId(struct call *call, unsigned *out)
{
	*out = call->gpu + 1;
	return NVML_OK;
}

unsigned impl_DeviceGetPlatformInfo(struct call *call, struct nvml_platform_info *out)
{
	(void)call;
	if (out->version != NVML_WORD(*out, 2) && out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	return NVML_NOT_SUPPORTED; /* rack-scale machines only */
}

unsigned impl_DeviceGetIrqNum(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->irq;
	return NVML_OK;
}

unsigned impl_DeviceGetNumGpuCores(struct call *call, unsigned *out)
{
	if (call_gpu(call)->mig_current)
		return NVML_NOT_SUPPORTED;
	*out = call_model(call)->core_count;
	return NVML_OK;
}

unsigned impl_DeviceGetMemoryBusWidth(struct call *call, unsigned *out)
{
	*out = call_model(call)->memory_bus_bits;
	return NVML_OK;
}

unsigned impl_DeviceGetBusType(struct call *call, unsigned *out)
{
	(void)call;
	*out = 2; /* PCIe */
	return NVML_OK;
}

unsigned impl_DeviceGetBridgeChipInfo(struct call *call, struct nvml_bridge_chip_hierarchy *out)
{
	(void)call;
	(void)out;
	return NVML_NOT_SUPPORTED; /* no board of these models carries a bridge chip */
}

unsigned impl_DeviceGetC2cModeInfoV(struct call *call, struct nvml_c2c_mode_info_v1 *out)
{
	(void)call;
	(void)out;
	return NVML_NOT_SUPPORTED;
}

unsigned impl_DeviceGetCapabilities(struct call *call, struct nvml_device_capabilities *out)
{
	(void)call;
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	out->mask = 0;
	return NVML_OK;
}

/* Firmware runs on the GPU's own processor from Turing on. */
static bool identity_has_gsp(const struct call *call)
{
	return call_model(call)->architecture >= 6;
}

unsigned impl_DeviceGetGspFirmwareVersion(struct call *call, char *out)
{
	if (!identity_has_gsp(call))
		return NVML_NOT_SUPPORTED;
	memcpy(out, call->machine->driver_version, sizeof(call->machine->driver_version));
	return NVML_OK;
}

unsigned impl_DeviceGetGspFirmwareMode(struct call *call, unsigned *enabled, unsigned *standard)
{
	*enabled = identity_has_gsp(call);
	*standard = identity_has_gsp(call);
	return NVML_OK;
}

unsigned impl_DeviceGetInforomVersion(struct call *call, unsigned object, char *out,
				      unsigned length)
{
	static const char *const version[] = {"1.1", "2.0", NULL};
	if (object > 3)
		return NVML_INVALID_ARGUMENT;
	if (!call_model(call)->has_ecc || object >= 2)
		return NVML_NOT_SUPPORTED;
	return text_out(version[object], out, length);
}

unsigned impl_DeviceGetInforomImageVersion(struct call *call, char *out, unsigned length)
{
	if (!call_model(call)->has_ecc)
		return NVML_NOT_SUPPORTED;
	return text_out("G500.0200.00.05", out, length);
}

unsigned impl_DeviceGetInforomConfigurationChecksum(struct call *call, unsigned *out)
{
	if (!call_model(call)->has_ecc)
		return NVML_NOT_SUPPORTED;
	*out = 0x5ce51ce5;
	return NVML_OK;
}

unsigned impl_DeviceValidateInforom(struct call *call)
{
	return call_model(call)->has_ecc ? NVML_OK : NVML_NOT_SUPPORTED;
}

unsigned impl_DeviceGetVirtualizationMode(struct call *call, unsigned *out)
{
	(void)call;
	*out = 0; /* none */
	return NVML_OK;
}

unsigned impl_DeviceGetDisplayMode(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->drives_display;
	return NVML_OK;
}

unsigned impl_DeviceGetDisplayActive(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->drives_display;
	return NVML_OK;
}

unsigned impl_DeviceGetComputeMode(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->compute_mode;
	return NVML_OK;
}

unsigned impl_DeviceGetPersistenceMode(struct call *call, unsigned *out)
{
	*out = call_gpu(call)->persistence;
	return NVML_OK;
}

unsigned impl_DeviceGetAPIRestriction(struct call *call, unsigned api, unsigned *out)
{
	(void)call;
	if (api > 1)
		return NVML_INVALID_ARGUMENT;
	if (api == 1)
		return NVML_NOT_SUPPORTED;
	*out = 1;
	return NVML_OK;
}

unsigned impl_DeviceGetGpuOperationMode(struct call *call, unsigned *current, unsigned *pending)
{
	(void)call;
	(void)current;
	(void)pending;
	return NVML_NOT_SUPPORTED;
}

unsigned impl_DeviceGetConfComputeMemSizeInfo(struct call *call,
					      struct nvml_conf_compute_mem_size_info *out)
{
	out->protected_kib = 0;
	out->unprotected_kib =
	    (call_model(call)->memory_bytes - call_model(call)->reserved_bytes) / 1024;
	return NVML_OK;
}
