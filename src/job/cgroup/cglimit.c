/* SPDX-License-Identifier: Apache-2.0 */
#include "job/cgroup/cglimit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/parse.h"

enum {
	CGLIMIT_VALUE_MAX = 64,
	CGLIMIT_TEXT_MAX = 4096,
	CGLIMIT_NUMBER_MAX = 64,
	CGLIMIT_PROCS_MAX = 1 << 20,
	CGLIMIT_ROUNDS_RUNNING = 2, /* then it is frozen */
	CGLIMIT_ROUNDS = 32,
	CGLIMIT_MOMENT_NS = 5000000, /* between two rounds */
};

/* A controller and how it is told. NULL: a file that is not needed. */
struct cglimit_kind {
	const char *controller, *what;
	const char *v2, *v1;
	const char *more_v2, *more_v2_value; /* written as well; what fails is passed over */
	const char *more_v1;		     /* gets the value of v1 */
};

static const struct cglimit_kind cglimit_memory = {
    .controller = "memory",
    .what = "memory",
    .v2 = "memory.max",
    .v1 = "memory.limit_in_bytes",
    /* What does not fit is not put onto a disk: it would be slow for everybody. */
    .more_v2 = "memory.swap.max",
    .more_v2_value = "0",
    .more_v1 = "memory.memsw.limit_in_bytes",
};
static const struct cglimit_kind cglimit_cpu = {
    .controller = "cpu", .what = "processors", .v2 = "cpu.max", .v1 = "cpu.cfs_quota_us"};
static const struct cglimit_kind cglimit_pids = {
    .controller = "pids", .what = "processes", .v2 = "pids.max", .v1 = "pids.max"};

static int cglimit_write(const char *directory, const char *file, const char *text)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "%s/%s", directory, file);
	if (rc < 0)
		return rc;

	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;

	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* The directory that is `levels` above. */
static bool cglimit_above(const char *path, int levels, char out[CGROUP_PATH_MAX])
{
	(void)snprintf(out, CGROUP_PATH_MAX, "%.*s", CGROUP_PATH_MAX - 1, path);

	for (; levels > 0; levels--) {
		char *slash = strrchr(out, '/');
		if (!slash || slash == out)
			return false;
		*slash = '\0';
	}

	return true;
}

/* What systemd writes to, whoever else may: below it is what it has delegated. */
static bool cglimit_is_slice(const char *path)
{
	static const char suffix[] = ".slice";
	size_t length = strlen(path);
	return length >= sizeof(suffix) - 1 &&
	       strcmp(path + length - (sizeof(suffix) - 1), suffix) == 0;
}

/* False: the group has no such controller, as where it is in a hierarchy of v1. */
static bool cglimit_may_have(const char *path, const char *controller)
{
	char file[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;
	size_t length = strlen(controller);

	buf_init(&text, CGLIMIT_TEXT_MAX);
	if (file_path(file, NULL, "%s/cgroup.controllers", path) < 0 ||
	    file_read(file, &text, NULL) < 0)
		return true; /* the kernel says it */

	for (const char *word = buf_text(&text); *word; word += strspn(word, " \n")) {
		size_t size = strcspn(word, " \n");
		if (size == length && memcmp(word, controller, length) == 0)
			return true;
		word += size;
	}

	return false;
}

/* Switches the controller on for the group, from two levels above it on: where jobs' groups are
 * made, and above that. No other process is there; elsewhere the kernel says no, after it has
 * waited for all groups that are being removed. */
static void cglimit_delegate(const char *path, const char *controller)
{
	char above[CGROUP_PATH_MAX], word[CGLIMIT_VALUE_MAX];
	if (cglimit_above(path, 2, above) && !cglimit_may_have(above, controller))
		return;

	(void)snprintf(word, sizeof(word), "+%s", controller); /* fits */
	for (int levels = 2; levels > 0; levels--)
		if (cglimit_above(path, levels, above) && !cglimit_is_slice(above))
			(void)cglimit_write(above, "cgroup.subtree_control", word);
}

static int cglimit_set_v2(const struct cgroup *cgroup, const struct cglimit_kind *kind,
			  const char *value)
{
	int rc = cglimit_write(cgroup->path, kind->v2, value);
	if (rc == -ENOENT || rc == -EACCES) { /* a file that is not there, in cgroup2 */
		cglimit_delegate(cgroup->path, kind->controller);
		rc = cglimit_write(cgroup->path, kind->v2, value);
	}

	if (rc == 0 && kind->more_v2)
		(void)cglimit_write(cgroup->path, kind->more_v2, kind->more_v2_value);

	return rc;
}

static int cglimit_set_v1(const struct cgroup *cgroup, const struct cglimit_kind *kind,
			  const char *value, bool is_late, struct cglimit *out)
{
	char group[CGROUP_PATH_MAX];
	int rc = cgroup_path_v1(cgroup->path, kind->controller, group, NULL);
	if (rc == 0)
		rc = cgroup_make_v1(group, NULL);
	if (rc < 0)
		return rc;

	rc = cglimit_write(group, kind->v1, value);
	if (rc < 0) {
		cgroup_remove_one_v1(group);
		return rc;
	}

	if (kind->more_v1)
		(void)cglimit_write(group, kind->more_v1, value);
	if (kind == &cglimit_memory)
		memcpy(out->memory_v1, group, sizeof(group));
	memcpy(is_late ? out->late : out->groups[out->group_count++], group, sizeof(group));

	return 0;
}

/* 0, or -errno when there is none in v2 and in v1. */
static int cglimit_set(const struct cgroup *cgroup, const struct cglimit_kind *kind,
		       const char *value_v2, const char *value_v1, bool is_late,
		       struct cglimit *out)
{
	if (cgroup->fd < 0)
		return -ENODEV;

	int rc = cglimit_set_v2(cgroup, kind, value_v2);
	if (rc == 0)
		return 0;

	int v1 = cglimit_set_v1(cgroup, kind, value_v1, is_late, out);
	/* Of the two what is more than that there is none. */
	bool is_absent = rc == -ENOENT || rc == -EACCES;

	return v1 == 0 ? 0 : is_absent && v1 != -ENOENT ? v1 : rc;
}

static const char *cglimit_describe(int code)
{
	return code == -ENODEV			    ? "no cgroup"
	       : code == -ENOENT || code == -EACCES ? "the controller is not there for it"
						    : err_describe(code);
}

static void cglimit_count_only(struct cglimit *out, const char *what, int code)
{
	size_t length = strlen(out->why);
	(void)snprintf(out->why + length, sizeof(out->why) - length, "%s%s counted only (%s)",
		       length > 0 ? ", " : "", what, cglimit_describe(code));
}

void cglimit_apply(const struct cgroup *cgroup, const struct cglimit_wants *wants,
		   struct cglimit *out)
{
	char v2[CGLIMIT_VALUE_MAX], v1[CGLIMIT_VALUE_MAX];
	int rc;

	*out = (struct cglimit){.group_count = 0};
	if (wants->mem_bytes > 0) {
		(void)snprintf(v2, sizeof(v2), "%" PRIu64, wants->mem_bytes); /* these fit */
		rc = cglimit_set(cgroup, &cglimit_memory, v2, v2, false, out);
		if (rc < 0)
			cglimit_count_only(out, cglimit_memory.what, rc);
	}

	if (wants->cpu_milli > 0) {
		uint64_t quota = (uint64_t)wants->cpu_milli * (CGLIMIT_PERIOD_US / 1000);
		quota = quota < CGLIMIT_QUOTA_MIN_US ? CGLIMIT_QUOTA_MIN_US : quota;
		(void)snprintf(v2, sizeof(v2), "%" PRIu64 " %d", quota, CGLIMIT_PERIOD_US);
		(void)snprintf(v1, sizeof(v1), "%" PRIu64, quota); /* its period is the default */
		rc = cglimit_set(cgroup, &cglimit_cpu, v2, v1, false, out);
		if (rc < 0)
			cglimit_count_only(out, cglimit_cpu.what, rc);
	}

	if (wants->pids > 0) {
		(void)snprintf(v2, sizeof(v2), "%" PRIu32, wants->pids);
		rc = cglimit_set(cgroup, &cglimit_pids, v2, v2, wants->is_late, out);
		if (rc < 0)
			(void)snprintf(out->why_no_pids, sizeof(out->why_no_pids), "%s",
				       cglimit_describe(rc));
	}
}

static int cglimit_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

/* Ascending (caller's to free, also when it is empty). NULL: it cannot be read. */
static uint64_t *cglimit_list(const char *group, size_t *out_count)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, CGLIMIT_PROCS_MAX);
	if (file_path(path, NULL, "%s/cgroup.procs", group) < 0 || file_read(path, &text, NULL) < 0)
		return NULL;

	/* No line is shorter than a digit and its end. */
	uint64_t *list = calloc(text.length / 2 + 1, sizeof(*list));
	size_t count = 0;
	for (const char *line = buf_text(&text); list && *line;) {
		size_t length = strcspn(line, "\n");
		count += parse_u64_span(line, length, 1, INT32_MAX, &list[count]) == 0;
		line += length + (line[length] == '\n');
	}

	if (list)
		qsort(list, count, sizeof(*list), cglimit_compare);
	*out_count = count;
	return list;
}

/*
 * Moves those of the cgroup that are not in `to`. How many there were: 0 is the end of it, for what
 * was started by one that is there is there as well. Two lists and no count, which would be right
 * by chance while they fork.
 */
static size_t cglimit_move(const char *from, const char *to)
{
	size_t count = 0, moved_count = 0, missing = 0;
	_cleanup_free_ uint64_t *list = cglimit_list(from, &count);
	_cleanup_free_ uint64_t *moved = list ? cglimit_list(to, &moved_count) : NULL;

	for (size_t i = 0; moved && i < count; i++) {
		char pid[CGLIMIT_VALUE_MAX];

		if (bsearch(&list[i], moved, moved_count, sizeof(*moved), cglimit_compare))
			continue;

		(void)snprintf(pid, sizeof(pid), "%" PRIu64, list[i]); /* fits */
		(void)cglimit_write(to, "cgroup.procs", pid);	       /* else it has ended */
		missing++;
	}

	return missing;
}

void cglimit_join_late(const struct cgroup *cgroup, const struct cglimit *limit)
{
	static const struct timespec moment = {.tv_nsec = CGLIMIT_MOMENT_NS};

	if (!limit->late[0] || cgroup->fd < 0)
		return;

	size_t missing = 1;

	for (int round = 0; missing > 0 && round < CGLIMIT_ROUNDS; round++) {
		/* Whoever forks faster than he is moved has to stand still for it. */
		if (round == CGLIMIT_ROUNDS_RUNNING)
			(void)cglimit_write(cgroup->path, "cgroup.freeze", "1");
		if (round > CGLIMIT_ROUNDS_RUNNING)
			(void)nanosleep(&moment, NULL);
		missing = cglimit_move(cgroup->path, limit->late);
	}

	(void)cglimit_write(cgroup->path, "cgroup.freeze", "0");
}

static uint64_t cglimit_read_number(const char *path)
{
	_cleanup_buf_ struct buf text;
	uint64_t number;

	buf_init(&text, CGLIMIT_NUMBER_MAX);
	if (file_read(path, &text, NULL) < 0)
		return UINT64_MAX;

	const char *line = buf_text(&text);
	return parse_u64_span(line, strcspn(line, "\n"), 1, UINT64_MAX, &number) == 0 ? number
										      : UINT64_MAX;
}

uint32_t cglimit_default_pids(void)
{
	uint64_t pids = cglimit_read_number("/proc/sys/kernel/pid_max");
	uint64_t threads = cglimit_read_number("/proc/sys/kernel/threads-max");
	uint64_t half = (pids < threads ? pids : threads) / 2;
	return half > 0 && half < CGLIMIT_PIDS_DEFAULT ? (uint32_t)half : CGLIMIT_PIDS_DEFAULT;
}

uint64_t cglimit_read_oom(const char *text, size_t length)
{
	static const char key[] = "oom_kill ";
	const char *at = text, *end = text + length;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t size = (size_t)((stop ? stop : end) - at);
		uint64_t count;

		if (size > sizeof(key) - 1 && memcmp(at, key, sizeof(key) - 1) == 0 &&
		    parse_u64_span(at + sizeof(key) - 1, size - (sizeof(key) - 1), 0, UINT64_MAX,
				   &count) == 0)
			return count;

		at += size + 1;
	}

	return 0;
}

uint64_t cglimit_oom_kills(const struct cgroup *cgroup, const struct cglimit *limit)
{
	char path[FILE_PATH_MAX];
	_cleanup_buf_ struct buf text;

	buf_init(&text, CGLIMIT_TEXT_MAX);
	int rc = limit->memory_v1[0]
		     ? file_path(path, NULL, "%s/memory.oom_control", limit->memory_v1)
		 : cgroup->fd >= 0 ? file_path(path, NULL, "%s/memory.events", cgroup->path)
				   : -ENOENT;
	if (rc < 0 || file_read(path, &text, NULL) < 0)
		return 0;

	return cglimit_read_oom(buf_text(&text), text.length);
}
