/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crash.h"
#include "job/tree.h"
#include "libexec/supervise/init.h"

enum {
	WATCH_KILL_EACH_MS = 10,   /* between two rounds of killing what is left */
	WATCH_KILL_SLOW_MS = 1000, /* the same, when that does not help */
	WATCH_LOOK_MS = 1000,	   /* for a cgroup whose end nobody tells */
	WATCH_TIMEOUT_MAX_MS = 3600000,
	WATCH_EVENTS_MAX = 256,
	WATCH_GROUP_ROUNDS = 2,
	WATCH_EXIT_TERM = 128 + SIGTERM, /* of a shell whose command it has ended */
	WATCH_OWN = 3, /* descriptors that are polled beside those of agents and sources */
};

static const struct clock watch_clock; /* the real one */

#define WATCH_TELL_NS  UINT64_C(1000000000) /* for what ends by itself soon after the command */
#define WATCH_TERM_NS  UINT64_C(2000000000) /* between the command's SIGTERM and ours */
#define WATCH_STUCK_NS UINT64_C(2000000000) /* what lives so long after SIGKILL is stuck */

static uint64_t watch_after_ns(uint64_t delay_ns)
{
	uint64_t now_ns = clock_now_ns(&watch_clock);
	return delay_ns < WATCH_NEVER - now_ns ? now_ns + delay_ns : WATCH_NEVER;
}

/* --- ending it -------------------------------------------------------------------------------- */

static size_t watch_count(const struct job_watch *self)
{
	size_t count = 0, ours = self->init_lives;
	if (self->cgroup->fd >= 0 && cgroup_count(self->cgroup, &count, NULL) == 0 && count > 0)
		return count - ours;

	struct tree_process *list = NULL;

	count = 0;
	(void)tree_list(getpid(), 0, &list, &count, NULL); /* then 0: only a figure to show */
	free(list);

	return count > ours ? count - ours : 0;
}

/* A signal for everything of the job, and SIGKILL for what is left after `grace_ns`. */
static void watch_stop(struct job_watch *self, int signal_number, uint64_t grace_ns)
{
	size_t count;

	self->was_told = self->was_told || self->command_lives;
	if (grace_ns > 0 && self->passes_signals && self->command_lives) {
		(void)kill(-self->command, signal_number); /* not reaped: the number is its own */
	} else if (grace_ns > 0) {
		(void)tree_signal_groups(getpid(), signal_number, &count,
					 NULL); /* SIGKILL follows */
		/* What stands still cannot hear it. */
		if (signal_number != SIGSTOP && signal_number != SIGTSTP)
			(void)tree_signal_groups(getpid(), SIGCONT, &count, NULL);
	}

	uint64_t at_ns = watch_after_ns(grace_ns);
	if (at_ns < self->kill_at_ns)
		self->kill_at_ns = at_ns;
}

static void watch_begin_killing(struct job_watch *self)
{
	self->is_killing = true;
	self->killing_since_ns = clock_now_ns(&watch_clock);
	/* A thousand busy processes would leave us a thousandth; where we may not, so be it. */
	(void)setpriority(PRIO_PROCESS, 0, -20);
	if (!self->command_lives)
		self->killed_leftovers = (uint32_t)watch_count(self);
}

/* Whether the job is not killed yet, because somebody was asked to end it. */
static bool watch_asks(struct job_watch *self)
{
	if (self->has_asked || !self->before_kill)
		return false;

	self->has_asked = true;
	if (self->before_kill(self->context) < 0)
		return false;

	self->was_ended_by_asking = self->command_lives;
	self->kill_at_ns = watch_after_ns(WATCH_ASK_NS);
	return true;
}

static void watch_kill_round(struct job_watch *self)
{
	size_t count = 0;

	if (self->command_lives)
		(void)kill(-self->command, SIGKILL); /* most of it, and needs no look at /proc */

	bool has_killed = self->cgroup->fd >= 0 && cgroup_kill(self->cgroup, NULL) == 0;
	/* What left the cgroup, or was never in it; and what changes its process group all the
	 * time. When /proc cannot be read the next round tries again. */
	if (!has_killed || self->kill_rounds > 0)
		(void)tree_signal_groups(getpid(), SIGKILL, &count, NULL);
	if (self->kill_rounds > WATCH_GROUP_ROUNDS)
		(void)tree_kill(getpid(), 0, self->kill_rounds, &count, NULL);
	self->kill_rounds++;

	if (!self->is_stuck &&
	    clock_now_ns(&watch_clock) - self->killing_since_ns >= WATCH_STUCK_NS) {
		self->is_stuck = true;
		agents_say(self->agents, CONTROL_STUCK, (int64_t)watch_count(self), 0, NULL);
	}
}

/* --- its time --------------------------------------------------------------------------------- */

/* It may run so long, counted from its start; 0: as long as it likes. */
static void watch_set_deadline(struct job_watch *self, uint64_t deadline_ns)
{
	uint64_t before_ns = self->warning.before_ns, began_ns = self->began_ns;
	bool warns = self->warning.signal != 0 && !self->has_warned && deadline_ns > 0;

	self->deadline_ns = deadline_ns;
	self->deadline_at_ns = deadline_ns > 0 && deadline_ns < WATCH_NEVER - began_ns
				   ? began_ns + deadline_ns
				   : WATCH_NEVER;
	self->warn_at_ns = WATCH_NEVER;
	if (warns && self->deadline_at_ns != WATCH_NEVER)
		self->warn_at_ns =
		    deadline_ns > before_ns ? self->deadline_at_ns - before_ns : began_ns;
}

/*
 * A shell that waits for its command dies of USR1 unless it traps it, and takes the job with it. So
 * those get the signal who have asked for it; and where nobody has, it means to end them.
 */
static void watch_warn(struct job_watch *self)
{
	int number = (int)self->warning.signal;
	struct tree_process *list = NULL;
	size_t count = 0, told = 0;

	self->has_warned = true;
	self->warn_at_ns = WATCH_NEVER;
	if (!self->command_lives || self->kill_at_ns != WATCH_NEVER)
		return; /* it is being ended already */

	self->was_told = true;
	bool is_for_all = !self->warning.command_alone && !self->passes_signals;
	if (is_for_all && tree_list(getpid(), self->aside, &list, &count, NULL) < 0)
		count = 0;

	for (size_t i = 0; i < count; i++) {
		if ((self->init && list[i].pid == self->init->pid) ||
		    tree_catches(list[i].pid, number) <= 0)
			continue;
		tree_signal_process(&list[i], number);
		told++;
	}

	free(list);
	/* Not reaped: the number is its own. */
	if (told == 0)
		(void)kill(self->warning.command_alone ? self->command : -self->command, number);
}

/* --- what happens ----------------------------------------------------------------------------- */

static void watch_command_ended(struct job_watch *self, int status)
{
	self->command_lives = false;
	self->ended_at_ns = clock_now_ns(&watch_clock);
	self->status = status;
	if (self->init)
		init_release(self->init);
	self->deadline_at_ns = self->warn_at_ns = WATCH_NEVER;
	crash_point("supervisor.command_ended");
	agents_say(self->agents, CONTROL_ENDED, status, 0, NULL);
	self->tell_at_ns = watch_after_ns(self->tells_late ? WATCH_TELL_NS : 0);

	uint64_t at_ns = watch_after_ns(self->grace_ns);
	if (at_ns < self->kill_at_ns)
		self->kill_at_ns = at_ns;
}

/* Whom we killed has not failed. */
static void watch_aside_ended(struct job_watch *self, int status)
{
	self->aside = 0; /* its number may be another's from now on */
	self->aside_failed = WIFEXITED(status) ? WEXITSTATUS(status) != 0 : !self->is_killing;
}

/* Takes in everybody who died. True while something of the job is left. */
static bool watch_reap(struct job_watch *self)
{
	pid_t pid;

	do {
		int status;
		pid = waitpid(-1, &status, WNOHANG | __WALL);

		/* Once it was reaped its number may be another's, of what it left. */
		if (pid > 0 && pid == self->command && self->command_lives)
			watch_command_ended(self, status);
		else if (pid > 0 && self->init_lives && pid == self->init->pid)
			self->init_lives = false;
		else if (pid > 0 && pid == self->aside)
			watch_aside_ended(self, status);
		else if (pid > 0 && self->reaped)
			self->reaped(self->reaped_context, pid, status);
	} while (pid > 0 || (pid < 0 && errno == EINTR));
	bool is_left = pid == 0;

	if (!is_left && self->cgroup->fd >= 0)
		is_left = cgroup_is_populated(self->cgroup, NULL) == 1;

	return is_left;
}

/* Once, after the command has ended. */
static void watch_tell_left(struct job_watch *self)
{
	if (clock_now_ns(&watch_clock) < self->tell_at_ns)
		return;
	self->tell_at_ns = WATCH_NEVER;
	/* What was started by what is being killed may be among them. */
	size_t count = self->is_killing ? 0 : watch_count(self);
	if (count > 0)
		agents_say(self->agents, CONTROL_LEFTOVERS, (int64_t)count, 0, NULL);
}

/* After the command has ended: nobody waits for those who wait for ever. */
static void watch_kill_idle(struct job_watch *self)
{
	struct tree_process *list = NULL;
	size_t count = 0;
	bool is_idle = self->is_idle && !self->command_lives && !self->is_killing &&
		       tree_list(getpid(), 0, &list, &count, NULL) == 0;

	for (size_t i = 0; is_idle && i < count; i++)
		is_idle = self->is_idle(list[i].pid);

	for (size_t i = 0; is_idle && i < count; i++)
		tree_signal_process(&list[i], SIGKILL);

	free(list);
}

static bool watch_is_signal(int64_t value)
{
	return value > 0 && value <= SIGRTMAX;
}

static void watch_ignore(const struct control_message *message, void *context)
{
}

static void watch_hear(const struct control_message *message, void *context)
{
	struct job_watch *self = context;
	if (message->kind == CONTROL_SIGNAL && watch_is_signal(message->value) &&
	    self->command_lives) {
		self->was_told = true;
		(void)kill(-self->command,
			   (int)message->value); /* not reaped: the number is its own */
	}

	/* The time that all attempts may run together, as it is from now on. */
	if (message->kind == CONTROL_LIMIT && message->value > 0 && self->command_lives &&
	    !self->has_hit_deadline) {
		uint64_t total_ns = (uint64_t)message->value;
		watch_set_deadline(self, total_ns > self->used_ns ? total_ns - self->used_ns : 1);
	}

	if (message->kind == CONTROL_IDLE && self->command_lives &&
	    self->kill_at_ns == WATCH_NEVER) {
		self->has_idled = true;
		watch_stop(self, SIGTERM, self->grace_ns);
	}

	if (message->kind == CONTROL_CANCEL) {
		int number = watch_is_signal(message->value) ? (int)message->value : SIGTERM;
		watch_stop(self, number,
			   message->extra == CONTROL_GRACE_OWN ? self->grace_ns : message->extra);
	}
}

static void watch_hear_signal(struct job_watch *self)
{
	struct signalfd_siginfo info;

	while (read(self->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo != SIGTERM || self->is_deaf)
			continue;

		/* Whoever ends all of the job tells the command and us in any order. */
		if (self->command_lives ||
		    clock_now_ns(&watch_clock) - self->ended_at_ns < WATCH_TERM_NS)
			self->was_terminated = true;

		watch_stop(self, SIGTERM, self->grace_ns);
	}
}

/* A command that ended as after a SIGTERM which we have not sent: ours may be on its way. */
static bool watch_expects_term(const struct job_watch *self)
{
	int status = self->status;
	if (self->is_deaf || self->was_told || self->was_terminated || self->ended_at_ns == 0)
		return false;

	return WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM
				   : WEXITSTATUS(status) == WATCH_EXIT_TERM;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int watch_until_ms(uint64_t at_ns)
{
	if (at_ns == WATCH_NEVER)
		return -1;
	uint64_t now_ns = clock_now_ns(&watch_clock);
	uint64_t left_ms = at_ns > now_ns ? (at_ns - now_ns) / 1000000 + 1 : 0;
	return left_ms < WATCH_TIMEOUT_MAX_MS ? (int)left_ms : WATCH_TIMEOUT_MAX_MS;
}

static int watch_timeout_ms(const struct job_watch *self)
{
	if (self->is_killing)
		return self->is_stuck ? WATCH_KILL_SLOW_MS : WATCH_KILL_EACH_MS;

	uint64_t at_ns =
	    self->deadline_at_ns < self->kill_at_ns ? self->deadline_at_ns : self->kill_at_ns;
	if (self->tell_at_ns < at_ns)
		at_ns = self->tell_at_ns;
	if (self->warn_at_ns < at_ns)
		at_ns = self->warn_at_ns;

	int timeout_ms = watch_until_ms(at_ns);
	/* Of what is in the cgroup and not our child only the kernel's event tells. */
	if (!self->command_lives && self->cgroup->fd >= 0 &&
	    (timeout_ms < 0 || timeout_ms > WATCH_LOOK_MS))
		timeout_ms = WATCH_LOOK_MS;

	return timeout_ms;
}

static size_t watch_source_count(const struct job_watch *self)
{
	return self->source_count < WATCH_SOURCES_MAX ? self->source_count : WATCH_SOURCES_MAX;
}

/* One that is called may change others, also those that have been polled. */
static void watch_serve_sources(struct job_watch *self, const struct pollfd *polled)
{
	for (size_t i = 0; i < watch_source_count(self); i++) {
		struct watch_source *source = &self->sources[i];
		if (polled[i].revents && polled[i].fd >= 0 && polled[i].fd == source->fd)
			source->ready(source->context, polled[i].revents);
	}
}

static void watch_poll(struct job_watch *self)
{
	struct pollfd wait[AGENTS_POLL_MAX + WATCH_OWN + WATCH_SOURCES_MAX];
	agents_poll(self->agents, wait);

	struct pollfd *own = &wait[AGENTS_POLL_MAX], *sources = own + WATCH_OWN;
	for (size_t i = 0; i < watch_source_count(self); i++)
		sources[i] =
		    (struct pollfd){.fd = self->sources[i].fd, .events = self->sources[i].events};

	own[0] = (struct pollfd){.fd = self->signal_fd, .events = POLLIN};
	own[1] = (struct pollfd){.fd = self->desk ? desk_fd(self->desk) : -1, .events = POLLIN};
	own[2] =
	    (struct pollfd){.fd = self->command_lives ? -1 : self->events_fd, .events = POLLPRI};

	nfds_t count = AGENTS_POLL_MAX + WATCH_OWN + watch_source_count(self);
	if (poll(wait, count, watch_timeout_ms(self)) <= 0)
		return;
	if (own[0].revents)
		watch_hear_signal(self);
	if (own[1].revents)
		desk_serve(self->desk);

	if (own[2].revents) {
		char text[WATCH_EVENTS_MAX]; /* read, or it says the same for ever */
		(void)!pread(self->events_fd, text, sizeof(text), 0);
	}

	watch_serve_sources(self, sources);
	agents_serve(self->agents, wait, self->is_deaf ? watch_ignore : watch_hear, self);
}

/* When nothing of the job is left: SIGTERM that has come by now, or comes right away. */
static void watch_last_signal(struct job_watch *self)
{
	uint64_t until_ns = self->ended_at_ns + WATCH_TERM_NS;

	watch_hear_signal(self);

	while (watch_expects_term(self) && clock_now_ns(&watch_clock) < until_ns) {
		struct pollfd wait[AGENTS_POLL_MAX + 2];
		struct pollfd *own = &wait[AGENTS_POLL_MAX];

		agents_poll(self->agents, wait);
		own[0] = (struct pollfd){.fd = self->signal_fd, .events = POLLIN};
		own[1] =
		    (struct pollfd){.fd = self->desk ? desk_fd(self->desk) : -1, .events = POLLIN};

		if (poll(wait, array_length(wait), watch_until_ms(until_ns)) <= 0)
			continue;

		watch_hear_signal(self);
		if (own[1].revents)
			desk_serve(self->desk);
		agents_serve(self->agents, wait, watch_ignore, self);
	}
}

void job_watch_run(struct job_watch *self)
{
	self->command_lives = self->command > 0;
	self->init_lives = self->init && self->init->pid > 0;
	if (self->init && !self->command_lives)
		init_release(self->init);
	self->tell_at_ns = WATCH_NEVER;
	self->kill_at_ns = self->command_lives ? WATCH_NEVER : clock_now_ns(&watch_clock);
	self->began_ns = clock_now_ns(&watch_clock);
	watch_set_deadline(self, self->deadline_ns);

	_cleanup_close_ int events_fd =
	    self->cgroup->fd >= 0 ? cgroup_watch(self->cgroup, NULL) : -1;
	self->events_fd = events_fd < 0 ? -1 : events_fd;
	while (watch_reap(self)) {
		watch_kill_idle(self);
		watch_tell_left(self);

		uint64_t now_ns = clock_now_ns(&watch_clock);
		if (now_ns >= self->warn_at_ns)
			watch_warn(self);
		if (now_ns >= self->deadline_at_ns) {
			self->has_hit_deadline = self->kill_at_ns == WATCH_NEVER;
			self->deadline_at_ns = WATCH_NEVER;
			watch_stop(self, SIGTERM, self->grace_ns);
		}

		if (now_ns >= self->kill_at_ns && !self->is_killing && !watch_asks(self))
			watch_begin_killing(self);
		if (self->is_killing)
			watch_kill_round(self);
		watch_poll(self);
	}

	watch_last_signal(self);
	agents_unsay(self->agents, CONTROL_LEFTOVERS);
	agents_unsay(self->agents, CONTROL_STUCK);
}

void job_watch_end(struct job_watch *self, uint64_t grace_ns)
{
	watch_stop(self, SIGTERM, grace_ns);
}

void job_watch_idle(struct agents *agents, struct desk *desk, int timeout_ms)
{
	struct pollfd wait[AGENTS_POLL_MAX + 1];
	agents_poll(agents, wait);
	wait[AGENTS_POLL_MAX] = (struct pollfd){.fd = desk ? desk_fd(desk) : -1, .events = POLLIN};
	if (poll(wait, array_length(wait), timeout_ms) <= 0)
		return;

	if (wait[AGENTS_POLL_MAX].revents)
		desk_serve(desk);
	agents_serve(agents, wait, watch_ignore, NULL);
}
