/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "$(NAME)" in the commands and variables of a container, exactly as Kubernetes expands it: "$$" is
 * "$", a name that is not known stays as it is written, and there is no second pass. Pure.
 *
 * https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 */
#ifndef SLUICE_JOB_FILE_EXPAND_H
#define SLUICE_JOB_FILE_EXPAND_H

#include <stddef.h>

struct buf;

/* The value of the variable whose name are `length` bytes at `name`; NULL: not known. */
typedef const char *(*expand_lookup)(const char *name, size_t length, const void *context);

/* Appends `text`, expanded. As buf_add(): -ENOSPC beyond what `out` takes. */
int expand_text(const char *text, expand_lookup lookup, const void *context, struct buf *out);

#endif
