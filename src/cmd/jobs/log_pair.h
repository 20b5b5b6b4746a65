/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both outputs of an attempt as one, in the order in which they were written where the job's
 * supervisor has kept it (src/job/interleave.h). The files may be growing, and are believed no
 * further than each byte of them once. Knows nothing of jobs, nor who reads.
 */
#ifndef SLUICE_CMD_JOBS_LOG_PAIR_H
#define SLUICE_CMD_JOBS_LOG_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"

struct err;
struct log_pair;

enum log_pair_limits {
	LOG_PAIR_LINE_MAX = 8 << 10,  /* bytes of an output in one object of JSON */
	LOG_PAIR_READ_MIN = 52 << 10, /* room that log_pair_read() needs for one */
};

#define LOG_PAIR_STUCK_NS UINT64_C(1000000000) /* so long an order is waited for */

struct log_pair_options {
	const char *out_path; /* the others are beside it */
	bool is_json;	      /* objects, one a line: {"job", "attempt", "stream", "text"} */
	uint64_t job;
	uint32_t attempt;
};

/* "DIR/[wN.]out.A" to "DIR/[wN.]KIND.A". -EINVAL: it is no such path. */
int log_pair_sibling(const char *out_path, const char *kind, char out[FILE_PATH_MAX],
		     struct err *err);
/* NULL: -ENOENT, -EACCES, ..., -EINVAL for what is no plain file. */
struct log_pair *log_pair_new(const struct log_pair_options *options, struct err *err);
struct log_pair *log_pair_free(struct log_pair *pair);
/* Before anything was read: goes to where the last `lines` lines of both together begin. */
int log_pair_tail(struct log_pair *pair, uint32_t lines, bool is_final, struct err *err);
/* What comes next, as read(): 0, nothing is there now that can be shown. `size`: LOG_PAIR_READ_MIN
 * at least. `is_final`: nothing more is written. */
ssize_t log_pair_read(struct log_pair *pair, bool is_final, char *out, size_t size);
/* Both files have more, and the order is not known yet: it is looked for soon. */
bool log_pair_is_stuck(const struct log_pair *pair);
/* Something was shown whose order nobody knows. */
bool log_pair_is_unordered(const struct log_pair *pair);
/* Has the kernel tell of changes. */
void log_pair_watch(const struct log_pair *pair, int inotify_fd);

#endif
