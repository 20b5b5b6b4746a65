/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPIJobs of older versions (v1alpha2, v1) as v2beta1. Fields that are not known are kept, and each
 * change is told with the line of the file that it is about. What is v2beta1 already stays as it
 * is. Pure.
 */
#ifndef SLUICE_JOB_FILE_CONVERT_H
#define SLUICE_JOB_FILE_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

struct jobfile_arena;
struct err;
struct yaml_node;

/* `is_unknown`: nothing was changed; a field that v2beta1 does not have was kept. Failure ends the
 * conversion. */
typedef int (*convert_told)(uint32_t line, const char *text, bool is_unknown, void *context);

/* Whether it is an MPIJob of another version than v2beta1. */
bool convert_is_needed(const struct yaml_node *document);

/*
 * The document as v2beta1: new nodes in `arena`, beside those of the old one, which are shared and
 * keep their places. -EINVAL with file:line:column (`name` is the file's), -ENOMEM.
 */
int convert_document(const struct yaml_node *document, const char *name,
		     struct jobfile_arena *arena, convert_told told, void *context,
		     const struct yaml_node **out, struct err *err);

#endif
