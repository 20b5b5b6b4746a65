/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the verdicts of `sluice bench compare` are as reliable as they say: many comparisons of
 * made-up runs whose truth is known. Nothing is run and no machine is involved but for the times of
 * the analysis itself.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/err.h"
#include "perf/gate.h"
#include "bench/verdict.h"

enum {
	COMPARE_TRIALS = 10000,
	COMPARE_PAIRS = 20,
	COMPARE_MANY = 10000,
	COMPARE_POWER_TRIALS = 2000,
};

#define COMPARE_MARGIN 0.01

enum noise { NOISE_NORMAL, NOISE_LOGNORMAL, NOISE_DRIFTING, NOISE_COUNT };
static const char *const noise_names[NOISE_COUNT] = {"normal", "lognormal", "drifting"};

/* What one run takes: 1 but for the noise; `at` goes from 0 to 1 in the course of a comparison. */
static double compare_run(enum noise noise, double deviation, double at,
			  struct stats_random *random)
{
	double x = stats_random_normal(random);

	switch (noise) {
	case NOISE_LOGNORMAL: /* with a long tail: exp(2 z), brought to the same deviation */
		return 1 + deviation * (exp(x) - exp(0.5)) / 2.16;
	case NOISE_DRIFTING: /* 10 deviations slower at the end */
		return 1 + deviation * (x + 10 * at);
	default:
		return 1 + deviation * x;
	}
}

static void compare_make(struct verdict_pair *pairs, size_t count, double ratio, enum noise noise,
			 double deviation, struct stats_random *random)
{
	uint64_t seed = stats_random_next(random);

	for (size_t i = 0; i < count; i++) {
		double first = compare_run(noise, deviation, (2.0 * i) / (2.0 * count), random);
		double second =
		    compare_run(noise, deviation, (2.0 * i + 1) / (2.0 * count), random);

		pairs[i].b_is_first = verdict_pair_is_ba(seed, i);
		pairs[i].a = pairs[i].b_is_first ? second : first;
		pairs[i].b = ratio * (pairs[i].b_is_first ? first : second);
	}
}

struct compare_tally {
	size_t trials, excludes, covers, equivalent, worse;
};

static struct compare_tally compare_trials(size_t trials, size_t pairs, double ratio,
					   enum noise noise, double deviation)
{
	static struct verdict_pair room[COMPARE_MANY];
	struct stats_random random = {.state = 20260101 + noise};
	struct compare_tally tally = {.trials = trials};

	for (size_t i = 0; i < trials; i++) {
		struct verdict verdict;
		struct err err = {0};

		compare_make(room, pairs, ratio, noise, deviation, &random);
		struct verdict_question question = {
		    .pairs = room, .count = pairs, .margin = COMPARE_MARGIN};
		if (verdict_make(&question, &verdict, &err) < 0)
			abort();

		bool covers =
		    verdict.within_95.low <= ratio - 1 && ratio - 1 <= verdict.within_95.high;
		tally.covers += covers;
		tally.excludes += verdict.excludes_zero;
		tally.equivalent += verdict.kind == VERDICT_EQUIVALENT ||
				    verdict.kind == VERDICT_DIFFERENT_BUT_SMALL;
		tally.worse += verdict.within_90.low > 0;
	}

	return tally;
}

static double percent(size_t part, size_t whole)
{
	return 100 * (double)part / (double)whole;
}

static void compare_same(struct gate_report *report)
{
	for (int noise = 0; noise < NOISE_COUNT; noise++) {
		struct compare_tally tally =
		    compare_trials(COMPARE_TRIALS, COMPARE_PAIRS, 1, noise, 0.01);
		char name[40];

		gate_note(
		    report,
		    "the same on both sides, %s noise of 1 %%, %d pairs, %d trials: a difference "
		    "is seen in %.2f %%, the 95 %% interval covers the truth in %.2f %%",
		    noise_names[noise], COMPARE_PAIRS, COMPARE_TRIALS,
		    percent(tally.excludes, tally.trials), percent(tally.covers, tally.trials));
		(void)snprintf(name, sizeof(name), "compare_false_%s", noise_names[noise]);
		gate_value(report, name, percent(tally.excludes, tally.trials), "%", GATE_AT_MOST,
			   5);

		if (noise == NOISE_DRIFTING)
			continue;

		(void)snprintf(name, sizeof(name), "compare_covers_%s", noise_names[noise]);
		gate_value(report, name, percent(tally.covers, tally.trials), "%", GATE_AT_LEAST,
			   94);
	}
}

/* The margin is the difference: to call that the same is the error that TOST bounds. */
static void compare_false_equivalent(struct gate_report *report)
{
	struct compare_tally tally =
	    compare_trials(COMPARE_TRIALS, COMPARE_PAIRS, 1 + COMPARE_MARGIN, NOISE_NORMAL, 0.005);
	gate_value(report, "compare_false_equivalent", percent(tally.equivalent, tally.trials), "%",
		   GATE_AT_MOST, 5);
}

/* A difference is there, with as many pairs as are said to show it: that B is worse, which is a
 * matter of one side (the lower end of the 90 % interval). */
static void compare_power(struct gate_report *report)
{
	static const double differences[] = {0.005, 0.01, 0.02};
	const double deviation = 0.01;

	for (size_t i = 0; i < array_length(differences); i++) {
		size_t pairs = stats_pairs_one_sided(deviation * M_SQRT2, log1p(differences[i]));
		struct compare_tally tally = compare_trials(
		    COMPARE_POWER_TRIALS, pairs, 1 + differences[i], NOISE_NORMAL, deviation);
		char name[40];

		(void)snprintf(name, sizeof(name), "compare_power_%g", differences[i] * 1000);
		gate_note(report, "B worse by %g %%, noise of 1 %%, %zu pairs: seen in %.1f %%",
			  differences[i] * 100, pairs, percent(tally.worse, tally.trials));
		gate_value(report, name, percent(tally.worse, tally.trials) / 100, "",
			   GATE_AT_LEAST, 0.75);
	}
}

static void compare_large(struct gate_report *report)
{
	uint64_t began = gate_now_ns();
	(void)compare_trials(1, COMPARE_MANY, 1, NOISE_NORMAL, 0.01);
	struct rusage usage;
	(void)getrusage(RUSAGE_SELF, &usage); /* cannot fail */
	gate_time(report, "compare_10k", (double)(gate_now_ns() - began), "ms", 2000, NULL, 1);
	gate_value(report, "compare_memory", (double)usage.ru_maxrss / 1024, "MiB", GATE_AT_MOST,
		   64);
}

int main(int argc, char **argv)
{
	struct gate_report *report = gate_open(
	    argc, argv, "compare",
	    "Compares made-up runs whose truth is known, many times over, and counts how\n"
	    "often the verdict is wrong.",
	    false, NULL);
	compare_large(report);
	compare_same(report);
	compare_false_equivalent(report);
	compare_power(report);

	return gate_close(report);
}
