/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/service/agent_start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/child.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"

enum agent_start_internals {
	START_READY_FD = 3, /* as the agent sees it */
	START_LOCK_EACH_MS = 20,
	START_LINE_MAX = 320,	 /* bytes of its last words that are shown */
	START_LOG_MAX = 1 << 20, /* bytes: a log that is longer makes room for a new one */
};

static const struct clock start_clock;

static int start_open(const char *path, int flags, struct err *err)
{
	int fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd >= 0 ? fd
		       : err_set(err, -errno, "cannot open '%s': %s", path, err_describe(-errno));
}

/* The log of agents that have ended. What is older than the last one is gone. */
static int start_open_log(const char *path, struct err *err)
{
	char last[FILE_PATH_MAX];
	struct stat info;
	if (lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > START_LOG_MAX &&
	    file_path(last, NULL, "%s.1", path) == 0)
		(void)rename(path, last); /* else it goes on growing */
	return start_open(path, O_RDWR | O_APPEND, err);
}

/* Whoever has the lock is starting one right now. Returns the descriptor. */
static int start_lock(const char *runtime_dir, uint64_t until_ns, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/start.lock", runtime_dir);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = start_open(path, O_RDWR, err);
	if (fd < 0)
		return fd;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		const struct timespec moment = {.tv_nsec = START_LOCK_EACH_MS * 1000000L};

		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_set(err, -errno, "cannot lock '%s': %s", path,
				       err_describe(-errno));

		if (clock_now_ns(&start_clock) > until_ns)
			return err_set(err, -ETIMEDOUT,
				       "somebody else is starting an agent and has not finished: "
				       "'%s' is locked",
				       path);

		(void)nanosleep(&moment, NULL);
	}

	return take_fd(&fd);
}

/* Whether it means the caller, not an agent that he starts. */
static bool start_is_foreign(const char *variable)
{
	static const char *const foreign[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
					      "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
					      "JOURNAL_STREAM",
					      /* many programs have one: only who starts an agent
						 himself means ours */
					      "CONFIG_FILE"};
	size_t length = strcspn(variable, "=");

	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		if (strlen(foreign[i]) == length && strncmp(variable, foreign[i], length) == 0)
			return true;

	return false;
}

/* In a session of its own and nobody's child: nothing of the caller's but its environment goes with
 * it. */
static int start_spawn(const char *socket, int log_fd, int ready_fd, struct err *err)
{
	const char *argv[] = {"sluice",		"agent",      "--exit-idle",
			      AGENT_START_IDLE, "--ready-fd", "3",
			      "--socket",	socket,	      NULL};
	const struct child_fd fds[] = {
	    {log_fd, STDOUT_FILENO}, {log_fd, STDERR_FILENO}, {ready_fd, START_READY_FD}};
	size_t count = 0, kept = 0;

	if (!socket)
		argv[6] = NULL;
	while (environ[count])
		count++;

	_cleanup_free_ char **environment = calloc(count + 1, sizeof(*environment));
	if (!environment)
		return err_set(err, -ENOMEM, "no memory to start an agent");

	for (size_t i = 0; i < count; i++)
		if (!start_is_foreign(environ[i]))
			environment[kept++] = environ[i];

	const struct child_spec spec = {.path = "/proc/self/exe",
					.argv = (char *const *)argv,
					.environment = environment,
					.directory = "/",
					.fds = fds,
					.fd_count = sizeof(fds) / sizeof(fds[0])};
	mode_t before = umask(022); /* the agent's, also when the caller is careful */
	int rc = child_spawn_orphan(&spec, err);
	(void)umask(before);

	return rc < 0 ? err_wrap(err, "starting an agent") : 0;
}

/* The last line that was written to the log since `from`; "" when there is none. */
static void start_last_words(int log_fd, off_t from, char out[START_LINE_MAX])
{
	struct stat info;

	out[0] = '\0';
	if (fstat(log_fd, &info) < 0 || info.st_size <= from)
		return;

	char tail[4 * START_LINE_MAX];
	off_t begin = info.st_size - (off_t)sizeof(tail) + 1;
	ssize_t length = pread(log_fd, tail, sizeof(tail) - 1, begin > from ? begin : from);

	while (length > 0 && tail[length - 1] == '\n')
		length--;

	if (length <= 0)
		return;

	tail[length] = '\0';
	const char *line = strrchr(tail, '\n');
	line = line ? line + 1 : tail;

	static const char own[] = "sluice agent: ";
	if (text_starts_with(line, own))
		line += sizeof(own) - 1;
	(void)snprintf(out, START_LINE_MAX, "%.*s", START_LINE_MAX - 1,
		       line); /* cut: the log has it all */
}

/* Ours found another that is starting just now (a service manager's): then that one will do. */
static int start_wait_for_other(const char *socket, uint64_t until_ns)
{
	const struct timespec moment = {.tv_nsec = START_LOCK_EACH_MS * 1000000L};
	char found[FILE_PATH_MAX];
	while (agent_paths_client(socket, found, NULL) < 0) {
		if (clock_now_ns(&start_clock) > until_ns)
			return -ETIMEDOUT;
		(void)nanosleep(&moment, NULL);
	}

	return 0;
}

static int start_wait(const char *socket, int ready_fd, int log_fd, off_t log_from,
		      const char *log_path, uint64_t until_ns, struct err *err)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(&start_clock);
		struct pollfd ready = {.fd = ready_fd, .events = POLLIN};
		int left_ms = now_ns >= until_ns ? 0 : (int)((until_ns - now_ns) / 1000000 + 1);
		int rc = poll(&ready, 1, left_ms);
		if (rc < 0 && errno == EINTR)
			continue;

		if (rc == 0)
			return err_set(err, -ETIMEDOUT,
				       "the agent that was started is not ready yet; its log is "
				       "'%s'",
				       log_path);

		char byte;
		if (rc > 0 && read(ready_fd, &byte, 1) == 1)
			return 0;

		char words[START_LINE_MAX];
		start_last_words(log_fd, log_from, words);
		if (strstr(words, "another agent") && start_wait_for_other(socket, until_ns) == 0)
			return 0;

		return err_set(err, -ECONNREFUSED, "the agent that was started ended at once%s%s",
			       words[0] ? ": " : "; its log is ", words[0] ? words : log_path);
	}
}

static int start_directories(const struct agent_paths *paths, struct err *err)
{
	/* Everybody connects to root's agent and reads their own logs there. */
	mode_t mode = paths->is_system ? 0755 : 0700;
	mode_t before = umask(022); /* also when whoever is root just now is careful */
	int rc = file_mkdirs(paths->runtime_dir, mode, err);
	if (rc == 0)
		rc = file_mkdirs(paths->state_dir, mode, err);
	(void)umask(before);

	return rc;
}

int agent_start(const char *socket, const char *path, uint64_t deadline_ns, struct err *err)
{
	const uint64_t until_ns = clock_after_ns(clock_now_ns(&start_clock), deadline_ns);
	const struct agent_paths_given given = {.socket = socket};
	struct agent_paths paths;
	char found[FILE_PATH_MAX], log_path[FILE_PATH_MAX];
	int rc = agent_paths_find(&given, &paths, err);
	if (rc == 0)
		rc = start_directories(&paths, err);

	if (rc == 0)
		rc = file_path(log_path, err, "%s/agent.log", paths.state_dir);
	if (rc < 0)
		return err_wrap(err, "starting an agent");

	_cleanup_close_ int lock_fd = start_lock(paths.runtime_dir, until_ns, err);
	if (lock_fd < 0)
		return err_wrap(err, "starting an agent");
	if (agent_paths_client(socket, found, NULL) == 0)
		return 0; /* somebody was faster */

	_cleanup_close_ int log_fd = start_open_log(log_path, err);
	if (log_fd < 0)
		return err_wrap(err, "starting an agent");

	struct stat before = {0};
	(void)fstat(log_fd, &before); /* then all of it is shown */

	int pipe_fd[2];
	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot make a pipe: %s", err_describe(-errno));

	_cleanup_close_ int read_fd = pipe_fd[0];
	_cleanup_close_ int write_fd = pipe_fd[1];

	if (path)
		fprintf(stderr,
			"%s: no agent answers; starting one in the background, its log is %s\n",
			path, log_path);

	rc = start_spawn(socket, log_fd, write_fd, err);
	if (rc < 0)
		return rc;

	(void)close(take_fd(&write_fd)); /* so that its end is the end of the pipe */
	return start_wait(socket, read_fd, log_fd, before.st_size, log_path, until_ns, err);
}
