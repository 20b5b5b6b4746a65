/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every program under perf/ prints: a table of what was measured, then one line per gate
 *
 *     gate <name> <value> <unit> <= <limit> ok        (or >=, or: miss)
 *
 * and exit status 1 if one is missed. `--output json` prints the same with the raw samples. Values
 * that involve a simulated GPU say "simulated".
 *
 * Machines are noisy. A time gate also holds up to limit x noise, where noise is how much slower
 * than on a quiet machine two bare processes exchange a byte over a unix socket in this very run
 * (at most 3). Both numbers are printed.
 */
#ifndef SLUICE_PERF_GATE_H
#define SLUICE_PERF_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate_report;

enum gate_sense { GATE_AT_MOST, GATE_AT_LEAST };

/*
 * Reads `--output json|text` and `--help` from the arguments, measures the noise (about 50 ms) and
 * opens the report. `simulated`: the figures involve a simulated GPU. Exits 64 on other arguments
 * unless `out_rest` is given, which then receives the index of the first positional one.
 */
struct gate_report *gate_open(int argc, char **argv, const char *program, const char *summary,
			      bool simulated, int *out_rest);

/* A time in nanoseconds, judged with the allowance for noise. `unit` is "ns", "us" or "ms"; `limit`
 * is in that unit. `samples_ns` (borrowed) may be NULL when there is one value only. */
void gate_time(struct gate_report *report, const char *name, double value_ns, const char *unit,
	       double limit, const uint64_t *samples_ns, size_t sample_count);
/* Anything else: sizes, ratios, counts. No allowance. */
void gate_value(struct gate_report *report, const char *name, double value, const char *unit,
		enum gate_sense sense, double limit);
/* One part of a program, which may be measured alone. */
struct gate_part {
	const char *name;
	void (*measure)(struct gate_report *report);
};
/* All parts, or the one that is named `only`. */
void gate_parts(struct gate_report *report, const struct gate_part *parts, size_t count,
		const char *only);
/* A line of the table that is not judged. */
void gate_note(struct gate_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* All of a program without options of its own: gate_open(), the parts, gate_close(). */
int gate_main(int argc, char **argv, const char *program, const char *summary,
	      const struct gate_part *parts, size_t count);

/* Prints the report and frees it. Returns the exit status: 0, or 1 when a gate was missed. */
int gate_close(struct gate_report *report);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t gate_now_ns(void);
/* Quantile `q` (0..1) of the samples, nearest rank. Sorts them in place. 0 for none. */
double gate_quantile(uint64_t *samples, size_t count, double q);

#endif
