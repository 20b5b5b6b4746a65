/* SPDX-License-Identifier: Apache-2.0 */
/* What an option of sbatch is called by `sluice run`. Pure: for notes about #SBATCH lines, which
 * are never obeyed. man sluice-slurm has the rest. */
#ifndef SLUICE_CMD_SCRIPT_RUN_SLURM_H
#define SLUICE_CMD_SCRIPT_RUN_SLURM_H

#include <stdbool.h>
#include <stddef.h>

enum { RUN_SLURM_TEXT_MAX = 256 };

/* Of "--gres=gpu:2", "-t 1:00:00" and the like, `length` bytes without blanks at the ends: what to
 * write in its place ("--gpus 2"), or a sentence why nothing is to be written ("there is one
 * queue"), which
 * `*out_is_option` tells apart. False: it has no translation. */
bool run_slurm_translate(const char *text, size_t length, char out[RUN_SLURM_TEXT_MAX],
			 bool *out_is_option);

#endif
