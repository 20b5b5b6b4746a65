/* SPDX-License-Identifier: Apache-2.0 */
#include "job/job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

static const char *const job_state_names[] = {
    [JOB_PENDING] = "Pending", [JOB_HELD] = "Held",	      [JOB_STARTING] = "Starting",
    [JOB_RUNNING] = "Running", [JOB_STOPPING] = "Stopping",   [JOB_SUCCEEDED] = "Succeeded",
    [JOB_FAILED] = "Failed",   [JOB_CANCELLED] = "Cancelled",
};

static const char *const job_reason_names[] = {
    [JOB_REASON_NONE] = "",
    [JOB_REASON_WAITING_FOR_GPU] = "WaitingForGPU",
    [JOB_REASON_GPU_IN_USE] = "GPUInUseByOthers",
    [JOB_REASON_GPU_UNHEALTHY] = "GPUUnhealthy",
    [JOB_REASON_WAITING_FOR_RESOURCE] = "WaitingForResource",
    [JOB_REASON_RESOURCE_UNHEALTHY] = "ResourceUnhealthy",
    [JOB_REASON_QUEUE_ORDER] = "QueueOrder",
    [JOB_REASON_NO_MACHINE] = "NoMachine",
    [JOB_REASON_STORAGE] = "Storage",
    [JOB_REASON_BACKOFF] = "Backoff",
    [JOB_REASON_EXIT_CODE] = "ExitCode",
    [JOB_REASON_SIGNAL] = "Signal",
    [JOB_REASON_DEADLINE_EXCEEDED] = "DeadlineExceeded",
    [JOB_REASON_LAUNCH_ERROR] = "LaunchError",
    [JOB_REASON_SUPERVISOR_LOST] = "SupervisorLost",
    [JOB_REASON_NODE_REBOOTED] = "NodeRebooted",
    [JOB_REASON_USER] = "User",
    [JOB_REASON_DEPENDENCY] = "Dependency",
    [JOB_REASON_WAITING_FOR_CPU] = "WaitingForCPU",
    [JOB_REASON_WAITING_FOR_MEMORY] = "WaitingForMemory",
    [JOB_REASON_USER_LIMIT] = "UserLimit",
    [JOB_REASON_ARRAY_LIMIT] = "ArrayLimit",
    [JOB_REASON_DRAINING] = "Draining",
    [JOB_REASON_SUSPENDED] = "Suspended",
    [JOB_REASON_OOM_KILLED] = "OOMKilled",
    [JOB_REASON_BACKOFF_LIMIT_EXCEEDED] = "BackoffLimitExceeded",
    [JOB_REASON_WORKER_FAILED] = "WorkerFailed",
    [JOB_REASON_GPU_ERROR] = "GPUError",
    [JOB_REASON_IDLE] = "IdleTimeout",
    [JOB_REASON_DEPENDENCY_FAILED] = "DependencyFailed",
    [JOB_REASON_OUTPUT_LOST] = "OutputLost",
    [JOB_REASON_BEGIN_TIME] = "BeginTime",
    [JOB_REASON_RESERVED] = "Reserved",
    [JOB_REASON_CONTAINER_ERROR] = "ContainerError",
};

void job_done(struct job *job)
{
	free(job->reason_text);
	job->reason_text = NULL;
	free(job->reason_detail);
	job->reason_detail = NULL;
	free(job->ids);
	job->ids = NULL;
	free(job->resources);
	job->resources = NULL;
	wants_done(&job->wants);
}

int job_copy(const struct job *job, struct job *out)
{
	struct job copy = *job;
	copy.reason_text = job->reason_text ? strdup(job->reason_text) : NULL;
	copy.reason_detail = job->reason_detail ? strdup(job->reason_detail) : NULL;
	copy.ids = job->ids ? strdup(job->ids) : NULL;
	copy.resources = job->resources ? strdup(job->resources) : NULL;

	int rc = wants_copy(&job->wants, &copy.wants);
	if (rc < 0)
		wants_init(&copy.wants); /* they are still the other's */

	if (rc < 0 || (job->reason_text && !copy.reason_text) ||
	    (job->reason_detail && !copy.reason_detail) || (job->ids && !copy.ids) ||
	    (job->resources && !copy.resources)) {
		job_done(&copy);
		return -ENOMEM;
	}

	*out = copy;
	return 0;
}

void job_why(const struct job *job, char out[JOB_WHY_MAX])
{
	const char *text = job->reason_text ? job->reason_text : "";
	const char *detail = job->reason_detail ? job->reason_detail : "";
	bool is_both = *text && *detail;

	(void)snprintf(out, JOB_WHY_MAX, "%.*s%s%.*s%s", JOB_REASON_MAX - 1, text,
		       is_both ? " (" : "", JOB_DETAIL_MAX - 1, detail,
		       is_both ? ")" : ""); /* fits */
}

static void job_copy_text(char **at, const char *text, size_t max)
{
	char *copy = text && text[0] ? strndup(text, max - 1) : NULL;
	free(*at); /* after: it may be `text` */
	*at = copy;
}

void job_set_reason(struct job *job, enum job_reason reason, const char *text, const char *detail)
{
	job->reason = reason;
	job_copy_text(&job->reason_text, text, JOB_REASON_MAX);
	job_copy_text(&job->reason_detail, detail, JOB_DETAIL_MAX);
}

bool job_state_is_final(enum job_state state)
{
	return state == JOB_SUCCEEDED || state == JOB_FAILED || state == JOB_CANCELLED;
}

const char *job_state_to_string(enum job_state state)
{
	return names_at(job_state_names, state, "?");
}

int job_state_from_string(const char *text, enum job_state *out)
{
	int index = names_find(job_state_names, text);
	if (index < 0)
		return index;
	*out = (enum job_state)index;
	return 0;
}

const char *job_reason_to_string(enum job_reason reason)
{
	return names_at(job_reason_names, reason, "?");
}

int job_reason_from_string(const char *text, enum job_reason *out)
{
	int index = names_find(job_reason_names, text);
	if (index < 0)
		return index;
	*out = (enum job_reason)index;
	return 0;
}
