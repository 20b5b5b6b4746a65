/* SPDX-License-Identifier: Apache-2.0 */
/* What goes over a GPU's links, and what went wrong there: NVLink and the bytes of PCIe. */
#include "base/check.h"
#include "probe/sample_private.h"

enum {
	KIB = 1024,
	RATE_APART = 2, /* rates are of at least a second / 2 */
};

/* --- NVLink --- */

struct link_row {
	uint32_t field, value;
};

/* Of all links together. */
static const struct link_row totals[] = {
    {NVML_FIELD_NVLINK_CRC_FLIT, SNAPSHOT_NVLINK_ERROR + 0},
    {NVML_FIELD_NVLINK_CRC_DATA, SNAPSHOT_NVLINK_ERROR + 1},
    {NVML_FIELD_NVLINK_REPLAY, SNAPSHOT_NVLINK_ERROR + 2},
    {NVML_FIELD_NVLINK_RECOVERY, SNAPSHOT_NVLINK_ERROR + 3},
    {NVML_FIELD_NVLINK_ECC, SNAPSHOT_NVLINK_ERROR + 4},
};

/* Of one link each. 213 (successful recoveries) is part of 215, 220 and 222 are rates, 205 and 216
 * to 218 are deprecated. */
static const struct link_row each[] = {
    {206, SNAPSHOT_NVLINK_ERROR + 5},
    {207, SNAPSHOT_NVLINK_ERROR + 6},
    {208, SNAPSHOT_NVLINK_ERROR + 7},
    {209, SNAPSHOT_NVLINK_ERROR + 8},
    {210, SNAPSHOT_NVLINK_ERROR + 9},
    {211, SNAPSHOT_NVLINK_ERROR + 10},
    {212, SNAPSHOT_NVLINK_ERROR + 11},
    {214, SNAPSHOT_NVLINK_ERROR + 12},
    {215, SNAPSHOT_NVLINK_ERROR + 13},
    {219, SNAPSHOT_NVLINK_ERROR + 14},
    {221, SNAPSHOT_NVLINK_ERROR + 15},
    {NVML_FIELD_NVLINK5_TX_BYTES, SNAPSHOT_NVLINK_TX_TOTAL},
    {NVML_FIELD_NVLINK5_RX_BYTES, SNAPSHOT_NVLINK_RX_TOTAL},
};

void sample_links_ask(struct sampling *s, struct sample_fields *fields)
{
	for (uint32_t i = 0; i < array_length(totals); i++)
		sample_fields_add(fields, totals[i].field, 0);
	sample_fields_add(fields, NVML_FIELD_NVLINK_TX_KIB, NVML_SCOPE_ALL);
	sample_fields_add(fields, NVML_FIELD_NVLINK_RX_KIB, NVML_SCOPE_ALL);
	if (s->memory->nvlink5 == SAMPLE_UNKNOWN)
		sample_fields_add(fields, NVML_FIELD_NVLINK5_TX_BYTES, 0);
}

static void read_states(struct sampling *s, uint64_t *out_there, uint64_t *out_up)
{
	for (uint32_t i = 0; i < GPU_LINK_MAX; i++) {
		uint32_t active;
		int32_t rc = NVML_CALL(s->caller, link_state, s->device, i, &active);
		if (rc == NVML_INVALID_ARGUMENT || rc == NVML_FUNCTION_NOT_FOUND)
			break;
		if (!sample_check(s, NVML_FN_link_state, rc))
			continue;

		*out_there |= UINT64_C(1) << i;
		*out_up |= (uint64_t)(active != 0) << i;
	}
}

/* `sum` of the `links` that answer. A link that falls silent or comes back is no reset of the
 * others: what all of them have counted stays, and goes on from there. Returns the total. */
static uint64_t sample_link_take(struct sample_link_sum *at, uint64_t links, uint64_t sum)
{
	if (at->links != 0 && links != at->links)
		at->kept = (int64_t)(at->total - sum);
	else if ((int64_t)sum + at->kept < (int64_t)at->total)
		at->kept = 0; /* all of them begin anew */
	at->links = links;
	at->total = sum + (uint64_t)at->kept;
	return at->total;
}

/* The counters of NVLink 5, summed over the links. */
static void read_each(struct sampling *s, uint64_t there)
{
	uint64_t sum[array_length(each)] = {0}, links[array_length(each)] = {0};

	_Static_assert(array_length(each) == SAMPLE_LINK_SUMS, "each has its memory");

	for (uint32_t link = 0; link < GPU_LINK_MAX; link++) {
		if (!(there >> link & 1))
			continue;

		struct sample_fields fields = {.count = 0};
		for (uint32_t i = 0; i < array_length(each); i++)
			sample_fields_add(&fields, each[i].field, link);

		sample_fields_read(s, &fields);

		for (uint32_t i = 0; i < array_length(each); i++) {
			uint64_t number;
			if (!sample_fields_get(&fields, each[i].field, &number))
				continue;
			sum[i] += number;
			links[i] |= UINT64_C(1) << link;
		}
	}

	for (uint32_t i = 0; i < array_length(each); i++) {
		uint64_t total =
		    links[i] ? sample_link_take(&s->memory->link[i], links[i], sum[i]) : 0;
		sample_count(s, each[i].value, links[i], total);
	}
}

void sample_links(struct sampling *s, const struct sample_fields *fields)
{
	uint64_t there = 0, up = 0, number = 0;
	read_states(s, &there, &up);

	uint32_t there_count = (uint32_t)__builtin_popcountll(there);
	uint32_t up_count = (uint32_t)__builtin_popcountll(up);

	sample_put(s, SNAPSHOT_NVLINK_THERE, there, there);
	sample_put(s, SNAPSHOT_NVLINK_UP, there, up);
	sample_put(s, SNAPSHOT_NVLINK_ACTIVE, there, up_count);
	sample_put(s, SNAPSHOT_NVLINK_INACTIVE, there, there_count - up_count);

	uint64_t errors = 0;
	bool any = false;

	for (uint32_t i = 0; i < array_length(totals); i++) {
		bool ok = there && sample_fields_get(fields, totals[i].field, &number);
		sample_count(s, totals[i].value, ok, number);

		if (ok && totals[i].field != NVML_FIELD_NVLINK_ECC) {
			errors += number;
			any = true;
		}
	}

	sample_count(s, SNAPSHOT_NVLINK_ERRORS, any, errors);
	if (s->memory->nvlink5 == SAMPLE_UNKNOWN)
		s->memory->nvlink5 = sample_fields_get(fields, NVML_FIELD_NVLINK5_TX_BYTES, &number)
					 ? SAMPLE_YES
					 : SAMPLE_NO;

	/* A GPU without these has none of them: the sums are then absent. */
	read_each(s, s->memory->nvlink5 == SAMPLE_YES ? there : 0);
	if (s->memory->nvlink5 == SAMPLE_YES)
		return;

	bool ok = there && sample_fields_get(fields, NVML_FIELD_NVLINK_TX_KIB, &number);
	sample_count(s, SNAPSHOT_NVLINK_TX_TOTAL, ok && number < INT64_MAX / KIB, number * KIB);
	ok = there && sample_fields_get(fields, NVML_FIELD_NVLINK_RX_KIB, &number);
	sample_count(s, SNAPSHOT_NVLINK_RX_TOTAL, ok && number < INT64_MAX / KIB, number * KIB);
}

/* --- PCIe --- */

bool sample_traffic_take(struct sample_traffic *traffic, uint64_t raw, bool is_32_bits,
			 uint64_t now_ns, uint64_t *out_rate)
{
	const uint64_t end_32 = UINT64_C(1) << 32;

	if (!traffic->begun) {
		*traffic = (struct sample_traffic){
		    .begun = true, .raw = raw, .total = raw, .base = raw, .base_ns = now_ns};
		return false;
	}

	/* How wide the counter is has not been seen. One that was near the end of 32 bits and is
	 * near the beginning has gone round; any other that fell was reset. */
	bool round = raw < traffic->raw && traffic->raw < end_32 &&
		     (is_32_bits || (traffic->raw >= end_32 / 2 && raw < end_32 / 2));

	if (raw >= traffic->raw)
		traffic->total += raw - traffic->raw;
	else if (round)
		traffic->total += end_32 - traffic->raw + raw;
	else
		*traffic = (struct sample_traffic){
		    .begun = true, .total = raw, .base = raw, .base_ns = now_ns};

	traffic->raw = raw;
	uint64_t ns = now_ns - traffic->base_ns, bytes = traffic->total - traffic->base;
	if (ns < SAMPLE_SECOND_NS / RATE_APART)
		return false;

	*out_rate = (uint64_t)((double)bytes * 1e9 / (double)ns);
	traffic->base = traffic->total;
	traffic->base_ns = now_ns;

	return true;
}

static bool take_bytes(struct sampling *s, const struct sample_fields *fields, uint32_t field,
		       struct sample_traffic *traffic, uint32_t rate_value, uint32_t total_value)
{
	uint64_t raw, rate;
	bool is_32_bits = false;

	if (!sample_fields_get(fields, field, &raw)) {
		*traffic = (struct sample_traffic){.begun = false};
		snapshot_drop(s->out, total_value);
		return false;
	}

	for (uint32_t i = 0; i < fields->count; i++) {
		if (fields->field[i].id == field)
			is_32_bits = fields->field[i].value_type == NVML_VALUE_UINT;
	}

	if (sample_traffic_take(traffic, raw, is_32_bits, s->sampler->now_ns, &rate))
		sample_put(s, rate_value, true, rate);
	sample_put(s, total_value, true, traffic->total);
	return true;
}

/* The driver watches the link for 20 ms for each direction. KiB per second. */
static void ask_throughput(struct sampling *s)
{
	uint32_t value = 0;
	bool ok = GET(s, pcie_throughput, 0, &value);
	sample_put(s, SNAPSHOT_PCIE_TX, ok, (uint64_t)value * KIB);
	ok = GET(s, pcie_throughput, 1, &value);
	sample_put(s, SNAPSHOT_PCIE_RX, ok, (uint64_t)value * KIB);
}

void sample_pcie_traffic(struct sampling *s, const struct sample_fields *fields)
{
	bool tx = take_bytes(s, fields, NVML_FIELD_PCIE_TX_BYTES, &s->memory->tx, SNAPSHOT_PCIE_TX,
			     SNAPSHOT_PCIE_TX_TOTAL);
	bool rx = take_bytes(s, fields, NVML_FIELD_PCIE_RX_BYTES, &s->memory->rx, SNAPSHOT_PCIE_RX,
			     SNAPSHOT_PCIE_RX_TOTAL);

	s->memory->pcie_bytes = tx || rx ? SAMPLE_YES : SAMPLE_NO;
	/* GPM has told the rates, or one GPU after another is asked. */
	if (!tx && !rx && s->memory->gpm_supported != SAMPLE_YES &&
	    s->sampler->pcie_turn == (uint32_t)(s->out - s->sampler->snapshot->gpu))
		ask_throughput(s);
}
