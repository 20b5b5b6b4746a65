/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals while `sluice run` waits for its job: Ctrl-C is passed on, and a second one cancels the
 * job; SIGTERM and SIGHUP end this program, not the job.
 */
#include "cmd/jobs/run/run_internal.h"

#include <errno.h>
#include <signal.h>

#include "base/err.h"
#include "base/loop.h"

#define RUN_SECOND_NS UINT64_C(2000000000) /* a second Ctrl-C within this cancels */

static void run_on_interrupt(void *context)
{
	struct run *run = context;
	uint64_t now_ns = loop_now_ns(run->agent.loop);
	bool again = run->interrupts > 0 && now_ns - run->interrupt_ns <= RUN_SECOND_NS;

	run->interrupts = again ? run->interrupts + 1 : 1;
	run->interrupt_ns = now_ns;
	if (!run->follow || run->is_array)
		return; /* the submission, or who follows, looks at it */
	if (!again)
		job_follow_signal(run->follow, SIGINT);
	else
		job_follow_cancel(run->follow, run->interrupts > 2, 0);

	if (run->interrupts == 2 && !run->options->quiet)
		run_say(run, "cancelling job %s (Ctrl-C again: kill it now)", run->called);
}

static void run_on_terminate(void *context)
{
	((struct run *)context)->stop_signal = SIGTERM;
}

static void run_on_hangup(void *context)
{
	((struct run *)context)->stop_signal = SIGHUP;
}

/* Who started us with a signal ignored (nohup, a script's background) wants it to stay so. */
static int run_watch_signal(struct run *run, int signo, loop_callback callback,
			    struct loop_signal **out, struct err *err)
{
	struct sigaction before;
	if (sigaction(signo, NULL, &before) == 0 && before.sa_handler == SIG_IGN)
		return 0;
	*out = loop_signal_new(run->agent.loop, signo, callback, run, err);
	return *out ? 0 : -ENOMEM;
}

int run_watch_signals(struct run *run, struct err *err)
{
	/* Our end would not be the job's, but its exit code would be lost: not for a message that
	 * nobody reads. */
	(void)signal(SIGPIPE, SIG_IGN); /* cannot fail for this one */
	int rc = run_watch_signal(run, SIGINT, run_on_interrupt, &run->interrupt, err);
	if (rc == 0)
		rc = run_watch_signal(run, SIGTERM, run_on_terminate, &run->terminate, err);
	if (rc == 0)
		rc = run_watch_signal(run, SIGHUP, run_on_hangup, &run->hangup, err);

	return rc;
}
