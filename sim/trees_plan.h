/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of the trees: every path that must exist below the root, with its kind, mode and
 * content. The makers (trees_dev.c, trees_proc.c, trees_pci.c, trees_driver.c) only add to it and
 * never touch the file system; trees.c compares it with what is there and makes the difference.
 */
#ifndef SLUICE_SIM_TREES_PLAN_H
#define SLUICE_SIM_TREES_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/machine.h"

struct sim_error;

enum sim_plan_kind {
	SIM_PLAN_DIR = 'd',
	SIM_PLAN_FILE = 'f',
	SIM_PLAN_LINK = 'l',
	SIM_PLAN_NODE = 'n',   /* character device */
	SIM_PLAN_STREAM = 'a', /* created empty, then only appended to: never compared */
};

struct sim_plan_entry {
	char *path; /* owned; relative to the root, no leading slash */
	enum sim_plan_kind kind;
	mode_t mode;   /* permission bits */
	dev_t device;  /* of a node */
	char *content; /* owned; of a file, or the target of a link */
	size_t length, capacity;
};

struct sim_plan {
	struct sim_plan_entry *entry; /* owned */
	size_t count, capacity;
	bool failed; /* out of memory, or a path that is too long: the plan is of no use */
};

void sim_plan_done(struct sim_plan *plan);

/*
 * All of these record the failure in plan->failed, so that a maker needs no checks of its own.
 * Parents are added by sim_plan_finish(). Paths are formatted.
 */
void sim_plan_dir(struct sim_plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Begins a file; sim_plan_text() and sim_plan_bytes() add to the one begun last. */
void sim_plan_file(struct sim_plan *plan, mode_t mode, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_plan_text(struct sim_plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_plan_bytes(struct sim_plan *plan, const void *bytes, size_t length);
void sim_plan_link(struct sim_plan *plan, const char *target, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_plan_node(struct sim_plan *plan, mode_t mode, uint32_t major, uint32_t minor,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));
void sim_plan_stream(struct sim_plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds missing parents, sorts by path (a directory before what is in it) and drops double
 * directories. 0, or -1 when the plan failed or holds one path twice. */
int sim_plan_finish(struct sim_plan *plan, struct sim_error *error);

/* The relative link from the directory of `from` to `to`, both relative to the root: sysfs links
 * are relative, so that the tree works wherever it lies. Returns `out`. */
const char *sim_plan_relative(char out[SIM_PATH_MAX], const char *from, const char *to);

/* The makers. */
void sim_trees_plan_dev(struct sim_plan *plan, const struct sim_machine *machine);
void sim_trees_plan_proc(struct sim_plan *plan, const struct sim_machine *machine);
int sim_trees_plan_sys(struct sim_plan *plan, const struct sim_machine *machine,
		       struct sim_error *error);
void sim_trees_plan_driver(struct sim_plan *plan, const struct sim_machine *machine);

/* Numbers that several trees must agree on. */
enum sim_major {
	SIM_MAJOR_NVIDIA = 195,
	SIM_MAJOR_RDMA = 507, /* not 231: nodes of a real adapter must never be made */
	SIM_MAJOR_DRM = 226,
	SIM_MAJOR_IMEX = 508,
	SIM_MAJOR_CAPS = 509,
	SIM_MAJOR_UVM = 510,
};

/* Minor numbers of capability nodes (nvidia-caps): 3 + 135 m + 9 g, compute instances one more and
 * on. The formula agrees with the lines that NVIDIA's MIG user guide prints. */
static inline uint32_t sim_cap_minor(uint32_t minor, uint32_t gi)
{
	return 3 + 135 * minor + 9 * gi;
}

/* "0000:07:00.0": the name of a function in sysfs; NVML's has 8 digits of domain in upper case. */
#define SIM_BDF_FORMAT	  "%04x:%02x:%02x.0"
#define SIM_BDF_ARGS(gpu) (gpu)->pci_domain, (gpu)->pci_bus, (gpu)->pci_device

/* Whether the driver is loaded as far as the files around it tell. */
static inline bool sim_driver_is_loaded(const struct sim_machine *machine)
{
	return machine->driver_state != SIM_DRIVER_NONE;
}

/* Whether a GPU of the machine can be partitioned; the capability files depend on the machine, not
 * on what is plugged in at the moment. */
static inline bool sim_machine_has_mig(const struct sim_machine *machine)
{
	for (uint32_t i = 0; i < machine->gpu_count; i++) {
		if (sim_model_of(machine, &machine->gpu[i])->has_mig)
			return true;
	}
	return false;
}

/* GPUs from Turing (6) on run the driver's firmware (GSP). */
static inline bool sim_machine_has_firmware(const struct sim_machine *machine,
					    const struct sim_gpu *gpu)
{
	return sim_model_of(machine, gpu)->architecture >= 6;
}

/* A machine of an NVLink fabric has at least its first channel. */
static inline uint32_t sim_imex_channels(const struct sim_machine *machine)
{
	return machine->imex_channels == 0 && machine->fabric ? 1 : machine->imex_channels;
}

static inline bool sim_gpu_is_plugged(const struct sim_gpu *gpu)
{
	return gpu->health != SIM_GPU_UNPLUGGED;
}

#endif
