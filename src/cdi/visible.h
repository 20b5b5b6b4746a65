/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs a container asks for in the words of before CDI: NVIDIA_VISIBLE_DEVICES and what came
 * with it, and CDI's own annotations. Says what is asked and who may ask, of the container's
 * configuration and nothing else: a variable that an image brings along counts for a privileged
 * container only, unless the administrator says otherwise. Pure. Called by the runtime wrapper.
 *
 * Facts: https://github.com/NVIDIA/nvidia-container-toolkit, internal/config/image. Not reproduced
 * is its rule that an image with CUDA_VERSION and without these variables gets every GPU.
 */
#ifndef SLUICE_CDI_VISIBLE_H
#define SLUICE_CDI_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

struct err;

enum visible_limits {
	VISIBLE_NAMES_MAX = 1024,
	VISIBLE_NAME_MAX = 512, /* of one device, qualified, with its NUL */
	VISIBLE_CHANNELS_MAX = 64,
	VISIBLE_CHANNEL_MAX = 65535,
};

/* Below it mounts of /dev/null name devices: NAME, cdi/VENDOR/CLASS/NAME, imex/CHANNEL. */
#define VISIBLE_MOUNTS "/var/run/nvidia-container-devices"

/* Who may ask. All false: nobody, but privileged containers by their variables. */
struct visible_settings {
	bool annotations;	    /* cdi.k8s.io/... */
	bool volume_mounts;	    /* VISIBLE_MOUNTS */
	bool unprivileged_variable; /* variables of containers that are not privileged */
	/* Instead of NVIDIA_VISIBLE_DEVICES, where a container has one of them: separated by
	 * commas. NULL or "": none. */
	const char *variables;
};

enum visible_source {
	VISIBLE_NOBODY, /* nothing is asked: the container is left as it is */
	VISIBLE_ANNOTATION,
	VISIBLE_MOUNT,
	VISIBLE_VARIABLE,
};

struct visible {
	enum visible_source source;
	/* Of each device: qualified ("nvidia.com/gpu=0"), or its name alone ("0", "all"). No name
	 * at all: the driver's files without a GPU ("none"). */
	char **names; /* owned */
	uint32_t count;
	uint32_t capabilities; /* enum driver_capability: which of the driver's files */
	bool mig_config, mig_monitor;
	uint32_t channel_count;
	uint32_t channels[VISIBLE_CHANNELS_MAX]; /* of IMEX */
};

/*
 * `config` is an OCI configuration, of any form. Sources are asked in the order of the enum; the
 * first that says anything is the one that counts. -EINVAL: a value that is none; -EPERM: MIG's
 * management by a container that is not privileged; -E2BIG: a limit; -ENOMEM.
 */
int visible_read(const json_t *config, const struct visible_settings *settings, struct visible *out,
		 struct err *err);
void visible_done(struct visible *visible);
#define _cleanup_visible_ __attribute__((cleanup(visible_done)))

/* Whether its bounding set has CAP_SYS_ADMIN: it could make the device nodes itself. */
bool visible_is_privileged(const json_t *config);

#endif
