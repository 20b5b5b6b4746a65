/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the options of `sluice run` want of the queue beside GPUs and a command, as wants.h has it.
 * Pure. The agent checks it again: this one is here for messages that name the option.
 */
#ifndef SLUICE_CMD_JOBS_RUN_WANTS_H
#define SLUICE_CMD_JOBS_RUN_WANTS_H

struct err;
struct run_options;
struct wants;

/* `out` is initialised here and given back by wants_done() in any case. -EINVAL names the option,
 * -ENOMEM. */
int run_wants_make(const struct run_options *options, struct wants *out, struct err *err);

#endif
