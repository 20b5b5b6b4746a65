/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/spec.h"
#include "libexec/supervise/command.h"

enum { COPY_BLOCK = 16384, COPY_EXIT_FAILED = 1 };

static _Noreturn void copy_fail(const char *path, int code)
{
	(void)dprintf(STDERR_FILENO, "sluice: no copy of the output in '%.512s': %s\n", path,
		      err_describe(code));
	_exit(COPY_EXIT_FAILED);
}

static int copy_open(const struct spec *spec)
{
	struct stat info;

	(void)umask(spec->umask); /* cannot fail */
	/* Not through a link that somebody has laid in its place, and nothing that blocks. */
	int fd = open(
	    spec->output,
	    O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
	if (fd < 0 || fstat(fd, &info) < 0)
		return -errno;

	return S_ISREG(info.st_mode) ? fd : -EINVAL;
}

/* Signals stay blocked, as they are in a supervisor: what is for the job is not for this one. */
static _Noreturn void copy_main(const struct spec *spec, pid_t supervisor, int read_fd,
				int error_fd)
{
	char block[COPY_BLOCK];

	(void)prctl(PR_SET_NAME, "sluice-copy", 0, 0, 0);
	if (dup2(read_fd, STDIN_FILENO) < 0 || dup2(error_fd, STDERR_FILENO) < 0)
		_exit(COPY_EXIT_FAILED);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0); /* the job's lock and tokens: not its own */
	(void)setsid();

	int code = command_become_user(spec);
	if (code < 0)
		copy_fail(spec->output, code);

	/* Nobody of the same user shall get hold of a process that is outside the job's cgroup. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != supervisor)
		_exit(COPY_EXIT_FAILED);

	int fd = copy_open(spec);
	if (fd < 0)
		copy_fail(spec->output, fd);

	for (;;) {
		ssize_t length = read(STDIN_FILENO, block, sizeof(block));
		if (length == 0)
			_exit(0);
		if (length < 0 && errno != EINTR)
			_exit(COPY_EXIT_FAILED);

		for (ssize_t done = 0; done < length;) {
			ssize_t written = write(fd, block + done, (size_t)(length - done));
			if (written < 0 && errno != EINTR)
				copy_fail(spec->output, -errno);
			done += written > 0 ? written : 0;
		}
	}
}

pid_t copy_start(const struct spec *spec, int error_fd, int *out_fd, struct err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(errno));

	_cleanup_close_ int read_fd = ends[0];
	_cleanup_close_ int write_fd = ends[1];

	if (fcntl(write_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, -errno, "setting up a pipe: %s", err_describe(errno));

	pid_t me = getpid(), pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "starting a process: %s", err_describe(errno));
	if (pid == 0)
		copy_main(spec, me, read_fd, error_fd);
	*out_fd = take_fd(&write_fd);

	return pid;
}
