/* SPDX-License-Identifier: Apache-2.0 */
#include "job/jobmemory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "job/trash.h"

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
	int rc = fd < 0 ? err_set(err, -errno, "it cannot be opened: %s", err_describe(errno))
			: jobmemory_make_places(fd, count, uid, gid, err);

	return rc < 0 ? err_wrap(err, "'%s'", path) : 0;
}

/* Nothing is followed or asked that the job's user may have put there. NULL: it is not there, or no
 * directory of this mount. */
static DIR *jobmemory_open(int from_fd, const char *name)
{
	_cleanup_close_ int path_fd = trash_find(from_fd, name);
	_cleanup_close_ int fd =
	    path_fd < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	if (list)
		(void)take_fd(&fd);
	return list;
}

static void jobmemory_empty(DIR *list, int depth, unsigned *removed)
{
	const struct dirent *entry;

	while (*removed < JOBMEMORY_STEP && (entry = readdir(list))) {
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		if (entry->d_type != DT_DIR && unlinkat(dirfd(list), name, 0) == 0) {
			(*removed)++;
			continue;
		}

		if (depth == 0)
			continue; /* what is no file stays */

		_cleanup_closedir_ DIR *inner = jobmemory_open(dirfd(list), name);
		if (inner)
			jobmemory_empty(inner, depth - 1, removed);
		if (inner && unlinkat(dirfd(list), name, AT_REMOVEDIR) == 0)
			(*removed)++;
	}
}

bool jobmemory_remove_step(const char *instance)
{
	char path[JOBMEMORY_PATH_MAX];
	unsigned removed = 0;

	if (!instance[0])
		return true;

	jobmemory_path(instance, path);
	_cleanup_close_ int place = open(jobmemory_place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *name = path + strlen(jobmemory_place) + 1;
	_cleanup_closedir_ DIR *list = place < 0 ? NULL : jobmemory_open(place, name);
	if (!list)
		return true;

	jobmemory_empty(list, 1, &removed);
	return unlinkat(place, name, AT_REMOVEDIR) == 0 || removed == 0;
}

void jobmemory_remove(const char *instance)
{
	while (!jobmemory_remove_step(instance))
		;
}
