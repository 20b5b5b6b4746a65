/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-supervise --clear: no supervisor, but the process that removes what is in the trash of the
 * queue (job/trash.h). It has the least priority there is, and rests most of the time, so
 * that whoever waits for the same disk hardly notices.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_CLEAR_H
#define SLUICE_LIBEXEC_SUPERVISE_CLEAR_H

/* With the descriptors TRASH_FD, and TRASH_FD_REPORT or none. What to exit with. */
int clear_run(void);

#endif
