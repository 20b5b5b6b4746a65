/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of a job's user as they are when it starts. It was submitted with those of then: who
 * was taken out of a group meanwhile does not come back into it by a job that waited. Asks the name
 * service in a process of its own, for it may load libraries, and may never answer.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_GROUPS_H
#define SLUICE_LIBEXEC_SUPERVISE_GROUPS_H

#include <stdbool.h>

struct err;
struct launch;
struct spec;

#define GROUPS_ANSWER_NS UINT64_C(10000000000) /* then the attempt is tried again later */

/*
 * Takes from the job the groups that its user is in no more: supplementary ones are left out, and
 * of the first one the user's own takes the place. A user whom nobody knows keeps the first one
 * alone. Nothing happens for root's jobs, and where we are not root. `*out_changed`: it was so.
 * -EAGAIN, -EIO, -ENOMEM: they cannot be known now, and nothing is changed.
 */
int groups_refresh(struct spec *spec, bool *out_changed, struct err *err);

/* Puts the launch, as it is now, in the place of the one that is inherited, for all that reads it
 * later. -ENOMEM, -errno. */
int groups_replace_launch(const struct launch *launch, struct err *err);

#endif
