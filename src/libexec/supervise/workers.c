/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "job/jobenv.h"
#include "job/jobmemory.h"
#include "job/tree.h"
#include "job/workdir.h"
#include "libexec/supervise/command.h"
#include "libexec/supervise/environment.h"
#include "libexec/supervise/landlock.h"
#include "libexec/supervise/mpienv.h"
#include "libexec/supervise/nodes.h"
#include "libexec/supervise/order.h"
#include "libexec/supervise/output.h"
#include "libexec/supervise/port.h"
#include "libexec/supervise/prepare.h"
#include "libexec/supervise/rshserver.h"
#include "libexec/supervise/sandbox.h"

enum {
	WORKERS_PREFIX_MAX = 32,
	WORKERS_BELONGING_MAX = 4096, /* of /proc/PID/cgroup */
	WORKERS_ANCESTORS_MAX = 4096, /* of a process, that are looked at */
	WORKERS_SIGNAL_BASE = 128,
	WORKERS_EXIT_NOT_STARTED = 255, /* as of sluice-rsh */
};

#define WORKERS_START_NS UINT64_C(10000000000) /* for a command's exec */

static const struct clock workers_clock; /* the real one */

struct worker {
	struct cgroup cgroup; /* fd -1: none */
	char devices_v1[CGROUP_PATH_MAX];
	size_t first, count; /* of the launch's grants */
	const struct devguard_rule *denied;
	size_t denied_count;
};

/* A command that runs in a worker. */
struct workers_call {
	size_t call; /* of the server; of rank > 0 that of all */
	size_t worker;
	pid_t pid;	     /* 0: free */
	bool is_gone;	     /* nobody waits for it */
	uint64_t kill_at_ns; /* 0: not yet */
};

struct workers {
	struct workers_options options;
	struct mpienv mpi;
	char socket[PACKET_NAME_MAX + 1], directory[FILE_PATH_MAX], memory[JOBMEMORY_PATH_MAX];
	struct worker *list; /* owned */
	size_t count;
	struct worker launcher;
	struct workers_call *calls; /* owned, RSHSERVER_CALLS_MAX */
	char *ranks_argv[WORKERS_ARGV];
	struct order *orders; /* owned, ORDER_WORKERS_MAX: of ranks; NULL: none */
	struct rshserver *server;
	int timer_fd;
	struct job_watch *watch;
	char belonging[WORKERS_BELONGING_MAX]; /* the job's group as /proc shows it; "": none */
	size_t ranks_left;
	/* The first failure. */
	bool has_failed, has_ended;
	uint64_t end_at_ns;
	int exit_code;
	char why[JOBDIR_TEXT_MAX];
};

/* --- time ------------------------------------------------------------------------------------- */

static void workers_set_timer(const struct workers *self)
{
	uint64_t at_ns = self->has_failed && !self->has_ended ? self->end_at_ns : 0;
	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++) {
		uint64_t kill_ns = self->calls[i].pid > 0 ? self->calls[i].kill_at_ns : 0;
		if (kill_ns > 0 && (at_ns == 0 || kill_ns < at_ns))
			at_ns = kill_ns;
	}

	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / CLOCK_NS_PER_S),
					       .tv_nsec = (long)(at_ns % CLOCK_NS_PER_S)}};
	(void)timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &when, NULL); /* it is ours */
}

static void workers_on_timer(void *context, short revents)
{
	struct workers *self = context;
	uint64_t count, now_ns = clock_now_ns(&workers_clock);

	(void)!read(self->timer_fd, &count, sizeof(count)); /* else it says the same for ever */

	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++) {
		struct workers_call *call = &self->calls[i];
		if (call->pid > 0 && call->kill_at_ns > 0 && now_ns >= call->kill_at_ns) {
			call->kill_at_ns = 0;
			(void)kill(-call->pid, SIGKILL); /* not reaped: the number is its own */
		}
	}

	if (self->has_failed && !self->has_ended && now_ns >= self->end_at_ns) {
		self->has_ended = true;
		uint64_t grace_ns = self->options.launch->spec.grace_ns;
		job_watch_end(self->watch, grace_ns < WORKERS_KILL_NS ? grace_ns : WORKERS_KILL_NS);
	}

	workers_set_timer(self);
}

/* --- failures --------------------------------------------------------------------------------- */

/* The first one counts: what follows from it is no news. The launcher has a moment to see it and to
 * end as it likes. */
static void workers_fail(struct workers *self, const char *name, int exit_code, uint64_t delay_ns,
			 const char *why)
{
	if (self->has_failed)
		return;
	self->has_failed = true;
	self->exit_code = exit_code;
	self->end_at_ns = clock_now_ns(&workers_clock) + delay_ns;
	(void)snprintf(self->why, sizeof(self->why), "%.90s, %.150s", name, why); /* cut */
	workers_set_timer(self);
}

bool workers_result(const struct workers *self, const struct job_watch *watch,
		    struct jobdir_result *out)
{
	bool is_good = WIFEXITED(watch->status) && WEXITSTATUS(watch->status) == 0;
	if (!self->has_failed || (is_good && !self->has_ended))
		return false;

	out->end = JOBDIR_WORKER;
	/* What the launcher says itself of it, unless it was ended. */
	bool is_own = !self->has_ended && WIFEXITED(watch->status);
	out->exit_code = is_own ? WEXITSTATUS(watch->status) : self->exit_code;
	out->value = out->exit_code;
	(void)snprintf(out->text, sizeof(out->text), "%s", self->why); /* fits */

	return true;
}

/* --- commands --------------------------------------------------------------------------------- */

static bool workers_gives_up(void *context)
{
	const uint64_t *until_ns = context;
	return clock_now_ns(&workers_clock) >= *until_ns ||
	       jobdir_is_cancelled(LAUNCH_FD_DIRECTORY);
}

/* As the launcher has them, but its own. */
static struct nodes_wish workers_nodes(const struct workers *self, const struct worker *worker)
{
	const struct launch *launch = self->options.launch;
	if (!launch->own_nodes[0])
		return (struct nodes_wish){.root = NULL};

	return (struct nodes_wish){
	    .root = launch->own_nodes,
	    .memory_fd = self->options.memories ? nodes_memories_add(self->options.memories) : -1,
	    .place = launch->runtime_dir,
	    .denied = worker->denied,
	    .denied_count = worker->denied_count,
	    .uid = launch->spec.uid,
	    .gid = launch->spec.gid,
	    .mode = 0600};
}

/* Runs it in a worker. `environment` is given back here. */
static int workers_start(struct workers *self, size_t index, char *const *argv, const int *fds,
			 char **environment, struct workers_call *out, struct err *err)
{
	const struct worker *worker = &self->list[index];
	struct command_outcome outcome = {.pid = -1};
	uint64_t until_ns = clock_now_ns(&workers_clock) + WORKERS_START_NS;
	const struct launch *launch = self->options.launch;
	const struct nodes_wish nodes = workers_nodes(self, worker);
	struct job_command command = {.spec = &self->options.launch->spec,
				      .argv = argv,
				      .nodes = nodes.root ? &nodes : NULL,
				      .in_fd = fds[0],
				      .out_fd = fds[1],
				      .err_fd = fds[2],
				      .environment = environment,
				      .tokens = self->options.tokens,
				      .token_count = self->options.token_count,
				      .cgroup = worker->cgroup.fd >= 0 ? &worker->cgroup : NULL,
				      .devices_v1 = worker->devices_v1,
				      .limit = self->options.limit,
				      .init = self->options.init,
				      .give_up = workers_gives_up,
				      .context = &until_ns};
	const struct sandbox *sandbox = self->options.sandbox;
	const struct landlock_plan landlock = {.denied = worker->denied,
					       .count = worker->denied_count,
					       .device_root = launch->device_root};

	if (sandbox) { /* a worker is kept to the job's devices as the launcher is */
		if (sandbox->has_rules && !command.cgroup && self->options.cgroup->fd >= 0)
			command.cgroup = self->options.cgroup;
		if (!*worker->devices_v1)
			command.devices_v1 = sandbox->devices_v1;
		command.needs_cgroup = sandbox->has_rules;
		command.landlock = sandbox->has_landlock ? &landlock : NULL;
		command.no_new_privs = sandbox->has_no_new_privs;
	}

	int rc = command_start(&command, &outcome, err);

	(void)jobenv_free(environment);
	crash_point("supervisor.worker_started");
	if (rc == 0 && outcome.given_up)
		rc = err_set(err, -ETIMEDOUT, "'%s' was not executed in time", argv[0]);
	if (rc == 0)
		*out = (struct workers_call){.worker = index, .pid = outcome.pid};

	return rc;
}

static struct workers_call *workers_free_call(struct workers *self)
{
	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++)
		if (self->calls[i].pid == 0)
			return &self->calls[i];
	return NULL;
}

static void workers_refuse(struct workers *self, size_t call, const char *name, const char *why)
{
	char text[PACKET_REASON_MAX];
	(void)snprintf(text, sizeof(text), "%.400s", why); /* cut */
	struct packet answer = {.kind = PACKET_REFUSED, .text = text};
	workers_fail(self, name, WORKERS_EXIT_NOT_STARTED, WORKERS_NAME_NS, why);
	rshserver_answer(self->server, call, &answer); /* and the request's bytes are gone */
}

static void workers_run(struct workers *self, size_t call, const struct packet *packet,
			const int *fds)
{
	struct err err = {0};
	char name[MPIENV_HOST_MAX], last[MPIENV_HOST_MAX], **environment = NULL;
	int index = mpienv_find(&self->mpi, packet->host);
	if (index < 0) {
		mpienv_host(&self->mpi, 0, name);
		mpienv_host(&self->mpi, (uint32_t)self->count - 1, last);
		(void)err_set(&err, index, "no such worker: this job has %s to %s", name, last);
		workers_refuse(self, call, packet->host, err.text);
		return;
	}

	mpienv_host(&self->mpi, (uint32_t)index, name);
	const struct worker *worker = &self->list[index];
	struct workers_call *entry = workers_free_call(self);
	int rc = entry ? environment_make(self->options.launch, worker->first, worker->count,
					  &environment, &err)
		       : err_set(&err, -EBUSY, "too many commands run in workers");
	if (rc == 0) {
		rc = mpienv_worker(&self->mpi, (uint32_t)index, &environment, &err);
		if (rc < 0)
			(void)jobenv_free(environment);
	}

	if (rc == 0) {
		char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char *)packet->text, NULL};
		rc = workers_start(self, (size_t)index, argv, fds, environment, entry, &err);
	}

	if (rc < 0)
		workers_refuse(self, call, name, err.text);
	else
		entry->call = call;
}

static void workers_gone(void *context, size_t call)
{
	struct workers *self = context;

	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++) {
		struct workers_call *entry = &self->calls[i];
		if (entry->pid == 0 || entry->call != call || entry->is_gone)
			continue;

		entry->is_gone = true;
		entry->kill_at_ns = clock_now_ns(&workers_clock) + WORKERS_GONE_NS;
		(void)kill(-entry->pid, SIGTERM); /* not reaped: the number is its own */

		char name[MPIENV_HOST_MAX];
		mpienv_host(&self->mpi, (uint32_t)entry->worker, name);
		workers_fail(self, name, WORKERS_SIGNAL_BASE + SIGTERM, WORKERS_NAME_NS,
			     "the sluice-rsh that waited for it was killed");
	}

	workers_set_timer(self);
}

static void workers_rank_ended(struct workers *self, const struct workers_call *call, int code)
{
	self->ranks_left--;
	if (code == 0 && self->ranks_left > 0)
		return;

	struct packet answer = {.kind = PACKET_ENDED, .value = (uint32_t)code};

	if (!call->is_gone)
		rshserver_answer(self->server, call->call, &answer);

	/* Nobody waits for the others any more. */
	for (size_t i = 0; i < RSHSERVER_CALLS_MAX; i++)
		self->calls[i].is_gone = true;
}

/* Of whom it takes in: what it started in a worker. */
static void workers_reaped(void *context, pid_t pid, int status)
{
	struct workers *self = context;
	struct workers_call *entry = NULL;
	for (size_t i = 0; !entry && i < RSHSERVER_CALLS_MAX; i++)
		if (self->calls[i].pid == pid)
			entry = &self->calls[i];

	if (!entry)
		return;

	struct workers_call call = *entry;

	*entry = (struct workers_call){0};
	int code =
	    WIFSIGNALED(status) ? WORKERS_SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
	bool is_rank = self->mpi.wants->launcher == WANTS_LAUNCHER_RANKS;
	char name[MPIENV_HOST_MAX], why[JOBDIR_TEXT_MAX];

	mpienv_host(&self->mpi, (uint32_t)call.worker, name);
	/* A shell says of what it ran that it was killed by such a code. */
	int number = code > WORKERS_SIGNAL_BASE && code < WORKERS_SIGNAL_BASE + NSIG
			 ? code - WORKERS_SIGNAL_BASE
			 : 0;
	if (number > 0)
		(void)snprintf(why, sizeof(why), "killed by signal %d (%s)", number,
			       strsignal(number));
	else
		(void)snprintf(why, sizeof(why), "exited with %d%s", code,
			       code == 127 ? " (command not found there)" : "");

	/* Other codes are its own business: the launcher hears them. */
	bool is_failure = number > 0 || code == 126 || code == 127 || (is_rank && code != 0);
	if (is_failure && !call.is_gone)
		workers_fail(self, name, code, is_rank ? 0 : WORKERS_NAME_NS, why);

	struct packet answer = {.kind = PACKET_ENDED, .value = (uint32_t)code};

	if (is_rank)
		workers_rank_ended(self, &call, code);
	else if (!call.is_gone)
		rshserver_answer(self->server, call.call, &answer);

	workers_set_timer(self);
}

/* --- ranks without MPI ------------------------------------------------------------------------ */

static int workers_output(struct workers *self, const char *prefix, struct err *err)
{
	const struct launch *launch = self->options.launch;
	return output_add(self->options.output, self->options.job_fd, launch, prefix,
			  launch->log_bytes, err);
}

static int workers_start_rank(struct workers *self, size_t index, uint16_t port, const int *fds,
			      struct workers_call *out, struct err *err)
{
	const struct launch *launch = self->options.launch;
	const struct worker *worker = &self->list[index];
	char **environment = NULL, prefix[WORKERS_PREFIX_MAX];
	int rc = environment_make(launch, worker->first, worker->count, &environment, err);
	if (rc == 0)
		rc = mpienv_rank(&self->mpi, (uint32_t)index, port, &environment, err);
	(void)snprintf(prefix, sizeof(prefix), "w%zu.out", index); /* these fit */

	_cleanup_close_ int out_fd = rc < 0 || index == 0 ? -1 : workers_output(self, prefix, err);
	(void)snprintf(prefix, sizeof(prefix), "w%zu.err", index);

	_cleanup_close_ int err_fd = out_fd < 0 ? -1 : workers_output(self, prefix, err);
	if (rc == 0 && index > 0 && err_fd < 0)
		rc = err->code;
	if (rc == 0 && index > 0)
		output_pair(self->options.output);
	if (rc == 0 && index > 0 && index <= ORDER_WORKERS_MAX && self->orders)
		order_add_worker(self->options.order, &self->orders[index - 1], (uint32_t)index,
				 out_fd, err_fd);
	if (rc < 0) {
		(void)jobenv_free(environment);
		return rc;
	}

	int own[PACKET_FDS] = {-1, out_fd, err_fd};
	return workers_start(self, index, launch->spec.argv, index == 0 ? fds : own, environment,
			     out, err);
}

/* Rank 0 writes where the job does, and is found under its own name as well. */
static void workers_link_output(const struct workers *self, const char *name)
{
	char own[WORKERS_PREFIX_MAX], linked[WORKERS_PREFIX_MAX];
	(void)snprintf(own, sizeof(own), "%s.%" PRIu32, name, self->options.launch->attempt);
	(void)snprintf(linked, sizeof(linked), "w0.%.20s", own); /* these fit */
	(void)linkat(self->options.job_fd, own, self->options.job_fd, linked,
		     0); /* else under one alone */
}

/* All of them, or the job fails. */
static void workers_run_ranks(struct workers *self, size_t call, const int *fds)
{
	struct err err = {0};
	uint16_t port = 0;
	int rc = self->ranks_left > 0 ? err_set(&err, -EALREADY, "the ranks are started")
				      : port_find(&port, &err);
	size_t started = 0;

	workers_link_output(self, "out");
	workers_link_output(self, "err");
	if (!self->orders) /* without memory none is kept */
		self->orders = calloc(ORDER_WORKERS_MAX, sizeof(*self->orders));

	for (; rc == 0 && started < self->count; started++) {
		struct workers_call *entry = workers_free_call(self);
		rc = entry ? workers_start_rank(self, started, port, fds, entry, &err)
			   : err_set(&err, -EBUSY, "too many commands run in workers");
		if (rc < 0)
			break;

		entry->call = call;
		self->ranks_left++;
	}

	if (rc < 0) {
		char name[MPIENV_HOST_MAX];
		mpienv_host(&self->mpi, (uint32_t)started, name);
		workers_refuse(self, call, name, err.text);
	}
}

/* --- merged ----------------------------------------------------------------------------------- */

/* A process of the launcher's becomes one of a worker's: its group, and the variables that say
 * which GPUs are its own. */
static void workers_enter(struct workers *self, size_t call, uint32_t rank, pid_t peer)
{
	struct err err = {0};
	uint32_t slots = self->mpi.wants->worker_slots > 0 ? self->mpi.wants->worker_slots : 1;
	size_t index = rank / slots;
	struct packet refusal = {.kind = PACKET_REFUSED,
				 .text = "it has a rank on this machine that no worker has"};

	if (!self->mpi.wants->merge || index >= self->count) {
		rshserver_answer(self->server, call, &refusal);
		return;
	}

	const struct worker *worker = &self->list[index];
	char **environment = NULL;
	struct buf text _cleanup_buf_;

	buf_init(&text, PACKET_ANSWER_MAX);
	int rc = worker->cgroup.fd >= 0 ? cgroup_move(&worker->cgroup, peer, &err) : 0;
	if (rc == 0 && worker->devices_v1[0])
		rc = cgroup_move_v1(worker->devices_v1, peer, &err);
	if (rc == 0)
		rc = environment_make(self->options.launch, worker->first, worker->count,
				      &environment, &err);

	if (rc == 0)
		rc = mpienv_worker(&self->mpi, (uint32_t)index, &environment, &err);

	for (char **at = environment; rc == 0 && *at; at++)
		if (text_starts_with(*at, "CUDA_") || text_starts_with(*at, "NVIDIA_") ||
		    text_starts_with(*at, "SLUICE_") || text_starts_with(*at, "K_MPI_"))
			rc = buf_add(&text, *at, strlen(*at) + 1);

	(void)jobenv_free(environment);
	struct packet answer = {
	    .kind = PACKET_ENTERED, .text = buf_text(&text), .text_length = text.length};

	if (rc < 0)
		refusal.text = err.text;
	rshserver_answer(self->server, call, rc < 0 ? &refusal : &answer);
}

static void workers_asked(void *context, size_t call, const struct packet *packet, const int *fds,
			  pid_t peer)
{
	struct workers *self = context;
	struct packet refusal = {.kind = PACKET_REFUSED, .text = "the job has ended"};
	bool is_rank = self->mpi.wants->launcher == WANTS_LAUNCHER_RANKS;

	if (!self->watch || !self->watch->command_lives || self->has_ended)
		rshserver_answer(self->server, call, &refusal);
	else if (packet->kind == PACKET_ENTER)
		workers_enter(self, call, packet->value, peer);
	else if (packet->kind == PACKET_RANKS && is_rank)
		workers_run_ranks(self, call, fds);
	else if (packet->kind == PACKET_RUN && !is_rank)
		workers_run(self, call, packet, fds);
	else
		rshserver_answer(self->server, call, &refusal);
}

/* --- who is of the job ------------------------------------------------------------------------ */

/* The group of cgroup v2 of a process, as /proc shows it; "". */
static void workers_read_belonging(pid_t pid, char out[WORKERS_BELONGING_MAX])
{
	char path[64];
	struct buf text _cleanup_buf_;

	buf_init(&text, WORKERS_BELONGING_MAX);
	out[0] = '\0';
	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid); /* fits */

	if (file_read(path, &text, NULL) < 0)
		return;

	const char *line = buf_text(&text);
	while (line && !text_starts_with(line, "0::")) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}

	if (line)
		(void)snprintf(out, WORKERS_BELONGING_MAX, "%.*s", (int)strcspn(line + 3, "\n"),
			       line + 3); /* cut no shorter than the file */
}

static bool workers_is_ours(void *context, pid_t pid)
{
	const struct workers *self = context;
	size_t length = strlen(self->belonging);
	if (length > 0) {
		char belonging[WORKERS_BELONGING_MAX];
		workers_read_belonging(pid, belonging);
		return strncmp(belonging, self->belonging, length) == 0 &&
		       (belonging[length] == '/' || belonging[length] == '\0');
	}

	/* Without a group: whatever the job starts descends from its supervisor. */
	struct tree_process process = {.parent = pid};
	for (int i = 0; i < WORKERS_ANCESTORS_MAX && process.parent > 1; i++) {
		if (process.parent == getpid())
			return true;
		if (tree_read(process.parent, &process, NULL) < 0)
			return false;
	}

	return false;
}

/* --- making them ------------------------------------------------------------------------------ */

/* What it may not use: of the part that has its GPUs, `part`, or the job's. */
static void workers_set_denied(const struct workers *self, size_t part, struct worker *worker)
{
	const struct launch *launch = self->options.launch;
	bool has_part = part < launch->part_count;
	worker->denied = has_part ? launch->parts[part].denied : launch->denied;
	worker->denied_count = has_part ? launch->parts[part].denied_count : launch->denied_count;
}

/* With the rules of its part, where the job has some; the job's own hold for it in any case. */
static int workers_make_group(const struct workers *self, const char *name, size_t part,
			      struct worker *worker, struct err *err)
{
	const struct launch *launch = self->options.launch;
	const struct sandbox *sandbox = self->options.sandbox;
	bool has_rules = sandbox && sandbox->has_rules && part < launch->part_count;

	worker->cgroup = CGROUP_NONE;
	workers_set_denied(self, part, worker);
	if (self->options.cgroup->fd < 0) /* as the job itself has none */
		return 0;

	int rc = cgroup_create(self->options.cgroup->path, name, &worker->cgroup,
			       has_rules ? err : NULL);
	if (rc == 0 && has_rules)
		rc = sandbox_guard(sandbox, &worker->cgroup, &launch->parts[part],
				   worker->devices_v1, err);
	if (rc < 0 && has_rules)
		return err_wrap(err, "the group '%s'", name);

	return 0; /* else in the job's */
}

static int workers_make_list(struct workers *self, struct err *err)
{
	const struct launch *launch = self->options.launch;
	const struct wants *wants = self->mpi.wants;

	self->list = calloc(wants->workers, sizeof(*self->list));
	self->calls = calloc(RSHSERVER_CALLS_MAX, sizeof(*self->calls));
	if (!self->list || !self->calls)
		return err_set(err, -ENOMEM, "no memory for the workers");

	size_t grants = launch->grant_count, each = grants > 0 ? wants->worker_gpus : 0;
	size_t needed = each * wants->workers;

	if (grants < needed && (!wants->oversubscribe || grants < each))
		return err_set(err, -EINVAL, "%zu GPUs for %" PRIu32 " workers with %zu", grants,
			       wants->workers, each);

	/* Where there are not enough GPUs, in turns. */
	size_t groups = each > 0 ? grants / each : 1;
	int rc = 0;

	for (self->count = 0; rc == 0 && self->count < wants->workers; self->count++) {
		struct worker *worker = &self->list[self->count];
		size_t group = self->count % groups;
		char name[WORKERS_PREFIX_MAX];

		worker->first = group * each;
		worker->count = each;
		(void)snprintf(name, sizeof(name), "w%zu", self->count); /* fits */
		rc = workers_make_group(self, name, group, worker, err);
	}

	if (rc < 0)
		return rc;
	if (wants->launcher_is_worker)
		self->launcher.count = each;
	rc = workers_make_group(self, CGROUP_LAUNCHER, wants->launcher_is_worker ? 0 : groups,
				&self->launcher, err);

	/* Ranks that are its children keep what was put around it for good: their groups' rules
	 * say what each may use. */
	if (wants->merge)
		workers_set_denied(self, SIZE_MAX, &self->launcher);

	return rc;
}

static int workers_write_file(const struct workers *self, int fd, enum mpienv_file file,
			      struct err *err)
{
	const struct spec *spec = &self->options.launch->spec;
	const char *name = mpienv_file_name(file);
	struct buf text _cleanup_buf_;

	buf_init(&text, MPIENV_FILE_MAX);
	int rc = mpienv_file_text(&self->mpi, file, &text);
	if (rc < 0)
		return err_set(err, rc, "making the text of '%s': %s", name, err_describe(rc));

	mode_t mode = file == MPIENV_DISCOVER ? 0700 : 0600;
	_cleanup_close_ int file_fd =
	    openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (file_fd < 0 || write(file_fd, text.data, text.length) != (ssize_t)text.length ||
	    fchown(file_fd, spec->uid, spec->gid) < 0)
		return err_set(err, -errno, "writing '%s' of the job: %s", name,
			       err_describe(errno));

	return 0;
}

static int workers_make_directory(struct workers *self, struct err *err)
{
	const struct launch *launch = self->options.launch;
	/* Of this very start: one that was given back may have left its own. */
	_cleanup_close_ int fd = workdir_make(self->options.job_fd, launch->id, launch->attempt,
					      launch->instance, self->directory, err);
	if (fd < 0)
		return fd;

	int rc = 0;
	for (int file = 0; rc == 0 && file < MPIENV_FILE_COUNT; file++)
		rc = workers_write_file(self, fd, (enum mpienv_file)file, err);

	if (rc == 0)
		rc =
		    jobmemory_make_places(fd, self->count, launch->spec.uid, launch->spec.gid, err);

	return rc < 0 ? err_wrap(err, "'%s'", self->directory) : 0;
}

static int workers_open(struct workers *self, struct err *err)
{
	const struct launch *launch = self->options.launch;
	if (launch->spec.image[0])
		return err_set(err, -EINVAL,
			       "workers in containers are not built yet: leave out the image");
	if (launch->rsh[0] == '\0')
		return err_set(err, -ENOPKG,
			       "the program sluice-rsh, which jobs with workers need, is not "
			       "found: is sluice installed completely?");

	int rc = workers_make_list(self, err);
	if (rc == 0)
		rc = workers_make_directory(self, err);
	if (rc == 0)
		rc = jobmemory_make(launch->instance, self->count, launch->spec.uid,
				    launch->spec.gid, self->memory, err);
	if (rc < 0)
		return rc;

	crash_point("supervisor.workers_made");
	(void)snprintf(self->socket, sizeof(self->socket), "sluice/rsh/%s", launch->instance);
	self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (self->timer_fd < 0)
		return err_set(err, -errno, "making a timer: %s", err_describe(errno));

	const struct rshserver_options options = {.name = self->socket,
						  .uid = launch->spec.uid,
						  .is_ours = workers_is_ours,
						  .asked = workers_asked,
						  .gone = workers_gone,
						  .context = self};
	return rshserver_new(&options, &self->server, err);
}

int workers_new(const struct workers_options *options, struct workers **out, struct err *err)
{
	struct workers *self = calloc(1, sizeof(*self));
	if (!self)
		return err_set(err, -ENOMEM, "no memory for the workers");

	self->options = *options;
	self->timer_fd = -1;
	self->launcher.cgroup = CGROUP_NONE;
	self->mpi = (struct mpienv){.wants = &options->launch->spec.wants,
				    .job = options->launch->spec.name,
				    .rsh = options->launch->rsh,
				    .socket = self->socket,
				    .directory = self->directory,
				    .memory = self->memory};
	self->ranks_argv[0] = (char *)options->launch->rsh;
	self->ranks_argv[1] = (char *)"--ranks";

	int rc = workers_open(self, err);
	if (rc < 0) {
		workers_free(self);
		return rc;
	}

	*out = self;
	return 0;
}

struct workers *workers_free(struct workers *self)
{
	if (!self)
		return NULL;

	self->server = rshserver_free(self->server);
	if (self->memory[0])
		jobmemory_remove(self->options.launch->instance);
	if (self->directory[0]) /* else the agent does it */
		(void)workdir_discard(self->options.job_fd, self->options.launch->id,
				      self->options.launch->attempt, self->options.launch->instance,
				      NULL);

	if (self->timer_fd >= 0)
		(void)close(self->timer_fd);

	for (size_t i = 0; i < self->count; i++)
		cgroup_close(&self->list[i].cgroup);

	cgroup_close(&self->launcher.cgroup);
	free(self->list);
	free(self->orders);
	free(self->calls);
	free(self);

	return NULL;
}

/* --- for the launcher ------------------------------------------------------------------------- */

const struct cgroup *workers_cgroup(const struct workers *self)
{
	return self->launcher.cgroup.fd >= 0 ? &self->launcher.cgroup : NULL;
}

void workers_denied(const struct workers *self, const struct devguard_rule **out, size_t *out_count)
{
	*out = self->launcher.denied;
	*out_count = self->launcher.denied_count;
}

const char *workers_devices_v1(const struct workers *self)
{
	return self->launcher.devices_v1;
}

char *const *workers_argv(const struct workers *self)
{
	return self->mpi.wants->launcher == WANTS_LAUNCHER_RANKS ? self->ranks_argv : NULL;
}

int workers_environment(const struct workers *self, char ***out, struct err *err)
{
	char **environment = NULL;
	int rc = environment_make(self->options.launch, self->launcher.first, self->launcher.count,
				  &environment, err);
	if (rc == 0)
		rc = mpienv_launcher(&self->mpi, &environment, err);
	if (rc < 0)
		(void)jobenv_free(environment);
	else
		*out = environment;

	return rc;
}

static void workers_on_request(void *context, short revents)
{
	rshserver_serve(((struct workers *)context)->server);
}

void workers_sources(struct workers *self, struct watch_source out[WORKERS_SOURCES])
{
	out[0] = (struct watch_source){.fd = rshserver_fd(self->server),
				       .events = POLLIN,
				       .ready = workers_on_request,
				       .context = self};
	out[1] = (struct watch_source){
	    .fd = self->timer_fd, .events = POLLIN, .ready = workers_on_timer, .context = self};
}

void workers_watch(struct workers *self, struct job_watch *watch)
{
	self->watch = watch;
	watch->reaped = workers_reaped;
	watch->reaped_context = self;

	/* The launcher is in a group below the job's, as /proc shows it here. */
	workers_read_belonging(watch->command, self->belonging);
	char *slash = strrchr(self->belonging, '/');
	bool is_there =
	    self->launcher.cgroup.fd >= 0 && slash && strcmp(slash + 1, CGROUP_LAUNCHER) == 0;
	if (is_there)
		*slash = '\0';
	else
		self->belonging[0] = '\0';
}
