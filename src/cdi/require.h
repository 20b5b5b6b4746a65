/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image requires of the driver and the GPU: its variables NVIDIA_REQUIRE_..., such as
 * "cuda>=12.0 brand=tesla,driver>=470,driver<471". Where containers get GPUs by CDI no runtime
 * looks at them. Pure. Called by `sluice cdi check --image-env`.
 *
 * Facts: https://github.com/NVIDIA/nvidia-container-toolkit, internal/requirements.
 */
#ifndef SLUICE_CDI_REQUIRE_H
#define SLUICE_CDI_REQUIRE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/err.h"
#include "hardware/gpu.h"

struct buf;

enum require_limits {
	REQUIRE_EXPRESSION_MAX = 8192, /* bytes of one */
	REQUIRE_VERSION_MAX = 16,      /* "12.8" */
};

/* What is there. */
struct require_facts {
	char cuda[REQUIRE_VERSION_MAX]; /* the newest that the driver can do; "": not known */
	char driver[GPU_VERSION_MAX];	/* "" */
	bool has_gpu;			/* else what is required of one is taken as met */
	char arch[REQUIRE_VERSION_MAX]; /* compute capability: "8.0" */
	const char *brand;		/* "Tesla"; borrowed, of gpu_brand_to_string() */
};

/* `gpu` may be NULL. */
void require_facts_of(const struct inventory *inventory, const struct gpu *gpu,
		      struct require_facts *out);

/*
 * Whether an expression holds: blanks separate alternatives, commas the terms of one, and a term is
 * PROPERTY OP VALUE: cuda, driver, arch and brand; = != < <= > >=, of a brand only = and !=. A term
 * of another property is left out, and named in `unknown` (may be NULL), one on a line. -EINVAL:
 * not of this form, `err` says at which byte; -E2BIG: too long; -ENOMEM.
 */
int require_check(const char *text, size_t length, const struct require_facts *facts,
		  bool *out_is_met, struct buf *unknown, struct err *err);

/*
 * Whether all that an environment requires is there. `env` is a list of "NAME=VALUE" (others are
 * left out). An image of before these variables requires the CUDA_VERSION that it is of.
 * NVIDIA_DISABLE_REQUIRE=true: nothing is. `out_is_met`; `why` gets what is not met and what is
 * there instead. Errors of require_check(), with the variable.
 */
int require_env(const json_t *env, const struct require_facts *facts, bool *out_is_met,
		struct err *why, struct buf *unknown, struct err *err);

/*
 * The environment of an image, from what people have: lines NAME=VALUE, a JSON list of such texts,
 * or what `podman image inspect` prints. A list, owned. -EINVAL, -E2BIG, -ENOMEM.
 */
int require_env_parse(const char *text, size_t length, json_t **out, struct err *err);

#endif
