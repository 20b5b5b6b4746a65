/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a job's output to its file: up to a limit and while the disk has room, and what is beyond is
 * read and dropped, so that the job never waits for a disk and never fills it. Knows nothing of
 * jobs; whoever calls it waits for the descriptors. Never blocks but in writing to the file.
 */
#ifndef SLUICE_LIBEXEC_SUPERVISE_RELAY_H
#define SLUICE_LIBEXEC_SUPERVISE_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

enum relay_limits {
	RELAY_PIPE_BYTES = 256 << 10, /* between the job and us, where the kernel allows it */
	RELAY_STEP_BYTES = 4 << 20,   /* in one call of relay_move() */
	RELAY_LOOK_BYTES = 16 << 20,  /* stored between two looks at the disk, at most */
	RELAY_CHUNK_MAX = 4096,	      /* of relay_store(): goes into a pipe whole, or not at all */
};
#define RELAY_LOOK_NS	    CLOCK_NS_PER_S
#define RELAY_RETRY_NS	    (10 * CLOCK_NS_PER_S) /* after writing has failed */
#define RELAY_RESERVE_BYTES (UINT64_C(1) << 30)	  /* or a twentieth of the disk: what is less */

struct relay {
	int in_fd;   /* owned; a pipe's read end, non-blocking; -1: nothing more comes */
	int file_fd; /* owned; not O_APPEND, which splice(2) refuses: it is asked for its end */
	int copy_fd; /* owned; a pipe, non-blocking, that gets the same; -1: none */
	int null_fd; /* owned; /dev/null */
	struct clock clock;
	uint64_t limit_bytes, stored_bytes; /* limit 0: none */
	/* Whose file gets what we have to say, so that no data has it in its middle; borrowed;
	 * NULL: its own. */
	struct relay *notes;
	bool is_cut;			 /* at its limit; said there */
	bool is_full;			 /* the disk is, or does not take anything */
	int full_code;			 /* 0: nearly full, else what writing said */
	uint64_t dropped_bytes;		 /* since it is */
	uint64_t look_at_ns, room_bytes; /* until when, and how much, without another look */
	bool was_full;			 /* ever: something was dropped for want of room */
	bool has_lost_copy;		 /* something did not get to copy_fd */
};

enum relay_state {
	RELAY_EMPTY,   /* until in_fd has more */
	RELAY_MORE,    /* to be called again, after a look at everything else */
	RELAY_BLOCKED, /* until copy_fd takes more */
	RELAY_ENDED,   /* all who could write have closed it; in_fd is -1 */
};

#define RELAY_NONE ((struct relay){.in_fd = -1, .file_fd = -1, .copy_fd = -1, .null_fd = -1})

/* Given `file_fd`; in_fd and copy_fd are -1 and may be set. -errno: nothing is opened, the file is
 * still the caller's. */
int relay_init(struct relay *relay, int file_fd, uint64_t limit_bytes);
void relay_done(struct relay *relay);

/* Moves what is there, RELAY_STEP_BYTES at most. */
enum relay_state relay_move(struct relay *relay);
/* The same for bytes that came otherwise, RELAY_CHUNK_MAX at most. False: nothing was taken, the
 * copy has no room. */
bool relay_store(struct relay *relay, const char *bytes, size_t length);
/* Writes a line of ours into the file of its notes, whatever the limit. */
void relay_say(struct relay *relay, const char *text);
/* The copy has all that it is to have. */
void relay_close_copy(struct relay *relay);
/* Goes on without it: nobody reads it, or too slowly. */
void relay_lose_copy(struct relay *relay);

/* "1 GiB", "1500 bytes": pure. */
enum { RELAY_SIZE_MAX = 32 };
void relay_size_text(uint64_t bytes, char out[RELAY_SIZE_MAX]);

#endif
