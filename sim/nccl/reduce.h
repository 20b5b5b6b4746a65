/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of the simulated NCCL, one element at a time. Half and bfloat16 are rounded to nearest
 * even after each step. An average is what the real library makes of it: floats are divided first
 * and summed then, integers summed first. Pure.
 */
#ifndef SLUICE_SIM_NCCL_REDUCE_H
#define SLUICE_SIM_NCCL_REDUCE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of one element (enum nccl_type); 0: no such type. */
size_t reduce_size(int type);
/* Before the first step: what an average does to each contribution. In place. */
void reduce_prepare(void *values, size_t count, int type, int redop, uint32_t ranks);
/* into[i] = into[i] OP from[i]. */
void reduce_step(void *into, const void *from, size_t count, int type, int redop);
/* After the last step: what an average of integers does to the sum. In place. */
void reduce_finish(void *values, size_t count, int type, int redop, uint32_t ranks);

float reduce_from_half(uint16_t half);
uint16_t reduce_to_half(float value);
float reduce_from_bfloat(uint16_t value);
uint16_t reduce_to_bfloat(float value);

#endif
