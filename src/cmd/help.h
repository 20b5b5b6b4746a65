/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what the command table says, for people: usage lines and --help texts, 80 columns wide. */
#ifndef SLUICE_CMD_HELP_H
#define SLUICE_CMD_HELP_H

#include <stdbool.h>
#include <stdio.h>

struct cmd_exit_row;
struct command;

/* "Usage: sluice sim start [OPTION...] [PROFILE]". `path` is "sluice sim start". */
void help_usage(FILE *out, const struct command *command, const char *path);
/* Everything about one command; for the program itself the list of commands by group. */
void help_print(FILE *out, const struct command *command, const char *path);

/* Row number `index` of a command's exit codes with 0 and 64, in rising order. False: no more. */
bool help_exit_row(const struct command *command, size_t index, struct cmd_exit_row *out);

#endif
