/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which program makes a job's container, and whether it is the administrator's: what is called
 * podman in a user's own directory may be anything. Looks at PATH as the job has it, with the
 * supervisor's rights. Knows nothing of what podman and docker do.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_PROGRAM_H
#define SLUICE_LIBEXEC_SUPERVISE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"

struct err;
struct spec;

enum program_limits {
	PROGRAM_PLACES_MAX = 64, /* directories of PATH that are looked at */
};

/*
 * Whether nobody but root can have put it there: the file and every directory above it, without
 * symbolic links, is root's and can be written to by its owner alone (or by the group root), and
 * everybody may execute and enter them, so that its user finds the same one. -EPERM: what is not
 * so, with its path; -errno: it cannot be looked at.
 */
int program_check(const char *path, struct err *err);

/*
 * Of the PATH of this environment ("NAME=VALUE", ends in NULL): what the job's user executes as
 * podman, else as docker, as `runtime` (enum spec_runtime) says. -EPERM: it is not the
 * administrator's, and why; -ENOENT: there is none. Relative directories are passed over.
 */
int program_find(char *const *environment, unsigned runtime, struct err *err);

/*
 * Takes away from the environment (owned as jobenv_make() makes it) what would put other code into
 * such a program: variables of the dynamic linker and of shells, and directories of PATH that are
 * not the administrator's. -ENOMEM: it is untouched.
 */
int program_clean(char **environment);

#endif
