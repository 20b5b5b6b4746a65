/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated machine of its own for each test, and the library loaded as any program would: by
 * path and name, never linked. Functions are called by name with machine words, as a foreign
 * binding does.
 */
#ifndef TESTS_UNIT_SIM_NVML_NVML_H
#define TESTS_UNIT_SIM_NVML_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/machine.h"
#include "sim/nvml/api.h"
#include "sim/state.h"
#include "unit/unit.h"

struct nvml_row {
	const char *name;
	int since, until;
	const char *kind;
	const char *signature;
};
/* The rows of sim/nvml/functions.list, ended by a NULL name. */
extern const struct nvml_row nvml_table[];

struct rig {
	char *directory;
	char path[SIM_PATH_MAX];
	void *library;
	struct sim_state *state; /* the tests' own view of the machine */
};

/* A machine of a profile with a MIG layout ("" none) on the virtual clock, and the library of the
 * age that fits. The environment points at it. */
void rig_open(struct rig *rig, const char *profile, const char *layout, int age);
void rig_close(struct rig *rig);
/* The path of an age's library. */
const char *rig_library(int age);

/* Calls a function of the library by name. Pointers and integers are given as words. */
unsigned rig_call(const struct rig *rig, const char *name, uintptr_t a, uintptr_t b, uintptr_t c,
		  uintptr_t d, uintptr_t e, uintptr_t f);
#define WORD(x)			     ((uintptr_t)(x))
#define CALL0(rig, name)	     rig_call(rig, name, 0, 0, 0, 0, 0, 0)
#define CALL1(rig, name, a)	     rig_call(rig, name, WORD(a), 0, 0, 0, 0, 0)
#define CALL2(rig, name, a, b)	     rig_call(rig, name, WORD(a), WORD(b), 0, 0, 0, 0)
#define CALL3(rig, name, a, b, c)    rig_call(rig, name, WORD(a), WORD(b), WORD(c), 0, 0, 0)
#define CALL4(rig, name, a, b, c, d) rig_call(rig, name, WORD(a), WORD(b), WORD(c), WORD(d), 0, 0)
#define CALL5(rig, name, a, b, c, d, e)                                                            \
	rig_call(rig, name, WORD(a), WORD(b), WORD(c), WORD(d), WORD(e), 0)

/* The handle of a GPU; the test fails if there is none. */
void *rig_gpu(const struct rig *rig, unsigned index);
/* Changes the machine through `change`. */
void rig_change(struct rig *rig, void (*change)(struct sim_machine *machine, void *context),
		void *context);
/* Moves the virtual clock. */
void rig_advance(struct rig *rig, uint64_t ticks);
/* Adds a standing fault; returns its id. */
uint32_t rig_rule(struct rig *rig, uint32_t kind, const char *function, uint32_t gpu,
		  uint32_t result, uint32_t delay_ms);
void rig_heal(struct rig *rig);

#endif
