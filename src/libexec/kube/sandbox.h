/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process does not need and therefore gives up before it speaks to anybody: descriptors,
 * capabilities, new privileges, core files with a token in them.
 */
#ifndef SLUICE_LIBEXEC_KUBE_SANDBOX_H
#define SLUICE_LIBEXEC_KUBE_SANDBOX_H

struct err;

/* Closes every descriptor but 0, 1, 2 and `keep` (more than 2), which programs started from here do
 * not get. 0, 1 and 2 that are closed become /dev/null. -EBADF: `keep` is not open. */
int sandbox_close(int keep, struct err *err);
/* For ever: no core file, no new privileges by executing something, and of root's capabilities only
 * the one to read files whose owner is somebody else (a kubeconfig, a token). -errno. */
int sandbox_drop(struct err *err);

#endif
