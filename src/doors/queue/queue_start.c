/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From Pending to Starting: the job's lock and a durable record of the start, then the supervisor,
 * which inherits the lock. Between the two the agent may die as well as after it: whoever finds the
 * record later learns from the lock whether a supervisor was born.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/spawner.h"
#include "base/buf.h"
#include "doors/queue/queue_internal.h"

static struct queue_run *queue_run_of(struct queue_op *op)
{
	return (struct queue_run *)((char *)op - offsetof(struct queue_run, op));
}

void queue_run_task(struct queue_run *run, enum queue_task task, int (*work)(struct queue_op *op),
		    void (*done)(struct queue_op *op, int result))
{
	run->task = task;
	run->op.work = work;
	run->op.done = done;
	run->op.is_grouped = task == QUEUE_TASK_START || task == QUEUE_TASK_INSPECT;
	queue_op_submit(run->owner->queue, &run->op);
}

/* --- on the storage thread ------------------------------------------------------------------- */

/* The launch as a sealed memfd, so that the supervisor reads it whoever has died. */
static int queue_launch_fd(const char *bytes, size_t length, struct err *err)
{
	_cleanup_close_ int fd = memfd_create("sluice-launch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_set(err, -errno, "memory for a supervisor: %s", err_describe(errno));

	size_t written = 0;

	while (written < length) {
		ssize_t n = write(fd, bytes + written, length - written);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? -errno : -EIO, "memory for a supervisor: %s",
				       err_describe(errno));

		written += (size_t)n;
	}

	if (lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_set(err, -errno, "sealing what a supervisor is told: %s",
			       err_describe(errno));

	return take_fd(&fd);
}

/* Fits: checked by queue_open(), or made no longer. */
static void queue_copy_text(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%s", text ? text : "");
}

/* The rules around whoever gets none of a plan's devices. */
static int queue_find_denied(struct queue *queue, const struct gpunodes_plan *plan,
			     struct devguard_rule **out, size_t *out_count, struct err *err)
{
	const struct gpunodes_range *ranges = NULL;
	size_t count = 0;
	uint32_t unknown = 0;
	int rc =
	    gpunodes_cache_find(&queue->nodes, plan, queue->device_root ? queue->device_root : "",
				clock_real_ns(), &ranges, &count, &unknown, err);
	if (rc == 0 && unknown > 0)
		(void)err_set(err, -ENOENT, "the nodes of %" PRIu32 " devices are not known",
			      unknown);

	if (rc == 0 && count > LAUNCH_DENIED_MAX)
		rc = err_set(err, -E2BIG, "%zu device rules: %d are possible", count,
			     LAUNCH_DENIED_MAX);
	if (rc < 0 || count == 0)
		return rc;

	struct devguard_rule *rules = calloc(count, sizeof(*rules));
	if (!rules)
		return err_set(err, -ENOMEM, "no memory for device rules");

	for (size_t i = 0; i < count; i++)
		rules[i] = (struct devguard_rule){.type = 'c',
						  .major = ranges[i].major,
						  .first = ranges[i].first,
						  .last = ranges[i].last,
						  .access = DEVGUARD_ALL};

	*out = rules;
	*out_count = count;
	return 0;
}

static int queue_find_parts(const struct queue_run *run, struct launch *launch, struct err *err)
{
	if (run->part_count == 0)
		return 0;

	launch->parts = calloc(run->part_count, sizeof(*launch->parts));
	if (!launch->parts)
		return err_set(err, -ENOMEM, "no memory for device rules");

	int rc = 0;
	for (; rc == 0 && launch->part_count < run->part_count; launch->part_count++) {
		struct launch_part *part = &launch->parts[launch->part_count];
		rc = queue_find_denied(run->owner->queue, &run->parts[launch->part_count],
				       &part->denied, &part->denied_count, err);
	}

	return rc;
}

/* What a job is kept away from. It runs without as well, unless it wants more, and says so. */
static void queue_add_denied(const struct queue_run *run, struct launch *launch)
{
	struct err err = {0};
	int rc = run->knows_others ? queue_find_denied(run->owner->queue, &run->others,
						       &launch->denied, &launch->denied_count, &err)
				   : err_set(&err, -ENOENT, "the GPUs are not known");
	if (rc == 0)
		(void)queue_find_parts(run, launch, &err);
	(void)snprintf(launch->denied_why, sizeof(launch->denied_why), "%.*s", LAUNCH_WHY_MAX - 1,
		       err.text); /* cut */
}

/* The kernel has checked them once for all jobs that are kept away from the same. */
static void queue_make_rules(struct queue_run *run, const struct launch *launch)
{
	bool may_use = geteuid() == 0 && launch->cgroup_root[0] && !launch->spec.image[0] &&
		       !launch->denied_why[0];

	if (run->rules_fd >= 0)
		(void)close(run->rules_fd);
	run->rules_fd = may_use ? devguard_cache_get(&run->owner->queue->rules_made, launch->denied,
						     launch->denied_count)
				: -1;
}

/* What differs from the first attempt, and from the other members of its array. The time that a job
 * may run is for all its attempts together. */
static int queue_launch_again(const struct queue_run *run, struct launch *launch, struct err *err)
{
	const struct job *job = &run->owner->job;
	int64_t used_ns = 0;

	if (job->array_id > 0 && job->wants.array != WANTS_ARRAY_NONE) {
		launch->array_id = job->array_id;
		launch->array_index = job->array_index;
	}

	/* Somebody may have changed it since it was submitted. */
	if (job->wants.time_ns > 0)
		launch->spec.deadline_ns = launch->spec.wants.time_ns = job->wants.time_ns;

	if (launch->spec.deadline_ns == 0 || job->failed_attempts == 0)
		return 0;

	int rc = store_used(run->owner->queue->store, job->id, job->failed_attempts, &used_ns, err);
	if (rc < 0)
		return rc;

	bool is_over = used_ns > 0 && (uint64_t)used_ns >= launch->spec.deadline_ns;
	launch->spec.deadline_ns = is_over ? 1 : launch->spec.deadline_ns - (uint64_t)used_ns;
	return 0;
}

int queue_make_launch(struct queue_run *run, struct err *err)
{
	const struct queue *queue = run->owner->queue;
	uint64_t id = run->owner->job.id;
	_cleanup_free_ char *spec = NULL;
	size_t spec_length = 0;
	int rc = store_spec(queue->store, id, &spec, &spec_length, err);
	if (rc < 0)
		return rc;

	_cleanup_launch_ struct launch launch;
	launch_init(&launch);

	rc = spec_parse(spec, spec_length, &launch.spec, err);
	if (rc < 0)
		return err_wrap(err, "what is stored of job %" PRIu64, id);

	launch.id = id;
	launch.attempt = run->attempt;

	rc = queue_launch_again(run, &launch, err);
	if (rc < 0)
		return rc;

	memcpy(launch.instance, run->instance, sizeof(launch.instance));
	queue_copy_text(launch.runtime_dir, LAUNCH_PATH_MAX, queue->runtime_dir);
	queue_copy_text(launch.sim_state, LAUNCH_PATH_MAX, queue->sim_state);

	if (queue->cgroup_root && access(queue->cgroup_root, F_OK) < 0 &&
	    queue->options.renew_cgroups)
		queue->options.renew_cgroups(queue->supervisor, queue->options.renew_context);

	queue_copy_text(launch.cgroup_root, LAUNCH_PATH_MAX, queue->cgroup_root);
	launch.log_bytes = queue->rules.log_bytes;
	launch.keeps_order = run->keeps_order;

	/* Root opens every node as it is; a job without GPUs is to open none. */
	if (run->has_own_nodes && launch.spec.uid != 0 && run->grant_count > 0) {
		const char *root = queue->device_root ? queue->device_root : "";
		queue_copy_text(launch.own_nodes, LAUNCH_PATH_MAX, *root ? root : "/");
	}

	if (launch.spec.image[0])
		queue_copy_text(launch.container, LAUNCH_PATH_MAX, queue->container);
	queue_copy_text(launch.device_root, LAUNCH_PATH_MAX, queue->device_root);
	launch.minimum_isolation = run->minimum_isolation;
	launch.own_pids = geteuid() == 0;
	queue_add_denied(run, &launch);
	queue_make_rules(run, &launch);

	if (launch.spec.wants.workers > 0)
		queue_copy_text(launch.rsh, LAUNCH_PATH_MAX, queue->rsh);
	queue_copy_text(launch.adapters, sizeof(launch.adapters), run->adapters);
	launch.adapters_simulated = run->adapters_simulated;
	launch.grants = run->grants; /* lent: taken back below */
	launch.grant_count = run->grant_count;

	_cleanup_free_ char *bytes = NULL;
	size_t length = 0;

	rc = launch_format(&launch, &bytes, &length, err);
	launch.grants = NULL;
	launch.grant_count = 0;

	if (rc == 0)
		rc = queue_launch_fd(bytes, length, err);
	if (rc < 0)
		return err_wrap(err, "job %" PRIu64, id);

	run->launch_fd = rc;
	return 0;
}

static int queue_start_work(struct queue_op *op)
{
	struct queue_run *run = queue_run_of(op);
	struct queue *queue = op->queue;
	uint64_t id = run->owner->job.id;

	run->found = QUEUE_FOUND_VOID;
	int rc = jobdir_open(queue->state_fd, id, &op->err);
	if (rc == -ENOENT && (run->attempt == 1 || run->owner->job.array_id > 0)) {
		/* The row is what counts: made again, as nothing was ever in it. */
		rc = jobdir_create(queue->state_fd, id, run->owner->job.uid, &op->err);
		if (rc == 0)
			rc = jobdir_sync(queue->state_fd, &op->err);
		if (rc == 0)
			rc = jobdir_open(queue->state_fd, id, &op->err);
	}

	if (rc < 0)
		return rc;

	run->dir_fd = rc;
	rc = jobdir_lock(run->dir_fd, &op->err);
	if (rc == -EBUSY) {
		run->found = QUEUE_FOUND_BUSY;
		return 0;
	}

	if (rc < 0)
		return rc;

	run->lock_fd = rc;
	crash_point("queue.locked");

	if (jobdir_is_cancelled(run->dir_fd)) { /* we died between its two halves */
		run->found = QUEUE_FOUND_ENDED;
		return 0;
	}

	rc = queue_make_launch(run, &op->err);
	if (rc == 0 && run->attempt > 1)
		rc = jobdir_reserve(run->dir_fd, &op->err);
	if (rc < 0)
		return rc;

	crash_point("queue.room_taken");
	rc = store_start(queue->store, id, run->attempt, run->text, clock_unix_ns(), &op->err);
	crash_point("queue.start_stored");

	/* Where it complains before it has output files; without room for it, nowhere. */
	if (rc == 0)
		run->error_fd =
		    openat(run->dir_fd, "supervisor",
			   O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);

	return rc;
}

/* --- on the loop ----------------------------------------------------------------------------- */

static void queue_close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static void queue_close_start(struct queue_run *run)
{
	queue_close_fd(&run->lock_fd);
	queue_close_fd(&run->launch_fd);
	queue_close_fd(&run->error_fd);
	queue_close_fd(&run->rules_fd);
}

static void queue_on_child(struct child *child, const struct child_end *end, void *context)
{
	struct queue_run *run = context;
	run->child = child_free(run->child);
	queue_look(run);
}

/* 0, or what starting the supervisor said. Our copy of the lock is closed in any case: from here on
 * only a supervisor has it, or nobody. */
static int queue_spawn(struct queue_run *run, struct err *err)
{
	struct queue *queue = run->owner->queue;
	/* The arguments are for people who look at ps. */
	char id[24], attempt[24];

	(void)snprintf(id, sizeof(id), "%" PRIu64, run->owner->job.id); /* these fit */
	(void)snprintf(attempt, sizeof(attempt), "%" PRIu32, run->attempt);
	char *const argv[] = {queue->supervisor,     (char[]){"--job"}, id,
			      (char[]){"--attempt"}, attempt,		NULL};

	struct child_fd fds[SPAWNER_FDS_MAX] = {
	    {run->lock_fd, LAUNCH_FD_LOCK},
	    {run->dir_fd, LAUNCH_FD_DIRECTORY},
	    {run->launch_fd, LAUNCH_FD_LAUNCH},
	};
	size_t count = 3;
	if (run->error_fd >= 0)
		fds[count++] = (struct child_fd){run->error_fd, LAUNCH_FD_ERROR};
	if (run->rules_fd >= 0)
		fds[count++] = (struct child_fd){run->rules_fd, LAUNCH_FD_RULES};

	const struct child_spec spec = {
	    .path = queue->supervisor,
	    .argv = argv,
	    .fds = fds,
	    .fd_count = count,
	    .new_session = true,
	};

	crash_point("queue.before_spawn");
	run->child = child_start_by(queue->options.children, &spec, spawner_spawn, queue->spawner,
				    queue_on_child, run, err);
	crash_point("queue.spawned");
	queue_close_start(run);
	crash_point("queue.lock_closed");

	if (!run->child)
		return err->code;

	run->supervisor_pid = child_pid(run->child);
	return 0;
}

static void queue_start_failed(struct queue_run *run, const struct err *err)
{
	struct queue_job *job = run->owner;
	queue_close_start(run);
	log_write(job->queue->options.log, LOG_LEVEL_WARNING, NULL,
		  "job %" PRIu64 " cannot be started now: %s", job->job.id, err->text);
	queue_put_back(job, JOB_REASON_BACKOFF, "it cannot be started now", err->text, true);
}

static void queue_start_done(struct queue_op *op, int rc)
{
	struct queue_run *run = queue_run_of(op);
	struct queue_job *job = run->owner;
	struct queue *queue = job->queue;

	run->task = QUEUE_TASK_NONE;
	queue->preparing--;

	if (queue->has_put_off && queue->preparing <= QUEUE_PREPARING_MAX / 2) {
		queue->has_put_off = false;
		queue_kick(queue);
	}

	free(take_ptr(run->text));
	queue_forget_plans(run);

	if (rc == -EALREADY) { /* its end was entered, and we were told that it was not */
		queue_cancel_answer(run, 0, JOB_CANCELLED, true, NULL);
		queue_job_remove(job);
		queue_changed(queue);
		return;
	}

	if (rc < 0) {
		/* Whether the record is there is not known: that of the next attempt replaces it,
		 * and after a crash it is found void. */
		if (rc == -ENOSPC || rc == -EROFS || rc == -EIO || rc == -EDQUOT)
			queue_storage_failed(queue, rc, op->err.text);
		queue_start_failed(run, &op->err);
		return;
	}

	if (run->found == QUEUE_FOUND_BUSY) { /* somebody lives who has this job */
		queue_close_start(run);
		job->phase = QUEUE_LAUNCHED;
		run->look = true;
		queue_inspect_later(run);
		return;
	}

	if (run->found == QUEUE_FOUND_ENDED) {
		run->cancel_wanted = true;
	} else {
		queue_storage_worked(queue);
		job->job.attempt = run->attempt;
	}

	if (run->cancel_wanted || queue->closing) {
		/* Nothing was started, and nothing is while we hold the lock and decide so. */
		queue_close_start(run);
		job->phase = QUEUE_WAITING;
		queue_step(job);
		return;
	}

	struct err err = {.code = 0};
	if (queue_spawn(run, &err) < 0) {
		job->phase = QUEUE_LAUNCHED; /* the record is void: the inspection takes it back */
		(void)snprintf(run->trouble, sizeof(run->trouble), "%.*s",
			       (int)sizeof(run->trouble) - 1, err.text);
		run->failed = true;
		run->look = true;
		queue_step(job);

		return;
	}

	job->phase = QUEUE_LAUNCHED;
	job->job.started_unix_ns = clock_unix_ns();
	queue_control_connect(run);
}

static int queue_make_instance(char out[LAUNCH_INSTANCE_MAX], struct err *err)
{
	struct buf text;
	buf_init(&text, 64);

	int rc = file_read("/proc/sys/kernel/random/uuid", &text, err);
	if (rc == 0) {
		size_t length = strcspn(buf_text(&text), "\n");
		(void)snprintf(out, LAUNCH_INSTANCE_MAX, "%.*s", (int)length, buf_text(&text));
	}

	buf_done(&text);
	return rc;
}

void queue_forget_plans(struct queue_run *run)
{
	gpunodes_plan_done(&run->others);
	for (size_t i = 0; i < run->part_count; i++)
		gpunodes_plan_done(&run->parts[i]);
	run->part_count = 0;
	free(take_ptr(run->parts));
}

/* What each worker does not get, and what a launcher does not that has none. */
static int queue_plan_parts(struct queue_run *run, const struct inventory *inventory,
			    const char *const *uuids, struct err *err)
{
	const struct wants *wants = &run->owner->job.wants;
	size_t each = wants->workers > 0 ? wants->worker_gpus : 0;

	if (each == 0 || run->grant_count < each)
		return 0;

	size_t count = run->grant_count / each;
	run->parts = calloc(count + 1, sizeof(*run->parts));
	if (!run->parts)
		return err_set(err, -ENOMEM, "no memory for the workers' devices");

	int rc = 0;
	for (; rc == 0 && run->part_count <= count; run->part_count++)
		rc = gpunodes_plan(inventory, &uuids[run->part_count * each],
				   run->part_count < count ? each : 0, &run->parts[run->part_count],
				   err);

	return rc;
}

/* The kernel allows a user so many instances of inotify (128 unless somebody has said otherwise),
 * and others of root's have to live with what is left: a supervisor takes one. */
static size_t queue_order_max(void)
{
	_cleanup_buf_ struct buf text;
	uint64_t instances = 0;

	buf_init(&text, QUEUE_SYSCTL_MAX);
	if (file_read("/proc/sys/fs/inotify/max_user_instances", &text, NULL) < 0)
		return 0;

	size_t length = strcspn(buf_text(&text), "\n");
	if (parse_u64_span(buf_text(&text), length, 0, UINT32_MAX, &instances) < 0)
		return 0;

	return (size_t)(instances / QUEUE_ORDER_PART);
}

/* What the kernel allows is asked for again where more jobs run than it allowed last. */
static bool queue_can_keep_order(struct queue *queue)
{
	const size_t *count = queue->state_count;
	size_t jobs = count[JOB_STARTING] + count[JOB_RUNNING] + count[JOB_STOPPING];

	if (jobs > queue->order_max)
		queue->order_max = queue_order_max();
	return jobs <= queue->order_max;
}

static int queue_plan_others(struct queue_run *run, struct err *err)
{
	const struct inventory *inventory = run->owner->queue->inventory;
	const char *uuids[LAUNCH_GRANTS_MAX];
	size_t count = 0;

	queue_forget_plans(run);
	run->knows_others = inventory != NULL;
	run->has_own_nodes = run->owner->queue->rules.is_enforced && geteuid() == 0;
	run->minimum_isolation = run->owner->queue->rules.minimum_isolation;
	run->keeps_order = queue_can_keep_order(run->owner->queue);

	for (; count < run->grant_count && count < LAUNCH_GRANTS_MAX; count++)
		uuids[count] = run->grants[count].uuid;

	if (!inventory)
		return 0;

	int rc = gpunodes_plan(inventory, uuids, count, &run->others, err);
	return rc < 0 ? rc : queue_plan_parts(run, inventory, uuids, err);
}

/* As they are now: a port that goes down later is the job's to notice. */
static int queue_name_adapters(struct queue_run *run, struct err *err)
{
	const struct schedule_pools *pools = &run->owner->queue->machine.pools;
	struct buf names;

	free(take_ptr(run->adapters));
	buf_init(&names, LAUNCH_ADAPTERS_MAX - 1);

	int rc = schedule_pools_adapters(pools, run->owner->job.resources, &names,
					 &run->adapters_simulated);
	if (rc == 0 && names.length > 0) {
		run->adapters = buf_take(&names);
		rc = run->adapters ? 0 : -ENOMEM;
	}

	buf_done(&names);
	return rc < 0 ? err_set(err, rc, "the names of a job's adapters: %s", err_describe(rc)) : 0;
}

void queue_start(struct queue_job *job)
{
	struct queue_run *run = job->run;
	struct err err;

	run->attempt = job->job.attempt + 1;
	job->phase = QUEUE_PREPARING;
	queue_job_set_state(job, JOB_STARTING, JOB_REASON_NONE, NULL);

	int rc = queue_make_instance(run->instance, &err);
	if (rc == 0)
		rc = queue_plan_others(run, &err);
	if (rc == 0)
		rc = queue_name_adapters(run, &err);
	if (rc == 0)
		rc = record_format_attempt(run->instance, run->grants, run->grant_count, &run->text,
					   &err);

	if (rc < 0) {
		queue_start_failed(run, &err);
		return;
	}

	job->queue->preparing++;
	queue_run_task(run, QUEUE_TASK_START, queue_start_work, queue_start_done);
}

void queue_put_back(struct queue_job *job, enum job_reason reason, const char *text,
		    const char *detail, bool is_failure)
{
	struct queue *queue = job->queue;
	char kept[JOB_REASON_MAX], kept_detail[JOB_DETAIL_MAX]; /* they may be the run's */

	(void)snprintf(kept, sizeof(kept), "%.*s", JOB_REASON_MAX - 1, text ? text : "");
	(void)snprintf(kept_detail, sizeof(kept_detail), "%.*s", JOB_DETAIL_MAX - 1,
		       detail ? detail : "");

	bool cancelled = job->run && job->run->cancel_wanted;

	job->phase = QUEUE_WAITING;
	if (!cancelled)
		job->run = queue_run_free(job->run);

	if (is_failure) {
		uint64_t delay = QUEUE_BACKOFF_MIN_NS << (job->failures < 10 ? job->failures : 10);
		job->failures++;
		job->not_before_ns =
		    clock_after_ns(loop_now_ns(queue->options.loop),
				   delay < QUEUE_BACKOFF_MAX_NS ? delay : QUEUE_BACKOFF_MAX_NS);
	}

	job->job.started_unix_ns = 0;
	queue_job_set_why(job, JOB_PENDING, reason, kept, kept_detail);
	queue_kick(queue);

	if (cancelled)
		queue_step(job);
}
