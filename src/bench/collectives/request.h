/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of a run of the collectives: nccl-tests' options with their meanings, and ours.
 * Made of what stood on the command line and in the environment; says which rows that are. Pure;
 * knows nothing of how options are parsed, and of no backend.
 *
 * Source: https://github.com/NVIDIA/nccl-tests, README.md and src/common.cu (2.19).
 */
#ifndef SLUICE_BENCH_COLLECTIVES_REQUEST_H
#define SLUICE_BENCH_COLLECTIVES_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/collectives/measure.h"

struct err;

enum request_limits {
	REQUEST_SIZES_MAX = 65536, /* of one operation */
	REQUEST_ITERATIONS_MAX = 1000000,
	REQUEST_WARMUPS_MAX = 1000000,
	REQUEST_TEXT_MAX = 64,	/* bytes of a size or a split */
	REQUEST_SEED_BITS = 53, /* what every reader of JSON keeps */
};

enum request_backend {
	REQUEST_BACKEND_AUTO,
	REQUEST_BACKEND_SHM,
	REQUEST_BACKEND_MPI,
	REQUEST_BACKEND_NCCL,
};
enum request_timing { REQUEST_TIMING_STREAM, REQUEST_TIMING_ISOLATED, REQUEST_TIMING_BOTH };
enum request_switch { REQUEST_ON, REQUEST_OFF, REQUEST_AS_USUAL };
enum request_format { REQUEST_FORMAT_NCCL, REQUEST_FORMAT_JSON, REQUEST_FORMAT_TEXT };
enum request_memory {
	REQUEST_MEMORY_PRIVATE,
	REQUEST_MEMORY_REGISTERED,
	REQUEST_MEMORY_AS_USUAL, /* what -R says */
};

/* As they stood on the command line, their ranges checked where they are plain numbers. Texts are
 * borrowed. */
struct request_options {
	const char *min_bytes, *max_bytes, *step_bytes; /* NULL: not given */
	const char *check, *redop, *type, *root, *json, *expect;
	const char *library;  /* NULL: the usual one of the backend */
	uint32_t step_factor; /* 0: not given */
	uint32_t threads, gpus, iterations, warmups, aggregated, cycles, average;
	uint32_t parallel_init, blocking, graph, cpu_time, timestamps, registers, implementation,
	    ctas, memory_report, unaligned, per_iteration, skip, null_stream, cta_policy;
	uint32_t timeout_s; /* 0: none */
	uint32_t ranks;	    /* 0: not given */
	enum request_backend backend;
	enum request_timing timing;
	enum request_switch dirty;
	enum request_format format;
	enum request_memory memory;
	double min_busbw, max_latency_us; /* 0: not given */
	uint64_t seed;			  /* 0: a new one */
	bool allow_single, quiet;
};

/* Into which groups the ranks fall, each of which does the operations by itself. */
enum request_split_kind {
	REQUEST_SPLIT_NONE,
	REQUEST_SPLIT_AND,
	REQUEST_SPLIT_OR,
	REQUEST_SPLIT_MOD,
	REQUEST_SPLIT_DIV,
};
struct request_split {
	enum request_split_kind kind;
	uint32_t value;
};

struct request {
	struct request_options options; /* of which those below are read no more */
	bool ops[COLLECTIVE_OP_COUNT], types[COLLECTIVE_TYPE_COUNT], redops[COLLECTIVE_REDOP_COUNT];
	bool all_roots;
	uint32_t root;
	uint64_t min_bytes, max_bytes, step_bytes; /* step_bytes 0: by options.step_factor */
	uint32_t ranks; /* what was asked for, by --ranks or -t and -g; 0: nothing */
	uint32_t checks;
	bool checks_all;
	enum backend_memory memory;
	struct request_split split;
	double min_average; /* NCCL_TESTS_MIN_BW, GB/s; 0: none */
};

/*
 * `words`: operations, "all", or none (all_reduce). With `has_unknown`, words that begin with a
 * digit are values of options that nobody knows, and left out. `environment` ends in NULL; of it
 * NCCL_TESTS_SPLIT, NCCL_TESTS_SPLIT_MASK and NCCL_TESTS_MIN_BW are read. -EINVAL: the message
 * names the option and what it takes.
 */
int request_make(const struct request_options *options, char *const *words, size_t word_count,
		 bool has_unknown, char *const *environment, struct request *out, struct err *err);

/* "8", "1.5k", "256M", "16GiB", "1T": bytes; all suffixes are powers of 1024, in any case. -EINVAL,
 * -ERANGE: 2^50 and above. */
int request_size_parse(const char *text, uint64_t *out);
/* NCCL_TESTS_SPLIT: AND, OR, MOD or DIV (&, |, %, /) and a number, decimal, 0x or 0b. -EINVAL. */
int request_split_parse(const char *text, struct request_split *out);
/* The group of a rank. */
uint32_t request_split_color(const struct request_split *split, uint32_t rank);
/* How many groups there are. */
uint32_t request_split_groups(const struct request_split *split, uint32_t ranks);

/* How many sizes each operation goes through: 1 to REQUEST_SIZES_MAX. */
uint64_t request_size_count(const struct request *request);
uint64_t request_size(const struct request *request, uint64_t index);

/*
 * Row number `index` for `ranks` ranks: by operation, then type, reduction, root, size; then once
 * more for -N. 1: `out` is filled but for its seed, is_dirty and is_unaligned being what was asked
 * for with `dirty` where that is as usual; 0: there is no such row. Rows that cannot be
 * (hypercube over ranks that are no power of two) are left out.
 */
int request_row(const struct request *request, uint32_t ranks, bool dirty, uint64_t index,
		struct measure_plan *out);
/* Rows of one cycle. */
uint64_t request_row_count(const struct request *request, uint32_t ranks);
/* Whether an operation that was asked for is left out. */
bool request_skips(const struct request *request, enum collective_op op, uint32_t ranks);
/* The most that one rank needs for the buffers of a row, guards included; UINT64_MAX: too many. */
uint64_t request_memory_bytes(const struct request *request, uint32_t ranks);

#endif
