/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run -- COMMAND`: one job, of the command line or of a script with options at its head,
 * from what was typed to its end.
 */
#include "cmd/jobs/run/run_internal.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_export.h"
#include "cmd/jobs/run/run_streams.h"

static int run_export_job(const struct run *run)
{
	struct err err = {0};
	_cleanup_buf_ struct buf text;

	buf_init(&text, RUN_EXPORT_MAX);
	int rc = run_export(&run->request, &text, &err);
	if (rc == -EINVAL)
		return cmd_usage(run->call, "%s", err.text);
	if (rc < 0)
		return cmd_fail(run->call, CMD_EXIT_FAILED, &err);

	fputs(buf_text(&text), stdout);
	return CMD_EXIT_OK;
}

int run_command_send(struct run *run)
{
	struct err err = {0};
	int exit_code = run_head_take(run->call, &run->head);
	if (exit_code != CMD_EXIT_OK)
		return exit_code;

	bool has_head = run->head.has_options;

	run->options = has_head ? &run->head.options : run->options;
	int rc = run_request_make(run->options, has_head ? run->head.argv : run->call->argv,
				  environ, &run->request, &err);
	if (rc == -EINVAL)
		return cmd_usage(run->call, "%s", err.text);
	if (rc < 0)
		return cmd_fail(run->call, CMD_EXIT_FAILED, &err);

	if (run->options->host || run->options->oversubscribe || run->options->worker_command)
		return cmd_usage(run->call, "%s is for jobs of a --file",
				 run->options->host	       ? "--host"
				 : run->options->oversubscribe ? "--oversubscribe"
							       : "--worker-command");

	if (run->options->export)
		return run_export_job(run);

	Sluice__V1__SubmitReply *reply = NULL;
	exit_code = run_ask(run, &run->request, NULL, 0, &reply);
	if (exit_code)
		return exit_code;

	run_set_job(run, reply->id);
	if (!run->options->dry_run && !run->options->pty && !run->options->quiet)
		run_streams_note_input(run->call->path);

	if (run->options->dry_run) {
		exit_code = run_say_dry(reply);
	} else if (run->options->detach) {
		run_streams_number(run->call->path, run->id);
	} else {
		if (run->options->verbose)
			run_say(run, "job %s%s", run->called,
				reply->known ? " was there already under this key" : "");

		exit_code = run->request.wants.array_count > 0
				? run_follow_array(run, run->request.wants.array_count)
				: run_follow(run);
	}

	agent_call_free(reply);
	return exit_code;
}
