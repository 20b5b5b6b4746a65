/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs in memory, and what is handed to the storage thread. */
#include "doors/queue/queue.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/resident.h"
#include "doors/queue/queue_internal.h"

/* The storage thread. */

static void queue_op_drain(struct queue *queue);

static void queue_op_done(void *context, int rc)
{
	struct queue_op *op = context;
	struct queue *queue = op->queue;
	queue->ops--;
	op->done(op, rc); /* may free the operation */
	queue_op_drain(queue);
}

static int queue_op_work(void *context)
{
	struct queue_op *op = context;
	struct store *store = op->queue->store;

	op->err = (struct err){.code = 0};
	if (!op->is_grouped)
		return op->work(op);

	store_group_begin(store);
	uint64_t before = store_grouped(store);
	int rc = op->work(op);

	op->has_written = store_grouped(store) != before;
	crash_point("queue.group_goes_on");
	return rc;
}

/* What they have written is durable now, or none of it is. */
static void queue_group_close(struct storage_job *first, void *context)
{
	struct queue *queue = context;
	struct err err = {.code = 0};

	crash_point("queue.group_written");
	int rc = store_group_end(queue->store, &err);
	crash_point("queue.group_durable");

	for (struct storage_job *job = first; rc < 0 && job; job = job->next) {
		struct queue_op *op = job->context;
		if (!op->has_written || job->result < 0)
			continue;
		job->result = rc;
		op->err = err;
	}
}

void queue_op_init(struct queue *queue)
{
	queue->waiting_end = &queue->waiting;
	queue->group = (struct storage_group){.close = queue_group_close,
					      .context = queue,
					      .jobs_max = QUEUE_GROUP_MAX,
					      .ns_max = QUEUE_GROUP_NS};
}

/* Hands in what waits, as far as there is room. Others may have filled it: then a timer looks. */
static void queue_op_drain(struct queue *queue)
{
	while (queue->waiting) {
		struct queue_op *op = queue->waiting;
		op->storage = (struct storage_job){.work = queue_op_work,
						   .done = queue_op_done,
						   .context = op,
						   .group = op->is_grouped ? &queue->group : NULL};
		if (storage_submit(queue->options.storage, &op->storage, NULL) < 0)
			break;

		queue->waiting = op->next;
		if (!queue->waiting)
			queue->waiting_end = &queue->waiting;
		queue->ops++;
	}

	if (queue->waiting && queue->ops == 0)
		loop_timer_start(queue->room_timer, QUEUE_RETRY_MIN_NS);
}

void queue_op_room(void *context)
{
	queue_op_drain(context);
}

/* Cannot fail: what finds no room waits for it, in order. */
void queue_op_submit(struct queue *queue, struct queue_op *op)
{
	op->queue = queue;
	op->next = NULL;
	*queue->waiting_end = op;
	queue->waiting_end = &op->next;
	queue_op_drain(queue);
}

static int queue_give_back_work(struct queue_op *op)
{
	(void)store_give_back(op->queue->store);
	resident_give_back_stack();
	return 0;
}

static void queue_give_back_done(struct queue_op *op, int rc)
{
	struct queue *queue = op->queue;
	queue->is_giving_back = false;
	queue->given_back(queue->given_back_context);
}

void queue_give_back(struct queue *queue, void (*done)(void *context), void *context)
{
	if (!queue || queue->is_giving_back || queue->closing) {
		done(context);
		return;
	}

	queue->is_giving_back = true;
	queue->given_back = done;
	queue->given_back_context = context;
	queue->give_back.work = queue_give_back_work;
	queue->give_back.done = queue_give_back_done;
	queue_op_submit(queue, &queue->give_back);
}

void queue_storage_worked(struct queue *queue)
{
	if (queue->storage_broken || !queue->storage_error[0])
		return;

	log_write(queue->options.log, LOG_LEVEL_NOTICE, NULL,
		  "the state of the queue can be written again");
	queue->storage_error[0] = '\0';
	queue->storage_paused = false;
	queue->storage_retry_ns = 0;
	queue_kick(queue);
	queue_changed(queue);
}

void queue_storage_failed(struct queue *queue, int code, const char *text)
{
	if (code == -ENOMEM || queue->storage_broken)
		return; /* of memory: of this one operation */

	queue->storage_broken = code == -EIO;
	if (strcmp(queue->storage_error, text) != 0) {
		log_write(queue->options.log, LOG_LEVEL_ERROR, NULL,
			  "nothing new is accepted or started: %s", text);
		(void)snprintf(queue->storage_error, sizeof(queue->storage_error), "%s",
			       text); /* the same size */
	}

	queue->storage_paused = true;
	uint64_t delay = queue->storage_retry_ns ? 2 * queue->storage_retry_ns : CLOCK_NS_PER_S;
	queue->storage_retry_ns = delay < QUEUE_STORAGE_MAX_NS ? delay : QUEUE_STORAGE_MAX_NS;
	if (!queue->storage_broken)
		loop_timer_start(queue->storage_timer, queue->storage_retry_ns);
	queue_kick(queue);
	queue_changed(queue);
}

/* The pause is over: starts may try again, and end it if they succeed. */
void queue_storage_try(void *context)
{
	struct queue *queue = context;
	queue->storage_paused = false;
	queue_kick(queue);
}

/* What others are told. */

static void queue_tell_changed(void *context)
{
	struct queue *queue = context;
	if (!queue->closing && queue->options.changed)
		queue->options.changed(queue->options.context);
}

void queue_changed(struct queue *queue)
{
	loop_defer(queue->options.loop, &queue->changed_task, queue_tell_changed, queue);
}

/* Ten thousand waiting jobs take milliseconds to look at: passes take a fifth of the time at most,
 * however often somebody wants one. */
void queue_kick(struct queue *queue)
{
	if (queue->closing || loop_timer_is_running(queue->pass_timer))
		return;

	uint64_t now_ns = loop_now_ns(queue->options.loop);
	uint64_t next_ns = queue->pass_end_ns + QUEUE_PASS_REST * queue->pass_cost_ns;

	if (next_ns > now_ns && queue->pass_cost_ns > QUEUE_PASS_CHEAP_NS)
		loop_timer_start(queue->pass_timer, next_ns - now_ns);
	else
		loop_post(queue->options.loop, &queue->pass_task, queue_pass, queue);
}

/* The jobs. */

size_t queue_place_of(const struct queue *queue, uint64_t id)
{
	size_t low = 0, high = queue->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (queue->jobs[middle]->job.id < id)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

struct queue_job *queue_job_find(const struct queue *queue, uint64_t id)
{
	size_t at = queue_place_of(queue, id);
	return at < queue->count && queue->jobs[at]->job.id == id ? queue->jobs[at] : NULL;
}

int queue_reserve(struct queue *queue, size_t more, struct err *err)
{
	size_t wanted = queue->count + more;
	if (wanted <= queue->room)
		return 0;

	size_t room = queue->room * 2 > wanted ? queue->room * 2 : wanted;
	struct queue_job **jobs = reallocarray(queue->jobs, room, sizeof(*jobs));
	if (!jobs)
		return err_set(err, -ENOMEM, "no memory for %zu jobs", room);

	queue->jobs = jobs;
	queue->room = room;
	return 0;
}

struct queue_job *queue_job_new(struct queue *queue, struct err *err)
{
	struct queue_job *job = calloc(1, sizeof(*job));
	if (!job) {
		(void)err_set(err, -ENOMEM, "no memory for a job");
		return NULL;
	}
	job->queue = queue;
	return job;
}

struct queue_job *queue_job_free(struct queue_job *job)
{
	if (!job)
		return NULL;
	job->run = queue_run_free(job->run);
	job_done(&job->job);
	free(job);
	return NULL;
}

void queue_job_add(struct queue_job *job)
{
	struct queue *queue = job->queue;
	assert(queue->count < queue->room);

	size_t at = queue_place_of(queue, job->job.id);
	memmove(&queue->jobs[at + 1], &queue->jobs[at],
		(queue->count - at) * sizeof(queue->jobs[0]));
	queue->jobs[at] = job;
	queue->count++;
	queue->depending += job->job.wants.after && job->doom == JOB_REASON_NONE;
	queue->state_count[job->job.state]++;
	queue_account_job(job, true);
}

void queue_job_remove(struct queue_job *job)
{
	struct queue *queue = job->queue;
	size_t at = queue_place_of(queue, job->job.id);

	assert(at < queue->count && queue->jobs[at] == job);
	queue->count--;
	queue->ended++;
	queue->doomed -= job->doom != JOB_REASON_NONE;
	queue->depending -= job->job.wants.after && job->doom == JOB_REASON_NONE;
	memmove(&queue->jobs[at], &queue->jobs[at + 1],
		(queue->count - at) * sizeof(queue->jobs[0]));
	queue->state_count[job->job.state]--;
	queue_account_ended(job);
	(void)queue_job_free(job);
}

static bool queue_is_same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

void queue_job_set_why(struct queue_job *job, enum job_state state, enum job_reason reason,
		       const char *text, const char *detail)
{
	struct job *shown = &job->job;
	bool is_same = queue_is_same_text(shown->reason_text, text) &&
		       queue_is_same_text(shown->reason_detail, detail);
	if (shown->state == state && shown->reason == reason && is_same)
		return;

	job->queue->state_count[shown->state]--;
	job->queue->state_count[state]++;
	shown->state = state;
	shown->reason = reason;
	shown->has_turn &= state == JOB_PENDING;

	if (!is_same)
		job_set_reason(shown, reason, text, detail);
	queue_account_job(job, true);

	queue_changed(job->queue);
}

void queue_job_set_state(struct queue_job *job, enum job_state state, enum job_reason reason,
			 const char *text)
{
	queue_job_set_why(job, state, reason, text, NULL);
}

struct queue_run *queue_run_new(struct queue_job *job, struct err *err)
{
	struct queue_run *run = calloc(1, sizeof(*run));
	if (!run) {
		(void)err_set(err, -ENOMEM, "no memory to work on job %llu",
			      (unsigned long long)job->job.id);
		return NULL;
	}

	run->owner = job;
	run->since_ns = loop_now_ns(job->queue->options.loop);
	run->dir_fd = run->control_fd = run->lock_fd = run->launch_fd = run->error_fd = -1;
	run->rules_fd = -1;
	run->retry = loop_timer_new(job->queue->options.loop, queue_run_retry, run, err);
	if (!run->retry) {
		free(run);
		return NULL;
	}

	job->run = run;
	return run;
}

struct queue_run *queue_run_free(struct queue_run *run)
{
	if (!run)
		return NULL;

	queue_lease_end(run);
	queue_control_close(run);
	run->retry = loop_timer_free(run->retry);
	run->child = child_free(run->child);

	const int fds[] = {run->dir_fd, run->lock_fd, run->launch_fd, run->error_fd, run->rules_fd};
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}

	while (run->callers) {
		struct queue_caller *caller = run->callers;
		run->callers = caller->next;
		free(caller);
	}

	job_done(&run->ended);
	free(run->grants);
	free(run->observed);
	free(run->text);
	free(run->adapters);
	queue_forget_plans(run);
	(void)child_free(run->remover);
	free(run);

	return NULL;
}

/* The answers to those who look. */

uint64_t queue_ended(const struct queue *queue)
{
	return queue->ended;
}

size_t queue_count(const struct queue *queue, enum job_state state)
{
	return queue->state_count[state];
}

const struct job *queue_first(const struct queue *queue)
{
	return queue->count > 0 ? &queue->jobs[0]->job : NULL;
}

const struct job *queue_next(const struct queue *queue, const struct job *job)
{
	size_t at = queue_place_of(queue, job->id + 1);
	return at < queue->count ? &queue->jobs[at]->job : NULL;
}

const struct job *queue_find(const struct queue *queue, uint64_t id)
{
	const struct queue_job *job = queue_job_find(queue, id);
	return job ? &job->job : NULL;
}

const struct job *queue_find_array(const struct queue *queue, uint64_t id)
{
	size_t at = queue_place_of(queue, id);
	const struct job *job = at < queue->count ? &queue->jobs[at]->job : NULL;
	return job && job->array_id == id ? job : NULL;
}

void queue_attempt_of(const struct queue *queue, const struct job *shown, struct queue_attempt *out)
{
	*out = (struct queue_attempt){.isolation = "", .isolation_reason = "", .cgroup = ""};
	const struct queue_job *job = queue_job_find(queue, shown->id);
	const struct queue_run *run = job ? job->run : NULL;

	if (!run)
		return;

	*out = (struct queue_attempt){
	    .grants = run->grants,
	    .grant_count = run->grant_count,
	    .pid = run->pid,
	    .supervisor_pid = run->supervisor_pid,
	    .isolation = run->isolation,
	    .isolation_reason = run->isolation_reason,
	    .cgroup = run->cgroup,
	    .port = run->port,
	    .observed = run->observed,
	    .observed_count = run->observed_count,
	};
}

const struct schedule_machine *queue_machine(const struct queue *queue)
{
	return &queue->machine;
}

const char *queue_storage_error(const struct queue *queue)
{
	return queue->storage_error;
}
