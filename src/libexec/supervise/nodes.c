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
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/queue/devguard.h"

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
		if (strncmp(entry->d_name, nodes_prefix, sizeof(nodes_prefix) - 1) != 0)
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

int nodes_apply(const struct nodes_wish *wish, struct err *err)
{
	int count = 0;
	if (unshare(CLONE_NEWNS) < 0)
		return err_set(err, -errno, "making a mount namespace: %s", err_describe(-errno));
	/* What is mounted here stays here; what is mounted outside later is seen. */
	if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
		return err_set(err, -errno, "separating mounts: %s", err_describe(-errno));
	if (mount("sluice", wish->place, "tmpfs", MS_NOSUID | MS_NOEXEC,
		  "mode=0700,size=64k,nr_inodes=1024") < 0) {
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
