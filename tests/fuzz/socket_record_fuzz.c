/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever stands in the note of our sockets: what is taken names a socket by an absolute path that
 * leads nowhere else, and is taken again as it is. */
#include "agent/socket_record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct notes noted = {.count = 0};
	socket_record_parse((const char *)data, size, &noted);

	for (size_t i = 0; i < noted.count; i++) {
		const char *path = noted.items[i];
		size_t length = strlen(path);
		struct notes again = {.count = 0};
		if (path[0] != '/' || length < 6 || strcmp(path + length - 5, ".sock") != 0 ||
		    strstr(path, "/../") || strchr(path, '\n') || !memmem(data, size, path, length))
			abort();

		socket_record_parse(path, length, &again);
		if (again.count != 1 || strcmp(again.items[0], path) != 0)
			abort();
		notes_done(&again);
	}

	notes_done(&noted);
	return 0;
}
