/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the state: the file's layout and a process's view of it. Shared by state.c (the file),
 * state_access.c (reading and writing), state_event.c (events), state_check.c (never trust a mapped
 * file) and state_process.c (who is still alive). Nobody else includes this but their tests.
 */
#ifndef SLUICE_SIM_STATE_PRIVATE_H
#define SLUICE_SIM_STATE_PRIVATE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/machine.h"
#include "sim/state.h"

#define SIM_STATE_MAGIC "sluice-sim-state"

enum {
	SIM_STATE_FORMAT = 3,
	SIM_STATE_PAGE = 4096,
	SIM_STATE_WIPED = 65536, /* whole pages wherever it runs: arm64 has some of 64 KiB */
	SIM_WRITER_WAIT_S = 10,	 /* for another writer; then something is wrong */
	SIM_CHECKPOINT_TICKS =
	    6000, /* a reader that may write saves others that much catching up */
	SIM_LOOK_FOR_DEAD_TICKS = 1,
	SIM_FROZEN_MAX_TICKS = SIM_WRITER_WAIT_S * SIM_TICKS_PER_SECOND,
	SIM_DEAD_MAX = 32,
};

struct sim_header {
	char magic[16]; /* not NUL-terminated */
	uint32_t format, header_bytes;
	uint64_t file_bytes, machine_bytes, layout;
	char boot_id[40];
	uint64_t seed;
	uint32_t clock, owner;
	uint64_t start_ns; /* CLOCK_BOOTTIME at tick 0 */
	uint64_t pid_ns;   /* inode of the creator's PID namespace */
	/* the writers' lock; robust, shared between processes */
	_Alignas(64) pthread_mutex_t writers;
	/* counts publications; its lowest bit names the copy that is good */
	_Alignas(64) uint64_t published;
	uint32_t wake; /* futex: changes whenever those who wait for events should look */
	/* while a writer publishes: one more than the tick up to which readers count; else 0 */
	uint64_t frozen;
};

struct sim_file {
	_Alignas(SIM_STATE_PAGE) struct sim_header header;
	_Alignas(SIM_STATE_PAGE) struct sim_machine copy[2];
	_Alignas(SIM_STATE_PAGE) struct sim_event ring[SIM_EVENT_MAX];
};

/* What a forked child must not inherit: it reads as zeros there, which is the initial state. */
struct sim_local {
	pthread_mutex_t lock;
	bool valid;
	uint64_t seen;	    /* the publication that `view` was copied from */
	uint64_t seen_tick; /* and its tick */
	uint64_t now_tick;  /* of the last look, later than the view's while time is frozen */
	uint64_t tried_tick, looked_tick;
	pthread_mutex_t dead_lock; /* of sim_state.dead */
};

struct sim_state {
	union {
		_Alignas(SIM_STATE_PAGE) struct sim_local local;
		unsigned char wiped[SIM_STATE_WIPED];
	};
	struct sim_file *file;
	bool writable;
	uint64_t pid_ns; /* of this process */
	bool (*is_alive)(const struct sim_process *process, void *context);
	void *alive_context;
	uint64_t (*now_ns)(void *context);
	void *now_context;
	void (*at_step)(enum sim_state_step step, void *context);
	void *step_context;
	struct {
		uint32_t pid;
		uint64_t start_time, pid_ns;
	} dead[SIM_DEAD_MAX];
	uint32_t dead_count;
	/* Processes of other PID namespaces, and which they are here; under dead_lock. */
	struct {
		uint32_t pid, host_pid;
		uint64_t start_time, pid_ns;
	} foreign[SIM_DEAD_MAX];
	uint32_t foreign_count;
	_Alignas(SIM_STATE_PAGE) struct sim_machine view; /* what readers get */
	struct sim_machine draft;			  /* what a writer changes */
};

/* A number that differs when the layout of the machine does, for the header. */
uint64_t sim_state_layout(void);

/* Makes a machine that came out of a mapped file safe to compute with: texts end, truth values are
 * 0 or 1. False when a count, an index or a quantity is out of range: then do not touch it. */
bool sim_machine_check(struct sim_machine *machine);

/* Copies the published machine; false when it does not pass the check. */
bool sim_state_copy_published(const struct sim_state *state, struct sim_machine *out,
			      uint64_t *out_published);
/* The tick that it is now by the real clock. */
uint64_t sim_state_real_tick(const struct sim_state *state);
/* The tick that it is now for `machine` by the state's clock. */
uint64_t sim_state_now_tick(const struct sim_state *state, const struct sim_machine *machine);
/* Frees the slots of processes that are known to be gone, after looking at each again when `look`.
 * Returns how many. */
uint32_t sim_state_bury(struct sim_state *state, struct sim_machine *machine, bool look);
/* Number of the newest published event; *out_tick (may be NULL): the published tick. */
uint64_t sim_state_published_event(const struct sim_state *state, uint64_t *out_tick);
void sim_state_wake(struct sim_state *state);
/* Enters the machine's pending events into the ring and empties the list. */
void sim_state_enter_events(struct sim_state *state, struct sim_machine *machine);
/* Copies by words that no compiler tears, for memory that another process may be changing. */
void sim_state_load(void *to, const void *from, size_t bytes);
void sim_state_store(void *to, const void *from, size_t bytes);
/* The number that a process of another PID namespace has in this one, which is that of the
 * machine's creator; it was looked for once. 0: not known. Under dead_lock. */
uint32_t sim_state_foreign_pid(const struct sim_state *state, const struct sim_process *process);
bool sim_process_is_alive(const struct sim_process *process, void *context);
uint64_t sim_own_pid_ns(void);

#endif
