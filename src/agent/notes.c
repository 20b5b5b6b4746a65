/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void notes_add(struct notes *notes, const char *format, ...)
{
	char text[NOTES_TEXT_MAX];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);

	if (notes->count < NOTES_MAX &&
	    array_room(&notes->items, notes->count, &notes->room, 8) == 0 &&
	    (notes->items[notes->count] = strdup(text)))
		notes->count++;
}

bool notes_have(const struct notes *notes, const char *text)
{
	for (size_t i = 0; i < notes->count; i++) {
		if (strcmp(notes->items[i], text) == 0)
			return true;
	}
	return false;
}

void notes_replace(struct notes *known, struct notes *now,
		   void (*tell)(const char *text, void *context), void *context)
{
	for (size_t i = 0; i < now->count; i++) {
		if (!notes_have(known, now->items[i]))
			tell(now->items[i], context);
	}
	notes_done(known);
	*known = *now;
	*now = (struct notes){.count = 0};
}

void notes_done(struct notes *notes)
{
	for (size_t i = 0; i < notes->count; i++)
		free(notes->items[i]);
	free(notes->items);
	*notes = (struct notes){.count = 0};
}
