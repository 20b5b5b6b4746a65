/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be removed of jobs that are over: STATE/trash, root's alone. To move a directory there
 * is one step whatever lies in it, and takes it out of everybody's way; a process that nobody waits
 * for removes it later. Users filled these trees, and may still hold directories of them open, so
 * nothing here follows a link, enters another mount or goes deeper for a deeper tree.
 *
 * The name of an entry: "<job>.<user>.<random>". What is below it belongs to that user: a directory
 * of somebody else's, also of root's, that a user moved in is nobody's to remove, and stays, unless
 * it is empty. Knows nothing of what a job is.
 */
#ifndef SLUICE_JOB_TRASH_H
#define SLUICE_JOB_TRASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum trash_limits {
	TRASH_NAME_MAX = 64,	/* 20, 10 and 16 digits, two dots, and the NUL */
	TRASH_TEXT_MAX = 256,	/* of why something stays */
	TRASH_BURST = 64,	/* entries removed between two pauses */
	TRASH_VISIT = 65536,	/* of one entry, before it is the next one's turn */
	TRASH_FILES_MAX = 4096, /* of a directory that is emptied where it is, for want of room */
};

/* The directory of the state directory `state_fd`, made if need be. A descriptor, O_CLOEXEC. */
int trash_open(int state_fd, struct err *err);

/* Moves `name` of the directory `from_fd` to the trash: nobody finds it under that name any more.
 * `id`: the job, for whoever reads what could not be removed. Whose it is says its owner. -ENOENT;
 * -EXDEV or -EBUSY when something is mounted there, -ENOSPC, ... */
int trash_move(int trash_fd, int from_fd, const char *name, uint64_t id, struct err *err);

/*
 * A handle (O_PATH) of the directory `name` in the same mount as `from_fd`. What somebody mounted
 * there is not asked for anything: a file system of a user's own program answers when it likes.
 * -EXDEV: something is mounted there; -ENOTDIR; -ELOOP: a link; -ENOENT, ...
 */
int trash_find(int from_fd, const char *name);

/* Whether nothing is there to be removed; also when it cannot be read. */
bool trash_is_empty(int trash_fd);

/* Descriptors of the process that clears it. */
enum trash_fd {
	TRASH_FD = 3,	     /* the trash */
	TRASH_FD_REPORT = 4, /* where it says what stays; or none */
};
enum { TRASH_REPORT_MAX = TRASH_TEXT_MAX + 128 };

struct trash_left {
	uint64_t removed;	    /* files and directories */
	uint64_t left;		    /* that cannot be removed */
	char first[TRASH_TEXT_MAX]; /* one of those, and why; "" */
};

/*
 * Removes all that can be, and returns when nothing is left but what cannot. Of what others still
 * write to, each directory becomes the caller's first (if that is root). Between two bursts of
 * TRASH_BURST entries `pause` is called, which may wait (NULL: nobody is). Needs as much memory for
 * a deep or wide tree as for a flat one. May be killed and called again at any point, and by two at
 * a time. -errno: the trash itself cannot be read.
 */
int trash_clear(int trash_fd, void (*pause)(void *context), void *context, struct trash_left *out,
		struct err *err);

#endif
