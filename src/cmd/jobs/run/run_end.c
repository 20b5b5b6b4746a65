/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the job of `sluice run` ended: the report, what the exit code alone does not say, and the
 * exit code.
 */
#include "cmd/jobs/run/run_internal.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "cmd/cmd.h"
#include "cmd/jobs/run/run_streams.h"

/* False: it could not be written, which is said. */
static bool run_report(struct run *run, const Sluice__V1__Job *job)
{
	struct err err = {0};
	const char *path = run->options->report;
	int rc = path ? run_streams_report(&run->agent, path, job, &err) : 0;
	if (rc < 0)
		run_say(run, "the report was not written: %s", err.text);
	return rc == 0;
}

/* How it ended, where the exit code alone does not say it. */
static void run_say_end(const struct run *run, const Sluice__V1__Job *job)
{
	char reason[JOB_TEXT_MAX], time[JOB_TEXT_TIME_MAX];
	const char *advice = job_text_advice(job);
	bool is_own = strcmp(job->reason, "ExitCode") == 0 || strcmp(job->reason, "Signal") == 0;

	(void)job_text_reason(job, reason);
	if (!is_own && reason[0])
		run_say(run, "job %s %s: %s%s%s", run->called,
			job->state == SLUICE__V1__JOB_STATE__CANCELLED	 ? "was cancelled"
			: job->state == SLUICE__V1__JOB_STATE__SUCCEEDED ? "succeeded"
									 : "failed",
			reason, *advice ? ": " : "", advice);

	if (!run->options->verbose || !job->attempt || job->attempt->started_unix_ns == 0)
		return;

	(void)job_text_duration(job_text_elapsed_ns(job, 0), time);
	if (job->signal)
		run_say(run, "job %s ran %s and was ended by signal %" PRIu32 " (%s)", run->called,
			time, job->signal, strsignal((int)job->signal));
	else
		run_say(run, "job %s ran %s and exited with %" PRId32, run->called, time,
			job->exit_code);

	if (job->attempt->killed_leftovers)
		run_say(run, "%" PRIu32 " process%s that it left had to be killed",
			job->attempt->killed_leftovers,
			job->attempt->killed_leftovers == 1 ? "" : "es");
}

int run_leave(struct run *run)
{
	job_terminal_end(&run->terminal, NULL);
	run_say(run, "%s job %s, which goes on: 'sluice attach %s' comes back",
		run->terminal.has_left ? "left" : "no longer at the terminal of", run->called,
		run->called);
	return CMD_EXIT_OK;
}

int run_end(struct run *run)
{
	const Sluice__V1__Job *job = job_follow_job(run->follow);

	if (run->options->pty)
		job_terminal_end(&run->terminal, run->over && !run->failed ? job : NULL);

	if (run->stop_signal && !run->over) {
		run_say(run,
			"job %s goes on: 'sluice logs -f %s"
			"' shows its output, 'sluice cancel %s' ends it",
			run->called, run->called, run->called);
		return 128 + run->stop_signal;
	}

	if (run->failed || !job) {
		const struct err *err = job_follow_error(run->follow);
		return cmd_fail(run->call, agent_call_exit_code(&run->agent, err->code), err);
	}

	bool is_kept = run_report(run, job) && strcmp(job->reason, "OutputLost") != 0;
	bool ran = job->attempt && job->attempt->started_unix_ns != 0;
	bool cancelled = job->state == SLUICE__V1__JOB_STATE__CANCELLED;

	if (cancelled && !ran && run->gave_up) {
		run_say(run, "gave up waiting, job %s is cancelled", run->called);
		return run->options->no_wait ? CMD_EXIT_WOULD_WAIT : CMD_EXIT_DEADLINE;
	}

	run_say_end(run, job);
	if (cancelled && !job->has_exit && run->interrupts)
		return RUN_EXIT_INTERRUPTED;

	int exit_code = job_text_exit_code(job);

	return exit_code == CMD_EXIT_OK && !is_kept ? CMD_EXIT_CANNOT_WRITE : exit_code;
}
