/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/storage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "bench/storage_fio.h"

enum { STORAGE_NAME_MAX = 64 };

struct storage_run {
	const struct storage_plan *plan;
	struct storage_outcome *out;
	struct reader_set set, against; /* the latter without a directory: none */
	uint64_t done, all;
};

void storage_done(struct storage_outcome *outcome)
{
	for (size_t i = 0; i < outcome->case_count; i++)
		result_done(&outcome->cases[i].runs);
	free(outcome->cases);
	*outcome = (struct storage_outcome){0};
}

/* --- measuring -------------------------------------------------------------------------------- */

static bool storage_go_on(struct storage_run *self, const char *what)
{
	const struct storage_plan *plan = self->plan;
	if (plan->progress)
		plan->progress(what, self->done, self->all, plan->context);
	return !plan->stop || !atomic_load(plan->stop);
}

static int storage_record(struct storage_case *one, const char *side,
			  const struct reader_outcome *outcome, uint64_t index, struct err *err)
{
	struct result_run *run = result_add_run(&one->runs);
	if (!run)
		return err_set(err, -ENOMEM, "no memory for another run");

	double seconds = (double)outcome->took_ns / 1e9;
	const double rate = (double)outcome->bytes / seconds;
	const double reads = (double)outcome->reads / seconds;
	const double p50 = (double)outcome->p50_ns / 1e9, p99 = (double)outcome->p99_ns / 1e9;

	(void)snprintf(run->side, sizeof(run->side), "%s", side); /* fits */
	run->index = index;
	run->block = index / 4;
	run->slot = (uint32_t)(index % 2) + 1;
	run->end_ns = outcome->took_ns; /* it is not known when it began */

	int rc = result_run_add(run, "rate", "bytes/s", true, &rate, 1, err);
	if (rc == 0)
		rc = result_run_add(run, "reads", "1/s", true, &reads, 1, err);
	if (rc == 0)
		rc = result_run_add(run, "p50", "s", false, &p50, 1, err);

	return rc == 0 ? result_run_add(run, "p99", "s", false, &p99, 1, err) : rc;
}

/* One case, once, in one of the directories. */
static int storage_one(struct storage_run *self, struct storage_case *one, bool is_path,
		       uint64_t index, struct err *err)
{
	const struct storage_plan *plan = self->plan;
	const struct reader_set *set = is_path ? &self->set : &self->against;
	const char *side = !plan->against ? "-" : is_path ? "B" : "A";
	struct reader_outcome outcome;
	char what[STORAGE_NAME_MAX];

	(void)snprintf(what, sizeof(what), "%s %s %zu KiB, %u readers",
		       reader_pattern_to_string(one->what.pattern),
		       reader_cache_to_string(one->what.cache), one->what.block >> 10,
		       one->what.readers); /* cut at worst */
	if (!storage_go_on(self, what))
		return err_set(err, -EINTR, "interrupted");

	uint64_t seed = plan->seed + index;
	int rc = plan->fio && storage_fio_can(&one->what)
		     ? storage_fio_run(plan->fio, set, &one->what, plan->time_ns, seed, plan->stop,
				       &outcome, err)
		     : reader_run(set, &one->what, plan->time_ns, seed, plan->stop, &outcome, err);

	self->done++;
	if (rc == -EOPNOTSUPP) {
		one->is_skipped = true;
		(void)snprintf(one->why, sizeof(one->why), "'%.128s': %.100s",
			       is_path ? plan->path : plan->against, err->text); /* cut */
		return 0;
	}

	if (rc < 0)
		return rc;

	self->out->wrong += outcome.wrong;
	return storage_record(one, side, &outcome, index, err);
}

static int storage_round(struct storage_run *self, uint64_t round, struct err *err)
{
	const struct storage_plan *plan = self->plan;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < self->out->case_count; i++) {
		struct storage_case *one = &self->out->cases[i];
		/* A and B in pairs, as verdict_run_is_b() orders them. */
		unsigned runs = plan->against ? 2 : 1;
		for (unsigned k = 0; rc == 0 && k < runs && !one->is_skipped; k++) {
			uint64_t index = runs * round + k;
			bool is_path = runs == 1 || verdict_run_is_b(plan->seed + i, index);
			rc = storage_one(self, one, is_path, index, err);
		}
	}

	return rc;
}

/* --- judging ---------------------------------------------------------------------------------- */

static double storage_median(const struct result *runs, const char *side, const char *metric,
			     double *room)
{
	size_t count = 0;
	for (size_t i = 0; i < runs->run_count; i++)
		if (strcmp(runs->runs[i].side, side) == 0)
			room[count++] = result_run_find(&runs->runs[i], metric)->value;
	return stats_median(room, count);
}

static int storage_judge(const struct storage_plan *plan, struct storage_case *one, struct err *err)
{
	size_t count = one->runs.run_count;
	_cleanup_free_ double *room = calloc(count + 1, sizeof(*room));
	_cleanup_free_ struct verdict_pair *pairs = calloc(count + 1, sizeof(*pairs));
	if (!room || !pairs)
		return err_set(err, -ENOMEM, "no memory for %zu runs", count);

	const char *side = plan->against ? "B" : "-";
	one->rate = storage_median(&one->runs, side, "rate", room);
	one->reads = storage_median(&one->runs, side, "reads", room);
	one->p50 = storage_median(&one->runs, side, "p50", room);
	one->p99 = storage_median(&one->runs, side, "p99", room);

	if (!plan->against)
		return 0;

	one->rate_against = storage_median(&one->runs, "A", "rate", room);
	for (size_t i = 0; i + 1 < count; i += 2) {
		const struct result_run *first = &one->runs.runs[i], *second = first + 1;
		bool b_is_first = strcmp(first->side, "B") == 0;
		const struct result_run *a = b_is_first ? second : first;
		const struct result_run *b = b_is_first ? first : second;

		pairs[i / 2] = (struct verdict_pair){result_run_find(a, "rate")->value,
						     result_run_find(b, "rate")->value, b_is_first};
	}

	struct verdict_question question = {
	    .pairs = pairs, .count = count / 2, .higher_is_better = true, .margin = plan->margin};
	one->has_verdict = true;
	return verdict_make(&question, &one->verdict, err);
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool storage_writes(uint64_t done, uint64_t all, void *context)
{
	struct storage_run *self = context;
	return storage_go_on(self, "writing what is to be read");
}

static int storage_make_sets(struct storage_run *self, struct err *err)
{
	const struct storage_plan *plan = self->plan;
	int rc = reader_set_make(plan->path, plan->bytes, plan->files, plan->file_bytes,
				 storage_writes, self, &self->set, err);
	if (rc == 0 && plan->against)
		rc = reader_set_make(plan->against, plan->bytes, plan->files, plan->file_bytes,
				     storage_writes, self, &self->against, err);
	return rc;
}

static int storage_make_cases(const struct storage_plan *plan, struct storage_outcome *out,
			      struct err *err)
{
	if (plan->case_count == 0 || plan->case_count > STORAGE_CASES_MAX)
		return err_set(err, -EINVAL, "%zu ways to read: 1 to %d are possible",
			       plan->case_count, STORAGE_CASES_MAX);

	out->cases = calloc(plan->case_count, sizeof(*out->cases));
	if (!out->cases)
		return err_set(err, -ENOMEM, "no memory for %zu ways to read", plan->case_count);

	out->case_count = plan->case_count;
	for (size_t i = 0; i < plan->case_count; i++) {
		out->cases[i].what = plan->cases[i];
		result_init(&out->cases[i].runs);
	}

	return 0;
}

int storage_run(const struct storage_plan *plan, struct storage_outcome *out, struct err *err)
{
	*out = (struct storage_outcome){0};
	struct storage_run self = {.plan = plan,
				   .out = out,
				   .all =
				       plan->rounds * plan->case_count * (plan->against ? 2 : 1)};
	int rc = storage_make_cases(plan, out, err);
	if (rc == 0)
		rc = storage_make_sets(&self, err);

	for (uint64_t round = 0; rc == 0 && round < plan->rounds; round++)
		rc = storage_round(&self, round, err);

	reader_set_remove(&self.set);
	reader_set_remove(&self.against);

	for (size_t i = 0; rc == 0 && i < out->case_count; i++)
		if (!out->cases[i].is_skipped)
			rc = storage_judge(plan, &out->cases[i], err);

	return rc;
}
