/* SPDX-License-Identifier: Apache-2.0 */
#include "job/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"

/* Fields after "(comm) ", counted from 0: state, ppid, pgrp, ... starttime, vsize, ... env_end
 * (proc(5): 3, 4, 5, 22, 23, 51). */
enum {
	TREE_FIELD_STATE = 0,
	TREE_FIELD_PARENT = 1,
	TREE_FIELD_GROUP = 2,
	TREE_FIELD_START = 19,
	TREE_FIELD_MEMORY = 20,
	TREE_FIELD_ENVIRON_START = 47,
	TREE_FIELD_ENVIRON_END = 48,
};

enum { TREE_PIDFD_GROUP = 1 << 2 }; /* PIDFD_SIGNAL_PROCESS_GROUP, include/uapi/linux/pidfd.h */

int tree_parse_stat(const char *text, size_t length, struct tree_process *out, struct err *err)
{
	/* The name may hold anything, blanks and parentheses too: the last ')' ends it. */
	const char *name = memchr(text, ' ', length);
	const char *close_ = memrchr(text, ')', length);
	uint64_t pid;

	if (!name || !close_ || close_ < name || length - (size_t)(close_ - text) < 3 ||
	    parse_u64_span(text, (size_t)(name - text), 1, INT32_MAX, &pid) < 0)
		return err_set(err, -EINVAL, "a line of /proc/PID/stat cannot be read");

	struct tree_process process = {.pid = (pid_t)pid, .state = close_[2]};
	const char *at = close_ + 2;
	const char *end = text + length;
	uint64_t memory = 0, environ_start = 0;
	int field;

	for (field = 0; field <= TREE_FIELD_ENVIRON_END && at < end; field++) {
		const char *blank = memchr(at, ' ', (size_t)(end - at));
		const char *stop = blank ? blank : end;
		uint64_t number = 0;

		if ((field == TREE_FIELD_PARENT || field == TREE_FIELD_GROUP ||
		     field == TREE_FIELD_START || field == TREE_FIELD_MEMORY ||
		     field == TREE_FIELD_ENVIRON_START || field == TREE_FIELD_ENVIRON_END) &&
		    parse_u64_span(at, (size_t)(stop - at), 0, UINT64_MAX, &number) < 0)
			break;

		if (field == TREE_FIELD_PARENT)
			process.parent = number <= INT32_MAX ? (pid_t)number : 0;
		if (field == TREE_FIELD_GROUP)
			process.group = number <= INT32_MAX ? (pid_t)number : 0;
		if (field == TREE_FIELD_START)
			process.start = number;
		if (field == TREE_FIELD_MEMORY)
			memory = number; /* the kernel's own have none */

		if (field == TREE_FIELD_ENVIRON_START)
			environ_start = number;
		if (field == TREE_FIELD_ENVIRON_END) {
			process.is_executing = memory > 0 && number == 0;
			process.has_environment = number > environ_start;
		}

		at = blank ? blank + 1 : end;
	}

	if (field <= TREE_FIELD_START)
		return err_set(err, -EINVAL, "a line of /proc/PID/stat is cut short");

	*out = process;
	return 0;
}

int tree_read(pid_t pid, struct tree_process *out, struct err *err)
{
	char path[64], text[TREE_STAT_MAX];
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid); /* always fits */

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, errno == ENOENT ? -ESRCH : -errno, "opening '%s': %s", path,
			       err_describe(errno));

	ssize_t length = read(fd, text, sizeof(text));
	if (length <= 0)
		return err_set(err, -ESRCH, "process %d is gone", (int)pid);

	return tree_parse_stat(text, (size_t)length, out, err);
}

int tree_catches(pid_t pid, int signal_number)
{
	static const char word[] = "\nSigCgt:\t";
	char path[64], text[TREE_STATUS_MAX];
	uint64_t mask;
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid); /* always fits */

	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (length < 0)
		return -errno;

	text[length] = '\0';
	const char *at = strstr(text, word);
	if (!at || signal_number < 1 || signal_number > 64)
		return -EINVAL;

	at += strlen(word);
	if (parse_hex_span(at, strcspn(at, "\n"), UINT64_MAX, &mask) < 0)
		return -EINVAL;

	return mask >> (signal_number - 1) & 1;
}

static int tree_by_pid(const void *a, const void *b)
{
	pid_t pid_a = ((const struct tree_process *)a)->pid;
	pid_t pid_b = ((const struct tree_process *)b)->pid;
	return pid_a < pid_b ? -1 : pid_a > pid_b;
}

static struct tree_process *tree_find(struct tree_process *all, size_t count, pid_t pid)
{
	if (count == 0)
		return NULL; /* `all` is NULL then, which bsearch() may not be given */
	struct tree_process key = {.pid = pid};
	return bsearch(&key, all, count, sizeof(*all), tree_by_pid);
}

/* Every process of the machine, ordered by pid. */
static int tree_read_all(struct tree_process **out, size_t *out_count, struct err *err)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	if (!proc)
		return err_set(err, -errno, "opening '/proc': %s", err_describe(errno));

	_cleanup_free_ struct tree_process *all = NULL;
	size_t count = 0, room = 0;
	struct dirent *entry;

	while ((entry = readdir(proc)) && count < TREE_MAX) {
		uint64_t pid;
		if (parse_u64(entry->d_name, 1, INT32_MAX, &pid) < 0)
			continue;

		if (array_room(&all, count, &room, 256) < 0)
			return err_set(err, -ENOMEM, "no memory for the process list");

		if (tree_read((pid_t)pid, &all[count], NULL) == 0)
			count++;
	}

	if (count)
		qsort(all, count, sizeof(*all), tree_by_pid);
	*out = take_ptr(all);
	*out_count = count;

	return 0;
}

int tree_list(pid_t root, pid_t spare, struct tree_process **out, size_t *out_count,
	      struct err *err)
{
	_cleanup_free_ struct tree_process *all = NULL;
	size_t count = 0;
	int rc = tree_read_all(&all, &count, err);
	if (rc < 0)
		return rc;

	_cleanup_free_ bool *inside = calloc(count + 1, sizeof(*inside));
	if (!inside)
		return err_set(err, -ENOMEM, "no memory for the process list");

	/* Parents are mostly older and so come first: few rounds are needed. */
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < count; i++) {
			if (inside[i] || all[i].pid == root || all[i].pid == spare)
				continue;
			struct tree_process *parent = tree_find(all, count, all[i].parent);
			inside[i] = all[i].parent == root || (parent && inside[parent - all]);
			changed |= inside[i];
		}
	}

	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (inside[i] && all[i].state != 'Z' && all[i].state != 'X')
			all[kept++] = all[i];

	*out = take_ptr(all);
	*out_count = kept;
	return 0;
}

/* Before Linux 5.3, or forbidden by a container's seccomp filter. */
static bool tree_has_no_pidfd(int error)
{
	return error == ENOSYS || error == EPERM;
}

/* Through a pidfd, checked after it was opened: never to a stranger with a reused pid. Where there
 * are none it goes by number, right after the check. */
void tree_signal_process(const struct tree_process *process, int signal_number)
{
	_cleanup_close_ int fd = pidfd_open(process->pid, 0);
	struct tree_process now;

	if (fd < 0 && !tree_has_no_pidfd(errno))
		return;
	if (tree_read(process->pid, &now, NULL) < 0 || now.start != process->start)
		return;

	/* What we may not signal is seen again by the next look. */
	if (fd < 0 ||
	    (pidfd_send_signal(fd, signal_number, NULL, 0) < 0 && tree_has_no_pidfd(errno)))
		(void)kill(process->pid, signal_number);
}

/* Sends a signal to each of them; `out_count` says how many there were. */
static int tree_signal(pid_t root, pid_t spare, int signal_number, size_t *out_count,
		       struct err *err)
{
	_cleanup_free_ struct tree_process *list = NULL;
	size_t count = 0;
	int rc = tree_list(root, spare, &list, &count, err);
	if (rc < 0)
		return rc;

	for (size_t i = 0; i < count; i++)
		tree_signal_process(&list[i], signal_number);

	*out_count = count;
	return 0;
}

static int tree_by_group(const void *a, const void *b)
{
	pid_t group_a = ((const struct tree_process *)a)->group;
	pid_t group_b = ((const struct tree_process *)b)->group;
	return group_a < group_b ? -1 : group_a > group_b;
}

/* In one go; false: it is not certain that the number is still its own. `list` is one group. */
static bool tree_signal_group(pid_t root, const struct tree_process *list, size_t count,
			      int signal_number)
{
	pid_t group = list[0].group;
	const struct tree_process *leader = NULL;
	for (size_t i = 0; !leader && i < count; i++)
		leader = list[i].pid == group ? &list[i] : NULL;

	if (!leader)
		return false;

	struct tree_process now;
	_cleanup_close_ int fd = pidfd_open(group, 0);

	if (tree_read(group, &now, NULL) < 0 || now.start != leader->start || now.group != group)
		return false;
	if (fd >= 0 && pidfd_send_signal(fd, signal_number, NULL, TREE_PIDFD_GROUP) == 0)
		return true;

	/* Not reaped, for that is ours to do. */
	return now.parent == root && root == getpid() && kill(-group, signal_number) == 0;
}

int tree_signal_groups(pid_t root, int signal_number, size_t *out_count, struct err *err)
{
	_cleanup_free_ struct tree_process *list = NULL;
	size_t count = 0;
	int rc = tree_list(root, 0, &list, &count, err);
	if (rc < 0)
		return rc;

	if (count)
		qsort(list, count, sizeof(*list), tree_by_group);

	pid_t own = getpgid(root);

	for (size_t i = 0, next; i < count; i = next) {
		pid_t group = list[i].group;
		for (next = i + 1; next < count && list[next].group == group;)
			next++;

		/* 0 and 1 would mean our own group and everybody. */
		if (group <= 1 || group == own ||
		    tree_signal_group(root, &list[i], next - i, signal_number))
			continue;

		for (size_t each = i; each < next; each++)
			tree_signal_process(&list[each], signal_number);
	}

	*out_count = count;
	return 0;
}

static int tree_freeze(pid_t root, pid_t spare, struct err *err)
{
	_cleanup_free_ struct tree_process *before = NULL;
	size_t before_count = 0;

	for (int round = 0; round < TREE_FREEZE_MAX; round++) {
		struct tree_process *list = NULL;
		size_t count = 0;
		int rc = tree_list(root, spare, &list, &count, err);
		if (rc < 0)
			return rc;

		size_t fresh = 0;
		for (size_t i = 0; i < count; i++) {
			if (before && tree_find(before, before_count, list[i].pid))
				continue;
			fresh++;
			tree_signal_process(&list[i], SIGSTOP);
		}

		free(before);
		before = list;
		before_count = count;

		if (fresh == 0)
			break;
	}

	return 0;
}

int tree_kill(pid_t root, pid_t spare, unsigned round, size_t *out_count, struct err *err)
{
	int rc = round < TREE_PATIENCE ? 0 : tree_freeze(root, spare, err);
	return rc < 0 ? rc : tree_signal(root, spare, SIGKILL, out_count, err);
}
