/* SPDX-License-Identifier: Apache-2.0 */
#include "job/trash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/crash.h"
#include "base/err.h"
#include "base/parse.h"

enum {
	TRASH_TRIES = 8,
	TRASH_INFO_MAX = 512,
	/* Of a directory that was the user's and is root's now. None that root made is so. */
	TRASH_TAKEN = S_ISGID | S_ISVTX | S_IRWXU,
};

static const char trash_name[] = "trash";

struct trash {
	int fd;	   /* borrowed */
	uid_t own; /* root's, or the user's whose agent it is */
	void (*pause)(void *context);
	void *context;
	uint64_t progress; /* removed or moved since it began */
	unsigned burst;
	struct trash_left left;
};

int trash_open(int state_fd, struct err *err)
{
	if (mkdirat(state_fd, trash_name, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "making the directory '%s': %s", trash_name,
			       err_describe(errno));

	int fd = openat(state_fd, trash_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the directory '%s': %s", trash_name,
			       err_describe(errno));

	return fd;
}

/* One of its entries, open. */
struct trash_top {
	int fd;
	const char *name;
	uint64_t id;
	uid_t uid;
};

/* --- names ------------------------------------------------------------------------------------ */

static void trash_make_name(uint64_t id, uid_t uid, char out[TRASH_NAME_MAX])
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)getpid(); /* one that is taken is noticed */
	(void)snprintf(out, TRASH_NAME_MAX, "%" PRIu64 ".%u.%016" PRIx64, id, (unsigned)uid,
		       random); /* fits */
}

/* Under a name that nobody has there. 0 or -errno. */
static int trash_rename(int from_fd, const char *name, int into_fd, uint64_t id, uid_t uid)
{
	for (int i = 0; i < TRASH_TRIES; i++) {
		char fresh[TRASH_NAME_MAX];
		trash_make_name(id, uid, fresh);
		if (renameat2(from_fd, name, into_fd, fresh, RENAME_NOREPLACE) == 0)
			return 0;

		/* EINVAL: a file system without that flag. The names are random ones. */
		if (errno == EINVAL && renameat(from_fd, name, into_fd, fresh) == 0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}

	return -EEXIST;
}

/* --- looking ---------------------------------------------------------------------------------- */

static bool trash_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A list of `fd`'s entries, of a description of its own; `fd` stays the caller's. NULL with errno.
 */
static DIR *trash_list(int fd)
{
	_cleanup_close_ int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (list)
		(void)take_fd(&copy);
	return list;
}

bool trash_is_empty(int trash_fd)
{
	_cleanup_closedir_ DIR *list = trash_list(trash_fd);
	struct dirent *entry;
	while (list && (entry = readdir(list)))
		if (!trash_is_dots(entry->d_name))
			return false;
	return true;
}

/* The number of the mount that a descriptor is in; 0 when nobody says it. proc(5). */
static uint64_t trash_mount(int fd)
{
	char path[64], text[TRASH_INFO_MAX];
	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd); /* fits */

	_cleanup_close_ int info = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (length <= 0)
		return 0;

	text[length] = '\0';

	uint64_t mount = 0;
	const char *at = strstr(text, "mnt_id:\t");
	if (at)
		(void)parse_u64_span(at + 8, strcspn(at + 8, "\n"), 0, UINT64_MAX, &mount);

	return mount;
}

int trash_find(int from_fd, const char *name)
{
	struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			       .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(SYS_openat2, from_fd, name, &how, sizeof(how));
	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd < 0 ? -errno : fd;

	/* Before Linux 5.6, or forbidden by a container's seccomp filter. */
	_cleanup_close_ int path_fd =
	    openat(from_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (path_fd < 0)
		return -errno;

	uint64_t mount = trash_mount(path_fd);
	return mount != 0 && mount == trash_mount(from_fd) ? take_fd(&path_fd) : -EXDEV;
}

/* Root's from here on, so that whoever has it open can put nothing in any more. The mode is there
 * before: who is killed in between finds it again, and a list of access rights counts no more than
 * the mode's group. Where that cannot be set it matters not: no name in it is followed anywhere. */
static void trash_own(const struct trash *self, int fd)
{
	if (self->own != 0) {
		(void)fchmod(fd, S_IRWXU);
		return;
	}
	(void)fchmod(fd, TRASH_TAKEN);
	(void)fchown(fd, 0, 0);
	(void)fchmod(fd, TRASH_TAKEN); /* the user may have changed it meanwhile */
}

/* Whether it may be emptied for `uid`. Root's own directories that a user moved here, or that lay
 * in one of hers, are not hers to remove. */
static bool trash_may_enter(const struct trash *self, const struct stat *status, uid_t uid)
{
	if (status->st_uid == uid)
		return true;
	return status->st_uid == self->own && (status->st_mode & ALLPERMS) == TRASH_TAKEN;
}

/* The same opened, and ours alone from here on. -EPERM: it is neither `uid`'s nor was. */
static int trash_enter(const struct trash *self, int from_fd, const char *name, uid_t uid)
{
	int found = trash_find(from_fd, name);
	if (found < 0)
		return found;

	_cleanup_close_ int path_fd = found;
	struct stat status;

	if (fstat(path_fd, &status) < 0)
		return -errno;
	if (!trash_may_enter(self, &status, uid))
		return -EPERM;

	int fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == EACCES) { /* one's own, with a mode that bars oneself */
		char path[64];
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd); /* fits */
		if (chmod(path, S_IRWXU) < 0)
			return -EACCES;
		fd = openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}

	if (fd < 0)
		return -errno;

	trash_own(self, fd);
	return fd;
}

int trash_move(int trash_fd, int from_fd, const char *name, uint64_t id, struct err *err)
{
	struct stat status;
	_cleanup_close_ int fd = trash_find(from_fd, name);
	int rc = fd < 0 ? fd : fstat(fd, &status) < 0 ? -errno : 0;
	if (rc == -ENOTDIR || rc == -ELOOP) { /* no directory: nothing can be in it */
		status.st_uid = geteuid();
		rc = 0;
	}

	if (rc == 0)
		rc = trash_rename(from_fd, name, trash_fd, id, status.st_uid);
	crash_point("trash.moved");
	return rc == 0 ? 0 : err_set(err, rc, "removing '%s': %s", name, err_describe(rc));
}

/* --- clearing --------------------------------------------------------------------------------- */

static void trash_progress(struct trash *self)
{
	self->progress++;
	if (++self->burst < TRASH_BURST)
		return;
	self->burst = 0;
	if (self->pause)
		self->pause(self->context);
}

static void trash_stays(struct trash *self, const char *top, const char *name, int code)
{
	self->left.left++;
	if (self->left.first[0] != '\0')
		return;
	(void)snprintf(self->left.first, sizeof(self->left.first), "'%s%s%.96s': %s", top,
		       *name ? "/" : "", name,
		       code == -EXDEV || code == -EBUSY ? "something is mounted there"
							: err_describe(code)); /* cut */
}

/* The file, or whatever is no directory. 0: it is gone, -EISDIR, or why it stays. */
static int trash_unlink(struct trash *self, int from_fd, const struct dirent *entry)
{
	if (entry->d_type == DT_DIR)
		return -EISDIR;

	if (unlinkat(from_fd, entry->d_name, 0) == 0) {
		self->left.removed++;
		trash_progress(self);
		return 0;
	}

	return errno == ENOENT ? 0 : -errno;
}

static int trash_rmdir(struct trash *self, int from_fd, const char *name)
{
	if (unlinkat(from_fd, name, AT_REMOVEDIR) < 0)
		return errno == ENOENT ? 0 : -errno;
	self->left.removed++;
	trash_progress(self);
	return 0;
}

/* Out of the directory, to become one of `into_fd`'s. */
static int trash_promote(struct trash *self, int from_fd, const char *name, int into_fd,
			 const struct trash_top *top, uid_t uid)
{
	int rc = trash_rename(from_fd, name, into_fd, top->id, uid);
	if (rc == 0)
		trash_progress(self);
	return rc;
}

/*
 * Empties a directory one level below a top: its files are removed, and its directories become
 * neighbours of its own in the top, so that no depth is too deep. 0; -EXDEV: those are in a volume
 * of their own (btrfs), and the directory has to become a top itself; else why it stays.
 */
static int trash_flatten(struct trash *self, int fd, const struct trash_top *top)
{
	_cleanup_closedir_ DIR *list = trash_list(fd);
	int stays = list ? 0 : -errno;
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		if (trash_is_dots(entry->d_name))
			continue;

		int rc = trash_unlink(self, fd, entry);
		if (rc == -EISDIR || rc == -EPERM) /* EPERM: POSIX's word for EISDIR */
			rc = trash_promote(self, fd, entry->d_name, top->fd, top, top->uid);
		crash_point("trash.flattened");

		if (rc < 0 && rc != -ENOENT)
			stays = rc;
	}

	return stays;
}

/* A directory in a top. 0 when it is gone from there, else why it stays. */
static int trash_inner(struct trash *self, const struct trash_top *top, const char *name)
{
	if (top->uid == self->own) { /* whose it is decides what may be in it */
		struct stat status;
		_cleanup_close_ int found = trash_find(top->fd, name);
		if (found < 0 || fstat(found, &status) < 0)
			return found == -ENOENT ? 0 : found < 0 ? found : -errno;
		return trash_promote(self, top->fd, name, self->fd, top, status.st_uid);
	}

	int entered = trash_enter(self, top->fd, name, top->uid);
	_cleanup_close_ int fd = entered;
	int rc = entered < 0 ? entered : trash_flatten(self, fd, top);
	if (rc == -EXDEV && entered >= 0)
		return trash_promote(self, top->fd, name, self->fd, top, top->uid);

	if (entered == -ENOTDIR || entered == -ELOOP)
		return rc;

	int removed = trash_rmdir(self, top->fd, name); /* also what is empty and not the user's */
	return removed == -ENOTEMPTY && rc < 0 ? rc : removed;
}

/* One look at all that is in a top. What stays is told when `tells`. */
static int trash_look(struct trash *self, const struct trash_top *top, bool tells)
{
	_cleanup_closedir_ DIR *list = trash_list(top->fd);
	if (!list)
		return -errno;

	uint64_t enough = self->progress + TRASH_VISIT;
	struct dirent *entry;

	while (self->progress < enough && (entry = readdir(list))) {
		if (trash_is_dots(entry->d_name))
			continue;

		int rc = trash_unlink(self, top->fd, entry);
		if (rc == -EISDIR || rc == -EPERM) {
			int inner = trash_inner(self, top, entry->d_name);
			rc = inner == -ENOTDIR || inner == -ELOOP ? rc : inner;
		}

		if (rc < 0 && tells)
			trash_stays(self, top->name, entry->d_name, rc);
	}

	return 0;
}

/* What is in no directory: a plain file, a link. */
static void trash_file(struct trash *self, const char *name)
{
	if (unlinkat(self->fd, name, 0) == 0)
		trash_progress(self);
	else if (errno != ENOENT)
		trash_stays(self, name, "", -errno);
}

/* The numbers in a name; one that is not ours is nobody's. */
static void trash_read_name(struct trash_top *top)
{
	uint64_t id, uid;
	const char *dot = strchr(top->name, '.');
	size_t digits = dot ? strcspn(dot + 1, ".") : 0;
	if (!dot || parse_u64_span(top->name, (size_t)(dot - top->name), 0, UINT64_MAX, &id) < 0 ||
	    parse_u64_span(dot + 1, digits, 0, UINT32_MAX, &uid) < 0)
		return;

	top->id = id;
	top->uid = (uid_t)uid;
}

static void trash_visit(struct trash *self, const char *name)
{
	struct trash_top top = {.fd = -1, .name = name, .uid = self->own};
	trash_read_name(&top);

	uint64_t before, enough = self->progress + TRASH_VISIT;
	int rc = trash_enter(self, self->fd, name, top.uid);
	if (rc == -ENOENT)
		return;
	if (rc == -ENOTDIR || rc == -ELOOP) {
		trash_file(self, name);
		return;
	}

	if (rc < 0) {
		trash_stays(self, name, "", rc);
		return;
	}

	_cleanup_close_ int fd = rc;
	top.fd = fd;
	do {
		before = self->progress;
		rc = trash_look(self, &top, false);
	} while (rc == 0 && self->progress > before && self->progress < enough);
	crash_point("trash.emptied");

	rc = trash_rmdir(self, self->fd, name);
	if (rc == -ENOTEMPTY && self->progress == before) /* once more, to say why */
		rc = trash_look(self, &top, true);
	if (rc < 0 && rc != -ENOTEMPTY)
		trash_stays(self, name, "", rc);
}

int trash_clear(int trash_fd, void (*pause)(void *context), void *context, struct trash_left *out,
		struct err *err)
{
	struct trash self = {.fd = trash_fd, .own = geteuid(), .pause = pause, .context = context};
	uint64_t before;

	do {
		_cleanup_closedir_ DIR *list = trash_list(trash_fd);
		if (!list)
			return err_set(err, -errno, "reading the directory '%s': %s", trash_name,
				       err_describe(errno));

		before = self.progress;
		self.left.left = 0; /* of this pass */
		self.left.first[0] = '\0';

		struct dirent *entry;
		while ((entry = readdir(list)))
			if (!trash_is_dots(entry->d_name))
				trash_visit(&self, entry->d_name);
	} while (self.progress > before);
	*out = self.left;

	return 0;
}
