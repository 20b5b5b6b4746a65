/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference convergence points: after how many epochs the reference of a benchmark reaches its
 * quality, for several batch sizes, and whether a result that needs fewer, or more, can be the same
 * mathematics. The test of the rules is one-sided (too fast); ours has the other side as well, for
 * a platform that damages what it computes makes training slower. Pure.
 *
 * Source: mlperf_logging/rcp_checker of https://github.com/mlcommons/logging, whose answers
 * tests/conformance compares with ours.
 */
#ifndef SLUICE_BENCH_RCP_H
#define SLUICE_BENCH_RCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/mllog.h"

struct err;

enum rcp_limits {
	RCP_RECORDS_MAX = 256,
	RCP_EPOCHS_MAX = 1000, /* runs of one record */
	RCP_TABLE_BYTES_MAX = 4 << 20,
};

/* What a result of this batch size is compared with. */
struct rcp_record {
	double batch_size;
	double mean;	  /* olympic, epochs */
	double deviation; /* of the population of all its runs */
	size_t samples;	  /* runs that count for the mean */
	double fastest;	  /* the smallest mean that can be the same */
	double slowest;	  /* the largest */
};

struct rcp_table {
	char benchmark[MLLOG_TEXT_MAX];
	struct rcp_record *records; /* owned; by batch size, rising */
	size_t count;
};
void rcp_table_init(struct rcp_table *table);
void rcp_table_done(struct rcp_table *table);
#define _cleanup_rcp_table_ __attribute__((cleanup(rcp_table_done)))

/*
 * Reads a table in the form of mlcommons/logging: {NAME: {"Benchmark", "BS", "Epochs to converge":
 * []}}. `out` is initialised here. -EINVAL names the record and what is wrong with it: no epochs,
 * fewer runs than are dropped at both ends and one more, several benchmarks, a batch size that is
 * there twice.
 */
int rcp_table_parse(const char *text, size_t length, struct rcp_table *out, struct err *err);
/* Drops the records that others make useless: smaller batches than that of the record that
 * converges fastest, then those that are slower than what lies between their neighbours. */
int rcp_table_prune(struct rcp_table *table, struct err *err);

enum rcp_found { RCP_EXACT, RCP_BETWEEN, RCP_BELOW, RCP_ABOVE };
/* What a batch size is compared with: its record, one between two, the smallest (RCP_BELOW), or
 * none (RCP_ABOVE: `out` is untouched). The table holds one record at least. */
enum rcp_found rcp_table_find(const struct rcp_table *table, double batch_size,
			      struct rcp_record *out);

enum rcp_verdict {
	RCP_SAME,
	RCP_FASTER,  /* fewer epochs than the reference can be made to need: other mathematics */
	RCP_SLOWER,  /* more than it needs: something is broken, or tuned badly */
	RCP_MISSING, /* there is no reference for so large a batch */
	RCP_NOT_CONVERGED /* too many runs never did */
};
/* "same", ... */
const char *rcp_verdict_to_string(enum rcp_verdict verdict);

struct rcp_result {
	enum rcp_verdict verdict;
	enum rcp_found found;
	struct rcp_record reference; /* zero when there is none */
	double mean;   /* olympic, of the epochs of the runs; NAN: too many did not converge */
	double factor; /* by which a score that is allowed is multiplied: 1, or more when it is
			  faster than the mean of the reference */
};
/*
 * Judges a result. `epochs`: of each run to its last evaluation, NAN for one that did not converge;
 * sorted here. -EINVAL: fewer runs than are dropped and one more.
 */
int rcp_judge(const struct rcp_table *table, double batch_size, double *epochs, size_t count,
	      struct rcp_result *out, struct err *err);

#endif
