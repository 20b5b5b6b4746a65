/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: one machine, mapped by every process that looks at it or changes it.
 *
 * Readers never lock and never wait: two copies of the machine lie in the file, a sequence counter
 * names the good one. Writers are serialised by a robust mutex, work on the other copy and publish
 * it; one that is killed leaves the published copy as it was. Readers advance a private copy to the
 * present, so values move even where the file is read-only.
 */
#ifndef SLUICE_SIM_STATE_H
#define SLUICE_SIM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/machine.h"

struct sim_error;
struct sim_state;

/* The file beside the state in which processes share the GPUs' time (cuda/world.h). */
#define SIM_STATE_CUDA_SUFFIX ".cuda"

enum sim_open {
	SIM_OPEN_OK,
	SIM_OPEN_NONE,	  /* no file: there is no driver */
	SIM_OPEN_FOREIGN, /* symlink, or somebody else's */
	SIM_OPEN_VERSION, /* another format, cut short, or not a state file at all */
	SIM_OPEN_FAILED,  /* anything else */
};

/* The directory of this user's machine: /run/sluice, for an ordinary user "sluice" in
 * $XDG_RUNTIME_DIR or /run/user/UID where that is their own, else in $XDG_STATE_HOME or
 * ~/.local/state; "" without any of these. Returns `out`. */
const char *sim_state_default_dir(char out[SIM_PATH_MAX]);
/* Where the state lies: $SLUICE_SIM_STATE, else sim.state in that directory; for a user without a
 * session who has no machine it is root's. Returns `out`. */
const char *sim_state_default_path(char out[SIM_PATH_MAX]);

/* Creates the file with `machine` in it, and its directory when only that is missing. Refuses
 * (SIM_EXIT_LIVE) when a live machine is there and (SIM_EXIT_FOREIGN) when anything else is but an
 * own state file of another version or from before the last boot, which it replaces. 0 or -1. */
int sim_state_create(const char *path, const struct sim_machine *machine, struct sim_error *error);
/* Maps the file, read-only when it cannot be had read-write. One from before the last boot counts
 * as none. */
enum sim_open sim_state_open(const char *path, struct sim_state **out_state,
			     struct sim_error *error);
/* A machine of this process alone, without a file ($SLUICE_SIM_PROFILE). */
int sim_state_private(const struct sim_machine *machine, struct sim_state **out_state);
struct sim_state *sim_state_close(struct sim_state *state);
bool sim_state_is_writable(const struct sim_state *state);

/*
 * The machine as of now, on this process's private copy. The pointer is good until
 * sim_state_read_done(); other threads of the process wait meanwhile, other processes do not.
 * Allocates nothing. Never held across anything that may block.
 */
const struct sim_machine *sim_state_read(struct sim_state *state);
void sim_state_read_done(struct sim_state *state);

/*
 * Begins a change: takes the writers' lock, advances to now and returns the copy to be changed;
 * NULL when the state is read-only. sim_state_commit() publishes it together with its pending
 * events and wakes those who wait for events; sim_state_abort() drops it.
 */
struct sim_machine *sim_state_write(struct sim_state *state);
void sim_state_commit(struct sim_state *state);
void sim_state_abort(struct sim_state *state);

/* Fills pid, host_pid, start_time and pid_ns of a process that exists here. 0, or -1 when there is
 * no such process. */
int sim_state_identify(uint32_t pid, struct sim_process *out);

/* The number of the newest published event; 0 if there was none. */
uint64_t sim_state_last_event(struct sim_state *state);
/*
 * The first event after number `after` of which the `want` function says yes. `timeout_ms` 0: only
 * look. Under the virtual clock the time is up when it has passed by that clock or by the real one.
 * Returns 1 and fills `out`, or 0 on timeout; either way out->number is the number to go on from.
 * `*out_missed` grows by the events that were overwritten unread.
 */
int sim_state_wait_event(struct sim_state *state, uint64_t after, uint32_t timeout_ms,
			 bool (*want)(const struct sim_event *event, void *context), void *context,
			 struct sim_event *out, uint64_t *out_missed);

/* Virtual clock only: moves time forward and wakes those who wait for events. 0 or -1. */
int sim_state_advance(struct sim_state *state, uint64_t ticks, struct sim_error *error);

/* For tests: who is alive, what time it is (nanoseconds of CLOCK_BOOTTIME), and a function that is
 * called at the marked points of a write, where a test may kill the writer. NULL: the real thing.
 */
enum sim_state_step {
	SIM_STEP_LOCKED,
	SIM_STEP_FROZEN,
	SIM_STEP_EVENTS_ENTERED,
	SIM_STEP_HALF_COPIED,
	SIM_STEP_COPIED,
	SIM_STEP_PUBLISHED,
	SIM_STEP_WOKEN,
	SIM_STEP_COUNT
};
void sim_state_use_alive(struct sim_state *state,
			 bool (*is_alive)(const struct sim_process *process, void *context),
			 void *context);
void sim_state_use_clock(struct sim_state *state, uint64_t (*now_ns)(void *context), void *context);
void sim_state_use_steps(struct sim_state *state,
			 void (*at_step)(enum sim_state_step step, void *context), void *context);

#endif
