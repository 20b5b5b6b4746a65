/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text to numbers, strictly: the whole text must be the number, within the range that is given.
 * No blanks, no sign where none belongs, no silent overflow. Pure functions; every parser of the
 * project comes here instead of to strtol().
 */
#ifndef SLUICE_BASE_PARSE_H
#define SLUICE_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All of these return 0, -EINVAL (not a number of this form) or -ERANGE (a number, but outside
 * [min, max]); `out` is untouched on failure.
 */
int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
int parse_i64(const char *text, int64_t min, int64_t max, int64_t *out);
/* Hexadecimal digits, with or without 0x. */
int parse_hex(const char *text, uint64_t max, uint64_t *out);
/* The same from `length` bytes that need not end in NUL: for text inside a larger buffer. */
int parse_u64_span(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *out);
int parse_hex_span(const char *text, size_t length, uint64_t max, uint64_t *out);
/* "512", "4k", "16Gi", "16GiB", "1.5G": bytes. k, M, G, T are powers of 1000; Ki, Mi, Gi, Ti of
 * 1024. */
int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *out_bytes);
/* "90s", "1h30m", "250ms", "10" (seconds): nanoseconds. */
int parse_duration(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *out_ns);
/* A decimal fraction such as "0.75" or "12"; no exponent, no infinity. */
int parse_fraction(const char *text, double min, double max, double *out);
/* "true|yes|on|1", "false|no|off|0". */
int parse_bool(const char *text, bool *out);

#endif
