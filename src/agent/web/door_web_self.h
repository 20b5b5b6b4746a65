/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent and its probe cost: time, memory, descriptors, as the kernel has them. */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_SELF_H
#define SLUICE_AGENT_WEB_DOOR_WEB_SELF_H

#include <stdint.h>
#include <sys/types.h>

/* Zero-initialised. */
struct web_self {
	pid_t probe;		    /* the last one */
	uint64_t probe_cpu_ns;	    /* of it, as last seen */
	uint64_t ended_cpu_ns;	    /* of those before it */
	uint64_t cpu_ns, rss_bytes; /* of both; never falls: cpu_ns */
	uint64_t open_fds;	    /* of the agent */
};

/* `probe`: -1 when none runs. Reads /proc, some tens of microseconds. */
void web_self_look(struct web_self *self, pid_t probe);
void web_self_count_fds(struct web_self *self);
/* Seconds since 1970 at which the machine started. */
uint64_t web_self_boot_unix_s(void);

#endif
