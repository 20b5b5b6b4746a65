/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/paths.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

enum lock_limits {
	LOCK_NUMBER_MAX = 16,
	LOCK_STATM_MAX = 128,
	/* A process that a killed agent had just forked keeps the lock until its exec. */
	LOCK_TRIES = 50,
	LOCK_TRY_MS = 20,
};

/* Real directory, ours or root's, that nobody else can write. */
static int lock_check_directory(int fd, const char *path, struct err *err)
{
	struct stat info;
	if (fstat(fd, &info) < 0)
		return err_set(err, -errno, "looking at '%s': %s", path, err_describe(-errno));

	if (info.st_uid != geteuid() && info.st_uid != 0)
		return err_set(err, -EPERM,
			       "'%s' belongs to uid %u, not to root or to you: name a directory of "
			       "your own",
			       path, (unsigned)info.st_uid);

	if (info.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, -EPERM,
			       "'%s' can be written by others (mode %04o): chmod it to 0755", path,
			       (unsigned)(info.st_mode & 07777));

	return 0;
}

static int lock_open_directory(const char *path, mode_t mode, struct err *err)
{
	int rc = file_mkdirs(path, mode, err);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the directory '%s': %s", path,
			       err_describe(-errno));

	rc = lock_check_directory(fd, path, err);
	return rc < 0 ? rc : take_fd(&fd);
}

/* The process that wrote its number there; 0: not known. */
static pid_t lock_read_holder(int fd)
{
	char text[LOCK_NUMBER_MAX];
	uint64_t pid;
	ssize_t length = pread(fd, text, sizeof(text), 0);
	if (length <= 1 || text[length - 1] != '\n' ||
	    parse_u64_span(text, (size_t)length - 1, 1, INT32_MAX, &pid) < 0)
		return 0;
	return (pid_t)pid;
}

static int lock_busy(const char *what, const char *path, pid_t pid, struct err *err)
{
	char process[48] = "";
	if (pid > 0)
		(void)snprintf(process, sizeof(process), " (process %d)", (int)pid);
	return err_set(err, -EBUSY,
		       "another agent%s %s '%s': 'sluice agent stop' ends it, or name other "
		       "directories with --runtime-dir and --state-dir",
		       process, what, path);
}

/* Killed, and its memory given back already: its descriptors, and the lock with them, are next. */
static bool lock_is_ending(pid_t pid)
{
	char path[64];
	_cleanup_buf_ struct buf text;
	buf_init(&text, LOCK_STATM_MAX);
	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid); /* always fits */
	return file_read(path, &text, NULL) == 0 && text_starts_with(buf_text(&text), "0 ");
}

static int lock_wait(int fd, const char *path, struct err *err)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return err_set(err, -errno, "locking '%s': %s", path, err_describe(-errno));

		pid_t pid = lock_read_holder(fd);
		if (pid > 0 && (kill(pid, 0) == 0 || errno == EPERM) && !lock_is_ending(pid))
			break;

		const struct timespec pause = {.tv_nsec = LOCK_TRY_MS * 1000000L};
		(void)nanosleep(&pause, NULL);
	}

	return lock_busy("has", path, lock_read_holder(fd), err);
}

/* Others connect to the socket in root's. */
static int lock_open_runtime(const struct agent_paths *paths, struct err *err)
{
	return lock_open_directory(paths->runtime_dir, paths->is_system ? 0755 : 0700, err);
}

int agent_lock_make_runtime(const struct agent_paths *paths, struct err *err)
{
	_cleanup_close_ int fd = lock_open_runtime(paths, err);
	return fd < 0 ? fd : 0;
}

int agent_lock_take(const struct agent_paths *paths, struct err *err)
{
	char path[FILE_PATH_MAX], text[LOCK_NUMBER_MAX];
	int rc = file_path(path, err, "%s/agent.lock", paths->runtime_dir);
	if (rc < 0)
		return rc;

	_cleanup_close_ int directory = lock_open_runtime(paths, err);
	if (directory < 0)
		return directory;

	_cleanup_close_ int fd =
	    openat(directory, "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s': %s", path, err_describe(-errno));

	rc = lock_wait(fd, path, err);
	if (rc < 0)
		return rc;

	int length = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	/* Only a help for people: the lock holds without it, on a full disk, too. */
	if (ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, text, (size_t)length, 0);

	return take_fd(&fd);
}

/* Who looks for an agent later: whether this state has one only when it is wanted. */
static int lock_mark(int state_fd, bool is_on_demand, struct err *err)
{
	if (!is_on_demand) {
		(void)unlinkat(state_fd, AGENT_PATHS_ON_DEMAND, 0); /* rarely there */
		return 0;
	}

	_cleanup_close_ int fd = openat(state_fd, AGENT_PATHS_ON_DEMAND,
					O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_set(err, -errno, "making '%s' in the state directory: %s",
				AGENT_PATHS_ON_DEMAND, err_describe(-errno))
		      : 0;
}

int agent_lock_make_state(const struct agent_paths *paths, bool is_on_demand, struct err *err)
{
	mode_t mode = paths->is_system ? 0711 : 0700;
	_cleanup_close_ int fd = lock_open_directory(paths->state_dir, mode, err);
	if (fd < 0)
		return fd;

	struct stat info;
	if (fstat(fd, &info) < 0)
		return err_set(err, -errno, "looking at '%s': %s", paths->state_dir,
			       err_describe(-errno));
	if (info.st_uid != geteuid())
		return err_set(err, -EPERM, "'%s' belongs to uid %u: name a directory of your own",
			       paths->state_dir, (unsigned)info.st_uid);
	if ((info.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
		return err_set(err, -errno, "setting the mode of '%s': %s", paths->state_dir,
			       err_describe(-errno));

	return lock_mark(fd, is_on_demand, err);
}

int agent_lock_check_socket(const char *socket_path, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(socket_path);
	if (length >= sizeof(address.sun_path))
		return err_set(err, -ENAMETOOLONG, "the socket's path is too long: '%.64s...'",
			       socket_path);

	memcpy(address.sun_path, socket_path, length);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "cannot make a socket: %s", err_describe(-errno));

	bool is_there = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
	if (!is_there && errno != EAGAIN)
		return 0; /* what is wrong with the path, binding it says */

	struct ucred peer = {.pid = 0};
	socklen_t size = sizeof(peer);

	if (is_there)
		(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);

	return lock_busy("listens on", socket_path, peer.pid, err);
}
