/* SPDX-License-Identifier: Apache-2.0 */
#include "job/token.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum {
	TOKEN_FILE_MAX = TOKEN_UNIT_MAX + 8,
	TOKEN_LOCK_TRIES = 8, /* of finding the lock file where we locked it */
};

/* Nobody but root and us may have had a hand in what lies in there. */
static int token_check_dir(int fd, const char *path, struct err *err)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return err_set(err, -errno, "looking at '%s': %s", path, err_describe(errno));

	if (status.st_uid != 0 && status.st_uid != geteuid())
		return err_set(err, -EPERM,
			       "'%s' belongs to uid %u, not to root or to you: set "
			       "SLUICE_RUNTIME_DIR to a directory of your own",
			       path, (unsigned)status.st_uid);

	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(
		    err, -EPERM,
		    "'%s' can be written by others (mode %04o), who could take GPUs away "
		    "from running jobs: chmod it to 0755",
		    path, (unsigned)(status.st_mode & 07777));

	return 0;
}

static int token_open_dir(const char *runtime_dir, int *out_fd, struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/gpu", runtime_dir);
	if (rc < 0)
		return rc;

	rc = file_mkdirs(runtime_dir, 0755, err);
	if (rc < 0)
		return rc;

	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_close_ int parent = open(runtime_dir, flags);
	if (parent < 0)
		return err_set(err, -errno, "opening the directory '%s': %s", runtime_dir,
			       err_describe(errno));

	rc = token_check_dir(parent, runtime_dir, err);
	if (rc < 0)
		return rc;

	if (mkdirat(parent, "gpu", 0755) < 0 && errno != EEXIST)
		return err_set(err, -errno, "making '%s': %s", path, err_describe(errno));

	_cleanup_close_ int fd = openat(parent, "gpu", flags);
	if (fd < 0)
		return err_set(err, -errno, "opening the directory '%s': %s", path,
			       err_describe(errno));

	rc = token_check_dir(fd, path, err);
	if (rc < 0)
		return rc;

	*out_fd = take_fd(&fd);
	return 0;
}

int token_place_open(const char *runtime_dir, const char *sim_state, struct token_place *out,
		     struct err *err)
{
	struct token_place place = TOKEN_PLACE_NONE;

	if (sim_state) {
		struct stat status;
		if (stat(sim_state, &status) < 0)
			return err_set(err, -errno, "the simulated machine '%s': %s", sim_state,
				       err_describe(errno));

		(void)snprintf(place.machine, sizeof(place.machine), "%" PRIx64 "-%" PRIx64,
			       (uint64_t)status.st_dev, (uint64_t)status.st_ino); /* 33 at most */
	}

	if (runtime_dir) {
		int rc = token_open_dir(runtime_dir, &place.dir_fd, err);
		if (rc < 0)
			return rc;
	}

	*out = place;
	return 0;
}

void token_place_close(struct token_place *place)
{
	if (place->dir_fd >= 0)
		(void)close(place->dir_fd);
	*place = TOKEN_PLACE_NONE;
}

/* Letters, digits, '-' and, in the MIG names of drivers before R470, '/'. */
static int token_check_unit(const char *unit, unsigned slot, struct err *err)
{
	size_t length = strnlen(unit, TOKEN_UNIT_MAX);
	bool good = length > 0 && length < TOKEN_UNIT_MAX && slot <= TOKEN_SLOT_MAX;
	for (size_t i = 0; good && i < length; i++) {
		char byte = unit[i];
		good = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
		       (byte >= '0' && byte <= '9') || byte == '-' || byte == '/';
	}

	return good ? 0
		    : err_set(err, -EINVAL, "'%.*s' slot %u is no unit that can be taken",
			      TOKEN_UNIT_MAX, unit, slot);
}

static int token_socket_name(const struct token_place *place, const char *kind, const char *rest,
			     char out[TOKEN_SOCKET_NAME_MAX], struct err *err)
{
	/* One byte less than sun_path holds: the leading NUL comes on top. */
	int length = snprintf(out, TOKEN_SOCKET_NAME_MAX, "sluice/%s/%s%s%s", kind, place->machine,
			      place->machine[0] ? "/" : "", rest);
	if (length < 0 || length >= TOKEN_SOCKET_NAME_MAX - 1)
		return err_set(err, -ENAMETOOLONG, "the socket name of '%s' is too long", rest);
	return 0;
}

static socklen_t token_address(const char *name, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	size_t length = strnlen(name, sizeof(out->sun_path) - 1);
	memcpy(out->sun_path + 1, name, length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Binds and listens on such a name. -EADDRINUSE. */
static int token_socket_listen(const char *name, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "making a socket: %s", err_describe(errno));

	struct sockaddr_un address;
	socklen_t length = token_address(name, &address);
	if (bind(fd, (struct sockaddr *)&address, length) < 0)
		return err_set(err, -errno, "binding '@%s': %s", name, err_describe(errno));
	if (listen(fd, TOKEN_BACKLOG) < 0)
		return err_set(err, -errno, "listening on '@%s': %s", name, err_describe(errno));

	return take_fd(&fd);
}

/* Connects to such a name; `out_holder` gets pid and uid. */
static int token_socket_connect(const char *name, struct note *out_holder, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(err, -errno, "making a socket: %s", err_describe(errno));

	struct sockaddr_un address;
	socklen_t length = token_address(name, &address);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		return err_set(err, -errno, "connecting to '@%s': %s", name, err_describe(errno));

	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	*out_holder = (struct note){0};
	/* pid 0 when the holder lives in a PID namespace that we do not see. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
		out_holder->pid = peer.pid;
		out_holder->uid = peer.uid;
	}

	return take_fd(&fd);
}

static int token_name(const struct token_place *place, const char *unit, unsigned slot,
		      char out[TOKEN_SOCKET_NAME_MAX], struct err *err)
{
	int rc = token_check_unit(unit, slot, err);
	if (rc < 0)
		return rc;
	char rest[TOKEN_FILE_MAX];
	(void)snprintf(rest, sizeof(rest), "%s/%u", unit, slot); /* fits: both were checked */
	return token_socket_name(place, "gpu", rest, out, err);
}

static void token_file_name(const char *unit, unsigned slot, char out[TOKEN_FILE_MAX])
{
	(void)snprintf(out, TOKEN_FILE_MAX, "%s.%u", unit, slot); /* fits: both were checked */
	for (char *byte = out; *byte; byte++)
		if (*byte == '/')
			*byte = ',';
}

/* Reading alone is enough for a lock, and more is not given on: a job inherits this descriptor, and
 * could fill the file system with a file of root's. */
static int token_open_file(int dir_fd, const char *name, struct err *err)
{
	int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = openat(dir_fd, name, flags | O_CREAT, 0644);
	bool refused = fd < 0 && errno == EACCES;

	if (refused)
		fd = openat(dir_fd, name, flags);

	if (refused && fd < 0 && errno == ENOENT)
		return err_set(err, -EACCES,
			       "the lock file '%s' is not there yet and you may not make it: set "
			       "SLUICE_RUNTIME_DIR to a directory of your own",
			       name);

	if (fd < 0)
		return err_set(err, -errno, "opening the lock file '%s': %s", name,
			       err_describe(errno));

	return fd;
}

/* 1: the file that we hold is still the one of that name. 0: it was replaced. */
static int token_is_in_place(int dir_fd, const char *name, int fd, struct err *err)
{
	struct stat ours, named;
	if (fstat(fd, &ours) < 0)
		return err_set(err, -errno, "looking at the lock file '%s': %s", name,
			       err_describe(errno));
	if (!S_ISREG(ours.st_mode) || (ours.st_uid != 0 && ours.st_uid != geteuid()))
		return err_set(err, -EPERM,
			       "the lock file '%s' is not a plain file of root's or yours", name);
	if (fstatat(dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : err_set(err, -errno, "looking at the lock file '%s': %s",
						 name, err_describe(errno));

	return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

/* Only for others to read: a lock without a note is as good a lock. The file is the one that we
 * have locked, so the name is still its own. */
static void token_write_note(int dir_fd, const char *name, const struct note *self)
{
	char text[NOTE_TEXT_MAX];
	size_t length = note_format(self, text);
	_cleanup_close_ int fd =
	    openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && ftruncate(fd, 0) == 0)
		(void)!pwrite(fd, text, length, 0);
}

static int token_lock(int dir_fd, const char *name, const struct note *self, int *out_fd,
		      struct err *err)
{
	for (int try = 0; try < TOKEN_LOCK_TRIES; try++) {
		_cleanup_close_ int fd = token_open_file(dir_fd, name, err);
		if (fd < 0)
			return fd;

		int in_place = token_is_in_place(dir_fd, name, fd, err);
		if (in_place < 0)
			return in_place;
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			return err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno,
				       "locking '%s': %s", name, err_describe(errno));

		/* Somebody may have removed or replaced the file between open and lock. */
		in_place = token_is_in_place(dir_fd, name, fd, err);
		if (in_place < 0)
			return in_place;

		if (in_place) {
			token_write_note(dir_fd, name, self);
			*out_fd = take_fd(&fd);
			return 0;
		}
	}

	return err_set(err, -EAGAIN, "the lock file '%s' is being replaced all the time", name);
}

int token_take(const struct token_place *place, const char *unit, unsigned slot,
	       const struct note *self, struct token *out, struct err *err)
{
	char name[TOKEN_SOCKET_NAME_MAX];
	int rc = token_name(place, unit, slot, name, err);
	if (rc < 0)
		return rc;

	/* Everybody takes the socket first, so two who want both never hold one each for long. */
	_cleanup_close_ int socket_fd = token_socket_listen(name, err);
	if (socket_fd == -EADDRINUSE)
		return err_set(err, -EBUSY, "%s is taken", unit);
	if (socket_fd < 0)
		return socket_fd;

	_cleanup_close_ int lock_fd = -1;

	if (place->dir_fd >= 0) {
		char file[TOKEN_FILE_MAX];
		token_file_name(unit, slot, file);
		rc = token_lock(place->dir_fd, file, self, &lock_fd, err);
		if (rc < 0)
			return rc;
	}

	*out = (struct token){.socket_fd = take_fd(&socket_fd), .lock_fd = take_fd(&lock_fd)};
	return 0;
}

void token_release(struct token *token)
{
	if (token->lock_fd >= 0)
		(void)close(token->lock_fd);
	if (token->socket_fd >= 0)
		(void)close(token->socket_fd); /* last: who watches it finds the lock free */
	*token = TOKEN_NONE;
}

int token_watch(const struct token_place *place, const char *unit, unsigned slot,
		struct note *out_holder, struct err *err)
{
	char name[TOKEN_SOCKET_NAME_MAX];
	int rc = token_name(place, unit, slot, name, err);
	if (rc < 0)
		return rc;
	return token_socket_connect(name, out_holder, err);
}

int token_read_note(int watch_fd, int timeout_ms, struct note *holder, struct err *err)
{
	struct pollfd wait = {.fd = watch_fd, .events = POLLIN};
	int ready = poll(&wait, 1, timeout_ms);
	if (ready < 0)
		return err_set(err, -errno, "waiting for a holder's note: %s", err_describe(errno));
	if (ready == 0)
		return err_set(err, -ETIMEDOUT, "the holder does not say who it is");

	char text[NOTE_TEXT_MAX];
	ssize_t length = recv(watch_fd, text, sizeof(text), MSG_DONTWAIT);
	if (length <= 0)
		return err_set(err, -ECONNRESET, "the holder went away");

	struct note said;
	int rc = note_parse(text, (size_t)length, &said, err);
	if (rc < 0)
		return rc;

	said.pid = holder->pid;
	said.uid = holder->uid;
	*holder = said;

	return 0;
}

int token_read_lock(const struct token_place *place, const char *unit, unsigned slot,
		    struct note *out_holder, struct err *err)
{
	int rc = token_check_unit(unit, slot, err);
	if (rc < 0)
		return rc;
	if (place->dir_fd < 0)
		return err_set(err, -ENOENT, "there is no lock directory");

	char file[TOKEN_FILE_MAX];
	token_file_name(unit, slot, file);

	_cleanup_close_ int fd =
	    openat(place->dir_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "opening the lock file '%s': %s", file,
			       err_describe(errno));

	char text[NOTE_TEXT_MAX];
	ssize_t length = pread(fd, text, sizeof(text), 0);
	if (length <= 0)
		return err_set(err, -ENOENT, "the lock file '%s' is empty", file);

	return note_parse(text, (size_t)length, out_holder, err);
}
