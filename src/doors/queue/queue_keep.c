/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, and what is done once an hour: what is old is forgotten, what an agent that
 * died left of submissions that it never answered is removed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/spawner.h"
#include "base/text.h"
#include "doors/queue/claim/queue_claim.h"
#include "doors/queue/queue_internal.h"
#include "doors/queue/store/store_share.h"
#include "job/trash.h"
#include "job/workdir.h"
#include "units/ledger.h"

enum {
	KEEP_LOCK_MS = 5000, /* for somebody between fork and exec to let go */
	KEEP_LOCK_STEP_MS = 20,
	KEEP_NOTE_MAX = 64,
	KEEP_CLOSE_MS = 50, /* of one pass of the loop while closing */
};

/* --- once an hour ---------------------------------------------------------------------------- */

struct queue_keeper {
	struct queue_op op; /* first */
	bool is_running, is_swept, is_listed, may_forget, wants_again, is_soon;
	size_t stays; /* directories that cannot even be moved away */
	struct err stays_why;
	int trash_fd;	       /* owned; -1: there is nothing in it */
	int64_t began_unix_ns; /* of both clocks, when the queue was opened */
	uint64_t began_ns;
	int64_t before_unix_ns; /* what ended before is old */
	size_t keep_jobs;	/* 0: QUEUE_RETENTION_JOBS */
	int64_t now_unix_ns;	/* 0: not known */
	uint64_t *ids;		/* owned: directories still to be looked at */
	size_t count, place;
	uint64_t next_id;     /* when they were listed */
	int64_t next_unix_ns; /* then the next one may be forgotten */
	uint64_t removed, kept, forgotten;
	queue_changed_fn *done; /* NULL: nobody waits for it */
	void *context;
	bool more;
	struct queue_history history;
};

/* Whether something of a job was ever started in this directory. */
static bool keep_is_claimed(int dir_fd)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list) {
		if (copy >= 0)
			(void)close(copy);
		return true; /* not to be touched */
	}

	struct dirent *entry;
	while ((entry = readdir(list))) {
		if (text_starts_with(entry->d_name, "claim.") ||
		    text_starts_with(entry->d_name, "result."))
			return true;
	}

	return false;
}

bool queue_directory_is_void(int state_fd, uint64_t id, bool was_given)
{
	int fd = jobdir_open(state_fd, id, NULL);
	if (fd < 0)
		return false;
	_cleanup_close_ int dir_fd = fd;
	_cleanup_close_ int lock = jobdir_lock(dir_fd, NULL);
	return lock >= 0 && (was_given || !keep_is_claimed(dir_fd));
}

static int keep_found(const struct job *job, const char *grants, const char *observations,
		      void *context)
{
	*(uid_t *)context = job->uid;
	return 0;
}

/* Agents before this one let everybody pass. */
static void keep_close(int state_fd, uint64_t id, uid_t uid)
{
	struct stat status;
	_cleanup_close_ int fd = jobdir_open(state_fd, id, NULL);
	if (fd >= 0 && fstat(fd, &status) == 0 && (status.st_mode & S_IXOTH))
		(void)jobdir_give(fd, uid, (gid_t)-1, NULL); /* or it stays as it is */
}

/* A directory without a job: of a submission that nobody was told of, or of a job that was
 * forgotten. One whose number was never given, and in which something ran, belongs to a database
 * that is gone: it stays. */
static void keep_look(struct queue_keeper *keeper, uint64_t id)
{
	struct queue *queue = keeper->op.queue;
	uid_t uid = 0;
	int rc = store_get(queue->store, id, keep_found, &uid, NULL);
	if (rc == 0)
		keep_close(queue->state_fd, id, uid);

	if (rc != -ENOENT)
		return;
	if (!queue_directory_is_void(queue->state_fd, id, id < keeper->next_id))
		keeper->kept++;
	else if (jobdir_remove(queue->state_fd, id, NULL) == 0)
		keeper->removed++;
}

static int keep_list(struct queue_keeper *keeper, struct err *err)
{
	struct queue *queue = keeper->op.queue;
	size_t stays = 0;

	keeper->is_listed = true;
	free(take_ptr(keeper->ids));
	keeper->count = keeper->place = 0;

	int rc = jobdir_list(queue->state_fd, &keeper->ids, &keeper->count, &stays, err);
	keeper->stays += rc == 0 ? stays : 0;
	return rc == 0 ? store_next_id(queue->store, &keeper->next_id, err) : rc;
}

static int keep_forget(struct queue_keeper *keeper, struct err *err)
{
	struct queue *queue = keeper->op.queue;
	_cleanup_free_ uint64_t *ids = NULL;
	size_t count = 0;
	int rc = store_forget(queue->store, keeper->before_unix_ns, keeper->now_unix_ns, SIZE_MAX,
			      &ids, &count, err);

	for (size_t i = 0; i < count && rc == 0; i++)
		(void)jobdir_remove(queue->state_fd, ids[i], NULL); /* else at the next start */

	keeper->more = rc == 0 && count >= STORE_FORGET_MAX;
	keeper->forgotten += rc == 0 ? count : 0;
	return rc;
}

/* Of what was moved there, by whomever. */
static void keep_open_trash(struct queue_keeper *keeper)
{
	_cleanup_close_ int fd = trash_open(keeper->op.queue->state_fd, NULL);
	if (keeper->trash_fd < 0 && fd >= 0 && !trash_is_empty(fd))
		keeper->trash_fd = take_fd(&fd);
}

/* A step of bounded length: submissions wait for the same thread. */
static int queue_keep_work(struct queue_op *op)
{
	struct queue_keeper *keeper = (struct queue_keeper *)op;
	keeper->more = false;
	if (!keeper->is_swept) {
		keeper->is_swept = keeper->more = true;
		workdir_sweep(op->queue->state_fd, &keeper->stays, &keeper->stays_why);
		return 0;
	}

	if (!keeper->is_listed) {
		int rc = keep_list(keeper, &op->err);
		keeper->more = rc == 0;
		return rc;
	}

	for (size_t i = 0; i < QUEUE_KEEP_STEP && keeper->place < keeper->count; i++)
		keep_look(keeper, keeper->ids[keeper->place++]);

	keeper->next_unix_ns = INT64_MAX;
	if (keeper->place == keeper->count) {
		int rc = keeper->may_forget ? keep_forget(keeper, &op->err) : 0;
		if (rc == 0 && !keeper->more)
			rc = queue_history_work(op->queue, &keeper->history, &op->err);
		if (!keeper->more)
			keep_open_trash(keeper);

		return rc == 0
			   ? store_next_forget(op->queue->store, &keeper->next_unix_ns, &op->err)
			   : rc;
	}

	keeper->more = true;
	return 0;
}

static void keep_tell_stays(struct queue_keeper *keeper)
{
	const struct queue *queue = keeper->op.queue;

	if (keeper->stays > 0)
		log_write(
		    queue->options.log, LOG_LEVEL_WARNING, NULL,
		    "%zu directories of ended jobs in '%s' cannot be moved away, and stay%s%s",
		    keeper->stays, queue->state_dir, keeper->stays_why.code < 0 ? ": " : "",
		    keeper->stays_why.text);

	keeper->stays = 0;
	keeper->stays_why = (struct err){.code = 0};
}

/* Whether more is kept than is to be: then another step forgets some of it. */
static void keep_judge(struct queue_keeper *keeper)
{
	struct queue_history *history = &keeper->history;
	size_t keep = keeper->keep_jobs > 0 ? keeper->keep_jobs : QUEUE_RETENTION_JOBS;
	bool is_stuck = history->is_to_cut && history->forgotten == 0;

	keeper->forgotten += history->forgotten;
	history->forgotten = 0;
	history->is_to_cut =
	    queue_history_judge(keeper->op.queue, history, keep) && keeper->may_forget && !is_stuck;
	keeper->more = history->is_to_cut;
	if (!keeper->more)
		queue_history_done(history);
}

static void queue_keep_done(struct queue_op *op, int rc)
{
	struct queue_keeper *keeper = (struct queue_keeper *)op;
	struct queue *queue = op->queue;

	keeper->is_running = false;
	if (queue->closing)
		return;
	if (rc < 0)
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL, "clearing up the queue: %s",
			  op->err.text);
	if (rc == 0 && !keeper->more && keeper->is_listed && keeper->place == keeper->count)
		keep_judge(keeper);

	if (keeper->more) {
		keeper->is_running = true;
		queue_op_submit(queue, op);
		return;
	}

	if (keeper->kept > 0)
		log_write(queue->options.log, LOG_LEVEL_WARNING, NULL,
			  "%" PRIu64
			  " directories in '%s/j' belong to no job of the queue; they stay",
			  keeper->kept, queue->state_dir);

	keep_tell_stays(keeper);
	keeper->kept = keeper->removed = 0;
	if (keeper->trash_fd >= 0)
		queue_trash_clear(queue, take_fd(&keeper->trash_fd));
	queue_changed_fn *done = keeper->done;
	keeper->done = NULL;

	if (done)
		done(rc, keeper->forgotten, rc < 0 ? &op->err : NULL, keeper->context);
	keeper->forgotten = 0;

	int64_t left_ns = keeper->next_unix_ns - clock_unix_ns();
	uint64_t wait_ns = left_ns > 0 ? (uint64_t)left_ns : 0;

	if (keeper->now_unix_ns == 0) /* no job's time can be told */
		wait_ns = QUEUE_KEEP_NS;
	if (keeper->wants_again || !keeper->may_forget)
		wait_ns = QUEUE_KEEP_SOON_NS;
	keeper->wants_again = false;
	wait_ns = wait_ns < QUEUE_KEEP_SOON_NS ? QUEUE_KEEP_SOON_NS : wait_ns;
	loop_timer_start(queue->keep_timer, wait_ns < QUEUE_KEEP_NS ? wait_ns : QUEUE_KEEP_NS);
}

static void queue_keep(void *context);

void queue_collect(struct queue *queue, queue_changed_fn *done, void *context)
{
	struct queue_keeper *keeper = queue->keeper;
	if (keeper->is_running || queue->closing) {
		struct err err;
		done(err_set(&err, -EBUSY, "old jobs are being forgotten just now: try again"), 0,
		     &err, context);
		return;
	}

	keeper->done = done;
	keeper->context = context;
	queue_keep(queue);
}

void queue_keep_soon(struct queue *queue)
{
	if (queue->keeper->is_running)
		queue->keeper->wants_again = true;
	else if (!queue->closing && !queue->keeper->is_soon)
		loop_timer_start(queue->keep_timer, QUEUE_KEEP_SOON_NS);
	queue->keeper->is_soon = true; /* whoever asks again does not put it off */
}

/* A wall clock that has jumped says nothing of how old a job is: nothing is old then. */
static int64_t keep_old_before(const struct queue *queue, const struct queue_keeper *keeper)
{
	int64_t passed_ns = (int64_t)(loop_now_ns(queue->options.loop) - keeper->began_ns);
	int64_t now_ns = clock_unix_ns();
	int64_t jump_ns = now_ns - keeper->began_unix_ns - passed_ns;
	if (jump_ns > (int64_t)QUEUE_KEEP_NS || jump_ns < -(int64_t)QUEUE_KEEP_NS)
		return 0;
	int64_t retention_ns = queue->rules.retention_ns;
	return now_ns - (retention_ns > 0 ? retention_ns : QUEUE_RETENTION_NS);
}

/* The timer's. */
static void queue_keep(void *context)
{
	struct queue *queue = context;
	struct queue_keeper *keeper = queue->keeper;

	if (keeper->is_running || queue->closing)
		return;

	keeper->is_soon = false;
	/* A job that others wait for is not forgotten before they know how it ended. */
	bool may_forget = queue->doomed == 0 && queue->failed_count == 0 && !queue->changes &&
			  (queue->has_rules || !queue->options.awaits_rules);
	keeper->before_unix_ns = may_forget ? keep_old_before(queue, keeper) : 0;
	keeper->now_unix_ns = keeper->before_unix_ns ? clock_unix_ns() : 0;
	keeper->may_forget = may_forget;
	keeper->keep_jobs = queue->options.retention_jobs;

	if (queue->rules.retention_jobs > 0)
		keeper->keep_jobs = queue->rules.retention_jobs;
	keeper->is_swept = false;
	keeper->op.work = queue_keep_work;
	keeper->op.done = queue_keep_done;
	keeper->is_running = true;
	queue_op_submit(queue, &keeper->op);
}

/* --- opening --------------------------------------------------------------------------------- */

/* Who says of himself that he has the lock. */
static void keep_holder(int fd, char out[KEEP_NOTE_MAX])
{
	ssize_t length = pread(fd, out, KEEP_NOTE_MAX - 1, 0);
	out[length > 0 ? length : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	for (char *at = out; *at; at++) {
		if (*at < ' ' || *at > '~')
			*at = '?';
	}
}

static int keep_lock(struct queue *queue, struct err *err)
{
	queue->lock_fd =
	    openat(queue->state_fd, "queue.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (queue->lock_fd < 0)
		return err_set(err, -errno, "opening '%s/queue.lock': %s", queue->state_dir,
			       err_describe(errno));

	const struct timespec step = {.tv_nsec = KEEP_LOCK_STEP_MS * 1000000L};

	for (int waited = 0; flock(queue->lock_fd, LOCK_EX | LOCK_NB) < 0;
	     waited += KEEP_LOCK_STEP_MS) {
		char holder[KEEP_NOTE_MAX];

		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, -errno, "locking '%s/queue.lock': %s", queue->state_dir,
				       err_describe(errno));

		keep_holder(queue->lock_fd, holder);
		if (waited >= KEEP_LOCK_MS)
			return err_set(
			    err, -EBUSY,
			    "the queue in '%s' belongs to another agent (%s): stop that one, "
			    "or use another state directory",
			    queue->state_dir, holder[0] ? holder : "it does not say which");

		(void)nanosleep(&step, NULL);
	}

	char note[KEEP_NOTE_MAX];
	int length = snprintf(note, sizeof(note), "pid %d\n", (int)getpid());
	if (ftruncate(queue->lock_fd, 0) < 0 || pwrite(queue->lock_fd, note, (size_t)length, 0) < 0)
		log_write(queue->options.log, LOG_LEVEL_DEBUG, NULL, "'%s/queue.lock': %s",
			  queue->state_dir, err_describe(-errno)); /* only for people */

	return 0;
}

/* A database that is not there beside jobs that are was lost. Beginning with an empty one would
 * lose those as well. */
static int keep_check_lost(const struct queue *queue, const char *path, struct err *err)
{
	if (file_exists(path))
		return 0;

	_cleanup_free_ uint64_t *ids = NULL;
	size_t count = 0;
	int rc = jobdir_list(queue->state_fd, &ids, &count, NULL, err);
	if (rc == -ENOENT)
		return 0;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		if (!queue_directory_is_void(queue->state_fd, ids[i], false))
			return err_set(
			    err, -EUCLEAN,
			    "'%s' is missing, and '%s/j' has jobs of it: restore it from a "
			    "copy, or move '%s/j' away to begin with an empty queue",
			    path, queue->state_dir, queue->state_dir);
	}

	return rc;
}

static int keep_open_store(struct queue *queue, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/queue.db", queue->state_dir);
	if (rc == 0)
		rc = store_check_place(queue->state_dir, 0, err);
	if (rc == 0)
		rc = keep_check_lost(queue, path, err);

	if (rc == 0)
		rc = store_open(path, &queue->store, err);
	if (rc == 0)
		rc = store_next_id(queue->store, &queue->next_id, err);
	if (rc == 0)
		rc = store_is_draining(queue->store, &queue->is_drained, err);
	if (rc == 0)
		rc = queue_claim_load(queue, err);

	return rc;
}

/* A job that was there when the last agent ended has waited since it was submitted. If something
 * else than the machine keeps it waiting, the first pass knows. */
static int64_t keep_waits_since_ns(const struct queue *queue, const struct job *stored)
{
	int64_t waited_ns = clock_unix_ns() - stored->submitted_unix_ns;
	if (stored->attempt > 0 || stored->submitted_unix_ns <= 0 || waited_ns < 0)
		waited_ns = 0;

	int64_t since_ns = (int64_t)loop_now_ns(queue->options.loop) - waited_ns;
	return since_ns ? since_ns : -1;
}

/* A job that was there when the last agent ended. */
static int keep_load(const struct job *stored, const char *grants, void *context)
{
	struct queue *queue = context;
	struct err err;
	struct queue_job *job = queue_job_new(queue, &err);
	if (!job)
		return -ENOMEM;

	int rc = job_copy(stored, &job->job);
	if (rc == 0)
		rc = queue_reserve(queue, 1, &err);
	if (rc == 0 && grants && !queue_run_new(job, &err))
		rc = -ENOMEM;
	if (rc < 0) {
		(void)queue_job_free(job);
		return rc;
	}

	job->job.state = grants ? JOB_STARTING : stored->state; /* PENDING or HELD */
	job->not_before_ns = queue_again_at(queue, &job->job);
	job->waits_since_ns = keep_waits_since_ns(queue, stored);

	struct queue_run *run = job->run;
	if (run) {
		/* Started: the files know what became of it. Until they are read it keeps its GPUs.
		 */
		struct record_attempt attempt;

		job->phase = QUEUE_LAUNCHED;
		run->attempt = stored->attempt;
		run->look = true;

		if (record_parse_attempt(grants, strlen(grants), &attempt, &err) < 0)
			log_write(queue->options.log, LOG_LEVEL_ERROR, NULL,
				  "which GPUs job %" PRIu64 " has is not known: %s", stored->id,
				  err.text);

		run->grants = take_ptr(attempt.grants);
		run->grant_count = attempt.grant_count;
		memcpy(run->instance, attempt.instance, sizeof(run->instance));
		queue_lease_enter(run);
	}

	queue_job_add(job);
	return 0;
}

static int keep_load_bytes(uint64_t id, uint64_t bytes, void *context)
{
	struct queue_job *job = queue_job_find(context, id);
	if (job)
		queue_account_bytes(job, bytes);
	return 0;
}

static int keep_load_all(struct queue *queue, struct err *err)
{
	*err = (struct err){.code = 0};
	int rc = store_load(queue->store, keep_load, queue, err);
	if (rc < 0 && err->code == 0)
		return err_set(err, rc, "reading the jobs of '%s': %s", queue->state_dir,
			       err_describe(rc));
	if (rc == 0)
		rc = store_live_bytes(queue->store, keep_load_bytes, queue, err);

	if (rc == 0)
		rc = queue_fair_load(queue, err);
	if (rc == 0)
		queue_member_load(queue);

	return rc;
}

static int keep_copy(char **out, const char *text, struct err *err)
{
	if (!text)
		return 0;
	if (strlen(text) >= LAUNCH_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "'%.64s...' is too long a path", text);
	*out = strdup(text);
	return *out ? 0 : err_set(err, -ENOMEM, "no memory for the queue");
}

static int keep_copy_all(struct queue *queue, struct err *err)
{
	const struct queue_options *options = &queue->options;
	if (!options->state_dir || !options->supervisor)
		return err_set(err, -EINVAL, "a queue needs a state directory and a supervisor");

	int rc = keep_copy(&queue->state_dir, options->state_dir, err);
	if (rc == 0)
		rc = keep_copy(&queue->runtime_dir, options->runtime_dir, err);
	if (rc == 0)
		rc = keep_copy(&queue->sim_state, options->sim_state, err);
	if (rc == 0)
		rc = keep_copy(&queue->supervisor, options->supervisor, err);
	if (rc == 0 && !(queue->spawner =
			     spawner_new(options->children, options->loop, queue->supervisor, err)))
		rc = err->code;

	if (rc == 0)
		rc = keep_copy(&queue->cgroup_root, options->cgroup_root, err);
	if (rc == 0)
		rc = keep_copy(&queue->container, options->container, err);
	if (rc == 0)
		rc = keep_copy(&queue->rsh, options->rsh, err);
	if (rc == 0)
		rc = keep_copy(&queue->device_root, options->device_root, err);

	return rc;
}

static int keep_make_timers(struct queue *queue, struct err *err)
{
	struct loop *loop = queue->options.loop;
	queue->room_timer = loop_timer_new(loop, queue_op_room, queue, err);
	queue->storage_timer = loop_timer_new(loop, queue_storage_try, queue, err);
	queue->backoff_timer = loop_timer_new(loop, queue_pass_again, queue, err);
	queue->keep_timer = loop_timer_new(loop, queue_keep, queue, err);
	queue->pass_timer = loop_timer_new(loop, queue_pass, queue, err);
	queue->trial_timer = loop_timer_new(loop, queue_trial_next, queue, err);
	queue->keeper = calloc(1, sizeof(*queue->keeper));
	if (!queue->trial_timer || !queue->pass_timer || !queue->room_timer ||
	    !queue->storage_timer || !queue->backoff_timer || !queue->keep_timer || !queue->keeper)
		return err_set(err, -ENOMEM, "no memory for the queue");

	queue->keeper->trash_fd = -1;
	queue->keeper->began_unix_ns = clock_unix_ns();
	queue->keeper->began_ns = loop_now_ns(loop);

	return 0;
}

static int keep_open_state(struct queue *queue, struct err *err)
{
	/* Others may pass through to the output of their own jobs, and not look around. */
	int rc = file_mkdirs(queue->state_dir, 0711, err);
	if (rc < 0)
		return rc;

	queue->state_fd = open(queue->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (queue->state_fd < 0)
		return err_set(err, -errno, "opening '%s': %s", queue->state_dir,
			       err_describe(errno));

	rc = keep_lock(queue, err);
	if (rc == 0)
		rc = token_place_open(queue->runtime_dir, queue->sim_state, &queue->place, err);

	return rc == 0 ? keep_open_store(queue, err) : rc;
}

static void keep_read_boot(struct queue *queue)
{
	struct buf text;
	buf_init(&text, 64);
	if (file_read("/proc/sys/kernel/random/boot_id", &text, NULL) == 0)
		(void)snprintf(queue->boot_id, sizeof(queue->boot_id), "%.*s",
			       (int)strcspn(buf_text(&text), "\n"), buf_text(&text));
	buf_done(&text);
}

int queue_open(const struct queue_options *options, struct queue **out, struct err *err)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	if (!queue)
		return err_set(err, -ENOMEM, "no memory for the queue");

	queue->options = *options;
	queue->lock_fd = queue->state_fd = queue->cleared_fd = queue->begin_fd = -1;
	queue->place = TOKEN_PLACE_NONE;
	queue->rules.weights = (struct rules_weights)RULES_WEIGHTS_DEFAULT;
	queue_op_init(queue);
	queue_change_init(queue);
	keep_read_boot(queue);

	queue->ledger = options->ledger;
	if (!queue->ledger)
		queue->ledger = queue->own_ledger = ledger_new();

	int rc = queue->ledger ? queue_account_open(queue, err)
			       : err_set(err, -ENOMEM, "no memory for the queue");
	if (rc == 0)
		rc = queue_submit_init(queue, err);
	if (rc == 0)
		rc = keep_copy_all(queue, err);
	if (rc == 0)
		rc = keep_make_timers(queue, err);

	if (rc == 0)
		rc = keep_open_state(queue, err);
	if (rc == 0)
		rc = keep_load_all(queue, err);
	if (rc == 0)
		rc = queue_depend_load(queue, err);
	if (rc < 0) {
		(void)queue_close(queue);
		return rc;
	}

	for (size_t i = 0; i < queue->count; i++)
		queue_step(queue->jobs[i]); /* ends on the loop: removes none of them now */

	queue_change_doomed(queue);
	queue_keep(queue);
	*out = queue;

	return 0;
}

/* --- closing --------------------------------------------------------------------------------- */

static void keep_free(struct queue *queue)
{
	while (queue->count > 0) {
		struct queue_job *job = queue->jobs[--queue->count];
		queue_account_job(job, false);
		(void)queue_job_free(job);
	}

	free(queue->jobs);
	free(queue->failed);
	queue_hold_clear(queue);
	schedule_machine_done(&queue->machine);
	schedule_pools_done(&queue->pools);
	free(queue->known);
	queue_fair_done(queue);
	queue_estimate_done(queue);
	queue_member_clear(queue);
	claims_done(&queue->claims);
	queue->room_timer = loop_timer_free(queue->room_timer);
	queue->storage_timer = loop_timer_free(queue->storage_timer);
	queue->backoff_timer = loop_timer_free(queue->backoff_timer);

	queue_begin_done(queue);
	queue->keep_timer = loop_timer_free(queue->keep_timer);
	queue->pass_timer = loop_timer_free(queue->pass_timer);
	queue->trial_timer = loop_timer_free(queue->trial_timer);
	loop_cancel(queue->options.loop, &queue->pass_task);
	loop_cancel(queue->options.loop, &queue->changed_task);
	queue->own_account = account_free(queue->own_account);
	queue->own_ledger = ledger_free(queue->own_ledger);
	if (queue->keeper) {
		queue_history_done(&queue->keeper->history);
		free(queue->keeper->ids);
		cleanup_close_fn(&queue->keeper->trash_fd);
	}

	queue_trash_done(queue);
	free(queue->keeper);
	queue->store = store_close(queue->store);
	gpunodes_cache_done(&queue->nodes);
	devguard_cache_done(&queue->rules_made);
	token_place_close(&queue->place);

	if (queue->state_fd >= 0)
		(void)close(queue->state_fd);
	if (queue->lock_fd >= 0)
		(void)close(queue->lock_fd);
	free(queue->state_dir);
	free(queue->runtime_dir);
	free(queue->sim_state);
	queue->spawner = spawner_free(queue->spawner);
	free(queue->supervisor);
	free(queue->cgroup_root);
	free(queue->container);
	free(queue->rsh);
	free(queue->device_root);
	free(queue);
}

static void keep_refuse_callers(struct queue *queue)
{
	struct err err;
	int rc = err_set(&err, -ESHUTDOWN, "the agent is ending");
	for (size_t i = 0; i < queue->count; i++) {
		struct queue_job *job = queue->jobs[i];
		if (job->run)
			queue_cancel_answer(job->run, rc, job->job.state, false, &err);
	}
}

struct queue *queue_close(struct queue *queue)
{
	if (!queue)
		return NULL;

	queue->closing = true;
	while (queue->ops > 0 || queue->waiting) {
		if (loop_pass(queue->options.loop, KEEP_CLOSE_MS * CLOCK_NS_PER_MS, NULL) < 0)
			break;
	}

	if (queue->accept)
		queue_submit_clear(queue);
	keep_refuse_callers(queue);
	queue_change_clear(queue);
	keep_free(queue);

	return NULL;
}
