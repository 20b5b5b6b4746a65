/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run --lines FILE`: commands out of a file, a pipe or a terminal as they come, and each as
 * what the agent is asked for. Asks nobody.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_LINES_H
#define SLUICE_CMD_JOBS_RUN_RUN_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_request.h"

struct err;
struct run_lines;

/* -EINVAL: the options cannot be meant together with lines; -errno of opening. `options` are
 * borrowed. */
int run_lines_open(const struct run_options *options, char *const *argv, struct run_lines **out,
		   struct err *err);
struct run_lines *run_lines_free(struct run_lines *lines);

/* One of them: what the agent is asked for. Owned: run_line_free(). */
struct run_line {
	struct run_request request;
	struct run_options options; /* with a name of its own */
	uint64_t number;	    /* in its file */
	char *text;		    /* owned */
	char word[RUN_NAME_MAX];
	char *shell[4]; /* "sh", "-c" and the text */
	char **words;	/* owned; instead of a shell, where none is needed, or NULL */
};
struct run_line *run_line_free(struct run_line *line);

enum run_lines_event { RUN_LINES_NONE, RUN_LINES_ONE, RUN_LINES_END };
/* Waits up to `wait_ms` for a line: enum run_lines_event, and with RUN_LINES_ONE `*out`. -EINVAL
 * and -E2BIG with the number of the line, -errno of reading. */
int run_lines_next(struct run_lines *lines, int wait_ms, struct run_line **out, struct err *err);

#endif
