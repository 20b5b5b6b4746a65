/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"

enum sample_limits {
	PROCESS_READ_MAX = 4096, /* entries of one process list that are read */
	UTILIZATION_MAX = 1024,	 /* per-process samples of one call */
	PROCESS_ENTRY_MAX = 32,	 /* bytes of the longest form of an entry */
};

#define BLANK_U32 UINT32_MAX

/* One GPU being sampled. */
struct sampling {
	struct nvml_caller *caller;
	nvml_device device;
	struct snapshot_gpu *out;
};

void sample_identify(const struct inventory *inventory, uint32_t place, struct snapshot_gpu *out)
{
	const struct gpu *gpu = &inventory->gpus[place];
	(void)snprintf(out->uuid, sizeof(out->uuid), "%s", gpu->uuid);
	(void)snprintf(out->name, sizeof(out->name), "%s", gpu->name);
	out->bus[0] = '\0';
	if (gpu->has_pci) {
		char bus[PCI_TEXT_MAX];
		(void)snprintf(out->bus, sizeof(out->bus), "%s",
			       pci_address_to_string(&gpu->pci, bus));
	}
	out->index = gpu->index;
	out->minor = gpu->minor;
	out->state = gpu->state;
	(void)snprintf(out->reason, sizeof(out->reason), "%s", gpu->reason);
	out->mig_count = 0;
	for (uint32_t i = 0; i < inventory->mig_count && out->mig_count < SNAPSHOT_MIG_MAX; i++) {
		const struct mig_device *mig = &inventory->migs[i];
		if (mig->parent != place)
			continue;
		struct snapshot_mig *to = &out->mig[out->mig_count++];
		*to = (struct snapshot_mig){.gi = mig->gi,
					    .ci = mig->ci,
					    .memory_total = mig->memory_bytes,
					    .memory_used = SNAPSHOT_U64_ABSENT,
					    .memory_free = SNAPSHOT_U64_ABSENT};
		for (uint32_t k = 0; k < SNAPSHOT_ACTIVITY_COUNT; k++)
			to->activity[k] = SNAPSHOT_U32_ABSENT;
		(void)snprintf(to->uuid, sizeof(to->uuid), "%s", mig->uuid);
		(void)snprintf(to->profile, sizeof(to->profile), "%s", mig->profile);
	}
}

/* True when the value may be used. */
static bool check(struct sampling *sampling, enum nvml_function function, int32_t result)
{
	struct snapshot_gpu *out = sampling->out;
	if (result == NVML_OK)
		return true;
	if (result == NVML_GPU_IS_LOST && out->state == GPU_STATE_OK) {
		out->state = GPU_STATE_LOST;
		(void)snprintf(out->reason, sizeof(out->reason),
			       "the GPU has fallen off the bus (%s answers GPU_IS_LOST)",
			       nvml_function_to_string(function));
	} else if (result == NVML_RESET_REQUIRED && out->state == GPU_STATE_OK) {
		out->state = GPU_STATE_RESET_REQUIRED;
		(void)snprintf(out->reason, sizeof(out->reason),
			       "the GPU needs a reset (%s answers RESET_REQUIRED)",
			       nvml_function_to_string(function));
	}
	if (!nvml_return_is_absent(result))
		out->errors++;
	return false;
}

#define GET(sampling, member, ...)                                                                 \
	check((sampling), NVML_FN_##member,                                                        \
	      NVML_CALL((sampling)->caller, member, (sampling)->device, __VA_ARGS__))

/* A 32-bit reading: absent when the call fails or the driver leaves it blank. */
static void put_u32(struct sampling *sampling, uint32_t value, bool ok, uint32_t number)
{
	if (ok && number != BLANK_U32)
		snapshot_put(sampling->out, value, number);
	else
		snapshot_drop(sampling->out, value);
}

static void put_u64(struct sampling *sampling, uint32_t value, bool ok, uint64_t number)
{
	if (ok && number <= INT64_MAX)
		snapshot_put(sampling->out, value, (int64_t)number);
	else
		snapshot_drop(sampling->out, value);
}

static void read_memory(struct sampling *s)
{
	struct nvml_memory_v2 v2 = {.version = NVML_STRUCT_WORD(struct nvml_memory_v2, 2)};
	bool ok = GET(s, memory_v2, &v2);
	if (ok) {
		put_u64(s, SNAPSHOT_MEMORY_RESERVED, true, v2.reserved);
	} else {
		/* The older call counts what the driver reserves as used. */
		struct nvml_memory v1 = {.total = 0};
		ok = GET(s, memory, &v1);
		v2.total = v1.total;
		v2.free = v1.free;
		v2.used = v1.used;
		snapshot_drop(s->out, SNAPSHOT_MEMORY_RESERVED);
	}
	put_u64(s, SNAPSHOT_MEMORY_TOTAL, ok, v2.total);
	put_u64(s, SNAPSHOT_MEMORY_USED, ok, v2.used);
	put_u64(s, SNAPSHOT_MEMORY_FREE, ok, v2.free);
	struct nvml_bar1 bar1 = {.total = 0};
	ok = GET(s, bar1, &bar1);
	put_u64(s, SNAPSHOT_BAR1_TOTAL, ok, bar1.total);
	put_u64(s, SNAPSHOT_BAR1_USED, ok, bar1.used);
}

static void read_temperature(struct sampling *s)
{
	uint32_t value = 0;
	bool ok = s->caller->nvml->fn.temperature && GET(s, temperature, 0, &value);
	if (!ok) {
		struct nvml_temperature v = {.version =
						 NVML_STRUCT_WORD(struct nvml_temperature, 1)};
		ok = GET(s, temperature_v, &v) && v.celsius >= 0;
		value = ok ? (uint32_t)v.celsius : 0;
	}
	put_u32(s, SNAPSHOT_TEMPERATURE, ok, value);
}

struct field_row {
	uint32_t field; /* enum nvml_field */
	uint32_t value; /* enum snapshot_value */
};

static bool field_number(const struct nvml_field_value *field, uint64_t *out)
{
	switch (field->value_type) {
	case NVML_VALUE_UINT:
		*out = field->value.ui;
		return field->value.ui != BLANK_U32;
	case NVML_VALUE_ULONG:
		*out = field->value.ul;
		return true;
	case NVML_VALUE_ULONGLONG:
		*out = field->value.ull;
		return true;
	case NVML_VALUE_SLONGLONG:
		*out = (uint64_t)field->value.sll;
		return field->value.sll >= 0;
	case NVML_VALUE_SINT:
		*out = (uint64_t)field->value.si;
		return field->value.si >= 0;
	case NVML_VALUE_USHORT:
		*out = field->value.us;
		return true;
	default:
		return false;
	}
}

/* Reads a table of fields with one call. */
static void read_fields(struct sampling *s, const struct field_row *rows, uint32_t count)
{
	enum { FIELDS_MAX = 16 };
	struct nvml_field_value fields[FIELDS_MAX] = {{.id = 0}};
	for (uint32_t i = 0; i < count; i++)
		fields[i].id = rows[i].field;
	bool ok = GET(s, fields, (int32_t)count, fields);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = 0;
		bool have = ok && fields[i].result == NVML_OK && field_number(&fields[i], &number);
		put_u64(s, rows[i].value, have, number);
	}
}

static void read_fast(struct sampling *s)
{
	struct nvml_utilization utilization = {.gpu = 0};
	bool ok = GET(s, utilization, &utilization);
	put_u32(s, SNAPSHOT_UTIL_GPU, ok, utilization.gpu);
	put_u32(s, SNAPSHOT_UTIL_MEMORY, ok, utilization.memory);
	uint32_t value = 0, period;
	ok = GET(s, encoder, &value, &period);
	put_u32(s, SNAPSHOT_UTIL_ENCODER, ok, value);
	ok = GET(s, decoder, &value, &period);
	put_u32(s, SNAPSHOT_UTIL_DECODER, ok, value);
	read_memory(s);
	read_temperature(s);
	ok = GET(s, power, &value);
	put_u32(s, SNAPSHOT_POWER, ok, value);
	uint64_t wide = 0;
	ok = GET(s, energy, &wide);
	put_u64(s, SNAPSHOT_ENERGY, ok, wide);
	static const uint32_t clocks[] = {SNAPSHOT_CLOCK_GRAPHICS, SNAPSHOT_CLOCK_SM,
					  SNAPSHOT_CLOCK_MEMORY, SNAPSHOT_CLOCK_VIDEO};
	for (uint32_t i = 0; i < array_length(clocks); i++) { /* NVML's clock types 0 to 3 */
		ok = GET(s, clock, i, &value);
		put_u32(s, clocks[i], ok, value);
	}
	ok = GET(s, pstate, &value);
	put_u32(s, SNAPSHOT_PSTATE, ok && value <= 15, value); /* 32 is "unknown" */
	ok = GET(s, fan, &value);
	put_u32(s, SNAPSHOT_FAN, ok, value);
	ok = GET(s, throttle, &wide);
	put_u64(s, SNAPSHOT_THROTTLE, ok, wide);
	static const struct field_row fields[] = {
	    {NVML_FIELD_MEMORY_TEMPERATURE, SNAPSHOT_TEMPERATURE_MEMORY},
	};
	read_fields(s, fields, array_length(fields));
}

static void read_links(struct sampling *s)
{
	uint32_t up = 0, down = 0, active;
	for (uint32_t i = 0; i < GPU_LINK_MAX; i++) {
		int32_t result = NVML_CALL(s->caller, link_state, s->device, i, &active);
		if (result == NVML_INVALID_ARGUMENT || result == NVML_FUNCTION_NOT_FOUND)
			break;
		if (!check(s, NVML_FN_link_state, result))
			continue;
		up += active != 0;
		down += active == 0;
	}
	put_u32(s, SNAPSHOT_NVLINK_ACTIVE, up + down > 0, up);
	put_u32(s, SNAPSHOT_NVLINK_INACTIVE, up + down > 0, down);
	static const uint32_t ids[] = {NVML_FIELD_NVLINK_CRC_FLIT, NVML_FIELD_NVLINK_CRC_DATA,
				       NVML_FIELD_NVLINK_REPLAY, NVML_FIELD_NVLINK_RECOVERY};
	struct nvml_field_value fields[array_length(ids)] = {{.id = 0}};
	for (uint32_t i = 0; i < array_length(ids); i++)
		fields[i].id = ids[i];
	bool ok = up + down > 0 && GET(s, fields, array_length(ids), fields);
	uint64_t total = 0, number;
	bool any = false;
	for (uint32_t i = 0; ok && i < array_length(ids); i++) {
		if (fields[i].result == NVML_OK && field_number(&fields[i], &number)) {
			total += number;
			any = true;
		}
	}
	put_u64(s, SNAPSHOT_NVLINK_ERRORS, any, total);
}

static void read_ecc(struct sampling *s)
{
	static const struct {
		uint32_t type, counter,
		    value; /* corrected 0, uncorrected 1; volatile 0, aggregate 1 */
	} counters[] = {
	    {0, 0, SNAPSHOT_ECC_CORRECTED_VOLATILE},
	    {1, 0, SNAPSHOT_ECC_UNCORRECTED_VOLATILE},
	    {0, 1, SNAPSHOT_ECC_CORRECTED_AGGREGATE},
	    {1, 1, SNAPSHOT_ECC_UNCORRECTED_AGGREGATE},
	};
	for (uint32_t i = 0; i < array_length(counters); i++) {
		uint64_t number = 0;
		bool ok = GET(s, ecc_total, counters[i].type, counters[i].counter, &number);
		put_u64(s, counters[i].value, ok, number);
	}
	uint32_t corrected = 0, uncorrected = 0, pending = 0, failure = 0;
	bool ok = GET(s, remapped, &corrected, &uncorrected, &pending, &failure);
	put_u32(s, SNAPSHOT_REMAP_CORRECTED, ok, corrected);
	put_u32(s, SNAPSHOT_REMAP_UNCORRECTED, ok, uncorrected);
	put_u32(s, SNAPSHOT_REMAP_PENDING, ok, pending != 0);
	put_u32(s, SNAPSHOT_REMAP_FAILURE, ok, failure != 0);
	static const struct field_row fields[] = {
	    {NVML_FIELD_RETIRED_SBE, SNAPSHOT_RETIRED_CORRECTED},
	    {NVML_FIELD_RETIRED_DBE, SNAPSHOT_RETIRED_UNCORRECTED},
	    {NVML_FIELD_RETIRED_PENDING, SNAPSHOT_RETIRED_PENDING},
	    {NVML_FIELD_RECOVERY_ACTION, SNAPSHOT_RECOVERY_ACTION},
	};
	read_fields(s, fields, array_length(fields));
}

static void read_medium(struct sampling *s)
{
	struct nvml_violation violation = {.violation_ns = 0};
	bool ok = GET(s, violation, 0, &violation);
	put_u64(s, SNAPSHOT_VIOLATION_POWER, ok, violation.violation_ns);
	ok = GET(s, violation, 1, &violation);
	put_u64(s, SNAPSHOT_VIOLATION_THERMAL, ok, violation.violation_ns);
	read_ecc(s);
	uint32_t value = 0;
	ok = GET(s, pcie_gen, &value);
	put_u32(s, SNAPSHOT_PCIE_GEN, ok, value);
	ok = GET(s, pcie_width, &value);
	put_u32(s, SNAPSHOT_PCIE_WIDTH, ok, value);
	ok = GET(s, pcie_replays, &value);
	put_u32(s, SNAPSHOT_PCIE_REPLAYS, ok, value);
	/* 20 ms each on a real driver; KiB per second */
	ok = GET(s, pcie_throughput, 0, &value);
	put_u64(s, SNAPSHOT_PCIE_TX, ok, (uint64_t)value << 10);
	ok = GET(s, pcie_throughput, 1, &value);
	put_u64(s, SNAPSHOT_PCIE_RX, ok, (uint64_t)value << 10);
	read_links(s);
}

static void read_slow(struct sampling *s)
{
	uint32_t value = 0, pending = 0;
	bool ok = GET(s, power_enforced, &value);
	put_u32(s, SNAPSHOT_POWER_LIMIT, ok, value);
	ok = GET(s, threshold, 1, &value);
	put_u32(s, SNAPSHOT_TEMPERATURE_SLOWDOWN, ok, value);
	ok = GET(s, threshold, 0, &value);
	put_u32(s, SNAPSHOT_TEMPERATURE_SHUTDOWN, ok, value);
	ok = GET(s, clock_max, 1, &value);
	put_u32(s, SNAPSHOT_CLOCK_SM_MAX, ok, value);
	ok = GET(s, clock_max, 2, &value);
	put_u32(s, SNAPSHOT_CLOCK_MEMORY_MAX, ok, value);
	ok = GET(s, pcie_gen_max, &value);
	put_u32(s, SNAPSHOT_PCIE_GEN_MAX, ok, value);
	ok = GET(s, pcie_width_max, &value);
	put_u32(s, SNAPSHOT_PCIE_WIDTH_MAX, ok, value);
	ok = GET(s, ecc_mode, &value, &pending);
	put_u32(s, SNAPSHOT_ECC_MODE, ok, value != 0);
	put_u32(s, SNAPSHOT_ECC_MODE_PENDING, ok, pending != 0);
	ok = GET(s, mig_mode, &value, &pending);
	put_u32(s, SNAPSHOT_MIG_MODE, ok, value != 0);
	put_u32(s, SNAPSHOT_MIG_MODE_PENDING, ok, pending != 0);
	ok = GET(s, persistence, &value);
	put_u32(s, SNAPSHOT_PERSISTENCE, ok, value != 0);
	ok = GET(s, compute_mode, &value);
	put_u32(s, SNAPSHOT_COMPUTE_MODE, ok, value);
}

/* ---- processes ---- */

static struct snapshot_process *process_entry(struct snapshot_gpu *out, uint32_t pid, uint32_t gi,
					      uint32_t ci)
{
	for (uint32_t i = 0; i < out->process_count; i++) {
		struct snapshot_process *process = &out->process[i];
		if (process->pid == pid && process->gi == gi && process->ci == ci)
			return process;
	}
	out->process_total++;
	if (out->process_count == SNAPSHOT_PROCESS_MAX)
		return NULL;
	struct snapshot_process *process = &out->process[out->process_count++];
	*process = (struct snapshot_process){.pid = pid,
					     .gi = gi,
					     .ci = ci,
					     .memory_bytes = SNAPSHOT_U64_ABSENT,
					     .util_sm = SNAPSHOT_U32_ABSENT,
					     .util_memory = SNAPSHOT_U32_ABSENT,
					     .util_encoder = SNAPSHOT_U32_ABSENT,
					     .util_decoder = SNAPSHOT_U32_ABSENT};
	return process;
}

/* pid at 0, memory at 8, gi at 16, ci at 20: as far as the entry reaches. */
static void take_process(struct snapshot_gpu *out, const unsigned char *entry, uint32_t bytes,
			 uint32_t type)
{
	uint32_t pid, gi = SNAPSHOT_WHOLE_GPU, ci = SNAPSHOT_WHOLE_GPU;
	uint64_t memory;
	memcpy(&pid, entry, sizeof(pid));
	memcpy(&memory, entry + 8, sizeof(memory));
	if (bytes > 16) {
		memcpy(&gi, entry + 16, sizeof(gi));
		memcpy(&ci, entry + 20, sizeof(ci));
	}
	struct snapshot_process *process = process_entry(out, pid, gi, ci);
	if (!process)
		return;
	process->type |= type;
	process->memory_bytes = memory; /* all ones is NVML's "not available", and ours */
}

static int32_t call_list(struct sampling *s, enum nvml_function function, uint32_t *count,
			 void *entries)
{
	switch (function) {
	case NVML_FN_compute_processes:
		return NVML_CALL(s->caller, compute_processes, s->device, count, entries);
	case NVML_FN_graphics_processes:
		return NVML_CALL(s->caller, graphics_processes, s->device, count, entries);
	default:
		return NVML_CALL(s->caller, mps_processes, s->device, count, entries);
	}
}

static void read_list(struct sampling *s, enum nvml_function function, uint32_t type,
		      unsigned char *entries)
{
	uint32_t count = PROCESS_READ_MAX;
	int32_t result = call_list(s, function, &count, entries);
	if (!check(s, function, result))
		return;
	uint32_t bytes = nvml_process_entry_bytes(s->caller->nvml->variant[function],
						  s->caller->nvml->driver_version);
	if (count > PROCESS_READ_MAX)
		count = PROCESS_READ_MAX;
	for (uint32_t i = 0; i < count; i++)
		take_process(s->out, entries + (size_t)i * bytes, bytes, type);
}

static void read_process_utilization(struct sampling *s, struct sample_memory *memory)
{
	_cleanup_free_ struct nvml_process_sample *samples =
	    calloc(UTILIZATION_MAX, sizeof(*samples));
	if (!samples)
		return;
	uint32_t count = UTILIZATION_MAX;
	int32_t result = NVML_CALL(s->caller, process_utilization, s->device, samples, &count,
				   memory->utilization_seen_us);
	if (result != NVML_OK || count > UTILIZATION_MAX)
		return; /* NOT_FOUND: nothing new since */
	for (uint32_t i = 0; i < count; i++) {
		const struct nvml_process_sample *sample = &samples[i];
		if (sample->timestamp_us > memory->utilization_seen_us)
			memory->utilization_seen_us = sample->timestamp_us;
		for (uint32_t p = 0; p < s->out->process_count; p++) {
			struct snapshot_process *process = &s->out->process[p];
			/* More than 100 are garbage that some drivers return. */
			if (process->pid != sample->pid || sample->sm > 100)
				continue;
			process->util_sm = sample->sm;
			process->util_memory = sample->memory;
			process->util_encoder = sample->encoder;
			process->util_decoder = sample->decoder;
		}
	}
}

static void read_processes(struct sampling *s, struct sample_memory *memory)
{
	s->out->process_count = 0;
	s->out->process_total = 0;
	_cleanup_free_ unsigned char *entries = calloc(PROCESS_READ_MAX, PROCESS_ENTRY_MAX);
	if (!entries)
		return;
	read_list(s, NVML_FN_compute_processes, SNAPSHOT_PROCESS_COMPUTE, entries);
	read_list(s, NVML_FN_graphics_processes, SNAPSHOT_PROCESS_GRAPHICS, entries);
	read_list(s, NVML_FN_mps_processes, SNAPSHOT_PROCESS_MPS, entries);
	if (s->out->process_count > 0)
		read_process_utilization(s, memory);
}

static void read_mig_memory(struct sampling *s)
{
	for (uint32_t i = 0; i < s->out->mig_count; i++)
		s->out->mig[i].memory_used = s->out->mig[i].memory_free = SNAPSHOT_U64_ABSENT;
	for (uint32_t index = 0; s->out->mig_count > 0 && index < GPU_MIG_MAX; index++) {
		nvml_device mig;
		uint32_t gi, ci;
		struct nvml_memory memory;
		if (NVML_CALL(s->caller, mig_by_index, s->device, index, &mig) != NVML_OK ||
		    NVML_CALL(s->caller, gi_id, mig, &gi) != NVML_OK ||
		    NVML_CALL(s->caller, ci_id, mig, &ci) != NVML_OK ||
		    NVML_CALL(s->caller, memory, mig, &memory) != NVML_OK)
			continue;
		for (uint32_t i = 0; i < s->out->mig_count; i++) {
			struct snapshot_mig *to = &s->out->mig[i];
			if (to->gi != gi || to->ci != ci)
				continue;
			to->memory_total = memory.total;
			to->memory_used = memory.used;
			to->memory_free = memory.free;
		}
	}
}

void sample_read(struct nvml_caller *caller, nvml_device device, struct sample_memory *memory,
		 const bool due[SNAPSHOT_CLASS_COUNT], uint64_t now_ns, struct snapshot_gpu *out)
{
	struct sampling sampling = {.caller = caller, .device = device, .out = out};
	nvml_caller_target(caller, out->index, out->bus);
	if (due[SNAPSHOT_FAST]) {
		read_fast(&sampling);
		read_processes(&sampling, memory);
		read_mig_memory(&sampling);
	}
	if (due[SNAPSHOT_MEDIUM] && out->state == GPU_STATE_OK)
		read_medium(&sampling);
	if (due[SNAPSHOT_SLOW] && out->state == GPU_STATE_OK)
		read_slow(&sampling);
	if (out->state != GPU_STATE_OK) {
		snapshot_drop_all(out);
		return;
	}
	for (uint32_t i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
		if (due[i])
			out->sampled_ns[i] = now_ns;
	}
}
