/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files and streams of `sluice run` itself, as far as a user could be left without them and not
 * notice: files that it is to write, and input that no job gets.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_STREAMS_H
#define SLUICE_CMD_JOBS_RUN_RUN_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "sluice.pb-c.h"

struct agent_call;
struct err;

/*
 * Whether this user could write the file `path`, as far as it can be told without doing it; before
 * hours of work depend on it. `option`: who named it ("--report"). `is_replaced`: a new file is
 * renamed into its place. -EINVAL.
 */
int run_streams_check(const char *option, const char *path, bool is_replaced, struct err *err);

/* Writes what the agent knows of a job there, as JSON; where it is away, `job` itself. -errno. */
int run_streams_report(struct agent_call *agent, const char *path, const Sluice__V1__Job *job,
		       struct err *err);

/* Says on standard error, as `command` ("sluice run"), that jobs get no input, when this process
 * has some that is no terminal: a pipe with something in it, or what is left of a file. */
void run_streams_note_input(const char *command);

/* Writes the number of a job that was accepted to standard output, at once. Where that cannot be
 * done the number is said on standard error, as `command`; the exit code is made of the stream's
 * error. */
void run_streams_number(const char *command, uint64_t id);

#endif
