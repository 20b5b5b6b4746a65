/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of the collectives as JSON: "sluice.result/1" with the keys that tools for nccl-tests read
 * beside them, and nccl-tests' own file (its version 3). Rows are added as they come; both
 * documents are whole at any moment. Every operation of every rank that was timed alone is in them.
 * Of the environment only what fingerprint.h lets through. Knows nothing of files.
 *
 * Source: https://github.com/NVIDIA/nccl-tests, src/util.cu and tools/analyze_perf_json.py
 */
#ifndef SLUICE_BENCH_COLLECTIVES_SHEET_JSON_H
#define SLUICE_BENCH_COLLECTIVES_SHEET_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/jsonw.h"
#include "bench/collectives/sheet.h"

enum sheet_json_limits {
	SHEET_JSON_ROWS_MAX = 192 << 20, /* bytes of each list; further rows are only counted */
	SHEET_JSON_MAX = 512 << 20,
};

struct checks;

/* What both documents say of the run beside its rows. All borrowed. */
struct sheet_about {
	int argc;
	char *const *argv;
	char *const *environment;    /* ends in NULL */
	const char *root;	     /* before /proc and /sys; "" */
	const char *started, *ended; /* "2026-11-23T02:10:00Z" */
	uint64_t seed;
	const struct checks *checks; /* what was judged */
	const char *error;	     /* why the run ended early; NULL */
};

struct sheet_json {
	struct buf runs, results;
	struct jsonw runs_json, results_json;
	uint64_t index, dropped;
};

void sheet_json_init(struct sheet_json *json);
void sheet_json_done(struct sheet_json *json);
/* `start_ns`, `end_ns`: CLOCK_MONOTONIC. -ENOMEM; a row for which there is no room is counted and
 * left out. */
int sheet_json_row(struct sheet_json *json, const struct sheet *sheet,
		   const struct measure_row *row, uint64_t start_ns, uint64_t end_ns);
/* The documents with the rows so far; more can be added behind. -ENOSPC, -ENOMEM. */
int sheet_json_result(const struct sheet_json *json, const struct sheet *sheet,
		      const struct sheet_about *about, struct buf *out);
int sheet_json_nccl(const struct sheet_json *json, const struct sheet *sheet,
		    const struct sheet_about *about, struct buf *out);
/* For SLUICE_RESULT_FILE, which `sluice bench compare` reads: one run with OP_peak_busbw and
 * OP_latency of each operation. */
int sheet_json_brief(const struct sheet *sheet, const struct sheet_about *about, struct buf *out);

#endif
