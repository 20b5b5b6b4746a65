/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the holder of a GPU says of itself to those who wait for it: one line of text, the same in
 * a lock file and on a token's socket. It comes from another user's process, so it is read as
 * strictly as anything from outside and believed only where the kernel does not know better (pid
 * and uid come from SO_PEERCRED wherever there is a socket).
 */
#ifndef SLUICE_JOB_NOTE_H
#define SLUICE_JOB_NOTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

enum note_limits {
	NOTE_NAME_MAX = 64,  /* bytes with the final NUL */
	NOTE_TEXT_MAX = 160, /* bytes of the line with its newline and a final NUL */
};

struct note {
	pid_t pid;		  /* 0: not known */
	uid_t uid;		  /* meaningful when pid is known */
	uint64_t since_s;	  /* wall clock, seconds since 1970; 0: not known */
	char name[NOTE_NAME_MAX]; /* visible ASCII without blanks; "": not known */
};

/* Writes the line, newline included. Returns its length, always below NOTE_TEXT_MAX. */
size_t note_format(const struct note *note, char out[NOTE_TEXT_MAX]);

/*
 * Reads a line of `length` bytes; the newline may be missing. -EINVAL for anything that
 * note_format() cannot have written. Pure.
 */
int note_parse(const char *text, size_t length, struct note *out, struct err *err);

/*
 * Makes a name out of any text: what is not visible ASCII becomes '-', what is too long is cut,
 * nothing at all becomes "job".
 */
void note_set_name(struct note *note, const char *text);

#endif
