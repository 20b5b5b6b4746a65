/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/usage/proctable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "job/tree.h"

struct proctable {
	char *proc;		     /* owned */
	struct proctable_entry **at; /* owned, in the order of pid */
	size_t count, room;
	size_t unread;
	size_t next; /* to be checked again */
};

int proctable_new(const char *proc, struct proctable **out, struct err *err)
{
	struct proctable *table = calloc(1, sizeof(*table));
	if (table)
		table->proc = strdup(proc ? proc : "/proc");
	if (!table || !table->proc) {
		(void)proctable_free(table);
		return err_set(err, -ENOMEM, "no memory for the processes on the GPUs");
	}

	*out = table;
	return 0;
}

struct proctable *proctable_free(struct proctable *table)
{
	for (size_t i = 0; table && i < table->count; i++)
		free(table->at[i]);

	if (table) {
		free(table->at);
		free(table->proc);
	}

	free(table);
	return NULL;
}

/* --- the table ---------------------------------------------------------------------------------
 */

/* Where a process is, or would be. */
static size_t proctable_place(const struct proctable *table, uint32_t pid)
{
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->at[middle]->pid < pid)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

struct proctable_entry *proctable_find(const struct proctable *table, uint32_t pid)
{
	size_t place = proctable_place(table, pid);
	return place < table->count && table->at[place]->pid == pid ? table->at[place] : NULL;
}

void proctable_begin(struct proctable *table)
{
	for (size_t i = 0; i < table->count; i++)
		table->at[i]->is_wanted = false;
}

struct proctable_entry *proctable_want(struct proctable *table, uint32_t pid)
{
	size_t place = proctable_place(table, pid);
	if (place < table->count && table->at[place]->pid == pid) {
		table->at[place]->is_wanted = true;
		return table->at[place];
	}

	if (table->count == PROCTABLE_MAX)
		return NULL;

	if (array_room(&table->at, table->count, &table->room, 32) < 0)
		return NULL;

	struct proctable_entry *entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;

	entry->pid = pid;
	entry->is_wanted = true;
	memmove(&table->at[place + 1], &table->at[place],
		(table->count - place) * sizeof(*table->at));
	table->at[place] = entry;
	table->count++;
	table->unread++;

	return entry;
}

void proctable_end(struct proctable *table)
{
	size_t kept = 0;

	table->unread = 0;
	for (size_t i = 0; i < table->count; i++) {
		struct proctable_entry *entry = table->at[i];
		if (!entry->is_wanted) {
			free(entry);
			continue;
		}

		table->at[kept++] = entry;
		table->unread += entry->state == PROCTABLE_UNREAD;
	}

	table->count = kept;
	if (kept == 0) { /* thousands may have been here once */
		free(table->at);
		table->at = NULL;
		table->room = 0;
	}
}

/* --- one process -------------------------------------------------------------------------------
 */

/* Bytes that were read; -errno. */
static ssize_t proctable_file(int directory, const char *name, char *text, size_t size)
{
	_cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
	size_t length = 0;

	if (fd < 0)
		return -errno;

	while (length < size) {
		ssize_t got = read(fd, text + length, size - length);
		if (got < 0)
			return -errno;
		if (got == 0)
			break;

		length += (size_t)got;
	}

	return (ssize_t)length;
}

/* The name stands in brackets and may have brackets. */
static void proctable_take_name(struct proctable_entry *entry, const char *text, size_t length)
{
	const char *open_ = memchr(text, '(', length), *close_ = memrchr(text, ')', length);
	if (open_ && close_ && close_ > open_)
		(void)snprintf(entry->name, sizeof(entry->name), "%.*s", (int)(close_ - open_ - 1),
			       open_ + 1);
}

static void proctable_read_one(const struct proctable *table, struct proctable_entry *entry)
{
	char path[512], text[BELONGING_TEXT_MAX];
	struct tree_process process;
	struct stat status;
	ssize_t length;
	bool was_read = entry->state == PROCTABLE_READ;

	if (!was_read)
		entry->state = PROCTABLE_HIDDEN;
	if (snprintf(path, sizeof(path), "%s/%u", table->proc, entry->pid) >= (int)sizeof(path))
		return;

	/* Of this process for ever: should it end, nothing is read through the descriptor, whoever
	 * has its number then. */
	_cleanup_close_ int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0 ||
	    (length = proctable_file(directory, "stat", text, TREE_STAT_MAX)) <= 0 ||
	    tree_parse_stat(text, (size_t)length, &process, NULL) < 0)
		return; /* what was known of it stays */

	struct proctable_entry now = {.pid = entry->pid,
				      .start = process.start,
				      .state = PROCTABLE_READ,
				      .is_wanted = entry->is_wanted};
	proctable_take_name(&now, text, (size_t)length);
	if (fstat(directory, &status) == 0)
		now.uid = status.st_uid;
	length = proctable_file(directory, "cgroup", text, sizeof(text));
	if (length < 0)
		return; /* ended in between */

	(void)belonging_parse(text, (size_t)length, &now.belonging);
	if (was_read && now.start == entry->start) { /* it may have another program and group now */
		now.job = entry->job;
		now.job_looks = entry->job_looks;
		now.asks = entry->asks;
	}

	now.is_counted = entry->is_counted;
	*entry = now;
}

size_t proctable_read(struct proctable *table, size_t max)
{
	for (size_t i = 0; i < table->count && table->unread > 0 && max > 0; i++) {
		if (table->at[i]->state != PROCTABLE_UNREAD)
			continue;
		proctable_read_one(table, table->at[i]);
		table->unread--;
		max--;
	}

	for (size_t i = 0; i < table->count && max > 0; i++, max--) {
		table->next = table->next + 1 < table->count ? table->next + 1 : 0;
		if (table->at[table->next]->state != PROCTABLE_UNREAD)
			proctable_read_one(table, table->at[table->next]);
	}

	return table->unread;
}
