/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of a remote shell as MPI's launchers write it: options that ssh has and that
 * mean nothing here, a host, and words that are joined by one blank for a shell, since some of them
 * have quotes of their own. Pure, and without a C library. Knows nothing of sockets.
 */
#ifndef SLUICE_LIBEXEC_RSH_WORDS_H
#define SLUICE_LIBEXEC_RSH_WORDS_H

#include <stddef.h>

enum words_result {
	WORDS_OK,
	WORDS_HELP,
	WORDS_BAD_OPTION, /* one that is not known */
	WORDS_NO_HOST,
	WORDS_NO_COMMAND,
	WORDS_TOO_LONG, /* host or text */
};

struct rsh_words {
	const char *host; /* borrowed of the arguments, behind an "user@" */
	size_t host_length;
	size_t length; /* of the text, without its NUL */
};

/*
 * `argv` has `argc` strings, the first being the program's name. The text goes to `text`, which has
 * room for `size` bytes with its NUL; `host_max` is the longest host. `out` says nothing unless the
 * result is WORDS_OK, except for the length that WORDS_TOO_LONG would need.
 */
enum words_result words_parse(int argc, const char *const *argv, size_t host_max, char *text,
			      size_t size, struct rsh_words *out);

#endif
