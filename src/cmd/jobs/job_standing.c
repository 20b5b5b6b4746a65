/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/job_standing.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cmd/jobs/job_text.h"

const char *job_standing_score(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX])
{
	const Sluice__V1__Standing *standing = job->standing;

	out[0] = '\0';
	if (standing)
		(void)snprintf(out, JOB_STANDING_MAX,
			       "%.1f: age %.1f + size %.1f + priority %.1f - usage %.1f",
			       standing->score, standing->age, standing->size, standing->priority,
			       standing->usage);
	return out;
}

const char *job_standing_usage(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX])
{
	const Sluice__V1__Standing *standing = job->standing;
	char half_life[JOB_TEXT_TIME_MAX], fades[JOB_TEXT_TIME_MAX + 32];

	out[0] = '\0';
	if (!standing)
		return out;

	if (standing->half_life_ns == UINT64_MAX)
		(void)snprintf(fades, sizeof(fades), "for ever");
	else
		(void)snprintf(fades, sizeof(fades), "half as much after %s",
			       job_text_duration(standing->half_life_ns, half_life));

	(void)snprintf(out, JOB_STANDING_MAX,
		       "%.2f GPU-hours that count (%s), and %" PRIu32 " GPU%s now",
		       standing->usage_gpu_hours, fades, standing->gpus_now,
		       standing->gpus_now == 1 ? "" : "s");
	return out;
}

const char *job_standing_start(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX])
{
	const Sluice__V1__Standing *standing = job->standing;
	char time[JOB_TEXT_TIME_MAX];

	const char *reserved = job->gpus > 1	? "GPUs are reserved for it"
			       : job->gpus == 1 ? "a GPU is reserved for it"
						: "it comes first";

	out[0] = '\0';
	if (!standing || (standing->starts_unix_ns == 0 && !standing->is_reserved))
		return out;

	if (standing->starts_unix_ns == 0)
		(void)snprintf(out, JOB_STANDING_MAX, "when enough of what runs has ended: %s",
			       reserved);
	else if (standing->is_reserved && !standing->start_is_estimate)
		(void)snprintf(out, JOB_STANDING_MAX, "by %s at the latest: %s",
			       job_text_time(standing->starts_unix_ns, time), reserved);
	else
		(void)snprintf(
		    out, JOB_STANDING_MAX, "about %s, %s%s%s",
		    job_text_time(standing->starts_unix_ns, time),
		    standing->start_is_estimate ? "an estimate by what such jobs have taken"
						: "by the limits of what runs",
		    standing->is_reserved ? ": " : "", standing->is_reserved ? reserved : "");
	return out;
}

const char *job_standing_takes(const Sluice__V1__Job *job, char out[JOB_STANDING_MAX])
{
	char time[JOB_TEXT_TIME_MAX];

	out[0] = '\0';
	if (job->standing && job->standing->estimate_ns > 0)
		(void)snprintf(out, JOB_STANDING_MAX,
			       "%s, an estimate by its user's last jobs of this name",
			       job_text_duration(job->standing->estimate_ns, time));
	return out;
}

json_t *job_standing_json(const Sluice__V1__Job *job)
{
	const Sluice__V1__Standing *standing = job->standing;
	if (!standing)
		return json_null();

	json_t *half_life = standing->half_life_ns == UINT64_MAX
				? json_null()
				: json_real((double)standing->half_life_ns / CLOCK_NS_PER_S);

	json_t *starts = standing->starts_unix_ns
			     ? json_real((double)standing->starts_unix_ns / CLOCK_NS_PER_S)
			     : json_null();
	json_t *estimate = standing->estimate_ns
			       ? json_real((double)standing->estimate_ns / CLOCK_NS_PER_S)
			       : json_null();

	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I, s:b, s:o, s:b, s:o}", "total",
			 standing->score, "age", standing->age, "size", standing->size, "priority",
			 standing->priority, "usage", standing->usage, "usage_gpu_hours",
			 standing->usage_gpu_hours, "half_life_seconds", half_life, "gpus_now",
			 (json_int_t)standing->gpus_now, "reserved", (int)standing->is_reserved,
			 "starts_unix", starts, "start_is_estimate",
			 (int)standing->start_is_estimate, "estimate_seconds", estimate);
}
