/* SPDX-License-Identifier: Apache-2.0 */
#include "hardware/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "hardware/pci.h"

/* A GPU while it is being read: ends up in inventory.gpus and out_handles. */
struct reading {
	struct gpu gpu;
	nvml_device handle;
};

struct inventory_reader {
	struct nvml_caller *caller;
	const struct inventory_request *request;
	struct reading *readings; /* owned; GPU_MAX of them */
	uint32_t count;
	struct mig_device *migs; /* owned; GPU_MAX * GPU_MIG_MAX of them */
	uint32_t mig_count;
	struct pci_address bound[GPU_MAX]; /* what /proc/driver/nvidia/gpus lists */
	uint32_t bound_count;
};

static void gpu_init(struct gpu *gpu, uint32_t index)
{
	*gpu = (struct gpu){
	    .index = index,
	    .minor = GPU_U32_UNKNOWN,
	    .numa_node = GPU_NUMA_NONE,
	    .memory_bytes = GPU_U64_UNKNOWN,
	    .cc_major = GPU_U32_UNKNOWN,
	    .cc_minor = GPU_U32_UNKNOWN,
	    .brand = GPU_U32_UNKNOWN,
	    .core_count = GPU_U32_UNKNOWN,
	    .power_min_mw = GPU_U32_UNKNOWN,
	    .power_max_mw = GPU_U32_UNKNOWN,
	    .power_default_mw = GPU_U32_UNKNOWN,
	    .power_limit_mw = GPU_U32_UNKNOWN,
	    .slowdown_c = GPU_U32_UNKNOWN,
	    .shutdown_c = GPU_U32_UNKNOWN,
	    .pcie_gen_max = GPU_U32_UNKNOWN,
	    .pcie_width_max = GPU_U32_UNKNOWN,
	    .ecc_current = GPU_U32_UNKNOWN,
	    .ecc_pending = GPU_U32_UNKNOWN,
	    .persistence = GPU_U32_UNKNOWN,
	    .compute_mode = GPU_U32_UNKNOWN,
	};
}

static void gpu_fail(struct gpu *gpu, uint32_t state, const char *function, int32_t result)
{
	if (gpu->state != GPU_STATE_OK)
		return;

	gpu->state = state;

	switch (state) {
	case GPU_STATE_LOST:
		(void)snprintf(gpu->reason, sizeof(gpu->reason),
			       "the GPU has fallen off the bus (%s answers GPU_IS_LOST)", function);
		break;
	case GPU_STATE_RESET_REQUIRED:
		(void)snprintf(gpu->reason, sizeof(gpu->reason),
			       "the GPU needs a reset (%s answers RESET_REQUIRED)", function);
		break;
	default:
		(void)snprintf(gpu->reason, sizeof(gpu->reason), "%s: %s (%d)", function,
			       nvml_return_to_string(result), result);
	}
}

/* True when the value may be used. A failure that tells of the GPU's state is kept in it. */
static bool check(struct gpu *gpu, enum nvml_function function, int32_t result)
{
	if (result == NVML_OK)
		return true;

	const char *name = nvml_function_to_string(function);

	if (result == NVML_GPU_IS_LOST)
		gpu_fail(gpu, GPU_STATE_LOST, name, result);
	else if (result == NVML_RESET_REQUIRED)
		gpu_fail(gpu, GPU_STATE_RESET_REQUIRED, name, result);

	return false;
}

#define GET(reader, reading, member, ...)                                                          \
	check(&(reading)->gpu, NVML_FN_##member,                                                   \
	      NVML_CALL((reader)->caller, member, (reading)->handle, __VA_ARGS__))

static void read_identity(struct inventory_reader *reader, struct reading *reading)
{
	struct gpu *gpu = &reading->gpu;
	struct nvml_pci_info pci = {.domain = 0};

	if (GET(reader, reading, pci_info, &pci)) {
		gpu->has_pci = true;
		gpu->pci = (struct pci_address){
		    .domain = pci.domain, .bus = (uint8_t)pci.bus, .device = (uint8_t)pci.device};
		gpu->pci_device_id = pci.pci_device_id;
		gpu->pci_subsystem_id = pci.pci_subsystem_id;

		char bus[PCI_TEXT_MAX];
		nvml_caller_target(reader->caller, gpu->index,
				   pci_address_to_string(&gpu->pci, bus));
	}

	int32_t rc = NVML_CALL(reader->caller, uuid, reading->handle, gpu->uuid, sizeof(gpu->uuid));
	if (!check(gpu, NVML_FN_uuid, rc)) {
		gpu->uuid[0] = '\0';
		gpu_fail(gpu, GPU_STATE_ERROR, nvml_function_to_string(NVML_FN_uuid), rc);
	}

	gpu->uuid[sizeof(gpu->uuid) - 1] = '\0';
	if (!GET(reader, reading, name, gpu->name, sizeof(gpu->name)))
		gpu->name[0] = '\0';
	if (!GET(reader, reading, serial, gpu->serial, sizeof(gpu->serial)))
		gpu->serial[0] = '\0';
	if (!GET(reader, reading, vbios, gpu->vbios, sizeof(gpu->vbios)))
		gpu->vbios[0] = '\0';

	if (!GET(reader, reading, board_part, gpu->board_part, sizeof(gpu->board_part)))
		gpu->board_part[0] = '\0';

	uint32_t value;
	if (GET(reader, reading, minor, &value))
		gpu->minor = value;
}

static void read_model(struct inventory_reader *reader, struct reading *reading)
{
	struct gpu *gpu = &reading->gpu;
	uint32_t value, second;
	int32_t major, minor;

	if (GET(reader, reading, architecture, &value))
		gpu->architecture = value;
	if (GET(reader, reading, capability, &major, &minor) && major >= 0 && minor >= 0) {
		gpu->cc_major = (uint32_t)major;
		gpu->cc_minor = (uint32_t)minor;
	}

	if (GET(reader, reading, brand, &value))
		gpu->brand = value;
	if (GET(reader, reading, cores, &value))
		gpu->core_count = value;

	struct nvml_memory memory;
	if (GET(reader, reading, memory, &memory))
		gpu->memory_bytes = memory.total;
	if (GET(reader, reading, power_range, &value, &second)) {
		gpu->power_min_mw = value;
		gpu->power_max_mw = second;
	}

	if (GET(reader, reading, power_default, &value))
		gpu->power_default_mw = value;
	if (GET(reader, reading, power_enforced, &value))
		gpu->power_limit_mw = value;
	if (GET(reader, reading, threshold, 1, &value))
		gpu->slowdown_c = value;
	if (GET(reader, reading, threshold, 0, &value))
		gpu->shutdown_c = value;

	if (GET(reader, reading, pcie_gen_max, &value))
		gpu->pcie_gen_max = value;
	if (GET(reader, reading, pcie_width_max, &value))
		gpu->pcie_width_max = value;
}

static void read_modes(struct inventory_reader *reader, struct reading *reading)
{
	struct gpu *gpu = &reading->gpu;
	uint32_t current, pending;

	if (GET(reader, reading, mig_mode, &current, &pending)) {
		gpu->mig_current = current ? GPU_MIG_ENABLED : GPU_MIG_DISABLED;
		gpu->mig_pending = pending ? GPU_MIG_ENABLED : GPU_MIG_DISABLED;
		uint32_t max;
		if (GET(reader, reading, mig_max, &max))
			gpu->mig_max = max < GPU_MIG_MAX ? max : GPU_MIG_MAX;
	}

	if (GET(reader, reading, ecc_mode, &current, &pending)) {
		gpu->ecc_current = current != 0;
		gpu->ecc_pending = pending != 0;
	}

	if (GET(reader, reading, persistence, &current))
		gpu->persistence = current != 0;
	if (GET(reader, reading, compute_mode, &current))
		gpu->compute_mode = current;
}

static uint32_t link_peer(uint32_t type, bool has_type, const struct nvml_pci_info *remote)
{
	enum { TYPE_GPU = 0, TYPE_SWITCH = 2, CLASSLESS_VENDOR_MASK = 0xffff };
	if (has_type && type == TYPE_GPU)
		return GPU_LINK_GPU;
	if (has_type && type == TYPE_SWITCH)
		return GPU_LINK_SWITCH;

	/* A driver that does not tell the type: what is no GPU of the inventory and is NVIDIA's is
	 * a switch; mark_gpu_links() finds the GPUs. */
	if (!has_type && (remote->pci_device_id & CLASSLESS_VENDOR_MASK) == PCI_VENDOR_NVIDIA)
		return GPU_LINK_SWITCH;

	return GPU_LINK_OTHER;
}

static void read_links(struct inventory_reader *reader, struct reading *reading)
{
	struct gpu *gpu = &reading->gpu;

	for (uint32_t i = 0; i < GPU_LINK_MAX && gpu->state == GPU_STATE_OK; i++) {
		uint32_t active;
		int32_t rc = NVML_CALL(reader->caller, link_state, reading->handle, i, &active);
		if (rc == NVML_INVALID_ARGUMENT || rc == NVML_FUNCTION_NOT_FOUND)
			break;
		if (!check(gpu, NVML_FN_link_state, rc))
			continue;

		gpu->link_count = i + 1;
		struct gpu_link *link = &gpu->link[i];
		link->peer = GPU_LINK_DOWN;

		if (!active)
			continue;

		link->peer = GPU_LINK_OTHER;
		struct nvml_pci_info remote = {.domain = 0};
		if (!GET(reader, reading, link_remote, i, &remote))
			continue;

		link->remote = (struct pci_address){.domain = remote.domain,
						    .bus = (uint8_t)remote.bus,
						    .device = (uint8_t)remote.device};
		uint32_t type = 0;
		bool has_type = GET(reader, reading, link_remote_type, i, &type);

		link->peer = (uint8_t)link_peer(type, has_type, &remote);
	}
}

/*
 * Where the GPU stands in an NVLink fabric: only when it has joined one, which a fabric of its own
 * (no cluster) is not. The function with a version word came with driver 550 and is asked where the
 * older one is no more (NVML API reference, nvmlGpuFabricInfo_t).
 */
static void read_fabric(struct inventory_reader *reader, struct reading *reading)
{
	enum { FABRIC_COMPLETED = 3 };
	static const uint8_t none[GPU_FABRIC_UUID_SIZE];
	struct gpu *gpu = &reading->gpu;
	struct nvml_fabric fabric = {.state = 0};
	struct nvml_fabric_v2 newer = {.version = NVML_STRUCT_WORD(struct nvml_fabric_v2, 2)};

	if (gpu->state != GPU_STATE_OK)
		return;

	if (!GET(reader, reading, fabric, &fabric)) {
		if (!GET(reader, reading, fabric_v, &newer))
			return;

		memcpy(fabric.cluster, newer.cluster, sizeof(fabric.cluster));
		fabric.status = newer.status;
		fabric.clique = newer.clique;
		fabric.state = newer.state;
	}

	if (fabric.state != FABRIC_COMPLETED || fabric.status != NVML_OK ||
	    memcmp(fabric.cluster, none, sizeof(none)) == 0)
		return;

	gpu->has_fabric = true;
	memcpy(gpu->fabric_cluster, fabric.cluster, sizeof(gpu->fabric_cluster));
	gpu->fabric_clique = fabric.clique;
}

void inventory_mig_profile(const char *name, char out[GPU_PROFILE_MAX])
{
	const char *mark = strstr(name, "MIG ");
	(void)snprintf(out, GPU_PROFILE_MAX, "%.*s", GPU_PROFILE_MAX - 1, mark ? mark + 4 : "");
}

static bool read_mig(struct inventory_reader *reader, uint32_t parent, uint32_t index,
		     nvml_device handle)
{
	struct mig_device *mig = &reader->migs[reader->mig_count];
	*mig = (struct mig_device){.parent = parent,
				   .index = index,
				   .memory_bytes = GPU_U64_UNKNOWN,
				   .sm_count = GPU_U32_UNKNOWN};

	char name[GPU_NAME_MAX] = "";

	if (NVML_CALL(reader->caller, uuid, handle, mig->uuid, sizeof(mig->uuid)) != NVML_OK ||
	    NVML_CALL(reader->caller, gi_id, handle, &mig->gi) != NVML_OK ||
	    NVML_CALL(reader->caller, ci_id, handle, &mig->ci) != NVML_OK)
		return false; /* destroyed while we were looking: the next reading is right */

	mig->uuid[sizeof(mig->uuid) - 1] = '\0';
	if (NVML_CALL(reader->caller, name, handle, name, sizeof(name)) == NVML_OK) {
		name[sizeof(name) - 1] = '\0';
		inventory_mig_profile(name, mig->profile);
	}

	struct nvml_attributes attributes;
	if (NVML_CALL(reader->caller, attributes, handle, &attributes) == NVML_OK) {
		mig->memory_bytes = attributes.memory_mib << 20;
		mig->sm_count = attributes.sm_count;
		mig->gi_slices = attributes.gi_slices;
		mig->ci_slices = attributes.ci_slices;
		mig->copy_engines = attributes.copy_engines;
		mig->decoders = attributes.decoders;
		mig->encoders = attributes.encoders;
		mig->jpegs = attributes.jpegs;
		mig->ofas = attributes.ofas;
	}

	return true;
}

static void read_migs(struct inventory_reader *reader, uint32_t parent)
{
	struct reading *reading = &reader->readings[parent];
	if (reading->gpu.mig_current != GPU_MIG_ENABLED)
		return;

	for (uint32_t i = 0; i < reading->gpu.mig_max && reading->gpu.state == GPU_STATE_OK; i++) {
		nvml_device handle;
		if (GET(reader, reading, mig_by_index, i, &handle) &&
		    read_mig(reader, parent, i, handle))
			reader->mig_count++;
	}
}

/* Enters a GPU that has a handle, or `result` says why it has none. */
static void add(struct inventory_reader *reader, uint32_t index, nvml_device handle, int32_t result)
{
	if (reader->count == GPU_MAX)
		return;

	struct reading *reading = &reader->readings[reader->count++];
	gpu_init(&reading->gpu, index);

	if (result == NVML_OK) {
		reading->handle = handle;
		read_identity(reader, reading);
		if (reading->gpu.state != GPU_STATE_OK)
			return;

		read_model(reader, reading);
		read_modes(reader, reading);
		read_links(reader, reading);
		read_fabric(reader, reading);

		return;
	}

	(void)check(&reading->gpu, NVML_FN_by_index, result);
	gpu_fail(&reading->gpu, GPU_STATE_ERROR, nvml_function_to_string(NVML_FN_by_index), result);
}

static const struct inventory_skip *find_skip(const struct inventory_reader *reader, uint32_t index,
					      const char *bus)
{
	for (uint32_t i = 0; i < reader->request->skip_count; i++) {
		const struct inventory_skip *skip = &reader->request->skip[i];
		if (bus ? strcmp(skip->bus, bus) == 0 : skip->index == index)
			return skip;
	}
	return NULL;
}

static void add_skipped(struct inventory_reader *reader, const struct inventory_skip *skip)
{
	if (reader->count == GPU_MAX)
		return;

	struct reading *reading = &reader->readings[reader->count++];
	gpu_init(&reading->gpu, skip->index);
	reading->gpu.state = GPU_STATE_HUNG;
	(void)snprintf(reading->gpu.reason, sizeof(reading->gpu.reason),
		       "a driver call on this GPU did not come back");
	reading->gpu.has_pci =
	    pci_parse_address(skip->bus, strlen(skip->bus), &reading->gpu.pci) == 0;
}

static void enumerate_by_index(struct inventory_reader *reader, uint32_t total)
{
	for (uint32_t i = 0; i < total; i++) {
		const struct inventory_skip *skip = find_skip(reader, i, NULL);
		if (skip) {
			add_skipped(reader, skip);
			continue;
		}

		nvml_device handle = NULL;
		nvml_caller_target(reader->caller, i, "");

		int32_t rc = NVML_CALL(reader->caller, by_index, i, &handle);
		add(reader, i, handle, rc);
	}
}

/* With GPUs to be skipped: indexes may have moved since, PCI addresses have not. */
static void enumerate_by_bus(struct inventory_reader *reader)
{
	for (uint32_t i = 0; i < reader->bound_count; i++) {
		char bus[PCI_TEXT_MAX];
		pci_address_to_string(&reader->bound[i], bus);

		const struct inventory_skip *skip = find_skip(reader, 0, bus);
		if (skip) {
			add_skipped(reader, skip);
			continue;
		}

		nvml_device handle = NULL;
		nvml_caller_target(reader->caller, i, bus);

		int32_t rc = NVML_CALL(reader->caller, by_bus, bus, &handle);
		if (rc == NVML_NOT_FOUND || rc == NVML_NO_PERMISSION)
			continue; /* not visible to this process */

		uint32_t index = i, told;
		if (rc == NVML_OK && NVML_CALL(reader->caller, index, handle, &told) == NVML_OK)
			index = told;
		add(reader, index, handle, rc);
	}
}

static bool skips_have_buses(const struct inventory_reader *reader)
{
	for (uint32_t i = 0; i < reader->request->skip_count; i++) {
		if (reader->request->skip[i].bus[0] == '\0')
			return false;
	}
	return reader->request->skip_count > 0;
}

static bool bus_is_taken(const struct inventory_reader *reader, const struct pci_address *address)
{
	for (uint32_t i = 0; i < reader->count; i++) {
		const struct gpu *gpu = &reader->readings[i].gpu;
		if (gpu->has_pci && pci_address_compare(&gpu->pci, address) == 0)
			return true;
	}
	return false;
}

/*
 * Gives GPUs that NVML counts but does not name their PCI address: NVML enumerates in the order of
 * addresses, so when as many addresses are left over as there are such GPUs, they belong together
 * in order. One that vanished is dropped when the driver does not list it any more.
 */
static void name_the_nameless(struct inventory_reader *reader)
{
	struct pci_address left[GPU_MAX];
	uint32_t left_count = 0, nameless = 0;
	for (uint32_t i = 0; i < reader->bound_count; i++) {
		if (!bus_is_taken(reader, &reader->bound[i]))
			left[left_count++] = reader->bound[i];
	}

	for (uint32_t i = 0; i < reader->count; i++)
		nameless += !reader->readings[i].gpu.has_pci;

	if (nameless == 0)
		return;

	uint32_t used = 0, kept = 0;

	for (uint32_t i = 0; i < reader->count; i++) {
		struct gpu *gpu = &reader->readings[i].gpu;
		if (!gpu->has_pci && nameless == left_count) {
			gpu->pci = left[used++];
			gpu->has_pci = true;
		}

		if (!gpu->has_pci && reader->bound_count > 0 && left_count == 0)
			continue;

		reader->readings[kept++] = reader->readings[i];
	}

	reader->count = kept;
}

/* What needs no driver call: NUMA node, and the identity of a GPU that does not answer. */
static void complete(struct inventory_reader *reader)
{
	for (uint32_t i = 0; i < reader->count; i++) {
		struct gpu *gpu = &reader->readings[i].gpu;
		if (!gpu->has_pci)
			continue;

		struct pci_device device;
		if (pci_read_device(reader->request->root, &gpu->pci, &device, NULL) == 0)
			gpu->numa_node = device.numa_node;

		struct pci_nvidia_information information;
		pci_read_nvidia_information(reader->request->root, &gpu->pci, &information);
		if (gpu->uuid[0] == '\0')
			(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", information.uuid);
		if (gpu->name[0] == '\0')
			(void)snprintf(gpu->name, sizeof(gpu->name), "%s", information.model);

		if (gpu->minor == GPU_U32_UNKNOWN)
			gpu->minor = information.minor;
	}
}

static int compare_reading(const void *a, const void *b)
{
	const struct gpu *left = &((const struct reading *)a)->gpu;
	const struct gpu *right = &((const struct reading *)b)->gpu;
	if (left->has_pci != right->has_pci)
		return left->has_pci ? -1 : 1;
	int order = left->has_pci ? pci_address_compare(&left->pci, &right->pci) : 0;
	return order != 0 ? order : (left->index > right->index) - (left->index < right->index);
}

/* Where the driver did not tell what is at the other end of a link, but it is one of our GPUs. */
static void mark_gpu_links(struct inventory_reader *reader)
{
	for (uint32_t i = 0; i < reader->count; i++) {
		struct gpu *gpu = &reader->readings[i].gpu;
		for (uint32_t l = 0; l < gpu->link_count; l++) {
			if (gpu->link[l].peer >= GPU_LINK_GPU &&
			    bus_is_taken(reader, &gpu->link[l].remote))
				gpu->link[l].peer = GPU_LINK_GPU;
		}
	}
}

static void read_levels(struct inventory_reader *reader, struct inventory *out)
{
	for (uint32_t i = 0; i < reader->count; i++) {
		struct reading *a = &reader->readings[i];
		char bus[PCI_TEXT_MAX] = "";

		if (a->gpu.has_pci)
			pci_address_to_string(&a->gpu.pci, bus);
		nvml_caller_target(reader->caller, a->gpu.index, bus);
		out->level[i][i] = GPU_LEVEL_INTERNAL;

		for (uint32_t j = i + 1; a->handle && j < reader->count; j++) {
			struct reading *b = &reader->readings[j];
			uint32_t level;

			if (b->handle &&
			    NVML_CALL(reader->caller, ancestor, a->handle, b->handle, &level) ==
				NVML_OK &&
			    level <= GPU_LEVEL_SYSTEM) {
				out->level[i][j] = (uint8_t)level;
				out->level[j][i] = (uint8_t)level;
			}
		}
	}
}

static int refuse_real(const struct inventory_reader *reader, const struct nvml *nvml,
		       struct err *err)
{
	for (uint32_t i = 0; nvml_is_simulation_wanted() && i < reader->count; i++) {
		const struct gpu *gpu = &reader->readings[i].gpu;
		if (gpu->uuid[0] != '\0' && !gpu_uuid_is_simulated(gpu->uuid))
			return err_set(
			    err, -EPERM,
			    "SLUICE_SIM_STATE is set, but '%s' shows GPU %s, which is not "
			    "simulated; use 'sluice sim exec -- COMMAND'",
			    nvml->path, gpu->uuid);
	}

	return 0;
}

static int hand_out(struct inventory_reader *reader, struct inventory *out,
		    nvml_device handles[GPU_MAX], struct err *err)
{
	struct nvml *nvml = reader->caller->nvml;
	struct inventory made;

	inventory_init(&made);
	(void)snprintf(made.driver_version, sizeof(made.driver_version), "%s",
		       nvml->driver_version);
	(void)snprintf(made.nvml_version, sizeof(made.nvml_version), "%s", nvml->nvml_version);
	(void)snprintf(made.library_path, sizeof(made.library_path), "%s", nvml->path);

	int32_t cuda;
	if (NVML_CALL(reader->caller, cuda_version, &cuda) == NVML_OK && cuda > 0)
		made.cuda_version = (uint32_t)cuda;
	made.simulated = nvml_is_simulation_wanted();

	made.gpus = reader->count ? calloc(reader->count, sizeof(*made.gpus)) : NULL;
	made.migs = reader->mig_count ? calloc(reader->mig_count, sizeof(*made.migs)) : NULL;
	if ((reader->count && !made.gpus) || (reader->mig_count && !made.migs)) {
		inventory_done(&made);
		return err_set(err, -ENOMEM, "reading the inventory: no memory");
	}

	made.gpu_count = reader->count;
	made.mig_count = reader->mig_count;
	read_levels(reader, &made);

	for (uint32_t i = 0; i < reader->count; i++) {
		made.gpus[i] = reader->readings[i].gpu;
		handles[i] = reader->readings[i].handle;
		made.simulated |= gpu_uuid_is_simulated(made.gpus[i].uuid);
	}

	if (reader->mig_count)
		memcpy(made.migs, reader->migs, reader->mig_count * sizeof(*made.migs));
	inventory_done(out);
	*out = made;

	return 0;
}

int inventory_read(struct nvml_caller *caller, const struct inventory_request *request,
		   struct inventory *out, nvml_device out_handles[GPU_MAX], struct err *err)
{
	_cleanup_free_ struct reading *readings = calloc(GPU_MAX, sizeof(*readings));
	_cleanup_free_ struct mig_device *migs = calloc(GPU_MAX * GPU_MIG_MAX, sizeof(*migs));
	if (!readings || !migs)
		return err_set(err, -ENOMEM, "reading the inventory: no memory");

	struct inventory_reader reader = {
	    .caller = caller, .request = request, .readings = readings, .migs = migs};

	nvml_caller_target(caller, CALL_MARK_NO_GPU, "");
	uint32_t total = 0;
	int rc = NVML_CALL(caller, count, &total);
	if (rc != NVML_OK)
		return err_set(err, -EIO,
			       "the driver does not tell how many GPUs there are: %s (%d)",
			       nvml_return_to_string(rc), rc);

	reader.bound_count = pci_list_nvidia(request->root, reader.bound, GPU_MAX);

	if (reader.bound_count > 0 && skips_have_buses(&reader))
		enumerate_by_bus(&reader);
	else
		enumerate_by_index(&reader, total);

	name_the_nameless(&reader);
	complete(&reader);

	rc = refuse_real(&reader, caller->nvml, err);
	if (rc < 0)
		return rc;

	qsort(reader.readings, reader.count, sizeof(*reader.readings), compare_reading);
	mark_gpu_links(&reader);

	for (uint32_t i = 0; i < reader.count; i++) {
		struct gpu *gpu = &reader.readings[i].gpu;
		char bus[PCI_TEXT_MAX] = "";

		if (gpu->has_pci)
			pci_address_to_string(&gpu->pci, bus);
		nvml_caller_target(caller, gpu->index, bus);
		read_migs(&reader, i);
	}

	rc = hand_out(&reader, out, out_handles, err);
	nvml_caller_target(caller, CALL_MARK_NO_GPU, "");
	return rc;
}
