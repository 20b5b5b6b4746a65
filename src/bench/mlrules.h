/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rules of a round want of one benchmark: its keys, how often each belongs into a log and
 * with which values, and which tensors a run says that it initialised. Plain data (mlrules.def,
 * mltensors.c) and the account that a log is kept in. Pure. Order and time of events are mlrun.h's.
 *
 * Source: the tables of https://github.com/mlcommons/logging, compliance_checker/training_*,
 * release 4.1.68. tests/conformance asks that checker about the same logs.
 */
#ifndef SLUICE_BENCH_MLRULES_H
#define SLUICE_BENCH_MLRULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/mltensors.h"

struct mllog;

enum mlrules_round { MLRULES_06, MLRULES_07, MLRULES_10, MLRULES_11 };
#define MLRULES_ROUNDS 4
/* "0.6.0", ...; also "0.6" and "v0.6". -EINVAL. */
int mlrules_from_string(const char *text, enum mlrules_round *out);
const char *mlrules_to_string(enum mlrules_round round);

/* Whether the round has a benchmark of this name. */
bool mlrules_has(enum mlrules_round round, const char *benchmark);

enum mlrules_limits {
	MLRULES_ROWS_MAX = 192, /* of one round: a unit test counts them */
	MLRULES_WANT_MAX = 96,
};

/* What a log said of one row of the table. */
struct mlrules_seen {
	unsigned count, differing; /* of those, with another value than the first */
	uint64_t first_id;
	uint64_t wrong_line; /* the first whose value the row refuses; 0: none */
};

struct mlrules {
	enum mlrules_round round;
	char optimiser[32]; /* of opt_name, the last */
	struct mlrules_seen rows[MLRULES_ROWS_MAX];
	struct mltensors tensors;
};

void mlrules_init(struct mlrules *rules, enum mlrules_round round);
/* A line of the log, with its number. */
void mlrules_line(struct mlrules *rules, uint64_t number, const struct mllog *log);

/* What is wrong; `is_repeat`: only that a key is there again, with the same value. */
typedef void (*mlrules_found)(void *data, bool is_repeat, const char *text);
/* After the last line, whose division and benchmark are known now. */
void mlrules_end(const struct mlrules *rules, const char *division, const char *benchmark,
		 mlrules_found found, void *data);

/* How many rows of the table are of this round. */
size_t mlrules_count(enum mlrules_round round);

#endif
