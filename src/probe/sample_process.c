/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a GPU: who they are, how much memory they have, how busy each keeps it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "probe/sample_private.h"

#define NO_ROW UINT32_MAX
/* So much older than the newest one a sample may be when there was none before. */
#define FIRST_SPAN_US UINT64_C(1000000)
/* No sample for so long means idle: drivers take one at least every second. */
#define HOLD_NS (3 * SAMPLE_SECOND_NS / 2)

struct process_row {
	struct snapshot_process process;
	uint32_t samples;
	uint64_t sm, memory, encoder, decoder; /* sums over the samples */
};

bool sample_room_want(struct sample_room *room, uint32_t count, uint32_t bytes)
{
	if (count <= room->size / bytes)
		return true;

	void *larger = realloc(room->bytes, (size_t)count * bytes);
	if (!larger)
		return false;

	room->bytes = larger;
	room->size = count * bytes;
	return true;
}

/* ---- the table of processes, found by PID ---- */

static uint32_t slot_of(const struct sample_room *room, uint32_t pid)
{
	return (pid * UINT32_C(2654435769)) & (room->slot_count - 1);
}

static void enter(struct sample_room *room, uint32_t row)
{
	uint32_t slot = slot_of(room, room->rows[row].process.pid);
	while (room->slots[slot] != NO_ROW)
		slot = (slot + 1) & (room->slot_count - 1);
	room->slots[slot] = row;
}

/* Room for `count` rows, with an index at most half full. */
static bool rows_want(struct sample_room *room, uint32_t count)
{
	uint32_t max = room->row_max ? room->row_max : READ_FIRST;
	while (max < count)
		max *= 2;

	if (max == room->row_max)
		return true;

	struct process_row *rows = reallocarray(room->rows, max, sizeof(*rows));
	if (!rows)
		return false;

	room->rows = rows;
	uint32_t *slots = reallocarray(room->slots, max, 2 * sizeof(*slots));
	if (!slots)
		return false;

	room->slots = slots;
	room->slot_count = 2 * max;
	room->row_max = max;
	memset(slots, 0xff, room->slot_count * sizeof(*slots));

	for (uint32_t i = 0; i < room->row_count; i++)
		enter(room, i);

	return true;
}

/* The first row of the process, or the one in this instance. */
static struct process_row *find(const struct sample_room *room, uint32_t pid, bool any, uint32_t gi,
				uint32_t ci)
{
	if (room->row_count == 0)
		return NULL;

	for (uint32_t slot = slot_of(room, pid); room->slots[slot] != NO_ROW;
	     slot = (slot + 1) & (room->slot_count - 1)) {
		struct process_row *row = &room->rows[room->slots[slot]];
		if (row->process.pid == pid &&
		    (any || (row->process.gi == gi && row->process.ci == ci)))
			return row;
	}

	return NULL;
}

/* pid at 0, memory at 8, gi at 16, ci at 20: as far as the entry reaches. */
static void take_process(struct sample_room *room, const unsigned char *entry, uint32_t bytes,
			 uint32_t type)
{
	uint32_t pid, gi = SNAPSHOT_WHOLE_GPU, ci = SNAPSHOT_WHOLE_GPU;
	uint64_t memory; /* all ones is NVML's "not available", and ours */

	memcpy(&pid, entry, sizeof(pid));
	memcpy(&memory, entry + 8, sizeof(memory));

	if (bytes > 16) {
		memcpy(&gi, entry + 16, sizeof(gi));
		memcpy(&ci, entry + 20, sizeof(ci));
	}

	struct process_row *row = find(room, pid, false, gi, ci);
	if (!row) {
		if (room->row_count == room->row_max)
			return;

		row = &room->rows[room->row_count];
		*row = (struct process_row){.process = {.pid = pid,
							.gi = gi,
							.ci = ci,
							.memory_bytes = memory,
							.util_sm = SNAPSHOT_U32_ABSENT,
							.util_memory = SNAPSHOT_U32_ABSENT,
							.util_encoder = SNAPSHOT_U32_ABSENT,
							.util_decoder = SNAPSHOT_U32_ABSENT}};
		enter(room, room->row_count++);
	}

	row->process.type |= type;
	/* In two lists it is the same memory. */
	uint64_t *known = &row->process.memory_bytes;
	if (*known == SNAPSHOT_U64_ABSENT || (memory != SNAPSHOT_U64_ABSENT && memory > *known))
		*known = memory;
}

/* ---- the lists ---- */

static int32_t call_list(struct sampling *s, enum nvml_function function, uint32_t *count,
			 void *entries)
{
	switch (function) {
	case NVML_FN_compute_processes:
		return NVML_CALL(s->caller, compute_processes, s->device, count, entries);
	case NVML_FN_graphics_processes:
		return NVML_CALL(s->caller, graphics_processes, s->device, count, entries);
	case NVML_FN_mps_processes:
		return NVML_CALL(s->caller, mps_processes, s->device, count, entries);
	case NVML_FN_compute_processes_plain:
		return NVML_CALL(s->caller, compute_processes_plain, s->device, count, entries);
	case NVML_FN_graphics_processes_plain:
		return NVML_CALL(s->caller, graphics_processes_plain, s->device, count, entries);
	default:
		return NVML_CALL(s->caller, mps_processes_plain, s->device, count, entries);
	}
}

/* Entries of one list in the room; 0 when there are none or the driver does not tell. Processes
 * come and go between two calls, and some drivers want room for 100 or thousands in any case. */
static uint32_t read_entries(struct sampling *s, enum nvml_function function, uint32_t bytes,
			     int32_t *out_result)
{
	struct sample_room *room = &s->sampler->room;
	uint32_t want = READ_FIRST;

	for (uint32_t i = 0; i < READ_TRIES; i++) {
		if (!sample_room_want(room, want, bytes))
			return 0;

		uint32_t max = room->size / bytes, count = max;
		if (max > PROCESS_READ_MAX)
			max = count = PROCESS_READ_MAX;

		int32_t rc = call_list(s, function, &count, room->bytes);
		*out_result = rc;

		bool full = rc == NVML_OK && count >= max;
		if (rc == NVML_OK && (!full || max == PROCESS_READ_MAX))
			return count < max ? count : max;
		if (!full && (rc != NVML_INSUFFICIENT_SIZE || max == PROCESS_READ_MAX)) {
			(void)sample_check(s, function, rc);
			return 0;
		}

		want = count > max ? count + count / 8 : 2 * max;
		if (want > PROCESS_READ_MAX)
			want = PROCESS_READ_MAX;
	}

	return 0;
}

static int32_t read_list(struct sampling *s, enum nvml_function function, uint8_t variant,
			 uint32_t type)
{
	struct sample_room *room = &s->sampler->room;
	uint32_t bytes = nvml_process_entry_bytes(variant, s->caller->nvml->driver_version);
	int32_t rc = NVML_MEMORY;
	uint32_t count = read_entries(s, function, bytes, &rc);
	if (count == 0 || !rows_want(room, room->row_count + count))
		return rc;

	for (uint32_t i = 0; i < count; i++)
		take_process(room, (unsigned char *)room->bytes + (size_t)i * bytes, bytes, type);

	return rc;
}

/* The three lists, by the newest names that answer. A library may export a name that its driver
 * does not know; then only the plain one works, whose entries are short. */
static void read_lists(struct sampling *s)
{
	static const struct {
		enum nvml_function newest, plain;
		uint32_t type;
	} lists[] = {
	    {NVML_FN_compute_processes, NVML_FN_compute_processes_plain, SNAPSHOT_PROCESS_COMPUTE},
	    {NVML_FN_graphics_processes, NVML_FN_graphics_processes_plain,
	     SNAPSHOT_PROCESS_GRAPHICS},
	    {NVML_FN_mps_processes, NVML_FN_mps_processes_plain, SNAPSHOT_PROCESS_MPS},
	};
	const uint8_t *variant = s->caller->nvml->variant;

	enum { PLAIN = 2 }; /* nvml_process_entry_bytes() */

	for (uint32_t i = 0; i < array_length(lists); i++) {
		int32_t rc = NVML_NOT_SUPPORTED;

		if (s->memory->lists != SAMPLE_NO)
			rc = read_list(s, lists[i].newest, variant[lists[i].newest], lists[i].type);
		if (i == 0 && s->memory->lists == SAMPLE_UNKNOWN &&
		    variant[lists[0].newest] < PLAIN)
			s->memory->lists = rc == NVML_NOT_SUPPORTED ? SAMPLE_NO : SAMPLE_YES;
		if (s->memory->lists == SAMPLE_NO)
			(void)read_list(s, lists[i].plain, PLAIN, lists[i].type);
	}
}

/* ---- how busy each keeps the GPU ---- */

/* Calls the newer or the older function with room for `*count` samples. */
static int32_t call_uses(struct sampling *s, bool newer, uint32_t *count, void *entries)
{
	if (!newer)
		return NVML_CALL(s->caller, process_utilization, s->device, entries, count,
				 s->memory->uses_seen_us);

	struct nvml_process_uses uses = {.version = NVML_STRUCT_WORD(struct nvml_process_uses, 1),
					 .count = *count,
					 .seen_us = s->memory->uses_seen_us,
					 .entry = entries};
	int32_t rc = NVML_CALL(s->caller, process_uses, s->device, &uses);

	*count = uses.count;
	return rc;
}

static int32_t read_uses(struct sampling *s, bool newer, uint32_t *out_count)
{
	struct sample_room *room = &s->sampler->room;
	const uint32_t bytes =
	    newer ? sizeof(struct nvml_process_use) : sizeof(struct nvml_process_sample);
	uint32_t want = READ_FIRST;
	int32_t rc = NVML_MEMORY;

	for (uint32_t i = 0; i < READ_TRIES; i++) {
		if (!sample_room_want(room, want, bytes))
			return NVML_MEMORY;

		uint32_t max = room->size / bytes, count = max;
		if (max > USE_READ_MAX)
			max = count = USE_READ_MAX;
		rc = call_uses(s, newer, &count, room->bytes);
		*out_count = count < max ? count : max;

		bool full = rc == NVML_OK && count >= max;
		if ((!full && rc != NVML_INSUFFICIENT_SIZE) || max == USE_READ_MAX)
			return rc;

		want = count > max ? count + count / 8 : 2 * max;
		if (want > USE_READ_MAX)
			want = USE_READ_MAX;
	}

	return rc;
}

/* One sample, of either form. */
static struct nvml_process_use use_at(const struct sample_room *room, bool newer, uint32_t place)
{
	if (newer)
		return ((const struct nvml_process_use *)room->bytes)[place];

	const struct nvml_process_sample *old =
	    &((const struct nvml_process_sample *)room->bytes)[place];
	return (struct nvml_process_use){.timestamp_us = old->timestamp_us,
					 .pid = old->pid,
					 .sm = old->sm,
					 .memory = old->memory,
					 .encoder = old->encoder,
					 .decoder = old->decoder};
}

/* One from the future would hide all that come after it. */
static bool use_is_possible(const struct nvml_process_use *use, uint64_t after_us,
			    uint64_t limit_us)
{
	return use->timestamp_us > after_us && use->timestamp_us <= limit_us && use->sm <= 100 &&
	       use->memory <= 100 && use->encoder <= 100 && use->decoder <= 100;
}

static void take_uses(struct sampling *s, bool newer, uint32_t count)
{
	struct sample_room *room = &s->sampler->room;
	struct sample_memory *memory = s->memory;
	uint64_t newest_us = memory->uses_seen_us, after_us = memory->uses_seen_us;
	uint64_t limit_us = sample_limit_us(s);

	for (uint32_t i = 0; i < count; i++) {
		struct nvml_process_use use = use_at(room, newer, i);
		if (use.timestamp_us <= limit_us && use.timestamp_us > newest_us)
			newest_us = use.timestamp_us;
	}

	/* The driver has kept the samples of minutes; asked for the first time it gives them all.
	 */
	if (after_us == 0 && newest_us > FIRST_SPAN_US)
		after_us = newest_us - FIRST_SPAN_US;

	for (uint32_t i = 0; i < count; i++) {
		struct nvml_process_use use = use_at(room, newer, i);
		struct process_row *row = use_is_possible(&use, after_us, limit_us)
					      ? find(room, use.pid, true, 0, 0)
					      : NULL;
		if (!row)
			continue; /* has gone, or never was */

		row->samples++;
		row->sm += use.sm;
		row->memory += use.memory;
		row->encoder += use.encoder;
		row->decoder += use.decoder;
	}

	if (newest_us > memory->uses_seen_us) {
		memory->uses_seen_us = newest_us;
		memory->uses_ns = s->sampler->now_ns;
	}

	for (uint32_t i = 0; i < room->row_count; i++) {
		struct process_row *row = &room->rows[i];
		uint32_t n = row->samples ? row->samples : 1; /* no sample: it did nothing */

		row->process.util_sm = (uint32_t)((row->sm + n / 2) / n);
		row->process.util_memory = (uint32_t)((row->memory + n / 2) / n);
		row->process.util_encoder = (uint32_t)((row->encoder + n / 2) / n);
		row->process.util_decoder = (uint32_t)((row->decoder + n / 2) / n);
	}
}

/* Nothing new since: the same as before, for as long as the driver may take to its next sample. */
static void hold_uses(struct sampling *s, const struct snapshot_process *before, uint32_t count)
{
	struct sample_room *room = &s->sampler->room;

	take_uses(s, true, 0);
	if (s->memory->uses_ns == 0 || s->sampler->now_ns - s->memory->uses_ns > HOLD_NS)
		return;

	for (uint32_t i = 0; i < count; i++) {
		struct process_row *row =
		    find(room, before[i].pid, false, before[i].gi, before[i].ci);
		if (!row || before[i].util_sm == SNAPSHOT_U32_ABSENT)
			continue;

		row->process.util_sm = before[i].util_sm;
		row->process.util_memory = before[i].util_memory;
		row->process.util_encoder = before[i].util_encoder;
		row->process.util_decoder = before[i].util_decoder;
	}
}

static void read_utilization(struct sampling *s, const struct snapshot_process *before,
			     uint32_t before_count)
{
	uint32_t count = 0;
	bool newer = s->memory->uses != SAMPLE_NO;
	int32_t rc = NVML_FUNCTION_NOT_FOUND;

	if (newer) {
		rc = read_uses(s, true, &count);
		newer = rc == NVML_NOT_FOUND || !nvml_return_is_absent(rc);
		s->memory->uses = newer ? SAMPLE_YES : SAMPLE_NO;
	}

	if (!newer)
		rc = read_uses(s, false, &count);

	if (rc == NVML_NOT_FOUND)
		hold_uses(s, before, before_count);
	else if (sample_check(s, newer ? NVML_FN_process_uses : NVML_FN_process_utilization, rc))
		take_uses(s, newer, count);
}

/* ---- which of them are kept ---- */

/* By share of the time and share of the memory: both are what people look for. In bytes. */
static uint64_t score(const struct process_row *row, uint64_t memory_total)
{
	uint64_t score = 0;
	if (row->process.util_sm <= 100)
		score = memory_total / 100 * row->process.util_sm;
	if (row->process.memory_bytes <= memory_total)
		score += row->process.memory_bytes;
	return score;
}

/* The places of the SNAPSHOT_PROCESS_MAX rows with the highest scores, in the driver's order. */
static void choose(const struct sample_room *room, uint64_t memory_total,
		   uint32_t place[SNAPSHOT_PROCESS_MAX])
{
	uint64_t best[SNAPSHOT_PROCESS_MAX]; /* falling */
	uint32_t count = 0;

	for (uint32_t i = 0; i < room->row_count; i++) {
		uint64_t mine = score(&room->rows[i], memory_total);
		if (count == SNAPSHOT_PROCESS_MAX && mine <= best[count - 1])
			continue;

		uint32_t at = count < SNAPSHOT_PROCESS_MAX ? count++ : count - 1;
		for (; at > 0 && best[at - 1] < mine; at--) {
			best[at] = best[at - 1];
			place[at] = place[at - 1];
		}

		best[at] = mine;
		place[at] = i;
	}

	for (uint32_t i = 1; i < count; i++) {
		uint32_t this = place[i], at = i;
		for (; at > 0 && place[at - 1] > this; at--)
			place[at] = place[at - 1];
		place[at] = this;
	}
}

void sample_processes(struct sampling *s)
{
	struct sample_room *room = &s->sampler->room;
	struct snapshot_gpu *out = s->out;
	struct snapshot_process before[SNAPSHOT_PROCESS_MAX];
	uint32_t before_count = out->process_count;

	memcpy(before, out->process, before_count * sizeof(before[0]));
	out->process_count = out->process_total = 0;
	room->row_count = 0;
	if (room->slots)
		memset(room->slots, 0xff, room->slot_count * sizeof(*room->slots));
	read_lists(s);

	if (room->row_count == 0)
		return;

	read_utilization(s, before, before_count);

	uint32_t place[SNAPSHOT_PROCESS_MAX];
	int64_t total = INT64_C(1) << 40; /* where it is not told */

	(void)snapshot_get(out, SNAPSHOT_MEMORY_TOTAL, &total);
	out->process_total = room->row_count;

	bool all = room->row_count <= SNAPSHOT_PROCESS_MAX;
	if (!all)
		choose(room, (uint64_t)total, place);
	out->process_count = all ? room->row_count : SNAPSHOT_PROCESS_MAX;

	for (uint32_t i = 0; i < out->process_count; i++)
		out->process[i] = room->rows[all ? i : place[i]].process;
}
