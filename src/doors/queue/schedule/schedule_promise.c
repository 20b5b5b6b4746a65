/* SPDX-License-Identifier: Apache-2.0 */
/* When a job could start, and whether a change would delay one for which GPUs are reserved. */
#include "doors/queue/schedule/schedule.h"

#include <stdlib.h>

#include "base/clock.h"
#include "doors/queue/schedule/schedule_internal.h"

/* In how long there are devices for the job at the earliest, if all that run end as they say;
 * SCHEDULE_NEVER: not known. */
static uint64_t promise_start(struct schedule_machine *machine, const struct job *job,
			      const struct schedule_running *running, size_t count)
{
	struct job one = *job; /* its texts are lent */
	struct schedule_state state = {.machine = machine, .job = &one};
	struct schedule_plan plan = {.opens_ns = SCHEDULE_NEVER};

	one.pledged_ns = 0; /* all that runs counts, also what has started since its pledge */
	int rc = schedule_want_make(machine, job, &state.want, NULL);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = schedule_ahead_add(&state, &running[i]);
	if (rc == 0)
		schedule_ahead_devices(&state, &plan);

	free(state.guests);
	free(state.ends);
	return plan.opens_ns;
}

void schedule_promises_add(struct schedule_promises *promises, const struct job *job)
{
	if (job->state != JOB_PENDING || job->gpus == 0 || job->pledged_ns == 0)
		return;
	if (promises->count < SCHEDULE_PROMISES_MAX)
		promises->jobs[promises->count++] = job;
}

/* Less than a second is nothing by itself. But two that are extended by turns would add it up: the
 * promise stays where it is. */
static bool promise_is_broken(const struct job *job, uint64_t now_ns, uint64_t at_ns,
			      uint64_t then_ns)
{
	if (at_ns == SCHEDULE_NEVER || then_ns <= at_ns)
		return false;

	return then_ns - at_ns >= CLOCK_NS_PER_S || job->promise_ns == SCHEDULE_NEVER ||
	       now_ns + then_ns >= job->promise_ns + CLOCK_NS_PER_S;
}

bool schedule_promises_delayed(struct schedule_promises *promises, struct schedule_machine *machine,
			       struct schedule_running *running, size_t count, size_t which,
			       uint64_t left_ns, struct schedule_delay *out)
{
	uint64_t before_ns = running[which].left_ns;
	bool is_delayed = false;

	for (size_t i = 0; !is_delayed && i < promises->count; i++) {
		const struct job *job = promises->jobs[i];

		promises->reckoned += 2;
		uint64_t at_ns = promise_start(machine, job, running, count);
		running[which].left_ns = left_ns;
		uint64_t then_ns = promise_start(machine, job, running, count);
		running[which].left_ns = before_ns;

		is_delayed = promise_is_broken(job, promises->now_ns, at_ns, then_ns);
		if (is_delayed)
			*out = (struct schedule_delay){job, at_ns, then_ns};
	}

	return is_delayed;
}
