/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs and libraries that nobody else maps, as in a pod whose image no other pod runs: what is
 * shared with other programs of this machine makes the service look smaller than it is there. Each
 * file that its processes map is copied, and in a mount namespace of this program's own the copy
 * lies over the original. perf/footprint measures in it.
 */
#ifndef SLUICE_PERF_FOOTPRINT_POD_H
#define SLUICE_PERF_FOOTPRINT_POD_H

#include <stddef.h>
#include <sys/types.h>

enum footprint_pod_limits { FOOTPRINT_POD_FILES_MAX = 64, FOOTPRINT_POD_PATH_MAX = 512 };

struct footprint_pod {
	size_t count;
	char path[FOOTPRINT_POD_FILES_MAX][FOOTPRINT_POD_PATH_MAX];
};

/* Adds the programs and libraries that a running process maps. Ends the program if it cannot. */
void footprint_pod_add(struct footprint_pod *pod, pid_t pid);

/*
 * From now on this program starts its children from copies of these files, which lie in
 * `directory`. Returns 0, or -EPERM for who may have no mount namespace; ends the program on
 * anything else.
 */
int footprint_pod_enter(const struct footprint_pod *pod, const char *directory);

#endif
