/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every exported function does before and after its own work: is the library initialised, what
 * does the handle mean, does an injected fault answer instead, is the GPU still there, and a line
 * in the call log. The entry points are made by gen.py; implementations see a `struct call` and the
 * machine, never the caller's handle, a lock or the log.
 */
#ifndef SLUICE_SIM_NVML_CALL_H
#define SLUICE_SIM_NVML_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"
#include "sim/machine.h"

#define API __attribute__((visibility("default")))

struct sim_state;
struct session;

enum function_kind { KIND_OWN, KIND_READ, KIND_WRITE, KIND_FREE, KIND_STUB };
enum function_handle { HANDLE_NONE, HANDLE_DEVICE, HANDLE_GPU, HANDLE_GI, HANDLE_CI };

struct function_row {
	uint16_t name; /* offset into function_names: pointers would need relocation */
	uint8_t kind;
	uint8_t handle;
};
extern const struct function_row function_row[];
extern const char function_names[]; /* without the "nvml" that all have */
extern const int nvml_age;	    /* of the library being built: 470, 535, 580, 590 */

struct call {
	struct session *session;	   /* NULL when the library is not initialised */
	const struct sim_machine *machine; /* read and write: the locked machine; free: NULL */
	struct sim_machine *change;	   /* write: the same, to be changed */
	unsigned function, result;
	/* What the handle says: index into machine->gpu, and slots of the instances; SIM_WHOLE_GPU
	 * when it says nothing. */
	uint32_t gpu, gi, ci;
	bool in_trees;	   /* write: the change shows in the files around the driver */
	uint64_t missed;   /* events that were overwritten before this call came for them */
	uint64_t began_ns; /* 0: no log line wanted */
};

/* True when the implementation is to run; the answer is then put into call->result. */
bool call_begin(struct call *call, unsigned function, void *handle, bool missing);
unsigned call_end(struct call *call);
unsigned call_stub(unsigned function, void *handle);
/* For functions that look a GPU up: from here on the call is about that one. Applies the faults
 * that name this function and this GPU; returns the code to answer with, or -1. */
int call_is_about(struct call *call, uint32_t gpu);

static inline const struct sim_gpu *call_gpu(const struct call *call)
{
	return &call->machine->gpu[call->gpu];
}

static inline const struct sim_model *call_model(const struct call *call)
{
	return sim_model_of(call->machine, call_gpu(call));
}

/* Is the handle that of a MIG device? */
static inline bool call_is_mig(const struct call *call)
{
	return call->gi != SIM_WHOLE_GPU;
}

static inline const struct sim_gi *call_gi(const struct call *call)
{
	return &call_gpu(call)->gi[call->gi];
}

static inline const struct sim_ci *call_ci(const struct call *call)
{
	return &call_gi(call)->ci[call->ci];
}

/* Copies `text` into a caller's buffer: INSUFFICIENT_SIZE when it does not fit with its NUL. */
unsigned text_out(const char *text, char *out, unsigned length);

/*
 * Copies an array to a caller who gave room for *count elements: `have` elements of `size` bytes.
 * Writes the needed count back; INSUFFICIENT_SIZE when there is too little room.
 */
unsigned array_out(const void *from, unsigned have, size_t size, void *to, unsigned *count);

/* A word that starts a versioned structure. */
static inline unsigned version_of(const void *structure)
{
	return *(const unsigned *)structure;
}

#endif
