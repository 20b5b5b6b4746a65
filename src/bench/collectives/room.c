/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/room.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"

enum {
	ROOM_FILE_MAX = 65536,
	ROOM_KIB = 1024,
	ROOM_DEPTH_MAX = 64,
};

/* Version 1 says so where there is no limit: the largest multiple of a page. */
#define ROOM_NO_LIMIT (UINT64_C(1) << 60)

static int room_read(const char *root, const char *directory, const char *name, struct buf *out)
{
	char path[FILE_PATH_MAX];
	buf_clear(out);
	int rc = file_path(path, NULL, "%s%s/%s", root, directory, name);
	return rc < 0 ? rc : file_read(path, out, NULL);
}

static int room_number(const char *root, const char *directory, const char *name, uint64_t *out)
{
	struct buf text _cleanup_buf_;
	buf_init(&text, ROOM_FILE_MAX);
	int rc = room_read(root, directory, name, &text);
	if (rc < 0)
		return rc;
	size_t length = strcspn(buf_text(&text), "\n");
	return parse_u64_span(buf_text(&text), length, 0, UINT64_MAX, out); /* "max": -EINVAL */
}

/* The value behind "KEY " at the beginning of a line. */
static int room_field(const char *text, size_t length, const char *key, uint64_t *out)
{
	size_t key_length = strlen(key);
	const char *end = text + length;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		if ((size_t)(stop - text) > key_length && memcmp(text, key, key_length) == 0) {
			text += key_length;
			while (text < stop && *text == ' ')
				text++;

			const char *digits = text;

			while (text < stop && *text >= '0' && *text <= '9')
				text++;

			return parse_u64_span(digits, (size_t)(text - digits), 0, UINT64_MAX, out);
		}

		text = stop + 1;
	}

	return -EBADMSG;
}

int room_parse_available(const char *text, size_t length, uint64_t *out)
{
	uint64_t kib;
	if (room_field(text, length, "MemAvailable:", &kib) < 0 || kib > UINT64_MAX / ROOM_KIB)
		return -EBADMSG;
	*out = kib * ROOM_KIB;
	return 0;
}

static void room_offer(struct room *room, uint64_t limit, uint64_t used, uint64_t given_back,
		       const char *who)
{
	uint64_t held = used > given_back ? used - given_back : 0;
	uint64_t bytes = limit > held ? limit - held : 0;
	if (bytes >= room->bytes)
		return;
	room->bytes = bytes;
	(void)snprintf(room->limit, sizeof(room->limit), "%.*s", ROOM_LIMIT_MAX - 1, who); /* cut */
}

struct room_names {
	const char *mount, *limit, *used, *cache; /* cache: the key in memory.stat */
};

static void room_group(const char *root, const struct room_names *names, const char *directory,
		       struct room *out)
{
	uint64_t limit, used = 0, cache = 0;
	struct buf text _cleanup_buf_;
	char who[FILE_PATH_MAX];

	buf_init(&text, ROOM_FILE_MAX);
	if (room_number(root, directory, names->limit, &limit) < 0 || limit >= ROOM_NO_LIMIT)
		return;

	(void)room_number(root, directory, names->used, &used); /* then 0 */
	if (room_read(root, directory, "memory.stat", &text) == 0)
		(void)room_field(buf_text(&text), text.length, names->cache, &cache); /* then 0 */
	if (file_path(who, NULL, "%s of %s", names->limit, directory) == 0)
		room_offer(out, limit, used, cache, who);
}

/* The group and all above it. */
static void room_groups(const char *root, const struct room_names *names, const char *group,
			size_t length, struct room *out)
{
	char directory[FILE_PATH_MAX];
	size_t mount = strlen(names->mount);
	if (file_path(directory, NULL, "%s%.*s", names->mount, (int)length, group) < 0)
		return;

	for (int depth = 0; depth < ROOM_DEPTH_MAX; depth++) {
		room_group(root, names, directory, out);
		char *slash = strrchr(directory + mount, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
}

void room_find(const char *root, struct room *out)
{
	static const struct room_names unified = {"/sys/fs/cgroup", "memory.max", "memory.current",
						  "inactive_file "};
	static const struct room_names legacy = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
						 "memory.usage_in_bytes", "total_inactive_file "};
	struct buf text _cleanup_buf_;
	uint64_t available;

	buf_init(&text, ROOM_FILE_MAX);
	*out = (struct room){.bytes = UINT64_MAX};

	if (room_read(root, "/proc", "meminfo", &text) == 0 &&
	    room_parse_available(buf_text(&text), text.length, &available) == 0)
		room_offer(out, available, 0, 0, "MemAvailable of /proc/meminfo");
	if (room_read(root, "/proc/self", "cgroup", &text) < 0)
		return;

	/* "0::/group" is version 2, "9:memory:/group" version 1. */
	for (const char *line = buf_text(&text); *line;) {
		size_t length = strcspn(line, "\n");
		const char *first = memchr(line, ':', length);
		const char *second =
		    first ? memchr(first + 1, ':', length - (size_t)(first + 1 - line)) : NULL;
		if (second) {
			size_t rest = length - (size_t)(second + 1 - line);
			size_t kind = (size_t)(second - first) - 1;
			if (kind == 0)
				room_groups(root, &unified, second + 1, rest, out);
			else if (kind == strlen("memory") && memcmp(first + 1, "memory", kind) == 0)
				room_groups(root, &legacy, second + 1, rest, out);
		}

		line += length + (line[length] == '\n');
	}
}
