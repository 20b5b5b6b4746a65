/* SPDX-License-Identifier: Apache-2.0 */
/* Where our programs are that nobody calls by hand. */
#ifndef SLUICE_AGENT_LIBEXEC_H
#define SLUICE_AGENT_LIBEXEC_H

#include "base/file.h"

struct err;

/*
 * The program `name` ("sluice-supervise"): `named` if that is not NULL or ""; else in a build
 * beside the running program, in `directory` of the build's libexec ("supervise"), or where both
 * were installed. -ENOPKG: nowhere.
 */
int libexec_find(const char *name, const char *directory, const char *named,
		 char out[FILE_PATH_MAX], struct err *err);

#endif
