/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/jobgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "doors/queue/cgroup.h"

enum jobgroup_internals {
	JOBGROUP_SELF_MAX = 16 << 10, /* bytes of /proc/self/cgroup */
};

/* Where cgroup2 is: alone, or beside the old hierarchies. */
static const char *const jobgroup_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL};
static const struct jobgroup_places jobgroup_real = {.mounts = jobgroup_mounts,
						     .self = "/proc/self/cgroup"};

static const char *jobgroup_find_mount(const struct jobgroup_places *places)
{
	for (size_t i = 0; places->mounts[i]; i++) {
		struct statfs info;
		if (statfs(places->mounts[i], &info) == 0 &&
		    (places->any_file_system ||
		     (uint32_t)info.f_type == (uint32_t)CGROUP2_SUPER_MAGIC))
			return places->mounts[i];
	}
	return NULL;
}

/* The path behind "0::", from the mount; "" for the top. */
static int jobgroup_own(const struct jobgroup_places *places, char out[JOBGROUP_PATH_MAX],
			struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, JOBGROUP_SELF_MAX);
	int result = file_read(places->self, &text, err);
	if (result < 0)
		return result;
	const char *line = buf_text(&text);
	while (line && strncmp(line, "0::/", 4) != 0) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return err_set(err, -ENOENT, "'%s' names no group of cgroup v2", places->self);
	size_t length = strcspn(line + 3, "\n");
	if (length >= JOBGROUP_PATH_MAX)
		return err_set(err, -ENAMETOOLONG, "the name of this process's cgroup is too long");
	/* "/" alone is the top */
	(void)snprintf(out, JOBGROUP_PATH_MAX, "%.*s", length > 1 ? (int)length : 0, line + 3);
	return 0;
}

/* Two agents of one machine must not share it: their jobs have the same numbers. */
static uint64_t jobgroup_digest(const char *text)
{
	uint64_t digest = UINT64_C(14695981039346656037); /* FNV-1a */
	for (; *text; text++)
		digest = (digest ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return digest;
}

int jobgroup_make(const char *state_dir, bool is_system, const struct jobgroup_places *places,
		  char out[JOBGROUP_PATH_MAX], struct err *err)
{
	char own[JOBGROUP_PATH_MAX] = "", path[JOBGROUP_PATH_MAX];
	if (!places)
		places = &jobgroup_real;
	const char *mount = jobgroup_find_mount(places);
	if (!mount)
		return err_set(err, -ENOENT, "there is no cgroup v2 file system in /sys/fs/cgroup");
	int result = is_system ? 0 : jobgroup_own(places, own, err);
	if (result < 0)
		return result;
	int length = snprintf(path, sizeof(path), "%s%s/sluice-%016" PRIx64, mount, own,
			      jobgroup_digest(state_dir));
	if (length < 0 || (size_t)length >= sizeof(path))
		return err_set(err, -ENAMETOOLONG, "the name of this process's cgroup is too long");
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return err_set(err, -errno, "cannot make the cgroup '%s': %s", path,
			       err_describe(-errno));
	if (access(path, W_OK | X_OK) < 0)
		return err_set(err, -errno, "cannot use the cgroup '%s': %s", path,
			       err_describe(-errno));
	memcpy(out, path, sizeof(path));
	return 0;
}

void jobgroup_remove(const char *path)
{
	if (!*path)
		return;
	(void)rmdir(path); /* EBUSY: a job is in it */
	cgroup_remove_v1(path, false);
}
