/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "job/cgroup/cgroup.h"

enum {
	INIT_PATH_MAX = 64,
	INIT_FDS_MAX = 4096,
	INIT_LOOK_MS = 200, /* for those in it who are nobody's child there */
};

/* --- the first process ------------------------------------------------------------------------ */

/* Mounts of the machine still come in, and none of ours goes out. */
static int init_mount_proc(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -errno;
	return 0;
}

static void init_reap(void)
{
	while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
		;
}

static _Noreturn void init_main(int alive_fd, int ready_fd)
{
	/* When the supervisor dies the kernel kills us, and all in here after us. */
	int code = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : init_mount_proc();
	sigset_t child;

	(void)sigemptyset(&child); /* these two cannot fail */
	(void)sigaddset(&child, SIGCHLD);

	int signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);

	(void)prctl(PR_SET_NAME, "sluice-init"); /* for people who look at ps */
	(void)setsid();
	(void)!write(ready_fd, &code, sizeof(code)); /* the reader sees it missing */

	if (code < 0)
		_exit(1);

	/* The lock, the tokens and the output are not ours to hold. */
	if (dup2(alive_fd, STDIN_FILENO) < 0 || dup2(signal_fd, STDOUT_FILENO) < 0)
		_exit(1);			    /* never: both numbers are there */
	if (close_range(STDERR_FILENO, ~0U, 0) < 0) /* before Linux 5.9 */
		for (int fd = STDERR_FILENO; fd < INIT_FDS_MAX; fd++)
			(void)close(fd);

	bool is_released = false;

	for (;;) {
		struct pollfd wait[] = {{.fd = STDOUT_FILENO, .events = POLLIN},
					{.fd = is_released ? -1 : STDIN_FILENO}};
		struct signalfd_siginfo info;

		(void)poll(wait, 2, is_released ? INIT_LOOK_MS : -1);

		while (read(STDOUT_FILENO, &info, sizeof(info)) == sizeof(info))
			;

		is_released = is_released || wait[1].revents; /* POLLHUP */
		init_reap();
		if (is_released && kill(-1, 0) < 0 && errno == ESRCH)
			_exit(0);
	}
}

/* --- the supervisor --------------------------------------------------------------------------- */

static pid_t init_fork(const struct cgroup *cgroup)
{
	struct clone_args how = {.flags = CLONE_NEWPID | CLONE_NEWNS, .exit_signal = SIGCHLD};
	if (cgroup->fd >= 0) {
		how.flags |= CLONE_INTO_CGROUP;
		how.cgroup = (uint64_t)cgroup->fd;
	}
	pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof(how));
	return pid < 0 ? -errno : pid;
}

static int init_open(pid_t pid, const char *name)
{
	char path[INIT_PATH_MAX];
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name); /* fits */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int init_open_root(pid_t pid)
{
	char path[INIT_PATH_MAX];
	(void)snprintf(path, sizeof(path), "/proc/%d/root", (int)pid); /* fits */
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int init_open_all(struct init *init)
{
	int fd = init_open(init->pid, "pid");
	if (fd < 0)
		return fd;

	init->pids_fd = fd;
	fd = init_open(init->pid, "mnt");
	if (fd < 0)
		return fd;

	init->mounts_fd = fd;
	fd = init_open(getpid(), "pid");
	if (fd < 0)
		return fd;

	init->outside_fd = fd;
	fd = init_open_root(init->pid);
	if (fd < 0)
		return fd;

	init->root_fd = fd;
	return 0;
}

static int init_wait_ready(int fd)
{
	int code;
	ssize_t length;
	do {
		length = read(fd, &code, sizeof(code));
	} while (length < 0 && errno == EINTR);
	return length == sizeof(code) ? code : -ECHILD;
}

int init_start(const struct cgroup *cgroup, struct init *out, struct err *err)
{
	int alive[2], ready[2];
	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int alive_read = alive[0];
	_cleanup_close_ int alive_write = alive[1];

	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int ready_read = ready[0];
	_cleanup_close_ int ready_write = ready[1];
	pid_t pid = init_fork(cgroup);
	if (pid < 0)
		return err_set(err, (int)pid, "making one: %s", err_describe((int)pid));

	if (pid == 0) {
		(void)close(take_fd(&alive_write)); /* or it would never see its end */
		init_main(alive_read, ready_write);
	}

	(void)close(take_fd(&ready_write));
	struct init init = INIT_NONE;
	init.pid = pid;

	int rc = init_wait_ready(ready_read);
	if (rc < 0)
		(void)err_set(err, rc, "mounting its /proc: %s", err_describe(rc));
	if (rc == 0 && (rc = init_open_all(&init)) < 0)
		(void)err_set(err, rc, "opening it: %s", err_describe(rc));

	if (rc < 0) {
		init_kill(&init);
		(void)waitpid(pid, NULL, 0);
		init_done(&init);
		return rc;
	}

	init.alive_fd = take_fd(&alive_write);
	*out = init;
	return 0;
}

int init_enter(const struct init *init)
{
	return setns(init->pids_fd, CLONE_NEWPID) < 0 ? -errno : 0;
}

void init_leave(const struct init *init)
{
	(void)setns(init->outside_fd, CLONE_NEWPID); /* one's own: allowed to whoever got in */
}

int init_join_mounts(const struct init *init)
{
	/* It leads to the root of the whole namespace, which is more than a service in a chroot
	 * has. */
	if (setns(init->mounts_fd, CLONE_NEWNS) < 0 || fchdir(init->root_fd) < 0 || chroot(".") < 0)
		return -errno;
	return 0;
}

void init_release(struct init *init)
{
	if (init->alive_fd >= 0)
		(void)close(take_fd(&init->alive_fd));
}

void init_kill(struct init *init)
{
	if (init->pid > 0)
		(void)kill(init->pid, SIGKILL); /* not reaped: the number is its own */
}

void init_done(struct init *init)
{
	init_release(init);
	const int fds[] = {init->pids_fd, init->mounts_fd, init->root_fd, init->outside_fd};
	for (size_t i = 0; i < array_length(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	*init = INIT_NONE;
}
