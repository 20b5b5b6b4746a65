/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's directories, and the lock that makes it the only one of its runtime directory. The
 * lock is the kernel's (flock): it is gone when the process is, however it went; the file stays,
 * because removing a file that somebody is about to lock would let two in. Blocking: for the start.
 */
#ifndef SLUICE_AGENT_LOCK_H
#define SLUICE_AGENT_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

struct agent_paths;
struct err;

/*
 * Makes the runtime directory if it is not there, checks that nobody but root and us can write it,
 * and takes agent.lock. Returns its descriptor (owned, O_CLOEXEC); -EBUSY: another agent has it,
 * the text says which process; -EPERM, -EACCES, -ENOSPC, -EROFS, ...
 */
int agent_lock_take(const struct agent_paths *paths, struct err *err);

/* The runtime directory, made again when it has gone; nobody else's is taken for it. */
int agent_lock_make_runtime(const struct agent_paths *paths, struct err *err);

/*
 * Makes the state directory: 0711 for root's agent, because a job's user must be able to reach his
 * own output files in it, and 0700 for a user's own. One that is there is made so, and marked or
 * not as that of an agent that ends when it is idle. -EPERM: it is somebody else's; otherwise what
 * mkdir(2) says.
 */
int agent_lock_make_state(const struct agent_paths *paths, bool is_on_demand, struct err *err);

/* Whether somebody listens on the socket: 0, or -EBUSY with the process in the text. */
int agent_lock_check_socket(const char *socket_path, struct err *err);

#endif
