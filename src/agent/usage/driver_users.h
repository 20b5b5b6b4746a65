/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes hold the driver: who has a device node of NVIDIA's open. Reads /proc, which may
 * take a while where many processes run: not for the loop's thread. Knows nothing of the agent.
 */
#ifndef SLUICE_AGENT_USAGE_DRIVER_USERS_H
#define SLUICE_AGENT_USAGE_DRIVER_USERS_H

#include <stddef.h>
#include <sys/types.h>

enum driver_users_limits {
	DRIVER_USERS_MAX = 64,	    /* processes that are named */
	DRIVER_USERS_NAME_MAX = 32, /* bytes of a command's name with its NUL */
	DRIVER_USERS_NODE_MAX = 64, /* of the node's path, cut */
};

struct driver_user {
	pid_t pid;
	char name[DRIVER_USERS_NAME_MAX]; /* "": the process does not say */
	char node[DRIVER_USERS_NODE_MAX]; /* "/dev/nvidia0": the first one that was found */
};

/*
 * Fills `out` (DRIVER_USERS_MAX entries) and returns how many. `proc`: "/proc". `dev`: the
 * directory of the nodes, "/dev"; a simulated machine's are elsewhere. What may not be looked at is
 * left out.
 */
size_t driver_users_find(const char *proc, const char *dev, struct driver_user *out);

#endif
