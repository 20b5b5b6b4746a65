/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run --file`: the jobs of a file, submitted and followed.
 */
#include "cmd/jobs/run/run_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_internal.h"
#include "cmd/jobs/run/run_job.h"
#include "cmd/table.h"

static int run_show_dry(const struct run *run, const struct run_request *request,
			const Sluice__V1__SubmitReply *reply)
{
	struct err err;
	_cleanup_buf_ struct buf text;

	buf_init(&text, RUN_EXPORT_MAX);
	json_auto_t *json =
	    run_job_show(request, &text) == 0 ? json_loads(buf_text(&text), 0, NULL) : NULL;
	_cleanup_free_ char *pretty = table_json_dump(json);
	if (!pretty)
		return cmd_fail(run->call, CMD_EXIT_FAILED,
				(err_set(&err, -ENOMEM, "no memory to show the job"), &err));

	puts(pretty); /* what was not plain is escaped as JSON has it */
	return run_say_dry(reply);
}

/* What the agent would refuse is found before anything of the file is accepted. */
static int run_try_file(struct run *run, const struct run_file *file, struct run_job *jobs)
{
	int exit_code = 0;

	for (size_t i = 0, n = run_file_count(file); exit_code == 0 && n > 1 && i < n; i++) {
		Sluice__V1__SubmitReply *reply = NULL;
		jobs[i].request.message.dry_run = true;
		exit_code = run_ask(run, &jobs[i].request, file, i, &reply);
		jobs[i].request.message.dry_run = false;
		agent_call_free(reply);
	}

	return exit_code;
}

static int run_submit_file(struct run *run, const struct run_file *file, struct run_job *jobs)
{
	int exit_code = run->options->dry_run ? 0 : run_try_file(run, file, jobs);

	for (size_t i = 0; exit_code == 0 && i < run_file_count(file); i++) {
		Sluice__V1__SubmitReply *reply = NULL;
		exit_code = run_ask(run, &jobs[i].request, file, i, &reply);
		if (exit_code == 0 && run->options->dry_run)
			exit_code = run_show_dry(run, &jobs[i].request, reply);
		else if (exit_code == 0)
			exit_code = run_accepted(run, reply, run_file_members(file, i));

		agent_call_free(reply);
	}

	return exit_code ? exit_code : run_follow_all(run);
}

/* Everything in the file is understood before anything of it is asked for. */
int run_file_send(struct run *run)
{
	struct err err = {0};
	struct run_file *file = NULL;

	if (run_file_check(run->options, run->call->argv, &err) < 0)
		return cmd_usage(run->call, "%s", err.text);

	int rc = run_file_load(run->options, &file, &err);
	size_t count = rc == 0 ? run_file_count(file) : 0, made = 0;
	struct run_job *jobs = calloc(count + 1, sizeof(*jobs));
	if (!jobs)
		rc = err_set(&err, -ENOMEM, "no memory for the jobs");

	while (rc == 0 && made < count) {
		rc = run_file_make(file, made, &jobs[made], &err);
		made++;
	}

	int exit_code = rc == 0		? 0
			: rc == -ENOMEM ? cmd_fail(run->call, CMD_EXIT_FAILED, &err)
					: cmd_fail(run->call, CMD_EXIT_DATA, &err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		run_file_tell(file, i, run->call);

	if (rc == 0)
		exit_code = run_submit_file(run, file, jobs);

	for (size_t i = 0; i < made; i++)
		run_job_done(&jobs[i]);

	free(jobs);
	(void)run_file_free(file);
	return exit_code;
}
