/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to `sluice bench collectives` when one of its ranks is killed: a part of
 * perf/collectives.c, which calls it once. Knows nothing of speeds.
 */
#ifndef SLUICE_PERF_COLLECTIVES_KILL_H
#define SLUICE_PERF_COLLECTIVES_KILL_H

struct gate_report;

/* Starts it several times, kills a rank amid a long row, and adds the gates: how long the others
 * and the command live on, what the command exits with, and how many processes are left. */
void collectives_kill(struct gate_report *report);

#endif
