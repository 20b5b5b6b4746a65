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

extern const struct cmd_exit_row validate_exits[];

/* Rows of options that all of them have; `type` has the member. */
#define VALIDATE_GPUS_ROW(type, member)                                                            \
	{                                                                                          \
		.name = "gpus", .kind = OPTION_TEXT, .value = "LIST",                              \
		.help = "only these, by number or UUID, with commas (default: all in sight)",      \
		OPTION_FIELD(type, member)                                                         \
	}
#define VALIDATE_TIMEOUT_ROW(type, member)                                                         \
	{                                                                                          \
		.name = "timeout", .kind = OPTION_DURATION, .value = "TIME",                       \
		.help = "end a check from which nothing was heard for so long (default 60s)",      \
		.min = 100000000, .max = UINT64_C(3600000000000), OPTION_FIELD(type, member)       \
	}
#define VALIDATE_EXPORTER_ROW(type, member)                                                        \
	{                                                                                          \
		.name = "exporter", .kind = OPTION_TEXT, .value = "ADDRESS",                       \
		.help = "of the service whose metrics are compared (default 127.0.0.1:9400)",      \
		OPTION_FIELD(type, member)                                                         \
	}
#define VALIDATE_JSON_ROW(type, member)                                                            \
	{                                                                                          \
		.name = "json", .kind = OPTION_PATH, .value = "FILE",                              \
		.help = "write all that was found there (sluice.result/1)",                        \
		OPTION_FIELD(type, member)                                                         \
	}

struct validate_run {
	const struct cmd_call *call;
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
