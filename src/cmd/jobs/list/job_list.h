/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of jobs as people read it: one line each, cut to the terminal and never broken; an array
 * is one line; whoever asks has their own jobs first, those that run before those that wait. Pure:
 * messages in, lines out; sluice jobs puts them on a terminal.
 */
#ifndef SLUICE_CMD_JOBS_LIST_JOB_LIST_H
#define SLUICE_CMD_JOBS_LIST_JOB_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/jobs/list/job_columns.h"
#include "sluice.pb-c.h"

struct err;
struct job_list;

struct job_list_options {
	struct job_columns columns;
	bool named; /* somebody has named them: none is left out */
	bool no_header;
	bool members;	  /* a line for each member of an array */
	bool is_filtered; /* not all jobs that have not ended are in it */
	uint32_t uid;	  /* whose jobs come first */
	size_t width;	  /* columns of a line; 0: no limit */
	/* Lines that there are: of other users' jobs only as many are shown as have room, and a
	 * last line says how many there are beside them. 0: no limit. */
	size_t height;
	int64_t now_unix_ns;
};

/* NULL: no memory. `options` is copied. */
struct job_list *job_list_new(const struct job_list_options *options);
struct job_list *job_list_free(struct job_list *list);
/* One more; running out of memory is remembered and told by job_list_print(). */
void job_list_add(struct job_list *list, const Sluice__V1__Job *job);
/* A GPU that somebody uses without a job: a line below the others, the first few. */
void job_list_add_outside(struct job_list *list, const Sluice__V1__GpuUse *use);
/* To be called once. 0, -ENOMEM, or -errno of the stream. */
int job_list_print(struct job_list *list, FILE *out, struct err *err);

#endif
