/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/queue/desk.h"
#include "doors/queue/tree.h"

enum { SUPERVISE_EXIT_LOST = 125 };

#define SUPERVISE_STUCK_NS UINT64_C(2000000000) /* what lives so long after SIGKILL is stuck */

/* Not the end: nothing there now, or (unix sockets, once) the peer closed without having read all
 * that we sent; what it sent itself is still to come then. */
static bool supervise_is_passing(int error)
{
	return error == EAGAIN || error == EINTR || error == ECONNRESET;
}

enum supervise_phase {
	SUPERVISE_PHASE_RUNNING,
	SUPERVISE_PHASE_ENDING,	 /* what is left has until the deadline */
	SUPERVISE_PHASE_KILLING, /* round after round */
};

struct supervisor {
	const struct supervise_job *job;
	pid_t starter, command;
	bool command_lives;
	int control_fd, signal_fd; /* control: -1 once the starter is gone */
	struct desk desk;
	enum supervise_phase phase;
	uint64_t deadline_ns; /* of ENDING */
	uint64_t killing_ns;  /* when KILLING began */
	unsigned kill_rounds;
	int32_t killed;
	bool is_stuck;
	bool owes_waking; /* the starter may have stopped itself after the command went on */
};

static uint64_t supervise_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail on Linux */
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void supervise_tell(struct supervisor *self, enum supervise_kind kind, int32_t value)
{
	struct supervise_message message = {.kind = kind, .value = value};
	/* A starter that is stopped for long may miss some; it hears the end from the kernel. */
	if (self->control_fd >= 0)
		(void)send(self->control_fd, &message, sizeof(message),
			   MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* --- the command's own process, between fork and exec ----------------------------------------- */

static void supervise_inherit(int fd)
{
	if (fd < 0)
		return;
	/* High, so that a script's "exec 3>file" does not close it; without O_CLOEXEC. */
	if (fcntl(fd, F_DUPFD, SUPERVISE_FD_MIN) < 0)
		(void)fcntl(fd, F_SETFD, 0); /* then where it is */
}

/* execvp(3) says "permission denied" when it may not look into one directory of PATH, also if the
 * command is nowhere; a shell says "not found" then. */
static int supervise_exec_error(const char *command, int code)
{
	const char *at = getenv("PATH");
	if (code != -EACCES || strchr(command, '/'))
		return code;
	while (at && *at) {
		char path[FILE_PATH_MAX];
		size_t length = strcspn(at, ":");
		if (file_path(path, NULL, "%.*s/%s", (int)length, at, command) == 0 &&
		    access(path, F_OK) == 0)
			return code;
		at += length + (at[length] == ':');
	}
	return -ENOENT;
}

static void supervise_exec(const struct supervisor *self, pid_t supervisor, int failed_fd)
{
	const struct supervise_job *job = self->job;
	int32_t code = 0;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		code = -errno;
	if (getppid() != supervisor) /* it died before that */
		_exit(SUPERVISE_EXIT_LOST);
	/* The starter's group may be gone: then one of our own is as good. */
	if (setpgid(0, job->process_group) < 0)
		(void)setpgid(0, 0);
	for (size_t i = 0; i < job->token_count; i++) {
		supervise_inherit(job->tokens[i].socket_fd);
		supervise_inherit(job->tokens[i].lock_fd);
	}
	(void)signal(SIGCHLD, SIG_DFL); /* cannot fail for these */
	(void)signal(SIGPIPE, SIG_DFL);
	if (code == 0 && sigprocmask(SIG_SETMASK, &job->signal_mask, NULL) == 0)
		(void)execvpe(job->argv[0], job->argv, job->envp); /* returns only on failure */
	if (code == 0)
		code = supervise_exec_error(job->argv[0], -errno);
	(void)!write(failed_fd, &code, sizeof(code));
	_exit(SUPERVISE_EXIT_LOST);
}

/* Starts the command. 0, or -errno of what kept it from running. */
static int supervise_launch(struct supervisor *self)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	_cleanup_close_ int read_fd = ends[0];
	_cleanup_close_ int write_fd = ends[1];
	pid_t me = getpid();
	self->command = fork();
	if (self->command < 0)
		return -errno;
	if (self->command == 0)
		supervise_exec(self, me, write_fd);

	(void)close(take_fd(&write_fd));
	int32_t code = 0;
	ssize_t length;
	do {
		length = read(read_fd, &code, sizeof(code));
	} while (length < 0 && errno == EINTR);
	if (length != sizeof(code)) {
		self->command_lives = true;
		return 0;
	}
	(void)waitpid(self->command, NULL, 0); /* it has exited or is about to */
	return code;
}

/* --- the supervisor's own life ---------------------------------------------------------------- */

static void supervise_begin_killing(struct supervisor *self)
{
	if (self->phase != SUPERVISE_PHASE_KILLING)
		self->killing_ns = supervise_now_ns();
	self->phase = SUPERVISE_PHASE_KILLING;
}

/* Ends all of the job politely: SIGTERM now, SIGKILL after the grace time. */
static void supervise_terminate(struct supervisor *self)
{
	if (self->phase == SUPERVISE_PHASE_KILLING)
		return;
	size_t count;
	(void)tree_signal(getpid(), 0, SIGTERM, &count, NULL); /* a failure leaves it to SIGKILL */
	(void)tree_signal(getpid(), 0, SIGCONT, &count, NULL);
	self->phase = SUPERVISE_PHASE_ENDING;
	self->deadline_ns = clock_after_ns(supervise_now_ns(), self->job->grace_ns);
}

static void supervise_kill_round(struct supervisor *self)
{
	size_t count = 0;
	/* When /proc cannot be read there is still the command itself. */
	if (tree_kill(getpid(), 0, self->kill_rounds, &count, NULL) < 0 && self->command_lives)
		(void)kill(self->command, SIGKILL);
	if (self->kill_rounds++ == 0)
		self->killed = (int32_t)count;
	if (!self->is_stuck && supervise_now_ns() - self->killing_ns >= SUPERVISE_STUCK_NS) {
		self->is_stuck = true;
		supervise_tell(self, SUPERVISE_STUCK, (int32_t)count);
	}
}

static void supervise_command_ended(struct supervisor *self, int status)
{
	self->command_lives = false;
	supervise_tell(self, SUPERVISE_ENDED, status);
	if (self->phase != SUPERVISE_PHASE_RUNNING)
		return;
	self->phase = SUPERVISE_PHASE_ENDING;
	self->deadline_ns = clock_after_ns(supervise_now_ns(), self->job->grace_ns);
	struct tree_process *list = NULL;
	size_t count = 0;
	if (tree_list(getpid(), 0, &list, &count, NULL) == 0 && count > 0)
		supervise_tell(self, SUPERVISE_LEFTOVERS, (int32_t)count);
	free(list);
}

/* Takes in everybody who died. True while there is a descendant left. */
static bool supervise_reap(struct supervisor *self)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL);
		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			return pid == 0;
		/* Once it was reaped its number may be another's, of what it left. */
		if (pid != self->command || !self->command_lives)
			continue;
		if (WIFSTOPPED(status)) {
			/* A wake-up for an older continuation would now undo the starter's stop. */
			self->owes_waking = false;
			supervise_tell(self, SUPERVISE_STOPPED, WSTOPSIG(status));
		} else if (WIFCONTINUED(status)) {
			supervise_tell(self, SUPERVISE_CONTINUED, 0);
			self->owes_waking = true;
		} else {
			supervise_command_ended(self, status);
		}
	}
}

static void supervise_hear(struct supervisor *self)
{
	struct supervise_message message;
	ssize_t length = recv(self->control_fd, &message, sizeof(message), MSG_DONTWAIT);
	if (length < 0 && supervise_is_passing(errno))
		return;
	if (length <= 0) { /* the starter is dead: nobody wants the job's result any more */
		(void)close(take_fd(&self->control_fd));
		supervise_terminate(self);
		return;
	}
	if (length != sizeof(message))
		return;
	if (message.kind == SUPERVISE_SIGNAL && self->command_lives)
		(void)kill(self->command, message.value); /* not reaped, so the pid is its own */
	if (message.kind == SUPERVISE_KILL)
		supervise_begin_killing(self);
	if (message.kind == SUPERVISE_AWAKE)
		self->owes_waking = false;
}

static void supervise_hear_signal(struct supervisor *self)
{
	struct signalfd_siginfo info;
	while (read(self->signal_fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGTERM)
			supervise_terminate(self);
}

static int supervise_timeout_ms(const struct supervisor *self)
{
	if (self->phase == SUPERVISE_PHASE_KILLING)
		return self->is_stuck ? SUPERVISE_KILL_SLOW_MS : SUPERVISE_KILL_EACH_MS;
	int64_t timeout_ms = -1;
	if (self->phase == SUPERVISE_PHASE_ENDING) {
		uint64_t now_ns = supervise_now_ns();
		timeout_ms = now_ns >= self->deadline_ns
				 ? 0
				 : (int64_t)((self->deadline_ns - now_ns) / 1000000 + 1);
		if (timeout_ms > 3600000)
			timeout_ms = 3600000; /* look again each hour */
	}
	if (self->owes_waking && (timeout_ms < 0 || timeout_ms > SUPERVISE_WAKE_EACH_MS))
		timeout_ms = SUPERVISE_WAKE_EACH_MS;
	return (int)timeout_ms;
}

static void supervise_watch_over(struct supervisor *self)
{
	while (supervise_reap(self)) {
		if (self->phase == SUPERVISE_PHASE_ENDING &&
		    supervise_now_ns() >= self->deadline_ns)
			supervise_begin_killing(self);
		if (self->phase == SUPERVISE_PHASE_KILLING)
			supervise_kill_round(self);
		if (self->owes_waking && self->control_fd >= 0)
			(void)kill(self->starter, SIGCONT); /* our parent while that is open */

		struct pollfd wait[] = {{.fd = self->signal_fd, .events = POLLIN},
					{.fd = desk_fd(&self->desk), .events = POLLIN},
					{.fd = self->control_fd, .events = POLLIN}};
		if (poll(wait, array_length(wait), supervise_timeout_ms(self)) <= 0)
			continue;
		if (wait[0].revents)
			supervise_hear_signal(self);
		if (wait[1].revents)
			desk_serve(&self->desk);
		if (wait[2].revents && self->control_fd >= 0)
			supervise_hear(self);
	}
}

/* Nothing of ours may keep the other end of the job's pipes and terminals open. */
static void supervise_leave_stdio(void)
{
	_cleanup_close_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null_fd >= 0 && fd <= 2; fd++)
		if (dup2(null_fd, fd) < 0)
			return;
}

static int supervise_prepare(struct supervisor *self, struct err *err)
{
	(void)prctl(PR_SET_NAME, "sluice-job", 0, 0, 0); /* for people who look at ps */
	/* Signals of the terminal are for the command's group, not for us. */
	if (setpgid(0, 0) < 0)
		return err_set(err, -errno, "making a process group: %s", err_describe(errno));
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "becoming a subreaper: %s", err_describe(errno));
	sigset_t all, heard;
	(void)sigfillset(&all); /* these three cannot fail */
	(void)sigemptyset(&heard);
	(void)sigaddset(&heard, SIGCHLD);
	(void)sigaddset(&heard, SIGTERM);
	if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return err_set(err, -errno, "blocking signals: %s", err_describe(errno));
	self->signal_fd = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
	if (self->signal_fd < 0)
		return err_set(err, -errno, "making a signalfd: %s", err_describe(errno));

	struct note note = self->job->note;
	int result = desk_init(&self->desk, &note, err);
	for (size_t i = 0; result == 0 && i < self->job->token_count; i++)
		result = desk_open_at(&self->desk, self->job->tokens[i].socket_fd, err);
	return result;
}

static void supervise_main(const struct supervise_job *job, pid_t starter, int control_fd)
{
	struct supervisor self = {.job = job,
				  .starter = starter,
				  .control_fd = control_fd,
				  .signal_fd = -1,
				  .desk = {.epoll_fd = -1}};
	int result = supervise_prepare(&self, NULL);
	if (result == 0)
		result = supervise_launch(&self);
	if (result < 0) {
		supervise_tell(&self, SUPERVISE_FAILED, result);
		_exit(SUPERVISE_EXIT_LOST);
	}
	supervise_tell(&self, SUPERVISE_STARTED, self.command);
	supervise_leave_stdio();
	supervise_watch_over(&self);
	supervise_tell(&self, SUPERVISE_GONE, self.killed);
	_exit(0);
}

/* --- the starter's side ----------------------------------------------------------------------- */

int supervise_start(const struct supervise_job *job, struct supervise *out, struct err *err)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_set(err, -errno, "becoming a subreaper: %s", err_describe(errno));
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_set(err, -errno, "making a socket pair: %s", err_describe(errno));
	_cleanup_close_ int ours = ends[0];
	_cleanup_close_ int theirs = ends[1];
	pid_t me = getpid();
	pid_t pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "starting the job's supervisor: %s",
			       err_describe(errno));
	if (pid == 0) {
		(void)close(take_fd(&ours)); /* or we would never see the starter's end */
		supervise_main(job, me, take_fd(&theirs));
	}
	*out = (struct supervise){.pid = pid, .control_fd = take_fd(&ours)};
	return 0;
}

void supervise_done(struct supervise *supervise)
{
	if (supervise->control_fd >= 0)
		(void)close(supervise->control_fd);
	*supervise = (struct supervise){.pid = -1, .control_fd = -1};
}

int supervise_receive(struct supervise *supervise, struct supervise_message *out)
{
	struct supervise_message message;
	ssize_t length = recv(supervise->control_fd, &message, sizeof(message), MSG_DONTWAIT);
	if (length < 0 && supervise_is_passing(errno))
		return 0;
	if (length != sizeof(message))
		message = (struct supervise_message){.kind = SUPERVISE_LOST};
	*out = message;
	return 1;
}

void supervise_send(const struct supervise *supervise, enum supervise_kind kind, int32_t value)
{
	struct supervise_message message = {.kind = kind, .value = value};
	(void)send(supervise->control_fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void supervise_take_over(struct supervise *supervise)
{
	const struct timespec pause_ = {.tv_nsec = SUPERVISE_KILL_EACH_MS * 1000000};
	for (unsigned round = 0;; round++) {
		size_t count;
		(void)tree_kill(getpid(), 0, round, &count, NULL); /* until nobody is left */
		pid_t pid;
		do {
			pid = waitpid(-1, NULL, WNOHANG | __WALL);
		} while (pid > 0 || (pid < 0 && errno == EINTR));
		if (pid < 0)
			break;			/* ECHILD: nobody */
		(void)nanosleep(&pause_, NULL); /* between two looks; an interrupted one is fine */
	}
	supervise->pid = -1;
}

const char *supervise_kind_to_string(uint32_t kind)
{
	static const char *const names[] = {"started", "failed",    "stopped", "continued",
					    "ended",   "leftovers", "stuck",   "gone",
					    "signal",  "kill",	    "awake",   "lost"};
	return kind < array_length(names) ? names[kind] : "unknown";
}
