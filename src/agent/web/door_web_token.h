/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file with the token of page and metrics: read on the storage thread, looked at each second,
 * read again when it is another. A file that cannot be read, or that is no token, is a broken one:
 * then nobody gets in. All of it but the reading belongs to the loop's thread.
 */
#ifndef SLUICE_AGENT_WEB_DOOR_WEB_TOKEN_H
#define SLUICE_AGENT_WEB_DOOR_WEB_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct log;
struct loop;
struct storage;
struct web_token;

#define WEB_TOKEN_LOOK_NS UINT64_C(1000000000)

enum web_token_limits {
	WEB_TOKEN_MIN = 8,   /* characters: anything shorter is a mistake */
	WEB_TOKEN_MAX = 512, /* with its NUL */
	WEB_TOKEN_FILE_MAX = 4096,
	WEB_TOKEN_PROBLEM_MAX = 320,
};

/*
 * The first and only line of `text`: characters that may stand behind "Bearer " (RFC 6750: letters,
 * digits and -._~+/, then perhaps =), blanks and line ends behind it left out. -EINVAL: empty, too
 * short, too long, several lines, other characters; the text never shows any of it.
 */
int web_token_parse(const char *text, size_t length, char out[WEB_TOKEN_MAX], struct err *err);

struct web_token_options {
	struct loop *loop;	 /* borrowed, all of these */
	struct storage *storage; /* ends before web_token_free() */
	struct log *log;	 /* may be NULL */
	void (*changed)(void *context);
	void *context;
};

/* No token is wanted yet. -ENOMEM. */
int web_token_new(const struct web_token_options *options, struct web_token **out, struct err *err);
void web_token_stop(struct web_token *token);
/* After the storage thread has ended. NULL is fine; returns NULL. */
struct web_token *web_token_free(struct web_token *token);

/* Which file; "": none, and nobody needs a token. One that was not read yet is broken. */
void web_token_set_file(struct web_token *token, const char *path);

bool web_token_is_wanted(const struct web_token *token);
/* NULL: it is broken, and web_token_problem() says why. Borrowed until changed(). */
const char *web_token_text(const struct web_token *token);
/* Also of one that others can read, too; "" when all is well. Names the file. Borrowed. */
const char *web_token_problem(const struct web_token *token);

#endif
