/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the first nvmlInit and the last nvmlShutdown: the mapped machine, and which of its GPUs
 * this process sees. A call holds a reference, so that a Shutdown in another thread takes nothing
 * from under it; a call that hangs keeps its session alive and disturbs no later one.
 */
#ifndef SLUICE_SIM_NVML_SESSION_H
#define SLUICE_SIM_NVML_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/machine.h"

struct sim_state;

struct session {
	struct sim_state *state;
	unsigned references;
	uint32_t visible[SIM_GPU_MAX]; /* NVML index -> index into machine->gpu */
	uint32_t visible_count;
	uint64_t tick0_us; /* the time that timestamps give to tick 0, microseconds since 1970 */
};

/* The current session with a reference taken, or NULL before Init. */
struct session *session_ref(void);
void session_unref(struct session *session);
/* Opens the machine: 0, or the code that Init answers. `flags` as nvmlInitWithFlags. */
unsigned session_open(unsigned flags);
/* Counterpart of one session_open(). UNINITIALIZED without one. */
unsigned session_close(void);

/* NVML index of a machine's GPU, or SIM_WHOLE_GPU when this process does not see it. */
uint32_t session_index_of(const struct session *session, uint32_t gpu);

/* A tick as NVML gives times: microseconds since 1970. */
uint64_t session_time_us(const struct session *session, uint64_t tick);

/* The simulated driver's versions, also before Init. */
void session_versions(char driver[32], uint32_t *out_cuda);

#endif
