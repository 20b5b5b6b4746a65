/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a waiting job stands, and why: its score in its parts, as lines for people and as JSON. Of
 * the answer alone; asks nobody. Called by `sluice jobs ID`.
 */
#ifndef SLUICE_CMD_JOBS_JOB_STANDING_H
#define SLUICE_CMD_JOBS_JOB_STANDING_H

#include <jansson.h>
#include <stddef.h>

#include "sluice.pb-c.h"

enum job_standing_limits {
	JOB_STANDING_MAX = 256, /* bytes of a line */
};

/* "25.3: age 27.8 + size 10.0 + priority 0.0 - usage 12.5"; "" for a job that has no score. */
const char *job_standing_score(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX]);
/* "1.02 GPU-hours that still count (half of them after 24h), and 1 GPU now"; "". */
const char *job_standing_usage(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX]);
/* When it starts, and how sure that is: "by 2026-11-28 14:20:00.000 at the latest, GPUs are
 * reserved";
 * "". */
const char *job_standing_start(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX]);
/* "5m10s, an estimate by its user's last jobs of this name"; "". */
const char *job_standing_takes(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX]);
/* An object (owned), null for a job that has none; NULL: no memory. */
json_t *job_standing_json(const Sluice__V1__Job *job);

#endif
