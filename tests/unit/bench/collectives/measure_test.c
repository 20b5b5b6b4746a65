/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/measure.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/err.h"
#include "bench/stats.h"
#include "unit/bench/collectives/plain.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"

enum { RANKS = 3 };

struct one_rank {
	struct plain_world *world;
	const struct measure_plan *plan;
	uint32_t rank;
	struct measure_row row;
	struct measure_progress progress;
	int rc;
	struct err err;
};

static struct measure_plan planned(enum collective_op op, uint64_t bytes, uint32_t ranks)
{
	struct measure_plan plan = {.op = op,
				    .type = COLLECTIVE_F32,
				    .redop = COLLECTIVE_SUM,
				    .root = ranks - 1,
				    .warmups = 1,
				    .iterations = 5,
				    .checks = 2,
				    .is_dirty = true,
				    .has_stream = true,
				    .has_isolated = true,
				    .average = MEASURE_MEAN,
				    .seed = 11};
	collective_shape(op, plan.type, bytes, ranks, &plan.shape);
	return plan;
}

static void *one_rank(void *argument)
{
	struct one_rank *one = argument;
	struct backend *backend = plain_backend_new(one->world, one->rank);
	if (!backend) {
		one->rc = -ENOMEM;
		return NULL;
	}
	one->rc = measure_run(backend, one->plan, &one->progress, &one->row, &one->err);
	if (one->rc < 0)
		backend->ops->abort(backend);
	backend->ops->free_backend(backend);
	return NULL;
}

/* The ranks are threads. */
static void run_all(const struct plain_options *options, const struct measure_plan *plan,
		    struct one_rank all[RANKS])
{
	pthread_t threads[RANKS];
	struct plain_world *world = plain_world_new(options);
	assert_non_null(world);
	for (uint32_t r = 0; r < options->ranks; r++) {
		all[r] = (struct one_rank){.world = world, .plan = plan, .rank = r};
		assert_int_equal(pthread_create(&threads[r], NULL, one_rank, &all[r]), 0);
	}
	for (uint32_t r = 0; r < options->ranks; r++)
		assert_int_equal(pthread_join(threads[r], NULL), 0);
	plain_world_free(world);
}

static void done(struct one_rank all[RANKS], uint32_t ranks)
{
	for (uint32_t r = 0; r < ranks; r++)
		if (all[r].rc >= 0)
			measure_row_done(&all[r].row);
}

static void assert_right(const struct measure_side *side)
{
	if (side->wrong)
		fail_msg("rank %u element %llu %s", side->wrong_rank,
			 (unsigned long long)side->wrong_element, side->wrong_text);
	assert_false(side->is_guard_hurt);
	assert_true(side->is_checked);
	assert_true(side->stream >= 0 && side->isolated > 0);
}

static void every_operation_is_measured_and_right(void **state)
{
	static const uint64_t sizes[] = {0, 4, 100, 5000};
	for (int device = 0; device < 2; device++)
		for (int op = 0; op < COLLECTIVE_OP_COUNT; op++)
			for (size_t s = 0; s < 4; s++)
				for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
					struct plain_options options = {.ranks = ranks,
									.is_device = device == 1};
					struct measure_plan plan =
					    planned((enum collective_op)op, sizes[s], ranks);
					struct one_rank all[RANKS];
					plan.checks_all = ranks == 2;
					plan.is_dirty = s != 2;
					plan.is_unaligned = s == 3;
					run_all(&options, &plan, all);
					for (uint32_t r = 0; r < ranks; r++) {
						if (all[r].rc < 0)
							fail_msg("%s", all[r].err.text);
						assert_right(&all[r].row.out_of_place);
						if (all[r].row.in_place.is_there)
							assert_right(&all[r].row.in_place);
						assert_int_equal(all[r].row.in_place.is_there,
								 collective_op_has_in_place(
								     (enum collective_op)op));
					}
					done(all, ranks);
				}
}

/* 700 iterations, the last 188 of which came in a second piece. */
static void assert_summary(const struct measure_side *side)
{
	double slowest[700];
	uint32_t repeated = 0;
	for (uint32_t i = 0; i < 700; i++) {
		slowest[i] = 0;
		for (uint32_t r = 0; r < RANKS; r++)
			slowest[i] = fmax(slowest[i], side->samples[i * RANKS + r]);
		assert_true(slowest[i] > 0);
		for (uint32_t r = 0; r < RANKS && i >= 512; r++)
			repeated +=
			    side->samples[i * RANKS + r] == side->samples[(i - 512) * RANKS + r];
	}
	assert_true(side->isolated == stats_median(slowest, 700));
	assert_true(repeated < 94); /* some times are the same by chance */
}

static void all_ranks_have_the_same_row(void **state)
{
	struct plain_options options = {.ranks = RANKS};
	struct measure_plan plan = planned(COLLECTIVE_ALL_REDUCE, 4096, RANKS);
	struct one_rank all[RANKS];
	plan.iterations = 700; /* more than one piece of times */
	for (int average = 0; average <= MEASURE_MAX; average++) {
		plan.average = (enum measure_average)average;
		run_all(&options, &plan, all);
		for (uint32_t r = 0; r < RANKS; r++) {
			const struct measure_side *side = &all[r].row.out_of_place;
			const struct measure_side *first = &all[0].row.out_of_place;
			assert_int_equal(all[r].rc, 0);
			assert_int_equal(side->sample_count, 700 * RANKS);
			assert_memory_equal(side->samples, first->samples,
					    side->sample_count * sizeof(double));
			assert_true(side->stream == first->stream);
			assert_true(side->isolated == first->isolated);
			assert_summary(side);
			assert_int_equal(all[r].progress.phase, MEASURE_ENDS);
			assert_int_equal(all[r].progress.size, 4096);
		}
		done(all, RANKS);
	}
}

/* The fault shows on all ranks alike, with rank and place. */
static void assert_found(struct plain_options options, struct measure_plan plan, uint64_t wrong,
			 uint64_t element)
{
	struct one_rank all[RANKS];
	options.ranks = RANKS;
	run_all(&options, &plan, all);
	for (uint32_t r = 0; r < RANKS; r++) {
		const struct measure_side *side = &all[r].row.out_of_place;
		assert_int_equal(all[r].rc, 0);
		assert_int_equal(side->wrong, wrong);
		if (wrong) {
			assert_int_equal(side->wrong_rank, options.fault_rank);
			assert_int_equal(side->wrong_element, element);
			assert_int_equal(side->is_source_changed, options.fault == PLAIN_SOURCE);
			assert_non_null(strstr(side->wrong_text, "must be"));
			assert_false(side->is_guard_hurt);
		} else {
			assert_true(side->is_guard_hurt);
			assert_int_equal(side->hurt_rank, options.fault_rank);
		}
	}
	done(all, RANKS);
}

static void mistakes_are_found_and_named(void **state)
{
	struct plain_options options = {.fault_rank = 1, .fault_at = 77};
	for (int device = 0; device < 2; device++) {
		struct measure_plan plan = planned(COLLECTIVE_ALL_REDUCE, 4096, RANKS);
		options.is_device = device == 1;
		options.fault = PLAIN_WRONG_ELEMENT;
		assert_found(options, plan, 2, 77); /* once in each check */
		plan.is_unaligned = true;
		options.fault = PLAIN_SOURCE;
		assert_found(options, plan, 2, 77);
		options.fault = PLAIN_BEFORE;
		assert_found(options, plan, 0, 0);
		options.fault = PLAIN_BEHIND;
		assert_found(options, plan, 0, 0);
		/* in a buffer that is longer than this result */
		assert_found(options, planned(COLLECTIVE_REDUCE_SCATTER, 4096, RANKS), 0, 0);
		options.fault = PLAIN_STALE;
		assert_found(options, plan, 2 * 1024, 0);
	}
}

/* 1 warm-up, 5 back to back, 5 one by one, 2 checks: the checks alone see a fault in them; all
 * operations are seen with checks_all. */
static void a_fault_that_goes_away_is_seen_where_all_is_checked(void **state)
{
	struct measure_plan plan = planned(COLLECTIVE_ALL_REDUCE, 4096, RANKS);
	struct plain_options options = {.fault = PLAIN_STALE, .fault_rank = 2};
	options.fault_operation = 11;
	assert_found(options, plan, 2 * 1024, 0);
	plan.checks_all = true;
	options.fault_operation = 9; /* the last two of the isolated ones, then the checks */
	assert_found(options, plan, 4 * 1024, 0);
	plan.is_dirty = false;
	assert_found(options, plan, 4 * 1024, 0);
	options.fault_operation = 5; /* and the last one of those back to back */
	assert_found(options, plan, 8 * 1024, 0);
}

static void errors_end_all_ranks(void **state)
{
	struct measure_plan plan = planned(COLLECTIVE_BROADCAST, 64, RANKS);
	struct one_rank all[RANKS];
	for (uint64_t operation = 0; operation < 13; operation++) {
		struct plain_options options = {.ranks = RANKS,
						.fault = PLAIN_ERROR,
						.fault_rank = 1,
						.fault_operation = operation};
		run_all(&options, &plan, all);
		assert_int_equal(all[1].rc, -EIO);
		assert_string_equal(all[1].err.text,
				    "broadcast of 64 bytes: rank 1 fails as it was told");
		assert_int_equal(all[0].rc, -EPIPE);
		assert_int_equal(all[2].rc, -EPIPE);
		done(all, RANKS);
	}
	struct plain_options device = {.ranks = 1, .is_device = true};
	plan = planned(COLLECTIVE_BROADCAST, 64, 1);
	plan.memory = BACKEND_REGISTERED;
	run_all(&device, &plan, all);
	assert_int_equal(all[0].rc, -EOPNOTSUPP);
	plan = planned(COLLECTIVE_BROADCAST, 1 << 30, 1);
	run_all(&device, &plan, all);
	assert_int_equal(all[0].rc, -ENOMEM);
}

static void what_is_not_wanted_is_not_done(void **state)
{
	struct plain_options options = {.ranks = 2};
	struct measure_plan plan = planned(COLLECTIVE_ALL_GATHER, 64, 2);
	struct one_rank all[RANKS];
	plan.checks = 0;
	plan.has_stream = false;
	run_all(&options, &plan, all);
	const struct measure_side *side = &all[0].row.in_place;
	assert_true(isnan(side->stream));
	assert_true(side->isolated > 0);
	assert_false(side->is_checked);
	assert_int_equal(all[0].row.plan.shape.bytes, 64);
	done(all, 2);
	plan.has_isolated = false;
	run_all(&options, &plan, all);
	assert_null(all[0].row.in_place.samples);
	assert_true(isnan(all[0].row.in_place.isolated));
	done(all, 2);
}

static void memory_is_known_before(void **state)
{
	struct measure_plan plan = planned(COLLECTIVE_ALL_REDUCE, 1 << 20, 2);
	uint64_t bytes = measure_memory_bytes(&plan);
	assert_true(bytes >= 2 << 20);
	assert_true(bytes <= (4 << 20));
	plan.shape.send_count = UINT64_MAX / 4;
	assert_true(measure_memory_bytes(&plan) == UINT64_MAX);
	plan.shape.send_count = UINT64_MAX;
	assert_true(measure_memory_bytes(&plan) == UINT64_MAX);
}

static int measured_alone(void *context)
{
	struct plain_options options = {.ranks = 1};
	struct measure_plan plan = planned(COLLECTIVE_ALL_GATHER, 4096, 1);
	struct plain_world *world = plain_world_new(&options);
	struct one_rank one = {.world = world, .plan = &plan};
	assert_non_null(world);
	(void)one_rank(&one);
	plain_world_free(world);
	if (one.rc >= 0)
		measure_row_done(&one.row);
	return one.rc;
}

static void memory_may_be_short(void **state)
{
	assert_true(failmalloc_each(measured_alone, NULL) > 5);
}

static void phases_have_names(void **state)
{
	for (int i = 0; i < MEASURE_PHASE_COUNT; i++)
		assert_string_not_equal(measure_phase_to_string((enum measure_phase)i), "?");
	assert_string_equal(measure_phase_to_string(MEASURE_PHASE_COUNT), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_operation_is_measured_and_right),
	    cmocka_unit_test(all_ranks_have_the_same_row),
	    cmocka_unit_test(mistakes_are_found_and_named),
	    cmocka_unit_test(a_fault_that_goes_away_is_seen_where_all_is_checked),
	    cmocka_unit_test(errors_end_all_ranks),
	    cmocka_unit_test(what_is_not_wanted_is_not_done),
	    cmocka_unit_test(memory_is_known_before),
	    cmocka_unit_test(memory_may_be_short),
	    cmocka_unit_test(phases_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
