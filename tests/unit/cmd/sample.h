/* SPDX-License-Identifier: Apache-2.0 */
/* A small program made of commands, for the tests of what all commands share. */
#ifndef TESTS_UNIT_CMD_SAMPLE_H
#define TESTS_UNIT_CMD_SAMPLE_H

#include "cmd/cmd.h"
#include "cmd/options.h"

struct sample_options {
	bool quiet;
	const char *name;
	const char *file;
	uint32_t gpus;
	uint64_t limit;
	int64_t ambient;
	uint64_t mask;
	uint64_t memory;
	uint64_t wait_ns;
	double share;
	enum option_output output;
	struct option_list env;
	const char *part;
};

extern const struct option_row sample_rows[];
extern const struct command sample_root;

/* Calls cmd_main() with the words of `line` (split at blanks) and returns its exit code; what it
 * printed is in *out and *err_out, owned by the caller. */
int sample_call(const char *line, char **out, char **err_out);

#endif
