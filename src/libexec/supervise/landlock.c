/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/names.h"
#include "job/cgroup/devguard.h"

/* Of linux/landlock.h, which systems older than their kernel do not have. */
enum landlock_kernel {
	LANDLOCK_CREATE = 444,
	LANDLOCK_ADD = 445,
	LANDLOCK_SELF = 446,
	LANDLOCK_VERSION_FLAG = 1,
	LANDLOCK_BENEATH = 1,
	LANDLOCK_WRITE_FILE = 1 << 1,
	LANDLOCK_READ_FILE = 1 << 2,
	LANDLOCK_MAKE_CHAR = 1 << 6,
	LANDLOCK_REFER = 1 << 13, /* since version 2; without it no file is moved between
				     directories */
};

struct landlock_beneath {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

static const char *const landlock_devices = "/dev";
/* Nodes of GPUs come and go in these: none is allowed that is not there now. */
static const char *const landlock_closed[] = {"dri", "nvidia-caps"};

struct landlock_walk {
	const struct landlock_plan *plan;
	int ruleset_fd;
	uint64_t files, directories; /* what is allowed on each */
	char root[FILE_PATH_MAX];    /* the other /dev; "": none */
};

int landlock_version(void)
{
	long rc = syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG);
	return rc < 0 ? -errno : (int)rc;
}

static bool landlock_is_denied(const struct landlock_plan *plan, const struct stat *status)
{
	char type = S_ISCHR(status->st_mode) ? 'c' : S_ISBLK(status->st_mode) ? 'b' : '\0';
	for (size_t i = 0; type && i < plan->count; i++) {
		const struct devguard_rule *rule = &plan->denied[i];
		if (rule->type == type && rule->major == major(status->st_rdev) &&
		    minor(status->st_rdev) >= rule->first && minor(status->st_rdev) <= rule->last)
			return true;
	}

	return false;
}

/* Whether `path` is `inner` or a directory above it. */
static bool landlock_leads_to(const char *path, const char *inner)
{
	size_t length = strlen(path);
	return *inner && strncmp(inner, path, length) == 0 &&
	       (inner[length] == '/' || inner[length] == '\0');
}

/* -ENOENT: it went away. */
static int landlock_allow(const struct landlock_walk *walk, int directory_fd, const char *name,
			  bool is_directory)
{
	_cleanup_close_ int fd = openat(directory_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	struct landlock_beneath beneath = {
	    .allowed = is_directory ? walk->directories : walk->files, .parent_fd = fd};
	long rc = syscall(LANDLOCK_ADD, walk->ruleset_fd, LANDLOCK_BENEATH, &beneath, 0);
	return rc < 0 ? -errno : 0;
}

/* Whether something directly in it is denied. */
static bool landlock_has_denied(const struct landlock_walk *walk, int directory_fd,
				const char *name)
{
	int fd = openat(directory_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !list)
		(void)close(fd);

	const struct dirent *entry;

	while (list && (entry = readdir(list))) {
		struct stat status;
		if ((entry->d_type == DT_CHR || entry->d_type == DT_UNKNOWN) &&
		    fstatat(dirfd(list), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    landlock_is_denied(walk->plan, &status))
			return true;
	}

	return names_find(landlock_closed, name) >= 0;
}

static int landlock_walk(const struct landlock_walk *walk, const char *path, bool is_devices,
			 unsigned depth);

static int landlock_walk_entry(const struct landlock_walk *walk, int directory_fd,
			       const char *directory, const char *name, bool is_devices,
			       unsigned depth)
{
	struct stat status;
	char path[FILE_PATH_MAX];

	if (fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
	    S_ISLNK(status.st_mode))
		return 0; /* what a link leads to has a rule or not */

	int rc = file_path(path, NULL, "%s/%s", directory[1] ? directory : "", name);
	if (rc < 0)
		return rc;

	bool is_there = strcmp(path, landlock_devices) == 0 || strcmp(path, walk->root) == 0;
	bool leads =
	    landlock_leads_to(path, landlock_devices) || landlock_leads_to(path, walk->root);
	if (S_ISDIR(status.st_mode) &&
	    (leads || (is_devices && landlock_has_denied(walk, directory_fd, name))))
		return depth == 0 ? -ELOOP
				  : landlock_walk(walk, path, is_devices || is_there, depth - 1);

	if (landlock_is_denied(walk->plan, &status))
		return 0;

	rc = landlock_allow(walk, directory_fd, name, S_ISDIR(status.st_mode));
	return rc == -ENOENT || rc == -EACCES ? 0 : rc;
}

static int landlock_walk(const struct landlock_walk *walk, const char *path, bool is_devices,
			 unsigned depth)
{
	_cleanup_closedir_ DIR *list = opendir(path);
	if (!list)
		return errno == ENOENT ? 0 : -errno;

	const struct dirent *entry;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && (entry = readdir(list)); i++) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;

		rc = i == LANDLOCK_ENTRIES_MAX
			 ? -E2BIG
			 : landlock_walk_entry(walk, dirfd(list), path, entry->d_name, is_devices,
					       depth);
	}

	return rc;
}

int landlock_restrict(const struct landlock_plan *plan)
{
	int version = landlock_version();
	if (version < 0)
		return version;

	uint64_t both = LANDLOCK_READ_FILE | LANDLOCK_WRITE_FILE;
	struct landlock_walk walk = {.plan = plan, .files = both, .directories = both};

	if (version >= 2)
		walk.directories |= LANDLOCK_REFER;

	int rc = plan->device_root[0] ? file_path(walk.root, NULL, "%s/dev", plan->device_root) : 0;
	if (rc < 0)
		return rc;

	/* The first version's struct: all that is handled here. */
	uint64_t handled = walk.directories | LANDLOCK_MAKE_CHAR;
	_cleanup_close_ int fd = (int)syscall(LANDLOCK_CREATE, &handled, sizeof(handled), 0);
	if (fd < 0)
		return -errno;

	walk.ruleset_fd = fd;
	rc = landlock_walk(&walk, "/", false, LANDLOCK_DEPTH_MAX);
	if (rc < 0)
		return rc;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(LANDLOCK_SELF, fd, 0) < 0)
		return -errno;

	return 0;
}
