/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/names.h"
#include "bench/collectives/element.h"
#include "bench/collectives/guard.h"
#include "bench/collectives/pattern.h"
#include "bench/stats.h"

enum {
	CHUNK_BYTES = 1 << 20,		      /* that go to and from memory that is not ours */
	BRACKET_BYTES = PATTERN_PERIOD_BYTES, /* from here on rewriting is left out of the time */
	SEED_CHECKS = 1,		      /* other data than those of the timings */
};

/* One column of one row, on one rank. */
struct measure {
	struct backend *backend;
	const struct measure_plan *plan;
	struct measure_progress *progress; /* NULL */
	struct measure_side *side;
	const struct guard *send_guard, *receive_guard; /* the same one in place */
	bool is_in_place;
	size_t element_bytes;
	uint8_t *send, *receive;
	/* The data of the timings: two, so that what the last operation left is not taken for a
	 * result; and one period of each as this rank gives it. */
	struct pattern patterns[2];
	uint8_t *tiles[2];
	uint8_t *chunk; /* CHUNK_BYTES */
	/* This rank's own findings. */
	uint64_t wrong, wrong_element;
	bool is_source_changed, is_hurt;
	char wrong_text[MEASURE_TEXT_MAX];
};

const char *measure_phase_to_string(enum measure_phase phase)
{
	static const char *const names[MEASURE_PHASE_COUNT] = {
	    [MEASURE_STARTS] = "starts",
	    [MEASURE_ALLOCATES] = "allocates buffers",
	    [MEASURE_WARMS] = "warms up",
	    [MEASURE_STREAM] = "timed back to back",
	    [MEASURE_ISOLATED] = "timed one by one",
	    [MEASURE_CHECKS] = "checked",
	    [MEASURE_ENDS] = "ends",
	};
	return names_at(names, phase, "?");
}

void measure_row_done(struct measure_row *row)
{
	free(row->out_of_place.samples);
	free(row->in_place.samples);
	row->out_of_place.samples = row->in_place.samples = NULL;
}

static void progress_phase(struct measure_progress *progress, enum measure_phase phase)
{
	if (!progress)
		return;
	__atomic_store_n(&progress->operation, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->phase, (uint32_t)phase, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->beat_ns, clock_real_ns(), __ATOMIC_RELAXED);
}

static inline void progress_operation(struct measure_progress *progress)
{
	if (!progress) /* one writer */
		return;
	__atomic_store_n(&progress->operation, progress->operation + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->total, progress->total + 1, __ATOMIC_RELAXED);
}

static size_t larger_bytes(const struct measure_plan *plan)
{
	uint64_t count = plan->shape.send_count > plan->shape.receive_count
			     ? plan->shape.send_count
			     : plan->shape.receive_count;
	size_t bytes;
	return size_mul(count, collective_type_size(plan->type), &bytes) ? bytes : SIZE_MAX;
}

/* One element: what lies there is still aligned for its type. */
static size_t unaligned_by(const struct measure_plan *plan)
{
	return plan->is_unaligned ? collective_type_size(plan->type) : 0;
}

uint64_t measure_memory_bytes(const struct measure_plan *plan)
{
	size_t offset = unaligned_by(plan), send_bytes;
	if (!size_mul(plan->shape.send_count, collective_type_size(plan->type), &send_bytes))
		return UINT64_MAX;

	size_t send = guard_alloc_bytes(send_bytes, offset);
	size_t receive = guard_alloc_bytes(larger_bytes(plan), offset), total;
	if (send == 0 || receive == 0 || !size_add(send, receive, &total) ||
	    !size_add(total, CHUNK_BYTES, &total))
		return UINT64_MAX;

	return total;
}

/* The size of this rank's input. */
static size_t source_bytes(const struct measure *measure)
{
	return pattern_send_count(&measure->patterns[0], measure->backend->rank) *
	       measure->element_bytes;
}

/* Puts the data of the timings into the source again. */
static int rewrite(struct measure *measure, uint32_t which, struct err *err)
{
	size_t bytes = source_bytes(measure);
	const uint8_t *tile = measure->tiles[which];

	if (measure->backend->ops->is_host_memory) {
		for (size_t at = 0; at < bytes; at += PATTERN_PERIOD_BYTES) {
			size_t left = bytes - at;
			memcpy(measure->send + at, tile,
			       left < PATTERN_PERIOD_BYTES ? left : PATTERN_PERIOD_BYTES);
		}

		return 0;
	}

	for (size_t at = 0; at < CHUNK_BYTES && at < bytes; at += PATTERN_PERIOD_BYTES)
		memcpy(measure->chunk + at, tile, PATTERN_PERIOD_BYTES);

	for (size_t at = 0; at < bytes; at += CHUNK_BYTES) {
		size_t left = bytes - at;
		int rc =
		    measure->backend->ops->put(measure->backend, measure->send + at, measure->chunk,
					       left < CHUNK_BYTES ? left : CHUNK_BYTES, err);
		if (rc < 0)
			return err_wrap(err, "writing the source");
	}

	return 0;
}

/* Puts `pattern`, which does not repeat, into the source. */
static int write_source(struct measure *measure, const struct pattern *pattern, struct err *err)
{
	uint32_t rank = measure->backend->rank;
	uint64_t count = pattern_send_count(pattern, rank);
	size_t size = measure->element_bytes, chunk_count = CHUNK_BYTES / size;

	if (measure->backend->ops->is_host_memory) {
		pattern_send(pattern, rank, 0, count, measure->send);
		return 0;
	}

	for (uint64_t at = 0; at < count; at += chunk_count) {
		uint64_t some = count - at < chunk_count ? count - at : chunk_count;
		pattern_send(pattern, rank, at, some, measure->chunk);

		int rc = measure->backend->ops->put(measure->backend, measure->send + at * size,
						    measure->chunk, some * size, err);
		if (rc < 0)
			return err_wrap(err, "writing the source");
	}

	return 0;
}

/* What nobody could take for a result, in all of the buffer of the results. */
static int poison(struct measure *measure, struct err *err)
{
	const struct guard *guard = measure->receive_guard;

	if (measure->backend->ops->is_host_memory) {
		memset(guard->data, GUARD_FILL, guard->bytes);
		return 0;
	}

	memset(measure->chunk, GUARD_FILL, CHUNK_BYTES);

	for (size_t at = 0; at < guard->bytes; at += CHUNK_BYTES) {
		size_t left = guard->bytes - at;
		int rc = measure->backend->ops->put(measure->backend, (uint8_t *)guard->data + at,
						    measure->chunk,
						    left < CHUNK_BYTES ? left : CHUNK_BYTES, err);
		if (rc < 0)
			return err_wrap(err, "clearing the result");
	}

	return 0;
}

/* `bytes` of the backend's memory where this process can read them: there, or a copy in chunk. At
 * most CHUNK_BYTES where they must be copied. */
static int readable(struct measure *measure, const uint8_t *at, size_t bytes, const uint8_t **out,
		    struct err *err)
{
	*out = at;
	if (measure->backend->ops->is_host_memory)
		return 0;

	int rc = measure->backend->ops->get(measure->backend, measure->chunk, at, bytes, err);
	if (rc < 0)
		return err_wrap(err, "reading the result");

	*out = measure->chunk;
	return 0;
}

/* The first wrong element is remembered with what it is and must be. */
static void note_wrong(struct measure *measure, const struct pattern *pattern, bool is_source,
		       uint64_t wrong, uint64_t element, const uint8_t *got)
{
	if (wrong == 0)
		return;

	if (measure->wrong == 0) {
		uint32_t rank = measure->backend->rank;
		uint8_t right[COLLECTIVE_ELEMENT_MAX];
		char is[ELEMENT_TEXT_MAX], must[ELEMENT_TEXT_MAX];

		if (is_source)
			pattern_send(pattern, rank, element, 1, right);
		else
			pattern_receive(pattern, rank, element, 1, right);

		element_print(measure->plan->type, got, is);
		element_print(measure->plan->type, right, must);
		(void)snprintf(measure->wrong_text, sizeof(measure->wrong_text),
			       "is %s, must be %s", is, must);
		measure->wrong_element = element;
		measure->is_source_changed = is_source;
	}

	measure->wrong += wrong;
}

static int compare(struct measure *measure, const struct pattern *pattern, bool is_source,
		   struct err *err)
{
	uint32_t rank = measure->backend->rank;
	size_t size = measure->element_bytes, chunk_count = CHUNK_BYTES / size;
	const uint8_t *from = is_source ? measure->send : measure->receive;
	uint64_t count =
	    is_source ? pattern_send_count(pattern, rank) : pattern_receive_count(pattern, rank);

	for (uint64_t at = 0; at < count; at += chunk_count) {
		uint64_t some = count - at < chunk_count ? count - at : chunk_count, element = 0;
		const uint8_t *got;
		int rc = readable(measure, from + at * size, some * size, &got, err);
		if (rc < 0)
			return rc;

		uint64_t wrong =
		    is_source ? pattern_check_send(pattern, rank, at, some, got, &element)
			      : pattern_check_receive(pattern, rank, at, some, got, &element);
		note_wrong(measure, pattern, is_source, wrong, element,
			   got + (element > at ? element - at : 0) * size);
	}

	return 0;
}

/* The buffer behind a result that is shorter than it. */
static int check_rest(struct measure *measure, const struct pattern *pattern, struct err *err)
{
	uint64_t count = pattern_receive_count(pattern, measure->backend->rank);
	if (measure->is_in_place || count == 0) /* nobody says what only the root has */
		return 0;

	size_t at = count * measure->element_bytes, end = measure->receive_guard->bytes, some;

	for (; at < end && !measure->is_hurt; at += some) {
		const uint8_t *got;

		some = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
		int rc = readable(measure, measure->receive + at, some, &got, err);
		if (rc < 0)
			return rc;

		/* each byte is the one before it, and the first is right */
		measure->is_hurt = got[0] != GUARD_FILL || memcmp(got, got + 1, some - 1) != 0;
	}

	return 0;
}

static int check_guards(struct measure *measure, struct err *err)
{
	bool is_hurt = false, is_other_hurt = false;
	int rc = guard_check(measure->send_guard, &is_hurt, err);
	if (rc >= 0)
		rc = guard_check(measure->receive_guard, &is_other_hurt, err);
	if (rc < 0)
		return rc;

	measure->is_hurt = measure->is_hurt || is_hurt || is_other_hurt;
	return 0;
}

static int run(struct measure *measure, struct err *err)
{
	const struct measure_plan *plan = measure->plan;
	const struct backend_call call = {
	    .op = plan->op,
	    .type = plan->type,
	    .redop = plan->redop,
	    .root = plan->root,
	    .shape = &plan->shape,
	    .send = measure->send,
	    .receive = measure->receive,
	};

	return measure->backend->ops->run(measure->backend, &call, err);
}

static int run_and_sync(struct measure *measure, struct err *err)
{
	int rc = run(measure, err);
	if (rc >= 0)
		rc = measure->backend->ops->sync(measure->backend, err);
	if (rc >= 0)
		progress_operation(measure->progress);
	return rc;
}

/* What its input was is gone after an operation in place. */
static bool rewrites(const struct measure *measure)
{
	return measure->plan->is_dirty || (measure->plan->checks_all && measure->is_in_place);
}

/* Before operation number `i` of a timing. */
static int prepare(struct measure *measure, uint32_t i, struct err *err)
{
	int rc = rewrites(measure) ? rewrite(measure, i & 1, err) : 0;
	if (rc >= 0 && measure->plan->checks_all && !measure->is_in_place)
		rc = poison(measure, err);
	return rc;
}

static int compare_timed(struct measure *measure, uint32_t i, struct err *err)
{
	return compare(measure, &measure->patterns[rewrites(measure) ? i & 1 : 0], false, err);
}

static int warm(struct measure *measure, struct err *err)
{
	progress_phase(measure->progress, MEASURE_WARMS);
	int rc = rewrite(measure, 0, err);
	for (uint32_t i = 0; i < measure->plan->warmups && rc >= 0; i++) {
		if (rewrites(measure))
			rc = rewrite(measure, i & 1, err);
		if (rc >= 0)
			rc = run_and_sync(measure, err);
	}

	return rc;
}

/* Between the operations nobody waits for anybody, but that what they work on is written. */
static int stream_loop(struct measure *measure, uint64_t *out_away_ns, struct err *err)
{
	const struct measure_plan *plan = measure->plan;
	/* To wait for a GPU after every operation would be another measurement. */
	bool checks = plan->checks_all && measure->backend->ops->is_host_memory;
	bool prepares = rewrites(measure) || checks;
	bool is_left_out = source_bytes(measure) >= BRACKET_BYTES || plan->checks_all;
	uint64_t away = 0, from = 0;

	for (uint32_t i = 0; i < plan->iterations; i++) {
		if (prepares) {
			from = is_left_out ? clock_real_ns() : 0;
			int rc = prepare(measure, i, err);
			if (rc < 0)
				return rc;
			away += is_left_out ? clock_real_ns() - from : 0;
		}

		int rc = run(measure, err);
		if (rc < 0)
			return rc;

		progress_operation(measure->progress);
		if (checks) {
			from = clock_real_ns();
			rc = compare_timed(measure, i, err);
			if (rc < 0)
				return rc;
			away += clock_real_ns() - from;
		}
	}

	*out_away_ns = away;
	return 0;
}

static double combine(const struct measure_plan *plan, const double *seconds, uint32_t ranks)
{
	double sum = 0, least = seconds[0], most = seconds[0];
	for (uint32_t r = 0; r < ranks; r++) {
		sum += seconds[r];
		least = fmin(least, seconds[r]);
		most = fmax(most, seconds[r]);
	}

	switch (plan->average) {
	case MEASURE_RANK_0:
		return seconds[0];
	case MEASURE_MIN:
		return least;
	case MEASURE_MAX:
		return most;
	case MEASURE_MEAN:
		break;
	}

	return sum / ranks;
}

static int time_stream(struct measure *measure, struct err *err)
{
	struct backend *backend = measure->backend;
	double all[COLLECTIVE_RANKS_MAX];
	uint64_t away = 0;

	progress_phase(measure->progress, MEASURE_STREAM);
	int rc = backend->ops->barrier(backend, err);
	uint64_t start = clock_real_ns();

	if (rc >= 0)
		rc = stream_loop(measure, &away, err);
	if (rc >= 0)
		rc = backend->ops->sync(backend, err);

	double mine = (double)(clock_real_ns() - start - away) / 1e9 / measure->plan->iterations;

	if (rc >= 0)
		rc = backend->ops->share(backend, &mine, all, sizeof(mine), err);
	if (rc >= 0)
		measure->side->stream = combine(measure->plan, all, backend->ranks);

	return rc;
}

static int isolated_loop(struct measure *measure, uint32_t iterations, double *out, struct err *err)
{
	struct backend *backend = measure->backend;

	for (uint32_t i = 0; i < iterations; i++) {
		int rc = prepare(measure, i, err);
		if (rc >= 0)
			rc = backend->ops->barrier(backend, err);

		uint64_t start = clock_real_ns();

		if (rc >= 0)
			rc = run_and_sync(measure, err);
		out[i] = (double)(clock_real_ns() - start) / 1e9;
		if (rc >= 0 && measure->plan->checks_all)
			rc = compare_timed(measure, i, err);
		if (rc < 0)
			return rc;
	}

	return 0;
}

/* Every rank's times of every iteration to all, in pieces that share() takes. */
static int share_samples(struct measure *measure, const double *mine, uint32_t iterations,
			 double *out, struct err *err)
{
	enum { PIECE = BACKEND_SHARE_MAX / sizeof(double) };
	struct backend *backend = measure->backend;
	uint32_t ranks = backend->ranks;
	_cleanup_free_ double *pieces = malloc((size_t)ranks * PIECE * sizeof(double));
	if (!pieces)
		return err_set(err, -ENOMEM, "no memory for the times of %u ranks", ranks);

	for (uint32_t at = 0; at < iterations; at += PIECE) {
		uint32_t some = iterations - at < PIECE ? iterations - at : PIECE;
		int rc =
		    backend->ops->share(backend, mine + at, pieces, some * sizeof(double), err);
		if (rc < 0)
			return rc;

		for (uint32_t i = 0; i < some; i++)
			for (uint32_t r = 0; r < ranks; r++)
				out[(size_t)(at + i) * ranks + r] = pieces[(size_t)r * some + i];
	}

	return 0;
}

static int time_isolated(struct measure *measure, struct err *err)
{
	uint32_t ranks = measure->backend->ranks, iterations = measure->plan->iterations;
	if (iterations > MEASURE_SAMPLES_MAX / ranks)
		iterations = MEASURE_SAMPLES_MAX / ranks;

	_cleanup_free_ double *mine = calloc(iterations, sizeof(*mine));
	_cleanup_free_ double *all = calloc((size_t)iterations * ranks, sizeof(*all));
	if (!mine || !all)
		return err_set(err, -ENOMEM, "no memory for %u times", iterations);

	progress_phase(measure->progress, MEASURE_ISOLATED);
	int rc = isolated_loop(measure, iterations, mine, err);
	if (rc >= 0)
		rc = share_samples(measure, mine, iterations, all, err);
	if (rc < 0)
		return rc;

	for (uint32_t i = 0; i < iterations; i++) {
		mine[i] = all[(size_t)i * ranks];
		for (uint32_t r = 1; r < ranks; r++)
			mine[i] = fmax(mine[i], all[(size_t)i * ranks + r]);
	}

	measure->side->isolated = stats_median(mine, iterations);
	measure->side->samples = take_ptr(all);
	measure->side->sample_count = (size_t)iterations * ranks;

	return 0;
}

static struct pattern_plan pattern_plan_of(const struct measure *measure, uint64_t seed)
{
	const struct measure_plan *plan = measure->plan;
	return (struct pattern_plan){.op = plan->op,
				     .type = plan->type,
				     .redop = plan->redop,
				     .root = plan->root,
				     .ranks = measure->backend->ranks,
				     .seed = seed};
}

static int check_once(struct measure *measure, uint32_t number, struct err *err)
{
	uint64_t seed = measure->plan->seed + SEED_CHECKS + number * UINT64_C(0x5851f42d4c957f2d);
	struct pattern_plan plan = pattern_plan_of(measure, seed);
	struct pattern pattern;

	pattern_init(&plan, &measure->plan->shape, &pattern);
	int rc = poison(measure, err);
	if (rc >= 0)
		rc = write_source(measure, &pattern, err);
	if (rc >= 0) /* nobody's data are written any more */
		rc = measure->backend->ops->barrier(measure->backend, err);

	if (rc >= 0)
		rc = run_and_sync(measure, err);
	if (rc >= 0)
		rc = compare(measure, &pattern, false, err);
	if (rc >= 0 && !measure->is_in_place)
		rc = compare(measure, &pattern, true, err);
	if (rc >= 0)
		rc = check_rest(measure, &pattern, err);

	/* A late write of another rank is one as well. */
	if (rc >= 0)
		rc = measure->backend->ops->barrier(measure->backend, err);

	return rc < 0 ? rc : check_guards(measure, err);
}

/* What a rank tells the others of its findings. */
struct measure_verdict {
	uint64_t wrong, element;
	uint8_t is_hurt, is_source_changed;
	char text[MEASURE_TEXT_MAX];
};
_Static_assert(sizeof(struct measure_verdict) <= BACKEND_SHARE_MAX, "a verdict fits");

static int share_verdicts(struct measure *measure, struct err *err)
{
	struct backend *backend = measure->backend;
	struct measure_side *side = measure->side;
	_cleanup_free_ struct measure_verdict *all = calloc(backend->ranks, sizeof(*all));
	if (!all)
		return err_set(err, -ENOMEM, "no memory for the findings of %u ranks",
			       backend->ranks);

	struct measure_verdict mine;
	memset(&mine, 0, sizeof(mine)); /* with its gaps: it is sent */
	mine.wrong = measure->wrong;
	mine.element = measure->wrong_element;
	mine.is_hurt = measure->is_hurt;
	mine.is_source_changed = measure->is_source_changed;
	memcpy(mine.text, measure->wrong_text, sizeof(mine.text));

	int rc = backend->ops->share(backend, &mine, all, sizeof(mine), err);
	if (rc < 0)
		return rc;

	for (uint32_t r = 0; r < backend->ranks; r++) {
		const struct measure_verdict *one = &all[r];
		if (one->wrong && side->wrong == 0) {
			side->wrong_rank = r;
			side->wrong_element = one->element;
			side->is_source_changed = one->is_source_changed;
			memcpy(side->wrong_text, one->text, sizeof(side->wrong_text));
		}

		side->wrong += one->wrong;
		if (one->is_hurt && !side->is_guard_hurt)
			side->hurt_rank = r;
		side->is_guard_hurt = side->is_guard_hurt || one->is_hurt;
	}

	return 0;
}

static int check(struct measure *measure, struct err *err)
{
	const struct measure_plan *plan = measure->plan;
	if (plan->checks == 0 && !plan->checks_all)
		return 0;

	progress_phase(measure->progress, MEASURE_CHECKS);

	for (uint32_t i = 0; i < plan->checks; i++) {
		int rc = check_once(measure, i, err);
		if (rc < 0)
			return rc;
	}

	measure->side->is_checked = true;
	return share_verdicts(measure, err);
}

/* Where the operation finds its input and leaves its result: nccl-tests' places. */
static void place_buffers(struct measure *measure)
{
	const struct measure_plan *plan = measure->plan;
	uint8_t *receive = measure->receive_guard->data;
	size_t part =
	    plan->shape.param_count * measure->element_bytes * (size_t)measure->backend->rank;

	measure->send = measure->is_in_place ? receive : measure->send_guard->data;
	measure->receive = receive;
	if (!measure->is_in_place)
		return;

	switch (plan->op) {
	case COLLECTIVE_ALL_GATHER:
	case COLLECTIVE_GATHER:
	case COLLECTIVE_HYPERCUBE:
		measure->send += part;
		break;
	case COLLECTIVE_REDUCE_SCATTER:
	case COLLECTIVE_SCATTER:
		measure->receive += part;
		break;
	default:
		break;
	}
}

static int side_run(struct measure *measure, struct err *err)
{
	const struct measure_plan *plan = measure->plan;
	uint8_t tiles[2][PATTERN_PERIOD_BYTES];

	for (uint32_t i = 0; i < array_length(tiles); i++) {
		struct pattern_plan timed = pattern_plan_of(measure, ~plan->seed - i);
		timed.is_periodic = true;
		pattern_init(&timed, &plan->shape, &measure->patterns[i]);
		pattern_send(&measure->patterns[i], measure->backend->rank, 0,
			     PATTERN_PERIOD_BYTES / measure->element_bytes, tiles[i]);
		measure->tiles[i] = tiles[i];
	}

	place_buffers(measure);
	measure->side->is_there = true;

	int rc = warm(measure, err);
	if (rc >= 0 && plan->has_stream && plan->iterations > 0)
		rc = time_stream(measure, err);
	if (rc >= 0 && plan->has_isolated && plan->iterations > 0)
		rc = time_isolated(measure, err);

	return rc < 0 ? rc : check(measure, err);
}

static int both_sides(struct backend *backend, const struct measure_plan *plan,
		      struct measure_progress *progress, const struct guard guards[2],
		      struct measure_row *out, struct err *err)
{
	_cleanup_free_ uint8_t *chunk = malloc(CHUNK_BYTES);
	if (!chunk)
		return err_set(err, -ENOMEM, "no memory to copy buffers through");

	struct measure measure = {.backend = backend,
				  .plan = plan,
				  .progress = progress,
				  .side = &out->out_of_place,
				  .send_guard = &guards[0],
				  .receive_guard = &guards[1],
				  .element_bytes = collective_type_size(plan->type),
				  .chunk = chunk};
	struct measure in_place = measure;

	in_place.side = &out->in_place;
	in_place.send_guard = &guards[1];
	in_place.is_in_place = true;

	int rc = side_run(&measure, err);
	if (rc >= 0 && collective_op_has_in_place(plan->op))
		rc = side_run(&in_place, err);

	return rc;
}

static void begin(const struct measure_plan *plan, struct measure_progress *progress)
{
	if (!progress)
		return;
	progress_phase(progress, MEASURE_STARTS);
	__atomic_store_n(&progress->total, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->size, plan->shape.bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&progress->op, (uint32_t)plan->op, __ATOMIC_RELAXED);
	progress_phase(progress, MEASURE_ALLOCATES);
}

int measure_run(struct backend *backend, const struct measure_plan *plan,
		struct measure_progress *progress, struct measure_row *out, struct err *err)
{
	*out = (struct measure_row){.plan = *plan,
				    .out_of_place = {.stream = NAN, .isolated = NAN},
				    .in_place = {.stream = NAN, .isolated = NAN}};
	struct guard guards[2] = {{0}};
	size_t send_bytes, offset = unaligned_by(plan);
	if (!size_mul(plan->shape.send_count, collective_type_size(plan->type), &send_bytes))
		return err_set(err, -ENOMEM, "%s of %llu bytes is more than memory can have",
			       collective_op_to_string(plan->op),
			       (unsigned long long)plan->shape.bytes);

	begin(plan, progress);
	int rc = guard_alloc(backend, plan->memory, send_bytes, offset, &guards[0], err);
	if (rc >= 0)
		rc =
		    guard_alloc(backend, plan->memory, larger_bytes(plan), offset, &guards[1], err);
	if (rc >= 0)
		rc = both_sides(backend, plan, progress, guards, out, err);

	if (rc >= 0) /* nobody reads another's buffer any more */
		rc = backend->ops->barrier(backend, err);
	guard_free(&guards[1]);
	guard_free(&guards[0]);

	if (rc < 0) { /* and progress says where */
		measure_row_done(out);
		return err_wrap(err, "%s of %llu bytes", collective_op_to_string(plan->op),
				(unsigned long long)plan->shape.bytes);
	}

	progress_phase(progress, MEASURE_ENDS);
	return 0;
}
