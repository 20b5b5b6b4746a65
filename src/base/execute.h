/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Becoming another program by its name, as a shell does it: PATH is searched, and a script without
 * an interpreter's line is given to /bin/sh. Unlike execvp(3), a broken program is not: a shell
 * that reads machine code as a script says anything and exits with anything. For a process that is
 * about to end or to be this program; knows nothing of jobs.
 */
#ifndef SLUICE_BASE_EXECUTE_H
#define SLUICE_BASE_EXECUTE_H

/* The `argv` to be executed ends in NULL, with the environment of this process. Returns only when
 * that failed: -ENOENT: there is no such program; -ENOEXEC: a file that no processor and no shell
 * can run; -EACCES, -ENOMEM, ... */
int execute(char *const argv[]);

#endif
