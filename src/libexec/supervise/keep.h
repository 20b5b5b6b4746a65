/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 'sluice-supervise --keep GROUP', which systemd-run starts as the first process of the scope of
 * jobs: it goes into a group below, since the scope itself is to have groups and no process, and
 * stays there, in the background, so that the scope lasts while no job runs.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_KEEP_H
#define SLUICE_LIBEXEC_SUPERVISE_KEEP_H

struct err;

/* 0 in the caller, when the keeper is in its place; the keeper itself never returns. -errno. */
int keep_start(const char *group, struct err *err);

#endif
