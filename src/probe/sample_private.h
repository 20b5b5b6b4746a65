/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the sampler: what its files share. Nobody else includes this. */
#ifndef SLUICE_PROBE_SAMPLE_PRIVATE_H
#define SLUICE_PROBE_SAMPLE_PRIVATE_H

#include "probe/sample.h"

enum sample_limits {
	FIELD_MAX = 64,		 /* in one call */
	PROCESS_READ_MAX = 8192, /* entries of one list */
	USE_READ_MAX = 16384,	 /* per-process samples of one call */
	SAMPLE_READ_MAX = 4096,	 /* samples of the whole GPU of one call */
	READ_FIRST = 64,	 /* entries for which there is room at first */
	READ_TRIES = 4,
};
#define SAMPLE_SECOND_NS UINT64_C(1000000000)

/* One GPU being sampled. */
struct sampling {
	struct sampler *sampler;
	struct nvml_caller *caller;
	nvml_device device;
	struct snapshot_gpu *out;
	struct sample_memory *memory;
};

/* Counts a call that failed in the snapshot, and says whether the GPU is still there. True when
 * the value may be used. */
bool sample_check(struct sampling *sampling, enum nvml_function function, int32_t result);

#define GET(sampling, member, ...)                                                                 \
	sample_check((sampling), NVML_FN_##member,                                                 \
		     NVML_CALL((sampling)->caller, member, (sampling)->device, __VA_ARGS__))

/* A reading: absent when the call failed, when the driver left it blank, or when it cannot be. */
void sample_put(struct sampling *sampling, uint32_t value, bool ok, uint64_t number);
void sample_put_u32(struct sampling *sampling, uint32_t value, bool ok, uint32_t number);
/* A counter: a reading below the last one is not believed before the next one says so too. */
void sample_count(struct sampling *sampling, uint32_t value, bool ok, uint64_t number);

/* Fields: asked for with one call, then looked at one by one. */
struct sample_fields {
	uint32_t count;
	bool ok;
	struct nvml_field_value field[FIELD_MAX];
};
void sample_fields_add(struct sample_fields *fields, uint32_t id, uint32_t scope);
void sample_fields_read(struct sampling *sampling, struct sample_fields *fields);
bool sample_fields_get(const struct sample_fields *fields, uint32_t id, uint64_t *out);
/* A value of NVML as a number; false when it is blank, negative or not a number. */
bool sample_number(uint32_t type, const union nvml_value *value, uint64_t *out);

/* Room for at least `count` entries of `bytes`; false without memory. */
bool sample_room_want(struct sample_room *room, uint32_t count, uint32_t bytes);

/* The parts, each in its own file. `fields` has what was read for them. */
void sample_busy(struct sampling *sampling);
void sample_processes(struct sampling *sampling);
void sample_mig(struct sampling *sampling);
void sample_gpm(struct sampling *sampling);
void sample_links_ask(struct sampling *sampling, struct sample_fields *fields);
void sample_links(struct sampling *sampling, const struct sample_fields *fields);
void sample_pcie_traffic(struct sampling *sampling, const struct sample_fields *fields);

/* Samples of the driver with a later time are not looked at: no time is so late, or the wall clock
 * was set back and they are from before that. */
uint64_t sample_limit_us(const struct sampling *sampling);
/* Pure: adds samples of the GPU's utilisation, oldest first, to `busy`. False when their times mean
 * nothing. */
bool sample_busy_take(struct sample_busy *busy, const struct nvml_sample *samples, uint32_t count,
		      uint32_t type, uint64_t limit_us);
/* Pure: takes a counter's new value; true when `*out_rate` (bytes per second) is a new one. */
bool sample_traffic_take(struct sample_traffic *traffic, uint64_t raw, bool is_32_bits,
			 uint64_t now_ns, uint64_t *out_rate);

#endif
