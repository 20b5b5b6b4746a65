/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum { CALL_PIECE = 4096, CALL_SIGNAL_BASE = 128 };

bool call_is_there(const char *name)
{
	const char *at = getenv("PATH");

	while (at && *at) {
		char path[FILE_PATH_MAX];
		struct stat status;
		size_t length = strcspn(at, ":");
		if (file_path(path, NULL, "%.*s/%s", (int)length, at, name) == 0 &&
		    stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
			return true;

		at += length + (at[length] == ':');
	}

	return false;
}

static _Noreturn void call_become(char *const *argv, enum call_errors errors, int write_fd)
{
	int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	bool is_read = write_fd >= 0 && errors == CALL_ERRORS_READ;
	(void)dup2(write_fd >= 0 && !is_read ? write_fd : null_fd, STDOUT_FILENO);
	if (errors != CALL_ERRORS_SHOWN)
		(void)dup2(is_read ? write_fd : null_fd, STDERR_FILENO);
	(void)execvp(argv[0], argv);
	_exit(errno == ENOENT ? CALL_EXIT_NOT_FOUND : CALL_EXIT_EXEC);
}

/* What does not fit is read all the same: whoever writes into a pipe that is closed dies of it. */
static void call_read(int fd, struct buf *out)
{
	char piece[CALL_PIECE];
	bool has_room = true;

	for (;;) {
		ssize_t length = read(fd, piece, sizeof(piece));
		if (length < 0 && errno == EINTR)
			continue;
		if (length <= 0)
			return;

		has_room = has_room && buf_add(out, piece, (size_t)length) == 0;
	}
}

int call_run(char *const *argv, enum call_errors errors, struct buf *out, struct err *err)
{
	int ends[2] = {-1, -1};
	if (out && pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "making a pipe: %s", err_describe(-errno));

	_cleanup_close_ int read_fd = ends[0];
	_cleanup_close_ int write_fd = ends[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_set(err, -errno, "starting '%.40s': %s", argv[0], err_describe(-errno));

	if (pid == 0)
		call_become(argv, errors, write_fd);
	if (out) {
		(void)close(take_fd(&write_fd));
		call_read(read_fd, out);
	}

	int status = 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;

	return WIFEXITED(status) ? WEXITSTATUS(status) : CALL_SIGNAL_BASE + WTERMSIG(status);
}
