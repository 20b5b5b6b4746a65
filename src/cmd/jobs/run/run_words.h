/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a command line that needs no shell, so that `sluice run --lines` can execute the
 * program itself, as make does: a shell would take a third of a short job's time. What only a shell
 * understands, or understands in a way of its own, is left to it. Pure.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_WORDS_H
#define SLUICE_CMD_JOBS_RUN_RUN_WORDS_H

#include <stddef.h>

enum run_words_limits { RUN_WORDS_MAX = 256 }; /* of a line: one with more goes to a shell */

/*
 * 1: `*out` has the words, NULL at the end; owned, one allocation. 0: a shell has to run it. It has
 * expansions, operators, a builtin (unless `exec` stands before it) or an open quote, or somebody
 * has exported functions of bash in `environment`, which may bear the name of a program. -ENOMEM.
 */
int run_words_split(const char *line, char *const *environment, char ***out);

#endif
