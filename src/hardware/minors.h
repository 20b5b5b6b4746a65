/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which /dev/nvidia-caps/nvidia-cap<N> belong to a MIG device: the file
 * /proc/driver/nvidia-caps/mig-minors, read once for all devices (it has more than 2000 lines on a
 * machine of 8 GPUs). Pure.
 */
#ifndef SLUICE_HARDWARE_MINORS_H
#define SLUICE_HARDWARE_MINORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct minors;

#define MINORS_PATH "/proc/driver/nvidia-caps/mig-minors"
#define MINORS_GPU_INSTANCE                                                                        \
	UINT32_MAX /* instead of a compute instance: the GPU instance itself                       \
		    */

enum minors_limits {
	MINORS_SIZE_MAX = 1 << 20, /* bytes of the file */
	MINORS_COUNT_MAX = 32768,
};

/* Capabilities of the whole machine. */
enum minors_machine { MINORS_CONFIG, MINORS_MONITOR, MINORS_MACHINE_COUNT };

/*
 * Takes lines "gpu<minor>/gi<g>/access N" and "gpu<minor>/gi<g>/ci<c>/access N", "config N" and
 * "monitor N"; others (what a later driver adds) are skipped. -EFBIG, -ENOMEM.
 */
int minors_parse(const char *text, size_t length, struct minors **out, struct err *err);
struct minors *minors_free(struct minors *minors);
/* Of GPUs: without config and monitor. */
size_t minors_count(const struct minors *minors);
/* The capability's number. `gpu_minor` is that of /dev/nvidia<minor>. 0, or -ENOENT when the file
 * does not name it (also for NULL). */
int minors_find(const struct minors *minors, uint32_t gpu_minor, uint32_t gi, uint32_t ci,
		uint32_t *out_cap);
int minors_find_machine(const struct minors *minors, enum minors_machine which, uint32_t *out_cap);
/* All of one GPU, by GPU instance, this before its compute instances; `at` starts at 0. False at
 * the end. */
bool minors_next(const struct minors *minors, uint32_t gpu_minor, size_t *at, uint32_t *out_cap);
/* "config", "monitor". */
const char *minors_machine_to_string(enum minors_machine which);

#endif
