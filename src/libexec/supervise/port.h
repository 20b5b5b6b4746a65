/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP port of the loopback that a job asked for: no other job has it as long as this process
 * lives, whosever it is and whatever agent started it, and nobody listened there a moment before
 * the job begins. Knows nothing of what listens there.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_PORT_H
#define SLUICE_LIBEXEC_SUPERVISE_PORT_H

#include <stdint.h>

struct err;

/* Any port is one of these: below those from which Linux takes the ports of connections. */
enum port_range { PORT_FIRST = 20000, PORT_COUNT = 10000 };

/*
 * `text` as spec.port has it: "8888", "8888:80", "0". The port, and *out_fd, which keeps it ours: a
 * bound abstract socket, @sluice/port/N, that falls with the process. `seed`: where the search for
 * any begins. -EADDRINUSE: another job has it, or somebody listens there; -EINVAL.
 */
int port_take(const char *text, uint64_t seed, int *out_fd, struct err *err);

/* Appends SLUICE_PORT=N to an environment of jobenv_make(). -ENOMEM. */
int port_tell(int port, char ***environment);

/* One that is free now, for the job's ranks: nobody can promise it for later. */
int port_find(uint16_t *out, struct err *err);

#endif
