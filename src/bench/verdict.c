/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/verdict.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"

#define VERDICT_ALPHA 0.05

static const char *const verdict_names[] = {
    [VERDICT_EQUIVALENT] = "EQUIVALENT",
    [VERDICT_DIFFERENT_BUT_SMALL] = "DIFFERENT-BUT-SMALL",
    [VERDICT_SLOWER] = "SLOWER",
    [VERDICT_FASTER] = "FASTER",
    [VERDICT_INCONCLUSIVE] = "INCONCLUSIVE",
    [VERDICT_TOO_FEW] = "TOO-FEW",
    [VERDICT_FAILED] = "FAILED",
    [VERDICT_REFUSED] = "REFUSED",
};

const char *verdict_to_string(enum verdict_kind kind)
{
	return names_at(verdict_names, kind, "?");
}

/* --- the order -------------------------------------------------------------------------------- */

bool verdict_pair_is_ba(uint64_t seed, uint64_t i)
{
	/* Two numbers, so that seeds 1 and 2 have nothing in common. */
	struct stats_random random = {.state = seed};
	random.state = stats_random_next(&random) + i / 2;
	bool begins_with_b = stats_random_next(&random) & 1;
	return begins_with_b != (i % 2 == 1);
}

bool verdict_run_is_b(uint64_t seed, uint64_t i)
{
	return verdict_pair_is_ba(seed, i / 2) != (i % 2 == 1);
}

/* --- the verdict ------------------------------------------------------------------------------ */

static double verdict_from_log(double value)
{
	return expm1(value);
}

static struct stats_interval verdict_interval(struct stats_interval logs)
{
	return (struct stats_interval){verdict_from_log(logs.low), verdict_from_log(logs.high)};
}

static int verdict_check(const struct verdict_question *question, struct err *err)
{
	if (!(question->margin > 0) || !(question->margin < 1))
		return err_set(err, -EINVAL,
			       "a margin of %g %% cannot be meant: more than 0, less "
			       "than 100",
			       question->margin * 100);

	for (size_t i = 0; i < question->count; i++) {
		const struct verdict_pair *pair = &question->pairs[i];
		if (!(pair->a > 0) || !(pair->b > 0) || !isfinite(pair->a) || !isfinite(pair->b))
			return err_set(err, -EINVAL,
				       "pair %zu is %g and %g: only values above 0 can be compared",
				       i + 1, pair->a, pair->b);
	}

	return 0;
}

/* Mann and Kendall's test of each side in the order of time. */
static void verdict_look_for_trends(const struct verdict_question *question, double *room,
				    struct verdict *out)
{
	for (size_t i = 0; i < question->count; i++)
		room[i] = question->pairs[i].a;
	out->trend_a = stats_trend(room, question->count);
	for (size_t i = 0; i < question->count; i++)
		room[i] = question->pairs[i].b;
	out->trend_b = stats_trend(room, question->count);
}

/* Whether the second of a pair has it worse, or better, because it is the second. */
static int verdict_look_at_slots(const double *logs, const struct verdict_question *question,
				 double *room, struct verdict *out, struct err *err)
{
	for (size_t i = 0; i < question->count; i++)
		room[i] = question->pairs[i].b_is_first ? -logs[i] : logs[i];

	out->slot_effect = verdict_from_log(stats_mean(room, question->count));
	stats_sort(room, question->count);

	struct stats_interval within;
	int rc = stats_interval(room, question->count, 1 - VERDICT_ALPHA, &within, err);
	if (rc < 0)
		return rc;

	out->slot_within_95 = verdict_interval(within);
	out->by_blocks = within.low > 0 || within.high < 0;
	return 0;
}

/* The means of the two pairs of each block; a pair that is left over does not count. */
static size_t verdict_to_blocks(double *logs, size_t count)
{
	for (size_t i = 0; i + 1 < count; i += 2)
		logs[i / 2] = (logs[i] + logs[i + 1]) / 2;
	return count / 2;
}

static enum verdict_kind verdict_judge(const struct verdict *self, double margin,
				       struct stats_interval within_90,
				       struct stats_interval within_95)
{
	double delta = log1p(margin);
	bool is_small = within_90.low > -delta && within_90.high < delta;

	if (is_small)
		return self->excludes_zero ? VERDICT_DIFFERENT_BUT_SMALL : VERDICT_EQUIVALENT;
	if (within_95.low > delta)
		return VERDICT_SLOWER;
	if (within_95.high < -delta)
		return VERDICT_FASTER;

	return VERDICT_INCONCLUSIVE;
}

/* `logs`: of the pairs or blocks; sorted here. */
static int verdict_conclude(const struct verdict_question *question, double *logs, size_t count,
			    struct verdict *out, struct err *err)
{
	unsigned looks = question->looks > 1 ? question->looks : 1;
	double alpha = VERDICT_ALPHA / looks;
	struct stats_interval within_90, within_95;

	out->units = count;
	out->geometric_mean = verdict_from_log(stats_mean(logs, count));
	out->deviation = stats_deviation(logs, count);

	int rc = stats_signed_rank(logs, count, &out->p, err);
	if (rc < 0)
		return rc;

	stats_sort(logs, count);
	out->estimate = verdict_from_log(stats_location(logs, count));
	rc = stats_interval(logs, count, 1 - alpha, &within_95, err);
	if (rc == 0)
		rc = stats_interval(logs, count, 1 - 2 * alpha, &within_90, err);

	if (rc == -ERANGE) {
		out->kind = VERDICT_TOO_FEW;
		return 0;
	}

	if (rc < 0)
		return rc;

	out->excludes_zero = within_95.low > 0 || within_95.high < 0;
	out->kind = verdict_judge(out, question->margin, within_90, within_95);
	out->within_90 = verdict_interval(within_90);
	out->within_95 = verdict_interval(within_95);

	size_t each = out->by_blocks ? 2 : 1;
	double delta = log1p(question->margin);

	out->pairs_equivalent = stats_pairs_equivalent(out->deviation, delta);
	out->pairs_one_sided = stats_pairs_one_sided(out->deviation, delta);
	if (out->pairs_equivalent < SIZE_MAX / 2)
		out->pairs_equivalent *= each;
	if (out->pairs_one_sided < SIZE_MAX / 2)
		out->pairs_one_sided *= each;

	return 0;
}

int verdict_make(const struct verdict_question *question, struct verdict *out, struct err *err)
{
	struct verdict verdict = {.kind = VERDICT_TOO_FEW, .p = 1, .trend_a = 1, .trend_b = 1};
	int rc = verdict_check(question, err);
	if (rc < 0)
		return rc;

	_cleanup_free_ double *logs = calloc(question->count + 1, sizeof(*logs));
	_cleanup_free_ double *room = calloc(question->count + 1, sizeof(*room));
	if (!logs || !room)
		return err_set(err, -ENOMEM, "no memory for %zu pairs", question->count);

	for (size_t i = 0; i < question->count; i++) {
		const struct verdict_pair *pair = &question->pairs[i];
		logs[i] =
		    question->higher_is_better ? log(pair->a / pair->b) : log(pair->b / pair->a);
	}

	size_t count = question->count;
	if (count < VERDICT_PAIRS_MIN) {
		verdict.units = count;
		*out = verdict;
		return 0;
	}

	verdict_look_for_trends(question, room, &verdict);
	rc = verdict_look_at_slots(logs, question, room, &verdict, err);
	if (rc == 0 && verdict.by_blocks)
		count = verdict_to_blocks(logs, count);
	if (rc == 0)
		rc = verdict_conclude(question, logs, count, &verdict, err);

	if (rc == 0)
		*out = verdict;

	return rc;
}

bool verdict_calibration_fails(const struct verdict *self, double margin, double *out_half_width)
{
	*out_half_width = (self->within_95.high - self->within_95.low) / 2;
	return self->kind == VERDICT_TOO_FEW || self->excludes_zero || *out_half_width > margin;
}
