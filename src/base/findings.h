/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it comes to when a command has looked for faults, or measured: the exit code, which means
 * the same whatever it has looked at. What was found, each command keeps for itself.
 */
#ifndef SLUICE_BASE_FINDINGS_H
#define SLUICE_BASE_FINDINGS_H

#include <stdbool.h>

enum findings_exit {
	FINDINGS_EXIT_RIGHT = 0,
	FINDINGS_EXIT_POOR = 1,	   /* it works, but not well, or more slowly than is expected */
	FINDINGS_EXIT_WRONG = 2,   /* it does not work, or its result is wrong */
	FINDINGS_EXIT_NOTHING = 3, /* nothing can be said */
	FINDINGS_EXIT_INTERRUPTED = 130,
};

/* What is worst decides; where nothing was looked at, nothing can be said. */
static inline enum findings_exit findings_exit_code(bool is_wrong, bool is_poor, bool was_looked_at)
{
	if (is_wrong)
		return FINDINGS_EXIT_WRONG;
	if (is_poor)
		return FINDINGS_EXIT_POOR;

	return was_looked_at ? FINDINGS_EXIT_RIGHT : FINDINGS_EXIT_NOTHING;
}

#endif
