/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/queue/jobmemory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"

enum { JOBMEMORY_NAME_MAX = 32 };

static const char jobmemory_place[] = "/dev/shm";

static void jobmemory_path(const char *instance, char out[JOBMEMORY_PATH_MAX])
{
	(void)snprintf(out, JOBMEMORY_PATH_MAX, "%s/sluice-%.36s", jobmemory_place,
		       instance); /* fits */
}

int jobmemory_make_places(int fd, size_t count, uid_t uid, gid_t gid, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		char own[JOBMEMORY_NAME_MAX];
		(void)snprintf(own, sizeof(own), "w%zu", i); /* fits */
		if (mkdirat(fd, own, 0700) < 0 ||
		    fchownat(fd, own, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(err, -errno, "making '%s': %s", own, err_describe(errno));
	}
	/* Done with by then. */
	return fchown(fd, uid, gid) == 0 ? 0
					 : err_set(err, -errno, "giving it to user %u: %s",
						   (unsigned)uid, err_describe(errno));
}

int jobmemory_make(const char *instance, size_t count, uid_t uid, gid_t gid,
		   char out[JOBMEMORY_PATH_MAX], struct err *err)
{
	struct stat status;
	char path[JOBMEMORY_PATH_MAX];
	out[0] = '\0';
	if (stat(jobmemory_place, &status) < 0 || !S_ISDIR(status.st_mode))
		return 0;
	jobmemory_path(instance, path);
	if (mkdir(path, 0700) < 0)
		return err_set(err, -errno, "making '%s': %s", path, err_describe(errno));
	(void)snprintf(out, JOBMEMORY_PATH_MAX, "%s", path); /* ours from here on; fits */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int result = fd < 0 ? err_set(err, -errno, "it cannot be opened: %s", err_describe(errno))
			    : jobmemory_make_places(fd, count, uid, gid, err);
	return result < 0 ? err_wrap(err, "'%s'", path) : 0;
}

/* The job's user may have put anything there, so nothing is followed. */
static void jobmemory_empty(int fd, int depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;
	if (!list && copy >= 0)
		(void)close(copy);
	for (int i = 0; list && i < JOBMEMORY_ENTRIES_MAX && (entry = readdir(list)); i++) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (depth == 0) {
			(void)unlinkat(fd, entry->d_name, 0); /* what is no file stays */
			continue;
		}
		_cleanup_close_ int inner =
		    openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (inner >= 0)
			jobmemory_empty(inner, depth - 1);
		(void)unlinkat(fd, entry->d_name, inner >= 0 ? AT_REMOVEDIR : 0);
	}
}

void jobmemory_remove(const char *instance)
{
	char path[JOBMEMORY_PATH_MAX];
	if (!instance[0])
		return;
	jobmemory_path(instance, path);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	jobmemory_empty(fd, 1);
	(void)rmdir(path);
}
