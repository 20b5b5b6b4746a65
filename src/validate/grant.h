/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs this process was given, as its environment says: by sluice's own service
 * (SLUICE_GPUS), by a runtime or a device plugin (NVIDIA_VISIBLE_DEVICES), and what of them the
 * user has chosen (CUDA_VISIBLE_DEVICES). And whether what is seen is that. Pure; knows nothing of
 * a driver.
 */
#ifndef SLUICE_VALIDATE_GRANT_H
#define SLUICE_VALIDATE_GRANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hardware/gpu.h"

struct check;

enum grant_limits {
	GRANT_MAX = 128, /* devices of one list */
	GRANT_TEXT_MAX = 16384,
};

enum grant_source {
	GRANT_NONE,   /* nothing says what was given */
	GRANT_SLUICE, /* SLUICE_GPUS */
	GRANT_NVIDIA, /* NVIDIA_VISIBLE_DEVICES */
	GRANT_SOURCE_COUNT,
};
const char *grant_source_to_string(enum grant_source source);

/* Devices by UUID, or by something else (an index), of which only the number counts. */
struct grant_list {
	uint32_t count;
	bool has_others; /* some are no UUIDs */
	char uuids[GRANT_MAX][GPU_UUID_MAX];
};

struct grant {
	enum grant_source source;
	struct grant_list given;  /* without a source: nothing is in it */
	bool is_chosen;		  /* CUDA_VISIBLE_DEVICES is there */
	struct grant_list chosen; /* what it names; up to what CUDA ignores: "0,,1" is one */
};

/* `environment` ends in NULL. "all", "none", "void" and "" are no grant. A name that stands twice
 * counts once, and "GPU-...::2", as replicas are called, is the GPU. */
void grant_read(char *const *environment, struct grant *out);

/*
 * Judges what the driver shows against the grant: FAIL for a device that was not given, and for a
 * number other than was given or chosen; SKIP without a grant. `seen` are the UUIDs of all devices
 * in sight, in which the 8 digits of a MIG device may begin with "GPU-" or "MIG-".
 */
void grant_judge(const struct grant *grant, const char *const *seen, uint32_t count,
		 struct check *check);
/* Whether the two name the same device: whole or by its beginning, prefix GPU- or MIG- aside. */
bool grant_is_same(const char *uuid, const char *name);

#endif
