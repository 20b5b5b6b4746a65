/* SPDX-License-Identifier: Apache-2.0 */
/* When one job could start, of which somebody wants to know whether a change would delay it. */
#include "doors/queue/schedule/schedule.h"

#include <stdlib.h>

#include "doors/queue/schedule/schedule_internal.h"

uint64_t schedule_start_in(struct schedule_machine *machine, const struct job *job,
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
