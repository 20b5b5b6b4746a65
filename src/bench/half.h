/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of half precision (IEEE 754 binary16), which C has on some machines only. Pure.
 */
#ifndef SLUICE_BENCH_HALF_H
#define SLUICE_BENCH_HALF_H

#include <stdint.h>

float half_to_float(uint16_t bits);
/* To the nearest, ties to even; from 65520 on it is infinite. A NaN stays one. */
uint16_t half_from_float(float value);

#endif
