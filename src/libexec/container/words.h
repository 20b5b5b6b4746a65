/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command line that is put together word by word, without a shell. Knows nothing of what it
 * says.
 */
#ifndef SLUICE_LIBEXEC_CONTAINER_WORDS_H
#define SLUICE_LIBEXEC_CONTAINER_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct err;

/* Empty when it is all zero; freed by words_take() alone. */
struct words {
	char **words; /* owned; ends in NULL */
	size_t count, room;
	bool failed; /* no memory: whoever takes the words is told */
};

void words_add(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, unless the word is there already. */
void words_add_once(struct words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The words: they end in NULL, and are given back by words_free(). -ENOMEM; then they are freed. */
int words_take(struct words *words, char ***out, struct err *err);
/* NULL. */
char **words_free(char **argv);

#endif
