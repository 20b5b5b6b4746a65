/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-supervise --job N --attempt N: runs one attempt of one job and owns every fact about it.
 * Started by the agent with the descriptors of enum launch_fd, and from then on alone: the agent
 * may die and come back, and finds what happened in the job's files. The order of the steps is the
 * protocol: until the claim is on the disk nothing was started, and nothing is said to have ended
 * while a process of the job lives. The arguments are for people who look at ps.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/keyctl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/err.h"
#include "doors/queue/control.h"
#include "doors/queue/jobenv.h"
#include "libexec/supervise/agents.h"
#include "libexec/supervise/command.h"
#include "libexec/supervise/image.h"
#include "libexec/supervise/prepare.h"
#include "libexec/supervise/watch.h"

enum {
	MAIN_BUSY_MS = 1000, /* for an agent to come and hear that a token is taken */
	MAIN_RETRY_MS = 100, /* of writing the result, at first */
	MAIN_RETRY_MAX_MS = 5000,
	MAIN_EXIT_CANCELLED = 128 + SIGTERM,
	MAIN_EXIT_DEADLINE = 124,
	MAIN_SIGNAL_BASE = 128,
	MAIN_NUMBER_MAX = 24,
};

#define MAIN_ASK_NS UINT64_C(2000000000) /* for the removal of a container to begin */

static const struct clock main_clock; /* the real one */

/* Why a job reaches no more isolation than its environment. */
static const char main_no_rules[] = "device rules are not built yet";

struct supervisor {
	struct launch launch;
	int signal_fd, out_fd, err_fd;
	struct agents agents;
	struct cgroup cgroup;
	bool has_image;
	struct image image; /* with has_image */
	struct prepare_tokens tokens;
	struct desk desk;
	bool has_desk;
	struct jobdir_result result;
	uint64_t give_up_at_ns; /* 0: no deadline */
	uint64_t ask_until_ns;	/* for a removal to begin */
	bool has_given_up;	/* before the command was executed, as `given_up` says */
	enum jobdir_end given_up;
};

static void main_complain(const struct supervisor *self, const struct err *err)
{
	/* It may be a pipe that nobody reads any more: rather silent than stuck. */
	struct pollfd wait = {.fd = LAUNCH_FD_ERROR, .events = POLLOUT};
	if (poll(&wait, 1, 0) == 1 && (wait.revents & POLLOUT))
		(void)dprintf(LAUNCH_FD_ERROR, "sluice-supervise: job %" PRIu64 ": %s\n",
			      self->launch.id, err->text);
}

/* --- before the claim ------------------------------------------------------------------------- */

static int main_set_up(struct supervisor *self, struct err *err)
{
	/* What we open must not land on these. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", O_RDWR); /* the lowest free one is `fd` */
	for (int fd = LAUNCH_FD_LOCK; fd <= LAUNCH_FD_LAUNCH; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return err_set(err, -errno,
				       "descriptor %d is missing: this program is started by "
				       "'sluice agent'",
				       fd);
	(void)umask(S_IRWXG | S_IRWXO); /* cannot fail */
	(void)setsid();			/* fails when it leads one already */
	(void)chdir("/");		/* else it keeps one file system busy, no more */
	/* Root's session keyring leads to keys of the system's, and who inherits it may read them.
	 * An own one is empty. Where there are no keyrings there is none to inherit. */
	if (geteuid() == 0)
		(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "becoming a subreaper: %s", err_describe(errno));
	sigset_t all, heard;
	(void)sigfillset(&all); /* these cannot fail */
	(void)sigemptyset(&heard);
	(void)sigaddset(&heard, SIGCHLD);
	(void)sigaddset(&heard, SIGTERM);
	(void)signal(SIGCHLD, SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	self->signal_fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
	if (self->signal_fd < 0)
		return err_set(err, -errno, "making a signalfd: %s", err_describe(errno));
	return 0;
}

static int main_listen(struct supervisor *self, struct err *err)
{
	int listen_fd = control_listen(LAUNCH_FD_DIRECTORY, err);
	if (listen_fd < 0)
		return listen_fd;
	agents_init(&self->agents, listen_fd);
	crash_point("supervisor.listening");
	struct err why = {0};
	char text[CONTROL_TEXT_MAX];
	/* Without it the job is found by its ancestors and its environment. */
	bool has_cgroup = prepare_cgroup(&self->launch, &self->cgroup, &why) == 0;
	crash_point("supervisor.cgroup_made");
	self->has_image = self->launch.spec.image[0] != '\0';
	if (self->has_image) {
		image_prepare(&self->launch, &self->cgroup, why.text, &self->image);
		image_describe(&self->image, text);
	} else if (has_cgroup) {
		(void)snprintf(text, sizeof(text), "env: %s", main_no_rules);
	} else {
		(void)snprintf(text, sizeof(text), "env: %s; no cgroup: %.160s", main_no_rules,
			       why.text);
	}
	crash_point("supervisor.guarded");
	agents_say(&self->agents, CONTROL_HELLO, getpid(), 0, text);
	return 0;
}

static int main_open_desk(struct supervisor *self, struct err *err)
{
	if (self->tokens.count == 0)
		return 0;
	struct note note = {.pid = getpid(), .uid = self->launch.spec.uid};
	note.since_s = (uint64_t)clock_unix_ns() / 1000000000;
	note_set_name(&note, self->launch.spec.name);
	int result = desk_init(&self->desk, &note, err);
	self->has_desk = result == 0;
	for (size_t i = 0; result == 0 && i < self->tokens.count; i++)
		result = desk_open_at(&self->desk, self->tokens.tokens[i].socket_fd, err);
	return result;
}

static int main_open_outputs(struct supervisor *self, struct err *err)
{
	self->out_fd = prepare_output(LAUNCH_FD_DIRECTORY, &self->launch, "out", err);
	if (self->out_fd < 0)
		return self->out_fd;
	crash_point("supervisor.out_opened");
	self->err_fd = prepare_output(LAUNCH_FD_DIRECTORY, &self->launch, "err", err);
	crash_point("supervisor.err_opened");
	return self->err_fd < 0 ? self->err_fd : 0;
}

/* Nobody who waits for the end of the agent's output shall wait for the job. */
static void main_leave_error(void)
{
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd >= 0)
		(void)dup2(null_fd, LAUNCH_FD_ERROR); /* else it stays */
}

/* 0: the attempt is ours. Otherwise what to exit with: nothing was started, and nothing is kept. */
static enum launch_exit main_claim(struct supervisor *self, struct err *err)
{
	struct jobdir_claim claim;
	int result = prepare_tokens(&self->launch, &self->tokens, err);
	crash_point("supervisor.tokens_taken");
	if (result == -EBUSY) {
		agents_say(&self->agents, CONTROL_TOKENS_BUSY, 0, 0, err->text);
		if (agents_count(&self->agents) == 0)
			watch_idle(&self->agents, NULL, MAIN_BUSY_MS);
		return LAUNCH_EXIT_TOKENS_BUSY;
	}
	if (result == 0)
		result = main_open_desk(self, err);
	if (result == 0)
		result = main_open_outputs(self, err);
	if (result == 0)
		result = prepare_claim(&self->launch, &self->cgroup, &claim, err);
	if (result < 0)
		return LAUNCH_EXIT_NOT_READY;
	result = jobdir_claim(LAUNCH_FD_DIRECTORY, self->launch.attempt, &claim, err);
	crash_point("supervisor.claimed");
	if (result < 0)
		return result == -EEXIST ? LAUNCH_EXIT_CLAIMED : LAUNCH_EXIT_NOT_READY;
	agents_say(&self->agents, CONTROL_CLAIMED, 0, 0, claim.cgroup);
	return 0;
}

/* --- the command ------------------------------------------------------------------------------ */

static void main_launch_failed(struct supervisor *self, int code, int exit_code,
			       const struct err *err)
{
	self->result.end = JOBDIR_LAUNCH_ERROR;
	self->result.value = code;
	self->result.exit_code = exit_code;
	(void)snprintf(self->result.text, sizeof(self->result.text), "%.*s", JOBDIR_TEXT_MAX - 1,
		       err->text); /* cut */
}

static int main_environment(const struct launch *launch, char ***out, struct err *err)
{
	char id[MAIN_NUMBER_MAX], attempt[MAIN_NUMBER_MAX];
	(void)snprintf(id, sizeof(id), "%" PRIu64, launch->id); /* these fit */
	(void)snprintf(attempt, sizeof(attempt), "%" PRIu32, launch->attempt);
	_cleanup_free_ const char **uuids = calloc(launch->grant_count + 1, sizeof(*uuids));
	if (!uuids)
		return err_set(err, -ENOMEM, "no memory for the job's environment");
	for (size_t i = 0; i < launch->grant_count; i++)
		uuids[i] = launch->grants[i].uuid;
	struct jobenv_job job = {.id = id,
				 .name = launch->spec.name,
				 .attempt = attempt,
				 .instance = launch->instance[0] ? launch->instance : NULL,
				 .uuids = uuids,
				 .uuid_count = launch->grant_count,
				 .adapters = launch->adapters};
	char *none[] = {NULL};
	return jobenv_make(launch->spec.environment ? launch->spec.environment : none, &job, out,
			   err);
}

/* Ends a command that is not there yet. Messages wait in their sockets meanwhile: whoever cancels
 * has made the file before. */
static bool main_gives_up(void *context)
{
	struct supervisor *self = context;
	if (jobdir_is_cancelled(LAUNCH_FD_DIRECTORY)) {
		self->given_up = JOBDIR_CANCELLED;
		return true;
	}
	self->given_up = JOBDIR_DEADLINE;
	return self->give_up_at_ns > 0 && clock_now_ns(&main_clock) >= self->give_up_at_ns;
}

/* Nobody hears anything meanwhile, and what it executes runs as the job's user. */
static bool main_gives_up_removal(void *context)
{
	const struct supervisor *self = context;
	return clock_now_ns(&main_clock) >= self->ask_until_ns;
}

static int main_call(struct supervisor *self, bool is_removal, struct command_outcome *out,
		     struct err *err)
{
	const char *word = is_removal ? "remove" : "run";
	char **environment = NULL, *helper[IMAGE_HELPER_WORDS];
	int result = self->has_image ? image_helper(&self->launch, word, helper, err) : 0;
	if (result == 0)
		result = main_environment(&self->launch, &environment, err);
	if (result == 0) {
		bool has_launcher = self->has_image && self->image.launcher.fd >= 0;
		struct command command = {
		    .spec = &self->launch.spec,
		    .helper = self->has_image ? helper : NULL,
		    .environment = environment,
		    .out_fd = self->out_fd,
		    .err_fd = self->err_fd,
		    .tokens = self->tokens.tokens,
		    .token_count = self->tokens.count,
		    .cgroup = has_launcher	     ? &self->image.launcher
			      : self->cgroup.fd >= 0 ? &self->cgroup
						     : NULL,
		    .devices_v1 = self->has_image ? self->image.devices_v1 : NULL,
		    .give_up = is_removal ? main_gives_up_removal : main_gives_up,
		    .context = self};
		result = command_start(&command, out, err);
	}
	environment = jobenv_free(environment);
	return result;
}

/* It runs, but not in its cgroup, which is said. */
static void main_leave_cgroup(struct supervisor *self, int code)
{
	char text[CONTROL_TEXT_MAX], why[CONTROL_TEXT_MAX];
	(void)snprintf(why, sizeof(why), "no cgroup: joining '%.96s': %s", self->cgroup.path,
		       err_describe(code));
	(void)snprintf(text, sizeof(text), "env: %s; %.180s", main_no_rules, why);
	if (self->has_image) {
		image_done(&self->image);
		self->image = IMAGE_NONE;
		(void)snprintf(self->image.why, sizeof(self->image.why), "%s", why); /* fits */
		image_describe(&self->image, text);
	}
	(void)cgroup_remove(&self->cgroup, NULL); /* empty, and in nobody's way */
	cgroup_close(&self->cgroup);
	agents_say(&self->agents, CONTROL_HELLO, getpid(), 0, text);
}

/* The pid, or -1: it never ran, and the result says why. */
static pid_t main_start(struct supervisor *self)
{
	struct err err = {0};
	struct command_outcome outcome = {.pid = -1, .exit_code = 125};
	uint64_t deadline_ns = self->launch.spec.deadline_ns, now_ns = clock_now_ns(&main_clock);
	if (deadline_ns > 0 && deadline_ns < UINT64_MAX - now_ns)
		self->give_up_at_ns = now_ns + deadline_ns;
	int result = main_call(self, false, &outcome, &err);
	crash_point("supervisor.started");
	if (result < 0) {
		main_launch_failed(self, result, outcome.exit_code, &err);
		return -1;
	}
	if (outcome.cgroup_code < 0)
		main_leave_cgroup(self, outcome.cgroup_code);
	self->has_given_up = outcome.given_up;
	return outcome.pid;
}

static void main_read_status(struct supervisor *self, const struct watch *watch)
{
	struct jobdir_result *result = &self->result;
	/* podman exits with anything, also 0, when its container is killed and removed meanwhile.
	 */
	int status = watch->was_ended_by_asking ? SIGKILL : watch->status;
	bool was_killed = WIFSIGNALED(status);
	result->end = was_killed ? JOBDIR_SIGNALLED : JOBDIR_EXITED;
	result->value = was_killed ? WTERMSIG(status) : WEXITSTATUS(status);
	result->exit_code = was_killed ? MAIN_SIGNAL_BASE + result->value : result->value;
	result->killed_leftovers = watch->killed_leftovers;
	if (self->has_given_up && self->given_up == JOBDIR_CANCELLED) {
		result->end = JOBDIR_CANCELLED;
		result->exit_code = MAIN_EXIT_CANCELLED;
	} else if (watch->has_hit_deadline || self->has_given_up) {
		result->end = JOBDIR_DEADLINE;
		result->value = was_killed ? WTERMSIG(status) : 0;
		result->exit_code = MAIN_EXIT_DEADLINE;
	}
}

/* Starts what removes the container. What goes wrong is told in the job's errors. */
static int main_start_removal(struct supervisor *self, struct command_outcome *out)
{
	struct err err = {0};
	struct launch again _cleanup_launch_;
	launch_init(&again);
	int result = prepare_launch(LAUNCH_FD_LAUNCH, &again, &err);
	if (result == 0) {
		spec_done(&self->launch.spec); /* let go before, but for --remove */
		self->launch.spec = again.spec;
		spec_init(&again.spec);
		result = prepare_output(LAUNCH_FD_DIRECTORY, &self->launch, "err", &err);
	}
	_cleanup_close_ int err_fd = result;
	self->out_fd = self->err_fd = result; /* both the same */
	self->ask_until_ns = clock_now_ns(&main_clock) + MAIN_ASK_NS;
	if (result >= 0)
		result = main_call(self, true, out, &err);
	if (result >= 0 && out->given_up)
		(void)err_set(&err, -ETIMEDOUT, "what does it has not begun in time");
	if ((result < 0 || out->given_up) && err_fd >= 0) /* or nobody can be told */
		(void)dprintf(err_fd, "sluice-supervise: removing the container: %s\n", err.text);
	self->out_fd = self->err_fd = -1;
	return result;
}

/* Before the job is killed: podman can do it better, for it knows then what became of the
 * container. An ordinary user's podman that finds neither it nor what kept his user namespace
 * starts no more
 * ("invalid internal status", 4.3). */
static int main_remove_first(void *context)
{
	struct command_outcome outcome = {.pid = -1};
	int result = main_start_removal(context, &outcome);
	return result == 0 && outcome.given_up ? -ETIMEDOUT : result;
}

/* Whoever is killed cannot take its container out of podman's lists. */
static void main_remove_container(struct supervisor *self)
{
	struct command_outcome outcome = {.pid = -1};
	image_prepare_removal(&self->cgroup, &self->image);
	if (main_start_removal(self, &outcome) == 0) {
		struct watch watch = {.agents = &self->agents,
				      .desk = self->has_desk ? &self->desk : NULL,
				      .cgroup = &self->cgroup,
				      .signal_fd = self->signal_fd,
				      .command = outcome.pid,
				      .deadline_ns = IMAGE_REMOVE_NS,
				      .is_idle = image_is_pause,
				      .is_deaf = true};
		watch_run(&watch);
	}
	crash_point("supervisor.container_removed");
}

/* What makes a container is its user's as soon as it looks for podman: it may have started others
 * before it said that it cannot. */
static void main_kill_rest(struct supervisor *self)
{
	if (!self->has_image)
		return;
	struct watch watch = {.agents = &self->agents,
			      .desk = self->has_desk ? &self->desk : NULL,
			      .cgroup = &self->cgroup,
			      .signal_fd = self->signal_fd,
			      .command = -1,
			      .is_deaf = true};
	watch_run(&watch);
}

/* Runs the command and returns when nothing of it is left. */
static void main_run(struct supervisor *self)
{
	pid_t pid = main_start(self);
	(void)close(take_fd(&self->out_fd));
	(void)close(take_fd(&self->err_fd));
	if (pid < 0) {
		main_kill_rest(self);
		return;
	}
	self->result.started_unix_ns = clock_unix_ns();
	agents_say(&self->agents, CONTROL_STARTED, pid, (uint64_t)self->result.started_unix_ns,
		   NULL);
	struct watch watch = {.agents = &self->agents,
			      .desk = self->has_desk ? &self->desk : NULL,
			      .cgroup = &self->cgroup,
			      .signal_fd = self->signal_fd,
			      .command = pid,
			      .grace_ns = self->launch.spec.grace_ns,
			      .deadline_ns = self->launch.spec.deadline_ns,
			      .passes_signals = self->has_image,
			      .is_idle = self->has_image ? image_is_pause : NULL,
			      .before_kill = self->has_image ? main_remove_first : NULL,
			      .context = self};
	/* A job can have megabytes of environment, and runs for weeks. */
	spec_done(&self->launch.spec);
	(void)malloc_trim(0);
	watch_run(&watch);
	crash_point("supervisor.all_gone");
	main_read_status(self, &watch);
	if (self->has_image && image_is_left(&watch))
		main_remove_container(self);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void main_write_result(struct supervisor *self)
{
	struct err err = {0};
	int wait_ms = MAIN_RETRY_MS;
	self->result.ended_unix_ns = clock_unix_ns();
	self->result.was_cancelled = jobdir_is_cancelled(LAUNCH_FD_DIRECTORY);
	if (self->has_image)
		(void)snprintf(self->result.isolation, sizeof(self->result.isolation), "%s",
			       image_level(&self->image)); /* fits */
	bool has_told = false;
	while (jobdir_write_result(LAUNCH_FD_DIRECTORY, self->launch.attempt, &self->result, &err) <
	       0) {
		if (!has_told)
			agents_say(&self->agents, CONTROL_NO_ROOM, 0, 0, err.text);
		has_told = true;
		watch_idle(&self->agents, NULL, wait_ms);
		wait_ms = 2 * wait_ms < MAIN_RETRY_MAX_MS ? 2 * wait_ms : MAIN_RETRY_MAX_MS;
	}
	agents_unsay(&self->agents, CONTROL_NO_ROOM);
}

static void main_let_go(struct supervisor *self)
{
	if (self->has_desk)
		desk_done(&self->desk);
	self->has_desk = false;
	prepare_release(&self->tokens);
}

/* Gives the cgroup and the tokens back: whoever hears of the result may take them. */
static void main_clear(struct supervisor *self)
{
	if (self->cgroup.fd >= 0)
		(void)cgroup_remove(&self->cgroup, NULL); /* an empty one is in nobody's way */
	if (self->cgroup.fd >= 0 && self->has_image)
		cgroup_remove_v1(self->cgroup.path, true);
	crash_point("supervisor.cgroup_removed");
	main_let_go(self);
	crash_point("supervisor.tokens_released");
}

static enum launch_exit main_supervise(struct supervisor *self, struct err *err)
{
	if (main_listen(self, err) < 0)
		return LAUNCH_EXIT_NOT_READY;
	enum launch_exit code = main_claim(self, err);
	if (code != LAUNCH_EXIT_DONE) {
		/* One of the same attempt may be about to use the cgroup of this name. */
		if (code != LAUNCH_EXIT_CLAIMED && self->cgroup.fd >= 0)
			(void)cgroup_remove(&self->cgroup, NULL);
		return code;
	}
	main_leave_error();
	if (jobdir_is_cancelled(LAUNCH_FD_DIRECTORY)) {
		self->result.end = JOBDIR_CANCELLED;
		self->result.exit_code = MAIN_EXIT_CANCELLED;
	} else {
		main_run(self);
	}
	main_clear(self);
	main_write_result(self);
	agents_say(&self->agents, CONTROL_RESULT, 0, 0, NULL);
	watch_idle(&self->agents, NULL, 0); /* who has just come hears it as well */
	crash_point("supervisor.said_result");
	(void)unlinkat(LAUNCH_FD_DIRECTORY, "control", 0); /* nobody listens there any more */
	crash_point("supervisor.ending");
	return LAUNCH_EXIT_DONE;
}

/* The agents see the end of their connection last: whoever sees it finds the lock free. */
static void main_done(struct supervisor *self)
{
	main_let_go(self);
	image_done(&self->image);
	cgroup_close(&self->cgroup);
	launch_done(&self->launch);
	(void)close(LAUNCH_FD_LOCK);
	agents_done(&self->agents);
}

/* --remove: of an attempt whose supervisor was killed, the container is taken away. The agent has
 * killed its processes before, and starts this one with the launch and the job's directory alone.
 */
static enum launch_exit main_remove(struct supervisor *self)
{
	if (self->launch.spec.image[0] == '\0' || self->launch.container[0] == '\0')
		return LAUNCH_EXIT_DONE;
	self->has_image = true;
	(void)prepare_cgroup(&self->launch, &self->cgroup, NULL); /* else without */
	main_remove_container(self);
	main_clear(self);
	return LAUNCH_EXIT_DONE;
}

int main(int argc, char **argv)
{
	struct supervisor self = {.signal_fd = -1,
				  .out_fd = -1,
				  .err_fd = -1,
				  .cgroup = CGROUP_NONE,
				  .image = IMAGE_NONE};
	struct err err = {0};
	agents_init(&self.agents, -1);
	crash_point("supervisor.born");
	launch_init(&self.launch);
	enum launch_exit code = LAUNCH_EXIT_BAD_LAUNCH;
	if (main_set_up(&self, &err) == 0 &&
	    prepare_launch(LAUNCH_FD_LAUNCH, &self.launch, &err) == 0) {
		crash_point("supervisor.launch_read");
		bool is_removal = argc == 2 && strcmp(argv[1], "--remove") == 0;
		code = is_removal ? main_remove(&self) : main_supervise(&self, &err);
	}
	if (code != LAUNCH_EXIT_DONE)
		main_complain(&self, &err);
	main_done(&self);
	return (int)code;
}
