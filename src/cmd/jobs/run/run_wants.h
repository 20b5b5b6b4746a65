/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the options of `sluice run` want of the queue beside GPUs and a command, as wants.h has it.
 * Pure. The agent checks it again: this one is here for messages that name the option.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_WANTS_H
#define SLUICE_CMD_JOBS_RUN_RUN_WANTS_H

#include <stdint.h>

struct err;
struct run_options;
struct wants;

/* `out` is initialised here and given back by wants_done() in any case. -EINVAL names the option,
 * -ENOMEM. */
int run_wants_make(const struct run_options *options, struct wants *out, struct err *err);

/* A moment as moment_parse() reads it, from now on, as struct wants has it: of --begin, of a job's
 * file, of `sluice jobs set`. -EINVAL. */
int run_wants_begin(const char *text, uint64_t *out_unix_ns, struct err *err);

#endif
