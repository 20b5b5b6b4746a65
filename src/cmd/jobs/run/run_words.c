/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_words.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* Outside of quotes these mean themselves in every shell. '=' as well, but not in the first word.
 */
#define RUN_WORDS_PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,@%+-="

/* Reserved words and builtins of dash, bash, ksh, yash and busybox: a program of that name is not
 * what a line means. Sorted. */
static const char *const run_words_builtins[] = {
    ".",	 ":",	     "[",	  "[[",	      "alias",	  "autoload", "bg",
    "bind",	 "break",    "builtin",	  "caller",   "case",	  "cat",      "cd",
    "chdir",	 "command",  "compgen",	  "complete", "compopt",  "continue", "coproc",
    "declare",	 "dirs",     "disown",	  "do",	      "done",	  "echo",     "elif",
    "else",	 "enable",   "end",	  "esac",     "eval",	  "exec",     "exit",
    "export",	 "false",    "fc",	  "fg",	      "fi",	  "float",    "for",
    "foreach",	 "function", "functions", "getconf",  "getopts",  "global",   "hash",
    "help",	 "hist",     "history",	  "if",	      "in",	  "integer",  "jobs",
    "kill",	 "let",	     "local",	  "logout",   "mapfile",  "mknod",    "nameref",
    "namespace", "newgrp",   "nohup",	  "popd",     "print",	  "printf",   "pushd",
    "pwd",	 "read",     "readarray", "readonly", "realpath", "rename",   "repeat",
    "return",	 "select",   "set",	  "shift",    "shopt",	  "sleep",    "source",
    "stop",	 "suspend",  "test",	  "then",     "time",	  "times",    "trap",
    "true",	 "type",     "typeset",	  "ulimit",   "umask",	  "unalias",  "unset",
    "until",	 "wait",     "whence",	  "while",    "{",	  "}",
};

static int run_words_compare(const void *name, const void *row)
{
	return strcmp(name, *(const char *const *)row);
}

static bool run_words_is_builtin(const char *name)
{
	return bsearch(name, run_words_builtins, array_length(run_words_builtins),
		       sizeof(run_words_builtins[0]), run_words_compare);
}

static bool run_words_has_functions(char *const *environment)
{
	for (size_t i = 0; environment && environment[i]; i++)
		if (text_starts_with(environment[i], "BASH_FUNC_"))
			return true;
	return false;
}

/* Copies one word, which begins at `*from`, to `*to`, with a NUL. False: it is not a plain one. */
static bool run_words_take(const char **from, char **to)
{
	const char *at = *from;
	char *out = *to;

	while (*at && *at != ' ' && *at != '\t') {
		bool is_quote = *at == '\'' || *at == '"';
		/* Within "" these four are special. */
		const char *special = *at == '"' ? "\"$`\\" : "'";
		size_t length = is_quote ? strcspn(at + 1, special) : strspn(at, RUN_WORDS_PLAIN);

		if (is_quote ? at[length + 1] != *at : length == 0)
			return false;

		memcpy(out, at + is_quote, length);
		out += length;
		at += length + (is_quote ? 2 : 0);
	}

	*out++ = '\0';
	*from = at;
	*to = out;
	return true;
}

/* How many words there are; 0: none, too many, or one that is not plain. */
static size_t run_words_fill(const char *line, char *text, char **words)
{
	size_t count = 0;

	for (line += strspn(line, " \t"); *line; line += strspn(line, " \t")) {
		if (count == RUN_WORDS_MAX)
			return 0;
		words[count++] = text;
		if (!run_words_take(&line, &text))
			return 0;
	}

	words[count] = NULL;
	return count;
}

/* Drops an `exec` without options: what follows it is a program, whatever its name. */
static bool run_words_are_program(const char *line, char **words, size_t count,
				  char *const *environment)
{
	const char *first = line + strspn(line, " \t");
	bool has_exec =
	    count > 1 && strcmp(words[0], "exec") == 0 && first[0] == 'e' && words[1][0] != '-';

	if (has_exec)
		memmove(words, words + 1, count * sizeof(*words));
	if (!words[0][0] || strchr(words[0], '='))
		return false;

	return has_exec ||
	       (!run_words_has_functions(environment) && !run_words_is_builtin(words[0]));
}

int run_words_split(const char *line, char *const *environment, char ***out)
{
	size_t room = (RUN_WORDS_MAX + 1) * sizeof(char *);
	/* A word is no longer than it was on the line, and its NUL takes the place of a blank. */
	char **words = malloc(room + strlen(line) + 1);
	if (!words)
		return -ENOMEM;

	size_t count = run_words_fill(line, (char *)words + room, words);
	if (count == 0 || !run_words_are_program(line, words, count, environment)) {
		free(words);
		return 0;
	}

	*out = words;
	return 1;
}
