/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-supervise --spawner: the supervisor's program, linked and initialised, which waits for the
 * agent to ask for supervisors and forks one for each (src/base/spawner.h). It reads nothing of any
 * job before it forks, so that no supervisor has inherited what is another user's. What it has made
 * is a child of the agent's, and differs from an executed one only in this: those of one helper
 * share the random addresses of their memory, and the kernel's random bytes at their start.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_SPAWNED_H
#define SLUICE_LIBEXEC_SUPERVISE_SPAWNED_H

#include <stdbool.h>

/* As main() was called: with "--spawner" and room for other arguments behind it. */
bool spawned_is_asked(int argc, char **argv);

/* True in each new process, which has its descriptors as it was asked for and shows its own
 * arguments to whoever looks at ps (`argv` is the helper's). False in the helper when nobody asks
 * any more. */
bool spawned_serve(char **argv);

#endif
