/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Points at which a program can be made to die as by kill -9: one between every two system calls of
 * the queue's protocol. They exist only in the torture programs, which are built from the same
 * sources with -DSLUICE_CRASH_POINTS and crash.c (sluice-supervise-torture, and whoever else needs
 * one: compile the sources that have points into the executable again, do not link their library);
 * elsewhere crash_point() is nothing.
 *
 * A point is named "file.what_was_just_done". What happens there is told by the environment, read
 * at each point, so that a test can also set it at run time:
 *
 *   SLUICE_CRASH_AT=[PROGRAM:]POINT[#N]  die at POINT, the N-th time it is passed (default: first).
 *                        POINT is a name, or a number: the how manieth point of all, from 1.
 *                        PROGRAM: only in the program of that name (argv[0] behind its last '/'),
 *                        for the environment is inherited: the agent's reaches the supervisors.
 *   SLUICE_CRASH_ODDS=N  die at each point with probability 1/N
 *   SLUICE_CRASH_SEED=S  for the odds; mixed with the pid, so that two programs differ
 *   SLUICE_CRASH_ONCE=F  die only if the file F is there and we are the one who removes it: the
 *                        same environment then lets the next start through
 *   SLUICE_CRASH_LOG=F   append "PROGRAM POINT" to F at each point: for listing them all
 */
#ifndef SLUICE_BASE_CRASH_H
#define SLUICE_BASE_CRASH_H

#ifdef SLUICE_CRASH_POINTS
/* Not thread-safe in its counting: the N of a point that two threads pass may be off by one. */
void crash_point(const char *name);
#else
static inline void crash_point(const char *name)
{
	(void)name;
}
#endif

#endif
