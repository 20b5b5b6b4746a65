/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/run.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/err.h"
#include "job/cgroup/cgoom.h"
#include "job/jobenv.h"
#include "libexec/supervise/cause.h"
#include "libexec/supervise/command.h"
#include "libexec/supervise/nodes.h"
#include "libexec/supervise/port.h"
#include "libexec/supervise/program.h"
#include "libexec/supervise/environment.h"
#include "libexec/supervise/landlock.h"

enum {
	RUN_EXIT_DEADLINE = 124,
	RUN_EXIT_LAUNCH = 125,
	RUN_SIGNAL_BASE = 128,
	RUN_LATE_NS = 100000000,      /* until what is joined later */
	RUN_REMOVAL_BYTES = 64 << 10, /* of what removes a container, where output is limited */
};

#define RUN_ASK_NS UINT64_C(2000000000) /* for the removal of a container to begin */

static const struct clock run_clock; /* the real one */

static void run_launch_failed(struct supervisor *self, int code, int exit_code,
			      const struct err *err)
{
	self->result.end = JOBDIR_LAUNCH_ERROR;
	self->result.value = code;
	self->result.exit_code = exit_code;
	(void)snprintf(self->result.text, sizeof(self->result.text), "%.*s", JOBDIR_TEXT_MAX - 1,
		       err->text); /* cut */
}

static int run_environment(const struct supervisor *self, char ***out, struct err *err)
{
	int rc = self->workers
		     ? workers_environment(self->workers, out, err)
		     : environment_make(&self->launch, 0, self->launch.grant_count, out, err);
	if (rc == 0 && self->port > 0 && port_tell(self->port, out) < 0)
		return err_set(err, -ENOMEM, "no memory for the job's environment");
	return rc;
}

static int run_take_port(struct supervisor *self, struct err *err)
{
	if (!self->launch.spec.port[0])
		return 0;

	self->port = port_take(self->launch.spec.port, self->launch.id, &self->port_fd, err);
	if (self->port < 0)
		return self->port;

	agents_say(&self->agents, CONTROL_PORT, self->port, 0, NULL);
	crash_point("supervisor.port_taken");
	return 0;
}

/* Ends a command that is not there yet. Messages wait in their sockets meanwhile: whoever cancels
 * has made the file before. */
static bool run_gives_up(void *context)
{
	struct supervisor *self = context;
	if (jobdir_is_cancelled(LAUNCH_FD_DIRECTORY)) {
		self->given_up = JOBDIR_CANCELLED;
		return true;
	}
	self->given_up = JOBDIR_DEADLINE;
	return self->give_up_at_ns > 0 && clock_now_ns(&run_clock) >= self->give_up_at_ns;
}

/* Nobody hears anything meanwhile, and what it executes runs as the job's user. */
static bool run_gives_up_removal(void *context)
{
	const struct supervisor *self = context;
	return clock_now_ns(&run_clock) >= self->ask_until_ns;
}

/* What it gets of its own where GPU nodes are closed to users. What it is not granted has to be
 * known: it would be copied as well. */
static int run_nodes(struct supervisor *self, struct nodes_wish *out, struct err *err)
{
	const struct launch *launch = &self->launch;
	if (launch->own_nodes[0] == '\0')
		return 0;
	if (launch->denied_why[0])
		return err_set(err, -ENOENT, "the job's own GPU nodes cannot be made: %s",
			       launch->denied_why);

	const struct devguard_rule *denied = launch->denied;
	size_t denied_count = launch->denied_count;

	if (self->workers)
		workers_denied(self->workers, &denied, &denied_count);
	*out = (struct nodes_wish){
	    .root = launch->own_nodes,
	    .place = launch->runtime_dir,
	    .denied = denied,
	    .denied_count = denied_count,
	    .uid = launch->spec.uid,
	    .gid = launch->spec.gid,
	    /* A container's user may be another one: who can look in here is its own user alone. */
	    .mode = self->has_image ? 0666 : 0600,
	    .memory_fd = nodes_memories_add(&self->memories),
	};
	return 0;
}

/* The container of root's podman has its group below the job's, also in cgroup v1, and what makes
 * it is not counted. An ordinary user's makes none there: it is limited with the one who starts it.
 */
static bool run_joins_limits(const struct supervisor *self)
{
	return !self->has_image || self->launch.spec.uid != 0;
}

static int run_call(struct supervisor *self, bool is_removal, struct command_outcome *out,
		    struct err *err)
{
	const char *word = is_removal ? "remove" : "run";
	char **environment = NULL, *helper[IMAGE_HELPER_WORDS];
	int rc = self->has_image ? image_helper(&self->launch, word, helper, err) : 0;
	if (rc == 0)
		rc = run_environment(self, &environment, err);

	/* What else would tell the administrator's program what to do is not for it. */
	if (rc == 0 && self->has_image && self->image.is_trusted && self->launch.spec.uid != 0 &&
	    program_clean(environment) < 0)
		rc = err_set(err, -ENOMEM, "no memory for the job's environment");

	struct nodes_wish nodes = {.root = NULL};

	if (rc == 0)
		rc = run_nodes(self, &nodes, err);

	if (rc == 0) {
		bool has_launcher = self->has_image && self->image.launcher.fd >= 0;
		struct landlock_plan landlock = {.denied = self->launch.denied,
						 .count = self->launch.denied_count,
						 .device_root = self->launch.device_root};

		if (self->workers)
			workers_denied(self->workers, &landlock.denied, &landlock.count);

		struct job_command command = {
		    .spec = &self->launch.spec,
		    .helper = self->has_image ? helper : NULL,
		    .argv = self->workers ? workers_argv(self->workers) : NULL,
		    .in_fd = -1,
		    .environment = environment,
		    .out_fd = self->out_fd,
		    .err_fd = self->err_fd,
		    .has_terminal = self->launch.spec.pty && !is_removal,
		    .tokens = self->tokens.tokens,
		    .token_count = self->tokens.count,
		    .cgroup = has_launcher ? &self->image.launcher
			      : self->workers && workers_cgroup(self->workers)
				  ? workers_cgroup(self->workers)
			      : self->cgroup.fd >= 0 ? &self->cgroup
						     : NULL,
		    .needs_cgroup = (self->sandbox.has_rules || self->launch.spec.wants.pids > 0) &&
				    !is_removal,
		    .devices_v1 = self->has_image ? self->image.devices_v1
				  : self->workers && *workers_devices_v1(self->workers)
				      ? workers_devices_v1(self->workers)
				      : self->sandbox.devices_v1,
		    .limit = run_joins_limits(self) && !is_removal ? &self->limit : NULL,
		    .init = self->init.pid > 0 && !is_removal ? &self->init : NULL,
		    .landlock = self->sandbox.has_landlock ? &landlock : NULL,
		    .no_new_privs = self->sandbox.has_no_new_privs,
		    .nodes = nodes.root ? &nodes : NULL,
		    .give_up = is_removal ? run_gives_up_removal : run_gives_up,
		    .context = self};
		rc = command_start(&command, out, err);
	}

	environment = jobenv_free(environment);
	return rc;
}

/* It runs, but not in its cgroup, which is said. One whose isolation lies in that is not started.
 */
static void run_leave_cgroup(struct supervisor *self, int code)
{
	char text[CONTROL_TEXT_MAX], why[SANDBOX_WHY_MAX];
	(void)snprintf(why, sizeof(why), "joining '%.96s': %s", self->cgroup.path,
		       err_describe(code)); /* cut */

	if (self->has_image) {
		image_lose_cgroup(&self->image, why);
		sandbox_judge_image(&self->launch, &self->image, &self->sandbox);
	} else {
		sandbox_add_why(&self->sandbox, "no cgroup", why);
	}

	(void)cgroup_remove(&self->cgroup, NULL); /* empty, and in nobody's way */
	cgroup_close(&self->cgroup);
	sandbox_describe(&self->sandbox, text);
	agents_say(&self->agents, CONTROL_HELLO, getpid(), CONTROL_CAN_LIMIT, text);
}

static int run_make_workers(struct supervisor *self, struct err *err)
{
	struct watch_source sources[WORKERS_SOURCES];

	if (self->launch.spec.wants.workers == 0)
		return 0;

	const struct workers_options options = {.launch = &self->launch,
						.job_fd = LAUNCH_FD_DIRECTORY,
						.cgroup = &self->cgroup,
						.sandbox = &self->sandbox,
						.limit = &self->limit,
						.init = self->init.pid > 0 ? &self->init : NULL,
						.tokens = self->tokens.tokens,
						.token_count = self->tokens.count,
						.output = &self->output,
						.order = &self->order,
						.memories = &self->memories};
	int rc = workers_new(&options, &self->workers, err);
	if (rc < 0)
		return rc;

	workers_sources(self->workers, sources);

	for (size_t i = 0; rc == 0 && i < WORKERS_SOURCES; i++)
		rc = run_listen(self, &sources[i]);

	return rc < 0 ? err_set(err, rc, "too much listens while the job runs") : 0;
}

/* Where it cannot be had the job runs without, and that is said. */
static void run_start_init(struct supervisor *self)
{
	struct err err = {0};
	char text[CONTROL_TEXT_MAX];
	if (!self->sandbox.has_own_pids || init_start(&self->cgroup, &self->init, &err) == 0)
		return;
	sandbox_add_why(&self->sandbox, "own PID namespace", err.text);
	sandbox_describe(&self->sandbox, text);
	agents_say(&self->agents, CONTROL_HELLO, getpid(), CONTROL_CAN_LIMIT, text);
}

/* Nothing has been started in it, or nothing that is left. */
static void run_end_init(struct supervisor *self)
{
	init_kill(&self->init);
	if (self->init.pid > 0)
		(void)waitpid(self->init.pid, NULL, 0);
	init_done(&self->init);
}

/* It is less than the job, or the owner of the machine, wants: nothing is started. */
static void run_refuse(struct supervisor *self)
{
	struct err err = {0};
	uint32_t wanted = self->launch.spec.wants.isolation;
	bool is_rule = sandbox_is_enough(self->sandbox.level, wanted);

	(void)err_set(&err, -EPERM, "isolation '%s'%s is not reached, only %s: %s",
		      isolation_asked_to_string(is_rule ? self->launch.minimum_isolation : wanted),
		      is_rule ? ", which this machine demands," : "",
		      isolation_level_to_string(self->sandbox.level), self->sandbox.why);
	run_launch_failed(self, -EPERM, RUN_EXIT_LAUNCH, &err);
}

/* Whoever says how many processes there may be does not mean any number. */
static bool run_lacks_limit(struct supervisor *self)
{
	struct err err = {0};
	uint32_t pids = self->launch.spec.wants.pids;

	if (pids == 0 || !self->limit.why_no_pids[0])
		return false;

	(void)err_set(&err, -EPERM, "a limit of %" PRIu32 " processes (--pids) cannot be had: %s",
		      pids, self->limit.why_no_pids);
	run_launch_failed(self, -EPERM, RUN_EXIT_LAUNCH, &err);
	return true;
}

static bool run_lacks_terminal(struct supervisor *self)
{
	if (self->no_terminal.code == 0)
		return false;
	run_launch_failed(self, self->no_terminal.code, RUN_EXIT_LAUNCH, &self->no_terminal);
	return true;
}

/* The pid, or -1: it never ran, and the result says why. */
static pid_t run_start(struct supervisor *self)
{
	struct err err = {0};
	struct command_outcome outcome = {.pid = -1, .exit_code = 125};
	uint64_t deadline_ns = self->launch.spec.deadline_ns, now_ns = clock_now_ns(&run_clock);
	if (deadline_ns > 0 && deadline_ns < UINT64_MAX - now_ns)
		self->give_up_at_ns = now_ns + deadline_ns;
	run_start_init(self);
	crash_point("supervisor.init_started");

	int rc = run_take_port(self, &err);
	if (rc == 0)
		rc = run_make_workers(self, &err);
	if (rc == 0)
		rc = run_call(self, false, &outcome, &err);
	crash_point("supervisor.started");

	if (rc < 0) {
		run_end_init(self);
		run_launch_failed(self, rc, outcome.exit_code, &err);
		return -1;
	}

	if (outcome.cgroup_code < 0)
		run_leave_cgroup(self, outcome.cgroup_code);

	if (self->has_image && outcome.note[0]) {
		char text[CONTROL_TEXT_MAX];
		image_leave(&self->image, outcome.note);
		sandbox_judge_image(&self->launch, &self->image, &self->sandbox);
		sandbox_describe(&self->sandbox, text);
		agents_say(&self->agents, CONTROL_HELLO, getpid(), CONTROL_CAN_LIMIT, text);
	}

	/* By either of the two. What was begun is killed, and taken away. */
	if (self->sandbox.is_refused) {
		(void)kill(outcome.pid, SIGKILL); /* not reaped: it is its own number */
		run_refuse(self);
		return -1;
	}

	self->has_given_up = outcome.given_up;
	return outcome.pid;
}

static void run_read_status(struct supervisor *self, const struct job_watch *watch)
{
	struct jobdir_result *result = &self->result;
	/* podman exits with anything, also 0, when its container is killed and removed meanwhile.
	 */
	int status = watch->was_ended_by_asking ? SIGKILL : watch->status;
	bool was_killed = WIFSIGNALED(status);

	result->end = was_killed ? JOBDIR_SIGNALLED : JOBDIR_EXITED;
	result->value = was_killed ? WTERMSIG(status) : WEXITSTATUS(status);
	result->exit_code = was_killed ? RUN_SIGNAL_BASE + result->value : result->value;
	result->killed_leftovers = watch->killed_leftovers;
	result->was_terminated = watch->was_terminated;
	result->was_oom_killed = cglimit_oom_kills(&self->cgroup, &self->limit) > 0;

	if (self->has_given_up && self->given_up == JOBDIR_CANCELLED) {
		result->end = JOBDIR_CANCELLED;
		result->exit_code = RUN_EXIT_CANCELLED;
	} else if (watch->has_hit_deadline || watch->has_idled || self->has_given_up) {
		result->end = watch->has_idled ? JOBDIR_IDLE : JOBDIR_DEADLINE;
		result->value = was_killed ? WTERMSIG(status) : 0;
		result->exit_code = RUN_EXIT_DEADLINE;
	} else if (self->workers) {
		(void)workers_result(self->workers, watch, result); /* else it is the launcher's */
	}
}

/* Starts what removes the container. What goes wrong is told in the job's errors. */
static int run_start_removal(struct supervisor *self, struct command_outcome *out)
{
	struct err err = {0};
	struct launch again _cleanup_launch_;

	launch_init(&again);
	int rc = prepare_launch(LAUNCH_FD_LAUNCH, &again, &err);
	if (rc == 0) {
		spec_done(&self->launch.spec); /* let go before, but for --remove */
		self->launch.spec = again.spec;
		spec_init(&again.spec);

		/* Of its own: the job's errors may be at their limit. */
		rc = output_add(&self->output, LAUNCH_FD_DIRECTORY, &self->launch, "err",
				self->launch.log_bytes > 0 ? RUN_REMOVAL_BYTES : 0, &err);
	}

	_cleanup_close_ int err_fd = rc;
	self->out_fd = self->err_fd = rc; /* both the same */
	self->ask_until_ns = clock_now_ns(&run_clock) + RUN_ASK_NS;

	if (rc >= 0)
		rc = run_call(self, true, out, &err);
	if (rc >= 0 && out->given_up)
		(void)err_set(&err, -ETIMEDOUT, "what does it has not begun in time");
	if ((rc < 0 || out->given_up) && err_fd >= 0) /* or nobody can be told */
		(void)dprintf(err_fd, "sluice-supervise: removing the container: %s\n", err.text);
	self->out_fd = self->err_fd = -1;

	return rc;
}

/* Before the job is killed: podman can do it better, for it knows then what became of the
 * container. An ordinary user's podman that finds neither it nor what kept his user namespace
 * starts no more
 * ("invalid internal status", 4.3). */
static int run_remove_first(void *context)
{
	struct command_outcome outcome = {.pid = -1};
	int rc = run_start_removal(context, &outcome);
	return rc == 0 && outcome.given_up ? -ETIMEDOUT : rc;
}

/* False: it has not begun, or was not done, in time, and was killed. */
static bool run_remove_within(struct supervisor *self, uint64_t limit_ns)
{
	struct command_outcome outcome = {.pid = -1};

	image_prepare_removal(&self->cgroup, &self->image);
	if (run_start_removal(self, &outcome) < 0)
		return true; /* nor would it the next time */

	struct watch_source source = output_source(&self->output); /* fd -1: none */
	struct job_watch watch = {.agents = &self->agents,
				  .desk = self->has_desk ? &self->desk : NULL,
				  .cgroup = &self->cgroup,
				  .signal_fd = self->signal_fd,
				  .command = outcome.pid,
				  .deadline_ns = limit_ns,
				  .is_idle = image_is_pause,
				  .is_deaf = true,
				  .sources = &source,
				  .source_count = 1};

	job_watch_run(&watch);
	return !watch.has_hit_deadline && !outcome.given_up;
}

void run_remove_container(struct supervisor *self)
{
	/* On a busy machine podman can hang once, or needs long. */
	static const uint64_t limits_ns[] = {IMAGE_REMOVE_NS, 4 * IMAGE_REMOVE_NS,
					     12 * IMAGE_REMOVE_NS};
	bool is_done = false;
	for (size_t i = 0; !is_done && i < array_length(limits_ns); i++) {
		is_done = run_remove_within(self, limits_ns[i]);
		output_done(&self->output, LAUNCH_FD_DIRECTORY);
	}

	crash_point("supervisor.container_removed");
}

/* What makes a container is its user's as soon as it looks for podman: it may have started others
 * before it said that it cannot. */
static void run_kill_rest(struct supervisor *self)
{
	if (!self->has_image)
		return;

	struct job_watch watch = {.agents = &self->agents,
				  .desk = self->has_desk ? &self->desk : NULL,
				  .cgroup = &self->cgroup,
				  .signal_fd = self->signal_fd,
				  .command = -1,
				  .is_deaf = true};
	job_watch_run(&watch);
}

int run_listen(struct supervisor *self, const struct watch_source *source)
{
	if (self->source_count == WATCH_SOURCES_MAX)
		return -ENOSPC;
	self->sources[self->source_count++] = *source;
	return 0;
}

/* Out of the agent's own: its service is to end without a process that is left. */
static void run_leave_service(const struct supervisor *self)
{
	struct cgroup supervisors _cleanup_cgroup_ = CGROUP_NONE;
	if (prepare_supervisors(&self->launch, &supervisors, NULL) == 0)
		(void)cgroup_join(&supervisors); /* else it stays, and does no harm there */
}

static void run_late(void *context, short revents)
{
	struct supervisor *self = context;
	if (run_joins_limits(self))
		cglimit_join_late(&self->cgroup, &self->limit);
	run_leave_service(self);
	for (size_t i = 0; i < self->source_count; i++)
		if (self->sources[i].ready == run_late)
			self->sources[i].fd = -1;
}

/* A job that is short does without: the kernel would keep other starts waiting meanwhile. The timer
 * (caller's), or -1. */
static int run_join_late(struct supervisor *self)
{
	const struct itimerspec after = {.it_value.tv_nsec = RUN_LATE_NS};
	struct cgroup supervisors _cleanup_cgroup_ = CGROUP_NONE;

	if ((!self->limit.late[0] || !run_joins_limits(self)) &&
	    prepare_supervisors(&self->launch, &supervisors, NULL) < 0)
		return -1;

	_cleanup_close_ int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	const struct watch_source source = {
	    .fd = fd, .events = POLLIN, .ready = run_late, .context = self};

	if (fd < 0 || timerfd_settime(fd, 0, &after, NULL) < 0 || run_listen(self, &source) < 0) {
		run_late(self, 0);
		return -1;
	}

	return take_fd(&fd);
}

/* What earlier attempts have had of the time for all of them: the deadline is what is left. */
static uint64_t run_used_ns(const struct spec *spec)
{
	return spec->deadline_ns > 0 && spec->wants.time_ns > spec->deadline_ns
		   ? spec->wants.time_ns - spec->deadline_ns
		   : 0;
}

void run_command(struct supervisor *self)
{
	output_copy(&self->output, &self->launch, self->err_fd);
	bool is_refused =
	    self->sandbox.is_refused || run_lacks_limit(self) || run_lacks_terminal(self);
	if (self->sandbox.is_refused)
		run_refuse(self);

	pid_t pid = is_refused ? -1 : run_start(self);
	/* Of groups that a container's runtime made and has removed. */
	_cleanup_close_ int oom_fd =
	    pid > 0 && self->limit.memory_v1[0] ? cgoom_watch(self->limit.memory_v1, NULL) : -1;
	_cleanup_close_ int late_fd = pid > 0 ? run_join_late(self) : -1;

	(void)late_fd; /* the watch has it; closed here */
	(void)close(take_fd(&self->out_fd));
	(void)close(take_fd(&self->err_fd));

	if (pid < 0) {
		self->workers = workers_free(self->workers);
		run_kill_rest(self);
		nodes_memories_close(&self->memories);

		if (self->has_image && self->image.is_elsewhere)
			run_remove_container(self);
		output_done(&self->output, LAUNCH_FD_DIRECTORY);
		return;
	}

	self->result.started_unix_ns = clock_unix_ns();
	agents_say(&self->agents, CONTROL_STARTED, pid, (uint64_t)self->result.started_unix_ns,
		   NULL);

	struct job_watch watch = {.agents = &self->agents,
				  .desk = self->has_desk ? &self->desk : NULL,
				  .cgroup = &self->cgroup,
				  .signal_fd = self->signal_fd,
				  .command = pid,
				  .grace_ns = self->launch.spec.grace_ns,
				  .deadline_ns = self->launch.spec.deadline_ns,
				  .used_ns = run_used_ns(&self->launch.spec),
				  .warning = {.signal = self->launch.spec.warn_signal,
					      .before_ns = self->launch.spec.warn_before_ns,
					      .command_alone = self->launch.spec.warn_alone},
				  .passes_signals = self->has_image,
				  .tells_late = self->has_image || self->output.copy > 0,
				  .is_idle = self->has_image ? image_is_pause : NULL,
				  .before_kill = self->has_image ? run_remove_first : NULL,
				  .context = self,
				  .init = &self->init,
				  .aside = self->output.copy,
				  .sources = self->sources,
				  .source_count = self->source_count};

	/* A job can have megabytes of environment, and runs for weeks; workers are started with it
	 * as long as they are asked for. */
	if (self->workers)
		workers_watch(self->workers, &watch);
	else
		spec_done(&self->launch.spec);

	(void)malloc_trim(0);
	job_watch_run(&watch);
	output_done(&self->output, LAUNCH_FD_DIRECTORY);
	order_done(&self->order);
	init_done(&self->init);
	nodes_memories_close(&self->memories);
	crash_point("supervisor.all_gone");
	run_read_status(self, &watch);
	self->result.lost = output_lost(&self->output, watch.aside_failed);

	if (cgoom_has_run_out(oom_fd))
		self->result.was_oom_killed = true;
	self->workers = workers_free(self->workers);
	if (self->has_image)
		cause_read(LAUNCH_FD_DIRECTORY, self->launch.attempt, &self->result);

	/* Among those that the kernel has killed may have been what looks after the container. */
	if (self->has_image && (image_is_left(&watch) || self->result.was_oom_killed))
		run_remove_container(self);
}
