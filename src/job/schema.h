/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one form of a job outside of a program's memory: proto/job.proto, and which of its fields is
 * which of struct spec and struct wants. A new field is a line there, a line of the struct, and a
 * line of a table here. Pure.
 */
#ifndef SLUICE_JOB_SCHEMA_H
#define SLUICE_JOB_SCHEMA_H

#include <stddef.h>

#include "job.pb-c.h"
#include "job/form.h"
#include "job/spec.h"

struct err;

extern const struct form_field schema_wants[], schema_spec[];
extern const size_t schema_wants_count, schema_spec_count;

/* Initialises `out`, which borrows from `wants`. */
void schema_from_wants(const struct wants *wants, Sluice__V1__Wants *out);
/* `out` is initialised here, and holds what wants_check() passes; wants_done(). -EINVAL names the
 * field, -ENOMEM. */
int schema_to_wants(const Sluice__V1__Wants *message, struct wants *out, struct err *err);

/* A specification as a message, with what the message points to; do not move it. */
struct schema_spec_message {
	Sluice__V1__JobSpec spec;
	Sluice__V1__Wants wants;
	Sluice__V1__JobOwner owner;
	Sluice__V1__Limit limit[SPEC_LIMITS_MAX], *limits[SPEC_LIMITS_MAX];
};

/* `out` is initialised here and borrows from `spec`; schema_spec_message_done(), also after an
 * error. -ENOMEM. */
int schema_from_spec(const struct spec *spec, struct schema_spec_message *out);
void schema_spec_message_done(struct schema_spec_message *message);
/* All but its owner. `out` is initialised here, and empty after an error; else spec_done().
 * -EINVAL, -E2BIG name the field, -ENOMEM. Whether it makes sense is spec_check()'s business. */
int schema_to_spec(const Sluice__V1__JobSpec *message, struct spec *out, struct err *err);
/* The same, with the owner, which has to be there. */
int schema_to_owned_spec(const Sluice__V1__JobSpec *message, struct spec *out, struct err *err);

#endif
