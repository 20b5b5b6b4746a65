/* SPDX-License-Identifier: Apache-2.0 */
/* How long it takes to choose, at the sizes and shapes that take longest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "perf/gate.h"
#include "units/allocator.h"

enum bench_limits {
	BENCH_ROUNDS = 1000, /* per size and shape */
	BENCH_BUILDS = 11,   /* likewise, of the tables */
	BENCH_GPUS = 16,
	BENCH_REPLICAS = 48,
};

enum bench_shape { BENCH_UNIFORM, BENCH_DGX2, BENCH_RANDOM, BENCH_SHAPES };
static const char *const bench_shape_name[] = {"uniform", "dgx2", "random"};

static uint64_t bench_random_state = UINT64_C(88172645463325252);

static uint32_t bench_random(uint32_t limit)
{
	bench_random_state ^= bench_random_state << 13;
	bench_random_state ^= bench_random_state >> 7;
	bench_random_state ^= bench_random_state << 17;
	return (uint32_t)((bench_random_state >> 11) % limit);
}

static void bench_shape_make(struct allocator_topology *shape, enum bench_shape kind)
{
	*shape = (struct allocator_topology){.gpu_count = BENCH_GPUS};
	for (uint32_t a = 0; a < BENCH_GPUS; a++) {
		shape->numa[a] = (int32_t)(a / 8);
		for (uint32_t b = 0; b < a; b++) {
			int32_t weight = 10;

			if (kind == BENCH_RANDOM)
				weight = (int32_t)bench_random(700);
			else if (kind == BENCH_DGX2)
				weight = 600 + (a / 2 == b / 2	 ? 50
						: a / 4 == b / 4 ? 40
						: a / 8 == b / 8 ? 30
								 : 10);

			shape->weight[a][b] = shape->weight[b][a] = weight;
		}
	}
}

static void bench_fail(const char *what)
{
	(void)fprintf(stderr, "bench allocator: %s failed\n", what);
	exit(1);
}

/* Nanoseconds of one question for `size` whole GPUs with `must` random ones among them. */
static uint64_t bench_whole(struct allocator *allocator, size_t size, size_t must_count)
{
	struct allocator_unit units[BENCH_GPUS], must[BENCH_GPUS], out[BENCH_GPUS];
	for (uint32_t i = 0; i < BENCH_GPUS; i++)
		units[i] = (struct allocator_unit){.gpu = i};

	uint32_t first = bench_random(BENCH_GPUS);
	for (uint32_t i = 0; i < must_count; i++)
		must[i] = (struct allocator_unit){.gpu = (first + 5 * i) % BENCH_GPUS};

	const struct allocator_question question = {
	    .available = units,
	    .available_count = BENCH_GPUS,
	    .must = must,
	    .must_count = must_count,
	    .size = size,
	};
	uint64_t begin = gate_now_ns();

	if (allocator_prefer(allocator, &question, out, NULL) != (int)size)
		bench_fail("a choice of whole GPUs");

	return gate_now_ns() - begin;
}

/* Median of making all tables for one size, which a change of the machine costs once. */
static double bench_tables(const struct allocator_topology *shape, size_t size)
{
	uint64_t samples[BENCH_BUILDS];

	for (size_t i = 0; i < BENCH_BUILDS; i++) {
		struct allocator *allocator = NULL;
		uint64_t begin = gate_now_ns();

		if (allocator_new(shape, &allocator, NULL) < 0 ||
		    allocator_prepare(allocator, size, NULL) < 0)
			bench_fail("preparing");

		samples[i] = gate_now_ns() - begin;
		(void)allocator_free(allocator);
	}

	return gate_quantile(samples, BENCH_BUILDS, 0.5);
}

static uint64_t bench_shared(struct allocator *allocator, enum allocator_policy policy)
{
	static struct allocator_unit units[BENCH_GPUS * BENCH_REPLICAS], out[BENCH_GPUS];
	uint32_t pool[BENCH_GPUS];
	size_t count = 0;

	for (uint32_t gpu = 0; gpu < BENCH_GPUS; gpu++) {
		pool[gpu] = BENCH_REPLICAS;

		for (uint32_t replica = 0; replica < BENCH_REPLICAS; replica++) {
			if (bench_random(3) > 0)
				units[count++] =
				    (struct allocator_unit){.gpu = gpu, .replica = replica};
		}
	}

	const struct allocator_question question = {
	    .available = units,
	    .available_count = count,
	    .size = 8,
	    .shared = true,
	    .policy = policy,
	    .pool_per_gpu = pool,
	};
	uint64_t begin = gate_now_ns();

	if (allocator_prefer(allocator, &question, out, NULL) != 8)
		bench_fail("a choice of replicas");

	return gate_now_ns() - begin;
}

int main(int argc, char **argv)
{
	struct gate_report *report =
	    gate_open(argc, argv, "allocator",
		      "Preferred allocation on 16 GPUs: every size, 0 to 3 GPUs that must be in.",
		      false, NULL);
	static uint64_t worst[BENCH_ROUNDS], samples[BENCH_ROUNDS];
	double worst_median = 0, worst_build = 0;

	gate_note(report, "shape    size must  median us     p99 us");

	for (int kind = 0; kind < BENCH_SHAPES; kind++) {
		struct allocator_topology shape;
		bench_shape_make(&shape, (enum bench_shape)kind);

		struct allocator *allocator = NULL;
		if (allocator_new(&shape, &allocator, NULL) < 0)
			bench_fail("making an allocator");

		for (size_t size = 1; size <= BENCH_GPUS; size++) {
			double build = bench_tables(&shape, size);
			worst_build = build > worst_build ? build : worst_build;

			for (size_t must = 0; must <= 3 && must <= size; must++) {
				for (size_t i = 0; i < BENCH_ROUNDS; i++)
					samples[i] = bench_whole(allocator, size, must);

				double median = gate_quantile(samples, BENCH_ROUNDS, 0.5);
				gate_note(report, "%-8s %4zu %4zu %10.1f %10.1f",
					  bench_shape_name[kind], size, must, median / 1e3,
					  gate_quantile(samples, BENCH_ROUNDS, 0.99) / 1e3);

				if (median > worst_median) {
					worst_median = median;
					for (size_t i = 0; i < BENCH_ROUNDS; i++)
						worst[i] = samples[i];
				}
			}
		}

		if (kind == BENCH_DGX2) {
			double slowest = 0;

			for (int policy = 0; policy < ALLOCATOR_POLICY_COUNT; policy++) {
				for (size_t i = 0; i < BENCH_ROUNDS; i++)
					samples[i] =
					    bench_shared(allocator, (enum allocator_policy)policy);
				double median = gate_quantile(samples, BENCH_ROUNDS, 0.5);
				slowest = median > slowest ? median : slowest;
			}

			gate_time(report, "prefer_shared_768", slowest, "ms", 1, NULL, 0);
		}

		(void)allocator_free(allocator);
	}

	gate_time(report, "prefer_alloc", worst_median, "ms", 1, worst, BENCH_ROUNDS);
	gate_time(report, "prefer_tables", worst_build, "ms", 15, NULL, 0);
	return gate_close(report);
}
