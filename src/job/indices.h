/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The indices of an array's members as people write them: "3-17:2" (every second one from 3 on),
 * "1,5,9-12". In ascending order, none twice, so that the n-th is known without a list of them.
 * Pure.
 */
#ifndef SLUICE_JOB_INDICES_H
#define SLUICE_JOB_INDICES_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { INDICES_LAST_MAX = 4000000 /* the greatest index, as Slurm's at most */ };

/* How many there are, at least 1 and at most `max`. -EINVAL with the character at which it is
 * wrong, -E2BIG: too many. */
int indices_check(const char *text, size_t length, uint32_t max, uint32_t *out_count,
		  struct err *err);
/* The n-th, from 0, of a text that was checked; `n` itself for NULL. */
uint32_t indices_at(const char *text, uint32_t n);

#endif
