/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the GPUs beside a benchmark, in a thread and through a probe process: what they are, and
 * whether they were slowed down while a run took place. Where there is no driver there is none of
 * it.
 */
#ifndef SLUICE_CMD_PROOF_BENCH_GPUS_H
#define SLUICE_CMD_PROOF_BENCH_GPUS_H

struct bench_gpus;
struct inventory;
struct result_run;

/* Waits until the driver has said what there is. NULL: no driver, or nobody can be asked. */
struct bench_gpus *bench_gpus_start(void);
struct bench_gpus *bench_gpus_stop(struct bench_gpus *gpus); /* NULL */
/* Borrowed; NULL: not known. */
const struct inventory *bench_gpus_inventory(const struct bench_gpus *gpus);
/* Adds what was seen between run->start_ns and run->end_ns. NULL is fine. */
void bench_gpus_look(struct bench_gpus *gpus, struct result_run *run);

#endif
