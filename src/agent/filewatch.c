/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/filewatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/text.h"

enum filewatch_internals {
	FILEWATCH_BYTES = 4096,
	FILEWATCH_READS = 16, /* at a time: a busy directory does not keep the loop */
};

/* Of a directory only what comes and goes: others may write a lot next to a configuration. */
static const uint32_t filewatch_directory_mask = IN_CREATE | IN_DELETE | IN_MOVED_FROM |
						 IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
						 IN_ONLYDIR;
/* Writing counts when it ends and, so that it is waited for, while it goes on. */
static const uint32_t filewatch_file_mask =
    IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;

struct filewatch {
	struct loop *loop; /* borrowed */
	void (*changed)(void *context);
	void *context;
	int fd;			  /* owned */
	struct loop_fd *on_event; /* owned */
	struct loop_timer *quiet; /* owned; runs since the last sign */
	uint64_t first_ns;	  /* when the first sign came; while it runs */
	bool is_written;	  /* somebody has the file open and has changed it */
	struct filewatch_plan plan;
};

/* --- any thread ------------------------------------------------------------------------------ */

static void plan_add(struct filewatch_plan *plan, int number, const char *name, size_t length)
{
	if (plan->count == FILEWATCH_MAX || length >= FILEWATCH_NAME_MAX)
		return;
	struct filewatch_entry *entry = &plan->entries[plan->count++];
	entry->number = number;
	entry->is_prefix = false;
	memcpy(entry->name, name, length);
	entry->name[length] = '\0';
}

/* Watches the nearest directory above `path` that is there, for the name that leads on. */
static void plan_above(const struct filewatch *watch, const char *path, struct filewatch_plan *plan)
{
	size_t length = strlen(path);

	for (;;) {
		char above[FILE_PATH_MAX];

		while (length > 0 && path[length - 1] != '/')
			length--;

		if (length == 0 ||
		    file_path(above, NULL, "%.*s", length > 1 ? (int)length - 1 : 1, path) < 0)
			return;

		int number = inotify_add_watch(watch->fd, above, filewatch_directory_mask);
		if (number >= 0) {
			plan_add(plan, number, path + length, strcspn(path + length, "/"));
			return;
		}

		length--;
	}
}

void filewatch_plan_file(const struct filewatch *watch, const char *path,
			 struct filewatch_plan *plan)
{
	plan_above(watch, path, plan);
	/* Where it is a link: writes to what it leads to, and its replacement (its links change).
	 */
	int number = inotify_add_watch(watch->fd, path, filewatch_file_mask);
	if (number >= 0)
		plan_add(plan, number, "", 0);
}

static void plan_whole(const struct filewatch *watch, const char *path, uint32_t mask,
		       struct filewatch_plan *plan)
{
	plan_above(watch, path, plan);
	int number = inotify_add_watch(watch->fd, path, mask);
	if (number >= 0)
		plan_add(plan, number, "", 0);
}

void filewatch_plan_directory(const struct filewatch *watch, const char *path,
			      struct filewatch_plan *plan)
{
	plan_whole(watch, path, filewatch_directory_mask, plan);
}

void filewatch_plan_contents(const struct filewatch *watch, const char *path,
			     struct filewatch_plan *plan)
{
	plan_whole(watch, path, filewatch_directory_mask | filewatch_file_mask, plan);
}

static void plan_prefix(const struct filewatch *watch, const char *path, const char *prefix,
			uint32_t mask, struct filewatch_plan *plan)
{
	size_t before = plan->count;
	int number = inotify_add_watch(watch->fd, path, mask);
	if (number >= 0)
		plan_add(plan, number, prefix, strlen(prefix));
	if (plan->count > before)
		plan->entries[before].is_prefix = true;
}

void filewatch_plan_prefix(const struct filewatch *watch, const char *path, const char *prefix,
			   struct filewatch_plan *plan)
{
	plan_prefix(watch, path, prefix, filewatch_directory_mask, plan);
}

void filewatch_plan_modes(const struct filewatch *watch, const char *path, const char *prefix,
			  struct filewatch_plan *plan)
{
	plan_prefix(watch, path, prefix, filewatch_directory_mask | IN_ATTRIB, plan);
}

/* --- the loop's ------------------------------------------------------------------------------ */

static bool plan_has(const struct filewatch_plan *plan, int number)
{
	for (size_t i = 0; i < plan->count; i++) {
		if (plan->entries[i].number == number)
			return true;
	}
	return false;
}

void filewatch_set(struct filewatch *watch, const struct filewatch_plan *plan)
{
	for (size_t i = 0; i < watch->plan.count; i++) {
		/* Gone by itself where what it watched is gone. */
		if (!plan_has(plan, watch->plan.entries[i].number))
			(void)inotify_rm_watch(watch->fd, watch->plan.entries[i].number);
	}
	watch->plan = *plan;
}

static bool filewatch_matters(const struct filewatch *watch, const struct inotify_event *event)
{
	/* Too many to keep: anything may have happened. */
	if (event->mask & IN_Q_OVERFLOW)
		return true;

	const char *name = event->len > 0 ? event->name : "";
	bool is_known = false;

	for (size_t i = 0; i < watch->plan.count; i++) {
		const struct filewatch_entry *entry = &watch->plan.entries[i];
		if (entry->number != event->wd)
			continue;
		if (entry->is_prefix && text_starts_with(name, entry->name))
			return true;

		/* "..data" of a ConfigMap stands between a name and its file. */
		if (*name == '\0' || entry->name[0] == '\0' || strcmp(entry->name, name) == 0 ||
		    text_starts_with(name, ".."))
			return true;

		is_known = true;
	}

	/* A watch that was just put there, by a plan that is not set yet. */
	return !is_known && !(event->mask & IN_IGNORED);
}

/* A file that is cut short and then written anew would be read as one that says nothing. */
static void filewatch_note_writer(struct filewatch *watch, uint32_t mask)
{
	if (mask & IN_MODIFY)
		watch->is_written = true;
	if (mask & (IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_Q_OVERFLOW))
		watch->is_written = false;
}

static void filewatch_sign(struct filewatch *watch)
{
	uint64_t now_ns = loop_now_ns(watch->loop);

	if (!loop_timer_is_running(watch->quiet))
		watch->first_ns = now_ns;

	uint64_t latest_ns =
	    watch->first_ns + (watch->is_written ? FILEWATCH_WRITER_NS : FILEWATCH_LATEST_NS);
	uint64_t left_ns = latest_ns > now_ns ? latest_ns - now_ns : 0;
	bool is_long = watch->is_written || left_ns < FILEWATCH_QUIET_NS;

	loop_timer_start(watch->quiet, is_long ? left_ns : FILEWATCH_QUIET_NS);
}

static void filewatch_on_event(int fd, unsigned events, void *context)
{
	struct filewatch *watch = context;

	_Alignas(struct inotify_event) char bytes[FILEWATCH_BYTES];
	bool matters = false;

	(void)events;

	for (int i = 0; i < FILEWATCH_READS; i++) {
		ssize_t length = read(fd, bytes, sizeof(bytes));
		if (length <= 0)
			break;

		for (const char *at = bytes; at < bytes + length;) {
			const struct inotify_event *event = (const struct inotify_event *)at;
			if (filewatch_matters(watch, event)) {
				filewatch_note_writer(watch, event->mask);
				matters = true;
			}

			at += sizeof(*event) + event->len;
		}
	}

	if (matters)
		filewatch_sign(watch);
}

static void filewatch_on_quiet(void *context)
{
	struct filewatch *watch = context;
	watch->is_written = false;
	watch->changed(watch->context);
}

bool filewatch_is_busy(const struct filewatch *watch)
{
	return loop_timer_is_running(watch->quiet);
}

int filewatch_new(struct loop *loop, void (*changed)(void *context), void *context,
		  struct filewatch **out, struct err *err)
{
	struct filewatch *watch = calloc(1, sizeof(*watch));
	if (!watch)
		return err_set(err, -ENOMEM, "out of memory for watching files");

	watch->loop = loop;
	watch->changed = changed;
	watch->context = context;
	watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch->fd < 0) {
		int code = -errno;
		(void)filewatch_free(watch);
		return err_set(err, code, "cannot watch files: %s", err_describe(code));
	}

	watch->quiet = loop_timer_new(loop, filewatch_on_quiet, watch, err);
	if (watch->quiet)
		watch->on_event =
		    loop_fd_new(loop, watch->fd, LOOP_READ, filewatch_on_event, watch, err);
	if (!watch->on_event) {
		(void)filewatch_free(watch);
		return -ENOMEM;
	}

	*out = watch;
	return 0;
}

struct filewatch *filewatch_free(struct filewatch *watch)
{
	if (!watch)
		return NULL;

	(void)loop_fd_free(watch->on_event);
	(void)loop_timer_free(watch->quiet);
	if (watch->fd >= 0)
		(void)close(watch->fd);
	free(watch);

	return NULL;
}
