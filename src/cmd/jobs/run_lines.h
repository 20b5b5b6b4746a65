/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run --lines FILE`: commands out of a file, a pipe or a terminal as they come, and each as
 * what the agent is asked for. Asks nobody.
 */
#ifndef SLUICE_CMD_JOBS_RUN_LINES_H
#define SLUICE_CMD_JOBS_RUN_LINES_H

#include <stdbool.h>

struct err;
struct run_lines;
struct run_options;
struct run_request;

/* -EINVAL: the options cannot be meant together with lines; -errno of opening. `options` are
 * borrowed. */
int run_lines_open(const struct run_options *options, char *const *argv, struct run_lines **out,
		   struct err *err);
struct run_lines *run_lines_free(struct run_lines *lines);

enum run_lines_event { RUN_LINES_NONE, RUN_LINES_ONE, RUN_LINES_END };
/* Waits up to `wait_ms` for a line: enum run_lines_event. With RUN_LINES_ONE `out` is made, valid
 * until the next call and given back by run_request_done(). -EINVAL and -E2BIG with the number of
 * the line, -errno of reading. */
int run_lines_next(struct run_lines *lines, int wait_ms, struct run_request *out, struct err *err);

#endif
