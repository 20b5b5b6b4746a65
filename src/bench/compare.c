/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/compare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bench/fingerprint.h"
#include "bench/runner.h"

enum {
	COMPARE_NAMES_MAX = 256,
	COMPARE_DIFFERENCES_MAX = 1 << 20,
	COMPARE_DISTURBED_PERMILLE = 10, /* of the time of a run */
};

#define COMPARE_NS_PER_S UINT64_C(1000000000)
/* hw_slowdown, sw_thermal, hw_thermal, hw_power_brake: snapshot_throttle_to_string(). That the
 * power limit is reached is how GPUs run under load. */
#define COMPARE_GPU_SLOWED                                                                         \
	(UINT32_C(1) << 3 | UINT32_C(1) << 5 | UINT32_C(1) << 6 | UINT32_C(1) << 7)

void compare_init(struct compare_outcome *outcome)
{
	*outcome = (struct compare_outcome){.looks = 1};
	result_init(&outcome->calibration);
	result_init(&outcome->runs);
}

void compare_done(struct compare_outcome *outcome)
{
	result_done(&outcome->calibration);
	result_done(&outcome->runs);
	free(outcome->differences);
	outcome->differences = NULL;
}

bool compare_is_disturbed(const struct result_run *run)
{
	uint64_t took_us = (run->end_ns - run->start_ns) / 1000;
	uint64_t lost_us = run->steal_ms * 1000 + run->throttled_us;
	return lost_us * 1000 > took_us * COMPARE_DISTURBED_PERMILLE ||
	       (run->gpu_throttle & COMPARE_GPU_SLOWED) != 0;
}

/* --- running ---------------------------------------------------------------------------------- */

struct compare {
	const struct compare_plan *plan;
	struct compare_outcome *out;
	uint64_t done, all; /* runs */
};

static void compare_rest(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / COMPARE_NS_PER_S),
				.tv_nsec = (long)(ns % COMPARE_NS_PER_S)};
	(void)nanosleep(&left, NULL); /* a signal ends it, and the next run sees that */
}

static int compare_set_up(const char *command, const char *side, struct err *err)
{
	struct result_run run;

	if (!command)
		return 0;

	result_run_init(&run);
	int rc = runner_run(&(struct runner_options){.command = command}, &run, err);
	if (rc == 0 && result_run_failed(&run))
		rc = err_set(err, -ECANCELED, "the setup of %s failed (%d): %.*s", side, run.rc,
			     (int)strcspn(run.tail, "\n"), run.tail);

	result_run_done(&run);
	return rc;
}

/* One run of a side; `run` is where it is kept. */
static int compare_one(struct compare *self, const char *what, bool is_b, struct result_run *run,
		       struct err *err)
{
	const struct compare_plan *plan = self->plan;
	if (plan->progress)
		plan->progress(what, self->done, self->all, plan->context);
	if (plan->cooldown_ns > 0 && self->done > 0)
		compare_rest(plan->cooldown_ns);

	int rc = compare_set_up(is_b ? plan->setup_b : plan->setup_a, is_b ? "B" : "A", err);
	if (rc < 0)
		return rc;

	struct runner_options options = {.command = is_b ? plan->b : plan->a,
					 .result_path = plan->result_path,
					 .timeout_ns = plan->timeout_ns,
					 .line = plan->line,
					 .line_higher_is_better = plan->line_higher_is_better,
					 .is_nccl_table = plan->is_nccl_table,
					 .is_mllog = plan->is_mllog,
					 .shows_output = plan->shows_output};
	rc = runner_run(&options, run, err);
	self->done++;

	if (rc == 0 && plan->look)
		plan->look(run, plan->context);

	return rc;
}

static int compare_warm_up(struct compare *self, struct err *err)
{
	for (uint64_t i = 0; i < 2 * self->plan->warmups; i++) {
		struct result_run run;
		result_run_init(&run);

		bool is_b = i % 2 == 1;
		int rc = compare_one(self, "warming up", is_b, &run, err);
		if (rc == 0 && result_run_failed(&run))
			rc = err_set(
			    err, -ECANCELED, "%s fails, before anything was measured: %s %d%s%.*s",
			    is_b ? "B" : "A", run.timed_out ? "too long, killed," : "exit code",
			    run.rc, run.tail[0] ? ": " : "", (int)strcspn(run.tail, "\n"),
			    run.tail);

		result_run_done(&run);
		if (rc < 0)
			return rc;
	}

	return 0;
}

/* Runs from the first that is missing up to `pairs`. `is_same`: both sides are A. */
static int compare_fill(struct compare *self, struct result *into, uint64_t pairs, bool is_same,
			struct err *err)
{
	const struct compare_plan *plan = self->plan;
	/* The two plans have nothing in common. */
	uint64_t seed = is_same ? ~plan->seed : plan->seed;

	for (uint64_t i = into->run_count; i < 2 * pairs; i++) {
		struct result_run *run = result_add_run(into);
		if (!run)
			return err_set(err, -ENOMEM, "no memory for run %zu", into->run_count);

		bool is_b = verdict_run_is_b(seed, i);
		(void)snprintf(run->side, sizeof(run->side), "%s",
			       !is_b	 ? "A"
			       : is_same ? "A2"
					 : "B"); /* fits */
		run->index = i;
		run->block = i / VERDICT_BLOCK;
		run->slot = (uint32_t)(i % 2) + 1;

		int rc = compare_one(self, is_same ? "A against itself" : "A against B",
				     is_b && !is_same, run, err);
		if (rc < 0) {
			result_run_done(run); /* it says nothing */
			into->run_count--;
			return rc;
		}
	}

	return 0;
}

/* --- judging ---------------------------------------------------------------------------------- */

/* "wall, cpu, rss" of a run. */
static void compare_names(const struct result_run *run, char out[COMPARE_NAMES_MAX])
{
	size_t length = 0;
	out[0] = '\0';
	for (size_t i = 0; i < run->metric_count && length < COMPARE_NAMES_MAX - 1; i++)
		length += (size_t)snprintf(out + length, COMPARE_NAMES_MAX - length, "%s%s",
					   i ? ", " : "", run->metrics[i].name);
}

static int compare_missing(const struct result_run *run, const char *metric, struct err *err)
{
	char names[COMPARE_NAMES_MAX];
	compare_names(run, names);
	if (run->problem[0])
		return err_set(err, -EINVAL, "run %llu of %s has no metric '%s': %.120s",
			       (unsigned long long)run->index + 1, run->side, metric, run->problem);
	return err_set(err, -EINVAL, "run %llu of %s has no metric '%s'; it has %s",
		       (unsigned long long)run->index + 1, run->side, metric, names);
}

/* What is to be judged of pairs of runs: `a[i]` beside `b[i]`. */
struct compare_pairs {
	const struct result_run **a, **b; /* owned lists of borrowed runs */
	bool *b_is_first;		  /* owned */
	size_t count;
};

static void compare_pairs_done(struct compare_pairs *pairs)
{
	free(pairs->a);
	free(pairs->b);
	free(pairs->b_is_first);
}

static int compare_pairs_init(struct compare_pairs *pairs, size_t count, struct err *err)
{
	*pairs = (struct compare_pairs){.a = calloc(count + 1, sizeof(*pairs->a)),
					.b = calloc(count + 1, sizeof(*pairs->b)),
					.b_is_first = calloc(count + 1, sizeof(*pairs->b_is_first)),
					.count = count};
	if (pairs->a && pairs->b && pairs->b_is_first)
		return 0;

	compare_pairs_done(pairs);
	return err_set(err, -ENOMEM, "no memory for %zu pairs", count);
}

/* Two runs after each other are a pair. */
static int compare_pairs_of(const struct result *runs, struct compare_pairs *out, struct err *err)
{
	int rc = compare_pairs_init(out, runs->run_count / 2, err);
	for (size_t i = 0; rc == 0 && i < out->count; i++) {
		const struct result_run *first = &runs->runs[2 * i], *second = first + 1;
		out->b_is_first[i] = strcmp(first->side, "A") != 0;
		out->a[i] = out->b_is_first[i] ? second : first;
		out->b[i] = out->b_is_first[i] ? first : second;
	}

	return rc;
}

static double compare_median(const struct result_run *const *runs, size_t count, const char *metric,
			     double *room)
{
	for (size_t i = 0; i < count; i++)
		room[i] = result_run_find(runs[i], metric)->value;
	return stats_median(room, count);
}

/* A time to train is speed and convergence at once: without the latter it cannot be read. */
static bool compare_can_read(const struct result_run *run, const char *metric)
{
	return strcmp(metric, "time_to_train") != 0 || result_run_find(run, "epochs") ||
	       result_run_find(run, "samples_to_target");
}

static int compare_judge_metric(const struct compare_pairs *pairs, const char *metric,
				double margin, unsigned looks, struct compare_judgement *out,
				struct err *err)
{
	_cleanup_free_ struct verdict_pair *values = calloc(pairs->count + 1, sizeof(*values));
	_cleanup_free_ double *room = calloc(pairs->count + 1, sizeof(*room));
	if (!values || !room)
		return err_set(err, -ENOMEM, "no memory for %zu pairs", pairs->count);

	for (size_t i = 0; i < pairs->count; i++) {
		const struct result_metric *a = result_run_find(pairs->a[i], metric);
		const struct result_metric *b = result_run_find(pairs->b[i], metric);
		if (!a || !b)
			return compare_missing(a ? pairs->b[i] : pairs->a[i], metric, err);

		if (!compare_can_read(pairs->a[i], metric) ||
		    !compare_can_read(pairs->b[i], metric))
			return err_set(err, -EINVAL,
				       "time_to_train is speed and convergence at once: each run "
				       "has to say its epochs or samples_to_target as well");

		values[i] = (struct verdict_pair){a->value, b->value, pairs->b_is_first[i]};
		out->is_unsteady = out->is_unsteady || a->is_unsteady || b->is_unsteady;
		out->higher_is_better = a->higher_is_better;
		(void)snprintf(out->unit, sizeof(out->unit), "%s", a->unit); /* as long */
	}

	(void)snprintf(out->metric, sizeof(out->metric), "%.*s", RESULT_NAME_MAX - 1, metric);
	struct verdict_question question = {.pairs = values,
					    .count = pairs->count,
					    .higher_is_better = out->higher_is_better,
					    .margin = margin,
					    .looks = looks};
	int rc = verdict_make(&question, &out->verdict, err);
	if (rc < 0)
		return err_wrap(err, "the metric '%s'", metric);

	out->median_a = compare_median(pairs->a, pairs->count, metric, room);
	out->median_b = compare_median(pairs->b, pairs->count, metric, room);
	return 0;
}

/* A difference that is none for so many metrics is taken back. */
static int compare_correct(struct compare_outcome *out, struct err *err)
{
	double p[COMPARE_METRICS_MAX];
	for (size_t i = 0; i < out->judgement_count; i++)
		p[i] = out->judgements[i].verdict.p;

	int rc = stats_holm(p, out->judgement_count, err);

	for (size_t i = 0; rc == 0 && i < out->judgement_count; i++) {
		struct compare_judgement *judgement = &out->judgements[i];
		struct verdict *verdict = &judgement->verdict;

		judgement->p_corrected = p[i];
		if (out->judgement_count == 1 || p[i] <= 0.05)
			continue;

		verdict->excludes_zero = false;
		if (verdict->kind == VERDICT_SLOWER || verdict->kind == VERDICT_FASTER)
			verdict->kind = VERDICT_INCONCLUSIVE;
		else if (verdict->kind == VERDICT_DIFFERENT_BUT_SMALL)
			verdict->kind = VERDICT_EQUIVALENT;
	}

	return rc;
}

static void compare_look_for_failures(struct compare_outcome *out, const struct result *runs)
{
	for (size_t i = 0; i < runs->run_count; i++) {
		const struct result_run *run = &runs->runs[i];
		out->disturbed_runs += compare_is_disturbed(run);
		out->gpu_throttle |= run->gpu_throttle;

		if (!result_run_failed(run))
			continue;

		out->failed_runs++;
		out->failure = out->failure ? out->failure : run;
	}
}

static int compare_calibrate(struct compare_outcome *out, double margin, struct err *err)
{
	struct compare_pairs pairs;
	int rc = compare_pairs_of(&out->calibration, &pairs, err);

	for (size_t i = 0; rc == 0 && i < out->judgement_count; i++) {
		struct compare_judgement *judgement = &out->judgements[i], same = {0};
		rc = compare_judge_metric(&pairs, judgement->metric, margin, 1, &same, err);
		if (rc < 0)
			break;

		judgement->has_calibration = true;
		judgement->calibration = same.verdict;
		if (verdict_calibration_fails(&same.verdict, margin, &judgement->resolution))
			judgement->verdict.kind = VERDICT_REFUSED;
	}

	compare_pairs_done(&pairs);
	return rc;
}

static int compare_judge(struct compare_outcome *out, const struct compare_pairs *pairs,
			 double margin, const char *const *metrics, size_t count, struct err *err)
{
	int rc = 0;

	out->judgement_count = 0;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct compare_judgement judgement = {.p_corrected = 1};
		rc = compare_judge_metric(pairs, metrics[i], margin, out->looks, &judgement, err);
		if (rc == 0)
			out->judgements[out->judgement_count++] = judgement;
	}

	if (rc == 0)
		rc = compare_correct(out, err);
	if (rc == 0 && out->calibration.run_count > 0)
		rc = compare_calibrate(out, margin, err);

	return rc;
}

static int compare_judge_plan(const struct compare_plan *plan, struct compare_outcome *out,
			      struct err *err)
{
	struct compare_pairs pairs;
	int rc = compare_pairs_of(&out->runs, &pairs, err);
	if (rc < 0)
		return rc;

	out->failed_runs = out->disturbed_runs = 0;
	out->failure = NULL;
	compare_look_for_failures(out, &out->calibration);
	compare_look_for_failures(out, &out->runs);

	if (out->failed_runs == 0)
		rc = compare_judge(out, &pairs, plan->margin, plan->metrics, plan->metric_count,
				   err);

	compare_pairs_done(&pairs);
	return rc;
}

static int compare_check_pairs(const struct result *runs, struct err *err)
{
	for (size_t i = 0; i + 1 < runs->run_count; i += 2)
		if (strcmp(runs->runs[i].side, runs->runs[i + 1].side) == 0)
			return err_set(err, -EINVAL,
				       "runs %zu and %zu are of the same side '%s': this is no "
				       "recorded comparison",
				       i + 1, i + 2, runs->runs[i].side);
	return 0;
}

int compare_again(const struct compare_plan *plan, struct compare_outcome *out, struct err *err)
{
	int rc = compare_check_pairs(&out->runs, err);
	if (rc == 0 && (rc = compare_check_pairs(&out->calibration, err)) < 0)
		return err_wrap(err, "calibration");
	if (rc < 0)
		return rc;
	out->is_simulated = fingerprint_is_simulated(out->runs.fingerprint);
	return compare_judge_plan(plan, out, err);
}

/* How many pairs a second look wants: what the least certain metric needs. */
static uint64_t compare_more(const struct compare_plan *plan, const struct compare_outcome *out)
{
	uint64_t wanted = plan->pairs;
	for (size_t i = 0; i < out->judgement_count; i++) {
		const struct verdict *verdict = &out->judgements[i].verdict;
		if (verdict->kind == VERDICT_INCONCLUSIVE && verdict->pairs_equivalent > wanted)
			wanted = verdict->pairs_equivalent;
	}
	return wanted < plan->max_pairs ? wanted : plan->max_pairs;
}

int compare_run(const struct compare_plan *plan, struct compare_outcome *out, struct err *err)
{
	struct compare self = {.plan = plan, .out = out};

	out->looks = plan->max_pairs > plan->pairs ? 2 : 1;
	self.all = 2 * plan->warmups + 2 * plan->pairs * (plan->calibrates ? 2 : 1);

	int rc = compare_warm_up(&self, err);
	if (rc == 0 && plan->calibrates)
		rc = compare_fill(&self, &out->calibration, plan->pairs, true, err);
	if (rc == 0)
		rc = compare_fill(&self, &out->runs, plan->pairs, false, err);
	if (rc == 0)
		rc = compare_judge_plan(plan, out, err);

	if (rc == 0 && plan->max_pairs > plan->pairs && out->failed_runs == 0 &&
	    compare_kind(out) == VERDICT_INCONCLUSIVE) {
		uint64_t pairs = compare_more(plan, out);
		self.all += 2 * (pairs - plan->pairs);
		rc = compare_fill(&self, &out->runs, pairs, false, err);
		if (rc == 0)
			rc = compare_judge_plan(plan, out, err);
	}

	return rc;
}

/* Where the two were measured. */
static int compare_places(const struct result *a, const struct result *b,
			  struct compare_outcome *out, struct err *err)
{
	struct buf text _cleanup_buf_;

	buf_init(&text, COMPARE_DIFFERENCES_MAX);
	if (!a->fingerprint || !b->fingerprint)
		return 0;

	int rc = fingerprint_differences(a->fingerprint, b->fingerprint, &text, NULL, err);
	if (rc < 0 || text.length == 0)
		return rc;

	out->differences = strdup(buf_text(&text));
	return out->differences ? 0 : err_set(err, -ENOMEM, "no memory for the differences");
}

int compare_recorded(const struct result *a, const struct result *b, double margin,
		     const char *const *metrics, size_t metric_count, struct compare_outcome *out,
		     struct err *err)
{
	struct compare_pairs pairs;

	if (a->run_count != b->run_count)
		return err_set(err, -EINVAL,
			       "A has %zu runs and B has %zu: the same number is wanted",
			       a->run_count, b->run_count);

	int rc = compare_pairs_init(&pairs, a->run_count, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < pairs.count; i++) {
		pairs.a[i] = &a->runs[i];
		pairs.b[i] = &b->runs[i];
		pairs.b_is_first[i] = i % 2; /* nobody was: neither side has the advantage */
	}

	out->is_simulated =
	    fingerprint_is_simulated(a->fingerprint) || fingerprint_is_simulated(b->fingerprint);
	compare_look_for_failures(out, a);
	compare_look_for_failures(out, b);

	if (out->failed_runs == 0)
		rc = compare_judge(out, &pairs, margin, metrics, metric_count, err);

	for (size_t i = 0; i < out->judgement_count; i++)
		out->judgements[i].is_unpaired = true;

	compare_pairs_done(&pairs);
	return rc < 0 ? rc : compare_places(a, b, out, err);
}

enum verdict_kind compare_kind(const struct compare_outcome *outcome)
{
	/* From the gravest on. */
	static const enum verdict_kind order[] = {
	    VERDICT_REFUSED,	  VERDICT_TOO_FEW, VERDICT_SLOWER,
	    VERDICT_INCONCLUSIVE, VERDICT_FASTER,  VERDICT_DIFFERENT_BUT_SMALL,
	    VERDICT_EQUIVALENT,
	};

	if (outcome->failed_runs > 0)
		return VERDICT_FAILED;

	for (size_t i = 0; i < array_length(order); i++)
		for (size_t j = 0; j < outcome->judgement_count; j++)
			if (outcome->judgements[j].verdict.kind == order[i])
				return order[i];

	return VERDICT_TOO_FEW;
}
