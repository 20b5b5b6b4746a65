/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/libexec.h"
#include "base/buf.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

enum helper_internals {
	HELPER_ARGUMENTS_MAX = 64,
	HELPER_CHUNK = 16 << 10,
	HELPER_SAID_MAX = 4096, /* of standard error; what comes behind it is thrown away */
	HELPER_OUT = 0,
	HELPER_SAID,
	HELPER_STREAMS,
};

static const struct clock real_clock = {.fake_ns = NULL};

struct helper {
	pid_t pid;
	int fds[HELPER_STREAMS]; /* owned; -1: at its end */
	struct buf *out;	 /* borrowed */
	struct buf said;
};

/* A descriptor from which `input` is read. */
static int helper_input(const char *input, struct err *err)
{
	_cleanup_close_ int fd = memfd_create("input", MFD_CLOEXEC);
	size_t length = strlen(input);
	if (fd < 0 || write(fd, input, length) != (ssize_t)length || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, -errno, "keeping what a program is to read: %s",
			       err_describe(-errno));
	return take_fd(&fd);
}

static int helper_start(struct helper *helper, const char *program, const char *name,
			const char *const *arguments, const char *input, struct err *err)
{
	const char *argv[HELPER_ARGUMENTS_MAX + 2] = {name};
	int out[2] = {-1, -1}, said[2] = {-1, -1};
	size_t count = 0;

	for (; arguments[count] && count < HELPER_ARGUMENTS_MAX; count++)
		argv[count + 1] = arguments[count];

	if (arguments[count])
		return err_set(err, -E2BIG, "too many arguments for %s", name);

	_cleanup_close_ int in = input ? helper_input(input, err) : -1;
	if (input && in < 0)
		return in;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(said, O_CLOEXEC) < 0) {
		int rc = err_set(err, -errno, "making a pipe: %s", err_describe(-errno));
		cleanup_close_fn(&out[0]);
		cleanup_close_fn(&out[1]);
		return rc;
	}

	const struct child_fd fds[] = {
	    {out[1], STDOUT_FILENO}, {said[1], STDERR_FILENO}, {in, STDIN_FILENO}};
	const struct child_spec spec = {
	    .path = program,
	    .argv = (char *const *)(uintptr_t)argv,
	    .fds = fds,
	    .fd_count = input ? 3 : 2,
	    .new_session = true, /* what it starts ends with it */
	};
	int rc = child_spawn(&spec, &helper->pid, err);

	(void)close(out[1]);
	(void)close(said[1]);
	helper->fds[HELPER_OUT] = out[0];
	helper->fds[HELPER_SAID] = said[0];

	return rc;
}

static int helper_read(struct helper *helper, int stream, struct err *err)
{
	char chunk[HELPER_CHUNK];
	ssize_t count = read(helper->fds[stream], chunk, sizeof(chunk));
	if (count < 0)
		return errno == EINTR ? 0 : err_set(err, -errno, "%s", err_describe(-errno));

	if (count == 0) {
		cleanup_close_fn(&helper->fds[stream]);
		helper->fds[stream] = -1;
		return 0;
	}

	if (stream == HELPER_OUT) {
		int rc = buf_add(helper->out, chunk, (size_t)count);
		return rc == -ENOSPC ? err_set(err, -EFBIG, "it prints too much") : rc;
	}

	size_t room = helper->said.max - helper->said.length;

	/* Without memory there is less to say. */
	(void)buf_add(&helper->said, chunk, (size_t)count < room ? (size_t)count : room);
	return 0;
}

static int helper_listen(struct helper *helper, uint64_t end_ns, struct err *err)
{
	int rc = 0;

	while (rc == 0 && (helper->fds[HELPER_OUT] >= 0 || helper->fds[HELPER_SAID] >= 0)) {
		struct pollfd polls[HELPER_STREAMS] = {{helper->fds[HELPER_OUT], POLLIN, 0},
						       {helper->fds[HELPER_SAID], POLLIN, 0}};
		uint64_t now_ns = clock_now_ns(&real_clock);
		if (now_ns >= end_ns)
			return err_set(err, -ETIMEDOUT, "it took too long");

		int ready =
		    poll(polls, HELPER_STREAMS, (int)((end_ns - now_ns) / CLOCK_NS_PER_MS) + 1);
		if (ready < 0 && errno != EINTR)
			return err_set(err, -errno, "%s", err_describe(-errno));

		for (int i = 0; i < HELPER_STREAMS && ready > 0 && rc == 0; i++)
			if (polls[i].revents != 0)
				rc = helper_read(helper, i, err);
	}

	return rc;
}

/* The last line that it said, without its own name in front. */
static void helper_complain(struct helper *helper, const char *name, int status, struct err *err)
{
	char *text = helper->said.data;
	size_t length = helper->said.length, name_length = strlen(name);
	while (length > 0 && text[length - 1] == '\n')
		text[--length] = '\0';

	const char *line = length > 0 ? strrchr(text, '\n') : NULL;
	line = line ? line + 1 : length > 0 ? text : "";
	if (strncmp(line, name, name_length) == 0 && text_starts_with(line + name_length, ": "))
		line += name_length + 2;

	if (*line)
		(void)err_set(err, -EIO, "%s", line);
	else
		(void)err_set(err, -EIO, "%s failed with %s %d", name,
			      WIFSIGNALED(status) ? "signal" : "exit code",
			      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int helper_wait(struct helper *helper)
{
	int status = 0;
	while (waitpid(helper->pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

int helper_run(const char *name, const char *directory, const char *const *arguments,
	       const char *input, uint32_t timeout_ms, struct buf *out, struct err *err)
{
	char program[FILE_PATH_MAX];
	struct helper helper = {.fds = {-1, -1}, .out = out};
	uint64_t end_ns = clock_now_ns(&real_clock) + timeout_ms * CLOCK_NS_PER_MS;
	int rc = libexec_find(name, directory, NULL, program, err);
	if (rc < 0)
		return rc;

	buf_init(&helper.said, HELPER_SAID_MAX);
	rc = helper_start(&helper, program, name, arguments, input, err);
	if (rc == 0) {
		rc = helper_listen(&helper, end_ns, err);
		if (rc < 0)
			(void)kill(-helper.pid, SIGKILL);

		int status = helper_wait(&helper);
		if (rc == 0 && status != 0) {
			helper_complain(&helper, name, status, err);
			rc = -EIO;
		}
	}

	cleanup_close_fn(&helper.fds[HELPER_OUT]);
	cleanup_close_fn(&helper.fds[HELPER_SAID]);
	buf_done(&helper.said);

	return rc;
}
