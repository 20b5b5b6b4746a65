/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/command.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/execute.h"
#include "base/file.h"
#include "job/cgroup/cglimit.h"
#include "job/launch.h"
#include "libexec/supervise/init.h"
#include "libexec/supervise/landlock.h"
#include "libexec/supervise/nodes.h"
#include "libexec/supervise/privilege.h"

enum command_exit {
	COMMAND_EXIT_LAUNCH = 125,
	COMMAND_EXIT_EXEC = 126,
	COMMAND_EXIT_NOT_FOUND = 127,
};

enum {
	COMMAND_LOOK_MS = 100,	  /* at whether it is still wanted */
	COMMAND_ERRNO_MAX = 4095, /* the kernel's */
};

enum command_stage {
	COMMAND_CGROUP, /* no reason not to start */
	COMMAND_STDIO,
	COMMAND_USER,
	COMMAND_LIMITS,
	COMMAND_DIRECTORY,
	COMMAND_DEATH,
	COMMAND_DESCRIPTORS,
	COMMAND_EXEC,
	COMMAND_DEVICES,
	COMMAND_LANDLOCK,
	COMMAND_PRIVILEGES,
	COMMAND_MOUNTS,
	COMMAND_HELPER, /* `why` says it */
	COMMAND_NOTE,	/* it goes on, and `why` says what is to be known of it */
};

/* What the new process writes into the pipe that its exec closes. */
struct command_failure {
	int32_t stage, code;
	char why[COMMAND_WHY_MAX];
};

_Static_assert(sizeof(struct command_failure) <= PIPE_BUF, "written and read at once");

/* --- the new process -------------------------------------------------------------------------- */

static void command_tell(int fd, enum command_stage stage, int code)
{
	struct command_failure failure = {.stage = stage, .code = code};
	(void)!write(fd, &failure, sizeof(failure)); /* the reader sees it missing */
}

void command_tell_why(int fd, const char *why)
{
	struct command_failure failure = {.stage = COMMAND_HELPER, .code = -ENOEXEC};
	(void)snprintf(failure.why, sizeof(failure.why), "%.*s", COMMAND_WHY_MAX - 1, why);
	(void)!write(fd, &failure, sizeof(failure)); /* as above */
}

void command_tell_note(int fd, const char *note)
{
	struct command_failure failure = {.stage = COMMAND_NOTE};
	(void)snprintf(failure.why, sizeof(failure.why), "%.*s", COMMAND_WHY_MAX - 1, note);
	(void)!write(fd, &failure, sizeof(failure)); /* as above */
}

static int command_set_stdio(const struct job_command *command)
{
	int in_fd = command->has_terminal ? command->out_fd
		    : command->argv && command->in_fd >= 0
			? command->in_fd
			: open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in_fd < 0 || dup2(in_fd, STDIN_FILENO) < 0 ||
	    dup2(command->out_fd, STDOUT_FILENO) < 0 || dup2(command->err_fd, STDERR_FILENO) < 0)
		return -errno;

	/* It leads a session that has none yet. */
	if (command->has_terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
		return -errno;

	return 0;
}

/* Leaving root takes the effective and permitted capabilities; nothing may be left to bring them
 * back by an exec. */
static int command_drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

int command_become_user(const struct spec *spec)
{
	if (geteuid() != 0)
		return spec->uid == geteuid() ? 0 : -EPERM;
	if (setgroups(spec->group_count, spec->groups) < 0 ||
	    setresgid(spec->gid, spec->gid, spec->gid) < 0 ||
	    setresuid(spec->uid, spec->uid, spec->uid) < 0)
		return -errno;
	return spec->uid == 0 ? 0 : command_drop_capabilities();
}

static rlim_t command_limit(uint64_t value)
{
	return value == UINT64_MAX ? RLIM_INFINITY : (rlim_t)value;
}

/* The submitter's, as far as the job's user may set them here: it says itself what it has, so its
 * word raises no limit of the agent's. */
static int command_set_limits(const struct spec *spec)
{
	for (size_t i = 0; i < spec->limit_count; i++) {
		const struct spec_limit *wanted = &spec->limits[i];
		__rlimit_resource_t resource = (__rlimit_resource_t)wanted->resource;
		struct rlimit now, limit = {.rlim_cur = command_limit(wanted->soft),
					    .rlim_max = command_limit(wanted->hard)};
		if (setrlimit(resource, &limit) == 0 || errno == EINVAL)
			continue; /* EINVAL: a resource that this kernel does not have */

		if (errno != EPERM || getrlimit(resource, &now) < 0)
			return -errno;
		if (limit.rlim_max > now.rlim_max)
			limit.rlim_max = now.rlim_max;
		if (limit.rlim_cur > limit.rlim_max)
			limit.rlim_cur = limit.rlim_max;
		if (setrlimit(resource, &limit) < 0)
			return -errno;
	}

	return 0;
}

/* All but the standard ones are closed by exec, except for the tokens. */
static int command_set_descriptors(const struct job_command *command, int failed_fd)
{
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0) {
		/* Before Linux 5.11. Each of ours is O_CLOEXEC already. */
		if (errno != ENOSYS && errno != EINVAL)
			return -errno;
	}

	for (size_t i = 0; i < command->token_count; i++) {
		const struct token *token = &command->tokens[i];
		if (fcntl(token->socket_fd, F_SETFD, 0) < 0 ||
		    (token->lock_fd >= 0 && fcntl(token->lock_fd, F_SETFD, 0) < 0))
			return -errno;
	}

	/* Theirs is at 5; the helper makes it O_CLOEXEC again for what it executes, as it is here.
	 */
	if (command->helper &&
	    (fcntl(LAUNCH_FD_LAUNCH, F_SETFD, 0) < 0 || dup2(failed_fd, COMMAND_FD_WHY) < 0 ||
	     fcntl(COMMAND_FD_WHY, F_SETFD, 0) < 0))
		return -errno;

	return 0;
}

static int command_become(const struct job_command *command, pid_t supervisor, int failed_fd,
			  enum command_stage *out_stage)
{
	const struct spec *spec = command->spec;
	int code;

	*out_stage = COMMAND_STDIO;
	if ((code = command_set_stdio(command)) < 0)
		return code;

	*out_stage = COMMAND_USER;
	if ((code = command_become_user(spec)) < 0)
		return code;

	(void)umask(spec->umask); /* cannot fail */
	*out_stage = COMMAND_LIMITS;
	if ((code = command_set_limits(spec)) < 0)
		return code;

	*out_stage = COMMAND_DIRECTORY;
	if (chdir(spec->directory) < 0)
		return -errno;

	/* Not earlier: a change of user takes it back. */
	*out_stage = COMMAND_DEATH;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -errno;

	/* Who is outside of its namespace has no number in it. */
	if (getppid() != (command->init ? 0 : supervisor))
		return -ECHILD; /* it died before that; nobody reads this */

	*out_stage = COMMAND_PRIVILEGES;
	if (command->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;

	*out_stage = COMMAND_DESCRIPTORS;
	return command_set_descriptors(command, failed_fd);
}

static int command_join_one(const char *directory)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "%s/cgroup.procs", directory);
	if (rc < 0)
		return rc;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && write(fd, "0", 1) == 1 ? 0 : -errno; /* 0: who writes */
}

static int command_join_v1(const struct job_command *command)
{
	int rc = 0;
	if (command->devices_v1 && *command->devices_v1)
		rc = command_join_one(command->devices_v1);
	for (size_t i = 0; rc == 0 && command->limit && i < command->limit->group_count; i++)
		rc = command_join_one(command->limit->groups[i]);
	return rc;
}

/* What has to be done while it is still root, if it is. */
static int command_confine(const struct job_command *command, enum command_stage *out_stage)
{
	*out_stage = COMMAND_DEVICES;
	int code = command_join_v1(command);
	*out_stage = code < 0 ? COMMAND_DEVICES : COMMAND_MOUNTS;
	if (code == 0 && command->init)
		code = init_join_mounts(command->init);
	return code;
}

/* Ours, what a nohup around the agent left ignored, and the two that glibc keeps for itself, which
 * its posix_spawn() ignores in children of threaded programs and signal() refuses to touch. SIGKILL
 * and SIGSTOP stay as they are. */
static void command_default_signals(void)
{
	static const unsigned long
	    action[8]; /* the kernel's, longer than it is anywhere: SIG_DFL */
	for (int number = 1; number < NSIG; number++)
		(void)syscall(SYS_rt_sigaction, number, action, NULL, NSIG / 8);
}

/* `is_inside`: of its cgroup, from birth. */
static _Noreturn void command_main(const struct job_command *command, bool is_inside,
				   pid_t supervisor, int failed_fd)
{
	sigset_t none;

	privilege_take_up();
	(void)sigemptyset(&none); /* these two cannot fail */
	command_default_signals();
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid(); /* a new process is never a leader */

	int code = command->cgroup && !is_inside ? cgroup_join(command->cgroup) : 0;
	if (code < 0)
		command_tell(failed_fd, COMMAND_CGROUP, code);
	if (code < 0 && command->needs_cgroup)
		_exit(COMMAND_EXIT_LAUNCH);

	enum command_stage stage;
	code = command_confine(command, &stage);
	if (code < 0) {
		command_tell(failed_fd, stage, code);
		_exit(COMMAND_EXIT_LAUNCH);
	}

	struct err why = {0};
	code = command->nodes ? nodes_apply(command->nodes, &why) : 0;
	if (code < 0) {
		command_tell_why(failed_fd, why.text);
		_exit(COMMAND_EXIT_LAUNCH);
	}

	/* Inside of it nothing can be mounted any more. */
	code = command->landlock ? landlock_restrict(command->landlock) : 0;
	if (code < 0) {
		command_tell(failed_fd, COMMAND_LANDLOCK, code);
		_exit(COMMAND_EXIT_LAUNCH);
	}

	code = command_become(command, supervisor, failed_fd, &stage);
	if (code == 0 && command->helper) {
		stage = COMMAND_EXEC;
		environ = command->environment;
		(void)execv(command->helper[0], command->helper);
		code = -errno;
	} else if (code == 0) {
		stage = COMMAND_EXEC;
		environ = command->environment; /* whose PATH is searched */
		char *const *argv = command->argv ? command->argv : command->spec->argv;
		code = execute(argv);
	}

	command_tell(failed_fd, stage, code);
	_exit(COMMAND_EXIT_LAUNCH);
}

/* --- the supervisor --------------------------------------------------------------------------- */

static int command_error(const struct job_command *command, struct command_failure *failure,
			 struct err *err)
{
	const struct spec *spec = command->spec;
	const char *name = command->helper ? command->helper[0]
			   : command->argv ? command->argv[0]
					   : spec->argv[0];

	/* The job's user may have written it. */
	failure->why[COMMAND_WHY_MAX - 1] = '\0';
	if (failure->code >= 0 || failure->code < -COMMAND_ERRNO_MAX)
		failure->code = -EPROTO;

	const char *why = err_describe(failure->code);

	switch ((enum command_stage)failure->stage) {
	case COMMAND_USER:
		return err_set(err, failure->code, "becoming user %u, group %u: %s",
			       (unsigned)spec->uid, (unsigned)spec->gid, why);
	case COMMAND_LIMITS:
		return err_set(err, failure->code, "setting the job's resource limits: %s", why);
	case COMMAND_DIRECTORY:
		return err_set(err, failure->code, "changing to the directory '%.128s': %s",
			       spec->directory, why);
	case COMMAND_EXEC:
		return err_set(err, failure->code, "executing '%.128s': %s", name, why);
	case COMMAND_DEVICES:
		return err_set(err, failure->code, "joining the job's groups of cgroup v1: %s",
			       why);
	case COMMAND_CGROUP:
		return err_set(err, failure->code, "joining '%s', which has its device rules: %s",
			       command->cgroup->path, why);
	case COMMAND_LANDLOCK:
		return err_set(err, failure->code, "putting Landlock around it: %s", why);
	case COMMAND_PRIVILEGES:
		return err_set(err, failure->code, "setting no_new_privs: %s", why);
	case COMMAND_MOUNTS:
		return err_set(err, failure->code, "joining its mount namespace: %s", why);
	case COMMAND_HELPER:
		return err_set(err, -ENOEXEC, "%s", failure->why);
	default:
		return err_set(err, failure->code, "preparing the command's process: %s", why);
	}
}

/*
 * As fork(). Born in the cgroup where the kernel can do it (Linux 5.7): to move a process that runs
 * takes the kernel some 10 ms, for it waits until every processor has noticed.
 */
static pid_t command_fork(const struct cgroup *cgroup, bool *out_is_inside)
{
	*out_is_inside = false;
	if (cgroup) {
		struct clone_args how = {.flags = CLONE_INTO_CGROUP,
					 .exit_signal = SIGCHLD,
					 .cgroup = (uint64_t)cgroup->fd};
		pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof(how));

		*out_is_inside = pid >= 0;
		if (pid >= 0)
			return pid;
	}

	return fork();
}

/* As read(). -ECANCELED: it is not wanted any more. */
static ssize_t command_read(const struct job_command *command, int fd, struct command_failure *out)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	ssize_t length;

	while (poll(&wait, 1, COMMAND_LOOK_MS) <= 0) {
		if (command->give_up && command->give_up(command->context))
			return -ECANCELED;
	}

	do {
		length = read(fd, out, sizeof(*out));
	} while (length < 0 && errno == EINTR);
	return length;
}

int command_start(const struct job_command *command, struct command_outcome *out, struct err *err)
{
	*out = (struct command_outcome){.pid = -1, .exit_code = COMMAND_EXIT_LAUNCH};
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int read_fd = ends[0];
	_cleanup_close_ int write_fd = ends[1];
	pid_t me = getpid();
	bool is_inside;
	int entered = command->init ? init_enter(command->init) : 0;
	if (entered < 0)
		return err_set(err, entered, "entering its PID namespace: %s",
			       err_describe(entered));

	pid_t pid = command_fork(command->cgroup, &is_inside);
	if (pid != 0 && command->init)
		init_leave(command->init);
	if (pid < 0)
		return err_set(err, -errno, "starting a process: %s", err_describe(errno));
	if (pid == 0)
		command_main(command, is_inside, me, write_fd);

	(void)close(take_fd(&write_fd));
	struct command_failure failure;
	ssize_t length = command_read(command, read_fd, &failure);
	/* Whoever was born there has nothing to say about it: that is a helper's user. */
	if (length == sizeof(failure) && failure.stage == COMMAND_CGROUP && !is_inside &&
	    !command->needs_cgroup) {
		out->cgroup_code = failure.code;
		length = command_read(command, read_fd, &failure);
	}

	if (length == sizeof(failure) && failure.stage == COMMAND_NOTE && command->helper) {
		(void)snprintf(out->note, sizeof(out->note), "%.*s", COMMAND_WHY_MAX - 1,
			       failure.why);
		length = command_read(command, read_fd, &failure);
	}

	if (length == -ECANCELED) {
		(void)kill(pid, SIGKILL); /* not reaped, so the number is its own */
		out->given_up = true;
	}

	if (length != sizeof(failure)) {
		out->pid = pid;
		return 0;
	}

	if (command->helper)
		(void)kill(pid, SIGKILL); /* it is its user's: nobody waits for it */
	(void)waitpid(pid, NULL, 0);	  /* it has exited or is about to */

	if (failure.stage == COMMAND_EXEC && !command->helper)
		out->exit_code =
		    failure.code == -ENOENT ? COMMAND_EXIT_NOT_FOUND : COMMAND_EXIT_EXEC;

	return command_error(command, &failure, err);
}
