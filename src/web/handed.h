/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent hands to sluice-web when it starts it, and nothing beside: descriptors by their
 * numbers, and whom it is to become. Its standard error is the agent's, and its environment a few
 * harmless variables (PATH, LC_ALL, TZ, those of sanitizers, and SLUICE_STATE_DIR, by which tests
 * know whose process it is).
 *
 *   sluice-web [--uid N --gid N]
 *
 * With --uid it was started as root: before it reads anything from a socket it gives up its
 * supplementary groups, takes that group and that user for good, and ends if it cannot. Without it
 * stays who it is. It ends with exit code 0 on SIGTERM and when the life line is closed.
 */
#ifndef SLUICE_WEB_HANDED_H
#define SLUICE_WEB_HANDED_H

enum handed_fd {
	HANDED_LISTEN = 3, /* a listening stream socket, not blocking */
	HANDED_VIEW = 4,   /* struct view_shared (web/view.h), sealed, opened for reading only */
	/* A tick for each new view: readable, and a read() gives 8 bytes. Not blocking. Not an
	 * eventfd but one end of a socket pair, whose flags the other process cannot change under
	 * the agent. Several ticks may wait: look at the view once after reading them all. */
	HANDED_TICK = 5,
	HANDED_LIFE = 6, /* end of file: the agent is gone */
};

/* Nobody of that name on the machine: the user who owns nothing. */
enum { HANDED_NOBODY = 65534 };
#define HANDED_USER "sluice"

#endif
