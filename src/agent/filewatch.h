/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells that files may have changed: by inotify, on the directories that they are in and on the
 * files themselves, and only when it has been quiet for a moment, so that nobody reads half of what
 * an editor writes. A file that is replaced, one that is a link to another (the volumes of a
 * ConfigMap change one link, `..data`), one that comes later and a directory that comes later are
 * all noticed. What the files say is not looked at; what inotify cannot see (a file behind a chain
 * of links, another machine's write to a shared file system) has to be looked for now and then.
 *
 * Putting a watch on a path asks the file system and may wait for it: that part belongs to any
 * thread, the rest to the loop's.
 */
#ifndef SLUICE_AGENT_FILEWATCH_H
#define SLUICE_AGENT_FILEWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

struct err;
struct filewatch;
struct loop;

#define FILEWATCH_QUIET_NS  UINT64_C(100000000) /* after the last sign of a change ... */
#define FILEWATCH_LATEST_NS UINT64_C(500000000) /* ... but not longer than this after the first */

#define FILEWATCH_WRITER_NS                                                                        \
	UINT64_C(5000000000) /* who has the file open for writing is waited for longer */

enum filewatch_limits {
	FILEWATCH_MAX = 16, /* watches */
	FILEWATCH_NAME_MAX = 256,
};

struct filewatch_entry {
	int number;		       /* inotify's */
	char name[FILEWATCH_NAME_MAX]; /* in the directory; "": whatever it is */
	bool is_prefix;		       /* whatever begins so */
};

/* What is to be watched from now on. Zero-initialised. */
struct filewatch_plan {
	size_t count;
	struct filewatch_entry entries[FILEWATCH_MAX];
};

/* `changed` is called on the loop. -EMFILE, -ENOMEM: there is no inotify to be had. */
int filewatch_new(struct loop *loop, void (*changed)(void *context), void *context,
		  struct filewatch **out, struct err *err);
struct filewatch *filewatch_free(struct filewatch *watch);

/* Adds to the plan, from any thread: a file that may or may not be there, ... */
void filewatch_plan_file(const struct filewatch *watch, const char *path,
			 struct filewatch_plan *plan);
/* ... or whatever comes to and goes from a directory. */
void filewatch_plan_directory(const struct filewatch *watch, const char *path,
			      struct filewatch_plan *plan);
/* ... or that, and what is written to the files in it, ... */
void filewatch_plan_contents(const struct filewatch *watch, const char *path,
			     struct filewatch_plan *plan);
/* ... or what comes to and goes from a directory that is there, with a name that begins so. */
void filewatch_plan_prefix(const struct filewatch *watch, const char *path, const char *prefix,
			   struct filewatch_plan *plan);
/* The same, and what becomes of the modes and owners of those that are there. */
void filewatch_plan_modes(const struct filewatch *watch, const char *path, const char *prefix,
			  struct filewatch_plan *plan);
/* Whether a change is waiting to be told, because it is not quiet yet: who reads now may read half
 * of it. */
bool filewatch_is_busy(const struct filewatch *watch);
/* Watches what the plan says and nothing else. */
void filewatch_set(struct filewatch *watch, const struct filewatch_plan *plan);

#endif
