/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs with an idle timeout: ended when all their GPUs have done nothing for so long, as far as
 * that is known. What is not known is never idle: no sample, a device whose use is not told (MIG),
 * a process whose share is not told. The time is counted by this agent alone, from its first look.
 */
#include <string.h>

#include "doors/queue/queue_internal.h"
#include "hardware/snapshot.h"

#define QUEUE_IDLE_GAP_NS                                                                          \
	(60 * CLOCK_NS_PER_S) /* between two looks: nobody knows what was then                     \
			       */

/* Whether a value says that something is done; true as well when it is not told. */
static bool idle_is_used(const struct snapshot_gpu *gpu, uint32_t value, bool is_needed)
{
	int64_t percent;
	return snapshot_get(gpu, value, &percent) ? percent > 0 : is_needed;
}

static bool idle_is_process_used(const struct snapshot_process *process)
{
	const uint32_t values[] = {process->util_sm, process->util_encoder, process->util_decoder};
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (values[i] != SNAPSHOT_U32_ABSENT && values[i] > 0)
			return true;
	return process->util_sm == SNAPSHOT_U32_ABSENT;
}

/* Of a device that others may use as well only the job's own processes count. */
static bool idle_is_share_used(struct queue *queue, const struct queue_job *job,
			       const struct snapshot_gpu *gpu)
{
	if (gpu->process_total > gpu->process_count)
		return true; /* not all are told */

	for (uint32_t i = 0; i < gpu->process_count; i++) {
		const struct job *whose = queue_job_of_process(queue, (pid_t)gpu->process[i].pid);
		if (whose == &job->job && idle_is_process_used(&gpu->process[i]))
			return true;
	}

	return false;
}

static bool idle_is_grant_used(struct queue *queue, const struct queue_job *job,
			       const struct launch_grant *grant)
{
	const struct snapshot *snapshot = queue->snapshot;
	uint32_t slots = 0;
	for (uint32_t slot = 0; slot < grant->slot_count; slot++)
		slots += launch_grant_has(grant, slot);

	for (uint32_t g = 0; g < snapshot->gpu_count; g++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[g];
		if (strcmp(gpu->uuid, grant->uuid) != 0)
			continue;
		if (slots < grant->slot_count)
			return idle_is_share_used(queue, job, gpu);

		return idle_is_used(gpu, SNAPSHOT_UTIL_GPU, true) ||
		       idle_is_used(gpu, SNAPSHOT_UTIL_ENCODER, false) ||
		       idle_is_used(gpu, SNAPSHOT_UTIL_DECODER, false);
	}

	return true; /* a MIG device, or one that is not there: not told */
}

static bool idle_is_used_at_all(struct queue *queue, const struct queue_job *job)
{
	const struct queue_run *run = job->run;
	for (size_t i = 0; i < run->grant_count; i++)
		if (idle_is_grant_used(queue, job, &run->grants[i]))
			return true;
	return run->grant_count == 0;
}

static void idle_look(struct queue *queue, struct queue_job *job, uint64_t now_ns)
{
	struct queue_run *run = job->run;
	bool is_fresh = run->idle_looked_ns > 0 && now_ns - run->idle_looked_ns < QUEUE_IDLE_GAP_NS;

	run->idle_looked_ns = now_ns;
	if (idle_is_used_at_all(queue, job)) {
		run->idle_since_ns = 0;
		return;
	}

	if (!is_fresh || run->idle_since_ns == 0) {
		run->idle_since_ns = now_ns;
		return;
	}

	/* One that cannot be told now is told with the next look. */
	if (now_ns - run->idle_since_ns >= job->job.wants.idle_ns &&
	    queue_control_send(run, CONTROL_IDLE, 0, 0, NULL) == 0)
		run->idle_since_ns = now_ns;
}

void queue_idle(struct queue *queue)
{
	uint64_t now_ns = loop_now_ns(queue->options.loop);
	for (size_t i = 0; queue->snapshot && i < queue->count; i++) {
		struct queue_job *job = queue->jobs[i];
		if (job->job.wants.idle_ns > 0 && job->job.state == JOB_RUNNING && job->run &&
		    job->run->pid > 0)
			idle_look(queue, job, now_ns);
	}
}
