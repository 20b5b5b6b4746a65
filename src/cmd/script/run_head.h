/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that a script has at its head, for `sluice run script.sh`: finds the script as exec
 * would, reads it as the user who calls, and puts its options below those of the command line. For
 * run.c.
 */
#ifndef SLUICE_CMD_SCRIPT_RUN_HEAD_H
#define SLUICE_CMD_SCRIPT_RUN_HEAD_H

#include "cmd/cmd.h"
#include "cmd/jobs/run/run_options.h"
#include "cmd/jobs/run/run_request.h"
#include "cmd/script/run_script.h"

struct run_head {
	struct run_options options; /* those of both, where the script has any */
	bool has_options;
	char **argv; /* owned, not its texts: the command then */
	struct run_script script;
	char *bytes, *path;   /* owned: of the script; its absolute path */
	char *interpreter[2]; /* owned */
	char name[RUN_NAME_MAX];
};

/* CMD_EXIT_OK, also where there is no script or it has no options; or it was said what is wrong
 * with them. run_head_done() follows in any case. */
int run_head_take(const struct cmd_call *call, struct run_head *out);
void run_head_done(struct run_head *head);

#endif
