/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run` in several files: one call of it, and what its parts share. run.c is the command;
 * each other file stands below with its functions. Nobody else includes this.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_INTERNAL_H
#define SLUICE_CMD_JOBS_RUN_RUN_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/jobs/job_follow.h"
#include "cmd/jobs/job_terminal.h"
#include "cmd/jobs/job_text.h"
#include "cmd/script/run_head.h"
#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_request.h"
#include "cmd/service/agent_call.h"
#include "sluice.pb-c.h"

struct cmd_call;
struct err;
struct run_file;
struct run_lines;

enum {
	RUN_EXIT_INTERRUPTED = 128 + SIGINT,
	RUN_EXPORT_MAX = 4 << 20, /* bytes of a job that is shown */
	RUN_COMMAND_SHOWN = 64,	  /* bytes of a line that is named */
	RUN_FAILURES_MAX = 20,	  /* lines that are named; of more only how many */
};

/* What was asked for and not yet followed. */
struct run_accepted {
	uint64_t id;
	uint32_t members; /* of an array; 0: it is none */
	uint64_t line;	  /* of --lines, it was there; 0: it was not */
	char command[RUN_COMMAND_SHOWN];
};

/* One of --lines that has failed. */
struct run_failure {
	struct run_accepted accepted;
	char why[JOB_TEXT_MAX];
};

/* One call, from the options to the end of the job. */
struct run {
	const struct cmd_call *call;
	const struct run_options *options;
	struct agent_call agent;
	struct agent_call_options how;
	struct run_request request; /* of the command line */
	struct run_head head;	    /* of the script that it names */
	const struct run_request *asked;
	struct run_accepted *accepted; /* owned */
	size_t accepted_count, accepted_room;
	struct run_failure *failures; /* owned; NULL: none yet */
	size_t failure_count;
	uint64_t id, array_id;
	char called[JOB_TEXT_LABEL_MAX]; /* the job at hand, "17" or "17.3" */

	struct loop_signal *interrupt, *terminate, *hangup;
	struct loop_timer *wait_timer;
	unsigned interrupts; /* Ctrl-C, so often */
	uint64_t interrupt_ns;
	int stop_signal; /* it ends us, not the job */

	struct job_follow *follow;
	struct job_terminal terminal; /* with --pty */
	char waits_for[JOB_TEXT_MAX]; /* what was said last */
	bool over, failed, told_gpus, told_port, gave_up, lost;
	bool is_array, is_cancelling; /* its members are followed one after the other */
};

/* --- run.c ------------------------------------------------------------------------------------ */

/* A line for people, on standard error, after the command's name. */
void run_say(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The job at hand is this one from now on. */
void run_set_job(struct run *run, uint64_t id);

/* --- run_command.c, run_file_send.c, run_lines_send.c ------------------------------------------
 */

/* The job of the command line, those of --file, those of --lines: submitted, followed unless told
 * otherwise, and the exit code of the first that failed. */
int run_command_send(struct run *run);
int run_file_send(struct run *run);
int run_lines_send(struct run *run);
/* The job of a line has ended with this exit code, or what was to follow it has; then all of them
 * have. Both do nothing where there are no lines. */
void run_lines_note(struct run *run, const struct run_accepted *accepted, int exit_code);
void run_lines_tell(const struct run *run);

/* --- run_agent.c ------------------------------------------------------------------------------ */

/* Connects where nobody has yet: 0, or the exit code after an error was printed. */
int run_connect(struct run *run);
/*
 * After the connection broke with `rc`, and `*until_ns` is until when to try (0: it is set): a
 * little later, perhaps with a new connection. 0, or what ended the waiting; `asked`: whether the
 * agent may have accepted something.
 */
int run_reconnect(struct run *run, int rc, bool asked, uint64_t *until_ns, struct err *err);
/* Connects and submits: 0, or the exit code after an error was printed. `file`: job `index` of it
 * is asked for; NULL: one of the command line. */
int run_ask(struct run *run, const struct run_request *asked, const struct run_file *file,
	    size_t index, Sluice__V1__SubmitReply **out);
/* What a shell gets after run_connect() or a submission failed with `rc`. */
int run_exit_of(const struct run *run, int rc);
/* What --dry-run says; the exit code. */
int run_say_dry(const Sluice__V1__SubmitReply *reply);

/* --- run_signals.c ---------------------------------------------------------------------------- */

/* From now on `interrupts` and `stop_signal` are set, and the job that is followed is told. */
int run_watch_signals(struct run *run, struct err *err);

/* --- run_accepted.c --------------------------------------------------------------------------- */

/* Prints the number of one that is to be followed later; members of an array have consecutive
 * numbers, from that of the first. 0, or the exit code after an error was printed. */
int run_accepted(struct run *run, const Sluice__V1__SubmitReply *reply, uint32_t members);
/* Shows one job after the other; the first exit code that is not 0 counts. */
int run_follow_all(struct run *run);

/* --- run_follow.c ----------------------------------------------------------------------------- */

/* Shows the job at hand until it ends, or something ends us; the exit code. */
int run_follow(struct run *run);
/* Waits for all members: the exit code of the first that failed. Their output would be mixed. */
int run_follow_array(struct run *run, uint32_t count);

/* --- run_end.c -------------------------------------------------------------------------------- */

/* Says how it ended, or that it goes on; the exit code. */
int run_end(struct run *run);
/* Nobody of ours sits at its terminal any more. */
int run_leave(struct run *run);

#endif
