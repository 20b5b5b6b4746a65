/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.so.1 of the simulator. What a program does to one device lies in a context: streams and
 * events, of which the scheduler (scheduler.h) says when each operation is done, and the effect of
 * each (bytes copied, a kernel computed), which happens when the program next asks anything after
 * that. driver.c holds the library together, driver_work.c queues and collects; the exported
 * functions are in driver_*.c by theme. One lock of this process around everything but waiting; the
 * lock of the shared world (world.h) is taken within it only by world_begin() on the way in, before
 * it.
 */
#ifndef SLUICE_SIM_CUDA_DRIVER_H
#define SLUICE_SIM_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/cuda/api.h"
#include "sim/cuda/cost.h"
#include "sim/cuda/device.h"
#include "sim/cuda/exports.h"
#include "sim/cuda/fault.h"
#include "sim/cuda/kernels.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/scheduler.h"
#include "sim/cuda/world.h"

enum driver_limits {
	DRIVER_CONTEXT_MAX = 32, /* of this process */
	DRIVER_STACK_MAX = 16,	 /* of a thread */
	DRIVER_PINNED_MAX = 4096,
	DRIVER_STAGED_MAX = 64 << 10, /* of a copy from memory that is not pinned */
	DRIVER_NODE_MAX = 100000,     /* of a graph */
};

enum work_kind {
	WORK_NOTHING,
	WORK_KERNEL,
	WORK_COPY,
	WORK_SET,
	WORK_EVENT,
	WORK_GRAPH,
	WORK_HOST, /* a function of the program */
	WORK_FREE, /* of cuMemFreeAsync */
};

struct cu_event {
	struct cu_context *context; /* whose device's it is */
	uint32_t references;	    /* the program's and those of queued records */
	bool has_timing, is_recorded, is_destroyed;
	uint64_t number; /* of the last record; 0: captured or none */
	struct cu_context *where;
	bool is_done;
	uint64_t time_ns;
};

/* What happens when an operation is done. */
struct work {
	enum work_kind kind;
	bool is_applied;
	struct kernel_launch launch;
	/* of copies and sets */
	uint64_t to, from, bytes;
	unsigned char *staged; /* owned: what was at `from` when it was queued; NULL: look then */
	uint32_t value, width;
	struct cu_event *event; /* referenced */
	struct cu_graph *graph; /* referenced */
	void (*host)(void *data);
	void *data;
};

struct cu_stream {
	struct cu_context *context;
	struct cu_stream *next;
	bool is_default, is_blocking;
	uint64_t last;		  /* number of its newest operation; 0: none */
	uint32_t after;		  /* what cuStreamWaitEvent said: a context of the scheduler, */
	uint64_t after_number;	  /* and a number; 0: nothing */
	struct cu_graph *capture; /* owned while it captures */
	bool is_capture_broken;
};

struct cu_node {
	struct work work;
	uint64_t cost_ns;
	uint32_t engine;
};

struct cu_graph {
	uint32_t references;
	uint32_t count, room;
	struct cu_node *node; /* owned */
	uint64_t cost_ns;
};

struct cu_context {
	bool used, is_primary, is_dropped;
	uint32_t references; /* of the primary one */
	uint32_t device;     /* index */
	uint32_t sched;	     /* the scheduler's index */
	int error;	     /* sticky; CU_OK: none */
	uint32_t holds;	     /* sl_hold kernels that are queued */
	uint32_t peers;	     /* bits: devices whose memory may be reached */
	struct cu_stream standard;
	struct cu_stream *streams; /* owned */
	struct work *work;	   /* owned: SCHED_RING of them */
};

struct cu_module;
struct cu_function {
	struct cu_module *module;
	enum kernel_id id;
	char name[96];
};

struct pinned {
	unsigned char *address;
	uint64_t bytes;
	bool is_registered; /* the program's own memory */
};

/* A piece of physical memory of cuMemCreate; `address` holds its place. */
struct physical {
	uint64_t address, bytes;
	uint32_t device;
	bool is_used;
};

enum { DRIVER_PHYSICAL_MAX = 1024 };

struct driver_state {
	struct devices devices;
	struct world *world; /* owned; opened with the first context */
	struct cost_rates rates[SIM_GPU_MAX];
	struct memory memory[SIM_GPU_MAX];
	uint64_t held_bytes[SIM_GPU_MAX]; /* as entered in the machine */
	uint32_t contexts[SIM_GPU_MAX];	  /* open ones */
	uint32_t util_permille[SIM_GPU_MAX];
	uint64_t util_busy_ns[SIM_GPU_MAX], util_at_ns, util_real_ms, health_ms;
	struct cu_context context[DRIVER_CONTEXT_MAX];
	struct pinned *pinned; /* owned */
	uint32_t pinned_count;
	struct physical physical[DRIVER_PHYSICAL_MAX];
	struct faults faults;
};

extern struct driver_state driver; /* as the session of NVML: a library has no other place */

/* --- driver.c --------------------------------------------------------------------------------- */

/*
 * On entry of a function: CU_OK and this process's lock held, or what the function answers. Applies
 * the faults that name it. driver_leave() gives the lock back and returns `result`.
 */
int driver_enter(const char *function);
int driver_leave(int result);
/* The lock alone, for what works before cuInit. */
void driver_lock(void);
/* Reads $SLUICE_SIM_CUDA_FAULT, once. CU_OK, or CU_UNKNOWN with a word about it on stderr. */
int driver_read_faults(void);
/* The same for functions that concern time or the current context: collects what is done, and
 * answers the context's sticky error. */
int driver_enter_context(const char *function, struct cu_context **out);
/* The lock around a wait: result of the wait is what the context has become. */
int driver_wait(struct cu_context *context, const struct world_wait *wait);
/* The calling thread's context; NULL: none. */
struct cu_context *driver_current(void);
bool driver_context_is_valid(const struct cu_context *context);
/* Opens the world; CU_OK or why not. With the lock. */
int driver_join(void);

/* --- driver_work.c ---------------------------------------------------------------------------- */

/* The stream behind a handle (0: the default one, 1 and 2: legacy and per-thread); NULL: none of
 * this context. */
struct cu_stream *work_stream(struct cu_context *context, struct cu_stream *handle);
/*
 * Queues. Takes what `work` owns, also on failure. While the stream captures, it becomes a node of
 * the graph. Gives the lock back while the queue is full. `*out_number` (may be NULL): its number,
 * 0 when captured.
 */
int work_queue(struct cu_stream *stream, struct work *work, uint32_t engine, uint64_t cost_ns,
	       uint32_t flags, uint64_t *out_number);
/* Applies what is done by now, over all contexts, in the order of time. With the lock. */
void work_collect(void);
/* Waits until that operation is done and applied. */
int work_wait(struct cu_context *context, uint64_t number);
/* Waits for everything that is queued in the context. */
int work_wait_all(struct cu_context *context);
void work_done(struct work *work); /* releases what it owns */
/* Bytes at an address of any device or of pinned memory; NULL: there are none. */
void *work_memory(void *context, uint64_t address, uint64_t bytes);
/* The device of an address, or SIM_GPU_MAX: host memory. */
uint32_t work_device(uint64_t address);
bool work_is_pinned(const void *address, uint64_t bytes);
struct cu_graph *graph_unref(struct cu_graph *graph);
struct cu_event *event_unref(struct cu_event *event);

/* --- driver_memory.c -------------------------------------------------------------------------- */

/* Takes device memory; CU_OUT_OF_MEMORY. */
int memory_allocate(uint32_t device, uint64_t bytes, uint64_t *out_address);
int memory_release(uint64_t address);
/* Enters what this process holds of a device in the machine. */
int memory_enter(uint32_t device, uint64_t held_bytes, uint32_t contexts);

#endif
