/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/collective.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/names.h"

struct collective_op_facts {
	const char *name;
	const char *alias; /* NULL: none */
	bool reduces, has_root, has_in_place;
};

static const struct collective_op_facts op_facts[COLLECTIVE_OP_COUNT] = {
    [COLLECTIVE_ALL_REDUCE] = {"all_reduce", "allreduce", .reduces = true, .has_in_place = true},
    [COLLECTIVE_REDUCE_SCATTER] = {"reduce_scatter", "reducescatter", .reduces = true,
				   .has_in_place = true},
    [COLLECTIVE_ALL_GATHER] = {"all_gather", "allgather", .has_in_place = true},
    [COLLECTIVE_ALLTOALL] = {"alltoall", "all_to_all", .reduces = false},
    [COLLECTIVE_ALLTOALLV] = {"alltoallv", "all_to_allv", .reduces = false},
    [COLLECTIVE_GATHER] = {"gather", NULL, .has_root = true, .has_in_place = true},
    [COLLECTIVE_SCATTER] = {"scatter", NULL, .has_root = true, .has_in_place = true},
    [COLLECTIVE_BROADCAST] = {"broadcast", "bcast", .has_root = true, .has_in_place = true},
    [COLLECTIVE_REDUCE] = {"reduce", NULL, .reduces = true, .has_root = true, .has_in_place = true},
    [COLLECTIVE_SENDRECV] = {"sendrecv", "send_recv", .reduces = false},
    [COLLECTIVE_HYPERCUBE] = {"hypercube", NULL, .has_in_place = true},
};

struct collective_type_facts {
	const char *name, *alias;
	size_t bytes;
};

static const struct collective_type_facts type_facts[COLLECTIVE_TYPE_COUNT] = {
    [COLLECTIVE_I8] = {"int8", "i8", 1},    [COLLECTIVE_U8] = {"uint8", "u8", 1},
    [COLLECTIVE_I32] = {"int32", "i32", 4}, [COLLECTIVE_U32] = {"uint32", "u32", 4},
    [COLLECTIVE_I64] = {"int64", "i64", 8}, [COLLECTIVE_U64] = {"uint64", "u64", 8},
    [COLLECTIVE_F16] = {"half", "f16", 2},  [COLLECTIVE_BF16] = {"bfloat16", "bf16", 2},
    [COLLECTIVE_F32] = {"float", "f32", 4}, [COLLECTIVE_F64] = {"double", "f64", 8},
};

static const char *const redop_names[COLLECTIVE_REDOP_COUNT] = {
    [COLLECTIVE_SUM] = "sum", [COLLECTIVE_PROD] = "prod", [COLLECTIVE_MIN] = "min",
    [COLLECTIVE_MAX] = "max", [COLLECTIVE_AVG] = "avg",
};

const char *collective_op_to_string(enum collective_op op)
{
	return op < COLLECTIVE_OP_COUNT ? op_facts[op].name : "?";
}

const char *collective_type_to_string(enum collective_type type)
{
	return type < COLLECTIVE_TYPE_COUNT ? type_facts[type].name : "?";
}

const char *collective_redop_to_string(enum collective_redop redop)
{
	return names_at(redop_names, redop, "?");
}

int collective_op_parse(const char *text, enum collective_op *out)
{
	for (int i = 0; i < COLLECTIVE_OP_COUNT; i++) {
		const struct collective_op_facts *facts = &op_facts[i];
		if (strcmp(text, facts->name) == 0 ||
		    (facts->alias && strcmp(text, facts->alias) == 0)) {
			*out = (enum collective_op)i;
			return 0;
		}
	}

	return -EINVAL;
}

int collective_type_parse(const char *text, enum collective_type *out)
{
	for (int i = 0; i < COLLECTIVE_TYPE_COUNT; i++) {
		if (strcmp(text, type_facts[i].name) == 0 ||
		    strcmp(text, type_facts[i].alias) == 0) {
			*out = (enum collective_type)i;
			return 0;
		}
	}

	return -EINVAL;
}

int collective_redop_parse(const char *text, enum collective_redop *out)
{
	int at = names_find(redop_names, text);
	if (at < 0)
		return at;
	*out = (enum collective_redop)at;
	return 0;
}

size_t collective_type_size(enum collective_type type)
{
	return type_facts[type].bytes;
}

bool collective_op_reduces(enum collective_op op)
{
	return op_facts[op].reduces;
}

bool collective_op_has_root(enum collective_op op)
{
	return op_facts[op].has_root;
}

bool collective_op_has_in_place(enum collective_op op)
{
	return op_facts[op].has_in_place;
}

/* What goes over a distance: its share of the whole, where the distances 0 to ranks - 1 share it by
 * their sizes; param_count is the mean. Split so that nothing overflows. */
static uint64_t collective_v_at(const struct collective_shape *shape, uint32_t ranks,
				uint32_t distance)
{
	if (ranks == 1)
		return shape->param_count;
	uint64_t steps = ranks - 1, twice = 2 * (uint64_t)distance;
	uint64_t count =
	    shape->param_count / steps * twice + shape->param_count % steps * twice / steps;
	return count - count % (COLLECTIVE_CHUNK_BYTES / shape->element_bytes);
}

uint64_t collective_v_count(const struct collective_shape *shape, uint32_t ranks, uint32_t from,
			    uint32_t to)
{
	return collective_v_at(shape, ranks, (to + ranks - from) % ranks);
}

void collective_shape(enum collective_op op, enum collective_type type, uint64_t asked_bytes,
		      uint32_t ranks, struct collective_shape *out)
{
	uint32_t size = (uint32_t)type_facts[type].bytes;
	uint64_t count = asked_bytes / size;
	uint64_t part = count / ranks;

	part -= part % (COLLECTIVE_CHUNK_BYTES / size);
	*out = (struct collective_shape){.param_count = part, .element_bytes = size};

	switch (op) {
	case COLLECTIVE_ALL_REDUCE:
	case COLLECTIVE_BROADCAST:
	case COLLECTIVE_REDUCE:
	case COLLECTIVE_SENDRECV:
		out->param_count = out->send_count = out->receive_count = count;
		break;
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_SCATTER:
		out->send_count = part * ranks;
		out->receive_count = part;
		break;
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_HYPERCUBE:
		out->send_count = part;
		out->receive_count = part * ranks;
		break;
	case COLLECTIVE_ALLTOALL:
		out->send_count = out->receive_count = part * ranks;
		break;
	case COLLECTIVE_ALLTOALLV:
		for (uint32_t i = 0; i < ranks; i++)
			out->send_count += collective_v_at(out, ranks, i);

		out->receive_count = out->send_count;
		break;
	case COLLECTIVE_OP_COUNT:
		break;
	}

	uint64_t more = out->send_count > out->receive_count ? out->send_count : out->receive_count;
	out->bytes = more * size;
	out->moved_bytes = op == COLLECTIVE_HYPERCUBE ? part * (ranks - 1) * size : out->bytes;
	out->shown_count = out->param_count;
}

double collective_algbw(const struct collective_shape *shape, double seconds)
{
	return seconds > 0 ? (double)shape->moved_bytes / 1e9 / seconds : NAN;
}

double collective_busbw(enum collective_op op, const struct collective_shape *shape, uint32_t ranks,
			double seconds)
{
	double others = (double)(ranks - 1), factor = 1;

	if (ranks < 2)
		return NAN;

	switch (op) {
	case COLLECTIVE_ALL_REDUCE:
		factor = 2 * others / ranks;
		break;
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_ALLTOALL:
	case COLLECTIVE_ALLTOALLV:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_SCATTER:
		factor = others / ranks;
		break;
	case COLLECTIVE_BROADCAST:
	case COLLECTIVE_REDUCE:
	case COLLECTIVE_SENDRECV:
	case COLLECTIVE_HYPERCUBE:
	case COLLECTIVE_OP_COUNT:
		break;
	}

	return collective_algbw(shape, seconds) * factor;
}
