/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that a script has at its head: lines "#SLUICE OPTIONS" before its first command. Pure:
 * bytes in, words out. Knows nothing of what the options mean.
 *
 * A word ends at a blank; '...' and "..." keep blanks, a backslash takes the next character as it
 * is (not within '...'), and '#' at the beginning of a word ends the line. Nothing is expanded.
 */
#ifndef SLUICE_CMD_SCRIPT_RUN_SCRIPT_H
#define SLUICE_CMD_SCRIPT_RUN_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum run_script_limits {
	RUN_SCRIPT_BYTES_MAX = 65536, /* of the script that are looked at */
	RUN_SCRIPT_WORDS_MAX = 256,
	RUN_SCRIPT_NOTES_MAX = 64, /* lines that are told of */
};

/* A line that does nothing here. */
struct run_script_note {
	size_t line;
	bool is_late; /* a #SLUICE behind the first command; else an #SBATCH */
	const char
	    *text; /* borrowed of the script: the words of an #SBATCH, up to the line's end */
	size_t length;
};

struct run_script {
	char *bytes;   /* owned: the words */
	char **words;  /* owned; end in NULL */
	size_t *lines; /* owned: of each word */
	size_t count;
	struct run_script_note *notes; /* owned */
	size_t note_count;
};

/* Whether it is a script at all: "#!". */
bool run_script_is(const char *bytes, size_t length);
/* The interpreter and its one argument, as the kernel reads the first line; of `out` the texts are
 * to be freed. 0: there is none. */
size_t run_script_interpreter(const char *bytes, size_t length, char *out[2]);
/* `path` is for the errors, "train.sh:3:12: the quote is not closed". -EINVAL, -E2BIG: too many
 * words, -ENOMEM. `bytes` has to live as long as the notes. run_script_done() follows in any case.
 */
int run_script_read(const char *path, const char *bytes, size_t length, struct run_script *out,
		    struct err *err);
void run_script_done(struct run_script *script);

#endif
