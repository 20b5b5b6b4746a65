/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/footprint_pod.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "perf/queue_rig.h"

enum { POD_LINE_MAX = 4096, POD_CHUNK = 16 << 20 };

static bool pod_has(const struct footprint_pod *pod, const char *path)
{
	for (size_t i = 0; i < pod->count; i++)
		if (strcmp(pod->path[i], path) == 0)
			return true;

	return false;
}

/* "55d0-55e0 r-xp 0 08:01 123   /usr/bin/x\n": the file, if it is code that the process shares with
 * nobody's memory on purpose. NULL: something else. */
static const char *pod_mapped_file(char *line)
{
	char *permissions = strchr(line, ' '), *path = strchr(line, '/');
	if (!permissions || strncmp(permissions + 1, "r-xp", 4) != 0 || !path)
		return NULL;

	path[strcspn(path, "\n")] = '\0';
	return path;
}

void footprint_pod_add(struct footprint_pod *pod, pid_t pid)
{
	char maps[64], line[POD_LINE_MAX];
	(void)snprintf(maps, sizeof(maps), "/proc/%d/maps", (int)pid);

	FILE *lines = fopen(maps, "re");
	rig_must(lines, "cannot read %s: %s", maps, strerror(errno));

	while (fgets(line, sizeof(line), lines)) {
		const char *path = pod_mapped_file(line);
		if (!path || pod_has(pod, path))
			continue;

		rig_must(pod->count < FOOTPRINT_POD_FILES_MAX &&
			     strlen(path) < FOOTPRINT_POD_PATH_MAX,
			 "process %d maps too many files, or '%s' is too long", (int)pid, path);
		(void)strncpy(pod->path[pod->count++], path, FOOTPRINT_POD_PATH_MAX - 1);
	}

	(void)fclose(lines);
}

/* Onto the disk as well: a page that waits for it would be told as written to by the process. */
static void pod_copy(const char *from, const char *to)
{
	_cleanup_close_ int in = open(from, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);

	rig_must(in >= 0 && out >= 0, "cannot copy '%s' to '%s': %s", from, to, strerror(errno));

	ssize_t got;
	while ((got = copy_file_range(in, NULL, out, NULL, POD_CHUNK, 0)) > 0)
		continue;

	rig_must(got == 0 && fsync(out) == 0, "cannot copy '%s' to '%s': %s", from, to,
		 strerror(errno));
}

int footprint_pod_enter(const struct footprint_pod *pod, const char *directory)
{
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;

	rig_must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0,
		 "cannot have mounts of its own: %s", strerror(errno));

	char copies[RIG_PATH_MAX + 16];
	(void)snprintf(copies, sizeof(copies), "%s/copies", directory);
	rig_must(mkdir(copies, 0755) == 0, "cannot make %s", copies);

	for (size_t i = 0; i < pod->count; i++) {
		char copy[RIG_PATH_MAX + 48];
		(void)snprintf(copy, sizeof(copy), "%s/%zu", copies, i);
		pod_copy(pod->path[i], copy);
		rig_must(mount(copy, pod->path[i], NULL, MS_BIND, NULL) == 0,
			 "cannot lay a copy over '%s': %s", pod->path[i], strerror(errno));
	}

	return 0;
}
