/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mount namespace in which the simulated trees stand where the real /dev, /proc/driver and /sys
 * are, and its CDI specifications in /var/run/cdi, for programs that know no root prefix. What the
 * trees do not have stays as it is. Called by `sluice sim exec` just before the program starts;
 * nothing outside the namespace changes.
 */
#ifndef SLUICE_CMD_SIM_SIM_MOUNTS_H
#define SLUICE_CMD_SIM_SIM_MOUNTS_H

struct err;

/*
 * Moves this process into such a namespace, with the trees of `root` (absolute).
 * 0, -EPERM when mount namespaces are not permitted, or another -errno.
 */
int sim_mounts_enter(const char *root, struct err *err);

#endif
