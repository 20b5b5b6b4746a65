/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/sim/sim_mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/names.h"

enum mounts_limits {
	MOUNTS_DEPTH_MAX = 4,
	MOUNTS_PTMX = 2, /* minor number of /dev/ptmx, Documentation/admin-guide/devices.txt */
};

/* Directories of /sys whose real and simulated entries stand side by side; what else the trees have
 * takes the place of the real one as a whole. */
static const char *const merged[] = {
    "/sys",
    "/sys/bus",
    "/sys/bus/pci",
    "/sys/class",
    "/sys/class/dmi",
    "/sys/class/misc",
    "/sys/class/net",
    "/sys/devices",
    "/sys/devices/system",
    "/sys/devices/virtual",
    "/sys/dev",
    "/sys/dev/char",
    "/sys/kernel",
    "/sys/module",
    "/dev",
    "/dev/dri",
};

static int merge(const char *target, const char *sim, uint32_t depth, struct err *err);

static bool is_merged(const char *target)
{
	return names_find(merged, target) >= 0;
}

static int bind(const char *source, const char *target, struct err *err)
{
	if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) == 0)
		return 0;
	int code = errno;
	return err_set(err, -code, "cannot mount '%s' on '%s': %s", source, target,
		       err_describe(-code));
}

/* The kernel looks for the terminals of /dev/ptmx beside the node itself, which is not where a node
 * is mounted (devpts_acquire() in fs/devpts/inode.c): it has to be one of the new file system. */
static bool put_ptmx(const char *target, const struct stat *status)
{
	if (!S_ISCHR(status->st_mode) || status->st_rdev != makedev(TTYAUX_MAJOR, MOUNTS_PTMX))
		return false;
	return (mknod(target, S_IFCHR, status->st_rdev) == 0 &&
		chmod(target, status->st_mode & 07777) == 0) ||
	       symlink("pts/ptmx", target) == 0;
}

/* An empty place of the kind of `status`, and `source` mounted on it; links are copied. */
static int put(const char *source, const char *target, const struct stat *status, struct err *err)
{
	if (S_ISLNK(status->st_mode)) {
		char text[FILE_PATH_MAX];
		ssize_t length = readlink(source, text, sizeof(text) - 1);
		if (length < 0)
			return 0; /* gone meanwhile */

		text[length] = '\0';
		if (symlink(text, target) == 0 || errno == EEXIST)
			return 0;

		int code = errno;
		return err_set(err, -code, "cannot make '%s': %s", target, err_describe(-code));
	}

	if (S_ISDIR(status->st_mode)) {
		if (mkdir(target, 0755) != 0 && errno != EEXIST)
			return err_set(err, -errno, "cannot make directory '%s'", target);
	} else if (put_ptmx(target, status)) {
		return 0;
	} else {
		int fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return err_set(err, -errno, "cannot make '%s'", target);

		(void)close(fd);
	}

	return bind(source, target, err);
}

/* The real entries of a directory: `old` still shows them below the new file system. */
static int put_real(int old, const char *target, const char *sim, uint32_t depth, struct err *err)
{
	int list = openat(old, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *directory = list >= 0 ? fdopendir(list) : NULL;
	if (!directory) {
		if (list >= 0)
			(void)close(list);
		return err_set(err, -EIO, "cannot list '%s'", target);
	}

	struct dirent *entry;

	while ((entry = readdir(directory))) {
		char source[FILE_PATH_MAX], there[FILE_PATH_MAX], ours[FILE_PATH_MAX];
		struct stat real, simulated;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    fstatat(old, entry->d_name, &real, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		if (file_path(source, err, "/proc/self/fd/%d/%s", old, entry->d_name) != 0 ||
		    file_path(there, err, "%s/%s", target, entry->d_name) != 0 ||
		    file_path(ours, err, "%s/%s", sim, entry->d_name) != 0)
			return err->code;

		bool both = lstat(ours, &simulated) == 0;
		if (both && !(S_ISDIR(real.st_mode) && is_merged(there)))
			continue; /* the simulated one comes later */

		int rc = put(source, there, &real, err);
		if (rc == 0 && both)
			rc = merge(there, ours, depth + 1, err);
		if (rc != 0)
			return rc;
	}

	return 0;
}

static int put_simulated(const char *target, const char *sim, struct err *err)
{
	_cleanup_closedir_ DIR *directory = opendir(sim);
	if (!directory)
		return err_set(err, -errno, "cannot list '%s': is the machine running?", sim);

	struct dirent *entry;

	while ((entry = readdir(directory))) {
		char source[FILE_PATH_MAX], there[FILE_PATH_MAX];
		struct stat simulated, placed;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (file_path(source, err, "%s/%s", sim, entry->d_name) != 0 ||
		    file_path(there, err, "%s/%s", target, entry->d_name) != 0)
			return err->code;
		if (lstat(source, &simulated) != 0 || lstat(there, &placed) == 0)
			continue; /* merged already */

		int rc = put(source, there, &simulated, err);
		if (rc != 0)
			return rc;
	}

	return 0;
}

static int merge(const char *target, const char *sim, uint32_t depth, struct err *err)
{
	_cleanup_close_ int old = open(target, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (old < 0 || depth > MOUNTS_DEPTH_MAX)
		return err_set(err, -EIO, "cannot open '%s'", target);
	if (mount("sluice-sim", target, "tmpfs", MS_NOSUID, "mode=0755") != 0) {
		int code = errno;
		return err_set(err, -code, "cannot mount on '%s': %s", target, err_describe(-code));
	}

	int rc = put_real(old, target, sim, depth, err);
	return rc == 0 ? put_simulated(target, sim, err) : rc;
}

/*
 * The machine's CDI specifications, where every container runtime looks. Where this computer has no
 * such directory, its place is made in a file system of the namespace with the real /run below it.
 */
static int put_cdi(const char *root, struct err *err)
{
	char source[FILE_PATH_MAX], parent[FILE_PATH_MAX], real[FILE_PATH_MAX];
	if (file_path(parent, err, "%s/var/run", root) != 0 ||
	    file_path(source, err, "%s/cdi", parent) != 0 || file_mkdirs(source, 0755, err) != 0)
		return err->code;
	if (file_exists("/var/run/cdi"))
		return bind(source, "/var/run/cdi", err);
	if (!realpath("/var/run", real)) /* a link to /run, almost everywhere */
		return err_set(err, -errno, "cannot find '/var/run'");

	return merge(real, parent, 0, err);
}

int sim_mounts_enter(const char *root, struct err *err)
{
	char path[FILE_PATH_MAX];

	if (root[0] != '/')
		return err_set(err, -EINVAL, "the simulated machine has no files to mount");

	if (unshare(CLONE_NEWNS) != 0) {
		int code = errno;
		return err_set(err, -code, "cannot make a mount namespace: %s; --mounts needs root",
			       err_describe(-code));
	}

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return err_set(err, -errno, "cannot make the mounts of this program its own");

	int rc = 0;

	static const char *const whole[] = {"/proc/driver", "/proc/devices"};

	for (size_t i = 0; rc == 0 && i < sizeof(whole) / sizeof(*whole); i++) {
		rc = file_path(path, err, "%s%s", root, whole[i]);
		if (rc == 0)
			rc = bind(path, whole[i], err);
	}

	static const char *const side_by_side[] = {"/sys", "/dev"};

	for (size_t i = 0; rc == 0 && i < sizeof(side_by_side) / sizeof(*side_by_side); i++) {
		rc = file_path(path, err, "%s%s", root, side_by_side[i]);
		if (rc == 0)
			rc = merge(side_by_side[i], path, 0, err);
	}

	return rc == 0 ? put_cdi(root, err) : rc;
}
