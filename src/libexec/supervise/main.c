/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sluice-supervise --job N --attempt N: runs one attempt of one job and owns every fact about it.
 * Started by the agent with the descriptors of enum launch_fd, and from then on alone: the agent
 * may die and come back, and finds what happened in the job's files. The order of the steps is the
 * protocol: until the claim is on the disk nothing was started, and nothing is said to have ended
 * while a process of the job lives. The arguments are for people who look at ps. With --remove and
 * --keep it does something else: main_remove(), keep.h. With --spawner it forks supervisors that
 * are as if they had been executed: spawned.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/keyctl.h>
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
#include "job/control.h"
#include "libexec/supervise/groups.h"
#include "libexec/supervise/clear.h"
#include "libexec/supervise/keep.h"
#include "libexec/supervise/onend.h"
#include "libexec/supervise/prepare.h"
#include "libexec/supervise/privilege.h"
#include "libexec/supervise/run.h"
#include "libexec/supervise/spawned.h"

enum {
	MAIN_BUSY_MS = 1000, /* for an agent to come and hear that a token is taken */
	MAIN_RETRY_MS = 100, /* of writing the result, at first */
	MAIN_RETRY_MAX_MS = 5000,
};

#define MAIN_USED_NS (500 * CLOCK_NS_PER_MS) /* it is said so often at most */

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

	self->rules_fd = fcntl(LAUNCH_FD_RULES, F_SETFD, FD_CLOEXEC) == 0 ? LAUNCH_FD_RULES : -1;

	(void)umask(S_IRWXG | S_IRWXO); /* cannot fail */
	(void)setsid();			/* fails when it leads one already */
	(void)chdir("/");		/* else it keeps one file system busy, no more */

	/* Root's session keyring leads to keys of the system's, and who inherits it may read them.
	 * An own one is empty. Where there are no keyrings there is none to inherit. */
	if (geteuid() == 0)
		(void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);

	int laid_down = privilege_lay_down();
	if (laid_down < 0)
		return err_set(err, laid_down, "giving up CAP_SYS_RESOURCE: %s",
			       err_describe(laid_down));
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

/* Those that its user has now; whatever reads the launch from here on has no others either. */
static int main_know_groups(struct supervisor *self, struct err *err)
{
	bool is_changed = false;
	int rc = groups_refresh(&self->launch.spec, &is_changed, err);
	crash_point("supervisor.groups_known");
	return rc == 0 && is_changed ? groups_replace_launch(&self->launch, err) : rc;
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
	(void)prepare_cgroup(&self->launch, &self->cgroup, &why);
	crash_point("supervisor.cgroup_made");
	self->has_image = self->launch.spec.image[0] != '\0';
	if (self->has_image) {
		image_prepare(&self->launch, &self->cgroup, why.text, &self->image);
		sandbox_judge_image(&self->launch, &self->image, &self->sandbox);
	} else {
		sandbox_prepare(&self->launch, &self->cgroup, self->rules_fd, why.text,
				&self->sandbox);
	}

	cleanup_close_fn(&self->rules_fd);
	self->rules_fd = -1;
	prepare_limits(&self->launch, &self->cgroup, &self->limit);
	if (self->limit.why[0])
		sandbox_add_why(&self->sandbox, "limits", self->limit.why);
	if (self->limit.why_no_pids[0])
		sandbox_add_why(&self->sandbox, "processes not limited", self->limit.why_no_pids);
	sandbox_describe(&self->sandbox, text);
	crash_point("supervisor.guarded");
	agents_say(&self->agents, CONTROL_HELLO, getpid(), CONTROL_CAN_LIMIT, text);

	return 0;
}

static int main_open_desk(struct supervisor *self, struct err *err)
{
	if (self->tokens.count == 0)
		return 0;

	struct note note = {.pid = getpid(), .uid = self->launch.spec.uid};
	note.since_s = (uint64_t)clock_unix_ns() / 1000000000;
	prepare_set_name(&self->launch, &note);

	int rc = desk_init(&self->desk, &note, err);
	self->has_desk = rc == 0;
	for (size_t i = 0; rc == 0 && i < self->tokens.count; i++)
		rc = desk_open_at(&self->desk, self->tokens.tokens[i].socket_fd, err);

	return rc;
}

/* Who types at a job's terminal uses it, whatever its GPUs do. */
static void main_on_used(void *context)
{
	struct supervisor *self = context;
	uint64_t now_ns = clock_real_ns();
	if (now_ns < self->used_again_ns)
		return;
	self->used_again_ns = now_ns + MAIN_USED_NS;
	agents_say(&self->agents, CONTROL_USED, 0, 0, NULL);
	agents_unsay(&self->agents, CONTROL_USED);
}

static int main_open_outputs(struct supervisor *self, struct err *err)
{
	const struct spec *spec = &self->launch.spec;
	int given = jobdir_give(LAUNCH_FD_DIRECTORY, spec->uid, spec->gid, err);
	if (given < 0)
		return given;

	self->out_fd = prepare_output(LAUNCH_FD_DIRECTORY, &self->launch, "out", err);
	if (self->out_fd < 0)
		return self->out_fd;

	crash_point("supervisor.out_opened");
	self->err_fd = prepare_output(LAUNCH_FD_DIRECTORY, &self->launch, "err", err);
	if (self->err_fd < 0)
		return self->err_fd;

	crash_point("supervisor.err_opened");
	int rc = output_open(&self->output, LAUNCH_FD_DIRECTORY, &self->launch, &self->out_fd,
			     &self->err_fd, err);
	/* Another attempt would have no terminal either: this one says why. */
	if (rc < 0 && spec->pty) {
		self->no_terminal = *err;
		return 0;
	}

	if (rc < 0)
		return rc;

	order_open(&self->order, LAUNCH_FD_DIRECTORY, &self->launch, self->out_fd, self->err_fd);
	struct watch_source source = order_source(&self->order);
	if (source.fd >= 0 && run_listen(self, &source) == 0)
		order_listen(&self->order, &self->sources[self->source_count - 1]);
	if (rc == 0)
		return 0;

	if (self->launch.spec.wants.idle_ns > 0) {
		self->output.terminal.used = main_on_used;
		self->output.terminal.context = self;
	}

	source = output_source(&self->output);
	self->order.drain = source.ready;
	self->order.context = source.context;
	return run_listen(self, &source);
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
	int rc = prepare_tokens(&self->launch, &self->tokens, err);

	crash_point("supervisor.tokens_taken");
	if (rc == -EBUSY) {
		agents_say(&self->agents, CONTROL_TOKENS_BUSY, 0, 0, err->text);
		if (agents_count(&self->agents) == 0)
			job_watch_idle(&self->agents, NULL, MAIN_BUSY_MS);
		return LAUNCH_EXIT_TOKENS_BUSY;
	}

	if (rc == 0)
		rc = main_open_desk(self, err);
	if (rc == 0)
		rc = main_open_outputs(self, err);
	if (rc == 0)
		rc = prepare_claim(&self->launch, &self->cgroup, &claim, err);
	if (rc < 0)
		return LAUNCH_EXIT_NOT_READY;

	rc = jobdir_claim(LAUNCH_FD_DIRECTORY, self->launch.attempt, &claim, err);
	crash_point("supervisor.claimed");
	if (rc < 0)
		return rc == -EEXIST ? LAUNCH_EXIT_CLAIMED : LAUNCH_EXIT_NOT_READY;

	agents_say(&self->agents, CONTROL_CLAIMED, 0, 0, claim.cgroup);
	return 0;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void main_write_result(struct supervisor *self)
{
	struct err err = {0};
	int wait_ms = MAIN_RETRY_MS;

	self->result.ended_unix_ns = clock_unix_ns();
	self->result.was_cancelled = jobdir_is_cancelled(LAUNCH_FD_DIRECTORY);
	if (self->sandbox.level != ISOLATION_ENV)
		(void)snprintf(self->result.isolation, sizeof(self->result.isolation), "%s",
			       isolation_level_to_string(self->sandbox.level)); /* fits */

	bool has_told = false;

	while (jobdir_write_result(LAUNCH_FD_DIRECTORY, self->launch.attempt, &self->result, &err) <
	       0) {
		if (!has_told)
			agents_say(&self->agents, CONTROL_NO_ROOM, 0, 0, err.text);
		has_told = true;
		job_watch_idle(&self->agents, NULL, wait_ms);
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

static void main_remove_groups(struct supervisor *self)
{
	if (self->cgroup.fd < 0)
		return;
	(void)cgroup_remove(&self->cgroup, NULL); /* an empty one is in nobody's way */

	/* A runtime makes them in every hierarchy, and workers have their own. */
	if (self->has_image || self->launch.spec.wants.workers > 0) {
		cgroup_remove_v1(self->cgroup.path, true);
		return;
	}

	cgroup_remove_one_v1(self->limit.late);
	cgroup_remove_one_v1(self->sandbox.devices_v1);
	for (size_t i = 0; i < self->limit.group_count; i++)
		cgroup_remove_one_v1(self->limit.groups[i]);
}

/* Gives the cgroup and the tokens back: whoever hears of the result may take them. */
static void main_clear(struct supervisor *self)
{
	main_remove_groups(self);
	crash_point("supervisor.cgroup_removed");
	main_let_go(self);
	crash_point("supervisor.tokens_released");
}

static void main_on_end(struct supervisor *self)
{
	const struct onend onend = {
	    .agents = &self->agents,
	    .desk = self->has_desk ? &self->desk : NULL,
	    .cgroup = &self->cgroup,
	    .sandbox = &self->sandbox,
	    .limit = self->has_image ? NULL : &self->limit,
	    .devices_v1 = self->has_image ? self->image.devices_v1 : self->sandbox.devices_v1,
	    .needs_cgroup = self->has_image ? self->image.is_guarded : self->sandbox.has_rules,
	    .signal_fd = self->signal_fd,
	    .was_cancelled = jobdir_is_cancelled(LAUNCH_FD_DIRECTORY),
	    .result = &self->result};
	onend_run(&onend);
}

static enum launch_exit main_supervise(struct supervisor *self, struct err *err)
{
	if (main_listen(self, err) < 0)
		return LAUNCH_EXIT_NOT_READY;

	enum launch_exit code = main_claim(self, err);
	if (code != LAUNCH_EXIT_DONE) {
		/* One of the same attempt may be about to use the cgroup of this name. */
		if (code != LAUNCH_EXIT_CLAIMED)
			main_remove_groups(self);
		return code;
	}

	main_leave_error();
	if (jobdir_is_cancelled(LAUNCH_FD_DIRECTORY)) {
		self->result.end = JOBDIR_CANCELLED;
		self->result.exit_code = RUN_EXIT_CANCELLED;
	} else {
		bool has_on_end = self->launch.spec.on_end[0] != '\0'; /* it is let go */

		run_command(self);
		if (has_on_end)
			main_on_end(self);
	}

	main_clear(self);
	main_write_result(self);
	agents_say(&self->agents, CONTROL_RESULT, 0, 0, NULL);
	job_watch_idle(&self->agents, NULL, 0); /* who has just come hears it as well */
	crash_point("supervisor.said_result");
	/* The socket's file goes with the job. ext4 without a journal does not use an inode again
	 * for minutes after it was deleted, and looks at each of those whenever it makes a file
	 * (recently_deleted() in fs/ext4/ialloc.c). */
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
	run_remove_container(self);
	main_clear(self);
	return LAUNCH_EXIT_DONE;
}

/* Of no job. What it says goes to whoever asked systemd for the scope. */
static int main_keep(const char *group)
{
	struct err err = {0};
	if (keep_start(group, &err) == 0)
		return EXIT_SUCCESS;
	(void)fprintf(stderr, "sluice-supervise: %s\n", err.text);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--keep") == 0)
		return main_keep(argv[2]);

	struct supervisor self = {.signal_fd = -1,
				  .rules_fd = -1,
				  .out_fd = -1,
				  .err_fd = -1,
				  .output = OUTPUT_NONE,
				  .order = ORDER_NONE,
				  .cgroup = CGROUP_NONE,
				  .init = INIT_NONE,
				  .image = IMAGE_NONE};
	struct err err = {0};

	if (argc == 2 && strcmp(argv[1], "--clear") == 0)
		return clear_run();

	bool is_removal = argc == 2 && strcmp(argv[1], "--remove") == 0;
	if (spawned_is_asked(argc, argv) && !spawned_serve(argv))
		return EXIT_SUCCESS;

	agents_init(&self.agents, -1);
	crash_point("supervisor.born");
	launch_init(&self.launch);

	enum launch_exit code = LAUNCH_EXIT_BAD_LAUNCH;

	if (main_set_up(&self, &err) == 0 &&
	    prepare_launch(LAUNCH_FD_LAUNCH, &self.launch, &err) == 0) {
		crash_point("supervisor.launch_read");
		code = main_know_groups(&self, &err) < 0 ? LAUNCH_EXIT_NOT_READY
		       : is_removal			 ? main_remove(&self)
							 : main_supervise(&self, &err);
	}

	if (code != LAUNCH_EXIT_DONE)
		main_complain(&self, &err);
	main_done(&self);
	return (int)code;
}
