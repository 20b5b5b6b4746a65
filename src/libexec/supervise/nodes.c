/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/supervise/nodes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "job/cgroup/devguard.h"

/* What sluice.jobs.enforce closes begins so, and links and other things do not. */
static const char nodes_prefix[] = "nvidia";

static bool nodes_is_denied(const struct nodes_wish *wish, dev_t device)
{
	for (size_t i = 0; i < wish->denied_count; i++) {
		const struct devguard_rule *rule = &wish->denied[i];
		if (rule->type == 'c' && rule->major == major(device) &&
		    minor(device) >= rule->first && minor(device) <= rule->last)
			return true;
	}
	return false;
}

/* A copy of one, over it. */
static int nodes_copy(const struct nodes_wish *wish, const char *path, const struct stat *status,
		      int number, struct err *err)
{
	char copy[FILE_PATH_MAX];
	int rc = file_path(copy, err, "%s/%d", wish->place, number);
	if (rc < 0)
		return rc;

	/* chmod(2): the umask is not asked. */
	if (mknod(copy, S_IFCHR | 0600, status->st_rdev) < 0 ||
	    chown(copy, wish->uid, wish->gid) < 0 || chmod(copy, wish->mode) < 0 ||
	    mount(copy, path, NULL, MS_BIND, NULL) < 0) {
		int code = -errno;
		return err_set(err, code, "making the job's own '%s': %s", path,
			       err_describe(code));
	}

	return 0;
}

static int nodes_copy_all(const struct nodes_wish *wish, const char *directory, int *count,
			  struct err *err)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, err, "%s/%s", wish->root, directory);
	_cleanup_closedir_ DIR *entries = rc == 0 ? opendir(path) : NULL;

	for (const struct dirent *entry; rc == 0 && entries && (entry = readdir(entries));) {
		struct stat status;

		if (!text_starts_with(entry->d_name, nodes_prefix))
			continue;

		rc = file_path(path, err, "%s/%s/%s", wish->root, directory, entry->d_name);
		if (rc < 0 || lstat(path, &status) < 0 || !S_ISCHR(status.st_mode) ||
		    nodes_is_denied(wish, status.st_rdev))
			continue;
		if (*count == NODES_MAX)
			return err_set(err, -E2BIG, "more than %d nodes of GPUs", NODES_MAX);

		rc = nodes_copy(wish, path, &status, (*count)++, err);
	}

	return rc;
}

/* --- where they lie --------------------------------------------------------------------------- */

/* Of linux/mount.h, which older systems lack, and newer ones have again in sys/mount.h; the numbers
 * of the calls are the same everywhere. */
enum nodes_mount_api {
	NODES_MOVE_MOUNT = 429,
	NODES_FSOPEN = 430,
	NODES_FSCONFIG = 431,
	NODES_FSMOUNT = 432,
	NODES_CLOEXEC = 1, /* FSOPEN_CLOEXEC, FSMOUNT_CLOEXEC */
	NODES_SET_STRING = 1,
	NODES_CMD_CREATE = 6,
	NODES_ATTR_NOSUID = 2,
	NODES_ATTR_NOEXEC = 8,
	NODES_MOVE_EMPTY_PATH = 4,
};

static int nodes_memory_new(void)
{
	_cleanup_close_ int made = (int)syscall(NODES_FSOPEN, "tmpfs", NODES_CLOEXEC);

	static const char *const options[][2] = {
	    {"mode", "0700"}, {"size", "64k"}, {"nr_inodes", "1024"}};
	if (made < 0)
		return -1;

	for (size_t i = 0; i < array_length(options); i++)
		if (syscall(NODES_FSCONFIG, made, NODES_SET_STRING, options[i][0], options[i][1],
			    0) < 0)
			return -1;

	if (syscall(NODES_FSCONFIG, made, NODES_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;

	return (int)syscall(NODES_FSMOUNT, made, NODES_CLOEXEC,
			    NODES_ATTR_NOSUID | NODES_ATTR_NOEXEC);
}

int nodes_memories_add(struct nodes_memories *memories)
{
	int fd = memories->count < NODES_MEMORIES_MAX ? nodes_memory_new() : -1;
	if (fd >= 0)
		memories->fds[memories->count++] = fd;
	return fd;
}

static void nodes_memory_close(int fd)
{
	int directory = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *entries = directory < 0 ? NULL : fdopendir(directory);
	if (directory >= 0 && !entries)
		(void)close(directory);

	for (const struct dirent *entry; entries && (entry = readdir(entries));) {
		if (entry->d_name[0] == '.')
			continue;
		/* Opening asks for the mode again, whoever holds what. Both: root's is nobody's. */
		(void)fchmodat(fd, entry->d_name, 0, 0);
		(void)fchownat(fd, entry->d_name, 0, 0, AT_SYMLINK_NOFOLLOW);
	}

	(void)close(fd);
}

void nodes_memories_close(struct nodes_memories *memories)
{
	for (size_t i = 0; i < memories->count; i++)
		nodes_memory_close(memories->fds[i]);
	memories->count = 0;
}

static int nodes_mount(const struct nodes_wish *wish)
{
	if (wish->memory_fd >= 0)
		return (int)syscall(NODES_MOVE_MOUNT, wish->memory_fd, "", AT_FDCWD, wish->place,
				    NODES_MOVE_EMPTY_PATH);
	return mount("sluice", wish->place, "tmpfs", MS_NOSUID | MS_NOEXEC,
		     "mode=0700,size=64k,nr_inodes=1024");
}

int nodes_apply(const struct nodes_wish *wish, struct err *err)
{
	int count = 0;

	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, -errno, "making a mount namespace: %s", err_describe(-errno));

	/* What is mounted here stays here; what is mounted outside later is seen. */
	if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
		return err_set(err, -errno, "separating mounts: %s", err_describe(-errno));
	if (nodes_mount(wish) < 0) {
		int code = -errno;
		return err_set(err, code, "mounting on '%s': %s", wish->place, err_describe(code));
	}

	int rc = nodes_copy_all(wish, "dev", &count, err);
	if (rc == 0)
		rc = nodes_copy_all(wish, "dev/nvidia-caps", &count, err);

	/* The copies hold on to it; its name is not needed, and what lies below it is. */
	if (umount2(wish->place, MNT_DETACH) < 0 && rc == 0)
		rc = err_set(err, -errno, "unmounting '%s': %s", wish->place, err_describe(-errno));

	return rc < 0 ? rc : count;
}
