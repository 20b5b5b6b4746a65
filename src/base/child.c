/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"

enum { CHILD_PROGRAM_MAX = 32 /* "/proc/self/fd/N" */ };

enum child_state {
	CHILD_RUNNING,
	CHILD_ENDED,
};

struct child {
	struct child_set *set; /* borrowed: the set outlives its children */
	struct child *next;    /* in the set */
	enum child_state state;
	pid_t pid;
	int pidfd; /* owned; -1: SIGCHLD tells */
	bool leads_session;
	bool is_released; /* nobody holds it: gone when it ends */
	child_callback callback;
	void *context;
	struct loop_fd *watch;	  /* owned; of the pidfd */
	struct loop_timer *grace; /* owned; runs between child_stop()'s signals */
	struct loop_task gone;
};

struct child_set {
	struct loop *loop; /* borrowed */
	enum child_watch watch;
	struct loop_signal *sigchld; /* owned; tells of the children without pidfd */
	struct child *first;	     /* owned */
	size_t count;
	struct loop_task gone;
};

extern char **environ;

static void child_free_memory(void *context)
{
	struct child *child = context;
	if (child->pidfd >= 0)
		(void)close(child->pidfd);
	free(child);
}

/* Takes the child out of its set; its memory goes at the end of the loop's pass. */
static void child_drop(struct child *child)
{
	struct child_set *set = child->set;

	for (struct child **at = &set->first; *at; at = &(*at)->next) {
		if (*at == child) {
			*at = child->next;
			set->count--;
			break;
		}
	}

	child->watch = loop_fd_free(child->watch);
	child->grace = loop_timer_free(child->grace);
	loop_defer(set->loop, &child->gone, child_free_memory, child);
}

static struct child_end child_end_of(const siginfo_t *info)
{
	return (struct child_end){
	    .was_killed = info->si_code != CLD_EXITED,
	    .dumped_core = info->si_code == CLD_DUMPED,
	    .value = info->si_status,
	};
}

/* Reaps the child and tells, if it has ended; says whether it had. The pid is ours alone until
 * then. */
static bool child_look(struct child *child)
{
	if (child->state != CHILD_RUNNING)
		return false;

	siginfo_t info = {0};
	int rc = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG);
	if (rc == 0 && info.si_pid == 0)
		return false;
	if (rc < 0 && errno != ECHILD)
		return false; /* cannot be: WNOHANG is never interrupted */

	struct child_end end = rc < 0 ? (struct child_end){.is_lost = true} : child_end_of(&info);

	child->state = CHILD_ENDED;
	child->watch = loop_fd_free(child->watch);
	loop_timer_stop(child->grace);

	if (child->is_released)
		child_drop(child);
	else
		child->callback(child, &end, child->context); /* may free the child */

	return true;
}

static void child_on_pidfd(int fd, unsigned events, void *context)
{
	(void)child_look(context);
}

/* SIGCHLD says only that some child ended: all are looked at. A callback may free any of them and
 * start others, so the walk begins again after each that ended. */
static void child_set_look(void *context)
{
	struct child_set *set = context;
	struct child *child = set->first;
	while (child) {
		bool ended = child->pidfd < 0 && child_look(child);
		child = ended ? set->first : child->next;
	}
}

static void child_set_free_memory(void *context)
{
	free(context);
}

struct child_set *child_set_new(struct loop *loop, enum child_watch watch, struct err *err)
{
	struct child_set *set = calloc(1, sizeof(*set));
	if (!set) {
		(void)err_set(err, -ENOMEM, "out of memory for child processes");
		return NULL;
	}

	set->loop = loop;
	set->watch = watch;
	set->sigchld = loop_signal_new(loop, SIGCHLD, child_set_look, set, err);
	if (!set->sigchld) {
		free(set);
		return NULL;
	}

	return set;
}

struct child_set *child_set_free(struct child_set *set)
{
	if (!set)
		return NULL;
	while (set->first)
		child_drop(set->first);
	set->sigchld = loop_signal_free(set->sigchld);
	loop_defer(set->loop, &set->gone, child_set_free_memory, set);
	return NULL;
}

size_t child_set_count(const struct child_set *set)
{
	return set->count;
}

/* The descriptors of a child while it is being started: copies above every target, so that no
 * dup2() overwrites one that is still needed ({5->3, 3->5}). */
struct child_copies {
	int fd[CHILD_FDS_MAX];
	size_t count;
	int program_fd; /* of spec->program_fd: open in the child until it is executed; 0: none */
};

static void child_copies_close(struct child_copies *copies)
{
	for (size_t i = 0; i < copies->count; i++)
		(void)close(copies->fd[i]);
	if (copies->program_fd > 0)
		(void)close(copies->program_fd);
}

/* The highest number under which the child has a descriptor. */
static int child_highest(const struct child_spec *spec)
{
	int highest = STDERR_FILENO;

	for (size_t i = 0; i < spec->fd_count; i++)
		if (spec->fds[i].target > highest)
			highest = spec->fds[i].target;

	return highest;
}

static int child_copies_make(const struct child_spec *spec, struct child_copies *out,
			     struct err *err)
{
	int lowest = child_highest(spec) + 1;

	for (size_t i = 0; i < spec->fd_count; i++) {
		int source = spec->fds[i].source;
		int fd = fcntl(source, F_DUPFD_CLOEXEC, lowest);
		if (fd < 0)
			return err_set(err, -errno, "descriptor %d for '%s': %s", source,
				       spec->path, err_describe(errno));

		out->fd[out->count++] = fd;
	}

	if (spec->program_fd > 0) {
		int fd = fcntl(spec->program_fd, F_DUPFD_CLOEXEC, lowest);
		if (fd < 0)
			return err_set(err, -errno, "the program '%s', descriptor %d: %s",
				       spec->path, spec->program_fd, err_describe(errno));

		out->program_fd = fd;
	}

	return 0;
}

static int child_check_fds(const struct child_spec *spec, struct err *err)
{
	if (spec->fd_count > CHILD_FDS_MAX)
		return err_set(err, -EINVAL, "'%s' was to get %zu descriptors, at most %d",
			       spec->path, spec->fd_count, CHILD_FDS_MAX);

	for (size_t i = 0; i < spec->fd_count; i++) {
		int target = spec->fds[i].target;
		bool bad = target < 0 || target > CHILD_TARGET_MAX;
		for (size_t j = 0; j < i; j++)
			bad = bad || spec->fds[j].target == target;

		if (bad)
			return err_set(err, -EINVAL, "'%s' cannot get descriptor %d", spec->path,
				       target);
	}

	return 0;
}

static bool child_gets(const struct child_spec *spec, int target)
{
	for (size_t i = 0; i < spec->fd_count; i++) {
		if (spec->fds[i].target == target)
			return true;
	}
	return false;
}

/* All return 0 or an errno, as the posix_spawn functions do. */
static int child_fd_actions(const struct child_spec *spec, const struct child_copies *copies,
			    posix_spawn_file_actions_t *actions)
{
	int rc = 0;
	int highest = child_highest(spec);

	for (size_t i = 0; i < spec->fd_count && rc == 0; i++)
		rc = posix_spawn_file_actions_adddup2(actions, copies->fd[i], spec->fds[i].target);

	for (int fd = 0; fd <= highest && rc == 0; fd++) {
		bool is_stream = fd <= STDERR_FILENO;
		if (child_gets(spec, fd) ||
		    (is_stream && spec->shares_streams && fcntl(fd, F_GETFD) >= 0))
			continue;

		if (is_stream)
			rc = posix_spawn_file_actions_addopen(
			    actions, fd, "/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
		else
			rc = posix_spawn_file_actions_addclose(actions, fd);
	}

	/* The program is named by its descriptor, which closes as it is executed. */
	for (int fd = highest + 1; fd < copies->program_fd && rc == 0; fd++)
		rc = posix_spawn_file_actions_addclose(actions, fd);

	if (rc == 0)
		rc = posix_spawn_file_actions_addclosefrom_np(
		    actions, (copies->program_fd > 0 ? copies->program_fd : highest) + 1);

	return rc;
}

static int child_spawn_with(const struct child_spec *spec, const struct child_copies *copies,
			    posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
			    pid_t *out_pid)
{
	char program[CHILD_PROGRAM_MAX];
	sigset_t none, all;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)snprintf(program, sizeof(program), "/proc/self/fd/%d", copies->program_fd); /* fits */

	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;

	if (spec->new_session)
		flags |= POSIX_SPAWN_SETSID;

	int rc = posix_spawnattr_setflags(attributes, flags);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(attributes, &none);
	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(attributes, &all);
	if (rc == 0)
		rc = child_fd_actions(spec, copies, actions);

	if (rc == 0 && spec->directory)
		rc = posix_spawn_file_actions_addchdir_np(actions, spec->directory);
	if (rc == 0)
		rc = posix_spawnp(out_pid, copies->program_fd > 0 ? program : spec->path, actions,
				  attributes, spec->argv,
				  spec->environment ? spec->environment : environ);

	return rc;
}

int child_spawn(const struct child_spec *spec, pid_t *out_pid, struct err *err)
{
	struct child_copies copies = {.count = 0};
	int rc = child_check_fds(spec, err);
	if (rc == 0)
		rc = child_copies_make(spec, &copies, err);

	if (rc == 0) {
		posix_spawn_file_actions_t actions;
		posix_spawnattr_t attributes;

		(void)posix_spawn_file_actions_init(&actions); /* glibc: neither allocates */
		(void)posix_spawnattr_init(&attributes);
		rc = -child_spawn_with(spec, &copies, &actions, &attributes, out_pid);
		(void)posix_spawnattr_destroy(&attributes);
		(void)posix_spawn_file_actions_destroy(&actions);

		if (rc < 0)
			(void)err_set(err, rc, "cannot start '%s'%s%s%s: %s", spec->path,
				      spec->directory ? " in '" : "",
				      spec->directory ? spec->directory : "",
				      spec->directory ? "'" : "", err_describe(rc));
	}

	child_copies_close(&copies);
	return rc;
}

int child_spawn_orphan(const struct child_spec *spec, struct err *err)
{
	pid_t between = fork();
	if (between < 0)
		return err_set(err, -errno, "cannot start '%s': %s", spec->path,
			       err_describe(-errno));

	if (between == 0) {
		pid_t pid;
		(void)setsid(); /* cannot fail: a child that was just born leads no group */
		_exit(-child_spawn(spec, &pid, NULL));
	}

	int status =
	    0; /* of one that somebody else has reaped (SIGCHLD is ignored) nothing is known */
	while (waitpid(between, &status, 0) < 0 && errno == EINTR)
		;

	int code = WIFEXITED(status) ? -WEXITSTATUS(status) : -EAGAIN;
	return code == 0
		   ? 0
		   : err_set(err, code, "cannot start '%s': %s", spec->path, err_describe(code));
}

/* Everything that can fail besides starting is done before, so that no child runs unwatched. The
 * pidfd can fail afterwards: then SIGCHLD tells. */
static void child_open_pidfd(struct child *child)
{
	if (child->set->watch == CHILD_WATCH_SIGNAL)
		return;

	/* It has O_CLOEXEC by itself. The child is ours and not reaped, so the pid is right. */
	int fd = pidfd_open(child->pid, 0);
	if (fd < 0)
		return;

	child->watch = loop_fd_new(child->set->loop, fd, LOOP_READ, child_on_pidfd, child, NULL);
	if (child->watch)
		child->pidfd = fd;
	else
		(void)close(fd);
}

static void child_on_grace(void *context)
{
	struct child *child = context;
	(void)(child->leads_session ? child_kill_group(child, SIGKILL)
				    : child_kill(child, SIGKILL)); /* it may just have ended */
}

static int child_spawn_itself(void *how, const struct child_spec *spec, pid_t *out_pid,
			      struct err *err)
{
	return child_spawn(spec, out_pid, err);
}

struct child *child_start(struct child_set *set, const struct child_spec *spec,
			  child_callback callback, void *context, struct err *err)
{
	return child_start_by(set, spec, child_spawn_itself, NULL, callback, context, err);
}

struct child *child_start_by(struct child_set *set, const struct child_spec *spec,
			     child_spawner spawn, void *how, child_callback callback, void *context,
			     struct err *err)
{
	struct child *child = calloc(1, sizeof(*child));
	if (!child) {
		(void)err_set(err, -ENOMEM, "out of memory to start '%s'", spec->path);
		return NULL;
	}

	*child = (struct child){
	    .set = set,
	    .pidfd = -1,
	    .leads_session = spec->new_session,
	    .callback = callback,
	    .context = context,
	};
	child->grace = loop_timer_new(set->loop, child_on_grace, child, err);
	if (!child->grace || spawn(how, spec, &child->pid, err) < 0) {
		child->grace = loop_timer_free(child->grace);
		free(child);
		return NULL;
	}

	child->next = set->first;
	set->first = child;
	set->count++;
	child_open_pidfd(child);

	return child;
}

struct child *child_free(struct child *child)
{
	if (!child)
		return NULL;
	if (child->state == CHILD_RUNNING)
		child->is_released = true;
	else
		child_drop(child);
	return NULL;
}

pid_t child_pid(const struct child *child)
{
	return child->pid;
}

bool child_is_running(const struct child *child)
{
	return child->state == CHILD_RUNNING;
}

int child_kill(struct child *child, int signo)
{
	if (child->state != CHILD_RUNNING)
		return -ESRCH;

	int rc = -1;

	errno = ENOSYS;
	if (child->pidfd >= 0)
		rc = pidfd_send_signal(child->pidfd, signo, NULL, 0);
	if (rc < 0 && (errno == ENOSYS || errno == EPERM)) /* missing, or forbidden by seccomp */
		rc = kill(child->pid, signo);

	return rc < 0 ? -errno : 0;
}

int child_kill_group(struct child *child, int signo)
{
	assert(child->leads_session);
	if (child->state != CHILD_RUNNING)
		return -ESRCH;
	return kill(-child->pid, signo) < 0 ? -errno : 0;
}

int child_stop(struct child *child, int signo, uint64_t grace_ns)
{
	int rc = child->leads_session ? child_kill_group(child, signo) : child_kill(child, signo);
	if (rc == 0)
		loop_timer_start(child->grace, grace_ns);
	return rc;
}

const char *child_end_to_string(const struct child_end *end, char out[CHILD_END_TEXT])
{
	const char *name = end->was_killed ? sigabbrev_np(end->value) : NULL;

	if (end->is_lost)
		(void)snprintf(out, CHILD_END_TEXT, "ended, how is not known"); /* all fit */
	else if (name)
		(void)snprintf(out, CHILD_END_TEXT, "killed by SIG%s%s", name,
			       end->dumped_core ? " (core dumped)" : "");
	else if (end->was_killed)
		(void)snprintf(out, CHILD_END_TEXT, "killed by signal %d%s", end->value,
			       end->dumped_core ? " (core dumped)" : "");
	else
		(void)snprintf(out, CHILD_END_TEXT, "exit code %d", end->value);

	return out;
}
