/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/foreground.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "doors/queue/tree.h"

enum { FOREGROUND_DEPTH_MAX = 64 };

struct foreground {
	struct supervise supervise;
	struct foreground_result *result;
	foreground_tell_fn tell;
	void *context;
	uint64_t interrupted_ns; /* the last Ctrl-C; 0: none */
	uint64_t continued_ns;	 /* when we were, and the command was not yet; 0: it was too */
	bool ended, gone;
};

static uint64_t foreground_clock_ns(clockid_t clock)
{
	struct timespec now;
	(void)clock_gettime(clock, &now); /* cannot fail on Linux */
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* The terminal's signals went to the whole group: to the command too, if it is still in it. While
 * its pid is not known yet it is: it joins before it is executed. */
static bool foreground_has_it(const struct foreground *self, const struct signalfd_siginfo *info)
{
	pid_t command = self->result->command;
	return info->ssi_code == SI_KERNEL && (command == 0 || getpgid(command) == getpgrp());
}

static void foreground_interrupt(struct foreground *self, const struct signalfd_siginfo *info)
{
	uint64_t now_ns = foreground_clock_ns(CLOCK_MONOTONIC);
	bool again = self->interrupted_ns && now_ns - self->interrupted_ns < FOREGROUND_SECOND_NS;
	self->interrupted_ns = now_ns;
	if (again || self->ended)
		supervise_send(&self->supervise, SUPERVISE_KILL, 0);
	else if (!foreground_has_it(self, info))
		supervise_send(&self->supervise, SUPERVISE_SIGNAL, SIGINT);
}

/* Somebody stopped or killed the supervisor. */
static void foreground_look_after(struct foreground *self)
{
	int status;
	if (waitpid(self->supervise.pid, &status, WNOHANG | WUNTRACED) == self->supervise.pid &&
	    WIFSTOPPED(status))
		(void)kill(self->supervise.pid, SIGCONT); /* nobody has a reason to stop it */
}

static void foreground_signal(struct foreground *self, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;
	switch (number) {
	case SIGCHLD:
		foreground_look_after(self);
		return;
	case SIGTTIN:
	case SIGTTOU:
		return; /* the command gets its own, and then we stop with it */
	case SIGINT:
		foreground_interrupt(self, info);
		return;
	case SIGCONT:
		/* Mostly for the whole group, so the command has it. Passing it on now could undo
		 * the next Ctrl-Z, which may have come already: first see whether it goes on. */
		if ((pid_t)info->ssi_pid != self->supervise.pid)
			self->continued_ns = foreground_clock_ns(CLOCK_MONOTONIC);
		return;
	case SIGTERM:
		if (self->ended) {
			supervise_send(&self->supervise, SUPERVISE_KILL, 0);
			return;
		}
		break;
	default:
		break;
	}
	if (!foreground_has_it(self, info))
		supervise_send(&self->supervise, SUPERVISE_SIGNAL, number);
}

/* Whether a shell will notice that we stand still: one of our ancestors is in our session and in
 * another process group. Otherwise nobody would ever continue us. */
static bool foreground_has_shell(void)
{
	pid_t group = getpgrp(), session = getsid(0);
	struct tree_process process = {.parent = getppid()};
	for (int depth = 0; depth < FOREGROUND_DEPTH_MAX && process.parent > 0; depth++) {
		pid_t parent = process.parent;
		if (getsid(parent) != session)
			return false;
		if (getpgid(parent) != group)
			return true;
		if (tree_read(parent, &process, NULL) < 0)
			return false;
	}
	return false;
}

/* The command has stopped: so do we, or the shell would never come back. By SIGSTOP and not by
 * SIGTSTP: for that it would have to be unblocked, and the next Ctrl-Z could stop us behind our
 * back. */
static void foreground_stop(const struct foreground *self)
{
	struct tree_process command;
	if (tree_read(self->result->command, &command, NULL) < 0 || command.state != 'T')
		return; /* it goes on already: an old message */
	if (foreground_has_shell())
		(void)raise(SIGSTOP); /* here we stand still */
}

static void foreground_message(struct foreground *self, const struct supervise_message *message)
{
	struct foreground_result *result = self->result;
	switch (message->kind) {
	case SUPERVISE_STARTED:
		result->command = message->value;
		result->started_unix_ns = (int64_t)foreground_clock_ns(CLOCK_REALTIME);
		break;
	case SUPERVISE_FAILED:
		result->launch_error = message->value;
		self->gone = true;
		break;
	case SUPERVISE_STOPPED:
		self->continued_ns = 0;
		foreground_stop(self);
		break;
	case SUPERVISE_CONTINUED:
		self->continued_ns = 0;
		supervise_send(&self->supervise, SUPERVISE_AWAKE, 0);
		break;
	case SUPERVISE_ENDED:
		result->status = message->value;
		result->ended_unix_ns = (int64_t)foreground_clock_ns(CLOCK_REALTIME);
		self->ended = true;
		break;
	case SUPERVISE_GONE:
		result->killed = message->value;
		self->gone = true;
		break;
	default:
		break;
	}
	if (self->tell)
		self->tell(self->context, message->kind, message->value);
}

static void foreground_lost(struct foreground *self)
{
	struct foreground_result *result = self->result;
	result->supervisor_lost = true;
	if (self->tell)
		self->tell(self->context, SUPERVISE_LOST, 0);
	supervise_take_over(&self->supervise);
	if (!self->ended) {
		result->status = SIGKILL; /* of which the kernel kept its promise */
		result->ended_unix_ns = (int64_t)foreground_clock_ns(CLOCK_REALTIME);
	}
	self->gone = true;
}

/* We alone were continued (kill -CONT with our pid): the command is to go on with us. */
static int foreground_wake_command(struct foreground *self)
{
	if (!self->continued_ns)
		return -1;
	uint64_t passed_ns = foreground_clock_ns(CLOCK_MONOTONIC) - self->continued_ns;
	if (passed_ns < FOREGROUND_WAKE_NS)
		return (int)((FOREGROUND_WAKE_NS - passed_ns) / 1000000) + 1;
	self->continued_ns = 0;
	supervise_send(&self->supervise, SUPERVISE_SIGNAL, SIGCONT);
	return -1;
}

static void foreground_loop(struct foreground *self, int signal_fd)
{
	while (!self->gone) {
		struct pollfd wait[] = {{.fd = signal_fd, .events = POLLIN},
					{.fd = self->supervise.control_fd, .events = POLLIN}};
		if (poll(wait, array_length(wait), foreground_wake_command(self)) < 0)
			continue; /* EINTR after a stop: signals themselves are blocked */
		struct signalfd_siginfo info;
		while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
			foreground_signal(self, &info);
		struct supervise_message message;
		while (!self->gone && supervise_receive(&self->supervise, &message) > 0) {
			if (message.kind == SUPERVISE_LOST)
				foreground_lost(self);
			else
				foreground_message(self, &message);
		}
	}
}

static int foreground_block_signals(sigset_t *old, struct err *err)
{
	static const int heard[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,	SIGUSR1, SIGUSR2,
				    SIGTSTP, SIGCONT, SIGCHLD, SIGTTIN, SIGTTOU};
	sigset_t set;
	(void)sigemptyset(&set); /* cannot fail, nor can adding known signals */
	for (size_t i = 0; i < array_length(heard); i++)
		(void)sigaddset(&set, heard[i]);
	if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || sigprocmask(SIG_BLOCK, &set, old) < 0)
		return err_set(err, -errno, "blocking signals: %s", err_describe(errno));
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd >= 0 ? fd : err_set(err, -errno, "making a signalfd: %s", err_describe(errno));
}

int foreground_run(struct supervise_job *job, foreground_tell_fn tell, void *context,
		   struct foreground_result *out, struct err *err)
{
	*out = (struct foreground_result){0};
	struct foreground self = {.result = out, .tell = tell, .context = context};
	_cleanup_close_ int signal_fd = foreground_block_signals(&job->signal_mask, err);
	if (signal_fd < 0)
		return signal_fd;
	job->process_group = getpgrp();
	int result = supervise_start(job, &self.supervise, err);
	if (result == 0) {
		foreground_loop(&self, signal_fd);
		/* Its copies of the tokens are gone only when it is. */
		while (self.supervise.pid > 0 && waitpid(self.supervise.pid, NULL, 0) < 0 &&
		       errno == EINTR)
			;
		supervise_done(&self.supervise);
	}
	/* Interrupts that came after the job's end were meant for the job: they must not end us,
	 * whose exit code tells how the job ended. */
	struct signalfd_siginfo late;
	while (read(signal_fd, &late, sizeof(late)) == (ssize_t)sizeof(late))
		;
	(void)sigprocmask(SIG_SETMASK, &job->signal_mask, NULL); /* as it was: cannot fail */
	return result;
}

int foreground_exit_code(const struct foreground_result *result)
{
	if (result->launch_error)
		return result->launch_error == -ENOENT ? 127 : 126;
	if (WIFSIGNALED(result->status))
		return 128 + WTERMSIG(result->status);
	return WEXITSTATUS(result->status);
}
