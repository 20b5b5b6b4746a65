/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "probe/sample_private.h"

#define BLANK_U32 UINT32_MAX
/* Further than this the wall clock was set, and did not just drift. */
#define WALL_JUMP_NS INT64_C(1000000000)
/* For so long a driver keeps samples. */
#define SETTLE_NS (600 * SAMPLE_SECOND_NS)
/* 2100 */
#define NEVER_US      UINT64_C(4102444800000000)
#define US_PER_SECOND 1000000

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

/* ---- what failed ---- */

static void count_error(struct snapshot *snapshot, const char *call, int32_t code)
{
	for (uint32_t i = 0; i < snapshot->error_count; i++) {
		struct snapshot_error *error = &snapshot->error[i];
		if (error->code == code && strcmp(error->call, call) == 0) {
			error->count++;
			return;
		}
	}

	if (snapshot->error_count == SNAPSHOT_ERROR_MAX) {
		snapshot->errors_lost++;
		return;
	}

	struct snapshot_error *error = &snapshot->error[snapshot->error_count++];
	*error = (struct snapshot_error){.code = code, .count = 1};
	(void)snprintf(error->call, sizeof(error->call), "%s", call);
}

bool sample_check(struct sampling *sampling, enum nvml_function function, int32_t result)
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

	if (!nvml_return_is_absent(result)) {
		out->errors++;
		count_error(sampling->sampler->snapshot, nvml_function_to_string(function), result);
	}

	return false;
}

/* ---- values ---- */

/* The greatest number that the value can have. */
static uint64_t greatest(uint32_t value)
{
	switch (value) {
	case SNAPSHOT_UTIL_GPU:
	case SNAPSHOT_UTIL_MEMORY:
	case SNAPSHOT_UTIL_ENCODER:
	case SNAPSHOT_UTIL_DECODER:
		return 100;
	case SNAPSHOT_TEMPERATURE_MEMORY:
	case SNAPSHOT_TEMPERATURE_SLOWDOWN:
	case SNAPSHOT_TEMPERATURE_SHUTDOWN:
	case SNAPSHOT_TEMPERATURE_MEMORY_MAX:
	case SNAPSHOT_TEMPERATURE_GPU_MAX:
	case SNAPSHOT_FAN: /* percent of a nominal speed: may be above 100 */
		return 300;
	case SNAPSHOT_POWER:
	case SNAPSHOT_POWER_LIMIT:
	case SNAPSHOT_POWER_LIMIT_SET:
	case SNAPSHOT_POWER_LIMIT_DEFAULT:
	case SNAPSHOT_POWER_LIMIT_MIN:
	case SNAPSHOT_POWER_LIMIT_MAX:
		return 100000000; /* 100 kW */
	case SNAPSHOT_CLOCK_SM:
	case SNAPSHOT_CLOCK_MEMORY:
	case SNAPSHOT_CLOCK_GRAPHICS:
	case SNAPSHOT_CLOCK_VIDEO:
		return 100000; /* 100 GHz */
	case SNAPSHOT_PSTATE:  /* 32 is "unknown" */
		return 15;
	case SNAPSHOT_PCIE_GEN:
	case SNAPSHOT_PCIE_WIDTH:
		return 64;
	default:
		return INT64_MAX;
	}
}

void sample_put(struct sampling *s, uint32_t value, bool ok, uint64_t number)
{
	if (ok && number <= greatest(value))
		snapshot_put(s->out, value, (int64_t)number);
	else
		snapshot_drop(s->out, value);
}

void sample_put_u32(struct sampling *s, uint32_t value, bool ok, uint32_t number)
{
	sample_put(s, value, ok && number != BLANK_U32, number);
}

void sample_count(struct sampling *s, uint32_t value, bool ok, uint64_t number)
{
	int64_t last;
	bool fell = snapshot_get(s->out, value, &last) && number < (uint64_t)last;
	sample_put(s, value, ok && !fell, number);
}

/* ---- fields ---- */

bool sample_number(uint32_t type, const union nvml_value *value, uint64_t *out)
{
	switch (type) {
	case NVML_VALUE_UINT:
		*out = value->ui;
		return value->ui != BLANK_U32;
	case NVML_VALUE_ULONG:
		*out = value->ul;
		return value->ul <= INT64_MAX;
	case NVML_VALUE_ULONGLONG:
		*out = value->ull;
		return value->ull <= INT64_MAX;
	case NVML_VALUE_SLONGLONG:
		*out = (uint64_t)value->sll;
		return value->sll >= 0;
	case NVML_VALUE_SINT:
		*out = (uint64_t)value->si;
		return value->si >= 0;
	case NVML_VALUE_USHORT:
		*out = value->us;
		return true;
	case NVML_VALUE_DOUBLE:
		if (!(value->d >= 0 && value->d < 9e18))
			return false;

		*out = (uint64_t)value->d;
		return true;
	default:
		return false;
	}
}

void sample_fields_add(struct sample_fields *fields, uint32_t id, uint32_t scope)
{
	if (fields->count < FIELD_MAX)
		fields->field[fields->count++] =
		    (struct nvml_field_value){.id = id, .scope = scope};
}

void sample_fields_read(struct sampling *s, struct sample_fields *fields)
{
	fields->ok = fields->count > 0 && GET(s, fields, (int32_t)fields->count, fields->field);
	for (uint32_t i = 0; fields->ok && i < fields->count; i++) {
		/* an id that is newer than the driver */
		if (fields->field[i].result != NVML_INVALID_ARGUMENT)
			(void)sample_check(s, NVML_FN_fields, fields->field[i].result);
	}
}

bool sample_fields_get(const struct sample_fields *fields, uint32_t id, uint64_t *out)
{
	for (uint32_t i = 0; fields->ok && i < fields->count; i++) {
		const struct nvml_field_value *field = &fields->field[i];
		if (field->id == id)
			return field->result == NVML_OK &&
			       sample_number(field->value_type, &field->value, out);
	}
	return false;
}

struct field_row {
	uint32_t field; /* enum nvml_field */
	uint32_t value; /* enum snapshot_value */
};

/* ---- every second ---- */

static void read_memory(struct sampling *s)
{
	struct nvml_memory_v2 v2 = {.version = NVML_STRUCT_WORD(struct nvml_memory_v2, 2)};
	bool ok = GET(s, memory_v2, &v2);

	sample_put(s, SNAPSHOT_MEMORY_RESERVED, ok, v2.reserved);
	if (!ok) {
		/* The older call counts what the driver reserves as used. */
		struct nvml_memory v1 = {.total = 0};
		ok = GET(s, memory, &v1);
		v2.total = v1.total;
		v2.free = v1.free;
		v2.used = v1.used;
	}

	sample_put(s, SNAPSHOT_MEMORY_TOTAL, ok, v2.total);
	sample_put(s, SNAPSHOT_MEMORY_USED, ok && v2.used <= v2.total, v2.used);
	sample_put(s, SNAPSHOT_MEMORY_FREE, ok && v2.free <= v2.total, v2.free);

	struct nvml_bar1 bar1 = {.total = 0};
	ok = GET(s, bar1, &bar1);
	sample_put(s, SNAPSHOT_BAR1_TOTAL, ok, bar1.total);
	sample_put(s, SNAPSHOT_BAR1_USED, ok && bar1.used <= bar1.total, bar1.used);
}

/* Degrees may be below zero. */
static void put_celsius(struct sampling *s, uint32_t value, bool ok, int32_t celsius)
{
	if (ok && celsius > -300 && celsius < 300)
		snapshot_put(s->out, value, celsius);
	else
		snapshot_drop(s->out, value);
}

static void read_temperature(struct sampling *s)
{
	struct nvml_temperature newer = {.version = NVML_STRUCT_WORD(struct nvml_temperature, 1)};
	bool ok = GET(s, temperature_v, &newer);
	if (!ok) {
		uint32_t value = 0;
		ok = GET(s, temperature, 0, &value);
		newer.celsius = value <= INT32_MAX ? (int32_t)value : INT32_MAX;
	}

	put_celsius(s, SNAPSHOT_TEMPERATURE, ok, newer.celsius);
	struct nvml_margin margin = {.version = NVML_STRUCT_WORD(struct nvml_margin, 1)};
	ok = GET(s, margin, &margin);
	put_celsius(s, SNAPSHOT_MARGIN, ok, margin.celsius);
}

static void read_engines(struct sampling *s)
{
	struct nvml_utilization utilization = {.gpu = 0};
	bool ok = GET(s, utilization, &utilization);

	sample_put_u32(s, SNAPSHOT_UTIL_GPU, ok, utilization.gpu);
	sample_put_u32(s, SNAPSHOT_UTIL_MEMORY, ok, utilization.memory);

	uint32_t value = 0, period;
	ok = GET(s, encoder, &value, &period);
	sample_put_u32(s, SNAPSHOT_UTIL_ENCODER, ok, value);
	ok = GET(s, decoder, &value, &period);
	sample_put_u32(s, SNAPSHOT_UTIL_DECODER, ok, value);

	static const uint32_t clocks[] = {SNAPSHOT_CLOCK_GRAPHICS, SNAPSHOT_CLOCK_SM,
					  SNAPSHOT_CLOCK_MEMORY, SNAPSHOT_CLOCK_VIDEO};
	for (uint32_t i = 0; i < array_length(clocks); i++) { /* NVML's clock types 0 to 3 */
		ok = GET(s, clock, i, &value);
		sample_put_u32(s, clocks[i], ok, value);
	}

	ok = GET(s, pstate, &value);
	sample_put_u32(s, SNAPSHOT_PSTATE, ok, value);

	uint64_t reasons = 0;
	ok = GET(s, throttle, &reasons);
	sample_put(s, SNAPSHOT_THROTTLE, ok, reasons);
}

static void read_fast(struct sampling *s)
{
	read_engines(s);
	read_memory(s);
	read_temperature(s);

	uint32_t value = 0;
	bool ok = GET(s, power, &value);

	sample_put_u32(s, SNAPSHOT_POWER, ok, value);
	/* Not as a counter that may not fall: that it does tells of a new driver. */
	uint64_t wide = 0;
	ok = GET(s, energy, &wide);
	sample_put(s, SNAPSHOT_ENERGY, ok, wide);
	ok = GET(s, fan, &value);
	sample_put_u32(s, SNAPSHOT_FAN, ok, value);

	struct sample_fields fields = {.count = 0};
	sample_fields_add(&fields, NVML_FIELD_MEMORY_TEMPERATURE, 0);

	if (s->memory->pcie_bytes != SAMPLE_NO) {
		sample_fields_add(&fields, NVML_FIELD_PCIE_TX_BYTES, 0);
		sample_fields_add(&fields, NVML_FIELD_PCIE_RX_BYTES, 0);
	}

	sample_fields_read(s, &fields);
	ok = sample_fields_get(&fields, NVML_FIELD_MEMORY_TEMPERATURE, &wide);
	sample_put(s, SNAPSHOT_TEMPERATURE_MEMORY, ok, wide);
	sample_busy(s);
	sample_gpm(s);
	sample_pcie_traffic(s, &fields);
	sample_processes(s);
	sample_mig(s);
}

/* ---- every ten seconds ---- */

static const struct field_row ecc_rows[] = {
    /* in the order of nvmlDeviceGetTotalEccErrors: corrected, uncorrected; volatile first */
    {NVML_FIELD_ECC_SBE_VOLATILE, SNAPSHOT_ECC_CORRECTED_VOLATILE},
    {NVML_FIELD_ECC_DBE_VOLATILE, SNAPSHOT_ECC_UNCORRECTED_VOLATILE},
    {NVML_FIELD_ECC_SBE_AGGREGATE, SNAPSHOT_ECC_CORRECTED_AGGREGATE},
    {NVML_FIELD_ECC_DBE_AGGREGATE, SNAPSHOT_ECC_UNCORRECTED_AGGREGATE},
};
static const struct field_row repair_rows[] = {
    {NVML_FIELD_RETIRED_SBE, SNAPSHOT_RETIRED_CORRECTED},
    {NVML_FIELD_RETIRED_DBE, SNAPSHOT_RETIRED_UNCORRECTED},
    {NVML_FIELD_RETIRED_PENDING, SNAPSHOT_RETIRED_PENDING},
    {NVML_FIELD_REMAP_CORRECTED, SNAPSHOT_REMAP_CORRECTED},
    {NVML_FIELD_REMAP_UNCORRECTED, SNAPSHOT_REMAP_UNCORRECTED},
    {NVML_FIELD_REMAP_PENDING, SNAPSHOT_REMAP_PENDING},
    {NVML_FIELD_REMAP_FAILURE, SNAPSHOT_REMAP_FAILURE},
    {NVML_FIELD_RECOVERY_ACTION, SNAPSHOT_RECOVERY_ACTION},
};
static const struct field_row counter_rows[] = {
    {NVML_FIELD_SW_THERMAL_NS, SNAPSHOT_VIOLATION_SW_THERMAL},
    {NVML_FIELD_HW_THERMAL_NS, SNAPSHOT_VIOLATION_HW_THERMAL},
    {NVML_FIELD_POWER_BRAKE_NS, SNAPSHOT_VIOLATION_HW_POWER_BRAKE},
    {NVML_FIELD_PCIE_L0_TO_RECOVERY, SNAPSHOT_PCIE_ERROR_END},
};

static void take_ecc(struct sampling *s, const struct sample_fields *fields)
{
	for (uint32_t i = 0; i < array_length(ecc_rows); i++) {
		uint64_t number = 0;
		bool ok = sample_fields_get(fields, ecc_rows[i].field, &number) ||
			  GET(s, ecc_total, i % 2, i / 2, &number);
		sample_put(s, ecc_rows[i].value, ok, number);
	}

	bool remaps = false;
	for (uint32_t i = 0; i < array_length(repair_rows); i++) {
		uint64_t number = 0;
		bool ok = sample_fields_get(fields, repair_rows[i].field, &number);
		remaps |= ok && repair_rows[i].field == NVML_FIELD_REMAP_PENDING;
		sample_put(s, repair_rows[i].value, ok, number);
	}

	uint32_t corrected = 0, uncorrected = 0, pending = 0, failure = 0;
	if (!remaps && GET(s, remapped, &corrected, &uncorrected, &pending, &failure)) {
		sample_put_u32(s, SNAPSHOT_REMAP_CORRECTED, true, corrected);
		sample_put_u32(s, SNAPSHOT_REMAP_UNCORRECTED, true, uncorrected);
		sample_put_u32(s, SNAPSHOT_REMAP_PENDING, true, pending != 0);
		sample_put_u32(s, SNAPSHOT_REMAP_FAILURE, true, failure != 0);
	}

	struct nvml_row_histogram banks = {.max = 0};
	bool ok = GET(s, row_histogram, &banks);

	sample_put_u32(s, SNAPSHOT_REMAP_BANKS_MAX, ok, banks.max);
	sample_put_u32(s, SNAPSHOT_REMAP_BANKS_HIGH, ok, banks.high);
	sample_put_u32(s, SNAPSHOT_REMAP_BANKS_PARTIAL, ok, banks.partial);
	sample_put_u32(s, SNAPSHOT_REMAP_BANKS_LOW, ok, banks.low);
	sample_put_u32(s, SNAPSHOT_REMAP_BANKS_NONE, ok, banks.none);
}

static void take_throttling(struct sampling *s, const struct sample_fields *fields)
{
	for (uint32_t i = 0; i <= NVML_FIELD_VIOLATION_END - NVML_FIELD_VIOLATION; i++) {
		uint64_t ns = 0;
		struct nvml_violation violation = {.violation_ns = 0};
		bool ok = sample_fields_get(fields, NVML_FIELD_VIOLATION + i, &ns);
		if (!ok) {
			ok = GET(s, violation, i, &violation);
			ns = violation.violation_ns;
		}

		sample_count(s, SNAPSHOT_VIOLATION_POWER + i, ok, ns);
	}

	for (uint32_t i = 0; i < array_length(counter_rows); i++) {
		uint64_t number = 0;
		bool ok = sample_fields_get(fields, counter_rows[i].field, &number);
		sample_count(s, counter_rows[i].value, ok, number);
	}
}

static void take_pcie(struct sampling *s, const struct sample_fields *fields)
{
	uint32_t value = 0;
	bool ok = GET(s, pcie_gen, &value);

	sample_put_u32(s, SNAPSHOT_PCIE_GEN, ok, value);
	ok = GET(s, pcie_width, &value);
	sample_put_u32(s, SNAPSHOT_PCIE_WIDTH, ok, value);

	uint64_t number = 0;
	ok = sample_fields_get(fields, NVML_FIELD_PCIE_REPLAYS, &number);
	if (!ok) {
		ok = GET(s, pcie_replays, &value) && value != BLANK_U32;
		number = value;
	}

	sample_count(s, SNAPSHOT_PCIE_REPLAYS, ok, number);

	for (uint32_t i = 0; i <= NVML_FIELD_PCIE_ERROR_END - NVML_FIELD_PCIE_ERROR; i++) {
		number = 0;
		ok = sample_fields_get(fields, NVML_FIELD_PCIE_ERROR + i, &number);
		sample_count(s, SNAPSHOT_PCIE_ERROR + i, ok, number);
	}
}

static void add_rows(struct sample_fields *fields, const struct field_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sample_fields_add(fields, rows[i].field, 0);
}

static void read_medium(struct sampling *s)
{
	struct sample_fields fields = {.count = 0};
	add_rows(&fields, ecc_rows, array_length(ecc_rows));
	add_rows(&fields, repair_rows, array_length(repair_rows));
	add_rows(&fields, counter_rows, array_length(counter_rows));

	for (uint32_t id = NVML_FIELD_VIOLATION; id <= NVML_FIELD_VIOLATION_END; id++)
		sample_fields_add(&fields, id, 0);

	for (uint32_t id = NVML_FIELD_PCIE_ERROR; id <= NVML_FIELD_PCIE_ERROR_END; id++)
		sample_fields_add(&fields, id, 0);

	sample_fields_add(&fields, NVML_FIELD_PCIE_REPLAYS, 0);
	sample_links_ask(s, &fields);
	sample_fields_read(s, &fields);
	take_ecc(s, &fields);
	take_throttling(s, &fields);
	take_pcie(s, &fields);
	sample_links(s, &fields);
}

/* ---- every minute ---- */

static void read_limits(struct sampling *s)
{
	uint32_t value = 0, most = 0;
	bool ok = GET(s, power_enforced, &value);

	sample_put_u32(s, SNAPSHOT_POWER_LIMIT, ok, value);
	ok = GET(s, power_limit, &value);
	sample_put_u32(s, SNAPSHOT_POWER_LIMIT_SET, ok, value);
	ok = GET(s, power_default, &value);
	sample_put_u32(s, SNAPSHOT_POWER_LIMIT_DEFAULT, ok, value);
	ok = GET(s, power_range, &value, &most);
	sample_put_u32(s, SNAPSHOT_POWER_LIMIT_MIN, ok, value);
	sample_put_u32(s, SNAPSHOT_POWER_LIMIT_MAX, ok, most);

	static const uint32_t thresholds[] = {
	    SNAPSHOT_TEMPERATURE_SHUTDOWN, SNAPSHOT_TEMPERATURE_SLOWDOWN,
	    SNAPSHOT_TEMPERATURE_MEMORY_MAX, SNAPSHOT_TEMPERATURE_GPU_MAX};
	for (uint32_t i = 0; i < array_length(thresholds); i++) {
		ok = GET(s, threshold, i, &value);
		sample_put_u32(s, thresholds[i], ok, value);
	}

	static const uint32_t clocks[] = {SNAPSHOT_CLOCK_GRAPHICS_MAX, SNAPSHOT_CLOCK_SM_MAX,
					  SNAPSHOT_CLOCK_MEMORY_MAX, SNAPSHOT_CLOCK_VIDEO_MAX};
	for (uint32_t i = 0; i < array_length(clocks); i++) {
		ok = GET(s, clock_max, i, &value);
		sample_put_u32(s, clocks[i], ok, value);
	}

	ok = GET(s, pcie_gen_max, &value);
	sample_put_u32(s, SNAPSHOT_PCIE_GEN_MAX, ok, value);
	ok = GET(s, pcie_width_max, &value);
	sample_put_u32(s, SNAPSHOT_PCIE_WIDTH_MAX, ok, value);
}

static void read_slow(struct sampling *s)
{
	uint32_t value = 0, pending = 0;

	read_limits(s);
	bool ok = GET(s, ecc_mode, &value, &pending);
	sample_put_u32(s, SNAPSHOT_ECC_MODE, ok, value != 0);
	sample_put_u32(s, SNAPSHOT_ECC_MODE_PENDING, ok, pending != 0);
	ok = GET(s, mig_mode, &value, &pending);
	sample_put_u32(s, SNAPSHOT_MIG_MODE, ok, value != 0);
	sample_put_u32(s, SNAPSHOT_MIG_MODE_PENDING, ok, pending != 0);
	ok = GET(s, persistence, &value);
	sample_put_u32(s, SNAPSHOT_PERSISTENCE, ok, value != 0);
	ok = GET(s, compute_mode, &value);
	sample_put_u32(s, SNAPSHOT_COMPUTE_MODE, ok, value);

	/* A driver may have been taught what it did not know; asking each second costs too much. */
	s->memory->uses = s->memory->lists = s->memory->nvlink5 = s->memory->gpm_supported =
	    SAMPLE_UNKNOWN;
	s->memory->pcie_bytes = SAMPLE_UNKNOWN;
}

/* ---- all of it ---- */

/* The driver's samples carry times of the wall clock: when that is set, they begin anew. */
static void note_wall_clock(struct sampling *s)
{
	int64_t offset = s->sampler->unix_ns - (int64_t)s->sampler->now_ns;
	int64_t moved = offset - s->memory->wall_offset_ns;

	if (moved > WALL_JUMP_NS || moved < -WALL_JUMP_NS) {
		s->memory->busy.seen_us = s->memory->uses_seen_us = 0;
		if (s->memory->wall_offset_ns != 0)
			s->memory->settles_ns = s->sampler->now_ns + SETTLE_NS;
	}

	s->memory->wall_offset_ns = offset;
}

uint64_t sample_limit_us(const struct sampling *s)
{
	if (s->sampler->now_ns >= s->memory->settles_ns || s->sampler->unix_ns < 0)
		return NEVER_US;
	return (uint64_t)s->sampler->unix_ns / 1000 + US_PER_SECOND;
}

void sample_read(struct sampler *sampler, uint32_t place, nvml_device device,
		 struct sample_memory *memory)
{
	static void (*const read[SNAPSHOT_CLASS_COUNT])(struct sampling *) = {
	    read_fast, read_medium, read_slow};
	struct snapshot_gpu *out = &sampler->snapshot->gpu[place];
	struct sampling sampling = {.sampler = sampler,
				    .caller = sampler->caller,
				    .device = device,
				    .out = out,
				    .memory = memory};

	nvml_caller_target(sampler->caller, out->index, out->bus);
	note_wall_clock(&sampling);

	for (uint32_t i = 0; i < SNAPSHOT_CLASS_COUNT && out->state == GPU_STATE_OK; i++) {
		if (!sampler->due[i])
			continue;
		uint64_t begin_ns = clock_real_ns();
		read[i](&sampling);
		sampler->snapshot->round_ns[i] += clock_real_ns() - begin_ns;
	}

	if (out->state != GPU_STATE_OK) {
		snapshot_drop_all(out);
		return;
	}

	for (uint32_t i = 0; i < SNAPSHOT_CLASS_COUNT; i++) {
		if (sampler->due[i])
			out->sampled_ns[i] = sampler->now_ns;
	}
}

void sample_forget(struct nvml_caller *caller, struct sample_memory *memory)
{
	for (uint32_t i = 0; i < array_length(memory->gpm); i++) {
		for (uint32_t k = 0; k < 2; k++) {
			if (memory->gpm[i].sample[k])
				(void)NVML_CALL(caller, gpm_free, memory->gpm[i].sample[k]);
		}
	}
	*memory = (struct sample_memory){.uses = 0};
}

void sampler_done(struct sampler *sampler)
{
	free(sampler->room.bytes);
	free(sampler->room.rows);
	free(sampler->room.slots);
	sampler->room = (struct sample_room){.size = 0};
}
