/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `sluice validate` and the checks of `sluice bench gpu` share: asking the driver beforehand,
 * the lines for people, the result as JSON, the exit code.
 */
#ifndef SLUICE_CMD_MACHINE_VALIDATE_RUN_H
#define SLUICE_CMD_MACHINE_VALIDATE_RUN_H

#include <stdint.h>

#include "validate/validate.h"
#include "cmd/cmd.h"
#include "cmd/options.h"

enum validate_exit {
	VALIDATE_EXIT_OK = 0,
	VALIDATE_EXIT_SLOW = 1,
	VALIDATE_EXIT_WRONG = 2,
	VALIDATE_EXIT_NOTHING = 3,
	VALIDATE_EXIT_INTERRUPTED = 130,
};
extern const struct cmd_exit_row validate_exits[];

struct validate_run {
	const struct cmd_call *call;
	const char *tool; /* "sluice validate": in the result */
	struct validate_plan plan;
	enum option_output output;
	const char *json; /* a file for the result, besides; NULL */
	uint32_t level;	  /* 0: not by level */
	bool is_quiet;	  /* no lines but the table at the end */
};

/* Fills in what is the same for all: root, environment, what is called back. Runs, prints, writes.
 * Returns the exit code. */
int validate_run_all(struct validate_run *run);

#endif
