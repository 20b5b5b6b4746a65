/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts an agent in the background, for commands that may: under a lock, so that several who come
 * at once start one; daemonised, its messages in STATE/agent.log; and waits until it is ready.
 */
#ifndef SLUICE_CMD_SERVICE_AGENT_START_H
#define SLUICE_CMD_SERVICE_AGENT_START_H

#include <stdint.h>

struct err;

#define AGENT_START_IDLE "10m" /* so long without jobs and questions, and it ends by itself */

/*
 * 0 when an agent serves, whoever started it. `socket` as agent_paths_find() takes it, may be NULL.
 * `path` names the command that says so on standard error; NULL: nothing is said. -ECONNREFUSED: it
 * ended at once (the text has its last line), -ETIMEDOUT: it is not ready in time, and what the
 * system said of the directories.
 */
int agent_start(const char *socket, const char *path, uint64_t deadline_ns, struct err *err);

#endif
