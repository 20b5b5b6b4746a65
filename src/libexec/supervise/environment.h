/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a process of a job, of what a supervisor was told. Pure. */
#ifndef SLUICE_LIBEXEC_SUPERVISE_ENVIRONMENT_H
#define SLUICE_LIBEXEC_SUPERVISE_ENVIRONMENT_H

#include <stddef.h>

#include "job/launch.h"

struct err;

/* With `count` of its grants, from `first` on, as its GPUs. The caller's: jobenv_free(). -E2BIG,
 * -ENOMEM. */
int environment_make(const struct launch *launch, size_t first, size_t count, char ***out,
		     struct err *err);

#endif
