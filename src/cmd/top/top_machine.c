/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "cmd/jobs/job_text.h"
#include "cmd/table.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"

/* What protobuf-c takes and gives back, through our own allocation as all else. */
static void *machine_alloc(void *context, size_t size)
{
	return malloc(size);
}

static void machine_release(void *context, void *memory)
{
	free(memory);
}

static const ProtobufCAllocator machine_allocator = {.alloc = machine_alloc,
						     .free = machine_release};

/* A message's text; NULL: no memory. The empty one is protobuf-c's own, which is not freed. */
static bool machine_set(char **field, const char *text)
{
	*field = text[0] ? strdup(text) : (char *)protobuf_c_empty_string;
	return *field != NULL;
}

static int64_t machine_value(const struct snapshot_gpu *now, uint32_t value, int64_t absent)
{
	int64_t number;
	return now && snapshot_get(now, value, &number) ? number : absent;
}

static Sluice__V1__Gpu *machine_add_gpu(Sluice__V1__Machine *machine)
{
	Sluice__V1__Gpu *gpu = malloc(sizeof(*gpu));
	if (!gpu)
		return NULL;

	sluice__v1__gpu__init(gpu);
	gpu->utilization_percent = gpu->temperature_celsius = -1;
	gpu->power_milliwatt = gpu->power_limit_milliwatt = -1;
	machine->gpus[machine->n_gpus++] = gpu;

	return gpu;
}

static bool machine_gpu(Sluice__V1__Machine *machine, const struct gpu *from,
			const struct snapshot_gpu *now)
{
	Sluice__V1__Gpu *gpu = machine_add_gpu(machine);
	uint32_t state = now && now->state != GPU_STATE_OK ? now->state : from->state;
	const char *reason = now && now->state != GPU_STATE_OK ? now->reason : from->reason;
	char label[TOP_NAME_MAX];

	if (!gpu)
		return false;

	(void)snprintf(label, sizeof(label), "GPU %u", from->index);
	gpu->index = from->index;
	gpu->memory_used_bytes = (uint64_t)machine_value(now, SNAPSHOT_MEMORY_USED, 0);
	gpu->memory_total_bytes = (uint64_t)machine_value(now, SNAPSHOT_MEMORY_TOTAL, 0);
	gpu->utilization_percent = (int32_t)machine_value(now, SNAPSHOT_UTIL_GPU, -1);
	gpu->temperature_celsius = (int32_t)machine_value(now, SNAPSHOT_TEMPERATURE, -1);
	gpu->power_milliwatt = machine_value(now, SNAPSHOT_POWER, -1);
	gpu->power_limit_milliwatt = machine_value(now, SNAPSHOT_POWER_LIMIT, -1);

	return machine_set(&gpu->uuid, from->uuid) && machine_set(&gpu->label, label) &&
	       machine_set(&gpu->name, from->name) &&
	       machine_set(&gpu->state, gpu_state_to_string(state)) &&
	       machine_set(&gpu->state_reason, reason);
}

static bool machine_mig(Sluice__V1__Machine *machine, const struct gpu *parent,
			const struct mig_device *from, const struct snapshot_gpu *now)
{
	Sluice__V1__Gpu *gpu = machine_add_gpu(machine);
	char label[TOP_NAME_MAX];

	if (!gpu)
		return false;

	(void)snprintf(label, sizeof(label), "MIG %u:%u", parent->index, from->index);
	gpu->index = parent->index;
	gpu->is_mig = true;

	for (uint32_t i = 0; now && i < now->mig_count; i++) {
		const struct snapshot_mig *mig = &now->mig[i];
		if (mig->gi != from->gi || mig->ci != from->ci ||
		    mig->memory_total == SNAPSHOT_U64_ABSENT ||
		    mig->memory_used == SNAPSHOT_U64_ABSENT)
			continue;

		gpu->memory_total_bytes = mig->memory_total;
		gpu->memory_used_bytes = mig->memory_used;
	}

	return machine_set(&gpu->uuid, from->uuid) && machine_set(&gpu->label, label) &&
	       machine_set(&gpu->name, from->profile) && machine_set(&gpu->state, "ok");
}

/* The device on which a process is: its MIG device, or the GPU. */
static const char *machine_device(const struct snapshot_gpu *gpu,
				  const struct snapshot_process *process)
{
	for (uint32_t i = 0; process->gi != SNAPSHOT_WHOLE_GPU && i < gpu->mig_count; i++)
		if (gpu->mig[i].gi == process->gi &&
		    (process->ci == SNAPSHOT_WHOLE_GPU || gpu->mig[i].ci == process->ci))
			return gpu->mig[i].uuid;
	return gpu->uuid;
}

static bool machine_uses(Sluice__V1__Machine *machine, const struct snapshot_gpu *now,
			 top_process *process_of)
{
	for (uint32_t i = 0; i < now->process_count; i++) {
		const struct snapshot_process *process = &now->process[i];
		char name[TOP_NAME_MAX] = "";
		Sluice__V1__GpuUse *use = malloc(sizeof(*use));
		if (!use)
			return false;

		sluice__v1__gpu_use__init(use);
		machine->uses[machine->n_uses++] = use;
		use->pid = process->pid;

		if (process->memory_bytes != SNAPSHOT_U64_ABSENT)
			use->memory_bytes = process->memory_bytes;
		process_of(process->pid, name, &use->uid);

		if (!machine_set(&use->uuid, machine_device(now, process)) ||
		    !machine_set(&use->name, name))
			return false;
	}

	return true;
}

static bool machine_fill(Sluice__V1__Machine *machine, const struct inventory *inventory,
			 const struct snapshot *snapshot, top_process *process)
{
	size_t uses = 0;
	for (uint32_t i = 0; snapshot && i < snapshot->gpu_count; i++)
		uses += snapshot->gpu[i].process_count;

	/* One more: nothing at all is not out of memory. */
	machine->gpus =
	    calloc((size_t)inventory->gpu_count + inventory->mig_count + 1, sizeof(*machine->gpus));
	machine->uses = calloc(uses + 1, sizeof(*machine->uses));
	machine->simulated = inventory->simulated;
	machine->unix_ns = snapshot ? snapshot->taken_unix_ns : 0;
	if (!machine->gpus || !machine->uses ||
	    !machine_set(&machine->driver, inventory->driver_version) ||
	    (snapshot && !snapshot->driver_ok &&
	     !machine_set(&machine->driver_error, snapshot->driver_text)))
		return false;

	for (uint32_t i = 0; i < inventory->gpu_count; i++) {
		const struct gpu *gpu = &inventory->gpus[i];
		const struct snapshot_gpu *now =
		    snapshot ? snapshot_find(snapshot, gpu->uuid) : NULL;
		if (!machine_gpu(machine, gpu, now))
			return false;

		for (uint32_t m = 0; m < inventory->mig_count; m++)
			if (inventory->migs[m].parent == i &&
			    !machine_mig(machine, gpu, &inventory->migs[m], now))
				return false;
	}

	for (uint32_t i = 0; snapshot && i < snapshot->gpu_count; i++)
		if (!machine_uses(machine, &snapshot->gpu[i], process))
			return false;

	return true;
}

Sluice__V1__Machine *top_machine_new(const struct inventory *inventory,
				     const struct snapshot *snapshot, top_process *process)
{
	Sluice__V1__Machine *machine = malloc(sizeof(*machine));
	if (!machine)
		return NULL;
	sluice__v1__machine__init(machine);
	return machine_fill(machine, inventory, snapshot, process) ? machine
								   : top_machine_free(machine);
}

Sluice__V1__Machine *top_machine_copy(const Sluice__V1__Machine *machine)
{
	size_t size = sluice__v1__machine__get_packed_size(machine);
	_cleanup_free_ uint8_t *bytes = malloc(size + 1);
	if (!bytes)
		return NULL;
	size = sluice__v1__machine__pack(machine, bytes);
	return sluice__v1__machine__unpack((ProtobufCAllocator *)&machine_allocator, size, bytes);
}

Sluice__V1__Machine *top_machine_free(Sluice__V1__Machine *machine)
{
	if (machine)
		sluice__v1__machine__free_unpacked(machine,
						   (ProtobufCAllocator *)&machine_allocator);
	return NULL;
}

/* A number that is not known when it is negative. */
static json_t *machine_json_known(int64_t value)
{
	return value < 0 ? json_null() : json_integer(value);
}

static json_t *machine_json_text(const char *text)
{
	return text[0] ? table_json_text(text) : json_null();
}

static json_t *machine_json_use(const Sluice__V1__GpuUse *use)
{
	return json_pack("{s:I, s:o, s:I, s:o, s:I, s:o, s:o, s:b}", "pid", (json_int_t)use->pid,
			 "name", table_json_text(use->name), "uid", (json_int_t)use->uid, "job",
			 use->job ? json_integer((json_int_t)use->job) : json_null(),
			 "memory_bytes", (json_int_t)use->memory_bytes, "holder",
			 machine_json_text(use->holder), "user", machine_json_text(use->user),
			 "outside", (int)use->is_outside);
}

static json_t *machine_json_throttle(uint64_t bits)
{
	json_t *words = json_array();
	for (uint32_t i = 0; snapshot_throttle_to_string(i); i++)
		if (bits >> i & 1)
			(void)json_array_append_new(words,
						    json_string(snapshot_throttle_to_string(i)));
	return words;
}

static json_t *machine_json_gpu(const Sluice__V1__Machine *machine, const Sluice__V1__Gpu *gpu)
{
	json_t *uses = json_array();
	for (size_t i = 0; i < machine->n_uses; i++)
		if (strcmp(machine->uses[i]->uuid, gpu->uuid) == 0 &&
		    json_array_append_new(uses, machine_json_use(machine->uses[i])) < 0) {
			json_decref(uses);
			return NULL;
		}

	return json_pack(
	    "{s:o, s:o, s:I, s:b, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:I, "
	    "s:I, s:o, s:o, s:o, "
	    "s:o, s:b, s:b, s:o, s:o}",
	    "uuid", table_json_text(gpu->uuid), "label", table_json_text(gpu->label), "index",
	    (json_int_t)gpu->index, "mig", (int)gpu->is_mig, "name", table_json_text(gpu->name),
	    "state", table_json_text(gpu->state), "state_reason",
	    table_json_text(gpu->state_reason), "memory_used_bytes",
	    (json_int_t)gpu->memory_used_bytes, "memory_total_bytes",
	    (json_int_t)gpu->memory_total_bytes, "utilization_percent",
	    machine_json_known(gpu->utilization_percent), "temperature_celsius",
	    machine_json_known(gpu->temperature_celsius), "power_milliwatt",
	    machine_json_known(gpu->power_milliwatt), "power_limit_milliwatt",
	    machine_json_known(gpu->power_limit_milliwatt), "slot_count",
	    (json_int_t)gpu->slot_count, "slots_used", (json_int_t)gpu->slots_used, "health",
	    machine_json_text(gpu->health), "health_reason", machine_json_text(gpu->health_reason),
	    "health_advice", machine_json_text(gpu->health_advice), "throttle",
	    machine_json_throttle(gpu->throttle_reasons), "drained", (int)gpu->drained, "reserved",
	    (int)gpu->reserved, "claim", machine_json_text(gpu->claim), "processes", uses);
}

json_t *top_machine_json(const Sluice__V1__Machine *machine, const char *notice)
{
	json_t *gpus = json_array(), *jobs = json_array();
	bool whole = gpus && jobs;
	for (size_t i = 0; whole && i < machine->n_gpus; i++)
		whole =
		    json_array_append_new(gpus, machine_json_gpu(machine, machine->gpus[i])) == 0;

	for (size_t i = 0; whole && i < machine->n_jobs; i++)
		whole = json_array_append_new(jobs, job_text_json(machine->jobs[i])) == 0;

	if (!whole) {
		json_decref(gpus);
		json_decref(jobs);
		return NULL;
	}

	return json_pack(
	    "{s:b, s:o, s:f, s:o, s:o, s:f, s:b, s:o, s:o, s:I, s:I}", "simulated",
	    (int)machine->simulated, "service_problem",
	    notice[0] ? table_json_text(notice) : json_null(), "time_unix",
	    (double)machine->unix_ns / 1e9, "driver_version", table_json_text(machine->driver),
	    "driver_error", machine_json_text(machine->driver_error), "age_seconds",
	    (double)machine->age_ns / 1e9, "stale", (int)machine->stale, "gpus", gpus, "jobs", jobs,
	    "pending", (json_int_t)machine->pending, "running", (json_int_t)machine->running);
}
