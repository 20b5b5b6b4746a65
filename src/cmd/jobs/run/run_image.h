/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of what `sluice run` asks for that is of jobs with an --image alone. Asks nobody. Called
 * by run_request.c.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_IMAGE_H
#define SLUICE_CMD_JOBS_RUN_RUN_IMAGE_H

struct err;
struct run_options;
struct run_request;

/* Whether the options can be meant together. -EINVAL. */
int run_image_check(const struct run_options *options, char *const *argv, struct err *err);
/* Puts them into the request, whose environment is there already. -EINVAL, -ENOMEM. */
int run_image_fill(const struct run_options *options, struct run_request *out, struct err *err);
void run_image_done(struct run_request *request);

#endif
