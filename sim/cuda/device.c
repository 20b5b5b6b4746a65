/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/error.h"
#include "sim/physics.h"
#include "sim/profile.h"
#include "sim/state.h"

enum { CHOICE_NUMBER_MAX = 1000 };

/* --- the machine ------------------------------------------------------------------------------ */

static int state_of_profile(const char *profile, struct sim_state **out)
{
	struct sim_machine *machine = calloc(1, sizeof(*machine));
	struct sim_options options = {0};
	struct sim_error error = {0};
	int rc = CU_OK;

	if (!machine)
		return CU_OUT_OF_MEMORY;

	if (sim_profile_load(profile, &options, machine, &error) < 0) {
		(void)fprintf(stderr, "libcuda (simulated): SLUICE_SIM_PROFILE: %s\n", error.text);
		rc = CU_NO_DEVICE;
	} else if (sim_state_private(machine, out) != 0) {
		rc = CU_OUT_OF_MEMORY;
	}

	free(machine);
	return rc;
}

static int state_open(struct devices *devices)
{
	struct sim_error error = {0};
	const char *profile = getenv("SLUICE_SIM_PROFILE");

	/* A program with more rights than its user must not follow the user's environment. */
	if (getauxval(AT_SECURE))
		return CU_NO_DEVICE;

	switch (sim_state_open(sim_state_default_path(devices->path), &devices->state, &error)) {
	case SIM_OPEN_OK:
		return CU_OK;
	case SIM_OPEN_NONE:
		devices->path[0] = '\0';
		return profile && *profile ? state_of_profile(profile, &devices->state)
					   : CU_NO_DEVICE;
	case SIM_OPEN_VERSION:
	case SIM_OPEN_FOREIGN:
	case SIM_OPEN_FAILED:
	default:
		(void)fprintf(stderr, "libcuda (simulated): %s\n", error.text);
		return CU_SYSTEM_DRIVER_MISMATCH;
	}
}

/* As the simulated NVML does: a node without a driver behind it gives ENXIO; a device cgroup denies
 * with EPERM before the driver is asked. */
static bool gpu_is_seen(const struct sim_machine *machine, const struct sim_gpu *gpu)
{
	const char *stem = machine->dev_style == SIM_DEV_OPENABLE ? "sluice-sim" : "nvidia";
	char path[SIM_PATH_MAX + 32];
	const char *root;
	int fd;

	if (gpu->health == SIM_GPU_UNPLUGGED)
		return false;
	if (machine->visibility == SIM_VISIBLE_ALL)
		return true;

	(void)snprintf(path, sizeof(path), "%s/dev", machine->root);
	root = machine->root[0] && access(path, F_OK) == 0 ? machine->root : "";
	(void)snprintf(path, sizeof(path), "%s/dev/%s%u", root, stem, gpu->minor);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		(void)close(fd);

	return fd >= 0 || errno == ENXIO;
}

/* --- what there is ---------------------------------------------------------------------------- */

static void describe_gpu(const struct sim_machine *machine, uint32_t index, struct device *out)
{
	const struct sim_gpu *gpu = &machine->gpu[index];
	const struct sim_model *model = sim_model_of(machine, gpu);

	*out = (struct device){
	    .gpu = index,
	    .gi = SIM_WHOLE_GPU,
	    .ci = SIM_WHOLE_GPU,
	    .pci_domain = gpu->pci_domain,
	    .pci_bus = gpu->pci_bus,
	    .pci_device = gpu->pci_device,
	    .sm_count = model->sm_count,
	    .memory_bytes = model->memory_bytes,
	    .usable_bytes = model->memory_bytes - model->reserved_bytes,
	    .context_bytes = (uint64_t)model->context_bytes_mib << 20,
	    .model = *model,
	};
	(void)snprintf(out->name, sizeof(out->name), "%s", model->name);
	(void)snprintf(out->uuid, sizeof(out->uuid), "%s", gpu->uuid);
	(void)snprintf(out->gpu_uuid, sizeof(out->gpu_uuid), "%s", gpu->uuid);
}

static void describe_instance(const struct sim_machine *machine, uint32_t index, uint32_t g,
			      uint32_t c, struct device *out)
{
	const struct sim_gi *gi = &machine->gpu[index].gi[g];
	const struct sim_ci *ci = &gi->ci[c];

	describe_gpu(machine, index, out);
	const struct sim_mig_profile *row = &out->model.mig_profile[gi->profile];

	out->gi = gi->id;
	out->ci = ci->id;
	out->sm_count = row->slices ? row->sm_count * ci->slices / row->slices : row->sm_count;
	out->memory_bytes = out->usable_bytes = row->memory_mib << 20;
	(void)snprintf(out->name, sizeof(out->name), "%s MIG %s%s", out->model.name,
		       ci->slices < row->slices ? "part of " : "", row->name);
	(void)snprintf(out->uuid, sizeof(out->uuid), "%s", ci->uuid);
}

enum { CANDIDATE_MAX = SIM_GPU_MAX * (1 + SIM_GI_MAX * SIM_CI_MAX) };

struct candidates {
	uint32_t count, whole; /* the first `whole` are GPUs */
	struct {
		uint32_t gpu, gi, ci; /* slots */
		const char *uuid;
	} of[CANDIDATE_MAX];
};

static void list_candidates(const struct sim_machine *machine, struct candidates *out)
{
	bool is_seen[SIM_GPU_MAX] = {false};

	out->count = 0;
	for (uint32_t i = 0; i < machine->gpu_count && i < SIM_GPU_MAX; i++) {
		is_seen[i] = gpu_is_seen(machine, &machine->gpu[i]);
		if (!is_seen[i])
			continue;

		out->of[out->count].gpu = i;
		out->of[out->count].gi = out->of[out->count].ci = SIM_WHOLE_GPU;
		out->of[out->count++].uuid = machine->gpu[i].uuid;
	}

	out->whole = out->count;
	for (uint32_t n = 0; n < machine->gpu_count * SIM_GI_MAX * SIM_CI_MAX; n++) {
		uint32_t i = n / (SIM_GI_MAX * SIM_CI_MAX), g = n / SIM_CI_MAX % SIM_GI_MAX,
			 c = n % SIM_CI_MAX;
		const struct sim_gi *gi = &machine->gpu[i].gi[g];

		if (!is_seen[i] || !machine->gpu[i].mig_current || !gi->used || !gi->ci[c].used)
			continue;

		out->of[out->count].gpu = i;
		out->of[out->count].gi = g;
		out->of[out->count].ci = c;
		out->of[out->count++].uuid = gi->ci[c].uuid;
	}
}

/* Whether a list's word names it. */
static bool is_named(const char *word, size_t length, const char *uuid)
{
	return length > 4 && strncasecmp(uuid, word, length) == 0;
}

uint32_t devices_choose(const char *list, const char *const *uuids, uint32_t count,
			uint32_t out[SIM_GPU_MAX])
{
	uint32_t chosen = 0;

	while (*list && chosen < SIM_GPU_MAX) {
		size_t length;
		uint32_t matches = 0, match = 0, number = 0;

		list += strspn(list, " \t");
		length = strcspn(list, ",");
		while (length > 0 && (list[length - 1] == ' ' || list[length - 1] == '\t'))
			length--;

		if (length > 0 && strspn(list, "0123456789") >= length) {
			for (size_t i = 0; i < length && number < CHOICE_NUMBER_MAX; i++)
				number = number * 10 + (uint32_t)(list[i] - '0');

			matches = number < count && strncmp(uuids[number], "GPU-", 4) == 0;
			match = number;
		} else {
			for (uint32_t i = 0; i < count; i++) {
				if (is_named(list, length, uuids[i])) {
					matches++;
					match = i;
				}
			}
		}

		if (matches != 1)
			return chosen;

		for (uint32_t i = 0; i < chosen; i++) {
			if (out[i] == match)
				return 0;
		}

		out[chosen++] = match;
		list += strcspn(list, ",");
		list += *list == ',';
	}

	return chosen;
}

/* Of MIG devices CUDA shows one: the first that is named, or, where no GPU is whole, the first. */
static void take_candidates(const struct sim_machine *machine, const struct candidates *candidates,
			    struct devices *devices)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	const char *uuids[CANDIDATE_MAX];
	uint32_t chosen[SIM_GPU_MAX], count = 0;
	bool has_instance = false;

	for (uint32_t i = 0; i < candidates->count; i++)
		uuids[i] = candidates->of[i].uuid;

	if (list) {
		count = devices_choose(list, uuids, candidates->count, chosen);
	} else {
		for (uint32_t i = 0; i < candidates->whole; i++) {
			if (!machine->gpu[candidates->of[i].gpu].mig_current)
				chosen[count++] = i;
		}

		if (count == 0 && candidates->count > candidates->whole)
			chosen[count++] = candidates->whole;
	}

	for (uint32_t i = 0; i < count; i++) {
		uint32_t which = chosen[i], gpu = candidates->of[which].gpu;

		if (which >= candidates->whole && !has_instance) {
			describe_instance(machine, gpu, candidates->of[which].gi,
					  candidates->of[which].ci,
					  &devices->device[devices->count++]);
			has_instance = true;
		} else if (which < candidates->whole && !machine->gpu[gpu].mig_current) {
			describe_gpu(machine, gpu, &devices->device[devices->count++]);
		} else if (which < candidates->whole && !has_instance) {
			/* a GPU in MIG mode stands for its first instance */
			for (uint32_t n = candidates->whole; n < candidates->count; n++) {
				if (candidates->of[n].gpu != gpu)
					continue;

				describe_instance(machine, gpu, candidates->of[n].gi,
						  candidates->of[n].ci,
						  &devices->device[devices->count++]);
				has_instance = true;
				break;
			}
		}
	}
}

/* NVLinks between two GPUs: those that join them, or all that both have into switches. */
static uint32_t count_links(const struct sim_machine *machine, uint32_t from, uint32_t to)
{
	const struct sim_gpu *gpu = &machine->gpu[from];
	uint32_t links = 0;

	for (uint32_t l = 0; l < sim_model_of(machine, gpu)->link_count && l < SIM_LINK_MAX; l++) {
		const struct sim_link *link = &gpu->link[l];

		links += !link->down && (link->peer_kind == SIM_LINK_SWITCH ||
					 (link->peer_kind == SIM_LINK_GPU && link->peer_gpu == to));
	}

	return links;
}

int devices_open(struct devices *out)
{
	struct devices *devices = out;
	struct candidates candidates;
	int rc = state_open(devices);

	if (rc != CU_OK)
		return rc;

	const struct sim_machine *machine = sim_state_read(devices->state);

	if (machine->driver_state == SIM_DRIVER_MISMATCH)
		rc = CU_SYSTEM_DRIVER_MISMATCH;
	else if (machine->driver_state != SIM_DRIVER_OK)
		rc = CU_NO_DEVICE;

	devices->cuda_version = machine->cuda_version;
	list_candidates(machine, &candidates);
	take_candidates(machine, &candidates, devices);

	for (uint32_t i = 0; i < devices->count; i++) {
		for (uint32_t j = 0; j < devices->count; j++) {
			uint32_t from = devices->device[i].gpu, to = devices->device[j].gpu;

			devices->links[i][j] = from == to ? 0 : count_links(machine, from, to);
			devices->level[i][j] = machine->level[from][to];
		}
	}

	sim_state_read_done(devices->state);
	if (rc == CU_OK && devices->count == 0)
		rc = CU_NO_DEVICE;
	if (rc != CU_OK)
		devices_close(devices);

	return rc;
}

void devices_close(struct devices *devices)
{
	if (devices->state)
		(void)sim_state_close(devices->state);
	*devices = (struct devices){0};
}

/* --- this process on a device ----------------------------------------------------------------- */

static struct sim_process *find_entry(struct sim_gpu *gpu, const struct device *device,
				      const struct sim_process *self)
{
	struct sim_process *free_place = NULL;

	for (uint32_t i = SIM_PROCESS_MAX; i-- > 0;) {
		struct sim_process *process = &gpu->process[i];

		if (process->pid == 0)
			free_place = process;
		else if (process->pid == self->pid && process->start_time == self->start_time &&
			 process->pid_ns == self->pid_ns && process->gi == device->gi &&
			 process->ci == device->ci)
			return process;
	}

	return free_place;
}

uint64_t device_used(struct devices *devices, uint32_t index)
{
	const struct device *device = &devices->device[index];
	const struct sim_machine *machine = sim_state_read(devices->state);
	uint64_t used = sim_physics_memory_used(machine, device->gpu, device->gi);

	sim_state_read_done(devices->state);
	return used;
}

int device_hold(struct devices *devices, uint32_t index, uint64_t bytes, uint32_t util_permille)
{
	const struct device *device = &devices->device[index];
	struct sim_process self = {0};
	struct sim_machine *machine;
	uint64_t others;

	if (bytes > device->usable_bytes)
		return CU_OUT_OF_MEMORY;
	if (sim_state_identify((uint32_t)getpid(), &self) != 0)
		return CU_OK; /* no /proc: the entry could not be removed when we die */

	machine = sim_state_write(devices->state);
	if (!machine)
		return CU_OK; /* read-only for us: NVML does not show it */

	struct sim_process *entry = find_entry(&machine->gpu[device->gpu], device, &self);

	if (!entry) {
		sim_state_abort(devices->state);
		return CU_OUT_OF_MEMORY;
	}

	others = sim_physics_memory_used(machine, device->gpu, device->gi);
	if (entry->pid != 0) {
		uint64_t mine = entry->memory_bytes + device->context_bytes;

		others -= mine < others ? mine : others;
	}

	if (others + device->context_bytes > device->usable_bytes ||
	    bytes > device->usable_bytes - others - device->context_bytes) {
		sim_state_abort(devices->state);
		return CU_OUT_OF_MEMORY;
	}

	if (entry->pid == 0) {
		self.gi = device->gi;
		self.ci = device->ci;
		self.type = SIM_PROCESS_COMPUTE;
		self.membw_permille = -1;
		self.begin_tick = machine->tick;
		*entry = self;
	}

	entry->memory_bytes = bytes;
	entry->util_permille = util_permille;
	entry->tensor_permille = util_permille ? 1000 : 0;
	sim_state_commit(devices->state);

	return CU_OK;
}

void device_leave(struct devices *devices, uint32_t index)
{
	const struct device *device = &devices->device[index];
	struct sim_process self = {0};
	struct sim_machine *machine;

	if (sim_state_identify((uint32_t)getpid(), &self) != 0)
		return;

	machine = sim_state_write(devices->state);
	if (!machine)
		return;

	struct sim_process *entry = find_entry(&machine->gpu[device->gpu], device, &self);

	if (entry)
		*entry = (struct sim_process){0};
	sim_state_commit(devices->state);
}

int device_health(struct devices *devices, uint32_t index)
{
	const struct sim_machine *machine = sim_state_read(devices->state);
	uint32_t gpu = devices->device[index].gpu;
	uint32_t health = machine->gpu[gpu].health, driver = machine->driver_state;

	sim_state_read_done(devices->state);
	return health == SIM_GPU_OK && driver == SIM_DRIVER_OK ? CU_OK : CU_UNKNOWN;
}
