/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/sockdir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"

enum sockdir_limits {
	SOCKDIR_READ = 4096, /* bytes of events at a time */
	SOCKDIR_TRIES = 16,  /* while directories appear and vanish under our hands */
};

#define SOCKDIR_ITSELF	(IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define SOCKDIR_CAME	(IN_CREATE | IN_MOVED_TO)
#define SOCKDIR_WENT	(IN_DELETE | IN_MOVED_FROM)
#define SOCKDIR_FOREVER (IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF | IN_MOVE_SELF)

struct sockdir {
	struct sockdir_options options;
	char *directory, *name; /* owned */
	int fd;			/* owned: inotify; -1: there is none */
	struct loop_fd *ready;	/* owned */
	int wd;			/* of what is watched; -1: nothing */
	bool is_there;		/* what is watched is the directory, not one above it */
	dev_t device;		/* of the directory when it is there */
	ino_t inode;
};

static bool sockdir_stat(const struct sockdir *sockdir, struct stat *out)
{
	return stat(sockdir->directory, out) == 0 && S_ISDIR(out->st_mode);
}

/* Cuts the last name off: "/a/b" -> "/a" -> "/". False: nothing is left. */
static bool sockdir_cut(char *path)
{
	char *slash = strrchr(path, '/');
	if (!slash || path[1] == '\0')
		return false;
	slash[slash == path ? 1 : 0] = '\0';
	return true;
}

static void sockdir_forget(struct sockdir *sockdir)
{
	if (sockdir->wd >= 0)
		(void)inotify_rm_watch(sockdir->fd, sockdir->wd); /* it may be gone already */
	sockdir->wd = -1;
}

/* Watches the directory, or the lowest one above it that is there. */
static void sockdir_watch_lowest(struct sockdir *sockdir)
{
	char path[FILE_PATH_MAX];
	bool is_it = true;

	if (file_path(path, NULL, "%s", sockdir->directory) < 0)
		return;

	do {
		uint32_t mask = SOCKDIR_CAME | SOCKDIR_ITSELF | (is_it ? SOCKDIR_WENT : 0);
		sockdir->wd = inotify_add_watch(sockdir->fd, path, mask);
		if (sockdir->wd >= 0)
			break;
		is_it = false;
	} while (sockdir_cut(path));
	if (sockdir->wd >= 0)

		sockdir->is_there = is_it;
}

/* What comes into being between looking for it and watching its parent would be missed. */
static void sockdir_place(struct sockdir *sockdir)
{
	struct stat before, after;

	for (int i = 0; i < SOCKDIR_TRIES; i++) {
		bool was = sockdir_stat(sockdir, &before);
		sockdir->is_there = was;
		sockdir_forget(sockdir);

		if (sockdir->fd >= 0)
			sockdir_watch_lowest(sockdir);

		bool is = sockdir_stat(sockdir, &after);
		sockdir->device = is ? after.st_dev : 0;
		sockdir->inode = is ? after.st_ino : 0;
		if (was == is && is == sockdir->is_there &&
		    (!is || (before.st_ino == after.st_ino && before.st_dev == after.st_dev)))
			return;
	}
}

bool sockdir_look(struct sockdir *sockdir)
{
	struct stat now;
	bool is = sockdir_stat(sockdir, &now);
	bool is_same = is == sockdir->is_there &&
		       (!is || (now.st_ino == sockdir->inode && now.st_dev == sockdir->device));
	if (is_same && (sockdir->fd < 0 || sockdir->wd >= 0))
		return false;

	const struct sockdir was = *sockdir;

	sockdir_place(sockdir);
	/* Where only the system's watches are used up it is tried again, and nothing has happened.
	 */
	if (is_same && sockdir->is_there == was.is_there && sockdir->inode == was.inode &&
	    sockdir->device == was.device)
		return false;

	return was.is_there || sockdir->is_there;
}

bool sockdir_is_there(const struct sockdir *sockdir)
{
	return sockdir->is_there;
}

static bool sockdir_is_socket_name(const char *name)
{
	static const char end[] = ".sock";
	size_t length = strlen(name);
	return length >= sizeof(end) - 1 && strcmp(name + length - (sizeof(end) - 1), end) == 0;
}

static unsigned sockdir_of_event(struct sockdir *sockdir, const struct inotify_event *event)
{
	const char *name = event->len > 0 ? event->name : "";

	if (event->mask & IN_Q_OVERFLOW)
		return SOCKDIR_LOOK;
	if (event->wd != sockdir->wd)
		return 0; /* of what was watched before */

	if (event->mask & SOCKDIR_FOREVER) {
		if (event->mask & IN_IGNORED)
			sockdir->wd = -1;
		sockdir_place(sockdir);
		return SOCKDIR_LOOK;
	}

	if (!sockdir->is_there) {
		sockdir_place(sockdir); /* a directory above: perhaps ours has come */
		return sockdir->is_there ? SOCKDIR_LOOK : 0;
	}

	if (strcmp(name, sockdir->name) == 0)
		return event->mask & SOCKDIR_CAME ? SOCKDIR_MADE : 0;

	/* Not what the kubelet writes with every Allocate, its checkpoint. */
	return sockdir_is_socket_name(name) ? SOCKDIR_OTHER : 0;
}

static void sockdir_on_ready(int fd, unsigned events, void *context)
{
	struct sockdir *sockdir = context;

	union {
		char bytes[SOCKDIR_READ];
		struct inotify_event event;
	} room;
	unsigned changes = 0;
	ssize_t length;

	while ((length = read(fd, room.bytes, sizeof(room.bytes))) > 0) {
		const char *at = room.bytes, *end = at + length;
		while ((size_t)(end - at) >= sizeof(struct inotify_event)) {
			const struct inotify_event *event = (const void *)at;
			changes |= sockdir_of_event(sockdir, event);
			at += sizeof(*event) + event->len;
		}
	}

	if (changes)
		sockdir->options.changed(changes, sockdir->options.context);
}

int sockdir_new(const struct sockdir_options *options, struct sockdir **out, struct err *err)
{
	struct sockdir *sockdir = calloc(1, sizeof(*sockdir));
	if (!sockdir)
		return err_set(err, -ENOMEM, "out of memory for watching '%s'", options->directory);

	sockdir->options = *options;
	sockdir->fd = -1;
	sockdir->wd = -1;
	sockdir->directory = strdup(options->directory);
	sockdir->name = strdup(options->name);
	sockdir->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (sockdir->fd >= 0)
		sockdir->ready = loop_fd_new(options->loop, sockdir->fd, LOOP_READ,
					     sockdir_on_ready, sockdir, err);

	if (!sockdir->directory || !sockdir->name || (sockdir->fd >= 0 && !sockdir->ready)) {
		(void)sockdir_free(sockdir);
		return err_set(err, -ENOMEM, "out of memory for watching '%s'", options->directory);
	}

	sockdir_place(sockdir);
	*out = sockdir;
	return 0;
}

struct sockdir *sockdir_free(struct sockdir *sockdir)
{
	if (!sockdir)
		return NULL;

	(void)loop_fd_free(sockdir->ready);
	if (sockdir->fd >= 0)
		(void)close(sockdir->fd);
	free(sockdir->directory);
	free(sockdir->name);
	free(sockdir);

	return NULL;
}
