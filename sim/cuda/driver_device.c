/* SPDX-License-Identifier: Apache-2.0 */
/* What devices there are and what they are like. */
#include "sim/cuda/driver.h"

#include <stdio.h>
#include <string.h>

/* Of CUdevice_attribute. Source: CUDA driver API. */
enum attribute {
	ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
	ATTRIBUTE_MAX_BLOCK_X = 2,
	ATTRIBUTE_MAX_BLOCK_Y = 3,
	ATTRIBUTE_MAX_BLOCK_Z = 4,
	ATTRIBUTE_MAX_GRID_X = 5,
	ATTRIBUTE_MAX_GRID_Y = 6,
	ATTRIBUTE_MAX_GRID_Z = 7,
	ATTRIBUTE_MAX_SHARED_PER_BLOCK = 8,
	ATTRIBUTE_TOTAL_CONSTANT = 9,
	ATTRIBUTE_WARP = 10,
	ATTRIBUTE_MAX_REGISTERS = 12,
	ATTRIBUTE_CLOCK_KHZ = 13,
	ATTRIBUTE_OVERLAP = 15,
	ATTRIBUTE_SM_COUNT = 16,
	ATTRIBUTE_INTEGRATED = 18,
	ATTRIBUTE_MAP_HOST = 19,
	ATTRIBUTE_COMPUTE_MODE = 20,
	ATTRIBUTE_CONCURRENT_KERNELS = 31,
	ATTRIBUTE_ECC = 32,
	ATTRIBUTE_PCI_BUS = 33,
	ATTRIBUTE_PCI_DEVICE = 34,
	ATTRIBUTE_MEMORY_CLOCK_KHZ = 36,
	ATTRIBUTE_BUS_BITS = 37,
	ATTRIBUTE_MAX_THREADS_PER_SM = 39,
	ATTRIBUTE_ASYNC_ENGINES = 40,
	ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	ATTRIBUTE_PCI_DOMAIN = 50,
	ATTRIBUTE_CC_MAJOR = 75,
	ATTRIBUTE_CC_MINOR = 76,
	ATTRIBUTE_MANAGED = 83,
	ATTRIBUTE_VMM = 102,
	ATTRIBUTE_MEMORY_POOLS = 115,
};

API int cuDriverGetVersion(int *out)
{
	int rc = driver_enter("cuDriverGetVersion");

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out = (int)driver.devices.cuda_version;
	return driver_leave(CU_OK);
}

API int cuDeviceGetCount(int *out)
{
	int rc = driver_enter("cuDeviceGetCount");

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out = (int)driver.devices.count;
	return driver_leave(CU_OK);
}

API int cuDeviceGet(int *out, int ordinal)
{
	int rc = driver_enter("cuDeviceGet");

	if (rc != CU_OK)
		return rc;
	if (!out)
		return driver_leave(CU_INVALID_VALUE);
	if (ordinal < 0 || (uint32_t)ordinal >= driver.devices.count)
		return driver_leave(CU_INVALID_DEVICE);

	*out = ordinal;
	return driver_leave(CU_OK);
}

/* On success the lock is held. */
static int enter_device(const char *function, int index, const void *out,
			const struct device **out_device)
{
	int rc = driver_enter(function);

	if (rc != CU_OK)
		return rc;
	if (index < 0 || (uint32_t)index >= driver.devices.count)
		return driver_leave(CU_INVALID_DEVICE);
	if (!out)
		return driver_leave(CU_INVALID_VALUE);

	*out_device = &driver.devices.device[index];
	return CU_OK;
}

API int cuDeviceGetName(char *out, int length, int index)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceGetName", index, out, &device);

	if (rc != CU_OK)
		return rc;
	if (length <= 0)
		return driver_leave(CU_INVALID_VALUE);

	(void)snprintf(out, (size_t)length, "%s", device->name); /* cut, as the real one does */
	return driver_leave(CU_OK);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void uuid_bytes(const char *text, struct cu_uuid *out)
{
	uint32_t at = 0;
	int high = -1;

	*out = (struct cu_uuid){{0}};
	for (text += 4; *text && at < 16; text++) {
		int value = digit(*text);

		if (value < 0)
			continue;

		if (high < 0) {
			high = value;
		} else {
			out->bytes[at++] = (unsigned char)(high * 16 + value);
			high = -1;
		}
	}
}

API int cuDeviceGetUuid(struct cu_uuid *out, int index)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceGetUuid", index, out, &device);

	if (rc != CU_OK)
		return rc;
	uuid_bytes(device->gpu_uuid, out);
	return driver_leave(CU_OK);
}

API int cuDeviceGetUuid_v2(struct cu_uuid *out, int index)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceGetUuid_v2", index, out, &device);

	if (rc != CU_OK)
		return rc;
	uuid_bytes(device->uuid, out); /* of a MIG device its own */
	return driver_leave(CU_OK);
}

API int cuDeviceTotalMem_v2(size_t *out, int index)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceTotalMem", index, out, &device);

	if (rc != CU_OK)
		return rc;
	*out = device->usable_bytes;
	return driver_leave(CU_OK);
}

API int cuDeviceGetPCIBusId(char *out, int length, int index)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceGetPCIBusId", index, out, &device);

	if (rc != CU_OK)
		return rc;
	if (length < 13)
		return driver_leave(CU_INVALID_VALUE);

	(void)snprintf(out, (size_t)length, "%04X:%02X:%02X.0", device->pci_domain, device->pci_bus,
		       device->pci_device);
	return driver_leave(CU_OK);
}

API int cuDeviceGetByPCIBusId(int *out, const char *id)
{
	int rc = driver_enter("cuDeviceGetByPCIBusId");

	if (rc != CU_OK)
		return rc;
	if (!out || !id)
		return driver_leave(CU_INVALID_VALUE);

	for (uint32_t i = 0; i < driver.devices.count; i++) {
		const struct device *device = &driver.devices.device[i];
		char own[64];

		(void)snprintf(own, sizeof(own), "%04X:%02X:%02X.0", device->pci_domain,
			       device->pci_bus, device->pci_device);
		if (strcasecmp(own, id) == 0) {
			*out = (int)i;
			return driver_leave(CU_OK);
		}
	}

	return driver_leave(CU_INVALID_DEVICE);
}

static int attribute_of(const struct device *device, int attribute)
{
	const struct sim_model *model = &device->model;

	switch (attribute) {
	case ATTRIBUTE_MAX_THREADS_PER_BLOCK:
	case ATTRIBUTE_MAX_BLOCK_X:
	case ATTRIBUTE_MAX_BLOCK_Y:
		return 1024;
	case ATTRIBUTE_MAX_BLOCK_Z:
		return 64;
	case ATTRIBUTE_MAX_GRID_X:
		return INT32_MAX;
	case ATTRIBUTE_MAX_GRID_Y:
	case ATTRIBUTE_MAX_GRID_Z:
		return 65535;
	case ATTRIBUTE_MAX_SHARED_PER_BLOCK:
		return 48 << 10;
	case ATTRIBUTE_TOTAL_CONSTANT:
	case ATTRIBUTE_MAX_REGISTERS:
		return 64 << 10;
	case ATTRIBUTE_WARP:
		return 32;
	case ATTRIBUTE_CLOCK_KHZ:
		return (int)model->sm_max_mhz * 1000;
	case ATTRIBUTE_SM_COUNT:
		return (int)device->sm_count;
	case ATTRIBUTE_OVERLAP:
	case ATTRIBUTE_MAP_HOST:
	case ATTRIBUTE_CONCURRENT_KERNELS:
	case ATTRIBUTE_UNIFIED_ADDRESSING:
	case ATTRIBUTE_MANAGED:
	case ATTRIBUTE_VMM:
	case ATTRIBUTE_MEMORY_POOLS:
		return 1;
	case ATTRIBUTE_ECC:
		return model->has_ecc;
	case ATTRIBUTE_PCI_BUS:
		return (int)device->pci_bus;
	case ATTRIBUTE_PCI_DEVICE:
		return (int)device->pci_device;
	case ATTRIBUTE_PCI_DOMAIN:
		return (int)device->pci_domain;
	case ATTRIBUTE_MEMORY_CLOCK_KHZ:
		return (int)model->mem_max_mhz * 1000;
	case ATTRIBUTE_BUS_BITS:
		return (int)model->memory_bus_bits;
	case ATTRIBUTE_MAX_THREADS_PER_SM:
		return model->cc_major == 7 && model->cc_minor == 5 ? 1024 : 2048;
	case ATTRIBUTE_ASYNC_ENGINES:
		return 3;
	case ATTRIBUTE_CC_MAJOR:
		return (int)model->cc_major;
	case ATTRIBUTE_CC_MINOR:
		return (int)model->cc_minor;
	default: /* known to real drivers; not simulated */
		return 0;
	}
}

API int cuDeviceGetAttribute(int *out, int attribute, int index)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceGetAttribute", index, out, &device);

	if (rc != CU_OK)
		return rc;
	if (attribute <= 0)
		return driver_leave(CU_INVALID_VALUE);

	*out = attribute_of(device, attribute);
	return driver_leave(CU_OK);
}

/* As the simulated NVML says it: over NVLink, and over PCIe but for boards with a display class. */
static bool is_peer(uint32_t from, uint32_t to)
{
	const struct device *a = &driver.devices.device[from], *b = &driver.devices.device[to];

	if (from == to || a->gi != SIM_WHOLE_GPU || b->gi != SIM_WHOLE_GPU)
		return false;
	return driver.devices.links[from][to] > 0 || !a->model.quadro_class;
}

API int cuDeviceCanAccessPeer(int *out, int from, int to)
{
	const struct device *device = NULL;
	int rc = enter_device("cuDeviceCanAccessPeer", from, out, &device);

	if (rc != CU_OK)
		return rc;
	if (to < 0 || (uint32_t)to >= driver.devices.count)
		return driver_leave(CU_INVALID_DEVICE);

	*out = is_peer((uint32_t)from, (uint32_t)to);
	return driver_leave(CU_OK);
}

API int cuCtxEnablePeerAccess(struct cu_context *peer, unsigned flags)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuCtxEnablePeerAccess", &context);

	if (rc != CU_OK)
		return rc;
	if (flags != 0)
		return driver_leave(CU_INVALID_VALUE);
	if (!driver_context_is_valid(peer) || peer == context)
		return driver_leave(CU_INVALID_CONTEXT);
	if (!is_peer(context->device, peer->device))
		return driver_leave(CU_PEER_ACCESS_UNSUPPORTED);

	if (context->peers & (1U << peer->device))
		return driver_leave(CU_PEER_ACCESS_ALREADY_ENABLED);

	context->peers |= 1U << peer->device;
	return driver_leave(CU_OK);
}

API int cuCtxDisablePeerAccess(struct cu_context *peer)
{
	struct cu_context *context;
	int rc = driver_enter_context("cuCtxDisablePeerAccess", &context);

	if (rc != CU_OK)
		return rc;
	if (!driver_context_is_valid(peer))
		return driver_leave(CU_INVALID_CONTEXT);
	if (!(context->peers & (1U << peer->device)))
		return driver_leave(CU_PEER_ACCESS_NOT_ENABLED);

	context->peers &= ~(1U << peer->device);
	return driver_leave(CU_OK);
}
