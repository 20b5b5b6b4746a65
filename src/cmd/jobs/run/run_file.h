/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice run -f FILE`: reads the file, tells what was noticed in it, and makes of each job in it
 * what the agent is asked for. Looks at this machine's files where the file names them (hostPath,
 * the configuration's volumes), and asks nobody.
 */
#ifndef SLUICE_CMD_JOBS_RUN_RUN_FILE_H
#define SLUICE_CMD_JOBS_RUN_RUN_FILE_H

#include <stddef.h>
#include <stdint.h>

struct cmd_call;
struct err;
struct run_file;
struct run_job;
struct run_options;

/* -EINVAL: the options cannot be meant together with a file; the text names one. */
int run_file_check(const struct run_options *options, char *const *argv, struct err *err);

/* `options` are borrowed until run_file_free(). -EINVAL and -E2BIG with the file's line, -errno of
 * reading it. */
int run_file_load(const struct run_options *options, struct run_file **out, struct err *err);
struct run_file *run_file_free(struct run_file *file);

size_t run_file_count(const struct run_file *file);
/* Of the array that job `index` is; 0: it is none. */
uint32_t run_file_members(const struct run_file *file, size_t index);
/* As run_job_make(), with paths of the host checked (and made, where the file wants that and
 * `may_make`). `out` borrows from `file`. */
int run_file_make(const struct run_file *file, size_t index, struct run_job *out, struct err *err);
/* Notes on job `index` to standard error, unless --quiet. */
void run_file_tell(const struct run_file *file, size_t index, const struct cmd_call *call);
/* "FILE:LINE: job 'x'", before what the agent says of it. */
void run_file_blame(const struct run_file *file, size_t index, struct err *err);

#endif
