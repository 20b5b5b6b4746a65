/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/driver_users.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"

static void close_directory(DIR **directory)
{
	if (*directory)
		(void)closedir(*directory);
}

/* Whether the link leads to one of the driver's nodes: DEV/nvidia0, DEV/nvidiactl, DEV/nvidia-uvm,
 * DEV/nvidia-caps/... */
static bool is_node(const char *link, const char *dev, char out[DRIVER_USERS_NODE_MAX])
{
	char target[FILE_PATH_MAX];
	ssize_t length = readlink(link, target, sizeof(target) - 1);
	if (length <= 0)
		return false;

	target[length] = '\0';
	size_t prefix = strlen(dev);
	if (strncmp(target, dev, prefix) != 0 || !text_starts_with(target + prefix, "/nvidia"))
		return false;

	(void)snprintf(out, DRIVER_USERS_NODE_MAX, "/dev%.*s", DRIVER_USERS_NODE_MAX - 5,
		       target + prefix);
	return true;
}

static bool find_node(const char *proc, pid_t pid, const char *dev, char out[DRIVER_USERS_NODE_MAX])
{
	char path[FILE_PATH_MAX];
	if (file_path(path, NULL, "%s/%d/fd", proc, (int)pid) < 0)
		return false;

	__attribute__((cleanup(close_directory))) DIR *directory = opendir(path);
	const struct dirent *entry;
	while (directory && (entry = readdir(directory))) {
		if (file_path(path, NULL, "%s/%d/fd/%s", proc, (int)pid, entry->d_name) == 0 &&
		    is_node(path, dev, out))
			return true;
	}

	return false;
}

static void read_name(const char *proc, pid_t pid, char out[DRIVER_USERS_NAME_MAX])
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf comm;

	buf_init(&comm, 256);
	out[0] = '\0';

	if (file_path(path, NULL, "%s/%d/comm", proc, (int)pid) == 0 &&
	    file_read(path, &comm, NULL) == 0)
		(void)snprintf(out, DRIVER_USERS_NAME_MAX, "%.*s",
			       (int)strcspn(buf_text(&comm), "\n"), buf_text(&comm));
}

size_t driver_users_find(const char *proc, const char *dev, struct driver_user *out)
{
	__attribute__((cleanup(close_directory))) DIR *directory = opendir(proc);
	const struct dirent *entry;
	size_t count = 0;

	while (directory && count < DRIVER_USERS_MAX && (entry = readdir(directory))) {
		uint64_t pid;
		if (parse_u64(entry->d_name, 1, INT32_MAX, &pid) < 0)
			continue;

		struct driver_user *user = &out[count];
		if (!find_node(proc, (pid_t)pid, dev, user->node))
			continue;

		user->pid = (pid_t)pid;
		read_name(proc, user->pid, user->name);
		count++;
	}

	return count;
}
