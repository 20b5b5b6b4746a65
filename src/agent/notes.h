/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences about how things are now, and which of them are new: so that each is told once, however
 * often it is found again. Knows nothing of what they are about.
 */
#ifndef SLUICE_AGENT_NOTES_H
#define SLUICE_AGENT_NOTES_H

#include <stdbool.h>
#include <stddef.h>

enum notes_limits { NOTES_MAX = 1024, NOTES_TEXT_MAX = 512 };

/* Zero-initialised; freed by notes_done(). */
struct notes {
	char **items; /* owned */
	size_t count, room;
};

/* Adds one, cut at NOTES_TEXT_MAX; beyond NOTES_MAX and without memory it is left out. */
void notes_add(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool notes_have(const struct notes *notes, const char *text);
/* `*now` becomes what is known, and is empty afterwards. Each that was not known before is told. */
void notes_replace(struct notes *known, struct notes *now,
		   void (*tell)(const char *text, void *context), void *context);
void notes_done(struct notes *notes);

#endif
