/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of a file or of lines that were accepted: their numbers are printed at once, and they
 * are followed one after the other once all were submitted.
 */
#include "cmd/jobs/run/run_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/err.h"
#include "base/loop.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_streams.h"

int run_accepted(struct run *run, const Sluice__V1__SubmitReply *reply, uint32_t members)
{
	struct err err;

	run_streams_number(run->call->path, reply->id);
	if (array_room(&run->accepted, run->accepted_count, &run->accepted_room, 16) < 0)
		return cmd_fail(run->call, CMD_EXIT_FAILED,
				(err_set(&err, -ENOMEM, "no memory to stay with the jobs"), &err));

	run->accepted[run->accepted_count++] =
	    (struct run_accepted){.id = reply->id, .members = members};
	return 0;
}

int run_follow_all(struct run *run)
{
	int exit_code = 0;

	for (size_t i = 0; i < run->accepted_count && !run->options->detach; i++) {
		uint32_t members = run->accepted[i].members;

		run->follow = job_follow_free(run->follow);
		run->wait_timer = loop_timer_free(run->wait_timer);
		run->over = run->failed = run->told_gpus = run->gave_up = false;
		run->is_array = run->is_cancelling = false;
		run->waits_for[0] = '\0';
		run_set_job(run, run->accepted[i].id);

		int one = members > 0 ? run_follow_array(run, members) : run_follow(run);
		exit_code = exit_code ? exit_code : one;
		if (run->stop_signal)
			return exit_code;

		run_lines_note(run, &run->accepted[i], one);
	}

	run_lines_tell(run);
	return exit_code;
}
