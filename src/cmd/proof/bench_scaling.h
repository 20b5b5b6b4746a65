/* SPDX-License-Identifier: Apache-2.0 */
/* What `sluice bench compare --from` makes of recorded runs with different numbers of workers. */
#ifndef SLUICE_CMD_PROOF_BENCH_SCALING_H
#define SLUICE_CMD_PROOF_BENCH_SCALING_H

#include <stdbool.h>
#include <stddef.h>

struct cmd_call;
struct result;

enum { BENCH_SCALING_FILES_MAX = 256 };

struct bench_scaling {
	char *const *files; /* results, or tables whose names end in .csv */
	size_t count;
	const char *metric;	 /* NULL: the first that is a rate */
	const char *json, *html; /* where to write these; NULL */
	const char *started;	 /* RFC 3339 */
	bool is_json;		 /* on standard output, in place of a table */
	/* What the first file holds, which is not read a second time; NULL: it has not been read.
	 */
	const struct result *first;
};
/* Whether files with such names are a series, whatever is in them: a table, or more than two. */
bool bench_scaling_is_meant(char *const *files, size_t count);
/* Reads, prints and writes; the exit code. */
int bench_scaling_run(const struct cmd_call *call, const struct bench_scaling *what);

#endif
