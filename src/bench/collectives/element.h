/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One element of a buffer: its value, its text, and the two floating point types of 16 bits that C
 * does not have. Slow and exact; pure.
 */
#ifndef SLUICE_BENCH_COLLECTIVES_ELEMENT_H
#define SLUICE_BENCH_COLLECTIVES_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/collectives/collective.h"

enum element_limits {
	ELEMENT_TEXT_MAX = 32, /* of one printed element, with the NUL */
};

bool element_is_float(enum collective_type type);
bool element_is_unsigned(enum collective_type type);

/* Of one element of a floating point type; it need not be aligned. */
double element_value(enum collective_type type, const void *element);

/* As people read it: "3.5", "-12"; floating point of 16 bits with its bits besides. */
void element_print(enum collective_type type, const void *element, char out[ELEMENT_TEXT_MAX]);

/* IEEE 754 binary16 and bfloat16. To 16 bits: rounded to nearest, ties to even; NaN stays NaN. */
float element_bf16_to_f32(uint16_t bits);
uint16_t element_bf16_from_f32(float value);

#endif
