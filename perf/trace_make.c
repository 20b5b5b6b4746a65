/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator. Jobs are drawn until their work is LOAD of what the GPUs can do in a week:
 *   width    1, 2, 4 or 8 GPUs, with 60, 20, 13 and 7 percent
 *   user     one of 12, number k with a weight of 1/k
 *   name     one of the user's 4
 *   time     a bounded Pareto (exponent 0.9, from 2 minutes to 20 hours), of which half, by the
 * name, is the same for all jobs of the name and half is the job's own: geometric mean limit    the
 * time times 1.2 to 4, rounded up to a quarter of an hour arrival  within the week by a daily
 * cycle: six times as many at 14 o'clock as at 2, a third of that at the weekend
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf/trace.h"

#define LOAD	   0.75
#define SHAPE	   0.9
#define SHORTEST_S 120.0
#define LONGEST_S  72000.0
#define QUARTER_S  900

struct trace_random {
	uint64_t state;
};

/* splitmix64: below 1. */
static double trace_random(struct trace_random *random)
{
	uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static double trace_pareto(struct trace_random *random)
{
	double low = pow(SHORTEST_S, SHAPE), high = pow(LONGEST_S, SHAPE);
	double u = trace_random(random);
	return pow(-(u * high - u * low - high) / (high * low), -1 / SHAPE);
}

/* Of the hour of a week that begins on a Monday: at most 1. */
static double trace_cycle(double second)
{
	double day = second / 86400;
	double hour = (day - floor(day)) * 24;
	double share = (1 + 5 * (1 + cos((hour - 14) * 2 * M_PI / 24)) / 2) / 6;
	return day >= 5 ? share / 3 : share;
}

static double trace_arrival(struct trace_random *random)
{
	double second;
	do
		second = trace_random(random) * TRACE_WEEK_S;
	while (trace_random(random) > trace_cycle(second));
	return second;
}

static uint32_t trace_user(struct trace_random *random)
{
	double sum = 0;
	for (uint32_t user = 0; user < TRACE_USERS; user++)
		sum += 1.0 / (user + 1);

	double left = trace_random(random) * sum;
	uint32_t user = 0;
	while (user < TRACE_USERS - 1 && (left -= 1.0 / (user + 1)) > 0)
		user++;
	return user;
}

static uint32_t trace_width(struct trace_random *random)
{
	double u = trace_random(random);
	return u < 0.60 ? 1 : u < 0.80 ? 2 : u < 0.93 ? 4 : 8;
}

static int trace_compare(const void *left, const void *right)
{
	const struct trace_job *a = left, *b = right;
	return a->arrives_s < b->arrives_s ? -1 : a->arrives_s > b->arrives_s;
}

int trace_make(struct trace *out, uint64_t seed)
{
	struct trace_random random = {.state = seed};
	double scale[TRACE_USERS][TRACE_NAMES], work = 0;
	size_t room = 0;

	*out = (struct trace){.count = 0};
	for (uint32_t user = 0; user < TRACE_USERS; user++)
		for (uint32_t name = 0; name < TRACE_NAMES; name++)
			scale[user][name] = trace_pareto(&random);

	while (work < LOAD * TRACE_GPUS * TRACE_WEEK_S) {
		if (out->count == room) {
			room = room ? 2 * room : 256;
			struct trace_job *jobs = reallocarray(out->jobs, room, sizeof(*jobs));
			if (!jobs)
				return -ENOMEM;
			out->jobs = jobs;
		}

		struct trace_job *job = &out->jobs[out->count++];

		*job = (struct trace_job){.user = trace_user(&random),
					  .name = (uint32_t)(trace_random(&random) * TRACE_NAMES),
					  .gpus = trace_width(&random)};
		job->runs_s = (uint64_t)sqrt(scale[job->user][job->name] * trace_pareto(&random));

		double limit_s = (double)job->runs_s * (1.2 + 2.8 * trace_random(&random));

		job->limit_s = ((uint64_t)limit_s / QUARTER_S + 1) * QUARTER_S;
		job->arrives_s = (uint64_t)trace_arrival(&random);
		work += (double)job->runs_s * job->gpus;
	}

	qsort(out->jobs, out->count, sizeof(*out->jobs), trace_compare);
	return 0;
}

void trace_done(struct trace *trace)
{
	free(trace->jobs);
	*trace = (struct trace){.count = 0};
}

double trace_utilisation(const struct trace *trace)
{
	double busy = 0;

	for (size_t i = 0; i < trace->count; i++) {
		const struct trace_job *job = &trace->jobs[i];
		uint64_t end_s = job->started_s + job->runs_s;
		uint64_t until_s = end_s < TRACE_WEEK_S ? end_s : TRACE_WEEK_S;
		if (until_s > job->started_s)
			busy += (double)(until_s - job->started_s) * job->gpus;
	}

	return busy / TRACE_GPUS / TRACE_WEEK_S;
}
