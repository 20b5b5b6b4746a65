/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "bench/collectives/cpus.h"
#include "bench/collectives/world_internal.h"

/* A rank while it works. */
struct world_rank {
	const struct world_job *job;
	struct world_place *place;
	struct world_board *board; /* NULL: an mpirun started us */
	int pipe;		   /* to the parent; -1 */
	uint64_t started_ns;
	/* Between this thread and the one that watches: */
	pthread_mutex_t lock;
	pthread_cond_t ended;	 /* or another stage is reached; by CLOCK_MONOTONIC */
	struct backend *backend; /* NULL: not yet, or not any more */
	bool is_done;
	bool is_expired;
};

/* UINT64_MAX where `timeout_ns` is 0. */
static uint64_t world_deadline_ns(uint64_t from_ns, uint64_t timeout_ns)
{
	return timeout_ns ? clock_after_ns(from_ns, timeout_ns) : UINT64_MAX;
}

uint64_t world_place_deadline_ns(const struct world_job *job, const struct world_place *place,
				 uint64_t started_ns)
{
	if (atomic_load(&place->stage) == WORLD_STARTING)
		return world_deadline_ns(started_ns, job->start_timeout_ns);
	return world_deadline_ns(atomic_load(&place->row_since_ns), job->timeout_ns);
}

void world_place_init(struct world_place *place, uint32_t rank)
{
	place->member.rank = rank;
	place->member.cpu = -1;
}

void world_place_print(const struct world_place *place, char out[WORLD_PLACE_MAX])
{
	const struct measure_progress *progress = &place->progress;
	char before[WORLD_PLACE_MAX / 2] = "";

	if (atomic_load(&place->rows_done) > 0)
		(void)snprintf(
		    before, sizeof(before), "; before it %s of %llu bytes",
		    collective_op_to_string((enum collective_op)atomic_load(&place->done_op)),
		    (unsigned long long)atomic_load(&place->done_size));

	enum world_stage stage = (enum world_stage)atomic_load(&place->stage);
	if (stage == WORLD_STARTING) {
		(void)snprintf(out, WORLD_PLACE_MAX, "start-up");
		return;
	}

	if (stage == WORLD_ENDING) {
		(void)snprintf(out, WORLD_PLACE_MAX, "the end%s", before);
		return;
	}

	uint32_t op = __atomic_load_n(&progress->op, __ATOMIC_RELAXED);
	uint32_t phase = __atomic_load_n(&progress->phase, __ATOMIC_RELAXED);
	uint64_t size = __atomic_load_n(&progress->size, __ATOMIC_RELAXED);
	uint64_t operation = __atomic_load_n(&progress->operation, __ATOMIC_RELAXED);

	(void)snprintf(out, WORLD_PLACE_MAX, "%s of %llu bytes, %s, %llu operation%s done%s",
		       collective_op_to_string((enum collective_op)op), (unsigned long long)size,
		       measure_phase_to_string((enum measure_phase)phase),
		       (unsigned long long)operation, operation == 1 ? "" : "s", before);
}

void world_stop(struct world_board *board)
{
	atomic_store(&board->stop, 1);
	(void)syscall(SYS_futex, &board->stop, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t world_seat_rank(const struct world_seat *seat)
{
	return seat->rank;
}

uint32_t world_seat_ranks(const struct world_seat *seat)
{
	return seat->ranks;
}

/* Until `counter` is `wanted`; start-up only, so that asking every millisecond is quick enough. */
static int wait_for(struct world_seat *seat, _Atomic uint32_t *counter, uint32_t wanted,
		    struct err *err)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	while (atomic_load(counter) < wanted) {
		if (atomic_load(&seat->board->stop))
			return err_set(err, -ECANCELED, "rank %u: the run ends", seat->rank);
		if (clock_real_ns() >= seat->deadline_ns)
			return err_set(err, -ETIMEDOUT, "rank %u: the other ranks do not come",
				       seat->rank);

		(void)nanosleep(&pause, NULL);
	}

	return 0;
}

int world_seat_meet(struct world_seat *seat, void *bytes, size_t size, struct err *err)
{
	struct world_board *board = seat->board;
	if (!board)
		return err_set(err, -EOPNOTSUPP, "ranks of an mpirun meet by its library");
	if (size > WORLD_MEET_MAX)
		return err_set(err, -E2BIG, "%zu bytes are more than ranks can meet by", size);

	uint32_t number = ++seat->meetings;

	if (seat->rank == 0) {
		/* all others have taken what was there before */
		int rc =
		    wait_for(seat, &board->meetings_left, (number - 1) * (seat->ranks - 1), err);
		if (rc < 0)
			return rc;

		memcpy(board->meeting, bytes, size);
		atomic_store(&board->meetings_open, number);
		return 0;
	}

	int rc = wait_for(seat, &board->meetings_open, number, err);
	if (rc < 0)
		return rc;

	memcpy(bytes, board->meeting, size);
	atomic_fetch_add(&board->meetings_left, 1);
	return 0;
}

static void note_row(struct world_rank *rank, const struct measure_plan *plan)
{
	atomic_store(&rank->place->done_op, (uint32_t)plan->op);
	atomic_store(&rank->place->done_size, plan->shape.bytes);
	atomic_fetch_add(&rank->place->rows_done, 1);
}

static int write_all(int fd, const void *data, size_t bytes, struct err *err)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t written = write(fd, at, bytes);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return err_set(err, -errno, "telling the parent of a row: %s",
				       err_describe(-errno));

		at += written;
		bytes -= (size_t)written;
	}

	return 0;
}

static int send_row(struct world_rank *rank, uint64_t index, struct measure_row *row,
		    struct err *err)
{
	struct world_message message;
	memset(&message, 0, sizeof(message)); /* with its gaps: it is sent */
	message.kind = row ? WORLD_MESSAGE_ROW : WORLD_MESSAGE_READY;
	message.index = index;

	if (row)
		message.row = *row;

	int rc = write_all(rank->pipe, &message, sizeof(message), err);
	const struct measure_side *sides[] = {row ? &row->out_of_place : NULL,
					      row ? &row->in_place : NULL};
	for (int i = 0; i < 2 && rc >= 0 && row; i++)
		rc = write_all(rank->pipe, sides[i]->samples,
			       sides[i]->sample_count * sizeof(double), err);

	return rc;
}

static int hand_row_out(struct world_rank *rank, uint64_t index, struct measure_row *row,
			struct err *err)
{
	if (rank->board)
		return rank->pipe >= 0 ? send_row(rank, index, row, err) : 0;
	if (rank->backend->rank == 0 && rank->job->row)
		return rank->job->row(rank->job->context, index, row, err);
	return 0;
}

static int run_rows(struct world_rank *rank, struct err *err)
{
	const struct world_job *job = rank->job;

	for (uint64_t index = 0;; index++) {
		struct measure_plan plan = {0};
		struct measure_row row;
		int rc = job->plan(job->context, index, &plan, err);
		if (rc <= 0)
			return rc;

		atomic_store(&rank->place->row_since_ns, clock_real_ns());
		rc = measure_run(rank->backend, &plan, &rank->place->progress, &row, err);
		if (rc < 0)
			return rc;

		note_row(rank, &plan);
		rc = hand_row_out(rank, index, &row, err);
		measure_row_done(&row);

		if (rc < 0)
			return rc;
	}
}

/* Tells everybody who there is. */
static int introduce(struct world_rank *rank, struct err *err)
{
	struct backend *backend = rank->backend;
	struct world_member *mine = &rank->place->member;

	mine->rank = backend->rank;
	mine->pid = getpid();
	mine->cpu = cpus_pinned();
	if (gethostname(mine->host, sizeof(mine->host) - 1) < 0)
		(void)snprintf(mine->host, sizeof(mine->host), "localhost");

	const char *description = backend->description;

	if (rank->board) {
		if (rank->pipe >= 0)
			(void)snprintf(rank->board->description, sizeof(rank->board->description),
				       "%s", description ? description : "");
		int rc = backend->ops->barrier(backend, err);
		return rc >= 0 && rank->pipe >= 0 ? send_row(rank, 0, NULL, err) : rc;
	}

	_cleanup_free_ struct world_member *all = calloc(backend->ranks, sizeof(*all));
	if (!all)
		return err_set(err, -ENOMEM, "no memory for %u ranks", backend->ranks);

	int rc = backend->ops->share(backend, mine, all, sizeof(*mine), err);
	if (rc >= 0 && backend->rank == 0 && rank->job->ready)
		rank->job->ready(rank->job->context, description ? description : "", all,
				 backend->ranks);

	return rc;
}

static void set_backend(struct world_rank *rank, struct backend *backend)
{
	(void)pthread_mutex_lock(&rank->lock);
	rank->backend = backend;
	(void)pthread_mutex_unlock(&rank->lock);
}

/* Another deadline counts from here on. */
static void enter(struct world_rank *rank, enum world_stage stage)
{
	(void)pthread_mutex_lock(&rank->lock);
	atomic_store(&rank->place->row_since_ns, clock_real_ns());
	atomic_store(&rank->place->stage, stage);
	(void)pthread_cond_signal(&rank->ended);
	(void)pthread_mutex_unlock(&rank->lock);
}

static int work(struct world_rank *rank, struct world_seat *seat, struct err *err)
{
	const struct world_job *job = rank->job;
	struct backend *backend = NULL;
	int rc = job->start(job->context, seat, &backend, err);
	if (rc < 0)
		return rc;

	set_backend(rank, backend);
	rc = introduce(rank, err);
	if (rc >= 0) {
		enter(rank, WORLD_WORKING);
		rc = run_rows(rank, err);
	}

	if (rc < 0)
		return rc; /* the caller says it before it ends the others */

	enter(rank, WORLD_ENDING);
	return 0;
}

static void leave(struct world_rank *rank)
{
	struct backend *backend = rank->backend;
	set_backend(rank, NULL); /* nobody aborts it while it is freed */
	if (backend)
		(void)backend->ops->free_backend(backend);
}

static void abort_backend(struct world_rank *rank)
{
	(void)pthread_mutex_lock(&rank->lock);
	if (rank->backend)
		rank->backend->ops->abort(rank->backend);
	(void)pthread_mutex_unlock(&rank->lock);
}

/* In ranks that were forked: ends the calls of this rank once the parent says so. */
static void *watch_board(void *argument)
{
	struct world_rank *rank = argument;
	while (atomic_load(&rank->board->stop) == 0)
		(void)syscall(SYS_futex, &rank->board->stop, FUTEX_WAIT, 0, NULL, NULL, 0);
	abort_backend(rank);
	return NULL;
}

int world_rank_forked(const struct world_job *job, struct world_board *board, uint32_t rank,
		      int32_t cpu, int pipe)
{
	struct world_place *place = &board->places[rank];
	struct world_rank self = {.job = job,
				  .place = place,
				  .board = board,
				  .pipe = pipe,
				  .started_ns = clock_real_ns(),
				  .lock = PTHREAD_MUTEX_INITIALIZER};
	struct world_seat seat = {.job = job,
				  .board = board,
				  .rank = rank,
				  .ranks = job->ranks,
				  .deadline_ns =
				      world_deadline_ns(self.started_ns, job->start_timeout_ns)};
	struct err err = {0};
	pthread_t watcher;

	if (cpu >= 0)
		(void)cpus_pin(cpu); /* slower without it, and the table shows it */

	int rc = -pthread_create(&watcher, NULL, watch_board, &self);
	if (rc < 0)
		err_set(&err, rc, "rank %u: starting a thread: %s", rank, err_describe(rc));
	else
		rc = -pthread_detach(watcher); /* it lives as long as this process */

	if (rc == 0)
		rc = work(&self, &seat, &err);

	if (rc < 0) {
		place->error_code = err.code ? err.code : rc;
		memcpy(place->error_text, err.text, sizeof(place->error_text));
		atomic_store(&place->error_order, atomic_fetch_add(&board->errors, 1) + 1);
		abort_backend(&self);
	}

	leave(&self);
	return rc < 0 ? 1 : 0;
}

/* Of ranks that an mpirun started. */
static void say_place(struct world_rank *rank, const char *why)
{
	char place[WORLD_PLACE_MAX], text[WORLD_PLACE_MAX + ERR_TEXT_MAX];
	world_place_print(rank->place, place);
	(void)snprintf(text, sizeof(text), "%s: %s", place, why);
	if (rank->job->place)
		rank->job->place(rank->job->context, rank->place->member.rank, text);
}

/* Until somebody signals, or then. */
static void wait_once(struct world_rank *rank, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
				 .tv_nsec = (long)(until_ns % CLOCK_NS_PER_S)};
	if (until_ns == UINT64_MAX)
		(void)pthread_cond_wait(&rank->ended, &rank->lock);
	else
		(void)pthread_cond_timedwait(&rank->ended, &rank->lock, &until);
}

/* `ms` longer, unless it comes to its end meanwhile. */
static void wait_on(struct world_rank *rank, uint64_t ms)
{
	uint64_t until = clock_real_ns() + ms * CLOCK_NS_PER_MS;
	while (!rank->is_done && clock_real_ns() < until)
		wait_once(rank, until);
}

/* Ends this rank, and by that all of them, when it stays too long where it is. */
static void *watch_clock(void *argument)
{
	struct world_rank *rank = argument;
	(void)pthread_mutex_lock(&rank->lock);

	for (;;) {
		uint64_t until = world_place_deadline_ns(rank->job, rank->place, rank->started_ns);
		if (rank->is_done || clock_real_ns() >= until)
			break;
		wait_once(rank, until);
	}

	if (!rank->is_done) {
		char why[64];
		bool starts = atomic_load(&rank->place->stage) == WORLD_STARTING;
		uint64_t limit = starts ? rank->job->start_timeout_ns : rank->job->timeout_ns;

		(void)snprintf(why, sizeof(why), "no end after %.3g s", (double)limit / 1e9);
		rank->is_expired = true;
		say_place(rank, why);
		wait_on(rank, WORLD_LAST_WORDS_MS);

		if (rank->backend)
			rank->backend->ops->abort(rank->backend);
		wait_on(rank, WORLD_END_MS);
		if (!rank->is_done)
			_exit(2); /* it is in the library, which does not come back */
	}

	(void)pthread_mutex_unlock(&rank->lock);
	return NULL;
}

/* The clock's thread goes before the backend does. */
static void end_watch(struct world_rank *rank, pthread_t watcher)
{
	(void)pthread_mutex_lock(&rank->lock);
	rank->is_done = true;
	(void)pthread_cond_signal(&rank->ended);
	(void)pthread_mutex_unlock(&rank->lock);
	(void)pthread_join(watcher, NULL);
}

int world_run_rank(const struct world_job *job, struct err *err)
{
	_cleanup_free_ struct world_place *place =
	    aligned_alloc(_Alignof(struct world_place), sizeof(*place));
	if (!place)
		return err_set(err, -ENOMEM, "no memory for a rank");

	memset(place, 0, sizeof(*place));
	world_place_init(place, 0);

	struct world_rank self = {.job = job,
				  .place = place,
				  .pipe = -1,
				  .started_ns = clock_real_ns(),
				  .lock = PTHREAD_MUTEX_INITIALIZER};
	struct world_seat seat = {.job = job, .deadline_ns = UINT64_MAX};
	struct err own = {0};
	pthread_condattr_t monotonic;
	pthread_t watcher;

	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&self.ended, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);

	int rc = -pthread_create(&watcher, NULL, watch_clock, &self);
	if (rc < 0)
		return err_set(err, rc, "starting a thread: %s", err_describe(rc));

	rc = work(&self, &seat, &own);
	if (rc < 0 && self.backend) {
		(void)pthread_mutex_lock(&self.lock);
		if (!self.is_expired) /* or it is said already */
			say_place(&self, own.text);
		self.backend->ops->abort(self.backend);
		(void)pthread_mutex_unlock(&self.lock);
	}

	leave(&self); /* within the deadline: some libraries wait for the others here */
	end_watch(&self, watcher);
	(void)pthread_cond_destroy(&self.ended);

	if (self.is_expired)
		return err_set(err, -ETIMEDOUT, "rank %u: a deadline passed", place->member.rank);

	return rc < 0 ? err_set(err, own.code ? own.code : rc, "%s", own.text) : 0;
}
