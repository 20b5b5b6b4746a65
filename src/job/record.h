/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the queue enters of an attempt beside its job's row, as text: which devices and slots it was
 * given, and which of its processes were seen on which device. Pure. Knows nothing of how the text
 * is kept.
 *
 *   sluice-attempt 1
 *   instance UUID
 *   grant UUID INDEX SLOT_COUNT SLOTS LABEL      SLOTS: words of 64 in hexadecimal, lowest first
 *   isolation WORDS                              with the end, unless it is "env"
 *
 *   PID FIRST LAST UUID                          one line for each observation
 */
#ifndef SLUICE_JOB_RECORD_H
#define SLUICE_JOB_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/job.h"
#include "job/launch.h"

struct err;

enum record_limits {
	RECORD_OBSERVATIONS_MAX = 256, /* of one attempt */
	RECORD_TEXT_MAX = 256 << 10,   /* bytes of either text */
};

struct record_attempt {
	char instance[LAUNCH_INSTANCE_MAX];
	struct launch_grant *grants; /* owned */
	size_t grant_count;
	enum isolation isolation;
};

/* A process of the job that the driver saw on a device. */
struct queue_observation {
	pid_t pid;
	char uuid[GPU_UUID_MAX];
	int64_t first_unix_ns, last_unix_ns;
};

void record_attempt_done(struct record_attempt *attempt);
#define _cleanup_record_attempt_ __attribute__((cleanup(record_attempt_done)))

/* The text (owned). -E2BIG, -ENOMEM. */
int record_format_attempt(const char *instance, const struct launch_grant *grants, size_t count,
			  char **out, struct err *err);
/* `out` is initialised here. -EINVAL with the line's number, -ENOMEM. Pure; takes anything. */
int record_parse_attempt(const char *text, size_t length, struct record_attempt *out,
			 struct err *err);

/* Calls `each` for the grants of such a text alone, in their order; needs no memory. -EINVAL: a
 * line cannot be read; those before it were told. Pure; takes anything. */
int record_each_grant(const char *text, size_t length,
		      void (*each)(const struct launch_grant *grant, void *context), void *context);

/* The text (owned); NULL when there is none of them. -ENOMEM. */
int record_format_observations(const struct queue_observation *observed, size_t count, char **out,
			       struct err *err);
/* `*out` is owned, NULL when there is none. -EINVAL with the line's number, -ENOMEM. Pure; takes
 * anything. */
int record_parse_observations(const char *text, size_t length, struct queue_observation **out,
			      size_t *out_count, struct err *err);

#endif
