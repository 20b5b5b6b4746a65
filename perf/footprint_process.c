/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/footprint_process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/parse.h"

enum {
	PROCESS_FILE_MAX = 1 << 20,
	PROCESS_MAPPINGS_MAX = 64,
	PROCESS_PIDS_MAX = 4096,
};

/* "Pss:     123 kB" in the text of smaps or status: the number, in bytes; 0 when it is not there.
 */
static uint64_t process_value(const char *text, const char *key, uint64_t unit)
{
	size_t length = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) != 0 || line[length] != ':')
			continue;

		line += length + 1;
		line += strspn(line, " \t");

		uint64_t value;
		if (parse_u64_span(line, strspn(line, "0123456789"), 0, UINT64_MAX / unit,
				   &value) == 0)
			return value * unit;
	}

	return 0;
}

static int process_file(pid_t pid, const char *name, struct buf *out)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "/proc/%d/%s", (int)pid, name);
	return rc < 0 ? rc : file_read(path, out, NULL);
}

int footprint_read_cpu(pid_t pid, uint64_t *out_ns)
{
	char path[FILE_PATH_MAX];
	int rc = file_path(path, NULL, "/proc/%d/task", (int)pid);
	_cleanup_closedir_ DIR *tasks = rc < 0 ? NULL : opendir(path);
	if (!tasks)
		return rc < 0 ? rc : -errno;

	uint64_t sum = 0;
	const struct dirent *entry;

	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;

		/* The first of three numbers: nanoseconds on a processor. */
		_cleanup_buf_ struct buf text;
		buf_init(&text, PROCESS_FILE_MAX);

		uint64_t ns;
		if (file_path(path, NULL, "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name) ==
			0 &&
		    file_read(path, &text, NULL) == 0 &&
		    parse_u64_span(buf_text(&text), strcspn(buf_text(&text), " "), 0, UINT64_MAX,
				   &ns) == 0)
			sum += ns;
	}

	*out_ns = sum;
	return 0;
}

int footprint_read(pid_t pid, struct footprint *out)
{
	_cleanup_buf_ struct buf memory, status;
	buf_init(&memory, PROCESS_FILE_MAX);
	buf_init(&status, PROCESS_FILE_MAX);

	int rc = process_file(pid, "smaps_rollup", &memory);
	if (rc == 0)
		rc = process_file(pid, "status", &status);
	if (rc < 0)
		return rc;

	out->pid = pid;
	out->pss = process_value(buf_text(&memory), "Pss", 1024);
	out->rss = process_value(buf_text(&memory), "Rss", 1024);
	out->private_dirty = process_value(buf_text(&memory), "Private_Dirty", 1024);
	out->threads = process_value(buf_text(&status), "Threads", 1);

	return out->pss > 0 ? 0 : -ESRCH; /* a zombie has none */
}

/* Name and parent from "PID (NAME) S PPID ...". */
static int process_stat(pid_t pid, struct footprint *out)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, PROCESS_FILE_MAX);

	int rc = process_file(pid, "stat", &text);
	if (rc < 0)
		return rc;

	const char *open = strchr(buf_text(&text), '('), *close = strrchr(buf_text(&text), ')');
	uint64_t parent;

	if (!open || !close || strlen(close) < 5 || close[2] == 'Z' ||
	    parse_u64_span(close + 4, strcspn(close + 4, " "), 0, INT32_MAX, &parent) < 0)
		return -ESRCH;

	*out = (struct footprint){.pid = pid, .parent = (pid_t)parent};
	(void)snprintf(out->role, sizeof(out->role), "%.*s", (int)(close - open - 1), open + 1);
	return 0;
}

size_t footprint_tree(pid_t root, struct footprint *out)
{
	_cleanup_free_ struct footprint *all = calloc(PROCESS_PIDS_MAX, sizeof(*all));
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	size_t count = 0, found = 0;

	if (!all || !proc || process_stat(root, &out[0]) < 0)
		return 0;

	found = 1;
	const struct dirent *entry;
	while ((entry = readdir(proc)) && count < PROCESS_PIDS_MAX) {
		uint64_t pid;
		if (parse_u64(entry->d_name, 1, INT32_MAX, &pid) == 0 &&
		    process_stat((pid_t)pid, &all[count]) == 0)
			count++;
	}

	/* Children of those that were found, until none is new. */
	for (size_t at = 0; at < found; at++) {
		for (size_t i = 0; i < count && found < FOOTPRINT_PROCESSES_MAX; i++) {
			if (all[i].parent == out[at].pid)
				out[found++] = all[i];
		}
	}

	return found;
}

struct process_mapping {
	char name[128];
	uint64_t dirty, pss;
};

static int process_compare(const void *a, const void *b)
{
	const struct process_mapping *left = a, *right = b;
	return (left->pss < right->pss) - (left->pss > right->pss);
}

/* A line of smaps that begins a mapping: "55d0-55e0 r--p 0 08:01 123   /usr/bin/x". */
static bool process_is_head(const char *line)
{
	size_t digits = strspn(line, "0123456789abcdef");
	return digits > 0 && line[digits] == '-';
}

void footprint_explain(pid_t pid, size_t lines)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, PROCESS_FILE_MAX);

	struct process_mapping mappings[PROCESS_MAPPINGS_MAX] = {0};
	struct process_mapping *mapping = NULL;
	size_t count = 0;

	if (process_file(pid, "smaps", &text) < 0)
		return;

	char *next = text.data;

	for (char *line = next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';

		if (process_is_head(line)) {
			const char *name = strpbrk(line, "/[");
			name = name ? name : "(nameless)";
			for (mapping = mappings; mapping < mappings + count; mapping++) {
				if (strncmp(mapping->name, name, sizeof(mapping->name) - 1) == 0)
					break;
			}

			if (mapping == mappings + PROCESS_MAPPINGS_MAX)
				mapping = NULL;
			else if (mapping == mappings + count)
				(void)snprintf(mappings[count++].name, sizeof(mapping->name), "%s",
					       name);
		} else if (mapping) {
			mapping->dirty += process_value(line, "Private_Dirty", 1024);
			mapping->pss += process_value(line, "Pss", 1024);
		}
	}

	qsort(mappings, count, sizeof(mappings[0]), process_compare);

	for (size_t i = 0; i < count && i < lines; i++)
		(void)fprintf(stderr, "    %7" PRIu64 " KiB dirty %7" PRIu64 " KiB pss  %s\n",
			      mappings[i].dirty / 1024, mappings[i].pss / 1024, mappings[i].name);
}
