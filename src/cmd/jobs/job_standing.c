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

json_t *job_standing_json(const Sluice__V1__Job *job)
{
	const Sluice__V1__Standing *standing = job->standing;
	if (!standing)
		return json_null();

	json_t *half_life = standing->half_life_ns == UINT64_MAX
				? json_null()
				: json_real((double)standing->half_life_ns / CLOCK_NS_PER_S);

	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:I}", "total", standing->score,
			 "age", standing->age, "size", standing->size, "priority",
			 standing->priority, "usage", standing->usage, "usage_gpu_hours",
			 standing->usage_gpu_hours, "half_life_seconds", half_life, "gpus_now",
			 (json_int_t)standing->gpus_now);
}
