/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"

enum {
	CGROUP_BATCH_MAX = 64,
	CGROUP_UMASK = 022, /* groups, whoever makes them: what a job's user runs looks at them */
};

/* --- making, opening -------------------------------------------------------------------------- */

int cgroup_open(const char *path, struct cgroup *out, struct err *err)
{
	if (strlen(path) >= sizeof(out->path))
		return err_set(err, -ENAMETOOLONG,
			       "the cgroup '%.64s...' has a path of %d bytes or more", path,
			       CGROUP_PATH_MAX);

	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening the cgroup '%s': %s", path,
			       err_describe(errno));

	struct statfs status;
	if (fstatfs(fd, &status) < 0)
		return err_set(err, -errno, "looking at the cgroup '%s': %s", path,
			       err_describe(errno));
	if (status.f_type != CGROUP2_SUPER_MAGIC)
		return err_set(err, -EMEDIUMTYPE, "'%s' is not in a cgroup2 file system", path);

	*out = (struct cgroup){.fd = take_fd(&fd)};
	(void)snprintf(out->path, sizeof(out->path), "%s", path); /* fits */
	return 0;
}

int cgroup_create(const char *root, const char *name, struct cgroup *out, struct err *err)
{
	struct cgroup parent _cleanup_cgroup_ = CGROUP_NONE;
	int rc = cgroup_open(root, &parent, err);
	if (rc < 0)
		return rc;

	char path[CGROUP_PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", root, name);
	if (length < 0 || length >= CGROUP_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the path of a cgroup '%s' in '%s' is too long",
			       name, root);

	mode_t before = umask(CGROUP_UMASK);
	int code = mkdirat(parent.fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;

	(void)umask(before);
	if (code < 0)
		return err_set(err, code, "making the cgroup '%s': %s", path, err_describe(code));

	struct cgroup cgroup _cleanup_cgroup_ = CGROUP_NONE;

	rc = cgroup_open(path, &cgroup, err);
	if (rc == 0)
		rc = cgroup_is_populated(&cgroup, err);
	if (rc > 0)
		return err_set(err, -EBUSY, "the cgroup '%s' is there, and processes in it", path);
	if (rc < 0)
		return rc;

	*out = cgroup;
	cgroup.fd = -1;
	return 0;
}

void cgroup_close(struct cgroup *cgroup)
{
	if (cgroup->fd >= 0)
		(void)close(cgroup->fd);
	*cgroup = CGROUP_NONE;
}

/* --- its files -------------------------------------------------------------------------------- */

static int cgroup_write(int fd, const char *file, const char *text)
{
	_cleanup_close_ int file_fd = openat(fd, file, O_WRONLY | O_CLOEXEC);
	if (file_fd < 0)
		return -errno;
	return write(file_fd, text, strlen(text)) < 0 ? -errno : 0;
}

int cgroup_join(const struct cgroup *cgroup)
{
	return cgroup_write(cgroup->fd, "cgroup.procs", "0"); /* 0: who writes */
}

int cgroup_move(const struct cgroup *cgroup, pid_t pid, struct err *err)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%d", (int)pid); /* fits */
	int rc = cgroup_write(cgroup->fd, "cgroup.procs", text);
	return rc == 0 ? 0
		       : err_set(err, rc, "moving process %d into the cgroup '%s': %s", (int)pid,
				 cgroup->path, err_describe(rc));
}

int cgroup_move_v1(const char *directory, pid_t pid, struct err *err)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%d", (int)pid); /* fits */
	_cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : cgroup_write(fd, "cgroup.procs", text);
	return rc == 0 ? 0
		       : err_set(err, rc, "moving process %d into the cgroup '%s': %s", (int)pid,
				 directory, err_describe(rc));
}

int cgroup_watch(const struct cgroup *cgroup, struct err *err)
{
	int fd = openat(cgroup->fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "opening '%s/cgroup.events': %s", cgroup->path,
			       err_describe(errno));
	return fd;
}

/* The value of the line "key value", which is 0 or 1. */
static bool cgroup_read_flag(const char *value, size_t length, bool *out)
{
	uint64_t number;
	if (parse_u64_span(value, length, 0, 1, &number) < 0)
		return false;
	*out = number;
	return true;
}

int cgroup_parse_events(const char *text, size_t length, struct cgroup_events *out, struct err *err)
{
	struct cgroup_events events = {0};
	bool has_populated = false;
	const char *at = text, *end = text + length;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		const char *blank = stop ? memchr(at, ' ', (size_t)(stop - at)) : NULL;
		if (!blank)
			return err_set(err, -EBADMSG, "a line of cgroup.events is cut short");

		size_t key = (size_t)(blank - at), value = (size_t)(stop - blank - 1);
		bool is_good = true;

		if (key == 9 && memcmp(at, "populated", 9) == 0) {
			is_good = cgroup_read_flag(blank + 1, value, &events.populated);
			has_populated = true;
		} else if (key == 6 && memcmp(at, "frozen", 6) == 0) {
			is_good = cgroup_read_flag(blank + 1, value, &events.frozen);
		}

		if (!is_good)
			return err_set(err, -EBADMSG, "a value in cgroup.events is not 0 or 1");

		at = stop + 1;
	}

	if (!has_populated)
		return err_set(err, -EBADMSG, "cgroup.events does not say 'populated'");

	*out = events;
	return 0;
}

static int cgroup_events(const struct cgroup *cgroup, struct cgroup_events *out, struct err *err)
{
	_cleanup_close_ int fd = cgroup_watch(cgroup, err);
	if (fd < 0)
		return fd;

	char text[CGROUP_TEXT_MAX];
	ssize_t length = pread(fd, text, sizeof(text), 0);
	if (length < 0)
		return err_set(err, -errno, "reading '%s/cgroup.events': %s", cgroup->path,
			       err_describe(errno));

	return cgroup_parse_events(text, (size_t)length, out, err);
}

int cgroup_is_populated(const struct cgroup *cgroup, struct err *err)
{
	struct cgroup_events events;
	int rc = cgroup_events(cgroup, &events, err);
	if (rc == -ENOENT) /* opened, and removed since */
		return err_set(err, -ENODEV, "the cgroup '%s' is removed", cgroup->path);
	return rc < 0 ? rc : events.populated;
}

/* --- its processes ---------------------------------------------------------------------------- */

/* Processes of one group that are about to be sent a signal. */
struct cgroup_batch {
	int signal_number;
	size_t count;
	struct {
		pid_t pid;
		int fd; /* a pidfd */
		bool is_there;
	} each[CGROUP_BATCH_MAX];
	size_t *seen;
	int group_fd;
};

/* Calls `each` with every process of one group, whose numbers we can tell. */
static int cgroup_each(int fd, void (*each)(struct cgroup_batch *batch, pid_t pid),
		       struct cgroup_batch *batch)
{
	_cleanup_close_ int procs = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (procs < 0)
		return -errno;

	char text[CGROUP_TEXT_MAX];
	size_t filled = 0;

	for (size_t seen = 0; seen < CGROUP_PROCESS_MAX;) {
		ssize_t length = read(procs, text + filled, sizeof(text) - filled);
		if (length <= 0)
			return length < 0 ? -errno : 0;

		filled += (size_t)length;
		char *at = text, *stop;

		while ((stop = memchr(at, '\n', filled - (size_t)(at - text)))) {
			uint64_t pid;
			if (parse_u64_span(at, (size_t)(stop - at), 0, INT32_MAX, &pid) == 0)
				each(batch, (pid_t)pid);
			seen++;
			at = stop + 1;
		}

		filled -= (size_t)(at - text);
		memmove(text, at, filled);
	}

	return 0;
}

static void cgroup_find(struct cgroup_batch *batch, pid_t pid)
{
	for (size_t i = 0; i < batch->count; i++)
		batch->each[i].is_there |= batch->each[i].pid == pid;
}

/* A number may be a stranger's by the time that it was read. What a pidfd stands for is not, and it
 * is of the group if that number is in it now. */
static void cgroup_send(struct cgroup_batch *batch)
{
	if (batch->count > 0)
		(void)cgroup_each(batch->group_fd, cgroup_find, batch); /* else nobody is there */

	for (size_t i = 0; i < batch->count; i++) {
		if (batch->each[i].is_there)
			(void)pidfd_send_signal(batch->each[i].fd, batch->signal_number, NULL, 0);
		(void)close(batch->each[i].fd);
	}

	batch->count = 0;
}

static void cgroup_add(struct cgroup_batch *batch, pid_t pid)
{
	(*batch->seen)++;
	if (pid == 0 || batch->signal_number == 0)
		return; /* 0: of another PID namespace, which we cannot name */

	int fd = pidfd_open(pid, 0);
	if (fd < 0) {
		/* Before Linux 5.3, or forbidden by a container's seccomp filter: by number, which
		 * stays while it is frozen. */
		if (errno == ENOSYS || errno == EPERM)
			(void)kill(pid, batch->signal_number);
		return;
	}

	batch->each[batch->count].pid = pid;
	batch->each[batch->count].fd = fd;
	batch->each[batch->count++].is_there = false;

	if (batch->count == CGROUP_BATCH_MAX)
		cgroup_send(batch);
}

/* Sends a signal (0: none) to each process of one group; adds them up. */
static int cgroup_signal_one(int fd, int signal_number, size_t *count)
{
	struct cgroup_batch batch = {.signal_number = signal_number, .seen = count, .group_fd = fd};
	int rc = cgroup_each(fd, cgroup_add, &batch);
	cgroup_send(&batch);
	return rc;
}

/* Goes through the group and all below it; `remove_`: removes those below instead. */
static int cgroup_walk(int fd, int signal_number, bool remove_, unsigned depth, size_t *count)
{
	int rc = remove_ ? 0 : cgroup_signal_one(fd, signal_number, count);
	int copy = rc < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	if (!list) {
		rc = rc < 0 ? rc : -errno;
		if (copy >= 0)
			(void)close(copy);
		return rc;
	}

	struct dirent *entry;

	while (rc == 0 && (entry = readdir(list))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;

		_cleanup_close_ int inner = openat(dirfd(list), entry->d_name,
						   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (inner < 0)
			continue; /* removed meanwhile */

		rc = depth == 0 ? -ELOOP
				: cgroup_walk(inner, signal_number, remove_, depth - 1, count);
		if (rc == 0 && remove_ && unlinkat(dirfd(list), entry->d_name, AT_REMOVEDIR) < 0 &&
		    errno != ENOENT)
			rc = -errno;
	}

	return rc;
}

int cgroup_count(const struct cgroup *cgroup, size_t *out, struct err *err)
{
	size_t count = 0;
	int rc = cgroup_walk(cgroup->fd, 0, false, CGROUP_DEPTH_MAX, &count);
	if (rc < 0)
		return err_set(err, rc, "counting the processes of '%s': %s", cgroup->path,
			       err_describe(rc));
	*out = count;
	return 0;
}

int cgroup_kill_frozen(const struct cgroup *cgroup, struct err *err)
{
	/* What cannot be frozen (a kernel before 5.2) is killed as it runs. */
	size_t count = 0;

	(void)cgroup_write(cgroup->fd, "cgroup.freeze", "1");
	int rc = cgroup_walk(cgroup->fd, SIGKILL, false, CGROUP_DEPTH_MAX, &count);

	(void)cgroup_write(cgroup->fd, "cgroup.freeze", "0");
	if (rc < 0)
		return err_set(err, rc, "killing the processes of '%s': %s", cgroup->path,
			       err_describe(rc));

	return 0;
}

int cgroup_kill(const struct cgroup *cgroup, struct err *err)
{
	int rc = cgroup_write(cgroup->fd, "cgroup.kill", "1");
	return rc == 0 ? 0 : cgroup_kill_frozen(cgroup, err);
}

int cgroup_remove(const struct cgroup *cgroup, struct err *err)
{
	size_t count = 0;
	int rc = cgroup_walk(cgroup->fd, 0, true, CGROUP_DEPTH_MAX, &count);
	/* The path is still its own: nobody else makes groups of that name. */
	if (rc == 0 && rmdir(cgroup->path) < 0)
		rc = -errno;
	if (rc < 0 && rc != -ENOENT)
		return err_set(err, rc, "removing the cgroup '%s': %s", cgroup->path,
			       err_describe(rc));

	return 0;
}

/* --- the hierarchies of v1 -------------------------------------------------------------------- */

static const char cgroup_mounts[] = "/sys/fs/cgroup";
static const char cgroup_unified[] = "/sys/fs/cgroup/unified/";

static bool cgroup_is_v1(int fd)
{
	struct statfs status;
	return fstatfs(fd, &status) == 0 && (uint32_t)status.f_type == (uint32_t)CGROUP_SUPER_MAGIC;
}

int cgroup_make_v1(const char *group, struct err *err)
{
	mode_t before = umask(CGROUP_UMASK);
	/* What is above it is there but for the first job. */
	int rc = mkdir(group, 0755) == 0 ? 0 : file_mkdirs(group, 0755, err);
	(void)umask(before);

	return rc;
}

int cgroup_path_v1(const char *path, const char *controller, char out[CGROUP_PATH_MAX],
		   struct err *err)
{
	size_t before = strlen(cgroup_unified);
	char text[CGROUP_PATH_MAX];
	int length = strncmp(path, cgroup_unified, before) == 0
			 ? snprintf(text, sizeof(text), "%s/%s", cgroup_mounts, controller)
			 : -1;
	_cleanup_close_ int fd = length > 0 && length < CGROUP_PATH_MAX
				     ? open(text, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				     : -1;
	if (fd < 0 || !cgroup_is_v1(fd))
		return err_set(err, -ENOENT, "there is no hierarchy '%s' of cgroup v1", controller);

	length = snprintf(text, sizeof(text), "%s/%s/%s", cgroup_mounts, controller, path + before);
	if (length < 0 || length >= CGROUP_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the path of the cgroup '%s' is too long", path);

	memcpy(out, text, sizeof(text));
	return 0;
}

static void cgroup_remove_below(int mount_fd, const char *path, bool whole)
{
	size_t count = 0;
	_cleanup_close_ int fd =
	    openat(mount_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (whole)
		(void)cgroup_walk(fd, 0, true, CGROUP_DEPTH_MAX, &count);
	(void)unlinkat(mount_fd, path, AT_REMOVEDIR); /* somebody may be in it */
}

void cgroup_remove_one_v1(const char *group)
{
	if (group[0])
		cgroup_remove_below(AT_FDCWD, group, true);
}

void cgroup_remove_v1(const char *path, bool whole)
{
	if (!text_starts_with(path, cgroup_unified))
		return;

	_cleanup_closedir_ DIR *list = opendir(cgroup_mounts);
	const struct dirent *entry;

	while (list && (entry = readdir(list))) {
		if (entry->d_name[0] == '.')
			continue;

		_cleanup_close_ int fd = openat(dirfd(list), entry->d_name,
						O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && cgroup_is_v1(fd))
			cgroup_remove_below(fd, path + strlen(cgroup_unified), whole);
	}
}
