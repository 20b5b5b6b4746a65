/* SPDX-License-Identifier: Apache-2.0 */
/* How GPUs hang together: NVLink, PCIe topology, fabric, and which processors are near. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "handle.h"
#include "impl.h"
#include "session.h"

enum { LINK_TYPE_GPU = 0, LINK_TYPE_SWITCH = 2 };
enum { P2P_OK = 0, P2P_CHIPSET_NOT_SUPPORTED = 1, P2P_NOT_SUPPORTED = 5 };

/* Resolves the second GPU of a question about two. */
static unsigned link_other(const struct call *call, const void *handle, uint32_t *out)
{
	struct handle_target target;
	unsigned result = handle_device(call->machine, handle, &target);
	if (result != NVML_OK)
		return result;
	if (session_index_of(call->session, target.gpu) == SIM_WHOLE_GPU)
		return NVML_INVALID_ARGUMENT;

	if (target.gi != SIM_WHOLE_GPU)
		return NVML_NOT_SUPPORTED;

	uint32_t health = call->machine->gpu[target.gpu].health;
	if (health == SIM_GPU_LOST || health == SIM_GPU_UNPLUGGED)
		return NVML_GPU_IS_LOST;

	*out = target.gpu;
	return NVML_OK;
}

static unsigned link_get(const struct call *call, unsigned number, const struct sim_link **out)
{
	if (call_model(call)->link_count == 0)
		return NVML_NOT_SUPPORTED;
	if (number >= call_model(call)->link_count || number >= SIM_LINK_MAX)
		return NVML_INVALID_ARGUMENT;
	*out = &call_gpu(call)->link[number];
	return NVML_OK;
}

unsigned impl_DeviceGetNvLinkState(struct call *call, unsigned number, unsigned *out)
{
	const struct sim_link *link = NULL;
	unsigned result = link_get(call, number, &link);
	if (result == NVML_OK)
		*out = link->peer_kind != SIM_LINK_NONE && !link->down;
	return result;
}

unsigned impl_DeviceGetNvLinkRemotePciInfo_v2(struct call *call, unsigned number,
					      struct nvml_pci_info *out)
{
	const struct sim_link *link = NULL;
	unsigned result = link_get(call, number, &link);
	if (result != NVML_OK)
		return result;
	if (link->peer_kind == SIM_LINK_NONE)
		return NVML_NOT_SUPPORTED;

	memset(out, 0, sizeof(*out));
	if (link->peer_kind == SIM_LINK_SWITCH) {
		out->bus = link->switch_bus;
		out->device = link->switch_device;
		out->pci_device_id = 0x22a310de;
	} else {
		const struct sim_gpu *peer = &call->machine->gpu[link->peer_gpu];
		out->domain = peer->pci_domain;
		out->bus = peer->pci_bus;
		out->device = peer->pci_device;
		out->pci_device_id = sim_model_of(call->machine, peer)->pci_device_id;
	}

	snprintf(out->bus_id, sizeof(out->bus_id), "%08X:%02X:%02X.0", out->domain, out->bus,
		 out->device);
	snprintf(out->bus_id_legacy, sizeof(out->bus_id_legacy), "%04X:%02X:%02X.0",
		 out->domain & 0xffff, out->bus & 0xff, out->device & 0x1f);
	return NVML_OK;
}

unsigned impl_DeviceGetNvLinkRemoteDeviceType(struct call *call, unsigned number, unsigned *out)
{
	const struct sim_link *link = NULL;
	unsigned result = link_get(call, number, &link);
	if (result != NVML_OK)
		return result;
	if (link->peer_kind == SIM_LINK_NONE)
		return NVML_NOT_SUPPORTED;

	*out = link->peer_kind == SIM_LINK_SWITCH ? LINK_TYPE_SWITCH : LINK_TYPE_GPU;
	return NVML_OK;
}

/* 0 peer access, 1 system memory, 2 peer atomics, 3 system atomics, 4 SLI bridge, 5 valid. */
unsigned impl_DeviceGetNvLinkCapability(struct call *call, unsigned number, unsigned capability,
					unsigned *out)
{
	static const uint8_t has[] = {1, 0, 1, 0, 0, 1};
	const struct sim_link *link = NULL;
	unsigned result = link_get(call, number, &link);
	if (result != NVML_OK)
		return result;

	if (capability >= sizeof(has))
		return NVML_INVALID_ARGUMENT;

	*out = has[capability] && link->peer_kind != SIM_LINK_NONE;
	return NVML_OK;
}

unsigned impl_DeviceGetNvLinkVersion(struct call *call, unsigned number, unsigned *out)
{
	static const uint8_t version[] = {0, 1, 2, 4, 6, 7}; /* nvmlNvlinkVersion_t has halves */
	uint32_t generation = call_model(call)->nvlink_version;
	const struct sim_link *link = NULL;
	unsigned result = link_get(call, number, &link);
	if (result == NVML_OK)
		*out = generation < sizeof(version) ? version[generation] : 0;
	return result;
}

/* 0 replay, 1 recovery, 2 CRC of flits, 3 CRC of data, 4 ECC of data. */
unsigned impl_DeviceGetNvLinkErrorCounter(struct call *call, unsigned number, unsigned counter,
					  uint64_t *out)
{
	const struct sim_link *link = NULL;
	unsigned result = link_get(call, number, &link);
	if (result != NVML_OK)
		return result;
	if (counter > 4)
		return NVML_INVALID_ARGUMENT;

	const uint64_t value[] = {link->replay, link->recovery, link->crc_flit, link->crc_data,
				  link->more[SIM_LINK_ECC]};
	*out = value[counter];
	return NVML_OK;
}

unsigned impl_DeviceResetNvLinkErrorCounters(struct call *call, unsigned number)
{
	const struct sim_link *same = NULL;
	unsigned result = link_get(call, number, &same);
	if (result == NVML_OK) {
		struct sim_link *link = &call->change->gpu[call->gpu].link[number];
		link->replay = link->recovery = link->crc_flit = link->crc_data = 0;
		memset(link->more, 0, sizeof(link->more));
	}

	return result;
}

/* --- topology --- */

unsigned impl_DeviceGetTopologyCommonAncestor(struct call *call, void *other, unsigned *out)
{
	uint32_t peer = 0;
	unsigned result = link_other(call, other, &peer);
	if (result == NVML_OK)
		*out = call->machine->level[call->gpu][peer];
	return result;
}

/* With a count of 0 only the number is told. */
unsigned impl_DeviceGetTopologyNearestGpus(struct call *call, unsigned level, unsigned *count,
					   void **out)
{
	void *list[SIM_GPU_MAX];
	unsigned have = 0;

	if (level % 10 != 0 || level > 50)
		return NVML_INVALID_ARGUMENT;

	for (uint32_t i = 0; i < call->session->visible_count; i++) {
		uint32_t peer = call->session->visible[i];
		if (peer != call->gpu && call->machine->level[call->gpu][peer] == level)
			list[have++] = handle_of_gpu(peer);
	}

	if (*count == 0 || !out) {
		*count = have;
		return NVML_OK;
	}

	return array_out(list, have, sizeof(list[0]), out, count);
}

/* Directly linked, or both on switches. */
static bool link_joins(const struct sim_machine *machine, uint32_t a, uint32_t b)
{
	bool switched_a = false, switched_b = false;

	for (uint32_t i = 0; i < SIM_LINK_MAX; i++) {
		const struct sim_link *link = &machine->gpu[a].link[i];
		if (link->peer_kind == SIM_LINK_GPU && link->peer_gpu == b && !link->down)
			return true;

		switched_a = switched_a || (link->peer_kind == SIM_LINK_SWITCH && !link->down);
		link = &machine->gpu[b].link[i];
		switched_b = switched_b || (link->peer_kind == SIM_LINK_SWITCH && !link->down);
	}

	return switched_a && switched_b;
}

/* index: 0 read, 1 write, 2 NVLink, 3 atomics, 4 PCIe. */
unsigned impl_DeviceGetP2PStatus(struct call *call, void *other, unsigned index, unsigned *out)
{
	uint32_t peer = 0;
	unsigned result = link_other(call, other, &peer);
	if (result != NVML_OK)
		return result;
	if (index > 4)
		return NVML_INVALID_ARGUMENT;

	bool joined = peer == call->gpu || link_joins(call->machine, call->gpu, peer);
	if (joined)
		*out = P2P_OK;
	else if (index == 2 || index == 3)
		*out = P2P_NOT_SUPPORTED;
	else /* consumer boards refuse it over PCIe */
		*out = call_model(call)->quadro_class ? P2P_CHIPSET_NOT_SUPPORTED : P2P_OK;

	return NVML_OK;
}

unsigned impl_DeviceOnSameBoard(struct call *call, void *other, int *out)
{
	uint32_t peer = 0;
	unsigned result = link_other(call, other, &peer);
	if (result == NVML_OK)
		*out = peer == call->gpu;
	return result;
}

/* --- processors and memory near the device --- */

/* Sets `count` bits from `first` in a mask of `words` words; bits beyond it are left out. */
static void link_mask(unsigned long *mask, unsigned words, uint64_t first, uint64_t count)
{
	const unsigned bits = sizeof(unsigned long) * CHAR_BIT;
	memset(mask, 0, words * sizeof(mask[0]));
	for (uint64_t i = first; i < first + count && i / bits < words; i++)
		mask[i / bits] |= 1ul << (i % bits);
}

unsigned impl_DeviceGetCpuAffinityWithinScope(struct call *call, unsigned words,
					      unsigned long *mask, unsigned scope)
{
	const struct sim_machine *machine = call->machine;
	int node = call_gpu(call)->numa_node;

	if (scope > 1)
		return NVML_INVALID_ARGUMENT;
	if (words == 0)
		return NVML_INSUFFICIENT_SIZE;
	if (machine->cpus_per_node == 0)
		return NVML_NOT_SUPPORTED;

	uint64_t cpus = machine->cpus_per_node;
	uint64_t nodes = machine->numa_count ? machine->numa_count : 1;

	if (node < 0)
		link_mask(mask, words, 0, cpus * nodes);
	else
		link_mask(mask, words, cpus * (uint64_t)node, cpus);

	return NVML_OK;
}

unsigned impl_DeviceGetCpuAffinity(struct call *call, unsigned words, unsigned long *mask)
{
	return impl_DeviceGetCpuAffinityWithinScope(call, words, mask, 0);
}

unsigned impl_DeviceGetMemoryAffinity(struct call *call, unsigned words, unsigned long *mask,
				      unsigned scope)
{
	int node = call_gpu(call)->numa_node;
	if (scope > 1)
		return NVML_INVALID_ARGUMENT;
	if (words == 0)
		return NVML_INSUFFICIENT_SIZE;
	link_mask(mask, words, node < 0 ? 0 : (uint64_t)node, 1);
	return NVML_OK;
}

/* Only where the GPU's memory is a NUMA node of its own, which is not so on x86. */
unsigned impl_DeviceGetNumaNodeId(struct call *call, unsigned *out)
{
	(void)call;
	(void)out;
	return NVML_NOT_SUPPORTED;
}

/* 0 none, 1 HMM: Linux' own, with the open kernel modules. */
unsigned impl_DeviceGetAddressingMode(struct call *call, struct nvml_device_addressing_mode *out)
{
	if (out->version != NVML_WORD(*out, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	out->value = call->machine->open_kernel_module;
	return NVML_OK;
}

/* --- fabric --- */

static unsigned link_fabric(const struct call *call, struct nvml_gpu_fabric_info_v *out)
{
	static const unsigned char cluster[16] = {0x51, 0xce, 0x51, 0xce, 0xfa, 0xb1, 0x1c, 0x01,
						  0x80, 0x00, 0x51, 0xce, 0x51, 0xce, 0x00, 0x01};

	if (!call_model(call)->has_fabric)
		return NVML_NOT_SUPPORTED;

	memset(out, 0, sizeof(*out));
	out->state = 3; /* completed */

	/* two bits for each of four conditions, 2 meaning "no"; then 1, "configured right" */
	out->health_mask = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8;
	out->health_summary = 1; /* healthy */

	if (call->machine->fabric) {
		memcpy(out->cluster_uuid, cluster, sizeof(cluster));
		out->clique = 1;
	}

	return NVML_OK;
}

unsigned impl_DeviceGetGpuFabricInfo(struct call *call, struct nvml_gpu_fabric_info *out)
{
	struct nvml_gpu_fabric_info_v full;
	unsigned result = link_fabric(call, &full);
	if (result != NVML_OK)
		return result;

	memcpy(out->cluster_uuid, full.cluster_uuid, sizeof(out->cluster_uuid));
	out->status = full.status;
	out->clique = full.clique;
	out->state = full.state;

	return NVML_OK;
}

/* The caller's structure is version 2 or 3; version 3 only adds to the end. */
unsigned impl_DeviceGetGpuFabricInfoV(struct call *call, void *out)
{
	struct nvml_gpu_fabric_info_v full;
	unsigned version = version_of(out);
	size_t size = sizeof(full);

	if (version == NVML_WORD(struct nvml_gpu_fabric_info_v2, 2))
		size = sizeof(struct nvml_gpu_fabric_info_v2);
	else if (version != NVML_WORD(full, 3))
		return NVML_ARGUMENT_VERSION_MISMATCH;

	unsigned result = link_fabric(call, &full);

	full.version = version;
	if (result == NVML_OK)
		memcpy(out, &full, size);

	return result;
}
