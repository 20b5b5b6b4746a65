/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a job of the agent is shown: its state, why, on which GPUs, for how long, as text and as
 * JSON. Pure: messages in, text out. Knows nothing of sockets or terminals.
 */
#ifndef SLUICE_CMD_JOBS_JOB_TEXT_H
#define SLUICE_CMD_JOBS_JOB_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice.pb-c.h"

struct err;

enum job_text_limits {
	JOB_TEXT_MAX = 1024, /* of a reason or a list of GPUs with its NUL; longer ones are cut */
	JOB_TEXT_TIME_MAX = 32, /* of a duration */
	JOB_TEXT_LABEL_MAX = 32,
	JOB_TEXT_ONE_SLOT =
	    1000 /* 1/1000 of a GPU: as many slots as one can have, so one of them */
};

/* A job's number as people type it, "17", or "17.3" for a member of an array. -EINVAL, -ERANGE. */
int job_text_id(const char *text, uint64_t *out);
/* The same; `out_array_id`: of the array whose member it is meant to be, 0: of none. */
int job_text_target(const char *text, uint64_t *out_id, uint64_t *out_array_id);
/* "17", or "17.3" for a member of an array. */
const char *job_text_label(const Sluice__V1__Job *job, char out[JOB_TEXT_LABEL_MAX]);
/* "Pending", "Running", ...; "Unknown" for what a later agent may have. */
const char *job_text_state(Sluice__V1__JobState state);
/* As above, in any case. -EINVAL, and the nearest in `err`. */
int job_text_state_parse(const char *text, Sluice__V1__JobState *out, struct err *err);
bool job_text_is_final(Sluice__V1__JobState state);
/* "WaitingForGPU (have 1, need 2; ...)"; "" when there is nothing to say. */
const char *job_text_reason(const Sluice__V1__Job *job, char out[JOB_TEXT_MAX]);
/* What to do about a container that did not start, "is the name of the image right?"; "" for all
 * other jobs. */
const char *job_text_advice(const Sluice__V1__Job *job);
/* What it has, or else what it wants: "0,3", "3:1", "2 (1/4)" for one of four slots of GPU 2,
 * "wants 2", "wants 1 (1/4)"; "" for a job without GPUs. */
const char *job_text_gpus(const Sluice__V1__Job *job, char out[JOB_TEXT_MAX]);
/* How long it has run, or ran; of one that waits, how long that is. */
uint64_t job_text_elapsed_ns(const Sluice__V1__Job *job, int64_t now_unix_ns);
/* "0.21s", "12.3s", "4m05s", "2h03m", "3d04h". */
const char *job_text_duration(uint64_t ns, char out[JOB_TEXT_TIME_MAX]);
/* "2026-11-21 23:02:07.123" in the machine's time zone; "-" for 0. */
const char *job_text_time(int64_t unix_ns, char out[JOB_TEXT_TIME_MAX]);
/* When one that waits for its turn has it: "#3 ~12m", the third of those that wait, in twelve
 * minutes at the earliest; "#3" where that is not known; "" where it has no place. */
const char *job_text_start(const Sluice__V1__Job *job, int64_t now_unix_ns,
			   char out[JOB_TEXT_TIME_MAX]);
/* "GPU 3 is in use outside the queue: carol, pid 4711 (python3)", and the container if it is in
 * one. */
const char *job_text_outside(const Sluice__V1__GpuUse *use, char out[JOB_TEXT_MAX]);
/* The same as an object; new. NULL: no memory. */
json_t *job_text_outside_json(const Sluice__V1__GpuUse *use);
/* What a shell is told of a final job: its own exit code where it has one. */
int job_text_exit_code(const Sluice__V1__Job *job);
/* All there is; new. NULL: no memory. */
json_t *job_text_json(const Sluice__V1__Job *job);

#endif
