/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/jobs/peer_limits.h"
#include "agent/vitals.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "job/job.h"
#include "doors/queue/queue.h"
#include "doors/queue/schedule/schedule.h"
#include "job/schema.h"
#include "job/spec.h"
#include "job/warning.h"
#include "hardware/gpu.h"
#include "hardware/snapshot.h"
#include "wire/arena.h"

enum reply_limits {
	MESSAGE_SLOT_BITS = 64,
};

static int message_no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "out of memory for the answer");
}

static char *message_text(struct arena *arena, const char *text)
{
	return arena_copy_valid(arena, text ? text : "");
}

bool message_view_owns(const struct message_view *view, uid_t uid)
{
	return view->is_admin || view->viewer == uid;
}

/* --- a job ----------------------------------------------------------------------------------- */

static const Sluice__V1__JobState message_states[] = {
    [JOB_PENDING] = SLUICE__V1__JOB_STATE__PENDING,
    [JOB_STARTING] = SLUICE__V1__JOB_STATE__STARTING,
    [JOB_RUNNING] = SLUICE__V1__JOB_STATE__RUNNING,
    [JOB_STOPPING] = SLUICE__V1__JOB_STATE__STOPPING,
    [JOB_SUCCEEDED] = SLUICE__V1__JOB_STATE__SUCCEEDED,
    [JOB_FAILED] = SLUICE__V1__JOB_STATE__FAILED,
    [JOB_HELD] = SLUICE__V1__JOB_STATE__HELD,
    [JOB_CANCELLED] = SLUICE__V1__JOB_STATE__CANCELLED,
};

Sluice__V1__JobState message_from_state(enum job_state state)
{
	return message_states[state];
}

int message_to_state(Sluice__V1__JobState message, enum job_state *out)
{
	for (size_t i = 0; i < array_length(message_states); i++) {
		if (message_states[i] == message) {
			*out = (enum job_state)i;
			return 0;
		}
	}
	return -EINVAL;
}

static bool message_slot_is_set(const uint64_t *slots, uint32_t slot)
{
	return slots[slot / MESSAGE_SLOT_BITS] >> (slot % MESSAGE_SLOT_BITS) & 1;
}

static Sluice__V1__Grant *message_grant(const struct launch_grant *grant, struct arena *arena)
{
	Sluice__V1__Grant *out = arena_alloc(arena, sizeof(*out));
	if (!out)
		return NULL;

	sluice__v1__grant__init(out);
	out->uuid = message_text(arena, grant->uuid);
	out->label = message_text(arena, grant->label);
	out->index = grant->index;
	out->slot_count = grant->slot_count;

	uint32_t slots =
	    grant->slot_count < LAUNCH_SLOTS_MAX ? grant->slot_count : LAUNCH_SLOTS_MAX;
	uint32_t held = 0;
	for (uint32_t i = 0; i < slots; i++)
		held += message_slot_is_set(grant->slots, i);

	out->slots = arena_alloc(arena, (held + 1) * sizeof(*out->slots));
	if (!out->uuid || !out->label || !out->slots)
		return NULL;

	for (uint32_t i = 0; i < slots; i++) {
		if (message_slot_is_set(grant->slots, i))
			out->slots[out->n_slots++] = i;
	}

	return out;
}

static bool message_observations(const struct queue_attempt *attempt, struct arena *arena,
				 Sluice__V1__Attempt *out)
{
	out->observed = arena_alloc(arena, (attempt->observed_count + 1) * sizeof(void *));
	for (size_t i = 0; out->observed && i < attempt->observed_count; i++) {
		const struct queue_observation *from = &attempt->observed[i];
		Sluice__V1__Observation *seen = arena_alloc(arena, sizeof(*seen));
		if (!seen)
			return false;

		sluice__v1__observation__init(seen);
		seen->pid = (uint32_t)from->pid;
		seen->uuid = message_text(arena, from->uuid);
		seen->first_unix_ns = from->first_unix_ns;
		seen->last_unix_ns = from->last_unix_ns;
		if (!seen->uuid)
			return false;

		out->observed[out->n_observed++] = seen;
	}

	return out->observed != NULL;
}

static bool message_attempt_details(const struct message_view *view, const struct job *job,
				    const struct queue_attempt *attempt, struct arena *arena,
				    Sluice__V1__Attempt *out)
{
	out->stdout_path = arena_printf(arena, "%s/j/%" PRIu64 "/out.%" PRIu32, view->state_dir,
					job->id, job->attempt);
	out->stderr_path = arena_printf(arena, "%s/j/%" PRIu64 "/err.%" PRIu32, view->state_dir,
					job->id, job->attempt);
	if (!out->stdout_path || !out->stderr_path)
		return false;
	if (!attempt)
		return true;

	out->pid = (uint32_t)attempt->pid;
	out->supervisor_pid = (uint32_t)attempt->supervisor_pid;
	out->cgroup = message_text(arena, attempt->cgroup);

	return out->cgroup && message_observations(attempt, arena, out);
}

static bool message_attempt(const struct message_view *view, const struct job *job,
			    const struct queue_attempt *attempt, struct arena *arena,
			    Sluice__V1__Attempt *out)
{
	bool owns = message_view_owns(view, job->uid);

	sluice__v1__attempt__init(out);
	out->number = job->attempt;
	out->started_unix_ns = job->started_unix_ns;
	out->ended_unix_ns = job->ended_unix_ns;
	out->killed_leftovers = job->killed_leftovers;

	if (attempt) {
		/* What every job has that was started; more is not built. */
		bool is_told = attempt->isolation && *attempt->isolation;
		const char *isolation = is_told ? attempt->isolation : "env";
		const char *reason = attempt->isolation_reason ? attempt->isolation_reason : "";

		out->port = owns ? attempt->port : 0;
		out->isolation = message_text(arena, isolation);

		/* A sentence that may name the owner's programs and files; and lists are long. */
		out->isolation_reason = message_text(arena, view->details && owns ? reason : "");
		out->grants = arena_alloc(arena, (attempt->grant_count + 1) * sizeof(void *));
		if (!out->isolation || !out->isolation_reason || !out->grants)
			return false;

		for (size_t i = 0; i < attempt->grant_count; i++) {
			out->grants[i] = message_grant(&attempt->grants[i], arena);
			if (!out->grants[i])
				return false;
			out->n_grants++;
		}
	}

	return !view->details || !owns || message_attempt_details(view, job, attempt, arena, out);
}

/* One that is over. NULL: no memory. */
static Sluice__V1__Attempt *message_past(const struct message_view *view, uint64_t id,
					 const struct queue_past *past, struct arena *arena)
{
	struct job job = {.id = id,
			  .attempt = past->number,
			  .started_unix_ns = past->started_unix_ns,
			  .ended_unix_ns = past->ended_unix_ns,
			  .uid = view->viewer};
	const struct queue_attempt attempt = {
	    .grants = past->record.grants,
	    .grant_count = past->record.grant_count,
	    .isolation = isolation_level_to_string(past->record.isolation),
	    .isolation_reason = "",
	    .cgroup = "",
	};
	Sluice__V1__Attempt *out = arena_alloc(arena, sizeof(*out));
	if (!out || !message_attempt(view, &job, &attempt, arena, out))
		return NULL;

	out->reason = message_text(arena, job_reason_to_string(past->reason));
	out->reason_text = message_text(arena, past->reason_text);
	out->has_exit = past->has_exit;
	out->exit_code = past->exit_code;

	return out->reason && out->reason_text ? out : NULL;
}

int message_add_attempts(const struct message_view *view, uint64_t id,
			 const struct queue_past *past, size_t count, struct arena *arena,
			 Sluice__V1__Job *out, struct err *err)
{
	out->attempts = arena_alloc(arena, (count + 1) * sizeof(*out->attempts));
	if (!out->attempts)
		return message_no_memory(err);

	for (size_t i = 0; i < count; i++) {
		out->attempts[i] = message_past(view, id, &past[i], arena);
		if (!out->attempts[i])
			return message_no_memory(err);
		out->n_attempts++;
	}

	return 0;
}

static double message_points(int64_t score)
{
	return (double)score / (double)SCHEDULE_SCORE_POINT;
}

int message_add_standing(const struct queue_standing *standing, struct arena *arena,
			 Sluice__V1__Job *out, struct err *err)
{
	const struct schedule_score *score = &standing->score;
	Sluice__V1__Standing *to = arena_alloc(arena, sizeof(*to));
	if (!to)
		return message_no_memory(err);

	sluice__v1__standing__init(to);
	to->score = message_points(schedule_score_total(score));
	to->age = message_points(score->age);
	to->size = message_points(score->size);
	to->priority = message_points(score->priority);
	to->usage = message_points(score->usage);
	to->usage_gpu_hours = standing->usage_hours;
	to->half_life_ns = standing->half_life_ns;
	to->gpus_now = standing->gpus_now;
	to->is_reserved = standing->pledged;
	to->starts_unix_ns = standing->starts_unix_ns;
	to->start_is_estimate = standing->start_is_estimate;
	to->estimate_ns = standing->estimate_ns;
	out->standing = to;

	return 0;
}

int message_add_command(const struct spec *spec, struct arena *arena, Sluice__V1__Job *out,
			struct err *err)
{
	out->argv = arena_alloc(arena, (spec->argc + 1) * sizeof(*out->argv));
	if (!out->argv)
		return message_no_memory(err);

	for (size_t i = 0; i < spec->argc; i++) {
		size_t length = strlen(spec->argv[i]);
		out->argv[i].data = arena_copy(arena, spec->argv[i], length + 1);
		out->argv[i].len = length;
		if (!out->argv[i].data)
			return message_no_memory(err);

		out->n_argv++;
	}

	size_t length = strlen(spec->directory);
	out->directory.data = arena_copy(arena, spec->directory, length + 1);
	out->directory.len = length;
	out->image = message_text(arena, spec->image);

	const struct warning warning = {.signal = spec->warn_signal,
					.before_ns = spec->warn_before_ns,
					.command_alone = spec->warn_alone};
	char text[WARNING_TEXT_MAX];

	out->warning = message_text(arena, warning_format(&warning, text));
	return out->directory.data && out->image && out->warning ? 0 : message_no_memory(err);
}

/* NULL: no memory. */
static Sluice__V1__Wants *message_wants(const struct wants *wants, struct arena *arena)
{
	Sluice__V1__Wants *out = arena_alloc(arena, sizeof(*out));
	if (!out)
		return NULL;

	schema_from_wants(wants, out);
	out->after = message_text(arena, out->after);
	out->prefer = message_text(arena, out->prefer);
	out->gpu_type = message_text(arena, out->gpu_type);
	out->project = message_text(arena, out->project);
	return out->after && out->prefer && out->gpu_type && out->project ? out : NULL;
}

int message_from_job(const struct message_view *view, const struct job *job, const char *user,
		     const struct queue_attempt *attempt, struct arena *arena, Sluice__V1__Job *out,
		     struct err *err)
{
	bool owns = message_view_owns(view, job->uid);
	char why[JOB_WHY_MAX];

	sluice__v1__job__init(out);
	out->id = job->id;
	out->uid = (uint32_t)job->uid;
	out->state = message_from_state(job->state);
	out->gpus = job->gpus;
	out->resources = message_text(arena, job->resources ? job->resources : "");
	out->array_id = job->array_id;
	out->array_index = job->array_index;
	out->array_count = job->array_id ? job->wants.array_count : 0;
	out->failed_attempts = job->failed_attempts;

	out->not_before_unix_ns = job->not_before_unix_ns;
	out->ended_unix_ns = job->ended_unix_ns;
	out->share_numerator = job->share_numerator;
	out->share_denominator = job->share_denominator;
	out->submitted_unix_ns = job->submitted_unix_ns;
	out->has_exit = job->has_exit;
	out->exit_code = job->exit_code;
	out->signal = job->signal;
	out->simulated = job->simulated;
	if (job->state == JOB_PENDING) {
		out->place = job->place;
		out->start_estimate_unix_ns = job->start_estimate_unix_ns;
	}

	/* The name is often the command's. */
	out->name = message_text(arena, owns ? job->name : "");
	out->user = message_text(arena, user);
	out->reason = message_text(arena, job_reason_to_string(job->reason));

	if (owns)
		job_why(job, why);
	out->reason_text = message_text(arena, owns ? why : job->reason_text);

	if (owns)
		out->wants = message_wants(&job->wants, arena);
	if (!out->name || !out->user || !out->reason || !out->reason_text || (owns && !out->wants))
		return message_no_memory(err);

	if (job->attempt > 0) {
		out->attempt = arena_alloc(arena, sizeof(*out->attempt));
		if (!out->attempt || !message_attempt(view, job, attempt, arena, out->attempt))
			return message_no_memory(err);
	}

	return 0;
}

/* --- what to run ----------------------------------------------------------------------------- */

static int message_caller_groups(const struct message_caller *caller, struct spec *out,
				 struct err *err)
{
	if (caller->group_count > SPEC_GROUPS_MAX)
		return err_set(err, -E2BIG, "you are in %zu groups: at most %d are possible",
			       caller->group_count, SPEC_GROUPS_MAX);

	out->uid = caller->uid;
	out->gid = caller->gid;
	out->groups = calloc(caller->group_count + 1, sizeof(*out->groups));
	if (!out->groups)
		return message_no_memory(err);

	for (size_t i = 0; i < caller->group_count; i++)
		out->groups[i] = caller->groups[i];

	out->group_count = caller->group_count;
	return 0;
}

/* What the caller has, as far as the message does not lower it. */
static int message_limits(const struct message_caller *caller, struct spec *out, struct err *err)
{
	struct spec_limit wanted[SPEC_LIMITS_MAX];
	size_t count = out->limit_count;

	memcpy(wanted, out->limits, sizeof(wanted));
	memcpy(out->limits, caller->limits, sizeof(out->limits));
	out->limit_count = SPEC_LIMITS_MAX;
	return peer_limits_lower(out->limits, wanted, count, err);
}

int message_to_spec(const Sluice__V1__JobSpec *message, const struct message_caller *caller,
		    struct spec *out, struct err *err)
{
	spec_init(out);
	if (message->owner)
		return err_set(err, -EINVAL,
			       "a job's owner is who submits it: the request must not name one");

	int rc = schema_to_spec(message, out, err);
	if (rc < 0)
		return rc;

	out->wants.time_ns = out->deadline_ns;
	rc = message_caller_groups(caller, out, err);
	if (rc == 0)
		rc = message_limits(caller, out, err);
	if (rc < 0)
		spec_done(out);
	return rc;
}

/* --- GPUs ------------------------------------------------------------------------------------ */

static void message_slots(const struct schedule_machine *queue, Sluice__V1__Gpu *out)
{
	const struct schedule_device *device =
	    queue ? schedule_machine_find(queue, out->uuid) : NULL;
	if (!device)
		return;
	out->slot_count = device->slot_count;
	out->slots_used = device->used_whole ? device->slot_count : device->used_count;
}

static int64_t message_value(const struct snapshot_gpu *gpu, uint32_t value)
{
	int64_t number;
	return snapshot_get(gpu, value, &number) ? number : -1;
}

static uint64_t message_bytes(uint64_t bytes)
{
	return bytes == SNAPSHOT_U64_ABSENT ? 0 : bytes;
}

static bool message_gpu(const struct snapshot_gpu *from, const struct schedule_machine *queue,
			struct arena *arena, Sluice__V1__Gpu *out)
{
	sluice__v1__gpu__init(out);
	out->uuid = message_text(arena, from->uuid);
	out->label = arena_printf(arena, "GPU %" PRIu32, from->index);
	out->index = from->index;
	out->name = message_text(arena, from->name);
	out->state = message_text(arena, gpu_state_to_string(from->state));
	out->state_reason = message_text(arena, from->reason);

	int64_t used = message_value(from, SNAPSHOT_MEMORY_USED);
	int64_t total = message_value(from, SNAPSHOT_MEMORY_TOTAL);

	out->memory_used_bytes = used < 0 ? 0 : (uint64_t)used;
	out->memory_total_bytes = total < 0 ? 0 : (uint64_t)total;
	out->utilization_percent = (int32_t)message_value(from, SNAPSHOT_UTIL_GPU);
	out->temperature_celsius = (int32_t)message_value(from, SNAPSHOT_TEMPERATURE);
	out->power_milliwatt = message_value(from, SNAPSHOT_POWER);
	out->power_limit_milliwatt = message_value(from, SNAPSHOT_POWER_LIMIT);

	int64_t throttle = message_value(from, SNAPSHOT_THROTTLE);
	out->throttle_reasons = throttle < 0 ? 0 : (uint64_t)throttle;
	if (!out->uuid || !out->label || !out->name || !out->state || !out->state_reason)
		return false;

	message_slots(queue, out);
	return true;
}

static bool message_mig(const struct snapshot_gpu *parent, const struct snapshot_mig *from,
			const struct inventory *inventory, const struct schedule_machine *queue,
			struct arena *arena, Sluice__V1__Gpu *out)
{
	const struct mig_device *known =
	    inventory ? inventory_find_mig(inventory, from->uuid) : NULL;

	sluice__v1__gpu__init(out);
	out->is_mig = true;
	out->uuid = message_text(arena, from->uuid);
	out->label =
	    known ? arena_printf(arena, "MIG %" PRIu32 ":%" PRIu32, parent->index, known->index)
		  : arena_printf(arena, "MIG of GPU %" PRIu32, parent->index);
	out->index = parent->index;
	out->name = message_text(arena, from->profile);
	out->state = message_text(arena, gpu_state_to_string(parent->state));

	out->state_reason = message_text(arena, parent->reason);
	out->memory_used_bytes = message_bytes(from->memory_used);
	out->memory_total_bytes = message_bytes(from->memory_total);
	out->utilization_percent = -1;
	out->temperature_celsius = -1;
	out->power_milliwatt = -1;
	out->power_limit_milliwatt = -1;
	if (!out->uuid || !out->label || !out->name || !out->state || !out->state_reason)
		return false;

	message_slots(queue, out);
	return true;
}

int message_from_gpus(const struct snapshot *snapshot, const struct inventory *inventory,
		      const struct schedule_machine *queue, struct arena *arena,
		      Sluice__V1__Gpu ***out, size_t *out_count, struct err *err)
{
	size_t total = 0, count = 0;
	for (uint32_t i = 0; i < snapshot->gpu_count; i++)
		total += 1 + snapshot->gpu[i].mig_count;

	Sluice__V1__Gpu **list = arena_alloc(arena, (total + 1) * sizeof(*list));
	Sluice__V1__Gpu *gpus = arena_alloc(arena, (total + 1) * sizeof(*gpus));
	if (!list || !gpus)
		return message_no_memory(err);

	for (uint32_t i = 0; i < snapshot->gpu_count; i++) {
		const struct snapshot_gpu *gpu = &snapshot->gpu[i];

		list[count] = &gpus[count];
		if (!message_gpu(gpu, queue, arena, list[count++]))
			return message_no_memory(err);

		for (uint32_t k = 0; k < gpu->mig_count; k++) {
			list[count] = &gpus[count];
			if (!message_mig(gpu, &gpu->mig[k], inventory, queue, arena, list[count++]))
				return message_no_memory(err);
		}
	}

	*out = list;
	*out_count = count;
	return 0;
}

/* --- health ---------------------------------------------------------------------------------- */

static Sluice__V1__HealthReason *message_reason(const struct health_reason *reason,
						struct arena *arena)
{
	Sluice__V1__HealthReason *out = arena_alloc(arena, sizeof(*out));
	if (!out)
		return NULL;

	sluice__v1__health_reason__init(out);
	out->cause = message_text(arena, health_cause_to_string(reason->cause));
	out->state = message_text(arena, health_state_to_string(reason->state));
	out->xid = reason->xid;
	out->text = message_text(arena, reason->text);
	out->advice = message_text(arena, reason->advice);

	return out->cause && out->state && out->text && out->advice ? out : NULL;
}

static Sluice__V1__HealthXid *message_xid(const struct health_event *event, enum xid_class class_,
					  struct arena *arena)
{
	Sluice__V1__HealthXid *out = arena_alloc(arena, sizeof(*out));
	if (!out)
		return NULL;

	sluice__v1__health_xid__init(out);
	out->xid = event->xid;
	out->class_ = message_text(arena, xid_class_to_string(class_));
	out->name = message_text(arena, xid_name(event->xid));
	out->pid = event->pid;

	return out->class_ && out->name ? out : NULL;
}

int message_from_health(const struct vitals_view *view, struct arena *arena,
			Sluice__V1__GpuHealth **out, struct err *err)
{
	const struct health_verdict *verdict = &view->verdict;
	Sluice__V1__GpuHealth *gpu = arena_alloc(arena, sizeof(*gpu));
	if (!gpu)
		return message_no_memory(err);

	sluice__v1__gpu_health__init(gpu);
	gpu->index = view->index;
	gpu->gone = !view->here;
	gpu->uuid = message_text(arena, view->uuid);
	gpu->bus = message_text(arena, view->bus);
	gpu->name = message_text(arena, view->name);
	gpu->state = message_text(arena, health_state_to_string(verdict->state));
	gpu->reasons = arena_alloc(arena, (HEALTH_REASON_MAX + 1) * sizeof(*gpu->reasons));
	gpu->xids = arena_alloc(arena, (HEALTH_EVENT_MAX + 1) * sizeof(*gpu->xids));
	if (!gpu->uuid || !gpu->bus || !gpu->name || !gpu->state || !gpu->reasons || !gpu->xids)
		return message_no_memory(err);

	for (uint32_t i = 0; i < verdict->reason_count; i++) {
		gpu->reasons[i] = message_reason(&verdict->reason[i], arena);
		if (!gpu->reasons[i])
			return message_no_memory(err);
		gpu->n_reasons++;
	}

	for (uint32_t i = 0; i < view->xid_count; i++) {
		gpu->xids[i] = message_xid(&view->xid[i].event, view->xid[i].class_, arena);
		if (!gpu->xids[i])
			return message_no_memory(err);
		gpu->n_xids++;
	}

	*out = gpu;
	return 0;
}

/* --- errors ---------------------------------------------------------------------------------- */

enum wire_status message_status(int code)
{
	switch (code) {
	case -E2BIG:
		return WIRE_INVALID_ARGUMENT;
	case -ERANGE: /* more than this machine has */
		return WIRE_FAILED_PRECONDITION;
	case -EDQUOT: /* the queue's own limits, not the disk's */
		return WIRE_RESOURCE_EXHAUSTED;
	case -EIO:
		return WIRE_ABORTED;
	default:
		return wire_status_from_errno(code);
	}
}
