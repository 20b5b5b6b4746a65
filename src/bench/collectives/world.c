/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "bench/collectives/cpus.h"
#include "bench/collectives/world_internal.h"

enum {
	BLIND_MS = 20,	      /* how often ranks are asked for where there are no pidfds */
	READ_BYTES = 1 << 16, /* from the pipe at once */
	FDS_RANKS = 2,	      /* before them: the pipe and the signals */
};

/* The parent's view of one rank. */
struct world_child {
	pid_t pid; /* 0: it is gone, or was never there */
	int pidfd; /* -1 */
	int status;
	bool has_ended;
	bool is_killed_by_us;
};

struct parent {
	const struct world_job *job;
	struct world_board *board;
	size_t board_bytes;
	struct world_child children[WORLD_RANKS_MAX];
	uint32_t running;
	int pipe;     /* reads; -1: it is at its end */
	int signals;  /* a signalfd */
	pid_t self;   /* before any fork */
	sigset_t old; /* what was blocked before */
	uint64_t started_ns;
	uint64_t kill_ns;  /* 0: nobody ends the run */
	struct buf input;  /* of the pipe */
	int rc;		   /* what ends the run: here, not in a rank */
	struct err reason; /* of it */
};

static size_t message_max(uint32_t ranks)
{
	return sizeof(struct world_message) + 2 * MEASURE_SAMPLES_MAX * sizeof(double);
}

/* Everybody ends; the first reason stays. */
static void end_run(struct parent *parent)
{
	if (parent->kill_ns)
		return;
	parent->kill_ns = clock_real_ns() + WORLD_END_MS * CLOCK_NS_PER_MS;
	world_stop(parent->board);
}

static int board_new(uint32_t ranks, struct world_board **out, size_t *out_bytes, struct err *err)
{
	size_t bytes = sizeof(struct world_board) + ranks * sizeof(struct world_place);
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return err_set(err, -errno, "mapping %zu bytes for %u ranks: %s", bytes, ranks,
			       err_describe(-errno));

	*out = map;
	*out_bytes = bytes;

	for (uint32_t r = 0; r < ranks; r++)
		world_place_init(&(*out)->places[r], r);

	return 0;
}

/* In the process that becomes a rank. It does not come back. */
static void be_rank(struct parent *parent, uint32_t rank, int32_t cpu, int pipe)
{
	/* Before anything else: without its parent nobody watches it. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent->self)
		_exit(1);
	/* Whoever presses Ctrl-C means the parent, which ends us in good order. */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGTERM, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &parent->old, NULL);
	(void)close(parent->pipe);
	(void)close(parent->signals);

	for (uint32_t r = 0; r < rank; r++)
		if (parent->children[r].pidfd >= 0)
			(void)close(parent->children[r].pidfd);

	if (rank != 0) {
		(void)close(pipe);
		pipe = -1;
	}

	_exit(world_rank_forked(parent->job, parent->board, rank, cpu, pipe));
}

static int fork_ranks(struct parent *parent, int pipe, struct err *err)
{
	uint32_t ranks = parent->job->ranks;
	int32_t cpus[WORLD_RANKS_MAX];
	bool is_pinned = parent->job->pins && cpus_choose(ranks, cpus) == 0;

	for (uint32_t r = 0; r < ranks; r++) {
		pid_t pid = fork();
		if (pid < 0)
			return err_set(err, -errno, "starting rank %u: %s", r,
				       err_describe(-errno));
		if (pid == 0)
			be_rank(parent, r, is_pinned ? cpus[r] : -1, pipe);
		parent->children[r] =
		    (struct world_child){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
		parent->running++;
	}

	return 0;
}

/* Collects what ended. */
static void reap(struct parent *parent)
{
	for (uint32_t r = 0; r < parent->job->ranks; r++) {
		struct world_child *child = &parent->children[r];
		if (child->pid <= 0)
			continue;

		int status = 0;
		pid_t pid = waitpid(child->pid, &status, WNOHANG);
		if (pid == 0 || (pid < 0 && errno == EINTR))
			continue;

		child->status = status;
		child->has_ended = true;
		child->pid = 0;
		if (child->pidfd >= 0)
			(void)close(child->pidfd);
		child->pidfd = -1;
		parent->running--;

		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			end_run(parent);
	}
}

static void kill_rest(struct parent *parent)
{
	for (uint32_t r = 0; r < parent->job->ranks; r++) {
		struct world_child *child = &parent->children[r];
		if (child->pid > 0 && !child->is_killed_by_us) {
			child->is_killed_by_us = true;
			(void)kill(child->pid, SIGKILL); /* also what is stopped */
		}
	}
}

/* Whether the kernel says that a signal has stopped it. */
static bool is_stopped(pid_t pid)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, 4096);
	if (file_path(path, NULL, "/proc/%d/stat", (int)pid) < 0 ||
	    file_read(path, &text, NULL) < 0)
		return false;

	const char *name_end = strrchr(buf_text(&text), ')');
	return name_end && name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't');
}

/* How far a rank is, for comparison with another. */
static bool is_behind(const struct world_place *place, const struct world_place *other)
{
	uint32_t stage = atomic_load(&place->stage), other_stage = atomic_load(&other->stage);
	uint64_t rows = atomic_load(&place->rows_done), other_rows = atomic_load(&other->rows_done);

	if (stage != other_stage)
		return stage < other_stage;
	if (rows != other_rows)
		return rows < other_rows;

	return __atomic_load_n(&place->progress.total, __ATOMIC_RELAXED) <
	       __atomic_load_n(&other->progress.total, __ATOMIC_RELAXED);
}

/* Of those that are still there, the one that the others wait for, as far as one can see. */
static uint32_t slowest(const struct parent *parent, bool *out_is_stopped)
{
	uint32_t found = UINT32_MAX;

	*out_is_stopped = false;
	for (uint32_t r = 0; r < parent->job->ranks; r++) {
		if (parent->children[r].pid <= 0)
			continue;
		if (is_stopped(parent->children[r].pid)) {
			*out_is_stopped = true;
			return r;
		}

		if (found == UINT32_MAX ||
		    is_behind(&parent->board->places[r], &parent->board->places[found]))
			found = r;
	}

	return found;
}

static void note_reason(struct parent *parent, int rc, const char *text)
{
	if (parent->rc < 0 || parent->kill_ns)
		return;
	parent->rc = err_set(&parent->reason, rc, "%s", text);
	end_run(parent);
}

static void expire(struct parent *parent)
{
	bool is_halted = false;
	uint32_t rank = slowest(parent, &is_halted);
	if (rank == UINT32_MAX)
		return;

	const struct world_place *place = &parent->board->places[rank];
	bool starts = atomic_load(&place->stage) == WORLD_STARTING;
	uint64_t limit = starts ? parent->job->start_timeout_ns : parent->job->timeout_ns;
	char where[WORLD_PLACE_MAX], text[WORLD_PLACE_MAX + 128];

	world_place_print(place, where);
	(void)snprintf(
	    text, sizeof(text), "no end after %.3g s: rank %u %s: %s", (double)limit / 1e9, rank,
	    is_halted ? "is stopped by a signal" : "is not further than the others", where);
	note_reason(parent, -ETIMEDOUT, text);
}

/* When somebody must have gone on; UINT64_MAX: never. */
static uint64_t next_deadline(const struct parent *parent)
{
	uint64_t next = UINT64_MAX;

	if (parent->kill_ns)
		return parent->kill_ns;

	for (uint32_t r = 0; r < parent->job->ranks; r++) {
		const struct world_place *place = &parent->board->places[r];
		if (parent->children[r].pid <= 0)
			continue;
		uint64_t deadline = world_place_deadline_ns(parent->job, place, parent->started_ns);
		next = deadline < next ? deadline : next;
	}

	return next;
}

static int take_samples(struct measure_side *side, const char **at, struct err *err)
{
	size_t bytes = side->sample_count * sizeof(double);

	side->samples = NULL;
	if (bytes == 0)
		return 0;

	side->samples = malloc(bytes);
	if (!side->samples)
		return err_set(err, -ENOMEM, "no memory for %zu times", side->sample_count);

	memcpy(side->samples, *at, bytes);
	*at += bytes;
	return 0;
}

static int take_row(struct parent *parent, const struct world_message *message, const char *samples,
		    struct err *err)
{
	const struct world_job *job = parent->job;
	struct measure_row row = message->row;

	row.out_of_place.samples = row.in_place.samples = NULL;
	int rc = take_samples(&row.out_of_place, &samples, err);
	if (rc >= 0)
		rc = take_samples(&row.in_place, &samples, err);
	if (rc >= 0 && job->row)
		rc = job->row(job->context, message->index, &row, err);
	measure_row_done(&row);

	return rc;
}

static void take_ready(struct parent *parent)
{
	const struct world_job *job = parent->job;
	struct world_member members[WORLD_RANKS_MAX];
	for (uint32_t r = 0; r < job->ranks; r++)
		members[r] = parent->board->places[r].member;
	if (job->ready)
		job->ready(job->context, parent->board->description, members, job->ranks);
}

/* What has come through the pipe and is whole. */
static int take_messages(struct parent *parent, struct err *err)
{
	for (;;) {
		struct world_message message;
		if (parent->input.length < sizeof(message))
			return 0;

		memcpy(&message, parent->input.data, sizeof(message));
		size_t first = message.row.out_of_place.sample_count;
		size_t second = message.row.in_place.sample_count;

		if (first > MEASURE_SAMPLES_MAX || second > MEASURE_SAMPLES_MAX)
			return err_set(err, -EBADMSG, "rank 0 sent what is no row");

		size_t bytes = sizeof(message) + (first + second) * sizeof(double);
		if (parent->input.length < bytes)
			return 0;

		int rc = 0;

		if (message.kind == WORLD_MESSAGE_READY)
			take_ready(parent);
		else
			rc = take_row(parent, &message, parent->input.data + sizeof(message), err);

		if (rc < 0)
			return rc;

		buf_consume(&parent->input, bytes);
	}
}

/* Whether there may be more. */
static bool read_pipe(struct parent *parent)
{
	struct err err = {0};
	int rc = buf_reserve(&parent->input, READ_BYTES);
	if (rc < 0) {
		note_reason(parent, rc, "no memory for the rows that rank 0 sends");
		return false;
	}

	ssize_t got = read(parent->pipe, parent->input.data + parent->input.length, READ_BYTES);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;

	if (got <= 0) {
		(void)close(parent->pipe);
		parent->pipe = -1;
		return false;
	}

	parent->input.length += (size_t)got;
	if (parent->rc == 0)
		rc = take_messages(parent, &err);
	if (rc < 0)
		note_reason(parent, rc, err.text);

	return true;
}

static void read_signal(struct parent *parent)
{
	struct signalfd_siginfo info;
	if (read(parent->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	char text[64];
	(void)snprintf(text, sizeof(text), "ended by signal %u (%s)", info.ssi_signo,
		       strsignal((int)info.ssi_signo));
	note_reason(parent, -ECANCELED, text);
}

static int milliseconds_until(uint64_t when_ns, bool is_blind)
{
	uint64_t now = clock_real_ns(), ms = INT_MAX;
	if (when_ns != UINT64_MAX)
		ms = when_ns <= now ? 0 : (when_ns - now) / CLOCK_NS_PER_MS + 1;
	if (is_blind && ms > BLIND_MS)
		ms = BLIND_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* Sleeps until something happens, so that the ranks have the processors for themselves. */
static void wait_and_act(struct parent *parent)
{
	struct pollfd fds[WORLD_RANKS_MAX + FDS_RANKS] = {
	    {.fd = parent->pipe, .events = POLLIN}, {.fd = parent->signals, .events = POLLIN}};
	uint32_t ranks = parent->job->ranks;
	bool is_blind = false;

	for (uint32_t r = 0; r < ranks; r++) {
		const struct world_child *child = &parent->children[r];
		fds[FDS_RANKS + r] =
		    (struct pollfd){.fd = child->pid > 0 ? child->pidfd : -1, .events = POLLIN};
		is_blind = is_blind || (child->pid > 0 && child->pidfd < 0);
	}

	int found =
	    poll(fds, ranks + FDS_RANKS, milliseconds_until(next_deadline(parent), is_blind));
	if (found > 0 && fds[1].revents) /* before those whom the same signal may have ended */
		read_signal(parent);
	if (found > 0 && fds[0].revents)
		(void)read_pipe(parent); /* the rest in the next round */
	reap(parent);

	if (parent->running == 0 || clock_real_ns() < next_deadline(parent))
		return;
	if (parent->kill_ns)
		kill_rest(parent);
	else
		expire(parent);
}

/* After the first rank has gone: kill_ns may lie behind us while the kernel ends them. */
static void watch(struct parent *parent)
{
	while (parent->running > 0) {
		wait_and_act(parent);
		if (parent->kill_ns && parent->running > 0 && clock_real_ns() >= parent->kill_ns)
			parent->kill_ns = clock_real_ns() + BLIND_MS * CLOCK_NS_PER_MS;
	}

	while (parent->pipe >= 0 && read_pipe(parent)) {
		/* nobody is left who could write; what is there is taken */
	}
}

/* A rank that ended without a word: by a signal that was not ours, or by an exit() of somebody. */
static bool has_died(const struct parent *parent, uint32_t r)
{
	const struct world_child *child = &parent->children[r];
	bool is_well = WIFEXITED(child->status) && WEXITSTATUS(child->status) == 0;
	return child->has_ended && !child->is_killed_by_us && !is_well &&
	       atomic_load(&parent->board->places[r].error_order) == 0;
}

static int died(const struct parent *parent, uint32_t r, struct err *err)
{
	const struct world_child *child = &parent->children[r];
	char where[WORLD_PLACE_MAX];

	world_place_print(&parent->board->places[r], where);
	if (WIFSIGNALED(child->status))
		return err_set(err, -EPIPE, "rank %u was killed by signal %d (%s) in %s", r,
			       WTERMSIG(child->status), strsignal(WTERMSIG(child->status)), where);

	return err_set(err, -EPIPE, "rank %u ended with exit code %d in %s", r,
		       WEXITSTATUS(child->status), where);
}

/* The first error that is not only about another rank that is gone; else the first. */
static int ranks_error(const struct parent *parent, struct err *err)
{
	const struct world_place *found = NULL;
	bool found_is_echo = true;

	for (uint32_t r = 0; r < parent->job->ranks; r++) {
		const struct world_place *place = &parent->board->places[r];
		uint32_t order = atomic_load(&place->error_order);
		if (order == 0)
			continue;

		bool is_echo = place->error_code == -EPIPE || place->error_code == -ECANCELED;
		if (!found || (found_is_echo && !is_echo) ||
		    (found_is_echo == is_echo && order < atomic_load(&found->error_order))) {
			found = place;
			found_is_echo = is_echo;
		}
	}

	return found ? err_set(err, found->error_code, "%s", found->error_text) : 0;
}

static int conclude(const struct parent *parent, struct err *err)
{
	int rc = 0;
	if (parent->rc < 0) {
		*err = parent->reason;
		rc = parent->rc;
	}

	for (uint32_t r = 0; r < parent->job->ranks && rc == 0; r++)
		if (has_died(parent, r))
			rc = died(parent, r, err);

	if (rc == 0)
		rc = ranks_error(parent, err);
	if (rc == 0 || rc == -ECANCELED)
		return rc;

	for (uint32_t r = 0; r < parent->job->ranks && parent->job->place; r++) {
		char where[WORLD_PLACE_MAX];
		world_place_print(&parent->board->places[r], where);
		parent->job->place(parent->job->context, r, where);
	}

	return rc;
}

static int begin(struct parent *parent, struct err *err)
{
	sigset_t set;
	int ends[2] = {-1, -1};
	int rc = board_new(parent->job->ranks, &parent->board, &parent->board_bytes, err);
	if (rc < 0)
		return rc;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);

	if (sigprocmask(SIG_BLOCK, &set, &parent->old) < 0)
		return err_set(err, -errno, "blocking signals: %s", err_describe(-errno));

	parent->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (parent->signals < 0 || pipe2(ends, O_CLOEXEC) < 0 ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
		rc = err_set(err, -errno, "a pipe for the ranks: %s", err_describe(-errno));

	parent->pipe = ends[0];
	if (rc >= 0)
		rc = fork_ranks(parent, ends[1], err);
	if (ends[1] >= 0)
		(void)close(ends[1]);

	return rc;
}

static void end(struct parent *parent)
{
	if (parent->pipe >= 0)
		(void)close(parent->pipe);
	if (parent->signals >= 0)
		(void)close(parent->signals);
	if (parent->board)
		(void)munmap(parent->board, parent->board_bytes);
	(void)sigprocmask(SIG_SETMASK, &parent->old, NULL);
	buf_done(&parent->input);
}

int world_run_forked(const struct world_job *job, struct err *err)
{
	if (job->ranks == 0 || job->ranks > WORLD_RANKS_MAX)
		return err_set(err, -EINVAL, "%u ranks: 1 to %d can be started here", job->ranks,
			       (int)WORLD_RANKS_MAX);

	struct err unwanted;
	struct parent parent = {
	    .job = job, .pipe = -1, .signals = -1, .self = getpid(), .started_ns = clock_real_ns()};
	for (uint32_t r = 0; r < WORLD_RANKS_MAX; r++)
		parent.children[r].pidfd = -1;

	(void)sigprocmask(SIG_SETMASK, NULL, &parent.old);
	buf_init(&parent.input, message_max(job->ranks) + READ_BYTES);

	int rc = begin(&parent, &parent.reason);
	if (rc < 0)
		parent.rc = rc;
	if (rc < 0 && parent.board) {
		world_stop(parent.board);
		parent.kill_ns = 1; /* they have not begun: at once */
	}

	watch(&parent);
	if (parent.board)
		rc = conclude(&parent, err ? err : &unwanted);
	else
		*(err ? err : &unwanted) = parent.reason;

	end(&parent);
	return rc;
}
