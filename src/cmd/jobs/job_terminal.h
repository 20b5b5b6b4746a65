/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal of a job that is followed, for those who may have submitted it a moment ago: sits
 * down at it as soon as it is there, and shows what it was when the job was faster. Knows nothing
 * of how it is said.
 */
#ifndef SLUICE_CMD_JOBS_JOB_TERMINAL_H
#define SLUICE_CMD_JOBS_JOB_TERMINAL_H

#include <stdbool.h>

#include "sluice.pb-c.h"

struct loop;
struct terminal_link;

struct job_terminal {
	struct loop *loop;	    /* borrowed */
	struct terminal_link *link; /* owned; NULL: nobody sits there now */
	uint32_t attempt;	    /* that of this terminal; 0: none yet */
	bool was_linked;	    /* and what it has shown was shown */
	bool has_closed; /* the other side hung up: it ends, or somebody else sits there */
	bool has_left;	 /* Ctrl-] was typed twice */
	bool is_unread;	 /* nobody reads what it shows */
};

/* To be called with each change of the job. */
void job_terminal_look(struct job_terminal *terminal, const Sluice__V1__Job *job);
/* To be called after each pass of the loop. True: nobody sits there any more, though the job goes
 * on: he has left, or others have taken his place (`has_left` says which). */
bool job_terminal_is_over(struct job_terminal *terminal, const Sluice__V1__Job *job);
/* Gives this process's terminal back. `job`: it has ended; what it has shown is shown, unless that
 * was done. NULL: it has not. */
void job_terminal_end(struct job_terminal *terminal, const Sluice__V1__Job *job);

#endif
